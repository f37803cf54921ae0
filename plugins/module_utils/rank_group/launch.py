# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is launched for a rank group on one of its nodes, for those who look at it before the engine starts."""

from __future__ import annotations

from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.containers import Launch
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import ports
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.containers import member_container


def launch_of(placement: Placement, name: str, node: str, launch: Launch) -> dict[str, Any]:
    """The group's member on the node, and the group. Raises KeyError when the node has no rank in such a group.

    container: options of the member's container; executor; rank: number of the node; addresses: by node, in the order
    of ranks; gpus: by node, how many it counts for (1 on CPU); devices: how many GPUs it has (0 on CPU).
    """
    for service, replica in placement.rank_groups(node):
        if replica.name == name:
            devices = placement.gpus(replica, node)
            return {
                "container": member_container(placement, service, replica, node, launch),
                "executor": replica.executor,
                "model": service.model.path,
                "tensor_parallel": replica.tensor_parallel,
                "pipeline_parallel": replica.pipeline_parallel,
                "rank": replica.nodes.index(node),
                "addresses": {n: placement.nodes[n].address for n in replica.nodes},
                "gpus": {n: max(1, len(placement.gpus(replica, n))) for n in replica.nodes},
                "devices": len(devices),
                "gcs_port": ports.GCS,
                "proof_port": ports.PROOF,
            }
    raise KeyError(f"{node} has no rank in a group {name}")
