"""Every setting is read in each mode, unless nmt/config/modes.tsv refuses it there.

Short trainings and translations record which settings they read. What they do not notice: a setting that is read and
then not used, one that is refused although it has an effect, a mode that has no case below, and settings of sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kept_run import quicken
from labelled import TEST, TRAIN, VALID, labelled_config, write_reviews
from nmt.config import Config
from nmt.config.modes import unread
from nmt.data.sources import Source
from nmt.prepare.prepare import prepare
from nmt.section import Section
from nmt.training.plan import TrainingPlan
from nmt.training.start import fit
from nmt.translate.loading import Translator
from tiny_corpus import tiny_settings

SHORT = {"max_steps": 2, "warmup_steps": 1, "validate_every_steps": 2, "save_every_steps": 2, "max_tokens": 1000}
TRAININGS: dict[str, tuple[str, dict[str, Any]]] = {
    "noam": ("translation", {}),
    "cosine": ("translation", {"schedule": "cosine", "consistency": "simcut"}),
    "linear": ("decoder", {"schedule": "linear", "consistency": "rdrop", "optimizer": "muon"}),
    "constant": ("translation", {"schedule": "constant", "objective": "denoising"}),
    "inverse_sqrt": ("encoder", {"schedule": "inverse_sqrt", "objective": "masked", "optimizer": "adam"}),
    "causal": ("decoder", {"objective": "causal"}),
    "classification": ("encoder", {"objective": "classification"}),
}
SEARCHES: dict[str, list[str]] = {
    "beam": [],
    "greedy": ["search.beam=1"],
    "sample": ["search.sample=true"],
    "diverse": ["search.diversity_groups=2"],
    "no penalty": ["search.length_penalty=0"],
}
ELSEWHERE = {
    "training.run_dir": "before training, and replaced by --run",
    "training.exchange_precision": "with several processes",
    "search.exact_matches": "with --tm",
    "search.patience": "with several beams, which greedy search has with terms",
}
"""Settings that are read only in other cases, and when."""


@contextmanager
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[int, str]]]:
    """Yield a set that gets the class and the name of each setting that is read meanwhile."""
    names = set[tuple[int, str]]()

    def read(section: Section, name: str) -> Any:
        names.add((id(type(section)), name))
        return object.__getattribute__(section, name)

    with monkeypatch.context() as patch:
        patch.setattr(Section, "__getattribute__", read)
        yield names


def not_read(config: Config, names: set[tuple[int, str]], *sections: str) -> set[str]:
    """Return the settings of sections that should have been read, but were not."""
    refused = {setting.key for setting in unread(config.model_dump())}
    missing = set[str]()
    for section in sections:
        kind = type(getattr(config, section))
        for name in kind.model_fields:
            value = getattr(getattr(config, section), name)
            is_section = isinstance(value, Section) and not isinstance(value, Source)
            fields = type(value).model_fields if is_section else {"": None}
            for inner in fields:
                key = f"{section}.{name}.{inner}".removesuffix(".")
                owner, last = (type(value), inner) if inner else (kind, name)
                if key not in refused and (id(owner), last) not in names:
                    missing.add(key)
    return missing - ELSEWHERE.keys()


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labelled")
    for name, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        write_reviews(folder, name, pairs)
    prepare(labelled_config(folder), folder / "data", echo=lambda _: None)
    return folder


@pytest.mark.parametrize("case", TRAININGS)
def test_training_reads_every_setting_that_is_not_refused(
    case: str, tiny_data: Path, text: Path, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    kind, training = TRAININGS[case]
    model = {"kind": kind}
    data = tiny_data
    if case == "classification":
        data = labelled / "data"
        config = labelled_config(labelled, training={**SHORT, **training}, model={**model, "d_model": 32})
    else:
        config = tiny_settings(text, training={**SHORT, **training}, model=model)
    plan = TrainingPlan.of(config, data, tmp_path / "run")
    with reads(monkeypatch) as names:
        fit(plan)
    assert not_read(config, names, "model", "training") == set()
    if case == "noam":
        for search, overrides in SEARCHES.items():
            translator = Translator.load(tmp_path / "run").with_search(overrides)
            with reads(monkeypatch) as names:
                translator.translate(["ba da", "bu bi bo"])
            assert not_read(translator.config, names, "search") == set(), search


def test_preparing_and_training_read_every_setting_of_the_text(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    config = tiny_settings(text, training=SHORT, data={"dir": str(tmp_path / "data")})
    with reads(monkeypatch) as names:
        prepare(config, config.data.directory, echo=lambda _: None)
        fit(TrainingPlan.of(config, run=tmp_path / "run"))
    assert not_read(config, names, "data", "tokenizer") == set()
