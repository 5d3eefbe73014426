"""Development and test sets: read, checked, and written as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.prepare.cleaning.reasons import HINTS
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.prepare.pipeline.encode import write_side
from nmt.prepare.records import CleanRecord, PreparedSplit, RoundTripRecord
from nmt.text.block_encoder import BlockEncoder
from nmt.text.lines import bounded_list
from nmt.text.tokenizer import CONTROL, Tokenizers


def read_held_out(sources: Mapping[str, OpenSource], warnings: list[str]) -> dict[str, list[SentencePair]]:
    """Read the development and test sets among the sources, by their keys; what is odd is added to the warnings.

    Raises DataError if one is empty.
    """
    held_out = {}
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
    return held_out


def write_held_out(
    directory: DataDir, name: str, pairs: Sequence[SentencePair], tokenizers: Tokenizers
) -> PreparedSplit:
    """Write text and ids of a development or test set. Raises DataError unless the ids decode to the text."""
    exact = control = 0
    text = {}
    for side, language in enumerate(tokenizers.languages):
        tokenizer, lines = tokenizers[language], [str(pair[side]) for pair in pairs]
        encoded = BlockEncoder(tokenizer).encode(lines)
        text[language] = write_side(directory, name, language, [f"{line}\n".encode() for line in lines], encoded)
        starts = [0, *encoded.ends.tolist()]
        for row, line in enumerate(lines):
            if CONTROL.search(line):
                control += 1
            elif tokenizer.decode(encoded.ids[starts[row] : starts[row + 1]].tolist()) == line:
                exact += 1
            else:
                raise DataError(f"{name}.{language}, line {row + 1}: the tokenizer does not decode it to the same text")
    clean = CleanRecord(read=len(pairs), kept=len(pairs), dropped={}, samples={})
    round_trip = RoundTripRecord(lines=2 * len(pairs), exact=exact, control=control)
    return PreparedSplit(pairs=len(pairs), clean=clean, text=text, round_trip=round_trip)
