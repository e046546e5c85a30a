# SPDX-License-Identifier: BSD-3-Clause
"""The source distribution and the wheel that is built from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from cachebench import catalogue

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = (".pcap", ".pcapng", ".cap")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel; the wheel is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (file,) = built.glob("*.whl")
    return zipfile.ZipFile(file)


def test_the_sdist_builds_a_wheel_for_all_pythons_from_3_10_on(built: Path) -> None:
    (file,) = built.glob("*.whl")
    assert "-cp310-abi3-linux_" in file.name


def test_the_wheel_has_the_extension_the_driver_and_all_that_plug_ins_need(
    wheel: zipfile.ZipFile,
) -> None:
    names = set(wheel.namelist())
    assert "cachebench/_core.abi3.so" in names
    assert "cachebench/schema/cachebench.run-1.json" in names
    assert "cachebench/analyze/figures.py" in names
    assert "cachebench/layouts/README.md" in names
    assert {f"cachebench/layouts/{each.name}.h" for each in catalogue.builtin_layouts()} <= names
    sources = {f"cachebench/csrc/{file.name}" for file in (ROOT / "csrc").glob("*.[ch]")}
    assert sources <= names
    driver = wheel.getinfo("cachebench/bin/cachebench-driver")
    assert driver.external_attr >> 16 & 0o111


def test_debug_information_stays_in(wheel: zipfile.ZipFile) -> None:
    for name in ("cachebench/_core.abi3.so", "cachebench/bin/cachebench-driver"):
        assert b".debug_info" in wheel.read(name)


def test_neither_ships_a_capture_or_a_test(wheel: zipfile.ZipFile, built: Path) -> None:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        members = archive.getnames()
    assert not [name for name in (*wheel.namelist(), *members) if name.endswith(CAPTURES)]
    assert not [name for name in wheel.namelist() if "tests/" in name]


def test_the_installed_wheel_runs_on_its_own(built: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    (file,) = built.glob("*.whl")
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(file)], check=True
    )
    # The dependencies are those of the tests; the wheel's own folder comes first.
    (own,) = environment.glob("lib/python*/site-packages")
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    where = subprocess.run(
        [str(python), "-c", "import cachebench; print(cachebench.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=clean,
    )
    assert where.stdout.startswith(str(environment))
    done = subprocess.run(
        [
            str(environment / "bin" / "cachebench"),
            *("run", "--json", "--quick", "--sessions", "1k", "--key", "40"),
        ],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env=clean,
    )
    (entry,) = json.loads(done.stdout)["results"]
    assert entry["route"] == "plugin"  # built from the wheel's own sources
    assert entry["figures"]["ns_per_lookup"]["value"] > 0
