# SPDX-License-Identifier: BSD-3-Clause
"""The machine card as a picture: latency by working set, throughput by lines in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachebench.analyze import plotstyle
from cachebench.analyze.plotstyle import binary, finish, mark
from cachebench.cardmodel import IN_FLIGHT, MachineCard, PageCard

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"4k": "#c2553f", "thp": "#2f6f9f", "2m": "#4c8c4a", "1g": "#7a5aa6"}
"""One per page size, told apart by lightness as well."""
MARKERS = {"4k": "o", "thp": "s", "2m": "^", "1g": "D"}
NS_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SIZE_TICKS = tuple(1 << shift for shift in range(14, 32, 2))


def svg(card: MachineCard) -> str:
    """The picture as SVG text. Raises ValueError if nothing was measured."""
    if not any(page.latency for page in card.pages):
        raise ValueError("the card holds no measured working set")

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _latency(left, card)
        _throughput(right, card)
        figure.suptitle(f"{card.key.cpu}, Linux {card.key.kernel}", fontsize=9)

    return plotstyle.svg(10, 4.2, draw)


def _latency(axes: Axes, card: MachineCard) -> None:
    for page in card.pages:
        sizes = [point.bytes for point in page.latency]
        axes.plot(
            sizes,
            [point.ns for point in page.latency],
            color=COLOURS[page.pages],
            marker=MARKERS[page.pages],
            markersize=3,
            linewidth=1.2,
            label=f"{page.pages} pages",
        )
        axes.fill_between(
            sizes,
            [point.low for point in page.latency],
            [point.high for point in page.latency],
            color=COLOURS[page.pages],
            alpha=0.15,
            linewidth=0,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(SIZE_TICKS, [binary(size) for size in SIZE_TICKS])
    axes.set_yticks(NS_TICKS, list(map(str, NS_TICKS)))
    axes.minorticks_off()
    measured = [point for page in card.pages for point in page.latency]
    axes.set_xlim(min(p.bytes for p in measured) / 1.2, max(p.bytes for p in measured) * 1.2)
    axes.set_ylim(min(p.low for p in measured) / 1.3, max(p.high for p in measured) * 1.6)
    for cache in card.caches:
        mark(axes, cache.name, cache.bytes)
    finish(axes, "working set", "ns per dependent load", "Latency")
    axes.legend(loc="lower right")


def _throughput(axes: Axes, card: MachineCard) -> None:
    for page in card.pages:
        largest = [point for point in page.throughput if point.bytes == _largest(page)]
        axes.plot(
            [point.in_flight for point in largest],
            [point.ns for point in largest],
            color=COLOURS[page.pages],
            marker=MARKERS[page.pages],
            markersize=4,
            linewidth=1.2,
            label=f"{page.pages} pages, {binary(_largest(page))}",
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(IN_FLIGHT, list(map(str, IN_FLIGHT)))
    axes.set_yticks(NS_TICKS, list(map(str, NS_TICKS)))
    axes.minorticks_off()
    drawn = [p.ns for page in card.pages for p in page.throughput if p.bytes == _largest(page)]
    if drawn:
        axes.set_ylim(min(drawn) / 1.3, max(drawn) * 1.3)
    finish(axes, "lines in flight", "ns per random line", "Throughput")
    axes.legend(loc="upper right")


def _largest(page: PageCard) -> int:
    return max((point.bytes for point in page.throughput), default=0)
