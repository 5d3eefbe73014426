"""Tags of training corpora: in prepared text, training, translation, exports and the server."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from command import Command
from fitting import fit, start
from kept_run import quicken
from nmt.config import Config
from nmt.config.load import load_config
from nmt.data.batching import Packing
from nmt.data.corpus import Corpus
from nmt.data.lines import Indices
from nmt.errors import ConfigError, DataError
from nmt.evaluate.challenge import challenge_run, of_text
from nmt.evaluate.robustness import RobustnessPlan, measure_run
from nmt.evaluate.run import choose_text, corpus_of, evaluate_text, read_split
from nmt.layout import DataDir, RunDir, TokenizerDir
from nmt.prepare.prepare import prepare
from nmt.recipes.directory import rooted
from nmt.recipes.rerank import rescored
from nmt.runs.checkpoint import load_weights, save_checkpoint
from nmt.runs.data import open_corpus
from nmt.runs.model import ModelRef, open_saved
from nmt.search.settings import SearchConfig
from nmt.serve.models import load_models
from nmt.serve.service import Service
from nmt.share.export import ExportOptions, engine_for, export, export_argos
from nmt.text.ids import EOS, N_SPECIAL, SEPARATOR
from nmt.text.tokenizer import Tokenizer
from nmt.text.vocabularies import Tokenizers
from nmt.training.objective import Learner
from nmt.training.session import Session
from nmt.translate.align import src_word_shares
from nmt.translate.loading import Translator
from peer import of_transformers
from served import serving
from tiny_corpus import tiny_settings, tiny_text

PLAIN, LOUD = {"case": "plain"}, {"case": "loud", "form": "short"}
N_PAIRS = 200


def named(name: str, tags: object = None, **facts: object) -> dict[str, object]:
    """Return a corpus in both languages."""
    return {"files": {each: f"{name}.{each}" for each in ("aa", "bb")}, "tags": tags, **facts}


def settings(
    folder: Path, plain: object = PLAIN, loud: object = LOUD, data: dict[str, object] | None = None, **changes: object
) -> Config:
    """Return the configuration of two corpora with these tags, the second with capital letters in its targets."""
    tests = {"loud": named("test", loud), "other": named("test")}
    train = [named("train", plain), named("loud", loud)]
    changed = {"train": train, "valid": named("dev", plain), "test": tests, **(data or {})}
    return tiny_settings(folder, data=changed, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tags")
    tiny_text(folder, N_PAIRS)
    lines = (folder / "train.aa").read_text(encoding="utf-8").splitlines()
    for language, changed in (("aa", [f"{line} ." for line in lines]), ("bb", [line.upper() for line in lines])):
        (folder / f"loud.{language}").write_text("".join(f"{line}\n" for line in changed), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def data(text: Path) -> Path:
    prepare(settings(text), text / "data", echo=lambda _: None)
    return text / "data"


@pytest.fixture(scope="module")
def run(text: Path, data: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        fit(settings(text, search={"max_length_offset": 20}), data, text / "run")
    return text / "run"


@pytest.fixture(scope="module")
def tokenizer(data: Path) -> Tokenizer:
    return Corpus.open(DataDir(data)).tokenizers["aa"]


def test_tags_are_last_ids_and_not_in_prepared_text(text: Path, data: Path, tokenizer: Tokenizer) -> None:
    prepare(settings(text, None, None), text / "untagged", echo=lambda _: None)
    recorded = json.loads((data / "manifest.json").read_text(encoding="utf-8"))["config"]
    assert [*tokenizer.tags] == recorded["tags"] == ["case=loud", "case=plain", "form=short"]
    assert [*tokenizer.tags.values()] == [*range(len(tokenizer) - 3, len(tokenizer))]
    tagged, untagged = (
        {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*") if path.suffix != ".html"}
        for folder in (data, text / "untagged")
    )
    different = {name for name in tagged.keys() | untagged.keys() if tagged.get(name) != untagged.get(name)}
    assert different == {"manifest.json", "report.json", "tokenizer/tags.json"}


def test_text_like_a_tag_is_text_and_tags_have_no_words(tokenizer: Tokenizer) -> None:
    line, tag = ">>case=loud<< mali", tokenizer.tags["case=loud"]
    ids = tokenizer.encode(line)
    assert max(ids) < min(tokenizer.tags.values()) and tokenizer.decode(ids) == line == tokenizer.decode([tag, *ids])
    shares = src_word_shares(tokenizer, [tag, *ids], line)
    assert not shares[:, 0].any() and (shares[:, 1:] == src_word_shares(tokenizer, ids, line)).all()


def drawn(session: Session, rows: Indices, epoch: int) -> list[list[int]]:
    """Return the tags of the pairs `rows` in an epoch, and check that nothing else has changed."""
    assert session.window is not None
    pairs, objective = session.window.pairs, session.training_objective
    changed, first = objective.changed(pairs, rows, epoch), min(objective.tokenizers["aa"].tags.values())
    old, new = pairs.batch(rows), changed.batch(np.arange(len(rows)))
    assert torch.equal(old.tgt_out, new.tgt_out) and (changed.corpus_rows(np.arange(len(rows))) == rows).all()
    after = [[i for i in ids if i] for ids in new.src.tolist()]
    tags = [[i for i in ids if i >= first] for ids in after]
    assert after == [[*own, *(i for i in ids if i)] for own, ids in zip(tags, old.src.tolist(), strict=True)]
    return tags


def test_tags_precede_sources_of_their_corpus(text: Path, data: Path, tokenizer: Tokenizer) -> None:
    config = settings(text, training={"tag_dropout": 0.25})
    session = start(config, data, text / "unused", resume=False)
    rows = np.arange(len(session.pairs))
    n_first = Corpus.open(DataDir(data)).manifest.sources["train.0"].kept  # type: ignore[index]
    epochs = [drawn(session, rows, epoch) for epoch in range(20)]
    plain, loud = tokenizer.tag_ids(["case=plain"]), tokenizer.tag_ids(["case=loud", "form=short"])
    for tags in epochs:
        assert all(found in ([], plain if row < n_first else loud) for row, found in enumerate(tags))
    assert drawn(session, rows, 7) == epochs[7] != epochs[8]
    assert drawn(session, rows[::-1].copy(), 7) == epochs[7][::-1]
    without = np.array([[not found for found in tags] for tags in epochs])
    assert without.mean() == pytest.approx(0.25, abs=0.02)
    assert without.mean(0).max() < 0.8  # of every pair


WEIGHTED = [named("train", PLAIN, weight=1.0), named("loud", LOUD, weight=1.0)]


@pytest.mark.parametrize(
    ("data_settings", "training", "kind"),
    [
        ({"train": WEIGHTED}, {"bpe_dropout": 0.1, "modifiers": {"upper_case": 0.5}}, "translation"),
        ({}, {}, "decoder"),
    ],
    ids=["weights and changes", "decoder"],
)
def test_tags_go_with_other_settings(
    data_settings: dict[str, object], training: dict[str, object], kind: str, text: Path, data: Path, tmp_path: Path
) -> None:
    training = {"tag_dropout": 0.0, "max_tokens": 400, **training}
    config = settings(text, data=data_settings, training=training, model={"kind": kind})
    session = start(config, data, tmp_path / "run", resume=False)
    tokenizer, corpus = session.training_objective.tokenizers["aa"], Corpus.open(DataDir(data))
    tags, n_first = tokenizer.tags, corpus.manifest.sources["train.0"].kept  # type: ignore[index]
    first = {True: tags["case=plain"], False: tags["case=loud"]}
    for update in session.updates()[:5]:
        n_pairs, rows = len(update.rows), session.changed_update(update).rows
        batch = session.pairs.batch(rows)
        ids = batch.src if kind == "translation" else batch.tgt_out
        assert len(rows) == n_pairs
        corpus_rows = session.pairs.corpus_rows(rows) % corpus.split("train").n
        assert ids[:, 0].tolist() == [first[row < n_first] for row in corpus_rows.tolist()]
        packed = Packing(session.pairs, max_len=config.longest).batch(rows)
        assert int((packed.tgt_out if kind == "decoder" else packed.src).max()) < min(tags.values()) + len(tags)


@pytest.mark.parametrize("kind", ["translation", "decoder"])
def test_simcut_keeps_tags_and_end_of_source(
    kind: str, text: Path, data: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    training = {"consistency": "simcut", "cut_rate": 0.9, "tag_dropout": 0.0, "max_tokens": 400}
    session = start(settings(text, training=training, model={"kind": kind}), data, tmp_path / "run", resume=False)
    assert isinstance(session.learner, Learner)
    passes = []

    def forward(*inputs: Any) -> torch.Tensor:
        passes.append(inputs)
        return session.model(*inputs)  # type: ignore[no-any-return]

    session.learner._run = forward
    rows = session.changed_update(session.updates()[0]).rows
    session.learner(session.pairs.batch(rows))
    src, src_layout, tgt_in, tgt_layout = passes[1]
    ids, kept, end = (src, src_layout.kept, EOS) if kind == "translation" else (tgt_in, tgt_layout.kept, SEPARATOR)
    is_tag, is_end = ids >= tokenizer.n_pieces, ids == end
    assert is_tag.any(1).all() and is_end.any(1).all()
    assert kept[is_tag | is_end].all() and not kept.all()


def test_development_set_has_its_tags(text: Path, data: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = settings(text, training={"watch": ["loud", "other"]})
    session = start(config, data, tmp_path / "run", resume=False)
    for validator, tags in (
        (session.validator, ["case=plain"]),
        (session.watched["loud"], ["case=loud", "form=short"]),
        (session.watched["other"], []),
    ):
        src = validator.pairs.batch(np.arange(len(validator.pairs))).src.tolist()  # type: ignore[attr-defined]
        assert {tuple(i for i in ids if i >= tokenizer.n_pieces) for ids in src} == {tuple(tokenizer.tag_ids(tags))}


def test_translation_reads_tags(run: Path) -> None:
    translator = Translator.load(run)
    lines = ["mali bore", "", "mali " * 300]
    found = [
        [[part.src_ids for part in best.parts] for best, *_ in translator.translate_lines(lines, search)]
        for search in (SearchConfig(beam=1), SearchConfig(beam=1, tags=["form=short", "case=loud"]))
    ]
    tags = translator.tokenizers["aa"].tag_ids(["case=loud", "form=short"])  # as in training
    assert found[1] == [[[*tags, *ids] for ids in of_line] for of_line in found[0]]
    assert len(found[0][2]) > 1, "a long line is split"
    with pytest.raises(DataError, match=r"lood.*did you mean case=loud"):
        translator.translate(["mali"], tags=["case=lood"])
    for wrong in (["case"], ["case=loud", "case=plain"], ["case=loud"] * 2):
        with pytest.raises(ConfigError, match="case"):
            translator.translate(["mali"], tags=wrong)


@pytest.mark.parametrize("engine", ["native", "ctranslate2"])
def test_translations_have_no_tags(engine: str, run: Path, tmp_path: Path) -> None:
    """The weights are such that tags are more probable than any piece."""
    shutil.copytree(run, tmp_path / "run")
    saved = open_saved(tmp_path / "run")
    n_pieces, step = saved.tokenizers["bb"].n_pieces, RunDir(tmp_path / "run").step(saved.weights.step)
    weights = load_weights(step)
    table = weights["encoder.embedding.weight"]  # tied
    table[n_pieces:] = 30 * table.abs().mean(0) * table[n_pieces - 40 : n_pieces].mean(0).sign()
    save_checkpoint(step, weights, None, {})
    lines = ["mali bore", "ta", "go ri su"]
    search = SearchConfig(beam=2, max_length_ratio=0.0, max_length_offset=6)
    path = tmp_path / "run"
    translator = Translator.load(path) if engine == "native" else engine_for(ModelRef((path,), weights="raw"))
    found = [best for best, *_ in translator.translate_lines(lines, search)]
    ids = [i for best in found for part in best.parts for i in part.tgt_ids]
    assert ids and not any(i >= n_pieces or i < N_SPECIAL for i in ids)


def test_test_set_is_translated_with_its_tags(run: Path) -> None:
    translator = Translator.load(run)
    corpus = corpus_of(translator, None)

    def described(split: str, **search: object) -> str:
        text = read_split(corpus, split, translator.config.data.sides)
        return str(evaluate_text(translator, text, translator.search_settings(search)).report.subject.search)

    assert "case=loud" in described("loud")
    assert "case=loud" not in described("loud", tags=[]) and "tags" not in described("other")
    assert "case=plain" in described("loud", tags=["case=plain"])


def test_transformers_export_reads_tags_before_text(run: Path, tmp_path: Path) -> None:
    path, translator = export(ExportOptions(run), tmp_path / "hf", "transformers").path, Translator.load(run)
    theirs = of_transformers("AutoTokenizer").from_pretrained(path)
    model = of_transformers("AutoModelForSeq2SeqLM").from_pretrained(path)
    ours = translator.tokenizers["aa"]
    assert "case=loud, case=plain, form=short" in (path / "README.md").read_text(encoding="utf-8")
    for line in ("mali bore", "", "</s> ta"):
        ids = [*ours.tag_ids(["case=loud", "form=short"]), *ours.encode(line), EOS]
        assert theirs(f">>case=loud<<>>form=short<< {line}")["input_ids"] == ids
    ids = theirs(">>case=loud<< mali bore", return_tensors="pt")
    [best] = theirs.batch_decode(model.generate(**ids, num_beams=1, max_length=21), skip_special_tokens=True)
    assert [best] == translator.translate(["mali bore"], tags=["case=loud"], beam=1)
    assert translator.tokenizers["bb"].never_written() == model.generation_config.suppress_tokens
    with pytest.raises(ConfigError, match="tags"):
        export_argos(ExportOptions(run), tmp_path / "x.argosmodel")


def test_server_takes_tags(run: Path) -> None:
    with serving(Service(load_models([run], "native", False, ()))) as client:
        asked = {"text": "mali bore", "source": "aa", "target": "bb"}
        tagged = client.ask("/v1/translate", {**asked, "tags": ["case=loud"]})
        expected = Translator.load(run).translate(["mali bore"], tags=["case=loud"])
        assert [each["text"] for each in tagged.json["translations"]] == expected
        for tags in (["case=lood"], "case=loud", [1]):
            assert client.ask("/v1/translate", {**asked, "tags": tags}).status == 400


@pytest.mark.parametrize(
    ("data_changes", "changes", "named"),
    [
        *[
            ({"valid": named("dev", tags)}, {}, said)
            for tags, said in (({"größe": "x"}, "größe"), ({"case": "a b"}, "a b"), ({"case": 1}, "case"))
        ],
        ({"mono": {"aa": [{"files": {"aa": "dev.aa"}, "tags": PLAIN}]}}, {}, "mono.aa.0"),
        ({}, {"training": {"objective": "denoising"}}, "denoising"),
    ],
)
def test_tags_that_cannot_be_learned_are_refused(
    data_changes: dict[str, object], changes: dict[str, dict[str, object]], named: str, text: Path
) -> None:
    with pytest.raises(ConfigError, match=named):
        settings(text, data=data_changes, **changes)


def test_tag_that_corpora_or_data_directory_lack_is_refused(text: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.valid\.tags: .*case=lood"):
        prepare(settings(text, data={"valid": named("dev", {"case": "lood"})}), tmp_path / "data", echo=lambda _: None)
    assert not (tmp_path / "data").exists()
    with pytest.raises(ConfigError, match=r"run nmt prepare again.*case=new"):
        changed = settings(text, {"case": "new"}, data={"valid": named("dev")})
        start(changed, data, tmp_path / "run", resume=False)


def test_corpus_of_which_nothing_is_kept_needs_no_tags(text: Path, tmp_path: Path) -> None:
    (text / "empty.aa").write_text("x\n" * 2, encoding="utf-8")
    (text / "empty.bb").write_text("\n" * 2, encoding="utf-8")
    train = [named("train", PLAIN), named("empty", {"case": "none"}), named("loud", LOUD)]
    config = settings(text, data={"train": train})
    prepare(config, tmp_path / "data", echo=lambda _: None)
    session = start(config, tmp_path / "data", tmp_path / "run", resume=False)
    tag_ids = session.training_objective.tokenizers["aa"].tag_ids
    assert {tuple(tags) for tags in drawn(session, np.arange(len(session.pairs)), 0)} == {
        tuple(tag_ids(tags)) for tags in ([], ["case=plain"], ["case=loud", "form=short"])
    }


def test_tags_are_added_to_reused_tokenizer(text: Path, data: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    prepare(settings(text, {"a": "b"}, data={"valid": 20}), tmp_path / "data", data, echo=lambda _: None)
    found = Tokenizers.load(TokenizerDir(tmp_path / "data" / "tokenizer"), ["aa", "bb"])["aa"]
    assert [*found.tags] == [*tokenizer.tags, "a=b"] and found.fingerprint != tokenizer.fingerprint


def test_model_grows_by_new_tags(run: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = {"init_from": str(run), "max_steps": 1, "tag_dropout": 0.0}
    config = settings(text, {"a": "b"}, data={"valid": 20}, training=training)
    prepare(config, tmp_path / "data", run, echo=lambda _: None)
    session = start(config, tmp_path / "data", tmp_path / "run", resume=False)
    assert "new in the vocabulary: the tag a=b" in capsys.readouterr().err
    before, after = open_saved(run).weights.tensors, dict(session.model.named_parameters())
    for name, tensor in before.items():
        torch.testing.assert_close(after[name][: len(tensor)], tensor, rtol=0, atol=0)
        assert len(after[name]) - len(tensor) == (name == "encoder.embedding.weight")
    translator = Translator.load(run)
    found = evaluate_text(translator, choose_text(translator, tmp_path / "data", "other"), SearchConfig(beam=1))
    assert len(found.translations) == 10, "its text may be evaluated by the model that lacks the tag"
    grown = open_corpus(RunDir(run), ("aa", "bb"), tmp_path / "data")
    assert grown.tokenizers.tags == [*translator.tokenizers.tags, "a=b"]
    frozen = settings(text, {"a": "b"}, data={"valid": 20}, training={**training, "freeze": ["embeddings"]})
    session = start(frozen, tmp_path / "data", tmp_path / "frozen", resume=False)
    [(name, is_learned)] = session.partly_frozen.items()
    table = session.model.get_parameter(name)
    assert is_learned.flatten().nonzero().tolist() == [[len(table) - 1]], "the row of the tag"


def test_challenge_robustness_and_calibration_use_tags_of_split(
    run: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator, seen = Translator.load(run), list[Any]()

    def stop(*given: object, **_: object) -> None:
        seen.extend(each.tags for each in given if isinstance(each, SearchConfig))
        raise DataError("seen")

    loud = choose_text(translator, None, "loud")
    numbered = of_text(replace(loud, sources=["mali 7 bore"], references=["erob 7 ilam"]), 1)
    monkeypatch.setattr(Translator, "score", stop)
    with pytest.raises(DataError, match="seen"):
        challenge_run(translator, numbered)
    monkeypatch.setattr("nmt.evaluate.robustness.translate_text", stop)
    with pytest.raises(DataError, match="seen"):
        measure_run(translator, SearchConfig(), loud, RobustnessPlan(("upper_case",), (100.0,), 1))
    monkeypatch.setattr("nmt.evaluate.calibration.calibrate", stop)
    assert nmt("calibrate", "--run", run, "--split", "loud").err == "nmt: seen\n"
    assert seen == [["case=loud", "form=short"]] * 3


def test_student_has_no_tags(run: Path, nmt: Command) -> None:
    made = nmt("distil", "--teacher", run, "--output", "out", "--beam", "1", "--search", "tags=[case=loud]")
    assert made.status == 0, made.err
    config = load_config("out/config.yaml")
    assert not config.data.tag_names and config.search.tags is None
    assert not any(source.tags for _, source in config.data.sources())


def test_rescoring_leaves_out_tags_that_a_run_lacks() -> None:
    translator = Mock(tokenizers=Mock(tags=["case=loud"]))
    translator.score.return_value = [Mock(total=0.0)]
    search = SearchConfig(tags=["case=loud", "form=short"], to="bb")
    for is_reverse in (False, True):
        with contextlib.suppress(TypeError):  # of the made-up score
            rescored("other", translator, search, is_reverse).values([(Mock(text="a"), Mock(text="b"))])
        asked = translator.score.call_args.args[1]
        assert asked.tags == ["case=loud"] and asked.to == (None if is_reverse else "bb")


def test_next_config_keeps_tags_of_split_off_text_if_all_are_equal(text: Path, tmp_path: Path) -> None:
    config = settings(text, data={"valid": 20})
    prepare(config, tmp_path / "data", echo=lambda _: None)
    with pytest.raises(DataError, match="tags"):
        rooted(config, tmp_path / "data")
    [source] = rooted(settings(text, PLAIN, PLAIN, data={"valid": 20}), tmp_path / "data").data.train
    assert source.tags == PLAIN


@pytest.mark.parametrize("content", ["{}", "[1]", '["a=b", "a=b"]', "[", "\xff"])
def test_damaged_tags_are_refused(content: str, data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "tokenizer", tmp_path / "tokenizer")
    (tmp_path / "tokenizer" / "tags.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=r"tags\.json"):
        Tokenizers.load(TokenizerDir(tmp_path / "tokenizer"), ["aa", "bb"])
