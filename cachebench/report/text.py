# SPDX-License-Identifier: BSD-3-Clause
"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from cachebench.model import Figure

_SCALED_UNITS = {"ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))}


def printable(text: str) -> str:
    """The text with what would steer a terminal replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def quantity(value: float, digits: int = 4) -> str:
    """A number with ``digits`` significant digits and no exponent below a million."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.{digits}g}" if abs(value) < 1e6 else f"{value:,.0f}"


def scale(figures: Sequence[Figure]) -> tuple[float, str]:
    """One unit for figures that stand in a row, and what to divide them by.

    Shares are shown in percent, long times in a longer unit; a plain number has
    no unit.
    """
    unit = figures[0].unit
    largest = max((abs(f.value) for f in figures if f.value is not None), default=0.0)
    if unit == "share":
        return 0.01, "%"
    for factor, longer in _SCALED_UNITS.get(unit, ()):
        if largest >= 10 * factor:
            return factor, longer
    return 1.0, "" if unit == "1" else unit


def interval(figure: Figure, factor: float = 1.0) -> str:
    """``53.21 (52.90 … 53.61)``, all divided by ``factor``; the figure has a value."""
    assert figure.value is not None
    text = _number(figure.value / factor)
    if figure.low is None or figure.high is None:
        return text
    return f"{text} ({_number(figure.low / factor)} … {_number(figure.high / factor)})"


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"
