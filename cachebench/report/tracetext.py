# SPDX-License-Identifier: BSD-3-Clause
"""A trace in the terminal: objects and their members, accesses and misses per lookup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cachebench import geometry
from cachebench.analyze import lines
from cachebench.analyze.plotstyle import binary
from cachebench.model import Traced, TraceResult
from cachebench.report.console import Terminal
from cachebench.report.terminal import point
from cachebench.tracemodel import Curve, Geometry, Heat, Object

LEVELS = ("L1d", "L2", "LLC")
TABLE: dict[str, Any] = {
    "box": box.SIMPLE_HEAD,
    "pad_edge": False,
    "show_edge": False,
    "padding": (0, 1, 0, 0),
}
UNBOUNDED = 1000
"""Columns that no table here needs."""


def show(result: TraceResult, console: Console | None = None) -> None:
    """One table for each layout."""
    console = console or Terminal()
    console.print(escape(point(result.spec)))
    console.print(escape(f"{geometry.describe(result.geometry)} ({result.geometry.source})"))
    for traced in result.results:
        table = _table(traced, result.geometry, walks=True)
        unbounded = console.options.update(width=UNBOUNDED)
        fits = console.measure(table, options=unbounded).maximum <= console.width
        console.print(table if fits else _table(traced, result.geometry, walks=False))
        if not fits:
            console.print(escape(_walks(traced, result.geometry)))
        console.print()
    if result.curve_rate is not None:
        _show_curves(result, console)
    took = ", ".join(f"{lines.ns_per_access(traced.sample):.1f}" for traced in result.results)
    console.print(
        f"per lookup, simulated: {result.lookups:,} lookups after {result.warm_up:,} of warm-up"
        f"{', in which each line is brought in once' if result.warm_up else ''}. "
        "Lines are distinct lines that one lookup demands; misses are lines that its loads and "
        "stores missed + those that its software prefetches fetched first; walks are the pages "
        "of both that no TLB held. "
        "Hardware prefetch is not modelled; the stack and the key stream are left out. "
        f"An access took the trace {took} ns (measured)."
    )


def _table(traced: Traced, shape: Geometry, *, walks: bool) -> Table:
    found = traced.objects
    present = [level for level in range(3) if _ever(found, level)] or [0]
    table = Table(**TABLE)
    table.add_column(escape(traced.layout), no_wrap=True)
    for title in ("lines", "read", "write"):
        table.add_column(title, justify="right", no_wrap=True)
    for level in present:
        table.add_column(f"{LEVELS[level]} miss", justify="right", no_wrap=True)
    if walks:
        table.add_column("walks", justify="right", no_wrap=True)

    def add(name: str, lines_demanded: str, heat: Heat) -> None:
        cells = _cells(heat, present)
        if walks:
            cells.append(_number(lines.walks(heat, shape)))
        table.add_row(escape(name), lines_demanded, *cells)

    for each in found:
        name = f"{each.through} → {each.name}" if each.through else each.name
        add(name, f"{each.lines:.2f}", each.heat)
        for member in each.members:
            if member.heat.reads or member.heat.writes:
                add(f"  {member.path or '(whole)'}", "", member.heat)
        table.add_section()
    total = lines.total(each.heat for each in found)
    add("all", f"{lines.lines_per_lookup(found):.2f}", total)
    return table


def _walks(traced: Traced, shape: Geometry) -> str:
    """One line, where the table has no room for a column."""
    total = lines.walks(lines.total(each.heat for each in traced.objects), shape)
    parts = [
        f"{each.name} {lines.walks(each.heat, shape):.2f}"
        for each in traced.objects
        if lines.walks(each.heat, shape) >= 0.005
    ]
    return f"{traced.layout}: {total:.2f} walks{': ' if parts else ''}{', '.join(parts)}"


def _show_curves(result: TraceResult, console: Console) -> None:
    """Layouts beside each other by size, then the objects of each."""
    curves = [(traced, traced.curve) for traced in result.results if traced.curve is not None]
    table = Table(**TABLE)
    table.add_column("cache", justify="right")
    for traced, _ in curves:
        table.add_column(escape(traced.layout), justify="right", no_wrap=True)
    for size in (1 << shift for shift in range(15, 31)):
        table.add_row(binary(size), *(_at(c, c.total, size) for _, c in curves))
    console.print(table, "")
    for traced, each in curves:
        console.print(_objects(traced, each), "")
    console.print(
        "misses per lookup of a fully associative LRU cache of that size, by loads and stores, "
        f"over {result.curve_rate:g} of the lines (simulated)"
    )


def _objects(traced: Traced, curve: Curve) -> Table:
    sizes = [*(1 << shift for shift in range(15, 30, 2)), 1 << 30]
    table = Table(**TABLE)
    table.add_column(escape(traced.layout))
    for size in sizes:
        table.add_column(binary(size), justify="right", no_wrap=True)
    for each in traced.objects:
        values = curve.objects.get(each.name)
        # None of its lines is among those that are followed.
        cells = ["-"] * len(sizes) if values is None else [_at(curve, values, s) for s in sizes]
        table.add_row(escape(each.name), *cells)
    table.add_section()
    table.add_row("all", *(_at(curve, curve.total, size) for size in sizes))
    return table


def _at(curve: Curve, values: Sequence[float], size: int) -> str:
    return _number(values[curve.cache_bytes.index(size)])


def _ever(found: Sequence[Object], level: int) -> bool:
    return any(each.heat.missed[level] or each.heat.prefetch_missed[level] for each in found)


def _cells(heat: Heat, levels: Sequence[int]) -> list[str]:
    misses = [_misses(heat.missed[level], heat.prefetch_missed[level]) for level in levels]
    return [_number(heat.reads), _number(heat.writes), *misses]


def _number(value: float) -> str:
    return "" if value == 0 else f"{value:.2f}"


def _misses(demand: float, prefetch: float) -> str:
    if demand == prefetch == 0:
        return ""
    return f"{demand:.2f}+{prefetch:.2f}" if prefetch else f"{demand:.2f}"
