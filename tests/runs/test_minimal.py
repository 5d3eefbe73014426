"""The tutorial docs/minimal.py has the same losses and translations as `nmt train` and `nmt translate`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from fitting import fit
from nmt.config import Config
from nmt.data.batching import Pairs
from nmt.data.corpus import Corpus, lines_of
from nmt.layout import DataDir
from nmt.text.vocabularies import Tokenizers
from nmt.translate.segment import longest_translation
from places import ROOT
from tiny_corpus import tiny_settings
from tiny_run import BEAM, GREEDY, PLAIN, make, texts, tiny_config, tiny_model, words
from trained import records


def settings_of(config: Config, data: Path = Path()) -> Any:
    return MINIMAL["Settings"](config.model, config.training, config.search, *config.data.sides, data)


MINIMAL = runpy.run_path(str(ROOT / "docs" / "minimal.py"))


def test_minimal_losses_equal_nmt_train(tiny_data, tmp_path, capsys, quick):  # noqa: ARG001
    # whole updates
    training = {"max_tokens": 8192, "max_steps": 20, "validate_every_steps": 20, "save_every_steps": 20}
    config = tiny_settings(tiny_data.parent / "text", data={"dir": str(tiny_data)}, training=training)
    fit(config, tiny_data, tmp_path / "run")
    expected = records(tmp_path / "run", "train")
    corpus = Corpus.open(DataDir(tiny_data))
    split = corpus.split("train")
    settings = settings_of(config, tiny_data)
    model, pairs = MINIMAL["make_model"](corpus, settings), Pairs(lines_of(split, "aa"), lines_of(split, "bb"))
    losses = [sums.loss_per_token for sums in MINIMAL["train"](model, pairs, settings)]
    assert losses == [record["loss"] for record in expected]
    assert expected[-1]["epoch"] == 1

    capsys.readouterr()
    MINIMAL["main"](settings)
    printed = capsys.readouterr().out
    assert f"loss {losses[0]:.3f}" in printed and printed.count("\ntranslation ") == 3


def test_minimal_beam_search_finds_translations_of_translator(tokenizer):
    config = tiny_config()
    config = config.model_copy(update={"search": BEAM})
    model, lines = tiny_model(config, tokenizer), [" ".join(words(1 + n % 12, seed=n)) for n in range(24)]
    expected = texts(make(tokenizer, config), lines, BEAM)
    limits = [longest_translation(tokenizer.encode(line), 0, BEAM, None) for line in lines]
    found = [
        tokenizer.decode(MINIMAL["beam_search"](model, tokenizer.encode(line), BEAM, limit))
        for line, limit in zip(lines, limits, strict=True)
    ]
    assert found == expected and len({*found}) > 12


def test_minimal_search_output_equals_translator(tokenizer):
    config = tiny_config()
    config = config.model_copy(update={"search": GREEDY})
    tokenizers = Tokenizers(dict.fromkeys(config.data.pair, tokenizer), joint=True)
    found = MINIMAL["translate"](tiny_model(config, tokenizer), PLAIN, tokenizers, settings_of(config))
    assert found == texts(make(tokenizer, config), PLAIN)
    assert len({*found}) == len(PLAIN)
