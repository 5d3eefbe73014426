"""The tokenizers of imported models.

An `ImportedTokenizer` segments with the SentencePiece model of a public model, which normalises text, and numbers the
pieces by the vocabulary of that model: its pieces follow from id 20 on, in their original order. So does the tokenizer
of `tokenizer.model`, whose vocabulary is the SentencePiece model's own, with its bytes first.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cache
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from nmt.errors import DataError
from nmt.files.document import Document
from nmt.files.read import fingerprint_of
from nmt.languages.directions import DIRECTION, TO
from nmt.text.ids import EOS, N_SPECIAL, PAD, UNK
from nmt.text.tokenizer import CONTROL, SPACE, SPECIAL_NAMES, THREADS, Tokenizer, known_id, processor_of

_TAG = re.compile(">>(.+?)<<", re.DOTALL)  # at the start of a source
_CUSTOM_TAG = re.compile(">>[^=]+=[^=]+<<")


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
    """The tags of languages, by the names of each, if every source and target begins with its language's tag."""

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
        spec = proto.trainer_spec
        kinds = ModelProto.SentencePiece
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
        first: list[int | None] = [None] * N_SPECIAL
        for i, piece in special.items():
            first[i] = original.index(piece)
        tags = {*(self.languages or {}).values()}  # the last ids, since they stand for no text
        learned = [i for i, piece in enumerate(original) if piece not in special.values()]
        return [*first, *sorted(learned, key=lambda i: original[i] in tags)]

    @property
    def has_fixed_tags(self) -> bool:
        """Whether the tags of languages are those of M2M-100, whose tokenizer has a fixed list of them; NLLB's takes
        others."""
        return bool(self.languages) and all(tag.startswith("__") for tag in (self.languages or {}).values())

    def with_tags(self, names: Sequence[str]) -> ImportedVocabulary:
        """Return a vocabulary with tags after the last piece of the source.

        Raises DataError if the vocabulary has tags of languages.
        """
        if self.languages:
            raise DataError(f"a vocabulary with tags of languages takes no others, such as {names[0]}")
        return self.with_pieces([[f">>{name}<<" for name in names]])

    def with_pieces(self, added: Sequence[Sequence[str]]) -> ImportedVocabulary:
        """Return a vocabulary with further pieces of the source and, if there are two lists, of the target.

        They follow all others. But pieces of text precede tags that `with_tags` has added, all precede the tags of
        M2M-100, whose tokenizer puts these last, and padding at the end of a joint vocabulary, since the converter of
        CTranslate2 removes the last piece of one.
        """
        pieces = [*self.pieces]
        for side, more in enumerate(added):
            known = pieces[side]
            end = len(known)
            if self.has_fixed_tags:
                end = min(map(known.index, (self.languages or {}).values()))
            elif known[-1] == self.padding and len(pieces) == 1:
                end -= 1
            if not any(map(_CUSTOM_TAG.fullmatch, more)):  # a piece of text
                while _CUSTOM_TAG.fullmatch(known[end - 1]):
                    end -= 1
            pieces[side] = [*known[:end], *more, *known[end:]]
        return self.model_copy(update={"pieces": pieces})


class ImportedTokenizer(Tokenizer):
    """The tokenizer of one side of an imported model: its segmenter, and the ids of its vocabulary.

    The segmenter normalises text, so that a line is not always restored. A piece that the vocabulary lacks is unknown.
    """

    is_lossless = False

    def __init__(self, model: bytes, vocabulary: ImportedVocabulary, side: Literal[0, 1]) -> None:
        """model: a serialised SentencePiece model. Raises DataError if it is none."""
        self.model = model
        self._reading = cache(self._make_reading)
        if side == 0:
            self.to = vocabulary.to
        original = vocabulary.original(side)
        learned = [original[i] for i in vocabulary.original_rows(side)[N_SPECIAL:] if i is not None]
        self._id_of = {piece: i for i, piece in enumerate(learned, N_SPECIAL)}
        self.n_pieces = N_SPECIAL + len(learned)
        self._pieces = [*SPECIAL_NAMES, *learned]
        for i, name in enumerate(SPECIAL_NAMES):
            if name in self._id_of:
                self._pieces[i] = f"{name} (nmt)"
        try:
            self._processor = processor_of(model)
            all_ids = list(range(self._processor.get_piece_size()))
            known = {*self._processor.id_to_piece(all_ids)}  # raises UnicodeDecodeError for a piece that is not UTF-8
        except (RuntimeError, ValueError, UnicodeDecodeError) as error:
            raise DataError("not a SentencePiece model") from error
        # the segmenter decodes a piece that it lacks as it is
        self._written = [piece if piece in known else piece.replace(SPACE, " ") for piece in self._pieces]
        self.first_learned = N_SPECIAL + sum(self._processor.is_byte(all_ids))
        self.n_pieces -= len({*(vocabulary.languages or {}).values()})
        self.tags = {}
        if side == 0:
            tags = [*itertools.takewhile(_CUSTOM_TAG.fullmatch, reversed(learned))][::-1]
            self.tags = self._named(tags)
            self.n_pieces -= len(tags)
            self.target_languages = self._named(filter(_TAG.fullmatch, self._pieces[N_SPECIAL : self.n_pieces]))
        # named one by one, so that a later field does not change the fingerprints of existing runs
        names = (vocabulary.direction, vocabulary.padding, vocabulary.unknown, vocabulary.end, vocabulary.to)
        parts = [model, json.dumps([*names, vocabulary.pieces]).encode(), bytes([side])]
        self.fingerprint = fingerprint_of(b"".join(hashlib.sha256(part).digest() for part in parts))

    def _named(self, tags: Iterable[str]) -> dict[str, int]:
        """Return the ids of tags by their names."""
        return {tag[2:-2]: self._id_of[tag] for tag in tags}

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
        if to is None:
            to = self.to
        if to is None and self.target_languages:
            match = _TAG.match(line)
            if match is not None and "=" not in match[1]:
                return match[1], line[match.end() :]
        return to or "", line

    def tag(self, language: str) -> int:
        known = self.target_languages
        return known_id(language, known, "target language") if known else super().tag(language)

    def encode_all(self, lines: Sequence[str], to: str | None = None, threads: int = THREADS) -> list[list[int]]:
        divided = [self.tagged(line, to) for line in lines]
        encoded = self.encode_parts([text for _, text in divided], threads)
        for (language, _), ids in zip(divided, encoded, strict=True):
            if ids and language:
                ids.insert(0, self.tag(language))
            elif ids:
                ids[:0] = self.opening
        return encoded

    def tag_ids(self, names: Sequence[str] | None) -> list[int]:
        # the tag with which a translation opens says what the tag of the target language would
        names = names or ()
        if self.opening:
            names = [name for name in names if not name.startswith(TO)]
        return super().tag_ids(names)

    def is_known(self, character: str) -> bool:
        pieces = self._processor.encode(character, out_type=str)
        return all(i >= self.first_learned for i in self.numbered(pieces))  # neither unknown nor bytes

    def normalized(self, line: str) -> str:
        """Return a line as the segmenter normalises it before it is cut into pieces."""
        return str(self._processor.normalize(self.as_read(line))).replace(SPACE, " ").strip()

    def lacking(self, lines: Iterable[str]) -> Counter[str]:
        """Return the characters of lines that are unknown, with their counts, the most frequent first."""
        counts = Counter[str]()
        for line in lines:
            counts.update(self.normalized(line))
        unknown = {}
        for character, n in counts.most_common():
            if UNK in self.numbered(self._processor.encode(character, out_type=str)):
                unknown[character] = n
        return Counter(unknown)

    def encode_parts(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        texts = [*map(self.as_read, texts)]
        encoded = self._processor.encode(texts, out_type=str, num_threads=threads)
        return [*map(self.numbered, encoded)]

    def numbered(self, pieces: Sequence[str]) -> list[int]:
        """Return the ids of pieces of the segmenter."""
        return [self._id_of.get(piece, UNK) for piece in pieces]

    def spans(self, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the start and end in code points of the text of each id, of a text without a tag.

        `ids` are the ids of the text, perhaps truncated, perhaps after tags, whose spans are before the text.
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
        return bool(best[0].startswith(SPACE))  # else words do not get the space with which they begin

    def segmentations(self, text: str, n: int) -> list[tuple[list[int], float]]:
        """Return the `n` most probable segmentations of a text, or fewer, with their log-probabilities (nats).

        The segmenter must be a unigram model, and the text must consist of its pieces.
        """
        segmentations = []
        for ids in self._processor.nbest_encode(text, nbest_size=n):
            score = sum(map(self._processor.get_score, ids))
            segmentations.append((self.numbered(self._processor.id_to_piece(ids)), score))
        return segmentations

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to a line without space at its ends. Special ids are skipped."""
        pieces = [self._written[i] for i in ids if N_SPECIAL <= i < self.n_pieces]
        return CONTROL.sub(" ", self._processor.decode(pieces)).strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in ids]
