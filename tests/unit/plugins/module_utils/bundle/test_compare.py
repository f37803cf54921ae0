# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.compare import (
    FileFacts,
    compare,
    sums_findings,
    unchecked,
    wheelhouse_findings,
    worth_hashing,
)
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import (
    File,
    MadeWith,
    Manifest,
    Wheel,
    Wheelhouse,
    digest,
    sha256sums,
)
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target

A, B, X = "a" * 64, "b" * 64, "f" * 64
WHEEL = "ray-2.60.0-cp311-cp311-manylinux2014_x86_64.whl"
MANIFEST = Manifest(
    "lab",
    "2026-12-01T00:00:00Z",
    MadeWith("0.1.0", "3.11.2", "26.1"),
    (File("images/1.tar", 40, A, "image"), File(f"wheels/lab/{WHEEL}", 5, B, "wheel")),
    wheelhouses=(
        Wheelhouse(
            "lab",
            "wheels/lab",
            None,
            Target("3.11.2", "cp", "cp311", "x86_64", "2.36"),
            ("ray==2.60.0",),
            "simple",
            "2026-12-01",
            (Wheel("ray", "2.60.0", WHEEL),),
        ),
    ),
)
SUMS = sha256sums(MANIFEST)
ITSELF = digest(MANIFEST.to_json())
FOUND = {
    "manifest.json": FileFacts(900, ITSELF),
    "SHA256SUMS": FileFacts(200),
    "images/1.tar": FileFacts(40, A),
    f"wheels/lab/{WHEEL}": FileFacts(5, B),
}

TAMPERED = [
    pytest.param({}, SUMS, [], id="whole"),
    pytest.param({"images/1.tar": None}, SUMS, [("images/1.tar", "is missing")], id="missing"),
    pytest.param(
        {"images/1.tar": FileFacts(39)},
        SUMS,
        [("images/1.tar", "has 39 bytes, and the manifest says 40: it is shorter than it was")],
        id="truncated",
    ),
    pytest.param(
        {"images/1.tar": FileFacts(41, A)},
        SUMS,
        [("images/1.tar", "has 41 bytes, and the manifest says 40: it is longer than it was")],
        id="longer",
    ),
    pytest.param(
        {f"wheels/lab/{WHEEL}": FileFacts(5, X)},
        SUMS,
        [(f"wheels/lab/{WHEEL}", f"was altered: its SHA-256 is {X}, and the manifest says {B}")],
        id="one byte",
    ),
    pytest.param(
        {"images/1.tar": FileFacts(0, fault="is a link and not a file")},
        SUMS,
        [("images/1.tar", "is a link and not a file")],
        id="link",
    ),
    pytest.param(
        {"wheels/lab/x-1-py3-none-any.whl": FileFacts(1)},
        SUMS,
        [("wheels/lab/x-1-py3-none-any.whl", "is not in the manifest")],
        id="extra wheel",
    ),
    pytest.param(
        {"images/2.tar.part": FileFacts(1)},
        SUMS,
        [
            (
                "images/2.tar.part",
                "is not in the manifest; its name says that it is left over from a transfer that was interrupted",
            )
        ],
        id="part",
    ),
    pytest.param(
        {"models": FileFacts(0, fault="is a link and not a file")},
        SUMS,
        [("models", "is not in the manifest; it is a link and not a file")],
        id="extra link",
    ),
    pytest.param(
        {"manifest.json": FileFacts(900, X)},
        SUMS,
        [("manifest.json", f"was altered: its SHA-256 is {X}, and SHA256SUMS says {ITSELF}")],
        id="manifest altered",
    ),
    pytest.param(
        {},
        SUMS.replace(A, X),
        [("images/1.tar", f"SHA256SUMS and the manifest disagree: SHA-256 {X} and {A}")],
        id="sums altered",
    ),
    pytest.param(
        {},
        SUMS.replace(f"{A}  images/1.tar\n", ""),
        [("images/1.tar", "is in the manifest, and has no line in SHA256SUMS")],
        id="line gone",
    ),
    pytest.param(
        {},
        SUMS + f"{X}  x\n",
        [("x", "has a line in SHA256SUMS, and is not in the manifest")],
        id="line more",
    ),
    pytest.param(
        {},
        SUMS.replace("manifest.json", "manifest"),
        [
            ("manifest", "has a line in SHA256SUMS, and is not in the manifest"),
            ("manifest.json", "has no line in SHA256SUMS"),
        ],
        id="no line of the manifest",
    ),
    pytest.param(
        {},
        None,
        [("SHA256SUMS", "is not there, or cannot be read: whether the manifest was altered cannot be told")],
        id="no sums",
    ),
    pytest.param(
        {},
        "x",
        [("SHA256SUMS", "cannot be read: line 1 = 'x': must be a SHA-256 digest, two spaces and a path")],
        id="sums that are none",
    ),
    pytest.param(
        {"images/1.tar": None, "a": FileFacts(1), "manifest.json": FileFacts(900, X)},
        SUMS,
        [
            ("a", "is not in the manifest"),
            ("images/1.tar", "is missing"),
            ("manifest.json", f"was altered: its SHA-256 is {X}, and SHA256SUMS says {ITSELF}"),
        ],
        id="all of them",
    ),
]


@pytest.mark.parametrize(("change", "sums", "told"), TAMPERED)
def test_what_is_found(change: dict[str, FileFacts | None], sums: str | None, told: list[tuple[str, str]]) -> None:
    found = {path: facts for path, facts in {**FOUND, **change}.items() if facts is not None}
    findings = compare(MANIFEST, sums, found)
    assert [(finding["path"], finding["reason"]) for finding in findings] == told
    assert all(finding["remedy"] for finding in findings)


def test_what_was_not_compared_is_no_finding_and_not_passed() -> None:
    quick = {path: replace(facts, sha256=None) for path, facts in FOUND.items()}
    assert compare(MANIFEST, SUMS, quick) == []
    assert unchecked(MANIFEST, quick) == ["images/1.tar", "manifest.json", f"wheels/lab/{WHEEL}"]
    assert unchecked(MANIFEST, FOUND) == []
    # What is missing or cannot be read is a finding, and nothing to check.
    assert unchecked(MANIFEST, {"images/1.tar": FileFacts(0, fault="is a link and not a file")}) == []


def test_only_what_could_be_right_is_hashed() -> None:
    quick = {path: replace(facts, sha256=None) for path, facts in FOUND.items()}
    assert [file.path for file in worth_hashing(MANIFEST, quick)] == ["images/1.tar", f"wheels/lab/{WHEEL}"]
    assert [file.path for file in worth_hashing(MANIFEST, {**quick, "images/1.tar": FileFacts(39)})] == [
        f"wheels/lab/{WHEEL}"
    ]
    assert worth_hashing(MANIFEST, {}) == []


def test_a_manifest_that_cannot_be_read_can_be_told_altered() -> None:
    assert [finding["path"] for finding in sums_findings(None, SUMS, FileFacts(1, X))] == ["manifest.json"]
    assert sums_findings(None, SUMS, FileFacts(1, ITSELF)) == []


def test_wheels_that_do_not_fit_their_target() -> None:
    assert wheelhouse_findings(MANIFEST, FOUND) == []
    listed = replace(MANIFEST, files=(*MANIFEST.files, File("wheels/lab/a-1-cp39-cp39-any.whl", 1, A, "wheel")))
    listed = replace(listed, files=(*listed.files, File("wheels/lab/requirements.txt", 1, A, "requirements")))
    listed = replace(listed, files=(*listed.files, File("wheels/lab/y-1.zip", 1, A, "requirements")))
    found = {
        **FOUND,
        "wheels/lab/z-1.tar.gz": FileFacts(1),
        "wheels/lab/z.part": FileFacts(1),
        "wheels/b": FileFacts(1),
    }
    assert [(finding["path"], finding["reason"]) for finding in wheelhouse_findings(listed, found)] == [
        (
            "wheels/lab/a-1-cp39-cp39-any.whl",
            "tag cp39-cp39 on a target with Python 3.11.2 (cp311) (wheelhouse lab)",
        ),
        ("wheels/lab/y-1.zip", "sdist (wheelhouse lab)"),
        ("wheels/lab/z-1.tar.gz", "sdist (wheelhouse lab)"),
    ]
