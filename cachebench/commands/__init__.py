# SPDX-License-Identifier: BSD-3-Clause
"""The commands: each a class with a docstring, ``prepare_parser`` and ``run``."""

from __future__ import annotations

import argparse
from typing import Protocol

from cachebench.commands.doctor import Doctor
from cachebench.commands.export import Export
from cachebench.commands.layouts import Layouts
from cachebench.commands.machine import Machine
from cachebench.commands.map import Map
from cachebench.commands.profile import Profile
from cachebench.commands.run import Run
from cachebench.commands.show import Show
from cachebench.commands.trace import Trace


class Command(Protocol):
    """Named after its class, in lower case; helped by its docstring."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


COMMANDS: tuple[Command, ...] = (
    Run(),
    Show(),
    Trace(),
    Profile(),
    Export(),
    Layouts(),
    Map(),
    Machine(),
    Doctor(),
)
