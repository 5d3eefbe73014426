"""Settings that come from options, `--set` and the config of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from logged_run import make_run
from nmt.cli.defaults import check_runs, search_settings
from nmt.config.load import changed_config, load_saved_config
from nmt.errors import ConfigError


@pytest.mark.parametrize("split", ["always", "long", "never"])
def test_auto_keeps_split_of_a_run(split: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [])
    config = changed_config(load_saved_config(run.config), [f"search.split={split}"])
    for overrides in (["search.split=auto"], ["search.split=never", "search.split=auto"]):
        assert search_settings(config, None, None, overrides).split == split
    assert search_settings(config, None, None, ["search.split=long"]).split == "long"


def test_beam_and_overrides_are_checked_together(tmp_path: Path) -> None:
    run, groups = make_run(tmp_path / "run", []), ["search.diversity_groups=3"]
    check_runs(run.path, groups, 6)
    search = search_settings(load_saved_config(run.config), 6, None, groups)
    assert (search.beam, search.diversity_groups) == (6, 3)
    assert search_settings(load_saved_config(run.config), 6, 0.5, ["search.beam=1", "search.length_penalty=2"]) == (
        search_settings(load_saved_config(run.config), 6, 0.5)
    ), "options precede --set"
    for beam in (None, 5):
        with pytest.raises(ConfigError, match="diversity_groups"):
            check_runs(run.path, groups, beam)
