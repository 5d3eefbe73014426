"""Import of Marian models made by transformers and SentencePiece."""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file

from command import Command
from fitting import fit
from forced import forced
from hub_client import use_hub
from hub_server import Hub, serve
from marian import Marian
from nmt.config.load import dump_config, load_config
from nmt.data.bpe_dropout import sampled
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.layout import RunDir
from nmt.model.masks import Padded
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import load_weights
from nmt.runs.info import read_info
from nmt.runs.listing import summarise
from nmt.runs.model import Saved, open_saved
from nmt.runs.state import saved_steps
from nmt.search.step import padded
from nmt.serve.models import load_models
from nmt.serve.service import Service
from nmt.share.export import ExportOptions, export
from nmt.share.public import import_model
from nmt.share.public_vocabulary import ImportOptions
from nmt.text.blocks import BlockEncoder
from nmt.text.ids import BOS, EOS, N_SPECIAL, PAD, UNK
from nmt.text.imported import ImportedTokenizer, ImportedVocabulary
from nmt.training.facts import MaskedConfig
from nmt.translate.align import src_word_shares, word_shares
from nmt.translate.loading import Translator
from nmt.translate.types import Line
from peer import of_transformers
from sentences import sentence_pairs
from served import serving
from tiny_corpus import tiny_settings

pytestmark = pytest.mark.usefixtures("no_coverage")

PAIRS = sentence_pairs(300)
SOURCES, TARGETS = [[pair[side] for pair in PAIRS] for side in (0, 1)]
ODD = [
    "", "  Der   Hund ", "\ufb01nden \xbd \uff21\uff50fel", "na\xefve e\u0301", "Hund\tKatze\x07", "\u200bHund\ufeff",
    "\U0001f600 Hund\U0001f469\u200d\U0001f4bb", "\u0645\u0631\u062d", "\u4f60\u597d", "a" * 200, ">> Hund",
    "Hund >>xx<<", "\u2581Hund", "\u00a0", "1.234,5 %",
]  # fmt: skip

KINDS = {
    "joint": Marian(updates=120, tags=("deu", "swe")),
    "separate": Marian(
        "relu", is_joint=False, dtype=torch.bfloat16, file="pytorch_model.bin", updates=60, segmenter="bpe"
    ),
    "tuned": Marian(has_zero_start=False, has_bias=False, updates=60),
}


def vocabulary_of(saved: Saved) -> ImportedVocabulary:
    """Return the vocabulary of an imported model."""
    assert saved.tokenizers.imported is not None
    return saved.tokenizers.imported


@dataclass(frozen=True)
class Public:
    """A public model, the run made of it, and what transformers makes of it."""

    folder: Path
    run: Path
    saved: Saved
    model: Any
    tokenizer: Any

    def original(self, rows: list[list[int]], side: int) -> list[list[int]]:
        """Return ids with the numbers of the public model, the end of sentence last."""
        numbers = vocabulary_of(self.saved).original_rows(1 if side else 0)
        return [[*(numbers[i] for i in row), self.tokenizer.eos_token_id] for row in rows]  # type: ignore[misc]


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joint") / "model"
    KINDS["joint"].write(folder, SOURCES, TARGETS)
    return folder


@pytest.fixture(scope="module", params=KINDS)
def public(request: pytest.FixtureRequest, joint: Path, tmp_path_factory: pytest.TempPathFactory) -> Public:
    folder, run = joint, tmp_path_factory.mktemp("public") / "run"
    if request.param != "joint":
        folder = run.with_name("model")
        KINDS[request.param].write(folder, SOURCES, TARGETS)
    import_model(ImportOptions(str(folder), run))
    model = of_transformers("MarianMTModel").from_pretrained(folder, dtype=torch.float32).eval()
    return Public(folder, run, open_saved(run), model, of_transformers("MarianTokenizer").from_pretrained(folder))


def test_ids_are_equal(public: Public) -> None:
    for side, lines in enumerate(([*SOURCES, *ODD], [*TARGETS, *ODD])):
        tokenizer = public.saved.tokenizers["de" if side == 0 else "en"]
        found = tokenizer.encode_all(lines)
        wanted = public.tokenizer(**{"text_target" if side else "text": lines})["input_ids"]
        assert public.original(found, side) == wanted
        assert BlockEncoder(tokenizer).encode(lines).ids.tolist() == [i for row in found for i in row]
        assert any(UNK in row for row in found)


def test_any_pieces_are_decoded_as_by_transformers(public: Public) -> None:
    tokenizer, rng, n_words = public.saved.tokenizers["en"], random.Random(1), 0
    for _ in range(300):
        ids = rng.choices(range(N_SPECIAL, tokenizer.n_pieces), k=rng.randint(1, 12))
        theirs = public.tokenizer.decode(public.original([ids], 1)[0], skip_special_tokens=True)
        assert tokenizer.decode(ids) == theirs
        assert len(word_shares(tokenizer, ids)) == len(theirs.split())
        n_words += len(theirs.split())
    assert n_words > 400


def test_logits_are_equal(public: Public) -> None:
    src, tgt = (
        public.saved.tokenizers[name].encode_all(lines[:60]) for name, lines in (("de", SOURCES), ("en", TARGETS))
    )
    ours, pad = public.saved.transformer(), public.tokenizer.pad_token_id
    source, target = padded([[*row, EOS] for row in src]), padded([[BOS, *row] for row in tgt])
    hidden = ours(source, Padded(source != PAD), target, Padded(target != PAD))
    assert ours.output_bias is not None
    logits = hidden @ ours.output_weight.T + ours.output_bias
    encoded = {"input_ids": public.original(src, 0)}
    batch = public.tokenizer.pad(encoded, return_tensors="pt")
    inputs = torch.where(target == PAD, pad, padded([[pad, *row[:-1]] for row in public.original(tgt, 1)]))
    with torch.no_grad():
        theirs = public.model(**batch, decoder_input_ids=inputs).logits
    rows = vocabulary_of(public.saved).original_rows(1)
    ids = [rows.index(row) for row in range(theirs.size(-1))]
    is_token = target != PAD
    torch.testing.assert_close(logits[..., ids][is_token], theirs[is_token], atol=1e-4, rtol=0)
    assert logits.logsumexp(-1)[is_token].sub(theirs.logsumexp(-1)[is_token]).abs().max() < 1e-4


def test_beam_search_is_equal(public: Public) -> None:
    tokenizer, lines = public.tokenizer, SOURCES[:100]
    with torch.no_grad():
        found = public.model.generate(
            **tokenizer(lines, padding=True, return_tensors="pt"), max_length=64, early_stopping="never",
            bad_words_ids=[[tokenizer.pad_token_id], [tokenizer.unk_token_id]],
        )  # fmt: skip
    wanted = tokenizer.batch_decode(found, skip_special_tokens=True)
    settings = {"patience": 0.0, "max_length_ratio": 0.0, "max_length_offset": 63}
    translator = Translator.load(public.run, precision="float32")
    translations = translator.translate(lines, **settings)
    ours, theirs = (translator.score(zip(lines, texts, strict=True)) for texts in (translations, wanted))
    # at the limit of length, transformers prefers unfinished translations; of two equal ones, either may be found
    is_equal = [
        text == other or abs(a.log_prob - b.log_prob) < 1e-3
        for text, other, a, b, ids in zip(translations, wanted, ours, theirs, found, strict=True)
        if tokenizer.pad_token_id in ids[1:]
    ]
    assert len(is_equal) > 20 and len({*wanted}) > 20 and sum(is_equal) >= 0.98 * len(is_equal)


def check_equal_weights(first: Path, second: Path, step: int = 0) -> None:
    """Check that two runs have the same weights at a step."""
    tensors, others = (load_weights(RunDir(run).step(step)) for run in (first, second))
    assert tensors.keys() == others.keys() and all(torch.equal(tensors[name], others[name]) for name in tensors)


def test_export_and_import_give_equal_tensors(public: Public, tmp_path: Path) -> None:
    export(ExportOptions(public.run), tmp_path / "out", "transformers")
    import_model(ImportOptions(str(tmp_path / "out"), tmp_path / "again"))
    check_equal_weights(public.run, tmp_path / "again")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "license: cc-by-4.0" in card and "- based on: model" in card


def check_ids(saved: Saved, tokenizer: Any) -> None:
    """Check that a tokenizer of transformers gives the ids of a run, for sources and targets."""
    imported = vocabulary_of(saved)
    for key, language, lines, numbers in (
        ("text", "de", SOURCES, imported.original_rows(0)), ("text_target", "en", TARGETS, imported.original_rows(1)),
    ):  # fmt: skip
        lines = [*lines, *ODD, "Hund</s>Katze <unk>"]
        found = tokenizer(**{key: lines})["input_ids"]
        wanted = [[*map(numbers.__getitem__, [*row, EOS])] for row in saved.tokenizers[language].encode_all(lines)]
        assert [line for line, a, b in zip(lines, wanted, found, strict=True) if a != b] == []


def test_export_without_other_files_gives_equal_ids_and_translations(public: Public, tmp_path: Path) -> None:
    folder = tmp_path / "alone" / "out"
    export(ExportOptions(public.run), folder, "transformers")
    tokenizer = of_transformers("AutoTokenizer").from_pretrained(folder)
    model = of_transformers("AutoModelForSeq2SeqLM").from_pretrained(folder).eval()
    check_ids(public.saved, tokenizer)
    lines = SOURCES[:60]
    translator = Translator.load(public.run, precision="float32")
    scores = forced(model, tokenizer, lines, tokenizer(text_target=TARGETS[:60])["input_ids"])
    own = translator.score(zip(lines, TARGETS[:60], strict=True))
    assert [each.log_prob for each in scores] == pytest.approx([each.log_prob for each in own], abs=1e-3)

    settings = translator.search_settings({"beam": 1, "max_length_ratio": 0.0, "max_length_offset": 63})
    found = [[*best.parts[0].tgt_ids] for best, *_ in translator.translate_lines(lines, settings)]
    wanted = [row[:-1] for row in public.original(found, 1)]  # at the limit of length, an end is no choice
    never = [[tokenizer.pad_token_id], [tokenizer.unk_token_id]]
    with torch.no_grad():
        batch = tokenizer(lines, padding=True, return_tensors="pt")
        generated = model.generate(**batch, num_beams=1, max_length=64, bad_words_ids=never).tolist()
    leads = [each.lead for each in forced(model, tokenizer, lines, wanted)]
    clear = [i for i, lead in enumerate(leads) if lead > 1e-3]
    assert len(clear) > 20 and [generated[i][1 : len(wanted[i]) + 1] for i in clear] == [wanted[i] for i in clear]


def test_ctranslate2_gives_equal_translations(public: Public, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    exported = export(ExportOptions(public.run), tmp_path / "out", "ctranslate2")
    assert exported.comparison is not None and exported.comparison.difference < 1e-4


# --- adapting ---------------------------------------------------------------------------------------


def adapting(folder: Path, start: Path, **training: object) -> Any:
    """Return the configuration of a run that starts from an imported one, and its prepared data directory."""
    text, data = folder / "text", folder / "data"
    if not text.exists():
        text.mkdir()
        for name, rows in (("train", slice(0, 200)), ("dev", slice(200, 212)), ("test", slice(212, 220))):
            for language, lines in (("de", SOURCES), ("en", TARGETS)):
                (text / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines[rows]), encoding="utf-8")
    names = {name: {"files": {"de": f"{name}.de", "en": f"{name}.en"}} for name in ("train", "dev", "test")}
    model = open_saved(start).config.model.model_dump()
    splits = {"train": [names["train"]], "valid": names["dev"], "test": {"test": names["test"]}}
    training = {"init_from": str(start), **training}
    config = tiny_settings(text, data={"direction": "de-en", **splits}, model=model, training=training)
    if not data.exists():
        prepare(config, data, tokenizer_from=start, echo=lambda _: None)
    return config


@pytest.fixture(scope="module")
def place(joint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an imported run, `start`, and text prepared with its tokenizer."""
    folder = tmp_path_factory.mktemp("adapted")
    import_model(ImportOptions(str(joint), folder / "start"))
    import_model(ImportOptions(str(joint), folder / "reverse", direction="en-de"))
    adapting(folder, folder / "start")
    return folder


def test_adapted_run_keeps_zero_start_and_licence(place: Path) -> None:
    config = adapting(place, place / "start", consistency="rdrop", label_smoothing=0.1, weight_decay=0.1, ema=0.5)
    fit(config, place / "data", place / "run")
    run = RunDir(place / "run")
    before, after = load_weights(RunDir(place / "start").step(0)), load_weights(run.step(12))
    table, bias = "encoder.embedding.weight", "output_bias"
    assert not after[table][[PAD, BOS]].any()
    assert (
        torch.equal(after[bias][:UNK], before[bias][:UNK])
        and after[bias][N_SPECIAL:].ne(before[bias][N_SPECIAL:]).all()
    )
    assert not torch.equal(after[table], before[table])
    initial = read_info(run).initial
    assert initial is not None and initial.public is not None and initial.public.license == "cc-by-4.0"


def test_watched_set_and_share_of_start(place: Path) -> None:
    config = adapting(place, place / "start", watch=["test"], start_share=0.25, max_steps=6, average_last=1)
    fit(config, place / "data", place / "mixed")
    run = RunDir(place / "mixed")
    records = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    watched = [record for record in records if record["kind"] == "watch/test"]
    assert [record["step"] for record in watched] == [0, 6, 6] and watched[0]["change"] == 0
    assert watched[1]["change"] == pytest.approx(watched[1]["bleu"] - watched[0]["bleu"])
    start, end = load_weights(RunDir(place / "start").step(0)), load_weights(run.step(6))
    mixed = open_saved(run.path).weights
    assert mixed.kind == "average"
    for name, tensor in mixed.tensors.items():
        torch.testing.assert_close(tensor, 0.25 * start[name] + 0.75 * end[name])
    assert "25%" in mixed.reason
    shutil.rmtree(run.start.path)
    longer = adapting(place, place / "start", start_share=0.25, max_steps=8)
    with pytest.raises(CheckpointError, match="start"):
        fit(longer, place / "data", place / "mixed", resume=True)
    assert max(saved_steps(run)) == 6, "before training"


def test_adaptation_that_makes_model_worse_warns_and_stops(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = adapting(
        place, place / "start", schedule="constant", peak_lr=0.5, warmup_steps=1, validate_every_steps=1, patience=2,
        select_by="loss", max_steps=9,
    )  # fmt: skip
    fit(config, place / "data", place / "worse")
    said = capsys.readouterr().err
    assert "patience" in said and f"{place / 'start'} remains the better model" in said
    assert max(saved_steps(RunDir(place / "worse"))) == 2


def test_resumed_adaptation_is_equal(place: Path) -> None:
    whole, parts = (
        adapting(place, place / "start", subword_nbest=8, max_steps=steps, average_last=1) for steps in (6, 3)
    )
    fit(whole, place / "data", place / "whole")
    fit(parts, place / "data", place / "parts")
    watching = whole.model_copy(update={"training": whole.training.model_copy(update={"watch": ["test"]})})
    fit(watching, place / "data", place / "parts", resume=True)
    watched = [line for line in RunDir(place / "parts").log.read_text(encoding="utf-8").splitlines() if "watch" in line]
    assert watched and not any("change" in line for line in watched), "the start was not scored"
    check_equal_weights(place / "whole", place / "parts", step=6)


@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_settings_of_model_are_taken_over(
    kind: str, place: Path, tmp_path: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(place / "text", "text")
    replace(KINDS[kind], updates=0).write(Path("model"), SOURCES, TARGETS)
    import_model(ImportOptions("model", Path("start")))
    files = {"de": "train.de", "en": "train.en"}
    tree = {"data": {"direction": "de-en", "root": "text", "train": [{"files": files}], "valid": 10},
            "training": {"max_steps": 1, "device": "cpu"}, "search": {"length_penalty": 0.5}}  # fmt: skip
    Path("short.yaml").write_text(json.dumps(tree), encoding="utf-8")
    made = nmt("prepare", "--config", "short.yaml", "--tokenizer-from", "start", "--data", "short")
    assert made.status == 0, made.err
    found = nmt("train", "--config", "short.yaml", "--init-from", "start", "--data", "short", "--run", "taken")
    assert found.status == 0, found.err
    taken, start = (open_saved(Path(name)).config for name in ("taken", "start"))
    assert taken.model == start.model and taken.search.beam == start.search.beam
    assert taken.search.length_penalty == 0.5
    assert start.search.split == "always"


@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_imported_run_learns_tags(kind: str, place: Path, tmp_path: Path) -> None:
    replace(KINDS[kind], updates=0).write(tmp_path / "model", SOURCES, TARGETS)
    import_model(ImportOptions(str(tmp_path / "model"), tmp_path / "start"))
    config = adapting(place, tmp_path / "start", warmup_steps=1, max_steps=4)
    theirs = open_saved(tmp_path / "start").config
    config = config.model_copy(update={"model": theirs.model, "tokenizer": theirs.tokenizer})
    [source] = config.data.train
    tagged = {"train": [source.model_copy(update={"tags": {"domain": "mine"}})]}
    training = config.training.model_copy(update={"tag_dropout": 0.0})
    config = config.model_copy(update={"data": config.data.model_copy(update=tagged), "training": training})
    prepare(config, tmp_path / "data", tokenizer_from=tmp_path / "start", echo=lambda _: None)
    fit(config, tmp_path / "data", tmp_path / "run")
    before, after = (open_saved(tmp_path / name) for name in ("start", "run"))
    old, new = before.tokenizers["de"], after.tokenizers["de"]
    assert len(new) == len(old) + 1 and new.tags == {"domain=mine": len(old)} and not old.tags
    assert len(after.tokenizers["en"]) == len(before.tokenizers["en"]) + (kind == "joint")
    assert all(new.encode(line) == old.encode(line) for line in [*SOURCES, *ODD])
    line = ">>domain=mine<< Der Hund"
    assert new.encode(line) == old.encode_all([line], "")[0], "text that looks like a tag is text"
    assert (
        new.target_languages == old.target_languages and new.is_special(len(old)) and not new.is_special(len(old) - 1)
    )
    assert len(old) in after.tokenizers["de"].never_written()
    ids = [*new.tag_ids(["domain=mine"]), *new.target_languages.values(), *new.encode("Der Hund")]
    shares = src_word_shares(new, ids, "Der Hund")
    n_tags = 1 + len(new.target_languages)
    assert not shares[:, :n_tags].any()
    assert (shares[:, n_tags:] == src_word_shares(new, new.encode("Der Hund"), "Der Hund")).all()
    bias = after.weights.tensors["output_bias"]
    assert (bias[len(old) :] < -50).all() and bias.min() > -150
    learned = after.weights.tensors["encoder.embedding.weight"]
    assert learned[len(old)].abs().sum() > 0

    export(ExportOptions(tmp_path / "run"), tmp_path / "out", "transformers")
    theirs = of_transformers("MarianTokenizer").from_pretrained(tmp_path / "out")
    import_model(ImportOptions(str(tmp_path / "out"), tmp_path / "again"))
    again = open_saved(tmp_path / "again")
    assert all(torch.equal(tensor, again.weights.tensors[name]) for name, tensor in after.weights.tensors.items())
    imported = vocabulary_of(after)
    rows = imported.original_rows(0)
    ids = [rows[i] for i in [*new.tag_ids(["domain=mine"]), *new.encode(SOURCES[0]), EOS]]
    assert theirs(f">>domain=mine<< {SOURCES[0]}")["input_ids"] == ids
    if kind == "joint":
        assert imported.pieces[0][-1] == imported.padding, "which CTranslate2's converter removes"
    pairs = [*zip(SOURCES[:5], TARGETS[:5], strict=True)]
    scores = []
    for name in ("run", "again"):
        translator = Translator.load(tmp_path / name, precision="float32")
        scored = translator.score(pairs, translator.search_settings({"tags": ["domain=mine"]}))
        scores.append([each.log_prob for each in scored])
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def test_back_translation_by_imported_run_does_not_reuse_its_tokenizer(
    place: Path, tmp_path: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = adapting(place, place / "start", init_from=None)
    mine = config.model_copy(update={"data": config.data.model_copy(update={"dir": str(place / "data")})})
    Path("mine.yaml").write_text(dump_config(mine), encoding="utf-8")
    mono = place / "text" / "test.en"
    done = nmt(
        "back-translate", "--reverse", place / "reverse", "--mono", mono, "--config", "mine.yaml", "--output", "b"
    )
    assert done.status == 0, done.err
    assert "nmt prepare --config b/config.yaml\n" in done.out
    assert load_config("b/config.yaml").data.train[-1].license == "cc-by-4.0"


def test_other_direction_is_refused(place: Path) -> None:
    config = adapting(place, place / "start")
    other = config.model_copy(update={"data": config.data.model_copy(update={"direction": "en-de"})})
    with pytest.raises(DataError, match="de-en"):
        fit(other, place / "data", place / "turned")
    with pytest.raises(DataError, match="de-en"):
        prepare(other, place / "reversed", tokenizer_from=place / "start", echo=lambda _: None)


def test_imported_run_is_not_resumed(place: Path, nmt: Command) -> None:
    refused = nmt("train", "--resume", "--run", place / "start")
    assert refused.status == 2 and "--init-from" in refused.err


@pytest.mark.parametrize(
    ("name", "changes", "kind"),
    [
        ("bpe_dropout", {"bpe_dropout": 0.1}, "translation"),
        ("modifiers", {"modifiers": {"typos": 0.1}}, "translation"),
        ("masked", {"objective": "masked", "max_tokens": 400, "masked": MaskedConfig(pair_task=["cut"])}, "encoder"),
    ],
)
def test_what_needs_our_own_tokenizer_is_refused(place: Path, name: str, changes: dict[str, Any], kind: str) -> None:
    config = adapting(place, place / "start")
    training = config.training.model_copy(update={"init_from": None, **changes})
    model = config.model.model_copy(update={"kind": kind})
    with pytest.raises(ConfigError, match=f"training.{name}.* imported"):
        fit(config.model_copy(update={"training": training, "model": model}), place / "data", place / "other")


def test_cut_vocabulary_gives_equal_segmentation_and_rows(joint: Path, place: Path, tmp_path: Path) -> None:
    for language, lines in (("de", SOURCES), ("en", TARGETS)):
        (tmp_path / f"few.{language}").write_text("".join(f"{line}\n" for line in lines[:2]), encoding="utf-8")
    texts = [tmp_path / "few.de", tmp_path / "few.en"]
    found = import_model(ImportOptions(str(joint), tmp_path / "cut", keep_pieces_of=texts))
    full, cut = open_saved(place / "start"), open_saved(tmp_path / "cut")
    for language, lines in (("de", SOURCES), ("en", TARGETS)):
        one, two = full.tokenizers[language], cut.tokenizers[language]
        assert [two.pieces(two.encode(line)) for line in lines[:2]] == [
            one.pieces(one.encode(line)) for line in lines[:2]
        ]
        assert all((UNK in one.encode(line)) == (UNK in two.encode(line)) for line in lines)
    assert found.n_removed == len(full.tokenizers["de"]) - len(cut.tokenizers["de"]) > 5
    shares = [line for line in found.lines() if "%" in line]
    assert [line[:2] for line in shares] == ["de", "en"] and f"{found.n_parameters / 1e6:.1f}" in " ".join(
        found.lines()
    )
    assert found.n_parameters == sum(map(torch.numel, full.transformer().parameters()))
    piece = cut.tokenizers["de"].pieces([len(cut.tokenizers["de"]) - 1])
    row = full.tokenizers["de"].pieces(range(len(full.tokenizers["de"]))).index(piece[0])
    table = "encoder.embedding.weight"
    assert torch.equal(cut.weights.tensors[table][-1], full.weights.tensors[table][row])
    assert Translator.load(tmp_path / "cut").translate(SOURCES[:2])


def test_cut_vocabularies_are_exported_with_one_id_of_each_special_piece(tmp_path: Path) -> None:
    Marian(is_joint=False).write(tmp_path / "model", SOURCES, TARGETS)
    texts = [tmp_path / "few.de", tmp_path / "few.en"]
    for path, lines in zip(texts, (SOURCES[:1], TARGETS[:40]), strict=True):
        path.write_text("\n".join(lines), encoding="utf-8")
    import_model(ImportOptions(str(tmp_path / "model"), tmp_path / "cut", keep_pieces_of=texts))
    export(ExportOptions(tmp_path / "cut"), tmp_path / "out", "transformers")
    import_model(ImportOptions(str(tmp_path / "out"), tmp_path / "again"))
    check_equal_weights(tmp_path / "cut", tmp_path / "again")
    assert len({*map(len, open_saved(tmp_path / "cut").tokenizers.by_language.values())}) == 2
    check_ids(open_saved(tmp_path / "cut"), of_transformers("AutoTokenizer").from_pretrained(tmp_path / "out"))


@pytest.mark.parametrize("texts", [["few.de"], ["few.de", "empty.en"]])
def test_cut_without_text_of_a_language_is_refused(texts: list[str], joint: Path, tmp_path: Path) -> None:
    (tmp_path / "few.de").write_text("Hund\n", encoding="utf-8")
    (tmp_path / "empty.en").touch()
    with pytest.raises(DataError, match=r"\ben\b"):
        import_model(ImportOptions(str(joint), tmp_path / "run", keep_pieces_of=[tmp_path / name for name in texts]))


@pytest.mark.parametrize("is_zip", [True, False])
def test_weights_of_pickle_are_equal(is_zip: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip file is mapped again and again; the format before PyTorch 1.6 cannot be mapped."""
    Marian().write(tmp_path / "model", SOURCES, TARGETS)
    import_model(ImportOptions(str(tmp_path / "model"), tmp_path / "run"))
    weights = load_file(tmp_path / "model" / "model.safetensors")
    pickled = tmp_path / "model" / "pytorch_model.bin"
    torch.save(weights, pickled, _use_new_zipfile_serialization=is_zip)
    (tmp_path / "model" / "model.safetensors").unlink()
    monkeypatch.setattr("nmt.share.public._MAPPED_BYTES", 0)
    load, calls = torch.load, []
    monkeypatch.setattr(torch, "load", lambda *a, **k: calls.append(k["mmap"]) or load(*a, **k))
    import_model(ImportOptions(str(tmp_path / "model"), tmp_path / "again"))
    assert len(calls) > 9 if is_zip else calls == [False]
    check_equal_weights(tmp_path / "run", tmp_path / "again")


def test_untied_weights_are_exported_as_they_were(tmp_path: Path) -> None:
    Marian(is_tied=False).write(tmp_path / "model", SOURCES, TARGETS)
    import_model(ImportOptions(str(tmp_path / "model"), tmp_path / "run"))
    export(ExportOptions(tmp_path / "run"), tmp_path / "out", "transformers")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "out"))
    assert "model.shared.weight" in first and "lm_head.weight" in second
    assert all(torch.equal(first[name], second[name]) for name in second)


def test_piece_spelled_like_start_is_exported_to_ctranslate2(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    Marian(more_pieces=("<s>",)).write(tmp_path / "model", SOURCES, TARGETS)
    import_model(ImportOptions(str(tmp_path / "model"), tmp_path / "run"))
    exported = export(ExportOptions(tmp_path / "run"), tmp_path / "out", "ctranslate2")
    assert exported.comparison is not None and exported.comparison.difference < 1e-4


COMMANDS = [
    "score --run start --src text/test.de --ref text/test.en --output scores",
    "evaluate --run start --data data --split test",
    "evaluate --run start --src text/test.de --ref text/test.en",
    "compare start folder --data data --split test",
    "translate --run start --alignments aligned --input text/test.de --output out.en",
    "translate --run start --engine ctranslate2 --input text/test.de --output engine.en",
    "rerank --run start --reverse reverse --src text/test.de --output best.en --set search.to=swe",
    "export --run start --output exported",
    "back-translate --reverse reverse --mono text/test.en --config mine.yaml --output back",
    "distil --teacher start --mono text/test.de --output student",
    "runs .",
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_take_imported_run(
    line: str, place: Path, tmp_path: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("start", "reverse", "data", "text"):
        shutil.copytree(place / name, folder / name)
    monkeypatch.chdir(folder)
    config = adapting(place, place / "start")
    mine = config.model_copy(update={"data": config.data.model_copy(update={"dir": "data"})})
    shutil.copytree("start", "folder")
    Path("mine.yaml").write_text(dump_config(mine), encoding="utf-8")
    result = nmt(*line.split())
    assert result.status in (0, None), result.err


def test_state_of_imported_run_is_imported(place: Path) -> None:
    found = summarise(RunDir(place / "start"))
    assert (found.state, found.step, found.progress, found.problem) == ("imported", 0, None, None)


def test_public_model_in_place_of_run_names_import(joint: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nmt import$"):
        open_saved(joint)


def test_comparison_does_not_know_text_of_imported_run(place: Path, nmt: Command, tmp_path: Path) -> None:
    shutil.copytree(place / "start", tmp_path / "opus")
    result = nmt("compare", place / "start", tmp_path / "opus", "--data", place / "data", "--split", "test")
    said = result.out + result.err
    assert "(imported) is unknown" in said and "nmt prepare" not in said


def test_target_language_that_run_lacks_is_refused_before_training(place: Path) -> None:
    config = adapting(place, place / "start")
    with pytest.raises(DataError, match="swd"):
        fit(
            config.model_copy(update={"search": config.search.model_copy(update={"to": "swd"})}),
            place / "data",
            place / "swd",
        )
    assert not (place / "swd").exists()


# --- text that the tokenizer changes ---------------------------------------------------------------


def test_alignment_and_markup_of_words_of_pieces_that_target_segmenter_lacks(tmp_path: Path, nmt: Command) -> None:
    others = tuple(f"\u2581слово{i}" for i in range(300))
    Marian(more_pieces=others).write(tmp_path / "model", SOURCES, TARGETS)  # untrained, it writes mostly these
    import_model(ImportOptions(str(tmp_path / "model"), tmp_path / "run"))
    lines = SOURCES[:3]
    with serving(Service(load_models([tmp_path / "run"], "native", False, ()))) as client:
        asked = {"source": "de", "target": "en", "alignment": True}
        for line in lines:
            [best, *_] = client.ask("/v1/translate", {**asked, "text": line}).json["translations"]
            assert " слово" in best["text"]
            words = {*re.findall(r"\S+", best["text"])}
            assert {best["text"][slice(*pair["target"])] for pair in best["alignment"]} <= words
    (tmp_path / "a.html").write_text("".join(f"<p>{line.replace(' ', ' <b>', 1)}</b></p>" for line in lines))
    files = ["--input", tmp_path / "a.html", "--output", tmp_path / "b.html"]
    done = nmt("translate", "--run", tmp_path / "run", "--engine", "native", *files)
    assert done.status == 0, done.err
    written = (tmp_path / "b.html").read_text(encoding="utf-8")
    assert written.count("<b>") == len(lines) and " слово" in written


def test_server_offers_all_target_languages(place: Path) -> None:
    with serving(Service(load_models([place / "start"], "native", False, ()))) as client:
        asked = {"text": "Der Hund", "source": "de", "target": "en"}
        found = client.ask("/v1/translate", {**asked, "to": "swe"})
        [best, *_] = found.json["translations"]
        assert best["text"] == Translator.load(place / "start").translate(["Der Hund"], to="swe")[0]
        found = client.ask("/v1/translate", {**asked, "target": "swe", "alignment": True})
        [best, *_] = found.json["translations"]
        assert best["text"] == Translator.load(place / "start").translate(["Der Hund"], to="swe")[0]
        assert best["alignment"] is not None
        found = client.ask("/translate", {"q": "Der Hund", "source": "de", "target": "swe"})
        assert found.json["translatedText"] == best["text"]
        [of_source] = [each for each in client.ask("/languages").json if each["code"] == "de"]
        assert of_source["targets"] == ["en", "swe"]  # not deu, which is the source
        assert client.ask("/translate", {"q": "Der Hund", "source": "de", "target": "swd"}).status == 400
        for to in ("swd", "", 1):
            assert client.ask("/v1/translate", {**asked, "to": to}).status == 400


@pytest.mark.parametrize("to", ["", "swe"])
@pytest.mark.parametrize("line", [*ODD, "der\u00b4er Hund", "Hund \u00ad\u200b Hund"])
def test_source_pieces_belong_to_words_of_line(place: Path, line: str, to: str) -> None:
    tokenizer = open_saved(place / "start").tokenizers["de"]
    [ids] = tokenizer.encode_all([line], to)
    if ids:
        shares = src_word_shares(tokenizer, ids, line)
        assert shares.shape == (len(line.replace("\x07", " ").split()), len(ids))
        assert shares.sum(0).tolist() == [*[0.0] * bool(to), *[1.0] * (len(ids) - bool(to))]


def test_pieces_of_character_that_becomes_several_stay_in_word(place: Path) -> None:
    tokenizer = open_saved(place / "start").tokenizers["de"]
    line = "der\u00b4er Hund"
    ids = tokenizer.encode(line)
    first, second = src_word_shares(tokenizer, ids, line)
    n_second = len(tokenizer.encode("Hund"))
    assert len(tokenizer.decode(ids).split()) == 3
    assert first[:-n_second].all() and second[-n_second:].all()


def test_sampled_segmentations_have_no_unknown_pieces(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = open_saved(place / "start").tokenizers["de"]
    assert isinstance(tokenizer, ImportedTokenizer)
    word = tokenizer.encode("Hund")
    found = dict.fromkeys(map(tuple, (ids for ids, _ in tokenizer.segmentations(" Hund", 64))))
    assert len(found) > 1
    lacked = next(ids for ids in found if list(ids) != word)[-1]
    monkeypatch.delitem(tokenizer._id_of, tokenizer.pieces([lacked])[0])
    kept = [segmentation for segmentation in found if lacked not in segmentation]
    for number in range(0, 2**32, 2**27):
        drawn = sampled(tokenizer, 64, word, iter([number]))
        assert tuple(drawn) in kept or (not kept and drawn == word)
    monkeypatch.setattr(tokenizer, "_id_of", {})  # as for a text whose pieces the vocabulary lacks
    assert sampled(tokenizer, 64, word, iter([0])) == word


def test_prefix_without_pieces_is_refused(place: Path) -> None:
    translator = Translator.load(place / "start", precision="float32")
    with pytest.raises(DataError, match="\u4e2d"):
        list(translator.translate_lines([Line(SOURCES[0], prefix="the \u4e2d")]))


# --- several target languages ---------------------------------------------------------------------


def test_tag_of_line_or_option_precedes_source(place: Path, nmt: Command) -> None:
    tokenizer = open_saved(place / "start").tokenizers["de"]
    plain = tokenizer.encode("Der Hund")
    assert tokenizer.target_languages.keys() == {"deu", "swe"}
    assert tokenizer.encode(">><< Hund") == tokenizer.encode_all([">><< Hund"], "")[0]
    assert tokenizer.encode(">>swe<< Der Hund") == [tokenizer.target_languages["swe"], *plain]
    assert tokenizer.encode_all(["Der Hund", ">>swe<< Der"], "deu")[0] == [tokenizer.target_languages["deu"], *plain]
    assert tokenizer.encode_all([">>swe<< Der Hund"], "deu")[0][1] != tokenizer.target_languages["swe"]
    with pytest.raises(DataError, match="swe"):
        tokenizer.encode(">>swd<< Der Hund")
    refused = nmt("translate", "--run", place / "start", "--to", "swd", "--input", place / "text" / "test.de")
    assert refused.status == 2 and "did you mean swe" in refused.err


def test_chosen_target_language_is_kept_in_run(joint: Path, tmp_path: Path) -> None:
    import_model(ImportOptions(str(joint), tmp_path / "run", direction="de-sv", to="swe"))
    translator = Translator.load(tmp_path / "run", precision="float32")
    [[best]] = translator.translate_lines(SOURCES[:1])
    tags = translator.tokenizers["de"].target_languages
    assert translator.config.data.direction == "de-sv" and best.parts[0].src_ids[0] == tags["swe"]
    [[other]] = translator.translate_lines(SOURCES[:1], translator.search_settings({"to": "deu"}))
    assert other.parts[0].src_ids[0] == tags["deu"]


def test_example_for_transformers_has_tag_of_target_language(
    joint: Path, place: Path, tmp_path: Path, nmt: Command
) -> None:
    import_model(ImportOptions(str(joint), tmp_path / "swe", direction="de-sv", to="swe"))
    for run, tag in ((tmp_path / "swe", ">>swe<<"), (place / "start", ">>deu<<")):
        done = nmt("export", "--run", run, "--format", "transformers", "--output", tmp_path / "out")
        assert done.status == 0 and tag in done.out
        [text] = re.findall(r'tokenizer\(\["(.*)"\]', (tmp_path / "out" / "README.md").read_text(encoding="utf-8"))
        tokenizer = of_transformers("MarianTokenizer").from_pretrained(tmp_path / "out")
        first, *rest = tokenizer.convert_ids_to_tokens(tokenizer([text])["input_ids"][0])
        assert first == tag and rest[0].startswith("\u2581")
        shutil.rmtree(tmp_path / "out")


# --- bad input ------------------------------------------------------------------------------------


def changed(name: str, **values: object) -> Callable[[Path], None]:
    """Return a function that changes values in a JSON file of a model; None removes one."""

    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        content |= values
        content = {key: value for key, value in content.items() if value is not None}
        (folder / name).write_text(json.dumps(content), encoding="utf-8")

    return change


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def written(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def without(name: str) -> Callable[[Path], None]:
    """Return a function that removes a tensor, or adds one whose name is new."""

    def change(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        if tensors.pop(name, None) is None:
            tensors[name] = torch.zeros(3)
        save_file(tensors, folder / "model.safetensors")

    return change


class Executed:
    def __reduce__(self) -> Any:
        return pytest.fail, ("was executed",)


def with_pickle(content: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "pytorch_model.bin").write_bytes(content)

    return change


def with_torch(content: object, n_lost: int = 0) -> Callable[[Path], None]:
    """Return a function that writes content with torch.save, without the last bytes."""
    data = io.BytesIO()
    torch.save(content, data)
    return with_pickle(data.getvalue()[: len(data.getvalue()) - n_lost])


def with_half_a_character(folder: Path) -> None:
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    ids["\ud800"] = ids.pop(max(ids))
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")


LAYER = "model.encoder.layers.0.fc1.weight"


def with_wide_layer(folder: Path) -> None:
    """Write a width of 65536 into config.json and into a single layer."""
    changed("config.json", d_model=2**16)(folder)
    save_file({**load_file(folder / "model.safetensors"), LAYER: torch.zeros(128, 2**16)}, folder / "model.safetensors")


def with_nan(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.encoder.layers.0.fc1.bias"][0] = torch.nan
    save_file(tensors, folder / "model.safetensors")


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
BAD = {
    "another kind": (changed("config.json", model_type="mbart"), "mbart"),
    "pre-norm": (changed("config.json", normalize_before=True), "normalize_before"),
    "unscaled": (changed("config.json", scale_embedding=False), "scale_embedding"),
    "activation": (changed("config.json", activation_function="tanh"), "tanh"),
    "other start": (changed("config.json", decoder_start_token_id=3), "decoder_start_token_id"),
    "width": (changed("config.json", d_model=36), "d_model is 36 in config.json, but 32"),
    "huge width": (changed("config.json", d_model=65536), "d_model is 65536 in config.json, but 32"),
    "huge layers": (changed("config.json", encoder_ffn_dim=2**20, decoder_ffn_dim=2**20), "encoder_ffn_dim is 1048576"),
    "huge width of one layer": (with_wide_layer, "too small for"),
    "layers": (changed("config.json", encoder_layers=3), "lacks the weights"),
    "fewer layers": (changed("config.json", encoder_layers=1), "do not have"),
    "no heads": (changed("config.json", encoder_attention_heads=None, decoder_attention_heads=None), "n_heads"),
    "no configuration": (removed("config.json"), "config.json"),
    "no vocabulary": (removed("vocab.json"), "vocab.json"),
    "no segmenter": (removed("target.spm"), "target.spm"),
    "no weights": (removed("model.safetensors"), "model.safetensors"),
    "broken configuration": (written("config.json", b"{"), "config.json"),
    "list": (written("vocab.json", b"[]"), "vocab.json"),
    "broken segmenter": (written("source.spm", b"\x0a\xff"), "source.spm"),
    "broken weights": (written("model.safetensors", b"garbage"), "model.safetensors"),
    "pointer": (written("model.safetensors", POINTER), "Git LFS"),
    "pointer to segmenter": (written("source.spm", POINTER), "Git LFS"),
    "larger vocabulary": (changed("vocab.json", new=1000), "ids"),
    "size of vocabulary": (changed("config.json", vocab_size=7, decoder_vocab_size=7), "vocab_size is 7 in config"),
    "id of padding": (changed("config.json", pad_token_id=10**6, decoder_start_token_id=10**6), "pad_token_id"),
    "no unknown piece": (changed("tokenizer_config.json", unk_token="<none>"), "<none>"),
    "no languages": (changed("tokenizer_config.json", source_lang=None), "--direction"),
    "tensor left over": (without("model.extra"), "model.extra"),
    "tensor missing": (without("final_logits_bias"), "final_logits_bias"),
    "executing pickle": (with_pickle(pickle.dumps(Executed(), protocol=2)), "not executed"),
    "broken pickle": (with_pickle(b"garbage"), "pytorch_model.bin"),
    "pickled list": (with_torch([1]), "pytorch_model.bin"),
    "pickled tensor": (with_torch(torch.zeros(2)), "pytorch_model.bin"),
    "truncated pickle": (with_torch({"a": torch.zeros(999)}, n_lost=100), "pytorch_model.bin"),
    "sparse tensor": (with_torch({LAYER: torch.eye(128, 32).to_sparse()}), LAYER),
    "one number of a huge tensor": (with_torch({LAYER: torch.zeros(1).expand(2**20, 2**16)}), LAYER),
    "weights that are not numbers": (with_nan, "fc1.bias"),
    "half a character": (with_half_a_character, "vocab.json"),
    "list of activations": (changed("config.json", activation_function=["relu"]), "activation_function"),
    "beam": (changed("generation_config.json", num_beams=10**9), "search.beam"),
    "dropout": (changed("config.json", dropout=1.0), "dropout"),
    "empty segmenter": (written("source.spm", b""), "source.spm"),
    "labels": (changed("tokenizer_config.json", target_lang="label"), "--direction"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_model_is_refused_in_one_line(name: str, joint: Path, tmp_path: Path, nmt: Command) -> None:
    change, expected = BAD[name]
    shutil.copytree(joint, tmp_path / "bad")
    change(tmp_path / "bad")
    result = nmt("import", tmp_path / "bad", "--run", tmp_path / "run")
    assert (result.status, result.err.count("\n")) == (2, 1), result.err
    assert expected in result.err and str(tmp_path) in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad"]


@pytest.mark.parametrize("content", [
    "\ufeff---\nlicense: mit\n---\n", "---\r\nlicense: [mit]\r\n---\r\n", "---\ndate: 2024-13-45\nlicense: mit\n---\n",
])  # fmt: skip
def test_settings_and_card_are_read_as_others_write_them(content: str, joint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(joint, folder)
    changed("tokenizer_config.json", target_lang="es-MX", unk_token={"content": "<unk>"})(folder)
    changed("generation_config.json", length_penalty=0.0)(folder)
    (folder / "README.md").write_bytes(content.encode())
    found = import_model(ImportOptions(str(folder), tmp_path / "run"))
    assert (found.model.license, found.config.data.direction) == ("mit", "de-es_mx")
    assert found.config.search.length_penalty == 0.0


@pytest.mark.parametrize(
    "value",
    ["&a [*a]", "[" * 5000, f"[{'x, ' * 100_000}]", f"[&a [x, x], &b [{'*a, ' * 1000}], {'*b, ' * 1000}]"],
    ids=["recursive", "nested", "long", "repeated"],
)
def test_card_that_cannot_be_read_leaves_licence_open(
    value: str, joint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(joint, tmp_path / "model")
    (folder / "README.md").write_text(f"---\nlicense: {value}\n---\n")
    assert import_model(ImportOptions(str(folder), tmp_path / "run")).model.license is None
    assert capsys.readouterr().err.startswith(f"nmt: note: {folder / 'README.md'}: ")


def test_size_of_target_vocabulary_of_joint_model_is_ignored(joint: Path, tmp_path: Path) -> None:
    shutil.copytree(joint, tmp_path / "model")
    changed("config.json", decoder_vocab_size="x")(tmp_path / "model")
    assert import_model(ImportOptions(str(tmp_path / "model"), tmp_path / "run")).tokenizers.joint


def test_interrupted_import_leaves_nothing(joint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = ImportOptions(str(joint), tmp_path / "runs" / "run")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("nmt.share.public.save_checkpoint", Mock(side_effect=KeyboardInterrupt))
        import_model(request)
    assert not [path for path in tmp_path.rglob("*") if path.name == "config.yaml"]
    import_model(request)
    assert open_saved(tmp_path / "runs" / "run").tokenizers.imported


def test_file_in_a_folder_is_no_repository(joint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(joint.parent)
    with pytest.raises(DataError, match=r"config\.json: is a file"):
        import_model(ImportOptions(f"{joint.name}/config.json", tmp_path / "run"))


def test_languages_of_marian_model_are_refused(joint: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--direction"):
        import_model(ImportOptions(str(joint), tmp_path / "run", languages=("de", "en")))


@pytest.mark.parametrize("direction", ["deen", "de-en-fr", "de-de", "de-label"])
def test_direction_of_other_than_two_languages_is_refused(direction: str, joint: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"'{direction}'.*--direction"):
        import_model(ImportOptions(str(joint), tmp_path / "run", direction=direction))


def test_run_is_not_imported_again(place: Path, nmt: Command) -> None:
    result = nmt("import", place / "start", "--run", place / "twice")
    assert result.status == 2 and "--init-from" in result.err and not (place / "twice").exists()


@pytest.mark.parametrize(
    "change", [{"pieces": []}, {"pieces": [[]]}, {"padding": "<none>"}, {"direction": "de"}], ids=str
)
def test_damaged_vocabulary_of_run_is_refused(change: dict[str, object], place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "start", tmp_path / "run")
    path = RunDir(tmp_path / "run").tokenizer.imported
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    with pytest.raises(DataError, match=r"imported\.json"):
        open_saved(tmp_path / "run")


def test_existing_run_is_kept(joint: Path, place: Path, nmt: Command) -> None:
    assert nmt("import", joint, "--run", place / "start").status == 2


# --- the hub --------------------------------------------------------------------------------------


@pytest.fixture
def hub(joint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serve(Hub()) as hub:
        hub.add("some/model", "main", {path.name: path.read_bytes() for path in joint.iterdir()})
        use_hub(hub, tmp_path / "home", monkeypatch)
        yield hub


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of the hub's client itself
def test_model_is_downloaded_once_and_then_found_offline(
    hub: Hub, tmp_path: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = nmt("import", "some/model", "--run", tmp_path / "run")
    assert first.status == 0, first.err
    imported = read_info(RunDir(tmp_path / "run")).imported
    assert imported is not None
    assert (imported.name, imported.revision) == ("some/model", hub.commit("some/model", "main"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert nmt("import", "hf://some/model@main", "--run", tmp_path / "again").status == 0
    refused = nmt("import", "some/other", "--run", tmp_path / "other")
    assert refused.status == 2 and "HF_HUB_OFFLINE" in refused.err and not (tmp_path / "other").exists()
