"""The configuration, a YAML file with five sections whose fields are described by their docstrings.

`load.py` reads and writes it. `nmt config` prints it with the descriptions.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pydantic import model_validator

from nmt.config.data import ANY, LABEL, DataConfig, TokenizerConfig
from nmt.config.model import ModelConfig
from nmt.config.objectives import OBJECTIVES
from nmt.config.search import BatchSize, SearchConfig
from nmt.config.section import Section, raise_together
from nmt.config.source import Source
from nmt.config.training import DEFAULT_MAX_TOKENS, Stage, TrainingConfig, label_problems, mixing_problems
from nmt.errors import ConfigError

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


class Config(Section):
    """A complete configuration."""

    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = SearchConfig()

    def without_licenses(self) -> Config:
        """Return a copy without the licences of the corpora, which have no effect on the results."""
        return self.model_copy(update={"data": self.data.without("license")})

    @model_validator(mode="after")
    def _check(self) -> Config:
        kind, training, facts = self.model.kind, self.training, self.training.facts
        problems = [
            f"{setting} needs tokenizer.joint: true" for setting in self.joint_settings if not self.tokenizer.joint
        ]
        sides = "both sides of a pair, each of " if self.training.masked.pair_task or self.joins_sides else ""
        longest = f"data.max_pieces = {self.data.max_pieces}{f', {self.n_tags} tags' * (self.n_tags > 0)}"
        limits = {"training.max_tokens": training.max_tokens or DEFAULT_MAX_TOKENS}
        if self.model.positions == "learned":
            limits["model.max_positions"] = self.model.max_positions
        problems += [
            f"{key}: {limit} is too small for {sides}{longest} and an end of sentence"
            for key, limit in limits.items()
            if limit != "auto" and limit < self.longest
        ]
        not_of_decoders = {
            "training.modifiers": bool(training.modifiers) and self.joins_sides,
            "search.coverage_penalty": self.search.coverage_penalty and self.joins_sides,
            "training.consistency: crossconst": training.consistency == "crossconst",
        }
        if kind == "decoder":
            problems += [
                f"{key}: not available with model.kind: decoder"
                for key, is_given in not_of_decoders.items()
                if is_given
            ]
        if kind not in facts.model_kinds:
            supported = " or ".join(name for name, of_name in OBJECTIVES.items() if kind in of_name.model_kinds)
            problems.append(
                f"training.objective: {facts.name} needs model.kind: {' or '.join(facts.model_kinds)}; model.kind: "
                f"{kind} supports {supported}"
            )
        if facts.classifies and LABEL not in self.data.pair:
            problems.append(
                f"training.objective: classification needs data.direction: {self.data.src}-{LABEL}, found "
                f"{self.data.direction}"
            )
        if others := set(training.languages) - set(self.data.text_languages):
            problems.append(
                f"training.{facts.name}.languages: must name {' or '.join(self.data.text_languages)}, found "
                f"{', '.join(sorted(others))}"
            )
        if training.consistency == "crossconst" and not self.data.has_language_tags:
            problems.append("training.consistency: crossconst needs data.directions")
        is_disturbed = training.consistency == "crossconst" or (
            training.consistency == "simcut" and training.cut_rate > 0
        )
        if (
            training.has_consistency
            and not is_disturbed
            and not any(value for name, value in self.model if name.endswith("_dropout"))
        ):
            needs = "dropout" if training.consistency == "rdrop" else "cut_rate above 0"
            problems.append(f"training.consistency: {training.consistency} needs {needs}; all model.*_dropout are 0")
        for key, is_given in (("data.directions", self.data.has_language_tags), ("data.train", self.data.tag_names)):
            if is_given and not facts.translates:
                problems.append(f"{key}: tags need training.objective: translation, found {facts.name}")
        if "fuzzy" in training.modifiers and self.data.fuzzy_threshold is None:
            problems.append("training.modifiers.fuzzy: needs data.fuzzy_threshold, such as 0.7")
        if self.tokenizer.kind == "char" and (self.tokenizer.model or training.bpe_dropout):
            problems.append("tokenizer.kind: char: not available with tokenizer.model and training.bpe_dropout")
        if self.joins_sentences and not self.data.documents:
            problems.append("training.modifiers.join: needs data.documents: true")
        if {"fuzzy", "join"} <= training.modifiers.keys():
            problems.append("training.modifiers: fuzzy and join cannot be combined; both add text to the source")
        problems += mixing_problems(self.data, training.stages)
        problems += label_problems(self.data, training)
        raise_together(problems)
        return self

    @property
    def joint_settings(self) -> list[str]:
        """The settings that need one vocabulary for both languages."""
        needs = {
            "data.directions": self.data.has_language_tags,
            f"training.objective: {self.training.facts.name} in both languages": self.learns_several_languages,
            "training.objective: translation with model.kind: decoder": self.joins_sides,
            "training.modifiers.fuzzy": "fuzzy" in self.training.modifiers,
            "tokenizer.model": self.tokenizer.model is not None,
            "model.tie_embeddings: all": self.model.tie_embeddings == "all",
        }
        return [setting for setting, is_given in needs.items() if is_given]

    @property
    def joins_sentences(self) -> bool:
        """Whether the model translates several sentences at once, with separators between them."""
        return "join" in self.training.modifiers

    @property
    def learns_lines(self) -> bool:
        """Whether training examples are single lines instead of pairs."""
        return self.training.facts.learns_lines and not self.training.masked.pair_task

    @property
    def joins_sides(self) -> bool:
        """Whether source and target of a pair form one sequence (decoder-only translation)."""
        return self.model.kind == "decoder" and self.training.facts.translates

    @property
    def learned_languages(self) -> tuple[str, ...]:
        """The languages that a single-line objective learns from, the source language first.

        For texts with labels, it is the language of the texts.
        """
        if self.data.has_labels:
            return (self.data.src,)
        both = self.data.sides
        if self.training.languages:
            return tuple(language for language in both if language in self.training.languages)
        return both[1:] if self.training.objective == "causal" else both

    @property
    def learns_several_languages(self) -> bool:
        """Whether one embedding is trained on lines of both languages.

        This is always true for denoising, where a line of either language passes through encoder and decoder.
        """
        is_denoising = self.training.objective == "denoising"
        return (
            bool(self.training.masked.pair_task)
            or is_denoising
            or (self.learns_lines and len(self.learned_languages) > 1)
        )

    @property
    def n_classes(self) -> int:
        """Number of classes of the model's classification head; 0 if it has none."""
        return 2 if self.training.masked.pair_task else 0

    @property
    def longest(self) -> int:
        """Maximum length of a training sequence in tokens, including the end-of-sentence token."""
        n = self.data.max_pieces + 1 + self.n_tags
        return 2 * n if self.training.masked.pair_task or self.joins_sides else n

    @property
    def n_tags(self) -> int:
        """Maximum number of tags before a source in training."""
        return max((len(source.tag_names) for source in self.data.train), default=0) + len(self.data.language_tag)

    @property
    def n_per_pair(self) -> int:
        """Number of training examples made from each pair of the corpus."""
        return len(self.learned_languages) if self.learns_lines else 1

    def towards(self, direction: str) -> Config:
        """Return the configuration of one of several directions; see `DataConfig.towards`."""
        return self.model_copy(update={"data": self.data.towards(direction)})

    def choose(self, to: str | None, source: str | None = None, imported: Collection[str] = ()) -> Config:
        """Return the configuration with which a model translates in one of its directions, with only the training
        corpora of this direction, and without stages if these name others.

        to, source: the languages; None if there is no choice, and `ANY` for any source. imported: the target languages
        of an imported model that has several. Raises ConfigError.
        """
        if self.data.has_language_tags:
            data = self.data.towards(self.data.choose(to, source))
            train = [corpus for corpus in data.train if corpus.to in (None, data.tgt)]
            data, training = data.model_copy(update={"train": train}), self.training
            if any(mixing_problems(data, training.stages)):
                training = training.model_copy(update={"stages": []})
            return self.model_copy(update={"data": data, "training": training})
        if source not in (None, ANY, self.data.src):
            raise ConfigError(f"--from {source}: the model translates from {self.data.src}")
        if to is None or (to == self.data.tgt and to not in imported):
            return self
        return self.model_copy(update={"search": self.search.model_copy(update={"to": to})})

    @property
    def run_directory(self) -> Path:
        """The path of the run directory: `training.run_dir` with `{direction}` replaced."""
        direction = self.data.direction
        if self.data.has_several_directions:
            direction = "-".join(self.data.all_languages)
        return Path(self.training.run_dir.replace("{direction}", direction))
