# SPDX-License-Identifier: BSD-3-Clause
"""The memory that is simulated: the host's, or one from the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cachebench.errors import CachebenchError
from cachebench.machine.environment import value
from cachebench.model import Pages
from cachebench.tracemodel import Geometry, Level

LINE = 64
NAMES = ("l1", "l2", "llc")
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
PAGE_BITS: Mapping[Pages, int] = {"4k": 12, "thp": 21, "2m": 21, "1g": 30}

# Entries and ways of the first and second level by page size, as Intel's manuals
# give them for Sunny Cove and Golden Cove cores. A stated default: what the host
# has is not asked.
TLBS: Mapping[int, tuple[tuple[int, int], tuple[int, int]]] = {
    12: ((64, 4), (2048, 16)),
    21: ((32, 4), (2048, 16)),
    30: ((8, 8), (1024, 8)),
}
NO_LEVEL = Level(ways=0, sets=0)


def geometry(text: str | None, facts: Mapping[str, object], pages: Pages) -> Geometry:
    """``l1=48k/12,l2=2M/16,llc=32M/16``, or the host's caches if the text is None.

    Sizes are in binary units. A level that is not named is not simulated. Raises
    CachebenchError if a size is no whole number of sets.
    """
    bits = PAGE_BITS[pages]
    first, second = (Level(ways=ways, sets=entries // ways) for entries, ways in TLBS[bits])
    if text is None:
        levels, source = _host(facts), "caches of the host"
    else:
        levels, source = _parse(text), "caches as typed"
    return Geometry(
        caches=(levels["l1"], levels["l2"], levels["llc"]),
        tlbs=(first, second),
        page_bits=bits,
        source=f"{source}, TLB by default",
    )


def describe(shape: Geometry) -> str:
    """The geometry as the command line takes it."""
    parts = []
    for name, level in zip(NAMES, shape.caches, strict=True):
        if level.ways:
            parts.append(f"{name}={_size(level.ways * level.sets * LINE)}/{level.ways}")
    return ",".join(parts)


def _size(size: int) -> str:
    for unit in ("m", "k"):
        if size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]}{unit.upper() if unit == 'm' else unit}"
    return str(size)


def _host(facts: Mapping[str, object]) -> dict[str, Level]:
    levels = dict.fromkeys(NAMES, NO_LEVEL)
    for cache in value(facts, "caches") or ():
        if cache.get("type") != "instruction" and cache.get("ways") and cache.get("sets"):
            name = NAMES[min(int(cache["level"]), 3) - 1]
            levels[name] = Level(ways=cache["ways"], sets=cache["sets"])
    if not levels["l1"].ways:
        raise CachebenchError(
            "the host does not tell its caches; type --geometry l1=32k/8,l2=1M/16,llc=32M/16"
        )
    return levels


def _parse(text: str) -> dict[str, Level]:
    levels = dict.fromkeys(NAMES, NO_LEVEL)
    for part in text.split(","):
        match = re.fullmatch(r"(l1|l2|llc)=(\d+)([kmgKMG]?)/(\d+)", part.strip())
        if match is None:
            raise CachebenchError(
                f"--geometry {part!r}: type l1=SIZE/WAYS,l2=SIZE/WAYS,llc=SIZE/WAYS "
                "such as l1=48k/12,l2=2M/16,llc=32M/16"
            )
        size, ways = int(match[2]) * UNITS[match[3].lower()], int(match[4])
        if ways == 0 or size == 0 or size % (LINE * ways):
            raise CachebenchError(
                f"--geometry {part}: {size} bytes are no whole number of sets of {ways} ways "
                f"of {LINE} bytes"
            )
        levels[match[1]] = Level(ways=ways, sets=size // (LINE * ways))
    if not levels["l1"].ways:
        raise CachebenchError(f"--geometry {text}: l1 is missing; type l1=48k/12,…")
    return levels
