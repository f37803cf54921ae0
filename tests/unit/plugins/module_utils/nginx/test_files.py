# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.tandem.vllm.plugins.module_utils.nginx.files import (
    complaint,
    diff,
    moved,
    pid_file,
    without_quoted,
    written_directories,
)

CONF = """\
pid /run/gw/nginx.pid;
error_log /var/log/gw/error.log warn;
http {
    access_log /var/log/gw/access.log tandem;
    access_log off;
    client_body_temp_path /var/cache/gw/body;
    proxy_temp_path relative/proxy;
    proxy_pass http://x/run/gw;
}
"""
KEYS = 'map $a $b {\n    default "";\n    "~^Bearer KEY-ONE$" alice;\n}\n'


def test_finds_where_it_writes() -> None:
    assert written_directories(CONF) == ["/run/gw", "/var/cache/gw", "/var/log/gw"]
    assert pid_file(CONF) == "/run/gw/nginx.pid"
    assert pid_file("http {}") is None
    assert written_directories("") == []


def test_moves_only_what_it_writes() -> None:
    text = moved(CONF, {d: "/stage/%d" % i for i, d in enumerate(written_directories(CONF))})
    assert text.splitlines() == [
        "pid /stage/0/nginx.pid;",
        "error_log /stage/2/error.log warn;",
        "http {",
        "    access_log /stage/2/access.log tandem;",
        "    access_log off;",
        "    client_body_temp_path /stage/1/body;",
        "    proxy_temp_path relative/proxy;",
        "    proxy_pass http://x/run/gw;",
        "}",
    ]


def test_hides_values_and_shows_names() -> None:
    hidden = without_quoted(KEYS)
    assert "KEY-ONE" not in hidden
    assert '"(hidden)" alice;' in hidden
    assert 'default "";' in hidden
    assert without_quoted(r'"a\"secret"') == '"(hidden)"'


def test_diff_of_a_plain_file() -> None:
    assert diff("/d/a.conf", None, "new\n") == {
        "before_header": "/d/a.conf",
        "after_header": "/d/a.conf",
        "before": "",
        "after": "new\n",
    }


def test_diff_of_a_secret_file_says_that_a_key_changed() -> None:
    shown = diff("/d/keys.conf", KEYS, KEYS.replace("ONE", "TWO"), secret=True)
    assert "KEY" not in str(shown)
    assert shown["after"] == shown["before"] + "# (hidden values changed)\n"


def test_complaint_is_one_line_about_the_real_file() -> None:
    output = (
        '2026/11/29 18:01:48 [emerg] 536#536: unexpected "}" in /stage/nginx.conf:7\n'
        "nginx: configuration file /stage/nginx.conf test failed\n"
    )
    assert complaint(output, "/stage", "/etc/gw") == 'unexpected "}" in /etc/gw/nginx.conf:7'
    assert complaint('nginx: [emerg] host not found in upstream "a" in /s/u.conf:1', "/s", "/e").startswith("host not")
    assert complaint("", "/s", "/e") == "nginx -t gave no reason"


def test_complaint_about_a_secret_file_tells_no_key() -> None:
    output = 'nginx: [emerg] unknown directive "KEY-ONE" in /s/keys.conf:3'
    assert complaint(output, "/s", "/e", ("keys.conf",)) == 'unknown directive "(hidden)" in /e/keys.conf:3'
