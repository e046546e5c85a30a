# SPDX-License-Identifier: BSD-3-Clause
"""The line trace beside valgrind's word: the same lookups, counted by others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from cachebench import callgrind, catalogue, lackey, stream, tracing, valgrind
from cachebench.checkmodel import Callgrind, Lackey, LackeyArena, Misses
from cachebench.listener import Listener, Step
from cachebench.model import TraceResult
from cachebench.tracemodel import Geometry, TraceSample

Tool = Literal["callgrind", "lackey"]
TOOLS: tuple[Tool, ...] = ("callgrind", "lackey")
LACKEY_LOOKUPS = 3000
"""At most: lackey writes a line of text for each instruction and each access."""


def trace(asked: tracing.Asked, tools: Sequence[Tool], listener: Listener) -> TraceResult:
    """The line trace of all layouts, and what the tools of valgrind say of each.

    Raises CachebenchError if one cannot be had, before the trace if valgrind is
    missing or the caches are such that callgrind has none like them.
    """
    if tools:
        valgrind.find()
    if "callgrind" in tools:
        callgrind.accept(tracing.simulated_memory(asked))
    result = tracing.trace(asked, listener)
    shape = result.geometry
    results = []
    for number, traced in enumerate(result.results):
        layout = catalogue.find(asked.experiment.layouts[number])
        listen = Step(listener, layout.name, number, len(result.results))
        if "callgrind" in tools:
            found = by_callgrind(asked, callgrind.accept(shape), layout, listen)
            traced = msgspec.structs.replace(traced, callgrind=found)
        if "lackey" in tools:
            traced = msgspec.structs.replace(traced, lackey=by_lackey(asked, shape, layout, listen))
        results.append(traced)
    return msgspec.structs.replace(result, results=tuple(results))


def by_callgrind(
    asked: tracing.Asked,
    shape: callgrind.Accepted,
    layout: catalogue.Layout,
    listen: Callable[[str], None],
) -> Callgrind:
    """Instructions of the lookups asked for, and their misses beside the line trace's."""
    pair = tracing.kernels(layout, asked.experiment, stack=True)
    listen("counting instructions under valgrind")
    counted = callgrind.instructions(asked.experiment, layout.name, pair.plain, asked.lookups)
    theirs, ours = misses(asked, pair, shape, listen)
    return Callgrind(
        tool=counted.tool,
        geometry=shape.geometry,
        changed=shape.changed,
        lookups=asked.lookups,
        warm_up=asked.warm_up,
        instructions=counted.per_lookup,
        misses=theirs,
        traced=ours,
    )


def misses(
    asked: tracing.Asked,
    pair: tracing.Kernels,
    shape: callgrind.Accepted,
    listen: Callable[[str], None],
) -> tuple[Misses, Misses]:
    """Callgrind's, and the line trace's by the same rules: no prefetch, the same two
    levels, at most one miss an access, all that lookups touch. ``pair`` is of kernels
    with the stack."""
    listen("counting misses under valgrind")
    theirs = callgrind.misses(
        asked.experiment, pair.layout, pair.plain, shape, asked.lookups, asked.warm_up
    )
    alike = replace(asked, prefetch=False, curve_rate=None)
    sample = tracing.sample(alike, pair, shape.geometry, listen, callgrind.call(asked.experiment))
    return theirs, Misses(d1=_missed(sample, 0), ll=_missed(sample, 1))


def _missed(sample: TraceSample, level: int) -> float:
    inside = sum(p.missed[level] for a in sample.arenas for p in a.places if p.kind != "prefetch")
    around = sample.around.missed[level] if sample.around is not None else 0
    return (inside + around) / sample.lookups


def by_lackey(
    asked: tracing.Asked,
    shape: Geometry,
    layout: catalogue.Layout,
    listen: Callable[[str], None],
) -> Lackey:
    """Accesses of the plain kernel and of its trace build, in a table that is small
    enough to be filled under lackey; what a lookup touches does not depend on its size."""
    experiment = stream.small(asked.experiment)
    lookups = min(asked.lookups, LACKEY_LOOKUPS)
    pair = tracing.kernels(layout, experiment)
    listen("reading every access under valgrind")
    tool = valgrind.find()
    touched = lackey.touched(tool, experiment, layout.name, pair.plain, lookups)
    alike = replace(
        asked, experiment=experiment, lookups=lookups, warm_up=0, prefetch=False, curve_rate=None
    )
    sample = tracing.sample(alike, pair, shape, listen)
    arenas = []
    for plain, traced in zip(touched, sample.arenas, strict=True):
        accesses = {"read": 0, "write": 0, "prefetch": 0}
        for place in traced.places:
            accesses[place.kind] += place.accesses
        arenas.append(
            LackeyArena(
                name=traced.name,
                reads=plain.reads,
                writes=plain.writes,
                lines=plain.lines,
                traced_reads=accesses["read"],
                traced_writes=accesses["write"],
                traced_lines=traced.lines,
            )
        )
    return Lackey(
        tool=f"lackey of {tool.name}",
        sessions=experiment.sessions,
        lookups=lookups,
        arenas=tuple(arenas),
    )
