"""The language and the direction that documents state, which follow the target language."""

import re
from typing import TypeAlias

from nmt.languages.codes import is_right_to_left, tag_of

Languages: TypeAlias = tuple[str, str]
"""The codes of source and target."""
Rules: TypeAlias = "tuple[dict[str, str], dict[str, str], dict[str, str]]"
"""How a format states its language and direction: patterns and their replacements, in order.

The first apply to all documents, the second if the direction changes to left to right, the third if it changes to right
to left. SOURCE stands for the codes of the source, in a group, and TARGET for that of the target.
"""


def in_target(text: str, languages: Languages, rules: Rules) -> str:
    """Return a document with the language and direction of the target where it states those of the source.

    It stays as it is if the source is unknown, or the script of the target.
    """
    source, target = (tag_of(code).language for code in languages)
    if not source or not target or not target.scripts or languages[0] == languages[1]:
        return text
    names = f"(?:{source.code}|{source.macrolanguage or source.code})"
    before, after = map(is_right_to_left, languages)
    changes = rules[0] | rules[1 + after] if before != after else rules[0]
    for pattern, replacement in changes.items():
        pattern = pattern.replace("SOURCE", names).replace("TARGET", target.code)
        text = re.sub(pattern, replacement.replace("TARGET", target.code), text)
    return text
