# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of a model directory: its files with size and SHA-256; and how what is found differs from it.

A manifest lists every file but those that are nobody's model: dot files, caches, locks, and files on their way. To
hash a large model takes minutes, so a node keeps a record {path: size, mtime_ns, sha256}: a file whose size and time
are still those of the record is taken to have the recorded hash.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils import vocabulary

SCHEMA = 1
# A file on its way to its name.
PART = ".part"
CONFIG = "config.json"
# Which shards hold the weights; the second is read where there are no safetensors.
SAFETENSORS_INDEX = "model.safetensors.index.json"
PYTORCH_INDEX = "pytorch_model.bin.index.json"
INDEXES = (SAFETENSORS_INDEX, PYTORCH_INDEX)
# What a repository of git-lfs has instead of a large file that was not fetched.
POINTER = b"version https://git-lfs.github.com/spec/"
GIB = 2**30

IGNORED_SUFFIXES = (".lock", PART, ".incomplete")
# A file too many of these kinds can change what is loaded: weights, configuration, templates, vocabularies, code.
MATTERS = re.compile(
    r"\.(safetensors|bin|pt|pth|ckpt|gguf|json|jinja|py|model|tiktoken)$|(^|/)(vocab|merges)\.txt$|(^|/)tokenizer\.model\."
)
TOKENIZERS = re.compile(
    r"^(tokenizer\.json|tokenizer\.model(\..+)?|vocab\.(json|txt)|tekken\.json|spiece\.model|.+\.bpe\.model|.*tiktoken"
    r"(\.model)?|tokenization_.+\.py)$"
)
SHA256 = re.compile(r"[0-9a-f]{64}")


class ModelManifestError(ValueError):
    """A manifest that is none; the message names the key."""


@dataclass(frozen=True)
class ModelFile:
    """A file of a model. path: below the model's directory, with slashes; size: bytes; sha256: hexadecimal."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Found:
    """A file as it was found. size: bytes; mtime_ns: when it was last written.

    sha256: None where it was not hashed. link: where a link leads that leads out of the directory or to nothing. error:
    why it cannot be read. pointer: it is what git-lfs leaves instead of a file.
    """

    size: int
    sha256: str | None = None
    mtime_ns: int = 0
    link: str | None = None
    error: str | None = None
    pointer: bool = False


@dataclass(frozen=True)
class Finding:
    """What is wrong with a file, or with the directory where path is empty.

    kind: directory, missing, extra, size, sha256, link, unreadable, pointer, index, config, tokenizer, digest.
    """

    path: str
    kind: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """As a module returns it."""
        return asdict(self)


@dataclass(frozen=True)
class ModelManifest:
    """What a model directory has to hold. path: where it was made; revision: as stated; files: in order of path."""

    path: str
    revision: str | None
    files: tuple[ModelFile, ...]

    @classmethod
    def from_dict(cls, value: Any) -> ModelManifest:
        """From parsed JSON; ModelManifestError names the key that is not as it must be."""
        _keys("manifest", value, ("schema", "path", "revision", "files"))
        if value["schema"] != SCHEMA or isinstance(value["schema"], bool):
            raise ModelManifestError(f"schema is {value['schema']!r}, and this version of Tandem reads {SCHEMA}")
        path, revision, files = value["path"], value["revision"], value["files"]
        if not isinstance(path, str) or not path.startswith("/"):
            raise ModelManifestError(f"path is {path!r}, and must be an absolute path")
        if not (revision is None or isinstance(revision, str)):
            raise ModelManifestError(f"revision is {revision!r}, and must be a text or null")
        if not isinstance(files, list) or not files:
            raise ModelManifestError("files must be a list with at least one file")
        found = [_file(f"files[{number}]", entry) for number, entry in enumerate(files)]
        paths = [file.path for file in found]
        twice = sorted({path for path in paths if paths.count(path) > 1})
        if twice:
            raise ModelManifestError(f"files has {twice[0]!r} more than once")
        return cls(path, revision, tuple(sorted(found, key=lambda file: file.path)))

    def to_dict(self) -> dict[str, Any]:
        """As it is written to a file."""
        return {
            "schema": SCHEMA,
            "path": self.path,
            "revision": self.revision,
            "files": [asdict(file) for file in self.files],
        }

    @property
    def by_path(self) -> dict[str, ModelFile]:
        """The files by their paths."""
        return {file.path: file for file in self.files}

    @property
    def digest(self) -> str:
        """`sha256:…` of the files' paths, sizes and hashes: the same wherever the directory is."""
        content = {"schema": SCHEMA, "files": [asdict(file) for file in sorted(self.files, key=lambda f: f.path)]}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _keys(where: str, value: Any, keys: Sequence[str]) -> None:
    """Refuse what is no mapping with exactly these keys."""
    if not isinstance(value, Mapping):
        raise ModelManifestError(f"{where} must be a mapping with the keys {', '.join(keys)}")
    for key in keys:
        if key not in value:
            raise ModelManifestError(f"{where} has no key {key}")
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise ModelManifestError(f"{where} has the unknown key {unknown[0]}")


def _file(where: str, value: Any) -> ModelFile:
    """One entry of `files`."""
    _keys(where, value, ("path", "size", "sha256"))
    path, size, sha256 = value["path"], value["size"], value["sha256"]
    if not (isinstance(path, str) and is_below(path)):
        raise ModelManifestError(f"{where}.path is {path!r}, and must be a relative path with slashes, without '..'")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ModelManifestError(f"{where}.size is {size!r}, and must be a number of bytes")
    if not (isinstance(sha256, str) and SHA256.fullmatch(sha256)):
        raise ModelManifestError(f"{where}.sha256 is {sha256!r}, and must be 64 lower-case hexadecimal digits")
    return ModelFile(path, size, sha256)


def is_below(path: str) -> bool:
    """Whether a path, by its text, is a plain one below the directory."""
    return not re.search(r"[\0-\x1f\\]", path) and all(part not in ("", ".", "..") for part in path.split("/"))


def is_ignored(path: str) -> bool:
    """Whether a file is no part of a model: hidden, in a cache such as .cache/huggingface, a lock, or on its way."""
    parts = path.split("/")
    hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
    return hidden or path.endswith(IGNORED_SUFFIXES)


def make(path: str, revision: str | None, found: Mapping[str, Found]) -> ModelManifest | None:
    """The manifest of what was found; None unless every file was hashed. A link out that nobody needs is left out."""
    files = [ModelFile(name, there.size, there.sha256) for name, there in sorted(found.items()) if there.sha256]
    if not files or len(files) < len([name for name, there in found.items() if not there.link or MATTERS.search(name)]):
        return None
    return ModelManifest(path, revision, tuple(files))


def compare(
    manifest: ModelManifest | None, found: Mapping[str, Found], shards: Mapping[str, Sequence[str] | None]
) -> list[Finding]:
    """What is wrong with a model directory, with or without a manifest to compare with, in order of path.

    found: its files; what is_ignored may be left out. shards: per index that is there the files it names, or None where
    it is no index. What was not hashed is compared by its size alone.
    """
    wanted = manifest.by_path if manifest else {}
    problems = []
    for path in sorted({*wanted, *found}):
        if manifest is None or path in wanted or MATTERS.search(path):
            problem = _wrong(path, found.get(path), wanted.get(path), pinned=manifest is not None)
            problems += [Finding(path, *problem)] if problem else []
    named = {problem.path for problem in problems}
    return problems + [problem for problem in _incomplete(found, shards) if problem.path not in named]


def _wrong(path: str, there: Found | None, wanted: ModelFile | None, pinned: bool) -> tuple[str, str] | None:
    """Kind and reason of what is wrong with one file."""
    if there is None:
        return "missing", "is not there"
    if there.link is not None and (wanted or MATTERS.search(path)):
        return "link", f"is a link to {there.link}, which is not in this directory: a container would not see the file"
    if pinned and wanted is None:
        return "extra", "is not in the manifest"
    if there.pointer:
        return "pointer", "is what git-lfs leaves where it did not fetch the file"
    if wanted and there.size != wanted.size:
        return "size", f"has {there.size} bytes, wanted are {wanted.size}"
    if there.error is not None:
        return "unreadable", f"cannot be read: {there.error}"
    if wanted and there.sha256 not in (None, wanted.sha256):
        return "sha256", f"has the SHA-256 {there.sha256}, wanted is {wanted.sha256}"
    return None


def _incomplete(found: Mapping[str, Found], shards: Mapping[str, Sequence[str] | None]) -> list[Finding]:
    """What every model has to have and this one lacks."""
    problems = []
    has_safetensors = any(path.endswith(".safetensors") for path in found)
    for index in INDEXES:
        if index not in shards or (index == PYTORCH_INDEX and has_safetensors):
            continue
        names = shards[index]
        if names is None:
            problems.append(Finding(index, "index", "is no index of weights: it has no weight_map"))
        missing = sorted({str(name) for name in names or ()} - set(found))
        problems += [Finding(name, "index", f"is not there, and {index} names it") for name in missing]
    if CONFIG not in found:
        problems.append(Finding(CONFIG, "config", "is not there, and every model has one"))
    if not any(TOKENIZERS.search(path) for path in found if path not in vocabulary.known_paths()):
        problems.append(Finding("", "tokenizer", "has no tokenizer, such as tokenizer.json or tokenizer.model"))
    return problems


def to_send(manifest: ModelManifest, found: Mapping[str, Found]) -> list[ModelFile]:
    """The files of the manifest that are not there as they must be. A link is not replaced: somebody meant it."""
    return [
        file
        for file in manifest.files
        if file.path not in found
        or (found[file.path].link is None and _wrong(file.path, found[file.path], file, pinned=True) is not None)
    ]


def remaining(
    manifest: ModelManifest, found: Mapping[str, Found], shards: Mapping[str, Sequence[str] | None]
) -> list[Finding]:
    """What is still wrong when the files of `to_send` have been sent."""
    sent = {file.path: Found(file.size, file.sha256) for file in to_send(manifest, found)}
    # What an index says that is still to come is not known yet.
    known = {index: names for index, names in shards.items() if index not in sent}
    return compare(manifest, {**found, **sent}, known)


def check_digest(digest: str | None, manifest: ModelManifest | None) -> list[Finding]:
    """Compare a manifest with the digest that it must have; none is as good as any."""
    if not digest or manifest is None or manifest.digest == digest:
        return []
    return [Finding("", "digest", f"has a manifest with the digest {manifest.digest}, wanted is {digest}")]


def shards_of(index: Any) -> list[str] | None:
    """The files that a parsed index names; None when it is no index."""
    names = index.get("weight_map") if isinstance(index, Mapping) else None
    return sorted({str(name) for name in names.values()}) if isinstance(names, Mapping) else None


# The quick record


def record_name(path: str) -> str:
    """Name of the file that keeps the record of the model directory at `path`."""
    return path.strip("/").replace("/", "--") + ".json"


def to_record(path: str, found: Mapping[str, Found]) -> dict[str, Any]:
    """What a node keeps of the files that were hashed."""
    files = {
        name: {"size": there.size, "mtime_ns": there.mtime_ns, "sha256": there.sha256}
        for name, there in sorted(found.items())
        if there.sha256
    }
    return {"schema": SCHEMA, "path": path, "files": files}


def from_record(path: str, record: Any) -> dict[str, dict[str, Any]]:
    """The files of a record {path: {size, mtime_ns, sha256}}; none where it is no record of this directory."""
    if not isinstance(record, Mapping) or record.get("schema") != SCHEMA or record.get("path") != path:
        return {}
    files = record.get("files")
    return {str(name): dict(facts) for name, facts in files.items()} if isinstance(files, Mapping) else {}


def known_hash(files: Mapping[str, Mapping[str, Any]], path: str, size: int, mtime_ns: int) -> str | None:
    """The hash of a file that has not been written to since it was hashed."""
    facts = files.get(path) or {}
    same = facts.get("size") == size and facts.get("mtime_ns") == mtime_ns
    sha256 = str(facts.get("sha256"))
    return sha256 if same and SHA256.fullmatch(sha256) else None


def pieces(files: Iterable[tuple[str, int]], limit: int) -> list[list[str]]:
    """Files (path, size) in groups of at most `limit` bytes, or of one larger file."""
    groups: list[list[str]] = []
    filled = limit
    for path, size in files:
        if not groups or filled + size > limit:
            groups.append([])
            filled = 0
        groups[-1].append(path)
        filled += size
    return groups


# Several nodes


def differences(nodes: Mapping[str, ModelManifest]) -> list[str]:
    """Files that are not the same on all nodes under one path, in words; files that matter to nobody are left out."""
    held = {node: manifest.by_path for node, manifest in nodes.items()}
    said = []
    for path in sorted({path for files in held.values() for path in files if MATTERS.search(path)}):
        variants: dict[ModelFile | None, list[str]] = {}
        for node, files in held.items():
            variants.setdefault(files.get(path), []).append(node)
        if len(variants) > 1:
            words = [f"on {', '.join(names)} {_described(file)}" for file, names in variants.items()]
            said.append(f"{path}: {'; '.join(words)}")
    return said


def _described(file: ModelFile | None) -> str:
    return f"{file.size} bytes, SHA-256 {file.sha256[:12]}…" if file else "not there"


# Words

REMEDIES = {
    "directory": "put the model there, or set model_store_source to a folder that holds it",
    "extra": "on {node} run 'rm {file}' if nobody needs it, or make the manifest again",
    "link": "on {node} run 'cp --remove-destination \"$(readlink -f {file})\" {file}'",
    "index": "send the file, or download the model again in full",
    "config": "download the model again in full",
    "tokenizer": "download the model again in full",
    "pointer": "fetch the files with 'git lfs pull', or set model_store_source to a folder that holds them",
    "digest": "compare with the manifest that the digest was taken from, or correct the digest",
}
OTHERWISE = "on {node} run 'sha256sum {file}', then copy the file there again or set model_store_source"
SHOWN = 20


def refusal(node: str, path: str, problems: Sequence[Mapping[str, Any]]) -> str:
    """Why a node's model directory is refused: one line a file, and for each kind of problem the next command."""
    lines, told = [], set()
    for problem in problems[:SHOWN]:
        kind, name = problem["kind"], problem["path"]
        remedy = REMEDIES.get(kind, OTHERWISE).format(node=node, file=shlex.quote(f"{path}/{name}" if name else path))
        once = kind in told
        told.add(kind)
        lines.append(f"{name or path}: {problem['reason']}." + ("" if once else f" Next: {remedy}."))
    if len(problems) > SHOWN:
        lines.append(f"and {len(problems) - SHOWN} more")
    return f"{node}: the model {path} is refused: " + (lines[0] if len(lines) == 1 else "\n- ".join(["", *lines]))


def no_room(node: str, models: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why files cannot be sent to a node: a line for each of its disks that is too small.

    models: each {path, disk: {device, free_mib}, to_send: [{size, part}] in bytes}.
    """
    disks: dict[Any, list[Mapping[str, Any]]] = {}
    for model in models:
        disks.setdefault(model["disk"]["device"], []).append(model)
    said = []
    for there in disks.values():
        free = there[0]["disk"]["free_mib"]
        # A file keeps its old content until the new one is whole.
        need = -(-sum(file["size"] - file["part"] for model in there for file in model["to_send"]) // 2**20)
        if free is not None and need > free:
            paths = ", ".join(model["path"] for model in there if model["to_send"])
            said.append(
                f"{node}: {free} MiB are free for {paths}, and {need} MiB are to be sent. "
                f"Next: on {node} run 'df -h {shlex.quote(there[0]['path'])}', and make room"
            )
    return said


def lacking(node: str, model: Mapping[str, Any], source: Mapping[str, Any]) -> str | None:
    """Why a source is of no use to a node; None where it holds every file that is to be sent.

    model and source: each {path, to_send: [{path}]}, compared with the same manifest, the source by sizes alone.
    """
    needed = [file["path"] for file in model["to_send"]]
    wrong = {file["path"] for file in source["to_send"]}
    names = [name for name in needed if name in wrong]
    if not names:
        return None
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return (
        f"{node}: {len(needed)} of the files of {model['path']} are to be sent, and the source {source['path']} lacks "
        f"{shown}, or has them in another size. Next: complete the source"
    )
