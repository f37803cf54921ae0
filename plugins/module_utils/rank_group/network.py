# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the models of a node's replicas will send over the network, as far as config.json and the contract tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement, Replica
from ansible_collections.tandem.vllm.plugins.module_utils.transport import cost

# The same by other names, in older families of models.
HIDDEN_SIZE = ("hidden_size", "n_embd", "d_model")
LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
# vLLM computes in 16 bit, models that are stored in 32 bit too, unless it is told one of these.
WIDE_DTYPES = ("float", "float32")


def shape(config: Any, dtype: Any = None) -> cost.Model | None:
    """Of a parsed config.json and the engine's dtype; None where the config does not tell."""
    if not isinstance(config, Mapping):
        return None
    nested = config.get("text_config")
    text = nested if isinstance(nested, Mapping) else config
    hidden_size, layers = (_first(text, names) for names in (HIDDEN_SIZE, LAYERS))
    if hidden_size is None or layers is None:
        return None
    return cost.Model(hidden_size, layers, 4 if dtype in WIDE_DTYPES else 2)


def _first(text: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    found = (text.get(name) for name in names)
    return next((value for value in found if isinstance(value, int) and value > 0), None)


def shapes(placement: Placement, node: str, configs: Mapping[str, Any]) -> dict[str, cost.Model | None]:
    """By model path, of the models on a node. configs: by model path the parsed config.json."""
    return {
        service.model.path: shape(configs.get(service.model.path), service.engine.get("dtype"))
        for service, _replica in placement.on_node(node)
    }


def cut(replica: Replica) -> cost.Cut:
    """How a rank group cuts its model."""
    return cost.Cut(replica.tensor_parallel, replica.pipeline_parallel, len(replica.nodes))


def warnings(placement: Placement, node: str, known: Mapping[str, cost.Model | None]) -> list[str]:
    """What the stated network will cost the rank groups that a node is the first of. known: see `shapes`."""
    link = cost.stated(placement.network)
    if link is None:
        return []
    led = [(s, r) for s, r in placement.rank_groups(node) if r.nodes[0] == node]
    found = [(replica, cost.warning(known.get(service.model.path), cut(replica), link)) for service, replica in led]
    return [f"{replica.name}, as tandem_network has it: {said}" for replica, said in found if said]
