"""Decoder-only translation, in which source and target are one sequence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fitting import fit, start
from kept_run import settings
from nmt.config import Config
from nmt.errors import ConfigError
from nmt.model.transformer import DecoderModel
from nmt.share.export import ExportOptions, export
from nmt.translate.files import TranslationFiles, translate_file
from nmt.translate.loading import Translator
from trained import records

pytestmark = pytest.mark.usefixtures("quick")


def decoder(data: Path, **training: Any) -> Config:
    return settings(data, kind="decoder", max_tokens=300, **training)


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("decoder") / "run"
    fit(decoder(data), data, run)
    return run


def test_decoder_only_learns_and_translates(data: Path, trained: Path) -> None:
    first, last = records(trained, "valid")
    assert last["nll"] < first["nll"]
    assert {"bleu", "chrf"} <= last.keys()
    translator = Translator.load(trained, precision="float32")
    lines = (data.parent / "text" / "test.aa").read_text(encoding="utf-8").splitlines()
    for changes in ({"beam": 3}, {"sample": True, "max_length_offset": 16}):
        search = translator.search_settings(changes)
        found = [best for best, *_ in translator.translate_lines(lines, search)]
        pairs = [(part.src_ids, part.tgt_ids) for each in found for part in each.parts]
        values = translator.forced_decoder(search).log_probs(pairs)
        assert [each.log_prob for each in found] == pytest.approx([sum(each) for each in values], abs=1e-3)
    assert len({each.text for each in found}) == len(lines), "samples"


def test_decoder_only_loss_covers_target(data: Path, tmp_path: Path) -> None:
    session = start(decoder(data), data, tmp_path / "run", resume=False)
    assert isinstance(session.model, DecoderModel) and session.model.sees_source
    update = session.updates()[0]
    modified = session.changed_update(update)
    assert modified.n_tokens == update.n_tokens, "the tokens of the targets"
    batch = session.batches.batch(modified.rows)
    assert batch.n_tokens == update.n_tokens < int((batch.tgt_out != 0).sum())


def test_decoder_only_rejects_unsupported_options(data: Path, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.kind: decoder"):
        export(ExportOptions(trained), tmp_path / "exported", "folder")
    translator = Translator.load(trained)
    with pytest.raises(ConfigError, match=r"search\.coverage_penalty"):
        translator.check(translator.search_settings({"coverage_penalty": 0.2}), 1)
    text = data.parent / "text" / "test.aa"
    with pytest.raises(ConfigError, match=r"alignments and attention need an encoder and a decoder"):
        translate_file(translator, text, tmp_path / "out", files=TranslationFiles(alignments=tmp_path / "words"))
    assert not (tmp_path / "out").exists()
