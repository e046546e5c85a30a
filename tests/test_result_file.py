# SPDX-License-Identifier: BSD-3-Clause
"""Result documents: schema, versions, writing whole or not at all."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
from results import result

from cachebench import resultfile
from cachebench.errors import CachebenchError

SHIPPED = resources.files("cachebench") / "schema" / "cachebench.run-1.json"


def test_the_shipped_schema_is_the_one_of_the_code() -> None:
    # Written by json.dumps(resultfile.schema(), indent=1).
    assert json.loads(SHIPPED.read_text()) == json.loads(json.dumps(resultfile.schema()))


def test_a_document_is_valid_by_the_shipped_schema() -> None:
    document = json.loads(resultfile.encode(result("flat", "pointer")))
    jsonschema.Draft202012Validator(json.loads(SHIPPED.read_text())).validate(document)


def test_the_schema_refuses_a_figure_without_a_source() -> None:
    document = json.loads(resultfile.encode(result("flat")))
    del document["results"][0]["figures"]["ns_per_lookup"]["source"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(SHIPPED.read_text()))


def test_a_written_document_reads_back_equal(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    written = result("flat", "pointer")
    resultfile.write(str(file), resultfile.encode(written))
    assert resultfile.read(str(file)) == written


def test_unknown_members_are_allowed(tmp_path: Path) -> None:
    document = json.loads(resultfile.encode(result("flat")))
    document["results"][0]["invented"] = document["invented"] = 1
    file = tmp_path / "result.json"
    file.write_text(json.dumps(document))
    assert resultfile.read(str(file)) == result("flat")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(schema="cachebench.run/2"), "its schema is 'cachebench.run/2'"),
        (lambda d: d.pop("schema"), "its schema is None"),
        (lambda d: d.pop("results"), "damaged"),
        (lambda d: d["spec"].update(sessions="many"), "damaged"),
    ],
)
def test_another_document_is_refused_by_name(tmp_path: Path, change: object, says: str) -> None:
    document = json.loads(resultfile.encode(result("flat")))
    change(document)  # type: ignore[operator]
    file = tmp_path / "other.json"
    file.write_text(json.dumps(document))
    with pytest.raises(CachebenchError, match=says):
        resultfile.read(str(file))


@pytest.mark.parametrize("text", ["", "[1]", "{", "\x00\xff"])
def test_what_is_no_document_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "none.json"
    file.write_text(text)
    with pytest.raises(CachebenchError, match=r"none\.json"):
        resultfile.read(str(file))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        resultfile.write(str(file), "new \ud800")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_unwritable_place_is_told_before_anything_runs(tmp_path: Path) -> None:
    for place in (tmp_path / "absent" / "x.json", tmp_path):
        with pytest.raises(CachebenchError, match="cannot write"):
            resultfile.check_writable(str(place))
