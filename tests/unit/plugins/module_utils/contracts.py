# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two contracts as inventories state them, and ways to change them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.api_keys import key_state, key_states
from ansible_collections.tandem.vllm.plugins.module_utils.contract import Contract, read_contract
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problem

DIGEST = "sha256:" + "ab" * 32
SECRETS = ["sk-Client-Alice-0001", "sk-Client-Bob-000002", "sk-Engine-Key-000003", "sk-tooshort"]

LAB = Contract(
    topology="dual_replica",
    environment="lab",
    lab=True,
    image={"ref": "tandem-lab/vllm:0.32.0"},
    services=[
        {
            "name": "chat",
            "model": {"path": "/models/tandem-tiny-chat", "served_name": "tiny-chat"},
            "engine": {"max_model_len": 2048, "enforce_eager": True, "extra_args": {"disable_log_stats": False}},
            "limits": {"shm_size": "1g", "memory": "4g", "cpus": 1},
            "environment": {"VLLM_CPU_KVCACHE_SPACE": 1},
        }
    ],
    nodes=[{"name": "node1", "address": "10.89.70.11"}, {"name": "node2", "address": "10.89.70.12"}],
    gateways=[{"name": "gateway", "address": "10.89.70.10", "port": 8080}],
    inventory_hosts=["gateway", "localhost", "node1", "node2"],
    api_keys=key_states([{"name": "alice", "key": SECRETS[0]}, {"name": "bob", "key": SECRETS[1]}]),
    engine_api_key=key_state(SECRETS[2]),
)
SITE = replace(
    LAB,
    environment="two-node-a100",
    lab=False,
    image={"ref": DIGEST, "archive": "/srv/vllm.tar"},
    archive_exists=True,
    services=[
        {
            "name": "chat",
            "model": {"path": "/models/Qwen2.5-32B-Instruct", "served_name": "qwen2.5-32b", "revision": "5ede1c97"},
            "engine": {"max_model_len": 8192, "gpu_memory_utilization": 0.9},
            "limits": {"shm_size": "16g", "memory": "200g"},
        }
    ],
    nodes=[
        {"name": "gpu1", "address": "192.168.1.11", "gpus": {"count": 4}},
        {"name": "gpu2", "address": "192.168.1.12", "gpus": {"count": 4}},
    ],
    gateways=[{"name": "gpu1", "address": "192.168.1.11", "port": 8080}],
    inventory_hosts=["gpu1", "gpu2", "backup"],
)

Change = Callable[[Contract], Contract]


def set_(**values: Any) -> Change:
    """Other statements."""
    return lambda contract: replace(contract, **values)


def put(path: str, value: Any) -> Change:
    """One value inside a statement, by a dotted path such as services.0.model.path."""

    def change(contract: Contract) -> Contract:
        top, *steps = path.split(".")
        statement = copy.deepcopy(getattr(contract, top))
        inner = statement
        for step in steps[:-1]:
            inner = inner[int(step)] if isinstance(inner, list) else inner.setdefault(step, {})
        last: Any = int(steps[-1]) if isinstance(inner, list) else steps[-1]
        inner[last] = value
        return replace(contract, **{top: statement})

    return change


def drop(path: str) -> Change:
    """One key less."""

    def change(contract: Contract) -> Contract:
        top, *steps = path.split(".")
        statement = copy.deepcopy(getattr(contract, top))
        inner = statement
        for step in steps[:-1]:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        del inner[steps[-1]]
        return replace(contract, **{top: statement})

    return change


def replicas(*entries: Any) -> Change:
    """Replicas of the first service, written by hand."""
    return put("services.0.replicas", list(entries))


def found(contract: Contract) -> list[Problem]:
    """The problems of a contract, of which none tells a secret."""
    placement, problems = read_contract(contract)
    said = problems.message("Wrong")
    assert (placement is None) == bool(problems.found)
    assert not [secret for secret in SECRETS if secret in said]
    return problems.found
