# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of a rank group's nodes: the only place that knows them. docs/ports.md lists them for people.

A node belongs to one rank group at most, so that they can be the same everywhere. Ray and torch listen on all
addresses of a host, whatever they are told: `FIREWALL` is what only the group's own nodes may reach.
"""

from __future__ import annotations

# Ray's head: the Global Control Service.
GCS = 6379
# Of each Ray node.
NODE_MANAGER = 6380
OBJECT_MANAGER = 6381
RUNTIME_ENV_AGENT = 6382
DASHBOARD_AGENT = 6383
DASHBOARD_AGENT_GRPC = 6384
METRICS_EXPORT = 6385
# Ray Client, on the head, where the image has its packages.
RAY_CLIENT = 6386
# vLLM's own rendezvous over several nodes, without Ray.
MASTER = 6387
# Where the all-reduce that proves the transport meets.
PROOF = 6388
# Of the keepers, over UDP.
KEEPER = 6389
# Metrics of the head's autoscaler and dashboard, which Ray serves even where there is neither.
AUTOSCALER_METRICS = 6390
DASHBOARD_METRICS = 6391
# One for each process that Ray starts.
WORKERS = (10002, 10999)
# vLLM takes the first free ones from here on for what its ranks tell each other.
VLLM = (11000, 11099)

# Both ends included.
RANGES = ((GCS, DASHBOARD_METRICS), WORKERS, VLLM)
# Of iptables.
FIREWALL: dict[str, tuple[str, ...]] = {
    "tcp": tuple("%d:%d" % ends for ends in RANGES),
    "udp": (str(KEEPER),),
}


def is_kept(port: int) -> bool:
    """Whether a TCP port is one that only the group's own nodes may reach."""
    return any(low <= port <= high for low, high in RANGES)
