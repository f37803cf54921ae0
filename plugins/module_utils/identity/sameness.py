# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be the same on all nodes of a rank group: the image, and the versions of what runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.identity.group import Finding, Group, not_known

NAMES = {"python": "Python", "ray": "Ray", "vllm": "vLLM", "torch": "torch", "nccl": "NCCL"}
NO_NCCL = "none, as torch was built without it"
REMEDY = "Start the same image, by its digest, on all nodes"


def findings(group: Group) -> list[Finding]:
    """What differs between the nodes whose container runs."""
    running = group.running()
    found = _images(group, running)
    for key, name in NAMES.items():
        if key != "ray" or group.cluster is not None:
            found += _versions(group, running, key, name)
    return found


def _images(group: Group, running: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """The ids are the same, or the images were made of the same base with the same wheels: each node makes its own."""
    found, values = [], {}
    for name, container in running.items():
        base, wheels = container["base_image_id"], container["wheelhouse"]
        if container["image_error"]:
            remedy = f"Run 'docker image inspect {container['image_id']}' there"
            found.append(not_known(name, "what the image was made of", container["image_error"], remedy))
        elif base and wheels:
            values[name] = f"{base} with wheelhouse {wheels}"
        else:
            values[name] = str(container["image_id"])
    return found + _odd(group, "image", values)


def _versions(group: Group, running: Mapping[str, Mapping[str, Any]], key: str, what: str) -> list[Finding]:
    found, values = [], {}
    for name, container in running.items():
        version, why = container["versions"][key], container["version_errors"].get(key)
        if version is None and (why or key != "nccl"):
            remedy = f"Run 'docker exec {container['name']} python3 -m pip list' there"
            found.append(not_known(name, what, why, remedy))
        else:
            values[name] = version or NO_NCCL
    return found + _odd(group, what, values)


def _odd(group: Group, what: str, values: Mapping[str, str]) -> list[Finding]:
    """Those that are not as most are; where no value has the most nodes, those that are not as the head is."""
    numbers = Counter(values.values())
    most = [value for value, number in numbers.items() if number == max(numbers.values())]
    right = values[group.head] if values.get(group.head) in most else next(iter(most), None)
    same = ", ".join(name for name, value in values.items() if value == right)
    return [
        Finding(name, what, value, f"must be {right}, as on {same}", REMEDY)
        for name, value in values.items()
        if value != right
    ]
