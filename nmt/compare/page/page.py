"""The page of a comparison: one HTML file, readable without its script and better with it."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from nmt.compare.page.breakdown import by_lengths, by_training_text, line_by_line, n_grams
from nmt.compare.page.lines import lines
from nmt.compare.page.scores import scores, summary, systems, training
from nmt.compare.page.settings import read_trainings
from nmt.compare.page.training_text import TrainingText, read_training_text
from nmt.compare.page.view import View, make_view
from nmt.compare.types import Comparison
from nmt.errors import NmtError
from nmt.html.document import asset, document
from nmt.layout import DataDir, RunDir
from nmt.runs.info import read_info


def page(comparison: Comparison) -> str:
    """Return the page. What it reads beside the comparison (settings, logs and training text of the runs) may be
    missing; the page says so."""
    view = make_view(comparison)
    trainings = read_trainings(comparison)
    texts = _training_texts(view, trainings.problems)
    seen = {number for text in texts.values() for side in text.seen for number in side}
    names = [view.names[number] for number in view.others]
    title = f"{', '.join(names)} against {view.names[view.baseline]}"
    package = "nmt.compare.page"
    body = [
        *summary(view),
        *scores(view),
        *systems(view),
        *training(view, trainings),
        *line_by_line(view),
        *by_lengths(view),
        *by_training_text(view, texts),
        *n_grams(view),
        *lines(view, seen),
    ]
    return document(title, asset(package, "page.css"), body, asset(package, "page.js"))


def _training_texts(view: View, problems: list[str]) -> dict[str, TrainingText]:
    """Read the training texts of the systems that are shown, each once; by the names of those trained on it."""
    comparison = view.comparison
    languages, sources = comparison.text.languages, comparison.text.sources
    if languages is None or sources is None:
        return {}
    names_of: dict[DataDir, list[str]] = {}
    for number in [view.baseline, *view.others]:
        if (run := view.systems[number].run) is not None:
            try:
                names_of.setdefault(DataDir(Path(read_info(RunDir(run)).data_dir)), []).append(view.names[number])
            except NmtError:
                continue  # read_trainings says so
    sides, words = (sources, view.unescaped_references), {*chain.from_iterable(view.reference_words)}
    texts = {}
    for directory, names in names_of.items():
        try:
            texts[", ".join(names)] = read_training_text(directory, languages, sides, words)
        except NmtError as error:
            problems.append(f"{', '.join(names)}: the training text cannot be read: {error}")
    return texts
