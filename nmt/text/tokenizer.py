"""SentencePiece tokenizers: the interface of all, and those that `nmt prepare` trains.

The special ids are in `nmt.text.ids`. Tags, which precede a source, have the ids after the last piece. SentencePiece
does not know them, so text never becomes a tag.

A `LosslessTokenizer` is BPE without normalisation, which preserves white space. Ids 20-275 are the 256 bytes, which
spell every character without a piece; then come the learned pieces. Three additions to SentencePiece:

* White space, invisible characters and normal forms that have no piece are read as their usual equivalents, since bytes
  of rare characters are hardly trained; see `nmt.text.reading`.
* It writes a space as U+2581, so a U+2581 of the text would be decoded as a space. Here that character is always
  spelled in its three bytes.
* A line break in a translation would shift all lines after it. Control characters (Unicode category Cc without the
  tab) are therefore replaced by spaces, in encoding and in decoding.
"""

from __future__ import annotations

import difflib
import io
import itertools
import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece

from nmt.console import printable
from nmt.errors import DataError, UnsafeFileError
from nmt.files.read import DOCUMENT_BYTES, fingerprint_of, read_regular
from nmt.spelling import did_you_mean
from nmt.text.ids import (
    BOS,
    EOS,
    FIRST_RESERVED,
    N_RESERVED,
    N_SPECIAL,
    PAD,
    SEPARATOR,
    UNK,
)
from nmt.text.letters import write
from nmt.text.reading import Reading
from nmt.text.settings import TokenizerKind

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""A control character: Unicode category Cc without the tab."""


def is_blank(line: str) -> bool:
    """Return whether a line has only white space and invisible characters (Unicode categories Cc and Cf)."""
    return not line[:1].isalnum() and all(
        character.isspace() or unicodedata.category(character) in ("Cc", "Cf") for character in line
    )


SPACE = "\u2581"  # how SentencePiece writes a space
_OWN_SIGNS = {SPACE, "\u2585"}  # U+2585 is how it marks an unknown character in training
_NO_PIECE = re.compile(rf"{CONTROL.pattern}|[{''.join(sorted(_OWN_SIGNS))}]")
_SPACE_IDS = [N_SPECIAL + byte for byte in SPACE.encode()]
SPECIAL_NAMES = ["<pad>", "<unk>", "<s>", "</s>", *(f"<reserved_{i}>" for i in range(N_RESERVED))]
_PROBE = " a\t é  \u2581\U0001f600 "
THREADS = 4


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
    """Whether every line is restored from its ids as it is read, up to control characters."""
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
    is_exact = False
    """Whether white space and invisible characters without a piece are encoded, too; see `exactly`."""
    model: bytes
    """The serialised SentencePiece model."""
    n_pieces: int
    """The number of special pieces, bytes and learned pieces; larger ids are tags."""

    _reading: Callable[[], Reading]
    """Makes the reading when it is first needed; copies of a tokenizer share it."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of pieces: ids are 0 … len - 1."""

    def encode(self, line: str) -> list[int]:
        """Encode a line, without special ids; an empty line has none."""
        return self.encode_all([line])[0]

    @abstractmethod
    def encode_all(self, lines: Sequence[str], to: str | None = None, threads: int = THREADS) -> list[list[int]]:
        """Encode lines in parallel, without special ids.

        to: the language whose tag precedes each line. None: the tokenizer's own, or else the language whose tag
        begins the line, if the tokenizer has tags; empty: none. Raises DataError for a tag that the vocabulary lacks.
        """

    @abstractmethod
    def encode_parts(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Encode parts of lines, without control characters and without a space added before the first word."""

    @abstractmethod
    def is_known(self, character: str) -> bool:
        """Return whether the vocabulary has pieces for a character, other than bytes."""

    def _make_reading(self) -> Reading:
        pieces = (piece.replace(SPACE, " ") for piece in self.pieces(range(self.first_learned, self.n_pieces)))
        return Reading(pieces, self.is_known)

    def as_read(self, text: str) -> str:
        """Return a text with the forms of letters, the white space and the normal form that are encoded."""
        if text.isascii() and "\t" not in text:
            return text
        reading = self._reading()
        read = reading.canonical if self.is_exact else reading
        return read(write(text, self.letters))

    def exactly(self) -> Tokenizer:
        """Return a tokenizer for text that a translation must contain, in which white space and invisible characters
        are not replaced."""
        other = copy(self)
        other.is_exact = True
        return other

    def begins_word(self) -> list[bool]:
        """Return for each piece of the vocabulary whether it begins a word, that is, starts with a space."""
        return [piece.startswith(SPACE) for piece in self.pieces(range(len(self)))]

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to a line. Special ids are skipped."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Convert ids to pieces as SentencePiece writes them: U+2581 for a space, `<0x41>` for a byte."""

    def extends(self, other: Tokenizer) -> bool:
        """Return whether this tokenizer has all pieces of another one, in the same order, perhaps among others."""
        pieces = iter(self.pieces(range(self.n_pieces)))
        return type(self) is type(other) and all(piece in pieces for piece in other.pieces(range(other.n_pieces)))

    def grew_from(self, other: Tokenizer) -> bool:
        """Return whether this tokenizer has all pieces of another one, and further ones."""
        return self.n_pieces > other.n_pieces and self.extends(other)

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
        never = {*range(N_SPECIAL), *range(self.n_pieces, len(self))} - {EOS}
        if joins:
            never.remove(SEPARATOR)
        return sorted(never)

    def tag_ids(self, names: Sequence[str] | None) -> list[int]:
        """Return the ids of tags. Raises DataError for a tag that the vocabulary lacks."""
        return [known_id(name, self.tags, "tag") for name in names or ()]

    def tagged(self, line: str, to: str | None = None) -> tuple[str, str]:
        """Return the target language of a line, empty if it has no tag, and its text; for `to` see `encode_all`."""
        return to or "", line

    def tag(self, language: str) -> int:  # noqa: ARG002 (of those that have several)
        """Return the id of the tag of a target language. Raises DataError if there is none."""
        raise DataError("to: this model has no choice of target languages by tags, such as >>deu<<")


def known_id(name: str, ids: Mapping[str, int], kind: str) -> int:
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
        self._reading = cache(self._make_reading)
        try:
            self._processor = processor_of(model)
            self.n_pieces = int(self._processor.get_piece_size())
            self.tags = {name: self.n_pieces + i for i, name in enumerate(tags)}
            is_ours = self._has_expected_pieces() and self.decode(self._encoded([f" {_PROBE}"])[0]) == _PROBE
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
        model = self._processor
        ids = list(range(self.n_pieces))
        pieces = model.id_to_piece(ids)
        end = N_SPECIAL + 256
        kinds = [*zip(model.is_unknown(ids), model.is_control(ids), model.is_byte(ids), strict=True)]
        expected = [(False, True, False)] * N_SPECIAL + [(False, False, True)] * 256
        expected[UNK] = (True, False, False)
        expected += [(False, False, False)] * (self.n_pieces - end)
        has_bytes = pieces[N_SPECIAL:end] == [f"<0x{byte:02X}>" for byte in range(256)]
        return kinds == expected and has_bytes and not any(SPACE in piece[1:] for piece in pieces)

    def __len__(self) -> int:
        return self.n_pieces + len(self.tags)

    def encode_all(self, lines: Sequence[str], to: str | None = None, threads: int = THREADS) -> list[list[int]]:
        if to:
            self.tag(to)  # raises that there is none
        # with a space before it, the first word has the same pieces as within a line; decode removes the space
        return self.encode_parts([f" {CONTROL.sub(' ', line)}" if line else "" for line in lines], threads)

    def is_known(self, character: str) -> bool:
        return int(self._processor.piece_to_id(character)) >= self.first_learned

    def encode_parts(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        return self._encoded([*map(self.as_read, texts)], threads)

    def _encoded(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Encode texts as they are."""
        if not any(SPACE in text for text in texts):
            return list(self._processor.encode(texts, num_threads=threads))
        parts = [text.split(SPACE) for text in texts]
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
        tags = {i: f">>{name}<<" for name, i in self.tags.items()}
        return [tags.get(int(i)) or str(self._processor.id_to_piece(int(i))) for i in ids]


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
    most = vocab_size - N_SPECIAL - 256
    if kind == "bpe":  # a script with many signs would leave no merges in a small vocabulary
        most //= 2
    rare = sorted(alphabet, key=lambda character: (-alphabet[character], character))[most:]  # spelled in bytes
    if not any(_NO_PIECE.sub("", character).strip() for character in alphabet):
        raise DataError("no text to learn a vocabulary from")
    model = io.BytesIO()
    raised: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_recording(_training_lines(lines, rare), raised),
            model_writer=model,
            model_type=kind,
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            control_symbols=SPECIAL_NAMES[FIRST_RESERVED:],
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            character_coverage=1.0,
            max_sentence_length=2**30,
            num_threads=THREADS,
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


def _training_lines(lines: Iterable[str], rare: Iterable[str]) -> Iterator[str]:
    """Yield the lines for training, with spaces for characters that get no piece, so that no piece spans them."""
    # for reserved and control characters, a pattern is faster than a table; there are too many rare characters for one
    table = {ord(character): " " for character in rare}
    for line in lines:
        text = _NO_PIECE.sub(" ", line)
        if table:
            text = text.translate(table)
        yield f" {text}"
