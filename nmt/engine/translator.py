"""CTranslate2 as the searcher of a translator; all else is as in `nmt.translate.translator`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import torch

from nmt.config import SearchConfig
from nmt.engine.search import Engine, check_supported
from nmt.errors import ConfigError
from nmt.runs.folder import load_folder
from nmt.runs.model import Origin
from nmt.search.forced import ForcedDecoder
from nmt.search.stopping import ShouldStop
from nmt.translate.searcher import Hypotheses, search_batches
from nmt.translate.translator import Translator
from nmt.translate.types import Sentence

NO_TERMS = "terms are not supported by CTranslate2; use --engine native"


class EngineSearcher:
    """Search with CTranslate2; see `Searcher`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.precision = f"{engine.quantization}, CTranslate2"
        model = engine.folder.config.model
        self.max_positions = model.max_positions if model.positions == "learned" else None

    def check(self, search: SearchConfig, has_terms: bool, language: str) -> None:  # noqa: ARG002 (the protocol's)
        """See `Searcher`."""
        check_supported(search)
        if has_terms:
            raise ConfigError([NO_TERMS])

    def forced_decoder(self, search: SearchConfig) -> ForcedDecoder:  # noqa: ARG002 (the protocol's)
        """Raise ConfigError: not supported."""
        raise ConfigError(["alignments, attention and scores of given translations need --engine native"])

    def search(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None = None
    ) -> Generator[tuple[list[int], Hypotheses]]:
        """See `Searcher`. `should_stop` is called before each batch: CTranslate2 cannot stop within one."""
        if any(sentence.phrases for sentence in sentences):
            raise ConfigError([NO_TERMS])
        yield from search_batches(self._search_batch, sentences, search, n_best, torch.device("cpu"), should_stop)

    def _search_batch(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None
    ) -> Hypotheses:
        return self.engine.search(
            [sentence.src_ids for sentence in sentences],
            [sentence.max_length for sentence in sentences],
            search,
            n_best,
            [sentence.prefix for sentence in sentences],
            sentences[0].key,
            should_stop,
        )


def engine_translator(engine: Engine) -> Translator:
    """Return the translator of a loaded CTranslate2 model."""
    folder = engine.folder
    origin = Origin(folder.directory.path, folder.info.step, folder.info.weights, folder.info.reason)
    return Translator(EngineSearcher(engine), folder.tokenizers, folder.config, [origin])


def load_ctranslate2(path: Path | str) -> Translator:
    """Load the translator of a directory that `nmt export --format ctranslate2` wrote.

    Raises CheckpointError if there is none or it is damaged, ConfigError if CTranslate2 is not installed.
    """
    return engine_translator(Engine(load_folder(Path(path))))
