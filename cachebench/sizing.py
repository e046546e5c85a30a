"""Memory that a run takes, computed before any of it is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cachebench import core
from cachebench.core import Pointer
from cachebench.errors import CachebenchError
from cachebench.machine.environment import collect
from cachebench.model import Experiment, Figure

PROCESS_BYTES = 64 << 20
"""The worker's interpreter, its key streams and the proof's buffers, rounded up."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of one arm, by what they are for; ``total`` adds the process around it."""

    sessions: int
    table: int
    state: int
    shared: int
    free_lists: int
    total: int

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
        total=computed.mapped + core.traffic_bytes(experiment) + PROCESS_BYTES,
    )


def figures(size: Footprint) -> dict[str, Figure]:
    """Bytes per session: all that grows with the number of sessions."""
    parts = {
        "bytes_per_session": size.table + size.state + size.free_lists,
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
    available = _available()
    for name, size in arms:
        if available is not None and size.total > available:
            most = int(experiment.sessions * available / size.total)
            raise CachebenchError(
                f"layout {name} needs {megabytes(size.total)} for {experiment.sessions} sessions "
                f"and {megabytes(available)} are available; type --sessions {most // 1000 or 1}k"
            )


def describe(name: str, size: Footprint, experiment: Experiment) -> str:
    """What a layout will take, in one line."""
    return (
        f"{name}: {megabytes(size.total)} for {experiment.sessions:,} sessions (computed: "
        f"{size.per_session(size.table):.1f} B table, {size.per_session(size.state):.1f} B state, "
        f"{size.per_session(size.free_lists):.1f} B free lists a session)"
    )


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _available() -> int | None:
    """Bytes that can be had now; None if the kernel does not tell."""
    facts = collect(Path("/"))
    values = []
    for name in ("memory_available_bytes", "memory_limit_bytes"):
        entry = facts.get(name)
        if isinstance(entry, dict) and isinstance(entry.get("value"), int):
            values.append(int(entry["value"]))
    return min(values) if values else None
