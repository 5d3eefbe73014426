"""Vocabularies that grow for new languages: letters, learned pieces and tags.

All pieces of the vocabulary keep their text, and the segmentation of text in other languages stays as it was: a new
letter is a piece of its own, and new pieces are merged after all old ones (Imamura and Sumita, 2022).
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from nmt.console import listed, printable
from nmt.errors import DataError
from nmt.languages.directions import TO, name_in_model
from nmt.text.ids import UNK
from nmt.text.imported import ImportedTokenizer, ImportedVocabulary
from nmt.text.settings import TokenizerKind
from nmt.text.tokenizer import SPACE, LosslessTokenizer, Tokenizer, processor_of, train_tokenizer
from nmt.text.vocabularies import Tokenizers

_NORMAL = ModelProto.SentencePiece.NORMAL
_SHOWN = 40  # letters
_BPE = 2  # of TrainerSpec.ModelType in sentencepiece_model.proto


def with_languages(tokenizers: Tokenizers, languages: Sequence[str], like: Mapping[str, str]) -> Tokenizers:
    """Return the tokenizers of a public model for other languages, which may be new to it.

    like: for new languages, a language of the model; see `tokenizer.like`. Raises DataError for a language that the
    model lacks, unless it is new.
    """
    vocabulary = tokenizers.imported
    assert vocabulary is not None and vocabulary.languages, "a model with several languages"
    tags = dict(vocabulary.languages)
    added = []
    for language in languages:
        if language in tags:
            continue
        if language not in like:
            tags[language] = _tag_of(language, tags, "; see docs/new-language.md if it is new")
            continue
        related = _tag_of(like[language], tags)
        tags[language] = related if vocabulary.has_fixed_tags else language
        if not vocabulary.has_fixed_tags:
            added.append(language)
    if tags == vocabulary.languages:
        return tokenizers.of_languages(languages)
    if taken := {*added}.intersection(vocabulary.pieces[0]):
        raise DataError(f"{min(taken)!r} is a piece of the vocabulary, and cannot be the name of a new language")
    grown = vocabulary.with_pieces([added]).model_copy(update={"languages": tags})
    model = next(iter(tokenizers.by_language.values())).model
    return _of(tokenizers, grown, dict.fromkeys(languages, model))


def _tag_of(language: str, tags: Mapping[str, str], advice: str = "") -> str:
    """Return the tag of a language by any of its codes. Raises DataError if a public model lacks the language.

    tags: the tags by the model's own names, and then by those that a run has given to the same languages.
    """
    if language in tags:
        return tags[language]
    names = {tag: name for name, tag in reversed([*tags.items()])}
    return tags[name_in_model(language, names.values(), advice)]


def borrowed_tags(tokenizers: Tokenizers) -> dict[str, str]:
    """Return the languages of the tags of M2M-100 that languages use which it does not know, by these languages."""
    vocabulary = tokenizers.imported
    if vocabulary is None or not vocabulary.has_fixed_tags:
        return {}
    tags = vocabulary.languages or {}
    names = [tag.strip("_") for tag in tags.values()]
    borrowed = {}
    for language in tokenizers.languages:
        try:
            name_in_model(language, names)
        except DataError:
            borrowed[language] = tags[language].strip("_")
    return borrowed


def grown(
    tokenizers: Tokenizers,
    new: Sequence[str],
    lines_of: Callable[[str], Iterable[str]],
    n: int,
    kind: TokenizerKind,
) -> tuple[Tokenizers, list[str]]:
    """Return the tokenizers of a public model with the letters and pieces that it lacks, and messages that name them.

    new: languages that it does not know, all of whose letters become pieces. lines_of: returns the text of a language.
    n: the number of pieces for which there is room; the most frequent letters of other languages come first, and then
    pieces that are learned from the new languages.
    """
    missing = {}
    for language in tokenizers.by_language:
        is_read = n or language in new  # the text of known languages may be large
        missing[language] = _imported(tokenizers[language]).lacking(lines_of(language) if is_read else ())
    letters = [*dict.fromkeys(chain.from_iterable(missing[language] for language in new))]
    counts = sum(missing.values(), Counter[str]())
    others = [letter for letter, _ in counts.most_common() if letter not in letters]
    letters += others[: max(0, n - len(letters))]
    messages = []
    if letters:
        messages.append(f"new pieces for letters that the vocabulary lacked: {printable(listed(letters, _SHOWN))}")
    learned: list[str] = []
    room = max(0, n - len(letters))
    for language in new:
        tokenizer = _imported(tokenizers[language])
        known = {*tokenizer.pieces(range(tokenizer.n_pieces)), *letters, *learned}
        some = room // len(new)
        candidates = _learned(map(tokenizer.normalized, lines_of(language)), some, kind) if some else []
        learned += _spelled_by(candidates, known)[:some]
    if learned:
        messages.append(f"{len(learned):,} new pieces learned from {listed(new)}")
    vocabulary = tokenizers.imported
    assert vocabulary is not None, "a public model"
    models = {}
    added: list[dict[str, None]] = [{} for _ in vocabulary.pieces]
    for side, (language, counts) in enumerate(missing.items()):
        # languages of a model of several have one segmenter
        pieces = [*letters, *learned] if vocabulary.languages else [letter for letter in letters if letter in counts]
        models[language] = _extended(tokenizers[language].model, pieces)
        added[min(side, len(added) - 1)].update(dict.fromkeys(pieces))
    return _of(tokenizers, vocabulary.with_pieces([[*new] for new in added]), models), messages


def _imported(tokenizer: Tokenizer) -> ImportedTokenizer:
    assert isinstance(tokenizer, ImportedTokenizer)
    return tokenizer


def _of(tokenizers: Tokenizers, vocabulary: ImportedVocabulary, models: Mapping[str, bytes]) -> Tokenizers:
    """Return tokenizers with another vocabulary and other models."""
    by_language = Tokenizers.of_import(vocabulary, models).by_language
    return replace(tokenizers, imported=vocabulary, by_language=by_language)


def extended(tokenizer: LosslessTokenizer, lines: Iterable[str], n_more: int, kind: TokenizerKind) -> LosslessTokenizer:
    """Return a tokenizer that has up to `n_more` further pieces, learned from lines of new languages.

    The pieces of the tokenizer keep their ids, and are merged before the new ones; tags follow the new pieces. Raises
    DataError if the lines have no text.
    """
    known = {*tokenizer.pieces(range(tokenizer.n_pieces))}
    learned = _learned(lines, n_more, kind)
    letters = [piece for piece in learned if len(piece) == 1 and piece not in known][:n_more]
    merges = _spelled_by(learned, known | {*letters})[: n_more - len(letters)]
    model = _extended(tokenizer.model, [*merges, *letters])
    return LosslessTokenizer(model, tags=[*tokenizer.tags])


def _learned(lines: Iterable[str], n: int, kind: TokenizerKind) -> list[str]:
    """Return pieces that a vocabulary of their own has for lines, some of which another vocabulary may have."""
    first = LosslessTokenizer.first_learned
    learned = train_tokenizer(lines, first + 2 * n, kind=kind)
    return learned.pieces(range(first, learned.n_pieces))


def _spelled_by(pieces: Iterable[str], known: set[str]) -> list[str]:
    """Return the pieces that are not known, but consist of known letters."""
    return [piece for piece in pieces if len(piece) > 1 and piece not in known and known.issuperset(piece)]


def _extended(model: bytes, pieces: Iterable[str]) -> bytes:
    """Return a SentencePiece model with further pieces, which are merged after all others, the first of them first."""
    proto = ModelProto.FromString(model)
    known = {piece.piece for piece in proto.pieces}
    score = min(piece.score for piece in proto.pieces)
    for piece in pieces:
        if piece not in known:
            if proto.trainer_spec.model_type == _BPE:  # in a unigram model, scores are log-probabilities
                score = min(score - 1, float(-len(proto.pieces)))
            proto.pieces.add(piece=piece, score=score, type=_NORMAL)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return bytes(proto.SerializeToString())


@dataclass(frozen=True)
class StartingRows:
    """The rows of a trained model's table with which a table with more pieces starts."""

    known: Sequence[int]
    """The row of each of our pieces in the trained table; 0 for new pieces."""
    new: Mapping[int, Sequence[int]]
    """For each row of a new piece or tag, the rows of the trained table whose mean it starts as; none for a tag that is
    like no other."""

    @classmethod
    def of(cls, ours: Tokenizers, theirs: Tokenizers, language: str, like: Mapping[str, str]) -> StartingRows:
        """Return the rows by the names of the pieces.

        theirs: the tokenizers of the trained model. language: that of the table, or one of them if they share it. like:
        see `tokenizer.like`.
        """
        our_tokenizer = ours[language]
        their_tokenizer = theirs.by_language.get(language) or next(iter(theirs.by_language.values()))
        their_pieces = their_tokenizer.pieces(range(len(their_tokenizer)))
        known = {piece: row for row, piece in enumerate(their_pieces)}
        pieces = our_tokenizer.pieces(range(len(our_tokenizer)))
        texts = [piece for piece in pieces[: our_tokenizer.n_pieces] if piece not in known]
        starts = dict(zip(texts, _spellings(their_tokenizer, texts), strict=True))
        for name, other in like.items():
            tag = _tag(theirs, other)
            if tag in known:
                starts.setdefault(_tag(ours, name), [known[tag]])
        new = {row: starts.get(piece, []) for row, piece in enumerate(pieces) if piece not in known}
        return cls([known.get(piece, 0) for piece in pieces], new)


def _tag(tokenizers: Tokenizers, language: str) -> str:
    """Return the piece of the tag of a language. Raises DataError if a public model lacks the language."""
    vocabulary = tokenizers.imported
    if vocabulary is None or not vocabulary.languages:
        return f">>{TO}{language}<<"
    return _tag_of(language, vocabulary.languages)


def _spellings(tokenizer: Tokenizer, pieces: Sequence[str]) -> list[list[int]]:
    """Return the ids that spell each piece; a letter that the vocabulary lacks is spelled as it is without marks."""
    texts = [piece.replace(SPACE, " ") for piece in pieces]
    if isinstance(tokenizer, LosslessTokenizer):
        return tokenizer.encode_parts(texts)
    assert isinstance(tokenizer, ImportedTokenizer)
    proto = ModelProto.FromString(tokenizer.model)
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    processor = processor_of(proto.SerializeToString())
    spelled = []
    for text in texts:
        plain = "".join(c if tokenizer.is_known(c) else unicodedata.normalize("NFD", c)[0] for c in text)
        spelled.append(tokenizer.numbered(processor.encode(plain, out_type=str)) or [UNK])
    return spelled
