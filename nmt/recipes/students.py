"""Comparison of a student with its teacher: scores, size and speed."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt.config import SearchConfig
from nmt.console import aligned, say
from nmt.data.corpus import Corpus
from nmt.errors import CheckpointError, ConfigError
from nmt.evaluate.metrics import corpus_score
from nmt.layout import DataDir
from nmt.runs.model import ModelRef, open_saved
from nmt.share.export import engine_for
from nmt.translate.translator import Translator

TIMED = 300
"""Number of lines whose translation is timed, three times after a first time."""


def compared(teacher: ModelRef, student: Path, data: DataDir, search: SearchConfig) -> Iterator[str]:
    """Yield the lines of a table that compares a student with its teacher on a test set of the student's data.

    Without a test set, it is the development set, whose references are translations by the teacher. Both are also
    measured as CTranslate2 models in int8, if that package is installed. search: the settings of the teacher.
    """
    corpus = Corpus.open(data)
    tests = corpus.tests
    split, signatures = corpus.split(tests[0] if tests else "valid"), set[str]()
    rows = [["", "BLEU", "chrF", "million parameters", "MB", "sentences/s"]]
    for name, model in (("teacher", teacher), ("student", ModelRef((student,)))):
        paths, languages = model.paths, (model.to, model.source)
        n_parameters = sum(tensor.numel() for path in paths for tensor in open_saved(path).weights.tensors.values())
        systems = {name: (Translator.load(paths).towards(*languages), 4 * n_parameters)}
        try:
            engine = engine_for(paths, int8=True).towards(*languages)
            engine.check(search if name == "teacher" else engine.config.search, 1)
            assert engine.origin is not None, "loaded from a directory"
            systems[f"{name}, int8"] = engine, (engine.origin.run / "model.bin").stat().st_size
        except (CheckpointError, ConfigError) as error:  # such as a model that differs too much, as on some old CPUs
            say(f"{name}: without int8: {error}")
        for label, (translator, n_bytes) in systems.items():
            settings = search if name == "teacher" else translator.config.search
            data_config = translator.config.data
            lines, references = split.text(data_config.src), split.text(data_config.tgt)
            texts = [best.text for best, *_ in translator.translate_lines(lines, settings)]
            scores = [corpus_score(metric, texts, references, data_config.tgt) for metric in ("bleu", "chrf")]
            signatures |= {score.signature for score in scores}
            speed = _speed(translator, lines[:TIMED], settings)
            cells = [f"{score.value:.2f}" for score in scores]
            rows.append([label, *cells, f"{n_parameters / 1e6:.1f}", f"{n_bytes / 1e6:.1f}", f"{speed:.1f}"])
    where = f"test set, {split.n:,} lines" if tests else f"{split.n:,} held-out lines, as the teacher translates them"
    yield f"on the {where}; {', '.join(sorted(signatures))}"
    yield from aligned(rows, range(1, 6))


def _speed(translator: Translator, lines: Sequence[str], search: SearchConfig) -> float:
    """Return the number of lines translated per second, the median of three times."""
    seconds = timeit.repeat(lambda: [*translator.translate_lines(lines, search)], number=1, repeat=3)
    return len(lines) / statistics.median(seconds)
