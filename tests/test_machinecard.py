# SPDX-License-Identifier: BSD-3-Clause
"""The machine card: the chase in the core, what is read from curves, the file, the command."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachebench import cardworker, machinecard
from cachebench._core import ffi, lib
from cachebench.analyze import card as analysis
from cachebench.analyze import cardplot
from cachebench.cardmodel import (
    IN_FLIGHT,
    Cache,
    CardKey,
    CardPlan,
    CardSample,
    Latency,
    MachineCard,
    PageCard,
    Throughput,
)
from cachebench.cli import main
from cachebench.errors import CachebenchError
from cachebench.machine.cpus import pick_cpu
from cachebench.machine.environment import collect

K, M, G = 1 << 10, 1 << 20, 1 << 30
CACHES = (Cache(name="L1d", bytes=48 * K), Cache(name="L2", bytes=2 * M))
L3 = Cache(name="L3", bytes=32 * M)
SIZES = machinecard.working_sets((*CACHES, L3))
KEY = CardKey(cpu="a CPU", kernel="a kernel", pages="thp madvise")


class Silent:
    """Progress that keeps what it hears."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def step(self, text: str, done: int, total: int) -> None:
        assert 0 <= done < total


# ---- The chase


def links(region, lines: int) -> np.ndarray:
    """For each line, the number of the line that it points to."""
    memory = np.frombuffer(ffi.buffer(region.base, lines * lib.CB_LINE), np.uint64)
    distance = memory[:: lib.CB_LINE // 8] - np.uint64(int(ffi.cast("uintptr_t", region.base)))
    assert not (distance % np.uint64(lib.CB_LINE)).any()
    return (distance // np.uint64(lib.CB_LINE)).astype(np.int64)


def walk(following: np.ndarray, steps: int) -> list[int]:
    visited, line = [], 0
    for _ in range(steps):
        visited.append(line)
        line = int(following[line])
    assert line == 0 or steps < len(following)
    return visited


@pytest.mark.parametrize("pages", ["4k", "thp"])
@pytest.mark.parametrize("lines", [1, 2, 3, 255, 256, 1000, 65536])
def test_the_chain_is_one_cycle_over_all_lines(pages: str, lines: int) -> None:
    with cardworker.cycle(lines * lib.CB_LINE, pages) as region:
        cardworker.build(region, lines * lib.CB_LINE, 3)
        assert sorted(walk(links(region, lines), lines)) == list(range(lines))


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
@settings(max_examples=50, deadline=None)
def test_it_is_one_for_every_number_of_lines_and_seed(lines: int, seed: int) -> None:
    with cardworker.cycle(3000 * lib.CB_LINE, "4k") as region:
        cardworker.build(region, lines * lib.CB_LINE, seed)
        assert sorted(walk(links(region, lines), lines)) == list(range(lines))


def test_no_distance_between_lines_that_follow_each_other_is_frequent() -> None:
    lines = 1 << 16
    with cardworker.cycle(lines * lib.CB_LINE, "4k") as region:
        cardworker.build(region, lines * lib.CB_LINE, 1)
        order = np.array(walk(links(region, lines), lines))
    distances, counts = np.unique(np.diff(order), return_counts=True)
    assert counts.max() < 0.001 * lines
    assert len(distances) > 0.4 * lines
    # Within a page by chance alone: 64 of 65,536 lines.
    assert np.mean(order[1:] // 64 == order[:-1] // 64) < 0.003


@pytest.mark.parametrize("chains", IN_FLIGHT)
def test_loads_go_on_where_the_last_ones_stopped(chains: int) -> None:
    """The core refuses a chase that does not arrive where the permutation says."""
    lines = 1000
    with cardworker.cycle(lines * lib.CB_LINE, "4k") as region:
        cardworker.build(region, lines * lib.CB_LINE, 1)
        for steps in (1, 10, 999, 2500):
            before = region.position
            assert cardworker.random_lines(region, chains, steps) > 0
            assert region.position == (before + steps) % lines


@pytest.mark.parametrize("chains", IN_FLIGHT)
def test_a_chain_that_was_tampered_with_is_noticed(chains: int) -> None:
    lines = 512
    with cardworker.cycle(lines * lib.CB_LINE, "4k") as region:
        cardworker.build(region, lines * lib.CB_LINE, 1)
        memory = np.frombuffer(ffi.buffer(region.base, lines * lib.CB_LINE), np.uint64)
        memory[:: lib.CB_LINE // 8] = int(ffi.cast("uintptr_t", region.base))
        with pytest.raises(CachebenchError, match="did not arrive"):
            cardworker.random_lines(region, chains, 100)


def test_what_the_core_cannot_do_it_refuses() -> None:
    cpu_ns = ffi.new("uint64_t *")
    with cardworker.cycle(64 * K, "4k") as region:
        assert lib.cb_chase(region, 1, cpu_ns) == -1  # no cycle yet
        with pytest.raises(CachebenchError):
            cardworker.build(region, 63, 1)
        with pytest.raises(CachebenchError):
            cardworker.build(region, 64 * K + 1, 1)
        cardworker.build(region, 64 * K, 1)
        for chains in (0, 3, 33, 64):
            assert lib.cb_random_lines(region, chains, 1, cpu_ns) == -1
    with pytest.raises(CachebenchError, match="no memory"), cardworker.cycle(1 << 50, "4k"):
        pass


# ---- Curves


def staircase(*levels: tuple[int, float]) -> Callable[[int], float]:
    """ns by working set: each level up to its bytes."""
    return lambda size: next(ns for until, ns in levels if size <= until)


def page(
    curve: Callable[[int], float],
    pages: str = "thp",
    noise: Callable[[int], float] = lambda index: 1.0,
    sizes: tuple[int, ...] = SIZES,
) -> PageCard:
    latency = []
    for index, size in enumerate(sizes):
        ns = curve(size) * noise(index)
        latency.append(Latency(bytes=size, ns=ns, low=0.9 * ns, high=1.2 * ns))
    loaded = [size for size in sizes if size in (64 * K, 4 * M, sizes[-1])]
    throughput = [
        Throughput(bytes=size, in_flight=k, ns=curve(size) / k, low=1 / k, high=200)
        for size in loaded
        for k in IN_FLIGHT
    ]
    return PageCard(
        pages=pages,
        huge_share=0.0 if pages == "4k" else 1.0,
        latency=tuple(latency),
        throughput=tuple(throughput),
    )


def machine(*pages: PageCard, caches: tuple[Cache, ...] = CACHES, key: CardKey = KEY):
    return analysis.analysed(
        MachineCard(
            schema="cachebench.machine/1",
            key=key,
            created="2026-01-02T03:04:05+00:00",
            cpu=1,
            processes=3,
            region_ms=10,
            seconds=40,
            caches=caches,
            pages=pages,
        )
    )


def knees(card: MachineCard, pages: str = "thp") -> list[tuple[str, int]]:
    return [(knee.name, knee.bytes) for knee in card.knees if knee.pages == pages]


def last_within(size: int) -> int:
    return max(each for each in SIZES if each <= size)


STAIRS = staircase((48 * K, 1.7), (2 * M, 5.4), (32 * M, 35.0), (1 << 60, 120.0))
PLANTED = [("L1d", last_within(48 * K)), ("L2", 2 * M), ("L3", 32 * M)]


def test_knees_are_found_at_the_planted_sizes_and_named() -> None:
    card = machine(page(STAIRS), caches=(*CACHES, L3))
    assert knees(card) == PLANTED
    assert [knee.until for knee in card.knees] == [64 * K, SIZES[SIZES.index(2 * M) + 1], 64 * M]
    assert [(knee.ns, knee.until_ns) for knee in card.knees] == [(1.7, 5.4), (5.4, 35), (35, 120)]
    assert [benefit.seen for benefit in card.benefits] == [True, True, True]


def test_a_flat_curve_has_no_knee_and_its_caches_show_no_benefit() -> None:
    card = machine(page(lambda size: 100.0), caches=(*CACHES, L3))
    assert card.knees == ()
    assert [benefit.seen for benefit in card.benefits] == [False, False, False]


@given(st.integers(0, 2**32 - 1))
def test_noise_invents_no_knee_and_hides_none(seed: int) -> None:
    factors = np.exp(np.random.default_rng(seed).normal(0, 0.03, len(SIZES)).clip(-0.08, 0.08))
    noise = lambda index: float(factors[index])  # noqa: E731
    assert machine(page(lambda size: 100.0, noise=noise)).knees == ()
    assert [
        name for name, _ in knees(machine(page(STAIRS, noise=noise), caches=(*CACHES, L3)))
    ] == [
        "L1d",
        "L2",
        "L3",
    ]


@pytest.mark.parametrize("where", range(2, len(SIZES)))
def test_one_disturbed_point_is_no_knee(where: int) -> None:
    disturbed = page(lambda size: 100.0, noise=lambda index: 1.5 if index == where else 1.0)
    assert machine(disturbed).knees == ()


def test_a_slow_tilt_is_no_knee() -> None:
    assert machine(page(lambda size: 100 * (size / K) ** 0.15)).knees == ()


def test_two_rises_without_a_level_between_them_are_two() -> None:
    def curve(size: int) -> float:
        octaves = math.log2(size / (256 * K))
        steep = min(max(octaves, 0), 1) + min(max(octaves - 5, 0), 1)
        return 5 * 4**steep * 1.27 ** min(max(octaves, 0), 6)

    assert [bytes for _, bytes in knees(machine(page(curve), caches=()))] == [256 * K, 8 * M]


def test_a_rise_with_4k_pages_alone_is_the_tlb_and_one_with_both_is_not() -> None:
    small = staircase((48 * K, 1.7), (2 * M, 5.4), (16 * M, 35.0), (1 << 60, 120.0))
    large = staircase((48 * K, 1.7), (2 * M, 5.4), (1 << 60, 35.0))
    card = machine(page(small, "4k"), page(large))
    assert knees(card, "4k") == [*PLANTED[:2], ("TLB reach", 16 * M)]
    assert knees(card) == PLANTED[:2]
    # It is the TLB even where a cache of that size is advertised.
    card = machine(page(small, "4k"), page(large), caches=(*CACHES, Cache(name="L3", bytes=16 * M)))
    assert knees(card, "4k")[-1] == ("TLB reach", 16 * M)
    both = machine(page(small, "4k"), page(small))
    assert knees(both, "4k")[-1] == knees(both)[-1] == ("unexplained", 16 * M)
    # Nothing to compare with: not told.
    assert knees(machine(page(small, "4k")), "4k")[-1] == ("unexplained", 16 * M)


def test_an_advertised_cache_without_benefit_is_said_to_have_none() -> None:
    advertised = (*CACHES, Cache(name="L3", bytes=300 * M))
    card = machine(
        page(staircase((48 * K, 1.7), (2 * M, 5.4), (1 << 60, 120.0))), caches=advertised
    )
    (l3,) = (benefit for benefit in card.benefits if benefit.cache == "L3")
    assert l3.seen is False
    assert l3.text.startswith("shows no benefit at its advertised size: 120 ns at half")


def test_a_cache_beyond_the_working_sets_is_not_judged() -> None:
    card = machine(page(STAIRS), caches=(Cache(name="L3", bytes=4 * G),))
    assert card.benefits[0].seen is None


# ---- Floors and interpolation


def test_floors() -> None:
    assert analysis.floor_bulk(6, 14.5) == 87.0
    assert analysis.floor_serial(4, 150.0) == 600.0
    assert analysis.floor_bulk(0, 14.5) == analysis.floor_serial(0, 150.0) == 0.0


def test_latency_is_linear_in_the_logarithm_of_the_size() -> None:
    points = [Latency(bytes=b, ns=ns, low=ns, high=ns) for b, ns in ((K, 2), (4 * K, 6), (G, 100))]
    assert analysis.latency(points, K) == 2
    assert analysis.latency(points, 2 * K) == pytest.approx(4)
    assert analysis.latency(points, 4 * K) == 6
    assert analysis.latency(points, 1) == 2
    assert analysis.latency(points, 1 << 50) == 100
    with pytest.raises(ValueError, match="no points"):
        analysis.latency([], K)


def test_ns_per_line_is_linear_in_both_logarithms() -> None:
    points = [
        Throughput(bytes=size, in_flight=k, ns=ns, low=ns, high=ns)
        for size, k, ns in ((M, 1, 100), (M, 4, 40), (4 * M, 1, 200), (4 * M, 4, 80))
    ]
    assert analysis.ns_per_line(points, 2 * M, 1) == pytest.approx(150)
    assert analysis.ns_per_line(points, M, 2) == pytest.approx(70)
    assert analysis.ns_per_line(points, 2 * M, 2) == pytest.approx(105)
    assert analysis.ns_per_line(points, 1, 64) == 40


# ---- Working sets and medians


def test_working_sets_are_powers_of_two_and_halves_of_octaves_below_the_last_cache() -> None:
    assert SIZES[0] == 16 * K
    assert SIZES[-1] == 2 * G
    assert {16 * K << n for n in range(18)} <= set(SIZES)
    assert all(size % 64 == 0 for size in SIZES)
    between = [size for size in SIZES if size & (size - 1)]
    assert len(between) == 11
    assert max(between) < 32 * M
    assert machinecard.working_sets((), 64 * K)[-1] == 64 * K


def test_a_point_is_the_median_over_processes_with_its_extremes() -> None:
    plan = CardPlan(
        pages="4k",
        latency=(K, 2 * K),
        throughput=(2 * K,),
        region_ms=1,
        regions=1,
        cpu=0,
        node=None,
        seed=1,
    )
    samples = [
        CardSample(
            huge_share=0.0,
            latency=(ns, 2 * ns),
            throughput=(tuple(ns / k for k in IN_FLIGHT),),
        )
        for ns in (3.0, 1.0, 8.0)
    ]
    made = machinecard.page_card(plan, samples)
    assert made.latency[1] == Latency(bytes=2 * K, ns=6, low=2, high=16)
    assert made.throughput[1] == Throughput(bytes=2 * K, in_flight=2, ns=1.5, low=0.5, high=4)


def entry(value: object) -> dict[str, object]:
    return {"value": value, "reason": None}


def test_what_does_not_fit_into_memory_is_skipped_and_said() -> None:
    facts = {
        "memory_available_bytes": entry(G),
        "thp": entry("never"),
        "huge_pages": entry(
            [
                {"page_bytes": 2 * M, "total": 8, "free": 5},
                {"page_bytes": G, "total": 0, "free": 0},
            ]
        ),
    }
    plans, skipped = machinecard._plans(facts, SIZES, 10, 0)
    assert [(plan.pages, plan.latency[-1]) for plan in plans] == [("4k", 512 * M), ("2m", 8 * M)]
    assert plans[0].throughput[-1] == 512 * M
    assert [(each.pages, each.bytes) for each in skipped] == [
        ("4k", G),
        ("thp", 16 * K),
        ("2m", SIZES[SIZES.index(8 * M) + 1]),
    ]
    assert skipped[0].reason == "1 GiB of memory are available"
    assert skipped[1].reason == "transparent huge pages are off"
    assert skipped[2].reason == "5 of these pages are free"


def test_without_memory_there_is_one_line() -> None:
    with pytest.raises(CachebenchError, match="needs some MB"):
        machinecard._plans({"memory_available_bytes": entry(M)}, SIZES, 10, 0)


# ---- The file


CARD = machine(page(STAIRS, "4k"), page(STAIRS), caches=(*CACHES, L3))


def test_a_stored_card_comes_back_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    where = tmp_path / "new" / "machine.json"
    machinecard.store(CARD, where)
    machinecard.store(CARD, where)
    assert machinecard.stored(where, KEY) == machinecard.Stored(CARD)
    assert [path.name for path in where.parent.iterdir()] == ["machine.json"]


def test_a_card_that_cannot_be_renamed_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tmp_path / "machine.json"
    machinecard.store(CARD, where)

    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(CachebenchError, match="No space left"):
        machinecard.store(msgspec.structs.replace(CARD, cpu=7), where)
    monkeypatch.undo()
    assert machinecard.stored(where, KEY).card == CARD
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("field", CardKey.__struct_fields__)
def test_the_card_of_another_machine_is_not_used(tmp_path: Path, field: str) -> None:
    where = tmp_path / "machine.json"
    machinecard.store(CARD, where)
    found = machinecard.stored(where, msgspec.structs.replace(KEY, **{field: "another"}))
    assert found.card is None
    assert found.reason.startswith(f"the stored card is of another {field} ")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "\x00\xff",
        lambda text: "[]",
        lambda text: text.replace("machine/1", "machine/2"),
        lambda text: text.replace('"ns": 1.7', '"ns": -1.7'),
        lambda text: text.replace('"ns": 1.7', '"ns": "fast"'),
        lambda text: text.replace('"bytes": 16384', '"bytes": 1638400000'),
    ],
)
def test_a_damaged_card_is_refused(tmp_path: Path, damage: Callable[[str], str]) -> None:
    where = tmp_path / "machine.json"
    whole = machinecard.encode(CARD)
    assert damage(whole) != whole
    where.write_text(damage(whole), encoding="latin-1")
    found = machinecard.stored(where, KEY)
    assert found.card is None
    assert "cachebench.machine/1" in found.reason


def test_the_key_tells_machines_apart() -> None:
    facts = collect()
    here = machinecard.key(facts)
    assert machinecard.key(facts) == here
    for name, field in (("cpu_model_name", "cpu"), ("kernel", "kernel"), ("thp", "pages")):
        other = machinecard.key({**facts, name: entry("another")})
        assert getattr(other, field) != getattr(here, field)
        assert msgspec.structs.replace(other, **{field: getattr(here, field)}) == here


# ---- The command


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[MachineCard]:
    """A cache folder, and a stand-in for measuring that keeps what it gave."""
    given: list[MachineCard] = []

    def measure(progress: machinecard.Progress) -> MachineCard:
        card = machine(
            page(STAIRS, "4k"),
            page(STAIRS),
            caches=(*CACHES, L3),
            key=machinecard.key(collect()),
        )
        given.append(msgspec.structs.replace(card, cpu=len(given)))
        return given[-1]

    monkeypatch.setenv("CACHEBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machinecard, "measure", measure)
    return given


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["machine", *arguments])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def test_the_card_is_measured_once_and_again_when_refreshed(
    measured: list[MachineCard], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert json.loads(run(capsys, "--json"))["cpu"] == 0
    assert json.loads(run(capsys, "--json"))["cpu"] == 0
    assert json.loads(run(capsys, "--json", "--refresh"))["cpu"] == 1
    assert json.loads(run(capsys, "--json"))["cpu"] == 1
    assert len(measured) == 2
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["machine.json"]


def test_a_damaged_card_is_measured_anew_and_the_user_is_told(
    measured: list[MachineCard], capsys: pytest.CaptureFixture[str]
) -> None:
    machinecard.store(machine(page(STAIRS), key=machinecard.key(collect())))
    machinecard.path().write_text("{")
    assert "is no cachebench.machine/1 document" in run(capsys)
    assert len(measured) == 1
    assert "is no cachebench.machine/1 document" not in run(capsys)
    assert len(measured) == 1


def test_a_card_that_cannot_be_kept_is_shown_all_the_same(
    measured: list[MachineCard],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "cache").write_text("a file")
    out = run(capsys)
    assert "set CACHEBENCH_CACHE to a folder that you can write" in out
    assert "L1d" in out


def test_the_table_shows_powers_of_two_the_knees_and_the_lines_in_flight(
    measured: list[MachineCard], capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys)
    for size in ("16 KiB", "2 MiB", "1 GiB", "2 GiB"):
        assert f" {size} " in out
    assert "22.6 KiB " not in out
    assert "thp pages: latency rises from 32 MiB (35 ns) to 64 MiB (120 ns): L3" in out
    assert " 32 " in out
    assert "3.75" in out  # 120 ns over 32 lines
    assert "They hold on this machine only" in out


def test_the_document_is_the_card(
    measured: list[MachineCard], capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys, "--json")
    assert machinecard.decode(out.encode(), "it") == measured[0]
    found = json.loads(out)
    assert found["schema"] == "cachebench.machine/1"
    assert {knee["name"] for knee in found["knees"]} == {"L1d", "L2", "L3"}


def test_the_picture_has_both_curves_and_the_caches(
    measured: list[MachineCard], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "card.svg"
    run(capsys, "--svg", str(target))
    text = target.read_text()
    assert text.startswith("<?xml")
    for word in ("ns per dependent load", "lines in flight", "thp pages", "L2 2M", "L3 32M"):
        assert f">{word}" in text
    assert len(text) < 200_000
    assert stat.S_IMODE(target.stat().st_mode) & stat.S_IRUSR
    again = cardplot.svg(measured[0])
    assert again == text


def test_a_picture_that_cannot_be_written_is_known_before_measuring(
    measured: list[MachineCard], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = main(["machine", "--svg", str(tmp_path / "none" / "card.svg")])
    assert code == 2
    assert "cannot write" in capsys.readouterr().err
    assert measured == []


def test_a_card_without_curves_has_no_picture() -> None:
    with pytest.raises(ValueError, match="no measured"):
        cardplot.svg(machine())


# ---- This machine


def test_a_small_card_of_this_machine() -> None:
    progress = Silent()
    card = machinecard.measure(progress, largest=64 * M, processes=1, region_ms=2)
    assert machinecard.decode(machinecard.encode(card).encode(), "it") == card
    assert card.cpu == pick_cpu()
    four = card.pages[0]
    assert four.pages == "4k"
    assert four.huge_share == 0
    assert (four.latency[0].bytes, four.latency[-1].bytes) == (16 * K, 64 * M)
    for each in card.pages:
        assert each.latency[0].ns < each.latency[-1].ns
        assert {point.in_flight for point in each.throughput} == set(IN_FLIGHT)
        assert each.throughput[-1].bytes == 64 * M


def test_a_worker_says_why_it_cannot_measure() -> None:
    plan = CardPlan(
        pages="4k",
        latency=(1 << 50,),
        throughput=(),
        region_ms=1,
        regions=1,
        cpu=pick_cpu(),
        node=None,
        seed=1,
    )
    from cachebench.process import run as run_process
    from cachebench.python import command

    with pytest.raises(CachebenchError, match="machine card: no memory"):
        run_process(
            command("cachebench.cardworker"), plan, CardSample, "machine card", lambda _: None
        )
