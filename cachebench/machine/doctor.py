# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench doctor``: what this machine does to the figures, and what to type.

One small class per condition. A condition looks at a Machine, which is plain
data, and returns one Finding; it runs nothing and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from cachebench.machine.cpus import pick_cpu, siblings
from cachebench.machine.environment import collect
from cachebench.machine.tools import Tools, ask_tools
from cachebench.machine.tree import Tree, Unknown, format_cpu_list, parse_cpu_list

State = Literal["ok", "note", "bad"]
CPU = "/sys/devices/system/cpu"
HUGE = "/sys/kernel/mm/hugepages"


@dataclass(frozen=True)
class Finding:
    """What was found of one condition.

    ``ok``: nothing to do. ``note``: figures hold, with the limit that ``meaning``
    states. ``bad``: figures are missing or misleading until it is changed.
    """

    name: str
    state: State
    found: str
    meaning: str
    advice: str = ""
    """What to type or do; empty where there is nothing to do."""


def line(finding: Finding) -> str:
    """The finding as one line of text."""
    text = f"{finding.state:<4}  {finding.name:<9}  {finding.found}: {finding.meaning}"
    return f"{text} -> {finding.advice}" if finding.advice else text


@dataclass(frozen=True)
class Machine:
    """All that conditions look at."""

    facts: Mapping[str, object]
    """As environment.collect() gives them."""
    tools: Tools
    cpu: int
    """Where workers will be pinned."""
    core: tuple[int, ...]
    """Hardware threads of that CPU's core; empty if unknown."""

    def value(self, name: str) -> object:
        entry = self.facts[name]
        assert isinstance(entry, dict)
        value: object = entry["value"]
        return value

    def reason(self, name: str) -> str:
        entry = self.facts[name]
        assert isinstance(entry, dict)
        return str(entry["reason"])

    def integer(self, name: str) -> int | None:
        value = self.value(name)
        return value if isinstance(value, int) else None

    def items(self, name: str) -> list[dict[str, object]]:
        """A list of objects; empty if unknown."""
        value = self.value(name)
        return list(value) if isinstance(value, list) else []

    @property
    def virtual(self) -> bool:
        return self.value("virtual_machine") is True

    def install(self, *, debian: str, ubuntu: str, fedora: str) -> str:
        """The distribution's command that installs a package."""
        distribution = str(self.value("distribution"))
        if "Ubuntu" in distribution:
            return f"sudo apt install {ubuntu}"
        if "Debian" in distribution:
            return f"sudo apt install {debian}"
        if any(name in distribution for name in ("Fedora", "Red Hat", "CentOS", "Rocky", "Alma")):
            return f"sudo dnf install {fedora}"
        return f"install {fedora} with the package manager of this distribution"


class Condition(Protocol):
    """One property of the machine that decides what figures are worth."""

    @property
    def name(self) -> str: ...

    def look(self, machine: Machine) -> Finding: ...


def examine(root: Path = Path("/"), tools: Tools | None = None) -> tuple[Finding, ...]:
    """Looks at every condition of the machine below ``root``.

    ``tools`` is what the programs answered; by default they are asked.
    """
    tree = Tree(root)
    if tree.is_this_machine:
        cpu = pick_cpu(root)
    else:  # whose affinity mask nobody knows
        online = parse_cpu_list(tree.text_or_empty(f"{CPU}/online"))
        cpu = pick_cpu(root, online or (0,))
    try:
        core = siblings(tree, cpu)
    except Unknown:
        core = ()
    machine = Machine(collect(root, cpu), tools or ask_tools(), cpu, core)
    return tuple(condition.look(machine) for condition in CONDITIONS)


class Pmu:
    name = "pmu"
    lost = (
        "cycles, instructions and cache misses are not supported; timers and software events remain"
    )

    def look(self, machine: Machine) -> Finding:
        devices = machine.value("pmu_devices")
        if not isinstance(devices, list):
            advice = "dmesg | grep -i pmu"
            if machine.virtual:
                advice = (
                    "have the host expose a virtual PMU (QEMU: -cpu host,pmu=on), "
                    "or use a bare-metal or whole-socket instance"
                )
            return Finding(self.name, "bad", machine.reason("pmu_devices"), self.lost, advice)
        named = ", ".join(str(device) for device in devices)
        if machine.tools.cycles_counted:
            return Finding(self.name, "ok", f"{named} counts", "hardware figures are measured")
        if machine.tools.cycles_counted is None:
            return Finding(
                self.name,
                "note",
                f"{named} is there, not asked for want of perf",
                "hardware figures are not supported until perf is there",
            )
        found = f"{named} is there, but counts nothing ({machine.tools.cycles_reason})"
        return Finding(self.name, "bad", found, self.lost, "perf stat -e cycles:u true")


class Perf:
    name = "perf"

    def look(self, machine: Machine) -> Finding:
        version = machine.tools.perf
        if version is None:
            return Finding(
                self.name,
                "bad",
                machine.tools.perf_reason.partition(";")[0],
                "no counter is read, not even page faults; timers remain",
                machine.install(
                    debian="linux-perf", ubuntu="linux-tools-$(uname -r)", fedora="perf"
                ),
            )
        level = machine.integer("perf_event_paranoid")
        if level is None:
            found = f"{version}, {machine.reason('perf_event_paranoid')}"
            return Finding(self.name, "note", found, "whether counting is allowed is not known")
        found = f"{version}, paranoid {level}"
        if level <= 2:
            return Finding(self.name, "ok", found, "workers may count their own user space")
        if machine.value("perf_privileged") is True:
            return Finding(self.name, "ok", found, "no limit, this process has CAP_PERFMON")
        advice = "sudo sysctl kernel.perf_event_paranoid=2"
        if machine.value("container"):
            advice += " on the host, and start the container with --cap-add PERFMON"
        return Finding(
            self.name, "bad", found, "this user may open no counter; only timers remain", advice
        )


class Governor:
    name = "governor"

    def look(self, machine: Machine) -> Finding:
        governor = machine.value("governor")
        if governor is None:
            return _clock_unknown(self.name, machine, "governor")
        found = f"{governor} ({machine.value('frequency_driver')})"
        if governor == "performance":
            return Finding(self.name, "ok", found, "the clock does not follow the load")
        return Finding(
            self.name,
            "note",
            found,
            "the clock follows the load; levels drift, interleaved ratios hold",
            f"echo performance | sudo tee {CPU}/cpu*/cpufreq/scaling_governor",
        )


class Turbo:
    name = "turbo"

    def look(self, machine: Machine) -> Finding:
        turbo = machine.value("turbo")
        if turbo is None:
            return _clock_unknown(self.name, machine, "turbo")
        if not turbo:
            return Finding(self.name, "ok", "off", "the clock stays at its base")
        intel = str(machine.value("frequency_driver")).startswith("intel_")
        switch = (
            "1 | sudo tee {}/intel_pstate/no_turbo" if intel else "0 | sudo tee {}/cpufreq/boost"
        )
        return Finding(
            self.name,
            "note",
            "on",
            "the clock depends on heat and neighbours; levels drift, interleaved ratios hold",
            "echo " + switch.format(CPU),
        )


def _clock_unknown(name: str, machine: Machine, fact: str) -> Finding:
    who = "the host sets the clock" if machine.virtual else "the clock may not be fixed"
    meaning = f"{who}; levels may drift, interleaved ratios hold"
    return Finding(name, "note", machine.reason(fact), meaning)


class Smt:
    name = "smt"

    def look(self, machine: Machine) -> Finding:
        others = [cpu for cpu in machine.core if cpu != machine.cpu]
        if others:
            return Finding(
                self.name,
                "note",
                f"CPU {machine.cpu} shares its core with CPU {format_cpu_list(others)}",
                "a busy sibling takes cache and outstanding misses from the worker",
                f"echo off | sudo tee {CPU}/smt/control",
            )
        if not machine.core:
            reason = machine.reason("threads_per_core")
            return Finding(self.name, "note", reason, "a sibling may take part of the core")
        if machine.virtual:
            return Finding(
                self.name,
                "note",
                "one thread per core, as the hypervisor shows it",
                "another guest may run on the same core unseen; trust interleaved ratios only",
            )
        return Finding(self.name, "ok", "one thread per core", "the worker has its core alone")


class Isolation:
    name = "isolation"

    def look(self, machine: Machine) -> Finding:
        isolated = machine.value("isolated_cpus")
        if isolated is None:
            reason = machine.reason("isolated_cpus")
            return Finding(self.name, "note", reason, "other tasks may cut in on the worker")
        if machine.cpu in parse_cpu_list(str(isolated)):
            return Finding(
                self.name,
                "ok",
                f"CPU {machine.cpu} of {isolated}",
                "nothing else is scheduled beside the worker",
            )
        if isolated:
            return Finding(
                self.name,
                "note",
                f"CPU {isolated}, not allowed to this process",
                f"workers run on CPU {machine.cpu}, where other tasks cut in; intervals widen",
                f"taskset -c {isolated} cachebench ..., or widen the cpuset",
            )
        advice = ""
        if len(parse_cpu_list(str(machine.value("online_cpus")))) > 1:
            core = format_cpu_list(machine.core or (machine.cpu,))
            advice = f"boot with isolcpus={core} nohz_full={core} rcu_nocbs={core}"
        return Finding(
            self.name,
            "note",
            "none",
            f"workers run on CPU {machine.cpu}, where other tasks cut in; intervals widen",
            advice,
        )


class Numa:
    name = "numa"

    def look(self, machine: Machine) -> Finding:
        nodes = machine.items("numa_nodes")
        if not nodes:
            reason = machine.reason("numa_nodes")
            return Finding(self.name, "note", reason, "where memory lies is not known")
        if len(nodes) == 1:
            return Finding(self.name, "ok", "1 node", "all memory is equally far")
        own = [n["node"] for n in nodes if machine.cpu in parse_cpu_list(str(n["cpus"]))]
        found = f"{len(nodes)} nodes"
        if own:
            found += f", CPU {machine.cpu} on node {own[0]}"
        return Finding(
            self.name,
            "note",
            found,
            "a line of another node costs more; memory is bound to the worker's node "
            "unless --node says otherwise",
            "numactl --hardware shows the distances",
        )


class Thp:
    name = "thp"

    def look(self, machine: Machine) -> Finding:
        mode = machine.value("thp")
        if mode is None:
            reason = machine.reason("thp")
            return Finding(self.name, "bad", reason, "--pages thp gets 4 KiB pages")
        if mode == "never":
            return Finding(
                self.name,
                "bad",
                "never",
                "--pages thp, the default, gets 4 KiB pages, and lookups pay for page walks",
                "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
            )
        size = machine.integer("thp_page_bytes")
        pages = f"{size >> 20} MiB pages" if size else "huge pages"
        return Finding(self.name, "ok", str(mode), f"--pages thp gets {pages}")


@dataclass(frozen=True)
class HugePool:
    """The pool of one size of huge pages."""

    name: str
    page_bytes: int
    suggestion: int
    """Pages to add: 2 GiB hold 8M sessions of one line with their table."""
    otherwise: str = ""

    def look(self, machine: Machine) -> Finding:
        option = f"--pages {self.name.removeprefix('pages-')}"
        sizes = {pool["page_bytes"]: pool for pool in machine.items("huge_pages")}
        if self.page_bytes not in sizes:
            return Finding(self.name, "note", "no pool of this size", f"{option} is refused")
        free, total = (int(str(sizes[self.page_bytes][key])) for key in ("free", "total"))
        found = f"{free} of {total} pages free"
        if free:
            return Finding(self.name, "ok", found, f"{option} can be had")
        file = f"{HUGE}/hugepages-{self.page_bytes // 1024}kB/nr_hugepages"
        return Finding(
            self.name,
            "note",
            found,
            f"{option} is refused; --pages thp needs no pool",
            f"echo {total + self.suggestion} | sudo tee {file}{self.otherwise}",
        )


class VirtualMachine:
    name = "vm"

    def look(self, machine: Machine) -> Finding:
        virtual = machine.value("virtual_machine")
        container = machine.value("container")
        inside = f", in a container ({container})" if container else ""
        if virtual is None:
            found = machine.reason("virtual_machine") + inside
            return Finding(
                self.name, "note", found, "if it is one, levels hold for this guest only"
            )
        if virtual:
            return Finding(
                self.name,
                "note",
                str(machine.value("hypervisor") or "unnamed hypervisor") + inside,
                "caches, memory and clock are shared; levels hold here only, "
                "interleaved ratios travel",
            )
        if container:
            meaning = "the kernel's settings are the host's; change them there"
            return Finding(self.name, "note", f"no{inside}", meaning)
        return Finding(self.name, "ok", "no", "the machine is not shared with other guests")


class Steal:
    """Time the hypervisor gave to others, as a share of what the CPUs wanted since boot."""

    name = "steal"
    noted, bad = 0.01, 0.05

    def look(self, machine: Machine) -> Finding:
        times = machine.value("cpu_jiffies")
        if not isinstance(times, dict):
            return Finding(
                self.name, "note", machine.reason("cpu_jiffies"), "stolen time would go unseen"
            )
        wanted = sum(times.values()) - times["idle"] - times["iowait"]
        share = times["steal"] / wanted if wanted else 0.0
        found = f"{share:.1%} of busy time since boot"
        if share >= self.noted:
            return Finding(
                self.name,
                "bad" if share >= self.bad else "note",
                found,
                "wall time and percentiles are inflated, caches are flushed by other guests",
                "use an instance with dedicated CPUs",
            )
        if machine.value("virtual_machine") is False:
            return Finding(self.name, "ok", found, "no hypervisor takes time")
        if machine.virtual and not times["steal"]:
            return Finding(self.name, "ok", found, "none told; some hosts never tell")
        return Finding(self.name, "ok", found, "other guests hardly cut in")


class Load:
    """Load average of the last minute against the number of CPUs."""

    name = "load"

    def look(self, machine: Machine) -> Finding:
        load = machine.value("load_average")
        cpus = len(parse_cpu_list(str(machine.value("online_cpus"))))
        if not isinstance(load, list) or not cpus:
            reason = machine.reason("online_cpus" if load else "load_average")
            return Finding(self.name, "note", reason, "other work would go unseen")
        found = f"{load[0]:.2f} on {cpus} CPU{'s' if cpus > 1 else ''}"
        if load[0] < max(0.5, 0.1 * cpus):
            return Finding(self.name, "ok", found, "the machine is quiet")
        if load[0] < cpus:
            meaning = "other work shares the last-level cache and memory bandwidth"
            return Finding(self.name, "note", found, meaning, "top, and stop what can wait")
        meaning = "no CPU is free; intervals widen and verdicts become inconclusive"
        return Finding(self.name, "bad", found, meaning, "top, and stop what can wait")


class Compiler:
    name = "compiler"

    def look(self, machine: Machine) -> Finding:
        if machine.tools.compiler:
            return Finding(
                self.name, "ok", machine.tools.compiler, "plug-ins and traces can be built"
            )
        return Finding(
            self.name,
            "bad",
            "no cc",
            "built-in layouts run; layouts of your own, --stages and traces cannot be built",
            machine.install(debian="gcc libc6-dev", ubuntu="gcc libc6-dev", fedora="gcc"),
        )


class Valgrind:
    name = "valgrind"

    def look(self, machine: Machine) -> Finding:
        if machine.tools.valgrind:
            version = machine.tools.valgrind.removeprefix("valgrind-")
            return Finding(self.name, "ok", version, "instructions can be counted without a PMU")
        return Finding(
            self.name,
            "note",
            "not found",
            "no instruction counts where there is no PMU",
            machine.install(debian="valgrind", ubuntu="valgrind", fedora="valgrind"),
        )


CONDITIONS: tuple[Condition, ...] = (
    Pmu(),
    Perf(),
    Governor(),
    Turbo(),
    Smt(),
    Isolation(),
    Numa(),
    Thp(),
    HugePool("pages-2m", 2 << 20, 1024),
    HugePool("pages-1g", 1 << 30, 2, ", or boot with hugepagesz=1G hugepages=2"),
    VirtualMachine(),
    Steal(),
    Load(),
    Compiler(),
    Valgrind(),
)
