"""What `nmt config --explain` prints of settings."""

import re

import pytest

from nmt.config.explanation import KNOWN, MAY_CHANGE, explain
from nmt.config.load import load_config
from nmt.config.messages import field_paths
from nmt.errors import ConfigError
from nmt.files.yaml12 import parse_yaml
from places import ROOT

KEYS = [key for key in field_paths() if "*" not in key]


def measured() -> dict[str, str]:
    known = parse_yaml(KNOWN.read_text(encoding="utf-8"), "known.yaml")
    assert isinstance(known, dict)
    return known


def test_explanation_has_values_default_meaning_and_shipped_configs() -> None:
    text = explain("training.peak_lr")
    assert text.startswith("training.peak_lr: number > 0; default: 0.0007\n") and "Peak learning rate" in text
    assert f"{load_config('multi30k.yaml').training.peak_lr} in multi30k.yaml" in text.replace("\n", " ")


@pytest.mark.parametrize(
    ("part", "key"),
    [("peak_lr", "training.peak_lr"), ("lr", "training.peak_lr"), ("label", "training.label_smoothing"),
     ("data.valid.path", "path")],
)  # fmt: skip
def test_setting_is_found_by_a_part_of_its_name(part: str, key: str) -> None:
    assert explain(part) == explain(key)


@pytest.mark.parametrize(("key", "named"), [("dropout", True), ("training.", False)])
def test_settings_with_a_part_in_common_are_named_if_they_are_few(key: str, named: bool) -> None:
    with pytest.raises(ConfigError) as refused:
        explain(key)
    assert ("model.embedding_dropout or " in str(refused.value)) is named
    assert str(refused.value).count(" or ") < 8


def test_setting_of_a_corpus_is_explained() -> None:
    assert explain("path").startswith("path: text; required\n")


def test_explanation_says_whether_a_resumed_run_may_change_the_setting() -> None:
    assert "it may change when a run is resumed" in explain("training.max_steps")
    assert "it cannot change when a run is resumed" in explain("training.seed")


@pytest.mark.parametrize("key", ["training.peak_rl", "dropout", "", "training.", "..", "model.d_model.x"])
def test_unknown_or_ambiguous_setting_is_an_error(key: str) -> None:
    with pytest.raises(ConfigError, match="no such setting"):
        explain(key)


def test_every_setting_is_explained_without_markdown() -> None:
    for key in KEYS:
        text = explain(key)
        assert re.match(rf"({re.escape(key)}|{key.rpartition('.')[2]}): ", text)
        assert not re.search(r"`|\]\(|\\[*_\[]|&lt;", text), text


def test_measured_and_changeable_settings_exist() -> None:
    assert measured().keys() - {"data.clean"} | MAY_CHANGE <= {*KEYS}
    for key, text in measured().items():
        assert text.split()[0] in explain(key)


def test_page_of_each_measurement_exists() -> None:
    for key, text in measured().items():
        path, _, anchor = text.rsplit(" ", 1)[1].partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
        anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in anchors, key
