"""The prompt of `nmt translate --interactive`."""

import io
import math
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from nmt.errors import CheckpointError, ConfigError
from nmt.search.settings import SearchConfig
from nmt.translate.interactive import interact
from nmt.translate.loading import Translator
from nmt.translate.types import Confidence, Options, Translation
from tiny_run import BEAM, GREEDY, make, tiny_config, tiny_tokenizer

Capture = pytest.CaptureFixture[str]


def searching(search: SearchConfig) -> Translator:
    config = tiny_config()
    return make(tiny_tokenizer(), config.model_copy(update={"search": search}))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return searching(BEAM)


def refuse(path: Path) -> Translator:
    raise CheckpointError(f"{path}: no such directory")


def shown(
    translator: Translator, lines: Sequence[str], capsys: Capture, opened: Translator | None = None
) -> tuple[list[str], str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        interact(translator, refuse if opened is None else lambda _: opened)
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_line_is_followed_by_probability_and_next_best(translator: Translator, capsys: Capture) -> None:
    [[best, second]] = translator.translate_lines(["mali bore"], BEAM, 2)
    n_pieces = sum(len(part.tgt_ids) + 1 for part in best.parts)
    rows, _ = shown(translator, ["mali bore"], capsys)
    probability = math.exp(best.log_prob / n_pieces)
    assert rows == [best.text, f"  probability per piece {probability:.2f}", f"  next best: {second.text}"]


def test_confidence_of_a_calibrated_run_is_shown(
    translator: Translator, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def estimated(_: Translator, __: object, options: Options, *___: object) -> list[list[Translation]]:
        return [[Translation("ta", confidence=Confidence(61.6, False) if options.confidence else None)]]

    monkeypatch.setitem(translator.__dict__, "has_confidence", True)
    monkeypatch.setattr(type(translator), "translate_window", estimated)
    assert shown(translator, ["mali"], capsys)[0] == ["ta", "  expected chrF 62"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["", "  "], ""),
        ([":quit", "mali"], ""),
        ([":help"], ":run DIR"),
        ([":Run x"], ":run DIR"),
        ([":run"], ":run DIR"),
    ],
)
def test_blank_lines_and_commands_have_no_translation(
    lines: list[str], said: str, translator: Translator, capsys: Capture
) -> None:
    rows, err = shown(translator, lines, capsys)
    assert rows == [] and said in err


def test_run_opens_another_run(translator: Translator, capsys: Capture) -> None:
    rows, _ = shown(translator, [":run runs/other", "mali bore"], capsys, searching(GREEDY))
    assert len(rows) == 2 and "probability" in rows[1]  # greedy search has no next best


def test_run_that_cannot_be_opened_keeps_the_one_before(translator: Translator, capsys: Capture) -> None:
    rows, err = shown(translator, [":run nowhere", "mali bore"], capsys)
    assert len(rows) == 3 and "nowhere: no such directory" in err


def test_beam_size_is_changed_and_kept_for_another_run(translator: Translator, capsys: Capture) -> None:
    lines = [":beam 0", ":beam x", ":beam 1", "mali", ":run other", "mali"]
    rows, err = shown(translator, lines, capsys, searching(BEAM))
    assert [row.split()[0] for row in rows[1::2]] == ["probability"] * 2  # greedy search has no next best
    assert err.count("search.beam") == 2


def test_glossary_is_used_until_another_is_named(translator: Translator, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "terms.tsv").write_text("mali\ttabu\n", encoding="utf-8")
    use = f":glossary {tmp_path / 'terms.tsv'}"
    lines = ["mali bore", use, "mali bore", ":glossary nowhere", "mali bore", ":glossary", "mali bore"]
    rows, err = shown(translator, lines, capsys)
    plain, first, second, after = (row for row in rows if not row.startswith(" "))
    assert "tabu" in first == second and "tabu" not in plain == after and "nowhere" in err
    rows, err = shown(translator, [use, ":run other", "mali bore"], capsys, searching(BEAM))
    assert "tabu" not in rows[0] and "glossary" in err, "it is dropped with another run"


def test_glossary_that_a_search_does_not_support_is_reported(
    translator: Translator, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "terms.tsv").write_text("mali\ttabu\n", encoding="utf-8")

    def check(search: SearchConfig, has_terms: bool, target: str) -> None:  # noqa: ARG001 (of searchers)
        if has_terms:
            raise ConfigError("no terms here")

    monkeypatch.setattr(translator.searcher, "check", check)
    rows, err = shown(translator, [f":glossary {tmp_path / 'terms.tsv'}", "mali", ":glossary", "mali"], capsys)
    assert len(rows) == 3 and "no terms here" in err


def test_interrupt_at_a_terminal_clears_the_line(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    typed: Iterator[object] = iter([signal.SIGINT, "mali bore", ":quit"])

    def answer(_: str) -> str:
        if (line := next(typed)) == signal.SIGINT:
            signal.raise_signal(signal.SIGINT)
        return str(line)

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("nmt.translate.interactive.is_typed", lambda: True)
    interact(translator, refuse)
    assert "probability" in capsys.readouterr().out


@pytest.mark.parametrize("line", [": mali", ":-) mali", "mali :quit"])
def test_text_with_a_colon_is_translated(line: str, translator: Translator, capsys: Capture) -> None:
    assert "probability" in shown(translator, [line], capsys)[0][1]


def test_control_characters_do_not_reach_the_terminal(
    translator: Translator, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(translator), "translate_window", lambda *_: [[Translation("a\x1b[2Jb")]])
    assert shown(translator, ["mali"], capsys)[0] == ["a\\x1b[2Jb"]


@pytest.mark.parametrize(
    ("content", "n_translated", "said"), [(b"mali\nb\xfcre\nta", 2, "not text"), (None, 0, "")], ids=["odd", "closed"]
)
def test_lines_that_are_not_text_are_reported_and_closed_standard_input_has_none(
    content: bytes | None,
    n_translated: int,
    said: str,
    translator: Translator,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    stdin = content and io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="surrogateescape")
    monkeypatch.setattr("sys.stdin", stdin)
    interact(translator, refuse)
    out, err = capsys.readouterr()
    assert out.count("probability") == n_translated and said in err and bool(out) == bool(n_translated)
