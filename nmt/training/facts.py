"""The training objectives: what the rest of the package needs to know about each, and their settings.

The module of the same name in `nmt.training.objectives` computes the examples, the loss and the validation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from nmt.section import Section

PairNegative = Literal["shuffled", "cut", "replaced", "number", "copied"]
Metric = Literal["bleu", "chrf", "perplexity", "accuracy"]
"""A score of the development set, by its name in log records."""


class DenoisingConfig(Section):
    """Settings of the training objective `denoising`."""

    languages: list[str] = Field([])
    """Languages to learn from; []: both languages."""
    mask_share: float = Field(0.35, gt=0.0, lt=1.0)
    """Mean share of the pieces of a line that are masked."""
    mask_span: float = Field(3.5, ge=1.0)
    """Mean length of a masked span in pieces (Poisson distribution). Each span is replaced by one mask; for a span of
    length 0, a mask is inserted. BLEU and chrF compare the restored lines of the development set with the original
    ones."""


class MaskedConfig(Section):
    """Settings of the training objective `masked`."""

    languages: list[str] = Field([])
    """Languages to learn from; []: both languages."""
    mask_share: float = Field(0.15, gt=0.0, lt=1.0)
    """Mean share of the pieces of a line that are masked."""
    pair_task: list[PairNegative] = Field([])
    """Also learn to recognise translations; []: do not. Each pair is one sequence, masked on both sides, and half of
    the pairs have a wrong source or target, of one of these kinds, drawn with equal probability. shuffled: taken from
    another pair of similar length. cut: its second half is removed. replaced: a word is replaced by one of another
    pair. number: a digit is changed. copied: a copy of the other side. If a kind is impossible for a pair, such as
    number without digits, another kind is used. The cross-entropy of this decision (the mean over the pairs) is added
    to the loss."""


class CausalConfig(Section):
    """Settings of the training objective `causal`."""

    languages: list[str] = Field([])
    """Languages to learn from; []: the target language."""


@dataclass(frozen=True)
class ObjectiveFacts:
    """Facts about a training objective, for commands and other modules."""

    name: str
    model_kinds: tuple[str, ...]
    """The kinds of models that support it."""
    use: str = "use it with nmt train --init-from"
    """The use of a trained model, as advice in messages."""
    metric: Metric = "perplexity"
    """The score on the development set by which runs are listed and ranked; `text_score` in nmt.runs.info replaces BLEU
    where it says little."""
    scores: tuple[Metric, ...] = ()
    """The scores besides the loss by which `training.select_by` can select checkpoints; the first is the default."""
    counted: str = "token"
    """The unit over which the loss is averaged."""
    learns_lines: bool = False
    """Whether the examples are single lines instead of pairs."""
    settings: type[Section] | None = None
    """The section of `training` with the settings of this objective only."""

    @property
    def translates(self) -> bool:
        """Whether trained models translate."""
        return self.name == "translation"

    @property
    def writes_text(self) -> bool:
        """Whether validation translates or restores the development set and scores the text."""
        return "bleu" in self.scores

    @property
    def classifies(self) -> bool:
        """Whether trained models predict the labels of texts."""
        return "accuracy" in self.scores


OBJECTIVES = {
    facts.name: facts
    for facts in (
        ObjectiveFacts(
            "translation", ("translation", "decoder"), "use it with nmt translate", "bleu", scores=("bleu", "chrf")
        ),
        ObjectiveFacts(
            "denoising", ("translation",), scores=("bleu", "chrf"), learns_lines=True, settings=DenoisingConfig
        ),
        ObjectiveFacts("masked", ("encoder",), counted="masked piece", learns_lines=True, settings=MaskedConfig),
        ObjectiveFacts(
            "causal",
            ("decoder",),
            "use it with nmt generate, with nmt score without --src, or with --lm",
            learns_lines=True,
            settings=CausalConfig,
        ),
        ObjectiveFacts(
            "classification",
            ("encoder", "decoder"),
            "use it with nmt classify or nmt evaluate",
            "accuracy",
            scores=("accuracy",),
            counted="text",
        ),
    )
}
"""The objectives by name."""

OBJECTIVE_SECTIONS = {name: facts.settings for name, facts in OBJECTIVES.items() if facts.settings is not None}
"""The sections of `training` with settings of one objective, by its name."""

if TYPE_CHECKING:
    ObjectiveName = str
else:
    ObjectiveName = Literal[tuple(OBJECTIVES)]
