"""Why each chunk's key sequence is newly drawn: one sequence of 20k keys, replayed.

The table holds 7.3M sessions. A replayed sequence touches 0.3 % of them, which
the caches keep; new keys touch all of them.
"""

from __future__ import annotations

import sys
import time

from cachebench import build, core
from cachebench._core import ffi, lib
from cachebench.model import Experiment

LOOKUPS = 20_000
PASSES = 50
ROUNDS = 7


def main() -> int:
    experiment = Experiment(layouts=("flat",), sessions=7_300_000)
    ops = build.load(None, "flat", experiment.key_size)
    with core.traffic(experiment) as traffic, core.arm(ops, experiment, 1) as arm:
        lib.cb_fill(arm, traffic, experiment.sessions, False, 1, ffi.new("uint64_t *"))
        replayed, fresh = [], []
        for _ in range(ROUNDS):
            replayed.append(_time(arm, traffic, new=False))
            fresh.append(_time(arm, traffic, new=True))
    print("flat, 7.3M sessions, bulk 32, ns a lookup (measured, thread CPU time)")
    for name, values in (("replayed", replayed), ("newly drawn", fresh)):
        values.sort()
        print(f"{name}: {values[ROUNDS // 2]:.1f} ({values[0]:.1f} … {values[-1]:.1f})")
    return 0


def _time(arm: core.Pointer, traffic: core.Pointer, *, new: bool) -> float:
    """Mean over passes of 20k lookups, the first one not counted."""
    keys = ffi.new("char[]", LOOKUPS * 16)
    lengths = ffi.new("uint16_t[]", LOOKUPS)
    stream = ffi.new("struct cb_stream *", (keys, lengths, LOOKUPS))
    spent = 0
    for number in range(PASSES + 1):
        if new or number == 0:
            lib.cb_traffic_draw(traffic, LOOKUPS, keys, lengths, ffi.NULL)
        start = time.thread_time_ns()
        arm.ops.lookup[lib.CB_BULK][2](arm, stream, 32)
        spent += (time.thread_time_ns() - start) if number else 0
    return spent / (PASSES * LOOKUPS)


if __name__ == "__main__":
    sys.exit(main())
