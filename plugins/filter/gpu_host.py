# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges what was measured on a GPU host, and words the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host import judge as gpu_host
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement, plain

HEADLINE = "The host is not fit for its replicas"


def gpu_host_checks(
    measured: Mapping[str, Any],
    placement: Mapping[str, Any],
    node: str,
    settings: Mapping[str, Any] | None = None,
    offsets: Sequence[float] = (),
) -> list[dict[str, str]]:
    try:
        where = Placement.from_dict(placement)
        wanted = plain(settings or {})
        strict = gpu_host.Settings(**{**wanted, "accept": tuple(wanted.get("accept") or ())})
        host = gpu_host.host_of(where, str(node), plain(measured), strict, [float(o) for o in offsets])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(
            f"gpu_host_checks wants a placement, one of its nodes, and known settings: {error!r}"
        ) from error
    return [check.to_dict() for check in gpu_host.judge(host, where.lab)]


def gpu_host_failures(checks: Sequence[Mapping[str, Any]], headline: str = HEADLINE) -> str:
    return gpu_host.failures(checks, headline)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "gpu_host_checks": gpu_host_checks,
            "gpu_host_failures": gpu_host_failures,
            "gpu_host_rows": gpu_host.rows,
            "gpu_host_summary": gpu_host.summary,
        }
