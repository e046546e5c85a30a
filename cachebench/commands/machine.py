# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench machine``."""

from __future__ import annotations

import argparse
import sys

from cachebench import machinecard, resultfile
from cachebench.analyze import cardplot
from cachebench.report import cardtable
from cachebench.report.progress import Progress


class Machine:
    """Measure what this machine's memory can do: the floor of every lookup.

    Latency of dependent loads by working set, and time per random line by lines
    in flight, for each page size. The card is kept in the cache folder.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--refresh", action="store_true", help="measure anew")
        parser.add_argument("--json", action="store_true", help="print the card's document")
        parser.add_argument("--svg", metavar="FILE", help="draw the card into a file")

    def run(self, arguments: argparse.Namespace) -> int:
        if arguments.svg:
            resultfile.check_writable(arguments.svg)
        with Progress(facts=not arguments.json) as progress:
            card = machinecard.obtain(progress, refresh=arguments.refresh)
        if arguments.svg:
            resultfile.write(arguments.svg, cardplot.svg(card))
        if arguments.json:
            sys.stdout.write(machinecard.encode(card))
        else:
            cardtable.show(card)
        return 0
