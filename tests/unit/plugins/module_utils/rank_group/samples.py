# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placements with rank groups: on two nodes with four GPUs, with Ray and without, and on two nodes of a lab."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.tandem.vllm.plugins.module_utils.containers import Launch
from ansible_collections.tandem.vllm.plugins.module_utils.placement import (
    Limits,
    Model,
    Node,
    Placement,
    Replica,
    Service,
)

IMAGE = "sha256:" + "ab" * 32
KEY = "sk-Engine-Key-000003"
LAUNCH = Launch(IMAGE, KEY, "/etc/tandem/engine.key", {"/models/big": {"TIKTOKEN_ENCODINGS_BASE": "/v"}}, "ens1f0")
OBJECT_STORE = 2 * 1024**3

GROUP = Replica("chat-gpu1-x2", ("gpu1", "gpu2"), 4, 2, "ray", 8100)
SINGLE = Replica("chat-gpu3", ("gpu3",), 4, gpus=("0", "1", "2", "3"))
CHAT = Service(
    "chat",
    Model("/models/big", "big-chat", "5ede1c97"),
    (GROUP, SINGLE),
    engine={"max_model_len": 8192},
    limits=Limits("16g", "200g", 8.0),
    environment={"NCCL_DEBUG": "WARN", "HF_HUB_OFFLINE": "0"},
)
# One of them has its GPUs by CDI.
NODES = {
    "gpu1": Node("10.0.0.1", ("0", "1", "2", "3")),
    "gpu2": Node("10.0.0.2", ("4", "5", "6", "GPU-9f"), gpu_access="cdi"),
    "gpu3": Node("10.0.0.3", ("0", "1", "2", "3")),
}
RAY = Placement("site", NODES, (CHAT,))
RANKS = replace(GROUP, executor="mp")
WITHOUT_RAY = replace(RAY, services=(replace(CHAT, replicas=(RANKS, SINGLE)),))

TINY_GROUP = Replica("tiny-node1-x2", ("node1", "node2"), 2, 1, "ray")
TINY = Service("tiny", Model("/models/tiny", "tiny-chat"), (TINY_GROUP,))
LAB = Placement("lab", {"node1": Node("10.0.1.1"), "node2": Node("10.0.1.2")}, (TINY,), True)
