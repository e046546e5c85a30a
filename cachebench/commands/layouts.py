# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench layouts``."""

from __future__ import annotations

import argparse

from cachebench import build, catalogue, sizing
from cachebench.experiment import DEFAULT
from cachebench.report import terminal


class Layouts:
    """List the built-in layouts: what each is, its prefetch steps, its bytes a session."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        pass

    def run(self, arguments: argparse.Namespace) -> int:
        rows = []
        for layout in catalogue.builtin_layouts():
            ops = build.load(None, layout.name, DEFAULT.key_size)
            size = sizing.footprint(ops, DEFAULT)
            rows.append(
                (
                    layout.name,
                    str(ops.prefetch_steps),
                    f"{size.per_session(size.growing):.0f}",
                    catalogue.description(layout),
                )
            )
        terminal.layouts(rows)
        return 0
