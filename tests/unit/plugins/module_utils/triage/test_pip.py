# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.triage.engine import triage
from ansible_collections.tandem.vllm.plugins.module_utils.triage.pip_facts import satisfies
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.triage.samples import by_name, causes

BY_NAME = by_name("pip")
NEEDS_2_39 = "vllm-0.30.0-cp38-abi3-manylinux_2_39_x86_64.whl"
NOT_THERE = "ERROR: Could not find a version that satisfies the requirement %s (from versions: none)"


@pytest.mark.parametrize(
    ("cause", "name", "details"),
    [
        (
            "glibc_too_old",
            "facts only (pip-01)",
            {
                "file": "vllm-0.30.0+cpu-cp38-abi3-manylinux_2_39_x86_64.whl",
                "package": "vllm",
                "needs_glibc": "2.39",
                "have_glibc": "2.35",
                "python_ok": True,
            },
        ),
        ("glibc_too_old", "loader, several versions", {"file": "/opt/venv/bin/ruff", "needs_glibc": "2.34"}),
        ("glibc_too_old", "uv, resolving", {"needs_glibc": "2.39", "have_glibc": "2.36"}),
        ("glibc_too_old", "in people's words", {"needs_glibc": "2.39", "have_glibc": "2.34"}),
        (
            "hash_mismatch",
            "cached (pip-09)",
            {
                "package": "torch==2.2.1",
                "file": "torch-2.2.1+cu121-cp311-cp311-linux_x86_64.whl",
                "expected": ["23bb28ba800f25a9d33d51768bf5fdefa0220cbc5cd9a17f22d2a42628359468"],
                "got": "b0b4f3ec9234ae37110ac46681848e7269f290d924a6881ceb34a15c1f31df32",
                "likely": "corrupt_cache",
            },
        ),
        (
            "hash_mismatch",
            "only the two sums, an empty file",
            {
                "expected": ["ae74fb96c20a0277a1d615f1e4d73c8414f5a98db8b799a7931d1582f3390c28"],
                "got": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "likely": "empty_file",
            },
        ),
        (
            "hash_mismatch",
            "uv",
            {
                "package": "ray==2.54.0",
                "expected": ["000000e9a40c29d7e964d70ebbee565f91884e7a623b71f3d78f1f4e26d9d519"],
                "got": "2e2a9de9a40c29d7e964d70ebbee565f91884e7a623b71f3d78f1f4e26d9d519",
            },
        ),
        ("hash_mismatch", "sha256sum", {"file": "ray-2.54.0-cp312-cp312-manylinux2014_x86_64.whl"}),
        (
            "sdist_in_wheelhouse",
            "two of three build requirements are there (pip-06)",
            {"package": "pyusb-1.1.0.tar.gz", "missing_build_deps": ["wheel"]},
        ),
        ("sdist_in_wheelhouse", "pip 26", {"package": "six-1.16.0.tar.gz", "missing_build_deps": ["setuptools"]}),
        (
            "sdist_in_wheelhouse",
            "uv",
            {"package": "six==1.16.0", "missing_build_deps": ["setuptools"], "required_by": "ray"},
        ),
        (
            "sdist_in_wheelhouse",
            "only its archives, by find",
            {"package": "python_ldap-3.4.4.tgz", "files": ["python_ldap-3.4.4.tgz", "docopt-0.6.2.tar.bz2"]},
        ),
        (
            "missing_transitive_dependency",
            "marker (pip-04)",
            {"package": "xgrammar", "spec": ">=0.1.6", "marker": 'platform_machine == "x86_64"'},
        ),
        (
            "missing_transitive_dependency",
            "pip 9",
            {"package": "msgpack", "spec": "<2,>=1.0", "required_by": "ray==2.54.0"},
        ),
        (
            "missing_transitive_dependency",
            "another version of the dependency is there",
            {"package": "grpcio", "spec": ">=1.60", "required_by": "ray[default]", "versions": ["1.50.0"]},
        ),
        ("missing_transitive_dependency", "pip check", {"package": "click", "required_by": "ray"}),
        (
            "missing_transitive_dependency",
            "uv pip check",
            {"package": "click", "spec": ">=7.0", "marker": "python_full_version >= '3.8'", "required_by": "ray"},
        ),
        (
            "missing_transitive_dependency",
            "a list with hashes does not name it",
            {"package": "click", "spec": ">=7.0", "required_by": "ray==2.54.0"},
        ),
        (
            "no_compatible_wheel",
            "only cp310 in the folder",
            {
                "file": "ray-2.54.0-cp310-cp310-manylinux2014_x86_64.whl",
                "package": "ray",
                "spec": "==2.54.0",
                "python": "3.12",
            },
        ),
        (
            "no_compatible_wheel",
            "other versions",
            {"package": "ray", "spec": "==2.54.0", "versions": ["2.9.3", "2.10.0"]},
        ),
        ("no_compatible_wheel", "other Python", {"python": "3.11", "requires_python": "<3.9"}),
        (
            "no_compatible_wheel",
            "listing with a wheel for Windows (pip-07, without the sdist)",
            {"file": "pycryptodome-3.20.0-cp35-abi3-win_amd64.whl", "package": "pycryptodome"},
        ),
    ],
)
def test_details(cause: str, name: str, details: dict[str, Any]) -> None:
    assert triage(BY_NAME[cause, name])[0].details == details


@pytest.mark.parametrize(
    ("cause", "name", "evidence"),
    [
        # The file at fault is shown, not the first one of the listing.
        ("glibc_too_old", "facts only (pip-01)", "wheel : vllm-0.30.0+cpu-cp38-abi3-manylinux_2_39_x86_64.whl"),
        ("sdist_in_wheelhouse", "long listing", "-rw-r--r-- 1 root root 234 Dec  1 01:11 six-1.16.0.tar.gz"),
        (
            "no_compatible_wheel",
            "listing, one Python is not like the others",
            "msgpack-1.1.0-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        ),
    ],
)
def test_evidence(cause: str, name: str, evidence: str) -> None:
    assert triage(BY_NAME[cause, name])[0].evidence == evidence


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # One and the same wheel: what the target has decides.
        (f"target: Python 3.12, x86_64, glibc 2.39\n{NEEDS_2_39}", []),
        (f"target: Python 3.12, x86_64, glibc 2.35\n{NEEDS_2_39}", [("glibc_too_old", "high")]),
        (f"target: Python 3.12, aarch64, glibc 2.39\n{NEEDS_2_39}", [("no_compatible_wheel", "high")]),
        (f"target: Python 3.7, x86_64, glibc 2.39\n{NEEDS_2_39}", [("no_compatible_wheel", "high")]),
        (f"Rocky Linux release 9.4\n{NEEDS_2_39}", [("glibc_too_old", "high")]),
        (f"Ubuntu 24.04.1 LTS\n{NEEDS_2_39}", []),
        # One and the same sentence: what was asked for, and what lies in the folder, decides.
        (NOT_THERE % "msgspec (from vllm)", [("missing_transitive_dependency", "high")]),
        (NOT_THERE % "vllm (from -r requirements.txt (line 1))", [("no_compatible_wheel", "medium")]),
        (
            NOT_THERE % "msgspec (from vllm)" + "\nmsgspec-0.19.0-cp310-cp310-win_amd64.whl",
            [("no_compatible_wheel", "high")],
        ),
        (NOT_THERE % "setuptools>=77 (from vllm)", [("missing_transitive_dependency", "high")]),
        (NOT_THERE % "setuptools>=77", [("sdist_in_wheelhouse", "high")]),
        ("$ pip install setuptools\n" + NOT_THERE % "setuptools", [("no_compatible_wheel", "medium")]),
    ],
)
def test_what_else_the_text_says_decides(text: str, found: list[tuple[str, str]]) -> None:
    assert causes(text) == found


def test_a_listing_with_two_faults_names_both() -> None:
    listing = BY_NAME["sdist_in_wheelhouse", "listing (pip-07, without the foreign wheel)"]
    found = causes(listing + "pycryptodome-3.20.0-cp35-abi3-win_amd64.whl\n")
    assert sorted(found) == [("no_compatible_wheel", "high"), ("sdist_in_wheelhouse", "high")]


@pytest.mark.parametrize(
    ("version", "spec", "held"),
    [
        ("2.54.0", None, True),
        ("2.54.0", "==2.54.0", True),
        ("2.54", "==2.54.0", True),
        ("2.2.1+cu121", "==2.2.1", True),
        ("2.54.1", "==2.54.0", False),
        ("2.54.1", "==2.54.*", True),
        ("2.55.0", "==2.54.*", False),
        ("1.1.0", "<2.0.0,>=1.0.0", True),
        ("2.0.0", "<2.0.0,>=1.0.0", False),
        ("1.10", ">1.9", True),
        ("1.4.9", "~=1.4.2", True),
        ("1.5.0", "~=1.4.2", False),
        ("1.5.0", "!=1.5.0", False),
    ],
)
def test_satisfies(version: str, spec: str | None, held: bool) -> None:
    assert satisfies(version, spec) is held
