# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.tandem.vllm.plugins.action import model_manifest_info
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.model_manifest import GIB

PATH = "/models/x"


class Run:
    """One run of the action. sizes: of the files to be hashed, in GiB; fails_at: the call that fails."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, sizes: list[float], fails_at: int | None = None, **arguments: Any
    ) -> None:
        self.calls: list[dict[str, Any]] = []
        self.shown: list[str] = []
        display = MagicMock()
        display.display.side_effect = self.shown.append
        monkeypatch.setattr(model_manifest_info, "Display", lambda: display)
        task = MagicMock(action="tandem.vllm.model_manifest_info", args={"path": PATH, **arguments}, async_val=0)
        loader = DataLoader()
        action = model_manifest_info.ActionModule(task, MagicMock(), MagicMock(), loader, Templar(loader), MagicMock())

        def execute(name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            assert (name, module_args["path"]) == ("tandem.vllm.model_manifest_info", PATH)
            self.calls.append({k: v for k, v in module_args.items() if k != "path"})
            if len(self.calls) == fails_at:
                return {"failed": True, "msg": "no"}
            cost = {"hashed_mib": 1.0, "seconds": 2.0, "changed": False}
            if "files" in module_args:
                return {**cost, "hashes": {file: {"sha256": file} for file in module_args["files"]}}
            to_hash = [{"path": f"f{n}", "size": int(size * GIB)} for n, size in enumerate(sizes)]
            return {**cost, "hashes": {}, "to_hash": to_hash, "problems": []}

        monkeypatch.setattr(action, "_execute_module", execute)
        self.result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "node-a"})


def test_where_nothing_is_to_be_hashed_one_look_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"f9": {"sha256": "f9"}}
    run = Run(monkeypatch, [], hashes=given)
    assert run.calls == [{"hash": False, "hashes": given}]
    assert (run.result["hashes"], run.result["problems"], run.result["seconds"]) == (given, [], 2.0)


@pytest.mark.parametrize("sizes", [[1.0, 2.0], [50.0]])
def test_what_fits_one_piece_is_judged_at_once(monkeypatch: pytest.MonkeyPatch, sizes: list[float]) -> None:
    run = Run(monkeypatch, sizes, revision="r1")
    assert run.calls == [{"revision": "r1", "hash": False}, {"revision": "r1", "hashes": {}}]
    assert (run.result["hashed_mib"], run.result["seconds"], run.shown) == (1.0, 4.0, [])


def test_a_large_model_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"f9": {"sha256": "f9"}}
    run = Run(monkeypatch, [3.0, 1.0, 5.0, 3.0], hashes=given)
    hashes = {f"f{n}": {"sha256": f"f{n}"} for n in (9, 0, 1, 2, 3)}
    assert run.calls == [
        {"hash": False, "hashes": given},
        {"files": ["f0", "f1"], "hashes": given},
        {"files": ["f2"], "hashes": given},
        {"files": ["f3"], "hashes": given},
        {"hashes": hashes},
    ]
    assert run.shown == [
        "node-a /models/x: hashed 4.0 of 12.0 GiB",
        "node-a /models/x: hashed 9.0 of 12.0 GiB",
        "node-a /models/x: hashed 12.0 of 12.0 GiB",
    ]
    # Of the pieces and of the verdict; and the look's time.
    assert (run.result["hashes"], run.result["hashed_mib"], run.result["seconds"]) == (hashes, 4.0, 10.0)


@pytest.mark.parametrize("arguments", [{"hash": False}, {"hash": "no"}, {"files": ["f0"]}])
def test_a_call_that_is_itself_a_part(monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]) -> None:
    run = Run(monkeypatch, [9.0, 9.0], **arguments)
    assert run.calls == [arguments]


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_call_that_fails(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    run = Run(monkeypatch, [4.0, 4.0], fails_at=call)
    assert (run.result["failed"], run.result["msg"], len(run.calls)) == (True, "no", call)
