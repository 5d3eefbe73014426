"""Changes of Spanish: numbers in words and negation."""

from __future__ import annotations

import re

from nmt.evaluate.contrasts.language import Language, alternatives, not_after, rule

NUMBERS = alternatives(
    "dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "cien mil",
    "millones billones",
)
CONJUNCTIONS = "y|pero|o|porque|cuando|mientras|donde"
REMOVALS = [
    rule(r"\bno (?!obstante\b|solo\b|sólo\b)(?=\w)", ""),
    rule(r"\bnunca (?=\w)", "siempre "),
]
_NEGATED = re.compile(r"\b(?:no|nunca|jamás|nada|nadie|ning\w+|sin|ni|tampoco)\b", re.IGNORECASE)
_FREE = not_after("me te se lo la los las le les nos os")
"""No pronoun stands before that belongs to the verb."""
INSERTIONS = [
    rule(
        rf"{_FREE}\b(es|son|era|eran|está|están|estaba|estaban|fue|fueron|ha|han|puede|pueden|quiere|quieren|debe|"
        r"deben|tiene|tienen|hay|será|serán)(?= \w)",
        r"no \1",
        ignore_case=False,
    )
]

SPANISH = Language(NUMBERS, CONJUNCTIONS, REMOVALS, INSERTIONS, _NEGATED)
