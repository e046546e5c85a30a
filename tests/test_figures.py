# SPDX-License-Identifier: BSD-3-Clause
"""Figures from fabricated samples."""

from __future__ import annotations

import msgspec
import pytest
from results import NO_PMU, count, counted, region, result, sample

from cachebench.analyze.figures import FIGURES, Evidence, figures
from cachebench.analyze.ratios import cpu_time_ratio
from cachebench.model import Arena, Experiment, Figure, Sample, Share

SPEC = Experiment(layouts=("flat",), sessions=1000)


def test_a_process_is_the_median_of_its_regions_and_the_figure_the_mean_of_processes() -> None:
    samples = [sample(0, 50, 51, 500), sample(1, 51, 51, 51)]
    figure = figures(Evidence(SPEC, samples))["ns_per_lookup"]
    assert figure.value == pytest.approx(51.0)
    assert figure.low == pytest.approx(51.0) == figure.high
    assert (figure.unit, figure.source) == ("ns", "measured")


def test_percentiles_of_a_burst_are_in_ns_by_the_processs_own_ticks() -> None:
    found = figures(Evidence(SPEC, [sample(0, 50)]))
    assert found["burst_p50_ns"].value == pytest.approx(502.5, abs=2)  # 2 ticks a ns
    assert found["burst_p999_ns"].value == pytest.approx(4517, abs=10)


def test_a_percentile_has_at_least_ten_bursts_beyond_it() -> None:
    few = sample(0, 50, latency=((1000, 1010, 9_900), (9000, 9100, 99)))
    found = figures(Evidence(SPEC, [few]))
    assert found["burst_p99_ns"].value is not None
    assert found["burst_p999_ns"].value is None
    assert found["burst_p999_ns"].reason == "fewer than ten bursts lie beyond it"


def test_counters_are_per_lookup_less_what_an_empty_region_counts() -> None:
    process = counted(count("cycles", 90e6 + 500, 500), count("instructions", 180e6))
    found = figures(Evidence(SPEC, [process]))
    assert found["cycles_per_lookup"].value == pytest.approx(90)
    assert found["ipc"].value == pytest.approx(2.0, rel=1e-4)
    assert found["ipc"].low is None


def test_backend_stalls_follow_the_formula_of_the_cpu() -> None:
    share = Share(numerator="backend_slots", denominator="cycles", factor=6, text="")
    process = counted(count("cycles", 100e6), count("backend_slots", 300e6), backend_stalls=share)
    assert figures(Evidence(SPEC, [process]))["backend_stall_share"].value == pytest.approx(0.5)


def test_a_share_above_one_is_no_figure() -> None:
    share = Share(numerator="backend_slots", denominator="slots", factor=1, text="")
    process = counted(count("slots", 1e6), count("backend_slots", 3e6), backend_stalls=share)
    figure = figures(Evidence(SPEC, [process]))["backend_stall_share"]
    assert (figure.value, figure.reason) == (None, "the counts give no share from 0 to 1")


def test_a_counter_below_its_empty_region_is_no_negative_figure() -> None:
    figure = figures(Evidence(SPEC, [counted(count("llc_misses", 3, 7))]))["llc_misses_per_lookup"]
    assert figure.value is None
    assert figure.reason == "not more were counted than without lookups"


def test_the_interval_of_a_share_stays_a_share() -> None:
    def part(process: int, huge: int) -> Sample:
        return sample(
            process, 50, arenas=(Arena(name="session", bytes=100, resident=100, huge=huge),)
        )

    figure = figures(Evidence(SPEC, [part(0, 100), part(1, 80)]))["huge_page_share"]
    assert figure.value == pytest.approx(0.9)
    assert figure.high == 1.0


def test_layouts_whose_huge_pages_differ_have_no_ratio() -> None:
    base, head = result("flat", "pointer").results
    small = Figure(value=0.5, unit="share", source="measured")
    other = msgspec.structs.replace(head, figures=head.figures | {"huge_page_share": small})
    assert cpu_time_ratio(base, head).value == pytest.approx(1.2)
    assert "huge pages" in str(cpu_time_ratio(base, other).reason)


def test_a_counter_that_was_not_counted_has_its_reason_and_no_value() -> None:
    found = figures(Evidence(SPEC, [sample(0, 50)], unavailable={"cycles": NO_PMU}))
    assert found["cycles_per_lookup"].value is None
    assert found["cycles_per_lookup"].reason == NO_PMU
    assert found["llc_misses_per_lookup"].value is None


def test_stage_cuts_give_times_up_to_a_stage_only_when_they_were_run() -> None:
    plain = figures(Evidence(SPEC, [sample(0, 50)]))
    cut = figures(
        Evidence(SPEC, [sample(0, 50, stages={"hash": (region(3.0), region(4.0), region(5.0))})])
    )
    assert "ns_to_hash" not in plain
    assert cut["ns_to_hash"].value == pytest.approx(4.0)


def test_the_share_in_huge_pages_leaves_the_free_lists_out() -> None:
    assert figures(Evidence(SPEC, [sample(0, 50)]))["huge_page_share"].value == pytest.approx(1.0)


def test_names_and_titles_of_figures_are_unique() -> None:
    assert len({spec.name for spec in FIGURES}) == len(FIGURES)
    assert len({spec.title for spec in FIGURES}) == len(FIGURES)
