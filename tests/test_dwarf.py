# SPDX-License-Identifier: BSD-3-Clause
"""Structs read from debug information: pahole is the independent reader."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cachebench import build, dwarf
from cachebench.build import Recipe
from cachebench.catalogue import builtin_layouts, find, layouts_folder
from cachebench.dwarf import Struct
from cachebench.errors import CachebenchError

LAYOUTS = [layout.name for layout in builtin_layouts()]

SHAPES = """
#include <stdint.h>
typedef unsigned words[3];
typedef struct { short a, b; } pair;
struct later;
struct inner { char c; long n; };
enum colour { RED };
struct shapes {
	char first;
	int after_a_hole;
	struct inner inner;
	struct { uint8_t x; union { uint16_t u16; uint8_t u8[2]; }; };
	union { double d; pair p; } both;
	pair pairs[4];
	uint8_t grid[2][5];
	words three;
	unsigned a : 3, b : 7;
	unsigned : 0;
	unsigned long long wide : 40;
	struct later *next;
	const pair *const *list;
	pair *ahead;
	struct inner *pointers[2];
	int (*call)(int);
	void *any;
	volatile enum colour colour;
	_Atomic int atomic;
	char rest[];
} __attribute__((aligned(64)));
typedef struct shapes shapes_t;
struct bits { char c; unsigned x : 5; };
union either { int i; long l; };
struct shapes *keep(shapes_t *s, struct bits *b, union either *e, unsigned long n);
struct shapes *keep(shapes_t *s, struct bits *b, union either *e, unsigned long n)
{
	s->first = b->c + e->i + n;
	return s;
}
"""

# path, offset, size, type, points to, elements
SHAPES_MEMBERS = [
    ("first", 0, 1, "char", None, 1),
    ("after_a_hole", 4, 4, "int", None, 1),
    ("inner.c", 8, 1, "char", None, 1),
    ("inner.n", 16, 8, "long int", None, 1),
    ("x", 24, 1, "uint8_t", None, 1),
    ("u16", 26, 2, "uint16_t", None, 1),
    ("u8", 26, 2, "uint8_t[2]", None, 2),
    ("both.d", 32, 8, "double", None, 1),
    ("both.p.a", 32, 2, "short int", None, 1),
    ("both.p.b", 34, 2, "short int", None, 1),
    ("pairs", 40, 16, "pair[4]", None, 4),
    ("grid", 56, 10, "uint8_t[2][5]", None, 10),
    ("three", 68, 12, "words", None, 3),
    ("a", 80, 1, "unsigned int:3", None, 1),
    ("b", 80, 2, "unsigned int:7", None, 1),
    ("wide", 88, 5, "long long unsigned int:40", None, 1),
    ("next", 96, 8, "struct later *", "later", 1),
    ("list", 104, 8, "const pair *const *", None, 1),
    ("ahead", 112, 8, "pair *", "pair", 1),
    ("pointers", 120, 16, "struct inner *[2]", None, 2),
    ("call", 136, 8, "int (*)()", None, 1),
    ("any", 144, 8, "void *", None, 1),
    ("colour", 152, 4, "volatile enum colour", None, 1),
    ("atomic", 156, 4, "_Atomic int", None, 1),
    ("rest", 160, 0, "char[]", None, 0),
]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all tests of this file."""
    folder = tmp_path_factory.getbasetemp() / "dwarf-cache"
    monkeypatch.setenv("CACHEBENCH_CACHE", str(folder))


def kernel(name: str, **options: object) -> Path:
    return build.build(Recipe(find(name), plugin=True, **options))  # type: ignore[arg-type]


def compiled(folder: Path, source: str, *flags: str) -> Path:
    """A shared object of a source."""
    (folder / "shapes.c").write_text(source)
    made = folder / "shapes.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-g", *flags, "-o", made, folder / "shapes.c"], check=True
    )
    return made


# ---- Every kind of member


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_every_kind_of_member(tmp_path: Path, version: int) -> None:
    path = compiled(tmp_path, SHAPES, f"-gdwarf-{version}")
    shapes = dwarf.structs(path, ["struct shapes"])["struct shapes"]
    found = [
        (m.path, m.offset, m.size, m.type_name.replace("_Atomic ", ""), m.points_to, m.count)
        for m in shapes.members
    ]
    # Versions before 5 have no atomic types, and some compilers none at all.
    wanted = [(p, o, s, t.replace("_Atomic ", ""), to, n) for p, o, s, t, to, n in SHAPES_MEMBERS]
    assert found == wanted
    assert shapes.size == 192
    if version == 5:  # the others have no place for it
        assert shapes.alignment == 64
    bits = {m.path: (m.bit_offset, m.bit_size) for m in shapes.members if m.bit_size}
    assert bits == {"a": (640, 3), "b": (643, 7), "wide": (704, 40)}


def test_a_type_has_the_names_that_c_has_for_it(tmp_path: Path) -> None:
    path = compiled(tmp_path, SHAPES)
    names = ["struct shapes", "shapes_t", "shapes", "const struct  shapes"]
    found = dwarf.structs(path, names)
    assert len({struct.members for struct in found.values()}) == 1
    (either,) = dwarf.structs(path, ["union either"]).values()
    assert [(m.path, m.offset, m.size) for m in either.members] == [("i", 0, 4), ("l", 0, 8)]


@pytest.mark.parametrize(
    "name, size, points_to",
    [
        ("uint8_t", 1, None),
        ("unsigned long", 8, None),
        ("long unsigned int", 8, None),
        ("unsigned", 4, None),
        ("signed int", 4, None),
        ("char", 1, None),
        ("enum colour", 4, None),
        ("words", 12, None),
        ("struct shapes *", 8, "shapes"),
        ("shapes_t*", 8, "shapes"),
        ("struct shapes **", 8, None),
        ("void *", 8, None),
    ],
)
def test_a_scalar_is_a_struct_of_one_member(
    tmp_path: Path, name: str, size: int, points_to: str | None
) -> None:
    (struct,) = dwarf.structs(compiled(tmp_path, SHAPES), [name]).values()
    (member,) = struct.members
    assert (struct.size, member.size, member.offset, member.path) == (size, size, 0, "")
    assert member.points_to == points_to


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    path = compiled(tmp_path, "struct a { char c; } a;")
    assert dwarf.structs(path, ["struct a"])["struct a"].size == 1
    path = compiled(tmp_path, "struct a { char c[1000]; } a; int more[500] = {1};")
    assert dwarf.structs(path, ["struct a"])["struct a"].size == 1000


# ---- What cannot be read


def refused(path: Path, name: str = "struct shapes") -> str:
    with pytest.raises(CachebenchError) as caught:
        dwarf.structs(path, [name])
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_name_that_is_no_type(tmp_path: Path) -> None:
    path = compiled(tmp_path, SHAPES)
    for name in ("struct nowhere", "struct later", "nowhere *", "keep", "", "struct"):
        assert f"names no type {name!r}" in refused(path, name)


def test_an_object_without_debug_information(tmp_path: Path) -> None:
    assert "without debug information" in refused(compiled(tmp_path, SHAPES, "-g0"))
    assert "without debug information" in refused(compiled(tmp_path, SHAPES, "-s"))


def test_files_that_are_no_objects(tmp_path: Path) -> None:
    assert "cannot read" in refused(tmp_path / "none.so")
    assert "cannot read" in refused(tmp_path)
    (tmp_path / "text.so").write_text("text")
    assert "cannot be read" in refused(tmp_path / "text.so")


def test_damaged_debug_information(tmp_path: Path) -> None:
    whole = compiled(tmp_path, SHAPES).read_bytes()
    for cut in range(64, len(whole), len(whole) // 20):
        path = tmp_path / f"cut-{cut}.so"
        path.write_bytes(whole[:cut])
        refused(path)


# ---- Arenas of kernels


@pytest.mark.parametrize("name", LAYOUTS)
def test_arenas_have_the_size_of_their_types(name: str) -> None:
    path = kernel(name)
    arenas = dwarf.arena_types(build.load(path, name, 16), path)
    assert [arena.name for arena in arenas[:2]] == ["bucket", "key"]
    assert [arena.kind for arena in arenas[:2]] == ["buckets", "entries"]
    assert len(arenas) > 2
    for arena in arenas:
        assert arena.struct.size == arena.stride
        assert all(m.offset + m.size <= arena.stride for m in arena.struct.members)


def test_a_slot_points_to_the_session() -> None:
    path = kernel("pointer")
    arenas = {
        arena.name: arena for arena in dwarf.arena_types(build.load(path, "pointer", 16), path)
    }
    members = {m.path: m for m in arenas["key"].struct.members}
    assert members["data.slot"].points_to == "pointer_session"
    members = {m.path: m for m in arenas["session"].struct.members}
    assert members["policer"].points_to == "pointer_policer"
    assert members["rule"].points_to is None
    assert arenas["qos"].kind == "profiles"


def test_keys_of_40_bytes() -> None:
    path = kernel("embedded", key_size=40)
    arenas = dwarf.arena_types(build.load(path, "embedded", 40), path)
    assert arenas[1].stride == 128
    assert arenas[1].struct.alignment == 64


def test_a_kernel_without_debug_information() -> None:
    path = kernel("flat", cflags=("-g0",))
    with pytest.raises(CachebenchError, match=r"^layout flat: compiled without debug information"):
        dwarf.arena_types(build.load(path, "flat", 16), path)


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            'HEAP_ARENA("session", struct flat_session, CB_POOL)',
            '{"session", "struct nowhere", sizeof(struct flat_session), CB_POOL}',
            "layout own, arena 'session': the debug information names no type 'struct nowhere'",
        ),
        (
            'HEAP_ARENA("session", struct flat_session, CB_POOL)',
            '{"session", "struct cb_session", sizeof(uint64_t), CB_POOL}',
            "layout own, arena 'session': 'struct cb_session' has 144 bytes and the arena 8",
        ),
    ],
)
def test_a_layout_that_names_another_type(tmp_path: Path, old: str, new: str, message: str) -> None:
    header = tmp_path / "own.h"
    source = (layouts_folder() / "flat.h").read_text()
    assert old in source
    header.write_text(source.replace(old, new))
    path = kernel(str(header))
    with pytest.raises(CachebenchError, match=re.escape(message)):
        dwarf.arena_types(build.load(path, "own", 16), path)


# ---- pahole

_PLACE = re.compile(r"/\*\s*(\d+)(?::\s*(\d+))?\s+(\d+)\s*\*/$")
_NAME = re.compile(r"\(\*(\w+)\)|(\w+)(?:\[\d*\])*$")
_SIZE = re.compile(r"/\* size: (\d+)")

Places = list[tuple[str, int, int]]


def pahole(path: Path, name: str) -> tuple[int, Places]:
    """Size of a struct; path, offset and size of its leaves, by pahole's expanded text.

    Bit fields are left out: pahole places them by their storage units.
    """
    command = ["pahole", "--expand_types", "-C", name, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    open_structs: list[Places] = []
    for line in done.stdout.splitlines():
        line = re.sub(r"/\* typedef.*?\*/|__attribute__\(\(.*?\)\)+", "", line).strip()
        place = _PLACE.search(line)
        text = line[: place.start()].rstrip("; ") if place else line
        if text.endswith("{"):
            open_structs.append([])
        elif place and not place[2]:
            found = _NAME.search(text.lstrip("} "))
            title = (found[1] or found[2]) if found else ""
            here = (title, int(place[1]), int(place[3]))
            if not text.startswith("}"):
                open_structs[-1].append(here)
            else:
                inner = open_structs.pop()
                prefix = f"{title}." if title else ""
                open_structs[-1] += (
                    [here] if text.endswith("]") else [(prefix + leaf, *at) for leaf, *at in inner]
                )
    (leaves,) = open_structs
    return int(_SIZE.findall(done.stdout)[-1]), leaves


def same_as_pahole(path: Path, name: str, struct: Struct) -> None:
    ours = [(m.path, m.offset, m.size) for m in struct.members if m.bit_size is None]
    assert (struct.size, ours) == pahole(path, name), name


needs_pahole = pytest.mark.skipif(
    shutil.which("pahole") is None, reason="pahole is missing: apt install dwarves"
)


@needs_pahole
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("key_size", [16, 40])
def test_offsets_and_sizes_are_those_of_pahole(name: str, key_size: int) -> None:
    path = kernel(name, key_size=key_size)
    compared = set()
    for arena in dwarf.arena_types(build.load(path, name, key_size), path):
        if arena.type.startswith("struct "):
            same_as_pahole(path, arena.type.removeprefix("struct "), arena.struct)
            compared.add(arena.name)
    assert compared >= {"bucket", "key"} and len(compared) >= 3


@needs_pahole
def test_an_own_struct_is_that_of_pahole(tmp_path: Path) -> None:
    path = compiled(tmp_path, SHAPES.replace("	_Atomic int atomic;\n", "	int atomic;\n"))
    for name in ("shapes", "bits", "inner"):
        (struct,) = dwarf.structs(path, [f"struct {name}"]).values()
        same_as_pahole(path, name, struct)
