"""Segmentation of lines into sentences to search, and construction of translations from their hypotheses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from nmt.config import Config, SearchConfig
from nmt.console import printable
from nmt.errors import ConfigError, DataError
from nmt.search.beam import n_to_finish
from nmt.search.constrained import n_within, term_ids, total_length
from nmt.search.step import Hypothesis, length_penalty
from nmt.text.constraints import Glossary, constraint_spans, encode_marked, mark_terms
from nmt.text.letters import comparable
from nmt.text.split import join, n_sentences, split
from nmt.text.tokenizer import SEPARATOR, UNK, Tokenizer, is_blank
from nmt.text.vocabularies import Tokenizers
from nmt.translate.mbr import choose
from nmt.translate.translation_memory import Match, MatchKind
from nmt.translate.types import BLANK, MAX_PARTS, NO_TERMS, Line, Part, Sentence, Translation, takes_terms, unprotected

MAX_PIECES_FACTOR = 4
"""Sentences are truncated to this multiple of `data.max_pieces`: longer ones could take hours or exhaust memory."""

REPETITIONS = 8
"""Mean number of occurrences of a piece that makes a text repetitive: its translation may not become longer."""


class Segmenter:
    """A segmenter, which splits lines into sentences and joins the translations of the sentences."""

    def __init__(self, tokenizers: Tokenizers, config: Config, max_positions: int | None) -> None:
        """Create a segmenter. max_positions: the maximum length of a sequence, including `</s>`; None for no limit."""
        data = config.data
        self._reads_similar, self._joins = "fuzzy" in config.training.modifiers, config.joins_sentences
        self._src, self._tgt = (tokenizers[language] for language in data.sides)
        self._language_tag = data.language_tag
        self._max_positions = max_positions
        # one position is reserved for the end of sentence
        self.max_length = MAX_PIECES_FACTOR * data.max_pieces if max_positions is None else max_positions - 1
        """Maximum number of pieces of a sentence, without `</s>`; longer sentences are truncated."""
        self._max_pieces = min(self.max_length, data.max_pieces)

    def split_lines(self, lines: Sequence[Line], search: SearchConfig, first: int = 0) -> list[list[Sentence]]:
        """Return the sentences of each line: several if the line is split, and one without token ids if it is blank.

        first: the number of the first line, from 0. Raises ConfigError for terms that this kind of search does not
        support, DataError if prefix and terms of a line are too long for the model.
        """
        texts = ["" if is_blank(self._src.as_read(line.text)) else line.text for line in lines]
        tags = self._src.tag_ids([*self._language_tag, *(search.tags or ())])
        encoded = self._src.encode_all(texts, search.to)
        by_line = []
        for number, (line, line_ids) in enumerate(zip(lines, encoded, strict=True), start=first):
            splits = search.split == "always" or self._joins
            needs_split = len(line_ids) > self._max_pieces or (splits and n_sentences(line.text) > 1)
            to, text = self._src.tagged(line.text, search.to)
            line = line if text == line.text else replace(line, tm=None)  # its tag may choose another language
            match = find_match(line, text, search)
            needs_split = needs_split and search.split != "never" and match is None
            if needs_split and not line.terms:
                parts = split(text, self._n_pieces, self._max_pieces, 0)
                ids_of_parts = self._src.encode_all([part for part, _ in parts], to)
            else:
                parts, ids_of_parts = [(text, "")], [line_ids]
            if search.inline_terms and line.glossary is not None:
                both = zip([text for text, _ in parts], ids_of_parts, strict=True)
                ids_of_parts = [self._with_terms(text, ids, search, line.glossary) for text, ids in both]
            sentences = []
            for i, ((text, separator), ids) in enumerate(zip(parts, ids_of_parts, strict=True)):
                key = number * MAX_PARTS + i
                match = match if len(parts) == 1 else find_match(line, text, search)
                if match is not None:
                    sentences.append(Sentence(text, separator, (), key, 0, match=match))
                    continue
                similar = self._similar(line, text, len(ids), len(parts) == 1) if ids else []
                ids = [*tags, *ids] if ids else ids
                phrases, n_ordered = phrases_of(line, text, search, self._tgt)
                prefix = (self._tgt.encode(line.prefix.rstrip()) if line.prefix and i == 0 else ()) or self._tgt.opening
                if UNK in prefix:  # only of imported models
                    raise _unspellable("prefix", line.prefix)
                src_ids, n_required = ids[: self.max_length], len(prefix) + total_length(phrases)
                if src_ids and n_required > self.max_length:
                    limit = f"{MAX_PIECES_FACTOR} * data.max_pieces = {self.max_length}"
                    if self._max_positions is not None:
                        limit = f"model.max_positions = {self._max_positions}"
                    raise DataError(
                        f"line {number + 1}: its prefix and terms have {n_required} pieces, more than a translation "
                        f"may have ({limit}); shorten them"
                    )
                sentence = Sentence(
                    text=text,
                    separator=separator,
                    src_ids=[*src_ids, *similar][: self.max_length],
                    key=key,
                    max_length=longest_translation(src_ids, n_required, search, self._max_positions),
                    prefix=prefix,
                    phrases=phrases,
                    n_ordered=n_ordered,
                    cut=len(ids) > self.max_length,
                    whole=needs_split and len(parts) == 1,
                )
                sentences.append(sentence)
            by_line.append(sentences)
        return by_line

    def _with_terms(self, text: str, ids: list[int], search: SearchConfig, glossary: Glossary) -> list[int]:
        """Return the token ids of a text with inline translations of its terms; `ids` if it has no terms."""
        terms = [span for span in constraint_spans(text, search, glossary) if span.kind == "term"]
        return encode_marked(self._src, mark_terms(text, terms)) if terms else ids

    def _similar(self, line: Line, text: str, n: int, is_whole: bool) -> list[int]:
        """Return a separator and the ids of the translation that the model reads beside `text`, a line or, if it is not
        `is_whole`, a part of it, with `n` ids; an empty list if there is none or both are too long."""
        similar = line.similar if is_whole else ""
        if self._reads_similar and not similar and line.tm is not None:
            similar = line.tm.similar(text)
        ids = [SEPARATOR, *self._tgt.encode(similar)] if self._reads_similar and similar else []
        return ids if n + len(ids) <= self._max_pieces else []

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
            return [BLANK]
        if search.mbr != "none":  # among equally good candidates, prefer the better score
            ranked = [sorted(candidates, key=lambda hypothesis: -hypothesis.score) for candidates in hypotheses]
            hypotheses = [[self._least_risk(candidates)] if candidates else [] for candidates in ranked]
        translations: dict[object, Translation] = {}
        for rank in range(max(1, *map(len, hypotheses))):  # 1: of a line from the translation memory
            of_rank = [best[min(rank, len(best) - 1)] if best else None for best in hypotheses]
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
        """Join one hypothesis of each sentence, None for a blank or matched one, into a translation of the line."""
        texts, parts, pairs = list[str](), list[Part](), list[tuple[Sentence, Hypothesis]]()
        for sentence, hypothesis in zip(sentences, hypotheses, strict=True):
            if (match := sentence.match) is not None:
                sides = (self._src, sentence.text), (self._tgt, match.text)
                src_ids, tgt_ids = (tokenizer.encode(text)[: self.max_length] for tokenizer, text in sides)
                parts.append(Part(sentence.text, src_ids, tgt_ids, match.kind))
            elif hypothesis is not None:
                kind: MatchKind | None = "fuzzy" if SEPARATOR in sentence.src_ids else None
                parts.append(Part(sentence.text, sentence.src_ids, hypothesis.ids, kind))
                pairs.append((sentence, hypothesis))
            texts.append(match.text if match else self._tgt.decode(hypothesis.ids) if hypothesis else "")
        log_prob = sum((hypothesis.log_prob for _, hypothesis in pairs), 0.0)
        n_pieces = sum(len(hypothesis.ids) + 1 for _, hypothesis in pairs)
        is_as_searched = len(pairs) == 1 and not pairs[0][0].phrases
        return Translation(
            text=join([(sentence.text, sentence.separator) for sentence in sentences], texts),
            score=pairs[0][1].score if is_as_searched else log_prob / length_penalty(max(n_pieces, 1), search),
            log_prob=log_prob,
            finished=all(hypothesis.finished for _, hypothesis in pairs),
            cut=any(sentence.cut for sentence in sentences),
            whole=any(sentence.whole for sentence in sentences),
            parts=tuple(parts),
        )

    def _least_risk(self, candidates: Sequence[Hypothesis]) -> Hypothesis:
        return candidates[choose([self._tgt.decode(candidate.ids) for candidate in candidates])]


def longest_translation(
    src_ids: Sequence[int], n_required: int, search: SearchConfig, max_positions: int | None
) -> int:
    """Return the maximum length of a translation, including `</s>`.

    n_required: the number of pieces of its prefix and terms.
    """
    repeats = len(src_ids) >= REPETITIONS * len(set(src_ids))  # models tend to repeat such text up to the limit
    ratio = min(search.max_length_ratio, 1.0) if repeats else search.max_length_ratio
    limit = int(ratio * len(src_ids) + search.max_length_offset)
    limit = max(limit + n_required, search.min_length + 1)
    return limit if max_positions is None else min(limit, max_positions)


def n_candidates(search: SearchConfig, n_best: int) -> int:
    """Return the number of hypotheses of each sentence that `Segmenter.join_hypotheses` needs.

    Different pieces may spell the same text. So several translations are chosen from all hypotheses that a search for
    `n_best` finishes, which does not change the best ones.
    """
    if search.mbr != "none":
        return search.beam
    if n_best == 1 or search.sample:
        return n_best
    return min(n_to_finish(search, n_best) if search.patience else search.beam, search.beam)


def find_match(line: Line, text: str, search: SearchConfig) -> Match | None:
    """Return the translation of `text`, a line or a part of it, in the translation memory of the line.

    A translation that lacks a term of the glossary is not used.
    """
    is_constrained = bool(line.prefix.strip() or line.terms)
    match = None if line.tm is None or is_constrained or not search.exact_matches else line.tm.find(text)
    if match is None or line.glossary is None:
        return match
    terms = (span.wanted for span in constraint_spans(text, search, line.glossary) if span.kind == "term")
    return match if all(comparable(term) in comparable(match.text) for term in terms) else None


def _unspellable(what: str, text: str) -> DataError:
    return DataError(f"the vocabulary of the model has no pieces for the {what} {printable(text)!r}")


def phrases_of(
    line: Line, text: str, search: SearchConfig, tokenizer: Tokenizer
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the phrases that a translation must contain, and the number of leading ones, tags, whose order is fixed.

    `text` is a line or a part of it. A phrase that the text requires is required once more for each occurrence inside
    another required phrase. Protected text that the vocabulary of an imported model cannot spell is not required.
    Raises ConfigError for terms that this kind of search does not support, DataError for terms that cannot be spelled.
    """
    spans = constraint_spans(text, search if line.protects else unprotected(search), line.glossary, line.flag)
    if search.inline_terms:
        spans = [span for span in spans if span.kind != "term"]
    if (line.terms or spans) and not takes_terms(search):
        raise ConfigError(NO_TERMS)
    wanted = Counter(span.wanted for span in spans)
    ids = {term: tuple(term_ids(tokenizer, term)) for term in {*wanted, *line.terms}}
    if unknown := {term for term, of_term in ids.items() if UNK in of_term}:  # only of imported models
        asked = unknown & {*line.terms, *(span.wanted for span in spans if span.kind == "term")}
        if asked:
            raise _unspellable("term", min(asked))
        wanted = Counter({term: n for term, n in wanted.items() if term not in unknown})
    tags = [
        span.wanted for span in spans if span.kind == "tag" and span.wanted.startswith("<") and span.wanted in wanted
    ]
    others = wanted - Counter(tags)
    for term in others:
        others[term] += sum(n * n_within(ids[term], ids[other], tokenizer) for other, n in wanted.items())
    # a term is required once if both the terms of the line and its text require it
    terms = [*tags, *(Counter(line.terms) | others).elements()]
    phrases = [ids[term] for term in terms]
    return tuple(filter(None, phrases)), sum(map(bool, phrases[: len(tags)]))
