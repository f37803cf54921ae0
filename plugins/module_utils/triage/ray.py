# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of a Ray cluster and of vLLM on it: joining, versions, addresses, GPUs, nodes and workers lost.

Spellings are those of Ray from 1.2 on (Python and C++ side) and of vLLM's Ray executor from 0.2 on. Texts are in
tests/fixtures/triage/ray, a file for each failure; a test holds that every phrase has one.
"""

from __future__ import annotations

from ansible_collections.tandem.vllm.plugins.module_utils.triage import ray_facts as facts
from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import (
    LOW,
    MEDIUM,
    Case,
    Family,
    Kind,
    Signature,
)

GCS_SILENT = (
    r"Unable to connect to GCS at",
    r"Failed to connect to GCS at address",
    r"Failed to connect to GCS within",
    r"Failed to connect to GCS\. Last",
    r"Failed to get cluster ID from GCS server",
    r"Timed out while waiting for GCS to become available",
    r"GCS may have been killed",
)
GCS_LOOPBACK = r"GCS at (?:address )?(?:127\.|localhost|\[?::1)"
GCS_CHECKS = ("ray status --address HEAD:6379", "nc -vz HEAD 6379", "docker logs --tail 50 HEAD_CONTAINER")
NOT_REGISTERED = (
    r"The current node timed out during startup",
    r"The current node has not been updated within \d+ seconds",
    r"while waiting for node to startup\. Did not find socket name",
)
REGISTERS_LATE = (
    r"GCS cannot find the node with node ID",
    r"Timed out waiting for node info for node_id",
    r"have not registered within the timeout",
    r"Unable to register worker with raylet|the raylet couldn't reply the registration request",
)
DRIVER_ELSEWHERE = (
    r"Can't find a '?node_ip_address\.json'? file",
    r"Some processes that the driver needs to connect to have not registered",
)
# An address without its host, as an unset variable leaves it behind.
NO_HOST = (
    r"Malformed address:?(?:\.? ?Expected|:\d|$)",
    r"Malformed host:$",
    r"Invalid address format:(?::\d|$)",
    r"GCS at (?:address )?:\d",
    r"Failed to convert (?::\d+ )?to host:port",
    r"ray start .{0,80}--address(?:=| )['\"]?:\d",
)
RAYLET_DEAD = (r"from raylet because it is dead", r"the local Raylet is dead")
HEALTH_CHECK = r"Health check failed for node [0-9a-f]"
UNIQUE = r"Every node should have a unique IP address"
NO_RAYLET_AT_ADDRESS = r"cannot find a local Raylet with the same address"
WORKER_DIED = (
    r"its worker process has died",
    r"A worker died or was killed while executing a task by an unexpected system error",
    r"The actor died unexpectedly before finishing this task",
    r"The actor is temporarily unavailable",
    r"Worker exit type: SYSTEM_ERROR",
    r"[1-9]\d* Workers crashed due to other reasons",
    r"died unexpectedly, shutting down executor",
    r"Worker \w+ pid \d+ died, exit code: -?\d",
)
IDENTITY_COMMAND = (
    "ip -4 -brief address; ip route get PEER_ADDRESS; ray list nodes; docker exec CONTAINER env | grep HOST_IP"
)


def _gcs_silent(case: Case) -> bool:
    return not facts.came_up(case, *GCS_SILENT)


def _not_registered(case: Case) -> bool:
    return not facts.came_up(case, *NOT_REGISTERED, *REGISTERS_LATE)


def _driver_elsewhere(case: Case) -> bool:
    return not facts.came_up(case, *DRIVER_ELSEWHERE)


def _uncounted(case: Case) -> bool:
    """vLLM found the addresses not to be unique, and the text does not say how."""
    return not facts.more_addresses(case) and not facts.fewer_addresses(case)


KINDS = (
    Kind(
        "ray_not_running_here",
        "No Ray node runs on this machine, or in this container: start it (ray start) or run the command inside the "
        "container of the Ray node. To ask a cluster elsewhere, give its address with --address or RAY_ADDRESS.",
        "docker ps --filter name=ray; docker exec RAY_CONTAINER ray status",
    ),
    Kind(
        "ray_not_running_at_address",
        "Nothing answers as a Ray head at this address: start the head first, or correct the address and port (a "
        "stale RAY_ADDRESS or /tmp/ray/ray_current_cluster names the cluster of before).",
        "echo $RAY_ADDRESS; cat /tmp/ray/ray_current_cluster; nc -vz HEAD 6379",
        facts=facts.address,
    ),
    Kind(
        "ray_several_instances",
        "Several Ray clusters run on this machine: stop those that are not meant (ray stop stops all of them), or "
        "name one with --address or RAY_ADDRESS.",
        "pgrep -af gcs_server; ray stop --force",
    ),
    Kind(
        "ray_gcs_unreachable",
        "The head's GCS does not answer at this address: the head is not up, the address is one that this node "
        "cannot reach (another interface, a stale RAY_ADDRESS), or a firewall is between. The words about versions "
        "and firewalls in the message are only guesses of Ray. Put a hard timeout round ray status: it blocks for "
        "half a minute and more.",
        "nc -vz HEAD 6379; docker logs --tail 50 HEAD_CONTAINER",
        because_of=("ray_head_address_empty", "version_mismatch"),
        facts=facts.address,
    ),
    Kind(
        "ray_head_address_empty",
        "The head's address is empty: the variable that should hold it was not set where the command ran (a template "
        "without a value, a variable of the host that did not reach the container). Set it, and refuse to start "
        "without it.",
        "docker inspect --format '{{json .Config.Cmd}} {{json .Config.Env}}' CONTAINER",
    ),
    Kind(
        "ray_address_malformed",
        "Ray takes an address as HOST:PORT, for example 10.0.0.1:6379: add what is missing.",
        "docker inspect --format '{{json .Config.Cmd}} {{json .Config.Env}}' CONTAINER",
        because_of=("ray_head_address_empty",),
    ),
    Kind(
        "ray_worker_registration_timeout",
        "The head answered, but the node (or a worker process) did not register in time: look whether the head can "
        "reach the ports of this node's raylet, at the load and the clock of both machines, and at raylet.out for a "
        "raylet that died; then join again, one node after the other. RAY_raylet_start_wait_time_s gives more time.",
        "docker exec CONTAINER sh -c 'tail -n 40 /tmp/ray/session_latest/logs/raylet.out "
        "/tmp/ray/session_latest/logs/raylet.err'",
        because_of=("port_conflict", "host_ram_oom", "disk_full", "node_ip_mismatch"),
        facts=facts.address,
    ),
    Kind(
        "driver_not_on_ray_node",
        "The cluster answers, but no Ray node runs on this machine, or in this container: join it first (ray start "
        "--address), or run vllm serve in the container of the head's Ray node. An address of the form ray:// is not "
        "supported for this.",
        "docker exec CONTAINER sh -c 'pgrep -af raylet; ls /tmp/ray'; ray list nodes",
        facts=facts.address,
    ),
    Kind(
        "version_mismatch",
        "The nodes do not run the same software: use the same image, by digest, on all of them. Ray compares its own "
        "version and Python's to the patch level, and RAY_IGNORE_VERSION_MISMATCH does not help when joining. A "
        "cluster of before that still runs says the same: stop it.",
        "docker exec CONTAINER python3 -c 'import sys, ray, torch; print(sys.version, ray.__version__, "
        "torch.cuda.nccl.version())'",
        facts=facts.versions,
    ),
    Kind(
        "node_ip_mismatch",
        "A node is known under one address to Ray and under another to vLLM, as on machines with several interfaces: "
        "set VLLM_HOST_IP to the node's own address in its container before Ray starts, and pass the same address to "
        "ray start with --node-ip-address, on the head as well.",
        IDENTITY_COMMAND,
        facts=facts.addresses,
    ),
    Kind(
        "vllm_host_ip_same_on_all_nodes",
        "Several nodes got the same VLLM_HOST_IP, as from one environment file for all: make it a value of each host, "
        "its own address.",
        "docker exec CONTAINER env | grep VLLM_HOST_IP",
        facts=facts.addresses,
    ),
    Kind(
        "ray_insufficient_gpus_or_ip_mismatch",
        "The placement group cannot be made: Ray has fewer free GPUs than are asked for, or the node that is asked "
        "for (node:ADDRESS) is not one of Ray's addresses, because VLLM_HOST_IP differs. ray list nodes decides; "
        "waiting does not help.",
        "timeout 20 ray status; timeout 20 ray list nodes",
        because_of=(
            "ray_gpus_reserved_by_other_placement_group",
            "node_ip_mismatch",
            "vllm_host_ip_same_on_all_nodes",
            "node_lost",
            "kernel_module_not_loaded",
            "container_lost_gpu_cgroup",
        ),
        facts=facts.placement,
    ),
    Kind(
        "ray_gpus_reserved_by_other_placement_group",
        "Another placement group holds the GPUs, often that of an engine which died and left its driver alive: stop "
        "that driver (its placement group goes with it) or remove the group, then start again. Free for a new engine "
        "are total - used + used in placement groups - reserved.",
        "ray list placement-groups --filter state=CREATED; ray list jobs",
        facts=facts.placement,
    ),
    Kind(
        "node_lost",
        "A Ray node was declared dead: its raylet crashed or was killed, the machine is overloaded, or the network "
        "was gone. Look at that node and not at the head; errors of actors and of NCCL after it are consequences.",
        "docker logs --tail 50 RAY_CONTAINER; journalctl --dmesg --since -1h | grep -iE 'oom|killed process|link is "
        "down'",
        because_of=("host_ram_oom", "disk_full", "port_conflict"),
        facts=facts.lost_node,
    ),
    Kind(
        "worker_died_unknown",
        "A worker process died, and this message does not know why: the OOM killer, ray stop and SIGSEGV in it are "
        "only possibilities. The first error of that worker, and the kernel log of its machine, decide.",
        "journalctl --dmesg --since -1h | grep -iE 'oom|killed process|segfault|Xid'",
        because_of=("node_lost", "host_ram_oom"),
        facts=facts.dead_worker,
    ),
    Kind(
        "ray_missing_in_image",
        "The image has no Ray: vLLM's image has come without it since about 0.18. Install it from a wheelhouse made "
        "for the image's Python, or use the mp executor (--distributed-executor-backend mp with --nnodes).",
        "docker run --rm --entrypoint python3 IMAGE -c 'import ray; print(ray.__version__)'",
    ),
    Kind(
        "ray_extras_missing",
        "Ray is there, but not its compiled graphs, which pipeline parallelism over Ray uses: install ray[cgraph] "
        "with the cupy wheel of the image's CUDA version (cupy-cuda12x or cupy-cuda13x).",
        "docker run --rm --entrypoint python3 IMAGE -c 'import cupy; from ray.dag import compiled_dag_node'",
    ),
    Kind(
        "ray_worker_ports_exhausted",
        "The range of ports for workers is used up on a node, by workers or by others: widen it (--min-worker-port, "
        "--max-worker-port), and keep the kernel's own out of it (net.ipv4.ip_local_reserved_ports).",
        "sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports; ss -tan | wc -l",
    ),
    Kind(
        "ray_state_api_unavailable",
        "The command asks Ray's dashboard, which does not run (as it is meant to be here, or for want of "
        "ray[default]): ask the GCS instead, with ray status.",
        "timeout 20 ray status; docker exec CONTAINER python3 -c 'import ray; ray.init(\"auto\"); print(ray.nodes())'",
        because_of=("ray_not_running_here", "ray_gcs_unreachable"),
    ),
)

SIGNATURES = (
    # Starting and joining
    Signature("ray_not_running_here", (r"Could not find any running Ray instance",)),
    Signature("ray_not_running_at_address", (r"Ray cluster is not found at",)),
    Signature(
        "ray_not_running_at_address",
        (r"ray client connection timeout", r"Ray Client .{0,40}Could not reach Ray Cluster"),
        MEDIUM,
        checks=GCS_CHECKS,
    ),
    Signature("ray_several_instances", (r"Found multiple active Ray instances",)),
    Signature("ray_head_address_empty", NO_HOST),
    Signature(
        "ray_address_malformed",
        (
            r"Malformed address \w[\w.-]{0,100}\. Expected",
            r"Invalid address format: \w",
            r"Port is not specified for address \w",
        ),
    ),
    Signature(
        "ray_gcs_unreachable",
        GCS_SILENT,
        needs=(GCS_LOOPBACK,),
        unless=(*NOT_REGISTERED, REGISTERS_LATE[0], r"GCS at (?:address )?:\d"),
        when=_gcs_silent,
        advice="The address is this machine's own loopback, where no head listens: use the head's address on the "
        "network between the nodes; only then look at firewalls. This is no version mismatch, whatever the message "
        "guesses.",
    ),
    Signature(
        "ray_gcs_unreachable",
        GCS_SILENT,
        unless=(*NOT_REGISTERED, REGISTERS_LATE[0], r"GCS at (?:address )?:\d"),
        when=_gcs_silent,
    ),
    Signature(
        "ray_gcs_unreachable",
        (r"failed to connect to all addresses; last error",),
        MEDIUM,
        needs=(r"gcs|ray\.exceptions|ray (?:start|status)",),
        unless=(*RAYLET_DEAD, HEALTH_CHECK),
        checks=GCS_CHECKS,
    ),
    Signature("ray_worker_registration_timeout", NOT_REGISTERED, when=_not_registered),
    Signature(
        "ray_worker_registration_timeout",
        REGISTERS_LATE,
        MEDIUM,
        when=_not_registered,
        checks=(
            "nc -vz NODE RAYLET_PORT",
            "docker exec CONTAINER tail -n 40 /tmp/ray/session_latest/logs/raylet.out",
            "timedatectl; uptime",
        ),
    ),
    Signature("driver_not_on_ray_node", DRIVER_ELSEWHERE, when=_driver_elsewhere),
    Signature(
        "driver_not_on_ray_node",
        (r"No node info found matching attributes",),
        advice="The cluster answers, but has no Ray node that this process belongs to: run vllm serve in the container "
        "of the head's Ray node. Some versions of Ray (2.55) fail so even though ray status shows all nodes, when the "
        "driver has no raylet beside it.",
    ),
    Signature(
        "version_mismatch",
        (
            r"Version mismatch: The cluster was started with",
            r"Python (?:minor )?versions differ between client and server",
            r"Client Ray installation incompatible with server",
        ),
        unless=(r"Python patch version mismatch",),
    ),
    Signature(
        "version_mismatch",
        (r"Mismatched NCCL version detected",),
        advice="The nodes run different versions of NCCL: use the same image, by digest, on all of them.",
    ),
    Signature(
        "version_mismatch",
        (
            r"TypeError: code\(\) (?:argument \d+ must be|takes at (?:most|least))",
            r"TypeError: code expected at (?:most|least)",
            r"NCCL WARN (?:socketFinalizeAccept: wrong type|.{0,60}Message truncated : received)",
        ),
        MEDIUM,
        checks=(
            "docker exec CONTAINER python3 --version",
            "docker exec CONTAINER python3 -c 'import torch; print(torch.cuda.nccl.version())'",
            "docker inspect --format '{{.Image}}' CONTAINER",
        ),
        advice="The two sides read each other's messages wrongly, as with different versions of Python, Ray or NCCL: "
        "compare the images of all nodes, and the NCCL_ variables.",
    ),
    # Addresses
    Signature("vllm_host_ip_same_on_all_nodes", (UNIQUE,), when=facts.fewer_addresses),
    Signature(
        "node_ip_mismatch",
        (UNIQUE,),
        when=facts.more_addresses,
        advice="vLLM counted more addresses than nodes: one process reports the interface of its default route, "
        "another that of the cluster. Set VLLM_HOST_IP to each node's own address in its container before ray start "
        "(the driver's is not passed on to the workers), and give Ray the same with --node-ip-address.",
    ),
    Signature("node_ip_mismatch", (facts.NODE_REQUEST, facts.WAITS_FOR_GPUS[1]), when=facts.gpus_are_free),
    Signature("node_ip_mismatch", (facts.NODE_REQUEST,), when=facts.node_unknown),
    Signature(
        "node_ip_mismatch",
        (UNIQUE,),
        MEDIUM,
        when=_uncounted,
        checks=("docker exec CONTAINER env | grep VLLM_HOST_IP", "ray list nodes"),
    ),
    Signature(
        "node_ip_mismatch",
        (facts.NODE_REQUEST,),
        MEDIUM,
        when=facts.node_likely_unknown,
        checks=("ray list nodes", "docker exec CONTAINER env | grep VLLM_HOST_IP"),
    ),
    Signature(
        "node_ip_mismatch",
        (NO_RAYLET_AT_ADDRESS,),
        MEDIUM,
        checks=("ray list nodes", "hostname -I"),
        advice="The node was started with another address than Ray finds on this machine: pass --node-ip-address to "
        "ray start and the same to vLLM as VLLM_HOST_IP. Ray may go on, so it is only a warning until vLLM starts.",
    ),
    Signature(
        "node_ip_mismatch",
        (r"Failed to get the IP address, using 0\.0\.0\.0 by default",),
        MEDIUM,
        checks=("ip route", "docker exec CONTAINER env | grep VLLM_HOST_IP"),
        advice="vLLM finds its address by the default route, and this machine has none: set VLLM_HOST_IP to the "
        "node's own address.",
    ),
    # GPUs
    Signature(
        "ray_gpus_reserved_by_other_placement_group",
        (r"[\d.]+ used of [\d.]+ reserved in placement groups",),
        when=facts.gpus_are_reserved,
    ),
    Signature(
        "ray_gpus_reserved_by_other_placement_group",
        (r"Current node has no GPU available\. current_node_resource=\{[^}]*?_group_(?:\d+_)?[0-9a-f]{20}",),
    ),
    Signature(
        "ray_insufficient_gpus_or_ip_mismatch",
        (
            r"GPUs exceeds the total number of available GPUs in the placement group\. Required number of devices",
            r"ValueError: The number of required GPUs exceeds the total",
        ),
        advice="Ray knows of fewer GPUs than the engine asks for: a node did not join, or was started without "
        "--num-gpus, or the sizes of tensor and pipeline parallelism are too large.",
    ),
    Signature(
        "ray_insufficient_gpus_or_ip_mismatch",
        (
            r"Waiting for creating a placement group of specs for",
            r"Cannot provide a placement group",
            r"can fulfill resource request \{",
        ),
        MEDIUM,
        unless=(r"Starting to load model", r"use_ray_spmd_worker:"),
        checks=("ray status", "ray list nodes"),
    ),
    Signature(
        "ray_insufficient_gpus_or_ip_mismatch",
        (
            r"Current node has no GPU available",
            r"is not included in a placement group",
            r"Ray does not allocate any GPUs on the driver node",
        ),
        MEDIUM,
        checks=("ray status", "ray list nodes"),
        advice="Ray gives the engine no GPU on the machine where it starts: Ray counts none there (start it with "
        "--num-gpus), others hold them, or the engine's address (VLLM_HOST_IP) is not the one Ray knows.",
    ),
    # Nodes and workers that go
    Signature(
        "node_lost",
        (
            r"has been marked dead because the (?:detector|monitor) has missed too many heartbeats",
            r"mistakenly been marked as dead by the GCS",
            r"health check failed due to missing too many heartbeats",
            r"because its node has died",
            r"Raylet is terminated\. Termination is unexpected",
        ),
    ),
    Signature(
        "node_lost",
        (r"The raylet exited immediately because .{0,20}agent failed",),
        advice="The raylet ends with its agent: agent's log says why it failed (a port that is taken, a package that "
        "is missing, too many processes).",
        next_command="docker exec CONTAINER sh -c 'tail -n 40 /tmp/ray/session_latest/logs/*agent*.log'",
    ),
    Signature(
        "node_lost",
        RAYLET_DEAD,
        MEDIUM,
        checks=("docker exec CONTAINER tail -n 40 /tmp/ray/session_latest/logs/raylet.out", "timeout 20 ray status"),
    ),
    Signature(
        "node_lost",
        (HEALTH_CHECK,),
        MEDIUM,
        checks=("nc -vz NODE RAYLET_PORT", "docker logs --tail 50 RAY_CONTAINER"),
        advice="The head cannot reach the raylet of a node at the address and port that it registered: its ports are "
        "closed or not published (use host networking and fixed ports), or the raylet is gone.",
        next_command="ray list nodes; nc -vz NODE RAYLET_PORT",
    ),
    Signature(
        "worker_died_unknown",
        WORKER_DIED,
        LOW,
        checks=(
            "journalctl --dmesg --since -1h | grep -iE 'oom|killed process|segfault|Xid'",
            "docker exec RAY_CONTAINER tail -n 100 /tmp/ray/session_latest/logs/raylet.out",
            "docker exec RAY_CONTAINER sh -c 'grep -l PID /tmp/ray/session_latest/logs/worker-*'",
        ),
    ),
    # Packages
    Signature(
        "ray_missing_in_image",
        (
            r"ModuleNotFoundError: No module named 'ray'",
            r"Failed to import Ray",
            r"\bray: (?:command )?not found",
            r"exec: \"?ray\"?: executable file not found",
        ),
    ),
    Signature(
        "ray_extras_missing",
        (
            r"Ray Compiled Graph is not installed",
            r"cupy is not installed but required",
            r"No module named 'cupy'",
        ),
    ),
    Signature("ray_worker_ports_exhausted", (r"No available ports\. Please specify a wider port range",)),
    Signature(
        "ray_state_api_unavailable",
        (r"Failed to connect to API server\. Please check the API server",),
        MEDIUM,
        checks=("timeout 20 ray status",),
    ),
)

FAMILY = Family("ray", KINDS, SIGNATURES)
