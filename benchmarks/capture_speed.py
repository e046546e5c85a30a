# SPDX-License-Identifier: BSD-3-Clause
"""Reading a capture of 1M packets, written to a temporary file first."""

from __future__ import annotations

import struct
import sys
import tempfile
import time
from pathlib import Path

from cachebench import core

PACKETS = 1_000_000
FLOWS = 100_000
ROUNDS = 5


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "million.pcap"
        file.write_bytes(_capture())
        seconds = []
        for _ in range(ROUNDS):
            start = time.monotonic()
            with core.capture(str(file)) as capture:
                seconds.append(time.monotonic() - start)
                assert (capture.keyed, capture.flow_count) == (PACKETS, FLOWS)
    seconds.sort()
    print(
        f"{PACKETS:,} packets, {FLOWS:,} flows: {seconds[ROUNDS // 2]:.3f} s "
        f"({seconds[0]:.3f} … {seconds[-1]:.3f}, measured, wall time)"
    )
    return 0


def _capture() -> bytes:
    """A pcap of UDP packets of 60 bytes over Ethernet."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    ethernet = bytes(12) + b"\x08\x00"
    for number in range(PACKETS):
        flow = number * 7919 % FLOWS
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, 46, 0, 0, 64, 17, 0, 0x0A000000 + flow, 0xC0A80001)
        udp = struct.pack(">HHHH", 1024 + flow % 5000, 53, 26, 0)
        frame = (ethernet + ip + udp).ljust(60, b"\0")
        parts.append(struct.pack("<IIII", number // 1000, number % 1000, 60, 60) + frame)
    return b"".join(parts)


if __name__ == "__main__":
    sys.exit(main())
