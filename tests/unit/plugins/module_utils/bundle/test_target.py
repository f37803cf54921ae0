# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import json
import platform
import sys
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import target as pure
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.target import Distribution, ProbeError, Target
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import target_tags
from ansible_collections.tandem.vllm.plugins.module_utils.host import python_probe

# What the Python of Debian 12 said, with packaging 26.4 installed: 914 tags, and these.
DEBIAN_12: dict[str, Any] = {
    "python": "3.11.2",
    "implementation": "cp",
    "abi": "cp311",
    "machine": "x86_64",
    "glibc": "2.36",
}
ITS_TAGS = ["cp311-cp311-linux_x86_64", "cp311-cp311-manylinux_2_36_x86_64", "cp311-cp311-manylinux_2_35_x86_64"]
ITS_TAGS_HASH = "d6379b984621391668e1d5bb809100c69d62e26eff39aa4fa3b8d93c4cc07da6"


def test_tags_are_worked_out_as_the_library_lists_them() -> None:
    found = list(pure.tags(Target.from_dict(DEBIAN_12)))
    assert (len(found), found[:3]) == (914, ITS_TAGS)
    assert hashlib.sha256("\n".join(found).encode()).hexdigest() == ITS_TAGS_HASH


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"python": "3.13.1", "abi": "cp313t"},
        {"machine": "aarch64", "glibc": "2.17"},
        {"machine": "aarch64", "glibc": None},
    ],
)
def test_the_two_places_that_know_tags_agree(changed: dict[str, Any]) -> None:
    target = Target.from_dict({**DEBIAN_12, **changed})
    stable = {tag for tag in target_tags(target) if "-abi3t-" in tag}  # packaging 26 does not list those of 3.13t
    assert set(pure.tags(target)) == set(target_tags(target)) - stable


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (
            {"glibc": "2.19"},
            "linux_{0} manylinux_2_19_{0} manylinux_2_18_{0} manylinux_2_17_{0} manylinux2014_{0} manylinux_2_16_{0} "
            "manylinux_2_15_{0} manylinux_2_14_{0} manylinux_2_13_{0} manylinux_2_12_{0} manylinux2010_{0} "
            "manylinux_2_11_{0} manylinux_2_10_{0} manylinux_2_9_{0} manylinux_2_8_{0} manylinux_2_7_{0} "
            "manylinux_2_6_{0} manylinux_2_5_{0} manylinux1_{0}",
        ),
        ({"machine": "aarch64", "glibc": "2.18"}, "linux_{0} manylinux_2_18_{0} manylinux_2_17_{0} manylinux2014_{0}"),
        ({"glibc": None, "tags": ["cp311-cp311-musllinux_1_2_x86_64", "py3-none-any"]}, "musllinux_1_2_{0}"),
    ],
)
def test_platforms(given: dict[str, Any], found: str) -> None:
    target = Target.from_dict({**DEBIAN_12, **given})
    assert " ".join(pure.platforms(target)) == found.format(target.machine)


def test_a_probe_is_read() -> None:
    told = {
        **DEBIAN_12,
        "tags": None,
        "executable": "/opt/vllm/bin/python3",
        "distributions": [
            {"name": "Typing_Extensions", "version": "4.16.0", "requires": [], "extras": []},
            {"name": "ray", "version": "2.60.0", "requires": ["click>=7.0;\n  x"], "extras": ["default"]},
        ],
    }
    found = pure.read_probe("sitecustomize says hello\n" + json.dumps(told) + "\n")
    assert found.pop("target") == {**DEBIAN_12, "tags": list(pure.tags(Target.from_dict(DEBIAN_12)))}
    assert found == {
        "distributions": [
            {"name": "ray", "version": "2.60.0", "requires": ["click>=7.0; x"], "extras": ["default"]},
            {"name": "typing-extensions", "version": "4.16.0", "requires": [], "extras": []},
        ],
        "pip": None,
        "ray": "2.60.0",
        "executable": "/opt/vllm/bin/python3",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "it printed nothing"), ("a\nKilled", "Killed"), ('{"python": "3.1', '{"python": "3.1')],
)
def test_no_probe(text: str, message: str) -> None:
    with pytest.raises(ProbeError) as raised:
        pure.read_probe(text)
    assert str(raised.value) == message


def test_the_probe_tells_about_the_python_that_runs_it() -> None:
    told = python_probe.facts()
    assert told["python"] == platform.python_version()
    assert told["executable"] == sys.executable
    assert (told["implementation"], told["machine"]) == ("cp", platform.machine())
    assert told["abi"].startswith("cp%d%d" % sys.version_info[:2])
    # Ansible itself is imported here, so it is installed.
    names = [entry["name"] for entry in told["distributions"]]
    assert "pytest" in names
    assert len(names) == len({pure.canonical_name(name) for name in names})
    pytest_entry = next(entry for entry in told["distributions"] if entry["name"] == "pytest")
    assert pytest_entry["version"] == pytest.__version__
    assert any(line.startswith("pluggy") for line in pytest_entry["requires"])
    assert pure.read_probe(json.dumps(told))["target"]["python"] == platform.python_version()


def test_the_probe_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(python_probe.importlib, "import_module", missing)
    assert python_probe.tags() is None


@pytest.mark.parametrize(
    ("soabi", "abi"),
    [
        ("cpython-311-x86_64-linux-gnu", "cp311"),
        ("cpython-313t-aarch64-linux-gnu", "cp313t"),
        (None, "none"),
    ],
)
def test_the_abi(monkeypatch: pytest.MonkeyPatch, soabi: str | None, abi: str) -> None:
    monkeypatch.setattr(python_probe.sysconfig, "get_config_var", lambda name: soabi)
    assert python_probe.abi() == abi


def test_changes() -> None:
    before = [Distribution("numpy", "2.3.5"), Distribution("ray", "2.60.0"), Distribution("six", "1.17.0")]
    after = {"ray": "2.59.0", "six": "1.17.0", "new": "1.0"}
    assert pure.changes(before, after) == [{"name": "ray", "from": "2.60.0", "to": "2.59.0"}]
