# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmark scripts share: running cachebench and printing a table."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Run:
    """A finished run: its result document and what it took as a whole."""

    document: dict[str, Any]
    seconds: float
    peak_bytes: int
    """Largest resident size of any worker process."""

    def figure(self, layout: str, name: str) -> float:
        """The value of a figure of one layout."""
        return float(self._entry(layout)["figures"][name]["value"])

    def spread(self, layout: str, name: str) -> str:
        """``53.2 (52.8 … 53.9)``"""
        figure = self._entry(layout)["figures"][name]
        return f"{figure['value']:.1f} ({figure['low']:.1f} … {figure['high']:.1f})"

    def text(self, layout: str, name: str) -> str:
        """The value with four digits and its interval if it has one, or why there is none."""
        figure = self._entry(layout)["figures"][name]
        if figure["value"] is None:
            return str(figure["reason"])
        value, low, high = (figure[key] for key in ("value", "low", "high"))
        return f"{value:.4g}" + ("" if low is None else f" ({low:.4g} … {high:.4g})")

    def _entry(self, layout: str) -> dict[str, Any]:
        (entry,) = [e for e in self.document["results"] if e["layout"] == layout]
        return dict(entry)


def cachebench(*arguments: str) -> Run:
    """Runs ``cachebench run`` with the arguments and reads its document."""
    command = [sys.executable, "-m", "cachebench", "run", "--json", *arguments]
    print("$ cachebench run", *arguments, file=sys.stderr)
    start = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    document = json.loads(done.stdout)
    peak = max(s["peak_bytes"] for entry in document["results"] for s in entry["samples"])
    return Run(document, time.monotonic() - start, peak)


def layouts(names: Iterable[str]) -> list[str]:
    """The options that name layouts."""
    return [word for name in names for word in ("--layout", name)]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A Markdown table on standard output."""
    print("|", " | ".join(header), "|")
    print("|", " | ".join("---" if i == 0 else "--:" for i in range(len(header))), "|")
    for row in rows:
        print("|", " | ".join(row), "|")


def machine(document: dict[str, Any]) -> str:
    """The machine in one line."""
    facts = document["environment"]
    name = facts["cpu_model_name"]["value"]
    where = facts["hypervisor"]["value"]
    return f"{name}, CPUs {facts['online_cpus']['value']}" + (f", {where} guest" if where else "")
