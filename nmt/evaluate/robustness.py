"""Tests of robustness to typos, upper case and other changes of the source (Niu et al., 2020).

The places of a change are the parts of a line on which it has an effect; the rate is the share of places that are
changed. The choice depends only on the seed, the kind of change and the line, and a higher rate changes the same places
and more.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random

import numpy as np

from nmt.console import say
from nmt.errors import DataError
from nmt.evaluate.contrasts import Edit
from nmt.evaluate.metrics import Floats, LineCounts, MetricName, Texts, count_lines, default_tokenizer
from nmt.evaluate.report import Subject, facts
from nmt.evaluate.run import EvaluationText, subject_of, translate_text
from nmt.evaluate.significance import Interval, bootstrap_scores, interval
from nmt.files.write import open_output
from nmt.languages.codes import parts_of
from nmt.search.settings import SearchConfig
from nmt.tables import NOTE, Table
from nmt.text.augmentation import lower_case, pick, title_case, typo, upper_case
from nmt.text.augmentation import words as long_words
from nmt.text.constraints import spans
from nmt.translate.loading import Translator
from nmt.translate.types import Line

ChangeFunction = Callable[[str, str, Random], Iterator[Edit]]
"""A function that yields the edits at all places of a line in a language."""

_WORD = re.compile(r"[^\W\d_][\w'’\u0300-\u036f]*")
_IN_WORDS = "'’-‐‑/·"

# marks that can replace one another without changing the meaning of the sentence
_ALIKE = (".!…", ",;", "。！", "，；、", "،؛", "।॥", '"“”„«»', "'‘’‚‹›", "-–—")
_SIMILAR = {mark: marks.replace(mark, "") for marks in _ALIKE for mark in marks}

_PAIR = re.compile("(.)=(.+?)(?: |$)")
_UMLAUTS = dict(_PAIR.findall("ä=ae ö=oe ü=ue ß=ss Ä=Ae Ö=Oe Ü=Ue ẞ=Ss"))
# Latin letters that Unicode does not decompose into a letter and an accent
_STROKES = str.maketrans(
    dict(_PAIR.findall("æ=ae œ=oe ß=ss ø=o ł=l đ=d ð=d þ=th ħ=h ı=i Æ=Ae Œ=Oe ẞ=Ss Ø=O Ł=L Đ=D Ð=D Þ=Th Ħ=H"))
)
_WITH_ACCENTS = ("LATIN", "GREEK")


def changed_line(line: str, language: str, change: str, rates: Sequence[float], seed: int) -> list[str]:
    """Return a line with one kind of change at each of the rates (0 to 1)."""
    rng = Random(f"{seed}\n{change}\n{line}")
    drawn = [(edit, rng.random()) for edit in list(CHANGES[change](line, language, rng))]
    lines = []
    for rate in rates:
        chosen = [edit for edit, number in drawn if number < rate]
        lines.append(_edited(line, chosen))
    return lines


def default_changes(language: str) -> tuple[str, ...]:
    """Return the default kinds of changes for a source language: `umlauts` for German, `accents` for others."""
    left_out = "accents" if parts_of(language)[0] == "de" else "umlauts"
    return tuple(change for change in CHANGES if change != left_out)


def _edited(line: str, edits: Sequence[Edit]) -> str:
    applied = list[Edit]()
    for edit in edits:
        if not applied or edit.start >= applied[-1].end:  # else it overlaps the previous edit, such as swapped letters
            applied.append(edit)
    for edit in reversed(applied):
        line = edit.apply(line)
    return line


def _typos(line: str, _: str, rng: Random) -> Iterator[Edit]:
    """Yield a typo for each letter inside a word of at least four letters."""
    for word in long_words(line):
        for i in range(word.start() + 1, word.end() - 1):
            wrong = typo(line[i], line[i + 1], rng)
            if wrong.endswith(line[i + 1]):
                yield Edit(i, i + 1, wrong[:-1])
            else:
                yield Edit(i, i + 2, wrong)


def _words(change: Callable[[str, str], str], line: str, language: str, _: Random) -> Iterator[Edit]:
    """Yield an edit for each word that `change` alters. `change` is a function of a word and its language."""
    protected = _protected(line)
    for word in _WORD.finditer(line):
        new = change(word[0], language)
        has_effect = new not in (word[0], unicodedata.normalize("NFC", word[0]))
        if has_effect and protected.isdisjoint(range(*word.span())):
            yield Edit(word.start(), word.end(), new)


def _cased(modifier: Callable[[str, str, Random, tuple[str, str]], tuple[str, str]]) -> ChangeFunction:
    return partial(_words, lambda word, language: modifier(word, "", Random(), (language, ""))[0])


def _spelled_out(word: str, _: str) -> str:
    composed = unicodedata.normalize("NFC", word)
    new = "".join(_UMLAUTS.get(letter, letter) for letter in composed)
    return new.upper() if composed.isupper() and len(composed) > 1 else new


def _without_accents(word: str, _: str) -> str:
    kept = []
    base = ""
    for character in unicodedata.normalize("NFD", word):
        if not unicodedata.combining(character):
            base = character
        elif unicodedata.name(base, "").startswith(_WITH_ACCENTS):
            continue
        kept.append(character)
    new = unicodedata.normalize("NFC", "".join(kept).translate(_STROKES))
    return new.upper() if word.isupper() and len(word) > 1 else new


def _punctuation_removed(line: str, _: str, __: Random) -> Iterator[Edit]:
    """Yield edits that remove punctuation marks. A mark between spaces is removed together with one space."""
    for start, end in _marks(line):
        between_spaces = start > 0 and line[start - 1].isspace() and (end == len(line) or line[end].isspace())
        yield Edit(start - between_spaces, end, "")


def _punctuation_changed(line: str, _: str, rng: Random) -> Iterator[Edit]:
    """Yield edits that replace punctuation marks by similar ones."""
    for start, end in _marks(line):
        if similar := _SIMILAR.get(line[start:end]):
            yield Edit(start, end, pick(rng, similar))


def _marks(line: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of punctuation marks, except for apostrophes and hyphens in words."""
    protected = _protected(line)
    start = 0
    for mark, group in groupby(line):
        end = start + len([*group])
        is_inside = mark in _IN_WORDS and line[start - 1 : start].isalnum() and line[end : end + 1].isalnum()
        if unicodedata.category(mark).startswith("P") and not is_inside and protected.isdisjoint(range(start, end)):
            yield start, end
        start = end


def _protected(line: str) -> set[int]:
    protected = set[int]()
    for span in spans(line):
        protected.update(range(span.start, span.end))
    return protected


CHANGES: Mapping[str, ChangeFunction] = {
    "typos": _typos,
    "upper_case": _cased(upper_case),
    "lower_case": _cased(lower_case),
    "title_case": _cased(title_case),
    "punctuation_removed": _punctuation_removed,
    "punctuation_changed": _punctuation_changed,
    "umlauts": partial(_words, _spelled_out),
    "accents": partial(_words, _without_accents),
}
"""The kinds of changes by name, in the order of the table."""


@dataclass(frozen=True)
class Signs:
    """Numbers of translations with signs of hallucination."""

    empty: int = 0
    copied: int = 0
    """Translations that equal their source, although the reference does not."""
    repeated: int = 0
    """Translations in which an n-gram of 4 words (characters in scripts without spaces) occurs at least 2 times more
    than any n-gram does in the source (Raunak et al., 2021, arXiv:2104.06683)."""
    length: int = 0
    """Translations with more than twice or less than half the characters of their reference."""


def count_signs(sources: Texts, translations: Texts, references: Texts, languages: tuple[str, str]) -> Signs:
    """Count translations with signs of hallucination. Lines with a blank source or reference are skipped.

    `languages` are source and target.
    """
    n_lines: Counter[str] = Counter()
    for source, translation, reference in zip(sources, translations, references, strict=True):
        source = source.strip()
        translation = translation.strip()
        reference = reference.strip()
        if not (source and reference):
            continue
        if not translation:
            n_lines["empty"] += 1
            continue
        ratio = len(translation) / len(reference)
        n_lines["copied"] += translation == source != reference
        n_lines["repeated"] += _most_often(translation, languages[1]) >= _most_often(source, languages[0]) + 2
        n_lines["length"] += not 1 / 2 <= ratio <= 2
    return Signs(**n_lines)


def _most_often(text: str, language: str) -> int:
    """Return how often the most frequent n-gram of four words occurs; 1 if there is none."""
    words = text.split() if default_tokenizer(language) == "13a" else [*text.replace(" ", "")]
    counts = Counter(zip(*(words[i:] for i in range(4)), strict=False))
    return max(counts.values(), default=1)


SAMPLES = 1000
"""Number of bootstrap samples."""


@dataclass(frozen=True)
class RobustnessPlan:
    """The kinds and rates of the changes to measure."""

    changes: Sequence[str]
    rates: Sequence[float]
    """The rates in percent."""
    seed: int
    lines: int | None = None
    """Number of evenly spread lines to use; None for all."""


@dataclass(frozen=True)
class Variant:
    """A variant of the sources of a test set: unchanged, or with one kind of change at a rate."""

    change: str | None
    """The kind of change; None for the unchanged sources."""
    rate: float
    """The rate in percent."""
    sources: Texts


@dataclass(frozen=True)
class VariantScores:
    """The scores of the translations of one variant of the sources."""

    change: str | None
    rate: float
    """The rate in percent."""
    n_changed: int
    """Number of lines that differ from the original."""
    chrf: float
    chrf_kept: float | None
    """Percentage of the chrF of the original; None if that is 0."""
    chrf_kept_interval: Interval | None
    """95 % interval of `chrf_kept` over lines."""
    bleu: float
    consistency: float
    """chrF between the translations of the original and of the variant: harmonic mean of both directions."""
    empty: int
    copied: int
    repeated: int
    length: int


@dataclass(frozen=True)
class MeasuredVariants:
    """All variants of the sources, with their translations and scores; the first is the original."""

    variants: Sequence[Variant]
    translations: Sequence[Texts]
    rows: Sequence[VariantScores]
    signatures: tuple[str, str]
    """The signatures of chrF and BLEU."""


def make_variants(text: EvaluationText, plan: RobustnessPlan) -> list[Variant]:
    """Return the variants of a text: the original, and each change with an effect on it at each rate.

    Raises DataError if no change has an effect.
    """
    variants = [Variant(None, 0.0, text.sources)]
    shares = [rate / 100 for rate in plan.rates]
    for change in plan.changes:
        # the rate 1 changes all places of a line
        lines = [changed_line(line, text.languages[0], change, [*shares, 1.0], plan.seed) for line in text.sources]
        *by_rate, everywhere = zip(*lines, strict=True)
        if everywhere != tuple(text.sources):
            variants += [Variant(change, rate, sources) for rate, sources in zip(plan.rates, by_rate, strict=True)]
    if len(variants) == 1:
        raise DataError(f"{text.name}: {', '.join(plan.changes)} would change none of the {len(text.sources):,} lines")
    return variants


def measure(
    text: EvaluationText,
    variants: Sequence[Variant],
    translate: Callable[[Texts, Sequence[int]], Texts],
) -> MeasuredVariants:
    """Translate all variants of a text, each distinct line once, and score them. The first variant is the original.

    `translate` translates lines; its second argument is the numbers of the lines that they were made from.
    """
    distinct: dict[str, int] = {}  # lines of the original come first
    for variant in variants:
        for line, number in zip(variant.sources, text.numbers, strict=True):
            distinct.setdefault(line, number)
    translated = dict(zip(distinct, translate(list(distinct), list(distinct.values())), strict=True))
    translations = [[translated[line] for line in variant.sources] for variant in variants]
    references = text.first_references
    target = text.languages[1]
    chrf = _counted("chrf", translations, references, target)
    bleu = _counted("bleu", translations, references, target)
    between = _both_ways(_counted("chrf", translations, translations[0], target))
    kept = _kept(chrf)
    original = chrf[0].score()
    rows = []
    for number, variant in enumerate(variants):
        score = chrf[number].score()
        share = 100 * score / original if original else None
        signs = count_signs(variant.sources, translations[number], references, text.languages)
        rows.append(
            VariantScores(
                variant.change,
                variant.rate,
                n_changed=sum(map(str.__ne__, variant.sources, text.sources)),
                chrf=score,
                chrf_kept=share,
                chrf_kept_interval=kept[number],
                bleu=bleu[number].score(),
                consistency=float(between[number]),
                **vars(signs),
            )
        )
    return MeasuredVariants(variants, translations, rows, (chrf[0].metric.signature, bleu[0].metric.signature))


def _counted(metric: MetricName, translations: Sequence[Texts], references: Texts, language: str) -> list[LineCounts]:
    """Count the lines of each text as `count_lines` does, but each distinct pair only once, which is faster."""
    places: dict[tuple[str, str], int] = {}
    rows = []
    for lines in translations:
        rows.append([places.setdefault(pair, len(places)) for pair in zip(lines, references, strict=True)])
    distinct, refs = zip(*places, strict=True)
    (counted,) = count_lines(metric, [distinct], refs, language)
    return [LineCounts(counted.metric, counted.counts[of_text]) for of_text in rows]


def _kept(chrf: Sequence[LineCounts]) -> list[Interval | None]:
    """Return the 95 % interval of each text's chrF in percent of the first text's chrF, by paired bootstrap."""
    original, *_ = scores = bootstrap_scores(chrf, SAMPLES)
    usable = original > 0
    if not usable.any():
        return [None] * len(chrf)
    return [interval(100 * of_text[usable] / original[usable]) for of_text in scores]


def _both_ways(chrf: Sequence[LineCounts]) -> Floats:
    """Return for each text the harmonic mean of chrF and of chrF with translations and references exchanged."""
    sums = np.stack([of_text.counts.sum(0) for of_text in chrf])
    n_grams = sums.reshape(len(sums), -1, 3)  # of translation, reference and both
    forth = chrf[0].scores(sums)
    back = chrf[0].scores(n_grams[:, :, [1, 0, 2]].reshape(sums.shape))
    return 2 * forth * back / np.maximum(forth + back, np.finfo(float).tiny)


LEGEND = (
    "rate: share of the places where the change has an effect (letters inside words, words, marks)",
    "lines: lines that differ from the original; kept: share of its chrF, with its 95 % interval over lines (paired "
    f"bootstrap, {SAMPLES:,} samples); same: chrF between the translations of the original and of the changed text, in "
    "both directions",
    "numbers of translations: empty; copied (equal to the source, although the reference is not); repeated (four words "
    "in a row occur at least 2 times more than any in the source); length (more than 2 times the characters of the "
    "reference, or less than 1/2)",
)


@dataclass(frozen=True)
class RobustnessReport:
    """The scores of a robustness test, and the text they were measured on."""

    subject: Subject
    n_lines: int
    n_all_lines: int
    """Number of lines that `n_lines` were chosen from."""
    plan: RobustnessPlan
    measured: MeasuredVariants

    @property
    def about(self) -> dict[str, object]:
        """The facts about the text and the model; missing ones are None."""
        return {"lines": self.n_lines, **vars(self.subject), "seed": self.plan.seed}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on changes and lines that were omitted."""
        notes = []
        changed = {row.change for row in self.measured.rows}
        if left_out := [change for change in self.plan.changes if change not in changed]:
            notes.append(f"skipped, because they would change no line: {', '.join(left_out)}")
        if self.n_lines < self.n_all_lines:
            notes.append(f"{self.n_lines:,} of {self.n_all_lines:,} lines, spread evenly: scores of all lines differ")
        return tuple(notes)

    def as_table(self) -> Table:
        """Return the report as a table, with a legend, the text and model, notes and signatures below it."""
        header = (
            "change", "rate", "lines", "chrF", "kept %", "95 %", "BLEU", "same", "empty", "copied", "repeated",
            "length",
        )  # fmt: skip
        about = self.about
        rows = self.measured.rows
        notes = [f"{NOTE}{note}" for note in self.notes]
        sentences = [*LEGEND, facts(about), *notes, *self.measured.signatures]
        records = [about | vars(row) for row in rows]
        return Table(header, [*map(_cells, rows)], range(1, len(header)), notes=sentences, records=records)

    def as_json(self) -> dict[str, object]:
        """Return the report as values that JSON can represent; missing values are None."""
        signatures = self.measured.signatures
        return {"rows": self.measured.rows, **self.about, "signatures": signatures, "notes": self.notes}


def _cells(row: VariantScores) -> tuple[str, ...]:
    chrf = f"{row.chrf:.2f}"
    bleu = f"{row.bleu:.2f}"
    signs = [str(n) for n in (row.empty, row.copied, row.repeated, row.length)]
    if row.change is None:
        return "none", "", "", chrf, "", "", bleu, "", *signs
    kept = "-"
    interval = ""
    if row.chrf_kept is not None:
        kept = f"{row.chrf_kept:.1f}"
    if row.chrf_kept_interval is not None:
        interval = "-".join(f"{end:.1f}" for end in row.chrf_kept_interval)
    changed = f"{row.n_changed:,}"
    return row.change, f"{row.rate:g} %", changed, chrf, kept, interval, bleu, f"{row.consistency:.2f}", *signs


def measure_run(
    translator: Translator, search: SearchConfig, text: EvaluationText, plan: RobustnessPlan
) -> RobustnessReport:
    """Translate a text and its changed variants, and score them. Raises DataError if no change has an effect."""
    subject = subject_of(translator, search, text.place)
    n_all_lines = len(text.sources)
    search = search.with_tags(translator.config.data.tags_of(text.name))
    if plan.lines is not None:
        text = text.sampled(plan.lines)

    def translate(lines: Texts, numbers: Sequence[int]) -> list[str]:
        n_original = len({*text.sources})
        say(f"{len(lines):,} lines to translate: {n_original:,} unchanged, {len(lines) - n_original:,} changed")
        return translate_text(translator, [Line(line) for line in lines], text.name, search, numbers)

    measured = measure(text, make_variants(text, plan), translate)
    return RobustnessReport(subject, len(text.sources), n_all_lines, plan, measured)


def write_texts(directory: Path, measured: MeasuredVariants, languages: tuple[str, str]) -> None:
    """Write the sources and translations of each variant to files such as `typos-5.de` and `typos-5.en`."""
    for variant, translations in zip(measured.variants, measured.translations, strict=True):
        name = "original" if variant.change is None else f"{variant.change}-{variant.rate:g}"
        for language, lines in zip(languages, (variant.sources, translations), strict=True):
            with open_output(directory / f"{name}.{language}") as file:
                file.writelines(f"{line}\n".encode() for line in lines)
