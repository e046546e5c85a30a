# SPDX-License-Identifier: BSD-3-Clause
"""A trace by object and member: who touches which line, how often, and what missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cachebench.analyze.structmap import Arena, HeatMap, Member
from cachebench.analyze.structmap import Heat as StructHeat
from cachebench.tracemodel import KINDS, TracedArena, TraceSample


@dataclass
class Heat:
    """Accesses and misses per lookup; what software prefetches did is apart."""

    reads: float = 0.0
    writes: float = 0.0
    missed: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """Lines that demand accesses missed in L1d, L2 and LLC."""
    tlb_missed: list[float] = field(default_factory=lambda: [0.0, 0.0])
    prefetches: float = 0.0
    prefetch_missed: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """Lines that software prefetches brought in, by the level they were not in."""

    def add(self, other: Heat) -> None:
        self.reads += other.reads
        self.writes += other.writes
        self.prefetches += other.prefetches
        for mine, theirs in (
            (self.missed, other.missed),
            (self.tlb_missed, other.tlb_missed),
            (self.prefetch_missed, other.prefetch_missed),
        ):
            for level, value in enumerate(theirs):
                mine[level] += value


@dataclass(frozen=True)
class Object:
    """One arena: its lines and its heat, whole and by stage and by offset."""

    name: str
    type: str
    stride: int
    lines: float
    """Distinct lines demanded per lookup."""
    total: Heat
    by_stage: Mapping[str, Heat]
    by_offset: Mapping[int, Heat]


def objects(sample: TraceSample) -> tuple[Object, ...]:
    """The arenas that a trace touched, in the order of their declaration.

    Raises ValueError if no lookup was counted.
    """
    if sample.lookups == 0:
        raise ValueError("the trace counted no lookup")
    return tuple(_object(arena, sample.lookups) for arena in sample.arenas if arena.places)


def lines_per_lookup(found: Sequence[Object]) -> float:
    """Mean number of distinct arena lines that one lookup demanded."""
    return sum(each.lines for each in found)


def misses_per_lookup(found: Sequence[Object], level: int, *, prefetch: bool) -> float:
    """Lines missed at a level (0: L1d) per lookup, by demand or by software prefetch."""
    if prefetch:
        return sum(each.total.prefetch_missed[level] for each in found)
    return sum(each.total.missed[level] for each in found)


def _object(arena: TracedArena, lookups: int) -> Object:
    total = Heat()
    by_stage: dict[str, Heat] = {}
    by_offset: dict[int, Heat] = {}
    for place in arena.places:
        heat = Heat()
        share = place.accesses / lookups
        missed = [count / lookups for count in place.missed]
        if place.kind == KINDS[2]:
            heat.prefetches = share
            heat.prefetch_missed = missed
        else:
            if place.kind == "read":
                heat.reads = share
            else:
                heat.writes = share
            heat.missed = missed
        heat.tlb_missed = [count / lookups for count in place.tlb_missed]
        total.add(heat)
        by_stage.setdefault(place.stage, Heat()).add(heat)
        by_offset.setdefault(place.offset, Heat()).add(heat)
    return Object(
        arena.name,
        arena.type,
        arena.stride,
        arena.lines / lookups,
        total,
        by_stage,
        dict(sorted(by_offset.items())),
    )


@dataclass(frozen=True)
class MemberHeat:
    """One member of an arena's elements; ``path`` is empty where no member is."""

    path: str
    size: int
    heat: Heat


def by_member(found: Object, members: Sequence[Member]) -> tuple[MemberHeat, ...]:
    """The heat of an object by member: an access belongs to the member it begins in.

    ``members`` are the leaves of the element's type, sorted by offset. Accesses to
    bytes between them, such as a prefetch of the start of a line, have no path.
    """
    heats: dict[str, MemberHeat] = {}
    for offset, heat in found.by_offset.items():
        inside = [m for m in members if m.offset <= offset < m.offset + m.size]
        path = inside[0].path if inside else ""
        size = inside[0].size if inside else 0
        heats.setdefault(path, MemberHeat(path, size, Heat())).heat.add(heat)
    return tuple(heats.values())


def reached_through(arena_type: str, arenas: Sequence[Arena]) -> str | None:
    """The pointer member that leads to objects of a type: ``session.policer``."""
    for arena in arenas:
        for member in arena.struct.members:
            if member.points_to is not None and f"struct {member.points_to}" == arena_type:
                return f"{arena.name}.{member.path}"
    return None


def heat_map(found: Sequence[Object], arenas: Sequence[Arena]) -> HeatMap:
    """The heat of every member, for the struct map: misses by demand and by prefetch."""
    heats: dict[tuple[str, str], StructHeat] = {}
    members = {arena.name: arena.struct.members for arena in arenas}
    for each in found:
        for member in by_member(each, members.get(each.name, ())):
            heat = member.heat
            missed = [a + b for a, b in zip(heat.missed, heat.prefetch_missed, strict=True)]
            heats[each.name, member.path] = StructHeat(heat.reads, heat.writes, *missed)
    return heats
