# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python that wheels are installed into, an image's or that of a virtual environment: asks it, and installs.

Nothing of it reaches a network. Asking changes nothing: containers are removed, and the environment is only read.
"""

from __future__ import annotations

import inspect
import os
import signal
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import derived, target_pip, target_proof
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.derived import ImageFacts
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.node_wheels import REQUIREMENTS
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.target_proof import Proof
from ansible_collections.tandem.vllm.plugins.module_utils.host import import_probe
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Docker, Runner, limited


class TargetError(Exception):
    """The target cannot be asked or changed; the message says why."""


class Target(Protocol):
    """Where commands run."""

    @property
    def python(self) -> str:
        """Its interpreter."""

    @property
    def folder(self) -> str:
        """The folder of the wheels, as it sees it."""

    def run(self, argv: Sequence[str], environment: Mapping[str, str], seconds: int) -> tuple[int, str, str]:
        """Run a command with variables of its own; (exit status, stdout, stderr)."""

    def program(self, name: str) -> str:
        """How a program that the target's projects brought along is called."""


@dataclass(frozen=True)
class Container:
    """A container made of an image, which waits for commands."""

    command: Runner
    name: str
    python: str
    folder: str = derived.WHEELS

    def run(self, argv: Sequence[str], environment: Mapping[str, str], seconds: int) -> tuple[int, str, str]:
        """Run a command in the container."""
        return self.command(limited(seconds, derived.exec_argv(self.name, environment, argv)))

    def program(self, name: str) -> str:
        """As the image's PATH finds it, as it does for who starts the image."""
        return name


@dataclass(frozen=True)
class Venv:
    """A virtual environment on the host."""

    command: Runner
    path: str
    folder: str

    @property
    def python(self) -> str:
        """Its interpreter."""
        return os.path.join(self.path, "bin", "python")

    def run(self, argv: Sequence[str], environment: Mapping[str, str], seconds: int) -> tuple[int, str, str]:
        """Run a command in a network namespace of its own, which leads nowhere."""
        variables = [f"{key}={environment[key]}" for key in sorted(environment)]
        return self.command(limited(seconds, ["unshare", "--net", "env", "-u", "PYTHONPATH", *variables, *argv]))

    def program(self, name: str) -> str:
        """Beside the interpreter."""
        return os.path.join(self.path, "bin", name)


def images(run: Runner, *refs: str) -> list[ImageFacts]:
    """Images by id, digest or tag. Raises TargetError where Docker has one of them not."""
    status, out, err = run(limited(60, ["docker", "image", "inspect", *refs]))
    if status != 0:
        lines = err.strip().splitlines()
        raise TargetError(lines[-1] if lines else f"docker image inspect ended with exit status {status}")
    return derived.of_inspect(out)


def find_derived(run: Runner, labels: Mapping[str, str], tag: str | None) -> ImageFacts | None:
    """The image with these labels, the one of that name before others; None without."""
    status, out, err = run(limited(60, derived.find_argv(labels)))
    if status != 0:
        raise TargetError(err.strip() or f"docker image ls ended with exit status {status}")
    ids = list(dict.fromkeys(out.split()))
    found = images(run, *ids) if ids else []
    return next((image for image in found if tag in image.tags), found[0] if found else None)


@contextmanager
def container(
    run: Runner, image: ImageFacts, python: str, folder: str | None, seconds: int, name: str | None = None
) -> Iterator[Container]:
    """A container of an image, for so many seconds at most; it is removed at the end. Raises TargetError.

    folder: of the wheels on the host. name: where a container of an earlier run that was cut off must be removed first.
    """
    docker, called = Docker(run), name or "tandem-wheels-" + uuid.uuid4().hex[:12]
    if name:
        docker.remove(name)
    try:
        status, _out, err = run(limited(120, derived.start_argv(image, called, python, seconds, folder)))
        if status != 0:
            lines = [line for line in err.strip().splitlines() if not line.startswith("See 'docker run --help'")]
            raise TargetError(f"{image.id}: no container started: {' '.join(lines) or f'exit status {status}'}")
        yield Container(run, called, python)
    finally:
        docker.remove(called)


def pip_of(target: Target, wheel: str | None) -> list[str]:
    """How the target's pip is called. wheel: pip's own among the wheels, None where the target has pip."""
    return target_pip.pip(target.python, target.folder, wheel)


def requirements_of(target: Target) -> str:
    """The list of what is to be installed, as the target sees it."""
    return f"{target.folder}/{REQUIREMENTS}"


def has_already(target: Target, pip: Sequence[str], requirement: str) -> bool:
    """Whether the target has all of a requirement."""
    status, _out, _err = _pip(target, target_pip.has_already(pip, requirement))
    return status == 0


def would_install(target: Target, pip: Sequence[str], requirement: str) -> tuple[list[dict[str, str]], list[str]]:
    """What the list would install, {name, version} each, and why it cannot, in pip's words (empty when it can)."""
    reasons, rows = [], []
    status, out, err = _pip(target, target_pip.would_install(pip, target.folder, requirements_of(target)))
    try:
        rows = target_pip.report(out) if status == 0 else []
    except ValueError as error:
        reasons.append(f"pip's report cannot be read: {error}")
    if status != 0:
        reasons.append(target_pip.reason(status, out, err))
    status, out, err = _pip(target, target_pip.is_complete(pip, target.folder, requirement))
    if status != 0:
        reasons.append(target_pip.reason(status, out, err))
    return rows, list(dict.fromkeys(reasons))


def complaints(target: Target, pip: Sequence[str]) -> list[str]:
    """What `pip check` finds. Raises TargetError where it cannot be asked."""
    status, out, err = _pip(target, target_pip.check(pip))
    # 1 is what it answers for complaints, which it prints; anything else is a failure of its own.
    if status != 0 and (status != 1 or not out.strip()):
        raise TargetError("pip check: " + target_pip.reason(status, out, err))
    return target_pip.complaints(status, out)


def install(target: Target, pip: Sequence[str], own: bool, again: bool, seconds: int) -> None:
    """Install the list. own: pip came with the wheels; again: also what seems to be there. Raises TargetError."""
    argv = target_pip.install(pip, target.folder, requirements_of(target), own, again)
    status, out, err = target.run(argv, target_pip.ENVIRONMENT, seconds)
    if status != 0:
        raise TargetError("pip install: " + target_pip.reason(status, out, err))


def prove(
    target: Target, pip: Sequence[str], modules: Sequence[str], projects: Sequence[str], base: Sequence[str]
) -> Proof:
    """What the target shows. modules, projects: see target_proof; base: complaints of before. Raises TargetError."""
    environment = target_proof.ENVIRONMENT
    argv = target_proof.import_argv(target.python, inspect.getsource(import_probe), modules, projects)
    imports = target_proof.read_imports(*target.run(argv, environment, 600))
    status, out, _err = target.run([target.program("ray"), "--version"], environment, 120)
    version = target_proof.read_ray_version(status, out)
    frozen, out, err = _pip(target, target_pip.freeze(pip))
    if frozen != 0:
        raise TargetError("pip freeze: " + target_pip.reason(frozen, out, err))
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    return Proof(version, complaints(target, pip), list(base), lines, imports)


def end_in_order() -> None:
    """Have the signals of a lost connection end the process in the ordinary way, so that containers are removed."""
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, _end)


def _end(_signal: int, _frame: Any) -> None:
    raise SystemExit(1)


def _pip(target: Target, argv: Sequence[str]) -> tuple[int, str, str]:
    environment = {**target_pip.ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"}
    return target.run(argv, environment, 300)
