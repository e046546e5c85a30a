# SPDX-License-Identifier: BSD-3-Clause
"""Which pages an arm's arenas really got, and what this process took at most."""

from __future__ import annotations

from pathlib import Path

from cachebench._core import ffi, lib
from cachebench.core import Pointer
from cachebench.model import Arena

_HUGE = ("AnonHugePages", "Private_Hugetlb", "Shared_Hugetlb")
_RESIDENT = ("Rss", "Private_Hugetlb", "Shared_Hugetlb")
"""Rss leaves hugetlb pages out."""


def arenas(arm: Pointer) -> tuple[Arena, ...]:
    """The arm's mapped arenas; each is a mapping of its own."""
    mappings = _mappings(Path("/proc/self/smaps").read_text())
    name = ffi.new("char **")
    start = ffi.new("uint64_t *")
    size = ffi.new("uint64_t *")
    found: list[Arena] = []
    while lib.cb_arm_arena(arm, len(found), name, start, size):
        fields = mappings.get(start[0], {})
        found.append(
            Arena(
                name=ffi.string(name[0]).decode(),
                bytes=size[0],
                resident=sum(fields.get(field, 0) for field in _RESIDENT),
                huge=sum(fields.get(field, 0) for field in _HUGE),
            )
        )
    return tuple(found)


def peak_bytes() -> int:
    """Largest resident size of this process since it runs this program.

    Not getrusage's ru_maxrss, which begins with that of the process that forked it.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _mappings(text: str) -> dict[int, dict[str, int]]:
    """Start address to the fields of a mapping, in bytes."""
    mappings: dict[int, dict[str, int]] = {}
    fields: dict[str, int] = {}
    for line in text.splitlines():
        first, _, rest = line.partition(" ")
        if first.endswith(":"):
            parts = rest.split()
            if len(parts) == 2 and parts[1] == "kB":
                fields[first[:-1]] = int(parts[0]) * 1024
        else:
            fields = mappings.setdefault(int(first.partition("-")[0], 16), {})
    return mappings
