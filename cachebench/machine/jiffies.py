# SPDX-License-Identifier: BSD-3-Clause
"""CPU time by kind, from /proc/stat (proc(5))."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cachebench.machine.tree import Tree, Unknown

CPU_TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Columns of /proc/stat, in jiffies. Guest time is already part of user and nice."""


def cpu_times(root: Path = Path("/"), cpu: int | None = None) -> dict[str, int]:
    """Jiffies since boot by kind, of one CPU or of all together; raises Unknown."""
    wanted = "cpu" if cpu is None else f"cpu{cpu}"
    for line in Tree(root).lines("/proc/stat"):
        name, *columns = line.split()
        if name == wanted:
            if len(columns) < len(CPU_TIMES) or not all(c.isdigit() for c in columns):
                raise Unknown("/proc/stat has no steal column")
            return dict(zip(CPU_TIMES, map(int, columns), strict=False))
        if not name.startswith("cpu"):
            break
    raise Unknown(f"no line {wanted} in /proc/stat")


def steal_share(before: Mapping[str, int], after: Mapping[str, int]) -> float | None:
    """Share of the time wanted between two cpu_times() that the hypervisor gave to others.

    Idle time does not count: a CPU that wants nothing cannot be robbed. None if
    no busy or stolen jiffy passed in between (a jiffy is 1 to 10 ms).
    """
    passed = {name: after[name] - before[name] for name in CPU_TIMES}
    wanted = sum(passed.values()) - passed["idle"] - passed["iowait"]
    return passed["steal"] / wanted if wanted > 0 else None
