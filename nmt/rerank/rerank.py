"""`nmt rerank`: choose translations, or tune the weights by which they are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt import __version__
from nmt.config import SearchConfig
from nmt.console import Progress, aligned, n_lines, printable, say
from nmt.errors import DataError
from nmt.evaluate.metrics import MetricName
from nmt.evaluate.report import metric_name
from nmt.evaluate.run import describe_search
from nmt.files.write import open_output
from nmt.rerank.candidates import NBest, read_n_best, translated
from nmt.rerank.runs import Runs
from nmt.rerank.table import make_table, rerank
from nmt.rerank.tune import SEED, tune
from nmt.rerank.weights import FORMAT, WeightsFile
from nmt.runs.model import Origin
from nmt.runs.scores import EnsembleMember
from nmt.text.lines import bounded_list, read_lines
from nmt.translate.score import read_pairs
from nmt.translate.translator import Translator


@dataclass(frozen=True)
class Request:
    """A text to rerank, and where its candidates come from."""

    runs: Runs
    search: SearchConfig
    source: Path
    n_best: int | None
    """Candidates of a line; None if they are read from `n_best_file`."""
    n_best_file: Path | None = None

    def lists(self, lines: Iterable[str]) -> Iterator[NBest]:
        """Yield the candidates of each line of the text. Raises ConfigError or DataError."""
        if self.n_best_file is not None:
            yield from read_n_best(self.n_best_file, lines, self.source)
        elif self.n_best is not None:
            with Progress("translating", n_lines(self.source)) as progress:
                yield from translated(self.runs.direct, lines, self.search, self.n_best, progress)


def rerank_file(request: Request, weights: Sequence[float], output: Path | str) -> None:
    """Write the chosen translation of each line; blank lines stay blank. Raises ConfigError or DataError."""
    if not request.source.exists():
        raise DataError(f"{request.source}: no such file")
    features = request.runs.features(request.search)
    n_written = n_changed = 0
    with open_output(output) as out:
        for text, number in rerank(request.lists(read_lines(request.source)), features, weights):
            out.write(f"{text}\n".encode())
            n_written += 1
            n_changed += number > 0
    say(f"lines {n_written:,}, of which {n_changed:,} have another translation than the first candidate")


def tune_weights(request: Request, reference: Path, metric: MetricName) -> WeightsFile:
    """Tune the weights of the features on a text with references. Raises ConfigError or DataError."""
    pairs = bounded_list(read_pairs(request.source, reference), str(request.source))
    if not pairs:
        raise DataError(f"{request.source}: is empty, there is nothing to tune on")
    runs, features = request.runs, request.runs.features(request.search)
    lists = list(request.lists(line for line, _ in pairs))
    table = make_table(lists, features)
    tuned = tune(table, features, [ref for _, ref in pairs], metric, runs.direct.config.data.tgt)
    return WeightsFile(
        format=FORMAT,
        nmt=__version__,
        weights=dict(zip([feature.name for feature in features], tuned.weights, strict=True)),
        metric=metric,
        signature=tuned.metric.signature,
        direct=tuned.direct,
        reranked=tuned.reranked,
        oracle=tuned.oracle,
        src=printable(str(request.source)),
        ref=printable(str(reference)),
        lines=len(lists),
        candidates=sum(len(candidates) for _, candidates in lists),
        n_best=request.n_best,
        search=describe_search(request.search),
        tried=tuned.n_tried,
        seed=SEED,
        run=_members(runs.direct),
        reverse=_members(runs.reverse),
        rescore={name: _members(translator) for name, translator in runs.others.items()},
        lm={name: _member(model.origin) for name, model in runs.language_models.items()},
    )


def _members(translator: Translator) -> list[EnsembleMember]:
    origins = [origin for origin in (translator.origin, *translator.others) if origin is not None]
    return list(map(_member, origins))


def _member(origin: Origin) -> EnsembleMember:
    return EnsembleMember(run=printable(str(origin.run)), step=origin.step, weights=origin.weights)


def screen(tuned: WeightsFile) -> list[str]:
    """Return what tuning has found as lines to print."""
    rows = [
        ("direct", f"{tuned.direct:.2f}", "by the score of search alone"),
        ("reranked", f"{tuned.reranked:.2f}", f"{tuned.reranked - tuned.direct:+.2f}"),
        ("oracle", f"{tuned.oracle:.2f}", "the candidate of each line that has the highest chrF"),
    ]
    per_line = tuned.candidates / tuned.lines
    return [
        f"{metric_name(tuned.metric)} of {tuned.ref}, {tuned.lines:,} lines, {per_line:.1f} candidates per line",
        *aligned(rows, right=(1,)),
        "weights: " + ", ".join(f"{name} {weight:g}" for name, weight in tuned.weights.items()),
        tuned.signature,
    ]
