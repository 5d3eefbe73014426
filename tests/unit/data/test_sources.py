"""Tests of the licences of corpora."""

from __future__ import annotations

import pytest

from nmt.config.load import load_config
from nmt.data.sources import TrainPath, joint_license
from nmt.errors import ConfigError
from nmt.prepare.pipeline.clean import cleaning_settings
from nmt.prepare.recipe import recipe


def test_licences_do_not_affect_preparation() -> None:
    stated, not_stated = load_config("sample.yaml"), load_config("sample.yaml").without_licenses()
    assert [source.license for _, source in stated.data.sources()] == ["MIT"] * 3
    assert [source.license for _, source in not_stated.data.sources()] == [None] * 3
    mono = {"de": [TrainPath(path="de.txt", license="CC0")]}
    data = stated.data.model_copy(update={"valid": 9, "mono": mono}).without("license")
    assert (data.valid, data.mono["de"][0].license) == (9, None)
    assert recipe(stated.data, stated.tokenizer) == recipe(not_stated.data, not_stated.tokenizer)
    assert cleaning_settings(stated.data) == cleaning_settings(not_stated.data)


def test_joint_license_lists_licences_of_sources() -> None:
    stated = load_config("sample.yaml").data.train[0]
    unknown = stated.model_copy(update={"license": None})
    cases = ([stated, stated], [stated, unknown, unknown], [unknown, unknown])
    assert [joint_license(sources) for sources in cases] == ["MIT", "MIT, not stated", None]


def test_blank_licence_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"data\.train\.0\.license: is blank: state the licence, such as CC BY 4\.0"):
        load_config("sample.yaml", ["data.train=[{files: {de: a, en: b}, license: ' '}]"])
