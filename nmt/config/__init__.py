"""The configuration, a YAML file with five sections whose fields are described by their docstrings.

`load.py` reads and writes it. `nmt config` prints it with the descriptions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from pydantic import model_validator

from nmt.config.modes import unread
from nmt.config.problems import label_problems, mixing_problems
from nmt.data.settings import DataConfig
from nmt.errors import ConfigError
from nmt.languages.directions import ANY, LABEL, choose_direction
from nmt.model.settings import ModelConfig, ModelSizes
from nmt.search.settings import SearchConfig
from nmt.section import Section, raise_together
from nmt.text.settings import TokenizerConfig
from nmt.training.facts import OBJECTIVES
from nmt.training.settings import DEFAULT_MAX_TOKENS, TrainingConfig


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
    def _check_across_sections(self) -> Config:
        unused = unread(self.model_dump())
        problems = [f"{setting.key}: {setting.reason}" for setting in unused if not setting.is_default]
        if not self.tokenizer.joint:
            problems += [f"{setting} needs tokenizer.joint: true" for setting in self.joint_settings]
        problems += [
            *self._length_problems(),
            *self._model_kind_problems(),
            *self._consistency_problems(),
            *self._text_problems(),
            *mixing_problems(self.data, self.training.stages),
            *label_problems(self.data, self.training),
        ]
        raise_together(problems)
        return self

    def _length_problems(self) -> Iterator[str]:
        """Yield problems of limits that the longest training sequences exceed."""
        limits = {"training.max_tokens": self.training.max_tokens or DEFAULT_MAX_TOKENS}
        if self.model.positions == "learned":
            limits["model.max_positions"] = self.model.max_positions
        longest = f"data.max_pieces = {self.data.max_pieces}"
        if self.n_tags:
            longest += f", {self.n_tags} tags"
        if self.training.masked.pair_task or self.joins_sides:
            longest = f"both sides of a pair, each of {longest}"
        for key, limit in limits.items():
            if limit != "auto" and limit < self.longest:
                yield f"{key}: {limit} is too small for {longest} and an end of sentence"

    def _model_kind_problems(self) -> Iterator[str]:
        """Yield problems of the objective, and of other settings that not all kinds of models support."""
        kind = self.model.kind
        training = self.training
        facts = self.training.facts
        if kind == "decoder" and training.consistency == "crossconst":
            yield "training.consistency: crossconst: not available with model.kind: decoder"
        if kind not in facts.model_kinds:
            supported = " or ".join(name for name, of_name in OBJECTIVES.items() if kind in of_name.model_kinds)
            yield (
                f"training.objective: {facts.name} needs model.kind: {' or '.join(facts.model_kinds)}; model.kind: "
                f"{kind} supports {supported}"
            )
        if facts.classifies and LABEL not in self.data.pair:
            label = f"{self.data.src}-{LABEL}"
            yield f"training.objective: classification needs data.direction: {label}, found {self.data.direction}"
        if unknown := set(training.languages) - set(self.data.text_languages):
            known = " or ".join(self.data.text_languages)
            yield f"training.{facts.name}.languages: must name {known}, found {', '.join(sorted(unknown))}"

    def _consistency_problems(self) -> Iterator[str]:
        """Yield problems of consistency training, whose second pass must differ from the first."""
        training = self.training
        if training.consistency == "crossconst":
            if not self.data.has_language_tags:
                yield "training.consistency: crossconst needs data.directions"
        elif not training.has_consistency or any(value for name, value in self.model if name.endswith("_dropout")):
            return
        elif training.consistency == "rdrop":
            yield "training.consistency: rdrop needs dropout; all model.*_dropout are 0"
        elif training.cut_rate == 0:
            yield "training.consistency: simcut needs cut_rate above 0; all model.*_dropout are 0"

    def _text_problems(self) -> Iterator[str]:
        """Yield problems of settings of training that need text of a certain form."""
        facts = self.training.facts
        if not facts.translates:
            problem = f"tags need training.objective: translation, found {facts.name}"
            if self.data.has_language_tags:
                yield f"data.directions: {problem}"
            if self.data.tag_names:
                yield f"data.train: {problem}"
        if self.training.reads_similar and self.data.fuzzy_threshold is None:
            yield "training.modifiers.fuzzy: needs data.fuzzy_threshold, such as 0.7"
        if self.joins_sentences and not self.data.documents:
            yield "training.modifiers.join: needs data.documents: true"
        if {"fuzzy", "join"} <= self.training.modifiers.keys():
            yield "training.modifiers: fuzzy and join cannot be combined; both add text to the source"

    @property
    def joint_settings(self) -> list[str]:
        """The settings that need one vocabulary for both languages."""
        needs = {
            "data.directions": self.data.has_language_tags,
            f"training.objective: {self.training.facts.name} in both languages": self.learns_several_languages,
            "training.objective: translation with model.kind: decoder": self.joins_sides,
            "training.modifiers.fuzzy": self.training.reads_similar,
            "tokenizer.model": self.tokenizer.model is not None,
            "model.tie_embeddings: all": self.model.tie_embeddings == "all",
        }
        return [setting for setting, is_given in needs.items() if is_given]

    @property
    def joins_sentences(self) -> bool:
        """Whether the model translates several sentences at once, with separators between them."""
        return self.training.joins_sentences

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
        sides = self.data.sides
        if self.training.languages:
            return tuple(language for language in sides if language in self.training.languages)
        return sides[1:] if self.training.objective == "causal" else sides

    @property
    def learns_several_languages(self) -> bool:
        """Whether one embedding is trained on lines of both languages.

        This is always true for denoising, where a line of either language passes through encoder and decoder.
        """
        if self.training.masked.pair_task or self.training.objective == "denoising":
            return True
        return self.training.learns_lines and len(self.learned_languages) > 1

    def sizes(self, vocab_sizes: Mapping[str, int]) -> ModelSizes:
        """Return the sizes of the model. `vocab_sizes`: the number of pieces of each language, and of labels."""
        src, tgt = (vocab_sizes[language] for language in self.data.sides)
        n_classes = 2 if self.training.masked.pair_task else 0
        classifies = self.training.facts.classifies
        if classifies:
            n_classes = tgt
        if not self.model.is_encoder_decoder:
            src = tgt = vocab_sizes[self.learned_languages[-1]]
        return ModelSizes(src, tgt, n_classes, predicts_pieces=not classifies, sees_source=self.joins_sides)

    @property
    def longest(self) -> int:
        """Maximum length of a training sequence in tokens, including the end-of-sentence token."""
        n = self.data.max_pieces + 1 + self.n_tags
        return 2 * n if self.training.masked.pair_task or self.joins_sides else n

    @property
    def n_tags(self) -> int:
        """Maximum number of tags before a source in training."""
        return max((len(source.tag_names) for source in self.data.train), default=0) + len(self.data.language_tag)

    def choose_languages(self, to: str | None, source: str | None = None, imported: Collection[str] = ()) -> Config:
        """Return the configuration with which a model translates in one of its directions, with only the training
        corpora of this direction, and without stages if these name others.

        to, source: the languages; None if there is no choice, and `ANY` for any source. imported: the target languages
        of an imported model that has several. Raises ConfigError.
        """
        if self.data.has_language_tags:
            data = self.data.towards(choose_direction(self.data.directions, self.data.direction, to, source))
            train = [corpus for corpus in data.train if corpus.to in (None, data.tgt)]
            data = data.model_copy(update={"train": train})
            training = self.training
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
