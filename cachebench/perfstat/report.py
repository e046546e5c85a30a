# SPDX-License-Identifier: BSD-3-Clause
"""What a ``perf stat`` output says: counts that may be used, and the rest with reasons.

One rule decides for every form of output (:func:`judge`): a row is a count only
if its value is a number, it ran for more than 0 ns and it ran for all of the
time it was enabled. perf prints 100.00 as the percentage of a row that was never
enabled, so the percentage alone proves nothing; and below 100 % perf has scaled
the value, so that it is an estimate. The human form prints no run time, and a
percentage only below 100, so there the absence of one is taken as 100 %.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Form = Literal["json", "csv", "human", "none"]
Kind = Literal[
    "not-supported",  # the CPU, the kernel or the virtual machine has no such counter
    "not-counted",  # never enabled, or never given a counter
    "multiplexed",  # shared its counter; the value is scaled, thus an estimate
    "malformed",  # cut off, garbled, or readable in more than one way
    "implausible",  # a zero that cannot be true
    "metric",  # a derived figure without a count behind it
    "message",  # an error message of perf
    "died",  # the measured program was ended by a signal
    "missing",  # perf printed no row for the event
    "empty",  # nothing there
    "not-perf",  # text that is no output of perf stat
]

LEAST_PERCENT = 99.995
"""Rounds to 100.00, the most that perf prints: two decimals."""

NOT_SUPPORTED = "<not supported>"
NOT_COUNTED = "<not counted>"

_PLAIN_NUMBER = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,12})?")
_ZERO_TOOLS = frozenset({"duration_time", "user_time", "system_time"})
_NEVER_ZERO = frozenset({"cycles", "cpu-cycles", "instructions", "ref-cycles", "slots"})


@dataclass(frozen=True)
class Scope:
    """What a row is about, where it is not the whole run; None means "not split by this".

    ``interval_s`` is the end of a ``-I`` interval in seconds since the start;
    ``core`` the identifier of a core, die, socket or node (``S0-D0-C0``), summed
    over ``aggregated`` CPUs; ``thread`` is ``name-tid``.
    """

    interval_s: float | None = None
    cpu: str | None = None
    core: str | None = None
    aggregated: int | None = None
    thread: str | None = None
    cgroup: str | None = None


WHOLE = Scope()


@dataclass(frozen=True)
class Count:
    """A row that really counted.

    ``unit`` is empty for plain numbers of events. ``runtime_ns`` and
    ``percent_running`` are None where the form does not print them (human).
    With ``-r``, ``value`` is the mean over the runs, rounded as perf printed it,
    ``runtime_ns`` is that of one run, and ``error_percent`` is the standard error
    of the mean in percent (the key that perf's JSON calls ``variance``).
    """

    event: str
    value: float
    unit: str
    runtime_ns: int | None
    percent_running: float | None
    error_percent: float | None
    scope: Scope
    line_number: int


@dataclass(frozen=True)
class Refusal:
    """A line that gave no count; ``reason`` is for people, ``kind`` for programs."""

    line_number: int
    event: str | None
    line: str
    reason: str
    kind: Kind


@dataclass(frozen=True)
class Report:
    """Everything that was read from one output. Never both tuples empty."""

    form: Form
    counts: tuple[Count, ...]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True)
class Row:
    """One row as a reader understood it, before it is judged.

    ``value`` is a plain number with a decimal point, or one of perf's two words.
    """

    line_number: int
    line: str
    event: str
    value: str
    unit: str = ""
    runtime_ns: int | None = None
    percent: float | None = None
    error_percent: float | None = None
    scope: Scope = WHOLE

    def refuse(self, kind: Kind, reason: str) -> Refusal:
        return Refusal(self.line_number, self.event, self.line, reason, kind)


def judge(row: Row) -> Count | Refusal:
    """The rule of this module, for one row."""
    if row.value == NOT_SUPPORTED:
        return row.refuse("not-supported", "perf says <not supported>: no such counter here")
    if row.value == NOT_COUNTED:
        return row.refuse(
            "not-counted", "perf says <not counted>: never enabled, or never given a counter"
        )
    if "<not" in row.line:
        return row.refuse("malformed", "the line holds perf's <not ...> beside a value")
    if not _PLAIN_NUMBER.fullmatch(row.value):
        return row.refuse("malformed", f"the value {row.value[:40]!r} is no number")
    value = float(row.value)
    if row.runtime_ns is not None and row.runtime_ns <= 0:
        return row.refuse("not-counted", "it ran for 0 ns: the value counts nothing")
    if row.percent is not None:
        if row.percent > 100.005:
            return row.refuse("malformed", f"it ran {row.percent} % of the time")
        if row.percent < LEAST_PERCENT:
            return row.refuse(
                "multiplexed",
                f"it had a counter {row.percent:.2f} % of the time: perf scaled the value",
            )
    if value == 0.0 and _cannot_be_zero(row):
        return row.refuse("implausible", "0 cannot be true for this event: it was not really read")
    return Count(
        row.event,
        value,
        row.unit,
        row.runtime_ns,
        row.percent,
        row.error_percent,
        row.scope,
        row.line_number,
    )


def _cannot_be_zero(row: Row) -> bool:
    """Tool events read 0 in perf 7.2; some virtual PMUs read 0 throughout."""
    name = canonical(row.event)
    if name.base in _ZERO_TOOLS:
        return True
    return row.scope == WHOLE and name.base in _NEVER_ZERO and name.modifiers in ("", "u")


@dataclass(frozen=True)
class EventName:
    """An event name taken apart: ``cpu_core/cycles/u``, ``cycles:u``, ``cycles [cpu]``."""

    pmu: str
    base: str
    modifiers: str


def canonical(event: str) -> EventName:
    """The parts of an event name, so that two spellings of one event compare equal."""
    text = event.strip().lower()
    pmu = ""
    if text.endswith("]") and " [" in text:
        text = text[: text.rindex(" [")].strip()
    parts = text.split("/")
    if len(parts) == 3:
        pmu, text, modifiers = parts
        modifiers = modifiers.removeprefix(":")
    else:
        text, _, modifiers = text.partition(":")
    if pmu == "cpu":
        pmu = ""
    return EventName(pmu, text, "".join(sorted(modifiers)))


def lookup(report: Report, event: str) -> Count | Refusal:
    """The count of ``event`` over the whole run, or why there is none.

    Rows of single CPUs, cores, threads or intervals are not looked at. Modifiers
    must agree: ``cycles`` is no answer to ``cycles:u``. Two counts of one event
    are ambiguous, hence refused.
    """
    wanted = canonical(event)
    found = [c for c in report.counts if c.scope == WHOLE and canonical(c.event) == wanted]
    refused = [r for r in report.refused if r.event is not None and canonical(r.event) == wanted]
    if len(found) == 1 and not refused:
        return found[0]
    if found:
        number = len(found) + len(refused)
        return Refusal(
            found[0].line_number, event, "", f"{number} rows for this event", "malformed"
        )
    if refused:
        return refused[0]
    for refusal in report.refused:
        if refusal.event is None and refusal.kind != "metric":
            return Refusal(refusal.line_number, event, refusal.line, refusal.reason, refusal.kind)
    return Refusal(0, event, "", "perf printed no row for this event", "missing")
