# SPDX-License-Identifier: BSD-3-Clause
"""The machine card: measured once per machine, kept in the cache folder.

The file is ``machine.json`` in ``$CACHEBENCH_CACHE``, or else in the user's
cache folder. It holds for one CPU model, kernel and setting of pages; it can be
removed at any time.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from cachebench import resultfile
from cachebench.analyze.card import analysed
from cachebench.cardmodel import (
    CARD_SCHEMA,
    IN_FLIGHT,
    Cache,
    CardKey,
    CardPages,
    CardPlan,
    CardSample,
    Latency,
    MachineCard,
    PageCard,
    Skipped,
    Throughput,
)
from cachebench.errors import CachebenchError
from cachebench.listener import Listener
from cachebench.machine.cpus import pick_cpu
from cachebench.machine.environment import collect, value
from cachebench.machine.tree import parse_cpu_list
from cachebench.process import run
from cachebench.python import command

FILE = "machine.json"
LINE = 64
SMALLEST, LARGEST = 16 << 10, 2 << 30
FINE_UP_TO = 64 << 20
"""Two working sets per octave end here where /sys tells of no cache."""
THROUGHPUT_FROM = 64 << 10
"""Lines in flight are measured from here in steps of two octaves, and at the largest."""
PROCESSES, REGIONS, REGION_MS = 3, 1, 10.0
PROCESS_BYTES = 64 << 20
"""The worker's interpreter, rounded up."""
SPARE = 1.02
"""Page tables take 1/512 of what they map; the rest is for others."""
HUGE_PAGES: dict[CardPages, int] = {"2m": 2 << 20, "1g": 1 << 30}


@dataclass(frozen=True)
class Stored:
    """What the cache folder holds for this machine: a card, or why there is none."""

    card: MachineCard | None
    reason: str = ""


def obtain(progress: Listener, *, refresh: bool = False) -> MachineCard:
    """This machine's card: the stored one, or measured now and stored.

    A card that cannot be stored is still returned, and the progress hears of it.
    """
    found = Stored(None, "a new one was asked for") if refresh else stored()
    if found.card is not None:
        return found.card
    progress.message(f"measuring this machine's memory, about a minute: {found.reason}")
    card = measure(progress)
    try:
        store(card)
    except CachebenchError as error:
        progress.message(str(error))
    return card


# ---- The file


def path() -> Path:
    """Where this machine's card is kept."""
    named = os.environ.get("CACHEBENCH_CACHE")
    if named:
        return Path(named).absolute() / FILE
    import platformdirs

    return Path(platformdirs.user_cache_dir("cachebench")) / FILE


def stored(where: Path | None = None, wanted: CardKey | None = None) -> Stored:
    """The stored card if it is whole and this machine's; measures nothing."""
    where = where or path()
    try:
        card = decode(where.read_bytes(), str(where))
    except FileNotFoundError:
        return Stored(None, "no card is stored")
    except OSError as error:
        return Stored(None, f"cannot read {where}: {error.strerror}")
    except CachebenchError as error:
        return Stored(None, str(error))
    wanted = wanted or key(collect())
    for name in CardKey.__struct_fields__:
        was, now = getattr(card.key, name), getattr(wanted, name)
        if was != now:
            return Stored(None, f"the stored card is of another {name} ({was}; now {now})")
    return Stored(analysed(card))


def store(card: MachineCard, where: Path | None = None) -> None:
    """Writes the card under a temporary name, then renames. Raises CachebenchError."""
    where = where or path()
    try:
        where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CachebenchError(
            f"cannot keep the machine card in {where.parent}: {error.strerror}; "
            "set CACHEBENCH_CACHE to a folder that you can write"
        ) from None
    resultfile.write(str(where), encode(card))


def encode(card: MachineCard) -> str:
    """The document as text."""
    return msgspec.json.format(msgspec.json.encode(card), indent=1).decode() + "\n"


def decode(data: bytes, name: str) -> MachineCard:
    """The document in ``data``; raises CachebenchError if it is none, or damaged."""
    try:
        card = msgspec.json.decode(data, type=MachineCard)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CachebenchError(f"{name} is no {CARD_SCHEMA} document: {error}") from None
    curves = [(page.latency, page.throughput) for page in card.pages]
    numbers = [point for both in curves for part in both for point in part]
    if any(
        point.bytes <= 0 or not 0 < point.low <= point.ns <= point.high < 1e9 for point in numbers
    ) or any(
        [point.bytes for point in part] != sorted(point.bytes for point in part)
        for both in curves
        for part in both
    ):
        raise CachebenchError(f"{name} is a damaged {CARD_SCHEMA} document: impossible numbers")
    return card


def key(facts: Mapping[str, object]) -> CardKey:
    """What the card of a machine with these facts holds for."""
    cpu = [value(facts, f"cpu_{name}") for name in ("model_name", "family", "model", "stepping")]
    sizes = "/".join(f"{cache.name} {cache.bytes >> 10}K" for cache in caches(facts))
    pools = [
        f"{pool['page_bytes'] >> 10}K x {pool['total']}"
        for pool in value(facts, "huge_pages") or ()
        if pool["total"]
    ]
    thp = f"thp {value(facts, 'thp')}, defrag {value(facts, 'thp_defrag')}"
    return CardKey(
        cpu=f"{' '.join(map(str, cpu))}, {sizes or 'caches unknown'}",
        kernel=str(value(facts, "kernel")),
        pages=", ".join([thp, *pools]),
    )


def caches(facts: Mapping[str, object]) -> tuple[Cache, ...]:
    """The caches that hold data, as /sys advertises them, smallest first."""
    found = [
        Cache(
            name=f"L{cache['level']}{'d' if cache['type'] == 'data' else ''}",
            bytes=cache["bytes"],
        )
        for cache in value(facts, "caches") or ()
        if cache["type"] in ("data", "unified") and cache["bytes"] and cache["level"]
    ]
    return tuple(sorted(found, key=lambda cache: cache.bytes))


# ---- Measuring


def measure(
    progress: Listener,
    *,
    largest: int = LARGEST,
    processes: int = PROCESSES,
    region_ms: float = REGION_MS,
    pages: CardPages | None = None,
) -> MachineCard:
    """Measures this machine, in one process after another, page sizes in turn.

    All page sizes that can be had, or ``pages`` alone.
    """
    started = time.monotonic()
    facts = collect()
    cpu = pick_cpu()
    known = caches(facts)
    sizes = working_sets(known, largest)
    plans, skipped = _plans(facts, sizes, region_ms, cpu, pages)
    for each in skipped:
        progress.message(f"{each.pages} pages, from {size_text(each.bytes)}: {each.reason}")
    samples: dict[CardPages, list[CardSample]] = {plan.pages: [] for plan in plans}
    total = processes * len(plans)
    for number in range(processes):
        for order, plan in enumerate(plans):
            done = number * len(plans) + order

            def listen(doing: str, pages: str = plan.pages, done: int = done) -> None:
                progress.step(f"memory, {pages} pages, {doing}", done, total)

            argv = command("cachebench.cardworker")
            seeded = msgspec.structs.replace(plan, seed=number + 1)
            what = f"machine card, {plan.pages} pages"
            samples[plan.pages].append(run(argv, seeded, CardSample, what, listen))
    return analysed(
        MachineCard(
            schema="cachebench.machine/1",
            key=key(facts),
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            cpu=cpu,
            processes=processes,
            region_ms=region_ms,
            seconds=round(time.monotonic() - started, 1),
            caches=known,
            pages=tuple(page_card(plan, samples[plan.pages]) for plan in plans),
            skipped=skipped,
        )
    )


def working_sets(known: Sequence[Cache], largest: int = LARGEST) -> tuple[int, ...]:
    """Powers of two; below the last cache's size, also one half an octave above each."""
    fine = known[-1].bytes if known else FINE_UP_TO
    sizes: list[int] = []
    size = SMALLEST
    while size <= largest:
        sizes.append(size)
        between = int(size * 2**0.5) // LINE * LINE
        if size < fine and between <= largest:
            sizes.append(between)
        size *= 2
    return tuple(sizes)


def page_card(plan: CardPlan, samples: Sequence[CardSample]) -> PageCard:
    """Medians over processes, with their extremes."""
    latency = [
        Latency(bytes=size, **_spread([sample.latency[i] for sample in samples]))
        for i, size in enumerate(plan.latency)
    ]
    throughput = [
        Throughput(
            bytes=size,
            in_flight=chains,
            **_spread([sample.throughput[i][j] for sample in samples]),
        )
        for i, size in enumerate(plan.throughput)
        for j, chains in enumerate(IN_FLIGHT)
    ]
    return PageCard(
        pages=plan.pages,
        huge_share=statistics.median(sample.huge_share for sample in samples),
        latency=tuple(latency),
        throughput=tuple(throughput),
    )


def size_text(size: int) -> str:
    """A working set in binary units: ``45 KiB``, ``2 MiB``, ``1.4 GiB``."""
    for shift, unit in ((30, "GiB"), (20, "MiB")):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.3g} {unit}"
    return f"{size / 1024:.3g} KiB"


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"ns": statistics.median(values), "low": min(values), "high": max(values)}


def _plans(
    facts: Mapping[str, object],
    sizes: Sequence[int],
    region_ms: float,
    cpu: int,
    only: CardPages | None = None,
) -> tuple[list[CardPlan], tuple[Skipped, ...]]:
    """One plan for each page size that can be had, of the working sets that fit."""
    plans: list[CardPlan] = []
    skipped: list[Skipped] = []
    for pages, room, reason in _room(facts):
        if only not in (None, pages):
            continue
        fitting = tuple(size for size in sizes if size <= room)
        if len(fitting) < len(sizes):
            skipped.append(Skipped(pages=pages, bytes=sizes[len(fitting)], reason=reason))
        if fitting:
            coarse = range(THROUGHPUT_FROM.bit_length() - 1, fitting[-1].bit_length(), 2)
            loaded = {1 << shift for shift in coarse}.intersection(fitting) | {fitting[-1]}
            plans.append(
                CardPlan(
                    pages=pages,
                    latency=fitting,
                    throughput=tuple(sorted(loaded)),
                    region_ms=region_ms,
                    regions=REGIONS,
                    cpu=cpu,
                    node=_node(facts, cpu),
                    seed=1,
                )
            )
    if not plans:
        raise CachebenchError("the machine card needs some MB of memory, and there are none")
    return plans, tuple(skipped)


def _room(facts: Mapping[str, object]) -> list[tuple[CardPages, int, str]]:
    """For each page size: the largest working set that fits, and what limits it."""
    known = [value(facts, name) for name in ("memory_available_bytes", "memory_limit_bytes")]
    available = min((each for each in known if isinstance(each, int)), default=None)
    ordinary = LARGEST if available is None else int((available - PROCESS_BYTES) / SPARE)
    scarce = f"{size_text(available or 0)} of memory are available"
    rooms: list[tuple[CardPages, int, str]] = [("4k", ordinary, scarce)]
    if value(facts, "thp") in ("always", "madvise"):
        # Working sets that are no whole huge pages still take whole ones.
        rooms.append(("thp", ordinary // (2 << 20) * (2 << 20), scarce))
    else:
        rooms.append(("thp", 0, "transparent huge pages are off"))
    for pool in value(facts, "huge_pages") or ():
        for pages, page in HUGE_PAGES.items():
            if pool["page_bytes"] == page and pool["total"]:
                free = pool["free"]
                rooms.append((pages, free * page, f"{free} of these pages are free"))
    return rooms


def _node(facts: Mapping[str, object], cpu: int) -> int | None:
    """The NUMA node to bind memory to: the CPU's own, where there are several."""
    nodes = value(facts, "numa_nodes") or ()
    if len(nodes) < 2:
        return None
    return next((n["node"] for n in nodes if cpu in parse_cpu_list(n["cpus"])), None)
