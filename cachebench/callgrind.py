# SPDX-License-Identifier: BSD-3-Clause
"""Instructions and cache misses of lookups by callgrind, on the plain kernel."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cachebench import geometry
from cachebench.checkmodel import Misses
from cachebench.errors import CachebenchError
from cachebench.model import Experiment, Instructions
from cachebench.tracemodel import Geometry, Level
from cachebench.valgrind import FUNCTION, Valgrind, Watched, find, run

LOOKUPS = 20_000
CALL = 1024
MOST_LINES = (1 << 31) // geometry.LINE - 1
"""valgrind holds the size of a cache in 31 bits."""
INSTRUCTION_CACHE = "32768,8,64"
"""Always given, so that nothing is taken from the host; no figure comes from it."""
NO_LEVEL = Level(ways=0, sets=0)


@dataclass(frozen=True)
class Accepted:
    """A first and a last level of cache that callgrind takes."""

    geometry: Geometry
    changed: tuple[str, ...]
    """What is not as it was asked for, in words."""


def instructions(
    experiment: Experiment, layout: str, plugin: Path | None, lookups: int = LOOKUPS
) -> Instructions:
    """Instructions per lookup at the experiment's point.

    ``plugin`` is the plain kernel as :func:`cachebench.build.artifact` gives it. What a
    lookup executes depends on the load and the hits rather than on the number of
    sessions, so a small table of the same load serves. Raises CachebenchError.
    """
    valgrind = find()
    counts = _count(valgrind, ["--cache-sim=no"], experiment, layout, plugin, Watched(lookups))
    return Instructions(
        per_lookup=counts["Ir"] / lookups,
        sessions=experiment.sessions,
        lookups=lookups,
        tool=f"callgrind of {valgrind.name}",
    )


def misses(
    experiment: Experiment,
    layout: str,
    plugin: Path | None,
    shape: Accepted,
    lookups: int,
    warm_up: int,
) -> Misses:
    """Misses per lookup through the two levels of cache.

    Callgrind cannot tell the packets, the arm and the stack from the arenas: all that
    lookups touch is in its count.
    """
    first, last, _ = shape.geometry.caches
    counts = _count(
        find(),
        [
            "--cache-sim=yes",
            f"--I1={INSTRUCTION_CACHE}",
            f"--D1={_option(first)}",
            f"--LL={_option(last)}",
        ],
        experiment,
        layout,
        plugin,
        Watched(lookups, warm_up, read=call(experiment)),
    )
    return Misses(
        d1=(counts["D1mr"] + counts["D1mw"]) / lookups,
        ll=(counts["DLmr"] + counts["DLmw"]) / lookups,
    )


def call(experiment: Experiment) -> int:
    """Lookups in a call: whole bursts, of which one call's packets fit into any L1."""
    return experiment.burst * max(1, CALL // experiment.burst)


def accept(shape: Geometry) -> Accepted:
    """The nearest two levels that callgrind takes.

    It simulates a first and a last level with a number of sets that is a power of two.
    Where that is not so the size is kept as nearly as possible, then the ways.
    """
    given = [(n, c) for n, c in zip(geometry.NAMES, shape.caches, strict=True) if c.ways]
    if len(given) < 2:
        raise CachebenchError(
            "callgrind simulates two levels of cache; type --geometry l1=48k/12,llc=32M/16"
        )
    changed = [f"{name} left out: callgrind has two levels" for name, _ in given[1:-1]]
    levels = []
    for name, level in (given[0], given[-1]):
        nearest = _nearest(level)
        if nearest != level:
            changed.append(
                f"{name} of {geometry.size(nearest)} in place of {geometry.size(level)}, "
                "which callgrind does not take"
            )
        levels.append(nearest)
    caches = (levels[0], levels[1], NO_LEVEL)
    accepted = msgspec.structs.replace(shape, caches=caches, tlbs=(NO_LEVEL, NO_LEVEL))
    return Accepted(accepted, tuple(changed))


def _nearest(level: Level) -> Level:
    # A cache of one line is refused too.
    lines = min(max(level.ways * level.sets, 2), MOST_LINES)
    below = 1 << (max(1, min(level.sets, lines)).bit_length() - 1)
    found = [
        Level(ways=max(1, min(round(lines / sets), MOST_LINES // sets)), sets=sets)
        for sets in (below, below * 2)
        if sets <= lines
    ]
    return min(
        (each for each in found if each.ways * each.sets > 1),
        key=lambda each: (abs(each.ways * each.sets - lines), abs(each.ways - level.ways)),
    )


def _option(level: Level) -> str:
    return f"{level.ways * level.sets * geometry.LINE},{level.ways},{geometry.LINE}"


def _count(
    valgrind: Valgrind,
    options: list[str],
    experiment: Experiment,
    layout: str,
    plugin: Path | None,
    watched: Watched,
) -> dict[str, int]:
    """Events by name, of the watched lookups alone."""
    with tempfile.TemporaryDirectory(prefix="cachebench-") as folder:
        # valgrind replaces what follows a percent sign, and TMPDIR may hold one.
        out = Path(folder) / "callgrind.out"
        run(
            valgrind,
            [
                "--tool=callgrind",
                *options,
                f"--toggle-collect={FUNCTION}",
                "--callgrind-out-file=" + str(out).replace("%", "%%"),
            ],
            experiment,
            layout,
            plugin,
            watched,
        )
        try:
            text = out.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise CachebenchError(
                f"layout {layout}: callgrind wrote no counts ({error.strerror})"
            ) from None
    try:
        return totals(text)
    except ValueError as error:
        raise CachebenchError(f"layout {layout}: callgrind's counts: {error}") from None


def totals(text: str) -> dict[str, int]:
    """The totals of a callgrind output file, by event; raises ValueError.

    Callgrind writes differences of 64-bit counters: one that went below zero shows as
    a number over 2^63.
    """
    lines: dict[str, list[list[str]]] = {"events": [], "summary": [], "totals": []}
    for line in text.splitlines():
        key, colon, rest = line.partition(":")
        if colon and key in lines:
            lines[key].append(rest.split())
    if len(lines["events"]) != 1 or len(lines["totals"]) != 1:
        raise ValueError("not one line of events and one of totals")
    events, words = lines["events"][0], lines["totals"][0]
    if lines["summary"] not in ([], [words]):
        raise ValueError("its summary and its totals differ")
    if len(words) > len(events) or not all(word.isascii() and word.isdigit() for word in words):
        raise ValueError(f"no totals of {' '.join(events)}: {' '.join(words)[:80]}")
    numbers = [int(word) for word in words] + [0] * (len(events) - len(words))
    counts = dict(zip(events, numbers, strict=True))
    for event, number in counts.items():
        if number >= 1 << 63:
            raise ValueError(f"{event} is {number}, over 2^63: a counter went below zero")
    if counts.get("Ir", 0) == 0:
        raise ValueError(f"no instruction in {FUNCTION}")
    return counts
