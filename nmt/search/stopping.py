"""Stopping a search between two steps, when nobody waits for its result any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from nmt.search.step import Scores, StepModel

ShouldStop = Callable[[], bool]
"""Whether to stop. Once True it stays True; it is called in several threads."""


class SearchStopped(Exception):  # noqa: N818  (a request that was met, not an error)
    """The search was stopped on request, and has no result."""


def stop_if(should_stop: ShouldStop | None) -> None:
    """Raise SearchStopped if the search should stop; None never stops it."""
    if should_stop is not None and should_stop():
        raise SearchStopped


class Stoppable:
    """A model whose next step raises SearchStopped where the search should stop."""

    def __init__(self, model: StepModel, should_stop: ShouldStop) -> None:
        self._model, self._should_stop = model, should_stop

    def step(self, tokens: Tensor) -> Iterator[Scores]:
        stop_if(self._should_stop)
        return self._model.step(tokens)

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        self._model.select(sentences, beams)

    def attention(self) -> Tensor:
        return self._model.attention()
