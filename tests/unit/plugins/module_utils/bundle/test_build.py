# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.build import build, kind_of, same_but_date
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import MadeWith, ManifestError

SUM = "ab" * 32
IMAGE = {
    "ref": "sha256:" + SUM,
    "id": "sha256:" + SUM,
    "file": "images/abababababab.tar",
    "compression": None,
    "tar_size": 100,
    "tar_sha256": SUM,
}
MODEL = {
    "path": "/models/big",
    "served_name": "big",
    "revision": "5ede",
    "manifest": "models/big.json",
    "has_files": True,
}
STATED: dict[str, Any] = {
    "environment": "site",
    "created": "2026-12-01T00:00:00Z",
    "made_with": {"tandem": "0.1.0", "python": "3.11.2", "pip": "25.3"},
    "images": [IMAGE],
    "wheelhouses": [],
    "models": [MODEL],
}
FILES = {
    "images/abababababab.tar": (100, SUM),
    "images/abababababab.tar.json": (10, SUM),
    "models/big.json": (10, SUM),
    "models/big/config.json": (10, SUM),
    "wheels/x/ray-2.59.0-cp311-cp311-manylinux2014_x86_64.whl": (10, SUM),
    "wheels/x/requirements.txt": (10, SUM),
    "controller/requirements.txt": (10, SUM),
    "controller/wheels/jinja2-3.1.6-py3-none-any.whl": (10, SUM),
    "packages/debian-12-amd64/nginx_1.22_amd64.deb": (10, SUM),
}
HOSTS = {"nodes": ["node-a", "node-b"], "gateways": ["gateway", "node-b"]}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("images/abababababab.tar.zst", "image"),
        ("wheels/x/pip/pip-25.3-py3-none-any.whl", "wheel"),
        ("wheels/x/requirements.txt", "requirements"),
        ("models/big.json", "model_manifest"),
        ("models/big/config.json", "model"),
        ("models/stray.json", None),
        ("controller/collections/tandem-vllm-0.1.0.tar.gz", "controller"),
        ("packages/debian-12-amd64/nginx_1.22_amd64.deb", "package"),
        ("packages/debian-12-amd64/Packages", "package"),
        ("notes.txt", None),
    ],
)
def test_kinds(path: str, kind: str | None) -> None:
    assert kind_of(path, ["models/big.json"]) == kind


def test_who_needs_what() -> None:
    manifest = build(STATED, FILES, HOSTS)
    assert manifest.needs
    assert set(manifest.needs) == {"node-a", "node-b", "gateway"}
    assert manifest.needs["gateway"] == ("packages/debian-12-amd64/nginx_1.22_amd64.deb",)
    assert manifest.needs["node-a"] == tuple(sorted(p for p in FILES if not p.startswith(("controller/", "packages/"))))
    assert set(manifest.needs["node-b"]) == {*manifest.needs["node-a"], *manifest.needs["gateway"]}


def test_what_is_no_part_of_a_bundle_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"notes\.txt: no part of a bundle"):
        build(STATED, {**FILES, "notes.txt": (1, SUM)}, HOSTS)


def test_what_is_stated_must_be_there() -> None:
    with pytest.raises(ManifestError, match=r"images\[0\]\.file"):
        build(STATED, {p: f for p, f in FILES.items() if not p.startswith("images/")}, HOSTS)


def test_only_the_date_differs() -> None:
    manifest = build(STATED, FILES, HOSTS)
    later = replace(manifest, created="2026-12-02T00:00:00Z", made_with=MadeWith("0.2.0", "3.12.1", "26.0"))
    assert same_but_date(manifest, later)
    assert not same_but_date(manifest, replace(later, environment="other"))
