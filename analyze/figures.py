# SPDX-License-Identifier: BSD-3-Clause
"""Samples to figures: one entry in one table for each figure.

An entry names the figure as it stands in results, reports and the gate, its unit
and source, how a process gives its value, and the column title. A report shows
figures in the order of the table.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cachebench.analyze.histogram import percentile
from cachebench.analyze.intervals import of_shares, over_processes
from cachebench.model import Figure, Region, Sample, Source

Of = Callable[[Sample], "float | None"]


@dataclass(frozen=True)
class Spec:
    """How one figure comes out of samples."""

    name: str
    title: str
    unit: str
    source: Source
    of: Of
    """Value of one process; None if a process of its kind has none."""
    kind: str = "time"
    role: str | None = None
    """Of a counter figure: the key of the reason why it was not counted."""
    absence: str | None = None
    """Why there is no value although the process was run; None: no figure then."""


def _regions(value: Callable[[Region], float], stage: str | None = None) -> Of:
    """Median over the regions of a process: one disturbed region does not count."""

    def of(sample: Sample) -> float | None:
        regions = sample.regions if stage is None else sample.stages.get(stage, ())
        return float(statistics.median(map(value, regions))) if regions else None

    return of


def cpu_ns(region: Region) -> float:
    """Thread CPU time per lookup in ns."""
    return region.cpu_ns / region.lookups


FEW_BURSTS = "fewer than ten bursts lie beyond it"


def _burst(share: float) -> Of:
    """Percentile of the time of a burst in ns; ticks by the process's own regions."""

    def of(sample: Sample) -> float | None:
        # Fewer than ten bursts beyond it are no percentile.
        if sum(count for _, _, count in sample.latency) * (1 - share) < 10:
            return None
        ns_per_tick = sum(r.wall_ns for r in sample.regions) / sum(r.tsc for r in sample.regions)
        return percentile(sample.latency, share) * ns_per_tick

    return of


def _net(sample: Sample) -> dict[str, float]:
    """Counts by role, less what they read over a region without lookups."""
    return {count.role: count.value - count.empty for count in sample.counts}


FEWER = "not more were counted than without lookups"


def _counter(name: str, title: str, unit: str, role: str) -> Spec:
    """A counter per lookup."""

    def of(sample: Sample) -> float | None:
        count = _net(sample).get(role, -1.0)
        return count / sum(r.lookups for r in sample.regions) if count >= 0 else None

    return Spec(name, title, unit, "measured", of, "counters", role, FEWER)


def _ipc(sample: Sample) -> float | None:
    net = _net(sample)
    cycles = net.get("cycles", 0.0)
    return net["instructions"] / cycles if cycles > 0 and "instructions" in net else None


def _backend_stalls(sample: Sample) -> float | None:
    net = _net(sample)
    share = sample.backend_stalls
    if share is None or share.numerator not in net or net.get(share.denominator, 0.0) <= 0:
        return None
    value = net[share.numerator] / (share.factor * net[share.denominator])
    return value if 0 <= value <= 1 else None


def _resident(sample: Sample) -> float:
    return sum(arena.resident for arena in sample.arenas) / sample.table.entries


def _huge_share(sample: Sample) -> float | None:
    """Of the memory in arenas that lookups read; the free lists are not."""
    arenas = [arena for arena in sample.arenas if not arena.name.startswith("free_")]
    resident = sum(arena.resident for arena in arenas)
    return sum(arena.huge for arena in arenas) / resident if resident else None


FIGURES: tuple[Spec, ...] = (
    Spec("ns_per_lookup", "CPU time per lookup", "ns", "measured", _regions(cpu_ns)),
    Spec(
        "wall_ns_per_lookup",
        "wall time per lookup",
        "ns",
        "measured",
        _regions(lambda r: r.wall_ns / r.lookups),
    ),
    Spec(
        "tsc_cycles_per_lookup",
        "TSC per lookup (wall)",
        "ticks",
        "measured",
        _regions(lambda r: r.tsc / r.lookups),
    ),
    Spec(
        "lookups_per_second",
        "lookups per CPU second",
        "1/s",
        "measured",
        _regions(lambda r: r.lookups / r.cpu_ns * 1e9),
    ),
    Spec("burst_p50_ns", "burst P50", "ns", "measured", _burst(0.50), absence=FEW_BURSTS),
    Spec("burst_p99_ns", "burst P99", "ns", "measured", _burst(0.99), absence=FEW_BURSTS),
    Spec("burst_p999_ns", "burst P99.9", "ns", "measured", _burst(0.999), absence=FEW_BURSTS),
    *(
        Spec(
            f"ns_to_{stage}",
            f"time up to {stage}" if stage != "session" else "time with session",
            "ns",
            "measured",
            _regions(cpu_ns, stage),
        )
        for stage in ("hash", "bucket", "key", "session")
    ),
    _counter("cycles_per_lookup", "cycles per lookup", "cycles", "cycles"),
    _counter("instructions_per_lookup", "instructions per lookup", "1", "instructions"),
    Spec("ipc", "IPC", "1", "measured", _ipc, "counters", "ipc", FEWER),
    Spec(
        "backend_stall_share",
        "backend stalls",
        "share",
        "measured",
        _backend_stalls,
        "counters",
        "backend_stall_share",
        "the counts give no share from 0 to 1",
    ),
    _counter("cache_misses_per_lookup", "cache misses per lookup", "1", "cache_misses"),
    _counter("l1d_misses_per_lookup", "L1d misses per lookup", "1", "l1d_misses"),
    _counter("llc_misses_per_lookup", "LLC misses per lookup", "1", "llc_misses"),
    _counter("dtlb_walks_per_lookup", "dTLB walks per lookup", "1", "dtlb_walks"),
    _counter("branches_per_lookup", "branches per lookup", "1", "branches"),
    _counter("branch_misses_per_lookup", "branch misses per lookup", "1", "branch_misses"),
    Spec(
        "resident_bytes_per_session",
        "resident bytes per session",
        "B",
        "measured",
        _resident,
    ),
    Spec("huge_page_share", "share in huge pages", "share", "measured", _huge_share),
    Spec(
        "fill_ns_per_session",
        "creation, per session",
        "ns",
        "measured",
        lambda s: s.fill_ns / s.table.entries,
    ),
    Spec(
        "profile_change_ns",
        "one QoS profile change",
        "ns",
        "measured",
        lambda s: None if s.reprofile_ns is None else float(s.reprofile_ns),
    ),
)


def figures(
    samples: Sequence[Sample],
    computed: Mapping[str, Figure],
    unavailable: Mapping[str, str],
) -> dict[str, Figure]:
    """All figures that the samples of one layout give.

    ``computed`` holds figures that need no sample (bytes per session);
    ``unavailable`` says of a counter role why it was not counted. A figure of a
    counter that was not counted has no value and that reason.
    """
    found: dict[str, Figure] = {}
    for spec in FIGURES:
        values = [
            value
            for sample in samples
            if sample.kind == spec.kind and (value := spec.of(sample)) is not None
        ]
        if values:
            interval = of_shares if spec.unit == "share" else over_processes
            value, low, high = interval(values)
            found[spec.name] = Figure(
                value=value, low=low, high=high, unit=spec.unit, source=spec.source
            )
        elif spec.absence is not None:
            reason = unavailable.get(spec.role or "", spec.absence)
            found[spec.name] = Figure(value=None, unit=spec.unit, source=spec.source, reason=reason)
    return found | dict(computed)
