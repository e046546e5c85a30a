# SPDX-License-Identifier: BSD-3-Clause
"""The estimates of a run, from a table in the caches to one far larger: wait for memory and floor.

The machine card is measured first if there is none, so that the floors are by a whole one.
"""

from __future__ import annotations

import subprocess
import sys

from _common import cachebench, layouts, machine, table

POINTS = (("1k", "serial"), ("1k", "bulk"), ("4M", "serial"), ("4M", "bulk"))
NAMES = ("flat", "pointer")
FIGURES = ("ns_per_lookup", "memory_wait_share", "ipc_est", "floor_ns_per_lookup", "floor_share")


def main() -> None:
    card = [sys.executable, "-m", "cachebench", "machine"]
    subprocess.run(card, stdout=subprocess.DEVNULL, check=True)
    rows = []
    for sessions, mode in POINTS:
        run = cachebench(*layouts(NAMES), "--sessions", sessions, "--mode", mode, "--no-counters")
        rows += [
            [name, sessions, mode, *(run.text(name, figure) for figure in FIGURES)]
            for name in NAMES
        ]
    print(machine(run.document))
    table(("layout", "sessions", "mode", *FIGURES), rows)


if __name__ == "__main__":
    main()
