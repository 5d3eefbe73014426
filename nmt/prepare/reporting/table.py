"""The report that `prepare` prints when it is done."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from nmt.data.manifest import SourceRecord
from nmt.prepare.cleaning.reasons import REPAIRS, counted
from nmt.prepare.records import CleanRecord, PreparedSplit, SplitOffRecord, TextRecord
from nmt.text.tokenizer import Tokenizers

UNSPACED = {"zh", "ja", "th", "lo", "km", "my", "bo", "dz", "yue", "wuu"}  # written without spaces between words
LONG_WORD = 12  # characters; with a longer mean, spaces do not separate words, whatever the language code

COLUMNS = 100
"""Width of the report on the screen, which long names and messages exceed."""
_WIDEST_NAME = 40
_MOST_LABELS = 12  # that are shown


def table(
    splits: Mapping[str, PreparedSplit],
    sources: Mapping[str, SourceRecord],
    tokenizers: Tokenizers,
    asked: int | None,
) -> Iterator[str]:
    """Yield the lines of the report.

    asked: the vocabulary size of the config, None if the vocabulary was taken from another directory.
    """
    rows: dict[str, CleanRecord | SourceRecord] = {name: split.clean for name, split in splits.items()}
    corpora = {f"  {key} {record.corpus}": record for key, record in sources.items() if key.startswith("train.")}
    if len(corpora) > 1:
        rows = {"train": rows["train"], **corpora, **rows}
    rows |= {f"{key} {record.corpus}": record for key, record in sources.items() if key.startswith("mono.")}
    yield from count_lines({name: (row.read or 0, row.kept or 0, row.dropped or {}) for name, row in rows.items()})
    for key, record in sources.items():
        if record.skipped:
            reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(record.skipped.items()))
            yield f"{key} {record.corpus}: units that are not one pair: {reasons}"
        if record.repaired:
            kinds = ", ".join(
                f"{name} {record.repaired[kind]:,}" for kind, name in REPAIRS.items() if kind in record.repaired
            )
            yield f"{key} {record.corpus}: repaired: {kinds}"
    if split_off := splits["valid"].split_off:
        yield _split_off_line(split_off, splits["valid"].pairs)
    for name, split in splits.items():
        if split.classes:
            yield f"{name}: {_shares(split.classes)}"
    languages = tuple(sorted(tokenizers.by_language))
    for group in [languages] if tokenizers.joint else [(name,) for name in languages]:
        size, how = len(tokenizers[group[0]]), ""
        if asked is None:
            how = ", not learned from this text"
        elif size < asked:
            how = f": this text has no more to merge, {asked:,} were requested"
        yield f"vocabulary: {size:,} pieces for {' and '.join(group)}{how}"
    for language, counts in splits["train"].text.items():
        yield f"{language}: {length_of_pieces(language, counts)}"
    for name, split in splits.items():
        if trip := split.round_trip:
            control = f"; {trip.control:,} with control characters do not" if trip.control else ""
            yield f"{name}: {trip.exact:,} lines come back exactly from their pieces (BLEU 100.0){control}"


def count_lines(rows: Mapping[str, tuple[int, int, Mapping[str, int]]]) -> Iterator[str]:
    """Yield a table of pairs read, kept and dropped with the reasons, which stand below if the line gets too long."""
    width = min(max(map(len, rows)), _WIDEST_NAME)
    yield f"{'split':<{width}}  {'read':>11}  {'kept':>11}  {'dropped':>11}"
    for name, (read, kept, dropped) in rows.items():
        if len(name) > width:
            yield name
            name = ""
        counts = f"{name:<{width}}  {read:>11,}  {kept:>11,}  {read - kept:>11,}"
        line = f"{counts}  {counted(dropped)}".rstrip()
        if len(line) <= COLUMNS:
            yield line
        else:
            yield counts
            reasons = counted(dropped).replace(" ", "\0").replace(",\0", ", ")  # lines break between reasons only
            for part in textwrap.wrap(reasons, COLUMNS - 4, break_on_hyphens=False):
                yield f"    {part}".replace("\0", " ")


def length_of_pieces(language: str, counts: TextRecord) -> str:
    """Format pieces per word, or characters per piece where spaces do not separate words, and shares of odd pieces."""
    if language.lower().split("_")[0] in UNSPACED or counts.characters > LONG_WORD * counts.words:
        length = f"{counts.characters / counts.pieces:.2f} characters per piece"
    else:
        length = f"{counts.pieces / counts.words:.2f} pieces per word"
    single, unknown = counts.bytes / counts.pieces, counts.unknown / counts.pieces
    return f"{length}; of the pieces {single:.2%} are single bytes, {unknown:.2%} unknown"


def _shares(classes: Mapping[str, int]) -> str:
    """Format how many pairs have which label, the most frequent labels first."""
    most = sorted(classes, key=lambda label: -classes[label])
    shown = ", ".join(f"{label} {classes[label]:,} ({classes[label] / sum(classes.values()):.1%})"
                      for label in most[:_MOST_LABELS])  # fmt: skip
    more = f" and {len(most) - _MOST_LABELS:,} more" if len(most) > _MOST_LABELS else ""
    return f"{len(most):,} labels, {shown}{more}"


def _split_off_line(split_off: SplitOffRecord, n_pairs: int) -> str:
    asked = split_off.asked
    how = f"a share of {asked:g}" if isinstance(asked, float) else f"{asked:,} lines"
    if isinstance(asked, int) and n_pairs < asked:
        how += ", but at most a tenth; a share, such as 0.2, may be more"
    left_out = f"; {split_off.left_out:,} that share a side with them were left out" if split_off.left_out else ""
    return f"valid: {n_pairs:,} of {split_off.of:,} training pairs, split off by a hash of their text ({how}){left_out}"
