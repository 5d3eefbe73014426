"""A translator whose search is CTranslate2's; all else is as in `nmt.translate.translator`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from nmt.config import SearchConfig
from nmt.engine.search import Engine, check_search
from nmt.errors import ConfigError
from nmt.runs.folder import Folder, load_folder
from nmt.runs.model import Origin
from nmt.search.forced import ForcedDecoder
from nmt.search.step import Hypothesis
from nmt.translate.translator import Translator
from nmt.translate.types import Sentence


class EngineTranslator(Translator):
    """An exported CTranslate2 model as a translator. It has no model of PyTorch."""

    def __init__(self, folder: Folder) -> None:
        """Raises what `Engine` raises."""
        self.engine = Engine(folder)
        precision = f"{self.engine.quantization}, CTranslate2"
        super().__init__([], folder.tokenizers, folder.config, torch.device("cpu"), precision)
        info = folder.info
        self.origin = Origin(folder.directory.path, info.step, info.weights, info.reason)

    @classmethod
    def of(cls, path: Path | str) -> EngineTranslator:
        """The translator of a directory that nmt export wrote with --format ctranslate2.

        Raises CheckpointError if there is none or it is damaged, ConfigError if CTranslate2 is not installed.
        """
        return cls(load_folder(Path(path)))

    def forced_decoder(self, search: SearchConfig | None = None) -> ForcedDecoder:  # noqa: ARG002 (the parent's)
        raise ConfigError(["alignments, attention and scores of given translations need --engine native"])

    def check(self, search: SearchConfig, n_best: int, has_terms: bool = False) -> None:
        """See `Translator.check`."""
        super().check(search, n_best)
        check_search(search)
        if has_terms:
            raise ConfigError(["terms are not what CTranslate2 can do; --engine native does it"])

    @contextmanager
    def _context(self) -> Iterator[None]:
        yield

    def _search(self, sentences: Sequence[Sentence], search: SearchConfig, n_wanted: int) -> list[list[Hypothesis]]:
        if any(sentence.phrases for sentence in sentences):
            raise ConfigError(["terms are not what CTranslate2 can do; --engine native does it"])
        return self.engine.search(
            [sentence.src_ids for sentence in sentences],
            [self._limit(sentence, search) for sentence in sentences],
            search,
            n_wanted,
            [sentence.prefix for sentence in sentences],
            sentences[0].key,
        )
