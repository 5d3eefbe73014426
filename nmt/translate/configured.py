"""The lines that a model translates, as its settings describe them."""

from __future__ import annotations

from nmt.data.corpus import Corpus
from nmt.data.modifiers import FuzzyMatches
from nmt.data.settings import DataConfig
from nmt.training.settings import TrainingConfig
from nmt.translate.types import Conventions, Line


def conventions_of(data: DataConfig, training: TrainingConfig) -> Conventions:
    """Return the languages of a model, and the conventions of its lines."""
    return Conventions(
        direction=data.direction,
        max_pieces=data.max_pieces,
        choices=data.directions,
        language_tag=data.language_tag,
        tag_names=data.tag_names,
        joins=training.joins_sentences,
        inline_terms="terms" in training.modifiers,
        fuzzy_threshold=data.fuzzy_threshold if training.reads_similar else None,
    )


def source_lines(corpus: Corpus, data: DataConfig, reads_similar: bool, split: str) -> list[Line]:
    """Return the sources of a split, with the translations of similar lines if the model `reads_similar` ones, or else
    with the beginnings of documents.

    Without an order of documents, all lines are one document. Raises DataError as `FuzzyMatches.of` and
    `Corpus.follows` do.
    """
    lines = corpus.split(split)
    texts = lines.text(data.src)
    if reads_similar:
        matches = FuzzyMatches.of(corpus, data, split)
        tokenizer = corpus.tokenizers[data.tgt]
        targets = map(matches.target, range(lines.n))
        similar = ("" if target is None else tokenizer.decode(target.tolist()) for target in targets)
        return [Line(text, similar=translation) for text, translation in zip(texts, similar, strict=True)]
    is_ordered = corpus.directory.follows(split).name in corpus.manifest.files
    follows = corpus.follows(lines).tolist() if is_ordered else [1] * lines.n
    return [Line(text, is_first=not is_next) for text, is_next in zip(texts, follows, strict=True)]
