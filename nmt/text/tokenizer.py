"""SentencePiece tokenizers: those that `nmt prepare` trains, and those of imported models.

Ids 0-3 are padding, unknown, `<s>` and `</s>`; 4-6 mark terms in a source (`nmt.text.inline`); 7 stands for masked
pieces (`nmt.data.masking`); 8 separates two lines of one sequence; 9-19 are reserved for later uses. Tags, which
precede a source, have the ids after the last piece. SentencePiece does not know them, so text never becomes a tag.

A `LosslessTokenizer` is BPE without normalisation, which preserves white space. Ids 20-275 are the 256 bytes, which
spell every character without a piece; then come the learned pieces. Two additions to SentencePiece:

* It writes a space as U+2581, so a U+2581 of the text would be decoded as a space. Here that character is always
  spelled in its three bytes.
* A line break in a translation would shift all lines after it. Control characters (Unicode category Cc without the
  tab) are therefore replaced by spaces, in encoding and in decoding.

`nmt prepare` encodes with a `BlockEncoder`. No piece spans a space, so the ids of a line are the ids of its words, and
each word is encoded only once. Two spaces in a row have an empty word between them.

An `ImportedTokenizer` segments with the SentencePiece model of a public model, which normalises text, and numbers the
pieces by the vocabulary of that model: its pieces follow from id 20 on, in their original order. So does the tokenizer
of `tokenizer.model`, whose vocabulary is that of the SentencePiece model itself, with its bytes first.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import itertools
import json
import re
import unicodedata
from abc import ABC, abstractmethod
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import sentencepiece
from pydantic import Field, ValidationInfo, field_validator
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from nmt.config import Config
from nmt.config.data import ANY, DIRECTION, LABEL, TO, TokenizerKind
from nmt.config.foreign import did_you_mean
from nmt.console import printable
from nmt.errors import ConfigError, DataError, UnsafeFileError
from nmt.files.document import Document, document_text, read_document
from nmt.files.read import DOCUMENT_BYTES, read_regular, read_text
from nmt.files.write import refuse_links, write_file
from nmt.layout import TokenizerDir
from nmt.text.fingerprint import fingerprint_of
from nmt.text.labels import Labels
from nmt.text.letters import write
from nmt.text.profile import Letters, Profiles
from nmt.text.ragged import ranges

PAD, UNK, BOS, EOS = 0, 1, 2, 3
FIRST_RESERVED, N_RESERVED = 4, 16
N_SPECIAL = FIRST_RESERVED + N_RESERVED
MASK, SEPARATOR = 7, 8

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""A control character: Unicode category Cc without the tab."""

Ids: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
"""Ids in the smallest type that holds every id of the vocabulary, see `id_dtype`."""
Numbers: TypeAlias = npt.NDArray[np.int64]


def is_blank(line: str) -> bool:
    """Return whether a line has only white space and invisible characters (Unicode categories Cc and Cf)."""
    return not line[:1].isalnum() and all(
        character.isspace() or unicodedata.category(character) in ("Cc", "Cf") for character in line
    )


def id_dtype(n_pieces: int) -> type[np.uint16] | type[np.uint32]:
    """Return the smallest type that can represent every id of a vocabulary of `n_pieces`."""
    return np.uint16 if n_pieces <= 2**16 else np.uint32


_SPACE = "\u2581"  # how SentencePiece writes a space
_OWN_SIGNS = {_SPACE, "\u2585"}  # U+2585 is how it marks an unknown character in training
_NO_PIECE = re.compile(rf"{CONTROL.pattern}|[{''.join(sorted(_OWN_SIGNS))}]")
_SPACE_IDS = [N_SPECIAL + byte for byte in _SPACE.encode()]
_SPECIAL_NAMES = ["<pad>", "<unk>", "<s>", "</s>", *(f"<reserved_{i}>" for i in range(N_RESERVED))]
_TAG = re.compile(">>(.+?)<<", re.DOTALL)  # at the start of a source
_CUSTOM_TAG = re.compile(">>[^=]+=[^=]+<<")
_PROBE = " a\t é  \u2581\U0001f600 "
_THREADS = 4


def read_model(path: Path) -> bytes:
    """Read a model file. Raises DataError if that is impossible."""
    try:
        return read_regular(path, DOCUMENT_BYTES)
    except UnsafeFileError:
        raise
    except OSError as error:
        raise DataError(f"{path}: the tokenizer cannot be read: {error.strerror}") from error


def processor_of(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a serialised SentencePiece model. Raises RuntimeError or ValueError for anything else."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return processor


class Tokenizer(ABC):
    """A vocabulary that encodes lines to ids and decodes ids."""

    fingerprint: str
    """Sixteen hexadecimal digits that identify the tokenizer."""
    first_learned: int
    """The id of the first learned piece; smaller ids are special pieces and bytes."""
    is_lossless: bool
    """Whether every line is restored from its ids, up to control characters."""
    tags: Mapping[str, int]
    """The ids of the tags that may precede a source, by name, such as `domain=help`; they are the last ids."""
    target_languages: Mapping[str, int] = {}
    """The ids of the tags of target languages, by language; only imported models have such tags."""
    to: str | None = None
    """The language whose tag precedes every line that does not ask for another one."""
    opening: Sequence[int] = ()
    """The ids with which every line of the language begins, source or target: its tag, in M2M-100 and NLLB."""

    letters: Mapping[str, str] = {}
    """The form in which a letter is encoded for its other forms."""
    model: bytes
    """The serialised SentencePiece model."""
    n_pieces: int
    """The number of special pieces, bytes and learned pieces; larger ids are tags."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of pieces: ids are 0 … len - 1."""

    def encode(self, line: str) -> list[int]:
        """Encode a line, without special ids; an empty line has none."""
        return self.encode_all([line])[0]

    @abstractmethod
    def encode_all(self, lines: Sequence[str], to: str | None = None, threads: int = _THREADS) -> list[list[int]]:
        """Encode lines in parallel, without special ids.

        to: the language whose tag precedes each line. None: the tokenizer's own, or else that of the tag with which a
        line begins, if the tokenizer has tags; empty: none. Raises DataError for a tag that the vocabulary lacks.
        """

    @abstractmethod
    def encode_parts(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Encode parts of lines, without control characters and without a space added before the first word."""

    def as_read(self, text: str) -> str:
        """Return a text with the forms of letters that are encoded."""
        return write(text, self.letters)

    def begins_word(self) -> list[bool]:
        """Return for each piece of the vocabulary whether it begins a word, that is, starts with a space."""
        return [piece.startswith(_SPACE) for piece in self.pieces(range(len(self)))]

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to a line. Special ids are skipped."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Convert ids to pieces as SentencePiece writes them: U+2581 for a space, `<0x41>` for a byte."""

    def is_special(self, ids: Any) -> Any:
        """Return whether an id, or each of an array of ids, is special or a tag, so that it stands for no text."""
        return (ids < N_SPECIAL) | (ids >= self.n_pieces)

    @property
    def first_tag(self) -> int | None:
        """The smallest id of a tag; None if there are no tags."""
        return self.n_pieces if self.n_pieces < len(self) else None

    def never_written(self, joins: bool = False) -> list[int]:
        """Return the ids that no translation has: those that stand for no text, except the end of sentence and, if the
        model `joins` sentences, the separator."""
        written = (EOS, SEPARATOR) if joins else (EOS,)
        return [i for i in [*range(N_SPECIAL), *range(self.n_pieces, len(self))] if i not in written]

    def tag_ids(self, names: Sequence[str] | None) -> list[int]:
        """Return the ids of tags. Raises DataError for a tag that the vocabulary lacks."""
        return [_known(name, self.tags, "tag") for name in names or ()]

    def tagged(self, line: str, to: str | None = None) -> tuple[str, str]:
        """Return the target language of a line, empty if it has no tag, and its text; for `to` see `encode_all`."""
        return to or "", line

    def tag(self, language: str) -> int:  # noqa: ARG002 (of those that have several)
        """Return the id of the tag of a target language. Raises DataError if there is none."""
        raise DataError("to: this model has no choice of target languages by tags, such as >>deu<<")


def _known(name: str, ids: Mapping[str, int], kind: str) -> int:
    """Return the id of a name. Raises DataError if there is none."""
    if name not in ids:
        near = did_you_mean(difflib.get_close_matches(name, ids, cutoff=0.5))
        known = near or (f"; choose {', '.join(sorted(ids))}" if ids else "")
        raise DataError(f"the vocabulary has no {kind} {printable(name)!r}{known}")
    return ids[name]


class LosslessTokenizer(Tokenizer):
    """A tokenizer that restores every line; made by `LosslessTokenizer.load` or `train_tokenizer`."""

    first_learned = N_SPECIAL + 256
    is_lossless = True

    def __init__(self, model: bytes, path: Path | None = None, tags: Sequence[str] = ()) -> None:
        """`model`: a serialised SentencePiece model. Raises DataError unless `train_tokenizer` could have made it.

        path: the file of the model, for messages. tags: names in the order of their ids.
        """
        where = "" if path is None else f"{path}: "
        self.model = model
        try:
            self._processor = processor_of(model)
            self.n_pieces = int(self._processor.get_piece_size())
            self.tags = {name: self.n_pieces + i for i, name in enumerate(tags)}
            is_ours = self._has_expected_pieces() and self.decode(self.encode(_PROBE)) == _PROBE
        except (RuntimeError, ValueError, UnicodeDecodeError) as error:
            raise DataError(f"{where}not a SentencePiece model") from error
        if not is_ours:
            raise DataError(f"{where}a SentencePiece model that nmt did not train")
        named = json.dumps([*tags]).encode() if tags else b""
        self.fingerprint = fingerprint_of(model + named)

    @classmethod
    def load(cls, path: Path, tags: Sequence[str] = ()) -> LosslessTokenizer:
        """Load a model file. Raises DataError if it is missing or was not written by nmt."""
        return cls(read_model(path), path, tags)

    def _has_expected_pieces(self) -> bool:
        """Return whether special pieces and bytes have the ids that `train_tokenizer` gives them, no other piece is
        special, and no piece spans a space.

        Raises UnicodeDecodeError for a piece that is not UTF-8, which would otherwise fail only in use.
        """
        model, ids = self._processor, list(range(self.n_pieces))
        pieces, end = model.id_to_piece(ids), N_SPECIAL + 256
        kinds = list(zip(model.is_unknown(ids), model.is_control(ids), model.is_byte(ids), strict=True))
        wanted = [(i == UNK, i != UNK and i < N_SPECIAL, N_SPECIAL <= i < end) for i in ids]
        has_bytes = pieces[N_SPECIAL:end] == [f"<0x{byte:02X}>" for byte in range(256)]
        return kinds == wanted and has_bytes and not any(_SPACE in piece[1:] for piece in pieces)

    def extended(self, lines: Iterable[str], n_more: int, kind: TokenizerKind = "bpe") -> LosslessTokenizer:
        """Return a tokenizer that has up to `n_more` further pieces, learned from lines of new languages.

        The pieces of this tokenizer keep their ids, and are merged before the new ones; tags follow the new pieces.
        Raises DataError if the lines have no text.
        """
        own = ModelProto.FromString(self.model)
        # of which some are pieces of this tokenizer
        new = ModelProto.FromString(train_tokenizer(lines, self.first_learned + 2 * n_more, kind=kind).model)
        known = {piece.piece for piece in own.pieces}
        found = [piece.piece for piece in new.pieces[self.first_learned :] if piece.piece not in known]
        letters = [piece for piece in found if len(piece) == 1][:n_more]
        known.update(letters)
        merges = [piece for piece in found if len(piece) > 1 and known.issuperset(piece)][: n_more - len(letters)]
        for piece in [*merges, *letters]:
            own.pieces.add(piece=piece, score=float(-len(own.pieces)), type=ModelProto.SentencePiece.NORMAL)
        own.trainer_spec.vocab_size = len(own.pieces)
        return LosslessTokenizer(own.SerializeToString(), tags=[*self.tags])

    def extends(self, other: Tokenizer) -> bool:
        """Return whether the first pieces of this tokenizer are those of another one."""
        ids = range(other.n_pieces)
        return (
            isinstance(other, LosslessTokenizer)
            and other.n_pieces <= self.n_pieces
            and self.pieces(ids) == other.pieces(ids)
        )

    def texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each piece, with the space that it begins with, if any."""
        return [piece.replace(_SPACE, " ") for piece in self.pieces(ids)]

    def __len__(self) -> int:
        return self.n_pieces + len(self.tags)

    def encode_all(self, lines: Sequence[str], to: str | None = None, threads: int = _THREADS) -> list[list[int]]:
        if to:
            self.tag(to)  # raises that there is none
        # with a space before it, the first word has the same pieces as within a line; decode removes the space
        return self.encode_parts([f" {CONTROL.sub(' ', line)}" if line else "" for line in lines], threads)

    def encode_parts(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        texts = [*map(self.as_read, texts)]
        if not any(_SPACE in text for text in texts):
            return list(self._processor.encode(texts, num_threads=threads))
        parts = [text.split(_SPACE) for text in texts]
        encoded = iter(self._processor.encode(list(itertools.chain.from_iterable(parts)), num_threads=threads))
        result = []
        for of_text in parts:
            ids = list(next(encoded))
            for _ in of_text[1:]:
                ids += _SPACE_IDS
                ids += next(encoded)
            result.append(ids)
        return result

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to a line. Special ids are skipped, bytes that are not UTF-8 become U+FFFD."""
        text = str(self._processor.decode([int(i) for i in ids if N_SPECIAL <= i < self.n_pieces]))
        return CONTROL.sub(" ", text.removeprefix(" "))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        tags = [f">>{name}<<" for name in self.tags]
        model, n = self._processor, self.n_pieces
        return [str(model.id_to_piece(int(i))) if i < n else tags[i - n] for i in ids]


class ImportedVocabulary(Document):
    """The content of imported.json: the vocabulary of an imported model, or of a `tokenizer.model`."""

    direction: str | None = Field(None, pattern=DIRECTION.pattern)
    """The only direction that the tokenizers serve; None: they serve all directions and languages."""
    pieces: list[list[str]] = Field(min_length=1, max_length=2)
    """The pieces by their original ids: of both languages, or of the source and of the target."""
    padding: str
    unknown: str
    end: str
    to: str | None = None
    """The language whose tag precedes every source, if the model has several target languages and one was chosen."""
    languages: dict[str, str] | None = None
    """The tags of languages, by the names of each, if every source and target begins with that of its language."""

    @field_validator("padding", "unknown", "end")
    @classmethod
    def _check_special(cls, piece: str, info: ValidationInfo) -> str:
        if not all(piece in pieces for pieces in info.data.get("pieces", [])):
            raise ValueError(f"{piece!r} is missing")
        return piece

    @classmethod
    def of_model(cls, model: bytes) -> ImportedVocabulary:
        """Return the vocabulary of a SentencePiece model, for all languages. Raises DecodeError if it is none."""
        proto = ModelProto.FromString(model)
        spec, kinds = proto.trainer_spec, ModelProto.SentencePiece
        by_kind = sorted(proto.pieces, key=lambda piece: piece.type != kinds.BYTE)
        learned = [piece.piece for piece in by_kind if piece.type not in (kinds.CONTROL, kinds.UNKNOWN)]
        pieces = [spec.eos_piece, spec.unk_piece, *learned, spec.pad_piece]
        return cls(pieces=[pieces], padding=spec.pad_piece, unknown=spec.unk_piece, end=spec.eos_piece)

    def original(self, side: Literal[0, 1]) -> list[str]:
        """Return the pieces of the source (side 0) or the target (side 1) by their original ids."""
        return self.pieces[min(side, len(self.pieces) - 1)]

    def original_rows(self, side: Literal[0, 1]) -> list[int | None]:
        """Return the original id of every id; None for the ids that the public model lacks."""
        original = self.original(side)
        special = {PAD: self.padding, UNK: self.unknown, EOS: self.end}
        first = [original.index(special[i]) if i in special else None for i in range(N_SPECIAL)]
        tags = {*(self.languages or {}).values()}  # the last ids, since they stand for no text
        others = [i for i, piece in enumerate(original) if piece not in special.values()]
        return [*first, *sorted(others, key=lambda i: original[i] in tags)]

    def with_tags(self, names: Sequence[str]) -> ImportedVocabulary:
        """Return a vocabulary with tags after the last piece of the source, but before padding if that is last: the
        converter of CTranslate2 removes the last piece of a joint vocabulary.

        Raises DataError if the vocabulary has tags of languages.
        """
        if self.languages:
            raise DataError(f"a vocabulary with tags of languages takes no others, such as {names[0]}")
        source, *target = self.pieces
        is_before = source[-1] == self.padding and not target
        end = len(source) - is_before
        pieces = [*source[:end], *(f">>{name}<<" for name in names), *source[end:]]
        return self.model_copy(update={"pieces": [pieces, *target]})


class ImportedTokenizer(Tokenizer):
    """The tokenizer of one side of an imported model: its segmenter, and the ids of its vocabulary.

    The segmenter normalises text, so that a line is not always restored. A piece that the vocabulary lacks is unknown.
    """

    is_lossless = False

    def __init__(self, model: bytes, vocabulary: ImportedVocabulary, side: Literal[0, 1]) -> None:
        """model: a serialised SentencePiece model. Raises DataError if it is none."""
        self.model, self.to = model, vocabulary.to if side == 0 else None
        original = vocabulary.original(side)
        learned = [original[i] for i in vocabulary.original_rows(side)[N_SPECIAL:] if i is not None]
        self._id_of = {piece: N_SPECIAL + i for i, piece in enumerate(learned)}
        self.n_pieces = N_SPECIAL + len(learned)
        self._pieces = [name if name not in self._id_of else f"{name} (nmt)" for name in _SPECIAL_NAMES] + learned
        try:
            self._processor = processor_of(model)
            all_ids = list(range(self._processor.get_piece_size()))
            self._processor.id_to_piece(all_ids)  # raises UnicodeDecodeError for a piece that is not UTF-8
        except (RuntimeError, ValueError, UnicodeDecodeError) as error:
            raise DataError("not a SentencePiece model") from error
        self.first_learned = N_SPECIAL + sum(self._processor.is_byte(all_ids))
        found = [*itertools.takewhile(_CUSTOM_TAG.fullmatch, reversed(learned))] if side == 0 else []
        self.tags = {piece[2:-2]: self._id_of[piece] for piece in reversed(found)}
        self.n_pieces -= len(found) + len({*(vocabulary.languages or {}).values()})
        if side == 0:
            others = {piece: i for piece, i in self._id_of.items() if i < self.n_pieces and _TAG.fullmatch(piece)}
            self.target_languages = {piece[2:-2]: i for piece, i in others.items()}
        # named one by one, so that a later field does not change the fingerprints of existing runs
        names = (vocabulary.direction, vocabulary.padding, vocabulary.unknown, vocabulary.end, vocabulary.to)
        parts = [model, json.dumps([*names, vocabulary.pieces]).encode(), bytes([side])]
        self.fingerprint = fingerprint_of(b"".join(hashlib.sha256(part).digest() for part in parts))

    def opening_with(self, tag: str) -> ImportedTokenizer:
        """Return the tokenizer of a language whose lines begin with a tag, unless it is empty."""
        if not tag:
            return self
        other = copy(self)
        other.opening = [self._id_of[tag]]
        other.fingerprint = fingerprint_of(f"{self.fingerprint} {tag}".encode())
        return other

    def __len__(self) -> int:
        return len(self._pieces)

    def tagged(self, line: str, to: str | None = None) -> tuple[str, str]:
        to = self.to if to is None else to
        match = _TAG.match(line) if to is None and self.target_languages else None
        return (to or "", line) if match is None or "=" in match[1] else (match[1], line[match.end() :])

    def tag(self, language: str) -> int:
        known = self.target_languages
        return _known(language, known, "target language") if known else super().tag(language)

    def encode_all(self, lines: Sequence[str], to: str | None = None, threads: int = _THREADS) -> list[list[int]]:
        divided = [self.tagged(line, to) for line in lines]
        encoded = self.encode_parts([text for _, text in divided], threads)
        both = zip(divided, encoded, strict=True)
        return [[*([self.tag(to)] if to else self.opening), *ids] if ids else ids for (to, _), ids in both]

    def tag_ids(self, names: Sequence[str] | None) -> list[int]:
        # the tag with which a translation opens says what the tag of the target language would
        return super().tag_ids([name for name in names or () if not (self.opening and name.startswith(TO))])

    def encode_parts(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        texts = [*map(self.as_read, texts)]
        encoded = self._processor.encode(texts, out_type=str, num_threads=threads)
        return [[self._id_of.get(piece, UNK) for piece in line] for line in encoded]

    def spans(self, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the start and end in code points of the text of each id, of a text without a tag.

        `ids` are those of the text, perhaps truncated, perhaps after tags, whose spans are before the text.
        """
        _, offsets = self._processor.normalize(text, with_offsets=True)
        lengths = map(self._n_characters, self._processor.encode(text, out_type=str))
        bounds = itertools.pairwise(offsets[end] for end in itertools.accumulate(lengths, initial=0))
        spans = [(start, max(end, start + 1)) for start, end in bounds]  # a character may become several pieces
        tags = {*self.tags.values(), *self.target_languages.values(), *self.opening}
        n_tags = next((i for i, token in enumerate(ids) if token not in tags), len(ids))
        return [*[(-1, 0)] * n_tags, *spans][: len(ids)]

    def _n_characters(self, piece: str) -> int:
        """Return the length of the normalised text of a piece; of the bytes of a character, the first has all of it."""
        is_byte = N_SPECIAL <= self._id_of.get(piece, UNK) < self.first_learned
        return piece[3] not in "89AB" if is_byte else len(piece)

    @property
    def is_unigram(self) -> bool:
        """Whether the segmenter is a unigram language model, which has several segmentations of a word."""
        try:
            best, *_ = self._processor.nbest_encode("a", nbest_size=2, out_type=str)
        except RuntimeError:
            return False
        return bool(best[0].startswith(_SPACE))  # else words do not get the space with which they begin

    def segmentations(self, text: str, n: int) -> list[tuple[list[int], float]]:
        """Return the `n` most probable segmentations of a text, or fewer, with their log-probabilities (nats).

        The segmenter must be a unigram model, and the text must consist of its pieces.
        """
        found = self._processor.nbest_encode(text, nbest_size=n)
        scores = [sum(map(self._processor.get_score, ids)) for ids in found]
        segmented = [[self._id_of.get(piece, UNK) for piece in self._processor.id_to_piece(ids)] for ids in found]
        return [*zip(segmented, scores, strict=True)]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to a line without space at its ends. Special ids are skipped."""
        pieces = [self._pieces[i] for i in ids if N_SPECIAL <= i < self.n_pieces]
        return CONTROL.sub(" ", self._processor.decode(pieces)).strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in ids]


_CACHED_BYTES = 1 << 27  # of words
_BYTES_OF_WORD = 200  # beyond its characters, about
_WINDOWS = 3  # a word of at most so many times eight bytes is found by comparing these
_MOST_BYTES = 8 * _WINDOWS
_MASKS = np.array(  # of a window and a length: the bytes that belong to a word
    [[2 ** (8 * min(max(n - i, 0), 8)) - 1 for n in range(_MOST_BYTES + 1)] for i in range(0, _MOST_BYTES, 8)],
    np.uint64,
)
_SLOT_BITS = 20
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio
_LINES = 2048  # encoded at a time: what is computed of them stays in the cache of the processor


class _WordCache:
    """A cache of the ids of words, which is cleared when it becomes too large.

    A word has one slot in a table, given by a hash of its bytes. If it is long, or if another word has taken the slot,
    it is looked up in a dictionary of all words.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._dtype = tokenizer, np.dtype(id_dtype(len(tokenizer)))
        self._clear()

    def _clear(self) -> None:
        self._number_of: defaultdict[bytes, int] = defaultdict(itertools.count().__next__)
        self._ids = array(self._dtype.char)
        self._facts = array("q")
        self._n_bytes = 0
        self._slots = np.zeros((1 << _SLOT_BITS, _WINDOWS + 1), np.uint64)  # the bytes of a word, and its number + 1

    @property
    def ids(self) -> Ids:
        """The ids of all words. A reference to them must not be held at the next call of `find`."""
        return np.frombuffer(self._ids, self._dtype)

    def find(self, text: bytes, starts: Numbers, stops: Numbers) -> Numbers:
        """Return for each word text[start:stop] the start and number of its ids and two counts of its text, (N, 4).

        The counts are the words, if the text is divided at any white space, and the characters without white space.
        """
        if self._n_bytes > _CACHED_BYTES:
            self._clear()
        lengths = stops - starts
        windows = np.ndarray(len(text) + _MOST_BYTES - 7, "<u8", text + bytes(_MOST_BYTES), strides=(1,))
        keys = np.zeros((_WINDOWS, len(starts)), np.uint64)  # the first bytes of words, followed by zeros
        hashes = np.zeros(1, np.uint64)
        compared = np.minimum(lengths, _MOST_BYTES)
        keys[0] = windows[starts] & _MASKS[0][compared]
        for i, (key, mask) in enumerate(zip(keys, _MASKS, strict=True)):
            longer = np.flatnonzero(lengths > 8 * i) if i else np.zeros(0, np.int64)
            key[longer] = windows[starts[longer] + 8 * i] & mask[compared[longer]]
            hashes = (hashes ^ key) * _FACTOR
            hashes ^= hashes >> np.uint64(32)
        slots = (hashes >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
        rows = self._slots.take(slots, axis=0)
        hit = (rows[:, _WINDOWS] > 0) & (lengths <= _MOST_BYTES)
        for i, key in enumerate(keys):
            hit &= rows[:, i] == key
        numbers = rows[:, _WINDOWS].astype(np.int64) - 1
        missed = np.flatnonzero(~hit)
        if len(missed):
            bounds = zip(starts[missed].tolist(), stops[missed].tolist(), strict=True)
            numbers[missed] = self._look_up([text[start:stop] for start, stop in bounds])
            new = missed[lengths[missed] <= _MOST_BYTES]
            # of several words in one slot, the last stays
            self._slots[slots[new]] = np.stack([*keys[:, new], numbers[new].astype(np.uint64) + 1], axis=1)
        return np.frombuffer(self._facts, np.int64).reshape(-1, 4).take(numbers, axis=0)

    def _look_up(self, words: Sequence[bytes]) -> Numbers:
        """Return the indices of words, after encoding new words."""
        n_known = len(self._number_of)
        numbers = np.fromiter(map(self._number_of.__getitem__, words), np.int64, len(words))
        n_new = len(self._number_of) - n_known
        new = [word.decode() for word in itertools.islice(reversed(self._number_of), n_new)][::-1]
        for word, ids in zip(new, self._tokenizer.encode_parts([f" {word}" for word in new]), strict=True):
            parts = word.split()
            self._facts.extend((len(self._ids), len(ids), len(parts), sum(map(len, parts))))
            self._ids.extend(ids)
        self._n_bytes += n_new * _BYTES_OF_WORD + sum(map(len, new))
        return numbers


class Encoded(NamedTuple):
    """The ids of N lines, and counts of their text."""

    ids: Ids
    """The ids of all lines, concatenated."""
    ends: Numbers
    """(N,) The end of each line in `ids`."""
    words: Numbers
    """(N,) The number of words, separated by any white space or control character; 0 for a label."""
    characters: Numbers
    """(N,) The number of characters in the words; 0 for a label."""
    first_learned: int
    """Smaller ids are special pieces and bytes."""

    @property
    def lengths(self) -> Numbers:
        """The number of ids of each line, (N,)."""
        return np.diff(self.ends, prepend=0)

    def take(self, rows: Numbers) -> Encoded:
        """Return the lines with the indices `rows`, in this order; an index may be repeated."""
        lengths = self.lengths
        starts, lengths = (self.ends - lengths)[rows], lengths[rows]
        ids = self.ids[ranges(starts, lengths)]
        return Encoded(ids, np.cumsum(lengths), self.words[rows], self.characters[rows], self.first_learned)


class BlockEncoder:
    """A single-threaded encoder of many lines or labels, with a cache of words and the same ids as `Tokenizer`."""

    def __init__(self, tokenizer: Tokenizer | Labels) -> None:
        self._encoder = _WordCache(tokenizer) if isinstance(tokenizer, LosslessTokenizer) else tokenizer

    def encode(self, lines: Sequence[str]) -> Encoded:
        """Encode lines, without special ids; an empty line has none. Raises DataError for an unknown label."""
        if isinstance(self._encoder, Labels):
            none = np.zeros(len(lines), np.int64)
            ids = np.array([*map(self._encoder.id_of, lines)], np.uint16)
            return Encoded(ids, np.arange(len(lines)) + 1, none, none, N_SPECIAL)
        if isinstance(self._encoder, Tokenizer):
            by_line = self._encoder.encode_all(lines, threads=1)
            texts = [CONTROL.sub(" ", line).split() for line in lines]
            return Encoded(
                np.fromiter(itertools.chain.from_iterable(by_line), id_dtype(len(self._encoder))),
                np.cumsum([*map(len, by_line)], dtype=np.int64),
                np.array([*map(len, texts)], np.int64),
                np.array([sum(map(len, text)) for text in texts], np.int64),
                self._encoder.first_learned,
            )
        starts = range(0, max(1, len(lines)), _LINES)
        blocks = [self._block(self._encoder, lines[start : start + _LINES]) for start in starts]
        ids, lengths, words, characters = map(np.concatenate, zip(*blocks, strict=True))
        return Encoded(ids, np.cumsum(lengths), words, characters, LosslessTokenizer.first_learned)

    @staticmethod
    def _block(cache: _WordCache, lines: Sequence[str]) -> tuple[Ids, Numbers, Numbers, Numbers]:
        """Return the fields of `Encoded`, with the length of each line in place of its end."""
        raw = "\n".join([*lines, ""]).encode()
        if _has_control(raw, len(lines)):
            raw = "\n".join([*(CONTROL.sub(" ", line) for line in lines), ""]).encode()
        text = np.frombuffer(raw, np.uint8)
        stops = np.flatnonzero((text == ord(" ")) | (text == ord("\n")))  # each ends a word
        last = np.flatnonzero(text[stops] == ord("\n"))  # the last word of each line
        starts, first = (np.concatenate(([0], ends + 1))[:-1] for ends in (stops, last))
        facts = cache.find(raw, starts, stops)
        facts[last[starts[first] == stops[last]], 1] = 0  # an empty line has no ids, while an empty word is a space
        ids = cache.ids[ranges(facts[:, 0], facts[:, 1])]
        lengths, words, characters = np.add.reduceat(facts[:, 1:], first).T
        return ids, lengths, words, characters


def _has_control(raw: bytes, n_lines: int) -> bool:
    """Return whether lines have a control character (see CONTROL); U+0080 to U+009F begin with the byte C2."""
    text = np.frombuffer(raw, np.uint8)
    n_low = np.count_nonzero(text < ord(" ")) - np.count_nonzero(text == ord("\t"))
    is_high = (text[:-1] == 0xC2) & (text[1:] < 0xA0)
    return bool(n_low > n_lines or (text == 0x7F).any() or is_high.any())


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of a language pair, by language."""

    by_language: Mapping[str, Tokenizer]
    joint: bool
    """Whether both languages have the same ids. Both tokenizers are then the same object, unless they are imported."""
    labels: Labels | None = None
    """The labels of a classifier; None for translation."""
    profiles: Profiles | None = None
    """The profiles of both languages; only their letters are part of the fingerprint. None in older directories."""
    imported: ImportedVocabulary | None = None
    """The vocabulary of an imported model; None if `nmt prepare` trained the tokenizers."""

    def __getitem__(self, language: str) -> Tokenizer:
        tokenizer = self.by_language[language]
        if language in self.letters:
            tokenizer = copy(tokenizer)
            tokenizer.letters = self.letters[language]
        return tokenizer

    @property
    def letters(self) -> Letters:
        """The forms of letters that are read; empty without `data.clean.repair: [letters]`."""
        return {} if self.profiles is None else self.profiles.letters

    @property
    def languages(self) -> tuple[str, ...]:
        """Both languages in alphabetical order; LABEL is one of them if there are labels."""
        return tuple(sorted([*self.by_language, *([] if self.labels is None else [LABEL])]))

    def side(self, language: str) -> Tokenizer | Labels:
        """Return the tokenizer of a language, or the labels for LABEL."""
        return self.labels if language == LABEL and self.labels is not None else self[language]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of pieces of the vocabulary of each language, and the number of labels."""
        return {language: len(self.side(language)) for language in self.languages}

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that identify the languages, their vocabularies and the forms of their letters."""
        parts = [f"{language}={self.side(language).fingerprint}" for language in self.languages]
        parts += [f"joint={self.joint}", *([json.dumps(self.letters)] if self.letters else [])]
        return fingerprint_of(" ".join(parts).encode())

    @classmethod
    def load(cls, directory: TokenizerDir, languages: Sequence[str]) -> Tokenizers:
        """Load the tokenizers of `languages`. Raises DataError if they are missing or of other languages."""
        labels = Labels.load(directory.labels) if LABEL in languages else None
        profiles, tags = Profiles.load(directory.profiles), read_tags(directory.tags)
        languages = sorted(language for language in languages if language != LABEL)
        if directory.imported.exists():
            vocabulary = read_document(directory.imported, ImportedVocabulary, DataError)
            names = (
                languages if vocabulary.direction is None or vocabulary.languages else vocabulary.direction.split("-")
            )
            models = {name: read_model(directory.language(name)) for name in names}
            return replace(cls.of_import(vocabulary, models), labels=labels, profiles=profiles)
        if directory.joint.exists():
            joint = LosslessTokenizer.load(directory.joint, tags)
            return cls(dict.fromkeys(languages, joint), True, labels, profiles)
        if not directory.path.is_dir() or not any(directory.path.glob("*.model")):
            raise DataError(f"{directory.path}: there is no tokenizer in this directory")
        names = sorted(path.stem for path in directory.path.glob("*.model"))
        if names != languages:
            wanted = " and ".join(languages)
            raise DataError(f"{directory.path}: found vocabularies for {' and '.join(names)}, expected {wanted}")
        by_language = {name: LosslessTokenizer.load(directory.language(name), tags) for name in names}
        return cls(by_language, False, labels, profiles)

    @classmethod
    def of_import(cls, vocabulary: ImportedVocabulary, models: Mapping[str, bytes]) -> Tokenizers:
        """Return the tokenizers of an imported model. models: the SentencePiece model of each language."""
        if vocabulary.languages or vocabulary.direction is None:
            tags = vocabulary.languages or dict.fromkeys(models, "")
            if unknown := models.keys() - tags.keys():
                raise DataError(f"the vocabulary has no language {min(unknown)!r}")
            base = ImportedTokenizer(next(iter(models.values())), vocabulary, 0)
            return cls({name: base.opening_with(tags[name]) for name in sorted(models)}, True, imported=vocabulary)
        src, tgt = vocabulary.direction.split("-")
        by_language = {
            src: ImportedTokenizer(models[src], vocabulary, 0),
            tgt: ImportedTokenizer(models[tgt], vocabulary, 1),
        }
        return cls(by_language, len(vocabulary.pieces) == 1, imported=vocabulary)

    @property
    def tags(self) -> list[str]:
        """The names of all tags, in the order of their ids."""
        return next(([*own.tags] for own in self.by_language.values() if own.tags), [])

    def check_tags(self, names: Sequence[str]) -> None:
        """Raise DataError for a tag that the vocabulary lacks."""
        for name in names:
            _known(name, dict.fromkeys(self.tags, 0), "tag")

    def with_tags(self, names: Sequence[str]) -> Tokenizers:
        """Return tokenizers that also have the given tags, with the ids after all others."""
        tags = [*dict.fromkeys([*self.tags, *names])]
        if tags == self.tags:
            return self
        if self.imported is not None:
            vocabulary = self.imported.with_tags(tags[len(self.tags) :])
            models = {name: own.model for name, own in self.by_language.items()}
            return replace(self.of_import(vocabulary, models), labels=self.labels, profiles=self.profiles)
        made = {id(own): LosslessTokenizer(own.model, tags=tags) for own in self.by_language.values()}
        return replace(self, by_language={name: made[id(own)] for name, own in self.by_language.items()})

    def choose(self, config: Config, to: str | None, source: str | None) -> Config:
        """Return the configuration of one direction of a model; see `Config.choose`.

        Raises ConfigError, also if there are several source languages, none is chosen, and the model reads it.
        """
        pairs = [pair.split("-") for pair in config.data.directions]
        sources = [*dict.fromkeys(src for src, tgt in pairs if to in (None, tgt))]
        if self.is_public and source in (None, ANY) and len(sources) > 1:
            raise ConfigError(f"--from: the model reads the source language; choose one of {', '.join(sources)}")
        return config.choose(to, source, self[config.data.src].target_languages)

    @property
    def is_public(self) -> bool:
        """Whether the vocabulary is that of a public model, which serves only its languages."""
        return self.imported is not None and self.imported.direction is not None

    @property
    def only_direction(self) -> str | None:
        """The only direction that the tokenizers serve; None: all directions of their languages."""
        return None if self.imported is None or self.imported.languages else self.imported.direction

    def check_directions(self, path: Path) -> None:
        """Raise DataError unless these tokenizers, of `path`, can serve several directions."""
        if self.is_public or not self.joint:
            kind = "an imported tokenizer" if self.is_public else "a vocabulary for each language"
            raise DataError(f"{path}: has {kind}, but data.directions needs a joint one that nmt has trained")

    def of_languages(self, languages: Sequence[str]) -> Tokenizers:
        """Return the joint tokenizer as that of other languages; of an imported model, those of these languages."""
        if self.is_public:
            return replace(self, by_language={name: self[name] for name in sorted(languages)})
        return replace(self, by_language=dict.fromkeys(sorted(languages), next(iter(self.by_language.values()))))

    def save(self, directory: TokenizerDir) -> None:
        """Write the model files and create their directory. Raises UnsafeFileError if it is a link, or OSError."""
        refuse_links([directory.path])
        directory.path.mkdir(parents=True, exist_ok=True)
        if self.labels is not None:
            self.labels.save(directory.labels)
        if self.profiles is not None:
            self.profiles.save(directory.profiles)
        if self.imported is not None:
            write_file(directory.imported, document_text(self.imported).encode())
        elif self.tags:
            write_file(directory.tags, f"{json.dumps(self.tags)}\n".encode())
        for language, tokenizer in self.by_language.items():
            is_shared = self.joint and self.imported is None
            write_file(directory.joint if is_shared else directory.language(language), tokenizer.model)


def read_tags(path: Path) -> list[str]:
    """Read the names of tags. Raises DataError if the file is damaged."""
    if not path.exists():
        return []
    try:
        tags = json.loads(read_text(path))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: damaged: {error}") from error
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags) or len({*tags}) < len(tags):
        raise DataError(f"{path}: damaged: must be a list of different names")
    return tags


def train_tokenizer(
    lines: Iterable[str], vocab_size: int, alphabet: Mapping[str, int] | None = None, kind: TokenizerKind = "bpe"
) -> LosslessTokenizer:
    """Learn a vocabulary of at most `vocab_size` pieces; fewer if there are no more merges or characters.

    `alphabet`: character counts of the lines, if known; without it, `lines` is held in memory to count them. The
    result depends on the lines and `vocab_size` only.
    Raises DataError if the lines have no text. BPE: Sennrich et al., 2016, arXiv:1508.07909.
    """
    if alphabet is None:
        lines = list(lines)
        alphabet = Counter(character for line in lines for character in line)
    n_learned = vocab_size - N_SPECIAL - 256
    replaced = _left_out(alphabet, n_learned // 2 if kind == "bpe" else n_learned)
    if not any(_NO_PIECE.sub("", character).strip() for character in alphabet):
        raise DataError("no text to learn a vocabulary from")
    model = io.BytesIO()
    raised: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_recording(_training_lines(lines, replaced), raised),
            model_writer=model,
            model_type=kind,
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            control_symbols=_SPECIAL_NAMES[FIRST_RESERVED:],
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            character_coverage=1.0,
            max_sentence_length=2**30,
            num_threads=_THREADS,
            minloglevel=2,
        )
    finally:
        if raised:
            raise raised[0] from None
    return LosslessTokenizer(model.getvalue())


def _recording(lines: Iterable[str], raised: list[BaseException]) -> Iterator[str]:
    """Yield the lines, and append any exception that interrupts them, even KeyboardInterrupt, to `raised`.

    SentencePiece replaces the exception by a RuntimeError without a cause.
    """
    try:
        yield from lines
    except GeneratorExit:  # SentencePiece has stopped by itself
        raise
    except BaseException as error:
        raised.append(error)
        raise


def _left_out(alphabet: Mapping[str, int], limit: int) -> set[str]:
    """Return the characters that get no piece: all but the `limit` most frequent ones, and two reserved ones.

    They are spelled in bytes; a script with many signs would leave no merges in a small vocabulary.
    """
    by_count = sorted(alphabet, key=lambda character: (-alphabet[character], character))
    return {*by_count[limit:], *_OWN_SIGNS}


def _training_lines(lines: Iterable[str], replaced: set[str]) -> Iterator[str]:
    """Yield the lines for training, with spaces for characters that get no piece, so that no piece spans them."""
    # for reserved and control characters, a pattern is faster than a table; there are too many rare characters for one
    table = {ord(character): " " for character in replaced - _OWN_SIGNS}
    for line in lines:
        text = _NO_PIECE.sub(" ", line)
        yield f" {text.translate(table) if table else text}"
