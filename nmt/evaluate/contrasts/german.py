"""Changes of German: numbers in words, negation, articles that agree with their noun and verbs with their subject."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nmt.evaluate.contrasts.language import Edit, Language, alternatives, exchanged, replaced, rule

NUMBERS = alternatives(
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "hundert tausend",
    "Hunderte Tausende",
    "Million Milliarde",
    "Millionen Milliarden",
)
CONJUNCTIONS = "und|aber|oder|sondern|denn|während"
REMOVALS = [
    rule(r"\bnoch nicht\b", "schon"),
    rule(r"\bnicht mehr\b(?! als\b)", "noch"),
    rule(r"(?<!\boder)(?<!\bnoch)(?<!\bob) nicht\b(?!-| nur\b)(?! mehr\b(?! als\b))", "", ignore_case=False),
    rule(r"(?:\bN|(?<![ \w-])n)icht (?!nur\b|mehr\b)(?=\w)", "", ignore_case=False),
    rule(r"\bauf keinen fall\b", "auf jeden Fall"),
    rule(r"\bkein(en|em|er|es|s)?\b(?! fall\b)", r"ein\1"),
    rule(r"\bkeine (?!der\b|von\b|mehr\b|andere[nr]? als\b)(?=[^\W\d_])", ""),
    rule(r"\bnoch nie\b", "schon oft"),
    rule(r"(?<!\bnoch )\bnie(?:mals)?\b", "immer"),
    rule(r"\bniemand(en|em)?\b", r"jemand\1"),
    rule(r"\bnichts\b", "etwas"),
]
_NEGATED = re.compile(r"\b(?:nichts?|nie|niemals|niemand\w*|kein\w*|nirgend\w*|weder|ohne|kaum)\b", re.IGNORECASE)

# words that end as adjectives do
_OTHERS = (
    "der|die|den|dem|des|er|sie|es|ihre[nrms]?|seine[nrms]?|unsere[nrms]?|meine[nrms]?|deine[nrms]?|eine[nrms]?|"
    "diese[nrms]?|jede[nrms]?|keine[nrms]?|über|unter|hinter|gegen|neben|zwischen|wegen|oder|aber|immer|wieder|weiter|"
    "bisschen|andere[nr]?"
)
_NOUN_PHRASE = rf"(?=(?:(?!(?:{_OTHERS})\b)[a-zäöüß]+(?:e|en|er|es|em) ){{0,2}}(?P<noun>[A-ZÄÖÜ][a-zäöüß]+))"
"""Up to two adjectives and a noun, not part of the match."""
_VERBS = (
    "ist|sind|war|waren|bin|bist|wird|werden|wurde|wurden|kann|können|konnte|konnten|will|wollen|wollte|wollten|soll|"
    "sollen|sollte|sollten|muss|müssen|musste|mussten|darf|dürfen|durfte|durften"
)
_PRONOUNS = "ich|du|er|sie|es|wir|ihr|man|sich|mich|mir|dich|dir|ihn|ihm|uns|euch|ihnen|Sie|Ihnen"
_NOT_AFTER_NICHT = (
    rf"{_VERBS}|{_PRONOUNS}|und|oder|aber|sondern|denn|wie|als|dass|ob|eine?[nmrs]?|noch|schon|auch|ja|doch|wohl|zwar|"
    r"laut|demnach|beispielsweise|letztlich|zudem|jedoch|allerdings|inzwischen|bereits|also|dann|daher|damit|nur"
)
_NO_KEIN = r"(?!(?:Tages|Abends|Morgens|Nachts)\b)"
INSERTIONS = [
    rule(rf"(?<![Ww]as für )(?<!\bso )\b[Ee]in(e[nmrs]?)? {_NO_KEIN}{_NOUN_PHRASE}", r"kein\1 ", ignore_case=False),
    rule(rf"\b({_VERBS}) (?!(?:{_NOT_AFTER_NICHT})\b)(?=\w)", r"\1 nicht ", ignore_case=False),
    rule(
        rf"\b((?:{_VERBS})(?: (?:{_PRONOUNS}))+)\b(?! (?:{_NOT_AFTER_NICHT})\b)(?=[ .,;!])",
        r"\1 nicht",
        ignore_case=False,
    ),
]

ARTICLES = {
    "der": ["das"],  # not "die", which after a preposition may be another case, and before some nouns another person
    "die": ["das"],
    "das": ["der", "die"],
    "den": ["das"],
    "dem": ["der"],
    "des": ["der"],
    "ein": ["eine"],
    "eine": ["ein"],
    "einen": ["eine"],
    "einem": ["einer"],
    "einer": ["einem"],
    "eines": ["einer"],
}
"""For each article those of another gender, none of which is an article of the same noun in another case or number."""
_ARTICLE = re.compile(rf"\b(?:{'|'.join((*ARTICLES, *map(str.capitalize, ARTICLES)))})(?= {_NOUN_PHRASE})")
_EITHER_GENDER = re.compile(
    r"(?:teil|meter|liter|virus|laptop|blog|joghurt|event|poster|keks|gummi|dschungel|radar|filter|service|match|bonbon|"
    r"sakko|pyjama|comic|lasso|spray|kajak|terminal|cola|mail|band|see)s?$",
    re.IGNORECASE,
)
VERBS = {
    one: [other]
    for singular, plural in (
        ("ist", "sind"), ("war", "waren"), ("hat", "haben"), ("hatte", "hatten"), ("wird", "werden"),
        ("wurde", "wurden"), ("kann", "können"), ("muss", "müssen"), ("soll", "sollen"), ("will", "wollen"),
        ("darf", "dürfen"),
    )
    for one, other in ((singular, plural), (plural, singular))
}  # fmt: skip
_EITHER_NUMBER = re.compile(
    r"\b(?:gruppe|reihe|anzahl|menge|paar|hälfte|mehrheit|teil|prozent|dutzend|oder|million|milliarde|viertel|drittel)\b",
    re.IGNORECASE,
)


def break_article(line: str) -> Iterator[Edit]:
    """Yield edits that change the gender of an article."""
    for match in _ARTICLE.finditer(line):
        if not _EITHER_GENDER.search(match["noun"]):
            for article in ARTICLES[match[0].lower()]:
                yield replaced(line, match, article)


def break_verb(line: str) -> Iterator[Edit]:
    """Yield edits that change a verb between singular and plural."""
    if not _EITHER_NUMBER.search(line):
        yield from exchanged(line, VERBS)


GERMAN = Language(
    NUMBERS, CONJUNCTIONS, REMOVALS, INSERTIONS, _NEGATED, {"article": break_article, "verb number": break_verb}
)
