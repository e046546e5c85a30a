# SPDX-License-Identifier: BSD-3-Clause
"""Layouts by name or by path, and where the package keeps its C files."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from cachebench._core import ffi, lib
from cachebench.errors import CachebenchError

LONGEST_NAME = 64
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMENT = re.compile(r"/\*(?P<block>.*?)\*/|(?P<lines>//[^\n]*(?:\n[ \t]*//[^\n]*)*)", re.DOTALL)
_DIRECTIVE = re.compile(r"#(?:[^\n\\]|\\.)*", re.DOTALL)


@dataclass(frozen=True)
class Layout:
    """A session layout: its name, and the header that holds it, as it was typed."""

    name: str
    header: Path
    builtin: bool


def csrc_folder() -> Path:
    """The folder of the C sources that a plug-in is compiled from."""
    return Path(str(resources.files("cachebench") / "csrc"))


def driver_path() -> Path:
    """The C program that runs a plan without Python."""
    return Path(str(resources.files("cachebench") / "bin" / "cachebench-driver"))


def layouts_folder() -> Path:
    """The folder of the built-in headers and of the contract, README.md."""
    return Path(str(resources.files("cachebench") / "layouts"))


def builtin_layouts() -> tuple[Layout, ...]:
    """The layouts that are compiled into this cachebench, in alphabetical order."""
    names: list[str] = []
    while (ops := lib.cb_builtin_at(len(names))) != ffi.NULL:
        names.append(ffi.string(ops.layout).decode())
    folder = layouts_folder()
    return tuple(Layout(name, folder / f"{name}.h", True) for name in sorted(names))


def find(name_or_path: str) -> Layout:
    """The layout that a user means: what has a slash or ends in .h is a path."""
    if "/" in name_or_path or name_or_path.endswith(".h"):
        return _from_path(name_or_path)
    layouts = {layout.name: layout for layout in builtin_layouts()}
    if name_or_path in layouts:
        return layouts[name_or_path]
    close = difflib.get_close_matches(name_or_path, layouts, n=2)
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    raise CachebenchError(
        f"no layout {name_or_path!r}: {guess}There are {', '.join(layouts)}; "
        "a header of your own is given by its path"
    )


def description(layout: Layout) -> str:
    """The first comment of the header, licence aside, as one line of text.

    Only comments before the first line of code count. A leading "NAME: " is left
    out. Without such a comment the description is empty.
    """
    try:
        source = layout.header.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise _unreadable(layout.header, error) from None
    at = 0
    while True:
        at += len(source[at:]) - len(source[at:].lstrip())
        comment = _COMMENT.match(source, at)
        skipped = comment or _DIRECTIVE.match(source, at)
        if skipped is None:
            return ""
        at = skipped.end()
        if comment is None or re.search(r"SPDX-License-Identifier|Copyright", comment[0]):
            continue
        if comment["block"] is not None:
            text = re.sub(r"^[ \t]*\*", "", comment["block"], flags=re.MULTILINE)
        else:
            text = re.sub(r"^[ \t]*//", "", comment["lines"], flags=re.MULTILINE)
        return " ".join(text.split()).removeprefix(f"{layout.name}: ")


def _from_path(typed: str) -> Layout:
    header = Path(typed)
    if header.exists() and not header.is_file():
        raise CachebenchError(f"cannot read the layout {typed}: it is no regular file")
    try:
        with header.open("rb") as file:
            file.read(1)
    except (OSError, ValueError) as error:
        raise _unreadable(header, error) from None
    if not _IDENTIFIER.fullmatch(header.stem):
        raise CachebenchError(
            f"{typed}: a layout is named after its file, and {header.stem!r} is no C identifier: "
            "rename the file to letters, digits and underscores"
        )
    if len(header.stem) > LONGEST_NAME:
        raise CachebenchError(
            f"{typed}: a layout's name has {LONGEST_NAME} characters at most: rename the file"
        )
    return Layout(header.stem, header, False)


def _unreadable(header: Path, error: OSError | ValueError) -> CachebenchError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return CachebenchError(f"cannot read the layout {header}: {reason}")
