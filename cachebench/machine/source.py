# SPDX-License-Identifier: BSD-3-Clause
"""What several facts of the environment are read from: one CPU, memory, the hypervisor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from cachebench.machine.tree import Tree, Unknown, online_cpus

CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"

# DMI names of hypervisors: vendor, then what the product must contain, since
# clouds sell metal under the same vendor.
DMI_GUESTS = (
    ("QEMU", "", "KVM or QEMU"),
    ("Red Hat", "KVM", "KVM"),
    ("VMware", "", "VMware"),
    ("innotek", "", "VirtualBox"),
    ("Xen", "", "Xen"),
    ("Microsoft", "Virtual Machine", "Hyper-V"),
    ("Google", "Google Compute Engine", "KVM"),
    ("Parallels", "", "Parallels"),
    ("OpenStack", "", "KVM or QEMU"),
    ("DigitalOcean", "", "KVM"),
)
CLOCKS_OF_GUESTS = {"kvm-clock": "KVM", "hyperv": "Hyper-V", "xen": "Xen"}


@dataclass(frozen=True)
class Source:
    """A tree with what several facts need."""

    tree: Tree
    wanted_cpu: int | None

    @cached_property
    def cpu(self) -> int:
        if self.wanted_cpu is not None:
            return self.wanted_cpu
        try:
            return online_cpus(self.tree)[0]
        except Unknown:
            return 0

    @cached_property
    def cpuinfo(self) -> dict[str, str]:
        """The block of the CPU in /proc/cpuinfo."""
        block: dict[str, str] = {}
        for line in self.tree.lines("/proc/cpuinfo"):
            key, colon, value = line.partition(":")
            if colon:
                block[key.strip()] = value.strip()
            elif not line.strip():
                if block.get("processor") == str(self.cpu):
                    return block
                block = {}
        if block.get("processor") == str(self.cpu):
            return block
        raise Unknown(f"no processor {self.cpu} in /proc/cpuinfo")

    def cpuinfo_value(self, key: str) -> str:
        value = self.cpuinfo.get(key)
        if not value:
            raise Unknown(f"no {key!r} in /proc/cpuinfo")
        return value

    @cached_property
    def is_arm(self) -> bool:
        return "CPU implementer" in self.cpuinfo

    def armnumber(self, key: str) -> int:
        return number(self.cpuinfo_value(key), f"{key!r} in /proc/cpuinfo")

    @cached_property
    def meminfo(self) -> dict[str, int]:
        """Bytes of each line of /proc/meminfo that is in kB."""
        found: dict[str, int] = {}
        for line in self.tree.lines("/proc/meminfo"):
            match = re.match(r"(\w+):\s+(\d+) kB", line)
            if match:
                found[match[1]] = int(match[2]) * 1024
        return found

    @cached_property
    def virtual(self) -> bool:
        """True in a virtual machine; raises Unknown where nothing tells.

        Every x86 hypervisor sets the CPU flag. Other CPUs have none, so that
        only a known name is proof there, and its absence is none.
        """
        flags = self.cpuinfo.get("flags", "").split()
        if "hypervisor" in flags or self.hypervisor_name:
            return True
        if not flags:
            raise Unknown("this CPU has no hypervisor flag, and nothing names a hypervisor")
        return False

    @property
    def seems_virtual(self) -> bool:
        try:
            return self.virtual
        except Unknown:
            return False

    @cached_property
    def hypervisor_name(self) -> str:
        """Name of the hypervisor, empty if nothing names one."""
        kind = self.tree.text_or_empty("/sys/hypervisor/type")
        if kind:
            return "Xen" if kind == "xen" else kind
        vendor = self.tree.text_or_empty("/sys/class/dmi/id/sys_vendor")
        product = self.tree.text_or_empty("/sys/class/dmi/id/product_name")
        for start, part, name in DMI_GUESTS:
            if vendor.startswith(start) and part in product:
                return name
        if vendor == "Amazon EC2" and "metal" not in product:
            return "Amazon Nitro"
        clocks = self.tree.text_or_empty(f"{CLOCKSOURCE}/available_clocksource")
        for start, name in CLOCKS_OF_GUESTS.items():
            if any(clock.startswith(start) for clock in clocks.split()):
                return name
        return ""


def number(text: str, what: str) -> int:
    """The number in a text, whatever its base; ``what`` it is of if there is none."""
    try:
        return int(text, 0)
    except ValueError:
        raise Unknown(f"{what} is {text[:40]!r}, not a number") from None
