# SPDX-License-Identifier: BSD-3-Clause
"""The machine card: what this machine's memory can do, as records.

A leaf like cachebench.model: it imports nothing of cachebench.
"""

from __future__ import annotations

from typing import Literal

import msgspec

CARD_SCHEMA = "cachebench.machine/1"

IN_FLIGHT = (1, 2, 4, 8, 16, 32)
"""Chains that are followed at once: the core has a loop for each of these."""

CardPages = Literal["4k", "thp", "2m", "1g"]


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Time of a load that depends on the one before it, in a working set."""

    bytes: int
    ns: float
    """CPU time, measured: the median over processes."""
    low: float
    high: float
    """The smallest and the largest of them."""


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Time per random line of a working set with a number of loads under way at once."""

    bytes: int
    in_flight: int
    ns: float
    low: float
    high: float


class PageCard(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured in pages of one size. Both tuples ascend by bytes."""

    pages: CardPages
    huge_share: float
    """Of the memory that was measured, what is in huge pages."""
    latency: tuple[Latency, ...]
    throughput: tuple[Throughput, ...]


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """Working sets that were not measured: all of ``pages`` from ``bytes`` on, and why."""

    pages: CardPages
    bytes: int
    reason: str


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """A cache of the CPU that holds data, as /sys advertises it."""

    name: str
    """``L1d``, ``L2``, ``L3``."""
    bytes: int


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """Where latency rises: a working set of ``bytes`` is still on the lower level."""

    pages: CardPages
    bytes: int
    until: int
    """The working set at which this rise ends."""
    ns: float
    until_ns: float
    name: str
    """The cache that ends here, ``TLB reach``, or ``unexplained``."""


class Benefit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an advertised cache shows in the curve of one page size."""

    pages: CardPages
    cache: str
    seen: bool | None
    """None where the working sets do not reach past the cache."""
    text: str


class CardKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a card holds for; another machine, kernel or page setting needs a new one."""

    cpu: str
    kernel: str
    pages: str


class MachineCard(msgspec.Struct, frozen=True, kw_only=True):
    """The document, schema ``cachebench.machine/1``."""

    schema: Literal["cachebench.machine/1"]
    key: CardKey
    created: str
    """UTC, ISO 8601."""
    cpu: int
    """The CPU that the workers were pinned to."""
    processes: int
    region_ms: float
    """Thread CPU time that each timed region lasts at least."""
    seconds: float
    """Wall time of the whole measurement."""
    caches: tuple[Cache, ...]
    pages: tuple[PageCard, ...]
    skipped: tuple[Skipped, ...] = ()
    knees: tuple[Knee, ...] = ()
    benefits: tuple[Benefit, ...] = ()


class CardPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker process is told to do: all working sets in one page size."""

    pages: CardPages
    latency: tuple[int, ...]
    """Working sets in bytes, ascending."""
    throughput: tuple[int, ...]
    """Of these, the ones whose lines in flight are measured as well."""
    region_ms: float
    regions: int
    cpu: int
    node: int | None
    seed: int


class CardSample(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker process measured, in the order of its plan."""

    huge_share: float
    latency: tuple[float, ...]
    """ns per dependent load."""
    throughput: tuple[tuple[float, ...], ...]
    """ns per line: for each working set one value for each of IN_FLIGHT."""
