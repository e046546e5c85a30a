# SPDX-License-Identifier: BSD-3-Clause
"""Time and memory of a whole run of each layout, at 8M sessions unless told otherwise."""

from __future__ import annotations

import sys

from _common import Run, cachebench, machine, table

NAMES = ("embedded", "flat", "hotcold", "packed", "index32", "pointer", "flat5", "soa")


def main() -> int:
    sessions = sys.argv[1] if len(sys.argv) > 1 else "8M"
    rows = []
    for name in NAMES:
        run = cachebench("--sessions", sessions, "--layout", name)
        rows.append(
            [
                name,
                run.spread(name, "ns_per_lookup"),
                f"{run.figure(name, 'bytes_per_session'):.0f}",
                f"{run.peak_bytes / 1e9:.2f}",
                f"{run.figure(name, 'fill_ns_per_session') * _count(run) / 1e9:.2f}",
                f"{run.seconds:.1f}",
            ]
        )
    print(f"{sessions} sessions, bulk 32, transparent huge pages, {machine(run.document)}")
    table(
        [
            "layout",
            "ns a lookup (measured)",
            "B a session (computed)",
            "peak GB (measured)",
            "fill s (measured)",
            "whole run s (measured)",
        ],
        rows,
    )
    return 0


def _count(run: Run) -> int:
    return int(run.document["spec"]["sessions"])


if __name__ == "__main__":
    sys.exit(main())
