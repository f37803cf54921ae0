# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules import docker_daemon_config
from ansible_collections.tandem.vllm.plugins.modules.docker_daemon_config import main

USERS = """\
{
  "log-driver": "local",
  "runtimes": {
    "runsc": {
      "path": "/usr/local/bin/runsc"
    }
  },
  "features": {
    "buildkit": true
  }
}"""
WANTED: dict[str, Any] = {"features": {"cdi": True}, "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}
MERGED = """\
{
  "log-driver": "local",
  "runtimes": {
    "runsc": {
      "path": "/usr/local/bin/runsc"
    },
    "nvidia": {
      "path": "nvidia-container-runtime"
    }
  },
  "features": {
    "buildkit": true,
    "cdi": true
  }
}
"""
NEW = """\
{
    "features": {
        "cdi": true
    },
    "runtimes": {
        "nvidia": {
            "path": "nvidia-container-runtime"
        }
    }
}
"""
OLD_DOCKER = (125, "", "unknown flag: --validate\nSee 'dockerd --help'.\n")
MODES = pytest.mark.parametrize("check", [False, True])


class Fake:
    """A daemon.json and a dockerd. answer: what `dockerd --validate` says; None where there is no dockerd."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = folder / "docker/daemon.json"
        self.answer: tuple[int, str, str] | None = (0, "", "configuration OK\n")
        self.tried: list[str] = []
        self.capsys = capsys
        monkeypatch.setattr(AnsibleModule, "run_command", lambda _module, argv, **_more: self.run(argv))
        monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _module, name, *_more: self.program(name))

    def program(self, name: str) -> str | None:
        # Ansible itself looks for lsattr and others.
        return "/usr/bin/dockerd" if name == "dockerd" and self.answer else None

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        assert argv[:3] == ["/usr/bin/dockerd", "--validate", "--config-file"]
        assert self.answer is not None
        self.tried.append(Path(argv[3]).read_text())
        status, out, err = self.answer
        return status, out, err.replace("STAGED", argv[3])

    def write(self, text: str | bytes) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def call(self, check: bool = False, **arguments: Any) -> dict[str, Any]:
        args = {"path": str(self.path), "_ansible_check_mode": check, "_ansible_diff": True, **arguments}
        args.setdefault("settings", WANTED)
        with patch_module_args(args), pytest.raises(SystemExit):
            main()
        result: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return result

    def files(self) -> list[str]:
        return sorted(os.listdir(self.path.parent)) if self.path.parent.exists() else []


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fake:
    return Fake(tmp_path, monkeypatch, capsys)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_merge_keeps_what_the_user_has(fake: Fake) -> None:
    fake.write(USERS)
    fake.path.chmod(0o640)
    result = fake.call()
    assert (result["changed"], result["validated"], result["path"]) == (True, True, str(fake.path))
    assert result["settings"] == json.loads(MERGED)
    assert (fake.path.read_text(), mode(fake.path)) == (MERGED, 0o640)
    assert fake.tried == [MERGED]
    backup = Path(result["backup_file"])
    assert backup.read_text() == USERS
    assert re.fullmatch(r"daemon\.json\..+~", backup.name)
    assert fake.files() == ["daemon.json", backup.name]


@MODES
def test_second_run_changes_nothing(fake: Fake, check: bool) -> None:
    fake.write(USERS)
    fake.call(backup=False)
    result = fake.call(check)
    assert (result["changed"], result["validated"], "diff" in result) == (False, False, False)
    assert "backup_file" not in result
    assert result["settings"] == json.loads(MERGED)
    # dockerd is not asked when there is nothing to replace.
    assert len(fake.tried) == 1
    assert fake.files() == ["daemon.json"]


def test_another_layout_is_no_change(fake: Fake) -> None:
    text = '{"runtimes":{"nvidia":{"path":"nvidia-container-runtime"}}, "features": {"cdi":true}}'
    fake.write(text)
    assert not fake.call()["changed"]
    assert fake.path.read_text() == text


def test_check_mode_tells_the_same_and_writes_nothing(fake: Fake) -> None:
    fake.write(USERS)
    checked = fake.call(check=True)
    assert (fake.path.read_text(), fake.files(), fake.tried) == (USERS, ["daemon.json"], [MERGED])
    assert "backup_file" not in checked
    done = fake.call()
    for key in ("changed", "diff", "settings", "validated", "path"):
        assert done[key] == checked[key]
    assert done["diff"] == {
        "before_header": str(fake.path),
        "after_header": str(fake.path),
        "before": USERS,
        "after": MERGED,
    }


@pytest.mark.parametrize("before", [None, "", "\n", "{}"])
def test_nothing_there_yet(fake: Fake, before: str | None) -> None:
    if before is not None:
        fake.write(before)
    umask = os.umask(0o077)
    try:
        checked, done = fake.call(check=True), fake.call(backup=False)
    finally:
        os.umask(umask)
    assert (checked["changed"], checked["diff"]["before"], checked["diff"]) == (True, before or "", done["diff"])
    assert (fake.path.read_text(), fake.files()) == (NEW, ["daemon.json"])
    if before is None:
        assert mode(fake.path) == 0o644


def test_a_new_file_has_no_backup(fake: Fake) -> None:
    assert "backup_file" not in fake.call()
    assert fake.files() == ["daemon.json"]


def test_no_settings_make_no_file(fake: Fake) -> None:
    result = fake.call(settings={})
    assert (result["changed"], result["settings"], fake.path.exists()) == (False, {}, False)


def test_a_link_is_followed(fake: Fake, tmp_path: Path) -> None:
    fake.write("{}")
    link = tmp_path / "link.json"
    link.symlink_to(fake.path)
    assert fake.call(path=str(link), backup=False)["path"] == str(link)
    assert (link.is_symlink(), fake.path.read_text()) == (True, NEW)


@MODES
@pytest.mark.parametrize("answer", [None, OLD_DOCKER])
def test_not_validated(fake: Fake, answer: tuple[int, str, str] | None, check: bool) -> None:
    fake.answer = answer
    result = fake.call(check)
    assert (result["changed"], result["validated"], fake.path.exists()) == (True, False, not check)


def refused(fake: Fake, check: bool, before: bytes, **arguments: Any) -> str:
    """The message of a call that must fail and leave everything as it was."""
    fake.write(before)
    result = fake.call(check, **arguments)
    assert (result["failed"], result["changed"], fake.path.read_bytes()) == (True, False, before)
    assert fake.files() == ["daemon.json"]
    return str(result["msg"])


@MODES
def test_dockerd_refuses(fake: Fake, check: bool) -> None:
    fake.answer = (1, "", "unable to configure the Docker daemon with file STAGED: unknown: bogus\n")
    assert refused(fake, check, b"{}") == (
        f"dockerd refuses the merged {fake.path}, so it was left as it is: unable to configure the Docker daemon with "
        f"file {fake.path}: unknown: bogus"
    )


@MODES
@pytest.mark.parametrize(
    ("before", "said"),
    [
        (b'{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: Expecting ',' delimiter"),
        (b'{\n  "a": 1 // mine\n}', "line 2, column 10: JSON has no comments; take this one out"),
        (b"[]", "its top level is a list, and must be an object in braces"),
        (b'{"a": 1, "a": 2}', "written more than once: a; keep one of each"),
        (b'{"a": "\xe9"}', "line 1: not UTF-8 (byte 0xe9)"),
    ],
)
def test_no_valid_file(fake: Fake, check: bool, before: bytes, said: str) -> None:
    assert refused(fake, check, before) == (
        f"{fake.path} is no valid daemon.json, so it was left as it is: {said}. Correct the file, then run again"
    )


@MODES
def test_one_conflict(fake: Fake, check: bool) -> None:
    before = b'{"features": {"cdi": false}}'
    assert refused(fake, check, before) == (
        f"{fake.path} has settings that differ from those wanted, so it was left as it is: "
        "features.cdi = false: wanted is true. Change it in the file yourself, or leave it out of settings."
    )
    assert fake.tried == []


def test_all_conflicts(fake: Fake) -> None:
    before = b'{"features": {"cdi": false}, "runtimes": {"nvidia": {"path": "/opt/runtime"}}}'
    assert refused(fake, False, before).splitlines() == [
        f"{fake.path} has settings that differ from those wanted, so it was left as it is:",
        "- features.cdi = false: wanted is true. Change it in the file yourself, or leave it out of settings.",
        '- runtimes.nvidia.path = "/opt/runtime": wanted is "nvidia-container-runtime". '
        "Change it in the file yourself, or leave it out of settings.",
    ]


def test_secrets_are_in_no_output(fake: Fake) -> None:
    fake.write('{"log-opts": {"splunk-token": "s3cret"}, "proxies": {"http-proxy": "http://me:s3cret@proxy"}}')
    result = fake.call()
    assert result["changed"]
    assert "s3cret" not in json.dumps(result)
    assert fake.path.read_text().count("s3cret") == 2


def test_a_folder_in_its_place(fake: Fake) -> None:
    fake.path.mkdir(parents=True)
    result = fake.call()
    assert (result["failed"], result["msg"]) == (True, f"{fake.path} cannot be read: Is a directory")


def test_a_folder_that_cannot_be_made(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_more: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(docker_daemon_config.os, "makedirs", refuse)
    # Ansible's own folder for temporary files is made the same way.
    monkeypatch.setattr(AnsibleModule, "tmpdir", str(fake.path.parent.parent))
    result = fake.call()
    assert (result["failed"], result["changed"]) == (True, False)
    assert result["msg"] == f"{fake.path} cannot be written: Read-only file system"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "missing required arguments: settings"),
        ({"settings": ["x"]}, "argument 'settings' is of type list and we were unable to convert to dict"),
    ],
)
def test_arguments(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any], said: str) -> None:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        main()
    assert said in json.loads(capsys.readouterr().out)["msg"]
