#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpu_info
short_description: Tell what a host's GPUs, their driver and the way from Docker to them are like
version_added: 0.1.0
description:
  - Reads C(nvidia-smi), the kernel's log and files, Docker, the container toolkit and the package manager.
  - It never fails on what it finds. A host without a GPU, a broken driver or a lost GPU is a result like another;
    RV(available), RV(usable) and RV(reason) tell it.
  - Values that the tools call N/A or Not Supported are V(null). C(ERR!) is no value but a fault of the GPU.
  - With texts that somebody captured it analyses a machine that cannot be reached. As soon as one text is given,
    nothing is read from this host, and what the texts do not tell is V(null) or an empty list.
author:
  - The Tandem contributors (@tandem)
options:
  smi_text:
    description:
      - What C(nvidia-smi) printed. The table of any driver, C(nvidia-smi -q), C(nvidia-smi -q -x), C(nvidia-smi -L),
        the CSV of C(--query-gpu) and C(--query-compute-apps), or an error.
      - Pieces of these are enough. Several of them may follow one another, with prompts and other lines between;
        what they tell of one GPU is put together. Kernel lines and a topology matrix among them are read too.
    type: str
  smi_list_text:
    description: What C(nvidia-smi -L) printed. It alone names the UUIDs and profiles of MIG devices.
    type: str
  topology_text:
    description: What C(nvidia-smi topo -m) printed.
    type: str
  processes_text:
    description: What C(nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv) printed.
    type: str
  kernel_version_text:
    description: The content of C(/proc/driver/nvidia/version).
    type: str
  kernel_log_text:
    description: What C(dmesg) or C(journalctl --dmesg) printed.
    type: str
  docker_info_text:
    description: What C(docker info) printed, as text or as JSON, of Docker or of Podman.
    type: str
  toolkit_version_text:
    description: What C(nvidia-ctk --version) printed.
    type: str
extends_documentation_fragment:
  - tandem.vllm.reads_only
seealso:
  - module: tandem.vllm.failure_triage_info
"""

EXAMPLES = r"""
- name: Read the GPUs of this host
  tandem.vllm.gpu_info:
  register: gpus

- name: Show what holds memory on them
  ansible.builtin.debug:
    msg: "{{ gpus.processes }}"

- name: Analyse what somebody sent
  tandem.vllm.gpu_info:
    smi_text: "{{ lookup('ansible.builtin.file', 'sent/nvidia-smi.txt') }}"
    kernel_log_text: "{{ lookup('ansible.builtin.file', 'sent/dmesg.txt') }}"
  delegate_to: localhost
"""

RETURN = r"""
available:
  description: Whether C(nvidia-smi) answers and lists at least one GPU that it can address.
  returned: always
  type: bool
reason:
  description:
    - What C(nvidia-smi) complains of, in its own words; C(nvidia-smi is not installed); or what the text lacks.
    - V(null) when it lists GPUs and complains of nothing. A text that holds several outputs can have both.
  returned: always
  type: str
  sample: "Failed to initialize NVML: Driver/library version mismatch"
usable:
  description: Whether RV(available) is true and every GPU's status is V(ok).
  returned: always
  type: bool
gpu_count:
  description: How many GPUs are in RV(gpus), lost ones included.
  returned: always
  type: int
gpus:
  description: The GPUs, in the order of C(nvidia-smi).
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Index of the GPU; V(null) when only its bus id is known.
      type: int
    uuid:
      description: UUID of the GPU.
      type: str
      sample: GPU-be1950b0-2e67-2b05-72e7-483243006410
    bus_id:
      description: PCI bus id, as the tool writes it.
      type: str
      sample: "00000000:00:06.0"
    name:
      description: Product name as printed; narrow tables cut it off with dots.
      type: str
      sample: NVIDIA H200
    memory_total_mib:
      description: Memory in MiB; V(null) where the GPU has none of its own to tell of.
      type: int
    memory_used_mib:
      description: Memory in use, in MiB.
      type: int
    memory_unified:
      description: The tool says N/A or Not Supported for the memory, because GPU and CPU share it (GB10 and alike).
      type: bool
    ecc_mode:
      description: V(enabled) or V(disabled).
      type: str
    ecc_corrected:
      description: Corrected memory errors since the driver was loaded.
      type: int
    ecc_uncorrected:
      description: Uncorrected memory errors since the driver was loaded.
      type: int
    remap_pending:
      description: Whether a row of memory waits for a reset to be exchanged.
      type: bool
    mig_mode:
      description: The MIG mode in force, V(enabled) or V(disabled).
      type: str
    mig_devices:
      description: The MIG devices that the GPU is cut into.
      type: list
      elements: dict
      contains:
        index:
          description: Index on its GPU.
          type: int
        uuid:
          description: UUID; from C(nvidia-smi -L).
          type: str
        profile:
          description: Profile; from C(nvidia-smi -L).
          type: str
          sample: 3g.40gb
        gpu_instance_id:
          description: Id of the GPU instance.
          type: int
        compute_instance_id:
          description: Id of the compute instance.
          type: int
        memory_total_mib:
          description: Memory in MiB.
          type: int
        memory_used_mib:
          description: Memory in use, in MiB.
          type: int
    compute_mode:
      description: V(Default), V(Exclusive_Process), V(Prohibited) and so on.
      type: str
    persistence:
      description: Whether persistence mode is on.
      type: bool
    perf:
      description: Performance state.
      type: str
      sample: P0
    fan:
      description: Fan speed in percent, or the text V(ERR!) when its sensor fails; V(null) without a fan.
      type: raw
    temp_c:
      description: Temperature in degrees Celsius.
      type: int
    power_w:
      description: Power drawn, in watts.
      type: float
    power_limit_w:
      description: Power limit in watts.
      type: float
    util_pct:
      description: Utilization in percent; V(null) in MIG mode.
      type: int
    fabric_state:
      description: State of the NVLink fabric; V(null) without NVSwitch.
      type: str
      sample: Completed
    fabric_status:
      description: Status of the NVLink fabric.
      type: str
      sample: Success
    status:
      description:
        - V(ok); V(error) when values other than the fan's cannot be read; V(requires_reset) when the tool says so;
          V(lost) when the GPU cannot be addressed any more.
      type: str
    faults:
      description:
        - What is wrong, such as V(fan), V(power), V(mig), V(memory), V(handle), V(reset pending)
          or V(mig change pending).
        - A failing fan sensor alone leaves the status V(ok).
      type: list
      elements: str
processes:
  description: The processes that use a GPU.
  returned: always
  type: list
  elements: dict
  contains:
    gpu_index:
      description: Index of the GPU.
      type: int
    gpu_uuid:
      description: UUID of the GPU or MIG device.
      type: str
    pid:
      description: Process id; V(null) where the tool hides it.
      type: int
    type:
      description: V(C) for compute, V(G) for graphics, V(C+G) for both.
      type: str
    name:
      description: Name of the process.
      type: str
    memory_mib:
      description: GPU memory that it holds, in MiB.
      type: int
    container:
      description: Name of the Docker container that it runs in; an id where Docker does not list it. Not told of texts.
      type: str
    environment:
      description: Tandem environment that the container belongs to, by its label. Not told of texts.
      type: str
topology:
  description: How GPUs and network adapters are connected.
  returned: always
  type: dict
  contains:
    links:
      description: Device to device to link, in the tool's words.
      type: dict
      sample: {GPU0: {GPU1: NV18, NIC0: SYS}}
    nics:
      description: Name of each network adapter.
      type: dict
      sample: {NIC0: mlx5_0}
    gpu_link:
      description: V(nvlink) when all pairs of GPUs have it, V(pcie) when none has, V(mixed); V(null) for one GPU.
      type: str
driver:
  description: Driver version that C(nvidia-smi) tells.
  returned: always
  type: str
  sample: 580.159.04
cuda:
  description: Newest CUDA version that this driver runs.
  returned: always
  type: str
  sample: "13.0"
driver_model:
  description: V(WDDM), V(TCC) or V(MCDM) on Windows.
  returned: always
  type: str
nvml_library:
  description: Version of the NVML library, where the tool names it.
  returned: always
  type: str
kernel_module:
  description: The driver's kernel module.
  returned: always
  type: dict
  contains:
    loaded:
      description: Whether it is loaded.
      type: bool
    version:
      description: Its version.
      type: str
    flavour:
      description: V(open) or V(proprietary).
      type: str
library_version:
  description: Version of the driver's libraries on the disk, which is what the next container gets. Not told of texts.
  returned: always
  type: str
pci_gpus:
  description: Bus ids of NVIDIA's display controllers on the PCI bus, also of those the driver lost. Not told of texts.
  returned: always
  type: list
  elements: str
fabric_manager:
  description: The service that NVSwitch machines need.
  returned: always
  type: dict
  contains:
    needed:
      description: Whether there is an NVSwitch.
      type: bool
    active:
      description: Whether the service runs.
      type: bool
    installed:
      description: Whether the service is there.
      type: bool
    version:
      description: Version of its package, which has to be the driver's.
      type: str
kernel_log:
  description: What the driver wrote to the kernel's log since the host started.
  returned: always
  type: dict
  contains:
    read:
      description: Whether the log could be read.
      type: bool
    xid:
      description: Its Xid lines.
      type: list
      elements: dict
      contains:
        code:
          description: Xid number.
          type: int
        bus_id:
          description: Bus id, as the line has it.
          type: str
        line:
          description: The line.
          type: str
    faults:
      description: Other lines of the driver that tell of a fault; sentences over several lines are put together.
      type: list
      elements: str
docker:
  description: Docker, or Podman in its place.
  returned: always
  type: dict
  contains:
    available:
      description: Whether the engine answers.
      type: bool
    error:
      description: Why not.
      type: str
    engine:
      description: V(docker) or V(podman).
      type: str
    version:
      description: Version of the engine.
      type: str
    rootless:
      description: Whether it runs without root.
      type: bool
    cgroup_driver:
      description: V(systemd) or V(cgroupfs).
      type: str
    cgroup_version:
      description: V(1) or V(2).
      type: str
    runtimes:
      description: Names of the runtimes.
      type: list
      elements: str
    default_runtime:
      description: Name of the default runtime.
      type: str
    cdi_enabled:
      description: Whether the engine takes CDI devices.
      type: bool
    cdi_spec_dirs:
      description: Where the engine looks for CDI specifications.
      type: list
      elements: str
    cdi_devices:
      description: CDI devices that the engine tells, else those of the NVIDIA specifications on the disk.
      type: list
      elements: str
      sample: ["nvidia.com/gpu=0", "nvidia.com/gpu=all"]
    cdi_driver_version:
      description: Driver version that the CDI specifications on the disk were made for.
      type: str
    root_dir:
      description: Where the engine keeps images.
      type: str
    live_restore:
      description: Whether containers survive a restart of the engine.
      type: bool
    running_containers:
      description: How many containers run.
      type: int
toolkit:
  description: The NVIDIA container toolkit.
  returned: always
  type: dict
  contains:
    installed:
      description: Whether anything of it is there.
      type: bool
    version:
      description: Its version.
      type: str
    runtime_hook:
      description: Whether C(nvidia-container-runtime-hook) is in PATH.
      type: bool
    runtime:
      description: Whether C(nvidia-container-runtime) is in PATH.
      type: bool
    dev_char_links:
      description: Whether /dev/char has links to the NVIDIA devices; V(null) without such devices.
      type: bool
packages:
  description: Packages that bring the driver. Not told of texts.
  returned: always
  type: dict
  contains:
    manager:
      description: V(apt) or V(dnf).
      type: str
    driver:
      description: The driver's packages.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the package.
          type: str
        version:
          description: Version of the package.
          type: str
        held:
          description: Whether it is kept from being upgraded.
          type: bool
    unattended:
      description: Whether the host upgrades packages by itself.
      type: bool
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.gpu import facts as gpu_facts
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.gpus import GpuHost

TEXTS = (
    "smi_text",
    "smi_list_text",
    "topology_text",
    "processes_text",
    "kernel_version_text",
    "kernel_log_text",
    "docker_info_text",
    "toolkit_version_text",
)
ARGUMENTS: dict[str, Any] = {name: {"type": "str"} for name in TEXTS}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = {name: module.params[name] for name in TEXTS if module.params[name] is not None}
    if given:
        result = gpu_facts.of_texts(given)
    else:
        # Tools are read by their English words.
        module.run_command_environ_update = {"LC_ALL": "C.UTF-8", "LANGUAGE": "C"}
        result = GpuHost(tolerant(module.run_command)).facts()
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
