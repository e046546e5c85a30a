# SPDX-License-Identifier: BSD-3-Clause
"""Where the members of a layout's structs lie: offsets, cache lines, holes, straddling members.

Element i of an arena begins at byte i x stride, and element 0 at the start of a
cache line. If the stride is a whole number of lines, a member has the same lines
in all elements; else all places in a line at which elements begin are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cachebench.model import Experiment
from cachebench.tracemodel import Geometry

SCHEMA: Literal["cachebench.map/1"] = "cachebench.map/1"
LINE = 64

Kind = Literal["buckets", "entries", "pool", "column", "profiles", "rules"]
Change = Literal["arena", "moved", "line", "grew", "shrank", "gone", "new"]


@dataclass(frozen=True)
class Member:
    """A leaf of a struct: what is in nested structs and unions has a path.

    An array is one member, an array of structs too. A bit field has its first and
    last byte's range, and ``bit_size`` bits from bit ``bit_offset`` of the struct.
    """

    name: str
    path: str
    """``policer.tokens``."""
    offset: int
    size: int
    type_name: str
    points_to: str | None = None
    """Tag of the struct, if the member is a pointer to one."""
    count: int = 1
    """Elements of an array; 0 of a flexible one."""
    bit_offset: int | None = None
    bit_size: int | None = None

    @property
    def bits(self) -> tuple[int, int]:
        """First bit, and the one after the last."""
        if self.bit_offset is not None and self.bit_size is not None:
            return self.bit_offset, self.bit_offset + self.bit_size
        return 8 * self.offset, 8 * (self.offset + self.size)


@dataclass(frozen=True)
class Struct:
    """A struct, a union, or a scalar as a struct of one member without a name."""

    name: str
    size: int
    alignment: int | None
    """If the source asks for one."""
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Arena:
    """An array of a kernel, with the type of its elements."""

    name: str
    type: str
    stride: int
    kind: Kind
    struct: Struct


@dataclass(frozen=True)
class Heat:
    """Of one member, for each packet (simulated)."""

    reads: float = 0.0
    writes: float = 0.0
    l1_misses: float = 0.0
    l2_misses: float = 0.0
    llc_misses: float = 0.0

    def plus(self, other: Heat) -> Heat:
        return Heat(
            self.reads + other.reads,
            self.writes + other.writes,
            self.l1_misses + other.l1_misses,
            self.l2_misses + other.l2_misses,
            self.llc_misses + other.llc_misses,
        )


@dataclass(frozen=True)
class HeatPoint:
    """What the heat was traced at, and in which simulated memory."""

    spec: Experiment
    geometry: Geometry
    lookups: int
    warm_up: int
    prefetch: bool
    """Whether software prefetches brought lines in; their misses then count as well."""


HeatMap = Mapping[tuple[str, str], Heat]
"""By arena and path of the member; what is not in it was not accessed."""


@dataclass(frozen=True)
class Row:
    """A member, or the bytes or bits that no member has."""

    kind: Literal["member", "hole", "padding"]
    offset: int
    size: int
    """Bytes; of a bit field those that it has bits in; 0 of a hole of some bits."""
    member: Member | None = None
    bit_offset: int | None = None
    """Of a bit field or a hole of some bits: the first bit of the struct that it has."""
    bit_size: int | None = None
    lines: tuple[int, int] | None = None
    """First and last, from the line that the element begins in; None if elements differ."""
    straddling: int = 0
    """Of the ``starts`` of the arena, those with the member on more lines than its size needs."""
    overlaps: bool = False
    """It shares bytes with another member: both are in a union."""
    heat: Heat | None = None


@dataclass(frozen=True)
class ArenaMap:
    """The rows of one arena's struct in the order of their offsets, and the totals."""

    name: str
    type: str
    kind: Kind
    size: int
    stride: int
    alignment: int | None
    line_size: int
    starts: int
    """Different places in a line at which elements begin: 1 if all begin with a line."""
    least_lines: int
    most_lines: int
    mean_lines: float
    """Lines that an element is on, over all its starts."""
    used: int
    holes: int
    padding: int
    """Bytes; whole ones."""
    hole_bits: int
    padding_bits: int
    """Of bytes that bit fields have in part."""
    rows: tuple[Row, ...]
    heat: Heat | None = None
    """Of all of an element: of its members, and of prefetches of what no member has."""

    @property
    def scalar(self) -> bool:
        """Whether the elements have no members of their own."""
        return [row.member.path for row in self.rows if row.member is not None] == [""]

    @property
    def straddling(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.straddling)


@dataclass(frozen=True)
class LayoutMap:
    """All arenas of a layout, the table's first."""

    layout: str
    key_size: int
    arenas: tuple[ArenaMap, ...]


@dataclass(frozen=True)
class Place:
    """Where a member is in one layout."""

    arena: str
    path: str
    offset: int
    size: int
    lines: tuple[int, int] | None
    heat: Heat | None = None


@dataclass(frozen=True)
class Difference:
    """A member of base, of head, or of both, and what became of it."""

    name: str
    base: Place | None
    head: Place | None
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Document:
    """One layout, or base and head with the differences: what ``map --json`` prints."""

    schema: Literal["cachebench.map/1"]
    maps: tuple[LayoutMap, ...]
    differences: tuple[Difference, ...] | None = None
    traced: HeatPoint | None = None
    """None: without heat."""


def map_layout(
    layout: str, key_size: int, arenas: Iterable[Arena], heat: HeatMap | None = None
) -> LayoutMap:
    """The map of a layout; with the heat of its members if that is known."""
    return LayoutMap(layout, key_size, tuple(map_arena(arena, heat) for arena in arenas))


def map_arena(arena: Arena, heat: HeatMap | None = None, line_size: int = LINE) -> ArenaMap:
    """Raises ValueError if elements would overlap."""
    struct = arena.struct
    if not 0 < struct.size <= arena.stride:
        raise ValueError(f"elements of {struct.size} bytes do not fit a stride of {arena.stride}")
    starts = [
        i * arena.stride % line_size
        for i in range(math.lcm(arena.stride, line_size) // arena.stride)
    ]
    per_element = [_lines_on(start, struct.size, line_size) for start in starts]
    shared = _overlapping(struct.members)
    rows = [
        Row(
            kind="member",
            offset=member.offset,
            size=member.size,
            member=member,
            bit_offset=member.bit_offset,
            bit_size=member.bit_size,
            lines=_lines(starts, member.offset, member.size, line_size),
            straddling=_straddling(starts, member.offset, member.size, line_size),
            overlaps=number in shared,
            heat=None if heat is None else heat.get((arena.name, member.path), Heat()),
        )
        for number, member in enumerate(struct.members)
    ]
    gaps = list(_gaps(struct, lambda offset, size: _lines(starts, offset, size, line_size)))
    rows.extend(gaps)
    rows.sort(key=lambda row: row.offset * 8 if row.bit_offset is None else row.bit_offset)
    holes = sum(gap.size for gap in gaps if gap.kind == "hole")
    padding = sum(gap.size for gap in gaps if gap.kind == "padding")
    return ArenaMap(
        name=arena.name,
        type=arena.type,
        kind=arena.kind,
        size=struct.size,
        stride=arena.stride,
        alignment=struct.alignment,
        line_size=line_size,
        starts=len(starts),
        least_lines=min(per_element),
        most_lines=max(per_element),
        mean_lines=sum(per_element) / len(starts),
        used=struct.size - holes - padding,
        holes=holes,
        padding=padding,
        hole_bits=sum(gap.bit_size or 0 for gap in gaps if gap.kind == "hole"),
        padding_bits=sum(gap.bit_size or 0 for gap in gaps if gap.kind == "padding"),
        rows=tuple(rows),
        heat=None if heat is None else _total(arena.name, heat),
    )


def _total(arena: str, heat: HeatMap) -> Heat:
    total = Heat()
    for (name, _), each in heat.items():
        if name == arena:
            total = total.plus(each)
    return total


def _lines_on(start: int, size: int, line_size: int) -> int:
    """Lines that ``size`` bytes from ``start`` are on."""
    return (start + size - 1) // line_size - start // line_size + 1 if size else 0


def _lines(starts: Sequence[int], offset: int, size: int, line_size: int) -> tuple[int, int] | None:
    last = offset + max(size, 1) - 1
    found = {((start + offset) // line_size, (start + last) // line_size) for start in starts}
    return found.pop() if len(found) == 1 else None


def _straddling(starts: Sequence[int], offset: int, size: int, line_size: int) -> int:
    least = -(-size // line_size)
    return sum(_lines_on(start + offset, size, line_size) > least for start in starts)


def _overlapping(members: Sequence[Member]) -> set[int]:
    """Numbers of the members that share a bit with another one."""
    found = set()
    order = sorted(range(len(members)), key=lambda number: members[number].bits)
    furthest, owner = 0, -1
    for number in order:
        first, after = members[number].bits
        if first < min(furthest, after):
            found |= {number, owner}
        if after > furthest:
            furthest, owner = after, number
    return found


def _gaps(struct: Struct, lines: Callable[[int, int], tuple[int, int] | None]) -> Iterator[Row]:
    """What no member covers: whole bytes, and the bits that are left of a byte."""
    covered = 0
    end = 8 * struct.size
    spans = sorted(member.bits for member in struct.members)
    for first, after in [*spans, (end, end)]:
        # Padding is what follows the last member.
        kind: Literal["hole", "padding"] = "padding" if first == end else "hole"
        at = covered
        while at < first:
            byte, bit = divmod(at, 8)
            if bit or first - at < 8:
                stop = min(first, 8 * (byte + 1))
                yield Row(kind, byte, 0, None, at, stop - at, lines(byte, 1))
                at = stop
            else:
                size = (first - at) // 8
                yield Row(kind, byte, size, None, None, None, lines(byte, size))
                at += 8 * size
        covered = max(covered, after)


def compare(base: LayoutMap, head: LayoutMap) -> tuple[Difference, ...]:
    """What became of each member, in base's order, then what is new in head's.

    Members are the same if their names are, from the end: ``stats.bytes`` is found
    in the arena ``stats``, in ``session`` as part of a nested struct, or as an array
    of its own. A longer agreement goes first, and a name that fits two members is
    no agreement.
    """
    ours, theirs = _places(base), _places(head)
    pairs = _match([words for words, _ in ours], [words for words, _ in theirs])
    found = []
    for number, (words, place) in enumerate(ours):
        other = theirs[pairs[number]][1] if number in pairs else None
        found.append(Difference(".".join(words), place, other, _changes(place, other)))
    matched = set(pairs.values())
    for number, (words, place) in enumerate(theirs):
        if number not in matched:
            found.append(Difference(".".join(words), None, place, ("new",)))
    return tuple(found)


def _places(layout: LayoutMap) -> list[tuple[tuple[str, ...], Place]]:
    """Each member's place, with its name in words, the arena's first."""
    return [
        (
            tuple(word for word in f"{arena.name}.{row.member.path}".split(".") if word),
            Place(arena.name, row.member.path, row.offset, row.size, row.lines, row.heat),
        )
        for arena in layout.arenas
        for row in arena.rows
        if row.member is not None
    ]


def _match(ours: Sequence[tuple[str, ...]], theirs: Sequence[tuple[str, ...]]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    for length in range(max(map(len, (*ours, *theirs)), default=0), 0, -1):
        left = _endings(ours, length, pairs.keys())
        right = _endings(theirs, length, set(pairs.values()))
        for ending in left.keys() & right.keys():
            if len(left[ending]) == len(right[ending]) == 1:
                pairs[left[ending][0]] = right[ending][0]
    return pairs


def _endings(
    names: Sequence[tuple[str, ...]], length: int, without: Iterable[int]
) -> dict[tuple[str, ...], list[int]]:
    found: dict[tuple[str, ...], list[int]] = {}
    taken = set(without)
    for number, words in enumerate(names):
        if number not in taken and len(words) >= length:
            found.setdefault(words[-length:], []).append(number)
    return found


def _changes(base: Place, head: Place | None) -> tuple[Change, ...]:
    if head is None:
        return ("gone",)
    found: list[Change] = []
    if base.arena != head.arena:
        found.append("arena")
    elif base.offset != head.offset:
        found.append("moved")
    # A line's number means something within one arena only.
    if base.arena == head.arena and base.lines != head.lines:
        found.append("line")
    if base.size != head.size:
        found.append("grew" if base.size < head.size else "shrank")
    return tuple(found)
