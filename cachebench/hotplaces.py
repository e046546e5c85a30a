# SPDX-License-Identifier: BSD-3-Clause
"""What an instruction of a kernel belongs to: stage, source line, line of the layout, member."""

from __future__ import annotations

import functools
import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from cachebench.analyze.hotspots import Code
from cachebench.catalogue import Layout, csrc_folder
from cachebench.disassembly import Instruction
from cachebench.dwarf import Arena
from cachebench.inlines import Frame, Inlines, Segments
from cachebench.profilemodel import Operand, Steps

OUTSIDE = "outside"
"""Of the kernel: what it calls in other objects."""
NO_STAGE = "none"
NO_MEMBER = "no session or table"
NOT_SEEN = "not stepped through"
STAGE_OF_FUNCTION = {
    "crc32c_word": "hash",
    "key16_hash": "hash",
    "key40_hash": "hash",
    "look_hash": "hash",
    "look_bucket": "bucket",
    "cuckoo_find": "bucket",
    "cuckoo_search": "bucket",
    "drive_wait": "bucket",
    "match8": "bucket",
    "look_key": "key",
    "cuckoo_lookup": "key",
    "key16_equal": "key",
    "key40_equal": "key",
    "layout_prefetch1": "prefetch",
    "layout_prefetch2": "prefetch",
    "layout_process": "session",
    "drive_process": "session",
    "drive_packet": "session",
    "cb_police": "session",
    "cb_count": "session",
    "cb_rewrite": "session",
}
"""As the marks of csrc/drive.h; the innermost function that is here decides."""

WRAPPERS = ("touch.h",)
"""A prefetch is told by the line that asks for it."""
_SLOT = "data.slot."


def code(listing: Sequence[Instruction], segments: Segments) -> Code:
    """The order of instructions in memory."""
    before: dict[int, int] = {}
    joined: set[int] = set()
    for first, second in itertools.pairwise(listing):
        place, after = segments.offset(first.address), segments.offset(second.address)
        if place is None or after is None or first.ends:
            continue
        before[after] = place
        if second.jumps and first.compares:
            joined.add(after)
    return Code(before, frozenset(joined))


def operands(listing: Sequence[Instruction], segments: Segments) -> tuple[Operand, ...]:
    """Of all instructions that touch memory by general registers."""
    found = []
    for each in listing:
        at = segments.offset(each.address)
        operand = None if at is None else each.operand(at)
        if operand is not None:
            found.append(operand)
    return tuple(found)


class Places:
    """The instructions of one kernel, by their offsets."""

    def __init__(
        self,
        layout: Layout,
        lines: Inlines,
        listing: Sequence[Instruction],
        arenas: Sequence[Arena],
        steps: Steps | None,
    ) -> None:
        self._lines = lines
        self._header = os.path.realpath(layout.header)
        self._header_name = layout.header.name if layout.builtin else str(layout.header)
        self._csrc = os.path.realpath(csrc_folder())
        by_name = {arena.name: arena for arena in arenas}
        prefetches = {lines.segments.offset(each.address) for each in listing if each.prefetches}

        def label(at: int, arena: str, offset: int) -> str:
            return f"prefetch of {arena}" if at in prefetches else _label(by_name[arena], offset)

        self._members = _touched(steps, label)
        self._objects = _touched(steps, lambda at, arena, offset: arena)
        self._stepped = {at for _, at, _ in steps.order} if steps is not None else set()
        self.chain = functools.lru_cache(maxsize=None)(self._chain)

    def stage(self, offset: int) -> str:
        for frame in self.chain(offset):
            # A clone's name goes on: cuckoo_search.part.0
            stage = STAGE_OF_FUNCTION.get(frame.function.partition(".")[0])
            if stage is not None:
                return stage
        return NO_STAGE

    def line(self, offset: int) -> tuple[str, int]:
        """The innermost frame that is ours and says what is done: file and line. The
        compiler's own headers are not ours; nor is a line 0."""
        for frame in self.chain(offset):
            if frame.line and (name := self._own(frame.file)) not in (None, *WRAPPERS):
                assert name is not None
                return name, frame.line
        return "?", 0

    def source(self, offset: int) -> int | None:
        """The innermost line of the layout's header, if the instruction comes from one."""
        for frame in self.chain(offset):
            if frame.line and os.path.realpath(frame.file) == self._header:
                return frame.line
        return None

    def member(self, offset: int) -> str:
        """Members of arenas that the instruction was seen to touch."""
        return self._members.get(offset, self._untouched(offset))

    def object(self, offset: int) -> str:
        """Arenas that it was seen to touch."""
        return self._objects.get(offset, self._untouched(offset))

    def _untouched(self, offset: int) -> str:
        return NO_MEMBER if offset in self._stepped else NOT_SEEN

    def text(self, file: str, line: int) -> str:
        """A line of a file that :meth:`line` named, without its indentation."""
        path = self._header if file == self._header_name else os.path.join(self._csrc, file)  # noqa: PTH118
        lines = _lines(path)
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""

    @property
    def header(self) -> str:
        return self._header_name

    def _chain(self, offset: int) -> tuple[Frame, ...]:
        address = self._lines.segments.address(offset)
        return () if address is None else self._lines.chain(address)

    def _own(self, file: str) -> str | None:
        path = os.path.realpath(file)
        if path == self._header:
            return self._header_name
        if os.path.dirname(path) == self._csrc:  # noqa: PTH120
            return os.path.basename(path)  # noqa: PTH119
        # What a header of the user's includes from beside it.
        if os.path.dirname(path) == os.path.dirname(self._header):  # noqa: PTH120
            return path
        return None


@functools.lru_cache
def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []


def _touched(steps: Steps | None, name: Callable[[int, str, int], str]) -> dict[int, str]:
    """Instruction to the names of all places that it touched, the most frequent first.

    ``name`` is of an instruction, an arena and a place in its element.
    """
    counts: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for at, arena, offset, count in steps.accesses if steps is not None else ():
        counts[at][name(at, arena, offset)] += count
    return {
        at: ", ".join(sorted(found, key=lambda text: (-found[text], text)))
        for at, found in counts.items()
    }


def _label(arena: Arena, offset: int) -> str:
    """A member by a name that it has in every layout, wherever it lies."""
    inside = [m for m in arena.struct.members if m.offset <= offset < m.offset + m.size]
    path = inside[0].path if inside else ""
    if arena.kind == "entries" and path.startswith(_SLOT):
        # The entry holds the session itself.
        path = path.removeprefix(_SLOT)
        return path if "." in path else f"session.{path}"
    if arena.kind in ("buckets", "entries", "rules") or "." not in path:
        return f"{arena.name}.{path}" if path else arena.name
    return path
