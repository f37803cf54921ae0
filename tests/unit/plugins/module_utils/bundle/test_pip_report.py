# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import pip_report
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.pip_report import PipReportError, Requirement, Wheel
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.target import Distribution
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target

# What pip 26.3 printed for the lab's image: `ray[default,serve,data]==2.54.0`, shortened, host names exchanged.
FIXTURES = Path(__file__).parents[4] / "fixtures" / "pip"
REPORT = (FIXTURES / "report_ray_2.54.0.txt").read_text()
TARGET = Target("3.11.2", "cp", "cp311", "x86_64", "2.6", ())
INSTALLED = [
    Distribution("cachetools", "8.0.2", ()),
    Distribution("click", "8.5.1", ()),
    Distribution("google-auth", "2.63.0", ("pyasn1-modules>=0.2.1", 'ray<3 ; extra == "ray"')),
    Distribution("numpy", "2.3.5", ()),
    Distribution("odd", "1.0-unknown", ("ray<1",)),
    Distribution("packaging", "26.4", ()),
    Distribution("ray", "2.60.0", ("click>=7.0", "packaging >= 24.2"), ("default",)),
    Distribution("torch", "2.13.0+cpu", ("fancy @ https://example.org/fancy.whl ; x",)),
    Distribution("transformers", "5.19.0", ("packaging (>=20.0)", 'ray>2.3; python_version >= "3.9"')),
    Distribution("uvicorn", "0.54.0", None),
]
RAY = "928bb09245a3c6f7c3c113ba8eafc69f948da9602d7f33e8251ecdf97c157615"


def requirement(text: str) -> Requirement:
    return pip_report.asked([text], INSTALLED)[0]


def report(**changed: Any) -> dict[str, Any]:
    """The report, with one item changed."""
    found = pip_report.embedded_report(REPORT)
    found["install"][0]["download_info"].update(changed)
    return found


@pytest.mark.parametrize(
    ("text", "name", "extras", "version", "canonical"),
    [
        ("ray[default]==2.60.0", "ray", ("default",), "2.60.0", "ray[default]==2.60.0"),
        (" Ray [serve, Default] == 2.60.0 ", "ray", ("default", "serve"), "2.60.0", "ray[default,serve]==2.60.0"),
        ("torch==2.13.0+cpu", "torch", (), "2.13.0+cpu", "torch==2.13.0+cpu"),
        ("ray[default]", "ray", ("default",), None, "ray[default]"),
    ],
)
def test_a_requirement(text: str, name: str, extras: tuple[str, ...], version: str | None, canonical: str) -> None:
    found = requirement(text)
    assert (found.name, found.extras, found.version, str(found)) == (name, extras, version, canonical)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ray>=2.60", "must be a name, its extras and one version, as ray[default]==2.60.0. Correct the value"),
        ("ray==2.*", "must be a name, its extras and one version, as ray[default]==2.60.0. Correct the value"),
        ("--pre", "must be a name, its extras and one version, as ray[default]==2.60.0. Correct the value"),
        ("ray @ https://x", "must be a name, its extras and one version, as ray[default]==2.60.0. Correct the value"),
        ("pandas", "the target has no pandas, so a version must be pinned. Write pandas==<version>"),
    ],
)
def test_a_requirement_that_is_not_pinned(text: str, message: str) -> None:
    with pytest.raises(PipReportError) as raised:
        requirement(text)
    assert str(raised.value) == f"requirements[0] = {text}: {message}"


@pytest.mark.parametrize(
    ("text", "free"),
    [
        ("ray[default]==2.59.0", {"ray"}),
        ("ray[default]==2.60.0", set()),
        ("ray[default]", set()),
        ("torch==2.13.0", set()),
        ("torch==2.13.0+cu130", {"torch"}),
        ("pandas==3.1.1", {"pandas"}),
    ],
)
def test_only_what_is_asked_for_in_another_version_may_change(text: str, free: set[str]) -> None:
    assert pip_report.free_names([requirement(text)], INSTALLED) == free


def test_constraints_keep_what_the_target_has() -> None:
    lines = pip_report.constraints(INSTALLED, {"ray"}).splitlines()
    assert "torch==2.13.0+cpu" in lines
    assert "uvicorn==0.54.0" in lines
    # No version that pip knows, and it refuses the file for it.
    assert not [line for line in lines if line.startswith("odd")]
    # What may change keeps to what the others ask of it, unless only an extra of theirs does.
    assert [line for line in lines if line.startswith("ray")] == ["ray<1", 'ray>2.3 ; python_version >= "3.9"']


def test_stand_ins() -> None:
    found = pip_report.stand_ins(INSTALLED, "cp311-cp311-linux_x86_64")
    assert [name.split("-")[0] for name in found] == (
        ["cachetools", "click", "google_auth", "numpy", "packaging", "ray", "torch", "transformers"]
    )
    assert found["ray-2.60.0-999999-cp311-cp311-linux_x86_64.whl"]["ray-2.60.0.dist-info/METADATA"] == (
        "Metadata-Version: 2.1\nName: ray\nVersion: 2.60.0\nProvides-Extra: default\n"
        "Requires-Dist: click>=7.0\nRequires-Dist: packaging >= 24.2\n"
    )
    torch = found["torch-2.13.0+cpu-999999-cp311-cp311-linux_x86_64.whl"]["torch-2.13.0+cpu.dist-info/METADATA"]
    # It is there already, so it does not have to come from its address.
    assert torch.splitlines()[-1] == "Requires-Dist: fancy ; x"


FOR_TARGET = (
    "--only-binary=:all: --python-version 3.11.2 --implementation cp --abi cp311 --platform linux_x86_64 "
    "--platform manylinux_2_6_x86_64 --platform manylinux_2_5_x86_64 --platform manylinux1_x86_64"
)


def test_command_lines() -> None:
    pip = ["python3.11", "-m", "pip"]
    assert " ".join(pip_report.resolve_argv(pip, TARGET, ["ray==2.60.0"], "/s", ["--no-deps"])) == (
        "python3.11 -m pip install --dry-run --ignore-installed --report - --no-deps --target /s/nowhere "
        + FOR_TARGET
        + " --constraint /s/constraints.txt --find-links /s/stand-ins -- ray==2.60.0"
    )
    assert " ".join(pip_report.download_argv(pip, TARGET, "/s/missing.txt", "/d")) == (
        f"python3.11 -m pip download --no-deps --require-hashes --dest /d {FOR_TARGET} --requirement /s/missing.txt"
    )
    assert " ".join(pip_report.prove_argv(["pip.whl/pip"], "/w")) == (
        "pip.whl/pip --isolated install --dry-run --report - --no-index --find-links /w "
        "--require-hashes --requirement /w/requirements.txt"
    )
    beta = Target("3.15.0b1", "cp", "cp315", "x86_64", None, ("cp315-cp315-linux_x86_64",))
    assert "--python-version 3.15.0 " in " ".join(pip_report.download_argv(pip, beta, "", ""))


def test_a_report() -> None:
    found = pip_report.resolution(report(), "/scratch/stand-ins", INSTALLED)
    assert found.pip == "26.3"
    assert [(wheel.name, wheel.version, wheel.extras) for wheel in found.wheels] == [
        ("pandas", "3.1.1", ()),
        ("ray", "2.54.0", ("data", "default", "serve")),
        ("tzdata", "2026.6", ()),
    ]
    assert found.wheels[1].to_dict() == {
        "name": "ray",
        "version": "2.54.0",
        "file": "ray-2.54.0-cp311-cp311-manylinux2014_x86_64.whl",
        "sha256": RAY,
    }
    kept = [(entry.name, entry.version) for entry in found.in_target]
    assert kept == [("click", "8.5.1"), ("google-auth", "2.63.0"), ("numpy", "2.3.5"), ("uvicorn", "0.54.0")]


def test_a_version_that_the_target_has_needs_no_wheel_wherever_pip_found_it() -> None:
    installed = [*INSTALLED, Distribution("tzdata", "2026.6", None)]
    found = pip_report.resolution(report(), "/scratch/stand-ins", installed)
    assert [wheel.name for wheel in found.wheels] == ["pandas", "ray"]


def test_a_local_version_in_an_address() -> None:
    url = "https://index.example.org/cpu/torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl#sha256=0"
    found = pip_report.resolution(report(url=url), "/scratch/stand-ins", INSTALLED)
    assert found.wheels[1].file == "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"archive_info": {"hash": "md5=0", "hashes": {"md5": "0"}}},
            "ray 2.54.0: the index gives no SHA-256 of ray-2.54.0-cp311-cp311-manylinux2014_x86_64.whl. "
            "Use an index that does",
        ),
        (
            {"url": "https://files.example.org/ray-2.54.0.tar.gz"},
            "ray 2.54.0 comes as ray-2.54.0.tar.gz, which is no wheel. Pin a version that has one",
        ),
    ],
)
def test_a_file_that_cannot_be_taken(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(PipReportError) as raised:
        pip_report.resolution(report(**changed), "/scratch/stand-ins", INSTALLED)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("Collecting ray", "pip wrote no report. It needs to be pip 23.0 or newer"),
        ('{"version": "0"}', "pip's report has version '0', only '1' is known here"),
    ],
)
def test_no_report(out: str, message: str) -> None:
    with pytest.raises(PipReportError) as raised:
        pip_report.embedded_report(out)
    assert str(raised.value) == message


def test_a_requirements_file() -> None:
    found = pip_report.resolution(report(), "/scratch/stand-ins", INSTALLED)
    asked = [requirement("ray[default,serve,data]==2.54.0"), requirement("numpy")]
    # What is asked for and there has a line without a hash: pip then looks after its extras.
    assert pip_report.requirements_text(found, asked, "Python 3.11.2") == (
        "# For Python 3.11.2. Written by tandem.vllm.wheelhouse.\n"
        "numpy==2.3.5  # in the target\n"
        "pandas==3.1.1 --hash=sha256:4f1602f614bb83f443381dbcbb94c4ac764b2e50c8d6c965614c5cd83e328c47\n"
        f"ray[data,default,serve]==2.54.0 --hash=sha256:{RAY}\n"
        "tzdata==2026.6 --hash=sha256:0a10eec6e13ef16b627fabed9a5f2ba61a62b1c67f327305f4e7e412a70b4aec\n"
    )
    assert pip_report.hashed([Wheel("ray", "2.54.0", "ray.whl", RAY, ("serve",))]) == (
        f"ray==2.54.0 --hash=sha256:{RAY}\n"
    )


@pytest.mark.parametrize(
    ("file", "free", "rows"),
    [
        (
            "conflict_numpy.txt",
            {"scipy"},
            [
                {
                    "name": "numpy",
                    "in_target": "2.3.5",
                    "wanted": ["scipy 1.11.4 needs numpy<1.28.0,>=1.21.6"],
                    "kept_by": [],
                }
            ],
        ),
        (
            "conflict_packaging.txt",
            {"streamlit", "packaging"},
            [
                {
                    "name": "packaging",
                    "in_target": "26.4",
                    "wanted": ["streamlit 1.30.0 needs packaging<24,>=16.8"],
                    "kept_by": ["ray 2.60.0 needs packaging>=24.2", "transformers 5.19.0 needs packaging>=20.0"],
                }
            ],
        ),
        ("report_ray_2.54.0.txt", {"ray"}, []),
    ],
)
def test_conflicts(file: str, free: set[str], rows: list[dict[str, Any]]) -> None:
    assert pip_report.conflicts((FIXTURES / file).read_text(), INSTALLED, free) == rows


def test_a_conflict_with_what_was_asked_for() -> None:
    out = "The conflict is caused by:\n    The user requested ray==1.0\n    The user requested (constraint) ray>2.3\n\n"
    assert pip_report.conflicts(out, INSTALLED, {"ray"})[0]["wanted"] == ["you asked for ray==1.0"]


def test_the_words_for_conflicts() -> None:
    numpy, packaging = (
        pip_report.conflicts((FIXTURES / f"conflict_{name}.txt").read_text(), INSTALLED, free)[0]
        for name, free in (("numpy", {"scipy"}), ("packaging", {"streamlit", "packaging"}))
    )
    assert pip_report.conflict_words([numpy], {"numpy": "1.26.4"}) == (
        "The image's packages do not allow it. numpy: the target has 2.3.5, but scipy 1.11.4 needs "
        "numpy<1.28.0,>=1.21.6 (would become 1.26.4). Ask for a version that goes with the image, or allow the "
        "change: upgrade: [numpy]"
    )
    assert pip_report.conflict_words([numpy, packaging], None) == (
        "The image's packages do not allow it. numpy: the target has 2.3.5, but scipy 1.11.4 needs "
        "numpy<1.28.0,>=1.21.6. packaging: ray 2.60.0 needs packaging>=24.2; transformers 5.19.0 needs "
        "packaging>=20.0, but streamlit 1.30.0 needs packaging<24,>=16.8. Ask for a version that goes with the image, "
        "or take another image"
    )


@pytest.mark.parametrize(
    ("out", "err", "words"),
    [
        (
            "Collecting ray",
            "WARNING: x\nERROR: Could not find a version that satisfies the requirement ray==9 (from versions: 2.5.0, "
            "2.5.1, 2.6.0, 2.6.1, 2.7.0rc0, 2.7.0, 2.7.1)\nERROR: No matching distribution found for ray==9\n",
            "Could not find a version that satisfies the requirement ray==9 (from versions: …, 2.6.0, 2.6.1, "
            "2.7.0rc0, 2.7.0, 2.7.1). No matching distribution found for ray==9",
        ),
        ("", "ERROR: x (from versions: none)", "x (from versions: none)"),
        (
            "",
            "WARNING: x\nERROR: In --require-hashes mode, all requirements must have their versions pinned with ==. "
            "These do not:\n    tzdata from file:///w/tzdata-2026.6-py2.py3-none-any.whl "
            "(from python-dateutil==4.0.0)\nWARNING: y",
            "In --require-hashes mode, all requirements must have their versions pinned with ==. These do not: tzdata "
            "from file:///w/tzdata-2026.6-py2.py3-none-any.whl (from python-dateutil==4.0.0)",
        ),
        ("one\ntwo\n\n", "", "two"),
        ("", "", "it said nothing"),
    ],
)
def test_what_pip_says_when_it_fails(out: str, err: str, words: str) -> None:
    assert pip_report.error_words(out, err) == words


@pytest.mark.parametrize(
    ("have", "problem"),
    [
        (["click 8.5.1", "google-auth 2.63.0", "numpy 2.3.5", "pandas 3.1.1", "ray 2.54.0", "tzdata 2026.6",
          "uvicorn 0.54.0"], None),
        (["click 8.5.1", "google-auth 2.63.0", "numpy 2.3.4", "pandas 3.1.1", "ray 2.54.0", "tzdata 2026.6",
          "uvicorn 0.54.0"], "numpy 2.3.4 is in the wheelhouse and not needed, numpy 2.3.5 would be installed"),
    ],
)  # fmt: skip
def test_a_proof(have: list[str], problem: str | None) -> None:
    wheels = [{"name": entry.split()[0], "version": entry.split()[1]} for entry in have]
    assert pip_report.proof_problem(report(), wheels) == problem


@pytest.mark.parametrize(
    ("version", "old"), [("23.0", False), ("26.3", False), ("22.3.1", True), ("9.0", True), (None, True), ("x", True)]
)
def test_an_old_pip(version: str | None, old: bool) -> None:
    assert pip_report.pip_too_old(version, pip_report.OLDEST_PIP) == old


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, None),
        ({"python": "3.12.1"}, "is Python 3.12.1, not 3.11"),
        ({"python": "3.1.1"}, "is Python 3.1.1, not 3.11"),
        ({"implementation": "pp"}, "is pp, not cp"),
        ({"machine": "aarch64"}, "runs on Linux aarch64, not on Linux x86_64"),
        ({"system": "Darwin"}, "runs on Darwin x86_64, not on Linux x86_64"),
    ],
)
def test_a_python_that_would_resolve_otherwise(changed: dict[str, str], reason: str | None) -> None:
    fits = {"python": "3.11.7", "implementation": "cp", "machine": "x86_64", "system": "Linux"}
    assert pip_report.misfit({**fits, **changed}, TARGET) == reason


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("", "PyPI"),
        ("global.index-url='https://mirror.example.org'", "/"),
        ("global.cert='/etc/ssl/ca.pem'\nglobal.index-url='https://me:secret@mirror.example.org/pypi/simple'\n",
         "/pypi/simple"),
        ("global.index-url='https://a.example.org/old'\n:env:.index-url='https://b.example.org/new/'", "/new/"),
        ("global.extra-index-url='https://a.example.org/whl/cpu https://u:p@b.example.org/x'",
         "PyPI, /whl/cpu, /x"),
    ],
)  # fmt: skip
def test_the_index_is_told_without_its_host(settings: str, words: str) -> None:
    assert pip_report.index_words(settings) == words


def test_a_fingerprint() -> None:
    one = pip_report.fingerprint({"a": 1, "b": [2]})
    assert one == pip_report.fingerprint({"b": [2], "a": 1})
    assert one != pip_report.fingerprint({"a": 1, "b": [3]})
