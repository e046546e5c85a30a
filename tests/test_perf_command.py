# SPDX-License-Identifier: BSD-3-Clause
"""Running a worker under perf: the real one where it is installed, a stand-in for hardware."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cachebench.perfstat.binary import NoPerf, Perf, find_perf, paranoid_level
from cachebench.perfstat.command import Session, event_options
from cachebench.perfstat.events import SOFTWARE, Event, Group, cpu_model, groups
from cachebench.perfstat.figures import read_group
from cachebench.perfstat.probe import pmu_names, probe
from cachebench.perfstat.report import Count, Refusal, lookup

DATA = Path(__file__).parent / "data" / "perf"

WORKER = """
import mmap, os, sys
control, ack, perf_control, perf_ack, pages, outside = map(int, sys.argv[1:7])
os.close(perf_control)
os.close(perf_ack)
page = mmap.PAGESIZE

def area(count):
    found = mmap.mmap(-1, max(count, 1) * page)
    found.madvise(mmap.MADV_NOHUGEPAGE)
    return found

def touch(found, count):
    for number in range(count):
        found[number * page] = 1

def tell(command):
    os.write(control, command)
    answer = b""
    while len(answer) < 5:
        more = os.read(ack, 5 - len(answer))
        if not more:
            sys.exit("perf is gone")
        answer += more
    assert answer == b"ack\\n\\0", answer

before, inside, after = area(outside), area(pages), area(outside)
touch(before, outside)
if pages:
    touch(area(8), 8)
    tell(b"enable\\n")
    touch(inside, pages)
    tell(b"disable\\n")
touch(after, outside)
print(os.environ.get("LC_ALL"), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def perf() -> Perf:
    found = find_perf()
    if isinstance(found, NoPerf):
        pytest.skip(f"no perf here: {found.reason}")
    answer = probe(found, ["page-faults"])["page-faults"]
    if answer is not None:
        pytest.skip(f"perf counts no page faults here: {answer}")
    return found


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a ``perf`` that replays recorded output, first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "perf"
    script.write_text(f"#!{sys.executable}\n" + (DATA / "stand_in_perf.py").read_text())
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CACHEBENCH_PERF", raising=False)
    monkeypatch.setenv("PERF_REPLAY", str(DATA / "json-counted.txt"))
    yield folder


def run(
    session: Session, pages: int, outside: int = 500, base: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    numbers = [*session.control_for_worker(), *session.perf_fds, pages, outside]
    worker = [sys.executable, "-c", WORKER, *map(str, numbers)]
    with subprocess.Popen(
        session.argv(worker, base),
        pass_fds=session.pass_fds,
        env=session.environment(base),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        session.started()
        _, said = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, "", said)


def sure(found: Perf | NoPerf) -> Perf:
    assert isinstance(found, Perf), found
    return found


def reason(found: Perf | NoPerf) -> str:
    assert isinstance(found, NoPerf), found
    return found.reason


def test_1234_pages_touched_in_the_region_are_1234_page_faults(perf: Perf, tmp_path: Path) -> None:
    with Session(perf, ["page-faults"], tmp_path) as session:
        assert run(session, 1234).returncode == 0
        found = lookup(session.report(), "page-faults")
    assert isinstance(found, Count), found
    assert found.value == 1234.0
    assert found.percent_running == 100.0


def test_without_json_the_report_is_read_from_semicolons(perf: Perf, tmp_path: Path) -> None:
    with Session(Perf(perf.path, perf.version, False), SOFTWARE, tmp_path) as session:
        assert run(session, 1234).returncode == 0
        report = session.report()
    assert report.form == "csv"
    readings = {reading.role: reading.value for reading in read_group(SOFTWARE, report)}
    assert readings["page_faults"] == 1234.0
    assert (readings["context_switches"] or 0) >= 1.0
    assert (readings["task_clock"] or 0) > 0.0


def test_a_region_that_was_never_enabled_counts_nothing(perf: Perf, tmp_path: Path) -> None:
    with Session(perf, ["page-faults"], tmp_path) as session:
        assert run(session, 0).returncode == 0
        found = lookup(session.report(), "page-faults")
    assert isinstance(found, Refusal)
    assert found.kind == "not-counted"


def test_an_unsupported_event_beside_others_does_not_spoil_them(perf: Perf, tmp_path: Path) -> None:
    if probe(perf, ["cycles:u"])["cycles:u"] is None:
        pytest.skip("cycles are counted here, so nothing is unsupported")
    with Session(perf, ["page-faults", "cycles:u"], tmp_path) as session:
        assert run(session, 1234).returncode == 0
        report = session.report()
    faults = lookup(report, "page-faults")
    assert isinstance(faults, Count)
    assert faults.value == 1234.0
    assert isinstance(lookup(report, "cycles:u"), Refusal)


@pytest.mark.parametrize("own", [None, "C", "C.UTF-8"])
def test_perf_runs_in_the_c_locale_and_the_worker_in_its_own(
    perf: Perf, tmp_path: Path, own: str | None
) -> None:
    base = {name: value for name, value in os.environ.items() if name != "LC_ALL"}
    if own is not None:
        base["LC_ALL"] = own
    with Session(perf, ["page-faults"], tmp_path) as session:
        assert session.environment(base)["LC_ALL"] == "C"
        said = run(session, 3, base=base).stderr
    assert said.strip().splitlines()[-1] == str(own)


def test_a_closed_session_keeps_the_report_and_leaves_neither_file_nor_pipe(
    perf: Perf, tmp_path: Path
) -> None:
    session = Session(perf, ["page-faults"], tmp_path)
    descriptors = session.pass_fds
    run(session, 5)
    session.close()
    session.close()
    assert isinstance(lookup(session.report(), "page-faults"), Count)
    assert list(tmp_path.iterdir()) == []
    for descriptor in descriptors:
        with pytest.raises(OSError):
            os.fstat(descriptor)


def test_a_worker_that_dies_leaves_a_report_or_a_reason(perf: Perf, tmp_path: Path) -> None:
    with Session(perf, ["page-faults"], tmp_path) as session:
        command = session.argv(["sh", "-c", "kill -SEGV $$"])
        subprocess.run(
            command,
            pass_fds=session.pass_fds,
            env=session.environment(),
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        assert isinstance(lookup(session.report(), "page-faults"), Refusal)


def test_a_probe_says_of_each_event_whether_it_counts_here(perf: Perf) -> None:
    answers = probe(perf, [SOFTWARE, "cycles:u", "no-such-event", "page-faults"])
    assert answers["page-faults"] is None
    assert answers["task-clock"] is None
    assert "does not know it" in (answers["no-such-event"] or "")
    if not pmu_names() & {"cpu", "cpu_core", "armv8_pmuv3_0"}:
        assert answers["cycles:u"] == "<not supported>: no PMU visible (virtual machine?)"


def test_a_probe_answers_for_every_event_of_every_group(perf: Perf) -> None:
    model = cpu_model(
        "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\nstepping : 8\n", "x86_64"
    )
    wanted = groups(model)
    answers = probe(perf, wanted)
    assert set(answers) == {event.perf_name for group in wanted for event in group.events}
    assert all(answer is None or answer for answer in answers.values())


def test_hardware_counts_are_replayed_by_role(stand_in: Path, tmp_path: Path) -> None:
    perf = sure(find_perf())
    assert perf == Perf(str(stand_in / "perf"), (6, 12, 8), True)
    model = cpu_model(
        "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 106\nstepping : 6\n", "x86_64"
    )
    group = next(group for group in groups(model) if group.name == "cache")
    assert probe(perf, [group]) == dict.fromkeys((event.perf_name for event in group.events), None)
    log = tmp_path / "control.log"
    os.environ["PERF_LOG"] = str(log)
    try:
        with Session(perf, group, tmp_path) as session:
            assert run(session, 3).returncode == 0
            readings = {one.role: one.value for one in read_group(group, session.report())}
    finally:
        del os.environ["PERF_LOG"]
    assert log.read_text() == "enable\ndisable\n"
    assert readings == {
        "cycles": 4e6,
        "instructions": 6e6,
        "l1d_misses": 70000.0,
        "llc_misses": 25000.0,
    }


def test_events_that_a_probe_finds_uncounted_have_their_reason(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERF_REPLAY", str(DATA / "json-refused.txt"))
    answers = probe(sure(find_perf()), ["cycles:u", "slots:u", "instructions:u", "absent:u"])
    assert "50.00 % of the time" in (answers["cycles:u"] or "")
    assert (answers["slots:u"] or "").startswith("<not supported>")
    assert "0 cannot be true" in (answers["instructions:u"] or "")
    assert answers["absent:u"]


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("wrapper", "wrapper that finds no perf for this kernel"),
        ("other", "does not say that it is perf"),
        ("old", "has no --control"),
    ],
)
def test_a_perf_that_cannot_be_used_is_absent_with_a_reason(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch, mode: str, words: str
) -> None:
    monkeypatch.setenv("PERF_MODE", mode)
    assert words in reason(find_perf())


def test_json_is_used_where_the_binary_offers_it_and_semicolons_elsewhere(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PERF_MODE", "no-json")
    perf = sure(find_perf())
    assert not perf.json
    with Session(perf, ["cycles:u"], tmp_path) as session:
        command = session.argv(["worker"], {"LC_ALL": "C"})
    assert command[command.index("-x") + 1] == ";"
    assert "-j" not in command


def test_a_variable_names_another_perf(stand_in: Path, tmp_path: Path) -> None:
    named = {"CACHEBENCH_PERF": str(stand_in / "perf"), "PATH": "/nowhere"}
    assert sure(find_perf(named | {"PERF_MODE": ""})).path == str(stand_in / "perf")
    missing = str(tmp_path / "missing")
    assert missing in reason(find_perf({"CACHEBENCH_PERF": missing}))


def test_no_perf_on_path_says_what_to_install() -> None:
    assert "install linux-perf" in reason(find_perf({"PATH": "/nowhere"}))


def test_a_file_that_is_no_program_is_no_perf(tmp_path: Path) -> None:
    broken = tmp_path / "perf"
    broken.write_text("\0")
    broken.chmod(0o755)
    assert "does not" in reason(find_perf({"CACHEBENCH_PERF": str(broken)}))


def test_the_command_line_holds_what_the_recipe_asks_for(tmp_path: Path) -> None:
    perf = Perf("/opt/perf", (6, 8), True)
    group = Group(
        "topdown",
        (Event("slots:u", "slots", "s"), Event("topdown-be-bound:u", "backend_slots", "b")),
        braced=True,
    )
    with Session(perf, group, tmp_path) as session:
        command = session.argv(["worker", "--plan", "x"], {})
        control, ack = session.perf_fds
        assert command == [
            "/opt/perf",
            "stat",
            "-D",
            "-1",
            "--control",
            f"fd:{control},{ack}",
            "-o",
            str(session.file),
            "-j",
            "-e",
            "{slots:u,topdown-be-bound:u}",
            "--",
            "env",
            "-u",
            "LC_ALL",
            "worker",
            "--plan",
            "x",
        ]
        assert len(set(session.pass_fds)) == 4
        assert session.argv(["w"], {"LC_ALL": "de_DE.UTF-8"})[-3:] == [
            "env",
            "LC_ALL=de_DE.UTF-8",
            "w",
        ]
        assert session.report().refused[0].kind == "empty"


def test_events_are_given_one_by_one_so_that_one_cannot_fail_the_others() -> None:
    assert event_options(["cycles:u", "cpu/event=0x3c,umask=0x0/u"]) == [
        "-e",
        "cycles:u",
        "-e",
        "cpu/event=0x3c,umask=0x0/u",
    ]


@pytest.mark.parametrize(("text", "level"), [("2\n", 2), ("-1\n", -1), ("x", None), ("", None)])
def test_the_paranoid_level_is_read(tmp_path: Path, text: str, level: int | None) -> None:
    file = tmp_path / "perf_event_paranoid"
    file.write_text(text)
    assert paranoid_level(file) == level
    assert paranoid_level(tmp_path / "absent") is None
