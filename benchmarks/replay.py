# SPDX-License-Identifier: BSD-3-Clause
"""Why each chunk's key sequence is newly drawn: a sequence of 2k or 20k keys, replayed.

The table holds 7.3M sessions. A replayed sequence touches 0.3 % of them at most, which
the caches keep; new keys touch all of them.
"""

from __future__ import annotations

import sys
import time

from _common import table

from cachebench import build, core
from cachebench._core import ffi, lib
from cachebench.model import Experiment

LENGTHS = (2_000, 20_000)
LOOKUPS = 1_000_000
"""In each timing."""
ROUNDS = 7


def main() -> int:
    experiment = Experiment(layouts=("flat",), sessions=7_300_000)
    ops = build.load(None, "flat", experiment.key_size)
    with core.traffic(experiment) as traffic, core.arm(ops, experiment, 1) as arm:
        lib.cb_fill(arm, traffic, experiment.sessions, False, 1, ffi.new("uint64_t *"))
        rows = []
        for length in LENGTHS:
            replayed, fresh = [], []
            for _ in range(ROUNDS):
                replayed.append(_time(arm, traffic, length, new=False))
                fresh.append(_time(arm, traffic, length, new=True))
            rows.append([f"{length:,}", _spread(replayed), _spread(fresh)])
    print("flat, 7.3M sessions, bulk 32, ns a lookup (measured, thread CPU time): median, range")
    table(["keys in the sequence", "replayed", "newly drawn"], rows)
    return 0


def _spread(values: list[float]) -> str:
    values.sort()
    return f"{values[ROUNDS // 2]:.1f} ({values[0]:.1f} … {values[-1]:.1f})"


def _time(arm: core.Pointer, traffic: core.Pointer, length: int, *, new: bool) -> float:
    """Mean over passes of one sequence, the first one not counted."""
    keys = ffi.new("char[]", length * 16)
    lengths = ffi.new("uint16_t[]", length)
    stream = ffi.new("struct cb_stream *", (keys, lengths, length))
    spent = 0
    for number in range(LOOKUPS // length + 1):
        if new or number == 0:
            lib.cb_traffic_draw(traffic, length, keys, lengths, ffi.NULL)
        start = time.thread_time_ns()
        arm.ops.lookup[lib.CB_BULK][2](arm, stream, 32)
        spent += (time.thread_time_ns() - start) if number else 0
    return spent / LOOKUPS


if __name__ == "__main__":
    sys.exit(main())
