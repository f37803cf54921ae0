# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import bz2
import gzip
import importlib
import io
import json
import lzma
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host import images

ID = "ab" * 32
ENV = ["NVIDIA_REQUIRE_CUDA=cuda>=12.8", "CUDA_VERSION=12.8.1"]
NOTHING = images.nothing("")
FOUND: dict[str, Any] = {
    "found": True,
    "source": "archive",
    "image_id": f"sha256:{ID}",
    "cuda_requirement": "cuda>=12.8",
    "cuda_version": "12.8.1",
    "requirement_disabled": False,
    "size_mib": 4,
    "size_exact": True,
    "reason": None,
}
MANIFEST = [{"Config": f"{ID}.json", "RepoTags": ["vllm:1"], "Layers": ["x/layer.tar", "y/layer.tar", "z/layer.tar"]}]
# Nothing of a layer may be needed, so it need not be a tar archive.
LAYER = b"usr/" + bytes(2**20 - 4)


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def link(archive: tarfile.TarFile, name: str, target: str, kind: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    archive.addfile(info)


def saved(prefix: str = "") -> bytes:
    """An archive as older Docker saves it: manifest.json after the layers, equal layers as links."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        add(archive, f"{prefix}{ID}.json", json.dumps({"os": "linux", "config": {"Env": ENV}}).encode())
        link(archive, f"{prefix}x", "", tarfile.DIRTYPE)
        add(archive, f"{prefix}x/layer.tar", LAYER + LAYER)
        link(archive, f"{prefix}y/layer.tar", "../w/layer.tar", tarfile.SYMTYPE)
        link(archive, f"{prefix}z/layer.tar", f"{prefix}w/layer.tar", tarfile.LNKTYPE)
        add(archive, f"{prefix}w/layer.tar", LAYER)
        add(archive, f"{prefix}manifest.json", json.dumps(MANIFEST).encode())
    return buffer.getvalue()


def pigz(data: bytes) -> bytes:
    """Two compressed members one after the other, as parallel compressors write."""
    return gzip.compress(data[:1000]) + gzip.compress(data[1000:])


@pytest.mark.parametrize("compress", [bytes, gzip.compress, pigz, bz2.compress, lzma.compress])
@pytest.mark.parametrize("prefix", ["", "./"])
def test_an_archive(tmp_path: Path, compress: Callable[[bytes], bytes], prefix: str) -> None:
    path = tmp_path / "vllm.tar"
    path.write_bytes(compress(saved(prefix)))
    assert images.from_archive(str(path), "vllm:1") == FOUND
    assert images.from_archive(str(path), f"sha256:{ID}") == FOUND
    missing = f"{path}: it does not hold vllm:2, but sha256:{ID[:12]} (vllm:1)"
    assert images.from_archive(str(path), "vllm:2") == {**NOTHING, "reason": missing}


def test_layers_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vllm.tar"
    path.write_bytes(saved())
    read = 0
    plain_read = tarfile.ExFileObject.read  # type: ignore[attr-defined]  # not in the type stubs

    def counted(stream: Any, size: int = -1) -> bytes:
        nonlocal read
        data: bytes = plain_read(stream, size)
        read += len(data)
        return data

    monkeypatch.setattr(tarfile.ExFileObject, "read", counted)  # type: ignore[attr-defined]
    assert images.from_archive(str(path), "vllm:1")["found"]
    assert 0 < read < 1000


def test_a_large_json_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vllm.tar"
    path.write_bytes(saved())
    monkeypatch.setattr(images, "LARGEST_JSON", 20)
    assert all(len(member.head) <= 20 for member in images.read_members(str(path)).values())


NO_TAR = "it is no tar archive, or a damaged one: "


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", NO_TAR + "empty file"),
        (b"PK\x03\x04" + bytes(2000), NO_TAR),
        (saved()[: 2**20], NO_TAR + "unexpected end of data"),
        (gzip.compress(b"no archive" * 100), NO_TAR),
        (gzip.compress(saved())[:700], NO_TAR + "Compressed file ended before the end-of-stream marker"),
        (gzip.compress(saved())[:200] + b"\xff" * 500, NO_TAR),
        (lzma.compress(saved())[:200] + b"\xff" * 500, NO_TAR),
        (bz2.compress(saved())[:60] + b"\xff" * 500, NO_TAR),
        (b"\x28\xb5\x2f\xfd" + bytes(100), "it is compressed with zstd, which cannot be read here"),
    ],
    ids=["empty", "zip", "cut", "gzip of text", "gzip cut", "gzip", "xz", "bzip2", "zstd"],
)
def test_what_cannot_be_read(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "vllm.tar"
    path.write_bytes(content)
    answer = images.from_archive(str(path), "vllm:1")
    assert answer["reason"].startswith(f"{path}: {said}")
    assert {**answer, "reason": ""} == NOTHING


def test_no_file(tmp_path: Path) -> None:
    missing, folder = tmp_path / "no.tar", tmp_path
    assert images.from_archive(str(missing), "vllm:1")["reason"] == (
        f"{missing} cannot be read: No such file or directory"
    )
    assert images.from_archive(str(folder), "vllm:1")["reason"] == f"{folder} cannot be read: Is a directory"


def test_a_python_without_a_decompressor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named '_{name}'")

    path = tmp_path / "vllm.tar.xz"
    path.write_bytes(lzma.compress(saved()))
    monkeypatch.setattr(importlib, "import_module", missing)
    assert images.from_archive(str(path), "vllm:1")["reason"] == (
        f"{path}: it is compressed with xz, which cannot be read here"
    )


INSPECTED = json.dumps({"Id": f"sha256:{ID}", "Size": 4 * 2**20, "Config": {"Env": ENV}}) + "\n"
NO_IMAGE = "Error response from daemon: No such image: vllm:1"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((0, INSPECTED, ""), {**FOUND, "source": "docker"}),
        ((1, "\n", NO_IMAGE + "\n"), {**NOTHING, "reason": NO_IMAGE}),
        ((127, "", "docker: No such file or directory"), {**NOTHING, "reason": "docker is not installed"}),
        ((1, "", ""), {**NOTHING, "reason": "docker image inspect ended with exit status 1"}),
        ((0, "not JSON\n", ""), {**NOTHING, "reason": "not JSON"}),
    ],
)
def test_docker(answer: tuple[int, str, str], said: dict[str, Any]) -> None:
    asked: list[list[str]] = []

    def run(argv: Sequence[str]) -> tuple[int, str, str]:
        asked.append(list(argv))
        return answer

    assert images.from_docker(run, "vllm:1") == said
    assert asked == [["docker", "image", "inspect", "--format", "{{json .}}", "vllm:1"]]
