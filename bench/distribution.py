# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What bringing an image onto the nodes costs: plain scp and docker load against the module image_load, in one run.

Plain: `scp` of the archive to every node at once, and `docker load` on each as soon as its copy is there. Ours: a
playbook with the one task, from the start of ansible-playbook to its end. Both send the same file over the same ssh
with the same keys and ciphers, and both end when every node has the image; before each the image is removed from the
nodes, and the archive has been read once, so that it comes from memory. The two take turns; the table shows medians
over the rounds, and the ratio of the two rates. A last run shows what it takes to find everything in place.

Made for the lab (`playbooks/lab_up.yml`), whose nodes and control node share one machine: there all ends together
measure what the processors can do. With --inventory and --archive it measures other hosts. It removes the image from
them, which is refused where a container is made of it; at the end they have it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = 0.8
COPY = "/var/tmp/tandem-bench-image.tar"  # noqa: S108 - on the nodes, removed after each round
PLAYBOOK = """---
- name: Bring the image onto the nodes
  hosts: "{{ bench_hosts }}"
  gather_facts: false
  tasks:
    - name: Load the image
      tandem.vllm.image_load:
        ref: "{{ bench_ref }}"
        archive: "{{ bench_archive }}"
"""


@dataclass(frozen=True)
class Node:
    """A host, and how ssh gets there. options: of ssh and scp alike."""

    name: str
    target: str
    options: tuple[str, ...]

    def ssh(self, command: str) -> list[str]:
        return ["ssh", *self.options, self.target, command]

    def scp(self, archive: Path) -> list[str]:
        return ["scp", "-q", *self.options, str(archive), f"{self.target}:{COPY}"]


def program(name: str) -> str:
    """One of Ansible's, beside this Python."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not found:
        raise SystemExit(f"no {name}: run this with the Python of `make dev`")
    return found


def nodes(inventory: str, names: Sequence[str]) -> list[Node]:
    """The hosts of those names; the first two of tandem_nodes without names."""
    command = [program("ansible-inventory"), "-i", inventory, "--list"]
    listing = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    known = listing.get("tandem_nodes", {}).get("hosts", [])
    variables = listing["_meta"]["hostvars"]
    chosen = list(names) or known[:2]
    if not chosen or any(name not in known for name in chosen):
        raise SystemExit(f"{inventory} has the nodes {known}, wanted are {chosen or 'two'}. Is the lab up?")
    return [node(name, variables.get(name, {})) for name in chosen]


def node(name: str, given: dict[str, Any]) -> Node:
    options = ["-o", "BatchMode=yes", *shlex.split(given.get("ansible_ssh_common_args", ""))]
    if "ansible_ssh_private_key_file" in given:
        options += ["-i", given["ansible_ssh_private_key_file"]]
    if "ansible_port" in given:
        # Not by a letter: scp's is another one.
        options += ["-o", f"Port={given['ansible_port']}"]
    user = f"{given['ansible_user']}@" if "ansible_user" in given else ""
    return Node(name, user + given.get("ansible_host", name), tuple(options))


def image_id(archive: Path) -> str:
    """Id of the first image of an archive, as classic image stores call it."""
    with tarfile.open(archive) as opened:
        stream = opened.extractfile("manifest.json")
        found = re.search(r"[0-9a-f]{64}", json.load(stream)[0]["Config"]) if stream else None
    if not found:
        raise SystemExit(f"{archive} names no image")
    return f"sha256:{found[0]}"


def all_at_once(commands: Sequence[list[str]]) -> list[str]:
    """Run commands side by side; what each printed. Ends this program when one fails."""
    processes = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for c in commands]
    said = [process.communicate()[0] for process in processes]
    for process, command, text in zip(processes, commands, said, strict=True):
        if process.returncode != 0:
            raise SystemExit(f"{shlex.join(command)}: {text}")
    return said


def remove(hosts: Sequence[Node], ref: str) -> None:
    """Take the image away; not by force, so that an image in use stays and this program ends."""
    there = f"docker image inspect {ref} >/dev/null 2>&1"
    tags = f"docker image inspect --format '{{{{join .RepoTags \" \"}}}}' {ref}"
    command = f"if {there}; then tags=$({tags}); docker image rm ${{tags:-{ref}}}; fi; ! {there} && sync"
    all_at_once([host.ssh(command) for host in hosts])


def plain(hosts: Sequence[Node], archive: Path, ref: str) -> float:
    """Seconds that scp and docker load take."""
    began = time.monotonic()
    load = f"docker load --quiet --input {COPY} && rm {COPY} && docker image inspect {ref} >/dev/null"
    all_at_once([["sh", "-c", f"{shlex.join(h.scp(archive))} && {shlex.join(h.ssh(load))}"] for h in hosts])
    return time.monotonic() - began


def ours(hosts: Sequence[Node], archive: Path, ref: str, inventory: str, playbook: Path) -> tuple[float, str]:
    """Seconds that the playbook takes, and what it printed."""
    variables = {"bench_hosts": [host.name for host in hosts], "bench_archive": str(archive), "bench_ref": ref}
    command = [program("ansible-playbook"), "-i", inventory, "-e", json.dumps(variables), str(playbook)]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    began = time.monotonic()
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    if run.returncode != 0:
        raise SystemExit(run.stdout + run.stderr)
    return took, run.stdout


def benchmark(given: argparse.Namespace, hosts: Sequence[Node], playbook: Path) -> dict[str, Any]:
    """The two in turns; times in seconds."""
    ref = image_id(given.archive)
    subprocess.run(["cat", str(given.archive)], stdout=subprocess.DEVNULL, check=True)
    times: dict[str, list[float]] = {"plain": [], "image_load": []}
    for number in range(given.rounds):
        for way in sorted(times, reverse=number % 2 == 0):
            remove(hosts, ref)
            if way == "plain":
                took = plain(hosts, given.archive, ref)
            else:
                took, said = ours(hosts, given.archive, ref, given.inventory, playbook)
                if "changed=1" not in said:
                    raise SystemExit(f"nothing was sent:\n{said}")
            times[way].append(took)
            print(f"round {number + 1}, {way}: {took:.1f} s", file=sys.stderr, flush=True)
    in_place, _said = ours(hosts, given.archive, ref, given.inventory, playbook)
    medians = {way: statistics.median(found) for way, found in times.items()}
    return {
        "archive_bytes": given.archive.stat().st_size,
        "nodes": [host.name for host in hosts],
        "rounds": given.rounds,
        "seconds": {way: [round(t, 2) for t in found] for way, found in times.items()},
        "median_s": {way: round(t, 2) for way, t in medians.items()},
        "ratio": round(medians["plain"] / medians["image_load"], 3),
        "in_place_s": round(in_place, 2),
        "load_average": os.getloadavg(),
    }


def table(report: dict[str, Any]) -> str:
    size = report["archive_bytes"] / 2**20
    lines = ["| way | s | MiB/s for each node |", "|---|---|---|"]
    names = {"plain": "scp, then docker load", "image_load": "playbook with image_load"}
    lines += [f"| {names[way]} | {t:.1f} | {size / t:.0f} |" for way, t in report["median_s"].items()]
    return "\n".join([*lines, f"| playbook, everything in place | {report['in_place_s']:.1f} | |"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", type=Path, help="not compressed; the lab's by default")
    parser.add_argument("--inventory", default="inventories/lab")
    parser.add_argument("--node", action="append", default=[], help="a node's name; the first two by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--check", action="store_true", help="end 1 when the target is missed")
    given = parser.parse_args()
    if given.archive is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tandem-lab"
        found = sorted(cache.glob("vllm-image-*.tar"))
        if not found:
            raise SystemExit(f"no vllm-image-*.tar in {cache}: make the lab, or name an --archive")
        given.archive = found[-1]
    hosts = nodes(given.inventory, given.node)
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as place:
        playbook = Path(place) / "distribution.yml"
        playbook.write_text(PLAYBOOK)
        report = benchmark(given, hosts, playbook)
    met = report["ratio"] >= TARGET
    print(table(report))
    print(
        f"\n{report['archive_bytes'] / 2**20:.0f} MiB to {len(hosts)} nodes at once; image_load reaches "
        f"{report['ratio']:.0%} of plain; target, at least {TARGET:.0%}: {'met' if met else 'missed'}"
    )
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if given.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
