# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host.machine import (
    REQUESTS_REMEDY,
    SYSTEMD_REMEDY,
    Machine,
)
from ansible_collections.tandem.vllm.plugins.module_utils.host_contract import HostFacts, Listener
from ansible_collections.tandem.vllm.plugins.module_utils.vocabulary import FAMILIES

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ADDRESSES = json.dumps(
    [
        {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1"}, {"family": "inet6", "local": "::1"}]},
        {"ifname": "eth0", "addr_info": [{"family": "inet", "local": "10.0.0.1"}, {"label": "no address"}]},
        {"ifname": "down"},
    ]
)
UNIT = "tandem-gateway.service"
# 8000 and 8080 as the kernel writes ports, and the addresses as it writes them: words of little-endian hexadecimal.
P8000, P8080 = "1F40", "1F90"
ANY4, LOOPBACK4, OTHER_LOOPBACK4, PRIVATE4 = "00000000", "0100007F", "0200007F", "0100000A"
ANY6, LOOPBACK6 = "0" * 32, "0" * 24 + "01000000"
MAPPED_LOOPBACK, MAPPED_PRIVATE = "0000000000000000FFFF00000100007F", "0000000000000000FFFF00000100000A"
LISTEN, ESTABLISHED = "0A", "01"


class Host:
    """A host's files under a folder, and its answers to commands."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, tuple[int, str, str]] = {
            "ip": (0, ADDRESSES, ""),
            "ps": (0, "", ""),
            "image": (0, "sha256:ab\n", ""),
            "container": (1, "[]", "Error: No such container"),
        }
        self.asked: list[list[str]] = []
        self.write("/run/systemd/system/x", "")
        self.sockets: dict[str, list[str]] = {"tcp": [], "tcp6": []}

    @property
    def machine(self) -> Machine:
        return Machine(self.run, str(self.root))

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.asked.append(list(argv))
        return self.answers["ip" if argv[0] == "ip" else argv[1]]

    def write(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def socket(self, address: str, port: str, inode: int, state: str = LISTEN) -> None:
        table = "tcp" if len(address) == 8 else "tcp6"
        rows = self.sockets[table]
        peer = "0" * len(address) + ":0000"
        rows.append(
            f"   {len(rows)}: {address}:{port} {peer} {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1\n"
        )
        self.write("/proc/net/" + table, HEADER + "".join(rows))

    def process(self, pid: int, name: str, inodes: Sequence[int], unit: str = "cron.service") -> None:
        self.write(f"/proc/{pid}/comm", name + "\n")
        self.write(f"/proc/{pid}/cgroup", f"0::/system.slice/{unit}\n")
        folder = self.root / f"proc/{pid}/fd"
        folder.mkdir()
        (folder / "0").symlink_to("/dev/null")
        (folder / "1").write_text("no link")
        for number, inode in enumerate(inodes, 3):
            (folder / str(number)).symlink_to(f"socket:[{inode}]")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    return Host(tmp_path)


def listener(host: Host, port: int = 8000) -> Listener | None:
    return host.machine.gateway_facts(port, UNIT).listeners.get(port)


def test_a_good_node(host: Host) -> None:
    host.write("/models/big/config.json", '{"num_attention_heads": 40}')
    facts = host.machine.node_facts("vllm:1", ["/models/big"], {8000: "tandem-chat-a"})
    assert facts == HostFacts(
        addresses={"127.0.0.1": "lo", "::1": "lo", "10.0.0.1": "eth0"},
        image_present=True,
        models={"/models/big": {"num_attention_heads": 40}},
        vocabularies={"/models/big": {}},
    )
    assert sorted(host.asked) == [
        ["docker", "image", "inspect", "--format", "{{.Id}}", "vllm:1"],
        ["docker", "ps", "--format", "{{.Names}}\t{{.Ports}}"],
        ["ip", "-json", "address", "show"],
    ]


def test_a_bare_host(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (host.root / "run/systemd/system/x").unlink()
    (host.root / "run/systemd/system").rmdir()
    host.answers = {"ip": (127, "", "no ip"), "ps": (127, "", "docker: not there")}
    facts = host.machine.node_facts("vllm:1", ["/models/big"], {8000: "tandem-chat-a"})
    assert facts == HostFacts(
        missing={"systemd": SYSTEMD_REMEDY, "Python package requests": REQUESTS_REMEDY},
        docker_error="docker: not there",
        models={"/models/big": "no such directory on the node"},
        vocabularies={"/models/big": {}},
    )


@pytest.mark.parametrize(
    ("files", "found"),
    [(["uverbs0", "rdma_cm"], True), (["rdma_cm"], False), (["issm0", "uverbs11"], True), ([], False)],
)
def test_rdma_devices(host: Host, files: list[str], found: bool) -> None:
    for name in files:
        host.write(f"/dev/infiniband/{name}", "")
    assert host.machine.node_facts("sha256:ab", [], {}).rdma_devices is found


def test_vocabularies(host: Host) -> None:
    host.write("/models/oss/vocabulary/o200k_base.tiktoken", "IQ== 0\n")
    host.write("/models/oss/vocabulary/other.tiktoken", "x")
    (host.root / "models/odd/vocabulary/o200k_base.tiktoken").mkdir(parents=True)
    assert host.machine.node_facts("vllm:1", ["/models/oss", "/models/odd"], {}).vocabularies == {
        "/models/oss": {"vocabulary/o200k_base.tiktoken": hashlib.sha256(b"IQ== 0\n").hexdigest()},
        "/models/odd": {"vocabulary/o200k_base.tiktoken": "Is a directory"},
    }


@pytest.mark.parametrize(("status", "built_in"), [(0, True), (1, False), (124, False)])
def test_an_image_is_asked_for_its_vocabulary(host: Host, status: int, built_in: bool) -> None:
    asked: list[list[str]] = []

    def run(argv: Sequence[str]) -> tuple[int, str, str]:
        asked.append(list(argv))
        return (status, "", "HarmonyError") if "run" in argv else (0, "", "")

    wanted = FAMILIES["gpt_oss"]
    assert Machine(run, str(host.root)).builds_in("vllm:1", wanted) is built_in
    # As it will run: without a network, and nothing is pulled.
    assert " --pull never --network none " in " ".join(asked[0])
    assert asked[0][-3:] == ["vllm:1", "-c", wanted.probe]


def test_a_gateway_needs_no_docker(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    host.answers = {"ip": (0, ADDRESSES, "")}
    assert host.machine.gateway_facts(8080, UNIT) == HostFacts({"127.0.0.1": "lo", "::1": "lo", "10.0.0.1": "eth0"})


@pytest.mark.parametrize("out", ["", "[]", "no json"])
def test_addresses_that_cannot_be_read(host: Host, out: str) -> None:
    host.answers["ip"] = (0, out, "")
    assert host.machine.gateway_facts(8080, UNIT).addresses == {}


def test_an_image_that_is_not_there(host: Host) -> None:
    host.answers["image"] = (1, "\n", "No such image")
    assert host.machine.node_facts("vllm:1", [], {}).image_present is False


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1]", "its config.json is not a JSON object"),
        ("nonsense", "its config.json is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        (None, "its config.json cannot be read: No such file or directory"),
    ],
)
def test_model_config(host: Host, text: str | None, found: object) -> None:
    host.write("/models/big/README.md", "")
    if text is not None:
        host.write("/models/big/config.json", text)
    assert host.machine.node_facts("i", ["/models/big"], {}).models == {"/models/big": found}


def test_model_config_that_is_no_text(host: Host) -> None:
    host.write("/models/big/config.json", "")
    (host.root / "models/big/config.json").write_bytes(b"\xff\xfe")
    found = host.machine.node_facts("i", ["/models/big"], {}).models["/models/big"]
    assert found.startswith("its config.json is not valid JSON: 'utf-8' codec can't decode")


def test_model_path_that_is_a_file(host: Host) -> None:
    host.write("/models/big", "")
    assert host.machine.node_facts("i", ["/models/big"], {}).models == {"/models/big": "no such directory on the node"}


@pytest.mark.parametrize(
    ("address", "seen"),
    [
        (ANY4, True),
        (PRIVATE4, True),
        (ANY6, True),
        (MAPPED_PRIVATE, True),
        (LOOPBACK4, False),
        (OTHER_LOOPBACK4, False),
        (LOOPBACK6, False),
        (MAPPED_LOOPBACK, False),
    ],
)
def test_who_listens(host: Host, address: str, seen: bool) -> None:
    host.socket(address, P8000, 501)
    host.process(42, "python3", [501])
    assert listener(host) == (Listener("python3", 42, False) if seen else None)


def test_who_does_not_listen_there(host: Host) -> None:
    host.socket(ANY4, P8080, 501)
    host.socket(PRIVATE4, P8000, 502, ESTABLISHED)
    host.process(42, "python3", [501, 502])
    assert listener(host) is None
    assert listener(host, 8080) == Listener("python3", 42, False)


def test_a_host_without_sockets(host: Host) -> None:
    assert listener(host) is None


def test_the_one_of_many_processes(host: Host) -> None:
    host.socket(LOOPBACK4, P8000, 500)
    host.socket(ANY4, P8000, 501)
    host.process(1, "systemd", [7])
    host.process(100, "grafana", [501])
    host.process(99, "local", [500])
    assert listener(host) == Listener("grafana", 100, False)


def test_of_parent_and_workers_the_first(host: Host) -> None:
    host.socket(ANY4, P8000, 501)
    for pid in (1000, 999):
        host.process(pid, "nginx", [501])
    assert listener(host) == Listener("nginx", 999, False)


def test_a_process_that_cannot_be_identified(host: Host) -> None:
    host.socket(ANY4, P8000, 501)
    host.process(42, "python3", [7])
    assert listener(host) == Listener("a process that could not be identified", None, False)


def test_a_process_without_a_name(host: Host) -> None:
    host.socket(ANY4, P8000, 501)
    host.process(42, "x", [501])
    (host.root / "proc/42/comm").unlink()
    assert listener(host) == Listener("a process", 42, False)


def test_the_gateways_own_unit_may_listen(host: Host) -> None:
    host.socket(ANY4, P8080, 501)
    host.process(42, "nginx", [501], UNIT)
    assert listener(host, 8080) == Listener("nginx", 42, True)


@pytest.mark.parametrize(
    ("ports", "found"),
    [
        ("10.0.0.1:8000->8000/tcp", True),
        ("0.0.0.0:8000->80/tcp, :::8000->80/tcp", True),
        ("[::]:8000->80/tcp", True),
        ("0.0.0.0:7999-8001->7999-8001/tcp", True),
        ("127.0.0.1:8000->8000/tcp", False),
        ("[::1]:8000->8000/tcp", False),
        ("127.0.0.1:8000->8000/tcp, 10.0.0.1:8000->8000/tcp", True),
        ("0.0.0.0:8000->8000/udp", False),
        ("0.0.0.0:9000->8000/tcp", False),
        ("0.0.0.0:7999->80/tcp, 0.0.0.0:8001-8002->81-82/tcp", False),
        ("8000/tcp", False),
        ("", False),
    ],
)
@pytest.mark.parametrize(("name", "ours"), [("tandem-chat-a", True), ("grafana", False)])
def test_published_ports(host: Host, ports: str, found: bool, name: str, ours: bool) -> None:
    host.answers["ps"] = (0, f"other\t\n{name}\t{ports}\n", "")
    facts = host.machine.node_facts("i", [], {8000: "tandem-chat-a"})
    assert facts.listeners == ({8000: Listener("container " + name, None, ours)} if found else {})


def test_a_process_on_a_replicas_port(host: Host) -> None:
    host.socket(ANY4, P8000, 501)
    host.process(42, "python3", [501])
    facts = host.machine.node_facts("i", [], {8000: "tandem-chat-a", 8001: "tandem-chat-b"})
    assert facts.listeners == {8000: Listener("python3", 42, False)}


ID = "ab" * 32


@pytest.mark.parametrize(
    ("group", "ours"),
    [(f"docker-{ID}.scope", True), (f"docker-{'cd' * 32}.scope", False), ("cron.service", False)],
    ids=["our container", "another container", "no container"],
)
def test_a_container_on_the_hosts_network(host: Host, group: str, ours: bool) -> None:
    """It publishes nothing: its processes tell. Any of the environment's will do: it makes room for the other."""
    host.answers["ps"] = (0, f"tandem-chat-b-x2\t{ID}\n", "")
    host.socket(ANY4, P8000, 501)
    host.process(42, "vllm", [501], group)
    facts = host.machine.node_facts("i", [], {8000: "tandem-chat-a-x2"}, "lab")
    assert facts.listeners == {8000: Listener("vllm", 42, ours)}
    label = ["--no-trunc", "--filter", "label=tandem.environment=lab", "--format", "{{.Names}}\t{{.ID}}"]
    assert ["docker", "ps", *label] in host.asked
