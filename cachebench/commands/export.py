"""``cachebench export``."""

from __future__ import annotations

import argparse
import sys

from cachebench import resultfile
from cachebench.report import EXPORTERS


class Export:
    """Write a result file in the format of another tool."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="written by cachebench run -o FILE")
        parser.add_argument("--format", choices=sorted(EXPORTERS), required=True)
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="where to write (default: standard output)"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        text = EXPORTERS[arguments.format](resultfile.read(arguments.file))
        if arguments.output:
            resultfile.write(arguments.output, text)
        else:
            sys.stdout.write(text)
        return 0
