# SPDX-License-Identifier: BSD-3-Clause
"""Struct maps as pictures: a row of 64 cells for each cache line, members as boxes.

Text of its own instead of a plotting library's: the picture is boxes with names,
and says the same in the same bytes wherever it is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from cachebench.analyze.structmap import ArenaMap, Document, Heat, LayoutMap, Row
from cachebench.report.maptext import heading, heat_source, heat_text, totals
from cachebench.report.text import quantity

CELL = 16
ROW = 40
MARGIN = 16
LABEL = 52
"""Left of the cells: the line's number."""
FONTS = (12.0, 10.0, 8.5)
WIDE = 0.62
"""Width of a monospaced character, in font sizes, with a little to spare."""

COLOURS = (
    "#cfe2f3",
    "#d9ead3",
    "#fff2cc",
    "#f4d9e6",
    "#ddd6f0",
    "#d0ecec",
    "#fce0cd",
    "#e6e6d2",
)
INK, FAINT, BORDER = "#222222", "#666666", "#8a8a8a"
EMPTY, HOLE = "#ffffff", "#f0f0f0"
WARMTH = ((0.0, "#ffffff"), (0.5, "#fdeedd"), (1.5, "#fbd3a6"), (2.5, "#f6ae6a"))
HOTTEST = "#ea8a3e"
"""Of members with heat: the colour up to so many reads and writes per packet, and above."""


def draw(document: Document) -> str:
    """One layout, or head's below base's."""
    line_size = max(arena.line_size for layout in document.maps for arena in layout.arenas)
    picture = _Picture(MARGIN + LABEL + line_size * CELL + MARGIN)
    names = ("base: ", "head: ") if document.differences is not None else ("",)
    for name, layout in zip(names, document.maps, strict=True):
        picture.layout(f"{name}{layout.layout}", layout)
    if document.traced is not None:
        picture.note(
            f"r reads, w writes, M L1d misses; the darker, the more: {heat_source(document.traced)}"
        )
    return picture.text()


@dataclass(frozen=True)
class _Part:
    """What one line has of a row of the map: cells, and the lane of a union's member."""

    row: Row
    first: int
    after: int
    lane: int
    lanes: int


class _Picture:
    def __init__(self, width: int) -> None:
        self._width = width
        self._y = float(MARGIN)
        self._items: list[str] = []

    def text(self) -> str:
        height = self._y + MARGIN
        view = f"{self._width} {height:g}"
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {view}" '
            f'width="{self._width}" height="{height:g}" '
            'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace">\n'
            '<defs><pattern id="unused" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect width="6" height="6" fill="{HOLE}"/>'
            '<line x1="0" y1="0" x2="0" y2="6" stroke="#d4d4d4" stroke-width="2"/>'
            "</pattern></defs>\n"
            f'<rect width="{self._width}" height="{height:g}" fill="#ffffff"/>\n'
            + "".join(f"{item}\n" for item in self._items)
            + "</svg>\n"
        )

    def layout(self, title: str, layout: LayoutMap) -> None:
        self._line(f"{title}, {layout.key_size}-byte keys", 15, INK, bold=True)
        for arena in layout.arenas:
            self._arena(arena)
        self._y += 12

    def note(self, text: str) -> None:
        self._line(text, 11, FAINT)

    def _arena(self, arena: ArenaMap) -> None:
        self._y += 10
        self._line(heading(arena), 12, INK)
        self._ruler(arena.line_size)
        colours = _colours(arena)
        for line in range(-(-arena.stride // arena.line_size)):
            begin = line * arena.line_size
            label = f"line {line}" if arena.starts == 1 else f"+{begin}"
            self._label(MARGIN, self._y + ROW / 2 + 4, label, 11, FAINT)
            self._box(0, arena.line_size, 0, 1, EMPTY, "")
            after = min(arena.stride - begin, arena.line_size)
            if arena.stride > arena.size and arena.size < begin + after:
                first = max(0, arena.size - begin)
                self._named(first, after, 0, 1, "url(#unused)", ["(between)"], "between elements")
            for part in _parts(arena, begin):
                self._part(part, arena, colours)
            if after < arena.line_size:
                self._named(after, arena.line_size, 0, 1, EMPTY, ["next"], "following elements")
            self._y += ROW + 4
        self._line(totals(arena), 11, FAINT)
        if arena.heat is not None:
            self._line(f"per packet {heat_text(arena.heat)}", 11, FAINT)

    def _ruler(self, line_size: int) -> None:
        self._y += 12
        for cell in range(0, line_size, 8):
            self._label(MARGIN + LABEL + cell * CELL + 2, self._y, str(cell), 9, FAINT)
        self._y += 4

    def _part(self, part: _Part, arena: ArenaMap, colours: dict[str, str]) -> None:
        row = part.row
        if row.member is None:
            what = f"{row.kind}, {row.size} B at {row.offset}"
            if row.bit_size is not None:
                what = f"{row.kind}, {row.bit_size} bits in byte {row.offset}"
            names, fill = [str(row.kind)], "url(#unused)"
        else:
            fill = colours[row.member.path] if row.heat is None else _warmth(row.heat)
            path = row.member.path or arena.name
            what = f"{path}: {row.member.type_name}, {row.size} B at {row.offset}"
            names = [path, row.member.name]
            if row.heat is not None:
                what += (
                    f"; per packet {_heat(row.heat)}, {quantity(row.heat.l1_misses, 3)} L1, "
                    f"{quantity(row.heat.l2_misses, 3)} L2 and "
                    f"{quantity(row.heat.llc_misses, 3)} LLC misses (simulated)"
                )
        below = [] if row.heat is None else _below(row.heat)
        self._named(part.first, part.after, part.lane, part.lanes, fill, names, what, below)

    def _named(
        self,
        first: int,
        after: int,
        lane: int,
        lanes: int,
        fill: str,
        names: Sequence[str],
        what: str,
        below: Sequence[str] = (),
    ) -> None:
        self._box(first, after, lane, lanes, fill, what)
        room, height = (after - first) * CELL - 4, ROW / lanes
        left = MARGIN + LABEL + first * CELL + 2
        middle = self._y + lane * height + height / 2
        text, size = _fitted([name for name in names if name], room, height)
        fitting = [line for line in below if len(line) * FONTS[-1] * WIDE <= room]
        show_below = bool(fitting) and lanes == 1
        if text:
            self._label(left, middle + size * 0.35 - (7 if show_below else 0), text, size, INK)
        if show_below:
            self._label(left, middle + 12, fitting[0], FONTS[-1], INK)

    def _box(self, first: int, after: int, lane: int, lanes: int, fill: str, what: str) -> None:
        height = ROW / lanes
        title = f"<title>{escape(what)}</title>" if what else ""
        self._items.append(
            f'<rect x="{MARGIN + LABEL + first * CELL}" y="{self._y + lane * height:g}" '
            f'width="{(after - first) * CELL}" height="{height:g}" fill="{fill}" '
            f'stroke="{BORDER}" stroke-width="0.8">{title}</rect>'
        )

    def _line(self, text: str, size: float, colour: str, *, bold: bool = False) -> None:
        """Text over the whole width, broken at words where it is longer."""
        room = int((self._width - 2 * MARGIN) / (size * WIDE))
        for part in _wrapped(text, room):
            self._y += size + 4
            self._label(MARGIN, self._y, part, size, colour, bold=bold)

    def _label(
        self, x: float, y: float, text: str, size: float, colour: str, *, bold: bool = False
    ) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self._items.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}"{weight}>'
            f"{escape(text)}</text>"
        )


def _parts(arena: ArenaMap, begin: int) -> Iterator[_Part]:
    """What the line from byte ``begin`` has, the members of a union in lanes."""
    end = begin + arena.line_size
    rows = [
        (row, row.offset - begin, row.offset + (row.size or 1) - begin)
        for row in arena.rows
        if row.offset < end and row.offset + (row.size or 1) > begin and _drawn(row)
    ]
    group: list[tuple[Row, int, int]] = []
    reach = 0
    for row, first, after in [*rows, (None, arena.line_size, arena.line_size)]:
        if group and (row is None or first >= reach):
            yield from _lanes(group, arena.line_size)
            group, reach = [], 0
        if row is not None:
            group.append((row, first, after))
            reach = max(reach, after)


def _drawn(row: Row) -> bool:
    """Not the array without elements at a struct's end."""
    return row.size > 0 or row.bit_size is not None


def _lanes(group: Sequence[tuple[Row, int, int]], line_size: int) -> Iterator[_Part]:
    ends: list[int] = []
    placed = []
    for row, first, after in group:
        lane = next((number for number, end in enumerate(ends) if end <= first), len(ends))
        ends[lane : lane + 1] = [after]
        placed.append((row, max(first, 0), min(after, line_size), lane))
    for row, first, after, lane in placed:
        yield _Part(row, first, after, lane, len(ends))


def _colours(arena: ArenaMap) -> dict[str, str]:
    """By path: members of one nested struct have one colour."""
    members = [row.member for row in arena.rows if row.member is not None]
    groups = list(dict.fromkeys(_group(member.path) for member in members))
    return {
        member.path: COLOURS[groups.index(_group(member.path)) % len(COLOURS)] for member in members
    }


def _group(path: str) -> str:
    return path.rpartition(".")[0] or path


def _fitted(names: Sequence[str], room: float, height: float) -> tuple[str, float]:
    """The first name that fits, in the largest font; else the last one, shortened."""
    fonts = [size for size in FONTS if size <= height - 2]
    if not names or not fonts:
        return "", 0.0
    for size in fonts[:2]:
        for name in names:
            if len(name) * size * WIDE <= room:
                return name, size
    size = fonts[-1]
    most = int(room / (size * WIDE))
    name = names[-1]
    if len(name) <= most:
        return name, size
    return (f"{name[: most - 1]}…" if most >= 3 else "", size)


def _wrapped(text: str, room: int) -> list[str]:
    parts = [""]
    for word in text.split():
        if parts[-1] and len(parts[-1]) + 1 + len(word) > room:
            parts.append("")
        parts[-1] = f"{parts[-1]} {word}".strip()
    return [part if len(part) <= room else f"{part[: room - 1]}…" for part in parts]


def _warmth(heat: Heat) -> str:
    accesses = heat.reads + heat.writes
    return next((colour for limit, colour in WARMTH if accesses <= limit), HOTTEST)


def _below(heat: Heat) -> list[str]:
    """What stands below a member's name, the longest first; nothing of an untouched one."""
    parts = [
        f"{quantity(number, 2)}{mark}"
        for number, mark in ((heat.reads, "r"), (heat.writes, "w"), (heat.l1_misses, "M"))
        if number >= 0.005
    ]
    return [" ".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _heat(heat: Heat) -> str:
    return f"{quantity(heat.reads, 3)} r {quantity(heat.writes, 3)} w"
