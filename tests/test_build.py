# SPDX-License-Identifier: BSD-3-Clause
"""Plug-ins, built by the real compiler."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from core import (
    LAYOUTS,
    configuration,
    draw,
    fill,
    kernel,
    lookup,
    opened,
    opened_traffic,
    prove,
    reference,
    restart,
)

from cachebench import build
from cachebench._core import ffi, lib
from cachebench.build import Recipe, Toolchain
from cachebench.catalogue import csrc_folder, find, layouts_folder
from cachebench.errors import CachebenchError

SESSIONS = 5000


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def default_cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests share a cache unless they ask for one of their own."""
    monkeypatch.setenv("CACHEBENCH_CACHE", str(shared_cache))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the plug-ins, empty so far."""
    monkeypatch.setenv("CACHEBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "plugins"


@dataclass
class Compiler:
    """A compiler that writes down what it is asked for and can be told to fail."""

    folder: Path

    def __post_init__(self) -> None:
        script = self.folder / "recording-cc"
        script.write_text(
            "#!/bin/sh\n"
            f"cd {shlex.quote(str(self.folder))} || exit 1\n"
            'case " $* " in\n'
            '*" -c "*) echo compiled >>log; sleep $(cat delay 2>/dev/null || echo 0)\n'
            "   [ ! -e broken ] || exit 1 ;;\n"
            "esac\n"
            'exec cc "$@"\n'
        )
        script.chmod(0o755)
        self.command = shlex.quote(str(script))

    @property
    def compilations(self) -> int:
        log = self.folder / "log"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def break_down(self) -> None:
        (self.folder / "broken").touch()

    def slow_down(self, seconds: float) -> None:
        (self.folder / "delay").write_text(str(seconds))


@pytest.fixture
def compiler(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    folder = tmp_path / "compiler"
    folder.mkdir()
    recording = Compiler(folder)
    monkeypatch.setenv("CC", recording.command)
    return recording


FLAT = (layouts_folder() / "flat.h").read_text()


def header(folder: Path, source: str = FLAT, name: str = "mine.h") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(source)
    return str(path)


def changed(before: str, after: str, source: str = FLAT) -> str:
    assert source.count(before) >= 1, before
    return source.replace(before, after)


def recipe_of(name_or_path: str, **options: object) -> Recipe:
    return Recipe(find(name_or_path), **options)  # type: ignore[arg-type]


def failure(recipe: Recipe) -> str:
    with pytest.raises(CachebenchError) as caught:
        build.build(recipe)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)


def checksum(ops, key_size: int = 16, mode: str = "bulk") -> int:
    config = configuration(SESSIONS)
    with (
        opened_traffic(SESSIONS, key_size=key_size, hit_ratio=0.9) as traffic,
        opened(ops, config) as arm,
    ):
        assert fill(arm, traffic, SESSIONS) == SESSIONS
        return prove(arm, traffic, SESSIONS, mode=mode)


def expected_checksum(key_size: int = 16) -> int:
    with opened_traffic(SESSIONS, key_size=key_size, hit_ratio=0.9) as traffic:
        return reference(traffic, configuration(SESSIONS), key_size)


# ---- The same kernel by either route


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_builtin_layout_does_the_same_work_as_a_plugin(name: str) -> None:
    recipe = recipe_of(name, plugin=True)
    assert build.route(recipe) == "plugin"
    ops = build.open_kernel(recipe)
    assert ops != kernel(name)
    for mode in ("bulk", "single", "serial"):
        assert checksum(ops, mode=mode) == checksum(kernel(name), mode=mode) == expected_checksum()


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_40_byte_key_is_a_plugin_that_does_the_work_of_the_reference(name: str) -> None:
    recipe = recipe_of(name, key_size=40)
    assert build.route(recipe) == "plugin"
    ops = build.open_kernel(recipe)
    assert ops.key_size == 40
    assert checksum(ops, key_size=40) == expected_checksum(key_size=40)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_a_plugin_has_the_machine_code_of_the_builtin_kernel(name: str) -> None:
    path = build.build(recipe_of(name, plugin=True))
    module = Path(sys.modules["cachebench._core"].__file__ or "")
    if compiler_of(path) != compiler_of(module):
        pytest.skip(f"the extension was built by {compiler_of(module)}, not by this compiler")
    for mode, policy, symbol in (
        (lib.CB_BULK, 0, "bulk_0"),
        (lib.CB_BULK, 1, "bulk_1"),
        (lib.CB_BULK, 2, "bulk_2"),
        (lib.CB_SINGLE, 0, "single"),
        (lib.CB_SERIAL, 0, "serial"),
    ):
        ours = instructions(module, kernel(name).lookup[mode][policy], symbol)
        theirs = instructions(path, build.load(path, name, 16).lookup[mode][policy], symbol)
        # A policy beyond the layout's steps is a jump to the one that has them.
        assert len(ours) > 50 or ours == ["jmp    elsewhere"] or ours[0].startswith("b\t")
        assert theirs == ours, symbol


def compiler_of(binary: Path) -> str:
    dump = subprocess.run(
        ["objdump", "-s", "-j", ".comment", binary], capture_output=True, text=True, check=True
    )
    return dump.stdout.split("Contents", 1)[1]


def instructions(binary: Path, function, symbol: str) -> list[str]:
    """The code of a loaded function, without the addresses of what is outside."""
    start = int(ffi.cast("uintptr_t", function)) - base_of(binary)
    symbols = subprocess.run(
        ["objdump", "-t", binary], capture_output=True, text=True, check=True
    ).stdout
    size = re.search(rf"^0*{start:x} .*\s([0-9a-f]+)\s+{symbol}$", symbols, re.MULTILINE)
    assert size, f"no {symbol} at {start:x} in {binary}"
    dump = subprocess.run(
        [
            "objdump",
            "-d",
            "--no-show-raw-insn",
            f"--start-address={start}",
            f"--stop-address={start + int(size[1], 16)}",
            binary,
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    code = [
        line.split("\t", 1)[1] for line in dump.splitlines() if re.match(r" +[0-9a-f]+:\t", line)
    ]
    for pattern, replacement in (
        (r"\s*(#|//).*", ""),
        (rf"[0-9a-f]+ <({symbol}\b[^>]*)>", r"\1"),
        (r"[0-9a-f]+ <[^>]*>", "elsewhere"),
        (r"-?0x[0-9a-f]+\(%rip\)", "elsewhere"),
    ):
        code = [re.sub(pattern, replacement, line) for line in code]
    return code


def base_of(binary: Path) -> int:
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if fields[5:] == [str(binary.resolve())] and int(fields[2], 16) == 0:
            return int(fields[0].split("-")[0], 16)
    raise AssertionError(f"{binary} is not loaded")


def test_a_builtin_recipe_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/such/compiler")
    recipe = recipe_of("flat")
    assert build.route(recipe) == "builtin"
    assert build.artifact(recipe) is None
    assert build.open_kernel(recipe) == kernel("flat")


@pytest.mark.parametrize(
    "options",
    [
        {"key_size": 40},
        {"stage": "bucket"},
        {"march": "native"},
        {"cflags": ("-O3",)},
        {"plugin": True},
    ],
)
def test_every_option_makes_a_plugin_of_a_builtin_layout(options: dict[str, object]) -> None:
    assert build.route(recipe_of("flat", **options)) == "plugin"


def test_a_layout_given_by_path_is_a_plugin(tmp_path: Path) -> None:
    assert build.route(recipe_of(header(tmp_path))) == "plugin"


@pytest.mark.parametrize("stage", ["hash", "bucket", "key"])
def test_a_stage_cut_runs_and_touches_no_session(stage: str) -> None:
    ops = build.open_kernel(recipe_of("flat", stage=stage))
    assert ffi.string(ops.stage).decode().lower() == stage
    with opened_traffic(SESSIONS) as traffic, opened(ops, configuration(SESSIONS)) as arm:
        assert fill(arm, traffic, SESSIONS) == SESSIONS
        before = ops.digest(arm)
        sums = set()
        for mode in ("bulk", "single", "serial"):
            restart(traffic, 1)
            packets = draw(traffic, 1000)
            arm.checksum = arm.hits = 0
            lookup(arm, packets.keys, packets.lengths, mode=mode)
            assert arm.hits == (1000 if stage == "key" else 0)
            sums.add(arm.checksum)
        assert 0 not in sums
        assert ops.digest(arm) == before


def test_a_recipe_that_no_kernel_can_have_is_refused() -> None:
    with pytest.raises(CachebenchError, match="16 or 40 bytes, not 24"):
        recipe_of("flat", key_size=24)
    with pytest.raises(CachebenchError, match="no stage 'stats': there are hash, bucket"):
        recipe_of("flat", stage="stats")


# ---- The cache


def test_a_second_build_compiles_nothing(compiler: Compiler) -> None:
    recipe = recipe_of("flat", plugin=True)
    events: list[str] = []
    first = build.build(recipe, lambda event: events.append(event.kind))
    assert compiler.compilations == 1
    compiler.break_down()
    assert build.build(recipe, lambda event: events.append(event.kind)) == first
    assert compiler.compilations == 1
    assert events == ["compiling", "compiled", "cached"]


def test_a_comment_changed_in_its_place_compiles_nothing(
    tmp_path: Path, compiler: Compiler
) -> None:
    recipe = recipe_of(header(tmp_path))
    first = build.build(recipe)
    header(tmp_path, changed("/* flat: the hot state", "/* Something longer than it was before"))
    assert build.build(recipe) == first
    assert compiler.compilations == 1


def test_a_comment_that_moves_lines_is_compiled_for_its_debug_information(
    tmp_path: Path, compiler: Compiler
) -> None:
    recipe = recipe_of(header(tmp_path))
    first = build.build(recipe)
    header(tmp_path, "/* one line more */\n" + FLAT)
    assert build.build(recipe) != first
    assert compiler.compilations == 2


def test_changed_code_is_compiled(tmp_path: Path, compiler: Compiler) -> None:
    recipe = recipe_of(header(tmp_path))
    first = build.build(recipe)
    header(tmp_path, changed("last_seen < cutoff", "last_seen <= cutoff"))
    assert build.build(recipe) != first
    assert compiler.compilations == 2


def test_changed_code_in_an_included_header_is_compiled(tmp_path: Path, compiler: Compiler) -> None:
    header(tmp_path, "#define MINE_STEPS 1\n", "steps.h")
    source = changed("STEPS 1", "STEPS MINE_STEPS", '#include "steps.h"\n' + FLAT)
    recipe = recipe_of(header(tmp_path, source))
    assert build.open_kernel(recipe).prefetch_steps == 1
    header(tmp_path, "#define MINE_STEPS 0\n", "steps.h")
    header(tmp_path, changed("layout_prefetch1", "unused", source))
    assert build.open_kernel(recipe).prefetch_steps == 0


def test_whatever_decides_the_kernel_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = Toolchain.find()
    plain = recipe_of("flat", plugin=True)
    recipes = [
        plain,
        recipe_of("flat5"),
        replace(plain, key_size=40),
        replace(plain, stage="key"),
        replace(plain, cflags=("-O3",)),
        replace(plain, cflags=("-fno-tree-vectorize",)),
        replace(plain, march="native"),
    ]
    keys = [build.cache_key(recipe, toolchain) for recipe in recipes]
    keys.append(build.cache_key(plain, replace(toolchain, version="another compiler")))
    monkeypatch.setattr(build, "ABI", build.ABI + 1)
    keys.append(build.cache_key(plain, toolchain))
    assert len(set(keys)) == len(keys)


def test_the_key_does_not_depend_on_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, toolchain = recipe_of("flat", plugin=True), Toolchain.find()
    here = build.cache_key(recipe, toolchain)
    monkeypatch.chdir(tmp_path)
    assert build.cache_key(recipe, toolchain) == here


@pytest.mark.parametrize(
    "damage",
    [lambda whole: whole[: len(whole) // 2], lambda whole: b"", lambda whole: whole[:-1] + b"?"],
    ids=["half", "empty", "one byte"],
)
def test_a_damaged_plugin_is_built_again(damage, compiler: Compiler) -> None:
    recipe = recipe_of("flat", plugin=True)
    path = build.build(recipe)
    whole = path.read_bytes()
    path.unlink()  # it is loaded: a new file, so that this process is not damaged
    path.write_bytes(damage(whole))
    again = build.build(recipe)
    assert compiler.compilations == 2
    assert again.read_bytes() == whole
    assert [file for file in again.parent.glob("*.so") if file != again] == []


def test_a_cached_file_that_cannot_be_loaded_is_built_again(compiler: Compiler) -> None:
    recipe = recipe_of("flat", plugin=True)
    path = build.build(recipe)
    path.unlink()
    text = b"no shared object"
    digest = hashlib.sha256(text).hexdigest()[:16]
    unloadable = path.with_name(f"{path.stem.rpartition('-')[0]}-{digest}.so")
    unloadable.write_bytes(text)
    assert build.build(recipe) == path
    assert compiler.compilations == 2
    assert not unloadable.exists()


def test_processes_that_build_the_same_plugin_at_once_all_succeed(
    tmp_path: Path, own_cache: Path, compiler: Compiler
) -> None:
    compiler.slow_down(0.5)
    program = (
        "from cachebench import build, catalogue\n"
        "recipe = build.Recipe(catalogue.find('flat'), plugin=True)\n"
        "path = build.build(recipe)\n"
        "build.load(path, 'flat', 16)\n"
        "print(path)\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    paths = [Path(process.communicate()[0].strip()) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert compiler.compilations > 1, "the builds did not overlap"
    assert all(path.is_file() for path in paths)
    assert sorted(own_cache.iterdir()) == sorted(set(paths)), "something was left behind"


def test_a_failed_build_leaves_nothing_but_its_log(tmp_path: Path, own_cache: Path) -> None:
    failure(recipe_of(header(tmp_path, "!;\n")))
    assert [file.suffix for file in own_cache.iterdir()] == [".log"]


def test_a_cache_that_is_no_folder_is_told_with_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CACHEBENCH_CACHE", str(tmp_path / "file"))
    message = failure(recipe_of("flat", plugin=True))
    assert f"cannot use the plug-in cache {tmp_path / 'file' / 'plugins'}" in message
    assert "Not a directory" in message
    assert "set CACHEBENCH_CACHE" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_cache_that_may_not_be_written_is_told(own_cache: Path) -> None:
    own_cache.mkdir(parents=True)
    own_cache.chmod(0o500)
    assert "Permission denied" in failure(recipe_of("flat", plugin=True))


def test_the_cache_is_the_users_own_without_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CACHEBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = build.build(recipe_of("flat", plugin=True))
    assert path.parent == tmp_path / "cachebench" / "plugins"
    assert path.parent.stat().st_mode & 0o077 == 0


# ---- Headers of users


def test_a_header_in_a_folder_with_spaces_and_other_letters_is_built(tmp_path: Path) -> None:
    path = header(tmp_path / "größe und 会话 (1)")
    assert checksum(build.open_kernel(recipe_of(path))) == expected_checksum()


def test_an_error_under_such_a_path_is_told_with_it(tmp_path: Path) -> None:
    path = header(tmp_path / "größe und 会话 (1)", "\n!;\n")
    assert failure(recipe_of(path)).startswith(f"{path}:2:1: error: ")


def test_a_path_that_the_compiler_cannot_be_given_is_refused(tmp_path: Path) -> None:
    assert "rename it" in failure(recipe_of(header(tmp_path / 'a"b')))


def test_a_header_includes_others_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    # A file of the core has this name too: the one beside the header counts.
    header(folder / "parts", "#define MINE_CUTOFF(x) (x)\n", "heap.h")
    source = changed("< cutoff", "< MINE_CUTOFF(cutoff)", '#include "parts/heap.h"\n' + FLAT)
    assert checksum(build.open_kernel(recipe_of(header(folder, source)))) == expected_checksum()


def test_an_error_in_an_included_header_names_both(tmp_path: Path) -> None:
    header(tmp_path, "!;\n", "part.h")
    path = header(tmp_path, '#include "part.h"\n')
    assert failure(recipe_of(path)).startswith(f"{path}: {tmp_path}/part.h:1:1: error: ")


def test_a_broken_header_is_told_with_file_line_and_column_as_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = FLAT[: FLAT.index("cb_count(&s->stats")].count("\n") + 1
    header(tmp_path / "my", changed("cb_count(&s->stats, packet)", "cb_count(&s->stat, packet)"))
    message = failure(recipe_of("my/mine.h"))
    assert re.match(rf"my/mine\.h:{line}:\d+: error: ", message)
    assert "stat" in message


def test_all_that_the_compiler_said_is_in_the_log_that_the_message_names(tmp_path: Path) -> None:
    path = header(tmp_path, changed("s->qos, packet", "s->quos, packet", "/* x */\n" + FLAT))
    message = failure(recipe_of(path))
    log = re.search(r"\(all of the compiler's output: (.*)\)$", message)
    assert log
    assert path in Path(log[1]).read_text()
    assert "quos" in Path(log[1]).read_text()


def test_a_header_that_includes_what_is_not_there_is_told(tmp_path: Path) -> None:
    message = failure(recipe_of(header(tmp_path, '#include "absent.h"\n')))
    assert message.startswith(f"{tmp_path}/mine.h:1:10: error: ")
    assert "absent.h" in message


@pytest.mark.parametrize(
    "name",
    [
        "layout_process",
        "layout_create",
        "layout_destroy",
        "layout_expired",
        "layout_read",
        "layout_reprofile",
        "layout_prefetch1",
        "layout_arenas",
        "LAYOUT_PREFETCH_STEPS",
        "LAYOUT_COPIES_QOS",
    ],
)
def test_a_part_of_the_contract_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    path = header(tmp_path, changed(name, "mine_" + name.lower()))
    contract = layouts_folder() / "README.md"
    assert failure(recipe_of(path)).startswith(f"{path}: {name} is missing: see {contract}")


def test_a_missing_slot_type_is_named_where_it_is_used_first(tmp_path: Path) -> None:
    path = header(tmp_path, changed("*layout_slot;", "*mine_slot;"))
    message = failure(recipe_of(path))
    assert re.match(rf"{re.escape(path)}:\d+:\d+: error: unknown type name", message)
    assert "layout_slot is missing: see" in message


def test_an_error_of_the_header_comes_before_what_follows_from_it(tmp_path: Path) -> None:
    path = header(tmp_path, changed("struct cb_packet packet)\n{", "struct cb_packet packet)\n{ ("))
    message = failure(recipe_of(path))
    assert re.match(rf"{re.escape(path)}:\d+:\d+: error: ", message)


def test_a_function_that_is_declared_but_nowhere_defined_is_named(tmp_path: Path) -> None:
    source = changed("last_seen < cutoff", "last_seen < mine_helper(cutoff)")
    path = header(tmp_path, "uint32_t mine_helper(uint32_t);\n" + source)
    message = failure(recipe_of(path))
    assert message.startswith(f"{path} does not compile: ")
    assert "mine_helper" in message


def test_warnings_are_told_and_do_not_fail(tmp_path: Path) -> None:
    path = header(tmp_path, changed("{\n\treturn (*slot)", "{\n\tint idle;\n\treturn (*slot)"))
    events: list[build.BuildEvent] = []
    build.build(recipe_of(path), events.append)
    (warnings,) = [event.warnings for event in events if event.kind == "compiled"]
    assert f"{path}:" in warnings
    assert "idle" in warnings


def test_a_builtin_layout_compiles_without_a_warning(own_cache: Path) -> None:
    for name in LAYOUTS:
        events: list[build.BuildEvent] = []
        build.build(recipe_of(name, plugin=True), events.append)
        assert [event.warnings for event in events] == ["", ""], name


def test_a_layout_that_skips_one_write_has_another_checksum(tmp_path: Path) -> None:
    count = "cb_count(&s->stats, packet);"
    skipping = f"uint32_t packets = s->stats.packets;\n\t{count}\n\ts->stats.packets = packets;"
    faithful = build.open_kernel(recipe_of(header(tmp_path / "faithful")))
    unfaithful = build.open_kernel(recipe_of(header(tmp_path, changed(count, skipping))))
    assert checksum(faithful) == expected_checksum()
    for mode in ("bulk", "single", "serial"):
        assert checksum(unfaithful, mode=mode) != expected_checksum()


# ---- The compiler


def test_without_a_compiler_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    message = failure(recipe_of("flat", plugin=True))
    assert message.startswith("no C compiler: 'no-such-compiler' does not run")
    assert "apt install gcc" in message


def test_a_compiler_that_only_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    assert "set CC" in failure(recipe_of("flat", plugin=True))


def test_a_cc_that_is_not_a_command_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc 'unbalanced")
    assert "CC is" in failure(recipe_of("flat", plugin=True))


def test_cc_may_hold_options_and_they_are_in_the_key(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_of("flat", plugin=True)
    plain = build.build(recipe)
    monkeypatch.setenv("CC", "cc -fno-builtin")
    assert Toolchain.find().command == ("cc", "-fno-builtin")
    assert build.build(recipe) != plain


def test_an_empty_cc_is_cc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", " ")
    assert Toolchain.find().command == ("cc",)


def test_a_compiler_that_dies_is_told_with_its_signal(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "dying-cc"
    script.write_text(
        '#!/bin/sh\ncase " $* " in *" --version "*) echo dying 1.0 ;; *) kill -SEGV $$ ;; esac\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    assert "the compiler was ended by SIGSEGV" in failure(recipe_of("flat", plugin=True))


def test_native_is_resolved_to_a_cpu(own_cache: Path) -> None:
    recipe = recipe_of("flat", march="native")
    toolchain = Toolchain.find()
    flags = toolchain.resolved_flags(recipe)
    assert not any("native" in flag for flag in flags)
    assert any(flag.startswith(("-march=", "-mcpu=")) or flag == "-target-cpu" for flag in flags)
    assert "-march=native" in toolchain.flags(recipe)
    assert checksum(build.open_kernel(recipe)) == expected_checksum()


def test_what_is_not_native_is_resolved_already() -> None:
    recipe = recipe_of("flat", cflags=("-O3",))
    toolchain = Toolchain.find()
    assert toolchain.resolved_flags(recipe) == toolchain.flags(recipe)
    assert toolchain.flags(recipe)[-1] == "-O3"


@pytest.mark.parametrize("options", [{"march": "abacus"}, {"cflags": ("-fno-such-flag",)}])
def test_a_flag_that_the_compiler_refuses_is_told(options: dict[str, object]) -> None:
    message = failure(recipe_of("flat", **options))
    assert "does not compile: " in message
    assert "abacus" in message or "no-such-flag" in message


# ---- Loading


def shared_object(folder: Path, source: str) -> Path:
    (folder / "object.c").write_text(source)
    path = folder / "object.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, folder / "object.c"], check=True)
    return path


def test_a_plugin_of_another_abi_is_refused(tmp_path: Path) -> None:
    source = "const struct { unsigned abi, size; char rest[512]; } cachebench_ops = {%d, %d, {0}};"
    path = shared_object(tmp_path, source % (build.ABI + 1, 512))
    with pytest.raises(
        CachebenchError, match=rf"has ABI {build.ABI + 1}\.512; .* has {build.ABI}\."
    ):
        build.load(path, "flat", 16)


def test_a_plugin_whose_structure_has_another_size_is_refused(tmp_path: Path) -> None:
    source = "const struct { unsigned abi, size; char rest[512]; } cachebench_ops = {%d, %d, {0}};"
    path = shared_object(tmp_path, source % (build.ABI, 8))
    with pytest.raises(CachebenchError, match=rf"has ABI {build.ABI}\.8; "):
        build.load(path, "flat", 16)


def test_a_shared_object_without_the_symbol_is_refused(tmp_path: Path) -> None:
    path = shared_object(tmp_path, "int nothing;")
    with pytest.raises(CachebenchError, match="exports no cachebench_ops"):
        build.load(path, "flat", 16)


def test_a_file_that_is_not_there_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(CachebenchError, match=r"cannot load plug-in: .*absent\.so"):
        build.load(tmp_path / "absent.so", "flat", 16)


def test_a_kernel_other_than_the_expected_one_is_refused() -> None:
    path = build.build(recipe_of("flat", plugin=True))
    assert build.load(str(path), "flat", 16) == build.load(path, "flat", 16)
    with pytest.raises(CachebenchError, match="'flat' with 16-byte keys, not 'soa' with 16"):
        build.load(path, "soa", 16)
    with pytest.raises(CachebenchError, match="'flat' with 16-byte keys, not 'flat' with 40"):
        build.load(None, "flat", 40)
    with pytest.raises(CachebenchError, match="no layout 'nothing'"):
        build.load(None, "nothing", 16)


def test_loading_imports_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys, cachebench.build\n"
        "print(sorted({'numpy', 'rich', 'scipy', 'platformdirs'} & set(sys.modules)))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


# ---- What layouts/README.md says

CONTRACT = (layouts_folder() / "README.md").read_text()


def test_the_example_of_the_contract_compiles_and_is_proven(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```c\n(/\* split: .*?)^```$", CONTRACT, re.DOTALL | re.MULTILINE)
    events: list[build.BuildEvent] = []
    recipe = recipe_of(header(tmp_path, example, "split.h"))
    ops = build.open_kernel(recipe, events.append)
    assert [event.warnings for event in events] == ["", ""]
    for mode in ("bulk", "single", "serial"):
        assert checksum(ops, mode=mode) == expected_checksum()


def test_the_table_of_the_contract_holds_the_computed_figures() -> None:
    rows = [
        [cell.strip() for cell in row.strip("|\n").split("|")]
        for row in CONTRACT.splitlines()
        if re.match(r"\| `(\w+)` \| (the hot|pointer|32-bit)", row)
    ]
    assert [row[0].strip("`") for row in rows] == sorted(LAYOUTS)
    config = configuration(1_000_000, pages="thp")
    for name, _, _, steps, qos, state, total in rows:
        ops = kernel(name.strip("`"))
        size = lib.cb_footprint(ops, config)
        assert int(steps) == ops.prefetch_steps, name
        assert qos == ("copied" if ops.copies_qos else "shared"), name
        assert state == f"{size.sessions / 1e6:.0f}", name
        assert total == f"{(size.table + size.sessions + size.free_lists) / 1e6:.1f}", name


def test_the_contract_shows_the_sizes_of_key_entries_as_they_are() -> None:
    for name, small, large in (("flat", 32, 48), ("embedded", 64, 128)):
        assert f"| {small} | {large} |" in CONTRACT
        assert kernel(name).table_arenas[1].stride == small
        assert build.open_kernel(recipe_of(name, key_size=40)).table_arenas[1].stride == large


def test_the_contract_names_all_that_a_layout_defines() -> None:
    source = (csrc_folder() / "drive.h").read_text() + (csrc_folder() / "kernel.c").read_text()
    for name in set(re.findall(r"\b(?:layout_[a-z0-9]+|LAYOUT_[A-Z_]+)\b", source)):
        assert f"`{name}`" in CONTRACT or f"{name}(" in CONTRACT, name
        assert name in build._CONTRACT, name
