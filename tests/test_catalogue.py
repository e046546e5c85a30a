# SPDX-License-Identifier: BSD-3-Clause
"""Layouts by name and by path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from core import LAYOUTS

from cachebench.catalogue import (
    Layout,
    builtin_layouts,
    csrc_folder,
    description,
    find,
    layouts_folder,
)
from cachebench.errors import CachebenchError


def refusal(name_or_path: str) -> str:
    with pytest.raises(CachebenchError) as caught:
        find(name_or_path)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)


def described(folder: Path, source: str) -> str:
    header = folder / "mine.h"
    header.write_text(source)
    return description(Layout("mine", header, False))


def test_the_eight_layouts_are_built_in_and_their_headers_installed() -> None:
    layouts = builtin_layouts()
    assert [layout.name for layout in layouts] == sorted(LAYOUTS)
    known = {"pointer", "flat", "flat5", "hotcold", "index32", "soa", "embedded", "packed"}
    assert known <= {layout.name for layout in layouts}
    for layout in layouts:
        assert layout.builtin
        assert "layout_process" in layout.header.read_text()


def test_the_sources_of_plugins_and_the_contract_are_installed() -> None:
    assert (csrc_folder() / "kernel.c").is_file()
    assert (layouts_folder() / "README.md").is_file()


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_name_finds_the_builtin_layout(name: str) -> None:
    assert find(name) == Layout(name, layouts_folder() / f"{name}.h", True)


def test_an_unknown_name_is_told_with_what_there_is_and_what_is_close() -> None:
    message = refusal("flta")
    assert "'flta'" in message
    assert "did you mean flat" in message
    assert all(name in message for name in LAYOUTS)


def test_nothing_is_suggested_for_a_name_that_is_like_none() -> None:
    assert "did you mean" not in refusal("zzzzzz")


def test_what_ends_in_h_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.h").write_text("")
    assert find("mine.h") == Layout("mine", Path("mine.h"), False)


def test_what_has_a_slash_is_a_path(tmp_path: Path) -> None:
    header = tmp_path / "mine.layout"
    header.write_text("")
    assert find(str(header)) == Layout("mine", header, False)


def test_the_header_of_a_builtin_layout_given_by_path_is_the_users_own() -> None:
    header = layouts_folder() / "flat.h"
    assert find(str(header)) == Layout("flat", header, False)


def test_a_missing_header_is_told_with_its_path_and_the_reason() -> None:
    assert refusal("no/such.h") == "cannot read the layout no/such.h: No such file or directory"


def test_a_folder_is_no_layout(tmp_path: Path) -> None:
    assert "no regular file" in refusal(f"{tmp_path}/")


def test_a_path_that_no_file_can_have_is_refused() -> None:
    assert "null" in refusal("a\0b.h")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_header_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    header = tmp_path / "mine.h"
    header.write_text("")
    header.chmod(0)
    assert "Permission denied" in refusal(str(header))


@pytest.mark.parametrize("stem", ["my-layout", "5flat", "a b", "größe", ".hidden"])
def test_a_file_name_that_is_no_c_identifier_is_refused(tmp_path: Path, stem: str) -> None:
    header = tmp_path / f"{stem}.h"
    header.write_text("")
    message = refusal(str(header))
    assert str(header) in message
    assert "no C identifier" in message


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_builtin_layout_describes_itself(name: str) -> None:
    text = description(find(name))
    assert len(text) > 30
    assert text.endswith(".")
    assert "SPDX" not in text
    assert not text.startswith(name)
    assert "\n" not in text


def test_a_description_is_the_first_comment_after_licence_guard_and_includes(
    tmp_path: Path,
) -> None:
    source = """/* SPDX-License-Identifier: MIT */
        /* Copyright somebody */
        #ifndef MINE_H
        #define MINE_H some \\
            thing
        /* mine: one line
         * and the next. */
        /* Not this one. */
        """
    assert described(tmp_path, source) == "one line and the next."


def test_line_comments_describe_too(tmp_path: Path) -> None:
    source = "// SPDX-License-Identifier: MIT\n\n// First\n// and second.\n\n// Third.\n"
    assert described(tmp_path, source) == "First and second."


def test_a_comment_after_the_first_code_describes_nothing(tmp_path: Path) -> None:
    assert described(tmp_path, "typedef int layout_slot; /* a slot */\n") == ""
    assert described(tmp_path, "") == ""
    assert described(tmp_path, "/* never ends") == ""


def test_a_header_that_is_not_utf8_is_described_all_the_same(tmp_path: Path) -> None:
    header = tmp_path / "mine.h"
    header.write_bytes(b"/* gr\xf6\xdfer */")
    assert description(Layout("mine", header, False)) == "gr\ufffd\ufffder"
