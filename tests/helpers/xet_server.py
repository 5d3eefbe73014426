"""Xet storage on the loopback interface: what `hf_xet` asks a real one for when it uploads.

A file is sent as xorbs, which are sequences of chunks, and a shard, which names the chunks of each file. The formats
are those of the protocol's specification, without compression: set HF_XET_XORB_COMPRESSION_POLICY to none.
"""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Iterator

Answer = tuple[int, bytes, dict[str, str]]
"""Status, body and headers."""

_TOKEN = re.compile(r"/api/models/[^/]+/[^/]+/xet-write-token/main")
_XORB = re.compile(r"/cas/v1/xorbs/default/([0-9a-f]{64})")
_HEADER, _ENTRY = 48, 48  # bytes
_VERIFIED, _EXTENDED = 1 << 31, 1 << 30  # flags of a file in a shard: what stands behind its entries


class XetStore:
    """Uploaded xorbs by hash."""

    def __init__(self) -> None:
        self.xorbs: dict[str, list[bytes]] = {}
        """The chunks of each."""

    def answer(self, endpoint: str, path: str, body: bytes, files: dict[str, bytes] | None) -> Answer | None:
        """Answer a request, unless it is for somebody else.

        files: where the files of a shard are put, by SHA-256; None if the client may not write.
        """
        kind = {"Content-Type": "application/json"}
        if _TOKEN.fullmatch(path):
            if files is None:
                return 403, b"{}", kind
            expiry = int(time.time()) + 3600
            content = {"casUrl": f"{endpoint}/cas", "exp": expiry, "accessToken": "for-xet"}
            return 200, json.dumps(content).encode(), kind
        if match := _XORB.fullmatch(path):
            is_new = match[1] not in self.xorbs
            self.xorbs[match[1]] = list(_chunks(body))
            return 200, json.dumps({"was_inserted": is_new}).encode(), kind
        if path == "/cas/v2/shards" and files is not None:
            for sha256, content in self._files(body):
                files[sha256] = content
            return 200, b'{"type": "result"}\n', kind
        return (404, b"{}", kind) if path.startswith("/cas/") else None  # known chunks, grants: optional

    def _files(self, shard: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield SHA-256 and content of the files of a shard."""
        at = _HEADER
        while (hashed := shard[at : at + 32]) != b"\xff" * 32:
            assert len(hashed) == 32, "the list of files ends in a bookend"
            flags, n_entries = struct.unpack_from("<II", shard, at + 32)
            at += _HEADER
            content = b""
            for _ in range(n_entries):
                xorb = _hex(shard[at : at + 32])
                _, n_bytes, start, end = struct.unpack_from("<IIII", shard, at + 32)
                part = b"".join(self.xorbs[xorb][start:end])
                assert len(part) == n_bytes
                content += part
                at += _ENTRY
            at += _ENTRY * n_entries * bool(flags & _VERIFIED)
            assert flags & _EXTENDED, "the hub needs the SHA-256"
            yield _hex(shard[at : at + 32]), content
            at += _ENTRY


def _chunks(xorb: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(xorb):
        size, scheme = int.from_bytes(xorb[at + 1 : at + 4], "little"), xorb[at + 4]
        assert scheme == 0, "compressed"
        yield xorb[at + 8 : at + 8 + size]
        at += 8 + size


def _hex(digest: bytes) -> str:
    """Return a hash as Xet writes it: four little-endian numbers."""
    return "".join(f"{number:016x}" for number in struct.unpack("<4Q", digest))
