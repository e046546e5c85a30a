# SPDX-License-Identifier: BSD-3-Clause
"""Reading perf's output: each recorded sample gives the counts that may be used, none other."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import shared_files
from hypothesis import given, settings
from hypothesis import strategies as st

from cachebench.perfstat.parse import parse
from cachebench.perfstat.report import Count, Refusal, Report, Scope, canonical, lookup

DATA = Path(__file__).parent / "data"
OWN = sorted((DATA / "perf").glob("*.txt"))
EXPECTED: dict[str, Any] = json.loads((DATA / "perf-expected.json").read_text())


def usable(report: Report) -> list[list[object]]:
    return [[count.event, count.value, scope(count.scope)] for count in report.counts]


def refused(report: Report) -> list[tuple[str | None, str]]:
    return [(refusal.event, refusal.kind) for refusal in report.refused]


def scope(value: Scope) -> dict[str, object]:
    parts = {
        "interval": value.interval_s,
        "cpu": value.cpu,
        "core": value.core,
        "aggregated": value.aggregated,
        "thread": value.thread,
        "cgroup": value.cgroup,
    }
    return {name: part for name, part in parts.items() if part is not None}


def own(name: str) -> Report:
    return parse((DATA / "perf" / name).read_text(encoding="utf-8"))


def sure(found: Count | Refusal) -> Count:
    assert isinstance(found, Count), found
    return found


def refusal(found: Count | Refusal) -> Refusal:
    assert isinstance(found, Refusal), found
    return found


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_recorded_sample_gives_the_counts_that_may_be_used_and_none_other(name: str) -> None:
    expected = EXPECTED[name]
    text = (shared_files.perf_samples() / name).read_text(encoding="utf-8")
    report = parse(text)
    assert report.form == expected["form"]
    assert usable(report) == expected["usable"]
    by_text = sorted(map(repr, refused(report)))
    assert by_text == sorted(repr(tuple(pair)) for pair in expected["refused"])
    assert all(one.reason for one in report.refused)


def test_every_recorded_sample_has_an_expectation() -> None:
    assert {path.name for path in shared_files.perf_samples().glob("*.txt")} == set(EXPECTED)


def test_a_recorded_sample_cut_anywhere_gives_no_count_that_the_whole_does_not_give() -> None:
    generator = random.Random(7)
    for path in sorted(shared_files.perf_samples().glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        for cut in generator.sample(range(len(text)), min(60, len(text))):
            assert facts(text[:cut]) <= facts(text), (path.name, cut)


def facts(text: str) -> set[tuple[object, ...]]:
    return {(c.event, c.value, c.unit, c.scope, c.line_number) for c in parse(text).counts}


def test_json_rows_count_among_headings_notices_and_further_metrics() -> None:
    report = own("json-counted.txt")
    assert report.form == "json"
    assert usable(report) == [
        ["cycles:u", 4e6, {}],
        ["instructions:u", 6e6, {}],
        ["l1d.replacement:u", 70000.0, {}],
        ["mem_load_retired.l3_miss:u", 25000.0, {}],
    ]
    assert report.refused == ()
    assert report.counts[0].runtime_ns == 2_000_000
    assert report.counts[0].percent_running == 100.0


def test_json_rows_that_did_not_run_all_of_the_time_are_refused_with_the_reason() -> None:
    report = own("json-refused.txt")
    assert report.counts == ()
    assert refused(report) == [
        ("cycles:u", "multiplexed"),
        ("ref-cycles:u", "multiplexed"),
        ("slots:u", "not-supported"),
        ("branches:u", "not-counted"),
        ("branch-misses:u", "not-counted"),
        ("instructions:u", "implausible"),
        ("page-faults", "malformed"),
        ("faults", "malformed"),
        ("cpu-migrations", "malformed"),
    ]
    assert "50.00 % of the time" in report.refused[0].reason
    assert report.refused[0].line_number == 1


def test_a_decimal_comma_in_json_is_read() -> None:
    report = own("json-german.txt")
    assert usable(report) == [["page-faults", 20051.0, {}], ["task-clock", 118.527843, {}]]
    assert report.counts[1].unit == "msec"


def test_an_object_wrapped_over_lines_with_the_percentage_glued_to_the_run_time_is_read() -> None:
    text = (
        '{"counter-value" : "6166.000000", "unit" : "", "event" :\n'
        '"context-switches", "event-runtime" : 3805723045100.00, "pcnt-running"\n'
        ': 100.00, "metric-value" : 1.620191, "metric-unit" : "K/sec"}\n'
    )
    count = sure(lookup(parse(text), "context-switches"))
    assert (count.value, count.runtime_ns) == (6166.0, 3805723045)


def test_the_variance_of_repeated_runs_is_an_error_in_percent() -> None:
    text = (
        '{"counter-value" : "1026.000000", "unit" : "", "event" : "page-faults", "variance" : 0.25,'
        ' "event-runtime" : 66117863, "pcnt-running" : 100.00}\n'
    )
    assert sure(lookup(parse(text), "page-faults")).error_percent == 0.25


def test_a_json_key_that_is_there_twice_makes_the_row_malformed() -> None:
    text = (
        '{"counter-value" : "1.000000", "counter-value" : "2.000000", "unit" : "",'
        ' "event" : "page-faults", "event-runtime" : 5, "pcnt-running" : 100.00}\n'
    )
    assert refused(parse(text)) == [("page-faults", "malformed")]


def test_text_glued_to_a_json_row_makes_it_malformed() -> None:
    row = (
        '{"counter-value" : "1026.000000", "unit" : "", "event" : "page-faults",'
        ' "event-runtime" : 5, "pcnt-running" : 100.00}'
    )
    assert usable(parse(row)) == [["page-faults", 1026.0, {}]]
    for text in (f"done{row}\n", f"{row}done\n", f"{row} {row}\n"):
        both = f"{row}\n{text}"
        assert refused(parse(both)) == [("page-faults", "malformed")]


def test_semicolons_keep_event_names_with_commas_whole() -> None:
    report = own("csv-semicolon.txt")
    assert report.form == "csv"
    assert usable(report) == [
        ["cpu/event=0xc0,umask=0x0/u", 812345.0, {}],
        ["cycles:u", 405000.0, {}],
    ]
    assert report.counts[1].error_percent == 0.12
    assert refused(report) == [
        ("cpu_core/branch-misses/u", "multiplexed"),
        ("cpu_atom/branch-misses/u", "not-counted"),
    ]


def test_commas_with_intervals_and_cpus_are_told_apart_and_a_cut_row_is_refused() -> None:
    report = own("csv-comma.txt")
    assert usable(report) == [
        ["cpu/event=0xd1,umask=0x20,name=l3/u", 512.0, {"interval": 0.050084657, "cpu": "2"}],
        ["page-faults", 9.0, {"interval": 0.100084657, "cpu": "2"}],
    ]
    assert refused(report) == [("slots", "not-supported"), ("page-faults", "malformed")]


def test_decimal_commas_between_commas_are_read_only_where_one_reading_is_left() -> None:
    report = own("csv-comma-german.txt")
    assert usable(report) == [
        ["page-faults", 1026.0, {}],
        ["task-clock", 64.01, {}],
        ["power/energy-cores/", 0.25, {"core": "S0-D0-C0", "aggregated": 1}],
    ]
    assert [count.error_percent for count in report.counts] == [0.06, 2.07, None]
    assert refused(report) == [
        ("cycles", "multiplexed"),
        ("branches", "malformed"),
        ("branches", "malformed"),
    ]


@pytest.mark.parametrize("sign", [",", ";", "|", "\t", "/", " ;", "~", "::", "!"])
def test_the_separator_may_be_any_sign(sign: str) -> None:
    fields = ["1026", "", "page-faults", "63009037", "100.00", "13.9", "K rate"]
    report = parse(sign.join(fields) + "\n")
    assert (report.form, usable(report)) == ("csv", [["page-faults", 1026.0, {}]])


def test_a_space_as_separator_leaves_the_two_words_of_perf_whole() -> None:
    report = parse("1026  page-faults 63009037 100.00  \n<not supported>  cycles 0 100.00  \n")
    assert usable(report) == [["page-faults", 1026.0, {}]]
    assert refused(report) == [("cycles", "not-supported")]


def test_interval_rows_before_the_heading_of_a_summary_are_read() -> None:
    text = (
        "#           time             counts unit events\n"
        "     0.020092331                138      page-faults\n"
        "     0.020092331               0.98 msec task-clock\n"
        "\n Performance counter stats for 'x':\n\n"
        "               241      page-faults\n\n"
        "       0.052856753 seconds time elapsed\n"
    )
    assert usable(parse(text)) == [
        ["page-faults", 138.0, {"interval": 0.020092331}],
        ["task-clock", 0.98, {"interval": 0.020092331}],
        ["page-faults", 241.0, {}],
    ]


def test_a_colon_as_separator_never_turns_a_modifier_into_a_cgroup() -> None:
    report = parse("1026::cycles:u:63009037:100.00::\n")
    assert report.counts == ()


def test_human_rows_are_taken_from_the_table_alone() -> None:
    report = own("human-english.txt")
    assert report.form == "human"
    assert usable(report) == [
        ["task-clock", 1203.5, {}],
        ["page-faults", 1026.0, {}],
        ["branches:u", 12345678.0, {}],
    ]
    assert report.counts[2].error_percent == 0.05
    assert refused(report) == [
        ("foo_bar", "malformed"),
        ("cycles:u", "multiplexed"),
        ("instructions:u", "multiplexed"),
        ("slots", "not-supported"),
        ("TopdownL1", "metric"),
        ("branch-misses:u", "malformed"),
        ("after-the-table", "malformed"),
    ]


def test_dots_between_thousands_are_read_where_the_text_shows_a_decimal_comma() -> None:
    report = own("human-german.txt")
    assert usable(report) == [
        ["page-faults", 20053.0, {}],
        ["task-clock", 119.96, {}],
        ["cycles:u", 1234567.0, {}],
    ]


def test_a_number_that_could_be_a_fraction_is_refused_without_a_witness_of_the_locale() -> None:
    report = own("human-no-witness.txt")
    assert usable(report) == [["context-switches", 12.0, {}]]
    assert refused(report) == [("page-faults", "malformed")]
    assert "more than one way" in report.refused[0].reason


def test_a_human_text_that_ends_inside_a_row_gives_no_count_for_it() -> None:
    head = " Performance counter stats for 'x':\n\n"
    row = "     4,012,345,678      cycles:u         #    3.334 GHz"
    for end in ("", "     (4", "     ( +-  0.55% )  (66.6"):
        assert parse(head + row + end).counts == ()
    assert len(parse(head + row + "\n").counts) == 1
    row = "     4,012,345,678      instructions:u   #    3.33  insn per cycle\n"
    assert parse(head + row).counts == ()
    assert len(parse(head + row + "\n").counts) == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        ("\n\n# started on Thu May  2 10:04:18 2019\n\n", "empty"),
        ("Events disabled\n", "empty"),
        ("Lorem ipsum, dolor; sit | amet\n", "not-perf"),
        ('{"name": "value"}\n', "not-perf"),
        ("<html></html>\n", "not-perf"),
        ("The cycles event is not supported.\n", "not-supported"),
        ("event syntax error: 'nosuchevent'\n", "message"),
        ("sh: Segmentation fault\n", "died"),
    ],
)
def test_a_text_without_rows_gives_a_refusal_that_says_what_it_is(text: str, kind: str) -> None:
    report = parse(text)
    assert (report.form, report.counts) == ("none", ())
    assert [one.kind for one in report.refused] == [kind]


def test_a_table_of_something_else_is_not_perf() -> None:
    assert [one.kind for one in own("not-perf.txt").refused] == ["not-perf"]
    assert parse("                12 foo_bar\n               100 test.cases\n").counts == ()


def test_a_lookup_wants_the_same_modifiers_and_one_row() -> None:
    report = own("json-counted.txt")
    assert sure(lookup(report, "cycles:u")).value == 4e6
    assert sure(lookup(report, "cpu/cycles/u")).value == 4e6
    assert refusal(lookup(report, "cycles")).kind == "missing"
    assert refusal(lookup(report, "cpu_core/cycles/u")).kind == "missing"
    twice = parse("5;;cs;7;100.00;;\n6;;cs;7;100.00;;\n")
    assert "2 rows" in refusal(lookup(twice, "cs")).reason
    assert refusal(lookup(own("csv-comma.txt"), "page-faults")).kind == "malformed"
    syntax = parse("event syntax error: 'nosuchevent'\n")
    assert "does not know" in refusal(lookup(syntax, "nosuchevent")).reason


def test_an_event_name_is_taken_apart() -> None:
    assert canonical("page-faults [software]") == canonical("page-faults")
    assert canonical("CPU/Cycles/u") == canonical("cycles:u")
    assert canonical("cpu_core/cycles/u").pmu == "cpu_core"
    assert canonical("cycles:ku") == canonical("cycles:uk") != canonical("cycles")


@given(st.text())
def test_no_text_makes_the_parser_raise(text: str) -> None:
    report = parse(text)
    assert report.counts or report.refused


FRAGMENTS = [
    *(' "{}:,/%()[]#<>;|\n\t.-+'),
    '{"counter-value" : "',
    "<not counted>",
    "<not supported>",
    "cycles:u",
    "page-faults",
    "100.00",
    "100,00",
    "1.234.567",
    " seconds time elapsed",
    "9" * 5000,
    "\u0663",
    "\u202f",
    "nan",
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join))
def test_no_mixture_of_perf_fragments_makes_the_parser_raise(text: str) -> None:
    report = parse(text)
    assert report.counts or report.refused


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A sample with pieces cut, doubled or replaced, or two samples spliced."""
    text = draw(st.sampled_from(OWN)).read_text(encoding="utf-8")
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        stop = draw(st.integers(start, min(len(text), start + 80)))
        other = draw(st.sampled_from(OWN)).read_text(encoding="utf-8")
        choices = ["", text[start:stop] * 2, other[start:stop], draw(st.text(max_size=5))]
        text = text[:start] + draw(st.sampled_from(choices)) + text[stop:]
    return text


@settings(max_examples=400)
@given(mutated())
def test_a_mutated_sample_never_raises_nor_counts_what_perf_says_was_not_counted(
    text: str,
) -> None:
    report = parse(text)
    lines = text.split("\n")
    for count in report.counts:
        assert "<not" not in lines[count.line_number - 1]
        assert count.value >= 0.0
        assert count.runtime_ns is None or count.runtime_ns > 0
        assert count.percent_running is None or count.percent_running >= 99.995
    assert report.counts or report.refused


def test_blank_and_unclosed_texts_of_200000_signs_are_read_in_seconds() -> None:
    for text in ("\n" * 200_000, " " * 200_000, "{" * 200_000, "1 " * 100_000, "(" * 200_000):
        assert parse(text).counts == ()
