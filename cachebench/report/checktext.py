# SPDX-License-Identifier: BSD-3-Clause
"""The line trace beside valgrind's counts, in the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cachebench import geometry
from cachebench.checkmodel import Callgrind, Lackey
from cachebench.model import TraceResult
from cachebench.report.console import Terminal


def show(result: TraceResult, console: Console | None = None) -> None:
    """What was asked of valgrind, for all layouts; nothing if nothing was."""
    console = console or Terminal()
    by_callgrind = {t.layout: t.callgrind for t in result.results if t.callgrind is not None}
    by_lackey = {t.layout: t.lackey for t in result.results if t.lackey is not None}
    if by_callgrind:
        console.print()
        _callgrind(by_callgrind, console)
    if by_lackey:
        console.print()
        _lackey(by_lackey, console)


def _callgrind(found: dict[str, Callgrind], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("callgrind", no_wrap=True)
    for title in ("instr.", "L1d miss", "trace", "", "LL miss", "trace", ""):
        table.add_column(title, justify="right", no_wrap=True)
    for layout, each in found.items():
        table.add_row(
            escape(layout),
            f"{each.instructions:.1f}",
            *_compared(each.misses.d1, each.traced.d1),
            *_compared(each.misses.ll, each.traced.ll),
        )
    console.print(table)
    first = next(iter(found.values()))
    inner, outer = (geometry.size(level) for level in first.geometry.caches[:2])
    console.print(
        escape(
            f"per lookup, {first.tool} (simulated), L1d {inner}, last level {outer}; the trace "
            "by its rules: loads and stores alone, no prefetch, an access to two lines is one "
            "miss at most, and packets, control data and the burst's own array count"
            f"{'. ' if first.changed else ''}{'; '.join(first.changed)}"
        )
    )


def _compared(theirs: float, ours: float) -> tuple[str, str, str]:
    if theirs == 0:
        return f"{theirs:.3f}", f"{ours:.3f}", "" if ours == 0 else "≠"
    return f"{theirs:.3f}", f"{ours:.3f}", f"{ours / theirs - 1:+.2%}"


def _lackey(found: dict[str, Lackey], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("lackey", no_wrap=True)
    for title in ("read", "trace", "write", "trace", "lines", "trace"):
        table.add_column(title, justify="right", no_wrap=True)
    for layout, each in found.items():
        table.add_row(escape(layout))
        for arena in each.arenas:
            pairs = (
                (arena.reads, arena.traced_reads),
                (arena.writes, arena.traced_writes),
                (arena.lines, arena.traced_lines),
            )
            if any(map(any, pairs)):
                cells = [cell for pair in pairs for cell in _pair(*pair, each.lookups)]
                table.add_row(f"  {escape(arena.name)}", *cells)
        table.add_section()
    console.print(table)
    first = next(iter(found.values()))
    console.print(
        escape(
            f"per lookup, {first.tool}: {first.lookups:,} lookups of the plain kernel in a table "
            f"of {first.sessions:,} sessions, beside those of the trace build. ≠: the compiler "
            "splits or merges accesses differently in the two; lines must be the same"
        )
    )


def _pair(theirs: int, ours: int, lookups: int) -> tuple[str, str]:
    mark = "" if theirs == ours else " ≠"
    return f"{theirs / lookups:.2f}", f"{ours / lookups:.2f}{mark}"
