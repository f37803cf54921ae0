# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe starts a container as the role vllm_server does: every option of the one is known to the other."""

from __future__ import annotations

from typing import Any

import yaml
from ansible_collections.tandem.vllm.plugins.module_utils.gpu import visibility as gpu_visibility
from ansible_collections.tandem.vllm.tests.unit.house.tree import ROOT

TASK = yaml.safe_load((ROOT / "roles/vllm_server/tasks/container.yml").read_text())[0]
OPTIONS: dict[str, Any] = TASK["community.docker.docker_container"]


def test_the_launch_has_no_option_that_the_probe_does_not_know() -> None:
    known = {
        *gpu_visibility.VALUES,
        *gpu_visibility.SWITCHES,
        *gpu_visibility.LISTS,
        *gpu_visibility.APART,
        *gpu_visibility.LEFT_ALONE,
    }
    assert sorted(key for key, value in OPTIONS.items() if key not in known and value) == []


def test_what_the_launch_states_by_itself_the_probe_states_as_well() -> None:
    stated = {
        key: value
        for key, value in OPTIONS.items()
        if key not in gpu_visibility.LEFT_ALONE and value and "{{" not in str(value)
    }
    assert stated == gpu_visibility.ALWAYS
