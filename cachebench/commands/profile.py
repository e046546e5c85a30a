# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench profile``."""

from __future__ import annotations

import argparse
import sys

import msgspec

from cachebench import experiment, profiling
from cachebench.profilemodel import WAYS
from cachebench.report import profiletext
from cachebench.report.progress import Progress


class Profile:
    """Sample where the time of lookups goes: by stage, source line and member.

    Processes run in turn for each layout. Of several layouts the first is the base:
    what the others take more is shown for each place.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        # Of the options of time, those that a profile has use for.
        experiment.add_arguments(parser, timed=False)
        sampling = parser.add_argument_group("sampling")
        sampling.add_argument(
            "--processes",
            type=experiment.count,
            metavar="N",
            help="processes for each layout (default: 5)",
        )
        sampling.add_argument("--cpu", type=int, metavar="N", help="CPU to pin the workers to")
        sampling.add_argument(
            "--samples",
            type=experiment.count,
            default=profiling.SAMPLES,
            metavar="N",
            help="samples of each layout, over all its processes (default: 10k)",
        )
        sampling.add_argument(
            "--with",
            choices=WAYS,
            dest="way",
            help="binding: by the perf module of Python; record: by perf record "
            "(default: the first that there is)",
        )
        parser.add_argument("--json", action="store_true", help="print the profile document")

    def run(self, arguments: argparse.Namespace) -> int:
        asked = profiling.Asked(
            experiment.from_arguments(arguments), arguments.samples, arguments.way
        )
        with Progress(facts=False) as progress:
            result = profiling.profile(asked, progress)
        if arguments.json:
            document = msgspec.json.format(msgspec.json.encode(result), indent=1)
            sys.stdout.write(document.decode() + "\n")
        else:
            profiletext.show(result)
        return 0
