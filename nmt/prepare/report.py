"""What `prepare` shows on the screen when it is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nmt.prepare.clean import counted
from nmt.text.tokenizer import Tokenizers

UNSPACED = {"zh", "ja", "th", "lo", "km", "my", "bo", "dz", "yue", "wuu"}  # written without spaces between words
LONG_WORD = 12  # characters: where the mean is longer, spaces do not stand between words, whatever the language is


def table(
    splits: Mapping[str, dict[str, Any]],
    sources: Mapping[str, dict[str, Any]],
    tokenizers: Tokenizers,
    asked: int | None,
) -> Iterator[str]:
    """The lines of the report on the `splits` and `sources` of a manifest.

    asked: the vocabulary size of the config, None if the vocabulary was taken from elsewhere.
    """
    rows = {name: split["clean"] for name, split in splits.items()}
    corpora = {f"  {key} {record['corpus']}": record for key, record in sources.items() if key.startswith("train.")}
    if len(corpora) > 1:
        rows = {"train": rows["train"], **corpora, **rows}
    width = max(map(len, rows))
    yield f"{'split':<{width}}  {'read':>11}  {'kept':>11}  {'dropped':>11}"
    for name, row in rows.items():
        read, kept = row["read"], row["kept"]
        yield f"{name:<{width}}  {read:>11,}  {kept:>11,}  {read - kept:>11,}  {counted(row['dropped'])}".rstrip()
    if split_off := splits["valid"].get("split_off"):
        yield _told_of(split_off, splits["valid"]["pairs"])
    for group in [tokenizers.languages] if tokenizers.joint else [(name,) for name in tokenizers.languages]:
        size, how = len(tokenizers[group[0]]), ""
        if asked is None:
            how = ", not learned from this text"
        elif size < asked:
            how = f": this text has no more to merge, {asked:,} were asked for"
        yield f"vocabulary: {size:,} pieces for {' and '.join(group)}{how}"
    for language, counts in splits["train"]["text"].items():
        yield f"{language}: {_length_of_pieces(language, counts)}"
    for name, split in splits.items():
        if "round_trip" in split:
            trip = split["round_trip"]
            control = f"; {trip['control']:,} with control characters do not" if trip["control"] else ""
            yield f"{name}: {trip['exact']:,} lines come back exactly from their pieces (BLEU 100.0){control}"


def _length_of_pieces(language: str, counts: Mapping[str, int]) -> str:
    """Into how many pieces a word is cut, or how many characters a piece has where words are not told apart."""
    words, characters, pieces = counts["words"], counts["characters"], counts["pieces"]
    if language.lower().split("_")[0] in UNSPACED or characters > LONG_WORD * words:
        length = f"{characters / pieces:.2f} characters per piece"
    else:
        length = f"{pieces / words:.2f} pieces per word"
    shares = f"{counts['bytes'] / pieces:.2%} are single bytes, {counts['unknown'] / pieces:.2%} unknown"
    return f"{length}; of the pieces {shares}"


def _told_of(split_off: Mapping[str, Any], n_pairs: int) -> str:
    """The line about a development set that was split off the training text."""
    asked = split_off["asked"]
    how = f"a share of {asked:g}" if isinstance(asked, float) else f"{asked:,} lines"
    if isinstance(asked, int) and n_pairs < asked:
        how += ", but at most a tenth; a share, such as 0.2, may be more"
    left_out = f"; {split_off['left_out']:,} that share a side with them were left out" if split_off["left_out"] else ""
    return (
        f"valid: {n_pairs:,} of {split_off['of']:,} training pairs, split off by a hash of their text ({how}){left_out}"
    )
