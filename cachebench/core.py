# SPDX-License-Identifier: BSD-3-Clause
"""The C core as Python objects: captures, traffic, arms.

Everything here runs in this process. A failure of the core is a CachebenchError
with the core's own line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cachebench._core import ffi, lib
from cachebench.errors import CachebenchError
from cachebench.model import Experiment

Pointer = Any
"""A cffi object; the extension has no types of its own."""

MODE = {"bulk": lib.CB_BULK, "single": lib.CB_SINGLE, "serial": lib.CB_SERIAL}
_PAGES = {
    "4k": lib.CB_PAGES_4K,
    "thp": lib.CB_PAGES_THP,
    "2m": lib.CB_PAGES_2M,
    "1g": lib.CB_PAGES_1G,
}
_HEAP = {
    "fresh": lib.CB_HEAP_FRESH,
    "shuffled": lib.CB_HEAP_SHUFFLED,
    "aged": lib.CB_HEAP_AGED,
}
_POPULARITY = {
    "uniform": lib.CB_UNIFORM,
    "zipf": lib.CB_ZIPF,
    "campus": lib.CB_CAMPUS,
    "capture": lib.CB_CAPTURE,
}
MAX_BURST: int = lib.CB_MAX_BURST
_WHY_SIZE = 1024


class Why:
    """The buffer that a core function writes its reason into."""

    def __init__(self) -> None:
        self.buffer = ffi.new("char[]", _WHY_SIZE)
        self.size = _WHY_SIZE

    def error(self, what: str = "") -> CachebenchError:
        text = ffi.string(self.buffer).decode(errors="replace")
        return CachebenchError(f"{what}: {text}" if what else text)


def config(experiment: Experiment, heap_seed: int = 0) -> Pointer:
    """The core's configuration of an arm."""
    return ffi.new(
        "struct cb_config *",
        {
            "sessions": experiment.sessions,
            "max_load": experiment.max_load,
            "profile_count": experiment.profiles,
            "rule_count": experiment.rules,
            "pages": _PAGES[experiment.pages],
            "heap": _HEAP[experiment.heap],
            "node": -1 if experiment.node is None else experiment.node,
            "seed": experiment.seed,
            "heap_seed": heap_seed,
        },
    )


@contextmanager
def capture(path: str) -> Iterator[Pointer]:
    """Reads a capture file; what stopped it before its end is in ``fault``."""
    out = ffi.new("struct cb_capture *")
    why = Why()
    if lib.cb_capture_read(path.encode(errors="surrogateescape"), out, why.buffer, why.size) != 0:
        raise why.error(path)
    try:
        yield out
    finally:
        lib.cb_capture_free(out)


def file_digest(path: str) -> str:
    """SHA-256 of a file, a piece at a time."""
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise CachebenchError(f"cannot read {path}: {error.strerror}") from None
    return digest.hexdigest()


def _traffic_config(experiment: Experiment, captured: Pointer | None) -> Pointer:
    return ffi.new(
        "struct cb_traffic_config *",
        {
            "seed": experiment.seed,
            "sessions": experiment.sessions,
            "key_size": experiment.key_size,
            "popularity": _POPULARITY[experiment.popularity.kind],
            "exponent": experiment.popularity.exponent or 0.0,
            "hit_ratio": experiment.hit_ratio,
            "capture": captured or ffi.NULL,
            "clones": experiment.capture.clones if experiment.capture else 1,
        },
    )


@contextmanager
def traffic(experiment: Experiment) -> Iterator[Pointer]:
    """The experiment's packets, its capture file read anew if it has one."""
    if experiment.capture is None:
        yield from _opened_traffic(experiment, None)
    else:
        with capture(experiment.capture.path) as captured:
            if file_digest(experiment.capture.path) != experiment.capture.sha256:
                raise CachebenchError(
                    f"{experiment.capture.path} changed while it was used; run again"
                )
            yield from _opened_traffic(experiment, captured)


def _opened_traffic(experiment: Experiment, captured: Pointer | None) -> Iterator[Pointer]:
    why = Why()
    opened = lib.cb_traffic_open(_traffic_config(experiment, captured), why.buffer, why.size)
    if opened == ffi.NULL:
        raise why.error()
    try:
        yield opened
    finally:
        lib.cb_traffic_close(opened)


@contextmanager
def arm(ops: Pointer, experiment: Experiment, heap_seed: int) -> Iterator[Pointer]:
    """An arm with an empty table, all its memory mapped."""
    why = Why()
    opened = lib.cb_arm_open(ops, config(experiment, heap_seed), why.buffer, why.size)
    if opened == ffi.NULL:
        raise why.error()
    try:
        yield opened
    finally:
        lib.cb_arm_close(opened)


def fill(arm: Pointer, traffic: Pointer, experiment: Experiment, heap_seed: int) -> int:
    """Creates all sessions; CPU time in ns that the creations took.

    Raises CachebenchError if the table is full before, or if two have one key.
    """
    cpu_ns = ffi.new("uint64_t *")
    sessions = experiment.sessions
    created = lib.cb_fill(arm, traffic, sessions, experiment.heap == "aged", heap_seed, cpu_ns)
    if created < sessions:
        raise CachebenchError(
            f"the table took {created} of {sessions} sessions; type a smaller --max-load"
        )
    if arm.table.entries < sessions:
        raise CachebenchError(
            f"{sessions - arm.table.entries} sessions share a key with another; type another --seed"
        )
    return int(cpu_ns[0])


def footprint(ops: Pointer, experiment: Experiment) -> Pointer:
    """Bytes that an arm of the experiment will take, computed by the core."""
    return lib.cb_footprint(ops, config(experiment))


def traffic_bytes(experiment: Experiment) -> int:
    """Bytes that the experiment's traffic will take beside the arm, computed."""
    return int(lib.cb_traffic_bytes(_traffic_config(experiment, None)))


def reference_checksum(experiment: Experiment) -> str:
    """The checksum that every correct layout has at this experiment's seed."""
    why = Why()
    checksum = ffi.new("uint64_t *")
    with traffic(experiment) as packets:
        failed = lib.cb_reference(
            packets, config(experiment), experiment.key_size, checksum, why.buffer, why.size
        )
    if failed:
        raise why.error()
    return format_checksum(checksum[0])


def format_checksum(checksum: int) -> str:
    return f"{checksum:016x}"


def compiler() -> str:
    """What compiled the built-in kernels, and with which flags."""
    return str(ffi.string(lib.cb_compiler()).decode())
