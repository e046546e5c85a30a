# SPDX-License-Identifier: BSD-3-Clause
"""The line trace: exact counts by object and member, the same in every process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from cachebench import build, catalogue, tracing
from cachebench.analyze import curve, lines
from cachebench.cli import main
from cachebench.errors import CachebenchError
from cachebench.geometry import describe, geometry
from cachebench.machine.environment import collect
from cachebench.model import Experiment
from cachebench.tracemodel import Object

LAYOUTS = [layout.name for layout in catalogue.builtin_layouts()]
SMALL = "l1=48k/12,l2=2M/16,llc=32M/16"


class Silent:
    def message(self, text: str) -> None:
        pass

    def step(self, text: str, done: int, total: int) -> None:
        pass


def traced(name: str, **changes: object) -> tuple[Object, ...]:
    """The objects of a trace of 20,000 lookups at 20,000 sessions, by demand alone."""
    fields: dict[str, object] = {"layouts": (name,), "sessions": 20_000}
    experiment = Experiment(**(fields | changes))  # type: ignore[arg-type]
    asked = tracing.Asked(experiment, SMALL, lookups=20_000, warm_up=5_000, prefetch=False)
    (result,) = tracing.trace(asked, Silent()).results
    return result.objects


def by_name(found: tuple[Object, ...]) -> dict[str, Object]:
    return {each.name: each for each in found}


# Distinct lines that a bulk hit demands of the session, counted by hand in the
# headers: one for each object, or for each array of soa.
SESSION_LINES = {
    "flat": 1,
    "hotcold": 1,
    "embedded": 0,  # in the key entry's own line
    "flat5": 5,
    "pointer": 5,
    "index32": 5,
    "soa": 12,
}


@pytest.mark.parametrize("name", SESSION_LINES)
def test_a_hit_demands_the_lines_that_the_header_shows(name: str) -> None:
    found = traced(name)
    lookup = {"bucket", "key", "rules"}
    session = sum(each.lines for each in found if each.name not in lookup)
    assert session == pytest.approx(SESSION_LINES[name], abs=1e-9)
    # Bulk compares both buckets; the alternate of one key in 4,096 is its primary.
    assert by_name(found)["bucket"].lines == pytest.approx(2.0, abs=0.001)
    assert by_name(found)["rules"].lines == pytest.approx(1.0)
    assert by_name(found)["key"].lines == pytest.approx(1.0, abs=0.01)  # false signatures


def test_packed_straddles_as_its_stride_says() -> None:
    (session,) = [each for each in traced("packed") if each.name == "session"]
    # The hot members, by their offsets in layouts/packed.h; element i begins at 227 i.
    members = [(25, 12), (89, 8), (149, 4), (157, 8), (173, 4), (189, 8), (197, 4)]
    by_start = [
        {
            line
            for offset, size in members
            for line in range((start + offset) // 64, (start + offset + size - 1) // 64 + 1)
        }
        for start in range(64)
    ]
    expected = sum(map(len, by_start)) / 64  # 227 is odd: every start is as frequent
    assert session.lines == pytest.approx(expected, abs=0.02)


def test_pointer_has_four_lines_more_than_flat_and_they_have_names() -> None:
    pointer, flat = by_name(traced("pointer")), by_name(traced("flat"))
    assert set(pointer) - set(flat) == {"qos", "policer", "stats", "action"}
    more = sum(e.lines for e in pointer.values()) - sum(e.lines for e in flat.values())
    assert more == pytest.approx(4.0, abs=0.02)


@pytest.mark.parametrize("mode", ["bulk", "single", "serial"])
def test_each_member_is_read_and_written_as_the_packets_work_says(mode: str) -> None:
    asked = tracing.Asked(
        Experiment(layouts=("flat",), sessions=20_000, mode=mode),  # type: ignore[arg-type]
        SMALL,
        lookups=20_000,
        warm_up=0,
    )
    trace = tracing.trace(asked, Silent())
    (session,) = [o for o in trace.results[0].objects if o.name == "session"]
    heat = {m.path: m.heat for m in session.members}
    written = {path for path, each in heat.items() if each.writes}
    assert written == {
        "stats.bytes",
        "stats.packets",
        "stats.last_seen",
        "policer.tokens",
        "policer.tick",
    }
    assert all(heat[path].writes == pytest.approx(1.0) for path in written)
    assert not any(path.startswith("cold") for path in heat)
    assert heat["rule"].reads == pytest.approx(1.0)


def test_misses_touch_no_session() -> None:
    found = by_name(traced("flat", hit_ratio=0.5))
    assert found["session"].lines == pytest.approx(0.5, abs=0.02)
    assert found["rules"].lines == pytest.approx(found["session"].lines)


def test_a_shared_profile_is_found_in_l2_and_is_a_miss_of_its_own_once_it_is_not_shared() -> None:
    shared = by_name(traced("pointer", sessions=200_000))["qos"].heat.missed
    own = by_name(traced("pointer", sessions=200_000, profiles=200_000))["qos"].heat.missed
    assert shared[1] < 0.01 < 0.1 < shared[0]
    assert own[1] > 0.5


def test_after_the_warm_up_a_cache_that_holds_all_lines_misses_none() -> None:
    experiment = Experiment(layouts=("pointer",), sessions=50_000)
    large = "l1=48k/12,l2=2M/16,llc=512M/16"
    warm, cold = (
        tracing.trace(tracing.Asked(experiment, large, 20_000, warm_up), Silent()).results[0]
        for warm_up in (5_000, 0)
    )
    assert sum(o.heat.missed[2] + o.heat.prefetch_missed[2] for o in warm.objects) == 0
    assert sum(o.heat.prefetch_missed[2] for o in cold.objects) > 4
    # What is in lines is the same, and L1 knows no difference.
    assert lines.lines_per_lookup(warm.objects) == pytest.approx(9.0, abs=0.01)


def test_a_miss_is_of_the_level_that_it_is_told_of() -> None:
    def missed(geometry: str) -> list[float]:
        experiment = Experiment(layouts=("flat",), sessions=20_000)
        asked = tracing.Asked(experiment, geometry, 20_000, 5_000, prefetch=False)
        found = tracing.trace(asked, Silent()).results[0].objects
        return [lines.misses_per_lookup(found, level, prefetch=False) for level in range(3)]

    l1, l2, llc = missed("l1=48k/12,l2=1M/16")
    assert l1 > l2 > 1
    assert llc == 0
    assert missed("l1=48k/12,llc=1M/16") == [l1, 0.0, l2]


def test_a_trace_build_whose_hooks_are_lost_is_no_trace_of_zeros(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["trace", "--sessions", "2k", "--lookups", "500", "--cflags=-flto"]
    assert main(arguments) == 2
    assert "reported no load or store" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["l1=99999999999999999G/16", "l1=48k/12,dtlb=4000000000000/4", "l1=128G/1"]
)
def test_a_memory_that_is_too_large_is_refused_before_anything_runs(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "--geometry", text]) == 2
    assert "can be simulated" in capsys.readouterr().err


def test_software_prefetches_bring_lines_in_and_are_reported_apart() -> None:
    experiment = Experiment(layouts=("flat",), sessions=200_000)
    demand, both = (
        tracing.trace(tracing.Asked(experiment, SMALL, 50_000, 10_000, prefetch), Silent())
        .results[0]
        .objects
        for prefetch in (False, True)
    )
    assert lines.lines_per_lookup(demand) == lines.lines_per_lookup(both)
    assert lines.misses_per_lookup(demand, 0, prefetch=True) == 0
    assert lines.misses_per_lookup(both, 0, prefetch=False) < 1.1  # the rule alone
    assert lines.misses_per_lookup(both, 0, prefetch=True) > 3.5
    assert lines.misses_per_lookup(demand, 0, prefetch=False) == pytest.approx(
        lines.misses_per_lookup(both, 0, prefetch=True)
        + lines.misses_per_lookup(both, 0, prefetch=False),
        rel=0.05,
    )


def test_counts_are_the_same_in_every_process_and_environment(tmp_path: Path) -> None:
    command = str(Path(sysconfig.get_path("scripts")) / "cachebench")
    documents = []
    for number in range(3):
        done = subprocess.run(
            [
                *(command, "trace", "--layout", "pointer", "--sessions", "20k"),
                *("--geometry", SMALL, "--lookups", "20k", "--warm-up", "5k", "--json"),
            ],
            capture_output=True,
            check=True,
            env={**os.environ, "FILLER": "x" * (number * 1237)},
        )
        document = json.loads(done.stdout)
        for name in ("seconds", "counted_seconds"):
            del document["results"][0]["sample"][name]
        documents.append(document)
    assert documents[0] == documents[1] == documents[2]


def test_each_layout_is_traced_by_name_in_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    options = ("--sessions", "2k", "--lookups", "2k", "--warm-up", "0", "--geometry", SMALL)
    assert main(["trace", "--layout", "pointer", "--layout", "soa", *options]) == 0
    out = capsys.readouterr().out
    assert "session.policer → policer" in out
    assert "policer.tokens" in out
    assert "Hardware prefetch is not modelled" in " ".join(out.split())


TLBS = "dtlb=64/4,stlb=2048/16"


def page_walks(**changes: object) -> float:
    """Of all objects of a lookup in 4K pages, 200,000 sessions."""
    fields = {"layouts": ("flat",), "sessions": 200_000, "pages": "4k"} | changes
    tlbs = fields.pop("tlbs", TLBS)
    experiment = Experiment(**fields)  # type: ignore[arg-type]
    asked = tracing.Asked(experiment, f"{SMALL},{tlbs}", lookups=20_000, warm_up=20_000)
    result = tracing.trace(asked, Silent())
    heat = lines.total(each.heat for each in result.results[0].objects)
    return lines.walks(heat, result.geometry)


def test_walks_are_what_the_last_tlb_missed() -> None:
    small = page_walks()
    assert 1 < small < 4  # of buckets, key, session and rule, each in a page of its own
    assert page_walks(pages="thp") == 0  # 50 MB in 2M pages
    assert page_walks(tlbs="dtlb=64/4") > small
    assert page_walks(tlbs="dtlb=2048/16") == pytest.approx(small, rel=0.02)


@pytest.mark.parametrize(("width", "column"), [(80, False), (140, True)])
def test_walks_stand_beside_the_misses_or_below(
    width: int,
    column: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    options = ("--sessions", "1M", "--pages", "4k", "--lookups", "20k", "--warm-up", "0")
    assert main(["trace", "--layout", "pointer", *options, "--geometry", f"{SMALL},{TLBS}"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert f"{SMALL},{TLBS}" in text.replace("\n", "")
    (head,) = [line for line in text.splitlines() if line.startswith("pointer ")]
    assert head.endswith(" walks") == column
    below = [line for line in text.splitlines() if line.startswith("pointer: ")]
    assert bool(below) != column
    if below:
        assert re.match(r"pointer: \d\.\d\d walks: bucket \d\.\d\d, key ", below[0])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("l1=48k/0", "no whole number of sets"),
        ("l1=50k/12", "no whole number of sets"),
        ("l2=2M/16", "l1 is missing"),
        ("l1=48k", "l1=SIZE/WAYS"),
        ("", "l1=SIZE/WAYS"),
    ],
)
def test_a_geometry_that_cannot_be_is_refused(text: str, says: str) -> None:
    with pytest.raises(CachebenchError, match=says):
        geometry(text, {}, "thp")


def test_a_geometry_is_told_as_it_is_typed() -> None:
    typed = "l1=48k/12,llc=105M/15,dtlb=64/4,stlb=2048/16"
    assert describe(geometry(typed, {}, "4k")) == typed
    host = geometry(None, collect(), "thp")
    assert host.source.startswith("caches of the host, TLB by ")
    assert geometry(describe(host), {}, "thp").caches == host.caches
    assert geometry(describe(host), {}, "thp").tlbs == host.tlbs
    assert host.caches[0].ways > 0


def test_a_kernel_that_is_no_trace_build_is_refused() -> None:
    from cachebench import core
    from cachebench._core import ffi, lib
    from cachebench.tracer import _geometry

    plain = build.load(None, "flat", 16)
    assert plain.trace == ffi.NULL
    experiment = Experiment(layouts=("flat",), sessions=1000)
    with core.traffic(experiment), core.arm(plain, experiment, 1) as arm:
        why = core.Why()
        trace = lib.cb_trace_open(
            arm, _geometry(geometry(SMALL, {}, "thp")), 1, why.buffer, why.size
        )
        stream = ffi.new("struct cb_stream *")
        failed = lib.cb_trace_run(
            trace, arm, plain, stream, lib.CB_BULK, 0, 32, 1, why.buffer, why.size
        )
        lib.cb_trace_close(trace)
    assert failed
    assert "no trace build" in str(why.error())


def test_the_curve_at_rate_1_is_the_fully_associative_simulation() -> None:
    size = 4096 * 64  # the most ways that are simulated
    asked = tracing.Asked(
        Experiment(layouts=("flat",), sessions=20_000),
        f"l1={size}/{size // 64}",
        lookups=20_000,
        warm_up=5_000,
        prefetch=False,
        curve_rate=1.0,
    )
    traced = tracing.trace(asked, Silent()).results[0]
    simulated = {o.name: o.heat.missed[0] for o in traced.objects}
    curves = {name: values[0] for name, values in curve.misses(traced.sample, (size,)).items()}
    assert curves == pytest.approx(simulated)


def test_a_curve_falls_and_a_sampled_one_is_near_the_exact_one() -> None:
    def total(rate: float) -> list[float]:
        asked = tracing.Asked(
            Experiment(layouts=("pointer",), sessions=100_000), SMALL, 50_000, 20_000, False, rate
        )
        sample = tracing.trace(asked, Silent()).results[0].sample
        return [sum(column) for column in zip(*curve.misses(sample).values(), strict=True)]

    exact, sampled = total(1.0), total(0.1)
    assert exact == sorted(exact, reverse=True)
    assert exact[0] > 8 > exact[-1]
    assert sampled == pytest.approx(exact, abs=0.35)


def test_a_trace_without_a_curve_has_none() -> None:
    asked = tracing.Asked(Experiment(layouts=("flat",), sessions=1000), SMALL, 1000, 0)
    with pytest.raises(ValueError, match="no stack distances"):
        curve.misses(tracing.trace(asked, Silent()).results[0].sample)


def test_the_map_shows_the_heat_of_each_member(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", "flat", "--heat", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = [
        row
        for arena in document["maps"][0]["arenas"]
        if arena["name"] == "session"
        for row in arena["rows"]
        if row["member"]
    ]
    heat = {row["member"]["path"]: row["heat"] for row in rows}
    assert heat["stats.bytes"]["writes"] == pytest.approx(1.0)
    assert heat["cold.created"]["reads"] == heat["cold.created"]["writes"] == 0


def test_the_time_of_an_access_follows_from_the_document() -> None:
    asked = tracing.Asked(Experiment(layouts=("flat",), sessions=2000), SMALL, 4000, 1000)
    (found,) = tracing.trace(asked, Silent()).results
    accesses = sum(o.heat.reads + o.heat.writes + o.heat.prefetches for o in found.objects)
    assert 0 < found.sample.counted_seconds < found.sample.seconds
    assert lines.ns_per_access(found.sample) == pytest.approx(
        found.sample.counted_seconds * 1e9 / (accesses * 4000)
    )
