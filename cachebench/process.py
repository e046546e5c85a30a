# SPDX-License-Identifier: BSD-3-Clause
"""Starting one worker process, listening to it, ending it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from cachebench.errors import CachebenchError
from cachebench.model import Sample, WorkerPlan
from cachebench.perfstat.command import Session
from cachebench.python import command

Answer = TypeVar("Answer", bound=msgspec.Struct)


def run_worker(
    plan: WorkerPlan, listen: Callable[[str], None], session: Session | None = None
) -> Sample:
    """Runs one worker to its end, under perf if a session is given.

    ``listen`` hears what it is doing. Raises CachebenchError if it reports an
    error or ends without a sample.
    """
    argv: Sequence[str] = command("cachebench.worker")
    environment: Mapping[str, str] = os.environ
    descriptors: tuple[int, ...] = ()
    if session is not None:
        descriptors = session.pass_fds
        control, acknowledge = session.control_for_worker()
        plan = msgspec.structs.replace(
            plan, control=control, acknowledge=acknowledge, close=session.perf_fds
        )
        argv = session.argv(argv, environment)
        environment = session.environment(environment)
    return run(
        argv,
        plan,
        Sample,
        f"layout {plan.layout}",
        listen,
        environment=environment,
        pass_fds=descriptors,
        started=None if session is None else session.started,
    )


def run(
    argv: Sequence[str],
    plan: msgspec.Struct,
    sample: type[Answer],
    what: str,
    listen: Callable[[str], None],
    *,
    environment: Mapping[str, str] = os.environ,
    pass_fds: Sequence[int] = (),
    started: Callable[[], None] | None = None,
) -> Answer:
    """Runs one process that is given a plan, and returns the sample that it reports.

    ``started`` is called when it runs; the process is then one that starts the
    worker, as perf does, and is waited for.

    Raises CachebenchError, beginning with ``what``, if it reports an error or
    ends without a sample; ends its whole process group on any way out, a
    KeyboardInterrupt included.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            pass_fds=pass_fds,
            start_new_session=True,  # Ctrl-C reaches us alone, and we end the group
        )
        try:
            if started is not None:
                started()
            last = _converse(process, plan, listen)
            if started is not None or not last.keys() & {"sample", "error"}:
                process.wait()  # perf writes its report when the worker has ended
        finally:
            _end(process)
        if "sample" in last:
            try:
                return msgspec.convert(last["sample"], sample)
            except msgspec.ValidationError as error:
                raise CachebenchError(f"{what}: no sample: {error}") from None
        if "error" in last:
            raise CachebenchError(f"{what}: {last['error']}")
        errors.seek(0)
        said = errors.read().decode(errors="replace")
        raise CachebenchError(f"{what}: {_death(process.returncode, said)}")


def _converse(
    process: subprocess.Popen[bytes], plan: msgspec.Struct, listen: Callable[[str], None]
) -> dict[str, Any]:
    """Sends the plan and reads lines up to the one with a sample or an error."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(msgspec.json.encode(plan))
    last: dict[str, Any] = {}
    with process.stdout:
        for line in process.stdout:
            try:
                last = msgspec.json.decode(line, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            if "sample" in last or "error" in last:
                break
            listen(str(last.get("doing")))
    return last


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the worker and whatever it runs under, if anything is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _death(status: int, said: str) -> str:
    """Why a worker gave no result, in one line.

    perf hides a signal in exit status 0 up to 6.12 and in 128 + signal from 7.2
    on, but says its name on stderr.
    """
    number = -status if status < 0 else status - 128
    if status < 0 or status > 128:
        with suppress(ValueError):
            return f"the worker died of {signal.Signals(number).name}"
    lines = said.strip().splitlines()
    for line in reversed(lines):
        for known in signal.Signals:
            if (text := signal.strsignal(known)) and line.rstrip().endswith(f": {text}"):
                return f"the worker died of {known.name}"
    last = lines[-1].strip() if lines else "it said nothing"
    return f"the worker ended with exit code {status} and no result: {last}"
