"""Mixing of corpora: shares, passes, stages and positions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import Config
from nmt.config.load import check_config
from nmt.data import mixing
from nmt.data.lines import Segments
from nmt.data.manifest import Manifest
from nmt.data.mixing import Mix, Position, Run, StagePlan, Stream, TrainCorpus, make_mix, train_corpora
from nmt.errors import ConfigError

weights = st.lists(st.integers(1, 1000), min_size=1, max_size=5)


def mix_of(sizes: list[int], shares: list[Fraction] | None = None, n_windows: int = 3, **stage: int) -> Mix:
    """Return a mixture of corpora of these sizes: one stage by size, after a stage with `shares` if given."""
    corpora = [TrainCorpus(f"c{i}", (Run(0, n),)) for i, n in enumerate(sizes)]
    by_size = tuple(Fraction(n, sum(sizes)) for n in sizes)
    plan = StagePlan(tuple(shares or by_size), **stage)
    return Mix(corpora, [plan, StagePlan(by_size)] if stage else [plan], n_windows)


def walk(mix: Mix, n_windows: int, at: Position | None = None) -> Iterator[tuple[Position, list[tuple[int, int]]]]:
    """Yield the positions of the first windows."""
    at = at or Position()
    for _ in range(n_windows):
        yield at, mix.takes(at)
        at = mix.after(at)


def config_of(*weights: float | None, temperature: float | None = None, **training: object) -> Config:
    """Return a config of corpora named a, b, …"""
    files = {"files": {"de": "x.de", "en": "x.en"}}
    train = [{**files, "name": "abcd"[i], "weight": weight} for i, weight in enumerate(weights)]
    data = {"direction": "de-en", "train": train, "valid": files, "temperature": temperature}
    return check_config({"data": data, "training": training}, "test")


def manifest_of(kept: list[int], repeats: list[int], sharded: bool) -> Manifest:
    """Return a manifest of corpora with these numbers of pairs."""
    shards = [
        {"name": f"train.{i}-{j:05}", "source": f"train.{i}", "pairs": n}
        for i, pairs in enumerate(kept)
        for j, n in enumerate((pairs - pairs // 2, pairs // 2))
        if n
    ]
    return Manifest.model_validate({
        "format": 2 if sharded else 1, "languages": ["de", "en"], "fingerprint": "", "tokenizer": {"fingerprint": ""},
        "config": {"data": {"train": [{} if n == 1 else {"repeat": n} for n in repeats]}},
        "sources": {f"train.{i}": {"corpus": f"file{i}", "files": {}, "kept": n} for i, n in enumerate(kept)},
        "splits": {"train": {
            "pairs": sum(n * m for n, m in zip(kept, repeats, strict=True)), **({"shards": shards} if sharded else {})
        }},
        "files": {},
    })  # fmt: skip


def mix_of_config(config: Config, manifests: dict[str, Manifest]) -> Mix:
    return make_mix(config.data, config.training.stages, manifests)


# --- windows ------------------------------------------------------------------------------------


@given(weights, weights, st.integers(1, 7))
def test_mixing_shares_are_exact_to_one_pair(sizes: list[int], shares: list[int], n_windows: int) -> None:
    sizes, shares = sizes[: len(shares)], shares[: len(sizes)]
    exact = [Fraction(share, sum(shares)) for share in shares]
    mix = mix_of(sizes, exact, min(n_windows, sum(sizes)))
    before = [0] * len(sizes)
    for at, takes in walk(mix, 3 * mix.n_windows + 1):
        assert [start for start, _ in takes] == before
        before = [stop for _, stop in takes]
        assert all(0 <= mix.span(at)[1] * q - n < 1 for q, n in zip(exact, before, strict=True))


@given(weights, st.integers(1, 7))
def test_epoch_without_weights_passes_once_over_each_corpus(sizes: list[int], n_windows: int) -> None:
    mix = mix_of(sizes, None, min(n_windows, sum(sizes)))
    windows = list(walk(mix, 2 * mix.n_windows))
    assert [stop for _, stop in windows[mix.n_windows - 1][1]] == sizes
    assert [stop for _, stop in windows[-1][1]] == [2 * n for n in sizes]
    assert [(at.epoch, at.window) for at, _ in windows] == [(e, w) for e in (0, 1) for w in range(mix.n_windows)]
    counts = [mix.span(at)[1] - mix.span(at)[0] for at, _ in windows]
    assert max(counts) - min(counts) <= 1


# --- stages -------------------------------------------------------------------------------------


def test_stage_change_continues_same_window() -> None:
    mix = mix_of([600, 400], [Fraction(1, 4), Fraction(3, 4)], n_windows=2, n_updates=30)
    at = mix.after(Position(), step=20)
    assert at == Position(window=1)
    left = mix.after(at, n_pairs=100, step=30)
    assert left == Position(0, 1, 1, stage_step=30, stage_pairs=600, drawn=(150, 450))
    assert mix.span(left) == (600, 1000)
    assert mix.takes(left) == [(150, 390), (450, 610)]
    assert mix.after(left, step=99) == Position(1, 0, 1, stage_pairs=600, drawn=(150, 450))
    assert mix.after(at, step=30).epoch == 1  # after the last update of a window it is the next one


# --- from a config and a manifest ---------------------------------------------------------------


@pytest.mark.parametrize("sharded", [True, False])
def test_data_directory_lists_corpora_with_rows_and_repeats(sharded: bool) -> None:
    found = train_corpora(manifest_of([10, 7], [1, 3], sharded))
    of_shards = [("file0", (Run(0, 5), Run(5, 5)), 1), ("file1", (Run(10, 4), Run(14, 3)), 3)]
    whole = [("file0", (Run(0, 10),), 1), ("file1", (Run(10, 21),), 1)]
    assert [(one.name, one.runs, one.repeat) for one in found.values()] == (of_shards if sharded else whole)
    mix = mix_of_config(config_of(None, None), {"de-en": manifest_of([10, 7], [1, 3], sharded)})
    assert mix.n_pairs == 31 and mix.stages[0].shares == (Fraction(10, 31), Fraction(21, 31))
    assert (mix.takes(Position())) == [(0, 10), (0, 21)]


def test_data_directory_without_corpora_is_one_corpus() -> None:
    manifest = manifest_of([10, 7], [1, 3], False).model_copy(update={"sources": None})
    (corpus,) = train_corpora(manifest).values()
    assert corpus.runs == (Run(0, 31),)
    with pytest.raises(ConfigError, match=r"data.train.1: the data directory has no pairs of this corpus"):
        mix_of_config(config_of(1.0, 2.0), {"de-en": manifest})
    with pytest.raises(ConfigError, match="lacks a corpus of the data directory, file1"):
        mix_of_config(config_of(1.0), {"de-en": manifest_of([10, 7], [1, 3], True)})


@pytest.mark.parametrize(("temperature", "share"), [(1.0, 0.9), (2.0, 0.75), (1e9, 0.5)])
def test_temperature_evens_the_shares(temperature: float, share: float) -> None:
    mix = mix_of_config(
        config_of(None, None, temperature=temperature), {"de-en": manifest_of([900, 100], [1, 1], True)}
    )
    assert float(mix.stages[0].shares[0]) == pytest.approx(share, abs=1e-6) and sum(mix.stages[0].shares) == 1


@pytest.mark.parametrize("sharded", [True, False])
def test_corpus_without_pairs_has_no_share_unless_weighted(sharded: bool) -> None:
    manifests = {"de-en": manifest_of([400, 0, 100], [1, 1, 1], sharded)}
    mix = mix_of_config(config_of(None, None, None, temperature=2), manifests)
    assert [corpus.name for corpus in mix.corpora] == ["a", "c"]
    assert mix.stages[0].shares == (Fraction(2, 3), Fraction(1, 3))
    stages: list[dict[str, object]] = [{"weights": {"a": 1, "c": 3}, "steps": 5}, {}]
    mix = mix_of_config(config_of(None, None, None, stages=stages), manifests)
    assert [stage.shares[0] for stage in mix.stages] == [Fraction(1, 4), Fraction(4, 5)]
    stages[0]["weights"] = {"a": 1, "b": 1}
    for config in (config_of(1.0, 2.0, 3.0), config_of(None, None, None, stages=stages)):
        with pytest.raises(ConfigError, match=r"data\.train\.1: .*remove it from the config"):
            mix_of_config(config, manifests)


def test_config_stages_set_shares_and_steps() -> None:
    stages = [
        {"weights": {"a": 3, "b": 1}, "steps": 5}, {"temperature": 2, "steps": 6},
        {"weights": {"b": 1}, "steps": 7}, {},
    ]  # fmt: skip
    mix = mix_of_config(
        config_of(None, None, stages=stages, max_steps=1000), {"de-en": manifest_of([900, 100], [1, 1], True)}
    )
    assert [stage.shares[0] for stage in mix.stages] == [Fraction(3, 4), Fraction(3, 4), 0, Fraction(9, 10)]
    assert [stage.n_updates for stage in mix.stages] == [5, 6, 7, None]


@pytest.mark.parametrize(
    ("weight", "n", "sharded", "n_windows"),
    [(None, 101, True, 11), (1.0, 100, False, 10), (None, 101, False, 1), (None, 2, True, 1)],
)
def test_large_epoch_has_several_windows(
    weight: float | None, n: int, sharded: bool, n_windows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixing, "WINDOW_PAIRS", 10)
    assert mix_of_config(config_of(weight), {"de-en": manifest_of([n], [1], sharded)}).n_windows == n_windows


# --- The stream of a corpus ---


sizes = st.lists(st.integers(1, 40), min_size=1, max_size=5)


def runs_of(sizes: list[int], first: int = 0) -> tuple[Run, ...]:
    """Return consecutive runs of these sizes."""
    starts = first + np.cumsum([0, *sizes])
    return tuple(Run(int(start), n) for start, n in zip(starts, sizes, strict=False))


def rows_of(stream: Stream, start: int, stop: int) -> list[int]:
    """Return the rows of a part of a stream."""
    return [
        row
        for firsts, ns in stream.take(start, stop)
        for a, n in zip(firsts, ns, strict=True)
        for row in range(a, a + n)
    ]


@given(sizes, st.integers(1, 9), st.lists(st.integers(0, 200), min_size=2, max_size=6))
def test_pass_has_every_pair_once(sizes: list[int], block: int, cuts: list[int]) -> None:
    stream, n = Stream(runs_of(sizes, first=7), (3, 0), block), sum(sizes)
    cuts = sorted([0, *cuts, 5 * n])
    parts = [rows_of(stream, start, stop) for start, stop in itertools.pairwise(cuts) if stop <= 5 * n]
    rows = [row for part in parts for row in part]
    passes = [rows[start : start + n] for start in range(0, len(rows) - n + 1, n)]
    assert passes and all(sorted(one) == list(range(7, 7 + n)) for one in passes)


def test_blocks_are_shuffled_whole() -> None:
    stream = Stream(runs_of([20, 18]), (1, 0), 4)
    rows = rows_of(stream, 0, 38)
    blocks = [sorted(rows).index(row) for row in rows if row in (0, 4, 8, 12, 16, 20, 24, 28, 32, 36)]
    assert all(rows[rows.index(start) + 1] == start + 1 for start in (0, 4, 8, 12, 16, 20, 24, 28, 32, 36))
    assert blocks != sorted(blocks)
    assert {row < 20 for row in rows[:18]} in ({True}, {False})  # one shard after the other


@given(sizes, st.integers(1, 9))
def test_segments_return_rows_of_window(sizes: list[int], block: int) -> None:
    stream, n = Stream(runs_of(sizes), (3, 0), block), sum(sizes)
    segments = Segments(list(stream.take(n // 3, n // 3 + 2 * n)), n)
    assert len(segments) == 2 * n
    order = np.random.default_rng(0).permutation(2 * n)
    expected = np.array(rows_of(stream, n // 3, n // 3 + 2 * n))
    assert segments.rows(order).tolist() == expected[order].tolist()
    assert len(Segments([], 5)) == 0
