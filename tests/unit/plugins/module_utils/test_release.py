# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.placement import (
    Model,
    Node,
    Placement,
    Replica,
    Service,
    release,
    service_release,
)
from ansible_collections.tandem.vllm.plugins.module_utils.release import release_record, replica_rows
from ansible_collections.tandem.vllm.plugins.module_utils.vllm_argv import serve_argv

IMAGE = "sha256:" + "ab" * 32
CHAT = Service(
    "chat",
    Model("/models/big", "big-chat"),
    (Replica("chat-gpu1", ("gpu1",), 2, gpus=("0", "1")), Replica("chat-gpu2", ("gpu2",))),
)
PLACEMENT = Placement("site", {"gpu1": Node("10.0.0.1"), "gpu2": Node("10.0.0.2")}, (CHAT,))
ENGINES = {
    "gpu1": [
        {"container": "someone-else", "vllm_version": "9", "kv_cache_tokens": 1},
        {
            "container": "tandem-chat-gpu1",
            "state": "ready",
            "vllm_version": "0.25.1",
            "kv_cache_tokens": 701168,
            "invocation": {"module_args": {"key_file": "/k"}},
        },
    ]
}


def test_record() -> None:
    first, second = CHAT.replicas
    assert release_record(PLACEMENT, IMAGE, ENGINES) == {
        "schema": 1,
        "release": release(PLACEMENT, IMAGE),
        "image": IMAGE,
        "ray": None,
        "placement": PLACEMENT.to_dict(),
        "replicas": [
            {
                "replica": "chat-gpu1",
                "container": "tandem-chat-gpu1",
                "image": IMAGE,
                "service_release": service_release(CHAT, IMAGE),
                "argv": serve_argv(PLACEMENT, CHAT, first, "gpu1"),
                "vllm_version": "0.25.1",
                "kv_cache_tokens": 701168,
            },
            {
                "replica": "chat-gpu2",
                "container": "tandem-chat-gpu2",
                "image": IMAGE,
                "service_release": service_release(CHAT, IMAGE),
                "argv": serve_argv(PLACEMENT, CHAT, second, "gpu2"),
                "vllm_version": None,
                "kv_cache_tokens": None,
            },
        ],
    }


def test_record_of_an_image_made_on_the_nodes() -> None:
    ray = {"version": "2.59.0", "extras": ["default"]}
    made = "sha256:" + "ef" * 32
    record = release_record(PLACEMENT, IMAGE, ENGINES, ray, {"gpu1": made})
    assert (record["image"], record["ray"]) == (IMAGE, ray)
    assert [r["image"] for r in record["replicas"]] == [made, IMAGE]
    assert [r["service_release"] for r in record["replicas"]] == [
        service_release(CHAT, made),
        service_release(CHAT, IMAGE),
    ]
    others = [release(PLACEMENT, IMAGE), release(PLACEMENT, IMAGE, {**ray, "version": "2.60.0"})]
    assert record["release"] not in [*others, release(PLACEMENT, IMAGE, {**ray, "extras": []})]


def test_record_can_be_written() -> None:
    record = release_record(PLACEMENT, IMAGE, ENGINES)
    assert json.loads(json.dumps(record)) == record
    assert Placement.from_dict(record["placement"]) == PLACEMENT


def test_rows() -> None:
    common = {"service": "chat", "model": "big-chat"}
    assert replica_rows(PLACEMENT, ENGINES) == [
        {
            **common,
            "replica": "chat-gpu1",
            "node": "gpu1",
            "gpus": "0, 1",
            "vllm": "0.25.1",
            "kv_tokens": "701,168",
            "state": "ready",
        },
        {
            **common,
            "replica": "chat-gpu2",
            "node": "gpu2",
            "gpus": "none (CPU)",
            "vllm": "?",
            "kv_tokens": "?",
            "state": "not asked",
        },
    ]


GROUP = Replica("chat-gpu1-x2", ("gpu1", "gpu2"), 2, 2, "mp")
WIDE = Service("chat", Model("/models/big", "big-chat"), (GROUP,))
ON_GPUS = {"gpu1": Node("10.0.0.1", ("0", "1")), "gpu2": Node("10.0.0.2", ("2", "3"))}
SAID = {"gpu1": [{"container": "tandem-chat-gpu1-x2", "state": "ready", "vllm_version": "0.25.1"}]}


def test_record_of_a_rank_group() -> None:
    """One entry, with what its first node runs and says."""
    placement = Placement("site", ON_GPUS, (WIDE,))
    made = "sha256:" + "ef" * 32
    record = release_record(placement, IMAGE, SAID, launched={"gpu1": made, "gpu2": IMAGE})
    assert record["replicas"] == [
        {
            "replica": "chat-gpu1-x2",
            "container": "tandem-chat-gpu1-x2",
            "image": made,
            "service_release": service_release(WIDE, made),
            "argv": serve_argv(placement, WIDE, GROUP, "gpu1"),
            "vllm_version": "0.25.1",
            "kv_cache_tokens": None,
        }
    ]
    assert "--node-rank=0" in record["replicas"][0]["argv"]


@pytest.mark.parametrize(
    ("nodes", "gpus"),
    [(ON_GPUS, "0, 1; 2, 3"), ({name: Node(node.address) for name, node in ON_GPUS.items()}, "none (CPU)")],
)
def test_row_of_a_rank_group(nodes: dict[str, Node], gpus: str) -> None:
    (row,) = replica_rows(Placement("site", nodes, (WIDE,)), SAID)
    assert row == {
        "service": "chat",
        "model": "big-chat",
        "replica": "chat-gpu1-x2",
        "node": "gpu1, gpu2",
        "gpus": gpus,
        "vllm": "0.25.1",
        "kv_tokens": "?",
        "state": "ready",
    }
