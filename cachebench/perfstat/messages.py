# SPDX-License-Identifier: BSD-3-Clause
"""Lines that perf prints beside its rows: errors, notices and headings.

Texts are those of perf 5.10, 6.1, 6.12 and 7.2 in the C locale.
"""

from __future__ import annotations

import re

from cachebench.perfstat.report import Refusal

_SYNTAX = re.compile(r"event syntax error: '(?P<what>.*?)'?\s*$")
_EVENT_NOT_SUPPORTED = re.compile(r"The (?P<event>\S+) event is not supported\.?\s*$")
_SIGNAL = re.compile(
    r"\S.{0,200}: (?P<signal>Segmentation fault|Aborted|Killed|Bus error|Illegal instruction"
    r"|Floating point exception|Terminated|Interrupt|Hangup|Quit|Trace/breakpoint trap"
    r"|Bad system call|Broken pipe)(?: \(core dumped\))?\s*$"
)
_OTHER_ERRORS = (
    ("requires system-wide mode", "perf refused its options"),
    ("No permission to enable", "perf was not permitted to count"),
    ("Access to performance monitoring and observability", "perf was not permitted to count"),
    ("You may not have permission", "perf was not permitted to count"),
    ("WARNING: perf not found for kernel", "there is no perf for this kernel"),
    ("unknown switch", "this perf does not know one of its options"),
    ("unknown option", "this perf does not know one of its options"),
    ("Workload failed:", "perf could not start the program"),
    ("The sys_perf_event_open() syscall", "the kernel refused to count"),
)
_NOTICES = (
    "Events enabled",
    "Events disabled",
    "Event enabled",
    "Event disabled",
    "Some events weren't counted",
)


def as_refusal(line_number: int, line: str) -> Refusal | None:
    """The refusal for an error message of perf; None where the line is none."""
    text = line.strip()
    if match := _SYNTAX.match(text):
        reason = f"perf does not know the event: {match['what']}"
        return Refusal(line_number, None, line, reason, "message")
    if match := _EVENT_NOT_SUPPORTED.match(text):
        reason = "perf says the event is not supported"
        return Refusal(line_number, match["event"], line, reason, "not-supported")
    if text.startswith("No supported events found"):
        reason = "perf found none of the events supported here"
        return Refusal(line_number, None, line, reason, "not-supported")
    for words, reason in _OTHER_ERRORS:
        if words in text:
            return Refusal(line_number, None, line, f"{reason}: {text[:200]}", "message")
    if match := _SIGNAL.match(text):
        reason = f"the measured program was ended by a signal: {match['signal']}"
        return Refusal(line_number, None, line, reason, "died")
    return None


def is_notice(line: str) -> bool:
    """Whether the line is blank, a comment, or a notice that says nothing of a count."""
    text = line.strip()
    return not text or text.startswith("#") or text.startswith(_NOTICES)
