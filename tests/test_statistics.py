# SPDX-License-Identifier: BSD-3-Clause
"""The interval and the percentiles, against published values and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachebench.analyze.histogram import percentile
from cachebench.analyze.intervals import over_processes

# Two-sided 95 % quantiles of Student's t by degrees of freedom, from the tables
# in any textbook.
QUANTILES = {1: 12.706, 2: 4.303, 4: 2.776, 9: 2.262, 29: 2.045}


@pytest.mark.parametrize(("freedom", "quantile"), QUANTILES.items())
def test_the_interval_uses_the_published_quantiles(freedom: int, quantile: float) -> None:
    values = [-1.0 + 2.0 * i / freedom for i in range(freedom + 1)]  # mean 0, signs mixed
    deviation = float(np.std(values, ddof=1))
    interval = over_processes(values)
    assert interval.value == pytest.approx(0, abs=1e-12)
    assert interval.high == pytest.approx(quantile * deviation / math.sqrt(len(values)), rel=5e-4)
    assert interval.low == pytest.approx(-float(interval.high or 0))


def test_positive_values_are_averaged_on_logarithms() -> None:
    interval = over_processes([10.0, 1000.0])
    assert interval.value == pytest.approx(100.0)


@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=20))
def test_the_interval_of_inverses_is_the_inverse_interval(values: list[float]) -> None:
    interval = over_processes(values)
    inverse = over_processes([1 / value for value in values])
    assert interval.low is not None and interval.high is not None
    assert inverse.value == pytest.approx(1 / interval.value)
    if interval.low > 1e-200 and interval.high < 1e200:
        assert inverse.low == pytest.approx(1 / interval.high)


def test_one_process_has_a_value_and_no_bounds() -> None:
    assert over_processes([5.0]) == pytest.approx((5.0, None, None))


def test_no_process_has_no_value() -> None:
    with pytest.raises(ValueError):
        over_processes([])


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=200),
    st.sampled_from([0.01, 0.5, 0.9, 0.99, 0.999]),
)
def test_a_percentile_lies_in_the_bucket_of_the_order_statistic(
    values: list[int], share: float
) -> None:
    histogram = [(v, v + 1, values.count(v)) for v in sorted(set(values))]
    wanted = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    assert wanted <= percentile(histogram, share) <= wanted + 1


def test_a_histogram_without_counts_has_no_percentile() -> None:
    with pytest.raises(ValueError):
        percentile([], 0.5)
