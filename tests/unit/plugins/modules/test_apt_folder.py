# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The three modules of a folder of packages, over a fake apt."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import packages
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.packages import PackagesError, System
from ansible_collections.tandem.vllm.plugins.module_utils.host import apt
from ansible_collections.tandem.vllm.plugins.modules import apt_folder, apt_folder_info, apt_folder_install

NAME = "debian-12-amd64"
HELD = {"nginx-light": "1", "nginx": "1", "zlib1g": "1:2"}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Apt:
    """apt and dpkg as the modules see them. available: version by package; a file holds both as its content."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self.capsys = tmp_path / "packages", capsys
        self.folder = self.path / NAME
        self.policy = tmp_path / "policy-rc.d"
        self.available = dict(HELD)
        self.installed: set[str] = set()
        self.refusal: str | None = None
        self.altered = False
        self.downloads: list[str] = []
        self.policies: list[str] = []
        monkeypatch.setattr(AnsibleModule, "run_command", lambda _module, argv, **_more: self.run(list(argv)))
        monkeypatch.setattr(apt, "system", lambda *_args: System("debian", "12", "amd64"))
        monkeypatch.setattr(apt.Install.__init__, "__defaults__", (str(self.policy),))

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[0] == "dpkg-deb":
            package, version = Path(argv[2]).read_text().split()
            return 0, f"Package: {package}\nVersion: {version}\n", ""
        if self.refusal:
            return 100, "", f"E: {self.refusal}\n"
        if argv[1].startswith("--config-file="):
            return self.install(Path(argv[1].partition("=")[2]), argv)
        lines = []
        archives = Path([word for word in argv if word.startswith("Dir::Cache::archives=")][-1].partition("=")[2])
        for package, version in self.available.items():
            name, text = f"{package}_{version.replace(':', '%3a')}_all.deb", f"{package} {version}"
            lines.append(f"'http://deb.example/{name}' {name} {len(text)} SHA256:{sha256(text)}")
            if "--download-only" in argv and not (archives / name).exists():
                (archives / name).write_text("altered" if self.altered else text)
                self.downloads.append(package)
        return 0, "\n".join(lines) if "--print-uris" in argv else "", ""

    def install(self, conf: Path, argv: list[str]) -> tuple[int, str, str]:
        lacking = (
            [] if argv[-1] == "update" else [name for name in ("nginx", "nginx-light") if name not in self.installed]
        )
        if argv[-1] != "update" and "--simulate" not in argv:
            subprocess.run(["sh", str(conf.parent / "hold")], check=True)
            self.policies.append(self.policy.read_text())
            self.installed |= set(lacking)
        return 0, "".join(f"Inst {name} ({self.available[name]} localhost [all])\n" for name in lacking), ""

    def call(self, main: Callable[[], None], check: bool = False, **arguments: Any) -> dict[str, Any]:
        with patch_module_args({"_ansible_check_mode": check, **arguments}), pytest.raises(SystemExit):
            main()
        result: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return result

    def fetch(self, check: bool = False) -> dict[str, Any]:
        return self.call(apt_folder.main, check, path=str(self.path))

    def files(self) -> list[dict[str, Any]]:
        held = sorted(self.folder.iterdir())
        return [{"path": f"packages/{NAME}/{p.name}", "sha256": sha256(p.read_text())} for p in held]

    def bring(self, check: bool = False, **more: Any) -> dict[str, Any]:
        files = more.pop("files", None) or self.files()
        path = str(self.path.parent)
        return self.call(apt_folder_install.main, check, path=path, files=files, name=NAME, **more)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Apt:
    return Apt(tmp_path, monkeypatch, capsys)


def test_fetched_once(fake: Apt) -> None:
    checked = fake.fetch(check=True)
    assert checked["changed"]
    assert not fake.path.exists()
    first = fake.fetch()
    assert (first["changed"], first["name"]) == (True, NAME)
    assert first["fetched"] == checked["fetched"] == ["nginx-light_1_all.deb", "nginx_1_all.deb", "zlib1g_2_all.deb"]
    assert sorted(p.name for p in fake.folder.iterdir()) == [packages.INDEX, *first["fetched"]]
    assert [p.name for p in fake.path.iterdir()] == [NAME]
    assert not fake.fetch()["changed"]
    assert not fake.fetch(check=True)["changed"]
    assert sorted(fake.downloads) == sorted(HELD)


def test_only_what_is_missing_or_changed_is_fetched(fake: Apt) -> None:
    fake.fetch()
    fake.downloads.clear()
    (fake.folder / "nginx_1_all.deb").write_text("altered")
    fake.available["zlib1g"] = "1:3"
    result = fake.fetch()
    assert (result["fetched"], result["removed"]) == (["nginx_1_all.deb", "zlib1g_3_all.deb"], ["zlib1g_2_all.deb"])
    assert fake.downloads == ["nginx", "zlib1g"]
    assert "Filename: ./zlib1g_3_all.deb" in (fake.folder / packages.INDEX).read_text()
    assert not fake.fetch()["changed"]


def test_an_index_that_was_lost_or_altered_is_written_again(fake: Apt) -> None:
    fake.fetch()
    (fake.folder / packages.INDEX).write_text("altered")
    assert fake.fetch()["changed"]
    (fake.folder / packages.INDEX).unlink()
    assert fake.fetch(check=True)["changed"]
    assert fake.fetch()["changed"]
    assert not fake.fetch()["changed"]


def test_what_does_not_arrive_whole_gets_no_name(fake: Apt) -> None:
    fake.altered = True
    result = fake.fetch()
    assert result["failed"]
    assert "did not arrive as the distribution's index says" in result["msg"]
    assert not fake.folder.exists()


def test_a_machine_without_lists_is_told_to_update(fake: Apt) -> None:
    fake.refusal = "Unable to locate package nginx-light"
    assert fake.fetch()["msg"] == (
        "No packages were fetched: apt-get install nginx-light: Unable to locate package nginx-light. "
        "Run 'apt-get update' on this machine, and begin again"
    )


def test_info(fake: Apt) -> None:
    fake.fetch()
    files = [*fake.files(), {"path": "packages/ubuntu-24.04-amd64/Packages", "sha256": "0" * 64}]
    asked = fake.call(apt_folder_info.main, files=files)
    assert (asked["name"], asked["held"], asked["problems"]) == (NAME, [NAME, "ubuntu-24.04-amd64"], [])
    assert asked["found"] == files[:-1]
    (fake.folder / "nginx_1_all.deb").write_text("altered")
    verified = fake.call(apt_folder_info.main, files=files, path=str(fake.path.parent), name=NAME)
    assert [row["path"] for row in verified["problems"]] == [f"packages/{NAME}/nginx_1_all.deb"]


def test_info_of_a_host_without_apt(fake: Apt, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_args: object) -> System:
        raise PackagesError("it has no apt-get and dpkg")

    monkeypatch.setattr(apt, "system", none)
    asked = fake.call(apt_folder_info.main, files=[])
    assert (asked["name"], asked["reason"], asked["found"]) == (None, "it has no apt-get and dpkg", [])


def test_installed_once_with_services_held(fake: Apt) -> None:
    fake.fetch()
    fake.policy.write_text("the owner's")
    assert fake.bring(check=True)["changed"]
    assert fake.installed == set()
    result = fake.bring()
    assert (result["changed"], [row["name"] for row in result["installed"]]) == (True, ["nginx", "nginx-light"])
    assert fake.policies == [packages.policy()]
    assert fake.policy.read_text() == "the owner's"
    again = fake.bring()
    assert (again["changed"], again["installed"]) == (False, [])


def test_no_policy_is_left_behind(fake: Apt) -> None:
    fake.fetch()
    # A run that was killed left its own.
    fake.policy.write_text(packages.policy())
    fake.bring()
    assert not fake.policy.exists()
    assert not list(fake.policy.parent.glob("policy-rc.d*"))


def test_what_the_host_needs_is_told_from_the_index_alone(fake: Apt) -> None:
    fake.fetch()
    files = fake.files()
    for path in fake.folder.glob("*.deb"):
        path.unlink()
    told = fake.bring(files=files, only_tell=True)
    assert not told["changed"]
    assert [Path(file["path"]).name for file in told["needed"]] == [
        "Packages",
        "nginx_1_all.deb",
        "nginx-light_1_all.deb",
    ]
    # Before anything is copied, check mode can only say that something would be.
    (fake.folder / packages.INDEX).unlink()
    checked = fake.bring(files=files, check=True)
    assert (checked["changed"], checked["needed"]) == (True, files)


@pytest.mark.parametrize("name", ["nginx_1_all.deb", packages.INDEX])
def test_an_altered_file_is_refused_before_anything_changes(fake: Apt, name: str) -> None:
    fake.fetch()
    files = fake.files()
    (fake.folder / name).write_text("altered")
    result = fake.bring(files=files)
    assert result["failed"]
    assert result["msg"].startswith("Nothing was installed")
    assert f"packages/{NAME}/{name} is not as the manifest says" in result["msg"]
    assert fake.policies == []


def test_what_the_host_does_not_need_may_be_missing(fake: Apt) -> None:
    fake.fetch()
    files = fake.files()
    (fake.folder / "zlib1g_2_all.deb").unlink()
    assert fake.bring(files=files)["changed"]


def test_a_manifest_without_the_package(fake: Apt) -> None:
    fake.fetch()
    result = fake.bring(files=[file for file in fake.files() if "nginx-light" not in file["path"]])
    assert result["failed"]
    assert "the manifest has no nginx-light with an index there; its folders of packages are " + NAME in result["msg"]


def test_what_apt_refuses_is_told(fake: Apt) -> None:
    fake.fetch()
    fake.refusal = "Packages need to be removed but remove is disabled."
    result = fake.bring()
    assert result["failed"]
    assert "nginx-light cannot be installed from" in result["msg"]
    assert "Packages need to be removed but remove is disabled." in result["msg"]
