# SPDX-License-Identifier: BSD-3-Clause
"""The line trace's speed: whole commands, and lookups alone beside callgrind's.

Three runs of each, of 1M sessions and 1M lookups after 250k of warm-up. Callgrind's
lookups alone are a run with them less a run with one lookup, which starts and fills
alike; the median of differences of pairs is shown. Without valgrind that half is left
out and says so.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time

import msgspec
from _common import table

from cachebench import callgrind, tracing, valgrind
from cachebench.analyze import lines
from cachebench.model import Experiment, TraceResult

SESSIONS, LOOKUPS, WARM_UP = 1_000_000, 1_000_000, 250_000
RUNS = 3
GEOMETRY = "l1=48k/12,llc=32M/16"


def traced(layout: str) -> tuple[float, float, float]:
    """Seconds of the command and of its lookups; ns per access."""
    command = [sys.executable, "-m", "cachebench", "trace", "--json", "--layout", layout]
    start = time.monotonic()
    done = subprocess.run(
        [*command, "--geometry", GEOMETRY, "--demand-only"], stdout=subprocess.PIPE, check=True
    )
    whole = time.monotonic() - start
    (result,) = msgspec.json.decode(done.stdout, type=TraceResult).results
    return whole, result.sample.seconds, lines.ns_per_access(result.sample)


def under_callgrind(layout: str, lookups: int, warm_up: int) -> float:
    """Seconds of one run of the C driver with the two levels of cache."""
    experiment = Experiment(layouts=(layout,), sessions=SESSIONS)
    asked = tracing.Asked(experiment, GEOMETRY)
    shape = callgrind.accept(tracing.simulated_memory(asked))
    start = time.monotonic()
    callgrind.misses(experiment, layout, None, shape, lookups, warm_up)
    return time.monotonic() - start


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} … {max(values):.2f})"


def main() -> None:
    has_valgrind = shutil.which("valgrind") is not None
    print(valgrind.find().name if has_valgrind else "valgrind is not installed: no comparison")
    rows = []
    for layout in ("flat", "pointer"):
        whole, lookups, access, theirs = [], [], [], []
        for _ in range(RUNS):
            seconds = traced(layout)
            whole.append(seconds[0])
            lookups.append(seconds[1])
            access.append(seconds[2])
            if has_valgrind:
                theirs.append(
                    under_callgrind(layout, LOOKUPS, WARM_UP) - under_callgrind(layout, 1, 0)
                )
        rows.append(
            (layout, *map(spread, (whole, lookups, access)), spread(theirs) if theirs else "-")
        )
    table(("layout", "whole command s", "lookups s", "ns an access", "callgrind's lookups s"), rows)


if __name__ == "__main__":
    main()
