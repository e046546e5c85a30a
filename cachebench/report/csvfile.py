# SPDX-License-Identifier: BSD-3-Clause
"""A result as CSV: one row for each figure of each layout."""

from __future__ import annotations

import csv
import io

from cachebench.model import Result
from cachebench.report.text import printable

COLUMNS = (
    "layout",
    "mode",
    "sessions",
    "pages",
    "heap",
    "burst",
    "prefetch",
    "checksum",
    "figure",
    "value",
    "low",
    "high",
    "unit",
    "source",
    "reason",
)


def render(result: Result) -> str:
    """Rows by layout, then figure; an empty value has its reason in the last column."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in result.results:
        point = (
            entry.layout,
            entry.mode,
            entry.sessions,
            result.spec.pages,
            result.spec.heap,
            result.spec.burst,
            entry.prefetch,
            entry.checksum,
        )
        for name, figure in entry.figures.items():
            numbers = (figure.value, figure.low, figure.high)
            cells = ["" if number is None else repr(number) for number in numbers]
            words = (printable(figure.unit), figure.source, printable(figure.reason or ""))
            writer.writerow((*point, printable(name), *cells, *words))
    return out.getvalue()
