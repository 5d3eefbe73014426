"""Cleaning of monolingual text: the repairs, and the reasons of `nmt.prepare.cleaning.cleaner` that concern a side."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from nmt.config import DataConfig
from nmt.config.clean import CorpusClean
from nmt.prepare.cleaning.counts import CleanReport
from nmt.prepare.cleaning.filters import side_tests
from nmt.prepare.cleaning.normal_form import normal_form
from nmt.prepare.cleaning.repairs import repairs
from nmt.prepare.sources import text_folder
from nmt.text.tokenizer import CONTROL


class LineCleaner:
    """Cleans the lines of one source, one by one, as `data.clean` and `data.max_chars` have it."""

    def __init__(self, config: DataConfig, language: str, held_out: Iterable[str]) -> None:
        """`held_out`: the lines of all development and test sets in the language.

        Raises DataError if a package or file that the settings need is missing.
        """
        clean = CorpusClean().over(config.clean)
        self._max_chars = config.max_chars
        self._compared = normal_form if clean.overlap == "normal" else str
        self._held_out = {self._compared(line.strip()) for line in held_out}
        self._repairs = repairs(clean)
        self.report = CleanReport()
        """The counts so far; of the two sides of its samples, the second is empty."""
        self._tests = list(side_tests(clean, language, text_folder(config.root), self.report.mix))

    def clean(self, line: str) -> str | None:
        """Return a line stripped and repaired, empty if it is blank, or None if it is dropped for another reason; count
        it in any case."""
        report = self.report
        report.read += 1
        text = line.strip()
        for kind, repair in self._repairs:
            repaired = repair(text).strip()
            if repaired != text:
                report.repair(kind, report.read, text, repaired)
                text = repaired
        reason = self._reason(text)
        if reason is None:
            report.kept += 1
            return text
        report.drop(reason, report.read, text, "")
        return "" if reason == "blank" else None

    def _reason(self, text: str) -> str | None:
        if not text:
            return "blank"
        if self._compared(text) in self._held_out:
            return "overlap"
        if not text.isprintable() and CONTROL.search(text):
            return "control"
        if len(text) > self._max_chars:
            return "long"
        return next((reason for reason, is_bad in self._tests if is_bad(text)), None)


class SeenLines:
    """The lines seen so far, as hashes in 8 bytes each."""

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.uint64]] = []  # sorted, each at least twice as long as the next

    def add(self, lines: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Add lines (N,). Returns which of them were not seen before, (N,)."""
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
