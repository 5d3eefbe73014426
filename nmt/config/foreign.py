"""Suggestions for misspelt names and for names of other toolkits.

The names in foreign.tsv come from fairseq, OpenNMT, JoeyNMT, Marian, Sockeye and Hugging Face; some are likely guesses
of users.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path


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


def plain(name: str) -> str:
    """Return a normalised name: `--Max-Steps` -> `max_steps`."""
    return name.lstrip("-").lower().replace("-", "_")


def misspelt(name: str, candidates: Iterable[str], cutoff: float = 0.75) -> list[str]:
    """Return the candidate with the most similar spelling, as a list of one or none.

    cutoff: minimum similarity as in difflib, where `baem` and `beam` have a similarity of 0.75.
    """
    known = {plain(candidate): candidate for candidate in candidates}
    return [known[match] for match in difflib.get_close_matches(plain(name), known, n=1, cutoff=cutoff)]


def nearest_value(value: str, choices: Sequence[str]) -> list[str]:
    """Return the choices that `value` may refer to, by their names in other toolkits or by spelling."""
    equivalent = [choice for choice in choices if plain(value) in OTHER_VALUES.get(choice, "").split()]
    return equivalent or misspelt(value, choices, cutoff=0.6)


def matching_words(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that share words with `name`.

    These are the candidates that contain all words of `name`, or else begin with it, or else have no other words.
    """
    known = {plain(candidate): candidate for candidate in candidates}
    plain_name = plain(name)
    words = {*plain_name.split("_")}
    with_all = list[str]()
    with_beginning = list[str]()
    with_no_others = list[str]()
    for key, candidate in known.items():
        its_words = {*key.split("_")}
        if words <= its_words:
            with_all.append(candidate)
        if len(plain_name) >= 4 and key.startswith(plain_name):
            with_beginning.append(candidate)
        if its_words <= words:
            with_no_others.append(candidate)
    return with_all or with_beginning or with_no_others


def listed(names: Sequence[str]) -> str:
    """Format names as `a, b or c`, with remarks from `BESIDES`."""
    remarked = []
    for name in names:
        if name in BESIDES:
            name = f"{name} ({BESIDES[name]})"
        remarked.append(name)
    *first_names, last = dict.fromkeys(remarked)
    return f"{', '.join(first_names)} or {last}" if first_names else last


def did_you_mean(names: Sequence[str]) -> str:
    """Return `; did you mean a, b or c?`, or empty text if there are no names."""
    return f"; did you mean {listed(names)}?" if names else ""
