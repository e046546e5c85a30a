# SPDX-License-Identifier: BSD-3-Clause
"""What a measured region reports, and what passes between it and perf."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from itertools import pairwise

import core
import numpy as np
import pytest
from core import lib
from hypothesis import given
from hypothesis import strategies as st

SESSIONS = 5000
ACKNOWLEDGEMENT = b"ack\n\0"


@contextmanager
def ready(layout: str = "flat", *, hit_ratio: float = 1.0, **options):
    with (
        core.opened_traffic(SESSIONS, hit_ratio=hit_ratio) as traffic,
        core.opened_arm(layout, SESSIONS, **options) as arm,
    ):
        assert core.fill(arm, traffic, SESSIONS) == SESSIONS
        yield arm, traffic


# The histogram


def test_the_floors_of_the_histogram_ascend_without_a_gap_from_zero():
    floors = [lib.cb_histogram_floor(bucket) for bucket in range(lib.CB_HISTOGRAM_BUCKETS)]
    assert floors[:33] == list(range(33))
    assert all(a < b for a, b in pairwise(floors))
    assert floors[-1] > 2**43


@given(st.integers(0, lib.CB_HISTOGRAM_BUCKETS - 2))
def test_a_bucket_is_at_most_a_32nd_of_its_values_wide(bucket):
    floor, end = lib.cb_histogram_floor(bucket), lib.cb_histogram_floor(bucket + 1)
    assert end - floor == 1 or (end - floor) * 32 <= floor


# Samples


@pytest.mark.parametrize("mode", core.MODES)
@pytest.mark.parametrize("hit_ratio", [0.0, 0.3, 1.0])
def test_a_sample_counts_the_lookups_and_hits_of_its_region_alone(mode, hit_ratio):
    n, lead_in = 20_001, 777
    with ready(hit_ratio=hit_ratio) as (arm, traffic):
        core.restart(traffic, 5)
        ids = core.draw(traffic, lead_in + n).ids
        expected = int(np.sum(ids[lead_in:] != np.uint64(core.NO_SESSION)))
        core.restart(traffic, 5)
        (sample,) = core.measure([arm], traffic, [core.step(n, mode=mode, lead_in=lead_in)]).samples
        assert (sample["lookups"], sample["hits"]) == (n, expected)
        assert arm.packets == lead_in + n
        assert sample["cpu_ns"] > 0
        assert sample["wall_ns"] > 0
        assert sample["tsc"] > 0


def test_steps_run_on_their_arms_in_order_each_with_new_packets():
    with (
        core.opened_traffic(SESSIONS) as traffic,
        core.opened_arm("flat", SESSIONS) as flat,
        core.opened_arm("pointer", SESSIONS) as pointer,
        core.opened_arm("soa", SESSIONS) as twin,
    ):
        for arm in (flat, pointer, twin):
            core.fill(arm, traffic, SESSIONS)
        steps = [
            core.step(1000, arm=0),
            core.step(500, arm=1, mode="single", lead_in=10),
            core.step(1000, arm=0, mode="serial"),
            core.step(2000, arm=1, burst=256, policy=0),
        ]
        core.restart(traffic, 1)
        samples = core.measure([flat, pointer], traffic, steps).samples
        assert [sample["arm"] for sample in samples] == [0, 1, 0, 1]
        assert [sample["lookups"] for sample in samples] == [1000, 500, 1000, 2000]
        assert (flat.packets, pointer.packets) == (2000, 2510)
        # The same packets, drawn here, leave another layout in the same state.
        core.restart(traffic, 1)
        first = core.draw(traffic, 1000)
        core.draw(traffic, 510)
        third = core.draw(traffic, 1000)
        assert not np.array_equal(first.ids, third.ids)
        for packets in (first, third):
            core.lookup(twin, packets.keys, packets.lengths)
        assert (twin.checksum, core.digest(twin)) == (flat.checksum, core.digest(flat))


@pytest.mark.parametrize("burst", [1, 7, 32, 256])
def test_a_latency_region_times_each_burst_once(burst):
    bursts = 300
    with ready() as (arm, traffic):
        step = core.step(bursts * burst, burst=burst, lead_in=100, latency=True)
        measured = core.measure([arm], traffic, [step])
        assert measured.histogram.sum() == bursts
        assert measured.samples[0]["lookups"] == measured.samples[0]["hits"] == bursts * burst
        # What the bursts took together is within the region.
        floors = [lib.cb_histogram_floor(i) for i in range(lib.CB_HISTOGRAM_BUCKETS)]
        least = int(np.sum(measured.histogram * np.array(floors, np.uint64)))
        assert 0 < least <= measured.samples[0]["tsc"]


def test_a_latency_region_of_incomplete_bursts_counts_the_lookups_that_it_did():
    with ready() as (arm, traffic):
        step = core.step(10 * 32 + 9, burst=32, latency=True)
        measured = core.measure([arm], traffic, [step])
        sample = measured.samples[0]
        assert sample["hits"] == sample["lookups"]
        assert arm.packets == sample["lookups"]


def test_a_region_without_latency_leaves_the_histogram_alone():
    with ready() as (arm, traffic):
        assert core.measure([arm], traffic, [core.step(1000)]).histogram.sum() == 0


@pytest.mark.parametrize("layout", core.LAYOUTS)
def test_a_region_after_the_fill_has_no_page_fault(layout):
    with ready(layout, pages="4k") as (arm, traffic):
        steps = [core.step(50_000, lead_in=1000) for _ in range(3)]
        for sample in core.measure([arm], traffic, steps).samples:
            assert (sample["minor_faults"], sample["major_faults"]) == (0, 0)


# perf's side of the control pipes


@contextmanager
def pipes():
    """Control and acknowledgement: what the core gets, and the ends of the other side."""
    commands, control = os.pipe()
    acknowledge, answers = os.pipe()
    open_ends = {commands, control, acknowledge, answers}

    def close(end: int) -> None:
        open_ends.discard(end)
        os.close(end)

    try:
        yield (control, acknowledge), commands, answers, close
    finally:
        for end in open_ends:
            os.close(end)


def test_counters_are_enabled_and_disabled_once_around_each_region():
    seen = []
    with ready() as (arm, traffic), pipes() as (control, commands, answers, close):

        def perf() -> None:
            while command := os.read(commands, 100):
                # Nothing more is sent, and no packet looked up, before the answer.
                seen.append((command, int(arm.packets)))
                os.write(answers, ACKNOWLEDGEMENT)

        thread = threading.Thread(target=perf)
        thread.start()
        steps = [core.step(100, lead_in=20), core.step(64, burst=32, latency=True)]
        core.measure([arm], traffic, steps, control)
        close(control[0])
        thread.join(20)
        assert not thread.is_alive()
    assert seen == [
        (b"enable\n", 20),
        (b"disable\n", 120),
        (b"enable\n", 120),
        (b"disable\n", 184),
    ]


def test_an_acknowledgement_may_come_in_pieces():
    with ready() as (arm, traffic), pipes() as (control, commands, answers, close):

        def perf() -> None:
            while os.read(commands, 100):
                for byte in ACKNOWLEDGEMENT:
                    os.write(answers, bytes([byte]))

        thread = threading.Thread(target=perf)
        thread.start()
        (sample,) = core.measure([arm], traffic, [core.step(100)], control).samples
        close(control[0])
        thread.join(20)
        assert not thread.is_alive()
        assert sample["lookups"] == 100


def measured_with(arm, traffic, control) -> str:
    """The line for which measuring was given up; a hang ends the test."""
    outcome: list[str] = []

    def run() -> None:
        try:
            core.measure([arm], traffic, [core.step(100)], control)
            outcome.append("no failure")
        except core.CoreError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert outcome, "measuring hangs"
    return outcome[0]


def test_perf_gone_before_the_command_is_an_error_not_a_hang():
    with ready() as (arm, traffic), pipes() as (control, commands, answers, close):
        close(commands)
        close(answers)
        assert measured_with(arm, traffic, control) == "perf did not acknowledge a command"


def test_perf_gone_before_its_answer_is_an_error_not_a_hang():
    with ready() as (arm, traffic), pipes() as (control, _, answers, close):
        os.write(answers, b"ack")
        close(answers)
        assert measured_with(arm, traffic, control) == "perf did not acknowledge a command"


def test_another_answer_than_the_acknowledgement_is_an_error():
    with ready() as (arm, traffic), pipes() as (control, _, answers, _close):
        os.write(answers, b"nack\n")
        assert measured_with(arm, traffic, control) == "perf did not acknowledge a command"


# Filling


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4095, 4096, 4097, 5000])
@pytest.mark.parametrize("aged", [False, True])
def test_filling_creates_each_session_once_at_tick_0(count, aged):
    with (
        core.opened_traffic(max(count, 1)) as traffic,
        core.opened_arm("hotcold", max(count, 1)) as arm,
    ):
        assert core.fill(arm, traffic, count, aged=aged) == count
        assert arm.table.entries == count
        for number, key in enumerate(core.rows(core.keys_of(traffic, range(count)))):
            session = core.read(arm, key)
            assert (session.subscriber, session.created, session.packets) == (number, 0, 0)


def test_filling_stops_when_the_table_is_full_and_says_how_many_it_took():
    with core.opened_traffic(500) as traffic, core.opened_arm("flat", 300) as arm:
        assert core.fill(arm, traffic, 500) == 300
        assert arm.table.entries == 300
