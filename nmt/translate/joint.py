"""Search of several sentences at once, for models trained with `training.modifiers.join`.

The sentences of a line are one source, with separators between them, and so is their translation, which is divided at
the separators. With `search.context`, the sentences before them in their document come first in the source, and the
decoder reads the translations of these, which are known already, before it begins. The lines of different documents
share batches: line r of each document is searched in round r.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from nmt.config import SearchConfig
from nmt.search.rules import ShouldStop
from nmt.search.step import Hypothesis
from nmt.text.tokenizer import SEPARATOR, Tokenizer
from nmt.translate.searcher import Hypotheses, Searcher
from nmt.translate.types import Line, Sentence

_Pair = tuple[list[int], list[int]]
"""The ids of a sentence and of its translation."""


@dataclass
class _Document:
    groups: list[list[int]] = field(default_factory=list)
    """The sentences that are searched together, by their indices."""
    past: list[_Pair] = field(default_factory=list)
    """The sentences that have been translated, with their translations."""


class JointSearch:
    """A search engine for the sentences of lines in their documents; it stands in for a `Searcher`."""

    def __init__(self, searcher: Searcher, src: Tokenizer, tgt: Tokenizer, max_pieces: int) -> None:
        """`max_pieces`: the maximum length of joined sentences, as in training."""
        self._searcher, self._src, self._tgt, self._max_pieces = searcher, src, tgt, max_pieces

    def search(
        self,
        lines: Sequence[Line],
        by_line: Sequence[Sequence[Sentence]],
        search: SearchConfig,
        n_best: int,
        should_stop: ShouldStop | None,
    ) -> Generator[tuple[list[int], Hypotheses]]:
        """Yield hypotheses of the sentences of all lines, with their indices; see `Searcher.search`.

        A blank line ends a document. A line that is not translated into as many sentences is translated again, each of
        its sentences by itself.
        """
        sentences = [sentence for of_line in by_line for sentence in of_line]
        documents, n = [_Document()], 0
        for line, of_line in zip(lines, by_line, strict=True):
            groups = self._groups(range(n, n + len(of_line)), sentences, search)
            n += len(of_line)
            if line.is_first or not groups or not search.context:
                past = [(self._src.encode(src), self._tgt.encode(tgt)) for src, tgt in line.before]
                documents.append(_Document(past=past))
            documents[-1].groups += groups
        for round_ in range(max(len(document.groups) for document in documents)):
            current = [document for document in documents if round_ < len(document.groups)]
            yield from self._round([each.groups[round_] for each in current], current, sentences, search, n_best,
                                   should_stop)  # fmt: skip

    def _round(
        self,
        groups: Sequence[Sequence[int]],
        documents: Sequence[_Document],
        sentences: Sequence[Sentence],
        search: SearchConfig,
        n_best: int,
        should_stop: ShouldStop | None,
    ) -> Iterator[tuple[list[int], Hypotheses]]:
        """Search one group of sentences of each document, and add the translations to the documents."""
        own = [[sentences[i] for i in group] for group in groups]
        contexts = [self._context(each, document.past[-search.context or len(document.past) :])
                    for each, document in zip(own, documents, strict=True)]  # fmt: skip
        joint = [self._joined(*each) for each in zip(own, contexts, strict=True)]
        best: dict[int, list[int]] = {}
        failed: list[int] = []
        with closing(self._searcher.search(joint, search, n_best, should_stop)) as found:
            for numbers, hypotheses in found:
                indices, divided = list[int](), list[list[Hypothesis]]()
                for number, of_group in zip(numbers, hypotheses, strict=True):
                    parts = [*filter(None, (_divided(each, len(own[number])) for each in of_group))]
                    if not parts:
                        failed += groups[number]
                        continue
                    indices += groups[number]
                    divided += map(list, zip(*parts, strict=True))
                best |= zip(indices, (list(each[0].ids) for each in divided), strict=True)
                yield indices, divided
        if failed:
            alone = [sentences[i] for i in failed]
            with closing(self._searcher.search(alone, search, n_best, should_stop)) as found:
                for numbers, hypotheses in found:
                    indices = [failed[number] for number in numbers]
                    best |= zip(indices, (list(each[0].ids) for each in hypotheses), strict=True)
                    yield indices, hypotheses
        for group, document in zip(groups, documents, strict=True):
            for i in group:
                sentence = sentences[i]
                if sentence.match is not None:
                    ids = self._src.encode(sentence.text), self._tgt.encode(sentence.match.text)
                else:
                    ids = self._untagged(sentence.src_ids), best[i]
                document.past.append(ids)

    def _groups(self, indices: Sequence[int], sentences: Sequence[Sentence], search: SearchConfig) -> list[list[int]]:
        """Return the indices of the sentences of a line that are searched together; blank ones are left out."""
        groups: list[list[int]] = []
        n_pieces = 0
        for i in indices:
            sentence = sentences[i]
            if not sentence.src_ids and sentence.match is None:
                continue
            n_pieces += 1 + len(sentence.src_ids)
            is_alone = sentence.match is not None or sentence.phrases or search.split == "always"
            if not groups or is_alone or n_pieces > self._max_pieces:
                groups.append([])
                n_pieces = self._max_pieces if is_alone else len(sentence.src_ids)
            groups[-1].append(i)
        return groups

    def _context(self, own: Sequence[Sentence], past: Sequence[_Pair]) -> list[_Pair]:
        """Return the last sentences before a group that leave space for it, with their translations.

        A sentence with required phrases has no context, in which the search would find them.
        """
        if own[0].phrases or not own[0].src_ids:
            return []
        n_src = n_tgt = sum(1 + len(sentence.src_ids) for sentence in own)
        context: list[_Pair] = []
        for src, tgt in reversed(past):
            n_src, n_tgt = n_src + 1 + len(src), n_tgt + 1 + len(tgt)
            if max(n_src, n_tgt) > self._max_pieces:
                break
            context.insert(0, (src, tgt))
        return context

    def _joined(self, own: Sequence[Sentence], context: Sequence[_Pair]) -> Sentence:
        """Return the sentences of a group as one, with their context."""
        first = own[0]
        if len(own) == 1 and not context:
            return first
        tags = first.src_ids[: len(first.src_ids) - len(self._untagged(first.src_ids))]
        sources = [*(src for src, _ in context), *(self._untagged(sentence.src_ids) for sentence in own)]
        given = [i for _, tgt in context for i in (*tgt, SEPARATOR)]
        longest = sum(sentence.max_length for sentence in own)
        return replace(
            first,
            src_ids=[*tags, *(i for source in sources for i in (*source, SEPARATOR))][:-1],
            given=given,
            n_joined=len(own),
            max_length=min(longest, (self._searcher.max_positions or len(given) + longest) - len(given)),
        )

    def _untagged(self, ids: Sequence[int]) -> list[int]:
        return [i for i in ids if i < self._src.n_pieces]


def _divided(hypothesis: Hypothesis, n: int) -> list[Hypothesis] | None:
    """Divide a hypothesis at the separators into hypotheses of `n` sentences.

    The log-probability is divided in proportion to the lengths. Returns None if there is another number of sentences,
    or one of several without text.
    """
    parts = list[list[int]]([[]])
    for i in hypothesis.ids:
        if i == SEPARATOR:
            parts.append([])
        else:
            parts[-1].append(i)
    if len(parts) != n or (n > 1 and not all(parts)):
        return None
    share = hypothesis.log_prob / (len(hypothesis.ids) + 1)
    return [replace(hypothesis, ids=part, log_prob=share * (len(part) + 1)) for part in parts]
