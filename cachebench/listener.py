# SPDX-License-Identifier: BSD-3-Clause
"""Who is told how far a command has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Listener(Protocol):
    """Hears facts and steps while processes run."""

    def message(self, text: str) -> None:
        """A fact that the user should see before the result."""

    def step(self, text: str, done: int, total: int) -> None:
        """What is being done, and how many processes have ended."""


@dataclass(frozen=True)
class Step:
    """Passes on what one process says it is doing."""

    listener: Listener
    what: str
    done: int
    total: int

    def __call__(self, doing: str) -> None:
        self.listener.step(f"{self.what}: {doing}", self.done, self.total)
