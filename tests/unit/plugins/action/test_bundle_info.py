# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.tandem.vllm.plugins.action import bundle_info
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress

GIB = 2**30
FOLDER = "/srv/bundle"


class Run:
    """One run of the action. sizes: GiB of the files whose content is to be compared; answers: by first file."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        sizes: dict[str, float],
        look: dict[str, Any] | None = None,
        judged: dict[str, Any] | None = None,
        failing: str | None = None,
        **arguments: Any,
    ) -> None:
        self.shown: list[str] = []
        self.calls: list[Any] = []
        display = MagicMock()
        display.display.side_effect = self.shown.append
        for module in (bundle_info, progress):
            monkeypatch.setattr(module, "Display", lambda: display)
        monkeypatch.setattr(progress, "time", MagicMock(**{"monotonic.return_value": 7.0}))
        task = MagicMock(
            action="tandem.vllm.bundle_info", args={"path": FOLDER, **arguments}, async_val=0, check_mode=False
        )
        loader = DataLoader()
        action = bundle_info.ActionModule(task, MagicMock(), MagicMock(), loader, Templar(loader), MagicMock())

        def execute(name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            assert (name, module_args["path"]) == ("tandem.vllm.bundle_info", FOLDER)
            if "files" in module_args:
                self.calls.append(module_args["files"])
                if failing in module_args["files"]:
                    return {"failed": True, "msg": "connection lost"}
                hashes = {path: {"sha256": path * 64, "mtime_ns": 1} for path in module_args["files"]}
                return {"hashes": hashes, "hashed_mib": 1024 * sum(sizes[p] for p in hashes), "seconds": 2.0}
            if "hashes" in module_args:
                self.calls.append(("judge", sorted(module_args["hashes"])))
                return {"valid": True, "hashed_mib": 0.5, "seconds": 0.25, **(judged or {})}
            assert module_args["quick"] is True
            self.calls.append("look")
            to_hash = [{"path": path, "size": int(size * GIB)} for path, size in sizes.items()]
            return look or {"valid": False, "to_hash": to_hash, "hashed_mib": 0.0, "seconds": 0.1}

        monkeypatch.setattr(action, "_execute_module", execute)
        self.result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "localhost"})


def test_a_small_bundle_is_hashed_where_it_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {"a": 0.5, "b": 0.25})
    assert run.calls == ["look", ("judge", [])]
    assert run.result == {"valid": True, "hashed_mib": 0.5, "seconds": 0.3}
    assert run.shown == []


def test_a_large_bundle_is_hashed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {"a": 0.5, "b": 0.25, "c": 10, "d": 0.5})
    assert run.calls == ["look", ["a", "b"], ["c"], ["d"], ("judge", ["a", "b", "c", "d"])]
    assert run.result == {"valid": True, "hashed_mib": 11520.5, "seconds": 6.3}
    assert run.shown == [
        "localhost: hashing the bundle, 11.2 GiB in 4 files",
        "localhost: hashed 0.8 of 11.2 GiB (0 s)",
        "localhost: hashed 10.8 of 11.2 GiB (0 s)",
        "localhost: hashed 11.2 of 11.2 GiB (0 s)",
    ]


def test_a_very_large_bundle_does_not_talk_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {f"{number:03}": 1 for number in range(200)})
    assert len(run.shown) == 1 + 40
    assert [len(call) for call in run.calls[1:-1]] == [5] * 40


def test_quick_hashes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {"a": 5, "b": 5}, quick="yes")
    assert (run.calls, run.result["valid"], run.shown) == (["look"], False, [])


def test_a_look_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {}, look={"failed": True, "msg": "no such option"})
    assert (run.calls, run.result) == (["look"], {"failed": True, "msg": "no such option"})


def test_a_piece_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {"a": 1, "b": 1, "c": 1}, failing="b")
    assert run.calls == ["look", ["a"], ["b"]]
    assert run.result == {"failed": True, "msg": "localhost: bundle /srv/bundle: connection lost"}


def test_a_judgement_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {"a": 1}, judged={"failed": True, "msg": "placement: it is none"})
    assert (run.result["failed"], run.result["msg"]) == (True, "placement: it is none")
