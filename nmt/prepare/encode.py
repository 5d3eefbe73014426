"""Learn the vocabulary, and encode each split with it into the data directory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from nmt.config import DataConfig, TokenizerConfig
from nmt.console import Progress
from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import refuse_empty
from nmt.prepare.pairs import SentencePair
from nmt.prepare.records import CleanRecord, PreparedSplit, RoundTripRecord
from nmt.prepare.write import CleanedText, SplitWriter, samples_of
from nmt.text.tokenizer import CONTROL, Tokenizer, Tokenizers, train_tokenizer

_CHUNK = 20_000  # pairs encoded at a time
_TOKENIZER_LINES = 10_000_000  # SentencePiece holds its training text in memory


def train_tokenizers(config: TokenizerConfig, cleaned: CleanedText) -> Tokenizers:
    """Learn one joint vocabulary, or one per language, from the cleaned training text."""

    def train(*languages: str) -> Tokenizer:
        lines = itertools.chain.from_iterable(cleaned.lines(language) for language in languages)
        stride = -(-len(languages) * cleaned.report.kept // _TOKENIZER_LINES)
        alphabet = sum((cleaned.alphabet[language] for language in languages), Counter[str]())
        with Progress("learning a vocabulary") as progress:
            progress.say(f"learning a vocabulary for {' and '.join(languages)} …")  # SentencePiece reports no progress
            return train_tokenizer(itertools.islice(lines, 0, None, stride), config.vocab_size, alphabet)

    if config.joint:
        return Tokenizers(dict.fromkeys(cleaned.languages, train(*cleaned.languages)), joint=True)
    return Tokenizers({language: train(language) for language in cleaned.languages}, joint=False)


def encode_train(directory: DataDir, cleaned: CleanedText, tokenizers: Tokenizers, config: DataConfig) -> PreparedSplit:
    """Write text and ids of the training pairs, but for those with more than `data.max_pieces` pieces on a side."""
    repeats = [source.repeat for source in config.train]
    rows = cleaned.rows()
    progress = Progress("encoding", cleaned.report.kept, "pairs")
    with SplitWriter(directory, "train", tokenizers) as writer, progress:
        while chunk := list(itertools.islice(rows, _CHUNK)):
            lines = [[row.src for row in chunk], [row.tgt for row in chunk]]
            ids = _encode(lines, tokenizers)
            kept = []
            for i, row in enumerate(chunk):
                if max(len(ids[0][i]), len(ids[1][i])) <= config.max_pieces:
                    kept += [i] * repeats[row.source]
                    cleaned.reports[row.source].keep(row.line, row.src, row.tgt)
                else:
                    cleaned.drop(row, "pieces")
            writer.add([[side[i] for i in kept] for side in lines], [[side[i] for i in kept] for side in ids])
            progress.add(len(chunk))
    report = cleaned.report
    refuse_empty(report)
    samples = samples_of(cleaned.reports, [source.label for source in config.train], cleaned.languages)
    clean = CleanRecord(read=report.read, kept=report.kept, dropped=report.dropped_in_order, samples=samples)
    return PreparedSplit(pairs=writer.pairs, clean=clean, text=writer.record())


def encode_held_out(
    directory: DataDir, name: str, pairs: Sequence[SentencePair], tokenizers: Tokenizers
) -> PreparedSplit:
    """Write text and ids of a development or test set. Raises DataError unless the ids decode to the text."""
    lines = [[pair.src for pair in pairs], [pair.tgt for pair in pairs]]
    ids = _encode(lines, tokenizers)
    with SplitWriter(directory, name, tokenizers) as writer:
        writer.add(lines, ids)
    exact = control = 0
    for side, language in enumerate(tokenizers.languages):
        for number, (line, line_ids) in enumerate(zip(lines[side], ids[side], strict=True), start=1):
            if CONTROL.search(line):
                control += 1
            elif tokenizers[language].decode(line_ids) == line:
                exact += 1
            else:
                raise DataError(f"{name}.{language}, line {number}: the tokenizer does not decode it to the same text")
    clean = CleanRecord(read=len(pairs), kept=len(pairs), dropped={}, samples={})
    round_trip = RoundTripRecord(lines=2 * len(pairs), exact=exact, control=control)
    return PreparedSplit(pairs=writer.pairs, clean=clean, text=writer.record(), round_trip=round_trip)


def _encode(lines: Sequence[Sequence[str]], tokenizers: Tokenizers) -> list[list[list[int]]]:
    """Encode both sides, in the alphabetical order of their languages."""
    return [tokenizers[name].encode_all(side) for name, side in zip(tokenizers.languages, lines, strict=True)]
