"""Settings that suit a number of pairs and a training time: what `nmt config --for-pairs` prints.

scripts/results/presets.md and, for weight decay and dropout, speedrun.md have the trainings on which they rest. The
size of the model depends on how many updates this machine makes in the time, and dropout and SimCut on how many passes
through the text these are.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nmt.config import Config
from nmt.config.load import comment, commented, note, overridden, read_tree
from nmt.config.modes import leave_out, unread
from nmt.console import say
from nmt.data.batching import Pairs
from nmt.data.lines import Lines
from nmt.data.rows import RowPacking
from nmt.errors import ConfigError
from nmt.model.device import autocast, pick_device, pick_float32_library, pick_precision, use_float32_library
from nmt.model.transformer import Transformer
from nmt.text.ids import N_SPECIAL
from nmt.training.loss import token_loss
from nmt.training.optim import make_optimizer
from nmt.training.settings import DEFAULT_MAX_TOKENS

PIECES = 20
"""Typical number of target pieces of a pair: 15 in Multi30k, 26 in TED talks."""
N_VALIDATIONS = 10
UPDATE_SHARE = 0.85
"""The least share of the time that is left for updates, besides start, validations and checkpoints."""
VOCABULARIES = {100_000: 8_000, 1_000_000: 16_000, 1 << 62: 32_000}
"""Vocabulary sizes, by the number of pairs up to which they are used."""
SIMCUT_PASSES = 17
"""SimCut is used where plain training would make at least so many passes."""
DROPOUTS = {5.5: 0.0, 12: 0.05, math.inf: 0.1}
"""Dropout of small models, by the number of passes below which it is used: in few, they do not overfit."""
Chosen = dict[str, tuple[object, str]]
"""Settings with the reasons for them, which may be empty."""


@dataclass(frozen=True)
class Size:
    """A size of the model, and the numbers of pairs and of updates from which it is used."""

    d_model: int
    d_ff: int
    layers: int
    update_tokens: int
    min_pairs: int
    min_updates: int


LARGE = Size(512, 1024, 6, 16_384, min_pairs=50_000, min_updates=2_500)
"""Its dropout and SimCut weight are those published for IWSLT 2014 (Gao et al., 2022, arXiv:2206.02368)."""
SIZES = (
    Size(128, 512, 2, 2048, min_pairs=0, min_updates=0),
    Size(128, 512, 4, 2048, min_pairs=0, min_updates=3_000),
    Size(256, 1024, 3, 2048, min_pairs=50_000, min_updates=20_000),
    LARGE,
)
"""From small to large."""


def preset(config: str | None, n_pairs: int, minutes: float, overrides: Sequence[str] = ()) -> str:
    """Return a config for `n_pairs` pairs and a training of `minutes` on this machine, with reasons as comments.

    config: a file with other settings, such as the corpora, which chosen ones replace; None: two files to be renamed.
    overrides: `section.key=value`, which replace both. Measures the speed of this machine, which takes up to a minute.
    Raises ConfigError if a setting is invalid, or the config is not for translation.
    """
    given = dict(override.partition("=")[::2] for override in overrides)
    where = "preset"
    tree = own_files(given.get("data.direction", "de-en"), n_pairs)
    if config is not None:
        where = f"{config} with the preset"
        tree = read_tree(config)[1]

    def updates_of(size: Size) -> float:
        plain: Chosen = _model(size, n_pairs) | {"training.consistency": ("none", "")}
        checked = overridden(_completed(tree, plain)[0], where, overrides, is_checked=False)
        if not (checked.training.facts.translates and checked.model.is_encoder_decoder):
            raise ConfigError(f"{where}: there are only presets for translation with an encoder and a decoder")
        return 60 * minutes / seconds_per_update(checked, PIECES)

    say("measuring the speed of this machine")
    size = SIZES[0]
    updates = updates_of(size)
    for larger in SIZES[1:]:
        # a larger model cannot make more updates, and measuring it would take long on a slow machine
        if n_pairs < larger.min_pairs or updates < larger.min_updates:
            break
        if (n := updates_of(larger)) >= larger.min_updates:
            size = larger
            updates = n
    updates *= UPDATE_SHARE
    passes = updates * size.update_tokens / (n_pairs * PIECES)
    chosen = _model(size, n_pairs) | _training(size, passes, updates, minutes)
    completed, notes = _completed(tree, chosen)
    note(notes, where)
    overridden(completed, where, overrides)
    completed = {section: completed[section] for section in Config.model_fields if section in completed}
    reasons = {key: comment(reason) for key, (_, reason) in chosen.items() if key not in given}
    about = (
        f"For {n_pairs:,} pairs and {minutes:g} minutes on this machine, in which plain training of this model makes "
        f"about {updates:,.0f} updates: {passes:.1f} passes through the text."
    )
    say(about)
    if config is None:
        reasons |= {
            "data.dir": comment("to be written"),
            "data.root": comment("the folder of the text; . is the working directory"),
            "data.train": comment(
                "rename these files; other formats are in docs/your-data.md. valid and test: pairs to hold out"
            ),
        }
    return "\n".join([*comment(about), commented(completed, reasons)])


def own_files(direction: str, n_pairs: int) -> dict[str, Any]:
    """Return the settings of two files with this number of pairs, which are to be renamed."""
    held_out = max(100, min(1000, n_pairs // 20))
    return {
        "data": {
            "direction": direction,
            "dir": "data/prepared/mine",
            "root": ".",
            "train": [
                {
                    "name": "mine",
                    "files": {language: f"train.{language}" for language in direction.split("-")},
                    "valid": held_out,
                    "test": held_out,
                }
            ],
        },
        "training": {"run_dir": "runs/mine-{direction}"},
    }


def _completed(tree: Mapping[str, Any], chosen: Chosen) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of a tree of settings with the chosen ones, and notes on settings that these leave no effect."""
    completed = copy.deepcopy(dict(tree))
    kept = [*chosen, *(setting.key for setting in unread(completed))]
    for key, (value, _) in chosen.items():
        section, _, name = key.partition(".")
        if isinstance(settings := completed.setdefault(section, {}), dict):  # else `overridden` reports it
            settings[name] = value
    return completed, leave_out(completed, kept)


def _model(size: Size, n_pairs: int) -> Chosen:
    """Return the settings that depend on the size of the model and the number of pairs."""
    vocab_size = next(n for most, n in VOCABULARIES.items() if n_pairs <= most)
    why = "as in iwslt14.yaml" if size is LARGE else "a larger model would learn less in the time"
    return {
        "tokenizer.vocab_size": (vocab_size, ""),
        "model.d_model": (size.d_model, why),
        "model.d_ff": (size.d_ff, ""),
        "model.encoder_layers": (size.layers, ""),
        "model.decoder_layers": (size.layers, ""),
        "training.update_tokens": (size.update_tokens, ""),
    }


def _training(size: Size, passes: float, updates: float, minutes: float) -> Chosen:
    """Return the settings that depend on the numbers of passes and updates of plain training."""
    consistency = "none"
    dropout = next(rate for limit, rate in DROPOUTS.items() if passes < limit)
    why = "the fewer passes, the less is needed"
    activation_dropout = 0.0
    weight = 2
    weight_decay = 0.1
    if passes >= SIMCUT_PASSES:
        consistency = "simcut"
        updates /= 2  # each takes twice as long
    if size is LARGE:
        dropout = 0.3
        why = "as in iwslt14.yaml"
        activation_dropout = 0.1
        weight = 3
        weight_decay = 1e-4
    interval = max(50, 50 * round(updates / N_VALIDATIONS / 50))
    weighted: Chosen = {} if consistency == "none" else {"training.consistency_weight": (weight, "")}
    return {
        "model.embedding_dropout": (dropout, why),
        "model.residual_dropout": (dropout, ""),
        "model.activation_dropout": (activation_dropout, ""),
        "training.consistency": (consistency, ""),
        **weighted,
        "training.optimizer": ("muon", "learns more from each update than AdamW"),
        "training.peak_lr": (round(5e-3 * (128 / size.d_model) ** 0.5, 4), ""),
        "training.weight_decay": (weight_decay, ""),
        "training.schedule": ("inverse_sqrt", "falls to 0 in the last 30 % of the minutes (cooldown)"),
        "training.warmup_steps": (max(1, min(1000, round(updates / 6))), ""),
        "training.cooldown": (0.3, ""),
        "training.ema": (0.998, ""),
        "training.max_steps": (1_000_000, ""),
        "training.max_minutes": (minutes, "with validations and everything else"),
        "training.planned_steps": (round(updates) or None, ""),
        "training.max_epochs": (None, ""),
        "training.patience": (None, ""),
        "training.log_every_steps": (min(100, interval // 2), ""),
        "training.validate_every_steps": (interval, ""),
        "training.validate_lines": (200 if minutes < 20 else None, ""),
        "training.save_every_steps": (interval, ""),
    }


def seconds_per_update(config: Config, length: int) -> float:
    """Measure how long an update takes with random sentences of `length` tokens, without reading data or compilation.

    The fastest of several counts, since other programs may use the machine. They are repeated for about a second, at
    least twice after the first. For a large update, one micro-batch is measured.
    """
    settings = config.training
    vocab_size = config.tokenizer.vocab_size
    device = pick_device(settings.device)
    precision = pick_precision(settings.precision, device)
    use_float32_library(pick_float32_library(precision, device))
    model = Transformer(config.model, vocab_size, vocab_size).to(device)
    optimizer = make_optimizer(model, settings, precision)
    n_tokens = min(settings.update_tokens, DEFAULT_MAX_TOKENS)
    n_pairs = max(1, n_tokens // length)
    lines = Lines.of([*np.random.default_rng(0).integers(N_SPECIAL, vocab_size, (n_pairs, length - 1))])
    batch = RowPacking(Pairs(lines, lines), copies=settings.copies_targets).batch(np.arange(n_pairs)).to(device)
    times: list[float] = []
    while len(times) < 3 or sum(times) < 1.0:
        start = time.perf_counter()
        with autocast(precision, device):
            loss = token_loss(model, batch, settings).loss
        (loss / batch.n_tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return min(times[1:]) * settings.update_tokens / n_tokens
