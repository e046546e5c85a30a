# SPDX-License-Identifier: BSD-3-Clause
"""Struct maps: the arithmetic, the text, the document and the picture."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cachebench.analyze import structmap
from cachebench.analyze.structmap import (
    Arena,
    Document,
    Heat,
    LayoutMap,
    Member,
    Struct,
    compare,
    map_arena,
    map_layout,
)
from cachebench.catalogue import builtin_layouts, layouts_folder
from cachebench.cli import main
from cachebench.report import mapsvg, maptext

LAYOUTS = [layout.name for layout in builtin_layouts()]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all tests of this file."""
    folder = tmp_path_factory.getbasetemp() / "map-cache"
    monkeypatch.setenv("CACHEBENCH_CACHE", str(folder))


def member(path: str, offset: int, size: int, type_name: str = "int", **more: object) -> Member:
    return Member(path.rpartition(".")[2], path, offset, size, type_name, **more)  # type: ignore[arg-type]


def arena(size: int, *members: Member, stride: int = 0, name: str = "session") -> Arena:
    struct = Struct(f"struct {name}", size, None, members)
    return Arena(name, struct.name, stride or size, "pool", struct)


def scalar(name: str, size: int) -> Arena:
    struct = Struct("uint64_t", size, None, (member("", 0, size, "uint64_t"),))
    return Arena(name, "uint64_t", size, "column", struct)


SESSION = arena(
    128,
    member("next", 0, 8, "struct session *", points_to="session"),
    member("state", 8, 1, "unsigned int:3", bit_offset=64, bit_size=3),
    member("flags", 8, 1, "unsigned int:4", bit_offset=67, bit_size=4),
    member("key.port", 12, 2, "uint16_t"),
    member("value.word", 16, 8, "long"),
    member("value.half", 16, 4, "int"),
    member("name", 60, 8, "char[8]", count=8),
    member("tags", 72, 48, "tags_t *", points_to="tags"),
)


STRUCT_TEXT = """\
own, 16-byte keys, lines of 64 B (computed)

session: struct session, one per session, 128 B in 2 lines

 offset     size   line   straddles   member               type
 ──────────────────────────────────────────────────────────────────────────
      0        8      0               next                 struct session *
    8:0   3 bits      0               state                unsigned int:3
    8:3   4 bits      0               flags                unsigned int:4
    8:7    1 bit      0               (hole)
      9        3      0               (hole)
     12        2      0               key.port             uint16_t
     14        2      0               (hole)
     16        8      0               value.word (union)   long
     16        4      0               value.half (union)   int
     24       36      0               (hole)
     60        8    0-1         yes   name                 char[8]

     68        4      1               (hole)
     72       48      1               tags                 tags_t * → tags
    120        8      1               (padding)

75 of 128 B used, holes 45 B and 1 bit, padding 8 B; 1 member straddles a line
"""

VARYING_TEXT = """\
own, 16-byte keys, lines of 64 B (computed)

session: struct session, one per session, 96 B in 2 lines;
elements begin at 2 places of a line, so lines may vary

 offset   size     line   straddles   member   type
 ──────────────────────────────────────────────────
      0      8        0               a        int
      8     52   varies               (hole)
     60     36   varies       50.0%   b        int

44 of 96 B used, holes 52 B; 1 member straddles a line in some elements

Arrays of single values:

 array   type       size   to a line   elements
 ─────────────────────────────────────────────────────
 x.y     uint64_t      8           8   one per session

"""

COMPARISON_TEXT = """\
base a, head b, 16-byte keys (computed)

 arena     base                             head
 ──────────────────────────────────────────────────────────────────────
 session   128 B in 2 lines, 108 B unused   64 B in 1 line, 54 B unused
 z         -                                8 B (8 to a line)


 member    size   base          line   head         line   change
 ─────────────────────────────────────────────────────────────────────────────
 z            8   session +8       0   z +0            0   arena
 y        4 → 2   session +64      1   session +8      0   moved, line, shrank

unchanged: 1 member
"""


HEATS = (
    {("session", "y"): Heat(1.0, 2.0, 0.5, 0.25, 0.125), ("session", ""): Heat(0.5)},
    {("session", "x"): Heat(writes=1.0), ("z", ""): Heat(reads=3.0)},
)
HEAT_TEXT = """\
unchanged: 1 member

              base                           head
member        read  write   L1d    L2   LLC  read  write  L1d  L2  LLC
──────────────────────────────────────────────────────────────────────
x                0      0     0     0     0     0   1.00    0   0    0
y             1.00   2.00  0.50  0.25  0.12     -
z                -                           3.00      0    0   0    0

all of these  1.50   2.00  0.50  0.25  0.12  3.00   1.00    0   0    0
"""


# ---- Arithmetic


def test_holes_and_padding_are_what_no_member_covers() -> None:
    found = map_arena(SESSION)
    gaps = [
        (row.kind, row.offset, row.size, row.bit_offset, row.bit_size)
        for row in found.rows
        if row.member is None
    ]
    assert gaps == [
        ("hole", 8, 0, 71, 1),
        ("hole", 9, 3, None, None),
        ("hole", 14, 2, None, None),
        ("hole", 24, 36, None, None),
        ("hole", 68, 4, None, None),
        ("padding", 120, 8, None, None),
    ]
    assert (found.size, found.used, found.holes, found.padding) == (128, 75, 45, 8)
    assert (found.hole_bits, found.padding_bits) == (1, 0)
    assert [row.member.path for row in found.rows if row.overlaps and row.member] == [
        "value.word",
        "value.half",
    ]


def test_bits_after_the_last_bit_field_are_padding() -> None:
    field = member("x", 0, 1, "int:5", bit_offset=0, bit_size=5)
    found = map_arena(arena(4, field))
    assert [(row.kind, row.size, row.bit_size) for row in found.rows] == [
        ("member", 1, 5),
        ("padding", 0, 3),
        ("padding", 3, None),
    ]
    assert (found.padding, found.padding_bits, found.hole_bits) == (3, 3, 0)


def test_lines_are_counted_from_the_elements_start() -> None:
    found = {row.member.path: row for row in map_arena(SESSION).rows if row.member}
    assert found["next"].lines == (0, 0)
    assert found["name"].lines == (0, 1)
    assert found["tags"].lines == (1, 1)
    assert [path for path, row in found.items() if row.straddling] == ["name"]


def test_an_array_of_more_than_a_line_straddles_if_it_could_be_on_fewer() -> None:
    at_line, later, far = member("a", 64, 72), member("b", 136, 72), member("c", 248, 72)
    found = map_arena(arena(320, at_line, later, far))
    assert [row.lines for row in found.rows if row.member] == [(1, 2), (2, 3), (3, 4)]
    assert not found.straddling
    found = map_arena(arena(320, member("a", 60, 72)))
    assert [row.lines for row in found.straddling] == [(0, 2)]


def test_where_several_elements_share_a_line_nothing_varies() -> None:
    found = map_arena(arena(32, member("a", 0, 8), member("b", 24, 8)))
    assert (found.starts, found.least_lines, found.most_lines) == (2, 1, 1)
    assert {row.lines for row in found.rows} == {(0, 0)}
    assert not found.straddling


def test_an_odd_stride_has_all_starts() -> None:
    found = map_arena(arena(227, member("first", 0, 8), member("byte", 24, 1)))
    assert found.starts == 64
    assert [row.straddling for row in found.rows if row.member] == [7, 0]
    assert [row.lines for row in found.rows] == [None] * 4
    # Of 64 starts, the 30 below 30 leave 227 bytes on four lines.
    assert (found.least_lines, found.most_lines, found.mean_lines) == (4, 5, (30 * 4 + 34 * 5) / 64)


@given(
    stride=st.integers(1, 300),
    offset=st.integers(0, 299),
    size=st.integers(1, 150),
    line_size=st.sampled_from([32, 64, 128]),
)
def test_straddling_is_that_of_a_long_array(
    stride: int, offset: int, size: int, line_size: int
) -> None:
    if offset + size > stride:
        return
    found = map_arena(arena(stride, member("a", offset, size)), line_size=line_size)
    begins = [i * stride + offset for i in range(math.lcm(stride, line_size) // stride)]
    lines = [{byte // line_size for byte in range(first, first + size)} for first in begins]
    more = [on for on in lines if len(on) * line_size >= size + line_size]
    (row,) = (row for row in found.rows if row.member)
    assert (row.straddling, found.starts) == (len(more), len(begins))
    relative = {
        (min(on) - i * stride // line_size, max(on) - i * stride // line_size)
        for i, on in enumerate(lines)
    }
    assert row.lines == (relative.pop() if len(relative) == 1 else None)


def test_elements_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="128 bytes do not fit a stride of 64"):
        map_arena(arena(128, stride=64))


def test_heat_goes_to_the_members_that_have_it() -> None:
    heat = {("session", "next"): Heat(reads=1.0, llc_misses=0.25), ("other", "tags"): Heat(9.0)}
    found = {row.member.path: row for row in map_arena(SESSION, heat).rows if row.member}
    assert found["next"].heat == Heat(1.0, 0.0, 0.0, 0.0, 0.25)
    assert found["tags"].heat == Heat()
    assert all(row.heat is None for row in map_arena(SESSION).rows)
    assert map_arena(SESSION, heat).heat == Heat(1.0, 0.0, 0.0, 0.0, 0.25)
    assert map_arena(SESSION, {}).heat == Heat()
    assert map_arena(SESSION).heat is None


# ---- Base and head


def layout_of(name: str, *arenas: Arena) -> LayoutMap:
    return map_layout(name, 16, arenas)


def test_members_are_matched_from_the_end_of_their_names() -> None:
    base = layout_of(
        "base",
        arena(128, member("stats", 0, 8), member("rule", 8, 4), member("cold.tags", 64, 40)),
        arena(64, member("stats.bytes", 0, 8), member("stats.last", 8, 8), name="stats"),
    )
    head = layout_of(
        "head",
        arena(192, member("stats.bytes", 0, 8), member("rule", 100, 2), member("more", 102, 2)),
        scalar("stats.last", 8),
        arena(72, member("tags", 0, 72), name="cold.tags"),
    )
    found = {difference.name: difference for difference in compare(base, head)}
    assert {name: difference.changes for name, difference in found.items()} == {
        "session.stats": ("gone",),
        "session.rule": ("moved", "line", "shrank"),
        "session.cold.tags": ("arena", "grew"),
        "stats.stats.bytes": ("arena",),
        "stats.stats.last": ("arena",),
        "session.more": ("new",),
    }
    tags = found["session.cold.tags"]
    assert tags.base is not None and tags.base.lines == (1, 1)
    assert tags.head is not None and (tags.head.arena, tags.head.path) == ("cold.tags", "tags")


def test_a_name_that_fits_two_members_is_no_match() -> None:
    base = layout_of("base", arena(8, member("count", 0, 4)))
    head = layout_of("head", arena(16, member("a.count", 0, 4), member("b.count", 8, 4)))
    assert [d.changes for d in compare(base, head)] == [("gone",), ("new",), ("new",)]


def test_a_layout_does_not_differ_from_itself() -> None:
    layout = layout_of("a", SESSION, scalar("x", 8))
    assert [difference.changes for difference in compare(layout, layout)] == [()] * 9


# ---- Text


def shown(document: Document, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    maptext.show(document, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def one(*arenas: Arena, **heat: object) -> Document:
    return Document(structmap.SCHEMA, (map_layout("own", 16, arenas, **heat),))  # type: ignore[arg-type]


def test_the_text_of_a_struct() -> None:
    assert shown(one(SESSION)) == STRUCT_TEXT


def test_the_text_of_elements_at_varying_places() -> None:
    text = shown(one(arena(96, member("a", 0, 8), member("b", 60, 36)), scalar("x.y", 8)))
    assert text.replace("; elements", ";\nelements") == VARYING_TEXT


def test_the_text_with_heat() -> None:
    heat = {
        ("session", "next"): Heat(2.0, 1.0, 0.5, 0.25, 0.001),
        ("session", ""): Heat(l1_misses=1.0),  # a prefetch of a line that begins in a hole
    }
    text = shown(one(SESSION, heat=heat), 80)
    assert "accesses and misses per packet simulated" in text
    (row,) = [line for line in text.splitlines() if " next " in line]
    assert row.split()[-5:] == ["2.00", "1.00", "0.50", "0.25", "0.00"]
    (row,) = [line for line in text.splitlines() if " tags " in line]
    assert row.split()[-5:] == ["0"] * 5
    assert "all: 2.00 reads, 1.00 writes, 1.50 L1d, 0.25 L2 and 0.00 LLC misses\n" in text


def test_the_text_of_a_comparison_with_heat() -> None:
    base = map_layout("a", 16, [arena(8, member("x", 0, 4), member("y", 4, 4))], HEATS[0])
    head = map_layout("b", 16, [arena(8, member("x", 0, 4)), scalar("z", 8)], HEATS[1])
    text = shown(Document(structmap.SCHEMA, (base, head), compare(base, head)), 80)
    assert text.endswith(HEAT_TEXT)


def test_the_text_of_a_comparison() -> None:
    base = layout_of("a", arena(128, member("x", 0, 8), member("y", 64, 4), member("z", 8, 8)))
    head = layout_of("b", arena(64, member("x", 0, 8), member("y", 8, 2)), scalar("z", 8))
    document = Document(structmap.SCHEMA, (base, head), compare(base, head))
    assert shown(document, 80) == COMPARISON_TEXT


# ---- The command


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["map", *arguments])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["map", *arguments])
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert (code, captured.out) == (2, "")
    return line


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_has_a_map(capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = run(capsys, name)
    assert text.startswith(f"{name}, 16-byte keys, lines of 64 B (computed)")
    assert max(len(line) for line in text.splitlines() if line[:1] == " ") <= 80
    assert "…" not in text


def test_pointer_has_a_line_for_each_object(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "pointer")
    assert "session: struct pointer_session, one per session, 192 B in 3 lines\n" in text
    assert "132 of 192 B used, holes 28 B, padding 32 B; no member straddles a line\n" in text
    for name in ("policer", "stats", "action"):
        assert f"{name}: struct pointer_{name}, one per session, 64 B in 1 line\n" in text
    assert "qos: struct pointer_qos, one per QoS profile, shared, 64 B in 1 line\n" in text


def test_what_changed_from_pointer_to_flat(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "--base", "pointer", "--head", "flat", "--json"))
    assert [entry["layout"] for entry in document["maps"]] == ["pointer", "flat"]
    found = {entry["name"]: entry for entry in document["differences"]}
    tokens = found["policer.policer.tokens"]
    assert (tokens["changes"], tokens["head"]["arena"]) == (["arena"], "session")
    assert found["session.policer"]["changes"] == ["gone"]
    assert found["session.cold.created"]["changes"] == ["moved", "line"]
    assert found["bucket.sig_current"]["changes"] == []
    assert not any("new" in entry["changes"] for entry in found.values())


@pytest.mark.parametrize("arguments", [["packed"], ["--base", "soa", "--head", "hotcold"]])
def test_the_document_is_valid(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    text = run(capsys, *arguments, "--json")
    found = json.loads(text)
    assert found["schema"] == "cachebench.map/1"
    schema = json.loads(json.dumps(msgspec.json.schema(Document)))
    jsonschema.Draft202012Validator(schema).validate(found)
    again = msgspec.json.decode(text, type=Document)
    assert msgspec.json.decode(msgspec.json.encode(again)) == found


def test_a_header_of_the_user(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    header = tmp_path / "mine.h"
    source = (layouts_folder() / "flat.h").read_text()
    more = (
        "struct cb_cold cold; uint32_t a : 3, b : 7; uint8_t bytes[5];"
        "union { uint64_t word; struct cb_qos qos; } either; struct flat_session *peer;"
        "struct { uint16_t x; struct cb_policer p[2]; } list;"
    )
    header.write_text(source.replace("struct cb_cold cold;", more))
    text = run(capsys, str(header))
    assert "session: struct flat_session, one per session, 192 B in 3 lines\n" in text
    found = [" ".join(line.split()) for line in text[text.index("session: ") :].splitlines()]
    at = found.index("72 72 1-2 cold.tags uint64_t[9]")
    assert [line for line in found[at + 1 :] if line] == [
        "144:0 3 bits 2 a uint32_t:3",
        "144:3 7 bits 2 b uint32_t:7",
        "145:2 6 bits 2 (hole)",
        "146 5 2 bytes uint8_t[5]",
        "151 1 2 (hole)",
        "152 8 2 either.word (union) uint64_t",
        "152 4 2 either.qos.rate (union) uint32_t",
        "156 4 2 either.qos.burst (union) uint32_t",
        "160 8 2 peer struct flat_session *",
        "168 2 2 list.x uint16_t",
        "170 2 2 (hole)",
        "172 16 2 list.p struct cb_policer[2]",
        "188 4 2 (padding)",
        "185 of 192 B used, holes 3 B and 6 bits, padding 4 B; no member straddles a line",
    ]


def test_keys_of_40_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "key: struct cuckoo_key, one per key entry, 48 B" in run(capsys, "flat", "--key", "40")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--base", "flat"],
        ["--head", "flat"],
        ["flat", "--base", "pointer"],
        ["flat", "--base", "pointer", "--head", "flat"],
    ],
)
def test_one_layout_or_two(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert "type a layout, or --base LAYOUT --head LAYOUT" in fails(capsys, *arguments)


def test_bad_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no layout 'flt'" in fails(capsys, "flt")
    assert "without debug information" in fails(capsys, "flat", "--cflags=-g0")
    assert "--cflags" in fails(capsys, "flat", "--cflags", "'")
    assert "cannot write" in fails(capsys, "flat", "--svg", str(tmp_path / "no" / "a.svg"))


# ---- Heat at a point

GEOMETRY = "l1=16k/4,l2=64k/8,llc=1M/16,dtlb=16/4"
POINT = (
    *("--sessions", "20k", "--mode", "single", "--pages", "4k", "--popularity", "zipf:1"),
    *("--hit-ratio", "0.5", "--key", "40", "--seed", "7", "--geometry", GEOMETRY),
    *("--lookups", "20k", "--warm-up", "5k"),
)


def members_of(document: Any, side: int = 0) -> dict[tuple[str, str], dict[str, float]]:
    """Heat by arena and path."""
    return {
        (arena["name"], row["member"]["path"]): row["heat"]
        for arena in document["maps"][side]["arenas"]
        for row in arena["rows"]
        if row["member"] is not None
    }


def test_heat_is_the_traces_at_every_point(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "pointer", "--heat", "--json", *POINT))
    assert main(["trace", "--layout", "pointer", "--json", *POINT]) == 0
    trace = json.loads(capsys.readouterr().out)
    found = members_of(document)
    touched = 0
    for each in trace["results"][0]["objects"]:
        for part in each["members"]:
            if part["path"]:
                heat, of_map = part["heat"], found[each["name"], part["path"]]
                l1, l2, llc = map(sum, zip(heat["missed"], heat["prefetch_missed"], strict=True))
                assert of_map == {
                    **{"reads": heat["reads"], "writes": heat["writes"]},
                    **{"l1_misses": l1, "l2_misses": l2, "llc_misses": llc},
                }
                touched += 1
    assert touched > 15
    assert sum(heat["reads"] > 0 for heat in found.values()) <= touched
    assert found["session", "rule"]["reads"] == pytest.approx(0.5, abs=0.02)
    assert document["traced"]["spec"] == trace["spec"]
    assert document["traced"]["geometry"] == trace["geometry"]
    assert (document["traced"]["lookups"], document["traced"]["warm_up"]) == (20_000, 5_000)


def test_heat_is_side_by_side(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sides = ("--base", "pointer", "--head", "flat", "--heat", *POINT)
    document = json.loads(run(capsys, *sides, "--json"))
    for side, place in enumerate(("base", "head")):
        heats = members_of(document, side)
        alone = json.loads(run(capsys, ("pointer", "flat")[side], "--heat", "--json", *POINT))
        assert heats == members_of(alone)
        for entry in document["differences"]:
            if entry[place] is not None:
                assert entry[place]["heat"] == heats[entry[place]["arena"], entry[place]["path"]]
    file = tmp_path / "both.svg"
    text = run(capsys, *sides, "--svg", str(file))
    assert "20,000 sessions, single" in text
    assert GEOMETRY in text.replace("\n", "")
    (tokens,) = [line.split() for line in text.splitlines() if line.startswith("policer.tokens ")]
    assert [tokens[number] for number in (1, 2, 6, 7)] == ["0.50"] * 4
    picture = file.read_text()
    names_are_in_their_boxes(picture)
    written = " ".join(text for text, *_ in texts(picture))
    assert "base: pointer" in written
    assert "0.5r 0.5w" in written
    assert "20,000 sessions, single" in written
    assert mapsvg.WARMTH[2][1] in picture


@pytest.mark.parametrize("name", LAYOUTS)
def test_heat_fits_80_columns(capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = run(capsys, name, "--heat", "--sessions", "2k", "--lookups", "2k", "--warm-up", "0")
    tables = [line for line in text.splitlines() if not line.endswith("vary")]
    assert max(len(line.rstrip()) for line in tables if not line.startswith(name)) <= 80
    assert "…" not in text


@pytest.mark.parametrize(
    "options",
    [
        ("--sessions", "2k"),
        ("--mode", "serial"),
        ("--geometry", GEOMETRY),
        ("--lookups", "5"),
        ("--warm-up", "5"),
        ("--demand-only",),
    ],
)
def test_a_point_without_heat_is_refused(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    assert "type --heat too" in fails(capsys, "flat", *options)


def test_what_cannot_be_traced_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "without debug information" in fails(capsys, "flat", "--heat", "--cflags=-g0")
    assert "--hit-ratio" in fails(capsys, "flat", "--heat", "--hit-ratio", "2")
    assert "no whole number of sets" in fails(capsys, "flat", "--heat", "--geometry", "l1=1k/3")
    header = tmp_path / "own.h"
    source = (layouts_folder() / "flat.h").read_text()
    old = 'HEAP_ARENA("session", struct flat_session, CB_POOL)'
    assert old in source
    new = '{"session", "struct nowhere", sizeof(struct flat_session), CB_POOL}'
    header.write_text(source.replace(old, new))
    for heat in ((), ("--heat",)):
        line = fails(capsys, str(header), *heat)
        assert "the debug information names no type 'struct nowhere'" in line


# ---- The picture


def texts(picture: str) -> list[tuple[str, float, float, float]]:
    """Text, left, width at most, and baseline of all texts, all inside the view box."""
    root = ElementTree.fromstring(picture)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    found = []
    for item in root.iter(f"{SVG}text"):
        size, x, y = (float(item.attrib[name]) for name in ("font-size", "x", "y"))
        text = item.text or ""
        wide = len(text) * size * 0.6  # a monospaced font's
        assert x >= 0 and x + wide <= width, text
        assert size <= y <= height, text
        found.append((text, x, wide, y))
    for item in root.iter(f"{SVG}rect"):
        at = {name: float(item.attrib.get(name, 0)) for name in ("x", "y", "width", "height")}
        assert at["x"] + at["width"] <= width and at["y"] + at["height"] <= height
    return found


def names_are_in_their_boxes(picture: str) -> None:
    boxes = [
        [float(item.attrib[name]) for name in ("x", "y", "width", "height")]
        for item in ElementTree.fromstring(picture).iter(f"{SVG}rect")
        if item.find(f"{SVG}title") is not None
    ]
    for text, left, wide, baseline in texts(picture):
        inside = [b for b in boxes if b[0] <= left < b[0] + b[2] and b[1] < baseline <= b[1] + b[3]]
        assert all(left + wide <= x + width for x, _, width, _ in inside[-1:]), text


@pytest.mark.parametrize("name", LAYOUTS)
def test_pictures_are_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    file = tmp_path / "map.svg"
    run(capsys, name, "--svg", str(file))
    picture = file.read_text()
    names_are_in_their_boxes(picture)
    titles = [item.text or "" for item in ElementTree.fromstring(picture).iter(f"{SVG}title")]
    document = json.loads(run(capsys, name, "--json"))
    for arena_map in document["maps"][0]["arenas"]:
        for row in arena_map["rows"]:
            if row["member"] is not None:
                path = row["member"]["path"] or arena_map["name"]
                assert any(title.startswith(f"{path}: ") for title in titles), path


def test_a_picture_of_two(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "map.svg"
    run(capsys, "--base", "pointer", "--head", "flat", "--svg", str(file))
    found = [text for text, *_ in texts(file.read_text())]
    assert "base: pointer, 16-byte keys" in found
    assert "head: flat, 16-byte keys" in found


def test_a_member_of_two_lines_is_in_both_rows() -> None:
    picture = mapsvg.draw(one(SESSION))
    names_are_in_their_boxes(picture)
    boxes = [
        (item.attrib["x"], item.attrib["width"])
        for item in ElementTree.fromstring(picture).iter(f"{SVG}rect")
        if (title := item.find(f"{SVG}title")) is not None and re.match("name: ", title.text or "")
    ]
    left = mapsvg.MARGIN + mapsvg.LABEL
    assert boxes == [(str(left + 60 * 16), "64"), (str(left), "64")]


def test_a_picture_with_heat_and_names_that_xml_needs_escaped() -> None:
    odd = arena(64, member("a", 0, 8, "x<y> & *"), member("b" * 300, 8, 8), name="n<&>" * 60)
    picture = mapsvg.draw(one(odd, heat={("n<&>" * 60, "a"): Heat(1.0, 1.0)}))
    names_are_in_their_boxes(picture)
    assert "1r 1w" in [text for text, *_ in texts(picture)]
    titles = [item.text for item in ElementTree.fromstring(picture).iter(f"{SVG}title")]
    assert titles[0] == (
        "a: x<y> & *, 8 B at 0; per packet 1 r 1 w, 0 L1, 0 L2 and 0 LLC misses (simulated)"
    )
