"""Language models, which score lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from nmt.config import Config, SearchConfig
from nmt.console import Progress, say
from nmt.errors import ConfigError
from nmt.model.device import pick_device
from nmt.model.precision import for_inference
from nmt.model.stacks import DecoderModel
from nmt.runs.model import AnyModel, Origin, Saved, choose_precision, open_saved
from nmt.search.forced import ForcedDecoder
from nmt.text.tokenizer import Tokenizer
from nmt.translate.score import PairScorer, Scored
from nmt.translate.sentences import MAX_PIECES_FACTOR


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
        loaded = cls.of(saved, torch_device, choose_precision(saved, precision, torch_device))
        if saved.note:
            say(saved.note)
        return loaded

    @classmethod
    def of(cls, saved: Saved, device: torch.device, precision: str) -> LanguageModel:
        """Return the language model of a loaded run.

        Raises ConfigError if it is not a language model, CheckpointError if its weights do not match.
        """
        config = saved.config
        if config.training.facts.name != "causal":
            raise ConfigError(
                f"{saved.path}: is not a language model (objective causal), but was trained with "
                f"{config.training.facts.name}"
            )
        model = saved.model()
        assert isinstance(model, DecoderModel), "a causal objective trains a decoder"
        return cls(
            model.to(device), saved.tokenizers[config.learned_languages[-1]], config, device, precision, saved.origin
        )

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
