"""Lossless SentencePiece BPE: no normalisation, white space preserved, byte fallback.

Ids 0-3 are padding, unknown, `<s>` and `</s>`; 4-6 mark terms in a source (`nmt.text.inline`); 7 stands for masked
pieces (`nmt.data.masking`); 8 separates two lines of one sequence; 9-19 are reserved for later uses (language tags);
20-275 are the 256 bytes, which spell every character without a piece; then come the learned pieces.

Two additions to SentencePiece:

* It writes a space as U+2581, so a U+2581 of the text would be decoded as a space. Here that character is always
  spelled in its three bytes.
* A line break in a translation would shift all lines after it. Control characters (Unicode category Cc without the
  tab) are therefore replaced by spaces, in encoding and in decoding.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from nmt.config.data import LABEL
from nmt.errors import DataError, UnsafeFileError
from nmt.files.read import DOCUMENT_BYTES, read_regular
from nmt.files.write import refuse_links, write_file
from nmt.layout import TokenizerDir
from nmt.text.labels import Labels
from nmt.text.profile import Profiles

PAD, UNK, BOS, EOS = 0, 1, 2, 3
FIRST_RESERVED, N_RESERVED = 4, 16
N_SPECIAL = FIRST_RESERVED + N_RESERVED
MASK, SEPARATOR = 7, 8
FIRST_LEARNED = N_SPECIAL + 256
"""Smaller ids are special pieces and bytes."""

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""A control character: Unicode category Cc without the tab."""


def is_blank(line: str) -> bool:
    """Whether a line has only white space and control characters, which the tokenizer replaces by spaces."""
    return not CONTROL.sub(" ", line).strip()


_SPACE = "\u2581"  # how SentencePiece writes a space
_OWN_SIGNS = {_SPACE, "\u2585"}  # U+2585 is how it marks an unknown character in training
_NO_PIECE = re.compile(rf"{CONTROL.pattern}|[{''.join(sorted(_OWN_SIGNS))}]")
_SPACE_IDS = [N_SPECIAL + byte for byte in _SPACE.encode()]
_PROBE = " a\t é  \u2581\U0001f600 "
_THREADS = 4


class Tokenizer:
    """One vocabulary: encodes lines to ids and decodes them. Created by `Tokenizer.load` or `train_tokenizer`."""

    def __init__(self, model: bytes) -> None:
        """`model`: a serialised SentencePiece model. Raises DataError unless `train_tokenizer` could have made it."""
        self._model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor()
            self._processor.LoadFromSerializedProto(model)
            is_ours = self._has_expected_pieces() and self.decode(self.encode(_PROBE)) == _PROBE
        except (RuntimeError, ValueError, UnicodeDecodeError) as error:
            raise DataError("not a SentencePiece model") from error
        if not is_ours:
            raise DataError("a SentencePiece model that nmt did not train: decoding does not restore the encoded text")
        self.fingerprint = hashlib.sha256(model).hexdigest()[:16]

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Load a model file. Raises DataError if it is missing or not a tokenizer of `nmt`."""
        try:
            return cls(read_regular(path, DOCUMENT_BYTES))
        except UnsafeFileError:
            raise
        except OSError as error:
            raise DataError(f"{path}: the tokenizer cannot be read: {error.strerror}") from error
        except DataError as error:
            raise DataError(f"{path}: {error}") from error

    def save(self, path: Path) -> None:
        """Write the model file. Raises OSError."""
        write_file(path, self._model)

    def _has_expected_pieces(self) -> bool:
        """Whether special pieces and bytes have the ids that `train_tokenizer` gives them, and no other is special.

        Raises UnicodeDecodeError for a piece that is not UTF-8, which would otherwise fail only in use.
        """
        model, ids = self._processor, list(range(len(self)))
        pieces, end = model.id_to_piece(ids), N_SPECIAL + 256
        kinds = list(zip(model.is_unknown(ids), model.is_control(ids), model.is_byte(ids), strict=True))
        wanted = [(i == UNK, i != UNK and i < N_SPECIAL, N_SPECIAL <= i < end) for i in ids]
        return kinds == wanted and pieces[N_SPECIAL:end] == [f"<0x{byte:02X}>" for byte in range(256)]

    def __len__(self) -> int:
        """Return the number of pieces: ids are 0 … len - 1."""
        return int(self._processor.get_piece_size())

    def encode(self, line: str) -> list[int]:
        """Encode a line, without special ids; an empty line has none."""
        return self.encode_all([line])[0]

    def encode_all(self, lines: Sequence[str]) -> list[list[int]]:
        """Encode lines in parallel, without special ids."""
        # with a space before it, the first word has the same pieces as within a line; decode removes the space
        return self._encode([f" {CONTROL.sub(' ', line)}" if line else "" for line in lines], _THREADS)

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Encode words without spaces and control characters, each with a space before it; the empty word is a space.

        If `splits_at_spaces`, the ids of a line are those of its words.
        """
        return self._encode([f" {word}" for word in words], 1)

    @property
    def splits_at_spaces(self) -> bool:
        """Whether no piece spans a space; so it is if SentencePiece has learned them as in `train_tokenizer`."""
        return not any(_SPACE in piece[1:] for piece in self.pieces(range(len(self))))

    def begins_word(self) -> list[bool]:
        """Return whether each piece of the vocabulary begins a word: whether it starts with a space."""
        return [piece.startswith(_SPACE) for piece in self.pieces(range(len(self)))]

    def _encode(self, texts: Sequence[str], threads: int) -> list[list[int]]:
        """Encode texts, U+2581 in bytes."""
        if not any(_SPACE in text for text in texts):
            return list(self._processor.encode(texts, num_threads=threads))
        plain = [text.split(_SPACE) if _SPACE in text else [text] for text in texts]
        parts = [part for parts_of_line in plain for part in parts_of_line]
        encoded = iter(self._processor.encode(parts, num_threads=threads))
        result = []
        for parts_of_line in plain:
            ids = list(next(encoded))
            for _ in parts_of_line[1:]:
                ids += _SPACE_IDS
                ids += next(encoded)
            result.append(ids)
        return result

    def encode_inner(self, text: str) -> list[int]:
        """Encode a part of a line, without control characters and without the space that precedes the first word."""
        return self._encode([text], 1)[0]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to a line. Special ids are skipped, bytes that are not UTF-8 become U+FFFD."""
        text = str(self._processor.decode([int(i) for i in ids if i >= N_SPECIAL]))
        return CONTROL.sub(" ", text.removeprefix(" "))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Convert ids to pieces as SentencePiece writes them: U+2581 for a space, `<0x41>` for a byte."""
        return [str(self._processor.id_to_piece(int(i))) for i in ids]


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of a language pair, by language; the same object twice if the vocabulary is joint."""

    by_language: Mapping[str, Tokenizer]
    joint: bool
    labels: Labels | None = None
    """What the target is, if that is no language but a label."""
    profiles: Profiles | None = None
    """What both languages look like; not part of the fingerprint. None in older directories."""

    def __getitem__(self, language: str) -> Tokenizer:
        return self.by_language[language]

    @property
    def languages(self) -> tuple[str, ...]:
        """Both languages in alphabetical order; LABEL is one of them if there are labels."""
        return tuple(sorted([*self.by_language, *([] if self.labels is None else [LABEL])]))

    def side(self, language: str) -> Tokenizer | Labels:
        """Return what encodes the lines of a language, or the labels."""
        return self.labels if language == LABEL and self.labels is not None else self[language]

    @property
    def sizes(self) -> dict[str, int]:
        """Number of pieces of each language's vocabulary, and of labels."""
        return {language: len(self.side(language)) for language in self.languages}

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that identify the languages and their vocabularies."""
        parts = [f"{language}={self.side(language).fingerprint}" for language in self.languages]
        return hashlib.sha256(" ".join([*parts, f"joint={self.joint}"]).encode()).hexdigest()[:16]

    @classmethod
    def load(cls, directory: TokenizerDir, languages: Sequence[str]) -> Tokenizers:
        """Load the tokenizers of `languages`. Raises DataError if there are none, or for other languages."""
        labels = Labels.load(directory.labels) if LABEL in languages else None
        profiles = Profiles.load(directory.profiles)
        languages = sorted(language for language in languages if language != LABEL)
        if directory.joint.exists():
            joint = Tokenizer.load(directory.joint)
            return cls(dict.fromkeys(languages, joint), True, labels, profiles)
        if not directory.path.is_dir() or not any(directory.path.glob("*.model")):
            raise DataError(f"{directory.path}: no tokenizer here")
        names = sorted(path.stem for path in directory.path.glob("*.model"))
        if names != languages:
            wanted = " and ".join(languages)
            raise DataError(f"{directory.path}: vocabularies for {' and '.join(names)}, expected {wanted}")
        return cls({name: Tokenizer.load(directory.language(name)) for name in names}, False, labels, profiles)

    def save(self, directory: TokenizerDir) -> None:
        """Write the model files, creating the directory. Raises UnsafeFileError if it is a link, and OSError."""
        refuse_links([directory.path])
        directory.path.mkdir(parents=True, exist_ok=True)
        if self.labels is not None:
            self.labels.save(directory.labels)
        if self.profiles is not None:
            self.profiles.save(directory.profiles)
        if self.joint:
            next(iter(self.by_language.values())).save(directory.joint)
        else:
            for language, tokenizer in self.by_language.items():
                tokenizer.save(directory.language(language))


def train_tokenizer(lines: Iterable[str], vocab_size: int, alphabet: Mapping[str, int] | None = None) -> Tokenizer:
    """Learn a BPE vocabulary of at most `vocab_size` pieces; fewer if there are no more merges.

    `alphabet`: character counts of the lines, if known; without it, `lines` is held in memory to count them. The
    result depends on the lines and `vocab_size` only.
    Raises DataError if the lines have no text. BPE: Sennrich et al., 2016, arXiv:1508.07909.
    """
    if alphabet is None:
        lines = list(lines)
        alphabet = Counter(character for line in lines for character in line)
    replaced = _left_out(alphabet, (vocab_size - N_SPECIAL - 256) // 2)
    if not any(_NO_PIECE.sub("", character).strip() for character in alphabet):
        raise DataError("no text to learn a vocabulary from")
    model = io.BytesIO()
    raised: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_recording(_training_lines(lines, replaced), raised),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            control_symbols=[f"<reserved_{i}>" for i in range(N_RESERVED)],
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
    return Tokenizer(model.getvalue())


def _recording(lines: Iterable[str], raised: list[BaseException]) -> Iterator[str]:
    """Yield the lines, and record in `raised` an exception raised meanwhile, even by Ctrl-C.

    SentencePiece replaces it by a RuntimeError without the cause.
    """
    try:
        yield from lines
    except GeneratorExit:  # SentencePiece has stopped by itself
        raise
    except BaseException as error:
        raised.append(error)
        raise


def _left_out(alphabet: Mapping[str, int], limit: int) -> set[str]:
    """Return the characters without a piece: all but the `limit` most frequent, and two that SentencePiece reserves.

    They are spelled in bytes; a script with many signs would leave no merges in a small vocabulary.
    """
    by_count = sorted(alphabet, key=lambda character: (-alphabet[character], character))
    return {*by_count[limit:], *_OWN_SIGNS}


def _training_lines(lines: Iterable[str], replaced: set[str]) -> Iterator[str]:
    """Yield the lines as encoded, with a space for each character without a piece, so that no piece spans it."""
    # for reserved and control characters, a pattern is faster than a table; there are too many rare characters for one
    table = {ord(character): " " for character in replaced - _OWN_SIGNS}
    for line in lines:
        text = _NO_PIECE.sub(" ", line)
        yield f" {text.translate(table) if table else text}"
