# SPDX-License-Identifier: BSD-3-Clause
"""The memory that is simulated: the host's, or one from the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cachebench._core import ffi, lib
from cachebench.core import Pointer
from cachebench.errors import CachebenchError
from cachebench.machine.environment import value
from cachebench.model import Pages
from cachebench.tracemodel import Geometry, Level

LINE = 64
NAMES = ("l1", "l2", "llc")
TLB_NAMES = ("dtlb", "stlb")
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
PAGE_BITS: Mapping[Pages, int] = {"4k": 12, "thp": 21, "2m": 21, "1g": 30}

# Where neither the CPU nor the command line tells: first and second level by page
# size, as Sunny Cove and Golden Cove cores have them.
TLBS: Mapping[int, tuple[Level, Level]] = {
    12: (Level(ways=4, sets=16), Level(ways=16, sets=128)),
    21: (Level(ways=4, sets=8), Level(ways=8, sets=128)),
    30: (Level(ways=8, sets=1), Level(ways=8, sets=128)),
}
MOST_BYTES = 64 << 30
MOST_ENTRIES = 1 << 24
NO_LEVEL = Level(ways=0, sets=0)


def geometry(text: str | None, facts: Mapping[str, object], pages: Pages) -> Geometry:
    """``l1=48k/12,l2=2M/16,llc=32M/16,dtlb=64/4,stlb=2048/16``, or the host's if it is None.

    Sizes of caches are in binary units, those of TLBs in entries. A cache that is not
    named is not simulated; without a TLB those of the host are. Raises CachebenchError
    if a size is no whole number of sets.
    """
    bits = PAGE_BITS[pages]
    typed = {} if text is None else _parse(text)
    if text is None:
        levels, source = _host(facts), "caches of the host"
    else:
        levels, source = typed, "caches as typed"
    if TLB_NAMES[0] in typed:
        tlbs, told = (typed["dtlb"], typed.get("stlb", NO_LEVEL)), "as typed"
    else:
        tlbs, told = host_tlbs(bits)
    return Geometry(
        caches=(
            levels.get("l1", NO_LEVEL),
            levels.get("l2", NO_LEVEL),
            levels.get("llc", NO_LEVEL),
        ),
        tlbs=tlbs,
        page_bits=bits,
        source=f"{source}, TLB {told}",
    )


def host_tlbs(page_bits: int) -> tuple[tuple[Level, Level], str]:
    """First and second level for data, and where they are from.

    Of the CPU that this runs on: where cores differ, as some in laptops do, another
    one may have others.
    """
    found = ffi.new("struct cb_tlbs *")
    teller = lib.cb_tlbs_host(found)
    return tlbs_told(found, "" if teller == ffi.NULL else ffi.string(teller).decode(), page_bits)


def tlbs_told(found: Pointer, teller: str, page_bits: int) -> tuple[tuple[Level, Level], str]:
    """Both levels as they were told, or both by default: one core's first level and another
    one's second are no CPU's."""
    page = {12: lib.CB_TLB_4K, 21: lib.CB_TLB_2M, 30: lib.CB_TLB_1G}[page_bits]
    first, second = (Level(ways=each.ways, sets=each.sets) for each in found.level[page])
    if first.ways:
        return (first, second), f"by {teller}"
    told = "the second level alone" if second.ways else "none"
    return TLBS[page_bits], f"by default: the CPU tells of {told}"


def describe(shape: Geometry) -> str:
    """The geometry as the command line takes it."""
    parts = [
        f"{name}={size(level)}"
        for name, level in zip(NAMES, shape.caches, strict=True)
        if level.ways
    ]
    parts += [
        f"{name}={level.ways * level.sets}/{level.ways}"
        for name, level in zip(TLB_NAMES, shape.tlbs, strict=True)
        if level.ways
    ]
    return ",".join(parts)


def size(level: Level) -> str:
    """Size and ways of one level: ``48k/12``."""
    return f"{_size(level.ways * level.sets * LINE)}/{level.ways}"


def _size(size: int) -> str:
    for unit in ("m", "k"):
        if size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]}{unit.upper() if unit == 'm' else unit}"
    return str(size)


def _host(facts: Mapping[str, object]) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for cache in value(facts, "caches") or ():
        if cache.get("type") != "instruction" and cache.get("ways") and cache.get("sets"):
            name = NAMES[min(int(cache["level"]), 3) - 1]
            levels[name] = Level(ways=cache["ways"], sets=cache["sets"])
    if "l1" not in levels:
        raise CachebenchError(
            "the host does not tell its caches; type --geometry l1=32k/8,l2=1M/16,llc=32M/16"
        )
    return levels


def _parse(text: str) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for part in text.split(","):
        match = re.fullmatch(
            r"(?:(l1|l2|llc)=(\d+)([kmgKMG]?)|(dtlb|stlb)=(\d+))/(\d+)", part.strip()
        )
        if match is None:
            raise CachebenchError(
                f"--geometry {part!r}: type l1=SIZE/WAYS,l2=SIZE/WAYS,llc=SIZE/WAYS and, for "
                "TLBs, dtlb=ENTRIES/WAYS,stlb=ENTRIES/WAYS, such as "
                "l1=48k/12,l2=2M/16,llc=32M/16,dtlb=64/4,stlb=2048/16"
            )
        ways = int(match[6])
        if match[1]:
            name, size, each = match[1], int(match[2]) * UNITS[match[3].lower()], LINE
            what = f"{size} bytes", f" of {LINE} bytes"
        else:
            name, size, each = match[4], int(match[5]), 1
            what = f"{size} entries", ""
        if size > (MOST_BYTES if match[1] else MOST_ENTRIES):
            raise CachebenchError(
                f"--geometry {part}: at most {'64G' if match[1] else MOST_ENTRIES} can be simulated"
            )
        if name in levels:
            raise CachebenchError(f"--geometry {text}: {name} is there twice; type it once")
        if ways == 0 or size == 0 or size % (each * ways):
            raise CachebenchError(
                f"--geometry {part}: {what[0]} are no whole number of sets of {ways} ways{what[1]}"
            )
        levels[name] = Level(ways=ways, sets=size // (each * ways))
    if "l1" not in levels:
        raise CachebenchError(f"--geometry {text}: l1 is missing; type l1=48k/12,…")
    if "stlb" in levels and "dtlb" not in levels:
        raise CachebenchError(f"--geometry {text}: dtlb is missing; type dtlb=64/4,stlb=…")
    return levels
