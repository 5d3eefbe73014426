"""Score hypotheses against references, with everything needed for a fair comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nmt.console import printable
from nmt.errors import DataError
from nmt.evaluate.metrics import METRICS, Reference, Score, corpus_score, looks_tokenized, no_match_note
from nmt.evaluate.neural import NeuralMetrics
from nmt.text.lines import bounded_list, read_lines

_NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
SYSTEM = "the translations"
"""The name of the only system, for messages."""


def metric_name(metric: str) -> str:
    """Return the name of a metric for people."""
    return _NAMES.get(metric, metric)


def metric_value(metric: str, value: float) -> str:
    """Format a score for people; other metrics than BLEU, chrF and TER are often between 0 and 1."""
    return f"{value:.{2 if metric in _NAMES else 4}f}"


@dataclass(frozen=True)
class Member:
    """A run of an ensemble, with the step and kind of its weights."""

    run: str
    step: int
    weights: str

    def __str__(self) -> str:
        return f"{self.run} step {self.step} {self.weights}"


@dataclass(frozen=True)
class Subject:
    """The text that was scored: a split translated by a run or an ensemble, or a file against one or several others."""

    run: str | None = None
    split: str | None = None
    step: int | None = None
    """The step of the checkpoint."""
    weights: str | None = None
    """raw, ema or average."""
    ensemble: tuple[Member, ...] | None = None
    """In place of run, step and weights, if several runs translated together."""
    search: str | None = None
    precision: str | None = None
    """Number format of the matrix products."""
    hyp: str | None = None
    ref: str | None = None
    refs: tuple[str, ...] | None = None
    """In place of ref, if there are several."""


@dataclass(frozen=True)
class Report:
    """BLEU, chrF and TER of one text."""

    scores: tuple[Score, ...]
    n_lines: int
    subject: Subject
    notes: tuple[str, ...] = ()
    """Reasons why these scores are not comparable with others."""


def evaluate(
    hyps: Sequence[str],
    refs: Sequence[Reference],
    subject: Subject,
    tgt_lang: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> Report:
    """Score detokenised hypotheses against references, line by line; a line may have several references.

    `tgt_lang`, `lowercase` and `tokenize` are those of `corpus_score`; `tokenize` affects BLEU only.

    Raises DataError if the numbers of lines differ or are 0, or if the tokenizer is unknown.
    """
    scores = tuple(corpus_score(metric, hyps, refs, tgt_lang, lowercase, tokenize) for metric in METRICS)
    notes = []
    if lowercase:
        notes.append("lowercased: not comparable with cased scores")
    if tokenize is not None:
        notes.append(f"BLEU with tokenize={tokenize}: not comparable with BLEU of another tokenization")
    notes += filter(None, [no_match_note(scores[METRICS.index("bleu")].value)])
    hyps_tokenized, refs_tokenized = looks_tokenized(hyps), looks_tokenized([*_flat(refs)])
    if hyps_tokenized != refs_tokenized:
        which, other = ("hypotheses", "references") if hyps_tokenized else ("references", "hypotheses")
        notes.append(f"the {which} look tokenised, the {other} do not: these scores mean little, detokenise them first")
    elif hyps_tokenized and tokenize != "none":
        notes.append("the text looks tokenised: BLEU tokenizes it once more; --tokenize none scores it as it stands")
    return Report(scores, len(hyps), subject, tuple(notes))


def _flat(refs: Sequence[Reference]) -> Iterator[str]:
    for ref in refs:
        yield from (ref,) if isinstance(ref, str) else ref


def evaluate_files(
    hyp: Path,
    refs: Path | Sequence[Path],
    lowercase: bool = False,
    tokenize: str | None = None,
    src: Path | None = None,
    neural: NeuralMetrics | None = None,
) -> Report:
    """Score a file of hypotheses against one or several files of references. COMET needs a file of sources, too.

    Raises DataError as `evaluate` does, and if a file is missing, is not UTF-8 text, or differs in its number of lines.
    """
    refs = [refs] if isinstance(refs, Path) else refs
    hyps, *others = read_texts([hyp, *refs, *([] if src is None else [src])])
    names = tuple(map(str, refs))
    subject = Subject(hyp=str(hyp), ref=names[0]) if len(names) == 1 else Subject(hyp=str(hyp), refs=names)
    references = list(zip(*others[: len(refs)], strict=True))
    report = evaluate(hyps, references, subject, None, lowercase, tokenize)
    if neural is None:
        return report
    return with_neural_metrics(report, neural, [] if src is None else others[-1], references, hyps)


def read_texts(paths: Sequence[Path]) -> list[list[str]]:
    """Return the lines of each file. Raises DataError as `evaluate_files` does, and if they are empty."""
    for path in paths:
        if not path.exists():
            raise DataError(f"{path}: no such file")
    texts = [bounded_list(read_lines(path), str(path)) for path in paths]
    counts = {path: len(lines) for path, lines in zip(paths, texts, strict=True)}
    if len({*counts.values()}) > 1:
        raise DataError(f"{_counts(counts)}: they must pair line by line")
    if not texts[0]:
        raise DataError(f"{' and '.join(map(str, paths))} are empty: there is nothing to score")
    return texts


def with_neural_metrics(
    report: Report,
    neural: NeuralMetrics,
    sources: Sequence[str],
    references: Sequence[Reference],
    translations: Sequence[str],
) -> Report:
    """Return the report with the scores of further metrics.

    Raises DataError as `NeuralMetrics.score` does.
    """
    (by_metric,) = neural.score(sources, references, {SYSTEM: translations}).values()
    scores = [Score(name, s.mean, s.signature, s.higher_is_better) for name, s in by_metric.items()]
    return replace(report, scores=(*report.scores, *scores))


def _counts(counts: Mapping[Path, int]) -> str:
    """Format numbers of lines: `hyp has 3 lines, ref 4`."""
    first, *others = counts.items()
    return f"{first[0]} has {first[1]} lines, {', '.join(f'{path} {n}' for path, n in others)}"


def render_text(report: Report) -> str:
    """Format the report as text: a line per score, then what was scored and notes."""
    lines, width = [], max(len(metric_name(score.metric)) for score in report.scores)
    for score in report.scores:
        direction = "" if score.higher_is_better else "  (lower is better)"
        value = metric_value(score.metric, score.value)
        lines.append(f"{metric_name(score.metric):<{width}} {value:>6}  {score.signature}{direction}")
    lines.append(facts({"lines": report.n_lines, **vars(report.subject)}))
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join(map(printable, lines))


def facts(values: Mapping[str, object]) -> str:
    """Format what was scored: name and value of all that is known."""
    return ", ".join(f"{name} {_fact(value)}" for name, value in values.items() if value is not None)


def _fact(value: object) -> str:
    return " + ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def render_json(*reports: Report) -> str:
    """Format a report as one JSON object, several as a list of them; missing values are null."""
    objects = [
        {
            "scores": [asdict(score) for score in report.scores],
            "lines": report.n_lines,
            **asdict(report.subject),
            "notes": report.notes,
        }
        for report in reports
    ]
    return json.dumps(objects[0] if len(objects) == 1 else objects, ensure_ascii=False, indent=1)
