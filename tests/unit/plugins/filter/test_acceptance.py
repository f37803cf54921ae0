# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.tandem.vllm.plugins.filter import acceptance_same, acceptance_services
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Model, Node, Placement, Replica, Service


def test_services_of_a_placement() -> None:
    service = Service("chat", Model("/models/tiny", "tiny-chat"), (Replica("chat-node1", ("node1",)),))
    placement = Placement("lab", {"node1": Node("10.0.0.11")}, (service,))
    filtered = acceptance_services.FilterModule().filters()["acceptance_services"](placement.to_dict())
    assert [(s["name"], [r["url"] for r in s["replicas"]]) for s in filtered] == [("chat", ["http://10.0.0.11:8000"])]


@pytest.mark.parametrize("value", [{}, {"services": None}, "text", None])
def test_what_is_no_placement_is_refused(value: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="wants a placement"):
        acceptance_services.acceptance_services(value)


def test_same_evidence() -> None:
    names = ("kind", "version", "endpoint", "subject", "services", "passed", "not_covered")
    record: dict[str, Any] = {**dict.fromkeys(names), "checks": []}
    same = acceptance_same.FilterModule().filters()["acceptance_same"]
    assert same(json.dumps(record), record) is True
    assert same(json.dumps({**record, "passed": False}), record) is False
