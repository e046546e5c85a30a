# SPDX-License-Identifier: BSD-3-Clause
"""The reader of capture files, held to tshark's values and to captures built here."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections import Counter
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_files import captures

from cachebench._core import ffi, lib

# Reading


class Refused(Exception):
    """Nothing of a file could be read."""


@dataclass(frozen=True)
class Flow:
    protocol: int
    source: str
    source_port: int
    destination: str
    destination_port: int


@dataclass(frozen=True)
class Contents:
    packets: int
    ip4: int
    ip6: int
    non_ip: int
    fragments: int
    keyed: int
    wire_bytes: int
    fault: str | None
    fault_offset: int
    flows: list[Flow]
    packet_flow: list[int]
    packet_length: list[int]

    @property
    def keys(self) -> list[Flow]:
        """The flow of each keyed packet, in file order."""
        return [self.flows[number] for number in self.packet_flow]


def read(path: Path) -> Contents:
    capture = ffi.new("struct cb_capture *")
    why = ffi.new("char[]", 200)
    if lib.cb_capture_read(os.fsencode(path), capture, why, 200) != 0:
        raise Refused(ffi.string(why).decode())
    try:
        return Contents(
            packets=capture.packets,
            ip4=capture.ip4,
            ip6=capture.ip6,
            non_ip=capture.non_ip,
            fragments=capture.fragments,
            keyed=capture.keyed,
            wire_bytes=capture.wire_bytes,
            fault=None if capture.fault == ffi.NULL else ffi.string(capture.fault).decode(),
            fault_offset=capture.fault_offset,
            flows=[flow_of(capture.flows[i]) for i in range(capture.flow_count)],
            packet_flow=[capture.packet_flow[i] for i in range(capture.keyed)],
            packet_length=[capture.packet_length[i] for i in range(capture.keyed)],
        )
    finally:
        lib.cb_capture_free(capture)


def flow_of(record) -> Flow:
    size = {4: 4, 6: 16}[record.family]
    source, destination = bytes(record.source), bytes(record.destination)
    assert not any(source[size:] + destination[size:] + bytes(record.zero))
    return Flow(
        record.protocol,
        str(ip_address(source[:size])),
        record.source_port,
        str(ip_address(destination[:size])),
        record.destination_port,
    )


@pytest.fixture
def read_bytes(tmp_path):
    def write_and_read(contents: bytes) -> Contents:
        path = tmp_path / "capture"
        path.write_bytes(contents)
        return read(path)

    return write_and_read


# Building files

MICROSECONDS, NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D
ETHERNET, RAW, SLL, SLL2 = 1, 101, 113, 276


def pcap_header(order="<", magic=MICROSECONDS, link=ETHERNET, version=(2, 4)) -> bytes:
    return struct.pack(order + "IHHIIII", magic, *version, 0, 0, 262144, link)


def pcap_record(frame: bytes, order="<", length: int | None = None) -> bytes:
    on_the_wire = len(frame) if length is None else length
    return struct.pack(order + "IIII", 1, 2, len(frame), on_the_wire) + frame


def pcap(*frames: bytes, order="<", magic=MICROSECONDS, link=ETHERNET) -> bytes:
    records = [pcap_record(frame, order) for frame in frames]
    return b"".join([pcap_header(order, magic, link), *records])


class Section:
    """The blocks of one pcapng section, in its byte order."""

    def __init__(self, order="<"):
        self.order = order
        self.start = self.block(0x0A0D0D0A, self.pack("IHHq", 0x1A2B3C4D, 1, 0, -1))

    def pack(self, form: str, *values: int) -> bytes:
        return struct.pack(self.order + form, *values)

    def block(self, kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = self.pack("I", len(body) + 12)
        return self.pack("I", kind) + size + body + size

    def interface(self, link=ETHERNET, snaplen=0, options=b"") -> bytes:
        return self.block(1, self.pack("HHI", link, 0, snaplen) + options)

    def packet(self, frame: bytes, interface=0, options=b"") -> bytes:
        header = self.pack("IIIII", interface, 0, 0, len(frame), len(frame))
        return self.block(6, header + frame + bytes(-len(frame) % 4) + options)

    def old_packet(self, frame: bytes, interface=0) -> bytes:
        return self.block(
            2, self.pack("HHIIII", interface, 9, 0, 0, len(frame), len(frame)) + frame
        )

    def simple_packet(self, frame: bytes, length: int | None = None) -> bytes:
        return self.block(3, self.pack("I", len(frame) if length is None else length) + frame)


# Building frames

TCP, UDP, SCTP = 6, 17, 132
HOP_BY_HOP, ROUTING, FRAGMENT, AH, DESTINATION = 0, 43, 44, 51, 60
IPV4, IPV6, VLAN, PPPOE, MPLS = 0x0800, 0x86DD, 0x8100, 0x8864, 0x8847
PORTS = struct.pack("!HH", 1000, 53)
L4 = PORTS + bytes(16)


def ipv4(payload=L4, protocol=UDP, options=b"", offset=0, total=None, first=0x40) -> bytes:
    header_length = 20 + len(options)
    total = header_length + len(payload) if total is None else total
    first += header_length // 4
    header = struct.pack("!BBHHHBBH", first, 0, total, 7, offset, 64, protocol, 0)
    return header + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + options + payload


def ipv6(payload=L4, protocol=UDP, length=None) -> bytes:
    length = len(payload) if length is None else length
    addresses = ip_address("2001:db8::1").packed + ip_address("2001:db8::2").packed
    return struct.pack("!IHBB", 6 << 28, length, protocol, 64) + addresses + payload


def extension(following: int, payload: bytes, words=0) -> bytes:
    return bytes([following, words]) + bytes(6 + 8 * words) + payload


def fragment(following: int, payload: bytes, offset=0) -> bytes:
    return struct.pack("!BBHI", following, 0, offset << 3 | 1, 99) + payload


def authentication(following: int, payload: bytes, check_value=12) -> bytes:
    return (
        struct.pack("!BBHII", following, 1 + check_value // 4, 0, 5, 6)
        + bytes(check_value)
        + payload
    )


def ethernet(payload: bytes, ethertype=IPV4) -> bytes:
    return bytes(range(12)) + struct.pack("!H", ethertype) + payload


def vlan(payload: bytes, ethertype=IPV4) -> bytes:
    return struct.pack("!HH", 5, ethertype) + payload


def pppoe(payload: bytes, protocol=b"\x00\x21", length: int | None = None) -> bytes:
    length = len(protocol + payload) if length is None else length
    return struct.pack("!BBHH", 0x11, 0, 3, length) + protocol + payload


def mpls(payload: bytes, labels=1) -> bytes:
    stack = [struct.pack("!I", (16 + i) << 12 | (i == labels - 1) << 8) for i in range(labels)]
    return b"".join(stack) + payload


def sll(payload: bytes, ethertype=IPV4) -> bytes:
    return struct.pack("!HHH8sH", 0, 1, 6, bytes(8), ethertype) + payload


def sll2(payload: bytes, ethertype=IPV4) -> bytes:
    return struct.pack("!HHIHBB8s", ethertype, 0, 2, 1, 0, 6, bytes(8)) + payload


def loopback(payload: bytes, family=2, order="<") -> bytes:
    return struct.pack(order + "I", family) + payload


FLOW4 = Flow(UDP, "10.0.0.1", 1000, "10.0.0.2", 53)
FLOW6 = Flow(UDP, "2001:db8::1", 1000, "2001:db8::2", 53)


# The given captures


def flow_table_digest(contents: Contents) -> str:
    lines = sorted(
        f"{flow.protocol} {flow.source} {flow.source_port} "
        f"{flow.destination} {flow.destination_port} {packets}\n"
        for flow, packets in Counter(contents.keys).items()
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def conversations(contents: Contents) -> Counter:
    def both_ways(flow: Flow):
        ends = [(flow.source, flow.source_port), (flow.destination, flow.destination_port)]
        return flow.protocol, *sorted(ends)

    return Counter(map(both_ways, contents.keys))


def as_in_oracle(contents: Contents) -> dict:
    talks = conversations(contents)
    busiest = [packets for _, packets in talks.most_common(10)]
    return {
        "complete": contents.fault is None,
        "packets": contents.packets,
        "ip4": contents.ip4,
        "ip6": contents.ip6,
        "non_ip": contents.non_ip,
        "nonfirst_frag": contents.fragments,
        "keyed": contents.keyed,
        "ip_without_ports": contents.ip4 + contents.ip6 - contents.keyed,
        "uni": len(contents.flows),
        "bi": len(talks),
        "top": max(busiest, default=0),
        "singletons": sum(packets == 1 for packets in talks.values()),
        "top10": round(sum(busiest) / contents.keyed, 3) if contents.keyed else None,
        "wire_bytes": contents.wire_bytes,
        "uni_digest": flow_table_digest(contents),
    }


def test_every_given_capture_gives_the_flow_table_of_tshark():
    folder = captures()
    oracles = json.loads((folder / "oracles.json").read_text())
    assert oracles
    found = {oracle["name"]: as_in_oracle(read(folder / oracle["name"])) for oracle in oracles}
    assert found == {
        oracle["name"]: {key: oracle[key] for key in found[oracle["name"]]} for oracle in oracles
    }


def test_given_captures_with_damage_say_what_it_is_and_where():
    folder = captures()
    faults = {
        name: (contents.fault, contents.fault_offset)
        for name in ("mal-reclen.pcap", "mal-hugecap.pcap")
        if (contents := read(folder / name))
    }
    assert faults == {
        "mal-reclen.pcap": ("a record claims more than 262144 bytes", 5696 - 645 - 16),
        "mal-hugecap.pcap": ("the file ends inside a record header", 239 - 2),
    }


# Link layers and headers

FRAMES = {
    "ethernet": (ETHERNET, ethernet(ipv4()), FLOW4),
    "ethernet with IPv6": (ETHERNET, ethernet(ipv6(), IPV6), FLOW6),
    "vlan": (ETHERNET, ethernet(vlan(ipv4()), VLAN), FLOW4),
    "qinq": (ETHERNET, ethernet(vlan(vlan(ipv6(), IPV6), VLAN), 0x88A8), FLOW6),
    "three tags": (ETHERNET, ethernet(vlan(vlan(vlan(ipv4()), 0x88A8), VLAN), 0x9100), FLOW4),
    "pppoe": (ETHERNET, ethernet(pppoe(ipv4()), PPPOE), FLOW4),
    "pppoe with IPv6": (ETHERNET, ethernet(pppoe(ipv6(), b"\x00\x57"), PPPOE), FLOW6),
    "pppoe, number compressed": (ETHERNET, ethernet(pppoe(ipv4(), b"\x21"), PPPOE), FLOW4),
    "pppoe in vlan": (ETHERNET, ethernet(vlan(pppoe(ipv4()), PPPOE), VLAN), FLOW4),
    "mpls": (ETHERNET, ethernet(mpls(ipv4()), MPLS), FLOW4),
    "mpls, three labels": (ETHERNET, ethernet(mpls(ipv6(), 3), MPLS), FLOW6),
    "mpls multicast in vlan": (ETHERNET, ethernet(vlan(mpls(ipv4()), 0x8848), VLAN), FLOW4),
    "raw": (RAW, ipv4(), FLOW4),
    "raw with IPv6": (RAW, ipv6(), FLOW6),
    "raw, BSD number": (12, ipv4(), FLOW4),
    "raw, OpenBSD number": (14, ipv6(), FLOW6),
    "IPv4 alone": (228, ipv4(), FLOW4),
    "IPv6 alone": (229, ipv6(), FLOW6),
    "cooked": (SLL, sll(ipv4()), FLOW4),
    "cooked with vlan": (SLL, sll(vlan(ipv6(), IPV6), VLAN), FLOW6),
    "cooked 2": (SLL2, sll2(ipv6(), IPV6), FLOW6),
    "null": (0, loopback(ipv4()), FLOW4),
    "null, big-endian": (0, loopback(ipv4(), order=">"), FLOW4),
    "loop": (108, loopback(ipv4(), order=">"), FLOW4),
    "loop, Linux IPv6": (108, loopback(ipv6(), 10, ">"), FLOW6),
    "null, NetBSD IPv6": (0, loopback(ipv6(), 24), FLOW6),
    "null, FreeBSD IPv6": (0, loopback(ipv6(), 28, ">"), FLOW6),
    "null, macOS IPv6": (0, loopback(ipv6(), 30), FLOW6),
    "tcp": (RAW, ipv4(protocol=TCP), Flow(TCP, "10.0.0.1", 1000, "10.0.0.2", 53)),
    "sctp": (RAW, ipv6(protocol=SCTP), Flow(SCTP, "2001:db8::1", 1000, "2001:db8::2", 53)),
    "four bytes of ports": (RAW, ipv4(PORTS), FLOW4),
    "IPv4 options": (RAW, ipv4(options=bytes(40)), FLOW4),
    "IPv4 AH": (RAW, ipv4(authentication(UDP, L4), AH), FLOW4),
    "IPv4 first fragment": (RAW, ipv4(offset=0x2000), FLOW4),
    "IPv4 without total length": (RAW, ipv4(total=0), FLOW4),
    "IPv6 hop-by-hop": (RAW, ipv6(extension(UDP, L4, 2), HOP_BY_HOP), FLOW6),
    "IPv6 AH": (RAW, ipv6(authentication(UDP, L4), AH), FLOW6),
    "IPv6 first fragment": (RAW, ipv6(fragment(UDP, L4), FRAGMENT), FLOW6),
    "IPv6 without payload length": (RAW, ipv6(length=0), FLOW6),
    "IPv6 chain": (
        RAW,
        ipv6(
            extension(
                ROUTING,
                extension(
                    FRAGMENT,
                    fragment(AH, authentication(DESTINATION, extension(UDP, L4, 1), 16)),
                    2,
                ),
            ),
            HOP_BY_HOP,
        ),
        FLOW6,
    ),
    "outermost pair of IP over UDP": (RAW, ipv4(L4[:8] + ipv6(bytes(20))), FLOW4),
}


@pytest.mark.parametrize("name", FRAMES)
def test_the_flow_is_found_behind_every_kind_of_header(name, read_bytes):
    link, frame, flow = FRAMES[name]
    contents = read_bytes(pcap(frame, link=link))
    assert contents.keys == [flow]
    assert (contents.ip4, contents.ip6) == ((1, 0) if "." in flow.source else (0, 1))


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_cut_anywhere_has_its_key_as_long_as_the_ports_are_there(name, read_bytes):
    link, frame, flow = FRAMES[name]
    needed = frame.index(PORTS) + len(PORTS)
    records = [pcap_record(frame[:size], length=len(frame)) for size in range(len(frame) + 1)]
    contents = read_bytes(pcap_header(link=link) + b"".join(records))
    assert contents.keys == [flow] * (len(frame) + 1 - needed)
    assert contents.wire_bytes == len(frame) * len(records)
    assert contents.fault is None


# Link type, frame, and the counts (ip4, ip6, non_ip, fragments).
WITHOUT_KEY = {
    "arp": (ETHERNET, ethernet(bytes(28), 0x0806), (0, 0, 1, 0)),
    "802.3 length": (ETHERNET, ethernet(ipv4(), 100), (0, 0, 1, 0)),
    "empty": (ETHERNET, b"", (0, 0, 1, 0)),
    "link type unknown": (105, ethernet(ipv4()), (0, 0, 1, 0)),
    "pppoe discovery": (ETHERNET, ethernet(pppoe(ipv4()), 0x8863), (0, 0, 1, 0)),
    "pppoe, other protocol": (ETHERNET, ethernet(pppoe(b"", b"\xc0\x21"), PPPOE), (0, 0, 1, 0)),
    "pppoe, length without IP": (ETHERNET, ethernet(pppoe(ipv4(), length=2), PPPOE), (1, 0, 0, 0)),
    "mpls, not IP": (ETHERNET, ethernet(mpls(bytes(60)), MPLS), (0, 0, 1, 0)),
    "mpls without bottom": (ETHERNET, ethernet(bytes(60), MPLS), (0, 0, 1, 0)),
    "raw, version 5": (RAW, ipv4(first=0x50), (0, 0, 1, 0)),
    "loopback, other family": (0, loopback(ipv4(), 7), (0, 0, 1, 0)),
    "loopback, no family": (0, loopback(ipv4(), 0x02020202), (0, 0, 1, 0)),
    "ICMP": (RAW, ipv4(protocol=1), (1, 0, 0, 0)),
    "ESP": (RAW, ipv6(protocol=50), (0, 1, 0, 0)),
    "GRE": (RAW, ipv4(bytes(4) + ipv4(), 47), (1, 0, 0, 0)),
    "IP in IP": (RAW, ipv4(ipv4(), 4), (1, 0, 0, 0)),
    "IPv6 in IPv4": (RAW, ipv4(ipv6(), 41), (1, 0, 0, 0)),
    "no next header": (RAW, ipv6(protocol=59), (0, 1, 0, 0)),
    "hop-by-hop number in IPv4": (RAW, ipv4(extension(UDP, L4), HOP_BY_HOP), (1, 0, 0, 0)),
    "IPv4, version 6 inside": (ETHERNET, ethernet(ipv6()), (1, 0, 0, 0)),
    "IPv6, version 4 inside": (ETHERNET, ethernet(ipv4(bytes(40)), IPV6), (0, 1, 0, 0)),
    "IPv4, header of 16 bytes": (ETHERNET, ethernet(ipv4(first=0x3F)), (1, 0, 0, 0)),
    "IPv4, total shorter than header": (RAW, ipv4(total=19), (1, 0, 0, 0)),
    "padding in place of ports": (RAW, ipv4(b"") + L4, (1, 0, 0, 0)),
    "three bytes of ports, padded": (RAW, ipv6(L4[:3]) + L4, (0, 1, 0, 0)),
    "IPv4 fragment": (RAW, ipv4(offset=1), (1, 0, 0, 1)),
    "IPv4 last fragment": (RAW, ipv4(offset=0x1FFF), (1, 0, 0, 1)),
    "IPv4 fragment of the upper half": (RAW, ipv4(offset=0x1000), (1, 0, 0, 1)),
    "IPv4 fragment of AH": (RAW, ipv4(authentication(UDP, L4), AH, offset=1), (1, 0, 0, 1)),
    "IPv6 fragment": (RAW, ipv6(fragment(UDP, L4, 1), FRAGMENT), (0, 1, 0, 1)),
    "IPv6 fragment in chain": (
        RAW,
        ipv6(extension(FRAGMENT, fragment(UDP, L4, 100)), HOP_BY_HOP),
        (0, 1, 0, 1),
    ),
    "extension past the end": (RAW, ipv6(bytes([UDP, 255]) + L4, HOP_BY_HOP), (0, 1, 0, 0)),
    "AH past the end": (RAW, ipv4(bytes([UDP, 255]) + L4, AH), (1, 0, 0, 0)),
}


@pytest.mark.parametrize("name", WITHOUT_KEY)
def test_a_frame_without_ports_of_its_own_is_counted_and_has_no_key(name, read_bytes):
    link, frame, counts = WITHOUT_KEY[name]
    contents = read_bytes(pcap(frame, link=link))
    found = contents.ip4, contents.ip6, contents.non_ip, contents.fragments
    assert (contents.packets, contents.keyed, found) == (1, 0, counts)
    assert contents.flows == []


def test_a_very_deep_stack_of_tags_is_walked_to_its_end(read_bytes):
    tags = vlan(b"", VLAN) * 50_000
    with_ip = ethernet(tags + vlan(ipv4()), VLAN)
    contents = read_bytes(pcap(with_ip, ethernet(tags, VLAN)))
    assert contents.keys == [FLOW4]
    assert contents.non_ip == 1


def test_a_very_long_chain_of_extension_headers_is_walked_to_its_end(read_bytes):
    chain = extension(DESTINATION, b"") * 8_000
    contents = read_bytes(
        pcap(
            ipv6(chain + extension(UDP, L4), DESTINATION),
            ipv6(chain, DESTINATION),
            link=RAW,
        )
    )
    assert contents.keys == [FLOW6]
    assert contents.ip6 == 2


# Flows and packets


def between(source_port: int, destination_port: int) -> bytes:
    return ethernet(ipv4(struct.pack("!HH", source_port, destination_port) + bytes(4)))


def test_flows_are_one_way_and_numbered_by_first_appearance(read_bytes):
    arp = ethernet(bytes(28), 0x0806)
    pairs = [(1, 2), (2, 1), None, (1, 2), (3, 2), (2, 1)]
    contents = read_bytes(pcap(*(between(*pair) if pair else arp for pair in pairs)))
    assert contents.packet_flow == [0, 1, 0, 2, 1]
    ports = [(flow.source_port, flow.destination_port) for flow in contents.flows]
    assert ports == [(1, 2), (2, 1), (3, 2)]


def test_vlan_id_and_encapsulation_are_no_part_of_a_flow(read_bytes):
    contents = read_bytes(
        pcap(
            ethernet(ipv4()),
            ethernet(vlan(ipv4()), VLAN),
            ethernet(mpls(ipv4()), MPLS),
            ethernet(pppoe(ipv4()), PPPOE),
        )
    )
    assert contents.packet_flow == [0, 0, 0, 0]


def test_the_flow_table_grows_with_its_flows(read_bytes):
    ports = [(number % 60_000, number // 60_000) for number in range(70_000)]
    contents = read_bytes(pcap(*(between(*pair) for pair in ports + ports)))
    assert contents.packet_flow == list(range(70_000)) * 2
    assert [(flow.source_port, flow.destination_port) for flow in contents.flows] == ports


def test_packet_lengths_are_those_on_the_wire_up_to_65535(read_bytes):
    lengths = [0, 60, 65535, 65536, 2**32 - 1]
    records = [pcap_record(between(1, 2), length=length) for length in lengths]
    contents = read_bytes(pcap_header() + b"".join(records))
    assert contents.packet_length == [0, 60, 65535, 65535, 65535]
    assert contents.wire_bytes == sum(lengths)


# Formats


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [MICROSECONDS, NANOSECONDS])
def test_pcap_is_read_in_both_byte_orders_and_time_units(order, magic, read_bytes):
    contents = read_bytes(pcap(between(1, 2), ethernet(ipv4()), order=order, magic=magic))
    assert contents.keys == [Flow(UDP, "10.0.0.1", 1, "10.0.0.2", 2), FLOW4]
    assert contents.fault is None


def test_the_link_type_is_read_beside_the_length_of_the_check_sequence(read_bytes):
    assert read_bytes(pcap(ethernet(ipv4()), link=0x54000000 | ETHERNET)).keys == [FLOW4]


@pytest.mark.parametrize(
    ("version", "first", "second"),
    [((2, 4), 0, 9), ((2, 3), 0, 9), ((2, 3), 9, 0), ((2, 0), 9, 0), ((2, 2), 9, 0)],
)
def test_old_versions_hold_the_two_lengths_in_the_other_order(version, first, second, read_bytes):
    frame = ethernet(ipv4())
    lengths = struct.pack("<IIII", 0, 0, len(frame) + first, len(frame) + second)
    contents = read_bytes(pcap_header(version=version) + lengths + frame)
    assert contents.keys == [FLOW4]
    assert contents.wire_bytes == len(frame) + 9


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_packets_take_the_link_type_of_their_interface(order, read_bytes):
    section = Section(order)
    contents = read_bytes(
        section.start
        + section.interface(ETHERNET)
        + section.interface(RAW)
        + section.packet(ipv6(), interface=1)
        + section.packet(ethernet(ipv4()), interface=0)
        + section.old_packet(ipv4(protocol=TCP), interface=1)
        + section.simple_packet(ethernet(ipv4()))
    )
    tcp = Flow(TCP, "10.0.0.1", 1000, "10.0.0.2", 53)
    assert contents.keys == [FLOW6, FLOW4, tcp, FLOW4]
    assert contents.fault is None


def test_each_pcapng_section_has_its_own_byte_order_and_interfaces(read_bytes):
    little, big = Section("<"), Section(">")
    contents = read_bytes(
        little.start
        + little.interface(RAW)
        + little.packet(ipv4())
        + big.start
        + big.interface(SLL)
        + big.packet(sll(ipv6(), IPV6))
        + little.start
        + little.interface(ETHERNET)
        + little.packet(ethernet(ipv4()))
    )
    assert contents.keys == [FLOW4, FLOW6, FLOW4]
    assert contents.fault is None


def test_pcapng_sections_do_not_inherit_interfaces(read_bytes):
    section = Section()
    before = section.start + section.interface(RAW) + section.packet(ipv4()) + section.start
    contents = read_bytes(before + section.packet(ipv4()))
    assert contents.keys == [FLOW4]
    assert contents.fault == "a packet names an interface that is not described"
    assert contents.fault_offset == len(before)


def test_many_pcapng_interfaces_keep_their_link_types(read_bytes):
    section = Section()
    links = [RAW if number % 3 else ETHERNET for number in range(100)]
    blocks = [section.interface(link) for link in links]
    blocks += [
        section.packet(ipv4() if link == RAW else ethernet(ipv4()), interface=number)
        for number, link in enumerate(links)
    ]
    assert read_bytes(section.start + b"".join(blocks)).keys == [FLOW4] * 100


def test_a_simple_packet_is_as_long_as_the_snapshot_length_lets_it_be(read_bytes):
    section = Section()
    contents = read_bytes(
        section.start
        + section.interface(RAW, snaplen=30)
        + section.simple_packet(ipv4()[:30], length=1500)
        + section.simple_packet(ipv4(PORTS))
    )
    assert contents.keys == [FLOW4, FLOW4]
    assert contents.packet_length == [1500, 24]


def test_other_pcapng_blocks_and_all_options_are_stepped_over(read_bytes):
    section = Section()
    endless = section.pack("HH", 2, 0) * 3  # options without an end
    overlong = section.pack("HH", 1, 0xFFFF)  # an option that leaves its block
    others = b"".join(section.block(kind, b"name") for kind in (4, 5, 10, 0xBAD, 0x80000001))
    contents = read_bytes(
        section.start
        + others
        + section.interface(RAW, options=endless)
        + section.interface(RAW, options=overlong)
        + section.packet(ipv4(), options=overlong)
        + others
        + section.packet(ipv6(), interface=1, options=endless)
        + section.block(5, b"")
    )
    assert contents.keys == [FLOW4, FLOW6]
    assert contents.fault is None


# What cannot be read


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (b"", "is empty"),
        (b"\xd4\xc3", "too short for a capture: 2 bytes"),
        (b"GIF89a", "neither pcap nor pcapng: begins with 47 49 46 38"),
        (b"\x1f\x8b\x08\x00", "compressed with gzip: unpack it first"),
        (pcap()[:-1], "ends inside the pcap header: 23 of 24 bytes"),
        (pcap_header(version=(1, 2)), "pcap version 1.2 is not supported (2.0 to 2.4 are)"),
        (pcap_header(version=(2, 5)), "pcap version 2.5 is not supported (2.0 to 2.4 are)"),
        (Section().start[:-1], "unreadable as pcapng: the file ends inside a block"),
        (
            Section().start.replace(b"\x4d\x3c\x2b\x1a", b"1234"),
            "unreadable as pcapng: a section header has no byte-order magic",
        ),
        (
            Section().block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 2, 0, -1)),
            "unreadable as pcapng: a section has a pcapng version that is not supported",
        ),
        (
            Section().block(0x0A0D0D0A, struct.pack("<I", 0x1A2B3C4D)),
            "unreadable as pcapng: a section header is too short",
        ),
    ],
)
def test_a_file_that_does_not_begin_as_a_capture_is_refused(contents, reason, read_bytes):
    with pytest.raises(Refused) as refusal:
        read_bytes(contents)
    assert str(refusal.value) == reason


def test_what_is_not_a_readable_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name, reason in {
        "missing": "No such file or directory",
        "fifo": "is not a regular file",
        ".": "is a directory",
    }.items():
        with pytest.raises(Refused, match=f"^{reason}$"):
            read(tmp_path / name)


def test_a_reason_is_cut_to_the_room_for_it(tmp_path):
    capture = ffi.new("struct cb_capture *")
    why = ffi.new("char[]", b"........")
    assert lib.cb_capture_read(os.fsencode(tmp_path), capture, why, 5) == -1
    assert ffi.buffer(why)[:] == b"is a\0...\0"
    assert lib.cb_capture_read(os.fsencode(tmp_path), capture, ffi.NULL, 0) == -1
    assert (capture.packets, capture.flows) == (0, ffi.NULL)


def test_a_file_name_may_hold_any_bytes(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9 \xff.pcap")
    path.write_bytes(pcap(ethernet(ipv4())))
    assert read(path).keys == [FLOW4]


def test_a_capture_without_packets_is_read_as_such(read_bytes):
    for contents in (pcap(), pcap(order=">"), Section().start, Section(">").start):
        found = read_bytes(contents)
        assert (found.packets, found.flows, found.fault) == (0, [], None)


# Damage


def pieces_of_pcap() -> list[bytes]:
    frames = [ethernet(ipv4()), b"", between(1, 2), ethernet(ipv6(), IPV6)]
    return [pcap_header(), *map(pcap_record, frames)]


def pieces_of_pcapng() -> list[bytes]:
    little, big = Section("<"), Section(">")
    return [
        little.start + little.interface(ETHERNET, options=little.pack("HH", 0, 0)),
        little.packet(ethernet(ipv4())),
        little.simple_packet(between(1, 2)),
        big.start + big.interface(SLL2) + big.old_packet(sll2(ipv6(), IPV6)),
        big.packet(sll2(ipv4())),
    ]


@pytest.mark.parametrize("pieces", [pieces_of_pcap(), pieces_of_pcapng()], ids=["pcap", "pcapng"])
def test_a_file_cut_at_any_byte_gives_the_packets_before_the_cut(pieces, read_bytes):
    whole = b"".join(pieces)
    ends = list(accumulate(map(len, pieces)))
    all_keys = read_bytes(whole).keys
    keyed_before = 0
    for size in range(ends[0], len(whole) + 1):
        contents = read_bytes(whole[:size])
        assert contents.packets == sum(end <= size for end in ends[1:])
        assert contents.keys == all_keys[: contents.keyed]
        assert contents.keyed >= keyed_before
        keyed_before = contents.keyed
        if size in ends:
            assert contents.fault is None
        elif contents.fault is not None:
            assert contents.fault.startswith("the file ends inside a ")
            assert max(end for end in ends if end <= size) <= contents.fault_offset <= size
        else:
            # Only between blocks that hold no packet.
            assert contents.fault_offset == size


@pytest.mark.parametrize("whole", [b"".join(pieces_of_pcap()), b"".join(pieces_of_pcapng())])
def test_a_file_cut_in_its_first_header_is_refused(whole, read_bytes):
    for size in range(24):
        with pytest.raises(Refused):
            read_bytes(whole[:size])


SECTION = Section()
GOOD = SECTION.start + SECTION.interface(RAW) + SECTION.packet(ipv4())
BAD_BLOCKS = {
    "length 0": (struct.pack("<III", 5, 0, 0), "a block has an impossible length"),
    "length 8": (struct.pack("<III", 5, 8, 8), "a block has an impossible length"),
    "length 13": (struct.pack("<IIII", 5, 13, 0, 13), "a block has an impossible length"),
    "length 16, 12 left": (struct.pack("<III", 5, 16, 16), "the file ends inside a block"),
    "length 4 GiB": (struct.pack("<III", 6, 2**32 - 4, 0), "the file ends inside a block"),
    "two lengths": (struct.pack("<III", 5, 12, 16), "the two lengths of a block differ"),
    "stray bytes": (bytes(5), "the file ends inside a block"),
    "section without magic": (
        struct.pack("<IIII", 0x0A0D0D0A, 16, 0, 16),
        "a section header has no byte-order magic",
    ),
    "short interface": (SECTION.block(1, bytes(4)), "an interface block is too short"),
    "short packet": (SECTION.block(6, bytes(16)), "a packet block is too short"),
    "short old packet": (SECTION.block(2, bytes(16)), "a packet block is too short"),
    "short simple packet": (SECTION.block(3, b""), "a packet block is too short"),
    "packet larger than block": (
        SECTION.block(6, struct.pack("<IIIII", 0, 0, 0, 61, 61) + bytes(60)),
        "a packet is longer than its block",
    ),
    "packet of 4 GiB": (
        SECTION.block(6, struct.pack("<IIIII", 0, 0, 0, 2**32 - 1, 60) + bytes(60)),
        "a packet is longer than its block",
    ),
    "simple packet larger than block": (
        SECTION.simple_packet(bytes(60), length=61),
        "a packet is longer than its block",
    ),
    "interface out of range": (
        SECTION.packet(ipv4(), interface=1),
        "a packet names an interface that is not described",
    ),
}


@pytest.mark.parametrize("name", BAD_BLOCKS)
def test_a_bad_block_ends_the_reading_and_leaves_what_came_before(name, read_bytes):
    block, fault = BAD_BLOCKS[name]
    contents = read_bytes(GOOD + block)
    assert contents.keys == [FLOW4]
    assert (contents.fault, contents.fault_offset) == (fault, len(GOOD))


@pytest.mark.parametrize(
    ("captured", "fault"),
    [
        (61, "the file ends inside a record"),
        (262_144, "the file ends inside a record"),
        (262_145, "a record claims more than 262144 bytes"),
        (2**32 - 1, "a record claims more than 262144 bytes"),
    ],
)
def test_a_record_longer_than_the_file_ends_the_reading(captured, fault, read_bytes):
    good = pcap(ethernet(ipv4()))
    contents = read_bytes(good + struct.pack("<IIII", 0, 0, captured, captured) + bytes(60))
    assert contents.keys == [FLOW4]
    assert (contents.fault, contents.fault_offset) == (fault, len(good))


def hold_together(contents: Contents) -> None:
    """What is true of every file that can be read, however damaged."""
    assert contents.packets == contents.ip4 + contents.ip6 + contents.non_ip
    assert contents.keyed + contents.fragments <= contents.ip4 + contents.ip6
    assert len(set(contents.flows)) == len(contents.flows)
    assert list(dict.fromkeys(contents.packet_flow)) == list(range(len(contents.flows)))
    assert {flow.protocol for flow in contents.flows} <= {TCP, UDP, SCTP}


def every_frame_in_pcapng() -> bytes:
    section = Section(">")
    blocks = [section.start]
    for number, (link, frame, _) in enumerate(FRAMES.values()):
        blocks += [section.interface(link), section.packet(frame, interface=number)]
    return b"".join(blocks)


SEEDS = [
    b"".join(pieces_of_pcap()),
    b"".join(pieces_of_pcapng()),
    pcap(*(frame for link, frame, _ in FRAMES.values() if link == ETHERNET), order=">"),
    pcap(*(frame for link, frame, _ in FRAMES.values() if link == RAW), link=RAW),
    every_frame_in_pcapng(),
]


@st.composite
def damaged(draw) -> bytes:
    contents = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 12))):
        at = draw(st.integers(0, len(contents) - 1))
        contents[at] = draw(st.sampled_from([0, 1, 4, 6, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    cut = draw(st.integers(0, len(contents)) | st.just(len(contents)))
    return bytes(contents[:cut]) + draw(st.binary(max_size=40))


@settings(max_examples=500, deadline=None)
@given(contents=damaged())
def test_a_damaged_file_is_refused_or_read_without_contradiction(contents, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(contents)
    reason = None
    try:
        found = read(path)
    except Refused as refusal:
        reason = str(refusal)
    if reason is not None:
        assert re.fullmatch("[ -~]+", reason)
        return
    hold_together(found)
    assert found.fault_offset <= len(contents)
    assert found.fault is not None or found.fault_offset == len(contents)


@settings(max_examples=300, deadline=None)
@given(link=st.sampled_from(sorted({link for link, _, _ in FRAMES.values()})), data=st.data())
def test_random_bytes_behind_any_link_type_do_no_harm(link, data, tmp_path_factory):
    frames = data.draw(st.lists(st.binary(max_size=120), max_size=8))
    path = tmp_path_factory.getbasetemp() / "random"
    path.write_bytes(pcap(*frames, link=link))
    found = read(path)
    hold_together(found)
    assert (found.packets, found.fault) == (len(frames), None)
