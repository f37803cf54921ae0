# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The offline bundle: made while it is killed again and again, altered, and deployed from without a way out."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.tests.e2e import egress, lab, tamper
from ansible_collections.tandem.vllm.tests.e2e.lab import ENVIRONMENT, INVENTORY, ROOT, good, on, playbook, program

NODES = ["node1", "node2"]
HOSTS = [*NODES, "gateway"]
MODEL = "/models/tandem-tiny-chat"
# Another version than the image has.
RAY = {"version": "2.59.0", "extras": ["default"]}
RAY_WHEEL, IMAGE, WEIGHTS = "wheels/*/ray-*.whl", "images/*.tar", "models/*/*.safetensors"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where the bundle is made and moved to. Not in the machine's /tmp, which may be memory."""
    with tempfile.TemporaryDirectory(prefix="tandem-e2e-", dir="/var/tmp") as made:
        yield Path(made)


def descendants(pid: int) -> list[int]:
    """The process and all that it has started, Ansible's workers included, which have sessions of their own."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [[int(word) for word in line.split()] for line in listed.splitlines()]
    found = [pid]
    for parent in found:
        found += [child for child, of in pairs if of == parent]
    return found


def killed(command: list[str], reached: Callable[[], bool]) -> None:
    """Run a command until something is reached, then kill -9 it and everything that it has started."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=said, stderr=said)
        try:
            while not reached():
                if running.poll() is not None or time.monotonic() - began > 400:
                    said.seek(0)
                    pytest.fail(f"it ended, or went on for too long, before it could be killed:\n{said.read()[-4000:]}")
                time.sleep(0.05)
        finally:
            for pid in descendants(running.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            running.wait()
    print(
        f"\n[killed after {time.monotonic() - began:.1f} s] {' '.join(command)[:120]}", file=sys.__stderr__, flush=True
    )


def deploy(bundle: Path, **variables: Any) -> dict[str, Any]:
    """Variables of a deployment that can only take what it needs from the bundle: nothing else names the archive."""
    image = {"ref": lab.variables()["image"]["ref"]}
    return {
        "tandem_bundle": str(bundle),
        "tandem_ray": RAY,
        "tandem_bundle_gateway_packages": True,
        "tandem_image": image,
        **variables,
    }


def images(node: str) -> set[str]:
    """Ids of all images on a node."""
    return set(on(node, "docker", "image", "ls", "--all", "--quiet", "--no-trunc").output.split())


def state(host: str) -> tuple[Any, ...]:
    """What a refused deployment must leave as it is: containers, images, Tandem's folders and units."""
    files = "find /etc/tandem /var/lib/tandem /models /etc/systemd/system -type f -exec md5sum {} + 2>/dev/null | sort"
    docker = (lab.containers(host), images(host)) if host != "gateway" else ()
    return (*docker, on(host, "sh", "-c", files).output, on(host, "sh", "-c", "command -v nginx").status)


# The order of the tests is the story.


def test_a_bundle_that_is_killed_while_it_is_made(folder: Path) -> None:
    built = folder / "built"
    command = ["make", "bundle", f"BUNDLE={built}"]
    for point in ("images/*.part", "wheels/.*.part/*", "controller/wheels.part/*"):
        killed(command, lambda point=point: any(built.glob(point)))  # type: ignore[misc]
        assert not (built / "manifest.json").exists()
    run = playbook("playbooks/bundle_verify.yml", tandem_bundle=str(built), tandem_ray=RAY)
    assert run.status != 0
    assert re.search(r"manifest\.json +is missing", run.output), run.output[-3000:]
    refused = playbook("dual-replica.yml", tandem_bundle=str(built), tandem_ray=RAY)
    assert refused.status != 0
    assert "manifest.json" in refused.error

    good(program(*command))
    assert list(built.rglob("*.part")) == []
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=built, check=True)


def test_a_bundle_that_is_whole_is_not_made_again(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (folder / "built").rglob("*")}
    run = good(program("make", "bundle", f"BUNDLE={folder / 'built'}"))
    assert run.changed["localhost"] == 0, run.output[-3000:]
    assert {path: path.stat().st_mtime_ns for path in (folder / "built").rglob("*")} == before
    print(f"bundle, second run: {run.seconds:.1f} s")


def test_it_is_moved_and_the_lab_is_made_anew(folder: Path) -> None:
    (folder / "built").rename(folder / "moved")
    good(program("make", "demo-down"))
    good(playbook("playbooks/lab_up.yml"))
    # Nothing may come from where it came from before: no mirror's packages on the gateway, no model on the second node.
    assert on("gateway", "sh", "-c", "rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb").status == 0
    assert on("node2", "rm", "-r", MODEL).status == 0
    assert [images(node) for node in NODES] == [set(), set()]
    good(playbook("playbooks/bundle_verify.yml", **deploy(folder / "moved")))


# What is done to the bundle -> what the deployment must say of the file. What only the target can tell of wheels is in
# molecule's scenario ray_wheelhouse.
TAMPERED: dict[str, tuple[tamper.Change, str]] = {
    "one byte of a wheel": (tamper.flip(RAY_WHEEL), "was altered: its SHA-256 is"),
    "a truncated image archive": (tamper.truncate(IMAGE), "it is shorter than it was"),
    "a missing file": (tamper.remove("models/*.json"), "is missing"),
    "a wheel too many": (tamper.add(RAY_WHEEL, "tandem_c-1.0-py3-none-any.whl"), "is not in the manifest"),
    "the wrong Python": (tamper.rename(RAY_WHEEL, "cp311-cp311", "cp312-cp312"), "on a target with Python 3.11"),
    "a newer glibc": (tamper.rename(RAY_WHEEL, "manylinux2014", "manylinux_2_99"), "needs glibc 2.99"),
    "a source archive": (tamper.list_too(RAY_WHEEL, "tandem_c-1.0.tar.gz", "requirements"), "sdist"),
    "an altered manifest": (tamper.alter_manifest, "was altered: its SHA-256 is"),
    "an altered package": (tamper.flip("packages/*/nginx-common*.deb"), "was altered: its SHA-256 is"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_an_altered_bundle_is_refused(folder: Path, what: str) -> None:
    change, reason = TAMPERED[what]
    before = [state(host) for host in HOSTS]
    tamper.copy(folder / "moved", folder / "altered")
    file = change(folder / "altered")
    run = playbook("dual-replica.yml", **deploy(folder / "altered"))
    assert run.status != 0
    assert f"{file}: " in run.error, run.output[-3000:]
    assert reason in run.error.split(f"{file}: ", 1)[1], run.output[-3000:]
    assert "Nothing was changed" in run.error
    assert [state(host) for host in HOSTS] == before


def test_an_altered_model_is_refused_where_it_arrives(folder: Path) -> None:
    before = [state(host) for host in HOSTS]
    tamper.copy(folder / "moved", folder / "altered")
    file = tamper.flip(WEIGHTS)(folder / "altered")
    run = playbook("dual-replica.yml", **deploy(folder / "altered"))
    assert run.status != 0
    assert f"{MODEL}/{Path(file).name}: what was sent is not the file" in run.error, run.output[-3000:]
    assert on("node2", "find", MODEL, "-name", Path(file).name).output == ""
    on("node2", "rm", "-r", MODEL)
    shutil.rmtree(folder / "altered")
    assert [state(host) for host in HOSTS] == before


def test_a_disk_that_is_too_small_is_refused(folder: Path) -> None:
    assert on("node2", "mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", "/var/tmp").status == 0  # noqa: S108
    before = [state(host) for host in HOSTS]
    run = playbook("dual-replica.yml", **deploy(folder / "moved"))
    assert on("node2", "umount", "/var/tmp").status == 0  # noqa: S108
    assert run.status != 0
    assert "node2: disk for the image = 0.2 GiB free in /var/tmp" in run.error, run.output[-3000:]
    assert [state(host) for host in HOSTS] == before


def test_check_mode_says_what_would_be_brought_and_brings_nothing(folder: Path) -> None:
    before = [state(host) for host in HOSTS]
    run = good(playbook("dual-replica.yml", "--check", **deploy(folder / "moved")))
    assert all(run.changed[host] > 0 for host in HOSTS), run.changed
    assert "would be brought first" in run.error
    assert [state(host) for host in HOSTS] == before


def test_a_killed_deployment_goes_on_and_nothing_is_asked_for_outside(folder: Path) -> None:
    image, moved = lab.variables()["image"]["ref"], folder / "moved"
    variables = deploy(moved)
    pieces = "ls /var/tmp/tandem-image-*/"

    def some_pieces() -> bool:
        listed = on("node1", "sh", "-c", f"{pieces}[0-9]*")
        return listed.status == 0 and len(listed.output.split()) > 2

    def all_pieces() -> bool:
        return on("node1", "sh", "-c", f"{pieces}count").status == 0

    def installing() -> bool:
        return "tandem-wheels-" in on("node1", "docker", "ps", "--format", "{{.Names}}").output

    with egress.denied(HOSTS, str(folder / "ssh")) as begin:
        # The counting itself: each place is made to try.
        for host in [*HOSTS, "control"]:
            assert all(egress.try_out(host)), host
        command = [
            *begin, *("ansible-playbook", "dual-replica.yml", "-i", INVENTORY, "-e", json.dumps(variables))
        ]  # fmt: skip
        for point in (some_pieces, all_pieces, installing):
            killed(command, point)
            if point is not installing:
                assert image not in images("node1")
        good(program(*command))
        # What is in place is not brought again.
        again = good(program(*command))
        assert set(again.changed.values()) == {0}, again.output[-3000:]
        print(f"deployment from the bundle, second run: {again.seconds:.1f} s")
        assert {host: egress.attempts(host) for host in [*HOSTS, "control"]} == dict.fromkeys([*HOSTS, "control"], 0)
    for node in NODES:
        assert on(node, "sh", "-c", pieces).status != 0
        assert on(node, "docker", "ps", "--all", "--quiet", "--filter", "name=tandem-wheels").output == ""


def test_both_nodes_run_the_same_ray() -> None:
    found = []
    for node in NODES:
        inside = ["docker", "exec", f"tandem-chat-{node}"]
        version = on(node, *inside, "ray", "--version")
        assert version.output.split()[-1] == RAY["version"], version.output
        found.append(on(node, *inside, "python3", "-c", FROZEN).output)
    assert found[0] == found[1]
    assert "ray 2.59.0" in found[0]
    (record,) = [path for path in (ROOT / "records/lab").glob("*-bundle.json") if path.stat().st_mtime > STARTED]
    evidence = json.loads(record.read_text())
    assert sorted(evidence) == NODES
    for kept in evidence.values():
        assert kept["python"]["ray_version"] == RAY["version"]
        assert kept["python"]["pip_check_new"] == []
        assert len(kept["python"]["pip_freeze"]) > 50
    assert len({kept["python"]["freeze_sha256"] for kept in evidence.values()}) == 1
    assert len({kept["bundle_manifest_sha256"] for kept in evidence.values()}) == 1
    assert on("gateway", "nginx", "-v").status == 0


STARTED = time.time()
FROZEN = "from importlib.metadata import distributions as d; print(sorted({f'{x.name} {x.version}' for x in d()}))"
