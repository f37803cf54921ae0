# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A keeper that is restarted takes over the start that runs, or ends it: never anything between."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from ansible_collections.tandem.vllm.tests.unit.roles.rank_group.keepers import (
    ENGINE,
    GROUP,
    MEMBER,
    World,
    one_start,
    runs_again_as_a_whole,
)


def waits_for_gpus(world: World) -> None:
    world.gate_allows(False)
    world.until("ready")


def loads(world: World) -> None:
    world.status = 0
    world.until("loading")


def serves(world: World) -> None:
    world.until("serving")


@pytest.mark.parametrize("in_phase", [waits_for_gpus, loads, serves])
@pytest.mark.parametrize("rank", [0, 1])
def test_what_runs_is_taken_over(world: World, in_phase: Callable[[World], None], rank: int) -> None:
    in_phase(world)
    world.settle(2)
    phase, before, events, ids = world.leader.phase, world.pids(), len(world.events), world.start_ids()
    world.begin(rank)
    assert (world.keepers[rank].phase, world.leader.phase) == ("up" if rank else phase, phase)
    assert "taken over from an earlier keeper" in world.keepers[rank].reason
    world.settle(20)
    assert (world.leader.phase, world.pids(), world.start_ids()) == (phase, before, ids)
    assert len(world.events) == events
    world.status = 200
    world.gate_allows()
    world.until("serving")
    one_start(world)


def test_all_keepers_at_once(serving: World) -> None:
    start_id, before = one_start(serving), serving.pids()
    serving.begin_all()
    serving.settle(20)
    assert (serving.leader.phase, serving.pids(), one_start(serving)) == ("serving", before, start_id)


def test_once_more_without_a_change_in_between(serving: World) -> None:
    before = serving.pids()
    for rank in (0, 1, 0, 1):
        serving.begin(rank)
        serving.keepers[rank].save()
    serving.settle(20)
    assert (serving.leader.phase, serving.pids()) == ("serving", before)


@pytest.mark.parametrize("rank", [0, 1])
def test_another_process_is_not_taken_over(serving: World, rank: int) -> None:
    start_id, before, events = one_start(serving), serving.pids(), len(serving.events)
    serving.dockers[rank].restart(MEMBER)
    serving.begin(rank)
    assert serving.keepers[rank].start_id == ""
    serving.until("starting")
    serving.until("serving")
    assert one_start(serving) != start_id
    runs_again_as_a_whole(serving, before, events)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_container_that_has_ended_meanwhile_ends_the_start(serving: World, rank: int) -> None:
    start_id, before, events = one_start(serving), serving.pids(), len(serving.events)
    serving.dockers[rank].end(MEMBER)
    serving.begin(rank)
    serving.until("starting")
    serving.until("serving")
    assert one_start(serving) != start_id
    runs_again_as_a_whole(serving, before, events)


@pytest.mark.parametrize("phase", ["loading", "serving"])
def test_an_engine_that_was_restarted_meanwhile_starts_anew_alone(world: World, phase: str) -> None:
    world.status = 0 if phase == "loading" else 200
    world.until(phase)
    start_id, before = one_start(world), world.pids()
    world.dockers[0].restart(ENGINE)
    by_hand = world.dockers[0].pid(ENGINE)
    world.begin(0)
    world.until("ready", 3)
    world.status = 200
    world.until("serving")
    after = world.pids()
    assert one_start(world) == start_id
    assert after.pop((0, ENGINE)) not in (before.pop((0, ENGINE)), by_hand)
    assert after == before


def test_a_crash_while_docker_starts_the_engine(world: World) -> None:
    world.until("ready")
    world.dockers[0].may_start.clear()
    world.settle(2)
    before, starts = world.leader.start_id, world.leader.engine_start
    world.begin(0)
    world.dockers[0].may_start.set()
    assert starts.is_over(20)
    world.until("serving")
    assert one_start(world) == before
    assert ("kill", 0, MEMBER) not in world.events


@pytest.mark.parametrize("phase", ["starting", "clearing", "waiting"])
def test_what_has_not_become_a_whole_is_ended(world: World, phase: str) -> None:
    world.listens = False
    world.until("starting")
    if phase != "starting":
        world.dockers[0].kills = False
        world.dockers[0].rename(ENGINE, "away")
        world.leader.fail("a test says so", world.now)
    member = world.dockers[0].pid(MEMBER)
    world.dockers[0].kills = True
    world.begin(0)
    world.listens = True
    if phase != "starting":
        world.dockers[0].rename("away", ENGINE)
    world.until("serving")
    assert world.dockers[0].pid(MEMBER) != member
    one_start(world)


@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_docker_does_not_answer_takes_nothing_over(serving: World, rank: int) -> None:
    """What it cannot see is not part of any later start either."""
    start_id, before, events = one_start(serving), serving.pids(), len(serving.events)
    serving.dockers[rank].answers = False
    serving.begin(rank)
    serving.settle(30)
    assert serving.leader.phase in ("clearing", "waiting")
    serving.dockers[rank].answers = True
    serving.until("serving")
    assert one_start(serving) != start_id
    runs_again_as_a_whole(serving, before, events)


def test_failures_are_taken_over(world: World) -> None:
    world.status = 0
    for _again in range(3):
        world.until("loading", 40)
        world.dockers[1].end(MEMBER)
        world.until("clearing", 3)
    world.until("loading", 40)
    world.begin(0)
    assert world.leader.failures == 3
    world.dockers[1].end(MEMBER)
    assert world.ends() == "the member on 127.0.0.2 has ended; the next start is in 30 s at the earliest"


@pytest.mark.parametrize("text", ["", "{", "[]", '"up"', "{}", '{"phase": "serving", "member_birth": ""}'])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_state_file_that_says_nothing(worlds: Callable[..., World], rank: int, text: str) -> None:
    world = worlds()
    world.make_containers()
    for program in world.programs:
        program.STATE_FOLDER.mkdir()
    (world.programs[rank].STATE_FOLDER / f"{GROUP}.json").write_text(text)
    world.begin_all()
    world.until("serving")
    one_start(world)


def test_the_state_file_has_what_a_takeover_needs_at_every_moment(world: World) -> None:
    """Over a first start, an engine that ends, and a second start."""
    happens = {20: (0, ENGINE), 40: (1, MEMBER), 60: (0, MEMBER), 80: (0, ENGINE)}
    phases = set()
    for number in range(100):
        world.step()
        if number in happens:
            rank, name = happens[number]
            world.dockers[rank].end(name)
        for rank, keeper in world.keepers.items():
            if not keeper.phase:
                continue
            told = world.told(rank)
            assert told["phase"] == keeper.phase
            phases.add(keeper.phase)
            if keeper.phase in ("starting", "ready", "loading", "serving", "up"):
                assert {key: told[key] for key in keeper.facts()} == keeper.facts()
    assert phases >= {"starting", "ready", "loading", "serving", "up", "down"}


def test_the_state_file_is_whole_at_every_moment(serving: World) -> None:
    folder = serving.programs[0].STATE_FOLDER
    assert [path.name for path in folder.iterdir()] == [f"{GROUP}.json"]
    assert set(json.loads((folder / f"{GROUP}.json").read_text())) == {
        *("phase", "reason", "since", "rank", "start_id", "member_birth", "engine_birth", "failures")
    }
