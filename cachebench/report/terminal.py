"""A result in the terminal: figures are rows, layouts are columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table

from cachebench.analyze.figures import FIGURES
from cachebench.model import Experiment, Figure, LayoutResult, Result
from cachebench.report.text import interval, quantity

COMPUTED_TITLES = {
    "bytes_per_session": "bytes per session",
    "table_bytes_per_session": "of these, table",
    "state_bytes_per_session": "of these, state",
}
NOT_ASKED = "not asked for"
SOFTWARE_EVENTS = ("page_faults", "context_switches", "cpu_migrations")
HIDDEN = ("lookups_per_second",)
"""In the document and in exports; the table says the same as CPU time."""
FIGURE_WIDTH, SOURCE_WIDTH, LAYOUT_WIDTH = 30, 10, 32


class Progress:
    """What a run is doing, on standard error, and only if that is a terminal.

    Facts that the user should know before the result are told there, or else on
    standard output if ``facts`` says that it is for people.
    """

    def __init__(self, *, facts: bool) -> None:
        self._facts = facts
        self._console = Console(stderr=True, highlight=False)
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def message(self, text: str) -> None:
        if self._console.is_terminal:
            self._console.print(escape(text), soft_wrap=True)
        elif self._facts:
            print(text, flush=True)

    def step(self, text: str, done: int, total: int) -> None:
        self._bar.update(self._task, description=escape(text), completed=done, total=total)


def show(result: Result, console: Console | None = None) -> None:
    """Prints the point, the figures and what must be known to read them."""
    console = console or Console(highlight=False)
    console.print(escape(point(result.spec)))
    per_table = max(1, (console.width - FIGURE_WIDTH - SOURCE_WIDTH) // LAYOUT_WIDTH)
    for first in range(0, len(result.results), per_table):
        console.print(_table(result.results[first : first + per_table]))
    for line in notes(result):
        console.print(escape(line), soft_wrap=True)


def point(spec: Experiment) -> str:
    """The experiment in one line."""
    traffic: str = spec.popularity.kind
    if spec.popularity.exponent is not None:
        traffic += f":{spec.popularity.exponent:g}"
    if spec.capture is not None:
        traffic = f"{spec.capture.path} x {spec.capture.clones}"
    burst = f" {spec.burst}" if spec.mode == "bulk" else ""
    return (
        f"{spec.sessions:,} sessions, {spec.mode}{burst}, {spec.pages} pages, {spec.heap} heap, "
        f"traffic {traffic}, hit ratio {spec.hit_ratio:g}, key {spec.key_size} B, seed {spec.seed}"
    )


def _table(entries: Sequence[LayoutResult]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("figure")
    table.add_column("source")
    for entry in entries:
        table.add_column(escape(entry.layout), justify="right", no_wrap=True)
    titles = {spec.name: spec.title for spec in FIGURES} | COMPUTED_TITLES
    for name, title in titles.items():
        figures = [entry.figures.get(name) for entry in entries]
        present = [figure for figure in figures if figure is not None]
        if present and name not in HIDDEN:
            table.add_row(title, present[0].source, *map(_cell, figures))
    table.add_section()
    for title, cells in _facts(entries):
        table.add_row(title, "", *cells)
    return table


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    if figure.value is None:
        return _absence(str(figure.reason))
    return interval(figure)


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


def notes(result: Result) -> list[str]:
    """What is missing and why, and what perf counted in software."""
    lines = []
    reasons: dict[str, list[str]] = {}
    for entry in result.results[:1]:
        for name, figure in entry.figures.items():
            if figure.value is None:
                reasons.setdefault(str(figure.reason), []).append(name)
    for reason, names in reasons.items():
        lines.append(f"not measured: {', '.join(names)}: {reason}")
    for entry in result.results:
        for sample in entry.samples:
            if sample.group == "software":
                counted = ", ".join(
                    f"{quantity(c.value - c.empty)} {c.role.replace('_', ' ')}"
                    for c in sample.counts
                    if c.role in SOFTWARE_EVENTS
                )
                lookups = sum(region.lookups for region in sample.regions)
                lines.append(f"perf, {entry.layout}: {counted} in {lookups:,} lookups (measured)")
    if result.spec.capture is not None and result.spec.capture.fault is not None:
        lines.append(
            f"{result.spec.capture.path}: {result.spec.capture.fault}; "
            f"the {result.spec.capture.packets} packets before it were used"
        )
    processes = {sum(sample.kind == "time" for sample in entry.samples) for entry in result.results}
    lines.append(
        f"(low … high): 95 % interval over {'/'.join(map(str, sorted(processes)))} processes. "
        "Levels hold on this machine only; ratios within one run travel."
    )
    return lines


def layouts(rows: Sequence[tuple[str, str, str, str]], console: Console | None = None) -> None:
    """The list of layouts: name, prefetch steps, bytes a session, description."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("layout")
    table.add_column("prefetch", justify="right")
    table.add_column("B/session", justify="right")
    table.add_column("what it is")
    for row in rows:
        table.add_row(*map(escape, row))
    (console or Console(highlight=False)).print(table)
