"""What `nmt config --explain` prints of settings."""

import re

import pytest

from nmt.config.load import load_config
from nmt.config.messages import field_paths
from nmt.config.settings import MAY_CHANGE, explain, known
from nmt.errors import ConfigError
from places import ROOT


def test_explanation_has_values_default_meaning_and_shipped_configs() -> None:
    text = "\n".join(explain("training.peak_lr"))
    assert text.startswith("training.peak_lr: number > 0; default: 0.0007\n")
    assert "Peak learning rate" in text
    assert f"{load_config('multi30k.yaml').training.peak_lr} in multi30k.yaml" in text.replace("\n", " ")


def test_setting_is_found_by_its_last_part_and_without_indices() -> None:
    assert explain("peak_lr") == explain("training.peak_lr")
    assert explain("data.train.0.path") == explain("data.train.path") == explain("data.train.*.path")


def test_setting_of_a_source_is_required_and_has_no_default() -> None:
    assert explain("data.train.path")[0] == "data.train.*.path: text; required"


@pytest.mark.parametrize("section", ["model", "data.clean"])
def test_section_lists_its_settings(section: str) -> None:
    text = "\n".join(explain(section))
    for key in field_paths():
        if key.startswith(f"{section}."):
            assert f"{key} (" in text


def test_explanation_says_whether_a_resumed_run_may_change_the_setting() -> None:
    texts = {key: " ".join(explain(key)) for key in ("training.max_steps", "training.seed")}
    assert "may change when a run is resumed" in texts["training.max_steps"]
    assert "cannot change when a run is resumed" in texts["training.seed"]


@pytest.mark.parametrize("key", ["training.peak_rl", "lr", "files", "", "training.", "..", "model.d_model.x"])
def test_unknown_or_ambiguous_setting_is_an_error(key: str) -> None:
    with pytest.raises(ConfigError, match="no such setting"):
        explain(key)


def test_every_setting_can_be_explained() -> None:
    for key in field_paths():
        assert explain(key)[0].startswith(key)


def test_measured_and_changeable_settings_exist() -> None:
    keys = {key.replace(".*", "") for key in field_paths()} | {"data.clean"}
    assert known().keys() <= keys
    assert keys >= MAY_CHANGE


def test_page_of_each_measurement_exists() -> None:
    for key, text in known().items():
        path, _, anchor = text.rsplit(" ", 1)[1].partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
        anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in anchors, key
