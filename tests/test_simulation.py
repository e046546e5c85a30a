# SPDX-License-Identifier: BSD-3-Clause
"""What a run tells without counters: the line trace, the machine card, estimates."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from results import region, result, sample

from cachebench import resultfile
from cachebench.analyze import floor
from cachebench.analyze.figures import Evidence, figures
from cachebench.cardmodel import (
    IN_FLIGHT,
    Cache,
    CardKey,
    Latency,
    MachineCard,
    PageCard,
    Throughput,
)
from cachebench.cli import main
from cachebench.model import Experiment, Instructions
from cachebench.stream import small
from cachebench.tracemodel import Geometry, Heat, Level, Object, Simulation

MB = 1 << 20
SPEC = Experiment(layouts=("flat",), sessions=1000)


def thing(name: str, stride: int, elements: int, lines: float, **heat: object) -> Object:
    return Object(
        name=name,
        type=f"struct {name}",
        stride=stride,
        elements=elements,
        through=None,
        lines=lines,
        heat=Heat(**heat),  # type: ignore[arg-type]
        stages={},
        members=(),
    )


SIMULATION = Simulation(
    geometry=Geometry(
        caches=(Level(ways=12, sets=64), Level(ways=16, sets=2048), Level(ways=0, sets=0)),
        tlbs=(Level(ways=4, sets=16), Level(ways=16, sets=128)),
        page_bits=21,
        source="",
    ),
    lookups=1000,
    warm_up=100,
    prefetch=True,
    levels=3,
    seconds=1.0,
    objects=(
        thing("bucket", 64, 65_536, 2.0, prefetch_missed=(2.0, 1.5, 0.0), missed=(0.0, 0.0, 0.0)),
        thing("session", 192, 65_536, 1.0, missed=(1.0, 0.5, 0.25), tlb_missed=(0.5, 0.125)),
    ),
)
"""4 MB of buckets, and of the sessions' 12 MB the 4 MB that lookups touch."""


def card(*pages: str) -> MachineCard:
    """At best, latency is 10 ns up to 4 MB and 30 ns at 16 MB, and a line takes latency /
    in flight."""
    sizes = ((4 * MB, 10.0), (16 * MB, 30.0))
    return MachineCard(
        schema="cachebench.machine/1",
        key=CardKey(cpu="", kernel="", pages=""),
        created="2026-01-02T03:04:05+00:00",
        cpu=0,
        processes=1,
        region_ms=10.0,
        seconds=1.0,
        caches=(Cache(name="L2", bytes=2 * MB),),
        pages=tuple(
            PageCard(
                pages=each,  # type: ignore[arg-type]
                huge_share=1.0,
                latency=tuple(Latency(bytes=b, ns=2 * ns, low=ns, high=3 * ns) for b, ns in sizes),
                throughput=tuple(
                    Throughput(bytes=b, in_flight=n, ns=ns, low=ns / n, high=9 * ns)
                    for b, ns in sizes
                    for n in IN_FLIGHT
                ),
            )
            for each in pages
        ),
    )


def evidence(**more: object) -> Evidence:
    fields: dict[str, object] = {
        "spec": SPEC,
        "samples": [sample(0, 50, small=(region(10),), small_sessions=1000)],
        "simulation": SIMULATION,
        "machine": card("4k", "thp"),
    }
    return Evidence(**(fields | more))  # type: ignore[arg-type]


def test_the_working_set_is_the_lines_that_lookups_touch() -> None:
    assert floor.working_set(SIMULATION) == 8 * MB


def test_the_floor_in_bulk_is_cold_lines_times_the_fastest_ns_per_line() -> None:
    found = figures(evidence())
    # 8 MB is half way from 4 to 16 MB in octaves: 20 ns, by 32 lines at once.
    assert found["floor_ns_per_lookup"].value == pytest.approx((1.5 + 0.5) * 20 / 32)
    assert found["floor_share"].value == pytest.approx(1.25 / 50)
    assert found["floor_ns_per_lookup"].source == "estimated"


@pytest.mark.parametrize(("levels", "cold"), [((1, 0, 1), 0.25), ((1, 0, 0), 3.0)])
def test_without_an_l2_the_floor_is_of_the_lines_that_miss_the_next_cache(
    levels: tuple[int, int, int], cold: float
) -> None:
    first, second, third = (Level(ways=ways, sets=64) for ways in levels)
    geometry = msgspec.structs.replace(SIMULATION.geometry, caches=(first, second, third))
    simulation = msgspec.structs.replace(SIMULATION, geometry=geometry)
    found = figures(evidence(simulation=simulation))["floor_ns_per_lookup"]
    assert found.value == pytest.approx(cold * 20 / 32)


def test_the_floor_in_serial_is_dependent_levels_times_latency() -> None:
    serial = msgspec.structs.replace(SPEC, mode="serial")
    assert figures(evidence(spec=serial))["floor_ns_per_lookup"].value == pytest.approx(3 * 20)
    half = msgspec.structs.replace(serial, hit_ratio=0.5)  # a miss waits for its bucket alone
    assert figures(evidence(spec=half))["floor_ns_per_lookup"].value == pytest.approx(2 * 20)


def test_without_a_card_of_these_pages_there_is_no_floor_and_a_reason() -> None:
    other = figures(evidence(machine=card("4k"), unavailable={"machine": "no thp pages"}))
    assert other["floor_ns_per_lookup"].value is None
    assert other["floor_ns_per_lookup"].reason == "no thp pages"
    none = figures(evidence(machine=None, unavailable={"machine": "no room"}))
    assert none["floor_ns_per_lookup"].reason == "no room"


def test_simulated_figures_count_what_loads_and_prefetches_missed() -> None:
    found = figures(evidence())
    assert found["lines_per_lookup"].value == 3.0
    assert found["l1d_misses_per_lookup_sim"].value == 3.0
    assert found["l2_misses_per_lookup_sim"].value == 2.0
    assert found["llc_misses_per_lookup_sim"].value == 0.25
    assert found["dtlb_walks_per_lookup_sim"].value == 0.125
    assert {found[n].source for n in found if n.endswith("_sim")} == {"simulated"}


def test_the_wait_for_memory_is_what_the_small_table_does_not_take() -> None:
    share = figures(evidence())["memory_wait_share"]
    assert share.value == pytest.approx(1 - 10 / 50)
    assert share.source == "estimated"
    faster = [sample(0, 50, small=(region(51),)), sample(1, 50, small=(region(52),))]
    noise = figures(evidence(samples=faster))["memory_wait_share"]
    assert noise.value == pytest.approx(-0.03)  # told as it is, and inside of its interval
    assert noise.low is not None
    assert noise.low < -0.03


def test_ipc_is_instructions_over_ticks_of_cpu_time() -> None:
    counted = Instructions(per_lookup=150.0, sessions=1000, lookups=1000, tool="valgrind 3")
    found = figures(evidence(instructions=counted))
    assert found["instructions_per_lookup_sim"].value == 150.0
    assert found["ipc_est"].value == pytest.approx(150 / (50 * 2))  # 2 ticks a ns
    without = figures(evidence(unavailable={"callgrind": "no valgrind"}))
    assert without["ipc_est"].reason == "no valgrind"


@pytest.mark.parametrize("sessions", [1, 1000, 1024, 1_000_000, 7_300_000, 8_388_608])
def test_the_small_table_has_the_same_load(sessions: int) -> None:
    found = small(Experiment(layouts=("flat",), sessions=sessions)).sessions
    assert found < 1024
    halvings = (sessions // found).bit_length() - 1
    assert found == sessions >> halvings
    assert sessions < 1024 or found >= 512


def run(tmp_path: Path, *arguments: str) -> dict[str, object]:
    file = tmp_path / "result.json"
    typed = ["run", "--processes", "1", "--regions", "1", "--no-counters", "-o", str(file)]
    assert main([*typed, *arguments]) == 0
    return dict(json.loads(file.read_text()))


def test_a_run_holds_the_trace_the_card_and_the_estimates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CACHEBENCH_CACHE", str(tmp_path / "cache"))  # no card is kept there
    document = run(tmp_path, "--layout", "pointer", "--sessions", "20k")
    (entry,) = document["results"]  # type: ignore[misc]
    assert entry["figures"]["lines_per_lookup"]["value"] == pytest.approx(9.0, abs=0.01)
    names = {each["name"] for each in entry["simulation"]["objects"]}
    assert {"qos", "policer", "stats", "action"} < names
    policer = next(o for o in entry["simulation"]["objects"] if o["name"] == "policer")
    assert policer["through"] == "session.policer"
    assert {m["path"] for m in policer["members"]} >= {"policer.tokens", "policer.tick"}
    assert entry["figures"]["memory_wait_share"]["value"] is not None
    assert entry["figures"]["floor_ns_per_lookup"]["value"] > 0
    counted = entry["figures"]["instructions_per_lookup_sim"]
    if shutil.which("valgrind") is None:
        assert "valgrind is not installed" in counted["reason"]
    else:
        assert 100 < counted["value"] < 250
        assert entry["instructions"]["sessions"] == 625
        assert entry["figures"]["ipc_est"]["source"] == "estimated"
    machine = document["machine"]
    assert [page["pages"] for page in machine["pages"]] == ["thp"]  # type: ignore[index]
    assert not (tmp_path / "cache" / "machine.json").exists()
    shown = capsys.readouterr().out
    assert "simulated" in shown
    assert "floor: lines that miss L2 x time of a random line" in shown
    assert resultfile.read(str(tmp_path / "result.json")).machine is not None


def test_without_valgrind_a_run_is_whole_but_for_the_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("cc", "gcc", "as", "ld"):
        if (path := shutil.which(name)) is not None:
            (tools / name).symlink_to(path)
    monkeypatch.setenv("PATH", str(tools))
    document = run(tmp_path, "--sessions", "20k")
    (entry,) = document["results"]  # type: ignore[misc]
    assert entry["figures"]["lines_per_lookup"]["value"] == pytest.approx(5.0, abs=0.01)
    assert "valgrind is not installed" in entry["figures"]["ipc_est"]["reason"]


def test_no_sim_leaves_it_out_and_says_so(tmp_path: Path) -> None:
    document = run(tmp_path, "--sessions", "20k", "--no-sim")
    (entry,) = document["results"]  # type: ignore[misc]
    assert entry["simulation"] is None
    for name in ("lines_per_lookup", "instructions_per_lookup_sim", "floor_ns_per_lookup"):
        figure = entry["figures"][name]
        assert (figure["value"], figure["reason"]) == (None, "not asked for")
    assert entry["figures"]["memory_wait_share"]["value"] is not None


def test_without_a_compiler_a_run_is_whole_but_for_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    document = run(tmp_path, "--sessions", "20k")
    (entry,) = document["results"]  # type: ignore[misc]
    assert entry["figures"]["ns_per_lookup"]["value"] > 0
    assert entry["figures"]["lines_per_lookup"]["value"] is None
    assert "no C compiler" in entry["figures"]["lines_per_lookup"]["reason"]


def test_the_fabricated_result_shows_no_section_without_figures() -> None:
    assert result("flat").results[0].simulation is None
