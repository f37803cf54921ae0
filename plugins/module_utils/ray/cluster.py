# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts together what `ray status` and a list of nodes say of one cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.ray import nodes as ray_nodes
from ansible_collections.tandem.vllm.plugins.module_utils.ray import status as ray_status
from ansible_collections.tandem.vllm.plugins.module_utils.ray.expectation import Expectation, compare
from ansible_collections.tandem.vllm.plugins.module_utils.ray.resources import free_of, total_of
from ansible_collections.tandem.vllm.plugins.module_utils.ray.verdict import verdict

NO_STATUS = "the text holds no output of ray status"
NO_NODES = "the text holds no list of Ray's nodes"
ERROR_KEYS = ("reachable", "root_cause", "reason", "remedy", "retryable", "address")
STATUS_KEYS = (
    "format",
    "node_heading",
    "time",
    "nodes",
    "node_types",
    "pending",
    "failures",
    "resources",
    "constraints",
    "demands",
)
NODE_KEYS = ("total", "rows_in_text", "alive", "dead", "heads", "unique_alive_ips")


def _unread(reason: str) -> dict[str, Any]:
    return {"reachable": None, "root_cause": None, "reason": reason, "remedy": None, "retryable": False}


def _block_node(block: Mapping[str, Any]) -> dict[str, Any]:
    """A node of which only the block in `ray status -v` tells: it lists live ones only."""
    gpu = total_of(block["resources"], "GPU")
    memory = block["resources"].get("memory")
    return {
        "node_id": block["id"],
        "ip": block["ip"],
        "name": block["instance"],
        "host": None,
        "state": "ALIVE",
        "alive": True,
        "state_message": None,
        "head": None,
        "resources": {name: row.get("total_bytes", row["total"]) for name, row in block["resources"].items()},
        "CPU": total_of(block["resources"], "CPU"),
        "GPU": gpu,
        "memory_bytes": memory and float(memory["total_bytes"]),
        "accelerator": None,
        "labels": {},
        "start_time": None,
        "end_time": None,
    }


def _node_list(status: Mapping[str, Any] | None, nodes: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Every node with its usage; from the list of nodes, else from the blocks of `ray status -v`."""
    blocks = list(status["blocks"]) if status else []
    listed = nodes["node_list"] if nodes else None
    result = [dict(node) for node in listed] if listed is not None else [_block_node(block) for block in blocks]
    by_name = {name: block for block in blocks for name in (block["ip"], block["id"], block["instance"]) if name}
    for node in result:
        block = by_name.get(node["node_id"] or "") or by_name.get(node["ip"] or "")
        rows = block["resources"] if block and node["alive"] else None
        node["type"] = block["type"] if block else None
        node["gpu_used"] = (rows["GPU"]["used_approx"] if "GPU" in rows else 0.0) if rows else None
        node["gpu_free"] = free_of(rows, "GPU")
    return result


def facts(
    status_text: str | None,
    nodes_text: str | None,
    expected: Expectation,
    ray_version: str | None = None,
    python_version: str | None = None,
) -> dict[str, Any]:
    """All that the texts tell, judged. A text that is None was not asked for.

    Keys: those of the module's documentation. What no text tells is None, or an empty list or mapping.
    """
    status = ray_status.parse(status_text) if status_text is not None else None
    nodes = ray_nodes.parse(nodes_text) if nodes_text is not None else None
    main: Mapping[str, Any] = status or nodes or _unread(NO_STATUS if status_text is not None else NO_NODES)
    if status is None and nodes is not None and nodes["node_list"] is not None:
        main = {"reachable": True, "root_cause": None, "reason": None, "remedy": None, "retryable": False}
    result: dict[str, Any] = {key: main.get(key) for key in ERROR_KEYS}
    listed = nodes if nodes and nodes["node_list"] is not None else None
    if nodes_text is not None and listed is None and result["reason"] is None:
        # `ray status` works without the dashboard, `ray list nodes` does not.
        result.update(reason=nodes["reason"], remedy=nodes["remedy"]) if nodes else result.update(reason=NO_NODES)
    empty = ray_status.nothing()
    result.update({key: status[key] if status else empty[key] for key in STATUS_KEYS})
    result.update({key: listed[key] if listed else None for key in NODE_KEYS})
    # Of a list that is cut off the number is too small.
    if result["nodes"] and (listed is None or not listed["complete"]):
        result["alive"] = (
            max(result["alive"] or 0, result["nodes"]["alive"] or 0) if listed else result["nodes"]["alive"]
        )
    elif listed and not status:
        result["nodes"] = {**dict.fromkeys(("active", "idle", "pending", "failed")), "alive": listed["alive"]}
    result["node_list"] = _node_list(status, listed)
    result["fragment"] = bool(status and status["fragment"])
    _gpus(result, listed)
    read = [part for part in (status, listed) if part is not None]
    result["complete"] = bool(read) and all(part["complete"] for part in read)
    result["prefix_stripped"] = any(part["prefix_stripped"] for part in read)
    result["ray_version"], result["python_version"] = ray_version, python_version
    return {**result, **verdict(result, expected, compare(expected, result))}


def _gpus(result: dict[str, Any], listed: Mapping[str, Any] | None) -> None:
    """gpu_total of the cluster as `ray status` has it, else the list; gpu_listed: of the list's live nodes."""
    rows = result["resources"]
    # Of rows without a beginning nobody knows whether a row of GPUs was among them.
    told = rows and (not result["fragment"] or "GPU" in rows)
    result["gpu_listed"] = listed["gpu_total"] if listed else None
    result["gpu_total"] = total_of(rows, "GPU") if told else result["gpu_listed"]
    result["gpu_free_for_new_pg"] = free_of(rows, "GPU") if told else None
