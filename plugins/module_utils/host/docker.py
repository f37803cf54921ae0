# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads containers and images of a host through Docker's command line.

What is there already is never changed; `run_briefly` starts a container of its own and takes it away again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable

# A command line in, (exit status, stdout, stderr) out: AnsibleModule.run_command, or a test's stand-in.
Runner = Callable[[Sequence[str]], "tuple[int, str, str]"]


def tolerant(run_command: Callable[..., tuple[int, str, str]]) -> Runner:
    """AnsibleModule.run_command that answers 127 where a program is missing, instead of ending the module."""

    def run(argv: Sequence[str]) -> tuple[int, str, str]:
        try:
            return run_command(argv, handle_exceptions=False)
        except OSError as error:
            return 127, "", f"{argv[0]}: {error.strerror}"

    return run


@dataclass(frozen=True)
class ContainerState:
    """A container as Docker reports it. status: created, running, paused, restarting, exited, dead."""

    status: str
    exit_code: int
    restarts: int
    started_at: str
    oom_killed: bool
    error: str


@dataclass(frozen=True)
class BriefRun:
    """A container that ran to its end, or was given up. status, out, err: of `docker run`; seconds: it took.

    left: why the container could not be removed; None when it is gone.
    """

    status: int
    out: str
    err: str
    seconds: float
    timed_out: bool
    left: str | None


# What `timeout` answers when it ended its command: by itself, by SIGKILL, and by SIGKILL as Python has it.
TIMED_OUT = (124, 137, -9)


def limited(seconds: int, argv: Sequence[str]) -> list[str]:
    """A command line that ends after so many seconds: a GPU that no longer answers can hang what asks for it."""
    return ["timeout", "-k", "5", str(seconds), *argv]


class Docker:
    """The Docker engine of a host."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def container(self, name: str) -> ContainerState | None:
        """State of a container; None when there is none of that name."""
        status, out, _err = self._run(["docker", "container", "inspect", name])
        if status != 0:
            return None
        found: dict[str, Any] = json.loads(out)[0]
        state = found["State"]
        return ContainerState(
            status=state["Status"],
            exit_code=state["ExitCode"],
            restarts=found["RestartCount"],
            started_at=state["StartedAt"],
            oom_killed=state["OOMKilled"],
            error=state["Error"],
        )

    def logs(self, name: str, tail: int) -> str:
        """The last lines of a container's output, stdout and stderr together in the order they were written."""
        _status, out, err = self._run(["docker", "logs", "--timestamps", "--tail", str(tail), name])
        # Docker hands the two streams over apart; its time stamps, of one fixed width, put them in order again.
        # Only at newlines: a progress bar's carriage returns are within one line, with one time stamp.
        stamped = [line.partition(" ") for line in (out + "\n" + err).split("\n")]
        return "\n".join(text for _stamp, _space, text in sorted(stamped, key=lambda parts: parts[0]) if text)

    def image_id(self, ref: str) -> str | None:
        """Id of an image by id, digest or tag; None when the host does not have it."""
        status, out, _err = self._run(["docker", "image", "inspect", "--format", "{{.Id}}", ref])
        return out.strip() if status == 0 else None

    def find_image(self, ref: str) -> tuple[str | None, str]:
        """Id of an image by id, digest or tag; None, and what Docker said, when it cannot show one."""
        status, out, err = self._run(limited(60, ["docker", "image", "inspect", "--format", "{{.Id}}", ref]))
        return (out.strip(), "") if status == 0 else (None, err.strip() or f"exit status {status}")

    def run_briefly(self, argv: Sequence[str], name: str, seconds: int) -> BriefRun:
        """Run a container of that name by its `docker run` command line, for so many seconds at most, and remove it."""
        started = time.monotonic()
        try:
            status, out, err = self._run(limited(seconds, argv))
        finally:
            took = time.monotonic() - started
            left = self.remove(name)
        # A container that was killed for memory ends with 137 as well, but before the time.
        timed_out = status in TIMED_OUT and took >= seconds
        return BriefRun(status, out, err, took, timed_out, left)

    def remove(self, name: str) -> str | None:
        """Remove a container by force, with its anonymous volumes; None when it is gone, or why it is not."""
        said = ""
        for _attempt in range(20):
            status, _out, err = self._run(limited(60, ["docker", "rm", "--force", "--volumes", name]))
            if status == 0 or "No such container" in err:
                return None
            said = err.strip() or f"docker rm ended with exit status {status}"
            # Docker is at it, as --rm told it.
            if "already in progress" not in said:
                break
            time.sleep(0.5)
        return said

    def labelled(self, label: str) -> dict[str, str]:
        """Names and whole ids of running containers with a label ("key=value"); empty when Docker does not answer."""
        argv = ["docker", "ps", "--no-trunc", "--filter", "label=" + label, "--format", "{{.Names}}\t{{.ID}}"]
        _status, out, _err = self._run(argv)
        rows = [line.partition("\t") for line in out.splitlines()]
        return {name: identity for name, _tab, identity in rows if re.fullmatch("[0-9a-f]{64}", identity)}

    def published_ports(self) -> tuple[str | None, str]:
        """Why Docker does not answer (None when it does), and a line a running container: name, tab, ports."""
        status, out, err = self._run(["docker", "ps", "--format", "{{.Names}}\t{{.Ports}}"])
        if status == 0:
            return None, out
        lines = (err or out).strip().splitlines()
        return (lines[-1] if lines else "docker was not found"), ""
