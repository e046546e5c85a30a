# SPDX-License-Identifier: BSD-3-Clause
"""The line trace: what is simulated, and what was counted.

A leaf, as ``model`` is: the simulator's side and the analysis both import it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

STAGES = ("none", "hash", "bucket", "key", "prefetch", "session")
"""As csrc/trace.h numbers them."""

KINDS = ("read", "write", "prefetch")


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """One level of cache or TLB; 0 ways: there is none."""

    ways: int
    sets: int


class Geometry(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated memory: three levels of cache with 64-byte lines, two of TLB."""

    caches: tuple[Level, Level, Level]
    tlbs: tuple[Level, Level]
    page_bits: int
    source: str
    """Where it is from: the host, the command line, a stated default."""


class Place(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Accesses of one kind and stage at one offset of an arena's elements."""

    offset: int
    stage: str
    kind: Literal["read", "write", "prefetch"]
    accesses: int
    missed: tuple[int, int, int]
    """Lines that missed L1d, L2 and LLC."""
    tlb_missed: tuple[int, int]


class TracedArena(msgspec.Struct, frozen=True, kw_only=True):
    """What the lookups did to one arena."""

    name: str
    type: str
    stride: int
    elements: int
    lines: int
    """Distinct lines that each lookup demanded, summed over lookups."""
    places: tuple[Place, ...]
    distances: tuple[tuple[int, float], ...] = ()
    """Demand accesses by LRU stack distance: the smallest distance in lines of a
    bucket, and how many; distance -1 is a line that was never used before."""


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """What lookups did outside the arenas: to packets, control data, their own array."""

    accesses: int
    missed: tuple[int, int, int]
    """Accesses that missed L1d, L2 and LLC."""


class TraceSample(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of one layout."""

    lookups: int
    arenas: tuple[TracedArena, ...]
    seconds: float
    """Wall time of the traced lookups, warm-up included."""
    counted_seconds: float
    """Of it, the lookups that were counted."""
    around: Around | None = None
    """Of a trace that counts as callgrind does; others leave it out."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Misses per lookup of fully associative LRU caches, by loads and stores."""

    cache_bytes: tuple[int, ...]
    objects: dict[str, tuple[float, ...]]
    """By arena, at each of the sizes; of arenas with a line that was followed."""
    total: tuple[float, ...]


class Heat(msgspec.Struct, frozen=True, kw_only=True):
    """Accesses and missed lines per lookup; what software prefetches did is apart."""

    reads: float = 0.0
    writes: float = 0.0
    missed: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Lines that loads and stores missed in L1d, L2 and LLC."""
    prefetches: float = 0.0
    prefetch_missed: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Lines that software prefetches brought in, by the level they were not in."""
    tlb_missed: tuple[float, float] = (0.0, 0.0)
    """Of both kinds of access, in the first and the second TLB."""


class MemberHeat(msgspec.Struct, frozen=True, kw_only=True):
    """One member of an arena's elements; ``path`` is empty where no member is."""

    path: str
    size: int
    heat: Heat


class Object(msgspec.Struct, frozen=True, kw_only=True):
    """One arena: its lines and its heat, whole, by stage and by member."""

    name: str
    type: str
    stride: int
    elements: int
    through: str | None
    """The pointer member that leads to it, such as ``session.policer``."""
    lines: float
    """Distinct lines demanded per lookup."""
    heat: Heat
    stages: dict[str, Heat]
    members: tuple[MemberHeat, ...]


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What the line trace of one layout tells of each lookup."""

    geometry: Geometry
    lookups: int
    """That were counted."""
    warm_up: int
    """Lookups through the simulated memory before them."""
    prefetch: bool
    """Whether software prefetches brought lines into the simulated caches."""
    levels: int
    """Loads of a hit of which each needs the value of the one before: the bucket, the
    key entry, and one for each prefetch step that the layout has."""
    seconds: float
    """Wall time of the traced lookups, warm-up included."""
    objects: tuple[Object, ...]
