"""Import of Marian and M2M-100 models, such as OPUS-MT and NLLB, from directories or repositories for Hugging Face
transformers.

The result is a run without optimizer state, which all commands take. Nothing in the model is executed: weights are
safetensors, or a pickle that PyTorch reads with `weights_only`.
"""

from __future__ import annotations

import base64
import json
import math
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from safetensors import SafetensorError, safe_open
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]
from torch import Tensor

from nmt import __version__
from nmt.config import Config
from nmt.config.data import DIRECTION, LABEL
from nmt.config.foreign import did_you_mean, listed, misspelt
from nmt.config.load import check_config, dump_config
from nmt.console import printable
from nmt.errors import ConfigError, DataError, error_text
from nmt.files.read import DOCUMENT_BYTES, read_regular
from nmt.files.write import alone_in, staged, write_file, writing
from nmt.languages.codes import macrolanguage_of, parts_of
from nmt.layout import RUN_FORMAT, RunDir
from nmt.model.embedding import fairseq_table, sinusoidal_table
from nmt.model.stacks import make_model
from nmt.model.transformer import Transformer
from nmt.runs.checkpoint import save_checkpoint
from nmt.runs.folder import require_empty
from nmt.runs.info import PublicModel, RunInfo, Selected, write_info, write_selected
from nmt.share.hub import download_file, download_files, parse_address, raise_hub_error
from nmt.share.transformers import (
    FAIRSEQ_SPECIAL,
    LANGUAGE_CODES,
    MARIAN_ACTIVATIONS,
    OUTPUT_BIAS,
    has_vocab_json,
    merges_of,
    tables_of,
    units_of,
    weights_of,
)
from nmt.text.imported import ImportedVocabulary
from nmt.text.lines import read_lines
from nmt.text.tokenizer import BOS, PAD, processor_of
from nmt.text.vocabularies import Tokenizers

ABSENT = -100.0
"""The bias of rows that the public model lacks. They then have no part in the probabilities of the others."""

_SMALL_FILES = ["*.json", "*.spm", "*.bpe.model", "README.md"]
_SEGMENTER = "sentencepiece.bpe.model"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_OPTIONS = {
    "marian": {"normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False,
               "static_position_embeddings": True, "scale_embedding": True},
    "m2m_100": {"scale_embedding": True},
}  # fmt: skip
"""For each model_type, settings of config.json for which only one value is supported; all but the last may be
missing."""
_EQUAL = [("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim")]
_STARTS = {"marian": "pad_token_id", "m2m_100": "eos_token_id"}
"""The name of the token with which the decoder starts."""


@dataclass(frozen=True)
class Request:
    """The options of `nmt import`."""

    name: str
    """A directory, or a repository on the Hub: owner/name, with @revision if another than the newest is wanted."""
    run: Path | None = None
    """Run directory to write; by default runs/NAME."""
    direction: str | None = None
    """Source and target language; by default those of tokenizer_config.json."""
    languages: Sequence[str] = ()
    """The languages, at least two, between which an M2M-100 model is to translate; empty: those of `direction`."""
    to: str | None = None
    """The target language, if the model has several."""
    keep_pieces_of: Sequence[Path] = ()
    """Texts, named FILE.LANGUAGE, whose pieces are kept; all other pieces are removed. Empty: all pieces are kept."""


@dataclass(frozen=True)
class Imported:
    """A run made of a public model."""

    run: Path
    config: Config
    tokenizers: Tokenizers
    model: PublicModel
    full: Tokenizers
    """The tokenizers of the public model, before pieces were removed."""
    n_parameters: int
    """The number of parameters of the public model."""

    @property
    def n_removed(self) -> int:
        """The number of pieces removed from the vocabularies."""
        sizes = [sum(map(len, each.imported.pieces)) for each in (self.full, self.tokenizers) if each.imported]
        return sizes[0] - sizes[1]

    def lines(self) -> Iterator[str]:
        """Yield lines that say what was imported."""
        public, data = self.model, self.config.data
        own_languages = data.all_languages if data.has_language_tags else data.sides
        languages, tags = self.tokenizers[data.src].target_languages, self.tokenizers.tags
        sizes = self.tokenizers.sizes
        shared = f"{sizes[data.src]:,} pieces for {'both' if len(sizes) == 2 else 'all'} languages"
        separate = " and ".join(f"{sizes[language]:,} pieces for {language}" for language in data.sides)
        of = f"between {', '.join(own_languages)}" if data.has_language_tags else f"for {data.direction}"
        kind = "an M2M-100" if self.tokenizers[data.src].opening else "a Marian"
        yield f"{public.name}{f' at {public.revision}' if public.revision else ''}: {kind} model {of}"
        yield f"{public.parameters / 1e6:.1f} million parameters, {shared if self.tokenizers.joint else separate}"
        if self.n_removed and self.full.imported is not None:
            n_all, millions = sum(map(len, self.full.imported.pieces)), f"{self.n_parameters / 1e6:.1f} million"
            removed = f"{self.n_removed:,} of {n_all:,} pieces removed"
            yield f"{removed}: {millions} parameters become {public.parameters / 1e6:.1f} million"
            for language in own_languages:
                share = _removed_share(self.full[language].model, self.tokenizers[language].model)
                if share is not None:
                    learned = f"they were {share:.1%} of text like that from which the tokenizer learned"
                    yield f"{language}: {learned}; their text is now spelled in smaller pieces"
        if tags:
            yield f"tags: {', '.join(tags)}; choose with --tag"
        if languages:
            to = self.tokenizers[data.src].to
            yield f"target languages: {', '.join(sorted(languages))}; {f'--to {to}' if to else 'choose one with --to'}"
        yield f"licence: {public.license or 'not stated in the model card'}"
        options = f" --to {data.tgt} --from {data.src}" if data.has_language_tags else ""
        yield f"{self.run}: written; translate with nmt translate --run {self.run}{options}"


def import_model(request: Request) -> Imported:
    """Make a run of a Marian or M2M-100 model.

    Raises DataError if files of the model are missing, damaged or unsupported, or the run exists already; HubError if
    the repository cannot be downloaded, and ConfigError if its name is invalid.
    """
    folder, name, revision = _located(request.name)
    theirs = _settings(folder)
    full = tokenizers = (_tokenizers if theirs["model_type"] == "marian" else _m2m_tokenizers)(folder, theirs, request)
    rows = None
    if request.keep_pieces_of:
        tokenizers, rows = _cut(full, request.keep_pieces_of)
    vocabulary = tokenizers.imported
    assert vocabulary is not None and full.imported is not None, "these tokenizers are imported"
    config = _config(folder, theirs, vocabulary, request.languages)
    output = request.run or Path("runs") / name.replace("/", "-")
    require_empty(output)
    with torch.device("meta"):  # memory is allocated where weights are copied
        model, whole = make_model(config, tokenizers.sizes), make_model(config, full.sizes)
    assert isinstance(model, Transformer), "these models have an encoder and a decoder"
    model = model.to_empty(device="cpu")
    _load_weights(folder, model, full.imported, vocabulary, rows)
    if (
        config.model.start_embedding == "zero" and model.decoder.embedding.weight[BOS].any()
    ):  # it has learned, in transformers
        learned = config.model.model_copy(update={"start_embedding": "learned"})
        config = config.model_copy(update={"model": learned})
    info = PublicModel(
        name=name,
        revision=revision,
        license=_license(folder),
        parameters=model.n_parameters,
    )
    with alone_in(output.absolute().parent, "imports"), writing(output), staged(output, is_directory=True) as part:
        _write(RunDir(part), config, tokenizers, model, info)
    return Imported(output, config, tokenizers, info, full, whole.n_parameters)


def _write(run: RunDir, config: Config, tokenizers: Tokenizers, model: Transformer, public: PublicModel) -> None:
    run.checkpoints.mkdir()
    write_file(run.config, dump_config(config).encode())
    tokenizers.save(run.tokenizer)
    save_checkpoint(run.step(0), dict(model.named_parameters()), None, {})
    write_selected(run, Selected(best_step=0, reason=f"imported from {public.name}", finished_step=0))
    info = RunInfo(
        format=RUN_FORMAT, data_dir="", corpus="", tokenizer=tokenizers.fingerprint, precision="float32",
        nmt=__version__, torch=torch.__version__, imported=public,
    )  # fmt: skip
    write_info(run, info)


# --- files ----------------------------------------------------------------------------------------


def _located(name: str) -> tuple[Path, str, str | None]:
    """Return the directory of a model, its name, and its commit if it was downloaded."""
    path = Path(name)
    if path.is_dir():
        if RunDir(path).config.exists():
            raise DataError(f"{name}: is a run already; use it with --run, or adapt it with --init-from")
        return path, path.resolve().name, None
    address = name if name.startswith("hf:/") else f"hf://{name}"
    if path.is_file():
        raise DataError(f"{name}: is a file, not the directory of a model")
    if not (name.startswith("hf:/") or re.fullmatch("[A-Za-z0-9][^/]*/[^/]+", name)):
        raise DataError(f"{name}: no such directory, and not a repository on the Hub, which is called owner/name")
    repository, revision = parse_address(address)
    try:
        folder = download_files(repository, revision, ["config.json", *_SMALL_FILES, _WEIGHTS[0]])
        if not (folder / _WEIGHTS[0]).exists():
            download_file(repository, _WEIGHTS[1], folder.name)
    except Exception as error:  # from the HTTP library that the client uses
        raise_hub_error(address, error)
    return folder, repository, folder.name


def _read(folder: Path, name: str) -> bytes:
    """Read a small file of a model. Raises DataError."""
    path = (folder / name).resolve()  # the cache of the Hub has symbolic links
    try:
        data = read_regular(path, DOCUMENT_BYTES)
    except OSError as error:
        raise DataError(f"{folder / name}: cannot be read: {error.strerror}{_NOT_MARIAN}") from error
    _check_content(folder / name, data)
    return data


_NOT_MARIAN = (
    "; a Marian model has config.json, vocab.json, source.spm, target.spm and model.safetensors; an M2M-100 model has "
    "sentencepiece.bpe.model in place of the two, NLLB that or tokenizer.json"
)


def _check_content(path: Path, data: bytes) -> None:
    """Raise DataError for a file that only points to the content."""
    if data.startswith(b"version https://git-lfs"):
        raise DataError(f"{path}: is a pointer of Git LFS, not the file itself; run git lfs pull, or download the file")


def _json(folder: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads(_read(folder, name))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{folder / name}: damaged: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{folder / name}: must contain a JSON object")
    return content


def _optional(folder: Path, name: str) -> dict[str, Any]:
    return _json(folder, name) if (folder / name).exists() else {}


def _license(folder: Path) -> str | None:
    """Return the licence that the model card states, or several, separated by commas."""
    if not (folder / "README.md").exists():
        return None
    card = "\n".join(_read(folder, "README.md").decode("utf-8-sig", errors="replace").splitlines())
    matter = re.match(r"---\n(.*?)\n---", card, re.DOTALL)
    try:
        found = yaml.load(matter[1], Loader=yaml.BaseLoader) if matter else None  # all values are text
    except yaml.YAMLError:
        return None
    value = found.get("license") if isinstance(found, dict) else None
    names = value if isinstance(value, list) else [value]
    return printable(", ".join(map(str, names))) if any(names) else None


# --- settings -------------------------------------------------------------------------------------


def _settings(folder: Path) -> dict[str, Any]:
    """Return config.json. Raises DataError if it is not the configuration of a supported model."""
    config, where = _json(folder, "config.json"), folder / "config.json"
    if (kind := config.get("model_type")) not in [*_OPTIONS]:  # it may be unhashable
        raise DataError(f"{where}: model_type is {kind!r}; supported are {' and '.join(_OPTIONS)}")
    for name, wanted in _OPTIONS[kind].items():
        if config.get(name, wanted if name != "scale_embedding" else None) != wanted:
            raise DataError(f"{where}: {name} is {config.get(name)!r}; only {wanted} is supported")
    for first, second in [*_EQUAL, ("decoder_start_token_id", _STARTS[kind])]:
        if config.get(first) != config.get(second):
            found = f"{first} is {config.get(first)!r} and {second} is {config.get(second)!r}"
            raise DataError(f"{where}: {found}; only models in which both are equal are supported")
    if config.get("activation_function") not in [*MARIAN_ACTIVATIONS]:  # it may be unhashable
        known = listed([*MARIAN_ACTIVATIONS])
        raise DataError(f"{where}: activation_function is {config.get('activation_function')!r}; supported are {known}")
    return config


def _config(
    folder: Path, theirs: Mapping[str, Any], vocabulary: ImportedVocabulary, languages: Sequence[str]
) -> Config:
    """Return the configuration of the run."""
    generation = _optional(folder, "generation_config.json") or theirs
    is_joint = len(vocabulary.pieces) == 1
    is_tied = theirs.get("tie_word_embeddings", True)
    penalty = generation.get("length_penalty")
    directions: dict[str, object] = {"languages": [*languages], "directions": "all"} if languages else {}
    kind: dict[str, object] = {"norm": "post", "output_bias": True, "start_embedding": "zero"}
    if theirs["model_type"] == "m2m_100":
        kind = {"norm": "pre", "output_bias": "fixed", "start_embedding": "end", "positions": "fairseq"}
    tree = {
        "data": {"train": []} | (directions or {"direction": vocabulary.direction}),
        "tokenizer": {"joint": is_joint, "vocab_size": max(300, *map(len, vocabulary.pieces))},
        "model": {
            "d_model": theirs.get("d_model"),
            "n_heads": theirs.get("encoder_attention_heads"),
            "d_ff": theirs.get("encoder_ffn_dim"),
            "encoder_layers": theirs.get("encoder_layers"),
            "decoder_layers": theirs.get("decoder_layers"),
            **kind,
            "activation": MARIAN_ACTIVATIONS[theirs["activation_function"]],
            "tie_embeddings": ("all" if is_joint else "target") if is_tied else "none",
            "embedding_dropout": theirs.get("dropout", 0.1),
            "residual_dropout": theirs.get("dropout", 0.1),
            "attention_dropout": theirs.get("attention_dropout", 0.0),
            "activation_dropout": theirs.get("activation_dropout", 0.0),
        },
        "search": {
            "split": "always",
            "beam": generation.get("num_beams") or 4,
            "length_penalty": 1.0 if penalty is None else penalty,
        },
    }
    try:
        return check_config(tree, f"{folder / 'config.json'} or generation_config.json")
    except ConfigError as error:
        raise DataError(error.problems[0]) from error


def _tokenizers(folder: Path, theirs: Mapping[str, Any], request: Request) -> Tokenizers:
    """Return the tokenizers. Raises DataError if the vocabularies do not fit."""
    if request.languages:
        raise DataError(f"{folder}: a Marian model has one source language; choose with --direction and --to")
    about = _optional(folder, "tokenizer_config.json")
    languages = [str(about.get(name)).lower().replace("-", "_") for name in ("source_lang", "target_lang")]
    unnamed = f"{folder}: tokenizer_config.json does not name the languages; give --direction, such as de-en"
    direction = _direction(request, languages, unnamed)
    is_joint = theirs.get("share_encoder_decoder_embeddings", True)
    names = ["vocab.json"] if is_joint else ["vocab.json", "target_vocab.json"]
    sizes = [theirs.get("vocab_size"), theirs.get("decoder_vocab_size") or theirs.get("vocab_size")]
    pieces = [_pieces(folder / name, _json(folder, name), size) for name, size in zip(names, sizes, strict=False)]
    unknown = about.get("unk_token", "<unk>")
    special: dict[str, Any] = {
        "padding": pieces[0][_id(folder, theirs, "pad_token_id", pieces)],
        "end": pieces[0][_id(folder, theirs, "eos_token_id", pieces)],
        "unknown": _content(unknown),
    }
    for name, of_side in zip(names, pieces, strict=True):
        wanted = {"padding": theirs["pad_token_id"], "end": theirs["eos_token_id"]}
        for role, piece in special.items():
            if piece not in of_side or of_side.index(piece) != wanted.get(role, of_side.index(piece)):
                raise DataError(
                    f"{folder / name}: {printable(piece)!r} is missing or has another id than in config.json"
                )
    vocabulary = ImportedVocabulary(direction=direction, pieces=pieces, to=request.to, **special)
    src, tgt = direction.split("-")
    models = {language: _segmenter(folder, name) for language, name in ((src, "source.spm"), (tgt, "target.spm"))}
    tokenizers = Tokenizers.of_import(vocabulary, models)
    if request.to is not None:
        tokenizers[src].tag(request.to)
    return tokenizers


def _m2m_tokenizers(folder: Path, theirs: Mapping[str, Any], request: Request) -> Tokenizers:
    """Return the tokenizers of an M2M-100 model. Raises DataError if the vocabulary does not fit or lacks languages.

    M2M-100 has its pieces in vocab.json, NLLB those of SentencePiece, or of tokenizer.json where transformers 5 has
    saved it. The tags of the languages have other ids. There may be rows that are not used.
    """
    try:
        has_segmenter = (folder / _SEGMENTER).exists()
        model = _segmenter(folder, _SEGMENTER) if has_segmenter else _rebuilt_segmenter(folder)
        pieces = [*FAIRSEQ_SPECIAL, *(piece.piece for piece in ModelProto.FromString(model).pieces[3:])]
        if (folder / "vocab.json").exists():
            pieces = _pieces(folder / "vocab.json", _json(folder, "vocab.json"), None)
        added = _added_tokens(folder, len(pieces))
        processor_of(model)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"{folder}: tokenizer.json or tokenizer_config.json has an unknown form") from error
    languages = {name[1]: tag for tag in sorted(added, key=added.__getitem__) if (name := _LANGUAGE_TAG.fullmatch(tag))}
    n_rows, pad, end = (theirs.get(name) for name in ("vocab_size", "pad_token_id", "eos_token_id"))
    rows = dict(enumerate(pieces)) | {row: tag for tag, row in added.items()}
    if not isinstance(n_rows, int) or n_rows <= max(rows) or len({*pieces, *added}) != len(rows) or not languages:
        raise DataError(
            f"{folder}: the vocabulary has {len(rows):,} pieces, {len(languages)} of them tags of languages, of which "
            f"tokenizer_config.json or tokenizer.json must have some, but config.json has embeddings of {n_rows}"
        )
    pieces = [rows.get(row, f"<unused {row}>") for row in range(n_rows)]
    if (pad, end) != (1, 2) or pieces[:4] != FAIRSEQ_SPECIAL:  # positions depend on the first
        raise DataError(f"{folder}: the ids of <s>, <pad>, </s> and <unk> must be 0 to 3, also in config.json")
    if request.to is not None:
        raise DataError("--to: chooses a tag of a Marian model; choose two languages with --direction")
    several = f"{folder}: translates between {len(languages)} languages, such as {', '.join([*languages][:3])}"
    direction = _direction(request, (), f"{several}; choose two with --direction, or several with --languages")
    chosen = request.languages or direction.split("-")
    languages |= {code: languages[_name_in_model(code, languages)] for code in chosen}
    vocabulary = ImportedVocabulary(
        direction=direction, pieces=[pieces], padding="<pad>", unknown="<unk>", end="</s>", languages=languages
    )
    return Tokenizers.of_import(vocabulary, dict.fromkeys(chosen, model))


def _name_in_model(code: str, names: Collection[str]) -> str:
    """Return which of the `names` of a model is that of a language: zho_Hans for `zh`, `zho` and `zh_CN`.

    A macrolanguage has the name of its usual member, or of its only one unless that is a language with a code of two
    letters: pbt_Arab for `ps`. Raises DataError if the model lacks the language, or if several names fit.
    """
    if code in names:
        return code
    family, (language, script, _) = macrolanguage_of(code), parts_of(code)
    related = [name for name in names if macrolanguage_of(name) == family]
    found = [name for name in related if parts_of(name)[:2] == (language, script)]
    found = found or [
        name
        for name in related
        if (parts_of(name)[0] == language or (language == family and len(parts_of(name)[0]) == 3))
        and ("_" not in code or parts_of(name)[1] == script)
    ]
    if len(found) == 1:
        return found[0]
    near = related or [name for name in names if script and parts_of(name)[1] == script]
    hint = f", which has others, such as {', '.join(near[:5])}" if near else did_you_mean(misspelt(code, names))
    raise DataError(f"{code[:50]!r} is not one language of the model{hint}; see docs/public-models.md")


def _added_tokens(folder: Path, n_pieces: int) -> dict[str, int]:
    """Return the ids of tags and other tokens beside the pieces of M2M-100 or NLLB, as any version of transformers
    lists them: with their ids, or in the order in which they follow the pieces."""
    about = _optional(folder, "tokenizer_config.json") | _optional(folder, "special_tokens_map.json")
    rows = _optional(folder, "added_tokens.json")
    rows |= {_content(token): row for row, token in about.get("added_tokens_decoder", {}).items()}
    rows |= {_content(token): token["id"] for token in _optional(folder, "tokenizer.json").get("added_tokens", ())}
    tokens = [*(about.get("extra_special_tokens") or about.get("additional_special_tokens") or ())]
    tokens += [f"__{code}__" for code in LANGUAGE_CODES.get(about.get("language_codes", ""), "").split()]
    for i, token in enumerate(dict.fromkeys(map(_content, tokens))):
        rows.setdefault(token, n_pieces + i)
    return {token: int(row) for token, row in rows.items()}


def _direction(request: Request, own: Sequence[str], unnamed: str) -> str:
    """Return the requested direction, by default that of the model's `own` languages.

    Raises DataError if it does not name two languages; the message is `unnamed` if none is requested.
    """
    direction = request.direction or "-".join([*request.languages, *own][:2])
    if not DIRECTION.fullmatch(direction) or len({*direction.split("-")} - {"none", LABEL}) < 2:
        form = "--direction de-en" if request.direction else "--languages de,en"
        mistyped = f"{printable(direction)!r} does not name two languages; write them as in {form}"
        raise DataError(mistyped if request.direction or request.languages else unnamed)
    return direction


def _content(token: object) -> str:
    """Return the text of a special token of transformers, which may have settings beside it."""
    return str(token.get("content") if isinstance(token, dict) else token)


def _cut(tokenizers: Tokenizers, texts: Sequence[Path]) -> tuple[Tokenizers, list[list[int]]]:
    """Reduce vocabularies to the pieces of texts, to special pieces, tags and single characters.

    Returns the smaller tokenizers, and for each vocabulary the rows of its pieces in the tables of the public model. In
    the segmenters the other pieces are marked as unused, so that their text is spelled in kept pieces.
    Raises DataError if a text cannot be read, its name does not end in a language of the model, or a language has none.
    """
    full = tokenizers.imported
    assert full is not None, "these tokenizers are imported"
    languages = [*tokenizers.by_language]
    source = tokenizers[languages[0]]
    tags = {f">>{name}<<" for name in (*source.target_languages, *source.tags)} | {*(full.languages or {}).values()}
    used = [{*tags} for _ in full.pieces]
    missing = {*languages}
    for path in texts:
        language = path.suffix[1:]
        if language not in languages:
            known = " or ".join(f".{name}" for name in languages)
            raise DataError(f"{path}: its name must end in {known}, the language of the text")
        tokenizer, own = tokenizers[language], used[min(languages.index(language), len(used) - 1)]
        lines = read_lines(path)
        while block := list(islice(lines, _LINES)):
            found = tokenizer.pieces(sorted(set(chain.from_iterable(tokenizer.encode_all(block)))))
            own.update(found)
            missing -= {language} if found else set()
    if missing:
        without = " and ".join(sorted(missing))
        raise DataError(f"--keep-pieces-of: no text in {without}; give text of each language, named FILE.LANGUAGE")
    first = [full.end, full.unknown, full.padding]  # transformers needs equal ids in both vocabularies
    if full.languages and has_vocab_json(full):  # there, positions begin after the id of padding
        first = FAIRSEQ_SPECIAL
    kept = [
        [*map(all_pieces.index, first)]
        + [
            i
            for i, piece in enumerate(all_pieces)
            if piece not in first and (piece in own or len(piece.removeprefix("\u2581")) <= 1)
        ]
        for all_pieces, own in zip(full.pieces, used, strict=True)
    ]
    pieces = [[of_side[i] for i in rows] for of_side, rows in zip(full.pieces, kept, strict=True)]
    models = {}
    for side, language in enumerate(languages):
        proto, number = ModelProto.FromString(tokenizers[language].model), min(side, len(kept) - 1)
        gone = {*full.pieces[number]} - {*pieces[number]}
        for piece in proto.pieces:
            if piece.piece in gone:
                piece.type = ModelProto.SentencePiece.UNUSED
        models[language] = proto.SerializeToString()
    return Tokenizers.of_import(full.model_copy(update={"pieces": pieces}), models), kept


def _removed_share(full: bytes, cut: bytes) -> float | None:
    """Return the probability that a unigram model gives to the pieces that are unused in its cut version; None for
    other models."""
    both = ModelProto.FromString(full), ModelProto.FromString(cut)
    if both[0].trainer_spec.model_type != _UNIGRAM:
        return None
    normal = [(a, b) for a, b in zip(both[0].pieces, both[1].pieces, strict=True) if a.type == _NORMAL]
    gone = math.fsum(math.exp(a.score) for a, b in normal if b.type != _NORMAL)
    return gone / math.fsum(math.exp(a.score) for a, _ in normal)


def _id(folder: Path, theirs: Mapping[str, Any], name: str, pieces: list[list[str]]) -> int:
    value = theirs.get(name)
    if not isinstance(value, int) or not 0 <= value < min(map(len, pieces)):
        raise DataError(f"{folder / 'config.json'}: {name} is {value!r}, which is not an id of the vocabulary")
    return value


def _pieces(path: Path, ids: Mapping[str, Any], n_rows: object) -> list[str]:
    """Return the pieces of a vocabulary of `path` by their ids."""
    if sorted(ids.values(), key=str) != sorted(range(len(ids)), key=str):
        raise DataError(f"{path}: its {len(ids):,} pieces do not have the ids 0 to {len(ids) - 1:,}, once each")
    if n_rows is not None and len(ids) != n_rows:
        raise DataError(f"{path}: has {len(ids):,} pieces, but config.json has embeddings of {n_rows}")
    pieces = sorted(ids, key=ids.__getitem__)
    try:
        "".join(pieces).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{path}: damaged: a piece has half of a surrogate pair") from error
    return pieces


_LANGUAGE_TAG = re.compile(r"_*([a-zA-Z]+(_[a-zA-Z]+)?)_*")
_LINES = 10_000  # encoded at a time
_NORMAL = ModelProto.SentencePiece.NORMAL
_UNIGRAM, _BPE = 1, 2  # of TrainerSpec.ModelType in sentencepiece_model.proto


def _segmenter(folder: Path, name: str) -> bytes:
    """Return a SentencePiece model. Raises DataError if it is damaged, or of an unsupported kind."""
    data = _read(folder, name)
    try:
        proto = ModelProto.FromString(data)
        processor_of(data)
    except Exception as error:  # of a private module of protobuf
        raise DataError(f"{folder / name}: not a SentencePiece model") from error
    if proto.trainer_spec.model_type not in (_UNIGRAM, _BPE) or proto.trainer_spec.byte_fallback:
        raise DataError(f"{folder / name}: only unigram and BPE models without byte fallback are supported")
    return data


def _rebuilt_segmenter(folder: Path) -> bytes:
    """Return the SentencePiece model from which tokenizer.json was made: transformers 5 saves NLLB without it.

    It has what transformers reads of that file: pieces, merges and normalisation. Raises DataError if SentencePiece
    would merge other pieces, and KeyError, TypeError or ValueError if the file is damaged.
    """
    content = _json(folder, "tokenizer.json")
    bpe = content["model"]
    merges = [*map(tuple, bpe["merges"])]
    scores = {"".join(pair): -float(rank) for rank, pair in enumerate(merges)}
    pieces = _pieces(folder / "tokenizer.json", bpe["vocab"], None)
    scores |= {piece: 0.0 for piece in pieces if len(piece) == 1}  # merging does not depend on it
    if not {*merges}.issuperset(merges_of(scores)):
        raise DataError(f"{folder / 'tokenizer.json'}: not made from a SentencePiece model; add {_SEGMENTER}")
    steps = (content["normalizer"] or {"normalizers": []})["normalizers"]
    charsmap = "".join(step.get("precompiled_charsmap", "") for step in steps)
    proto = ModelProto(
        trainer_spec={"model_type": _BPE}, normalizer_spec={"precompiled_charsmap": base64.b64decode(charsmap)}
    )
    proto.pieces.add(piece="<unk>", type="UNKNOWN")
    for piece in ["<s>", "</s>", *pieces[len(FAIRSEQ_SPECIAL) :]]:
        proto.pieces.add(piece=piece, score=scores.get(piece), type="NORMAL" if piece in scores else "CONTROL")
    return bytes(proto.SerializeToString())


# --- weights --------------------------------------------------------------------------------------

Take = Callable[[Sequence[str]], Tensor]
"""A function that returns a tensor of the public model by one of the names that it may have there."""

_ROWS = 4096  # of an embedding table, copied at a time
_MAPPED_BYTES = 2**25  # read before a pickle is mapped anew
_POSITIONS = {
    f"model.{stack}.embed_positions.{name}" for stack in ("encoder", "decoder") for name in ("weight", "weights")
}
"""The names of sinusoidal positions, which are computed; old repositories contain them."""


@torch.no_grad()
def _load_weights(
    folder: Path,
    model: Transformer,
    full: ImportedVocabulary,
    vocabulary: ImportedVocabulary,
    kept: list[list[int]] | None,
) -> None:
    """Copy the weights into a model. Raises DataError if some are missing, left over or of another shape.

    full: the vocabulary of the public model; kept: for each vocabulary, the rows of its pieces in the tables of the
    public model; None: all rows.
    """
    sizes = len(full.pieces[0]), len(full.pieces[-1])

    def rows_of(side: Literal[0, 1]) -> list[int | None]:
        rows = vocabulary.original_rows(side)
        own = None if kept is None else kept[min(side, len(kept) - 1)]
        return rows if own is None else [None if row is None else own[row] for row in rows]

    path = next((folder / name for name in _WEIGHTS if (folder / name).exists()), folder / _WEIGHTS[0])
    inverse = units_of(model).argsort()
    with _opened(path) as take:
        # the largest tensors first, while the memory of the others is not in use
        for names, table, side in tables_of(model):
            source, rows = take(names), rows_of(side)
            _check_tensor(path, names[0], source, torch.Size((sizes[side], table.size(1))))
            table.zero_()
            for start in range(0, len(rows), _ROWS):
                part = {i: row for i, row in enumerate(rows[start : start + _ROWS], start) if row is not None}
                table[[*part]] = source[[*part.values()]].index_select(1, inverse).to(table.dtype)
        for name, target, dims in weights_of(model):
            source = take([name])
            _check_tensor(path, name, source, target.shape)
            for dim in dims:
                source = source.index_select(dim, inverse)
            target.copy_(source)
        if is_marian := not full.languages:  # its decoder starts with padding
            model.decoder.embedding.weight[BOS] = model.decoder.embedding.weight[PAD]
        assert model.output_bias is not None, "set by the configuration"
        source = take([OUTPUT_BIAS]) if is_marian else torch.zeros(1, sizes[1])
        _check_tensor(path, OUTPUT_BIAS, source, torch.Size((1, sizes[1])))
        rows = rows_of(1)
        model.output_bias.fill_(ABSENT)
        known = [i for i, row in enumerate(rows) if row is not None]
        model.output_bias[known] = source[0, [row for row in rows if row is not None]].to(model.output_bias.dtype)


def _check_tensor(path: Path, name: str, tensor: Tensor, expected: torch.Size) -> None:
    if tensor.shape != expected:
        shapes = f"has shape {tuple(tensor.shape)}, the model of config.json needs {tuple(expected)}"
        raise DataError(f"{path}: {name} {shapes}")
    if tensor.layout != torch.strided or not tensor.is_floating_point():
        raise DataError(f"{path}: {name} has {tensor.dtype} in layout {tensor.layout}; only dense floats are supported")
    if not torch.stack(torch.aminmax(tensor)).isfinite().all():  # which allocates nothing of the size of the tensor
        raise DataError(f"{path}: {name} has values that are not finite")


@contextmanager
def _opened(path: Path) -> Iterator[Take]:
    """Yield a function that reads the tensors of a file, and check in the end that none was left over.

    What was read is not kept in memory: a file of safetensors is mapped anew for each tensor, a zipped pickle from time
    to time, and tensors of a pickle in the old format are freed.
    """
    try:
        with path.open("rb") as file:
            _check_content(path, file.read(DOCUMENT_BYTES if path.stat().st_size < 1024 else 1024))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}{_NOT_MARIAN}") from error
    tensors: dict[str, Tensor] = {}
    n_read = 0

    def load() -> dict[str, Tensor]:  # the old format of PyTorch cannot be mapped
        loaded: dict[str, Tensor] = torch.load(path, "cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        return loaded

    try:
        if path.name == _WEIGHTS[0]:
            with safe_open(path, "pt") as opened:
                left = set(opened.keys())
        else:
            with warnings.catch_warnings():  # of old protocols of pickle
                warnings.simplefilter("ignore")
                tensors = load()
            if not isinstance(tensors, dict):
                raise DataError(f"{path}: contains a {type(tensors).__name__} instead of weights by name")
            left = set(tensors)
    except pickle.UnpicklingError as error:
        raise DataError(f"{path}: contains more than weights, and was not executed") from error
    except (SafetensorError, RuntimeError, OSError, EOFError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: damaged: {error_text(error)}") from error
    if not all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in tensors.items()):
        raise DataError(f"{path}: contains more than weights")

    def take(names: Sequence[str]) -> Tensor:
        nonlocal tensors, n_read
        found = [name for name in names if name in left]
        if not found:
            raise DataError(f"{path}: lacks the weights {names[0]}")
        if path.name == _WEIGHTS[0]:
            with safe_open(path, "pt") as opened:
                tensor: Tensor = opened.get_tensor(found[0])
        else:
            tensor = tensors[found[0]]
        left.difference_update(names)
        for name in found:
            tensors.pop(name, None)
        n_read += tensor.nbytes
        if tensors and n_read > _MAPPED_BYTES and zipfile.is_zipfile(path):
            tensors, n_read = load(), 0
        return tensor

    yield take
    for name in left.intersection(_POSITIONS):
        table = take([name]).float()
        if name.endswith("weights"):  # of fairseq, after two rows that are not used
            table, wanted = table[2:], fairseq_table(len(table) - 2, table.size(1))
        else:
            wanted = sinusoidal_table(*table.shape)[:, torch.arange(table.size(1)).view(-1, 2).T.flatten()]
        if not torch.allclose(table, wanted, atol=1e-2):
            raise DataError(f"{path}: {name} is not sinusoidal; only such positions are supported")
    if left:
        raise DataError(f"{path}: has {len(left)} tensors that such models do not have, such as {min(left)}")
