"""Test sets that are scored at each validation (`training.watch`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.errors import ConfigError
from nmt.prepare.prepare import prepare
from nmt.training.setup.start import start
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
