"""Python functions for `nmt prepare`, `nmt train`, `nmt evaluate` and `nmt compare`.

from nmt import Translator, api

api.prepare("mine.yaml")
run = api.train("mine.yaml", {"training.max_steps": 2000})
for score in api.evaluate(run).report.scores:
    print(score.metric, score.value)
Translator.load(run).translate(["Gestern hat Maria den Hund gefüttert."])

A configuration is a name or path, as for --config, or a `Config`, all of whose settings count as given. `settings`
overrides it by dotted keys. The functions print the same progress messages as the commands, and raise subclasses of
`nmt.errors.NmtError` with the same messages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from nmt.config import Config
from nmt.config.load import adopting, changed_config, changed_search, load_config
from nmt.evaluate.compare import Comparison
from nmt.evaluate.compare import compare as run_compare
from nmt.evaluate.compare.systems import (
    Translating,
    check_groups,
    find_baseline,
    single_members,
    translate_runs,
)
from nmt.evaluate.report import Evaluation
from nmt.evaluate.run import EvaluationText, choose_text, corpus_of, evaluate_text, record_scores, texts_of
from nmt.prepare.prepare import prepare as run_prepare
from nmt.process import keep_freed_memory
from nmt.runs.model import ModelRef
from nmt.share.hub import download
from nmt.training.parallel import joined
from nmt.training.plan import TrainingPlan
from nmt.training.start import fit
from nmt.translate.loading import Translator

__all__ = ["compare", "download", "evaluate", "evaluate_all", "prepare", "train"]


def prepare(
    config: Config | Path | str,
    settings: Mapping[str, object] | None = None,
    data: Path | str | None = None,
    tokenizer_from: Path | str | None = None,
    force: bool = False,
) -> Path:
    """Prepare a data directory, as `nmt prepare` does, and return its path. A directory that is up to date is kept.

    data: the directory, by default the config's. tokenizer_from: a run whose tokenizer is used instead of
    training one. force: replace a directory of other languages, or one that runs were trained on.
    Raises ConfigError or DataError.
    """
    chosen = _config(config, settings)
    start = _path(tokenizer_from)
    if start is not None:
        chosen = adopting(chosen, start, "tokenizer_from")
    directory = _path(data) or chosen.data.directory
    run_prepare(chosen, directory, start, force=force)
    return directory


def train(
    config: Config | Path | str,
    settings: Mapping[str, object] | None = None,
    data: Path | str | None = None,
    run: Path | str | None = None,
    resume: bool = False,
) -> Path:
    """Train a model on a data directory, as `nmt train` does, and return the path of its run directory.

    data, run: data and run directory, by default the config's, or the data directory of the resumed run. resume:
    continue from the last checkpoint; only limits and intervals, such as training.max_steps, may have changed.
    Raises ConfigError, DataError or CheckpointError before anything is written, DivergedError if training diverges, and
    StoppedError after Ctrl-C, once the current update is finished and saved, so that the run can be resumed.
    """
    keep_freed_memory()
    with joined() as world:
        plan = world.on_rank0(lambda: TrainingPlan.of(_config(config, settings), _path(data), _path(run), resume))
        fit(plan, world=world)
    return plan.run.path


def evaluate(
    run: Path | str,
    split: str | None = None,
    data: Path | str | None = None,
    checkpoint: str = "best",
    weights: str = "auto",
    search: Mapping[str, object] | None = None,
    to: str | None = None,
    source: str | None = None,
) -> Evaluation:
    """Translate a split with a run and score it, as `nmt evaluate` does.

    split: a test set, valid or train; by default the only test set (see `evaluate_all` for several). data: data
    directory, by default the run's. checkpoint, weights: see `ModelRef`. search: search settings to
    change, such as {"beam": 1}. to, source: the languages, of a run with several directions. The scores are recorded in
    the run. Raises ConfigError, CheckpointError or DataError.
    """
    translator = Translator.load(run, checkpoint=checkpoint, weights=weights, to=to, source=source)
    return _evaluated(translator, choose_text(translator, _path(data), split), search)


def evaluate_all(
    run: Path | str,
    splits: Sequence[str] = (),
    data: Path | str | None = None,
    checkpoint: str = "best",
    weights: str = "auto",
    search: Mapping[str, object] | None = None,
) -> dict[str, Evaluation]:
    """Translate several splits with a run and score them, by default all test sets; see `evaluate`.

    Return the evaluations by the names of the splits; of a run with several directions, by names such as `test de-en`.
    """
    directory = _path(data)
    translators = Translator.load(run, checkpoint=checkpoint, weights=weights).by_direction()
    texts = texts_of(translators, lambda translator: corpus_of(translator, directory), splits)
    return {label: _evaluated(*text, search) for label, text in texts.items()}


def _evaluated(translator: Translator, text: EvaluationText, search: Mapping[str, object] | None) -> Evaluation:
    evaluation = evaluate_text(translator, text, translator.search_settings(search or {}))
    record_scores(evaluation.report, translator.origin, text.corpus)
    return evaluation


def compare(
    runs: Sequence[Path | str] | Mapping[str, Sequence[Path | str]],
    split: str | None = None,
    data: Path | str | None = None,
    baseline: str | None = None,
    search: Mapping[str, object] | None = None,
    to: str | None = None,
    source: str | None = None,
) -> Comparison:
    """Translate a split with each run and compare the runs, as `nmt compare` does.

    runs: two or more runs, or a mapping from names to groups of runs that differ only in their seed. split, data: as
    for `evaluate`. baseline: the run (name or path) or group (name) with which the others are compared, by default the
    first. search: search settings to change, such as {"beam": 1}. to, source: the languages, of runs with several
    directions.
    Raises ConfigError, CheckpointError or DataError.
    """
    if isinstance(runs, Mapping):
        members = {name: [*map(Path, paths)] for name, paths in runs.items()}
        check_groups(members)
    else:
        members = single_members([*map(Path, runs)])
    position = find_baseline(baseline, members)
    overrides = _overrides({f"search.{name}": value for name, value in (search or {}).items()})
    translating = Translating(
        lambda config: changed_search(config, {}, overrides, "compare"),
        ModelRef(to=to, source=source),
        split,
        _path(data),
    )
    return run_compare(*translate_runs(members, translating), position)


def _path(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path)


def _overrides(settings: Mapping[str, object]) -> list[str]:
    return [f"{key}={json.dumps(value, default=os.fspath, ensure_ascii=False)}" for key, value in settings.items()]


def _config(config: Config | Path | str, settings: Mapping[str, object] | None) -> Config:
    overrides = _overrides(settings or {})
    return changed_config(config, overrides) if isinstance(config, Config) else load_config(config, overrides)
