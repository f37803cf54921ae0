# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the Python of an image in a container of its own, without a network, and takes the container away again."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import BriefRun, Docker

NAMES = ("python3", "python")


def run_python(
    docker: Docker, image: str, arguments: Sequence[str], seconds: int, options: Sequence[str] = ()
) -> BriefRun:
    """Run the image's own python3, or python where there is no python3, with these arguments.

    options: more of `docker run`. The image has to be there: it is not pulled.
    """
    name = f"tandem-python-{uuid.uuid4().hex[:12]}"
    start = ["docker", "run", "--rm", "--pull", "never", "--network", "none", "--name", name, *options]
    for python in NAMES:
        ran = docker.run_briefly([*start, "--entrypoint", python, image, *arguments], name, seconds)
        if not (ran.status == 127 and "executable file not found" in ran.err):
            break
    return ran
