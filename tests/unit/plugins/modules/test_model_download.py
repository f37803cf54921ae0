# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With a stand-in for `hf` that leaves what the real one leaves: files, and a note of each below .cache."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules.model_download import main

COMMIT = "5ede1c97bbab6ce5cda5812749b4c0bdf79b18dd"
FILES = {"config.json": b"{}\n", "model.safetensors": b"weights", "original/x.bin": b"more"}
SECRET = "hf-secret-token"


def git(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Hub:
    """What the stand-in fetches; it counts how often it was called."""

    def __init__(self, folder: Path) -> None:
        self.place, self.calls, self.source = folder / "bundle/x", folder / "calls", folder / "source"
        self.place.parent.mkdir()
        for name, content in FILES.items():
            etag = hashlib.sha256(content).hexdigest() if name == "model.safetensors" else git(content)
            self.put(name, content)
            self.put(f".cache/huggingface/download/{name}.metadata", f"{COMMIT}\n{etag}\n1700000000.0\n".encode())
        self.command = folder / "hf"
        self.says("exit 0")

    def put(self, name: str, content: bytes) -> None:
        (self.source / name).parent.mkdir(parents=True, exist_ok=True)
        (self.source / name).write_bytes(content)

    def says(self, last: str) -> None:
        """Let the stand-in end with these words of a shell."""
        lines = ["#!/bin/sh", f'echo "$*" >> {self.calls}', 'for word; do case "$word" in --local-dir=*)']
        lines += ["part=${word#--local-dir=};; esac; done", 'mkdir -p "$part"']
        self.command.write_text("\n".join([*lines, f'cp -r {self.source}/. "$part"', last]) + "\n")
        self.command.chmod(0o755)

    @property
    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    return Hub(tmp_path)


def run(capsys: pytest.CaptureFixture[str], fake: Hub, **more: Any) -> dict[str, Any]:
    given = {"repository": "acme/x", "revision": "v1", "path": str(fake.place), "command": str(fake.command), **more}
    with patch_module_args(given), pytest.raises(SystemExit):
        main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_fetched_once(capsys: pytest.CaptureFixture[str], fake: Hub) -> None:
    result = run(capsys, fake)
    assert (result["changed"], result["commit"], result["path"]) == (True, COMMIT, str(fake.place))
    assert {name: (fake.place / name).read_bytes() for name in FILES} == FILES
    assert sorted(path.name for path in fake.place.iterdir()) == [".hub.json", *sorted(FILES)[:2], "original"]
    assert fake.called == [f"download acme/x --revision=v1 --local-dir={fake.place}.fetching"]
    again = run(capsys, fake)
    assert (again["changed"], again["commit"], len(fake.called)) == (False, COMMIT, 1)


def test_another_revision_replaces_it(capsys: pytest.CaptureFixture[str], fake: Hub) -> None:
    run(capsys, fake)
    (fake.place / "old.json").write_text("{}")
    assert run(capsys, fake, revision=COMMIT)["changed"] is True
    assert (len(fake.called), (fake.place / "old.json").exists()) == (2, False)


def test_check_mode(capsys: pytest.CaptureFixture[str], fake: Hub) -> None:
    result = run(capsys, fake, _ansible_check_mode=True)
    assert (result["changed"], result["commit"], fake.called, fake.place.exists()) == (True, None, [], False)


def test_a_wrong_file_gets_no_name(capsys: pytest.CaptureFixture[str], fake: Hub) -> None:
    run(capsys, fake)
    fake.put("model.safetensors", b"WEIGHTS")
    result = run(capsys, fake, revision="v2")
    assert result["msg"] == (
        f"repository = acme/x, revision = v2: what arrived in {fake.place}.fetching is not what the hub said: "
        "model.safetensors: has another content than the hub said. Remove that folder and run the same again"
    )
    # The one before stays.
    assert (fake.place / "model.safetensors").read_bytes() == b"weights"


def test_hf_fails_and_is_run_again(capsys: pytest.CaptureFixture[str], fake: Hub) -> None:
    fake.says('echo "Error: \033[31mno\033[0m access with $HF_TOKEN" >&2; exit 1')
    result = run(capsys, fake)
    assert result["msg"].startswith("repository = acme/x, revision = v1: hf ended with exit status 1: Error: no access")
    assert SECRET not in json.dumps(result)
    assert not fake.place.exists()
    fake.says("exit 0")
    assert run(capsys, fake)["changed"] is True


def test_without_hf(capsys: pytest.CaptureFixture[str], fake: Hub) -> None:
    result = run(capsys, fake, command="no-such-hf")
    assert result["msg"] == (
        "command = no-such-hf: there is no such command, and acme/x is to be fetched with it. Run 'pip install "
        "huggingface_hub' (0.34 or newer), or name the command's path"
    )


def test_a_branch_is_refused(capsys: pytest.CaptureFixture[str], fake: Hub) -> None:
    assert "a branch moves" in run(capsys, fake, revision="main")["msg"]
    assert fake.called == []
