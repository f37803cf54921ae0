# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import model_manifest as mm
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.model_manifest import (
    Finding,
    Found,
    ModelFile,
    ModelManifest,
    ModelManifestError,
)

A, B, C, D = ("abcd"[n] * 64 for n in range(4))
INDEX = "model.safetensors.index.json"
FILES: dict[str, Any] = {
    "README.md": (10, A),
    "config.json": (612, B),
    "model-00001-of-00002.safetensors": (4000, C),
    "model-00002-of-00002.safetensors": (3000, D),
    INDEX: (200, A),
    "tokenizer.json": (700, B),
}
MANIFEST = ModelManifest("/models/x", "r1", tuple(ModelFile(path, *facts) for path, facts in FILES.items()))
FOUND = {path: Found(size, sha256, 7) for path, (size, sha256) in FILES.items()}
SHARDS = {INDEX: ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]}
SHARD = "model-00002-of-00002.safetensors"
DICT: dict[str, Any] = {
    "schema": 1,
    "path": "/models/x",
    "revision": "r1",
    "files": [{"path": path, "size": size, "sha256": sha256} for path, (size, sha256) in FILES.items()],
}


def entry(**changes: Any) -> dict[str, Any]:
    return {"path": "a", "size": 1, "sha256": A, **changes}


def test_there_and_back() -> None:
    assert ModelManifest.from_dict(DICT) == MANIFEST
    assert MANIFEST.to_dict() == DICT
    assert ModelManifest.from_dict({**DICT, "files": DICT["files"][::-1]}) == MANIFEST


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "manifest must be a mapping with the keys schema, path, revision, files"),
        ({k: v for k, v in DICT.items() if k != "revision"}, "manifest has no key revision"),
        ({**DICT, "fils": []}, "manifest has the unknown key fils"),
        ({**DICT, "schema": 2}, "schema is 2, and this version of Tandem reads 1"),
        ({**DICT, "schema": True}, "schema is True, and this version of Tandem reads 1"),
        ({**DICT, "path": "models/x"}, "path is 'models/x', and must be an absolute path"),
        ({**DICT, "revision": 5}, "revision is 5, and must be a text or null"),
        ({**DICT, "files": []}, "files must be a list with at least one file"),
        ({**DICT, "files": {"a": 1}}, "files must be a list with at least one file"),
        ({**DICT, "files": [entry(), "b"]}, "files[1] must be a mapping with the keys path, size, sha256"),
        ({**DICT, "files": [entry(mode=1)]}, "files[0] has the unknown key mode"),
        ({**DICT, "files": [entry(), entry(size=2)]}, "files has 'a' more than once"),
        ({**DICT, "files": [entry(size="1")]}, "files[0].size is '1', and must be a number of bytes"),
        ({**DICT, "files": [entry(size=-1)]}, "files[0].size is -1, and must be a number of bytes"),
        ({**DICT, "files": [entry(size=True)]}, "files[0].size is True, and must be a number of bytes"),
        (
            {**DICT, "files": [entry(sha256=A.upper())]},
            f"files[0].sha256 is '{A.upper()}', and must be 64 lower-case hexadecimal digits",
        ),
    ],
)
def test_no_manifest(value: Any, said: str) -> None:
    with pytest.raises(ModelManifestError, match=f"^{re.escape(said)}$"):
        ModelManifest.from_dict(value)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", "", "a\\b", "a\nb", "a\0b", 7]
)
def test_paths_that_lead_elsewhere(path: Any) -> None:
    with pytest.raises(ModelManifestError, match=r"files\[0\]\.path"):
        ModelManifest.from_dict({**DICT, "files": [entry(path=path)]})


def test_digest_is_of_the_files() -> None:
    digest = MANIFEST.digest
    # Kept: contracts pin it.
    assert digest == "sha256:0989cf9933fb4dc6915e05347ba91c11b564ee544a1ad7bd20d100ec797ff914"
    assert ModelManifest("/elsewhere", None, MANIFEST.files[::-1]).digest == digest
    for change in ({"path": "CONFIG.json"}, {"size": 611}, {"sha256": C}):
        other = (MANIFEST.files[0], replace(MANIFEST.files[1], **change), *MANIFEST.files[2:])
        assert replace(MANIFEST, files=other).digest != digest


def test_digest_pinned() -> None:
    assert mm.check_digest(None, MANIFEST) == []
    assert mm.check_digest(MANIFEST.digest, MANIFEST) == []
    assert mm.check_digest("sha256:0", None) == []
    (problem,) = mm.check_digest("sha256:0", MANIFEST)
    assert problem == Finding("", "digest", f"has a manifest with the digest {MANIFEST.digest}, wanted is sha256:0")


@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        (".gitattributes", True),
        (".cache/huggingface/download/config.json.metadata", True),
        ("onnx/.DS_Store", True),
        ("model.safetensors.lock", True),
        ("model.safetensors.part", True),
        ("model.safetensors.incomplete", True),
        ("__pycache__/modeling_x.cpython-312.pyc", True),
        ("config.json", False),
        ("1_Pooling/config.json", False),
        ("partial.safetensors", False),
        ("a.lock.json", False),
    ],
)
def test_ignored(path: str, ignored: bool) -> None:
    assert mm.is_ignored(path) == ignored


def test_make() -> None:
    assert mm.make("/models/x", "r1", FOUND) == MANIFEST
    assert mm.make("/models/x", "r1", dict(reversed(FOUND.items()))) == MANIFEST
    assert mm.make("/models/x", "r1", {}) is None
    assert mm.make("/models/x", "r1", {**FOUND, "config.json": Found(612)}) is None
    assert mm.make("/models/x", "r1", {**FOUND, "more.bin": Found(0, link="/x")}) is None
    assert mm.make("/models/x", "r1", {**FOUND, "LICENSE": Found(0, link="/x")}) == MANIFEST


def test_all_is_well() -> None:
    assert mm.compare(MANIFEST, FOUND, SHARDS) == []
    assert mm.compare(None, FOUND, SHARDS) == []
    unhashed = {path: replace(there, sha256=None) for path, there in FOUND.items()}
    assert mm.compare(MANIFEST, unhashed, SHARDS) == []
    assert mm.to_send(MANIFEST, FOUND) == []


LINK = "../../blobs/ab12"
# What is found instead, what is then wrong, and whether the file is sent. None: the file is not there.
WRONG: list[Any] = [
    pytest.param({SHARD: None}, SHARD, "missing", "is not there", True, id="missing"),
    pytest.param(
        {"README.md": None}, "README.md", "missing", "is not there", True, id="missing, though nobody reads it"
    ),
    pytest.param({"config.json": None}, "config.json", "missing", "is not there", True, id="no config.json"),
    pytest.param({SHARD: Found(2999, A)}, SHARD, "size", "has 2999 bytes, wanted are 3000", True, id="truncated"),
    pytest.param({SHARD: Found(3000, A)}, SHARD, "sha256", f"has the SHA-256 {A}, wanted is {D}", True, id="altered"),
    pytest.param(
        {SHARD: Found(3000, error="Input/output error")},
        SHARD,
        "unreadable",
        "cannot be read: Input/output error",
        True,
        id="broken disk",
    ),
    pytest.param(
        {SHARD: Found(134, A, pointer=True)},
        SHARD,
        "pointer",
        "is what git-lfs leaves where it did not fetch the file",
        True,
        id="git-lfs",
    ),
    pytest.param(
        {SHARD: Found(0, link=LINK)},
        SHARD,
        "link",
        f"is a link to {LINK}, which is not in this directory: a container would not see the file",
        False,
        id="link out",
    ),
    pytest.param(
        {"extra.safetensors": Found(1, A)}, "extra.safetensors", "extra", "is not in the manifest", False, id="extra"
    ),
    pytest.param(
        {"modeling_x.py": Found(1, A)}, "modeling_x.py", "extra", "is not in the manifest", False, id="extra code"
    ),
    pytest.param({"merges.txt": Found(1, A)}, "merges.txt", "extra", "is not in the manifest", False, id="vocabulary"),
]


@pytest.mark.parametrize(("changes", "path", "kind", "reason", "sent"), WRONG)
def test_what_is_wrong(changes: dict[str, Found | None], path: str, kind: str, reason: str, sent: bool) -> None:
    found = {name: there for name, there in {**FOUND, **changes}.items() if there is not None}
    finding = Finding(path, kind, reason)
    assert mm.compare(MANIFEST, found, SHARDS) == [finding]
    assert [file.path for file in mm.to_send(MANIFEST, found)] == ([path] if sent else [])
    assert mm.remaining(MANIFEST, found, SHARDS) == ([] if sent else [finding])


@pytest.mark.parametrize("path", ["NOTES.md", "LICENSE", "assets/plot.png", "requirements.txt"])
def test_what_is_too_much_and_does_not_matter(path: str) -> None:
    assert mm.compare(MANIFEST, {**FOUND, path: Found(1, A), "x.md": Found(0, link="/y")}, SHARDS) == []


@pytest.mark.parametrize(
    ("without", "shards", "problems"),
    [
        ([SHARD], SHARDS, [Finding(SHARD, "index", f"is not there, and {INDEX} names it")]),
        ([], {INDEX: None}, [Finding(INDEX, "index", "is no index of weights: it has no weight_map")]),
        # An index of files that nobody loads beside safetensors.
        ([], {**SHARDS, "pytorch_model.bin.index.json": ["pytorch_model-1.bin"]}, []),
        (["config.json"], SHARDS, [Finding("config.json", "config", "is not there, and every model has one")]),
        (
            ["tokenizer.json"],
            SHARDS,
            [Finding("", "tokenizer", "has no tokenizer, such as tokenizer.json or tokenizer.model")],
        ),
    ],
)
def test_incomplete_whatever_the_manifest(
    without: list[str], shards: dict[str, list[str] | None], problems: list[Finding]
) -> None:
    found = {path: there for path, there in FOUND.items() if path not in without}
    assert mm.compare(None, found, shards) == problems
    # A manifest that was made of it does not make it whole.
    assert mm.compare(mm.make("/models/x", None, found), found, shards) == problems
    assert mm.remaining(mm.make("/models/x", None, found) or MANIFEST, found, shards) == problems


def test_index_of_pytorch_files() -> None:
    found = {"config.json": FOUND["config.json"], "vocab.txt": Found(1, A), "pytorch_model-1.bin": Found(1, A)}
    shards = {"pytorch_model.bin.index.json": ["pytorch_model-1.bin", "pytorch_model-2.bin"]}
    assert [(p.path, p.kind) for p in mm.compare(None, found, shards)] == [("pytorch_model-2.bin", "index")]


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer.model.v3",
        "vocab.txt",
        "tekken.json",
        "qwen.tiktoken",
        "tiktoken.model",
        "spiece.model",
        "sentencepiece.bpe.model",
        "tokenization_chatglm.py",
    ],
)
def test_tokenizers(name: str) -> None:
    assert mm.compare(None, {"config.json": Found(1, A), name: Found(1, A)}, {}) == []


def test_an_index_to_be_sent_is_not_believed() -> None:
    found = {**FOUND, INDEX: Found(200, C)}
    assert [p.kind for p in mm.compare(MANIFEST, found, {INDEX: ["x.safetensors"]})] == ["sha256", "index"]
    assert mm.remaining(MANIFEST, found, {INDEX: ["x.safetensors"]}) == []


@pytest.mark.parametrize(
    ("index", "shards"),
    [
        ({"metadata": {}, "weight_map": {"a": "m-2", "b": "m-1", "c": "m-2"}}, ["m-1", "m-2"]),
        ({"weight_map": {}}, []),
        ({"weight_map": ["m-1"]}, None),
        ([], None),
        (None, None),
    ],
)
def test_shards_of(index: Any, shards: list[str] | None) -> None:
    assert mm.shards_of(index) == shards


def test_record() -> None:
    record = mm.to_record("/models/x", {**FOUND, "config.json": Found(612, mtime_ns=7)})
    assert record["files"][SHARD] == {"size": 3000, "mtime_ns": 7, "sha256": D}
    assert "config.json" not in record["files"]
    files = mm.from_record("/models/x", record)
    assert mm.known_hash(files, SHARD, 3000, 7) == D
    for case in ((SHARD, 2999, 7), (SHARD, 3000, 8), ("other", 3000, 7)):
        assert mm.known_hash(files, *case) is None
    files[SHARD]["sha256"] = "short"
    assert mm.known_hash(files, SHARD, 3000, 7) is None


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {},
        {"schema": 2, "path": "/models/x", "files": {"a": {}}},
        {"schema": 1, "path": "/models/x", "files": []},
        # Of another directory.
        {"schema": 1, "path": "/models/y", "files": {"a": {"size": 1}}},
    ],
)
def test_no_record(record: Any) -> None:
    assert mm.from_record("/models/x", record) == {}


def test_record_name() -> None:
    assert mm.record_name("/models/Qwen2.5-32B-Instruct") == "models--Qwen2.5-32B-Instruct.json"


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([3], [["0"]]),
        ([40], [["0"]]),
        ([4, 4, 4], [["0", "1"], ["2"]]),
        ([1, 40, 1, 9], [["0"], ["1"], ["2", "3"]]),
        ([10, 0, 1], [["0", "1"], ["2"]]),
    ],
)
def test_pieces(sizes: list[int], groups: list[list[str]]) -> None:
    assert mm.pieces([(str(n), size) for n, size in enumerate(sizes)], 10) == groups


def test_differences() -> None:
    other = mm.make(
        "/models/x", None, {**FOUND, SHARD: Found(3000, A), "README.md": Found(9, B), "NEW.md": Found(1, A)}
    )
    less = mm.make("/models/x", None, {p: f for p, f in FOUND.items() if p not in (SHARD, "README.md")})
    assert other is not None
    assert less is not None
    assert mm.differences({"n1": MANIFEST, "n2": replace(MANIFEST, revision=None)}) == []
    assert mm.differences({"n1": MANIFEST, "n2": other, "n3": MANIFEST, "n4": less}) == [
        f"{SHARD}: on n1, n3 3000 bytes, SHA-256 dddddddddddd…; on n2 3000 bytes, SHA-256 aaaaaaaaaaaa…; "
        "on n4 not there"
    ]


def test_refusal_of_one() -> None:
    problem = Finding("a b.safetensors", "size", "has 1 bytes, wanted are 2").to_dict()
    assert mm.refusal("node1", "/models/x", [problem]) == (
        "node1: the model /models/x is refused: a b.safetensors: has 1 bytes, wanted are 2. "
        "Next: on node1 run 'sha256sum '/models/x/a b.safetensors'', "
        "then copy the file there again or set model_store_source."
    )


def test_refusal_of_many() -> None:
    problems = [Finding(f"m-{n}.bin", "missing", "is not there").to_dict() for n in range(22)]
    problems.insert(0, Finding("", "tokenizer", "has no tokenizer").to_dict())
    lines = mm.refusal("node1", "/models/x", problems).splitlines()
    assert lines[:4] == [
        "node1: the model /models/x is refused: ",
        "- /models/x: has no tokenizer. Next: download the model again in full.",
        "- m-0.bin: is not there. Next: on node1 run 'sha256sum /models/x/m-0.bin', "
        "then copy the file there again or set model_store_source.",
        # What to do is told once.
        "- m-1.bin: is not there.",
    ]
    assert lines[-1] == "- and 3 more"
    assert len(lines) == 22


def test_no_room() -> None:
    def model(path: str, device: int | None, free: int | None, *sizes: int) -> dict[str, Any]:
        files = [{"size": size * 2**20, "part": 0} for size in sizes]
        return {"path": path, "disk": {"device": device, "free_mib": free}, "to_send": files}

    fits = [model("/models/a", 1, 10, 5, 5), model("/data/b", 2, 3, 3), model("/net/c", None, None, 99)]
    assert mm.no_room("n1", fits) == []
    assert mm.no_room("n1", [model("/models/a", 1, 10, 5), model("/models/b", 1, 10, 6)]) == [
        "n1: 10 MiB are free for /models/a, /models/b, and 11 MiB are to be sent. "
        "Next: on n1 run 'df -h /models/a', and make room"
    ]
    sent = model("/models/a", 1, 1, 5)
    sent["to_send"][0]["part"] = 4 * 2**20
    assert mm.no_room("n1", [sent]) == []


def test_a_vocabulary_is_no_tokenizer() -> None:
    found = {"config.json": FOUND["config.json"], "vocabulary/o200k_base.tiktoken": Found(1, A)}
    assert [problem.kind for problem in mm.compare(None, found, {})] == ["tokenizer"]
