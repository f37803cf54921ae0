# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Model, Node, Placement, Replica, Service
from ansible_collections.tandem.vllm.plugins.module_utils.vllm_argv import flag_name, flag_owner, flags, serve_argv

CPU = Replica("chat-node1", ("node1",))
SERVICE = Service("chat", Model("/models/tiny", "tiny-chat", "5ede1c97"), (CPU,))
NODES = {name: Node(f"10.0.0.{number}") for number, name in enumerate(("node1", "node2", "gpu1"), 1)}
PLACEMENT = Placement("site", NODES, (SERVICE,))
ENGINE = {
    "max_model_len": 8192,
    "gpu_memory_utilization": 0.9,
    "enforce_eager": True,
    "enable_prefix_caching": False,
    "quantization": None,
    "limit_mm_per_prompt": {"video": 0, "image": 2},
}


def test_argv_on_cpu() -> None:
    service = replace(SERVICE, engine={"max_model_len": 2048}, extra_args={"disable_log_stats": True})
    assert serve_argv(PLACEMENT, service, replace(CPU, port=8001), "node1") == [
        "vllm",
        "serve",
        "/models/tiny",
        "--served-model-name=tiny-chat",
        "--host=0.0.0.0",
        "--port=8001",
        "--tensor-parallel-size=1",
        "--max-model-len=2048",
        "--disable-log-stats",
    ]


def test_argv_on_four_gpus() -> None:
    replica = Replica("chat-gpu1", ("gpu1",), 4, gpus=("0", "1", "2", "3"))
    assert serve_argv(PLACEMENT, replace(SERVICE, engine=ENGINE), replica, "gpu1")[6:] == [
        "--tensor-parallel-size=4",
        "--distributed-executor-backend=mp",
        "--no-enable-prefix-caching",
        "--enforce-eager",
        "--gpu-memory-utilization=0.9",
        '--limit-mm-per-prompt={"image":2,"video":0}',
        "--max-model-len=8192",
    ]


def test_argv_with_pipeline_parallel() -> None:
    replica = Replica("chat-gpu1", ("gpu1",), 1, 2, "ray", gpus=("0", "1"))
    assert serve_argv(PLACEMENT, SERVICE, replica, "gpu1")[6:] == [
        "--tensor-parallel-size=1",
        "--pipeline-parallel-size=2",
        "--distributed-executor-backend=ray",
    ]


GROUP = Replica("chat-node2-x2", ("node2", "node1"), 4, 2, "ray", 8001)
COMMON = [
    "vllm",
    "serve",
    "/models/tiny",
    "--served-model-name=tiny-chat",
    # In its hosts' network a rank group listens on one private address: the first node's.
    "--host=10.0.0.2",
    "--port=8001",
]


def test_argv_of_a_rank_group_with_ray() -> None:
    service = replace(SERVICE, engine={"max_model_len": 2048})
    assert serve_argv(PLACEMENT, service, GROUP, "node2") == [
        *COMMON,
        "--tensor-parallel-size=4",
        "--pipeline-parallel-size=2",
        "--distributed-executor-backend=ray",
        "--max-model-len=2048",
    ]


def test_argv_of_a_rank_group_over_tensor_parallel_alone() -> None:
    replica = replace(GROUP, tensor_parallel=8, pipeline_parallel=1)
    assert serve_argv(PLACEMENT, SERVICE, replica, "node2") == [
        *COMMON,
        "--tensor-parallel-size=8",
        "--distributed-executor-backend=ray",
    ]


@pytest.mark.parametrize(("node", "rank", "headless"), [("node2", 0, []), ("node1", 1, ["--headless"])])
def test_argv_of_a_rank_group_without_ray(node: str, rank: int, headless: list[str]) -> None:
    """Each node runs it; only the first has an API."""
    service = replace(SERVICE, extra_args={"seed_all": 1})
    assert serve_argv(PLACEMENT, service, replace(GROUP, executor="mp"), node) == [
        *COMMON,
        "--tensor-parallel-size=4",
        "--pipeline-parallel-size=2",
        "--distributed-executor-backend=mp",
        "--nnodes=2",
        f"--node-rank={rank}",
        "--master-addr=10.0.0.2",
        "--master-port=6387",
        *headless,
        "--seed-all=1",
    ]


def test_argv_does_not_depend_on_the_order_of_settings() -> None:
    extra = {"z": {"b": 1, "a": {"d": 1, "c": 2}}, "a": 1}
    turned = {"a": 1, "z": {"a": {"c": 2, "d": 1}, "b": 1}}
    given = replace(SERVICE, engine=ENGINE, extra_args=extra)
    again = replace(SERVICE, engine=dict(reversed(ENGINE.items())), extra_args=turned)
    one = serve_argv(PLACEMENT, given, CPU, "node1")
    assert one == serve_argv(PLACEMENT, again, CPU, "node1")
    assert one[-2:] == ["--a=1", '--z={"a":{"c":2,"d":1},"b":1}']


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, []),
        ({"a": None}, []),
        ({"a_b": True}, ["--a-b"]),
        ({"a_b": False}, ["--no-a-b"]),
        ({"a": 0}, ["--a=0"]),
        ({"a": 1.5}, ["--a=1.5"]),
        ({"a": ""}, ["--a="]),
        ({"a": "x y"}, ["--a=x y"]),
        ({"a": ["x", 1]}, ["--a", "x", "1"]),
        ({"a": ("x",)}, ["--a", "x"]),
        ({"a": {}}, ["--a={}"]),
        ({"a": {"k": [True, None, "t"]}}, ['--a={"k":[true,null,"t"]}']),
        ({"--a-b": 1, "-c": 2}, ["--a-b=1", "--c=2"]),
        ({"b": 1, "a": 2, "C": 3}, ["--C=3", "--a=2", "--b=1"]),
    ],
)
def test_flags(settings: dict[str, Any], wanted: list[str]) -> None:
    assert flags(settings) == wanted


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("max_model_len", "max_model_len"),
        ("--max-model-len", "max_model_len"),
        ("no-enforce-eager", "enforce_eager"),
        ("--no_enforce_eager", "enforce_eager"),
        ("-tp", "tensor_parallel_size"),
        ("tp", "tensor_parallel_size"),
        ("pp", "pipeline_parallel_size"),
        ("dp", "data_parallel_size"),
        ("-n", "nnodes"),
        ("r", "node_rank"),
        ("node", "node"),
    ],
)
def test_flag_name(written: str, name: str) -> None:
    assert flag_name(written) == name


@pytest.mark.parametrize(
    ("written", "owner"),
    [
        ("host", "the node's tandem_address"),
        ("--hos", "the node's tandem_address"),
        ("-tp", "the placement"),
        ("tensor-parallel", "the placement"),
        ("model", "tandem_services[].model.path"),
        # not the beginning of an owned flag, but the other way round
        ("model_impl", None),
        ("hf_config_path", None),
        ("kv_cache_dtype", None),
        ("max_model_len", None),
    ],
)
def test_flag_owner(written: str, owner: str | None) -> None:
    assert flag_owner(written) == owner
