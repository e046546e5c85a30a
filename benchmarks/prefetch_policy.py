# SPDX-License-Identifier: BSD-3-Clause
"""What the session prefetch is worth: pointer at 4M sessions with 0, 1 and 2 steps."""

from __future__ import annotations

import sys

from _common import cachebench, machine, table

STEPS = ("0", "1", "2")


def main() -> int:
    cells = []
    for steps in STEPS:
        run = cachebench(
            "--sessions", "4M", "--layout", "pointer", "--session-prefetch", steps, "--no-counters"
        )
        cells.append(run.spread("pointer", "ns_per_lookup"))
    print(f"pointer, 4M sessions, bulk 32, ns a lookup (measured), {machine(run.document)}")
    table([f"{steps} steps" for steps in STEPS], [cells])
    return 0


if __name__ == "__main__":
    sys.exit(main())
