# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.tandem.vllm.plugins.action import image_load
from ansible_collections.tandem.vllm.plugins.module_utils.placement import fingerprint
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress

REF = "sha256:" + "ab" * 32
MISSING: dict[str, Any] = {"image_id": None, "changed": False}
THERE: dict[str, Any] = {"image_id": REF, "changed": False}
REMOTE = f"/var/tmp/tandem-image-{fingerprint(REF)}.tar"  # noqa: S108 - a path to be named, not used


def loading(percent: int) -> dict[str, Any]:
    return {**MISSING, "running": True, "percent": percent}


class Run:
    """One run of the action. answers: what the module says at look, at start, and at one poll after the other."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        look: dict[str, Any],
        start: dict[str, Any] | None = None,
        polls: list[dict[str, Any]] | None = None,
        archive: str | None = None,
        check_mode: bool = False,
        **arguments: Any,
    ) -> None:
        self.shown: list[str] = []
        self.steps: list[tuple[str, str | None]] = []
        self.removed: list[str] = []
        self.connection = MagicMock()
        self.connection._shell.quote.side_effect = lambda path: f"'{path}'"
        display = MagicMock()
        display.display.side_effect = self.shown.append
        for module in (image_load, progress):
            monkeypatch.setattr(module, "Display", lambda: display)
            monkeypatch.setattr(module, "time", MagicMock(**{"monotonic.return_value": 7.0}))
        given = {"ref": REF, **({"archive": archive} if archive else {}), **arguments}
        task = MagicMock(action="tandem.vllm.image_load", args=given, async_val=0, check_mode=check_mode)
        loader, answers = DataLoader(), {"start": iter([start]), "poll": iter(polls or [])}
        action = image_load.ActionModule(task, self.connection, MagicMock(), loader, Templar(loader), MagicMock())

        def execute(name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            assert (name, module_args["ref"]) == ("tandem.vllm.image_load", REF)
            step = module_args.get("step", "look")
            self.steps.append((step, module_args.get("path")))
            answer = look if step == "look" else next(answers[step])
            assert answer is not None
            return dict(answer)

        monkeypatch.setattr(action, "_execute_module", execute)
        monkeypatch.setattr(action, "_low_level_execute_command", self.removed.append)
        self.result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "node1"})


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = tmp_path / "vllm.tar"
    path.write_bytes(b"x")
    return str(path)


@pytest.mark.parametrize("check_mode", [False, True])
def test_an_image_that_is_there(monkeypatch: pytest.MonkeyPatch, check_mode: bool) -> None:
    run = Run(monkeypatch, THERE, archive="/no/such/file", check_mode=check_mode)
    assert (run.result, run.steps, run.shown) == (THERE, [("look", None)], [])
    assert not run.connection.put_file.called


def test_a_look_that_fails(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    run = Run(monkeypatch, {"failed": True, "msg": "no docker"}, archive=archive)
    assert (run.result, len(run.steps)) == ({"failed": True, "msg": "no docker"}, 1)


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("path", [None, "/no/such/file"])
def test_no_archive(monkeypatch: pytest.MonkeyPatch, path: str | None, check_mode: bool) -> None:
    run = Run(monkeypatch, MISSING, archive=path, check_mode=check_mode)
    assert run.result == {"failed": True, "msg": f"node1 has no image {REF}, and there is no archive ({path})"}
    assert not run.connection.put_file.called


def test_check_mode_only_tells(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    run = Run(monkeypatch, MISSING, archive=archive, check_mode=True)
    assert (run.result, run.steps) == ({"changed": True}, [("look", None)])
    assert (run.connection.put_file.called, run.removed) == (False, [])


def test_load(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    done = {**THERE, "running": False, "percent": 100}
    run = Run(monkeypatch, MISSING, MISSING, [loading(0), loading(50), loading(100), done], archive=archive)
    assert run.result == {**done, "changed": True}
    assert run.steps == [("look", None), ("start", REMOTE)] + [("poll", REMOTE)] * 4
    run.connection.put_file.assert_called_once_with(archive, REMOTE)
    assert run.removed == [f"rm -f '{REMOTE}'"]
    assert run.shown == [
        "node1: sending the image archive, 0.0 GiB",
        "node1: sent in 0 s, loading",
        "node1: reading the image archive, 0 % (0 s)",
        "node1: reading the image archive, 50 % (0 s)",
        "node1: unpacking the image (0 s)",
        "node1: image loaded (0 s)",
    ]


FAILURES: list[Any] = [
    pytest.param(
        MISSING,
        [{**MISSING, "running": False, "percent": 100}],
        {},
        f"the archive was loaded, but it does not hold {REF}",
        id="another image",
    ),
    pytest.param(
        MISSING,
        [loading(0), {**MISSING, "running": False, "error": "no space left on device"}],
        {},
        "no space left on device",
        id="load error",
    ),
    pytest.param(MISSING, [loading(7)], {"timeout": 0}, "nothing after 0 s, limit is 0 s", id="time over"),
    pytest.param(MISSING, [{"failed": True, "msg": "gone"}], {}, "gone", id="poll fails"),
]


@pytest.mark.parametrize(("start", "polls", "arguments", "reason"), FAILURES)
def test_a_load_that_fails(
    monkeypatch: pytest.MonkeyPatch,
    archive: str,
    start: dict[str, Any],
    polls: list[dict[str, Any]],
    arguments: dict[str, Any],
    reason: str,
) -> None:
    run = Run(monkeypatch, MISSING, start, polls, archive, **arguments)
    assert run.result == {
        "failed": True,
        "changed": False,
        "msg": f"node1: image archive {archive}: {reason}",
    }
    assert run.removed == [f"rm -f '{REMOTE}'"]


def test_a_start_that_fails(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    run = Run(monkeypatch, MISSING, {"failed": True, "msg": "no systemd-run"}, archive=archive)
    assert run.result == {"failed": True, "msg": "no systemd-run", "changed": False}
    assert run.removed == [f"rm -f '{REMOTE}'"]


def test_the_copy_goes_away_when_the_sending_breaks(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    removed: list[str] = []
    monkeypatch.setattr(image_load.ActionModule, "_remove", lambda _self, path: removed.append(path))
    monkeypatch.setattr(image_load.ActionModule, "_load", MagicMock(side_effect=OSError("broken pipe")))
    with pytest.raises(OSError, match="broken pipe"):
        Run(monkeypatch, MISSING, archive=archive)
    assert removed == [REMOTE]
