"""Tests of Argos Translate packages, which the real `argostranslate` installs and uses."""

from __future__ import annotations

import json
import os
import urllib.request
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from command import Command
from export_run import write_run
from nmt.errors import ConfigError, DataError
from nmt.runs.model import open_saved
from nmt.share.export import SPLITTER, ExportOptions, export_argos, language_code
from nmt.text.split import split
from places import GOLDEN
from scripts.checks import argos as check

SENTENCES = [
    ["Es geht."], ["Geht es?", "Ja!", "Gut."], ["Er kam z. B. am 3. Mai mit Dr. Smith."], ["Das war 2010.", "Nein."],
    ['Sie sagte: "Komm!" und ging.'], ["Er ging (heim.)", "„Na so was!“", "Und „komm“."], ["usw. und so fort"],
    ["Das... ist es.", "So… „gut.“"], ["今日は。", "そう「です。」", "はい！"], ["Siehe www.example.org.", "Danke."],
    ["NRW.", "Bzw. das."], ["¿Qué?", "¡Sí!", "Να το.", "Ещё раз."], ["Nur ein Wort"], ["a b"],
]  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a package folder of Argos Translate, which must be chosen before it is imported."""
    folder = tmp_path_factory.mktemp("argos")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "ARGOS_PACKAGES_DIR"):
            patch.setenv(name, str(folder / name))
        patch.setenv("ARGOS_COMPUTE_TYPE", "float32")
        patch.setenv("KMP_DUPLICATE_LIB_OK", os.environ.get("KMP_DUPLICATE_LIB_OK", "True"))  # argostranslate sets it
        import argostranslate.settings  # noqa: F401

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("a download")

        patch.setattr(urllib.request, "urlopen", refuse)
        patch.setattr(urllib.request, "urlretrieve", refuse)
        yield folder / "ARGOS_PACKAGES_DIR"


def lines() -> list[str]:
    """Return lines of one sentence, of two, and with unusual spaces."""
    one: list[str] = json.loads((GOLDEN / "translations.json").read_text(encoding="utf-8"))["source"]
    return [*one, *(f"{a}. {b.capitalize()}!" for a, b in pairwise(one)), "", "  me mo ", "\tgo be"]


def test_argos_translate_agrees_with_ctranslate2_export(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
    monkeypatch.setattr(check, "isolate", lambda *_: None)  # it is isolated already
    check.main(["--run", str(GOLDEN / "run"), "--src", str(tmp_path / "text"), "--quantization", "float32"])
    by_split = [line.strip() for line in capsys.readouterr().out.splitlines() if "equal: " in line]
    assert by_split == ["equal: 22", "equal: 13, several sentences: 9"]
    [folder] = installed.iterdir()
    assert folder.name == "translate-aa_bb-nmt"
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata == {
        "package_version": "1.400", "argos_version": "1.11",
        "from_code": "aa", "from_name": "Afar", "to_code": "bb", "to_name": "bb",
    }  # fmt: skip
    card = (folder / "README.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    python = card.split("```python\n")[1].split("```")[0]
    exec(python.replace('package.install_from_path("FILE.argosmodel")', ""), names)


def test_separate_vocabularies_and_learned_positions_are_supported(installed: Path, tmp_path: Path) -> None:
    """The source tokenizer does not know the target's pieces, and a line is longer than the positions."""
    from argostranslate import package, tokenizer, translate

    run = write_run(tmp_path / "run", joint=False, tie_embeddings="target", positions="learned")
    path = export_argos(ExportOptions(run, check_lines=2), tmp_path / "x.argosmodel", "float32").path
    package.install_from_path(path)
    saved = open_saved(run).tokenizers
    theirs = tokenizer.SentencePieceTokenizer(installed / "translate-de_en-nmt" / "sentencepiece.model")
    for line in lines()[:-3]:
        assert theirs.encode(line) == saved["de"].pieces(saved["de"].encode(line))
        assert theirs.decode(saved["en"].pieces(saved["en"].encode(line))).removeprefix(" ") == line
    translation: Any = translate.get_translation_from_codes("de", "en")
    assert translation.from_lang.name == "German"
    assert translation.translate("me " * 2000) != ""


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ("de deu deu_Latn de_AT", "de"), ("zh zho_Hans zh_CN", "zh"), ("zh_TW zh_Hant zho_Hant zh_HK", "zt"),
        ("pt_BR por_BR", "pb"), ("pt por_Latn pt_PT", "pt"), ("ckb ckb_Arab", "ckb"), ("nob_Latn nb", "nb"),
    ],
)  # fmt: skip
def test_all_names_of_a_language_have_one_code(names: str, code: str) -> None:
    assert {language_code(name) for name in names.split()} == {code}


def test_equal_models_result_in_equal_packages(tmp_path: Path) -> None:
    found = [
        export_argos(ExportOptions(GOLDEN / "run"), tmp_path / f"{i}.argosmodel", "float32").path.read_bytes()
        for i in (1, 2)
    ]
    assert found[0] == found[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.argosmodel", "2.argosmodel"]


def test_export_command_reports_errors(tmp_path: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    run, out = GOLDEN / "run", tmp_path / "x.argosmodel"
    options = ("--quantization", "float16", "--license", "mit", "--run", run)
    done = nmt("export", "--format", "argos", *options, "--output", out)
    assert (done.status, done.out.splitlines()[-1]) == (0, f"{out}: written")
    with zipfile.ZipFile(out) as archive:
        assert json.loads(archive.read("translate-aa_bb-nmt/metadata.json"))["license"] == "mit"
    for again, problem in {out: "exists", tmp_path / "x.zip": "must end in .argosmodel"}.items():
        refused = nmt("export", "--format", "argos", "--run", run, "--output", again)
        assert (refused.status, problem in refused.err, refused.err.count("\n")) == (2, True, 1)

    learned = write_run(tmp_path / "learned", positions="learned", max_positions=600)
    with pytest.raises(ConfigError, match="600 pieces"):
        export_argos(ExportOptions(learned), tmp_path / "y.argosmodel")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", fail)
    with pytest.raises(DataError, match=r"y.argosmodel: .*No space left"):
        export_argos(ExportOptions(run), tmp_path / "y.argosmodel", "float16")
    assert not [*tmp_path.glob(".y*"), *tmp_path.glob("y*")]


def test_splitter_agrees_with_nmt() -> None:
    from minisbd import SBDetect

    detector = SBDetect(str(SPLITTER), use_gpu=False)
    for sentences in SENTENCES:
        text = ("" if "。" in sentences[0] else " ").join(sentences)
        ours = [part for part, _ in split(text, lambda parts: [1] * len(parts), 9, 0)]
        assert (text, detector.sentences(text)) == (text, sentences)
        assert (text, ours) == (text, sentences)
    long = "Ein Satz, der nicht endet " * 100 + "und doch. Dann ein anderer."
    assert [len(sentence) for sentence in detector.sentences(long)][-1] == len("Dann ein anderer.")
    assert detector.sentences("") == []
