# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.identity import container

FIXTURES = Path(__file__).parents[4] / "fixtures/identity"
IMAGE = "sha256:0c20295a16524213c066e09b4ff5eeb287933349a7e5c3521035dcebef510bf4"


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def probed(name: str) -> dict[str, Any]:
    answer = container.probed(text(name))
    assert answer is not None
    return answer


def test_inspected() -> None:
    found = container.inspected("tandem-try-id-1", text("inspect.txt"))
    assert found["environment"] == {
        "VLLM_HOST_IP": "10.89.70.11",
        "NCCL_SOCKET_IFNAME": None,
        "GLOO_SOCKET_IFNAME": "eth0",
    }
    assert (found["exists"], found["running"], found["status"]) == (True, True, "running")
    assert (found["network_mode"], found["image_id"]) == ("host", IMAGE)
    assert set(found) == set(container.nothing("x", None, None))


@pytest.mark.parametrize("status", ["created", "restarting", "paused", "exited"])
def test_what_does_not_run(status: str) -> None:
    there = json.loads(text("inspect.txt"))
    # A container between two attempts is running as well, by Docker's other word.
    there[0]["State"].update(Status=status, Running=True)
    there[0]["Config"]["Env"] = None
    found = container.inspected("x", json.dumps(there))
    assert (found["running"], found["status"], found["environment"]["VLLM_HOST_IP"]) == (False, status, None)


def test_probed() -> None:
    answer = probed("probe.txt")
    assert answer["connected"] == ""
    assert container.software(answer) == {
        "versions": {"python": "3.11.2", "ray": "2.60.0", "vllm": "0.32.0+cpu", "torch": "2.13.0+cpu", "nccl": None},
        "version_errors": {},
        "ray_address": "10.89.70.11",
        "ray_address_error": None,
    }
    assert probed("probe-refused.txt")["connected"] == "[Errno 111] Connection refused"
    assert container.probed("Traceback (most recent call last):\n") is None


@pytest.mark.parametrize(
    ("addresses", "found", "error"),
    [
        ([], None, "no Ray node runs in it"),
        (["10.0.0.2", "10.0.0.1"], None, "Ray nodes run in it: 10.0.0.1, 10.0.0.2"),
        (["10.0.0.2"], "10.0.0.2", None),
    ],
)
def test_ray_nodes_in_a_container(addresses: list[str], found: str | None, error: str | None) -> None:
    told = container.software({**probed("probe.txt"), "ray_addresses": addresses})
    assert (told["ray_address"], told["ray_address_error"]) == (found, error)


VERSION = "__version__ = '2.11.0+x'\ncuda = {cuda!r}\nhip = None\n"
NCCL = "from types import SimpleNamespace\ncuda = SimpleNamespace(nccl=SimpleNamespace(version=lambda: (2, 28, 9)))\n"


def probe(folder: Path) -> dict[str, Any]:
    """What the probe tells of a Python that has only what is in the folder."""
    # The folder is the only one with packages; -S leaves this environment's out.
    code = f"import sys; sys.path.insert(1, {str(folder)!r})\n" + container.PROBE
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd="/")
    answer = container.probed(run.stdout)
    assert answer is not None
    return answer


def package(folder: Path, cuda: str | None, code: str) -> None:
    (folder / "torch").mkdir()
    (folder / "torch/version.py").write_text(VERSION.format(cuda=cuda))
    (folder / "torch/__init__.py").write_text(code)
    (folder / "vllm-0.25.1.dist-info").mkdir()
    (folder / "vllm-0.25.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.25.1\n")


def test_probe_asks_the_library_for_nccl(tmp_path: Path) -> None:
    package(tmp_path, "13.0", NCCL)
    answer = probe(tmp_path)
    assert (answer["torch"], answer["nccl"], answer["vllm"]) == ("2.11.0+x", "2.28.9", "0.25.1")
    assert (answer["ray"], list(answer["errors"]), answer["connected"]) == (None, ["ray"], None)
    assert answer["python"] == ".".join(map(str, sys.version_info[:3]))


def test_probe_does_not_import_a_torch_without_cuda(tmp_path: Path) -> None:
    package(tmp_path, None, "raise RuntimeError('was imported')\n")
    answer = probe(tmp_path)
    assert (answer["torch"], answer["nccl"], list(answer["errors"])) == ("2.11.0+x", None, ["ray"])


def test_probe_says_what_it_could_not_read(tmp_path: Path) -> None:
    package(tmp_path, "13.0", "raise ImportError('libcudart.so.13: cannot open shared object file')\n")
    told = container.software(probe(tmp_path))
    assert told["version_errors"]["nccl"] == "ImportError: libcudart.so.13: cannot open shared object file"


def test_probe_without_torch(tmp_path: Path) -> None:
    errors = container.software(probe(tmp_path))["version_errors"]
    assert errors["torch"] == "ImportError: torch is not installed"
    assert sorted(errors) == ["nccl", "ray", "torch", "vllm"]
