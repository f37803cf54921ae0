# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that tells about the Python that runs it. Its text is handed to that Python with `-c`.

So it imports the standard library only, and has to run on any Python since 3.8. What it prints is read by
module_utils/bundle/target.py.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import re
import sys
import sysconfig
from typing import Any

IMPLEMENTATIONS = {"cpython": "cp", "pypy": "pp"}


def abi() -> str:
    """The ABI as wheel tags have it: of SOABI cpython-311-x86_64-linux-gnu it is cp311."""
    parts = str(sysconfig.get_config_var("SOABI") or "").split("-")
    if sys.implementation.name == "cpython" and len(parts) > 1:
        return "cp" + parts[1]
    return "_".join(parts[:2]) or "none"


def glibc() -> str | None:
    """Version of the C library, None where it is not glibc."""
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        said = " ".join(platform.libc_ver())
    name, _space, version = said.partition(" ")
    return version if name == "glibc" and version else None


def tags() -> list[str] | None:
    """The tags of wheels that this Python takes, the best first; None where no library tells."""
    try:
        library = importlib.import_module("packaging.tags")
    except ImportError:
        try:
            library = importlib.import_module("pip._vendor.packaging.tags")
        except ImportError:
            return None
    return [str(tag) for tag in library.sys_tags()]


def distributions() -> list[dict[str, Any]]:
    """What is installed, as pip sees it: the first of a name on the path is the one that counts."""
    found: dict[str, dict[str, Any]] = {}
    for distribution in importlib.metadata.distributions():
        metadata = distribution.metadata
        if not metadata or not metadata["Name"] or not metadata["Version"]:
            continue
        entry = {
            "name": metadata["Name"],
            "version": metadata["Version"],
            "requires": list(distribution.requires or []),
            "extras": list(metadata.get_all("Provides-Extra") or []),
        }
        found.setdefault(re.sub(r"[-_.]+", "-", metadata["Name"]).lower(), entry)
    return list(found.values())


def facts() -> dict[str, Any]:
    """All that is told."""
    machine = platform.machine()
    if machine == "x86_64" and sys.maxsize <= 2**32:
        machine = "i686"
    return {
        "python": platform.python_version(),
        "implementation": IMPLEMENTATIONS.get(sys.implementation.name, sys.implementation.name),
        "abi": abi(),
        "machine": machine,
        "glibc": glibc(),
        "tags": tags(),
        "executable": sys.executable,
        "distributions": distributions(),
    }


if __name__ == "__main__":
    # pip does not look for packages in the current folder; `python -c` would.
    if sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
    json.dump(facts(), sys.stdout)
