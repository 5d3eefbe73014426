"""Tests of the translator: order of lines, batches, length limits, stopping, and generation."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
import torch

from nmt.errors import ConfigError, DataError
from nmt.model.inference import DecoderState, InferenceModel
from nmt.model.transformer import DecoderModel
from nmt.runs.model import Origin
from nmt.search.rules import SearchStopped
from nmt.search.settings import SearchConfig
from nmt.text.constraints import Glossary
from nmt.text.ids import EOS, N_SPECIAL, PAD
from nmt.text.segments import Codes
from nmt.text.tokenizer import LosslessTokenizer, Tokenizer
from nmt.translate.files import TranslationFiles, Warnings, translate_file
from nmt.translate.language_model import Generator, LanguageModel, generate_file
from nmt.translate.loading import Translator
from nmt.translate.memory import TranslationMemory
from nmt.translate.search import THREAD_NAME
from nmt.translate.segment import longest_translation
from nmt.translate.types import BLANK_TRANSLATION, Line, Options, Translation
from tiny_run import BEAM, GREEDY, PLAIN, STRANGE, make, texts, tiny_config, words


@pytest.mark.parametrize("search", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_translations_are_in_order(translator: Translator, search: SearchConfig) -> None:
    lines = [line for pair in zip(STRANGE, PLAIN * 3, strict=False) for line in pair]
    one_by_one = {line: texts(translator, [line], search)[0] for line in set(lines)}
    alone = [one_by_one[line] for line in lines]
    assert texts(translator, lines, search) == alone
    assert texts(translator, lines[::-1], search) == alone[::-1]
    assert texts(translator, lines, search.model_copy(update={"batch_tokens": 24})) == alone
    assert len(set(texts(translator, PLAIN, search))) == len(PLAIN), "the model translates different lines differently"


def test_blank_lines_stay_blank_and_are_not_searched(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator.searcher, "search_batch", None)  # calling it would fail
    blank = ["", " ", "\t \u3000", "\u2028", "\x00", "\x1f\x85\r", "\u200b", "\ufeff \u00ad\u200c\u200d"]
    assert list(translator.translate_lines(blank, BEAM, n_best=3)) == [[BLANK_TRANSLATION]] * len(blank)
    assert list(translator.translate_lines([])) == []


LETTERLESS = ["42", "[4]", "***", "12:30", "✓", "3,50 €", "😀 👍🏽", "١٢", "१२३", "…", "* 1 *", "１．"]


def test_lines_without_letters_are_copied_and_not_searched(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator.searcher, "search_batch", None)  # calling it would fail
    for line, copies in zip(LETTERLESS, translator.translate_lines(LETTERLESS, BEAM, n_best=3), strict=True):
        [best] = copies
        assert (best.text, best.score, best.log_prob, best.match, best.searched) == (line, 0.0, 0.0, "copied", [])
    assert translator.translate(["4\n2\x07"], beam=2) == ["4 2 "]


@pytest.mark.parametrize("part", [*LETTERLESS[:-1], "1.", "?"])
def test_parts_without_letters_are_copied(translator: Translator, part: str) -> None:
    search = BEAM.model_copy(update={"split": "always"})
    [[alone]] = translator.translate_lines(["Mali bore."], search)
    [[best, *_]] = translator.translate_window([f"Mali bore. {part}"], Options(search, align=True))
    assert (best.text, best.log_prob) == (f"{alone.text} {part}", alone.log_prob)
    assert best.match is best.parts[0].match is None and {each.match for each in best.parts[1:]} == {"copied"}
    assert best.alignment is not None
    start = len(alone.text) + 1
    expected = [
        ((11 + word.start(), 11 + word.end()), (start + word.start(), start + word.end()))
        for word in re.finditer(r"\S+", part)
    ]
    assert [pair for pair in best.alignment if pair[1][0] >= start] == expected


@pytest.mark.parametrize("text", ["{name}", "https://example.org/a 7", "%s: 42", "<b>{count}</b>"])
def test_text_of_protected_placeholders_is_copied(translator: Translator, text: str) -> None:
    for protect, match in (("placeholders", "copied"), (False, None)):
        [[best]] = translator.translate_lines([text], BEAM.model_copy(update={"protect": protect}))
        assert best.match == match and (best.text == text) == (match == "copied")


KNOWN = TranslationMemory([("42", "forty-two", Codes.NONE), ("Mali bore.", "known", Codes.NONE)], "de", "en")


@pytest.mark.parametrize(
    ("line", "expected", "match"),
    [
        (Line("42", tm=KNOWN), "forty-two", "exact"),
        (Line("Mali bore. 7", tm=KNOWN), "known 7", "exact"),
        (Line("42", glossary=Glossary({"42": "42", "7": "x"})), "42", "copied"),
        (Line("42", glossary=Glossary({"42": "Quax"})), "Quax", None),
        (Line("42", terms=("Quax",)), "Quax", None),
        (Line("42", prefix="mali"), "mali", None),
    ],
)
def test_text_without_letters_is_searched_if_asked(
    translator: Translator, line: Line, expected: str, match: str | None
) -> None:
    [[best]] = translator.translate_lines([line], BEAM.model_copy(update={"split": "always"}))
    assert best.match == match and bool(best.searched) == (match is None)
    assert best.text == expected or (match is None and expected in best.text)


def test_attention_is_that_of_the_first_part_with_letters(translator: Translator, tmp_path: Path) -> None:
    source, files = tmp_path / "in", TranslationFiles(attention=tmp_path / "a.png", alignments=tmp_path / "al")
    source.write_text("42\n[4]\n", encoding="utf-8")
    with pytest.raises(DataError, match="no line of the text has letters to translate"):
        translate_file(translator, source, tmp_path / "out", Options(GREEDY), files=files)
    source.write_text("42 ✓\nmali bore\n", encoding="utf-8")
    translate_file(translator, source, tmp_path / "out", Options(GREEDY), files=files)
    assert (tmp_path / "a.png").stat().st_size and (tmp_path / "al").read_text().startswith("0-0 1-1\n")


def test_line_of_letters_that_are_not_read_is_blank(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "letters", {"ـ": ""})
    translator = make(tokenizer, tiny_config())
    monkeypatch.setattr(translator.searcher, "search_batch", None)  # calling it would fail
    assert list(translator.translate_lines(["ـ", "ـ \u200c"], BEAM)) == [[BLANK_TRANSLATION]] * 2


def test_translation_contains_no_line_break(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = make(tokenizer, tiny_config())
    bytes_of_breaks = [N_SPECIAL + byte for byte in b"\n\r"]
    with torch.no_grad():  # makes these pieces the most probable
        translator.searcher.models[0].output_weight[bytes_of_breaks] *= 32.0
    decoded: list[int] = []
    decode = LosslessTokenizer.decode
    monkeypatch.setattr(LosslessTokenizer, "decode", lambda self, ids: (decoded.extend(ids), decode(self, ids))[1])
    assert not any({"\n", "\r"} & set(text) for text in texts(translator, [*STRANGE, *PLAIN], BEAM))
    assert set(bytes_of_breaks) & set(decoded)


def test_batches_stay_within_token_budget(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    start = InferenceModel.start

    def spy(model: InferenceModel, src: torch.Tensor, *more: object) -> DecoderState:
        shapes.append(tuple(src.shape))
        return start(model, src, *more)

    monkeypatch.setattr(InferenceModel, "start", spy)
    lines = [" ".join(words(1 + i % 13, seed=i)) for i in range(60)] + [" ".join(words(90))]
    search = GREEDY.model_copy(update={"batch_tokens": 100, "max_length_ratio": 0.2})
    assert len(texts(translator, lines, search)) == 61
    assert all(rows * longest <= 100 or rows == 1 for rows, longest in shapes)
    assert sum(rows for rows, _ in shapes) == 61
    assert sum(longest > 100 for _, longest in shapes) == 1, "the line that exceeds the budget has its own batch"
    assert len(shapes) < 20


@pytest.mark.parametrize("n_threads", [1, 2])
def test_search_stops_within_batch(translator: Translator, n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    search, asked = BEAM.model_copy(update={"min_length": 9, "batch_tokens": 160}), []  # two batches

    def should_stop() -> bool:
        asked.append(1)
        return len(asked) > 4

    with pytest.raises(SearchStopped):
        list(translator.translate_window(PLAIN, Options(search), should_stop=should_stop))
    assert len(asked) <= 4 + n_threads  # no thread starts another step after the stop
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]
    found = translator.translate_window(PLAIN, Options(BEAM), should_stop=lambda: False)
    assert [best.text for [best] in found] == texts(translator, PLAIN, BEAM)
    monkeypatch.setattr(InferenceModel, "start", None)  # no batch starts
    with pytest.raises(SearchStopped):
        list(translator.translate_window(PLAIN, Options(BEAM), should_stop=lambda: True))


def test_n_best_translations_are_sorted_by_score(translator: Translator) -> None:
    for translations, [best] in zip(
        translator.translate_lines(PLAIN, BEAM, n_best=3), translator.translate_lines(PLAIN, BEAM), strict=True
    ):
        assert 2 <= len(translations) <= 3  # different pieces may spell the same text
        assert translations[0].text == best.text
        scores = [translation.score for translation in translations]
        assert scores == sorted(scores, reverse=True)
        assert all(translation.log_prob < translation.score < 0 for translation in translations)


@pytest.mark.parametrize("line", [PLAIN[1], f"{PLAIN[1]}. {PLAIN[3]}."], ids=["sentence", "sentences"])
def test_n_best_translations_have_different_texts(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    search = SearchConfig(beam=8, max_length_ratio=0.5, split="always")
    tokenizer = type(translator.tokenizers[translator.config.data.tgt])
    decode = tokenizer.decode
    monkeypatch.setattr(tokenizer, "decode", lambda self, ids: decode(self, ids)[:12])  # equal for different pieces
    beam, found = (next(translator.translate_lines([line], search, n_best=n)) for n in (8, 3))
    assert 3 < len(beam) < 8, "the beam has fewer different texts"
    assert [each.text for each in found] == list(dict.fromkeys(each.text for each in beam))[:3]
    assert texts(translator, [line], search) == [found[0].text]
    drawn = search.model_copy(update={"sample": True, "top_k": 1})
    [samples] = translator.translate_lines([line], drawn, n_best=3)
    assert len(samples) == 3 and len({each.text for each in samples}) == 1


@pytest.mark.parametrize(
    ("ids", "n_given", "ratio", "longest"),
    [
        ([20, 21] * 8, 3, 2.0, 16 + 10 + 3),
        ([20, 21] * 7 + [22, 23], 0, 2.0, 2 * 16 + 10),
        ([20] * 8, 0, 0.5, 4 + 10),
    ],
)
def test_repetitive_source_limits_length(ids: list[int], n_given: int, ratio: float, longest: int) -> None:
    search = SearchConfig(max_length_ratio=ratio, max_length_offset=10)
    assert longest_translation(ids, n_given, search, None) == longest


def check_cut(translator: Translator, tokenizer: Tokenizer, long: str, n_pieces: int) -> None:
    """Only these pieces of the long line are translated."""
    whole = GREEDY.model_copy(update={"split": "never"})
    [first], [second] = translator.translate_lines([PLAIN[2], long], whole)
    start = tokenizer.decode(tokenizer.encode(long)[:n_pieces])
    assert (first.cut, second.cut, second.text) == (False, True, texts(translator, [start], whole)[0])


def test_learned_positions_truncate_long_line_with_warning(tokenizer: Tokenizer, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    translator, long = make(tokenizer, tiny_config(positions="learned", max_positions=20)), " ".join(words(40))
    check_cut(translator, tokenizer, long, 19)
    whole = GREEDY.model_copy(update={"split": "never"})
    (tmp_path / "in").write_text(f"{PLAIN[2]}\n{long}\n")
    translate_file(translator, tmp_path / "in", tmp_path / "out", Options(whole))
    assert (
        "nmt: 1 line with more pieces than the model supports (model.max_positions, or 4 times data.max_pieces); "
        "only the start was translated: 2\n"
    ) in capsys.readouterr().err


def test_very_long_line_is_truncated(tokenizer: Tokenizer) -> None:
    config = tiny_config()
    config = config.model_copy(update={"data": config.data.model_copy(update={"max_pieces": 5})})
    check_cut(make(tokenizer, config), tokenizer, " ".join(words(400)), 20)


def test_unfinished_translations_are_counted(translator: Translator, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    endless = SearchConfig(beam=2, max_length_ratio=0.0, max_length_offset=2)
    n_unfinished = sum(not best.finished for [best] in translator.translate_lines(PLAIN, endless))
    assert n_unfinished > 1
    (tmp_path / "in").write_text("\n".join([*PLAIN, ""]))
    translate_file(translator, tmp_path / "in", tmp_path / "out", Options(endless))
    assert capsys.readouterr().err == (
        f"nmt: {n_unfinished} translations cut off at the length limit (search.max_length_ratio, max_length_offset)\n"
    )
    assert Warnings().finish() == []


def test_lines_that_lost_placeholders_are_counted(translator: Translator, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "in").write_text(f"{PLAIN[0]} %s\n{PLAIN[1]} 12\n{PLAIN[0]} https://example.org/a {{name}}\n")
    for search, noted in ((GREEDY, ["2 lines"]), (GREEDY.model_copy(update={"protect": "placeholders"}), [])):
        translate_file(translator, tmp_path / "in", tmp_path / "out", Options(search))
        assert re.findall("nmt: (.* lines) .*search.protect", capsys.readouterr().err) == noted


@pytest.mark.parametrize(
    ("source", "text", "is_lost"),
    [
        ("%s und %s", "%s and", True),
        ("{a} <b>x</b> 7", "{a} <b>x</b> seven", False),
        ("$a und $ab", "$ab", True),
        ("http://a.org, http://a.org/b", "http://a.org/b", True),
        ("%s, %d!", "%d: %s.", False),
    ],
)
def test_each_occurrence_of_placeholder_must_be_in_translation(source: str, text: str, is_lost: bool) -> None:
    warnings = Warnings()
    warnings.add(1, Line(source), [Translation(text)])
    assert warnings.counts.get("lost", 0) == is_lost


def test_source_ends_with_eos(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    """Sources end with `</s>`, as in training."""
    translator = make(tokenizer, tiny_config())
    read = []
    start = InferenceModel.start
    monkeypatch.setattr(InferenceModel, "start", lambda model, src, *more: read.append(src) or start(model, src, *more))
    texts(translator, PLAIN[:3])
    rows = {tuple(i for i in row.tolist() if i != PAD) for src in read for row in src}
    assert rows == {(*tokenizer.encode(line), EOS) for line in PLAIN[:3]}


# --- text generation --------------------------------------------------------------------------


SAMPLES = SearchConfig(sample=True, max_length_ratio=0.0, max_length_offset=10)


@pytest.fixture(scope="module")
def language_model(tokenizer: Tokenizer) -> LanguageModel:
    config = tiny_config(kind="decoder", positions="learned", max_positions=60)
    torch.manual_seed(3)
    model = DecoderModel(config.model, len(tokenizer)).eval()
    return LanguageModel(model, tokenizer, config, torch.device("cpu"), "float32", Origin(Path("run"), 1, "raw", ""))


def test_samples_depend_only_on_line_number(language_model: LanguageModel) -> None:
    beginnings = ["mali", "", "  ", *PLAIN, "mali"]
    together = list(Generator(language_model, SAMPLES, 3).lines(beginnings))
    for beginning, lines in zip(beginnings, together, strict=True):
        assert [line.startswith(beginning.strip()) for line in lines] == [True] * 3
    assert together[0] != together[-1]
    tight = SAMPLES.model_copy(update={"batch_tokens": 20})
    assert list(Generator(language_model, tight, 3).lines(beginnings)) == together
    assert [lines[:1] for lines in together] == list(Generator(language_model, SAMPLES, 1).lines(beginnings))


def test_generated_lines_end_at_maximum_length(
    language_model: LanguageModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = Generator(language_model, SAMPLES, 40)
    generate_file(generator, None, tmp_path / "out", prefix="mali")
    assert (tmp_path / "out").read_text(encoding="utf-8").count("\n") == 40
    assert capsys.readouterr().err == "nmt: 40 lines were cut off at the maximum length (search.max_length_offset)\n"
    longer = Generator(language_model, SAMPLES.model_copy(update={"max_length_offset": 56}), 40)
    list(longer.lines([""]))
    assert 0 < longer.n_unfinished < 40 == generator.n_unfinished


@pytest.mark.parametrize(
    ("search", "n_best", "problem"),
    [
        (SAMPLES, 0, "must be from 1 to"),
        (SAMPLES, 10**9, "must be from 1 to"),
        (BEAM, 4, r"4 needs a beam of at least 4, found search\.beam 3$"),
    ],
)
def test_number_of_translations_out_of_range_raises(
    translator: Translator, search: SearchConfig, n_best: int, problem: str
) -> None:
    with pytest.raises(ConfigError, match=f"^n_best: {problem}"):
        translator.translate_lines(["mali"], search, n_best=n_best)


@pytest.mark.parametrize(
    ("search", "problem"),
    [
        (SearchConfig(coverage_penalty=0.2), r"coverage_penalty: model\.kind: decoder has no cross-attention"),
        (SearchConfig(beam=2), r"n_best: 3 needs a beam of at least 3"),
    ],
)
def test_generator_with_translation_settings_raises(
    language_model: LanguageModel, search: SearchConfig, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        Generator(language_model, search, 3)
