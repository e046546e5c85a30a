# SPDX-License-Identifier: BSD-3-Clause
"""Reading any output of ``perf stat``, perf 4 to 7.2."""

from __future__ import annotations

from collections.abc import Sequence

from cachebench.perfstat import csvform, human, jsonform, messages
from cachebench.perfstat.report import Count, Form, Refusal, Report


def parse(text: str) -> Report:
    """The counts of ``text`` that may be used, and every other line with its reason.

    The form (JSON, CSV with any separator of up to three signs, human) is found
    from the text. A text that is no output of perf gives a report with one
    refusal. No text makes this raise. Derived metrics are not counts; where they
    accompany a row they are passed over in silence.
    """
    lines = text.split("\n")
    if jsonform.looks_like(lines):
        return _report("json", text, *jsonform.read(lines))
    separator = csvform.find_separator(lines)
    if separator is not None:
        return _report("csv", text, *csvform.read(lines, separator))
    if human.looks_like(lines):
        return _report("human", text, *human.read(lines))
    return _report("none", text, [], _messages(lines))


def _messages(lines: Sequence[str]) -> list[Refusal]:
    found = (messages.as_refusal(number, line) for number, line in enumerate(lines, 1))
    return [refusal for refusal in found if refusal is not None]


def _report(form: Form, text: str, counts: list[Count], refused: list[Refusal]) -> Report:
    if not counts and not refused:
        for number, line in enumerate(text.split("\n"), 1):
            if not messages.is_notice(line):
                reason = "this is no output of perf stat"
                refused = [Refusal(number, None, line[:200], reason, "not-perf")]
                break
        else:
            refused = [Refusal(1, None, "", "there is nothing in this output", "empty")]
    return Report(form, tuple(counts), tuple(sorted(refused, key=lambda r: r.line_number)))
