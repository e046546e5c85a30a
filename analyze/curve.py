# SPDX-License-Identifier: BSD-3-Clause
"""Misses per lookup as a function of cache size, from LRU stack distances.

An access with distance D hits in a fully associative LRU cache of more than D
lines (Mattson and others 1970). Software prefetches are left out: a demand access
that would miss is a miss here, whoever fetches the line.
"""

from __future__ import annotations

from collections.abc import Sequence

from cachebench.tracemodel import Curve, TraceSample

LINE = 64
SIZES = (*(steps << shift for shift in range(13, 28) for steps in (4, 5, 6, 7)), 1 << 30)
"""32 KiB … 1 GiB, four to a power of two: where buckets of the distances begin, so that
nothing is rounded."""


def evaluate(sample: TraceSample) -> Curve:
    """The curve at all sizes. Raises ValueError if the trace recorded none."""
    objects = misses(sample)
    total = tuple(map(sum, zip(*objects.values(), strict=True)))
    return Curve(cache_bytes=SIZES, objects=objects, total=total)


def misses(sample: TraceSample, sizes: Sequence[int] = SIZES) -> dict[str, tuple[float, ...]]:
    """Misses per lookup of each arena at each cache size in bytes.

    The buckets of the distances are a quarter of a power of two wide; a bucket
    counts as missing if its smallest distance does. Raises ValueError if the trace
    recorded none.
    """
    if not any(arena.distances for arena in sample.arenas):
        raise ValueError("the trace recorded no stack distances")
    return {
        arena.name: tuple(
            sum(count for distance, count in arena.distances if _misses(distance, size))
            / sample.lookups
            for size in sizes
        )
        for arena in sample.arenas
        if arena.distances
    }


def _misses(distance: int, size: int) -> bool:
    return distance < 0 or distance >= size // LINE
