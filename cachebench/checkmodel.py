# SPDX-License-Identifier: BSD-3-Clause
"""What valgrind counted of the lookups that the line trace followed.

A leaf, as ``model`` is.
"""

from __future__ import annotations

import msgspec

from cachebench.tracemodel import Geometry


class Misses(msgspec.Struct, frozen=True, kw_only=True):
    """Loads and stores per lookup that missed the first and the last level of cache."""

    d1: float
    ll: float


class Callgrind(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions and misses by callgrind, beside the line trace by its rules.

    Its rules: loads and stores alone, two levels of cache, an access is one miss of a
    level at most, even if it touches two lines, and all that lookups touch counts.
    """

    tool: str
    """Name and version."""
    geometry: Geometry
    """Two levels that callgrind takes: the first and the last of those asked for."""
    changed: tuple[str, ...]
    """How they differ from those asked for, in words."""
    lookups: int
    warm_up: int
    instructions: float
    """Per lookup, software prefetches included."""
    misses: Misses
    traced: Misses
    """By the line trace of the same lookups."""


class LackeyArena(msgspec.Struct, frozen=True, kw_only=True):
    """Accesses to one arena in the plain kernel, beside those in the trace build.

    The compiler may split or merge accesses differently in the two.
    """

    name: str
    reads: int
    writes: int
    lines: int
    """Distinct lines that each lookup touched, summed over lookups."""
    traced_reads: int
    traced_writes: int
    traced_lines: int

    @property
    def same_lines(self) -> bool:
        return self.lines == self.traced_lines


class Lackey(msgspec.Struct, frozen=True, kw_only=True):
    """Every access of the plain kernel by lackey, beside the trace build's hooks."""

    tool: str
    sessions: int
    """Of the table that was looked up; its load is the experiment's."""
    lookups: int
    arenas: tuple[LackeyArena, ...]
