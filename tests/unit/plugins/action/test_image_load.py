# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.tandem.vllm.plugins.action import image_load
from ansible_collections.tandem.vllm.plugins.module_utils import image_transfer
from ansible_collections.tandem.vllm.plugins.plugin_utils import pieces, progress

REF = "sha256:" + "ab" * 32
MISSING: dict[str, Any] = {"image_id": None, "changed": False}
THERE: dict[str, Any] = {"image_id": REF, "changed": False}
FOLDER = image_transfer.folder(REF)
REMOVED = f"rm -rf '{FOLDER}'"
SENT_ON = ("pieces", "decompress", "anew")
COUNTED = image_transfer.count_command(FOLDER, 3)
# The archive of these tests, in pieces of four bytes.
CONTENT = b"abcdefghi"
PARTS = {f"00{index}": CONTENT[start : start + 4] for index, start in enumerate((0, 4, 8))}
ZSTD_HEAD = bytes.fromhex("28b52ffd240a510000000000000000000000")
ROOMY = {"free_mib": 40960, "total_mib": 50000}


def held(**given: bytes) -> dict[str, dict[str, Any]]:
    """What a host says of pieces it has."""
    found = {name[1:]: data for name, data in given.items()}
    return {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in found.items()}


def ready(**given: Any) -> dict[str, Any]:
    """The module's answer at prepare."""
    disks = {"folder": {"path": "/var/tmp", **ROOMY}, "root": {"path": "/var/lib/docker", "free_mib": 1, **ROOMY}}  # noqa: S108
    disks["root"]["total_mib"] = 60000
    answer = {"loading": False, "folder": FOLDER, "python": "/usr/bin/python3", "zstd": None, "disks": disks}
    return {**MISSING, **answer, "held": {}, "archive": None, **given}


def loading(percent: int) -> dict[str, Any]:
    return {**MISSING, "running": True, "percent": percent}


DONE = {**THERE, "running": False, "percent": 100}


class Run:
    """One run of the action. The module answers `look`, when it is asked to prepare `ready` if that is given, `start`,
    and one of `polls` after the other.

    sent: pieces by name, as the host got them; receives: what it says to a piece. clock: seconds a piece takes.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        look: dict[str, Any],
        ready: dict[str, Any] | None = None,
        start: dict[str, Any] | None = None,
        polls: list[dict[str, Any]] | None = None,
        archive: str | None = None,
        check_mode: bool = False,
        receives: dict[str, Any] | None = None,
        zstd: str | None = None,
        pipelining: bool = True,
        clock: float = 0.0,
        **arguments: Any,
    ) -> None:
        self.shown: list[str] = []
        self.steps: list[str] = []
        self.started: list[dict[str, Any]] = []
        self.commands: list[str] = []
        self.sent: dict[str, bytes] = {}
        self.now, self._clock = 7.0, clock
        self._receives = receives or {"rc": 0, "stdout": "", "stderr": ""}
        connection = MagicMock(has_pipelining=pipelining)
        connection._shell.quote.side_effect = lambda path: f"'{path}'"
        display = MagicMock()
        display.display.side_effect = self.shown.append
        for module in (image_load, progress):
            monkeypatch.setattr(module, "Display", lambda: display)
            monkeypatch.setattr(module, "time", MagicMock(**{"monotonic.side_effect": lambda: self.now}))
        monkeypatch.setattr(image_transfer, "PIECE_SIZE", 4)
        monkeypatch.setattr(image_load.shutil, "which", {"zstd": zstd}.get)
        given = {"ref": REF, **({"archive": archive} if archive else {}), **arguments}
        task = MagicMock(action="tandem.vllm.image_load", args=given, async_val=0, check_mode=check_mode)
        loader = DataLoader()
        answers = {"look": look, "prepare": look if ready is None else ready, "start": start}
        to_poll = iter(polls or [])
        action = image_load.ActionModule(task, connection, MagicMock(), loader, Templar(loader), MagicMock())

        def execute(name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            assert (name, module_args["ref"]) == ("tandem.vllm.image_load", REF)
            step = module_args["step"]
            self.steps.append(step)
            if step == "start":
                self.started.append({key: module_args[key] for key in SENT_ON if key in module_args})
            answer = next(to_poll) if step == "poll" else answers[step]
            assert answer is not None
            return dict(answer)

        monkeypatch.setattr(action, "_execute_module", execute)
        monkeypatch.setattr(action, "_low_level_execute_command", self._command)
        try:
            self.result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "node1"})
        except AnsibleConnectionFailure:
            self.result = {"unreachable": True}

    def _command(self, command: str, in_data: bytes | None = None) -> dict[str, Any]:
        if in_data is None:
            self.commands.append(command)
            return {}
        self.now += self._clock
        if self._receives.get("lost_after") == len(self.sent):
            raise AnsibleConnectionFailure("gone")
        argv = shlex.split(command)
        name = argv[4].rpartition("/")[2]
        sha256 = hashlib.sha256(in_data).hexdigest()
        assert argv == image_transfer.receive_command("/usr/bin/python3", FOLDER, int(name), len(in_data), sha256)
        self.sent[name] = in_data
        return {"rc": 0, **self._receives}


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = tmp_path / "vllm.tar"
    path.write_bytes(CONTENT)
    return str(path)


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(("usable", "step"), [(False, "look"), (True, "prepare")])
def test_an_image_that_is_there(
    monkeypatch: pytest.MonkeyPatch, archive: str, usable: bool, step: str, check_mode: bool
) -> None:
    run = Run(monkeypatch, THERE, archive=archive if usable else "/no/such/file", check_mode=check_mode)
    assert (run.result, run.steps, run.shown, run.sent) == (THERE, [step], [], {})


def test_a_look_that_fails(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    run = Run(monkeypatch, {"failed": True, "msg": "no docker"}, archive=archive)
    assert (run.result, run.steps) == ({"failed": True, "msg": "no docker"}, ["prepare"])


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(("path", "shared"), [(None, False), ("/no/such/file", False), (None, True)])
def test_no_archive(monkeypatch: pytest.MonkeyPatch, path: str | None, shared: bool, check_mode: bool) -> None:
    run = Run(monkeypatch, MISSING, archive=path, shared=shared, check_mode=check_mode)
    assert run.result == {"failed": True, "msg": f"node1 has no image {REF}, and there is no archive ({path})"}
    assert run.steps == ["look"]


@pytest.mark.parametrize("loads", [False, True])
def test_check_mode_only_tells(monkeypatch: pytest.MonkeyPatch, archive: str, loads: bool) -> None:
    run = Run(monkeypatch, MISSING, ready(loading=loads), archive=archive, check_mode=True)
    assert (run.result, run.steps) == ({"changed": True}, ["prepare"])
    assert (run.sent, run.commands, run.shown) == ({}, [], [])


def test_load(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    run = Run(monkeypatch, MISSING, ready(), MISSING, [loading(0), loading(50), loading(100), DONE], archive)
    assert run.result == {**DONE, "changed": True}
    # The first start is for the pieces that are to come; the second sees that it goes on.
    assert run.steps == ["prepare", "start", "start"] + ["poll"] * 4
    whole = {"pieces": 3, "decompress": False, "anew": False}
    assert (run.sent, run.started) == (PARTS, [{"pieces": 0, "decompress": False}, whole])
    assert run.commands == [COUNTED, REMOVED]
    assert run.shown == [
        "node1: sending the image archive, 0.0 GiB",
        "node1: sent 0 of 0 MiB, 44 %, 0 MiB/s (0 s)",
        "node1: sent 0 of 0 MiB, 88 %, 0 MiB/s (0 s)",
        "node1: sent 0 of 0 MiB, 100 %, 0 MiB/s (0 s)",
        "node1: sent in 0 s, loading",
        "node1: reading the image archive, 0 % (0 s)",
        "node1: reading the image archive, 50 % (0 s)",
        "node1: unpacking the image (0 s)",
        "node1: image loaded (0 s)",
    ]


RESUMES: list[Any] = [
    pytest.param(held(_000=b"abcd"), ["001", "002"], "1 of 3", False, id="the first is there"),
    pytest.param(held(_001=b"efgh", _002=b"i"), ["000"], "2 of 3", False, id="the first is lost"),
    pytest.param(held(_000=b"abcd", _001=b"efgh", _002=b"i"), [], "3 of 3", False, id="all are there"),
    pytest.param(held(_000=b"abcd", _001=b"efgx"), ["001", "002"], "1 of 3", True, id="a bit flipped"),
    pytest.param(held(_000=b"abcd", _001=b"ef"), ["001", "002"], "1 of 3", True, id="cut off"),
    pytest.param(held(_003=b"abcd"), ["000", "001", "002"], None, False, id="of another archive"),
]


@pytest.mark.parametrize(("there", "sent", "words", "anew"), RESUMES)
def test_what_is_there_is_not_sent_again(
    monkeypatch: pytest.MonkeyPatch, archive: str, there: dict[str, Any], sent: list[str], words: str | None, anew: bool
) -> None:
    run = Run(monkeypatch, MISSING, ready(held=there), MISSING, [DONE], archive)
    assert run.result["changed"] is True
    assert run.sent == {name: PARTS[name] for name in sent}
    # Docker is fed when it is known that all are right; and what may have been fed with a wrong one begins anew.
    assert run.started == [{"pieces": 3, "decompress": False, "anew": anew}]
    known = f"; {words} pieces were there already" if words else ""
    assert f"node1: sent in 0 s{known}, loading" in run.shown


def test_a_load_that_is_going_on_is_waited_for(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    run = Run(monkeypatch, MISSING, {**MISSING, "loading": True}, None, [loading(100), DONE], archive)
    assert (run.result["changed"], run.sent, run.commands) == (True, {}, [REMOVED])
    assert run.steps == ["prepare", "poll", "poll"]


def test_a_connection_that_breaks_leaves_the_pieces(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    run = Run(monkeypatch, MISSING, ready(), MISSING, archive=archive, receives={"lost_after": 2})
    assert (run.result, list(run.sent), run.commands) == ({"unreachable": True}, ["000", "001"], [])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            {"rc": 1, "stdout": "", "stderr": "Hello\n000.part cannot be written: No space left on device\n"},
            "000.part cannot be written: No space left on device",
        ),
        ({"rc": 1, "stdout": "sudo: a password is required\n", "stderr": ""}, "sudo: a password is required"),
        ({"rc": 127, "stdout": "", "stderr": ""}, "the host's Python ended with exit status 127"),
    ],
)
def test_a_piece_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, archive: str, answer: dict[str, Any], reason: str
) -> None:
    run = Run(monkeypatch, MISSING, ready(), MISSING, archive=archive, receives=answer)
    assert run.result == {"failed": True, "changed": False, "msg": f"node1: image archive {archive}: {reason}"}
    assert (run.steps, run.commands) == (["prepare", "start", "look"], [])


def test_another_run_brought_the_image_meanwhile(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    gone = {"rc": 1, "stdout": "", "stderr": "000 cannot be written: No such file or directory\n"}
    run = Run(monkeypatch, THERE, ready(), MISSING, archive=archive, receives=gone)
    assert (run.result, run.steps) == ({**THERE, "changed": True}, ["prepare", "start", "look"])


def test_progress_on_a_slow_line(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    monkeypatch.setattr(image_load.os.path, "getsize", lambda _path: 2**30)
    monkeypatch.setattr(pieces, "read", lambda *_given: (pieces.Piece(index, b"x" * 2**20, "") for index in range(4)))
    monkeypatch.setattr(image_transfer, "receive_command", lambda *_given: ["a", "b", "c", "d", f"{FOLDER}/0"])
    run = Run(monkeypatch, MISSING, ready(), MISSING, archive=archive, clock=8.0)
    assert run.shown[1:] == [
        "node1: sent 2 of 1024 MiB, 0 %, 0 MiB/s (16 s)",
        "node1: sent 4 of 1024 MiB, 0 %, 0 MiB/s (32 s)",
    ]
    # And what was read is not what the file was.
    assert run.result["msg"].endswith("it changed while it was read: 1073741824 bytes before, 4194304 after")
    assert (run.steps, run.commands) == (["prepare", "start", "look"], [])


def test_a_worker_that_outlives_its_playbook(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    parents = iter([7, 7, 1])
    monkeypatch.setattr(image_load.os, "getppid", lambda: next(parents))
    run = Run(monkeypatch, MISSING, ready(), MISSING, archive=archive)
    assert run.result["msg"].endswith("the playbook was ended")
    assert (list(run.sent), run.commands) == (["000"], [])


@pytest.fixture
def compressed(tmp_path: Path) -> str:
    """The head of an archive that tells ten bytes of content."""
    path = tmp_path / "vllm.tar.zst"
    path.write_bytes(ZSTD_HEAD)
    return str(path)


def test_the_host_decompresses(monkeypatch: pytest.MonkeyPatch, compressed: str) -> None:
    found = ready(zstd="/usr/bin/zstd")
    run = Run(monkeypatch, MISSING, found, MISSING, [DONE], compressed, zstd="/usr/bin/zstd")
    assert b"".join(run.sent.values()) == ZSTD_HEAD
    assert [(start["pieces"], start["decompress"]) for start in run.started] == [(0, True), (5, True)]


def test_the_control_node_decompresses(monkeypatch: pytest.MonkeyPatch, compressed: str) -> None:
    read: list[Any] = []

    def from_zstd(*given: Any) -> Iterator[pieces.Piece]:
        read.append(given)
        for index, data in enumerate(PARTS.values()):
            yield pieces.Piece(index, data, hashlib.sha256(data).hexdigest())

    monkeypatch.setattr(pieces, "read", from_zstd)
    run = Run(monkeypatch, MISSING, ready(), MISSING, [DONE], compressed, zstd="/usr/bin/zstd")
    assert read == [(compressed, "/usr/bin/zstd", 4)]
    assert run.sent == PARTS
    assert [(start["pieces"], start["decompress"]) for start in run.started] == [(0, False), (3, False)]
    # Of the ten bytes that the archive tells.
    assert "node1: sent 0 of 0 MiB, 40 %, 0 MiB/s (0 s)" in run.shown


@pytest.mark.parametrize("check_mode", [False, True])
def test_nobody_decompresses(monkeypatch: pytest.MonkeyPatch, compressed: str, check_mode: bool) -> None:
    run = Run(monkeypatch, MISSING, ready(), archive=compressed, check_mode=check_mode)
    assert run.result == {
        "failed": True,
        "changed": False,
        "msg": image_transfer.no_zstd("node1", compressed, shared=False),
    }


@pytest.mark.parametrize("check_mode", [False, True])
def test_no_room(monkeypatch: pytest.MonkeyPatch, archive: str, check_mode: bool) -> None:
    found = ready()
    found["disks"]["root"]["free_mib"] = 0
    run = Run(monkeypatch, MISSING, found, archive=archive, check_mode=check_mode)
    assert run.result["msg"] == (
        "node1: the image needs 0.0 GiB in /var/lib/docker, where 0.0 GiB are free. "
        "Make room there, for example with 'docker image prune' on the host"
    )
    assert (run.result["changed"], run.sent) == (False, {})


@pytest.mark.parametrize("given", [True, "yes"])
def test_a_shared_archive(monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    facts = {"size": 9, "compression": "zstd", "tar_size": None}
    found = ready(archive=facts, zstd="/usr/bin/zstd")
    # No room for pieces is needed.
    found["disks"]["folder"]["free_mib"] = 0
    run = Run(monkeypatch, MISSING, found, MISSING, [loading(7), DONE], "/on/the/host.tar.zst", shared=given)
    assert (run.result, run.sent) == ({**DONE, "changed": True}, {})
    assert run.started == [{"pieces": 0, "decompress": True}]
    # The folder holds the program that fed Docker.
    assert run.commands == [REMOVED]
    assert run.shown == ["node1: reading the image archive, 7 % (0 s)", "node1: image loaded (0 s)"]


def test_a_connection_that_cannot_feed(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    run = Run(monkeypatch, MISSING, ready(), MISSING, archive=archive, pipelining=False)
    assert run.result["msg"].endswith("this connection cannot feed a command with data. Use ansible.builtin.ssh")


FAILURES: list[Any] = [
    pytest.param(
        [{**DONE, "image_id": None}],
        {},
        f"the archive was loaded, but it does not hold {REF}",
        True,
        id="another image",
    ),
    pytest.param(
        [loading(0), {**MISSING, "running": False, "percent": 0, "error": "unexpected EOF"}],
        {},
        "unexpected EOF",
        True,
        id="load error",
    ),
    # What goes on is waited for by the next run, which needs the pieces if it is wanted again.
    pytest.param([loading(7)], {"timeout": 0}, "nothing after 0 s, limit is 0 s", False, id="time over"),
    pytest.param([{"failed": True, "msg": "gone"}], {}, "gone", False, id="poll fails"),
]


@pytest.mark.parametrize(("polls", "arguments", "reason", "removed"), FAILURES)
def test_a_load_that_fails(
    monkeypatch: pytest.MonkeyPatch,
    archive: str,
    polls: list[dict[str, Any]],
    arguments: dict[str, Any],
    reason: str,
    removed: bool,
) -> None:
    run = Run(monkeypatch, MISSING, ready(), MISSING, polls, archive, **arguments)
    assert run.result == {"failed": True, "changed": False, "msg": f"node1: image archive {archive}: {reason}"}
    assert run.commands == [COUNTED, *([REMOVED] if removed else [])]


def test_the_image_comes_while_it_is_sent(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    run = Run(monkeypatch, MISSING, ready(held=held(_000=b"abcd")), THERE, archive=archive)
    assert (run.result, run.steps) == ({**THERE, "changed": True}, ["prepare", "start"])


def test_a_start_that_fails(monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    failed = {"failed": True, "msg": "no systemd-run"}
    run = Run(monkeypatch, MISSING, ready(), failed, archive=archive)
    assert run.result == {"failed": True, "msg": "no systemd-run", "changed": False}
    assert run.commands == []
