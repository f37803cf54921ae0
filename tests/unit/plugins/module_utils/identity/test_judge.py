# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.identity import judge

FIXTURES = Path(__file__).parents[4] / "fixtures/identity"
ONE, TWO, THREE = "10.89.70.11", "10.89.70.12", "10.89.70.13"
EXPECTED = {"addresses": {"node1": ONE, "node2": TWO}, "gpus": {"node1": 1, "node2": 1}}
A, B, C, D = ("GPU-" + letter * 4 for letter in "abcd")
IMAGE = "sha256:0c20295a16524213c066e09b4ff5eeb287933349a7e5c3521035dcebef510bf4"
BASE, WHEELS = "sha256:" + "b" * 64, "e" * 64

Facts = dict[str, Any]


def facts(name: str) -> Facts:
    found: Facts = json.loads((FIXTURES / name).read_text())
    return found


def put(facts: Facts, **changes: Any) -> None:
    """Set values, each by its path with "__" between the keys."""
    for path, value in changes.items():
        *way, last = path.split("__")
        inner = facts
        for key in way:
            inner = inner[key]
        inner[last] = value


class World:
    """Two nodes as they were captured, for a test to spoil."""

    def __init__(self) -> None:
        self.nodes = {"node1": facts("node1.txt"), "node2": facts("node2.txt")}
        self.cluster: Facts | None = facts("cluster.txt")
        self.expected: Facts = copy.deepcopy(EXPECTED)

    def give_gpus(self) -> World:
        """Two real GPUs a node, where torch brings NCCL."""
        for name, uuids in (("node1", [A, B]), ("node2", [C, D])):
            node = self.nodes[name]
            put(node, gpus=["0", "1"], gpus_host=uuids, gpus_host_reason=None)
            put(node, gpus_container=list(uuids), gpus_container_reason=None)
            put(node, container__versions__nccl="2.28.9", container__environment__NCCL_SOCKET_IFNAME="=eth0")
            self.expected["gpus"][name] = 2
        for node in self.ray():
            node["GPU"] = 2.0
        return self

    def add_third(self) -> World:
        """A third node, made of the second."""
        third = copy.deepcopy(self.nodes["node2"])
        put(third, address=THREE, interfaces__eth0=[THREE], container__ray_address=THREE)
        put(third, container__environment__VLLM_HOST_IP=THREE)
        third["routes"] = [{"peer": peer, "source": THREE, "interface": "eth0", "error": None} for peer in (ONE, TWO)]
        for name, own in (("node1", ONE), ("node2", TWO)):
            self.nodes[name]["routes"].append({"peer": THREE, "source": own, "interface": "eth0", "error": None})
        self.nodes["node3"] = third
        put(self.expected, addresses__node3=THREE, gpus__node3=1)
        self.ray().append({**self.ray()[1], "ip": THREE, "node_id": "3"})
        return self

    def ray(self) -> list[Facts]:
        nodes: list[Facts] = (self.cluster or {})["node_list"]
        return nodes

    def told(self) -> list[tuple[str, str, str]]:
        """Node, what and what was found, of each problem."""
        found = judge.problems(self.nodes, self.cluster, self.expected)
        for problem in found:
            assert set(problem) == {"node", "what", "found", "wanted", "remedy"}
            assert all(problem.values())
        return [(problem["node"], problem["what"], problem["found"]) for problem in found]


Spoil = Callable[[World], Any]


def on(node: str = "node2", **changes: Any) -> Spoil:
    return lambda world: put(world.nodes[node], **changes)


def environment(**variables: str | None) -> Spoil:
    return on(**{f"container__environment__{name}": value for name, value in variables.items()})


def version(node: str = "node2", why: str | None = None, **versions: str | None) -> Spoil:
    def spoil(world: World) -> None:
        for name, value in versions.items():
            put(world.nodes[node], **{f"container__versions__{name}": value})
            if why:
                put(world.nodes[node], **{f"container__version_errors__{name}": why})

    return spoil


def ray(node: int = 1, **changes: Any) -> Spoil:
    return lambda world: world.ray()[node].update(changes)


def expect(**changes: Any) -> Spoil:
    return lambda world: put(world.expected, **changes)


def all_of(*spoils: Spoil) -> Spoil:
    def spoil(world: World) -> None:
        for each in spoils:
            each(world)

    return spoil


def route(**changes: Any) -> Spoil:
    return lambda world: world.nodes["node2"]["routes"][0].update(changes)


@pytest.mark.parametrize("world", [World(), World().add_third(), World().give_gpus()])
def test_what_is_right(world: World) -> None:
    assert world.told() == []


ADDRESSES: list[tuple[Spoil, list[tuple[str, str]]]] = [
    (
        on(interfaces={"lo": ["127.0.0.1"], "eth0": ["10.1.0.2", "10.2.0.2"]}),
        [("addresses of the host", "127.0.0.1 on lo, 10.1.0.2 on eth0, 10.2.0.2 on eth0")],
    ),
    (on(interfaces={}), [("addresses of the host", "none")]),
    (
        on(interfaces={}, interfaces_error="ip: not found"),
        [("addresses of the host", "not known: ip: not found")],
    ),
    # Two addresses on the host, and the kernel takes the other one.
    (
        all_of(on(interfaces__eth0=["10.89.70.99", TWO]), route(source="10.89.70.99")),
        [(f"source of the route to {ONE}", "10.89.70.99 on eth0")],
    ),
    (route(source="10.1.0.2", interface="eth1"), [(f"source of the route to {ONE}", "10.1.0.2 on eth1")]),
    (
        route(source=None, interface=None, error="RTNETLINK answers: Network is unreachable"),
        [(f"source of the route to {ONE}", "not known: RTNETLINK answers: Network is unreachable")],
    ),
    (route(source=None), [(f"source of the route to {ONE}", "not known: ip names no source")]),
    (on(routes=[]), [(f"source of the route to {ONE}", "not known: the route was not looked up")]),
    (environment(VLLM_HOST_IP=None), [("VLLM_HOST_IP", "not set")]),
    (environment(VLLM_HOST_IP="10.1.0.2"), [("VLLM_HOST_IP", "10.1.0.2")]),
    (environment(VLLM_HOST_IP=ONE), [("VLLM_HOST_IP", f"{ONE}, as on node1")]),
    # What Ray found by itself, with a node of that address in the cluster.
    (
        all_of(on(container__ray_address="10.1.0.2"), ray(ip="10.1.0.2")),
        [("address that Ray advertises", "10.1.0.2")],
    ),
    (
        on(container__ray_address=None, container__ray_address_error="no Ray node runs in it"),
        [("address that Ray advertises", "not known: no Ray node runs in it")],
    ),
    (on(container__network_mode="bridge"), [("network of the container", "bridge")]),
]


@pytest.mark.parametrize(("spoil", "told"), ADDRESSES)
def test_addresses(spoil: Spoil, told: list[tuple[str, str]]) -> None:
    world = World()
    spoil(world)
    assert world.told() == [("node2", *each) for each in told]


def test_the_same_address_expected_twice() -> None:
    world = World()
    put(world.expected, addresses__node2=ONE)
    world.nodes["node2"] = copy.deepcopy(world.nodes["node1"])
    del world.ray()[1]
    for node in world.nodes.values():
        node["routes"] = [{"peer": ONE, "source": ONE, "interface": "lo", "error": None}]
    assert world.told() == [
        ("node1", "VLLM_HOST_IP", f"{ONE}, as on node2"),
        ("node2", "VLLM_HOST_IP", f"{ONE}, as on node1"),
    ]


NCCL, GLOO = "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"


@pytest.mark.parametrize(
    ("interfaces", "nccl", "gloo", "told"),
    [
        (["eth0"], "=eth0", "eth0", []),
        (["eth0"], "eth0", "eth0", []),
        # Other nodes have other names.
        (["bond0", "eth0"], "=bond0", "bond0", []),
        (["eth0", "eth0.100"], "=eth0", "eth0", []),
        (["eth0", "eth0.100"], "eth0", "eth0", [(NCCL, "eth0", "=eth0: without '=' NCCL takes eth0.100 as well")]),
        (["eth0"], "eth", "eth0", [(NCCL, "eth", "=eth0")]),
        (["eth0"], "^docker0", "eth0", [(NCCL, "^docker0", "=eth0")]),
        (["eth0", "eth1"], "=eth0,=eth1", "eth0", [(NCCL, "=eth0,=eth1", "=eth0")]),
        (["eth0"], None, None, [(NCCL, "not set", "=eth0"), (GLOO, "not set", "eth0")]),
        # gloo knows no "=".
        (["eth0"], "=eth0", "=eth0", [(GLOO, "=eth0", "eth0")]),
        (["bond0"], "=eth0", "eth0", [(NCCL, "=eth0", "=bond0"), (GLOO, "eth0", "bond0")]),
    ],
)
def test_interface_names(
    interfaces: list[str], nccl: str | None, gloo: str | None, told: list[tuple[str, str, str]]
) -> None:
    world = World().give_gpus()
    put(
        world.nodes["node2"], interfaces={name: [TWO] if name == interfaces[0] else ["10.1.0.1"] for name in interfaces}
    )
    environment(NCCL_SOCKET_IFNAME=nccl, GLOO_SOCKET_IFNAME=gloo)(world)
    found = judge.problems(world.nodes, world.cluster, world.expected)
    assert [(f["what"], f["found"], f["wanted"]) for f in found] == [(*t[:2], "must be " + t[2]) for t in told]


def test_a_torch_without_nccl_needs_no_interface_for_it() -> None:
    world = World()
    assert world.nodes["node2"]["container"]["environment"][NCCL] is None
    environment(NCCL_SOCKET_IFNAME="docker0")(world)
    assert world.told() == [("node2", NCCL, "docker0")]


def made_of(node: str, image: str, base: str | None, wheels: str | None) -> Spoil:
    return on(node, container__image_id=image, container__base_image_id=base, container__wheelhouse=wheels)


DERIVED = all_of(made_of("node1", IMAGE, BASE, WHEELS), made_of("node2", "sha256:2", BASE, WHEELS))
NO_CUDA = "none, as torch was built without it"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (version(ray="2.54.0"), [("Ray", "2.54.0")]),
        (version(python="3.11.9"), [("Python", "3.11.9")]),
        (version(vllm="0.25.1"), [("vLLM", "0.25.1")]),
        (version(torch="2.11.0+cpu"), [("torch", "2.11.0+cpu")]),
        (version(nccl="2.27.3"), [("NCCL_SOCKET_IFNAME", "not set"), ("NCCL", "2.27.3")]),
        (version(vllm=None, why="no metadata"), [("vLLM", "not known: no metadata")]),
        (version(python=None), [("Python", "not known: nothing was said")]),
        (
            version(nccl=None, why="ImportError: x"),
            [("NCCL_SOCKET_IFNAME", "not set"), ("NCCL", "not known: ImportError: x")],
        ),
        (made_of("node2", "sha256:2", None, None), [("image", "sha256:2")]),
        # Each node makes its own image of the base and the wheels.
        (DERIVED, []),
        (made_of("node2", "sha256:2", BASE, WHEELS), [("image", f"{BASE} with wheelhouse {WHEELS}")]),
        (all_of(DERIVED, on(container__base_image_id="sha256:1")), [("image", f"sha256:1 with wheelhouse {WHEELS}")]),
        (all_of(DERIVED, on(container__wheelhouse="f")), [("image", f"{BASE} with wheelhouse f")]),
        # A label alone says nothing.
        (all_of(DERIVED, on(container__wheelhouse=None)), [("image", "sha256:2")]),
        (
            on(container__image_error="No such image"),
            [("what the image was made of", "not known: No such image")],
        ),
    ],
)
def test_sameness(spoil: Spoil, told: list[tuple[str, str]]) -> None:
    world = World()
    spoil(world)
    assert world.told() == [("node2", *each) for each in told]


@pytest.mark.parametrize(
    ("versions", "odd"),
    [
        # Of two the head's is right, of three the majority's.
        ({"node1": "1", "node2": "2"}, ["node2"]),
        ({"node1": "1", "node2": "2", "node3": "2"}, ["node1"]),
        ({"node1": "1", "node2": "2", "node3": "1"}, ["node2"]),
        ({"node1": "1", "node2": "2", "node3": "3"}, ["node2", "node3"]),
    ],
)
def test_the_odd_one_out(versions: dict[str, str], odd: list[str]) -> None:
    world = World() if len(versions) == 2 else World().add_third()
    for node, value in versions.items():
        version(node, vllm=value)(world)
    assert world.told() == [(node, "vLLM", versions[node]) for node in odd]


def test_the_others_are_named() -> None:
    world = World().add_third()
    version("node2", python="3.11.9")(world)
    (found,) = judge.problems(world.nodes, world.cluster, world.expected)
    assert found["wanted"] == "must be 3.11.2, as on node1, node3"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (ray(GPU=1.0), [("GPUs in Ray", "1")]),
        (ray(GPU=0.5), [("GPUs in Ray", "0.5")]),
        (ray(GPU=None), [("GPUs in Ray", "not known: the cluster does not tell its resources")]),
        (on(gpus_container=[C]), [("GPUs in the container", C)]),
        (on(gpus_container=[C, A]), [("GPUs in the container", f"{C}, {A}")]),
        (on(gpus_container=[D, C]), []),
        (
            on(gpus_container=[], gpus_container_reason="nvidia-smi is not installed"),
            [("GPUs in the container", "not known: nvidia-smi is not installed")],
        ),
        (
            on(gpus_host=[], gpus_host_reason="nvidia-smi did not end within 60 s"),
            [("GPUs of the host", "not known: nvidia-smi did not end within 60 s")],
        ),
        (
            on(gpus=["0", "7"], gpus_host=[C], gpus_unknown=["7"], gpus_container=[C]),
            [("GPUs of the host", C)],
        ),
        (
            expect(gpus__node2=4),
            [("GPUs of the host", f"2 that the contract names: {C}, {D}"), ("GPUs in Ray", "2")],
        ),
        # Without a number the contract's is meant.
        (lambda world: world.expected["gpus"].clear(), []),
        # Templates hand numbers over as texts.
        (expect(gpus__node2="2"), []),
        (ray(alive=False), [("node in Ray", "none")]),
        (lambda world: world.ray().append(dict(world.ray()[1], node_id="x")), [("node in Ray", None)]),
        # A node without GPUs that sees one all the same.
        (
            on(gpus=[], gpus_host=[], gpus_host_reason="the contract gives the node no GPUs"),
            [("GPUs in the container", f"{C}, {D}")],
        ),
    ],
)
def test_gpus(spoil: Spoil, told: list[tuple[str, str | None]]) -> None:
    world = World().give_gpus()
    spoil(world)
    found = world.told()
    assert [(node, what) for node, what, _found in found] == [("node2", what) for what, _found in told]
    for (_node, _what, said), (_same, wanted) in zip(found, told):  # noqa: B905  # no strict before Python 3.10
        assert wanted in (None, said)


def test_gpus_of_ray_on_cpu() -> None:
    world = World()
    ray(GPU=0.0)(world)
    assert world.told() == [("node2", "GPUs in Ray", "0")]


REFUSED = "[Errno 111] Connection refused"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (
            on(head_reachable=False, head_error=REFUSED),
            [("node2", f"connection to the head {ONE}:6379", REFUSED)],
        ),
        (
            on(head_reachable=None, head_error="no answer"),
            [("node2", "connection to the head", "not known: no answer")],
        ),
        (on(head=None, head_reachable=None), [("node2", "connection to the head", "not known: it was not tried")]),
        # The head need not try.
        (on("node1", head=None, head_reachable=None), []),
        (
            on(container__running=False, container__status="exited"),
            [("node2", "container tandem-try-id-2", "exited")],
        ),
        (
            on(container__running=False, container__exists=False, container__status=None),
            [("node2", "container tandem-try-id-2", "not there")],
        ),
        (
            on(container__running=None, container__exists=None, container__error="Cannot connect"),
            [("node2", "container tandem-try-id-2", "not known: Cannot connect")],
        ),
        (on(container=None), [("node2", "container", "not known: none was named")]),
        (lambda world: world.nodes.pop("node2"), [("node2", "identity", "not known: the node was not looked at")]),
        (
            lambda world: world.nodes.update(node2={"failed": True, "msg": "Timed out"}),
            [("node2", "identity", "not known: Timed out")],
        ),
        (
            lambda world: world.cluster.update(reachable=False, reason="Failed to connect to GCS"),
            [("node1", "nodes of the Ray cluster", "not known: Failed to connect to GCS")],
        ),
        (
            lambda world: world.cluster.update(node_list=[]),
            [("node1", "nodes of the Ray cluster", "not known: it lists no nodes with their addresses")],
        ),
        (
            lambda world: setattr(world, "cluster", {"failed": True, "msg": "no such container"}),
            [("node1", "nodes of the Ray cluster", "not known: no such container")],
        ),
    ],
)
def test_what_is_not_there_or_not_known(spoil: Spoil, told: list[tuple[str, str, str]]) -> None:
    world = World()
    spoil(world)
    assert world.told() == told


def test_a_real_node_with_the_wrong_address() -> None:
    """Ray on the address of docker0, the head's VLLM_HOST_IP; Ray's head had already given the node up."""
    world = World()
    world.nodes["node2"] = facts("node2-wrong-address.txt")
    world.cluster = facts("cluster-node-dead.txt")
    assert world.told() == [
        ("node2", "VLLM_HOST_IP", f"{ONE}, as on node1"),
        ("node2", "address that Ray advertises", "172.17.0.1"),
        ("node2", "GLOO_SOCKET_IFNAME", "docker0"),
    ]


@pytest.mark.parametrize("container", [True, False])
def test_a_group_without_ray(container: bool) -> None:
    world = World()
    world.cluster = None
    for node in world.nodes.values():
        put(node, head=None, head_reachable=None)
        put(node, container__ray_address=None, container__versions__ray=None)
        if not container:
            node["container"] = None
    assert world.told() == []
    said = judge.unchecked(world.nodes, None, world.expected)
    assert said[:2] == [
        "node1, node2: the contract gives no GPUs, so nothing about GPUs was checked",
        "the group does without Ray, so nothing about Ray was checked",
    ]
    assert (len(said) == 3) is not container


def test_nothing_is_left_unchecked() -> None:
    world = World().give_gpus()
    assert judge.unchecked(world.nodes, world.cluster, world.expected) == []


def test_message() -> None:
    world = World()
    all_of(version(ray="2.54.0"), environment(VLLM_HOST_IP=None))(world)
    found = judge.problems(world.nodes, world.cluster, world.expected)
    first = (
        "node2: VLLM_HOST_IP = not set: must be 10.89.70.12. "
        "Start the container with VLLM_HOST_IP=10.89.70.12, and set it in nothing that all nodes share."
    )
    second = "node2: Ray = 2.54.0: must be 2.60.0, as on node1. Start the same image, by its digest, on all nodes."
    assert judge.message(found) == f"{judge.HEADLINE}:\n- {first}\n- {second}"
    assert judge.message(found[:1], "Not one group") == f"Not one group: {first}"
    assert judge.message([]) == ""
