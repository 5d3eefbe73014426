"""The configuration: one YAML file with five sections; every field has a description with its unit.

`load.py` reads and writes it; `nmt config` prints it with the descriptions.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator

from nmt.config.data import DataConfig
from nmt.config.model import ModelConfig
from nmt.config.modifiers import ModifiersConfig
from nmt.config.search import BatchSize, SearchConfig
from nmt.config.section import Section, raise_together
from nmt.config.source import Source
from nmt.config.stages import Stage, mixing_problems
from nmt.config.tokenizer import TokenizerConfig
from nmt.config.training import TrainingConfig

__all__ = [
    "BatchSize",
    "Config",
    "DataConfig",
    "ModelConfig",
    "ModifiersConfig",
    "SearchConfig",
    "Section",
    "Source",
    "Stage",
    "TokenizerConfig",
    "TrainingConfig",
]


class Config(Section):
    """The whole configuration."""

    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _check(self) -> Config:
        problems = []
        if self.model.tie_embeddings == "all" and not self.tokenizer.joint:
            problems.append("model.tie_embeddings: all needs tokenizer.joint: true; take target or none")
        if self.training.max_tokens != "auto" and self.training.max_tokens <= self.data.max_pieces:
            problems.append(
                f"training.max_tokens: {self.training.max_tokens} is too small for the longest pair, "
                f"data.max_pieces = {self.data.max_pieces} and its end of sentence"
            )
        if self.model.positions == "learned" and self.model.max_positions <= self.data.max_pieces:
            problems.append(
                f"model.max_positions: {self.model.max_positions} is too small for data.max_pieces = "
                f"{self.data.max_pieces} and an end of sentence"
            )
        if self.training.both_directions and not self.tokenizer.joint:
            problems.append("training.both_directions: true needs tokenizer.joint: true")
        if self.training.objective == "denoising" and not self.tokenizer.joint:
            problems.append("training.objective: denoising needs tokenizer.joint: true")
        dropouts = [value for name, value in self.model if name.endswith("_dropout")]
        if self.training.consistency_weight and not any(dropouts):
            if self.training.consistency == "rdrop":
                problems.append("training.consistency: rdrop compares two dropouts, but model.*_dropout are all 0")
            if self.training.consistency == "simcut" and not self.training.cut_rate:
                problems.append("training.cut_rate: simcut compares nothing with 0 and all model.*_dropout 0")
        problems += mixing_problems(self.data, self.training.stages)
        raise_together(problems)
        return self

    @property
    def run_directory(self) -> Path:
        """`training.run_dir` with `{direction}` filled in."""
        return Path(self.training.run_dir.replace("{direction}", self.data.direction))
