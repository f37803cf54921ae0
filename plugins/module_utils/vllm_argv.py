# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's command line: the only place that writes it, and the table of the engine settings Tandem knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement, Replica, Service
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import ports

# Engine settings by vLLM's own names and the kind of value each takes (see contract.py for what a kind allows).
# Any other vLLM flag goes into `extra_args`, unchecked.
ENGINE_SETTINGS: dict[str, str] = {
    "block_size": "positive integer",
    "chat_template": "text",
    "cpu_offload_gb": "number",
    "dtype": "text",
    "enable_auto_tool_choice": "boolean",
    "enable_chunked_prefill": "boolean",
    "enable_expert_parallel": "boolean",
    "enable_prefix_caching": "boolean",
    "enforce_eager": "boolean",
    "gpu_memory_utilization": "fraction",
    "hf_overrides": "mapping",
    "kv_cache_dtype": "text",
    "kv_cache_memory_bytes": "positive integer",
    "limit_mm_per_prompt": "mapping",
    "load_format": "text",
    "max_model_len": "positive integer",
    "max_num_batched_tokens": "positive integer",
    "max_num_seqs": "positive integer",
    "quantization": "text",
    "reasoning_parser": "text",
    "runner": "text",
    "seed": "integer",
    "tool_call_parser": "text",
    "trust_remote_code": "boolean",
}

# Flags that follow from the placement, and those that would open a door Tandem keeps shut. Not to be given by hand.
OWNED_FLAGS: dict[str, str] = {
    "model": "tandem_services[].model.path",
    "served_model_name": "tandem_services[].model.served_name",
    "revision": "tandem_services[].model.revision",
    "host": "the node's tandem_address",
    "port": "tandem_services[].port",
    "uds": "the node's tandem_address",
    "api_key": "tandem_engine_api_key",
    "tensor_parallel_size": "the placement",
    "pipeline_parallel_size": "the placement",
    "data_parallel_size": "the placement",
    "data_parallel_size_local": "the placement",
    "data_parallel_rank": "the placement",
    "data_parallel_start_rank": "the placement",
    "data_parallel_address": "the placement",
    "data_parallel_rpc_port": "the placement",
    "data_parallel_backend": "the placement",
    "prefill_context_parallel_size": "the placement",
    "decode_context_parallel_size": "the placement",
    "grpc_port": "tandem_services[].port",
    "distributed_executor_backend": "the placement",
    "nnodes": "the placement",
    "node_rank": "the placement",
    "master_addr": "the placement",
    "master_port": "the placement",
    "headless": "the placement",
    "ssl_keyfile": "the gateway",
    "ssl_certfile": "the gateway",
    "config": "tandem_services[].engine",
}

# Short forms that vLLM takes for owned flags.
ALIASES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dpl": "data_parallel_size_local",
    "dpn": "data_parallel_rank",
    "dpr": "data_parallel_start_rank",
    "dpa": "data_parallel_address",
    "dpp": "data_parallel_rpc_port",
    "dpb": "data_parallel_backend",
    "pcp": "prefill_context_parallel_size",
    "dcp": "decode_context_parallel_size",
    "n": "nnodes",
    "r": "node_rank",
}


def flag_name(key: str) -> str:
    """`max_model_len` for any way of writing it: `--max-model-len`, `no-max-model-len`, `-tp`."""
    name = key.lstrip("-").replace("-", "_")
    if name.startswith("no_"):
        name = name[3:]
    return ALIASES.get(name, name)


def flag_owner(key: str) -> str | None:
    """What decides a flag that is not to be given by hand; None for every other flag.

    vLLM's parser takes any unambiguous beginning of a flag for the flag: `--tensor-parallel` is owned too.
    """
    name = flag_name(key)
    if name in OWNED_FLAGS or name in ENGINE_SETTINGS:
        return OWNED_FLAGS.get(name)
    return next((owner for flag, owner in OWNED_FLAGS.items() if flag.startswith(name)), None)


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as vLLM flags, sorted by name; `--name=value`, so that a diff shows both in one line.

    True: `--name`; False: `--no-name`; None: left out; a mapping: JSON; a list: the flag followed by its values.
    """
    out: list[str] = []
    for key in sorted(settings):
        value, flag = settings[key], key.lstrip("-").replace("_", "-")
        if value is None:
            continue
        if value is True:
            out.append("--" + flag)
        elif value is False:
            out.append("--no-" + flag)
        elif isinstance(value, Mapping):
            out.append("--{}={}".format(flag, json.dumps(value, sort_keys=True, separators=(",", ":"))))
        elif isinstance(value, (list, tuple)):
            out += ["--" + flag, *[str(v) for v in value]]
        else:
            out.append(f"--{flag}={value}")
    return out


def serve_argv(placement: Placement, service: Service, replica: Replica, node: str) -> list[str]:
    """The `vllm serve` command of a replica on one of its nodes, inside its container. Same input, same order.

    A replica on one node has a network namespace of its own, where the server listens on all addresses: what is
    published, and on which private address, is decided by the container's published port. A rank group is in its
    hosts' network and listens on the private address alone. Without Ray each node runs the command, and only the first
    node's has an API.
    """
    argv = [
        "vllm",
        "serve",
        service.model.path,
        "--served-model-name=" + service.model.served_name,
        "--host=" + (placement.api_address(replica) if replica.is_rank_group else "0.0.0.0"),  # noqa: S104 - see above
        "--port=%d" % replica.port,
        "--tensor-parallel-size=%d" % replica.tensor_parallel,
    ]
    if replica.pipeline_parallel > 1:
        argv.append("--pipeline-parallel-size=%d" % replica.pipeline_parallel)
    if replica.tensor_parallel * replica.pipeline_parallel > 1:
        argv.append("--distributed-executor-backend=" + replica.executor)
    if replica.is_rank_group and replica.executor == "mp":
        rank = replica.nodes.index(node)
        argv += [
            "--nnodes=%d" % len(replica.nodes),
            "--node-rank=%d" % rank,
            "--master-addr=" + placement.api_address(replica),
            "--master-port=%d" % ports.MASTER,
            *(["--headless"] if rank else []),
        ]
    return argv + flags(service.engine) + flags(service.extra_args)
