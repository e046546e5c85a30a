# SPDX-License-Identifier: BSD-3-Clause
"""What the machine card tells: where latency rises and why, and floors of a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from cachebench.cardmodel import (
    Benefit,
    Cache,
    CardPages,
    Knee,
    Latency,
    MachineCard,
    PageCard,
    Throughput,
)

STEEP = math.log2(1.25)
"""Latency that grows by less than a quarter from one doubling of the working set
to the next is on a level: translation and sharing tilt levels by 5 to 15 %."""
RISE = math.log2(1.35)
"""A rise of less than this in all is no knee."""
SPLIT = 0.4
"""A rise is two if in between it is less than this share as steep as on both sides."""
TLB = "TLB reach"
UNEXPLAINED = "unexplained"


def analysed(card: MachineCard) -> MachineCard:
    """The card with its knees and the caches' benefits."""
    found = {page.pages: _rises(page.latency) for page in card.pages}
    knees = tuple(
        _knee(page, rise, card, found) for page in card.pages for rise in found[page.pages]
    )
    return msgspec.structs.replace(
        card,
        knees=knees,
        benefits=tuple(
            _benefit(page, cache, knees) for page in card.pages for cache in card.caches
        ),
    )


# ---- Floors


def floor_bulk(lines: float, ns_per_line: float) -> float:
    """ns per lookup that bulk lookups cannot go below: lines x ns per line.

    ``lines`` is the number of distinct cold lines of one lookup (simulated: from
    the line trace); ``ns_per_line`` the time of a random line in a working set of
    that size with as many loads under way as the kernel keeps (measured: the
    card's throughput, see :func:`ns_per_line`). What follows is an estimate.
    """
    return lines * ns_per_line


def floor_serial(levels: float, latency: float) -> float:
    """ns per lookup that serial lookups cannot go below: levels x latency.

    ``levels`` is the length of the longest chain of loads of one lookup in which
    each needs the value of the one before (computed: bucket, key, session and
    what that points to); ``latency`` the ns of one dependent load in a working
    set of that size (measured: see :func:`latency`). What follows is an estimate.
    """
    return levels * latency


def latency(points: Sequence[Latency], size: float) -> float:
    """ns of a dependent load in a working set of ``size`` bytes.

    Linear in the logarithm of the size between two measured points. Outside of
    them it is the nearest one's: beyond the largest, it is still a lower bound.
    """
    return _interpolate([(point.bytes, point.ns) for point in points], size)


def ns_per_line(points: Sequence[Throughput], size: float, in_flight: float) -> float:
    """ns of a random line in a working set of ``size`` bytes, ``in_flight`` at once.

    Linear in both logarithms, and the nearest point's outside of what was measured.
    """
    rows: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        rows.setdefault(point.in_flight, []).append((point.bytes, point.ns))
    return _interpolate(
        [(chains, _interpolate(row, size)) for chains, row in sorted(rows.items())], in_flight
    )


def _interpolate(points: Sequence[tuple[float, float]], x: float) -> float:
    """Raises ValueError without points."""
    if not points:
        raise ValueError("no points")
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * math.log(x / x0) / math.log(x1 / x0)
    return points[-1][1]


# ---- Knees


class _Rise(msgspec.Struct, frozen=True):
    """From the last point of a lower level to the first one of a higher level."""

    start: Latency
    end: Latency


def _rises(points: Sequence[Latency]) -> list[_Rise]:
    """Where latency rises, by steepness per doubling of the working set.

    The lowest value over processes gives the curve, since what disturbs a load
    only makes it slower. A larger working set cannot be faster, so the curve is
    first made monotone: what noise raised at one point is spread over the points
    that it exceeds.
    """
    if len(points) < 3:
        return []
    level = _monotone([math.log2(point.low) for point in points])
    widths = [math.log2(b.bytes / a.bytes) for a, b in pairwise(points)]
    steps = [b - a for a, b in pairwise(level)]
    slopes = [step / width for step, width in zip(steps, widths, strict=True)]
    rises: list[_Rise] = []
    runs = _runs(slope >= STEEP for slope in slopes)
    for first, after in (part for run in runs for part in _split(slopes, *run)):
        # A rise that the last point alone shows may be a disturbance of it.
        if sum(steps[first:after]) >= RISE and first + 2 < len(points):
            rises.append(_Rise(points[first], points[after]))
    return rises


def _monotone(values: Sequence[float]) -> list[float]:
    """The nearest ascending sequence in least squares (pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            before, size = pools.pop()
            mean = (mean * count + before * size) / (count + size)
            count += size
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]


def _runs(flags: Iterable[bool]) -> list[tuple[int, int]]:
    """First index and the one after the last of each run of true flags."""
    runs: list[tuple[int, int]] = []
    for index, flag in enumerate(flags):
        if not flag:
            continue
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def _split(slopes: Sequence[float], first: int, after: int) -> list[tuple[int, int]]:
    """Cuts a run where the slope sinks between two steeper parts: that is a level."""
    for middle in range(first + 1, after - 1):
        around = min(max(slopes[first:middle]), max(slopes[middle + 1 : after]))
        if slopes[middle] < SPLIT * around:
            end = middle + 1
            while slopes[end] < SPLIT * around:
                end += 1
            return [(first, middle), *_split(slopes, end, after)]
    return [(first, after)]


def _knee(
    page: PageCard, rise: _Rise, card: MachineCard, found: dict[CardPages, list[_Rise]]
) -> Knee:
    return Knee(
        pages=page.pages,
        bytes=rise.start.bytes,
        until=rise.end.bytes,
        ns=rise.start.ns,
        until_ns=rise.end.ns,
        name=_name(page, rise, card, found),
    )


def _name(
    page: PageCard, rise: _Rise, card: MachineCard, found: dict[CardPages, list[_Rise]]
) -> str:
    """A cache ends for pages of all sizes alike: where 4k pages show a rise and larger
    ones, measured past it, show none, translation is what ends."""
    if page.pages == "4k":
        larger = [
            other
            for other in card.pages
            if other.pages != "4k" and other.latency and other.latency[-1].bytes >= rise.end.bytes
        ]
        alike = [
            other for each in larger for other in found[each.pages] if _same_place(rise, other)
        ]
        if larger and not alike:
            return TLB
    near = [cache for cache in card.caches if _ends_at(rise, cache.bytes)]
    if not near:
        return UNEXPLAINED
    return min(near, key=lambda cache: abs(math.log(cache.bytes / rise.start.bytes))).name


def _same_place(a: _Rise, b: _Rise) -> bool:
    """Within an octave; with 4k pages a cache's sets fill unevenly, so its rise is early."""
    return abs(math.log2(a.start.bytes / b.start.bytes)) <= 1.1


def _ends_at(rise: _Rise, size: int) -> bool:
    """From half of a cache's size on (what else is in it takes room, and so does
    uneven filling of its sets) to where the last point that it holds may be."""
    return size / 2.1 <= rise.start.bytes <= size * 1.1


def _benefit(page: PageCard, cache: Cache, knees: Sequence[Knee]) -> Benefit:
    """Seen if a rise was named after it; says latency at half and twice its size."""
    points = page.latency
    inside, beyond = cache.bytes / 2, cache.bytes * 2
    seen = any(knee.name == cache.name and knee.pages == page.pages for knee in knees)
    if not points or points[0].bytes > inside or points[-1].bytes < beyond:
        return Benefit(
            pages=page.pages,
            cache=cache.name,
            seen=True if seen else None,
            text="the working sets do not reach from half to twice its size",
        )
    low, high = latency(points, inside), latency(points, beyond)
    at = f"{low:.3g} ns at half its size, {high:.3g} ns at twice its size"
    return Benefit(
        pages=page.pages,
        cache=cache.name,
        seen=seen,
        text=at if seen else f"shows no benefit at its advertised size: {at}",
    )
