"""Inputs: which files a path leads to, in which order, how they are opened, and that no archive does harm."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import stat
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest

from documents import zipped
from nmt.data.sources import TrainPath
from nmt.errors import DataError
from nmt.files import compressed as tar_archive
from nmt.prepare.inputs import FORMATS, Input, find_inputs, fingerprints, natural

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHECKSUM = {zstd.CompressionParameter.checksum_flag: 1}  # as the command does
FILES = {"b/f.10.tmx": b"ten", "b/f.2.tmx": b"two", "a.po": b"po", "b/f.1.tmx.gz": gzip.compress(b"one")}
"""In none of the natural orders."""
CONTENT = {"a.po": b"po", "b/f.1.tmx.gz": b"one", "b/f.2.tmx": b"two", "b/f.10.tmx": b"ten"}
"""In natural order."""


def tarred(files: Mapping[str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:  # noqa: A002
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=format) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


ARCHIVES: dict[str, Callable[[Mapping[str, bytes]], bytes]] = {
    "deflated.zip": zipped,
    "stored.zip": lambda files: zipped(files, zipfile.ZIP_STORED),
    "prefixed.zip": lambda files: b"#!/bin/sh\n" + zipped(files),
    "followed.ZIP": lambda files: zipped(files) + b"\n",
    "pax.tar": tarred,
    "gnu.tar": lambda files: tarred(files, tarfile.GNU_FORMAT),
    "a.tgz": lambda files: gzip.compress(tarred(files)),
    "a.tar.bz2": lambda files: bz2.compress(tarred(files)),
    "A.TAR.XZ": lambda files: lzma.compress(tarred(files)),
    "a.tar.zst": lambda files: bytes(zstd.compress(tarred(files), options=CHECKSUM)),
}
each = pytest.mark.parametrize("name", ARCHIVES)


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def read(one: Input) -> bytes:
    with one.open() as file:
        return file.read()


def contents(root: Path, path: str, **settings: str) -> dict[str, bytes]:
    """Name below `path` -> content, in order."""
    inputs = find_inputs(TrainPath(path=path, **settings), root)  # type: ignore[arg-type]
    return {one.name.removeprefix(f"{root / path}/").removeprefix(f"{root}/"): read(one) for one in inputs}


def problem(root: Path, path: str, **settings: str) -> str:
    with pytest.raises(DataError) as caught:
        contents(root, path, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("b/f.2.tmx", ["b/f.2.tmx"]), ("{}/b/f.2.tmx", ["b/f.2.tmx"]), (".", list(CONTENT)),
        ("b", ["f.1.tmx.gz", "f.2.tmx", "f.10.tmx"]), ("b/*.tmx", ["b/f.2.tmx", "b/f.10.tmx"]),
        ("{}/?/f.??.tmx", ["b/f.10.tmx"]), ("**", list(CONTENT)), ("**/*", list(CONTENT)), ("**/**/*", list(CONTENT)),
        ("**/f*.tmx", ["b/f.2.tmx", "b/f.10.tmx"]), ("**/b/*.gz", ["b/f.1.tmx.gz"]),
    ],
)  # fmt: skip
def test_files_folders_and_patterns_are_found(tmp_path: Path, path: str, found: list[str]) -> None:
    names = list(contents(write(tmp_path, FILES), path.format(tmp_path)).items())
    assert names == [(name, next(CONTENT[key] for key in CONTENT if key.endswith(name))) for name in found]


def test_names_are_sorted_naturally() -> None:
    names = ["a/1", "a/2.x", "a/02.y", "a/10", "a/x", "a-1", "b1/c10", "b2/c9", "b10/c1", "c" + "9" * 9999]
    assert sorted(set(names), key=natural) == names


def test_file_name_with_wildcards_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"a[1]*.tmx": b"itself", "a1.tmx": b"no", "[b].po": b"po", "b.po": b"no"})
    assert contents(tmp_path, "a[1]*.tmx") == {"a[1]*.tmx": b"itself"}
    assert contents(tmp_path, "[b].*") == {"[b].po": b"po"}


def test_format_follows_name_or_setting(tmp_path: Path) -> None:
    write(tmp_path, {f"x{number}{suffix.upper()}": b"" for number, suffix in enumerate(FORMATS)})
    inputs = find_inputs(TrainPath(path="."), tmp_path)
    assert [one.format for one in inputs] == list(FORMATS.values())
    assert {one.format for one in find_inputs(TrainPath(path=".", format="csv"), tmp_path)} == {"csv"}
    write(tmp_path, {"corpus": b"", "c.tsv.xz": lzma.compress(b""), "brief.DOCX": b""})
    for path, said in (("corpus", "set format to one of tmx, xliff"), ("brief.DOCX", "Word")):
        assert said in problem(tmp_path, path)
    for source in (TrainPath(path="corpus", format="tsv"), TrainPath(path="c.tsv.xz")):
        assert find_inputs(source, tmp_path)[0].format == "tsv"


def test_folder_members_are_matched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {**FILES, "README": b"", ".a.tmx": b"", "__MACOSX/a.tmx": b"", ".x/a.tmx": b""})
    assert list(contents(tmp_path, ".")) == list(CONTENT)
    assert capsys.readouterr().err == "nmt: .: skipped: names without a known format (README)\n"
    assert list(contents(tmp_path, ".", members="*.tmx")) == ["b/f.2.tmx", "b/f.10.tmx"]
    assert list(contents(tmp_path, ".", members="b/*.1*")) == ["b/f.1.tmx.gz", "b/f.10.tmx"]
    assert capsys.readouterr().err == ""
    assert contents(tmp_path, ".x/a.tmx") == {".x/a.tmx": b""}
    assert "README: the name shows no known format" in problem(tmp_path, ".", members="R*")
    assert "no file matches members: *.xlf; the files are README, a.po" in problem(tmp_path, ".", members="*.xlf")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("absent/a.tmx", "absent/a.tmx: nothing there under"), ("notes/a.txt/b.tmx", "b.tmx: nothing there under"),
        ("*.tmx", "*.tmx: no file matches under"), ("no*", "no*: no file matches under"),
        ("empty", "empty: no files in it under"), ("hidden", "hidden: no files in it under"),
        ("a\0b", "a\0b: nothing there under"), ("/x/y", "/x/y: nothing there; check path and data.root in the config"),
        ("a" * 300, "a" * 300),
        ("notes", "notes: a.txt, b.md: the name shows no known format"),
    ],
)  # fmt: skip
def test_path_without_files_raises(tmp_path: Path, path: str, said: str) -> None:
    write(tmp_path, {"notes/a.txt": b"", "notes/b.md": b"", "hidden/.x": b""})
    (tmp_path / "empty").mkdir()
    expected = said.replace("under", f"under {tmp_path}; check path and data.root in the config")
    assert expected in problem(tmp_path, path)


def test_links_and_special_files_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(tmp_path, {"data/a.tmx": b"a", "other/b.tmx": b"b"}) / "data"
    for name, target in {
        "loop": "..", "again": ".", "c.tmx": "../other/b.tmx", "broken.tmx": "absent", "itself.tmx": "itself.tmx",
        "zero.tmx": "/dev/zero", "../linked": "data",
    }.items():  # fmt: skip
        (data / name).symlink_to(target)
    os.mkfifo(data / "pipe.tmx")
    for path in ("data", "linked", "data/**", "linked/*"):
        assert list(contents(tmp_path, path).values()) == [b"a", b"b"], path
        assert f"nmt: {path}: skipped: links, special files (6)" in capsys.readouterr().err
    assert list(contents(tmp_path, "**/b.tmx")) == ["other/b.tmx"]
    for name, said in {
        "pipe": "a pipe, where a regular",
        "zero": "a device, where a",
        "broken": "nothing there",
    }.items():
        assert said in problem(tmp_path, f"data/{name}.tmx")


# --- archives -------------------------------------------------------------------------------------


@each
def test_archives_are_read_like_folders(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: ARCHIVES[name](FILES)})
    found = contents(tmp_path, name)
    is_compressed_tar = name.lower() not in ("pax.tar", "gnu.tar") and not name.lower().endswith("zip")
    assert list(found.items()) == [(key, CONTENT[key]) for key in (FILES if is_compressed_tar else CONTENT)]
    assert set(contents(tmp_path, name, members="b/*.tmx").values()) == {b"two", b"ten"}
    assert find_inputs(TrainPath(path=name), tmp_path)[0].name.startswith(f"{tmp_path}/{name}/")
    assert contents(tmp_path, ".", members="*f.2.*") == {f"{name}/b/f.2.tmx": b"two"}


def test_forked_process_reopens_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [os.urandom(100_000) for _ in range(3)]
    write(tmp_path, {"a.tar.gz": gzip.compress(tarred({f"{n}.tsv": row for n, row in enumerate(rows)}))})
    first, second, third = find_inputs(TrainPath(path="a.tar.gz"), tmp_path)
    assert read(first) == rows[0]
    opening = Mock(side_effect=lambda path: path.open("rb"))
    monkeypatch.setattr(tar_archive, "open_regular", opening)
    monkeypatch.setattr("os.getpid", lambda: 0)  # as in the child
    assert [read(second), read(third)] == rows[1:] and opening.call_count == 1


@each
def test_skipped_archive_members_are_reported(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    extra = {"README": b"", "../up.tmx": b"", "/root.tmx": b"", "in.zip": b"", "x.tar.gz": b"", "__MACOSX/._a.po": b""}
    write(tmp_path, {name: ARCHIVES[name]({**extra, "./a.tmx": b"first", "a.tmx": b"last", "a\n\x1b.po": b"odd"})})
    assert sorted(contents(tmp_path, name).items()) == [("a.tmx", b"last"), ("a\\n\\x1b.po", b"odd")]
    assert capsys.readouterr().err == (
        f"nmt: {name}: skipped: names that lead out of the archive (2), "
        "names without a known format (README, in.zip, x.tar.gz)\n"
    )
    write(tmp_path, {name: ARCHIVES[name]({"LICENSE": b"", "in.zip": b""})})
    assert problem(tmp_path, name).startswith(f"{name}: LICENSE, in.zip: the name shows no known format")
    write(tmp_path, {name: ARCHIVES[name]({})})
    assert problem(tmp_path, name) == f"{name}: contains no files to read"


def test_links_and_devices_in_archives_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo(f"{kind.decode()}.tmx")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        archive.addfile(tarfile.TarInfo("a.tmx"))
    assert contents(tmp_path, "a.tar") == {"a.tmx": b""}
    assert "skipped: devices (2), links (2)" in capsys.readouterr().err
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zip_:
        for kind, name in ((stat.S_IFLNK, "link.tmx"), (stat.S_IFIFO, "pipe.tmx"), (stat.S_IFREG, "a.tmx")):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = kind << 16
            zip_.writestr(entry, "text")
        zip_.mkdir("folder.tmx")
    assert contents(tmp_path, "a.zip") == {"a.tmx": b"text"}
    assert "skipped: devices (1), links (1)" in capsys.readouterr().err


# --- damage and harm ------------------------------------------------------------------------------


def patched(data: bytes, place: int, new: bytes) -> bytes:
    return data[:place] + new + data[place + len(new) :]


def test_inconsistent_zip_raises(tmp_path: Path) -> None:
    whole, two = zipped({"a.tmx": b"x" * 1000}), zipped({"a.tmx": b"x" * 1000, "b.tmx": b"x" * 1000})
    directory, text = whole.index(b"PK\1\2"), b"x" * 1000
    small = (500).to_bytes(4, "little")
    for said, data in [
        ("a.zip: a.tmx is encrypted; save or pack it without a password", patched(whole, directory + 8, b"\1")),
        ("a.zip: a.tmx is compressed with method 14, ", patched(whole, directory + 10, b"\x0e")),
        ("a.zip: a.tmx is compressed with method 12, ", zipped({"a.tmx": text}, zipfile.ZIP_BZIP2)),
        ("a.zip/a.tmx: not readable as zip: Bad CRC", patched(whole, directory + 24, small)),
        ("a.zip/a.tmx: not readable as zip: Bad CRC", patched(whole, directory + 16, b"\0")),
        ("a.zip/a.tmx: not readable as zip: File name in directory", patched(whole, 30, b"b")),
        ("a.zip/a.tmx: not readable as zip: Bad magic number", patched(whole, 0, b"X")),
        ("a.zip: not readable as zip: File is not a zip file", text),
        ("only names that lead out of the archive (1)", patched(patched(whole, directory + 46, b"\0"), 30, b"\0")),
        (
            "a.zip: 119 bytes that unpack to 4,294,967,295, which is unsafe",
            patched(whole, directory + 24, b"\xff" * 4),
        ),
        ("a.zip/a.tmx: not readable as zip: Bad CRC", patched(whole, directory + 20, b"\5")),
        ("tmx: not readable as zip: ", patched(two, two.rindex(b"PK\1\2") + 42, bytes(4))),  # members overlap
    ]:
        write(tmp_path, {"a.zip": data})
        assert said in problem(tmp_path, "a.zip"), said


def test_damaged_tar_raises(tmp_path: Path) -> None:
    whole = tarred({"a.tmx": b"x" * 1000, "b.tmx": b"x" * 1000})
    long = tarred({"a.tmx": b"x" * 1000, f"{'b' * 200}.tmx": b"x" * 1000})  # the name is before the header of its file
    damaged = [
        (whole[:1536], "not readable as tar: it is cut off"),
        (whole[:2500], "unexpected end of data"),
        (patched(whole, 1540, b"\xff"), "a header of a member is damaged"),
        (b"x" * 1024, "not readable as tar: a header of a member is damaged"),
    ]
    for name, data, said in (
        *(("a.tar", data, said) for data, said in damaged),
        *(("a.tar.gz", gzip.compress(data), said) for data, said in damaged),
        *(("a.tar", long[:size], "not readable as tar: ") for size in (1536 + 512, 1536 + 1024, 1536 + 1200)),
        ("a.tar.gz", gzip.compress(tarred({"a.tmx": bytes(30_000_000)})), "unpack to 30,000,512, which is unsafe"),
        ("a.tar.gz", gzip.compress(whole)[:-4], "a.tar.gz: not readable as gzip: it is cut off"),
        ("a.tar.xz", b"", "a.tar.xz: not readable as xz: it is empty"),
    ):
        write(tmp_path, {name: data})
        assert said in problem(tmp_path, name)


# --- checksums ------------------------------------------------------------------------------------


def hashed(source: TrainPath, root: Path) -> dict[str, str]:
    return fingerprints(find_inputs(source, root, is_quiet=True), root)


def test_fingerprints_are_computed_from_files_on_disk(tmp_path: Path) -> None:
    write(tmp_path, {**FILES, "a.zip": zipped(FILES), "README": b"", ".x.tmx": b""})
    names = ["a.po", "a.zip", "b/f.1.tmx.gz", "b/f.2.tmx", "b/f.10.tmx"]
    expected = [(name, hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()) for name in names]
    assert list(hashed(TrainPath(path="."), tmp_path).items()) == expected
    assert list(hashed(TrainPath(path=".", members="*.tmx"), tmp_path)) == ["a.zip", "b/f.2.tmx", "b/f.10.tmx"]
    other = tmp_path / "other"
    other.mkdir()
    assert list(hashed(TrainPath(path=str(tmp_path / "a.po")), other)) == [str(tmp_path / "a.po")]
    assert list(hashed(TrainPath(path="README", format="tsv"), tmp_path)) == ["README"]
