"""A language model: a decoder alone learns the target language, and a resumed run learns the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kept_run import Died, die_before, differences, kept, settings
from nmt.config import Config
from nmt.data.batching import unpadded
from nmt.errors import ConfigError
from nmt.layout import RunDir
from nmt.model.stacks import DecoderModel
from nmt.recipes.directory import run_config
from nmt.runs.listing import render_text, summarise
from nmt.runs.log import learning_curve
from nmt.runs.weights import choose_weights
from nmt.training.loop import fit
from nmt.training.setup.start import start
from nmt.translate.translator import Translator

pytestmark = pytest.mark.usefixtures("quick")


def causal(data: Path, **training: Any) -> Config:
    return settings(data, kind="decoder", objective="causal", select_by="auto", **training)


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("causal") / "run"
    fit(causal(data), data, run)
    return run


def test_it_learns_the_lines_of_the_target_language(data: Path, tmp_path: Path) -> None:
    session = start(causal(data), data, tmp_path / "run", resume=False)
    assert isinstance(session.model, DecoderModel)
    assert len(session.pairs) == session.windows.mix.n_pairs
    tgt = session.config.data.tgt
    ids = unpadded(session.validator.pairs.batch(np.arange(len(session.validator.pairs))).tgt_out)
    lines = [session.validator.tokenizers[tgt].decode(line.tolist()) for line in ids]
    assert lines == (data / f"valid.{tgt}").read_text(encoding="utf-8").splitlines()
    both = start(causal(data, languages=["aa", "bb"]), data, tmp_path / "both", resume=False)
    assert len(both.pairs) == 2 * len(session.pairs)


def test_it_is_selected_by_its_loss_and_listed_with_its_perplexity(trained: Path) -> None:
    points = learning_curve(RunDir(trained))
    assert points[-1].perplexity is not None and not points[-1].bleu
    summary = summarise(RunDir(trained))
    lowest = min(point.perplexity for point in points if point.perplexity)
    assert summary.best_bleu is None and summary.best_perplexity == pytest.approx(lowest)
    assert f"ppl {lowest:.1f}" in render_text([summary])
    assert not list(RunDir(trained).dev.iterdir())


def test_a_killed_run_learns_the_same(data: Path, trained: Path, tmp_path: Path, monkeypatch: Any) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_before(5, patch)
        fit(causal(data), data, run)
    fit(causal(data), data, run, resume=True)
    assert differences(kept(trained), kept(run)) == []


def test_it_does_not_translate(trained: Path) -> None:
    with pytest.raises(ConfigError, match=r"has learned training\.objective: causal, not to translate"):
        Translator.load(trained)
    with pytest.raises(ConfigError, match=r"has learned training\.objective: causal, not to translate"):
        run_config(trained)  # of a teacher


def test_kind_and_objective_go_together(data: Path) -> None:
    with pytest.raises(ConfigError, match=r"objective: causal needs model\.kind: decoder"):
        settings(data, objective="causal", select_by="auto")
    with pytest.raises(ConfigError, match=r"languages: must name .*, found xx"):
        causal(data, languages=["xx"])
    with pytest.raises(ConfigError, match=r"select_by: chrf needs translations, but objective: causal"):
        settings(data, kind="decoder", objective="causal", select_by="chrf")


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    return choose_weights(RunDir(run), causal(run).training).tensors


def begun(config: Config, data: Path, run: Path) -> dict[str, torch.Tensor]:
    return dict(start(config, data, run, resume=False).model.named_parameters())


def test_a_translation_run_starts_with_its_decoder(
    data: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = weights_of(trained)
    found = begun(settings(data, init_from=str(trained)), data, tmp_path / "run")
    random = begun(settings(data), data, tmp_path / "random")
    assert torch.equal(found["encoder.embedding.weight"], theirs["decoder.embedding.weight"]), "they are tied"
    for name, tensor in found.items():
        if name in theirs:
            assert torch.equal(tensor, theirs[name]), name
        elif name != "encoder.embedding.weight":
            assert torch.equal(tensor, random[name]), name
    said = capsys.readouterr().err
    assert "taken: embeddings, decoder; new: encoder, cross-attention" in said, said


def test_a_stack_starts_with_another(data: Path, trained: Path, tmp_path: Path) -> None:
    theirs = weights_of(trained)
    config = settings(data, init_from={"encoder": str(trained)})
    found = begun(config, data, tmp_path / "run")
    assert torch.equal(
        found["encoder.layers.0.feed_forward.inner.weight"], theirs["decoder.layers.0.feed_forward.inner.weight"]
    )
    fit(settings(data, max_steps=2), data, tmp_path / "base")
    base = weights_of(tmp_path / "base")
    both = settings(data, init_from={"encoder": str(tmp_path / "base"), "decoder": str(trained)})
    found = begun(both, data, tmp_path / "both")
    for name in ("encoder.embedding.weight", "encoder.norm.weight"):
        assert torch.equal(found[name], base[name]), name
    assert torch.equal(found["decoder.norm.weight"], theirs["decoder.norm.weight"])
    model = begun(causal(data, init_from=str(tmp_path / "base")), data, tmp_path / "model")
    assert torch.equal(model["decoder.embedding.weight"], base["encoder.embedding.weight"]), "of the tied ones"
    assert torch.equal(model["decoder.norm.weight"], base["decoder.norm.weight"])


def test_the_output_layer_comes_with_its_stack(data: Path, tmp_path: Path) -> None:
    def untied(config: Config) -> Config:
        return config.model_copy(update={"model": config.model.model_copy(update={"tie_embeddings": "none"})})

    masked, run = settings(data, kind="encoder", objective="masked", max_steps=1), tmp_path / "masked"
    fit(untied(masked), data, run)
    output = choose_weights(RunDir(run), masked.training).tensors["output"]
    for stack, is_taken in (("encoder", False), ("decoder", True)):
        found = begun(untied(settings(data, init_from={stack: str(run)})), data, tmp_path / stack)
        assert torch.equal(found["output"], output) == is_taken, stack
    with pytest.raises(ConfigError, match=rf"nothing for model\.kind = decoder; decoder={run} takes the stack"):
        begun(untied(causal(data, init_from=str(run))), data, tmp_path / "other")


def test_layers_that_are_not_alike_are_refused(data: Path, trained: Path, tmp_path: Path) -> None:
    config = settings(data, init_from=str(trained))
    config = config.model_copy(update={"model": config.model.model_copy(update={"decoder_layers": 2, "n_heads": 4})})
    with pytest.raises(ConfigError) as caught:
        start(config, data, tmp_path / "run", resume=False)
    assert caught.value.problems == [
        f"{trained}: found model.n_heads = 2, wanted 4; --set model.n_heads=2 adopts it",
        f"{trained}: found model.decoder_layers = 1, wanted 2; --set model.decoder_layers=1 adopts it",
    ]
