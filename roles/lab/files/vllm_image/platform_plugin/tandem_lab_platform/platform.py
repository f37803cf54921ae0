# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The platform: what vLLM asks to learn which classes to use and which Ray resource a rank takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.platforms.cpu import CpuPlatform

if TYPE_CHECKING:
    from vllm.config import VllmConfig

_STOCK_WORKER = "vllm.v1.worker.cpu_worker.CPUWorker"


class LabCpuPlatform(CpuPlatform):
    """The CPU platform with a Ray resource: each lab node declares `ray start --num-gpus=1`."""

    # Empty in vLLM's CPU platform, which is how that says "no Ray". With it, placement groups, `ray status` and the
    # number of ranks a node takes look in the lab as they do on GPU servers.
    ray_device_key: str = "GPU"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return "tandem_lab_platform.communicator.LabCpuCommunicator"

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        super().check_and_update_config(vllm_config)
        parallel = vllm_config.parallel_config
        # Only where it is needed, so that a single-stage engine runs vLLM's own worker.
        if parallel.pipeline_parallel_size > 1 and parallel.worker_cls == _STOCK_WORKER:
            parallel.worker_cls = "tandem_lab_platform.worker.LabCpuWorker"
