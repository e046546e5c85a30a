# SPDX-License-Identifier: BSD-3-Clause
"""Reading /proc and /sys below a root, so that a test can lay out its own machine."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path


class Unknown(Exception):
    """A fact that cannot be had here; the message is the reason in one line."""


@dataclass(frozen=True)
class Tree:
    """The file system of a machine. Paths are given as on that machine: ``/proc/stat``."""

    root: Path = Path("/")

    @property
    def is_this_machine(self) -> bool:
        """True if system calls of this process describe the same machine."""
        return self.root == Path("/")

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; none if there is no such folder."""
        try:
            return sorted(path.name for path in self.path(folder).iterdir())
        except OSError:
            return []

    def text(self, name: str) -> str:
        """The file's text without white space at its ends."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace").strip("\0 \t\n")
        except OSError as error:
            raise _unreadable(name, error) from None

    def text_or_empty(self, name: str) -> str:
        """The same, and empty text where the file cannot be read."""
        try:
            return self.text(name)
        except Unknown:
            return ""

    def lines(self, name: str) -> Iterator[str]:
        """Lines one by one: /proc/cpuinfo of a large machine is not read to its end."""
        try:
            with self.path(name).open(encoding="utf-8", errors="replace") as file:
                yield from file
        except OSError as error:
            raise _unreadable(name, error) from None

    def number(self, name: str) -> int:
        text = self.text(name)
        try:
            return int(text)
        except ValueError:
            raise Unknown(f"{name} holds {text[:40]!r}, not a number") from None

    def number_or_none(self, name: str) -> int | None:
        try:
            return self.number(name)
        except Unknown:
            return None


def _unreadable(name: str, error: OSError) -> Unknown:
    if isinstance(error, FileNotFoundError):
        return Unknown(f"no {name}")
    return Unknown(f"{name} cannot be read: {(error.strerror or 'error').lower()}")


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """CPUs of a kernel list such as ``0-3,8``; empty text and ``(null)`` hold none."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match:
            first = int(match[1])
            cpus.update(range(first, int(match[2] or first) + 1))
    return tuple(sorted(cpus))


def format_cpu_list(cpus: Collection[int]) -> str:
    """The kernel's way to write a set of CPUs: ``0-3,8``; empty for none."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def online_cpus(tree: Tree) -> tuple[int, ...]:
    """Online CPUs; raises Unknown if sysfs does not tell."""
    cpus = parse_cpu_list(tree.text("/sys/devices/system/cpu/online"))
    if not cpus:
        raise Unknown("/sys/devices/system/cpu/online names no CPU")
    return cpus


def isolated_cpus(tree: Tree) -> tuple[int, ...]:
    """CPUs kept out of the scheduler's balancing (isolcpus=); raises Unknown."""
    return parse_cpu_list(tree.text("/sys/devices/system/cpu/isolated"))
