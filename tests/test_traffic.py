# SPDX-License-Identifier: BSD-3-Clause
"""Whose packets come, and how often, held to the distributions that are meant.

Seeds are fixed, so that a test passes always or never. A chi-square test fails
if a sample is less likely than one in ten thousand.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path

import core
import numpy as np
import pytest
from model import Permutation
from scipy import stats

SIGNIFICANCE = 1e-4


def check_frequencies(counts: np.ndarray, probabilities: np.ndarray) -> None:
    """Counts of independent draws against the probabilities of each outcome; from
    outcomes that are expected fewer than 20 times, one is made."""
    expected = np.asarray(probabilities, float) * counts.sum()
    rare = expected < 20
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    assert stats.chisquare(counts, expected).pvalue > SIGNIFICANCE


def session_counts(traffic, sessions: int, draws: int) -> np.ndarray:
    counts = np.zeros(sessions, np.int64)
    for start in range(0, draws, 1_000_000):
        ids = core.draw(traffic, min(1_000_000, draws - start)).ids
        counts += np.bincount(ids.astype(np.int64), minlength=sessions)
    return counts


# Popularity


@pytest.mark.parametrize("sessions", [1, 2, 3, 1000, 4096, 99_991])
@pytest.mark.parametrize("seed", [1, 2])
def test_uniform_gives_each_session_the_same_chance(sessions, seed):
    with core.opened_traffic(sessions, seed=seed) as traffic:
        counts = session_counts(traffic, sessions, 3_000_000)
    assert len(counts) == sessions
    if sessions > 1:
        check_frequencies(counts, np.full(sessions, 1 / sessions))


def test_uniform_draws_of_one_session_do_not_depend_on_the_one_before():
    with core.opened_traffic(8) as traffic:
        ids = core.draw(traffic, 1_000_000).ids.astype(np.int64)
    pairs = np.bincount(ids[:-1] * 8 + ids[1:], minlength=64)
    check_frequencies(pairs, np.full(64, 1 / 64))


def zipf(sessions: int, exponent: float) -> np.ndarray:
    weights = np.arange(1, sessions + 1, dtype=float) ** -exponent
    return weights / weights.sum()


@pytest.mark.parametrize("exponent", [0.0, 0.5, 0.99, 1.0, 1.000001, 1.4, 4.0])
@pytest.mark.parametrize("sessions", [1, 2, 3, 10, 1000])
def test_zipf_gives_each_rank_its_closed_form_share(sessions, exponent):
    with core.opened_traffic(sessions, seed=6, popularity="zipf", exponent=exponent) as traffic:
        counts = session_counts(traffic, sessions, 1_000_000)
    rank_to_session = Permutation(sessions, 6 + 1)
    by_rank = counts[[rank_to_session[rank] for rank in range(sessions)]]
    if sessions > 1:
        check_frequencies(by_rank, zipf(sessions, exponent))


@pytest.mark.parametrize("exponent", [0.0, 0.99, 1.4])
def test_zipf_over_a_million_sessions_has_its_share_in_each_range_of_ranks(exponent):
    """Without the order of the ranks: the sessions that were drawn often must be as
    many, and have as many draws, as the closed form says."""
    sessions, draws = 1_000_000, 4_000_000
    with core.opened_traffic(sessions, popularity="zipf", exponent=exponent) as traffic:
        counts = session_counts(traffic, sessions, draws)
    expected = zipf(sessions, exponent) * draws
    levels = np.unique(np.geomspace(1, expected.max() * 2, 12).astype(int))
    found = np.histogram(counts, [0, *levels, draws + 1])[0]
    below = [stats.poisson.cdf(level - 1, expected) for level in levels]
    edges = np.array([np.zeros(sessions), *below, np.ones(sessions)])
    share = np.diff(edges, axis=0)
    mean, deviation = share.sum(axis=1), np.sqrt((share * (1 - share)).sum(axis=1))
    assert (np.abs(found - mean) <= 5 * deviation + 1).all()


def test_popular_sessions_of_zipf_are_not_the_first_ones():
    with core.opened_traffic(100_000, popularity="zipf", exponent=1.2) as traffic:
        counts = session_counts(traffic, 100_000, 500_000)
    top = np.sort(np.argsort(counts)[-100:])
    assert 30_000 < top.mean() < 70_000
    assert (np.diff(top) > 1).mean() > 0.9


# Flow lengths of the campus: share of flows up to each length, and the mixture.

CAMPUS_FLOWS = {
    1: 0.4783,
    2: 0.6534,
    4: 0.7489,
    8: 0.8413,
    16: 0.9058,
    64: 0.9646,
    256: 0.9859,
    1024: 0.9946,
    16384: 0.9992,
    131072: 0.99993,
}
CAMPUS_UNIFORM = {1: 0.305, 2: 0.248, 3: 0.064, 4: 0.049, 5: 0.009, 6: 0.082}
CAMPUS_LOGNORMAL = [
    (0.131, 0.521, 7.81),
    (0.073, 0.770, 22.1),
    (0.029, 1.125, 128.6),
    (0.0083, 1.984, 1084.5),
]


def campus_cdf(length) -> np.ndarray:
    """Share of flows of at most ``length`` packets in the mixture."""
    length = np.asarray(length, float)
    uniform = [w * np.minimum(length / high, 1) for high, w in CAMPUS_UNIFORM.items()]
    lognormal = [w * stats.lognorm.cdf(length, s, scale=scale) for w, s, scale in CAMPUS_LOGNORMAL]
    total = sum(CAMPUS_UNIFORM.values()) + sum(w for w, _, _ in CAMPUS_LOGNORMAL)
    return sum(uniform + lognormal) / total


CAMPUS_SESSIONS = 40_000


@pytest.fixture(scope="module")
def campus_counts() -> np.ndarray:
    """Draws of each session: its length times one factor, and the noise of drawing."""
    with core.opened_traffic(CAMPUS_SESSIONS, seed=8, popularity="campus") as traffic:
        return session_counts(traffic, CAMPUS_SESSIONS, 120_000_000)


def draws_of_one_packet(counts: np.ndarray) -> float:
    """The factor: mean draws of the flows of length 1, nearly half of all."""
    factor = float(np.median(np.sort(counts)[: int(0.47 * len(counts))]))
    for _ in range(50):
        factor = float(counts[(counts > factor / 2) & (counts < factor * 1.5)].mean())
    return factor


def test_the_campus_mixture_reproduces_the_published_table():
    for length, share in CAMPUS_FLOWS.items():
        assert campus_cdf(length) == pytest.approx(share, abs=0.01), length


def test_campus_has_the_published_share_of_flows_up_to_each_length(campus_counts):
    factor = draws_of_one_packet(campus_counts)
    assert factor > 10, "too few draws to tell lengths 1 and 2 apart"
    for length, published in CAMPUS_FLOWS.items():
        # Flows near the border fall on its other side as often as draws scatter.
        near = np.arange(1, 4 * length + 50)
        weight = np.diff(campus_cdf(np.arange(4 * length + 50)))
        border = (length + 0.5) * factor
        expected = float(np.sum(weight * stats.poisson.cdf(border, near * factor)))
        found = float(np.mean(campus_counts <= border))
        tolerance = 4 * np.sqrt(expected * (1 - expected) / CAMPUS_SESSIONS)
        assert abs(found - expected) < tolerance + 1e-4, length
        assert abs(found - published) < tolerance + 0.012, length


def test_campus_has_each_short_length_as_often_as_the_mixture(campus_counts):
    factor = draws_of_one_packet(campus_counts)
    lengths = np.arange(1, 100)
    weight = np.diff(campus_cdf(np.arange(100)))
    borders = (np.arange(13) + 0.5) * factor
    up_to = [float(np.sum(weight * stats.poisson.cdf(b, lengths * factor))) for b in borders]
    found = np.searchsorted(borders, campus_counts)
    check_frequencies(np.bincount(found, minlength=14), np.diff([0, *up_to, 1]))


def test_campus_concentrates_packets_in_few_flows(campus_counts):
    """Published: 89 % of packets in the top 1 % of flows, 97 % in the top 10 %."""
    most = np.sort(campus_counts)[::-1]
    share = np.cumsum(most) / most.sum()
    assert share[CAMPUS_SESSIONS // 100] == pytest.approx(0.89, abs=0.05)
    assert share[CAMPUS_SESSIONS // 10] == pytest.approx(0.97, abs=0.02)


def test_every_campus_session_can_be_drawn(campus_counts):
    assert campus_counts.min() > 0


@pytest.mark.parametrize("popularity", ["uniform", "zipf", "campus"])
def test_lengths_are_an_imix_that_does_not_depend_on_the_session(popularity):
    with core.opened_traffic(4, popularity=popularity) as traffic:
        packets = core.draw(traffic, 600_000)
    kind = np.searchsorted([60, 590, 1514], packets.lengths)
    assert set(packets.lengths) == {60, 590, 1514}
    check_frequencies(np.bincount(kind), np.array([7, 4, 1]) / 12)
    table = np.bincount(packets.ids.astype(np.int64) * 3 + kind, minlength=12).reshape(4, 3)
    assert stats.chi2_contingency(table).pvalue > SIGNIFICANCE


# Hits and misses


@pytest.mark.parametrize("popularity", ["uniform", "zipf", "campus"])
@pytest.mark.parametrize("hit_ratio", [0.0, 0.01, 0.5, 0.999, 1.0])
def test_the_hit_ratio_is_the_one_asked_for(popularity, hit_ratio):
    n = 400_000
    with core.opened_traffic(5000, popularity=popularity, hit_ratio=hit_ratio) as traffic:
        ids = core.draw(traffic, n).ids
    hits = int(np.sum(ids != np.uint64(core.NO_SESSION)))
    tolerance = 5 * np.sqrt(n * hit_ratio * (1 - hit_ratio))
    assert abs(hits - n * hit_ratio) <= tolerance


@pytest.mark.parametrize("key_size", [16, 40])
def test_a_packet_has_the_key_of_its_session_and_a_miss_that_of_none(key_size):
    n = 3000
    with core.opened_traffic(n, hit_ratio=0.5, key_size=key_size) as traffic:
        session_keys = core.rows(core.keys_of(traffic, range(n), key_size))
        packets = core.draw(traffic, 50_000, key_size)
    missed = packets.ids == np.uint64(core.NO_SESSION)
    hits = packets.ids[~missed].tolist()
    assert core.rows(packets.keys[~missed]) == [session_keys[number] for number in hits]
    assert not set(core.rows(packets.keys[missed])) & set(session_keys)
    assert missed.sum() > 20_000


# Restarts


@pytest.mark.parametrize("popularity", ["uniform", "zipf", "campus"])
def test_a_restart_number_gives_its_packets_again_and_others_give_others(popularity):
    seen = {}
    with core.opened_traffic(100_000, popularity=popularity, hit_ratio=0.7) as traffic:
        for stream in [0, 1, 2, 2**64 - 1, 0, 2, 1, 2**64 - 1]:
            core.restart(traffic, stream)
            packets = core.draw(traffic, 3000)
            contents = (packets.keys.tobytes(), packets.lengths.tobytes(), packets.ids.tobytes())
            assert seen.setdefault(stream, contents) == contents
    assert len(set(seen.values())) == 4


@pytest.mark.parametrize("popularity", ["uniform", "zipf", "campus"])
def test_it_does_not_matter_in_how_many_pieces_packets_are_drawn(popularity):
    with core.opened_traffic(1000, popularity=popularity, hit_ratio=0.5) as traffic:
        whole = core.draw(traffic, 1000)
        core.restart(traffic, 0)
        pieces = [core.draw(traffic, n) for n in (1, 7, 0, 992)]
    for name in ("keys", "lengths", "ids"):
        joined = np.concatenate([getattr(piece, name) for piece in pieces])
        assert np.array_equal(joined, getattr(whole, name)), name


def test_without_a_restart_the_packets_are_new():
    with core.opened_traffic(10**6) as traffic:
        first, second = core.draw(traffic, 1000), core.draw(traffic, 1000)
    assert np.mean(first.ids == second.ids) < 0.01


def test_another_seed_gives_other_keys_and_other_packets():
    drawn, keys = set(), set()
    for seed in range(5):
        with core.opened_traffic(1000, seed=seed) as traffic:
            drawn.add(core.draw(traffic, 100).ids.tobytes())
            keys.update(core.rows(core.keys_of(traffic, range(1000))))
    assert len(drawn) == 5
    assert len(keys) == 5000


# Keys


@pytest.mark.parametrize("key_size", [16, 40])
def test_the_keys_of_a_million_sessions_and_of_their_misses_are_distinct(key_size):
    sessions = 1_000_000
    with core.opened_traffic(sessions, key_size=key_size) as traffic:
        keys = core.keys_of(traffic, np.arange(2 * sessions), key_size)
    in_order = np.sort(keys.view(f"S{key_size}").ravel())
    assert (in_order[1:] != in_order[:-1]).all()


def test_a_synthetic_key_is_an_ipv4_tuple_in_either_size():
    with core.opened_traffic(500) as small, core.opened_traffic(500, key_size=40) as large:
        keys16 = core.rows(core.keys_of(small, range(500)))
        keys40 = core.rows(core.keys_of(large, range(500), 40))
    protocols = set()
    for key16, key40 in zip(keys16, keys40, strict=True):
        source, destination, ports, protocol, zero = struct.unpack("4s4s4sB3s", key16)
        assert key40 == struct.pack("16s16s4sBB2x", source, destination, ports, protocol, 4)
        assert zero == bytes(3)
        protocols.add(protocol)
    assert protocols == {6, 17}


# Captures

UDP = 17


def packet(source: str, destination: str, ports: tuple[int, int], size: int) -> bytes:
    """An IP packet with a UDP header, ``size`` bytes in all."""
    a, b = ip_address(source), ip_address(destination)
    if a.version == 4:
        header = struct.pack("!BBHHHBBH", 0x45, 0, size, 1, 0, 64, UDP, 0)
    else:
        header = struct.pack("!IHBB", 6 << 28, size - 40, UDP, 64)
    frame = header + a.packed + b.packed + struct.pack("!HHHH", *ports, 8, 0)
    return frame.ljust(size, b".")


def write_capture(path: Path, frames: list[bytes]) -> Path:
    """A pcap file of raw IP packets."""
    contents = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    for number, frame in enumerate(frames):
        contents += struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame
    path.write_bytes(contents)
    return path


V4_FLOWS = [
    ("10.0.0.1", "10.0.0.2", (1000, 53)),
    ("10.0.0.2", "10.0.0.1", (53, 1000)),
    ("10.0.0.1", "10.0.0.2", (1001, 53)),
    ("192.168.7.9", "8.8.8.8", (40000, 443)),
    ("192.168.7.9", "8.8.4.4", (40000, 443)),
]
V6_FLOWS = [
    ("2001:db8::1", "2001:db8::2", (1000, 53)),
    ("2001:db8::2", "2001:db8::1", (53, 1000)),
    ("fe80::1", "ff02::fb", (5353, 5353)),
]
ORDER = [0, 1, 0, 2, 2, 3, 4, 1, 0, 0, 3, 2, 4, 4, 1, 0, 2]


def capture_file(path: Path, flows=V4_FLOWS) -> Path:
    order = [flow for flow in ORDER if flow < len(flows)]
    frames = [packet(*flows[flow], 60 + 7 * i) for i, flow in enumerate(order)]
    return write_capture(path, frames)


def tuple_key(source: str, destination: str, ports: tuple[int, int], key_size: int) -> bytes:
    a, b = ip_address(source), ip_address(destination)
    if key_size == 16:
        return struct.pack("4s4s2HB3x", a.packed, b.packed, *ports, UDP)
    return struct.pack("16s16s2HBB2x", a.packed, b.packed, *ports, UDP, a.version)


def cyclic(values: list, start: int, count: int) -> list:
    return [values[(start + i) % len(values)] for i in range(count)]


@pytest.mark.parametrize(
    ("flows", "key_size"), [(V4_FLOWS, 16), (V4_FLOWS, 40), (V6_FLOWS, 40), (V4_FLOWS[:1], 16)]
)
def test_a_capture_is_replayed_in_its_order_with_its_lengths_and_again(tmp_path, flows, key_size):
    order = [flow for flow in ORDER if flow < len(flows)]
    with (
        core.opened_capture(capture_file(tmp_path / "file", flows)) as capture,
        core.opened_traffic(
            len(flows), key_size=key_size, popularity="capture", capture=capture
        ) as traffic,
    ):
        count = 3 * len(order) + 2
        packets = core.draw(traffic, count, key_size)
        keys = core.rows(packets.keys)
        assert packets.ids.tolist() == cyclic(order, 0, count)
        assert packets.lengths.tolist() == cyclic([60 + 7 * i for i in range(len(order))], 0, count)
        assert keys == [tuple_key(*flows[i], key_size) for i in packets.ids.tolist()]
        # The next packet is the one after the last; a restart is the file's first.
        assert core.draw(traffic, 1, key_size).ids[0] == cyclic(order, count, 1)[0]
        core.restart(traffic, 77)
        assert core.draw(traffic, count, key_size).ids.tolist() == cyclic(order, 0, count)


@pytest.mark.parametrize(("flows", "key_size"), [(V4_FLOWS, 16), (V4_FLOWS, 40), (V6_FLOWS, 40)])
def test_clones_have_keys_of_their_own_and_clone_0_those_of_the_file(tmp_path, flows, key_size):
    clones, n = 20_000, len(flows)
    with (
        core.opened_capture(capture_file(tmp_path / "file", flows)) as capture,
        core.opened_traffic(
            n * clones, key_size=key_size, popularity="capture", capture=capture, clones=clones
        ) as traffic,
    ):
        # As many again are the keys of misses.
        keys = core.rows(core.keys_of(traffic, range(2 * n * clones), key_size))
    assert keys[:n] == [tuple_key(*flow, key_size) for flow in flows]
    assert len(set(keys)) == len(keys)
    # Ports, protocol and family stay; of IPv6 addresses, the network.
    for number in range(n, 2000):
        original, clone = keys[number % n], keys[number]
        at = 8 if key_size == 16 else 32
        assert clone[at:] == original[at:]
        if flows is V6_FLOWS:
            assert clone[:12] == original[:12]
            assert clone[16:28] == original[16:28]


def test_clones_replay_the_file_in_its_order_each_from_its_own_start(tmp_path):
    clones, n = 50, len(V4_FLOWS)
    with (
        core.opened_capture(capture_file(tmp_path / "file")) as capture,
        core.opened_traffic(
            n * clones, popularity="capture", capture=capture, clones=clones
        ) as traffic,
    ):
        packets = core.draw(traffic, 20_000)
        session_keys = core.rows(core.keys_of(traffic, range(n * clones)))
    assert core.rows(packets.keys) == [session_keys[i] for i in packets.ids.tolist()]
    in_file = [(flow, 60 + 7 * i) for i, flow in enumerate(ORDER)]
    starts = []
    drawn = np.zeros(clones, np.int64)
    for clone in range(clones):
        theirs = packets.ids // np.uint64(n) == clone
        flows = (packets.ids[theirs] % np.uint64(n)).tolist()
        seen = list(zip(flows, packets.lengths[theirs].tolist(), strict=True))
        starts.append(in_file.index(seen[0]))
        drawn[clone] = len(seen)
        assert seen == cyclic(in_file, starts[-1], len(seen))
    assert starts[0] == 0
    assert len(set(starts)) > len(ORDER) // 2
    check_frequencies(drawn, np.full(clones, 1 / clones))


def test_misses_of_a_capture_keep_its_order_and_are_in_no_clone(tmp_path):
    clones, n = 3, len(V4_FLOWS)
    with (
        core.opened_capture(capture_file(tmp_path / "file")) as capture,
        core.opened_traffic(
            n * clones, popularity="capture", capture=capture, clones=clones, hit_ratio=0.4
        ) as traffic,
    ):
        session_keys = core.rows(core.keys_of(traffic, range(n * clones)))
        packets = core.draw(traffic, 20_000)
    missed = packets.ids == np.uint64(core.NO_SESSION)
    assert missed.mean() == pytest.approx(0.6, abs=0.02)
    assert not set(core.rows(packets.keys[missed])) & set(session_keys)
    assert set(core.rows(packets.keys[~missed])) == set(session_keys)
    ends = pairwise(np.flatnonzero(~missed))
    assert any(b - a > 1 for a, b in ends)


def test_a_capture_of_both_families_fills_a_table_with_key_40_only(tmp_path):
    """A 16-byte key has no room for an IPv6 address: two flows would share one key."""
    flows = [*V4_FLOWS[:1], *V6_FLOWS]
    with core.opened_capture(capture_file(tmp_path / "file", flows)) as capture:
        with core.opened_traffic(
            len(flows), key_size=40, popularity="capture", capture=capture
        ) as traffic:
            assert len(set(core.rows(core.keys_of(traffic, range(4), 40)))) == 4
        with (
            pytest.raises(core.CoreError),
            core.opened_traffic(len(flows), key_size=16, popularity="capture", capture=capture),
        ):
            pass


# Memory


def test_the_memory_that_traffic_will_take_is_computed():
    def taken(**options):
        return core.lib.cb_traffic_bytes(core.traffic_configuration(1_000_000, **options))

    assert taken() == taken(popularity="zipf") == 0
    assert taken(popularity="campus") == 20_000_000
    assert taken(popularity="capture", clones=1000) == 8000
