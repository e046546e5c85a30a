# SPDX-License-Identifier: BSD-3-Clause
"""A worker process: what it is told, and how it answers.

It gets a plan in JSON on standard input and writes JSON lines on what was its
standard output: ``{"doing": "…"}`` as it goes, then one ``{"sample": …}`` or
``{"error": "…"}``. Whoever sees no such last line knows that the process died.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import BinaryIO, TypeVar

import msgspec

from cachebench._core import lib
from cachebench.errors import CachebenchError

Plan = TypeVar("Plan", bound=msgspec.Struct)

_out: BinaryIO = sys.stdout.buffer


def say(**line: object) -> None:
    """``doing="…"`` as it goes."""
    _out.write(msgspec.json.encode(line) + b"\n")
    _out.flush()


def serve(plan_type: type[Plan], run: Callable[[Plan], object]) -> int:
    """Runs the plan that is waiting on standard input; the process's exit code."""
    global _out
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    lib.cb_die_with_parent()
    # What a layout prints must not be taken for what we say.
    _out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=plan_type)
    try:
        say(sample=run(plan))
    except CachebenchError as error:
        say(error=str(error))
        return error.exit_code
    return 0
