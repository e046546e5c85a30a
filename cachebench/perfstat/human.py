# SPDX-License-Identifier: BSD-3-Clause
"""Reading ``perf stat`` as printed for people, perf 3 to 7.2, in any locale.

::

    value [unit]  event   # metric metric-name   ( +- error% )  (percent%)
                          # second metric        ( +- error% )  (percent%)

Value and name stand in columns; a row's error and percentage stand after its last
metric, thus on a line of its own where there are two. The percentage is printed
only below 100 (``(83.43%)``, ``[83.43%]`` in old versions), the run time never.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from cachebench.perfstat import messages
from cachebench.perfstat.numerals import NUMBER, Numerals
from cachebench.perfstat.report import WHOLE, Count, Refusal, Row, Scope, canonical, judge

_HEADING = "Performance counter stats for"
_FOOTER = re.compile(r"seconds (?:time elapsed|user|sys)\b")
_TABLE_ROW = re.compile(r"\s*[0-9.,]+ \([+-][0-9.,]+\)")
_CONTINUED = re.compile(r"\s*#\s+[-+0-9.,nai]{1,20}\s*%?\s")
_METRIC_GROUP = re.compile(r"\s+(?P<name>[A-Za-z]\w*(?: \(\w+\))?)\s+#\s")
_INTERVAL = re.compile(r"\s*([0-9]{1,9}\.[0-9]{9})(?=\s)")
_CPU = re.compile(r"\s*CPU([0-9]{1,6})(?=\s)")
_CORE = re.compile(r"\s*([SND][0-9]{1,6}(?:-[A-Z]{1,4}[0-9]{1,6})*)\s+([0-9]{1,6})(?=\s)")
_THREAD = re.compile(r"\s*(\S(?:[^\n]{0,40}?\S)?-[0-9]{1,10})\s+(?=[0-9<])")
_ROW = re.compile(
    rf"\s*(?P<value><not supported>|<not counted>|{NUMBER})(?P<gap>\s+)(?P<rest>\S.*)$"
)
_NUMBER_WORD = re.compile(r"[0-9.,]+%?|%")
_PERCENT = re.compile(r"[(\[]\s*([0-9]{1,3})[.,]([0-9]{2})\s*%\s*[)\]]")
_ERROR = re.compile(r"\(\s*\+-\s*([0-9]{1,6})[.,]([0-9]{1,3})\s*%\s*\)")
_EVENT = re.compile(r"[A-Za-z_{][^\s()]*")
_SPECIAL = re.compile(r"[-_./:=0-9]")
_ONE_WORD = {"cycles", "instructions", "branches", "slots", "faults", "cs", "migrations"}
_CLOCKS = {"task-clock", "cpu-clock"}
# fmt: off
_WELL_KNOWN = {
    "cycles", "cpu-cycles", "ref-cycles", "instructions", "slots", "branches", "branch-misses",
    "cache-references", "cache-misses", "stalled-cycles-frontend", "stalled-cycles-backend",
    "task-clock", "cpu-clock", "page-faults", "minor-faults", "major-faults",
    "context-switches", "cpu-migrations", "duration_time",
}
_UNITS = {
    "msec", "ns", "us", "s", "sec", "Joules", "J", "W", "Watts", "V", "mV", "A", "mA",
    "Bytes", "bytes", "KB", "MB", "GB", "KiB", "MiB", "GiB", "'C", "rpm",
}
# fmt: on
_VALUE_COLUMN = 18
_TWO_LINES = {"instructions"}


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the text has perf's heading or last lines, or a row of a well-known event."""
    return any(_HEADING in line or _FOOTER.search(line) or _is_row(line) for line in lines)


def _is_row(line: str) -> bool:
    scope, start = _prefix(line)
    if _numbers_only(line[start:]):
        return scope.interval_s is not None
    row = _ROW.match(line, start)
    named = _name(_strip(row["rest"])) if row is not None else None
    return named is not None and canonical(named[1]).base in _WELL_KNOWN


def _numbers_only(text: str) -> bool:
    words = text.split()
    return bool(words) and all(_NUMBER_WORD.fullmatch(word) for word in words)


def read(lines: Sequence[str]) -> tuple[list[Count], list[Refusal]]:
    """All rows. Never raises."""
    headed = any(_HEADING in line for line in lines)
    reader = _Reader(Numerals.of("\n".join(lines)), headed)
    last = len(lines)
    for number, line in enumerate(lines, 1):
        reader.line(number, line.rstrip("\r"), number == last)
    reader.end()
    return reader.counts, reader.refused


class _Reader:
    """State between lines. In a text with a heading, rows stand between it and the time
    elapsed, so that a program's own output is not taken for rows."""

    def __init__(self, numerals: Numerals, headed: bool) -> None:
        self.numerals = numerals
        self.counts: list[Count] = []
        self.refused: list[Refusal] = []
        self.pending: Row | None = None
        self.headed = headed
        self.in_table = not headed

    def finish(self) -> None:
        """Judge the row whose continuation lines have ended."""
        if self.pending is not None:
            judged = judge(self.pending)
            if isinstance(judged, Count):
                self.counts.append(judged)
            else:
                self.refused.append(judged)
        self.pending = None

    def end(self) -> None:
        """The text ends: the second line of an ``instructions`` row may be missing."""
        pending = self.pending
        if pending is not None and canonical(pending.event).base in _TWO_LINES:
            self.pending = None
            reason = "the text ends before the row's second line, where its percentage stands"
            self.refuse(pending.line_number, pending.event, pending.line, reason)
        self.finish()

    def refuse(self, number: int, event: str | None, line: str, reason: str) -> None:
        self.finish()
        self.refused.append(Refusal(number, event, line, reason, "malformed"))

    def metric(self, number: int, name: str | None, line: str) -> None:
        self.finish()
        reason = "derived metrics only: no count in this row"
        self.refused.append(Refusal(number, name, line, reason, "metric"))

    def line(self, number: int, line: str, cut: bool) -> None:
        """One line; ``cut`` where no line end follows it."""
        if cut and not line:
            return
        beginning = cut and line.lstrip()[:1] in ("", "#")
        if self.pending is not None and (_CONTINUED.match(line) or beginning):
            self._continue(number, line, cut)
            return
        if _HEADING in line:
            self.finish()
            self.in_table = True
            return
        if _FOOTER.search(line):
            self.finish()
            self.in_table = not self.headed
            return
        if messages.is_notice(line) or _TABLE_ROW.match(line):
            self.finish()
            return
        message = messages.as_refusal(number, line)
        if message is not None:
            self.finish()
            self.refused.append(message)
            return
        group = _METRIC_GROUP.match(line)
        if group is not None:
            self.metric(number, group["name"], line)
            return
        self._row(number, line, cut)

    def _continue(self, number: int, line: str, cut: bool) -> None:
        assert self.pending is not None
        if cut or not _brackets_closed(line):
            event = self.pending.event
            self.pending = None
            self.refuse(number, event, line, "the row's second line is cut off")
            return
        percent, error = _percent(line), _error(line)
        pending = self.pending
        if percent is not None and (pending.percent is None or percent < pending.percent):
            pending = replace(pending, percent=percent)
        if error is not None:
            pending = replace(pending, error_percent=error)
        self.pending = pending

    def _row(self, number: int, line: str, cut: bool) -> None:
        self.finish()
        scope, start = _prefix(line)
        if _numbers_only(line[start:]):
            if self.in_table:
                self.metric(number, None, line)
            return
        row = _ROW.match(line, start)
        if row is None:
            if "<not" in line:
                self.refuse(number, None, line, "a row that does not begin with its value")
            return
        named = _name(_strip(row["rest"]))
        in_column = row.end("value") >= _VALUE_COLUMN
        timed = scope.interval_s is not None
        placed = timed or (self.in_table and (self.headed or scope != WHOLE or in_column))
        if named is None or not placed:
            if named is not None or "<not" in line or in_column:
                event = named[1] if named is not None else None
                self.refuse(number, event, line, "not in perf's table, or its name is uncertain")
            return
        unit, event = named
        if cut:
            self.refuse(number, event, line, "the text ends in this row, without a line end")
            return
        if not _brackets_closed(row["rest"]):
            self.refuse(number, event, line, "the row is cut off inside its brackets")
            return
        value: str | None = row["value"]
        if not row["value"].startswith("<"):
            value = self.numerals.plain(row["value"])
        if value is None:
            reason = f"{row['value']} can be read in more than one way in this locale"
            self.refuse(number, event, line, reason)
            return
        self.pending = Row(
            number,
            line,
            event,
            value,
            unit,
            None,
            _percent(row["rest"]),
            _error(row["rest"]),
            scope,
        )


def _prefix(line: str) -> tuple[Scope, int]:
    """What stands before the value with ``-I``, ``-A``, ``--per-core``, ``--per-thread``."""
    seconds: float | None = None
    start = 0
    if match := _INTERVAL.match(line):
        seconds = float(match[1])
        start = match.end()
    if match := _CPU.match(line, start):
        return Scope(seconds, cpu=match[1]), match.end()
    if match := _CORE.match(line, start):
        return Scope(seconds, core=match[1], aggregated=int(match[2])), match.end()
    if match := _THREAD.match(line, start):
        return Scope(seconds, thread=match[1]), match.end()
    return Scope(seconds), start


def _strip(rest: str) -> str:
    """The part of a row that holds unit and event."""
    return _PERCENT.sub("", _ERROR.sub("", rest.split("#", 1)[0])).strip()


def _name(text: str) -> tuple[str, str] | None:
    """Unit and event; None where the words are not certainly that."""
    words = text.split()
    unit = ""
    if len(words) > 1 and words[-1].startswith("[") and words[-1].endswith("]"):
        suffix = " " + words.pop()
    else:
        suffix = ""
    if len(words) == 2 and words[1] == "(msec)":
        unit = "msec"
        words.pop()
    elif len(words) == 2 and words[0] in _UNITS:
        unit = words.pop(0)
    if len(words) != 1 or not _EVENT.fullmatch(words[0]):
        return None
    event = words[0]
    if not _SPECIAL.search(event) and event.lower() not in _ONE_WORD:
        return None
    if event in _CLOCKS and not unit:
        unit = "msec"
    return unit, event + suffix


def _brackets_closed(text: str) -> bool:
    return text.count("(") == text.count(")") and text.count("[") == text.count("]")


def _percent(text: str) -> float | None:
    found = _PERCENT.findall(text)
    return float(f"{found[-1][0]}.{found[-1][1]}") if found else None


def _error(text: str) -> float | None:
    found = _ERROR.findall(text)
    return float(f"{found[-1][0]}.{found[-1][1]}") if found else None
