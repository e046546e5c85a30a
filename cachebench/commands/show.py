# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench show``."""

from __future__ import annotations

import argparse
import sys

from cachebench import resultfile
from cachebench.report import terminal


class Show:
    """Show a result file as run does."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="written by cachebench run -o FILE")
        parser.add_argument("--json", action="store_true", help="print the result document")

    def run(self, arguments: argparse.Namespace) -> int:
        result = resultfile.read(arguments.file)
        if arguments.json:
            sys.stdout.write(resultfile.encode(result))
        else:
            terminal.show(result)
        return 0
