"""Good small files of each format that `nmt prepare` reads, and damaged copies of them."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from xml.sax.saxutils import escape

from nmt.data.sources import Source, TrainFiles, TrainPath
from nmt.prepare.pairs import parse_score

LANGUAGES = ("de", "en")
NESTED = {"de": "translation.de", "en": "translation.en"}
SURROGATE = re.compile("[\ud800-\udfff]")
N_PAIRS = 12


def pair(number: int) -> tuple[str, str]:
    """Return a pair that no other number has."""
    words = "über Straßen & Plätze <b>hier</b>", "over streets & squares <b>here</b>"
    return f"Satz {number}: {words[0]} {'ja ' * (number % 5)}nein", f"Text {number}: {words[1]} {'y ' * (number % 5)}n"


PAIRS = [pair(number) for number in range(N_PAIRS)]


# --- one function for each format -------------------------------------------------------------------


def _aligned(side: int) -> bytes:
    return "".join(f"{texts[side]}\n" for texts in PAIRS).encode()


def _tsv() -> bytes:
    rows = ["de\ten\tscore", *(f"{de}\t{en}\t{0.1 * number:.2f}" for number, (de, en) in enumerate(PAIRS))]
    return "".join(f"{row}\n" for row in rows).encode()


def _csv() -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "de", "en"])
    for number, (de, en) in enumerate(PAIRS):
        writer.writerow([number, de.replace(":", ","), f'{en} "quoted"' if number % 3 else f"{en}\nnext line"])
    return text.getvalue().encode()


def _jsonl() -> bytes:
    rows = ({"id": number, "de": de, "en": en, "score": number / 7} for number, (de, en) in enumerate(PAIRS))
    return "".join(json.dumps(row, ensure_ascii=row["id"] == 3) + "\n" for row in rows).encode()


def _nested_jsonl() -> bytes:
    rows = ({"translation": {"de": de, "en": en}, "meta": [1.5, None, True]} for de, en in PAIRS)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _table() -> object:
    import pyarrow as pa

    columns = [list(column) for column in zip(*PAIRS, strict=True)]
    return pa.table({"id": list(range(N_PAIRS)), "de": columns[0], "en": columns[1]})


def _parquet(compression: str) -> bytes:
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(_table(), sink, compression=compression, row_group_size=5, write_page_checksum=True)
    return sink.getvalue()


def _arrow(is_stream: bool) -> bytes:
    from pyarrow import ipc

    table, sink = _table(), io.BytesIO()
    with (ipc.new_stream if is_stream else ipc.new_file)(sink, table.schema) as writer:  # type: ignore[attr-defined]
        writer.write_table(table, max_chunksize=5)
    return sink.getvalue()


def _tmx() -> bytes:
    body = "".join(
        f'<tu tuid="{number}"><prop type="score">0.{number}</prop>\n<tuv xml:lang="de-DE"><seg>{escape(de)}</seg></tuv>'
        f'<tuv xml:lang="en"><seg>{escape(en)}<ph x="1">code</ph></seg></tuv></tu>\n'
        for number, (de, en) in enumerate(PAIRS)
    )
    doctype = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    return f'{doctype}<tmx version="1.4"><header srclang="de"/><body>\n{body}</body></tmx>\n'.encode()


def _xliff1() -> bytes:
    body = "".join(
        f'<trans-unit id="{number}"><source>{escape(de)}</source><target state="final">{escape(en)}</target>'
        "</trans-unit>\n"
        for number, (de, en) in enumerate(PAIRS)
    )
    return (
        '<?xml version="1.0"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
        f'<file source-language="de" target-language="en" original="a"><body>\n{body}</body></file></xliff>\n'
    ).encode()


def _xliff2() -> bytes:
    body = "".join(
        f'<unit id="{number}"><segment><source>{escape(de)}</source><target>{escape(en)}</target></segment></unit>\n'
        for number, (de, en) in enumerate(PAIRS)
    )
    return (
        '<xliff version="2.0" srcLang="de" trgLang="en" xmlns="urn:oasis:names:tc:xliff:document:2.0">'
        f'<file id="f">\n{body}</file></xliff>\n'
    ).encode()


def _po() -> bytes:
    head = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    entries = [
        f"#: file.c:{number}\n#, {'fuzzy' if number == 4 else 'c-format'}\nmsgid {json.dumps(en)}\n"
        f"msgstr {json.dumps(de, ensure_ascii=False)}\n\n"
        for number, (de, en) in enumerate(PAIRS)
    ]
    plural = 'msgid "one"\nmsgid_plural "many"\nmsgstr[0] "eins"\nmsgstr[1] "viele"\n\n#~ msgid "o"\n#~ msgstr "a"\n'
    return (head + "".join(entries) + plural).encode()


def _moses() -> bytes:
    return _zip({"C.de-en.de": _aligned(0), "C.de-en.en": _aligned(1), "README": b"free"}, zipfile.ZIP_DEFLATED)


FORMATS: dict[str, tuple[str, Sequence[Callable[[], bytes]]]] = {
    "tsv": (".tsv", [_tsv]),
    "csv": (".csv", [_csv]),
    "jsonl": (".jsonl", [_jsonl, _nested_jsonl]),
    "parquet": (".parquet", [lambda: _parquet("none"), lambda: _parquet("snappy"), lambda: _parquet("zstd")]),
    "arrow": (".arrow", [lambda: _arrow(False), lambda: _arrow(True)]),
    "tmx": (".tmx", [_tmx]),
    "xliff 1.2": (".xlf", [_xliff1]),
    "xliff 2": (".xlf", [_xliff2]),
    "po": (".po", [_po]),
    "moses": (".zip", [_moses]),
    "aligned": ("", [lambda: _aligned(0), lambda: _aligned(1)]),
}
"""Format -> the suffix, and functions that write good files; of aligned text, one for each side."""


# --- compression and archives -----------------------------------------------------------------------


def _zip(members: dict[str, bytes], method: int) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return sink.getvalue()


def _tar(members: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(f"{'long-' * 25}{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return sink.getvalue()


def _zst(content: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return bytes(zstd.compress(content, options={zstd.CompressionParameter.checksum_flag: 1}))


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": _zst,
}


def archived(suffix: str, name: str, content: bytes, rng: random.Random) -> bytes:
    """Put a file into an archive, beside another one that is left out."""
    members = {"notes": b"no text", f"folder/{name}": content}
    if suffix == ".zip":
        return _zip(members, rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    whole = _tar(members)
    return COMPRESSIONS[suffix.removeprefix(".tar")](whole) if suffix != ".tar" else whole


ARCHIVES = (".zip", ".tar", ".tar.gz", ".tar.zst")


# --- damage -----------------------------------------------------------------------------------------

_ODD = [
    b"\0", b"\0" * 600, b"\n", b"\r", b"\r\n", b"\n\n", b"\t", b"\x85", b"\xe2\x80\xa8", b"\x0c", b"\x1a", b"\xff\xfe",
    b"\xfe\xff", b"\xef\xbb\xbf", b"\xff\xfe\0\0", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xe4",
    b'"', b"'", b"\\", b'\\"', b"\\ud800", b"\\u0000", b"\\n", b",", b";", b"|", b"{", b"}", b"[", b"]", b":", b"null",
    b"NaN", b"-Infinity", b"1e999", b"-1", b"9" * 30, b"9" * 5000, b"0x10", b"[" * 100_000, b'{"a":' * 50_000,
    b'{"de": {"en": ', b'"de": "x", ', b"<", b">", b"&", b"&amp;", b"&lt;", b"&#0;", b"&#xD800;", b"&#x110000;", b"&e;",
    b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?xml version='1.0' encoding='utf-16'?>", b"<?a", b"?>", b"<a>" * 200,
    b"<a>" * 50_000, b"<hi>" * 90, b"</seg>", b"<seg>", b"<tu>", b"</tu>", b"<tuv>", b"<source>", b"</target>",
    b"<mrk mtype='seg' mid='1'>", b"<seg-source>", b"<x a='" + b"b" * 100_000 + b"'/>",
    b'<!DOCTYPE a [<!ENTITY e "x">]>',
    b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]>', b"<!ENTITY % p SYSTEM 'http://127.0.0.1:9/'>%p;",
    b'<!DOCTYPE a [<!ENTITY a "' + b"b" * 1000 + b'"><!ENTITY c "' + b"&a;" * 1000 + b'">]>', b" xmlns='x'",
    b" xml:lang='de-AT'", b"encoding='idna'", b'encoding="utf-7"', b'encoding="rot13"', b'encoding="shift_jis"',
    b"charset=utf-16", b"charset=idna", b"charset=undefined", b"charset=latin-1", b"charset=hex",
    b"charset=" + b"x" * 50,
    b'msgid ""\n', b'msgstr "', b'msgstr[99] "x"\n', b'msgid_plural "x"\n', b"#~ ", b"#| ", b"#, fuzzy\n", b'msgctxt "',
    b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 18, b"PK\x01\x02", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0",
    b"\x28\xb5\x2f\xfd",
    b"\x50\x2a\x4d\x18\xff\xff\xff\x7f", b"PAR1", b"ARROW1\0\0", b"\xff" * 8, b"\x80" * 12, b"\x7f\xff\xff\xff",
    b"9999999999 path=", b"0" * 512, b"7" * 11, b"ustar  \0", b"..", b"/", b"../../x", b"\xe2\x80\xae", b"\x1b[2J",
    b"x" * 3_000_000, b"\n" * 100_000,
]  # fmt: skip
"""What is put into files: marks of formats, encodings and compression, and too much of everything."""


def damage(content: bytes, other: bytes, rng: random.Random, moved: list[bool]) -> bytes:
    """Damage a file in one of many ways, and note whether text is moved, so that texts of two pairs may meet; `other`
    is another file, parts of which may be put into it."""
    at, start = rng.randrange(len(content) + 1), rng.randrange(len(other) + 1)
    length, odd = rng.choice([1, 1, 2, 4, 8, 30, 100, 1000]), rng.choice(_ODD)
    byte, flipped = bytes([rng.randrange(256)]), bytes(byte ^ (1 << rng.randrange(8)) for byte in content[at : at + 1])
    ways = [
        (byte, 1), (byte, 1), (flipped, 1), (b"", len(content)), (b"", length), (content[at : at + length], 0),
        (odd, 0), (odd, 0), (odd, len(odd)), (other[start : start + rng.choice([length, len(other)])], 0),
    ]  # fmt: skip
    way = rng.randrange(len(ways) + 1)
    moved.append(way in (4, 5, 8, 9))
    if way == len(ways):
        return _recoded(content, rng)
    new, n_lost = ways[way]
    return content[:at] + new + content[at + n_lost :]


def _recoded(content: bytes, rng: random.Random) -> bytes:
    """Write a text in another encoding, with other line ends, or with a byte order mark."""
    text = content.decode("latin-1" if rng.random() < 0.2 else "utf-8", errors="replace")
    encoding = rng.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "utf-8-sig", "utf-7"])
    if rng.random() < 0.2:
        return text.replace("\n", rng.choice(["\r\n", "\r", "\n\r", "\u2028"])).encode()
    return text.encode(encoding, errors="replace")


Pairs: TypeAlias = list[tuple[str, str]]


@dataclass
class Case:
    """A file, or two aligned ones, and how it is read."""

    source: Source
    n_moves: int
    """By how many damages texts of two pairs may meet."""
    is_damaged_outside: bool = False
    """Whether it was damaged after it was compressed or put into an archive with checksums."""
    expected: Pairs | None = None
    """The pairs that must be found if it is read at all, if that is known."""


def make_case(kind: str, number: int, seed: int, folder: Path) -> Case:
    """Write the files of a case."""
    rng = random.Random(f"{seed} {kind} {number}")
    suffix, makers = FORMATS[kind]
    other = rng.choice(rng.choice([makers for _, makers in FORMATS.values()]))() if rng.random() < 0.3 else b"other"
    n_damages, moved = rng.choice([1, 1, 1, 2, 2, 3, 4]), list[bool]()
    is_aligned, is_outside = kind == "aligned", kind != "moses" and rng.random() < 0.4
    good = [maker() for maker in (makers if is_aligned else [rng.choice(makers)])]
    contents, damaged = [*good], [rng.randrange(len(good)) for _ in range(n_damages)]
    outers = [rng.choice(["", "", *COMPRESSIONS, *([] if is_aligned else ARCHIVES)]) * (kind != "moses") for _ in good]
    for side in [] if is_outside else damaged:
        contents[side] = damage(contents[side], other, rng, moved)
    packed = [_packed(outer, f"file{suffix}", text, rng) for outer, text in zip(outers, contents, strict=True)]
    for side in damaged if is_outside else []:
        packed[side] = damage(packed[side], other, rng, moved)
        contents[side] = contents[side] if outers[side] else packed[side]
    names = [f"file{side}{'' if outer in ARCHIVES else suffix}{outer}" for side, outer in enumerate(outers)]
    for name, content in zip(names, packed, strict=True):
        (folder / name).write_bytes(content)
    if is_aligned:
        return Case(TrainFiles(files=dict(zip(LANGUAGES, names, strict=True))), 0, expected=_expected_of(*contents))
    has_score = kind in ("tsv", "jsonl", "tmx") and b'{"translation"' not in good[0] and rng.random() < 0.3
    source = TrainPath.model_validate({
        "path": names[0], "score": "score" if has_score else None, "format": "moses" if kind == "moses" else None,
        **({"columns": NESTED} if b'{"translation"' in good[0] else {}),
    })  # fmt: skip
    has_sums = kind == "moses" or (is_outside and outers[0] not in ("", ".tar"))
    expected = None if is_outside and outers[0] == ".tar" else _expected(kind, contents[0], source)
    return Case(source, sum(moved), has_sums, expected)


def _packed(outer: str, name: str, content: bytes, rng: random.Random) -> bytes:
    if outer in COMPRESSIONS:
        return COMPRESSIONS[outer](content)
    return archived(outer, name, content, rng) if outer else content


# --- what must be found -------------------------------------------------------------------------------


def _lines(content: bytes) -> list[bytes]:
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [line.removesuffix(b"\r") for line in (lines if lines[-1] else lines[:-1])]


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


def _expected_of(*sides: bytes) -> Pairs | None:
    """Return the pairs of aligned files, None if their numbers of lines differ."""
    src, tgt = ([_text(line) for line in _lines(content)] for content in sides)
    return list(zip(src, tgt, strict=True)) if len(src) == len(tgt) else None


def _expected(kind: str, content: bytes, source: TrainPath) -> Pairs | None:
    """Return the pairs of a file that has records in lines, None if that is not known."""
    rows = [line for line in _lines(content) if line.strip()]
    if kind == "tsv" and rows and rows[0] == b"de\ten\tscore":
        cells = [_text(row).split("\t") for row in rows[1:]]
        cells = [row for row in cells if len(row) == 3 and (not source.score or parse_score(row[2]) is not None)]
        return [(row[0], row[1]) for row in cells]
    if kind == "jsonl":
        try:
            objects = [json.loads(row) for row in rows]
            texts = [(each.get("translation") or {}) if source.columns else each for each in objects]
            scores = [parse_score(each.get("score")) for each in objects]
        except (ValueError, AttributeError, RecursionError):
            return None
        found = [(each.get("de"), each.get("en"), score) for each, score in zip(texts, scores, strict=True)]
        left = [(de, en) for de, en, score in found if not source.score or score is not None]
        return [texts for texts in left if all(isinstance(text, str) and not SURROGATE.search(text) for text in texts)]
    return None
