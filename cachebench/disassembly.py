# SPDX-License-Identifier: BSD-3-Clause
"""Instructions of a shared object, as objdump of the compiler's binutils writes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cachebench.build import Toolchain
from cachebench.errors import CachebenchError
from cachebench.profilemodel import Operand
from cachebench.stepping import REGISTERS

_LINE = re.compile(r"\s*([0-9a-f]+):\t(\S[^\t]*)")
_MEMORY = re.compile(
    r"(?P<displacement>-?0x[0-9a-f]+)?"
    r"\((?:%(?P<base>\w+))?(?:,%(?P<index>\w+)(?:,(?P<scale>[1248]))?)?\)"
)
_NO_ACCESS = re.compile(r"(?:\w+ )*(?:lea|nop|endbr)")
_COMPARES = re.compile(r"(?:cmp|test|add|sub|and|inc|dec)[bwlq]?\b")
"""What x86 CPUs join with a conditional jump behind it to one operation."""
_SECONDS = 60


@dataclass(frozen=True)
class Instruction:
    """One instruction; ``address`` as in the file's symbols."""

    address: int
    text: str

    @property
    def memory(self) -> bool:
        """Whether it loads or stores, prefetches and the stack's own aside."""
        if self.prefetches or _NO_ACCESS.match(self.text):
            return False
        return self._operand is not None or bool(re.match(r"(ld|st)\w* .*\[", self.text))

    @property
    def prefetches(self) -> bool:
        return self.text.startswith("prefetch")

    @property
    def jumps(self) -> bool:
        """Conditionally, by flags that the instruction before it set."""
        return self.text.startswith("j") and not self.text.startswith("jmp")

    @property
    def compares(self) -> bool:
        return _COMPARES.match(self.text) is not None

    @property
    def ends(self) -> bool:
        """Whether what follows it in memory does not follow it in time."""
        return re.match(r"(?:jmp|ret|ud2|hlt|b\s|br\s)", self.text) is not None

    def operand(self, at: int) -> Operand | None:
        """Its memory operand, by general registers alone; ``at`` is its offset."""
        match = self._operand
        if match is None or _NO_ACCESS.match(self.text):
            return None
        named = (match["base"], match["index"])
        if any(name is not None and name not in REGISTERS for name in named) or "rip" in named:
            return None
        base, index = (-1 if name is None else REGISTERS.index(name) for name in named)
        displacement = int(match["displacement"] or "0", 16)
        return Operand(at, displacement, base, index, int(match["scale"] or 1))

    @property
    def _operand(self) -> re.Match[str] | None:
        return _MEMORY.search(self.text)


def instructions(path: Path) -> tuple[Instruction, ...]:
    """All instructions of an object, in the order of their addresses.

    Raises CachebenchError if there is no objdump, or if it does not read the file.
    """
    command = [_objdump(), "-d", "--no-show-raw-insn", str(path)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CachebenchError(f"{command[0]} does not run: {error}") from None
    text = done.stdout.decode(errors="replace")
    found = tuple(
        Instruction(int(match[1], 16), " ".join(match[2].split()))
        for line in text.splitlines()
        if (match := _LINE.match(line))
    )
    if done.returncode != 0 or not found:
        said = done.stderr.decode(errors="replace").strip() or "it found no code"
        raise CachebenchError(f"{command[0]} {path}: {said}")
    return found


def _objdump() -> str:
    """The one of the compiler, or else the one on PATH."""
    compiler = Toolchain.find().command
    with_compiler = subprocess.run(
        [*compiler, "-print-prog-name=objdump"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    for name in (os.fsdecode(with_compiler.stdout).strip(), "objdump", "llvm-objdump"):
        if name and (path := shutil.which(name)):
            return path
    raise CachebenchError("there is no objdump, which tells instructions apart: install binutils")
