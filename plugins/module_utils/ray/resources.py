# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows "used/total name" of `ray status`, and what of a resource a new engine can have."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.ray.values import NUMBER, UNIT, size_bytes

ROW = re.compile(
    rf"\s*(?P<used>{NUMBER})\s?(?P<used_unit>{UNIT})?\s?/\s?(?P<total>{NUMBER})\s?(?P<total_unit>{UNIT}(?=\s))?"
    rf"\s+(?!{UNIT}$)(?P<name>[^\s(]\S*)"
    rf"(?:\s+\((?P<pg_used>{NUMBER})\s?(?P<pg_used_unit>{UNIT})?\s+used\s+of\s+"
    rf"(?P<pg_reserved>{NUMBER})\s?(?P<pg_reserved_unit>{UNIT})?\s+reserved\s+in\s+placement\s+groups\))?"
)
# "0. 0/40.0 CPU", as it comes out of pictures.
BROKEN_NUMBER = re.compile(r"(?<=\d)\. (?=\d)")
PLACES = 4


def row(line: str) -> tuple[str, dict[str, Any]] | None:
    """Name and values of a row; None where the line is none.

    used, total: numbers, or texts such as "5.42KiB" where Ray prints sizes, with used_bytes and total_bytes beside
    them; used_approx: used without float noise; pg_used, pg_reserved: of placement groups, 0 without any (in bytes
    where Ray prints sizes); free and free_for_new_pg: what a new placement group can have.
    """
    match = ROW.match(BROKEN_NUMBER.sub(".", line))
    if match is None:
        return None
    found = match.groupdict()
    if found["total_unit"] or found["used_unit"]:
        return found["name"], _size(found)
    used, total = float(found["used"]), float(found["total"])
    pg_used, pg_reserved = float(found["pg_used"] or 0), float(found["pg_reserved"] or 0)
    free = _free(used, total, pg_used, pg_reserved)
    return found["name"], {
        "used": used,
        "used_approx": round(used, PLACES) + 0.0,
        "total": total,
        "pg_used": pg_used,
        "pg_reserved": pg_reserved,
        "free": free,
        "free_for_new_pg": free,
    }


def _free(used: float, total: float, pg_used: float, pg_reserved: float) -> float:
    # What is used includes what placement groups use, but not what they only reserve.
    return round(total - used + pg_used - pg_reserved, PLACES) + 0.0


def _size(found: dict[str, Any]) -> dict[str, Any]:
    """Values of a row of sizes. Old releases print one unit for both: "2.00/8.000 GiB memory"."""
    total_unit = found["total_unit"] or found["used_unit"]
    used_unit = found["used_unit"] or total_unit
    gap = "" if found["used_unit"] else " "
    used, total = size_bytes(float(found["used"]), used_unit), size_bytes(float(found["total"]), total_unit)
    pg = {
        name: size_bytes(float(found[name] or 0), found[name + "_unit"] or total_unit)
        for name in ("pg_used", "pg_reserved")
    }
    free = max(0, round(_free(used, total, pg["pg_used"], pg["pg_reserved"])))
    return {
        "used": found["used"] + gap + used_unit,
        "used_approx": used,
        "total": found["total"] + gap + total_unit,
        "used_bytes": used,
        "total_bytes": total,
        **pg,
        "free": free,
        "free_for_new_pg": free,
    }


def total_of(resources: dict[str, dict[str, Any]] | None, name: str) -> float | None:
    """How much the cluster has of a resource: 0 where rows are known and it is not among them, None without rows."""
    if not resources:
        return None
    return float(resources[name]["total"]) if name in resources else 0.0


def free_of(resources: dict[str, dict[str, Any]] | None, name: str) -> float | None:
    """How much of a resource a new placement group can have, as `total_of`."""
    if not resources:
        return None
    return float(resources[name]["free"]) if name in resources else 0.0
