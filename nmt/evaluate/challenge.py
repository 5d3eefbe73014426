"""Challenge sets, which measure how often a model finds the correct translation more probable than a wrong one."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from nmt.console import Progress, printable, printable_sentence
from nmt.errors import DataError
from nmt.evaluate.contrasts import Contrast, ContrastLanguage, kinds_of, language_of, make_contrasts
from nmt.evaluate.report import Subject, facts
from nmt.evaluate.run import EvaluationText, subject_of
from nmt.evaluate.significance import Interval
from nmt.files.read import read_regular, reading
from nmt.tables import NOTE, Table
from nmt.text.lines import pair_lines, read_aligned, read_lines
from nmt.text.tokenizer import is_blank
from nmt.text.words import beginning
from nmt.translate.loading import Translator
from nmt.translate.score import Context, Scored

GIVEN = "contrastive"
"""The kind of pairs from files without kinds."""


class _Error(BaseModel):
    contrastive: str
    type: str = GIVEN


class _Entry(BaseModel):
    """An entry of LingEval97 (Sennrich, 2017) or ContraPro (Müller et al., 2018), whose keys have different names."""

    source: str = Field(validation_alias=AliasChoices("source", "src segment"))
    reference: str = Field(validation_alias=AliasChoices("reference", "ref segment"))
    errors: list[_Error]
    origin: str | None = None
    context: list[tuple[str, str]] = []
    document: str | None = Field(None, validation_alias="document id")
    segment: int = Field(1, ge=1, validation_alias="segment id")
    src_pronoun: str | None = Field(None, validation_alias="src pronoun")
    ref_pronoun: str | None = Field(None, validation_alias="ref pronoun")
    kind: str | None = None
    """The kind of an entry of `contrasts_json` that is one contrast."""

    def contrasts(self, origin: str, context: Context = ()) -> list[Contrast]:
        """Return the contrasts of an entry: one with all wrong translations for ContraPro and `kind`, else one per
        error."""
        origin = self.origin or origin
        before = (*self.context, *context)
        kind = self.kind
        if self.src_pronoun is not None and self.ref_pronoun is not None:
            kind = f"{self.src_pronoun.lower()}:{self.ref_pronoun.lower()}"
        wrong = [(error.type, [error.contrastive]) for error in self.errors]
        if kind is not None and wrong:
            wrong = [(kind, [error.contrastive for error in self.errors])]
        return [Contrast(kind, self.source, self.reference, (*changed,), origin, before) for kind, changed in wrong]


_ENTRIES = TypeAdapter(list[_Entry])


@dataclass(frozen=True)
class Challenge:
    """A challenge set: contrasts between correct and wrong translations."""

    contrasts: Sequence[Contrast]
    n_lines: int
    """Number of lines that the contrasts were made from, or of entries that were read."""
    kinds: tuple[str, ...]
    """The kinds in the order of the table; some may have no contrast."""
    place: Mapping[str, str] = field(default_factory=dict)
    """The split, or the file of references, as a fact of the subject of a report."""
    seed: int | None = None
    """The seed of the contrasts; None if they were read."""
    notes: tuple[str, ...] = ()

    @property
    def context(self) -> int | None:
        """The largest number of lines before a line with which it is scored; None if there are none."""
        return max((len(contrast.context) for contrast in self.contrasts), default=0) or None


def of_text(text: EvaluationText, seed: int, n_context: int = 0) -> Challenge:
    """Make a challenge set from a text.

    n_context: the maximum number of lines before each line that are its context, which ends at a blank line. Raises
    DataError if there is no contrast.
    """
    target = text.languages[1]
    lines = _pairs(text)
    name = Path(text.name).name
    language = language_of(target)
    contrasts = _in_context(make_contrasts(lines, name, language, seed), lines, n_context)
    kinds = kinds_of(language)
    if not contrasts:
        raise DataError(f"{name}: no contrast could be made from its {len(lines)} lines (kinds: {', '.join(kinds)})")
    notes = []
    if language == ContrastLanguage():
        notes.append(
            f"there are no word lists for {target}: numbers are changed in digits only and clauses dropped at commas "
            "only; negation and agreement are changed where the target is de or en"
        )
    return Challenge(contrasts, len(lines), kinds, text.place, seed, tuple(notes))


def of_contrastive(text: EvaluationText, path: Path, n_context: int) -> Challenge:
    """Make a challenge set from a text and a file of wrong translations. For `n_context` see `of_text`.

    Raises DataError if the file is missing, is not text or has more or fewer lines, or if there is no contrast.
    """
    lines = _pairs(text)
    name = Path(text.name).name
    wrong = [line for _, line in pair_lines(iter(lines), read_lines(path), Path(text.name), path)]
    contrasts = []
    for number, (pair, changed) in enumerate(zip(lines, wrong, strict=True), start=1):
        contrasts.append(Contrast(GIVEN, *pair, (changed,), f"{name}.{number}"))
    return _given(_in_context(contrasts, lines, n_context), len(contrasts), f"{text.name} and {path}")


def _pairs(text: EvaluationText) -> list[tuple[str, str]]:
    return list(zip(text.sources, text.first_references, strict=True))


def _in_context(contrasts: Iterable[Contrast], lines: Sequence[tuple[str, str]], n: int) -> list[Contrast]:
    """Return contrasts of lines with up to `n` lines before them, back to a blank line."""
    before: list[tuple[tuple[str, str], ...]] = [()]
    for line in lines:
        if n == 0 or any(map(is_blank, line)):
            before.append(())
        else:
            before.append((*before[-1], line)[-n:])
    placed = list[Contrast]()
    for contrast in contrasts:
        number = int(contrast.origin.rpartition(".")[2])
        placed.append(replace(contrast, context=before[number - 1]))
    return placed


def of_published(
    path: Path, documents: Path | None = None, languages: tuple[str, str] = ("en", "de"), n_context: int = 0
) -> Challenge:
    """Read a challenge set from the JSON of LingEval97 or ContraPro.

    documents: the folder with the documents of ContraPro, from which up to `n_context` lines before each line are read;
    languages: source and target, the endings of their names.

    Raises DataError if the file is missing or has other content, or if there is no contrast.
    """
    with reading(path):
        content = read_regular(path)
    try:
        entries = _ENTRIES.validate_json(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where, *key = problem["loc"] or ("",)
        place = f"entry {where + 1}" if isinstance(where, int) else "the document"
        what = ", ".join(filter(None, [place, ".".join(map(str, key))]))
        message = problem["msg"].lower()
        raise DataError(f"{path}: {what}: {message}; it must be the JSON of LingEval97 or ContraPro") from None
    contexts: Iterable[Context] = [()] * len(entries)
    if documents is not None:
        contexts = _of_documents(entries, documents, languages, n_context)
    contrasts = list[Contrast]()
    for number, (entry, context) in enumerate(zip(entries, contexts, strict=True), start=1):
        contrasts += entry.contrasts(f"{path.name}.{number}", context)
    return _given(contrasts, len(entries), str(path))


def _of_documents(
    entries: Sequence[_Entry], folder: Path, languages: tuple[str, str], n: int
) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield for each entry up to `n` lines before it. Raises DataError if a document, or its line, is missing."""
    src, tgt = languages
    files = {file.name: file for file in sorted(folder.rglob(f"*.{tgt}"))}

    @lru_cache(maxsize=8)
    def lines_of(name: str) -> list[tuple[str, str]]:
        return list(read_aligned(files[name].with_suffix(f".{src}"), files[name]))

    for entry in entries:
        if entry.document not in files:
            raise DataError(f"{folder}: no document {entry.document}; setup_opensubs.sh of ContraPro makes this folder")
        lines = lines_of(entry.document)
        if entry.segment > len(lines) or lines[entry.segment - 1][0].strip() != entry.source.strip():
            raise DataError(
                f"{files[entry.document]}: line {entry.segment} is not {printable(beginning(entry.source, 60))!r}"
            )
        yield tuple(lines[max(0, entry.segment - 1 - n) : entry.segment - 1])


def _given(contrasts: Sequence[Contrast], n_lines: int, name: str) -> Challenge:
    different = [contrast for contrast in contrasts if contrast.reference not in contrast.changed]
    n_equal = len(contrasts) - len(different)
    if not different:
        raise DataError(f"{name}: every changed translation equals its reference")
    notes = []
    if n_equal:
        notes.append(f"pairs skipped because the changed translation equals the reference: {n_equal:,}")
    kinds = tuple(dict.fromkeys(contrast.kind for contrast in different))
    return Challenge(different, n_lines, kinds, {"ref": name}, notes=tuple(notes))


_InContext: TypeAlias = tuple[str, str, Context]
"""A source line, a target line, and the pairs before them."""


@dataclass(frozen=True)
class Probability:
    """The log-probability of a line given its source, and the number of pieces of the line."""

    log_prob: float
    """Sum of the log-probabilities of its pieces and the end of sentence (nats)."""
    n_pieces: int

    @property
    def per_piece(self) -> float:
        """The mean log-probability per piece, which does not favour short lines."""
        return self.log_prob / self.n_pieces


@dataclass(frozen=True)
class ContrastOutcome:
    """A contrast with the log-probabilities that a model assigns to its lines."""

    contrast: Contrast
    reference: Probability
    changed: tuple[Probability, ...]

    @property
    def margin(self) -> float:
        """Log-probability of the reference minus the highest log-probability of a wrong line (nats); right if > 0."""
        return self.reference.log_prob - max(changed.log_prob for changed in self.changed)

    @property
    def margin_per_piece(self) -> float:
        """The margin between the mean log-probabilities per piece."""
        return self.reference.per_piece - max(changed.per_piece for changed in self.changed)


def score_contrasts(
    contrasts: Sequence[Contrast], score: Callable[[Sequence[_InContext]], Iterable[Scored]]
) -> tuple[list[ContrastOutcome], Counter[str]]:
    """Score the lines of contrasts, each distinct line once per source.

    The outcomes and the numbers of skipped contrasts by reason are returned. `score` returns the scores of pairs of a
    source and a target line in their contexts, in order.
    """

    def pairs_of(contrast: Contrast) -> list[_InContext]:
        return [(contrast.source, line, contrast.context) for line in (contrast.reference, *contrast.changed)]

    pairs = list(dict.fromkeys(itertools.chain.from_iterable(map(pairs_of, contrasts))))
    scored = dict(zip(pairs, score(pairs), strict=True))
    outcomes = []
    left_out = Counter[str]()
    for contrast in contrasts:
        lines = [scored[pair] for pair in pairs_of(contrast)]
        if any(line.cut for line in lines):
            left_out["has more pieces than the model takes"] += 1
        elif not all(line.pieces for line in lines):
            left_out["is blank"] += 1
        else:
            reference, *changed = (Probability(line.log_prob, len(line.pieces)) for line in lines)
            outcomes.append(ContrastOutcome(contrast, reference, tuple(changed)))
    return outcomes, left_out


@dataclass(frozen=True)
class KindResult:
    """The results of a model on one kind of contrasts. Shares and margin are None without contrasts."""

    kind: str
    pairs: int
    right: int
    """Number of contrasts whose reference has the highest log-probability; ties are wrong, as in published scripts."""
    right_per_piece: int
    """The same number by the mean log-probability per piece."""
    share: float | None = None
    interval: Interval | None = None
    """95 % interval of the share (Wilson, 1927)."""
    share_per_piece: float | None = None
    margin: float | None = None
    """Mean of `ContrastOutcome.margin`."""


def wilson(right: int, n: int) -> Interval:
    """Return the 95 % confidence interval of the share `right` / `n` (Wilson, 1927)."""
    z = 1.959964
    share = right / n
    middle = share + z * z / (2 * n)
    half = z * math.sqrt((share * (1 - share) + z * z / (4 * n)) / n)
    scale = 1 + z * z / n
    return Interval(max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale))


def summarize(kind: str, outcomes: Sequence[ContrastOutcome]) -> KindResult:
    """Summarize the outcomes of one kind of contrasts."""
    outcomes = [outcome for outcome in outcomes if outcome.contrast.kind == kind]
    if not outcomes:
        return KindResult(kind, 0, 0, 0)
    n = len(outcomes)
    right = sum(outcome.margin > 0 for outcome in outcomes)
    per_piece = sum(outcome.margin_per_piece > 0 for outcome in outcomes)
    margin = math.fsum(outcome.margin for outcome in outcomes) / n
    return KindResult(kind, n, right, per_piece, right / n, wilson(right, n), per_piece / n, margin)


LEGEND = (
    "right: pairs whose reference is more probable than the changed one, log-probabilities summed over pieces, with a "
    "95 % interval (Wilson); per piece: by their mean, which does not favour shorter lines; margin: mean difference of "
    "the sums, in nats"
)


@dataclass(frozen=True)
class ChallengeReport:
    """The outcomes of a challenge set for a model."""

    subject: Subject
    challenge: Challenge
    outcomes: tuple[ContrastOutcome, ...]
    notes: tuple[str, ...]

    @property
    def about(self) -> dict[str, object]:
        """The facts about the text and the model; missing ones are None."""
        challenge = self.challenge
        return {
            "lines": challenge.n_lines,
            "context": challenge.context,
            **vars(self.subject),
            "seed": challenge.seed,
        }

    def results(self) -> list[KindResult]:
        """Return the results by kind of contrasts."""
        return [summarize(kind, self.outcomes) for kind in self.challenge.kinds]

    def failures(self, n: int) -> Iterator[str]:
        """Yield up to `n` wrong decisions of each kind, the worst first, as lines to print."""
        wrong = [outcome for outcome in self.outcomes if outcome.margin <= 0]
        wrong.sort(key=lambda outcome: outcome.margin)
        for kind in self.challenge.kinds:
            of_kind = [outcome for outcome in wrong if outcome.contrast.kind == kind]
            for outcome in of_kind[:n]:
                contrast = outcome.contrast
                worst = max(zip(outcome.changed, contrast.changed, strict=True))[1]
                yield f"{kind}, {contrast.origin}, margin {outcome.margin:.2f}"
                yield f"  source     {printable_sentence(contrast.source)}"
                yield f"  reference  {printable_sentence(contrast.reference)}"
                yield f"  changed    {printable_sentence(worst)}"

    def as_table(self) -> Table:
        """Return the results by kind as a table, with the text and model, the legend and notes below it."""
        about = self.about
        results = self.results()
        header = ("kind", "pairs", "right %", "95 %", "per piece %", "margin")
        notes = [facts(about), LEGEND, *(f"{NOTE}{note}" for note in self.notes)]
        records = [about | vars(result) for result in results]
        return Table(header, [*map(_cells, results)], range(1, 6), notes=notes, records=records)

    def as_json(self) -> dict[str, object]:
        """Return the report as values that JSON can represent; missing values are None."""
        return {"kinds": self.results(), **self.about, "notes": self.notes}


def _cells(result: KindResult) -> tuple[str, ...]:
    if result.share is None or result.interval is None or result.share_per_piece is None:
        return result.kind, "0", "-", "-", "-", "-"
    interval = "-".join(f"{100 * end:.1f}" for end in result.interval)
    shares = f"{100 * result.share:.1f}", interval, f"{100 * result.share_per_piece:.1f}"
    return result.kind, f"{result.pairs:,}", *shares, f"{result.margin:.2f}"


def contrasts_json(outcomes: Sequence[ContrastOutcome]) -> str:
    """Return the contrasts in the format of LingEval97, with the log-probability and number of pieces of each line.

    The scripts of LingEval97 and `of_published` read it. A contrast with several wrong translations is an entry with
    its kind.
    """

    def entry_of(outcome: ContrastOutcome) -> tuple[str | None, ...]:
        contrast = outcome.contrast
        kind = contrast.kind if len(contrast.changed) > 1 else None
        return contrast.origin, contrast.reference, kind

    entries = []
    for (*_, kind), group in itertools.groupby(outcomes, entry_of):
        errors = []
        for outcome in group:
            contrast = outcome.contrast
            for line, probability in zip(contrast.changed, outcome.changed, strict=True):
                errors.append({"type": contrast.kind, "contrastive": line, **vars(probability)})
        entry = {
            "source": contrast.source, "reference": contrast.reference, "origin": contrast.origin,
            "context": contrast.context or None, "kind": kind, **vars(outcome.reference), "errors": errors,
        }  # fmt: skip
        entries.append({name: value for name, value in entry.items() if value is not None})
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"


def challenge_run(translator: Translator, challenge: Challenge) -> ChallengeReport:
    """Score a set of contrasts with a translator loaded from one or several runs.

    Raises DataError if no contrast can be scored, ConfigError for an engine that is not PyTorch.
    """
    config = translator.config
    if challenge.context:
        translator.check(config.search.model_copy(update={"context": 1}), 1)
    search = config.search.with_tags(config.data.tags_of(challenge.place.get("split", "")))

    def score(pairs: Sequence[_InContext]) -> list[Scored]:
        with Progress("scoring", len(pairs), "lines") as progress:
            lines = [(source, target) for source, target, _ in pairs]
            return list(translator.score(lines, search, progress, [context for *_, context in pairs]))

    outcomes, left_out = score_contrasts(challenge.contrasts, score)
    notes = [f"pairs skipped because a line {reason}: {n:,}" for reason, n in sorted(left_out.items(), reverse=True)]
    if not outcomes:
        raise DataError(f"none of the {len(challenge.contrasts)} pairs can be scored: {'; '.join(notes)}")
    return ChallengeReport(
        subject_of(translator, place=challenge.place), challenge, tuple(outcomes), (*challenge.notes, *notes)
    )
