# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a bundle's folder is not as its manifest says. Each finding names the file, the reason and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import wheels
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import (
    MANIFEST,
    SUMS,
    File,
    Manifest,
    ManifestError,
    parse_sums,
)

PART = ".part"
# What is installed as it is, and takes a second or less to read.
QUICK_KINDS = ("wheel", "requirements", "model_manifest", "package")
COPY_AGAIN = "Copy the file again from where the bundle was made, or run playbooks/bundle.yml again there"
MAKE_AGAIN = "Do not use this bundle: take it again, whole, from where it was made"
REMOVE = "Remove it from the folder, unless you know better; then make the bundle again with it"


@dataclass(frozen=True)
class FileFacts:
    """A file as it was found. size: bytes; sha256: hex digest, None when it was not computed.

    fault: what keeps it from being a file that can be read, as the end of a sentence ("is a link and not a file").
    """

    size: int
    sha256: str | None = None
    fault: str | None = None


def compare(manifest: Manifest, sums_text: str | None, found: Mapping[str, FileFacts]) -> list[dict[str, str]]:
    """What is not as it should be: {path, reason, remedy} each, by path. Empty when nothing was found to be wrong.

    sums_text: of SHA256SUMS, None when it is not there. found: everything in the folder by its relative path, with
    manifest.json. A digest that was not computed gives no finding: ask `unchecked` for those before calling it passed.
    """
    findings = sums_findings(manifest, sums_text, found.get(MANIFEST))
    for file in manifest.files:
        reason = _difference(file, found.get(file.path))
        if reason:
            findings.append(_finding(file.path, reason, COPY_AGAIN))
    listed = {file.path for file in manifest.files} | {MANIFEST, SUMS}
    for path in found:
        if path not in listed:
            reason = "is not in the manifest"
            if path.endswith(PART):
                reason += "; its name says that it is left over from a transfer that was interrupted"
            if found[path].fault:
                reason += f"; it {found[path].fault}"
            findings.append(_finding(path, reason, REMOVE))
    return sorted(findings, key=lambda finding: finding["path"])


def sums_findings(manifest: Manifest | None, sums_text: str | None, facts: FileFacts | None) -> list[dict[str, str]]:
    """What SHA256SUMS says otherwise than the manifest, and whether the manifest was altered since both were written.

    manifest: None when it cannot be read; facts: of manifest.json.
    """
    if sums_text is None:
        reason = "is not there, or cannot be read: whether the manifest was altered cannot be told"
        return [_finding(SUMS, reason, "Copy SHA256SUMS again from where the bundle was made")]
    try:
        sums = parse_sums(sums_text)
    except ManifestError as error:
        return [_finding(SUMS, f"cannot be read: {error}", MAKE_AGAIN)]
    findings = []
    if MANIFEST not in sums:
        findings.append(_finding(MANIFEST, f"has no line in {SUMS}", MAKE_AGAIN))
    elif facts is not None and facts.sha256 not in (None, sums[MANIFEST]):
        reason = f"was altered: its SHA-256 is {facts.sha256}, and {SUMS} says {sums[MANIFEST]}"
        findings.append(_finding(MANIFEST, reason, MAKE_AGAIN))
    if manifest is not None:
        listed = {file.path: file.sha256 for file in manifest.files}
        for path, sha256 in listed.items():
            if path not in sums:
                findings.append(_finding(path, f"is in the manifest, and has no line in {SUMS}", MAKE_AGAIN))
            elif sums[path] != sha256:
                reason = f"{SUMS} and the manifest disagree: SHA-256 {sums[path]} and {sha256}"
                findings.append(_finding(path, reason, MAKE_AGAIN))
        findings += [
            _finding(path, f"has a line in {SUMS}, and is not in the manifest", MAKE_AGAIN)
            for path in sums
            if path not in listed and path != MANIFEST
        ]
    return findings


def unchecked(manifest: Manifest, found: Mapping[str, FileFacts]) -> list[str]:
    """The files that are there, as big as they should be, and whose content was not compared."""
    facts = {file.path: found.get(file.path) for file in manifest.files}
    facts[MANIFEST] = found.get(MANIFEST)
    return sorted(path for path, seen in facts.items() if seen and seen.sha256 is None and not seen.fault)


def worth_hashing(manifest: Manifest, found: Mapping[str, FileFacts]) -> list[File]:
    """The files that are there, readable and of the right size; the others are wrong without reading them."""
    return [file for file in manifest.files if _difference(file, found.get(file.path)) is None]


def wheelhouse_findings(manifest: Manifest, found: Iterable[str]) -> list[dict[str, str]]:
    """Files of the wheelhouses that their targets cannot install: {path, reason, remedy} each, by path.

    found: the paths of what is in the folder; what is there and what should be are both looked at.
    """
    findings = []
    kinds = {file.path: file.kind for file in manifest.files}
    for wheelhouse in manifest.wheelhouses:
        prefix = wheelhouse.folder + "/"
        paths = {path for path in {*found, *kinds} if path.startswith(prefix) and not path.endswith(PART)}
        # A source archive is none of the lists that lie beside the wheels, whatever the manifest takes it for.
        names = [path for path in paths if kinds.get(path) != "requirements" or path.endswith(wheels.SDIST)]
        findings += [
            _finding(row["file"], f"{row['problem']} (wheelhouse {wheelhouse.name})", wheels.KINDS[row["kind"]])
            for row in wheels.wheel_problems(names, wheelhouse.target)
        ]
    return sorted(findings, key=lambda finding: finding["path"])


def _difference(file: File, facts: FileFacts | None) -> str | None:
    """What is wrong with a file of the manifest, as far as it was looked at."""
    if facts is None:
        return "is missing"
    if facts.fault:
        return facts.fault
    if facts.size != file.size:
        kind = "shorter" if facts.size < file.size else "longer"
        return f"has {facts.size} bytes, and the manifest says {file.size}: it is {kind} than it was"
    if facts.sha256 not in (None, file.sha256):
        return f"was altered: its SHA-256 is {facts.sha256}, and the manifest says {file.sha256}"
    return None


def _finding(path: str, reason: str, remedy: str) -> dict[str, Any]:
    return {"path": path, "reason": reason, "remedy": remedy}
