# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import sys
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.fields import ManifestError
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import (
    Target,
    WheelName,
    fitting,
    parse,
    target_tags,
    wheel_problems,
)

LAB = Target("3.11.2", "cp", "cp311", "x86_64", "2.36")
UBUNTU = Target("3.10.12", "cp", "cp310", "x86_64", "2.35")
TARGETS = [
    pytest.param(LAB, id="Debian 12"),
    pytest.param(UBUNTU, id="Ubuntu 22.04"),
    pytest.param(Target("3.12.9", "cp", "cp312", "x86_64", "2.34"), id="RHEL 9"),
    pytest.param(Target("3.12.3", "cp", "cp312", "aarch64", "2.39"), id="aarch64"),
    pytest.param(Target("3.9.18", "cp", "cp39", "x86_64", "2.5"), id="oldest glibc"),
    pytest.param(Target("3.13.1", "cp", "cp313t", "x86_64", "2.41"), id="free-threaded"),
    pytest.param(Target("3.9.2", "cp", "cp39", "ppc64le", "2.31"), id="ppc64le"),
]
# Names as indexes and wheelhouses have them, and some that only look like wheels.
NAMES = """\
ray-2.60.0-cp310-cp310-manylinux2014_x86_64.whl
ray-2.60.0-cp311-cp311-manylinux2014_x86_64.whl
ray-2.60.0-cp311-cp311-manylinux2014_aarch64.whl
ray-2.60.0-cp312-cp312-manylinux2014_x86_64.whl
ray-2.60.0-cp312-cp312-macosx_12_0_arm64.whl
ray-2.60.0-cp312-cp312-win_amd64.whl
vllm-0.30.0+cpu-cp38-abi3-manylinux_2_39_x86_64.whl
vllm-0.29.0+cpu-cp38-abi3-manylinux_2_34_x86_64.whl
vllm-0.10.2-cp38-abi3-manylinux1_x86_64.whl
torch-2.8.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl
torch-2.2.1+cu121-cp310-cp310-linux_x86_64.whl
torch-2.2.1_cu121-cp310-cp310-linux_x86_64.whl
numpy-2.3.2-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl
numpy-2.3.2-cp311-cp311-musllinux_1_2_x86_64.whl
numpy-2.3.2-cp313-cp313t-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl
numpy-2.3.2-pp311-pypy311_pp73-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl
numpy-1.19.5-cp39-cp39-manylinux2010_x86_64.whl
numpy-1.16.6-cp27-cp27mu-manylinux1_x86_64.whl
numpy-1.19.5-cp37-cp37m-manylinux1_i686.whl
cryptography-45.0.5-cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
cryptography-45.0.5-cp37-abi3-manylinux_2_28_aarch64.whl
cryptography-45.0.5-cp37-abi3-musllinux_1_2_x86_64.whl
cryptography-3.4.8-cp36-abi3-manylinux_2_5_x86_64.manylinux1_x86_64.manylinux_2_12_x86_64.manylinux2010_x86_64.whl
pycryptodome-3.20.0-cp35-abi3-win_amd64.whl
pycryptodome-3.20.0-cp35-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
cffi-1.17.1-cp39-cp39-manylinux_2_17_ppc64le.manylinux2014_ppc64le.whl
cffi-1.17.1-cp312-cp312-manylinux_2_17_s390x.manylinux2014_s390x.whl
six-1.17.0-py2.py3-none-any.whl
attrs-25.3.0-py3-none-any.whl
dpapick3-0.5.1-py3-none-any.whl
enum_compat-0.0.3-py3-none-any.whl
importlib_resources-6.5.2-py310-none-any.whl
tomli-2.2.1-py312-none-any.whl
futures-3.4.0-py2-none-any.whl
nvidia_nccl_cu12-2.27.3-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
nvidia_cublas_cu12-12.8.4.1-py3-none-manylinux_2_27_x86_64.whl
nvidia_cublas_cu12-12.8.4.1-py3-none-win_amd64.whl
triton-3.4.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl
uvloop-0.21.0-cp311-cp311-macosx_10_9_universal2.whl
ruff-0.12.5-py3-none-manylinux_2_17_armv7l.manylinux2014_armv7l.whl
ruff-0.12.5-py3-none-linux_armv6l.whl
tensorflow-2.16.1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
package-1.0-1-py3-none-any.whl
package-1.0-12abc-cp311-cp311-linux_x86_64.whl
package-1.0-local.1-py3-none-any.whl
package-1!2.0rc1.post2.dev3-py3-none-any.whl
package-2.0.0b1-cp311.cp312-abi3.none-linux_x86_64.any.whl
Package.Name-1.0-py3-none-any.whl
package__name-1.0-py3-none-any.whl
pack age-1.0-py3-none-any.whl
package-1.0.x-py3-none-any.whl
package-1.0-cp311-none-any.whl
package-1.0-cp311-abi3-any.whl
package-1.0-cp310-none-any.whl
package-1.0-cp310-none-manylinux_2_17_x86_64.whl
package-1.0-CP311-CP311-LINUX_X86_64.whl
package-1.0-py3-none.whl
package-1.0-py3..py2-none-any.whl
package-1.0-3py-none-any.whl
package-1.0-1-2-py3-none-any.whl
-1.0-py3-none-any.whl
package-1.0-cp315-abi3.abi3t-linux_x86_64.whl
package-1.0-cp38-abi3t-manylinux_2_17_x86_64.whl
package-1.0-cp311-cp311-manylinux_2_4_x86_64.whl
package-1.0-cp312-cp312-manylinux_2_16_aarch64.whl
package-1.0-cp312-cp312-manylinux1_aarch64.whl
package-1.0-py3-none-any.whl.part
package-1.0.tar.gz
""".splitlines()
# The listing of the given case pip-07, and what it is to come out as on a Linux target.
LISTING = """\
dpapick3-0.5.1-py3-none-any.whl
enum_compat-0.0.3-py3-none-any.whl
pyasn1-0.6.1-py3-none-any.whl
pycryptodome-3.20.0-cp35-abi3-win_amd64.whl
python_registry-1.3.1-py3-none-any.whl
unicodecsv-0.14.1.tar.gz
""".splitlines()
VLLM = "vllm-0.30.0+cpu-cp38-abi3-manylinux_2_39_x86_64.whl"


@pytest.mark.parametrize("name", NAMES)
def test_names_are_read_as_packaging_reads_them(name: str) -> None:
    utils = packaging("utils")
    found = parse(name)
    try:
        project, version, build, tags = utils.parse_wheel_filename(name)
    except utils.InvalidWheelFilename:
        assert isinstance(found, str)
        return
    assert isinstance(found, WheelName)
    assert (found.project, found.build, set(found.tags)) == (project, build, {str(tag) for tag in tags})
    assert packaging("version").Version(found.version) == version


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_takes_the_tags_that_packaging_says(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_tags(target) == tags_of(target, monkeypatch)


@pytest.mark.parametrize("with_tags", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_wheels_fit_where_packaging_says(target: Target, with_tags: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tags, utils = tags_of(target, monkeypatch), packaging("utils")
    target = dataclasses.replace(target, tags=tuple(sorted(tags))) if with_tags else target
    wheels = [name for name in NAMES if isinstance(parse(name), WheelName)]
    fit = {name for name in wheels if {str(tag) for tag in utils.parse_wheel_filename(name)[3]} & tags}
    assert 5 < len(fit) < len(wheels)
    assert {name for name in wheels if not wheel_problems([name], target)} == fit


def test_the_running_python_takes_what_it_says() -> None:
    tags = tuple(str(tag) for tag in packaging("tags").sys_tags())
    target = Target("%d.%d.0" % sys.version_info[:2], sys.implementation.name[:2], "none", "any", None, tags)
    assert wheel_problems([f"package-1.0-{tag}.whl" for tag in tags], target) == []


def packaging(module: str) -> Any:
    """A module of the library, as new as the rules that are tested; not every Python that runs the tests has it."""
    pytest.importorskip("packaging", minversion="26.3")
    return pytest.importorskip(f"packaging.{module}")


def tags_of(target: Target, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What packaging says that a target other than this machine takes."""
    tags, manylinux = packaging("tags"), packaging("_manylinux")
    version = tuple(int(part) for part in target.python.split(".")[:2])
    glibc = manylinux._GLibCVersion(*(int(part) for part in (target.glibc or "").split(".")))
    monkeypatch.setattr(manylinux, "_get_glibc_version", lambda: glibc)
    platforms = [*manylinux.platform_tags([target.machine]), f"linux_{target.machine}"]
    found = {*tags.cpython_tags(version, [target.abi], platforms)}
    found |= {*tags.compatible_tags(version, target.interpreter, platforms)}
    return {str(tag) for tag in found}


def test_the_given_listing() -> None:
    for target in (LAB, Target("3.12.6", "cp", "cp312", "x86_64", "2.36")):
        assert [(row["file"], row["problem"]) for row in wheel_problems(LISTING, target)] == [
            ("unicodecsv-0.14.1.tar.gz", "sdist"),
            ("pycryptodome-3.20.0-cp35-abi3-win_amd64.whl", "platform tag win_amd64 on a linux target"),
        ]
        assert fitting(LISTING, target) == ["dpapick3", "enum_compat", "pyasn1", "python_registry"]


def test_the_given_wheel_of_a_newer_glibc() -> None:
    assert wheel_problems([VLLM, VLLM.replace("0.30.0", "0.29.0").replace("2_39", "2_34")], UBUNTU) == [
        {
            "file": VLLM,
            "problem": "needs glibc 2.39, the target has 2.35",
            "kind": "glibc_too_old",
            "needs": "2.39",
            "have": "2.35",
        }
    ]


NO_PARTS = "not a wheel: its name has 3 parts between hyphens, not 5 or 6 (name-version[-build]-python-abi-platform)"
PROBLEMS = [
    ("ray-2.60.0.zip", [("sdist", "sdist")]),
    ("ray-2.60.0-py3-none-any.whl", []),
    (
        "ray-2.60.0-cp312-cp312-manylinux2014_x86_64.whl",
        [("wrong_python", "tag cp312-cp312 on a target with Python 3.11.2 (cp311)")],
    ),
    (
        "ray-2.60.0-cp312-abi3-manylinux2014_x86_64.whl",
        [("wrong_python", "tag cp312-abi3 on a target with Python 3.11.2 (cp311)")],
    ),
    # Both, so that one run tells all there is to repair.
    (
        "ray-2.60.0-cp39-cp39-manylinux_2_39_x86_64.whl",
        [
            ("wrong_python", "tag cp39-cp39 on a target with Python 3.11.2 (cp311)"),
            ("glibc_too_old", "needs glibc 2.39, the target has 2.36"),
        ],
    ),
    # The oldest of the glibc versions that it is built for is what it needs.
    (
        "x-1-cp311-cp311-manylinux_2_41_x86_64.manylinux_2_38_x86_64.manylinux_2_17_aarch64.whl",
        [("glibc_too_old", "needs glibc 2.38, the target has 2.36")],
    ),
    (
        "ray-2.60.0-cp311-cp311-manylinux2014_aarch64.whl",
        [("foreign_platform", "platform tag manylinux2014_aarch64 on a linux x86_64 target")],
    ),
    # Even where a newer glibc would be needed, too: it is another machine's.
    (
        "x-1-cp311-cp311-manylinux_2_39_aarch64.whl",
        [("foreign_platform", "platform tag manylinux_2_39_aarch64 on a linux x86_64 target")],
    ),
    (
        "x-1-cp311-cp311-musllinux_1_2_x86_64.whl",
        [("foreign_platform", "platform tag musllinux_1_2_x86_64 on a linux target with glibc 2.36")],
    ),
    (
        "x-1-cp311-abi3-any.whl",
        [("wrong_python", "tag cp311-abi3-any on a target with Python 3.11.2 (cp311)")],
    ),
    ("ray-2.60.0-py3-none-any.whl.part", [("not_a_wheel", "not a wheel: its name does not end with .whl")]),
    ("ray-2.60.0-py3.whl", [("not_a_wheel", NO_PARTS)]),
    ("ray-latest-py3-none-any.whl", [("not_a_wheel", "not a wheel: 'latest' is no version")]),
    ("wheels/lab/ray-2.60.0-py3-none-any.whl", []),
]


@pytest.mark.parametrize(("name", "told"), PROBLEMS)
@pytest.mark.parametrize("with_tags", [False, True])
def test_problems(name: str, told: list[tuple[str, str]], with_tags: bool) -> None:
    target = dataclasses.replace(LAB, tags=tuple(target_tags(LAB))) if with_tags else LAB
    assert [(row["kind"], row["problem"]) for row in wheel_problems([name], target)] == told


def test_without_glibc() -> None:
    musl = Target("3.11.2", "cp", "cp311", "x86_64", None, ("cp311-cp311-musllinux_1_2_x86_64", "py3-none-any"))
    names = [f"x-1-cp311-cp311-{platform}_x86_64.whl" for platform in ("musllinux_1_2", "manylinux_2_17")]
    assert [row["problem"] for row in wheel_problems(names, musl)] == [
        "platform tag manylinux_2_17_x86_64 on a linux target without glibc"
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"glibc": "2.36-9"}, "target.glibc = '2.36-9': must be a glibc version such as 2.36"),
        ({"python": "3"}, "target.python = '3': must be a Python version such as 3.11.2"),
        ({"tags": ["cp311"]}, "target.tags[0] = 'cp311': must be a tag such as cp311-cp311-linux_x86_64"),
        ({"implementation": "pp"}, "target.implementation = 'pp': must be cp, for CPython"),
        ({"arch": "x86_64"}, "target.arch = 'x86_64': unknown key; allowed are python, implementation"),
        ({"machine": None}, "target.machine = not set: must be letters, digits and _"),
    ],
)
def test_a_target_that_is_none(change: dict[str, Any], message: str) -> None:
    data = {"python": "3.11.2", "implementation": "cp", "abi": "cp311", "machine": "x86_64", "glibc": "2.36"}
    assert Target.from_dict(data) == LAB
    assert Target.from_dict({**data, "tags": ["py3-none-any"]}).tags == ("py3-none-any",)
    with pytest.raises(ManifestError) as error:
        Target.from_dict({**data, **change})
    assert str(error.value).startswith(message)
