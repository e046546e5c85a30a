# SPDX-License-Identifier: BSD-3-Clause
"""What a run is doing, while it is."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar


class Progress:
    """What a run is doing, on standard error, and only if that is a terminal.

    Facts that the user should know before the result are told there, or else on
    standard output if ``facts`` says that it is for people.
    """

    def __init__(self, *, facts: bool) -> None:
        self._facts = facts
        self._console = Console(stderr=True, highlight=False)
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def message(self, text: str) -> None:
        if self._console.is_terminal:
            self._console.print(escape(text), soft_wrap=True)
        elif self._facts:
            print(text, flush=True)

    def step(self, text: str, done: int, total: int) -> None:
        self._bar.update(self._task, description=escape(text), completed=done, total=total)
