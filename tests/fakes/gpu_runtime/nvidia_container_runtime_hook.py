# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A FAKE of NVIDIA's container runtime hook, for hosts of the lab that have no GPU.

Docker 20.10 offers the device driver "nvidia" when it finds a program nvidia-container-runtime-hook as it starts, and
has runc call it before a container's process starts, with the container's state on stdin. The real one puts driver
files and devices into the container; this one writes a fake `nvidia-smi`, and a fake `torch` into the working directory
(where `python3 -c` looks first), that tell of the GPUs the container asked for. Which GPUs there are is what the host's
nvidia-smi lists, itself a fake in the lab. Who installs it puts the line that names the interpreter before it.

The first word of MODE_FILE makes a fault; without the file all is well:
  fewer            the last of the named GPUs is not there
  other            in place of the last of the named GPUs there is one that was not named
  nvml_unknown     nvidia-smi finds no devices: what a daemon-reload does to a container
  torch_none       nvidia-smi is fine, CUDA is not: no fabric manager
  torch_fewer      CUDA counts one GPU less than nvidia-smi lists
  requirement      the hook refuses: the image wants a newer driver
  smi_hangs        nvidia-smi never answers
  hook_hangs       the hook takes ten seconds
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

MODE_FILE = Path("/etc/tandem-fake-gpu-runtime.mode")
REQUIREMENT = (
    "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer"
    " version, or use an earlier cuda container"
)
NOT_INITIALIZED = (
    "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that"
    " might have already set an error? Error 802: system not yet initialized"
)
TORCH = '''\
"""A FAKE torch, made by the fake container runtime hook."""
import types
import warnings

__version__ = "2.11.0+cu130"
version = types.SimpleNamespace(cuda="13.0")
_GPUS = {gpus!r}
_ERROR = {error!r}


def _init():
    if _ERROR:
        raise RuntimeError(_ERROR)


def _is_available():
    if _ERROR:
        warnings.warn("CUDA initialization: " + _ERROR + " (Triggered internally at CUDAFunctions.cpp:119.)")
    return bool(_GPUS) and not _ERROR


cuda = types.SimpleNamespace(
    is_available=_is_available,
    init=_init,
    device_count=lambda: len(_GPUS),
    get_device_properties=lambda i: types.SimpleNamespace(uuid=_GPUS[i][0][len("GPU-"):], name=_GPUS[i][1]),
)
'''


def host_gpus() -> list[tuple[str, str]]:
    """UUID and name of each GPU that the host's nvidia-smi lists."""
    listing = subprocess.run(["nvidia-smi", "-L"], check=True, capture_output=True, text=True).stdout
    return [(uuid, name) for name, uuid in re.findall(r"^GPU \d+: (.+) \(UUID: (\S+)\)", listing, re.MULTILINE)]


def named(wanted: str, gpus: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The GPUs that NVIDIA_VISIBLE_DEVICES names, in the host's order."""
    names = wanted.split(",")
    return [gpu for index, gpu in enumerate(gpus) if "all" in names or str(index) in names or gpu[0] in names]


def main() -> None:
    """Do what the mode says to the container whose state comes on stdin."""
    bundle = Path(json.load(sys.stdin)["bundle"])
    config = json.loads((bundle / "config.json").read_text())
    root = Path(config["root"]["path"])
    environment = dict(entry.split("=", 1) for entry in config["process"]["env"])
    mode = MODE_FILE.read_text().split()[0] if MODE_FILE.exists() else "healthy"
    there = host_gpus()
    seen = named(environment["NVIDIA_VISIBLE_DEVICES"], there)
    smi, error = "", ""
    if mode == "requirement":
        sys.exit(REQUIREMENT)
    elif mode == "hook_hangs":
        time.sleep(10)
    elif mode == "smi_hangs":
        smi = "exec sleep 600\n"
    elif mode == "nvml_unknown":
        smi, error = "echo 'Failed to initialize NVML: Unknown Error'\nexit 255\n", "No CUDA GPUs are available"
    elif mode == "fewer":
        seen = seen[:-1]
    elif mode == "other":
        seen = [*seen[:-1], next(gpu for gpu in there if gpu not in seen)]
    elif mode == "torch_none":
        error = NOT_INITIALIZED
    listing = "".join(f"GPU {i}: {name} (UUID: {uuid})\n" for i, (uuid, name) in enumerate(seen))
    (root / "usr/bin/nvidia-smi").write_text(f"#!/bin/sh\n{smi}cat <<'END'\n{listing}END\n")
    (root / "usr/bin/nvidia-smi").chmod(0o755)
    torch = root / config["process"]["cwd"].lstrip("/") / "torch"
    torch.mkdir()
    counted = seen[:-1] if mode == "torch_fewer" else seen
    (torch / "__init__.py").write_text(TORCH.format(gpus=counted, error=error))


if __name__ == "__main__":
    main()
