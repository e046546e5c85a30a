# SPDX-License-Identifier: BSD-3-Clause
"""Files that tests compare with but the repository does not hold.

They are looked for in ``../shared`` relative to the repository, or in the
folder that the environment variable CACHEBENCH_SHARED names. A test that asks
for files which are not there is skipped, and says where they were looked for.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def captures() -> Path:
    """The folder of packet captures, with ``oracles.json``."""
    return _folder("captures", "captures")


def perf_samples() -> Path:
    """The folder of recorded ``perf stat`` output."""
    return _folder("perf-samples", "perf samples")


def _folder(name: str, called: str) -> Path:
    beside_the_repository = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("CACHEBENCH_SHARED") or beside_the_repository) / name
    if not folder.is_dir():
        pytest.skip(
            f"shared {called} absent at {folder}; set CACHEBENCH_SHARED to name another folder"
        )
    return folder
