"""Vocabularies that grow for new languages: letters, learned pieces and tags.

All pieces of the vocabulary keep their text, and the segmentation of text in other languages stays as it was: a new
letter is a piece of its own, and new pieces are merged after all old ones (Imamura and Sumita, 2022).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from nmt.errors import DataError
from nmt.languages.directions import TO, name_in_model
from nmt.text.ids import UNK
from nmt.text.imported import ImportedTokenizer, ImportedVocabulary
from nmt.text.settings import TokenizerKind
from nmt.text.tokenizer import SPACE, LosslessTokenizer, Tokenizer, processor_of, train_tokenizer
from nmt.text.vocabularies import Tokenizers

_NORMAL = ModelProto.SentencePiece.NORMAL
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
            tags[language] = tags[name_in_model(language, tags, "; see docs/new-language.md if it is new")]
            continue
        related = tags[name_in_model(like[language], tags)]
        tags[language] = related if vocabulary.has_fixed_tags else language
        if not vocabulary.has_fixed_tags:
            added.append(language)
    if tags == vocabulary.languages:
        return tokenizers.of_languages(languages)
    if taken := {*added}.intersection(vocabulary.pieces[0]):
        raise DataError(f"{min(taken)!r} is a piece of the vocabulary, and cannot be the name of a new language")
    grown = vocabulary.with_pieces([added]).model_copy(update={"languages": tags})
    model = next(iter(tokenizers.by_language.values())).model
    return replace(tokenizers, imported=grown, by_language=_by_language(grown, dict.fromkeys(languages, model)))


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


def with_pieces(tokenizers: Tokenizers, pieces: Mapping[str, Sequence[str]]) -> Tokenizers:
    """Return the tokenizers of a public model with further pieces of languages; the first are merged first."""
    vocabulary = tokenizers.imported
    assert vocabulary is not None, "a public model"
    models = {}
    added: list[list[str]] = [[] for _ in vocabulary.pieces]
    for side, (language, tokenizer) in enumerate(tokenizers.by_language.items()):
        new = [*pieces.get(language, ())]
        if vocabulary.languages:  # all languages have the same pieces
            new = [piece for of_language in pieces.values() for piece in of_language]
        models[language] = _with_pieces(tokenizer.model, dict.fromkeys(new))
        number = min(side, len(added) - 1)
        known = {*vocabulary.pieces[number], *added[number]}
        added[number] += [piece for piece in dict.fromkeys(new) if piece not in known]
    grown = vocabulary.with_pieces(added)
    return replace(tokenizers, imported=grown, by_language=_by_language(grown, models))


def _by_language(vocabulary: ImportedVocabulary, models: Mapping[str, bytes]) -> Mapping[str, Tokenizer]:
    return Tokenizers.of_import(vocabulary, models).by_language


def extended(tokenizer: LosslessTokenizer, lines: Iterable[str], n_more: int, kind: TokenizerKind) -> LosslessTokenizer:
    """Return a tokenizer that has up to `n_more` further pieces, learned from lines of new languages.

    The pieces of the tokenizer keep their ids, and are merged before the new ones; tags follow the new pieces. Raises
    DataError if the lines have no text.
    """
    known = {*tokenizer.pieces(range(tokenizer.n_pieces))}
    learned = _learned(lines, n_more, kind)
    letters = [piece for piece in learned if len(piece) == 1 and piece not in known][:n_more]
    merges = _spelled_by(learned, known | {*letters})[: n_more - len(letters)]
    model = _with_pieces(tokenizer.model, dict.fromkeys([*merges, *letters]))
    return LosslessTokenizer(model, tags=[*tokenizer.tags])


def learned_pieces(
    tokenizer: ImportedTokenizer, lines: Iterable[str], letters: Iterable[str], n: int, kind: TokenizerKind
) -> list[str]:
    """Return up to `n` pieces, longer than a letter, learned from lines of new languages for a public model.

    letters: those that the vocabulary will have besides its own.
    """
    if n <= 0:
        return []
    known = {*tokenizer.pieces(range(tokenizer.n_pieces)), *letters}
    return _spelled_by(_learned(map(tokenizer.normalized, lines), n, kind), known)[:n]


def _learned(lines: Iterable[str], n: int, kind: TokenizerKind) -> list[str]:
    """Return pieces that a vocabulary of their own has for lines, some of which another vocabulary may have."""
    first = LosslessTokenizer.first_learned
    learned = train_tokenizer(lines, first + 2 * n, kind=kind)
    return learned.pieces(range(first, learned.n_pieces))


def _spelled_by(pieces: Iterable[str], known: set[str]) -> list[str]:
    """Return the pieces that are not known, but consist of known letters."""
    return [piece for piece in pieces if len(piece) > 1 and piece not in known and known.issuperset(piece)]


def _with_pieces(model: bytes, pieces: Iterable[str]) -> bytes:
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
    return vocabulary.languages[name_in_model(language, vocabulary.languages)]


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
