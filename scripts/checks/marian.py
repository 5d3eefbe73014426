"""Do models that Marian trains compute the same after `nmt import`?

    python -m scripts.checks.marian PYTHON CORPUS WORK

PYTHON is the interpreter of an environment of its own with pymarian (`pip install pymarian`; 600 MB). CORPUS is a
directory with train.de, train.en, val.de and val.en. Models of several shapes are trained on it in WORK, for a minute
each, unless they are there already. Each is imported, and compared with pymarian on lines of the development set:

- the log-probability of a pair, divided by the number of pieces;
- greedy translations;
- those of a beam of 6, with and without division by the length: Marian narrows its beam with every translation that
  ends, so that it may miss a more probable one, and translations that reach the limit of length end otherwise. They
  must be equal, or more probable than Marian's;
- greedy translations by the export to CTranslate2;
- the export to transformers must have the log-probabilities of the run, which `nmt export` checks, and its import must
  have the same weights.

Prints a table; the exit status is 1 if a figure is worse than its bound.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from nmt.cli.app import app
from nmt.errors import ConfigError
from nmt.runs.model import open_saved
from nmt.share.engine import load_ctranslate2
from nmt.share.export import ExportOptions, export
from nmt.translate.loading import Translator

N_TRAINED = 20_000
"""Number of pairs of which a model learns."""
N_LINES = 100
N_UPDATES = 250
MOST_DIFFERENCE = 1e-4
"""Largest difference of log-probabilities, in nats per piece."""
LEAST_GREEDY = 98
LEAST_BEAM = 96
"""Least numbers of equal translations; with a beam, more probable ones count, too."""
BEAM = 6
SEARCH = {"max_length_ratio": 2.0, "max_length_offset": 3, "split": "never"}
"""The limit of Marian with --max-length-factor 2, which counts no `</s>`, and lines that are not divided."""

TIED = {
    "all": ["--tied-embeddings-all"],
    "target": ["--tied-embeddings"],
    "source": ["--tied-embeddings-src"],
    "none": [],
}


@dataclass(frozen=True)
class Shape:
    """A kind of model."""

    tied: str
    has_bias: bool
    activation: str
    n_vocabularies: int

    @property
    def name(self) -> str:
        """A name for files and the table."""
        bias = "bias" if self.has_bias else "no bias"
        vocabularies = "one vocabulary" if self.n_vocabularies == 1 else "two vocabularies"
        return f"{self.tied} tied, {bias}, {self.activation}, {vocabularies}"

    @property
    def vocabularies(self) -> list[str]:
        """The file of the vocabulary of each language."""
        return ["vocab.spm"] * 2 if self.n_vocabularies == 1 else ["vocab.de.spm", "vocab.en.spm"]


SHAPES = [
    Shape("all", True, "relu", 1),
    Shape("all", False, "swish", 1),
    Shape("target", True, "swish", 1),
    Shape("target", False, "relu", 1),
    Shape("source", True, "relu", 1),
    Shape("source", False, "swish", 1),
    Shape("none", True, "swish", 1),
    Shape("none", False, "relu", 1),
    Shape("target", True, "relu", 2),
    Shape("target", False, "swish", 2),
    Shape("none", True, "swish", 2),
    Shape("none", False, "gelu", 2),
]


@dataclass(frozen=True)
class Marian:
    """The commands of pymarian."""

    python: str

    def __call__(self, folder: Path, command: str, *options: object) -> list[str]:
        """Run a command in a folder on one thread, and return the lines that it prints."""
        words = [self.python, "-m", "pymarian", command, *map(str, options), "--cpu-threads", "1", "--quiet"]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
        done = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True)
        return done.stdout.decode().split("\n")[:-1]

    def train(self, shape: Shape, corpus: Path, folder: Path) -> None:
        """Train a model, unless it is there already; its folder gets its name when it is complete."""
        if folder.exists():
            return
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for language in ("de", "en"):
            write_lines(part / f"train.{language}", first_lines(corpus / f"train.{language}", N_TRAINED))
        options = [*TIED[shape.tied], "--transformer-ffn-activation", shape.activation]
        if not shape.has_bias:
            options.append("--output-omit-bias")
        self(
            part, "train", "--type", "transformer", "-m", "model.npz", "-t", "train.de", "train.en",
            "-v", *shape.vocabularies, "--dim-vocabs", 2000, 2000, "--dim-emb", 64, "--transformer-dim-ffn", 128,
            "--transformer-heads", 4, "--enc-depth", 2, "--dec-depth", 2, "--after-batches", N_UPDATES,
            "--mini-batch", 64, "--learn-rate", 0.003, "--lr-warmup", 50, "-w", 1000, "--seed", 1, *options,
        )  # fmt: skip
        part.rename(folder)

    def scores(self, model: Path, shape: Shape, src: Path, tgt: Path) -> list[float]:
        """Return the log-probability of each pair (nats)."""
        names = ["-m", "model.npz", "-v", *shape.vocabularies]
        return [*map(float, self(model, "score", *names, "-t", src, tgt))]

    def translations(self, model: Path, shape: Shape, src: Path, beam: int, normalize: float) -> list[str]:
        """Translate lines."""
        names = ["-m", "model.npz", "-v", *shape.vocabularies, "-i", src]
        return self(model, "decode", *names, "-b", beam, "--normalize", normalize, "--max-length-factor", 2)


class Check:
    """The comparison of all models."""

    def __init__(self, marian: Marian, corpus: Path, work: Path) -> None:
        self._marian = marian
        self._corpus = corpus
        self._work = work.resolve()
        self._src, self._tgt = (self._work / f"lines.{language}" for language in ("de", "en"))
        self._pairs = [*zip(*(first_lines(corpus / f"val.{name}", N_LINES) for name in ("de", "en")), strict=True)]
        for path, lines in zip((self._src, self._tgt), zip(*self._pairs, strict=True), strict=True):
            write_lines(path, lines)
        self.problems = list[str]()

    def row(self, shape: Shape) -> str:
        """Train and compare a model; return a row of the table."""
        model = self._work / shape.name.replace(", ", "-").replace(" ", "-")
        self._marian.train(shape, self._corpus, model)
        run = self._work / "run"
        shutil.rmtree(run, ignore_errors=True)
        app(["import", str(model), "--direction", "de-en", "--run", str(run)], standalone_mode=False)
        translator = Translator.load(run, precision="float32")
        theirs = self._marian.scores(model, shape, self._src, self._tgt)
        differences = [
            abs(scored.log_prob - log_prob) / len(scored.pieces)
            for scored, log_prob in zip(translator.score(self._pairs), theirs, strict=True)
        ]
        self._expect(max(differences) <= MOST_DIFFERENCE, f"{shape.name}: log-probabilities differ")
        greedy = self._marian.translations(model, shape, self._src, 1, 0)
        columns = [f"{max(differences):.1e}", self._greedy(shape, translator, greedy)]
        columns += [self._beam(shape, model, translator, normalize) for normalize in (0, 1)]
        exported = self._work / "ctranslate2"
        shutil.rmtree(exported, ignore_errors=True)
        export(ExportOptions(run), exported, "ctranslate2")
        columns.append(self._greedy(shape, load_ctranslate2(exported), greedy))
        columns.append(self._transformers(shape, run))
        return f"| {' | '.join([shape.name, *columns])} |"

    def _translations(self, translator: Translator, beam: int, normalize: float) -> list[str]:
        settings = translator.search_settings({**SEARCH, "beam": beam, "length_penalty": normalize})
        return [best.text for best, *_ in translator.translate_lines([src for src, _ in self._pairs], settings)]

    def _greedy(self, shape: Shape, translator: Translator, theirs: Sequence[str]) -> str:
        """Translate greedily, and return the number of translations that equal Marian's."""
        ours = self._translations(translator, 1, 0)
        n = sum(our == their for our, their in zip(ours, theirs, strict=True))
        self._expect(n >= LEAST_GREEDY, f"{shape.name}: {n} greedy translations are equal")
        return str(n)

    def _beam(self, shape: Shape, model: Path, translator: Translator, normalize: float) -> str:
        """Translate with a beam, and return how many translations equal Marian's, and how many others are more
        probable."""
        ours = self._translations(translator, BEAM, normalize)
        theirs = self._marian.translations(model, shape, self._src, BEAM, normalize)
        settings = translator.search_settings({"length_penalty": normalize})
        scores = []
        for translations in (ours, theirs):
            pairs = [(src, translation) for (src, _), translation in zip(self._pairs, translations, strict=True)]
            scores.append([scored.score for scored in translator.score(pairs, settings)])
        n_equal = n_better = 0
        for our, their, our_score, their_score in zip(ours, theirs, *scores, strict=True):
            n_equal += our == their
            n_better += our != their and our_score > their_score
        self._expect(n_equal + n_better >= LEAST_BEAM, f"{shape.name}: {n_equal} + {n_better} with a beam")
        return f"{n_equal} + {n_better}"

    def _transformers(self, shape: Shape, run: Path) -> str:
        """Export for transformers, which compares the log-probabilities, and import the export again."""
        exported, again = self._work / "transformers", self._work / "again"
        for path in (exported, again):
            shutil.rmtree(path, ignore_errors=True)
        try:
            export(ExportOptions(run), exported, "transformers")
        except ConfigError as error:
            return f"refused: {error}"
        app(["import", str(exported), "--run", str(again)], standalone_mode=False)
        before, after = (open_saved(path).weights.tensors for path in (run, again))
        is_equal = before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
        self._expect(is_equal, f"{shape.name}: imported from transformers, the weights differ")
        return "equal" if is_equal else "other weights"

    def _expect(self, is_so: bool, problem: str) -> None:
        if not is_so:
            self.problems.append(problem)


def first_lines(path: Path, n: int) -> list[str]:
    """Return the first lines of a file."""
    with path.open(encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in islice(file, n)]


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write lines to a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Print the table; exit with status 1 if anything is worse than its bound."""
    python, corpus, work = arguments
    Path(work).mkdir(parents=True, exist_ok=True)
    check = Check(Marian(python), Path(corpus).resolve(), Path(work))
    rows = [check.row(shape) for shape in SHAPES]
    bounds = f"≤ {MOST_DIFFERENCE:.0e} | ≥ {LEAST_GREEDY} | ≥ {LEAST_BEAM} | ≥ {LEAST_BEAM} | ≥ {LEAST_GREEDY} | equal"
    print(f"\n| model, {N_LINES} lines | log-probability | greedy | beam {BEAM} | beam {BEAM}, normalize 1", end=" ")
    print("| CTranslate2 | transformers and back |")
    print("|---|---|---|---|---|---|---|")
    print(*rows, f"| bound | {bounds} |", sep="\n")
    if check.problems:
        sys.exit("\n".join(check.problems))


if __name__ == "__main__":
    main(sys.argv[1:])
