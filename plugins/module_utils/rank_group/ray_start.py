# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ray's command line on a rank group's nodes, and the question whether the cluster can take an engine."""

from __future__ import annotations

from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import ports

# Ray makes a folder for each session and never removes one: the last one is kept, for its logs.
ENTRYPOINT = [
    "/bin/sh",
    "-c",
    'ls -1dt /tmp/ray/session_2* 2>/dev/null | tail -n +2 | xargs -r rm -rf; exec "$@"',
    "sh",
]

# Waits until every address has a live node and so many GPUs are free; then 0, else 1 with the reason. Ray's public
# interface only. GPUs in a placement group that nobody uses yet are not free.
GATE = """
import sys, time
import ray
addresses, gpus, seconds = set(sys.argv[1].split(",")), float(sys.argv[2]), float(sys.argv[3])
ray.init(address="auto", log_to_driver=False, configure_logging=False)
end = time.monotonic() + seconds
while True:
    alive = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    free = ray.available_resources().get("GPU", 0)
    if addresses <= alive and free >= gpus:
        sys.exit(0)
    if time.monotonic() > end:
        missing = ", ".join(sorted(addresses - alive))
        print("missing " + missing if missing else "%g of %g GPUs are free" % (free, gpus))
        sys.exit(1)
    time.sleep(0.5)
"""
# The script's own limit is kept by the script; this one is for a GCS that does not answer.
GATE_SECONDS = 30
GATE_KILL_SECONDS = 60


def start_argv(address: str, head: str, gpus: int, object_store_bytes: int) -> list[str]:
    """`ray start` on the node with this address. head: address of the group's first node; gpus: what Ray has there."""
    argv = [
        "ray",
        "start",
        "--block",
        *(["--head", f"--port={ports.GCS}"] if address == head else [f"--address={head}:{ports.GCS}"]),
        f"--node-ip-address={address}",
        f"--num-gpus={gpus}",
        f"--object-store-memory={object_store_bytes}",
        "--disable-usage-stats",
        f"--node-manager-port={ports.NODE_MANAGER}",
        f"--object-manager-port={ports.OBJECT_MANAGER}",
        f"--runtime-env-agent-port={ports.RUNTIME_ENV_AGENT}",
        f"--dashboard-agent-listen-port={ports.DASHBOARD_AGENT}",
        f"--dashboard-agent-grpc-port={ports.DASHBOARD_AGENT_GRPC}",
        f"--metrics-export-port={ports.METRICS_EXPORT}",
        "--min-worker-port=%d" % ports.WORKERS[0],
        "--max-worker-port=%d" % ports.WORKERS[1],
    ]
    if address == head:
        argv += ["--include-dashboard=false", f"--ray-client-server-port={ports.RAY_CLIENT}"]
    return argv


def gate_argv(container: str, addresses: list[str], gpus: int) -> list[str]:
    """Asks in the head's container whether the cluster can take an engine: exit status 0, or the reason and another."""
    script = ["python3", "-c", GATE, ",".join(addresses), str(gpus), str(GATE_SECONDS)]
    return ["docker", "exec", container, "timeout", "-k", "2", str(GATE_KILL_SECONDS), *script]
