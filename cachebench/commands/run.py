# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench run``."""

from __future__ import annotations

import argparse
import sys

from cachebench import experiment, resultfile, runner
from cachebench.errors import CachebenchError
from cachebench.report import terminal
from cachebench.report.progress import Progress


class Run:
    """Measure what a session lookup costs with one or more layouts.

    Each layout runs in processes of its own, in turn, in shuffled order.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        experiment.add_arguments(parser)
        output = parser.add_argument_group("output")
        output.add_argument("--json", action="store_true", help="print the result document")
        output.add_argument("-o", "--output", metavar="FILE", help="write the result document")

    def run(self, arguments: argparse.Namespace) -> int:
        asked = experiment.from_arguments(arguments)
        if arguments.output is not None:
            resultfile.check_writable(arguments.output)
        with Progress(facts=not arguments.json) as progress:
            outcome = runner.run(asked, progress)
        result = outcome.result
        # The file first: whoever reads the output may have enough of it early.
        if arguments.output is not None and result.results and outcome.interrupted != "measurement":
            resultfile.write(arguments.output, resultfile.encode(result))
        if arguments.json:
            sys.stdout.write(resultfile.encode(result))
        elif result.results:
            terminal.show(result)
        if outcome.interrupted == "measurement":
            raise CachebenchError("interrupted; no file was written")
        if outcome.interrupted == "simulation":
            raise CachebenchError("interrupted; the result is whole but for its simulation")
        if result.failures:
            raise CachebenchError("; ".join(failure.reason for failure in result.failures))
        return 0
