#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: wheelhouse
short_description: Fetch the wheels that a target lacks, for installing them there without a network
version_added: 0.1.0
description:
  - Lets pip resolve the requirements for the Python, the ABI, the machine and the C library of a target, which
    M(tandem.vllm.python_target_info) tells, and downloads the wheels that the target does not have. No source
    distribution is taken.
  - What the target has keeps its version. Only a package that O(requirements) or O(upgrade) names may get another.
    Where that does not work out, the module fails with each package in the way, its version, and who needs which.
  - Each wheel is verified against the SHA-256 that the index gives and gets its name in the folder only then. Wheels
    that are there and verify are not downloaded again; those that are not needed any more are removed.
  - C(requirements.txt) in the folder names every wheel with version and hash, for C(pip install --no-index
    --require-hashes). C(wheelhouse.json) keeps what was resolved from what. While the inputs are the same, nothing is
    resolved anew, and a lost or altered wheel is fetched again as it was.
  - Where the target has no pip, or one before 22.2, the wheel of pip itself comes along in the folder C(pip). It runs
    from the file, as C(python3 pip/pip-<version>-py3-none-any.whl/pip install ...).
  - pip's own configuration (indexes, proxies, certificates) is that of the user who runs the module.
author:
  - The Tandem contributors (@tandem)
options:
  requirements:
    description:
      - What the target is to have, each with one version. Without a version only what the target has already, to bring
        an extra of it.
    type: list
    elements: str
    required: true
  target:
    description: The target, as M(tandem.vllm.python_target_info) returns it.
    type: dict
    required: true
  distributions:
    description: What the target has, as M(tandem.vllm.python_target_info) returns it.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name.
        type: str
        required: true
      version:
        description: Version.
        type: str
        required: true
      requires:
        description: What it needs. Where this is not given, an index has to have the package in this version.
        type: list
        elements: str
      extras:
        description: The extras that it offers.
        type: list
        elements: str
  folder:
    description:
      - The wheelhouse, one folder a target. It is made where missing. Downloads go to a folder beside it first.
    type: path
    required: true
  upgrade:
    description: Names of packages of the target that may get another version as well.
    type: list
    elements: str
    default: []
  python:
    description:
      - The Python whose pip, 23.0 or newer, resolves and downloads. The default is the one that runs the module.
      - pip decides by the Python that it runs on which dependencies apply, so that has to be of the target's minor
        version, on Linux and the same kind of machine. Where this one is not, C(python<minor version>) is looked for;
        it does not need a pip of its own.
    type: path
  index:
    description:
      - URL of the package index, in place of the configured one.
      - URLs of indexes are handed over in the environment, as they may hold a password, and are not shown.
    type: str
  extra_indexes:
    description: URLs of further indexes, in place of the configured ones.
    type: list
    elements: str
  prove_in:
    description:
      - An image of this machine, by id or otherwise, in which to show that the wheelhouse is complete. Its own Python
        runs C(pip install --dry-run --no-index --require-hashes) in a container without a network. Where this fails the
        module fails with pip's words.
      - Not done again for the same image and wheels, and not in check mode.
    type: str
  timeout:
    description: Longest time that one run of pip may take, in seconds.
    type: int
    default: 1800
attributes:
  check_mode:
    support: full
    description: Resolves, says what would be fetched, and fetches nothing.
  diff_mode:
    support: full
    description: Shows the change of C(requirements.txt).
  idempotent:
    support: full
    description: Fetches nothing when all is there, and asks no index while the inputs are the same.
"""

EXAMPLES = r"""
- name: Look into the image
  tandem.vllm.python_target_info:
    image: "{{ image }}"
  register: probed

- name: Fetch what it lacks for Ray
  tandem.vllm.wheelhouse:
    requirements: ['ray[default]==2.60.0']
    target: "{{ probed.target }}"
    distributions: "{{ probed.distributions }}"
    folder: /srv/bundle/wheels/vllm
    prove_in: "{{ probed.image_id }}"
"""

RETURN = r"""
wheels:
  description: The wheels that the target lacks, sorted by name.
  returned: always
  type: list
  elements: dict
  sample: [{name: ray, version: 2.60.0, file: ray-2.60.0-cp311-cp311-manylinux2014_x86_64.whl, sha256: 0f3a…}]
in_target:
  description: Packages that are needed and that the target has, sorted by name.
  returned: always
  type: list
  elements: dict
  sample: [{name: click, version: 8.2.1}]
changes:
  description: Packages of the target that get another version.
  returned: always
  type: list
  elements: dict
  sample: [{name: ray, from: 2.59.0, to: 2.60.0}]
requirements:
  description: The requirements, as they were given.
  returned: always
  type: list
  elements: str
tool:
  description: The wheel of pip that came along, as an entry of RV(wheels) with its path in the folder; null without it.
  returned: always
  type: dict
files:
  description:
    - Every file of the folder with C(path) (relative to it), C(kind) (wheel or requirements), C(size) and C(sha256).
  returned: when not in check mode
  type: list
  elements: dict
fetched:
  description: The wheels that were downloaded in this run, or would be in check mode, by their path in the folder.
  returned: always
  type: list
  elements: str
removed:
  description: The wheels that were removed, or would be.
  returned: always
  type: list
  elements: str
resolved:
  description: Whether pip resolved in this run. It does not while the inputs are the same.
  returned: always
  type: bool
index:
  description: Where the wheels came from, without host name and user. V(PyPI) or the path of the index.
  returned: always
  type: str
created:
  description: When the wheelhouse was resolved.
  returned: always
  type: str
pip:
  description: Version of the pip that resolved.
  returned: always
  type: str
python:
  description: Version of the Python that it ran on.
  returned: always
  type: str
proof:
  description:
    - In which image the wheelhouse was shown to be complete, C(image_id), and by which pip, C(pip); null without.
  returned: always
  type: dict
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import pip_report
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.fields import ManifestError
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.pip_report import PipReportError, Requirement, Wheel
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.target import Distribution, changes
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target, canonical_name
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Docker, Runner, tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.image_python import run_python
from ansible_collections.tandem.vllm.plugins.module_utils.host.pip import Pip, PipError
from ansible_collections.tandem.vllm.plugins.module_utils.host.wheel_folder import REQUIREMENTS, STATE, WheelFolder

# How a wheelhouse is made; another number makes every one anew.
SCHEMA = 1
IN_IMAGE = "/wheelhouse"
ARGUMENTS: dict[str, Any] = {
    "requirements": {"type": "list", "elements": "str", "required": True},
    "target": {"type": "dict", "required": True},
    "distributions": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "version": {"type": "str", "required": True},
            "requires": {"type": "list", "elements": "str"},
            "extras": {"type": "list", "elements": "str"},
        },
    },
    "folder": {"type": "path", "required": True},
    "upgrade": {"type": "list", "elements": "str", "default": []},
    "python": {"type": "path"},
    "index": {"type": "str", "no_log": True},
    "extra_indexes": {"type": "list", "elements": "str", "no_log": True},
    "prove_in": {"type": "str"},
    "timeout": {"type": "int", "default": 1800},
}


class Wanted:
    """What the arguments ask for. Raises ManifestError and PipReportError where one cannot be meant."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.target = Target.from_dict(params["target"])
        found = [Distribution.from_dict(entry) for entry in params["distributions"]]
        self.installed: list[Distribution] = sorted(found, key=lambda distribution: distribution.name)
        self.requirements: list[Requirement] = pip_report.asked(params["requirements"], self.installed)
        self.upgrade = {canonical_name(name) for name in params["upgrade"]}
        pip = next((d.version for d in self.installed if d.name == "pip"), None)
        self.needs_pip = pip_report.pip_too_old(pip, pip_report.OLDEST_PIP_IN_TARGET)
        self.indexes = {
            "PIP_INDEX_URL": params["index"],
            "PIP_EXTRA_INDEX_URL": " ".join(params["extra_indexes"] or []) or None,
        }
        self.inputs = pip_report.fingerprint(
            {
                "schema": SCHEMA,
                "target": params["target"],
                "installed": [distribution.to_dict() for distribution in self.installed],
                "requirements": sorted(str(requirement) for requirement in self.requirements),
                "upgrade": sorted(self.upgrade),
                "indexes": self.indexes,
            }
        )

    @property
    def free(self) -> set[str]:
        """Names that may get another version than the target has."""
        return pip_report.free_names(self.requirements, self.installed) | self.upgrade


def resolve(pip: Pip, wanted: Wanted) -> dict[str, Any]:
    """What the file wheelhouse.json is to hold, but for the proof. Raises PipError."""
    found = pip.resolve(wanted.requirements, wanted.free)
    tool = pip.own_wheel() if wanted.needs_pip else None
    return {
        "inputs": wanted.inputs,
        "requirements": [str(requirement) for requirement in wanted.requirements],
        "wheels": [wheel.to_dict() for wheel in found.wheels],
        "in_target": [{"name": d.name, "version": d.version} for d in found.in_target],
        "changes": changes(wanted.installed, found.versions),
        "tool": {**tool.to_dict(), "file": f"pip/{tool.file}"} if tool else None,
        "text": pip_report.requirements_text(found, wanted.requirements, wanted.target.words),
        "index": pip.index(),
        "pip": pip.version,
        "python": pip.python,
        "created": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def fetch(pip: Pip, folder: WheelFolder, missing: list[dict[str, str]]) -> None:
    """Download what is missing, verify it and put it in place. Raises PipError."""
    wanted = {wheel["file"]: wheel["sha256"] for wheel in missing}
    place = folder.start_partial()
    lacking = [wheel for wheel in missing if wheel["file"] not in folder.in_partial(wanted)]
    if lacking:
        pip.download([Wheel(w["name"], w["version"], os.path.basename(w["file"]), w["sha256"]) for w in lacking], place)
    found = folder.in_partial(wanted)
    for name in wanted:
        if name not in found:
            raise PipError(f"{name} was downloaded and does not have the SHA-256 that the index gave. Run again")
    folder.take(found)


def prove(run: Runner, folder: str, kept: Mapping[str, Any], image_id: str, seconds: int) -> dict[str, Any]:
    """Show that the wheelhouse is complete in the image. Raises PipError with pip's words where it is not."""
    pip = [f"{IN_IMAGE}/{kept['tool']['file']}/pip"] if kept["tool"] else ["-m", "pip"]
    mount = f"type=bind,source={folder},target={IN_IMAGE},readonly"
    # Nor do its configuration files.
    options = ["--mount", mount, "--env", "PIP_CONFIG_FILE=/dev/null"]
    ran = run_python(Docker(run), image_id, pip_report.prove_argv(pip, IN_IMAGE), seconds, options)
    if ran.timed_out:
        raise PipError(f"timeout = {seconds}: pip in the image did not end within these seconds. Raise it")
    if ran.status != 0:
        raise PipError(f"The wheelhouse is not complete in the image: {pip_report.error_words(ran.out, ran.err)}")
    try:
        report = pip_report.embedded_report(ran.out)
    except PipReportError as error:
        raise PipError(f"The image's pip: {error}") from error
    problem = pip_report.proof_problem(report, kept["wheels"])
    if problem:
        raise PipError(f"The image is not the target that the wheels were resolved for: {problem}. Probe it again")
    return {"image_id": image_id, "pip": str(report.get("pip_version"))}


def make(module: AnsibleModule, scratch: str) -> dict[str, Any]:
    """Bring the folder in line with the arguments. Raises PipError, ManifestError, PipReportError."""
    params, run = module.params, tolerant(module.run_command)
    wanted, folder = Wanted(params), WheelFolder(os.path.abspath(params["folder"]))
    module.run_command_environ_update = environment(wanted, scratch)
    image_id = None
    if params["prove_in"] is not None:
        image_id, said = Docker(run).find_image(params["prove_in"])
        if image_id is None:
            raise PipError(f"prove_in = {params['prove_in']}: Docker cannot show it ({said}). Load or pull it first")
    pip = Pip(run, wanted.target, wanted.installed, params["timeout"], scratch)
    kept = folder.state()
    resolved = kept.get("inputs") != wanted.inputs
    if resolved:
        pip.choose(params["python"] or sys.executable)
        kept = {**resolve(pip, wanted), "proof": None}
    wheels = [*kept["wheels"], *([kept["tool"]] if kept["tool"] else [])]
    hashes = {wheel["file"]: wheel["sha256"] for wheel in wheels}
    missing, stale = folder.missing(hashes), folder.stale(hashes)
    before = folder.text(REQUIREMENTS)
    changed = bool(resolved or missing or stale or before != kept["text"])
    if changed and not module.check_mode:
        if missing:
            if not resolved:
                pip.choose(params["python"] or sys.executable)
            fetch(pip, folder, [wheel for wheel in wheels if wheel["file"] in missing])
        folder.write(REQUIREMENTS, kept["text"])
        folder.write(STATE, state_text(kept))
        folder.finish(stale)
    if image_id is not None and not module.check_mode and (kept["proof"] or {}).get("image_id") != image_id:
        kept = {**kept, "proof": prove(run, folder.path, kept, image_id, params["timeout"])}
        folder.write(STATE, state_text(kept))
        folder.finish([])
        changed = True
    result = {key: value for key, value in kept.items() if key not in ("inputs", "text")}
    if not module.check_mode:
        kinds = {**dict.fromkeys(hashes, "wheel"), REQUIREMENTS: "requirements", STATE: "requirements"}
        result["files"] = folder.files(kinds)
    names = {"before_header": f"{folder.path}/{REQUIREMENTS}", "after_header": f"{folder.path}/{REQUIREMENTS}"}
    diff = {"before": before, "after": kept["text"], **names}
    result["requirements"] = params["requirements"]
    return {**result, "changed": changed, "resolved": resolved, "fetched": missing, "removed": stale, "diff": diff}


def environment(wanted: Wanted, scratch: str) -> dict[str, str]:
    """What pip is told by its environment: indexes, and to leave out what would disturb."""
    settings = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_PROGRESS_BAR": "off",
        # The user's own habits, which do not go with --target.
        "PIP_REQUIRE_VIRTUALENV": "0",
        "PIP_USER": "0",
        "TMPDIR": scratch,
    }
    return {**settings, **{key: value for key, value in wanted.indexes.items() if value}}


def state_text(kept: Mapping[str, Any]) -> str:
    """The content of wheelhouse.json."""
    return json.dumps(kept, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    scratch = tempfile.mkdtemp(prefix="tandem-wheelhouse-", dir=module.tmpdir)
    try:
        result = make(module, scratch)
    except (PipError, ManifestError, PipReportError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"folder = {module.params['folder']}: {error.strerror}: {error.filename}")
    else:
        module.exit_json(**result)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
