# SPDX-License-Identifier: BSD-3-Clause
"""Fabricated machines: trees of /proc and /sys that tests lay out in a folder of their own.

``data/machines/NAME.txt`` is one machine: ``PATH = TEXT`` is a file of one line,
a PATH alone one whose lines follow, each behind a tab. ``NAME.doctor.txt`` is
what the doctor says of it.
"""

from __future__ import annotations

from pathlib import Path

MACHINES = Path(__file__).parent / "data" / "machines"


def lay_out(name: str, root: Path) -> Path:
    """Writes the files of a stored machine below ``root``, and returns ``root``."""
    file = root
    for row in (MACHINES / f"{name}.txt").read_text().splitlines():
        if row.startswith("/"):
            path, _, text = row.partition(" = ")
            file = root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n" if text else "")
        else:
            with file.open("a") as out:
                out.write(row.removeprefix("\t") + "\n")
    return root


def write(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def doctor_lines(name: str) -> list[str]:
    return (MACHINES / f"{name}.doctor.txt").read_text().splitlines()
