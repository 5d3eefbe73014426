"""The small files of public models, and tokenizers made of them."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from nmt.console import listed, printable, say
from nmt.errors import ConfigError, DataError
from nmt.files.hub_client import download_file, raise_hub_error
from nmt.files.read import DOCUMENT_BYTES, read_regular
from nmt.files.yaml12 import parse_yaml, shown
from nmt.languages.directions import DIRECTION, LABEL, name_in_model
from nmt.layout import RunDir
from nmt.share.hub import download_files, parse_address
from nmt.share.transformers import (
    FAIRSEQ_SPECIAL,
    LANGUAGE_CODES,
    merges_of,
)
from nmt.text.imported import ImportedVocabulary
from nmt.text.lines import read_lines
from nmt.text.tokenizer import processor_of
from nmt.text.vocabularies import Tokenizers

_SMALL_FILES = ["*.json", "*.spm", "*.bpe.model", "README.md"]
SEGMENTER = "sentencepiece.bpe.model"
ABSENT = -100.0
"""The bias of rows that the public model lacks. They then have no part in the probabilities of the others."""
WEIGHTS = ("model.safetensors", "pytorch_model.bin")


@dataclass(frozen=True)
class ImportOptions:
    """The options of `nmt import`."""

    name: str
    """A directory, or a repository on the Hub: owner/name, with @revision if another than the newest is wanted."""
    run: Path | None = None
    """Run directory to write; by default runs/NAME."""
    direction: str | None = None
    """Source and target language; by default as in tokenizer_config.json."""
    languages: Sequence[str] = ()
    """The languages, at least two, between which an M2M-100 model is to translate; empty: the two of `direction`."""
    to: str | None = None
    """The target language, if the model has several."""
    keep_pieces_of: Sequence[Path] = ()
    """Texts, named FILE.LANGUAGE, whose pieces are kept; all other pieces are removed. Empty: all pieces are kept."""


def located(name: str) -> tuple[Path, str, str | None]:
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
        folder = download_files(repository, revision, ["config.json", *_SMALL_FILES, WEIGHTS[0]])
        if not (folder / WEIGHTS[0]).exists():
            download_file(repository, WEIGHTS[1], folder.name)
    except Exception as error:  # from the HTTP library that the client uses
        raise_hub_error(address, error)
    return folder, repository, folder.name


def read_small(folder: Path, name: str) -> bytes:
    """Read a small file of a model. Raises DataError."""
    path = (folder / name).resolve()  # the cache of the Hub has symbolic links
    try:
        data = read_regular(path, DOCUMENT_BYTES)
    except OSError as error:
        raise DataError(f"{folder / name}: cannot be read: {error.strerror}{NOT_MARIAN}") from error
    check_content(folder / name, data)
    return data


NOT_MARIAN = (
    "; a Marian model has config.json, vocab.json, source.spm, target.spm and model.safetensors; an M2M-100 model has "
    "sentencepiece.bpe.model in place of the two, NLLB that or tokenizer.json; in Marian's own format, a model has "
    ".npz, decoder.yml, and .spm vocabularies, or .yml beside source.spm and target.spm, not source.bpe (subword-nmt)"
)


def check_content(path: Path, data: bytes) -> None:
    """Raise DataError for a file that only points to the content."""
    if data.startswith(b"version https://git-lfs"):
        raise DataError(f"{path}: is a pointer of Git LFS, not the file itself; run git lfs pull, or download the file")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads(read_small(folder, name))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{folder / name}: damaged: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{folder / name}: must contain a JSON object")
    return content


def check_setting(where: Path, name: str, value: object, supported: Sequence[object], reason: str = "") -> None:
    """Raise DataError if the value of a setting is not supported. reason: why, the end of the message."""
    if value not in supported:
        known = listed(map(shown, supported), last="or")
        raise DataError(f"{where}: {name} is {shown(value)}, but must be {known}{reason}")


def read_optional(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder, name) if (folder / name).exists() else {}


def stated_license(folder: Path) -> str | None:
    """Return the licence that the model card states, or several, separated by commas.

    None, with a note, if the card's metadata cannot be read.
    """
    if not (folder / "README.md").exists():
        return None
    card = "\n".join(read_small(folder, "README.md").decode("utf-8-sig", errors="replace").splitlines())
    matter = re.match(r"---\n(.*?)\n---", card, re.DOTALL)
    try:
        metadata = parse_yaml(matter[1], str(folder / "README.md")) if matter else None
    except ConfigError as error:
        say(f"note: {error}; its licence is not recorded")
        return None
    value = metadata.get("license") if isinstance(metadata, dict) else None
    names = [str(name) for name in (value if isinstance(value, list) else [value]) if name]
    return printable(", ".join(names)) or None


def marian_tokenizers(folder: Path, theirs: Mapping[str, Any], request: ImportOptions) -> Tokenizers:
    """Return the tokenizers. Raises DataError if the vocabularies do not fit."""
    if request.languages:
        raise DataError(f"{folder}: a Marian model has one source language; choose with --direction and --to")
    about = read_optional(folder, "tokenizer_config.json")
    languages = [str(about.get(name)).lower().replace("-", "_") for name in ("source_lang", "target_lang")]
    unnamed = f"{folder}: tokenizer_config.json does not name the languages; give --direction, such as de-en"
    direction = _direction(request, languages, unnamed)
    is_joint = theirs.get("share_encoder_decoder_embeddings", True)
    names = ["vocab.json"] if is_joint else ["vocab.json", "target_vocab.json"]
    sizes = [theirs.get("vocab_size"), theirs.get("decoder_vocab_size") or theirs.get("vocab_size")]
    pieces = [pieces_in(folder / name, read_json(folder, name), size) for name, size in zip(names, sizes, strict=False)]
    ids = {"padding": _id(folder, theirs, "pad_token_id", pieces), "end": _id(folder, theirs, "eos_token_id", pieces)}
    special: dict[str, Any] = {role: pieces[0][i] for role, i in ids.items()}
    special["unknown"] = _content(about.get("unk_token", "<unk>"))
    for name, of_side in zip(names, pieces, strict=True):
        for role, piece in special.items():
            if piece not in of_side or of_side.index(piece) != ids.get(role, of_side.index(piece)):
                raise DataError(
                    f"{folder / name}: {printable(piece)!r} is missing or has another id than in config.json"
                )
    vocabulary = ImportedVocabulary(direction=direction, pieces=pieces, to=request.to, **special)
    src, tgt = direction.split("-")
    models = {language: segmenter_in(folder, name) for language, name in ((src, "source.spm"), (tgt, "target.spm"))}
    tokenizers = Tokenizers.of_import(vocabulary, models)
    if request.to is not None:
        tokenizers[src].tag(request.to)
    return tokenizers


def m2m_tokenizers(folder: Path, theirs: Mapping[str, Any], request: ImportOptions) -> Tokenizers:
    """Return the tokenizers of an M2M-100 model. Raises DataError if the vocabulary does not fit or lacks languages.

    M2M-100 has its pieces in vocab.json, NLLB in its SentencePiece model, or in tokenizer.json where transformers 5 has
    saved it. The tags of the languages have other ids. There may be rows that are not used.
    """
    try:
        has_segmenter = (folder / SEGMENTER).exists()
        model = segmenter_in(folder, SEGMENTER) if has_segmenter else _rebuilt_segmenter(folder)
        pieces = [*FAIRSEQ_SPECIAL, *(piece.piece for piece in ModelProto.FromString(model).pieces[3:])]
        if (folder / "vocab.json").exists():
            pieces = pieces_in(folder / "vocab.json", read_json(folder, "vocab.json"), None)
        elif ids := read_optional(folder, "tokenizer.json").get("model", {}).get("vocab"):
            pieces = pieces_in(folder / "tokenizer.json", ids, None)  # added pieces follow the tags
        added = _added_tokens(folder, len(pieces))
        processor_of(model)
    except (ArithmeticError, AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
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
    languages |= {code: languages[name_in_model(code, languages)] for code in chosen}
    vocabulary = ImportedVocabulary(
        direction=direction, pieces=[pieces], padding="<pad>", unknown="<unk>", end="</s>", languages=languages
    )
    return Tokenizers.of_import(vocabulary, dict.fromkeys(chosen, model))


def _added_tokens(folder: Path, n_pieces: int) -> dict[str, int]:
    """Return the ids of tags and other tokens beside the pieces of M2M-100 or NLLB, as any version of transformers
    lists them: with their ids, or in the order in which they follow the pieces."""
    about = read_optional(folder, "tokenizer_config.json") | read_optional(folder, "special_tokens_map.json")
    rows = read_optional(folder, "added_tokens.json")
    rows |= {_content(token): row for row, token in about.get("added_tokens_decoder", {}).items()}
    rows |= {_content(token): token["id"] for token in read_optional(folder, "tokenizer.json").get("added_tokens", ())}
    tokens = [*(about.get("extra_special_tokens") or about.get("additional_special_tokens") or ())]
    tokens += [f"__{code}__" for code in LANGUAGE_CODES.get(about.get("language_codes", ""), "").split()]
    for i, token in enumerate(dict.fromkeys(map(_content, tokens))):
        rows.setdefault(token, n_pieces + i)
    return {token: int(row) for token, row in rows.items()}


def _direction(request: ImportOptions, default: Sequence[str], unnamed: str) -> str:
    """Return the requested direction, by default the one between the languages that the model names.

    Raises DataError if it does not name two languages; the message is `unnamed` if none is requested.
    """
    direction = request.direction or "-".join([*request.languages, *default][:2])
    if not DIRECTION.fullmatch(direction) or len({*direction.split("-")} - {"none", LABEL}) < 2:
        if not request.direction and not request.languages:
            raise DataError(unnamed)
        form = "--direction de-en" if request.direction else "--languages de,en"
        raise DataError(f"{printable(direction)!r} does not name two languages; write them as in {form}")
    return direction


def _content(token: object) -> str:
    """Return the text of a special token of transformers, which may have settings beside it."""
    if isinstance(token, dict):
        token = token.get("content")
    return str(token)


def cut_vocabulary(tokenizers: Tokenizers, texts: Sequence[Path]) -> tuple[Tokenizers, list[Sequence[int]]]:
    """Reduce vocabularies to the pieces of texts, to special pieces, tags and single characters.

    Returns the smaller tokenizers, and for each vocabulary the rows of its pieces in the tables of the public model. In
    the segmenters the other pieces are marked as unused, so that their text is spelled in kept pieces. NLLB's tokenizer
    has no such mark: there, the pieces of which kept ones are merged are kept, too, and the others are removed.
    Raises DataError if a text cannot be read, its name does not end in a language of the model, or a language has none.
    """
    full = tokenizers.imported
    assert full is not None, "these tokenizers are imported"
    used = _used_pieces(tokenizers, full, texts)
    first = [full.end, full.unknown, full.padding]  # transformers needs equal ids in both vocabularies
    if full.languages:  # there, positions begin after the id of padding
        first = FAIRSEQ_SPECIAL
    is_nllb = bool(full.languages) and not full.has_fixed_tags
    if is_nllb:
        model = next(iter(tokenizers.by_language.values())).model
        scores = {piece.piece: piece.score for piece in ModelProto.FromString(model).pieces}
        used[0].update(*(_merged_to(piece, scores) for piece in [*used[0]]))
    kept = list[Sequence[int]]()
    pieces = []
    for all_pieces, used_pieces in zip(full.pieces, used, strict=True):
        rows = [*map(all_pieces.index, first)]
        for row, piece in enumerate(all_pieces):
            if piece not in first and (piece in used_pieces or len(piece.removeprefix("\u2581")) <= 1):
                rows.append(row)
        kept.append(rows)
        pieces.append([all_pieces[row] for row in rows])
    models = {}
    for side, (language, tokenizer) in enumerate(tokenizers.by_language.items()):
        proto = ModelProto.FromString(tokenizer.model)
        number = min(side, len(kept) - 1)
        removed = {*full.pieces[number]} - {*pieces[number]}
        for piece in proto.pieces:
            if piece.piece in removed:
                piece.type = ModelProto.SentencePiece.UNUSED
        if is_nllb:
            kept_pieces = [piece for piece in proto.pieces if piece.piece not in removed]
            del proto.pieces[:]
            proto.pieces.extend(kept_pieces)
        models[language] = proto.SerializeToString()
    return Tokenizers.of_import(full.model_copy(update={"pieces": pieces}), models), kept


def _merged_to(piece: str, scores: Mapping[str, float]) -> set[str]:
    """Return the pieces that SentencePiece merges, one after the other, to a piece of a BPE model."""
    parts = [*piece]
    merged = set[str]()
    while len(parts) > 1:
        pairs = [
            (-scores[first + second], i)
            for i, (first, second) in enumerate(pairwise(parts))
            if first + second in scores
        ]
        if not pairs:  # no piece of text
            break
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
        merged.add(parts[i])
    return merged


def _used_pieces(tokenizers: Tokenizers, full: ImportedVocabulary, texts: Sequence[Path]) -> list[set[str]]:
    """Return the pieces of texts, and the tags, for each vocabulary. Raises DataError as `cut_vocabulary`."""
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
        tokenizer = tokenizers[language]
        lines = read_lines(path)
        used_pieces = used[min(languages.index(language), len(used) - 1)]
        while block := list(islice(lines, _LINES)):
            ids = sorted(set(chain.from_iterable(tokenizer.encode_all(block))))
            used_pieces.update(tokenizer.pieces(ids))
            if ids:
                missing.discard(language)
    if missing:
        without = " and ".join(sorted(missing))
        raise DataError(f"--keep-pieces-of: no text in {without}; give text of each language, named FILE.LANGUAGE")
    return used


def removed_share(full: bytes, cut: bytes) -> float | None:
    """Return the probability that a unigram model gives to the pieces that are unused in its cut version; None for
    other models."""
    before = ModelProto.FromString(full)
    after = ModelProto.FromString(cut)
    if before.trainer_spec.model_type != _UNIGRAM:
        return None
    all_shares = []
    removed_shares = []
    for piece, cut_piece in zip(before.pieces, after.pieces, strict=True):
        if piece.type == _NORMAL:
            all_shares.append(math.exp(piece.score))
            if cut_piece.type != _NORMAL:
                removed_shares.append(math.exp(piece.score))
    return math.fsum(removed_shares) / math.fsum(all_shares)


def _id(folder: Path, theirs: Mapping[str, Any], name: str, pieces: list[list[str]]) -> int:
    value = theirs.get(name)
    if not isinstance(value, int) or not 0 <= value < min(map(len, pieces)):
        raise DataError(f"{folder / 'config.json'}: {name} is {value!r}, which is not an id of the vocabulary")
    return value


def pieces_in(path: Path, ids: Mapping[str, Any], n_rows: object) -> list[str]:
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


def segmenter_in(folder: Path, name: str) -> bytes:
    """Return a SentencePiece model. Raises DataError if it is damaged, or of an unsupported kind."""
    data = read_small(folder, name)
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
    content = read_json(folder, "tokenizer.json")
    bpe = content["model"]
    merges = [*map(tuple, bpe["merges"])]
    scores = {"".join(pair): -float(rank) for rank, pair in enumerate(merges)}
    pieces = pieces_in(folder / "tokenizer.json", bpe["vocab"], None)
    scores |= {piece: 0.0 for piece in pieces if len(piece) == 1}  # merging does not depend on it
    if max(map(len, scores)) > 1000:  # which would take as many copies of the piece
        raise ValueError("a piece is too long")
    if not {*merges}.issuperset(merges_of(scores)):
        raise DataError(f"{folder / 'tokenizer.json'}: not made from a SentencePiece model; add {SEGMENTER}")
    steps = (content["normalizer"] or {"normalizers": []})["normalizers"]
    charsmap = "".join(step.get("precompiled_charsmap", "") for step in steps)
    proto = ModelProto(
        trainer_spec={"model_type": _BPE}, normalizer_spec={"precompiled_charsmap": base64.b64decode(charsmap)}
    )
    proto.pieces.add(piece="<unk>", type="UNKNOWN")
    for piece in ["<s>", "</s>", *pieces[len(FAIRSEQ_SPECIAL) :]]:
        kind = "NORMAL" if piece in scores else "CONTROL"
        proto.pieces.add(piece=piece, score=scores.get(piece), type=kind)
    return bytes(proto.SerializeToString())
