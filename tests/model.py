# SPDX-License-Identifier: BSD-3-Clause
"""A plain model of the session and its packet: a dict from key to values.

Written from the description in ``csrc/session.h``. There is no table here and no
layout: whatever those do, they must end where this ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

MASK32 = 0xFFFFFFFF
MASK64 = 0xFFFFFFFFFFFFFFFF

PACKETS_PER_TICK = 16
MISS_WORD = 0x6D697373
ORDER_PRIME = 0x9E3779B97F4A7C15


def _crc32c_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


CRC32C_TABLE = _crc32c_table()


def crc32c_update(crc: int, data: bytes) -> int:
    for byte in data:
        crc = crc >> 8 ^ CRC32C_TABLE[(crc ^ byte) & 0xFF]
    return crc


def crc32c(data: bytes) -> int:
    """The CRC as published: all ones before, inverted after."""
    return crc32c_update(MASK32, data) ^ MASK32


def key_hash(key: bytes) -> int:
    """The table's hash: the bare register, zero before, as it is after."""
    return crc32c_update(0, key)


def keys_of_equal_hash(count: int, seed="equal") -> list[bytes]:
    """The hash of two keys is equal if that of their XOR is zero, and appending the
    register itself makes it so."""
    random = Random(seed)
    first = random.randbytes(16)
    found = {first: None}
    while len(found) < count:
        head = random.randbytes(12)
        difference = head + key_hash(head).to_bytes(4, "little")
        found[bytes(a ^ b for a, b in zip(first, difference, strict=True))] = None
    assert {key_hash(key) for key in found} == {key_hash(first)}
    return list(found)


def key_of_hash(hash_value: int) -> bytes:
    """A key whose hash is any given one: the last four bytes can make it so."""
    head = b"made to hash"
    tail = _preimage_of_four_bytes(hash_value) ^ key_hash(head)
    key = head + tail.to_bytes(4, "little")
    assert key_hash(key) == hash_value
    return key


def _preimage_of_four_bytes(hash_value: int) -> int:
    """The register before four zero bytes that leave ``hash_value``: run backwards."""
    crc = hash_value
    for _ in range(32):
        crc = (crc ^ 0x82F63B78) << 1 | 1 if crc & 0x80000000 else crc << 1
    return crc


def mix(x: int) -> int:
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK64
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK64
    return x ^ x >> 31


def ordered(total: int, word: int) -> int:
    return (total * ORDER_PRIME + word) & MASK64


def below(h: int, bound: int) -> int:
    return (h & MASK32) * bound >> 32


def tick(packet_number: int) -> int:
    return packet_number // PACKETS_PER_TICK & MASK32


@dataclass
class Session:
    """The full state. ``rate`` and ``burst`` are those of the profile as it is now."""

    rate: int
    burst: int
    tokens: int
    tick: int
    bytes: int
    packets: int
    last_seen: int
    address: int
    next_hop: int
    port: int
    flags: int
    rule: int
    created: int
    subscriber: int
    profile: int
    zone: int
    tags: tuple[int, ...]

    def police(self, length: int, now: int) -> bool:
        filled = self.tokens + self.rate * ((now - self.tick) & MASK32)
        self.tokens = min(filled, self.burst)
        self.tick = now
        conforms = self.tokens >= length
        if conforms:
            self.tokens -= length
        return conforms

    def count(self, length: int, now: int) -> None:
        self.bytes = (self.bytes + length) & MASK64
        self.packets = (self.packets + 1) & MASK32
        self.last_seen = now

    def rewrite(self, mark: int, conforms: bool) -> int:
        word = self.next_hop << 32 | self.address
        word ^= self.port << 40 | self.flags << 8
        word = word + (mark << 16) & MASK64
        return word ^ conforms << 63

    def cold_digest(self) -> int:
        total = ordered(self.created, self.subscriber)
        total = ordered(total, self.profile << 32 | self.zone)
        for tag in self.tags:
            total = ordered(total, tag)
        return mix(total)

    def digest(self, key: bytes) -> int:
        total = key_hash(key)
        for word in (
            self.rate << 32 | self.burst,
            self.tokens << 32 | self.tick,
            self.bytes,
            self.packets << 32 | self.last_seen,
            self.address << 32 | self.next_hop,
            self.port << 48 | self.flags << 32 | self.rule,
            self.cold_digest(),
        ):
            total = ordered(total, word)
        return mix(total)


@dataclass
class Model:
    seed: int
    profile_count: int
    rule_count: int
    sessions: dict[bytes, Session] = field(default_factory=dict)
    packets: int = 0
    hits: int = 0
    checksum: int = 0

    def __post_init__(self) -> None:
        self.profiles = [self._first_profile(number) for number in range(self.profile_count)]

    def _first_profile(self, number: int) -> tuple[int, int]:
        h = mix(self.seed ^ 0x716F73 ^ number << 32)
        return 1 + (h & 63), 2048 + (h >> 8 & 0xFFFF)

    def mark(self, rule: int) -> int:
        return mix(self.seed ^ 0x72756C65 ^ rule << 32) & MASK32

    def make(self, number: int, now: int) -> Session:
        h = mix((self.seed + number * ORDER_PRIME) & MASK64)
        g = mix((h + 1) & MASK64)
        profile = below(h, self.profile_count)
        rate, burst = self.profiles[profile]
        return Session(
            rate=rate,
            burst=burst,
            tokens=burst,
            tick=now,
            bytes=0,
            packets=0,
            last_seen=now,
            address=g & MASK32,
            next_hop=g >> 32,
            port=h >> 32 & 0xFFFF,
            flags=h >> 48,
            rule=below(g, self.rule_count),
            created=now,
            subscriber=number,
            profile=profile,
            zone=h >> 40,
            tags=tuple(h ^ (g << (i + 1) & MASK64) for i in range(9)),
        )

    def create(self, keys: Iterable[bytes], numbers: Iterable[int], now: int) -> None:
        for key, number in zip(keys, numbers, strict=True):
            self.sessions[key] = self.make(number, now)

    def erase(self, keys: Iterable[bytes]) -> int:
        return sum(self.sessions.pop(key, None) is not None for key in keys)

    def lookup(self, keys: Sequence[bytes], lengths: Sequence[int]) -> None:
        for key, length in zip(keys, lengths, strict=True):
            now = tick(self.packets)
            session = self.sessions.get(key)
            word = MISS_WORD
            if session is not None:
                conforms = session.police(length, now)
                session.count(length, now)
                word = session.rewrite(self.mark(session.rule), conforms)
                self.hits += 1
            self.checksum = ordered(self.checksum, word)
            self.packets += 1

    def expire(self, cutoff: int) -> tuple[int, int]:
        """How many sessions were last seen before ``cutoff``, and the sum of their log."""
        old = [key for key, session in self.sessions.items() if session.last_seen < cutoff]
        return len(old), sum(self.sessions.pop(key).cold_digest() for key in old) & MASK64

    def reprofile(self, profile: int, rate: int, burst: int) -> int:
        """Changes a profile; returns how many sessions have it."""
        self.profiles[profile] = rate, burst
        theirs = [s for s in self.sessions.values() if s.profile == profile]
        for session in theirs:
            session.rate, session.burst = rate, burst
        return len(theirs)

    def digest(self) -> int:
        return sum(session.digest(key) for key, session in self.sessions.items()) & MASK64


class Permutation:
    """The permutation of 0 … n-1 that ``csrc/permute.h`` describes."""

    def __init__(self, n: int, seed: int) -> None:
        bits = 1
        while 1 << bits < n:
            bits += 1
        self.n = n
        self.mask = (1 << bits) - 1
        self.shift = (bits + 1) // 2
        seed = mix(seed)
        words = [mix((seed + i) & MASK64) for i in range(1, 7)]
        self.rounds = [(words[i] | 1, words[i + 1]) for i in (0, 2, 4)]

    def __getitem__(self, x: int) -> int:
        while True:
            for multiplier, addend in self.rounds:
                x ^= x >> self.shift
                x = (x * multiplier + addend) & self.mask
            x ^= x >> self.shift
            if x < self.n:
                return x
