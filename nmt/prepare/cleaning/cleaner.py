"""Cleaning of training pairs and lines. Each dropped pair is counted under the first reason that applies.

Both sides are stripped of white space, and repaired as `data.clean` asks (see `repairs`). The reasons, in the order in
which they are tried, with the settings that turn on optional ones:

empty           a side has no text
blank           a line of monolingual text (`data.mono`) has no text: a document ends
overlap         the source occurs in a development or test set, as it is or as repaired, and so does the target:
                training on it would be cheating
control         a side has a control character other than the tab, such as NUL or a form feed: mostly broken text
long            a side has more than `data.max_chars` characters
ratio           the sides differ in length by more than `data.max_ratio`; a character of a dense script, such as
                Chinese, counts as several
copied          both sides are the same text, or the same letters (`clean.drop`)
score           the score is below `clean.min_score`, or there is none
broken          a side has characters that are not text (`clean.drop`)
words           a side has more than `clean.max_words` words
word            a side has a word of more than `clean.max_word_chars` characters
shouted         a side is entirely in capitals (`clean.drop`)
script          few letters of a side are in a script of its language (`clean.min_script`)
blocked         a side has a word or expression of `clean.block_lists`
links           the sides do not have as many links (`clean.drop`)
tags            the sides do not have the same tags and placeholders (`clean.drop`)
numbers         a number of one side is not on the other (`clean.drop`)
sentences       the sides do not have as many sentences (`clean.drop`)
truncated       one side ends with a final mark, the other with none (`clean.drop`)
language        a side is in another language (`clean.drop`)
duplicate       the same pair was kept before
near_duplicate  a pair was kept that is the same in normal form (`data.clean.drop`)
misaligned      the sides do not translate each other (`clean.misaligned`)
valid           it was split off for the development set (a number in `data.valid`, or `valid` of a corpus)
test            it was split off for a test set (`test` of a corpus)
shared          it has a side in common with a pair that was split off
pieces          a side has more than `data.max_pieces` pieces, found when the remaining pairs have been encoded

For text with labels, only the text is repaired and judged, not the labels. `ratio`, `copied` and other comparisons of
the sides do not apply; `overlap` and `shared` compare the text, whatever its label.

Development and test sets are references: they are never dropped, and only `repair: [letters]` alters them. It comes
last, for all sides, since the text that is kept has the most frequent forms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial

import numpy as np
import numpy.typing as npt

from nmt.data.settings import DataConfig
from nmt.languages.codes import usual_script
from nmt.prepare.cleaning.block_lists import block_lists
from nmt.prepare.cleaning.counts import CleanReport
from nmt.prepare.cleaning.filters import filters, side_tests
from nmt.prepare.cleaning.grouping import normal_form
from nmt.prepare.cleaning.repairs import Repair, has_control, repairs
from nmt.prepare.cleaning.settings import CorpusClean, RepairName
from nmt.prepare.pairs import SentencePair
from nmt.prepare.sources import text_folder
from nmt.text.letters import comparable, write
from nmt.text.tokenizer import is_blank

_RATIO_OFFSET = 15


@dataclass(frozen=True)
class HeldOut:
    """The stripped lines of all development and test sets, by side. Training text must not contain their pairs."""

    src: frozenset[str]
    tgt: frozenset[str]


@cache
def _form_of(overlap: str | None, language: str) -> Callable[[str], str]:
    """Return the function that brings lines into the form in which they are compared with development and test sets."""
    return partial(normal_form if overlap in ("normal", "either") else comparable, language=language)


@lru_cache(maxsize=1)  # a process cleans many parts of a corpus
def _compared(held_out: HeldOut, repair: tuple[RepairName, ...], *forms: Callable[[str], str]) -> HeldOut:
    """Return the forms of both sides of the held-out lines as they are and as repaired; repair: see `CleanConfig`."""
    steps = repairs(CorpusClean.model_construct(repair=[*repair]))
    sides = (lines.union(_repaired(lines, steps)) for lines in (held_out.src, held_out.tgt))
    return HeldOut(*(frozenset(map(form, lines)) for form, lines in zip(forms, sides, strict=True)))


def _repaired(lines: Iterable[str], steps: Sequence[tuple[str, Repair]]) -> Iterator[str]:
    """Yield stripped lines as training text would be repaired."""
    for line in lines:
        for _, repair in steps:
            line = repair(line).strip()
        yield line


class Cleaner:
    """A cleaner of the training pairs of one corpus."""

    def __init__(self, config: DataConfig, key: str, held_out: HeldOut) -> None:
        """`key`: the key of the corpus, such as `train.0`.

        Raises DataError if a package or file that the settings need is missing.
        """
        self._clean = config.clean_of(key)
        self._max_chars = self._clean.max_chars or 0
        self._max_ratio = self._clean.max_ratio or 0.0
        self._label_side = config.label_side
        self._densities = [usual_script(language).density for language in config.pair]
        self._forms = [_form_of(self._clean.overlap, language) for language in config.pair]
        self._repairs = repairs(self._clean)
        self._held_out = _compared(held_out, tuple(self._clean.repair or ()), *self._forms)
        self._lengths: tuple[list[int], list[int]] = [], []
        self.report = CleanReport()
        """The counts so far, without the lengths of the pairs."""
        blocked = block_lists(self._clean, config.pair, text_folder(config.root))
        self._filters = list(filters(self._clean, config.pair, blocked, self.report.mix))

    def clean(self, pair: SentencePair) -> SentencePair | None:
        """Return the pair with both sides stripped and repaired, or None if it is dropped; count it in either case."""
        report = self.report
        report.read += 1
        before, after, _, score, _ = pair
        src = before.strip()
        tgt = after.strip()
        if self._repairs:
            src, tgt = self.repaired(src, tgt)
        self._lengths[0].append(len(src))
        self._lengths[1].append(len(tgt))
        reason = self.reason(src, tgt, score)
        if reason is not None:
            report.drop(reason, report.read, src, tgt)
            return None
        report.kept += 1
        return pair if src is before and tgt is after else pair._replace(src=src, tgt=tgt)

    def finish(self) -> CleanReport:
        """Return the report on all pairs, with histograms of their lengths."""
        self.report.read_lengths.count(*self._lengths)
        return self.report

    def repaired(self, src: str, tgt: str) -> tuple[str, str]:
        """Apply all repairs to both sides, count the repairs, and return the sides."""
        for kind, repair in self._repairs:
            new_src = src
            new_tgt = tgt
            if self._label_side != 0:
                new_src = repair(src).strip()
            if self._label_side != 1:
                new_tgt = repair(tgt).strip()
            if new_src != src:
                self.report.repair(kind, self.report.read, src, new_src)
            elif new_tgt != tgt:
                self.report.repair(kind, self.report.read, tgt, new_tgt)
            src = new_src
            tgt = new_tgt
        return src, tgt

    def reason(self, src: str, tgt: str, score: float | None = None) -> str | None:
        """Return the reason for dropping a stripped and repaired pair, or None if the pair is kept."""
        if is_blank(src) or is_blank(tgt):
            return "empty"
        if self._overlaps(src, tgt):
            return "overlap"
        if has_control(src) or has_control(tgt):
            return "control"
        if max(len(src), len(tgt)) > self._max_chars:
            return "long"
        if self._label_side is None:
            shorter, longer = sorted(map(_length, (src, tgt), self._densities))
            if longer > self._max_ratio * shorter:
                return "ratio"
            if src == tgt:
                return "copied"
        if (least := self._clean.min_score) is not None and (score is None or score < least):
            return "score"
        for reason, is_bad in self._filters:
            if is_bad(src, tgt):
                return reason
        return None

    def _overlaps(self, src: str, tgt: str) -> bool:
        if self._label_side != 0:
            has_src = self._forms[0](src) in self._held_out.src
            if self._label_side == 1 or has_src == (self._clean.overlap == "either"):
                return has_src
        return self._forms[1](tgt) in self._held_out.tgt


def _length(text: str, density: float) -> float:
    """Return the length of a text, plus an offset; characters beyond ASCII count as `density` characters."""
    length = _RATIO_OFFSET + len(text)
    if density == 1:
        return length
    return length + (density - 1) * (len(text) - len(text.encode("ascii", "ignore")))


class LineCleaner:
    """A cleaner of one source of monolingual text, which applies `data.clean` and `data.max_chars` to each line."""

    def __init__(
        self, config: DataConfig, language: str, held_out: Iterable[str], letters: Mapping[str, str] | None = None
    ) -> None:
        """`held_out`: the lines of all development and test sets in the language; letters: see `usual_forms`.

        Raises DataError if a package or file that the settings need is missing.
        """
        clean = CorpusClean().over(config.clean)
        self._max_chars = config.max_chars
        self._compared = _form_of(clean.overlap, language)
        self._repairs = repairs(clean)
        self._repairs.append(("letters", partial(write, forms=letters or {})))
        lines = {line.strip() for line in held_out}
        self._held_out = set(map(self._compared, lines.union(_repaired(lines, self._repairs))))
        self.report = CleanReport()
        """The counts so far; the second side of each sample is empty."""
        blocked = block_lists(clean, [language], text_folder(config.root))
        self._tests = list(side_tests(clean, language, blocked, self.report.mix))

    def clean(self, line: str) -> str | None:
        """Return the line stripped and repaired, or None if it is dropped; count it in either case.

        A blank line, which ends a document, is counted as dropped but returned as an empty text.
        """
        report = self.report
        report.read += 1
        text = self.repaired(line.strip())
        reason = self.reason(text)
        if reason is None:
            report.kept += 1
            return text
        report.drop(reason, report.read, text, "")
        return "" if reason == "blank" else None

    def repaired(self, text: str) -> str:
        """Apply all repairs to a stripped line, count them, and return the line."""
        for kind, repair in self._repairs:
            repaired = repair(text).strip()
            if repaired != text:
                self.report.repair(kind, self.report.read, text, repaired)
                text = repaired
        return text

    def reason(self, text: str) -> str | None:
        """Return the reason for dropping a stripped and repaired line, or None if the line is kept."""
        if is_blank(text):
            return "blank"
        if self._compared(text) in self._held_out:
            return "overlap"
        if has_control(text):
            return "control"
        if len(text) > self._max_chars:
            return "long"
        return next((reason for reason, is_bad in self._tests if is_bad(text)), None)


class SeenLines:
    """The set of lines seen so far, each stored as an 8-byte hash."""

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.uint64]] = []  # sorted, each at least twice as long as the next

    def add(self, lines: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Add lines (N,), and return for each whether it is new (N,)."""
        digests = b"".join(hashlib.blake2b(line.encode(), digest_size=8).digest() for line in lines)
        hashes, firsts = np.unique(np.frombuffer(digests, np.uint64), return_index=True)
        is_new = np.ones(len(hashes), np.bool_)
        for run in self._runs:
            is_new &= run[np.minimum(np.searchsorted(run, hashes), len(run) - 1)] != hashes
        self._insert(hashes[is_new])
        result = np.zeros(len(lines), np.bool_)
        result[firsts[is_new]] = True
        return result

    def _insert(self, hashes: npt.NDArray[np.uint64]) -> None:
        if len(hashes):
            self._runs.append(hashes)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]))
