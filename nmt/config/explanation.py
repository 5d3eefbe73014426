"""Explanations of settings for `nmt config --explain`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from nmt.config.load import read_tree
from nmt.config.messages import nearest
from nmt.config.reference import tables
from nmt.console import columns
from nmt.errors import ConfigError
from nmt.files.read import shipped

MAY_CHANGE = {
    "training.max_steps", "training.max_minutes", "training.max_epochs", "training.patience",
    "training.log_every_steps", "training.validate_every_steps", "training.save_every_steps", "training.keep_last",
    "training.average_last", "training.max_tokens", "training.planned_steps", "training.device", "training.parallel",
    "training.compile", "training.recompute", "training.run_dir", "training.watch", "training.report_to",
    "search.batch_tokens", "data.dir", "data.root",
}  # fmt: skip
"""Settings that may change when a run is resumed: for its end, checkpoints, logs and memory."""

USED_BY = {
    "data": "nmt prepare and nmt train",
    "tokenizer": "nmt prepare",
    "model": "nmt train; it cannot change when a run is resumed",
    "training": "nmt train; it cannot change when a run is resumed",
    "search": "every command that translates, where --set changes it, and the validations of nmt train",
}
"""The commands that use the settings of each section."""

KNOWN = Path(__file__).with_name("known.yaml")
"""Measurements of settings: key -> text."""


def explain(key: str) -> str:
    """Return an explanation of a setting.

    key: dotted, or a part of it that no other setting has. Raises ConfigError if there is no such setting.
    """
    settings = {setting.key: setting for table in tables() for setting in table.settings()}
    if key not in settings and key.startswith("data.") and (of_corpus := key.rpartition(".")[2]) in settings:
        key = of_corpus
    if key not in settings:
        alike = [name for name in settings if name.endswith(f".{key}")]
        if not alike and key:
            alike = [name for name in settings if key in name]
        if len(alike) != 1:
            advice = nearest(key) or "; nmt config prints all settings"
            if 0 < len(alike) < 8:
                advice = f"; write {' or '.join(alike)}"
            raise ConfigError(f"--explain {key}: no such setting{advice}")
        key = alike[0]
    _, values, default, meaning = (text.replace("`", "") for text in settings[key])
    if default != "required":
        default = f"default: {default}"
    paragraphs = [f"{key}: {values}; {default}", meaning]
    used = USED_BY.get(key.partition(".")[0], "nmt prepare, for a corpus of data")
    if key in MAY_CHANGE:
        used = used.replace("cannot", "may")
    paragraphs.append(f"Used by {used}.")
    if shipped_values := "; ".join(_shipped_values(key)):
        paragraphs.append(f"Shipped configs: {shipped_values}.")
    if known := read_tree(KNOWN)[1].get(key):
        paragraphs.append(f"Measured: {known}")
    return "\n\n".join(textwrap.fill(text, columns(sys.stdout), break_on_hyphens=False) for text in paragraphs)


def _shipped_values(key: str) -> Iterator[str]:
    """Yield the value of a setting in each shipped config that has it, with the name of the config."""
    section, _, name = key.partition(".")
    for path in sorted(shipped("configs").glob("*.yaml")):
        settings = read_tree(path)[1].get(section)
        if isinstance(settings, dict) and isinstance(value := settings.get(name), (str, int, float)):
            yield f"{value} in {path.name}"
