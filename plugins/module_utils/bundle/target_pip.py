# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pip's command lines inside a target, and what its answers mean. pip looks at nothing but the wheelhouse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

# pip reads no other configuration than its command line: neither files nor, with --isolated, PIP_* of the image.
ENVIRONMENT = {"PIP_CONFIG_FILE": "/dev/null"}
_OFFLINE = ("--quiet", "--no-index", "--no-cache-dir")


def pip(python: str, folder: str, wheel: str | None) -> list[str]:
    """pip's call. folder: of the wheels, as the target sees it; wheel: pip's own in it, None for the target's."""
    # A wheel is an archive that Python runs a program out of, without it being installed.
    program = [python, "-m", "pip"] if wheel is None else [python, f"{folder}/{wheel}/pip"]
    return [*program, "--isolated", "--disable-pip-version-check", "--no-input"]


def has_already(pip: Sequence[str], requirement: str) -> list[str]:
    """Ends with 0 when the target has all of a requirement, extras and dependencies included. Installs nothing."""
    return [*pip, "install", "--dry-run", *_OFFLINE, requirement]


def would_install(pip: Sequence[str], folder: str, requirements: str) -> list[str]:
    """Ends with 0 and a report of what the pinned, hashed list would install. Installs nothing."""
    hashed = ["--find-links", folder, "--require-hashes", "--only-binary=:all:", "--requirement", requirements]
    return [*pip, "install", "--dry-run", *_OFFLINE, "--report", "-", *hashed]


def is_complete(pip: Sequence[str], folder: str, requirement: str) -> list[str]:
    """Ends with 0 when target and wheels together have all of a requirement. Installs nothing."""
    return [*pip, "install", "--dry-run", *_OFFLINE, "--find-links", folder, "--only-binary=:all:", requirement]


def install(pip: Sequence[str], folder: str, requirements: str, own: bool, again: bool) -> list[str]:
    """Installs the list as it is. own: pip came with the wheels; again: also what seems to be there already."""
    # Nothing is resolved here: that the list is complete was asked before. Images mark their Python as the
    # distribution's own; theirs is the one to install into. A pip of the target may be too old to know the option.
    extra = (["--break-system-packages", "--root-user-action=ignore"] if own else []) + (
        ["--force-reinstall"] if again else []
    )
    hashed = ["--find-links", folder, "--require-hashes", "--only-binary=:all:", "--requirement", requirements]
    return [*pip, "install", *_OFFLINE, "--no-deps", *extra, *hashed]


def check(pip: Sequence[str]) -> list[str]:
    """A line for each requirement of what is installed that is not met."""
    return [*pip, "check"]


def freeze(pip: Sequence[str]) -> list[str]:
    """A line for each project that is installed."""
    return [*pip, "freeze"]


def complaints(status: int, out: str) -> list[str]:
    """What `pip check` finds, sorted."""
    return [] if status == 0 else sorted({line.strip() for line in out.splitlines() if line.strip()})


def report(out: str) -> list[dict[str, str]]:
    """{name, version} of what a --report says would be installed, by name. Raises ValueError where it is none."""
    document: Any = json.loads(out)
    try:
        rows = [{key: str(row["metadata"][key]) for key in ("name", "version")} for row in document["install"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{error} is missing in pip's report") from error
    return sorted(rows, key=lambda row: row["name"].lower())


def reason(status: int, out: str, err: str) -> str:
    """Why pip failed, in its own words, on one line."""
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if line.startswith("ERROR:")), None)
    if first is not None:
        words = [line[len("ERROR:") :].strip() if line.startswith("ERROR:") else line for line in lines[first:]]
        return "pip says: " + " ".join(word for word in words if not word.startswith("WARNING:"))
    if any("no such option: --dry-run" in line or "no such option: --report" in line for line in lines):
        return (
            "the target's pip is older than 22.2, which cannot tell beforehand. Bring pip as a wheel of the wheelhouse"
        )
    if any(line.endswith("No module named pip") for line in lines):
        return "the target has no pip. Bring pip as a wheel of the wheelhouse"
    said = (lines or [line.strip() for line in out.splitlines() if line.strip()] or [""])[-1]
    return f"pip ended with exit status {status}" + (f": {said}" if said else "")
