"""Changes of English: numbers in words, negation, and verbs that agree with their subject."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nmt.evaluate.contrasts.language import Edit, Language, alternatives, exchanged, not_after, rule

NUMBERS = alternatives(
    "two three four five six seven eight nine ten eleven twelve",
    "twenty thirty forty fifty sixty seventy eighty ninety",
    "hundred thousand",
    "hundreds thousands",
    "million billion",
    "millions billions",
)
CONJUNCTIONS = "and|but|or|because|while|although|when|who|which|where"
REMOVALS = [
    rule(r"\bcan(?:'t|not)\b", "can"),
    rule(r"\bwon't\b", "will"),
    rule(r"\b(is|are|was|were|do|does|did|has|have|had|could|would|should|must)n't\b", r"\1"),
    rule(r"(?<!\bor)(?<!\bif) not\b(?!-| only\b)", "", ignore_case=False),
    rule(r"(?:\bN|(?<![ \w-])n)ot (?!only\b)(?=\w)", "", ignore_case=False),
    rule(r"\bnever (?=\w)", ""),
    rule(r"\bno longer\b", "still"),
    rule(r"\bno one\b", "someone"),
    rule(r"\bnobody\b", "somebody"),
    rule(r"\bnothing\b", "something"),
    rule(r"\bno (?!longer\b|one\b|matter\b|more\b|less\b|later\b|sooner\b|other\b|fewer\b)(?=[a-z])", "some "),
]
_NEGATED = re.compile(
    r"n['’]t\b|\b(?:not?|never|nobody|nothing|nowhere|neither|nor|none|without|hardly|cannot)\b", re.I
)
_SUBJECTS = "I|you|he|she|it|we|they|there"
_NO_NOUN = not_after("the a his her my your their of as")
INSERTIONS = [
    rule(
        rf"{_NO_NOUN}\b(is|are|was|were|am|can|could|will|would|should|must|may|might)\b"
        rf"(?= (?!(?:{_SUBJECTS}|and|or|of|still|also|now)\b)[a-z])",
        r"\1 not",
        ignore_case=False,  # at the beginning of a sentence it is a question or a name
    )
]
VERBS = {"is": ["are"], "are": ["is"], "was": ["were"], "were": ["was"], "has": ["have"], "have": ["has"]}
_EITHER_NUMBER = re.compile(  # both numbers are right after these, and after "if I" and the like, in the subjunctive
    r"%|[$€£]|\b(?:group|couple|crowd|number|pair|team|family|majority|lot|bunch|set|range|series|variety|band|staff|"
    r"police|government|council|committee|club|party|union|association|army|public|city|none|half|rest|percent|each|either|any|or|"
    r"company|audience|class|crew|media|data|eur|usd|euros?|dollars?|pounds?|if|wish|though|one of)\b",
    re.IGNORECASE,
)


def break_verb(line: str) -> Iterator[Edit]:
    """Yield edits that change a verb between singular and plural."""
    if not _EITHER_NUMBER.search(line):
        yield from exchanged(line, VERBS)


ENGLISH = Language(NUMBERS, CONJUNCTIONS, REMOVALS, INSERTIONS, _NEGATED, {"verb number": break_verb})
