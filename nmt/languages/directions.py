"""Directions of translation, such as de-en, and the names and tags of their languages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from typing import TypeAlias

from nmt.errors import ConfigError, DataError
from nmt.languages.codes import macrolanguage_of, parts_of
from nmt.spelling import did_you_mean, misspelt

DIRECTION = re.compile(r"^([A-Za-z][A-Za-z0-9_]*)-([A-Za-z][A-Za-z0-9_]*)$")

TO = "to="
"""Begins the name of the tag of a target language: `to=de`."""

LABEL = "label"
"""The target "language" of texts with class labels."""

LanguagePair: TypeAlias = tuple[str, str]
"""The codes of two languages: of source and target, or in alphabetical order."""


def sides_of(direction: str) -> LanguagePair:
    """Return the source and the target language of a direction."""
    src, tgt = direction.split("-")
    return src, tgt


def pair_of(direction: str) -> str:
    """Return the pair of languages of a direction, in alphabetical order: de-en for en-de."""
    return "-".join(sorted(direction.split("-")))


ANY = "*"
"""Stands for any source language, where it makes no difference."""


def check_language(option: str, name: str, known: Collection[str]) -> None:
    """Raise ConfigError unless the language that an option names is known."""
    if name not in known:
        near = did_you_mean(difflib.get_close_matches(name, known, cutoff=0.5))
        raise ConfigError(f"{option} {name}: not a language of this model{near or '; choose ' + ', '.join(known)}")


def choose_direction(directions: Sequence[str], preferred: str, tgt: str | None, src: str | None) -> str:
    """Return one of several directions to `tgt`, and from `src`.

    Without one of them, there must be no choice; if `src` is `ANY`, `preferred` is chosen if possible, then the first.
    A direction between two of the languages that was not trained (zero-shot) may be asked for.

    Raises ConfigError.
    """
    is_any = src == ANY
    if is_any:
        src = None
    pairs = [sides_of(direction) for direction in directions]
    targets = [*dict.fromkeys(target for _, target in pairs)]
    languages = sorted(set[str]().union(*pairs))
    for option, name, known in (("--to", tgt, targets), ("--from", src, languages)):
        if name is not None:
            check_language(option, name, known)
    matching = []
    for pair in pairs:
        if src in (None, pair[0]) and tgt in (None, pair[1]):
            matching.append(pair)
    if not matching and src is not None and tgt not in (None, src):
        return f"{src}-{tgt}"
    if not matching:
        raise ConfigError(f"the model does not translate from {src} to {tgt or 'another language'}")
    if len({pair[1] for pair in matching}) > 1:
        asked = ", ".join(dict.fromkeys(pair[1] for pair in matching))
        raise ConfigError(f"the model has several target languages; choose one with --to: {asked}")
    if len(matching) > 1 and not is_any:
        asked = ", ".join(pair[0] for pair in matching)
        raise ConfigError(f"the model has several source languages; choose one with --from: {asked}")
    chosen = ["-".join(pair) for pair in matching]
    return preferred if preferred in chosen else chosen[0]


def name_in_model(code: str, names: Collection[str], advice: str = "; see docs/public-models.md") -> str:
    """Return which of the `names` in a model means a language: zho_Hans for `zh`, `zho` and `zh_CN`.

    A macrolanguage has the name of its usual member, or of its only one unless that is a language with a code of two
    letters: pbt_Arab for `ps`. Raises DataError, whose message ends with `advice`, if the model lacks the language, or
    if several names fit.
    """
    if code in names:
        return code
    family, (language, script, _) = macrolanguage_of(code), parts_of(code)
    related = [name for name in names if macrolanguage_of(name) == family]
    fitting = [name for name in related if parts_of(name)[:2] == (language, script)]
    if not fitting:
        for name in related:
            its_language, its_script, _ = parts_of(name)
            is_member = its_language == language or (language == family and len(its_language) == 3)
            if is_member and ("_" not in code or its_script == script):
                fitting.append(name)
    if len(fitting) == 1:
        return fitting[0]
    near = related or [name for name in names if script and parts_of(name)[1] == script]
    is_short = 0 < len(near) <= 12
    hint = f", which has {', '.join(near)}" if is_short else did_you_mean(misspelt(code, names))
    raise DataError(f"{code[:50]!r} is not one language of the model{hint}{advice}")
