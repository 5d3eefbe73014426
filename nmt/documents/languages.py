"""The language and the direction that documents state, which follow the target language."""

import re
from typing import NamedTuple, TypeAlias

from nmt.languages.codes import is_right_to_left, related_codes, tag_of

Languages: TypeAlias = tuple[str, str]
"""The codes of source and target."""
Changes = dict[str, str]
"""Patterns and their replacements, in order. SOURCE stands for the codes of the source, divided by `|`, and TARGET for
the tag of the target, such as sr-Latn. Patterns must take linear time for any text, since nothing can stop them."""


class Rules(NamedTuple):
    """How a format states its language and direction. Changes of the direction are applied after the others."""

    always: Changes
    to_left_to_right: Changes
    to_right_to_left: Changes


def in_target(text: str, languages: Languages, rules: Rules) -> str:
    """Return a document with the language and direction of the target where it states those of the source.

    It stays as it is if the source is unknown, or the script of the target.
    """
    (source, *_), (target, script, region) = map(tag_of, languages)
    if not source or not target or not target.scripts or languages[0] == languages[1]:
        return text
    # the usual script is not stated: de, not de-Latn
    tag = "-".join(part for part in (target.code, script, region) if part not in (None, target.scripts[0]))
    before, after = map(is_right_to_left, languages)
    changes = rules.always
    if before != after:
        changes = changes | (rules.to_right_to_left if after else rules.to_left_to_right)
    for pattern, replacement in changes.items():
        pattern = pattern.replace("SOURCE", related_codes(source.code)).replace("TARGET", tag)
        text = re.sub(pattern, replacement.replace("TARGET", tag), text)
    return text
