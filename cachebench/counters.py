# SPDX-License-Identifier: BSD-3-Clause
"""Which counters this machine has, and one process counted with them."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from cachebench.machine.tree import parse_cpu_list
from cachebench.model import Count, Sample, Share, WorkerPlan
from cachebench.perfstat import events
from cachebench.perfstat.command import NoPerf, Perf, Session, find_perf, probe
from cachebench.perfstat.cpumodel import cpu_model
from cachebench.perfstat.events import FIGURES, Group
from cachebench.perfstat.figures import Reading, read_group
from cachebench.perfstat.probe import pmu_names
from cachebench.process import run_worker

EMPTY_SESSIONS = 1000
"""Of the process that measures what the control messages themselves count."""


@dataclass
class Counters:
    """The groups that count here, and why the rest does not."""

    perf: Perf | None
    groups: tuple[Group, ...]
    unavailable: dict[str, str]
    """By figure or role, as the figures of results ask for it."""
    share: Share | None
    _empty: dict[str, dict[str, float]] = field(default_factory=dict)

    def sample(self, group: Group, plan: WorkerPlan, listen: Callable[[str], None]) -> Sample:
        """One process with the group on; raises CachebenchError if it gives no sample.

        A role of the group that perf did not count joins ``unavailable``.
        """
        if group.name not in self._empty:
            small = msgspec.structs.replace(
                plan.experiment, sessions=EMPTY_SESSIONS, pages="4k", heap="fresh", capture=None,
                popularity=type(plan.experiment.popularity)(),
            )  # fmt: skip
            nothing = msgspec.structs.replace(plan, experiment=small, empty=True)
            _, readings = self._run(group, nothing, lambda _: None)
            self._empty[group.name] = {r.role: r.value or 0.0 for r in readings}
        sample, readings = self._run(group, plan, listen)
        counts = tuple(
            Count(
                event=", ".join(reading.events),
                role=reading.role,
                value=reading.value,
                empty=self._empty[group.name].get(reading.role, 0.0),
                percent_running=reading.percent_running,
                note=reading.note,
            )
            for reading in readings
            if reading.value is not None
        )
        return msgspec.structs.replace(
            sample, group=group.name, counts=counts, backend_stalls=self.share
        )

    def _run(
        self, group: Group, plan: WorkerPlan, listen: Callable[[str], None]
    ) -> tuple[Sample, tuple[Reading, ...]]:
        assert self.perf is not None
        with Session(self.perf, group, Path(tempfile.gettempdir())) as session:
            sample = run_worker(plan, listen, session)
            readings = read_group(group, session.report())
        for reading in readings:
            if reading.value is None:
                self.unavailable.setdefault(reading.role, str(reading.reason))
        return sample, readings


def find_counters(cpu: int, wanted: bool) -> Counters:
    """What can be counted by a process that is pinned to ``cpu``."""
    if not wanted:
        return _without("not asked for")
    perf = find_perf()
    if isinstance(perf, NoPerf):
        return _without(perf.reason)
    model = cpu_model(Path("/proc/cpuinfo").read_text(), platform.machine())
    pmus = pmu_names()
    core: Literal["core", "atom"] = "atom" if _is_on("cpu_atom", cpu) else "core"
    asked = events.groups(model, platform.release(), pmus, core)
    answers = probe(perf, asked)
    unavailable = dict(events.unavailable(model, platform.release(), pmus, core))
    groups = []
    for group in asked:
        able = tuple(e for e in group.events if answers.get(e.perf_name) is None)
        if group.braced and len(able) < len(group.events):
            able = ()
        for event in group.events:
            if event not in able:
                reason = answers.get(event.perf_name) or "another event of its group is missing"
                unavailable.setdefault(event.role, reason)
        if able:
            groups.append(Group(group.name, able, group.braced))
    share = events.backend_share(model, platform.release(), pmus, core)
    for figure, roles in {
        "ipc": ("instructions", "cycles"),
        "backend_stall_share": (share.numerator, share.denominator) if share else (),
    }.items():
        for role in roles:
            if role in unavailable:
                unavailable.setdefault(figure, unavailable[role])
    return Counters(
        perf,
        tuple(groups),
        unavailable,
        None
        if share is None
        else Share(
            numerator=share.numerator,
            denominator=share.denominator,
            factor=share.factor,
            text=share.text,
        ),
    )


def _without(reason: str) -> Counters:
    return Counters(None, (), dict.fromkeys(FIGURES, reason), None)


def _is_on(pmu: str, cpu: int) -> bool:
    """Whether a CPU belongs to one of the PMUs of a hybrid processor."""
    file = Path(f"/sys/bus/event_source/devices/{pmu}/cpus")
    try:
        return cpu in parse_cpu_list(file.read_text())
    except OSError:
        return False
