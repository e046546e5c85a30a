# SPDX-License-Identifier: BSD-3-Clause
"""Miss-ratio curves as a picture: misses per lookup by cache size, layouts and objects."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cachebench.analyze import plotstyle
from cachebench.analyze.curve import LINE
from cachebench.analyze.plotstyle import INK, binary, finish, mark
from cachebench.model import Traced, TraceResult
from cachebench.tracemodel import Curve, Geometry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    "#2f6f9f",
    "#c2553f",
    "#4c8c4a",
    "#7a5aa6",
    "#d08a1d",
    "#3a9d9a",
    "#b0518f",
    "#7d6b52",
    "#8aa82f",
    "#5f6f8f",
)
"""Of layouts and of objects; further ones begin anew."""
PALEST = 0.65
"""How far the last of several objects of one colour is from it to white."""
CACHES = ("L1d", "L2", "LLC")
SIZE_TICKS = tuple(1 << shift for shift in range(15, 31, 2))
SINGLE, PANEL = (8.0, 4.4), (5.6, 3.4)
"""Inches of axes and legend: of one layout alone, of one of several."""
LETTERS = 16
"""Of the title and the caption to an inch."""
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
        colours = _colours([name for _, curve in curves for name in curve.objects])
        for panel, (traced, curve) in zip(remaining, curves, strict=False):
            _objects(panel, traced, curve, colours, result.geometry, highest)
        caption = (
            "simulated, LRU, fully associative, no hardware prefetch; misses by loads and stores, "
            f"over {result.curve_rate:g} of the lines; objects stacked"
        )
        figure.suptitle(textwrap.fill(title, int(width * LETTERS)), fontsize=9)
        figure.supxlabel(textwrap.fill(caption, int(width * LETTERS)), fontsize=9)

    return plotstyle.svg(width, size[1] * rows, draw)


def _layouts(
    axes: Axes, curves: Sequence[tuple[Traced, Curve]], shape: Geometry, highest: float
) -> None:
    for number, (traced, curve) in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(curve.cache_bytes, curve.total, label=traced.layout, color=colour, linewidth=1.6)
    _complete(axes, curves[0][1], shape, highest, "all layouts")


def _objects(
    axes: Axes,
    traced: Traced,
    curve: Curve,
    colours: Mapping[str, str],
    shape: Geometry,
    highest: float,
) -> None:
    # Bands on each other, since the curves of objects that each lookup uses once are one
    # curve. The first object is the top one, as in the legend.
    axes.plot(curve.cache_bytes, curve.total, label="all", color=INK, linewidth=1.6)
    top = curve.total
    for name, values in curve.objects.items():
        below = [upper - value for upper, value in zip(top, values, strict=True)]
        if max(values) >= LEAST:
            axes.fill_between(
                curve.cache_bytes,
                below,
                top,
                label=name,
                facecolor=colours[name],
                edgecolor="white",
                linewidth=0.5,
            )
        top = tuple(below)
    _complete(axes, curve, shape, highest, traced.layout)


def _complete(axes: Axes, curve: Curve, shape: Geometry, highest: float, title: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(SIZE_TICKS, [binary(size) for size in SIZE_TICKS])
    axes.minorticks_off()
    axes.set_xlim(curve.cache_bytes[0] / 1.4, curve.cache_bytes[-1])
    # Room above the curves for the names of the caches; some range if nothing ever misses.
    axes.set_ylim(0, max(highest * 1.35, LEAST))
    for name, level in zip(CACHES, shape.caches, strict=True):
        mark(axes, name, level.ways * level.sets * LINE)
    finish(axes, "cache size", "misses per lookup", title)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0, fontsize=8)


def _colours(names: Sequence[str]) -> dict[str, str]:
    """One for each name, the same in all panels; ``stats.bytes``, where each member is an
    object, has a shade of the colour of ``stats``."""
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        groups.setdefault(name.partition(".")[0], []).append(name)
    found = {}
    for number, (group, members) in enumerate(groups.items()):
        colour = COLOURS[number % len(COLOURS)]
        parts = [name for name in members if name != group]
        found[group] = colour
        for part, name in enumerate(parts):
            found[name] = _paler(colour, PALEST * part / max(len(parts) - 1, 1))
    return found


def _paler(colour: str, share: float) -> str:
    """The colour ``#rrggbb``, that share of the way to white."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)
