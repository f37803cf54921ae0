# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host.identity import NodeIdentity, Wanted
from ansible_collections.tandem.vllm.plugins.module_utils.identity import container

FIXTURES = Path(__file__).parents[4] / "fixtures"
ADDRESS, PEER, NAME = "10.89.70.11", "10.89.70.12", "tandem-try-id-1"
HEAD = {"address": ADDRESS, "port": 6379}
LISTING = (FIXTURES / "gpu_hosts/a100x4/list.txt").read_text()
UUIDS = [line.partition("UUID: ")[2].rstrip(")") for line in LISTING.splitlines()]
MIG = (FIXTURES / "gpu_hosts/a100x4_mig/list.txt").read_text()
IMAGE = "sha256:0c20295a16524213c066e09b4ff5eeb287933349a7e5c3521035dcebef510bf4"
PLAIN_IP = (255, "", 'Option "-j" is unknown, try "ip -help".\n')
NOT_THERE = (127, "", "timeout: failed to run command 'nvidia-smi': No such file or directory\n")
NO_EXECUTABLE = 'OCI runtime exec failed: exec failed: exec: "nvidia-smi": executable file not found in $PATH: unknown'

Answer = tuple[int, str, str]


def text(name: str) -> str:
    return (FIXTURES / "identity" / name).read_text()


def image(labels: dict[str, str] | None) -> Answer:
    return 0, json.dumps([{"Id": IMAGE, "Config": {"Labels": labels}, "Size": 1}]), ""


def in_state(status: str, network: str = "host") -> Answer:
    found = json.loads(text("inspect.txt"))
    found[0]["State"]["Status"] = status
    found[0]["HostConfig"]["NetworkMode"] = network
    return 0, json.dumps(found), ""


class Host:
    """A node with a container; the answers are what the lab's nodes said, for a test to exchange."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {
            "ip -j -4 address": (0, text("address.json.txt"), ""),
            "ip -4 -o address": (0, text("address.txt"), ""),
            "ip -j -4 route": (0, text("route.json.txt"), ""),
            "ip -4 route": (0, text("route.txt"), ""),
            "docker container inspect": (0, text("inspect.txt"), ""),
            "docker image inspect": image(None),
            "inside python3": (0, "a warning\n" + text("probe.txt"), "noise"),
            "inside nvidia-smi": NOT_THERE,
            "nvidia-smi -L": NOT_THERE,
        }
        self.asked: list[list[str]] = []
        self.connected: list[Any] = []
        self.refused = False

    def run(self, argv: Sequence[str]) -> Answer:
        command = list(argv)
        # Each has a limit, and in the container a shorter one.
        assert command[:3] == ["timeout", "-k", "5"]
        limit, command = int(command[3]), command[4:]
        if command[:3] == ["docker", "exec", NAME]:
            assert command[3:6] == ["timeout", "-k", "2"]
            assert limit > int(command[6]) == 40
            command = ["inside", *command[7:]]
        self.asked.append(command)
        return next(answer for words, answer in self.answers.items() if command[: len(words.split())] == words.split())

    def connect(self, address: tuple[str, int], seconds: float) -> Any:
        self.connected.append((address, seconds))
        if self.refused:
            raise ConnectionRefusedError(111, "Connection refused")

        class Connection:
            def close(self) -> None:
                pass

        return Connection()

    def facts(self, **wanted: Any) -> dict[str, Any]:
        return NodeIdentity(self.run, 40, self.connect).facts(Wanted(**{"address": ADDRESS, **wanted}))


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_node_of_the_lab(host: Host) -> None:
    """What the module returned there."""
    found = host.facts(peers=[PEER], container=NAME, head=HEAD)
    assert found == json.loads(text("node1.txt"))
    assert [words[:4] for words in host.asked] == [
        ["ip", "-j", "-4", "address"],
        ["docker", "container", "inspect", NAME],
        ["docker", "image", "inspect", IMAGE],
        ["inside", "python3", "-c", container.PROBE],
        ["ip", "-j", "-4", "route"],
        ["inside", "nvidia-smi", "-L"],
    ]
    assert host.asked[3][4:] == [ADDRESS, "6379"]
    assert host.connected == []


def test_an_ip_without_json(host: Host) -> None:
    host.answers["ip -j -4 address"] = host.answers["ip -j -4 route"] = PLAIN_IP
    found = host.facts(peers=[PEER])
    # Some releases know the option, and print the route as text all the same.
    host.answers["ip -j -4 route"] = host.answers["ip -4 route"]
    assert found["interfaces"] == {"lo": ["127.0.0.1"], "docker0": ["172.17.0.1"], "eth0": [ADDRESS]}
    assert found["interface"] == "eth0"
    assert found["routes"] == host.facts(peers=[PEER])["routes"]
    assert found["routes"] == [{"peer": PEER, "source": ADDRESS, "interface": "eth0", "error": None}]


def test_no_ip(host: Host) -> None:
    for words in list(host.answers)[:4]:
        host.answers[words] = (127, "", "timeout: failed to run command 'ip': No such file or directory\n")
    found = host.facts(peers=[PEER])
    why = "timeout: failed to run command 'ip': No such file or directory"
    assert (found["interfaces"], found["interface"], found["interfaces_error"]) == ({}, None, why)
    assert found["routes"] == [{"peer": PEER, "source": None, "interface": None, "error": why}]


def test_no_route(host: Host) -> None:
    host.answers["ip -j -4 route"] = host.answers["ip -4 route"] = (2, "", text("route-unreachable.txt"))
    (route,) = host.facts(peers=[PEER])["routes"]
    assert (route["source"], route["error"]) == (None, "RTNETLINK answers: Network is unreachable")


def test_a_derived_image(host: Host) -> None:
    host.answers["docker image inspect"] = image({"tandem.base": "sha256:1", "tandem.wheelhouse": "e", "x": "y"})
    found = host.facts(container=NAME)["container"]
    assert (found["image_id"], found["base_image_id"], found["wheelhouse"]) == (IMAGE, "sha256:1", "e")


def test_an_image_that_is_gone(host: Host) -> None:
    host.answers["docker image inspect"] = (1, "[]\n", "Error: No such image: sha256:0c\n")
    found = host.facts(container=NAME)["container"]
    assert (found["base_image_id"], found["image_error"]) == (None, "Error: No such image: sha256:0c")


@pytest.mark.parametrize(
    ("answer", "exists", "error"),
    [
        ((1, "[]\n", "Error: No such container: x\n"), False, "Error: No such container: x"),
        ((1, "[]\n", "Error response from daemon: No such container: x\n"), False, None),
        ((1, "", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\n"), None, None),
        ((124, "", ""), None, "it did not end in time"),
        ((127, "", "docker: No such file or directory"), None, "docker: No such file or directory"),
    ],
)
def test_no_container(host: Host, answer: Answer, exists: bool | None, error: str | None) -> None:
    host.answers["docker container inspect"] = answer
    facts = host.facts(container=NAME)
    found = facts["container"]
    assert (found["exists"], found["running"]) == (exists, exists)
    assert found["error"] == (error or answer[2].strip())
    assert facts["gpus_container_reason"] == found["error"]
    assert not [words for words in host.asked if words[0] == "inside"]


def test_a_container_that_does_not_run(host: Host) -> None:
    host.answers["docker container inspect"] = in_state("exited")
    facts = host.facts(container=NAME, gpus=["0"])
    found, why = facts["container"], "the container does not run, it is exited"
    assert (found["running"], found["ray_address_error"], facts["gpus_container_reason"]) == (False, why, why)
    assert set(found["version_errors"].values()) == {why}
    assert not [words for words in host.asked if words[0] == "inside"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((137, "", ""), "it did not end in time"),
        ((1, "", "Error response from daemon: container is restarting\n"), None),
        ((139, "", ""), "exit status 139, and not a word"),
    ],
)
def test_a_container_that_does_not_answer(host: Host, answer: Answer, why: str | None) -> None:
    host.answers["inside python3"] = answer
    facts = host.facts(container=NAME, head=HEAD)
    found, why = facts["container"], why or answer[2].strip()
    assert found["version_errors"] == dict.fromkeys(container.VERSIONS, why)
    assert found["ray_address_error"] == facts["head_error"] == why
    assert (facts["head_reachable"], facts["head_from"], host.connected) == (None, None, [])


@pytest.mark.parametrize(
    ("gpus", "listed", "uuids", "unknown"),
    [
        (["0", "2"], LISTING, [UUIDS[0], UUIDS[2]], []),
        ([UUIDS[3]], LISTING, [UUIDS[3]], []),
        (["1", "9"], LISTING, [UUIDS[1]], ["9"]),
    ],
)
def test_gpus(host: Host, gpus: list[str], listed: str, uuids: list[str], unknown: list[str]) -> None:
    host.answers["nvidia-smi -L"] = (0, listed, "")
    host.answers["inside nvidia-smi"] = (0, "".join(listed.splitlines(keepends=True)[:2]), "")
    found = host.facts(container=NAME, gpus=gpus)
    assert (found["gpus"], found["gpus_host"], found["gpus_unknown"]) == (gpus, uuids, unknown)
    assert found["gpus_container"] == UUIDS[:2]
    assert (found["gpus_host_reason"], found["gpus_container_reason"]) == (None, None)


def test_mig_devices(host: Host) -> None:
    host.answers["nvidia-smi -L"] = host.answers["inside nvidia-smi"] = (0, MIG, "")
    found = host.facts(container=NAME, gpus=["0"])
    assert found["gpus_host"]
    assert set(found["gpus_host"]) <= set(found["gpus_container"])
    assert [uuid for uuid in found["gpus_host"] if not uuid.startswith("MIG-")] == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (NOT_THERE, "nvidia-smi is not installed"),
        ((126, NO_EXECUTABLE, ""), "nvidia-smi is not installed"),
        ((124, "", ""), "nvidia-smi did not end within 40 s"),
        ((9, "Failed to initialize NVML: Driver/library version mismatch\n", ""), None),
        ((0, "No devices found.\n", ""), None),
        ((1, "", "Error response from daemon: OCI runtime exec failed\n"), None),
    ],
)
def test_no_gpus(host: Host, answer: Answer, why: str | None) -> None:
    host.answers["nvidia-smi -L"] = host.answers["inside nvidia-smi"] = answer
    found = host.facts(container=NAME, gpus=["0"])
    why = why or (answer[1] + answer[2]).strip()
    assert (found["gpus_host"], found["gpus_container"], found["gpus_unknown"]) == ([], [], [])
    assert (found["gpus_host_reason"], found["gpus_container_reason"]) == (why, why)


def test_on_cpu_the_host_is_not_asked(host: Host) -> None:
    found = host.facts()
    assert found["gpus_host_reason"] == "the contract gives the node no GPUs"
    assert found["gpus_container_reason"] == "no container was named"
    assert found["container"] is None
    assert host.asked == [["ip", "-j", "-4", "address", "show"]]


def test_the_head_refuses_the_container(host: Host) -> None:
    host.answers["inside python3"] = (0, text("probe-refused.txt"), "")
    found = host.facts(container=NAME, head=HEAD)
    assert (found["head"], found["head_reachable"], found["head_from"]) == (HEAD, False, "container")
    assert found["head_error"] == "[Errno 111] Connection refused"


@pytest.mark.parametrize("name", [NAME, None])
@pytest.mark.parametrize("refused", [True, False])
def test_the_host_tries_in_place_of_a_container_that_does_not_run(host: Host, name: str | None, refused: bool) -> None:
    host.answers["docker container inspect"] = in_state("exited")
    host.refused = refused
    found = host.facts(container=name, head=HEAD)
    assert host.connected == [((ADDRESS, 6379), 5)]
    assert (found["head_reachable"], found["head_from"]) == (not refused, "host")
    assert found["head_error"] == ("[Errno 111] Connection refused" if refused else None)


def test_the_host_does_not_try_for_another_network(host: Host) -> None:
    host.answers["docker container inspect"] = in_state("exited", "bridge")
    found = host.facts(container=NAME, head=HEAD)
    assert (found["head_reachable"], host.connected) == (None, [])
    assert found["head_error"] == "the container does not run, it is exited, and has a network of its own"
