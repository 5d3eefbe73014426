"""A realistic file of each format of documents, and damaged copies of it."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Iterator

from documents import PO, SRT, VTT
from samples_keyed import SAMPLES as KEYED
from samples_markdown import SAMPLES as MARKDOWN
from samples_tables import SAMPLES as TABLES
from samples_xliff import SAMPLES as XLIFF
from samples_xml_strings import SAMPLES as XML_STRINGS

SAMPLES: dict[str, bytes] = {
    "a.txt": "Größe: 5\r\n\r\n  Zwei Zeilen\tund ein Tab\r\n".encode(),
    "a.srt": SRT.encode(),
    "a.vtt": VTT.encode(),
    "a.po": PO.encode(),
    "a.html": "<!doctype html>\n<html><p title='Größe'>Eins <b>zwei</b> drei<br>vier {{ x }}</p></html>\n".encode(),
    **KEYED,
    **MARKDOWN,
    **TABLES,
    **XLIFF,
    **XML_STRINGS,
}
N_DAMAGED = 200
_HOSTILE = (b"<", b">", b"&", b'"', b"'", b"{", b"[", b"\\", b"\0", b"\xff", b"\r", b"\n", b"\t", b"%s", b"<![CDATA[",
            b"&x;", b"]]>", b"--", b"- ", b"|", b":", b",", b"=", b"/*", b"\xed\xa0\x80", b"\xef\xbb\xbf")  # fmt: skip


def damaged(content: bytes, n: int = N_DAMAGED) -> Iterator[bytes]:
    """Yield damaged copies of a file: cut off, with bytes removed, repeated or replaced by those with a meaning; of
    archives, damaged themselves or in one of their members. The copies are the same in each run."""
    source = random.Random(len(content))
    is_archive = zipfile.is_zipfile(io.BytesIO(content))
    for number in range(n):
        yield _with_damaged_member(content, source) if is_archive and number % 4 else _damaged(content, source)


def _damaged(content: bytes, source: random.Random) -> bytes:
    if source.random() < 0.15:
        return content[: source.randrange(len(content) + 1)]
    for _ in range(source.randint(1, 3)):
        start = source.randrange(len(content) + 1)
        end = min(len(content), start + source.choice([0, 1, 5, 40]))
        new = source.choice([b"", content[start:end] * 3, source.choice(_HOSTILE), source.choice(_HOSTILE) * 9])
        content = content[:start] + new + content[end:]
    return content


def _with_damaged_member(content: bytes, source: random.Random) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(written, "w") as copy:
        members = archive.namelist()
        chosen = source.choice(members)
        for member in members:
            data = archive.read(member)
            copy.writestr(member, _damaged(data, source) if member == chosen else data)
    return written.getvalue()
