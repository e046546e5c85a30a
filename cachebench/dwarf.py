# SPDX-License-Identifier: BSD-3-Clause
"""The structs of a kernel, from the debug information of its shared object."""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct import ConstructError
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from cachebench._core import ffi, lib
from cachebench.analyze.structmap import Arena, Kind, Member, Struct
from cachebench.core import Pointer
from cachebench.errors import CachebenchError

__all__ = ["Arena", "Member", "Struct", "arena_types", "structs"]

_KERNEL = "kernel.c"
_RECORDS = {"DW_TAG_structure_type": "struct", "DW_TAG_union_type": "union"}
_TAGGED = {**_RECORDS, "DW_TAG_enumeration_type": "enum"}
_NAMED = ("DW_TAG_typedef", "DW_TAG_base_type")
_QUALIFIERS = {
    "DW_TAG_const_type": "const",
    "DW_TAG_volatile_type": "volatile",
    "DW_TAG_atomic_type": "_Atomic",
    "DW_TAG_restrict_type": "restrict",
}

_BASIC = {"char", "short", "int", "long", "signed", "unsigned"}
# What pyelftools raises where the bytes make no sense.
_DAMAGE = (ELFError, DWARFError, ConstructError, LookupError, ValueError, AttributeError)

_KINDS: dict[int, Kind] = {
    lib.CB_BUCKETS: "buckets",
    lib.CB_ENTRIES: "entries",
    lib.CB_POOL: "pool",
    lib.CB_COLUMN: "column",
    lib.CB_PROFILES: "profiles",
    lib.CB_RULES: "rules",
}


def arena_types(ops: Pointer, path: Path | str) -> tuple[Arena, ...]:
    """The arenas of a kernel, the table's first, each with the type of its elements.

    ``path`` is the shared object that ``ops`` was loaded from.
    """
    layout = f"layout {_text(ops.layout)}"
    specs = [
        *(ops.table_arenas[i] for i in range(ops.table_arena_count)),
        *(ops.layout_arenas[i] for i in range(ops.layout_arena_count)),
    ]
    return tuple(_arena(layout, spec, Path(path)) for spec in specs)


def _arena(layout: str, spec: Any, path: Path) -> Arena:
    name, type_name, stride = _text(spec.name), _text(spec.type), int(spec.stride)
    where = f"{layout}, arena {name!r}"
    struct = _find(path, type_name, layout, where)
    if not 0 < struct.size <= stride:
        raise CachebenchError(
            f"{where}: {type_name!r} has {struct.size} bytes and the arena {stride} for each "
            "element: give the type that the elements have"
        )
    return Arena(name, type_name, stride, _KINDS[int(spec.kind)], struct)


def _text(string: Any) -> str:
    return str(ffi.string(string).decode(errors="replace"))


def structs(path: Path | str, names: Iterable[str]) -> dict[str, Struct]:
    """Types of a shared object by the names that C has for them.

    ``struct policer``, ``union data``, a typedef, ``uint32_t``, ``struct policer *``;
    or the tag alone. What is no struct and no union becomes a struct of one member
    that has no name.
    """
    return {name: _find(Path(path), name, str(path), str(path)) for name in names}


def _find(path: Path, type_name: str, what: str, where: str) -> Struct:
    """One type of an object; ``what`` and ``where`` begin the error's line."""
    try:
        facts = path.stat()
        types = _read(path, facts.st_mtime_ns, facts.st_size)
        struct = types.struct(type_name)
    except OSError as error:
        raise CachebenchError(f"cannot read {path}: {error.strerror}") from None
    except _DAMAGE as error:
        why = str(error) or type(error).__name__
        raise CachebenchError(f"{path}: its debug information cannot be read: {why}") from None
    if types.empty:
        raise CachebenchError(
            f"{what}: compiled without debug information, so its structs are not known: "
            "leave -g0 and -s out of the compiler's flags"
        )
    if struct is None:
        raise CachebenchError(
            f"{where}: the debug information names no type {type_name!r}: correct the name, or "
            "use the type in a function (a compiler leaves out what none uses)"
        )
    return struct


@functools.lru_cache(maxsize=64)
def _read(path: Path, changed: int, size: int) -> _Types:
    """The types of a file; of one that changed it is asked anew."""
    # In memory: what is parsed later is read later.
    elf = ELFFile(io.BytesIO(path.read_bytes()))
    if elf.get_section_by_name(".debug_info") is None:
        return _Types(())
    tops = [unit.get_top_DIE() for unit in elf.get_dwarf_info().iter_CUs()]
    # The kernel's own unit; all of them where it has another name, as with -flto.
    return _Types([top for top in tops if _name(top).endswith(_KERNEL)] or tops)


class _Types:
    """The types that units of an object define, by their names in C."""

    def __init__(self, tops: Iterable[DIE]) -> None:
        self._named: dict[str, DIE] = {}
        self._address_size = 8
        for top in tops:
            self._address_size = int(top.cu["address_size"])
            for die in top.iter_children():
                if (name := _name(die)) and "DW_AT_declaration" not in die.attributes:
                    if die.tag in _TAGGED:
                        self._named.setdefault(f"{_TAGGED[die.tag]} {name}", die)
                    elif die.tag in _NAMED:
                        self._named.setdefault(_canonical(name), die)

    @property
    def empty(self) -> bool:
        return not self._named

    def struct(self, name: str) -> Struct | None:
        """None if there is no type of this name."""
        text = " ".join(word for word in name.split() if word not in _QUALIFIERS.values())
        target = text.rstrip("* ")
        die = self._lookup(target)
        if die is None and target != "void":
            return None
        stars = text.count("*")
        if stars:
            pointed = _record_name(die) if stars == 1 else None
            size = self._address_size
            return Struct(text, size, None, (Member("", "", 0, size, text, pointed),))
        assert die is not None
        record = _bare(die)
        if record is not None and record.tag in _RECORDS:
            return Struct(
                text, self._size(die), _alignment(die), tuple(self._members(record, "", 0))
            )
        return Struct(text, self._size(die), _alignment(die), (self._leaf(die, "", "", 0),))

    def _lookup(self, name: str) -> DIE | None:
        for key in (_canonical(name), f"struct {name}", f"union {name}"):
            if key in self._named:
                return self._named[key]
        return None

    def _members(self, record: DIE, prefix: str, base: int) -> Iterator[Member]:
        """The leaves of a struct or union that begins at byte ``base``."""
        for die in record.iter_children():
            if die.tag != "DW_TAG_member":
                continue
            name, of = _name(die), _type(die)
            path = f"{prefix}.{name}" if prefix and name else prefix + name
            inner = _bare(of)
            if inner is not None and inner.tag in _RECORDS:
                yield from self._members(inner, path, base + _location(die))
            elif "DW_AT_bit_size" in die.attributes:
                yield self._bit_field(die, path, name, base)
            else:
                yield self._leaf(of, path, name, base + _location(die))

    def _leaf(self, of: DIE | None, path: str, name: str, offset: int) -> Member:
        bare = _bare(of)
        points_to = None
        if bare is not None and bare.tag == "DW_TAG_pointer_type":
            points_to = _record_name(_type(bare))
        count = _count(bare) if bare is not None and _is_array(bare) else 1
        return Member(name, path, offset, self._size(of), _spelled(of), points_to, count)

    def _bit_field(self, die: DIE, path: str, name: str, base: int) -> Member:
        bits = int(die.attributes["DW_AT_bit_size"].value)
        if "DW_AT_data_bit_offset" in die.attributes:
            first = int(die.attributes["DW_AT_data_bit_offset"].value)
        else:  # before DWARF 4: from the storage unit's most significant bit
            unit = die.attributes.get("DW_AT_byte_size")
            unit_size = self._size(_type(die)) if unit is None else int(unit.value)
            from_top = int(die.attributes["DW_AT_bit_offset"].value)
            first = 8 * (_location(die) + unit_size) - from_top - bits
        first += 8 * base
        offset = first // 8
        size = (first + bits + 7) // 8 - offset
        spelled = f"{_spelled(_type(die))}:{bits}"
        return Member(name, path, offset, size, spelled, bit_offset=first, bit_size=bits)

    def _size(self, die: DIE | None) -> int:
        bare = _bare(die)
        if bare is None:
            return 0
        if (size := bare.attributes.get("DW_AT_byte_size")) is not None:
            return int(size.value)
        if _is_array(bare):
            return _count(bare) * self._size(_type(bare))
        return self._address_size if bare.tag == "DW_TAG_pointer_type" else 0


def _canonical(name: str) -> str:
    """One name for a basic type, however its words are ordered: ``long unsigned int``."""
    words = name.split()
    if not words or not set(words) <= _BASIC:
        return " ".join(words)
    kept = sorted(word for word in words if word != "int" and (word != "signed" or "char" in words))
    return " ".join(kept) or "int"


def _name(die: DIE) -> str:
    attribute = die.attributes.get("DW_AT_name")
    return "" if attribute is None else bytes(attribute.value).decode(errors="replace")


def _type(die: DIE) -> DIE | None:
    """The type that an entry refers to; None is void."""
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def _bare(die: DIE | None) -> DIE | None:
    """A type without its typedefs and qualifiers."""
    while die is not None and (die.tag == "DW_TAG_typedef" or die.tag in _QUALIFIERS):
        die = _type(die)
    return die


def _record_name(die: DIE | None) -> str | None:
    """Tag of a struct or union, or the name of its typedef; None of any other type."""
    bare = _bare(die)
    if bare is None or bare.tag not in _RECORDS:
        return None
    while die is not None and not _name(die):
        die = _type(die)
    return _name(bare) or (None if die is None else _name(die))


def _alignment(die: DIE | None) -> int | None:
    while die is not None:
        if (found := die.attributes.get("DW_AT_alignment")) is not None:
            return int(found.value)
        die = _type(die) if die.tag == "DW_TAG_typedef" else None
    return None


def _location(die: DIE) -> int:
    """Offset of a member in its struct; that of a union's is left out."""
    attribute = die.attributes.get("DW_AT_data_member_location")
    if attribute is None:
        return 0
    if isinstance(attribute.value, int):
        return attribute.value
    # DWARF 2: DW_OP_plus_uconst and a number of seven bits a byte.
    operation, *rest = attribute.value
    if operation != 0x23:
        raise ValueError(f"a member's place is an expression with operation {operation:#x}")
    return sum((byte & 0x7F) << 7 * number for number, byte in enumerate(rest))


def _is_array(die: DIE) -> bool:
    return die.tag == "DW_TAG_array_type" and "DW_AT_GNU_vector" not in die.attributes


def _dimensions(array: DIE) -> Iterator[int]:
    for part in array.iter_children():
        if part.tag != "DW_TAG_subrange_type":
            continue
        if (count := part.attributes.get("DW_AT_count")) is not None:
            yield int(count.value)
        elif (bound := part.attributes.get("DW_AT_upper_bound")) is not None:
            # -1 is written for no elements, in as many bytes as there are.
            yield int(bound.value) + 1 if 0 <= int(bound.value) < 1 << 62 else 0
        else:
            yield 0


def _count(array: DIE) -> int:
    """Elements of all dimensions, of an array of arrays the inner ones too."""
    inner = _bare(_type(array))
    of_each = _count(inner) if inner is not None and _is_array(inner) else 1
    return math.prod(_dimensions(array)) * of_each


def _spelled(die: DIE | None) -> str:
    """A type as C has it, near enough to be read."""
    if die is None:
        return "void"
    if die.tag in _QUALIFIERS:
        inner, word = _spelled(_type(die)), _QUALIFIERS[die.tag]
        return f"{inner}{word}" if inner.endswith("*") else f"{word} {inner}"
    if die.tag in _TAGGED:
        return f"{_TAGGED[die.tag]} {_name(die) or '{ }'}"
    if die.tag == "DW_TAG_pointer_type":
        pointed = _type(die)
        if pointed is not None and pointed.tag == "DW_TAG_subroutine_type":
            return f"{_spelled(_type(pointed))} (*)()"
        inner = _spelled(pointed)
        return f"{inner}*" if inner.endswith("*") else f"{inner} *"
    if die.tag == "DW_TAG_array_type":
        sizes = "".join(f"[{count or ''}]" for count in _dimensions(die))
        return f"{_spelled(_type(die))}{sizes}"
    return _name(die) or str(die.tag).removeprefix("DW_TAG_")
