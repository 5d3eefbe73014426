"""Changes of French: numbers in words and negation."""

from __future__ import annotations

import re

from nmt.evaluate.contrasts.language import Language, alternatives, not_after, rule

NUMBERS = alternatives(
    "deux trois quatre cinq six sept huit dix onze douze",  # "neuf" is "new", too
    "vingt trente quarante cinquante soixante",
    "cent mille",
    "millions milliards",
)
CONJUNCTIONS = "et|mais|ou|parce que|car|quand|qui|où"
_VERB = r"((?:(?:l'|y |en |me |te |se |le |la |les |lui |nous |vous |leur )*)\w+)"
"""A verb and the pronouns before it."""
REMOVALS = [
    rule(rf"\b([jc])e n'{_VERB} pas\b", r"\1'\2"),
    rule(rf"(?:\bne |(?<!\bje )(?<!\bce )\bn'){_VERB} pas\b", r"\1"),
    rule(rf"\bne {_VERB} jamais\b", r"\1 toujours"),
]
_NEGATED = re.compile(r"\bne\b|\bn['’]|\b(?:pas|jamais|rien|personne|aucune?|sans|ni|non)\b", re.IGNORECASE)
_FREE = "(?<!')(?<!-)" + not_after("y en me te se le la les lui nous vous leur ce")
"""No pronoun stands before that belongs to the verb, nor a part of the word."""
INSERTIONS = [
    rule(rf"{_FREE}\b(est|était|a|avait|aime)(?= \w)", r"n'\1 pas", ignore_case=False),
    rule(
        rf"{_FREE}\b(sont|peut|peuvent|veut|veulent|doit|doivent|va|vont|fait|sera|seront)(?= \w)",
        r"ne \1 pas",
        ignore_case=False,
    ),
]

FRENCH = Language(NUMBERS, CONJUNCTIONS, REMOVALS, INSERTIONS, _NEGATED)
