# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datagrams that are not what a keeper expects change nothing, and end no keeper."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from ansible_collections.tandem.vllm.tests.unit.roles.rank_group.keepers import GROUP, MEMBER, World


def send(data: bytes, sender: str, to: tuple[str, int], port: int = 0) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.bind((sender, port))
        out.sendto(data, to)


def down(**changed: Any) -> bytes:
    """What a follower says whose container has ended, with changes."""
    return json.dumps({"group": GROUP, "rank": 1, "start_id": "", "state": "down", **changed}).encode()


TO_THE_LEADER = [
    ("a foreign address", down(), "127.0.0.9"),
    ("another group", down(group="other"), "127.0.0.2"),
    ("no group", b'{"rank": 1, "start_id": "", "state": "down"}', "127.0.0.2"),
    ("broken JSON", b'{"group": ', "127.0.0.2"),
    ("nothing", b"", "127.0.0.2"),
    ("no text", b"\xff\xfe\x00", "127.0.0.2"),
    ("no object", b"[1, 2]", "127.0.0.2"),
    ("nested too deeply", b"[" * 2048, "127.0.0.2"),
    ("cut off", down(note="x" * 4000), "127.0.0.2"),
    ("the rank of another address", down(rank=2), "127.0.0.2"),
    ("the leader's rank", down(rank=0), "127.0.0.1"),
    ("a rank too high", down(rank=7), "127.0.0.2"),
    ("a rank below", down(rank=-1), "127.0.0.3"),
    ("a rank as text", down(rank="1"), "127.0.0.2"),
    ("a rank as a list", down(rank=[1]), "127.0.0.2"),
    ("a rank with a point", down(rank=1.0), "127.0.0.2"),
    ("no rank", down(rank=None), "127.0.0.2"),
]


@pytest.mark.parametrize(("data", "sender"), [case[1:] for case in TO_THE_LEADER], ids=[c[0] for c in TO_THE_LEADER])
def test_the_leader_ignores(serving: World, data: bytes, sender: str) -> None:
    before, events = serving.pids(), len(serving.events)
    # Last in the queue: it would count.
    for keeper in (serving.keepers[1], serving.keepers[2]):
        keeper.tick(serving.now)
    send(data, sender, ("127.0.0.1", serving.port))
    serving.settle(3)
    assert (serving.leader.phase, serving.pids(), len(serving.events)) == ("serving", before, events)


@pytest.mark.parametrize(
    "changed", [{}, {"state": "up"}, {"state": ["up"], "start_id": None}, {"state": {}, "start_id": {}}, {"state": 1}]
)
def test_the_leader_ends_a_start_when_a_member_does_not_say_that_it_is_part_of_it(
    serving: World, changed: dict[str, Any]
) -> None:
    serving.keepers[1].tick(serving.now)
    send(down(**changed), "127.0.0.2", ("127.0.0.1", serving.port))
    assert serving.ends(0.5) == "the member on 127.0.0.2 has ended"


def wanted(**changed: Any) -> bytes:
    """What the leader answers when nothing is to run, with changes."""
    return json.dumps({"group": GROUP, "start_id": "", **changed}).encode()


TO_A_FOLLOWER = [
    ("a foreign address", wanted(), "127.0.0.9", 0),
    ("another follower", wanted(), "127.0.0.3", 0),
    ("another program on the leader's host", wanted(), "127.0.0.1", 0),
    ("another group", wanted(group="other"), "127.0.0.1", 1),
    ("no start", b'{"group": "%s"}' % GROUP.encode(), "127.0.0.1", 1),
    ("a start that is no text", wanted(start_id=0), "127.0.0.1", 1),
    ("null", wanted(start_id=None), "127.0.0.1", 1),
    ("broken JSON", b"{", "127.0.0.1", 1),
    ("nested too deeply", b'{"a":' * 400, "127.0.0.1", 1),
]


def answer(world: World, data: bytes, sender: str, as_leader: bool) -> None:
    """Say something to the first follower; as the leader only when that has closed its port."""
    world.cut_off = {0}
    if as_leader:
        world.leader.socket.close()
    to = world.keepers[1].socket.getsockname()
    send(data, sender, to, world.port if as_leader else 0)
    world.step()


@pytest.mark.parametrize(
    ("data", "sender", "as_leader"), [case[1:] for case in TO_A_FOLLOWER], ids=[c[0] for c in TO_A_FOLLOWER]
)
def test_a_follower_ignores(serving: World, data: bytes, sender: str, as_leader: int) -> None:
    before = serving.pids()
    heard = serving.keepers[1].heard
    serving.step()
    answer(serving, data, sender, bool(as_leader))
    assert serving.pids() == before
    assert serving.keepers[1].heard - heard <= 1.5
    serving.settle(1.5)
    assert serving.pids() == before
    # Nor does it take it for a sign of life.
    serving.settle(1.5)
    assert serving.keepers[1].phase == "alone"


def test_a_follower_obeys_the_leader(serving: World) -> None:
    answer(serving, wanted(), "127.0.0.1", as_leader=True)
    assert (serving.keepers[1].phase, serving.dockers[1].running()) == ("down", [])


def test_a_follower_runs_no_start_twice(serving: World) -> None:
    start_id = serving.leader.start_id
    answer(serving, wanted(), "127.0.0.1", as_leader=True)
    answer(serving, wanted(start_id=start_id), "127.0.0.1", as_leader=True)
    assert serving.dockers[1].running() == []
    answer(serving, wanted(start_id="another"), "127.0.0.1", as_leader=True)
    assert (serving.keepers[1].phase, serving.keepers[1].reason) == ("up", "start another")


def test_a_follower_that_has_missed_the_end_of_a_start_begins_the_next_anew(serving: World) -> None:
    before = serving.dockers[1].pid(MEMBER)
    answer(serving, wanted(start_id="another"), "127.0.0.1", as_leader=True)
    assert (serving.keepers[1].phase, serving.keepers[1].reason) == ("up", "start another")
    assert serving.events[-2:] == [("kill", 1, MEMBER), ("start", 1, MEMBER)]
    assert serving.dockers[1].pid(MEMBER) != before


def test_an_address_that_cannot_be_reached_is_told_once(serving: World, capsys: pytest.CaptureFixture[str]) -> None:
    follower = serving.keepers[1]
    follower.addresses = ["255.255.255.255", *follower.addresses[1:]]
    serving.settle(10)
    assert capsys.readouterr().out.count("cannot reach 255.255.255.255: ") == 1
