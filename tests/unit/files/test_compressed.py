"""Compressed files: what is read, in how much memory, and that nothing cut off or damaged passes for a whole file."""

from __future__ import annotations

import io
import os
import random
import sys
import tracemalloc
from pathlib import Path

import pytest

from damaged_formats import COMPRESSIONS
from nmt.errors import DataError
from nmt.files import compressed
from nmt.files.compressed import DamagedError, decompressed
from nmt.text import lines
from nmt.text.lines import read_lines

TEXT = "".join(f"Satz Nummer {n}, mit Größe: {n * n}.\n" for n in range(300)).encode()


each = pytest.mark.parametrize("suffix", COMPRESSIONS)


def read(packed: bytes, name: str) -> bytes:
    with decompressed(io.BytesIO(packed), name) as file:
        return file.read()


@each
@pytest.mark.parametrize("data", [b"", b"a", TEXT, TEXT * 20, os.urandom(100_000)], ids=len)
def test_compressed_files_are_read(suffix: str, data: bytes) -> None:
    assert read(COMPRESSIONS[suffix](data), f"a{suffix}") == data
    assert read(COMPRESSIONS[suffix](data), f"A{suffix.upper()}") == data


@each
@pytest.mark.parametrize("rest", [b"", b"\0" * 4, b"\0" * 100_000])
def test_concatenated_streams_are_read_as_one_text(suffix: str, rest: bytes) -> None:
    parts = [TEXT, b"", TEXT[:7], b"x" * 200_000, b""]
    assert read(b"".join(map(COMPRESSIONS[suffix], parts)) + rest, f"a{suffix}") == b"".join(parts)


@each
def test_truncated_file_raises(suffix: str) -> None:
    packed = COMPRESSIONS[suffix](TEXT)
    said = f"^a{suffix}: (not readable as .*: it is (cut off|empty)$|its name ends in)"
    for n in range(0, len(packed), 7 if suffix == ".bz2" else 3):
        with pytest.raises(DataError, match=said):
            read(packed[:n], f"a{suffix}")


@each
def test_corrupted_byte_is_detected(suffix: str) -> None:
    packed, random_ = COMPRESSIONS[suffix](TEXT) + COMPRESSIONS[suffix](TEXT), random.Random(1)
    for place in random_.sample(range(len(packed)), 150):
        changed = bytearray(packed)
        changed[place] ^= 1 << random_.randrange(8)
        try:
            assert read(bytes(changed), f"a{suffix}") == TEXT + TEXT
        except DataError as error:
            assert "\n" not in str(error)


@each
def test_data_after_end_raises(suffix: str) -> None:
    second = bytearray(COMPRESSIONS[suffix](TEXT))
    second[0] ^= 1
    for rest in (b"x", TEXT, bytes(second)):
        with pytest.raises(DamagedError, match="other data follows its end"):
            read(COMPRESSIONS[suffix](TEXT) + rest, f"a{suffix}")


@each
def test_document_name_must_match_content(tmp_path: Path, suffix: str) -> None:
    other = next(one for one in COMPRESSIONS if one != suffix)
    for name, data, said in (
        (f"a.de{suffix}", TEXT, rf"its name ends in {suffix}, but .* rename it to a\.de$"),
        (f"a.de{suffix}", COMPRESSIONS[other](TEXT), rf"but its name ends in {suffix}; rename it to a\.de{other}$"),
        ("a.de", COMPRESSIONS[suffix](TEXT), f"rename it to end in {suffix}"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=rf"{name}: .*{said}"):
            list(read_lines(tmp_path / name))


@each
def test_error_reports_last_readable_line(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.de{suffix}"
    data = b"".join(b"%d\n" % random.Random(2).getrandbits(200) for _ in range(20_000))
    path.write_bytes(COMPRESSIONS[suffix](b"one\ntwo\n" + data)[:-40])
    n_read = 0
    with pytest.raises(
        DataError, match=rf"a\.de{suffix}: not readable as \w+ after line (\d+): it is cut off"
    ) as caught:
        for _ in read_lines(path):
            n_read += 1
    assert f"after line {n_read}:" in str(caught.value)


@each
def test_decompression_bombs_use_little_memory(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(COMPRESSIONS[suffix](bytes(1 << 24)))
    monkeypatch.setattr(lines, "LINE_BYTES", 1 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="line 1 has more than 1 MB"):
            list(read_lines(path))
        with path.open("rb") as packed, decompressed(packed, path) as file:
            assert sum(map(len, iter(lambda: file.read(1 << 16), b""))) == 1 << 24
        assert tracemalloc.get_traced_memory()[1] < 3 << 22  # of which .xz takes 8 MB
    finally:
        tracemalloc.stop()


def test_xz_with_huge_dictionary_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "LZMA_BYTES", 1 << 20)  # the preset asks for 8 MB
    with pytest.raises(DamagedError, match=r"a\.xz: not readable as xz: Memory usage limit"):
        read(COMPRESSIONS[".xz"](TEXT), "a.xz")


def test_missing_package_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("backports.zstd", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=r"^a\.zst: .*; install it with pip install backports\.zstd, or with nmt-train"):
        read(b"\x28\xb5\x2f\xfd" + bytes(20), "a.zst")
