# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an image archive gets onto a host: names, pieces, room, who decompresses, command lines, and words for progress.

The archive travels in pieces, each checked against its SHA-256 where it arrives. A piece that is there and right is not
sent again. Sizes are in bytes, those of file systems in MiB.
"""

from __future__ import annotations

import re
import shlex
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host.system import ARCHIVE_FOLDER, UNPACKED
from ansible_collections.tandem.vllm.plugins.module_utils.image_archive import compression
from ansible_collections.tandem.vllm.plugins.module_utils.placement import fingerprint

MIB = 2**20
GIB = 2**30
# The control node holds two of them in memory for each host that is being served.
PIECE_SIZE = 128 * MIB
TOOL = "image_feed.py"
# Says how many pieces there are, once all are there.
COUNT = "count"

# Who decompresses an archive that Docker cannot read itself.
NOBODY, NODE, CONTROL = "nobody", "node", "control"

# Bytes from the start of an archive that tell what it is: the longest header of a zstd frame.
HEAD = 18


@dataclass(frozen=True)
class Room:
    """A file system as `host.system.System.disk` describes it. free, total: MiB, None where they could not be read."""

    path: str
    free: int | None
    total: int | None

    @classmethod
    def of(cls, disk: Mapping[str, Any]) -> Room:
        """From {path, free_mib, total_mib}."""
        return cls(str(disk["path"]), disk.get("free_mib"), disk.get("total_mib"))


def folder(ref: str) -> str:
    """Where the pieces of an image wait on the host. Named after the image, whatever its archive is called."""
    return f"{ARCHIVE_FOLDER}/tandem-image-{fingerprint(ref)}"


def unit(ref: str) -> str:
    """The systemd unit that loads an image, so that the load outlives a lost connection."""
    return f"tandem-image-load-{fingerprint(ref)}.service"


def piece_name(index: int) -> str:
    """File name of a piece."""
    return "%03d" % index


def piece_names(listing: Sequence[str]) -> list[str]:
    """The whole pieces among the files of a folder, in their order."""
    numbers = (name for name in listing if re.fullmatch("[0-9]{3,}", name))
    return sorted((name for name in numbers if name == piece_name(int(name))), key=int)


def leftovers(listing: Sequence[str]) -> list[str]:
    """Files of a folder that are no whole pieces, such as one that was arriving when the connection broke."""
    pieces = set(piece_names(listing))
    return sorted(name for name in listing if name not in pieces and name not in (TOOL, COUNT))


def is_there(held: Mapping[str, Mapping[str, Any]], index: int, size: int, sha256: str) -> bool:
    """Whether the host has this piece already. held: by name, {size, sha256} of what it has."""
    found = held.get(piece_name(index))
    return found is not None and (found["size"], found["sha256"]) == (size, sha256)


def held_size(held: Mapping[str, Mapping[str, Any]]) -> int:
    """Bytes that the host has of the archive, right or wrong: what is wrong is replaced in its place."""
    return sum(piece["size"] for piece in held.values())


def decompression(method: str | None, zstd_on_node: bool, zstd_on_control: bool, shared: bool) -> str | None:
    """Who decompresses: nobody, the node or the control node; None when it has to be done and nobody can.

    Docker reads gzip, bzip2 and xz itself; zstd only from version 23 on, so it is never left to it. The node is
    preferred: then fewer bytes travel.
    """
    if method != "zstd":
        return NOBODY
    if zstd_on_node:
        return NODE
    return CONTROL if zstd_on_control and not shared else None


def no_zstd(host: str, archive: str, shared: bool) -> str:
    """What to tell where nobody can decompress."""
    if shared:
        return f"{host}: {archive} is compressed with zstd, and the host has no zstd to read it with. Install it there"
    return (
        f"{host}: {archive} is compressed with zstd, and there is no zstd to read it with, neither on the host nor on "
        "the control node. Install it on one of them"
    )


def archive_facts(head: bytes, size: int) -> dict[str, Any]:
    """{size, compression, tar_size} of an archive: bytes; the method, or None; bytes of the tar in it, None if unknown.

    head: its first HEAD bytes; size: its own.
    """
    method = compression(head)
    tar_size = size if method is None else zstd_content_size(head) if method == "zstd" else None
    return {"size": size, "compression": method, "tar_size": tar_size}


def zstd_content_size(head: bytes) -> int | None:
    """The size that the first zstd frame tells of its content (RFC 8878, 3.1.1.1); None when it tells none."""
    if len(head) < HEAD:
        return None
    descriptor = head[4]
    flag, single_segment = descriptor >> 6, descriptor >> 5 & 1
    start = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    if flag == 0:
        return head[start] if single_segment else None
    if flag == 1:
        return int(struct.unpack_from("<H", head, start)[0]) + 256
    return int(struct.unpack_from("<I" if flag == 2 else "<Q", head, start)[0])


def room_problem(folder_room: Room | None, root: Room, to_send: int, unpacked: int) -> str | None:
    """What is missing on the host's disks, as a sentence without an end; None when there is room or it is not known.

    folder_room: where the pieces go, None when none are sent; root: Docker's; to_send: bytes that are still to come;
    unpacked: bytes of the tar, at least. While Docker loads, it keeps a copy of the archive beside the unpacked layers.
    """
    needs: list[tuple[Room, float]] = [(root, (1 + UNPACKED) * unpacked / MIB)]
    if folder_room is not None:
        # Equal to the MiB means one file system: it has to hold both.
        if (folder_room.free, folder_room.total) == (root.free, root.total):
            needs = [(root, needs[0][1] + to_send / MIB)]
        else:
            needs.append((folder_room, to_send / MIB))
    short = [
        f"{_gib(need)} in {room.path}, where {_gib(room.free)} are free"
        for room, need in needs
        if room.free is not None and room.free < need
    ]
    return "needs " + ", and ".join(short) if short else None


def _gib(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB"


def receive_command(python: str, where: str, index: int, size: int, sha256: str) -> list[str]:
    """Command line that takes a piece from standard input on the host."""
    return [python, "-I", f"{where}/{TOOL}", "receive", f"{where}/{piece_name(index)}", str(size), sha256]


def load_command(
    python: str, where: str, docker: str, files: Sequence[str], zstd: str | None, sha256: str | None
) -> list[str]:
    """Command line that feeds an archive to Docker. zstd: the program to decompress it with; sha256: of the tar.

    files: without any, the pieces in `where` as they arrive.
    """
    options = [*(["--zstd", zstd] if zstd else []), *(["--sha256", sha256] if sha256 else [])]
    source = ["--", *files] if files else ["--follow", where]
    return [python, "-I", f"{where}/{TOOL}", "load", *options, "--docker", docker, *source]


def count_command(where: str, count: int) -> str:
    """Shell command that tells who follows the pieces how many they are."""
    path = shlex.quote(f"{where}/{COUNT}")
    return f"echo {count} > {path}.new && mv {path}.new {path}"


def start_command(name: str, argv: Sequence[str]) -> list[str]:
    """Command line that runs another one as a systemd unit of that name. Its end can be asked for afterwards."""
    # systemd replaces $NAME in what a unit runs.
    escaped = [word.replace("$", "$$") for word in argv]
    return ["systemd-run", "--quiet", "--unit", name, "--property=RemainAfterExit=yes", *escaped]


@dataclass(frozen=True)
class UnitState:
    """A unit as `systemctl show` describes it. state: running, failed or ended; pid: of its process, "0" for none."""

    state: str
    pid: str
    invocation: str
    result: str


SHOWN = "MainPID,ActiveState,SubState,Result,InvocationID"


def unit_state(text: str) -> UnitState:
    """From the output of `systemctl show --property=<SHOWN>`. A unit that is not there has ended."""
    shown = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    state = "ended"
    if shown.get("ActiveState") == "failed":
        state = "failed"
    elif shown.get("SubState") in ("running", "start"):
        state = "running"
    return UnitState(state, shown.get("MainPID", "0"), shown.get("InvocationID", ""), shown.get("Result", "unknown"))


def percent(sizes: Sequence[int], position: tuple[int, int] | None) -> int:
    """How much of files of these sizes has been read. position: index of the file that is open, bytes read of it.

    None is 100 %: all has been read, and Docker unpacks.
    """
    if position is None:
        return 100
    index, read = position
    return 100 * (sum(sizes[:index]) + read) // (sum(sizes) or 1)


def sent_words(sent: int, total: int | None, seconds: float) -> str:
    """How far a transfer is. sent: bytes that went over the line; total: bytes that have to, None when not known."""
    rate = sent / MIB / seconds if seconds > 0 else 0.0
    of = f" of {total / MIB:.0f} MiB, {100 * sent // (total or 1)} %" if total is not None else " MiB"
    return f"sent {sent / MIB:.0f}{of}, {rate:.0f} MiB/s"


def load_words(running: bool, read: int) -> str:
    """How far a load is. read: percent of the archive."""
    if not running:
        return "image loaded"
    return "unpacking the image" if read >= 100 else f"reading the image archive, {read} %"
