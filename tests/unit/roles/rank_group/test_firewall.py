# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reaches a rank group's ports: the rules that a keeper makes, and the ports that it finds."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.tests.unit.roles.rank_group.keepers import load

CHAIN = "TANDEM-RANK-GROUP"
GIVEN = {
    "addresses": ["192.168.1.10", "192.168.1.11"],
    "firewall": {"tcp": ["6379:6391", "10002:10999", "8100"], "udp": ["6389"]},
}
MADE = {
    "iptables": {
        "INPUT": [
            f"-p udp --dport 6389 -j {CHAIN}",
            f"-p tcp --dport 8100 -j {CHAIN}",
            f"-p tcp --dport 10002:10999 -j {CHAIN}",
            f"-p tcp --dport 6379:6391 -j {CHAIN}",
        ],
        CHAIN: ["-i lo -j RETURN", "-s 192.168.1.10 -j RETURN", "-s 192.168.1.11 -j RETURN", "-j DROP"],
    },
}
MADE["ip6tables"] = {"INPUT": MADE["iptables"]["INPUT"], CHAIN: ["-i lo -j RETURN", "-j DROP"]}


class FakeTables:
    """iptables and ip6tables, with the table filter's INPUT and what is made beside it."""

    def __init__(self) -> None:
        self.chains: dict[str, dict[str, list[str]]] = {"iptables": {"INPUT": []}, "ip6tables": {"INPUT": []}}
        self.changes: list[str] = []
        self.error = ""

    def run(self, argv: list[str], **_how: Any) -> subprocess.CompletedProcess[str]:
        program, wait, action, chain, *rule = argv
        assert wait == "-w"
        if program not in self.chains:
            raise FileNotFoundError(2, "No such file or directory")
        if self.error:
            return subprocess.CompletedProcess(argv, 4, "", self.error)
        chains, text = self.chains[program], " ".join(rule)
        if action == "-S":
            shown = [f"-N {chain}", *(f"-A {chain} {entry}" for entry in chains[chain])]
            return subprocess.CompletedProcess(argv, 0, "\n".join(shown) + "\n", "")
        if action == "-C":
            return subprocess.CompletedProcess(argv, 0 if text in chains[chain] else 1, "", "")
        if action == "-N" and chain in chains:
            return subprocess.CompletedProcess(argv, 1, "", "iptables: Chain already exists.")
        self.changes.append(" ".join([program, action, chain, *rule]))
        if action in ("-N", "-F"):
            chains[chain] = []
        elif action == "-I":
            chains[chain].insert(0, text)
        elif action == "-A":
            chains[chain].append(text)
        elif action == "-X":
            assert chains.pop(chain) == []
        else:
            assert action == "-D"
            chains[chain].remove(text)
        return subprocess.CompletedProcess(argv, 0, "", "")


@pytest.fixture
def tables() -> FakeTables:
    return FakeTables()


@pytest.fixture
def program(tables: FakeTables) -> Any:
    loaded: Any = load()
    loaded.subprocess = SimpleNamespace(run=tables.run)
    return loaded


def container(runs: bool, identity: str) -> SimpleNamespace:
    return SimpleNamespace(runs=runs, id=identity)


def test_the_groups_ports_are_for_its_nodes(program: Any, tables: FakeTables) -> None:
    program.Firewall(GIVEN, []).close()
    assert tables.chains == MADE


def test_a_second_time_changes_nothing(program: Any, tables: FakeTables) -> None:
    program.Firewall(GIVEN, []).close()
    tables.changes.clear()
    program.Firewall(GIVEN, []).close()
    assert tables.changes == []


@pytest.mark.parametrize(
    "held",
    [
        ["-i lo -j RETURN", "-s 192.168.1.10 -j RETURN", "-s 192.168.1.99 -j RETURN", "-j DROP"],
        ["-i lo -j RETURN", "-s 192.168.1.10 -j RETURN", "-j DROP"],
        [*MADE["iptables"][CHAIN], "-s 192.168.1.99 -j RETURN"],
        [],
    ],
)
def test_a_chain_that_holds_something_else_is_filled_anew(program: Any, tables: FakeTables, held: list[str]) -> None:
    program.Firewall(GIVEN, []).close()
    tables.changes.clear()
    tables.chains["iptables"][CHAIN] = held
    program.Firewall(GIVEN, []).close()
    assert tables.chains == MADE
    assert tables.changes[0] == f"iptables -F {CHAIN}"
    assert len(tables.changes) == 5


def test_what_an_earlier_keeper_closed_is_opened_when_nobody_wants_it(program: Any, tables: FakeTables) -> None:
    for chains in tables.chains.values():
        chains["INPUT"] = [f"-p tcp --dport {ports} -j {CHAIN}" for ports in ("6379:6389", "41749")]
    firewall = program.Firewall(GIVEN, [])
    firewall.close()
    assert f"-p tcp --dport 6379:6389 -j {CHAIN}" not in tables.chains["iptables"]["INPUT"]
    # A program of the group may still listen on a single port.
    assert f"-p tcp --dport 41749 -j {CHAIN}" in tables.chains["iptables"]["INPUT"]
    firewall.look(100.0, often=True)
    assert tables.chains == MADE


def test_a_group_that_is_stopped_leaves_no_rule(program: Any, tables: FakeTables) -> None:
    tables.chains["iptables"]["INPUT"] = ["-p tcp --dport 22 -j ACCEPT"]
    firewall = program.Firewall(GIVEN, [])
    firewall.close()
    firewall.open()
    assert tables.chains == {"iptables": {"INPUT": ["-p tcp --dport 22 -j ACCEPT"]}, "ip6tables": {"INPUT": []}}


def test_rules_of_others_are_left_alone(program: Any, tables: FakeTables) -> None:
    tables.chains["iptables"] = {"INPUT": ["-p tcp --dport 22 -j ACCEPT"], "DOCKER-USER": ["-j RETURN"]}
    program.Firewall(GIVEN, []).close()
    assert tables.chains["iptables"]["INPUT"] == [*MADE["iptables"]["INPUT"], "-p tcp --dport 22 -j ACCEPT"]
    assert tables.chains["iptables"]["DOCKER-USER"] == ["-j RETURN"]


def test_without_iptables_it_is_said(program: Any, tables: FakeTables, capsys: pytest.CaptureFixture[str]) -> None:
    del tables.chains["iptables"]
    program.Firewall(GIVEN, []).close()
    said = "the ports of the group are open to everybody: iptables: No such file or directory"
    assert set(capsys.readouterr().out.splitlines()) == {said}
    assert tables.chains["ip6tables"] == MADE["ip6tables"]


def test_a_refusal_is_said(program: Any, tables: FakeTables, capsys: pytest.CaptureFixture[str]) -> None:
    tables.error = "Permission denied (you must be root)"
    program.Firewall(GIVEN, []).close()
    assert f"open to everybody: iptables: {tables.error}" in capsys.readouterr().out


def test_without_ip6tables_nothing_is_said(
    program: Any, tables: FakeTables, capsys: pytest.CaptureFixture[str]
) -> None:
    del tables.chains["ip6tables"]
    program.Firewall(GIVEN, []).close()
    assert capsys.readouterr().out == ""
    assert tables.chains["iptables"] == MADE["iptables"]


# Ports that the programs choose.


def test_ports_that_the_programs_choose_are_closed_while_they_listen(
    program: Any, tables: FakeTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[str]] = []
    listening = {6379, 10500, 8100, 41000, 42000}

    def ports(ids: set[str]) -> set[int]:
        asked.append(ids)
        return set(listening)

    monkeypatch.setattr(program, "_wild_ports", ports)
    firewall = program.Firewall(GIVEN, [container(True, "aa"), container(False, "bb")])
    firewall.look(1000, often=True)
    assert asked == [{"aa"}]
    expected = {f"-p tcp --dport {port} -j {CHAIN}" for port in (41000, 42000)}
    assert set(tables.chains["iptables"]["INPUT"]) == set(tables.chains["ip6tables"]["INPUT"]) == expected
    listening.remove(41000)
    tables.changes.clear()
    firewall.look(1001, often=True)
    assert tables.changes == [f"{name} -D INPUT -p tcp --dport 41000 -j {CHAIN}" for name in ("iptables", "ip6tables")]
    tables.changes.clear()
    firewall.look(1002, often=True)
    assert tables.changes == []
    listening.add(41000)
    firewall.look(1003, often=True)
    assert set(tables.chains["iptables"]["INPUT"]) == expected


@pytest.mark.parametrize(("often", "looks"), [(True, 30), (False, 3)])
def test_how_often_it_looks(program: Any, monkeypatch: pytest.MonkeyPatch, often: bool, looks: int) -> None:
    asked: list[set[str]] = []

    def ports(ids: set[str]) -> set[int]:
        asked.append(ids)
        return set()

    monkeypatch.setattr(program, "_wild_ports", ports)
    firewall = program.Firewall(GIVEN, [])
    for tick in range(60):
        firewall.look(1000 + tick / 2, often)
    assert len(asked) == looks


OURS = "c0ffee" * 10


@pytest.fixture
def in_a_container(program: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """This process as one of a container; all else in /proc is real."""
    text = program._text
    cgroup = f"/proc/{os.getpid()}/cgroup"
    monkeypatch.setattr(program, "_text", lambda path: f"0::/docker/{OURS}\n" if path == cgroup else text(path))
    return program


def test_ports_on_all_addresses_are_found(in_a_container: Any) -> None:
    with socket.socket() as wild, socket.socket() as private, socket.socket() as unused:
        for one, address in ((wild, "0.0.0.0"), (private, "127.0.0.1"), (unused, "0.0.0.0")):  # noqa: S104
            one.bind((address, 0))
        wild.listen()
        private.listen()
        port = wild.getsockname()[1]
        found = in_a_container._wild_ports({OURS})
        assert port in found
        assert not {private.getsockname()[1], unused.getsockname()[1]} & found
        assert in_a_container._wild_ports({"abad1dea" * 8}) == set()
        assert in_a_container._wild_ports(set()) == set()
    assert port not in in_a_container._wild_ports({OURS})


def test_a_link_that_goes_away_hides_no_other(program: Any, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"link{number}").symlink_to(f"socket:[{number}]")
        # Refused like one that is gone.
        (tmp_path / f"file{number}").touch()
    assert sorted(program._links(tmp_path)) == [f"socket:[{number}]" for number in range(5)]
    assert program._links(tmp_path / "gone") == []


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="this machine has no IPv6")
def test_ports_on_all_addresses_of_ipv6_are_found(in_a_container: Any) -> None:
    with socket.socket(socket.AF_INET6) as wild, socket.socket(socket.AF_INET6) as private:
        wild.bind(("::", 0))
        private.bind(("::1", 0))
        wild.listen()
        private.listen()
        found = in_a_container._wild_ports({OURS})
        assert wild.getsockname()[1] in found
        assert private.getsockname()[1] not in found
