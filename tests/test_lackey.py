# SPDX-License-Identifier: BSD-3-Clause
"""The hooks of the trace build against lackey's trace of the plain kernel, access by access."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter

import pytest
from test_valgrind import needs_valgrind

from cachebench import build, catalogue, core, lackey, tracing, valgrind
from cachebench._core import ffi, lib
from cachebench.model import MODES, Experiment

LAYOUTS = [layout.name for layout in catalogue.builtin_layouts()]
LOOKUPS = 3000
# 95 % full, as 1M sessions are, and cheap to fill under valgrind.
SESSIONS = 244

Access = tuple[int, int, int, bool]
"""Arena, offset in it, bytes, whether it is a store."""


def hooked(pair: tracing.Kernels, experiment: Experiment) -> list[list[Access]]:
    """The accesses of each lookup as the trace build reports them, unprocessed."""
    seed = experiment.seed * 1000
    traced = build.load(pair.traced, pair.layout, experiment.key_size)
    with core.traffic(experiment) as traffic, core.arm(pair.ops, experiment, seed) as arm:
        core.fill(arm, traffic, experiment, seed)
        lib.cb_traffic_restart(traffic, seed + 1)
        keys = ffi.new("char[]", LOOKUPS * experiment.key_size)
        lengths = ffi.new("uint16_t[]", LOOKUPS)
        lib.cb_traffic_draw(traffic, LOOKUPS, keys, lengths, ffi.NULL)
        stream = ffi.new("struct cb_stream *", (keys, lengths, LOOKUPS))
        # struct cb_tracer of csrc/trace.h: the events, their count and capacity.
        capacity = LOOKUPS * 200
        events = ffi.new("uint64_t[]", 2 * capacity)
        tracer = ffi.new("uint64_t[]", [int(ffi.cast("uintptr_t", events)), capacity << 32, 0, 0])
        traced.trace(ffi.cast("struct cb_tracer *", tracer))
        lookup = traced.lookup[core.MODE[experiment.mode]][experiment.session_prefetch]
        lookup(arm, stream, experiment.burst)
        traced.trace(ffi.NULL)
        count = tracer[1] & 0xFFFFFFFF
        starts = sorted(arena_starts(arm, pair.ops))
        return by_lookup(bytes(ffi.buffer(events, 16 * count)), starts)


def arena_starts(arm: core.Pointer, ops: core.Pointer) -> list[tuple[int, int, int]]:
    """Start, end and number of the arenas that lookups touch."""
    name, start, size = (ffi.new(f"{t} *") for t in ("const char *", "uint64_t", "uint64_t"))
    places: dict[str, tuple[int, int]] = {}
    while lib.cb_arm_arena(arm, len(places), name, start, size):
        key = ffi.string(name[0]).decode()
        places[f"{key} {len(places)}" if key in places else key] = (start[0], start[0] + size[0])
    own = [
        ffi.string(ops.layout_arenas[i].name).decode() for i in range(int(ops.layout_arena_count))
    ]
    return [(*places[key], number) for number, key in enumerate(["bucket", "key", *own, "rules"])]


def by_lookup(events: bytes, arenas: list[tuple[int, int, int]]) -> list[list[Access]]:
    read, write, end = 0, 1, 3
    starts = [start for start, _, _ in arenas]
    open_lookups: dict[int, list[Access]] = {}
    ended = []
    for address, size, kind, _, lookup in struct.iter_unpack("<QHBBI", events):
        if kind == end:
            ended.append(open_lookups.pop(lookup))
        if kind not in (read, write):
            continue
        place = bisect_right(starts, address) - 1
        if place >= 0 and address < arenas[place][1]:
            access = (arenas[place][2], address - starts[place], size, kind == write)
            open_lookups.setdefault(lookup, []).append(access)
    return ended


def seen_by_lackey(
    pair: tracing.Kernels, experiment: Experiment
) -> tuple[list[list[Access]], lackey.Reader]:
    """The accesses of each lookup in the plain kernel."""
    lookups: list[list[Access]] = [[] for _ in range(LOOKUPS)]

    def add(arena: int, offset: int, size: int, is_write: bool) -> None:
        lookups[reader.lookups].append((arena, offset, size, is_write))

    reader = lackey.Reader(add)
    valgrind.run(
        valgrind.find(),
        lackey.OPTIONS,
        experiment,
        pair.layout,
        pair.plain,
        valgrind.Watched(LOOKUPS, slice=1),
        reader.feed,
    )
    return lookups, reader


def strides(pair: tracing.Kernels) -> list[int]:
    """Bytes of an element, by arena; the rules, the last ones, are not asked for."""
    table, own = pair.ops.table_arenas, pair.ops.layout_arenas
    return [
        *(int(table[i].stride) for i in range(int(pair.ops.table_arena_count))),
        *(int(own[i].stride) for i in range(int(pair.ops.layout_arena_count))),
    ]


def lines(accesses: list[Access]) -> set[tuple[int, int]]:
    return {
        (arena, line)
        for arena, offset, size, _ in accesses
        for line in range(offset // 64, (offset + size - 1) // 64 + 1)
    }


def ranges(accesses: list[Access], is_write: bool) -> Counter[tuple[int, int, int]]:
    return Counter((a, o, size) for a, o, size, writes in accesses if writes == is_write)


def at_once(hooks: list[Access], plain: list[Access], is_write: bool) -> list[tuple[int, int, int]]:
    """The accesses that the plain kernel makes to two neighbours at once and the trace
    build to one by one; fails if there is any other difference."""
    ours, theirs = ranges(hooks, is_write), ranges(plain, is_write)
    wide = theirs - ours
    halves = Counter[tuple[int, int, int]]()
    for arena, offset, size in wide.elements():
        halves.update([(arena, offset, size // 2), (arena, offset + size // 2, size // 2)])
    assert ours - theirs == halves, (ours - theirs, wide)
    return list(wide.elements())


@needs_valgrind
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_hooks_see_each_access_that_lackey_sees_in_the_plain_kernel(
    layout: str, mode: str
) -> None:
    experiment = Experiment(
        layouts=(layout,),
        sessions=SESSIONS,
        mode=mode,  # type: ignore[arg-type]
        hit_ratio=0.9,
    )
    pair = tracing.kernels(catalogue.find(layout), experiment)
    ours = hooked(pair, experiment)
    theirs, reader = seen_by_lackey(pair, experiment)
    assert len(ours) == len(theirs) == reader.lookups == LOOKUPS
    rules = int(pair.ops.layout_arena_count) + 2
    hits, offsets = 0, set()
    for number, (hooks, plain) in enumerate(zip(ours, theirs, strict=True)):
        assert lines(hooks) == lines(plain), number
        assert at_once(hooks, plain, is_write=True) == [], number
        hit = any(arena == rules for arena, *_ in plain)
        hits += hit
        wide = at_once(hooks, plain, is_write=False)
        # The address and the next hop of the action are neighbours save in soa, and the
        # plain kernel shifts and combines them: one load of eight bytes.
        assert [size for _, _, size in wide] == ([8] if hit and layout != "soa" else []), number
        offsets.update(offset % strides(pair)[arena] for arena, offset, _ in wide)
    assert len(offsets) == (layout != "soa")
    assert 0.87 < hits / LOOKUPS < 0.93
    # What the reader sums up for the command is what each lookup adds to.
    accesses = Counter((arena, is_write) for plain in theirs for arena, *_, is_write in plain)
    distinct = Counter(arena for plain in theirs for arena, _ in lines(plain))
    for arena, touched in enumerate(reader.arenas(max(distinct) + 1)):
        assert touched == lackey.Touched(
            accesses[arena, False], accesses[arena, True], distinct[arena]
        )


def test_lackeys_log_is_read_alike_in_pieces_of_any_size() -> None:
    where = valgrind.Where(marker=0x1000, arenas=(valgrind.Range(0x4000, 0x80),))
    text = (
        b"==1== Lackey\n S 00004000,8\nI  00400000,3\n"
        b" S 00001000,8\n L 00004000,4\n M 0000403e,4\n L 00004000,4\nI  00400000,3\n"
        b" L 1ffeffff00,8\n S 00001000,8\n S 00004000,8\n"
        b" S 00001000,8\n S 0000407f,1\n L 00004080,8\n S 00001000,8\n L 00004000,8\n"
    )
    expected = lackey.Touched(reads=3, writes=2, lines=3)
    for size in (1, 2, 3, 5, 7, 11, 64, len(text)):
        reader = lackey.Reader()
        for at in range(0, len(text), size):
            # The driver has said where the arenas are by the first mark at the latest.
            known = at + size > text.index(b" S 00001000")
            reader.feed(text[at : at + size], where if known else None)
        assert (reader.lookups, reader.arenas(1)) == (2, (expected,)), size
