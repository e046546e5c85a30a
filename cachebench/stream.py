# SPDX-License-Identifier: BSD-3-Clause
"""How many packets a region has and what memory they take, and the small table beside it."""

from __future__ import annotations

import msgspec

from cachebench.model import Capture, Experiment, Popularity

LEAD_IN = 0.3
"""Share of a region that runs before it untimed. Blocks of regions without one were
measured to favour one arm by up to 2 %."""
FASTEST_NS = 3.75
"""No lookup is faster: one region at this speed is the longest that there will be."""
SMALL_SESSIONS = 1024
"""Of a table that lies in the caches: of the largest sessions here, 0.5 MB."""
LENGTH_BYTES = 2
TUPLE_BYTES = 40


def small(experiment: Experiment, below: int = SMALL_SESSIONS) -> Experiment:
    """The experiment on a table of fewer sessions than ``below``, by a power of two.

    Buckets are halved as often, so that the load is the same. A capture's flows are
    not divided: the small table has keys of its own. It needs no page of 1 GiB for
    each of its arenas.
    """
    sessions = experiment.sessions
    while sessions >= below:
        sessions //= 2
    return msgspec.structs.replace(
        experiment,
        sessions=sessions,
        capture=None,
        popularity=Popularity() if experiment.capture else experiment.popularity,
        pages="4k" if experiment.pages == "4k" else "thp",
    )


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
