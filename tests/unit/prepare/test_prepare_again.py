"""`prepare` with an existing data directory: when it prepares again, and when it refuses."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import sentencepiece

from folders import TEST, TRAIN, Folder, files
from nmt.config.load import dump_config
from nmt.data.corpus import Corpus
from nmt.errors import ConfigError, DataError
from nmt.layout import DataDir, RunDir
from nmt.prepare import build as module
from nmt.prepare.recipe import check_replaceable, unlike
from nmt.runs.info import RunInfo, write_info


@pytest.fixture
def place(prepared: Folder) -> Folder:
    return prepared


def test_both_directions_produce_equal_bytes(place: Folder) -> None:
    first = place.content()
    assert "nothing to do" in place.prepare(direction="en-de")
    shutil.rmtree(place.data)
    place.prepare(direction="en-de")
    assert place.content() == first


def test_unchanged_config_prepares_nothing(place: Folder) -> None:
    times = {path: path.stat().st_mtime_ns for path in place.data.rglob("*")}
    assert place.prepare() == f"{place.data} is up to date with 240 training pairs: nothing to do"
    assert {path: path.stat().st_mtime_ns for path in place.data.rglob("*")} == times
    assert "nothing to do" in place.prepare(training__seed=7, data__dir="elsewhere")
    assert "nothing to do" in place.prepare(data__train=[files("train") | {"license": "CC BY 4.0"}])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tokenizer__vocab_size": 350}, "tokenizer.vocab_size was 400, is 350"),
        ({"data__max_chars": 40}, "data.max_chars was 1000, is 40"),
        ({"data__test": {}}, "data.test.test was removed"),
        ({"data__test": {"test": files("test"), "more": files("valid")}}, "data.test.more was added"),
        ({"data__train": [files("train") | {"name": "n"}]}, "data.train.0.name was added"),
        ({"data__train": [files("train") | {"repeat": 2}]}, "data.train.0.repeat was 1, is 2"),
        ({"tokenizer__joint": False, "model__tie_embeddings": "none"}, "tokenizer.joint was true, is false"),
    ],
)
def test_changed_config_prepares_again(place: Folder, changes: dict[str, Any], said: str) -> None:
    before = place.corpus().fingerprint
    assert place.prepare(**changes).split("\n")[0] == f"preparing {place.data} again: {said}"
    assert "nothing to do" in place.prepare(**changes)
    assert (place.corpus().fingerprint == before) == ("name" in said)
    assert place.left() == {"data"}


@pytest.mark.parametrize("is_needed", [True, False])
def test_directory_in_use_is_replaced_only_with_force(place: Folder, is_needed: bool) -> None:
    before = place.content()
    french = {"files": {"de": "train.de", "fr": "train.en"}}
    changes: dict[str, Any] = {"direction": "de-fr", "data__train": [french], "data__valid": 0.1, "data__test": {}}
    if is_needed:
        run = RunDir(place.folder / "runs" / "trained")
        run.path.mkdir(parents=True)
        info = RunInfo(format=1, data_dir="", corpus=place.corpus().fingerprint, tokenizer="", precision="float32")
        write_info(run, info)
        changes = {"data__max_chars": 40}
    changes["training__run_dir"] = str(place.folder / "runs" / "mine")
    assert re.search("240 training pairs of de-en.*--force", place.refused(**changes))
    assert place.content() == before
    assert "again: " in place.prepare(force=True, **changes)


def test_manifest_of_earlier_version_is_up_to_date(place: Folder) -> None:
    manifest = place.manifest()
    del manifest["config"]["data"]["max_ratio"]
    manifest["config"]["data"]["valid"]["stream"] = False  # a removed setting without effect
    (place.data / "manifest.json").write_text(json.dumps(manifest))
    assert "nothing to do" in place.prepare()
    assert "again: data.max_ratio was 4.0, is 3.0\n" in place.prepare(data__max_ratio=3.0)


@pytest.mark.parametrize(
    ("clean", "said"),
    [
        ({"repair_spaces": True}, "data.clean.repair_spaces was removed in 0.2.0"),
        ({"near_duplicates": True}, "data.clean.near_duplicates was removed in 0.2.0"),
        ({"overlap_sides": "either"}, "data.clean.overlap_sides was removed in 0.2.0"),
        ({"max_ratio_spread": 2.5}, "data.clean.max_ratio_spread was removed in 0.2.0"),
        ({"of_a_later_version": True}, "data.clean.of_a_later_version was removed"),
    ],
)
def test_directory_cleaned_with_settings_that_are_unknown_is_prepared_again(
    place: Folder, clean: dict[str, object], said: str
) -> None:
    manifest = place.manifest()
    manifest["config"]["data"]["clean"] = clean
    (place.data / "manifest.json").write_text(json.dumps(manifest))
    warning = unlike(DataDir(place.data), place.config())
    assert warning is not None and f"was prepared, unlike the config: {said}" in warning
    assert place.prepare().startswith(f"preparing {place.data} again: {said}")
    assert "nothing to do" in place.prepare()


def test_changed_file_prepares_again(place: Folder) -> None:
    before = place.corpus().fingerprint
    place.write(test=[*TEST, ("neu", "new")])
    assert place.prepare().startswith(f"preparing {place.data} again: test.de has changed; test.en has changed\n")
    assert place.corpus().split("test").n == 31 and place.corpus().fingerprint != before


def test_damaged_directory_is_prepared_again(place: Folder) -> None:
    first = place.content()
    (place.data / "valid.en").write_bytes(first["valid.en"][:-5])
    assert "valid.en: " in place.prepare().split("\n")[0]
    assert place.content() == first
    (place.data / "tokenizer" / "joint.model").unlink()
    assert "joint.model: no such file" in place.prepare().split("\n")[0]
    assert place.content() == first


@pytest.mark.parametrize("name", ["/", ".", "..", "~", "HOME"])
def test_directory_with_foreign_files_raises(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    monkeypatch.setenv("HOME", str(tmp_path / "b"))
    with pytest.raises(DataError):
        check_replaceable(DataDir(tmp_path / "b" if name == "HOME" else Path(name)))
    check_replaceable(DataDir(Path("data")))


def test_foreign_files_are_not_replaced(tmp_path: Path, prepared_once: Folder) -> None:
    place, other = Folder(tmp_path), prepared_once.content()
    for content in ({"thesis.txt": b"years of work"}, {**other, "notes/a.txt": b"mine"}):
        for name, data in content.items():
            (place.data / name).parent.mkdir(parents=True, exist_ok=True)
            (place.data / name).write_bytes(data)
        foreign = [*content][-1]
        said = f"data: contains {foreign}, which prepare did not write, so it is not replaced"
        assert said in place.refused(data__max_chars=50) and place.content() == content
        shutil.rmtree(place.data)
    place.data.write_text("")
    assert "data: is a file, not a data directory" in place.refused()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"3", b"{", b"\xff", b"[" * 100_000, b'{"format": 1}', b'{"files": 3}']
)
def test_damaged_manifest_is_not_replaced(place: Folder, content: bytes) -> None:
    before = place.content()
    (place.data / "manifest.json").write_bytes(content)
    assert "manifest.json: damaged or not written by nmt, so nothing here is replaced" in place.refused()
    assert place.content() == before | {"manifest.json": content}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("step", ["settle_chosen", "file_facts"])
def test_interrupted_prepare_leaves_no_files(
    tmp_path: Path, prepared_once: Folder, monkeypatch: pytest.MonkeyPatch, step: str, error: type[BaseException]
) -> None:
    place = Folder(tmp_path)
    monkeypatch.setattr(module, step, Mock(side_effect=error))
    with pytest.raises(error):
        place.prepare()
    assert place.left() == set()
    shutil.copytree(prepared_once.data, place.data)
    with pytest.raises(error):
        place.prepare(data__max_chars=50)
    assert place.content() == prepared_once.content() and place.left() == {"data"}


def test_tokenizer_is_reused_from_data_directory(place: Folder) -> None:
    other = place.data.rename(place.folder / "other")
    place.write(train=TRAIN[:50])
    assert "400 pieces for de and en, not learned from this text" in place.prepare(tokenizer_from=other)
    assert place.corpus().tokenizers.fingerprint == Corpus.open(DataDir(other)).tokenizers.fingerprint
    assert "nothing to do" in place.prepare(tokenizer_from=other)
    assert "again: the tokenizer was taken from elsewhere (--tokenizer-from, tokenizer.model), is" in place.prepare()


def test_tokenizer_is_reused_from_run(place: Folder) -> None:
    run = RunDir(place.folder / "run")
    run.path.mkdir()
    shutil.copytree(place.data / "tokenizer", run.tokenizer.path)
    assert "run: has neither manifest.json nor config.yaml, which list the languages" in place.refused(run.path)
    run.config.write_text(dump_config(place.config(direction="en-de")), encoding="utf-8")
    assert "not learned from this text" in place.prepare(tokenizer_from=run.path)


def sentencepiece_model(lines: list[str], path: Path, **options: Any) -> bytes:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(path.with_suffix("")),
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return path.read_bytes()


def test_given_sentencepiece_model_is_used_for_all_directions_and_known_by_its_content(place: Folder) -> None:
    text, path = [line for pair in TRAIN for line in pair], place.folder / "text" / "own.model"
    first = sentencepiece_model(text, path, vocab_size=300)
    second = sentencepiece_model(text, path, vocab_size=340, model_type="bpe", byte_fallback=True)
    assert "340" not in place.prepare(tokenizer__vocab_size=400)
    for model in (first, second):
        path.write_bytes(model)
        said = place.prepare(tokenizer__model="own.model")
        assert f"preparing {place.data} again" in said and "not learned from this text" in said
        for direction in ("de-en", "en-de"):
            assert "nothing to do" in place.prepare(tokenizer__model="own.model", direction=direction)
    corpus = place.corpus()
    train = corpus.split("train")
    processor = sentencepiece.SentencePieceProcessor(model_proto=second)
    pieces = processor.encode(train.text("de")[0], out_type=str)
    assert corpus.tokenizers["de"].pieces(train.ids("de")[: int(train.ends("de")[0])]) == pieces
    assert corpus.tokenizers.only_direction is None and corpus.tokenizers.joint
    moved = path.rename(path.with_name("moved.model"))
    assert "nothing to do" in place.prepare(tokenizer__model="moved.model")
    assert "own.model" in place.refused(tokenizer__model="own.model")
    moved.write_bytes(b"text")
    assert "moved.model" in place.refused(tokenizer__model="moved.model")
    for changes in ({"tokenizer__kind": "char"}, {"tokenizer__joint": False, "model__tie_embeddings": "none"}):
        with pytest.raises(ConfigError, match=r"tokenizer\.model"):
            place.prepare(tokenizer__model="moved.model", **changes)


def test_characters_are_learned_as_pieces(place: Folder) -> None:
    place.prepare(tokenizer__kind="char", tokenizer__vocab_size=300)
    tokenizer = place.corpus().tokenizers["de"]
    learned = tokenizer.pieces(range(tokenizer.first_learned, len(tokenizer)))
    assert {*map(len, learned)} == {1} and len(tokenizer) == 300  # the rarest characters are spelled in bytes
    assert all(tokenizer.decode(tokenizer.encode(src)) == src for src, _ in TRAIN)
    with pytest.raises(ConfigError, match=r"training\.bpe_dropout"):
        place.prepare(tokenizer__kind="char", training__bpe_dropout=0.1)


def test_unsuitable_tokenizer_raises(place: Folder) -> None:
    other = place.data.rename(place.folder / "other")
    assert "absent: no such directory" in place.refused(place.folder / "absent")
    message = place.refused(other, tokenizer__joint=False, model__tie_embeddings="none")
    assert re.search(r"other: has one joint vocabulary, but .* false; set tokenizer\.joint=true", message)
    french = {"files": {"de": "train.de", "fr": "train.en"}}
    changes: dict[str, Any] = {"data__train": [french], "data__valid": french, "data__test": {}}
    message = place.refused(other, direction="de-fr", **changes)
    assert "other: its tokenizer is for de and en, but the config is for de and fr" in message
    assert place.left() == {"other"}
