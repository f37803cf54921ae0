# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which limits a container inherits from Docker: of containerd's process, its unit, and Docker's default ulimits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

UNLIMITED = -1
DEFAULT_CONFIG = "/etc/docker/daemon.json"
NAMES = ("nofile", "memlock")

_PROC_LINES = {"nofile": "Max open files", "memlock": "Max locked memory"}
_UNIT_KEYS = {"nofile": "LimitNOFILE", "memlock": "LimitMEMLOCK"}


@dataclass(frozen=True)
class Limit:
    """One resource limit. soft, hard: a number (files, or bytes), UNLIMITED, or None where it is not known."""

    soft: int | None = None
    hard: int | None = None


UNKNOWN = Limit()


def of_process(text: str) -> dict[str, Limit]:
    """The limits in /proc/<pid>/limits, by NAMES."""
    found = {}
    for name, title in _PROC_LINES.items():
        match = re.search(rf"^{title}\s+(\S+)\s+(\S+)", text, re.MULTILINE)
        if match:
            found[name] = Limit(_number(match[1]), _number(match[2]))
    return found


def of_unit(text: str, pids: Sequence[int]) -> dict[str, Limit]:
    """The limits that a unit starts with, by NAMES, of the unit in `systemctl show` whose main process is in `pids`.

    text: MainPID and the properties LimitNOFILE, LimitNOFILESoft, … a line each, units apart by an empty line.
    """
    for block in re.split(r"\n\s*\n", text):
        shown = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if shown.get("MainPID", "0") != "0" and _number(shown["MainPID"]) in pids:
            return {
                name: Limit(_number(shown.get(f"{k}Soft")), _number(shown.get(k))) for name, k in _UNIT_KEYS.items()
            }
    return {}


def handed_on(process: Limit, unit: Limit) -> Limit:
    """The limit that a daemon's children get, which for open files is not the soft limit that /proc shows.

    Programs written in Go raise their own soft limit to the hard one, and give their children the one that they were
    started with. That one is the unit's, unless the unit was changed since: then it is not known.
    """
    if process.soft != process.hard or unit.soft in (None, unit.hard):
        return process
    if unit.hard in (process.hard, UNLIMITED):
        return Limit(unit.soft, process.hard)
    return Limit(None, process.hard)


def config_file(argv: Sequence[str]) -> str:
    """The daemon.json that a dockerd started with `argv` reads."""
    return (_values(argv, "--config-file") or [DEFAULT_CONFIG])[-1]


def flags(argv: Sequence[str]) -> list[str]:
    """The arguments of a dockerd, without the program and without the configuration file."""
    kept, skip = [], False
    for word in argv[1:]:
        if skip or word == "--config-file":
            skip = not skip
        elif not word.startswith(("--config-file=", "--validate")):
            kept.append(word)
    return kept


def default_ulimits(settings: Mapping[str, Any], argv: Sequence[str]) -> dict[str, Limit]:
    """Docker's default ulimits by name, from daemon.json's settings and from dockerd's arguments."""
    found = {}
    ulimits = settings.get("default-ulimits")
    for key, value in ulimits.items() if isinstance(ulimits, dict) else ():
        if isinstance(value, dict):
            # Docker matches these names whatever their case, and takes one that is not there as 0.
            fields = {str(name).lower(): item for name, item in value.items()}
            soft, hard = fields.get("soft", 0), fields.get("hard", 0)
            if isinstance(soft, int) and isinstance(hard, int):
                found[str(fields.get("name", key))] = Limit(soft, hard)
    for value in _values(argv, "--default-ulimit"):
        name, _equals, both = value.partition("=")
        soft_text, _colon, hard_text = both.partition(":")
        found[name] = Limit(_number(soft_text), _number(hard_text or soft_text))
    return found


def container_limits(
    process: Mapping[str, Limit], unit: Mapping[str, Limit], defaults: Mapping[str, Limit]
) -> dict[str, int | None]:
    """{nofile, nofile_hard: files; memlock: bytes} that a container gets; UNLIMITED, or None where not known."""
    limits = {}
    for name in NAMES:
        of_daemon = process.get(name, UNKNOWN)
        # Only the limit of open files is one that Go raises.
        inherited = handed_on(of_daemon, unit.get(name, UNKNOWN)) if name == "nofile" else of_daemon
        limits[name] = defaults.get(name, inherited)
    return {"nofile": limits["nofile"].soft, "nofile_hard": limits["nofile"].hard, "memlock": limits["memlock"].soft}


def _number(text: str | None) -> int | None:
    if text in ("unlimited", "infinity", "-1"):
        return UNLIMITED
    return int(text) if text is not None and text.isdecimal() else None


def _values(argv: Sequence[str], option: str) -> list[str]:
    """Values of an option given as --option value or --option=value."""
    after = [value for word, value in zip(argv, argv[1:]) if word == option]
    return after + [word.partition("=")[2] for word in argv if word.startswith(option + "=")]
