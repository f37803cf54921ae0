# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake of a model hub, for trials of `hf download` with HF_ENDPOINT: standard library only, Python 3.9 and later.

Serves the folders <root>/<owner>/<name> as repositories with one commit, the SHA-1 of the name, that the revisions
given with --tag lead to as well. Speaks what `hf download` asks: GET /api/models/<repo>/revision/<rev> and
/api/models/<repo>/tree/<rev>, HEAD and GET /<repo>/resolve/<rev>/<file> with ETag, X-Repo-Commit and Range. Files over
--lfs bytes have the ETag of git-lfs (SHA-256), smaller ones git's. --token: refuse who does not bear it. --break N:
the first answer with a large file's content ends after N bytes. --wrong: large files get another content of the same
length. Each request is printed, without its token.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Hub(ThreadingHTTPServer):
    """The server with what it serves."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(("127.0.0.1", options.port), Handler)
        self.options = options
        self.to_break = options.break_after

    def commit(self, repository: str, revision: str) -> str | None:
        """The commit that a revision of a repository is."""
        if not (self.options.root / repository).is_dir():
            return None
        only = hashlib.sha1(repository.encode(), usedforsecurity=False).hexdigest()
        return only if revision in (only, *self.options.tag) else None

    def facts(self, path: Path) -> dict[str, Any]:
        """A file as the hub's tree tells it."""
        content = path.read_bytes()
        told = {"type": "file", "size": len(content), "oid": git_hash(content)}
        if len(content) > self.options.lfs:
            told["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return told

    def told(self, repository: str, commit: str, tree: bool) -> Any:
        """What the hub's API tells of a repository: its files, or what it is."""
        folder = self.options.root / repository
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        entries = [{"path": str(path.relative_to(folder)), **self.facts(path)} for path in files]
        if tree:
            return entries
        siblings = [{"rfilename": entry["path"]} for entry in entries]
        return {"id": repository, "modelId": repository, "sha": commit, "siblings": siblings, "tags": []}


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: Hub

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        """Lead the request to what it asks for."""
        token = self.server.options.token
        told = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree)/([^/]+)", self.path.partition("?")[0])
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path.partition("?")[0])
        found = told or file
        commit = self.server.commit(found[1], told[3] if told else found[2]) if found else None
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            self.refuse(401, "GatedRepo")
        elif not found:
            self.refuse(404, "EntryNotFound")
        elif commit is None:
            self.refuse(404, "RevisionNotFound")
        elif told:
            self.send_json(self.server.told(found[1], commit, tree=told[2] == "tree"))
        else:
            self.send_file(self.server.options.root / found[1] / found[3], commit)

    def refuse(self, status: int, code: str) -> None:
        """An error as the hub has it."""
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_json(self, value: Any) -> None:
        """A JSON answer."""
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def send_file(self, path: Path, commit: str) -> None:
        """A file or, with Range, what it holds from there on."""
        if not path.is_file():
            self.refuse(404, "EntryNotFound")
            return
        content, facts = path.read_bytes(), self.server.facts(path)
        large = "lfs" in facts
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first, last = (int(span[1]), int(span[2] or len(content) - 1)) if span else (0, len(content) - 1)
        body = content[first : last + 1]
        if large and self.server.options.wrong:
            body = bytes(byte ^ 1 for byte in body)
        self.send_response(206 if span else 200)
        self.send_header("ETag", '"%s"' % (facts["lfs"]["oid"] if large else facts["oid"]))
        self.send_header("X-Repo-Commit", commit)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        if span:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        if large and self.server.to_break is not None:
            body, self.server.to_break, self.close_connection = body[: self.server.to_break], None, True
        self.wfile.write(body)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        print(self.command, self.path, self.headers.get("Range", ""), flush=True)


def git_hash(content: bytes) -> str:
    """The hash that git gives a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def main() -> None:
    """Serve until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tag", action="append", default=[])
    parser.add_argument("--token")
    parser.add_argument("--lfs", type=int, default=2**20)
    parser.add_argument("--break", dest="break_after", type=int)
    parser.add_argument("--wrong", action="store_true")
    hub = Hub(parser.parse_args())
    print("listening on http://127.0.0.1:%d" % hub.server_address[1], flush=True)
    hub.serve_forever()


if __name__ == "__main__":
    main()
