# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import (
    BundledModel,
    File,
    Image,
    MadeWith,
    Manifest,
    Package,
    Wheel,
    Wheelhouse,
)
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.needs import lacking, needs
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Model, Node, Placement, Replica, Service

SHA = "a" * 64
ID, OTHER_ID = "sha256:" + "1" * 64, "sha256:" + "2" * 64
REF = "registry.example:5000/vllm/vllm-openai@sha256:" + "3" * 64
RAY = {"version": "2.60.0", "extras": ["default"]}
TARGET = Target("3.11.2", "cp", "cp311", "x86_64", "2.36")
WHEELHOUSE = Wheelhouse(
    "vllm",
    "wheels/vllm",
    ID,
    TARGET,
    ("ray[Default,serve]==2.60.0",),
    "simple",
    "2026-12-01",
    (Wheel("ray", "2.60.0", "ray.whl"), Wheel("aiohttp", "3.12.0", "aiohttp.whl")),
)
FILES = {
    "images/1.tar": "image",
    "models/chat.json": "model_manifest",
    "wheels/vllm/ray.whl": "wheel",
    "wheels/vllm/aiohttp.whl": "wheel",
    "controller/wheels/ansible_core-2.19.0-py3-none-any.whl": "controller",
    "controller/wheels/packaging-26.4-py3-none-any.whl": "controller",
    "controller/collections/tandem-vllm-0.1.0.tar.gz": "controller",
    "controller/requirements.txt": "controller",
    "packages/debian-12-amd64/Packages": "package",
    "packages/debian-12-amd64/nginx-light_1.22.1-9_all.deb": "package",
    "packages/debian-12-amd64/nginx_1.22.1-9_amd64.deb": "package",
    "packages/ubuntu-24.04-amd64/Packages": "package",
    "packages/ubuntu-24.04-amd64/nginx-light_1.24.0_all.deb": "package",
    "packages/debian-13-amd64/Packages": "package",
    "packages/debian-13-amd64/nginx_1.26.0_amd64.deb": "package",
}
MANIFEST = Manifest(
    "two-node-a100",
    "2026-12-01T00:00:00Z",
    MadeWith("0.1.0", "3.11.2", "26.1"),
    tuple(File(path, 1, SHA, kind) for path, kind in FILES.items()),
    images=(Image(REF, ID, "images/1.tar", None, 1, SHA),),
    wheelhouses=(WHEELHOUSE,),
    models=(BundledModel("/models/chat", "chat", "5ede1c9", "models/chat.json", False),),
    needs={
        "gateway": tuple(path for path in FILES if path.startswith("packages/debian-12-amd64/")),
        "half": tuple(path for path in FILES if path.startswith("packages/debian-13-amd64/")),
        "node-a": ("images/1.tar",),
    },
)
SERVICE = Service(
    "chat",
    Model("/models/chat", "chat", "5ede1c9"),
    (Replica("chat-node-b", ("node-b",)), Replica("chat-node-a", ("node-a",))),
)
PLACEMENT = Placement(
    "two-node-a100", {name: Node("10.0.0.1") for name in ("node-a", "node-b", "node-c")}, (SERVICE,), lab=False
)
NODES = ["node-a", "node-b"]  # node-c runs nothing


def rows(manifest: Manifest, kind: str, placement: Placement = PLACEMENT, **asked: Any) -> list[dict[str, Any]]:
    """The rows of one kind: those whose `what` starts with that word."""
    return [row for row in needs(manifest, placement, **asked) if row["what"].startswith(kind)]


def verdict(manifest: Manifest, kind: str, placement: Placement = PLACEMENT, **asked: Any) -> tuple[str, str]:
    (row,) = rows(manifest, kind, placement, **asked)
    assert row["for"] == NODES
    return row["state"], row["detail"]


def test_all_is_there() -> None:
    found = needs(MANIFEST, PLACEMENT, REF, RAY, ["gateway"])
    assert lacking(found) == []
    assert [(row["what"], row["for"]) for row in found] == [
        (f"image {REF}", NODES),
        ("ray[default]==2.60.0", NODES),
        ("model /models/chat at 5ede1c9", NODES),
        ("wheels for the control node", ["control node"]),
        ("collections for the control node", ["control node"]),
        ("the control node's pinned requirements", ["control node"]),
        ("packages of nginx", ["gateway"]),
    ]
    assert [row["detail"] for row in found] == [
        "images/1.tar, id sha256:111111111111",
        "wheels/vllm/ray.whl, 2 wheels in wheels/vllm",
        "models/chat.json, manifest only: its files have to be on the nodes already",
        "2 files, controller/wheels/*.whl",
        "controller/collections/tandem-vllm-0.1.0.tar.gz",
        "controller/requirements.txt",
        "packages/debian-12-amd64: 2 packages",
    ]


def test_only_what_is_asked_for() -> None:
    assert [row["what"] for row in needs(MANIFEST, PLACEMENT, controller=False)] == ["model /models/chat at 5ede1c9"]


@pytest.mark.parametrize(
    ("ref", "state", "detail"),
    [
        (REF, "there", "images/1.tar, id sha256:111111111111"),
        (ID, "there", "images/1.tar, id sha256:111111111111"),
        (f"some/name@{ID}", "there", "images/1.tar, id sha256:111111111111"),
        ("registry.example:5000/vllm/vllm-openai:v0.25.1", "other version", f"the bundle holds {REF} (id sha256:11111"),
        ("vllm/vllm-openai:v0.25.1", "missing", f"the bundle holds {REF}"),
        (OTHER_ID, "missing", f"the bundle holds {REF}"),
    ],
)
def test_images(ref: str, state: str, detail: str) -> None:
    found = verdict(MANIFEST, "image", image=ref)
    assert (found[0], found[1][: len(detail)]) == (state, detail)


def test_no_image_at_all() -> None:
    assert verdict(replace(MANIFEST, images=()), "image", image=REF) == ("missing", "the bundle holds no image")


def changed(**fields: Any) -> tuple[Wheelhouse, ...]:
    return (replace(WHEELHOUSE, **fields),)


WHEELHOUSES = [
    ((), RAY, ID, "missing", "the bundle holds no wheels for nodes"),
    (changed(), {"version": "2.60.0", "extras": []}, ID, "there", "wheels/vllm/ray.whl, 2 wheels in wheels/vllm"),
    (changed(), {"version": "2.60.0"}, ID, "there", "wheels/vllm/ray.whl, 2 wheels in wheels/vllm"),
    (changed(), {"version": "2.61.0"}, ID, "other version", "wheels/vllm has ray 2.60.0"),
    (
        changed(),
        {"version": "2.60.0", "extras": ["tune", "serve"]},
        ID,
        "missing",
        "wheels/vllm was made for ray[Default,serve]==2.60.0: without what [tune] needs",
    ),
    (changed(wheels=WHEELHOUSE.wheels[1:]), RAY, ID, "missing", "no ray among the wheels of wheels/vllm"),
    (
        changed(wheels=(), in_target=(Package("Ray", "2.60.0"),)),
        RAY,
        ID,
        "there",
        "the image has it already, 0 wheels in wheels/vllm",
    ),
    (
        changed(image_id=OTHER_ID),
        RAY,
        ID,
        "missing",
        "the bundle's wheels are for image sha256:222222222222; the image's id is sha256:111111111111",
    ),
    (
        changed(),
        RAY,
        "vllm/vllm-openai:v0.25.1",
        "missing",
        "the bundle's wheels are for image sha256:111111111111; the id of the contract's image is not known",
    ),
    (
        changed(image_id=None),
        RAY,
        "vllm/vllm-openai:v0.25.1",
        "there",
        f"wheels/vllm/ray.whl, 2 wheels in wheels/vllm; for a stated target: {TARGET.words}",
    ),
    # The image's own wheelhouse is looked at first, and one that has it wins.
    (
        (*changed(wheels=()), *changed(image_id=None, folder="wheels/b")),
        RAY,
        ID,
        "there",
        f"wheels/b/ray.whl, 2 wheels in wheels/b; for a stated target: {TARGET.words}",
    ),
]


@pytest.mark.parametrize(("wheelhouses", "ray", "image", "state", "detail"), WHEELHOUSES)
def test_ray(wheelhouses: tuple[Wheelhouse, ...], ray: dict[str, Any], image: str, state: str, detail: str) -> None:
    assert verdict(replace(MANIFEST, wheelhouses=wheelhouses), "ray", image=image, ray=ray) == (state, detail)


def test_ray_for_an_image_that_is_not_in_the_bundle_but_named_by_its_id() -> None:
    assert verdict(replace(MANIFEST, images=()), "ray", image=ID, ray=RAY)[0] == "there"


MODELS = [
    ({}, {}, "there", "models/chat.json, manifest only: its files have to be on the nodes already"),
    ({"has_files": True}, {}, "there", "models/chat.json, with its files"),
    (
        {"path": "/models/chat/"},
        {},
        "there",
        "models/chat.json, manifest only: its files have to be on the nodes already",
    ),
    ({"path": "/models/other"}, {}, "missing", "the bundle's models: /models/other"),
    ({"revision": "0000000"}, {}, "other version", "models/chat.json is of revision 0000000"),
    ({"revision": None}, {}, "other version", "models/chat.json states no revision"),
    (
        {"has_files": True},
        {"revision": None},
        "there",
        "models/chat.json, with its files; the contract states no revision: not compared",
    ),
]


@pytest.mark.parametrize(("bundled", "wanted", "state", "detail"), MODELS)
def test_models(bundled: dict[str, Any], wanted: dict[str, Any], state: str, detail: str) -> None:
    manifest = replace(MANIFEST, models=(replace(MANIFEST.models[0], **bundled),))
    service = replace(SERVICE, model=replace(SERVICE.model, **wanted))
    assert verdict(manifest, "model", replace(PLACEMENT, services=(service,))) == (state, detail)


def test_a_model_whose_vocabulary_alone_is_there() -> None:
    file = File("models/chat/vocabulary/o200k_base.tiktoken", 1, "0" * 64, "model")
    wanted = "models/chat.json, manifest and vocabulary only: its other files have to be on the nodes already"
    assert verdict(replace(MANIFEST, files=(*MANIFEST.files, file)), "model") == ("there", wanted)


def test_no_model_at_all() -> None:
    assert verdict(replace(MANIFEST, models=()), "model") == ("missing", "the bundle holds no model")


def without(start: str) -> Manifest:
    return replace(MANIFEST, files=tuple(file for file in MANIFEST.files if not file.path.startswith(start)))


def test_controller_parts_that_are_missing() -> None:
    found = lacking(needs(without("controller/"), PLACEMENT))
    assert [(row["state"], row["detail"]) for row in found] == [
        ("missing", "no controller/wheels/*.whl"),
        ("missing", "no controller/collections/*.tar.gz"),
        ("missing", "no controller/requirements*.txt"),
    ]


@pytest.mark.parametrize(
    ("manifest", "gateway", "state", "detail"),
    [
        # A gateway that the manifest does not know may take any distribution's.
        (MANIFEST, "other", "there", "packages/debian-12-amd64, packages/ubuntu-24.04-amd64: 3 packages"),
        (MANIFEST, "half", "missing", "no nginx-light with an index in packages/debian-13-amd64"),
        (MANIFEST, "node-a", "missing", "no nginx-light with an index"),
        (without("packages/"), "other", "missing", "no nginx-light with an index"),
    ],
)
def test_packages(manifest: Manifest, gateway: str, state: str, detail: str) -> None:
    (row,) = rows(manifest, "packages", gateways=[gateway])
    assert (row["for"], row["state"], row["detail"]) == ([gateway], state, detail)
