"""A small prepared corpus whose translation is a rule: reverse the words and spell each backwards."""

from __future__ import annotations

import random
from pathlib import Path

from nmt.config import Config
from nmt.config.load import check_config
from nmt.config.modes import leave_out

SETTINGS: dict[str, dict[str, object]] = {
    "tokenizer": {"vocab_size": 330},
    "model": {
        "d_model": 32, "n_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1,
        "embedding_dropout": 0.1, "residual_dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1,
    },
    "training": {
        "device": "cpu", "precision": "float32", "update_tokens": 300, "max_tokens": 200, "warmup_steps": 10,
        "log_every_steps": 1, "max_steps": 12, "validate_every_steps": 6, "save_every_steps": 3,
        "keep_last": 3, "average_last": 2,
    },
    # what has not learned to end its sentences takes long to translate
    "search": {"beam": 2, "max_length_ratio": 0.0, "max_length_offset": 6},
}  # fmt: skip


def tiny_text(folder: Path, n_train: int = 200) -> None:
    """Aligned files train, dev and test in the languages aa and bb."""
    rng = random.Random(5)
    words = [
        "".join(rng.choice("bdfglmnrst") + rng.choice("aeiou") for _ in range(rng.randint(1, 3))) for _ in range(60)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for name, n in (("train", n_train), ("dev", 12), ("test", 10)):
        lines = [" ".join(rng.choices(words, k=rng.randint(2, 9))) for _ in range(n)]
        (folder / f"{name}.aa").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        (folder / f"{name}.bb").write_text("".join(f"{line[::-1]}\n" for line in lines), encoding="utf-8")


def tiny_settings(folder: Path, **changes: dict[str, object]) -> Config:
    """Return the configuration for the text in `folder`, with `changes` by section, which must have an effect except in
    `search`."""
    tree: dict[str, dict[str, object]] = {section: dict(values) for section, values in SETTINGS.items()}
    for section, values in changes.items():
        tree.setdefault(section, {}).update(values)
    tree["data"] = {
        "direction": "aa-bb",
        "root": str(folder),
        "train": [{"files": {"aa": "train.aa", "bb": "train.bb"}}],
        "valid": {"files": {"aa": "dev.aa", "bb": "dev.bb"}},
        "test": {"test": {"files": {"aa": "test.aa", "bb": "test.bb"}}},
        "max_pieces": 100,
        **changes.get("data", {}),
    }
    sections = changes.keys() - {"search"}
    leave_out(tree, [f"{section}.{name}" for section in sections for name in changes[section]])
    return check_config(tree, "tiny")
