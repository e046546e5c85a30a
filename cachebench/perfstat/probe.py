# SPDX-License-Identifier: BSD-3-Clause
"""Which events really count here, asked by a short run of perf itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cachebench.perfstat.binary import Perf, paranoid_level
from cachebench.perfstat.events import Group
from cachebench.perfstat.parse import parse
from cachebench.perfstat.report import NOT_SUPPORTED, Refusal, Report, lookup

PMU_FOLDER = Path("/sys/bus/event_source/devices")

_SECONDS = 20.0
_CORE_PMU = re.compile(r"cpu|cpu_core|cpu_atom|cpum_cf|armv[78]\w*|apple_\w+")
_UNKNOWN = re.compile(r"event syntax error|Bad event|parser error|Cannot find PMU|unknown term")
_FORBIDDEN = re.compile(
    r"No permission to enable|Access to performance monitoring|Permission denied"
    r"|Operation not permitted"
)
_FORMS = {True: ("-j",), False: ("-x", ";")}


def probe(perf: Perf, events: Iterable[Group | str]) -> dict[str, str | None]:
    """For each event whether it counts here: None, or the reason why not.

    All are tried in one run of a short command, and those that gave no clear
    answer alone: one unknown name fails the whole run, and many at once share
    counters. A braced group is tried by itself, as it will be used. Costs a few
    ms a run. Does not raise.
    """
    single: list[str] = []
    answers: dict[str, str | None] = {}
    for item in events:
        if isinstance(item, str):
            single.append(item)
        elif item.braced:
            names = [event.perf_name for event in item.events]
            answers.update(_answers(perf, names, "{" + ",".join(names) + "}"))
        else:
            single.extend(event.perf_name for event in item.events)
    names = list(dict.fromkeys(single))
    if names:
        report, _ = _run(perf, names)
        for name in names:
            found = lookup(report, name)
            if isinstance(found, Refusal):
                answers.update(_answers(perf, [name], name))
            else:
                answers[name] = None
    return answers


def pmu_names(folder: Path = PMU_FOLDER) -> frozenset[str]:
    """The counters that the kernel offers (``cpu``, ``cpu_core``, ``software`` ...)."""
    try:
        return frozenset(entry.name for entry in folder.iterdir())
    except OSError:
        return frozenset()


def _answers(perf: Perf, names: list[str], option: str) -> dict[str, str | None]:
    report, said = _run(perf, [option])
    answers: dict[str, str | None] = {}
    for name in names:
        found = lookup(report, name)
        answers[name] = _reason(perf, found, said) if isinstance(found, Refusal) else None
    return answers


def _reason(perf: Perf, refusal: Refusal, said: str) -> str:
    if _FORBIDDEN.search(said):
        return f"not permitted here (kernel.perf_event_paranoid is {paranoid_level()})"
    if _UNKNOWN.search(said):
        version = ".".join(str(part) for part in perf.version)
        if not _has_pmu():
            return f"perf {version} does not know it here: no PMU visible (virtual machine?)"
        return f"perf {version} does not know it for this CPU"
    if refusal.kind in ("not-supported", "missing") or NOT_SUPPORTED in said:
        if not _has_pmu():
            return f"{NOT_SUPPORTED}: no PMU visible (virtual machine?)"
        return f"{NOT_SUPPORTED} by this CPU, kernel or virtual machine"
    return refusal.reason


def _has_pmu() -> bool:
    return any(_CORE_PMU.fullmatch(name) for name in pmu_names())


def _run(perf: Perf, options: list[str]) -> tuple[Report, str]:
    """The report of one short run, and all that perf said on stderr."""
    command = shutil.which("true")
    program = [command] if command else [sys.executable, "-c", ""]
    form = _FORMS[perf.json]
    words = [word for option in options for word in ("-e", option)]
    with tempfile.TemporaryDirectory(prefix="cachebench-") as folder:
        file = Path(folder) / "probe.out"
        try:
            done = subprocess.run(
                [perf.path, "stat", "-o", str(file), *form, *words, "--", *program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C"},
                timeout=_SECONDS,
                check=False,
            )
            said = done.stderr.decode("utf-8", "replace")
            text = file.read_bytes().decode("utf-8", "replace") if file.exists() else ""
        except (OSError, subprocess.SubprocessError) as error:
            return parse(""), str(error)
    return parse(f"{said}\n{text}" if not text.strip() else text), said
