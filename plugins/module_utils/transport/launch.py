# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a transport proof is asked for, whether that makes sense, and its container's command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.gpu.visibility import launch_arguments
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problems
from ansible_collections.tandem.vllm.plugins.module_utils.transport.script import SCRIPT

MIB = 2**20
# By which a proof's container is told from others of the same name.
LABEL_KEY, LABEL_VALUE = "tandem.probe", "all_reduce_proof"
# The bandwidth shows with messages that a fast link needs some milliseconds for.
SIZES_MIB: Mapping[str, Sequence[int]] = {"nccl": (1, 256), "gloo": (1, 16)}
# What names the transport: connections (INIT), the environment that NCCL took, and networks.
NCCL_LOGGING = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET"}
LOG_LIMITS = ["--log-driver", "json-file", "--log-opt", "max-size=64m", "--log-opt", "max-file=1"]
# Shorter, PyTorch may not even be loaded.
LEAST_SECONDS = 20


@dataclass(frozen=True)
class Proof:
    """A rank group's proof, as one node has it. rank: of the node; processes: on each node; names: of the nodes."""

    name: str
    rank: int
    nodes: int
    processes: int
    address: str
    port: int
    backend: str
    sizes_mib: tuple[int, ...]
    timeout: int
    names: tuple[str, ...] = ()
    rdma: bool | None = None
    minimum_gbit: float | None = None

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.nodes * self.processes

    def node(self, number: int) -> str:
        """Name of a node, for messages."""
        return self.names[number] if number < len(self.names) else f"node {number}"

    def across(self, sender: int, receiver: int) -> bool:
        """Whether two ranks are on different nodes."""
        return sender // self.processes != receiver // self.processes


def read(params: Mapping[str, Any]) -> Proof:
    """The proof that a module's parameters ask for; see `problems` for whether it makes sense."""
    expect = params["expect"] or {}
    return Proof(
        name=params["name"],
        rank=params["rank"],
        nodes=params["nodes"],
        processes=params["processes"],
        address=params["master_address"],
        port=params["master_port"],
        backend=params["backend"],
        sizes_mib=tuple(params["sizes_mib"] or SIZES_MIB[params["backend"]]),
        timeout=params["timeout"],
        names=tuple(params["node_names"] or ()),
        rdma=expect.get("rdma"),
        minimum_gbit=expect.get("minimum_gbit"),
    )


def problems(proof: Proof, container: Mapping[str, Any] | None) -> Problems:
    """What is wrong with what was asked for. container: None where none is to be started."""
    found = Problems()
    found.kind("master_port", proof.port, "port", "Name a free port of the first node")
    for name, value in (("nodes", proof.nodes), ("processes", proof.processes)):
        found.kind(name, value, "positive integer", "Correct the value")
    for size in proof.sizes_mib:
        found.kind("sizes_mib", size, "positive integer", "Give sizes in MiB")
    if not 0 <= proof.rank < proof.nodes:
        found.add("rank", proof.rank, f"must be from 0 to {proof.nodes - 1}, as nodes is {proof.nodes}", "Correct it")
    if proof.nodes > 0 and proof.processes > 0 and proof.world < 2:
        found.add("nodes", proof.nodes, "must make two ranks or more with processes", "Prove a group, not a single")
    if proof.names and len(proof.names) != proof.nodes:
        found.add("node_names", list(proof.names), f"must be {proof.nodes} names, as nodes says", "Name each node")
    if proof.timeout < LEAST_SECONDS:
        found.add("timeout", proof.timeout, f"must be {LEAST_SECONDS} seconds or more", "Give it more time")
    if proof.minimum_gbit is not None:
        found.kind("expect.minimum_gbit", proof.minimum_gbit, "positive number", "Give Gbit/s, or leave it out")
    if container is not None and not container.get("image"):
        found.add("container.image", None, "is required", "Give the launch image, by id or digest")
    return found


def plan(proof: Proof) -> dict[str, Any]:
    """The program's argument."""
    return {
        "rank": proof.rank,
        "nodes": proof.nodes,
        "processes": proof.processes,
        "address": proof.address,
        "port": proof.port,
        "backend": proof.backend,
        "sizes": [size * MIB for size in proof.sizes_mib],
        "seconds": proof.timeout,
    }


def run_argv(proof: Proof, container: Mapping[str, Any]) -> list[str]:
    """The command line that starts the proof on this node and returns. Raises LaunchOptionError.

    Of the launch it takes all but its mounts: neither model nor key is needed.
    """
    environment = {**(container.get("env") or {}), **(NCCL_LOGGING if proof.backend == "nccl" else {})}
    # Python would not reap what is left of its processes as process 1.
    options = launch_arguments({**container, "env": environment, "mounts": [], "init": True})
    own = ["docker", "run", "--detach", "--pull", "never", "--network", "host", "--name", proof.name]
    command = ["--entrypoint", "python3", str(container["image"]), "-c", SCRIPT, json.dumps(plan(proof))]
    return [*own, "--label", f"{LABEL_KEY}={LABEL_VALUE}", *LOG_LIMITS, *options, *command]
