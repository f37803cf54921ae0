# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host_contract import (
    Held,
    HostFacts,
    Listener,
    judge_gateway,
    judge_node,
    model_environments,
    to_ask_for,
)
from ansible_collections.tandem.vllm.plugins.module_utils.placement import (
    Model,
    Network,
    Node,
    Placement,
    Replica,
    Service,
)
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problem
from ansible_collections.tandem.vllm.plugins.module_utils.vocabulary import FAMILIES, URL

REF = "sha256:" + "ab" * 32
GPUS = tuple(str(n) for n in range(16))
GOOD = HostFacts(
    addresses={"127.0.0.1": "lo", "10.0.0.1": "eth0"},
    image_present=True,
    models={"/models/big": {"num_attention_heads": 40, "num_key_value_heads": 8}},
)
OTHER_GPUS = "Give the node another number of GPUs with tandem_gpus, or use replicas[]"
MODEL = "gpu1: tandem_services[chat].model.path"
PUT_MODEL = "Put the model directory there: every node needs it under the same path"
FREE_PORT = "Stop that process or choose another port"


def placement(tensor_parallel: int = 4) -> Placement:
    replica = Replica("chat-gpu1", ("gpu1",), tensor_parallel, gpus=GPUS[:tensor_parallel])
    service = Service("chat", Model("/models/big", "big"), (replica,))
    return Placement("site", {"gpu1": Node("10.0.0.1", GPUS), "gpu2": Node("10.0.0.2")}, (service,))


def judge(
    facts: HostFacts, tensor_parallel: int = 4, archive: str | None = None, models_to_come: list[str] | None = None
) -> list[Problem]:
    image = {"ref": REF, "archive": archive}
    return judge_node(placement(tensor_parallel), "gpu1", facts, image, models_to_come or []).found


def test_a_good_node() -> None:
    assert judge(GOOD) == []


def test_a_node_without_replicas_needs_no_model() -> None:
    facts = replace(GOOD, addresses={"10.0.0.2": "eth0"}, models={})
    assert judge_node(placement(), "gpu2", facts, {"ref": REF}).found == []


NO_IMAGE = Problem(
    "gpu1: tandem_image.ref",
    repr(REF),
    "no such image on the node",
    "Set tandem_image.archive to a 'docker save' archive on the control node, or load the image there",
)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (replace(GOOD, image_present=False), NO_IMAGE),
        (
            replace(GOOD, docker_error="docker: No such file or directory", image_present=False),
            Problem(
                "gpu1: docker",
                "'no answer'",
                "the Docker engine must answer: docker: No such file or directory",
                "Install it, or 'systemctl start docker' there",
            ),
        ),
        (
            replace(GOOD, addresses={"127.0.0.1": "lo", "10.0.0.7": "eth0"}),
            Problem(
                "gpu1: tandem_address",
                "'10.0.0.1'",
                "is on no interface of this host, which has 127.0.0.1, 10.0.0.7",
                "Correct it in host_vars",
            ),
        ),
        (
            replace(GOOD, missing={"systemd": "Tandem needs a host that runs systemd"}),
            Problem("gpu1: systemd", "'missing'", "is needed on this host", "Tandem needs a host that runs systemd"),
        ),
        (
            replace(GOOD, models={"/models/big": "no such directory on the node"}),
            Problem(MODEL, "'/models/big'", "no such directory on the node", PUT_MODEL),
        ),
        (
            replace(GOOD, models={"/models/big": "its config.json is not valid JSON: Expecting value"}),
            Problem(MODEL, "'/models/big'", "its config.json is not valid JSON: Expecting value", PUT_MODEL),
        ),
        (replace(GOOD, models={}), Problem(MODEL, "'/models/big'", "was not read", PUT_MODEL)),
        (
            replace(GOOD, listeners={8000: Listener("python3", 4242)}),
            Problem("gpu1: tandem_services[chat].port", "8000", "is taken by python3 (pid 4242)", FREE_PORT),
        ),
        (
            replace(GOOD, listeners={8000: Listener("container grafana")}),
            Problem("gpu1: tandem_services[chat].port", "8000", "is taken by container grafana", FREE_PORT),
        ),
        (replace(GOOD, listeners={8000: Listener("container tandem-chat-gpu1", None, True)}), None),
        (replace(GOOD, listeners={8001: Listener("python3", 1)}), None),
    ],
)
def test_a_node_with_one_fault(facts: HostFacts, problem: Problem | None) -> None:
    assert judge(facts) == ([problem] if problem else [])


@pytest.mark.parametrize(("nodes", "taken"), [(("gpu1", "gpu2"), True), (("gpu2", "gpu1"), False)])
def test_the_port_of_a_rank_group_is_on_its_first_node(nodes: tuple[str, ...], taken: bool) -> None:
    service = Service("chat", Model("/models/big", "big"), (Replica("chat-x2", nodes, 8, 1, "ray"),))
    grouped = replace(placement(), services=(service,))
    found = judge_node(grouped, "gpu1", replace(GOOD, listeners={8000: Listener("python3", 4242)}), {"ref": REF}).found
    assert [problem.variable for problem in found] == ["gpu1: tandem_services[chat].port"] * taken


def test_an_image_that_comes_from_the_archive() -> None:
    assert judge(replace(GOOD, image_present=False), archive="/srv/vllm.tar") == []


def test_a_model_that_comes_from_the_bundle_need_not_be_there() -> None:
    facts = replace(GOOD, models={"/models/big": "no such directory on the node"})
    assert judge(facts, models_to_come=["/models/big"]) == []
    assert judge(facts, models_to_come=["/models/other"]) != []


def test_all_faults_are_told() -> None:
    facts = HostFacts(missing={"systemd": "x"}, listeners={8000: Listener("a")})
    assert [p.variable for p in judge(facts)] == [
        "gpu1: systemd",
        "gpu1: tandem_address",
        "gpu1: tandem_image.ref",
        MODEL,
        "gpu1: tandem_services[chat].port",
    ]


@pytest.mark.parametrize(
    ("config", "tensor_parallel", "wanted"),
    [
        ({"num_attention_heads": 40, "num_key_value_heads": 8}, 8, None),
        ({"num_attention_heads": 40, "num_key_value_heads": 8}, 1, None),
        (
            {"num_attention_heads": 40, "num_key_value_heads": 8},
            3,
            "must divide the model's 40 attention heads: one of 1, 2, 4, 5, 8, 10, 20, 40",
        ),
        (
            {"num_attention_heads": 14, "num_key_value_heads": 2},
            4,
            "must divide the model's 14 attention heads: one of 1, 2, 7, 14",
        ),
        ({"text_config": {"num_attention_heads": 9}}, 2, "must divide the model's 9 attention heads: one of 1, 3, 9"),
        # The top level of a multimodal model does not count.
        ({"num_attention_heads": 9, "text_config": {"num_attention_heads": 8}}, 2, None),
        (
            {"num_attention_heads": 40, "num_key_value_heads": 8},
            5,
            "must divide the model's 8 key-value heads or be a multiple of them",
        ),
        (
            {"num_attention_heads": 24, "num_key_value_heads": 6},
            4,
            "must divide the model's 6 key-value heads or be a multiple of them",
        ),
        # More GPUs than key-value heads: they are replicated.
        ({"num_attention_heads": 32, "num_key_value_heads": 2}, 8, None),
        ({"num_attention_heads": 40}, 8, None),
        ({"num_attention_heads": 40, "num_key_value_heads": None}, 8, None),
        # Another number for each layer, or none at all: left to vLLM.
        ({"num_attention_heads": 32, "num_key_value_heads": [8, 4]}, 4, None),
        ({"num_attention_heads": [32, 16]}, 3, None),
        ({"num_attention_heads": 0}, 3, None),
        (
            {"text_config": ["?"], "num_attention_heads": 9},
            2,
            "must divide the model's 9 attention heads: one of 1, 3, 9",
        ),
        ({}, 3, None),
    ],
)
def test_tensor_parallel_fits_the_heads(config: dict[str, Any], tensor_parallel: int, wanted: str | None) -> None:
    found = judge(replace(GOOD, models={"/models/big": config}), tensor_parallel)
    variable = "gpu1: tensor_parallel of replica chat-gpu1"
    assert found == ([Problem(variable, str(tensor_parallel), wanted, OTHER_GPUS)] if wanted else [])


def test_gateway() -> None:
    assert judge_gateway("gw", "10.0.0.1", 8080, GOOD).found == []
    ours = replace(GOOD, listeners={8080: Listener("nginx", 7, True)})
    assert judge_gateway("gw", "10.0.0.1", 8080, ours).found == []
    facts = HostFacts({"10.0.0.9": "eth0"}, {"systemd": "Use one"}, listeners={8080: Listener("nginx", 7)})
    assert judge_gateway("gw", "10.0.0.1", 8080, facts).found == [
        Problem("gw: systemd", "'missing'", "is needed on this host", "Use one"),
        Problem(
            "gw: tandem_address",
            "'10.0.0.1'",
            "is on no interface of this host, which has 10.0.0.9",
            "Correct it in host_vars",
        ),
        Problem("gw: tandem_gateway_port", "8080", "is taken by nginx (pid 7)", FREE_PORT),
    ]


OSS = {"model_type": "gpt_oss", "num_attention_heads": 40, "num_key_value_heads": 8}
O200K = "vocabulary/o200k_base.tiktoken"
SHA = FAMILIES["gpt_oss"].files["o200k_base.tiktoken"]
VARIABLE = "TIKTOKEN_ENCODINGS_BASE"
BARE = replace(GOOD, models={"/models/big": OSS})
PUT_IT = f"Put it there (its address: {URL}o200k_base.tiktoken), or deploy from a bundle made with it (docs/bundle.md)"
LOAD_IT = ". Or load the image on the node first: newer ones bring the vocabulary, which Tandem then finds out"
FETCHES = ". vLLM would fetch it from the internet when it starts"


@pytest.mark.parametrize(
    ("facts", "to_come", "reason", "asked"),
    [
        pytest.param(BARE, {}, f"{O200K} is not there", True, id="none"),
        pytest.param(replace(BARE, image_present=False), {}, f"{O200K} is not there", True, id="no image to ask"),
        pytest.param(
            replace(BARE, vocabularies={"/models/big": {O200K: "0" * 64}}),
            {},
            f"{O200K} is another file than the one with the SHA-256 {SHA}",
            True,
            id="another file",
        ),
        pytest.param(BARE, {"/models/other": {O200K: SHA}}, f"{O200K} is not there", True, id="another model's"),
        pytest.param(replace(BARE, builds_in=[VARIABLE]), {}, None, True, id="the image brings it"),
        pytest.param(replace(BARE, vocabularies={"/models/big": {O200K: SHA}}), {}, None, False, id="there"),
        pytest.param(BARE, {"/models/big": {O200K: SHA}}, None, False, id="to come"),
        pytest.param(GOOD, {}, None, False, id="another family"),
    ],
)
def test_vocabularies(facts: HostFacts, to_come: Held, reason: str | None, asked: bool) -> None:
    image = {"ref": REF, "archive": "/srv/vllm.tar"}
    remedy = PUT_IT + ("" if facts.image_present else LOAD_IT)
    wanted = [Problem(MODEL, "'/models/big'", reason + FETCHES, remedy)] if reason else []
    assert judge_node(placement(), "gpu1", facts, image, [], to_come).found == wanted
    assert to_ask_for(placement(), "gpu1", facts, to_come) == ([FAMILIES["gpt_oss"]] if asked else [])
    held = {**facts.vocabularies.get("/models/big", {}), **to_come.get("/models/big", {})}
    environment = {"/models/big": {VARIABLE: "/models/big/vocabulary"}} if held.get(O200K) == SHA else {}
    assert model_environments(placement(), "gpu1", facts, to_come) == environment


def test_who_sets_the_variable_is_asked_for_nothing() -> None:
    made = placement()
    service = replace(made.services[0], environment={VARIABLE: "/vocabulary"})
    assert judge_node(replace(made, services=(service,)), "gpu1", BARE, {"ref": REF}).found == []


def test_a_model_that_is_sent_whole_is_not_judged_yet() -> None:
    facts = replace(GOOD, models={"/models/big": "no such directory on the node"})
    assert judge(facts, models_to_come=["/models/big"]) == []


NO_RDMA = Problem(
    "gpu1: tandem_network.rdma",
    "True",
    "the node has no RDMA device: /dev/infiniband holds no uverbs file",
    "Load the driver of its RDMA network card ('ibv_devices' lists what works), or leave out rdma",
)


@pytest.mark.parametrize(
    ("rdma", "gpus", "nodes", "devices", "refused"),
    [
        (True, GPUS[:4], ("gpu1", "gpu2"), False, True),
        (True, GPUS[:4], ("gpu2", "gpu1"), False, True),
        (True, GPUS[:4], ("gpu1", "gpu2"), True, False),
        (True, GPUS[:4], ("gpu1",), False, False),
        (True, (), ("gpu1", "gpu2"), False, False),
        (False, GPUS[:4], ("gpu1", "gpu2"), False, False),
        (None, GPUS[:4], ("gpu1", "gpu2"), False, False),
    ],
)
def test_rdma_needs_devices(
    rdma: bool | None, gpus: tuple[str, ...], nodes: tuple[str, ...], devices: bool, refused: bool
) -> None:
    service = Service("chat", Model("/models/big", "big"), (Replica("chat-x", nodes, 8),))
    hosts = {"gpu1": Node("10.0.0.1", gpus), "gpu2": Node("10.0.0.2", gpus)}
    placed = Placement("site", hosts, (service,), network=Network(rdma=rdma))
    found = judge_node(placed, "gpu1", replace(GOOD, rdma_devices=devices), {"ref": REF}).found
    assert found == ([NO_RDMA] if refused else [])
