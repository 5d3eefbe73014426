"""Challenge sets: does the model find the true translation more probable than a wrong one?"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from nmt.console import Progress, aligned, printable, printable_sentence
from nmt.errors import DataError
from nmt.evaluate.contrasts import Contrast, kinds_of, language_of, make_contrasts
from nmt.evaluate.report import Subject, facts
from nmt.evaluate.run import read_split, subject_of
from nmt.evaluate.significance import Interval
from nmt.files.read import read_regular, reading
from nmt.text.lines import bounded_list, read_aligned
from nmt.translate.score import Scored
from nmt.translate.translator import Translator

GIVEN = "contrastive"
"""The kind of a pair from files that name none."""


class _Error(BaseModel):
    contrastive: str
    type: str = GIVEN


class _Entry(BaseModel):
    """A line of LingEval97 (Sennrich, 2017) or ContraPro (Müller et al., 2018), which names some keys differently."""

    source: str = Field(validation_alias=AliasChoices("source", "src segment"))
    reference: str = Field(validation_alias=AliasChoices("reference", "ref segment"))
    errors: list[_Error]
    origin: str | None = None
    src_pronoun: str | None = Field(None, validation_alias="src pronoun")
    ref_pronoun: str | None = Field(None, validation_alias="ref pronoun")

    def contrasts(self, origin: str) -> list[Contrast]:
        """Return one contrast per error, as LingEval97 counts; for ContraPro a single one, named by its pronouns."""
        origin = self.origin or origin
        if self.src_pronoun is not None and self.ref_pronoun is not None:
            kind = f"{self.src_pronoun.lower()}:{self.ref_pronoun.lower()}"
            changed = tuple(error.contrastive for error in self.errors)
            return [Contrast(kind, self.source, self.reference, changed, origin)] if changed else []
        return [
            Contrast(error.type, self.source, self.reference, (error.contrastive,), origin) for error in self.errors
        ]


_ENTRIES = TypeAdapter(list[_Entry])


def read_published(path: Path) -> tuple[list[Contrast], int]:
    """Read contrasts from JSON of LingEval97 or ContraPro; return them and the number of entries.

    Raises DataError if the file is missing or is something else.
    """
    with reading(path):
        content = read_regular(path)
    try:
        entries = _ENTRIES.validate_json(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where, *key = problem["loc"] or ("",)
        place = f"entry {where + 1}" if isinstance(where, int) else "the document"
        what = ", ".join([place, *([".".join(map(str, key))] if key else [])])
        message = problem["msg"].lower()
        raise DataError(f"{path}: {what}: {message}; it must be the JSON of LingEval97 or ContraPro") from None
    return [
        contrast
        for number, entry in enumerate(entries, start=1)
        for contrast in entry.contrasts(f"{path.name}.{number}")
    ], len(entries)


def read_contrastive(source: Path, reference: Path, changed: Path) -> list[Contrast]:
    """Read contrasts from three aligned files.

    Raises DataError if a file is missing, is no text, or has more lines than another.
    """
    lines = bounded_list(read_aligned(source, reference), str(source))
    others = [other for _, other in bounded_list(read_aligned(source, changed), str(source))]
    return [
        Contrast(GIVEN, source_line, reference_line, (other,), f"{reference.name}.{number}")
        for number, ((source_line, reference_line), other) in enumerate(zip(lines, others, strict=True), start=1)
    ]


Score = Callable[[Sequence[tuple[str, str]]], Iterable[Scored]]
"""From pairs of a source and a target line to their scores, in order."""


class Probability(NamedTuple):
    """The probability of a line, given its source."""

    log_prob: float
    """Sum over its pieces and the end of sentence (nats)."""
    n_pieces: int

    @property
    def per_piece(self) -> float:
        """The mean per piece, which does not favour short lines."""
        return self.log_prob / self.n_pieces


@dataclass(frozen=True)
class Outcome:
    """A contrast and the probabilities of its lines."""

    contrast: Contrast
    reference: Probability
    changed: tuple[Probability, ...]

    @property
    def margin(self) -> float:
        """Log-probability of the reference minus that of the most probable other line (nats); right if > 0."""
        return self.reference.log_prob - max(changed.log_prob for changed in self.changed)

    @property
    def margin_per_piece(self) -> float:
        """The margin of the mean log-probabilities per piece."""
        return self.reference.per_piece - max(changed.per_piece for changed in self.changed)


def score_contrasts(contrasts: Sequence[Contrast], score: Score) -> tuple[list[Outcome], Counter[str]]:
    """Score each distinct line once per source; return the outcomes, and the numbers left out by reason."""
    pairs = {
        (contrast.source, line): None for contrast in contrasts for line in (contrast.reference, *contrast.changed)
    }
    scored = dict(zip(pairs, score(list(pairs)), strict=True))
    outcomes, left_out = [], Counter[str]()
    for contrast in contrasts:
        found = [scored[contrast.source, line] for line in (contrast.reference, *contrast.changed)]
        if any(each.cut for each in found):
            left_out["has more pieces than the model takes"] += 1
        elif not all(each.pieces for each in found):
            left_out["is blank"] += 1
        else:
            reference, *changed = (Probability(each.log_prob, len(each.pieces)) for each in found)
            outcomes.append(Outcome(contrast, reference, tuple(changed)))
    return outcomes, left_out


@dataclass(frozen=True)
class KindResult:
    """How often the model was right about one kind of contrasts."""

    kind: str
    n: int
    n_right: int
    """Contrasts whose reference has the highest log-probability; equal ones count as wrong, as in published scripts."""
    n_right_per_piece: int
    """The same by the mean log-probability per piece."""
    margin: float
    """Mean of `Outcome.margin`; NaN if there is no contrast."""

    @property
    def interval(self) -> Interval:
        """95 % interval of the share of right decisions (Wilson, 1927)."""
        if not self.n:
            return Interval(0.0, 1.0)
        z, share = 1.959964, self.n_right / self.n
        middle, half = (
            share + z * z / (2 * self.n),
            z * math.sqrt((share * (1 - share) + z * z / (4 * self.n)) / self.n),
        )
        scale = 1 + z * z / self.n
        return Interval(max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale))


def by_kind(outcomes: Sequence[Outcome], kinds: Iterable[str]) -> list[KindResult]:
    """Return the results of these kinds, in this order, including kinds without contrasts."""
    groups: dict[str, list[Outcome]] = {kind: [] for kind in kinds}
    for outcome in outcomes:
        groups[outcome.contrast.kind].append(outcome)
    return [_summarize(kind, group) for kind, group in groups.items()]


def _summarize(kind: str, outcomes: Sequence[Outcome]) -> KindResult:
    n = len(outcomes)
    return KindResult(
        kind,
        n,
        sum(outcome.margin > 0 for outcome in outcomes),
        sum(outcome.margin_per_piece > 0 for outcome in outcomes),
        math.fsum(outcome.margin for outcome in outcomes) / n if n else math.nan,
    )


LEGEND = (
    "right: pairs whose reference is more probable than the changed one, log-probabilities summed over pieces, with a "
    "95 % interval (Wilson); per piece: by their mean, which does not favour shorter lines; margin: mean difference of "
    "the sums, in nats"
)


@dataclass(frozen=True)
class Report:
    """How a model did on a challenge set."""

    subject: Subject
    n_lines: int
    """Lines that contrasts were made from, or entries that were read."""
    kinds: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    seed: int | None
    """Of the contrasts; None if they were read."""
    notes: tuple[str, ...]

    def failures(self, n: int) -> Iterator[str]:
        """Yield for each kind up to `n` contrasts that the model gets wrong, the worst first, as lines to print."""
        for kind in self.kinds:
            wrong = [each for each in self.outcomes if each.contrast.kind == kind and each.margin <= 0]
            for outcome in sorted(wrong, key=lambda outcome: outcome.margin)[:n]:
                contrast = outcome.contrast
                worst = max(zip(outcome.changed, contrast.changed, strict=True))[1]
                yield f"{kind}, {contrast.origin}, margin {outcome.margin:.2f}"
                yield f"  source     {printable_sentence(contrast.source)}"
                yield f"  reference  {printable_sentence(contrast.reference)}"
                yield f"  changed    {printable_sentence(worst)}"


def render_text(report: Report) -> str:
    """Format the result as a table, then what was scored and notes."""
    results = map(_cells, by_kind(report.outcomes, report.kinds))
    lines = aligned([("kind", "pairs", "right %", "95 %", "per piece %", "margin"), *results], range(1, 6))
    lines.append(facts({"lines": report.n_lines, **vars(report.subject), "seed": report.seed}))
    lines.append(LEGEND)
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join(map(printable, lines))


def _cells(result: KindResult) -> tuple[str, ...]:
    if not result.n:
        return result.kind, "0", "-", "-", "-", "-"
    shares = [100 * n / result.n for n in (result.n_right, result.n_right_per_piece)]
    low, high = result.interval
    interval = f"{100 * low:.1f}-{100 * high:.1f}"
    return result.kind, f"{result.n:,}", f"{shares[0]:.1f}", interval, f"{shares[1]:.1f}", f"{result.margin:.2f}"


def render_json(report: Report) -> str:
    """Format the result as one JSON object; missing values are null."""
    return json.dumps(
        {
            "kinds": [*map(_entry, by_kind(report.outcomes, report.kinds))],
            "lines": report.n_lines,
            **asdict(report.subject),
            "seed": report.seed,
            "notes": report.notes,
        },
        ensure_ascii=False,
        indent=1,
    )


def _entry(result: KindResult) -> dict[str, object]:
    n, interval = result.n, result.interval
    return {
        "kind": result.kind,
        "pairs": n,
        "right": result.n_right,
        "right_per_piece": result.n_right_per_piece,
        "share": result.n_right / n if n else None,
        "interval": interval if n else None,
        "share_per_piece": result.n_right_per_piece / n if n else None,
        "margin": result.margin if n else None,
    }


def contrasts_json(outcomes: Sequence[Outcome]) -> str:
    """Return the contrasts in the form of LingEval97, with the log-probability and the number of pieces of each line.

    The scripts of LingEval97 take it, and `read_published`.
    """
    entries = []
    for _, group in itertools.groupby(outcomes, lambda outcome: (outcome.contrast.origin, outcome.contrast.reference)):
        same = list(group)
        contrast = same[0].contrast
        errors = [
            {"type": each.contrast.kind, "contrastive": line, **probability._asdict()}
            for each in same
            for line, probability in zip(each.contrast.changed, each.changed, strict=True)
        ]
        entries.append(
            {
                "source": contrast.source,
                "reference": contrast.reference,
                "origin": contrast.origin,
                **same[0].reference._asdict(),
                "errors": errors,
            }
        )
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"


FEWER_KINDS = (
    "numbers are changed in digits only and clauses dropped at commas only; negation and agreement are changed where "
    "the target is de, en, es or fr"
)


@dataclass(frozen=True)
class Challenge:
    """A set of contrasts."""

    contrasts: Sequence[Contrast]
    n_lines: int
    """Lines that they were made from, or entries that were read."""
    kinds: tuple[str, ...]
    """In the order of the table; some may have no contrast."""
    split: str | None = None
    reference: str | None = None
    """The file, if it is not a split."""
    seed: int | None = None
    notes: tuple[str, ...] = ()


def of_lines(lines: Sequence[tuple[str, str]], name: str, target: str, seed: int) -> Challenge:
    """Make contrasts from parallel text; `name` identifies the text, `target` is the language of the second side.

    Raises DataError if none can be made.
    """
    language = language_of(target)
    contrasts, kinds = list(make_contrasts(lines, name, language, seed)), kinds_of(language)
    if not contrasts:
        raise DataError(f"{name}: no contrast could be made of its {len(lines)} lines (kinds: {', '.join(kinds)})")
    notes = () if language.negated else (f"no words of {target} are known: {FEWER_KINDS}",)
    return Challenge(contrasts, len(lines), kinds, seed=seed, notes=notes)


def of_files(source: Path, reference: Path, changed: Path | None, target: str, seed: int) -> Challenge:
    """Read aligned files; make contrasts, or read them from a third file. Raises DataError."""
    if changed is None:
        lines = bounded_list(read_aligned(source, reference), str(source))
        return replace(of_lines(lines, reference.name, target, seed), reference=str(reference))
    contrasts = read_contrastive(source, reference, changed)
    return _given(contrasts, len(contrasts), f"{reference} and {changed}")


def of_published(path: Path) -> Challenge:
    """Read contrasts in the form of LingEval97 or ContraPro. Raises DataError."""
    return _given(*read_published(path), str(path))


def _given(contrasts: Sequence[Contrast], n_lines: int, name: str) -> Challenge:
    different = [contrast for contrast in contrasts if contrast.reference not in contrast.changed]
    n_equal = len(contrasts) - len(different)
    if not different:
        raise DataError(f"{name}: no line has a changed translation that differs from its reference")
    notes = (f"pairs left out since both translations are the same: {n_equal:,}",) if n_equal else ()
    kinds = tuple(dict.fromkeys(contrast.kind for contrast in different))
    return Challenge(different, n_lines, kinds, reference=name, notes=notes)


def of_split(translator: Translator, data_dir: Path | None, split_name: str | None, seed: int) -> Challenge:
    """Make contrasts from a split of a corpus, by default from the run's only test set. Raises DataError."""
    name, sources, references = read_split(translator, data_dir, split_name)
    pairs = list(zip(sources, references, strict=True))
    return replace(of_lines(pairs, name, translator.config.data.tgt, seed), split=name)


def challenge_run(translator: Translator, challenge: Challenge) -> Report:
    """Score a set of contrasts with a translator loaded from one or several runs.

    Raises DataError if none can be scored, ConfigError for an engine other than the native one.
    """

    def score(pairs: Sequence[tuple[str, str]]) -> list[Scored]:
        with Progress("scoring", len(pairs), "lines") as progress:
            return list(translator.score(pairs, progress=progress))

    outcomes, left_out = score_contrasts(challenge.contrasts, score)
    notes = [f"pairs left out since a line {reason}: {n:,}" for reason, n in sorted(left_out.items(), reverse=True)]
    if not outcomes:
        raise DataError(f"none of {len(challenge.contrasts)} pairs was scored: {'; '.join(notes)}")
    subject = subject_of(translator, split=challenge.split, ref=challenge.reference)
    notes = [*challenge.notes, *notes]
    return Report(subject, challenge.n_lines, challenge.kinds, tuple(outcomes), challenge.seed, tuple(notes))
