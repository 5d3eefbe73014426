"""Evaluating: hypotheses and references -> scores, with everything that is needed to compare them fairly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt.data.sources import held, read_aligned
from nmt.errors import DataError
from nmt.metrics import METRICS, Score, corpus_score, looks_tokenized

_NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}


@dataclass(frozen=True)
class Subject:
    """What was scored: the translations of a split by a run, or a file against a file."""

    run: str | None = None
    split: str | None = None
    step: int | None = None
    """The step of the checkpoint."""
    weights: str | None = None
    """raw or average."""
    search: str | None = None
    precision: str | None = None
    """The number format of the matrix products."""
    hyp: str | None = None
    ref: str | None = None


@dataclass(frozen=True)
class Report:
    """BLEU, chrF and TER of one text."""

    scores: tuple[Score, ...]
    n_lines: int
    subject: Subject
    notes: tuple[str, ...] = ()
    """What makes these scores incomparable with the usual ones."""


def evaluate(
    hyps: Sequence[str],
    refs: Sequence[str],
    subject: Subject,
    tgt_lang: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> Report:
    """Score hypotheses against references, a line each, detokenised.

    `tgt_lang`, `lowercase` and `tokenize` as for `corpus_score`, the last for BLEU alone. Raises DataError unless there
    are as many of one as of the other, if there are none, or for an unknown tokenizer.
    """
    scores = tuple(corpus_score(metric, hyps, refs, tgt_lang, lowercase, tokenize) for metric in METRICS)
    notes = []
    if lowercase:
        notes.append("lowercased: not comparable with cased scores")
    if tokenize is not None:
        notes.append(f"BLEU with tokenize={tokenize}: not comparable with BLEU of another tokenization")
    of_hyps, of_refs = looks_tokenized(hyps), looks_tokenized(refs)
    if of_hyps != of_refs:
        which, other = ("hypotheses", "references") if of_hyps else ("references", "hypotheses")
        notes.append(f"the {which} look tokenised, the {other} do not: detokenise them first, for this tells little")
    elif of_hyps and tokenize != "none":
        notes.append("the text looks tokenised: BLEU tokenizes it once more; --tokenize none scores it as it stands")
    return Report(scores, len(hyps), subject, tuple(notes))


def evaluate_files(hyp: Path, ref: Path, lowercase: bool = False, tokenize: str | None = None) -> Report:
    """Score a file of hypotheses against a file of references.

    Raises DataError as `evaluate` does, and if a file is missing or is not UTF-8 text.
    """
    for path in (hyp, ref):
        if not path.exists():
            raise DataError(f"{path}: no such file")
    pairs = held(read_aligned(hyp, ref), f"{hyp} and {ref}")
    if not pairs:
        raise DataError(f"{hyp} and {ref} are empty: there is nothing to score")
    hyps, refs = zip(*pairs, strict=True)
    return evaluate(hyps, refs, Subject(hyp=str(hyp), ref=str(ref)), None, lowercase, tokenize)


def render_text(report: Report) -> str:
    """The report for people: a line for each score, then what was scored and what to mind."""
    lines = []
    for score in report.scores:
        direction = "" if score.higher_is_better else "  (lower is better)"
        lines.append(f"{_NAMES[score.metric]:<4} {score.value:6.2f}  {score.signature}{direction}")
    facts = {"lines": report.n_lines, **asdict(report.subject)}
    lines.append(", ".join(f"{name} {value}" for name, value in facts.items() if value is not None))
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join(lines)


def render_json(report: Report) -> str:
    """The report for programs: one JSON object; absent facts are null."""
    return json.dumps(
        {
            "scores": [asdict(score) for score in report.scores],
            "lines": report.n_lines,
            **asdict(report.subject),
            "notes": report.notes,
        },
        ensure_ascii=False,
        indent=1,
    )
