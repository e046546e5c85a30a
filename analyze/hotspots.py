# SPDX-License-Identifier: BSD-3-Clause
"""Samples to shares of a lookup's time, and shares of two layouts to what one adds.

A CPU takes a timer's interrupt when an instruction has retired, and saves the
address of the next one. While it waits for memory, what is about to retire is the
load, so the address is that of the instruction behind it, wherever the program
goes from there. Such a sample belongs to the instruction before it in time, which
single steps tell. A pointer chase tells for each machine whether it is so.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cachebench.analyze.intervals import Interval, of_differences, of_shares, over_processes
from cachebench.model import Figure, Source
from cachebench.profilemodel import ProfileSample, Steps

Shares = Mapping[str, float]
"""Names of places, and the part of all samples that each has."""


@dataclass(frozen=True)
class Code:
    """What must be known of a kernel's instructions, all by their offsets."""

    before: Mapping[int, int]
    """The instruction in memory before one that can be reached from it so."""
    joined: frozenset[int] = frozenset()
    """Conditional jumps that execute as one with the comparison before them."""


@dataclass(frozen=True)
class Charged:
    """The samples of one process, as parts of all, after they were charged."""

    inside: Mapping[int, float]
    """By the offset of the instruction that took the time."""
    outside: Mapping[str, float]


@dataclass(frozen=True)
class Times:
    """Each process's time per lookup and its shares by name of place."""

    ns: tuple[float, ...]
    shares: tuple[Shares, ...]

    def names(self) -> tuple[str, ...]:
        """All places, the one with the most time first."""
        total: dict[str, float] = defaultdict(float)
        for shares in self.shares:
            for name, share in shares.items():
                total[name] += share
        return tuple(sorted(total, key=lambda name: (-total[name], name)))

    def share(self, name: str) -> Figure:
        parts = of_shares([shares.get(name, 0.0) for shares in self.shares])
        return _figure(parts, "share", "measured")

    def ns_of(self, name: str) -> Figure:
        value, low, high = of_differences(self._ns(name))
        # The interval of a time that is mostly 0 would begin below it.
        return _figure(Interval(value, None if low is None else max(0.0, low), high))

    def added(self, base: Times, name: str) -> Figure:
        """What this takes more than ``base`` at a place; process by process, since both
        have the same packets in each."""
        return _figure(of_differences(_minus(self._ns(name), base._ns(name))))

    def added_in_all(self, base: Times) -> Figure:
        return _figure(of_differences(_minus(self.ns, base.ns)), source="measured")

    def level(self) -> Figure:
        """The time of a whole lookup."""
        return _figure(over_processes(self.ns), source="measured")

    def _ns(self, name: str) -> list[float]:
        pairs = zip(self.ns, self.shares, strict=True)
        return [ns * shares.get(name, 0.0) for ns, shares in pairs]


@dataclass
class Neighbours:
    """Which instructions were seen to execute just before which."""

    into: dict[int, dict[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Steps | None) -> Neighbours:
        found = cls()
        for before, at, count in steps.order if steps is not None else ():
            found.into.setdefault(at, {})[before] = count
        return found


def charge(sample: ProfileSample, code: Code, seen: Neighbours, *, before: bool) -> Charged:
    """Each sample to the instruction that took its time.

    That is the one at its address, or else, if ``before``, the one that executed
    before it: where paths meet, in proportion to how often each was taken; where
    nothing was seen, the one before it in memory. Raises ValueError without samples.
    """
    total = sum(count for _, count in sample.inside) + sum(sample.outside.values())
    if total == 0:
        raise ValueError("no samples")
    inside: dict[int, float] = defaultdict(float)
    for at, count in sample.inside:
        for place, part in (_before(at, code, seen) if before else {at: 1.0}).items():
            inside[place] += part * count / total
    outside = {name: count / total for name, count in sample.outside.items()}
    return Charged(dict(inside), outside)


def _before(at: int, code: Code, seen: Neighbours) -> Mapping[int, float]:
    """Parts of a sample by the instructions that may have taken its time."""
    counts = seen.into.get(at) or {code.before.get(at, at): 1}
    whole = sum(counts.values())
    parts: dict[int, float] = defaultdict(float)
    for place, count in counts.items():
        parts[code.before[place] if place in code.joined else place] += count / whole
    return parts


def named(charged: Charged, name: Callable[[int], str | None], outside: str | None) -> Shares:
    """The shares by name. None leaves a place out; ``outside`` names what is in no kernel."""
    shares: dict[str, float] = defaultdict(float)
    for offset, share in charged.inside.items():
        if (text := name(offset)) is not None:
            shares[text] += share
    if outside is not None:
        for share in charged.outside.values():
            shares[outside] += share
    return dict(shares)


def lands(
    samples: Iterable[tuple[int, int]], loads: Callable[[int], bool], code: Code
) -> tuple[float, float]:
    """Of samples of a pointer chase, the parts that are at its load, and just behind it.

    Raises ValueError without samples.
    """
    at = behind = total = 0
    for offset, count in samples:
        total += count
        if loads(offset):
            at += count
        elif offset in code.before and loads(code.before[offset]):
            behind += count
    if total == 0:
        raise ValueError("no samples")
    return at / total, behind / total


def ns_per_lookup(regions: Sequence[tuple[int, int]]) -> float:
    """The median over regions of (lookups, CPU time in ns)."""
    return statistics.median(ns / lookups for lookups, ns in regions)


def _minus(head: Sequence[float], base: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(head, base, strict=True)]


def _figure(found: Interval, unit: str = "ns", source: Source = "estimated") -> Figure:
    value, low, high = found
    return Figure(value=value, low=low, high=high, unit=unit, source=source)
