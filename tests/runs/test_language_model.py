"""Language models: training, resuming, generation and shallow fusion."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command import Command
from fitting import fit, start
from kept_run import settings
from nmt.config import Config
from nmt.data.batching import unpadded
from nmt.errors import CheckpointError, ConfigError
from nmt.layout import RunDir
from nmt.model.transformer import DecoderModel
from nmt.recipes.teachers import run_config
from nmt.runs.checkpoint import choose_weights
from nmt.runs.listing import as_table, summarise
from nmt.runs.log import learning_curve
from nmt.tables import render
from nmt.translate.language_model import LanguageModel
from nmt.translate.loading import Translator
from trained import records

pytestmark = pytest.mark.usefixtures("quick")


def causal(data: Path, **training: Any) -> Config:
    return settings(data, kind="decoder", objective="causal", select_by="auto", **training)


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("causal") / "run"
    fit(causal(data), data, run)
    return run


def test_language_model_learns_target_language(data: Path, tmp_path: Path) -> None:
    session = start(causal(data), data, tmp_path / "run", resume=False)
    assert isinstance(session.model, DecoderModel)
    assert len(session.pairs) == session.windows.mix.n_pairs
    tgt = session.data.tgt
    ids = unpadded(session.validator.pairs.batch(np.arange(len(session.validator.pairs))).tgt_out)
    lines = [session.training_objective.tokenizers[tgt].decode(line.tolist()) for line in ids]
    assert lines == (data / f"valid.{tgt}").read_text(encoding="utf-8").splitlines()
    both = start(causal(data, causal={"languages": ["aa", "bb"]}), data, tmp_path / "both", resume=False)
    assert len(both.pairs) == 2 * len(session.pairs)


def test_language_model_is_selected_by_loss(trained: Path) -> None:
    points = learning_curve(RunDir(trained))
    assert points[-1].perplexity is not None and not points[-1].bleu
    summary = summarise(RunDir(trained))
    lowest = min(point.perplexity for point in points if point.perplexity)
    assert summary.best_bleu is None and summary.best_perplexity == pytest.approx(lowest)
    assert f"ppl {lowest:.1f}" in render("text", [as_table([summary])], None)
    assert not list(RunDir(trained).dev.iterdir())


def test_language_model_does_not_translate(trained: Path) -> None:
    with pytest.raises(ConfigError, match=r"training\.objective: causal"):
        Translator.load(trained)
    with pytest.raises(ConfigError, match=r"trained for causal, so it cannot translate"):
        run_config(trained)  # of a teacher


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    return choose_weights(RunDir(run), causal(run).training.average_last).tensors


def begun(config: Config, data: Path, run: Path) -> dict[str, torch.Tensor]:
    return dict(start(config, data, run, resume=False).model.named_parameters())


def test_translation_starts_from_language_model(
    data: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = weights_of(trained)
    model = begun(settings(data, init_from=str(trained)), data, tmp_path / "run")
    expected = begun(settings(data), data, tmp_path / "random") | theirs
    expected["encoder.embedding.weight"] = theirs["decoder.embedding.weight"]  # they are tied
    assert [name for name, tensor in model.items() if not torch.equal(tensor, expected[name])] == []
    assert "loaded: embeddings, decoder; new: encoder, cross-attention" in capsys.readouterr().err


def test_stack_is_initialised_from_other_stack(data: Path, trained: Path, tmp_path: Path) -> None:
    theirs = weights_of(trained)
    fit(settings(data, max_steps=2), data, tmp_path / "base")
    base = weights_of(tmp_path / "base")
    inner = "layers.0.feed_forward.inner.weight"
    encoder = begun(settings(data, init_from={"encoder": str(trained)}), data, tmp_path / "run")
    assert torch.equal(encoder[f"encoder.{inner}"], theirs[f"decoder.{inner}"])
    init_from = {"encoder": str(tmp_path / "base"), "decoder": str(trained)}
    both = begun(settings(data, init_from=init_from), data, tmp_path / "both")
    assert all(torch.equal(both[name], base[name]) for name in ("encoder.embedding.weight", "encoder.norm.weight"))
    assert torch.equal(both["decoder.norm.weight"], theirs["decoder.norm.weight"])
    model = begun(causal(data, init_from=str(tmp_path / "base")), data, tmp_path / "model")
    assert torch.equal(model["decoder.embedding.weight"], base["encoder.embedding.weight"]), "of the tied ones"
    assert torch.equal(model["decoder.norm.weight"], base["decoder.norm.weight"])


# --- What a trained language model is used for: scores of lines, generated text, shallow fusi ---


def test_scored_perplexity_equals_validation(data: Path, trained: Path, nmt: Command) -> None:
    valid = data / "valid.bb"
    done = nmt("score", "--run", trained, "--ref", valid, "--precision", "float32")
    assert done.status == 0, done.err
    best = min(record["perplexity"] for record in records(trained) if record["kind"] in ("valid", "average"))
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert len(rows) == len(valid.read_text(encoding="utf-8").splitlines())
    log_prob = sum(float(row[2]) for row in rows)
    n_pieces = round(sum(float(row[2]) / float(row[1]) for row in rows))  # by the default length penalty
    assert math.exp(-log_prob / n_pieces) == pytest.approx(best, rel=1e-3)
    assert f"per word ({len(rows)} lines, {n_pieces} pieces," in done.err


def test_generated_text_continues_prefix(trained: Path, nmt: Command, tmp_path: Path) -> None:
    def generate(*options: object) -> list[str]:
        done = nmt(
            "generate", "--run", trained, "--set", "search.max_length_offset=13", "--precision", "float32", *options
        )
        assert done.status == 0, done.err
        return done.out.splitlines()

    samples = generate("--samples", 4)
    assert len(samples) == 4 == len(set(samples))
    assert generate("--samples", 4) == samples
    assert generate("--samples", 4, "--seed", 7) != samples
    assert len(set(generate("--samples", 4, "--top-k", 1, "--temperature", 0.5))) == 1
    assert all(line.startswith("mali") for line in generate("--prefix", "mali", "--samples", 3))
    (tmp_path / "beginnings").write_text("bo\n\nmali te \n", encoding="utf-8")
    texts = generate("--input", tmp_path / "beginnings", "--beam", 2, "--samples", 2)
    assert len(texts) == 6
    assert all(line.startswith("bo") for line in texts[:2]) and all(line.startswith("mali te") for line in texts[4:])
    assert generate("--prefix", "bo", "--beam", 2) == texts[:1]


def test_shallow_fusion_uses_language_model_scores(data: Path, trained: Path, whole: Path, nmt: Command) -> None:
    text = data.parent / "text" / "test.aa"

    def translate(*options: object) -> list[str]:
        done = nmt("translate", "--run", whole, "--input", text, "--n-best", 2, "--beam", 2, *options)
        assert done.status == 0, done.err
        return done.out.splitlines()

    options = ("--precision", "float32")
    plain, fused = translate(*options), translate(*options, "--lm", trained, "--lm-weight", 0.7)
    assert translate(*options, "--set", f"search.lm={trained}", "--set", "search.lm_weight=0") == plain != fused
    done = nmt("translate", "--run", whole, "--input", text, "--lm-weight", 0.7)
    assert (done.status, done.out) == (2, "") and "--set search.lm_weight: no effect " in done.err
    translator = Translator.load(whole, precision="float32")
    language_model = LanguageModel.load(trained, precision="float32")
    search = translator.search_settings({"beam": 2, "lm": str(trained), "lm_weight": 0.7})
    for [best, *_] in translator.translate_lines(text.read_text(encoding="utf-8").splitlines(), search):
        ids = [(part.src_ids, part.tgt_ids) for part in best.parts]
        [by_translator] = translator.forced_decoder().log_probs(ids)
        [by_lm] = language_model.decoder(search).log_probs([((), tgt) for _, tgt in ids])
        assert best.log_prob == pytest.approx(sum(by_translator) + 0.7 * sum(by_lm), abs=1e-3)


def test_language_model_positions_bound_translation(data: Path, whole: Path, tmp_path: Path) -> None:
    config = settings(data, "decoder", objective="causal", select_by="auto", max_steps=1).model_dump()
    config["model"] |= {"positions": "learned", "max_positions": 101}
    fit(Config.model_validate(config), data, tmp_path / "lm")
    translator = Translator.load(whole)
    limits = {"max_length_offset": 10, "min_length": 150, "max_length_ratio": 20.0, "beam": 1}

    def n_pieces(lm: str | None) -> int:
        [[best]] = translator.translate_lines(["mali te bo"], translator.search_settings({**limits, "lm": lm}))
        return len(best.parts[0].tgt_ids)

    assert n_pieces(None) >= 150
    assert n_pieces(str(tmp_path / "lm")) == 100


def test_missing_language_model_of_validation_raises_before_training(data: Path, tmp_path: Path) -> None:
    config = settings(data)
    config = config.model_copy(update={"search": config.search.model_copy(update={"lm": str(tmp_path / "none")})})
    with pytest.raises(CheckpointError, match="none: no such directory"):
        start(config, data, tmp_path / "run", resume=False)
