# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of a bundle with one thing wrong: what breaks on the way, and what somebody did who wrote the lists anew."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import MANIFEST, SUMS

Change = Callable[[Path], str]


def copy(bundle: Path, to: Path) -> None:
    """The same bundle in another folder, in a second: of links. What is changed is written anew, see `own`."""
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-al", str(bundle), str(to)], check=True)


def own(file: Path) -> Path:
    """Make a file of a copy one of its own, so that the bundle itself stays as it is."""
    content = file.with_name(file.name + ".own")
    shutil.copy2(file, content)
    os.replace(content, file)
    return file


def one(bundle: Path, pattern: str) -> Path:
    """The one file of that pattern."""
    (found,) = bundle.glob(pattern)
    return found


def flip(pattern: str) -> Change:
    """One byte in the middle of a file is another."""

    def change(bundle: Path) -> str:
        file = own(one(bundle, pattern))
        with file.open("r+b") as stream:
            stream.seek(file.stat().st_size // 2)
            byte = stream.read(1)[0]
            stream.seek(-1, os.SEEK_CUR)
            stream.write(bytes([byte ^ 1]))
        return str(file.relative_to(bundle))

    return change


def truncate(pattern: str) -> Change:
    """A file lacks its last bytes."""

    def change(bundle: Path) -> str:
        file = own(one(bundle, pattern))
        os.truncate(file, file.stat().st_size - 4096)
        return str(file.relative_to(bundle))

    return change


def remove(pattern: str) -> Change:
    """A file is not there."""

    def change(bundle: Path) -> str:
        file = one(bundle, pattern)
        file.unlink()
        return str(file.relative_to(bundle))

    return change


def add(pattern: str, name: str) -> Change:
    """A file too many, beside one of that pattern."""

    def change(bundle: Path) -> str:
        beside = one(bundle, pattern)
        shutil.copy2(beside, beside.with_name(name))
        return str(beside.with_name(name).relative_to(bundle))

    return change


def _rewrite(bundle: Path, manifest: dict[str, Any]) -> None:
    """Write manifest and checksums so that both agree with the folder: only what the files are can be wrong."""
    text = json.dumps(manifest, indent=2)
    (bundle / MANIFEST).unlink()
    (bundle / SUMS).unlink()
    (bundle / MANIFEST).write_text(text)
    listed = "".join(f"{file['sha256']}  {file['path']}\n" for file in manifest["files"])
    sum_of_manifest = subprocess.run(["sha256sum", MANIFEST], cwd=bundle, check=True, capture_output=True, text=True)
    (bundle / SUMS).write_text(listed + sum_of_manifest.stdout)


def rename(pattern: str, old: str, new: str) -> Change:
    """A wheel claims another tag, in its name and in all lists."""

    def change(bundle: Path) -> str:
        file = one(bundle, pattern)
        name = file.name.replace(old, new)
        file.rename(file.with_name(name))
        text = (bundle / MANIFEST).read_text().replace(file.name, name)
        _rewrite(bundle, json.loads(text))
        return str(file.with_name(name).relative_to(bundle))

    return change


def list_too(pattern: str, name: str, kind: str) -> Change:
    """A file too many that the lists know."""

    def change(bundle: Path) -> str:
        beside = one(bundle, pattern)
        new = beside.with_name(name)
        shutil.copy2(beside, new)
        manifest = json.loads((bundle / MANIFEST).read_text())
        like = next(file for file in manifest["files"] if file["path"] == str(beside.relative_to(bundle)))
        manifest["files"].append({**like, "path": str(new.relative_to(bundle)), "kind": kind})
        manifest["files"].sort(key=lambda file: file["path"])
        _rewrite(bundle, manifest)
        return str(new.relative_to(bundle))

    return change


def alter_manifest(bundle: Path) -> str:
    """Somebody wrote something else into the manifest."""
    file = own(bundle / MANIFEST)
    file.write_text(file.read_text().replace('"created": "20', '"created": "21'))
    return MANIFEST
