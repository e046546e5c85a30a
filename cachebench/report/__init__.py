# SPDX-License-Identifier: BSD-3-Clause
"""Reporters: each is handed a Result and makes one form of it."""

from __future__ import annotations

from collections.abc import Callable

from cachebench.model import Result
from cachebench.report import csvfile, pyperfjson

EXPORTERS: dict[str, Callable[[Result], str]] = {
    "csv": csvfile.render,
    "pyperf": pyperfjson.render,
}
