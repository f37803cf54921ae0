# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rank group that serves does when something ends, falls silent, or is changed by somebody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.tandem.vllm.tests.unit.roles.rank_group.keepers import (
    ENGINE,
    MEMBER,
    SILENCE_S,
    World,
    one_start,
    runs_again_as_a_whole,
)

# What ends the whole start.


def member_ends_on_the_leader(world: World) -> None:
    world.dockers[0].end(MEMBER)


def member_ends_on_a_follower(world: World) -> None:
    world.dockers[1].end(MEMBER)


def member_restarted_by_somebody_on_the_leader(world: World) -> None:
    world.dockers[0].restart(MEMBER)


def member_restarted_by_somebody_on_a_follower(world: World) -> None:
    world.dockers[2].restart(MEMBER)


def all_end_on_the_leader(world: World) -> None:
    world.dockers[0].clean_up()


def engine_says_that_it_is_dead(world: World) -> None:
    world.status = 503
    world.step()
    world.status = 200


WHOLE = [
    (member_ends_on_the_leader, f"{MEMBER} has ended"),
    (member_ends_on_a_follower, "the member on 127.0.0.2 has ended"),
    (member_restarted_by_somebody_on_the_leader, f"{MEMBER} has ended"),
    (member_restarted_by_somebody_on_a_follower, "the member on 127.0.0.3 has ended"),
    (all_end_on_the_leader, f"{MEMBER} has ended"),
    (engine_says_that_it_is_dead, "the engine says that it is dead"),
]


@pytest.mark.parametrize(("fault", "reason"), WHOLE)
def test_the_whole_start_is_over_and_the_next_begins(
    serving: World, fault: Callable[[World], None], reason: str
) -> None:
    start_id, before, events = one_start(serving), serving.pids(), len(serving.events)
    fault(serving)
    assert serving.ends(2) == reason
    serving.until("serving")
    assert one_start(serving) != start_id
    runs_again_as_a_whole(serving, before, events)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (member_ends_on_the_leader, "tandem-chat.ray has ended"),
        (member_ends_on_a_follower, "the member on 127.0.0.2 has ended"),
    ],
)
def test_without_ray_too(worlds: Callable[..., World], fault: Callable[[World], None], reason: str) -> None:
    world = worlds(ray=False, nodes=2)
    world.make_containers()
    world.begin_all()
    world.until("serving")
    world.settle(1)
    start_id, before, events = one_start(world), world.pids(), len(world.events)
    fault(world)
    assert world.ends() == reason
    world.until("serving")
    assert one_start(world) != start_id
    runs_again_as_a_whole(world, before, events)


def test_no_answer_of_the_engine_is_no_failure(serving: World) -> None:
    events = len(serving.events)
    serving.status = 0
    serving.settle(60)
    assert (serving.leader.phase, len(serving.events)) == ("serving", events)


# What ends the engine alone.


def engine_ends(world: World) -> None:
    world.dockers[0].end(ENGINE)


def engine_restarted_by_somebody(world: World) -> None:
    world.dockers[0].restart(ENGINE)


def engine_exchanged(world: World) -> None:
    world.dockers[0].rename(ENGINE, "tandem-chat.previous")
    world.settle(10)
    assert (world.leader.phase, world.leader.reason) == ("ready", f"there is no container {ENGINE}")
    world.dockers[0].end("tandem-chat.previous")
    del world.dockers[0].processes["tandem-chat.previous"]
    world.dockers[0].make(ENGINE)


@pytest.mark.parametrize("fault", [engine_ends, engine_restarted_by_somebody, engine_exchanged])
def test_the_engine_alone_starts_anew(serving: World, fault: Callable[[World], None]) -> None:
    start_id, before, events = one_start(serving), serving.pids(), len(serving.events)
    fault(serving)
    serving.until("ready", 3)
    serving.until("serving", 10)
    after = serving.pids()
    assert one_start(serving) == start_id
    assert after.pop((0, ENGINE)) != before.pop((0, ENGINE))
    assert after == before
    assert {(rank, name) for _what, rank, name in serving.events[events:]} == {(0, ENGINE)}


def test_the_engine_waits_until_the_gate_lets_it(serving: World) -> None:
    serving.gate_allows(False)
    engine_ends(serving)
    serving.settle(60)
    assert serving.leader.phase == "ready"
    serving.gate_allows()
    serving.until("serving")


def test_an_engine_started_by_hand_is_ended(serving: World) -> None:
    serving.gate_allows(False)
    engine_ends(serving)
    serving.until("ready")
    serving.dockers[0].restart(ENGINE)
    by_hand = serving.dockers[0].pid(ENGINE)
    serving.settle(4)
    assert not serving.dockers[0].runs(ENGINE)
    serving.gate_allows()
    serving.until("serving")
    assert serving.dockers[0].pid(ENGINE) != by_hand
    assert ("kill", 1, MEMBER) not in serving.events


def test_the_gates_time_begins_when_there_is_an_engine(serving: World) -> None:
    serving.dockers[0].rename(ENGINE, "tandem-chat.previous")
    serving.settle(400, step=1)
    serving.gate_allows(False)
    serving.dockers[0].make(ENGINE)
    serving.settle(150, step=1)
    assert serving.leader.phase == "ready"
    assert serving.until("clearing", 60) <= 35


def test_an_engine_that_ends_again_and_again_is_started_less_and_less(world: World) -> None:
    world.status = 0
    world.until("loading")
    waits = []
    for _again in range(7):
        engine_ends(world)
        world.until("ready", 3)
        waits.append(world.until("loading", 70))
    assert all(wanted <= wait <= wanted + 3 for wanted, wait in zip((0, 5, 15, 30, 60, 60, 60), waits, strict=True))
    assert ("kill", 0, MEMBER) not in world.events
    world.status = 200
    world.until("serving")
    engine_ends(world)
    world.until("ready", 3)
    assert world.leader.failures == 0
    assert world.until("serving") <= 3


# A whole exchange: a deployment renames the containers, and makes others.


def test_containers_that_are_taken_away_are_waited_for(serving: World) -> None:
    before, events = serving.pids(), len(serving.events)
    for rank, docker in enumerate(serving.dockers):
        for name in (MEMBER, ENGINE) if rank == 0 else (MEMBER,):
            docker.rename(name, f"{name}.previous")
    serving.settle(10)
    assert serving.leader.phase == "waiting"
    assert serving.leader.reason == "for the containers on 127.0.0.1, 127.0.0.2, 127.0.0.3"
    assert [serving.keepers[rank].phase for rank in (1, 2)] == ["absent", "absent"]
    # What bears another name is the deployment's to stop.
    assert set(serving.pids().values()) == set(before.values())
    assert len(serving.events) == events
    for docker in serving.dockers:
        docker.clean_up()
        docker.processes.clear()
    serving.make_containers()
    serving.until("serving")
    one_start(serving)


def test_a_container_taken_away_from_a_follower_ends_the_start(serving: World) -> None:
    serving.dockers[1].rename(MEMBER, f"{MEMBER}.previous")
    serving.settle(10)
    assert serving.leader.reason == "for the containers on 127.0.0.2"
    assert serving.dockers[0].running() == serving.dockers[2].running() == []
    serving.dockers[1].end(f"{MEMBER}.previous")
    serving.dockers[1].rename(f"{MEMBER}.previous", MEMBER)
    serving.until("serving")
    one_start(serving)


def test_a_container_taken_away_from_the_leader_is_told(serving: World) -> None:
    serving.dockers[0].rename(MEMBER, f"{MEMBER}.previous")
    assert serving.ends() == f"{MEMBER} was taken away"


# Nodes that are not heard of.


def test_a_follower_that_falls_silent_ends_the_start(serving: World) -> None:
    start_id, before, events = one_start(serving), serving.pids(), len(serving.events)
    serving.cut_off = {1}
    assert serving.ends(SILENCE_S + 1) == "nothing heard of 127.0.0.2 for 3 s"
    # Its container may still run: nothing is started before it has said that it does not.
    serving.settle(60)
    assert serving.leader.phase == "clearing"
    assert serving.running() == [(1, MEMBER)]
    serving.cut_off = set()
    serving.until("serving")
    assert one_start(serving) != start_id
    runs_again_as_a_whole(serving, before, events)


def test_a_short_silence_changes_nothing(serving: World) -> None:
    events = len(serving.events)
    serving.cut_off = {1}
    serving.settle(SILENCE_S - 1)
    serving.cut_off = set()
    serving.settle(10)
    assert (serving.leader.phase, len(serving.events)) == ("serving", events)


def test_followers_that_hear_nothing_end_their_own(serving: World) -> None:
    start_id, before, events = one_start(serving), serving.pids(), len(serving.events)
    serving.cut_off = {0}
    serving.settle(SILENCE_S - 1)
    assert serving.dockers[1].runs(MEMBER)
    assert max(serving.until("alone", rank=rank) for rank in (1, 2)) <= 2
    assert serving.keepers[1].reason == "nothing heard of 127.0.0.1 for 3 s"
    assert serving.running() == [(0, ENGINE), (0, MEMBER)]
    serving.settle(60)
    assert serving.running() == [(0, ENGINE), (0, MEMBER)]
    serving.cut_off = set()
    serving.step()
    assert serving.said[0][-1][0] != "serving"
    serving.until("serving")
    assert one_start(serving) != start_id
    runs_again_as_a_whole(serving, before, events)


def test_a_network_that_is_cut_ends_both_sides(serving: World) -> None:
    """Unlike a keeper that does not run, one that is cut off goes on by itself."""
    start_id, before, events = one_start(serving), serving.pids(), len(serving.events)
    follower = serving.keepers[1]
    follower.given["port"], through = 1, follower.given["port"]
    serving.settle(SILENCE_S + 2)
    assert (serving.leader.phase, follower.phase) == ("clearing", "alone")
    assert serving.running() == []
    serving.settle(30)
    assert serving.running() == []
    follower.given["port"] = through
    serving.until("serving", 5)
    assert one_start(serving) != start_id
    runs_again_as_a_whole(serving, before, events)


# Clearing.


@pytest.mark.parametrize("rank", [0, 1])
def test_nothing_starts_before_all_are_gone(serving: World, rank: int) -> None:
    before, events = serving.pids(), len(serving.events)
    serving.dockers[rank].kills = False
    serving.dockers[2].end(MEMBER)
    serving.settle(60)
    assert serving.leader.phase == "clearing"
    assert serving.running() == [place for place in before if place[0] == rank]
    serving.dockers[rank].kills = True
    serving.until("serving")
    runs_again_as_a_whole(serving, before, events)


def test_starts_that_fail_follow_one_another_less_and_less(world: World) -> None:
    world.status = 0
    waits = []
    for _again in range(7):
        world.until("loading", 70)
        world.dockers[1].end(MEMBER)
        world.until("clearing", 3)
        waits.append(world.until("starting", 70))
    assert all(wanted <= wait <= wanted + 2 for wanted, wait in zip((0, 5, 15, 30, 60, 60, 60), waits, strict=True))
    assert world.leader.failures == 7
    world.status = 200
    world.until("serving")
    world.dockers[1].end(MEMBER)
    world.until("clearing", 3)
    assert world.leader.failures == 0
    assert world.until("serving") <= 5


def test_a_pause_is_told(world: World) -> None:
    world.status = 0
    for _again in range(2):
        world.until("loading")
        world.dockers[0].end(MEMBER)
        reason = world.ends()
    assert reason == f"{MEMBER} has ended; the next start is in 5 s at the earliest"


# Docker that does not answer.


@pytest.mark.parametrize("rank", [0, 1])
def test_docker_that_does_not_answer_changes_nothing(
    serving: World, rank: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before, events = serving.pids(), len(serving.events)
    serving.dockers[rank].answers = False
    serving.settle(60)
    assert (serving.leader.phase, serving.pids(), len(serving.events)) == ("serving", before, events)
    assert capsys.readouterr().out.count("Docker does not answer") == 1
    serving.dockers[rank].answers = True
    serving.settle(10)
    assert (serving.leader.phase, serving.pids()) == ("serving", before)


@pytest.mark.parametrize("rank", [0, 1])
def test_docker_that_ends_with_its_containers(serving: World, rank: int) -> None:
    before, events = serving.pids(), len(serving.events)
    serving.dockers[rank].answers = False
    serving.dockers[rank].clean_up()
    serving.ends(1)
    serving.settle(120)
    assert not serving.dockers[rank].running()
    assert not serving.dockers[0].runs(ENGINE)
    serving.dockers[rank].answers = True
    serving.until("serving", 200)
    one_start(serving)
    assert not set(before.values()) & set(serving.pids().values())
    assert ("start", rank, MEMBER) in serving.events[events:]


def test_a_look_keeps_the_others_waiting_less_than_the_silence(serving: World) -> None:
    """The leader asks for two containers in one tick, in which it answers nobody."""
    asked = len(serving.dockers[0].patience)
    serving.settle(20)
    patience = serving.dockers[0].patience[asked:]
    assert len(patience) >= 16
    assert 2 * max(patience) + serving.programs[0].TICK_S < SILENCE_S


def test_docker_takes_a_dead_process_for_a_running_one(serving: World) -> None:
    serving.dockers[0].pid = lambda name: 2**30  # type: ignore[method-assign]
    serving.dockers[0].runs = lambda name: True  # type: ignore[method-assign]
    serving.leader.member.look(serving.now, force=True)
    assert (serving.leader.member.runs, serving.leader.member.birth) == (False, "")
