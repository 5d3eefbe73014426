"""Language models, which score lines of text, and continue given beginnings of lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from nmt.config import Config
from nmt.console import Progress, say
from nmt.errors import DataError
from nmt.files.write import open_output, refuse_overwriting
from nmt.model.device import for_inference, pick_device
from nmt.model.transformer import DecoderModel
from nmt.runs.model import AnyModel, Origin, choose_precision, open_saved
from nmt.search.forced import ForcedDecoder
from nmt.search.settings import SearchConfig
from nmt.text.ids import BOS
from nmt.text.tokenizer import Tokenizer, is_blank
from nmt.translate.files import input_windows
from nmt.translate.score import PairScorer, Scored
from nmt.translate.search import NativeSearcher, in_order
from nmt.translate.segment import MAX_PIECES_FACTOR
from nmt.translate.types import MAX_PARTS, WINDOW, Sentence, check_search


@dataclass(frozen=True)
class LanguageModel:
    """A trained language model on a device."""

    model: DecoderModel
    tokenizer: Tokenizer
    config: Config
    device: torch.device
    precision: str
    """Precision of the matrix products: float32, bf16 or fp16."""
    origin: Origin

    @classmethod
    def load(cls, model: AnyModel, device: str = "auto", precision: str = "auto") -> LanguageModel:
        """Load the language model of a run; arguments as for `Translator.load`.

        Raises CheckpointError if the run or checkpoint is missing or damaged, DataError if its tokenizer is, and
        ConfigError if the run is not a language model.
        """
        saved = open_saved(model)
        torch_device = pick_device(device)
        decoder = saved.language_model().to(torch_device)
        config = saved.config
        tokenizer = saved.tokenizers[config.learned_languages[-1]]
        chosen_precision = choose_precision(saved, precision, torch_device)
        return cls(decoder, tokenizer, config, torch_device, chosen_precision, saved.origin)

    @property
    def max_length(self) -> int:
        """Maximum number of pieces of a line, without `</s>`; longer lines are truncated."""
        limit = self.model.max_positions
        return MAX_PIECES_FACTOR * self.config.data.max_pieces if limit is None else limit - 1

    def score(
        self, lines: Iterable[str], search: SearchConfig | None = None, progress: Progress | None = None
    ) -> Iterator[Scored]:
        """Yield the score of each line, in order. `progress` counts lines as they are scored, in another order."""
        search = search or self.config.search
        scorer = PairScorer(self.decoder(search), None, self.tokenizer, search, self.max_length)
        return scorer.score((("", line) for line in lines), progress=progress)

    def decoder(self, search: SearchConfig) -> ForcedDecoder:
        """Return a forced decoder, which scores given token ids with this model."""
        tokens = search.batch_size(self.device.type).tokens
        return ForcedDecoder([for_inference(self.model, self.precision)], self.device, self.precision, tokens)


class Generator:
    """A generator of text, which continues given beginnings of lines with a language model."""

    def __init__(self, language_model: LanguageModel, search: SearchConfig, n: int) -> None:
        """Check the settings. Raises ConfigError if they do not apply to generation.

        n: number of lines to generate for each beginning: the best of the beam, or samples.
        """
        check_search(search, n)
        self._tokenizer = language_model.tokenizer
        self._search = search
        self._n = n
        is_fixed = search.max_length_ratio == 0
        self._longest = search.max_length_offset if is_fixed else language_model.config.data.max_pieces + 1
        self._searcher = NativeSearcher(
            [language_model.model], self._tokenizer, language_model.device, language_model.precision
        )
        self._searcher.check(search, has_terms=False, language=language_model.config.learned_languages[-1])
        self.n_unfinished = 0
        """Number of lines that ended at the maximum length."""

    def lines(self, beginnings: Iterable[str], progress: Progress | None = None) -> Iterator[list[str]]:
        """Yield the generated lines of each beginning, in order; a blank beginning stands for the start of a line.

        `progress` counts beginnings as they are searched, which is in another order. Raises DataError if a beginning
        is too long.
        """
        stream = iter(beginnings)
        first = 0
        while window := list(islice(stream, WINDOW)):
            sentences = self._sentences(window, first)
            batches = self._searcher.search(sentences, self._search, self._n)
            on_found = None if progress is None else progress.add
            for hypotheses in in_order(batches, sentences, on_found):
                self.n_unfinished += sum(not hypothesis.finished for hypothesis in hypotheses)
                yield [self._tokenizer.decode(hypothesis.ids) for hypothesis in hypotheses]
            first += len(window)

    def _sentences(self, beginnings: Sequence[str], first: int) -> list[Sentence]:
        """Return the beginnings as sentences for the search; `first` is the number of the first beginning, from 0."""
        encoded = self._tokenizer.encode_all(["" if is_blank(text) else text.rstrip() for text in beginnings])
        limit = self._searcher.max_positions
        sentences = []
        for number, (text, ids) in enumerate(zip(beginnings, encoded, strict=True), start=first):
            longest = max(self._longest, len(ids) + 1)
            if limit is not None:
                longest = min(longest, limit)
                if len(ids) >= limit:
                    raise DataError(
                        f"line {number + 1}: has {len(ids)} pieces, more than the model has positions for "
                        f"(model.max_positions = {limit}); shorten it"
                    )
            # the source is not read; only its length matters
            sentence = Sentence(text, "", [BOS, *ids], number * MAX_PARTS, longest, prefix=ids)
            sentences.append(sentence)
        return sentences


def generate_file(generator: Generator, source: Path | str | None, target: Path | str, prefix: str = "") -> None:
    """Generate lines that start with the lines of a file or of standard input (`-`), or with `prefix` without a source.

    Raises DataError if the input is missing, not UTF-8 or has a line that is too long, or the output cannot be written.
    """
    refuse_overwriting([target], [source])
    beginnings: Iterable[str] = [prefix]
    if source is not None:
        beginnings = (line for window in input_windows(source) for line in window)
    with open_output(target) as out:
        for lines in generator.lines(beginnings):
            out.writelines(f"{line}\n".encode() for line in lines)
            out.flush()
    if n := generator.n_unfinished:
        say(f"{n:,} {'line was' if n == 1 else 'lines were'} cut off at the maximum length (search.max_length_offset)")
