# SPDX-License-Identifier: BSD-3-Clause
"""Evidence to figures: one entry in one table for each figure.

An entry names the figure as it stands in results, reports and the gate, its unit
and source, how the evidence gives its values, and the column title. A report shows
figures in the order of the table.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cachebench.analyze import floor, lines
from cachebench.analyze.histogram import percentile
from cachebench.analyze.intervals import of_shares, over_processes
from cachebench.cardmodel import MachineCard
from cachebench.model import Experiment, Figure, Instructions, Region, Sample, Source
from cachebench.tracemodel import Simulation


@dataclass(frozen=True)
class Evidence:
    """All that is known of one layout at one point."""

    spec: Experiment
    samples: Sequence[Sample]
    simulation: Simulation | None = None
    instructions: Instructions | None = None
    machine: MachineCard | None = None
    computed: Mapping[str, Figure] = field(default_factory=dict)
    """Figures that need no evidence, such as bytes per session."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Why there is no count of a role, no ``simulation``, no instructions of ``callgrind``,
    no ``machine``."""


Of = Callable[[Sample], "float | None"]
Values = Callable[[Evidence], Sequence[float]]


@dataclass(frozen=True)
class Spec:
    """How one figure comes out of evidence."""

    name: str
    title: str
    unit: str
    source: Source
    values: Values
    """One value for each process, or one for all; none if there is no such evidence."""
    needs: tuple[str, ...] = ()
    """Keys of the reasons why there may be no value."""
    absence: str | None = None
    """Why there is no value where no key tells; None: no figure then."""


def _each(of: Of, kind: str = "time") -> Values:
    """What each process of a kind gives."""

    def values(evidence: Evidence) -> list[float]:
        found = (of(sample) for sample in evidence.samples if sample.kind == kind)
        return [value for value in found if value is not None]

    return values


def _median(value: Callable[[Region], float], regions: Sequence[Region]) -> float | None:
    """Over the regions of a process: one disturbed region does not count."""
    return float(statistics.median(map(value, regions))) if regions else None


def _regions(value: Callable[[Region], float]) -> Values:
    return _each(lambda sample: _median(value, sample.regions))


def _stage(stage: str) -> Values:
    return _each(lambda sample: _median(cpu_ns, sample.stages.get(stage, ())))


def cpu_ns(region: Region) -> float:
    """Thread CPU time per lookup in ns."""
    return region.cpu_ns / region.lookups


FEW_BURSTS = "fewer than ten bursts lie beyond it"


def _ns_per_tick(sample: Sample) -> float:
    return sum(r.wall_ns for r in sample.regions) / sum(r.tsc for r in sample.regions)


def _burst(share: float) -> Values:
    """Percentile of the time of a burst in ns; ticks by the process's own regions."""

    def of(sample: Sample) -> float | None:
        # Fewer than ten bursts beyond it are no percentile.
        if sum(count for _, _, count in sample.latency) * (1 - share) < 10:
            return None
        return percentile(sample.latency, share) * _ns_per_tick(sample)

    return _each(of)


def _net(sample: Sample) -> dict[str, float]:
    """Counts by role, less what they read over a region without lookups."""
    return {count.role: count.value - count.empty for count in sample.counts}


FEWER = "not more were counted than without lookups"


def _counter(name: str, title: str, unit: str, role: str) -> Spec:
    """A counter per lookup."""

    def of(sample: Sample) -> float | None:
        count = _net(sample).get(role, -1.0)
        return count / sum(r.lookups for r in sample.regions) if count >= 0 else None

    return Spec(name, title, unit, "measured", _each(of, "counters"), (role,), FEWER)


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


# ---- Without counters


NO_SIMULATION = ("simulation",)


def _memory_wait(sample: Sample) -> float | None:
    """1 - t(small) / t: what the same instructions take longer in the table than in one
    of the same load that lies in the caches."""
    small, whole = _median(cpu_ns, sample.small), _median(cpu_ns, sample.regions)
    return None if small is None or not whole else 1 - small / whole


def _simulated(value: Callable[[Simulation], float]) -> Values:
    return lambda e: [] if e.simulation is None else [value(e.simulation)]


def _missed(level: int) -> Values:
    """Lines missed at a level of cache, whoever asked for them first."""
    return _simulated(
        lambda s: sum(lines.misses_per_lookup(s.objects, level, prefetch=p) for p in (False, True))
    )


def _ipc_est(evidence: Evidence) -> list[float]:
    """Instructions by callgrind over reference cycles of the thread's CPU time."""
    if evidence.instructions is None:
        return []
    times = _regions(cpu_ns)(evidence)
    ticks = _each(lambda sample: 1 / _ns_per_tick(sample))(evidence)
    count = evidence.instructions.per_lookup
    return [count / (ns * rate) for ns, rate in zip(times, ticks, strict=True)]


def _floor(evidence: Evidence) -> list[float]:
    if evidence.simulation is None or evidence.machine is None:
        return []
    page = floor.page_card(evidence.machine, evidence.spec)
    if page is None:
        return []
    return [floor.ns_per_lookup(evidence.simulation, evidence.spec, page)]


def _floor_share(evidence: Evidence) -> list[float]:
    return [ns / value for ns in _floor(evidence) for value in _regions(cpu_ns)(evidence)]


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
            _stage(stage),
        )
        for stage in ("hash", "bucket", "key", "session")
    ),
    _counter("cycles_per_lookup", "cycles per lookup", "cycles", "cycles"),
    _counter("instructions_per_lookup", "instructions per lookup", "1", "instructions"),
    Spec("ipc", "IPC", "1", "measured", _each(_ipc, "counters"), ("ipc",), FEWER),
    Spec(
        "backend_stall_share",
        "backend stalls",
        "share",
        "measured",
        _each(_backend_stalls, "counters"),
        ("backend_stall_share",),
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
        _each(_resident),
    ),
    Spec("huge_page_share", "share in huge pages", "share", "measured", _each(_huge_share)),
    Spec(
        "fill_ns_per_session",
        "creation, per session",
        "ns",
        "measured",
        _each(lambda s: s.fill_ns / s.table.entries),
    ),
    Spec(
        "profile_change_ns",
        "one QoS profile change",
        "ns",
        "measured",
        _each(lambda s: None if s.reprofile_ns is None else float(s.reprofile_ns)),
    ),
    Spec(
        "lines_per_lookup",
        "lines per lookup",
        "1",
        "simulated",
        _simulated(lambda s: lines.lines_per_lookup(s.objects)),
        NO_SIMULATION,
    ),
    *(
        Spec(
            f"{level.lower()}_misses_per_lookup_sim",
            f"{level} misses (model)",
            "1",
            "simulated",
            _missed(number),
            NO_SIMULATION,
        )
        for number, level in enumerate(("L1d", "L2", "LLC"))
    ),
    Spec(
        "dtlb_walks_per_lookup_sim",
        "dTLB walks (model)",
        "1",
        "simulated",
        _simulated(lambda s: lines.walks(lines.total(o.heat for o in s.objects), s.geometry)),
        NO_SIMULATION,
    ),
    Spec(
        "instructions_per_lookup_sim",
        "instructions (callgrind)",
        "1",
        "simulated",
        lambda e: [] if e.instructions is None else [e.instructions.per_lookup],
        ("callgrind",),
    ),
    Spec("memory_wait_share", "wait for memory", "share", "estimated", _each(_memory_wait)),
    Spec("ipc_est", "IPC by TSC cycles", "1", "estimated", _ipc_est, ("callgrind",)),
    Spec(
        "floor_ns_per_lookup",
        "floor of this memory",
        "ns",
        "estimated",
        _floor,
        ("machine", "simulation"),
    ),
    Spec(
        "floor_share",
        "floor / CPU time",
        "share",
        "estimated",
        _floor_share,
        ("machine", "simulation"),
    ),
)


def figures(evidence: Evidence) -> dict[str, Figure]:
    """All figures that the evidence of one layout gives.

    A figure that could have been given and was not has no value, and the reason.
    """
    found: dict[str, Figure] = {}
    for spec in FIGURES:
        values = spec.values(evidence)
        reasons = [evidence.unavailable[key] for key in spec.needs if key in evidence.unavailable]
        reason = next(iter(reasons), spec.absence)
        if values:
            interval = of_shares if spec.unit == "share" else over_processes
            value, low, high = interval(values)
            found[spec.name] = Figure(
                value=value, low=low, high=high, unit=spec.unit, source=spec.source
            )
        elif reason is not None:
            found[spec.name] = Figure(value=None, unit=spec.unit, source=spec.source, reason=reason)
    return found | dict(evidence.computed)
