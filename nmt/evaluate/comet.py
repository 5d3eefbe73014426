"""Further metrics: COMET models, run by COMET's own command (Rei et al., 2020), and files of segment scores.

COMET needs other versions of libraries than `nmt`, so it is installed in a separate environment.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Annotated

from pydantic import Field, RootModel, ValidationError

from nmt.console import printable, say
from nmt.errors import ConfigError, DataError, error_text
from nmt.evaluate.metrics import METRICS, Reference, References, Score, Texts, as_tuple
from nmt.evaluate.report import Evaluation, EvaluationReport
from nmt.files.document import Document
from nmt.text.lines import bounded_list, read_lines
from nmt.text.words import beginning

MAX_SCORE = 1e6
"""Larger numbers are not accepted as scores."""


@dataclass(frozen=True)
class SegmentScores:
    """The scores of a system's lines by one metric; the system's score is their mean."""

    values: tuple[float, ...]
    signature: str
    """The signature of the metric. Scores with different signatures are not comparable."""
    higher_is_better: bool = True

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)


def read_segment_scores(path: Path) -> tuple[float, ...]:
    """Read a file with one number per line.

    Raises DataError if it is missing, is empty, or has a line that is not a single number.
    """
    scores = []
    for number, text in enumerate(bounded_list(read_lines(path), str(path)), start=1):
        try:
            scores.append(float(text))
        except ValueError:
            scores.append(math.nan)
        if not abs(scores[-1]) <= MAX_SCORE:  # false for nan, too
            raise DataError(f"{path}: line {number} is {beginning(text, 40)!r}, expected a score: one number per line")
    if not scores:
        raise DataError(f"{path}: the file is empty, expected one score per line")
    return tuple(scores)


COMMAND = "comet-score"
# setuptools 81 has no pkg_resources, which torchmetrics 0.10 imports
COMET_INSTALL = "python -m venv comet && comet/bin/pip install unbabel-comet 'setuptools<81'"

# LICENSE.models.md of COMET; CC-BY-NC-SA does not allow commercial use
_LICENSES = {
    "Apache-2.0": re.compile("Unbabel/(wmt20-comet-(qe-)?da|eamt22-cometinho-da|wmt22-comet-da|unite-mup)"),
    "CC-BY-NC-SA": re.compile("Unbabel/(wmt22-unite-da|wmt2[23]-cometkiwi-.*|unite-xx?l|XCOMET-.*)"),
}


class _Segment(Document):
    COMET: Annotated[float, Field(ge=-MAX_SCORE, le=MAX_SCORE)]


class _Output(RootModel[dict[str, list[_Segment]]]):
    """The output of `comet-score --to_json`: the segments of each file of translations."""


@dataclass(frozen=True)
class Comet:
    """A command that is `comet-score` or runs it."""

    command: tuple[str, ...]
    """The program, and arguments such as `--gpus 2`."""
    version: str | None
    """The version of COMET; None if it is unknown."""

    @property
    def name(self) -> str:
        return Path(self.command[0]).name


def find_comet(command: str) -> Comet:
    """Find the program of a command line such as `/opt/comet/bin/comet-score --gpus 2`.

    Raises DataError if there is no such program.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise DataError(f"--comet-command {command}: {error}") from None
    if not words:
        raise DataError(f"--comet-command is empty, expected a command such as {COMMAND}")
    program = shutil.which(Path(words[0]).expanduser())
    if program is None:
        raise DataError(
            f"{words[0]}: no such command; install COMET in a separate environment ({COMET_INSTALL}) and use "
            f"--comet-command comet/bin/{COMMAND}"
        )
    return Comet((program, *words[1:]), _version(Path(program)))


def _version(program: Path) -> str | None:
    """Return the version of COMET that a program belongs to; None if the program is not COMET's own script."""
    if program.name != COMMAND:
        return None
    # resolved, because pipx and `uv tool` put links to the script into a folder of commands
    environment = program.resolve().parent.parent
    installed = {path.name for path in environment.glob("lib/python*/*-packages/unbabel_comet-*.dist-info")}
    if len(installed) != 1:
        return None
    return installed.pop().removeprefix("unbabel_comet-").removesuffix(".dist-info")


def model_name(model: str) -> str:
    """Return the name of a model without its owner or folder; its scores have the same name."""
    return Path(model).name.removesuffix(".ckpt")


def signature(model: str, version: str | None) -> str:
    """Return the signature of a model's scores, with the licence of the model if it is known."""
    known = [f"license:{name}" for name, models in _LICENSES.items() if models.fullmatch(model)]
    return "|".join(["COMET", "nrefs:1", f"model:{model}", *known, f"version:{version or 'unknown'}"])


def score_segments(
    comet: Comet,
    model: str,
    sources: Texts,
    references: References,
    translations: Mapping[str, Texts],
) -> dict[str, SegmentScores]:
    """Score the translations of each system with a COMET model, which is loaded once for all systems.

    If there are several references, the first that is not blank is used. Models that need no references ignore them.

    Raises DataError if the command fails, or if its output is not one score per line.
    """
    systems = f" of {len(translations)} systems" if len(translations) > 1 else ""
    say(f"scoring {len(sources):,} lines{systems} with {model}")
    with tempfile.TemporaryDirectory(prefix="nmt-comet-") as folder:
        of_system = {name: Path(folder) / f"translations-{i}" for i, name in enumerate(translations)}
        source, reference, output = (Path(folder) / name for name in ("sources", "references", "scores.json"))
        _write(source, sources)
        _write(reference, map(_first, references))
        for name, path in of_system.items():
            _write(path, translations[name])
        files = ["-s", source, "-t", *of_system.values(), "-r", reference, "--to_json", output]
        _run(comet, [*map(str, files), "--quiet", "--model", model])
        segments = _read(output, comet)
        scores_of = {name: segments.get(str(path), []) for name, path in of_system.items()}
    for name, scores in scores_of.items():
        if len(scores) != len(sources):
            raise DataError(f"{comet.name}: {name}: found {len(scores)} scores for {len(sources)} lines")
    return {name: SegmentScores(tuple(scores), signature(model, comet.version)) for name, scores in scores_of.items()}


def _first(reference: Reference) -> str:
    return next((text for text in as_tuple(reference) if text.strip()), "")


def _write(path: Path, lines: Iterable[str]) -> None:
    # COMET also splits lines at carriage returns; its tokenizers read them as spaces
    path.write_text("".join(line.replace("\r", " ") + "\n" for line in lines), encoding="utf-8", newline="\n")


def _run(comet: Comet, arguments: Sequence[str]) -> None:
    """Run COMET's command until it ends, without showing its output.

    Raises DataError, which has the command's last message, if it cannot be started or fails.
    """
    with tempfile.TemporaryFile() as messages:
        try:
            child = subprocess.Popen(
                [*comet.command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=messages,
                start_new_session=True,  # so that the processes that it starts can be killed, too
            )
        except OSError as error:
            raise DataError(f"{comet.command[0]}: cannot be run: {error.strerror}") from None
        try:
            status = child.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        if status < 0:
            reason = "; perhaps memory ran out" if -status == signal.SIGKILL else ""
            raise DataError(f"{comet.name} was killed by {signal.Signals(-status).name}{reason}")
        if status:
            raise DataError(f"{comet.name} ended with status {status}: {error_text(_last_message(messages))}")


def _last_message(messages: IO[bytes]) -> str:
    """Return the last line, or the last state of a progress bar, that a process has written to a file."""
    messages.seek(0)
    lines = [line.strip() for line in re.split("[\r\n]", messages.read().decode(errors="replace")) if line.strip()]
    return printable(lines[-1]) if lines else "no message"


def _read(path: Path, comet: Comet) -> dict[str, list[float]]:
    """Read COMET's scores of each file of translations."""
    try:
        output = _Output.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        raise DataError(f"{comet.name} has not written the JSON of COMET 2: is it COMET's comet-score?") from None
    return {name: [segment.COMET for segment in segments] for name, segments in output.root.items()}


SYSTEM = "the translations"
"""The name of a single system in messages."""


@dataclass(frozen=True)
class NeuralMetrics:
    """The further metrics of an evaluation: models of COMET, and scores read from files."""

    models: tuple[str, ...]
    comet: Comet | None
    """The command of COMET; None if there is no model."""
    read: Mapping[str, Mapping[str, SegmentScores]]
    """Scores read from files, by metric and system."""

    def added_to(self, evaluation: Evaluation) -> EvaluationReport:
        """Return the report of an evaluation with these scores added. Raises DataError as `score` does."""
        by_metric = self.score(evaluation.sources, evaluation.references, {SYSTEM: evaluation.translations})[SYSTEM]
        scores = [Score(name, s.mean, s.signature, s.higher_is_better) for name, s in by_metric.items()]
        return replace(evaluation.report, scores=(*evaluation.report.scores, *scores))

    def score(
        self, sources: Texts, references: References, translations: Mapping[str, Texts]
    ) -> dict[str, dict[str, SegmentScores]]:
        """Return the line scores of each system by metric name.

        Raises DataError if the number of scores in a file differs from the number of lines, or if COMET fails.
        """
        for metric, of_system in self.read.items():
            for system, scores in of_system.items():
                if len(scores.values) != len(references):
                    raise DataError(
                        f"--segment-scores {metric}: found {len(scores.values)} scores for the {len(references)} lines "
                        f"of {system}"
                    )
        by_metric = dict(self.read)
        if self.comet is not None:
            for model in self.models:
                by_metric[model_name(model)] = score_segments(self.comet, model, sources, references, translations)
        by_system = dict[str, dict[str, SegmentScores]]()
        for system in translations:
            by_system[system] = {metric: scores[system] for metric, scores in by_metric.items()}
        return by_system


def find_metrics(
    systems: Sequence[str],
    models: Sequence[str] = (),
    command: str | None = None,
    files: Sequence[str] = (),
    lower_is_better: Sequence[str] = (),
) -> NeuralMetrics:
    """Find COMET's command and read the files of segment scores.

    Args:
        systems: names of the systems to score.
        models: names or paths of COMET models.
        command: the command that runs COMET; by default `comet-score`.
        files: NAME=FILE, or NAME@SYSTEM=FILE if there are several systems.
        lower_is_better: names of metrics with files for which lower scores are better.

    Raises ConfigError if options contradict each other, and DataError if the command or a file is missing, or if a file
    has anything but scores.
    """
    paths: dict[str, dict[str, Path]] = {}
    for text in files:
        metric, system, path = _split(text, systems)
        if paths.setdefault(metric, {}).setdefault(system, path) is not path:
            raise ConfigError(f"--segment-scores {metric}: two files for {system} were given")
    names = Counter([*METRICS, *map(model_name, models), *paths])
    if twice := [name for name, n in names.items() if n > 1]:
        raise ConfigError(f"two metrics are called {twice[0]}: give each its own name")
    if unknown := [name for name in lower_is_better if name not in paths]:
        raise ConfigError(f"--lower-is-better {unknown[0]}: there are no --segment-scores with this name")
    for metric, of_system in paths.items():
        if lacking := [system for system in systems if system not in of_system]:
            raise ConfigError(f"--segment-scores {metric}@{lacking[0]}=FILE is missing: all systems need scores")
    read = dict[str, dict[str, SegmentScores]]()
    for metric, of_system in paths.items():
        known = f"{metric}|scores read from a file", metric not in lower_is_better
        read[metric] = {system: SegmentScores(read_segment_scores(path), *known) for system, path in of_system.items()}
    comet = find_comet(command or COMMAND) if models else None
    return NeuralMetrics(tuple(models), comet, read)


def _split(text: str, systems: Sequence[str]) -> tuple[str, str, Path]:
    """Split NAME=FILE or, with several systems, NAME@SYSTEM=FILE; names of systems may contain any character."""
    if len(systems) == 1:
        form = "NAME=FILE"
        system = systems[0]
        name, _, path = text.partition("=")
    else:
        form = f"NAME@SYSTEM=FILE, where SYSTEM is one of {', '.join(systems)}"
        name, _, assignment = text.partition("@")
        matching = [system for system in systems if assignment.startswith(f"{system}=")]
        system = max(matching, key=len, default="")
        path = assignment[len(system) + 1 :]
    if not (name and system and path):
        raise ConfigError(f"--segment-scores {text}: expected {form}")
    return name, system, Path(path)
