# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads how Docker's daemons run on a host, and lets dockerd try a configuration. Changes nothing."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass

from ansible_collections.tandem.vllm.plugins.module_utils import container_limits
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Runner


class DaemonConfigError(Exception):
    """dockerd refuses a configuration; the message is its own."""


@dataclass(frozen=True)
class Process:
    """A running process: its id, its parent's, its name as in /proc/<pid>/comm, its arguments."""

    pid: int
    parent: int
    name: str
    argv: tuple[str, ...]


def read(root: str, path: str) -> bytes:
    """A file below `root`; nothing where it cannot be read, or is gone meanwhile."""
    try:
        with open(os.path.join(root, path.lstrip("/")), "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def processes(names: tuple[str, ...], root: str = "/") -> list[Process]:
    """The host's own processes of these names, oldest id first; those in containers have another pid namespace."""
    own = _namespace(root, "self")
    found = []
    for pid in sorted(int(os.path.basename(path)) for path in glob.glob(os.path.join(root, "proc/[0-9]*"))):
        folder = f"/proc/{pid}"
        name = read(root, f"{folder}/comm").decode(errors="replace").strip()
        if name not in names or _namespace(root, str(pid)) not in ("", own):
            continue
        # The name, in parentheses, may hold anything; the state and the parent's id come after it.
        fields = read(root, f"{folder}/stat").rpartition(b")")[2].split()
        parent = int(fields[1]) if len(fields) > 1 else 0
        argv = read(root, f"{folder}/cmdline").decode(errors="replace").split("\0")
        found.append(Process(pid, parent, name, tuple(word for word in argv if word)))
    return found


def _namespace(root: str, pid: str) -> str:
    """What names a process's pid namespace; nothing where that cannot be read."""
    try:
        return os.readlink(os.path.join(root, "proc", pid, "ns/pid"))
    except OSError:
        return ""


def validate(run: Runner, dockerd: str, path: str, real_path: str, root: str = "/") -> bool:
    """Whether dockerd tried the file at `path` in place of `real_path`; False where it is too old to (before 23).

    The arguments of the dockerd that reads `real_path` are tried with it, because a setting that is in both keeps
    Docker from starting. Raises DaemonConfigError when it refuses.
    """
    flags: list[str] = []
    for process in processes(("dockerd",), root):
        if os.path.realpath(container_limits.config_file(process.argv)) == os.path.realpath(real_path):
            flags = container_limits.flags(process.argv)
    status, out, err = run([dockerd, "--validate", "--config-file", path, *flags])
    if status == 0:
        return True
    said = (err or out).strip()
    if "unknown flag: --validate" in said:
        return False
    lines = said.splitlines() or [f"exit status {status}"]
    raise DaemonConfigError(lines[-1].replace(path, real_path))
