# SPDX-License-Identifier: BSD-3-Clause
"""What a run tells of a layout without counters: its line trace and its instructions.

Neither is needed for a result: what cannot be had is a reason in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cachebench import build, callgrind, machinecard, stream, tracing
from cachebench.analyze import floor
from cachebench.cardmodel import MachineCard
from cachebench.catalogue import Layout
from cachebench.errors import CachebenchError
from cachebench.listener import Listener
from cachebench.model import Experiment, Instructions
from cachebench.tracemodel import Simulation

LOOKUPS = 300_000
NOT_ASKED = "not asked for"


@dataclass(frozen=True)
class Simulated:
    """What was found out of one layout, and the reasons for what was not."""

    simulation: Simulation | None = None
    instructions: Instructions | None = None
    reasons: dict[str, str] = field(default_factory=dict)


def nothing(reason: str) -> Simulated:
    """All that is missing for one reason."""
    return Simulated(reasons=dict.fromkeys(("simulation", "callgrind"), reason))


def simulate(layout: Layout, experiment: Experiment, listen: Callable[[str], None]) -> Simulated:
    """Traces the layout at the experiment's point and counts its instructions."""
    if not experiment.simulate:
        return nothing(NOT_ASKED)
    reasons: dict[str, str] = {}
    simulation, instructions = None, None
    try:
        simulation = tracing.simulation(tracing.Asked(experiment, lookups=LOOKUPS), layout, listen)
    except CachebenchError as error:
        reasons["simulation"] = str(error)
    try:
        instructions = _instructions(layout, experiment, listen)
    except CachebenchError as error:
        reasons["callgrind"] = str(error)
    return Simulated(simulation, instructions, reasons)


def _instructions(
    layout: Layout, experiment: Experiment, listen: Callable[[str], None]
) -> Instructions:
    """In a small table of the same load, which valgrind fills in half a second: what a
    lookup executes hardly depends on the number of sessions (docs/measurements.md)."""
    listen("counting instructions")
    plain = build.Recipe(
        layout, key_size=experiment.key_size, march=experiment.march, cflags=experiment.cflags
    )
    return callgrind.instructions(stream.small(experiment), layout.name, build.artifact(plain))


@dataclass(frozen=True)
class Machine:
    """The machine card, and why there is none, or none of the pages asked for."""

    card: MachineCard | None
    reason: str = ""


def machine(experiment: Experiment, simulations: list[Simulation], listener: Listener) -> Machine:
    """The stored card of this machine; else one of the pages and sizes of this run.

    What is measured here in one process is for this run alone, and is not stored.
    """
    found = machinecard.stored()
    if found.card is not None:
        return _with_pages(found.card, experiment)
    if not simulations:
        return Machine(None, "there is no line trace" if experiment.simulate else NOT_ASKED)
    try:
        size = max(map(floor.working_set, simulations))
        card = machinecard.measure(listener, largest=int(size), processes=1, pages=experiment.pages)
    except CachebenchError as error:
        return Machine(None, str(error))
    return _with_pages(card, experiment)


def _with_pages(card: MachineCard, experiment: Experiment) -> Machine:
    if floor.page_card(card, experiment) is not None:
        return Machine(card)
    reasons = [each.reason for each in card.skipped if each.pages == experiment.pages]
    because = reasons[0] if reasons else "there were none when it was measured"
    return Machine(card, f"the machine card has no {experiment.pages} pages: {because}")
