"""Suggestions for misspelt names and for names of other toolkits.

The names in foreign.tsv come from fairseq, OpenNMT, JoeyNMT, Marian, Sockeye and Hugging Face; some are likely guesses
of users.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.spelling import misspelt, plain


def other_names(kind: str) -> dict[str, str]:
    """Return the names in other toolkits by those here; kind: a setting, value, option or command, a task for which
    there is no command, or advice on settings that have no counterpart."""
    rows = (row.split("\t") for row in _TABLE.splitlines()[1:])
    return {here: others for of, here, others in rows if of == kind}


_TABLE = (Path(__file__).parent / "foreign.tsv").read_text(encoding="utf-8")
OTHER_NAMES = other_names("setting")
NO_SETTING = other_names("advice")
OTHER_VALUES = other_names("value")

_MEANT: dict[str, list[str]] = {}
for _key, _names in OTHER_NAMES.items():
    for _name in _names.split():
        _MEANT.setdefault(_name, []).append(_key)
_NOTES = {name: note for note, names in NO_SETTING.items() for name in names.split()}

BESIDES = {
    "training.update_tokens": "in target tokens",
    "search.batch_tokens": "in source tokens",
    "training.peak_lr": "with the schedule noam, training.factor",
}
"""Remarks on suggested settings: a unit that differs from other toolkits, or a setting that applies instead."""


def equivalent_settings(name: str, section: str = "") -> list[str]:
    """Return the keys of the settings that another toolkit calls `name`, preferably in `section`."""
    keys = _MEANT.get(plain(name), [])
    return [key for key in keys if key.startswith(f"{section}.")] or keys


def advice_on(name: str) -> str | None:
    """Return advice on a setting of another toolkit that has no counterpart; None if there is no advice."""
    return _NOTES.get(plain(name))


def nearest_value(value: str, choices: Sequence[str]) -> list[str]:
    """Return the choices that `value` may refer to, by their names in other toolkits or by spelling."""
    equivalent = [choice for choice in choices if plain(value) in OTHER_VALUES.get(choice, "").split()]
    return equivalent or misspelt(value, choices, cutoff=0.6)


def with_remarks(names: Sequence[str]) -> list[str]:
    """Return different names of settings, with remarks from `BESIDES`."""
    return [f"{name} ({BESIDES[name]})" if name in BESIDES else name for name in dict.fromkeys(names)]
