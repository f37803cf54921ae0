# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.host.machine import Machine
from ansible_collections.tandem.vllm.plugins.module_utils.placement import (
    Model,
    Network,
    Node,
    Placement,
    Replica,
    Service,
)
from ansible_collections.tandem.vllm.plugins.module_utils.vocabulary import FAMILIES
from ansible_collections.tandem.vllm.plugins.modules import host_contract
from ansible_collections.tandem.vllm.plugins.modules.host_contract import main

IMAGE = "sha256:" + "ab" * 32
SERVICE = Service("chat", Model("/models/big", "big"), (Replica("chat-gpu1", ("gpu1",)),))
PLACEMENT = Placement("site", {"gpu1": Node("10.0.0.1")}, (SERVICE,)).to_dict()
ADDRESSES = json.dumps([{"ifname": "ens1f0", "addr_info": [{"local": "10.0.0.1"}]}])


def run(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


class Fakes:
    """A host with everything in place; answers can be changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers = {"ip": (0, ADDRESSES, ""), "ps": (0, "", ""), "image": (0, IMAGE, "")}
        (root / "run/systemd/system").mkdir(parents=True)
        (root / "models/big").mkdir(parents=True)
        (root / "models/big/config.json").write_text("{}")

    def machine(self, _run: object) -> Machine:
        return Machine(self.run, str(self.root))

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if argv[0] == "timeout":
            # The container in which the image is asked for its vocabulary, and its removal.
            return self.answers["probe"] if "run" in argv else (0, "", "")
        return self.answers["ip" if argv[0] == "ip" else argv[1]]


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    fakes = Fakes(tmp_path)
    monkeypatch.setattr(host_contract, "Machine", fakes.machine)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name == "requests" else find(name))
    return fakes


def arguments(host: str = "gpu1", gateway: Any = None, **image: Any) -> dict[str, Any]:
    return {"placement": PLACEMENT, "host": host, "image": {"ref": IMAGE, **image}, "gateway": gateway}


@pytest.mark.parametrize(("answer", "present"), [((0, IMAGE, ""), True), ((1, "", "no"), False)])
def test_a_good_node(
    capsys: pytest.CaptureFixture[str], fakes: Fakes, answer: tuple[int, str, str], present: bool
) -> None:
    fakes.answers["image"] = answer
    status, result = run(capsys, arguments(archive="/srv/vllm.tar"))
    assert (status, result["changed"], result["image_present"]) == (0, False, present)
    assert result["interface"] == "ens1f0"


def test_a_missing_model_and_a_taken_port(capsys: pytest.CaptureFixture[str], fakes: Fakes) -> None:
    fakes.answers["ps"] = (0, "grafana\t10.0.0.1:8000->3000/tcp\n", "")
    (fakes.root / "models/big/config.json").unlink()
    status, result = run(capsys, arguments())
    problems = [
        "gpu1: tandem_services[chat].model.path = '/models/big': its config.json cannot be read: No such file or "
        "directory. Put the model directory there: every node needs it under the same path.",
        "gpu1: tandem_services[chat].port = 8000: is taken by container grafana. Stop that process or choose another "
        "port.",
    ]
    assert (status, result["failed"], result["problems"]) == (1, True, problems)
    assert result["msg"] == "\n- ".join(["gpu1 does not fit the contract (nothing was changed):", *problems])


def test_ours_may_hold_the_port(capsys: pytest.CaptureFixture[str], fakes: Fakes) -> None:
    fakes.answers["ps"] = (0, "tandem-chat-gpu1\t10.0.0.1:8000->8000/tcp\n", "")
    assert run(capsys, arguments())[0] == 0


@pytest.mark.parametrize(("first", "status"), [("gpu1", 1), ("gpu2", 0)])
def test_the_port_of_a_rank_group_is_taken_on_its_first_node(
    capsys: pytest.CaptureFixture[str], fakes: Fakes, first: str, status: int
) -> None:
    nodes = (first, {"gpu1": "gpu2", "gpu2": "gpu1"}[first])
    service = replace(SERVICE, replicas=(Replica("chat-x2", nodes, 2, executor="ray"),))
    placement = Placement("site", {"gpu1": Node("10.0.0.1"), "gpu2": Node("10.0.0.2")}, (service,))
    fakes.answers["ps"] = (0, "grafana\t10.0.0.1:8000->3000/tcp\n", "")
    assert run(capsys, {**arguments(), "placement": placement.to_dict()})[0] == status


def test_a_gateway_is_not_asked_for_docker(capsys: pytest.CaptureFixture[str], fakes: Fakes) -> None:
    del fakes.answers["ps"], fakes.answers["image"]
    status, result = run(capsys, arguments("gw", {"address": "10.0.0.1", "port": 8080}))
    assert (status, result["image_present"], result["interface"]) == (0, False, None)


def test_node_and_gateway_in_one(capsys: pytest.CaptureFixture[str], fakes: Fakes) -> None:
    status, result = run(capsys, arguments("gpu1", {"address": "10.0.0.2", "port": 8080}))
    assert (status, result["problems"]) == (
        1,
        [
            "gpu1: tandem_address = '10.0.0.2': is on no interface of this host, which has 10.0.0.1. "
            "Correct it in host_vars."
        ],
    )


def test_a_host_without_docker_and_ip(
    capsys: pytest.CaptureFixture[str], fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module's own way to run commands, where there is none to run."""
    monkeypatch.setenv("PATH", str(fakes.root))
    monkeypatch.setattr(host_contract, "Machine", lambda run: Machine(run, str(fakes.root)))
    status, result = run(capsys, arguments())
    assert status == 1
    assert [p.partition(" = ")[0] for p in result["problems"]] == ["gpu1: tandem_address", "gpu1: docker"]
    assert "docker: No such file or directory" in result["msg"]


@pytest.mark.parametrize(("answer", "failed"), [((0, "", ""), False), ((1, "", "HarmonyError"), True)])
def test_a_model_without_its_vocabulary(
    capsys: pytest.CaptureFixture[str], fakes: Fakes, answer: tuple[int, str, str], failed: bool
) -> None:
    (fakes.root / "models/big/config.json").write_text('{"model_type": "gpt_oss"}')
    fakes.answers["probe"] = answer
    status, result = run(capsys, arguments())
    assert status == int(failed)
    if failed:
        (problem,) = result["problems"]
        assert "vocabulary/o200k_base.tiktoken is not there. vLLM would fetch it from the internet" in problem
    else:
        assert result["model_environment"] == {}


def test_a_vocabulary_that_is_sent_later(capsys: pytest.CaptureFixture[str], fakes: Fakes) -> None:
    (fakes.root / "models/big/config.json").write_text('{"model_type": "gpt_oss"}')
    sha256 = FAMILIES["gpt_oss"].files["o200k_base.tiktoken"]
    file = {"path": "vocabulary/o200k_base.tiktoken", "size": 3613922, "sha256": sha256}
    status, result = run(capsys, {**arguments(), "vocabularies_to_come": {"/models/big": [file]}})
    assert (status, result["model_environment"]) == (
        0,
        {"/models/big": {"TIKTOKEN_ENCODINGS_BASE": "/models/big/vocabulary"}},
    )


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the module warns of. ansible-core keeps it apart from the result where there is a controller, as here."""
    said: list[str] = []
    monkeypatch.setattr(host_contract.AnsibleModule, "warn", lambda _self, text: said.append(text))
    return said


CONFIG = '{"text_config": {"hidden_size": 8192, "num_hidden_layers": 80}}'
SHAPE = {"hidden_size": 8192, "layers": 80, "element_bytes": 2}


@pytest.mark.parametrize(
    ("config", "shape"), [(CONFIG, SHAPE), ("{}", None), ('{"hidden_size": 64}', None)], ids=["told", "empty", "half"]
)
def test_the_shape_of_a_model(
    capsys: pytest.CaptureFixture[str],
    fakes: Fakes,
    warned: list[str],
    config: str,
    shape: dict[str, int] | None,
) -> None:
    (fakes.root / "models/big/config.json").write_text(config)
    status, result = run(capsys, arguments())
    assert (status, result["model_shapes"], warned) == (0, {"/models/big": shape}, [])


def test_a_model_that_is_sent_later_has_no_shape_yet(capsys: pytest.CaptureFixture[str], fakes: Fakes) -> None:
    (fakes.root / "models/big/config.json").unlink()
    status, result = run(capsys, {**arguments(), "models_to_come": ["/models/big"]})
    assert (status, result["model_shapes"]) == (0, {"/models/big": None})


def test_a_host_that_is_no_node_has_no_models(capsys: pytest.CaptureFixture[str], fakes: Fakes) -> None:
    assert run(capsys, arguments("gw", {"address": "10.0.0.1", "port": 8080}))[1]["model_shapes"] == {}


@pytest.mark.parametrize(
    ("network", "sizes", "first", "warns"),
    [
        (Network(gbit=25.0), (8, 1), "gpu1", True),
        (Network(gbit=25.0), (8, 1), "gpu2", False),
        (Network(gbit=25.0), (4, 2), "gpu1", False),
        (Network(gbit=400.0, rdma=True), (8, 1), "gpu1", False),
        (Network(), (8, 1), "gpu1", False),
    ],
)
def test_tensor_parallel_over_a_slow_network(
    capsys: pytest.CaptureFixture[str],
    fakes: Fakes,
    warned: list[str],
    network: Network,
    sizes: tuple[int, int],
    first: str,
    warns: bool,
) -> None:
    (fakes.root / "models/big/config.json").write_text(CONFIG)
    (fakes.root / "dev/infiniband").mkdir(parents=True)
    (fakes.root / "dev/infiniband/uverbs0").write_text("")
    nodes = (first, {"gpu1": "gpu2", "gpu2": "gpu1"}[first])
    service = replace(SERVICE, replicas=(Replica("chat-x2", nodes, *sizes, executor="ray"),))
    gpus = ("0", "1", "2", "3")
    placement = Placement(
        "site", {"gpu1": Node("10.0.0.1", gpus), "gpu2": Node("10.0.0.2", gpus)}, (service,), network=network
    )
    status, _result = run(capsys, {**arguments(), "placement": placement.to_dict()})
    assert status == 0
    said = [
        "chat-x2, as tandem_network has it: TP=8 over 2 nodes at 25 Gbit/s and an assumed 70 us without RDMA: each "
        "token needs 161 all-reduces of 16 KiB over the network, at least 12.7 ms a token, and 3037 ms for 2048 tokens "
        "of a prompt. Pipeline parallel over the same nodes, as ray-tp-pp.yml does it (TP=4, PP=2), needs 1 message of "
        "32 KiB a token, 0.08 ms, and 21.5 ms for the prompt."
    ]
    assert warned == (said if warns else [])


def test_a_host_that_does_not_fit_is_not_warned_of_its_network(
    capsys: pytest.CaptureFixture[str], fakes: Fakes, warned: list[str]
) -> None:
    service = replace(SERVICE, replicas=(Replica("chat-x2", ("gpu1", "gpu2"), 2, executor="ray"),))
    gpus = ("0",)
    placement = Placement(
        "site",
        {"gpu1": Node("10.0.0.1", gpus), "gpu2": Node("10.0.0.2", gpus)},
        (service,),
        network=Network(gbit=25.0, rdma=True),
    )
    status, result = run(capsys, {**arguments(), "placement": placement.to_dict()})
    assert (status, warned) == (1, [])
    assert [problem.partition(" = ")[0] for problem in result["problems"]] == ["gpu1: tandem_network.rdma"]
