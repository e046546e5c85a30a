# SPDX-License-Identifier: BSD-3-Clause
"""Struct maps in the terminal: a row for each member, as pahole has them, and its cache line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cachebench import geometry
from cachebench.analyze.structmap import (
    ArenaMap,
    Difference,
    Document,
    Heat,
    HeatPoint,
    Kind,
    LayoutMap,
    Place,
    Row,
)
from cachebench.report.console import Terminal
from cachebench.report.terminal import point
from cachebench.report.text import quantity

ELEMENTS: dict[Kind, str] = {
    "buckets": "one per bucket",
    "entries": "one per key entry",
    "pool": "one per session",
    "column": "one per session",
    "profiles": "one per QoS profile, shared",
    "rules": "one per rule, shared",
}
HEAT = ("read", "write", "L1d", "L2", "LLC")
HEAT_TABLE: dict[str, Any] = {
    "box": box.SIMPLE_HEAD,
    "pad_edge": False,
    "show_edge": False,
    "padding": (0, 1, 0, 0),
}
"""Columns beside each other, so that the heat fits 80."""


def show(document: Document, console: Console | None = None) -> None:
    """Prints one map, or two as a comparison."""
    console = console or Terminal()
    if document.differences is None:
        for layout in document.maps:
            _show_layout(layout, console)
    else:
        base, head = document.maps
        _show_comparison(base, head, document.differences, console)
    if document.traced is not None:
        console.print()
        console.print(escape(heat_source(document.traced)))


def heat_source(traced: HeatPoint) -> str:
    """What the heat is, and where it was counted."""
    prefetched = "" if traced.prefetch else ", which here bring no line in"
    return (
        f"per packet, simulated: {point(traced.spec)}; {geometry.describe(traced.geometry)} "
        f"({traced.geometry.source}); {traced.lookups:,} lookups after {traced.warm_up:,} of "
        "warm-up. L1d, L2, LLC: lines missed by loads, stores and software prefetches"
        f"{prefetched}. Hardware prefetch is not modelled."
    )


def _print(console: Console, text: str) -> None:
    console.print(escape(text), soft_wrap=True)


# ---- One layout


def _show_layout(layout: LayoutMap, console: Console) -> None:
    heat = any(arena.heat is not None for arena in layout.arenas)
    source = "offsets computed, accesses and misses per packet simulated" if heat else "computed"
    line_size = layout.arenas[0].line_size
    _print(
        console, f"{layout.layout}, {layout.key_size}-byte keys, lines of {line_size} B ({source})"
    )
    for arena in layout.arenas:
        if not arena.scalar:
            console.print()
            _print(console, heading(arena))
            console.print(_members(arena))
            _print(console, totals(arena))
            if arena.heat is not None:
                _print(console, f"all: {heat_text(arena.heat)}")
    scalars = [arena for arena in layout.arenas if arena.scalar]
    if scalars:
        console.print()
        _print(console, "Arrays of single values:")
        console.print(_scalars(scalars))


def heading(arena: ArenaMap) -> str:
    """What an arena holds, and how its elements lie in lines."""
    return f"{arena.name}: {arena.type}, {ELEMENTS[arena.kind]}, {arena.stride} B {extent(arena)}"


def extent(arena: ArenaMap) -> str:
    """``in 3 lines``; ``2 to a line``; ``in 4 or 5 lines (4.53 on average)``."""
    if arena.starts == 1:
        return f"in {_plural(arena.most_lines, 'line')}"
    if arena.most_lines == 1 and arena.line_size % arena.stride == 0:
        return f"({arena.line_size // arena.stride} to a line)"
    lines = f"in {_plural(arena.most_lines, 'line')}"
    if arena.least_lines != arena.most_lines:
        lines = (
            f"in {arena.least_lines} or {arena.most_lines} lines "
            f"({quantity(arena.mean_lines, 3)} on average)"
        )
    return f"{lines}; elements begin at {arena.starts} places of a line, so lines may vary"


def totals(arena: ArenaMap) -> str:
    """Bytes with members and without, and how many members straddle a line."""
    parts = [f"{arena.used} of {arena.size} B used"]
    parts += [
        f"{title} {_bytes(size, bits)}"
        for title, size, bits in (
            ("holes", arena.holes, arena.hole_bits),
            ("padding", arena.padding, arena.padding_bits),
        )
        if size or bits
    ]
    if arena.stride > arena.size:
        parts.append(f"{arena.stride - arena.size} B between elements")
    number = len(arena.straddling)
    straddling = "no member straddles a line"
    if number:
        straddling = f"{_plural(number, 'member')} {'straddles' if number == 1 else 'straddle'}"
        straddling += " a line" if arena.starts == 1 else " a line in some elements"
    return f"{', '.join(parts)}; {straddling}"


def heat_text(heat: Heat) -> str:
    """``2.00 reads, 1.00 writes, 0.98 L1d, 0.50 L2 and 0 LLC misses``."""
    reads, writes, l1, l2, llc = _heat(heat)
    return f"{reads} reads, {writes} writes, {l1} L1d, {l2} L2 and {llc} LLC misses"


def _bytes(size: int, bits: int) -> str:
    parts = [f"{size} B"] if size else []
    return " and ".join([*parts, _plural(bits, "bit")] if bits else parts)


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _members(arena: ArenaMap) -> Table:
    heat = arena.heat is not None
    straddling = bool(arena.straddling)
    table = Table(**HEAT_TABLE) if heat else Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("offset", "size", "line"):
        table.add_column(title, justify="right", no_wrap=True)
    if straddling:
        table.add_column("straddles", justify="right", no_wrap=True)
    table.add_column("member")
    # With the heat there is no room for the types in 80 columns.
    if heat:
        _add_heat_columns(table)
    else:
        table.add_column("type")
    line = 0
    for row in arena.rows:
        if row.lines is not None and row.lines[0] > line:
            table.add_section()
            line = row.lines[0]
        cells = [_offset(row), _size(row), lines(row.lines)]
        if straddling:
            cells.append(straddles(row, arena))
        cells.append(_title(row))
        cells += _heat(row.heat) if heat else [_type(row)]
        table.add_row(*map(escape, cells), style="dim" if row.member is None else None)
    return table


def _scalars(arenas: Sequence[ArenaMap]) -> Table:
    heat = any(arena.heat is not None for arena in arenas)
    table = Table(**HEAT_TABLE) if heat else Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("array")
    table.add_column("type")
    table.add_column("size", justify="right")
    if heat:
        _add_heat_columns(table)
    else:
        table.add_column("to a line", justify="right")
        table.add_column("elements")
    for arena in arenas:
        (row,) = (row for row in arena.rows if row.member is not None)
        cells = [arena.name, _type(row), str(arena.stride)]
        if heat:
            cells += _heat(row.heat)
        else:
            cells += [quantity(arena.line_size / arena.stride, 3), ELEMENTS[arena.kind]]
        table.add_row(*map(escape, cells))
    return table


def _add_heat_columns(table: Table) -> None:
    for title in HEAT:
        table.add_column(title, justify="right", no_wrap=True)


def _heat(heat: Heat | None) -> list[str]:
    if heat is None:  # of a hole, or where it is not known
        return [""] * len(HEAT)
    numbers = (heat.reads, heat.writes, heat.l1_misses, heat.l2_misses, heat.llc_misses)
    # None at all is another thing than hardly any.
    return [f"{number:.2f}" if number else "0" for number in numbers]


def _offset(row: Row) -> str:
    if row.bit_offset is None:
        return str(row.offset)
    return f"{row.offset}:{row.bit_offset - 8 * row.offset}"


def _size(row: Row) -> str:
    return str(row.size) if row.bit_size is None else _plural(row.bit_size, "bit")


def lines(found: tuple[int, int] | None) -> str:
    """``0``, ``1-2``, or that elements differ."""
    if found is None:
        return "varies"
    first, last = found
    return str(first) if first == last else f"{first}-{last}"


def straddles(row: Row, arena: ArenaMap) -> str:
    """In how many elements of all: a share, where they differ."""
    if not row.straddling:
        return ""
    return "yes" if arena.starts == 1 else f"{row.straddling / arena.starts:.1%}"


def _title(row: Row) -> str:
    if row.member is None:
        return f"({row.kind})"
    return f"{row.member.path} (union)" if row.overlaps else row.member.path


def _type(row: Row) -> str:
    member = row.member
    if member is None:
        return ""
    # A typedef hides what is pointed to.
    hidden = member.points_to is not None and member.points_to not in member.type_name.split()
    return f"{member.type_name} → {member.points_to}" if hidden else member.type_name


# ---- Two layouts


def _show_comparison(
    base: LayoutMap, head: LayoutMap, differences: Sequence[Difference], console: Console
) -> None:
    _print(console, f"base {base.layout}, head {head.layout}, {head.key_size}-byte keys (computed)")
    console.print(_arenas(base, head))
    changed = [difference for difference in differences if difference.changes]
    if changed:
        console.print(_differences(changed))
    same = len(differences) - len(changed)
    _print(console, f"unchanged: {_plural(same, 'member')}")
    if any(arena.heat is not None for arena in (*base.arenas, *head.arenas)):
        console.print()
        console.print(_heats(base, head, differences))


def _arenas(base: LayoutMap, head: LayoutMap) -> Table:
    sides = [{arena.name: arena for arena in layout.arenas} for layout in (base, head)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("arena", "base", "head"):
        table.add_column(title)
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        table.add_row(escape(name), *(_summary(side.get(name)) for side in sides))
    return table


def _summary(arena: ArenaMap | None) -> str:
    if arena is None:
        return "-"
    text = f"{arena.stride} B {extent(arena).partition(';')[0]}"
    unused = arena.holes + arena.padding
    return f"{text}, {unused} B unused" if unused else text


def _differences(differences: Iterable[Difference]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("member")
    table.add_column("size", justify="right", no_wrap=True)
    for side in ("base", "head"):
        table.add_column(side)
        table.add_column("line", justify="right", no_wrap=True)
    table.add_column("change")
    for difference in differences:
        places = [place for place in (difference.base, difference.head) if place is not None]
        sizes = dict.fromkeys(str(place.size) for place in places)
        cells = [
            # Of a single value the arena has the name.
            places[0].path or places[0].arena,
            " → ".join(sizes),
            *_place(difference.base),
            *_place(difference.head),
            ", ".join(difference.changes),
        ]
        table.add_row(*map(escape, cells))
    return table


def _heats(base: LayoutMap, head: LayoutMap, differences: Iterable[Difference]) -> Table:
    """Both sides' heat of each member that either side touches."""
    table = Table(**HEAT_TABLE)
    table.add_column("\nmember")
    for side in ("base", "head"):
        for number, title in enumerate(HEAT):
            above = side if number == 0 else ""
            table.add_column(f"{above}\n{title}", justify="right", no_wrap=True)
    for difference in differences:
        places = [place for place in (difference.base, difference.head) if place is not None]
        if any(place.heat not in (None, Heat()) for place in places):
            cells = [_side_heat(difference.base), _side_heat(difference.head)]
            # Of a single value the arena has the name.
            name = places[0].path or places[0].arena
            table.add_row(escape(name), *cells[0], *cells[1])
    table.add_section()
    sides = [_heat(_sum(layout)) for layout in (base, head)]
    table.add_row("all of these", *sides[0], *sides[1])
    return table


def _side_heat(place: Place | None) -> list[str]:
    return ["-", *[""] * (len(HEAT) - 1)] if place is None else _heat(place.heat)


def _sum(layout: LayoutMap) -> Heat:
    total = Heat()
    for arena in layout.arenas:
        total = total.plus(arena.heat or Heat())
    return total


def _place(place: Place | None) -> tuple[str, str]:
    return ("-", "") if place is None else (f"{place.arena} +{place.offset}", lines(place.lines))
