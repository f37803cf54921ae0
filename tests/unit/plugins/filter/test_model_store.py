# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.tandem.vllm.plugins.filter.model_store import FilterModule

FILTERS = FilterModule().filters()
PROBLEM = {"path": "a.json", "kind": "extra", "reason": "is not in the manifest"}
REFUSED = (
    "n1: the model /models/x is refused: a.json: is not in the manifest. "
    "Next: on n1 run 'rm /models/x/a.json' if nobody needs it, or make the manifest again."
)


def manifest(sha256: str = "a" * 64, path: str = "/models/x") -> dict[str, Any]:
    files = [{"path": "config.json", "size": 2**20, "sha256": sha256}]
    return {"schema": 1, "path": path, "revision": "r1", "files": files}


def model(**changes: Any) -> dict[str, Any]:
    whole = {"path": "/models/x", "problems": [], "remaining": [], "manifest": manifest(), "verified": "full"}
    return {**whole, "digest": "sha256:1", "needs": [], "to_send": [], **changes}


@pytest.mark.parametrize(
    ("found", "sendable", "said"),
    [
        (model(), [], []),
        (model(problems=[PROBLEM]), [], [REFUSED]),
        (model(problems=[PROBLEM]), ["/models/x"], []),
        (model(problems=[PROBLEM], remaining=[PROBLEM]), ["/models/x"], [REFUSED]),
        (model(problems=[PROBLEM]), ["/models/y"], [REFUSED]),
    ],
)
def test_refusals(found: dict[str, Any], sendable: list[str], said: list[str]) -> None:
    assert FILTERS["model_refusals"]([found], "n1", sendable) == said


def test_no_room() -> None:
    found = model(disk={"device": 1, "free_mib": 1}, to_send=[{"size": 2**21, "part": 0}])
    assert [line.partition(",")[0] for line in FILTERS["model_no_room"]([found], "n1")] == [
        "n1: 1 MiB are free for /models/x"
    ]


def test_lacking() -> None:
    needs, has = (
        model(to_send=[{"path": "a"}, {"path": "b"}]),
        model(path="/src/x", to_send=[{"path": "b"}, {"path": "c"}]),
    )
    assert FILTERS["model_lacking"]([needs, model()], [has, has], "n1") == [
        "n1: 2 of the files of /models/x are to be sent, and the source /src/x lacks b, or has them in another size. "
        "Next: complete the source"
    ]
    assert FILTERS["model_lacking"]([], [], "n1") == []


def test_differences() -> None:
    both = {"n1": {"/models/x": manifest()}, "n2": {"/models/x": manifest()}, "n3": {}}
    assert FILTERS["model_differences"](both) == []
    both["n2"]["/models/x"] = manifest("b" * 64)
    (line,) = FILTERS["model_differences"](both)
    assert line.startswith("/models/x/config.json: on n1 1048576 bytes, SHA-256 aaaa")
    # Only what has the same path is compared.
    assert (
        FILTERS["model_differences"]({"n1": {"/models/x": manifest()}, "n2": {"/models/y": manifest("b" * 64)}}) == []
    )
    with pytest.raises(AnsibleFilterError, match="wants manifests: manifest has no key path"):
        FILTERS["model_differences"]({"n1": {"/models/x": {"schema": 1}}})


def test_manifest_problem() -> None:
    assert FILTERS["model_manifest_problem"](manifest()) == ""
    assert FILTERS["model_manifest_problem"]({"schema": 1}) == "manifest has no key path"


def test_facts() -> None:
    whole = {"verified": "full", "digest": "sha256:1", "revision": "r1", "files": 1, "size_mib": 1.0, "needs": []}
    assert FILTERS["model_store_facts"]([model()]) == {"/models/x": whole}
    none = {**whole, "verified": "none", "digest": None, "revision": None, "files": 0, "size_mib": 0.0}
    assert FILTERS["model_store_facts"]([model(manifest=None, verified="none", digest=None)]) == {"/models/x": none}
