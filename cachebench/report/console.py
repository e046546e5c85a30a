# SPDX-License-Identifier: BSD-3-Clause
"""The terminal that reports are printed to."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class Terminal(Console):
    """Standard output. A reader that has enough of it is no error: BrokenPipeError is
    raised to the command line, where rich would exit with 1, which is a regression."""

    def __init__(self) -> None:
        super().__init__(highlight=False)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError
