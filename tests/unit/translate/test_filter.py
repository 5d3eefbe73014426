"""Tests of `nmt filter`: scores of all pairs in order, and the best pairs."""

from __future__ import annotations

import gzip
import math
import re
import shutil
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from command import Command, Result
from folders import Folder
from nmt.config.load import changed_config
from nmt.model.masks import Padded
from nmt.text.ids import EOS, SEPARATOR
from nmt.text.tokenizer import Tokenizer
from nmt.translate.filter import (
    PairClassifier,
    at_least,
    best,
    collect_scores,
    dual_cross_entropy,
    dual_score,
    odds_score,
)
from nmt.translate.loading import Translator
from nmt.translate.score import BLANK_SCORE, Scored
from tiny_run import PLAIN, tiny_config, tiny_model, words, write_classifier, write_run

REFS = [" ".join(words(n, seed=100 + n)) for n in (4, 1, 9, 2, 13, 6, 5, 3)]
PAIRS = list(zip(PLAIN, REFS, strict=True))


class Fake:
    """A fake translator for which each target has one piece, which reads windows of three pairs."""

    def score(self, pairs: Iterable[tuple[str, str]], progress: object = None) -> Iterator[Scored]:
        del progress
        stream = iter(pairs)
        while window := [pair for _, pair in zip(range(3), stream, strict=False)]:
            for src, tgt in window:
                is_blank = not (src.strip() and tgt.strip())
                yield BLANK_SCORE if is_blank else Scored(("x",), (-1.0,), math.nan, 1, tgt == "long")


def test_blank_and_long_pairs_are_counted() -> None:
    fake, pairs = cast(Translator, Fake()), [("a", ""), (" ", "b"), ("", ""), ("long", "b"), ("a", "long"), ("a", "b")]
    found = list(dual_cross_entropy(fake, fake, pairs))
    mean = pytest.approx(math.exp(-1))
    assert [(one.is_blank, one.cut, one.value) for one in found] == [
        *[(True, False, 0)] * 3, *[(False, True, mean)] * 2, (False, False, mean),
    ]  # fmt: skip
    out = BytesIO()
    scores = collect_scores(found, out)
    assert out.getvalue() == b"0\n0\n0\n0.367879\n0.367879\n0.367879\n"
    assert list(scores.values) == [0, 0, 0, 0.367879, 0.367879, 0.367879], "scores are rounded as in the file"
    scored, blank, long, quantiles = scores.lines()
    assert (scored, blank) == ("3 of 6 pairs scored", "3 pairs with a blank side, score 0: 1, 2, 3")
    assert long.startswith("2 pairs with more pieces on a side than the model supports") and long.endswith(": 4, 5")
    assert quantiles == "quantiles of the score: 5 % 0.368, 25 % 0.368, 50 % 0.368, 75 % 0.368, 95 % 0.368"


# --- the best pairs -----------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.9]), min_size=1, max_size=30), st.integers(1, 100))
def test_best_share_is_kept(values: list[float], percent: int) -> None:
    n = min(int(len(values) * percent / 100 + 0.5), sum(value > 0 for value in values))
    wanted = sorted(range(len(values)), key=lambda i: (-values[i], i))[:n]
    assert np.flatnonzero(best(np.array(values), percent / 100)).tolist() == sorted(wanted)


@pytest.mark.parametrize(
    ("least", "kept"), [(0.2, [True, False, True, False, True]), (0.0, [True, False, True, True, True])]
)
def test_at_least_excludes_score_zero(least: float, kept: list[bool]) -> None:
    assert at_least(np.array([0.5, 0.0, 0.2, 0.1, 0.2]), least).tolist() == kept


# --- the command --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with the runs de-en and en-de."""
    folder, config = tmp_path_factory.mktemp("runs"), tiny_config()
    for each, seed in ((config, 3), (changed_config(config, ["data.direction=en-de"]), 4)):
        write_run(folder / each.data.direction, each, tokenizer, tiny_model(each, tokenizer, seed))
    return folder


@pytest.fixture(scope="module")
def classifier(runs: Path, tokenizer: Tokenizer) -> Path:
    """Create a classifier of de-en pairs in the folder of the other runs."""
    return write_classifier(runs / "pairs", tokenizer)


def write(name: str, lines: Iterable[str]) -> None:
    Path(name).write_bytes("".join(f"{line}\n" for line in lines).encode())


def run_filter(nmt: Command, runs: Path, *options: object) -> Result:
    return nmt("filter", "--run", runs / "de-en", "--reverse", runs / "en-de", *options)


def test_filter_scores_combine_both_runs_in_order(nmt: Command, runs: Path) -> None:
    src, tgt = [*PLAIN, "", "mali", "u\u2028v"], [*REFS, "ta", " \t", "w"]
    write("a.de", src)
    write("a.en", tgt)
    result = run_filter(nmt, runs, "--src", "a.de", "--tgt", "a.en", "--output", "a.scores")
    assert (result.status, result.out) == (0, ""), result.err
    entropies = []
    for run, sides in (("de-en", ("a.de", "a.en")), ("en-de", ("a.en", "a.de"))):
        rows = nmt("score", "--run", runs / run, "--src", sides[0], "--ref", sides[1]).out.split("\n")[:-1]
        entropies.append(
            [-float(row.split("\t")[1]) for row in rows]
        )  # with the default length penalty, the mean per piece
    wanted = [dual_score(one, other) for one, other in zip(*entropies, strict=True)]
    assert sum(map(math.isnan, wanted)) == 2 and len({*wanted}) == 11
    found = [float(line) for line in Path("a.scores").read_text().splitlines()]
    assert found == pytest.approx([0 if math.isnan(one) else one for one in wanted], rel=1e-3)
    assert "nmt: 9 of 11 pairs scored\nnmt: 2 pairs with a blank side, score 0: 9, 10\n" in result.err
    assert run_filter(nmt, runs, "--src", "a.de", "--tgt", "a.en", "--output", "-").out == Path("a.scores").read_text()


def test_kept_pairs_keep_order(nmt: Command, runs: Path) -> None:
    write("a.de", PLAIN)
    write("a.en", REFS)
    texts = ("--src", "a.de", "--tgt", "a.en")
    result = run_filter(nmt, runs, *texts, "--output", "s", "--keep", "0.5", "--kept", "k.de", "k.en")
    assert result.status == 0, result.err
    scores = [float(line) for line in Path("s").read_text().splitlines()]
    threshold = sorted(scores)[4]
    wanted = [pair for pair, score in zip(PAIRS, scores, strict=True) if score >= threshold]
    kept = [Path(name).read_text(encoding="utf-8").splitlines() for name in ("k.de", "k.en")]
    assert list(zip(*kept, strict=True)) == wanted and len(wanted) == 4
    end = f"4 of 8 pairs (50.0%) are kept, with scores of at least {threshold:.6g}\n"
    assert result.err.endswith(end)

    again = run_filter(nmt, runs, *texts, "--min-score", threshold, "--kept", "m.de", "m.en")
    assert again.status == 0 and again.err.endswith(end)
    assert Path("m.de").read_bytes() == Path("k.de").read_bytes() and not Path("m.scores").exists()
    assert {path.name for path in Path().iterdir()} == {"a.de", "a.en", "s", "k.de", "k.en", "m.de", "m.en"}


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_prepare_drops_pairs_below_threshold(ending: str, nmt: Command, runs: Path, tmp_path: Path) -> None:
    """Compressed corpora are first copied to plain files, for which the scores stay the same."""
    place = Folder(tmp_path)
    texts = [tmp_path / "text" / f"train.{language}" for language in ("de", "en")]
    options = ("--output", tmp_path / "text" / "web.scores", "--keep", "0.75", "--kept", "kept.de", "kept.en")
    result = run_filter(nmt, runs, "--src", texts[0], "--tgt", texts[1], *options)
    threshold = re.search("180 of 240 pairs .* at least (.*)\n", result.err)
    assert threshold is not None, result.err
    if ending:
        for text in texts:
            Path(f"{text}.gz").write_bytes(gzip.compress(text.read_bytes()))
    source = {
        "files": {"de": f"train.de{ending}", "en": f"train.en{ending}"},
        "score": "web.scores",
        "clean": {"min_score": float(threshold[1])},
    }
    said = place.prepare(data__train=[source])
    assert place.manifest()["sources"]["train.0"]["dropped"] == {"score": 60}, said
    for language in ("de", "en"):
        prepared = (place.data / f"train.{language}").read_text(encoding="utf-8").splitlines()
        assert sorted(prepared) == sorted(Path(f"kept.{language}").read_text(encoding="utf-8").splitlines())


def test_filter_with_classifier_only_and_with_runs(nmt: Command, runs: Path, classifier: Path) -> None:
    write("a.de", [*PLAIN, "", "mali"])
    write("a.en", [*REFS, "ta", "mali " * 300])
    options = ("--src", "a.de", "--tgt", "a.en", "--output", "-")
    results = [
        run_filter(nmt, runs, *options),
        nmt("filter", "--classifier", classifier, *options),
        run_filter(nmt, runs, "--classifier", classifier, *options),
    ]
    dual, odds, both = ([float(line) for line in result.out.splitlines()] for result in results)
    assert len({*odds}) == 10 and dual[8] == odds[8] == both[8] == 0 and all(0 < score < 1 for score in odds[:8])
    ranks = [[sum(other <= score for other in scores) / 10 for score in scores] for scores in (dual, odds)]
    wanted = [(one + other) / 2 for one, other in zip(*ranks, strict=True)]
    assert both == pytest.approx([*wanted[:8], 0, wanted[9]], rel=1e-5)
    for result in results[1:]:
        assert "1 pair with a blank side, score 0: 9" in result.err
        assert "1 pair with more pieces on a side than the model supports" in result.err
    # the score is derived from the logits of the classifier
    judge = PairClassifier.load(classifier)
    ids = [judge.tokenizer.encode(line) for line in PAIRS[3]]
    sequence = torch.tensor([[*ids[0], SEPARATOR, *ids[1], EOS]])
    assert judge.model.head is not None
    with torch.no_grad():
        layout = Padded(sequence > 0)
        wrong, right = judge.model.head(judge.model.encoder(sequence, layout), layout)[0].tolist()
    assert odds[3] == pytest.approx(odds_score(right - wrong), rel=1e-4)


def test_unsuitable_runs_and_classifiers_raise(nmt: Command, runs: Path, classifier: Path) -> None:
    write("a.de", ["x"])
    write("a.en", ["y"])
    run, copy = runs / "de-en", shutil.copytree(runs / "de-en", "copy")
    back = ("--run", runs / "en-de", "--reverse", run)
    opposite = "translates de-en; specify a run of en-de, opposite to --run"
    for chosen, problem in (
        (("--run", run, "--reverse", run), f"--reverse {run}: {opposite}"),
        (("--run", run, "--reverse", copy), f"--reverse {copy}: {opposite}"),
        (("--run", run, "--reverse", runs / "none"), f"{runs}/none: no such directory; make one with nmt train"),
        ((*back, "--classifier", classifier), f"--classifier {classifier}: was trained on pairs of de-en"),
        (("--classifier", run), f"{run}: not a classifier of pairs"),
    ):
        result = nmt("filter", *chosen, "--src", "a.de", "--tgt", "a.en", "--output", "s")
        assert (result.status, result.out, result.err.count("\n")) == (2, "", 1), result.err
        assert result.err.startswith(f"nmt: {problem}") and not [*Path().glob("s*")]
