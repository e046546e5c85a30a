# SPDX-License-Identifier: BSD-3-Clause
"""The machine card in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cachebench.cardmodel import IN_FLIGHT, Latency, MachineCard, PageCard, Throughput
from cachebench.machinecard import size_text
from cachebench.report.console import Terminal

NOTE = (
    "All figures are measured: thread CPU time, median (lowest … highest) over {} processes on "
    "CPU {}. They hold on this machine only. Measured {} in {:.0f} s; --refresh measures anew."
)


def show(card: MachineCard, console: Console | None = None) -> None:
    """Latency by working set, time per line by lines in flight, and what both tell."""
    console = console or Terminal()
    console.print(escape(f"{card.key.cpu}; Linux {card.key.kernel}; {card.key.pages}"))
    console.print(_latency(card))
    console.print(_throughput(card))
    for line in findings(card):
        console.print(escape(line), soft_wrap=True)


def findings(card: MachineCard) -> list[str]:
    """Knees, caches that do not show, what was not measured, one line each."""
    lines = [
        f"{knee.pages} pages: latency rises from {size_text(knee.bytes)} "
        f"({knee.ns:.3g} ns) to {size_text(knee.until)} ({knee.until_ns:.3g} ns): {knee.name}"
        for knee in card.knees
    ]
    lines += [
        f"{each.pages} pages: {each.cache} {'not tested: ' if each.seen is None else ''}{each.text}"
        for each in card.benefits
        if not each.seen
    ]
    lines += [
        f"{each.pages} pages: not measured from {size_text(each.bytes)} on: {each.reason}"
        for each in card.skipped
    ]
    lines += [
        f"{page.pages} pages: only {page.huge_share:.0%} of the memory was in huge pages"
        for page in card.pages
        if page.pages != "4k" and page.huge_share < 0.98
    ]
    lines.append(NOTE.format(card.processes, card.cpu, card.created, card.seconds))
    return lines


def _latency(card: MachineCard) -> Table:
    """Powers of two only; the document has all working sets."""
    table = _table("working set", card.pages, "ns per dependent load")
    sizes = sorted({point.bytes for page in card.pages for point in page.latency})
    for size in sizes:
        if size & (size - 1) == 0:
            found = [_at(page.latency, size) for page in card.pages]
            table.add_row(size_text(size), *map(_cell, found))
    return table


def _throughput(card: MachineCard) -> Table:
    """At the largest working set of each page size."""
    table = _table("lines in flight", card.pages, "ns per random line")
    largest = [max((p.bytes for p in page.throughput), default=0) for page in card.pages]
    table.add_row("of", *map(size_text, largest))
    for chains in IN_FLIGHT:
        cells = []
        for page, size in zip(card.pages, largest, strict=True):
            points = [point for point in page.throughput if point.in_flight == chains]
            cells.append(_cell(_at(points, size)))
        table.add_row(str(chains), *cells)
    return table


def _table(first: str, pages: Sequence[PageCard], what: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, justify="right")
    for page in pages:
        table.add_column(f"{what}, {page.pages}", justify="right")
    return table


def _at(points: Sequence[Latency] | Sequence[Throughput], size: int) -> Latency | Throughput | None:
    return next((point for point in points if point.bytes == size), None)


def _cell(point: Latency | Throughput | None) -> str:
    if point is None:
        return "not measured"
    return f"{point.ns:.4g} ({point.low:.4g} … {point.high:.4g})"
