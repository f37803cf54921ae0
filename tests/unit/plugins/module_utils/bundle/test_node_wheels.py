# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import node_wheels
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.compare import FileFacts
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.fields import ManifestError
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.node_wheels import NodeWheels
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target

RAY = "ray-2.59.0-cp311-cp311-manylinux2014_x86_64.whl"
PIP = "pip/pip-23.0.1-py3-none-any.whl"
TARGET = {"python": "3.11.2", "implementation": "cp", "abi": "cp311", "machine": "x86_64", "glibc": "2.36", "tags": []}
SIZES = {RAY: 78796281, PIP: 2055563, "requirements.txt": 190, "wheelhouse.json": 4853}


def digest(name: str) -> str:
    return f"{len(name):064x}"


def entry(**more: Any) -> dict[str, Any]:
    return {
        "name": "lab",
        "folder": "wheels/lab",
        "image_id": None,
        "target": TARGET,
        "requirements": ["ray[default]==2.59.0"],
        "index": "PyPI",
        "created": "2026-12-01T01:22:28Z",
        "wheels": [{"name": "ray", "version": "2.59.0", "file": RAY}],
        **more,
    }


def listed(**sizes: int) -> list[dict[str, Any]]:
    kinds = {True: "wheel", False: "requirements"}
    rows = [
        {"path": f"wheels/lab/{name}", "size": size, "sha256": digest(name), "kind": kinds[name.endswith(".whl")]}
        for name, size in {**SIZES, **sizes}.items()
    ]
    # A file of another folder whose name begins alike.
    return [*rows, {"path": "wheels/lab2/x-1-py3-none-any.whl", "size": 1, "sha256": "0" * 64, "kind": "wheel"}]


def read(**more: Any) -> NodeWheels:
    return NodeWheels.read(entry(**more), listed(), "ray[default]==2.59.0")


def there(**changed: Any) -> dict[str, FileFacts]:
    found = {name: FileFacts(size, digest(name)) for name, size in SIZES.items()}
    found.update(changed)
    return {name: facts for name, facts in found.items() if facts is not None}


def test_what_it_holds() -> None:
    wheels = read()
    assert wheels.names == [PIP, RAY, "requirements.txt", "wheelhouse.json"]
    assert (wheels.pip_wheel, wheels.projects) == (PIP, ["ray"])
    assert (wheels.project, wheels.version, wheels.ray_version) == ("ray", "2.59.0", "2.59.0")


def test_another_project_is_no_ray() -> None:
    wheels = NodeWheels.read(entry(requirements=["Click == 8.1.0"]), listed(), "Click == 8.1.0")
    assert (wheels.project, wheels.version, wheels.ray_version) == ("click", "8.1.0", None)


def test_the_hash_is_that_of_the_wheels_and_of_the_list() -> None:
    first = read().digest
    assert first == read(created="2026-12-02").digest
    others = {
        name: NodeWheels.read(
            entry(),
            [{**row, "sha256": "f" * 64} if row["path"].endswith(name) else row for row in listed()],
            "ray[default]==2.59.0",
        ).digest
        for name in SIZES
    }
    assert {name for name, value in others.items() if value != first} == {RAY, "requirements.txt"}


@pytest.mark.parametrize(
    ("requirement", "more", "said"),
    [
        ("ray[default]", {}, "requirement = 'ray[default]': must name one project and one version"),
        ("ray>=2.59.0", {}, "requirement = 'ray>=2.59.0': must name one project"),
        ("ray[default]==2.60.0", {}, "must be one that wheels/lab was made for: ray[default]==2.59.0"),
        ("ray[default]==2.59.0", {"folder": "wheels/x"}, "wheelhouses[0].wheels[0].file = "),
        ("ray[default]==2.59.0", {"folder": "wheels/x", "wheels": []}, "wheels/x/requirements.txt is not among"),
        ("ray[default]==2.59.0", {"surprise": 1}, "wheelhouses[0].surprise = 1: unknown key"),
    ],
)
def test_entries_that_cannot_be_used(requirement: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ManifestError) as error:
        NodeWheels.read(entry(**more), listed(), requirement)
    assert said in str(error.value)


def test_a_whole_folder() -> None:
    assert read().problems(there(), None) == []


@pytest.mark.parametrize(
    ("changed", "path", "said"),
    [
        ({RAY: FileFacts(78796281, "1" * 64)}, RAY, "was altered"),
        ({RAY: FileFacts(78796280, "1" * 64)}, RAY, "shorter than it was"),
        ({RAY: None}, RAY, "is missing"),
        ({PIP: FileFacts(2055563, "1" * 64)}, PIP, "was altered"),
        ({RAY: FileFacts(0, fault="is a link and not a file")}, RAY, "is a link"),
        ({"six-1.17.0-py2.py3-none-any.whl": FileFacts(1, "1" * 64)}, "six-1.17.0-py2.py3-none-any.whl", "is not in"),
        ({"six-1.17.0.tar.gz": FileFacts(1, "1" * 64)}, "six-1.17.0.tar.gz", "sdist"),
        ({"ray-2.59.0-cp312-cp312-manylinux2014_x86_64.whl": FileFacts(1)}, None, "tag cp312-cp312 on a target"),
        ({"x-1-cp311-cp311-manylinux_2_39_x86_64.whl": FileFacts(1)}, None, "needs glibc 2.39, the target has 2.36"),
    ],
)
def test_what_is_wrong_with_a_folder(changed: dict[str, Any], path: str | None, said: str) -> None:
    found = read().problems(there(**changed), None)
    assert {row["path"] for row in found} == {path or next(iter(changed))}
    assert [row for row in found if said in row["reason"] and row["remedy"]], found


def test_the_real_target_counts() -> None:
    older = Target.from_dict({**TARGET, "python": "3.12.3", "abi": "cp312"})
    assert ["tag cp311-cp311 on a target" in row["reason"] for row in read().problems(there(), older)] == [True]


def test_what_has_to_be_brought() -> None:
    wheels = read()
    assert wheels.to_bring({}) == wheels.names
    assert wheels.to_bring(there()) == []
    # What should not be there is not brought.
    changed: dict[str, Any] = {RAY: FileFacts(1, "1" * 64), PIP: None, "x.whl": FileFacts(1, "1" * 64)}
    assert wheels.to_bring(there(**changed)) == [PIP, RAY]
    assert node_wheels.left_over([*SIZES, "pip/.ansible_tmpq1pip-1.whl", ".ansible_tmp2"]) == [
        ".ansible_tmp2",
        "pip/.ansible_tmpq1pip-1.whl",
    ]


def test_what_a_target_lacks() -> None:
    wheels = read()
    assert wheels.lacking([{"name": "ray", "version": "2.60.0"}]) == [{"name": "ray", "version": "2.59.0"}]
    assert wheels.lacking([{"name": "Ray", "version": "2.59.0", "extras": []}]) == []


@pytest.mark.parametrize(
    ("data", "newest"),
    [
        (b"\0libc.so.6\0GLIBC_2.2.5\0GLIBC_2.14\0GLIBC_2.9\0", (2, 14)),
        (b"\0GLIBC_2.38\0", (2, 38)),
        (b"\0GLIBCXX_3.4.30\0GLIBC_PRIVATE\0", None),
        (b"text GLIBC_2.99 in a sentence", None),
        (b"", None),
    ],
)
def test_the_glibc_that_a_library_asks_for(data: bytes, newest: tuple[int, int] | None) -> None:
    assert node_wheels.newest_glibc(data) == newest


@pytest.mark.parametrize(
    ("asked", "glibc", "bad"),
    [
        ((2, 36), "2.36", False),
        ((2, 37), "2.36", True),
        ((2, 5), "2.36", False),
        (None, "2.36", False),
        ((2, 9), None, False),
    ],
)
def test_a_newer_glibc_than_the_target_has(asked: tuple[int, int] | None, glibc: str | None, bad: bool) -> None:
    said = node_wheels.glibc_problem("ray/_raylet.so", asked, Target.from_dict({**TARGET, "glibc": glibc}))
    assert said == (
        "ray/_raylet.so asks for GLIBC_2.37, the target has glibc 2.36, whatever the tag says" if bad else None
    )


def test_names_of_images() -> None:
    image_id, wheels = "sha256:d3c257f91d281145", "63e3c5f1632b2f83b912"
    assert node_wheels.derived_name(image_id, "2.59.0", wheels) == "tandem/d3c257f91d28:ray2.59.0-63e3c5f1632b"
    assert (
        node_wheels.derived_name(image_id, "3.0.0.dev0+g1", wheels)
        == "tandem/d3c257f91d28:ray3.0.0.dev0-g1-63e3c5f1632b"
    )
    assert node_wheels.derived_name(image_id, None, wheels) == "tandem/d3c257f91d28:wheels-63e3c5f1632b"
    assert node_wheels.labels(image_id, "63e3") == {"tandem.base": image_id, "tandem.wheelhouse": "63e3"}


def test_a_message() -> None:
    row = {"path": "a.whl", "reason": "is missing", "remedy": "Copy it"}
    assert node_wheels.message("Nothing was installed", [row]) == "Nothing was installed: a.whl: is missing. Copy it."
    assert node_wheels.message("No", [row, row]) == "No:\n- a.whl: is missing. Copy it.\n- a.whl: is missing. Copy it."
