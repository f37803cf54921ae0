# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of an offline bundle: every file with its size and SHA-256, and what the files are.

Beside it lies SHA256SUMS, with a line for each file of the manifest and one for the manifest itself, so that plain
`sha256sum -c SHA256SUMS` checks the whole folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import fields
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.fields import MANIFEST, SUMS, ManifestError
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target
from ansible_collections.tandem.vllm.plugins.module_utils.placement import plain

__all__ = ["MANIFEST", "SUMS", "ManifestError"]

SCHEMA = 1
FILE_KINDS = ("wheel", "requirements", "image", "model", "model_manifest", "controller", "package")
# A line of SHA256SUMS; sha256sum itself writes a star where it read the file as binary.
_SUM = re.compile(r"([0-9a-f]{64}) [ *](.+)\Z")

_absolute = fields.matching(r"/[^\0]+", "must be an absolute path")
_compression = fields.optional(fields.one_of("zstd"))
_optional_text = fields.optional(fields.text)


@dataclass(frozen=True)
class MadeWith:
    """Versions of what made the bundle."""

    tandem: str
    python: str
    pip: str


@dataclass(frozen=True)
class File:
    """A file of the bundle. path: relative, with /; size: bytes; sha256: hex digest; kind: one of FILE_KINDS."""

    path: str
    size: int
    sha256: str
    kind: str


@dataclass(frozen=True)
class Image:
    """An image archive. ref: as the contract names it; id: sha256:…; file: its path in the bundle.

    compression: None or "zstd"; tar_size, tar_sha256: of the archive when it is not compressed.
    """

    ref: str
    id: str
    file: str
    compression: str | None
    tar_size: int
    tar_sha256: str


@dataclass(frozen=True)
class Package:
    """A project of a version that a target has already."""

    name: str
    version: str


@dataclass(frozen=True)
class Wheel:
    """A wheel. file: its name in the wheelhouse's folder."""

    name: str
    version: str
    file: str


@dataclass(frozen=True)
class Wheelhouse:
    """The wheels for one target.

    name: of the target; folder: in the bundle; image_id: the image that the target was probed from, None when it was
    stated; requirements: what was asked for, as pip takes it; index: where from, without a host's name; created: when;
    in_target: what the target has already, so that no wheel is here.
    """

    name: str
    folder: str
    image_id: str | None
    target: Target
    requirements: tuple[str, ...]
    index: str
    created: str
    wheels: tuple[Wheel, ...]
    in_target: tuple[Package, ...] = ()

    def path(self, wheel: Wheel) -> str:
        """Where a wheel is in the bundle."""
        return f"{self.folder}/{wheel.file}"


@dataclass(frozen=True)
class BundledModel:
    """A model. path: its directory on the nodes; manifest: path of its own manifest in the bundle.

    has_files: whether its files are in the bundle too; otherwise they have to be on the nodes already.
    """

    path: str
    served_name: str
    revision: str | None
    manifest: str
    has_files: bool


@dataclass(frozen=True)
class Manifest:
    """What a bundle holds. needs: by host, the paths of the files that it is to be given."""

    environment: str
    created: str
    made_with: MadeWith
    files: tuple[File, ...]
    images: tuple[Image, ...] = ()
    wheelhouses: tuple[Wheelhouse, ...] = ()
    models: tuple[BundledModel, ...] = ()
    needs: Mapping[str, tuple[str, ...]] | None = None

    @classmethod
    def from_dict(cls, data: Any) -> Manifest:
        """The manifest of a plain mapping; raises ManifestError for the first thing that is wrong."""
        required = (
            "schema",
            "environment",
            "created",
            "made_with",
            "files",
            "images",
            "wheelhouses",
            "models",
            "needs",
        )
        if isinstance(data, Mapping) and "schema" in data and (type(data["schema"]), data["schema"]) != (int, SCHEMA):
            # Before anything else: a newer schema has other keys.
            wanted = f"this Tandem reads schema {SCHEMA} only; use the one that made the bundle, or a newer one"
            raise fields.refuse("schema", data["schema"], wanted)
        value = fields.mapping("", data, required)
        needs = value["needs"]
        if not isinstance(needs, Mapping):
            raise fields.refuse("needs", needs, "must be a mapping of host names to lists of paths")
        manifest = cls(
            fields.text("environment", value["environment"]),
            fields.moment("created", value["created"]),
            _made_with("made_with", value["made_with"]),
            fields.items("files", value["files"], _file),
            fields.items("images", value["images"], _image),
            fields.items("wheelhouses", value["wheelhouses"], _wheelhouse),
            fields.items("models", value["models"], _model),
            {fields.text("needs", host): fields.items(f"needs.{host}", needs[host], fields.path) for host in needs},
        )
        manifest.check()
        return manifest

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """The manifest of a file's text; raises ManifestError."""
        try:
            data = json.loads(text, object_pairs_hook=_no_key_twice)
        except ManifestError:
            raise
        except (ValueError, RecursionError) as error:
            raise ManifestError(f"it is no JSON: {error}") from None
        return cls.from_dict(data)

    def check(self) -> None:
        """Refuses what contradicts itself; raises ManifestError. A builder may call it before it writes."""
        fields.unique("files[].path", (file.path for file in self.files))
        files = {file.path: file for file in self.files}
        for name in (MANIFEST, SUMS):
            if name in files:
                raise fields.refuse("files[].path", name, "is not a file of the bundle but tells of them")
        for path in files:
            parts = path.split("/")
            above = next((f for f in ("/".join(parts[:n]) for n in range(1, len(parts))) if f in files), None)
            if above is not None:
                raise fields.refuse("files[].path", path, f"cannot be, for {above} is a file")
        self._check_references(files)

    def _check_references(self, files: Mapping[str, File]) -> None:
        fields.unique("images[].ref", (image.ref for image in self.images))
        fields.unique("wheelhouses[].name", (wheelhouse.name for wheelhouse in self.wheelhouses))
        fields.unique("models[].path", (model.path for model in self.models))
        for number, image in enumerate(self.images):
            key = f"images[{number}]"
            file = _listed(f"{key}.file", image.file, files, "image")
            if image.compression is None and (image.tar_size, image.tar_sha256) != (file.size, file.sha256):
                wanted = (
                    f"must be what files says of {file.path}, {file.size} bytes and {file.sha256}: it is not compressed"
                )
                raise fields.refuse(f"{key}.tar_sha256", f"{image.tar_size} bytes, {image.tar_sha256}", wanted)
        for number, wheelhouse in enumerate(self.wheelhouses):
            key = f"wheelhouses[{number}].wheels"
            fields.unique(f"{key}[].file", (wheel.file for wheel in wheelhouse.wheels))
            for index, wheel in enumerate(wheelhouse.wheels):
                _listed(f"{key}[{index}].file", wheelhouse.path(wheel), files, "wheel")
        for number, model in enumerate(self.models):
            _listed(f"models[{number}].manifest", model.manifest, files, "model_manifest")
        for host, paths in (self.needs or {}).items():
            for path in paths:
                _listed(f"needs.{host}", path, files)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists; the inverse of from_dict."""
        data: dict[str, Any] = plain(asdict(self))
        return {"schema": SCHEMA, **data, "needs": data["needs"] or {}}

    def to_json(self) -> str:
        """The text of manifest.json: the same manifest gives the same text."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    def file(self, path: str) -> File | None:
        """What it says of one file; None when it does not have it."""
        return next((file for file in self.files if file.path == path), None)

    def of_kind(self, *kinds: str) -> list[File]:
        """Its files of these kinds, in its order."""
        return [file for file in self.files if file.kind in kinds]


def digest(text: str) -> str:
    """The SHA-256 of a text in UTF-8: of manifest.json as Manifest.to_json gives it, for one."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256sums(manifest: Manifest) -> str:
    """The text of SHA256SUMS: a line for each file and for manifest.json itself, as Manifest.to_json writes it."""
    lines = {file.path: file.sha256 for file in manifest.files}
    lines[MANIFEST] = digest(manifest.to_json())
    return "".join(f"{lines[path]}  {path}\n" for path in sorted(lines))


def parse_sums(text: str) -> dict[str, str]:
    """The digests by path that a SHA256SUMS holds; raises ManifestError."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        match = _SUM.match(line)
        if not match:
            raise fields.refuse(f"line {number}", line, "must be a SHA-256 digest, two spaces and a path")
        path = match[2]
        if path in found:
            raise fields.refuse(f"line {number}", path, "is there twice; each may be there once")
        found[path] = match[1]
    return found


def _made_with(key: str, value: Any) -> MadeWith:
    value = fields.mapping(key, value, ("tandem", "python", "pip"))
    return MadeWith(*(fields.text(f"{key}.{name}", value[name]) for name in ("tandem", "python", "pip")))


def _file(key: str, value: Any) -> File:
    value = fields.mapping(key, value, ("path", "size", "sha256", "kind"))
    return File(
        fields.path(f"{key}.path", value["path"]),
        fields.size(f"{key}.size", value["size"]),
        fields.sha256(f"{key}.sha256", value["sha256"]),
        fields.one_of(*FILE_KINDS)(f"{key}.kind", value["kind"]),
    )


def _image(key: str, value: Any) -> Image:
    value = fields.mapping(key, value, ("ref", "id", "file", "compression", "tar_size", "tar_sha256"))
    return Image(
        fields.text(f"{key}.ref", value["ref"]),
        fields.image_id(f"{key}.id", value["id"]),
        fields.path(f"{key}.file", value["file"]),
        _compression(f"{key}.compression", value["compression"]),
        fields.size(f"{key}.tar_size", value["tar_size"]),
        fields.sha256(f"{key}.tar_sha256", value["tar_sha256"]),
    )


def _wheelhouse(key: str, value: Any) -> Wheelhouse:
    required = ("name", "folder", "image_id", "target", "requirements", "index", "created", "wheels")
    value = fields.mapping(key, value, required, ("in_target",))
    return Wheelhouse(
        fields.file_name(f"{key}.name", value["name"]),
        fields.path(f"{key}.folder", value["folder"]),
        fields.optional(fields.image_id)(f"{key}.image_id", value["image_id"]),
        Target.from_dict(value["target"], f"{key}.target"),
        fields.items(f"{key}.requirements", value["requirements"], fields.text),
        fields.text(f"{key}.index", value["index"]),
        fields.moment(f"{key}.created", value["created"]),
        fields.items(f"{key}.wheels", value["wheels"], _wheel),
        fields.items(f"{key}.in_target", value.get("in_target") or (), _package),
    )


def _wheel(key: str, value: Any) -> Wheel:
    value = fields.mapping(key, value, ("name", "version", "file"))
    return Wheel(
        fields.text(f"{key}.name", value["name"]),
        fields.text(f"{key}.version", value["version"]),
        fields.file_name(f"{key}.file", value["file"]),
    )


def _package(key: str, value: Any) -> Package:
    value = fields.mapping(key, value, ("name", "version"))
    return Package(*(fields.text(f"{key}.{name}", value[name]) for name in ("name", "version")))


def _model(key: str, value: Any) -> BundledModel:
    value = fields.mapping(key, value, ("path", "served_name", "revision", "manifest", "has_files"))
    return BundledModel(
        _absolute(f"{key}.path", value["path"]),
        fields.text(f"{key}.served_name", value["served_name"]),
        _optional_text(f"{key}.revision", value["revision"]),
        fields.path(f"{key}.manifest", value["manifest"]),
        fields.boolean(f"{key}.has_files", value["has_files"]),
    )


def _listed(key: str, path: str, files: Mapping[str, File], kind: str | None = None) -> File:
    """The file of that path; refuses one that `files` does not have, or has as something else."""
    file = files.get(path)
    if file is None:
        raise fields.refuse(key, path, "must be the path of one of files")
    if kind is not None and file.kind != kind:
        raise fields.refuse(key, path, f"is of kind {file.kind} in files, and must be of kind {kind}")
    return file


def _no_key_twice(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    fields.unique("key", (key for key, _value in pairs))
    return dict(pairs)
