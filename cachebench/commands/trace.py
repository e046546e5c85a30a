# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench trace``."""

from __future__ import annotations

import argparse
import sys

import msgspec

from cachebench import checking, experiment, resultfile, tracing
from cachebench.analyze import curveplot
from cachebench.report import checktext, terminal, tracetext
from cachebench.report.progress import Progress

CURVE_RATE = 0.1


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if 1e-6 <= value <= 1:
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is no share from 1e-6 to 1")


class Trace:
    """Tell which member of which struct touches which cache line, and what it misses.

    The kernel's own accesses, seen by the compiler's instrumentation, go through a
    simulated memory: no counter is needed and counts repeat to the digit. Hardware
    prefetch is not modelled.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        experiment.add_arguments(parser, timed=False)
        simulated = tracing.add_arguments(parser)
        simulated.add_argument(
            "--curve",
            action="store_true",
            help="also misses per lookup by cache size, from 32 KiB to 1 GiB",
        )
        simulated.add_argument(
            "--curve-rate",
            type=_rate,
            default=CURVE_RATE,
            metavar="SHARE",
            help="share of the lines that the curve follows (default: 0.1; 1 is exact)",
        )
        parser.add_argument(
            "--with",
            action="append",
            dest="tools",
            choices=checking.TOOLS,
            default=[],
            help="also run the lookups under valgrind. callgrind: instructions, and misses by "
            "its own simulation; lackey: each access of the plain kernel. May be repeated",
        )
        parser.add_argument("--json", action="store_true", help="print the trace document")
        parser.add_argument("--svg", metavar="FILE", help="draw the curve, which it implies")

    def run(self, arguments: argparse.Namespace) -> int:
        if arguments.svg:
            resultfile.check_writable(arguments.svg)
        rate = arguments.curve_rate if arguments.curve or arguments.svg else None
        asked = tracing.from_arguments(arguments, rate)
        with Progress(facts=False) as progress:
            result = checking.trace(asked, arguments.tools, progress)
        if arguments.svg:
            resultfile.write(arguments.svg, curveplot.svg(result, terminal.point(result.spec)))
        if arguments.json:
            document = msgspec.json.format(msgspec.json.encode(result), indent=1)
            sys.stdout.write(document.decode() + "\n")
        else:
            tracetext.show(result)
            checktext.show(result)
        return 0
