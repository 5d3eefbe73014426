"""Runs with tiny untrained models of every kind, and their exports."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml

from nmt.config.load import changed_config, dump_config, load_config
from nmt.layout import RUN_FORMAT, RunDir
from nmt.model.transformer import Transformer
from nmt.runs.checkpoint import save_checkpoint
from nmt.search.settings import SearchConfig
from nmt.share.engine import load_ctranslate2
from nmt.share.export import ExportOptions, export
from nmt.text.ids import EOS, N_SPECIAL
from nmt.text.tokenizer import Tokenizer, train_tokenizer
from nmt.text.vocabularies import Tokenizers
from nmt.translate.loading import Translator
from tiny_run import tiny_config, words

LINES = [" ".join(words(n, seed=n + 50)) for n in (3, 9, 1, 14, 2, 6, 5, 11, 4, 4, 7, 8)]


@cache
def tokenizer(language: str) -> Tokenizer:
    """`joint`, or one of a language, which are of different sizes."""
    size = {"joint": 400, "de": 380, "en": 420}[language]
    return train_tokenizer([" ".join(words(8, seed)) for seed in range(300)], size)


def write_run(path: Path, joint: bool = True, specials: float = 0.0, **model: object) -> Path:
    """What `train` leaves behind, as far as an export needs it.

    specials: how much likelier special pieces but `</s>` are than others, in the logit; where it is not 0, ends are
    likely, too, and the embeddings must not be those of the output layer.
    """
    config = tiny_config(**model)
    changes = {"tokenizer": config.tokenizer.model_copy(update={"joint": joint}), "search": SearchConfig()}
    config = config.model_copy(update=changes)
    tokenizers = Tokenizers({name: tokenizer("joint" if joint else name) for name in ("de", "en")}, joint)
    torch.manual_seed(3)
    transformer = Transformer(config.model, len(tokenizers["de"]), len(tokenizers["en"]))
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else parameter.add_(0.2 * torch.randn_like(parameter))
        if specials:
            # the hidden states have a common part, which only these pieces look at
            output, norm = transformer.output, transformer.decoder.norm
            assert output is not None and isinstance(norm, torch.nn.LayerNorm)
            norm.bias.fill_(1.0)
            output -= output.mean(1, keepdim=True)
            output[:N_SPECIAL] += specials / output.size(1)
            output[EOS] += (5.0 - specials) / output.size(1)
    run = RunDir(path)
    tokenizers.save(run.tokenizer)
    run.config.write_text(dump_config(config), encoding="utf-8")
    facts = {"data_dir": "nowhere", "corpus": "c0", "tokenizer": tokenizers.fingerprint, "precision": "float32"}
    run.info.write_text(json.dumps({"format": RUN_FORMAT, **facts}), encoding="utf-8")
    save_checkpoint(run.step(7), dict(transformer.named_parameters()), None, {})
    return path


def with_search(run: Path, *changes: str) -> Path:
    """Change the search settings of a run, and return the run."""
    path = run / "config.yaml"
    config = changed_config(load_config(path), [f"search.{change}" for change in changes])
    path.write_text(dump_config(config), encoding="utf-8")
    return run


def both(path: Path, joint: bool = True, specials: float = 0.0, **model: object) -> tuple[Translator, Translator]:
    """Return a run's translator and its export as an engine, in float32 on one thread, without comparing the two."""
    run = write_run(path / "run", joint, specials, **model)
    export(ExportOptions(run, check_lines=2), path / "exported", "ctranslate2")
    native = Translator.load(run, device="cpu", precision="float32")
    return native, load_ctranslate2(path / "exported")


def card_of(path: Path) -> tuple[dict[str, Any], str]:
    """Return the front matter and the text of a model card."""
    _, matter, text = (path / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(matter), text


def section(text: str, name: str) -> str:
    """Return the text under a heading of a model card."""
    return text.split(f"## {name}\n")[1].split("\n## ")[0]
