"""Settings for a number of pairs and of minutes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from command import Command
from nmt.config import Config
from nmt.config.load import load_config
from nmt.errors import ConfigError
from nmt.files.yaml12 import dump_yaml
from nmt.recipes import presets
from nmt.recipes.presets import DROPOUTS, LARGE, PIECES, SIMCUT_PASSES, SIZES, UPDATE_SHARE, Size, preset
from nmt.training.settings import DEFAULT_MAX_TOKENS

SHORT, SMALL, MEDIUM, _ = SIZES
Machine = Callable[..., list[Config]]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Replace the measurement: `machine(rate)` has the machine learn so many tokens per second with all models, or
    with the large one `large`, and returns the settings that are measured; before it, it learns 10,000."""
    measured: list[Config] = []

    def learn(rate: float, large: float | None = None) -> list[Config]:
        def seconds(config: Config, _length: int) -> float:
            measured.append(config)
            is_large = config.model.d_model == LARGE.d_model
            return config.training.update_tokens / (large if large and is_large else rate)

        monkeypatch.setattr(presets, "seconds_per_update", seconds)
        return measured

    learn(1e4)
    return learn


def rate(n_pairs: int, passes: float) -> float:
    """The tokens per second that make so many passes in the share of an hour that is left for updates."""
    return n_pairs * PIECES * passes / (3600 * UPDATE_SHARE) * 1.001


def rate_of(size: Size, share: float = 1.0) -> float:
    """The tokens per second that make this share of the least updates for a size in an hour."""
    return size.update_tokens * size.min_updates * share / 3600 * 1.001


def chosen(folder: Path, n_pairs: int, *overrides: str) -> Config:
    """The settings for an hour, read again from a file."""
    (folder / "preset.yaml").write_text(preset(None, n_pairs, 60, overrides), encoding="utf-8")
    return load_config(folder / "preset.yaml")


@pytest.mark.parametrize(
    ("n_pairs", "rate", "large", "size"),
    [
        (MEDIUM.min_pairs, rate_of(MEDIUM), rate_of(LARGE, 0.99), MEDIUM),
        (MEDIUM.min_pairs, rate_of(MEDIUM, 0.99), rate_of(LARGE, 0.99), SMALL),
        (MEDIUM.min_pairs - 1, rate_of(MEDIUM), rate_of(LARGE), SMALL),
        (10**8, rate_of(SMALL, 0.99), rate_of(LARGE, 0.99), SHORT),
        (1_000, rate_of(SMALL), rate_of(LARGE), SMALL),
        (LARGE.min_pairs, rate_of(MEDIUM), rate_of(LARGE), LARGE),
        (10**8, rate_of(MEDIUM), rate_of(LARGE), LARGE),
    ],
)
def test_size_suits_pairs_and_updates(machine, tmp_path, n_pairs, rate, large, size):
    machine(rate, large)
    model = chosen(tmp_path, n_pairs).model
    assert (model.d_model, model.d_ff, model.encoder_layers) == (size.d_model, size.d_ff, size.layers)


def test_large_preset_learns_as_iwslt14(machine, tmp_path):
    machine(rate_of(MEDIUM), rate_of(LARGE) * 100)
    large, shipped = chosen(tmp_path, LARGE.min_pairs), load_config("iwslt14.yaml")
    limits = {
        "run_dir", "max_steps", "max_minutes", "planned_steps", "warmup_steps", "validate_every_steps",
        "save_every_steps",
    }  # fmt: skip
    assert large.model == shipped.model
    assert large.training.model_dump(exclude=limits) == shipped.training.model_dump(exclude=limits)


def test_larger_model_is_not_measured_where_smaller_one_is_slow(machine):
    measured = machine(rate_of(MEDIUM, 0.9))
    preset(None, 10**6, 60)
    assert {config.model.d_model for config in measured} == {SMALL.d_model}


def test_simcut_is_for_many_passes_and_makes_half_the_updates(machine, tmp_path):
    n_pairs = MEDIUM.min_pairs - 1
    machine(rate(n_pairs, SIMCUT_PASSES))
    often = chosen(tmp_path, n_pairs).training
    machine(rate(n_pairs, SIMCUT_PASSES - 1))
    rarely = chosen(tmp_path, n_pairs).training
    assert (often.has_consistency, rarely.has_consistency) == (True, False)
    assert often.validate_every_steps < 0.6 * rarely.validate_every_steps


def test_fewer_passes_have_less_dropout(machine, tmp_path):
    little, more, _ = DROPOUTS
    dropouts = []
    for passes in (0.9 * little, little, 0.9 * more, more):
        machine(rate(1000, passes))
        model = chosen(tmp_path, 1000).model
        dropouts.append((model.embedding_dropout, model.residual_dropout))
    assert dropouts == [(0, 0), (0.05, 0.05), (0.05, 0.05), (0.1, 0.1)]


def test_training_ends_by_minutes_with_cooldown_and_time_for_validations(machine, tmp_path, capsys):
    machine(rate(1000, 4))
    training = chosen(tmp_path, 1000).training
    assert training.max_minutes == 60 and training.cooldown and training.max_steps == 1_000_000
    assert training.warmup_steps < training.validate_every_steps * 10
    nominal = 1000 * PIECES * 4 / training.update_tokens
    assert training.planned_steps == pytest.approx(nominal, abs=1)
    assert f"{training.planned_steps} updates: 4.0 passes" in capsys.readouterr().err
    assert "validate_lines: 200" in preset(None, 1000, 3) and training.validate_lines is None


@pytest.mark.usefixtures("machine")
def test_larger_text_has_larger_vocabulary(tmp_path):
    sizes = [chosen(tmp_path, n).tokenizer.vocab_size for n in (1_000, 100_001, 10**9)]
    assert sizes == sorted(set(sizes))


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("n_pairs", "held_out"), [(500, 100), (8000, 400), (50_000, 1000)])
def test_small_text_holds_out_fewer_pairs(tmp_path, n_pairs, held_out):
    [corpus] = chosen(tmp_path, n_pairs, "data.direction=lld-it").data.train
    assert (corpus.valid, corpus.test) == (held_out, held_out)
    assert corpus.files == {"lld": "train.lld", "it": "train.it"}


@pytest.mark.usefixtures("machine")
def test_overrides_replace_settings_and_reasons(tmp_path):
    config = chosen(tmp_path, 1000, "data.direction=fr-en", "training.optimizer=adam", "model.d_ff=64")
    assert (config.data.direction, config.training.optimizer, config.model.d_ff) == ("fr-en", "adam", 64)
    text = preset(None, 1000, 60)
    assert "train.fr" not in text and "AdamW" in text
    assert "AdamW" not in preset(None, 1000, 60, ["training.optimizer=adam"])


def test_other_settings_are_kept(machine, tmp_path):
    measured = machine(1e4)
    tree = {
        "data": {"direction": "de-en", "train": [{"path": "a.tmx"}]},
        "training": {"seed": 7, "consistency": "simcut", "max_epochs": 3, "patience": 2},
        "model": {"d_ff": 8},
    }
    (tmp_path / "mine.yaml").write_text(dump_yaml(tree))
    (tmp_path / "preset.yaml").write_text(preset(str(tmp_path / "mine.yaml"), 10**6, 60), encoding="utf-8")
    config = load_config(tmp_path / "preset.yaml")
    assert not any(each.training.has_consistency for each in measured)
    assert (config.training.seed, config.training.consistency, config.model.d_ff) == (7, "none", SHORT.d_ff)
    assert (config.training.max_epochs, config.training.patience) == (None, None), "the minutes end the training"


@pytest.mark.parametrize(
    ("tree", "overrides", "problem"),
    [
        ({}, ["training.objective=denoising"], "translation"),
        ({}, ["model.kind=decoder"], "translation"),
        ({}, ["model.d_fff=3"], r"--set model\.d_fff"),
        *[({"training": section}, [], "training: must be a mapping") for section in (None, [1], "small")],
    ],
)
@pytest.mark.usefixtures("machine")
def test_unusable_settings_are_rejected(tmp_path, tree, overrides, problem):
    (tmp_path / "mine.yaml").write_text(dump_yaml(tree))
    with pytest.raises(ConfigError, match=problem):
        preset(str(tmp_path / "mine.yaml") if tree else None, 1000, 60, overrides)


def test_config_command_measures_this_machine(nmt: Command, tmp_path: Path) -> None:
    small = ["model.d_model=8", "model.d_ff=8", "tokenizer.vocab_size=400", "training.device=cpu"]
    options = [each for setting in small for each in ("--set", setting)]
    result = nmt("config", "--for-pairs", "500", "--minutes", "0.5", *options)
    assert result.status == 0
    (tmp_path / "preset.yaml").write_text(result.out, encoding="utf-8")
    config = load_config(tmp_path / "preset.yaml")
    assert (config.model.d_model, config.training.max_minutes) == (8, 0.5)
    assert all(corpus.valid and corpus.test for corpus in config.data.train) and config.data.valid is None


def test_minutes_without_pairs_are_rejected(nmt: Command) -> None:
    result = nmt("config", "--minutes", "5")
    assert result.status == 2 and "--for-pairs" in result.err and result.out == ""


# --- the speed of training, measured with random text ---


TINY = [
    "model.d_model=8", "model.d_ff=8", "model.encoder_layers=1", "model.decoder_layers=1", "tokenizer.vocab_size=300",
    "training.device=cpu",
]  # fmt: skip


@pytest.mark.parametrize(
    ("update_tokens", "measured", "seconds"), [(400, 400, 1.0), (4 * DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS, 4.0)]
)
def test_large_update_is_measured_by_a_micro_batch(monkeypatch, update_tokens, measured, seconds):
    clock, objective = count(), Mock(wraps=presets.token_loss)
    monkeypatch.setattr(presets, "token_loss", objective)
    monkeypatch.setattr(presets, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    config = load_config("base.yaml", [*TINY, f"training.update_tokens={update_tokens}"])
    assert presets.seconds_per_update(config, 16) == seconds
    assert {call.args[1].n_tokens for call in objective.call_args_list} == {measured}


def test_crossconst_is_measured_with_copied_targets():
    directions = ["data.directions=[de-en, en-de]", "data.languages=[de, en]", "training.consistency=crossconst"]
    config = load_config("base.yaml", [*TINY, *directions, "training.update_tokens=400"])
    assert presets.seconds_per_update(config, 16) > 0
