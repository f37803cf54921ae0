# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs of engines: the facts of the families nccl, memory, model and server, and what comes first of several."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.triage.engine import triage
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.triage.samples import by_name, causes

TEXTS = {
    (family, *key): text
    for family in ("gpu", "ray", "nccl", "memory", "model", "server")
    for key, text in by_name(family).items()
}


@pytest.mark.parametrize(
    ("family", "cause", "name", "details"),
    [
        (
            "nccl",
            "network_unreachable_between_nodes",
            "no route (logs-03)",
            {"component": "nccl", "peer": "10.0.0.4", "port": 56849},
        ),
        (
            "nccl",
            "network_unreachable_between_nodes",
            "gloo",
            {"component": "gloo", "peer": "10.0.0.4", "port": 14215},
        ),
        (
            "nccl",
            "network_unreachable_between_nodes",
            "the store",
            {"component": "torch", "peer": "10.0.0.9", "port": 46229},
        ),
        (
            "nccl",
            "wrong_network_interface",
            "LXC bridge, and then a timeout",
            {"component": "nccl", "peer": "10.0.3.1", "port": 56849, "interfaces": ["lxcbr0:10.0.3.1"]},
        ),
        ("nccl", "wrong_network_interface", "gloo, NCCL syntax", {"component": "gloo", "asked_for": "^lo,docker"}),
        (
            "nccl",
            "wrong_network_interface",
            "name that is not there",
            {"component": "nccl", "asked_for": "eth9"},
        ),
        (
            "nccl",
            "nccl_init_hang",
            "first collective (logs-06)",
            {"component": "nccl", "sequence": 1, "operation": "ALLREDUCE", "numbers": 1, "timeout_s": 600},
        ),
        (
            "nccl",
            "nccl_init_hang",
            "a counter that was never set (logs-08)",
            {"component": "nccl", "sequence": 1, "operation": "ALLREDUCE", "numbers": 1572864, "timeout_s": 600},
        ),
        (
            "nccl",
            "nccl_timeout_mid_run",
            "with counters",
            {
                "component": "nccl",
                "sequence": 15800,
                "operation": "ALLREDUCE",
                "numbers": 466119168,
                "timeout_s": 600,
                "done": 15799,
            },
        ),
        ("nccl", "shm_too_small", "three layers (logs-10)", {"segment_bytes": 7340384}),
        ("nccl", "rdma_path_broken", "queue pair", {"device": "mlx5_1:1"}),
        ("nccl", "rdma_path_broken", "completion, new", {"status": 12}),
        (
            "memory",
            "kv_cache_too_small",
            "wrapped, short by 10 MiB (logs-27)",
            {"max_model_len": 100000, "needed_gib": 4.26, "available_gib": 4.25},
        ),
        ("memory", "kv_cache_too_small", "v0 (logs-28)", {"max_model_len": 32768, "capacity_tokens": 7344}),
        (
            "memory",
            "kv_cache_too_small",
            "v1",
            {
                "max_model_len": 262144,
                "needed_gib": 24.0,
                "available_gib": 3.18,
                "estimated_max_model_len": 34736,
            },
        ),
        (
            "memory",
            "kv_cache_too_small",
            "without the bracket, over three lines",
            {
                "max_model_len": 1048576,
                "needed_gib": 22.5,
                "available_gib": 17.39,
                "estimated_max_model_len": 810208,
            },
        ),
        ("memory", "kv_cache_too_small", "nothing left, and how much", {"available_gib": -1.98}),
        (
            "memory",
            "gpu_out_of_memory",
            "weights",
            {"gpu": "0", "tried": "462.00 MiB", "total": "44.40 GiB", "free": "29.25 MiB"},
        ),
        (
            "memory",
            "host_ram_oom",
            "kernel",
            {"process": {"pid": 240187, "name": "VLLM::EngineCor"}},
        ),
        (
            "memory",
            "host_ram_oom",
            "Ray, the numbers",
            {"address": "10.0.0.204", "used_gb": 2152.43, "total_gb": 2265.25},
        ),
        (
            "memory",
            "host_ram_oom",
            "the limit of the container",
            {"process": {"pid": 240187, "name": "python3"}, "limited": True},
        ),
        (
            "memory",
            "slow_model_storage",
            "an hour and more",
            {"files_loaded": 1, "files": 38, "seconds": 7296, "seconds_per_file": 192.02},
        ),
        ("memory", "slow_model_storage", "the time it took", {"seconds": 2410}),
        ("memory", "slow_model_storage", "NFS", {"server": "10.0.0.200"}),
        ("model", "hub_lookup_while_offline", "gated, but the files are there (logs-43)", {"model": "org/model-name"}),
        ("model", "model_path_missing", "taken for a name", {"path": "/models/Qwen2.5-32B"}),
        (
            "model",
            "max_model_len_too_long",
            "vLLM",
            {"max_model_len": 131072, "derived_max_model_len": 32768},
        ),
        ("model", "model_architecture_unsupported", "vLLM", {"architecture": "Qwen9ForCausalLM"}),
        ("model", "tensor_parallel_does_not_divide", "heads", {"heads": 28, "tensor_parallel": 8}),
        (
            "model",
            "gpu_architecture_unsupported",
            "bfloat16",
            {"gpu": "Tesla T4", "capability": "7.5", "needed": "8.0"},
        ),
        ("server", "port_conflict", "after the load (logs-34)", {"port": 8000}),
        ("server", "port_conflict", "IPv6", {"port": 8000}),
        ("server", "port_conflict", "Docker, host", {"port": 8080}),
        ("server", "port_conflict", "nginx", {"port": 80}),
        ("server", "port_conflict", "ZeroMQ", {"port": 29550}),
        ("server", "port_conflict", "the store, older", {"port": 29500}),
        ("server", "port_conflict", "name of the error", {"port": 29500}),
        ("server", "port_conflict", "Ray head", {"port": 6379}),
        ("server", "port_conflict", "Ray ports", {"port": 10002}),
        ("server", "bind_address_not_on_host", "uvicorn", {"address": "10.0.0.9", "port": 8000}),
        ("server", "argument_unknown", "vLLM", {"arguments": "--swap-space --num-scheduler-steps"}),
        ("server", "engine_died_unknown", "v1", {"exception": "KeyError: 'layers.0.mlp.experts.w2_weight'"}),
    ],
)
def test_details(family: str, cause: str, name: str, details: dict[str, Any]) -> None:
    assert triage(TEXTS[family, cause, name])[0].details == details


WATCHDOG = "nccl", "nccl_timeout_mid_run", "after days (logs-07)"
HANG = "nccl", "nccl_init_hang", "first collective (logs-06)"
NODE_LOST = "ray", "node_lost", "Ray 1.2 (logs-33)"
WORKER_DIED = "ray", "worker_died_unknown", "three possible causes (logs-32)"
ENGINE_DIED = "server", "engine_died_unknown", "v1"
UNHANDLED = "nccl", "nccl_unknown", "nothing but the exception"


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        # A node that is lost brings the rest about.
        ([NODE_LOST, WATCHDOG, WORKER_DIED], ["node_lost", "nccl_timeout_mid_run", "worker_died_unknown"]),
        # The kernel saw why the worker died.
        ([WORKER_DIED, ("memory", "host_ram_oom", "kernel")], ["host_ram_oom", "worker_died_unknown"]),
        # What stops the first collective.
        (
            [HANG, ("nccl", "network_unreachable_between_nodes", "no route (logs-03)")],
            ["network_unreachable_between_nodes", "nccl_init_hang"],
        ),
        (
            [HANG, ("nccl", "rdma_path_broken", "queue pair")],
            ["rdma_path_broken", "nccl_init_hang"],
        ),
        (
            [HANG, ("ray", "vllm_host_ip_same_on_all_nodes", "fewer addresses, broken (logs-24)")],
            ["vllm_host_ip_same_on_all_nodes", "nccl_init_hang"],
        ),
        ([WATCHDOG, ("gpu", "gpu_fell_off_bus", "Xid 79, old")], ["gpu_fell_off_bus", "nccl_timeout_mid_run"]),
        # That the engine ended is told only where nothing says why.
        ([ENGINE_DIED, UNHANDLED], ["nccl_unknown"]),
        ([ENGINE_DIED, ("memory", "kv_cache_too_small", "v0 (logs-28)")], ["kv_cache_too_small"]),
        ([ENGINE_DIED, ("server", "port_conflict", "IPv6")], ["port_conflict"]),
        (
            [
                ("memory", "gpu_out_of_memory", "CUDA"),
                ("gpu", "gpu_memory_in_use", "out of memory, held by another process"),
            ],
            ["gpu_memory_in_use"],
        ),
        (
            [("model", "model_files_damaged", "safetensors"), ("memory", "disk_full", "quota")],
            ["disk_full", "model_files_damaged"],
        ),
    ],
)
def test_several_causes(texts: list[tuple[str, str, str]], ids: list[str]) -> None:
    parts = [TEXTS[key] for key in texts]
    for text in ("\n\n".join(parts), "\n\n".join(reversed(parts))):
        assert [cause.id for cause in triage(text)] == ids


STARTS = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=ALLREDUCE, NumelIn=8, "
    "NumelOut=8, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
)
COUNTERS = "[PG 1 Rank 0] Timeout at NCCL work: 8, last enqueued NCCL work: %d, last completed NCCL work: %d.\n"
PROGRESS = "Loading safetensors checkpoint shards:  10%% Completed | 3/30 [%s<%s, %ss/it]\n"
GATED = "Access to model org/model-name is restricted and you are not in the authorized list.\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # One and the same message: how far it had come decides.
        (STARTS % 1, [("nccl_init_hang", "high")]),
        (STARTS % 8, [("nccl_init_hang", "medium")]),
        (STARTS % 8 + COUNTERS % (8, 7), [("nccl_timeout_mid_run", "medium")]),
        (STARTS % 8 + COUNTERS % (8, 93459313471793), [("nccl_init_hang", "medium")]),
        (STARTS % 8 + COUNTERS % (8, -1), [("nccl_init_hang", "high")]),
        (STARTS % 999, [("nccl_timeout_mid_run", "medium")]),
        (STARTS % 1000, [("nccl_timeout_mid_run", "high")]),
        # How long it takes.
        (PROGRESS % ("00:30", "04:30", "10.00"), []),
        (PROGRESS % ("01:30", "13:30", "30.00"), [("slow_model_storage", "medium")]),
        (PROGRESS % ("00:45", "01:30", "45.00"), [("slow_model_storage", "medium")]),
        (PROGRESS % ("00:44", "01:30", "44.00"), []),
        # Where the files are.
        (GATED, [("hf_auth_missing", "high")]),
        (GATED + "env: HF_HUB_OFFLINE=0\n", [("hub_lookup_while_offline", "high")]),
    ],
)
def test_numbers_and_surroundings_decide(text: str, found: list[tuple[str, str]]) -> None:
    assert causes(text) == found
