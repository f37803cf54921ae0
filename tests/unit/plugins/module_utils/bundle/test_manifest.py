# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import (
    Manifest,
    ManifestError,
    digest,
    parse_sums,
    sha256sums,
)

A, B, C, D, E = ("%x" % n * 64 for n in range(10, 15))
IMAGE = "sha256:" + "1" * 64
DATA: dict[str, Any] = {
    "schema": 1,
    "environment": "two-node-a100",
    "created": "2026-12-01T00:00:00Z",
    "made_with": {"tandem": "0.1.0", "python": "3.11.2", "pip": "26.1"},
    "files": [
        {"path": "images/111111111111.tar", "size": 40, "sha256": A, "kind": "image"},
        {"path": "models/chat.json", "size": 3, "sha256": B, "kind": "model_manifest"},
        {
            "path": "wheels/vllm/ray-2.60.0-cp311-cp311-manylinux2014_x86_64.whl",
            "size": 5,
            "sha256": C,
            "kind": "wheel",
        },
        {"path": "wheels/vllm/requirements.txt", "size": 5, "sha256": D, "kind": "requirements"},
        {"path": "packages/debian-12/nginx_1.22.1_amd64.deb", "size": 6, "sha256": E, "kind": "package"},
    ],
    "images": [
        {
            "ref": "vllm/vllm-openai:v0.25.1",
            "id": IMAGE,
            "file": "images/111111111111.tar",
            "compression": None,
            "tar_size": 40,
            "tar_sha256": A,
        }
    ],
    "wheelhouses": [
        {
            "name": "vllm",
            "folder": "wheels/vllm",
            "image_id": IMAGE,
            "target": {
                "python": "3.11.2",
                "implementation": "cp",
                "abi": "cp311",
                "machine": "x86_64",
                "glibc": "2.36",
                "tags": ["cp311-cp311-manylinux_2_36_x86_64"],
            },
            "requirements": ["ray[default]==2.60.0"],
            "index": "simple",
            "created": "2026-12-01",
            "wheels": [{"name": "ray", "version": "2.60.0", "file": "ray-2.60.0-cp311-cp311-manylinux2014_x86_64.whl"}],
            "in_target": [{"name": "pyyaml", "version": "6.0.2"}],
        }
    ],
    "models": [
        {
            "path": "/models/chat",
            "served_name": "chat",
            "revision": None,
            "manifest": "models/chat.json",
            "has_files": False,
        }
    ],
    "needs": {"node-a": ["images/111111111111.tar"], "gateway": []},
}


def with_value(path: str, value: Any) -> dict[str, Any]:
    """The manifest with another value at files.0.size and the like; a value of `...` takes the key away."""
    data = copy.deepcopy(DATA)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = data
    for key in parents:
        place = place[key]
    if value is ...:
        del place[last]
    elif isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return data


def test_there_and_back() -> None:
    manifest = Manifest.from_dict(DATA)
    assert manifest.to_dict() == DATA
    assert Manifest.from_json(manifest.to_json()) == manifest
    wheelhouse = manifest.wheelhouses[0]
    assert wheelhouse.path(wheelhouse.wheels[0]) == manifest.of_kind("wheel")[0].path
    assert (manifest.file("models/chat.json"), manifest.file("nothing")) == (manifest.files[1], None)


def test_what_may_be_left_out() -> None:
    data = with_value("wheelhouses.0.in_target", ...)
    del data["wheelhouses"][0]["target"]["tags"]
    found = Manifest.from_dict(data).wheelhouses[0]
    assert (found.in_target, found.target.tags) == ((), ())


WRONG: list[tuple[str, Any, str]] = [
    ("schema", 2, "schema = 2: this Tandem reads schema 1 only; use the one that made the bundle, or a newer one"),
    ("schema", True, "schema = True: this Tandem reads schema 1 only"),
    ("schema", "1", "schema = '1': this Tandem reads schema 1 only"),
    ("schema", ..., "schema = not set: is required"),
    ("enviroment", "x", "enviroment = 'x': unknown key; allowed are schema, environment, "),
    ("environment", "", "environment = '': must be a text of printable characters, not empty"),
    ("created", "today", "created = 'today': must be a date, or a time in UTC, as 2026-12-01T00:00:00Z"),
    ("made_with.pip", None, "made_with.pip = not set: must be a text"),
    ("made_with", [], "made_with = []: must be a mapping with the keys tandem, python, pip"),
    ("files", {}, "files = {}: must be a list"),
    ("files.0", "x", "files[0] = 'x': must be a mapping with the keys path, size, sha256, kind"),
    ("files.1.path", "/etc/passwd", "files[1].path = '/etc/passwd': must be a relative path"),
    ("files.1.path", "../x", "files[1].path = '../x': must be a relative path"),
    ("files.1.path", "models/../../x", "files[1].path = 'models/../../x': must be a relative path"),
    ("files.1.path", "models//x", "files[1].path = 'models//x': must be a relative path"),
    ("files.1.path", "./x", "files[1].path = './x': must be a relative path"),
    ("files.1.path", "models\\x", "files[1].path = 'models\\\\x': must be a relative path"),
    ("files.1.path", "a\nb", "files[1].path = 'a\\nb': must be a relative path"),
    ("files.1.path", "\ud800", "files[1].path = '\\ud800': must be a relative path"),
    ("files.1.path", "", "files[1].path = '': must be a relative path"),
    ("files.1.path", None, "files[1].path = not set: must be a relative path"),
    ("files.1.path", "images/111111111111.tar", "files[].path = 'images/111111111111.tar': is there twice"),
    ("files.1.path", "SHA256SUMS", "files[].path = 'SHA256SUMS': is not a file of the bundle but tells of them"),
    ("files.4.path", "models/chat.json/x", "files[].path = 'models/chat.json/x': cannot be, for models/chat.json is a"),
    ("files.0.size", -1, "files[0].size = -1: must be a number of bytes, zero or above"),
    ("files.0.size", True, "files[0].size = True: must be a number of bytes"),
    ("files.0.size", "40", "files[0].size = '40': must be a number of bytes"),
    ("files.0.sha256", A.upper(), f"files[0].sha256 = '{A.upper()}': must be a SHA-256 digest, 64 lower-case"),
    ("files.0.sha256", A[1:], f"files[0].sha256 = '{A[1:]}': must be a SHA-256 digest"),
    (
        "files.0.kind",
        "tar",
        "files[0].kind = 'tar': must be one of wheel, requirements, image, model, model_manifest, ",
    ),
    ("images.0.id", "1" * 64, f"images[0].id = '{'1' * 64}': must be an image id, sha256: and"),
    ("images.0.file", "images/x.tar", "images[0].file = 'images/x.tar': must be the path of one of files"),
    ("images.0.file", "models/chat.json", "images[0].file = 'models/chat.json': is of kind model_manifest in files"),
    ("images.0.compression", "gzip", "images[0].compression = 'gzip': must be one of zstd"),
    ("images.0.tar_sha256", B, f"images[0].tar_sha256 = '40 bytes, {B}': must be what files says of images/11"),
    ("images.1", DATA["images"][0], "images[].ref = 'vllm/vllm-openai:v0.25.1': is there twice"),
    ("wheelhouses.0.name", "a/b", "wheelhouses[0].name = 'a/b': must be a file's name, without its folder"),
    ("wheelhouses.0.folder", "wheels/..", "wheelhouses[0].folder = 'wheels/..': must be a relative path"),
    ("wheelhouses.0.image_id", "x", "wheelhouses[0].image_id = 'x': must be an image id"),
    ("wheelhouses.0.target.glibc", 2.36, "wheelhouses[0].target.glibc = 2.36: must be a glibc version such as 2.36"),
    ("wheelhouses.0.requirements", "ray", "wheelhouses[0].requirements = 'ray': must be a list"),
    ("wheelhouses.0.wheels.0.file", "x.whl", "wheelhouses[0].wheels[0].file = 'wheels/vllm/x.whl': must be the path"),
    ("wheelhouses.0.wheels.0.file", "wheels/x", "wheelhouses[0].wheels[0].file = 'wheels/x': must be a file's name"),
    ("wheelhouses.0.wheels.0.version", 2.6, "wheelhouses[0].wheels[0].version = 2.6: must be a text"),
    ("wheelhouses.0.in_target.0", {}, "wheelhouses[0].in_target[0].name = not set: is required"),
    ("models.0.path", "models/chat", "models[0].path = 'models/chat': must be an absolute path"),
    (
        "models.0.revison",
        "x",
        "models[0].revison = 'x': unknown key; allowed are path, served_name, revision, manifest, ",
    ),
    ("models.0.manifest", "models/x.json", "models[0].manifest = 'models/x.json': must be the path of one of files"),
    ("models.0.has_files", "no", "models[0].has_files = 'no': must be true or false"),
    ("needs", [], "needs = []: must be a mapping of host names to lists of paths"),
    ("needs.node-a", ["images/x.tar"], "needs.node-a = 'images/x.tar': must be the path of one of files"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG)
def test_what_is_refused(path: str, value: Any, message: str) -> None:
    with pytest.raises(ManifestError) as error:
        Manifest.from_dict(with_value(path, value))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is no JSON: Expecting value"),
        ("{", "it is no JSON: Expecting property name"),
        ("[" * 100000, "it is no JSON: maximum recursion"),
        ('{"schema": 1, "schema": 1}', "key = 'schema': is there twice"),
        ("[]", "the manifest = []: must be a mapping with the keys schema, environment, "),
        ("null", "the manifest = not set: must be a mapping"),
    ],
)
def test_a_text_that_is_no_manifest(text: str, message: str) -> None:
    with pytest.raises(ManifestError) as error:
        Manifest.from_json(text)
    assert str(error.value).startswith(message)


def test_a_long_value_is_told_shortly() -> None:
    with pytest.raises(ManifestError) as error:
        Manifest.from_dict(with_value("created", "x" * 5000))
    assert len(str(error.value)) < 400


def test_sums() -> None:
    manifest = Manifest.from_dict(DATA)
    text = sha256sums(manifest)
    assert text.splitlines() == [
        f"{A}  images/111111111111.tar",
        f"{digest(manifest.to_json())}  manifest.json",
        f"{B}  models/chat.json",
        f"{E}  packages/debian-12/nginx_1.22.1_amd64.deb",
        f"{C}  wheels/vllm/ray-2.60.0-cp311-cp311-manylinux2014_x86_64.whl",
        f"{D}  wheels/vllm/requirements.txt",
    ]
    assert parse_sums(text)["models/chat.json"] == B
    assert json.loads(manifest.to_json()) == DATA


def test_sums_as_other_tools_write_them() -> None:
    assert parse_sums(f"{A} *a b\n\n{B}  c") == {"a b": A, "c": B}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{A}  a\n{B}  a\n", "line 2 = 'a': is there twice; each may be there once"),
        (f"{A} a\n", f"line 1 = '{A} a': must be a SHA-256 digest, two spaces and a path"),
        (f"\\{A}  a\\nb\n", "line 1 = "),
        ("<html>", "line 1 = '<html>': must be a SHA-256 digest"),
    ],
)
def test_sums_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ManifestError) as error:
        parse_sums(text)
    assert str(error.value).startswith(message)
