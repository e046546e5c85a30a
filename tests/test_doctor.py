# SPDX-License-Identifier: BSD-3-Clause
"""What the doctor says of five fabricated machines, to the letter, and of this one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from machines import doctor_lines, lay_out, write

from cachebench.machine.doctor import CONDITIONS, Finding, State, examine, line
from cachebench.machine.tools import Tools, ask_tools

ALL = Tools(
    perf="6.8.12",
    perf_reason="",
    cycles_counted=True,
    cycles_reason="",
    compiler="gcc 13.2.0",
    valgrind="valgrind-3.22.0",
)
FORBIDDEN = replace(ALL, cycles_counted=False, cycles_reason="not permitted")
NO_PMU = replace(ALL, cycles_counted=False, cycles_reason="not supported")
NONE = Tools(
    perf=None,
    perf_reason="there is no perf on PATH; install it",
    cycles_counted=None,
    cycles_reason="there is no perf on PATH; install it",
    compiler=None,
    valgrind=None,
)


def finding(name: str, root: Path, tools: Tools = ALL) -> Finding:
    return next(found for found in examine(root, tools) if found.name == name)


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        pytest.param("laptop", FORBIDDEN, id="laptop with powersave, turbo and SMT"),
        pytest.param("server", ALL, id="bare metal, isolated CPUs, two nodes, 1G pages"),
        pytest.param("guest", replace(NO_PMU, valgrind=None), id="KVM guest without PMU"),
        pytest.param("container", replace(FORBIDDEN, compiler=None), id="container, paranoid 3"),
        pytest.param("aarch64", NONE, id="aarch64 server without tools"),
    ],
)
def test_a_machine_gets_one_line_for_each_condition(
    tmp_path: Path, name: str, tools: Tools
) -> None:
    findings = examine(lay_out(name, tmp_path), tools)
    assert [line(found) for found in findings] == doctor_lines(name)


def test_this_machine_gets_a_finding_for_each_condition_with_meaning() -> None:
    findings = examine()
    assert [found.name for found in findings] == [condition.name for condition in CONDITIONS]
    for found in findings:
        assert found.state in ("ok", "note", "bad")
        assert found.found and found.meaning, found
        assert "\n" not in line(found)
        assert "None" not in line(found)
        assert found.state != "ok" or not found.advice, "what is well needs no advice"


def test_a_machine_that_tells_nothing_still_gets_every_line(tmp_path: Path) -> None:
    write(tmp_path, "/proc/loadavg", "0.00 0.00 0.00 1/100 4242")
    findings = examine(tmp_path, NONE)
    assert len(findings) == len(CONDITIONS)
    assert not any("None" in line(found) for found in findings)
    assert {found.name for found in findings if found.state == "ok"} == set()


def test_a_pmu_that_is_there_but_refuses_is_not_called_good(tmp_path: Path) -> None:
    root = lay_out("server", tmp_path)
    found = finding("pmu", root, NO_PMU)
    assert found.state == "bad"
    assert found.found == "cpu is there, but counts nothing (not supported)"
    assert finding("pmu", root, NONE).state == "note"


def test_paranoid_levels_bind_only_those_without_the_capability(tmp_path: Path) -> None:
    root = lay_out("server", tmp_path)
    states: dict[tuple[int, str], State] = {}
    for level in (-1, 2, 3):
        for mask in ("0", f"{1 << 38:x}", f"{1 << 21:x}"):
            write(root, "/proc/sys/kernel/perf_event_paranoid", str(level))
            write(root, "/proc/self/status", f"CapEff:\t{mask}")
            states[level, mask] = finding("perf", root).state
    assert [key for key, state in states.items() if state != "ok"] == [(3, "0")]


@pytest.mark.parametrize(
    ("distribution", "command"),
    [
        ("Debian GNU/Linux 13 (trixie)", "sudo apt install linux-perf"),
        ("Ubuntu 22.04.5 LTS", "sudo apt install linux-tools-$(uname -r)"),
        ("Fedora Linux 41", "sudo dnf install perf"),
        ("Arch Linux", "install perf with the package manager of this distribution"),
    ],
)
def test_a_missing_perf_is_installed_by_the_name_the_distribution_gives_it(
    tmp_path: Path, distribution: str, command: str
) -> None:
    root = lay_out("server", tmp_path)
    write(root, "/etc/os-release", f'PRETTY_NAME="{distribution}"')
    assert finding("perf", root, NONE).advice == command


@pytest.mark.parametrize(
    ("stolen", "state"), [(0, "ok"), (9, "ok"), (10, "note"), (49, "note"), (50, "bad")]
)
def test_steal_is_judged_as_a_share_of_busy_time(tmp_path: Path, stolen: int, state: State) -> None:
    root = lay_out("guest", tmp_path)
    write(root, "/proc/stat", f"cpu  {1000 - stolen} 0 0 999999 999999 0 0 {stolen} 0 0")
    assert finding("steal", root).state == state


@pytest.mark.parametrize(
    ("load", "cpus", "state"),
    [
        ("0.49", "0-1", "ok"),
        ("0.50", "0-1", "note"),
        ("2.00", "0-1", "bad"),
        ("6.00", "0-63", "ok"),
        ("6.40", "0-63", "note"),
    ],
)
def test_load_is_judged_against_the_number_of_cpus(
    tmp_path: Path, load: str, cpus: str, state: State
) -> None:
    root = lay_out("guest", tmp_path)
    write(root, "/proc/loadavg", f"{load} 0.00 0.00 1/100 4242")
    write(root, "/sys/devices/system/cpu/online", cpus)
    assert finding("load", root).state == state


def test_isolated_cpus_out_of_reach_are_told(tmp_path: Path) -> None:
    root = lay_out("guest", tmp_path)
    write(root, "/sys/devices/system/cpu/isolated", "8-9")
    found = finding("isolation", root)
    assert (found.state, found.found) == ("note", "CPU 8-9, not allowed to this process")


def test_programs_are_asked_by_running_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CACHEBENCH_PERF", raising=False)
    for name, text in (("cc", "cc 99.1"), ("valgrind", "valgrind-9.9")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/nowhere")
    monkeypatch.delenv("CC", raising=False)
    asked = ask_tools()
    assert (asked.compiler, asked.valgrind) == ("cc 99.1", "valgrind-9.9")
    assert (asked.perf, asked.cycles_counted) == (None, None)
    assert asked.perf_reason.startswith("there is no perf on PATH")
    (tmp_path / "valgrind").write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    asked = ask_tools()
    assert (asked.compiler, asked.valgrind) == (None, None)


PERF = """#!/bin/sh
case "$1 $2" in
"--version ") echo "perf version 6.1.99" ;;
"stat -h") echo "--control --delay --output --json-output" ;;
"stat -o") printf '%s\\n' '{"counter-value" : "COUNT", "unit" : "", "event" : "cycles:u", \
"event-runtime" : 900, "pcnt-running" : 100.00}' >"$3" ;;
esac
"""


@pytest.mark.parametrize(
    ("count", "counted", "why_not"),
    [("1050.000000", True, ""), ("<not supported>", False, "<not supported>")],
)
def test_a_pmu_is_believed_only_when_perf_counts_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: str, counted: bool, why_not: str
) -> None:
    perf = tmp_path / "perf"
    perf.write_text(PERF.replace("COUNT", count))
    perf.chmod(0o755)
    monkeypatch.setenv("CACHEBENCH_PERF", str(perf))
    asked = ask_tools()
    assert (asked.perf, asked.perf_reason) == ("6.1.99", "")
    assert asked.cycles_counted is counted
    assert asked.cycles_reason.startswith(why_not)
    assert bool(asked.cycles_reason) is not counted
