# SPDX-License-Identifier: BSD-3-Clause
"""Addresses to source lines, through all functions that the compiler inlined there."""

from __future__ import annotations

import bisect
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct import ConstructError
from elftools.dwarf.die import DIE
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.elf.elffile import ELFFile

from cachebench.errors import CachebenchError

# What pyelftools raises where the bytes make no sense.
_DAMAGE = (ELFError, DWARFError, ConstructError, LookupError, ValueError, AttributeError)
_SCOPES = ("DW_TAG_lexical_block", "DW_TAG_inlined_subroutine", "DW_TAG_subprogram")


@dataclass(frozen=True)
class Frame:
    """A place in the source. Line 0: the compiler made the instruction up."""

    function: str
    file: str
    line: int
    column: int


@dataclass(frozen=True)
class _Row:
    """A row of the line table: it holds from its address to the next one."""

    address: int
    end: int
    file: str
    line: int
    column: int


@dataclass(frozen=True)
class _Scope:
    """A function, its inlined copy, or a block of it, with what is inside."""

    ranges: tuple[tuple[int, int], ...]
    function: str | None
    """None of a block."""
    call: tuple[str, int, int]
    """Of an inlined copy, where it is called: file, line and column."""
    inside: tuple[_Scope, ...]

    def holds(self, address: int) -> bool:
        return any(low <= address < high for low, high in self.ranges)


class Segments:
    """Where the parts of an object's file are loaded, before they are moved."""

    def __init__(self, elf: ELFFile) -> None:
        self._parts = [
            (int(s["p_offset"]), int(s["p_filesz"]), int(s["p_vaddr"]))
            for s in elf.iter_segments("PT_LOAD")
        ]

    @staticmethod
    def of(path: Path) -> Segments:
        with path.open("rb") as file:
            return Segments(ELFFile(file))

    def address(self, offset: int) -> int | None:
        """The address of a place in the file, as symbols and objdump have it."""
        for start, size, address in self._parts:
            if start <= offset < start + size:
                return offset - start + address
        return None

    def offset(self, address: int) -> int | None:
        """The place in the file of an address."""
        for start, size, first in self._parts:
            if first <= address < first + size:
                return address - first + start
        return None


class Inlines:
    """The line tables and functions of one object; addresses are those of its symbols."""

    def __init__(self, path: Path, what: str) -> None:
        """``what`` begins the line of an error.

        Raises CachebenchError if the object has no debug information, or if that
        cannot be read.
        """
        rows: list[_Row] = []
        scopes: list[_Scope] = []
        try:
            elf = ELFFile(io.BytesIO(path.read_bytes()))
            self.segments = Segments(elf)
            if elf.get_section_by_name(".debug_line") is not None:
                dwarf = elf.get_dwarf_info()
                for unit in dwarf.iter_CUs():
                    reader = _Unit(dwarf, unit)
                    rows += reader.rows()
                    scopes += reader.scopes(unit.get_top_DIE())
        except OSError as error:
            raise CachebenchError(f"cannot read {path}: {error.strerror}") from None
        except _DAMAGE as error:
            why = str(error) or type(error).__name__
            raise CachebenchError(f"{path}: its debug information cannot be read: {why}") from None
        if not rows or not scopes:
            raise CachebenchError(
                f"{what}: compiled without debug information, so its lines are not known: "
                "leave -g0, -g1 and -s out of the compiler's flags"
            )
        self._rows = sorted(rows, key=lambda row: row.address)
        self._starts = [row.address for row in self._rows]
        self._scopes = scopes

    def chain(self, address: int) -> tuple[Frame, ...]:
        """The innermost place first, then where it is inlined; empty if unknown."""
        number = bisect.bisect_right(self._starts, address) - 1
        if number < 0 or address >= self._rows[number].end:
            return ()
        row = self._rows[number]
        frames = []
        place = (row.file, row.line, row.column)
        for scope in reversed(list(self._around(address))):
            if scope.function is not None:
                frames.append(Frame(scope.function, *place))
                place = scope.call
        return tuple(frames) or (Frame("", *place),)

    def _around(self, address: int) -> Iterator[_Scope]:
        scopes: tuple[_Scope, ...] | list[_Scope] = self._scopes
        while found := next((scope for scope in scopes if scope.holds(address)), None):
            yield found
            scopes = found.inside


class _Unit:
    """One compilation unit."""

    def __init__(self, dwarf: Any, unit: Any) -> None:
        self._dwarf = dwarf
        self._unit = unit
        self._program = dwarf.line_program_for_CU(unit)
        self._files = {} if self._program is None else self._names()
        low = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        self._base = 0 if low is None else int(low.value)

    def rows(self) -> Iterator[_Row]:
        if self._program is None:
            return
        before = None
        for entry in self._program.get_entries():
            state = entry.state
            if state is None:
                continue
            # Of several rows at one address the last one holds.
            if before is not None and state.address > before.address:
                file = self._files.get(before.file, "")
                yield _Row(before.address, state.address, file, before.line, before.column)
            before = None if state.end_sequence else state

    def scopes(self, parent: DIE) -> Iterator[_Scope]:
        """What has code, of the entries below one."""
        for die in parent.iter_children():
            if die.tag not in _SCOPES:
                continue
            ranges = tuple(self._ranges(die))
            if not ranges:
                continue
            function = None if die.tag == _SCOPES[0] else _name(die)
            yield _Scope(ranges, function, self._call(die), tuple(self.scopes(die)))

    def _names(self) -> dict[int, str]:
        header = self._program.header
        folder = _text(self._unit.get_top_DIE(), "DW_AT_comp_dir")
        folders = [entry.decode(errors="replace") for entry in header["include_directory"]]
        if header["version"] < 5:  # number 0 was the unit's own
            folders.insert(0, folder)
        names = {}
        first = 0 if header["version"] >= 5 else 1
        for number, entry in enumerate(header["file_entry"], first):
            name = entry.name.decode(errors="replace")
            path = Path(folder) / folders[entry.dir_index] / name
            names[number] = str(path)
        return names

    def _call(self, die: DIE) -> tuple[str, int, int]:
        file, line, column = (
            int(die.attributes[name].value) if name in die.attributes else 0
            for name in ("DW_AT_call_file", "DW_AT_call_line", "DW_AT_call_column")
        )
        return self._files.get(file, ""), line, column

    def _ranges(self, die: DIE) -> Iterator[tuple[int, int]]:
        low, high = die.attributes.get("DW_AT_low_pc"), die.attributes.get("DW_AT_high_pc")
        if low is not None and high is not None:
            end = int(high.value)
            yield int(low.value), end if high.form == "DW_FORM_addr" else int(low.value) + end
        elif (ranges := die.attributes.get("DW_AT_ranges")) is not None:
            base = self._base
            lists = self._dwarf.range_lists()
            for entry in lists.get_range_list_at_offset(ranges.value, cu=self._unit):
                if isinstance(entry, BaseAddressEntry):
                    base = entry.base_address
                else:
                    start = 0 if entry.is_absolute else base
                    yield start + entry.begin_offset, start + entry.end_offset


def _name(die: DIE) -> str:
    """Of a function, or of the one that an inlined copy is of."""
    while "DW_AT_name" not in die.attributes:
        for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
            if link in die.attributes:
                die = die.get_DIE_from_attribute(link)
                break
        else:
            return ""
    return _text(die, "DW_AT_name")


def _text(die: DIE, attribute: str) -> str:
    found = die.attributes.get(attribute)
    return "" if found is None else bytes(found.value).decode(errors="replace")
