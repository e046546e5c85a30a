# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench``: command line to exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import cachebench
from cachebench.commands import COMMANDS
from cachebench.errors import CachebenchError
from cachebench.report.text import printable

EXIT_CODES = "exit codes: 0 done, 2 usage, build failure, crash or missing data"


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, by the way that all errors take."""

    def error(self, message: str) -> NoReturn:
        raise CachebenchError(f"{message}; type {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the only place that writes to standard error."""
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()  # here, where a full disk is an error like any other
    except CachebenchError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", 2)
    except BrokenPipeError:  # the reader of our output has enough
        _drop_output()
        return 0
    except OSError as error:
        _drop_output()
        return _fail(f"cannot go on: {error}", 2)
    except Exception as error:
        if "CACHEBENCH_TRACEBACK" in os.environ:
            raise
        what = f"{type(error).__name__}: {error}"
        return _fail(f"internal error: {what}; CACHEBENCH_TRACEBACK=1 shows where", 2)


def _run(arguments: Sequence[str] | None) -> int:
    parser = _Parser(
        prog="cachebench", description=cachebench.__doc__, epilog=EXIT_CODES, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=cachebench.__version__)
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for command in COMMANDS:
        name = type(command).__name__.lower()
        text = str(command.__doc__)
        part = commands.add_parser(
            name, help=text.splitlines()[0], description=text, allow_abbrev=False
        )
        command.prepare_parser(part)
        part.set_defaults(command=command)
    parsed = parser.parse_args(arguments)
    return int(parsed.command.run(parsed))


def _drop_output() -> None:
    """Python would fail once more when it flushes at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"cachebench: {printable(line)}", file=sys.stderr, flush=True)
    return code
