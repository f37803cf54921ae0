# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils import daemon_json
from ansible_collections.tandem.vllm.plugins.module_utils.daemon_json import DaemonJsonError, Document, merge, render

REMEDY = "Change it in the file yourself, or leave it out of settings."
NVIDIA = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}
# As nvidia-ctk writes it.
BY_NVIDIA_CTK = b"""\
{
    "runtimes": {
        "nvidia": {
            "args": [],
            "path": "nvidia-container-runtime"
        }
    }
}
"""


@pytest.mark.parametrize(
    ("data", "document"),
    [
        (b"", Document({})),
        (b" \n\t\n", Document({})),
        (b"{}", Document({})),
        (b'{"a": {"b": 1}}', Document({"a": {"b": 1}})),
        (b'{\n  "b": 1,\n  "a": [2]\n}\n', Document({"b": 1, "a": [2]}, indent="  ")),
        (b'{\r\n\t"a": "\xc3\xa9"\r\n}', Document({"a": "é"}, indent="\t", newline="\r\n", ascii_only=False)),
        (b'\xef\xbb\xbf{"a": 1}', Document({"a": 1}, mark="\ufeff")),
        (BY_NVIDIA_CTK, Document({"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}})),
        # Quotes and slashes within a text are no comment, and a constant's name is no constant.
        (b'{"a": "http://x # NaN \\" // Infinity"}', Document({"a": 'http://x # NaN " // Infinity'})),
    ],
)
def test_parse(data: bytes, document: Document) -> None:
    assert daemon_json.parse(data) == document


COMMENT = "JSON has no comments; take this one out"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: Expecting ',' delimiter"),
        (b'{\n  "a": 1', "line 2, column 9: Expecting ',' delimiter"),
        (b"{'a': 1}", "line 1, column 2: Expecting property name enclosed in double quotes"),
        (b'{"a": yes}', "line 1, column 7: Expecting value"),
        (b'{"a": 1}\n{"b": 2}', "line 2, column 1: Extra data"),
        (b"// mine\n{}", f"line 1, column 1: {COMMENT}"),
        (b'{\n  # mine\n  "a": 1\n}', f"line 2, column 3: {COMMENT}"),
        (b'{\n  "a": 1, // mine\n  "b": 2\n}', f"line 2, column 11: {COMMENT}"),
        (b'{\n  "a": 1 /* mine */\n}', f"line 2, column 10: {COMMENT}"),
        (b'{"a": [1, 2 # mine\n]}', f"line 1, column 13: {COMMENT}"),
        (b"{}\n# mine", f"line 2, column 1: {COMMENT}"),
        (b"[]", "its top level is a list, and must be an object in braces"),
        (b'"text"', "its top level is a text, and must be an object in braces"),
        (b"12", "its top level is a number, and must be an object in braces"),
        (b"true", "its top level is true or false, and must be an object in braces"),
        (b"null", "its top level is null, and must be an object in braces"),
        (b'{"a": 1, "b": 2, "a": 1}', "written more than once: a; keep one of each"),
        (
            b'{"r": {"n": {"p": 1, "p": 2}}, "l": [{"x": 1, "x": 1, "x": 1}], "r": {}, "r": {"n": {"p": 1, "p": 2}}}',
            "written more than once: r, r.n.p, l.x; keep one of each",
        ),
        (b'{\n  "a": "NaN", "b": NaN\n}', "line 2, column 20: NaN is no JSON value"),
        (b'{"a": -Infinity}', "line 1, column 7: -Infinity is no JSON value"),
        (b'{"a": 1e999}', "a number is too large"),
        (b'{\n  "a": "\xe9"\n}', "line 2: not UTF-8 (byte 0xe9)"),
        ('{"a": 1}'.encode("utf-16"), "line 1: not UTF-8 (byte 0xff)"),
    ],
)
def test_what_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(DaemonJsonError) as refused:
        daemon_json.parse(data)
    assert str(refused.value) == said


def test_a_trailing_comma_is_refused_where_it_is() -> None:
    # Python says it in other words, and counts from another place, from 3.13 on.
    with pytest.raises(DaemonJsonError, match=r"^line (2, column 9: Illegal trailing|3, column 1: Expecting property)"):
        daemon_json.parse(b'{\n  "a": 1,\n}')


@pytest.mark.parametrize(
    ("settings", "wanted", "merged"),
    [
        ({}, NVIDIA, NVIDIA),
        ({"b": 1, "a": 2}, {"a": 2}, {"b": 1, "a": 2}),
        ({"features": {"buildkit": True}}, {"features": {"cdi": True}}, {"features": {"buildkit": True, "cdi": True}}),
        (
            {"runtimes": {"runsc": {"path": "/usr/local/bin/runsc"}}, "log-driver": "local"},
            NVIDIA,
            {
                "runtimes": {"runsc": {"path": "/usr/local/bin/runsc"}, **NVIDIA["runtimes"]},
                "log-driver": "local",
            },
        ),
        # What the user added to a runtime stays.
        (
            {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": ["--x"], "y": 1}}},
            NVIDIA,
            {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": ["--x"], "y": 1}}},
        ),
        ({"dns": ["b", "a"]}, {"dns": ["a", "c"]}, {"dns": ["b", "a", "c"]}),
        ({"x": [1, {"k": 1}]}, {"x": [True, {"k": 1}, 1]}, {"x": [1, {"k": 1}, True]}),
        ({"exec-opts": ["native.cgroupdriver=systemd"]}, {"exec-opts": ["native.cgroupdriver=systemd"]}, None),
        ({"exec-opts": ["a=1"]}, {"exec-opts": ["b=1"]}, {"exec-opts": ["a=1", "b=1"]}),
        # Of these Docker takes several of one key.
        (
            {"node-generic-resources": ["NVIDIA-GPU=GPU-1"]},
            {"node-generic-resources": ["NVIDIA-GPU=GPU-2"]},
            {"node-generic-resources": ["NVIDIA-GPU=GPU-1", "NVIDIA-GPU=GPU-2"]},
        ),
    ],
)
def test_merge(settings: dict[str, Any], wanted: dict[str, Any], merged: dict[str, Any] | None) -> None:
    found, conflicts = merge(settings, wanted)
    assert (found, conflicts) == (settings if merged is None else merged, [])
    assert list(found)[: len(settings)] == list(settings)


@pytest.mark.parametrize(
    ("settings", "wanted", "said"),
    [
        ({"default-runtime": "runc"}, {"default-runtime": "nvidia"}, 'default-runtime = "runc": wanted is "nvidia"'),
        ({"features": {"cdi": False}}, {"features": {"cdi": True}}, "features.cdi = false: wanted is true"),
        ({"features": {"cdi": 1}}, {"features": {"cdi": True}}, "features.cdi = 1: wanted is true"),
        (
            {"runtimes": {"nvidia": {"path": "/opt/nvidia/runtime", "args": []}}},
            NVIDIA,
            'runtimes.nvidia.path = "/opt/nvidia/runtime": wanted is "nvidia-container-runtime"',
        ),
        ({"features": None}, {"features": {"cdi": True}}, 'features = null: wanted is {"cdi": true}'),
        ({"dns": "8.8.8.8"}, {"dns": ["8.8.8.8"]}, 'dns = "8.8.8.8": wanted is ["8.8.8.8"]'),
        (
            {"exec-opts": ["native.cgroupdriver=cgroupfs"]},
            {"exec-opts": ["native.cgroupdriver=systemd"]},
            'exec-opts = "native.cgroupdriver=cgroupfs": wanted is "native.cgroupdriver=systemd"',
        ),
        (
            {"log-opts": {"splunk-token": "s3cret"}},
            {"log-opts": {"splunk-token": "0ther"}},
            "log-opts.splunk-token = (hidden): wanted is (hidden)",
        ),
        (
            {"proxies": {"http-proxy": "http://me:pw@proxy:3128"}},
            {"proxies": {"http-proxy": "http://proxy:3128"}},
            'proxies.http-proxy = "http://(hidden)@proxy:3128": wanted is "http://proxy:3128"',
        ),
    ],
)
def test_a_conflict_is_told_and_the_users_value_kept(
    settings: dict[str, Any], wanted: dict[str, Any], said: str
) -> None:
    merged, conflicts = merge(settings, wanted)
    assert [str(problem) for problem in conflicts] == [f"{said}. {REMEDY}"]
    assert merged == settings


def test_all_conflicts_are_told() -> None:
    _merged, conflicts = merge({"a": 1, "b": {"c": 2}}, {"a": 2, "b": {"c": 3, "d": 4}})
    assert [problem.variable for problem in conflicts] == ["a", "b.c"]


def test_merge_changes_neither() -> None:
    settings, wanted = {"a": {"x": [1]}}, {"a": {"x": [2], "y": 3}}
    merge(settings, wanted)
    assert (settings, wanted) == ({"a": {"x": [1]}}, {"a": {"x": [2], "y": 3}})


@pytest.mark.parametrize(
    ("data", "wanted", "text"),
    [
        (
            b"",
            {"features": {"cdi": True}},
            '{\n    "features": {\n        "cdi": true\n    }\n}\n',
        ),
        (b'{\n  "b": 1,\n  "a": 2\n}', {"c": 3}, '{\n  "b": 1,\n  "a": 2,\n  "c": 3\n}\n'),
        (b'{\r\n\t"b": 1\r\n}\r\n', {"c": 3}, '{\r\n\t"b": 1,\r\n\t"c": 3\r\n}\r\n'),
        (b'\xef\xbb\xbf{"b": 1}', {"c": 3}, '\ufeff{\n    "b": 1,\n    "c": 3\n}\n'),
        ('{"b": "é"}'.encode(), {}, '{\n    "b": "é"\n}\n'),
        (b'{"b": "\\u00e9"}', {}, '{\n    "b": "\\u00e9"\n}\n'),
        ('{"b": "é\\ud800"}'.encode(), {}, '{\n    "b": "\\u00e9\\ud800"\n}\n'),
    ],
)
def test_render_keeps_the_form(data: bytes, wanted: dict[str, Any], text: str) -> None:
    document = daemon_json.parse(data)
    merged, _conflicts = merge(document.settings, wanted)
    assert render(document, merged) == text
    assert daemon_json.parse(text.encode()).settings == merged


def test_a_file_of_nvidia_ctk_would_be_written_the_same() -> None:
    document = daemon_json.parse(BY_NVIDIA_CTK)
    assert render(document, document.settings).encode() == BY_NVIDIA_CTK


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"http-proxy": "http://me:pw@proxy:3128"}', '{"http-proxy": "http://(hidden)@proxy:3128"}'),
        ('{"splunk-token" : "a\\"b", "x": 1}', '{"splunk-token" : "(hidden)", "x": 1}'),
        ('{"registry": "https://mirror:5000/v2"}', '{"registry": "https://mirror:5000/v2"}'),
    ],
)
def test_secrets_are_hidden(text: str, shown: str) -> None:
    assert daemon_json.hidden(text) == shown


def test_settings_are_shown_without_secrets() -> None:
    settings = {"log-opts": {"gelf-password": "x", "tag": "t"}, "proxies": {"https-proxy": "http://u:p@h"}}
    assert daemon_json.hidden_settings(settings) == {
        "log-opts": {"gelf-password": "(hidden)", "tag": "t"},
        "proxies": {"https-proxy": "http://(hidden)@h"},
    }
