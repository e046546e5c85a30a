# SPDX-License-Identifier: BSD-3-Clause
"""Hot spots: samples on known lines, chains against addr2line, steps against the trace."""

from __future__ import annotations

import ctypes
import functools
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from cachebench import (
    build,
    catalogue,
    disassembly,
    hotplaces,
    profileworker,
    profiling,
    sampling,
    tracing,
)
from cachebench.analyze import hotspots
from cachebench.analyze.hotspots import Code, Neighbours, Times
from cachebench.cli import main
from cachebench.disassembly import Instruction
from cachebench.errors import CachebenchError
from cachebench.inlines import Inlines
from cachebench.machine.cpus import pick_cpu
from cachebench.model import Experiment, Figure
from cachebench.profilemodel import (
    WAYS,
    Added,
    LineSpot,
    Operand,
    Profile,
    ProfileResult,
    ProfileSample,
    Spot,
    Steps,
    Way,
)
from cachebench.report import profiletext
from cachebench.stepping import PROGRAM_COUNTER, REGISTERS, NoSteps, steps

BUSY = 'for (int i = 0; i < 6000; i++) __asm__ volatile("" : "+r"(entry));'
"""Three microseconds in one line: more than all else that a small table costs."""


class Silent:
    def message(self, text: str) -> None:
        pass

    def step(self, text: str, done: int, total: int) -> None:
        pass


@functools.lru_cache
def why_not(way: Way) -> str:
    """Why this process cannot be sampled; empty if it can."""
    before = os.sched_getaffinity(0)
    cpu = pick_cpu()
    os.sched_setaffinity(0, {cpu})
    try:
        with sampling.sampler(way, 1_000_000, cpu):
            return ""
    except CachebenchError as error:
        return str(error)
    finally:
        os.sched_setaffinity(0, before)


def needs_sampling(way: Way | None = None) -> Way | None:
    reasons = [why_not(each) for each in WAYS if way in (None, each)]
    if all(reasons):
        pytest.skip(f"no sampling here: {'; '.join(reasons)}")
    return way


def profiled(
    *layouts: str, samples: int = 500, way: Way | None = None, **point: object
) -> ProfileResult:
    needs_sampling(way)
    fields: dict[str, object] = {"sessions": 5_000, "mode": "serial", "processes": 1}
    experiment = Experiment(layouts=layouts, **(fields | point))  # type: ignore[arg-type]
    return profiling.profile(profiling.Asked(experiment, samples, way), Silent())


@functools.lru_cache
def waiting() -> ProfileResult:
    """Of tables that the private caches do not hold."""
    return profiled("flat", "pointer", sessions=400_000, samples=1000)


def share(spots: object, name: str) -> float:
    return sum(spot.share.value for spot in spots if spot.name == name)  # type: ignore[attr-defined]


def header(folder: Path, name: str, old: str, new: str, of: str = "flat") -> Path:
    source = (catalogue.layouts_folder() / f"{of}.h").read_text()
    assert source.count(old) == 1
    path = folder / f"{name}.h"
    path.write_text(source.replace(old, new))
    return path


def line_of(path: Path, text: str) -> int:
    return next(n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)


@functools.lru_cache
def kernel(name: str) -> Path:
    return build.build(build.Recipe(catalogue.find(name), plugin=True))


# ---- Sampling


@pytest.mark.parametrize("way", WAYS)
def test_the_line_that_burns_the_time_has_it_whichever_way_is_sampled(
    tmp_path: Path, way: Way
) -> None:
    path = header(
        tmp_path, "busy", "cb_count(&s->stats, packet);", f"cb_count(&s->stats, packet); {BUSY}"
    )
    (found,) = profiled(str(path), way=way).profiles
    assert found.way == way
    assert found.samples >= 250
    assert share(found.lines, f"{path}:{line_of(path, BUSY)}") > 0.8
    assert share(found.source, f"{path}:{line_of(path, BUSY)}") > 0.8
    assert share(found.stages, "session") > 0.8


def test_a_line_inlined_from_the_core_counts_for_the_line_of_the_layout_too() -> None:
    # A load that waits, in cb_police, of an object that no prefetch fetched.
    _, found = waiting().profiles
    header_file = catalogue.layouts_folder() / "pointer.h"
    line = line_of(header_file, "cb_police(")
    (whole,) = [each for each in found.source if each.line == line]
    police = [each for each in whole.inlined if "policer->tick" in each.text]
    assert police and police[0].name.startswith("session.h:")
    assert police[0].share.value > 0.05
    assert whole.share.value > police[0].share.value
    assert whole.text.startswith("bool conforms = cb_police(")
    for each in found.source:  # of a line's own instructions nothing is inlined
        assert each.name not in {part.name for part in each.inlined}


def test_what_pointer_adds_is_in_the_objects_behind_its_pointers() -> None:
    result = waiting()
    (added,) = result.added
    assert (added.base, added.head) == ("flat", "pointer")
    flat, pointer = result.profiles
    assert share(flat.objects, "policer") == 0
    assert share(pointer.objects, "policer") > 0.05
    assert added.objects["policer"].value == pytest.approx(
        next(spot.ns.value for spot in pointer.objects if spot.name == "policer")
    )
    assert added.total.value == pytest.approx(
        pointer.ns_per_lookup.value - flat.ns_per_lookup.value
    )
    # Each way to divide the time divides all of it.
    for gains in (added.stages, added.objects, added.members, added.lines):
        assert sum(gain.value for gain in gains.values()) == pytest.approx(
            added.total.value, abs=0.02 * pointer.ns_per_lookup.value
        )


def test_bulk_lookups_wait_where_they_prefetch_and_the_object_is_named() -> None:
    result = profiled("flat", mode="bulk")
    (found,) = result.profiles
    assert result.added == ()
    assert result.chase_share > 0.9
    names = {spot.name for spot in found.members}
    assert {"prefetch of bucket", "prefetch of key", "prefetch of session"} <= names
    assert not any(spot.name.startswith("touch.h") for spot in found.lines)
    assert {spot.name for spot in found.stages} >= {"hash", "bucket", "prefetch", "session"}


def test_nothing_is_sampled_outside_the_region() -> None:
    needs_sampling()
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {pick_cpu()})
    try:
        with sampling.sampler(None, 1_000_000, pick_cpu()) as off:
            sum(range(3_000_000))
            off.off()
            assert off.finish() == []
        with sampling.sampler(None, 1_000_000, pick_cpu()) as on:
            on.on()
            sum(range(3_000_000))
            on.off()
            assert len(on.finish()) > 10
    finally:
        os.sched_setaffinity(0, before)


# ---- Lines


@pytest.mark.parametrize("name", ["pointer", "packed"])
def test_chains_of_inlined_functions_are_those_of_addr2line(name: str) -> None:
    addr2line = shutil.which("addr2line")
    if addr2line is None:
        pytest.skip("no addr2line (package binutils)")
    lines = Inlines(kernel(name), name)
    addresses = [each.address for each in disassembly.instructions(kernel(name))]
    # What is between functions belongs to none.
    addresses = [a for a in addresses if lines.chain(a) and lines.chain(a)[0].function]
    assert len(addresses) > 1000
    done = subprocess.run(
        [addr2line, "-a", "-i", "-f", "-e", str(kernel(name)), *map(hex, addresses)],
        capture_output=True,
        text=True,
        check=True,
    )
    blocks = re.split(r"^0x[0-9a-f]+\n", done.stdout, flags=re.MULTILINE)[1:]
    deep = 0
    for address, block in zip(addresses, blocks, strict=True):
        said = block.splitlines()
        expected = [
            (function, re.sub(r" \(discriminator \d+\)$|^.*(?=:)", "", place))
            for function, place in zip(said[::2], said[1::2], strict=True)
        ]
        chain = lines.chain(address)
        # Binutils names the wrong file of some outermost frames; its lines are right.
        assert [(f.function, f":{f.line or '?'}") for f in chain] == expected, hex(address)
        deep += len(chain) > 2
    assert deep > 100


def test_the_files_of_frames_exist() -> None:
    lines = Inlines(kernel("flat"), "flat")
    files = {
        frame.file
        for each in disassembly.instructions(kernel("flat"))
        for frame in lines.chain(each.address)
    }
    assert {Path(file).name for file in files} >= {"flat.h", "cuckoo.h", "session.h", "drive.h"}
    assert all(Path(file).is_file() for file in files)


def test_places_in_the_file_and_addresses_are_each_others_inverse() -> None:
    segments = Inlines(kernel("flat"), "flat").segments
    for each in disassembly.instructions(kernel("flat")):
        offset = segments.offset(each.address)
        assert offset is not None and segments.address(offset) == each.address
    assert segments.offset(1 << 40) is None


def test_what_lies_between_functions_has_no_place(tmp_path: Path) -> None:
    source = tmp_path / "apart.c"
    source.write_text(
        "__attribute__((aligned(4096))) int first(int a) { return a * 3; }\n"
        "__attribute__((aligned(4096))) int second(int a) { return a * 5; }\n"
    )
    made = tmp_path / "apart.so"
    command = [*build.Toolchain.find().command, "-g", "-O2", "-shared", "-ffunction-sections"]
    subprocess.run([*command, "-fPIC", "-o", str(made), str(source)], check=True)
    lines = Inlines(made, "apart")
    first = next(a for a in range(0, 1 << 16, 4096) if lines.chain(a))
    functions = [lines.chain(first + at) for at in (0, 4096)]
    assert sorted(frame.function for chain in functions for frame in chain) == ["first", "second"]
    assert lines.chain(first + 2048) == ()
    assert lines.chain(first + (1 << 20)) == ()


# ---- Steps


def stepped() -> None:
    try:
        next(steps(lambda: None, 1))
    except NoSteps as error:
        pytest.skip(f"no single steps here: {error}")


@pytest.mark.parametrize("name", ["pointer", "embedded"])
def test_steps_see_the_members_that_the_line_trace_sees(name: str) -> None:
    stepped()
    point = {"layouts": (name,), "sessions": 5_000, "mode": "serial"}
    trace = tracing.trace(
        tracing.Asked(Experiment(**point), lookups=1000, warm_up=0),  # type: ignore[arg-type]
        Silent(),
    )
    traced = {
        (each.name, member.path)
        for each in trace.results[0].objects
        for member in each.members
        # Rare ones need more lookups than are stepped. Rules have no type in a trace.
        if member.heat.reads + member.heat.writes > 0.5 and each.name != "rules"
    }
    sample, arm = sampled(name)
    assert sample.steps is not None
    by_name = {arena.name: arena for arena in arm.arenas}
    seen = set()
    for _, arena, offset, count in sample.steps.accesses:
        inside = [
            m for m in by_name[arena].struct.members if m.offset <= offset < m.offset + m.size
        ]
        if count > 0.5 * sample.steps.lookups and arena != "rules":
            seen.add((arena, inside[0].path if inside else ""))
    # One load may take two neighbours, which the trace's build loads one by one.
    assert seen <= traced
    assert {arena for arena, _ in seen} == {arena for arena, _ in traced}
    assert len(seen) >= 0.6 * len(traced)


def sampled(name: str) -> tuple[ProfileSample, profiling._Arm]:
    needs_sampling()
    experiment = Experiment(layouts=(name,), sessions=5_000, mode="serial", processes=1)
    (arm,) = profiling._prepare(experiment, Silent())
    asked = profiling.Asked(experiment, 50)
    return profiling._sample(asked, arm, 0, pick_cpu(), lambda _: None), arm


def test_a_stepped_copy_leaves_this_process_as_it_was() -> None:
    stepped()
    values = [0]

    def work() -> None:
        values[0] += 1

    counters = {registers[PROGRAM_COUNTER] for registers in steps(work, 20_000)}
    assert len(counters) > 100
    assert values == [0]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_stepped_copy_dies_with_the_process_that_steps_it(tmp_path: Path) -> None:
    # The copy is inside a system call: one that stands at a step dies of its signal anyway.
    stepped()
    code = (
        "import os, time\nfrom pathlib import Path\nfrom cachebench.stepping import steps\n"
        "walk = steps(lambda: time.sleep(60), 1_000_000)\nnext(walk)\n"
        "pid = os.getpid()\n"
        "print(Path(f'/proc/{pid}/task/{pid}/children').read_text(), flush=True)\n"
        "for _ in walk:\n    pass\n"
    )
    said = tmp_path / "said"
    with said.open("wb") as output:  # no pipe, whose end would be that of the copy
        stepper = subprocess.Popen([sys.executable, "-c", code], stdout=output)
    try:
        wait_for(lambda: said.read_text().strip() != "", "the copy is not made")
        copy = int(said.read_text())
        wait_for(lambda: all(sleeps(copy) for _ in range(50)), "the copy does not sleep")
    finally:
        stepper.kill()
        stepper.wait()
    # Whoever inherits it may leave it a zombie.
    wait_for(lambda: state(copy) in "ZX", "the copy lives on")


def wait_for(done: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 20
    while not done():
        assert time.monotonic() < until, what
        time.sleep(0.01)


def state(process: int) -> str:
    """As /proc has it; X for one that is gone."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return "X"
    return text.rpartition(")")[2].split()[0]


def sleeps(process: int) -> bool:
    """Between steps its state is t."""
    time.sleep(0.001)
    return state(process) == "S"


def test_an_address_is_displacement_base_and_scaled_index() -> None:
    registers = (ctypes.c_uint64 * 27)(*range(100, 127))
    assert profileworker._address(Operand(0, 8, 10, 12, 4), registers) == 8 + 110 + 4 * 112
    assert profileworker._address(Operand(0, -120, 10, -1, 1), registers) == (1 << 64) - 10
    assert profileworker._address(Operand(0, 64, -1, 3, 8), registers) == 64 + 8 * 103


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov (%rax),%rax", True),
        ("add %rdi,0x8(%rcx)", True),
        ("ldr x1, [x1]", True),
        ("prefetcht0 (%rax)", False),
        ("lea (%rax),%rax", False),
        ("add $0x1,%rax", False),
        ("subs x0, x0, #0x1", False),
    ],
)
def test_what_touches_memory_is_known(text: str, expected: bool) -> None:
    assert Instruction(0, text).memory is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov 0x8(%rdx),%rdi", (8, "rdx", None, 1)),
        ("mov (%rax),%rbx", (0, "rax", None, 1)),
        ("cmp (%rcx,%rdx,2),%di", (0, "rcx", "rdx", 2)),
        ("mov %ecx,-0x10(%rsp)", (-16, "rsp", None, 1)),
        ("mov 0x40(,%rax,8),%rcx", (64, None, "rax", 8)),
        ("prefetcht0 0x40(%rsi)", (64, "rsi", None, 1)),
        ("lea (%rdx,%r13,8),%rax", None),
        ("cs nopw 0x0(%rax,%rax,1)", None),
        ("mov 0x1234(%rip),%rax # 5678 <x>", None),
        ("add %rdi,%rcx", None),
        ("jmp *(%rax)", (0, "rax", None, 1)),
    ],
)
def test_memory_operands_are_read(text: str, expected: tuple | None) -> None:
    operand = Instruction(0, text).operand(7)
    if expected is None:
        assert operand is None
        return
    assert operand is not None and operand.at == 7
    names = [None if r < 0 else REGISTERS[r] for r in (operand.base, operand.index)]
    assert (operand.displacement, *names, operand.scale) == expected


# ---- Charging


def sample(inside: dict[int, int], outside: dict[str, int] | None = None) -> ProfileSample:
    return ProfileSample(
        way="binding",
        inside=tuple(inside.items()),
        outside=outside or {},
        chase=(),
        lost=0,
        timed=((10, 1000),),
        sampled=((10, 1000),),
    )


def walked(*order: tuple[int, int, int]) -> Neighbours:
    return Neighbours.of(Steps(lookups=1, order=order, accesses=()))


CODE = Code(before={4: 0, 8: 4, 12: 8, 16: 12}, joined=frozenset({8}))


def test_a_sample_is_charged_to_the_instruction_that_executed_before_it() -> None:
    charged = hotspots.charge(sample({4: 10}), CODE, walked((0, 4, 5)), before=True)
    assert charged.inside == {0: 1.0}


def test_where_paths_meet_each_has_the_part_that_it_was_taken() -> None:
    charged = hotspots.charge(sample({16: 8}), CODE, walked((0, 16, 3), (12, 16, 1)), before=True)
    assert charged.inside == {0: 0.75, 12: 0.25}


def test_a_conditional_jump_counts_with_its_comparison() -> None:
    charged = hotspots.charge(sample({16: 8}), CODE, walked((8, 16, 3)), before=True)
    assert charged.inside == {4: 1.0}


def test_without_steps_the_instruction_before_in_memory_is_charged() -> None:
    charged = hotspots.charge(sample({12: 1, 99: 1}), CODE, walked(), before=True)
    assert charged.inside == {4: 0.5, 99: 0.5}  # 8 is joined to 4; nothing is before 99


def test_where_samples_are_at_the_load_they_stay() -> None:
    charged = hotspots.charge(sample({4: 3}, {"libc": 1}), CODE, walked((0, 4, 5)), before=False)
    assert charged.inside == {4: 0.75}
    assert charged.outside == {"libc": 0.25}
    assert hotspots.named(charged, str, "outside") == {"4": 0.75, "outside": 0.25}
    assert hotspots.named(charged, lambda _: None, None) == {}


def test_no_samples_are_no_shares() -> None:
    with pytest.raises(ValueError, match="no samples"):
        hotspots.charge(sample({}), CODE, walked(), before=True)


def test_a_chase_tells_the_side_of_the_load() -> None:
    def loads(offset: int) -> bool:
        return offset == 4

    assert hotspots.lands([(8, 9), (4, 1)], loads, CODE) == (0.1, 0.9)
    assert hotspots.lands([(4, 3), (99, 1)], loads, CODE) == (0.75, 0.0)
    with pytest.raises(ValueError, match="no samples"):
        hotspots.lands([], loads, CODE)


def test_times_are_shares_of_each_process_and_differences_are_taken_process_by_process() -> None:
    base = Times((100.0, 200.0), ({"a": 0.5}, {"a": 0.25}))
    head = Times((200.0, 300.0), ({"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.5}))
    assert head.names() == ("a", "b")
    assert base.ns_of("a").value == 50
    assert base.share("a").value == 0.375
    assert head.added(base, "a").value == 75  # 50 and 100
    assert head.added(base, "b").value == 125
    assert head.added_in_all(base).value == 100
    assert (base.share("a").source, base.ns_of("a").source) == ("measured", "estimated")
    low, high = head.added(base, "a").low, head.added(base, "a").high
    # Student's t for two values: 12.706 times the standard error, 25.
    assert (low, high) == pytest.approx((75 - 12.706 * 25, 75 + 12.706 * 25), rel=1e-3)


def test_small_times_keep_their_interval() -> None:
    times = Times((1.0, 1.0), ({"a": 0.9}, {"a": 0.7}))
    high = times.ns_of("a").high
    assert high is not None and high > 1  # a time has no bound at 1, as a share has


@pytest.mark.parametrize("name", ["pointer", "flat"])
def test_comparisons_are_joined_with_the_jump_behind_them(name: str) -> None:
    lines = Inlines(kernel(name), name)
    listing = disassembly.instructions(kernel(name))
    code = hotplaces.code(listing, lines.segments)
    by_offset = {lines.segments.offset(each.address): each.text for each in listing}
    assert len(code.joined) > 20
    for jump in code.joined:
        assert by_offset[jump].startswith("j") and not by_offset[jump].startswith("jmp")
        assert re.match("cmp|test|add|sub|and|inc|dec", by_offset[code.before[jump]])
    assert not any(by_offset[b].startswith(("jmp", "ret")) for b in code.before.values())


# ---- The command


def test_the_document_has_the_shares_and_the_text_the_same_places(
    capsys: pytest.CaptureFixture[str],
) -> None:
    needs_sampling()
    point = ["--sessions", "5k", "--processes", "2", "--samples", "300"]
    assert main(["profile", "--layout", "flat", "--layout", "hotcold", *point, "--json"]) == 0
    text = capsys.readouterr().out
    document = json.loads(text)
    assert document["schema"] == "cachebench.profile/1"
    for found in document["profiles"]:
        assert found["samples"] >= 150
        for kind in ("stages", "objects", "members", "lines"):
            shares = [spot["share"]["value"] for spot in found[kind]]
            assert sum(shares) == pytest.approx(1, abs=0.05)
            assert all(spot["ns"]["source"] == "estimated" for spot in found[kind])
            assert shares == sorted(shares, reverse=True)
    result = msgspec.json.decode(text, type=ProfileResult)
    console = Console(file=io.StringIO(), width=80, highlight=False)
    profiletext.show(result, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, shown.splitlines())) <= 80
    for expected in ("by stage", "by object", "by member", "by line", "hotcold adds", "flat.h, "):
        assert expected in shown
    line = max(result.profiles[0].lines, key=lambda spot: spot.share.value or 0)
    assert line.text[:12] in shown


def made_up(*names: str) -> ProfileResult:
    """A profile of layouts that each take a longer time than the one before."""

    def figure(value: float) -> Figure:
        return Figure(value=value, low=value - 10, high=value + 10, unit="ns", source="measured")

    def made(number: int, name: str) -> Profile:
        spot = Spot(name="session", share=figure(1.0), ns=figure(1000.0 * number))
        line = LineSpot(**msgspec.structs.asdict(spot), file="a.h", line=7, text="what waits " * 9)
        return Profile(
            layout=name,
            way="binding",
            samples=1,
            lost=0,
            ns_per_lookup=spot.ns,
            sampled_ns_per_lookup=spot.ns,
            stages=(spot,),
            lines=(line,),
            objects=(spot,),
            members=(spot,),
            source=(),
        )

    def added(number: int, name: str) -> Added:
        more = figure(1000.0 * number + 0.5)
        gains = {"session": more}
        return Added(
            base=names[0],
            head=name,
            total=more,
            stages=gains,
            lines=gains,
            objects=gains,
            members=gains,
        )

    return ProfileResult(
        schema="cachebench.profile/1",
        spec=Experiment(layouts=names),
        period_ns=1000,
        charged="before",
        chase_share=1.0,
        profiles=tuple(made(number, name) for number, name in enumerate(names, 1)),
        added=tuple(added(number, name) for number, name in enumerate(names[1:], 1)),
    )


def shown(result: ProfileResult, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    profiletext.show(result, console)
    assert console.width == width
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(("width", "tables"), [(40, 3), (80, 3), (115, 3), (130, 2), (200, 1)])
def test_layouts_that_have_no_room_beside_others_have_a_table_of_their_own(
    width: int, tables: int
) -> None:
    text = shown(made_up("base", "one", "two", "three"), width)
    headers = [line for line in text.splitlines() if line.startswith("by object")]
    assert len(headers) == tables
    assert all("base" in line for line in headers)
    for number, name in enumerate(("one", "two", "three"), 1):
        assert sum(f"{name} adds" in line for line in headers) == 1
        value = 1000 * number
        interval = f"+{value}.5 (+{value - 10}.5 … +{value + 10}.5)"
        # Of the stage, the object and the member, and each time below, of a lookup.
        assert text.count(interval) == 6


def test_numbers_are_whole_beside_long_names() -> None:
    names = ("a_layout_with_a_long_name", "another_layout_with_a_long_name")
    text = shown(made_up(*names), 60)
    assert f"{names[1]} adds" in text
    assert text.count("+1000.5 (+990.5 … +1010.5)") == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--samples", "0"], "--samples 0: type a number from 1"),
        (["--samples", "many"], "no number such as"),
        (["--with", "hope"], "invalid choice"),
        (["--layout", "flat", "--layout", "flat"], "two layouts are called flat"),
        (["--cflags=-g0"], "layout flat: compiled without debug information"),
        (["--cflags=-g1"], "layout flat: compiled without debug information"),
        (["--stages"], "unrecognized arguments: --stages"),
        (["--cpu", "9999"], "--cpu 9999: this process may use only"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    layout = [] if "--layout" in arguments else ["--layout", "flat"]
    assert main(["profile", *layout, "--sessions", "5k", *arguments]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and re.search(words, said)


def test_without_perf_in_either_form_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_FOLDERS", ())
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setenv("CACHEBENCH_PERF", "/nonexistent/perf")
    with (
        pytest.raises(CachebenchError, match=r"no perf module for Python .*; CACHEBENCH_PERF"),
        sampling.sampler(None, 1_000_000, 0),
    ):
        pass


def test_a_perf_that_cannot_record_is_told_with_its_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "perf"
    fake.write_text(
        "#!/bin/sh\ncase $1 in --version) echo perf version 6.1.0;;\n"
        "stat) echo --control --delay --output;;\n*) echo No room >&2; exit 1;; esac\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("CACHEBENCH_PERF", str(fake))
    with (
        pytest.raises(CachebenchError, match="perf record: No room"),
        sampling.sampler("record", 1_000_000, 0),
    ):
        pass


@pytest.mark.parametrize(
    ("level", "words"),
    [(3, "kernel.perf_event_paranoid=2"), (2, "perf_event_open"), (None, "perf_event_open")],
)
def test_a_kernel_that_forbids_sampling_says_what_to_type(level: int | None, words: str) -> None:
    assert words in sampling.forbidden(level)


FORBIDDING = """
import ctypes, struct, sys
from cachebench.cli import main

# A seccomp filter as container runtimes set it: one system call fails with EPERM.
load, equal, give = 0x20, 0x15, 0x06
filter = b"".join(struct.pack("HBBI", *each) for each in (
    (load, 0, 0, 0), (equal, 0, 1, int(sys.argv[1])),
    (give, 0, 0, 0x50001), (give, 0, 0, 0x7FFF0000),
))
rules = ctypes.create_string_buffer(filter)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(rules)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
sys.exit(main(["profile", "--json", *sys.argv[2:]]))
"""
PERF_EVENT_OPEN, PTRACE = 298, 101


def under_a_filter(call: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of system calls are those of x86-64")
    point = ("--sessions", "5k", "--processes", "1", "--samples", "100")
    command = [sys.executable, "-c", FORBIDDING, str(call), *point, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", WAYS)
def test_a_container_that_forbids_sampling_is_one_line(way: Way) -> None:
    needs_sampling(way)
    done = under_a_filter(PERF_EVENT_OPEN, "--with", way)
    assert done.returncode == 2
    assert re.fullmatch(r"cachebench: layout flat: .*--cap-add=PERFMON\n", done.stderr)


def test_where_steps_are_forbidden_lines_are_told_and_members_are_not() -> None:
    needs_sampling()
    done = under_a_filter(PTRACE)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["profiles"]
    assert found["objects"] == found["members"] == []
    assert "ptrace" in found["no_members"]
    assert sum(spot["share"]["value"] for spot in found["stages"]) == pytest.approx(1)


def test_without_objdump_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CachebenchError, match="install binutils"):
        disassembly.instructions(kernel("flat"))


def test_a_file_that_is_no_object_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(b"\x7fELF" + bytes(90))
    with pytest.raises(CachebenchError, match="cannot be read"):
        Inlines(path, "layout x")
    with pytest.raises(CachebenchError, match=r"x\.so"):
        disassembly.instructions(path)


def test_a_profile_worker_imports_neither_numpy_nor_rich() -> None:
    code = "import sys, cachebench.profileworker; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"numpy", "rich", "scipy", "elftools"} & set(done.stdout.split())
