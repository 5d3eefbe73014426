"""The configuration: one YAML file, five sections, every field with its meaning and unit.

`config_file.py` reads and writes it; `nmt config` prints it with these descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

DIRECTION = re.compile(r"^([A-Za-z][A-Za-z0-9_]*)-([A-Za-z][A-Za-z0-9_]*)$")


class Section(BaseModel):
    """A section: frozen, unknown keys refused, numbers finite, `"4"` is not 4."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def _raise_together(problems: list[str]) -> None:
    if problems:
        raise ValueError("\n".join(problems))


class Source(Section):
    """Where one corpus comes from: aligned local files, or files of a dataset on the Hugging Face hub."""

    files: dict[str, str] | None = None
    """Local files: language code -> file name under `data.root`; line n of one pairs with line n of the other.
    Names ending in .gz are decompressed."""
    hub: str | None = None
    """A dataset repository on the hub, `owner/name`. Give this or `files`."""
    revision: str = "main"
    """The branch, tag or commit of the hub repository."""
    paths: list[str] = []
    """Files within the hub repository, all .parquet or all .jsonl, `*` allowed."""
    column: str | None = None
    """The hub column that holds a mapping from language code to text, such as `translation`."""
    columns: dict[str, str] | None = None
    """Language code -> hub column that holds its text, if the columns are not named by the codes themselves."""
    name: str | None = None
    """The corpus name in reports; by default the file or repository name."""

    @model_validator(mode="after")
    def _check(self) -> Source:
        problems = []
        if (self.files is None) == (self.hub is None):
            problems.append("give either files or hub")
        if self.hub is not None:
            if not self.paths:
                problems.append("hub needs paths: the .parquet or .jsonl files within the repository")
            endings = {Path(path).suffix for path in self.paths}
            if self.paths and endings not in ({".parquet"}, {".jsonl"}):
                problems.append(f"paths must all end in .parquet or all in .jsonl, found {sorted(endings)}")
            if self.column is not None and self.columns is not None:
                problems.append("give either column or columns")
        elif self.paths or self.column or self.columns:
            problems.append("paths, column and columns belong to hub")
        _raise_together(problems)
        return self

    @property
    def label(self) -> str:
        """The corpus name used in reports."""
        return self.name or self.hub or Path(next(iter((self.files or {"": "?"}).values()))).name


class DataConfig(Section):
    """What to translate from what, and the text to learn it from."""

    direction: str
    """Source and target language, `de-en`. One prepared corpus serves both directions. A region is written with
    an underscore: `pt_BR-en`."""
    dir: str = "data/prepared/{direction}"
    """The data directory that `prepare` writes. `{direction}` stands for both languages in alphabetical order."""
    root: str = "."
    """The folder under which relative names in `files` are looked up, itself relative to the working directory."""
    train: list[Source] = Field(min_length=1)
    """The training corpora."""
    valid: Source
    """The development set: choices are made on it."""
    test: dict[str, Source] = {}
    """Test sets by name; nothing is ever chosen on them."""
    max_chars: int = Field(1000, ge=1)
    """Training pairs with a longer side are dropped (characters)."""
    max_pieces: int = Field(250, ge=1)
    """Training pairs with a longer side are dropped (pieces of the tokenizer); of a line that is translated four times
    as many are read."""
    max_ratio: float = Field(4.0, ge=1.0)
    """Training pairs whose sides differ more in length are dropped (ratio of characters, 15 added to each side
    so that short pairs may differ)."""

    @model_validator(mode="after")
    def _check(self) -> DataConfig:
        problems = []
        match = DIRECTION.match(self.direction)
        if match is None:
            problems.append(f"direction: {self.direction!r} is not of the form de-en")
        elif match[1] == match[2]:
            problems.append(f"direction: {self.direction!r} names one language twice")
        else:
            for where, source in self.sources():
                for field in ("files", "columns"):
                    given = getattr(source, field)
                    if given is not None and set(given) != {match[1], match[2]}:
                        wanted = " and ".join(sorted({match[1], match[2]}))
                        problems.append(f"{where}.{field}: must name {wanted}, found {', '.join(given) or 'none'}")
        for name in self.test:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or name in ("train", "valid"):
                problems.append(
                    f"test: {name!r} is no name for a test set; take letters, digits, _ . - and not train or valid"
                )
        _raise_together(problems)
        return self

    def sources(self) -> Iterator[tuple[str, Source]]:
        """Every source with its key within this section."""
        for i, source in enumerate(self.train):
            yield f"train.{i}", source
        yield "valid", self.valid
        for name, source in self.test.items():
            yield f"test.{name}", source

    @property
    def src(self) -> str:
        """The source language."""
        return self.direction.split("-")[0]

    @property
    def tgt(self) -> str:
        """The target language."""
        return self.direction.split("-")[1]

    @property
    def languages(self) -> tuple[str, str]:
        """Both languages in alphabetical order: the same for either direction."""
        first, second = sorted(self.direction.split("-"))
        return first, second

    @property
    def directory(self) -> Path:
        """`dir` with `{direction}` filled in."""
        return Path(self.dir.replace("{direction}", "-".join(self.languages)))


class TokenizerConfig(Section):
    """SentencePiece BPE, trained on the cleaned training text alone."""

    vocab_size: int = Field(10_000, ge=300, le=1_000_000)
    """Pieces, with the 256 bytes and the special ones; less if the corpus is too small for so many."""
    joint: bool = True
    """One vocabulary for both languages (true) or one for each (false)."""


class ModelConfig(Section):
    """The Transformer of "Attention Is All You Need" (Vaswani et al., 2017)."""

    d_model: int = Field(512, ge=2)
    """Width of the hidden states."""
    n_heads: int = Field(4, ge=1)
    """Attention heads; must divide d_model."""
    d_ff: int = Field(1024, ge=1)
    """Inner width of the feed-forward layers."""
    encoder_layers: int = Field(6, ge=1)
    """Layers of the encoder."""
    decoder_layers: int = Field(6, ge=1)
    """Layers of the decoder."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each sub-layer, with a final norm (pre), or after each residual sum as in the paper (post)."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Position embeddings: sinusoidal have no limit of length, learned have `max_positions`."""
    max_positions: int = Field(1024, ge=2)
    """The longest sequence that learned positions can take (pieces, end of sentence included)."""
    activation: Literal["relu", "gelu"] = "relu"
    """The non-linearity of the feed-forward layers."""
    tie_embeddings: Literal["all", "target", "none"] = "all"
    """Embeddings shared by source, target and output layer (all), by target and output layer (target), or by none."""
    embedding_dropout: float = Field(0.3, ge=0.0, lt=1.0)
    """Probability of dropping a unit of the embedded input, positions added."""
    residual_dropout: float = Field(0.3, ge=0.0, lt=1.0)
    """Probability of dropping a unit of a sub-layer's output before it is added to the residual stream."""
    attention_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Probability of dropping an attention weight."""
    activation_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Probability of dropping a unit inside a feed-forward layer."""

    @model_validator(mode="after")
    def _check(self) -> ModelConfig:
        problems = []
        if self.d_model % self.n_heads:
            problems.append(f"n_heads: {self.n_heads} does not divide d_model = {self.d_model}")
        if self.positions == "sinusoidal" and self.d_model % 2:
            problems.append(f"d_model: sinusoidal positions need an even width, found {self.d_model}")
        _raise_together(problems)
        return self


class TrainingConfig(Section):
    """How the model learns, for how long, and what is kept."""

    run_dir: str = "runs/{direction}"
    """The run directory that `train` writes; `{direction}` stands for data.direction."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of the initial weights, the order of the data and dropout."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train: auto takes a GPU if there is one."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """What several processes (torchrun) share: the gradients, each with a model of its own (ddp), or also weights and
    optimizer, divided among them (fsdp), for models that outgrow a device. Checkpoints are the same."""
    precision: Literal["auto", "float32", "bf16", "fp16"] = "auto"
    """Number format of the matrix products; weights are always float32. auto takes what a short probe
    finds fastest on a CPU, and on a GPU bf16, or fp16 where there is no bf16."""
    layout: Literal["auto", "padded", "packed"] = "auto"
    """How the sentences of a micro-batch lie in memory: side by side with padding, or one after the other without,
    which a GPU with bf16 or fp16 has a kernel for (not with attention_dropout). auto: packed where that kernel is. What
    is learned is the same."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Have PyTorch compile the model, which takes a minute or more before the first update. auto: on a GPU, unless it
    lacks a compiler or parallel is fsdp. What is learned is the same but for rounding and dropout's random numbers."""
    update_tokens: int = Field(4096, ge=1)
    """Target tokens of one optimizer update, end of sentence counted: decides what is learned."""
    max_tokens: Annotated[int, Field(ge=2)] | Literal["auto"] = 8192
    """Largest micro-batch, rows x longest side with padding (tokens): decides memory, not what is learned. auto: the
    largest that fits, found once at the start and kept in the run."""
    pool_pairs: int = Field(30_000, ge=30_000)
    """Pairs that are sorted by length together; larger pools pad less."""
    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0)
    """Probability mass spread evenly over the vocabulary."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """Adam (Kingma and Ba, 2015), or AdamW with decoupled weight decay (Loshchilov and Hutter, 2019)."""
    beta1: float = Field(0.9, ge=0.0, lt=1.0)
    """Decay of Adam's first moment."""
    beta2: float = Field(0.98, ge=0.0, lt=1.0)
    """Decay of Adam's second moment."""
    eps: float = Field(1e-9, gt=0.0)
    """Adam's epsilon."""
    weight_decay: float = Field(0.0, ge=0.0)
    """Weight decay, of matrices only: decoupled with adamw, an L2 gradient with adam."""
    schedule: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant"] = "noam"
    """Learning rate over steps. noam: factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5). The others
    rise linearly to peak_lr in warmup_steps, then fall with step^-0.5, linearly or as a cosine to 0 at max_steps,
    or stay."""
    factor: float = Field(1.0, gt=0.0)
    """noam's factor."""
    peak_lr: float = Field(7e-4, gt=0.0)
    """Highest learning rate of every schedule but noam."""
    warmup_steps: int = Field(4000, ge=1)
    """Updates until the learning rate is highest."""
    cooldown: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of the run, at its end, over which the learning rate of noam, inverse_sqrt or constant falls linearly to 0.
    Where it starts and ends is fixed once, by the limit that is nearest then (max_steps, max_epochs or max_minutes)."""
    clip_norm: float = Field(1.0, ge=0.0)
    """Largest L2 norm of the gradient of an update, which is scaled down to it; 0 does not clip."""
    max_steps: int = Field(50_000, ge=1)
    """Training ends after so many updates."""
    max_epochs: int | None = Field(None, ge=1)
    """Training ends after so many passes over the corpus; null: no limit."""
    max_minutes: float | None = Field(None, gt=0.0)
    """Training ends after so many minutes, summed over resumes; null: no limit."""
    log_every_steps: int = Field(100, ge=1)
    """Updates between records in log.jsonl and TensorBoard."""
    validate_every_steps: int = Field(1000, ge=1)
    """Updates between validations."""
    save_every_steps: int = Field(1000, ge=1)
    """Updates between checkpoints; a validation has one besides."""
    keep_last: int = Field(5, ge=2)
    """Newest checkpoints that are kept, besides the best."""
    average_last: int = Field(5, ge=1)
    """At the end the weights of so many newest checkpoints are averaged and taken if they score better on the
    development set; 1 does not average."""
    select_by: Literal["bleu", "chrf", "loss"] = "bleu"
    """What decides which checkpoint is best on the development set."""
    patience: int | None = Field(None, ge=1)
    """Training ends after so many validations in a row without a new best; null: never."""

    @model_validator(mode="after")
    def _check(self) -> TrainingConfig:
        problems = []
        if self.average_last > self.keep_last:
            problems.append(f"average_last: {self.average_last} is more than keep_last = {self.keep_last}")
        if self.schedule in ("linear", "cosine") and self.warmup_steps >= self.max_steps:
            problems.append(
                f"warmup_steps: {self.warmup_steps} leaves nothing of max_steps = {self.max_steps} "
                f"for the {self.schedule} schedule to fall in"
            )
        if self.cooldown and self.schedule in ("linear", "cosine"):
            problems.append(f"cooldown: the {self.schedule} schedule falls to 0 by itself; leave cooldown at 0")
        if self.max_tokens == "auto" and self.parallel == "fsdp":
            problems.append("max_tokens: auto measures a model that is not divided; with parallel: fsdp give a number")
        _raise_together(problems)
        return self


class SearchConfig(Section):
    """How translations are searched for."""

    beam: int = Field(5, ge=1)
    """Hypotheses kept per sentence; 1 is greedy search."""
    length_penalty: float = Field(1.0, ge=-10.0, le=10.0)
    """Exponent A of the length penalty by which a hypothesis's log-probability is divided; 0 does not divide."""
    length_penalty_kind: Literal["power", "gnmt"] = "power"
    """power: length^A; gnmt: ((5 + length) / 6)^A (Wu et al., 2016). Length is in pieces, end of sentence counted."""
    max_length_ratio: float = Field(2.0, ge=0.0)
    """A translation has at most max_length_ratio * source length + max_length_offset pieces."""
    max_length_offset: int = Field(10, ge=1)
    """See max_length_ratio (pieces)."""
    batch_tokens: int = Field(2048, ge=1)
    """Source tokens of one batch, rows x longest row."""


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
                f"training.max_tokens: {self.training.max_tokens} has no room for the longest pair, "
                f"data.max_pieces = {self.data.max_pieces} and its end of sentence"
            )
        if self.model.positions == "learned" and self.model.max_positions <= self.data.max_pieces:
            problems.append(
                f"model.max_positions: {self.model.max_positions} has no room for data.max_pieces = "
                f"{self.data.max_pieces} and an end of sentence"
            )
        _raise_together(problems)
        return self

    @property
    def run_directory(self) -> Path:
        """`training.run_dir` with `{direction}` filled in."""
        return Path(self.training.run_dir.replace("{direction}", self.data.direction))
