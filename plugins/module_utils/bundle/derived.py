# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker's command lines for a container in which something is tried or installed, and for the image made of it.

An image is made by `docker commit` and not by a Dockerfile: a COPY would leave the wheels in a layer for good, and what
spares that (RUN --mount) needs BuildKit, which nodes with Docker 20.10 or without buildx do not have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A folder of nearly every image: Docker makes a missing mount point, and that would be left in the layer.
WHEELS = "/mnt"
# Of an image's configuration: what decides how its containers run. The rest is the building container's own.
KEPT = (
    "Entrypoint",
    "Cmd",
    "Env",
    "User",
    "WorkingDir",
    "ExposedPorts",
    "Volumes",
    "StopSignal",
    "Shell",
    "Healthcheck",
    "OnBuild",
)


class ConfigError(Exception):
    """An image whose configuration cannot be kept; the message says why."""


@dataclass(frozen=True)
class ImageFacts:
    """An image as Docker reports it. id: sha256:…; config: its Config; size: bytes, all layers; tags: its names."""

    id: str
    config: Mapping[str, Any]
    size: int
    tags: tuple[str, ...]

    @property
    def entrypoint(self) -> list[str]:
        """Its ENTRYPOINT, empty without."""
        return list(self.config.get("Entrypoint") or [])

    @property
    def command(self) -> list[str]:
        """Its CMD, empty without."""
        return list(self.config.get("Cmd") or [])

    @property
    def user(self) -> str:
        """Its USER, empty for root."""
        return str(self.config.get("User") or "")

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return dict(self.config.get("Labels") or {})


def of_inspect(out: str) -> list[ImageFacts]:
    """The images that `docker image inspect` printed."""
    return [
        ImageFacts(found["Id"], found.get("Config") or {}, found["Size"], tuple(found.get("RepoTags") or ()))
        for found in json.loads(out)
    ]


def start_argv(image: ImageFacts, name: str, python: str, seconds: int, folder: str | None) -> list[str]:
    """Starts a container without a network that waits for commands and ends by itself after so many seconds.

    folder: of the wheels on the host, mounted read-only; None for none. Raises ConfigError.
    """
    # runc, and not what may be the default: NVIDIA's runtime would leave mount points of the driver's files behind. No
    # --init either: it leaves its program.
    options = ["--detach", "--name", name, "--network", "none", "--runtime", "runc", "--log-driver", "none"]
    if folder:
        if "," in folder:
            raise ConfigError(f"{folder} cannot be mounted: the path holds a comma")
        options += ["--mount", f"type=bind,src={folder},dst={WHEELS},readonly"]
    # What is not the image's own is taken back by `commit_argv`. An option that was never given need not be: Docker
    # cannot set these back to nothing.
    if image.user:
        options += ["--user", "0"]
    wait = [python, "-c", f"import time; time.sleep({seconds})"]
    if image.entrypoint:
        return ["docker", "run", *options, "--entrypoint", wait[0], image.id, *wait[1:]]
    return ["docker", "run", *options, image.id, *wait]


def exec_argv(name: str, environment: Mapping[str, str], argv: Sequence[str]) -> list[str]:
    """Runs a command in the container, as root. The environment is the command's alone: none of it is committed."""
    variables = [word for key in sorted(environment) for word in ("--env", f"{key}={environment[key]}")]
    return ["docker", "exec", "--user", "0", "--workdir", "/", *variables, name, *argv]


def commit_argv(image: ImageFacts, name: str, labels: Mapping[str, str]) -> list[str]:
    """Makes an image of the container, with the configuration of the image that it was started from.

    Raises ConfigError for an image whose configuration Docker cannot give to another.
    """
    if not image.entrypoint and not image.command:
        raise ConfigError(
            f"{image.id} has neither ENTRYPOINT nor CMD, and Docker cannot leave both out where it makes an image"
        )
    changes = [f"LABEL {json.dumps(key)}={json.dumps(value)}" for key, value in sorted(labels.items())]
    # ENTRYPOINT before CMD: it takes back a CMD.
    if image.entrypoint:
        changes.append("ENTRYPOINT " + json.dumps(image.entrypoint))
    if image.command:
        changes.append("CMD " + json.dumps(image.command))
    if image.user:
        changes.append("USER " + image.user)
    return ["docker", "commit", *[word for change in changes for word in ("--change", change)], name]


def find_argv(labels: Mapping[str, str]) -> list[str]:
    """Lists the ids of images with these labels, the newest first."""
    filters = [word for key, value in sorted(labels.items()) for word in ("--filter", f"label={key}={value}")]
    return ["docker", "image", "ls", "--no-trunc", "--quiet", *filters]


def differences(base: ImageFacts, derived: ImageFacts, labels: Mapping[str, str]) -> list[str]:
    """How an image's configuration differs from its base's, but for the labels that it should have; empty is right."""
    found = [
        f"{key} is {json.dumps(derived.config.get(key))}, was {json.dumps(base.config.get(key))}"
        for key in KEPT
        if (derived.config.get(key) or None) != (base.config.get(key) or None)
    ]
    wanted = {**base.labels, **labels}
    if derived.labels != wanted:
        found.append(f"Labels are {json.dumps(derived.labels)}, should be {json.dumps(wanted)}")
    return found
