# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of wheels and wheelhouses, and the words that tell of each.

Spellings are those of pip 9 to 26, uv, Poetry, the dynamic loader and sha256sum, and listings of folders. Which failure
a "No matching distribution found" means is decided by rules on what else the text holds (see pip_facts).
Texts are in tests/fixtures/triage/pip, a file for each failure; a test holds that every phrase has one.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import wheels
from ansible_collections.tandem.vllm.plugins.module_utils.triage import pip_facts as facts
from ansible_collections.tandem.vllm.plugins.module_utils.triage.pip_facts import File, NotFound
from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import (
    LOW,
    MEDIUM,
    Case,
    Family,
    Kind,
    Signature,
)

# What one "not found" means; those with a question mark are guesses.
SDIST, GLIBC, WHEEL, MISSING = "sdist", "glibc", "wheel", "missing"
GLIBC_GUESS, WHEEL_GUESS, MISSING_GUESS, UNKNOWN = "glibc?", "wheel?", "missing?", "?"

NOT_FOUND = (
    r"No matching distribution found for",
    r"Could not find a version that satisfies the requirement",
)
UV_NOT_FOUND = (
    r"was not found in the (?:package registry|provided package locations|cache)",
    r"there (?:is|are) no versions? of",
    r"Because only .{1,80} is available and",
)
NOT_SUPPORTED = r"\.whl is not a supported wheel on this platform"
UV_NO_WHEELS = (
    r"has no wheels with a matching (?:Python \w+|platform) tag",
    r"has no usable wheels",
    r"dependency is incompatible with the current (?:platform|Python)",
    r"it doesn't have a source distribution or wheel for the current platform",
    r"only (?:found|has) wheels (?:for|with the following|.{0,80} with the following)",
)
BUILD_FAILED = (
    r"(?:Getting requirements to build wheel|Preparing metadata|Building wheel for .{1,80}|python setup\.py \w+)"
    r".{0,40} did not run successfully",
    r"pip subprocess to install (?:build|backend) dependencies did not run successfully",
    r"installing (?:build|backend) dependencies for .{1,60} did not run successfully",
    r"Encountered error while generating package metadata",
    r"Failed building wheel for",
    r"Could not build wheels for",
    r"Failed to build installable wheels for",
    r"python setup\.py (?:egg_info|bdist_wheel)[\"']? failed with error code",
    r"Command errored out with exit status \d+: .{0,120}setup\.py",
    r"Could not import setuptools which is required to install from a source distribution",
    r"Cannot import (?:build backend )?'[\w.]+(?::__legacy__)?'",
    r"Failed to (?:download and )?build ['\"]?[\w.-]+(?:==|['\"])",
)
NOT_A_WHEELHOUSE = (r"Obtaining file:|Preparing editable metadata|Building editable for|git\+https?:",)
NOT_INSTALLED = (
    r"requires .{1,120}, which is not installed",
    r"has requirement .{1,80}, which is not installed",
    r"The package '[\w.-]+' requires '.{1,120}', but it's not installed",
    r"The '.{1,80}' distribution was not found and is required by",
)
WHEEL_FILE = r"\.whl"
HEX = r"[0-9a-f]{32,128}"
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

LOOK_IN_WHEELHOUSE = "ls WHEELHOUSE | grep -i PACKAGE"
NOT_FOUND_CHECKS = (
    LOOK_IN_WHEELHOUSE,
    "python3 -m pip --version",
    "python3 -m pip debug --verbose | head -n 40",
    "uname -m; ldd --version | head -n 1",
)


class TooNew(NamedTuple):
    """A wheel that asks for a newer glibc than there is. file: None where the text names no file."""

    file: File | None
    needs: str
    have: str


# What the text says, judged.


def _refused(case: Case, file: File) -> str:
    """Why a wheel that was refused was: GLIBC, GLIBC_GUESS or WHEEL."""
    where = facts.usual(case, facts.files(case))
    kinds = facts.wrong_with(file, where)
    if kinds:
        return GLIBC if kinds == {"glibc_too_old"} else WHEEL
    needs = facts.needed_glibc(file.wheel)
    any_python = file.wheel.abis == ("abi3",) or file.wheel.pythons[0].startswith("py3")
    doubtful = needs and facts.numbers(needs) >= facts.DOUBTFUL_GLIBC and not where.glibc
    return GLIBC_GUESS if doubtful and (any_python or where.python) else WHEEL


def _meaning(case: Case, one: NotFound) -> str:
    """Which failure a requirement that was not found stands for."""
    text, asked = case.text, facts.asked(case)
    if (
        not one.parent
        and one.name not in asked
        and (text.has(facts.BUILD_ENVIRONMENT) or one.name in facts.BUILD_TOOLS)
    ):
        return SDIST
    all_files = facts.files(case)
    there = [file for file in all_files if file.wheel.project == one.name]
    fitting = [file for file in there if facts.satisfies(file.wheel.version, one.spec)]
    if fitting:
        meanings = {_refused(case, file) for file in fitting}
        return next(meaning for meaning in (GLIBC, GLIBC_GUESS, WHEEL) if meaning in meanings)
    if any(wheels.canonical_name(re.split(r"-\d", name)[0]) == one.name for name in facts.sdists(case)):
        return SDIST
    if there or one.versions:
        return MISSING if one.top is False else WHEEL
    if text.has(r"require a different python version"):
        return WHEEL
    return _meaning_of_absence(case, one, one.name in asked, bool(all_files))


def _meaning_of_absence(case: Case, one: NotFound, asked: bool, wheels_named: bool) -> str:
    """What it means that there is no file of a package at all. asked: whether a command names it."""
    if one.top is False:
        commands = facts.commands(case)
        elsewhere = any(re.search(r"--platform|--only-binary|--python-version", command) for command in commands)
        # An index has all packages, only not for each platform; a wheelhouse has what was put there.
        from_index = elsewhere and not case.text.has(r"--no-index|Looking in links:")
        return WHEEL_GUESS if from_index else MISSING
    if case.text.has(facts.UNREACHABLE):
        return UNKNOWN
    if one.name in facts.TOPS or asked:
        return WHEEL_GUESS
    # A pinned list names every package itself, so pip names no parent of what the wheelhouse lacks.
    from_list = one.first and (wheels_named or any("-r " in command for command in facts.commands(case)))
    ranged = one.spec is not None and not one.spec.startswith("==")
    if one.top is None or from_list:
        return MISSING_GUESS if from_list or one.marker or ranged else UNKNOWN
    return WHEEL_GUESS


@facts.once
def _meanings(case: Case) -> dict[str, list[NotFound]]:
    found: dict[str, list[NotFound]] = {}
    for one in facts.not_found(case):
        found.setdefault(_meaning(case, one), []).append(one)
    return found


def _means(*meanings: str) -> Any:
    """A rule: whether any requirement that was not found stands for one of these."""
    return lambda case: not _meanings(case).keys().isdisjoint(meanings)


@facts.once
def _not_supported(case: Case) -> list[File]:
    """The wheels that pip calls not supported."""
    names = [
        name for row in facts.lines(case) for name in re.findall(r"([^\s/\\'\"]+\.whl)\s?is\s?not\s?a\s?supp", row)
    ]
    return [file for file in facts.files(case) if any(name.endswith(file.name) for name in names)]


@facts.once
def _too_new(case: Case) -> TooNew | None:
    """A wheel that asks for a newer glibc than the text says there is, where no other file serves instead."""
    where = facts.target(case)
    if not where.glibc or case.text.has(facts.INSTALLED):
        return None
    all_files = facts.files(case)
    where = facts.usual(case, all_files)
    fitting = {(file.wheel.project, file.wheel.version) for file in all_files if not facts.wrong_with(file, where)}
    for file in all_files:
        if facts.wrong_with(file, where) == {"glibc_too_old"}:
            needs = facts.needed_glibc(file.wheel, where.machine)
            if needs and (file.wheel.project, file.wheel.version) not in fitting:
                return TooNew(file, needs, str(where.glibc))
    machine = where.machine or r"\w+?"
    told = facts.told(
        case,
        r"(?:compatible with Linux \(|on the following platforms?: (?:'\w+',? ?(?:and )?)*?)"
        rf"'manylinux_(2_\d+)_{machine}'",
    ) or (facts.DEMANDED.findall(case.text.flat) if case.text.has(r"wheel|\.whl|manylinux|\bpip\b") else [])
    needed = min((version.replace("_", ".") for version in told), key=facts.numbers, default=None)
    if needed and facts.numbers(needed) > facts.numbers(str(where.glibc)):
        return TooNew(None, needed, str(where.glibc))
    return None


def _too_new_file(case: Case) -> str | None:
    found = _too_new(case)
    return found.file.name if found and found.file else None


def _glibc_guessed(case: Case) -> bool:
    refused = {_refused(case, file) for file in _not_supported(case)} | set(_meanings(case))
    return GLIBC_GUESS in refused and GLIBC not in refused


def _not_for_glibc(case: Case) -> bool:
    """Whether a wheel was refused for another reason than glibc."""
    files = _not_supported(case)
    return not files or any(_refused(case, file) == WHEEL for file in files)


def _no_glibc_known(case: Case) -> bool:
    return _too_new(case) is None


@facts.once
def _lone_sdists(case: Case) -> list[str]:
    """Sdists of a listing that have no wheel beside them."""
    listed, archives = facts.listed(case)
    if not listed and not case.text.has(r"wheelhouse|wheels?/|pip[\d.]* (?:install|download)"):
        return []
    if case.text.has(facts.INSTALLED):
        return []
    built = {(file.wheel.project, file.wheel.version) for file in listed}
    parts = {name: re.match(r"(.+?)-(\d[^-]*?)\.(?:tar|tgz|zip)", name) for name in archives}
    return [name for name, part in parts.items() if part and (wheels.canonical_name(part[1]), part[2]) not in built]


def _lone_sdist(case: Case) -> str | None:
    return next(iter(_lone_sdists(case)), None)


def _foreign(case: Case, sure: bool) -> list[File]:
    """Wheels of a listing that are for another platform or Python, and no other of the package fits.

    sure: by what the text says of the target, and by the platform (targets run Linux); else by what most wheels fit.
    """
    listed, _archives = facts.listed(case)
    where = facts.target(case)
    if not where.linux or case.text.has(facts.INSTALLED):
        return []
    if not sure:
        where = facts.usual(case, listed)
    wrong = {file: facts.wrong_with(file, where) - {"glibc_too_old"} for file in listed}
    fitting = {file.wheel.project for file, kinds in wrong.items() if not kinds}
    return [file for file, kinds in wrong.items() if kinds and file.wheel.project not in fitting]


def _foreign_surely(case: Case) -> bool:
    return bool(_foreign(case, sure=True))


def _foreign_likely(case: Case) -> bool:
    return bool(_foreign(case, sure=False))


def _foreign_file(case: Case) -> str | None:
    return next((file.name for file in _foreign(case, sure=True) or _foreign(case, sure=False)), None)


def _offline_build(case: Case) -> bool:
    return case.text.has(facts.OFFLINE) or bool(_missing_build_deps(case))


def _missing_build_deps(case: Case) -> list[str]:
    """What building needs and was not there."""
    found = [one.name for one in _meanings(case).get(SDIST, []) if not one.versions]
    if any(map(case.text.has, BUILD_FAILED)):
        found += [name.split(".")[0] for name in case.text.facts(r"No module named '?([\w.]+)")]
    found += [name.split(".")[0] for name in case.text.facts(r"Cannot import (?:build backend )?'([\w.]+)")]
    found += ["setuptools"] if case.text.has(r"Could not import setuptools which is required") else []
    found += ["wheel"] if case.text.has(r"invalid command '?bdist_wheel") else []
    names = {wheels.canonical_name(re.split(r"-\d", name)[0]) for name in facts.sdists(case)}
    return [name for name in dict.fromkeys(map(wheels.canonical_name, found)) if name not in names]


def _unpinned(case: Case) -> NotFound | None:
    """A dependency that a list with hashes does not name; None where the list itself is at fault."""
    return facts.unpinned(case)


def _unnamed_dependency(case: Case) -> bool:
    one = _unpinned(case)
    return bool(one and one.parent)


# Details.


def _glibc_facts(case: Case) -> dict[str, Any]:
    asked = sorted(case.text.facts(r"GLIBC_(2\.\d+)"), key=facts.numbers)
    found = _too_new(case)
    refused = [
        file for file in _not_supported(case) + _files_of(case, GLIBC, GLIBC_GUESS) if facts.needed_glibc(file.wheel)
    ]
    file = found.file if found else next(iter(refused), None)
    where = facts.target(case)
    needs = found.needs if found else facts.needed_glibc(file.wheel) if file else None
    return {
        "file": file.name if file else case.text.fact(r"required by ([^\s)]+)\)"),
        "package": file.wheel.project if file else None,
        "needs_glibc": asked[-1] if asked else needs,
        "have_glibc": where.glibc,
        "python_ok": bool(file and where.python and "wrong_python" not in facts.wrong_with(file, where)),
    }


def _files_of(case: Case, *meanings: str) -> list[File]:
    names = {one.name for meaning, ones in _meanings(case).items() if meaning in meanings for one in ones}
    return [file for file in facts.files(case) if file.wheel.project in names]


def _hash_facts(case: Case) -> dict[str, Any]:
    rows = "\n".join(facts.lines(case))
    text = case.text
    got = (
        text.fact(rf"\bGot\s+({HEX})") or text.fact(rf"Computed: sha256:({HEX})") or text.fact(rf"was: sha256:({HEX})")
    )
    package = re.search(rf"^\s*({facts.NAME}(?:==[\w.+!]+)?)\s(?:@\s\S+\s)?from\s(?:https?|file):", rows, re.MULTILINE)
    named = package.group(1) if package else text.fact(r"Hash mismatch for '([^']+)'")
    file = re.search(r"from\s(?:https?|file):\S*?([^/\s]+\.(?:whl|tar\.gz|zip))", rows) or re.search(
        r"([^/\s]+\.(?:whl|tar\.gz|zip))(?::\sFAILED|\snot found in known)", rows
    )
    expected = text.facts(rf"\b(?:Expected sha\d+|or)\s+({HEX})") or text.facts(rf"Expected: (?:sha\d+:)({HEX})")
    cached = text.has(r"Using cached \S+\.(?:whl|tar\.gz|zip)")
    likely = "empty_file" if got == EMPTY_SHA256 else "corrupt_cache" if cached else None
    return {
        "package": named or text.fact(rf"Hash for ({facts.NAME} \([^)]+\)) from archive"),
        "file": file.group(1) if file else None,
        "expected": expected,
        "got": got,
        "likely": likely,
    }


def _sdist_facts(case: Case) -> dict[str, Any]:
    names = _lone_sdists(case) or facts.sdists(case)
    return {
        "package": names[0]
        if names
        else case.text.fact(rf"Failed to (?:download and )?build '({facts.NAME}(?:==[\w.+!]+)?)'")
        or case.text.fact(
            rf"(?:Failed building wheel for|Could not build wheels for|wheel \(pyproject.toml\) for) ({facts.NAME})"
        )
        or case.text.fact(r"/pip-install-\w+/([\w.-]+?)(?:_[0-9a-f]{32})?/"),
        "files": names[1:] and names,
        "missing_build_deps": _missing_build_deps(case),
        "required_by": case.text.fact(r"\(v[\w.]+\) was included because '([\w.-]+)'"),
    }


def _missing_facts(case: Case) -> dict[str, Any]:
    found = _meanings(case)
    ones = found.get(MISSING, []) + found.get(MISSING_GUESS, [])
    one = next(iter(ones), None) or _unpinned(case) or facts.not_installed(case)
    module = case.text.fact(r"ModuleNotFoundError: No module named '([\w]+)")
    return {
        "package": one.name if one else module,
        "packages": [other.name for other in ones] if len(ones) > 1 else None,
        "spec": one.spec if one else None,
        "marker": one.marker if one else None,
        "required_by": one.parent if one else None,
        "versions": list(one.versions) if one and one.versions != ("other",) else None,
    }


def _wheel_facts(case: Case) -> dict[str, Any]:
    found = _meanings(case)
    one = next(iter(found.get(WHEEL, []) + found.get(WHEEL_GUESS, []) + found.get(UNKNOWN, [])), None)
    files = _not_supported(case) or (_files_of(case, WHEEL, WHEEL_GUESS) if one else []) or _foreign(case, sure=True)
    files = files or _foreign(case, sure=False)
    where = facts.target(case)
    names = [file.name for file in files]
    told = case.text.fact(rf"Because (?:only )?(?:there is no version of )?({facts.NAME})(?:==\S+)? has no ")
    return {
        "file": names[0] if names else None,
        "files": names if len(names) > 1 else None,
        "package": one.name if one else files[0].wheel.project if files else told,
        "spec": one.spec if one else None,
        "marker": one.marker if one else None,
        "required_by": one.parent if one else None,
        "versions": list(one.versions) if one and one.versions != ("other",) else None,
        "python": where.python,
        "machine": where.machine,
        "requires_python": case.text.fact(r"requires a different Python: [\d.]+ not in '([^']+)'"),
    }


KINDS = (
    Kind(
        "glibc_too_old",
        "The wheel was built for a newer glibc than the target has, and pip cannot change that: pin a version whose "
        "wheel asks for an older glibc (manylinux_2_N in its name, N at most the target's), or use a newer system or "
        "an image that has it.",
        "ldd --version | head -n 1; ls WHEELHOUSE | grep -o 'manylinux_2_[0-9]*' | sort -uV",
        facts=_glibc_facts,
    ),
    Kind(
        "hash_mismatch",
        "The file is not the one that the list of requirements was made with: fetch it again without the cache (pip "
        "cache purge, --no-cache-dir) and compare; change the list only if the file was meant to change. %2B in an "
        "address is + in the file name.",
        "sha256sum WHEELHOUSE/FILE; python3 -m pip cache purge",
        facts=_hash_facts,
    ),
    Kind(
        "sdist_in_wheelhouse",
        "A source archive has to be built before it can be installed, which needs its build tools and often a "
        "compiler on the target: build a wheel of it where there is internet, on a system like the target, and put "
        "that into the wheelhouse; collect with --only-binary=:all:, so that none slips in.",
        "python3 -m pip wheel --no-deps --wheel-dir WHEELHOUSE PACKAGE",
        facts=_sdist_facts,
    ),
    Kind(
        "missing_transitive_dependency",
        "A package that another one requires is not there: add its wheel for the target's Python and platform, and to "
        "the list with its hash. Collect the wheelhouse by resolving the top packages for the target, not by hand; an "
        "environment marker after the version is evaluated on the target, so do not drop the requirement.",
        "python3 -m pip download --dest WHEELHOUSE --only-binary=:all: PACKAGE",
        because_of=("sdist_in_wheelhouse",),
        facts=_missing_facts,
    ),
    Kind(
        "no_compatible_wheel",
        "There is no wheel of this package, in the version asked for, for the target's Python, ABI and platform: "
        "fetch the one whose tags fit (pip download with --python-version, --platform and --only-binary=:all:), or "
        "pin a version that has one. A pip before 20.3 does not know manylinux_2_N names.",
        "python3 -m pip debug --verbose | grep -A 12 'Compatible tags'; ls WHEELHOUSE",
        because_of=("glibc_too_old",),
        facts=_wheel_facts,
    ),
)

SIGNATURES = (
    Signature(
        "glibc_too_old",
        (r"version '?GLIBC_2\.\d+'? not found", r"version '?GLIBC_2\.\d+'? not defined in file"),
        advice="A native library needs a newer glibc than the target has, whatever its wheel's name says: pin a "
        "version that was built for an older one, or use a newer system or an image that has it.",
        next_command="ldd --version | head -n 1; objdump -T LIBRARY | grep -o 'GLIBC_2[.0-9]*' | sort -uV | tail -n 1",
    ),
    Signature(
        "glibc_too_old",
        (
            r"manylinux(?:_2_\d+|1|2010|2014)_\w",
            r"(?:needs|requires?|built (?:on|for|against)) (?:a )?g?libc",
        ),
        when=lambda case: _too_new(case) is not None,
        shown_by=_too_new_file,
    ),
    Signature(
        "glibc_too_old",
        (NOT_SUPPORTED, *NOT_FOUND),
        MEDIUM,
        when=_glibc_guessed,
        checks=("ldd --version | head -n 1", "python3 -m pip --version", "uname -m"),
    ),
    Signature(
        "hash_mismatch",
        (
            r"THESE PACKAGES DO NOT MATCH THE HASHES",
            rf"Expected sha\d+ {HEX}",
            r"Hash mismatch for ['\"]?[\w.-]+",
            r"from archive .{1,200} not found in known hashes",
            r"Hash of the package .{1,400} doesn't match the expected hash",
        ),
    ),
    Signature(
        "hash_mismatch",
        (r"\.(?:whl|tar\.gz): FAILED(?!open)",),
        advice="The file is not the one that the checksums were made of: copy or fetch it again, and find out what "
        "changed it before trusting the rest of the folder.",
        next_command="sha256sum --check --quiet SHA256SUMS",
    ),
    Signature("sdist_in_wheelhouse", BUILD_FAILED, unless=NOT_A_WHEELHOUSE, when=_offline_build),
    Signature(
        "sdist_in_wheelhouse", (*NOT_FOUND, r"was not found in the provided package locations"), when=_means(SDIST)
    ),
    Signature(
        "sdist_in_wheelhouse",
        (r"-\d[\w.+!]*\.(?:tar\.gz|tar\.bz2|tgz|zip)",),
        when=lambda case: bool(_lone_sdists(case)),
        shown_by=_lone_sdist,
    ),
    Signature(
        "sdist_in_wheelhouse",
        BUILD_FAILED,
        MEDIUM,
        unless=(*NOT_A_WHEELHOUSE, facts.INSTALLED),
        checks=("ls WHEELHOUSE | grep -v '[.]whl$'", "python3 -m pip download --only-binary=:all: --no-deps PACKAGE"),
    ),
    Signature("missing_transitive_dependency", NOT_INSTALLED),
    Signature("missing_transitive_dependency", (*NOT_FOUND, *UV_NOT_FOUND), when=_means(MISSING)),
    Signature(
        "missing_transitive_dependency",
        (
            r"all requirements must have their versions pinned with ==\. These do not",
            r"Hash-checking is required, but no trusted hash was provided for",
        ),
        when=_unnamed_dependency,
        advice="The list with hashes does not name every package that is needed: a dependency is missing from it. "
        "Make the list from the whole resolved set, each with its version and hash.",
        next_command="python3 -m pip install --dry-run --ignore-installed --report - --quiet TOP_PACKAGE",
    ),
    Signature(
        "missing_transitive_dependency",
        NOT_FOUND,
        MEDIUM,
        when=_means(MISSING_GUESS),
        checks=(LOOK_IN_WHEELHOUSE, "grep -in PACKAGE requirements.txt", "python3 -m pip --version"),
    ),
    Signature(
        "missing_transitive_dependency",
        (r"^ModuleNotFoundError: No module named '(?!pip|setuptools|wheel)",),
        MEDIUM,
        needs=(r"--no-deps|wheelhouse|pip[\d.]* (?:install|check|freeze)|--no-index|Successfully installed",),
        unless=BUILD_FAILED,
        checks=("python3 -m pip check", LOOK_IN_WHEELHOUSE),
    ),
    Signature(
        "missing_transitive_dependency",
        (r"Hashes are required in --require-hashes mode, but they are missing from some requirements",),
        LOW,
        checks=("grep -c -- --hash= requirements.txt", "grep -in PACKAGE requirements.txt", "python3 -m pip check"),
        advice="An entry of the list has no hash, or a dependency is not in the list: add it with its version and "
        "hash, from the whole resolved set.",
    ),
    Signature("no_compatible_wheel", (NOT_SUPPORTED,), when=_not_for_glibc),
    Signature(
        "no_compatible_wheel",
        (
            r"requires a different Python: \d",
            r"Unable to find installation candidates for",
        ),
    ),
    Signature("no_compatible_wheel", UV_NO_WHEELS, when=_no_glibc_known),
    Signature("no_compatible_wheel", (*NOT_FOUND, *UV_NOT_FOUND), when=_means(WHEEL)),
    Signature("no_compatible_wheel", (WHEEL_FILE,), when=_foreign_surely, shown_by=_foreign_file),
    Signature(
        "no_compatible_wheel",
        (*NOT_FOUND, *UV_NOT_FOUND),
        MEDIUM,
        when=_means(WHEEL_GUESS),
        checks=NOT_FOUND_CHECKS,
    ),
    Signature(
        "no_compatible_wheel",
        (WHEEL_FILE,),
        MEDIUM,
        when=_foreign_likely,
        shown_by=_foreign_file,
        checks=("python3 --version; uname -m", "python3 -m pip debug --verbose | head -n 40"),
    ),
    Signature(
        "no_compatible_wheel",
        (*NOT_FOUND, *UV_NOT_FOUND),
        LOW,
        when=_means(UNKNOWN),
        checks=NOT_FOUND_CHECKS,
        advice="Nothing of this package was found where pip looked. Either no file fits the target's Python and "
        "platform, or it is not there at all, or the index was not reached (offline, install with --no-index "
        "--find-links).",
    ),
)

FAMILY = Family("pip", KINDS, SIGNATURES)
