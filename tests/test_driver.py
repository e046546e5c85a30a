# SPDX-License-Identifier: BSD-3-Clause
"""The C driver, as installed and under the sanitizers; kernels compiled as plug-ins."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import core
import pytest
from core import LAYOUTS
from test_layouts import proof_by_the_model
from test_traffic import V4_FLOWS, V6_FLOWS, capture_file

SOURCES, LAYOUT_HEADERS = core.package_path("csrc"), core.package_path("layouts")
INSTALLED = core.package_path("bin") / "cachebench-driver"
SMALL = ("sessions=2000", "count=3000", "lead-in=100", "pages=4k")


def drive(program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *options],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "LC_ALL": "C"},
    )


def output(program: Path, *options: str) -> list[dict]:
    """The objects of a run that succeeds and complains of nothing."""
    done = drive(program, *options)
    assert (done.returncode, done.stderr) == (0, ""), options
    return [json.loads(line) for line in done.stdout.splitlines()]


def reference_checksum(sessions: int, seed: int, hit_ratio: float = 1.0, **traffic) -> str:
    config = core.configuration(sessions, seed=seed)
    with core.opened_traffic(sessions, seed=seed, hit_ratio=hit_ratio, **traffic) as opened:
        return f"{core.reference(opened, config):016x}"


# As installed


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_driver_proves_a_layout_and_prints_a_line_for_each_region(layout):
    proof, *regions = output(
        INSTALLED, f"layout={layout}", "seed=5", "regions=4", "hit-ratio=0.5", *SMALL
    )
    assert proof["checksum"] == reference_checksum(2000, seed=5, hit_ratio=0.5)
    assert (proof["layout"], proof["sessions"]) == (layout, 2000)
    assert proof["fill_ns"] > 0
    assert len(regions) == 4
    for region in regions:
        assert region["lookups"] == 3000
        assert 1200 < region["hits"] < 1800
        assert region["cpu_ns"] > 0
        assert region["wall_ns"] > 0
        assert region["tsc"] > 0


def test_the_driver_has_the_same_checksum_in_each_mode_heap_burst_and_policy():
    checksums = {
        output(
            INSTALLED,
            f"mode={mode}",
            f"heap={heap}",
            f"burst={burst}",
            f"session-prefetch={policy}",
            "regions=1",
            *SMALL,
        )[0]["checksum"]
        for mode, heap, (burst, policy) in product(
            core.MODES, core.HEAPS, [(1, 0), (7, 1), (256, 2)]
        )
    }
    assert checksums == {reference_checksum(2000, seed=1)}


def test_the_driver_runs_without_the_proof():
    regions = output(INSTALLED, "verify=0", "regions=2", *SMALL)
    assert [region["hits"] for region in regions] == [3000, 3000]


def test_watched_lookups_are_those_asked_for_and_the_arenas_are_told_before():
    where, done = output(
        INSTALLED, "layout=pointer", "verify=0", "watched=70000", "slice=7", "read=33", *SMALL
    )
    buckets, keys, session, *_, rules = [arena["bytes"] for arena in where["arenas"]]
    assert (buckets, keys, session, rules) == (512 * 64, 2001 * 32, 2000 * 192, 4096 * 64)
    assert len(where["arenas"]) == 8
    assert where["marker"] % 8 == 0
    assert done == {"watched": 70000}


@pytest.mark.parametrize("popularity", ["uniform", "zipf", "campus"])
def test_the_driver_draws_from_each_popularity(popularity):
    proof, *_ = output(INSTALLED, f"popularity={popularity}", "exponent=0.9", *SMALL)
    expected = reference_checksum(2000, seed=1, popularity=popularity, exponent=0.9)
    assert proof["checksum"] == expected


def test_the_driver_replays_a_capture_and_its_clones(tmp_path):
    file = capture_file(tmp_path / "file")
    sessions = 40 * len(V4_FLOWS)
    proof, *_ = output(INSTALLED, f"traffic={file}", "scale-flows=40", "count=1000", "pages=4k")
    with core.opened_capture(file) as capture:
        expected = reference_checksum(
            sessions, seed=1, popularity="capture", capture=capture, clones=40
        )
    assert (proof["sessions"], proof["checksum"]) == (sessions, expected)


@pytest.mark.parametrize(
    "option",
    [
        "layout=nothing",
        "plugin=/nowhere/layout.so",
        "traffic=/nowhere/file",
        "popularity=capture",
        "mode=fast",
        "slice=0",
        "read=65537",
        "pages=8k",
        "heap=old",
        "popularity=",
        "sessions=0",
        "sessions=-1",
        "sessions=1e6",
        "sessions=1000x",
        "sessions= 1000",
        "sessions=",
        "sessions=2000000000",
        "seed=99999999999999999999999",
        "count=0",
        "regions=0",
        "burst=0",
        "burst=257",
        "session-prefetch=3",
        "verify=2",
        "max-load=0",
        "max-load=1.01",
        "max-load=nan",
        "hit-ratio=1.5",
        "hit-ratio=-0.1",
        "hit-ratio=",
        "exponent=5",
        "scale-flows=0",
        "session=1000",
        "layouts=flat",
        "--help",
        "layout",
        "=flat",
        "",
    ],
)
def test_a_bad_option_is_refused_with_one_line(option):
    done = drive(INSTALLED, *SMALL, option)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cachebench-driver: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("\n")


def test_a_table_that_is_too_full_is_refused_with_one_line():
    done = drive(INSTALLED, "sessions=65536", "max-load=1", "pages=4k", "verify=0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "cachebench-driver: the table is full: use a smaller max-load\n"


# Compiled here


def compiler() -> list[str]:
    command = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(command[0]) is None:
        pytest.skip("no C compiler")
    return command


def baseline() -> str:
    return "x86-64-v2" if platform.machine() in ("x86_64", "AMD64") else "armv8-a+crc"


def compile_c(*arguments: str | Path) -> None:
    flags = [f"-march={baseline()}", "-std=gnu11", "-g1", f"-I{SOURCES}"]
    done = subprocess.run(
        [*compiler(), *flags, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def kernel_options(layout: str, header: str, key: int = 16) -> list[str]:
    return [
        str(SOURCES / "kernel.c"),
        f"-I{LAYOUT_HEADERS}",
        f"-DCB_LAYOUT={layout}",
        f'-DCB_LAYOUT_NAME="{layout}"',
        f'-DCB_LAYOUT_HEADER="{header}"',
        f"-DCB_KEY={key}",
    ]


SANITIZERS = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory) -> Path:
    """A folder with the driver, and with a plug-in of 40-byte keys for each layout."""
    folder = tmp_path_factory.mktemp("sanitized")
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    linked = subprocess.run(
        [*compiler(), *SANITIZERS, probe, "-o", folder / "probe"], capture_output=True
    )
    if linked.returncode != 0 or drive(folder / "probe").returncode != 0:
        pytest.skip("the compiler has no working address and undefined-behaviour sanitizers")
    (folder / "builtin.def").write_text("".join(f"LAYOUT({layout})\n" for layout in LAYOUTS))

    def kernel(layout: str) -> None:
        options = kernel_options(layout, f"{layout}.h")
        compile_c(*SANITIZERS, "-c", *options, "-o", folder / f"kernel_{layout}.o")

    def plugin(layout: str) -> None:
        options = kernel_options(layout, f"{layout}.h", key=40)
        out = folder / f"{layout}40.so"
        compile_c(*SANITIZERS, "-shared", "-fPIC", "-DCB_PLUGIN", *options, "-o", out)

    def unit(source: Path) -> None:
        out = folder / f"{source.stem}.o"
        flags = '-DCB_BUILD_FLAGS="sanitized"'  # that CMake hands to plugin.c
        compile_c(*SANITIZERS, flags, "-c", f"-I{folder}", source, "-o", out)

    sources = [path for path in SOURCES.glob("*.c") if path.name != "kernel.c"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [
            *(pool.submit(kernel, layout) for layout in LAYOUTS),
            *(pool.submit(plugin, layout) for layout in LAYOUTS),
            *(pool.submit(unit, source) for source in sources),
        ]:
            done.result()
    objects = sorted(folder.glob("*.o"))
    compile_c(*SANITIZERS, *objects, "-o", folder / "driver", "-lm", "-ldl")
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_sanitizers_report_nothing_in_any_mode_or_heap(sanitized, layout):
    expected = reference_checksum(1000, seed=1, hit_ratio=0.7)
    for mode, heap in product(core.MODES, core.HEAPS):
        proof, *_ = output(
            sanitized / "driver",
            f"layout={layout}",
            f"mode={mode}",
            f"heap={heap}",
            "sessions=1000",
            "count=2000",
            "lead-in=33",
            "regions=1",
            "hit-ratio=0.7",
            "pages=4k",
        )
        assert proof["checksum"] == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_sanitizers_report_nothing_with_40_byte_keys_and_a_capture(sanitized, layout, tmp_path):
    file = capture_file(tmp_path / "file", V6_FLOWS)
    sessions = 100 * len(V6_FLOWS)
    with (
        core.opened_capture(file) as capture,
        core.opened_traffic(
            sessions, popularity="capture", capture=capture, clones=100, key_size=40
        ) as traffic,
    ):
        config = core.configuration(sessions)
        expected = f"{core.reference(traffic, config, 40):016x}"
    for burst, policy in [(256, 0), (5, 2)]:
        proof, *_ = output(
            sanitized / "driver",
            f"plugin={sanitized / layout}40.so",
            f"traffic={file}",
            "scale-flows=100",
            f"burst={burst}",
            f"session-prefetch={policy}",
            "count=2000",
            "regions=1",
            "pages=4k",
        )
        assert proof["checksum"] == expected


@pytest.mark.parametrize("popularity", ["zipf", "campus"])
def test_the_sanitizers_report_nothing_with_skewed_traffic(sanitized, popularity):
    proof, *_ = output(sanitized / "driver", f"popularity={popularity}", "max-load=1", *SMALL)
    assert proof["checksum"] == reference_checksum(2000, seed=1, popularity=popularity)


def test_the_sanitizers_report_nothing_when_a_run_is_refused(sanitized, tmp_path):
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(capture_file(tmp_path / "file").read_bytes()[:24])
    for options in [
        ("max-load=1", "sessions=4096", "pages=4k"),
        ("layout=none",),
        (f"traffic={empty}",),
        (f"traffic={tmp_path}",),
        (f"plugin={tmp_path}",),
    ]:
        done = drive(sanitized / "driver", *options)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


# Plug-ins


@pytest.mark.parametrize("layout", ["flat", "embedded", "pointer", "index32"])
def test_a_plug_in_with_40_byte_keys_does_what_the_model_does(layout, tmp_path):
    """Its key entries straddle lines in some layouts, and take two in others."""
    out = tmp_path / "layout.so"
    options = kernel_options(layout, f"{layout}.h", key=40)
    compile_c("-O2", "-shared", "-fPIC", "-DCB_PLUGIN", *options, "-o", out)
    ops = core.plugin(out)
    assert ops.key_size == 40
    with core.opened_traffic(800, key_size=40, hit_ratio=0.8) as traffic:
        expected = core.reference(traffic, core.configuration(800), 40)
        assert expected == proof_by_the_model(traffic, 800, seed=1, key_size=40)
        for mode in core.MODES:
            with core.opened(ops, core.configuration(800)) as arm:
                assert core.fill(arm, traffic, 800) == 800
                assert core.prove(arm, traffic, 800, mode) == expected


SKIPS = {
    "bytes": ("cb_count(&s->stats, packet);", "{0}s->stats.bytes -= packet.length;"),
    "packets": ("cb_count(&s->stats, packet);", "{0}s->stats.packets--;"),
    "last seen": (
        "cb_count(&s->stats, packet);",
        "uint32_t seen = s->stats.last_seen; {0}s->stats.last_seen = seen;",
    ),
    "policer": (
        "bool conforms = cb_police(&s->policer, s->qos, packet);",
        "struct cb_policer before = s->policer; {0}s->policer = before;",
    ),
    "cold state": ("s->cold = from->cold;", "{0}s->cold.tags[8] = 0;"),
    "profile change": ("s->qos = qos;", ""),
}


@pytest.mark.parametrize("skipped", SKIPS)
def test_a_layout_that_skips_one_write_is_told_by_its_checksum(skipped, tmp_path):
    statement, instead = SKIPS[skipped]
    source = (LAYOUT_HEADERS / "flat.h").read_text()
    assert source.count(statement) == 1
    header = tmp_path / "lazy.h"
    header.write_text(source.replace(statement, instead.format(statement)))
    out = tmp_path / "lazy.so"
    options = kernel_options("lazy", str(header))
    compile_c("-O1", "-shared", "-fPIC", "-DCB_PLUGIN", *options, "-o", out)
    with (
        core.opened_traffic(800) as traffic,
        core.opened(core.plugin(out), core.configuration(800)) as arm,
    ):
        core.fill(arm, traffic, 800)
        expected = core.reference(traffic, core.configuration(800))
        assert core.prove(arm, traffic, 800) != expected


def test_a_file_that_is_no_plug_in_is_refused(tmp_path):
    other = tmp_path / "other.c"
    other.write_text("int unrelated;\n")
    compile_c("-shared", "-fPIC", other, "-o", tmp_path / "other.so")
    with pytest.raises(core.CoreError, match="exports no cachebench_ops"):
        core.plugin(tmp_path / "other.so")
    other.write_text("const unsigned cachebench_ops[100] = {9999, 8};\n")
    compile_c("-shared", "-fPIC", other, "-o", tmp_path / "old.so")
    with pytest.raises(core.CoreError, match="ABI 9999"):
        core.plugin(tmp_path / "old.so")
    with pytest.raises(core.CoreError, match="cannot load plug-in"):
        core.plugin(other)
