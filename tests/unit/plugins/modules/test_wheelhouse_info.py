# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import json
import signal
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules import wheelhouse_info
from ansible_collections.tandem.vllm.plugins.modules.wheelhouse_info import main

RAY = "ray-2.59.0-cp311-cp311-manylinux2014_x86_64.whl"
TARGET = {"python": "3.11.2", "implementation": "cp", "abi": "cp311", "machine": "x86_64", "glibc": "2.36", "tags": []}
BASE, DERIVED = "sha256:" + "b" * 64, "sha256:" + "d" * 64
OLD = "xgrammar 0.2.8 requires triton, which is not installed."


def wheel(path: Path, library: bytes = b"") -> None:
    """A wheel with one library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ray/_raylet.so", b"\x7fELF\0libc.so.6" + library)


class House:
    """A wheelhouse's folder, and an image that answers for pip."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        wheel(folder / RAY, b"\0GLIBC_2.17\0")
        wheel(folder / "pip" / "pip-23.0.1-py3-none-any.whl")
        (folder / "requirements.txt").write_text("ray==2.59.0 --hash=sha256:00\n")
        self.files = self.list()
        self.asked: list[list[str]] = []
        self.has_already = False
        self.derived = False
        self.errors = ""

    def list(self) -> list[dict[str, Any]]:
        """The manifest's files, of the folder as it is."""
        return [
            {
                "path": f"wheels/lab/{path.relative_to(self.folder)}",
                "size": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "kind": "wheel" if path.suffix == ".whl" else "requirements",
            }
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        ]

    def run(self, argv: Sequence[str], **_options: Any) -> tuple[int, str, str]:
        argv = list(argv)[4:]
        self.asked.append(argv)
        if argv[:3] == ["docker", "image", "inspect"]:
            return 0, json.dumps([{"Id": argv[-1], "Size": 1, "RepoTags": None, "Config": {"Cmd": ["bash"]}}]), ""
        if argv[:3] == ["docker", "image", "ls"]:
            return 0, DERIVED if self.derived else "", ""
        if "check" in argv:
            return 1, OLD + "\n", ""
        if "--report" in argv:
            report = {"install": [{"metadata": {"name": "ray", "version": "2.59.0"}}]}
            return (1, "", self.errors) if self.errors else (0, json.dumps(report), "")
        if "--dry-run" in argv and "--find-links" not in argv:
            return (0 if self.has_already else 1), "", ""
        return 0, "", ""

    def dry_runs(self) -> int:
        return len([argv for argv in self.asked if "--dry-run" in argv])


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    house = House(tmp_path / "lab")
    monkeypatch.setattr(wheelhouse_info, "tolerant", lambda _run: house.run)
    return house


def told(capsys: pytest.CaptureFixture[str], house: House, **more: Any) -> tuple[int, dict[str, Any]]:
    given: dict[str, Any] = {
        "folder": str(house.folder),
        "wheelhouse": {
            "name": "lab",
            "folder": "wheels/lab",
            "image_id": None,
            "target": TARGET,
            "requirements": ["ray[default]==2.59.0"],
            "index": "PyPI",
            "created": "2026-12-01",
            "wheels": [{"name": "ray", "version": "2.59.0", "file": RAY}],
        },
        "files": house.files,
        "requirement": "ray[default]==2.59.0",
        **more,
    }
    with patch_module_args(given), pytest.raises(SystemExit) as ended:
        main()
    result = json.loads(capsys.readouterr().out)
    assert not result.get("changed")
    return int(ended.value.code or 0), result


def test_a_folder_alone(capsys: pytest.CaptureFixture[str], house: House) -> None:
    status, result = told(capsys, house, distributions=[{"name": "ray", "version": "2.60.0"}])
    assert (status, result["problems"], house.asked) == (0, [], [])
    assert (result["ray_version"], result["projects"]) == ("2.59.0", ["ray"])
    assert result["pip_wheel"] == "pip/pip-23.0.1-py3-none-any.whl"
    assert result["lacking"] == [{"name": "ray", "version": "2.59.0"}]
    assert "has_already" not in result


def test_an_image_that_lacks_it(capsys: pytest.CaptureFixture[str], house: House) -> None:
    status, result = told(capsys, house, image=BASE)
    assert (status, result["image_id"], result["derived_id"], result["has_already"]) == (0, BASE, None, False)
    assert (result["would_install"], result["complaints"]) == ([{"name": "ray", "version": "2.59.0"}], [OLD])
    assert house.dry_runs() == 3
    started = next(argv for argv in house.asked if argv[:2] == ["docker", "run"])
    assert started[started.index("--network") + 1] == "none"
    assert house.asked[-1][:3] == ["docker", "rm", "--force"]


def test_an_image_that_has_it(capsys: pytest.CaptureFixture[str], house: House) -> None:
    house.has_already = True
    status, result = told(capsys, house, image=BASE, _ansible_check_mode=True)
    assert (status, result["has_already"], result["would_install"], house.dry_runs()) == (0, True, [], 1)


def test_an_image_that_was_made_already(capsys: pytest.CaptureFixture[str], house: House) -> None:
    house.derived = True
    status, result = told(capsys, house, image=BASE)
    assert (status, result["derived_id"], result["would_install"], house.dry_runs()) == (0, DERIVED, [], 1)


def test_an_environment(capsys: pytest.CaptureFixture[str], house: House) -> None:
    status, result = told(capsys, house, venv="/opt/ray")
    assert (status, len(result["would_install"])) == (0, 1)
    assert [argv for argv in house.asked if argv[0] != "unshare"] == []
    assert f"{house.folder}/pip/pip-23.0.1-py3-none-any.whl/pip" in house.asked[0]


def flip(house: House) -> None:
    data = bytearray((house.folder / RAY).read_bytes())
    data[20] ^= 1
    (house.folder / RAY).write_bytes(bytes(data))


def sdist(house: House) -> None:
    (house.folder / "six-1.17.0.tar.gz").write_bytes(b"x")


def extra(house: House) -> None:
    (house.folder / "six-1.17.0-py2.py3-none-any.whl").write_bytes(b"x")


def gone(house: House) -> None:
    (house.folder / RAY).unlink()


@pytest.mark.parametrize(
    ("tamper", "file", "said"),
    [
        (flip, RAY, "was altered"),
        (gone, RAY, "is missing"),
        (sdist, "six-1.17.0.tar.gz", "sdist"),
        (extra, "six-1.17.0-py2.py3-none-any.whl", "is not in the manifest"),
    ],
)
def test_nothing_is_run_of_what_is_not_as_the_manifest_says(
    capsys: pytest.CaptureFixture[str], house: House, tamper: Any, file: str, said: str
) -> None:
    tamper(house)
    status, result = told(capsys, house, image=BASE)
    assert (status, house.asked) == (1, [])
    assert result["msg"].startswith(f"Nothing was installed from the wheelhouse {house.folder}")
    assert f"{file}: " in result["msg"]
    assert said in result["msg"]


def test_another_python(capsys: pytest.CaptureFixture[str], house: House) -> None:
    status, result = told(capsys, house, target={**TARGET, "python": "3.12.3", "abi": "cp312"}, image=BASE)
    assert (status, house.asked) == (1, [])
    assert f"{RAY}: tag cp311-cp311 on a target with Python 3.12.3 (cp312)" in result["msg"]


def test_a_library_that_asks_for_more_than_its_tag(capsys: pytest.CaptureFixture[str], house: House) -> None:
    wheel(house.folder / RAY, b"\0GLIBC_2.38\0")
    house.files = house.list()
    status, result = told(capsys, house, image=BASE)
    assert status == 1
    assert f"{RAY}: ray/_raylet.so asks for GLIBC_2.38, the target has glibc 2.36" in result["msg"]


def test_a_wheel_that_is_none(capsys: pytest.CaptureFixture[str], house: House) -> None:
    (house.folder / RAY).write_bytes(b"no archive")
    house.files = house.list()
    status, result = told(capsys, house, image=BASE)
    assert (status, f"{RAY}: is no wheel that can be read" in result["msg"]) == (1, True)


def test_an_incomplete_list(capsys: pytest.CaptureFixture[str], house: House) -> None:
    house.errors = "ERROR: No matching distribution found for msgpack<2 (from ray)"
    status, result = told(capsys, house, image=BASE)
    assert (status, result["problems"][0]["path"]) == (1, "wheels/lab")
    assert "pip says: No matching distribution found for msgpack<2 (from ray)" in result["msg"]


def test_comparing_only(capsys: pytest.CaptureFixture[str], house: House) -> None:
    gone(house)
    extra(house)
    (house.folder / ".ansible_tmpabcray.whl").write_bytes(b"x")
    status, result = told(capsys, house, compare_only=True, image=BASE)
    assert (status, result["to_bring"], result["left_over"]) == (0, [RAY], [".ansible_tmpabcray.whl"])
    status, result = told(capsys, house, compare_only=True, folder="/nonexistent")
    assert (status, len(result["to_bring"]), house.asked) == (0, 3, [])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"requirement": "ray"}, "cannot be used: requirement = 'ray': must name one project and one version"),
        ({"files": []}, "is not among"),
        ({"target": {"python": "3"}}, "target"),
        ({"image": "a", "venv": "/b"}, "mutually exclusive"),
    ],
)
def test_what_it_is_given(capsys: pytest.CaptureFixture[str], house: House, more: dict[str, Any], said: str) -> None:
    if more.get("files") == []:
        more = {**more, "wheelhouse": {**WITHOUT, "wheels": []}}
    status, result = told(capsys, house, **more)
    assert (status, said in result["msg"]) == (1, True), result["msg"]


WITHOUT = {
    "name": "lab",
    "folder": "wheels/lab",
    "image_id": None,
    "target": TARGET,
    "requirements": ["ray[default]==2.59.0"],
    "index": "PyPI",
    "created": "2026-12-01",
}
