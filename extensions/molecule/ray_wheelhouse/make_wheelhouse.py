# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a small wheelhouse with something wrong, and print what the role is to be given: folder, entry, files.

Arguments: the folder, the case, and a wheelhouse whose wheel of pip and whose target are taken.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

FOLDER = "wheels/molecule"
# The older name of the project that needs the newer: tandem_a needs tandem_b.
A, B = "tandem_a-1.0-py3-none-any.whl", "tandem_b-2.0-py3-none-any.whl"


def wheel(folder: Path, file: str, code: str = "", needs: str = "", library: bytes = b"") -> None:
    """Write a wheel."""
    name, version, *tag = file[:-4].split("-")
    info = f"{name}-{version}.dist-info"
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    members = {
        f"{name}/__init__.py": code.encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {'-'.join(tag)}\n".encode(),
    }
    if library:
        members[f"{name}/_native.so"] = library
    members[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*members, f"{info}/RECORD"]).encode()
    with zipfile.ZipFile(folder / file, "w") as archive:
        for path, data in members.items():
            archive.writestr(path, data)


def main(folder: Path, case: str, source: Path) -> None:
    """Make it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source / "pip", folder / "pip")
    first = A.replace("py3-none-any", "cp312-cp312-manylinux2014_x86_64") if case == "wrong_python" else A
    code = "raise ImportError('libnone.so.1: cannot open shared object file')" if case == "import" else ""
    library = b"\x7fELF\0libc.so.6\0GLIBC_2.99\0" if case == "newer_library" else b""
    wheel(folder, first, code, "tandem-b", library)
    if case != "incomplete":
        wheel(folder, B)
    wheels = sorted(path.name for path in folder.glob("*.whl"))
    pins = [f"{w.split('-')[0]}=={w.split('-')[1]} --hash=sha256:{digest(folder / w)}\n" for w in wheels]
    (folder / "requirements.txt").write_text("".join(pins))
    files = [
        {
            "path": f"{FOLDER}/{path.relative_to(folder)}",
            "size": path.stat().st_size,
            "sha256": digest(path),
            "kind": "wheel" if path.suffix == ".whl" else "requirements",
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    if case == "flipped":
        flip(folder / A)
    entry: dict[str, Any] = json.loads((source.parent.parent / f"{source.name}.json").read_text())["entry"]
    split = [(w, w.split("-")) for w in wheels]
    entry.update(
        name="molecule",
        folder=FOLDER,
        requirements=["tandem-a==1.0"],
        wheels=[{"name": parts[0], "version": parts[1], "file": w} for w, parts in split],
        in_target=[],
    )
    json.dump({"folder": str(folder), "entry": entry, "files": files}, sys.stdout)


def flip(path: Path) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(bytes(data))


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
