# SPDX-License-Identifier: BSD-3-Clause
"""Workers as processes: interrupted, killed, and counted by the real perf."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cachebench import catalogue
from cachebench.counters import find_counters
from cachebench.errors import CachebenchError
from cachebench.machine.cpus import pick_cpu
from cachebench.model import Experiment, WorkerPlan
from cachebench.process import run_worker

EXPERIMENT = Experiment(layouts=("flat",), sessions=2000, processes=1, regions=2)
COMMAND = str(Path(sysconfig.get_path("scripts")) / "cachebench")
MARK = "CACHEBENCH_TEST_MARK"


def plan(**changes: object) -> WorkerPlan:
    fields: dict[str, object] = {
        "experiment": EXPERIMENT,
        "layout": "flat",
        "plugin": None,
        "process": 0,
        "order": 0,
        "seed": 1,
        "kind": "time",
        "prove": False,
        "cpu": pick_cpu(),
    }
    return WorkerPlan(**(fields | changes))  # type: ignore[arg-type]


def marked(mark: str) -> list[int]:
    """Processes whose environment holds the mark."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if mark.encode() in environment:
                found.append(int(folder.name))
    return found


def is_worker(number: int) -> bool:
    try:
        return b"cachebench.worker" in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_a_worker_says_what_it_does_and_gives_a_sample() -> None:
    heard: list[str] = []
    sample = run_worker(plan(prove=True), heard.append)
    assert heard == ["filling", "proving", "measuring"]
    assert len(sample.regions) == 2
    assert sample.table.entries == 2000
    assert sample.checksum is not None
    assert {arena.name for arena in sample.arenas} >= {"bucket", "key", "session", "rules"}
    assert all(arena.resident == arena.bytes for arena in sample.arenas)


def test_an_error_of_the_core_is_passed_on_with_the_layouts_name() -> None:
    experiment = msgspec.structs.replace(EXPERIMENT, node=999)
    with pytest.raises(CachebenchError, match="layout flat: cannot bind memory to NUMA node 999"):
        run_worker(plan(experiment=experiment), lambda _: None)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGBUS])
def test_a_worker_that_is_killed_is_named_with_its_signal(number: signal.Signals) -> None:
    experiment = msgspec.structs.replace(EXPERIMENT, sessions=500_000)

    def kill(doing: str) -> None:
        if doing == "measuring":
            (worker,) = children()
            os.kill(worker, number)

    with pytest.raises(CachebenchError, match=f"layout flat: the worker died of {number.name}"):
        run_worker(plan(experiment=experiment), kill)
    assert children() == []


def children() -> list[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(word) for word in text.split()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("counters", [True, False])
def test_an_interrupted_run_leaves_no_process_and_no_file(
    tmp_path: Path, number: signal.Signals, counters: bool
) -> None:
    mark = uuid.uuid4().hex
    file = tmp_path / "result.json"
    with subprocess.Popen(
        [
            COMMAND,
            *("run", "--sessions", "1M", "--processes", "1000", "-o", str(file)),
            *([] if counters else ["--no-counters"]),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, MARK: mark},
    ) as process:
        until(lambda: any(is_worker(number) for number in marked(mark)))
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert err.decode() == "cachebench: interrupted; no file was written\n"
    assert out.decode().startswith("flat: ")
    assert marked(mark) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("delay", [0.05, 0.2, 0.5])
def test_an_interrupt_while_the_program_starts_is_one_line(
    number: signal.Signals, delay: float
) -> None:
    with subprocess.Popen(
        [COMMAND, "run", "--processes", "1000", "--no-counters"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        time.sleep(delay)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    # Before Python runs its first line, the signal ends the process itself.
    assert process.returncode in (2, -number)
    if process.returncode == 2:
        assert err.startswith("cachebench: interrupted")
        assert len(err.splitlines()) == 1


def test_an_interrupted_run_shows_the_layouts_that_were_measured(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    with subprocess.Popen(
        [
            COMMAND,
            *("run", "--sessions", "1k", "--processes", "1000", "--no-counters"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, MARK: mark},
    ) as process:
        seen: set[int] = set()

        def two_workers() -> bool:
            seen.update(marked(mark))
            return len(seen) >= 4  # the command and three workers: two have ended

        until(two_workers)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "CPU time per lookup" in out.decode()
    assert err.decode() == "cachebench: interrupted; no file was written\n"


def test_perf_counts_only_the_region_and_takes_off_what_its_messages_cost() -> None:
    counters = find_counters(pick_cpu(), True)
    if counters.perf is None:
        pytest.skip(f"no perf here: {counters.unavailable['cycles']}")
    (software, *_) = counters.groups
    assert software.name == "software"
    sample = counters.sample(software, plan(kind="counters"), lambda _: None)
    counts = {count.role: count for count in sample.counts}
    # The table's pages are there before the region: a run of millions of lookups
    # faults in none of them, nor does an empty region.
    assert counts["page_faults"].value == counts["page_faults"].empty == 0
    (region,) = sample.regions
    assert counts["task_clock"].value * 1e6 == pytest.approx(region.cpu_ns, rel=0.1)
    assert counts["task_clock"].empty < 5


def test_a_worker_that_crashes_under_perf_is_named_with_its_signal(tmp_path: Path) -> None:
    from cachebench import build

    counters = find_counters(pick_cpu(), True)
    if counters.perf is None:
        pytest.skip(f"no perf here: {counters.unavailable['cycles']}")
    header = tmp_path / "crash.h"
    source = (catalogue.layouts_folder() / "flat.h").read_text()
    header.write_text(source.replace("cb_count(&s->stats, packet);", "__builtin_trap();"))
    path = build.artifact(build.Recipe(catalogue.find(str(header))))
    with pytest.raises(CachebenchError, match="layout crash: the worker died of SIGILL"):
        counters.sample(
            counters.groups[0],
            plan(kind="counters", layout="crash", plugin=str(path)),
            lambda _: None,
        )


def test_without_perf_timers_alone_remain_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CACHEBENCH_PERF", raising=False)
    counters = find_counters(pick_cpu(), True)
    assert (counters.perf, counters.groups) == (None, ())
    assert "perf" in counters.unavailable["ipc"]


def test_a_worker_imports_neither_numpy_nor_rich() -> None:
    code = "import sys, cachebench.worker; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"numpy", "rich", "scipy"} & set(done.stdout.split())
