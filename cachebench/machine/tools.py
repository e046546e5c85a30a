# SPDX-License-Identifier: BSD-3-Clause
"""The programs that a measurement can use, asked by running them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass

from cachebench.perfstat.command import NoPerf, Perf, find_perf, probe

CYCLES = "cycles:u"


@dataclass(frozen=True)
class Tools:
    """What each program answered; None where it is missing or does not run."""

    perf: str | None
    """Version."""
    perf_reason: str
    """Why there is no perf, in one line; empty if there is one."""
    cycles_counted: bool | None
    """Whether perf counted user-space cycles of a small program; None without perf."""
    cycles_reason: str
    """Why it did not; empty if it did."""
    compiler: str | None
    """First line of its version."""
    valgrind: str | None
    """First line of its version."""


def ask_tools() -> Tools:
    """Runs each program once or twice, some tens of milliseconds in all."""
    perf = find_perf()
    counted, why_not = _count_cycles(perf) if isinstance(perf, Perf) else (None, perf.reason)
    return Tools(
        perf=".".join(map(str, perf.version)) if isinstance(perf, Perf) else None,
        perf_reason=perf.reason if isinstance(perf, NoPerf) else "",
        cycles_counted=counted,
        cycles_reason=why_not,
        compiler=_first_line([*shlex.split(os.environ.get("CC", "cc")), "--version"]),
        valgrind=_first_line(["valgrind", "--version"]),
    )


def _count_cycles(perf: Perf) -> tuple[bool, str]:
    why_not = probe(perf, [CYCLES])[CYCLES]
    return why_not is None, why_not or ""


def _first_line(command: list[str]) -> str | None:
    if not command or shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if lines else None
