"""Challenge a run: choose or make contrasts, score them, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nmt.challenge.contrasts import Contrast, kinds_of, language_of, make_contrasts
from nmt.challenge.outcome import NotScored, score_contrasts
from nmt.challenge.published import read_contrastive, read_published, read_text, without_equal
from nmt.challenge.report import Report
from nmt.console import Progress
from nmt.errors import DataError
from nmt.evaluate.run import read_split, subject_of
from nmt.translate.score import Scored
from nmt.translate.translator import Translator

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
    """Make contrasts of parallel text; `name` is that of the text, `target` the language of the second side.

    Raises DataError if none can be made.
    """
    language = language_of(target)
    contrasts, kinds = list(make_contrasts(lines, name, language, seed)), kinds_of(language)
    if not contrasts:
        raise DataError(f"{name}: no contrast could be made of its {len(lines)} lines (kinds: {', '.join(kinds)})")
    notes = () if language.negated else (f"no words of {target} are known: {FEWER_KINDS}",)
    return Challenge(contrasts, len(lines), kinds, seed=seed, notes=notes)


def of_files(source: Path, reference: Path, changed: Path | None, target: str, seed: int) -> Challenge:
    """Read aligned files: contrasts are made, or are in a third file. Raises DataError."""
    if changed is None:
        made = of_lines(read_text(source, reference), reference.name, target, seed)
        return replace(made, reference=str(reference))
    contrasts = read_contrastive(source, reference, changed)
    return _given(contrasts, len(contrasts), f"{reference} and {changed}")


def of_published(path: Path) -> Challenge:
    """Read contrasts in the form of LingEval97 or ContraPro. Raises DataError."""
    return _given(*read_published(path), str(path))


def _given(contrasts: Sequence[Contrast], n_lines: int, name: str) -> Challenge:
    different, n_equal = without_equal(contrasts)
    if not different:
        raise DataError(f"{name}: no line has a changed translation that differs from its reference")
    notes = (f"pairs left out since both translations are the same: {n_equal:,}",) if n_equal else ()
    kinds = tuple(dict.fromkeys(contrast.kind for contrast in different))
    return Challenge(different, n_lines, kinds, reference=name, notes=notes)


def of_split(translator: Translator, data_dir: Path | None, split_name: str | None, seed: int) -> Challenge:
    """Make contrasts of a split of a corpus, by default of the only test set of the run's. Raises DataError."""
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
    if not outcomes:
        raise DataError(f"none of {len(challenge.contrasts)} pairs was scored: {'; '.join(_left_out(left_out))}")
    subject = subject_of(translator, split=challenge.split, ref=challenge.reference)
    notes = (*challenge.notes, *_left_out(left_out))
    return Report(subject, challenge.n_lines, challenge.kinds, tuple(outcomes), challenge.seed, notes)


def _left_out(left_out: NotScored) -> list[str]:
    reasons = {"is blank": left_out.blank, "has more pieces than the model takes": left_out.cut}
    return [f"pairs left out since a line {reason}: {n:,}" for reason, n in reasons.items() if n]
