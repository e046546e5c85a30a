# SPDX-License-Identifier: BSD-3-Clause
"""What is read of a machine: fabricated trees, and the machine that runs the tests."""

from __future__ import annotations

import getpass
import json
import os
import socket
import time
from pathlib import Path

import pytest
from machines import lay_out, write

from cachebench.machine.cpus import allowed_cpus, pick_cpu
from cachebench.machine.environment import FACTS, collect
from cachebench.machine.jiffies import cpu_times, steal_share
from cachebench.machine.tree import Tree, Unknown, format_cpu_list, parse_cpu_list


def value(facts: dict[str, object], name: str) -> object:
    entry = facts[name]
    assert isinstance(entry, dict)
    assert (entry["reason"] is None) == (entry["value"] is not None), (name, entry)
    return entry["value"]


def reason(facts: dict[str, object], name: str) -> object:
    entry = facts[name]
    assert isinstance(entry, dict)
    assert entry["value"] is None, (name, entry)
    return entry["reason"]


def test_a_laptop_is_described_with_units(tmp_path: Path) -> None:
    facts = collect(lay_out("laptop", tmp_path))
    assert value(facts, "cpu_vendor") == "GenuineIntel"
    assert value(facts, "cpu_model_name") == "11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz"
    assert (value(facts, "cpu_family"), value(facts, "cpu_model")) == (6, 140)
    assert (value(facts, "cpu_stepping"), value(facts, "microcode")) == ("1", "0xb8")
    assert value(facts, "machine") == "x86_64"
    assert value(facts, "online_cpus") == "0-7"
    assert value(facts, "threads_per_core") == 2
    assert value(facts, "caches") == [
        {
            "level": 1,
            "type": "data",
            "bytes": 49152,
            "ways": 12,
            "sets": 64,
            "line_bytes": 64,
            "shared_by": "0,4",
        },
        {
            "level": 3,
            "type": "unified",
            "bytes": 12582912,
            "ways": 12,
            "sets": 16384,
            "line_bytes": 64,
            "shared_by": "0-7",
        },
    ]
    assert value(facts, "numa_nodes") == [
        {"node": 0, "cpus": "0-7", "memory_bytes": 16127148 * 1024}
    ]
    assert value(facts, "kernel") == "6.8.0-45-generic"
    assert value(facts, "distribution") == "Ubuntu 24.04.1 LTS"
    assert value(facts, "governor") == "powersave"
    assert value(facts, "frequency_driver") == "intel_pstate"
    assert value(facts, "turbo") is True
    assert (value(facts, "thp"), value(facts, "thp_defrag")) == ("madvise", "madvise")
    assert value(facts, "huge_pages") == [
        {"page_bytes": 2097152, "total": 0, "free": 0},
        {"page_bytes": 1073741824, "total": 0, "free": 0},
    ]
    assert value(facts, "memory_total_bytes") == 16127148 * 1024
    assert value(facts, "memory_available_bytes") == 9127148 * 1024
    assert value(facts, "load_average") == [1.25, 1.10, 0.90]
    assert value(facts, "isolated_cpus") == ""
    assert value(facts, "nohz_full") == ""
    assert value(facts, "pmu_devices") == ["cpu"]
    assert value(facts, "perf_event_paranoid") == 4
    assert value(facts, "perf_privileged") is False
    assert value(facts, "nmi_watchdog") == 1
    assert value(facts, "clocksource") == "tsc"
    assert value(facts, "dmi") == "LENOVO 20XW"
    assert value(facts, "virtual_machine") is False
    assert reason(facts, "hypervisor") == "not a virtual machine"
    assert reason(facts, "container") == "no sign of a container"
    assert reason(facts, "memory_limit_bytes") == "no limit set by a cgroup"


def test_facts_of_a_cpu_are_those_of_the_cpu_asked_for(tmp_path: Path) -> None:
    root = lay_out("laptop", tmp_path)
    write(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance")
    assert value(collect(root), "governor") == "performance"
    assert value(collect(root, cpu=7), "governor") == "powersave"
    assert reason(collect(root, cpu=9), "cpu_model") == "no processor 9 in /proc/cpuinfo"


def test_a_guest_says_why_it_has_no_clock_and_no_pmu(tmp_path: Path) -> None:
    facts = collect(lay_out("guest", tmp_path))
    assert value(facts, "virtual_machine") is True
    assert value(facts, "hypervisor") == "KVM or QEMU"
    assert reason(facts, "governor") == "no cpufreq driver (virtual machine)"
    assert reason(facts, "turbo") == "no cpufreq driver (virtual machine)"
    assert reason(facts, "pmu_devices") == (
        "no CPU PMU under /sys/bus/event_source/devices (virtual machine without one)"
    )
    assert reason(facts, "nmi_watchdog") == "no /proc/sys/kernel/nmi_watchdog"
    assert value(facts, "perf_privileged") is True


def test_a_container_is_named_with_its_memory_limit(tmp_path: Path) -> None:
    facts = collect(lay_out("container", tmp_path))
    assert value(facts, "container") == "docker"
    assert value(facts, "memory_limit_bytes") == 2147483648
    assert value(facts, "perf_privileged") is False
    assert value(facts, "turbo") is True


def test_the_lowest_limit_above_a_process_counts_in_both_cgroup_versions(tmp_path: Path) -> None:
    write(tmp_path, "/proc/self/cgroup", "4:cpu,memory:/a/b\n1:cpuset:/")
    write(tmp_path, "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712")
    write(tmp_path, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096000")
    assert value(collect(tmp_path), "memory_limit_bytes") == 4096000
    write(tmp_path, "/proc/self/cgroup", "0::/a/b")
    write(tmp_path, "/sys/fs/cgroup/a/b/memory.max", "8192000")
    write(tmp_path, "/sys/fs/cgroup/a/memory.max", "max")
    assert value(collect(tmp_path), "memory_limit_bytes") == 8192000


def test_an_arm_server_gets_names_from_its_numbers_and_gaps_are_told(tmp_path: Path) -> None:
    facts = collect(lay_out("aarch64", tmp_path))
    assert value(facts, "cpu_vendor") == "ARM"
    assert value(facts, "cpu_model_name") == "Neoverse-N1"
    assert (value(facts, "cpu_family"), value(facts, "cpu_model")) == (8, 0xD0C)
    assert value(facts, "cpu_stepping") == "r3p1"
    assert value(facts, "pmu_devices") == ["armv8_pmuv3_0"]
    assert reason(facts, "microcode") == "no 'microcode' in /proc/cpuinfo"
    assert reason(facts, "machine") == "no /proc/sys/kernel/arch"
    assert reason(facts, "virtual_machine") == (
        "this CPU has no hypervisor flag, and nothing names a hypervisor"
    )
    assert facts["caches"] == {
        "value": [
            {
                "level": 1,
                "type": "data",
                "bytes": None,
                "ways": None,
                "sets": None,
                "line_bytes": 64,
                "shared_by": "0",
            }
        ],
        "reason": "not told: bytes of index0, ways of index0, sets of index0",
    }


def test_an_arm_part_without_a_name_keeps_its_number(tmp_path: Path) -> None:
    root = lay_out("aarch64", tmp_path)
    cpuinfo = root / "proc/cpuinfo"
    cpuinfo.write_text(cpuinfo.read_text().replace("0xd0c", "0xfff"))
    assert value(collect(root), "cpu_model_name") == "ARM part 0xfff"


@pytest.mark.parametrize(
    ("vendor", "product", "name"),
    [
        ("VMware, Inc.", "VMware Virtual Platform", "VMware"),
        ("Microsoft Corporation", "Virtual Machine", "Hyper-V"),
        ("Amazon EC2", "c6g.large", "Amazon Nitro"),
        ("Google", "Google Compute Engine", "KVM"),
    ],
)
def test_a_hypervisor_is_known_by_its_dmi_names(
    tmp_path: Path, vendor: str, product: str, name: str
) -> None:
    root = lay_out("aarch64", tmp_path)
    write(root, "/sys/class/dmi/id/sys_vendor", vendor)
    write(root, "/sys/class/dmi/id/product_name", product)
    facts = collect(root)
    assert value(facts, "virtual_machine") is True
    assert value(facts, "hypervisor") == name


@pytest.mark.parametrize(
    ("vendor", "product"), [("Microsoft Corporation", "Surface"), ("Amazon EC2", "c6i.metal")]
)
def test_metal_of_a_vendor_who_also_rents_guests_is_not_taken_for_a_guest(
    tmp_path: Path, vendor: str, product: str
) -> None:
    root = lay_out("laptop", tmp_path)
    write(root, "/sys/class/dmi/id/sys_vendor", vendor)
    write(root, "/sys/class/dmi/id/product_name", product)
    assert value(collect(root), "virtual_machine") is False


def test_an_unnamed_hypervisor_is_known_by_its_clock(tmp_path: Path) -> None:
    root = lay_out("guest", tmp_path)
    (root / "sys/class/dmi/id/sys_vendor").unlink()
    assert value(collect(root), "hypervisor") == "KVM"
    write(root, "/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc")
    assert reason(collect(root), "hypervisor") == (
        "the CPU says it is virtual, nothing names the hypervisor"
    )


def test_an_empty_tree_gives_every_key_a_reason_and_no_value(tmp_path: Path) -> None:
    facts = collect(tmp_path)
    assert list(facts) == list(FACTS)
    for name in facts:
        assert reason(facts, name)


def test_a_garbled_file_is_a_reason_too(tmp_path: Path) -> None:
    write(tmp_path, "/proc/sys/kernel/perf_event_paranoid", "two")
    write(tmp_path, "/sys/kernel/mm/transparent_hugepage/enabled", "always")
    write(tmp_path, "/proc/loadavg", "a b c")
    write(tmp_path, "/proc/stat", "cpu 1 2 3")
    facts = collect(tmp_path)
    assert reason(facts, "perf_event_paranoid") == (
        "/proc/sys/kernel/perf_event_paranoid holds 'two', not a number"
    )
    assert reason(facts, "thp") == (
        "no choice in /sys/kernel/mm/transparent_hugepage/enabled: 'always'"
    )
    assert reason(facts, "load_average") == "/proc/loadavg is not three numbers"
    assert reason(facts, "cpu_jiffies") == "/proc/stat has no steal column"


def test_this_machine_is_described_in_json_within_50_ms_and_each_gap_has_a_reason() -> None:
    durations = []
    for _ in range(5):  # the fastest of five: other work may cut in
        start = time.perf_counter()
        facts = collect()
        durations.append(time.perf_counter() - start)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    for name, entry in facts.items():
        assert isinstance(entry, dict)
        assert set(entry) == {"value", "reason"}
        assert entry["value"] is not None or entry["reason"], name
    assert value(facts, "kernel") == os.uname().release
    assert value(facts, "machine") == os.uname().machine
    assert value(facts, "memory_total_bytes") == os.sysconf("SC_PHYS_PAGES") * os.sysconf(
        "SC_PAGE_SIZE"
    )
    assert min(durations) < 0.05


def test_the_description_of_this_machine_does_not_identify_it() -> None:
    words = json.dumps(collect()).lower()
    for secret in (socket.gethostname(), getpass.getuser(), str(Path.home())):
        # A name such as "kvm" or "a" would be found anywhere: quote it.
        assert f'"{secret.lower()}"' not in words


def test_cpu_times_of_one_cpu_and_of_all(tmp_path: Path) -> None:
    root = lay_out("guest", tmp_path)
    assert cpu_times(root)["steal"] == 6000
    assert cpu_times(root, cpu=0)["steal"] == 3000
    with pytest.raises(Unknown, match="no line cpu9 in /proc/stat"):
        cpu_times(root, cpu=9)


def test_steal_is_a_share_of_wanted_time_not_of_idle_time() -> None:
    before = dict.fromkeys(
        ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"), 100
    )
    after = {**before, "user": 175, "steal": 125, "idle": 9000}
    assert steal_share(before, after) == 0.25
    assert steal_share(before, {**before, "idle": 9000}) is None


def test_cpu_lists_are_read_and_written_as_the_kernel_does() -> None:
    assert parse_cpu_list("0-3,8,10-11\n") == (0, 1, 2, 3, 8, 10, 11)
    assert parse_cpu_list("") == parse_cpu_list("(null)") == ()
    assert format_cpu_list((11, 0, 1, 2, 3, 8, 10)) == "0-3,8,10-11"


def test_an_unreadable_file_is_told_without_the_root_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").mkdir()  # reading a folder fails, for root as well
    with pytest.raises(Unknown) as caught:
        Tree(tmp_path).text("/proc/stat")
    assert str(caught.value) == "/proc/stat cannot be read: is a directory"


def test_a_worker_is_pinned_to_an_isolated_cpu_that_is_allowed(tmp_path: Path) -> None:
    root = lay_out("server", tmp_path)
    assert pick_cpu(root, allowed=range(40)) == 39
    assert pick_cpu(root, allowed=[0, 1, 5, 20, 21]) == 5


def test_a_worker_is_pinned_to_the_highest_allowed_cpu_where_none_is_isolated(
    tmp_path: Path,
) -> None:
    root = lay_out("laptop", tmp_path)
    assert pick_cpu(root, allowed=range(8)) == 7
    assert pick_cpu(root, allowed=[2, 3]) == 3
    assert pick_cpu(tmp_path / "nothing", allowed=[2, 3]) == 3


def test_a_worker_is_not_pinned_to_an_efficiency_core(tmp_path: Path) -> None:
    intel = tmp_path / "intel"
    write(intel, "/sys/devices/cpu_core/cpus", "0-7")
    assert pick_cpu(intel, allowed=range(16)) == 7
    assert pick_cpu(intel, allowed=[8, 9]) == 9
    arm = tmp_path / "arm"
    for cpu, capacity in enumerate((446, 446, 1024, 1024, 446)):
        write(arm, f"/sys/devices/system/cpu/cpu{cpu}/cpu_capacity", str(capacity))
    assert pick_cpu(arm, allowed=range(5)) == 3


def test_the_affinity_of_this_process_bounds_the_choice() -> None:
    before = os.sched_getaffinity(0)
    assert before <= set(allowed_cpus())
    lowest = min(before)
    os.sched_setaffinity(0, {lowest})
    try:
        assert allowed_cpus() == (lowest,)
        assert pick_cpu() == lowest
    finally:
        os.sched_setaffinity(0, before)


def test_isolated_cpus_missing_from_the_mask_are_tried_and_the_mask_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "/sys/devices/system/cpu/online", "0-5")
    write(tmp_path, "/sys/devices/system/cpu/isolated", "4-5")
    moves: list[set[int]] = []

    def move(pid: int, cpus: set[int]) -> None:
        moves.append(set(cpus))
        if cpus == {5}:
            raise OSError("the cpuset leaves it out")

    monkeypatch.setattr(os, "sched_setaffinity", move)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert allowed_cpus(tmp_path) == (0, 1, 2, 3, 4)
    assert moves == [{4}, {0, 1, 2, 3}, {5}]
    # Someone chose CPU 2: the mask lacks more than the isolated CPUs.
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2})
    assert allowed_cpus(tmp_path) == (2,)
    assert len(moves) == 3
