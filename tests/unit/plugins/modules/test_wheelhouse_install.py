# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules import wheelhouse_install
from ansible_collections.tandem.vllm.plugins.modules.wheelhouse_install import main

BASE, DERIVED = "sha256:" + "b" * 64, "sha256:" + "d" * 64
DIGEST = "63e3c5f1632b2f83"
TAG = "tandem/bbbbbbbbbbbb:ray2.59.0-63e3c5f1632b"
LABELS = {"tandem.base": BASE, "tandem.wheelhouse": DIGEST}


class Host:
    """Docker with two images at most, and a target that installs, or does not."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.derived: dict[str, Any] | None = None
        self.install = (0, "", "")
        self.imports: dict[str, str | None] = {"ray": None, "vllm": None}
        self.check: list[str] = ["a requires b."]
        self.config = {"Cmd": ["bash"], "Env": ["A=1"], "Labels": {"own": "1"}}
        self.made: dict[str, Any] = {}

    def image(self, image_id: str, tags: list[str], **config: Any) -> dict[str, Any]:
        return {"Id": image_id, "Size": 10, "RepoTags": tags, "Config": {**self.config, **config}}

    def build(self, *tags: str, **config: Any) -> None:
        labels = {**(self.config["Labels"] or {}), **LABELS}  # type: ignore[dict-item]
        self.derived = {**self.image(DERIVED, list(tags), **{"Labels": labels, **config}), "Size": 17}

    def run(self, argv: Sequence[str], **_options: Any) -> tuple[int, str, str]:
        argv = list(argv)[4:] if argv[0] == "timeout" else list(argv)
        self.asked.append(argv)
        if argv[:3] == ["docker", "image", "inspect"]:
            found = [self.derived if ref == DERIVED else self.image(BASE, ["vllm:1"]) for ref in argv[3:]]
            return 0, json.dumps(found), ""
        if argv[:3] == ["docker", "image", "ls"]:
            return 0, DERIVED if self.derived else "", ""
        if argv[:3] == ["docker", "image", "rm"]:
            self.derived = None
        elif argv[:2] == ["docker", "commit"]:
            self.build(**self.made)
            return 0, DERIVED + "\n", ""
        for word, answer in {
            "install": self.install,
            "check": (1 if self.check else 0, "\n".join(self.check), ""),
            "freeze": (0, "ray==2.59.0\n", ""),
            "--version": (0, "ray, version 2.59.0\n", ""),
            "-c": (0, "tandem-imports:" + json.dumps(self.imports) + "\n", ""),
        }.items():
            if word in argv and "run" not in argv:
                return answer
        return 0, "", ""

    def verbs(self) -> list[str]:
        """What Docker was asked for that changes something."""
        said = [argv[2] if argv[1] == "image" else argv[1] for argv in self.asked if argv[0] == "docker"]
        return [verb for verb in said if verb not in ("inspect", "ls", "exec")]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host()
    monkeypatch.setattr(wheelhouse_install, "tolerant", lambda _run: host.run)
    return host


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> tuple[int, dict[str, Any]]:
    given: dict[str, Any] = {
        "folder": "/store/1",
        "digest": DIGEST,
        "pip_wheel": "pip/pip-23.0.1-py3-none-any.whl",
        "would_install": [{"name": "ray", "version": "2.59.0"}],
        "version": "2.59.0",
        "complaints": ["a requires b."],
        **arguments,
    }
    with patch_module_args(given), pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


def test_an_image_is_made(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, image="vllm:1")
    assert (status, result["changed"], result["image_id"], result["base_id"]) == (0, True, DERIVED, BASE)
    assert (result["tag"], result["added_bytes"]) == (TAG, 7)
    assert result["installed"] == [{"name": "ray", "version": "2.59.0"}]
    assert result["diff"] == {"before_header": TAG, "after_header": TAG, "before": "", "after": "ray==2.59.0\n"}
    # It gets its name when it is whole.
    assert host.verbs() == ["rm", "run", "commit", "rm", "tag"]
    assert host.asked[-1] == ["docker", "image", "tag", DERIVED, TAG]
    (installs,) = [argv for argv in host.asked if "install" in argv]
    assert installs[installs.index("python3") + 1] == "/mnt/pip/pip-23.0.1-py3-none-any.whl/pip"
    tested = next(argv for argv in host.asked if "-c" in argv and "exec" in argv)
    assert json.loads(tested[-1]) == [["ray", "vllm"], ["ray"]]


def test_check_mode_makes_none(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, image="vllm:1", _ansible_check_mode=True)
    assert (status, result["changed"], result["image_id"], host.verbs()) == (0, True, None, [])
    assert result["diff"]["after"] == "ray==2.59.0\n"


@pytest.mark.parametrize("check", [False, True])
def test_one_that_is_there(capsys: pytest.CaptureFixture[str], host: Host, check: bool) -> None:
    host.build(TAG)
    status, result = run(capsys, image="vllm:1", _ansible_check_mode=check)
    assert (status, result["changed"], result["image_id"], host.verbs()) == (0, False, DERIVED, [])
    assert (result["installed"], result["added_bytes"]) == ([], 7)
    assert "diff" not in result


def test_one_that_only_lacks_its_name(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.build()
    status, result = run(capsys, image="vllm:1", tag="mine:1")
    assert (status, result["changed"], host.verbs()) == (0, True, ["tag"])
    assert host.asked[-1][-1] == "mine:1"


def test_one_that_was_cut_off_before_it_was_looked_at(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.build(Cmd=["sleep"])
    status, result = run(capsys, image="vllm:1")
    assert (status, result["changed"], host.verbs()) == (0, True, ["rm", "run", "commit", "rm", "tag"])


def test_another_configuration(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.made = {"Cmd": ["sleep"]}
    status, result = run(capsys, image="vllm:1")
    assert (status, host.derived) == (1, None)
    assert 'another configuration: Cmd is ["sleep"], was ["bash"]' in result["msg"]
    assert "tag" not in host.verbs()


@pytest.mark.parametrize(
    ("install", "imports", "check", "said"),
    [
        ((1, "", "ERROR: No space left on device"), {}, [], "pip install: pip says: No space left on device"),
        ((0, "", ""), {"ray": "ImportError: GLIBC_2.38"}, [], "does not work: import ray: ImportError: GLIBC_2.38"),
        ((0, "", ""), {"ray": None}, ["a requires b.", "ray requires c."], "pip check: ray requires c."),
    ],
)
def test_what_fails_leaves_no_image(
    capsys: pytest.CaptureFixture[str],
    host: Host,
    install: tuple[int, str, str],
    imports: dict[str, str | None],
    check: list[str],
    said: str,
) -> None:
    host.install, host.imports, host.check = install, imports, check
    status, result = run(capsys, image="vllm:1")
    assert (status, result["changed"], host.verbs()) == (1, False, ["rm", "run", "rm"])
    assert result["msg"].startswith("No image was made of vllm:1, with the wheels of /store/1: ")
    assert said in result["msg"]
    assert "pip check: a requires b." not in result["msg"]


def test_an_environment(capsys: pytest.CaptureFixture[str], host: Host, tmp_path: Path) -> None:
    status, result = run(capsys, venv=str(tmp_path))
    assert (status, result["changed"]) == (0, True)
    (installs,) = [argv for argv in host.asked if "install" in argv]
    assert f"{tmp_path}/bin/python" in installs
    assert "/store/1/pip/pip-23.0.1-py3-none-any.whl/pip" in installs
    assert "--force-reinstall" not in installs
    assert list(tmp_path.iterdir()) == []


def test_an_environment_in_check_mode(capsys: pytest.CaptureFixture[str], host: Host, tmp_path: Path) -> None:
    status, result = run(capsys, venv=str(tmp_path), _ansible_check_mode=True)
    assert (status, result["changed"], host.asked, list(tmp_path.iterdir())) == (0, True, [], [])


def test_an_unfinished_environment_is_installed_anew(
    capsys: pytest.CaptureFixture[str], host: Host, tmp_path: Path
) -> None:
    host.imports = {"ray": "ImportError: no"}
    status, result = run(capsys, venv=str(tmp_path))
    assert (status, [path.name for path in tmp_path.iterdir()]) == (1, [".tandem-unfinished"])
    assert result["msg"].startswith(f"{tmp_path} is unfinished, and so marked, with the wheels of /store/1: what was")
    host.imports, host.asked = {"ray": None}, []
    # pip believes that all is there.
    status, result = run(capsys, venv=str(tmp_path), would_install=[])
    assert (status, result["changed"], list(tmp_path.iterdir())) == (0, True, [])
    assert [argv for argv in host.asked if "--force-reinstall" in argv]
    host.asked = []
    status, result = run(capsys, venv=str(tmp_path), would_install=[])
    assert (status, result["changed"], host.asked) == (0, False, [])


def test_an_environment_that_is_not_there(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, venv="/nonexistent/venv")
    assert (status, result["msg"]) == (1, "venv = /nonexistent/venv cannot be written: No such file or directory")


def test_one_target(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    assert run(capsys)[0] == run(capsys, image="a", venv="/b")[0] == 1
