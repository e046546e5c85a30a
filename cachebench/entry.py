# SPDX-License-Identifier: BSD-3-Clause
"""The console script: what must be in place before anything else is imported."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def entry() -> NoReturn:
    """SIGTERM and SIGHUP end a run as Ctrl-C does: workers first, exit code 2."""
    for number in ENDING:
        signal.signal(number, _interrupt)
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  (stays open)
    code = 2
    try:
        from cachebench.cli import main

        code = main()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            print("cachebench: interrupted", file=sys.stderr)
    finally:
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def _interrupt(number: int, frame: object) -> NoReturn:
    for each in ENDING:  # one is enough; what is being ended must not be cut short
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
