# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of host_info: compares the host's clock with the control node's."""

from __future__ import annotations

import re
import time
from typing import Any

from ansible.plugins.action import ActionBase

MODULE = "tandem.vllm.host_info"
PROBES = 3
# A shell and date answer in milliseconds; starting Python for a module takes a good part of a second.
PROBE = "date +%s.%N"


class ActionModule(ActionBase):
    """Runs the module, then measures."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result.update(self._execute_module(MODULE, module_args=dict(self._task.args), task_vars=task_vars))
        if not (result.get("failed") or result.get("unreachable")):
            # After the module, so that the connection is there already.
            result.update(best([self._probe() for _number in range(PROBES)]))
        return result

    def _probe(self) -> tuple[float, str, float]:
        before = time.time()
        answer = self._low_level_execute_command(PROBE)  # type: ignore[no-untyped-call]  # Ansible leaves it untyped
        return before, str(answer.get("stdout", "")), time.time()


def best(probes: list[tuple[float, str, float]]) -> dict[str, float | None]:
    """Offset and uncertainty in seconds, of the fastest probe that told a time; null without one.

    probes: control node's time before, what the host printed, control node's time after. The host looked at its clock
    some time between the two, so half the time between them is how wrong the offset can be.
    """
    measured = []
    for before, printed, after in probes:
        told = re.search(r"^(\d+\.\d{3,9})\s*$", printed, re.MULTILINE)
        # A clock that was set back meanwhile measures nothing.
        if told and after >= before:
            uncertainty = (after - before) / 2
            measured.append((uncertainty, float(told[1]) - (before + uncertainty)))
    if not measured:
        return {"clock_offset_s": None, "clock_uncertainty_s": None}
    uncertainty, offset = min(measured)
    return {"clock_offset_s": round(offset, 6), "clock_uncertainty_s": round(uncertainty, 6)}
