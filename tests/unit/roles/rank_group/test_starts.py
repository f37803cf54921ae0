# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a rank group's first start goes, what limits it, and how it is stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.tandem.vllm.tests.unit.roles.rank_group.keepers import (
    ENGINE,
    MEMBER,
    REFUSED,
    SILENCE_S,
    START_LIMIT_S,
    World,
    one_start,
)


def test_the_first_start_waits_for_all_containers(worlds: Callable[..., World]) -> None:
    world = worlds()
    world.dockers[1].make(MEMBER)
    world.begin_all()
    world.settle(20)
    assert (world.leader.phase, world.leader.reason) == ("waiting", "for the containers on 127.0.0.1, 127.0.0.3")
    assert [world.keepers[rank].phase for rank in (1, 2)] == ["down", "absent"]
    world.dockers[2].make(MEMBER)
    world.settle(20)
    assert (world.leader.phase, world.leader.reason) == ("waiting", "for the containers on 127.0.0.1")
    assert world.events == []
    world.dockers[0].make(MEMBER, ENGINE)
    assert world.until("serving") < 10
    one_start(world)


def test_a_keeper_that_says_nothing_is_waited_for(world: World) -> None:
    world.cut_off = {2}
    world.settle(20)
    assert (world.leader.phase, world.events) == ("clearing", [])
    world.cut_off = set()
    world.until("serving")
    one_start(world)


def test_one_that_falls_silent_while_another_is_waited_for_is_named(worlds: Callable[..., World]) -> None:
    world = worlds()
    world.dockers[0].make(MEMBER, ENGINE)
    world.dockers[1].make(MEMBER)
    world.begin_all()
    world.until("waiting")
    world.cut_off = {1}
    world.settle(SILENCE_S + 1)
    assert world.leader.reason == "for the containers on 127.0.0.2, 127.0.0.3"


def test_the_order_of_a_start(world: World) -> None:
    world.listens = False
    world.gate_allows(False)
    world.status = 0
    world.settle(20)
    assert (world.leader.phase, world.running()) == ("starting", [(0, MEMBER)])
    world.listens = True
    world.settle(20)
    assert (world.leader.phase, world.leader.reason) == ("ready", f"not fit for the engine: {REFUSED}")
    assert world.running() == [(0, MEMBER), (1, MEMBER), (2, MEMBER)]
    world.gate_allows()
    world.settle(20)
    assert (world.leader.phase, world.leader.reason) == ("loading", f"{ENGINE} starts")
    world.status = 200
    world.settle(1)
    assert (world.leader.phase, world.leader.reason) == ("serving", "")
    assert [(rank, name) for _start, rank, name in world.events] == [(0, MEMBER), (1, MEMBER), (2, MEMBER), (0, ENGINE)]
    start_id = one_start(world)
    assert {world.told(rank)["start_id"] for rank in range(3)} == {start_id}
    assert [world.told(rank)["phase"] for rank in range(3)] == ["serving", "up", "up"]


def test_without_ray_the_members_serve(worlds: Callable[..., World]) -> None:
    world = worlds(ray=False)
    world.make_containers()
    world.begin_all()
    world.status = 0
    world.until("starting")
    world.until("loading")
    world.settle(5)
    one_start(world)
    world.status = 200
    world.settle(1)
    assert world.leader.phase == "serving"
    assert [event for event in world.events if event[0] == "kill"] == []


def test_a_container_that_runs_already_is_not_part_of_the_start(worlds: Callable[..., World]) -> None:
    world = worlds()
    world.make_containers()
    for docker in world.dockers:
        docker.restart(MEMBER)
    before = world.pids()
    world.begin_all()
    world.until("serving")
    assert not {pid for pid in before.values() if pid} & set(world.pids().values())


def test_a_member_that_is_started_by_hand_while_others_are_waited_for_is_not_part_of_the_start(
    worlds: Callable[..., World],
) -> None:
    world = worlds()
    world.dockers[0].make(MEMBER, ENGINE)
    world.dockers[1].make(MEMBER)
    world.begin_all()
    world.until("waiting")
    world.dockers[0].restart(MEMBER)
    by_hand = world.dockers[0].pid(MEMBER)
    world.settle(3)
    world.dockers[2].make(MEMBER)
    world.until("serving")
    assert world.dockers[0].pid(MEMBER) != by_hand
    one_start(world)


def the_head_does_not_listen(world: World) -> None:
    world.listens = False


def a_member_says_nothing(world: World) -> None:
    world.until("starting")
    world.cut_off = {2}


def gpus_are_taken(world: World) -> None:
    world.gate_allows(False)


def the_engine_loads_for_ever(world: World) -> None:
    world.status = 0


def the_gate_hangs(world: World) -> None:
    world.leader.given["gate"] = ["sleep", "600"]
    world.gate_answers = False


@pytest.mark.parametrize(
    ("lasting", "limit", "reason"),
    [
        (the_head_does_not_listen, 120, "after 120 s ['127.0.0.1', 6379] does not listen"),
        (a_member_says_nothing, 120, "after 120 s the members do not all run"),
        (gpus_are_taken, 180, f"not fit for the engine after 180 s: {REFUSED}"),
        (the_gate_hangs, 270, "not fit for the engine after 180 s: no answer"),
        (the_engine_loads_for_ever, START_LIMIT_S, "not serving 600 s after the start"),
    ],
)
def test_a_start_that_takes_too_long_is_ended(
    world: World, lasting: Callable[[World], None], limit: float, reason: str
) -> None:
    world.settle(0.5)
    lasting(world)
    world.settle(limit - 5, step=2)
    assert world.leader.phase in ("starting", "ready", "loading")
    began = len(world.events)
    assert world.ends(20) == reason
    world.step()
    assert ("kill", 0, MEMBER) in world.events[began:]


def test_a_container_that_docker_cannot_start_is_tried_again(world: World) -> None:
    world.dockers[2].refuses = {MEMBER}
    world.until("starting")
    assert world.ends() == "the member on 127.0.0.3 has ended"
    assert not [reason for phase, reason in world.said[2] if phase == "up"]
    world.dockers[2].refuses = set()
    world.until("serving", 60)
    one_start(world)


@pytest.mark.parametrize("name", [MEMBER, ENGINE])
def test_a_leaders_container_that_docker_cannot_start_is_tried_again(world: World, name: str) -> None:
    world.dockers[0].refuses = {name}
    world.settle(10)
    assert ENGINE not in world.dockers[0].running()
    assert world.leader.failures >= 2
    world.dockers[0].refuses = set()
    world.until("serving", 60)
    one_start(world)


# An engine's start that takes Docker long.


def test_the_others_are_answered_while_docker_starts_the_engine(world: World) -> None:
    world.until("ready")
    world.dockers[0].may_start.clear()
    world.settle(10 * SILENCE_S)
    assert (world.leader.phase, world.leader.reason) == ("ready", f"Docker starts {ENGINE}")
    assert world.running() == [(0, MEMBER), (1, MEMBER), (2, MEMBER)]
    world.dockers[0].may_start.set()
    world.until("serving", 5)
    assert [event for event in world.events if event[0] == "kill"] == []


def test_a_start_that_ends_while_docker_starts_the_engine_ends_the_engine_too(world: World) -> None:
    world.until("ready")
    world.dockers[0].may_start.clear()
    world.settle(5)
    world.dockers[1].end(MEMBER)
    world.settle(5)
    assert (world.leader.phase, world.running()) == ("clearing", [])
    began = len(world.events)
    world.dockers[0].may_start.set()
    world.until("serving")
    assert world.events[began : began + 3] == [("start", 0, ENGINE), ("kill", 0, ENGINE), ("start", 0, MEMBER)]
    one_start(world)


# The service is stopped.


def test_when_the_leader_is_stopped_all_ends(serving: World) -> None:
    serving.leader.stop()
    assert serving.dockers[0].running() == []
    assert serving.told(0)["phase"] == "stopped"
    serving.cut_off = {0}
    serving.settle(SILENCE_S + 1)
    assert serving.running() == []


def test_when_the_leader_is_stopped_while_docker_starts_the_engine_all_ends(world: World) -> None:
    world.until("ready")
    world.dockers[0].may_start.clear()
    world.settle(2)
    world.dockers[0].may_start.set()
    world.leader.stop()
    assert ("start", 0, ENGINE) in world.events
    assert world.dockers[0].running() == []


def test_when_the_leader_is_stopped_the_gate_ends(world: World) -> None:
    world.gate_answers = False
    world.leader.given["gate"] = ["sleep", "600"]
    world.until("ready")
    world.settle(1)
    process = world.leader.gate._process
    world.leader.stop()
    assert process.returncode is not None


def test_when_a_follower_is_stopped_the_start_is_over(serving: World) -> None:
    serving.keepers[1].stop()
    serving.cut_off = {1}
    assert serving.told(1)["phase"] == "stopped"
    assert serving.ends(0.5) == "the member on 127.0.0.2 has ended"
    serving.settle(60)
    assert serving.running() == []
