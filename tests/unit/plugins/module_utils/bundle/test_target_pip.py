# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import target_pip

NOTHING = (
    "ERROR: Could not find a version that satisfies the requirement pyarrow>=17 (from ray[llm]) (from versions: none)"
)
HASHES = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
    ray==2.59.0 from file:///mnt/ray.whl (from -r /bad.txt (line 1)):
        Expected sha256 645f
             Got        7788
"""
CHECK = """\
xgrammar 0.2.8 requires triton, which is not installed.
intel-openmp 2024.2.1 requires intel-cmplr-lib-ur, which is not installed.
"""


def test_pip_of_the_wheels_or_of_the_target() -> None:
    tail = ["--isolated", "--disable-pip-version-check", "--no-input"]
    assert target_pip.pip("python3", "/mnt", "pip/pip-25.3-py3-none-any.whl") == [
        "python3",
        "/mnt/pip/pip-25.3-py3-none-any.whl/pip",
        *tail,
    ]
    assert target_pip.pip("/venv/bin/python", "/w", None) == ["/venv/bin/python", "-m", "pip", *tail]


def test_what_asks_installs_nothing_and_all_look_at_no_index() -> None:
    asking = [
        target_pip.has_already(["pip"], "ray==1"),
        target_pip.would_install(["pip"], "/mnt", "/mnt/r.txt"),
        target_pip.is_complete(["pip"], "/mnt", "ray==1"),
    ]
    installing = [target_pip.install(["pip"], "/mnt", "/mnt/r.txt", own, again=False) for own in (True, False)]
    assert [argv[:3] for argv in asking] == [["pip", "install", "--dry-run"]] * 3
    assert [argv for argv in asking + installing if "--no-index" not in argv or "--no-cache-dir" not in argv] == []
    for argv in (asking[1], *installing):
        assert argv[-6:] == [
            "--find-links",
            "/mnt",
            "--require-hashes",
            "--only-binary=:all:",
            "--requirement",
            "/mnt/r.txt",
        ]
    assert "--find-links" not in asking[0]


@pytest.mark.parametrize(
    ("own", "again", "extra"),
    [
        (False, False, []),
        (True, False, ["--break-system-packages", "--root-user-action=ignore"]),
        (True, True, ["--break-system-packages", "--root-user-action=ignore", "--force-reinstall"]),
    ],
)
def test_installing(own: bool, again: bool, extra: list[str]) -> None:
    argv = target_pip.install(["pip"], "/mnt", "/mnt/r.txt", own, again)
    at = argv.index("--no-deps") + 1
    assert argv[at : argv.index("--find-links")] == extra


@pytest.mark.parametrize(
    ("status", "out", "found"),
    [
        (0, "No broken requirements found.\n", []),
        (1, CHECK, sorted(CHECK.splitlines())),
        (1, "a 1 has requirement b>2, but you have b 1.\n" * 2, ["a 1 has requirement b>2, but you have b 1."]),
    ],
)
def test_complaints(status: int, out: str, found: list[str]) -> None:
    assert target_pip.complaints(status, out) == found


def test_a_report() -> None:
    out = '{"version": "1", "install": [{"metadata": {"name": "ray", "version": "2.59.0", "requires_dist": []}}]}'
    assert target_pip.report(out) == [{"name": "ray", "version": "2.59.0"}]
    for broken in ("", "{}", '{"install": [{}]}', "[]"):
        with pytest.raises(ValueError):  # noqa: PT011 - only the type is promised
            target_pip.report(broken)


@pytest.mark.parametrize(
    ("err", "said"),
    [
        (f"WARNING: x\n{NOTHING}\nERROR: No matching distribution found for pyarrow\n", "pip says: " + NOTHING[7:]),
        (HASHES, "FILE. ray==2.59.0 from file:///mnt/ray.whl (from -r /bad.txt (line 1)): Expected sha256 645f Got"),
        ("Usage:\n\nno such option: --dry-run\n", "the target's pip is older than 22.2"),
        ("/usr/bin/python3: No module named pip\n", "the target has no pip. Bring pip"),
        ("exec: python3: not found\n", "pip ended with exit status 2: exec: python3: not found"),
        ("", "pip ended with exit status 2"),
    ],
)
def test_why_pip_failed(err: str, said: str) -> None:
    assert said in target_pip.reason(2, "", err)
