# SPDX-License-Identifier: BSD-3-Clause
"""The simulator against callgrind; instructions; what callgrind takes and writes."""

from __future__ import annotations

import subprocess

import pytest
from test_valgrind import needs_valgrind

from cachebench import callgrind, catalogue, checking, tracing
from cachebench.checkmodel import Misses
from cachebench.errors import CachebenchError
from cachebench.geometry import geometry
from cachebench.model import Experiment, Popularity

LAYOUTS = [layout.name for layout in catalogue.builtin_layouts()]


def ignore(doing: str) -> None:
    pass


# Six to fourteen times the last level. A burst of soa touches more lines than 32 KiB
# hold beside the stack, so that what is evicted depends on all that is in the cache.
POINT = {"sessions": 31_250}
CACHES = ("l1=48k/12,llc=512k/16", "l1=32k/8,llc=512k/16")


def both(layout: str, caches: str, **changes: object) -> tuple[Misses, Misses]:
    """Callgrind's misses and ours."""
    experiment = Experiment(layouts=(layout,), **(POINT | changes))  # type: ignore[arg-type]
    asked = tracing.Asked(experiment, caches, lookups=10_000, warm_up=16_000)
    shape = callgrind.accept(tracing.simulated_memory(asked))
    assert shape.changed == ()
    pair = tracing.kernels(catalogue.find(layout), experiment, stack=True)
    return checking.misses(asked, pair, shape, ignore)


@needs_valgrind
@pytest.mark.parametrize(
    ("layout", "caches"), [*((name, CACHES[0]) for name in LAYOUTS), ("soa", CACHES[1])]
)
def test_the_simulator_misses_what_callgrind_misses(layout: str, caches: str) -> None:
    theirs, ours = both(layout, caches)
    assert ours.d1 == pytest.approx(theirs.d1, rel=0.01)
    assert ours.ll == pytest.approx(theirs.ll, rel=0.03)
    assert 1 < theirs.ll < theirs.d1 < 17


@needs_valgrind
@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "serial", "hit_ratio": 0.5},
        {"mode": "single", "key_size": 40, "heap": "fresh", "seed": 9},
        {"burst": 48, "session_prefetch": 0, "max_load": 0.6, "profiles": 9000, "rules": 99},
        {"popularity": Popularity(kind="zipf", exponent=0.9), "heap": "aged"},
        {"popularity": Popularity(kind="campus")},
    ],
    ids=["serial", "single", "bulk", "zipf", "campus"],
)
def test_callgrind_is_given_the_very_point_of_the_trace(changes: dict[str, object]) -> None:
    theirs, ours = both("pointer", CACHES[0], **changes)
    assert ours.d1 == pytest.approx(theirs.d1, rel=0.01)
    assert ours.ll == pytest.approx(theirs.ll, rel=0.03)


@needs_valgrind
def test_instructions_repeat_to_the_digit_and_depend_on_load_not_on_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of(sessions: int, lookups: int) -> float:
        experiment = Experiment(layouts=("pointer",), sessions=sessions)
        return callgrind.instructions(experiment, "pointer", None, lookups).per_lookup

    small = of(1953, 8000)
    monkeypatch.setenv("CACHEBENCH_TEST_PADDING", "x" * 3000)
    assert of(1953, 8000) == small
    assert of(15_625, 8000) == pytest.approx(small, rel=0.002)
    assert of(1953, 16_000) == pytest.approx(small, rel=0.002)
    experiment = Experiment(layouts=("pointer",), sessions=1953, hit_ratio=0.0)
    missing = callgrind.instructions(experiment, "pointer", None, 8000)
    assert missing.per_lookup < 0.8 * small
    assert missing.tool.startswith("callgrind of valgrind 3.")


# ---- Geometries


def accepted(text: str) -> callgrind.Accepted:
    return callgrind.accept(geometry(text, {}, "thp"))


def test_a_geometry_that_callgrind_takes_is_not_changed() -> None:
    found = accepted("l1=48k/12,llc=32M/16")
    assert found.changed == ()
    assert callgrind._option(found.geometry.caches[0]) == "49152,12,64"
    assert callgrind._option(found.geometry.caches[1]) == "33554432,16,64"


def test_sets_that_are_no_power_of_two_become_one_of_nearly_the_same_size() -> None:
    found = accepted("l1=48k/12,l2=2M/16,llc=105M/15")
    assert found.geometry.caches[1] == callgrind.Level(ways=13, sets=131_072)
    assert found.changed == (
        "l2 left out: callgrind has two levels",
        "llc of 104M/13 in place of 105M/15, which callgrind does not take",
    )


def test_one_level_is_not_enough_for_callgrind() -> None:
    with pytest.raises(CachebenchError, match="two levels of cache; type --geometry"):
        accepted("l1=48k/12")


@needs_valgrind
@pytest.mark.parametrize(
    "text",
    ["l1=64/1,l2=128/2", "l1=192/3,llc=15G/15", "l1=36k/9,llc=105M/15", "l1=4k/64,llc=3G/12"],
)
def test_callgrind_takes_every_geometry_that_was_made_for_it(text: str) -> None:
    first, last, _ = (callgrind._option(level) for level in accepted(text).geometry.caches)
    options = [f"--I1={callgrind.INSTRUCTION_CACHE}", f"--D1={first}", f"--LL={last}"]
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", *options, "--callgrind-out-file=/dev/null", "/bin/true"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


# ---- What callgrind writes

WRITTEN = "version: 1\nevents: Ir Dr Dw\nfn=(1)\n1 5 2 1\nsummary: 5 2 1\n\ntotals: 5 2 1\n"


def test_the_totals_are_read_by_event() -> None:
    assert callgrind.totals(WRITTEN) == {"Ir": 5, "Dr": 2, "Dw": 1}


def test_zeros_at_the_end_of_a_line_may_be_left_out() -> None:
    text = WRITTEN.replace("5 2 1\n\n", "5\n\n").replace("totals: 5 2 1", "totals: 5")
    assert callgrind.totals(text) == {"Ir": 5, "Dr": 0, "Dw": 0}


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("5 2 1\n\ntotals: 5", f"{2**64 - 9} 2 1\n\ntotals: {2**64 - 9}", "below zero"),
        ("5 2 1\n\ntotals: 5", "0 2 1\n\ntotals: 0", "no instruction"),
        ("summary: 5", "summary: 6", "differ"),
        ("events: Ir Dr Dw\n", "", "not one line"),
        ("totals: 5 2 1\n", "", "not one line"),
        ("totals:", "totals: 5 2 1\ntotals:", "not one line"),
        ("5 2 1\n\ntotals: 5 2 1", "5 2 1 7\n\ntotals: 5 2 1 7", "no totals of"),
        ("5 2 1\n\ntotals: 5 2 1", "-5 2 1\n\ntotals: -5 2 1", "no totals of"),
        ("events: Ir Dr Dw", "events: Dr Dw Bc", "no instruction"),
    ],
)
def test_totals_that_cannot_be_are_refused(before: str, after: str, why: str) -> None:
    assert before in WRITTEN
    with pytest.raises(ValueError, match=why):
        callgrind.totals(WRITTEN.replace(before, after))
