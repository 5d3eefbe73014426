"""`prepare` with a classifier of pairs: which pairs it scores and drops, and that nothing else decides about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from folders import TRAIN, Folder, files
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.files import staging
from nmt.prepare.append import append
from nmt.prepare.cleaning.classified import Classified, classifier_fingerprints
from nmt.prepare.cleaning.pair_classifier import PairClassifier
from nmt.prepare.dry_run import dry_run
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import prepare
from nmt.tasks.in_process import InProcess
from nmt.tasks.processes import Processes
from nmt.tasks.task import Done, Task
from nmt.text.tokenizer import Tokenizer
from nmt.translate.filter import at_least, collect_scores
from nmt.translate.filter import classified as scored_by
from tiny_run import tiny_config, tiny_model, write_classifier, write_run

SMALL = Sizes(part_pairs=60, bucket_pairs=150)
SHARDS = Sizes(part_pairs=60, bucket_pairs=150, shard_pairs=60)
LEAST = 0.54  # the scores of these pairs are from 0.42 to 0.63


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    return write_classifier(tmp_path_factory.mktemp("runs") / "pairs", tokenizer)


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    place = Folder(tmp_path)
    place.write(train=[*TRAIN[:200], *TRAIN[:30], ("x", "x")], more=TRAIN[200:])
    return place


def cleaned(run: Path, least: float = LEAST, **more: Any) -> dict[str, Any]:
    return {"data__clean": {"classifier": str(run), "min_classifier_score": least, **more}}


def train(place: Folder) -> set[tuple[str, str]]:
    sides = [(place.data / f"train.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")]
    return set(zip(*sides, strict=True))


def good(run: Path, pairs: list[tuple[str, str]], least: float = LEAST) -> set[tuple[str, str]]:
    """The pairs with at least this score, each scored alone."""
    judge = PairClassifier.load(run)
    return {pair for pair in pairs for found in judge.log_odds([pair]) if found.score >= least}


def test_pairs_with_a_low_score_are_dropped_and_counted(
    place: Folder, classifier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored: list[tuple[str, str]] = []
    original = PairClassifier.log_odds

    def log_odds(self: PairClassifier, pairs: list[tuple[str, str]]) -> Iterator[Any]:
        scored.extend(pairs)
        return original(self, pairs)

    with monkeypatch.context() as patch:
        patch.setattr(PairClassifier, "log_odds", log_odds)
        others = [files("train"), files("more") | {"clean": {"min_classifier_score": 0}}]
        said = place.prepare(data__train=others, **cleaned(classifier))
    wanted = good(classifier, TRAIN[:200])
    assert 50 < len(wanted) < 150 and train(place) == wanted | set(TRAIN[200:])
    assert sorted(scored) == sorted(TRAIN[:200]), "each once, without those that are dropped anyway"
    n = 200 - len(wanted)
    sources = place.manifest()["sources"]
    assert sources["train.0"]["dropped"] == {"copied": 1, "duplicate": 30, "classifier": n}
    assert "dropped" not in sources["train.1"] or not sources["train.1"]["dropped"]
    assert f"low score by the classifier {n}" in said
    samples = place.manifest()["splits"]["train"]["clean"]["samples"]["classifier"]
    assert [TRAIN[sample["line"] - 1] in wanted for sample in samples] == [False] * 3
    assert "low score by the classifier" in (place.data / "report.html").read_text(encoding="utf-8")


def test_a_classifier_of_the_other_direction_reads_the_sides_in_its_order(place: Folder, tokenizer: Tokenizer) -> None:
    run = write_classifier(place.folder / "text" / "pairs", tokenizer, direction="en-de")
    place.prepare(**cleaned(run))
    swapped = [(en, de) for de, en in TRAIN[:200]]
    wanted = {(de, en) for en, de in good(run, swapped)}
    assert train(place) == wanted != good(run, TRAIN[:200])


def test_a_threshold_that_nmt_filter_tells_keeps_the_same_pairs(place: Folder, classifier: Path) -> None:
    """Whatever was lost in rounding."""
    [fingerprint] = classifier_fingerprints(place.config(**cleaned(classifier)).data).values()
    scores = np.array(collect_scores(scored_by(PairClassifier.load(classifier), TRAIN[:30])).values)
    for least in scores.tolist():
        step = Classified(run=str(classifier), fingerprint=fingerprint, least=least)
        assert step.dropped(("de", "en"), TRAIN[:30]).tolist() == (~at_least(scores, least)).tolist()


class Stopping(InProcess):
    """Stops after some tasks of the stage that judges; notes those that were begun."""

    def __init__(self, after: int) -> None:
        self.after = after

    def run(self, work: Path, tasks: list[Task]) -> Iterator[tuple[int, Done]]:  # type: ignore[override]
        for number, found in enumerate(super().run(work, tasks)):
            if tasks[0].name.startswith("judge/") and number == self.after:
                raise KeyboardInterrupt
            yield found


def test_neither_processes_nor_an_interruption_show(
    place: Folder, classifier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "KEPT_AFTER", 0.0)
    settings = cleaned(classifier) | {"data__train": [files("train"), files("more")], "data__valid": 10}
    place.prepare(**settings)
    whole, place.data = place.content(), place.folder / "other"
    with pytest.raises(KeyboardInterrupt):
        prepare(place.config(**settings), place.data, engine=Stopping(1), sizes=SMALL)
    judged = place.folder / ".other.work" / "judge"
    before = {path.name: (path / "record.json").stat().st_ino for path in judged.iterdir()}
    assert len(before) == 2
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("nmt.prepare.pipeline.run.settle_parts", interrupt)
        with closing(Processes(2)) as processes:
            prepare(place.config(**settings), place.data, engine=processes, sizes=SMALL)
    after = {path.name: (path / "record.json").stat().st_ino for path in judged.iterdir()}
    assert len(after) == 5 and before.items() <= after.items(), "those are not done again"
    prepare(place.config(**settings), place.data, sizes=SMALL)
    assert place.content() == whole


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_another_classifier_in_its_place_is_noticed(
    place: Folder, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "KEPT_AFTER", 0.0)
    run = write_classifier(place.folder / "text" / "pairs", tokenizer)
    place.prepare(**cleaned(run))
    assert "nothing to do" in place.prepare(**cleaned(run))
    first, place.data = train(place), place.folder / "other"
    with pytest.raises(KeyboardInterrupt):
        prepare(place.config(**cleaned(run)), place.data, engine=Stopping(1), sizes=SMALL)
    write_classifier(run, tokenizer, seed=6)
    prepare(place.config(**cleaned(run)), place.data, sizes=SMALL)
    second, place.data = train(place), place.folder / "data"
    assert first != second == good(run, TRAIN[:200])
    assert place.prepare(**cleaned(run)).startswith(f"preparing {place.data} again: {run} has changed\n")
    assert train(place) == second
    with pytest.raises(CheckpointError, match=f"{run}: has changed since this preparation began"):
        Classified(run=str(run), fingerprint="0123456789abcdef", least=0.5).dropped(("de", "en"), TRAIN)


def test_corpora_are_added_with_the_same_classifier(place: Folder, tokenizer: Tokenizer) -> None:
    run = write_classifier(place.folder / "text" / "pairs", tokenizer)
    place.prepare(sizes=SHARDS, **cleaned(run))
    config = place.config(**cleaned(run), data__train=[files("train"), files("more")])
    append(config, place.data, echo=place.said.append, sizes=SHARDS)
    n = len(good(run, TRAIN[200:]))
    assert 0 < n < 40 and place.manifest()["sources"]["train.1"]["kept"] == n
    write_classifier(run, tokenizer, seed=6)
    with pytest.raises(DataError, match=f"nothing else may change: {run} has changed"):
        append(config, place.data, sizes=SHARDS)


def test_a_dry_run_tells_what_it_would_drop(place: Folder, classifier: Path) -> None:
    said: list[str] = []
    dry_run(place.config(**cleaned(classifier)), sample=50, report=place.folder / "r.json", echo=said.append)
    assert re.search(r"low score by the classifier +\d", "\n".join(said)), said
    assert classifier.name in (place.folder / "r.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("none", "clean.classifier: {run}: not a run directory, it has no config.yaml; make one with nmt train"),
        ("translation", "clean.classifier: {run}: is no classifier of pairs: name a run with training.pair_task: true"),
        ("de-en", "clean.classifier: {run}: has learned pairs of de-en, which is neither direction of de-fr"),
    ],
)
def test_runs_that_are_no_classifier_of_these_pairs(
    place: Folder, tokenizer: Tokenizer, kind: str, problem: str
) -> None:
    run, config = place.folder / kind, tiny_config()
    if kind == "translation":
        write_run(run, config, tokenizer, tiny_model(config, tokenizer))
    if kind == "de-en":
        write_classifier(run, tokenizer)
    other = "fr" if kind == "de-en" else "en"
    source = {"files": {"de": "missing.de", other: f"missing.{other}"}}
    config = place.config(f"de-{other}", data__train=[source], data__valid=10, data__test={}, **cleaned(run))
    for stage in (lambda: prepare(config, place.data), lambda: dry_run(config)):
        with pytest.raises(ConfigError) as caught:  # before any text is read
            stage()
        assert str(caught.value) == problem.format(run=run)
    assert not place.data.exists()
