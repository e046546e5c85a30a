# SPDX-License-Identifier: BSD-3-Clause
"""One process of a line trace: a filled table, looked up by a trace build of its kernel."""

from __future__ import annotations

import time
from pathlib import Path

from cachebench import build, core
from cachebench._core import ffi, lib
from cachebench.core import Pointer
from cachebench.errors import CachebenchError
from cachebench.model import TracePlan
from cachebench.say import say, serve
from cachebench.tracemodel import (
    KINDS,
    STAGES,
    Around,
    Geometry,
    Level,
    Place,
    TracedArena,
    TraceSample,
)

FIRST = 4096
"""Lookups that show which lines of an element lookups touch."""
BLOCK = 65_536
"""Lookups of which the first begins a burst; a multiple of every burst up to 256 that
is a power of two."""


def main() -> int:
    """The process: see cachebench.say."""
    return serve(TracePlan, run)


def run(plan: TracePlan) -> TraceSample:
    """Fills a table with the plain kernel and traces lookups of the trace build."""
    experiment = plan.experiment
    plain = build.load(
        None if plan.fill is None else Path(plan.fill), plan.layout, experiment.key_size
    )
    traced = build.load(Path(plan.plugin), plan.layout, experiment.key_size)
    say(doing="filling")
    with core.traffic(experiment) as traffic, core.arm(plain, experiment, plan.seed) as arm:
        core.fill(arm, traffic, experiment, plan.seed)
        say(doing="tracing")
        lib.cb_traffic_restart(traffic, plan.seed + 1)
        return _trace(arm, traffic, traced, plan)


def _trace(arm: Pointer, traffic: Pointer, ops: Pointer, plan: TracePlan) -> TraceSample:
    why = core.Why()
    trace = lib.cb_trace_open(arm, _geometry(plan.geometry), plan.prefetch, why.buffer, why.size)
    if trace == ffi.NULL:
        raise why.error()
    try:
        if plan.curve_rate is not None and lib.cb_trace_curve(
            trace, plan.curve_rate, why.buffer, why.size
        ):
            raise why.error()
        if plan.like_callgrind:
            lib.cb_trace_like_callgrind(trace)
        start = time.monotonic()

        def look_up(lookups: int, counted: int) -> None:
            _look_up(trace, arm, traffic, ops, plan, lookups, counted)

        first = min(plan.warm_up, FIRST)
        look_up(first, 0)
        if first and lib.cb_trace_prime(trace, why.buffer, why.size):
            raise why.error()
        look_up(plan.warm_up - first, 0)
        counted = time.monotonic()
        look_up(plan.lookups, 1)
        end = time.monotonic()
        arenas = _arenas(trace)
        if not any(place.kind != "prefetch" for arena in arenas for place in arena.places):
            raise CachebenchError(
                "the trace build reported no load or store: its instrumentation is lost; "
                "leave flags such as -flto out of --cflags and CC"
            )
        return TraceSample(
            lookups=lib.cb_trace_lookups(trace),
            arenas=arenas,
            seconds=end - start,
            counted_seconds=end - counted,
            around=_around(trace) if plan.like_callgrind else None,
        )
    finally:
        lib.cb_trace_close(trace)


def _geometry(geometry: Geometry) -> Pointer:
    def shapes(levels: tuple[Level, ...]) -> list[tuple[int, int]]:
        return [(level.ways, level.sets) for level in levels]

    return ffi.new(
        "struct cb_cache_geometry *",
        (shapes(geometry.caches), shapes(geometry.tlbs), geometry.page_bits),
    )


def _look_up(
    traced: Pointer,
    arm: Pointer,
    traffic: Pointer,
    ops: Pointer,
    plan: TracePlan,
    lookups: int,
    counted: int,
) -> None:
    experiment = plan.experiment
    most = plan.call or BLOCK
    keys = ffi.new("char[]", most * experiment.key_size)
    lengths = ffi.new("uint16_t[]", most)
    why = core.Why()
    done = 0
    while done < lookups:
        count = min(most, BLOCK - done % BLOCK, lookups - done)
        lib.cb_traffic_draw(traffic, count, keys, lengths, ffi.NULL)
        failed = lib.cb_trace_run(
            traced,
            arm,
            ops,
            ffi.new("struct cb_stream *", (keys, lengths, count)),
            core.MODE[experiment.mode],
            experiment.session_prefetch,
            experiment.burst,
            counted,
            why.buffer,
            why.size,
        )
        if failed:
            raise why.error()
        done += count


def _around(traced: Pointer) -> Around:
    count = lib.cb_trace_surroundings(traced)
    return Around(accesses=count.accesses, missed=tuple(count.missed))


def _arenas(traced: Pointer) -> tuple[TracedArena, ...]:
    arenas: list[TracedArena] = []
    while (arena := lib.cb_trace_arena_at(traced, len(arenas))) != ffi.NULL:
        places = []
        at = 0
        for offset in range(arena.stride):
            for stage in STAGES:
                for kind in KINDS:
                    count = arena.count[at]
                    at += 1
                    if count.accesses:
                        places.append(
                            Place(
                                offset=offset,
                                stage=stage,
                                kind=kind,  # type: ignore[arg-type]
                                accesses=count.accesses,
                                missed=tuple(count.missed),
                                tlb_missed=tuple(count.tlb_missed),
                            )
                        )
        arenas.append(
            TracedArena(
                name=ffi.string(arena.name).decode(),
                type=ffi.string(arena.type).decode(),
                stride=arena.stride,
                elements=arena.elements,
                lines=arena.lines,
                places=tuple(places),
                distances=_distances(arena),
            )
        )
    return tuple(arenas)


def _distances(arena: Pointer) -> tuple[tuple[int, float], ...]:
    if arena.distances == ffi.NULL:
        return ()
    last = lib.CB_STACKDIST_BUCKETS - 1
    return tuple(
        (-1 if bucket == last else lib.cb_stackdist_floor(bucket), arena.distances[bucket])
        for bucket in range(last + 1)
        if arena.distances[bucket]
    )
