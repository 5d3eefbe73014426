"""Reports of scores, with signatures and notes for fair comparison, and the history of a run's scores."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from nmt.console import amount, printable, say
from nmt.errors import DataError
from nmt.evaluate.metrics import (
    METRIC_FACTS,
    METRICS,
    MetricName,
    References,
    Score,
    Texts,
    blank_references_note,
    corpus_score,
    few_four_grams,
    looks_tokenized,
    metric_name,
    no_match_note,
    reference_lines,
    unspaced_notes,
    use_of,
)
from nmt.evaluate.notes import line_notes, style_notes
from nmt.evaluate.samples import sample_lines
from nmt.languages.codes import KANA, script_of_text, scripts_of
from nmt.runs.info import EnsembleMember, RecordedScore, ScoreRecord
from nmt.tables import NOTE, Table
from nmt.text.lines import bounded_list, read_lines


def metric_value(metric: str, value: float) -> str:
    """Format a score. Metrics other than BLEU, chrF, TER and percentages get more digits: they are often between 0 and
    1."""
    return f"{value:.{2 if metric in METRIC_FACTS or '%' in metric else 4}f}"


@dataclass(frozen=True)
class Subject:
    """The subject of a report: a split translated by a run or an ensemble, or a file and its references."""

    run: str | None = None
    split: str | None = None
    direction: str | None = None
    """The direction, of a run with several."""
    step: int | None = None
    """The step of the checkpoint."""
    weights: str | None = None
    """The kind of weights: raw, ema or average."""
    ensemble: tuple[EnsembleMember, ...] | None = None
    """The members of an ensemble, which replace run, step and weights."""
    search: str | None = None
    precision: str | None = None
    """Number format of the matrix products."""
    hyp: str | None = None
    ref: str | None = None
    refs: tuple[str, ...] | None = None
    """Several files of references, which replace ref."""


@dataclass(frozen=True)
class EvaluationReport:
    """The scores of one text, and what was scored."""

    scores: tuple[Score, ...]
    n_lines: int
    subject: Subject
    notes: tuple[str, ...]
    """Reasons why the scores are not comparable with others."""
    use: str = ""
    """How such scores are usually interpreted; empty without BLEU."""

    def as_text(self) -> str:
        """Return the report as text: a line per score, followed by the subject and notes."""
        lines = []
        width = max(len(metric_name(score.metric)) for score in self.scores)
        for score in self.scores:
            value = metric_value(score.metric, score.value)
            lines.append(f"{metric_name(score.metric):<{width}} {value:>6}  {score.signature}{_direction(score)}")
        lines += filter(None, [self.use])
        lines.append(facts({"lines": self.n_lines, **vars(self.subject)}))
        lines += [f"{NOTE}{note}" for note in self.notes]
        return "\n".join(map(printable, lines))

    def as_table(self) -> Table:
        """Return a row with the scores, and as text the whole report."""
        return score_table([self], self.as_text())

    def as_json(self) -> dict[str, object]:
        """Return the report as values that JSON can represent; missing values are None."""
        return {"scores": self.scores, "lines": self.n_lines, **vars(self.subject), "notes": self.notes}


@dataclass(frozen=True)
class Evaluation:
    """A report, and the lines that were scored."""

    report: EvaluationReport
    sources: Texts
    references: References
    translations: Texts

    def samples(self, n: int) -> Iterator[str]:
        """Yield `n` sentences as lines to print; see `sample_lines`."""
        return sample_lines(self.sources, self.references, self.translations, n)


def evaluate(
    hyps: Texts,
    refs: References,
    subject: Subject,
    tgt_lang: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
    metrics: Sequence[MetricName] = METRICS,
) -> EvaluationReport:
    """Score detokenised hypotheses against references, line by line; a line may have several references.

    `tgt_lang`, `lowercase` and `tokenize` are the arguments of `corpus_score`; `tokenize` affects BLEU only.

    Raises DataError if the numbers of lines differ or are 0, or if the tokenizer is unknown.
    """
    scores = tuple(corpus_score(metric, hyps, refs, tgt_lang, lowercase, tokenize) for metric in metrics)
    notes = []
    if lowercase:
        notes.append("lowercased: not comparable with cased scores")
    use = ""
    by_metric = {score.metric: score for score in scores}
    if bleu := by_metric.get("bleu"):
        if tokenize is not None:
            notes.append(f"BLEU with tokenize={tokenize}: not comparable with BLEU of another tokenization")
        chrf = by_metric.get("chrf") or corpus_score("chrf", hyps, refs, lowercase=lowercase)
        values = {"bleu": bleu.value, "chrf": chrf.value}
        notes += filter(None, [no_match_note(values)])
        notes += unspaced_notes(refs, tgt_lang, tokenize)
        if tokenize != "none" and all(map(looks_tokenized, (hyps, reference_lines(refs)))):
            notes.append("the text looks tokenised: BLEU tokenizes it again; --tokenize none scores it as it is")
        use = few_four_grams(refs, tgt_lang, tokenize) or use_of(values, len(hyps), bleu.signature)
    notes += filter(None, [blank_references_note(refs, [hyps])])
    notes += line_notes(hyps, refs, tgt_lang, are_files=subject.hyp is not None)
    notes += style_notes(hyps, refs, lowercase).values()
    return EvaluationReport(scores, len(hyps), subject, tuple(notes), use)


def evaluate_files(
    hyp: Path,
    refs: Sequence[Path],
    src: Path | None = None,
    to: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
    metrics: Sequence[MetricName] = METRICS,
) -> Evaluation:
    """Score a file of hypotheses against one or several files of references. COMET also needs a file of sources.

    `to` is the language, by default as in `language_of_files`.

    Raises DataError as `evaluate` and `read_references` do.
    """
    references, [hyps, *rest] = read_references(refs, [hyp, *filter(None, [src])])
    names = tuple(map(str, refs))
    subject = Subject(hyp=str(hyp), refs=names)
    if len(names) == 1:
        subject = Subject(hyp=str(hyp), ref=names[0])
    tgt_lang = to or language_of_files([hyp, *refs], references)
    report = evaluate(hyps, references, subject, tgt_lang, lowercase, tokenize, metrics)
    return Evaluation(report, rest[0] if rest else [], references, hyps)


def language_of_files(paths: Sequence[Path], references: References) -> str | None:
    """Return a code of the language by whose rules text is divided into words for scores; None if it has no letters.

    It follows from the script of the text: und_Thai for Thai. Text in Chinese characters is Japanese if it has kana;
    otherwise, it is Chinese, unless a file name has the code of another language (`ref.ja.txt`, `test.jpn_Jpan`).
    """
    # a Latin word counts as one letter, as Chinese characters do
    text = re.sub("[A-Za-z]+", "a", "\n".join(reference_lines(references)))
    script = script_of_text([text], 0.5)
    if script != "Hani":
        return script and f"und_{script}"
    if len(re.findall(f"[{KANA}]", text)) > 0.03 * len(text):
        return "ja"
    names = re.findall(r"[^\W_]+", " ".join(path.name for path in paths))
    return next((name for name in reversed(names) if "Hani" in scripts_of(name)), "zh")


def read_references(refs: Sequence[Path], others: Sequence[Path]) -> tuple[References, list[list[str]]]:
    """Read files of references, and the lines of other files.

    If tabs divide all lines of a file of references into the same number of columns, and no line of the other files has
    tabs, each column that is not blank is a reference, and a message says so. Raises DataError as `read_texts` does.
    """
    texts = read_texts([*refs, *others])
    rest = texts[len(refs) :]
    columns = []
    for path, lines in zip(refs, texts[: len(refs)], strict=True):
        rows = [line.split("\t") for line in lines]
        columns.append(lines)
        if len(rows[0]) > 1 and len({*map(len, rows)}) == 1 and "\t" not in "".join(chain.from_iterable(rest)):
            divided = [[*column] for column in zip(*rows, strict=True) if any(map(str.strip, column))]
            columns[-1:] = divided or [lines]
            say(f"{path}: each line has {len(divided)} references, divided by tabs")
    return [*zip(*columns, strict=True)], rest


def read_texts(paths: Sequence[Path]) -> list[list[str]]:
    """Read the lines of each file.

    Raises DataError if a file is missing or not UTF-8 text, if the numbers of lines differ, or if they are 0.
    """
    texts = [bounded_list(read_lines(path), str(path)) for path in paths]
    counts = {path: len(lines) for path, lines in zip(paths, texts, strict=True)}
    if len({*counts.values()}) > 1:
        sizes = ", ".join(f"{path} has {amount(n, 'line')}" for path, n in counts.items())
        raise DataError(f"{sizes}: they must have the same number of lines")
    if not texts[0]:
        raise DataError(f"{' and '.join(map(str, paths))} are empty: there is nothing to score")
    return texts


def facts(values: Mapping[str, object]) -> str:
    """Format named values as `name value, name value`, without missing values."""
    named = []
    for name, value in values.items():
        if isinstance(value, tuple):
            value = " + ".join(map(str, value))
        if value is not None:
            named.append(f"{name} {value}")
    return ", ".join(named)


def score_table(reports: Sequence[EvaluationReport], text: str) -> Table:
    """Return a table with a row for each report. `text` is what is shown as text."""
    metrics = metrics_of(reports)
    subjects = [vars(report.subject) for report in reports]
    common = dict(subjects[0])
    rows = []
    records = []
    notes = list[str]()
    for subject in subjects:
        common = {name: value for name, value in common.items() if subject[name] == value}
    for report, subject in zip(reports, subjects, strict=True):
        different = {name: value for name, value in subject.items() if name not in common}
        label = facts(different) or str(subject["run"] or subject["hyp"] or "ensemble")
        rows.append([label, f"{report.n_lines:,}", *values(report.scores, metrics)])
        notes += map(signature, report.scores)
        about = {**subject, "lines": report.n_lines}
        records += [{**about, **vars(score), "notes": report.notes} for score in report.scores]
    for report in reports:
        notes += [f"{NOTE}{note}" for note in report.notes]
    header = ["", "lines", *map(metric_name, metrics)]
    return Table(header, rows, range(1, len(header)), facts(common), list(dict.fromkeys(notes)), records, text)


@dataclass(frozen=True)
class Reports:
    """The reports of several texts."""

    reports: Sequence[EvaluationReport]
    text: str
    """The reports as text."""
    means: Sequence[str] = ()
    """Lines with means over directions; see `macro_averages`."""

    def as_table(self) -> Table:
        """Return a table with a row for each report, and the means below it."""
        table = score_table(self.reports, self.text)
        return replace(table, notes=[*table.notes, *self.means])

    def as_json(self) -> list[dict[str, object]]:
        """Return the reports as values that JSON can represent."""
        return [report.as_json() for report in self.reports]


# --- The history of a run ---


def metrics_of(records: Iterable[ScoreRecord | EvaluationReport]) -> list[str]:
    """Return the distinct metrics of records or reports, in the order in which they appear."""
    return list(dict.fromkeys(score.metric for record in records for score in record.scores))


def values(scores: Sequence[RecordedScore | Score], metrics: Sequence[str]) -> list[str]:
    """Return the cells of a table row: the score by each metric, or - if there is none."""
    by_metric = {score.metric: metric_value(score.metric, score.value) for score in scores}
    return [by_metric.get(metric, "-") for metric in metrics]


def _direction(score: RecordedScore | Score) -> str:
    return "" if score.higher_is_better else "  (lower is better)"


def signature(score: RecordedScore | Score) -> str:
    """Format the signature of a score, with the name of its metric."""
    return f"{metric_name(score.metric)}: {score.signature}{_direction(score)}"


def macro_averages(records: Sequence[ScoreRecord]) -> list[str]:
    """Return for each split with several directions a line with the means of the scores over directions."""
    lines = []
    for split in dict.fromkeys(record.split for record in records if record.direction is not None):
        of_split = [record for record in records if record.split == split]
        means = []
        n = len(of_split)
        for metric in metrics_of(of_split):
            known = [score.value for record in of_split if (score := record.score(metric))]
            mean = f"{metric_name(metric)} {metric_value(metric, sum(known) / len(known))}"
            if len(known) < n:
                mean += f" (of {len(known)} directions)"
            means.append(mean)
        if n > 1:
            lines.append(printable(f"macro-average of {split} over {n} directions: {', '.join(means)}"))
    return lines


# Comparable scores of a split and metric have the signature and the text of the newest one, or of the newest one
# without notes if there is one.


def _marked_scores(records: Sequence[ScoreRecord]) -> list[list[dict[str, object]]]:
    """Return for each record its scores with the key `comparable`."""
    standard = {}
    for record in sorted(records, key=lambda record: not record.notes):  # the last one wins
        for score in record.scores:
            standard[record.name, score.metric] = score.signature, record.text
    marked = []
    for record in records:
        scores = []
        for score in record.scores:
            is_comparable = standard[record.name, score.metric] == (score.signature, record.text)
            scores.append(score.model_dump() | {"comparable": is_comparable})
        marked.append(scores)
    return marked


@dataclass(frozen=True)
class History:
    """The recorded scores of a run, oldest first."""

    records: Sequence[ScoreRecord]

    def as_table(self) -> Table:
        """Return the recorded scores of a run, oldest first, as a table.

        Scores that are not comparable with the others of their split are marked with an asterisk.
        """
        metrics = metrics_of(self.records)
        names = [f"{metric_name(metric)} " for metric in metrics]  # with space for asterisks
        header = ["date (UTC)", "split", "lines", "step", "weights", *names, "precision", "search"]
        rows = []
        lines = []
        splits_of = defaultdict[str, dict[str, None]](dict)
        incomparable = dict[str, None]()
        for record, marked in zip(self.records, _marked_scores(self.records), strict=True):
            cells = dict.fromkeys(metrics, "- ")
            for score, values in zip(record.scores, marked, strict=True):
                cells[score.metric] = metric_value(score.metric, score.value)
                if values["comparable"]:
                    cells[score.metric] += " "
                    splits_of[signature(score)][record.name] = None
                else:
                    cells[score.metric] += "*"
                    incomparable[f"* {signature(score)}"] = None
                lines.append(record.model_dump(exclude={"scores"}) | values)
            for note in record.notes:
                splits_of[f"{NOTE}{note}"][record.name] = None
            date = record.date[:16].replace("T", " ")
            step = "-" if record.step is None else f"{record.step:,}"
            weights = record.weights or f"ensemble of {len(record.ensemble)}"
            about = date, record.name, f"{record.lines:,}", step, weights
            rows.append([*about, *cells.values(), record.precision, record.search])
        notes = []
        n_splits = len({record.name for record in self.records})
        for line, splits in splits_of.items():
            if len(splits) < n_splits:
                line += f" ({', '.join(splits)})"
            notes.append(line)
        if incomparable:
            notes.append("* not comparable with the other scores of the split: another signature, or another text")
        right = {2, 3, *range(5, 5 + len(metrics))}
        return Table(header, rows, right, notes=[*notes, *incomparable], records=lines)

    def as_json(self) -> list[dict[str, object]]:
        """Return the records as values that JSON can represent; their scores also have the key `comparable`."""
        marked = zip(self.records, _marked_scores(self.records), strict=True)
        return [record.model_dump() | {"scores": scores} for record, scores in marked]
