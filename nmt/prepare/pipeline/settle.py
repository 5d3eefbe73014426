"""The cleaned training text, without dropped pairs and without the development set that is split off from it.

This module runs the stages from `clean` to `settle`. The latter writes the remaining text of each part.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from nmt.console import Progress, printable
from nmt.data.corpus import Corpus
from nmt.data.random_numbers import Hashes, hashed, key_of
from nmt.data.settings import DataConfig
from nmt.errors import DataError
from nmt.languages.directions import LABEL, LanguagePair
from nmt.prepare.cleaning.counts import CleanReport, refuse_empty, skipped_units, total
from nmt.prepare.pairs import SentencePair
from nmt.prepare.pipeline.clean import (
    HELD_OUT,
    NO_OTHERS,
    Others,
    clean_parts,
    cleaning_settings,
    comparable_lines,
    group_parts,
    judge_parts,
    write_hashes,
    write_pairs,
)
from nmt.prepare.pipeline.read import Part, ReadText, Skipped, read_pairs, read_side, read_sides, write_sides
from nmt.prepare.pipeline.work import SIDES, Drops, Rows, Work, block_starts, follows, part_folder
from nmt.prepare.recipe import block_lists
from nmt.tasks.perform import Done, Json
from nmt.text.letters import write
from nmt.text.pairing import N_PAIRS, Place, Sample, at_intervals
from nmt.text.split import n_sentences
from nmt.text.tokenizer import is_blank
from nmt.text.vocabularies import Labels
from nmt.text.words import beginning

SPLIT_OFF = "split-off"
"""The folder of the development set that is split off."""
_SHOWN = 60  # characters of a text in a message


@dataclass(frozen=True)
class TrainingText:
    """The cleaned training text, in parts."""

    parts: list[Part]
    settled: list[Done]
    reports: dict[str, CleanReport]
    """By the key of the source."""
    skipped: Skipped
    """See `ReadText`."""
    warnings: list[str]
    labels: Labels | None
    """The labels of the text, if it has labels in place of translations."""

    def samples(self) -> dict[str, Sample]:
        """Return a sample of each source, by its key."""
        placed: dict[str, list[Any]] = {}
        for part, done in zip(self.parts, self.settled, strict=True):
            pairs_and_places = json.loads((done.folder / "samples.json").read_bytes())
            placed.setdefault(part.key, []).extend(zip(*pairs_and_places, strict=True))
        return {key: Sample.of_placed(pairs) for key, pairs in placed.items()}


@dataclass(frozen=True)
class ChosenText:
    """The cleaned training corpora, and what will be dropped from them or split off."""

    parts: list[Part]
    skipped: Skipped
    cleaned: list[Done]
    drops: Drops
    warnings: list[str]
    split_off: dict[str, list[SentencePair]]
    """The development and test sets that were split off, by name."""
    rows: dict[int, dict[int, str]]
    """The rows of each part that were split off, with the reasons for which they are dropped."""
    n_offered: Counter[str]
    """Number of pairs from which each set was chosen."""


def choose_training_text(
    work: Work,
    config: DataConfig,
    text: ReadText,
    held_out: Sequence[SentencePair],
    earlier: Corpus | None = None,
    elsewhere: Others = NO_OTHERS,
) -> ChosenText:
    """Clean training corpora that have been read into parts, and find duplicates.

    Args:
        earlier: the data directory to which the corpora are added, if any.
        elsewhere: held-out lines of other pairs of languages.
    """
    folder = write_pairs(work, HELD_OUT, held_out, elsewhere)
    work.versions["block lists"] = json.dumps(block_lists(config))
    cleaned = clean_parts(work, config, text.parts, folder)
    recalled = [] if earlier is None else _recall_parts(work, config, earlier)
    drops, warnings = judge_parts(work, config, text.parts, cleaned, group_parts(work, config, [*cleaned, *recalled]))
    return ChosenText(text.parts, text.skipped, cleaned, drops, warnings, {}, {}, Counter())


def pairs_of(corpus: Corpus, split: str) -> list[SentencePair]:
    """Return the pairs of a split of a data directory."""
    src, tgt = map(corpus.split(split).text, corpus.languages)
    return [SentencePair(*pair, "") for pair in zip(src, tgt, strict=True)]


def settle_chosen(work: Work, config: DataConfig, text: ChosenText, elsewhere: Others = NO_OTHERS) -> TrainingText:
    """Write the remaining text of each part, without what has been split off, here or `elsewhere`. Raises DataError."""
    folders = None
    if text.split_off or any(elsewhere):
        held_out = list(chain.from_iterable(text.split_off.values()))
        folders = write_pairs(work, SPLIT_OFF, held_out), write_pairs(work, f"{SPLIT_OFF}-others", [], elsewhere)
    version = work.version(*work.versions)
    letters = [work.letters.get(language, {}) for language in config.pair]
    arguments = [
        _Settling(
            part=number, report=done.summary, drops=text.drops, split_off=folders, rows=text.rows.get(number, {}),
            version=version, languages=config.pair, letters=letters,
        )
        for number, done in enumerate(text.cleaned)
    ]  # fmt: skip
    settled = work.run_stage("settle", "settling", settle_part, arguments, version)
    of_parts = [CleanReport.from_json(done.summary) for done in settled]
    reports = by_source(text.skipped, text.parts, of_parts)
    skipped = []
    for key, counts in text.skipped.items():
        if counts:
            source = config.train_sources[key]
            skipped.append(skipped_units(f"{key} {source.label}", counts))
    refuse_empty(total(reports.values()), skipped)
    labels, conflicts = _read_labels(config, settled)
    return TrainingText(text.parts, settled, reports, text.skipped, text.warnings + conflicts, labels)


def by_source(keys: Iterable[str], parts: Sequence[Part], reports: Sequence[CleanReport]) -> dict[str, CleanReport]:
    """Add up the reports of the parts of each source. Return them by the keys of the sources."""
    totals = {key: CleanReport() for key in keys}
    for part, report in zip(parts, reports, strict=True):
        totals[part.key].add(report)
    return totals


class _Recalling(BaseModel):
    config: DataConfig
    sides: list[Path]
    """The files with the text of both sides."""
    follows: Path | None
    """The file that says which pair follows the one before it, with `data.documents`."""


def _recall_parts(work: Work, config: DataConfig, earlier: Corpus) -> list[Done]:
    """Hash the pairs of an earlier data directory, in further tasks of the stage `clean`."""
    settings = cleaning_settings(config)
    arguments = []
    for shard in earlier.manifest.splits["train"].shards or []:
        sides = [earlier.directory.text(shard.name, language) for language in config.pair]
        order = earlier.directory.follows(shard.name) if config.documents else None
        arguments.append(_Recalling(config=settings, sides=sides, follows=order))
    return work.run_stage("clean", "comparing with earlier text", recall_shard, arguments, earlier.fingerprint)


def recall_shard(folder: Path, task: _Recalling) -> Json:
    """Write the hashes of the pairs of a shard, with a score above all others, so that none of them is dropped."""
    src, tgt = (side.read_bytes().decode().split("\n")[:-1] for side in task.sides)
    order = np.zeros(len(src), np.bool_) if task.follows is None else np.load(task.follows).astype(np.bool_)
    write_hashes(folder, task.config, (src, tgt), np.full(len(src), np.inf, np.float32), order)
    return {"kept": len(src), "pairs": len(src)}


MOST_LINES = 100_000
"""Maximum size of a development set that is split off, which is held in memory."""
_LARGEST_PART = 10  # a number of lines is at most a tenth of the pairs


class Draw:
    """The choice of a development set by the hashes of the pairs.

    The choice does not depend on the order of the pairs. As the text grows, a share keeps all its pairs; a number of
    lines takes those with the smallest hashes, so a pair is replaced only by a new one whose hash is smaller.
    """

    def __init__(self, amount: int | float, ties: bool = False) -> None:
        """`amount`: a number of pairs (int), or a share of all pairs (float). `ties`: whether all pairs of equal hashes
        are chosen, even if there are more than `amount`."""
        self._amount = amount
        self._ties = ties
        self._hashes = np.zeros(0, np.uint64)
        self._places = np.zeros((0, 2), np.int64)  # part, row
        self.n_offered = 0

    def offer(self, part: int, rows: Rows, hashes: Hashes) -> None:
        """Consider rows (N,) of a part for the development set; `hashes` (N,): the first half of the hash of each pair.

        Raises DataError if a share exceeds MOST_LINES pairs.
        """
        self.n_offered += len(rows)
        if isinstance(self._amount, float):
            is_below = hashes < np.uint64(int(self._amount * 2**64))
            rows = rows[is_below]
            hashes = hashes[is_below]
        self._hashes = np.concatenate([self._hashes, hashes])
        self._places = np.concatenate([self._places, np.stack([np.full(len(rows), part, np.int64), rows], axis=1)])
        if isinstance(self._amount, int):
            self._keep(self._amount)
        elif len(self._hashes) > MOST_LINES:
            raise DataError(
                f"data.valid: a share of {self._amount:g} is more than {MOST_LINES:,} pairs of this text, which "
                "no development set needs; use a smaller share, or a number of pairs"
            )

    def _keep(self, n: int) -> None:
        """Keep the `n` smallest hashes; of equal hashes, the first ones."""
        order = np.argsort(self._hashes, kind="stable")
        if self._ties and n < len(order):
            n = int(np.searchsorted(self._hashes[order], self._hashes[order[n - 1]], side="right"))
        order = order[:n]
        self._hashes = self._hashes[order]
        self._places = self._places[order]

    def chosen(self) -> dict[int, list[int]]:
        """Return the rows of the development set by part, in the order of the text.

        Raises DataError if the set is empty, except for a text without pairs, which `refuse_empty` rejects.
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


def split_off(text: ChosenText, config: DataConfig, by_line: bool) -> None:
    """Choose the development and test sets that the config draws from the remaining pairs, and record them in `text`.

    Pairs that share a line with those chosen before are left out, unless documents stay whole or there are labels.

    by_line: whether pairs are chosen by their numbers in the corpus instead of their text, so that the sets are the
    same for all pairs of languages of a corpus.
    """
    for split, amounts in config.drawn.items():
        for corpus, amount in amounts.items():
            draw = Draw(amount, ties=config.documents)
            blocks = _offer(draw, text, corpus, config.documents, by_line)
            taken = set[str]()
            if not config.documents and not config.has_labels:
                for pair in chain.from_iterable(text.split_off.values()):
                    taken.update(pair[:2])
            chosen = text.split_off.setdefault(split, [])
            for part, rows in draw.chosen().items():
                pairs = list(read_pairs(text.cleaned[part].folder))
                rows = [row for row in rows if taken.isdisjoint(pairs[row])]
                chosen += [SentencePair(*pairs[row], "", None, part << 32 | int(blocks[part][row])) for row in rows]
                reason = "valid" if split == "valid" else "test"
                text.rows.setdefault(part, {}).update(dict.fromkeys(rows, reason))
            text.n_offered[split] += draw.n_offered


def _offer(draw: Draw, text: ChosenText, corpus: str, documents: bool, by_line: bool) -> dict[int, Rows]:
    """Offer the remaining pairs of a corpus to a draw. Return by part the first row of the block of each row."""
    blocks = {}
    parts = [number for number, part in enumerate(text.parts) if corpus in ("train", part.key)]
    with Progress("splitting off", sum(text.cleaned[part].summary["kept"] for part in parts), "pairs") as progress:
        for part in parts:
            done = text.cleaned[part]
            left = text.drops.left(part, done.summary["kept"])
            left = np.setdiff1d(left, [*text.rows.get(part, {})])
            hashes = np.load(done.folder / "hashes.npy")
            if by_line:  # of the corpus and the line number, which are the same in all languages of the corpus
                hashes = hashed(key_of(_hash(text.parts[part].corpus)), np.load(done.folder / "lines.npy"))
            blocks[part] = np.arange(len(hashes))
            if documents:
                numbers = np.load(done.folder / "lines.npy")
                order = follows(numbers[left], np.load(done.folder / "documents.npy")[left])
                blocks[part][left] = left[block_starts(order)]
            draw.offer(part, left, hashes[blocks[part][left]])
            progress.add(done.summary["kept"])
    return blocks


class _Settling(BaseModel):
    part: int
    report: Json
    """The report of cleaning."""
    drops: Drops
    split_off: tuple[Path, Path] | None
    """The folders with the development set that was split off, and with the development sets of other pairs."""
    rows: dict[int, str]
    """The rows of the part that were split off, with the reasons."""
    version: str
    languages: LanguagePair
    letters: list[dict[str, str]]
    """The forms of letters in which each side is written; see `Work`."""


def settle_part(folder: Path, task: _Settling) -> Json:
    """Write the remaining text of a part, with its line numbers and hashes, and a sample.

    Return the report, with the pairs that all stages have dropped.
    """
    text = part_folder(task.drops.work, "clean", task.part)
    sides = [*read_sides(text)]
    lines = np.load(text / "lines.npy")
    hashes = np.load(text / "hashes.npy")
    reason_of = dict[int, str]()
    for reason, rows in task.drops.by_reason(task.part).items():
        reason_of |= dict.fromkeys(rows.tolist(), reason)
    if task.split_off is not None:
        held_out = [*_sides(*task.split_off, task.version, task.languages)]
        if LABEL in task.languages:
            held_out[task.languages.index(LABEL)] = set()  # an equal label is no overlap
        for row, (src, tgt) in enumerate(zip(*map(comparable_lines, sides, task.languages), strict=True)):
            if row not in reason_of and (src in held_out[0] or tgt in held_out[1]):
                reason_of[row] = task.rows.get(row, "shared")  # documents may have equal pairs
    report = CleanReport.from_json(task.report)
    for side, forms in enumerate(task.letters):
        if forms:
            sides[side] = [write(line, forms) for line in sides[side]]
            for row, line in enumerate(sides[side]):
                if is_blank(line):
                    reason_of.setdefault(row, "empty")
    for row in sorted(reason_of):
        report.kept -= 1
        report.drop(reason_of[row], int(lines[row]), sides[0][row], sides[1][row])
    is_left = np.ones(len(lines), np.bool_)
    is_left[list(reason_of)] = False
    left = np.flatnonzero(is_left).tolist()
    placed = []
    for row in at_intervals(left, N_PAIRS):
        before, after = "", ""  # only of lines that follow each other in the corpus
        if row > 0 and lines[row - 1] == lines[row] - 1:
            before = sides[1][row - 1]
        if row + 1 < len(lines) and lines[row + 1] == lines[row] + 1:
            after = sides[1][row + 1]
        placed.append(((sides[0][row], sides[1][row]), Place(int(lines[row]), before, after)))
    sample = Sample.of_placed(placed)
    kept = sides
    if reason_of:
        kept = [[texts[row] for row in left] for texts in sides]
    write_sides(folder, kept)
    report.keep(lines[left], kept[0], kept[1])
    step = len(left) // 4096 + 1  # in a sample, because counting sentences takes long
    for line in kept[0][::step]:
        # in title case, because the sentences of a text in lower case begin so, too
        if n_sentences(line.title()) > 1:
            report.several += step
    np.save(folder / "lines.npy", lines[left])
    np.save(folder / "documents.npy", np.load(text / "documents.npy")[left])
    np.save(folder / "hashes.npy", hashes[left])
    (folder / "samples.json").write_text(json.dumps([sample.pairs, sample.places]), encoding="utf-8")
    return {**report.to_json(), "pairs": report.kept}


@lru_cache(maxsize=1)
def _sides(folder: Path, elsewhere: Path, version: str, languages: LanguagePair) -> tuple[set[str], set[str]]:
    """Return the two sides of the development set, with the development sets of other pairs of languages; `version`
    identifies the content of the folders."""
    del version
    src, tgt = (
        {*comparable_lines(read_side(folder, side) + read_side(elsewhere, side), language)}
        for side, language in zip(SIDES, languages, strict=True)
    )
    return src, tgt


def _read_labels(config: DataConfig, settled: Sequence[Done]) -> tuple[Labels | None, list[str]]:
    """Return the labels of the settled training text, and a warning if a text has several; None if the target is a
    language. Identical pairs have been dropped before.

    Raises DataError if there is only one label, or so many that they look like text.
    """
    side = config.label_side
    if side is None:
        return None, []
    names = set()
    of_parts = []
    for done in settled:
        names.update(read_side(done.folder, side))
        of_parts.append(np.array([_hash(text) for text in read_side(done.folder, 1 - side)], np.uint64))
    try:
        labels = Labels(names)
    except DataError as error:
        raise DataError(f"data.train: {error}") from error
    hashes = np.concatenate(of_parts)
    values, counts = np.unique(hashes, return_counts=True)
    n = int(np.count_nonzero(counts > 1))
    if n == 0:
        return labels, []
    row = int(np.flatnonzero(hashes == values[counts > 1][0])[0])
    lines = chain.from_iterable(read_side(done.folder, 1 - side) for done in settled)
    text = printable(beginning(next(islice(lines, row, None)), _SHOWN))
    have = "texts have" if n > 1 else "text has"
    return labels, [f"data.train: {n:,} {have} more than one label, such as {text!r}"]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
