"""Checks of a sample of each corpus for systematic errors: swapped, shifted or unrelated sides, wrong language, wrong
encoding.

The sample is bounded and spread over the corpus. Warnings are about a corpus as a whole, and nothing is dropped for
them. The limits are chosen so that good text of any kind gives no warning, see docs/data.md.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, permutations

from nmt.console import amount, listed, printable_sentence
from nmt.errors import DataError
from nmt.languages.codes import (
    character_class,
    code_for,
    language_name,
    parts_of,
    script_of_text,
    scripts,
    scripts_of,
    tag_of,
)
from nmt.languages.directions import LABEL, LanguagePair
from nmt.prepare.cleaning.encoding import without_marked_capitals
from nmt.prepare.cleaning.misaligned import MIN_PAIRS, TextPairs
from nmt.text.imported import ImportedTokenizer
from nmt.text.language import in_other_language
from nmt.text.letters import count_forms, usual_forms
from nmt.text.lines import TextPair
from nmt.text.pairing import Sample, unaligned
from nmt.text.profiles import Profiles, trigrams
from nmt.text.reading import COMPOSED, NOT_NFC, form_shares, unusual_forms
from nmt.text.vocabularies import Tokenizers
from nmt.text.words import beginning

_LEAST_PAIRS = 20  # fewer are no evidence
_SURE = 0.8  # of the decided pairs, the share that must match better in reverse
_CLEAR = (
    0.35  # nats per trigram to decide a pair: sentences have 0.7 to 1.6, addresses that differ by a word up to 0.34
)
_MOST = 0.7  # of the letters of a side, the share that must be in one script
_LEAST = 5  # lines that a warning needs
_SEVERAL = 0.1  # of the lines of a side, the share of each of several scripts
# UTF-8 read in an 8-bit encoding: the first byte of a character, and those that follow it
_FOLLOWING = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
_MISREAD = re.compile(f"[ÂÃÄÅÎÏÐÑØÙ]{_FOLLOWING}|[à-è]{_FOLLOWING}{{2}}")
_MOST_TO_REPAIR = 0.05  # of the lines beyond ASCII
# the letters of languages that were written in several encodings, apart from ASCII
_ALPHABETS = """
ru:а-яё bg:а-я uk:а-яєіїґ be:а-яёіў sr:а-яђјљњћџčćđšž mk:а-яѓѕјљњќџ hr:čćđšž bs:čćđšž sl:čšž cs:áčďéěíňóřšťúůýž
sk:áäčďéíĺľňóôŕšťúýž pl:ąćęłńóśźż hu:áéíóöőúüű ro:ăâîşţ tr:çğıöşü lt:ąčęėįšųūž lv:āčēģīķļņšūž fr:àâçèéêëîïôùûüœ
es:áéíñóúü pt:àáâãçéêíóôõú it:àèéìòù da:åæéø nb:åæéø is:áðéíóöúýþæ
"""
_LETTERS = dict(entry.split(":") for entry in _ALPHABETS.split())
_READINGS = [
    *permutations(("KOI8-R", "KOI8-U", "WINDOWS-1251", "ISO-8859-5", "CP866"), 2),
    *permutations(("ISO-8859-2", "WINDOWS-1250", "WINDOWS-1252", "WINDOWS-1254", "WINDOWS-1257"), 2),
]
_MOST_UNKNOWN = 0.001  # of the characters of a language
_MOST_TIMES = 1.7  # as many pieces; by default, a translation has twice as many as its source, and ten
_MOST_LISTED = 8  # in a warning
_SHOWN = 60  # characters of an example
_IDENTIFIED = 250  # lines of a side
_MOST_OTHER, _MOST_UNLIKE = 0.1, 0.06  # of the lines of a side, by py3langid and by profiles
_LEAST_TRIGRAMS = 25  # of a line that is judged by profiles
_HAN = re.compile(f"[{character_class(['Hani'])}]+")


def suspicions(
    samples: Mapping[str, Sample],
    held_out: Collection[str],
    languages: LanguagePair,
    names: Mapping[str, str],
    repairs: Collection[str] = (),
) -> Iterator[str]:
    """Yield a warning for each likely error in a corpus.

    Args:
        samples: a sample of each corpus, by its key in the config.
        held_out: the keys of the development and test sets.
        names: the name of each corpus, by its key.
        repairs: see `data.clean.repair`.
    """
    judged = {key: sample.pairs for key, sample in samples.items() if len(sample.pairs) >= _LEAST_PAIRS}
    swapped = {} if LABEL in languages else _swapped(judged)
    profiles = Profiles.of(languages, _pairs_of(samples, [key for key in held_out if key not in swapped]))
    train = _pairs_of(samples, samples.keys() - held_out)
    text_sides = {}
    shares = {}
    forms = {}
    for side, language in enumerate(languages):
        if language != LABEL:
            if tag_of(language).language is None:
                meant = code_for(language)
                advice = f"did you mean {meant}?" if meant else "its script and its letters are not checked"
                yield f"data.direction: {language} is no language code (ISO 639); {advice}"
            text_sides[language] = side
            shares[language] = form_shares(pair[side] for pair in train)
            forms[language] = count_forms(language, (pair[side] for pair in train))
            yield from _in_several_scripts(language, side, samples)
    for key, sample in samples.items():
        where = f"data.{key} ({names[key]})"
        if key in swapped:
            share, other = swapped[key]
            yield (
                f"{where}: {languages[0]} and {languages[1]} look swapped: {share:.0%} of its pairs fit data.{other} "
                f"({names[other]}) better the other way round; check the files of both"
            )
            continue
        sides = {language: [pair[side] for pair in sample.pairs] for language, side in text_sides.items()}
        warnings = list(_in_other_script(where, sides)) if key in judged else []
        if warnings:
            yield from warnings
            continue
        for language, texts in sides.items():
            lines = {place.line: line for line, place in zip(texts, sample.places, strict=True)}
            of_side = f"{where}, {language}"
            misread = [
                *_to_repair(
                    of_side,
                    lines,
                    _MISREAD.search,
                    "look decoded with the wrong encoding",
                    "data.clean.repair: [encoding] mends such text",
                )
            ]
            yield from misread or _converted_wrongly(of_side, lines, language)
            yield from _in_other_forms(of_side, form_shares(texts), shares[language])
            if "letters" not in repairs:
                yield from _respelled(of_side, lines, usual_forms(language, forms[language]))
            yield from _in_other_language(of_side, lines, language, profiles)
        if LABEL not in languages:
            remedy = ""
            if key not in held_out and sample.places and sample.places[-1].line >= MIN_PAIRS:
                remedy = "; data.clean.misaligned=0.03 drops part of such pairs"
            yield from unaligned(where, sample, languages[1], remedy)


def _pairs_of(samples: Mapping[str, Sample], keys: Iterable[str]) -> list[TextPair]:
    return list(chain.from_iterable(samples[key].pairs for key in keys))


def _in_other_forms(where: str, shares: dict[str, float], usual: dict[str, float]) -> Iterator[str]:
    """Yield a warning if lines differ from the training text in their white space, invisible characters or normal form;
    shares, usual: the shares of these forms in the lines and in the training text."""
    for form in unusual_forms(shares, usual):
        repair = "NFC" if form in (COMPOSED, NOT_NFC) else "spaces"
        yield (
            f"{where}: {shares[form]:.0%} of the lines have {form}, and {usual[form]:.0%} of the training text; "
            f"data.clean.repair: [{repair}] mends training text; convert development and test sets"
        )


def _respelled(where: str, lines: Mapping[int, str], forms: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning if lines have other forms of letters than the training text; for `forms`, see `usual_forms`."""
    pattern = re.compile("|".join(forms) or "(?!)")
    counts = Counter(pattern.findall("\n".join(lines.values()))).most_common(5)
    shown = ", ".join(f"{printable_sentence(form)} {n:,} times" for form, n in counts)
    yield from _to_repair(
        where,
        lines,
        pattern.search,
        f"have other forms of letters than most training text ({shown})",
        "data.clean.repair: [letters] mends such text",
    )


def lacking(
    samples: Mapping[str, Sample], languages: LanguagePair, tokenizers: Tokenizers, added: Collection[str] = ()
) -> Iterator[str]:
    """Yield a warning for each language of which an imported vocabulary lacks a notable share of the characters.

    added: the languages whose letters will be added.
    """
    vocabulary = tokenizers.imported
    if vocabulary is None:
        return
    letters = set[str]()
    described = {}
    for language, tokenizer in tokenizers.by_language.items():
        assert isinstance(tokenizer, ImportedTokenizer)
        lines = {}
        for key, sample in samples.items():
            for pair, place in zip(sample.pairs, sample.places, strict=True):
                text = pair[languages.index(language)]
                lines[f"data.{key}, line {place.line:,}"] = tokenizer.normalized(text)
        missing = tokenizer.lacking(lines.values())
        letters.update(missing)
        share = missing.total() / max(1, sum(map(len, lines.values())))
        if share > _MOST_UNKNOWN:
            where = max(lines, key=lambda where: len(missing.keys() & lines[where][:_SHOWN]))
            described[language] = (
                f"the vocabulary lacks {amount(len(missing), 'character')} ({listed(map(repr, missing), _MOST_LISTED)})"
                f", {share:.2%} of the text of a sample, such as in {where}: "
                f"'{printable_sentence(beginning(lines[where], _SHOWN))}'"
            )
    remedy = "train a vocabulary (without tokenizer.model), or give a model with byte fallback"
    if vocabulary.direction:
        n_pieces = max(300, *map(len, vocabulary.pieces)) + len(letters)  # 300: as in the config of its run
        remedy = f"--set tokenizer.vocab_size={n_pieces} adds them"
    for language, what in described.items():
        end = f"a model cannot tell them apart; {remedy}"
        yield f"{language}: {what}; {'letters of the training text will be added' if language in added else end}"


def lengthened(pieces: Mapping[str, int]) -> Iterator[str]:
    """Yield a warning if one of two languages has so many more pieces that its translations may be cut off."""
    (n_fewer, shorter), (n_more, longer) = sorted((n, language) for language, n in pieces.items())
    ratio = n_more / max(1, n_fewer)
    if ratio > _MOST_TIMES:
        yield (
            f"{longer}: has {ratio:.1f} times as many pieces as {shorter}; with search.max_length_ratio="
            f"{math.ceil(2 * ratio)}, long translations are not cut off"
        )


# --- letter trigrams --------------------------------------------------------------------------------


def _swapped(corpora: Mapping[str, TextPairs]) -> dict[str, tuple[float, str]]:
    """Return the corpora whose sides are swapped relative to the development set or, without one, to the first corpus.

    The values are the share of pairs that match better in reverse, and the corpus that was compared with.
    """
    if len(corpora) < 2:
        return {}
    anchor = min(corpora, key=lambda key: (key != "valid", not key.startswith("test."), key))
    weights = _evidence(corpora[anchor])
    swapped = {}
    for key, pairs in corpora.items():
        if key != anchor and (share := _share_reversed(pairs, weights)) >= _SURE:
            swapped[key] = share, anchor
    return swapped


def _evidence(pairs: TextPairs) -> dict[str, float]:
    """Return the log-odds (nats, add-one smoothed) that each trigram is on the first side rather than on the second."""
    first = Counter[str]()
    second = Counter[str]()
    for src, tgt in pairs:
        first.update(_trigrams(src))
        second.update(_trigrams(tgt))
    grams = first.keys() | second.keys()
    totals = math.log((first.total() + len(grams)) / (second.total() + len(grams)))
    return {gram: math.log((first[gram] + 1) / (second[gram] + 1)) - totals for gram in grams}


def _share_reversed(pairs: TextPairs, evidence: Mapping[str, float]) -> float:
    """Return the share of clear pairs that match better with swapped sides; 0.5 if few pairs are clear."""
    decided = []
    for src, tgt in pairs:
        first = _trigrams(src)
        second = _trigrams(tgt)
        difference = sum(evidence.get(gram, 0.0) for gram in first) - sum(evidence.get(gram, 0.0) for gram in second)
        if abs(difference) > _CLEAR * (len(first) + len(second)):
            decided.append(difference < 0)
    return sum(decided) / len(decided) if len(decided) >= _LEAST_PAIRS else 0.5


def _trigrams(line: str) -> list[str]:
    text = f" {' '.join(line.lower().split())} "
    return [text[i : i + 3] for i in range(len(text) - 2)]


# --- scripts ----------------------------------------------------------------------------------------


def _in_other_script(where: str, sides: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield a warning for each side, by language, that is mostly in a script in which the language is not written."""
    other = {}
    for language, lines in sides.items():
        script = script_of_text(lines, _MOST)
        expected = scripts_of(language)
        if script and expected and script not in expected:
            other[language] = script
    if len(other) == 2 and all(other[first] in scripts_of(second) for first, second in permutations(other)):
        yield f"{where}: {' and '.join(other)} look swapped, by their scripts; check its files"
        return
    names = scripts()
    for language, script in other.items():
        expected_names = " or ".join(names[code].name for code in sorted(scripts_of(language)))
        yield (
            f"{where}: most letters of the {language} side are {names[script].name}, where {expected_names} is "
            "expected; check its files"
        )


def _in_several_scripts(language: str, side: int, samples: Mapping[str, Sample]) -> Iterator[str]:
    """Yield a warning if a side has several scripts, each in a tenth of the lines of a corpus or set.

    Copied lines are ignored, since names and code are in the script of the other language.
    """
    found: dict[str, str] = {}
    for key, sample in samples.items():
        counts = script_counts((pair[side] for pair in sample.pairs if pair[0] != pair[1]), language)
        n_lines = sum(counts.values()) - counts.pop("other", 0)
        for script, n in counts.items():
            if n >= max(_LEAST, _SEVERAL * n_lines):
                found.setdefault(script, f"{script} ({n / n_lines:.0%} of the lines of data.{key})")
    if len(found) > 1:
        yield f"{language} is written in several scripts: {' and '.join(found.values())}; keep one, see docs/data.md"


def script_counts(lines: Iterable[str], language: str) -> dict[str, int]:
    """Count lines by the script of their letters, the most frequent first; `other`: mixed or without letters."""
    return dict(Counter(_script(line, language) for line in lines).most_common())


def _script(line: str, language: str) -> str:
    """Return the name of the script of most letters of a line, or `other`.

    Lines of Chinese are simplified or traditional, by the characters that only one of both standards has.
    """
    script = script_of_text([line], _MOST)
    if script == "Hani" and parts_of(language)[1] in ("Hans", "Hant"):
        characters = "".join(_HAN.findall(line))
        simplified, traditional = (len(characters.encode(standard, "ignore")) for standard in ("gb2312", "big5"))
        return ("other", "simplified Chinese", "traditional Chinese")[
            (simplified > traditional) - (simplified < traditional)
        ]
    return scripts()[script].name if script else "other"


# --- single lines -----------------------------------------------------------------------------------


def _shown(line: int, lines: Mapping[int, str]) -> str:
    return f"such as line {line:,}: '{printable_sentence(beginning(lines[line], _SHOWN))}'"


def _to_repair(
    where: str, lines: Mapping[int, str], is_bad: Callable[[str], object], what: str, advice: str
) -> Iterator[str]:
    candidates = {line: text for line, text in lines.items() if not text.isascii()}
    bad_lines = [line for line, text in candidates.items() if is_bad(without_marked_capitals(text))]
    if len(bad_lines) >= max(_LEAST, _MOST_TO_REPAIR * len(candidates)):
        share = len(bad_lines) / len(candidates)
        example = _shown(bad_lines[0], lines)
        yield f"{where}: {share:.0%} of the lines beyond ASCII {what}, {example}; {advice}"


def _converted_wrongly(where: str, lines: Mapping[int, str], language: str) -> Iterator[str]:
    """Yield a warning if more letters of lines would be letters of the language, had they been converted to UTF-8 from
    another encoding. (Letters that are wrong but of the language, as in KOI8-R read as WINDOWS-1251, are left to the
    identification of languages.)"""
    letters = re.compile(f"[{_LETTERS.get(parts_of(language)[0], '-')}]", re.IGNORECASE)

    def improved(reading: tuple[str, str], text: str) -> int:
        """Return the number of small letters after the conversion, which tells case apart; 0 if it adds no letter."""
        read, meant = reading
        converted = letters.findall(text.encode(read, "ignore").decode(meant, "ignore"))
        return sum(map(str.islower, converted)) if len(converted) > len(letters.findall(text)) else 0

    some = [text for text in lines.values() if not text.isascii()][:_IDENTIFIED]
    reading = max(_READINGS, key=lambda reading: sum(improved(reading, text) for text in some))
    what = f"look like {reading[1]} that was read as {reading[0]}"
    yield from _to_repair(where, lines, partial(improved, reading), what, f"convert the original from {reading[1]}")


def _in_other_language(where: str, lines: Mapping[int, str], language: str, profiles: Profiles) -> Iterator[str]:
    most = _MOST_OTHER
    counts = dict[str, int]()
    try:
        is_other = in_other_language(language, counts)
    except DataError:  # py3langid is missing, or does not know the language
        most = _MOST_UNLIKE

        def is_other(text: str) -> bool:
            grams = trigrams([text])
            return grams.total() >= _LEAST_TRIGRAMS and profiles.other(grams, language) is not None

    judged = list(lines.items())[:: -(-len(lines) // _IDENTIFIED) or 1]
    other_lines = [line for line, text in judged if is_other(text)]
    if len(other_lines) >= max(_LEAST, most * len(judged)):
        named = [(n, code) for code, n in counts.items() if code not in (language, "unclear")]
        mostly = f", mostly {language_name(max(named)[1])}" if named else ""
        share = len(other_lines) / len(judged)
        yield (
            f"{where}: {share:.0%} of the lines do not look like {language_name(language)}{mostly}, "
            f"{_shown(other_lines[0], lines)}; check its files; data.clean.drop: [language] drops such pairs"
        )
