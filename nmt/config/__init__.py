"""The configuration: one YAML file with five sections, whose fields are described by their docstrings.

`load.py` reads and writes it. `nmt config` prints it with the descriptions.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator

from nmt.config.data import LABEL, DataConfig, TokenizerConfig
from nmt.config.model import ModelConfig
from nmt.config.search import BatchSize, SearchConfig
from nmt.config.section import Section, raise_together
from nmt.config.source import Source
from nmt.config.training import Stage, TrainingConfig, label_problems, mixing_problems

__all__ = [
    "BatchSize",
    "Config",
    "DataConfig",
    "ModelConfig",
    "SearchConfig",
    "Section",
    "Source",
    "Stage",
    "TokenizerConfig",
    "TrainingConfig",
]


OBJECTIVES = {
    "translation": ("translation", "denoising"),
    "encoder": ("masked", "classification"),
    "decoder": ("causal", "translation", "classification"),
}
"""The objectives of each `model.kind`."""


class Config(Section):
    """The whole configuration."""

    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = SearchConfig()

    def without_licenses(self) -> Config:
        """Return a copy without the licences of the corpora, which have no effect on the results."""
        return self.model_copy(update={"data": self.data.without_licenses()})

    @model_validator(mode="after")
    def _check(self) -> Config:
        problems = []
        if self.model.tie_embeddings == "all" and not self.tokenizer.joint:
            problems.append("model.tie_embeddings: all needs tokenizer.joint: true; use target or none")
        sides = "both sides of a pair, each of " if self.longest > self.data.max_pieces + 1 else ""
        if self.training.max_tokens != "auto" and self.training.max_tokens < self.longest:
            problems.append(
                f"training.max_tokens: {self.training.max_tokens} is too small for the longest pair, "
                f"{sides}data.max_pieces = {self.data.max_pieces} and an end of sentence"
            )
        if self.model.positions == "learned" and self.model.max_positions < self.longest:
            problems.append(
                f"model.max_positions: {self.model.max_positions} is too small for {sides}data.max_pieces = "
                f"{self.data.max_pieces} and an end of sentence"
            )
        if self.joins_sides and not self.tokenizer.joint:
            problems.append("training.objective: translation with model.kind: decoder needs tokenizer.joint: true")
        if self.joins_sides and self.training.modifiers:
            problems.append("training.modifiers: not available with model.kind: decoder")
        if self.joins_sides and self.search.coverage_penalty:
            problems.append("search.coverage_penalty: not available with model.kind: decoder (no cross-attention)")
        if self.training.both_directions and not self.tokenizer.joint:
            problems.append("training.both_directions: true needs tokenizer.joint: true")
        objective, kind = self.training.objective, self.model.kind
        if objective == "classification" and kind == "decoder" and self.model.pooling == "first":
            problems.append("model.pooling: first is not available with model.kind: decoder; use mean or last")
        if self.learns_several_languages and not self.tokenizer.joint:
            problems.append(f"training.objective: {objective} in both languages needs tokenizer.joint: true")
        if objective not in OBJECTIVES[kind]:
            kinds = " or ".join(kind for kind, possible in OBJECTIVES.items() if objective in possible)
            problems.append(
                f"training.objective: {objective} needs model.kind: {kinds}; model.kind: {kind} supports "
                f"{' or '.join(OBJECTIVES[kind])}"
            )
        if objective == "classification" and LABEL not in self.data.languages:
            problems.append(
                f"training.objective: classification needs data.direction: {self.data.src}-{LABEL}, found "
                f"{self.data.direction}"
            )
        if others := set(self.training.languages) - set(self.data.text_languages):
            problems.append(
                f"training.{objective}.languages: must name {' or '.join(self.data.text_languages)}, found "
                f"{', '.join(sorted(others))}"
            )
        dropouts = [value for name, value in self.model if name.endswith("_dropout")]
        if self.training.consistency_weight and not any(dropouts):
            if self.training.consistency == "rdrop":
                problems.append("training.consistency: rdrop needs dropout, but all model.*_dropout are 0")
            if self.training.consistency == "simcut" and not self.training.cut_rate:
                problems.append("training.cut_rate: must be above 0 for simcut, since all model.*_dropout are 0")
        problems += mixing_problems(self.data, self.training.stages)
        problems += label_problems(self.data, self.training)
        raise_together(problems)
        return self

    @property
    def learns_lines(self) -> bool:
        """Whether training examples are single lines instead of pairs."""
        return self.training.objective in ("denoising", "masked", "causal") and not self.training.masked.pair_task

    @property
    def joins_sides(self) -> bool:
        """Whether source and target of a pair form one sequence (decoder-only translation)."""
        return self.model.kind == "decoder" and self.training.objective == "translation"

    @property
    def learned_languages(self) -> tuple[str, ...]:
        """The languages that an objective of single lines learns from, the source language first. For texts with labels
        it is the language of the texts."""
        if self.data.has_labels:
            return (self.data.src,)
        both = (self.data.src, self.data.tgt)
        if self.training.languages:
            return tuple(language for language in both if language in self.training.languages)
        return both[1:] if self.training.objective == "causal" else both

    @property
    def learns_several_languages(self) -> bool:
        """Whether one embedding is trained on lines of both languages. This is always so for denoising, where a line of
        either language passes through encoder and decoder."""
        is_denoising = self.training.objective == "denoising"
        return self.training.masked.pair_task or is_denoising or (self.learns_lines and len(self.learned_languages) > 1)

    @property
    def n_classes(self) -> int:
        """Number of classes of the model's classification head; 0 if it has none."""
        return 2 if self.training.masked.pair_task else 0

    @property
    def longest(self) -> int:
        """Maximum length of a training sequence in tokens, end of sentence included."""
        n = self.data.max_pieces + 1
        return 2 * n if self.training.masked.pair_task or self.joins_sides else n

    @property
    def n_per_pair(self) -> int:
        """Number of training examples made from each pair of the corpus."""
        if self.learns_lines:
            return len(self.learned_languages)
        return 2 if self.training.both_directions else 1

    @property
    def run_directory(self) -> Path:
        """`training.run_dir` with `{direction}` filled in."""
        return Path(self.training.run_dir.replace("{direction}", self.data.direction))
