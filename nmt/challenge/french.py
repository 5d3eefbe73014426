"""Changes of French: numbers in words and negation."""

from __future__ import annotations

import re

from nmt.challenge.language import Language
from nmt.challenge.rewriting import alternatives, rule

NUMBERS = alternatives(
    "deux trois quatre cinq six sept huit dix onze douze",  # "neuf" is "new", too
    "vingt trente quarante cinquante soixante",
    "cent mille",
    "millions milliards",
)
CONJUNCTIONS = "et|mais|ou|parce que|car|quand|qui|où"
REMOVALS = [
    rule(r"\b(?:ne |n')((?:(?:l'|y |en |me |te |se |le |la |les |lui |nous |vous |leur )*)\w+(?:-\w+)?) pas\b", r"\1"),
    rule(
        r"\b(?:ne |n')((?:(?:l'|y |en |me |te |se |le |la |les |lui |nous |vous |leur )*)\w+) jamais\b", r"\1 toujours"
    ),
]
_NEGATED = re.compile(r"\bne\b|\bn['’]|\b(?:pas|jamais|rien|personne|aucune?|sans|ni|non)\b", re.IGNORECASE)
_CLITIC = "".join(
    rf"(?<!\b{word} )" for word in ("y", "en", "me", "te", "se", "le", "la", "les", "lui", "nous", "vous", "leur", "ce")
)
INSERTIONS = [
    rule(rf"(?<!')(?<!-){_CLITIC}\b(est|était|a|avait|aime)(?= \w)", r"n'\1 pas", ignore_case=False),
    rule(
        rf"(?<!')(?<!-){_CLITIC}\b(sont|peut|peuvent|veut|veulent|doit|doivent|va|vont|fait|sera|seront)(?= \w)",
        r"ne \1 pas",
        ignore_case=False,
    ),
]

FRENCH = Language(NUMBERS, CONJUNCTIONS, REMOVALS, INSERTIONS, _NEGATED)
