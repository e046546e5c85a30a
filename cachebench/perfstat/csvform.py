# SPDX-License-Identifier: BSD-3-Clause
"""Reading ``perf stat -x SEPARATOR``.

Columns (no heading is printed, and the optional ones shift the others)::

    [interval] [cpu | core,number | thread] value unit event [cgroup] [error%] runtime percent ...

What follows the percentage is a derived metric and is not read. Three things
make the columns uncertain, and each has a rule that leaves one reading or none:

* Event names hold commas (``cpu/event=0x3c,umask=0x0/``): a name with an open
  slash goes on to the field that closes it.
* With a decimal comma and ``-x,`` a number takes two fields. perf prints whole
  numbers, or two decimals (six for clocks in old versions), a unit is never
  numeric, and the percentage always has two decimals; so ``115,99,msec`` and
  ``100,00`` can only be 115.99 ms and 100.00 %. Anything else is refused.
* The separator may be any text: it is found between run time and percentage.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cachebench.perfstat import messages
from cachebench.perfstat.report import (
    NOT_COUNTED,
    NOT_SUPPORTED,
    Count,
    Refusal,
    Row,
    Scope,
    judge,
)

_SEPARATOR = re.compile(
    r"(?P<sep>[^\w.\"'<>()#%+\-\r]{1,3})[0-9]{1,19}(?P=sep)[0-9]{1,3}[.,][0-9]{2}(?=(?P=sep)|\s*$)"
)
_BEGINNING = (
    r"\s*(?:<not (?:supported|counted)>|[0-9]+(?:[.,][0-9]+)?){sep}[^0-9{sep}]*{sep}[A-Za-z]"
)
_USUAL = (";", "|", "\t", ",")
_NAME_CHARACTERS = "/:-=@"
_MOST_SEPARATORS = 8

_WORDS = re.compile(r"<not (supported|counted)>")
_GLUED = re.compile(r"<not_(supported|counted)>")
_WHOLE = re.compile(r"[0-9]{1,20}")
_DECIMAL = re.compile(r"(?P<whole>[0-9]{1,20})[.,](?P<part>[0-9]{1,12})")
_TAIL = re.compile(r"[0-9]{2}|[0-9]{6}")
_RUNTIME = re.compile(r"[0-9]{1,19}")
_PERCENT = re.compile(r"(?P<whole>[0-9]{1,3})[.,](?P<part>[0-9]{2})")
_PERCENT_TAIL = re.compile(r"[0-9]{2}")
_ERROR = re.compile(r"(?P<whole>[0-9]{1,6})[.,](?P<part>[0-9]{2})%")
_ERROR_TAIL = re.compile(r"[0-9]{2}%")
_INTERVAL = re.compile(r"[0-9]{1,9}\.[0-9]{9}")
_CPU = re.compile(r"CPU([0-9]{1,6})")
_CORE = re.compile(r"[SND][0-9]{1,6}(?:-[A-Z]{1,4}[0-9]{1,6})*")
_THREAD = re.compile(r".+-[0-9]{1,10}")
_EVENT = re.compile(r"[A-Za-z_{].*")
_NUMERIC = re.compile(r"[0-9.,%]+")


@dataclass
class _Fields:
    """The fields of a line and how far they are read."""

    values: list[str]
    position: int = 0

    def peek(self, ahead: int = 0) -> str | None:
        index = self.position + ahead
        return self.values[index] if index < len(self.values) else None

    def matches(self, pattern: re.Pattern[str], ahead: int = 0) -> re.Match[str] | None:
        field = self.peek(ahead)
        return pattern.fullmatch(field) if field is not None else None


def find_separator(lines: Sequence[str]) -> str | None:
    """The separator of the rows; None where no line looks like a row."""
    found: Counter[str] = Counter()
    for line in lines:
        match = _SEPARATOR.search(line)
        if match is not None:
            found[match["sep"]] += 1
    best: tuple[int, int, str] | None = None
    for separator, _ in found.most_common(_MOST_SEPARATORS):
        if not separator.strip(" ") and len(separator) > 1:
            continue
        rows = sum(isinstance(_row(n, line, separator), Row) for n, line in enumerate(lines, 1))
        if rows and (best is None or (rows, len(separator)) > best[:2]):
            best = (rows, len(separator), separator)
    if best is not None:
        return best[2]
    for separator in _USUAL:
        pattern = re.compile(_BEGINNING.replace("{sep}", re.escape(separator)))
        if any(pattern.match(line) for line in lines):
            return separator
    return None


def read(lines: Sequence[str], separator: str) -> tuple[list[Count], list[Refusal]]:
    """All rows. Never raises."""
    counts: list[Count] = []
    refused: list[Refusal] = []
    after_event = False
    for number, line in enumerate(lines, 1):
        if messages.is_notice(line):
            continue
        message = messages.as_refusal(number, line)
        if message is not None:
            refused.append(message)
            continue
        if separator not in line:
            continue
        outcome = _row(number, line, separator)
        if isinstance(outcome, Row):
            judged = judge(outcome)
            if isinstance(judged, Count):
                counts.append(judged)
            else:
                refused.append(judged)
            after_event = True
        elif outcome is not None and not (after_event and _continues(outcome, separator)):
            refused.append(outcome)
    return counts, refused


def _split(line: str, separator: str) -> list[str]:
    """The fields; perf's two words hold a space, which may be the separator."""
    line = _WORDS.sub(r"<not_\1>", line.strip(" \r"))
    return [_GLUED.sub(r"<not \1>", field.strip()) for field in line.split(separator)]


def _continues(refusal: Refusal, separator: str) -> bool:
    """Whether a line is a further metric of the row before: a metric's name, no group's."""
    if refusal.kind != "metric" or refusal.event is not None:
        return False
    fields = _split(refusal.line, separator)
    return any(field and not _NUMERIC.fullmatch(field) for field in fields)


def _row(number: int, line: str, separator: str) -> Row | Refusal | None:
    """The row of a line; None where the line is no row at all (a program's own output)."""
    values = _split(line, separator)
    if len(values) < 2:
        return None
    fields = _Fields(values)
    scope = _scope(fields)
    value, unit = _value(fields, separator)
    if value is None:
        return _without_value(number, line, values, fields)
    event = _event(fields, separator)
    if event is None:
        if all(not field or _NUMERIC.fullmatch(field) for field in values):
            return _metric(number, line, None)
        return _malformed(number, line, None, "no event name where it should be")
    cgroup = _cgroup(fields, separator)
    error = _error(fields, separator)
    if not fields.matches(_RUNTIME):
        return _malformed(number, line, event, "cut off, or the columns cannot be told apart")
    runtime = int(fields.values[fields.position])
    fields.position += 1
    percent = _percent(fields, separator)
    if percent is None:
        return _malformed(number, line, event, "no percentage of time running after the run time")
    if scope.core is not None and scope.aggregated is None:
        return _malformed(number, line, event, "no number of CPUs after the core")
    place = Scope(scope.interval_s, scope.cpu, scope.core, scope.aggregated, scope.thread, cgroup)
    return Row(number, line, event, value, unit, runtime, percent, error, place)


def _scope(fields: _Fields) -> Scope:
    interval: float | None = None
    if match := fields.matches(_INTERVAL):
        interval = float(match[0])
        fields.position += 1
    elif fields.peek() == "summary":
        fields.position += 1
    if match := fields.matches(_CPU):
        fields.position += 1
        return Scope(interval, cpu=match[1])
    if match := fields.matches(_CORE):
        fields.position += 1
        number = fields.matches(_RUNTIME)
        if number is None:
            return Scope(interval, core=match[0])
        fields.position += 1
        return Scope(interval, core=match[0], aggregated=int(number[0]))
    if match := fields.matches(_THREAD):
        fields.position += 1
        return Scope(interval, thread=match[0])
    return Scope(interval)


def _value(fields: _Fields, separator: str) -> tuple[str | None, str]:
    """The value as a plain number (or perf's words) and its unit."""
    first = fields.peek()
    if first is None or first == "":
        return None, ""
    width = 1
    if first in (NOT_SUPPORTED, NOT_COUNTED):
        value = first
    elif decimal := _DECIMAL.fullmatch(first):
        value = f"{decimal['whole']}.{decimal['part']}"
    elif _WHOLE.fullmatch(first):
        value = first
        if separator.strip() == "," and (tail := fields.matches(_TAIL, 1)):
            value = f"{first}.{tail[0]}"
            width = 2
    else:
        return None, ""
    unit = fields.peek(width)
    if unit is None or unit[:1].isdigit():
        return value, ""
    fields.position += width + 1
    return value, unit


def _event(fields: _Fields, separator: str) -> str | None:
    match = fields.matches(_EVENT)
    if match is None:
        return None
    event = match[0]
    fields.position += 1
    while event.count("/") % 2 and separator != "/":
        more = fields.peek()
        if more is None:
            return None
        event += separator + more
        fields.position += 1
    return event


def _cgroup(fields: _Fields, separator: str) -> str | None:
    """A column of ``-G``: a name, hence never a number. Uncertain where the
    separator also stands in event names."""
    field = fields.peek()
    if not field or _NUMERIC.fullmatch(field) or separator.strip() in _NAME_CHARACTERS:
        return None
    if fields.matches(_RUNTIME, 1) is None and not (fields.peek(1) or "").endswith("%"):
        return None
    fields.position += 1
    return field


def _error(fields: _Fields, separator: str) -> float | None:
    if match := fields.matches(_ERROR):
        fields.position += 1
        return float(f"{match['whole']}.{match['part']}")
    if separator.strip() == "," and fields.matches(_WHOLE) and fields.matches(_ERROR_TAIL, 1):
        text = f"{fields.peek()}.{(fields.peek(1) or '')[:2]}"
        fields.position += 2
        return float(text)
    return None


def _percent(fields: _Fields, separator: str) -> float | None:
    if match := fields.matches(_PERCENT):
        return float(f"{match['whole']}.{match['part']}")
    whole = fields.matches(_WHOLE)
    if separator.strip() == "," and whole and fields.matches(_PERCENT_TAIL, 1):
        return float(f"{whole[0]}.{fields.peek(1)}")
    return None


def _without_value(number: int, line: str, values: list[str], fields: _Fields) -> Refusal | None:
    if "<not" in line:
        return _malformed(number, line, None, "a row that does not begin with its value")
    if fields.peek() == "":
        name = values[-1]
        header = bool(_EVENT.fullmatch(name)) and len(values) > 2 and values[-2] == ""
        return _metric(number, line, name if header else None)
    if _SEPARATOR.search(line):
        return _malformed(number, line, None, "a row that does not begin with its value")
    return None


def _metric(number: int, line: str, name: str | None) -> Refusal:
    return Refusal(number, name, line, "derived metrics only: no count in this row", "metric")


def _malformed(number: int, line: str, event: str | None, reason: str) -> Refusal:
    return Refusal(number, event, line, reason, "malformed")
