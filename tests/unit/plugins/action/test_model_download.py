# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.tandem.vllm.plugins.action import model_download
from ansible_collections.tandem.vllm.plugins.action.model_download import ActionModule, size_of


def fetched(
    monkeypatch: pytest.MonkeyPatch, folder: Path, transport: str, answer: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """What the action returns and shows while a module takes its time."""
    shown: list[str] = []
    monkeypatch.setattr(model_download, "EVERY", 0.01)
    monkeypatch.setattr(ActionBase, "run", lambda *_a, **_k: {})
    monkeypatch.setattr(Display, "display", lambda _self, text, **_k: shown.append(text))

    def module(*_arguments: Any, **_kwargs: Any) -> dict[str, Any]:
        time.sleep(0.1)
        return answer

    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"repository": "acme/x", "path": f"{folder}/x/"})
    action._connection = SimpleNamespace(transport=transport)
    monkeypatch.setattr(action, "_execute_module", module, raising=False)
    return action.run(), shown


def test_it_says_how_much_has_arrived(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "x.fetching/sub").mkdir(parents=True)
    (tmp_path / "x.fetching/sub/a").write_bytes(b"1" * 8192)
    result, shown = fetched(monkeypatch, tmp_path, "local", {"changed": True})
    assert result == {"changed": True}
    assert shown[0].startswith("acme/x: 0.00 GiB have arrived (")
    assert size_of(f"{tmp_path}/x.fetching") == 8192


def test_it_is_silent_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert fetched(monkeypatch, tmp_path, "ssh", {"failed": True, "msg": "no"}) == ({"failed": True, "msg": "no"}, [])


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert size_of(f"{tmp_path}/none") == 0
