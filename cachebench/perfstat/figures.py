# SPDX-License-Identifier: BSD-3-Clause
"""What a group counted, by role: the step between perf's rows and figures."""

from __future__ import annotations

from dataclasses import dataclass

from cachebench.perfstat.events import Group, Role
from cachebench.perfstat.report import Count, Refusal, Report, lookup


@dataclass(frozen=True)
class Reading:
    """One role of a group: a value, or the reason why there is none; never both, never neither.

    ``value`` is the number of events while the region was enabled (``task_clock``:
    milliseconds). ``events`` are perf's names, ``note`` what they count here.
    """

    role: Role
    value: float | None
    reason: str | None
    events: tuple[str, ...]
    note: str
    percent_running: float | None = None
    """The least of its events, in percent; None where perf prints none."""


def read_group(group: Group, report: Report) -> tuple[Reading, ...]:
    """The readings of ``group``, in its order. Events of one role are added; if one of them
    has no count, the sum has none."""
    roles = list(dict.fromkeys(event.role for event in group.events))
    return tuple(_reading(role, group, report) for role in roles)


def _reading(role: Role, group: Group, report: Report) -> Reading:
    events = [event for event in group.events if event.role == role]
    names = tuple(event.perf_name for event in events)
    note = "; ".join(event.note for event in events)
    total = 0.0
    percents: list[float] = []
    for name in names:
        found = lookup(report, name)
        if isinstance(found, Refusal):
            return Reading(role, None, f"{name}: {found.reason}", names, note)
        assert isinstance(found, Count)
        total += found.value
        if found.percent_running is not None:
            percents.append(found.percent_running)
    return Reading(role, total, None, names, note, min(percents, default=None))
