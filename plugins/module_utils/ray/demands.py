# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What waits for resources: the rows under Demands, Pending Demands, Constraints and From request_resources."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.ray.values import NUMBER

# {'CPU': 1.0} * 1, {'GPU': 2.0} * 1 (PACK): 1+ pending placement groups
BUNDLE = re.compile(r"\{(?P<bundle>[^{}]*)\}(?:\s*\*\s*(?P<times>\d+))?")
AMOUNT = re.compile(rf"['\"](?P<name>[^'\"]+)['\"]\s*:\s*(?P<amount>{NUMBER})")
END = re.compile(
    r"\}(?:\s*\*\s*\d+)?\s*(?:\((?P<strategy>\w+)\))?\s*:\s*(?P<count>(?P<at_least>\d+)\+?)\s+"
    r"(?P<kind>pending\s+tasks/actors|pending\s+placement\s+groups|from\s+request_resources\(\))"
    r"(?:\s+\((?P<using>\d+)\+\s+using\s+placement\s+groups\))?"
)
KINDS = {"tasks": "tasks/actors", "placement": "placement groups", "request_resources()": "request_resources"}


def demand(line: str) -> dict[str, Any] | None:
    """A row as a mapping; None where the line is none.

    kind: tasks/actors, placement groups or request_resources; count: as Ray prints it ("150+": at least so many);
    at_least: the number; bundle: resource to amount, with times and strategy for a placement group; bundles: in place
    of bundle and times where a placement group has several; using_placement_groups: how many of them, where told.
    """
    end = END.search(line)
    if end is None:
        return None
    words = end["kind"].split()
    result: dict[str, Any] = {
        "kind": KINDS.get(words[1]) or KINDS[words[1].split("/")[0]],
        "count": end["count"],
        "at_least": int(end["at_least"]),
    }
    bundles = [
        {
            "bundle": {amount["name"]: float(amount["amount"]) for amount in AMOUNT.finditer(found["bundle"])},
            "times": int(found["times"] or 1),
        }
        for found in BUNDLE.finditer(line[: end.start() + 1] + line[end.start() + 1 : end.end()])
    ]
    if len(bundles) == 1:
        result["bundle"] = bundles[0]["bundle"]
        if result["kind"] == "placement groups":
            result["times"] = bundles[0]["times"]
    else:
        result["bundles"] = bundles
    if end["strategy"]:
        result["strategy"] = end["strategy"]
    if end["using"]:
        result["using_placement_groups"] = int(end["using"])
    return result


def gpus_in_one_bundle(found: dict[str, Any]) -> float:
    """The most GPUs that one bundle of a demand wants: they must be on one node."""
    bundles = found["bundles"] if "bundles" in found else [{"bundle": found["bundle"]}]
    return max((float(entry["bundle"].get("GPU", 0)) for entry in bundles), default=0.0)
