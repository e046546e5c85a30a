# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench export``."""

from __future__ import annotations

import argparse
import sys

import msgspec

from cachebench import resultfile
from cachebench.errors import CachebenchError
from cachebench.model import Result
from cachebench.report import EXPORTERS


class Export:
    """Write a result file in the format of another tool."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="written by cachebench run -o FILE")
        parser.add_argument("--format", choices=sorted(EXPORTERS), required=True)
        parser.add_argument(
            "--layout", metavar="NAME", help="export this layout alone (default: all)"
        )
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="where to write (default: standard output)"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        if arguments.output is not None:
            resultfile.check_writable(arguments.output)
        result = resultfile.read(arguments.file)
        if arguments.layout is not None:
            result = _only(result, arguments.layout)
        text = EXPORTERS[arguments.format](result)
        if arguments.output is not None:
            resultfile.write(arguments.output, text)
        else:
            sys.stdout.write(text)
        return 0


def _only(result: Result, layout: str) -> Result:
    entries = tuple(entry for entry in result.results if entry.layout == layout)
    if not entries:
        names = ", ".join(entry.layout for entry in result.results)
        raise CachebenchError(f"--layout {layout}: the file has {names or 'no layout'}")
    return msgspec.structs.replace(result, results=entries)
