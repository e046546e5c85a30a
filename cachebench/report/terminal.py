# SPDX-License-Identifier: BSD-3-Clause
"""A result in the terminal: figures are rows, layouts are columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cachebench.analyze.figures import FIGURES
from cachebench.analyze.ratios import NAME as RATIO
from cachebench.model import Experiment, Figure, LayoutResult, Result, Source
from cachebench.report.console import Terminal
from cachebench.report.notes import notes
from cachebench.report.text import interval, printable, scale

COMPUTED_TITLES = {
    "bytes_per_session": "bytes per session",
    "table_bytes_per_session": "of these, table",
    "state_bytes_per_session": "of these, state",
}
HIDDEN = ("lookups_per_second",)
"""In the document and in exports; the table says the same as CPU time."""
NOT_ASKED = "not asked for"
ABSENT: dict[Source, str] = {
    "measured": "{} hardware counter figures",
    "simulated": "{} simulated figures",
    "estimated": "{} estimated figures",
    "computed": "{} computed figures",
}
"""Sources in the order of the table, and the row of what has no value."""
FIGURE_WIDTH, LAYOUT_WIDTH, LEAST_WIDTH = 32, 24, 56


def show(result: Result, console: Console | None = None) -> None:
    """Prints the point, the figures and what must be known to read them."""
    console = console or Terminal()
    console.width = max(console.width, LEAST_WIDTH)
    console.print(escape(printable(point(result.spec))))
    per_table = max(1, (console.width - FIGURE_WIDTH) // LAYOUT_WIDTH)
    for first in range(0, len(result.results), per_table):
        console.print(_table(result, result.results[first : first + per_table]))
    for line in notes(result):
        console.print(escape(line))


def point(spec: Experiment) -> str:
    """The experiment in one line."""
    traffic: str = spec.popularity.kind
    if spec.popularity.exponent is not None:
        traffic += f":{spec.popularity.exponent:g}"
    if spec.capture is not None:
        traffic = f"{spec.capture.path} x {spec.capture.clones}"
    return (
        f"{spec.sessions:,} sessions, {spec.mode}, bursts of {spec.burst}, {spec.pages} pages, "
        f"{spec.heap} heap, traffic {traffic}, hit ratio {spec.hit_ratio:g}, "
        f"key {spec.key_size} B, seed {spec.seed}"
    )


def _table(result: Result, entries: Sequence[LayoutResult]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for entry in entries:
        table.add_column(escape(entry.layout), justify="right", no_wrap=True)
    for source in ABSENT:
        rows = list(_figures(result, entries, source))
        if rows:
            table.add_row(f"[bold]{source}[/bold]")
            for title, cells in rows:
                table.add_row(title, *cells)
            table.add_section()
    for title, cells in _facts(entries):
        table.add_row(title, *cells)
    return table


def _figures(
    result: Result, entries: Sequence[LayoutResult], source: Source
) -> Iterable[tuple[str, list[str]]]:
    """Rows of one source; counters that no layout has are one row, their reasons notes."""
    titles = {spec.name: spec.title for spec in FIGURES} | COMPUTED_TITLES
    absent: list[Figure] = []
    for name, title in titles.items():
        figures = [entry.figures.get(name) for entry in entries]
        present = [figure for figure in figures if figure is not None]
        if not present or present[0].source != source or name in HIDDEN:
            continue
        if all(figure.value is None for figure in present):
            absent.append(present[0])
            continue
        factor, unit = scale(present)
        yield f"{title}, {unit}" if unit else title, [_cell(f, factor) for f in figures]
        if name == "ns_per_lookup" and any(RATIO in entry.figures for entry in entries):
            cells = [_cell(e.figures[RATIO], 1.0) if RATIO in e.figures else "" for e in entries]
            yield f"over that of {escape(result.results[0].layout)}", cells
    if absent:
        words = " / ".join(dict.fromkeys(_absence(str(figure.reason)) for figure in absent))
        yield ABSENT[source].format(len(absent)), [words for _ in entries]


def _cell(figure: Figure | None, factor: float) -> str:
    if figure is None:
        return "-"
    return _absence(str(figure.reason)) if figure.value is None else interval(figure, factor)


def _absence(reason: str) -> str:
    """A word or two in the place of a value; the reason itself is in the notes."""
    if NOT_ASKED in reason:
        return NOT_ASKED
    if "<not supported>" in reason or "no PMU" in reason:
        return "not supported"
    return "not measured"


def _facts(entries: Sequence[LayoutResult]) -> Iterable[tuple[str, list[str]]]:
    """Rows that are no figures: the table's state and the arm's policy."""
    tables = [entry.table for entry in entries]
    yield "table load", [f"{t.load:.1%}" for t in tables]
    yield "in primary bucket", [f"{t.primary_share:.1%}" for t in tables]
    yield "bucket probes per lookup", [f"{t.probes_per_lookup:.3f}" for t in tables]
    yield "key compares per lookup", [f"{t.key_compares_per_lookup:.4f}" for t in tables]
    yield "signature false hits", [f"{t.false_hits_per_lookup:.5f}" for t in tables]
    yield "session prefetch steps", [str(entry.prefetch) for entry in entries]
    yield "checksum", [str(entry.checksum) for entry in entries]


def layouts(rows: Sequence[tuple[str, str, str, str]], console: Console | None = None) -> None:
    """The list of layouts: name, prefetch steps, bytes a session, description."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("layout")
    table.add_column("prefetch", justify="right")
    table.add_column("B/session", justify="right")
    table.add_column("what it is")
    for row in rows:
        table.add_row(*map(escape, row))
    (console or Terminal()).print(table)
