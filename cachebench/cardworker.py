# SPDX-License-Identifier: BSD-3-Clause
"""One worker process of the machine card: one page size, all working sets.

Like cachebench.worker, it reads a plan from standard input and writes JSON lines
to standard output; the protocol is described there.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cachebench import core
from cachebench._core import ffi, lib
from cachebench.cardmodel import IN_FLIGHT, CardPages, CardPlan, CardSample
from cachebench.core import Pointer
from cachebench.errors import CachebenchError
from cachebench.say import say, serve

FIRST_STEPS = 1024
LEAD_IN = 0.5
"""Share of a region that runs before the first one untimed, at least; for working
sets that caches hold, this passes each line many times."""
LONGER = 1.25
"""Regions are aimed at this much more than the least time."""
WAKE_SECONDS = 0.2
"""An idle CPU needs some time to reach its clock rate."""

Follow = Callable[[int], int]
"""Follows the cycle for a number of steps; gives the CPU time in ns."""


def main() -> int:
    """The process: see cachebench.say."""
    return serve(CardPlan, run)


def run(plan: CardPlan) -> CardSample:
    """Executes the plan in this process."""
    os.sched_setaffinity(0, {plan.cpu})
    latency: list[float] = []
    throughput: list[tuple[float, ...]] = []
    with cycle(max(plan.latency), plan.pages, plan.node) as region:
        build(region, min(plan.latency), plan.seed)
        _wake(region)
        for size in plan.latency:
            say(doing=f"{size >> 10} KiB")
            build(region, size, plan.seed)
            latency.append(_ns_per_step(lambda steps: chase(region, steps), plan))
            if size in plan.throughput:
                throughput.append(tuple(_ns_per_line(region, chains, plan) for chains in IN_FLIGHT))
        share = _huge_bytes(int(ffi.cast("uintptr_t", region.base))) / region.bytes
    return CardSample(huge_share=share, latency=tuple(latency), throughput=tuple(throughput))


@contextmanager
def cycle(size: int, pages: CardPages, node: int | None = None) -> Iterator[Pointer]:
    """Mapped memory for cycles of up to ``size`` bytes."""
    why = core.Why()
    policy = getattr(lib, f"CB_PAGES_{pages.upper()}")
    opened = lib.cb_cycle_open(size, policy, -1 if node is None else node, why.buffer, why.size)
    if opened == ffi.NULL:
        raise why.error()
    try:
        yield opened
    finally:
        lib.cb_cycle_close(opened)


def build(region: Pointer, size: int, seed: int) -> None:
    """Links the first ``size`` bytes to one cycle."""
    if lib.cb_cycle_build(region, size, seed) != 0:
        raise CachebenchError(f"no cycle of {size} bytes in a region of {region.bytes}")


def chase(region: Pointer, steps: int) -> int:
    """CPU time in ns of that many dependent loads."""
    return random_lines(region, 1, steps)


def random_lines(region: Pointer, chains: int, steps: int) -> int:
    """CPU time in ns of that many loads on each of several chains at once."""
    cpu_ns = ffi.new("uint64_t *")
    if chains == 1:
        failed = lib.cb_chase(region, steps, cpu_ns)
    else:
        failed = lib.cb_random_lines(region, chains, steps, cpu_ns)
    if failed:
        raise CachebenchError("the chase did not arrive where it must: faulty memory?")
    return int(cpu_ns[0])


def _ns_per_line(region: Pointer, chains: int, plan: CardPlan) -> float:
    return _ns_per_step(lambda steps: random_lines(region, chains, steps), plan) / chains


def _ns_per_step(follow: Follow, plan: CardPlan) -> float:
    """Median over regions that each last long enough.

    Each goes on where the last one stopped, so that a working set larger than the
    caches is not read twice in the same place.
    """
    least_ns = plan.region_ms * 1e6
    steps = FIRST_STEPS
    while (spent := follow(steps)) < LEAD_IN * least_ns:
        steps *= 2
    steps = int(steps * LONGER * least_ns / spent) + 1
    found: list[float] = []
    while len(found) < plan.regions:
        spent = follow(steps)
        if spent < least_ns:
            steps = int(steps * LONGER * least_ns / spent) + 1
            found.clear()  # all regions are of one length
        else:
            found.append(spent / steps)
    return statistics.median(found)


def _wake(region: Pointer) -> None:
    until = time.monotonic() + WAKE_SECONDS
    while time.monotonic() < until:
        chase(region, 100 * FIRST_STEPS)


def _huge_bytes(start: int) -> int:
    """Bytes in huge pages of the mapping that begins at an address."""
    found = 0
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            inside = int(first.partition("-")[0], 16) == start
        elif inside and first in ("AnonHugePages:", "Private_Hugetlb:"):
            found += int(rest.split()[0]) * 1024
    return found
