# SPDX-License-Identifier: BSD-3-Clause
"""The three layouts that span the range, with huge and with small pages.

At 7.3M sessions and bursts of 32 the order must show: pointer over flat at least
1.5, flat over embedded at least 1.25. Exit code 1 if it does not.
"""

from __future__ import annotations

import sys

from _common import cachebench, layouts, machine, table

NAMES = ("pointer", "flat", "embedded")
LEAST = {("pointer", "flat"): 1.5, ("flat", "embedded"): 1.25}


def main() -> int:
    rows, missed = [], False
    for pages in ("thp", "4k"):
        run = cachebench("--sessions", "7.3M", "--pages", pages, "--no-counters", *layouts(NAMES))
        ratios = {
            pair: run.figure(pair[0], "ns_per_lookup") / run.figure(pair[1], "ns_per_lookup")
            for pair in LEAST
        }
        missed |= any(ratios[pair] < least for pair, least in LEAST.items())
        levels = [run.spread(name, "ns_per_lookup") for name in NAMES]
        rows.append([pages, *levels, *(f"{ratio:.2f}" for ratio in ratios.values())])
    print(f"ns a lookup (measured, thread CPU time, 95 % interval) on {machine(run.document)}")
    table(["pages", *NAMES, *("/".join(pair) for pair in LEAST)], rows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
