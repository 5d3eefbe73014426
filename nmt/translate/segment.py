"""Segmentation of lines into sentences to search, and construction of translations from their hypotheses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nmt.console import printable
from nmt.errors import ConfigError, DataError
from nmt.search.beam import n_to_finish
from nmt.search.constrained import beam_for, total_length
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis, length_penalty
from nmt.text.constraints import Span, constraint_spans, encode_marked, mark_terms
from nmt.text.ids import SEPARATOR, UNK
from nmt.text.letters import comparable
from nmt.text.phrases import n_within, term_ids
from nmt.text.split import join, n_sentences, split
from nmt.text.tokenizer import CONTROL, Tokenizer, is_blank
from nmt.text.vocabularies import Tokenizers
from nmt.translate.mbr import least_risk
from nmt.translate.memory import Match, MatchKind
from nmt.translate.types import (
    BLANK_TRANSLATION,
    MAX_PARTS,
    NO_TERMS,
    Conventions,
    Line,
    Part,
    Sentence,
    Translation,
    by_rank,
    joint_match,
    takes_terms,
)

MAX_PIECES_FACTOR = 4
"""Sentences are truncated to this multiple of `data.max_pieces`: longer ones could take hours or exhaust memory."""

REPETITIONS = 8
"""Mean number of occurrences of a piece that makes a text repetitive: its translation may not become longer."""


class _Source(NamedTuple):
    """The text of a sentence: a line or a part of it."""

    text: str
    separator: str
    ids: list[int]
    key: int
    is_whole: bool


class Segmenter:
    """A segmenter, which splits lines into sentences and joins the translations of the sentences."""

    def __init__(self, tokenizers: Tokenizers, conventions: Conventions, max_positions: int | None) -> None:
        """Create a segmenter. max_positions: the maximum length of a sequence, including `</s>`; None for no limit."""
        self._reads_similar = conventions.fuzzy_threshold is not None
        self._joins = conventions.joins
        self._src, self._tgt = tokenizers.sides(conventions.direction)
        self._language_tag = conventions.language_tag
        self._max_positions = max_positions
        # one position is reserved for the end of sentence
        self.max_length = MAX_PIECES_FACTOR * conventions.max_pieces if max_positions is None else max_positions - 1
        """Maximum number of pieces of a sentence, without `</s>`; longer sentences are truncated."""
        self._max_pieces = min(self.max_length, conventions.max_pieces)

    def split_lines(self, lines: Sequence[Line], search: SearchConfig, first: int = 0) -> list[list[Sentence]]:
        """Return the sentences of each line: several if the line is split, and one without token ids if it is blank.

        first: the number of the first line, from 0. Raises ConfigError for terms that this kind of search does not
        support, DataError if prefix and terms of a line are too long for the model.
        """
        texts = ["" if is_blank(self._src.as_read(line.text)) else line.text for line in lines]
        tags = self._src.tag_ids([*self._language_tag, *(search.tags or ())])
        encoded = self._src.encode_all(texts, search.to)
        return [
            self._sentences(line, ids, tags, search, number)
            for number, (line, ids) in enumerate(zip(lines, encoded, strict=True), start=first)
        ]

    def _sentences(
        self, line: Line, ids: list[int], tags: Sequence[int], search: SearchConfig, number: int
    ) -> list[Sentence]:
        """Return the sentences of a line with these token ids."""
        key = number * MAX_PARTS
        to, text = self._src.tagged(line.text, search.to)
        if text != line.text:  # its tag may choose another language
            line = replace(line, tm=None)
        if match := find_match(line, text, search):
            return [Sentence(text, "", (), key, 0, match=match)]
        parts = [(text, "")]
        encoded = [ids]
        needs_split = self._needs_split(line, ids, search)
        if needs_split and not line.terms:
            parts = split(text, self._n_pieces, self._max_pieces, 0)
            encoded = self._src.encode_all([part for part, _ in parts], to)
        sentences = []
        for index, ((part, separator), part_ids) in enumerate(zip(parts, encoded, strict=True)):
            source = _Source(part, separator, part_ids, key + index, is_whole=len(parts) == 1)
            if not source.is_whole and (match := find_match(line, part, search)):
                sentences.append(Sentence(part, separator, (), source.key, 0, match=match))
                continue
            sentence = self._sentence(line, source, tags, search)
            sentences.append(replace(sentence, whole=needs_split and source.is_whole))
        return sentences

    def _needs_split(self, line: Line, ids: Sequence[int], search: SearchConfig) -> bool:
        """Return whether a line is too long, or has several sentences that are translated separately."""
        if search.split == "never":
            return False
        is_split_always = search.split == "always" or self._joins
        return len(ids) > self._max_pieces or (is_split_always and n_sentences(line.text) > 1)

    def _sentence(self, line: Line, source: _Source, tags: Sequence[int], search: SearchConfig) -> Sentence:
        """Return the sentence of a line or a part of it."""
        ids = self._with_terms(line, source, search)
        similar = self._similar(line, source, len(ids))
        if ids:
            ids = [*tags, *ids]
        phrases, n_ordered = phrases_of(line, source.text, search, self._tgt, self.max_length // 2)
        prefix = self._prefix(line, source)
        src_ids = ids[: self.max_length]
        n_required = len(prefix) + total_length(phrases)
        if src_ids and n_required > self.max_length:
            raise self._too_many(source, n_required)
        return Sentence(
            text=source.text,
            separator=source.separator,
            src_ids=[*src_ids, *similar][: self.max_length],
            key=source.key,
            max_length=longest_translation(src_ids, n_required, search, self._max_positions),
            prefix=prefix,
            phrases=phrases,
            n_ordered=n_ordered,
            cut=len(ids) > self.max_length,
        )

    def _with_terms(self, line: Line, source: _Source, search: SearchConfig) -> list[int]:
        """Return the token ids of a text, with the translations of its terms where the model reads them."""
        if not search.inline_terms or line.glossary is None:
            return source.ids
        spans = constraint_spans(source.text, search, line.glossary)
        terms = [span for span in spans if span.kind == "term"]
        return encode_marked(self._src, mark_terms(source.text, terms)) if terms else source.ids

    def _similar(self, line: Line, source: _Source, n: int) -> list[int]:
        """Return a separator and the ids of the translation that the model reads beside a text with `n` ids; an empty
        list if there is none, or both are too long."""
        if not n or not self._reads_similar:
            return []
        similar = line.similar if source.is_whole else ""
        if not similar and line.tm is not None:
            similar = line.tm.similar(source.text)
        if not similar:
            return []
        ids = [SEPARATOR, *self._tgt.encode(similar)]
        return ids if n + len(ids) <= self._max_pieces else []

    def _prefix(self, line: Line, source: _Source) -> Sequence[int]:
        """Return the ids with which a translation starts, which belong to the first sentence of a line."""
        ids: Sequence[int] = ()
        if line.prefix and source.key % MAX_PARTS == 0:
            ids = self._tgt.exactly().encode(line.prefix.rstrip())
        if UNK in ids:  # only of imported models
            raise _unspellable("prefix", line.prefix)
        return ids or self._tgt.opening

    def _too_many(self, source: _Source, n_required: int) -> DataError:
        limit = f"{MAX_PIECES_FACTOR} * data.max_pieces = {self.max_length}"
        if self._max_positions is not None:
            limit = f"model.max_positions = {self._max_positions}"
        return DataError(
            f"line {source.key // MAX_PARTS + 1}: its prefix and terms have {n_required} pieces, more than a "
            f"translation may have ({limit}); shorten them"
        )

    def _n_pieces(self, texts: list[str]) -> list[int]:
        return [len(ids) for ids in self._src.encode_all(texts, "")]

    def join_hypotheses(
        self,
        sentences: Sequence[Sentence],
        hypotheses: Sequence[Sequence[Hypothesis]],
        search: SearchConfig,
        n_best: int,
    ) -> list[Translation]:
        """Return up to `n_best` translations of a line, best first, from the hypotheses of each of its sentences.

        The best hypotheses of all sentences are joined, then the second best, and so on. All translations but samples
        have different texts.
        """
        if not any(hypotheses) and all(sentence.match is None for sentence in sentences):
            return [BLANK_TRANSLATION]
        if search.mbr != "none":  # among equally good candidates, prefer the better score
            hypotheses = [self._least_risk(candidates) for candidates in hypotheses]
        translations: dict[object, Translation] = {}
        searched: list[Sequence[Hypothesis | None]] = [candidates or [None] for candidates in hypotheses]
        for rank, of_rank in enumerate(by_rank(searched)):
            joined = self._joined(sentences, of_rank, search)
            translations.setdefault(rank if search.sample else joined.text, joined)
            if len(translations) == n_best:
                break
        if search.sample:
            return [*translations.values()]
        return sorted(translations.values(), key=lambda joined: -joined.score)  # joining may change the order

    def _joined(
        self, sentences: Sequence[Sentence], hypotheses: Sequence[Hypothesis | None], search: SearchConfig
    ) -> Translation:
        """Join one hypothesis of each sentence, None for one that was not searched, into a translation of the line."""
        texts = []
        parts = []
        searched = []
        has_phrases = False
        for sentence, hypothesis in zip(sentences, hypotheses, strict=True):
            if sentence.match is not None:
                texts.append(sentence.match.text)
                src_ids = self._src.encode(sentence.text)[: self.max_length]
                tgt_ids = self._tgt.encode(sentence.match.text)[: self.max_length]
                parts.append(Part(sentence.text, src_ids, tgt_ids, sentence.match.kind))
            elif hypothesis is not None:
                texts.append(self._tgt.decode(hypothesis.ids))
                kind: MatchKind | None = "fuzzy" if SEPARATOR in sentence.src_ids else None
                parts.append(Part(sentence.text, sentence.src_ids, hypothesis.ids, kind))
                searched.append(hypothesis)
                has_phrases = has_phrases or bool(sentence.phrases)
            else:
                texts.append("")
        log_prob = sum((hypothesis.log_prob for hypothesis in searched), 0.0)
        n_pieces = sum(len(hypothesis.ids) + 1 for hypothesis in searched)
        score = log_prob / length_penalty(max(n_pieces, 1), search)
        if len(searched) == 1 and not has_phrases:
            score = searched[0].score
        return Translation(
            text=join([(sentence.text, sentence.separator) for sentence in sentences], texts),
            score=score,
            log_prob=log_prob,
            finished=all(hypothesis.finished for hypothesis in searched),
            cut=any(sentence.cut for sentence in sentences),
            whole=any(sentence.whole for sentence in sentences),
            match=joint_match([part.match for part in parts]),
            parts=tuple(parts),
        )

    def _least_risk(self, candidates: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Return the candidate that is chosen by minimum Bayes risk, if there are any."""
        if not candidates:
            return []
        ranked = sorted(candidates, key=lambda hypothesis: -hypothesis.score)
        return [ranked[least_risk([self._tgt.decode(candidate.ids) for candidate in ranked])]]


def longest_translation(
    src_ids: Sequence[int], n_required: int, search: SearchConfig, max_positions: int | None
) -> int:
    """Return the maximum length of a translation, including `</s>`.

    n_required: the number of pieces of its prefix and terms.
    """
    ratio = search.max_length_ratio
    if len(src_ids) >= REPETITIONS * len(set(src_ids)):  # models tend to repeat such text up to the limit
        ratio = min(ratio, 1.0)
    limit = int(ratio * len(src_ids) + search.max_length_offset)
    limit = max(limit + n_required, search.min_length + 1)
    if max_positions is not None:
        limit = min(limit, max_positions)
    return limit


def n_candidates(search: SearchConfig, n_best: int) -> int:
    """Return the number of hypotheses of each sentence that `Segmenter.join_hypotheses` needs.

    Different pieces may spell the same text. So several translations are chosen from all hypotheses that a search for
    `n_best` finishes, which does not change the best ones.
    """
    if search.mbr != "none":
        return search.beam
    if n_best == 1 or search.sample:
        return n_best
    if not search.patience:
        return search.beam
    return min(n_to_finish(search, n_best), search.beam)


def find_match(line: Line, text: str, search: SearchConfig) -> Match | None:
    """Return the translation of `text`, a line or a part of it, in the translation memory of the line.

    Without one, a text that is not blank but has no letters outside protected text is its own translation. A
    translation that lacks a term of the glossary is not used.
    """
    if line.prefix.strip() or line.terms:
        return None
    match = line.tm.find(text) if line.tm is not None and search.exact_matches else None
    if match is None and not is_blank(text):
        letters = text
        for span in reversed(constraint_spans(text, search, flag=line.flag)):
            letters = letters[: span.start] + letters[span.end :]
        if not any(map(str.isalpha, letters)):
            match = Match(CONTROL.sub(" ", text), "copied")
    if match is not None and line.glossary is not None:
        target = line.tm.target if line.tm is not None else ""
        translation = comparable(match.text, target)
        for span in constraint_spans(text, search, line.glossary):
            if span.kind == "term" and comparable(span.wanted, target) not in translation:
                return None
    return match


COPIED_IDS = 100
COPIED_COST = 2000
"""Maximum number of ids of the placeholders of a sentence that are protected by default, which make its translation
longer, and of this number times the number of hypotheses that they need."""


def _affordable(spans: Sequence[Span], tokenizer: Tokenizer, most_ids: int) -> list[Span]:
    """Return the terms, then the placeholders that do not take too long to protect, in order; addresses come last."""
    affordable = [span for span in spans if span.kind == "term"]
    copies = sorted((span for span in spans if span.kind != "term"), key=lambda span: span.kind in ("url", "email"))
    phrases = list[Sequence[int]]()
    for span in copies[:most_ids]:  # each has an id
        with_it = [*phrases, term_ids(tokenizer, span.wanted)]
        n_ids = total_length(with_it)
        if n_ids <= most_ids and n_ids * beam_for(with_it, 1) <= COPIED_COST:
            phrases = with_it
            affordable.append(span)
    return affordable


def _unspellable(what: str, text: str) -> DataError:
    return DataError(f"the vocabulary of the model has no pieces for the {what} {printable(text)!r}")


def phrases_of(
    line: Line, text: str, search: SearchConfig, tokenizer: Tokenizer, most_ids: int = COPIED_IDS
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the phrases that a translation must contain, and the number of leading ones, tags, whose order is fixed.

    `text` is a line or a part of it; most_ids: the maximum number of ids of placeholders that are protected by default.
    A phrase that the text requires is required once more for each occurrence inside another required phrase. Protected
    text that the vocabulary of an imported model cannot spell is not required.
    Raises ConfigError for terms that this kind of search does not support, DataError for terms that cannot be spelled.
    """
    spans = constraint_spans(text, search, line.glossary, line.flag)
    if search.inline_terms:
        spans = [span for span in spans if span.kind != "term"]
    if search.protect == "placeholders":
        spans = _affordable(spans, tokenizer, min(most_ids, COPIED_IDS))
    if not (line.terms or spans):
        return (), 0
    if not takes_terms(search):
        raise ConfigError(NO_TERMS)
    required = Counter(span.wanted for span in spans)
    ids = {term: tuple(term_ids(tokenizer, term)) for term in {*required, *line.terms}}
    terms_of_user = {*line.terms, *(span.wanted for span in spans if span.kind == "term")}
    for term in sorted(term for term, ids_of_term in ids.items() if UNK in ids_of_term):  # only of imported models
        if term in terms_of_user:
            raise _unspellable("term", term)
        del required[term]
    tags = [span.wanted for span in spans if span.kind == "tag" and span.wanted.startswith("<")]
    tags = [tag for tag in tags if tag in required]
    unordered = required - Counter(tags)
    for term in unordered:
        unordered[term] += sum(n * n_within(ids[term], ids[other], tokenizer) for other, n in required.items())
    # a term is required once if both the terms of the line and its text require it
    terms = [*tags, *(Counter(line.terms) | unordered).elements()]
    phrases = [ids[term] for term in terms]
    return tuple(filter(None, phrases)), sum(map(bool, phrases[: len(tags)]))
