"""The lines of a split of a corpus, with what a run reads beside them."""

from __future__ import annotations

from nmt.config import Config
from nmt.data.corpus import Corpus
from nmt.data.modifiers import FuzzyMatches
from nmt.translate.types import Line


def source_lines(corpus: Corpus, config: Config, split: str) -> list[Line]:
    """Return the sources of a split, with the translations of similar lines, or the beginnings of documents.

    Without an order of documents, all lines are one document. Raises DataError as `FuzzyMatches.of` and
    `Corpus.follows` do.
    """
    own, data = corpus.split(split), config.data
    texts = own.text(data.src)
    if "fuzzy" in config.training.modifiers:
        matches, tokenizer = FuzzyMatches.of(corpus, config, split), corpus.tokenizers[data.tgt]
        targets = map(matches.target, range(own.n))
        similar = ("" if target is None else tokenizer.decode(target.tolist()) for target in targets)
        return [Line(text, similar=each) for text, each in zip(texts, similar, strict=True)]
    is_ordered = corpus.directory.follows(split).name in corpus.manifest.files
    follows = corpus.follows(own).tolist() if is_ordered else [1] * own.n
    return [Line(text, is_first=not each) for text, each in zip(texts, follows, strict=True)]
