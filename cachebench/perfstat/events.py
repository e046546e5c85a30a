# SPDX-License-Identifier: BSD-3-Clause
"""Which events to count for which figure, on which CPU.

The groups of hardware events were written from kernel and intel/perfmon sources
and from recorded output of perf. They were not run on the CPUs they are for. The
software group was run. Whatever the tables say, :func:`~cachebench.perfstat.probe.probe`
asks the machine before anything is counted, and only rows that ran all of the
time are used.

Rules of choice:

* By name and model, never by raw code across models: code 0x60 became 0x20 and
  0x08 became 0x12 on Golden Cove, while E-cores keep the old ones.
* One group a process, small enough that nothing shares a counter: at most two
  general-purpose counters beside ``cycles`` and ``instructions`` on Intel, which has
  four even where SMT is on, and five of six on AMD and ARM, since the NMI watchdog
  may hold one. A hypervisor may offer fewer; the rows then say so and are refused.
* Hardware events count in user mode only (``:u``), which paranoid level 2 permits
  and which leaves out the system calls of the control pipe.
* Where no event counts what a figure means, the figure is unavailable with its
  reason. ``LLC-load-misses`` is never used: AMD has none, and Intel's and ARM's
  mean other things by model and kernel.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from cachebench.perfstat.cpumodel import UNKNOWN, CpuModel, cpu_model

__all__ = [
    "FIGURES",
    "BackendShare",
    "CpuModel",
    "Event",
    "Group",
    "Role",
    "backend_share",
    "cpu_model",
    "groups",
    "unavailable",
]

Role = Literal[
    "cycles",
    "instructions",
    "branches",
    "branch_misses",
    "cache_misses",
    "l1d_misses",
    "llc_misses",
    "dtlb_walks",
    "backend_stalls",
    "slots",
    "backend_slots",
    "page_faults",
    "context_switches",
    "cpu_migrations",
    "task_clock",
]

FIGURES = (
    "cycles",
    "instructions",
    "ipc",
    "branches",
    "branch_misses",
    "cache_misses",
    "l1d_misses",
    "llc_misses",
    "dtlb_walks",
    "backend_stall_share",
)
"""What the hardware groups can serve; the keys of :func:`unavailable`."""


@dataclass(frozen=True)
class Event:
    """An event as perf is asked for it, the figure it serves, and what it really counts here."""

    perf_name: str
    role: Role
    note: str


@dataclass(frozen=True)
class Group:
    """Events counted together in one process.

    Events of one role are parts of one figure, to be added. ``braced`` groups are
    passed to perf in braces, and fail as a whole if one event is not supported;
    only the topdown events need that (``slots`` must lead them). Elsewhere the
    rule that every row ran all of the time already says that the events counted
    over the same time.
    """

    name: str
    events: tuple[Event, ...]
    braced: bool = False


@dataclass(frozen=True)
class BackendShare:
    """``backend_stall_share`` = numerator / (factor x denominator)."""

    numerator: Role
    denominator: Role
    factor: int
    text: str

    def of(self, values: Mapping[str, float]) -> float | None:
        """The share, from counts by role; None where one is absent or the result is no share."""
        above, below = values.get(self.numerator), values.get(self.denominator)
        if above is None or below is None or below <= 0 or above < 0:
            return None
        share = above / (self.factor * below)
        return share if share <= 1.0 else None


SOFTWARE = Group(
    "software",
    (
        Event("page-faults", "page_faults", "page faults of the process, kernel count"),
        Event(
            "context-switches",
            "context_switches",
            "context switches, including one for each message of the control pipe",
        ),
        Event("cpu-migrations", "cpu_migrations", "moves of the thread to another CPU"),
        Event("task-clock", "task_clock", "milliseconds of CPU time, user and kernel"),
    ),
)

_SKYLAKE = {"skylake", "skylake-x", "cascadelake-x", "cooperlake-x"}
_SUNNY_COVE = {"icelake", "icelake-x", "rocketlake", "tigerlake"}
_GOLDEN_COVE = {"sapphire-rapids", "emerald-rapids", "granite-rapids"}
_GOLDEN_COVE_HYBRID = {"alderlake", "raptorlake", "meteorlake"}
_GRACEMONT_HYBRID = {"alderlake", "raptorlake"}
_CRESTMONT = {"sierra-forest", "grand-ridge"}
_ARM_WITH_LMISS = {"neoverse-v1", "neoverse-n2", "neoverse-v2"}
_ARM_KNOWN = {"neoverse-n1", *_ARM_WITH_LMISS}

_CYCLES = "core clock cycles in user mode (not TSC cycles)"
_INSTRUCTIONS = "instructions retired in user mode"
_BRANCHES = {
    "intel": "branch instructions retired",
    "amd": "branch instructions retired",
    "arm": "branches retired (BR_RETIRED), or writes of the program counter where it is absent",
}
_BRANCH_MISSES = {
    "intel": "mispredicted branch instructions retired",
    "amd": "mispredicted branch instructions retired",
    "arm": "mispredicted or unpredicted branches, speculative ones too (BR_MIS_PRED)",
}
_CACHE_MISSES = {
    "intel": (
        "LONGEST_LAT_CACHE.MISS: requests of this core that miss the last-level cache, "
        "speculative ones and some prefetches included"
    ),
    "amd": "L2 misses of data and instructions, not misses of the last-level cache",
    "arm": "L1D_CACHE_REFILL: lines brought into L1D for loads and stores, not LLC misses",
}
_UNKNOWN_MEANING = "as the kernel's driver for this CPU defines it; the meaning is not known here"

_NO_BACKEND_SKYLAKE = (
    "this CPU has no slots counter; its top-down formula needs counts of the whole core"
)
_NO_BACKEND_AMD = (
    "the generic stalled-cycles-backend of this CPU counts instruction-fetch back-pressure "
    "(Zen 1) or does not exist, and no event counts slots lost to the backend"
)
_NOT_KNOWN = "the events of this CPU model are not known here"
_NO_COUNTERS = "each kind of core has counters of its own, and their names are not known here"
_PREFETCH_NOTE = "a line that a prefetch brought in time is not counted"


def groups(
    model: CpuModel,
    kernel_release: str = "",
    pmus: Collection[str] | None = None,
    core: Literal["core", "atom"] = "core",
) -> tuple[Group, ...]:
    """The groups to count on ``model``, software first.

    ``kernel_release`` is that of ``uname -r``; ``pmus`` the names below
    ``/sys/bus/event_source/devices``, which tell a hybrid CPU whose E-cores are off
    or hidden from one where they are on (None: as the model says). ``core`` is the
    kind of core that the worker is pinned to on a hybrid CPU; on the other kind its
    events read ``<not counted>``.
    """
    if model.vendor == "arm" and model.hybrid:
        return (SOFTWARE,)
    plan = _Plan(model, kernel_release, pmus, core)
    return (SOFTWARE, *plan.groups())


def unavailable(
    model: CpuModel,
    kernel_release: str = "",
    pmus: Collection[str] | None = None,
    core: Literal["core", "atom"] = "core",
) -> dict[str, str]:
    """The figures of :data:`FIGURES` that no group serves on this CPU, with the reason."""
    if model.vendor == "arm" and model.hybrid:
        return dict.fromkeys(FIGURES, _NO_COUNTERS)
    plan = _Plan(model, kernel_release, pmus, core)
    return plan.unavailable()


def backend_share(
    model: CpuModel,
    kernel_release: str = "",
    pmus: Collection[str] | None = None,
    core: Literal["core", "atom"] = "core",
) -> BackendShare | None:
    """How ``backend_stall_share`` follows from the counts; None where it is unavailable."""
    if model.vendor == "arm" and model.hybrid:
        return None
    return _Plan(model, kernel_release, pmus, core).share()


class _Plan:
    """The choice for one CPU: the kind of core decides, not only the model's name."""

    def __init__(
        self,
        model: CpuModel,
        kernel_release: str,
        pmus: Collection[str] | None,
        core: Literal["core", "atom"],
    ) -> None:
        self.vendor = model.vendor
        self.kernel = _kernel(kernel_release)
        split = model.hybrid if pmus is None else "cpu_core" in pmus
        self.pmu = f"cpu_{core}" if split else ""
        self.kind = _kind(model, core)

    def event(self, name: str, role: Role, note: str) -> Event:
        """User mode only: ``name:u``, on a hybrid CPU ``cpu_core/name/u``."""
        spelled = f"{self.pmu}/{name}/u" if self.pmu else f"{name}:u"
        return Event(spelled, role, note)

    def groups(self) -> list[Group]:
        both = (
            self.event("cycles", "cycles", _CYCLES),
            self.event("instructions", "instructions", _INSTRUCTIONS),
        )
        branches = _BRANCHES.get(self.vendor, _UNKNOWN_MEANING)
        branch_misses = _BRANCH_MISSES.get(self.vendor, _UNKNOWN_MEANING)
        cache_misses = _CACHE_MISSES.get(self.vendor, _UNKNOWN_MEANING)
        core = (
            self.event("branches", "branches", branches),
            self.event("branch-misses", "branch_misses", branch_misses),
        )
        cache = self.cache_events()
        memory = [self.event("cache-misses", "cache_misses", cache_misses), *self.walks()]
        found = [Group("core", (*both, *core))]
        if cache:
            found.append(Group("cache", (*both, *cache)))
        found.append(Group("memory", (*both, *memory)))
        backend = self.backend()
        if backend is not None:
            if backend.braced:
                found.append(backend)
            else:
                found.append(Group(backend.name, (*both, *backend.events)))
        return found

    def cache_events(self) -> list[Event]:
        if self.kind in ("skylake", "sunny-cove", "golden-cove"):
            return [
                self.event(
                    "l1d.replacement",
                    "l1d_misses",
                    "lines brought into L1D, for loads, stores and prefetches alike",
                ),
                self.event(
                    "mem_load_retired.l3_miss",
                    "llc_misses",
                    f"retired loads that missed the last-level cache; {_PREFETCH_NOTE}",
                ),
            ]
        if self.kind == "gracemont":
            return [
                self.event(
                    "mem_load_uops_retired.l1_miss",
                    "l1d_misses",
                    f"retired loads that missed L1D; stores are not counted; {_PREFETCH_NOTE}",
                ),
                self.event(
                    "mem_load_uops_retired.dram_hit",
                    "llc_misses",
                    f"retired loads that were answered by memory; {_PREFETCH_NOTE}",
                ),
            ]
        if self.vendor == "amd" and self.kind != UNKNOWN:
            return self.zen_cache()
        if self.kind in _ARM_KNOWN:
            l1d = "l1d_cache_lmiss_rd" if self.kind in _ARM_WITH_LMISS else "l1d_cache_refill_rd"
            return [
                self.event(l1d, "l1d_misses", f"{l1d.upper()}: loads that missed L1D"),
                self.event(
                    "ll_cache_miss_rd",
                    "llc_misses",
                    "LL_CACHE_MISS_RD: which cache is the last level, and whether the system "
                    "cache counts, is set by the firmware (CPUECTLR)",
                ),
            ]
        return []

    def zen_cache(self) -> list[Event]:
        if self.kind in ("zen4", "zen5"):
            return [
                self.event(
                    "ls_dmnd_fills_from_sys.all",
                    "l1d_misses",
                    "lines brought into L1D on demand, from any source",
                ),
                self.event(
                    "ls_dmnd_fills_from_sys.dram_io_all",
                    "llc_misses",
                    f"demand fills of L1D from memory or I/O of any node; {_PREFETCH_NOTE}",
                ),
            ]
        fills = [
            self.event(
                "L1-dcache-load-misses",
                "l1d_misses",
                "accesses of L2 because of L1D misses (event 0x60, umask 0xc8), stores and "
                "prefetches of L1D included",
            )
        ]
        names = {
            "zen2": (
                "ls_refills_from_sys.ls_mabresp_lcl_dram",
                "ls_refills_from_sys.ls_mabresp_rmt_dram",
            ),
            "zen3": (
                "ls_dmnd_fills_from_sys.mem_io_local",
                "ls_dmnd_fills_from_sys.mem_io_remote",
            ),
        }
        for name, node in zip(names.get(self.kind, ()), ("this", "the other"), strict=False):
            note = f"demand fills of L1D from memory or I/O of {node} node; {_PREFETCH_NOTE}"
            fills.append(self.event(name, "llc_misses", note))
        return fills

    def walks(self) -> list[Event]:
        if self.kind in ("skylake", "sunny-cove", "golden-cove", "gracemont", "crestmont"):
            return [
                self.event(
                    "dtlb_load_misses.walk_completed",
                    "dtlb_walks",
                    "completed page walks for loads, any page size; stores are not counted",
                )
            ]
        if self.vendor == "amd" and self.kind != UNKNOWN:
            note = "misses of the second-level data TLB, each a page walk (event 0x45, umask 0xf0)"
            return [self.event("dTLB-load-misses", "dtlb_walks", note)]
        if self.kind in _ARM_KNOWN:
            note = "DTLB_WALK: page walks for data, speculative ones too"
            return [self.event("dtlb_walk", "dtlb_walks", note)]
        return []

    def backend(self) -> Group | None:
        if self.share() is None:
            return None
        if self.kind in ("sunny-cove", "golden-cove", "lion-cove"):
            slots = self.event("slots", "slots", "issue slots of the core in user mode")
            lost = self.event(
                "topdown-be-bound", "backend_slots", "slots lost because the backend was full"
            )
            return Group("topdown", (slots, lost), braced=True)
        if self.kind in ("gracemont", "crestmont"):
            note = "slots lost because the backend was full"
            return Group("topdown", (self.event("topdown_be_bound.all", "backend_slots", note),))
        if self.kind in ("zen4", "zen5"):
            name = "de_no_dispatch_per_slot.backend_stalls"
            note = "dispatch slots left empty because the backend was full"
            return Group("backend", (self.event(name, "backend_slots", note),))
        note = "STALL_BACKEND: cycles in which nothing was dispatched because of the backend"
        return Group("backend", (self.event("stalled-cycles-backend", "backend_stalls", note),))

    def share(self) -> BackendShare | None:
        if self.kind in ("sunny-cove", "golden-cove", "lion-cove"):
            if self.kernel is not None and self.kernel < (5, 10):
                return None
            return BackendShare("backend_slots", "slots", 1, "topdown-be-bound / slots")
        width = {"gracemont": 5, "crestmont": 6, "zen4": 6, "zen5": 8}.get(self.kind)
        if width is not None:
            text = f"slots lost to the backend / ({width} x cycles)"
            return BackendShare("backend_slots", "cycles", width, text)
        if self.vendor == "arm":
            return BackendShare("backend_stalls", "cycles", 1, "STALL_BACKEND / cycles")
        return None

    def unavailable(self) -> dict[str, str]:
        served = {event.role for group in self.groups() for event in group.events}
        reasons: dict[str, str] = {}
        for role in ("l1d_misses", "llc_misses", "dtlb_walks"):
            if role not in served:
                reasons[role] = self.why_not(role)
        if self.share() is None:
            reasons["backend_stall_share"] = self.why_no_backend()
        return reasons

    def why_not(self, role: str) -> str:
        if self.kind == "crestmont":
            return (
                "this CPU's events count prefetches and stores with the demand loads "
                "(LONGEST_LAT_CACHE.MISS is shown as cache_misses)"
            )
        if self.kind == "zen1" and role == "llc_misses":
            return "the L3 of this CPU is counted for the whole core complex only (amd_l3, -a)"
        return _NOT_KNOWN

    def why_no_backend(self) -> str:
        if self.kind == "skylake":
            return _NO_BACKEND_SKYLAKE
        if self.kind in ("zen1", "zen2", "zen3"):
            return _NO_BACKEND_AMD
        if self.kind in ("sunny-cove", "golden-cove", "lion-cove"):
            return "the slots counter needs Linux 5.10 or newer"
        return _NOT_KNOWN


def _kind(model: CpuModel, core: str) -> str:
    """The core whose events apply: on hybrid CPUs that of the P- or the E-core."""
    name = model.name
    if model.hybrid and core == "atom":
        if name in _GRACEMONT_HYBRID:
            return "gracemont"
        return "crestmont" if name == "meteorlake" else UNKNOWN
    if name in _SKYLAKE:
        return "skylake"
    if name in _SUNNY_COVE:
        return "sunny-cove"
    if name in _GOLDEN_COVE or name in _GOLDEN_COVE_HYBRID:
        return "golden-cove"
    if name in ("arrowlake", "lunarlake"):
        return "lion-cove"
    if name in _CRESTMONT:
        return "crestmont"
    if name == "gracemont" or name in _ARM_KNOWN or name.startswith("zen"):
        return name
    return UNKNOWN


def _kernel(release: str) -> tuple[int, int] | None:
    match = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", release)
    return (int(match[1]), int(match[2])) if match else None
