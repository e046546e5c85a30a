# SPDX-License-Identifier: BSD-3-Clause
"""One worker process: it fills one table, proves it, measures it, and says what it read.

cachebench.process starts it, alone or under perf, with a WorkerPlan. It imports
neither numpy nor rich, so that its own start costs little and its memory is the
table's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from cachebench import build, core, smaps, stream
from cachebench._core import ffi, lib
from cachebench.core import Pointer
from cachebench.machine.jiffies import cpu_times, steal_share
from cachebench.machine.tree import Unknown
from cachebench.model import Region, Sample, TableStats, WorkerPlan
from cachebench.say import say, serve

FIRST_LOOKUPS = 16384
LONGER = 1.25
"""Regions are aimed at this much more than the least time, so that few fall short."""
COUNTED_REGIONS = 10
"""A counter process counts one region, up to this many times as long as a timed
one: each enable and disable costs a context switch that the counters see."""
LATENCY_BURSTS = 20_000
"""Bursts that are timed one by one, if the region may have as many: ten lie beyond
P99.9 with half of them."""
STATS_LOOKUPS = 100_000


def main() -> int:
    """The process: see cachebench.say."""
    return serve(WorkerPlan, run)


def run(plan: WorkerPlan) -> Sample:
    """Executes the plan in this process."""
    for descriptor in plan.close:
        os.close(descriptor)
    os.sched_setaffinity(0, {plan.cpu})
    experiment = plan.experiment
    ops = build.load(
        None if plan.plugin is None else Path(plan.plugin), plan.layout, experiment.key_size
    )
    say(doing="filling")
    with core.traffic(experiment) as traffic, core.arm(ops, experiment, plan.seed) as arm:
        fill_ns = core.fill(arm, traffic, experiment, plan.seed)
        arenas = smaps.arenas(arm)
        proof = _prove(arm, traffic, plan) if plan.prove else None
        table = _table_stats(arm, traffic, plan)
        say(doing="measuring")
        before = _cpu_times(plan.cpu)
        measurement = _Measurement(arm, traffic, plan)
        timed = plan.kind == "time"
        regions = measurement.timed() if timed else measurement.counted()
        small_sessions, small = _small(ops, plan) if timed else (None, ())
        latency = measurement.latency() if timed else ()
        stages = measurement.stages(ops) if timed else {}
        return Sample(
            process=plan.process,
            order=plan.order,
            kind=plan.kind,
            seed=plan.seed,
            prefetch=_prefetch(arm, plan),
            fill_ns=fill_ns,
            regions=regions,
            arenas=arenas,
            table=table,
            latency=latency,
            small=small,
            small_sessions=small_sessions,
            stages=stages,
            checksum=None if proof is None else core.format_checksum(proof.checksum),
            reprofile_ns=None if proof is None else proof.reprofile_ns,
            reprofile_objects=None if proof is None else proof.reprofile_objects,
            peak_bytes=smaps.peak_bytes(),
            steal=_steal(before, _cpu_times(plan.cpu)),
        )


def _cpu_times(cpu: int) -> dict[str, int] | None:
    """None in a container that hides them."""
    try:
        return cpu_times(cpu=cpu)
    except Unknown:
        return None


def _steal(before: dict[str, int] | None, after: dict[str, int] | None) -> float | None:
    return None if before is None or after is None else steal_share(before, after)


def _prefetch(arm: Pointer, plan: WorkerPlan) -> int:
    """The policy in force: only bulk lookups prefetch the session."""
    if plan.experiment.mode != "bulk":
        return 0
    return min(plan.experiment.session_prefetch, int(arm.ops.prefetch_steps))


def _prove(arm: Pointer, traffic: Pointer, plan: WorkerPlan) -> Pointer:
    say(doing="proving")
    proof = ffi.new("struct cb_proof *")
    why = core.Why()
    experiment = plan.experiment
    failed = lib.cb_prove(
        arm,
        traffic,
        experiment.sessions,
        core.MODE[experiment.mode],
        experiment.session_prefetch,
        experiment.burst,
        proof,
        why.buffer,
        why.size,
    )
    if failed:
        raise why.error()
    return proof


def _table_stats(arm: Pointer, traffic: Pointer, plan: WorkerPlan) -> TableStats:
    """Counts one stream of the experiment's packets through the table."""
    count = min(STATS_LOOKUPS, 4 * plan.experiment.sessions)
    keys = ffi.new("char[]", count * plan.experiment.key_size)
    lengths = ffi.new("uint16_t[]", count)
    lib.cb_traffic_restart(traffic, plan.seed)
    lib.cb_traffic_draw(traffic, count, keys, lengths, ffi.NULL)
    stats = ffi.new("struct cb_table_stats *")
    arm.ops.count(arm, ffi.new("struct cb_stream *", (keys, lengths, count)), stats)
    buckets = arm.table.bucket_bitmask + 1
    return TableStats(
        entries=stats.entries,
        buckets=buckets,
        load=stats.entries / (buckets * lib.CB_BUCKET_ENTRIES),
        primary_share=stats.primary / stats.entries,
        displaced=arm.table.displaced,
        probes_per_lookup=stats.bucket_probes / count,
        key_compares_per_lookup=stats.key_compares / count,
        false_hits_per_lookup=stats.false_hits / count,
    )


def _small(ops: Pointer, plan: WorkerPlan) -> tuple[int, tuple[Region, ...]]:
    """The same kernel on a table that the caches hold: what lookups take without memory."""
    small = stream.small(plan.experiment)
    with core.traffic(small) as traffic, core.arm(ops, small, plan.seed) as arm:
        core.fill(arm, traffic, small, plan.seed)
        plan = msgspec.structs.replace(plan, experiment=small)
        return small.sessions, _Measurement(arm, traffic, plan).timed()


class _Measurement:
    """Regions of one arm. Key sequences continue from region to region."""

    def __init__(self, arm: Pointer, traffic: Pointer, plan: WorkerPlan) -> None:
        self._arm = arm
        self._arms = ffi.new("struct cb_arm *[]", [arm])
        self._traffic = traffic
        self._plan = plan
        self._least_ns = plan.experiment.region_ms * 1e6
        self._most = stream.most_lookups(plan.experiment)
        self._histogram = ffi.new("struct cb_histogram *")
        # Another stream than the one that the table was counted with.
        lib.cb_traffic_restart(traffic, plan.seed + 1)

    def timed(self) -> tuple[Region, ...]:
        """The experiment's regions, each at least its least time long."""
        count = self._calibrate()
        regions: list[Region] = []
        while len(regions) < self._plan.experiment.regions:
            region = self._region(count)
            if region.cpu_ns < self._least_ns:
                count = self._whole_bursts(count * LONGER)
                regions.clear()  # all regions of a process are of one length
            else:
                regions.append(region)
        return tuple(regions)

    def latency(self) -> tuple[tuple[int, int, int], ...]:
        """Histogram of the time of a burst, from a region of its own."""
        wanted = LATENCY_BURSTS * self._plan.experiment.burst
        self._region(min(wanted, self._most), latency=True)
        floor = lib.cb_histogram_floor
        return tuple(
            (floor(i), floor(i + 1), self._histogram.count[i])
            for i in range(lib.CB_HISTOGRAM_BUCKETS)
            if self._histogram.count[i]
        )

    def stages(self, ops: Pointer) -> dict[str, tuple[Region, ...]]:
        """The same table looked up by kernels that stop after a stage."""
        regions = {}
        for stage, path in self._plan.stage_plugins.items():
            self._arm.ops = build.load(
                Path(path), self._plan.layout, self._plan.experiment.key_size
            )
            regions[stage] = self.timed()
        self._arm.ops = ops
        return regions

    def counted(self) -> tuple[Region, ...]:
        """One long region with the counters on, or around nothing."""
        count = 0 if self._plan.empty else min(COUNTED_REGIONS * self._calibrate(), self._most)
        return (self._region(count, control=True),)

    def _calibrate(self) -> int:
        """Lookups for one region; warms the caches up on the way."""
        count = FIRST_LOOKUPS
        while True:
            region = self._region(count)
            if region.cpu_ns >= self._least_ns / 2:
                wanted = LONGER * self._least_ns * count / region.cpu_ns
                return self._whole_bursts(wanted)
            count *= 2

    def _whole_bursts(self, lookups: float) -> int:
        return stream.whole_bursts(lookups, self._plan.experiment)

    def _region(self, count: int, *, latency: bool = False, control: bool = False) -> Region:
        experiment = self._plan.experiment
        step = ffi.new(
            "struct cb_step *",
            {
                "mode": core.MODE[experiment.mode],
                "policy": experiment.session_prefetch,
                "burst": experiment.burst,
                "count": count,
                "lead_in": self._whole_bursts(stream.LEAD_IN * count),
                "latency": latency,
            },
        )
        sample = ffi.new("struct cb_sample *")
        plan = self._plan
        pipes = (plan.control, plan.acknowledge) if control else (-1, -1)
        why = core.Why()
        failed = lib.cb_measure(
            self._arms,
            self._traffic,
            experiment.key_size,
            step,
            1,
            sample,
            self._histogram,
            ffi.new("struct cb_control *", pipes)[0],
            why.buffer,
            why.size,
        )
        if failed:
            raise why.error()
        return Region(**{name: getattr(sample, name) for name in Region.__struct_fields__})


if __name__ == "__main__":
    sys.exit(main())
