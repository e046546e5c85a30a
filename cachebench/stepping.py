# SPDX-License-Identifier: BSD-3-Clause
"""A function of this process executed one instruction at a time, in a copy of it.

The copy is a fork that the kernel's debugging interface stops after each
instruction. What it writes is its own; this process stays as it was.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

REGISTERS = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx"),
    *("rdx", "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss"),
)
"""The beginning of user_regs_struct of x86-64."""
PROGRAM_COUNTER = REGISTERS.index("rip")

_STRUCT_WORDS = 27
_TRACEME, _SINGLESTEP, _GETREGS, _SETOPTIONS = 0, 9, 12, 0x4200
_EXITKILL = 0x100000


Registers = ctypes.Array[ctypes.c_uint64]


class NoSteps(Exception):
    """This process cannot be stepped; why, in a few words."""


def steps(function: Callable[[], object], most: int) -> Iterator[Registers]:
    """Registers of a copy of this process before each of its instructions.

    They begin some time before ``function`` is called and end when the copy does,
    after ``most`` steps, or when the iterator is closed. The sequence is the same
    object each time.

    Raises NoSteps where the CPU is no x86-64 one or the kernel forbids it.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        raise NoSteps("instructions are stepped through on x86-64 alone")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    libc.ptrace.restype = ctypes.c_long
    try:
        child = os.fork()
    except OSError as error:
        raise NoSteps(f"no copy of the process: {error.strerror}") from None
    if child == 0:
        _be_stepped(libc, function)
    try:
        yield from _step(libc, child, most)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _be_stepped(libc: ctypes.CDLL, function: Callable[[], object]) -> None:
    """The copy: it does not come back."""
    try:
        if libc.ptrace(_TRACEME, 0, 0, 0) == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            function()
    finally:
        os._exit(0)


def _step(libc: ctypes.CDLL, child: int, most: int) -> Iterator[Registers]:
    registers: Registers = (ctypes.c_uint64 * _STRUCT_WORDS)()
    place = ctypes.addressof(registers)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        raise NoSteps("the kernel forbids ptrace here, as some container runtimes tell it to")
    libc.ptrace(_SETOPTIONS, child, 0, _EXITKILL)
    for _ in range(most):
        if libc.ptrace(_GETREGS, child, 0, place) != 0:
            raise NoSteps(f"ptrace: {os.strerror(ctypes.get_errno())}")
        yield registers
        libc.ptrace(_SINGLESTEP, child, 0, 0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP:
            return
