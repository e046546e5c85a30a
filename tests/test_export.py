# SPDX-License-Identifier: BSD-3-Clause
"""Exports, read by the tools they are for."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

import pyperf
import pytest
from results import result

from cachebench import resultfile
from cachebench.cli import main
from cachebench.report import EXPORTERS


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    file = tmp_path / "pyperf.json"
    file.write_text(EXPORTERS["pyperf"](result("flat", "pointer")))
    return file


def test_pyperf_reads_each_process_as_a_run_and_each_region_as_a_value(exported: Path) -> None:
    suite = pyperf.BenchmarkSuite.load(str(exported))
    benchmark = suite.get_benchmark("flat bulk 1000 sessions thp")
    assert benchmark.get_nrun() == 2
    assert benchmark.get_values() == pytest.approx((50e-9, 52e-9, 51e-9, 53e-9, 55e-9, 54e-9))
    assert benchmark.get_metadata()["checksum"] == "00000000000000aa"


def test_pyperf_stats_reads_the_export(exported: Path) -> None:
    done = _pyperf("stats", str(exported))
    assert "Median +- MAD" in done.stdout
    assert "Number of benchmarks: 2" in done.stdout
    assert "Total number of values: 6" in done.stdout


def test_pyperf_compare_to_sees_the_slower_layout(tmp_path: Path) -> None:
    both, files = tmp_path / "both.json", []
    both.write_text(resultfile.encode(result("flat", "pointer")))
    for layout in ("flat", "pointer"):
        file = tmp_path / f"{layout}.json"
        options = ("--format", "pyperf", "--layout", layout, "-o", str(file))
        assert main(["export", str(both), *options]) == 0
        files.append(str(file))
    done = _pyperf("compare_to", *files)
    assert "1.20x slower" in done.stdout


def _pyperf(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pyperf", *arguments], capture_output=True, text=True, check=True
    )


def test_csv_has_a_row_for_each_figure_and_the_reason_of_each_absence() -> None:
    document = result("flat", "pointer")
    rows = list(csv.DictReader(io.StringIO(EXPORTERS["csv"](document))))
    assert len(rows) == sum(len(entry.figures) for entry in document.results)
    for entry in document.results:
        for name, figure in entry.figures.items():
            (row,) = [r for r in rows if (r["layout"], r["figure"]) == (entry.layout, name)]
            if figure.value is None:
                assert (row["value"], row["reason"]) == ("", figure.reason)
            else:
                assert float(row["value"]) == figure.value
                assert row["source"] == figure.source
