"""The prompt of `nmt translate --interactive`."""

import io
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.errors import CheckpointError
from nmt.translate.interactive import Prompt, interact
from nmt.translate.types import Confidence, Translation
from tiny_run import BEAM, GREEDY, make, tiny_config, tiny_tokenizer


@pytest.fixture(scope="module")
def prompt() -> Prompt:
    return Prompt.of(make(tiny_tokenizer(), tiny_config()), BEAM)


def refuse(path: Path) -> Prompt:
    raise CheckpointError(f"{path}: no such directory")


def shown(
    prompt: Prompt, lines: Sequence[str], capsys: pytest.CaptureFixture[str], opened: Prompt | None = None
) -> tuple[list[str], str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        interact(prompt, refuse if opened is None else lambda _: opened)
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_line_is_followed_by_probability_and_next_best(prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    [[best, second]] = prompt.translator.translate_lines(["mali bore"], BEAM, 2)
    n_pieces = sum(len(part.tgt_ids) + 1 for part in best.parts)
    rows, _ = shown(prompt, ["mali bore"], capsys)
    probability = math.exp(best.log_prob / n_pieces)
    assert rows == [best.text, f"  probability per piece {probability:.2f}", f"  next best: {second.text}"]


def test_greedy_search_has_no_next_best(prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    greedy = Prompt.of(prompt.translator, GREEDY)
    rows, _ = shown(greedy, ["mali bore"], capsys)
    assert len(rows) == 2
    assert "probability" in rows[1]


def test_confidence_of_a_calibrated_run_is_shown(
    prompt: Prompt, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def estimated(*_: object) -> list[list[Translation]]:
        return [[Translation("ta", confidence=Confidence(61.6, False))]]

    calibrated = replace(prompt, options=replace(prompt.options, confidence=True))
    monkeypatch.setattr(type(prompt.translator), "translate_window", estimated)
    rows, _ = shown(calibrated, ["mali"], capsys)
    assert rows == ["ta", "  expected chrF 62"]


def test_blank_line_shows_nothing(prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(prompt, ["", "  "], capsys) == ([], "")


def test_quit_ends_and_no_further_line_is_read(prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(prompt, [":quit", "mali"], capsys) == ([], "")


def test_run_opens_another_run(prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    other = Prompt.of(prompt.translator, GREEDY)
    rows, _ = shown(prompt, [":run runs/other", "mali bore"], capsys, other)
    assert len(rows) == 2


def test_run_that_cannot_be_opened_keeps_the_one_before(prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    rows, err = shown(prompt, [":run nowhere", "mali bore"], capsys)
    assert len(rows) == 3
    assert "nowhere: no such directory" in err


@pytest.mark.parametrize("line", [":help", ":Run x", ":run"])
def test_other_command_is_reported_with_those_there_are(
    line: str, prompt: Prompt, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, err = shown(prompt, [line], capsys)
    assert rows == []
    assert ":run DIR" in err


@pytest.mark.parametrize("line", [": mali", ":-) mali", "mali :quit"])
def test_text_with_a_colon_is_translated(line: str, prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    rows, _ = shown(prompt, [line], capsys)
    assert "probability" in rows[1]


def test_control_characters_do_not_reach_the_terminal(
    prompt: Prompt, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(prompt.translator), "translate_window", lambda *_: [[Translation("a\x1b[2Jb")]])
    rows, _ = shown(prompt, ["mali"], capsys)
    assert rows == ["a\\x1b[2Jb"]


def test_lines_that_are_not_text_are_reported(
    prompt: Prompt, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"mali\nb\xfcre\nta"), encoding="utf-8", errors="surrogateescape")
    monkeypatch.setattr("sys.stdin", stdin)
    interact(prompt, refuse)
    out, err = capsys.readouterr()
    assert out.count("probability") == 2
    assert "not text" in err


def test_closed_standard_input_has_no_lines(
    prompt: Prompt, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    interact(prompt, refuse)
    assert capsys.readouterr().out == ""
