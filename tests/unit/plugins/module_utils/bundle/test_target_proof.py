# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import target_proof
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.target_proof import Proof
from ansible_collections.tandem.vllm.plugins.module_utils.host import import_probe

OLD = "xgrammar 0.2.8 requires triton, which is not installed."
NEW = "ray 2.59.0 requires msgpack<2, but you have msgpack 3.0."
GOOD = Proof("2.59.0", [OLD], [OLD], ["ray==2.59.0", "click==8.5.1"], {"ray": None, "vllm": None})


def test_program_and_reader_agree() -> None:
    assert (target_proof.ANSWER, target_proof.TRYING) == (import_probe.ANSWER, import_probe.TRYING)


def test_the_command_line() -> None:
    argv = target_proof.import_argv("python3", "program", ["ray"], ["click"])
    assert (argv[:3], json.loads(argv[3])) == (["python3", "-c", "program"], [["ray"], ["click"]])


@pytest.mark.parametrize(
    ("status", "out", "err", "read"),
    [
        (0, 'banner\n\ntandem-imports:{"ray": null}\n', "", {"ray": None}),
        # A crash: the module is the one that was being tried.
        (
            139,
            "",
            "tandem-imports-now: ray\ntandem-imports-now: vllm\n",
            {"vllm": "ended with exit status 139"},
        ),
        (
            1,
            "",
            "tandem-imports-now: ray\nterminate called\n",
            {"ray": "ended with exit status 1: terminate called"},
        ),
        (127, "", "exec: python3: not found", {"python": "ended with exit status 127: exec: python3: not found"}),
    ],
)
def test_imports(status: int, out: str, err: str, read: dict[str, str | None]) -> None:
    assert target_proof.read_imports(status, out, err) == read


@pytest.mark.parametrize(
    ("status", "out", "version"),
    [
        (0, "ray, version 2.59.0\n", "2.59.0"),
        (0, "warning\nray, version 3.0.0.dev0\n", "3.0.0.dev0"),
        (1, "ray, version 2", None),
        (0, "", None),
    ],
)
def test_rays_version(status: int, out: str, version: str | None) -> None:
    assert target_proof.read_ray_version(status, out) == version


@pytest.mark.parametrize(
    ("proof", "version", "found"),
    [
        (GOOD, "2.59.0", []),
        (GOOD, None, []),
        (GOOD, "2.60.0", ["ray --version: says 2.59.0, not 2.60.0"]),
        (replace(GOOD, ray_version=None), None, []),
        (replace(GOOD, ray_version=None), "2.59.0", ["ray --version: gives no version"]),
        (replace(GOOD, pip_check=[NEW, OLD]), "2.59.0", [f"pip check: {NEW}"]),
        # A complaint that went away is none.
        (replace(GOOD, pip_check=[]), "2.59.0", []),
        (
            replace(GOOD, imports={"ray": "ImportError: version `GLIBC_2.38' not found"}),
            "2.59.0",
            ["import ray: ImportError: version `GLIBC_2.38' not found"],
        ),
    ],
)
def test_what_is_not_as_it_should_be(proof: Proof, version: str | None, found: list[str]) -> None:
    assert target_proof.problems(proof, version) == found


def test_evidence() -> None:
    shown = replace(GOOD, pip_check=[NEW, OLD]).to_dict()
    assert (shown["pip_check"], shown["pip_check_before"], shown["pip_check_new"]) == ([NEW, OLD], [OLD], [NEW])
    other = replace(GOOD, pip_freeze=["click==8.5.1", "ray==2.59.0"]).to_dict()
    # printf 'click==8.5.1\nray==2.59.0\n' | sha256sum
    assert shown["freeze_sha256"] == other["freeze_sha256"]
    assert shown["freeze_sha256"] != replace(GOOD, pip_freeze=["ray==2.59.0"]).to_dict()["freeze_sha256"]
