# SPDX-License-Identifier: BSD-3-Clause
"""What must be known to read a result, in sentences."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from cachebench import geometry
from cachebench.analyze.figures import FIGURES
from cachebench.model import LayoutResult, Result
from cachebench.report.text import printable, quantity

SOFTWARE_EVENTS = ("page_faults", "context_switches", "cpu_migrations")
SHARED_CPU = 1.05
"""Wall over CPU time from which on a run is said to have shared its CPU."""


def notes(result: Result) -> list[str]:
    """Sentences in the order of their weight."""
    found = (
        *_shared_cpu(result),
        *_capture(result),
        *_absent(result),
        *_software(result),
        *_simulated(result),
        *_estimated(result),
        *_intervals(result),
    )
    return [printable(sentence) for sentence in found]


def _shared_cpu(result: Result) -> Iterator[str]:
    for entry in result.results:
        ratio = statistics.median(
            r.wall_ns / r.cpu_ns for s in entry.samples if s.kind == "time" for r in s.regions
        )
        if ratio > SHARED_CPU:
            yield (
                f"{entry.layout}: wall time is {ratio:.2f} times CPU time: the CPU was shared. "
                "CPU time leaves the others out; bursts, ticks and wall time include them. "
                "cachebench doctor says more."
            )


def _capture(result: Result) -> Iterator[str]:
    capture = result.spec.capture
    if capture is None:
        return
    yield (
        f"{capture.path}: {capture.packets:,} packets, {capture.keyed:,} with a 5-tuple, in "
        f"{capture.flows:,} one-way flows ({capture.ipv6_flows:,} IPv6), each {capture.clones} "
        f"times; keys of {result.spec.key_size} bytes"
    )
    if capture.fault is not None:
        yield f"{capture.path}: {capture.fault}; the {capture.packets} packets before it were used"


def _absent(result: Result) -> Iterator[str]:
    """Why figures have no value."""
    titles = {spec.name: spec.title for spec in FIGURES}
    reasons: dict[str, dict[str, None]] = {}
    for entry in result.results:
        for name, figure in entry.figures.items():
            if figure.value is None:
                reasons.setdefault(str(figure.reason), {})[titles.get(name, name)] = None
    for reason, names in reasons.items():
        yield f"no {', '.join(names)}: {reason}"


def _software(result: Result) -> Iterator[str]:
    for entry in result.results:
        for sample in entry.samples:
            if sample.group == "software":
                counted = ", ".join(
                    f"{quantity(c.value - c.empty)} {c.role.replace('_', ' ')}"
                    for c in sample.counts
                    if c.role in SOFTWARE_EVENTS
                )
                lookups = sum(region.lookups for region in sample.regions)
                yield f"perf, {entry.layout}: {counted} in {lookups:,} lookups (measured)"


def _simulated(result: Result) -> Iterator[str]:
    traces = [entry.simulation for entry in result.results if entry.simulation is not None]
    if traces:
        yield (
            f"lines and misses: line trace of {traces[0].lookups:,} lookups, "
            f"{geometry.describe(traces[0].geometry)}, LRU, no hardware prefetch"
        )
    counts = [entry.instructions for entry in result.results if entry.instructions is not None]
    if counts:
        yield (
            f"instructions: {counts[0].tool}, {counts[0].lookups:,} lookups in a table of "
            f"{counts[0].sessions:,} sessions with the same load"
        )


def _estimated(result: Result) -> Iterator[str]:
    if any("memory_wait_share" in entry.figures for entry in result.results):
        samples = (sample for entry in result.results for sample in entry.samples)
        small = next((s.small_sessions for s in samples if s.small_sessions is not None), None)
        if small is not None:
            yield f"wait for memory: 1 - time with {small:,} sessions / time, in the same process"
    if result.machine is not None and any(
        entry.figures["floor_ns_per_lookup"].value is not None for entry in result.results
    ):
        how = (
            "dependent loads x latency"
            if result.spec.mode == "serial"
            else "lines that miss L2 x time of a random line"
        )
        card = (
            "memory measured in one process of this run; cachebench machine keeps a whole card"
            if result.machine.processes == 1
            else f"the machine card of {result.machine.created[:10]}"
        )
        yield f"floor: {how}, by {card}"


def _intervals(result: Result) -> Iterator[str]:
    numbers = sorted({_processes(entry) for entry in result.results})
    if numbers and numbers[-1] > 1:
        yield f"(low … high): 95 % interval over {' to '.join(map(str, numbers))} processes"
    else:
        yield "one process has no interval"
    if len(result.results) > 1:
        yield "a ratio is over rounds, in which each layout had a process of its own, in turn"
    yield "levels hold on this machine only"


def _processes(entry: LayoutResult) -> int:
    return sum(sample.kind == "time" for sample in entry.samples)
