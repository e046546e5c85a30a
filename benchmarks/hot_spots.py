# SPDX-License-Identifier: BSD-3-Clause
"""Where `pointer` takes more time than `flat`, and how well two profiles agree.

Serial lookups at 4M sessions. At least 80 % of the time that `pointer` adds must be on
the lines of its header that read through qos, policer, stats and action; the shares of
two runs of 4,000 samples and more must agree within 3 points, by stage and by line.
Exit code 1 if one of them does not hold.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

from _common import machine, table

from cachebench.machine.environment import collect

THROUGH = re.compile(r"->(qos|policer|stats|action)->")
OBJECTS = ("qos", "policer", "stats", "action")
LEAST_PART = 0.8
MOST_APART = 0.03
SAMPLES = "4000"
POINT = ("--mode", "serial", "--sessions", "4M", "--samples", SAMPLES)


def main() -> int:
    runs = [_profile(*POINT, "--layout", "flat", "--layout", "pointer") for _ in range(2)]
    print(f"serial, 4M sessions, {SAMPLES} samples and more, {machine({'environment': collect()})}")
    parts = [_on_pointers(run) for run in runs]
    rows = []
    for run, part in zip(runs, parts, strict=True):
        (added,) = run["added"]
        objects = sum(added["objects"][name]["value"] for name in OBJECTS)
        total = added["total"]
        rows.append(
            [
                *(f"{p['ns_per_lookup']['value']:.0f}" for p in run["profiles"]),
                f"{total['value']:.0f} ({total['low']:.0f} … {total['high']:.0f})",
                f"{part:.0%}",
                f"{objects / total['value']:.0%}",
            ]
        )
    table(
        [
            "flat, ns (measured)",
            "pointer, ns (measured)",
            "added, ns (measured)",
            "of it on lines that read through the pointers (estimated)",
            "of it in the four objects (estimated)",
        ],
        rows,
    )
    apart = [
        (_apart(runs, number, kind), profile["layout"], kind)
        for number, profile in enumerate(runs[0]["profiles"])
        for kind in ("stages", "lines", "source", "objects", "members")
    ]
    print()
    table(
        ["layout", "by", "largest difference of a share, points (measured)"],
        [[layout, kind, f"{100 * points:.1f}"] for points, layout, kind in apart],
    )
    return int(min(parts) < LEAST_PART or max(points for points, *_ in apart) > MOST_APART)


def _profile(*arguments: str) -> dict[str, Any]:
    print("$ cachebench profile", *arguments, file=sys.stderr)
    command = [sys.executable, "-m", "cachebench", "profile", "--json", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def _on_pointers(run: dict[str, Any]) -> float:
    """Added time on the lines that read through the pointers, over all that is added.

    The same work of `flat`, all of its header's lines, is taken off.
    """
    flat, pointer = run["profiles"]
    there = sum(x["ns"]["value"] for x in pointer["source"] if THROUGH.search(x["text"]))
    here = sum(line["ns"]["value"] for line in flat["source"])
    return float((there - here) / run["added"][0]["total"]["value"])


def _apart(runs: list[dict[str, Any]], number: int, kind: str) -> float:
    """The largest difference between the shares that two runs give to one place."""
    shares = [
        {spot["name"]: spot["share"]["value"] for spot in run["profiles"][number][kind]}
        for run in runs
    ]
    names = shares[0].keys() | shares[1].keys()
    return max(abs(shares[0].get(name, 0.0) - shares[1].get(name, 0.0)) for name in names)


if __name__ == "__main__":
    sys.exit(main())
