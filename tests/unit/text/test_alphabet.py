"""Counting characters: as one by one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fragments import parts
from nmt.text import words as alphabet
from nmt.text.words import count_characters


@given(st.lists(st.lists(parts, max_size=9).map("".join), max_size=5))
def test_any_lines(lines: list[str]) -> None:
    assert count_characters(lines) == Counter("".join(lines))


def test_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alphabet, "_CHARACTERS", 3)
    lines = ["ab", "", "ÄÄ\U0010ffff a", "b\n\x00"]
    assert count_characters(lines) == Counter("".join(lines))
