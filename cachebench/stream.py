# SPDX-License-Identifier: BSD-3-Clause
"""How many packets a region has, and what memory they take."""

from __future__ import annotations

from cachebench.model import Capture, Experiment

LEAD_IN = 0.3
"""Share of a region that runs before it untimed. Blocks of regions without one were
measured to favour one arm by up to 2 %."""
FASTEST_NS = 3.75
"""No lookup is faster: one region at this speed is the longest that there will be."""
LENGTH_BYTES = 2
TUPLE_BYTES = 40


def most_lookups(experiment: Experiment) -> int:
    """Lookups that a region has at most, the lead-in apart."""
    return int(experiment.region_ms * 1e6 / FASTEST_NS)


def whole_bursts(lookups: float, experiment: Experiment) -> int:
    """The next whole number of bursts."""
    return (int(lookups) // experiment.burst + 1) * experiment.burst


def bytes_of_longest(experiment: Experiment) -> int:
    """Keys and lengths of the longest region with its lead-in."""
    packets = (1 + LEAD_IN) * most_lookups(experiment)
    return int(packets * (experiment.key_size + LENGTH_BYTES))


def capture_bytes(capture: Capture) -> int:
    """Arrays of a capture, which grow by doubling: packets, flows and their hash table."""
    return 2 * (capture.keyed * (4 + LENGTH_BYTES) + capture.flows * (TUPLE_BYTES + 8))
