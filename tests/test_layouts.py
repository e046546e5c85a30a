# SPDX-License-Identifier: BSD-3-Clause
"""Every layout against the plain model: output words, full state, and nothing leaked."""

from __future__ import annotations

from itertools import product
from random import Random

import core
import numpy as np
import pytest
from core import LAYOUTS
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from model import (
    Model,
    Permutation,
    crc32c,
    key_hash,
    key_of_hash,
    keys_of_equal_hash,
    tick,
)

# Keys that a table finds hard

ZERO = bytes(16)  # its hash is zero: the signature of a free place
UNIVERSE = [
    ZERO,
    *(key_of_hash(low) for low in range(4)),  # signature zero in every bucket
    *keys_of_equal_hash(10),
    *(Random(i).randbytes(16) for i in range(25)),
]
CAPACITY = 24  # of 32 places
PROFILES, RULES, SEED = 5, 7, 99


def test_the_checksum_of_the_model_is_the_published_crc32c():
    assert crc32c(b"123456789") == 0xE3069283


def test_the_universe_of_keys_holds_what_it_is_meant_to():
    assert len(set(UNIVERSE)) == len(UNIVERSE) > CAPACITY
    assert sum(key_hash(key) >> 16 == 0 for key in UNIVERSE) >= 5


# Whatever is done

keys_strategy = st.lists(st.sampled_from(UNIVERSE), min_size=1, max_size=48)
ticks = st.integers(0, 2**32 - 1)
near_ticks = st.integers(-300, 300)


class OneLayout(RuleBasedStateMachine):
    """One arm and one model; what is done to one is done to the other."""

    layout: str

    @initialize(heap=st.sampled_from(["fresh", "shuffled"]), heap_seed=st.integers(0, 9))
    def open(self, heap, heap_seed):
        self.context = core.opened_arm(
            self.layout,
            CAPACITY,
            profiles=PROFILES,
            rules=RULES,
            seed=SEED,
            heap=heap,
            heap_seed=heap_seed,
        )
        self.arm = self.context.__enter__()
        self.model = Model(SEED, PROFILES, RULES)
        self.next_id = 0

    def now(self) -> int:
        return tick(self.model.packets)

    def cutoff(self, offset: int) -> int:
        return min(max(self.now() + offset, 0), 2**32 - 1)

    @rule(keys=keys_strategy, offset=near_ticks)
    def create(self, keys, offset):
        ids = list(range(self.next_id, self.next_id + len(keys)))
        self.next_id += len(keys)
        now = self.cutoff(offset)
        taken = core.create(self.arm, keys, ids, now)
        self.model.create(keys[:taken], ids[:taken], now)
        if taken < len(keys):
            assert keys[taken] not in self.model.sessions
            assert len(self.model.sessions) > 8  # more than one bucket's places

    @rule(keys=keys_strategy)
    def erase(self, keys):
        assert core.erase(self.arm, keys) == self.model.erase(keys)

    @rule(
        seed=st.integers(0, 2**32 - 1),
        count=st.sampled_from([0, 1, 6, 7, 31, 32, 33, 100, 257, 300]),
        mode=st.sampled_from(sorted(core.MODES)),
        policy=st.sampled_from(core.POLICIES),
        burst=st.sampled_from([1, 7, 32, 256]),
    )
    def look_up(self, seed, count, mode, policy, burst):
        random = Random(seed)
        keys = random.choices(UNIVERSE, k=count)
        lengths = [random.choice([0, 60, 590, 1514, 65535]) for _ in keys]
        core.lookup(self.arm, keys, lengths, mode, policy, burst)
        self.model.lookup(keys, lengths)

    @rule(packets=st.sampled_from([1, 15, 16, 100, 16 * 50, 16 * 2000, 2**35, 2**36 - 5]))
    def let_time_pass(self, packets):
        self.arm.packets += packets
        self.model.packets += packets

    @rule(offset=near_ticks)
    def expire(self, offset):
        assert core.expire(self.arm, self.cutoff(offset)) == self.model.expire(self.cutoff(offset))

    @rule(
        profile=st.integers(0, PROFILES - 1),
        rate=st.sampled_from([0, 1, 64, 2**32 - 1]),
        burst=st.sampled_from([0, 60, 5000, 2**32 - 1]),
    )
    def change_a_profile(self, profile, rate, burst):
        written = core.reprofile(self.arm, profile, rate, burst)
        theirs = self.model.reprofile(profile, rate, burst)
        assert written == (theirs if self.arm.ops.copies_qos else 1)

    @rule()
    def erase_all_and_fill_again(self):
        core.erase(self.arm, UNIVERSE)
        self.model.erase(UNIVERSE)
        assert self.arm.table.free_count == self.arm.table.capacity == CAPACITY
        assert everything_is_free(self.arm)
        # Random keys all fit: three quarters of the places are enough for them.
        keys = UNIVERSE[-CAPACITY:]
        ids = range(self.next_id, self.next_id + CAPACITY)
        self.next_id += CAPACITY
        assert core.create(self.arm, keys, ids, self.now()) == CAPACITY
        assert self.arm.table.free_count == 0
        self.model.create(keys, ids, self.now())

    @invariant()
    def outputs_and_full_state_are_those_of_the_model(self):
        arm, model = self.arm, self.model
        assert (arm.packets, arm.hits, arm.checksum) == (model.packets, model.hits, model.checksum)
        assert arm.table.entries == len(model.sessions)
        assert arm.table.entries + arm.table.free_count == arm.table.capacity
        assert {key: core.read(arm, key) for key in UNIVERSE} == {
            key: model.sessions.get(key) for key in UNIVERSE
        }
        assert core.digest(arm) == model.digest()

    def teardown(self):
        if hasattr(self, "context"):
            self.context.__exit__(None, None, None)


def everything_is_free(arm) -> bool:
    """The stacks of an empty table and of its pools hold each number once."""
    n = arm.table.capacity
    lists = [np.frombuffer(a.memory, "<u4", n) for a in core.arenas(arm) if a.name == "free_list"]
    return sorted(core.free_entries(arm)) == list(range(1, n + 1)) and all(
        sorted(one) == list(range(n)) for one in lists
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_does_what_the_model_does_whatever_is_asked_of_it(layout):
    run_state_machine_as_test(
        type("OneLayout", (OneLayout,), {"layout": layout}),
        settings=settings(
            max_examples=30,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_churn_of_many_times_the_capacity_leaks_nothing(layout):
    n = 40
    random = Random(layout)
    keys = [random.randbytes(16) for _ in range(3 * n)]
    model = Model(1, 256, 4096)
    with core.opened_arm(layout, n, max_load=0.5, heap="shuffled") as arm:
        for turn in range(60):
            new = random.sample(keys, 25)
            old = random.sample(list(model.sessions), min(len(model.sessions), 20))
            assert core.erase(arm, old) == model.erase(old)
            new = new[: n - len(model.sessions)]
            assert core.create(arm, new, range(turn, turn + len(new)), turn) == len(new)
            model.create(new, range(turn, turn + len(new)), turn)
            assert core.digest(arm) == model.digest()
        core.expire(arm, 2**32 - 1)
        assert arm.table.entries == 0
        assert everything_is_free(arm)


# The proof

SESSIONS = 1500
WAYS = [("bulk", policy, burst) for policy, burst in product(core.POLICIES, (1, 7, 32, 256))] + [
    ("single", 0, 32),
    ("serial", 2, 32),
]


def proof_by_the_model(traffic, sessions: int, seed: int, key_size: int = core.KEY_SIZE) -> int:
    """The script of ``cb_prove``, on the model."""
    model = Model(seed, 256, 4096)
    order = Permutation(sessions, 0)
    erased = [order[i] for i in range(min(sessions // 2, 4096))]
    half = len(erased) // 2

    def keys(ids):
        return core.rows(core.keys_of(traffic, ids, key_size))

    def look_up():
        packets = core.draw(traffic, 16384, key_size)
        model.lookup(core.rows(packets.keys), packets.lengths.tolist())

    model.create(keys(range(sessions)), range(sessions), 0)
    before = model.profiles[0]
    core.restart(traffic, 0x70726F6F66)
    look_up()
    assert model.erase(keys(erased)) == len(erased)
    look_up()
    model.create(keys(erased[:half]), erased[:half], tick(model.packets))
    model.reprofile(0, before[0] + 1, before[1] // 2 + 64)
    look_up()
    model.create(keys(erased[half:]), erased[half:], tick(model.packets))
    look_up()
    model.reprofile(0, *before)
    return (model.checksum * 0x9E3779B97F4A7C15 + model.digest()) % 2**64


@pytest.mark.parametrize("hit_ratio", [1.0, 0.5, 0.0])
def test_the_proof_has_the_checksum_of_the_model_in_every_layout_mode_policy_and_heap(hit_ratio):
    with core.opened_traffic(SESSIONS, seed=3, hit_ratio=hit_ratio) as traffic:
        expected = proof_by_the_model(traffic, SESSIONS, seed=3)
        for layout, heap in product(LAYOUTS, core.HEAPS):
            config = core.configuration(SESSIONS, seed=3, heap=heap)
            assert core.reference(traffic, config) == expected
            for mode, policy, burst in WAYS if hit_ratio == 0.5 else WAYS[-4:]:
                with core.opened(core.kernel(layout), config) as arm:
                    assert core.fill(arm, traffic, SESSIONS, aged=heap == "aged") == SESSIONS
                    found = core.prove(arm, traffic, SESSIONS, mode, policy, burst)
                assert found == expected, (layout, heap, mode, policy, burst)


@pytest.mark.parametrize("popularity", ["zipf", "campus"])
def test_the_proof_holds_with_skewed_traffic(popularity):
    with core.opened_traffic(SESSIONS, seed=4, popularity=popularity) as traffic:
        expected = proof_by_the_model(traffic, SESSIONS, seed=4)
        for layout in LAYOUTS:
            with core.opened_arm(layout, SESSIONS, seed=4) as arm:
                core.fill(arm, traffic, SESSIONS)
                assert core.prove(arm, traffic, SESSIONS) == expected, layout


@pytest.mark.parametrize("sessions", [1, 2, 3, 9])
def test_the_proof_holds_for_a_handful_of_sessions(sessions):
    with core.opened_traffic(sessions, seed=5) as traffic:
        expected = proof_by_the_model(traffic, sessions, seed=5)
        for layout in LAYOUTS:
            with core.opened_arm(layout, sessions, seed=5) as arm:
                assert core.fill(arm, traffic, sessions, aged=True) == sessions
                assert core.prove(arm, traffic, sessions) == expected, layout


def test_another_seed_has_another_checksum():
    checksums = set()
    for seed in range(4):
        with core.opened_traffic(SESSIONS, seed=seed) as traffic:
            checksums.add(core.reference(traffic, core.configuration(SESSIONS, seed=seed)))
    assert len(checksums) == 4


def test_the_proof_leaves_all_sessions_in_the_table():
    with core.opened_traffic(SESSIONS) as traffic, core.opened_arm("soa", SESSIONS) as arm:
        core.fill(arm, traffic, SESSIONS)
        core.prove(arm, traffic, SESSIONS)
        assert arm.table.entries == SESSIONS
        keys = core.rows(core.keys_of(traffic, range(SESSIONS)))
        assert [core.read(arm, key).subscriber for key in keys] == list(range(SESSIONS))


# What is particular to some layouts


def test_layouts_have_names_of_their_own_and_keys_of_16_bytes():
    assert len(set(LAYOUTS)) == len(LAYOUTS) >= 8
    assert {core.kernel(layout).key_size for layout in LAYOUTS} == {16}


def test_a_profile_change_writes_one_object_where_it_is_shared_and_each_session_where_copied():
    n = 300
    with core.opened_traffic(n) as traffic:
        for layout in LAYOUTS:
            with core.opened_arm(layout, n, profiles=1) as arm:
                core.fill(arm, traffic, n)
                shared = layout in ("pointer", "index32")
                assert core.reprofile(arm, 0, 5, 6) == (1 if shared else n), layout
