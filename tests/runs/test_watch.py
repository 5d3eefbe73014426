"""Test sets that are scored at each validation (`training.watch`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fitting import start
from kept_run import settings
from nmt.data.batching import Pairs
from nmt.data.corpus import Corpus, lines_of
from nmt.errors import ConfigError
from nmt.layout import DataDir
from nmt.prepare.prepare import prepare
from nmt.training import validate
from nmt.training.loss import cross_entropy
from tiny_corpus import tiny_settings, tiny_text

pytestmark = pytest.mark.usefixtures("quick")


def test_line_of_watched_set_without_positions_raises_before_training(tmp_path: Path) -> None:
    tiny_text(tmp_path / "text", n_train=60)
    for language in ("aa", "bb"):
        with (tmp_path / "text" / f"test.{language}").open("a", encoding="utf-8") as file:
            file.write("mali bore " * 60 + "\n")
    model: dict[str, object] = {"positions": "learned", "max_positions": 110}
    plain, watching = (
        tiny_settings(tmp_path / "text", model=model, training={"watch": names}) for names in ([], ["test"])
    )
    prepare(plain, tmp_path / "data", echo=lambda _: None)
    with pytest.raises(ConfigError, match=r"model\.max_positions: 110 .* test \(training\.watch\)"):
        start(watching, tmp_path / "data", tmp_path / "run", resume=False)
    assert not (tmp_path / "run").exists()
    start(plain, tmp_path / "data", tmp_path / "run", resume=False)


def test_all_scores_of_watched_set_are_of_its_first_lines(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate, "WATCHED_LINES", 3)
    session = start(settings(data, watch=["test"]), data, tmp_path / "run", resume=False)
    found = session.watched["test"].validate(session.model)
    split = Corpus.open(DataDir(data)).split("test")
    first = Pairs(lines_of(split, "aa"), lines_of(split, "bb")).batch(np.arange(3))
    expected = cross_entropy(session.model.eval(), first, label_smoothing=0.0)
    assert len(found.translations) == 3 < split.n
    assert found.perplexity == pytest.approx(expected.perplexity, rel=1e-5)
