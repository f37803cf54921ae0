# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import (
    BundledModel,
    File,
    Image,
    MadeWith,
    Manifest,
    Wheel,
    Wheelhouse,
    sha256sums,
)
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target
from ansible_collections.tandem.vllm.plugins.module_utils.host import bundle_folder
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Model, Node, Placement, Replica, Service
from ansible_collections.tandem.vllm.plugins.modules.bundle_info import main

ID = "sha256:" + "1" * 64
IMAGE = "images/111111111111.tar"
RAY = "wheels/lab/ray-2.60.0-cp311-cp311-manylinux2014_x86_64.whl"
CONTENT = {
    IMAGE: ("image", b"an image" * 1000),
    RAY: ("wheel", b"a wheel"),
    "wheels/lab/requirements.txt": ("requirements", b"ray==2.60.0 --hash=sha256:00\n"),
    "models/chat.json": ("model_manifest", b"{}"),
    "models/chat/empty.txt": ("model", b""),
}
PLACEMENT = Placement(
    "lab",
    {"node1": Node("10.0.0.1")},
    (Service("chat", Model("/models/chat", "chat"), (Replica("chat-node1", ("node1",)),)),),
    lab=True,
).to_dict()
NEITHER: dict[str, Any] = {"controller": False}


def run(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


def told(capsys: pytest.CaptureFixture[str], path: Path, **more: Any) -> dict[str, Any]:
    status, result = run(capsys, {"path": str(path), **more})
    assert (status, result.pop("changed")) == (0, False), result.get("msg")
    result.pop("invocation", None)  # ansible-core 2.19 adds it
    return result


def write(folder: Path, content: dict[str, tuple[str, bytes]]) -> Manifest:
    """Files with their manifest and SHA256SUMS, as a bundle has them."""
    files = []
    for path, (kind, data) in content.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        files.append(File(path, len(data), hashlib.sha256(data).hexdigest(), kind))
    image = next(file for file in files if file.path == IMAGE)
    manifest = Manifest(
        "lab",
        "2026-12-01T00:00:00Z",
        MadeWith("0.1.0", "3.11.2", "26.1"),
        tuple(files),
        (Image("tandem-lab/vllm:0.32.0", ID, IMAGE, None, image.size, image.sha256),),
        (
            Wheelhouse(
                "lab",
                "wheels/lab",
                ID,
                Target("3.11.2", "cp", "cp311", "x86_64", "2.36"),
                ("ray==2.60.0",),
                "simple",
                "2026-12-01",
                (Wheel("ray", "2.60.0", Path(RAY).name),),
            ),
        ),
        (BundledModel("/models/chat", "chat", None, "models/chat.json", has_files=True),),
        {"node1": tuple(content)},
    )
    manifest.check()
    (folder / "manifest.json").write_text(manifest.to_json())
    (folder / "SHA256SUMS").write_text(sha256sums(manifest))
    return manifest


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    write(folder, CONTENT)
    return folder


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_whole_bundle(capsys: pytest.CaptureFixture[str], bundle: Path, check_mode: bool) -> None:
    before = {path: path.stat().st_mtime_ns for path in bundle.rglob("*")}
    result = told(
        capsys,
        bundle,
        placement=PLACEMENT,
        image=ID,
        ray={"version": "2.60.0"},
        **NEITHER,
        _ansible_check_mode=check_mode,
    )
    assert result.pop("seconds") >= 0
    assert result.pop("hashed_mib") == 0.0
    manifest = result.pop("manifest")
    assert Manifest.from_dict(manifest).environment == "lab"
    assert result.pop("manifest_sha256") == hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    assert result.pop("model_manifests") == {"models/chat.json": {}}
    assert [(row["what"], row["for"], row["state"]) for row in result.pop("needs")] == [
        (f"image {ID}", ["node1"], "there"),
        ("ray==2.60.0", ["node1"], "there"),
        ("model /models/chat", ["node1"], "there"),
    ]
    assert result == {"valid": True, "problems": [], "not_checked": [], "to_hash": []}
    assert {path: path.stat().st_mtime_ns for path in bundle.rglob("*")} == before


def flip(path: str) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        data = bytearray((folder / path).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / path).write_bytes(data)

    return tamper


def truncate(folder: Path) -> None:
    os.truncate(folder / IMAGE, 7999)


def remove(path: str) -> Callable[[Path], None]:
    return lambda folder: (folder / path).unlink()


def add(path: str, data: bytes = b"x") -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(data)

    return tamper


def link(folder: Path) -> None:
    (folder / RAY).rename(folder.parent / "elsewhere.whl")
    (folder / RAY).symlink_to(folder.parent / "elsewhere.whl")


def link_folder(folder: Path) -> None:
    (folder / "models/chat").rename(folder.parent / "chat")
    (folder / "models/chat").symlink_to(folder.parent / "chat")


def pipe(folder: Path) -> None:
    (folder / RAY).unlink()
    os.mkfifo(folder / RAY)


def alter_manifest(folder: Path) -> None:
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"environment": "lab"', '"environment": "bal"'))


def alter_both(folder: Path) -> None:
    """A file and its digest in the manifest: SHA256SUMS gives it away."""
    before = (folder / RAY).read_bytes()
    flip(RAY)(folder)
    old, new = (hashlib.sha256(data).hexdigest() for data in (before, (folder / RAY).read_bytes()))
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace(old, new))


def alter_sums(folder: Path) -> None:
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    lines = ["0" * 64 + line[64:] if line.endswith(RAY) else line for line in lines]
    (folder / "SHA256SUMS").write_text("\n".join(lines) + "\n")


def foreign(name: str) -> Callable[[Path], object]:
    """A bundle that was made with such a file in its wheelhouse."""
    return lambda folder: write(folder, {**CONTENT, f"wheels/lab/{name}": ("wheel", b"x")})


def break_manifest(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "manifest.json").write_text(text)


ALTERED = "was altered: its SHA-256 is "
TAMPERED = [
    pytest.param(flip(RAY), [(RAY, ALTERED)], id="one byte of a wheel"),
    pytest.param(flip(IMAGE), [(IMAGE, ALTERED)], id="one byte of the image"),
    pytest.param(
        truncate, [(IMAGE, "has 7999 bytes, and the manifest says 8000: it is shorter")], id="truncated image"
    ),
    pytest.param(remove("models/chat.json"), [("models/chat.json", "is missing")], id="missing"),
    pytest.param(add("models/chat/empty.txt"), [("models/chat/empty.txt", "has 1 bytes, and the ")], id="longer"),
    pytest.param(add("models/chat/x.py"), [("models/chat/x.py", "is not in the manifest")], id="extra file"),
    pytest.param(
        add("wheels/lab/x-1-py3-none-any.whl"),
        [("wheels/lab/x-1-py3-none-any.whl", "is not in the manifest")],
        id="extra wheel",
    ),
    pytest.param(
        add("wheels/lab/x-1.tar.gz"),
        [("wheels/lab/x-1.tar.gz", "is not in the manifest"), ("wheels/lab/x-1.tar.gz", "sdist")],
        id="extra sdist",
    ),
    pytest.param(
        add(IMAGE + ".part"),
        [(IMAGE + ".part", "is not in the manifest; its name says that it is left over")],
        id="part",
    ),
    pytest.param(add("images/.hidden"), [("images/.hidden", "is not in the manifest")], id="hidden"),
    pytest.param(link, [(RAY, "is a link and not a file")], id="link"),
    pytest.param(
        link_folder,
        [
            ("models/chat", "is not in the manifest; it is a link and not a file"),
            ("models/chat/empty.txt", "is missing"),
        ],
        id="link to a folder",
    ),
    pytest.param(pipe, [(RAY, "is a device, socket or pipe and not a file")], id="pipe"),
    pytest.param(alter_manifest, [("manifest.json", ALTERED)], id="manifest altered"),
    pytest.param(
        alter_both,
        [("manifest.json", ALTERED), (RAY, "SHA256SUMS and the manifest disagree: SHA-256 ")],
        id="wheel and manifest altered",
    ),
    pytest.param(
        alter_sums, [(RAY, f"SHA256SUMS and the manifest disagree: SHA-256 {'0' * 64} and ")], id="sums altered"
    ),
    pytest.param(remove("SHA256SUMS"), [("SHA256SUMS", "is not there, or cannot be read")], id="no sums"),
    pytest.param(add("SHA256SUMS", b"\xff\xfe"), [("SHA256SUMS", "cannot be read: line 1 = ")], id="sums of nothing"),
    pytest.param(remove("manifest.json"), [("manifest.json", "is missing")], id="no manifest"),
    pytest.param(
        break_manifest("{"),
        [("manifest.json", "cannot be read: it is no JSON: "), ("manifest.json", ALTERED)],
        id="broken manifest",
    ),
    pytest.param(
        break_manifest('{"schema": 9}'),
        [("manifest.json", "cannot be read: schema = 9: this Tandem reads"), ("manifest.json", ALTERED)],
        id="schema of the future",
    ),
    pytest.param(
        add("manifest.json", b"\xff"),
        [("manifest.json", "cannot be read: 'utf-8' codec can't"), ("manifest.json", ALTERED)],
        id="manifest of bytes",
    ),
    pytest.param(
        foreign("x-1-cp39-cp39-manylinux2014_x86_64.whl"),
        [("wheels/lab/x-1-cp39-cp39-manylinux2014_x86_64.whl", "tag cp39-cp39 on a target with Python 3.11.2")],
        id="wrong Python",
    ),
    pytest.param(
        foreign("x-1-py3-none-manylinux_2_39_x86_64.whl"),
        [
            (
                "wheels/lab/x-1-py3-none-manylinux_2_39_x86_64.whl",
                "needs glibc 2.39, the target has 2.36 (wheelhouse lab)",
            )
        ],
        id="newer glibc",
    ),
    pytest.param(foreign("x-1.tar.gz"), [("wheels/lab/x-1.tar.gz", "sdist (wheelhouse lab)")], id="sdist"),
]


@pytest.mark.parametrize(("tamper", "problems"), TAMPERED)
def test_a_bundle_that_was_tampered_with(
    capsys: pytest.CaptureFixture[str], bundle: Path, tamper: Callable[[Path], object], problems: list[tuple[str, str]]
) -> None:
    tamper(bundle)
    result = told(capsys, bundle, placement=PLACEMENT)
    assert [found["path"] for found in result["problems"]] == [path for path, _reason in problems]
    for number, (_path, reason) in enumerate(problems):
        assert result["problems"][number]["reason"].startswith(reason)
        assert result["problems"][number]["remedy"]
    assert not result["valid"]


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = told(capsys, tmp_path / "nothing", placement=PLACEMENT)
    assert [(found["path"], found["reason"]) for found in result["problems"]] == [
        (".", f"there is no folder {tmp_path / 'nothing'}")
    ]
    assert (result["valid"], result["manifest"], result["manifest_sha256"], result["needs"]) == (False, None, None, [])


def test_quick_says_what_it_did_not_check(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    flip(IMAGE)(bundle)
    result = told(capsys, bundle, quick=True)
    assert (result["valid"], result["problems"]) == (False, [])
    large = {path: len(data) for path, (kind, data) in CONTENT.items() if kind in ("image", "model", "controller")}
    assert result["not_checked"] == sorted(large)
    assert {file["path"]: file["size"] for file in result["to_hash"]} == large


def test_quick_reads_what_is_small(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    flip(RAY)(bundle)
    assert [found["path"] for found in told(capsys, bundle, quick=True)["problems"]] == [RAY]


def test_quick_sees_sizes_and_the_manifest(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    truncate(bundle)
    alter_manifest(bundle)
    result = told(capsys, bundle, quick=True)
    assert [found["path"] for found in result["problems"]] == [IMAGE, "manifest.json"]
    assert IMAGE not in [file["path"] for file in result["to_hash"]]


def test_in_pieces(capsys: pytest.CaptureFixture[str], bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(RAY)(bundle)
    hashes: dict[str, Any] = {}
    for group in ([IMAGE], [path for path in CONTENT if path != IMAGE]):
        piece = told(capsys, bundle, files=group)
        assert sorted(piece) == ["hashed_mib", "hashes", "seconds"]
        hashes.update(piece["hashes"])
    # Nothing is read twice.
    monkeypatch.setattr(bundle_folder.BundleFolder, "hashed", None)
    result = told(capsys, bundle, hashes=hashes)
    assert [found["path"] for found in result["problems"]] == [RAY]
    assert result["not_checked"] == []


def test_a_file_that_is_written_to_after_its_piece_is_read_again(
    capsys: pytest.CaptureFixture[str], bundle: Path
) -> None:
    hashes = told(capsys, bundle, files=list(CONTENT))["hashes"]
    flip(RAY)(bundle)
    os.utime(bundle / RAY, ns=(1, 1))
    assert [found["path"] for found in told(capsys, bundle, hashes=hashes)["problems"]] == [RAY]


def test_a_file_that_cannot_be_read(
    capsys: pytest.CaptureFixture[str], bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: object, name: str) -> dict[str, Any]:
        return {"fault": "cannot be read: Input/output error"}

    monkeypatch.setattr(bundle_folder.BundleFolder, "hashed", broken)
    result = told(capsys, bundle)
    assert [found["path"] for found in result["problems"]] == sorted(CONTENT)
    assert {found["reason"] for found in result["problems"]} == {"cannot be read: Input/output error"}
    assert (result["valid"], result["not_checked"]) == (False, [])


@pytest.mark.parametrize("name", ["../x", "/etc/hostname"])
def test_nothing_outside_the_folder_is_read(capsys: pytest.CaptureFixture[str], bundle: Path, name: str) -> None:
    status, result = run(capsys, {"path": str(bundle), "files": [name]})
    assert (status, result["msg"][:16]) == (1, f"files = '{name}': must"[:16])


def test_a_placement_that_is_none(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    status, result = run(capsys, {"path": str(bundle), "placement": {"nodes": {}}})
    assert (status, result["msg"]) == (
        1,
        "placement: it is none that tandem.vllm.placement returned (KeyError('services'))",
    )
