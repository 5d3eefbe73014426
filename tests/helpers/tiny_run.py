"""A translator and a run directory with a tiny untrained model, and lines for it."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import torch

from nmt.config import Config
from nmt.config.load import dump_config, load_config
from nmt.layout import RUN_FORMAT, RunDir
from nmt.model.transformer import EncoderModel, Model, Transformer
from nmt.runs.checkpoint import save_checkpoint
from nmt.runs.info import RunInfo, Selected, write_info, write_selected
from nmt.search.settings import SearchConfig
from nmt.text.tokenizer import Tokenizer, train_tokenizer
from nmt.text.vocabularies import Tokenizers
from nmt.training.facts import MaskedConfig
from nmt.translate.loading import Translator
from nmt.translate.search import NativeSearcher

TINY = {
    "d_model": 16, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1,
    "embedding_dropout": 0.3, "residual_dropout": 0.3,
}  # fmt: skip


def words(n: int, seed: int = 0) -> list[str]:
    """Return `n` pronounceable words."""
    rng = random.Random(seed)
    return ["".join(rng.choice("bdfglmnrst") + rng.choice("aeiou") for _ in range(rng.randint(1, 4))) for _ in range(n)]


GREEDY, BEAM = SearchConfig(beam=1, max_length_ratio=1.0), SearchConfig(beam=3, max_length_ratio=1.0)
PLAIN = [" ".join(words(n, seed=n)) for n in (3, 9, 1, 14, 2, 6, 5, 11)]
STRANGE = [
    "", "   ", "\t", "\u00a0\u2003", "\u2028", "\x00", "\x1f \x85", "mali bo\u2028re", "ta\x00go", "a\tb",
    "\U0001f600 \U0001f1e9\U0001f1ea", "te ra\r", "\ufeff", "ri\x0csu", "ß\u0301" * 10,
    "<s> </s> <pad> <reserved_3>", "\u2581 \u2581", "||| x ||| y",
]  # fmt: skip


@functools.cache
def tiny_tokenizer(seed: int = 0) -> Tokenizer:
    return train_tokenizer([" ".join(words(8, n)) for n in range(seed, seed + 300)], 400)


def tiny_config(**model: object) -> Config:
    config = load_config("sample.yaml")
    # a model that was not trained ends few translations before they are as long as they may be
    search = config.search.model_copy(update={"max_length_ratio": 0.5, "max_length_offset": 4})
    return config.model_copy(update={"model": config.model.model_copy(update={**TINY, **model}), "search": search})


def licensed(config: Config) -> Config:
    """Return the same configuration with another licence for the training corpora."""
    train = [source.model_copy(update={"license": "CC BY 4.0"}) for source in config.data.train]
    return config.model_copy(update={"data": config.data.model_copy(update={"train": train})})


def tiny_model(config: Config, tokenizer: Tokenizer, seed: int = 3) -> Transformer:
    """Return a model with weights so large that its outputs differ between lines."""
    torch.manual_seed(seed)
    model = Transformer(config.model, len(tokenizer), len(tokenizer))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3.0)
    return model.eval()


def write_run(path: Path, config: Config, tokenizer: Tokenizer, model: Model, step: int = 7) -> Path:
    """Write those files of `train` that translation needs."""
    run = RunDir(path)
    tokenizers = Tokenizers(dict.fromkeys(config.data.pair, tokenizer), joint=True)
    tokenizers.save(run.tokenizer)
    run.config.write_text(dump_config(config), encoding="utf-8")
    fingerprint = tokenizers.fingerprint
    write_info(run, RunInfo(format=RUN_FORMAT, data_dir="", corpus="", tokenizer=fingerprint, precision="float32"))
    save_checkpoint(run.step(step), dict(model.named_parameters()), None, {})
    write_selected(run, Selected(best_step=step, weights="raw", reason="the only one"))
    return path


def write_tiny_run(path: Path, config: Config | None = None, seed: int = 3) -> Path:
    """Write a run with the tiny tokenizer, and with a model that was not trained."""
    config, tokenizer = config or tiny_config(), tiny_tokenizer()
    return write_run(path, config, tokenizer, tiny_model(config, tokenizer, seed))


def write_classifier(path: Path, tokenizer: Tokenizer, direction: str = "de-en", seed: int = 5) -> Path:
    """A run of an untrained classifier of pairs."""
    config = tiny_config(kind="encoder")
    training = config.training.model_copy(
        update={"objective": "masked", "masked": MaskedConfig(pair_task=["shuffled"]), "max_tokens": 2048}
    )
    data = config.data.model_copy(update={"direction": direction})
    torch.manual_seed(seed)
    model = EncoderModel(config.model, len(tokenizer), n_classes=2)
    return write_run(path, config.model_copy(update={"training": training, "data": data}), tokenizer, model)


def make(tokenizer: Tokenizer, config: Config) -> Translator:
    tokenizers = Tokenizers(dict.fromkeys(config.data.pair, tokenizer), joint=True)
    searcher = NativeSearcher([tiny_model(config, tokenizer)], tokenizer, torch.device("cpu"), "float32")
    return Translator.configured(searcher, tokenizers, config)


def texts(translator: Translator, lines: list[str], search: SearchConfig = GREEDY) -> list[str]:
    """Return the best translation of each line."""
    return [best.text for best, *_ in translator.translate_lines(lines, search)]
