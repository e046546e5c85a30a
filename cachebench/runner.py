# SPDX-License-Identifier: BSD-3-Clause
"""Running an experiment: which processes, in which order, and what becomes of them."""

from __future__ import annotations

import hashlib
import platform
import random
from dataclasses import dataclass, field
from importlib import metadata
from typing import Literal

import msgspec

from cachebench import build, catalogue, core, simulate, sizing
from cachebench.analyze.figures import Evidence, figures
from cachebench.analyze.ratios import with_ratios
from cachebench.cardmodel import MachineCard
from cachebench.counters import Counters, find_counters
from cachebench.errors import CachebenchError
from cachebench.listener import Listener, Step
from cachebench.machine.cpus import wanted_cpu
from cachebench.machine.environment import collect, value
from cachebench.machine.tree import parse_cpu_list
from cachebench.model import (
    STAGES,
    Experiment,
    Failure,
    LayoutResult,
    Result,
    Sample,
    WorkerPlan,
)
from cachebench.perfstat.events import Group
from cachebench.process import run_worker

LIBRARIES = ("cachebench", "cffi", "msgspec", "scipy")
"""Whose versions a result names."""
INTERRUPTED = "interrupted"
Interrupted = Literal["measurement", "simulation"]


@dataclass
class _Arm:
    """One layout of the run: what runs it and what came out."""

    layout: catalogue.Layout
    plugin: str | None
    stage_plugins: dict[str, str]
    footprint: sizing.Footprint
    samples: list[Sample] = field(default_factory=list)
    simulated: simulate.Simulated = field(default_factory=lambda: simulate.nothing(INTERRUPTED))
    failure: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A result, and whether it is all that was asked for."""

    result: Result
    interrupted: Interrupted | None
    """What Ctrl-C cut short; without its simulation a measurement is whole."""


def run(experiment: Experiment, listener: Listener) -> Outcome:
    """Runs all layouts of the experiment, each in processes of its own.

    Raises CachebenchError if nothing can be run. A layout that fails later is a
    failure in the result; the others go on. Ctrl-C ends the running process and
    gives the layouts that have been measured so far.
    """
    cpu = wanted_cpu(experiment.cpu)
    experiment = msgspec.structs.replace(experiment, cpu=cpu, node=_node(experiment, cpu))
    arms = _prepare(experiment, listener)
    listener.step("computing the reference", 0, 1)
    reference = core.reference_checksum(experiment)
    counters = find_counters(cpu, experiment.counters)
    processes = _Processes(experiment, arms, counters, cpu, reference, listener)
    machine = simulate.Machine(None, INTERRUPTED)
    interrupted: Interrupted | None = "measurement"
    try:
        processes.run()
        interrupted = "simulation"
        machine = _simulate(experiment, arms, listener)
        interrupted = None
    except KeyboardInterrupt:
        pass
    unavailable = counters.unavailable | ({"machine": machine.reason} if machine.reason else {})
    results = with_ratios(
        [_result(a, experiment, machine.card, unavailable) for a in arms if _is_complete(a)]
    )
    failures = tuple(
        Failure(layout=arm.layout.name, reason=arm.failure) for arm in arms if arm.failure
    )
    return Outcome(
        Result(
            schema="cachebench.run/1",
            spec=experiment,
            environment=collect(cpu=cpu) | _build(arms, experiment, counters),
            results=results,
            failures=failures,
            unavailable=unavailable,
            machine=machine.card,
        ),
        interrupted,
    )


def _simulate(experiment: Experiment, arms: list[_Arm], listener: Listener) -> simulate.Machine:
    """Adds to all layouts what needs no counters; the card of the machine."""
    complete = [arm for arm in arms if _is_complete(arm)]
    for number, arm in enumerate(complete):
        listen = Step(listener, f"{arm.layout.name}, simulation", number, len(complete))
        arm.simulated = simulate.simulate(arm.layout, experiment, listen)
    found = [arm.simulated.simulation for arm in complete]
    return simulate.machine(experiment, [each for each in found if each], listener)


def _build(arms: list[_Arm], experiment: Experiment, counters: Counters) -> dict[str, object]:
    """What compiled the kernels that ran, and with which flags."""
    if all(arm.plugin is None for arm in arms):
        compiler = core.compiler()
    else:
        toolchain = build.Toolchain.find()
        flags = toolchain.resolved_flags(_recipe(arms[0].layout, experiment, True))
        compiler = f"{toolchain.version}, {' '.join(flags)}"
    return {
        "compiler": {"value": compiler, "reason": None},
        "versions": {"value": _versions(counters), "reason": None},
    }


def _versions(counters: Counters) -> dict[str, str]:
    versions = {name: metadata.version(name) for name in LIBRARIES}
    versions["python"] = platform.python_version()
    if counters.perf is not None:
        versions["perf"] = ".".join(map(str, counters.perf.version))
    return versions


def _node(experiment: Experiment, cpu: int) -> int | None:
    """The NUMA node to bind memory to: the CPU's own, where there are several."""
    nodes = value(collect(), "numa_nodes") or ()
    if experiment.node is not None or len(nodes) < 2:
        return experiment.node
    return next((n["node"] for n in nodes if cpu in parse_cpu_list(n["cpus"])), None)


def _prepare(experiment: Experiment, listener: Listener) -> list[_Arm]:
    """Builds what must be built and makes sure that it will fit into memory."""
    layouts = [catalogue.find(name) for name in experiment.layouts]
    names = [layout.name for layout in layouts]
    for name in names:
        if names.count(name) > 1:
            raise CachebenchError(f"two layouts are called {name}; rename one header")
    # All arms of one run come by the same route, with the same flags.
    plugin = experiment.stages or any(
        build.route(_recipe(layout, experiment, False)) == "plugin" for layout in layouts
    )
    arms = []
    for number, layout in enumerate(layouts):
        listener.step(f"building {layout.name}", number, len(layouts))
        path = build.artifact(_recipe(layout, experiment, plugin))
        stages = {}
        if experiment.stages:
            for stage in STAGES:
                part = build.artifact(_recipe(layout, experiment, plugin, stage))
                stages[stage] = str(part)
        ops = build.load(path, layout.name, experiment.key_size)
        footprint = sizing.footprint(ops, experiment)
        arms.append(_Arm(layout, None if path is None else str(path), stages, footprint))
    sizing.check([(arm.layout.name, arm.footprint) for arm in arms], experiment)
    for arm in arms:
        listener.message(sizing.describe(arm.layout.name, arm.footprint, experiment))
    return arms


def _recipe(
    layout: catalogue.Layout, experiment: Experiment, plugin: bool, stage: str = "session"
) -> build.Recipe:
    return build.Recipe(
        layout,
        key_size=experiment.key_size,
        stage=stage,
        march=experiment.march,
        cflags=experiment.cflags,
        plugin=plugin,
    )


class _Processes:
    """The worker processes of a run, one after the other."""

    def __init__(
        self,
        experiment: Experiment,
        arms: list[_Arm],
        counters: Counters,
        cpu: int,
        reference: str,
        listener: Listener,
    ) -> None:
        self._experiment = experiment
        self._arms = arms
        self._counters = counters
        self._cpu = cpu
        self._reference = reference
        self._listener = listener
        self._random = random.Random(experiment.seed)
        self._done = 0
        self._total = len(arms) * (experiment.processes + len(counters.groups))

    def run(self) -> None:
        for process in range(self._experiment.processes):
            for arm in self._shuffled():
                self._one(arm, process, None)
        for number, group in enumerate(self._counters.groups):
            for arm in self._shuffled():
                self._one(arm, self._experiment.processes + number, group)

    def _shuffled(self) -> list[_Arm]:
        arms = list(self._arms)
        self._random.shuffle(arms)
        return arms

    def _one(self, arm: _Arm, process: int, group: Group | None) -> None:
        if arm.failure is None:
            plan = self._plan(arm, process, group)
            try:
                if group is None:
                    sample = run_worker(plan, self._hear(arm, "time"))
                else:
                    sample = self._counters.sample(group, plan, self._hear(arm, group.name))
                self._accept(arm, sample)
            except CachebenchError as error:
                arm.failure = str(error)
            except OSError as error:  # no room for a pipe or a temporary file
                arm.failure = f"layout {arm.layout.name}: {error}"
        self._done += 1

    def _plan(self, arm: _Arm, process: int, group: Group | None) -> WorkerPlan:
        return WorkerPlan(
            experiment=self._experiment,
            layout=arm.layout.name,
            plugin=arm.plugin,
            stage_plugins=arm.stage_plugins,
            process=process,
            order=self._done,
            # The same for all layouts, another one for each process: it orders
            # the pools and draws the packets.
            seed=self._experiment.seed * 1000 + process,
            kind="time" if group is None else "counters",
            prove=process == 0,
            cpu=self._cpu,
        )

    def _hear(self, arm: _Arm, what: str) -> Step:
        return Step(self._listener, f"{arm.layout.name}, {what}", self._done, self._total)

    def _accept(self, arm: _Arm, sample: Sample) -> None:
        if sample.checksum is not None and sample.checksum != self._reference:
            raise CachebenchError(
                f"layout {arm.layout.name} does not do the same work: its checksum is "
                f"{sample.checksum}, the reference's {self._reference}; "
                "compare its loads and stores with layouts/README.md"
            )
        arm.samples.append(sample)


def _is_complete(arm: _Arm) -> bool:
    """A layout that failed late still has the times it measured; an unproven one has none."""
    return any(sample.checksum is not None for sample in arm.samples)


def _result(
    arm: _Arm, experiment: Experiment, machine: MachineCard | None, unavailable: dict[str, str]
) -> LayoutResult:
    first = arm.samples[0]
    evidence = Evidence(
        experiment,
        arm.samples,
        arm.simulated.simulation,
        arm.simulated.instructions,
        machine,
        sizing.figures(arm.footprint),
        unavailable | arm.simulated.reasons,
    )
    return LayoutResult(
        layout=arm.layout.name,
        header_sha256=hashlib.sha256(arm.layout.header.read_bytes()).hexdigest(),
        mode=experiment.mode,
        sessions=experiment.sessions,
        prefetch=first.prefetch,
        route="builtin" if arm.plugin is None else "plugin",
        checksum=first.checksum,
        figures=figures(evidence),
        table=first.table,
        simulation=arm.simulated.simulation,
        instructions=arm.simulated.instructions,
        samples=tuple(arm.samples),
    )
