# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank group that is about to start, and one that serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.tests.unit.roles.rank_group.keepers import World


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes worlds, and leaves no process of theirs behind."""
    made: list[World] = []

    def make(nodes: int = 3, ray: bool = True) -> World:
        world = World(tmp_path, nodes, ray)
        made.append(world)
        world.gate_allows()
        return world

    yield make
    for world in made:
        world.clean_up()


@pytest.fixture
def world(worlds: Callable[..., World]) -> World:
    """All containers are made, all keepers run, no tick has been."""
    world = worlds()
    world.make_containers()
    world.begin_all()
    return world


@pytest.fixture
def serving(world: World) -> World:
    world.until("serving")
    world.settle(1)
    return world
