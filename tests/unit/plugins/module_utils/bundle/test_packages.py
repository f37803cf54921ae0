# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import packages
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.packages import Deb, PackagesError, System

SUM, OTHER = "a" * 64, "b" * 64
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\n# a comment\nID=debian\n'


@pytest.mark.parametrize(
    ("text", "architecture", "name"),
    [
        (DEBIAN, "amd64", "debian-12-amd64"),
        ("ID=ubuntu\nVERSION_ID='24.04'\n", "arm64", "ubuntu-24.04-arm64"),
    ],
)
def test_the_folders_name(text: str, architecture: str, name: str) -> None:
    assert System.read(text, architecture).name == name


@pytest.mark.parametrize(
    ("text", "architecture", "wrong"),
    [
        ("ID=debian\n", "amd64", "no VERSION_ID"),  # testing and unstable
        ("", "amd64", "no ID"),
        ('ID="debian\nVERSION_ID=12\n', "amd64", "no ID"),
        ("ID=../x\nVERSION_ID=12\n", "amd64", "no ID"),
        (DEBIAN, "", "no architecture"),
    ],
)
def test_a_system_without_a_name(text: str, architecture: str, wrong: str) -> None:
    with pytest.raises(PackagesError, match=wrong):
        System.read(text, architecture)


def test_what_apt_would_fetch() -> None:
    out = (
        f"'http://deb.example/z/zlib1g_1.2_amd64.deb' zlib1g_1%3a1.2_amd64.deb 86684 SHA256:{SUM}\n"
        "Reading package lists...\n"
        f"'http://deb.example/l/libssl3_3.0%7edeb12_amd64.deb' libssl3_3.0~deb12_amd64.deb 7 SHA256:{OTHER}\n"
    )
    assert packages.parse_uris(out) == (
        Deb("libssl3_3.0~deb12_amd64.deb", "libssl3_3.0~deb12_amd64.deb", 7, OTHER),
        Deb("zlib1g_1.2_amd64.deb", "zlib1g_1%3a1.2_amd64.deb", 86684, SUM),
    )


@pytest.mark.parametrize("end", ["", "MD5Sum:" + "0" * 32])
def test_a_file_without_its_sha256_is_refused(end: str) -> None:
    with pytest.raises(PackagesError, match="without its SHA-256"):
        packages.parse_uris(f"'http://deb.example/x.deb' x.deb 86684 {end}\n")


def test_the_index_and_what_is_needed_of_it() -> None:
    controls = [
        (Deb("a_1_all.deb", "a_1_all.deb", 1, SUM), "Package: a\nVersion: 1\nDescription: x\n Version: 9\n"),
        (Deb("b_2_amd64.deb", "b_1%3a2_amd64.deb", 2, OTHER), "Package: b\nVersion: 1:2\n"),
    ]
    text = packages.index(controls)
    assert text == (
        "Package: a\nVersion: 1\nDescription: x\n Version: 9\n"
        f"Filename: ./a_1_all.deb\nSize: 1\nSHA256: {SUM}\n"
        f"\nPackage: b\nVersion: 1:2\nFilename: ./b_2_amd64.deb\nSize: 2\nSHA256: {OTHER}\n"
    )
    assert packages.needed(text, [{"name": "b", "version": "1:2"}, {"name": "a:amd64", "version": "1"}]) == [
        "b_2_amd64.deb",
        "a_1_all.deb",
    ]
    with pytest.raises(PackagesError, match=r"b 2, which the index does not have"):
        packages.needed(text, [{"name": "b", "version": "2"}])


def test_what_would_be_installed() -> None:
    out = (
        "0 upgraded, 2 newly installed\n"
        "Inst nginx (1.22.1-9+deb12u11 localhost [amd64])\n"
        "Inst libssl3 [3.0.11] (3.0.22-1~deb12u2 localhost [amd64]) []\n"
        "Conf nginx (1.22.1-9+deb12u11 localhost [amd64])\n"
    )
    assert packages.would_install(out) == [
        {"name": "nginx", "version": "1.22.1-9+deb12u11"},
        {"name": "libssl3", "version": "3.0.22-1~deb12u2"},
    ]
    assert packages.would_install("nginx-light is already the newest version.\n") == []


FILES: list[dict[str, Any]] = [
    {"path": "packages/debian-12-amd64/Packages", "sha256": SUM},
    {"path": "packages/debian-12-amd64/nginx-light_1_all.deb", "sha256": SUM},
    {"path": "packages/ubuntu-24.04-amd64/nginx-light_1_all.deb", "sha256": SUM},
    {"path": "packages/debian-12-arm64/Packages", "sha256": SUM},
    {"path": "packages/debian-12-arm64/nginx-light-extras_1_all.deb", "sha256": SUM},
    {"path": "packages/stray.deb", "sha256": SUM},
    {"path": "images/1.tar", "sha256": SUM},
]


def test_folders_of_a_manifest() -> None:
    assert packages.names(FILES) == ["debian-12-amd64", "debian-12-arm64", "ubuntu-24.04-amd64"]
    assert packages.of_folder(FILES, "debian-12-amd64") == FILES[:2]
    assert packages.of_folder(FILES, "debian-12") == []
    assert packages.whole(file["path"] for file in FILES) == ["packages/debian-12-amd64"]


def test_what_differs_from_the_manifest() -> None:
    files = FILES[:3]
    found = {files[0]["path"]: SUM, files[1]["path"]: OTHER}
    rows = packages.differences(files, found)
    assert [(row["path"], row["reason"]) for row in rows] == [
        (files[1]["path"], f"is not as the manifest says: SHA-256 {OTHER}, not {SUM}"),
        (files[2]["path"], "is missing"),
    ]
    assert packages.said(rows).endswith(f"is missing. {packages.MAKE_AGAIN}.")
    assert packages.said([]) == ""
    assert "; and 2 more. " in packages.said([rows[1]] * 7)


@pytest.mark.parametrize(
    ("out", "err", "said"),
    [
        ("Reading...\n", "W: old\nE: Unable to locate package x\nE: Nothing\n", "Unable to locate package x; Nothing"),
        ("words\n", "", "words"),
        ("", "", "it said nothing"),
    ],
)
def test_what_apt_complains_of(out: str, err: str, said: str) -> None:
    assert packages.apt_error(out, err) == said


def test_apt_sees_one_folder_only() -> None:
    assert packages.sources("/var/lib/a b/packages/x") == "deb [trusted=yes] file:/var/lib/a%20b/packages/x ./\n"
    lines = packages.conf("/w", "/w/hold", 60).splitlines()
    for wanted in (
        'Dir::Etc::SourceList "/w/sources.list";',
        'Dir::Etc::SourceParts "-";',
        'Dir::State::Lists "/w/lists";',
        'APT::Get::Remove "false";',
        'DPkg::Lock::Timeout "60";',
        'DPkg::Pre-Invoke { "sh /w/hold"; };',
    ):
        assert wanted in lines
