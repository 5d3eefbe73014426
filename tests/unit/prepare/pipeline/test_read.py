"""Reading aligned files in ranges, which gives the same pairs as reading whole files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.prepare.pipeline import read as parts
from nmt.prepare.pipeline.read import Range, cut_aligned, read_range, read_range_scores
from nmt.text import lines
from nmt.text.lines import read_aligned


def outcome(pairs: Iterator[tuple[str, str]]) -> tuple[list[tuple[str, str]], str | None]:
    """Return the pairs, and the error after them."""
    read = []
    try:
        read.extend(pairs)
    except DataError as error:
        return read, str(error)
    return read, None


def in_ranges(first: Path, second: Path, n_lines: int) -> tuple[list[tuple[str, str]], str | None]:
    """Read two files in ranges one after the other."""
    ranges = cut_aligned([first, second], n_lines)
    assert [part.line for part in ranges] == list(range(1, 1 + n_lines * len(ranges), n_lines))
    return outcome(chain.from_iterable(map(read_range, ranges)))


def write(folder: Path, first: bytes, second: bytes) -> tuple[Path, Path]:
    paths = folder / "a.de", folder / "a.en"
    for path, data in zip(paths, (first, second), strict=True):
        path.write_bytes(data)
    return paths


BOM = b"\xef\xbb\xbf"
LINE = st.sampled_from(
    [
        *(b"", b"a", b"ein Satz", b"\r", b"a\r", b"a\r\r", b"a\x0b\x0cb\x85", b" \t", b"\x00"),
        *(text.encode() for text in ("größer", "\u2028\u0085", "漢字 😀", "\ufeff", "\ufeffx")),
        *(b"gr\xf6\xdfer", b"\xe6\xbc", b"\xc3", b"x" * 39, b"x" * 40, b"x" * 41, b"\x1f\x8b", b"\xff\xfea\x00"),
    ]
)
"""Valid and invalid lines."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


@example(rows=[(BOM, b"x")], ends=(False, True), n_lines=1, block=4)
@given(
    rows=st.lists(st.tuples(LINE, LINE), max_size=30),
    ends=st.tuples(st.booleans(), st.booleans()),
    n_lines=st.integers(1, 12),
    block=st.integers(1, 50),
)
def test_ranges_together_equal_whole_file(
    folder: Path, rows: list[tuple[bytes, bytes]], ends: tuple[bool, bool], n_lines: int, block: int
) -> None:
    """Pairs and errors are equal, with small blocks and lines of at most 40 bytes."""
    sides = (b"\n".join(side) + b"\n" * ends[i] for i, side in enumerate(zip(*rows, strict=True)))
    paths = write(folder, *(sides if rows else (b"", b"")))
    with pytest.MonkeyPatch.context() as patch:
        for module in (lines, parts):
            patch.setattr(module, "LINE_BYTES", 40)
        patch.setattr(parts, "_READ_BYTES", block)
        patch.setattr(parts, "_CUT_BYTES", block)
        whole = outcome(read_aligned(*paths))
        try:
            in_parts = in_ranges(*paths, n_lines)
        except DataError as error:
            assert "must pair line by line" in str(error)
            assert whole[1] is not None
            assert str(error) == whole[1] or "must pair line by line" not in whole[1]
        else:
            assert in_parts == whole or (in_parts[1] and whole[1] and in_parts[0] == whole[0][: len(in_parts[0])])


def test_ranges_with_default_block_size_equal_whole_file(tmp_path: Path) -> None:
    """Some lines are longer than a block, and the line ends differ."""
    first = b"".join(b"%d \xc3\xbc%s\r\n" % (n, b"x" * (n % 97)) for n in range(30_000)) + b"y" * 3_000_000
    second = b"".join(b"%d %s\n" % (n, b"z" * (n % 89)) for n in range(30_000)) + b"end\n"
    paths = write(tmp_path, first, second)
    ranges = cut_aligned(paths, 1 << 12)
    assert [part.n_lines for part in ranges] == [4096] * 7 + [30_001 - 7 * 4096]
    pairs = list(chain.from_iterable(map(read_range, ranges)))
    assert pairs == list(read_aligned(*paths))
    assert pairs[4242] == (f"4242 ü{'x' * (4242 % 97)}", f"4242 {'z' * (4242 % 89)}")


@pytest.mark.parametrize("change", [b"", b"a\nb\n", b"aaaa\nb\nc\nd\n", b"a\n\nb\nc\n\n"])
def test_changed_file_raises(tmp_path: Path, change: bytes) -> None:
    """A file that changes while it is read is rejected, since its pairs could be shifted."""
    paths = write(tmp_path, b"a\nb\nc\nd\n", b"1\n2\n3\n4\n")
    ranges = cut_aligned(paths, 3)
    paths[0].write_bytes(change)
    with pytest.raises(DataError, match=r"a\.de: changed while it was read"):
        list(chain.from_iterable(map(read_range, ranges)))


def test_range_reads_its_scores(tmp_path: Path) -> None:
    paths = write(tmp_path, b"a\nb\nc\n", b"1\n2\n3\n")
    scores = tmp_path / "a.scores"
    scores.write_bytes(b"0.5\r\n -1e-2 \n7\n")
    ranges = [Range.model_validate(part.model_dump()) for part in cut_aligned([*paths, scores], 2)]
    assert [list(read_range_scores(part)) for part in ranges] == [[0.5, -0.01], [7.0]]
    assert [list(read_range(part)) for part in ranges] == [[("a", "1"), ("b", "2")], [("c", "3")]]
    scores.write_bytes(b"1\n2\nnan\n")
    with pytest.raises(DataError, match=r"a\.scores: line 3: 'nan', where a score must be a number"):
        list(read_range_scores(cut_aligned([*paths, scores], 2)[1]))
    scores.write_bytes(b"1\n2\n")
    with pytest.raises(DataError, match=r"a\.de has 3 lines, a\.scores 2: they must pair line by line"):
        cut_aligned([*paths, scores], 2)
