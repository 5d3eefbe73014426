"""The stages of preparation, which write the same bytes however the work is divided or interrupted."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from folders import TRAIN, Folder, files
from nmt.errors import DataError
from nmt.files import write
from nmt.prepare.pipeline.work import SIZES, Sizes
from nmt.prepare.prepare import prepare
from nmt.tasks.perform import Done, Task
from nmt.tasks.processes import InProcess

MORE = [(f"{src} Ja.", tgt) for src, tgt in TRAIN[:60]] + [(src.lower(), tgt) for src, tgt in TRAIN[:20]] + TRAIN[:30]
CLEAN: dict[str, Any] = {"drop": ["near_duplicates"], "misaligned": 0.03, "repair": ["spaces"]}
SETTINGS: dict[str, Any] = {
    "data__train": [files("train"), {**files("more"), "repeat": 2}, {"path": "third.tsv"}],
    "data__valid": 10,
    "data__clean": CLEAN,
    "data__root": "text",
}
SMALL = Sizes(part_pairs=80, bucket_pairs=250)
SHARDS = Sizes(part_pairs=80, bucket_pairs=250, shard_pairs=60)


def learn_lengths(pairs: Sequence[tuple[str, str]], _: float) -> bytes:
    """Replace the filter of misaligned pairs, which needs more text, by the median and spread of length ratios."""
    ratios = np.array([len(src) / len(tgt) for src, tgt in pairs])
    median = np.median(ratios) if len(pairs) >= 100 else 0
    return f"{median} {np.median(np.abs(ratios - median))}".encode() if median else b""


def has_other_length(pairs: Sequence[tuple[str, str]], learned: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    median, spread = map(float, learned.split() or (0, np.inf))
    return np.array([abs(len(src) / len(tgt) - median) > 3 * spread for src, tgt in pairs], np.bool_)


@pytest.fixture(scope="module", autouse=True)
def filter_of_lengths() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nmt.prepare.pipeline.clean.learn_filter", learn_lengths)
        patch.setattr("nmt.prepare.pipeline.clean.is_misaligned", has_other_length)
        yield


def place_in(folder: Path, patch: pytest.MonkeyPatch) -> Folder:
    """Write the text into a folder, and make it the working directory."""
    place = Folder(folder)
    place.write(more=MORE)
    rows = ["de\ten\tquality", *(f"{src} {src}\t{tgt} {tgt}\t0.{i:03}" for i, (src, tgt) in enumerate(TRAIN[100:140]))]
    (folder / "text" / "third.tsv").write_text("\n".join(rows), encoding="utf-8")
    patch.chdir(folder)
    return place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    return place_in(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Return a folder that was prepared without a division into parts."""
    with pytest.MonkeyPatch.context() as patch:
        place = place_in(tmp_path_factory.mktemp("whole"), patch)
        place.prepare(**SETTINGS)
    return place


@pytest.fixture(scope="module")
def in_shards(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Return a folder that was prepared in shards."""
    with pytest.MonkeyPatch.context() as patch:
        place = place_in(tmp_path_factory.mktemp("shards"), patch)
        place.prepare(sizes=SHARDS, **SETTINGS)
    return place


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Return a folder whose preparation was stopped before encoding; `kept` has what it left."""
    with pytest.MonkeyPatch.context() as patch:
        place = place_in(tmp_path_factory.mktemp("stopped"), patch)
        patch.setattr(write, "KEPT_AFTER", 0.0)
        patch.setattr("nmt.prepare.pipeline.encode.encode_parts", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            place.prepare(sizes=SMALL, **SETTINGS)
    assert place.left() == {".data.work"}
    (place.folder / ".data.work").rename(place.folder / "kept")
    return place


@pytest.fixture
def interrupted(stopped: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Return the folder as its preparation was stopped; elsewhere what it left would not be reused."""
    monkeypatch.chdir(stopped.folder)
    shutil.rmtree(stopped.data, ignore_errors=True)
    shutil.copytree(stopped.folder / "kept", stopped.folder / ".data.work")
    return copy(stopped)


def pairs_of(place: Folder, split: str) -> list[tuple[str, str]]:
    directory = place.corpus().directory
    texts = (directory.text(split, language).read_text(encoding="utf-8") for language in ("de", "en"))
    return list(zip(*(text.split("\n")[:-1] for text in texts), strict=True))


@pytest.mark.parametrize("sizes", [SMALL, Sizes(part_pairs=100, bucket_pairs=1000)])
def test_result_does_not_depend_on_part_size(place: Folder, whole: Folder, sizes: Sizes) -> None:
    said, dropped = "\n".join(whole.said), whole.manifest()["splits"]["train"]["clean"]["dropped"]
    assert "warning: data.train.2: no pair is dropped as misaligned: there are fewer than" in said
    assert {"duplicate", "near_duplicate", "misaligned", "valid"} <= dropped.keys()
    assert place.prepare(sizes=sizes, **SETTINGS).replace(str(place.data), str(whole.data)) == said
    assert place.content() == whole.content()
    assert place.left() == whole.left() == {"data"}


def test_large_training_set_is_sharded(whole: Folder, in_shards: Folder) -> None:
    expected, corpus = Counter(pairs_of(whole, "train")), in_shards.corpus()
    manifest = in_shards.manifest()
    train = manifest["splits"]["train"]
    texts = {shard["name"]: pairs_of(in_shards, shard["name"]) for shard in train["shards"]}
    sizes, found = Counter[str](), Counter[tuple[str, str]]()
    for shard, pairs in zip(train["shards"], texts.values(), strict=True):
        assert len(pairs) == shard["pairs"]
        sizes[shard["source"]] += len(pairs)
        found.update(pairs * (2 if shard["source"] == "train.1" else 1))  # it is repeated
    assert found == expected and train["pairs"] == expected.total()
    assert (manifest["format"], train["text"]) == (2, whole.manifest()["splits"]["train"]["text"])
    assert sizes == {key: manifest["sources"][key]["kept"] for key in sizes}
    assert [*texts][:3] == ["train.0-00000", "train.0-00001", "train.0-00002"]
    for pairs in [*texts.values()][:3]:
        order = [TRAIN.index(pair) for pair in pairs if pair in TRAIN]
        assert order != sorted(order)
    with pytest.raises(DataError, match=r"train is divided into shards, .* use another split, or a data directory"):
        corpus.in_one_file("train")
    name = "train.0-00001"
    for language, lines in zip(("de", "en"), zip(*texts[name], strict=True), strict=True):
        ids, ends = (np.load(path(name, language)) for path in (corpus.directory.ids, corpus.directory.ends))
        assert (ids.dtype, ends.dtype) == (np.uint16, np.uint32)
        assert lines == tuple(corpus.tokenizers[language].decode(part) for part in np.split(ids, ends[:-1]))


def test_shards_do_not_depend_on_part_size(place: Folder, in_shards: Folder) -> None:
    place.prepare(sizes=Sizes(part_pairs=100, bucket_pairs=1000, shard_pairs=60), **SETTINGS)
    assert place.content() == in_shards.content()


class Stopping:
    """An engine that stops after a number of tasks, and records the tasks that it has begun."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.begun: list[str] = []

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        for number, task in enumerate(tasks):
            if not (work / task.name).exists():
                self.begun.append(task.name)
                if len(self.begun) > self.after:
                    raise KeyboardInterrupt
            for _, done in InProcess().run(work, [task]):
                yield number, done


@pytest.mark.parametrize("sizes", [SMALL, SHARDS])
def test_stopped_prepare_resumes(place: Folder, monkeypatch: pytest.MonkeyPatch, sizes: Sizes) -> None:
    everything = Stopping(10**6)
    prepare(place.config(**SETTINGS), place.data, echo=place.said.append, engine=everything, sizes=sizes)
    content = place.content()
    monkeypatch.setattr(write, "KEPT_AFTER", 0.0)
    place.data = place.folder / "stopped"
    begun: list[str] = []
    for _ in range(1000):
        engine = Stopping(12)
        try:
            prepare(place.config(**SETTINGS), place.data, echo=place.said.append, engine=engine, sizes=sizes)
        except KeyboardInterrupt:
            assert place.left() == {"data", ".stopped.work"}
            begun += engine.begun[:-1]
        else:
            begun += engine.begun
            break
    assert begun == everything.begun
    assert len(set(begun)) == len(begun) > 24
    assert place.content() == content
    assert place.left() == {"data", "stopped"}


@pytest.mark.parametrize(
    "damaged",
    [
        ["clean/00001/text.0"],
        ["group-1/00000/drops.npy"],
        ["settle/00003/text.1"],
        ["settle/00002/lines.npy", "split-off/00000/text.0"],  # which settling reads
    ],
    ids=str,
)
def test_damaged_parts_are_prepared_again(interrupted: Folder, whole: Folder, damaged: list[str]) -> None:
    for name in damaged:
        os.truncate(interrupted.folder / ".data.work" / name, 5)
    engine = Counting()
    prepare(interrupted.config(**SETTINGS), interrupted.data, echo=interrupted.said.append, engine=engine, sizes=SMALL)
    assert engine.stages == {damaged[0].partition("/")[0], "encode", "join"}
    assert interrupted.content() == whole.content()


def test_results_of_other_files_or_settings_are_not_reused(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "KEPT_AFTER", 0.0)
    for stop in (3, 25):
        with pytest.raises(KeyboardInterrupt):
            prepare(place.config(**SETTINGS), place.data, echo=place.said.append, engine=Stopping(stop), sizes=SMALL)
    place.write(train=[("neu", "new"), *TRAIN])
    changes = {**SETTINGS, "data__max_chars": 60}
    place.prepare(sizes=SMALL, **changes)
    content = place.content()
    place.data = place.folder / "fresh"
    place.prepare(sizes=SIZES, **changes)
    assert place.content() == content


class Counting:
    """An engine that runs tasks in this process, and records the stages that were not done before."""

    def __init__(self) -> None:
        self.stages: set[str] = set()

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        def records() -> list[object]:
            paths = [work / task.name / "record.json" for task in tasks]
            return [path.stat().st_ino if path.exists() else None for path in paths]

        before = records()
        yield from InProcess().run(work, tasks)
        if records() != before:
            self.stages.add(tasks[0].name.partition("/")[0])


def test_settings_unrelated_to_cleaning_do_not_repeat_it(interrupted: Folder) -> None:
    place = interrupted
    test = {"other": files("test") | {"name": "another name"}}
    changes = {**SETTINGS, "data__max_pieces": 200, "data__test": test, "tokenizer__vocab_size": 350}
    engine = Counting()
    config = place.config(**changes, direction="en-de")
    prepare(config, place.data, echo=place.said.append, engine=engine, sizes=SMALL)
    assert engine.stages == {"vocabulary", "encode", "join"}
    content = place.content()
    place.data = place.folder / "fresh"
    place.prepare(**changes)
    assert place.content() == content


def test_many_small_files_share_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Folder(tmp_path)
    place.prepare(data__valid=10)
    content = place.content()
    (tmp_path / "text" / "many").mkdir()
    for number in range(0, len(TRAIN), 2):
        rows = ["de\ten", *("\t".join(pair) for pair in TRAIN[number : number + 2])]
        (tmp_path / "text" / "many" / f"{number}.tsv").write_text("\n".join(rows), encoding="utf-8")
    place.data = tmp_path / "of many"
    engine = Stopping(10**6)
    monkeypatch.setattr("nmt.prepare.pipeline.read._MOST_TASKS", 7)
    config = place.config(data__valid=10, data__train=[{"path": "many", "name": "train.de"}])
    prepare(config, place.data, echo=place.said.append, engine=engine)
    assert [name for name in engine.begun if name.startswith("read/")] == [f"read/{n:05}" for n in range(7)]
    names = content.keys() - {"manifest.json", "report.html", "report.json"}
    assert {name: place.content()[name] for name in names} == {name: content[name] for name in names}


def test_early_failure_leaves_no_work_directory(place: Folder) -> None:
    place.write(train=[("gleich", "gleich")])
    assert "all 1 training pairs were dropped" in place.refused()
    assert place.left() == set()
