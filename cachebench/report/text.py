"""Numbers as people read them."""

from __future__ import annotations

from cachebench.model import Figure

_SCALED_UNITS = {"ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))}


def quantity(value: float, digits: int = 4) -> str:
    """A number with ``digits`` significant digits and no exponent below a million."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.{digits}g}" if abs(value) < 1e6 else f"{value:,.0f}"


def interval(figure: Figure) -> str:
    """``53.21 ns (52.9 … 53.6)``; a share in percent; large times in a larger unit."""
    assert figure.value is not None
    factor, unit = _scale(figure)
    text = f"{_number(figure.value / factor)}{unit}"
    if figure.low is None or figure.high is None:
        return text
    return f"{text} ({_number(figure.low / factor)} … {_number(figure.high / factor)})"


def _scale(figure: Figure) -> tuple[float, str]:
    assert figure.value is not None
    if figure.unit == "share":
        return 0.01, " %"
    for factor, unit in _SCALED_UNITS.get(figure.unit, ()):
        if figure.value >= 10 * factor:
            return factor, f" {unit}"
    return 1.0, "" if figure.unit == "1" else f" {figure.unit}"


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"
