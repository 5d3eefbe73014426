"""The base of validators that write text and score it."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.search.settings import SearchConfig
from nmt.training.objective import Objective
from nmt.training.validate import Execution, HeldOutSplit, SplitValidator
from nmt.translate.configured import conventions_of
from nmt.translate.search import NativeSearcher, OpenLanguageModel
from nmt.translate.translator import LineTranslator


class TextValidator(SplitValidator):
    """A validator that also searches for text with the model, and scores it."""

    def __init__(
        self,
        objective: Objective,
        held_out: HeldOutSplit,
        execution: Execution,
        searches: Sequence[SearchConfig],
        open_lm: OpenLanguageModel,
    ) -> None:
        """`searches`: all settings that are used; the first are those of the search.

        Raises ConfigError if they cannot be used, before hours of training.
        """
        super().__init__(objective.validated(held_out), execution)
        self._objective = objective
        self._open_lm = open_lm
        self._search = searches[0]
        self._conventions = conventions_of(objective.data, objective.settings)
        self.tgt_lang = objective.data.tgt
        self._tokenizer = objective.tokenizers[self.tgt_lang]
        checked = self._translator(self._new_searcher())
        for search in searches:
            checked.check(search, 1)
        # another one, which reads search.lm when it first validates: one process does, and keeps it
        self._searcher = self._new_searcher()

    def _new_searcher(self) -> NativeSearcher:
        joins = self._objective.settings.joins_sentences
        return NativeSearcher(
            [], self._tokenizer, self.execution.device, self.execution.precision, joins, self._open_lm
        )

    def _translator(self, searcher: NativeSearcher) -> LineTranslator:
        return LineTranslator(searcher, self._objective.tokenizers, self._conventions, self._search)
