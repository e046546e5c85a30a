# SPDX-License-Identifier: BSD-3-Clause
"""Layouts of one run against the first of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from cachebench.analyze.figures import cpu_ns
from cachebench.analyze.intervals import over_processes
from cachebench.model import Figure, LayoutResult, Sample

NAME = "cpu_time_ratio"
PAGES_APART = 0.02
"""Arms whose shares in huge pages differ by more than this are not comparable."""


def with_ratios(results: Sequence[LayoutResult]) -> tuple[LayoutResult, ...]:
    """The results, each but the first with the figure ``cpu_time_ratio``."""
    return tuple(
        entry
        if entry is results[0]
        else msgspec.structs.replace(
            entry, figures=entry.figures | {NAME: cpu_time_ratio(results[0], entry)}
        )
        for entry in results
    )


def cpu_time_ratio(base: LayoutResult, head: LayoutResult) -> Figure:
    """CPU time per lookup of ``head`` over that of ``base``, with its 95 % interval.

    The processes of one round have the same packets and ran one after the other;
    each round gives one ratio, so that what drifts from round to round cancels.
    """
    if abs(_huge_share(base) - _huge_share(head)) > PAGES_APART:
        return _absent("not measurable: their shares in huge pages differ by over 2 points")
    rounds = _rounds(base), _rounds(head)
    ratios = [rounds[1][number] / rounds[0][number] for number in rounds[0].keys() & rounds[1]]
    if not ratios:
        return _absent("no round has both layouts")
    value, low, high = over_processes(ratios)
    return Figure(value=value, low=low, high=high, unit="1", source="measured")


def _absent(reason: str) -> Figure:
    return Figure(value=None, unit="1", source="measured", reason=reason)


def _huge_share(entry: LayoutResult) -> float:
    figure = entry.figures.get("huge_page_share")
    return 0.0 if figure is None or figure.value is None else figure.value


def _rounds(entry: LayoutResult) -> dict[int, float]:
    return {s.process: _median(s) for s in entry.samples if s.kind == "time"}


def _median(sample: Sample) -> float:
    return statistics.median(map(cpu_ns, sample.regions))
