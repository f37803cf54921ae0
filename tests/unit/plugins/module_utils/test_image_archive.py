# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils import image_archive
from ansible_collections.tandem.vllm.plugins.module_utils.image_archive import ArchivedImage, Member

A, B, C, D, E = (letter * 64 for letter in "abcde")
# As images made from nvidia/cuda have them.
CUDA_ENV = [
    "PATH=/usr/local/nvidia/bin:/usr/bin",
    "NVARCH=x86_64",
    "NVIDIA_REQUIRE_CUDA=cuda>=12.8 brand=unknown,driver>=470,driver<471 brand=tesla,driver>=535,driver<536",
    "NV_CUDA_CUDART_VERSION=12.8.90-1",
    "CUDA_VERSION=12.8.1",
    "EMPTY",
]
REQUIRES = {
    "cuda_requirement": "cuda>=12.8 brand=unknown,driver>=470,driver<471 brand=tesla,driver>=535,driver<536",
    "cuda_version": "12.8.1",
    "requirement_disabled": False,
}
REQUIRES_NOTHING = {"cuda_requirement": None, "cuda_version": None, "requirement_disabled": False}


@pytest.mark.parametrize(
    ("environment", "requirement"),
    [
        (CUDA_ENV, REQUIRES),
        ([], REQUIRES_NOTHING),
        (["NVIDIA_REQUIRE_CUDA=", "CUDA_VERSION="], REQUIRES_NOTHING),
        (["CUDA_VERSION=9.0.176"], {**REQUIRES_NOTHING, "cuda_version": "9.0.176"}),
        ([*CUDA_ENV, "NVIDIA_DISABLE_REQUIRE=1"], {**REQUIRES, "requirement_disabled": True}),
        ([*CUDA_ENV, "NVIDIA_DISABLE_REQUIRE=true"], {**REQUIRES, "requirement_disabled": True}),
        ([*CUDA_ENV, "NVIDIA_DISABLE_REQUIRE=0"], REQUIRES),
        # What NVIDIA's toolkit does not take for true.
        ([*CUDA_ENV, "NVIDIA_DISABLE_REQUIRE=yes"], REQUIRES),
    ],
)
def test_requirement(environment: list[str], requirement: dict[str, Any]) -> None:
    assert image_archive.requirement(environment) == requirement


@pytest.mark.parametrize(
    ("inspected", "said"),
    [
        (
            {"Id": f"sha256:{A}", "Size": 20 * 2**30 + 1, "Config": {"Env": CUDA_ENV}},
            {"image_id": f"sha256:{A}", **REQUIRES, "size_mib": 20 * 1024 + 1, "size_exact": True},
        ),
        # containerd's image store.
        (
            {"Id": f"sha256:{A}", "Size": 2**20, "Config": {"Env": CUDA_ENV}, "Descriptor": {"digest": f"sha256:{A}"}},
            {"image_id": f"sha256:{A}", **REQUIRES, "size_mib": 1, "size_exact": False},
        ),
        # Podman, and an image without anything.
        (
            {"Id": A, "Size": 0, "Config": {"Env": None}},
            {"image_id": f"sha256:{A}", **REQUIRES_NOTHING, "size_mib": 0, "size_exact": True},
        ),
        (
            {"Id": A, "Config": None},
            {"image_id": f"sha256:{A}", **REQUIRES_NOTHING, "size_mib": None, "size_exact": False},
        ),
        ({}, None),
        ([], None),
    ],
)
def test_of_inspect(inspected: Any, said: dict[str, Any] | None) -> None:
    assert image_archive.of_inspect(json.dumps(inspected)) == said


@pytest.mark.parametrize("text", ["", "\n", "no JSON"])
def test_of_inspect_without_json(text: str) -> None:
    assert image_archive.of_inspect(text) is None


def member(document: Any) -> Member:
    text = json.dumps(document).encode()
    return Member(len(text), text)


def blob(digest: str) -> str:
    return f"blobs/sha256/{digest}"


def descriptor(digest: str, **more: Any) -> dict[str, Any]:
    return {"digest": f"sha256:{digest}", "size": 1, **more}


CONFIG = {"os": "linux", "config": {"Env": CUDA_ENV}}
LEGACY = {
    f"{A}.json": member(CONFIG),
    "manifest.json": member(
        [{"Config": f"{A}.json", "RepoTags": ["vllm:1"], "Layers": ["x/layer.tar", "y/layer.tar"]}]
    ),
    "x/layer.tar": Member(3 * 2**20, b"usr/\0\0\0\0"),
    # Older Docker links to a layer that is there already.
    "y/layer.tar": Member(0, b"", "x/layer.tar"),
}
OCI = {
    "index.json": member(
        {"manifests": [descriptor(B, annotations={"io.containerd.image.name": "docker.io/x/vllm:1"})]}
    ),
    blob(B): member({"config": descriptor(A), "layers": [descriptor(C), descriptor(D)]}),
    blob(A): member(CONFIG),
    blob(C): Member(2**20, b"\x1f\x8b\x08\0\0\0\0\0"),
    blob(D): Member(1, b"\x1f\x8b\x08\0\0\0\0\0"),
}
# As Docker writes it from version 25 on: both.
BOTH = {
    **OCI,
    blob(C): Member(2**20, b"usr/\0\0\0\0"),
    blob(D): Member(1, b"x"),
    "manifest.json": member([{"Config": blob(A), "RepoTags": ["x/vllm:1"], "Layers": [blob(C), blob(D)]}]),
}
PLATFORMS = {
    **OCI,
    "index.json": member({"manifests": [descriptor(E, annotations={"org.opencontainers.image.ref.name": "x/vllm:1"})]}),
    # An index over a platform that is there, one that is not, an attestation, and itself.
    blob(E): member({"manifests": [descriptor("1" * 64), descriptor("2" * 64), descriptor(B), descriptor(E)]}),
    blob("2" * 64): member({"config": descriptor("3" * 64), "layers": []}),
    blob("3" * 64): member({"os": "unknown", "architecture": "unknown"}),
}


@pytest.mark.parametrize(
    ("members", "digests", "names"),
    [
        (LEGACY, (A,), ("vllm:1",)),
        (OCI, (A, B), ("docker.io/x/vllm:1",)),
        (BOTH, (A, B), ("x/vllm:1", "docker.io/x/vllm:1")),
        (PLATFORMS, (A, B, E), ("x/vllm:1",)),
        ({**LEGACY, "manifest.json": member([{"Config": f"{A}.json", "RepoTags": None, "Layers": None}])}, (A,), ()),
    ],
    ids=["legacy", "OCI", "both", "platforms", "no tag"],
)
def test_images(members: dict[str, Member], digests: tuple[str, ...], names: tuple[str, ...]) -> None:
    (image,) = image_archive.images(members)
    assert (image.digests, image.names, image.config) == (digests, names, CONFIG)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"manifest.json": Member(9000000, b"[{")},
        {"manifest.json": Member(2, b"[{")},
        {"manifest.json": member({"Config": "x"})},
        {"manifest.json": member([3, {"Config": "x.json"}, {}])},
        {"index.json": member([])},
        {"index.json": member({"manifests": [None, {}, descriptor(B)]})},
        {"index.json": member({"manifests": [descriptor(B)]}), blob(B): member({"config": None})},
        {"index.json": Member(0, b"", "a"), "a": Member(0, b"", "index.json")},
    ],
)
def test_no_images(members: dict[str, Member]) -> None:
    assert image_archive.images(members) == []


@pytest.mark.parametrize(
    ("members", "mib", "exact"),
    [
        (LEGACY, 6, True),
        # Compressed, so more when unpacked.
        (OCI, 2, False),
        (BOTH, 2, True),
        # A layer that is not there.
        ({name: m for name, m in BOTH.items() if name != blob(D)}, 1, False),
        ({name: m for name, m in BOTH.items() if name not in (blob(C), blob(D))}, None, False),
    ],
    ids=["legacy", "OCI", "both", "a layer missing", "all layers missing"],
)
def test_of_archive(members: dict[str, Member], mib: int | None, exact: bool) -> None:
    (image,) = image_archive.images(members)
    assert image_archive.of_archive(image, members) == {
        "image_id": f"sha256:{A}",
        **REQUIRES,
        "size_mib": mib,
        "size_exact": exact,
    }


ONE = ArchivedImage((A, B, E), ("vllm/vllm-openai:v0.25.1", "local:5000/v:1"), {}, ())
TWO = ArchivedImage((C,), ("debian:bookworm", "docker.io/library/busybox:1"), {}, ())


@pytest.mark.parametrize(
    ("ref", "found"),
    [
        (f"sha256:{A}", ONE),
        (f"sha256:{B}", ONE),
        (f"sha256:{C}", TWO),
        (f"sha256:{D}", None),
        (f"vllm/vllm-openai@sha256:{E}", ONE),
        (f"vllm/vllm-openai:v1@sha256:{B}", ONE),
        (f"vllm/vllm-openai@sha256:{D}", None),
        ("vllm/vllm-openai:v0.25.1", ONE),
        ("docker.io/vllm/vllm-openai:v0.25.1", ONE),
        ("vllm/vllm-openai", None),
        ("local:5000/v:1", ONE),
        ("local:5000/v", None),
        ("v:1", None),
        ("debian:bookworm", TWO),
        ("docker.io/library/debian:bookworm", TWO),
        ("docker.io/debian:bookworm", TWO),
        ("busybox:1", TWO),
        ("localhost/debian:bookworm", None),
    ],
)
def test_find(ref: str, found: ArchivedImage | None) -> None:
    assert image_archive.find([ONE, TWO], ref) == found


def test_a_tag_that_is_not_given() -> None:
    image = ArchivedImage((A,), ("debian:latest",), {}, ())
    assert image_archive.find([image], "debian") == image


@pytest.mark.parametrize(
    ("archived", "ref", "said"),
    [
        (
            [ONE, ArchivedImage((D,), (), {}, ())],
            "x:1",
            f"it does not hold x:1, but sha256:{A[:12]} (vllm/vllm-openai:v0.25.1, local:5000/v:1); "
            f"sha256:{D[:12]} (no tag)",
        ),
        (
            [TWO],
            f"x@sha256:{A}",
            f"it does not hold x@sha256:{A}, but sha256:{C[:12]} (debian:bookworm, docker.io/library/busybox:1). "
            "docker save does not keep an image's digest in the registry: name the image by its id",
        ),
        ([], "x:1", "it is no image archive: it has neither manifest.json nor index.json that leads to an image"),
    ],
)
def test_why_not(archived: list[ArchivedImage], ref: str, said: str) -> None:
    assert image_archive.why_not(archived, ref) == said


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\x1f\x8b\x08\0", "gzip"),
        (b"BZh9", "bzip2"),
        (b"\xfd7zXZ\0\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"usr/", None),
        (b"", None),
    ],
)
def test_compression(head: bytes, name: str | None) -> None:
    assert image_archive.compression(head) == name
