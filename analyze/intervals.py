# SPDX-License-Identifier: BSD-3-Clause
"""The one interval that run, export and reports quote."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from scipy.special import stdtrit

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A value with its confidence interval; no bounds from a single process."""

    value: float
    low: float | None
    high: float | None


def over_processes(values: Sequence[float]) -> Interval:
    """Mean and two-sided 95 % Student t interval over processes, one value each.

    Taken on logarithms if all values are positive, as times and rates are: what
    disturbs them multiplies, and the interval of a ratio is then that of its
    inverse. The value is the geometric mean there, else the arithmetic one.

    Raises ValueError without values.
    """
    if not values:
        raise ValueError("no values")
    if len(values) == 1 or any(value <= 0 for value in values):
        return _student(values)
    value, low, high = _student([math.log(value) for value in values])
    return Interval(
        math.exp(value),
        None if low is None else math.exp(low),
        None if high is None else math.exp(high),
    )


def of_shares(values: Sequence[float]) -> Interval:
    """The same for shares: arithmetic, and bounds within 0 and 1 if all values are."""
    if not values:
        raise ValueError("no values")
    value, low, high = _student(values)
    if not all(0 <= each <= 1 for each in values):
        return Interval(value, low, high)
    return Interval(
        value,
        None if low is None else max(0.0, low),
        None if high is None else min(1.0, high),
    )


def of_differences(values: Sequence[float]) -> Interval:
    """The same for what may be negative, and for parts that sum to a whole: arithmetic."""
    if not values:
        raise ValueError("no values")
    return _student(values)


def _student(values: Sequence[float]) -> Interval:
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Interval(mean, None, None)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    quantile = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))
    half = quantile * math.sqrt(variance / n)
    return Interval(mean, mean - half, mean + half)
