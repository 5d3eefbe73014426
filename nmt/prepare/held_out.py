"""Development and test sets: read and checked, or split off the training text by a hash of each pair.

The choice does not depend on the order of the pairs. As the text grows, a share keeps all its pairs; a number of lines
takes those with the smallest hashes, so a pair is replaced only by a new one whose hash is smaller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nmt.console import printable
from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import HINTS
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.prepare.pipeline.encode import write_side
from nmt.prepare.records import CleanRecord, PreparedSplit, RoundTripRecord
from nmt.text.block_encoder import BlockEncoder
from nmt.text.labels import Labels
from nmt.text.lines import bounded_list
from nmt.text.tokenizer import CONTROL, Tokenizers

MOST_LINES = 100_000
"""Maximum size of a development set that is split off, which is held in memory."""

_LARGEST_PART = 10  # a number of lines is at most a tenth of the pairs


class Draw:
    """Selects pairs by their hashes."""

    def __init__(self, amount: int | float) -> None:
        """`amount`: a number of pairs (int), or a share of all (float)."""
        self._amount = amount
        self._hashes = np.zeros(0, np.uint64)
        self._places = np.zeros((0, 2), np.int64)  # part, row
        self.n_offered = 0

    def offer(self, part: int, rows: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64]) -> None:
        """Consider rows (N,) of a part of the text; `hashes` (N,): the first eight bytes of the pairs' hashes.

        Raises DataError if a share exceeds MOST_LINES pairs.
        """
        self.n_offered += len(rows)
        if isinstance(self._amount, float):
            is_below = hashes < np.uint64(int(self._amount * 2**64))
            rows, hashes = rows[is_below], hashes[is_below]
        self._hashes = np.concatenate([self._hashes, hashes])
        self._places = np.concatenate([self._places, np.stack([np.full(len(rows), part, np.int64), rows], axis=1)])
        if isinstance(self._amount, int):
            self._keep(self._amount)
        elif len(self._hashes) > MOST_LINES:
            raise DataError(
                f"data.valid: a share of {self._amount:g} is more than {MOST_LINES:,} pairs of this text, which "
                "no development set needs; take a smaller share or a number of lines"
            )

    def _keep(self, n: int) -> None:
        """Keep the `n` smallest hashes; of equal ones, the first."""
        order = np.argsort(self._hashes, kind="stable")[:n]
        self._hashes, self._places = self._hashes[order], self._places[order]

    def chosen(self) -> dict[int, list[int]]:
        """Return the rows of the development set by part, in the order of the text.

        Raises DataError if it is empty, but for a text without pairs, which `refuse_empty` refuses.
        """
        if isinstance(self._amount, int):
            self._keep(max(1, self.n_offered // _LARGEST_PART))
        if self.n_offered and not len(self._places):
            raise DataError(
                f"data.valid: a share of {self._amount:g} of {self.n_offered:,} pairs is less than one pair; "
                "use a larger share, or a number of pairs"
            )
        rows: dict[int, list[int]] = {}
        for part, row in sorted(map(tuple, self._places.tolist())):
            rows.setdefault(part, []).append(row)
        return rows


def read_held_out(sources: Mapping[str, OpenSource]) -> tuple[dict[str, list[SentencePair]], list[str]]:
    """Read the development and test sets among the sources, by their keys, and warn of suspicious content.

    Raises DataError if one is empty.
    """
    held_out, warnings = {}, list[str]()
    for key, source in sources.items():
        if key.startswith("train."):
            continue
        pairs = held_out[key] = bounded_list(source.pairs(), f"data.{key}")
        corpus = source.record.corpus
        if not pairs:
            raise DataError(f"data.{key}: {corpus} is empty: 0 pairs were read")
        if not any(pair.src.strip() and pair.tgt.strip() for pair in pairs):
            raise DataError(f"data.{key}: {corpus} has no pair with text on both sides, only blank lines")
        if all(pair.src == pair.tgt for pair in pairs):
            warnings.append(f"data.{key} ({corpus}): {HINTS['copied']}")
    return held_out, warnings


def write_held_out(
    directory: DataDir, name: str, pairs: Sequence[SentencePair], tokenizers: Tokenizers
) -> PreparedSplit:
    """Write text and ids of a development or test set. Raises DataError unless the ids decode to the text, and for a
    label that the training text does not have."""
    exact = control = 0
    text, classes = {}, Counter[str]()
    for side, language in enumerate(tokenizers.languages):
        tokenizer, lines = tokenizers.side(language), [str(pair[side]) for pair in pairs]
        if isinstance(tokenizer, Labels):
            _check_labels(name, lines, tokenizer)
            classes.update(line.strip() for line in lines)
            write_side(directory, name, language, _raw(lines), BlockEncoder(tokenizer).encode(lines))
            continue
        encoded = BlockEncoder(tokenizer).encode(lines)
        text[language] = write_side(directory, name, language, _raw(lines), encoded)
        starts = [0, *encoded.ends.tolist()]
        for row, line in enumerate(lines):
            if CONTROL.search(line):
                control += 1
            elif tokenizer.decode(encoded.ids[starts[row] : starts[row + 1]].tolist()) == line:
                exact += 1
            else:
                raise DataError(f"{name}.{language}, line {row + 1}: the tokenizer does not decode it to the same text")
    clean = CleanRecord(read=len(pairs), kept=len(pairs), dropped={})
    round_trip = RoundTripRecord(lines=len(text) * len(pairs), exact=exact, control=control)
    split = PreparedSplit(pairs=len(pairs), clean=clean, text=text, round_trip=round_trip)
    return with_classes(split, classes, tokenizers.labels)


def with_classes(split: PreparedSplit, classes: Mapping[str, int], labels: Labels | None) -> PreparedSplit:
    """Return a split with its number of pairs by label, in the order of the labels; as it is if there are none."""
    if labels is None:
        return split
    return split.model_copy(update={"classes": {label: classes.get(label, 0) for label in labels.names}})


def _check_labels(split: str, lines: Sequence[str], labels: Labels) -> None:
    for number, line in enumerate(lines, start=1):
        if line not in labels:
            raise DataError(
                f"{split}, line {number}: the label {printable(line.strip()[:40])!r} is not in the training text, "
                f"which has {printable(labels.shown())}; leave such lines out, or add some to data.train"
            )


def _raw(lines: Sequence[str]) -> list[bytes]:
    return [f"{line}\n".encode() for line in lines]
