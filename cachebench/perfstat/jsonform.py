# SPDX-License-Identifier: BSD-3-Clause
"""Reading ``perf stat -j``: one object a row, but not always valid JSON.

A JSON parser cannot be used, since perf itself prints (versions in brackets):
a trailing ``, }`` [6.13 development], a second metric without its ``{`` [6.2],
``100,00`` for a number in locales with a decimal comma [6.1 to 7.2], headings and
control notices between the objects. Objects wrapped over lines, and a run time
with the percentage glued to it, are from the changelog of kernel commit
df936cadfb58, which introduced the form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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

_PAIR = re.compile(
    r'\s*"(?P<key>[^"\\]{1,60})"\s*:\s*'
    r'(?:"(?P<string>(?:[^"\\]|\\.)*)"'
    r'|(?P<bare>-?[0-9]+(?:[.,][0-9]+)?|-?nan|-?inf)(?=\s*(?:,\s*["}]|\})))'
)
_COMMA = re.compile(r"\s*,")
_END = re.compile(r"\s*\}\s*$")
_VALUE = re.compile(r"(?P<whole>[0-9]{1,20})(?:\.(?P<point>[0-9]{1,12})|,(?P<comma>[0-9]{6}))?")
_PERCENT = re.compile(r"(?P<whole>[0-9]{1,3})[.,](?P<part>[0-9]{2})")
_RUNTIME = re.compile(r"[0-9]{1,19}")
_EVENT = re.compile(r'"event"\s*:\s*"([^"]+)"')
_COUNT_KEYS = ('"counter-value"', '"event"')
_MOST_LINES = 8


def looks_like(lines: Sequence[str]) -> bool:
    """Whether any line begins an object of perf."""
    return any(
        line.lstrip().startswith("{")
        and ('"counter-value"' in line or '"metric-value"' in line or '"event-runtime"' in line)
        for line in lines
    )


def read(lines: Sequence[str]) -> tuple[list[Count], list[Refusal]]:
    """All rows. Never raises."""
    counts: list[Count] = []
    refused: list[Refusal] = []
    after_event = False
    position = 0
    while position < len(lines):
        number, line = position + 1, lines[position].rstrip("\r")
        position += 1
        text = line.strip()
        if text.startswith("{"):
            whole, used = _gather(text, lines, position)
            position += used
            outcome = _row(number, whole)
            if isinstance(outcome, Row):
                judged = judge(outcome)
                if isinstance(judged, Count):
                    counts.append(judged)
                else:
                    refused.append(judged)
                after_event = True
            elif outcome.kind != "metric" or not after_event:
                refused.append(outcome)
        elif text.startswith('"metric-value"') and not any(key in text for key in _COUNT_KEYS):
            continue
        elif any(key in text for key in _COUNT_KEYS):
            refused.append(_malformed(number, line, "a row that does not begin with {"))
        elif not messages.is_notice(line):
            message = messages.as_refusal(number, line)
            if message is not None:
                refused.append(message)
    return counts, refused


def _gather(text: str, lines: Sequence[str], position: int) -> tuple[str, int]:
    """The object that begins with ``text``, and how many more lines it took."""
    whole = text
    for used in range(_MOST_LINES):
        if _closed(whole):
            return whole, used
        if position + used >= len(lines):
            break
        more = lines[position + used].strip()
        if not more or more.startswith("{"):
            break
        whole += " " + more
    return text, 0


def _closed(text: str) -> bool:
    inside = False
    escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"':
            inside = not inside
        elif character == "}" and not inside:
            return True
    return False


def _row(number: int, text: str) -> Row | Refusal:
    pairs = _pairs(text)
    if isinstance(pairs, str):
        return _malformed(number, text, pairs)
    if "counter-value" not in pairs and "event" not in pairs:
        reason = "derived metrics only: no count in this row"
        return Refusal(number, None, text, reason, "metric")
    event = pairs.get("event", "")
    if "counter-value" not in pairs or not event:
        return _malformed(number, text, "a row without its event or its value")
    percent = _PERCENT.fullmatch(pairs.get("pcnt-running", ""))
    if percent is None:
        return _malformed(number, text, "no percentage of time running that can be read")
    runtime = _runtime(pairs.get("event-runtime", ""), percent)
    if runtime is None:
        return _malformed(number, text, "no run time that can be read")
    scope = _scope(pairs)
    if scope is None:
        return _malformed(number, text, "an interval or a number of CPUs that cannot be read")
    return Row(
        number,
        text,
        event,
        _value(pairs["counter-value"]),
        pairs.get("unit", ""),
        runtime,
        float(f"{percent['whole']}.{percent['part']}"),
        _error(pairs.get("variance")),
        scope,
    )


def _pairs(text: str) -> dict[str, str] | str:
    """Keys and values as text, or what is wrong."""
    pairs: dict[str, str] = {}
    position = 1
    while not _END.match(text, position):
        pair = _PAIR.match(text, position)
        if pair is None:
            return "the row is cut off or garbled"
        key = pair["key"]
        if key in pairs:
            return f"the key {key} is there twice"
        pairs[key] = pair["string"] if pair["string"] is not None else pair["bare"]
        position = pair.end()
        comma = _COMMA.match(text, position)
        if comma is not None:
            position = comma.end()
        elif not _END.match(text, position):
            return "the row is cut off or garbled"
    return pairs


def _value(text: str) -> str:
    """A plain number; perf never groups digits here, and prints six decimals."""
    if text in (NOT_SUPPORTED, NOT_COUNTED):
        return text
    match = _VALUE.fullmatch(text)
    if match is None:
        return text or "(nothing)"
    return f"{match['whole']}.{match['point'] or match['comma'] or '0'}"


def _runtime(text: str, percent: re.Match[str]) -> int | None:
    """Nanoseconds; also where the percentage is glued on (``3805731510100.00``)."""
    if _RUNTIME.fullmatch(text):
        return int(text)
    glued = percent[0]
    head = text.removesuffix(glued)
    if head != text and _RUNTIME.fullmatch(head):
        return int(head)
    return None


def _error(text: str | None) -> float | None:
    if text is None:
        return None
    match = _VALUE.fullmatch(text.replace(",", "."))
    return float(match[0]) if match else None


def _scope(pairs: Mapping[str, str]) -> Scope | None:
    interval = pairs.get("interval")
    seconds: float | None = None
    if interval is not None:
        match = _VALUE.fullmatch(interval.replace(",", "."))
        if match is None:
            return None
        seconds = float(match[0])
    aggregated = pairs.get("aggregate-number", pairs.get("counters"))
    if aggregated is not None and not _RUNTIME.fullmatch(aggregated):
        return None
    places = [
        pairs[key] for key in ("core", "die", "cluster", "cache", "socket", "node") if key in pairs
    ]
    return Scope(
        seconds,
        pairs.get("cpu"),
        places[0] if places else None,
        int(aggregated) if aggregated is not None else None,
        pairs.get("thread"),
        pairs.get("cgroup"),
    )


def _malformed(number: int, line: str, reason: str) -> Refusal:
    event = _EVENT.search(line)
    return Refusal(number, event[1] if event else None, line, reason, "malformed")
