# SPDX-License-Identifier: BSD-3-Clause
"""Memory that a run takes, computed before any of it is allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cachebench import core, stream
from cachebench.core import Pointer
from cachebench.errors import CachebenchError
from cachebench.machine.environment import collect, value
from cachebench.model import Experiment, Figure

PROCESS_BYTES = 64 << 20
"""The worker's interpreter and the proof's buffers, rounded up."""
PROFILE_BYTES = 2 * 8
"""The values of a profile, in the arm and in the reference before it."""
USABLE = 0.9
"""Share of the available memory that a layout may take."""


HUGE_PAGES = {
    "2m": (1 << 21, "sysctl -w vm.nr_hugepages={}"),
    "1g": (
        1 << 30,
        "echo {} > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
    ),
}


@dataclass(frozen=True)
class Footprint:
    """Bytes of one arm, by what they are for; ``total`` adds the process around it."""

    sessions: int
    table: int
    state: int
    shared: int
    free_lists: int
    huge: int
    """In pages of the size that was asked for; the free lists are in ordinary ones."""
    total: int

    @property
    def growing(self) -> int:
        """What grows with the number of sessions."""
        return self.table + self.state + self.free_lists

    def per_session(self, part: int) -> float:
        return part / self.sessions


def footprint(ops: Pointer, experiment: Experiment) -> Footprint:
    """The arm of a kernel at the experiment's size."""
    computed = core.footprint(ops, experiment)
    return Footprint(
        sessions=experiment.sessions,
        table=computed.table,
        state=computed.sessions,
        shared=computed.shared,
        free_lists=computed.free_lists,
        huge=computed.mapped - computed.free_lists_mapped,
        total=computed.mapped
        + core.footprint(ops, stream.small(experiment)).mapped
        + _traffic(experiment)
        + PROFILE_BYTES * experiment.profiles
        + PROCESS_BYTES,
    )


def _traffic(experiment: Experiment) -> int:
    """Packets of one region, and what they are drawn from."""
    size = core.traffic_bytes(experiment)
    size += stream.bytes_of_longest(experiment)
    if experiment.capture is not None:
        size += stream.capture_bytes(experiment.capture)
    return size


def figures(size: Footprint) -> dict[str, Figure]:
    """Bytes per session: all that grows with the number of sessions."""
    parts = {
        "bytes_per_session": size.growing,
        "table_bytes_per_session": size.table,
        "state_bytes_per_session": size.state,
    }
    return {
        name: Figure(value=size.per_session(part), unit="B", source="computed")
        for name, part in parts.items()
    }


def check(arms: Sequence[tuple[str, Footprint]], experiment: Experiment) -> None:
    """Raises CachebenchError if a layout needs more memory than there is.

    Layouts run one after the other, so each needs only its own.
    """
    facts = collect()
    _check_pages(arms, experiment, facts)
    available = _least(facts, "memory_available_bytes", "memory_limit_bytes")
    for name, size in arms:
        # Available memory does not count what is set aside for huge pages.
        needed = size.total - (size.huge if experiment.pages in HUGE_PAGES else 0)
        if available is not None and needed > USABLE * available:
            fixed = needed - size.growing
            most = int(experiment.sessions * (USABLE * available - fixed) / size.growing)
            raise CachebenchError(
                f"layout {name} needs {megabytes(needed)} for {experiment.sessions} sessions and "
                f"{megabytes(int(USABLE * available))} may be used; "
                f"type --sessions {max(most // 1000, 1)}k"
            )


def describe(name: str, size: Footprint, experiment: Experiment) -> str:
    """What a layout will take, in one line."""
    return (
        f"{name}: {megabytes(size.total)} for {experiment.sessions:,} sessions (computed: "
        f"{size.per_session(size.table):.1f} B table, {size.per_session(size.state):.1f} B state, "
        f"{size.per_session(size.free_lists):.1f} B free lists a session, "
        f"and {megabytes(size.total - size.growing)} for packets, rules, whole pages and the "
        "process)"
    )


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _check_pages(
    arms: Sequence[tuple[str, Footprint]], experiment: Experiment, facts: Mapping[str, object]
) -> None:
    """Raises CachebenchError if pages of the size asked for cannot be had."""
    if experiment.pages == "thp" and value(facts, "thp") == "never":
        raise CachebenchError(
            "--pages thp: transparent huge pages are off; type "
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or --pages 4k"
        )
    if experiment.pages not in HUGE_PAGES:
        return
    page, setting = HUGE_PAGES[experiment.pages]
    free = 0
    for pool in value(facts, "huge_pages") or ():
        if pool["page_bytes"] == page:
            free = pool["free"]
    for name, size in arms:
        needed = -(-size.huge // page)
        if needed > free:
            raise CachebenchError(
                f"--pages {experiment.pages}: layout {name} needs {needed} pages and {free} are "
                f"free; type {setting.format(needed)}"
            )


def _least(facts: Mapping[str, object], *names: str) -> int | None:
    """The smallest of the facts that the kernel tells."""
    found = [value(facts, name) for name in names]
    return min((each for each in found if isinstance(each, int)), default=None)
