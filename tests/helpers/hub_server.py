"""A small Hugging Face hub on the loopback interface: with the requests that `huggingface_hub` makes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from loopback import serving

Files = dict[str, bytes]


class Hub:
    """Repositories by name and revision, each a mapping from path to content, and the requests made so far.

    Models and datasets share their names here. Models can be created and committed to with the token `token`.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, Files]] = {}
        self.requests: list[str] = []
        self.unlisted: set[str] = set()
        """Repositories whose description does not list their files, so that clients must request the tree."""
        self.failing: set[str] = set()
        """Repositories for which the hub answers with a server error."""
        self.large: set[str] = set()
        """Paths of files whose SHA-256 the hub reports, as it does for large files."""
        self.etags: dict[str, str] = {}
        """The ETag of a path, where it is not the SHA-256 of the content."""
        self.sent: dict[str, bytes] = {}
        """What is sent for a path in place of the content, whose size is announced first."""
        self.shas: dict[str, str] = {}
        """The commit that the description of a repository names, where it is another one."""
        self.endpoint = ""
        self.token = "hf_right"
        self.private: dict[str, bool] = {}
        """Whether a repository that was created is private."""
        self.stored: dict[str, bytes] = {}
        """Content of large files by SHA-256, as uploaded."""
        self.refusals: dict[str, list[int]] = {}
        """Part of a path -> the statuses with which the next requests for it are refused; 0 cuts the connection."""
        self.lost: dict[str, list[int]] = {}
        """The same, but the requests are carried out first, and only the answer is lost."""

    def add(self, repository: str, revision: str, files: Files) -> str:
        """Add files at a revision, and return the commit."""
        commit = hashlib.sha1(b"".join(k.encode() + v for k, v in sorted(files.items()))).hexdigest()
        self.repositories.setdefault(repository, {}).update({revision: files, commit: files})
        return commit

    def commit(self, repository: str, revision: str) -> str:
        """Return the commit of a revision."""
        revisions = self.repositories[repository]
        return next(name for name, files in revisions.items() if len(name) == 40 and files is revisions[revision])


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Serve a hub until the block ends; its `endpoint` is the value for HF_ENDPOINT."""

    with serving(type("Handler", (_Handler,), {"hub": hub})) as hub.endpoint:
        yield hub


_API = re.compile(
    r"/api/(?:datasets|models)/(?P<repository>[^/]+/[^/]+)"
    r"(?:/(?P<what>revision|tree|paths-info|preupload|commit)/(?P<rest>.+))?"
)
_RESOLVE = re.compile(r"(?:/datasets)?/(?P<repository>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_LFS = re.compile(r"/(?P<repository>[^/]+/[^/]+)\.git/info/lfs/objects/batch")


def _git_oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub
    _instead = 0

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's own name)
        """Print nothing."""

    def do_GET(self) -> None:
        path, body = urlsplit(self.path).path, self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.hub.requests.append(f"{self.command} {path}")
        for part, statuses in self.hub.refusals.items():
            if part in path and statuses:
                if (status := statuses.pop(0)) == 0:
                    self.close_connection = True
                else:
                    self._refuse("", "not now", status)
                return
        lost = (statuses for part, statuses in self.hub.lost.items() if part in path and statuses)
        self._instead = next(lost, [0]).pop(0)
        if path.startswith("/api/repos/create") or "/preupload/" in path or "/commit/" in path or _LFS.fullmatch(path):
            self._write(path, body)
        elif path.startswith("/stored/"):
            self.hub.stored[hashlib.sha256(body).hexdigest()] = body
            self._json({})
        elif path == "/api/validate-yaml":
            self._json({})
        elif match := _RESOLVE.fullmatch(path):
            self._file(match["repository"], unquote(match["revision"]), unquote(match["path"]))
        elif match := _API.fullmatch(path):
            self._api(match["repository"], match["what"], match["rest"], body)
        else:
            self._refuse("EntryNotFound", f"no such page: {path}")

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 (names that the base class looks up)

    def _write(self, path: str, body: bytes) -> None:
        """Answer a request that needs write access."""
        if self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            self._refuse("", "Invalid credentials in Authorization header", status=401)
        elif path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted['organization']}/{wanted['name']}"
            if name in self.hub.repositories:
                self._refuse("", "You already created this model repo", status=409)
                return
            self.hub.private[name] = wanted.get("visibility") == "private"
            self.hub.add(name, "main", {".gitattributes": b""})
            self._json({"url": f"{self.hub.endpoint}/{name}", "name": name})
        elif match := _LFS.fullmatch(path):
            self._json({"transfer": "basic", "objects": [self._object(one) for one in json.loads(body)["objects"]]})
        elif match := _API.fullmatch(path):
            name = match["repository"]
            files = self.hub.repositories[name]["main"]
            if match["what"] == "preupload":
                paths = [one["path"] for one in json.loads(body)["files"]]
                self._json({"files": [self._mode(one, files) for one in paths]})
            else:
                self._commit(name, dict(files), [json.loads(line) for line in body.splitlines()])

    def _object(self, wanted: dict[str, Any]) -> dict[str, Any]:
        upload = {"upload": {"href": f"{self.hub.endpoint}/stored/{wanted['oid']}"}}
        return wanted | ({} if wanted["oid"] in self.hub.stored else {"actions": upload})

    @staticmethod
    def _mode(path: str, files: Files) -> dict[str, Any]:
        mode, data = "lfs" if path.endswith((".safetensors", ".bin")) else "regular", files.get(path)
        oid = None if data is None else hashlib.sha256(data).hexdigest() if mode == "lfs" else _git_oid(data)
        return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid}

    def _commit(self, name: str, files: Files, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            value = line["value"]
            match line["key"]:
                case "header":
                    if value.get("parentCommit") not in (None, self.hub.commit(name, "main")):
                        self._refuse("", "A commit has happened since", status=412)
                        return
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.hub.stored[value["oid"]]
                    self.hub.large.add(value["path"])
                case "deletedFile":
                    del files[value["path"]]
        commit = self.hub.add(name, "main", files)
        self._json({"commitUrl": f"{self.hub.endpoint}/{name}/commit/{commit}", "commitOid": commit})

    def _revision(self, repository: str, revision: str) -> tuple[str, Files] | None:
        """Return the commit and files of a revision; None after answering with an error."""
        if repository in self.hub.failing:
            self._refuse("", "no disk is left", status=500)
        elif repository not in self.hub.repositories:
            self._refuse("RepoNotFound", "Repository not found", status=401)
        elif revision not in self.hub.repositories[repository]:
            self._refuse("RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return self.hub.commit(repository, revision), self.hub.repositories[repository][revision]
        return None

    def _api(self, repository: str, what: str | None, rest: str | None, body: bytes) -> None:
        quoted, _, folder = (rest or "main").partition("/")
        if (found := self._revision(repository, unquote(quoted))) is None:
            return
        commit, files = found
        if what == "tree":
            self._json([self._entry(name, data) for name, data in files.items() if name.startswith(unquote(folder))])
        elif what == "paths-info":
            is_json = self.headers.get("Content-Type", "") == "application/json"
            wanted = (json.loads(body) if is_json else parse_qs(body.decode()))["paths"]
            self._json([self._entry(name, data) for name, data in files.items() if name in wanted])
        else:
            siblings = [{"rfilename": name} for name in files if repository not in self.hub.unlisted]
            self._json(
                {
                    "id": repository,
                    "sha": self.hub.shas.get(repository, commit),
                    "private": self.hub.private.get(repository, False),
                    "tags": [],
                    "siblings": siblings,
                }
            )

    def _file(self, repository: str, revision: str, path: str) -> None:
        if (found := self._revision(repository, revision)) is None:
            return
        commit, files = found
        if path not in files:
            self._refuse("EntryNotFound", f"no file {path}")
            return
        data = self.hub.sent.get(path, files[path]) if self.command == "GET" else files[path]
        start, end, status = 0, len(data), 200
        if span := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end, status = int(span[1]), int(span[2] or len(data) - 1) + 1, 206
        headers = {
            "ETag": self.hub.etags.get(path, f'"{hashlib.sha256(files[path]).hexdigest()}"'),
            "X-Repo-Commit": commit,
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        self._send(status, data[start:end], headers)

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, code: str, message: str, status: int = 404) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message, "Content-Type": "application/json"}
        self._send(status, json.dumps({"error": message}).encode(), headers)

    def _entry(self, name: str, data: bytes) -> dict[str, Any]:
        entry = {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
        lfs = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return entry | ({"lfs": lfs} if name in self.hub.large else {})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(self._instead or status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with suppress(BrokenPipeError):  # the client was killed
                self.wfile.write(data)
