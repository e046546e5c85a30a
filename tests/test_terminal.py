"""The table, compared exactly."""

from __future__ import annotations

import io

import msgspec
import pytest
from results import result
from rich.console import Console

from cachebench.model import Capture, Figure
from cachebench.report import terminal
from cachebench.report.text import interval, quantity


def shown(document: object, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    terminal.show(document, console)  # type: ignore[arg-type]
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_figures_are_rows_and_layouts_are_columns() -> None:
    lines = shown(result("flat", "pointer"), 120)
    assert lines[0] == (
        "1,000 sessions, bulk 32, thp pages, shuffled heap, traffic uniform, hit ratio 1, "
        "key 16 B, seed 1"
    )
    (row,) = [line for line in lines if line.startswith(" CPU time per lookup")]
    # exp(mean of ln 51 and ln 54 -+ 12.706 x half their difference)
    wanted = "CPU time per lookup measured 52.48 ns (36.50 … 75.46) 62.97 ns (43.80 … 90.55)"
    assert " ".join(row.split()) == wanted
    (row,) = [line for line in lines if line.startswith(" IPC")]
    assert " ".join(row.split()) == "IPC measured not supported not supported"
    (row,) = [line for line in lines if line.startswith(" bytes per session")]
    assert " ".join(row.split()) == "bytes per session computed 236.5 B 236.5 B"
    assert any(line.startswith("not measured: cycles_per_lookup") for line in lines)


def test_a_narrow_terminal_gets_one_table_after_the_other() -> None:
    lines = shown(result("flat", "pointer"), 80)
    assert sum(line.startswith(" CPU time per lookup") for line in lines) == 2
    assert max(map(len, (line for line in lines if "measured  " in line))) <= 80


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


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure(value=53.213, low=52.9, high=53.61, unit="ns", source="measured"),
         "53.21 ns (52.90 … 53.61)"),
        (Figure(value=24_700_000.0, unit="ns", source="measured"), "24.70 ms"),
        (Figure(value=0.954, unit="share", source="measured"), "95.40 %"),
        (Figure(value=1.5, unit="1", source="measured"), "1.50"),
        (Figure(value=0.00012, unit="1", source="measured"), "0.00012"),
        (Figure(value=123456.0, unit="B", source="computed"), "123,456 B"),
    ],
)  # fmt: skip
def test_numbers_are_written_with_their_unit_and_interval(figure: Figure, text: str) -> None:
    assert interval(figure) == text


def test_quantities_have_four_digits() -> None:
    assert [quantity(v) for v in (0.0, 12.0, 0.123456, 1234567.0)] == [
        "0",
        "12",
        "0.1235",
        "1,234,567",
    ]
