"""Filters that judge each pair on its own: tests of both sides together, or of each side in its language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from nmt.config.clean import CorpusClean
from nmt.config.data import LABEL
from nmt.errors import DataError
from nmt.prepare.cleaning.agreement import LINK, is_cut, other_links, other_numbers, other_sentences, other_tags
from nmt.prepare.cleaning.block_lists import block_list
from nmt.prepare.cleaning.encoding import is_broken
from nmt.prepare.cleaning.language import in_other_language
from nmt.prepare.cleaning.normal_form import normal_form
from nmt.prepare.cleaning.script import in_other_script, is_spaced, scripts_of

Filter = Callable[[str, str], bool]
"""Whether a pair is dropped."""
SideTest = Callable[[str], bool]
"""Whether a pair is dropped, by one of its sides; or a line of monolingual text."""

_SHOUTED_LETTERS = 12  # fewer may be abbreviations


def filters(
    clean: CorpusClean, languages: tuple[str, str], root: Path, mix: dict[str, dict[str, int]]
) -> Iterator[tuple[str, Filter]]:
    """Yield the filters of a corpus with their reasons, in the order in which they are applied; of a corpus with labels
    those of the text alone.

    root: the folder of the block lists. mix: `CleanReport.mix`, which the identification of languages fills.
    Raises DataError if a list, a package or facts about a language are missing.
    """
    if LABEL in languages:
        side = 1 - languages.index(LABEL)
        for reason, test in side_tests(clean, languages[side], root, mix):
            yield reason, _of_side(test, side)
        return
    if clean.copied == "normal":
        yield "copied", same_letters
    first, second = (side_tests(clean, language, root, mix) for language in languages)
    either = {reason: _either(test, other) for (reason, test), (_, other) in zip(first, second, strict=True)}
    language = either.pop("language", None)
    yield from either.items()
    if clean.same_links:
        yield "links", other_links
    if clean.same_tags:
        yield "tags", other_tags
    if clean.same_numbers:
        yield "numbers", other_numbers
    if clean.same_sentences:
        yield "sentences", other_sentences
    if clean.truncated:
        if without := {"th", "lo"} & {language.split("_")[0].lower() for language in languages}:
            raise DataError(f"clean.truncated: sentences have no final mark in {without.pop()}; set it to false")
        yield "truncated", is_cut
    if language is not None:
        yield "language", language


def side_tests(
    clean: CorpusClean, language: str, root: Path, mix: dict[str, dict[str, int]]
) -> Iterator[tuple[str, SideTest]]:
    """Yield the tests of a side with their reasons, the same reasons for any language; otherwise as `filters`."""
    if clean.broken:
        yield "broken", is_broken()
    if clean.max_words:
        yield "words", more_words(language, clean.max_words)
    if clean.max_word_chars:
        yield "word", longer_word(language, clean.max_word_chars)
    if clean.shouted:
        yield "shouted", is_shouted
    if clean.min_script:
        yield "script", other_script(language, clean.min_script)
    if clean.block_lists:
        name = clean.block_lists.get(language)
        yield "blocked", block_list(root / name, language) if name is not None else _no
    if clean.language:
        yield "language", in_other_language(language, mix.setdefault(language, {}))


def _either(first: SideTest, second: SideTest) -> Filter:
    return lambda src, tgt: first(src) or second(tgt)


def _of_side(test: SideTest, side: int) -> Filter:
    return lambda src, tgt: test((src, tgt)[side])


def _no(text: str) -> bool:
    del text
    return False


def same_letters(src: str, tgt: str) -> bool:
    """Whether both sides are the same but for case, accents, digits, punctuation and white space."""
    return normal_form(src) == normal_form(tgt)


def more_words(language: str, most: int) -> SideTest:
    """Return a test for more than `most` words; without effect in languages written without spaces."""
    if not is_spaced(language):
        return _no
    return lambda text: text.count(" ") >= most and len(text.split()) > most


def longer_word(language: str, most: int) -> SideTest:
    """Return a test for a word of more than `most` characters that is no link, where spaces separate words."""
    if not is_spaced(language):
        return _no

    def test(text: str) -> bool:
        words = text.split()
        return max(map(len, words)) > most and any(len(word) > most and not LINK.search(word) for word in words)

    return test


def is_shouted(text: str) -> bool:
    """Whether all letters that have case are capitals, and are most of the text and more than an abbreviation."""
    if not text.isupper():
        return False
    cased = sum(char.isupper() for char in text)
    return cased > _SHOUTED_LETTERS and 2 * cased > sum(map(str.isalpha, text))


def other_script(language: str, least: float) -> SideTest:
    """Return a test for less than a share `least` of letters in a script of the language. Raises DataError."""
    scripts = scripts_of(language)
    if not scripts:
        raise DataError(
            f"clean.min_script needs the script of {language}, which is not known; name it in the language code, "
            f"such as {language}_Latn"
        )
    return in_other_script(scripts, least)
