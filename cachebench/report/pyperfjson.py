# SPDX-License-Identifier: BSD-3-Clause
"""A result as pyperf's JSON, for ``pyperf stats`` and ``pyperf compare_to``."""

from __future__ import annotations

import io

import pyperf

from cachebench.errors import CachebenchError
from cachebench.model import LayoutResult, Result


def render(result: Result) -> str:
    """One benchmark for each layout; each process is a run, each region a value.

    Values are seconds of thread CPU time per lookup. The name of a benchmark is
    the point, and the layout too if there are several: ``compare_to`` compares
    benchmarks of one name, so that two files of one layout each compare layouts.
    """
    several = len(result.results) > 1
    try:
        benchmarks = [_benchmark(result, entry, several) for entry in result.results]
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise CachebenchError(f"pyperf cannot hold this result: {error}") from None
    if not benchmarks:
        raise CachebenchError("the result has no layout to export")
    out = io.StringIO()
    pyperf.BenchmarkSuite(benchmarks).dump(out)
    return out.getvalue()


def _benchmark(result: Result, entry: LayoutResult, several: bool) -> pyperf.Benchmark:
    name = f"{entry.mode} {entry.sessions} sessions {result.spec.pages}"
    if several:
        name = f"{entry.layout} {name}"
    metadata = {
        "name": name,
        "unit": "second",
        "layout": entry.layout,
        "mode": entry.mode,
        "sessions": entry.sessions,
        "pages": result.spec.pages,
        "heap": result.spec.heap,
        "burst": result.spec.burst,
        "session_prefetch": entry.prefetch,
        "checksum": str(entry.checksum),
        "timer": "thread CPU time",
    }
    runs = [
        pyperf.Run(
            [region.cpu_ns / region.lookups * 1e-9 for region in sample.regions],
            metadata=metadata | {"loops": sample.regions[0].lookups},
            collect_metadata=False,
        )
        for sample in entry.samples
        if sample.kind == "time"
    ]
    return pyperf.Benchmark(runs)
