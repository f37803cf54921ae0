# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.host.image_store import StoreError
from ansible_collections.tandem.vllm.plugins.modules import image_load

REF = "vllm:1"
SHA256 = "ab" * 32
LOOK = ["docker", "image", "inspect", "--format", "{{.Id}}", REF]


class Store:
    """Stands in for ImageStore; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.error: str | None = None
        self.on_poll: Callable[[], None] = lambda: None

    def __call__(self, _run: Any, ref: str) -> Store:
        assert ref == REF
        return self

    def _answer(self, *asked: Any, **answer: Any) -> dict[str, Any]:
        self.asked.append(asked)
        if self.error:
            raise StoreError(self.error)
        return answer

    def prepare(self, shared: str | None, zstd: str | None, python: str, write: bool) -> dict[str, Any]:
        return self._answer("prepare", shared, zstd, python, write, loading=True)

    def start(self, *given: Any) -> None:
        self._answer("start", *given)

    def poll(self, shared: str | None) -> dict[str, Any]:
        self.on_poll()
        return self._answer("poll", shared, running=False, percent=100)

    def clear(self) -> None:
        self._answer("clear")


class Host:
    """A host whose Docker answers with `image`; programs: those that it has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.store = Store()
        self.image: tuple[int, str, str] = (1, "", "no such image")
        self.programs = ["docker", "zstd"]

        def run_command(_self: Any, argv: Sequence[str]) -> tuple[int, str, str]:
            assert argv == LOOK
            return self.image

        def get_bin_path(module: AnsibleModule, name: str, required: bool = False) -> str | None:
            if name in self.programs:
                return "/usr/bin/" + name
            return module.fail_json(msg=f"no {name}") if required else None  # type: ignore[func-returns-value]

        monkeypatch.setattr(AnsibleModule, "run_command", run_command)
        monkeypatch.setattr(AnsibleModule, "get_bin_path", get_bin_path)
        monkeypatch.setattr(image_load, "ImageStore", self.store)

    def run(self, **arguments: Any) -> dict[str, Any]:
        with patch_module_args({"ref": REF, **arguments}), pytest.raises(SystemExit):
            image_load.main()
        answer: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        answer.pop("invocation", None)
        return answer


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Host:
    return Host(monkeypatch, capsys)


@pytest.mark.parametrize("check_mode", [False, True])
def test_prepare_where_the_image_is_there(host: Host, check_mode: bool) -> None:
    host.image = (0, "sha256:ab\n", "")
    answer = host.run(step="prepare", archive="/a.tar", _ansible_check_mode=check_mode)
    assert answer == {"changed": False, "image_id": "sha256:ab"}
    assert host.store.asked == ([] if check_mode else [("clear",)])


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(("answer", "image"), [((0, "sha256:ab\n", ""), "sha256:ab"), ((1, "", "no such"), None)])
def test_look(host: Host, answer: tuple[int, str, str], image: str | None, check_mode: bool) -> None:
    host.image = answer
    assert host.run(_ansible_check_mode=check_mode) == {"changed": False, "image_id": image}
    assert host.store.asked == ([("clear",)] if image and not check_mode else [])


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    ("arguments", "shared"), [({"archive": "/a.tar"}, None), ({"archive": "/a.tar", "shared": True}, "/a.tar")]
)
def test_prepare(host: Host, arguments: dict[str, Any], shared: str | None, check_mode: bool) -> None:
    answer = host.run(step="prepare", _ansible_check_mode=check_mode, **arguments)
    assert answer == {"changed": False, "image_id": None, "loading": True}
    assert host.store.asked == [("prepare", shared, "/usr/bin/zstd", sys.executable, not check_mode)]


def test_prepare_without_zstd(host: Host) -> None:
    host.programs.remove("zstd")
    host.run(step="prepare")
    assert host.store.asked[0][2] is None


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ({"pieces": 3}, (None, 3, sys.executable, "/usr/bin/docker", None, None, False)),
        (
            {"pieces": 3, "decompress": True, "checksum": SHA256, "anew": True},
            (None, 3, sys.executable, "/usr/bin/docker", "/usr/bin/zstd", SHA256, True),
        ),
        (
            {"shared": True, "archive": "/a.tar"},
            ("/a.tar", 0, sys.executable, "/usr/bin/docker", None, None, False),
        ),
    ],
)
def test_start(host: Host, arguments: dict[str, Any], asked: tuple[Any, ...]) -> None:
    assert host.run(step="start", **arguments) == {"changed": False, "image_id": None}
    assert host.store.asked == [("start", *asked)]


def test_start_where_the_image_has_come_meanwhile(host: Host) -> None:
    host.image = (0, "sha256:ab\n", "")
    assert host.run(step="start", pieces=3) == {"changed": False, "image_id": "sha256:ab"}
    assert host.store.asked == []


@pytest.mark.parametrize(("missing", "arguments"), [("docker", {}), ("zstd", {"decompress": True})])
def test_start_without_a_program(host: Host, missing: str, arguments: dict[str, Any]) -> None:
    host.programs.remove(missing)
    answer = host.run(step="start", **arguments)
    assert (answer["failed"], answer["msg"], host.store.asked) == (True, f"no {missing}", [])


def test_poll(host: Host) -> None:
    # The image appears after the first look at it, before that at the unit.
    host.store.on_poll = lambda: setattr(host, "image", (0, "sha256:ab\n", ""))
    answer = host.run(step="poll", archive="/a.tar")
    assert answer == {"changed": False, "image_id": "sha256:ab", "running": False, "percent": 100}
    assert host.store.asked == [("poll", None)]


@pytest.mark.parametrize("step", ["prepare", "start", "poll"])
def test_an_error(host: Host, step: str) -> None:
    host.store.error = "no bus"
    answer = host.run(step=step)
    assert (answer["failed"], answer["msg"]) == (True, "no bus")


@pytest.mark.parametrize("checksum", ["ab", "sha256:" + SHA256, SHA256.upper()])
def test_a_checksum_that_is_none(host: Host, checksum: str) -> None:
    answer = host.run(checksum=checksum)
    assert answer["msg"] == f"checksum is {checksum}: must be a SHA-256, 64 lower case hexadecimal digits"
