# SPDX-License-Identifier: BSD-3-Clause
"""The C core as the tests use it: plain functions around ``cachebench._core``.

Keys go in as one bytes-like object or as a list of bytes; numbers as lists or
as numpy arrays of the C type's width.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from model import Session

from cachebench._core import ffi, lib

KEY_SIZE = 16  # of the built-in kernels
MODES = {"bulk": lib.CB_BULK, "single": lib.CB_SINGLE, "serial": lib.CB_SERIAL}
POLICIES = (0, 1, 2)
PAGES = {
    "4k": lib.CB_PAGES_4K,
    "thp": lib.CB_PAGES_THP,
    "2m": lib.CB_PAGES_2M,
    "1g": lib.CB_PAGES_1G,
}
HEAPS = {
    "fresh": lib.CB_HEAP_FRESH,
    "shuffled": lib.CB_HEAP_SHUFFLED,
    "aged": lib.CB_HEAP_AGED,
}
POPULARITIES = {
    "uniform": lib.CB_UNIFORM,
    "zipf": lib.CB_ZIPF,
    "campus": lib.CB_CAMPUS,
    "capture": lib.CB_CAPTURE,
}
NO_SESSION = 2**64 - 1
NOBODY_LISTENS = (-1, -1)
WHY_BYTES = 400


class CoreError(Exception):
    """The line that the core gives for a failure."""


def _failure(why) -> CoreError:
    return CoreError(ffi.string(why).decode())


def _builtins() -> Iterator[str]:
    number = 0
    while (ops := lib.cb_builtin_at(number)) != ffi.NULL:
        yield ffi.string(ops.layout).decode()
        number += 1


LAYOUTS = tuple(_builtins())


def package_path(name: str) -> Path:
    """A file or folder that is installed with the package."""
    return Path(str(resources.files("cachebench").joinpath(name)))


def kernel(layout: str):
    ops = lib.cb_builtin(layout.encode())
    assert ops != ffi.NULL, layout
    return ops


def plugin(path: Path):
    why = ffi.new("char[]", WHY_BYTES)
    ops = lib.cb_plugin_open(str(path).encode(), why, WHY_BYTES)
    if ops == ffi.NULL:
        raise _failure(why)
    return ops


# Arms


def configuration(
    sessions: int,
    *,
    max_load: float = 0.96,
    profiles: int = 256,
    rules: int = 4096,
    pages: str = "4k",
    heap: str = "shuffled",
    node: int = -1,
    seed: int = 1,
    heap_seed: int = 1,
):
    return ffi.new(
        "struct cb_config *",
        {
            "sessions": sessions,
            "max_load": max_load,
            "profile_count": profiles,
            "rule_count": rules,
            "pages": PAGES[pages],
            "heap": HEAPS[heap],
            "node": node,
            "seed": seed,
            "heap_seed": heap_seed,
        },
    )


@contextmanager
def opened(ops, config):
    """An arm of a kernel, empty."""
    why = ffi.new("char[]", WHY_BYTES)
    arm = lib.cb_arm_open(ops, config, why, WHY_BYTES)
    if arm == ffi.NULL:
        raise _failure(why)
    try:
        yield arm
    finally:
        lib.cb_arm_close(arm)


@contextmanager
def opened_arm(layout: str, sessions: int, **options):
    """An arm of a built-in layout, empty; ``options`` are those of ``configuration``."""
    with opened(kernel(layout), configuration(sessions, **options)) as arm:
        yield arm


def _keys(keys):
    joined = b"".join(keys) if isinstance(keys, (list, tuple)) else keys
    return ffi.from_buffer("char[]", joined)


def _numbers(values, c_type: str, dtype):
    return ffi.from_buffer(f"{c_type}[]", np.ascontiguousarray(values, dtype))


def lookup(arm, keys, lengths, mode="bulk", policy=2, burst=32) -> None:
    lengths_c = _numbers(lengths, "uint16_t", np.uint16)
    keys_c = _keys(keys)
    assert len(keys_c) == len(lengths_c) * arm.ops.key_size
    stream = ffi.new("struct cb_stream *", {"keys": keys_c, "lengths": lengths_c})
    stream.count = len(lengths_c)
    arm.ops.lookup[MODES[mode]][policy](arm, stream, burst)


def create(arm, keys, ids, now: int = 0) -> int:
    ids_c = _numbers(ids, "uint64_t", np.uint64)
    return arm.ops.create(arm, _keys(keys), ids_c, len(ids_c), now)


def erase(arm, keys) -> int:
    keys_c = _keys(keys)
    return arm.ops.erase(arm, keys_c, len(keys_c) // arm.ops.key_size)


def expire(arm, cutoff: int) -> tuple[int, int]:
    expiry = arm.ops.expire(arm, cutoff)
    return expiry.expired, expiry.log


def reprofile(arm, profile: int, rate: int, burst: int) -> int:
    qos = ffi.new("struct cb_qos *", {"rate": rate, "burst": burst})
    return lib.cb_arm_reprofile(arm, profile, qos[0])


def digest(arm) -> int:
    return arm.ops.digest(arm)


def read(arm, key: bytes) -> Session | None:
    """The session under a key, as the layout gives it back."""
    s = ffi.new("struct cb_session *")
    if not arm.ops.read(arm, key, s):
        return None
    return Session(
        rate=s.qos.rate,
        burst=s.qos.burst,
        tokens=s.policer.tokens,
        tick=s.policer.tick,
        bytes=s.stats.bytes,
        packets=s.stats.packets,
        last_seen=s.stats.last_seen,
        address=s.action.address,
        next_hop=s.action.next_hop,
        port=s.action.port,
        flags=s.action.flags,
        rule=s.rule,
        created=s.cold.created,
        subscriber=s.cold.subscriber,
        profile=s.cold.profile,
        zone=s.cold.zone,
        tags=tuple(s.cold.tags),
    )


TABLE_STATS = (
    "entries",
    "primary",
    "lookups",
    "hits",
    "bucket_probes",
    "key_compares",
    "false_hits",
)


def count(arm, keys) -> dict[str, int]:
    keys_c = _keys(keys)
    stream = ffi.new("struct cb_stream *", {"keys": keys_c})
    stream.count = len(keys_c) // arm.ops.key_size
    stats = ffi.new("struct cb_table_stats *")
    arm.ops.count(arm, stream, stats)
    return {name: getattr(stats, name) for name in TABLE_STATS}


# Arenas


@dataclass(frozen=True)
class Arena:
    name: str
    start: int
    bytes: int

    @property
    def memory(self):
        """The mapped bytes themselves."""
        return ffi.buffer(ffi.cast("char *", self.start), self.bytes)


def arenas(arm) -> list[Arena]:
    found = []
    name = ffi.new("const char **")
    start, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    while lib.cb_arm_arena(arm, len(found), name, start, size):
        found.append(Arena(ffi.string(name[0]).decode(), start[0], size[0]))
    return found


def arena(arm, name: str) -> Arena:
    (one,) = [arena for arena in arenas(arm) if arena.name == name]
    return one


BUCKET = np.dtype(
    {
        "names": ["signature", "entry", "rest"],
        "formats": [("<u2", 8), ("<u4", 8), ("u1", 16)],
        "offsets": [0, 16, 48],
        "itemsize": 64,
    }
)


def buckets(arm) -> np.ndarray:
    """The table's buckets as they are in memory; not a copy."""
    number = arm.table.bucket_bitmask + 1
    return np.frombuffer(arena(arm, "bucket").memory, BUCKET, number)


def key_entries(arm, key_offset: int = 8) -> np.ndarray:
    """The key entries, entry 0 included, each with its first word and its ``key``.

    The key lies behind the slot, whose size is 8 bytes save in ``embedded``.
    """
    entry = np.dtype(
        {
            "names": ["slot", "key"],
            "formats": ["<u8", ("u1", KEY_SIZE)],
            "offsets": [0, key_offset],
            "itemsize": arm.ops.table_arenas[1].stride,
        }
    )
    return np.frombuffer(arena(arm, "key").memory, entry, arm.table.capacity + 1)


def free_entries(arm) -> np.ndarray:
    return np.frombuffer(arena(arm, "free_slots").memory, "<u4", arm.table.free_count)


# Traffic


def traffic_configuration(
    sessions: int,
    *,
    seed: int = 1,
    key_size: int = KEY_SIZE,
    popularity: str = "uniform",
    exponent: float = 1.0,
    hit_ratio: float = 1.0,
    capture=ffi.NULL,
    clones: int = 1,
):
    return ffi.new(
        "struct cb_traffic_config *",
        {
            "seed": seed,
            "sessions": sessions,
            "key_size": key_size,
            "popularity": POPULARITIES[popularity],
            "exponent": exponent,
            "hit_ratio": hit_ratio,
            "capture": capture,
            "clones": clones,
        },
    )


@contextmanager
def opened_traffic(sessions: int, **options):
    why = ffi.new("char[]", WHY_BYTES)
    config = traffic_configuration(sessions, **options)
    traffic = lib.cb_traffic_open(config, why, WHY_BYTES)
    if traffic == ffi.NULL:
        raise _failure(why)
    try:
        yield traffic
    finally:
        lib.cb_traffic_close(traffic)


@contextmanager
def opened_capture(path: Path):
    capture = ffi.new("struct cb_capture *")
    why = ffi.new("char[]", WHY_BYTES)
    if lib.cb_capture_read(str(path).encode(), capture, why, WHY_BYTES) != 0:
        raise _failure(why)
    try:
        yield capture
    finally:
        lib.cb_capture_free(capture)


def keys_of(traffic, ids, key_size: int = KEY_SIZE) -> np.ndarray:
    """The keys of sessions, one row of bytes each."""
    ids_c = _numbers(ids, "uint64_t", np.uint64)
    keys = np.empty((len(ids_c), key_size), np.uint8)
    lib.cb_traffic_keys(traffic, ids_c, len(ids_c), ffi.from_buffer("char[]", keys))
    return keys


@dataclass(frozen=True)
class Packets:
    keys: np.ndarray  # one row of bytes each
    lengths: np.ndarray
    ids: np.ndarray


def draw(traffic, count: int, key_size: int = KEY_SIZE) -> Packets:
    keys = np.empty((count, key_size), np.uint8)
    lengths, ids = np.empty(count, np.uint16), np.empty(count, np.uint64)
    lib.cb_traffic_draw(
        traffic,
        count,
        ffi.from_buffer("char[]", keys),
        ffi.from_buffer("uint16_t[]", lengths),
        ffi.from_buffer("uint64_t[]", ids),
    )
    return Packets(keys, lengths, ids)


def restart(traffic, stream: int) -> None:
    lib.cb_traffic_restart(traffic, stream)


def rows(keys: np.ndarray) -> list[bytes]:
    """Keys as a list of bytes."""
    joined, size = keys.tobytes(), keys.shape[1]
    return [joined[i : i + size] for i in range(0, len(joined), size)]


# Filling, proving, measuring


def fill(arm, traffic, sessions: int, *, aged: bool = False, seed: int = 1) -> int:
    return lib.cb_fill(arm, traffic, sessions, aged, seed, ffi.new("uint64_t *"))


def prove(arm, traffic, sessions: int, mode="bulk", policy=2, burst=32) -> int:
    why = ffi.new("char[]", WHY_BYTES)
    proof = ffi.new("struct cb_proof *")
    if lib.cb_prove(arm, traffic, sessions, MODES[mode], policy, burst, proof, why, WHY_BYTES) != 0:
        raise _failure(why)
    return proof.checksum


def reference(traffic, config, key_size: int = KEY_SIZE) -> int:
    why = ffi.new("char[]", WHY_BYTES)
    checksum = ffi.new("uint64_t *")
    if lib.cb_reference(traffic, config, key_size, checksum, why, WHY_BYTES) != 0:
        raise _failure(why)
    return checksum[0]


def step(count: int, *, arm=0, mode="bulk", policy=2, burst=32, lead_in=0, latency=False) -> dict:
    return {
        "arm": arm,
        "mode": MODES[mode],
        "policy": policy,
        "burst": burst,
        "count": count,
        "lead_in": lead_in,
        "latency": latency,
    }


@dataclass(frozen=True)
class Measured:
    samples: list[dict[str, int]]
    histogram: np.ndarray


SAMPLE = (
    "arm",
    "lookups",
    "hits",
    "cpu_ns",
    "wall_ns",
    "tsc",
    "minor_faults",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
)


def measure(arms: Sequence, traffic, steps: Sequence[dict], control=NOBODY_LISTENS) -> Measured:
    why = ffi.new("char[]", WHY_BYTES)
    samples = ffi.new("struct cb_sample[]", len(steps))
    histogram = ffi.new("struct cb_histogram *")
    status = lib.cb_measure(
        ffi.new("struct cb_arm *[]", list(arms)),
        traffic,
        arms[0].ops.key_size,
        ffi.new("struct cb_step[]", list(steps)),
        len(steps),
        samples,
        histogram,
        ffi.new("struct cb_control *", control)[0],
        why,
        WHY_BYTES,
    )
    if status != 0:
        raise _failure(why)
    return Measured(
        [{name: getattr(sample, name) for name in SAMPLE} for sample in samples],
        np.array(list(histogram.count), np.uint64),
    )


# What the kernel says of memory


def smaps(start: int) -> dict[str, int]:
    """The numbers of the mapping that begins at an address, in bytes where they are sizes.

    ``end`` is where the mapping ends.
    """
    found: dict[str, int] = {}
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if border := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            if found:
                break
            if int(border[1], 16) == start:
                found["end"] = int(border[2], 16)
        elif found and (entry := re.match(r"(\w+): +(\d+)( kB)?$", line)):
            found[entry[1]] = int(entry[2]) * (1024 if entry[3] else 1)
    assert found, f"no mapping begins at {start:#x}"
    return found
