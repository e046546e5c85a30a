# SPDX-License-Identifier: BSD-3-Clause
"""One process of a profile: a filled table whose lookups are timed and sampled in turn."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cachebench import _core, build, cardworker, core, stream
from cachebench._core import ffi, lib
from cachebench.core import Pointer
from cachebench.model import Experiment
from cachebench.profilemodel import Operand, ProfilePlan, ProfileSample, Steps
from cachebench.sampling import Sampler, sampler
from cachebench.say import say, serve
from cachebench.stepping import PROGRAM_COUNTER, NoSteps, Registers, steps

FIRST_LOOKUPS = 1024
CHASE_BYTES = 8 << 20
CHASE_SAMPLES = 200
STEPPED_LOOKUPS = 256
"""A path that one lookup in fifty takes is seen."""
MOST_STEPS = 100_000
"""At 20 µs each, these are two seconds: of a layout that does far more than ours."""
MOST_AT_A_TIME = 4
"""Regions may be this many times as long as they should, as after a slow start."""


def main() -> int:
    """The process: see cachebench.say."""
    return serve(ProfilePlan, run)


def run(plan: ProfilePlan) -> ProfileSample:
    """Executes the plan in this process."""
    os.sched_setaffinity(0, {plan.cpu})
    experiment = plan.experiment
    ops = build.load(Path(plan.plugin), plan.layout, experiment.key_size)
    with sampler(plan.way, plan.period_ns, plan.cpu) as sampled:
        chase = _chase(sampled, plan)
    say(doing="filling")
    with core.traffic(experiment) as traffic, core.arm(ops, experiment, plan.seed) as arm:
        core.fill(arm, traffic, experiment, plan.seed)
        lookups = _Lookups(arm, traffic, plan)
        say(doing="sampling")
        with sampler(plan.way, plan.period_ns, plan.cpu) as sampled:
            timed, counted = lookups.measure(sampled)
            inside, outside = _by_object(sampled.finish(), plan.plugin)
            way, lost = sampled.way, sampled.lost
        walked, no_steps = None, ""
        if plan.operands is not None:
            say(doing="stepping")
            try:
                walked = lookups.step(plan.operands, plan.strides)
            except NoSteps as error:
                no_steps = str(error)
        return ProfileSample(
            way=way,
            inside=tuple(sorted(inside.items())),
            outside=dict(outside),
            chase=tuple(sorted(chase.items())),
            lost=lost,
            timed=tuple(timed),
            sampled=tuple(counted),
            steps=walked,
            no_steps=no_steps,
        )


def _chase(sampled: Sampler, plan: ProfilePlan) -> Counter[int]:
    """Where samples land while almost all time is waited for one load."""
    with cardworker.cycle(CHASE_BYTES, "4k") as region:
        cardworker.build(region, CHASE_BYTES, plan.seed)
        count, wanted = FIRST_LOOKUPS, CHASE_SAMPLES * plan.period_ns
        while (spent := cardworker.chase(region, count)) < wanted / 20:
            count *= 2
        sampled.on()
        cardworker.chase(region, int(count * wanted / spent))
        sampled.off()
    return _by_object(sampled.finish(), str(_core.__file__))[0]


class _Lookups:
    """Regions of new packets, each after a lead-in."""

    def __init__(self, arm: Pointer, traffic: Pointer, plan: ProfilePlan) -> None:
        experiment = plan.experiment
        self._arm = arm
        self._traffic = traffic
        self._plan = plan
        self._experiment = experiment
        self._function = arm.ops.lookup[core.MODE[experiment.mode]][experiment.session_prefetch]
        # Another stream than the one that a checksum was made with.
        lib.cb_traffic_restart(traffic, plan.seed + 1)

    def measure(self, sampled: Sampler) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Lookups and CPU time of regions, timed and sampled in turn, until there are
        as many samples as were asked for."""
        least_ns = self._experiment.region_ms * 1e6
        count = stream.whole_bursts(FIRST_LOOKUPS, self._experiment)
        while (spent := self._region(count)[1]) < least_ns / 2:
            count *= 2
        count = stream.whole_bursts(
            min(count * least_ns / spent, MOST_AT_A_TIME * count), self._experiment
        )
        timed: list[tuple[int, int]] = []
        counted: list[tuple[int, int]] = []
        while sum(ns for _, ns in counted) < self._plan.samples * self._plan.period_ns:
            timed.append(self._region(count))
            counted.append(self._region(count, sampled))
        return timed, counted

    def step(self, operands: Sequence[Operand], strides: Mapping[str, int]) -> Steps:
        """Some lookups one instruction at a time; what each touches, and what follows it."""
        count = stream.whole_bursts(STEPPED_LOOKUPS - 1, self._experiment)
        packets = self._draw(count)
        objects = _objects(self._plan.plugin)
        places = _Places(self._arm, strides)
        by_offset = {operand.at: operand for operand in operands}
        order: Counter[tuple[int, int]] = Counter()
        accesses: Counter[tuple[int, str, int]] = Counter()
        before = None
        for registers in steps(lambda: self._look_up(packets), MOST_STEPS):
            at = _offset(objects, registers[PROGRAM_COUNTER])
            if at is not None:
                if before is not None:
                    order[before, at] += 1
                if (operand := by_offset.get(at)) is not None:
                    found = places.find(_address(operand, registers))
                    if found is not None:
                        arena, place = found
                        accesses[at, arena, place] += 1
            before = at
        return Steps(
            lookups=count,
            order=tuple((*key, n) for key, n in sorted(order.items())),
            accesses=tuple((*key, n) for key, n in sorted(accesses.items())),
        )

    def _region(self, count: int, sampled: Sampler | None = None) -> tuple[int, int]:
        lead_in = stream.whole_bursts(stream.LEAD_IN * count, self._experiment)
        self._look_up(self._draw(lead_in))
        packets = self._draw(count)
        if sampled is not None:
            sampled.on()
        start = time.thread_time_ns()
        self._look_up(packets)
        spent = time.thread_time_ns() - start
        if sampled is not None:
            sampled.off()
        return count, spent

    def _draw(self, count: int) -> Packets:
        packets = Packets.of(count, self._experiment)
        lib.cb_traffic_draw(self._traffic, count, packets.keys, packets.lengths, ffi.NULL)
        return packets

    def _look_up(self, packets: Packets) -> None:
        self._function(self._arm, packets.stream, self._experiment.burst)


@dataclass(frozen=True)
class Packets:
    """A stream with the arrays that it points to."""

    keys: Pointer
    lengths: Pointer
    stream: Pointer

    @staticmethod
    def of(count: int, experiment: Experiment) -> Packets:
        keys = ffi.new("char[]", count * experiment.key_size)
        lengths = ffi.new("uint16_t[]", count)
        return Packets(keys, lengths, ffi.new("struct cb_stream *", (keys, lengths, count)))


class _Places:
    """Which place in an element of which arena an address is."""

    def __init__(self, arm: Pointer, strides: Mapping[str, int]) -> None:
        name, start, size = ffi.new("char **"), ffi.new("uint64_t *"), ffi.new("uint64_t *")
        self._ranges: list[tuple[int, int, str, int]] = []
        number = 0
        while lib.cb_arm_arena(arm, number, name, start, size):
            text = ffi.string(name[0]).decode(errors="replace")
            if text in strides:
                self._ranges.append((start[0], start[0] + size[0], text, strides[text]))
            number += 1

    def find(self, address: int) -> tuple[str, int] | None:
        for start, end, name, stride in self._ranges:
            if start <= address < end:
                return name, (address - start) % stride
        return None


def _address(operand: Operand, registers: Registers) -> int:
    address = operand.displacement
    if operand.base >= 0:
        address += registers[operand.base]
    if operand.index >= 0:
        address += operand.scale * registers[operand.index]
    return address & 0xFFFF_FFFF_FFFF_FFFF


_Objects = list[tuple[int, int, int]]
"""First address, the one after the last, place of the first in the file."""


def _objects(path: str) -> _Objects:
    """Where the code of a shared object is mapped."""
    found = []
    for first, last, offset, name in _code():
        with suppress(OSError):
            if Path(name).samefile(path):
                found.append((first, last, offset))
    return found


def _code() -> list[tuple[int, int, int, str]]:
    found = []
    for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
        fields = line.split(maxsplit=5)
        if "x" in fields[1]:
            first, last = (int(end, 16) for end in fields[0].split("-"))
            name = fields[5] if len(fields) > 5 else ""
            found.append((first, last, int(fields[2], 16), name))
    return found


def _offset(objects: _Objects, address: int) -> int | None:
    for first, last, offset in objects:
        if first <= address < last:
            return address - first + offset
    return None


def _by_object(addresses: Sequence[int], path: str) -> tuple[Counter[int], Counter[str]]:
    """Samples by their offsets in one object; the others by the names of theirs."""
    objects = _objects(path)
    everything = _code()
    inside: Counter[int] = Counter()
    outside: Counter[str] = Counter()
    for address in addresses:
        at = _offset(objects, address)
        if at is not None:
            inside[at] += 1
        else:
            names = [name for first, last, _, name in everything if first <= address < last]
            outside[Path(names[0]).name if names else ""] += 1
    return inside, outside
