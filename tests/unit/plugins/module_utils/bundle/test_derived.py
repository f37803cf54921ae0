# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import derived
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.derived import ConfigError, ImageFacts

LABELS = {"tandem.base": "sha256:1", "tandem.wheelhouse": "2"}


def image(**config: Any) -> ImageFacts:
    return ImageFacts("sha256:1", {"Env": ["PATH=/bin"], "Cmd": ["bash"], **config}, 10, ())


def options(image: ImageFacts, folder: str | None = "/store") -> tuple[list[str], list[str]]:
    """What of `docker run` comes before the image's id, and after it."""
    argv = derived.start_argv(image, "n", "python3", 60, folder)
    at = argv.index("sha256:1")
    return argv[:at], argv[at + 1 :]


def test_a_container_for_wheels() -> None:
    before, after = options(image())
    assert before[:2] == ["docker", "run"]
    for pair in (["--network", "none"], ["--runtime", "runc"], ["--name", "n"]):
        assert before[before.index(pair[0]) + 1] == pair[1]
    assert before[-2:] == ["--mount", "type=bind,src=/store,dst=/mnt,readonly"]
    assert after == ["python3", "-c", "import time; time.sleep(60)"]
    assert "--mount" not in options(image(), None)[0]


# Docker cannot set back to nothing what was given once: so it must not be given.
@pytest.mark.parametrize(
    ("config", "given", "changes"),
    [
        ({}, [], ['CMD ["bash"]']),
        ({"Entrypoint": ["vllm", "serve"], "Cmd": None}, ["--entrypoint"], ['ENTRYPOINT ["vllm", "serve"]']),
        (
            {"Entrypoint": ["/bin/ls"], "Cmd": ["-l", 'a "b"']},
            ["--entrypoint"],
            ['ENTRYPOINT ["/bin/ls"]', 'CMD ["-l", "a \\"b\\""]'],
        ),
        ({"User": "1000:1000"}, ["--user"], ['CMD ["bash"]', "USER 1000:1000"]),
    ],
)
def test_what_is_given_is_taken_back(config: dict[str, Any], given: list[str], changes: list[str]) -> None:
    before, after = options(image(**config))
    assert [word for word in before if word in ("--entrypoint", "--user")] == given
    assert after[-2:] == ["-c", "import time; time.sleep(60)"]
    argv = derived.commit_argv(image(**config), "n", LABELS)
    assert (argv[:2], argv[-1]) == (["docker", "commit"], "n")
    assert argv[2:-1:2] == ["--change"] * (len(changes) + 2)
    assert argv[3:-1:2] == ['LABEL "tandem.base"="sha256:1"', 'LABEL "tandem.wheelhouse"="2"', *changes]


def test_an_image_that_starts_nothing() -> None:
    with pytest.raises(ConfigError, match="neither ENTRYPOINT nor CMD"):
        derived.commit_argv(image(Cmd=None), "n", LABELS)


def test_a_path_that_cannot_be_mounted() -> None:
    with pytest.raises(ConfigError, match="holds a comma"):
        derived.start_argv(image(), "n", "python3", 60, "/a,b")


def test_variables_are_the_commands_alone() -> None:
    argv = derived.exec_argv("n", {"B": "2", "A": "1 x"}, ["pip", "check"])
    assert argv[:2] == ["docker", "exec"]
    assert argv[-7:] == ["--env", "A=1 x", "--env", "B=2", "n", "pip", "check"]


def test_finding() -> None:
    assert derived.find_argv(LABELS)[-4:] == [
        "--filter",
        "label=tandem.base=sha256:1",
        "--filter",
        "label=tandem.wheelhouse=2",
    ]


def test_reading() -> None:
    out = json.dumps([{"Id": "sha256:1", "Config": {"User": ""}, "Size": 5, "RepoTags": None}])
    (found,) = derived.of_inspect(out)
    assert (found.entrypoint, found.command, found.user, found.labels, found.tags) == ([], [], "", {}, ())


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, None),
        # The building container's own, which decides nothing.
        ({"Hostname": "61bdc7a97c1d", "Image": "sha256:1", "AttachStdout": True}, None),
        ({"Entrypoint": [], "User": ""}, None),
        ({"Cmd": ["sleep"]}, 'Cmd is ["sleep"], was ["bash"]'),
        ({"User": "0"}, 'User is "0", was null'),
        ({"Env": ["PATH=/bin", "X=1"]}, "Env is"),
        ({"Labels": {"a": "b"}}, "Labels are"),
    ],
)
def test_another_configuration_is_seen(config: dict[str, Any], said: str | None) -> None:
    base = image(Labels={"a": "b"})
    made = replace(base, config={**base.config, "Labels": {"a": "b", **LABELS}, **config})
    found = derived.differences(base, made, LABELS)
    assert [said in line for line in found if said] == [True] * bool(said)
    assert bool(found) == bool(said)
