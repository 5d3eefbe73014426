"""Development and test sets: reading, checking and encoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from nmt.console import printable
from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import HINTS, skipped_units
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.prepare.pipeline.clean import Others
from nmt.prepare.pipeline.encode import write_encoded
from nmt.prepare.pipeline.work import follows
from nmt.prepare.records import CleanRecord, PreparedSplit, RoundTripRecord
from nmt.text.blocks import BlockEncoder
from nmt.text.lines import bounded_list
from nmt.text.tokenizer import CONTROL, is_blank
from nmt.text.vocabularies import Labels, Tokenizers


def read_held_out(sources: Mapping[str, OpenSource]) -> tuple[dict[str, list[SentencePair]], list[str]]:
    """Return the pairs of the development and test sets by their keys, and warnings about skipped units and suspicious
    content.

    Raises DataError if one is empty.
    """
    held_out, warnings = {}, list[str]()
    for key, source in sources.items():
        if key.startswith("train."):
            continue
        pairs = held_out[key] = bounded_list(source.pairs(), f"data.{key}")
        name, skipped = f"data.{key} ({source.record.corpus})", source.units.skipped
        if not pairs:
            empty = f"{name}: 0 pairs were read"
            raise DataError(skipped_units(empty, skipped) if skipped else empty)
        if all(is_blank(pair.src) or is_blank(pair.tgt) for pair in pairs):
            raise DataError(f"{name}: no pair has text on both sides, only blank lines")
        if skipped:
            warnings.append(skipped_units(name, skipped))
        if all(pair.src == pair.tgt for pair in pairs):
            warnings.append(f"{name}: {HINTS['copied']}")
    return held_out, warnings


def held_out_elsewhere(pair: tuple[str, str], held_out: Mapping[tuple[str, str], Sequence[SentencePair]]) -> Others:
    """Return the distinct lines in the languages of a pair that are held out for other pairs of languages."""
    first, second = (
        {
            str(each[other.index(language)]): None
            for other, pairs in held_out.items()
            if other != pair and language in other
            for each in pairs
        }
        for language in pair
    )
    return [*first], [*second]


def write_held_out(
    directory: DataDir, name: str, pairs: Sequence[SentencePair], tokenizers: Tokenizers, documents: bool = False
) -> PreparedSplit:
    """Write the text, as the tokenizers read it, and ids of a development or test set; documents: whether also which
    pair follows another.

    Raises DataError if a lossless tokenizer does not restore the text, or a label is not in the training text.
    """
    if documents:
        order = follows(np.arange(len(pairs)), np.array([pair.document for pair in pairs]))
        np.save(directory.follows(name), order.view(np.uint8))
    exact = control = 0
    text, classes = {}, Counter[str]()
    for side, language in enumerate(tokenizers.languages):
        tokenizer = tokenizers.side(language)
        lines = [tokenizer.as_read(str(pair[side])) for pair in pairs]
        if isinstance(tokenizer, Labels):
            _check_labels(name, lines, tokenizer)
        encoded = BlockEncoder(tokenizer).encode(lines)
        record = write_encoded(directory, name, language, [f"{line}\n".encode() for line in lines], encoded)
        if isinstance(tokenizer, Labels):
            classes.update(line.strip() for line in lines)
            continue
        text[language] = record
        starts = [0, *encoded.ends.tolist()]
        for row, line in enumerate(lines):
            if CONTROL.search(line):
                control += 1
            elif tokenizer.decode(encoded.ids[starts[row] : starts[row + 1]].tolist()) == line:
                exact += 1
            elif tokenizer.is_lossless:
                raise DataError(
                    f"{name}.{language}, line {row + 1}: the tokenizer does not restore the line from its pieces"
                )
    clean = CleanRecord(read=len(pairs), kept=len(pairs), dropped={})
    round_trip = RoundTripRecord(lines=len(text) * len(pairs), exact=exact, control=control)
    split = PreparedSplit(pairs=len(pairs), clean=clean, text=text, round_trip=round_trip)
    return with_classes(split, classes, tokenizers.labels)


def with_classes(split: PreparedSplit, classes: Mapping[str, int], labels: Labels | None) -> PreparedSplit:
    """Return a split with its number of pairs for each label; without labels, the split itself."""
    if labels is None:
        return split
    return split.model_copy(update={"classes": {label: classes.get(label, 0) for label in labels.names}})


def _check_labels(split: str, lines: Sequence[str], labels: Labels) -> None:
    for number, line in enumerate(lines, start=1):
        if line not in labels:
            raise DataError(
                f"{split}, line {number}: the label {printable(line.strip()[:40])!r} is not in the training text, "
                f"which has {printable(labels.shown())}; remove such lines, or add examples to data.train"
            )
