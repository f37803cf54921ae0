# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils import image_transfer
from ansible_collections.tandem.vllm.plugins.module_utils.image_transfer import Room, UnitState

GIB = 2**30
ROOT, TMP = "/var/lib/docker", "/var/tmp"  # noqa: S108 - paths to be named, not used
FOLDER = f"{TMP}/tandem-image-x"
NO_MAGIC = b"blobs/\0\0".ljust(18, b"\0")


def test_names_follow_from_the_image() -> None:
    assert image_transfer.folder("vllm:1").startswith(f"{TMP}/tandem-image-")
    assert image_transfer.folder("vllm:1") != image_transfer.folder("vllm:2")
    assert image_transfer.unit("vllm:1").startswith("tandem-image-load-")
    assert image_transfer.unit("vllm:1").endswith(".service")


@pytest.mark.parametrize(
    ("listing", "pieces", "leftovers"),
    [
        ([], [], []),
        (["001", "000", "image_feed.py", "count"], ["000", "001"], []),
        (["1000", "999", "100"], ["100", "999", "1000"], []),
        (["000", "001.part", "x", "0001", "²"], ["000"], ["0001", "001.part", "x", "²"]),
    ],
)
def test_files_of_the_folder(listing: list[str], pieces: list[str], leftovers: list[str]) -> None:
    assert image_transfer.piece_names(listing) == pieces
    assert image_transfer.leftovers(listing) == leftovers


HELD = {"000": {"size": 64, "sha256": "aa"}, "002": {"size": 10, "sha256": "cc"}}


@pytest.mark.parametrize(
    ("index", "size", "sha256", "there"),
    [
        (0, 64, "aa", True),
        (0, 64, "ab", False),
        (0, 63, "aa", False),
        (1, 64, "aa", False),
        (2, 10, "cc", True),
    ],
)
def test_a_piece_counts_when_it_is_the_same(index: int, size: int, sha256: str, there: bool) -> None:
    assert image_transfer.is_there(HELD, index, size, sha256) is there
    assert image_transfer.held_size(HELD) == 74


@pytest.mark.parametrize(
    ("method", "on_node", "on_control", "shared", "by"),
    [
        (None, False, False, False, "nobody"),
        (None, True, True, True, "nobody"),
        ("gzip", False, False, False, "nobody"),
        ("xz", False, False, True, "nobody"),
        ("zstd", True, True, False, "node"),
        ("zstd", True, False, True, "node"),
        ("zstd", False, True, False, "control"),
        ("zstd", False, False, False, None),
        # The control node does not read a shared archive.
        ("zstd", False, True, True, None),
    ],
)
def test_who_decompresses(method: str | None, on_node: bool, on_control: bool, shared: bool, by: str | None) -> None:
    assert image_transfer.decompression(method, on_node, on_control, shared) == by


@pytest.mark.parametrize(
    ("shared", "message"),
    [
        (False, "node1: /a.zst is compressed with zstd, and there is no zstd to read it with, neither on the host nor"),
        (True, "node1: /a.zst is compressed with zstd, and the host has no zstd to read it with. Install it there"),
    ],
)
def test_nobody_can_decompress(shared: bool, message: str) -> None:
    assert image_transfer.no_zstd("node1", "/a.zst", shared).startswith(message)


ZSTD: list[Any] = [
    # What zstd 1.5.4 writes for files of these sizes, and at last for a stream whose size it is not told.
    ("28b52ffd240a510000000000000000000000", 10),
    ("28b52ffd642c004d00001000000100272ac0", 300),
    ("28b52ffda470110100550000100000010000", 70000),
    ("28b52ffd84580098e4574414048e7e05af10", 1474598912),
    ("28b52ffd04585400001000000100fbff39c0", None),
    # RFC 8878: eight bytes, after a window descriptor and a dictionary id of four.
    ("28b52ffdc358aabbccdd0000000002000000", 8589934592),
]


@pytest.mark.parametrize(("head", "size"), ZSTD)
def test_content_size_of_zstd(head: str, size: int | None) -> None:
    facts = image_transfer.archive_facts(bytes.fromhex(head), 7)
    assert facts == {"size": 7, "compression": "zstd", "tar_size": size}


@pytest.mark.parametrize(
    ("head", "method", "tar_size"),
    [
        (NO_MAGIC, None, 7),
        (b"", None, 7),
        (b"\x1f\x8b\x08\x00".ljust(18), "gzip", None),
        (b"\x28\xb5\x2f\xfd", "zstd", None),
    ],
)
def test_facts_of_other_archives(head: bytes, method: str | None, tar_size: int | None) -> None:
    assert image_transfer.archive_facts(head, 7) == {"size": 7, "compression": method, "tar_size": tar_size}


@pytest.mark.parametrize(
    ("folder", "root", "to_send", "unpacked", "problem"),
    [
        (Room(TMP, 20480, 30000), Room(ROOT, 40960, 50000), 10 * GIB, 10 * GIB, None),
        (
            Room(TMP, 5120, 30000),
            Room(ROOT, 40960, 50000),
            10 * GIB,
            10 * GIB,
            "needs 10.0 GiB in /var/tmp, where 5.0 GiB are free",
        ),
        (
            Room(TMP, 5120, 30000),
            Room(ROOT, 10240, 50000),
            10 * GIB,
            10 * GIB,
            "needs 21.0 GiB in /var/lib/docker, where 10.0 GiB are free, "
            "and 10.0 GiB in /var/tmp, where 5.0 GiB are free",
        ),
        # One file system holds both.
        (
            Room(TMP, 22528, 50000),
            Room(ROOT, 22528, 50000),
            10 * GIB,
            10 * GIB,
            "needs 31.0 GiB in /var/lib/docker, where 22.0 GiB are free",
        ),
        # Pieces that are there need no more room.
        (Room(TMP, 22528, 50000), Room(ROOT, 22528, 50000), GIB // 2, 10 * GIB, None),
        # A shared archive.
        (None, Room(ROOT, 22528, 50000), 10 * GIB, 10 * GIB, None),
        # What could not be read stops nobody.
        (Room(TMP, None, None), Room(ROOT, None, None), 10 * GIB, 10 * GIB, None),
    ],
)
def test_room(folder: Room | None, root: Room, to_send: int, unpacked: int, problem: str | None) -> None:
    assert image_transfer.room_problem(folder, root, to_send, unpacked) == problem


def test_room_of_a_disk() -> None:
    assert Room.of({"path": "/x", "exists": True, "free_mib": 1, "total_mib": 2}) == Room("/x", 1, 2)


def test_command_lines() -> None:
    assert image_transfer.receive_command("/usr/bin/python3", FOLDER, 7, 64, "ab") == [
        *("/usr/bin/python3", "-I", f"{FOLDER}/image_feed.py", "receive", f"{FOLDER}/007", "64", "ab")
    ]
    plain = image_transfer.load_command("python3", FOLDER, "docker", ["/a", "/b"], None, None)
    assert plain == ["python3", "-I", f"{FOLDER}/image_feed.py", "load", "--docker", "docker", "--", "/a", "/b"]
    full = image_transfer.load_command("python3", FOLDER, "docker", ["/a"], "/usr/bin/zstd", "ab")
    assert full[4:8] == ["--zstd", "/usr/bin/zstd", "--sha256", "ab"]
    follow = image_transfer.load_command("python3", FOLDER, "docker", [], None, None)
    assert follow[3:] == ["load", "--docker", "docker", "--follow", FOLDER]
    path = f"{FOLDER}/count"
    assert image_transfer.count_command(FOLDER, 22) == f"echo 22 > {path}.new && mv {path}.new {path}"
    assert image_transfer.start_command("x.service", ["cat", "/mnt/$1/a"]) == [
        *("systemd-run", "--quiet", "--unit", "x.service", "--property=RemainAfterExit=yes", "cat", "/mnt/$$1/a")
    ]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (
            "MainPID=77\nResult=success\nActiveState=active\nSubState=running\nInvocationID=ab\n",
            UnitState("running", "77", "ab", "success"),
        ),
        (
            "MainPID=0\nResult=success\nActiveState=active\nSubState=exited\nInvocationID=ab\n",
            UnitState("ended", "0", "ab", "success"),
        ),
        (
            "MainPID=0\nResult=exit-code\nActiveState=failed\nSubState=failed\nInvocationID=ab\n",
            UnitState("failed", "0", "ab", "exit-code"),
        ),
        # No such unit.
        (
            "MainPID=0\nResult=success\nActiveState=inactive\nSubState=dead\nInvocationID=\n",
            UnitState("ended", "0", "", "success"),
        ),
        ("", UnitState("ended", "0", "", "unknown")),
    ],
)
def test_state_of_the_unit(text: str, state: UnitState) -> None:
    assert image_transfer.unit_state(text) == state


@pytest.mark.parametrize(
    ("sizes", "position", "percent"),
    [
        ([100, 100], (0, 0), 0),
        ([100, 100], (0, 50), 25),
        ([100, 100], (1, 50), 75),
        ([100, 100], None, 100),
        ([0], (0, 0), 0),
        ([3], (0, 2), 66),
    ],
)
def test_percent(sizes: list[int], position: tuple[int, int] | None, percent: int) -> None:
    assert image_transfer.percent(sizes, position) == percent


@pytest.mark.parametrize(
    ("sent", "total", "seconds", "words"),
    [
        (512 * 2**20, GIB, 4.0, "sent 512 of 1024 MiB, 50 %, 128 MiB/s"),
        (512 * 2**20, None, 4.0, "sent 512 MiB, 128 MiB/s"),
        (0, 0, 0.0, "sent 0 of 0 MiB, 0 %, 0 MiB/s"),
    ],
)
def test_words_of_a_transfer(sent: int, total: int | None, seconds: float, words: str) -> None:
    assert image_transfer.sent_words(sent, total, seconds) == words


@pytest.mark.parametrize(
    ("running", "read", "words"),
    [
        (True, 0, "reading the image archive, 0 %"),
        (True, 99, "reading the image archive, 99 %"),
        (True, 100, "unpacking the image"),
        (False, 100, "image loaded"),
    ],
)
def test_words_of_a_load(running: bool, read: int, words: str) -> None:
    assert image_transfer.load_words(running, read) == words
