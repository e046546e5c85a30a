# SPDX-License-Identifier: BSD-3-Clause
"""The command line, called in this process; workers are real processes."""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sysconfig
from pathlib import Path

import jsonschema
import pytest

from cachebench import catalogue, experiment, resultfile, runner
from cachebench.cli import main
from cachebench.errors import CachebenchError

TINY = ("--sessions", "2k", "--processes", "1", "--regions", "1", "--no-counters")
LAYOUTS = [layout.name for layout in catalogue.builtin_layouts()]


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    """What ``run --json`` prints."""
    code = main(["run", "--json", *arguments])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return json.loads(captured.out)


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on standard error of a command that exits with 2."""
    code = main(list(arguments))
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert code == 2
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("cachebench: ")
    return lines[0].removeprefix("cachebench: ")


def test_a_run_prints_a_valid_document(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, *TINY)
    jsonschema.validate(found, json.loads(json.dumps(resultfile.schema())))
    (entry,) = found["results"]
    assert (entry["layout"], entry["mode"], entry["sessions"]) == ("flat", "bulk", 2000)
    assert entry["figures"]["ns_per_lookup"]["value"] > 0
    assert entry["figures"]["ns_per_lookup"]["source"] == "measured"
    assert entry["figures"]["burst_p50_ns"]["value"] <= entry["figures"]["burst_p999_ns"]["value"]
    (region,) = entry["samples"][0]["regions"]
    assert region["hits"] == region["lookups"]
    assert region["cpu_ns"] >= 15_000_000


def test_every_layout_and_mode_has_the_same_checksum(capsys: pytest.CaptureFixture[str]) -> None:
    checksums = set()
    for mode in ("bulk", "single", "serial"):
        options = [word for name in LAYOUTS for word in ("--layout", name)]
        found = document(capsys, *TINY, "--mode", mode, *options)
        assert [entry["layout"] for entry in found["results"]] == LAYOUTS
        checksums |= {entry["checksum"] for entry in found["results"]}
    assert len(checksums) == 1
    assert document(capsys, *TINY, "--seed", "2")["results"][0]["checksum"] not in checksums


def test_the_checksum_does_not_depend_on_pages_heap_burst_or_prefetch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    variants = [
        ("--pages", "4k"),
        ("--heap", "aged"),
        ("--heap", "fresh", "--burst", "7"),
        ("--session-prefetch", "0"),
    ]
    found = [document(capsys, *TINY, "--layout", "pointer", *variant) for variant in variants]
    assert len({each["results"][0]["checksum"] for each in found}) == 1
    assert [each["results"][0]["prefetch"] for each in found] == [2, 2, 2, 0]


def test_misses_are_counted_as_lookups_and_not_as_hits(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, *TINY, "--hit-ratio", "0.5")
    (region,) = found["results"][0]["samples"][0]["regions"]
    assert region["hits"] / region["lookups"] == pytest.approx(0.5, abs=0.02)
    assert found["results"][0]["table"]["probes_per_lookup"] > 1.4


def test_stages_give_the_time_up_to_each(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, *TINY, "--stages")
    (entry,) = found["results"]
    assert entry["route"] == "plugin"
    assert {"ns_to_hash", "ns_to_bucket", "ns_to_key", "ns_to_session"} <= set(entry["figures"])


def test_a_header_given_by_its_path_runs_beside_a_built_in(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    header = tmp_path / "mine.h"
    header.write_text((catalogue.layouts_folder() / "flat.h").read_text().replace("flat_", "my_"))
    found = document(capsys, *TINY, "--layout", str(header), "--layout", "flat")
    mine, flat = found["results"]
    assert (mine["layout"], mine["route"], flat["route"]) == ("mine", "plugin", "plugin")
    assert mine["checksum"] == flat["checksum"]


def test_a_layout_that_skips_one_write_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = (catalogue.layouts_folder() / "soa.h").read_text()
    write = "\tSOA(SOA_PACKETS, uint32_t) = stats.packets;\n"
    assert source.count(write) == 1
    header = tmp_path / "lazy.h"
    header.write_text(source.replace(write, ""))
    message = fails(capsys, "run", *TINY, "--layout", str(header))
    assert "layout lazy does not do the same work" in message


def test_a_broken_header_shows_the_compilers_file_and_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    header = tmp_path / "broken.h"
    source = (catalogue.layouts_folder() / "flat.h").read_text()
    header.write_text(source.replace("s->rule = from->rule;", "s->rules = from->rule;"))
    line = 1 + header.read_text().splitlines().index("\ts->rules = from->rule;")
    assert f"{header}:{line}:" in fails(capsys, "run", *TINY, "--layout", str(header))


def test_a_layout_that_crashes_is_named_with_its_signal_and_the_others_finish(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = (catalogue.layouts_folder() / "flat.h").read_text()
    header = tmp_path / "crash.h"
    header.write_text(source.replace("s->rule = from->rule;", "s->rule = *(uint32_t *)8;"))
    output = tmp_path / "result.json"
    code = main(
        ["run", *TINY, "--layout", str(header), "--layout", "flat", "-o", str(output)]
    )  # fmt: skip
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err == "cachebench: layout crash: the worker died of SIGSEGV\n"
    assert "CPU time per lookup" in captured.out
    kept = resultfile.read(str(output))
    assert [entry.layout for entry in kept.results] == ["flat"]
    assert [failure.layout for failure in kept.failures] == ["crash"]


def capture(path: Path, packets: int = 60) -> Path:
    """A pcap of UDP packets of twelve flows, raw IPv4."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    for number in range(packets):
        source = 0x0A000000 + number % 12
        frame = struct.pack(
            ">BBHHHBBHIIHHHH", 0x45, 0, 28, 0, 0, 64, 17, 0, source, 0xC0A80001, 1000, 53, 8, 0
        )
        parts.append(struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame)
    path.write_bytes(b"".join(parts))
    return path


def test_a_capture_gives_the_sessions_and_clones_fill_a_larger_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = str(capture(tmp_path / "small.pcap"))
    options = ("--processes", "1", "--regions", "1", "--no-counters", "--traffic", file)
    found = document(capsys, *options)
    assert found["spec"]["capture"]["flows"] == found["results"][0]["sessions"] == 12
    assert found["spec"]["popularity"]["kind"] == "capture"
    found = document(capsys, *options, "--scale-flows", "100", "--hit-ratio", "0.9")
    assert found["results"][0]["sessions"] == 1200


def test_a_truncated_capture_is_used_up_to_its_fault_which_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = capture(tmp_path / "cut.pcap")
    file.write_bytes(file.read_bytes()[:-5])
    options = ("--processes", "1", "--regions", "1", "--no-counters", "--traffic", str(file))
    assert main(["run", *options]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "the 59 packets before it were used" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "--layout", "flatt"), "did you mean flat"),
        (("run", "--layout", "flat", "--layout", "flat"), "two layouts are called flat"),
        (("run", "--sessions", "0"), "--sessions 0: type a number from 1"),
        (("run", "--sessions", "-5"), "--sessions"),
        (("run", "--sessions", "1.5"), "--sessions"),
        (("run", "--sessions", "1000M"), "may be used; type --sessions"),
        (("run", "--sessions", "9" * 400), "--sessions"),
        (("run", "--sessions", "\N{ARABIC-INDIC DIGIT THREE}k"), "--sessions"),
        (("run", "--node", "-1"), "--node -1"),
        (("run", "--node", "99999999999"), "--node 99999999999"),
        (("run", "--traffic", ""), "--traffic ''"),
        (("run", "--traffic", "\udcff.pcap"), "not UTF-8"),
        (("run", "-o", ""), "folder"),
        (("run", "-o", "x" * 300), "too long"),
        (("run", "--profiles", "1000M", "--rules", "1000M"), "may be used"),
        (("run", "--processes", "0"), "--processes 0"),
        (("run", "--regions", "0", "--quick"), "--regions 0"),
        (("run", "--region-ms", "1000"), "--region-ms 1000"),
        (("run", "--burst", "0"), "--burst 0"),
        (("run", "--burst", "257"), "from 1 to 256"),
        (("run", "--hit-ratio", "1.1"), "--hit-ratio 1.1"),
        (("run", "--hit-ratio", "nan"), "--hit-ratio nan"),
        (("run", "--popularity", "zipf"), "zipf:S"),
        (("run", "--popularity", "zipf:-1"), "zipf:S"),
        (("run", "--traffic", "absent.pcap"), "absent.pcap"),
        (("run", "--scale-flows", "3"), "--traffic FILE"),
        (("run", "--traffic", "x", "--sessions", "5"), "--scale-flows K"),
        (("run", "--cpu", "4096"), "--cpu 4096"),
        (("run", "-o", "absent/result.json"), "cannot write absent/result.json"),
        (("run", "--layout", "./absent.h"), "absent.h"),
        (("run", "--cflags", "'"), "--cflags"),
        (("run", "--march", "abacus", "--sessions", "1k"), "abacus"),
        (("run", "--json", "--no-such"), "--no-such; type cachebench --help"),
        (("frobnicate",), "cachebench --help"),
        ((), "COMMAND"),
        (("show", "absent.json"), "cannot read absent.json"),
        (("export", "absent.json", "--format", "csv"), "cannot read absent.json"),
        (("export", "absent.json", "--format", "xml"), "cachebench export --help"),
    ],
)
def test_bad_input_is_one_line_on_standard_error_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert says in fails(capsys, *arguments)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"hello, world, and more of it", "neither pcap nor pcapng"),
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1), "it holds no packet"),
    ],
)
def test_a_capture_without_packets_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, says: str
) -> None:
    file = tmp_path / "bad.pcap"
    file.write_bytes(content)
    message = fails(capsys, "run", "--traffic", str(file))
    assert str(file) in message
    assert says in message


def test_show_prints_what_run_printed_and_export_reads_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = str(tmp_path / "result.json")
    assert main(["run", *TINY, "-o", file]) == 0
    memory, printed = capsys.readouterr().out.split("\n", 1)
    assert memory.startswith("flat: ")
    assert "MB for 2,000 sessions (computed: " in memory
    assert main(["show", file]) == 0
    assert capsys.readouterr().out == printed
    assert main(["show", "--json", file]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path(file).read_text())
    target = tmp_path / "result.csv"
    assert main(["export", file, "--format", "csv", "-o", str(target)]) == 0
    assert main(["export", file, "--format", "csv"]) == 0
    assert capsys.readouterr().out == target.read_text()


def test_layouts_lists_every_built_in_with_its_description(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["layouts"]) == 0
    out = capsys.readouterr().out
    for name in LAYOUTS:
        assert f" {name} " in out


def test_doctor_says_one_line_for_each_condition(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 13
    assert all(":" in line for line in lines)


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    assert "2 usage" in capsys.readouterr().out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    assert main(["run", *TINY, "-o", str(file)]) == 0
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [str(Path(sysconfig.get_path("scripts")) / "cachebench"), "show", str(file)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == "cachebench: cannot go on: [Errno 28] No space left on device\n"


def test_the_file_is_written_even_if_the_reader_of_the_table_has_gone(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    command = str(Path(sysconfig.get_path("scripts")) / "cachebench")
    with subprocess.Popen(
        [command, "run", *TINY, "--json", "-o", str(file)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 0
    assert resultfile.read(str(file)).results[0].layout == "flat"


@pytest.mark.parametrize(
    "arguments",
    [
        ["layouts"],
        ["map", "flat"],
        ["map", "--base", "flat", "--head", "soa"],
        ["trace", "--layout", "flat", "--sessions", "5k", "--lookups", "5k"],
    ],
)
def test_a_report_whose_reader_has_gone_is_no_failure(arguments: list[str]) -> None:
    command = str(Path(sysconfig.get_path("scripts")) / "cachebench")
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [command, *arguments], stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_symbolic_link_stays_one_and_a_device_is_written_to(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    assert main(["run", *TINY, "-o", str(link)]) == 0
    assert link.is_symlink()
    assert resultfile.read(str(target)).results
    assert main(["run", *TINY, "-o", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()


def test_the_memory_that_is_told_is_not_exceeded(capsys: pytest.CaptureFixture[str]) -> None:
    for sessions in ("1k", "300k"):
        assert main(["run", "--sessions", sessions, "--processes", "1", "--regions", "2"]) == 0
        told = float(capsys.readouterr().out.split()[1].replace(",", "")) * 1e6
        found = document(capsys, "--sessions", sessions, "--processes", "1", "--regions", "2")
        assert max(s["peak_bytes"] for s in found["results"][0]["samples"]) < told


def test_a_result_names_what_made_it(capsys: pytest.CaptureFixture[str]) -> None:
    facts = document(capsys, *TINY)["environment"]
    assert {"cachebench", "python", "cffi", "msgspec", "scipy"} <= set(facts["versions"]["value"])
    assert "-O2" in facts["compiler"]["value"]
    assert facts["cpu_model_name"]["value"] or facts["cpu_model_name"]["reason"]


def test_no_room_for_a_temporary_file_is_told_and_loses_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    message = fails(capsys, "run", *TINY)
    assert message.startswith("layout flat: ")
    assert "absent" in message


@pytest.mark.parametrize("text", ["4.1M", "1.001k", "16.1M"])
def test_decimals_are_exact(text: str) -> None:
    assert experiment.count(text) == round(float(text[:-1]) * {"k": 1e3, "M": 1e6}[text[-1]])


def changed_flat(folder: Path, name: str, old: str, new: str) -> str:
    """The path of a copy of ``flat`` with one change."""
    source = (catalogue.layouts_folder() / "flat.h").read_text()
    assert source.count(old) == 1
    header = folder / f"{name}.h"
    header.write_text(source.replace(old, new))
    return str(header)


COUNT = "\tcb_count(&s->stats, packet);\n"


def test_what_a_layout_prints_is_not_taken_for_a_sample(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    noise = "#include <stdio.h>\n"
    header = changed_flat(
        tmp_path, "loud", COUNT, COUNT + '\tputs("{\\"sample\\": 1}"); fflush(stdout);\n'
    )
    Path(header).write_text(noise + Path(header).read_text())
    (entry,) = document(capsys, *TINY, "--layout", header)["results"]
    assert entry["figures"]["ns_per_lookup"]["value"] > 0


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("empty", "HEAP_ARENA(\"session\", struct flat_session, CB_POOL)",
         "{\"session\", \"x\", 0, CB_POOL}", "without a size"),
        ("odd", "HEAP_ARENA(\"session\", struct flat_session, CB_POOL)",
         "{\"session\", \"x\", 192, CB_BUCKETS}", "kind"),
        ("quits", "enum { FLAT_SESSION };",
         "enum { FLAT_SESSION };\n#include <stdlib.h>\n"
         "__attribute__((constructor)) static void quit(void) { _Exit(0); }", "does not load"),
    ],
)  # fmt: skip
def test_a_layout_that_cannot_be_used_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, old: str, new: str, says: str
) -> None:
    assert says in fails(capsys, "run", *TINY, "--layout", changed_flat(tmp_path, name, old, new))


def test_a_layout_may_be_named_like_a_macro(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    header = changed_flat(tmp_path, "linux", COUNT, COUNT)
    assert document(capsys, *TINY, "--layout", header)["results"][0]["layout"] == "linux"


def test_a_capture_that_changes_during_the_run_is_refused(tmp_path: Path) -> None:
    file = capture(tmp_path / "moving.pcap")
    asked = experiment.from_arguments(
        _arguments("--traffic", str(file), "--processes", "1", "--no-counters")
    )
    capture(file, packets=30)
    with pytest.raises(CachebenchError, match="changed while it was used"):
        runner.run(asked, Silent())


class Silent:
    """A listener that does not."""

    def message(self, text: str) -> None:
        pass

    def step(self, text: str, done: int, total: int) -> None:
        pass


def _arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    experiment.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("arguments", [("layouts",), ("run", *TINY), ("--help",), ("--version",)])
def test_a_closed_or_full_output_is_no_traceback(arguments: tuple[str, ...]) -> None:
    command = str(Path(sysconfig.get_path("scripts")) / "cachebench")
    shell = 'exec "$@" >&-', 'exec "$@" >/dev/full', 'exec "$@" 2>/dev/full >&-'
    for line in shell:
        done = subprocess.run(
            ["sh", "-c", line, "sh", command, *arguments], capture_output=True, text=True
        )
        assert done.returncode in (0, 2)
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) <= 1
