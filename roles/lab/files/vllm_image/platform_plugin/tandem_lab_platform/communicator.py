# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collectives between ranks that may be on different hosts: plain gloo, never shared memory."""

from __future__ import annotations

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class LabCpuCommunicator(CpuCommunicator):
    """A CpuCommunicator that never takes the shared-memory path.

    vLLM takes that path when all ranks would give the segment the same name, which ranks on different hosts do as well:
    they would then each wait for the other in a segment of their own.
    """

    def _all_group_ranks_share_shm_group_name(self) -> bool:
        return False
