# SPDX-License-Identifier: BSD-3-Clause
"""Miss-ratio curves: the document, the text and the picture."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cachebench.analyze import curve, curveplot
from cachebench.cli import main
from cachebench.model import Experiment, Traced, TraceResult
from cachebench.tracemodel import Geometry, Level, TracedArena, TraceSample

GEOMETRY = "l1=48k/12,l2=2M/16,llc=32M/16,dtlb=64/4,stlb=2048/16"
POINT = ("--sessions", "50k", "--lookups", "20k", "--warm-up", "5k", "--geometry", GEOMETRY)
SVG = "{http://www.w3.org/2000/svg}"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["trace", *arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["trace", *arguments])
    captured = capsys.readouterr()
    line = captured.err.splitlines()[-1]
    assert (code, captured.out) == (2, "")
    return line


def arena(name: str, *distances: tuple[int, float]) -> TracedArena:
    return TracedArena(
        name=name, type="t", stride=64, elements=9, lines=0, places=(), distances=distances
    )


def traced(layout: str, *arenas: TracedArena) -> Traced:
    sample = TraceSample(lookups=100, arenas=arenas, seconds=1.0, counted_seconds=1.0)
    return Traced(
        layout=layout,
        prefetch_steps=0,
        objects=(),
        sample=sample,
        curve=curve.evaluate(sample),
    )


def result(*results: Traced, rate: float | None = 1.0) -> TraceResult:
    none = Level(ways=0, sets=0)
    return TraceResult(
        schema="cachebench.trace/1",
        spec=Experiment(layouts=tuple(each.layout for each in results)),
        geometry=Geometry(
            caches=(Level(ways=12, sets=64), Level(ways=16, sets=2048), none),
            tlbs=(none, none),
            page_bits=12,
            source="",
        ),
        lookups=100,
        warm_up=0,
        prefetch=True,
        curve_rate=rate,
        results=results,
    )


# ---- Figures


def test_a_cache_holds_what_was_used_with_fewer_other_lines_in_between() -> None:
    found = traced("a", arena("x", (0, 50.0), (512, 30.0), (640, 15.0), (-1, 5.0))).curve
    assert found is not None
    at = dict(zip(found.cache_bytes, found.total, strict=True))
    assert at[32 << 10] == pytest.approx(0.5)  # 512 lines: all but the first bucket
    assert at[40 << 10] == pytest.approx(0.2)  # 640 lines
    assert at[48 << 10] == at[1 << 30] == pytest.approx(0.05)  # what was never used before


def test_sizes_are_where_buckets_begin() -> None:
    from cachebench._core import lib

    floors = {lib.cb_stackdist_floor(bucket) for bucket in range(lib.CB_STACKDIST_BUCKETS - 1)}
    assert {size // 64 for size in curve.SIZES} <= floors
    assert (curve.SIZES[0], curve.SIZES[-1]) == (32 << 10, 1 << 30)
    assert list(curve.SIZES) == sorted(set(curve.SIZES))
    assert len(curve.SIZES) == 15 * 4 + 1


def test_the_document_has_the_misses_of_each_object(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "--layout", "pointer", "--curve", "--json", *POINT))
    (entry,) = document["results"]
    found = entry["curve"]
    histograms = {each["name"]: each["distances"] for each in entry["sample"]["arenas"]}
    assert {"bucket", "key", "session", "policer", "stats", "action", "qos", "rules"} == set(
        found["objects"]
    )
    for row, size in enumerate(found["cache_bytes"]):
        for name, values in found["objects"].items():
            beyond = [n for distance, n in histograms[name] if not 0 <= distance < size / 64]
            assert values[row] == pytest.approx(sum(beyond) / 20_000)
        assert found["total"][row] == pytest.approx(sum(v[row] for v in found["objects"].values()))
    assert found["total"] == sorted(found["total"], reverse=True)
    assert found["total"][0] > 8


def test_a_trace_without_a_curve_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "--layout", "flat", "--json", *POINT))
    assert document["results"][0]["curve"] is None
    assert "cache" not in run(capsys, "--layout", "flat", *POINT).split()


def test_a_rate_that_follows_no_line_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--sessions", "1", "--rules", "1", "--profiles", "1", "--lookups", "10")
    line = fails(capsys, "--curve", "--curve-rate", "1e-6", *few, "--geometry", GEOMETRY)
    assert "no line that is followed" in line
    assert "type a larger share" in line


# ---- Text


@pytest.mark.parametrize("layout", ["pointer", "soa"])
def test_the_text_has_a_row_for_each_object(
    layout: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    options = ("--layout", layout, "--layout", "flat", "--curve", *POINT)
    text = run(capsys, *options)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    document = json.loads(run(capsys, *options, "--json"))
    for entry in document["results"]:
        found: dict[str, Any] = entry["curve"]
        lines = text.splitlines()
        begin = next(
            number
            for number, line in enumerate(lines)
            if line.split()[:2] == [entry["layout"], "32K"]
        )
        end = next(n for n in range(begin, len(lines)) if lines[n].startswith("all "))
        cells = [line.split() for line in lines[begin + 2 : end + 1] if line.strip()]
        rows = {name: numbers for name, *numbers in cells}
        assert set(rows) == {*found["objects"], "all"}
        two_megabytes = found["cache_bytes"].index(2 << 20)
        for name, values in (*found["objects"].items(), ("all", found["total"])):
            shown = rows[name][3] if len(rows[name]) > 3 else ""
            assert shown == (f"{values[two_megabytes]:.2f}" if values[two_megabytes] else ""), name


def test_an_object_without_a_followed_line_is_no_zero(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--layout", "pointer", "--profiles", "1", "--curve-rate", "0.01", "--curve", *POINT)
    document = json.loads(run(capsys, *options, "--json"))
    assert "qos" not in document["results"][0]["curve"]["objects"]
    (row,) = [line for line in run(capsys, *options).splitlines() if line.startswith("qos ")]
    assert row.split() == ["qos", *["-"] * 9]


# ---- The picture


def texts(picture: str) -> list[str]:
    return ["".join(item.itertext()) for item in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_the_picture_has_each_object_the_total_and_the_caches(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "curve.svg"
    text = run(capsys, "--layout", "pointer", "--svg", str(file), *POINT)
    assert "32M" in text  # the curve is asked for by its picture
    picture = file.read_text()
    found = texts(picture)
    for word in ("pointer", "all", "bucket", "policer", "action", "cache size"):
        assert word in found
    assert {"L1d 48K", "L2 2M", "LLC 32M"} <= set(found)
    assert any("50,000 sessions, bulk" in each for each in found)
    caption = " ".join(found)
    assert "simulated, LRU, fully associative, no hardware prefetch" in caption
    assert "over 0.1 of the lines" in caption
    assert len(picture) < 200_000
    run(capsys, "--layout", "pointer", "--svg", str(file), *POINT)
    assert file.read_text() == picture


Points = list[tuple[float, float]]


def panel(picture: str, number: int) -> Any:
    root = ElementTree.fromstring(picture)
    (found,) = [item for item in root.iter(f"{SVG}g") if item.get("id") == f"axes_{number}"]
    return found


def points(path: str) -> Points:
    numbers = [float(number) for number in re.findall(r"-?[0-9.]+", path)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def curves(picture: str, number: int) -> list[Points]:
    """Strokes of a panel that go over all sizes: totals."""
    found = [
        points(item.attrib["d"])
        for item in panel(picture, number).iter(f"{SVG}path")
        if "fill: none" in item.get("style", "")
    ]
    return [each for each in found if len(each) > 20]


def bands(picture: str, number: int) -> list[tuple[str, Points, Points]]:
    """Colour, upper and lower edge of each object in a panel, from left to right."""
    found = []
    for group in panel(picture, number).iter(f"{SVG}g"):
        path, use = group.find(f"{SVG}defs/{SVG}path"), group.find(f"{SVG}g/{SVG}use")
        if path is None or use is None or "z" not in path.attrib["d"]:
            continue
        edges: dict[float, list[float]] = {}
        for x, y in points(path.attrib["d"]):
            edges.setdefault(x + float(use.attrib["x"]), []).append(y + float(use.attrib["y"]))
        (colour,) = re.findall(r"fill: (#\w+)", use.attrib["style"])
        upper = [(x, min(edges[x])) for x in sorted(edges)]
        found.append((colour, upper, [(x, max(edges[x])) for x in sorted(edges)]))
    return found


def lies_on(edge: Points, other: Points) -> bool:
    return len(edge) == len(other) and all(
        math.dist(a, b) < 0.01 for a, b in zip(edge, other, strict=True)
    )


def test_several_layouts_have_a_panel_each_and_one_for_their_totals() -> None:
    wide = arena("x", (0, 50.0), (2048, 30.0), (65536, 100.0))
    low = arena("y", (0, 50.0), (40960, 20.0))
    picture = curveplot.svg(result(traced("a", wide, low), traced("b", low)), "a title")
    assert "a title" in texts(picture)
    assert texts(picture).count("all layouts") == 1
    assert [len(curves(picture, number)) for number in (1, 2, 3)] == [2, 1, 1]
    assert [len(bands(picture, number)) for number in (1, 2, 3)] == [0, 2, 1]
    # One scale: b's total is where it is among the totals, only in another row.
    first, second = curves(picture, 1)[1], curves(picture, 3)[0]
    down = second[0][1] - first[0][1]
    assert all(q[1] - p[1] == pytest.approx(down) for p, q in zip(first, second, strict=True))
    assert "axes_5" not in picture
    # No LLC is simulated here.
    assert {"L1d 48K", "L2 2M"} <= set(texts(picture))
    assert not any("LLC" in text for text in texts(picture))


def test_objects_stand_on_each_other_up_to_the_total() -> None:
    x, y = arena("x", (1024, 60.0), (2048, 90.0)), arena("y", (4096, 150.0), (65536, 300.0))
    unused = arena("z", (0, 50.0))
    picture = curveplot.svg(result(traced("a", x, unused, y)), "")
    (total,) = curves(picture, 1)
    (_, x_top, x_bottom), (_, y_top, y_bottom) = bands(picture, 1)
    assert lies_on(x_top, total)
    assert lies_on(y_top, x_bottom)
    level = y_bottom[0][1]
    assert all(point[1] == pytest.approx(level) for point in y_bottom)
    # 1.5 misses of x stand on 4.5 of y at 32 KiB.
    assert (x_bottom[0][1] - x_top[0][1]) * 3 == pytest.approx(level - y_top[0][1])
    assert [text for text in texts(picture) if text in "xyz"] == ["x", "y"]


def test_one_object_has_one_colour_in_all_panels_and_its_parts_have_shades_of_it() -> None:
    names = ("x", "stats", "y", "stats.bytes", "stats.packets")
    picture = curveplot.svg(
        result(
            traced("a", arena("x", (2048, 30.0)), arena("stats", (2048, 30.0))),
            traced("b", arena("y", (2048, 30.0)), arena("x", (2048, 20.0))),
            traced("c", *(arena(name, (2048, 30.0)) for name in names[2:])),
        ),
        "",
    )
    (x, stats), (y, x_again), (y_again, whole, part) = (
        [colour for colour, *_ in bands(picture, number)] for number in (2, 3, 4)
    )
    assert (x_again, y_again, whole) == (x, y, stats)
    assert len({x, y, stats, part}) == 4
    shares = [
        (int(part[at : at + 2], 16) - int(stats[at : at + 2], 16))
        / (255 - int(stats[at : at + 2], 16))
        for at in (1, 3, 5)
    ]
    assert shares == pytest.approx([curveplot.PALEST] * 3, abs=0.02)


def test_nothing_that_misses_is_a_picture_too() -> None:
    picture = curveplot.svg(result(traced("a", arena("x", (0, 50.0)))), "")
    assert "all" in texts(picture)
    assert "x" not in texts(picture)


def test_a_trace_without_curves_has_no_picture() -> None:
    bare = Traced(
        layout="a",
        prefetch_steps=0,
        objects=(),
        sample=TraceSample(lookups=1, arenas=(), seconds=1.0, counted_seconds=1.0),
    )
    with pytest.raises(ValueError, match="no curve"):
        curveplot.svg(result(bare), "")


def test_a_picture_that_cannot_be_written_is_known_before_tracing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = fails(capsys, "--svg", str(tmp_path / "none" / "a.svg"), "--sessions", "500M")
    assert "cannot write" in line
