# SPDX-License-Identifier: BSD-3-Clause
"""Hot spots: what is asked of a sampled process, what it tells, what a profile holds.

A leaf, as ``model`` is. Offsets are places in the file of the kernel's shared
object, so that they hold wherever it is loaded.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cachebench.model import Experiment, Figure

Way = Literal["binding", "record"]
WAYS: tuple[Way, ...] = ("binding", "record")


class Operand(msgspec.Struct, frozen=True, array_like=True):
    """Where an instruction finds its memory: displacement + base + scale x index.

    Registers are numbers in the order that single steps read them in; -1: none.
    """

    at: int
    displacement: int
    base: int
    index: int
    scale: int


class ProfilePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one sampled process is told to do."""

    experiment: Experiment
    layout: str
    plugin: str
    cpu: int
    seed: int
    way: Way | None
    """How to sample; None: as can be had."""
    period_ns: int
    samples: int
    strides: dict[str, int]
    """Bytes of an element of each arena."""
    operands: tuple[Operand, ...] | None = None
    """Of the kernel's instructions, if it is to be stepped through."""


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups executed one instruction at a time."""

    lookups: int
    order: tuple[tuple[int, int, int], ...]
    """Offset of an instruction, that of the next one executed, and how often."""
    accesses: tuple[tuple[int, str, int, int], ...]
    """Offset of an instruction, arena, place in its element, and how often."""


class ProfileSample(msgspec.Struct, frozen=True, kw_only=True):
    """One sampled process of one layout."""

    way: Way
    inside: tuple[tuple[int, int], ...]
    """Offset of an instruction in the kernel, and samples at it."""
    outside: dict[str, int]
    """Samples in other objects of the process, by file name."""
    chase: tuple[tuple[int, int], ...]
    """Offset in the core's object, and samples there, while it followed pointers."""
    lost: int
    """Samples that the kernel says it had no room for."""
    timed: tuple[tuple[int, int], ...]
    """Lookups and CPU time in ns of regions that were not sampled."""
    sampled: tuple[tuple[int, int], ...]
    """The same of those that were, in turn with the others."""
    steps: Steps | None = None
    no_steps: str = ""
    """Why there are no steps, if they were asked for."""


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """A place and the part of a lookup's time that it takes."""

    name: str
    share: Figure
    ns: Figure
    """Per lookup: the share times the time of a lookup."""


class LineSpot(Spot, frozen=True, kw_only=True):
    """A source line; its name is ``file:line``."""

    file: str
    line: int
    text: str
    """The line itself; empty if the file could not be read."""


class SourceLine(LineSpot, frozen=True, kw_only=True):
    """A line of the layout's header with all that is inlined there."""

    inlined: tuple[LineSpot, ...]
    """Lines of other files that take a part of it."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Where one layout's lookups spend their time."""

    layout: str
    way: Way
    samples: int
    lost: int
    ns_per_lookup: Figure
    sampled_ns_per_lookup: Figure
    """Of the regions that were sampled: the difference is what sampling costs."""
    stages: tuple[Spot, ...]
    lines: tuple[LineSpot, ...]
    """By the innermost line that is in the layout's header or in the core's sources."""
    objects: tuple[Spot, ...]
    """By the arenas that the instruction touches; all of them, if there are several."""
    members: tuple[Spot, ...]
    """By the members of their elements."""
    source: tuple[SourceLine, ...]
    no_members: str = ""
    """Why objects and members are not told, if they are not."""


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """Time that a layout takes more than the base, by the same places, in ns per lookup."""

    base: str
    head: str
    total: Figure
    stages: dict[str, Figure]
    lines: dict[str, Figure]
    objects: dict[str, Figure]
    members: dict[str, Figure]


class ProfileResult(msgspec.Struct, frozen=True, kw_only=True):
    """The profile document, schema ``cachebench.profile/1``."""

    schema: Literal["cachebench.profile/1"]
    spec: Experiment
    period_ns: int
    charged: Literal["before", "at"]
    """Whether a sample's time belongs to the instruction before its address."""
    chase_share: float
    """Of the samples of a pointer chase, those that this rule gives to the load."""
    profiles: tuple[Profile, ...]
    added: tuple[Added, ...]
    """Each layout against the first one."""
