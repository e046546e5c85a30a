# SPDX-License-Identifier: BSD-3-Clause
"""What is asked, what was sampled, what was found: the records that all parts share.

A leaf: it imports other records alone, and both sides import it, the one that
runs processes and the one that analyses numbers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from cachebench.cardmodel import MachineCard
from cachebench.checkmodel import Callgrind, Lackey
from cachebench.tracemodel import Curve, Geometry, Object, Simulation, TraceSample

SCHEMA = "cachebench.run/1"

Mode = Literal["bulk", "single", "serial"]
Pages = Literal["4k", "thp", "2m", "1g"]
Heap = Literal["fresh", "shuffled", "aged"]
Source = Literal["measured", "simulated", "estimated", "computed"]

MODES: tuple[Mode, ...] = ("bulk", "single", "serial")
PAGES: tuple[Pages, ...] = ("4k", "thp", "2m", "1g")
HEAPS: tuple[Heap, ...] = ("fresh", "shuffled", "aged")
STAGES = ("hash", "bucket", "key", "session")


Positive = Annotated[int, msgspec.Meta(ge=1)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Identifier = Annotated[str, msgspec.Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]+$")]


class Popularity(msgspec.Struct, frozen=True, kw_only=True):
    """Which session the next packet belongs to."""

    kind: Literal["uniform", "zipf", "campus", "capture"] = "uniform"
    exponent: float | None = None
    """Of ``zipf``: rank r has a probability proportional to r to the minus this."""


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """A capture file that gives the flows and the order of the packets."""

    path: str
    sha256: str
    clones: int
    packets: int
    keyed: int
    flows: int
    ipv6_flows: int
    fault: str | None = None
    """Why reading stopped before the end of the file; what came before is used."""


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """One point: everything that decides what is run, for one or more layouts."""

    layouts: tuple[str, ...]
    """As typed: names of built-in layouts or paths of headers."""
    sessions: int = 1_000_000
    mode: Mode = "bulk"
    burst: int = 32
    session_prefetch: int = 2
    """Prefetch steps at most; a layout that can name fewer uses fewer."""
    pages: Pages = "thp"
    heap: Heap = "shuffled"
    popularity: Popularity = Popularity()
    capture: Capture | None = None
    hit_ratio: float = 1.0
    max_load: float = 0.96
    profiles: int = 256
    rules: int = 4096
    key_size: int = 16
    seed: int = 1
    processes: int = 5
    """Processes that measure time; each counter group has one more."""
    regions: int = 10
    """Timed regions in each of them."""
    region_ms: float = 15.0
    """Thread CPU time that each region lasts at least."""
    cpu: int | None = None
    node: int | None = None
    stages: bool = False
    counters: bool = True
    simulate: bool = True
    """Whether the line trace, instructions by valgrind and the machine card are asked for."""
    march: str | None = None
    cflags: tuple[str, ...] = ()


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A value with its unit, its source and its 95 % interval over processes.

    ``value`` is None where there is none, and ``reason`` then says why. ``low``
    and ``high`` are None where fewer than two processes gave a value.
    """

    value: float | None
    unit: str
    source: Source
    low: float | None = None
    high: float | None = None
    reason: str | None = None


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """What was read around one timed region."""

    lookups: Natural
    hits: Natural
    cpu_ns: Natural
    wall_ns: Natural
    tsc: Natural
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int


class Arena(msgspec.Struct, frozen=True, kw_only=True):
    """One mapped array, and what /proc/PID/smaps says about it after the fill."""

    name: str
    bytes: int
    resident: int
    huge: int
    """Resident bytes that are in huge pages."""


class TableStats(msgspec.Struct, frozen=True, kw_only=True):
    """The table after the fill, and one stream of lookups counted through it."""

    entries: int
    buckets: int
    load: float
    primary_share: float
    displaced: int
    probes_per_lookup: float
    key_compares_per_lookup: float
    false_hits_per_lookup: float


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """One counter that perf stat read over the timed region of one process."""

    event: str
    role: str
    value: float
    empty: float
    """What the same counter read over a region without lookups."""
    percent_running: float | None
    """Share of the time enabled that the counter ran, as perf says it; None if it
    does not."""
    note: str
    """What the event counts on this CPU."""
    source: Source = "measured"


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """How a share follows from two counter roles on this CPU."""

    numerator: str
    denominator: str
    factor: int
    """share = numerator / (factor x denominator)"""
    text: str


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One process of one layout."""

    process: int
    order: int
    """How many processes had run before it in this experiment."""
    kind: Literal["time", "counters"]
    seed: int
    prefetch: int
    """Prefetch steps that the lookups used."""
    fill_ns: int
    regions: tuple[Region, ...]
    arenas: tuple[Arena, ...]
    table: TableStats
    latency: tuple[tuple[int, int, int], ...] = ()
    """Histogram of the time of a burst: first tick, first tick after, count."""
    small: tuple[Region, ...] = ()
    """Regions of a table of the same load that is small enough for the caches."""
    small_sessions: int | None = None
    stages: dict[str, tuple[Region, ...]] = {}
    """Regions of the kernels that stop after a stage."""
    checksum: str | None = None
    reprofile_ns: int | None = None
    reprofile_objects: int | None = None
    peak_bytes: int = 0
    """Largest resident size of the process."""
    steal: float | None = None
    """Share of the pinned CPU's time that the hypervisor gave to others."""
    group: str | None = None
    counts: tuple[Count, ...] = ()
    backend_stalls: Share | None = None
    """How ``backend_stall_share`` follows from the counts, where it does."""


class Instructions(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions of lookups, counted by running them under valgrind."""

    per_lookup: float
    sessions: int
    """Of the table that was looked up; its load is the experiment's."""
    lookups: int
    tool: str
    """Name and version."""


class LayoutResult(msgspec.Struct, frozen=True, kw_only=True):
    """One layout at one point."""

    layout: Identifier
    header_sha256: Digest
    mode: Mode
    sessions: Positive
    prefetch: int
    route: Literal["builtin", "plugin"]
    checksum: Digest | None
    figures: dict[str, Figure]
    table: TableStats
    simulation: Simulation | None = None
    instructions: Instructions | None = None
    samples: Annotated[tuple[Sample, ...], msgspec.Meta(min_length=1)]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that gave no result, and why."""

    layout: str
    reason: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result document, schema ``cachebench.run/1``."""

    schema: Literal["cachebench.run/1"]
    spec: Experiment
    environment: dict[str, Any]
    results: tuple[LayoutResult, ...]
    failures: tuple[Failure, ...] = ()
    unavailable: dict[str, str] = {}
    """Counter roles that were not counted, and why; ``machine`` without a card."""
    machine: MachineCard | None = None
    """What the memory that the lookups ran in can do."""


class WorkerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker process is told to do."""

    experiment: Experiment
    layout: str
    plugin: str | None
    """Shared object of the kernel; None: the built-in one of that name."""
    stage_plugins: dict[str, str] = {}
    process: int
    order: int
    seed: int
    kind: Literal["time", "counters"]
    prove: bool
    cpu: int
    control: int = -1
    acknowledge: int = -1
    close: tuple[int, ...] = ()
    """Descriptors that the process inherits but must not hold."""
    empty: bool = False
    """Enable and disable the counters around nothing: what that costs them."""


class TracePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace worker is told to do."""

    experiment: Experiment
    layout: str
    fill: str | None
    """Shared object of the kernel that fills the table; None: the built-in one."""
    plugin: str
    """The trace build of the same kernel, which looks up."""
    geometry: Geometry
    lookups: int
    warm_up: int
    """Lookups through the simulated memory before those that are counted."""
    prefetch: bool = True
    """Whether software prefetches bring lines into the simulated caches."""
    curve_rate: float | None = None
    """Share of the lines that stack distances are recorded of; None: of none."""
    like_callgrind: bool = False
    """Whether the trace sees and counts what callgrind would: an access to two lines is
    one miss of a level at most, and the packets, control data and the lookups of a burst
    are in the caches too."""
    call: int | None = None
    """Lookups that are drawn at a time, up to 65,536; None: that many."""
    seed: int = 1


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of one layout, with what it was made of."""

    layout: str
    prefetch_steps: int
    """Steps of the layout's prefetch that the lookups used."""
    objects: tuple[Object, ...]
    """What ``sample`` tells of each lookup, by object, stage and member."""
    sample: TraceSample
    curve: Curve | None = None
    """What its stack distances tell, if they were asked for."""
    callgrind: Callgrind | None = None
    """Instructions, and misses by another simulator, where that was asked for."""
    lackey: Lackey | None = None
    """Accesses of the plain kernel, where that was asked for."""


class TraceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The trace document, schema ``cachebench.trace/1``."""

    schema: Literal["cachebench.trace/1"]
    spec: Experiment
    geometry: Geometry
    lookups: int
    warm_up: int
    prefetch: bool
    curve_rate: float | None
    results: tuple[Traced, ...]
