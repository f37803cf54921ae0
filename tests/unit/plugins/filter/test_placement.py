# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace

from ansible_collections.tandem.vllm.plugins.filter.api_keys import FilterModule as ApiKeys
from ansible_collections.tandem.vllm.plugins.filter.placement import FilterModule
from ansible_collections.tandem.vllm.plugins.module_utils import api_keys, containers, placement, release
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Model, Node, Placement, Replica, Service
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import containers as rank_group_containers
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import keeper

IMAGE = "sha256:" + "ab" * 32
KEY = "sk-Engine-Key-000003"
SERVICE = Service(
    "chat", Model("/models/big", "big"), (Replica("chat-gpu1", ("gpu1",)), Replica("chat-gpu2", ("gpu2",)))
)
PLACEMENT = Placement("site", {"gpu1": Node("10.0.0.1"), "gpu2": Node("10.0.0.2")}, (SERVICE,))
DATA = PLACEMENT.to_dict()
MODEL = SERVICE.model.path
NODES = {f"gpu{number}": Node(f"10.0.0.{number}", ("0", "1")) for number in (1, 2, 3)}
WITH_RAY = Replica("chat-gpu1-x2", ("gpu1", "gpu2"), 2, 2, "ray")
ALONE = Replica("chat-gpu3", ("gpu3",), 2, gpus=("0", "1"))


def grouped(replica: Replica) -> Placement:
    """A rank group on two nodes, and a replica on a third."""
    service = Service("chat", Model("/models/big", "big"), (replica, ALONE))
    return Placement("site", NODES, (service,))


FILTERS = FilterModule().filters()


def test_names() -> None:
    assert sorted(FILTERS) == [
        "containers_besides",
        "containers_on",
        "contract_hosts",
        "pending_containers",
        "rank_group_launch",
        "rank_groups_besides",
        "rank_groups_on",
        "ray_containers_on",
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
    assert on_node == containers.node_containers(PLACEMENT, "gpu2", containers.Launch(IMAGE, KEY, "/k"))
    assert [c["name"] for c in on_node] == ["tandem-chat-gpu2"]
    asked = FILTERS["containers_on"](DATA, "gpu2", IMAGE, KEY, "/k", {PLACEMENT.services[0].model.path: {"A": "1"}})
    assert asked[0]["env"]["A"] == "1"
    engines = {"gpu1": [{"container": "tandem-chat-gpu1", "state": "ready", "vllm_version": "0.32.0"}]}
    assert FILTERS["release_record"](DATA, IMAGE, engines) == release.release_record(PLACEMENT, IMAGE, engines)
    assert [row["vllm"] for row in FILTERS["replica_rows"](DATA, engines)] == ["0.32.0", "?"]


def test_containers_of_rank_groups_are_among_a_nodes_containers() -> None:
    without_ray = grouped(replace(WITH_RAY, executor="mp"))
    launch = containers.Launch(IMAGE, KEY, "/k", {MODEL: {"A": "1"}}, "eth7")
    for node in NODES:
        given = FILTERS["containers_on"](without_ray.to_dict(), node, IMAGE, KEY, "/k", {MODEL: {"A": "1"}}, "eth7")
        alone = containers.node_containers(without_ray, node, launch)
        assert given == [*alone, *rank_group_containers.engine_containers(without_ray, node, launch)]
        assert [container["state"] for container in given] == ["started" if node == "gpu3" else "present"]
    on_second = FILTERS["containers_on"](without_ray.to_dict(), "gpu2", IMAGE, KEY, "/k", interface="eth7")
    assert [(c["name"], c["env"]["GLOO_SOCKET_IFNAME"]) for c in on_second] == [("tandem-chat-gpu1-x2", "eth7")]


def test_with_ray_the_engine_is_on_the_first_node() -> None:
    data = grouped(WITH_RAY).to_dict()
    names = {node: [c["name"] for c in FILTERS["containers_on"](data, node, IMAGE, KEY, "/k")] for node in NODES}
    assert names == {"gpu1": ["tandem-chat-gpu1-x2"], "gpu2": [], "gpu3": ["tandem-chat-gpu3"]}


def test_ray_containers_on() -> None:
    wanted = grouped(WITH_RAY)
    launch = containers.Launch(IMAGE, "", "", {MODEL: {"A": "1"}}, "eth7")
    for node in NODES:
        # As a text, the way the command line gives it.
        given = FILTERS["ray_containers_on"](wanted.to_dict(), node, IMAGE, "1000", {MODEL: {"A": "1"}}, "eth7")
        assert given == rank_group_containers.ray_containers(wanted, node, launch, 1000)
        assert [c["name"] for c in given] == ([] if node == "gpu3" else ["tandem-chat-gpu1-x2.ray"])
    (least,) = FILTERS["ray_containers_on"](wanted.to_dict(), "gpu1", IMAGE, 1000)
    assert "GLOO_SOCKET_IFNAME" not in least["env"]


def test_rank_groups_on() -> None:
    wanted = grouped(WITH_RAY)
    for node in NODES:
        given = FILTERS["rank_groups_on"](wanted.to_dict(), node, "4", 1800)
        assert given == keeper.configurations(wanted, node, 4.0, 1800.0)
        assert [told["rank"] for told in given] == {"gpu1": [0], "gpu2": [1], "gpu3": []}[node]


def test_rank_groups_besides() -> None:
    group = Replica("old", ("gpu1", "gpu2"), 2, executor="ray")
    wanted = replace(PLACEMENT, services=(replace(SERVICE, replicas=(group,)),)).to_dict()
    labels = {"tandem.rank_group": "old", "tandem.executor": "ray"}
    present = [{"Names": ["/tandem-old"], "Labels": labels}, {"Names": ["/tandem-old.ray"], "Labels": labels}]
    assert FILTERS["rank_groups_besides"](present, wanted, "gpu1") == []
    assert FILTERS["rank_groups_besides"](present, DATA, "gpu1") == [
        {"group": "old", "containers": ["tandem-old", "tandem-old.ray"], "volumes": ["tandem-old.ray"]}
    ]


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
