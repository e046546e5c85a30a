# SPDX-License-Identifier: BSD-3-Clause
"""Running the C driver under valgrind: the same lookups as the line trace's.

No Python runs under valgrind. The driver does the lookups that count in a function
of its own, ``FUNCTION``, and says where its arenas are.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from cachebench.catalogue import driver_path
from cachebench.errors import CachebenchError
from cachebench.model import Experiment

OLDEST = (3, 17)
"""The first that reads DWARF 5, the debug information that compilers write by default."""
FUNCTION = "cb_watched"
"""csrc/watch.h"""
_PIECE = 1 << 20
_TAIL = 1 << 14


@dataclass(frozen=True)
class Valgrind:
    """An installed valgrind that is new enough."""

    path: str
    version: str

    @property
    def name(self) -> str:
        return f"valgrind {self.version}"


class Range(msgspec.Struct, frozen=True):
    """Where one arena is."""

    start: int
    bytes: int


class Where(msgspec.Struct, frozen=True):
    """Addresses in the driver's process."""

    marker: int
    """Of the 8 bytes that are stored to before and after each watched call."""
    arenas: tuple[Range, ...]
    """In the order of the line trace's."""


@dataclass(frozen=True)
class Watched:
    """The lookups that count, and those before them."""

    lookups: int
    warm_up: int = 0
    read: int = 65_536
    """Packets read at a time, outside of what is watched."""
    slice: int = 65_536
    """Lookups in one call; with fewer than a burst has, bursts are shorter."""


Log = Callable[[bytes, Where | None], None]
"""Is given the tool's log piece by piece. Where the arenas are is known in all
pieces that tell of the watched lookups."""


def find() -> Valgrind:
    """The valgrind of $PATH; raises CachebenchError if it is missing or too old."""
    path = shutil.which("valgrind")
    if path is None:
        raise CachebenchError(
            "valgrind is not installed; type: apt install valgrind (Debian, Ubuntu) or "
            "dnf install valgrind (Fedora)"
        )
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=20
        )
        said = done.stdout.decode(errors="replace").strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise CachebenchError(f"{path} does not run ({error}); install valgrind anew") from None
    match = re.match(r"valgrind-((\d+)\.(\d+)\S*)", said)
    if match is None:
        raise CachebenchError(f"{path} --version said {said[:60]!r}, which is no valgrind")
    if (int(match[2]), int(match[3])) < OLDEST:
        raise CachebenchError(
            f"valgrind {match[1]} is too old: it does not read DWARF 5, the debug information of "
            f"today's compilers; install valgrind {OLDEST[0]}.{OLDEST[1]} or newer"
        )
    return Valgrind(path, match[1])


def run(
    valgrind: Valgrind,
    options: Sequence[str],
    experiment: Experiment,
    layout: str,
    plugin: Path | None,
    watched: Watched,
    log: Log | None = None,
) -> Where:
    """Runs the driver to its end under a tool of valgrind.

    ``plugin`` is the plain kernel as :func:`cachebench.build.artifact` gives it. Raises
    CachebenchError if the driver or valgrind fails; ends both on any way out.
    """
    ours, theirs = os.pipe()
    with (
        os.fdopen(ours, "rb") as log_file,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        try:
            process = subprocess.Popen(
                [
                    valgrind.path,
                    "--command-line-only=yes",  # a user's .valgrindrc may change counts
                    *options,
                    f"--log-fd={theirs}",
                    str(driver_path()),
                    *_driver_options(experiment, layout, plugin, watched),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env={**os.environ, "LC_ALL": "C"},
                pass_fds=(theirs,),
                start_new_session=True,  # Ctrl-C reaches us alone, and we end the group
            )
        except OSError as error:
            raise CachebenchError(f"{valgrind.path} does not run: {error.strerror}") from None
        finally:
            os.close(theirs)
        try:
            tail = _read_log(log_file, output, log)
            status = process.wait()
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if status != 0:
            errors.seek(0)
            said = errors.read().decode(errors="replace")
            raise CachebenchError(f"layout {layout}: {_failure(valgrind, status, said, tail)}")
        return _finished(output, layout, watched)


def _driver_options(
    experiment: Experiment, layout: str, plugin: Path | None, watched: Watched
) -> list[str]:
    """The line trace's point, seeds and packets included (cachebench.tracer).

    Page sizes are nothing to valgrind; with transparent huge ones each arena begins
    at a multiple of 2 MiB, as those of the line trace do.
    """
    values: dict[str, object] = {
        "sessions": experiment.sessions,
        "seed": experiment.seed,
        "heap-seed": experiment.seed * 1000,
        "stream": experiment.seed * 1000 + 1,
        "mode": experiment.mode,
        "burst": experiment.burst,
        "session-prefetch": experiment.session_prefetch,
        "pages": "thp",
        "heap": experiment.heap,
        "popularity": experiment.popularity.kind,
        "exponent": experiment.popularity.exponent or 0.0,
        "hit-ratio": experiment.hit_ratio,
        "max-load": experiment.max_load,
        "profiles": experiment.profiles,
        "rules": experiment.rules,
        "verify": 0,
        "lead-in": watched.warm_up,
        "watched": watched.lookups,
        "read": watched.read,
        "slice": watched.slice,
    }
    if experiment.capture is not None:
        values |= {"traffic": experiment.capture.path, "scale-flows": experiment.capture.clones}
        del values["sessions"]
    kernel = f"layout={layout}" if plugin is None else f"plugin={plugin}"
    return [kernel, *(f"{key}={value}" for key, value in values.items())]


def _read_log(file: IO[bytes], output: IO[bytes], log: Log | None) -> str:
    """Passes the log on to its end; returns the last of it."""
    where: Where | None = None
    tail = b""
    while piece := file.read(_PIECE):
        # The driver says where it will look up before it does: what was logged of
        # the lookups was logged after that.
        where = where or _where(output)
        if log is not None:
            log(piece, where)
        tail = (tail + piece)[-_TAIL:]
    return tail.decode(errors="replace")


def _lines(output: IO[bytes]) -> list[bytes]:
    return os.pread(output.fileno(), _PIECE, 0).split(b"\n")


def _where(output: IO[bytes]) -> Where | None:
    line, *more = _lines(output)
    return msgspec.json.decode(line, type=Where) if more else None


def _finished(output: IO[bytes], layout: str, watched: Watched) -> Where:
    try:
        first, last, _ = _lines(output)
        where = msgspec.json.decode(first, type=Where)
        done = msgspec.json.decode(last, type=dict[str, int])
    except (ValueError, msgspec.MsgspecError):
        raise CachebenchError(f"layout {layout}: the driver under valgrind said nothing") from None
    if done != {"watched": watched.lookups}:
        raise CachebenchError(
            f"layout {layout}: the driver did other lookups under valgrind than it was told: {done}"
        )
    return where


def _failure(valgrind: Valgrind, status: int, said: str, log: str) -> str:
    """What went wrong, in one line."""
    match = re.search(r"^cachebench-driver: (.*)$", said, re.MULTILINE)
    if match is not None:
        return match[1]
    if "unhandled instruction" in log:
        return (
            f"{valgrind.name} does not know an instruction of this kernel; "
            "type an older CPU after --march, or none"
        )
    if "debuginfo reader" in log:
        return (
            f"{valgrind.name} cannot read this kernel's debug information; "
            "type --cflags=-gdwarf-4, or install a newer valgrind"
        )
    lines = [re.sub(r"^[=-]{2}\d+[=-]{2} ?", "", line) for line in (log + said).splitlines()]
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    if status < 0:
        with suppress(ValueError):
            return f"{valgrind.name} was ended by {signal.Signals(-status).name}: {last}"
    return f"{valgrind.name} ended with exit code {status}: {last}"
