"""Robustness of a model to typos, upper case and other changes of the source (Niu et al., 2020).

A kind of change has places in a line: those where it has an effect. The rate is the share of them that are changed.
Which ones, and how, is a function of (seed, kind, line), and a higher rate changes the same places and others.
"""

from __future__ import annotations

import json
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from nmt.config import SearchConfig
from nmt.console import aligned, printable, say
from nmt.errors import DataError
from nmt.evaluate.line_statistics import Floats, LineCounts, count_lines
from nmt.evaluate.metrics import MetricName, default_tokenizer
from nmt.evaluate.report import Subject, facts
from nmt.evaluate.run import read_split, translate_text
from nmt.evaluate.significance import Interval, bootstrap_scores, interval
from nmt.files.write import open_output
from nmt.text.constraints import spans
from nmt.text.lines import bounded_list, read_aligned
from nmt.text.modifiers import lower_case, pick, title_case, typo, upper_case
from nmt.text.modifiers import words as long_words
from nmt.translate.translator import Translator


class Edit(NamedTuple):
    """A place of a line, and what replaces it."""

    start: int
    end: int
    text: str


Change = Callable[[str, str, Random], Iterator[Edit]]
"""Yields the edits at all places of a line; the second argument is the code of its language."""

_WORD = re.compile(r"[^\W\d_][\w'’\u0300-\u036f]*")
_IN_WORDS = "'’-‐‑/·"

# marks that stand for one another, without another meaning of the sentence
_ALIKE = (".!…", ",;", "。！", "，；、", "،؛", "।॥", '"“”„«»', "'‘’‚‹›", "-–—")
_OTHERS = {mark: marks.replace(mark, "") for marks in _ALIKE for mark in marks}

_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ẞ": "Ss"}
# letters of Latin script that are none with an accent, for Unicode
_STROKES = str.maketrans({
    "æ": "ae", "œ": "oe", "ß": "ss", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ı": "i",
    "Æ": "Ae", "Œ": "Oe", "ẞ": "Ss", "Ø": "O", "Ł": "L", "Đ": "D", "Ð": "D", "Þ": "Th", "Ħ": "H",
})  # fmt: skip
_WITH_ACCENTS = ("LATIN", "GREEK")


def changed_line(line: str, language: str, change: str, rates: Sequence[float], seed: int) -> list[str]:
    """Return the line changed in this way at each of the rates (0 to 1)."""
    rng = Random(f"{seed}\n{change}\n{line}")
    drawn = [(edit, rng.random()) for edit in list(CHANGES[change](line, language, rng))]
    return [_edited(line, [edit for edit, number in drawn if number < rate]) for rate in rates]


def default_changes(language: str) -> tuple[str, ...]:
    """Return the kinds of changes for a source language: German has its umlauts spelled out, others lose accents."""
    left_out = "accents" if re.split("[_-]", language)[0] == "de" else "umlauts"
    return tuple(change for change in CHANGES if change != left_out)


def _edited(line: str, edits: Sequence[Edit]) -> str:
    parts, end = list[str](), 0
    for edit in edits:
        if edit.start >= end:  # else letters that were just swapped
            parts += line[end : edit.start], edit.text
            end = edit.end
    return "".join([*parts, line[end:]])


def _typos(line: str, _: str, rng: Random) -> Iterator[Edit]:
    """Places: letters inside words of at least four, neither the first nor the last one."""
    for word in long_words(line):
        for i in range(word.start() + 1, word.end() - 1):
            wrong = typo(line[i], line[i + 1], rng)
            if wrong.endswith(line[i + 1]):
                yield Edit(i, i + 1, wrong[:-1])
            else:
                yield Edit(i, i + 2, wrong)


def _words(change: Callable[[str, str], str], line: str, language: str, _: Random) -> Iterator[Edit]:
    """Places: words that the change, a function of word and language, has an effect on."""
    protected = _protected(line)
    for word in _WORD.finditer(line):
        new = change(word[0], language)
        has_effect = new not in (word[0], unicodedata.normalize("NFC", word[0]))
        if has_effect and protected.isdisjoint(range(*word.span())):
            yield Edit(word.start(), word.end(), new)


def _cased(modifier: Callable[[str, str, Random, tuple[str, str]], tuple[str, str]], word: str, language: str) -> str:
    return modifier(word, "", Random(), (language, ""))[0]


def _spelled_out(word: str, _: str) -> str:
    composed = unicodedata.normalize("NFC", word)
    new = "".join(_UMLAUTS.get(letter, letter) for letter in composed)
    return new.upper() if composed.isupper() and len(composed) > 1 else new


def _without_accents(word: str, _: str) -> str:
    kept, base = list[str](), ""
    for character in unicodedata.normalize("NFD", word):
        if not unicodedata.combining(character):
            base = character
        elif unicodedata.name(base, "").startswith(_WITH_ACCENTS):
            continue
        kept.append(character)
    new = unicodedata.normalize("NFC", "".join(kept).translate(_STROKES))
    return new.upper() if word.isupper() and len(word) > 1 else new


def _punctuation_removed(line: str, _: str, __: Random) -> Iterator[Edit]:
    """Places: marks, with repeated ones as one place; a mark between spaces includes the space before it."""
    for start, end in _marks(line):
        alone = start > 0 and line[start - 1].isspace() and (end == len(line) or line[end].isspace())
        yield Edit(start - alone, end, "")


def _punctuation_changed(line: str, _: str, rng: Random) -> Iterator[Edit]:
    """Places: punctuation marks that can be replaced by others."""
    for start, end in _marks(line):
        if others := _OTHERS.get(line[start:end]):
            yield Edit(start, end, pick(rng, others))


def _marks(line: str) -> Iterator[tuple[int, int]]:
    """Yield where punctuation begins and ends, except for apostrophes and hyphens in words."""
    protected, start = _protected(line), 0
    for mark, group in groupby(line):
        end = start + sum(1 for _ in group)
        is_inside = mark in _IN_WORDS and line[start - 1 : start].isalnum() and line[end : end + 1].isalnum()
        if unicodedata.category(mark).startswith("P") and not is_inside and protected.isdisjoint(range(start, end)):
            yield start, end
        start = end


def _protected(line: str) -> set[int]:
    return {i for span in spans(line) for i in range(span.start, span.end)}


CHANGES: Mapping[str, Change] = {
    "typos": _typos,
    "upper_case": partial(_words, partial(_cased, upper_case)),
    "lower_case": partial(_words, partial(_cased, lower_case)),
    "title_case": partial(_words, partial(_cased, title_case)),
    "punctuation_removed": _punctuation_removed,
    "punctuation_changed": _punctuation_changed,
    "umlauts": partial(_words, _spelled_out),
    "accents": partial(_words, _without_accents),
}
"""The kinds of changes, in the order of the table."""


N_GRAM = 4
MORE_OFTEN = 2
"""How many times more an n-gram occurs in a translation than any does in the source, if it counts as repeated."""
LENGTH = 2.0
"""A translation with so many times the characters of its reference is too long, and the other way round too short."""


@dataclass(frozen=True)
class Signs:
    """Numbers of translations with signs of hallucination."""

    empty: int
    copied: int
    """Equal to their source, though the reference is not."""
    repeated: int
    """An n-gram (4 words) occurs at least 2 times more than any does in the source: the sign of oscillating output
    of Raunak et al., 2021, arXiv:2104.06683. Characters take the place of words in scripts without spaces."""
    length: int
    """They have more than twice as many characters as their reference, or less than half as many."""


def count_signs(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str], languages: tuple[str, str]
) -> Signs:
    """Count the signs; `languages`: source and target. Lines with a blank source or reference do not count."""
    found: Counter[str] = Counter()
    for source, translation, reference in zip(sources, translations, references, strict=True):
        source, translation, reference = source.strip(), translation.strip(), reference.strip()
        if not (source and reference):
            continue
        if not translation:
            found["empty"] += 1
            continue
        ratio = len(translation) / len(reference)
        found["copied"] += translation == source != reference
        found["repeated"] += _most_often(translation, languages[1]) >= _most_often(source, languages[0]) + MORE_OFTEN
        found["length"] += not 1 / LENGTH <= ratio <= LENGTH
    return Signs(found["empty"], found["copied"], found["repeated"], found["length"])


def _most_often(text: str, language: str) -> int:
    """Return how often the most frequent n-gram occurs; 1 if there is none."""
    words = text.split() if default_tokenizer(language) == "13a" else [*text.replace(" ", "")]
    counts = Counter(zip(*(words[i:] for i in range(N_GRAM)), strict=False))
    return max(counts.values(), default=1)


SCORES: tuple[MetricName, ...] = ("chrf", "bleu")
SAMPLES = 1000
"""Of the bootstrap."""

Translate = Callable[[Sequence[str], Sequence[int]], Sequence[str]]
"""From lines, and the numbers of the lines that they were made of, to their translations."""


@dataclass(frozen=True)
class Text:
    """A test set."""

    name: str
    """The split, or the file of references."""
    sources: Sequence[str]
    references: Sequence[str]
    languages: tuple[str, str]
    """Source and target."""
    numbers: Sequence[int]
    """Of the lines, from 1."""

    def sampled(self, n: int) -> Text:
        """Return a text of at most `n` lines, spread evenly over this one."""
        total = len(self.sources)
        rows = sorted({i * total // n for i in range(n)})
        return replace(
            self,
            sources=[self.sources[row] for row in rows],
            references=[self.references[row] for row in rows],
            numbers=[self.numbers[row] for row in rows],
        )


@dataclass(frozen=True)
class Plan:
    """The changes to measure, and how they are drawn."""

    changes: Sequence[str]
    rates: Sequence[float]
    """In percent."""
    seed: int


@dataclass(frozen=True)
class Variant:
    """The sources as they are, or with a kind of change at a rate."""

    change: str | None
    rate: float
    """In percent."""
    sources: Sequence[str]

    @property
    def name(self) -> str:
        """The name of its files."""
        return "original" if self.change is None else f"{self.change}-{self.rate:g}"


@dataclass(frozen=True)
class Row:
    """How a variant was translated."""

    change: str | None
    rate: float
    """In percent."""
    n_changed: int
    """Lines that differ from the original."""
    chrf: float
    chrf_kept: float | None
    """Percent of the chrF of the original; None if that is 0."""
    chrf_kept_interval: Interval | None
    """Over lines: how much would be kept of other lines of the same kind."""
    bleu: float
    consistency: float
    """chrF between the translations of the original and of the variant: harmonic mean of both directions."""
    signs: Signs


@dataclass(frozen=True)
class Measured:
    """All variants with their translations; the original is the first."""

    variants: Sequence[Variant]
    translations: Sequence[Sequence[str]]
    rows: Sequence[Row]
    signatures: tuple[str, str]
    """Of chrF and BLEU."""


def make_variants(text: Text, plan: Plan) -> list[Variant]:
    """Return the original and each change at each rate, except for changes without any effect on the text.

    Raises DataError if no change has one.
    """
    variants, shares = [Variant(None, 0.0, text.sources)], [rate / 100 for rate in plan.rates]
    for change in plan.changes:
        # the rate 1 changes all places
        lines = [changed_line(line, text.languages[0], change, [*shares, 1.0], plan.seed) for line in text.sources]
        *by_rate, everywhere = zip(*lines, strict=True)
        if everywhere != tuple(text.sources):
            variants += [Variant(change, rate, sources) for rate, sources in zip(plan.rates, by_rate, strict=True)]
    if len(variants) == 1:
        raise DataError(f"{text.name}: {', '.join(plan.changes)} would change none of {len(text.sources):,} lines")
    return variants


def measure(text: Text, variants: Sequence[Variant], translate: Translate) -> Measured:
    """Translate each distinct line once and score all variants, of which the first is the original."""
    distinct: dict[str, int] = {}  # the original ones first
    for variant in variants:
        for line, number in zip(variant.sources, text.numbers, strict=True):
            distinct.setdefault(line, number)
    translated = dict(zip(distinct, translate(list(distinct), list(distinct.values())), strict=True))
    translations = [[translated[line] for line in variant.sources] for variant in variants]
    chrf, bleu = (_counted(metric, translations, text.references, text.languages[1]) for metric in SCORES)
    between = _both_ways(_counted("chrf", translations, translations[0], text.languages[1]))
    scores = [of_text.score() for of_text in chrf]
    rows = [
        Row(
            variant.change,
            variant.rate,
            n_changed=sum(map(str.__ne__, variant.sources, text.sources)),
            chrf=scores[number],
            chrf_kept=100 * scores[number] / scores[0] if scores[0] else None,
            chrf_kept_interval=kept,
            bleu=bleu[number].score(),
            consistency=float(between[number]),
            signs=count_signs(variant.sources, translations[number], text.references, text.languages),
        )
        for number, (variant, kept) in enumerate(zip(variants, _kept(chrf), strict=True))
    ]
    return Measured(variants, translations, rows, (chrf[0].metric.signature, bleu[0].metric.signature))


def _counted(
    metric: MetricName, translations: Sequence[Sequence[str]], references: Sequence[str], language: str
) -> list[LineCounts]:
    """Return the contribution of each line of each text to a score. Each distinct pair is counted once."""
    places: dict[tuple[str, str], int] = {}
    rows = [
        [places.setdefault(pair, len(places)) for pair in zip(lines, references, strict=True)] for lines in translations
    ]
    (lines,) = count_lines(metric, [[line for line, _ in places]], [reference for _, reference in places], language)
    return [LineCounts(lines.metric, lines.counts[of_text]) for of_text in rows]


def _kept(chrf: Sequence[LineCounts]) -> list[Interval | None]:
    """Return the intervals of chrF in percent of the first text's, by paired bootstrap over lines."""
    original, *_ = scores = bootstrap_scores(chrf, SAMPLES)
    usable = original > 0
    if not usable.any():
        return [None] * len(chrf)
    return [interval(100 * of_text[usable] / original[usable]) for of_text in scores]


def _both_ways(chrf: Sequence[LineCounts]) -> Floats:
    """Return the harmonic mean of chrF and of chrF with translations and references exchanged, of each text."""
    sums = np.stack([of_text.counts.sum(0) for of_text in chrf])
    n_grams = sums.reshape(len(sums), -1, 3)  # of translation, reference, and both
    one, other = chrf[0].scores(sums), chrf[0].scores(n_grams[:, :, [1, 0, 2]].reshape(sums.shape))
    return 2 * one * other / np.maximum(one + other, np.finfo(float).tiny)


COLUMNS = 110
LEGEND = (
    "rate: share of the places where the change has an effect (letters inside words, words, marks)",
    "lines: those that differ from the original; kept: share of its chrF, with its 95 % interval over lines (paired "
    f"bootstrap, {SAMPLES:,} samples); same: chrF between the translations of the original and of the changed text, in "
    "both directions",
    "numbers of translations: empty; copied (the source, which is not the reference); repeated (some "
    f"{N_GRAM} words in a row occur at least {MORE_OFTEN} times more than any in the source); length (more than "
    f"{LENGTH:g} times the characters of the reference, or less than 1/{LENGTH:g})",
)


@dataclass(frozen=True)
class Report:
    """The scores of a robustness test, and the text they were measured on."""

    subject: Subject
    n_lines: int
    n_all_lines: int
    """Lines of the text that these were chosen from."""
    plan: Plan
    measured: Measured

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks that a reader of the report needs."""
        notes, changed = [], {row.change for row in self.measured.rows}
        if left_out := [change for change in self.plan.changes if change not in changed]:
            notes.append(f"left out, because no line has a place for it: {', '.join(left_out)}")
        if self.n_lines < self.n_all_lines:
            notes.append(f"{self.n_lines:,} of {self.n_all_lines:,} lines, spread evenly: not comparable with all")
        return tuple(notes)


def render_text(report: Report) -> str:
    """Format the report as a table, then what was measured and notes."""
    header = (
        "change", "rate", "lines", "chrF", "kept %", "95 %", "BLEU", "same", "empty", "copied", "repeated", "length",
    )  # fmt: skip
    table = aligned([header, *map(_cells, report.measured.rows)], range(1, len(header)))
    return "\n".join(map(printable, [*table, *_below(report)]))


def _cells(row: Row) -> tuple[str, ...]:
    scores = f"{row.chrf:.2f}", f"{row.bleu:.2f}"
    signs = [str(n) for n in asdict(row.signs).values()]
    if row.change is None:
        return "none", "", "", scores[0], "", "", scores[1], "", *signs
    kept = "-" if row.chrf_kept is None else f"{row.chrf_kept:.1f}"
    interval = "" if row.chrf_kept_interval is None else "-".join(f"{end:.1f}" for end in row.chrf_kept_interval)
    return (
        row.change, f"{row.rate:g} %", f"{row.n_changed:,}", scores[0], kept, interval, scores[1],
        f"{row.consistency:.2f}", *signs,
    )  # fmt: skip


def _below(report: Report) -> Iterator[str]:
    about = facts({"lines": report.n_lines, **vars(report.subject), "seed": report.plan.seed})
    for sentence in (*LEGEND, about, *(f"note: {note}" for note in report.notes)):
        yield from textwrap.wrap(sentence, COLUMNS, subsequent_indent="  ")
    yield from report.measured.signatures


def render_json(report: Report) -> str:
    """Format the report as one JSON object; missing values are null."""
    return json.dumps(
        {
            "rows": [_entry(row) for row in report.measured.rows],
            "lines": report.n_lines,
            **asdict(report.subject),
            "seed": report.plan.seed,
            "signatures": report.measured.signatures,
            "notes": report.notes,
        },
        ensure_ascii=False,
        indent=1,
    )


def _entry(row: Row) -> dict[str, object]:
    entry = asdict(row)
    signs = entry.pop("signs")
    return {**entry, **signs}


def read_text(
    translator: Translator, files: tuple[Path, Path] | None, data_dir: Path | None, split_name: str | None
) -> Text:
    """Read two aligned files, source and reference, or else a split of a corpus, by default the only test set.

    Raises DataError if a file is missing, empty or no text, or has more lines than the other, and as `read_split`.
    """
    if files is None:
        name, sources, references = read_split(translator, data_dir, split_name)
    else:
        pairs = bounded_list(read_aligned(*files), str(files[0]))
        if not pairs:
            raise DataError(f"{files[0]}: is empty")
        name, sources, references = str(files[1]), [src for src, _ in pairs], [ref for _, ref in pairs]
    config = translator.config.data
    return Text(name, sources, references, (config.src, config.tgt), range(1, len(sources) + 1))


def measure_run(translator: Translator, search: SearchConfig, text: Text, plan: Plan) -> Measured:
    """Translate a text and its changed variants, and score them. Raises DataError if no change has an effect on it."""

    def translate(lines: Sequence[str], numbers: Sequence[int]) -> list[str]:
        n_original = len({*text.sources})
        say(f"{len(lines):,} lines to translate: {n_original:,} as they are, {len(lines) - n_original:,} changed")
        return translate_text(translator, lines, text.name, search, numbers)

    return measure(text, make_variants(text, plan), translate)


def write_texts(directory: Path, measured: Measured, languages: tuple[str, str]) -> None:
    """Write the sources and translations of each variant, such as `typos-5.de` and `typos-5.en`. Raises DataError."""
    for variant, translations in zip(measured.variants, measured.translations, strict=True):
        for language, lines in zip(languages, (variant.sources, translations), strict=True):
            with open_output(directory / f"{variant.name}.{language}") as file:
                file.writelines(f"{line}\n".encode() for line in lines)
