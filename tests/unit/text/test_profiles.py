"""Profiles of languages, and warnings about text in another language."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.text import profiles as module
from nmt.text.profiles import LEAST, Profiles, checked, trigrams
from sentences import CZECH, sentence_pairs

GERMAN, ENGLISH = ([pair[side] for pair in sentence_pairs(60, seed=8)] for side in (0, 1))
PROFILES = Profiles.of(("de", "en"), sentence_pairs(300))


def said_of(monkeypatch: pytest.MonkeyPatch, lines: list[str], profiles: Profiles | None = PROFILES) -> list[str]:
    """Return the warnings for a text that should be German, in windows of two lines."""
    said: list[str] = []
    monkeypatch.setattr(module, "say", said.append)
    windows = [lines[i : i + 2] for i in range(0, len(lines), 2)]
    assert list(checked(windows, profiles, "de")) == windows
    return said


@pytest.mark.parametrize(
    ("lines", "said"), [(ENGLISH, "looks like English, not German"), (CZECH * 2, "the text does not look like German;")]
)
def test_source_in_another_language_warns_once(monkeypatch: pytest.MonkeyPatch, lines: list[str], said: str) -> None:
    (warning,) = said_of(monkeypatch, lines)
    assert said in warning


@pytest.mark.parametrize(
    "lines",
    [
        GERMAN,
        [],
        ["", "  ", "\t"],
        ENGLISH[:10],
        ["The dog sleeps."],
        [f"{n} 1.5 {n * 3:,} %" for n in range(2000)],
        ["the" * 333] * 9,
        [f"for (x{n} = 0; x < {n}; x++) {{ y[{n}] += f(x, {n}); }}" for n in range(400)],
    ],
    ids=["own", "empty", "blank", "short", "sentence", "numbers", "no spaces", "code"],
)
def test_source_in_correct_or_unclear_language_does_not_warn(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_of(monkeypatch, lines) == []


def test_run_without_profiles_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_of(monkeypatch, ENGLISH, None) == []
    assert said_of(monkeypatch, ENGLISH, Profiles.of(("de", "en"), [("1", "2")])) == []


def test_profile_of_text_without_spaces_uses_characters() -> None:
    chinese = [("the dog sees a train", "那只狗看见了一列火车"), ("the cat sleeps in the house", "猫在房子里睡觉")]
    profiles = Profiles.of(("en", "zh"), chinese)
    assert profiles.other(trigrams(["狗在火车里睡觉"]), "zh") is None
    assert profiles.other(trigrams(["the dog sleeps"]), "zh") == "looks like English, not Chinese"


def test_saved_profiles_are_loaded_and_small(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    assert Profiles.load(path) is None
    PROFILES.save(path)
    assert Profiles.load(path) == PROFILES and path.stat().st_size < 10_000
    assert sum(trigrams(ENGLISH).values()) > LEAST
    path.write_text('{"profiles": {"de": []}}')
    with pytest.raises(DataError):
        Profiles.load(path)
