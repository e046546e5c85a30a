# SPDX-License-Identifier: BSD-3-Clause
"""TLB geometry: recorded CPUID registers, and what is simulated of them."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from cachebench import geometry
from cachebench._core import ffi, lib
from cachebench.errors import CachebenchError
from cachebench.tracemodel import Level

Shape = tuple[int, int]  # ways, sets
NONE = (0, 0)

# Leaf 0x18 of an Ice Lake client core (Sunny Cove), sub-leaf by sub-leaf.
SUNNY_COVE = (
    (0x00000007, 0x00000000, 0x00000000, 0x00000000),
    (0x00000000, 0x00080007, 0x00000001, 0x00004122),
    (0x00000000, 0x0010000F, 0x00000001, 0x00004125),
    (0x00000000, 0x00040001, 0x00000010, 0x00004024),
    (0x00000000, 0x00040006, 0x00000008, 0x00004024),
    (0x00000000, 0x00080008, 0x00000001, 0x00004124),
    (0x00000000, 0x00080007, 0x00000080, 0x00004043),
    (0x00000000, 0x00080009, 0x00000080, 0x00004043),
)
# 0x80000005, 0x80000006 and 0x80000019 of a Ryzen 9 5950X (Zen 3).
ZEN_3 = (
    (0xFF40FF40, 0xFF40FF40, 0x20080140, 0x20080140),
    (0x48002200, 0x68004200, 0x02006140, 0x02009140),
    (0xF040F040, 0xF0400000, 0x00000000, 0x00000000),
)
# The same of an EPYC of the same core in a virtual machine, and of a made-up CPU of QEMU.
ZEN_3_GUEST = ((0, 0, 0, 0), ZEN_3[1], ZEN_3[2])
QEMU = (
    (0x01FF01FF, 0x01FF01FF, 0x40020140, 0x40020140),
    (0x00000000, 0x42004200, 0x02008140, 0x00808140),
    (0, 0, 0, 0),
)


def shapes(found: object) -> list[tuple[Shape, Shape]]:
    """(first level, second level) for 4K, 2M and 1G pages."""
    return [
        tuple((level.ways, level.sets) for level in found.level[page])  # type: ignore[attr-defined, misc]
        for page in (lib.CB_TLB_4K, lib.CB_TLB_2M, lib.CB_TLB_1G)
    ]


def intel(*leaves: tuple[int, int, int, int]) -> list[tuple[Shape, Shape]]:
    return shapes(lib.cb_tlbs_intel(ffi.new("struct cb_cpuid[]", list(leaves)), len(leaves)))


def amd(*leaves: tuple[int, int, int, int]) -> list[tuple[Shape, Shape]]:
    return shapes(lib.cb_tlbs_amd(*(ffi.new("struct cb_cpuid *", leaf)[0] for leaf in leaves)))


def structure(ways: int, sets: int, *, pages: int, level: int, kind: int) -> tuple[int, ...]:
    return (0, ways << 16 | pages, sets, level << 5 | kind)


def test_sunny_cove_has_what_its_manual_says() -> None:
    # 64 and 2,048 entries for 4K pages (two halves of 1,024), 32 and 1,024 for 2M, 8 and
    # 1,024 for 1G. Structures for instructions and for stores alone are not among them.
    assert intel(*SUNNY_COVE) == [
        ((4, 16), (16, 128)),
        ((4, 8), (8, 128)),
        ((8, 1), (8, 128)),
    ]


def test_zen_3_has_what_its_manual_says() -> None:
    # 64 entries that are fully associative; 2,048 behind them, for 1G pages 64.
    assert amd(*ZEN_3) == [
        ((64, 1), (8, 256)),
        ((64, 1), (4, 512)),
        ((64, 1), (64, 1)),
    ]


def test_what_a_hypervisor_leaves_out_is_none() -> None:
    assert amd(*ZEN_3_GUEST) == [
        (NONE, (8, 256)),
        (NONE, (4, 512)),
        ((64, 1), (64, 1)),
    ]
    assert amd(*QEMU) == [((1, 255), (4, 128)), ((1, 255), NONE), (NONE, NONE)]
    assert intel(*([(0, 0, 0, 0)] * 8)) == [(NONE, NONE)] * 3
    assert intel() == [(NONE, NONE)] * 3
    assert amd(*([(0, 0, 0, 0)] * 3)) == [(NONE, NONE)] * 3


def test_structures_with_other_sets_are_not_added_up() -> None:
    small = structure(4, 16, pages=1, level=2, kind=3)
    large = structure(8, 128, pages=1, level=2, kind=3)
    for order in ((small, large), (large, small)):
        assert intel(*order)[0] == (NONE, (8, 128))  # type: ignore[arg-type]


def test_levels_and_types_that_are_not_simulated_are_left_out() -> None:
    third = structure(4, 16, pages=0xF, level=3, kind=3)
    none = structure(4, 16, pages=0xF, level=0, kind=1)
    stores = structure(4, 16, pages=0xF, level=1, kind=5)
    empty = structure(4, 0, pages=0xF, level=1, kind=1)
    data = structure(6, 8, pages=0b1000, level=1, kind=1)
    assert intel(third, none, stores, empty, data) == [  # type: ignore[arg-type]
        (NONE, NONE),
        (NONE, NONE),
        ((6, 8), NONE),
    ]


@pytest.mark.parametrize(
    ("code", "entries", "shape"),
    [
        (0x1, 512, (1, 512)),
        (0x2, 512, (2, 256)),
        (0x3, 1536, (3, 512)),
        (0x5, 1536, (6, 256)),
        (0x8, 2048, (16, 128)),
        (0xA, 2048, (32, 64)),
        (0xE, 2048, (128, 16)),
        (0xF, 48, (48, 1)),
        (0x0, 2048, NONE),
        (0x7, 2048, NONE),
        (0x9, 2048, NONE),
        (0x8, 100, NONE),  # no whole number of sets
    ],
)
def test_amds_codes_for_ways(code: int, entries: int, shape: Shape) -> None:
    data = (code << 12 | entries) << 16
    assert amd((0, 0, 0, 0), (0, data | 0x4040, 0, 0), (0, 0, 0, 0))[0] == (NONE, shape)


def test_a_second_level_for_data_and_instructions_is_in_the_lower_half() -> None:
    found = amd((0, 0, 0, 0), (0, 0x4200, 0, 0), (0xF040, 0, 0, 0))
    assert found[0] == (NONE, (4, 128))
    assert found[2] == (NONE, NONE)  # of the first level the lower half is for instructions


# ---- What is simulated


def test_the_host_is_asked_and_what_is_not_told_is_said() -> None:
    for bits, default in geometry.TLBS.items():
        tlbs, told = geometry.host_tlbs(bits)
        asked = ffi.new("struct cb_tlbs *")
        name = lib.cb_tlbs_host(asked)
        page = sorted(geometry.TLBS).index(bits)
        first, second = asked.level[page]
        if name != ffi.NULL and first.ways:
            assert told == f"by {ffi.string(name).decode()}"
            assert tlbs[0] == Level(ways=first.ways, sets=first.sets)
        else:
            none = "the second level alone" if second.ways else "none"
            assert (tlbs, told) == (default, f"by default: the CPU tells of {none}")


def test_a_second_level_that_is_told_alone_is_not_joined_to_a_first_one_by_default() -> None:
    leaves = (ffi.new("struct cb_cpuid *", leaf)[0] for leaf in ZEN_3_GUEST)
    found = lib.cb_tlbs_amd(*leaves)
    assert geometry.tlbs_told(found, "it", 12) == (
        geometry.TLBS[12],
        "by default: the CPU tells of the second level alone",
    )
    assert geometry.tlbs_told(found, "it", 30) == ((Level(ways=64, sets=1),) * 2, "by it")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="CPUID is of x86-64 alone")
def test_it_is_the_cpus_own_answer(tmp_path: Path) -> None:
    """The same leaves read by another program and decoded in Python."""
    source = tmp_path / "ask.c"
    source.write_text(
        "#include <cpuid.h>\n#include <stdio.h>\n"
        "int main(void) {\n"
        "  for (unsigned i = 0; i < 64; i++) {\n"
        "    unsigned a = 0, b = 0, c = 0, d = 0;\n"
        "    if (!__get_cpuid_count(0x18, i, &a, &b, &c, &d)) break;\n"
        '    printf("%u %u %u %u\\n", a, b, c, d);\n'
        "  }\n}\n"
    )
    program = tmp_path / "ask"
    subprocess.run(["cc", "-o", program, source], check=True)
    leaves = [
        tuple(map(int, line.split()))
        for line in subprocess.run([program], capture_output=True, text=True).stdout.splitlines()
    ]
    found = ffi.new("struct cb_tlbs *")
    name = lib.cb_tlbs_host(found)
    if name == ffi.NULL or ffi.string(name) != b"CPUID leaf 0x18":
        pytest.skip("no CPU with leaf 0x18")
    largest = leaves[0][0]
    first = [
        (ebx >> 16) * sets
        for _, ebx, sets, edx in leaves[: largest + 1]
        if edx & 0x1F in (1, 3, 4) and edx >> 5 & 7 == 1 and ebx & 1
    ]
    shape = found.level[lib.CB_TLB_4K][0]
    assert shape.ways * shape.sets == max(first, default=0)


def test_tlbs_are_typed_in_entries() -> None:
    shape = geometry.geometry("l1=48k/12,dtlb=96/6,stlb=2048/16", {}, "4k")
    assert shape.tlbs == (Level(ways=6, sets=16), Level(ways=16, sets=128))
    assert shape.source == "caches as typed, TLB as typed"
    assert geometry.describe(shape) == "l1=48k/12,dtlb=96/6,stlb=2048/16"


def test_a_single_tlb_can_be_typed() -> None:
    assert geometry.geometry("l1=48k/12,dtlb=64/64", {}, "4k").tlbs == (
        Level(ways=64, sets=1),
        geometry.NO_LEVEL,
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("l1=48k/12,dtlb=64/5", "64 entries are no whole number of sets of 5 ways"),
        ("l1=48k/12,dtlb=0/4", "no whole number of sets"),
        ("l1=48k/12,dtlb=64/0", "no whole number of sets"),
        ("l1=48k/12,dtlb=2k/4", "dtlb=ENTRIES/WAYS"),
        ("l1=48k/12,stlb=2048/16", "dtlb is missing"),
        ("l1=48k/12,l1=32k/8", "l1 is there twice"),
    ],
)
def test_tlbs_that_cannot_be_are_refused(text: str, says: str) -> None:
    with pytest.raises(CachebenchError, match=says):
        geometry.geometry(text, {}, "4k")
