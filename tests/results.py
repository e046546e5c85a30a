# SPDX-License-Identifier: BSD-3-Clause
"""A fabricated result: every number in it is chosen, so that reports can be compared exactly."""

from __future__ import annotations

from cachebench.analyze.figures import Evidence, figures
from cachebench.analyze.ratios import with_ratios
from cachebench.model import (
    Arena,
    Count,
    Experiment,
    Figure,
    LayoutResult,
    Region,
    Result,
    Sample,
    TableStats,
)

TABLE = TableStats(
    entries=1000,
    buckets=131,
    load=0.954,
    primary_share=0.826,
    displaced=40,
    probes_per_lookup=1.174,
    key_compares_per_lookup=1.0002,
    false_hits_per_lookup=0.0002,
)
NO_PMU = "<not supported>: no PMU visible (virtual machine?)"


def region(ns: float, lookups: int = 1_000_000) -> Region:
    """A region of ``ns`` CPU time a lookup, 10 % more wall time and 2 ticks a ns."""
    cpu = round(ns * lookups)
    return Region(
        lookups=lookups,
        hits=lookups,
        cpu_ns=cpu,
        wall_ns=round(1.1 * cpu),
        tsc=2 * round(1.1 * cpu),
        minor_faults=0,
        major_faults=0,
        voluntary_switches=0,
        involuntary_switches=1,
    )


def sample(process: int, *ns: float, **more: object) -> Sample:
    """A process that measured these regions."""
    fields: dict[str, object] = {
        "process": process,
        "order": process,
        "kind": "time",
        "seed": process,
        "prefetch": 1,
        "fill_ns": 100_000,
        "regions": tuple(map(region, ns)),
        "arenas": (
            Arena(name="session", bytes=4_194_304, resident=4_194_304, huge=4_194_304),
            Arena(name="free_list", bytes=4096, resident=4096, huge=0),
        ),
        "table": TABLE,
        "latency": ((1000, 1010, 19_800), (2000, 2020, 170), (9000, 9100, 30)),
        "checksum": "00000000000000aa" if process == 0 else None,
    }
    return Sample(**(fields | more))  # type: ignore[arg-type]


def counted(*counts: Count, **more: object) -> Sample:
    """A counter process over one region of a million lookups."""
    return sample(9, 50.0, kind="counters", group="core", counts=counts, latency=(), **more)


def count(role: str, value: float, empty: float = 0.0) -> Count:
    return Count(event=role, role=role, value=value, empty=empty, percent_running=100.0, note="")


def layout(name: str, samples: tuple[Sample, ...]) -> LayoutResult:
    unavailable = dict.fromkeys(
        (
            "cycles",
            "instructions",
            "ipc",
            "backend_stall_share",
            "cache_misses",
            "l1d_misses",
            "llc_misses",
            "dtlb_walks",
            "branches",
            "branch_misses",
        ),
        NO_PMU,
    )
    return LayoutResult(
        layout=name,
        header_sha256="0" * 64,
        mode="bulk",
        sessions=1000,
        prefetch=1,
        route="builtin",
        checksum="00000000000000aa",
        figures=figures(
            Evidence(
                Experiment(layouts=(name,), sessions=1000),
                samples,
                computed={"bytes_per_session": Figure(value=236.5, unit="B", source="computed")},
                unavailable=unavailable,
            )
        ),
        table=TABLE,
        samples=samples,
    )


def result(*names: str) -> Result:
    """A result of these layouts, the second 20 % slower than the first and so on."""
    entries = tuple(
        layout(name, (sample(0, f * 50, f * 52, f * 51), sample(1, f * 53, f * 55, f * 54)))
        for name, f in zip(names, (1.0, 1.2, 1.44), strict=False)
    )
    return Result(
        schema="cachebench.run/1",
        spec=Experiment(layouts=names, sessions=1000, processes=2, regions=3),
        environment={"machine": {"value": "x86_64", "reason": None}},
        results=with_ratios(entries),
    )
