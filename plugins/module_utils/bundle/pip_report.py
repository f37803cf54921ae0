# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolving for a target with pip: its command lines, what its report says, and the requirements file of that.

What the target has already is shown to pip as *stand-ins*: wheels that hold nothing but the name, the version and the
dependencies of an installed package. So pip finds it even where no index has it (torch 2.9.0+cu129, a package of the
image's maker), and constraints keep it at its version.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from ansible_collections.tandem.vllm.plugins.module_utils.bundle.target import Distribution, platforms
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target, canonical_name

# The first pip whose report has the form that is read here, and the first that has one at all.
OLDEST_PIP = (23, 0)
OLDEST_PIP_IN_TARGET = (22, 2)
# Build number of the stand-ins: of two wheels of a version pip takes the one with the higher.
STAND_IN = "999999"
# Names in the folder that a resolution uses.
CONSTRAINTS = "constraints.txt"
STAND_INS = "stand-ins"

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_REQUIREMENT = re.compile(rf"({_NAME})\s*(?:\[([^\]]*)\])?\s*(?:==\s*([A-Za-z0-9.!+_-]+))?")
_REQUIRES = re.compile(rf"({_NAME})\s*(?:\[[^\]]*\])?\s*(@\s*\S+)?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
# A version as PEP 440 has it. pip refuses a constraint with any other, and no wheel of it is there.
_VERSION = re.compile(
    r"v?(\d+!)?\d+(\.\d+)*([-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?(-\d+|[-_.]?(post|rev|r)[-_.]?\d*)?"
    r"([-_.]?dev[-_.]?\d*)?(\+[a-z0-9]+([-_.][a-z0-9]+)*)?",
    re.IGNORECASE | re.ASCII,
)
_ERROR = re.compile(r"^ERROR: .*(?:\n {2,}\S.*)*", re.MULTILINE)
_VERSIONS = re.compile(r"\(from versions: [^()]*?, ((?:[^(),]+, ){4}[^(),]+)\)")
_NEEDS = re.compile(r"\s+(\S+ \S+) depends on (.+)")
_ASKED = re.compile(r"\s+The user requested (\(constraint\) )?(.+)")


class PipReportError(ValueError):
    """pip's report, or a requirement, is not what it has to be; the message says what and what to do."""


@dataclass(frozen=True)
class Requirement:
    """A requirement as it was asked for. name: normalised; extras: sorted; version: the pinned one, or None."""

    name: str
    extras: tuple[str, ...]
    version: str | None

    def __str__(self) -> str:
        return named(self.name, self.extras) + (f"=={self.version}" if self.version else "")


@dataclass(frozen=True)
class Wheel:
    """A wheel that the target lacks. name: normalised; file: its name; extras: those asked of it."""

    name: str
    version: str
    file: str
    sha256: str
    extras: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, str]:
        """As the bundle's manifest has it, and its hash."""
        return {"name": self.name, "version": self.version, "file": self.file, "sha256": self.sha256}


@dataclass(frozen=True)
class Resolution:
    """What pip settled on: wheels to fetch, and packages that the target has and that are needed; sorted by name."""

    wheels: tuple[Wheel, ...]
    in_target: tuple[Distribution, ...]
    pip: str

    @property
    def versions(self) -> dict[str, str]:
        """The version of each wheel by its normalised name."""
        return {wheel.name: wheel.version for wheel in self.wheels}


def named(name: str, extras: Iterable[str]) -> str:
    """A name with its extras, as in ray[default]."""
    joined = ",".join(extras)
    return f"{name}[{joined}]" if joined else name


def asked(requirements: Iterable[str], installed: Iterable[Distribution]) -> list[Requirement]:
    """The requirements asked for. Raises PipReportError where one is not pinned and not in the target."""
    there = {distribution.name for distribution in installed}
    found = []
    for number, text in enumerate(requirements):
        match = _REQUIREMENT.fullmatch(text.strip())
        if not match:
            wanted = "must be a name, its extras and one version, as ray[default]==2.60.0"
            raise PipReportError(f"requirements[{number}] = {text}: {wanted}. Correct the value")
        extras = sorted({canonical_name(extra.strip()) for extra in (match[2] or "").split(",") if extra.strip()})
        requirement = Requirement(canonical_name(match[1]), tuple(extras), match[3])
        if requirement.version is None and requirement.name not in there:
            wanted = f"the target has no {requirement.name}, so a version must be pinned"
            raise PipReportError(f"requirements[{number}] = {text}: {wanted}. Write {requirement}==<version>")
        found.append(requirement)
    return found


def free_names(requirements: Iterable[Requirement], installed: Iterable[Distribution]) -> set[str]:
    """Names that may get another version: those asked for in one that the target does not have."""
    versions = {distribution.name: distribution.version for distribution in installed}
    return {r.name for r in requirements if r.version and not _fits(versions.get(r.name, ""), r.version)}


def constraints(installed: Sequence[Distribution], free: AbstractSet[str]) -> str:
    """A constraints file: every installed version stays, but for the free names.

    Those keep to what the other installed packages ask of them.
    """
    lines = [f"{d.name}=={d.version}" for d in installed if d.name not in free and _VERSION.fullmatch(d.version)]
    for _who, name, specifier, marker in _demands(installed, free):
        lines.append(f"{name}{specifier}" + (f" ; {marker}" if marker else ""))
    return "".join(f"{line}\n" for line in lines)


def stand_ins(installed: Iterable[Distribution], tag: str) -> dict[str, dict[str, str]]:
    """The stand-ins' files: what each wheel, by its file name, holds (path in it: text). tag: the target's best.

    Packages whose dependencies are not known get none: pip then has to find their version in an index.
    """
    files = {}
    for found in installed:
        if found.requires is None or not _VERSION.fullmatch(found.version):
            continue
        stem = f"{found.name.replace('-', '_')}-{found.version.replace('-', '_')}"
        head = ["Metadata-Version: 2.1", f"Name: {found.name}", f"Version: {found.version}"]
        head += [f"Provides-Extra: {extra}" for extra in found.extras]
        # What was installed from an address does not have to come from there again.
        head += ["Requires-Dist: " + re.sub(r"\s*@\s*[^\s;]+\s*", " ", line).rstrip() for line in found.requires]
        wheel = ["Wheel-Version: 1.0", "Generator: tandem.vllm", "Root-Is-Purelib: true", f"Tag: {tag}"]
        files[f"{stem}-{STAND_IN}-{tag}.whl"] = {
            f"{stem}.dist-info/METADATA": "".join(f"{line}\n" for line in head),
            f"{stem}.dist-info/WHEEL": "".join(f"{line}\n" for line in wheel),
            f"{stem}.dist-info/RECORD": "",
        }
    return files


def resolve_argv(
    pip: Sequence[str], target: Target, requirements: Iterable[str], scratch: str, more: Sequence[str] = ()
) -> list[str]:
    """pip's command line that resolves and installs nothing.

    scratch: folder with the constraints file and the stand-ins; more: options of `pip install`. The report comes on
    stdout, among what pip logs: why a resolution is impossible is only told there.
    """
    return [
        *[*pip, "install", "--dry-run", "--ignore-installed", "--report", "-", *more],
        # Before 23.3 pip takes another platform only with --target, even where nothing is installed.
        *["--target", f"{scratch}/nowhere", *_for_target(target)],
        *["--constraint", f"{scratch}/{CONSTRAINTS}"],
        *["--find-links", f"{scratch}/{STAND_INS}", "--", *requirements],
    ]


def download_argv(pip: Sequence[str], target: Target, requirements_file: str, folder: str) -> list[str]:
    """pip's command line that fetches exactly the wheels of a hashed requirements file, for a target."""
    return [
        *[*pip, "download", "--no-deps", "--require-hashes", "--dest", folder, *_for_target(target)],
        *["--requirement", requirements_file],
    ]


def prove_argv(pip: Sequence[str], folder: str) -> list[str]:
    """pip's command line that shows, in the target itself, that a wheelhouse holds all that is needed.

    --isolated: the image's PIP_* say nothing of it.
    """
    return [
        *[*pip, "--isolated", "install", "--dry-run", "--report", "-", "--no-index", "--find-links", folder],
        *["--require-hashes", "--requirement", f"{folder}/requirements.txt"],
    ]


def embedded_report(out: str) -> dict[str, Any]:
    """The report in what pip printed. Raises PipReportError."""
    start = 0 if out.startswith("{") else out.find("\n{\n") + 1
    try:
        report, _end = json.JSONDecoder().raw_decode(out, start)
    except ValueError:
        raise PipReportError("pip wrote no report. It needs to be pip 23.0 or newer") from None
    if not isinstance(report, dict) or report.get("version") != "1":
        raise PipReportError(f"pip's report has version {report.get('version')!r}, only '1' is known here")
    return report


def resolution(report: Mapping[str, Any], stand_in_folder: str, installed: Iterable[Distribution]) -> Resolution:
    """What a report says. Raises PipReportError where a file has no SHA-256 or is no wheel."""
    there = {distribution.name: distribution for distribution in installed}
    fetched, kept = [], []
    for item in report["install"]:
        name, version = canonical_name(item["metadata"]["name"]), item["metadata"]["version"]
        extras = tuple(sorted(canonical_name(extra) for extra in item.get("requested_extras") or ()))
        url = urlsplit(item["download_info"]["url"])
        folder, _slash, file = unquote(url.path).rpartition("/")
        same = name in there and there[name].version == version
        if same or (url.scheme == "file" and folder == stand_in_folder):
            kept.append(Distribution(name, there[name].version, None, extras))
            continue
        sha256 = (item["download_info"].get("archive_info", {}).get("hashes") or {}).get("sha256")
        if not file.endswith(".whl"):
            raise PipReportError(f"{name} {version} comes as {file}, which is no wheel. Pin a version that has one")
        if not sha256:
            raise PipReportError(f"{name} {version}: the index gives no SHA-256 of {file}. Use an index that does")
        fetched.append(Wheel(name, version, file, sha256, extras))
    return Resolution(
        tuple(sorted(fetched, key=lambda wheel: wheel.name)),
        tuple(sorted(kept, key=lambda distribution: distribution.name)),
        str(report.get("pip_version")),
    )


def requirements_text(found: Resolution, requirements: Iterable[Requirement], words: str) -> str:
    """The requirements file, for `pip install --no-index --require-hashes`. words: the target, for people.

    What was asked for and is in the target has a line too, without a hash: pip then looks after its extras, and
    refuses the file in a target that does not have it.
    """
    names = {requirement.name for requirement in requirements}
    lines = [f"# For {words}. Written by tandem.vllm.wheelhouse."]
    lines += [f"{named(d.name, d.extras)}=={d.version}  # in the target" for d in found.in_target if d.name in names]
    lines += [f"{named(w.name, w.extras)}=={w.version} --hash=sha256:{w.sha256}" for w in found.wheels]
    return "".join(f"{line}\n" for line in lines)


def hashed(wheels: Iterable[Wheel]) -> str:
    """A requirements file of these wheels alone."""
    return "".join(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in wheels)


def conflicts(out: str, installed: Sequence[Distribution], free: AbstractSet[str]) -> list[dict[str, Any]]:
    """Why pip found no solution, by what it printed: {name, in_target, wanted, kept_by} for each package of the target.

    wanted: who needs what of it; kept_by: the installed packages that hold a free name. Empty where pip failed for
    another reason.
    """
    _before, _line, block = out.partition("The conflict is caused by:\n")
    needs: dict[str, list[str]] = {}
    constrained = []
    for line in block.partition("\n\n")[0].splitlines():
        needed, user = _NEEDS.match(line), _ASKED.match(line)
        text = needed[2] if needed else user[2] if user else ""
        name = re.match(_NAME, text)
        if not name:
            continue
        if user and user[1]:
            constrained.append(canonical_name(name[0]))
        else:
            needs.setdefault(canonical_name(name[0]), []).append(
                f"{needed[1] if needed else 'you'} needs {text.replace(' and ', ',')}"
            )
    versions = {distribution.name: distribution.version for distribution in installed}
    return [
        {
            "name": name,
            "in_target": versions.get(name),
            "wanted": [words.replace("you needs", "you asked for") for words in dict.fromkeys(needs.get(name, ()))],
            "kept_by": [
                f"{who} needs {name}{rule}" for who, _name, rule, _marker in _demands(installed, free & {name})
            ],
        }
        for name in dict.fromkeys(constrained)
    ]


def conflict_words(found: Sequence[Mapping[str, Any]], becoming: Mapping[str, str] | None) -> str:
    """The conflicts for people, and what to do. becoming: versions that would solve them, None where none would."""
    lines = []
    for row in found:
        held = "; ".join(row["kept_by"]) or f"the target has {row['in_target']}"
        lines.append(f"{row['name']}: {held}, but {'; '.join(row['wanted']) or 'another version is needed'}")
        if becoming and row["name"] in becoming:
            lines[-1] += f" (would become {becoming[row['name']]})"
    names = [row["name"] for row in found if not row["kept_by"]]
    if becoming is not None:
        remedy = f"Ask for a version that goes with the image, or allow the change: upgrade: [{', '.join(names)}]"
    else:
        remedy = "Ask for a version that goes with the image, or take another image"
    return "The image's packages do not allow it. " + ". ".join(lines) + ". " + remedy


def error_words(out: str, err: str) -> str:
    """What pip said when it failed: its own error lines, else its last line."""
    said = "\n".join(line.rstrip() for line in (err + "\n" + out).splitlines())
    # What an error is about can be on the lines after it, which are indented.
    errors = [" ".join(found[0].split())[len("ERROR: ") :].rstrip(".") for found in _ERROR.finditer(said)]
    # The versions that an index has can be hundreds: the newest do.
    words = _VERSIONS.sub(r"(from versions: …, \1)", ". ".join(errors))
    return words or (said.strip() or "it said nothing").splitlines()[-1].strip()


def proof_problem(report: Mapping[str, Any], found: Iterable[Mapping[str, str]]) -> str | None:
    """What the target would install besides the wheelhouse's wheels, or not at all; None where it is just those."""
    would = {(canonical_name(i["metadata"]["name"]), i["metadata"]["version"]) for i in report["install"]}
    have = {(wheel["name"], wheel["version"]) for wheel in found}
    words = [f"{name} {version} is in the wheelhouse and not needed" for name, version in sorted(have - would)]
    words += [f"{name} {version} would be installed" for name, version in sorted(would - have)]
    return ", ".join(words) or None


def pip_too_old(version: str | None, oldest: tuple[int, int]) -> bool:
    """Whether there is no pip, or one older than that."""
    numbers = re.match(r"(\d+)\.(\d+)", version or "")
    return not numbers or (int(numbers[1]), int(numbers[2])) < oldest


def misfit(interpreter: Mapping[str, Any], target: Target) -> str | None:
    """Why an interpreter would evaluate environment markers otherwise than the target; None where it would not.

    interpreter: {python, implementation (as in tags), machine, system}.
    """
    minor = ".".join(target.python.split(".")[:2])
    if ".".join(interpreter["python"].split(".")[:2]) != minor:
        return f"is Python {interpreter['python']}, not {minor}"
    if interpreter["implementation"] != target.implementation:
        return f"is {interpreter['implementation']}, not {target.implementation}"
    if (interpreter["system"], interpreter["machine"]) != ("Linux", target.machine):
        return f"runs on {interpreter['system']} {interpreter['machine']}, not on Linux {target.machine}"
    return None


def index_words(settings: str) -> str:
    """Where wheels come from, by `pip config list`, without host names and users: the paths of the indexes."""
    found = {}
    for line in settings.splitlines():
        key, _equals, value = line.partition("=")
        found[key.rpartition(".")[2]] = value.strip("'\"")  # the environment comes last, and wins
    urls = [found.get("index-url", ""), *re.split(r"\s+|\\n", found.get("extra-index-url", ""))]
    paths = [urlsplit(url).path or "/" for url in urls if url]
    return ", ".join(paths if urls[0] else ["PyPI", *paths])


def fingerprint(inputs: Mapping[str, Any]) -> str:
    """SHA-256 of all that a resolution depends on."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _for_target(target: Target) -> list[str]:
    python = re.match(r"\d+\.\d+(\.\d+)?", target.python)
    argv = ["--only-binary=:all:", "--python-version", python[0] if python else target.python]
    argv += ["--implementation", target.implementation, "--abi", target.abi]
    for platform in platforms(target):
        argv += ["--platform", platform]
    return argv


def _fits(installed: str, pinned: str) -> bool:
    """Whether an installed version is the pinned one; 2.9.0+cpu is 2.9.0."""
    return installed == pinned or ("+" not in pinned and installed.partition("+")[0] == pinned)


def _demands(installed: Iterable[Distribution], names: AbstractSet[str]) -> list[tuple[str, str, str, str]]:
    """What packages that stay ask of those names: (who, name, specifier, marker) each. Extras are not looked at."""
    found = []
    for distribution in installed:
        for line in distribution.requires or () if distribution.name not in names else ():
            match = _REQUIRES.fullmatch(line)
            name = canonical_name(match[1]) if match else ""
            if not match or name not in names or match[2] or not match[3].strip():
                continue
            marker = (match[4] or "").strip()
            if "extra" not in marker:
                who = f"{distribution.name} {distribution.version}"
                found.append((who, name, match[3].strip().replace(" ", ""), marker))
    return found
