# SPDX-License-Identifier: BSD-3-Clause
"""Command line to Experiment: reading, checking and completing what was typed."""

from __future__ import annotations

import argparse
import re
import shlex
from decimal import Decimal

from cachebench import core
from cachebench._core import ffi
from cachebench.errors import CachebenchError
from cachebench.model import HEAPS, MODES, PAGES, Capture, Experiment, Popularity

SUFFIXES = {"": 1, "k": 1000, "K": 1000, "m": 1_000_000, "M": 1_000_000}
MOST_SESSIONS = 1 << 30
MOST_OBJECTS = 1 << 30
MOST_EXPONENT = 4.0
MOST_NODES = 1024
MOST_REGION_MS = 100
"""Packets are drawn before their region: longer ones would take gigabytes."""
DEFAULT = Experiment(layouts=("flat",))
QUICK_PROCESSES = 3
QUICK_REGIONS = 5
UNTIMED = {
    "stages": False,
    "quick": False,
    "processes": None,
    "regions": None,
    "region_ms": DEFAULT.region_ms,
    "cpu": None,
    "no_counters": False,
    "no_sim": False,
}
"""The options that only time needs, as if they were not typed."""


def count(text: str) -> int:
    """A whole number with an optional k or M, which are decimal: ``1.5M`` is 1,500,000."""
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([kKmM]?)", text.strip())
    if match is not None:
        value = Decimal(match[1]) * SUFFIXES[match[2]]
        if value == int(value):
            return int(value)
    raise argparse.ArgumentTypeError(f"{text!r} is no number such as 500000, 64k or 1M")


def popularity(text: str) -> Popularity:
    """``uniform``, ``campus`` or ``zipf:S`` with an exponent S from 0 to 4."""
    kind, colon, exponent = text.partition(":")
    if kind in ("uniform", "campus") and not colon:
        return Popularity(kind="campus" if kind == "campus" else "uniform")
    if kind == "zipf":
        try:
            value = float(exponent)
        except ValueError:
            value = -1.0
        if 0 <= value <= MOST_EXPONENT:
            return Popularity(kind="zipf", exponent=value)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not uniform, campus or zipf:S with S from 0 to 4"
    )


def add_arguments(
    parser: argparse.ArgumentParser, *, layouts: bool = True, timed: bool = True
) -> None:
    """The options that describe one point.

    Without ``layouts`` the command names them in another way and sets ``layouts`` of the
    arguments; without ``timed`` it measures no time, and has no option of its processes.
    """
    point = parser.add_argument_group("the point")
    if layouts:
        point.add_argument(
            "--layout",
            action="append",
            dest="layouts",
            metavar="NAME|HEADER",
            help="a built-in layout or the path of a header; may be repeated (default: flat)",
        )
    point.add_argument(
        "--sessions",
        type=count,
        metavar="N",
        help="sessions in the table, such as 64k or 16M (default: 1M)",
    )
    point.add_argument(
        "--mode",
        choices=MODES,
        default=DEFAULT.mode,
        help="bulk: staged bursts; single: one lookup after the other; "
        "serial: each waits for the one before (default: bulk)",
    )
    point.add_argument(
        "--burst",
        type=count,
        default=DEFAULT.burst,
        metavar="N",
        help=f"lookups in a burst, 1 … {core.MAX_BURST} (default: 32)",
    )
    point.add_argument(
        "--session-prefetch",
        type=int,
        choices=(0, 1, 2),
        default=DEFAULT.session_prefetch,
        help="prefetch steps of the layout that bulk lookups use at most (default: 2)",
    )
    point.add_argument(
        "--pages",
        choices=PAGES,
        default=DEFAULT.pages,
        help="page size of tables and sessions (default: thp, transparent huge pages)",
    )
    point.add_argument(
        "--heap",
        choices=HEAPS,
        default=DEFAULT.heap,
        help="order in which sessions lie in memory (default: shuffled)",
    )
    point.add_argument(
        "--max-load",
        type=float,
        default=DEFAULT.max_load,
        metavar="SHARE",
        help="the table has the fewest buckets, a power of two, whose load is not above this "
        "(default: 0.96)",
    )
    point.add_argument(
        "--profiles",
        type=count,
        default=DEFAULT.profiles,
        metavar="N",
        help="QoS profiles that sessions share (default: 256)",
    )
    point.add_argument(
        "--rules",
        type=count,
        default=DEFAULT.rules,
        metavar="N",
        help="rules that sessions share (default: 4096)",
    )
    point.add_argument(
        "--key", type=int, choices=(16, 40), help="bytes of a key (default: 16; IPv6 needs 40)"
    )
    point.add_argument(
        "--seed",
        type=int,
        default=DEFAULT.seed,
        metavar="N",
        help="of the sessions' values, the packets and the order of the heap (default: 1)",
    )

    packets = parser.add_argument_group("traffic")
    packets.add_argument(
        "--popularity",
        type=popularity,
        metavar="uniform|zipf:S|campus",
        help="which session the next packet belongs to (default: uniform)",
    )
    packets.add_argument(
        "--hit-ratio",
        type=float,
        default=DEFAULT.hit_ratio,
        metavar="SHARE",
        help="share of packets whose session is in the table (default: 1)",
    )
    packets.add_argument(
        "--traffic",
        metavar="FILE",
        help="a pcap or pcapng file: its flows are the sessions, its packets the lookups",
    )
    packets.add_argument(
        "--scale-flows",
        type=count,
        metavar="K",
        help="K copies of each flow of the file, with addresses of their own",
    )

    running = parser.add_argument_group("running")
    if timed:
        _add_timed(running)
    else:
        parser.set_defaults(**UNTIMED)
    running.add_argument("--node", type=int, metavar="N", help="NUMA node to bind memory to")
    running.add_argument(
        "--march", metavar="CPU", help="compile all layouts here with -march=CPU, e.g. native"
    )
    running.add_argument(
        "--cflags",
        metavar="FLAGS",
        help="compile all layouts here with these flags too, typed as --cflags=-O3",
    )


def _add_timed(running: argparse._ArgumentGroup) -> None:
    running.add_argument(
        "--stages",
        action="store_true",
        help="also the time up to the end of a stage: hash, bucket (signatures compared), "
        "key (full key compared), session (the whole lookup)",
    )
    running.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_PROCESSES} processes of {QUICK_REGIONS} regions, no counters, no simulation",
    )
    running.add_argument(
        "--processes", type=count, metavar="N", help="processes for each layout (default: 5)"
    )
    running.add_argument(
        "--regions", type=count, metavar="N", help="timed regions in a process (default: 10)"
    )
    running.add_argument(
        "--region-ms",
        type=float,
        default=DEFAULT.region_ms,
        metavar="MS",
        help="least CPU time of a region, 15 … 100 (default: 15)",
    )
    running.add_argument("--cpu", type=int, metavar="N", help="CPU to pin the workers to")
    running.add_argument("--no-counters", action="store_true", help="do not use perf")
    running.add_argument(
        "--no-sim",
        action="store_true",
        help="no line trace, no instructions by valgrind, no machine card",
    )


def from_arguments(arguments: argparse.Namespace) -> Experiment:
    """The checked Experiment; raises CachebenchError with what to type instead."""
    for text in (*(arguments.layouts or ()), arguments.traffic or "", arguments.cflags or ""):
        _as_utf8(text)
    captured = _captured(arguments)
    sessions = arguments.sessions if arguments.sessions is not None else DEFAULT.sessions
    key_size = arguments.key or 16
    spread = arguments.popularity or Popularity()
    if captured is not None:
        sessions = captured.flows * captured.clones
        spread = Popularity(kind="capture")
        key_size = arguments.key or (40 if captured.ipv6_flows else 16)
        if key_size == 16 and captured.ipv6_flows:
            raise CachebenchError(
                f"--key 16: {captured.path} has {captured.ipv6_flows} IPv6 flows; type --key 40"
            )
    _within("--sessions", sessions, 1, MOST_SESSIONS)
    _within("--burst", arguments.burst, 1, core.MAX_BURST)
    _within("--profiles", arguments.profiles, 1, MOST_OBJECTS)
    _within("--rules", arguments.rules, 1, MOST_OBJECTS)
    _within("--hit-ratio", arguments.hit_ratio, 0, 1)
    _within("--max-load", arguments.max_load, 0.01, 1)
    _within("--seed", arguments.seed, 0, (1 << 53) - 1)
    _within("--region-ms", arguments.region_ms, DEFAULT.region_ms, MOST_REGION_MS)
    processes, regions = arguments.processes, arguments.regions
    if processes is None:
        processes = QUICK_PROCESSES if arguments.quick else DEFAULT.processes
    if regions is None:
        regions = QUICK_REGIONS if arguments.quick else DEFAULT.regions
    if arguments.node is not None:
        _within("--node", arguments.node, 0, MOST_NODES - 1)
    _within("--processes", processes, 1, 1000)
    _within("--regions", regions, 1, 1000)
    return Experiment(
        layouts=tuple(arguments.layouts or DEFAULT.layouts),
        sessions=sessions,
        mode=arguments.mode,
        burst=arguments.burst,
        session_prefetch=arguments.session_prefetch,
        pages=arguments.pages,
        heap=arguments.heap,
        popularity=spread,
        capture=captured,
        hit_ratio=arguments.hit_ratio,
        max_load=arguments.max_load,
        profiles=arguments.profiles,
        rules=arguments.rules,
        key_size=key_size,
        seed=arguments.seed,
        processes=processes,
        regions=regions,
        region_ms=arguments.region_ms,
        cpu=arguments.cpu,
        node=arguments.node,
        stages=arguments.stages,
        counters=not (arguments.no_counters or arguments.quick),
        simulate=not (arguments.no_sim or arguments.quick),
        march=arguments.march,
        cflags=tuple(_split(arguments.cflags or "")),
    )


def _within(option: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise CachebenchError(f"{option} {value}: type a number from {low} to {high}")


def _as_utf8(text: str) -> None:
    """Results are JSON, which has no bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CachebenchError(f"{text!a} is not UTF-8; rename it") from None


def _split(flags: str) -> list[str]:
    try:
        return shlex.split(flags)
    except ValueError as error:
        raise CachebenchError(f"--cflags {flags!r}: {error}") from None


def _captured(arguments: argparse.Namespace) -> Capture | None:
    """What the capture file holds; the packets before a fault are used."""
    path, clones = arguments.traffic, arguments.scale_flows
    if path is None:
        if clones is not None:
            raise CachebenchError(
                "--scale-flows copies the flows of a file; type --traffic FILE too"
            )
        return None
    for option, value in (
        ("--sessions", arguments.sessions),
        ("--popularity", arguments.popularity),
    ):
        if value is not None:
            raise CachebenchError(
                f"{option} is for synthetic traffic; a capture brings its own: "
                "type --scale-flows K for a larger table"
            )
    if not path:
        raise CachebenchError("--traffic '': type the path of a pcap or pcapng file")
    _within("--scale-flows", 1 if clones is None else clones, 1, 1 << 24)
    with core.capture(path) as file:
        if file.keyed == 0:
            fault = f": {_text(file.fault)}" if file.fault else ""
            what = f"none of its {file.packets} packets has a TCP, UDP or SCTP 5-tuple"
            raise CachebenchError(
                f"{path}: {what if file.packets else 'it holds no packet'}{fault}"
            )
        return Capture(
            path=path,
            sha256=core.file_digest(path),
            clones=clones or 1,
            packets=file.packets,
            keyed=file.keyed,
            flows=file.flow_count,
            ipv6_flows=sum(file.flows[i].family == 6 for i in range(file.flow_count)),
            fault=f"{_text(file.fault)} at byte {file.fault_offset}" if file.fault else None,
        )


def _text(pointer: core.Pointer) -> str:
    return str(ffi.string(pointer).decode())
