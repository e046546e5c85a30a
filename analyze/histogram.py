# SPDX-License-Identifier: BSD-3-Clause
"""Percentiles of a histogram."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(histogram: Sequence[tuple[int, int, int]], share: float) -> float:
    """Value below which ``share`` of the counts lie.

    ``histogram`` holds (first value, first value after, count) in ascending
    order. Inside a bucket the counts are taken as evenly spread, so that the
    error is below the bucket's width (1/32 of the value). Raises ValueError if
    there are no counts.
    """
    total = sum(count for _, _, count in histogram)
    if total == 0:
        raise ValueError("an empty histogram has no percentiles")
    wanted = share * total
    below = 0
    for first, after, count in histogram:
        if below + count >= wanted:
            return first + (after - first) * max(0.0, wanted - below) / count
        below += count
    return float(histogram[-1][1])
