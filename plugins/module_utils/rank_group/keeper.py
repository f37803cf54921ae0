# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rank group's keeper on one node is told: the content of its configuration file.

The keeper itself (roles/rank_group/files) knows containers, addresses and commands, and nothing of Ray or vLLM.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement, Replica
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import ports
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.ray_start import gate_argv


def configurations(placement: Placement, node: str, silence_s: float, start_limit_s: float) -> list[dict[str, Any]]:
    """One entry a rank group of a node.

    silence_s: seconds without a word from another node after which it counts as lost. start_limit_s: longest start.
    """
    return [
        _configuration(placement, replica, node, silence_s, start_limit_s)
        for _service, replica in placement.rank_groups(node)
    ]


def _configuration(
    placement: Placement, replica: Replica, node: str, silence_s: float, start_limit_s: float
) -> dict[str, Any]:
    addresses = [placement.nodes[name].address for name in replica.nodes]
    leads = node == replica.nodes[0]
    ray = replica.ray_container
    gpus = replica.tensor_parallel * replica.pipeline_parallel
    return {
        "group": replica.name,
        "rank": replica.nodes.index(node),
        "addresses": addresses,
        "port": ports.KEEPER,
        "silence_s": silence_s,
        "start_limit_s": start_limit_s,
        # On every node: the container that is there for as long as the group is up.
        "member": ray or replica.container,
        # On the first node, after its own member has started: what must listen before the others start.
        "listening": [addresses[0], ports.GCS] if leads and ray else None,
        # Then, when all members run: what must succeed before the engine starts, where it is a container of its own.
        "gate": gate_argv(ray, addresses, gpus) if leads and ray else None,
        "engine": replica.container if leads and ray else None,
        "health": "http://%s:%d/health" % (addresses[0], replica.port) if leads else None,
        "firewall": {protocol: list(ranges) for protocol, ranges in ports.FIREWALL.items()},
    }
