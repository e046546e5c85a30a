# SPDX-License-Identifier: BSD-3-Clause
"""Every access of a plain kernel to its arenas, by lackey's memory trace."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cachebench.errors import CachebenchError
from cachebench.geometry import LINE
from cachebench.model import Experiment
from cachebench.valgrind import Valgrind, Watched, Where, run

OPTIONS = (
    "--tool=lackey",
    "--trace-mem=yes",
    "--basic-counts=no",
    # Else a load is left out whose register is written again unused: prefetches are
    # nothing to valgrind, and so is a pointer that only names what to prefetch.
    "--vex-iropt-register-updates=allregs-at-each-insn",
)
_DATA = re.compile(rb"^ ([LSM]) ([0-9a-f]+),(\d+)$", re.MULTILINE)
"""A load, a store or both at one place: `` L 1ffeff,8``. Instructions begin with I."""


@dataclass
class Touched:
    """Of one arena; lines are distinct in each lookup, and summed over lookups."""

    reads: int = 0
    writes: int = 0
    lines: int = 0


Access = Callable[[int, int, int, bool], None]
"""Arena, offset in it, bytes, whether it is a store."""


def touched(
    valgrind: Valgrind, experiment: Experiment, layout: str, plugin: Path | None, lookups: int
) -> tuple[Touched, ...]:
    """What the lookups touched, by arena in the order of the line trace's.

    Lackey tells no lookup from another, so each is a call of its own; a kernel does
    for a burst of one what it does for each of a longer burst.
    """
    reader = Reader()
    where = run(
        valgrind,
        OPTIONS,
        experiment,
        layout,
        plugin,
        Watched(lookups, slice=1),
        reader.feed,
    )
    if reader.lookups != lookups:
        raise CachebenchError(
            f"layout {layout}: lackey showed {reader.lookups} of {lookups} lookups"
        )
    return reader.arenas(len(where.arenas))


@dataclass
class Reader:
    """Reads lackey's log piece by piece; counts what is between two marks."""

    access: Access | None = None
    """Is told of each access to an arena, and ``lookups`` is then the number of its
    lookup."""
    lookups: int = 0
    _rest: bytes = b""
    _inside: bool = False
    _ranges: _Ranges | None = None
    _counts: dict[int, Touched] = field(default_factory=dict)
    _lines: set[tuple[int, int]] = field(default_factory=set)

    def arenas(self, count: int) -> tuple[Touched, ...]:
        """What has been read so far of arenas 0 … count - 1."""
        return tuple(self._counts.get(arena, Touched()) for arena in range(count))

    def feed(self, piece: bytes, where: Where | None) -> None:
        """Takes the next piece of the log."""
        text, newline, self._rest = (self._rest + piece).rpartition(b"\n")
        if where is None or not newline:
            return  # no lookup yet, or no whole line
        if self._ranges is None:
            self._ranges = _Ranges(where)
        if not self._inside:
            # Nearly all of the log is the fill, and of no interest.
            start = text.find(b" S %08x,8" % where.marker)
            text = text[start:] if start >= 0 else b""
        for kind, address, size in _DATA.findall(text):
            place = int(address, 16)
            if place == where.marker:
                self._mark()
            elif self._inside and (found := self._ranges.find(place)) is not None:
                self._add(*found, int(size), kind)
            # Else it is the stack, the key stream or control data.

    def _add(self, arena: int, offset: int, size: int, kind: bytes) -> None:
        counts = self._counts.setdefault(arena, Touched())
        for is_write, kinds in ((False, b"LM"), (True, b"SM")):
            if kind in kinds:
                counts.reads += not is_write
                counts.writes += is_write
                if self.access is not None:
                    self.access(arena, offset, size, is_write)
        for number in range(offset // LINE, (offset + size - 1) // LINE + 1):
            if (arena, number) not in self._lines:
                self._lines.add((arena, number))
                counts.lines += 1

    def _mark(self) -> None:
        if self._inside:
            self.lookups += 1
            self._lines.clear()
        self._inside = not self._inside


class _Ranges:
    """Finds the arena of an address."""

    def __init__(self, where: Where) -> None:
        order = sorted(range(len(where.arenas)), key=lambda i: where.arenas[i].start)
        self._order = order
        self._starts = [where.arenas[i].start for i in order]
        self._ends = [where.arenas[i].start + where.arenas[i].bytes for i in order]

    def find(self, address: int) -> tuple[int, int] | None:
        """Number of the arena and offset in it."""
        place = bisect_right(self._starts, address) - 1
        if place < 0 or address >= self._ends[place]:
            return None
        return self._order[place], address - self._starts[place]
