# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench doctor``."""

from __future__ import annotations

import argparse

from cachebench.machine import doctor


class Doctor:
    """Say what on this machine disturbs or limits the figures, and what to type."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        pass

    def run(self, arguments: argparse.Namespace) -> int:
        for finding in doctor.examine():
            print(doctor.line(finding))
        return 0
