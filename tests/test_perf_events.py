# SPDX-License-Identifier: BSD-3-Clause
"""Which events are counted on which CPU, and what is said where none is right."""

from __future__ import annotations

import pytest

from cachebench.perfstat.events import (
    FIGURES,
    SOFTWARE,
    CpuModel,
    Event,
    Group,
    backend_share,
    cpu_model,
    groups,
    unavailable,
)
from cachebench.perfstat.figures import read_group
from cachebench.perfstat.parse import parse


def intel(model: int, stepping: int = 1) -> CpuModel:
    return cpu_model(
        f"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n"
        f"model name\t: Intel(R) Xeon(R) Processor\nstepping\t: {stepping}\n",
        "x86_64",
    )


def amd(family: int, model: int) -> CpuModel:
    return cpu_model(
        f"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        "model name\t: AMD EPYC 32-Core Processor\nstepping\t: 1\n",
        "x86_64",
    )


def arm(*parts: int, maker: int = 0x41) -> CpuModel:
    text = "".join(
        f"processor\t: {number}\nBogoMIPS\t: 50.00\nCPU implementer\t: {maker:#x}\n"
        f"CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: {part:#x}\nCPU revision\t: 1\n\n"
        for number, part in enumerate(parts)
    )
    return cpu_model(text, "aarch64")


MODELS = {
    "skylake-x": intel(0x55, 4),
    "cascadelake-x": intel(0x55, 7),
    "cooperlake-x": intel(0x55, 11),
    "skylake": intel(0x9E),
    "haswell-x": intel(0x3F),
    "icelake-x": intel(0x6A),
    "sapphire-rapids": intel(0x8F),
    "emerald-rapids": intel(0xCF),
    "granite-rapids": intel(0xAD),
    "alderlake": intel(0x97),
    "meteorlake": intel(0xAA),
    "arrowlake": intel(0xC6),
    "gracemont": intel(0xBE),
    "sierra-forest": intel(0xAF),
    "zen1": amd(0x17, 0x01),
    "zen2": amd(0x17, 0x31),
    "zen3": amd(0x19, 0x01),
    "zen4": amd(0x19, 0x11),
    "zen5": amd(0x1A, 0x02),
    "neoverse-n1": arm(0xD0C, 0xD0C),
    "neoverse-v1": arm(0xD40),
    "neoverse-n2": arm(0xD49),
    "neoverse-v2": arm(0xD4F),
}
ODD = [intel(0xFE), amd(0x15, 2), arm(0xAC3, maker=0xC0), arm(0xD05, 0xD0B), cpu_model("", "s390x")]


def names(model: CpuModel, role: str, **more: object) -> list[str]:
    found = groups(model, **more)  # type: ignore[arg-type]
    return [event.perf_name for group in found for event in group.events if event.role == role]


@pytest.mark.parametrize("name", MODELS)
def test_the_microarchitecture_is_named_from_cpuinfo(name: str) -> None:
    assert MODELS[name].name == name


def test_what_is_not_in_the_tables_is_unknown() -> None:
    assert {model.name for model in ODD} == {"unknown"}
    assert cpu_model("", "x86_64") == CpuModel("unknown", 0, 0, 0, "unknown")
    assert cpu_model("model\t: nonsense\nvendor_id : GenuineIntel", "x86_64").name == "unknown"
    assert arm(0xD05, 0xD0B).hybrid


@pytest.mark.parametrize("model", [*MODELS.values(), *ODD], ids=lambda model: str(model))
def test_groups_fit_the_counters_count_user_mode_and_say_what_they_count(model: CpuModel) -> None:
    found = groups(model)
    assert found[0] == SOFTWARE
    assert len({group.name for group in found}) == len(found)
    for group in found[1:]:
        kinds = {event.role for event in group.events} - {"cycles", "instructions"}
        assert len(group.events) <= (4 if model.vendor == "intel" else 5)
        assert kinds
        for event in group.events:
            assert event.perf_name.endswith((":u", "/u"))
            assert event.note
            assert "LLC-load" not in event.perf_name
        assert group.braced == ("slots" in kinds)
        if not group.braced:
            assert [event.role for event in group.events[:2]] == ["cycles", "instructions"]


@pytest.mark.parametrize("model", [*MODELS.values(), *ODD], ids=lambda model: str(model))
def test_each_figure_is_served_or_has_a_reason(model: CpuModel) -> None:
    served: set[str] = {event.role for group in groups(model) for event in group.events}
    if {"cycles", "instructions"} <= served:
        served.add("ipc")
    if backend_share(model) is not None:
        served.add("backend_stall_share")
    absent = unavailable(model)
    assert set(FIGURES) <= served | set(absent)
    assert not served & set(absent)
    assert all(absent.values())


@pytest.mark.parametrize(
    "name", ["skylake-x", "cascadelake-x", "icelake-x", "sapphire-rapids", "emerald-rapids"]
)
def test_intel_servers_count_retired_loads_that_missed_the_last_level(name: str) -> None:
    model = MODELS[name]
    assert names(model, "llc_misses") == ["mem_load_retired.l3_miss:u"]
    assert names(model, "l1d_misses") == ["l1d.replacement:u"]
    assert names(model, "dtlb_walks") == ["dtlb_load_misses.walk_completed:u"]


def test_slots_lead_a_braced_group_from_ice_lake_on_and_skylake_has_none() -> None:
    topdown = groups(MODELS["icelake-x"])[-1]
    assert [event.perf_name for event in topdown.events] == ["slots:u", "topdown-be-bound:u"]
    assert topdown.braced
    assert backend_share(MODELS["skylake-x"]) is None
    assert "slots" in unavailable(MODELS["skylake-x"])["backend_stall_share"]
    assert backend_share(MODELS["icelake-x"], "5.4.0-150-generic") is None
    assert "5.10" in unavailable(MODELS["icelake-x"], "5.4.0")["backend_stall_share"]
    assert backend_share(MODELS["icelake-x"], "6.1.0-18-amd64") is not None


def test_a_hybrid_cpu_names_the_counters_of_the_core_and_puts_the_modifier_after_the_slash() -> (
    None
):
    model = MODELS["alderlake"]
    assert model.hybrid
    assert names(model, "cycles")[0] == "cpu_core/cycles/u"
    assert names(model, "slots") == ["cpu_core/slots/u"]
    assert names(model, "llc_misses") == ["cpu_core/mem_load_retired.l3_miss/u"]
    assert names(model, "cycles", core="atom")[0] == "cpu_atom/cycles/u"
    assert names(model, "llc_misses", core="atom") == ["cpu_atom/mem_load_uops_retired.dram_hit/u"]
    assert names(model, "slots", core="atom") == []


def test_a_hybrid_cpu_whose_kernel_shows_one_kind_of_core_uses_plain_names() -> None:
    assert names(MODELS["alderlake"], "cycles", pmus={"cpu", "software"})[0] == "cycles:u"
    both = {"cpu_core", "cpu_atom", "software"}
    assert names(MODELS["alderlake"], "cycles", pmus=both)[0] == "cpu_core/cycles/u"


def test_e_cores_use_their_own_topdown_event_over_width_times_cycles() -> None:
    assert names(MODELS["gracemont"], "backend_slots") == ["topdown_be_bound.all:u"]
    share = backend_share(MODELS["gracemont"])
    assert share is not None
    assert share.of({"backend_slots": 10.0, "cycles": 4.0}) == 0.5
    assert "prefetch" in unavailable(MODELS["sierra-forest"])["llc_misses"]


def test_amd_never_uses_the_generic_backend_event_and_says_that_cache_misses_are_of_l2() -> None:
    for name in ("zen1", "zen2", "zen3"):
        assert backend_share(MODELS[name]) is None
        assert "stalled-cycles-backend" in unavailable(MODELS[name])["backend_stall_share"]
    for name in ("zen1", "zen2", "zen3", "zen4", "zen5"):
        asked = [event for group in groups(MODELS[name]) for event in group.events]
        assert not [event for event in asked if "stalled" in event.perf_name]
        notes = [event.note for event in asked if event.role == "cache_misses"]
        assert "L2 misses" in notes[0]
    share = backend_share(MODELS["zen5"])
    assert share is not None
    assert (share.numerator, share.denominator, share.factor) == ("backend_slots", "cycles", 8)


def test_zen_2_and_3_add_the_fills_of_both_nodes_and_zen_1_has_none() -> None:
    assert names(MODELS["zen3"], "llc_misses") == [
        "ls_dmnd_fills_from_sys.mem_io_local:u",
        "ls_dmnd_fills_from_sys.mem_io_remote:u",
    ]
    assert len(names(MODELS["zen2"], "llc_misses")) == 2
    assert names(MODELS["zen4"], "llc_misses") == ["ls_dmnd_fills_from_sys.dram_io_all:u"]
    assert "core complex" in unavailable(MODELS["zen1"])["llc_misses"]


def test_arm_counts_backend_stalls_over_cycles_and_says_that_cache_misses_are_of_l1d() -> None:
    model = MODELS["neoverse-n1"]
    assert names(model, "backend_stalls") == ["stalled-cycles-backend:u"]
    assert names(model, "dtlb_walks") == ["dtlb_walk:u"]
    assert names(model, "l1d_misses") == ["l1d_cache_refill_rd:u"]
    assert names(MODELS["neoverse-v2"], "l1d_misses") == ["l1d_cache_lmiss_rd:u"]
    share = backend_share(model)
    assert share is not None
    assert share.of({"backend_stalls": 30.0, "cycles": 40.0}) == 0.75


def test_arm_cores_of_two_kinds_get_the_software_group_alone() -> None:
    model = arm(0xD05, 0xD0B)
    assert groups(model) == (SOFTWARE,)
    assert set(unavailable(model)) == set(FIGURES)
    assert backend_share(model) is None


def test_a_share_that_is_none_is_not_given() -> None:
    share = backend_share(MODELS["icelake-x"])
    assert share is not None
    assert share.of({"backend_slots": 5.0}) is None
    assert share.of({"backend_slots": 5.0, "slots": 0.0}) is None
    assert share.of({"backend_slots": 5.0, "slots": 4.0}) is None


PARTS = Group(
    "cache",
    (
        Event("cycles:u", "cycles", "cycles"),
        Event("near:u", "llc_misses", "this node"),
        Event("far:u", "llc_misses", "the other node"),
    ),
)


def test_events_of_one_role_are_added_and_the_sum_is_missing_where_one_is() -> None:
    rows = "100;;cycles:u;9;100.00;;\n7;;near:u;9;100.00;;\n"
    cycles, misses = read_group(PARTS, parse(rows + "5;;far:u;9;100.00;;\n"))
    assert (cycles.role, cycles.value, cycles.reason) == ("cycles", 100.0, None)
    assert (misses.role, misses.value, misses.reason) == ("llc_misses", 12.0, None)
    assert misses.events == ("near:u", "far:u")
    _, misses = read_group(PARTS, parse(rows + "5;;far:u;4;44.00;;\n"))
    assert misses.value is None
    assert misses.reason == "far:u: it had a counter 44.00 % of the time: perf scaled the value"
