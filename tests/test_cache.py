# SPDX-License-Identifier: BSD-3-Clause
"""The simulated hierarchy and the stack distances, against plain Python and closed forms."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from itertools import pairwise

import core
import numpy as np
import pytest
from core import ffi, lib
from hypothesis import given, settings
from hypothesis import strategies as st

ABSENT = (0, 0)
LAST_LINE = 2**58 - 1
MAX_WAYS = 4096
NEVER = lib.CB_STACKDIST_BUCKETS - 1  # the bucket of lines that were not used before
LINES_PER_PAGE = 4096 // 64


@contextmanager
def opened_cache(*levels, tlb=(), page_bits=12):
    """A hierarchy of levels given as (ways, sets)."""
    why = ffi.new("char[]", core.WHY_BYTES)
    geometry = ffi.new(
        "struct cb_cache_geometry *",
        {"cache": list(levels), "tlb": list(tlb), "page_bits": page_bits},
    )
    cache = lib.cb_cache_open(geometry, why, core.WHY_BYTES)
    if cache == ffi.NULL:
        raise core.CoreError(ffi.string(why).decode())
    try:
        yield cache
    finally:
        lib.cb_cache_close(cache)


def misses(cache, lines) -> list[tuple[int, int]]:
    """(cache levels, TLB levels) that each access missed."""
    found = [lib.cb_cache_access(cache, int(line)) for line in lines]
    return [(miss.levels, miss.tlb) for miss in found]


def levels_missed(cache, lines) -> list[int]:
    return [levels for levels, _ in misses(cache, lines)]


class NaiveLevel:
    def __init__(self, ways: int, sets: int):
        self.ways, self.sets = ways, [OrderedDict() for _ in range(sets)]

    def misses(self, number: int) -> bool:
        lines = self.sets[number % len(self.sets)]
        hit = number in lines
        lines[number] = None
        lines.move_to_end(number)
        if len(lines) > self.ways:
            lines.popitem(last=False)
        return not hit


class NaiveHierarchy:
    def __init__(self, shapes):
        self.levels = [NaiveLevel(ways, sets) for ways, sets in shapes if ways > 0]

    def missed(self, number: int) -> int:
        return self.missed_span([number])

    def missed_span(self, numbers) -> int:
        """Each level is asked for all numbers, and has missed if it lacked any."""
        for depth, level in enumerate(self.levels):
            found = [level.misses(number) for number in numbers]  # all of them, not up to one
            if not any(found):
                return depth
        return len(self.levels)


# The hierarchy against a naive one

shapes = st.one_of(st.just(ABSENT), st.tuples(st.integers(1, 9), st.integers(1, 40)))
# Few lines, so that they come again; neighbours, and far ones up to the last of all.
traces = st.lists(
    st.one_of(
        st.integers(0, 30),
        st.integers(0, 600),
        st.integers(0, 60).map(lambda page: page * LINES_PER_PAGE),
        st.integers(0, 40).map(lambda line: LAST_LINE - line),
    ),
    max_size=400,
)


@given(
    st.tuples(shapes, shapes, shapes),
    st.tuples(shapes, shapes),
    st.sampled_from([12, 14, 21, 30]),
    traces,
)
def test_every_access_misses_what_a_naive_lru_misses(levels, tlb, page_bits, trace):
    caches, tlbs = NaiveHierarchy(levels), NaiveHierarchy(tlb)
    expected = [(caches.missed(line), tlbs.missed(line >> (page_bits - 6))) for line in trace]
    with opened_cache(*levels, tlb=tlb, page_bits=page_bits) as cache:
        assert misses(cache, trace) == expected


@given(st.tuples(shapes, shapes, shapes), st.tuples(shapes, shapes), traces, st.integers(1, 3))
def test_an_access_to_several_lines_is_one_miss_at_most(levels, tlb, trace, count):
    caches, tlbs = NaiveHierarchy(levels), NaiveHierarchy(tlb)
    spans = [(line, line + count - 1) for line in trace if line + count <= LAST_LINE]
    expected = [
        (
            caches.missed_span(range(first, last + 1)),
            tlbs.missed_span(range(first // LINES_PER_PAGE, last // LINES_PER_PAGE + 1)),
        )
        for first, last in spans
    ]
    with opened_cache(*levels, tlb=tlb) as cache:
        found = [lib.cb_cache_access_span(cache, *span) for span in spans]
    assert [(miss.levels, miss.tlb) for miss in found] == expected


@pytest.mark.parametrize(
    "levels",
    [
        [(12, 64), (16, 256), (15, 896)],
        [(8, 64), (10, 300), (11, 991)],
        [(64, 1), (4, 100), (3, 4099)],
    ],
)
def test_long_random_traces_miss_what_a_naive_lru_misses(levels):
    tlb = [(6, 16), (12, 107)]
    random = np.random.default_rng(1)
    trace = (random.zipf(1.2, 60_000) * 2_654_435_761 % 300_000).tolist()
    caches, tlbs = NaiveHierarchy(levels), NaiveHierarchy(tlb)
    expected = [(caches.missed(line), tlbs.missed(line // LINES_PER_PAGE)) for line in trace]
    assert {levels for levels, _ in expected} == {0, 1, 2, 3}
    with opened_cache(*levels, tlb=tlb) as cache:
        assert misses(cache, trace) == expected


@settings(max_examples=400)
@given(
    st.integers(1, 2**20),
    st.lists(st.integers(0, LAST_LINE), min_size=1, max_size=20),
)
def test_a_line_is_in_the_set_of_its_number_modulo_the_sets(sets, lines):
    # Of two lines in one set of one way, the second evicts the first; a line of
    # the next set does not.
    for line in lines:
        rival = line % sets if line >= sets else line + sets
        neighbour = (line + 1) % sets
        with opened_cache((1, sets)) as cache:
            assert levels_missed(cache, [line, line, rival, line]) == [1, 0, 1, 1]
            if sets > 1:
                assert levels_missed(cache, [neighbour, line])[1] == 0


@pytest.mark.parametrize("sets", [2**30, 2**30 - 35, 3 * 2**28 + 1])
def test_caches_of_many_sets_take_the_highest_lines(sets):
    with opened_cache((1, sets)) as cache:
        lines = [LAST_LINE, LAST_LINE - sets, LAST_LINE, LAST_LINE - 1, LAST_LINE]
        assert levels_missed(cache, lines) == [1, 1, 1, 1, 0]


# Closed forms


@pytest.mark.parametrize("first", [0, 12_345, LAST_LINE - 40_000])
def test_a_sequential_scan_misses_every_line_once_at_each_level(first):
    scan = [first + i // 4 for i in range(4 * 20_000)]
    with opened_cache((12, 64), (16, 100), (15, 333)) as cache:
        assert levels_missed(cache, scan) == [3, 0, 0, 0] * 20_000


def test_a_sequential_scan_misses_every_page_once():
    with opened_cache((12, 64), tlb=[(4, 16), (12, 128)]) as cache:
        tlb = [missed for _, missed in misses(cache, range(64 * 3000))]
    assert tlb == [2 if line % LINES_PER_PAGE == 0 else 0 for line in range(64 * 3000)]


@pytest.mark.parametrize("ways", [1, 2, 3, 16, 96, 1000])
def test_a_cycle_of_one_line_too_many_always_misses_a_fully_associative_cache(ways):
    with opened_cache((ways, 1)) as cache:
        assert set(levels_missed(cache, list(range(ways + 1)) * 5)) == {1}


@pytest.mark.parametrize("ways", [1, 2, 3, 16, 96, 1000])
def test_a_cycle_that_just_fits_never_misses_after_the_first_pass(ways):
    with opened_cache((ways, 1)) as cache:
        assert levels_missed(cache, list(range(ways)) * 5) == [1] * ways + [0] * ways * 4


@pytest.mark.parametrize("sets", [64, 63, 7, 1000])
def test_a_stride_of_the_number_of_sets_has_one_set_to_itself(sets):
    ways = 6
    fits = [5 + i * sets for i in range(ways)]
    with opened_cache((ways, sets)) as cache:
        assert levels_missed(cache, fits * 3) == [1] * ways + [0] * ways * 2
    with opened_cache((ways, sets)) as cache:
        assert set(levels_missed(cache, [*fits, 5 + ways * sets] * 3)) == {1}


def test_a_stride_of_a_power_of_two_spreads_over_an_odd_number_of_sets():
    # 64 · i modulo 63 is i: the lines that share one set of 64 have one each of 63.
    lines = [64 * i for i in range(63)]
    with opened_cache((1, 64)) as cache:
        assert set(levels_missed(cache, lines * 2)) == {1}
    with opened_cache((1, 63)) as cache:
        assert levels_missed(cache, lines * 2) == [1] * 63 + [0] * 63


def test_a_level_is_not_asked_if_the_one_before_it_hits():
    # Line 0 stays in L1, so L2 forgets it, though it is used all the time.
    with opened_cache((2, 1), (2, 1)) as cache:
        assert levels_missed(cache, [0, 1, 0, 2, 0, 3]) == [2, 2, 0, 2, 0, 2]
        assert levels_missed(cache, [2, 0]) == [1, 2]


def test_an_absent_level_is_passed_over_and_not_counted():
    with opened_cache((1, 1), ABSENT, (2, 1)) as cache:
        assert levels_missed(cache, [0, 1, 0, 0]) == [2, 2, 1, 0]
    with opened_cache(tlb=[ABSENT, (1, 1)]) as cache:
        assert misses(cache, [0, 1, 64]) == [(0, 1), (0, 0), (0, 1)]


# Bad geometry


@pytest.mark.parametrize(
    "levels, tlb, page_bits, line",
    [
        ([(8, 0)], [], 12, "L1d has 8 ways and no sets"),
        ([(8, 64), (16, 0)], [], 12, "L2 has 16 ways and no sets"),
        ([(8, 64), ABSENT, (1, 0)], [], 12, "LLC has 1 ways and no sets"),
        ([], [(4, 0)], 12, "the first TLB has 4 ways and no sets"),
        ([], [(4, 16), (12, 0)], 12, "the second TLB has 12 ways and no sets"),
        (
            [(MAX_WAYS + 1, 1)],
            [],
            12,
            f"L1d has {MAX_WAYS + 1} ways; at most {MAX_WAYS} can be simulated",
        ),
        (
            [(8, 64), (2**32 - 1, 2**32 - 1)],
            [],
            12,
            f"L2 has {2**32 - 1} ways; at most {MAX_WAYS} can be simulated",
        ),
        (
            [(16, 2**27)],
            [],
            12,
            f"L1d has {2**31} entries; at most {2**30} can be simulated",
        ),
        ([(8, 64)], [], 11, "pages of 2^11 bytes; from 2^12 to 2^30 can be simulated"),
        ([(8, 64)], [], 31, "pages of 2^31 bytes; from 2^12 to 2^30 can be simulated"),
    ],
)
def test_bad_geometry_is_refused_with_a_line(levels, tlb, page_bits, line):
    with (
        pytest.raises(core.CoreError) as refused,
        opened_cache(*levels, tlb=tlb, page_bits=page_bits),
    ):
        pass
    assert str(refused.value) == line


def test_the_most_ways_that_are_allowed_work():
    with opened_cache((MAX_WAYS, 1)) as cache:
        assert levels_missed(cache, [*range(MAX_WAYS), 0, MAX_WAYS, 0, 1]) == [
            *[1] * MAX_WAYS,
            *[0, 1, 0, 1],
        ]


# Stack distances


@contextmanager
def opened_distances(rate: float = 1.0, lines: int = 0):
    why = ffi.new("char[]", core.WHY_BYTES)
    distances = lib.cb_stackdist_open(rate, lines, why, core.WHY_BYTES)
    if distances == ffi.NULL:
        raise core.CoreError(ffi.string(why).decode())
    try:
        yield distances
    finally:
        lib.cb_stackdist_close(distances)


def follow(distances, lines, number: int = 0, *, counted: bool = True) -> None:
    for line in lines:
        assert lib.cb_stackdist_access(distances, int(line), number, counted) == 0


def histogram(distances, number: int = 0) -> np.ndarray:
    buckets = lib.cb_stackdist_histogram(distances, number)
    return np.array(ffi.unpack(buckets, lib.CB_STACKDIST_BUCKETS))


def histogram_of(lines, rate: float = 1.0, expected_lines: int = 0) -> np.ndarray:
    with opened_distances(rate, expected_lines) as distances:
        follow(distances, lines)
        return histogram(distances)


FLOORS = np.array(
    [lib.cb_stackdist_floor(bucket) for bucket in range(lib.CB_STACKDIST_BUCKETS)], np.uint64
)


def bucket_of(distance: int | None) -> int:
    if distance is None:
        return NEVER
    return int(np.searchsorted(FLOORS[:NEVER], np.uint64(distance), side="right")) - 1


def brute_force(lines) -> list[int | None]:
    """Distance of every access; None if the line was not used before."""
    stack: list[int] = []  # most recently used last
    found: list[int | None] = []
    for line in lines:
        if line in stack:
            at = stack.index(line)
            found.append(len(stack) - 1 - at)
            del stack[at]
        else:
            found.append(None)
        stack.append(line)
    return found


def bucket_counts(distances) -> list[int]:
    counts = [0] * lib.CB_STACKDIST_BUCKETS
    for distance in distances:
        counts[bucket_of(distance)] += 1
    return counts


def misses_at(counts: np.ndarray, size: int) -> float:
    """Misses of a fully associative cache of ``size`` lines, the floor of a bucket."""
    return float(counts[np.searchsorted(FLOORS, np.uint64(size)) :].sum())


def zipf_trace(seed: int, lines: int = 20_000, accesses: int = 200_000) -> np.ndarray:
    """Zipf's law with exponent 0.9 over lines anywhere in memory."""
    random = np.random.default_rng(seed)
    weights = np.arange(1, lines + 1) ** -0.9
    ranks = random.choice(lines, accesses, p=weights / weights.sum())
    return random.integers(0, LAST_LINE, lines)[ranks]


def test_the_floors_of_the_buckets_ascend_by_four_for_each_power_of_two():
    floors = [int(floor) for floor in FLOORS]
    assert floors[:17] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]
    assert all(a < b for a, b in pairwise(floors))
    assert {1 << power for power in range(40)} <= set(floors)
    assert floors[NEVER] == lib.cb_stackdist_floor(2**32 - 1) == 2**64 - 1


@given(
    st.lists(st.one_of(st.integers(0, 12), st.integers(0, 200), st.integers(0, 2**64 - 1))),
    st.integers(0, 300),
)
def test_distances_at_rate_1_are_those_of_brute_force(trace, expected_lines):
    counts = histogram_of(trace, expected_lines=expected_lines)
    assert counts.tolist() == bucket_counts(brute_force(trace))


@pytest.mark.parametrize("expected_lines", [0, 100, 3000, 10_000])
@pytest.mark.parametrize("lines", [3, 255, 1500, 3000])
def test_distances_stay_right_over_long_traces_that_outgrow_the_first_allocation(
    lines, expected_lines
):
    random = np.random.default_rng(lines)
    # Half of the accesses go to a tenth of the lines; new lines come all the time.
    hot = random.integers(0, lines // 10 + 1, 20_000)
    cold = random.integers(0, np.linspace(1, lines, 20_000).astype(int))
    trace = np.where(random.random(20_000) < 0.5, hot, cold).tolist()
    counts = histogram_of(trace, expected_lines=expected_lines)
    assert counts.tolist() == bucket_counts(brute_force(trace))


@pytest.mark.parametrize("lines", [1, 2, 64, 511, 512, 513, 1000, 5000])
def test_a_cycle_has_one_distance_the_other_lines(lines):
    counts = histogram_of(list(range(lines)) * 9)
    assert counts[NEVER] == lines
    assert counts[bucket_of(lines - 1)] == lines * 8
    assert counts.sum() == lines * 9


def test_warm_up_moves_the_stack_and_is_not_counted():
    random = np.random.default_rng(7)
    trace = random.integers(0, 700, 8000).tolist()
    with opened_distances() as distances:
        follow(distances, trace[:5000], counted=False)
        assert histogram(distances).sum() == 0
        follow(distances, trace[5000:])
        counts = histogram(distances)
    assert counts.tolist() == bucket_counts(brute_force(trace)[5000:])


def test_objects_share_one_stack_and_are_counted_apart():
    random = np.random.default_rng(8)
    trace = random.integers(0, 900, 9000).tolist()
    owner = random.integers(0, lib.CB_STACKDIST_OBJECTS, 9000).tolist()
    expected = list(zip(owner, brute_force(trace), strict=True))
    with opened_distances() as distances:
        for line, number in zip(trace, owner, strict=True):
            follow(distances, [line], number)
        for number in range(lib.CB_STACKDIST_OBJECTS):
            mine = [distance for whose, distance in expected if whose == number]
            assert histogram(distances, number).tolist() == bucket_counts(mine)


def test_misses_of_the_histogram_are_those_of_the_simulated_cache():
    trace = zipf_trace(3, lines=3000, accesses=30_000).tolist()
    counts = histogram_of(trace)
    for power in range(13):
        with opened_cache((1 << power, 1)) as cache:
            assert misses_at(counts, 1 << power) == sum(levels_missed(cache, trace))


@pytest.mark.parametrize("rate, error, mean_error", [(0.5, 0.02, 0.005), (0.1, 0.08, 0.02)])
def test_sampled_curves_are_near_the_exact_ones_and_do_not_lean_to_a_side(rate, error, mean_error):
    """In shares of all accesses, over a tenth of the lines and more. Smaller caches
    need the few hot lines, of which a sample has too many or too few."""
    sizes = [1 << power for power in range(11, 16)]
    errors = []
    for seed in range(8):
        trace = zipf_trace(seed, accesses=150_000)
        exact, sampled = histogram_of(trace), histogram_of(trace, rate)
        errors.append(
            [(misses_at(sampled, size) - misses_at(exact, size)) / len(trace) for size in sizes]
        )
    assert np.abs(errors).max() < error
    assert np.abs(np.mean(errors, axis=0)).max() < mean_error


@pytest.mark.parametrize("rate", [1.0, 0.5, 0.1, 0.01])
def test_sampled_counts_are_of_whole_lines_and_scaled_by_the_rate(rate):
    lines = 40_000
    counts = histogram_of(np.tile(np.arange(lines), 3), rate)
    followed = counts[NEVER] * rate
    assert followed == pytest.approx(round(followed), abs=1e-3)
    assert counts.sum() == pytest.approx(3 * counts[NEVER])
    # A binomial: five standard deviations.
    assert abs(followed - lines * rate) <= 5 * (lines * rate * (1 - rate)) ** 0.5
    (bucket,) = np.flatnonzero(counts[:NEVER])
    assert abs(int(bucket) - bucket_of(lines - 1)) <= 1


def test_the_same_trace_gives_the_same_sample():
    trace = zipf_trace(5, accesses=20_000)
    assert histogram_of(trace, 0.3).tolist() == histogram_of(trace, 0.3, 9000).tolist()


@pytest.mark.parametrize(
    "rate, lines, line",
    [
        (0.0, 1, "a sampling rate of 0; it is from 1e-06 to 1"),
        (-0.5, 1, "a sampling rate of -0.5; it is from 1e-06 to 1"),
        (1.01, 1, "a sampling rate of 1.01; it is from 1e-06 to 1"),
        (float("nan"), 1, "a sampling rate of nan; it is from 1e-06 to 1"),
        (1.0, 2**63, f"{2**63} lines; stack distances follow at most {2**31}"),
    ],
)
def test_bad_sampling_is_refused_with_a_line(rate, lines, line):
    with pytest.raises(core.CoreError) as refused, opened_distances(rate, lines):
        pass
    assert str(refused.value) == line
