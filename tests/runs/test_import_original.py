"""Import of models in Marian's own format: one that Marian has trained, and others with random weights."""

from __future__ import annotations

import io
import json
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch

from command import Command
from nmt.errors import ConfigError, DataError
from nmt.layout import RunDir
from nmt.model.embedding import TABLES
from nmt.runs.info import read_info
from nmt.runs.model import open_saved
from nmt.share.engine import made_up_lines
from nmt.share.export import ExportOptions, export
from nmt.share.public import import_model
from nmt.share.public_vocabulary import ImportOptions
from nmt.text.ids import BOS, N_SPECIAL, PAD, UNK
from nmt.translate.loading import Translator
from original_marian import D_MODEL, PAIRS, Original, pieces_of, segmenter
from places import GOLDEN

pytestmark = pytest.mark.usefixtures("no_coverage")

LINES = [line for pair in PAIRS for line in pair]
LIMIT = {"max_length_ratio": 2.0, "max_length_offset": 3, "length_penalty": 0.0, "split": "never"}
"""The limit of Marian with --max-length-factor 2, which counts no `</s>`."""
KINDS = [
    Original(),
    Original("all", False, "swish"),
    Original("target", True, "gelu"),
    Original("src", False, "relu"),
    Original("src", True, "swish"),
    Original("none", True, "relu"),
    Original("target", False, "swish", has_two=True),
    Original("none", True, "swish", has_two=True, in_yaml=True),
    Original("all", True, "relu", in_yaml=True),
]


def imported(folder: Path, run: Path, **options: Any) -> Path:
    """Import a model, and return the run."""
    import_model(ImportOptions(str(folder), run, **({"direction": "de-en"} | options)))
    return run


def refused(place: Path, run: Path, **options: Any) -> str:
    """Check that a model is refused in one line and nothing is written, and return the message."""
    with pytest.raises((DataError, ConfigError)) as raised:
        imported(place, run, **options)
    assert not run.exists() and "\n" not in str(raised.value) and str(place) in str(raised.value)
    return str(raised.value)


def test_model_of_marian_has_its_scores_and_translations(tmp_path: Path) -> None:
    expected = json.loads((GOLDEN / "marian" / "pymarian.json").read_text(encoding="utf-8"))
    translator = Translator.load(imported(GOLDEN / "marian", tmp_path / "run"), precision="float32")
    scored = [*translator.score(zip(expected["source"], expected["target"], strict=True))]
    for ours, theirs in zip(scored, expected["log_prob"], strict=True):
        assert ours.log_prob == pytest.approx(theirs, abs=1e-4 * len(ours.pieces))
    found = translator.translate_lines(expected["source"], translator.search_settings({**LIMIT, "beam": 1}))
    assert [best.text for best, *_ in found] == expected["greedy"]
    search = translator.search
    assert (search.beam, search.length_penalty) == (12, 0.0), "of model.npz.decoder.yml"


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_scores_equal_those_of_numpy(kind: Original, tmp_path: Path) -> None:
    arrays = kind.write(tmp_path / "model", **{"beam-size": 7, "normalize": 0.5})
    run = imported(tmp_path / "model", tmp_path / "run")
    processors = [sentencepiece.SentencePieceProcessor(model_proto=model) for model in kind.segmenters]
    end = [of_side.index("</s>") for of_side in kind.vocabularies]
    for pair, scored in zip(PAIRS[:5], Translator.load(run, precision="float32").score(PAIRS[:5]), strict=True):
        src, tgt = ([*processor.encode(line), i] for processor, line, i in zip(processors, pair, end, strict=True))
        assert scored.log_prob == pytest.approx(kind.log_prob(arrays, src, tgt), abs=1e-3)
    config = open_saved(run).config
    assert (config.search.beam, config.search.length_penalty) == (7, 0.5)
    assert config.model.positions == "marian" and config.model.start_embedding == "zero"
    assert config.model.output_bias is True


def test_rows_that_model_lacks_are_absent(tmp_path: Path) -> None:
    Original(has_bias=False).write(tmp_path / "model")
    saved = open_saved(imported(tmp_path / "model", tmp_path / "run"))
    bias = saved.weights.tensors["output_bias"]
    assert bias[PAD] == -100 and bias[UNK] == 0 and not bias[N_SPECIAL:].any()
    assert not saved.weights.tensors["encoder.embedding.weight"][[PAD, BOS]].any()


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[2], KINDS[4], KINDS[6]], ids=str)
def test_export_to_transformers_is_imported_as_the_same_model(kind: Original, tmp_path: Path) -> None:
    kind.write(tmp_path / "model")
    run = imported(tmp_path / "model", tmp_path / "run")
    export(ExportOptions(run), tmp_path / "exported", "transformers")  # compares the log-probabilities
    again = open_saved(imported(tmp_path / "exported", tmp_path / "again", direction=None))
    before = open_saved(run)
    assert again.config.model.positions == "marian"
    assert before.weights.tensors.keys() == again.weights.tensors.keys()
    assert all(torch.equal(tensor, again.weights.tensors[name]) for name, tensor in before.weights.tensors.items())


def test_archive_is_imported_like_its_directory(tmp_path: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Original(in_yaml=True, tags=("deu", "swe")).write(tmp_path / "model")
    (tmp_path / "model" / "model.npz.decoder.yml").rename(tmp_path / "model" / "decoder.yml")
    (tmp_path / "model" / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n", encoding="utf-8")
    shutil.make_archive(str(tmp_path / "opus-1"), "zip", tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    done = nmt("import", "opus-1.zip", "--direction", "en-sv", "--to", "swe")
    assert done.status == 0, done.err
    run, other = RunDir(Path("runs/opus-1")), imported(Path("model"), Path("other"), direction="en-sv", to="swe")
    one, two = open_saved(run.path), open_saved(other)
    assert one.weights.identity == two.weights.identity
    source = one.tokenizers["en"]
    assert source.to == "swe" and source.encode("Hund")[0] == source.target_languages["swe"]
    public = read_info(run).public
    assert public is not None and (public.name, public.license) == ("opus-1", "cc-by-4.0")


def test_pieces_in_yaml_are_read_as_marian_writes_them(tmp_path: Path) -> None:
    names = ["</s>", "<unk>", "yes", "null", "1", '"', "'s", "a:b", ": ", "\\ab", "\u2581#", "\x07", "\u00a0x", "~"]
    written = ['"</s>": 0', "<unk>: 1", "yes: 2", "'null': 3", "1: 4", '"\\"": 5', "\"'s\": 6", "a:b: 7", '": ": 8',
               "\\ab: 9", "? \u2581#\n: 10", '"\\x07": 11', '"\\u00a0x": 12', '"~": 13']  # fmt: skip
    pieces = pieces_of(segmenter("both"))
    rest = [piece for piece in pieces if piece not in names][: len(pieces) - len(names)]
    Original(in_yaml=True).write(tmp_path / "model")
    lines = [*written, *(f"{json.dumps(piece)}: {i}" for i, piece in enumerate(rest, len(written)))]
    (tmp_path / "model" / "vocab.yml").write_text("\n".join(lines), encoding="utf-8")
    imported_names = open_saved(imported(tmp_path / "model", tmp_path / "run")).tokenizers.imported
    assert imported_names is not None and imported_names.pieces[0][: len(names)] == names


def test_table_that_is_larger_than_its_vocabulary_keeps_its_scores(tmp_path: Path) -> None:
    kind = Original("target", has_two=True)
    arrays = kind.arrays()
    for name, n_more in (("decoder_Wemb", 3), ("encoder_Wemb", 1)):
        arrays[name] = np.concatenate((arrays[name], np.ones((n_more, D_MODEL), np.float32)))
    arrays["decoder_ff_logit_out_b"] = np.concatenate((arrays["decoder_ff_logit_out_b"], np.ones((1, 3), "f4")), 1)
    kind.write(tmp_path / "model", arrays)
    translator = Translator.load(imported(tmp_path / "model", tmp_path / "run"), precision="float32")
    processors = [sentencepiece.SentencePieceProcessor(model_proto=model) for model in kind.segmenters]
    src, tgt = ([*processor.encode(line), 0] for processor, line in zip(processors, PAIRS[0], strict=True))
    [scored] = translator.score(PAIRS[:1])
    assert scored.log_prob == pytest.approx(kind.log_prob(arrays, src, tgt), abs=1e-3)


def test_tags_and_bytes_in_segmenter_are_refused(tmp_path: Path) -> None:
    Original().write(tmp_path / "model")
    for change in ({"user_defined_symbols": [">>deu<<"]}, {"byte_fallback": True, "vocab_size": 330}):
        model = io.BytesIO()
        options: dict[str, Any] = {"vocab_size": 70, "hard_vocab_limit": False, "minloglevel": 2} | change
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=model, **options)
        (tmp_path / "model" / "vocab.spm").write_bytes(model.getvalue())
        assert "only" in refused(tmp_path / "model", tmp_path / "run")


def test_vocabulary_is_cut(tmp_path: Path) -> None:
    Original().write(tmp_path / "model")
    texts = [tmp_path / "few.de", tmp_path / "few.en"]
    for path, line in zip(texts, PAIRS[0], strict=True):
        path.write_text(f"{line}\n", encoding="utf-8")
    whole, cut = (
        open_saved(imported(tmp_path / "model", tmp_path / name, keep_pieces_of=chosen))
        for name, chosen in (("whole", ()), ("cut", texts))
    )
    assert len(cut.tokenizers["de"]) < len(whole.tokenizers["de"])
    ids = [saved.tokenizers["de"].encode(PAIRS[0][0]) for saved in (whole, cut)]
    tables = [saved.weights.tensors["encoder.embedding.weight"] for saved in (whole, cut)]
    assert torch.equal(tables[0][ids[0]], tables[1][ids[1]])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("type", "s2s"), ("transformer-preprocess", "n"), ("transformer-postprocess", "da"),
        ("transformer-postprocess", "dar"), ("transformer-postprocess-top", "n"), ("transformer-postprocess-emb", "nd"),
        ("transformer-decoder-autoreg", "rnn"), ("transformer-decoder-autoreg", "average-attention"),
        ("transformer-ffn-depth", 3), ("transformer-no-projection", True), ("transformer-tied-layers", [1, 1]),
        ("transformer-train-position-embeddings", True), ("transformer-disable-position-embeddings", True),
        ("transformer-alibi-shift", True), ("right-left", True), ("ulr", True), ("factors-dim-emb", 8),
        ("lemma-dim-emb", 8), ("lemma-dependency", "soft"), ("transformer-ffn-activation", "tanh"),
        ("tied-embeddings", "often"),
    ],
)  # fmt: skip
def test_unsupported_settings_are_refused(setting: str, value: object, tmp_path: Path) -> None:
    Original(settings={setting: value}).write(tmp_path / "model")
    assert setting in refused(tmp_path / "model", tmp_path / "run")


def without(name: str) -> Callable[[dict[str, Any]], object]:
    """Return a change that removes an array."""
    return lambda arrays: arrays.pop(name)


@pytest.mark.parametrize(
    ("named", "change"),
    [
        ("Wemb_alibi", lambda arrays: arrays.update(Wemb_alibi=arrays["Wemb"])),
        ("l1_rnn_W", lambda arrays: arrays.update(decoder_l1_rnn_W=arrays["Wemb"])),
        ("final_logits_bias", without("decoder_ff_logit_out_b")),
        ("vocab_size", without("Wemb")),
        ("encoder_attn.out_proj", without("decoder_l2_context_Wo")),
        ("Wo", lambda arrays: arrays.update(decoder_l1_self_Wo=np.zeros((D_MODEL, D_MODEL), object))),
        ("Wo", lambda arrays: arrays.update(decoder_l1_self_Wo=np.zeros((D_MODEL, D_MODEL), np.int8))),
        ("self_attn.q_proj", lambda arrays: arrays.update(decoder_l1_self_Wq=np.zeros((4, 4), np.float32))),
        ("self_bq", lambda arrays: arrays.update(decoder_l1_self_bq=np.zeros(D_MODEL, np.float32))),
        ("finite", lambda arrays: arrays["encoder_l1_ffn_W1"].fill(np.nan)),
        ("finite", lambda arrays: arrays["Wemb"].fill(np.inf)),
        ("layers.2.", lambda arrays: arrays.update(decoder_l3_self_Wq=arrays["decoder_l1_self_Wq"])),
    ],
)
def test_arrays_that_do_not_fit_are_refused(named: str, change: Callable[[Any], object], tmp_path: Path) -> None:
    arrays = Original().arrays()
    change(arrays)
    if any(array.dtype == object for array in arrays.values()):
        named = "pickle"
    Original().write(tmp_path / "model", arrays)
    assert named in refused(tmp_path / "model", tmp_path / "run")


def test_transposed_order_in_memory_is_read(tmp_path: Path) -> None:
    arrays = Original().write(tmp_path / "model")
    turned = {name: np.asfortranarray(array) for name, array in arrays.items()}
    Original().write(tmp_path / "turned", turned)
    one, two = (open_saved(imported(tmp_path / name, tmp_path / f"{name}-run")) for name in ("model", "turned"))
    assert one.weights.identity == two.weights.identity


def header(shape: str) -> bytes:
    """Return the start of an array whose header states a shape."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "content",
    [header("(1000000000000, 8)"), header("(" * 5000), header("8" * 20000), header("(-1, 8)"), b"no array", b""],
    ids=["huge", "nested", "long", "negative", "text", "empty"],
)
def test_hostile_array_is_refused(content: bytes, tmp_path: Path) -> None:
    arrays = Original().arrays()
    del arrays["Wemb"]
    Original().write(tmp_path / "model", arrays)
    with zipfile.ZipFile(tmp_path / "model" / "model.npz", "a") as archive:
        archive.writestr("Wemb.npy", content)
    assert "npz" in refused(tmp_path / "model", tmp_path / "run")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    Original().write(tmp_path / "model")
    weights = tmp_path / "model" / "model.npz"
    whole = weights.read_bytes()
    for content in (whole[:-200], whole[: len(whole) // 2], b"", b"no archive", whole[:2000] + b"x" + whole[2001:]):
        weights.write_bytes(content)
        refused(tmp_path / "model", tmp_path / "run")
    weights.write_bytes(whole)
    (tmp_path / "model" / "vocab.spm").write_bytes(b"no model")
    refused(tmp_path / "model", tmp_path / "run")
    with zipfile.ZipFile(weights, "w") as archive:  # without settings
        archive.writestr("x.npy", header("(0,)"))
    assert "special:model.yml" in refused(tmp_path / "model", tmp_path / "run")


def test_archives_that_unpack_to_too_much_are_refused(tmp_path: Path) -> None:
    arrays = Original().arrays()
    Original().write(tmp_path / "model", {**arrays, "Wemb": np.zeros((2_000_000, D_MODEL), np.float32)})
    weights = tmp_path / "model" / "model.npz"
    with np.load(weights) as content:
        np.savez_compressed(weights, **content)
    assert "unpacks" in refused(tmp_path / "model", tmp_path / "run")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.npz", bytes(100_000_000))
    assert "unsafe" in refused(tmp_path / "bomb.zip", tmp_path / "run")


def test_compressed_arrays_are_read(tmp_path: Path) -> None:
    arrays = Original().write(tmp_path / "model")
    whole = imported(tmp_path / "model", tmp_path / "whole")
    weights = tmp_path / "model" / "model.npz"
    with np.load(weights) as content:
        np.savez_compressed(weights, **content)
    assert len(arrays) > 1
    assert open_saved(imported(weights, tmp_path / "run")).weights.identity == open_saved(whole).weights.identity


def test_names_that_lead_out_of_an_archive_write_nothing_there(tmp_path: Path) -> None:
    Original().write(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for file in (tmp_path / "model").iterdir():
            archive.write(file, file.name)
        archive.writestr("../../../outside", b"x")
        archive.writestr("/tmp/outside-of-archive", b"x")
    imported(tmp_path / "model.zip", tmp_path / "run")
    assert not Path("/tmp/outside-of-archive").exists()


def test_unsupported_places_are_refused(tmp_path: Path, nmt: Command) -> None:
    kind = Original()
    kind.write(tmp_path / "ensemble", models=["a.npz", "b.npz"])
    assert "ensembles" in refused(tmp_path / "ensemble", tmp_path / "run")
    kind.write(tmp_path / "binary", models=["model.bin"])
    (tmp_path / "binary" / "model.bin").write_bytes(b"x")
    assert ".npz" in refused(tmp_path / "binary", tmp_path / "run")
    assert ".npz" in refused(tmp_path / "binary" / "model.bin", tmp_path / "run")
    kind.write(tmp_path / "factors", vocabs=["vocab.fsv", "vocab.fsv"])
    assert "source.spm" in refused(tmp_path / "factors", tmp_path / "run")
    Original(in_yaml=True).write(tmp_path / "subwords")
    (tmp_path / "subwords" / "source.spm").rename(tmp_path / "subwords" / "source.bpe")
    assert "subword-nmt" in refused(tmp_path / "subwords", tmp_path / "run")
    for content in ("models: 5", "models: [model.npz]\nvocabs: [a, b, c]", "- a", "models: {", "\0"):
        (tmp_path / "binary" / "model.npz.decoder.yml").write_text(content)
        assert "decoder.yml" in refused(tmp_path / "binary", tmp_path / "run")
    Original(has_two=True).write(tmp_path / "two")
    assert "--direction" in refused(tmp_path / "two", tmp_path / "run", direction=None)
    done = nmt("import", tmp_path / "two", "--languages", "de,en", "--run", tmp_path / "run")
    assert done.status == 2 and done.err.count("\n") == 1 and not (tmp_path / "run").exists()


def test_translations_are_compared_with_those_of_marian(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Marian:
        """A stand-in for pymarian that returns `answers`, and fails for paths that Marian would divide."""

        def __init__(self, options: str) -> None:
            paths = [word for word in options.split() if "/" in word]
            assert len(paths) == 3 and all(Path(path).exists() for path in paths)

        def translate(self, lines: list[str]) -> list[str]:
            assert all(" \u2581" in line for line in lines if len(line) > 30)
            return answers

    model = tmp_path / "a model"
    Original().write(model)
    monkeypatch.setitem(sys.modules, "pymarian", None)
    translator = Translator.load(imported(model, tmp_path / "run"), precision="float32")
    assert "Marian" not in capsys.readouterr().err
    found = translator.translate_lines(
        made_up_lines(translator.tokenizers["de"], 10), translator.search_settings({**LIMIT, "beam": 1})
    )
    answers = [best.text.replace(" ", " \u2581") for best, *_ in found]
    stand_in = ModuleType("pymarian")
    monkeypatch.setattr(stand_in, "Translator", Marian, raising=False)
    monkeypatch.setitem(sys.modules, "pymarian", stand_in)
    for n_equal in (10, 8):
        answers[n_equal:] = ["other"] * (10 - n_equal)
        imported(model, tmp_path / f"run-{n_equal}")
        assert f"{n_equal} of 10" in capsys.readouterr().err
    answers[7:] = ["other"] * 3
    assert "7 of 10" in refused(model, tmp_path / "refused")


def test_other_positions_in_transformers_format_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from safetensors.torch import load_file, save_file

    Original().write(tmp_path / "model")
    export(ExportOptions(imported(tmp_path / "model", tmp_path / "run")), tmp_path / "exported", "transformers")
    weights = tmp_path / "exported" / "model.safetensors"
    tensors = load_file(weights)
    name = "model.encoder.embed_positions.weight"
    torch.testing.assert_close(tensors[name][:9], TABLES["marian"](9, D_MODEL))
    for other in (tensors[name] + 1, tensors[name][:, :3].clone(), tensors[name][0].clone()):
        save_file({**tensors, name: other}, weights)
        refused(tmp_path / "exported", tmp_path / "other", direction=None)
