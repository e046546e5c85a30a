# SPDX-License-Identifier: BSD-3-Clause
"""Where an arm's memory is: its pages, its size, and the order of its pools."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

import core
import numpy as np
import pytest
from core import LAYOUTS
from scipy import stats

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGESIZE")
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
GIGANTIC_PAGES = Path("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages")
TRANSPARENT = Path("/sys/kernel/mm/transparent_hugepage/enabled")
ORDINARY_PAGES = {"free_slots", "free_list"}  # whatever the others have
SESSIONS = 100_000


def is_zero(arena: core.Arena) -> bool:
    return not np.frombuffer(arena.memory, np.uint64).any()


def check_arenas(arm, page: int) -> None:
    for arena in core.arenas(arm):
        assert arena.start % (PAGE if arena.name in ORDINARY_PAGES else page) == 0, arena
        mapped = core.smaps(arena.start)
        # A mapping of its own, with nothing around it in the same one, and present.
        assert mapped["end"] - arena.start == mapped["Size"] == arena.bytes, arena
        if "Private_Hugetlb" not in mapped or not mapped["Private_Hugetlb"]:
            assert mapped["Rss"] == arena.bytes, arena
        if arena.name not in {"free_slots", "free_list", "rules", "qos"}:
            assert is_zero(arena), arena


# Pages


@pytest.mark.parametrize("layout", LAYOUTS)
def test_4k_pages_are_zeroed_present_and_never_huge(layout):
    with core.opened_arm(layout, SESSIONS, pages="4k") as arm:
        check_arenas(arm, PAGE)
        for arena in core.arenas(arm):
            mapped = core.smaps(arena.start)
            assert mapped["AnonHugePages"] == 0, arena
            assert mapped["KernelPageSize"] == PAGE


@pytest.mark.parametrize("layout", LAYOUTS)
def test_transparent_huge_pages_are_zeroed_aligned_and_cover_all_but_the_free_lists(layout):
    if not TRANSPARENT.exists() or "[never]" in TRANSPARENT.read_text():
        pytest.skip("this kernel gives no transparent huge pages")
    with core.opened_arm(layout, SESSIONS, pages="thp") as arm:
        check_arenas(arm, 2 * MIB)
        huge = total = 0
        for arena in core.arenas(arm):
            mapped = core.smaps(arena.start)
            if arena.name in ORDINARY_PAGES:
                assert mapped["AnonHugePages"] == 0, arena
                continue
            assert arena.bytes % (2 * MIB) == 0
            huge += mapped["AnonHugePages"]
            total += arena.bytes
        # Fragmented memory may lack some; a mapping without advice would have none.
        assert huge / total > 0.9


@pytest.mark.parametrize("pages", ["4k", "thp"])
def test_an_access_beyond_an_arena_at_either_end_faults(pages):
    with core.opened_arm("soa", 5000, pages=pages) as arm:
        rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
        forbidden = [row[0].split("-") for row in rows if row[1] == "---p"]
        starts = {int(start, 16) for start, _ in forbidden}
        ends = {int(end, 16) for _, end in forbidden}
        for arena in core.arenas(arm):
            assert arena.start in ends, arena
            assert arena.start + arena.bytes in starts, arena


def test_huge_pages_that_are_not_there_are_refused_with_the_setting_to_change():
    if HUGE_PAGES.read_text().strip() != "0":
        pytest.skip("this machine has huge pages reserved")
    with pytest.raises(core.CoreError) as refused, core.opened_arm("flat", 1000, pages="2m"):
        pass
    line = str(refused.value)
    assert "vm.nr_hugepages" in line
    assert "2m pages" in line
    assert "\n" not in line


def test_gigantic_pages_that_are_not_there_are_refused_with_the_setting_to_change():
    if GIGANTIC_PAGES.exists() and GIGANTIC_PAGES.read_text().strip() != "0":
        pytest.skip("this machine has gigantic pages reserved")
    with pytest.raises(core.CoreError) as refused, core.opened_arm("flat", 1000, pages="1g"):
        pass
    line = str(refused.value)
    assert "hugepages-1048576kB/nr_hugepages" in line
    assert "hugepagesz=1G" in line
    assert "\n" not in line


def memory_available() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def reserved_huge_pages(number: int):
    before = HUGE_PAGES.read_text()
    try:
        try:
            HUGE_PAGES.write_text(str(number))
        except OSError as error:
            pytest.skip(f"vm.nr_hugepages cannot be set: {error.strerror}")
        if int(HUGE_PAGES.read_text()) < number:
            pytest.skip("the kernel did not reserve the huge pages")
        yield
    finally:
        HUGE_PAGES.write_text(before)


def test_reserved_huge_pages_are_used_for_all_but_the_free_lists():
    if os.geteuid() != 0 or memory_available() < 1024 * MIB:
        pytest.skip("reserving huge pages takes root and 1 GiB of free memory")
    if HUGE_PAGES.read_text().strip() != "0":
        pytest.skip("this machine has huge pages reserved; they are left alone")
    with reserved_huge_pages(16):
        with core.opened_arm("hotcold", 20_000, pages="2m") as arm:
            check_arenas(arm, 2 * MIB)
            for arena in core.arenas(arm):
                huge = arena.name not in ORDINARY_PAGES
                expected = 2 * MIB if huge else PAGE
                assert core.smaps(arena.start)["KernelPageSize"] == expected, arena
        # More than there are: refused, and all that was taken given back.
        for _ in range(3):
            with pytest.raises(core.CoreError), core.opened_arm("flat", 10**6, pages="2m"):
                pass
        with core.opened_arm("hotcold", 20_000, pages="2m"):
            pass


def test_a_numa_node_that_is_not_there_is_refused():
    with (
        pytest.raises(core.CoreError, match="NUMA node 999"),
        core.opened_arm("flat", 1000, node=999),
    ):
        pass


def test_a_failed_opening_gives_back_what_it_mapped():
    def mapped() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0]) * PAGE

    def fail() -> None:
        with pytest.raises(core.CoreError), core.opened_arm("flat", 10**6, pages="4k", node=999):
            pass

    fail()
    before = mapped()
    for _ in range(20):
        fail()
    assert mapped() - before < 8 * MIB


# Footprint


@pytest.mark.parametrize("pages", ["4k", "thp"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_computed_footprint_is_the_sum_of_the_mapped_arenas(layout, pages):
    for sessions, profiles, rules in [(1, 1, 1), (1000, 256, 4096), (77_777, 3, 100_000)]:
        config = core.configuration(sessions, profiles=profiles, rules=rules, pages=pages)
        footprint = core.lib.cb_footprint(core.kernel(layout), config)
        with core.opened(core.kernel(layout), config) as arm:
            arenas = core.arenas(arm)
            assert footprint.mapped == sum(arena.bytes for arena in arenas)
            ordinary = sum(arena.bytes for arena in arenas if arena.name in ORDINARY_PAGES)
            assert footprint.free_lists_mapped == ordinary
            assert footprint.buckets == arm.table.bucket_bitmask + 1


SESSION_BYTES = {
    "pointer": 192 + 3 * 64,  # session with its cold state, policer, stats, action
    "index32": 192 + 3 * 64,
    "flat": 192,
    "flat5": 448,
    "hotcold": 64 + 96,
    "embedded": 96,
    "packed": 227,
    "soa": 48 + 96,
}


def test_the_footprint_counts_what_a_session_takes():
    n = 1_000_000
    config = core.configuration(n, profiles=256, rules=4096)
    for layout, expected in SESSION_BYTES.items():
        ops = core.kernel(layout)
        footprint = core.lib.cb_footprint(ops, config)
        specs = ops.layout_arenas[0 : ops.layout_arena_count]
        pools = sum(spec.kind == core.lib.CB_POOL for spec in specs)
        assert footprint.sessions == pytest.approx(n * expected, rel=1e-5), layout
        assert footprint.free_lists == 4 * n * pools
        entry = 64 if layout == "embedded" else 32
        assert footprint.table == 131_072 * 64 + (n + 1) * (entry + 4)
        shared = 256 * 64 if layout in ("pointer", "index32") else 0
        assert footprint.shared == 4096 * 64 + shared


# The order of the pools

POOLS = ("session", "policer", "stats", "action")


def pool_order(sessions: int, **options) -> dict[str, np.ndarray]:
    """Elements of each pool in the order of their creation. In `index32`, a key
    entry begins with the number of its session, and a session with the numbers of
    its profile, policer, stats and action; entries are handed out ascending."""
    with (
        core.opened_traffic(sessions) as traffic,
        core.opened_arm("index32", sessions, **options) as arm,
    ):
        aged = options.get("heap") == "aged"
        assert core.fill(arm, traffic, sessions, aged=aged) == sessions
        entries = core.key_entries(arm)
        slots = (entries["slot"][1:] & 0xFFFFFFFF).tolist()
        by_key = dict(zip(core.rows(entries["key"][1:]), slots, strict=True))
        keys = core.rows(core.keys_of(traffic, range(sessions)))
        session = np.array([by_key[key] for key in keys], np.uint32)
        stride = arm.ops.layout_arenas[0].stride
        memory = np.frombuffer(core.arena(arm, "session").memory, np.uint8, sessions * stride)
        numbers = memory.reshape(sessions, stride)[:, :16].copy().view("<u4")[session]
        return dict(zip(POOLS, [session, *numbers.T[1:]], strict=True))


N = 5000


def is_permutation(order: np.ndarray) -> bool:
    return np.array_equal(np.sort(order), np.arange(len(order)))


def looks_random(order: np.ndarray) -> bool:
    """Neither in order nor in runs: rank correlation with the order of creation, and
    of each element with the one before it, within five standard errors of none."""
    n = len(order)
    limit = 5 / np.sqrt(n)
    adjacent = np.mean(np.abs(np.diff(order.astype(np.int64))) <= 2)
    return (
        abs(stats.spearmanr(order, np.arange(n)).statistic) < limit
        and abs(stats.spearmanr(order[1:], order[:-1]).statistic) < limit
        and adjacent < 10 * 4 / n
    )


def test_a_fresh_heap_hands_out_ascending_elements():
    for order in pool_order(N, heap="fresh").values():
        assert np.array_equal(order, np.arange(N))


@pytest.mark.parametrize("sessions", [N, 4096, 65_537])
def test_a_shuffled_heap_permutes_each_pool_on_its_own(sessions):
    pools = pool_order(sessions, heap="shuffled", heap_seed=3)
    for order in pools.values():
        assert is_permutation(order)
        assert looks_random(order)
    for name in POOLS:
        for other in POOLS:
            if name < other:
                correlation = stats.spearmanr(pools[name], pools[other]).statistic
                assert abs(correlation) < 5 / np.sqrt(sessions), (name, other)
                assert np.mean(pools[name] == pools[other]) < 10 / sessions


def test_a_shuffled_heap_depends_on_its_seed_alone():
    seeds = [pool_order(N, heap="shuffled", heap_seed=seed) for seed in (0, 1, 2, 0)]
    for name in POOLS:
        for i in range(3):
            for j in range(i):
                assert np.mean(seeds[i][name] == seeds[j][name]) < 10 / N
        assert np.array_equal(seeds[0][name], seeds[3][name])
    other_sessions = pool_order(N, heap="shuffled", heap_seed=0, seed=9)
    assert np.array_equal(other_sessions["stats"], seeds[0]["stats"])


def test_an_aged_heap_is_neither_in_order_nor_all_shuffled():
    pools = pool_order(N, heap="aged")
    for order in pools.values():
        assert is_permutation(order)
        stayed = np.mean(order == np.arange(N))
        # Two rounds in which each session leaves with one chance in two.
        assert 0.2 < stayed < 0.3
        assert not looks_random(order)
