"""Layouts of one run against each other."""

from __future__ import annotations

import statistics

from cachebench.analyze.figures import cpu_ns
from cachebench.analyze.intervals import over_processes
from cachebench.model import Figure, LayoutResult, Sample


def cpu_ratio(base: LayoutResult, head: LayoutResult) -> Figure:
    """CPU time per lookup of ``head`` over that of ``base``, with its 95 % interval.

    The processes of one round have the same packets and ran one after the other;
    each round gives one ratio, so that what drifts from round to round cancels.
    """
    rounds = _rounds(base), _rounds(head)
    ratios = [rounds[1][number] / rounds[0][number] for number in rounds[0].keys() & rounds[1]]
    if not ratios:
        return Figure(value=None, unit="1", source="measured", reason="no round has both layouts")
    value, low, high = over_processes(ratios)
    return Figure(value=value, low=low, high=high, unit="1", source="measured")


def _rounds(entry: LayoutResult) -> dict[int, float]:
    return {s.process: _median(s) for s in entry.samples if s.kind == "time"}


def _median(sample: Sample) -> float:
    return statistics.median(map(cpu_ns, sample.regions))
