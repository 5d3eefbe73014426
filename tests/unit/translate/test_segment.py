"""Tests of `search.inline_terms`: glossary terms in the source of a model that was trained with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.errors import ConfigError
from nmt.text.constraints import Glossary, marked
from nmt.translate.files import TranslationFiles, translate_file
from nmt.translate.loading import Translator
from nmt.translate.segment import phrases_of
from nmt.translate.types import Line, Options
from tiny_run import BEAM, PLAIN, make, tiny_config, tiny_tokenizer

INLINE = BEAM.model_copy(update={"inline_terms": True})
WORD = PLAIN[0].split()[0]


@pytest.fixture(scope="module")
def translator() -> Translator:
    config = tiny_config()
    training = config.training.model_copy(update={"modifiers": {"terms": 0.1}, "glossary": "g.tsv"})
    return make(tiny_tokenizer(), config.model_copy(update={"training": training}))


def test_inline_terms_are_in_source_and_not_required(translator: Translator) -> None:
    glossary = Glossary({WORD: "Zürich"})
    [[best]] = translator.translate_lines([Line(PLAIN[0], glossary=glossary)], INLINE)
    tokenizer = translator.tokenizers["de"]
    ids = best.parts[0].src_ids
    [(_, translation)] = marked(ids)
    assert tokenizer.decode(ids[translation]) == "Zürich"
    [[required]] = translator.translate_lines([Line(PLAIN[0], glossary=glossary)], BEAM)
    assert "Zürich" in required.text and best.text != required.text
    assert [*required.parts[0].src_ids] == tokenizer.encode(PLAIN[0])


def test_lines_without_terms_are_unaffected_by_inline_terms(translator: Translator) -> None:
    others = [line for line in PLAIN if WORD not in line.split()]
    found = translator.translate([PLAIN[0], *others], glossary={WORD: "Zürich"}, **INLINE.model_dump())
    assert found[1:] == translator.translate(others, **BEAM.model_dump())


def test_inline_terms_keep_other_constraints(translator: Translator) -> None:
    search = INLINE.model_copy(update={"protect": True})
    line = Line(f"{WORD} 7", terms=("kolo",), glossary=Glossary({WORD: "Zürich"}))
    phrases, _ = phrases_of(line, line.text, search, translator.tokenizers["en"])
    assert sorted(translator.tokenizers["en"].decode(ids) for ids in phrases) == ["7", "kolo"]


def test_parts_of_split_line_have_their_own_inline_terms(translator: Translator) -> None:
    line = Line("Mali bore. Tago ri.", glossary=Glossary({"bore": "Ünrú", "Tago": "[x]"}))
    [[best]] = translator.translate_lines([line], INLINE.model_copy(update={"split": "always"}))
    assert [len(marked(part.src_ids)) for part in best.parts] == [1, 1]


def test_inline_terms_without_training_raise() -> None:
    translator = make(tiny_tokenizer(), tiny_config())
    with pytest.raises(ConfigError, match=r"search\.inline_terms: the model was not trained with"):
        translator.translate(PLAIN, **INLINE.model_dump())


def test_inline_terms_are_reported_and_not_aligned_as_words(
    translator: Translator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{WORD} {line}" for line in PLAIN if WORD not in line.split()]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "g.tsv").write_text(f"{WORD}\tZürich Zürich Zürich\n", encoding="utf-8")
    files = TranslationFiles(glossary=tmp_path / "g.tsv", alignments=tmp_path / "a")
    translate_file(translator, tmp_path / "in", tmp_path / "out", Options(INLINE), files=files)
    assert f"glossary: {len(lines)} terms in {len(lines)} lines\n" in capsys.readouterr().err
    aligned = (tmp_path / "a").read_text(encoding="utf-8").splitlines()
    words = [[int(pair.partition("-")[0]) for pair in pairs.split()] for pairs in aligned]
    assert all(max(of_line) < len(line.split()) for of_line, line in zip(words, lines, strict=True))
