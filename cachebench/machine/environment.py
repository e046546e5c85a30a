# SPDX-License-Identifier: BSD-3-Clause
"""The environment part of a result: which machine the figures come from.

``collect`` returns one flat dictionary. Every entry has the same shape,
``{"value": ..., "reason": ...}``: a fact that was read has a value and no
reason; one that could not be read has the value None and the reason. An entry
with both holds what could be read and says what is missing. Nothing in it
identifies the machine or its user: no host name, user name or serial number.

Sources: Linux Documentation/ABI (sysfs-devices-system-cpu, -node,
sysfs-kernel-mm-hugepages), proc(5), os-release(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cachebench.machine.cpus import siblings
from cachebench.machine.jiffies import cpu_times
from cachebench.machine.source import CLOCKSOURCE, Source, number
from cachebench.machine.tree import Tree, Unknown, format_cpu_list, isolated_cpus, online_cpus

CPU = "/sys/devices/system/cpu"
# Arm Ltd part numbers (MIDR_EL1), as arch/arm64/include/asm/cputype.h lists them.
ARM_PARTS = {
    0xD03: "Cortex-A53",
    0xD08: "Cortex-A72",
    0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1",
    0xD40: "Neoverse-V1",
    0xD49: "Neoverse-N2",
    0xD4F: "Neoverse-V2",
    0xD84: "Neoverse-V3",
    0xD8E: "Neoverse-N3",
}
ARM_VENDORS = {
    0x41: "ARM",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x51: "Qualcomm",
    0x61: "Apple",
    0xC0: "Ampere",
}

CAP_SYS_ADMIN, CAP_PERFMON = 21, 38


def collect(root: Path = Path("/"), cpu: int | None = None) -> dict[str, object]:
    """Facts about the machine below ``root`` as plain JSON values.

    ``cpu`` is the CPU whose model, caches and frequency governor are described,
    the lowest online one by default: hybrid CPUs differ from core to core.
    Units are in the names; memory and caches are in bytes, CPU times in jiffies.
    """
    machine = Source(Tree(root), cpu)
    return {name: _entry(read, machine) for name, read in FACTS.items()}


def value(facts: Mapping[str, object], name: str) -> Any:
    """The value of one of the facts, or None where it is unknown."""
    entry = facts.get(name)
    return entry.get("value") if isinstance(entry, dict) else None


Read = Callable[[Source], object]


def _entry(read: Read, machine: Source) -> dict[str, object]:
    try:
        value = read(machine)
    except Unknown as unknown:
        return {"value": None, "reason": str(unknown)}
    if isinstance(value, _Partial):
        return {"value": value.value, "reason": value.reason}
    return {"value": value, "reason": None}


@dataclass(frozen=True)
class _Partial:
    """A value of which something is missing."""

    value: object
    reason: str


def _text(name: str) -> Read:
    return lambda machine: machine.tree.text(name)


def _integer(name: str) -> Read:
    return lambda machine: machine.tree.number(name)


def _vendor(machine: Source) -> str:
    if machine.is_arm:
        code = machine.armnumber("CPU implementer")
        return ARM_VENDORS.get(code, f"implementer {code:#04x}")
    return machine.cpuinfo_value("vendor_id")


def _model_name(machine: Source) -> str:
    if machine.is_arm and "model name" not in machine.cpuinfo:
        part = machine.armnumber("CPU part")
        named = ARM_PARTS.get(part) if _vendor(machine) == "ARM" else None
        return named or f"{_vendor(machine)} part {part:#05x}"
    return machine.cpuinfo_value("model name")


def _family(machine: Source) -> int:
    key = "CPU architecture" if machine.is_arm else "cpu family"
    return number(machine.cpuinfo_value(key), f"{key!r} in /proc/cpuinfo")


def _model(machine: Source) -> int:
    key = "CPU part" if machine.is_arm else "model"
    return number(machine.cpuinfo_value(key), f"{key!r} in /proc/cpuinfo")


def _stepping(machine: Source) -> str:
    if machine.is_arm:
        variant = machine.armnumber("CPU variant")
        return f"r{variant}p{machine.armnumber('CPU revision')}"
    return machine.cpuinfo_value("stepping")


def _architecture(machine: Source) -> str:
    try:
        return machine.tree.text("/proc/sys/kernel/arch")  # from kernel 6.1 on
    except Unknown:
        if machine.tree.is_this_machine:
            return os.uname().machine
        raise


def _threads_per_core(machine: Source) -> int:
    return len(siblings(machine.tree, machine.cpu))


def _caches(machine: Source) -> object:
    """Caches of the CPU, ordered as the kernel lists them.

    ``ways`` 0 in sysfs means unknown on arm64, fully associative on x86; neither
    is a number of ways. Firmware of arm64 servers often tells no geometry at all.
    """
    folder = f"{CPU}/cpu{machine.cpu}/cache"
    caches: list[dict[str, object]] = []
    missing: list[str] = []
    for index in machine.tree.names(folder):
        if not re.fullmatch(r"index\d+", index):
            continue
        where = f"{folder}/{index}"
        tree = machine.tree
        cache: dict[str, object] = {
            "level": tree.number_or_none(f"{where}/level"),
            "type": tree.text_or_empty(f"{where}/type").lower() or None,
            "bytes": _cache_bytes(tree.text_or_empty(f"{where}/size")),
            "ways": tree.number_or_none(f"{where}/ways_of_associativity") or None,
            "sets": tree.number_or_none(f"{where}/number_of_sets") or None,
            "line_bytes": tree.number_or_none(f"{where}/coherency_line_size") or None,
            "shared_by": tree.text_or_empty(f"{where}/shared_cpu_list") or None,
        }
        missing += [f"{key} of {index}" for key, value in cache.items() if value is None]
        caches.append(cache)
    if not caches:
        raise Unknown(f"no caches under {folder}")
    return _Partial(caches, "not told: " + ", ".join(missing)) if missing else caches


def _cache_bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match or not int(match[1]):
        return None
    return int(match[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[match[2]]


def _numa_nodes(machine: Source) -> list[dict[str, object]]:
    nodes: list[dict[str, object]] = []
    for name in machine.tree.names("/sys/devices/system/node"):
        if not re.fullmatch(r"node\d+", name):
            continue
        where = f"/sys/devices/system/node/{name}"
        memory = re.search(r"MemTotal:\s+(\d+) kB", machine.tree.text(f"{where}/meminfo"))
        node: dict[str, object] = {
            "node": int(name[4:]),
            "cpus": machine.tree.text(f"{where}/cpulist"),
            "memory_bytes": int(memory[1]) * 1024 if memory else None,
        }
        nodes.append(node)
    if not nodes:
        raise Unknown("no nodes under /sys/devices/system/node")
    return sorted(nodes, key=lambda node: int(str(node["node"])))


def _distribution(machine: Source) -> str:
    for name in ("/etc/os-release", "/usr/lib/os-release"):
        text = machine.tree.text_or_empty(name)
        found = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
        if found:
            return found[1]
    raise Unknown("no PRETTY_NAME in /etc/os-release")


def _frequency(name: str) -> Read:
    def read(machine: Source) -> str:
        where = f"{CPU}/cpu{machine.cpu}/cpufreq"
        if not machine.tree.exists(where):
            raise _no_cpufreq(machine)
        return machine.tree.text(f"{where}/{name}")

    return read


def _turbo(machine: Source) -> bool:
    try:
        return machine.tree.number(f"{CPU}/intel_pstate/no_turbo") == 0
    except Unknown:
        pass
    try:
        return machine.tree.number(f"{CPU}/cpufreq/boost") == 1
    except Unknown:
        if not machine.tree.exists(f"{CPU}/cpu{machine.cpu}/cpufreq"):
            raise _no_cpufreq(machine) from None
        raise Unknown("the cpufreq driver has no turbo switch") from None


def _no_cpufreq(machine: Source) -> Unknown:
    return Unknown("no cpufreq driver" + (" (virtual machine)" if machine.seems_virtual else ""))


def _chosen(name: str) -> Read:
    """The bracketed word of a sysfs choice: ``always [madvise] never``."""

    def read(machine: Source) -> str:
        text = machine.tree.text(name)
        found = re.search(r"\[(\w+)\]", text)
        if not found:
            raise Unknown(f"no choice in {name}: {text[:40]!r}")
        return found[1]

    return read


def _huge_pages(machine: Source) -> list[dict[str, object]]:
    folder = "/sys/kernel/mm/hugepages"
    pools: list[dict[str, object]] = []
    for name in machine.tree.names(folder):
        match = re.fullmatch(r"hugepages-(\d+)kB", name)
        if match:
            pools.append(
                {
                    "page_bytes": int(match[1]) * 1024,
                    "total": machine.tree.number(f"{folder}/{name}/nr_hugepages"),
                    "free": machine.tree.number(f"{folder}/{name}/free_hugepages"),
                }
            )
    if not pools:
        raise Unknown(f"no pools under {folder}")
    return sorted(pools, key=lambda pool: int(str(pool["page_bytes"])))


def _memory(line: str) -> Read:
    def read(machine: Source) -> int:
        if line not in machine.meminfo:
            raise Unknown(f"no {line} in /proc/meminfo")
        return machine.meminfo[line]

    return read


def _memory_limit(machine: Source) -> int:
    """The smallest limit of the process's memory cgroup and those above it."""
    limits: list[int] = []
    for line in machine.tree.lines("/proc/self/cgroup"):
        _, controllers, path = line.strip().split(":", 2)
        if controllers == "":
            mount, name = "/sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        inside = Path(path.lstrip("/"))
        for folder in (inside, *inside.parents):
            limit = machine.tree.number_or_none(f"{mount}/{folder}/{name}")
            # Version 1 writes "no limit" as the largest multiple of a page.
            if limit is not None and limit < 1 << 62:
                limits.append(limit)
    if not limits:
        raise Unknown("no limit set by a cgroup")
    return min(limits)


def _hypervisor(machine: Source) -> str:
    if not machine.virtual:
        raise Unknown("not a virtual machine")
    if not machine.hypervisor_name:
        raise Unknown("the CPU says it is virtual, nothing names the hypervisor")
    return machine.hypervisor_name


def _dmi(machine: Source) -> str:
    vendor = machine.tree.text("/sys/class/dmi/id/sys_vendor")
    product = machine.tree.text_or_empty("/sys/class/dmi/id/product_name")
    return f"{vendor} {product}" if product else vendor


def _container(machine: Source) -> str:
    if machine.tree.exists("/.dockerenv"):
        return "docker"
    if machine.tree.exists("/run/.containerenv"):
        return "podman"
    named = machine.tree.text_or_empty("/run/systemd/container")
    if named:
        return named
    groups = machine.tree.text_or_empty("/proc/1/cgroup")
    found = re.search(r"docker|kubepods|containerd|libpod|lxc", groups)
    if not found:
        raise Unknown("no sign of a container")
    return found[0]


def _load_average(machine: Source) -> list[float]:
    words = machine.tree.text("/proc/loadavg").split()
    try:
        return [float(word) for word in words[:3]]
    except ValueError:
        raise Unknown("/proc/loadavg is not three numbers") from None


def _pmu_devices(machine: Source) -> list[str]:
    """Names of the core PMUs: cpu, cpu_core and cpu_atom, or armv8_*."""
    folder = "/sys/bus/event_source/devices"
    names = machine.tree.names(folder)
    if not names:
        raise Unknown(f"nothing under {folder}")
    found = [name for name in names if re.fullmatch(r"cpu|cpu_core|cpu_atom|armv\d.*", name)]
    if not found:
        raise Unknown(
            f"no CPU PMU under {folder}"
            + (" (virtual machine without one)" if machine.seems_virtual else "")
        )
    return found


def _perf_privileged(machine: Source) -> bool:
    """True if perf_event_paranoid does not bind this process: CAP_PERFMON or CAP_SYS_ADMIN."""
    found = re.search(
        r"^CapEff:\s+([0-9a-f]+)", machine.tree.text("/proc/self/status"), re.MULTILINE
    )
    if not found:
        raise Unknown("no CapEff in /proc/self/status")
    return bool(int(found[1], 16) & (1 << CAP_SYS_ADMIN | 1 << CAP_PERFMON))


def _cpu_list(read: Callable[[Tree], tuple[int, ...]]) -> Read:
    return lambda machine: format_cpu_list(read(machine.tree))


def _nohz_full(machine: Source) -> str:
    text = machine.tree.text(f"{CPU}/nohz_full")
    return "" if text == "(null)" else text  # kernels print a null mask so


FACTS: dict[str, Read] = {
    "cpu_vendor": _vendor,
    "cpu_model_name": _model_name,
    "cpu_family": _family,
    "cpu_model": _model,
    "cpu_stepping": _stepping,
    "microcode": lambda machine: machine.cpuinfo_value("microcode"),
    "machine": _architecture,
    "online_cpus": _cpu_list(online_cpus),
    "threads_per_core": _threads_per_core,
    "caches": _caches,
    "numa_nodes": _numa_nodes,
    "kernel": _text("/proc/sys/kernel/osrelease"),
    "distribution": _distribution,
    "governor": _frequency("scaling_governor"),
    "frequency_driver": _frequency("scaling_driver"),
    "turbo": _turbo,
    "thp": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
    "thp_defrag": _chosen("/sys/kernel/mm/transparent_hugepage/defrag"),
    "thp_page_bytes": _integer("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"),
    "huge_pages": _huge_pages,
    "memory_total_bytes": _memory("MemTotal"),
    "memory_available_bytes": _memory("MemAvailable"),
    "memory_limit_bytes": _memory_limit,
    "virtual_machine": lambda machine: machine.virtual,
    "hypervisor": _hypervisor,
    "dmi": _dmi,
    "container": _container,
    "cpu_jiffies": lambda machine: cpu_times(machine.tree.root),
    "load_average": _load_average,
    "isolated_cpus": _cpu_list(isolated_cpus),
    "nohz_full": _nohz_full,
    "pmu_devices": _pmu_devices,
    "perf_event_paranoid": _integer("/proc/sys/kernel/perf_event_paranoid"),
    "perf_privileged": _perf_privileged,
    "nmi_watchdog": _integer("/proc/sys/kernel/nmi_watchdog"),
    "clocksource": _text(f"{CLOCKSOURCE}/current_clocksource"),
}
