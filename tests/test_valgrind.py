# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench trace --with``: the command, a valgrind that is none, interrupts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest
from test_process import COMMAND, MARK, marked, until

from cachebench import checking, valgrind
from cachebench.cli import main
from cachebench.model import TraceResult

needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="valgrind is not installed: apt install valgrind"
)

SMALL = ("--sessions", "2000", "--lookups", "2000", "--warm-up", "500")
CHECKED = ("trace", *SMALL, "--geometry", "l1=48k/12,l2=64k/16,llc=120k/15")


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that ends with exit code 2 and prints nothing else."""
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def stand_in(folder: Path, version: str, run: str = "exit 0") -> None:
    """A valgrind that says a version, and otherwise does what the shell lines say.

    ``$out`` is the file of counts that it was asked for; the driver is in ``$@``.
    """
    program = folder / "valgrind"
    program.write_text(
        f"""#!/bin/sh
[ "$1" = --version ] && {{ echo {version}; exit 0; }}
while case $1 in -*) true ;; *) false ;; esac; do
    case $1 in --callgrind-out-file=*) out=${{1#*=}} ;; esac
    shift
done
{run}
"""
    )
    program.chmod(0o755)


@pytest.fixture
def first_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_without_valgrind_the_command_says_how_to_install_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for tool in checking.TOOLS:
        assert "valgrind is not installed; type: apt install valgrind" in fails(
            capsys, *CHECKED, "--with", tool
        )


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("valgrind-3.16.1", "3.16.1 is too old"),
        ("valgrind-2.40.0", "2.40.0 is too old"),
        ("bash 5.2", "'bash 5.2', which is no valgrind"),
    ],
)
def test_a_valgrind_that_is_too_old_or_none_is_refused(
    version: str, why: str, first_on_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(first_on_path, f"'{version}'")
    assert why in fails(capsys, *CHECKED, "--with", "callgrind")


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (f'printf "events: Ir\\ntotals: {2**64 - 5}\\n" >"$out"; exec "$@"', "below zero"),
        ('printf "events: Ir\\ntotals: 0\\n" >"$out"; exec "$@"', "no instruction in cb_watched"),
        (': >"$out"; exec "$@"', "not one line of events"),
        ('exec "$@"', "callgrind wrote no counts (No such file or directory)"),
        ("exit 0", "the driver under valgrind said nothing"),
        ('echo "valgrind: it broke" >&2; exit 1', "ended with exit code 1: valgrind: it broke"),
        ("kill -SEGV $$", "was ended by SIGSEGV"),
        ('"$@" | sed "s/2000}/1999}/"; : >"$out"', "did other lookups"),
        ('echo "cachebench-driver: no memory" >&2; exit 2', "layout flat: no memory"),
        ('echo "vex: unhandled instruction bytes" >&9; exit 1', "ended with exit code 1"),
    ],
)
def test_counts_that_cannot_be_and_tools_that_fail_are_one_line(
    run: str, why: str, first_on_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(first_on_path, "valgrind-3.19.0", run)
    assert why in fails(capsys, *CHECKED, "--with", "callgrind")


def test_a_log_without_the_lookups_is_refused(
    first_on_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(first_on_path, "valgrind-3.19.0", 'exec "$@"')
    assert "lackey showed 0 of 2000 lookups" in fails(capsys, *CHECKED, "--with", "lackey")


def test_callgrind_needs_two_levels_of_cache_and_says_so_before_the_trace(
    capsys: pytest.CaptureFixture[str], first_on_path: Path
) -> None:
    stand_in(first_on_path, "valgrind-3.19.0")
    line = fails(capsys, "trace", *SMALL, "--geometry", "l1=48k/12", "--with", "callgrind")
    assert "type --geometry l1=48k/12,llc=32M/16" in line


@needs_valgrind
def test_the_command_shows_both_tools_beside_the_trace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = (*CHECKED, "--layout", "flat", "--with", "callgrind", "--with", "lackey")
    assert main([*both, "--json"]) == 0
    text = capsys.readouterr().out
    result = msgspec.json.decode(text, type=TraceResult)
    (traced,) = result.results
    assert traced.callgrind is not None
    assert traced.lackey is not None
    assert traced.callgrind.tool == f"callgrind of {valgrind.find().name}"
    assert traced.callgrind.changed == (
        "l2 left out: callgrind has two levels",
        "llc of 120k/30 in place of 120k/15, which callgrind does not take",
    ) or traced.callgrind.changed == ("l2 left out: callgrind has two levels",)
    assert traced.lackey.sessions == 1000
    arenas = {arena.name: arena for arena in traced.lackey.arenas}
    assert arenas["session"].lines == arenas["session"].traced_lines == 2000
    assert arenas["session"].reads < arenas["session"].traced_reads
    assert all(arena.same_lines for arena in arenas.values())
    assert set(json.loads(text)["results"][0]) >= {"callgrind", "lackey", "sample", "objects"}

    assert main(list(both)) == 0
    shown = capsys.readouterr().out
    assert f"{traced.callgrind.misses.d1:.3f}" in shown
    assert "callgrind of valgrind" in shown
    assert "lackey of valgrind" in shown
    (session,) = [line for line in shown.splitlines() if line.startswith("  session ")]
    assert session.count("≠") == 1
    assert max(map(len, shown.splitlines())) <= 80


@needs_valgrind
def test_an_interrupt_ends_valgrind_and_the_driver(tmp_path: Path) -> None:
    mark = f"test-{os.getpid()}-{tmp_path.name}"
    process = subprocess.Popen(
        [COMMAND, "trace", "--sessions", "500k", "--lookups", "1k", "--with", "callgrind"],
        env=os.environ | {MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def under_valgrind() -> bool:
        return any(
            b"--toggle-collect" in Path(f"/proc/{number}/cmdline").read_bytes()
            for number in marked(mark)
            if number != process.pid and Path(f"/proc/{number}").exists()
        )

    until(under_valgrind)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert err.rstrip().endswith("interrupted")
    until(lambda: not marked(mark))
