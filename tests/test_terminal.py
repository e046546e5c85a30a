# SPDX-License-Identifier: BSD-3-Clause
"""The table, compared exactly."""

from __future__ import annotations

import io

import msgspec
import pytest
from results import NO_PMU, result
from rich.console import Console

from cachebench.model import Capture, Figure
from cachebench.report import terminal
from cachebench.report.text import interval, quantity, scale


def shown(document: object, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    terminal.show(document, console)  # type: ignore[arg-type]
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def rows(lines: list[str], title: str) -> list[str]:
    """The rows of that title, white space folded."""
    return [" ".join(line.split()) for line in lines if line.strip().startswith(title)]


def test_figures_are_rows_and_layouts_are_columns() -> None:
    lines = shown(result("flat", "pointer"), 120)
    assert lines[0] == (
        "1,000 sessions, bulk, bursts of 32, thp pages, shuffled heap, traffic uniform, hit ratio "
        "1, key 16 B, seed 1"
    )
    # exp(mean of ln 51 and ln 54 -+ 12.706 x half their difference)
    assert rows(lines, "CPU time per lookup") == [
        "CPU time per lookup, ns 52.48 (36.50 … 75.46) 62.97 (43.80 … 90.55)"
    ]
    assert rows(lines, "bytes per session") == ["bytes per session, B 236.5 236.5"]


def test_layouts_are_compared_round_by_round() -> None:
    lines = shown(result("flat", "pointer"), 120)
    # Each process of the second is slower by exactly 1.2.
    assert rows(lines, "over that of flat") == ["over that of flat 1.20 (1.20 … 1.20)"]
    assert rows(shown(result("flat"), 120), "over that of") == []


def test_counters_that_are_absent_are_one_row_and_their_reason_a_note() -> None:
    lines = shown(result("flat", "pointer"), 200)
    assert rows(lines, "10 hardware counter figures") == [
        "10 hardware counter figures not supported not supported"
    ]
    assert rows(lines, "no cycles per lookup, instructions per lookup, IPC") != []
    assert NO_PMU in "\n".join(lines)


def test_two_layouts_fit_side_by_side_into_80_columns() -> None:
    lines = shown(result("flat", "pointer"), 80)
    assert len(rows(lines, "CPU time per lookup")) == 1
    assert max(map(len, lines)) <= 80


def test_a_narrow_terminal_gets_one_table_after_the_other() -> None:
    lines = shown(result("flat", "pointer"), 60)
    assert len(rows(lines, "CPU time per lookup")) == 2
    assert max(map(len, lines)) <= 60


def test_a_cpu_that_was_shared_is_told() -> None:
    note = "wall time is 1.10 times CPU time"
    assert note in " ".join(" ".join(shown(result("flat"), 80)).split())


def test_a_fault_of_the_capture_is_told() -> None:
    document = result("flat")
    capture = Capture(
        path="x.pcap",
        sha256="",
        clones=1,
        packets=6,
        keyed=6,
        flows=2,
        ipv6_flows=0,
        fault="the file ends inside a record at byte 99",
    )
    spec = msgspec.structs.replace(document.spec, capture=capture)
    lines = shown(msgspec.structs.replace(document, spec=spec), 120)
    assert (
        "x.pcap: the file ends inside a record at byte 99; the 6 packets before it were used"
        in lines
    )


def figure(value: float, unit: str, **more: float) -> Figure:
    return Figure(value=value, unit=unit, source="measured", **more)


@pytest.mark.parametrize(
    ("row", "texts", "unit"),
    [
        ([figure(53.213, "ns", low=52.9, high=53.61)], ["53.21 (52.90 … 53.61)"], "ns"),
        ([figure(24_700_000.0, "ns"), figure(1988.0, "ns")], ["24.70", "0.00199"], "ms"),
        ([figure(0.954, "share")], ["95.40"], "%"),
        ([figure(1.5, "1"), figure(0.00012, "1")], ["1.50", "0.00012"], ""),
        ([figure(123456.0, "B")], ["123,456"], "B"),
    ],
)
def test_a_row_has_one_unit(row: list[Figure], texts: list[str], unit: str) -> None:
    factor, found = scale(row)
    assert found == unit
    assert [interval(each, factor) for each in row] == texts


def test_quantities_have_four_digits() -> None:
    assert [quantity(v) for v in (0.0, 12.0, 0.123456, 1234567.0)] == [
        "0",
        "12",
        "0.1235",
        "1,234,567",
    ]
