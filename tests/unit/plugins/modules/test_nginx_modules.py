# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both modules that change the gateway's nginx, over a folder and a fake nginx."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.host.nginx import Instance, NginxError
from ansible_collections.tandem.vllm.plugins.modules import nginx_config, nginx_upstream_server

KEY = "alice-key-0123456789"
KEYS = 'map $http_authorization $tandem_client {\n    "~^Bearer %s$" alice;\n}\n' % KEY
UPSTREAMS = """\
upstream tandem_chat {
    server 10.0.0.1:8000; # replica=chat-0
    server 10.0.0.2:8000; # replica=chat-1
}
"""


class Fake:
    """nginx as the modules see it: what `nginx -t` answers, and whether reloads are taken."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.conf, self.binary = tmp_path / "gateway", tmp_path / "nginx"
        self.binary.write_text("")
        self.binary.chmod(0o755)
        self.refusal: str | None = None
        self.reload_error: str | None = None
        self.validated: list[list[str]] = []
        self.reloads = 0
        self.capsys = capsys
        monkeypatch.setattr(AnsibleModule, "run_command", lambda _module, argv, **_more: self.run(argv))
        monkeypatch.setattr(Instance, "reload", lambda _nginx: self.reload())

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        self.validated.append(argv)
        return (1, "", "nginx: [emerg] " + self.refusal) if self.refusal else (0, "", "")

    def reload(self) -> bool:
        self.reloads += 1
        if self.reload_error:
            raise NginxError(self.reload_error)
        return True

    def call(self, main: Callable[[], None], check: bool = False, **arguments: Any) -> dict[str, Any]:
        args = {"binary": str(self.binary), "_ansible_check_mode": check, "_ansible_diff": True, **arguments}
        with patch_module_args(args), pytest.raises(SystemExit):
            main()
        out = self.capsys.readouterr().out
        assert KEY not in out
        result: dict[str, Any] = json.loads(out)
        return result

    def config(self, check: bool = False, keys: str = KEYS, **files: str) -> dict[str, Any]:
        plain = {"nginx.conf": "include keys.conf;\n", **{name + ".conf": text for name, text in files.items()}}
        return self.call(nginx_config.main, check, path=str(self.conf), files=plain, secret_files={"keys.conf": keys})

    def server(self, replica: str, state: str, check: bool = False, **more: Any) -> dict[str, Any]:
        path = str(self.conf / "upstreams.conf")
        return self.call(nginx_upstream_server.main, check, path=path, replica=replica, state=state, **more)

    def text(self, name: str) -> str:
        return (self.conf / name).read_text()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fake:
    return Fake(tmp_path, monkeypatch, capsys)


def test_config_is_written_once(fake: Fake) -> None:
    first = fake.config(upstreams=UPSTREAMS)
    assert first["changed"]
    assert first["validated"]
    assert first["reloaded"]
    assert first["changed_files"] == ["keys.conf", "nginx.conf", "upstreams.conf"]
    assert fake.text("keys.conf") == KEYS
    assert (fake.conf / "keys.conf").stat().st_mode & 0o777 == 0o600
    second = fake.config(upstreams=UPSTREAMS)
    assert not second["changed"]
    assert second["diff"] == []
    assert fake.reloads == 1
    assert len(fake.validated) == 1


def test_config_check_mode_tells_the_same_and_writes_nothing(fake: Fake) -> None:
    checked = fake.config(check=True, upstreams=UPSTREAMS)
    assert not fake.conf.exists()
    assert fake.reloads == 0
    assert checked["validated"]
    done = fake.config(upstreams=UPSTREAMS)
    assert (done["changed"], done["diff"]) == (checked["changed"], checked["diff"])


def test_config_diff_of_keys_shows_names_only(fake: Fake) -> None:
    fake.config()
    result = fake.config(keys=KEYS.replace("}", '    "~^Bearer bob-key-9876543210$" bob;\n}'))
    assert result["changed_files"] == ["keys.conf"]
    assert '"(hidden)" bob;' in result["diff"][0]["after"]
    assert "bob-key" not in json.dumps(result)


def test_config_that_nginx_refuses_changes_nothing(fake: Fake) -> None:
    fake.config()
    fake.refusal = 'unknown directive "nonsense"'
    for check in (True, False):
        result = fake.config(check=check, upstreams="nonsense;")
        assert result["failed"]
        assert not result["changed"]
        assert 'nothing was changed: unknown directive "nonsense"' in result["msg"]
    assert not (fake.conf / "upstreams.conf").exists()
    assert fake.reloads == 1


def test_config_that_is_not_taken_is_put_back(fake: Fake) -> None:
    fake.config()
    fake.reload_error = "no new workers"
    result = fake.config(keys=KEYS.replace("alice", "carol"), upstreams=UPSTREAMS)
    assert result["failed"]
    assert "the old files are back" in result["msg"]
    assert fake.text("keys.conf") == KEYS
    assert not (fake.conf / "upstreams.conf").exists()


def test_config_mode_is_put_right(fake: Fake) -> None:
    fake.config()
    (fake.conf / "keys.conf").chmod(0o644)
    assert fake.config()["changed_files"] == ["keys.conf"]
    assert (fake.conf / "keys.conf").stat().st_mode & 0o777 == 0o600


def test_config_before_nginx_is_installed(fake: Fake) -> None:
    fake.binary.unlink()
    checked = fake.config(check=True)
    assert checked["changed"]
    assert not checked["validated"]
    result = fake.config()
    assert result["failed"]
    assert "no nginx at" in result["msg"]
    assert not fake.conf.exists()


def test_server_drained_and_back(fake: Fake) -> None:
    fake.config(upstreams=UPSTREAMS)
    checked = fake.server("chat-0", "drained", check=True)
    assert fake.text("upstreams.conf") == UPSTREAMS
    done = fake.server("chat-0", "drained")
    assert (done["changed"], done["diff"], done["servers"]) == (checked["changed"], checked["diff"], checked["servers"])
    assert done["reloaded"]
    assert "10.0.0.1:8000 down; # replica=chat-0" in fake.text("upstreams.conf")
    assert [s["drained"] for s in done["servers"]] == [True, False]
    again = fake.server("chat-0", "drained")
    assert not again["changed"]
    assert "diff" not in again
    assert fake.server("chat-0", "active")["changed"]
    assert fake.text("upstreams.conf") == UPSTREAMS
    assert fake.reloads == 3


def test_server_validates_the_whole_configuration(fake: Fake) -> None:
    fake.config(upstreams=UPSTREAMS)
    fake.refusal = 'unknown directive "nonsense" in keys.conf'
    result = fake.server("chat-0", "drained")
    assert result["failed"]
    assert "the old file stays" in result["msg"]
    assert fake.text("upstreams.conf") == UPSTREAMS


def test_server_reload_that_fails_is_put_back(fake: Fake) -> None:
    fake.config(upstreams=UPSTREAMS)
    fake.reload_error = "no new workers"
    assert fake.server("chat-1", "drained")["failed"]
    assert fake.text("upstreams.conf") == UPSTREAMS


def test_server_last_one_is_refused(fake: Fake) -> None:
    fake.config(upstreams=UPSTREAMS)
    fake.server("chat-0", "drained")
    refused = fake.server("chat-1", "drained")
    assert "last replica of tandem_chat" in refused["msg"]
    assert "allow_empty: true" in refused["msg"]
    assert fake.server("chat-1", "drained", allow_empty=True)["changed"]


def test_server_unknown_replica_and_missing_file(fake: Fake) -> None:
    assert "run the role tandem.vllm.nginx_gateway first" in fake.server("chat-0", "drained")["msg"]
    fake.config(upstreams=UPSTREAMS)
    assert "known: chat-0, chat-1" in fake.server("chat-9", "drained")["msg"]
