# SPDX-License-Identifier: BSD-3-Clause
"""The least time that a lookup's memory accesses take on a machine: an estimate.

From the line trace (which lines, simulated) and the machine card (what a line
costs, measured). Arithmetic on values takes none of it, and neither does what a
kernel waits for beyond its lines.
"""

from __future__ import annotations

import msgspec

from cachebench.analyze import card, lines
from cachebench.cardmodel import MachineCard, PageCard
from cachebench.model import Experiment
from cachebench.tracemodel import Simulation

LINE = 64
L1, L2, LLC = range(3)


def page_card(machine: MachineCard, spec: Experiment) -> PageCard | None:
    """The part of the card that was measured in the experiment's pages."""
    found = [page for page in machine.pages if page.pages == spec.pages]
    return found[0] if found and found[0].latency and found[0].throughput else None


def working_set(simulation: Simulation) -> float:
    """Bytes of the lines that lookups touch, of all sessions together.

    A lookup touches one element of an arena, or two buckets: ``lines`` of the lines
    that an element has. An element that is smaller than a line shares it with others.
    """
    return sum(
        each.elements * each.stride * min(1.0, each.lines * LINE / each.stride)
        for each in simulation.objects
    )


def ns_per_lookup(simulation: Simulation, spec: Experiment, page: PageCard) -> float:
    """ns that a lookup cannot go below.

    In ``bulk`` and ``single``, where lookups overlap: lines that miss L2 x ns per
    random line, with as many under way as this machine serves best. In ``serial``:
    dependent loads x latency. Both in a working set of that size, and the lowest that
    a process measured: what disturbs a load only makes it slower.
    """
    size = working_set(simulation)
    latency = [msgspec.structs.replace(point, ns=point.low) for point in page.latency]
    throughput = [msgspec.structs.replace(point, ns=point.low) for point in page.throughput]
    if spec.mode == "serial":
        levels = 1 + spec.hit_ratio * (simulation.levels - 1)
        return card.floor_serial(levels, card.latency(latency, size))
    # A machine may tell of no L2: the next cache behind the first one is in its place.
    level = next((n for n in (L2, LLC) if simulation.geometry.caches[n].ways), L1)
    cold = sum(
        lines.misses_per_lookup(simulation.objects, level, prefetch=prefetch)
        for prefetch in (False, True)
    )
    in_flight = {point.in_flight for point in throughput}
    return card.floor_bulk(
        cold, min(card.ns_per_line(throughput, size, each) for each in in_flight)
    )
