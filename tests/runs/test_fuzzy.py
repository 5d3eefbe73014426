"""Training with similar pairs beside the source: preparation, updates, resuming, evaluation and translation."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fitting import fit, start
from nmt.api import evaluate
from nmt.config import Config
from nmt.data.batching import Pairs, unpadded
from nmt.data.corpus import Corpus, lines_of
from nmt.data.modifiers import FuzzyMatches
from nmt.errors import ConfigError, DataError
from nmt.layout import DataDir
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import prepare
from nmt.serve.models import load_models
from nmt.text.ids import SEPARATOR
from nmt.text.segments import Codes
from nmt.translate.align import src_word_shares
from nmt.translate.files import TranslationFiles, translate_file
from nmt.translate.loading import Translator
from nmt.translate.memory import TranslationMemory
from nmt.translate.types import Line, Options
from tiny_corpus import tiny_settings
from tiny_run import make, tiny_config, tiny_tokenizer
from trained import assert_same_run, records, train_with_deaths

FUZZY = {"modifiers": {"fuzzy": 0.75, "upper_case": 0.125}}
THRESHOLD = {"fuzzy_threshold": 0.7}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups of four lines that differ in one of six words; the lines of `dev` and `test` are of the same groups."""
    rng, folder = random.Random(3), tmp_path_factory.mktemp("fuzzy-text")
    words = [f"{a}{b}{c}" for a in "bdfglm" for b in "aeiou" for c in "nrst"]
    lines = []
    for _ in range(60):
        *group, one, two, three, four = rng.sample(words, 9)
        lines += [" ".join([*group[:3], word, *group[3:]]) for word in (one, two, three, four)]
    lines += [" ".join(rng.sample(words, 6)) for _ in range(40)]
    parts = {"train": lines[12:] + lines[20:22], "dev": lines[:12:4] + lines[40:44], "test": lines[1:12:4]}
    parts["train"] += lines[2:12:4]
    for name, own in parts.items():
        (folder / f"{name}.aa").write_text("".join(f"{line}\n" for line in own), encoding="utf-8")
        (folder / f"{name}.bb").write_text("".join(f"{line[::-1]}\n" for line in own), encoding="utf-8")
    return folder


def config_of(text: Path, **training: object) -> Config:
    return tiny_settings(text, data=THRESHOLD, training={**FUZZY, "max_steps": 6, **training})


@pytest.fixture(scope="module")
def data(text: Path) -> Path:
    prepare(config_of(text), text / "data", echo=lambda _: None)
    return text / "data"


@pytest.fixture(scope="module")
def run(text: Path, data: Path) -> Path:
    fit(config_of(text), data, text / "run")
    return text / "run"


def test_prepare_stores_most_similar_other_training_line(data: Path) -> None:
    corpus = Corpus.open(DataDir(data))
    for language in corpus.languages:
        train = corpus.split("train").text(language)
        for name in ("train", "valid", "test"):
            lines, rows = corpus.split(name).text(language), corpus.split(name).matches(language)
            assert len(rows) == len(lines) and rows.max() < len(train) and (rows >= 0).mean() > 0.4
            for line, row in zip(lines, rows.tolist(), strict=True):
                n_common = max(sum(a == b for a, b in zip(line.split(), each.split(), strict=True))
                               for each in train if each != line)  # fmt: skip
                if row < 0:
                    assert n_common < 5
                else:
                    assert train[row] != line and len({*line.split()} ^ {*train[row].split()}) == 2 and n_common == 5
    assert (corpus.split("train").matches("aa") < 0).any()


def test_prepare_again_finds_matches_after_threshold_changed(text: Path, tmp_path: Path) -> None:
    said: list[str] = []
    plain = tiny_settings(text)
    prepare(plain, tmp_path / "data", echo=lambda _: None)
    fingerprint = Corpus.open(DataDir(tmp_path / "data")).fingerprint
    assert not [*(tmp_path / "data").glob("*.matches.npy")]
    with pytest.raises(DataError, match=r"set data\.fuzzy_threshold and run nmt prepare again"):
        fit(config_of(text), tmp_path / "data", tmp_path / "run")
    prepare(config_of(text), tmp_path / "data", echo=said.append)
    assert "fuzzy_threshold was added" in said[0]
    assert Corpus.open(DataDir(tmp_path / "data")).fingerprint != fingerprint
    with pytest.raises(DataError, match="not divided into shards"):
        prepare(config_of(text), tmp_path / "other", echo=lambda _: None, sizes=Sizes(shard_pairs=100))


def test_repeated_pairs_do_not_hide_similar_lines(text: Path, data: Path, tmp_path: Path) -> None:
    repeated = [{"files": {"aa": "train.aa", "bb": "train.bb"}, "repeat": 40}]
    prepare(tiny_settings(text, data={**THRESHOLD, "train": repeated}), tmp_path / "data", echo=lambda _: None)
    once, often = (Corpus.open(DataDir(path)).split("train").matches("aa") for path in (data, tmp_path / "data"))
    assert np.array_equal(often[::40] >= 0, once >= 0) and np.array_equal(often[::40], often[39::40])


LABELLED = {"files": {"aa": "train.aa", "label": "train.bb"}}
WITH_LABELS = {**THRESHOLD, "direction": "aa-label", "train": [LABELLED], "valid": LABELLED, "test": {}}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"training": FUZZY}, r"fuzzy: needs data\.fuzzy_threshold"),
        ({"data": THRESHOLD, "training": FUZZY, "tokenizer": {"joint": False, "vocab_size": 330}},
         r"fuzzy needs tokenizer\.joint"),
        ({"data": WITH_LABELS, "training": {"objective": "classification"}, "model": {"kind": "encoder"}},
         r"fuzzy_threshold: no effect on texts with labels"),
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(settings: dict[str, Any], said: str, text: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        tiny_settings(text, **settings)


def test_source_of_pair_is_followed_by_target_of_match(text: Path, data: Path, tmp_path: Path) -> None:
    corpus = Corpus.open(DataDir(data))
    tokenizer = corpus.tokenizers["aa"]
    src, tgt = (corpus.split("train").text(language) for language in ("aa", "bb"))
    matches = corpus.split("train").matches("aa").tolist()
    beside = [[] if match < 0 else tokenizer.encode(tgt[match]) for match in matches]
    lengths = [len(tokenizer.encode(line)) + 1 + len(other) for line, other in zip(src, beside, strict=True)]
    longest = sorted(lengths)[len(lengths) // 2]
    config = tiny_settings(text, data={**THRESHOLD, "max_pieces": longest}, training=FUZZY)
    session = start(config, data, tmp_path / "run", resume=False)
    kinds = {"fuzzy": 0, "upper": 0, "plain": 0, "long": 0}
    for epoch in range(2):
        rows = np.arange(len(session.pairs))
        changed = session.training_objective.changed(session.pairs, rows, epoch)
        sources = [ids.tolist() for ids in unpadded(changed.batch(rows).src)]
        for row, ids in zip(session.pairs.corpus_rows(rows).tolist(), sources, strict=True):
            assert len(ids) <= longest
            if SEPARATOR in ids:
                middle = ids.index(SEPARATOR)
                assert tokenizer.decode(ids[:middle]) == src[row]
                assert ids[middle + 1 :] == beside[row] != []
                kinds["fuzzy"] += 1
                continue
            is_upper = tokenizer.decode(ids) == src[row].upper()
            assert is_upper or tokenizer.decode(ids) == src[row]
            kinds["upper" if is_upper else "long" if lengths[row] > longest else "plain"] += 1
    assert all(kinds.values()), kinds


def test_each_direction_has_matches_of_its_source_after_its_tag(text: Path, data: Path, tmp_path: Path) -> None:
    settings = {**THRESHOLD, "directions": ["aa-bb", "bb-aa"]}
    session = start(tiny_settings(text, data=settings, training=FUZZY), data, tmp_path / "run", resume=False)
    corpus, counts = Corpus.open(DataDir(data)), [0, 0]
    tokenizer, train = corpus.tokenizers["aa"], corpus.split("train")
    texts, matches = ({language: read(language) for language in ("aa", "bb")} for read in (train.text, train.matches))
    rows = np.arange(len(session.pairs))
    sources = unpadded(session.training_objective.changed(session.pairs, rows, 0).batch(rows).src)
    for row, ids in zip(session.pairs.corpus_rows(rows).tolist(), (ids.tolist() for ids in sources), strict=True):
        if SEPARATOR in ids:
            direction, own = divmod(row, train.n)
            src, tgt = ("aa", "bb") if direction == 0 else ("bb", "aa")
            middle = ids.index(SEPARATOR)
            assert ids[0] >= len(tokenizer) and tokenizer.decode(ids[1:middle]) == texts[src][own]
            assert ids[middle + 1 :] == tokenizer.encode(texts[tgt][matches[src][own]])
            counts[direction] += 1
    assert min(counts) > 50


def test_resumed_run_with_matches_equals_uninterrupted_run(text, data, run, tmp_path, monkeypatch):
    [example] = [each for each in records(run, "modifier") if each["modifier"] == "fuzzy"]
    source, _, match = example["src"].partition(" <separator> ")
    assert example["tgt"] == source[::-1] and len({*match.split()} ^ {*example["tgt"].split()}) == 2
    train_with_deaths(config_of(text), data, tmp_path / "parts", monkeypatch, [2, 5])
    assert_same_run(run, tmp_path / "parts")


def test_validation_and_evaluation_read_stored_matches(text: Path, data: Path, run: Path, capsys) -> None:
    config, corpus = config_of(text), Corpus.open(DataDir(data))
    split = corpus.split("test")
    target = corpus.split("train").text("bb")
    similar = ["" if row < 0 else target[row] for row in split.matches("aa").tolist()]
    translator = Translator.load(run)
    lines = [Line(line, similar=other) for line, other in zip(split.text("aa"), similar, strict=True)]
    expected = [best.text for best, *_ in translator.translate_lines(lines)]
    found = evaluate(run)
    assert list(found.translations) == expected
    assert f"{sum(map(bool, similar))} lines translated beside" in capsys.readouterr().err

    pairs = Pairs(lines_of(split, "aa"), lines_of(split, "bb"))
    changed = FuzzyMatches.of(corpus, config.data, "test").with_sources(pairs)
    by_hand = [best.parts[0].src_ids for best, *_ in translator.translate_lines(lines)]
    rows = np.arange(len(pairs))
    assert [ids.tolist() for ids in unpadded(changed.batch(rows).src)] == [[*ids] for ids in by_hand]


def test_memory_of_translation_provides_similar_segments(text: Path, run: Path, tmp_path: Path, capsys) -> None:
    lines = (text / "train.aa").read_text(encoding="utf-8").splitlines()
    first, *words = lines[0].split()
    (tmp_path / "in").write_text("\n".join([lines[0], f"new {' '.join(words)}", "nothing like it"]) + "\n")
    (tmp_path / "tm.tsv").write_text(f"aa\tbb\n{lines[0]}\t{lines[0][::-1]}\n", encoding="utf-8")
    translator, files = Translator.load(run), TranslationFiles(tm=(str(tmp_path / "tm.tsv"),))
    translate_file(translator, tmp_path / "in", tmp_path / "out", files=files)
    err = capsys.readouterr().err
    assert "1 line with exact matches" in err and "1 line translated beside" in err
    written = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    [expected] = translator.translate_lines([Line(f"new {' '.join(words)}", similar=lines[0][::-1])])
    assert written[0] == lines[0][::-1] and written[1] == expected[0].text and expected[0].match == "fuzzy"
    search = translator.search_settings({"exact_matches": False})
    translate_file(translator, tmp_path / "in", tmp_path / "out", Options(search), files)
    assert "2 lines translated beside" in capsys.readouterr().err
    [[own]] = translator.translate_lines([Line(lines[0], similar=lines[0][::-1])])
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines()[0] == own.text
    [direction] = load_models([run], "native", False, (), tm=[str(tmp_path / "tm.tsv")]).directions.values()
    texts = [Line(text, tm=direction.tm) for text in (lines[0], f"new {' '.join(words)}")]
    found = [best for best, *_ in direction.translate_window(texts, Options(translator.config.search))]
    assert [best.match for best in found] == ["exact", "fuzzy"] and found[1].text == expected[0].text
    # the words of the match are not those of the source
    shares = src_word_shares(translator.tokenizers["aa"], own.parts[0].src_ids, lines[0])
    middle = list(own.parts[0].src_ids).index(SEPARATOR)
    assert shares.shape == (6, len(own.parts[0].src_ids)) and not shares[:, middle:].any() and shares[:, 0].any()
    assert first in lines[0]


def test_model_without_matches_needs_exact_matches() -> None:
    translator = make(tiny_tokenizer(), tiny_config())
    memory = TranslationMemory([("a b c d", "x", Codes.NONE)], "de", "en")
    with pytest.raises(ConfigError, match=r"exact_matches: false needs a model trained with"):
        translator.translate(["a"], tm=memory, exact_matches=False)
    assert translator.translate(["a b c e"], tm=memory, beam=1) == translator.translate(["a b c e"], beam=1)
