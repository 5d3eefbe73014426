"""Tests of `nmt export --format onnx`; scripts/checks/web_page.py compares with transformers.js."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as ExportedTokenizer

from command import Command
from export_run import LINES, card_of, write_run
from m2m import M2M
from marian import Marian
from nmt.errors import CheckpointError, ConfigError
from nmt.model.transformer import ACTIVATIONS, Decoder
from nmt.runs.folder import verify_export
from nmt.runs.model import open_saved
from nmt.search.settings import SearchConfig
from nmt.share import onnx, onnx_graph, transformers
from nmt.share.export import Exported, ExportOptions, export
from nmt.share.onnx import OnnxSearcher
from nmt.share.public import import_model
from nmt.share.public_vocabulary import ImportOptions
from nmt.text.ids import BOS, EOS, N_SPECIAL, UNK
from nmt.translate.loading import Translator
from tiny_run import words


def exported(run: Path, directory: Path, quantization: Any = None, lines: int = 8) -> Exported:
    check = directory.parent / "lines"
    check.write_text("\n".join(LINES), encoding="utf-8")
    return export(ExportOptions(run, check=check, check_lines=lines), directory, "onnx", quantization)


@pytest.mark.parametrize(
    ("joint", "model"),
    [
        (True, {}),
        (True, {"norm": "post", "activation": "gelu", "output_bias": True}),
        (False, {"tie_embeddings": "target", "positions": "learned", "activation": "silu"}),
        (False, {"tie_embeddings": "none", "norm": "post", "positions": "learned", "encoder_layers": 1}),
    ],
)
def test_graphs_compute_run(joint: bool, model: dict[str, Any], tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", joint, **model)
    comparison = exported(run, tmp_path / "out").comparison
    assert comparison is not None and comparison.identical == 1 and comparison.difference < 1e-5
    assert verify_export(tmp_path / "out").identical == 1


def test_int8_graphs_are_smaller_and_nearly_equal(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    sizes = []
    for quantization in ("float32", "int8"):
        comparison = exported(run, tmp_path / quantization, quantization).comparison
        assert comparison is not None and comparison.difference < {"float32": 1e-5, "int8": 0.1}[quantization]
        sizes.append(sum(path.stat().st_size for path in (tmp_path / quantization / "onnx").iterdir()))
    assert sizes[1] < 0.5 * sizes[0]


def test_quantized_weight_is_near_and_keeps_zero() -> None:
    weight = torch.randn(3, 50) * torch.tensor([[1.0], [100.0], [0.0]])
    values, scales = onnx_graph.quantized(weight)
    restored = (values.float() - 128) * scales[:, None]
    assert ((restored - weight).abs() <= scales[:, None] / 2 + 1e-6).all() and not restored[2].any()


def test_graph_that_computes_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTIVATIONS, "relu", ACTIVATIONS["relu"]._replace(onnx="y = Tanh (x)"))
    with pytest.raises(CheckpointError, match="the export does not compute"):
        exported(write_run(tmp_path / "run"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("quantization", "right", "wrong"),
    [
        ("float32", 'decoder.key" = Identity (keys_#)', 'decoder.key" = Identity (values_#)'),
        ("int8", 'encoder.value" = Identity (source_values_#)', 'encoder.value" = Neg (source_keys_#)'),
    ],
)
def test_graph_with_wrong_cache_is_refused(
    quantization: str, right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = onnx_graph._LAYERS[Decoder]
    assert right in layer
    monkeypatch.setitem(onnx_graph._LAYERS, Decoder, layer.replace(right, wrong))
    with pytest.raises(CheckpointError, match="the export does not compute"):
        exported(write_run(tmp_path / "run"), tmp_path / "out", quantization)


def test_tokenizer_that_spells_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spelled = transformers.tokenizer_json
    monkeypatch.setattr(onnx, "tokenizer_json", lambda tokenizer: spelled(tokenizer) | {"post_processor": None})
    with pytest.raises(CheckpointError, match="other pieces"):
        exported(write_run(tmp_path / "run"), tmp_path / "out")


def test_search_is_greedy_and_never_writes_special_pieces(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tie_embeddings="none", specials=4.0)
    done = exported(run, tmp_path / "out")
    assert "beam" in done.not_carried
    settings = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert settings["num_beams"] == 1 and settings["eos_token_id"] == EOS
    assert {*range(N_SPECIAL)} - {EOS} <= {*settings["suppress_tokens"]}
    saved = open_saved(run)
    searcher = OnnxSearcher(tmp_path / "out", "float32", saved.tokenizers["en"].never_written())
    translator = Translator.configured(searcher, saved.tokenizers, saved.config).by_direction()[0]
    for best, *_ in translator.translate_lines(LINES, SearchConfig(beam=1)):
        assert all(i >= N_SPECIAL for part in best.parts for i in part.tgt_ids)


SOURCES = [" ".join(words(8, seed)) for seed in range(200)]
TARGETS = ["; ".join(words(8, seed)[::-1]) + "!" for seed in range(200, 400)]  # with marks that sources lack


@pytest.mark.parametrize(
    "marian",
    [
        Marian(tags=("deu", "fra")),
        Marian(segmenter="bpe", extra_pieces=3),
        Marian(is_joint=False, activation="relu", updates=2),
    ],
    ids=["tags", "bpe", "separate"],
)
def test_public_tokenizers_keep_their_pieces(marian: Marian, tmp_path: Path) -> None:
    marian.write(tmp_path / "public", SOURCES, TARGETS)
    run = import_model(ImportOptions(str(tmp_path / "public"), tmp_path / "run", "de-en")).run
    done = exported(run, tmp_path / "out")
    assert done.comparison is not None and done.comparison.identical == 1
    src, tgt = open_saved(run).tokenizers.sides("de-en")
    rows = onnx._tokenizer(src, encodes=True)[1]
    lacking = rows[len(src) :]  # the segmenter's pieces that the model lacks
    assert rows[: len(src)] == [*range(len(src))] and {*lacking} == (set() if marian.is_joint else {UNK})
    encoder = ExportedTokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    decoder = ExportedTokenizer.from_file(str(tmp_path / "out" / "target" / "tokenizer.json"))
    for line in (*SOURCES[:5], *TARGETS[:5], "  zwei   Wörter ", "Ω"):
        expected = [*src.encode(line), EOS]
        assert [i if i < len(src) else 1 for i in encoder.encode(line).ids] == expected
        assert decoder.decode(tgt.encode(line)) == tgt.decode(tgt.encode(line))
    if marian.is_joint:  # a mark that only targets have is known in sources, too
        assert ";" in src.pieces(src.encode("ein ; Hund")) and "\0" not in decoder.decode([*range(len(tgt))])
    if marian.tags:
        assert done.tag == ">>deu<<"
        assert encoder.encode(">>fra<< ein Hund").ids == [*src.encode_all(["ein Hund"], "fra")[0], EOS]


def test_m2m_models_are_refused(tmp_path: Path) -> None:
    M2M().write(tmp_path / "public", SOURCES, TARGETS)
    run = import_model(ImportOptions(str(tmp_path / "public"), tmp_path / "run", "de-en")).run
    with pytest.raises(ConfigError, match="M2M-100"):
        exported(run, tmp_path / "out")


def test_card_shows_how_to_load_it(tmp_path: Path) -> None:
    exported(write_run(tmp_path / "run"), tmp_path / "out", "int8")
    matter, text = card_of(tmp_path / "out")
    assert matter["library_name"] == "transformers.js"
    assert "(int8, as a model of ONNX Runtime)" in text
    # without ./, transformers.js asks the Hub; without truncation, long texts have positions that the model lacks
    assert 'MarianMTModel.from_pretrained("./DIR")' in text and "{ truncation: true }" in text


@pytest.mark.parametrize(("quantization", "dtype"), [("float32", "fp32"), ("int8", "q8")])
def test_settings_are_those_that_transformers_js_reads(quantization: str, dtype: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", positions="learned", max_positions=300)
    exported(run, tmp_path / "out", quantization)
    config, generation, tokenizer = (
        json.loads((tmp_path / "out" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("config", "generation_config", "tokenizer_config")
    )
    model = open_saved(run).config.model
    assert config["transformers.js_config"] == {"dtype": dtype} and config["model_type"] == "marian"
    # of which it makes the empty cache
    assert (config["decoder_layers"], config["decoder_attention_heads"]) == (model.decoder_layers, model.n_heads)
    assert config["d_model"] == model.d_model and config["max_position_embeddings"] == 300
    assert (generation["decoder_start_token_id"], generation["eos_token_id"]) == (BOS, EOS)
    assert tokenizer["model_max_length"] == 300


def test_export_is_not_loaded(tmp_path: Path, nmt: Command) -> None:
    exported(write_run(tmp_path / "run"), tmp_path / "out")
    done = nmt("translate", "--model", tmp_path / "out", "--input", tmp_path / "lines")
    assert done.status == 2 and "ONNX Runtime" in done.err


@pytest.mark.parametrize("missing", onnx.PACKAGES)
def test_missing_package_is_named(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=rf"{missing} is not installed.*nmt-train\[onnx\]"):
        exported(write_run(tmp_path / "run"), tmp_path / "out")


def test_unknown_number_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"float16.*onnx has float32 and int8"):
        exported(write_run(tmp_path / "run"), tmp_path / "out", "float16")
    assert not (tmp_path / "out").exists()


def test_model_beyond_limit_of_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match="too large"):
        exported(write_run(tmp_path / "run"), tmp_path / "out")
