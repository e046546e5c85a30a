# SPDX-License-Identifier: BSD-3-Clause
"""Miss-ratio curves as a picture: misses per lookup by cache size, layouts and objects."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cachebench.analyze import plotstyle
from cachebench.analyze.curve import LINE
from cachebench.analyze.plotstyle import INK, binary, finish, mark
from cachebench.model import Traced, TraceResult
from cachebench.tracemodel import Curve, Geometry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Style = dict[str, Any]

COLOURS = (
    "#2f6f9f",
    "#c2553f",
    "#4c8c4a",
    "#7a5aa6",
    "#d08a1d",
    "#3a9d9a",
    "#b0518f",
    "#7d6b52",
)
"""Of objects, or of layouts: the ninth has the first one's colour and another stroke."""
STROKES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)))
CACHES = ("L1d", "L2", "LLC")
SIZE_TICKS = tuple(1 << shift for shift in range(15, 31, 2))
SINGLE, PANEL = (8.0, 4.4), (5.6, 3.4)
"""Inches of axes and legend: of one layout alone, of one of several."""
LETTERS = 16
"""Of the title and the caption to an inch."""
WIDEST, NARROWEST = 2.8, 1.0
"""Strokes of the objects, the first one's the widest: curves of objects that are used
alike lie on each other, and the lower ones stay visible."""
LEAST = 0.005
"""Misses per lookup below which an object is not drawn."""


def svg(result: TraceResult, title: str) -> str:
    """All layouts of a trace with curves as SVG text: a panel for each with its objects,
    and before them, if there are several, one with the layouts' totals.

    Raises ValueError if no curve was recorded.
    """
    curves = [(traced, traced.curve) for traced in result.results if traced.curve is not None]
    if not curves:
        raise ValueError("the trace has no curve")
    panels = len(curves) + (len(curves) > 1)
    columns = min(panels, 2)
    rows = -(-panels // columns)
    highest = max(max(curve.total) for _, curve in curves)
    size = SINGLE if panels == 1 else PANEL
    width = size[0] * columns

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, squeeze=False)
        axes = [each for row in grid for each in row]
        for unused in axes[panels:]:
            unused.set_axis_off()
        remaining = iter(axes)
        if len(curves) > 1:
            _layouts(next(remaining), curves, result.geometry, highest)
        styles = _styles([name for _, curve in curves for name in curve.objects])
        for panel, (traced, curve) in zip(remaining, curves, strict=False):
            _objects(panel, traced, curve, styles, result.geometry, highest)
        caption = (
            "simulated, LRU, fully associative, no hardware prefetch; misses by loads and stores, "
            f"over {result.curve_rate:g} of the lines"
        )
        figure.suptitle(textwrap.fill(title, int(width * LETTERS)), fontsize=9)
        figure.supxlabel(textwrap.fill(caption, int(width * LETTERS)), fontsize=9)

    return plotstyle.svg(width, size[1] * rows, draw)


def _layouts(
    axes: Axes, curves: Sequence[tuple[Traced, Curve]], shape: Geometry, highest: float
) -> None:
    styles = _styles([str(number) for number in range(len(curves))])
    for (traced, curve), style in zip(curves, styles.values(), strict=True):
        axes.plot(curve.cache_bytes, curve.total, label=traced.layout, linewidth=1.6, **style)
    _complete(axes, curves[0][1], shape, highest, "all layouts")


def _objects(
    axes: Axes,
    traced: Traced,
    curve: Curve,
    styles: Mapping[str, Style],
    shape: Geometry,
    highest: float,
) -> None:
    axes.plot(curve.cache_bytes, curve.total, label="all", color=INK, linewidth=2.4)
    drawn = [name for name, values in curve.objects.items() if max(values) >= LEAST]
    for number, name in enumerate(drawn):
        stroke = WIDEST - (WIDEST - NARROWEST) * number / max(len(drawn) - 1, 1)
        axes.plot(
            curve.cache_bytes, curve.objects[name], label=name, linewidth=stroke, **styles[name]
        )
    _complete(axes, curve, shape, highest, traced.layout)


def _complete(axes: Axes, curve: Curve, shape: Geometry, highest: float, title: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(SIZE_TICKS, [binary(size) for size in SIZE_TICKS])
    axes.minorticks_off()
    axes.set_xlim(curve.cache_bytes[0] / 1.4, curve.cache_bytes[-1])
    # Room above the curves for the names of the caches; some range if nothing ever misses.
    axes.set_ylim(0, max(highest * 1.25, LEAST))
    for name, level in zip(CACHES, shape.caches, strict=True):
        mark(axes, name, level.ways * level.sets * LINE)
    finish(axes, "cache size", "misses per lookup", title)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0, fontsize=8)


def _styles(names: Sequence[str]) -> dict[str, Style]:
    """One for each name, the same in all panels."""
    found: dict[str, Style] = {}
    for number, name in enumerate(dict.fromkeys(names)):
        round_, colour = divmod(number, len(COLOURS))
        found[name] = {"color": COLOURS[colour], "linestyle": STROKES[round_ % len(STROKES)]}
    return found
