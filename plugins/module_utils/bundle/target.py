# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python that wheels are for: what a probe told of it, the tags that it takes, and what is installed there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import wheels
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target, canonical_name


class ProbeError(ValueError):
    """A Python did not tell about itself; the message says what it said instead."""


@dataclass(frozen=True)
class Distribution:
    """A package that is installed. name: normalised; requires: its Requires-Dist, None where not known; extras."""

    name: str
    version: str
    requires: tuple[str, ...] | None = None
    extras: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Distribution:
        """Of {name, version} and, where known, requires and extras."""
        requires = data.get("requires")
        return cls(
            canonical_name(str(data["name"])),
            str(data["version"]),
            None if requires is None else tuple(" ".join(str(line).split()) for line in requires),
            tuple(data.get("extras") or ()),
        )

    def to_dict(self) -> dict[str, Any]:
        """As a plain mapping."""
        requires = None if self.requires is None else list(self.requires)
        return {"name": self.name, "version": self.version, "requires": requires, "extras": list(self.extras)}


def read_probe(text: str) -> dict[str, Any]:
    """What host/python_probe.py printed, as the module python_target_info returns it. Raises ProbeError.

    target: as Target.to_dict would have it; distributions: sorted by name; pip, ray: version or None; executable.
    """
    # The image may print something of its own before it, or after.
    lines = [line for line in text.splitlines() if line.startswith('{"python":')]
    try:
        told = json.loads(lines[-1])
    except (IndexError, ValueError):
        raise ProbeError((text.strip() or "it printed nothing").splitlines()[-1]) from None
    parts = {key: told[key] for key in ("python", "implementation", "abi", "machine", "glibc")}
    listed = told["tags"] or list(tags(Target.from_dict({**parts, "tags": []})))
    installed = sorted((Distribution.from_dict(entry) for entry in told["distributions"]), key=lambda d: d.name)
    versions = {distribution.name: distribution.version for distribution in installed}
    return {
        "target": {**parts, "tags": listed},
        "distributions": [distribution.to_dict() for distribution in installed],
        "pip": versions.get("pip"),
        "ray": versions.get("ray"),
        "executable": told["executable"],
    }


def platforms(target: Target) -> list[str]:
    """The platform tags that a target takes, the best first, without `any`."""
    if target.tags:
        found = dict.fromkeys(tag.split("-")[2] for tag in target.tags)
        return [platform for platform in found if platform != "any"]
    return list(_platforms(target.machine, target.glibc))


def tags(target: Target) -> Iterator[str]:
    """The tags that a CPython target takes, in the order of packaging.tags.sys_tags(): the best first."""
    major, minor = (int(part) for part in target.python.split(".")[:2])
    own, everywhere = target.interpreter, platforms(target)
    # A build without the global lock does not take the stable ABI of the others.
    stable = None if target.abi.endswith("t") else "abi3"
    for abi in (target.abi, stable, "none"):
        yield from (f"{own}-{abi}-{platform}" for platform in everywhere if abi)
    if stable:
        for older in range(minor - 1, 1, -1):
            yield from (f"cp{major}{older}-{stable}-{platform}" for platform in everywhere)
    plain = [f"py{major}{minor}", f"py{major}", *(f"py{major}{older}" for older in range(minor - 1, -1, -1))]
    yield from (f"{python}-none-{platform}" for python in plain for platform in everywhere)
    yield from (f"{python}-none-any" for python in [own, *plain])


def changes(before: Iterable[Distribution], after: Mapping[str, str]) -> list[dict[str, str]]:
    """What of the target would get another version: {name, from, to} each. after: versions by normalised name."""
    return [
        {"name": found.name, "from": found.version, "to": after[found.name]}
        for found in before
        if after.get(found.name, found.version) != found.version
    ]


def _platforms(machine: str, glibc: str | None) -> Iterator[str]:
    """Platform tags of a Linux machine, the best first."""
    # A wheel that was built for just this system comes first, as in packaging since 26.
    yield f"linux_{machine}"
    if glibc and machine in wheels.MANYLINUX_MACHINES:
        legacy = {version: name for name, version in wheels.LEGACY_MANYLINUX.items()}
        oldest = wheels.OLDEST_GLIBC.get(machine, (2, 17))[1]
        for minor in range(int(glibc.split(".")[1]), oldest - 1, -1):
            yield f"manylinux_2_{minor}_{machine}"
            if (2, minor) in legacy:
                yield f"{legacy[(2, minor)]}_{machine}"
