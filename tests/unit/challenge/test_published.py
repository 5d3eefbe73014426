"""Sets of contrasts that others have made, and what is wrong with files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.evaluate.challenge import read_contrastive, read_published, without_equal
from nmt.evaluate.contrasts.contrasts import Contrast

LINGEVAL = [
    {
        "source": "The dog barks",
        "reference": "Der Hund bellt",
        "origin": "newstest2009.1",
        "errors": [
            {"type": "np_agreement", "contrastive": "Die Hund bellt", "distance": 1, "frequency": 2020},
            {"type": "polarity_particle_nicht_ins", "contrastive": "Der Hund bellt nicht"},
        ],
    },
    {"source": "Hello", "reference": "Hallo", "origin": "newstest2009.2", "errors": []},
]
CONTRAPRO = [
    {
        "document id": "1.xml", "segment id": 3, "ante distance": 1, "intrasegmental": False,
        "src segment": "It barks.", "ref segment": "Er bellt.", "src pronoun": "It", "ref pronoun": "Er",
        "errors": [
            {"contrastive": "Sie bellt.", "type": "pronominal coreference", "replacement": "sie"},
            {"contrastive": "Es bellt.", "type": "pronominal coreference", "replacement": "es"},
        ],
    }
]  # fmt: skip


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_lingeval97_has_one_contrast_per_error(tmp_path: Path) -> None:
    contrasts, n_entries = read_published(write(tmp_path / "lingeval97.json", LINGEVAL))
    assert n_entries == 2
    assert contrasts == [
        Contrast("np_agreement", "The dog barks", "Der Hund bellt", ("Die Hund bellt",), "newstest2009.1"),
        Contrast(
            "polarity_particle_nicht_ins", "The dog barks", "Der Hund bellt", ("Der Hund bellt nicht",),
            "newstest2009.1",
        ),
    ]  # fmt: skip


def test_contrapro_has_one_contrast_per_line(tmp_path: Path) -> None:
    contrasts, n_entries = read_published(write(tmp_path / "contrapro.json", CONTRAPRO))
    assert n_entries == 1
    assert contrasts == [Contrast("it:er", "It barks.", "Er bellt.", ("Sie bellt.", "Es bellt."), "contrapro.json.1")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2", "the document: invalid json: eof while parsing a list at line 1 column 5; it must be"),
        ('[{"source": "\\ud800", "reference": "", "errors": []}]', "the document: invalid json: "),
        ("{}", "the document: input should be a valid array; it must be the JSON of LingEval97 or ContraPro"),
        ([*LINGEVAL, {"source": "a"}], "entry 3, reference: field required; it must be"),
        ([{**LINGEVAL[0], "errors": [{"type": "x"}]}], "entry 1, errors.0.contrastive: field required; it must be"),
        ([{**LINGEVAL[0], "source": 1}], "entry 1, source: input should be a valid string; it must be"),
    ],
)
def test_malformed_files_raise(tmp_path: Path, content: object, message: str) -> None:
    path = write(tmp_path / "pairs.json", content)
    with pytest.raises(DataError) as error:
        read_published(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none: no such file"):
        read_published(tmp_path / "none")
    with pytest.raises(DataError, match="none: no such file"):
        read_contrastive(tmp_path / "none", tmp_path / "none", tmp_path / "none")


def test_aligned_files_pair_line_by_line(tmp_path: Path) -> None:
    source, reference = write(tmp_path / "src", "a\nb\n"), write(tmp_path / "ref", "c\nd\n")
    contrasts = read_contrastive(source, reference, write(tmp_path / "wrong", "x\nd\n"))
    assert contrasts == [
        Contrast("contrastive", "a", "c", ("x",), "ref.1"),
        Contrast("contrastive", "b", "d", ("d",), "ref.2"),
    ]
    assert without_equal(contrasts) == (contrasts[:1], 1)
    with pytest.raises(DataError, match=r"src has 2 lines, short 1: they must pair line by line"):
        read_contrastive(source, reference, write(tmp_path / "short", "x\n"))
