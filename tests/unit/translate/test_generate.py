"""Text from an untrained language model: what is read of a beginning, and where lines end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nmt.config import SearchConfig
from nmt.errors import ConfigError, DataError
from nmt.model.stacks import DecoderModel
from nmt.runs.model import Origin
from nmt.text.tokenizer import Tokenizer
from nmt.translate.generate import Generator, generate_file
from nmt.translate.language_model import LanguageModel
from tiny_run import PLAIN, tiny_config

SAMPLES = SearchConfig(sample=True, max_length=9)


@pytest.fixture(scope="module")
def language_model(tokenizer: Tokenizer) -> LanguageModel:
    config = tiny_config(kind="decoder", positions="learned", max_positions=60)
    torch.manual_seed(3)
    model = DecoderModel(config.model, len(tokenizer)).eval()
    return LanguageModel(model, tokenizer, config, torch.device("cpu"), "float32", Origin(Path("run"), 1, "raw", ""))


def test_samples_depend_on_the_number_of_the_line_alone(language_model: LanguageModel) -> None:
    beginnings = ["mali", "", "  ", *PLAIN, "mali"]
    together = list(Generator(language_model, SAMPLES, 3).lines(beginnings))
    assert [len(lines) for lines in together] == [3] * len(beginnings)
    for beginning, lines in zip(beginnings, together, strict=True):
        assert all(line.startswith(beginning.strip()) for line in lines)
    assert together[0] != together[-1]
    tight = SAMPLES.model_copy(update={"batch_sentences": 2})
    assert list(Generator(language_model, tight, 3).lines(beginnings)) == together
    assert [lines[:1] for lines in together] == list(Generator(language_model, SAMPLES, 1).lines(beginnings))


def test_lines_end_at_the_maximum_length(
    language_model: LanguageModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = Generator(language_model, SAMPLES, 40)
    generate_file(generator, None, tmp_path / "out", prefix="mali")
    assert (tmp_path / "out").read_text(encoding="utf-8").count("\n") == 40
    assert capsys.readouterr().err == "nmt: 40 lines were cut off at the maximum length (search.max_length)\n"
    longer = Generator(language_model, SAMPLES.model_copy(update={"max_length": 55}), 40)
    list(longer.lines([""]))
    assert 0 < longer.n_unfinished < 40 == generator.n_unfinished


def test_a_beginning_must_leave_positions(language_model: LanguageModel) -> None:
    with pytest.raises(DataError, match=r"line 2: has \d+ pieces, more than the model has positions for .* = 60\)"):
        list(Generator(language_model, SAMPLES, 1).lines(["bo", " ".join(PLAIN * 5)]))


@pytest.mark.parametrize(
    ("search", "problem"),
    [
        (SearchConfig(lm="runs/lm"), r"search\.lm: is of translations"),
        (SearchConfig(protect=True), r"search\.protect: is of translations"),
        (SearchConfig(coverage_penalty=0.2), r"coverage_penalty: model\.kind: decoder has no attention"),
        (SearchConfig(beam=2), r"n_best: 3 needs a beam of at least 3"),
    ],
)
def test_settings_of_translations_are_refused(
    language_model: LanguageModel, search: SearchConfig, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        Generator(language_model, search, 3)
