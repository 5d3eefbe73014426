"""Contrasts of challenge sets: a correct translation and one with a known error, made from any parallel text.

Changes for all languages come first, followed by the words and rules of German and English.
"""

from __future__ import annotations

import random
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from nmt.languages.codes import parts_of
from nmt.text.split import COMMAS, SEMICOLONS, SENTENCE_MARKS
from nmt.text.words import UNSPACED

WORD = re.compile(r"[^\W\d_]+")


class Edit(NamedTuple):
    """A replacement of some characters of a line."""

    start: int
    end: int
    text: str

    def apply(self, line: str) -> str:
        """Return the line with the replacement."""
        return line[: self.start] + self.text + line[self.end :]


Rule = tuple[re.Pattern[str], str]
"""A pattern and its replacement, a template of `re.Match.expand`."""


def rule(pattern: str, replacement: str, ignore_case: bool = True) -> Rule:
    """Compile a rewriting rule. A typewriter apostrophe in its pattern also matches a typographic one."""
    flags = re.IGNORECASE if ignore_case else 0
    return re.compile(pattern.replace("'", "['’]"), flags), replacement


def rewritten(line: str, rules: Sequence[Rule]) -> Iterator[Edit]:
    """Yield an edit for each match of each rewriting rule."""
    for pattern, replacement in rules:
        for match in pattern.finditer(line):
            yield replaced(line, match, match.expand(replacement))


def exchanged(line: str, table: Mapping[str, Sequence[str]]) -> Iterator[Edit]:
    """Yield edits that replace one word of the line by each of its alternatives in `table`.

    A word is looked up in lower case, then as it is written.
    """
    for match in WORD.finditer(line):
        for word in table.get(match[0].lower()) or table.get(match[0], ()):
            if len(match[0]) > 1 and match[0].isupper():
                word = word.upper()
            yield replaced(line, match, word)


def replaced(line: str, match: re.Match[str], by: str) -> Edit:
    """Return the edit that replaces a match. If the match is capitalised, so is the replacement."""
    end = match.end()
    if match[0][:1].isupper():
        if not by:
            by = line[end : end + 1]
            end = end + 1
        by = by[:1].upper() + by[1:]
    return Edit(match.start(), end, by)


def alternatives(*groups: str) -> dict[str, list[str]]:
    """Return for each word the other words of its group; a group is a string of words separated by spaces."""
    others_of = dict[str, list[str]]()
    for group in groups:
        words = group.split()
        for word in words:
            others_of[word] = [other for other in words if other != word]
    return others_of


SHORTEST = 3
"""Minimum number of words of a dropped clause, and of the rest of its sentence."""
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"[^\W\d_]{3,}")
_COMMA = re.compile(rf"(?!,[^ ])[{COMMAS}{SEMICOLONS}]")
_SENTENCE_END = re.compile(rf"[{SENTENCE_MARKS}]+(?=[\s\"“”»«')]|$)")
_PAIRED = re.compile('["“”„«»()\\[\\]{}]')
_COUNTED = re.compile(rf"[{UNSPACED}]|\w+")


def digits(line: str) -> Iterator[Edit]:
    """Yield edits that change one digit. No number becomes 1 or is changed from 1, as the noun would not agree."""
    for number in _NUMBER.finditer(line):
        if number[0] == "1":
            continue
        for place in range(number.start(), number.end()):
            digit = int(line[place])
            lowest = 0
            zero = ord(line[place]) - digit  # the zero of its script
            if place == number.start():
                lowest = 2 if len(number[0]) == 1 else 1  # no "0" or "1" for "2", and no "02" for "12"
            for other in range(lowest, 10):
                if other != digit:
                    yield Edit(place, place + 1, chr(zero + other))


def names(source: str, reference: str) -> Iterator[Edit]:
    """Yield edits that swap two adjacent letters in a capitalised word that is also in the source."""
    known = set(_NAME.findall(source))
    for word in _NAME.finditer(reference):
        if word[0] not in known or not word[0][0].isupper():
            continue
        for place in range(word.start() + 1, word.end() - 1):
            first = reference[place]
            second = reference[place + 1]
            if first.lower() != second.lower():
                yield Edit(place, place + 2, second + first)


def clauses(line: str, conjunctions: str) -> Iterator[Edit]:
    """Yield edits that drop the end of a sentence, starting at a comma or a conjunction.

    `conjunctions` are separated by `|`.
    """
    starts = {match.start() for match in _COMMA.finditer(line)}
    if conjunctions:
        starts |= {match.start() for match in re.finditer(rf"(?<![,;]) (?:{conjunctions})\b", line)}
    ends = list(_SENTENCE_END.finditer(line))
    stops = [match.start() for match in ends]
    resumes = [0, *(match.end() for match in ends)]
    for start in sorted(starts):
        sentence = bisect(stops, start)
        stop = stops[sentence] if sentence < len(stops) else len(line)
        kept = line[resumes[sentence] : start]
        dropped = line[start:stop]
        if not _PAIRED.search(dropped) and min(map(n_words, (kept, dropped))) >= SHORTEST:
            yield Edit(start, stop, "")


def n_words(text: str) -> int:
    """Count the words of a text; in scripts without spaces between words, each character counts as a word."""
    return len(_COUNTED.findall(text))


@dataclass(frozen=True)
class Language:
    """The words and rules of a language, which are empty for languages without word lists."""

    numbers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Numbers in words, each with other numbers that can replace it."""
    conjunctions: str = ""
    """Words that may begin a clause or the last item of a list, separated by `|`."""
    removals: Sequence[Rule] = ()
    """Rules that remove the negation from a line."""
    insertions: Sequence[Rule] = ()
    """Rules that insert a negation into a line."""
    negated: re.Pattern[str] | None = None
    """A pattern for lines with a negation."""
    verbs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Verbs in the singular and in the plural, each with the other one."""
    either_number: re.Pattern[str] | None = None
    """A pattern for lines in which a verb may be singular or plural."""
    article: Callable[[str], Iterator[Edit]] | None = None
    """A function that yields edits that change the gender of an article."""
    pronouns: Sequence[str] = ()
    """Pronouns that all translate English "it"; the noun that it stands for may be in the sentence before."""

    def edits(self, line: str) -> dict[str, Iterable[Edit]]:
        """Return all edits that make a translation wrong, by kind of change."""
        kinds: dict[str, Iterable[Edit]] = {
            "number": chain(digits(line), exchanged(line, self.numbers)),
            "clause dropped": clauses(line, self.conjunctions),
        }
        if self.negated is not None:
            removals = self.removals
            insertions = self.insertions
            if self.negated.search(line) is not None:
                insertions = ()
            if "?" in line:  # a negated question often asks the same as a plain one
                removals = insertions = ()
            kinds["negation removed"] = rewritten(line, removals)
            kinds["negation inserted"] = rewritten(line, insertions)
        if self.article is not None:
            kinds["article"] = self.article(line)
        if self.either_number is not None:
            kinds["verb number"] = ()
            if self.either_number.search(line) is None:
                kinds["verb number"] = exchanged(line, self.verbs)
        return kinds


# --- German ---

_DE_NUMBERS = alternatives(
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "hundert tausend",
    "Hunderte Tausende",
    "Million Milliarde",
    "Millionen Milliarden",
)
_DE_CONJUNCTIONS = "und|aber|oder|sondern|denn|während"
_DE_REMOVALS = [
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
_DE_NEGATED = re.compile(r"\b(?:nichts?|nie|niemals|niemand\w*|kein\w*|nirgend\w*|weder|ohne|kaum)\b", re.IGNORECASE)

# words with the endings of adjectives that are not adjectives
_DE_OTHERS = (
    "der|die|den|dem|des|er|sie|es|ihre[nrms]?|seine[nrms]?|unsere[nrms]?|meine[nrms]?|deine[nrms]?|eine[nrms]?|"
    "diese[nrms]?|jede[nrms]?|keine[nrms]?|über|unter|hinter|gegen|neben|zwischen|wegen|oder|aber|immer|wieder|weiter|"
    "bisschen|andere[nr]?"
)
_DE_NOUN_PHRASE = rf"(?=(?:(?!(?:{_DE_OTHERS})\b)[a-zäöüß]+(?:e|en|er|es|em) ){{0,2}}(?P<noun>[A-ZÄÖÜ][a-zäöüß]+))"
"""A lookahead for up to two adjectives and a noun."""
_DE_VERBS = (
    "ist|sind|war|waren|bin|bist|wird|werden|wurde|wurden|kann|können|konnte|konnten|will|wollen|wollte|wollten|soll|"
    "sollen|sollte|sollten|muss|müssen|musste|mussten|darf|dürfen|durfte|durften"
)
_DE_PRONOUNS = "ich|du|er|sie|es|wir|ihr|man|sich|mich|mir|dich|dir|ihn|ihm|uns|euch|ihnen|Sie|Ihnen"
_DE_NOT_AFTER_NICHT = (
    rf"{_DE_VERBS}|{_DE_PRONOUNS}|und|oder|aber|sondern|denn|wie|als|dass|ob|eine?[nmrs]?|noch|schon|auch|ja|doch|wohl|zwar|"
    r"laut|demnach|beispielsweise|letztlich|zudem|jedoch|allerdings|inzwischen|bereits|also|dann|daher|damit|nur"
)
_DE_NO_KEIN = r"(?!(?:Tages|Abends|Morgens|Nachts)\b)"
_DE_INSERTIONS = [
    rule(
        rf"(?<![Ww]as für )(?<!\bso )\b[Ee]in(e[nmrs]?)? {_DE_NO_KEIN}{_DE_NOUN_PHRASE}", r"kein\1 ", ignore_case=False
    ),
    rule(rf"\b({_DE_VERBS}) (?!(?:{_DE_NOT_AFTER_NICHT})\b)(?=\w)", r"\1 nicht ", ignore_case=False),
    rule(
        rf"\b((?:{_DE_VERBS})(?: (?:{_DE_PRONOUNS}))+)\b(?! (?:{_DE_NOT_AFTER_NICHT})\b)(?=[ .,;!])",
        r"\1 nicht",
        ignore_case=False,
    ),
]

_DE_ARTICLES = {
    "der": ["das"],  # not "die": it may be another case after a preposition, or another person before some nouns
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
"""Articles, each with articles of another gender that the same noun has in no other case or number."""
_DE_ARTICLE = re.compile(
    rf"\b(?:{'|'.join((*_DE_ARTICLES, *map(str.capitalize, _DE_ARTICLES)))})(?= {_DE_NOUN_PHRASE})"
)
_DE_EITHER_GENDER = re.compile(
    r"(?:teil|meter|liter|virus|laptop|blog|joghurt|event|poster|keks|gummi|dschungel|radar|filter|service|match|bonbon|"
    r"sakko|pyjama|comic|lasso|spray|kajak|terminal|cola|mail|band|see)s?$",
    re.IGNORECASE,
)
_DE_VERB_PAIRS = alternatives(
    "ist sind", "war waren", "hat haben", "hatte hatten", "wird werden", "wurde wurden", "kann können", "muss müssen",
    "soll sollen", "will wollen", "darf dürfen",
)  # fmt: skip
_DE_EITHER_NUMBER = re.compile(
    r"\b(?:gruppe|reihe|anzahl|menge|paar|hälfte|mehrheit|teil|prozent|dutzend|oder|million|milliarde|viertel|drittel)\b",
    re.IGNORECASE,
)


def _break_article(line: str) -> Iterator[Edit]:
    """Yield edits that change the gender of an article."""
    for match in _DE_ARTICLE.finditer(line):
        if not _DE_EITHER_GENDER.search(match["noun"]):
            for article in _DE_ARTICLES[match[0].lower()]:
                yield replaced(line, match, article)


GERMAN = Language(
    _DE_NUMBERS, _DE_CONJUNCTIONS, _DE_REMOVALS, _DE_INSERTIONS, _DE_NEGATED, _DE_VERB_PAIRS, _DE_EITHER_NUMBER,
    _break_article, ("Er", "Sie", "Es"),
)  # fmt: skip


# --- English ---

_EN_NUMBERS = alternatives(
    "two three four five six seven eight nine ten eleven twelve",
    "twenty thirty forty fifty sixty seventy eighty ninety",
    "hundred thousand",
    "hundreds thousands",
    "million billion",
    "millions billions",
)
_EN_CONJUNCTIONS = "and|but|or|because|while|although|when|who|which|where"
_EN_REMOVALS = [
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
_EN_NEGATED = re.compile(
    r"n['’]t\b|\b(?:not?|never|nobody|nothing|nowhere|neither|nor|none|without|hardly|cannot)\b", re.I
)
_EN_SUBJECTS = "I|you|he|she|it|we|they|there"
_EN_BEFORE_NOUN = ("the", "a", "his", "her", "my", "your", "their", "of", "as")
_EN_NO_NOUN = "".join(rf"(?<!\b(?i:{word}) )" for word in _EN_BEFORE_NOUN)
_EN_INSERTIONS = [
    rule(
        rf"{_EN_NO_NOUN}\b(is|are|was|were|am|can|could|will|would|should|must|may|might)\b"
        rf"(?= (?!(?:{_EN_SUBJECTS}|and|or|of|still|also|now)\b)[a-z])",
        r"\1 not",
        ignore_case=False,  # a capitalised verb starts a question or is a name
    )
]
_EN_VERB_PAIRS = alternatives("is are", "was were", "has have")
_EN_EITHER_NUMBER = re.compile(  # lines with these words may have either verb number; "if I were" is a subjunctive
    r"%|[$€£]|\b(?:group|couple|crowd|number|pair|team|family|majority|lot|bunch|set|range|series|variety|band|staff|"
    r"police|government|council|committee|club|party|union|association|army|public|city|none|half|rest|percent|each|either|any|or|"
    r"company|audience|class|crew|media|data|eur|usd|euros?|dollars?|pounds?|if|wish|though|one of)\b",
    re.IGNORECASE,
)
ENGLISH = Language(
    _EN_NUMBERS, _EN_CONJUNCTIONS, _EN_REMOVALS, _EN_INSERTIONS, _EN_NEGATED, _EN_VERB_PAIRS, _EN_EITHER_NUMBER
)


@dataclass(frozen=True)
class Contrast:
    """A correct translation and wrong ones, each of which the model should find less probable."""

    kind: str
    source: str
    reference: str
    changed: tuple[str, ...]
    """The wrong translations: several only in sets such as ContraPro, where a line counts once."""
    origin: str
    """The test set and the number of the line, as in newstest2009.1."""
    context: tuple[tuple[str, str], ...] = ()
    """The pairs of lines before it in its document, with which it is scored."""


def language_of(code: str) -> Language:
    """Return the rules of a language by its code, such as de or de-CH."""
    languages = {"de": GERMAN, "en": ENGLISH}
    return languages.get(parts_of(code)[0], Language())


def kinds_of(language: Language) -> tuple[str, ...]:
    """Return the kinds of errors that can be inserted into references in a language."""
    kinds = ["name", *language.edits("")]
    if language.pronouns:
        kinds.append("pronoun")
    return tuple(kinds)


def make_contrasts(lines: Iterable[tuple[str, str]], name: str, language: Language, seed: int) -> Iterator[Contrast]:
    """Insert errors into references: yield one contrast for each line and each kind of change that the line allows.

    The choice between several edits depends only on the seed and the line, so that a part of a test set has the same
    contrasts as the whole. `name` is the name of the test set, `language` the language of the references.
    """
    for number, (source, reference) in enumerate(lines, start=1):
        for kind, edits in {"name": names(source, reference), **language.edits(reference)}.items():
            if candidates := list(edits):
                edit = random.Random(f"{seed}\n{kind}\n{source}\n{reference}").choice(candidates)
                yield Contrast(kind, source, reference, (edit.apply(reference),), f"{name}.{number}")
        pronoun, _, following = reference.partition(" ")
        if pronoun in language.pronouns and source.startswith("It "):
            changed = tuple(f"{other} {following}" for other in language.pronouns if other != pronoun)
            yield Contrast("pronoun", source, reference, changed, f"{name}.{number}")
