"""Filters for single pairs: tests of both sides together, or of each side in its language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from nmt.languages.codes import is_spaced, script_of, scripts_of, usual_script
from nmt.languages.directions import LABEL, LanguagePair
from nmt.prepare.cleaning.encoding import is_broken
from nmt.prepare.cleaning.grouping import normal_form
from nmt.prepare.cleaning.settings import CorpusClean
from nmt.text.language import identified_as, in_other_language
from nmt.text.letters import western_digits
from nmt.text.split import CLAUSE_MARKS, CLOSING, COMMAS, SENTENCE_MARKS, n_sentences

Filter = Callable[[str, str], bool]
"""A function of both sides that returns whether the pair is dropped."""
SideTest = Callable[[str], bool]
"""A function of one side that returns whether the pair, or the line of monolingual text, is dropped."""
LINK = re.compile(r"(?:https?|ftp)://\S|\bwww\.\w|[\w.+-]+@\w[\w-]*\.\w")
_MARKUP = re.compile(
    r"</?[a-zA-Z][^<>]*>"  # <b>, </b>, <a href="...">
    r"|\{\{?[\w.:]*\}\}?"  # {0}, {name}, {{name}}, ${name}
    r"|%(?:\d+\$)?(?:\(\w+\))?(?:\.\d+)?(?:l?[dux]|[sfi@])(?!\w)"  # %s, %2$s, %(name)s, %.2f
    r"|%\d+(?![\w.,%])|%[A-Z_]{2,}%?"  # %1, %NAME, %NAME%
    r"|\$[\[(][\w.]+[\])]"  # $[name], $(name)
)
_NAME = re.compile(r"</?[\w.:-]+")  # attributes may be translated
_POSITION = re.compile(r"(?<=%)\d+\$")
_NUMBER = re.compile(r"\d+")
_LONG_NUMBER = re.compile(r"\d{3}")
_AS_WORDS = 12  # numbers up to this one are often written as words
_CLOSING = f" \u00a0\u202f*_{CLOSING}"
_FINAL = frozenset(f"{SENTENCE_MARKS}།༎፡")  # also Tibetan ones, and what stands for the Ethiopic full stop
# no mark follows these two letters in Tibetan; a bar may stand for a danda
_ANY_FINAL = _FINAL.union("-–—ཀག|", CLAUSE_MARKS, COMMAS)


def _different(of_side: Callable[[str], object]) -> Filter:
    """Return a filter of pairs whose sides have different values of a function."""
    return lambda src, tgt: of_side(src) != of_side(tgt)


def n_links(text: str) -> int:
    """Count the web and e-mail addresses of a text."""
    return len(LINK.findall(text)) if "@" in text or "://" in text or "www." in text else 0


def tags(text: str) -> list[str]:
    """Return the tags and placeholders of a text, sorted."""
    if "<" not in text and "{" not in text and "%" not in text and "$" not in text:
        return []
    return sorted(map(_comparable_tag, _MARKUP.findall(text)))


def _comparable_tag(tag: str) -> str:
    name = _NAME.match(tag)
    return _POSITION.sub("", tag) if name is None else name[0]


def other_numbers(src: str, tgt: str) -> bool:
    """Return whether the digits of any number on one side are missing from the digits on the other side.

    Punctuation within numbers therefore has no effect. Numbers up to 12 are ignored.
    """
    return any(_lacking(src, tgt))


def changed_numbers(src: str, tgt: str) -> bool:
    """Return whether digits on both sides differ, or those of a long number have no digits on the other side.

    Numbers in words, Roman numerals, other units and hours of twelve have digits on one side only.
    """
    lacks_src, lacks_tgt = _lacking(src, tgt)
    has_none = _LONG_NUMBER.search(src) is not None and not _NUMBER.search(tgt)
    return lacks_src and (lacks_tgt or has_none)


def _lacking(src: str, tgt: str) -> tuple[bool, bool]:
    """Return whether the digits of any number on each side are missing from those on the other one."""
    first, second = (_NUMBER.findall(western_digits(text)) for text in (src, tgt))
    return _lacks(second, first), _lacks(first, second)


def _lacks(present: list[str], expected: list[str]) -> bool:
    """Return whether an expected number is missing. Leading zeros are ignored, but not the other ones: 10.000."""
    digits = "".join(map(_value, present))
    groups = " ".join(present)
    for number in map(_value, expected):
        if number in digits or (len(number) <= 2 and int(number or "0") <= _AS_WORDS):
            continue
        # compiling a pattern of a long number takes milliseconds
        if number not in groups.replace(" ", "") or not re.search(rf"\b0*{' ?'.join(number)}\b", groups):
            return True
    return False


def _value(number: str) -> str:
    return number.lstrip("0")


def is_cut(src: str, tgt: str) -> bool:
    """Return whether one side ends with sentence-final punctuation, and the other without punctuation."""
    src = src.rstrip(_CLOSING)[-1:]
    tgt = tgt.rstrip(_CLOSING)[-1:]
    return (src in _FINAL and tgt not in _ANY_FINAL) or (tgt in _FINAL and src not in _ANY_FINAL)


_SHOUTED_LETTERS = 12  # fewer may be abbreviations


def filters(
    clean: CorpusClean, languages: LanguagePair, blocked: Mapping[str, SideTest], mix: dict[str, dict[str, int]]
) -> Iterator[tuple[str, Filter]]:
    """Yield the filters of a corpus with their reasons, in the order in which they are applied.

    In a corpus with labels, only the text is filtered. Filters that do not apply to a language are left out, see
    `supports`. `blocked`: the tests of the block lists by language; `mix`: `CleanReport.mix`, to which language
    identification adds its counts. Raises DataError if a package is missing.
    """
    dropped = () if LABEL in languages else clean.drop or ()
    if "copied" in dropped:
        yield "copied", same_letters(languages)
    first, second = (dict(side_tests(clean, language, blocked, mix)) for language in languages)
    in_other = None
    for reason in first | second:
        is_bad_side = _either(first.get(reason, _no), second.get(reason, _no))
        if reason == "language":
            in_other = is_bad_side
        else:
            yield reason, is_bad_side
    pair_tests = {
        "links": _different(n_links),
        "tags": _different(tags),
        "numbers": other_numbers,
        "sentences": _different(n_sentences),
        "truncated": is_cut,
    }
    for reason, is_bad in pair_tests.items():
        if reason in dropped and all(supports(language, reason) for language in languages):
            yield reason, is_bad
    if in_other is not None:
        yield "language", in_other


def side_tests(
    clean: CorpusClean, language: str, blocked: Mapping[str, SideTest], mix: dict[str, dict[str, int]]
) -> Iterator[tuple[str, SideTest]]:
    """Yield the tests of a side with their reasons, none for labels; for `blocked` and `mix`, see `filters`."""
    if language == LABEL:
        return
    dropped = clean.drop or ()
    if "broken" in dropped:
        yield "broken", is_broken()
    has_words = is_spaced(language)
    # both sides have the same steps, so that the order of the reasons does not depend on the languages
    if clean.max_words:
        is_bad = more_words(clean.max_words) if has_words else _no
        yield "words", is_bad
    if clean.max_word_chars:
        is_bad = longer_word(clean.max_word_chars) if has_words else _no
        yield "word", is_bad
    if "shouted" in dropped:
        yield "shouted", is_shouted
    if clean.min_script:
        yield "script", other_script(language, clean.min_script)
    if language in blocked:
        yield "blocked", blocked[language]
    if "language" in dropped and supports(language, "language"):
        yield "language", in_other_language(language, mix.setdefault(language, {}))


UNSUPPORTED = {
    "sentences": "its text is not divided into sentences",
    "truncated": "its sentences have no final mark",
    "language": "py3langid does not know it",
}
"""Reasons to drop a pair that do not apply to some languages, and why."""


def supports(language: str, reason: str) -> bool:
    """Return whether text in a language can be dropped for a reason; see `UNSUPPORTED`."""
    if reason == "language":
        return bool(identified_as(language))
    script = usual_script(language)
    if (reason, script.code) == ("truncated", "Tibt"):
        return True  # its marks end sentences, but other clauses as well
    return reason not in UNSUPPORTED or not script.is_unspaced or script.sentence_ends != ""


def _either(first: SideTest, second: SideTest) -> Filter:
    return lambda src, tgt: first(src) or second(tgt)


def _no(_: str) -> bool:
    return False


def same_letters(languages: LanguagePair) -> Filter:
    """Return a filter of pairs whose sides differ only in case, accents, digits, punctuation and white space."""
    first, second = languages
    return lambda src, tgt: normal_form(src, first) == normal_form(tgt, second)


def more_words(most: int) -> SideTest:
    """Return a test for texts of more than `most` words."""
    return lambda text: text.count(" ") >= most and len(text.split()) > most


def longer_word(most: int) -> SideTest:
    """Return a test for texts with a word of more than `most` characters that is not a link."""

    def test(text: str) -> bool:
        words = text.replace("\u1361", " ").split()  # Ethiopic word space
        return max(map(len, words)) > most and any(len(word) > most and not LINK.search(word) for word in words)

    return test


def is_shouted(text: str) -> bool:
    """Return whether a text is in capitals that are most of its letters and too many for an abbreviation."""
    if not text.isupper():
        return False
    # Unicode folds Cherokee to capitals, which are its usual letters
    cased = sum(char != char.casefold() for char in text)
    return cased > _SHOUTED_LETTERS and 2 * cased > sum(map(str.isalpha, text))


def other_script(language: str, least: float) -> SideTest:
    """Return a test for texts in which the share of letters in a script of the language is less than `least`.

    If the script of the language is unknown, it is the one of most letters of the texts so far.
    """
    expected = scripts_of(language)
    totals = Counter[str | None]()

    def test(text: str) -> bool:
        if "Latn" in expected and not _BEYOND_LATIN.search(text):
            return False
        counts = Counter(map(script_of, text))
        del counts[None]  # no letters
        if not expected:
            totals.update(counts)
        accepted = expected or [script for script, _ in totals.most_common(1)]
        return sum(counts[script] for script in accepted) < least * counts.total()

    return test


_BEYOND_LATIN = re.compile("[^\x00-\u024f\u1e00-\u1eff\u2000-\u206f]")
