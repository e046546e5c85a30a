# SPDX-License-Identifier: BSD-3-Clause
"""Running line traces: one process for each layout."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cachebench import build, catalogue, dwarf, experiment, sizing
from cachebench.analyze import curve
from cachebench.analyze.lines import objects
from cachebench.errors import CachebenchError
from cachebench.geometry import geometry
from cachebench.listener import Listener, Step
from cachebench.machine.environment import collect
from cachebench.model import Experiment, Traced, TracePlan, TraceResult
from cachebench.process import run
from cachebench.python import command
from cachebench.tracemodel import Curve, Geometry, Simulation, TraceSample

LOOKUPS = 1_000_000
WARM_UP = 250_000
TABLE_LEVELS = 2
"""Dependent loads of a hit before the layout's own: the bucket and the key entry."""


@dataclass(frozen=True)
class Asked:
    """What a trace is to be made of; ``geometry`` None is the host's."""

    experiment: Experiment
    geometry: str | None = None
    lookups: int = LOOKUPS
    warm_up: int = WARM_UP
    prefetch: bool = True
    curve_rate: float | None = None
    """Share of the lines that a miss-ratio curve follows; None: no curve."""


def add_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options of the simulated memory. Returns their group."""
    group = parser.add_argument_group("the simulated memory")
    group.add_argument(
        "--geometry",
        metavar="l1=48k/12,l2=2M/16,llc=32M/16",
        help="size and ways of each cache; also dtlb=64/4,stlb=2048/16, entries and ways of "
        "each TLB for the pages in use (default: the host's)",
    )
    group.add_argument(
        "--lookups",
        type=experiment.count,
        default=LOOKUPS,
        metavar="N",
        help="lookups that are counted (default: 1M)",
    )
    group.add_argument(
        "--warm-up",
        type=experiment.count,
        default=WARM_UP,
        metavar="N",
        help="lookups before them that are not (default: 250k); 0: the caches begin empty",
    )
    group.add_argument(
        "--demand-only",
        action="store_true",
        help="software prefetches are counted and bring no line in",
    )
    return group


def from_arguments(arguments: argparse.Namespace, curve_rate: float | None = None) -> Asked:
    """What was typed; raises CachebenchError with what to type instead."""
    return Asked(
        experiment.from_arguments(arguments),
        arguments.geometry,
        arguments.lookups,
        arguments.warm_up,
        not arguments.demand_only,
        curve_rate,
    )


def simulated_memory(asked: Asked) -> Geometry:
    """The memory that is simulated."""
    return geometry(asked.geometry, collect(), asked.experiment.pages)


def trace(asked: Asked, listener: Listener) -> TraceResult:
    """Traces all layouts of the experiment; raises CachebenchError if one fails."""
    if asked.lookups < 1:
        raise CachebenchError("--lookups 0: type a number from 1")
    shape = simulated_memory(asked)
    layouts = [catalogue.find(name) for name in asked.experiment.layouts]
    results = []
    for number, layout in enumerate(layouts):
        listen = Step(listener, layout.name, number, len(layouts))
        results.append(_one(asked, layout, shape, listen)[0])
    return TraceResult(
        schema="cachebench.trace/1",
        spec=asked.experiment,
        geometry=shape,
        lookups=asked.lookups,
        warm_up=asked.warm_up,
        prefetch=asked.prefetch,
        curve_rate=asked.curve_rate,
        results=tuple(results),
    )


def simulation(asked: Asked, layout: catalogue.Layout, listen: Callable[[str], None]) -> Simulation:
    """The trace of one layout as results hold it."""
    shape = simulated_memory(asked)
    traced, steps = _one(asked, layout, shape, listen)
    return Simulation(
        geometry=shape,
        lookups=traced.sample.lookups,
        warm_up=asked.warm_up,
        prefetch=asked.prefetch,
        levels=TABLE_LEVELS + steps,
        seconds=traced.sample.seconds,
        objects=traced.objects,
    )


@dataclass(frozen=True)
class Kernels:
    """The same kernel twice: plain, which fills, and its trace build, which looks up."""

    layout: str
    plain: Path | None
    """As :func:`cachebench.build.artifact` gives it."""
    ops: Any
    """Of the plain one."""
    traced: Path


def kernels(layout: catalogue.Layout, point: Experiment, *, stack: bool = False) -> Kernels:
    """Builds both and makes sure that the table will fit into memory.

    ``stack``: the trace build reports the lookups of a burst, which are on the stack.
    """
    plain = build.Recipe(layout, key_size=point.key_size, march=point.march, cflags=point.cflags)
    fill = build.artifact(plain)
    ops = build.load(fill, layout.name, point.key_size)
    sizing.check([(layout.name, sizing.footprint(ops, point))], point)
    flags = (*point.cflags, "-DCB_TRACE_STACK") if stack else point.cflags
    traced = build.build(build.Recipe(**(vars(plain) | {"trace": True, "cflags": flags})))
    return Kernels(layout.name, fill, ops, traced)


def sample(
    asked: Asked,
    pair: Kernels,
    shape: Geometry,
    listen: Callable[[str], None],
    call: int | None = None,
) -> TraceSample:
    """One process of the trace; with ``call`` it is like callgrind, in calls of as many
    lookups."""
    plan = TracePlan(
        experiment=asked.experiment,
        layout=pair.layout,
        fill=None if pair.plain is None else str(pair.plain),
        plugin=str(pair.traced),
        geometry=shape,
        lookups=asked.lookups,
        warm_up=asked.warm_up,
        prefetch=asked.prefetch,
        curve_rate=asked.curve_rate,
        like_callgrind=call is not None,
        call=call,
        seed=asked.experiment.seed * 1000,
    )
    return run(command("cachebench.tracer"), plan, TraceSample, f"layout {pair.layout}", listen)


def _one(
    asked: Asked, layout: catalogue.Layout, shape: Geometry, listen: Callable[[str], None]
) -> tuple[Traced, int]:
    """The trace, and the prefetch steps that the layout has."""
    listen("building")
    point = asked.experiment
    pair = kernels(layout, point)
    types = dwarf.arena_types(build.load(pair.traced, layout.name, point.key_size), pair.traced)
    found = sample(asked, pair, shape, listen)
    steps = int(pair.ops.prefetch_steps)
    used = min(point.session_prefetch, steps) if point.mode == "bulk" else 0
    traced = Traced(
        layout=layout.name,
        prefetch_steps=used,
        objects=objects(found, types),
        sample=found,
        curve=None if asked.curve_rate is None else _curve(found, asked.curve_rate),
    )
    return traced, steps


def _curve(sample: TraceSample, rate: float) -> Curve:
    if not any(arena.distances for arena in sample.arenas):
        raise CachebenchError(
            f"--curve-rate {rate:g}: the lookups touched no line that is followed; type a "
            "larger share, 1 for all lines"
        )
    return curve.evaluate(sample)
