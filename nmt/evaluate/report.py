"""Reports of scores: signatures and notes for fair comparison, tables, and the record in the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from nmt import __version__
from nmt.console import aligned, amount, printable
from nmt.data.corpus import Corpus
from nmt.errors import DataError
from nmt.evaluate.comet import NeuralMetrics
from nmt.evaluate.metrics import METRICS, Reference, Score, corpus_score, looks_tokenized, metric_name, no_match_note
from nmt.layout import RunDir
from nmt.runs.info import EnsembleMember, RecordedScore, ScoreRecord, add_scores
from nmt.text.lines import bounded_list, read_lines
from nmt.translate.translator import Translator

SYSTEM = "the translations"
"""The name of the only system, for messages."""


def metric_value(metric: str, value: float) -> str:
    """Format a score for people; other metrics than BLEU, chrF and TER are often between 0 and 1."""
    return f"{value:.{2 if metric in METRICS else 4}f}"


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
    all_refs = [line for ref in refs for line in ((ref,) if isinstance(ref, str) else ref)]
    hyps_tokenized, refs_tokenized = looks_tokenized(hyps), looks_tokenized(all_refs)
    if hyps_tokenized != refs_tokenized:
        which, other = ("hypotheses", "references") if hyps_tokenized else ("references", "hypotheses")
        notes.append(f"the {which} look tokenised, the {other} do not: these scores mean little, detokenise them first")
    elif hyps_tokenized and tokenize != "none":
        notes.append("the text looks tokenised: BLEU tokenizes it once more; --tokenize none scores it as it stands")
    return Report(scores, len(hyps), subject, tuple(notes))


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
    texts = [bounded_list(read_lines(path), str(path)) for path in paths]
    counts = {path: len(lines) for path, lines in zip(paths, texts, strict=True)}
    if len({*counts.values()}) > 1:
        first, *others = (f"{path} has {amount(n, 'line')}" for path, n in counts.items())
        raise DataError(f"{first}, {', '.join(others)}: they must pair line by line")
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
    """Format what was scored: the names and values of all known facts."""
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


AnyScore = Score | RecordedScore


def render_table(reports: Sequence[Report]) -> str:
    """Format reports on several splits, which were translated alike, as a table with a row for each split.

    Below it are the signatures, what was scored, and notes; where these are not the same for all splits, the splits
    that they belong to.
    """
    metrics = metrics_of(report.scores for report in reports)
    rows = [["split", *(printable(metric_name(metric)) for metric in metrics), "lines"]]
    signatures: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    for report in reports:
        split = str(report.subject.split)
        rows.append([printable(split), *values(report.scores, metrics), f"{report.n_lines:,}"])
        for score in report.scores:
            signatures.setdefault(signature(score), []).append(split)
        for note in report.notes:
            notes.setdefault(f"note: {note}", []).append(split)
    subject = {name: value for name, value in vars(reports[0].subject).items() if name != "split"}
    below = [*_with_splits(signatures, len(reports)), facts(subject), *_with_splits(notes, len(reports))]
    return "\n".join([*aligned(rows, right=range(1, len(rows[0]))), *map(printable, below)])


def metrics_of(rows: Iterable[Sequence[AnyScore]]) -> list[str]:
    """Return the metrics of all rows, in the order in which they appear."""
    return list(dict.fromkeys(score.metric for scores in rows for score in scores))


def values(scores: Sequence[AnyScore], metrics: Sequence[str]) -> list[str]:
    """Return the cells of a row of scores."""
    by_metric = {score.metric: metric_value(score.metric, score.value) for score in scores}
    return [by_metric.get(metric, "-") for metric in metrics]


def signature(score: AnyScore) -> str:
    """Format a score's signature."""
    direction = "" if score.higher_is_better else "  (lower is better)"
    return f"{metric_name(score.metric)}: {score.signature}{direction}"


def _with_splits(lines: Mapping[str, Sequence[str]], n_splits: int) -> list[str]:
    return [line if len(splits) == n_splits else f"{line} ({', '.join(splits)})" for line, splits in lines.items()]


# --- history --------------------------------------------------------------------------------------


class History:
    """The recorded scores of a run, oldest first, and which of them are comparable: for each split and metric, those
    with the signature and the text of the newest one, if possible of one without notes."""

    def __init__(self, records: Sequence[ScoreRecord]) -> None:
        self.records = records
        self._standard = {
            (record.split, score.metric): (score.signature, record.text)
            for record in sorted(records, key=lambda record: not record.notes)  # the last one counts
            for score in record.scores
        }

    def is_comparable(self, record: ScoreRecord, score: RecordedScore) -> bool:
        """Whether a score has the signature and text of the comparable ones of its split and metric."""
        return self._standard[record.split, score.metric] == (score.signature, record.text)

    def text(self) -> str:
        """Format the history as a table; scores that are not comparable are marked with an asterisk."""
        metrics = metrics_of(record.scores for record in self.records)
        names = [f"{printable(metric_name(metric))} " for metric in metrics]  # the space is for asterisks
        rows = [["date (UTC)", "split", "lines", "step", "weights", *names, "precision", "search"]]
        comparable, others = dict[str, dict[str, None]](), dict[str, None]()
        for record in self.records:
            cells = dict.fromkeys(metrics, "- ")
            for score in record.scores:
                is_comparable = self.is_comparable(record, score)
                if is_comparable:
                    comparable.setdefault(signature(score), {})[record.split] = None
                else:
                    others[f"* {signature(score)}"] = None
                cells[score.metric] = f"{metric_value(score.metric, score.value)}{' ' if is_comparable else '*'}"
            step = "-" if record.step is None else f"{record.step:,}"
            weights = record.weights or f"ensemble of {len(record.ensemble)}"
            date, split = record.date[:16].replace("T", " "), printable(record.split)
            how = printable(record.precision), printable(record.search)
            rows.append([date, split, f"{record.lines:,}", step, weights, *cells.values(), *how])
        n_splits = len({record.split for record in self.records})
        below = _with_splits({line: [*splits] for line, splits in comparable.items()}, n_splits)
        if others:
            below += [
                "* not comparable with the other scores of the split: another signature, or another text",
                *others,
            ]
        return "\n".join([*aligned(rows, right={2, 3, *range(5, 5 + len(metrics))}), *map(printable, below)])

    def json(self) -> str:
        """Format the history as a JSON list of the records; each score has `comparable`, too."""
        objects = []
        for record in self.records:
            scores = [score.model_dump() | {"comparable": self.is_comparable(record, score)} for score in record.scores]
            objects.append(record.model_dump() | {"scores": scores})
        return json.dumps(objects, ensure_ascii=False, indent=1)


def record_scores(report: Report, translator: Translator, corpus: Corpus) -> ScoreRecord:
    """Append the scores of a split to scores.jsonl of the run that translated it; for an ensemble, of the first run.

    If the run cannot be written to, print that.
    """
    origin, subject = translator.origin, report.subject
    assert origin is not None and subject.split is not None, "a run translated a split"
    members = (origin, *translator.others) if translator.others else ()
    scores = [(printable(score.metric), printable(score.signature), score) for score in report.scores]
    record = ScoreRecord(
        date=datetime.now(UTC).isoformat("T", "seconds"),
        nmt=__version__,
        split=subject.split,
        lines=report.n_lines,
        step=None if members else origin.step,
        weights=None if members else origin.weights,
        averaged=[] if members else list(origin.averaged),
        ensemble=[EnsembleMember(run=printable(str(o.run)), step=o.step, weights=o.weights) for o in members],
        search=str(subject.search),
        precision=str(subject.precision),
        scores=[
            RecordedScore(metric=name, value=score.value, signature=text, higher_is_better=score.higher_is_better)
            for name, text, score in scores
        ],
        notes=list(report.notes),
        data=printable(str(corpus.directory.path.resolve())),
        corpus=corpus.fingerprint,
        text=text_fingerprint(corpus, subject.split),
    )
    add_scores(RunDir(origin.run), record)
    return record


def text_fingerprint(corpus: Corpus, split: str) -> str:
    """Return sixteen hexadecimal digits that change if the text of a split changes."""
    names = [corpus.directory.text(split, language).name for language in corpus.languages]
    return hashlib.sha256("".join(corpus.manifest.files[name].sha256 for name in names).encode()).hexdigest()[:16]
