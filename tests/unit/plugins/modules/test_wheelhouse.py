# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules import wheelhouse
from ansible_collections.tandem.vllm.plugins.modules.wheelhouse import main

IMAGE_ID = "sha256:" + "a" * 64
TARGET: dict[str, Any] = {
    "python": "3.11.2",
    "implementation": "cp",
    "abi": "cp311",
    "machine": "x86_64",
    "glibc": "2.36",
    "tags": ["cp311-cp311-manylinux_2_36_x86_64", "py3-none-any"],
}
INSTALLED = [
    {"name": "click", "version": "8.5.1", "requires": [], "extras": []},
    {"name": "ray", "version": "2.60.0", "requires": ["click>=7.0"], "extras": ["default"]},
]
WITH_PIP = [*INSTALLED, {"name": "pip", "version": "26.3", "requires": [], "extras": []}]
RAY, TZDATA = "ray-2.59.0-cp311-cp311-manylinux2014_x86_64.whl", "tzdata-2026.6-py2.py3-none-any.whl"
PIP = "pip-26.3-py3-none-any.whl"
FILES = {"ray": ("2.59.0", RAY), "tzdata": ("2026.6", TZDATA), "pip": ("26.3", PIP)}
CONFLICT = (Path(__file__).parents[3] / "fixtures" / "pip" / "conflict_numpy.txt").read_text()


def content(file: str) -> bytes:
    return f"the wheel {file}".encode()


def sha256(file: str) -> str:
    return hashlib.sha256(content(file)).hexdigest()


def item(name: str, folder: str | None = None) -> dict[str, Any]:
    """An item of pip's report: a wheel of the index, or a stand-in of a folder."""
    if folder is not None:
        entry = next(entry for entry in INSTALLED if entry["name"] == name)
        url, version, sha = f"file://{folder}/{name}-x.whl", entry["version"], "0"
    else:
        version, file = FILES[name]
        url, sha = f"https://index.example.org/{file}", sha256(file)
    return {
        "download_info": {"url": url, "archive_info": {"hashes": {"sha256": sha}}},
        "metadata": {"name": name, "version": version},
        "requested_extras": ["default"] if name == "ray" else [],
    }


def report(items: list[dict[str, Any]]) -> str:
    return "Collecting x\n" + json.dumps({"version": "1", "pip_version": "26.3", "install": items}, indent=2) + "\n"


class Machine:
    """A machine with pip, an index and Docker. What ran is told in words: describe, resolve, download and so on."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []
        self.pythons = {"python3": {"python": "3.11.7", "pip": "26.3"}}
        self.needs = ["ray", "tzdata"]
        self.constraints: list[str] = []
        self.stand_ins: list[str] = []
        self.resolve_fails: list[tuple[int, str, str]] = []
        self.download_fails: tuple[int, str, str] | None = None
        self.damaged = ""
        self.proof: tuple[int, str, str] = (0, report([item("ray"), item("tzdata")]), "")
        self.environment: dict[str, str] = {}

    @property
    def did(self) -> list[str]:
        return [self.what(argv) for argv in self.ran]

    @staticmethod
    def what(argv: Sequence[str]) -> str:
        words = [*argv[4:], "", ""]
        if words[0] == "docker":
            return "docker " + words[1]
        if "config" in words:
            return "index"
        if "download" in words:
            return "download"
        if "--dry-run" not in words:
            return "describe " + words[0]
        return "pip" if "--no-deps" in words else "offline" if "--no-index" in words else "resolve"

    def __call__(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.ran.append(list(argv))
        what, _space, rest = self.what(argv).partition(" ")
        answer: tuple[int, str, str] = getattr(self, what)(rest, list(argv))
        return answer

    def describe(self, python: str, _argv: list[str]) -> tuple[int, str, str]:
        if python not in self.pythons:
            return 127, "", "no such file"
        fits = {"implementation": "cp", "machine": "x86_64", "system": "Linux"}
        return 0, json.dumps({**fits, **self.pythons[python]}), ""

    def index(self, _rest: str, _argv: list[str]) -> tuple[int, str, str]:
        return 0, "global.index-url='https://me:secret@index.example.org/pypi/simple'\n", ""

    def pip(self, _rest: str, argv: list[str]) -> tuple[int, str, str]:
        assert argv[-1] == "pip==26.3"
        return 0, report([item("pip")]), ""

    def resolve(self, _rest: str, argv: list[str]) -> tuple[int, str, str]:
        self.constraints.append(Path(argv[argv.index("--constraint") + 1]).read_text())
        folder = argv[argv.index("--find-links") + 1]
        self.stand_ins = sorted(path.name for path in Path(folder).iterdir())
        for path in Path(folder).iterdir():
            assert len(zipfile.ZipFile(path).namelist()) == 3
        if self.resolve_fails:
            return self.resolve_fails.pop(0)
        return 0, report([*(item(name) for name in self.needs), item("click", folder)]), ""

    def offline(self, _rest: str, argv: list[str]) -> tuple[int, str, str]:
        folder = argv[argv.index("--find-links") + 1]
        return 0, report([item("ray", folder), item("click", folder)]), ""

    def download(self, _rest: str, argv: list[str]) -> tuple[int, str, str]:
        if self.download_fails:
            return self.download_fails
        folder, listed = argv[argv.index("--dest") + 1], Path(argv[argv.index("--requirement") + 1]).read_text()
        for line in listed.splitlines():
            file = FILES[line.partition("==")[0]][1]
            assert line.endswith(f"--hash=sha256:{sha256(file)}")
            (Path(folder) / file).write_bytes(b"half of it" if file == self.damaged else content(file))
        return 0, "", ""

    def docker(self, what: str, _argv: list[str]) -> tuple[int, str, str]:
        return {"image": (0, IMAGE_ID + "\n", ""), "run": self.proof, "rm": (0, "", "")}[what]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()

    def tolerant(run_command: Any) -> Machine:
        found.environment = run_command.__self__.__dict__  # of the AnsibleModule
        return found

    monkeypatch.setattr(wheelhouse, "tolerant", tolerant)
    monkeypatch.setattr(wheelhouse.sys, "executable", "python3")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "wheels" / "vllm"


def run(capsys: pytest.CaptureFixture[str], folder: Path, **arguments: Any) -> tuple[int, dict[str, Any]]:
    scratch = folder.parents[1] / "scratch"
    scratch.mkdir(exist_ok=True)
    given = {
        "requirements": ["ray[default]==2.59.0"],
        "target": TARGET,
        "distributions": WITH_PIP,
        "folder": str(folder),
        "_ansible_tmpdir": str(scratch),
        "_ansible_remote_tmp": str(scratch),
        "_ansible_keep_remote_files": True,
    }
    with patch_module_args({**given, **arguments}), pytest.raises(SystemExit) as ended:
        main()
    result = json.loads(capsys.readouterr().out)
    result.pop("invocation", None)
    assert not list(scratch.iterdir())
    return int(ended.value.code or 0), result


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


TEXT = (
    "# For Python 3.11.2 (cp311), linux x86_64, glibc 2.36. Written by tandem.vllm.wheelhouse.\n"
    f"ray[default]==2.59.0 --hash=sha256:{sha256(RAY)}\n"
    f"tzdata==2026.6 --hash=sha256:{sha256(TZDATA)}\n"
)


def test_a_new_wheelhouse(capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path) -> None:
    status, result = run(capsys, folder)
    assert (status, result["changed"], result["resolved"]) == (0, True, True)
    assert machine.did == ["describe python3", "resolve", "index", "download"]
    assert machine.constraints == ["click==8.5.1\npip==26.3\n"]
    assert machine.stand_ins == [
        f"{name}-999999-cp311-cp311-manylinux_2_36_x86_64.whl" for name in ("click-8.5.1", "pip-26.3", "ray-2.60.0")
    ]
    assert result["wheels"] == [
        {"name": name, "version": FILES[name][0], "file": FILES[name][1], "sha256": sha256(FILES[name][1])}
        for name in ("ray", "tzdata")
    ]
    assert result["in_target"] == [{"name": "click", "version": "8.5.1"}]
    assert result["changes"] == [{"name": "ray", "from": "2.60.0", "to": "2.59.0"}]
    assert (result["requirements"], result["tool"], result["proof"]) == (["ray[default]==2.59.0"], None, None)
    assert (result["index"], result["pip"], result["python"]) == ("/pypi/simple", "26.3", "3.11.7")
    assert (result["fetched"], result["removed"]) == ([RAY, TZDATA], [])
    assert names(folder) == [RAY, "requirements.txt", TZDATA, "wheelhouse.json"]
    assert (folder / "requirements.txt").read_text() == TEXT == result["diff"]["after"]
    assert [entry["path"] for entry in result["files"]] == [RAY, TZDATA, "requirements.txt", "wheelhouse.json"]
    assert result["files"][0] == {"path": RAY, "kind": "wheel", "size": len(content(RAY)), "sha256": sha256(RAY)}
    assert [path.name for path in folder.parent.iterdir()] == ["vllm"]
    assert (folder / RAY).stat().st_mode & 0o777 == 0o644
    assert "secret" not in json.dumps(result)


def test_a_second_run_does_nothing(capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path) -> None:
    _status, first = run(capsys, folder)
    machine.ran.clear()
    # How the requirements are spelled does not matter, nor the order of what is installed.
    given = ["Ray[default] == 2.59.0"]
    status, second = run(capsys, folder, distributions=WITH_PIP[::-1], requirements=given)
    assert second["requirements"] == given
    assert (status, second["changed"], second["resolved"], second["fetched"]) == (0, False, False, [])
    assert machine.ran == []
    for key in ("wheels", "in_target", "changes", "created", "index", "pip", "python", "files"):
        assert second[key] == first[key]


@pytest.mark.parametrize(
    "changed",
    [
        {"requirements": ["ray[default]==2.59.0", "tzdata==2026.6"]},
        {"target": {**TARGET, "glibc": "2.35"}},
        {"distributions": [*WITH_PIP, {"name": "six", "version": "1.17.0"}]},
        {"upgrade": ["click"]},
        {"index": "https://other.example.org/simple"},
    ],
)
def test_other_inputs_are_resolved_again(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path, changed: dict[str, Any]
) -> None:
    run(capsys, folder)
    machine.ran.clear()
    status, result = run(capsys, folder, **changed)
    assert (status, result["changed"], result["fetched"]) == (0, True, [])
    assert machine.did == ["describe python3", "resolve", "index"]


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    ("damage", "fetched", "removed"),
    [
        (lambda folder: (folder / RAY).unlink(), [RAY], []),
        (lambda folder: (folder / TZDATA).write_bytes(b"other bytes"), [TZDATA], []),
        (lambda folder: (folder / "old-1.0-py3-none-any.whl").write_bytes(b"x"), [], ["old-1.0-py3-none-any.whl"]),
        (lambda folder: (folder / "requirements.txt").write_text("ray\n"), [], []),
    ],
)
def test_what_is_lost_or_altered_is_put_right(
    capsys: pytest.CaptureFixture[str],
    machine: Machine,
    folder: Path,
    damage: Any,
    fetched: list[str],
    removed: list[str],
    check_mode: bool,
) -> None:
    run(capsys, folder)
    damage(folder)
    before = {name: (folder / name).read_bytes() for name in names(folder)}
    machine.ran.clear()
    status, result = run(capsys, folder, _ansible_check_mode=check_mode)
    assert (status, result["changed"], result["resolved"]) == (0, True, False)
    assert (result["fetched"], result["removed"]) == (fetched, removed)
    after = {name: (folder / name).read_bytes() for name in names(folder)}
    if check_mode:
        assert after == before
        assert machine.ran == []
    else:
        assert sorted(after) == [RAY, "requirements.txt", TZDATA, "wheelhouse.json"]
        assert (after[RAY], after[TZDATA]) == (content(RAY), content(TZDATA))
        assert after["requirements.txt"] == TEXT.encode()
        assert machine.did == (["describe python3", "download"] if fetched else [])


def test_check_mode_resolves_and_fetches_nothing(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path
) -> None:
    status, result = run(capsys, folder, _ansible_check_mode=True, prove_in="vllm:0.32.0")
    assert (status, result["changed"], result["fetched"]) == (0, True, [RAY, TZDATA])
    assert machine.did == ["docker image", "describe python3", "resolve", "index"]
    assert not folder.parent.exists()


def test_a_state_that_is_none(capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path) -> None:
    run(capsys, folder)
    for text in ("[]", "{", '{"inputs": "x"}'):
        (folder / "wheelhouse.json").write_text(text)
        status, result = run(capsys, folder)
        assert (status, result["resolved"], result["fetched"]) == (0, True, [])


def test_a_killed_run_leaves_what_the_next_one_takes(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path
) -> None:
    partial = folder.parent / ".vllm.part"
    (partial / "tmp").mkdir(parents=True)
    (partial / "tmp" / "x").write_text("x")
    (partial / "requirements.txt").write_text("half")
    (partial / RAY).write_bytes(content(RAY))
    (partial / TZDATA).write_bytes(content(TZDATA)[:5])
    status, result = run(capsys, folder)
    assert (status, result["changed"]) == (0, True)
    assert names(folder) == [RAY, "requirements.txt", TZDATA, "wheelhouse.json"]
    assert (folder / TZDATA).read_bytes() == content(TZDATA)
    assert not partial.exists()


def test_a_download_that_is_not_what_the_index_said(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path
) -> None:
    machine.damaged = TZDATA
    status, result = run(capsys, folder)
    assert (status, result["msg"]) == (
        1,
        f"{TZDATA} was downloaded and does not have the SHA-256 that the index gave. Run again",
    )
    assert not folder.exists()
    machine.damaged = ""
    assert run(capsys, folder)[0] == 0


def test_the_target_has_it_all(capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path) -> None:
    status, result = run(capsys, folder, requirements=["ray[default]==2.60.0"])
    assert (status, result["changed"], result["wheels"], result["fetched"]) == (0, True, [], [])
    assert result["in_target"] == [{"name": "click", "version": "8.5.1"}, {"name": "ray", "version": "2.60.0"}]
    # No index was asked for that.
    assert machine.did == ["describe python3", "offline", "index"]
    assert (folder / "requirements.txt").read_text().splitlines()[1:] == ["ray[default]==2.60.0  # in the target"]


@pytest.mark.parametrize("installed", [INSTALLED, [*INSTALLED, {"name": "pip", "version": "22.0.2"}]])
def test_pip_comes_along(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path, installed: list[dict[str, Any]]
) -> None:
    status, result = run(capsys, folder, distributions=installed, prove_in="vllm:0.32.0")
    assert status == 0
    assert result["tool"] == {"name": "pip", "version": "26.3", "file": f"pip/{PIP}", "sha256": sha256(PIP)}
    assert [wheel["name"] for wheel in result["wheels"]] == ["ray", "tzdata"]
    assert (folder / "pip" / PIP).read_bytes() == content(PIP)
    assert result["files"][2]["path"] == f"pip/{PIP}"
    proof = next(argv for argv in machine.ran if argv[4:6] == ["docker", "run"])
    assert proof[proof.index(IMAGE_ID) + 1 :][0] == f"/wheelhouse/pip/{PIP}/pip"
    # A target that has pip by now does not need it.
    status, result = run(capsys, folder)
    assert (status, result["removed"], result["tool"]) == (0, [f"pip/{PIP}"], None)
    assert not (folder / "pip").exists()


def test_a_proof(capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path) -> None:
    run(capsys, folder)
    machine.ran.clear()
    status, result = run(capsys, folder, prove_in="vllm:0.32.0")
    # It is kept, and that is a change.
    assert (status, result["changed"], result["proof"]) == (0, True, {"image_id": IMAGE_ID, "pip": "26.3"})
    assert machine.did == ["docker image", "docker run", "docker rm"]
    argv = machine.ran[1]
    assert argv[4:10] == ["docker", "run", "--rm", "--pull", "never", "--network"]
    assert argv[10] == "none"
    assert argv[argv.index("--env") + 1] == "PIP_CONFIG_FILE=/dev/null"
    assert argv[argv.index("--mount") + 1] == f"type=bind,source={folder},target=/wheelhouse,readonly"
    assert argv[argv.index(IMAGE_ID) :] == [
        *[IMAGE_ID, "-m", "pip", "--isolated", "install", "--dry-run", "--report", "-", "--no-index"],
        *["--find-links", "/wheelhouse", "--require-hashes", "--requirement", "/wheelhouse/requirements.txt"],
    ]
    machine.ran.clear()
    status, result = run(capsys, folder, prove_in="vllm:0.32.0")
    assert (status, result["changed"]) == (0, False)
    assert machine.did == ["docker image"]


@pytest.mark.parametrize(
    ("proof", "message"),
    [
        (
            (1, "Collecting x", "ERROR: No matching distribution found for tzdata (from pandas)\n"),
            "The wheelhouse is not complete in the image: No matching distribution found for tzdata (from pandas)",
        ),
        (
            (0, report([item("ray")]), ""),
            "The image is not the target that the wheels were resolved for: tzdata 2026.6 is in the wheelhouse and "
            "not needed. Probe it again",
        ),
        ((0, "hello", ""), "The image's pip: pip wrote no report. It needs to be pip 23.0 or newer"),
    ],
)
def test_a_proof_that_fails(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path, proof: tuple[int, str, str], message: str
) -> None:
    machine.proof = proof
    for _again in range(2):  # it is not taken as proven the second time
        status, result = run(capsys, folder, prove_in="vllm:0.32.0")
        assert (status, result["msg"]) == (1, message)


def test_an_image_that_is_not_there(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "docker", lambda _what, _argv: (1, "", "No such image: vllm"))
    status, result = run(capsys, folder, prove_in="vllm")
    assert (status, result["msg"]) == (
        1,
        "prove_in = vllm: Docker cannot show it (No such image: vllm). Load or pull it first",
    )
    assert machine.did == ["docker image"]


@pytest.mark.parametrize(
    ("pythons", "uses"),
    [
        ({"python3": {"python": "3.13.1", "pip": "25.0"}, "python3.11": {"python": "3.11.7", "pip": "26.3"}},
         ["python3.11", "-m", "pip"]),
        ({"python3": {"python": "3.13.1", "pip": "26.3"}, "python3.11": {"python": "3.11.7", "pip": None}},
         ["python3", "-m", "pip", "--python", "python3.11"]),
        ({"python3": {"python": "3.11.2", "pip": "22.0"}, "python3.11": {"python": "3.11.7", "pip": "26.3"}},
         ["python3.11", "-m", "pip"]),
    ],
)  # fmt: skip
def test_a_python_like_the_targets_is_found(
    capsys: pytest.CaptureFixture[str],
    machine: Machine,
    folder: Path,
    pythons: dict[str, dict[str, Any]],
    uses: list[str],
) -> None:
    machine.pythons = pythons
    status, result = run(capsys, folder)
    assert (status, result["python"], result["pip"]) == (0, "3.11.7", "26.3")
    argv = machine.ran[machine.did.index("resolve")]
    assert argv[4 : argv.index("install")] == uses


@pytest.mark.parametrize(
    ("pythons", "reasons"),
    [
        ({"python3": {"python": "3.13.1", "pip": "26.3"}},
         "python3 is Python 3.13.1, not 3.11; python3.11 does not run here"),
        ({"python3": {"python": "3.11.7", "pip": None}},
         "python3 has no pip 23.0 or newer; python3.11 does not run here"),
        ({"python3": {"python": "3.11.7", "pip": "26.3", "machine": "aarch64"}},
         "python3 runs on Linux aarch64, not on Linux x86_64; python3.11 does not run here"),
    ],
)  # fmt: skip
def test_no_python_is_like_the_targets(
    capsys: pytest.CaptureFixture[str],
    machine: Machine,
    folder: Path,
    pythons: dict[str, dict[str, Any]],
    reasons: str,
) -> None:
    machine.pythons = pythons
    status, result = run(capsys, folder)
    assert (status, result["msg"]) == (
        1,
        "python = python3: no Python here resolves as the target would (Python 3.11.2 (cp311), linux x86_64, glibc "
        f"2.36): {reasons}. Which dependencies apply depends on it. Set python to one that does",
    )


NUMPY = {"name": "numpy", "version": "2.3.5", "requires": []}


def test_a_conflict_is_told_with_the_way_out(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path
) -> None:
    machine.resolve_fails = [(1, CONFLICT, "ERROR: ResolutionImpossible")]
    status, result = run(capsys, folder, distributions=[*WITH_PIP, NUMPY])
    assert (status, result["msg"]) == (
        1,
        "The image's packages do not allow it. numpy: the target has 2.3.5, but scipy 1.11.4 needs "
        "numpy<1.28.0,>=1.21.6. Ask for a version that goes with the image, or allow the change: upgrade: [numpy]",
    )
    # The second resolution is only for the message.
    assert [text.count("numpy") for text in machine.constraints] == [1, 0]
    assert machine.did == ["describe python3", "resolve", "resolve"]
    assert not folder.exists()


def test_a_conflict_without_a_way_out(capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path) -> None:
    machine.resolve_fails = [(1, CONFLICT, ""), (1, CONFLICT, "")]
    needy = {"name": "vllm", "version": "0.32.0", "requires": ["numpy>=2"]}
    status, result = run(capsys, folder, distributions=[*WITH_PIP, NUMPY, needy])
    assert (status, result["msg"]) == (
        1,
        "The image's packages do not allow it. numpy: vllm 0.32.0 needs numpy>=2, but scipy 1.11.4 needs "
        "numpy<1.28.0,>=1.21.6. Ask for a version that goes with the image, or take another image",
    )


def test_an_upgrade_is_allowed(capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path) -> None:
    status, _result = run(capsys, folder, distributions=[*WITH_PIP, NUMPY], upgrade=["NumPy"])
    assert (status, [text.count("numpy") for text in machine.constraints]) == (0, [0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"requirements": ["ray>=2.59"]},
            "requirements[0] = ray>=2.59: must be a name, its extras and one version, as ray[default]==2.60.0. "
            "Correct the value",
        ),
        ({"target": {**TARGET, "glibc": "old"}}, "target.glibc = 'old': must be a glibc version such as 2.36"),
    ],
)
def test_bad_arguments(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path, arguments: dict[str, Any], message: str
) -> None:
    status, result = run(capsys, folder, **arguments)
    assert (status, result["msg"], machine.ran) == (1, message, [])


@pytest.mark.parametrize(
    ("attribute", "answer", "message"),
    [
        ("resolve_fails", [(1, "", "ERROR: No matching distribution found for ray==2.59.0\n")],
         "pip found no wheels for the target: No matching distribution found for ray==2.59.0"),
        ("resolve_fails", [(124, "", "")],
         "timeout = 9: pip did not end in time. Raise it or look at the index"),
        ("download_fails", (1, "", "ERROR: HTTP error 503\n"),
         "pip could not download the wheels: HTTP error 503"),
    ],
)  # fmt: skip
def test_pip_fails(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path, attribute: str, answer: Any, message: str
) -> None:
    setattr(machine, attribute, answer)
    status, result = run(capsys, folder, timeout=9)
    assert (status, result["msg"]) == (1, message)
    assert not folder.exists()


def test_an_index_with_a_password_is_in_no_argument(
    capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path
) -> None:
    index, extra = "https://me:Hidden-1@index.example.org/simple", "https://me:Hidden-2@index.example.org/cpu"
    status, result = run(capsys, folder, index=index, extra_indexes=[extra], prove_in="vllm")
    assert status == 0
    told = json.dumps(result) + json.dumps(machine.ran) + (folder / "wheelhouse.json").read_text()
    assert "Hidden" not in told
    environment = machine.environment["run_command_environ_update"]
    assert (environment["PIP_INDEX_URL"], environment["PIP_EXTRA_INDEX_URL"]) == (index, extra)


def test_a_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str], machine: Machine, folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("a file")
    status, result = run(capsys, folder)
    assert status == 1
    assert result["msg"].startswith(f"folder = {folder}: ")
