"""Runs over several windows: shards, weights, stages and resuming."""

from __future__ import annotations

import re
import shutil
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cases import cases
from fitting import fit, start
from kept_run import Died, die_before
from nmt.config import Config
from nmt.data import mixing
from nmt.data.batching import Update
from nmt.data.corpus import Corpora, Corpus
from nmt.data.mixing import Position
from nmt.data.windows import Windows
from nmt.errors import DataError
from nmt.layout import DataDir, RunDir
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import prepare
from nmt.prepare.recipe import changes_since, recipe
from nmt.runs.state import load_state
from nmt.training import loop
from nmt.training.loop import Session
from nmt.training.report.meter import mixture
from nmt.training.setup.objective import make_objective
from tiny_corpus import tiny_settings, tiny_text
from trained import assert_same_run, records

pytestmark = pytest.mark.usefixtures("no_coverage", "quick")

FILES = {"aa": "train.aa", "bb": "train.bb"}
MORE = {"aa": "more.aa", "bb": "more.bb"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two corpora of about 200 and 80 pairs, prepared in one file and in shards."""
    folder = tmp_path_factory.mktemp("windows")
    tiny_text(folder / "text")
    for language in ("aa", "bb"):
        lines = (folder / "text" / f"train.{language}").read_text().splitlines(keepends=True)
        (folder / "text" / f"more.{language}").write_text("".join(line.replace("o", "u") for line in lines[:90]))
    prepare(config_of(folder), folder / "data", echo=lambda _: None)
    prepare(config_of(folder), folder / "shards", echo=lambda _: None, sizes=Sizes(shard_pairs=40))
    assert len(list((folder / "shards").glob("train.*.aa"))) == 7
    return folder


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing, "WINDOW_PAIRS", 100)
    monkeypatch.setattr(mixing, "BLOCK_PAIRS", 8)


def config_of(
    folder: Path, weights: tuple[float | None, float | None] = (None, None), temperature: float | None = None,
    directions: Sequence[str] = (), direction_temperature: float = 1.0, **training: object,
) -> Config:  # fmt: skip
    train = [{"files": FILES, "weight": weights[0]}, {"files": MORE, "name": "more", "weight": weights[1]}]
    data = {"train": train, "temperature": temperature, "direction_temperature": direction_temperature}
    data |= {"directions": [*directions]} if directions else {}
    return tiny_settings(folder / "text", data=data, search={"beam": 1}, training=training)


def windows_of(data: Path, config: Config) -> Windows:
    corpora = Corpora.open(DataDir(data), config.data)
    examples = make_objective(config, corpora.tokenizers).examples
    return Windows(corpora, config.data, config.training, config.learned_languages, examples)


def trained_rows(patch: pytest.MonkeyPatch) -> list[tuple[int, list[int]]]:
    """The epoch and the corpus rows of every update that is made from now on."""
    real, seen = loop.train_step, []

    def train_step(session: Session, update: Update) -> loop.Outcome:
        seen.append((session.state.epoch, session.window.pairs.corpus_rows(update.rows).tolist()))
        return real(session, update)

    patch.setattr(loop, "train_step", train_step)
    return seen


STAGES = [
    {"weights": {"more": 3, "train.aa": 1}, "steps": 5}, {"weights": {"train.aa": 1}, "steps": 3},
    {"temperature": 5.0},
]  # fmt: skip
BOTH = ["aa-bb", "bb-aa"]
SETTINGS: dict[str, dict[str, object]] = {
    "plain": {},
    "dropout": {"bpe_dropout": 0.2},
    "both directions": {"directions": BOTH, "bpe_dropout": 0.2},
    "all of both": {
        "directions": BOTH,
        "direction_temperature": 5.0,
        "weights": (1.0, 3.0),
        "consistency": "simcut",
        "modifiers": {"upper_case": 0.3, "typos": 0.3},
        "bpe_dropout": 0.1,
    },
    "modifiers": {"modifiers": {"upper_case": 0.3, "typos": 0.3, "tags": 0.1}, "bpe_dropout": 0.1},
    "weights": {"weights": (1.0, 3.0)},
    "stages": {"stages": STAGES},
    "temperature": {"temperature": 5.0},
}


# --- what is learned from -----------------------------------------------------------------------


@pytest.mark.parametrize("where", ["data", "shards"])
def test_epoch_has_every_pair_once(folder, tmp_path, monkeypatch, where):
    """An epoch has the same number of pairs in one window as in several."""
    n = Corpus.open(DataDir(folder / where)).split("train").n
    seen = trained_rows(monkeypatch)
    fit(config_of(folder, max_epochs=2, max_steps=100, update_tokens=500), folder / where, tmp_path / "run")
    for epoch in (0, 1):
        assert sorted(row for number, rows in seen if number == epoch for row in rows) == list(range(n))
    assert {record["epoch"] for record in records(tmp_path / "run", "train")} == {0, 1}
    assert seen[0][1] != seen[len(seen) // 2][1]


def test_window_rows_are_corpus_pairs(folder):
    """Rows follow the order of the window, in both directions, with and without BPE-dropout."""
    corpus = Corpus.open(DataDir(folder / "shards"))
    texts = [
        tuple(line for shard in corpus.manifest.splits["train"].shards for line in corpus.split(shard.name).text(name))
        for name in ("aa", "bb")
    ]
    pairs = list(zip(*texts, strict=True)) + list(zip(*texts[::-1], strict=True))
    for name in ("plain", "both directions", "dropout"):
        windows = windows_of(folder / "shards", config_of(folder, **SETTINGS[name]))
        for number in (0, 2):
            window = windows.load(Position(epoch=1, window=number))
            rows = np.arange(len(window.pairs))[::-3].copy()
            batch, corpus_rows = window.pairs.batch(rows), window.pairs.corpus_rows(rows)
            decode = [corpus.tokenizers[language].decode for language in ("aa", "bb")]
            for i, row in enumerate(corpus_rows.tolist()):
                sides = [[x for x in ids[i].tolist() if x > 3] for ids in (batch.src, batch.tgt_out)]
                found = tuple(decode[0](ids) for ids in sides)  # the vocabulary is joint
                assert found == pairs[row]
            assert batch.n_tokens == int((batch.tgt_out != 0).sum())


def test_bpe_dropout_is_independent_of_window_size(folder, monkeypatch):
    """Segmentation is also independent of the window in which a pair occurs."""
    config = config_of(folder, **SETTINGS["dropout"])
    found = []
    for size in (100, 1000):
        monkeypatch.setattr(mixing, "WINDOW_PAIRS", size)
        windows, cuts = windows_of(folder / "shards", config), {}
        for number in range(windows.mix.n_windows):
            pairs = windows.load(Position(window=number)).pairs
            rows = np.arange(len(pairs))
            src = pairs.batch(rows).src.tolist()
            cuts |= {
                row: [x for x in ids if x > 0] for row, ids in zip(pairs.corpus_rows(rows).tolist(), src, strict=True)
            }
        found.append(cuts)
    assert found[0] == found[1]


@pytest.mark.parametrize("where", ["data", "shards"])
def test_weights_determine_shares_of_corpora(folder, tmp_path, monkeypatch, where):
    seen = trained_rows(monkeypatch)
    config = config_of(folder, (1.0, 3.0), max_epochs=2, max_steps=100, update_tokens=500)
    corpus = Corpus.open(DataDir(folder / where))
    assert changes_since(DataDir(folder / where), recipe(config.data, config.tokenizer), config.data) == []
    fit(config, folder / where, tmp_path / "run")
    n = corpus.split("train").n
    first = mixing.train_corpora(corpus.manifest)["train.0"].n
    counts = Counter(row for _, rows in seen for row in rows)
    shares = sum(count for row, count in counts.items() if row < first), sum(counts.values())
    assert shares[0] == pytest.approx(2 * n / 4, abs=1) and shares[1] == pytest.approx(2 * n, abs=2)
    passes = 1.5 * n / (n - first)
    assert {counts[row] for row in range(first, n)} <= {int(passes), int(passes) + 1}


def test_printed_passes_end_with_max_epochs(folder, tmp_path, monkeypatch, capsys):
    seen = trained_rows(monkeypatch)
    stages = [{"weights": {"train.aa": 1}, "steps": 3}, {"weights": {"more": 1}}]
    config = config_of(folder, stages=stages, max_epochs=1, max_steps=1000, update_tokens=500)
    fit(config, folder / "data", tmp_path / "run")
    n = mixing.train_corpora(Corpus.open(DataDir(folder / "data")).manifest)["train.1"].n
    n_pairs = sum(len(rows) for _, rows in seen[3:])
    printed = re.findall(r"^more .* about (\S+) passes", capsys.readouterr().err, re.MULTILINE)
    assert [float(number) for number in printed] == [0, pytest.approx(n_pairs / n, rel=0.01)]


def test_printed_passes_are_those_of_the_planned_updates(folder, tmp_path):
    printed = []
    for number, limits in enumerate(({"max_steps": 10**6, "planned_steps": 30}, {"max_steps": 30})):
        config = config_of(folder, stages=[{"weights": {"train.aa": 1}}], **limits)
        session = start(config, folder / "data", tmp_path / f"run{number}", resume=False)
        printed.append([*mixture(session)])
    assert printed[0] == printed[1] != []
    session.state.stage_step = 31
    assert re.findall(r"about (\S+) passes", "\n".join(mixture(session))) == ["0", "0"], "never a negative number"


def test_passes_are_not_printed_if_only_the_time_is_limited(folder, tmp_path):
    config = config_of(folder, stages=[{"weights": {"train.aa": 1}}], max_minutes=1)
    lines = [*mixture(start(config, folder / "data", tmp_path / "run", resume=False))]
    assert len(lines) == 2 and "passes" not in "".join(lines)


# --- stopping and going on ----------------------------------------------------------------------


@pytest.mark.parametrize("name", cases(SETTINGS, always=["stages", "temperature", "all of both"]))
def test_resumed_run_over_windows_equals_uninterrupted_run(folder, tmp_path, monkeypatch, name):
    where = "data" if name == "temperature" else "shards"
    config = config_of(
        folder, max_steps=12, save_every_steps=1, validate_every_steps=12, log_every_steps=5, update_tokens=900,
        max_tokens=900, average_last=1, **SETTINGS[name],
    )  # fmt: skip
    seen = trained_rows(monkeypatch)
    fit(config, folder / where, tmp_path / "whole")
    whole = [rows for _, rows in seen]
    seen.clear()
    deaths = range(1, 12) if name == "plain" else (1, 4, 7, 10)
    for step in deaths:
        with monkeypatch.context() as patch, pytest.raises(Died):
            die_before(step, patch)
            fit(config, folder / where, tmp_path / "parts", resume=step > deaths[0])
    fit(config, folder / where, tmp_path / "parts", resume=True)
    assert [rows for _, rows in seen] == whole
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    state = load_state(RunDir(tmp_path / "whole").step(12))
    assert (state.epoch, state.window) > (0, 1)
    assert not any(thread.name.startswith("windows") for thread in threading.enumerate())


def test_stages_end_after_their_steps(folder, tmp_path, monkeypatch, capsys):
    seen = trained_rows(monkeypatch)
    fit(config_of(folder, stages=STAGES, max_steps=30, update_tokens=500), folder / "shards", tmp_path / "run")
    corpus = Corpus.open(DataDir(folder / "shards"))
    first = mixing.train_corpora(corpus.manifest)["train.0"].n
    state = load_state(RunDir(tmp_path / "run").step(30))
    begin = 5
    counts = Counter(row >= first for _, rows in seen[:begin] for row in rows)
    assert (state.stage, state.stage_step, len(seen)) == (2, 8, 30)
    assert counts[True] / counts[False] == pytest.approx(3, rel=0.2)
    assert all(row < first for _, rows in seen[begin : begin + 3] for row in rows)
    assert state.stage_pairs == pytest.approx(sum(len(rows) for _, rows in seen[: begin + 3]), abs=2)
    assert state.drawn == pytest.approx([state.stage_pairs - counts[True], counts[True]], abs=5)
    assert any(row >= first for row in seen[begin + 3][1] + seen[begin + 4][1])
    said = capsys.readouterr().err
    assert [f"stage {i} of 3 mixes the training corpora, from step {step}:" in said for i, step in ((1, 0), (2, begin))]


# --- files --------------------------------------------------------------------------------------


def test_damaged_shard_raises_when_read(folder, tmp_path):
    data = shutil.copytree(folder / "shards", tmp_path / "data")
    config, corpus = config_of(folder, max_epochs=1, max_steps=100, update_tokens=500), Corpus.open(DataDir(data))
    windows = windows_of(data, config)
    shards = corpus.manifest.splits["train"].shards
    ends = np.cumsum([shard.pairs for shard in shards])
    first, third = (
        {int(np.searchsorted(ends, row, side="right")) for row in pairs.corpus_rows(np.arange(len(pairs)))}
        for pairs in (windows.load(Position(window=number)).pairs for number in (0, 2))
    )
    late = shards[min(third - first)].name
    path = DataDir(data).ids(late, "aa")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"{late}\.aa\.ids\.npy: damaged: its checksum does not match"):
        fit(config, data, tmp_path / "run")
    assert load_state(RunDir(tmp_path / "run").step(3)).step == 3  # what was learned before it is kept
    path.unlink()
    with pytest.raises(DataError, match="no such file, but the manifest says"):
        Corpus.open(DataDir(data))
