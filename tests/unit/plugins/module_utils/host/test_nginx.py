# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host import nginx as host_nginx
from ansible_collections.tandem.vllm.plugins.module_utils.host.nginx import Instance, NginxError

Answer = tuple[int, str, str]
MASTER = "nginx: master process /usr/sbin/nginx"
WORKER = "nginx: worker process"
LEAVING = "nginx: worker process is shutting down"


class Box:
    """A host in a folder: configuration, /proc and a runner that notes what was run."""

    def __init__(self, tmp_path: Path) -> None:
        self.directory, self.proc, self.scratch = tmp_path / "conf", tmp_path / "proc", tmp_path / "scratch"
        for path in (self.directory, self.proc, self.scratch):
            path.mkdir()
        self.pid = tmp_path / "nginx.pid"
        self.commands: list[list[str]] = []
        self.answer: Callable[[list[str]], Answer] = lambda _argv: (0, "", "")
        self.naps = 0
        self.nginx = Instance(self.run, str(self.directory), "/usr/sbin/nginx", "gw.service", str(self.proc), self.nap)
        (self.directory / "nginx.conf").write_text("pid %s;\n" % self.pid)

    def run(self, argv: Sequence[str]) -> Answer:
        self.commands.append(list(argv))
        return self.answer(list(argv))

    def nap(self, _seconds: float) -> None:
        self.naps += 1

    def process(self, pid: int, title: str, parent: int = 1) -> None:
        (self.proc / str(pid)).mkdir(exist_ok=True)
        (self.proc / str(pid) / "stat").write_text("%d (nginx (x) y) S %d 1 1 0\n" % (pid, parent))
        (self.proc / str(pid) / "cmdline").write_text(title + "\0")


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_validates_a_copy_and_leaves_nothing(box: Box) -> None:
    seen: dict[str, Any] = {}

    def look(argv: list[str]) -> Answer:
        stage = Path(argv[argv.index("-c") + 1]).parent
        seen.update({p.name: p.read_text() for p in stage.iterdir() if p.is_file()})
        seen["modes"] = {p.stat().st_mode & 0o777 for p in stage.iterdir() if p.is_file()}
        return 0, "", ""

    box.answer = look
    box.nginx.validate({"nginx.conf": "error_log /var/log/gw/e.log;\n", "keys.conf": "secret"}, str(box.scratch))
    assert box.commands[0][:3] == ["/usr/sbin/nginx", "-t", "-q"]
    assert seen["keys.conf"] == "secret"
    assert "/var/log" not in seen["nginx.conf"]
    assert str(box.scratch) in seen["nginx.conf"]
    assert seen["modes"] == {0o600}
    assert list(box.scratch.iterdir()) == []


def test_refusal_tells_the_reason_of_the_real_file(box: Box) -> None:
    def refuse(argv: list[str]) -> Answer:
        return (
            1,
            "",
            'nginx: [emerg] bad "x" in %s:3\nnginx: configuration file x test failed' % argv[argv.index("-c") + 1],
        )

    box.answer = refuse
    with pytest.raises(NginxError, match='^bad "x" in %s/nginx.conf:3$' % box.directory):
        box.nginx.validate({"nginx.conf": ""}, str(box.scratch))
    assert list(box.scratch.iterdir()) == []


def test_replace_and_restore(box: Box) -> None:
    before = box.nginx.replace({"nginx.conf": "new", "keys.conf": "k"})
    assert (box.directory / "nginx.conf").read_text() == "new"
    assert (box.directory / "keys.conf").stat().st_mode & 0o777 == 0o600
    assert box.nginx.private("keys.conf")
    assert sorted(os.listdir(box.directory)) == ["keys.conf", "nginx.conf"]
    box.nginx.restore(before)
    assert (box.directory / "nginx.conf").read_text() == "pid %s;\n" % box.pid
    assert os.listdir(box.directory) == ["nginx.conf"]


def test_a_missing_directory_is_made_for_root_alone(box: Box, tmp_path: Path) -> None:
    nginx = Instance(box.run, str(tmp_path / "etc/tandem/gateway"), "nginx", "gw.service")
    assert nginx.read("nginx.conf") is None
    nginx.replace({"nginx.conf": "x"})
    assert (tmp_path / "etc/tandem/gateway").stat().st_mode & 0o777 == 0o700


def test_not_running_is_not_reloaded(box: Box) -> None:
    assert box.nginx.reload() is False
    box.pid.write_text("10\n")
    box.process(10, "/usr/bin/something-else")
    assert box.nginx.reload() is False
    assert box.commands == []


def test_reload_waits_until_the_old_workers_leave(box: Box) -> None:
    box.pid.write_text("10\n")
    box.process(10, MASTER)
    box.process(11, WORKER, parent=10)
    box.process(20, WORKER, parent=9)  # of another nginx

    def nap(_seconds: float) -> None:
        box.naps += 1
        if box.naps == 2:
            box.process(12, WORKER, parent=10)
        if box.naps == 4:
            box.process(11, LEAVING, parent=10)

    nginx = Instance(box.run, str(box.directory), "nginx", "gw.service", str(box.proc), nap)
    assert nginx.reload() is True
    assert box.naps == 4
    assert box.commands == [["systemctl", "reload", "gw.service"]]


def test_reload_that_is_not_taken_is_an_error(box: Box) -> None:
    box.pid.write_text("10\n")
    box.process(10, MASTER)
    box.process(11, WORKER, parent=10)
    with pytest.raises(NginxError, match="no new workers within 15 s"):
        box.nginx.reload()
    assert box.naps == pytest.approx(host_nginx.RELOAD_SECONDS / 0.05, abs=2)


def test_reload_that_systemd_refuses_is_an_error(box: Box) -> None:
    box.pid.write_text("10\n")
    box.process(10, MASTER)
    box.answer = lambda _argv: (1, "", "Job for gw.service failed.")
    with pytest.raises(NginxError, match=r"systemctl reload gw\.service.*Job for gw\.service failed"):
        box.nginx.reload()


def test_others_are_the_rest_of_the_configuration(box: Box) -> None:
    (box.directory / "keys.conf").write_text("k")
    (box.directory / "notes.txt").write_text("n")
    assert sorted(box.nginx.others({"upstreams.conf": ""})) == ["keys.conf", "nginx.conf"]
