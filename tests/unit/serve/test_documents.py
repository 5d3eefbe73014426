"""Tests of downloads of translated files, which expire and are bounded."""

from __future__ import annotations

from nmt.serve.documents import BYTES, FILES, SECONDS, Downloads
from served import Clock


def test_downloads_expire_and_are_bounded() -> None:
    clock = Clock()
    downloads = Downloads(clock)
    first = downloads.add("a.txt", b"a")
    clock.now += SECONDS / 2
    second = downloads.add("b.txt", b"b")
    assert downloads.get(first) == ("a.txt", b"a") and first != second
    clock.now += SECONDS / 2
    assert downloads.get(first) is None and downloads.get(second) == ("b.txt", b"b")
    large = downloads.add("c.bin", bytes(BYTES))
    assert downloads.get(second) is None and downloads.get(large) is not None
    assert downloads.get("") is downloads.get("../etc/passwd") is None
    numbers = [downloads.add("d.txt", b"") for _ in range(FILES + 1)]
    kept = [downloads.get(number) is not None for number in [large, *numbers]]
    assert kept == [False, False, *[True] * FILES]  # the oldest are deleted
    assert downloads.get(downloads.add("x" * 1000 + ".txt", b"a")) == ("x" * 196 + ".txt", b"a")
