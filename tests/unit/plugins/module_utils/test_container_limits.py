# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils import container_limits
from ansible_collections.tandem.vllm.plugins.module_utils.container_limits import UNKNOWN, UNLIMITED, Limit

PROC = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max locked memory         8388608              unlimited            bytes
Max open files            1024                 524288               files
"""
UNITS = """\
MainPID=45
LimitNOFILE=524288
LimitNOFILESoft=1024
LimitMEMLOCK=8388608
LimitMEMLOCKSoft=8388608

MainPID=0
LimitNOFILE=infinity
LimitNOFILESoft=infinity
"""


def test_of_process() -> None:
    assert container_limits.of_process(PROC) == {
        "nofile": Limit(1024, 524288),
        "memlock": Limit(8388608, UNLIMITED),
    }
    assert container_limits.of_process("") == {}


@pytest.mark.parametrize(
    ("pids", "limits"),
    [
        ((45, 1), {"nofile": Limit(1024, 524288), "memlock": Limit(8388608, 8388608)}),
        ((99, 45), {"nofile": Limit(1024, 524288), "memlock": Limit(8388608, 8388608)}),
        # A unit that does not run has the main process 0.
        ((7, 0), {}),
    ],
)
def test_of_unit(pids: tuple[int, ...], limits: dict[str, Limit]) -> None:
    assert container_limits.of_unit(UNITS, pids) == limits


def test_of_unit_without_systemd() -> None:
    assert container_limits.of_unit("", (45,)) == {}


@pytest.mark.parametrize(
    ("process", "unit", "limit"),
    [
        # Not written in Go, or by an old one: as it is.
        (Limit(1024, 4096), Limit(2048, 4096), Limit(1024, 4096)),
        # Raised by Go; children get the unit's.
        (Limit(524288, 524288), Limit(1024, 524288), Limit(1024, 524288)),
        (Limit(20000, 20000), Limit(1024, UNLIMITED), Limit(1024, 20000)),
        # Nothing to raise.
        (Limit(1048576, 1048576), Limit(1048576, 1048576), Limit(1048576, 1048576)),
        (Limit(20000, 20000), Limit(UNLIMITED, UNLIMITED), Limit(20000, 20000)),
        # No unit that would tell.
        (Limit(20000, 20000), UNKNOWN, Limit(20000, 20000)),
        # The unit was changed since the daemon was started.
        (Limit(4096, 4096), Limit(1024, 524288), Limit(None, 4096)),
        (UNKNOWN, UNKNOWN, UNKNOWN),
    ],
)
def test_handed_on(process: Limit, unit: Limit, limit: Limit) -> None:
    assert container_limits.handed_on(process, unit) == limit


@pytest.mark.parametrize(
    ("argv", "path", "flags"),
    [
        ([], "/etc/docker/daemon.json", []),
        (["/usr/bin/dockerd", "-H", "fd://"], "/etc/docker/daemon.json", ["-H", "fd://"]),
        (["dockerd", "--config-file", "/a", "--debug"], "/a", ["--debug"]),
        (["dockerd", "-D", "--config-file=/a", "--icc=false"], "/a", ["-D", "--icc=false"]),
        (["dockerd", "--config-file=/a", "--validate"], "/a", []),
    ],
)
def test_arguments_of_dockerd(argv: list[str], path: str, flags: list[str]) -> None:
    assert container_limits.config_file(argv) == path
    assert container_limits.flags(argv) == flags


@pytest.mark.parametrize(
    ("settings", "argv", "limits"),
    [
        ({}, [], {}),
        ({"default-ulimits": "nofile"}, [], {}),
        ({"default-ulimits": {"nofile": 1, "memlock": {"Soft": "x"}}}, [], {}),
        (
            {"default-ulimits": {"nofile": {"Name": "nofile", "Hard": 64000, "Soft": 32000}}},
            [],
            {"nofile": Limit(32000, 64000)},
        ),
        ({"default-ulimits": {"a": {"name": "memlock", "hard": -1, "SOFT": -1}}}, [], {"memlock": Limit(-1, -1)}),
        ({"default-ulimits": {"nofile": {"Hard": 64000}}}, [], {"nofile": Limit(0, 64000)}),
        (
            {},
            ["dockerd", "--default-ulimit", "nofile=32768:65536", "--default-ulimit=memlock=-1"],
            {"nofile": Limit(32768, 65536), "memlock": Limit(-1, -1)},
        ),
    ],
)
def test_default_ulimits(settings: dict[str, Any], argv: list[str], limits: dict[str, Limit]) -> None:
    assert container_limits.default_ulimits(settings, argv) == limits


@pytest.mark.parametrize(
    ("process", "defaults", "limits"),
    [
        ({}, {}, (None, None, None)),
        ({"nofile": Limit(5, 5), "memlock": Limit(7, UNLIMITED)}, {}, (1, 5, 7)),
        (
            {"nofile": Limit(5, 5), "memlock": Limit(7, 7)},
            {"nofile": Limit(3, 4), "memlock": Limit(-1, -1)},
            (3, 4, -1),
        ),
    ],
)
def test_container_limits(
    process: dict[str, Limit], defaults: dict[str, Limit], limits: tuple[int | None, int | None, int | None]
) -> None:
    # Go leaves the limit of locked memory alone, so what the unit says of it does not matter.
    unit = {"nofile": Limit(1, 5), "memlock": Limit(1, 7)}
    found = container_limits.container_limits(process, unit, defaults)
    assert (found["nofile"], found["nofile_hard"], found["memlock"]) == limits
