"""Import of models in the format in which Marian trains them: an .npz file beside its vocabularies.

They are in a directory, as Marian writes it, or in an archive of OPUS-MT, and are written as a Marian model of
transformers, from which the run is made. Nothing in a model is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import yaml
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]
from torch import Tensor

from nmt.console import listed, printable, say
from nmt.errors import DataError
from nmt.files.compressed import damage, open_zip
from nmt.files.read import open_regular
from nmt.files.write import write_file, writing
from nmt.files.yaml12 import parse_yaml
from nmt.model.embedding import TABLES
from nmt.runs.checkpoint import save_tensors
from nmt.share.engine import made_up_lines
from nmt.share.public_vocabulary import ABSENT, WEIGHTS, check_setting, pieces_in, read_small, segmenter_in
from nmt.share.transformers import OUTPUT_BIAS, TABLE_NAMES, ids_of
from nmt.translate.loading import Translator

_SETTINGS = "special:model.yml"
"""The name of the array that has the settings of the model, in YAML."""
_MOST_UNPACKED = 4  # times the size of the file
_GREEDY = {"beam": 1, "max_length_ratio": 2, "max_length_offset": 3, "split": "never"}
"""Settings of a search like Marian's with `--beam-size 1 --max-length-factor 2`, which counts no `</s>`."""
_SUPPORTED: Any = parse_yaml(
    """
type: [transformer]
transformer-preprocess: ["", d]
transformer-postprocess: [dan, an]
transformer-postprocess-top: ["", d]
transformer-postprocess-emb: [d, ""]
transformer-ffn-activation: [swish, relu, gelu]
transformer-ffn-depth: [2]
transformer-decoder-autoreg: [self-attention]
transformer-decoder-ffn-depth: [0, 2]
transformer-decoder-dim-ffn: [0]
transformer-attention-mask: [default]
transformer-tied-layers: [[]]
transformer-alibi-shift: [false]
transformer-alibi-trainable: [false]
transformer-disable-position-embeddings: [false]
transformer-no-affine: [false]
transformer-no-bias: [false]
transformer-no-projection: [false]
transformer-pool: [false]
transformer-rnn-projection: [false]
transformer-train-position-embeddings: [false]
factors-dim-emb: [0]
input-types: [[]]
layer-normalization: [false]
lemma-dependency: [""]
lemma-dim-emb: [0]
right-left: [false]
tied-embeddings: [false, true]
tied-embeddings-all: [false, true]
tied-embeddings-src: [false, true]
output-omit-bias: [false, true]
ulr: [false]
""",
    "",
)
"""The supported values of settings; the first stands for a setting that an older version of Marian lacks."""
_REASONS = {
    "transformer-preprocess": " (Marian 1.12 translates with a pre-norm model otherwise than it scores)",
    "transformer-decoder-autoreg": " (nmt has no SSRUs and no average attention)",
}
_SIZES = {
    "d_model": "dim-emb",
    "encoder_layers": "enc-depth",
    "decoder_layers": "dec-depth",
    "encoder_attention_heads": "transformer-heads",
    "decoder_attention_heads": "transformer-heads",
    "encoder_ffn_dim": "transformer-dim-ffn",
    "decoder_ffn_dim": "transformer-dim-ffn",
    "activation_function": "transformer-ffn-activation",
}
"""Settings by their names in transformers."""
_NAMES = """\
Wemb model.shared.weight
encoder_Wemb model.encoder.embed_tokens.weight
decoder_Wemb model.decoder.embed_tokens.weight
decoder_ff_logit_out_Wt lm_head.weight
decoder_ff_logit_out_b final_logits_bias
_self_Wq self_attn.q_proj.weight
_self_bq self_attn.q_proj.bias
_self_Wk self_attn.k_proj.weight
_self_bk self_attn.k_proj.bias
_self_Wv self_attn.v_proj.weight
_self_bv self_attn.v_proj.bias
_self_Wo self_attn.out_proj.weight
_self_bo self_attn.out_proj.bias
_self_Wo_ln_scale self_attn_layer_norm.weight
_self_Wo_ln_bias self_attn_layer_norm.bias
_context_Wq encoder_attn.q_proj.weight
_context_bq encoder_attn.q_proj.bias
_context_Wk encoder_attn.k_proj.weight
_context_bk encoder_attn.k_proj.bias
_context_Wv encoder_attn.v_proj.weight
_context_bv encoder_attn.v_proj.bias
_context_Wo encoder_attn.out_proj.weight
_context_bo encoder_attn.out_proj.bias
_context_Wo_ln_scale encoder_attn_layer_norm.weight
_context_Wo_ln_bias encoder_attn_layer_norm.bias
_ffn_W1 fc1.weight
_ffn_b1 fc1.bias
_ffn_W2 fc2.weight
_ffn_b2 fc2.bias
_ffn_ffn_ln_scale final_layer_norm.weight
_ffn_ffn_ln_bias final_layer_norm.bias
"""
"""The names of tensors in Marian and in transformers; after those of tables and bias, those of a layer's parts."""


def is_original(name: str) -> bool:
    """Return whether a model is a file of Marian's, an archive of OPUS-MT, or in a directory written by Marian."""
    path = Path(name)
    if path.is_file():
        return path.suffix in (".npz", ".bin", ".zip")
    return any(path.glob("*.npz")) and not (path / "config.json").exists()


def compare(folder: Path, run: Path) -> None:
    """Compare ten greedy translations of a run with those of Marian, if pymarian is installed.

    folder: the directory that `converted` yields. Raises DataError if fewer than eight are equal.
    """
    try:
        from pymarian import Translator as Marian
    except ImportError:
        return
    translator = Translator.load(run, precision="float32")
    src = translator.tokenizers[translator.config.data.src]
    lines = made_up_lines(src, 10)
    ours = translator.translate_lines(lines, translator.search_settings(_GREEDY))
    # with vocabularies that do not segment, since not all of Marian's do: it gets and returns pieces
    files = f"--models {folder}/marian.npz --vocabs {folder}/vocab.json {folder}/target_vocab.json"
    marian = Marian(f"{files} --beam-size 1 --max-length-factor 2 --cpu-threads 1 --quiet")
    theirs = marian.translate([" ".join(src.pieces(src.encode(line))) for line in lines])
    n_equal = 0
    for [translation], pieces in zip(ours, theirs, strict=True):
        n_equal += translation.text == pieces.replace(" ", "").replace("\u2581", " ").strip()
    equal = f"{n_equal} of 10 translations are those of Marian"
    if n_equal < 8:
        raise DataError(f"{folder}: not imported: only {equal}")
    say(equal)


@contextmanager
def converted(name: str) -> Iterator[Path]:
    """Write a model as one of transformers to a directory, which is yielded, and removed in the end.

    Raises DataError or ConfigError if files are missing, damaged or unsupported.
    """
    path = Path(name)
    with TemporaryDirectory() as scratch, writing(Path(scratch)):
        folder = Path(scratch, "converted")
        folder.mkdir()
        try:
            if path.suffix == ".zip":
                with damage(name, "zip"), open_zip(path, name, path.stat().st_size) as archive:
                    archive.extractall(scratch)
                path = Path(scratch)
            _convert(path, folder)
            yield folder
        except DataError as error:
            raise DataError(str(error).replace(str(folder), name).replace(scratch, name)) from error


def _convert(place: Path, folder: Path) -> None:
    """Write a model of transformers to a folder. place: the file of weights, or a directory."""
    weights, vocabularies, decoder = _located(place)
    theirs, tensors = _read(weights)
    pairs = zip(vocabularies, ("source.spm", "target.spm"), strict=True)
    pieces = [_pieces(weights.parent, name, segmenter, folder) for name, segmenter in pairs]
    lengths = {name: len(tensors[name]) for name in TABLE_NAMES if name in tensors}
    all_lengths = [0, *lengths.values()]
    n_logits = all_lengths[-1]
    n_rows = 1 + max(all_lengths)  # of all tables; the last stands for padding
    for name, n in lengths.items():
        tensors[name] = F.pad(tensors[name], (0, 0, 0, n_rows - n))
    shared = tensors.pop(TABLE_NAMES[0], torch.empty(0, 0))
    src_table, tgt_table = (tensors.setdefault(name, shared) for name in TABLE_NAMES[1:3])
    if theirs["output-omit-bias"]:
        tensors[OUTPUT_BIAS] = torch.zeros(1, n_logits)
    if OUTPUT_BIAS in tensors:
        tensors[OUTPUT_BIAS] = F.pad(tensors[OUTPUT_BIAS], (0, n_rows - n_logits), value=ABSENT)
    tensors["model.encoder.embed_positions.weight"] = TABLES["marian"](64, 64)  # any size shows of which kind they are
    save_tensors(folder / WEIGHTS[0], tensors)
    src, tgt = (ids_of([*side, *(f"<unused {i}>" for i in range(len(side), n_rows))]) for side in pieces)
    config = {ours: theirs.get(name) for ours, name in _SIZES.items()} | {
        "model_type": "marian",
        "scale_embedding": True,
        "vocab_size": n_rows,
        "share_encoder_decoder_embeddings": src == tgt and src_table is tgt_table,
        "tie_word_embeddings": TABLE_NAMES[-1] not in tensors,
        "pad_token_id": n_rows - 1,
        "decoder_start_token_id": n_rows - 1,
        "eos_token_id": src.get("</s>"),
        "num_beams": decoder.get("beam-size"),
        "length_penalty": decoder.get("normalize", 0.0),
    }
    for name, content in {"vocab": src, "target_vocab": tgt, "config": config}.items():
        write_file(folder / f"{name}.json", json.dumps(content).encode())
    (folder / "marian.npz").symlink_to(weights.resolve())  # Marian takes no paths with spaces
    for card in weights.parent.glob("README.md"):
        write_file(folder / card.name, read_small(card.parent, card.name))


def _located(place: Path) -> tuple[Path, list[str], dict[str, Any]]:
    """Return the file of weights, the names of the vocabularies beside it, and the settings of translation.

    place: the file of weights, or a directory.
    """
    folder, name = (place, "model.npz") if place.is_dir() else (place.parent, place.name)
    decoder: Any = {"models": [name], "vocabs": ["vocab.spm", "vocab.spm"]}
    for file in ("decoder.yml", f"{name}.decoder.yml"):
        if (folder / file).exists():
            decoder = parse_yaml(read_small(folder, file).decode(errors="replace"), f"{folder / file}")
    try:  # without their directories, which may be those of another machine
        models, (src, tgt) = (
            [PurePosixPath(name).name for name in decoder[setting]] for setting in ("models", "vocabs")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder}: decoder.yml must name models, and vocabularies for two languages") from error
    if place != folder:
        models = [name]
    if [PurePosixPath(model).suffix for model in models] != [".npz"]:
        unsupported = "ensembles and binary models are not supported: give the .npz file of one model"
        raise DataError(printable(f"{place}: has the models {listed(models, 3)}; {unsupported}"))
    return folder / models[0], [src, tgt], decoder


def _read(weights: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the settings of a model, and its tensors by their names in transformers.

    Raises DataError if an array is missing, damaged or unknown, or a setting unsupported.
    """
    names = dict(map(str.split, _NAMES.splitlines()))
    tensors = {}
    with damage(weights, "npz"), open_regular(weights) as file, np.load(file, allow_pickle=False) as arrays:
        if sum(info.file_size for info in arrays.zip.infolist()) > _MOST_UNPACKED * weights.stat().st_size:
            raise DataError(f"{weights}: unpacks to more than {_MOST_UNPACKED} times its size, as weights never do")
        theirs: Any = parse_yaml(arrays[_SETTINGS].tobytes().rstrip(b"\0").decode(errors="replace"), str(weights))
        for name, supported in _SUPPORTED.items():
            check_setting(weights, name, theirs.setdefault(name, supported[0]), supported, _REASONS.get(name, ""))
        for name in {*arrays.files} - {_SETTINGS}:
            tensor = torch.from_numpy(arrays[name])
            layer = re.fullmatch("(encoder|decoder)_l([0-9]{1,4})(_.+)", name)
            part = names.get(layer[3] if layer else name)
            if part is None or tensor.dim() != 2 or tensor.dtype != torch.float32:
                raise DataError(printable(f"{weights}: the array {name} ({tensor.dtype}) is not supported"))
            if layer:
                part = f"model.{layer[1]}.layers.{int(layer[2]) - 1}.{part}"
                tensor = tensor.T if name[-2] == "W" else tensor.squeeze(0)
            tensors[part] = tensor
    return theirs, tensors


def _pieces(folder: Path, name: str, segmenter: str, output: Path) -> list[str]:
    """Return the pieces of a language, and copy its segmenter to another folder.

    name: the file of the vocabulary. Raises DataError if files are missing, damaged or unsupported.
    """
    if name.endswith(".spm"):
        model = segmenter_in(folder, name)
        pieces = [piece.piece for piece in ModelProto.FromString(model).pieces]
        if any(re.fullmatch(">>.+<<", piece) for piece in pieces):
            raise DataError(f"{folder / name}: tags of languages in an .spm file are supported only beside .yml files")
    else:
        model = segmenter_in(folder, segmenter)
        with damage(folder / name, "YAML"):  # in which all keys are text; only libyaml is fast enough
            loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
            ids = {piece: int(i) for piece, i in yaml.load(read_small(folder, name), loader).items()}
        pieces = pieces_in(folder / name, ids, None)
    write_file(output / segmenter, model)
    return pieces
