# SPDX-License-Identifier: BSD-3-Clause
"""From ``/proc/cpuinfo`` to the name of a microarchitecture.

Intel family 6 models are those of ``tools/perf/pmu-events/arch/x86/mapfile.csv``
and ``arch/x86/include/asm/intel-family.h``; AMD ranges those of
``arch/x86/kernel/cpu/amd.c`` (``bsp_init_amd``); ARM part numbers those of
``arch/arm64/include/asm/cputype.h``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

UNKNOWN = "unknown"

_INTEL = {
    0x2A: "sandybridge",
    0x2D: "sandybridge-x",
    0x3A: "ivybridge",
    0x3E: "ivybridge-x",
    0x3C: "haswell",
    0x45: "haswell",
    0x46: "haswell",
    0x3F: "haswell-x",
    0x3D: "broadwell",
    0x47: "broadwell",
    0x4F: "broadwell-x",
    0x56: "broadwell-x",
    0x4E: "skylake",
    0x5E: "skylake",
    0x8E: "skylake",
    0x9E: "skylake",
    0xA5: "skylake",
    0xA6: "skylake",
    0x55: "skylake-x",
    0x7D: "icelake",
    0x7E: "icelake",
    0xA7: "rocketlake",
    0x8C: "tigerlake",
    0x8D: "tigerlake",
    0x6A: "icelake-x",
    0x6C: "icelake-x",
    0x8F: "sapphire-rapids",
    0xCF: "emerald-rapids",
    0xAD: "granite-rapids",
    0xAE: "granite-rapids",
    0x97: "alderlake",
    0x9A: "alderlake",
    0xB7: "raptorlake",
    0xBA: "raptorlake",
    0xBF: "raptorlake",
    0xAA: "meteorlake",
    0xAC: "meteorlake",
    0xC5: "arrowlake",
    0xC6: "arrowlake",
    0xB5: "arrowlake",
    0xBD: "lunarlake",
    0xBE: "gracemont",
    0xAF: "sierra-forest",
    0xB6: "grand-ridge",
    0xDD: "clearwater-forest",
}
_HYBRID = {"alderlake", "raptorlake", "meteorlake", "arrowlake", "lunarlake"}
_FIRST_CASCADE_LAKE, _FIRST_COOPER_LAKE = 5, 10

_AMD = (
    (0x17, ((0x00, 0x2F), (0x50, 0x5F)), "zen1"),
    (0x17, ((0x30, 0x4F), (0x60, 0x7F), (0x84, 0x84), (0x90, 0x91), (0xA0, 0xAF)), "zen2"),
    (0x19, ((0x00, 0x0F), (0x20, 0x5F)), "zen3"),
    (0x19, ((0x10, 0x1F), (0x60, 0xAF)), "zen4"),
    (0x1A, ((0x00, 0x2F), (0x40, 0x4F), (0x60, 0x7F)), "zen5"),
)

_ARM = {
    0xD0B: "cortex-a76",
    0xD0C: "neoverse-n1",
    0xD40: "neoverse-v1",
    0xD49: "neoverse-n2",
    0xD4F: "neoverse-v2",
    0xD84: "neoverse-v3",
    0xD8E: "neoverse-n3",
}
_ARM_LIMITED = 0x41


@dataclass(frozen=True)
class CpuModel:
    """A CPU as far as the choice of events depends on it.

    ``name`` is ``unknown`` where the numbers are not in the tables; ``hybrid``
    where it has cores of several kinds, each with its own counters.
    """

    vendor: str
    family: int
    model: int
    stepping: int
    name: str
    hybrid: bool = False


def cpu_model(cpuinfo_text: str, machine: str) -> CpuModel:
    """The CPU of ``/proc/cpuinfo`` on ``machine`` (as ``uname -m`` says). Never raises."""
    if machine in ("x86_64", "i686", "i386", "amd64"):
        return _x86(cpuinfo_text)
    if machine in ("aarch64", "arm64"):
        return _arm(cpuinfo_text)
    return CpuModel(UNKNOWN, 0, 0, 0, UNKNOWN)


def _x86(text: str) -> CpuModel:
    vendor = next(_values(text, "vendor_id"), "")
    family, model, stepping = (
        _number(next(_values(text, key), "")) for key in ("cpu family", "model", "stepping")
    )
    if vendor == "GenuineIntel":
        name = _INTEL.get(model, UNKNOWN) if family == 6 else UNKNOWN
        if name == "skylake-x" and stepping >= _FIRST_COOPER_LAKE:
            name = "cooperlake-x"
        elif name == "skylake-x" and stepping >= _FIRST_CASCADE_LAKE:
            name = "cascadelake-x"
        return CpuModel("intel", family, model, stepping, name, name in _HYBRID)
    if vendor == "AuthenticAMD":
        for zen_family, ranges, name in _AMD:
            if family == zen_family and any(low <= model <= high for low, high in ranges):
                return CpuModel("amd", family, model, stepping, name)
        return CpuModel("amd", family, model, stepping, UNKNOWN)
    return CpuModel(UNKNOWN, family, model, stepping, UNKNOWN)


def _arm(text: str) -> CpuModel:
    makers = {_number(value) for value in _values(text, "CPU implementer")}
    parts = sorted({_number(value) for value in _values(text, "CPU part")})
    if len(makers) != 1 or not parts:
        return CpuModel("arm", 0, 0, 0, UNKNOWN, len(makers) > 1)
    maker = makers.pop()
    if len(parts) > 1:
        return CpuModel("arm", maker, parts[0], 0, UNKNOWN, True)
    name = _ARM.get(parts[0], UNKNOWN) if maker == _ARM_LIMITED else UNKNOWN
    return CpuModel("arm", maker, parts[0], 0, name)


def _values(text: str, key: str) -> Iterator[str]:
    for line in text.split("\n"):
        found, colon, value = line.partition(":")
        if colon and found.strip() == key:
            yield value.strip()


def _number(text: str) -> int:
    """A number of /proc/cpuinfo, decimal or hexadecimal; 0 where it is none."""
    if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text):
        return int(text, 16)
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
