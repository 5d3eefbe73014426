"""Evaluation of runs: translate a split of a corpus or a file, score it, and record the scores in the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from nmt import __version__
from nmt.config import Config
from nmt.console import Progress, printable, say
from nmt.data.corpus import Corpus
from nmt.errors import DataError, UnsafeFileError
from nmt.evaluate.metrics import (
    METRICS,
    MetricName,
    References,
    Score,
    Texts,
    as_tuple,
    check_tokenizer,
    reference_lines,
)
from nmt.evaluate.report import Evaluation, EvaluationReport, Subject, evaluate, read_references
from nmt.files.read import fingerprint_of, read_text
from nmt.files.write import replace_file
from nmt.layout import RunDir
from nmt.model.weights import weights_fingerprint
from nmt.runs.data import OtherPairError, open_corpus
from nmt.runs.info import EnsembleMember, RecordedScore, ScoreRecord, add_scores
from nmt.runs.model import Origin, open_saved
from nmt.search.settings import SearchConfig
from nmt.text.language import share_of_others
from nmt.translate.configured import source_lines
from nmt.translate.files import Warnings
from nmt.translate.loading import Translator
from nmt.translate.types import Line
from nmt.version import digest

NO_PLACE: Mapping[str, str] = {}
STORED = 100
"""Number of files of translations of a text that a run keeps."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class EvaluationText:
    """A text to translate and its references: a split of a corpus, or files."""

    name: str
    """The name of the split, or of the files of references."""
    sources: Texts
    references: References
    languages: tuple[str, str]
    """The source and the target language."""
    numbers: Sequence[int]
    """The numbers of the lines, from 1."""
    corpus: Corpus | None = None
    """The corpus of the split; None for files."""

    @property
    def first_references(self) -> list[str]:
        """The reference of each line, the first one of several."""
        return [as_tuple(reference)[0] for reference in self.references]

    @property
    def place(self) -> dict[str, str]:
        """The text as facts of the subject of a report."""
        if self.corpus is None:
            return {"ref": self.name}
        return {"split": self.name}

    def lines(self, config: Config) -> list[Line]:
        """Return the sources with what a run reads beside them."""
        if self.corpus is None:
            return [Line(source) for source in self.sources]
        return source_lines(self.corpus, config.data, config.training.reads_similar, self.name)

    def sampled(self, n: int) -> EvaluationText:
        """Return a text of at most `n` lines, which are spread evenly over this text."""
        total = len(self.sources)
        rows = sorted({i * total // n for i in range(n)})
        return replace(
            self,
            sources=[self.sources[row] for row in rows],
            references=[self.references[row] for row in rows],
            numbers=[self.numbers[row] for row in rows],
        )


def read_split(corpus: Corpus, name: str, sides: tuple[str, str]) -> EvaluationText:
    """Read a split of a corpus, for a source and a target language. Raises DataError if there is no such split or it is
    damaged."""
    split = corpus.in_one_file(name)
    corpus.verify(split.name, ("text",))
    sources, references = map(split.text, sides)
    return EvaluationText(split.name, sources, references, sides, range(1, split.n + 1), corpus)


def read_files(src: Path, refs: Sequence[Path], sides: tuple[str, str]) -> EvaluationText:
    """Read a file of sources and one or several files of references. Raises DataError as `read_references` does."""
    references, [sources] = read_references(refs, [src])
    return EvaluationText(" ".join(map(str, refs)), sources, references, sides, range(1, len(sources) + 1))


def choose_text(
    translator: Translator, data_dir: Path | None, split: str | None, src: Path | None = None, ref: Path | None = None
) -> EvaluationText:
    """Read a file of sources and one of references, or else a split, by default the only test set of the run's data.

    Raises DataError as `corpus_of`, `choose_split`, `read_split` and `read_files` do.
    """
    if src is not None and ref is not None:
        return read_files(src, [ref], translator.config.data.sides)
    corpus = corpus_of(translator, data_dir)
    return read_split(corpus, choose_split(corpus, split), translator.config.data.sides)


def open_each(directions: Sequence[T], open_one: Callable[[T], R], error: type[DataError]) -> list[tuple[T, R]]:
    """Return each of several directions with what `open_one` returns for it. Those for which it raises `error` are left
    out, with a note, unless it does for all. Raises what `open_one` raises."""
    opened = list[tuple[T, R]]()
    problems = []
    for direction in directions:
        try:
            opened.append((direction, open_one(direction)))
        except error as problem:
            problems.append(problem)
    if problems and not opened:
        raise problems[0]
    if problems:
        say(f"left out {len(problems)} of {len(directions)} directions: {problems[0]}")
    return opened


def choose_split(corpus: Corpus, name: str | None) -> str:
    """Return `name`, by default the only test set of the corpus. Raises DataError if there are none or several."""
    tests = corpus.tests
    if name is not None or len(tests) == 1:
        return name or tests[0]
    problem = "no test set; --split valid uses the development set, on which the weights were chosen"
    if tests:
        problem = f"test sets {', '.join(tests)}; choose one with --split"
    raise DataError(f"{corpus.directory.path}: has {problem}")


def choose_splits(corpus: Corpus, names: Sequence[str]) -> list[str]:
    """Return the named splits without repetition. `all` stands for all test sets, which are also the default.

    Raises DataError if there is no test set, or no split of a given name.
    """
    tests = corpus.tests
    if not names:
        return tests or [choose_split(corpus, None)]  # raises that there is no test set
    chosen = []
    for name in names:
        if name == "all" and name not in tests:
            chosen += tests
        else:
            chosen.append(name)
    for name in chosen or names:
        corpus.in_one_file(name)
    return list(dict.fromkeys(chosen))


def texts_of(
    translators: Sequence[Translator], corpus_for: Callable[[Translator], Corpus], names: Sequence[str]
) -> dict[str, tuple[Translator, EvaluationText]]:
    """Return the chosen splits of each direction, by the name of the split, with the direction if there are several.

    translators: one for each direction; corpus_for: opens the corpus of one. Directions without such a split are left
    out, with a note, unless none has one. Raises DataError as `corpus_for`, `choose_splits` and `read_split` do.
    """
    opened = open_each(translators, corpus_for, OtherPairError)
    texts = {}
    for (translator, corpus), splits in open_each(opened, lambda pair: choose_splits(pair[1], names), DataError):
        for split in splits:
            label = split
            if len(translators) > 1:
                label += f" {translator.config.data.direction}"
            texts[label] = translator, read_split(corpus, split, translator.config.data.sides)
    return texts


def corpus_of(translator: Translator, data_dir: Path | None) -> Corpus:
    """Open the corpus at `data_dir`, by default the training data of the runs of a translator.

    Raises DataError as `open_corpus` does.
    """
    sides = translator.config.data.sides
    assert translator.origin is not None, "the translator was loaded from a run"
    corpus = open_corpus(RunDir(translator.origin.run), sides, data_dir)
    for other in translator.origins[1:]:
        open_corpus(RunDir(other.run), sides, corpus.directory.path)
    return corpus


def evaluate_text(
    translator: Translator,
    text: EvaluationText,
    search: SearchConfig,
    src: Path | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
    metrics: Sequence[MetricName] = METRICS,
) -> Evaluation:
    """Translate a text with a translator loaded from one or several runs, and score the translations.

    src: the file of sources, if the text is not a split. Raises DataError as `evaluate` does.
    """
    check_tokenizer(tokenize)
    data = translator.config.data
    place = text.place
    if src is None:
        search = search.with_tags(data.tags_of(text.name))
    else:
        place["split"] = str(src)
    subject = subject_of(translator, search, place)
    translations = translate_text(translator, text.lines(translator.config), place["split"], search)
    report = evaluate(translations, text.references, subject, data.tgt, lowercase, tokenize, metrics)
    if data.has_language_tags:
        report = replace(report, scores=(*report.scores, *_off_target(translator, translations, text.references)))
    return Evaluation(report, text.sources, text.references, translations)


def _off_target(translator: Translator, translations: Texts, references: References) -> Iterator[Score]:
    """Yield the percentages of translations and of references that are not in the target language; for references, too,
    it is above 0, since short lines are hard to identify. Yield nothing, with a message, if the language cannot be
    identified."""
    languages = translator.tokenizers.languages
    tgt = translator.config.data.tgt
    try:
        shares = {
            "off-target %": 100 * share_of_others(translations, tgt, languages),
            "off-target % of references": 100 * share_of_others(reference_lines(references), tgt, languages),
        }
    except (ImportError, DataError) as error:
        why = error if isinstance(error, DataError) else "it needs py3langid (pip install py3langid)"
        say(f"the share of translations in other languages is not measured: {why}")
        return
    about = f"languages:{','.join(languages)}|py3langid:{version('py3langid')}"
    yield from (Score(name, value, about, higher_is_better=False) for name, value in shares.items())


def subject_of(
    translator: Translator, search: SearchConfig | None = None, place: Mapping[str, str] = NO_PLACE
) -> Subject:
    """Return the subject of a report on a text translated with one or several runs.

    place: the split, or the file of references, or both files, as in `EvaluationText`.
    """
    members = tuple(
        EnsembleMember(run=str(origin.run), step=origin.step, weights=origin.weights) for origin in translator.origins
    )
    model = {"ensemble": members} if len(members) > 1 else vars(members[0])
    described = None if search is None else describe_search(search)
    if described is not None and translator.first is not None:
        described += f", via {translator.first.config.data.tgt}"
    direction = translator.config.data.direction if translator.config.data.has_language_tags else None
    return Subject(
        **model, split=place.get("split"), ref=place.get("ref"), direction=direction, search=described,
        precision=translator.precision,
    )  # fmt: skip


def translate_text(
    translator: Translator,
    lines: Sequence[Line],
    name: str,
    search: SearchConfig,
    numbers: Sequence[int] | None = None,
) -> list[str]:
    """Translate lines, or read their translations from the run if it has stored them, and print warnings at the end.

    Args:
        name: the name of the text in messages, to which the direction is added if there are several.
        numbers: the numbers of the lines in warnings, by default from 1.
    """
    data = translator.config.data
    numbers = numbers or range(1, len(lines) + 1)
    if data.has_language_tags:
        name += f" {data.direction}"
    models = translator.searcher.fingerprint, translator.config, translator.first and translator.first.config
    language_model = search.lm and weights_fingerprint(open_saved(Path(search.lm)).weights.tensors)
    key = repr((digest(), models, language_model, search, lines, [*numbers]))
    assert translator.origin is not None, "the translator was loaded from a run"
    run = RunDir(translator.origin.run)
    path = run.translations / f"{fingerprint_of(key.encode())}.json"
    try:
        translations, messages = json.loads(read_text(path))
        say(f"{name}: translated before with the same weights and settings, read from {path}")
    except (OSError, ValueError, TypeError, UnsafeFileError):  # missing or damaged
        translations = []
        warnings = Warnings()
        with Progress(f"translating {name}", len(lines)) as progress:
            translated = translator.translate_lines(lines, search, progress=progress)
            for number, line, n_best in zip(numbers, lines, translated, strict=True):
                warnings.add(number, line, n_best)
                translations.append(n_best[0].text)
        messages = warnings.finish()
        if run.info.is_file():  # not an exported folder
            _store(path, json.dumps([translations, messages]))
    for message in messages:
        say(f"{name}: {message}")
    return list(translations)


def _store(path: Path, content: str) -> None:
    """Write a file of translations unless the run is read-only, and keep only the newest `STORED` files."""
    with suppress(OSError, UnsafeFileError):
        path.parent.mkdir(exist_ok=True)
        replace_file(path, content, may_follow=False)
        for old in sorted(path.parent.iterdir(), key=lambda file: file.stat().st_mtime)[:-STORED]:
            old.unlink()


def describe_search(search: SearchConfig) -> str:
    """Describe a search by its beam, its length penalty, and settings that differ from the defaults."""
    exclude = {"beam", "length_penalty", "length_penalty_kind", "batch_tokens"}
    changed = search.model_dump(exclude_defaults=True, exclude=exclude)
    if search.tags:
        changed["tags"] = " ".join(search.tags)
    penalty = f"length penalty {search.length_penalty_kind} {search.length_penalty:g}"
    return ", ".join([f"beam {search.beam}", penalty, *(f"{name} {value}" for name, value in changed.items())])


def record_scores(report: EvaluationReport, origin: Origin | None, corpus: Corpus | None) -> ScoreRecord:
    """Append the scores of a split to scores.jsonl of the run `origin` or, for an ensemble, of its first run.

    If the run cannot be written to, a message is printed.
    """
    subject = report.subject
    assert origin is not None and corpus is not None and subject.split is not None, "a run has translated a split"
    names = [corpus.directory.text(subject.split, language).name for language in corpus.languages]
    checksums = "".join(corpus.manifest.files[name].sha256 for name in names)
    weights: dict[str, Any] = {}
    if not subject.ensemble:
        weights = {"step": origin.step, "weights": origin.weights, "averaged": list(origin.averaged)}
    members = [member.model_copy(update={"run": printable(member.run)}) for member in subject.ensemble or ()]
    scores = []
    for score in report.scores:
        names_of_score = {"metric": printable(score.metric), "signature": printable(score.signature)}
        scores.append(RecordedScore(**{**vars(score), **names_of_score}))
    record = ScoreRecord(
        date=datetime.now(UTC).isoformat("T", "seconds"),
        nmt=__version__,
        split=subject.split,
        direction=subject.direction,
        lines=report.n_lines,
        **weights,
        ensemble=members,
        search=str(subject.search),
        precision=str(subject.precision),
        scores=scores,
        notes=list(report.notes),
        data=printable(str(corpus.directory.path.resolve())),
        corpus=corpus.whole,
        text=fingerprint_of(checksums.encode()),
    )
    add_scores(RunDir(origin.run), record)
    return record


def score_tests(translator: Translator, run: Path, data: Path | None) -> list[ScoreRecord]:
    """Evaluate every test set of a data directory, by default the training data of a run, and record the scores.

    translator: the run, or an export of it. Raises DataError if there is no test set.
    """

    def corpus_for(directed: Translator) -> Corpus:
        return open_corpus(RunDir(run), directed.config.data.sides, data)

    records = []
    for directed, text in texts_of(translator.by_direction(), corpus_for, ()).values():
        report = evaluate_text(directed, text, directed.config.search).report
        records.append(record_scores(report, translator.origin, text.corpus))
    return records
