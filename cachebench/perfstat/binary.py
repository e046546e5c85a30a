# SPDX-License-Identifier: BSD-3-Clause
"""Which perf is here, and what it can do. It is asked; its version decides nothing alone.

The environment variable ``CACHEBENCH_PERF`` names another binary (a path, or a
name on PATH) than ``perf``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "CACHEBENCH_PERF"
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")

_VERSION = re.compile(r"perf version ([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,6}))?")
_WRAPPER = re.compile(
    r"perf not found for kernel|linux-perf-?\S* is not installed|linux-tools-\S+ is not installed"
)
_NEEDED = ("--control", "--delay", "--output")
_SECONDS = 20.0
_INSTALL = (
    "install linux-perf (Debian), linux-tools-generic (Ubuntu) or perf (Fedora), "
    f"or name a binary in {VARIABLE}"
)


@dataclass(frozen=True)
class Perf:
    """A perf that works: ``json`` whether it knows ``-j`` (6.0 and newer)."""

    path: str
    version: tuple[int, ...]
    json: bool


@dataclass(frozen=True)
class NoPerf:
    """No perf that works, and why, in one line."""

    reason: str


def find_perf(environment: Mapping[str, str] | None = None) -> Perf | NoPerf:
    """The perf to use. Runs it twice, without counting anything; does not raise."""
    surroundings = os.environ if environment is None else environment
    named = surroundings.get(VARIABLE) or "perf"
    path = shutil.which(named, path=surroundings.get("PATH"))
    if path is None:
        where = f"{VARIABLE} names {named}, which is no program" if named != "perf" else ""
        return NoPerf(where or f"there is no perf on PATH; {_INSTALL}")
    said = _ask([path, "--version"], surroundings)
    if isinstance(said, NoPerf):
        return said
    if _WRAPPER.search(said):
        return NoPerf(f"{path} is a wrapper that finds no perf for this kernel; {_INSTALL}")
    match = _VERSION.search(said)
    if match is None:
        return NoPerf(f"{path} does not say that it is perf")
    version = tuple(int(part) for part in match.groups() if part is not None)
    options = _ask([path, "stat", "-h"], surroundings)
    if isinstance(options, NoPerf):
        return options
    lacking = [option for option in _NEEDED if option not in options]
    if lacking:
        return NoPerf(
            f"{path} {_dotted(version)} has no {lacking[0]}; perf 5.10 or newer is needed"
        )
    return Perf(path, version, "--json-output" in options)


def paranoid_level(file: Path = PARANOID) -> int | None:
    """``kernel.perf_event_paranoid``: up to 2 permits counting in user mode; None if unread."""
    try:
        text = file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    return int(text) if re.fullmatch(r"-?[0-9]{1,3}", text) else None


def _ask(command: list[str], environment: Mapping[str, str]) -> str | NoPerf:
    """What the command prints, on both streams; perf prints its help with status 129."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**environment, "LC_ALL": "C", "PAGER": "cat"},
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return NoPerf(f"{command[0]} does not run: {error}")
    return done.stdout.decode("utf-8", "replace")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
