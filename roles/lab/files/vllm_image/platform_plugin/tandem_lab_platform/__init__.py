# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU platform of vLLM, able to run under Ray and over several hosts. For the lab only.

vLLM calls register() in every one of its processes, before its own modules are ready: nothing of vLLM is imported here.
"""


def register() -> str:
    """Name the platform class. A plugin's platform wins over the built-in one."""
    return "tandem_lab_platform.platform.LabCpuPlatform"
