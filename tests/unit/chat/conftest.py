"""A scripted server, and a teacher that asks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from chat_server import Ask, ChatServer, serve_at_once, teacher_of, word_by_word
from nmt.console import Progress


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """Return a server that translates German word by word."""
    with serve_at_once(word_by_word, monkeypatch) as server:
        yield server


@pytest.fixture
def ask(server: ChatServer, tmp_path: Path) -> Ask:
    """Return a function that translates lines with the options of a teacher, and keeps answers in a directory.

    A line without a translation becomes its reason.
    """

    def ask(lines: Sequence[str], **options: Any) -> list[str]:
        teacher = teacher_of(server, **options)
        with teacher.opened(tmp_path, len(lines)), Progress("translating", shown=False) as progress:
            translations = [*teacher.translations(lines, 0, progress)]
            return [
                texts[0] if texts else str(teacher.reason(line))
                for line, texts in zip(lines, translations, strict=True)
            ]

    return ask
