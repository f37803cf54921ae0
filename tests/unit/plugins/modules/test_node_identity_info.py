# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules import node_identity_info
from ansible_collections.tandem.vllm.plugins.modules.node_identity_info import ARGUMENTS, main

FIXTURES = Path(__file__).parents[3] / "fixtures/identity"
ADDRESS, PEER, NAME = "10.89.70.11", "10.89.70.12", "tandem-try-id-1"
HEAD = {"address": ADDRESS, "port": 6379}


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def run(capsys: pytest.CaptureFixture[str], code: int = 0, **arguments: Any) -> dict[str, Any]:
    """What the module returns, without what Ansible adds; it never changes anything."""
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    result.pop("invocation", None)
    assert int(ended.value.code or 0) == code
    if not code:
        assert result.pop("changed") is False
    return result


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A node of the lab; the limits of the commands within the container are kept."""
    answers = {
        "address": (0, text("address.json.txt"), ""),
        "route": (0, text("route.json.txt"), ""),
        "container": (0, text("inspect.txt"), ""),
        "image": (0, json.dumps([{"Id": "sha256:1", "Size": 1}]), ""),
        "python3": (0, text("probe.txt"), ""),
        "nvidia-smi": (127, "", "timeout: failed to run command 'nvidia-smi': No such file or directory"),
    }
    kept = []

    def answer(_module: AnsibleModule, argv: Sequence[str], **_more: Any) -> tuple[int, str, str]:
        if "exec" in argv:
            kept.append(argv[10])
        return next(said for word, said in answers.items() if word in argv)

    monkeypatch.setattr(AnsibleModule, "run_command", answer)
    return kept


def documented_keys(documented: dict[str, Any]) -> set[str]:
    found = set()
    for key, entry in documented.items():
        found |= {key, *(f"{key}.{below}" for below in entry.get("contains", {}))}
    return found


def returned_keys(result: dict[str, Any]) -> set[str]:
    found = set(result)
    for key in ("container", "routes"):
        value = result[key][0] if isinstance(result[key], list) else result[key]
        found |= {f"{key}.{below}" for below in value}
    return found


def test_a_node_of_the_lab(capsys: pytest.CaptureFixture[str], limits: list[str]) -> None:
    result = run(capsys, address=ADDRESS, peers=[PEER], container=NAME, head=HEAD)
    assert result == json.loads(text("node1.txt"))
    assert limits == ["60", "60"]
    assert returned_keys(result) == documented_keys(yaml.safe_load(node_identity_info.RETURN))


def test_the_limit_and_the_gpus(capsys: pytest.CaptureFixture[str], limits: list[str]) -> None:
    result = run(
        capsys, address=ADDRESS, container=NAME, gpus=[0, "GPU-a"], command_timeout=7, _ansible_check_mode=True
    )
    assert limits == ["7", "7"]
    assert (result["gpus"], result["gpus_host"]) == (["0", "GPU-a"], [])
    assert result["gpus_host_reason"] == "nvidia-smi is not installed"


def test_every_option_is_documented() -> None:
    options = yaml.safe_load(node_identity_info.DOCUMENTATION)["options"]
    assert set(options) == set(ARGUMENTS)
    assert set(options["head"]["suboptions"]) == set(ARGUMENTS["head"]["options"])
    for name, option in options.items():
        assert option.get("default") == ARGUMENTS[name].get("default")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"address": "node1"}, "address = 'node1': must be an IPv4 address. Give the node's tandem_address."),
        ({"address": ADDRESS, "peers": ["fe80::1"]}, "peers = 'fe80::1': must be an IPv4 address."),
        ({"address": ADDRESS, "head": {"address": "head", "port": 1}}, "head.address = 'head': must be an IPv4"),
        ({"address": ADDRESS, "head": {"address": PEER, "port": 0}}, "head.port = 0: must be a TCP port"),
        ({"address": ADDRESS, "command_timeout": 0}, "command_timeout = 0: must be a whole number above zero."),
        ({}, "missing required arguments: address"),
        ({"address": ADDRESS, "head": {"address": PEER}}, "missing required arguments: port found in head"),
    ],
)
def test_what_it_refuses(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any], said: str) -> None:
    assert said in run(capsys, code=1, **arguments)["msg"]
