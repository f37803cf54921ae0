# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.tandem.vllm.plugins.filter.api_keys import FilterModule as ApiKeys
from ansible_collections.tandem.vllm.plugins.filter.placement import FilterModule
from ansible_collections.tandem.vllm.plugins.module_utils import api_keys, containers, placement, release
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Model, Node, Placement, Replica, Service

IMAGE = "sha256:" + "ab" * 32
KEY = "sk-Engine-Key-000003"
SERVICE = Service(
    "chat", Model("/models/big", "big"), (Replica("chat-gpu1", ("gpu1",)), Replica("chat-gpu2", ("gpu2",)))
)
PLACEMENT = Placement("site", {"gpu1": Node("10.0.0.1"), "gpu2": Node("10.0.0.2")}, (SERVICE,))
DATA = PLACEMENT.to_dict()
FILTERS = FilterModule().filters()


def test_names() -> None:
    assert sorted(FILTERS) == [
        "containers_besides",
        "containers_on",
        "contract_hosts",
        "pending_containers",
        "release_record",
        "replica_rows",
        "upstreams",
    ]


def test_views_take_the_plain_form() -> None:
    assert FILTERS["upstreams"](DATA) == placement.upstreams(PLACEMENT)
    assert FILTERS["upstreams"](DATA)[0]["servers"][1] == {
        "replica": "chat-gpu2",
        "node": "gpu2",
        "address": "10.0.0.2",
        "port": 8000,
    }
    on_node = FILTERS["containers_on"](DATA, "gpu2", IMAGE, KEY, "/k")
    assert on_node == containers.node_containers(PLACEMENT, "gpu2", IMAGE, KEY, "/k")
    assert [c["name"] for c in on_node] == ["tandem-chat-gpu2"]
    asked = FILTERS["containers_on"](DATA, "gpu2", IMAGE, KEY, "/k", {PLACEMENT.services[0].model.path: {"A": "1"}})
    assert asked[0]["env"]["A"] == "1"
    engines = {"gpu1": [{"container": "tandem-chat-gpu1", "state": "ready", "vllm_version": "0.32.0"}]}
    assert FILTERS["release_record"](DATA, IMAGE, engines) == release.release_record(PLACEMENT, IMAGE, engines)
    assert [row["vllm"] for row in FILTERS["replica_rows"](DATA, engines)] == ["0.32.0", "?"]


def test_pending_containers() -> None:
    results = [{"item": 1, "actions": [{"removed": "x"}]}, {"item": 2, "actions": [{"started": "x"}]}]
    assert FILTERS["pending_containers"](results) == {"to_start": [2], "to_replace": [1]}


def test_containers_besides() -> None:
    present = [{"Names": ["/tandem-a"]}, {"Names": ["/tandem-b"], "Ports": []}]
    assert FILTERS["containers_besides"](present, ["tandem-a"]) == [{"name": "tandem-b", "url": ""}]


def test_contract_hosts() -> None:
    hostvars = {
        "gpu1": {"tandem_address": "10.0.0.1", "tandem_gpus": {"count": 4}, "tandem_gateway_port": 9000},
        "gpu2": {},
        "other": {"tandem_address": "10.0.0.3"},
    }
    assert FILTERS["contract_hosts"](["gpu1", "gpu2"], hostvars) == [
        {"name": "gpu1", "address": "10.0.0.1", "gpus": {"count": 4}, "port": 9000},
        {"name": "gpu2", "address": None, "gpus": None, "port": 8080},
    ]
    assert FILTERS["contract_hosts"]([], hostvars) == []


def test_states_of_keys() -> None:
    filters = ApiKeys().filters()
    assert filters["key_state"](KEY) == api_keys.key_state(KEY)
    assert filters["key_states"]([{"name": "a", "key": KEY}]) == [{"name": "a", "key": api_keys.key_state(KEY)}]
