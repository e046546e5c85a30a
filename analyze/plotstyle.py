# SPDX-License-Identifier: BSD-3-Clause
"""What all plots have in common: style, axes of cache sizes, SVG that repeats."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID = "#333333", "#dddddd"
STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "cachebench",  # the same card gives the same file
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


def svg(width: float, height: float, draw: Callable[[Figure], None]) -> str:
    """A picture of so many inches as SVG text; the same drawing gives the same text."""
    # Here, since importing it takes longer than most commands run.
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type,unused-ignore]
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def mark(axes: Axes, name: str, size: int) -> None:
    """A dashed line at a cache's bytes, if they are within the axis."""
    low, high = axes.get_xlim()
    if low < size < high:
        axes.axvline(size, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.annotate(
            f"{name} {binary(size)}",
            (size, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-3, -2),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="top",
            fontsize=8,
        )


def finish(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def binary(size: int) -> str:
    """A short label: ``48K``, ``2M``, ``1G``."""
    for shift, unit in ((30, "G"), (20, "M"), (10, "K")):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.3g}{unit}"
    return str(size)
