# SPDX-License-Identifier: BSD-3-Clause
"""Which CPU a worker is pinned to."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from cachebench.errors import CachebenchError
from cachebench.machine.tree import Tree, Unknown, isolated_cpus, online_cpus, parse_cpu_list


def allowed_cpus(root: Path = Path("/")) -> tuple[int, ...]:
    """CPUs that this process may be pinned to, in ascending order.

    The affinity mask already respects cgroup cpusets and ``taskset``. It leaves
    out isolated CPUs on a machine booted with ``isolcpus=``, although pinning to
    them is allowed; they are added where isolation is the only reason that the
    mask is not whole, and where the kernel accepts the pinning.
    """
    mask = os.sched_getaffinity(0)
    tree = Tree(root)
    try:
        isolated = set(isolated_cpus(tree))
        others = set(online_cpus(tree)) - isolated
    except Unknown:
        return tuple(sorted(mask))
    if not isolated or mask != others:
        return tuple(sorted(mask))
    return tuple(sorted(mask | {cpu for cpu in isolated if _accepts(cpu, mask)}))


def wanted_cpu(typed: int | None) -> int:
    """The CPU that --cpu names, or else pick_cpu(). Raises CachebenchError if it may not
    be used."""
    if typed is None:
        return pick_cpu()
    if typed not in allowed_cpus():
        allowed = ", ".join(map(str, allowed_cpus()))
        raise CachebenchError(f"--cpu {typed}: this process may use only {allowed}")
    return typed


def pick_cpu(root: Path = Path("/"), allowed: Collection[int] | None = None) -> int:
    """The CPU to pin a worker to, out of ``allowed`` (default: allowed_cpus()).

    An isolated one if there is one: nothing else is scheduled there. Else the
    highest-numbered one of the fastest kind: interrupts, kernel threads and the
    parent process tend to sit on the low numbers, and on a hybrid CPU the
    highest number alone would be an efficiency core.
    """
    tree = Tree(root)
    cpus = set(allowed_cpus(root) if allowed is None else allowed)
    try:
        isolated = cpus.intersection(isolated_cpus(tree))
    except Unknown:
        isolated = set()
    return max(_fastest(tree, isolated or cpus))


def siblings(tree: Tree, cpu: int) -> tuple[int, ...]:
    """All hardware threads of the CPU's core, itself included; raises Unknown."""
    name = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    return parse_cpu_list(tree.text(name))


def _fastest(tree: Tree, cpus: set[int]) -> set[int]:
    """Those of the largest capacity, where the kernel tells CPUs apart.

    ``cpu_core`` is the performance cores' PMU on hybrid Intel CPUs;
    ``cpu_capacity`` is relative speed, 1024 for the fastest kind.
    """
    performance = parse_cpu_list(tree.text_or_empty("/sys/devices/cpu_core/cpus"))
    if cpus.intersection(performance):
        return cpus.intersection(performance)
    folder = "/sys/devices/system/cpu"
    capacity = {cpu: tree.number_or_none(f"{folder}/cpu{cpu}/cpu_capacity") or 0 for cpu in cpus}
    best = max(capacity.values())
    return {cpu for cpu in cpus if capacity[cpu] == best}


def _accepts(cpu: int, mask: set[int]) -> bool:
    """True if the kernel lets this thread move to the CPU; it is moved back at once."""
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        return False
    os.sched_setaffinity(0, mask)
    return True
