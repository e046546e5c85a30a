# SPDX-License-Identifier: BSD-3-Clause
"""Samples of where this process is, on the CPU-time clock, in user mode.

Two ways give the same addresses: the ``perf`` extension module that comes with
the system's perf (python-perf), in this process; or ``perf record`` beside it and
``perf script`` after it. The clock is the kernel's software event ``cpu-clock``:
it counts time and needs no PMU.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import importlib.machinery
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from cachebench.errors import CachebenchError
from cachebench.perfstat.binary import NoPerf, Perf, find_perf, paranoid_level
from cachebench.profilemodel import Way

_FOLDERS = (
    "/usr/lib/python3/dist-packages",
    "/usr/lib/linux-tools*/*",
    f"/usr/lib*/python3.{sys.version_info.minor}/site-packages",
)
"""Where Debian, Ubuntu and Fedora put the module, beside the folders of this Python."""
_PAGES = 64
"""Of the ring buffer: what any user may lock, by the kernel's default, is twice as much.
A region of 100 ms at the shortest period has 1,000 samples, of 24 bytes each."""
_ENABLE, _DISABLE = 32, 31
"""prctl: all events that this process has opened."""
_PERF_SECONDS = 60
_PERMITTED = 2
"""The highest kernel.perf_event_paranoid that lets users sample their processes."""


class Sampler(Protocol):
    """Off when made; counts while on. ``finish`` ends it."""

    way: Way
    lost: int

    def on(self) -> None: ...

    def off(self) -> None: ...

    def finish(self) -> list[int]:
        """Addresses of all samples."""


@contextmanager
def sampler(way: Way | None, period_ns: int, cpu: int) -> Iterator[Sampler]:
    """A sampler of this process, which is pinned to ``cpu``.

    Raises CachebenchError with what to type if neither way is there, or if the
    kernel forbids both.
    """
    with tempfile.TemporaryDirectory(prefix="cachebench-") as folder:
        made = _make(way, period_ns, cpu, Path(folder))
        try:
            yield made
        finally:
            made.close()


def _make(way: Way | None, period_ns: int, cpu: int, folder: Path) -> _Binding | _Record:
    makers: dict[Way, Callable[[], _Binding | _Record]] = {
        "binding": lambda: _Binding(period_ns, cpu),
        "record": lambda: _Record(period_ns, folder),
    }
    reasons = []
    for name, make in makers.items():
        if way in (None, name):
            try:
                return make()
            except CachebenchError as error:
                reasons.append(str(error))
    raise CachebenchError("; ".join(dict.fromkeys(reasons)))


def forbidden(level: int | None) -> str:
    """What to type where the kernel refuses to sample."""
    if level is not None and level > _PERMITTED:
        return (
            f"the kernel lets nobody but root sample (kernel.perf_event_paranoid is {level}): "
            f"type sysctl kernel.perf_event_paranoid={_PERMITTED} as root"
        )
    return (
        "the kernel refuses to sample this process, as container runtimes tell it to: "
        "permit perf_event_open, for instance by --cap-add=PERFMON"
    )


class _Binding:
    way: Way = "binding"

    def __init__(self, period_ns: int, cpu: int) -> None:
        self.lost = 0
        self._addresses: list[int] = []
        self._cpu = cpu
        self._libc = ctypes.CDLL(None)
        perf = _load_binding()
        try:
            cpus, threads = perf.cpu_map(str(cpu)), perf.thread_map(-1, os.getpid())
            event = perf.evsel(
                type=perf.TYPE_SOFTWARE,
                config=perf.COUNT_SW_CPU_CLOCK,
                freq=0,
                sample_period=period_ns,
                sample_type=perf.SAMPLE_IP | perf.SAMPLE_TID,
                disabled=1,
                exclude_kernel=1,
                exclude_hv=1,
            )
            event.open(cpus=cpus, threads=threads)
            self._events = perf.evlist(cpus, threads)
            self._events.add(event)
            self._events.mmap(pages=_PAGES)
        except (AttributeError, TypeError, ValueError) as error:
            raise CachebenchError(f"{perf.__file__} is not as expected: {error}") from None
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise CachebenchError(forbidden(paranoid_level())) from None
            raise CachebenchError(f"{perf.__file__} cannot sample: {error}") from None

    def on(self) -> None:
        self._libc.prctl(_ENABLE, 0, 0, 0, 0)

    def off(self) -> None:
        self._libc.prctl(_DISABLE, 0, 0, 0, 0)
        while (event := self._events.read_on_cpu(self._cpu)) is not None:
            if hasattr(event, "sample_ip"):
                self._addresses.append(event.sample_ip)
            else:
                self.lost += getattr(event, "lost", 0)

    def finish(self) -> list[int]:
        return self._addresses

    def close(self) -> None:
        self.off()


def _load_binding() -> Any:
    """The module, by the names that this very Python can load."""
    folders = [folder for pattern in _FOLDERS for folder in sorted(glob.glob(pattern))]  # noqa: PTH207
    for folder in [*sys.path, *folders]:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            file = Path(folder or ".") / f"perf{suffix}"
            if not file.is_file():
                continue
            spec = importlib.util.spec_from_file_location("perf", file)
            assert spec is not None and spec.loader is not None
            try:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
            except ImportError as error:
                raise CachebenchError(f"{file} does not load: {error}") from None
            return module
    version = ".".join(map(str, sys.version_info[:2]))
    raise CachebenchError(
        f"there is no perf module for Python {version} (linux-perf of Debian has the one for "
        "the system's python3)"
    )


class _Record:
    way: Way = "record"

    def __init__(self, period_ns: int, folder: Path) -> None:
        self.lost = 0
        self._file = folder / "perf.data"
        self._said = (folder / "said").open("w+b")
        found = find_perf()
        if isinstance(found, NoPerf):
            raise CachebenchError(found.reason)
        self._perf: Perf = found
        control, self._control = os.pipe()
        self._answers, answers = os.pipe()
        command = [
            *(found.path, "record", "-q", "-N", "-B", "-o", str(self._file)),
            *("-e", "cpu-clock:u", "-c", str(period_ns), "-p", str(os.getpid())),
            *("-D", "-1", "--control", f"fd:{control},{answers}"),
        ]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=(control, answers),
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError as error:
            raise CachebenchError(f"{found.path} does not run: {error.strerror}") from None
        finally:
            os.close(control)
            os.close(answers)
        self._tell("disable")  # its answer says that the events are open

    def on(self) -> None:
        self._tell("enable")

    def off(self) -> None:
        self._tell("disable")

    def _tell(self, command: str) -> None:
        try:
            os.write(self._control, f"{command}\n".encode())
            answer = os.read(self._answers, 5)
        except BrokenPipeError:
            answer = b""
        if not answer.startswith(b"ack"):
            self._process.wait()
            raise self._failed()

    def _failed(self) -> CachebenchError:
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        if re.search(r"perf_event_paranoid|[Pp]ermission|not permitted", said):
            return CachebenchError(forbidden(paranoid_level()))
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return CachebenchError(f"perf record: {lines[-1] if lines else 'it ended'}")

    def finish(self) -> list[int]:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(_PERF_SECONDS)
        script = [self._perf.path, "script", "-i", str(self._file), "-F", "ip"]
        done = subprocess.run(
            [*script, "--show-lost-events"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
            timeout=_PERF_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise CachebenchError(f"perf script: {done.stderr.decode(errors='replace').strip()}")
        addresses = []
        for line in done.stdout.decode(errors="replace").splitlines():
            if lost := re.search(r"PERF_RECORD_LOST(?:_SAMPLES)? lost (\d+)", line):
                self.lost += int(lost[1])
            elif address := re.fullmatch(r"\s*([0-9a-f]+)\s*", line):
                addresses.append(int(address[1], 16))
        return addresses

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        os.close(self._control)
        os.close(self._answers)
        self._said.close()
