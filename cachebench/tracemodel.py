# SPDX-License-Identifier: BSD-3-Clause
"""The line trace: what is simulated, and what was counted.

Like ``model``, which alone it imports: the simulator's side and the analysis both
import it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cachebench.model import Experiment

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


class TracePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace worker is told to do."""

    experiment: Experiment
    layout: str
    fill: str | None
    """Shared object of the kernel that fills the table; None: the built-in one."""
    plugin: str
    """The trace build of the same kernel, which looks up."""
    geometry: Geometry
    lookups: int
    warm_up: int
    """Lookups through the simulated memory before those that are counted."""
    prefetch: bool = True
    """Whether software prefetches bring lines into the simulated caches."""
    curve_rate: float | None = None
    """Share of the lines that stack distances are recorded of; None: of none."""
    seed: int = 1


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
    lines: int
    """Distinct lines that each lookup demanded, summed over lookups."""
    places: tuple[Place, ...]
    distances: tuple[tuple[int, float], ...] = ()
    """Demand accesses by LRU stack distance: the smallest distance in lines of a
    bucket, and how many; distance -1 is a line that was never used before."""


class TraceSample(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of one layout."""

    lookups: int
    arenas: tuple[TracedArena, ...]
    seconds: float
    """Wall time of the traced lookups, warm-up included."""


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of one layout, with what it was made of."""

    layout: str
    prefetch_steps: int
    """Steps of the layout's prefetch that the lookups used."""
    sample: TraceSample


class TraceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The trace document, schema ``cachebench.trace/1``."""

    schema: Literal["cachebench.trace/1"]
    spec: Experiment
    geometry: Geometry
    lookups: int
    warm_up: int
    prefetch: bool
    curve_rate: float | None
    results: tuple[Traced, ...]
