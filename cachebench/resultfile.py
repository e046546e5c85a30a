# SPDX-License-Identifier: BSD-3-Clause
"""Result documents on disk: written whole or not at all, read with their version checked."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from cachebench.errors import CachebenchError
from cachebench.model import SCHEMA, Result

LONGEST_NAME = 255
"""Bytes, of the usual file systems."""


def encode(result: Result) -> str:
    """The document as text."""
    return msgspec.json.format(msgspec.json.encode(result), indent=1).decode() + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of the document; unknown members are allowed."""
    return msgspec.json.schema(Result)


def check_writable(path: str) -> None:
    """Raises CachebenchError before anything is run, if write() would fail later."""
    target = Path(path).resolve()
    if len(os.fsencode(target.name)) > LONGEST_NAME:
        raise CachebenchError(f"cannot write {path}: the name is too long; type a shorter one")
    if target.is_dir():
        raise CachebenchError(f"cannot write {path}: it is a folder; type a file name")
    if target.exists() and not target.is_file():
        return
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".cachebench-")
        os.close(handle)
        Path(name).unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def write(path: str, text: str) -> None:
    """Writes under a temporary name in the same folder, then renames.

    A symbolic link stays one; what is no regular file, such as a pipe, is written to.
    """
    target = Path(path).resolve()
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
            return
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".cachebench-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            mask = os.umask(0)
            os.umask(mask)
            Path(name).chmod(0o666 & ~mask)
            Path(name).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: str, error: OSError) -> CachebenchError:
    return CachebenchError(
        f"cannot write {path}: {error.strerror}; type -o with a file in a folder you may write to"
    )


def read(path: str) -> Result:
    """Reads a document; raises CachebenchError if it is none, or of another version."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CachebenchError(f"cannot read {path}: {error.strerror}") from None
    try:
        head = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CachebenchError(f"{path} is no result file: {error}") from None
    name = head.get("schema") if isinstance(head, dict) else None
    if name != SCHEMA:
        raise CachebenchError(f"{path} is no {SCHEMA} document: its schema is {name!r}")
    try:
        return msgspec.convert(head, Result)
    except msgspec.ValidationError as error:
        raise CachebenchError(f"{path} is a damaged {SCHEMA} document: {error}") from None
