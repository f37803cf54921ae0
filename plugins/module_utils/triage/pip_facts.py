# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a text about wheels says: the files it names, the target, and the requirements that were not found.

Read from outputs of pip (9 to 26) and uv, listings of folders, and reports in people's words.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import wheels
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import WheelName
from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import Case

WHEEL = re.compile(r"(?<![\w.+!-])([A-Za-z0-9][\w.]*-v?\d[\w.+!]*(?:-\d\w*)?(?:-\w[\w.]*){2}-\w[\w.]*?\.whl)")
PACKAGE_FILE = re.compile(r"\w\.(?:whl|tar\.gz|tar\.bz2|tgz|zip)")
SDIST = re.compile(r"(?<![\w.+!-])([A-Za-z][\w.-]*?-\d[\w.+!-]*?\.(?:tar\.gz|tar\.bz2|tgz|zip))(?![\w.-])")
# Archives of the bundle that are no Python packages.
OTHER_ARCHIVE = re.compile(r"(?:collections?|images?|models?|packages)/[^\s/]*\Z")
# What may stand beside the file names of a listing, a word each: `ls -l`, sha256sum, du, tree, a JSON list.
BESIDE = re.compile(
    r"\d[\d.,:/-]*(?:[KMGTk]?i?B?)|[0-9a-f]{32,128}|sha256:\w+|[-*+|`\u2500-\u257f]+|total|saved|and|"
    r"jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec",
    re.IGNORECASE,
)
LS_LONG = re.compile(r"-[-rwxsStT]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+")
LABEL = re.compile(r"[A-Za-z][\w ./()-]{0,40}?\s*:\s+(?=\S)")

INSTALLED = r"Successfully (?:installed|built) \w"
BUILD_ENVIRONMENT = (
    r"pip-build-env|pip subprocess to install (?:build|backend) dependencies|installing (?:build|backend) dependencies"
    r" for .{1,60} did not run|Installing (?:build|backend) dependencies: finished with status 'error'"
    r"|Installing (?:build|backend) dependencies \.\.\. error|Failed to resolve requirements from"
    r"|No solution found when resolving: "
)
OFFLINE = (
    r"--no-index|--find-links|wheelhouse|Looking in links:|provided package locations|index lookups were disabled"
    r"|Failed to establish a new connection|Temporary failure in name resolution|Name or service not known"
    r"|No solution found when resolving: |Could not find a version that satisfies the requirement"
)
UNREACHABLE = (
    r"NewConnectionError|Failed to establish a new connection|Temporary failure in name resolution|ConnectTimeoutError"
    r"|Name or service not known|Network is unreachable|error sending request for url"
)
# What builds packages, and is seldom asked for by itself.
# fmt: off
BUILD_TOOLS = frozenset((
    "setuptools", "wheel", "setuptools-scm", "setuptools-rust", "flit-core", "flit-scm", "poetry-core", "hatchling",
    "hatch-vcs", "pdm-backend", "maturin", "scikit-build-core", "scikit-build", "meson-python", "cython",
    "pybind11", "cffi-build", "versioneer", "pbr", "cmake", "ninja", "uv-build", "hatch-fancy-pypi-readme",
    "expandvars", "calver", "puccinialin",
))
# fmt: on
# What an environment of this project asks for itself; the rest comes with it.
TOPS = frozenset(("ray", "vllm", "torch", "torchvision", "torchaudio", "flash-attn", "cupy-cuda12x", "cupy-cuda13x"))

NAME = r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?"
ONE_SPEC = r"(?:===|==|~=|!=|<=|>=|<|>)\s?[\w.*+!-]*\w\*?"
SPEC = rf"{ONE_SPEC}(?:\s?,\s?{ONE_SPEC})*"
ONE_MARKER = r"\(*[a-z_]+\s?(?:[<>=!~]{1,3}|not in|in)\s?[\"'][^\"']*[\"']\)*"
MARKER = rf"{ONE_MARKER}(?:\s(?:and|or)\s{ONE_MARKER})*"


Value = TypeVar("Value")


def once(rule: Callable[[Case], Value]) -> Callable[[Case], Value]:
    """A rule on the text alone that reads each text only once."""

    @functools.wraps(rule)
    def remembered(case: Case) -> Value:
        known = case.text.worked_out
        name = f"{rule.__module__}.{rule.__name__}"
        if name not in known:
            known[name] = rule(case)
        return cast(Value, known[name])

    return remembered


def loose(words: str) -> str:
    """A regular expression of words between which a blank may be lost."""
    return words.replace(" ", r"\s?")


REQUIREMENT = (
    rf"(?P<name>{NAME})(?:\s?\[[\w,.\s-]*\])?\s?(?P<spec>{SPEC})?(?:\s?;\s?(?P<marker>{MARKER}))?"
    r"(?:\s?\(from(?!\s?vers)\s?(?P<origin>[^()]*(?:\([^()]*\)[^()]*)*)\))?"
    r"(?:\s?\(from\s?versions:\s?(?P<versions>[^)]*)\))?"
)
NOT_SATISFIED = loose("Could not find a version that satisfies the requirement ")
NOT_FOUND = re.compile(
    rf"(?:(?P<first>{NOT_SATISFIED})|" + loose("No matching distribution found for ") + rf"){REQUIREMENT}"
)
UV_NOT_FOUND = re.compile(
    rf"(?:(?P<absent>{NAME})\s?{loose('was not found in the ')}"
    rf"(?:{loose('package registry|provided package locations|cache')})"
    rf"|there\s(?:is|are)\s{loose('no versions? of ')}(?P<other>{NAME})"
    rf"|only\s(?P<only>{NAME})(?P<there>{SPEC})\s{loose('is available and ')}(?!(?P=only)))"
)
UV_WORDS = re.compile(r"was\s?not\s?found\s?in|\sversions?\s?of\s|is\s?available\s?and")
NOT_PINNED = re.compile(
    loose("all requirements must have their versions pinned with ==. These do not:") + rf"\s*{REQUIREMENT}(?P<rest>.*)"
)
NO_HASH_UV = re.compile(loose("no trusted hash was provided for: ") + rf"'?(?P<name>{NAME})")
_NEEDED = rf"(?P<name>{NAME})(?:\s?\[[\w,.\s-]*\])?\s?(?P<spec>{SPEC})?(?:\s?;\s?(?P<marker>{MARKER}))?"
NOT_INSTALLED = (
    re.compile(
        rf"(?P<parent>{NAME})\s[\w.+!]+\s?(?:requires|has requirement)\s?{_NEEDED},\s?{loose('which is not installed')}"
    ),
    re.compile(rf"package\s'(?P<parent>{NAME})'\s?requires\s?'{_NEEDED}',\s?but\sit's\snot"),
    re.compile(rf"The\s'{_NEEDED}'\s?{loose('distribution was not found and is required by ')}(?P<parent>{NAME})"),
)
COMMAND = re.compile(r"\b(?:pip[\d.]*|uv pip)\s+(?:install|download|wheel)\s(?P<rest>.+)")
# Options with a value that stands by itself.
# fmt: off
VALUE_OPTIONS = frozenset((
    "-f", "--find-links", "-d", "--dest", "-w", "--wheel-dir", "-i", "--index-url", "--extra-index-url", "-r",
    "--requirement", "-c", "--constraint", "-t", "--target", "--platform", "--python-version", "--implementation",
    "--abi", "--only-binary", "--no-binary", "--prefix", "--root", "--python", "--cache-dir", "--trusted-host",
    "--proxy", "-e", "--editable",
))
# fmt: on

VERSION = re.compile(r"\d+")
PYTHON_WORDS = (
    r"--python-version[ =]['\"]?(\d\.?\d+)",
    r"target\W.{0,60}?python[ :=]*(?:version)?[ :=]*(3\.\d+)",
    r"requires a different Python: (3\.\d+)",
    r"You(?:'re using| require) CPython (3\.\d+)",
    r"matching Python (?:ABI|version) tag \(e\.g\., 'cp(3\d+)",
    r"\(python (3\.\d+)\)",
    r"lib/python(3\.\d+)/",
    r"\bpython[ :=]+(?:version)?[ :=]*(3\.\d+)",
    r"\bpython(3\.\d+)\b",
)
GLIBC_WORDS = (
    r"(?:you're on Linux \(|matching platform tag \(e\.g\., )'manylinux_(2_\d+)_",
    r"--platform[ =]['\"]?manylinux_(2_\d+)_",
    r"\bldd \([^)]*\) (2\.\d+)",
    r"GNU C Library .{0,60}?version (2\.\d+)",
    r"-with-glibc(2\.\d+)",
    r"GLIBC (2\.\d+)-\d",
)
GLIBC = re.compile(r"(?:g?libc6?|GNU libc)\)?[\s:=(-]{1,3}(?:version\s)?(2\.\d+)", re.IGNORECASE)
# Before a number it means the wheel's demand, not what the machine has.
DEMAND = re.compile(
    r"(?:need|requir|built (?:on|for|against)|at least|wheel|>=|minimum|newer)[^.;\n]{0,24}\Z", re.IGNORECASE
)
DEMANDED = re.compile(
    r"(?:needs?|requires?|at least|built (?:on|for|against)|>=)\s(?:a\s)?(?:g?libc\s)?(?:>=\s?)?(2\.\d+)", re.IGNORECASE
)
# Distributions, and the glibc that each has.
DISTRIBUTIONS = (
    (r"Ubuntu 18\.04", "2.27"),
    (r"Ubuntu 20\.04", "2.31"),
    (r"Ubuntu 22\.04", "2.35"),
    (r"Ubuntu 24\.04", "2.39"),
    (r"Debian(?: GNU/Linux)? 1?10\b", "2.28"),
    (r"Debian(?: GNU/Linux)? 11\b", "2.31"),
    (r"Debian(?: GNU/Linux)? 12\b", "2.36"),
    (
        r"(?:RHEL|Red Hat Enterprise Linux|CentOS(?: Linux| Stream)?|Rocky(?: Linux)?|AlmaLinux)(?: release)? 7\b",
        "2.17",
    ),
    (
        r"(?:RHEL|Red Hat Enterprise Linux|CentOS(?: Linux| Stream)?|Rocky(?: Linux)?|AlmaLinux)(?: release)? 8\b",
        "2.28",
    ),
    (
        r"(?:RHEL|Red Hat Enterprise Linux|CentOS(?: Linux| Stream)?|Rocky(?: Linux)?|AlmaLinux)(?: release)? 9\b",
        "2.34",
    ),
    (r"Amazon Linux 2\b", "2.26"),
)
MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64", "ppc64le": "ppc64le"}
MACHINE = r"(x86_64|amd64|aarch64|arm64|ppc64le)"
# A glibc that no target has: where the target's is not known, none is too old.
ANY_GLIBC = "2.99"
# Wheels for older ones fit all that is in use, so glibc is not why such a one was refused.
DOUBTFUL_GLIBC = (2, 24)


@dataclass(frozen=True)
class Target:
    """What the text says of the machine to install on. python: "3.11"; glibc: "2.36"; None where it does not say."""

    python: str | None
    machine: str | None
    glibc: str | None
    linux: bool = True


@dataclass(frozen=True)
class File:
    """A wheel that the text names."""

    name: str
    wheel: WheelName


@dataclass(frozen=True)
class NotFound:
    """A requirement that was not found.

    name: canonical; spec: as written; parent: what requires it; versions: other ones that are there; first: whether
    pip's full sentence was there, which names the parent if there is one; top: whether it was asked for itself.
    """

    name: str
    spec: str | None = None
    marker: str | None = None
    parent: str | None = None
    versions: tuple[str, ...] = ()
    first: bool = False
    top: bool | None = None


@once
def lines(case: Case) -> list[str]:
    """The lines that name files, with file names whole: %2B of URLs is +, and what a terminal broke is one again."""
    plain = [line.clean for line in case.text.lines]
    joined = case.text.rejoined
    rows = [line for line in (plain + joined if joined != plain else plain) if PACKAGE_FILE.search(line)]
    return [re.sub("%2b", "+", line, flags=re.IGNORECASE) for line in rows]


@once
def texts(case: Case) -> tuple[str, str]:
    """The text with single blanks, as it is and with broken lines joined: the second is a guess, to be asked last."""
    joined = "\n".join(" ".join(line.split()) for line in case.text.rejoined)
    return "\n".join(" ".join(line.clean.split()) for line in case.text.lines), joined


@once
def files(case: Case) -> list[File]:
    """The wheels that the text names, each once."""
    return [*_wheels_of(lines(case))]


def _wheels_of(rows: Iterable[str]) -> Iterator[File]:
    found: dict[str, None] = {}
    for row in rows:
        # Two names that were joined by mistake part where the first ends.
        for name in WHEEL.findall(re.sub(r"(\.whl|\.tar\.gz)(?=[A-Za-z0-9])", r"\1 ", row)):
            _add(found, name)
    for name in found:
        wheel = wheels.parse(name)
        if isinstance(wheel, WheelName):
            yield File(name, wheel)


@once
def sdists(case: Case) -> list[str]:
    """The source archives that the text names, each once; not those that pip only skipped over."""
    rows = [row for row in lines(case) if not OTHER_ARCHIVE.search(row)]
    found: dict[str, None] = {}
    for name in (name for row in rows for name in SDIST.findall(row)):
        _add(found, name)
    return [*found]


def _add(found: dict[str, None], name: str) -> None:
    """Add a file's name, unless it is a known one to which the end of another line was joined by mistake."""
    if not any(name.endswith(known) for known in found):
        found[name] = None


@once
def listed(case: Case) -> tuple[list[File], list[str]]:
    """Wheels and sdists in lines that hold nothing but names of files, and what `ls` and its like put beside."""
    rows = [row for row in map(_names_only, lines(case)) if row]
    archives: dict[str, None] = {}
    for token in (token for row in rows for token in row):
        match = SDIST.search(token)
        if match and match.end() == len(token) and not OTHER_ARCHIVE.search(token):
            _add(archives, match.group(1))
    return [*_wheels_of(token for row in rows for token in row)], [*archives]


def _names_only(line: str) -> list[str]:
    """The file names of a line of a listing; none where it says anything else."""
    long = LS_LONG.match(line)
    rest = line[long.end() :] if long else LABEL.sub("", line, count=1)
    tokens = [token for token in re.split(r"[\s,;'\"\[\]()]+", rest) if token and not BESIDE.fullmatch(token)]
    return (
        tokens
        if tokens and all(re.search(r"\w\.(?:whl|tar\.gz|tar\.bz2|tgz|zip)\Z", token) for token in tokens)
        else []
    )


@once
def target(case: Case) -> Target:
    """What the text says of the machine to install on."""
    text = case.text.flat
    python = next((found for found in (case.text.fact(words) for words in PYTHON_WORDS) if found), None)
    if python and "." not in python:
        python = python[0] + "." + python[1:]
    windows = case.text.fact(r"(?:--platform[ =]['\"]?|target\W.{0,60}?)(win|macos)")
    return Target(python, _machine(text), _glibc(case), linux=not windows)


def _machine(text: str) -> str | None:
    """The machine as uname names it; file names and markers, which say what something is for, do not count."""
    text = re.sub(r"\S+\.(?:whl|so)\b\S*|platform_machine\s?[=!]=\s?[\"'][^\"']*[\"']", " ", text)
    stated = re.search(rf"(?:--platform[ =]['\"]?\w*?|\btarget\W.{{0,60}}?|you're on Linux \('\w*?){MACHINE}", text)
    if not stated:
        stated = re.search(rf"matching platform tag \(e\.g\., '\w*?{MACHINE}", text)
    if stated:
        return MACHINES[stated.group(1)]
    found = {MACHINES[name] for name in re.findall(rf"(?<![\w.']){MACHINE}(?![\w.'])", text)}
    return found.pop() if len(found) == 1 else None


def _glibc(case: Case) -> str | None:
    text = case.text.flat
    for words in GLIBC_WORDS:
        told = case.text.fact(words)
        if told:
            return told.replace("_", ".")
    for match in GLIBC.finditer(text):
        if not DEMAND.search(text[max(0, match.start() - 60) : match.start()]):
            return match.group(1)
    return next((version for words, version in DISTRIBUTIONS if re.search(words, text, re.IGNORECASE)), None)


def needed_glibc(wheel: WheelName, machine: str | None = None) -> str | None:
    """The oldest glibc that a wheel runs with: "2.39"; None for wheels that do not say."""
    tags = [
        (int(match.group(1)), platform)
        for platform in (re.sub(r"manylinux(1|2010|2014)_", _modern, platform) for platform in wheel.platforms)
        for match in [re.match(r"manylinux_2_(\d+)_", platform)]
        if match and (machine is None or platform.endswith(machine))
    ]
    return "2.%d" % min(tags)[0] if tags else None


def _modern(match: re.Match[str]) -> str:
    return "manylinux_%d_%d_" % wheels.LEGACY_MANYLINUX["manylinux" + match.group(1)]


def told(case: Case, pattern: str) -> list[str]:
    """First groups of a regular expression at all its places; without any white space where a line broke within."""
    found = case.text.facts(pattern)
    return found or re.findall(re.sub(r" [*+?]?", "", pattern), case.text.squeezed, re.IGNORECASE)


def numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, for comparing; without what follows a +."""
    return tuple(map(int, VERSION.findall(version.split("+")[0])))


def usual(case: Case, of: Iterable[File]) -> Target:
    """The target; where the text does not say a part, what most of these wheels are for."""
    known, others = target(case), [file.wheel for file in of]
    pythons = [
        re.sub(r"cp3(\d+)\Z", r"3.\1", wheel.pythons[0])
        for wheel in others
        if re.fullmatch(r"cp3\d+", wheel.pythons[0]) and wheel.abis[0].startswith("cp3")
    ]
    machines = [
        match.group(1)
        for wheel in others
        for match in [re.search(r"linux\w*?_" + MACHINE, wheel.platforms[0])]
        if match
    ]
    return replace(known, python=known.python or _most(pythons), machine=known.machine or _most(machines))


def _most(values: list[str]) -> str | None:
    """What more than half say, and two at least."""
    if not values:
        return None
    value, count = Counter(values).most_common(1)[0]
    return value if count >= 2 and 2 * count > len(values) else None


def wrong_with(file: File, where: Target) -> set[str]:
    """Kinds of wheels.KINDS that speak against a wheel on a target; a part that is not known speaks against nothing."""
    python = where.python or next(
        (f"{tag[2]}.{tag[3:]}" for tag in file.wheel.pythons if re.fullmatch(r"(?:cp|py)3\d+", tag)), "3.12"
    )
    machine = where.machine or next(
        (m.group(1) for platform in file.wheel.platforms for m in [re.search(MACHINE + r"\Z", platform)] if m), "x86_64"
    )
    # A free-threaded Python is none that a text would leave unsaid, so its wheels are of no use.
    tags = "cp" + python.replace(".", "") + ("m" if numbers(python) < (3, 8) else "")
    rows = wheels.wheel_problems(
        [file.name], wheels.Target(python + ".0", "cp", tags, machine, where.glibc or ANY_GLIBC)
    )
    return {row["kind"] for row in rows}


@once
def not_found(case: Case) -> list[NotFound]:
    """What pip or uv did not find, each once, in the order of the text."""
    plain, joined = map(_not_found_in, texts(case))
    # Where a line broke within a requirement, only the joined text has all of it.
    if any(one.first for one in joined.values()) and not any(one.first for one in plain.values()):
        plain = {}
    found = {name: _both(one, joined[name]) if name in joined else one for name, one in plain.items()} or joined
    broken = {
        name for name in found if name not in joined and any(other.startswith(name) for other in found.keys() & joined)
    }
    found = {name: one for name, one in found.items() if name not in broken}
    return [replace(one, top=_asked_for(case, one)) for one in found.values()]


def _not_found_in(text: str) -> dict[str, NotFound]:
    found: dict[str, NotFound] = {}
    for match in NOT_FOUND.finditer(text):
        one = _of_pip(match)
        known = found.get(one.name)
        found[one.name] = _both(known, one) if known else one
    # Its pattern starts with any word, which takes long on a long log.
    for match in UV_NOT_FOUND.finditer(text) if UV_WORDS.search(text) else ():
        one = _of_uv(match, text)
        found.setdefault(one.name, one)
    return found


def _of_pip(match: re.Match[str]) -> NotFound:
    origin = (match.group("origin") or "").strip()
    # "(from -r requirements.txt (line 3))" is a list that asks for it, not a package.
    parent = None if origin.startswith(("-r", "-c")) else origin.split("->")[0].strip() or None
    versions = [version.strip() for version in (match.group("versions") or "").split(",")]
    return NotFound(
        wheels.canonical_name(match.group("name")),
        _squeezed(match.group("spec")),
        match.group("marker"),
        parent,
        tuple(version for version in versions if version and version != "none"),
        first=bool(match.groupdict().get("first")),
        top=True if origin and not parent else None,
    )


def _both(one: NotFound, other: NotFound) -> NotFound:
    """What two sentences say of one requirement."""
    return replace(
        one,
        spec=one.spec or other.spec,
        marker=max(one.marker or "", other.marker or "", key=len) or None,
        parent=one.parent or other.parent,
        versions=one.versions or other.versions,
        first=one.first or other.first,
        top=one.top or other.top,
    )


def _of_uv(match: re.Match[str], text: str) -> NotFound:
    name = match.group("absent") or match.group("other") or match.group("only")
    depends = re.search(
        rf"(?P<parent>{NAME})(?:{SPEC})?\s(?:depends?)\s(?:on\s)?{re.escape(name)}(?P<spec>{SPEC})?",
        text.replace("\n", " "),
    )
    required = re.search(rf"you\s?require\s?{re.escape(name)}(?P<spec>{SPEC})?", text.replace("\n", " "))
    said = depends or required
    there = (match.group("there") or "").lstrip("=<>")
    return NotFound(
        wheels.canonical_name(name),
        said.group("spec") if said else None,
        parent=depends.group("parent") if depends else None,
        versions=(there or "other",) if not match.group("absent") else (),
        top=False if depends else True if required else None,
    )


def unpinned(case: Case) -> NotFound | None:
    """A package that a list with hashes does not pin. parent: what requires it; None where the list names it."""
    for text in texts(case):
        match = NOT_PINNED.search(text)
        if match:
            origin = re.search(r"\(from (?!-r|-c)(?P<parent>[^()>]+)", match.group("rest") or "")
            one = _of_pip(match)
            return replace(one, parent=one.parent or (origin.group("parent").rstrip("- ") if origin else None))
        match = NO_HASH_UV.search(text)
        if match:
            return NotFound(wheels.canonical_name(match.group("name")), parent="requirements")
    return None


def not_installed(case: Case) -> NotFound | None:
    """What pip check, uv pip check or setuptools say is required and not installed."""
    for text in texts(case):
        for words in NOT_INSTALLED:
            match = words.search(text)
            if match:
                marker = match.group("marker")
                return NotFound(
                    wheels.canonical_name(match.group("name")),
                    _squeezed(match.group("spec")),
                    marker.strip() if marker else None,
                    match.group("parent"),
                )
    return None


def _squeezed(words: str | None) -> str | None:
    return re.sub(r"\s", "", words) if words else None


@once
def commands(case: Case) -> list[str]:
    """What follows pip install, pip download and their like, of each command in the text; not pip's own calls."""
    found = [match.group("rest") for line in case.text.lines for match in [COMMAND.search(line.clean)] if match]
    return [rest for rest in found if "pip-build-env" not in rest]


@once
def asked(case: Case) -> set[str]:
    """Canonical names that commands ask for."""
    names: set[str] = set()
    for rest in commands(case):
        tokens = rest.split()
        for before, token in zip(["", *tokens], tokens):
            word = token.strip("'\"`").rpartition("/")[2]
            if token.startswith("-") or before in VALUE_OPTIONS:
                continue
            file = WHEEL.fullmatch(word) or SDIST.fullmatch(word)
            match = re.match(NAME, re.split(r"-v?\d", word)[0] if file else word)
            if match:
                names.add(wheels.canonical_name(match.group()))
    return names


def _asked_for(case: Case, one: NotFound) -> bool | None:
    """Whether a requirement was asked for itself; None where the text does not tell."""
    if one.parent or one.top is not None:
        return bool(one.top) and not one.parent
    commanded = asked(case)
    if one.name in commanded:
        return True
    handled = re.findall(r"^(?:Collecting|Processing)\s+(\S+)(?!.*\(from (?!-))", texts(case)[0], re.MULTILINE)
    handled = [re.split(r"-v?\d|[=<>!~;\[]", word.rpartition("/")[2])[0] for word in handled]
    if handled and wheels.canonical_name(handled[0]) == one.name:
        return True
    # pip's full sentence would name a package that requires it.
    if one.first and not one.marker:
        return True
    if handled or commanded or case.text.has(r"^Requirement already satisfied: "):
        return False
    return None


def satisfies(version: str, spec: str | None) -> bool:
    """Whether a version meets a requirement; where the words cannot be compared, yes."""
    mine = numbers(version)
    for operator, wanted in re.findall(r"(===|==|~=|!=|<=|>=|<|>)([^,\s]+)", spec or ""):
        other = numbers(wanted)
        length = max(len(mine), len(other))
        left, right = (part + (0,) * (length - len(part)) for part in (mine, other))
        if wanted.endswith(".*"):
            left, right = left[: len(other)], other
        held = {
            "==": left == right,
            "===": left == right,
            "!=": left != right,
            ">=": left >= right,
            "<=": left <= right,
            ">": left > right,
            "<": left < right,
            "~=": left >= right and mine[: len(other) - 1] == other[:-1],
        }[operator]
        if not held:
            return False
    return True
