# SPDX-License-Identifier: BSD-3-Clause
"""A trace by object and member: who touches which line, how often, and what missed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cachebench.analyze import structmap
from cachebench.analyze.structmap import Arena, HeatMap
from cachebench.tracemodel import (
    KINDS,
    Geometry,
    Heat,
    MemberHeat,
    Object,
    Place,
    TracedArena,
    TraceSample,
)


def objects(sample: TraceSample, arenas: Sequence[Arena]) -> tuple[Object, ...]:
    """The arenas that a trace touched, in the order of their declaration.

    ``arenas`` tell the members of their elements. Raises ValueError if no lookup
    was counted.
    """
    if sample.lookups == 0:
        raise ValueError("the trace counted no lookup")
    return tuple(_object(arena, sample.lookups, arenas) for arena in sample.arenas if arena.places)


def total(heats: Iterable[Heat]) -> Heat:
    """The sum of all."""
    found = Heat()
    for heat in heats:
        found = Heat(
            reads=found.reads + heat.reads,
            writes=found.writes + heat.writes,
            missed=_plus3(found.missed, heat.missed),
            prefetches=found.prefetches + heat.prefetches,
            prefetch_missed=_plus3(found.prefetch_missed, heat.prefetch_missed),
            tlb_missed=(
                found.tlb_missed[0] + heat.tlb_missed[0],
                found.tlb_missed[1] + heat.tlb_missed[1],
            ),
        )
    return found


def lines_per_lookup(found: Sequence[Object]) -> float:
    """Mean number of distinct arena lines that one lookup demanded."""
    return sum(each.lines for each in found)


def misses_per_lookup(found: Sequence[Object], level: int, *, prefetch: bool) -> float:
    """Lines missed at a level (0: L1d) per lookup, by demand or by software prefetch."""
    if prefetch:
        return sum(each.heat.prefetch_missed[level] for each in found)
    return sum(each.heat.missed[level] for each in found)


def walks(heat: Heat, shape: Geometry) -> float:
    """Page walks per lookup: what no TLB of the geometry held. Raises ValueError if it
    has none."""
    present = [level for level, tlb in enumerate(shape.tlbs) if tlb.ways]
    if not present:
        raise ValueError("no TLB was simulated")
    return heat.tlb_missed[len(present) - 1]


def ns_per_access(sample: TraceSample) -> float:
    """Wall time that the trace took for one counted access, software prefetches included."""
    accesses = sum(place.accesses for arena in sample.arenas for place in arena.places)
    return sample.counted_seconds * 1e9 / accesses


def heat_map(found: Sequence[Object]) -> HeatMap:
    """The heat of every member, for the struct map: misses by demand and by prefetch."""
    heats: dict[tuple[str, str], structmap.Heat] = {}
    for each in found:
        for member in each.members:
            heat = member.heat
            missed = _plus3(heat.missed, heat.prefetch_missed)
            heats[each.name, member.path] = structmap.Heat(heat.reads, heat.writes, *missed)
    return heats


Three = tuple[float, float, float]


def _plus3(a: Three, b: Three) -> Three:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _object(arena: TracedArena, lookups: int, arenas: Sequence[Arena]) -> Object:
    members = next((a.struct.members for a in arenas if a.name == arena.name), ())
    stages: dict[str, list[Heat]] = {}
    places: dict[str, list[Heat]] = {}
    sizes: dict[str, int] = {}
    for place in arena.places:
        heat = _heat(place, lookups)
        # An access belongs to the member that it begins in. A prefetch of the start
        # of a line may begin in none.
        inside = [m for m in members if m.offset <= place.offset < m.offset + m.size]
        path = inside[0].path if inside else ""
        sizes[path] = inside[0].size if inside else 0
        places.setdefault(path, []).append(heat)
        stages.setdefault(place.stage, []).append(heat)
    by_member = tuple(
        MemberHeat(path=path, size=sizes[path], heat=total(heats)) for path, heats in places.items()
    )
    return Object(
        name=arena.name,
        type=arena.type,
        stride=arena.stride,
        elements=arena.elements,
        through=_reached_through(arena.type, arenas),
        lines=arena.lines / lookups,
        heat=total(each.heat for each in by_member),
        stages={stage: total(heats) for stage, heats in stages.items()},
        members=by_member,
    )


def _heat(place: Place, lookups: int) -> Heat:
    share = place.accesses / lookups
    missed = (place.missed[0] / lookups, place.missed[1] / lookups, place.missed[2] / lookups)
    tlb_missed = (place.tlb_missed[0] / lookups, place.tlb_missed[1] / lookups)
    if place.kind == KINDS[2]:
        return Heat(prefetches=share, prefetch_missed=missed, tlb_missed=tlb_missed)
    if place.kind == KINDS[1]:
        return Heat(writes=share, missed=missed, tlb_missed=tlb_missed)
    return Heat(reads=share, missed=missed, tlb_missed=tlb_missed)


def _reached_through(arena_type: str, arenas: Sequence[Arena]) -> str | None:
    """The pointer member that leads to objects of a type."""
    for arena in arenas:
        for member in arena.struct.members:
            if member.points_to is not None and f"struct {member.points_to}" == arena_type:
                return f"{arena.name}.{member.path}"
    return None
