"""Settings of training, objectives and stages, and checks of their combination with the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from nmt.section import Section, raise_together
from nmt.training.facts import (
    OBJECTIVES,
    CausalConfig,
    DenoisingConfig,
    MaskedConfig,
    Metric,
    ObjectiveFacts,
    ObjectiveName,
)

DEFAULT_MAX_TOKENS = 8192
"""The default of `max_tokens` but for one process on a GPU; larger micro-batches are not faster on a CPU."""
Modifier = Literal[
    "upper_case", "title_case", "lower_case", "typos", "drop_end_punctuation", "noise", "placeholders", "tags", "terms",
    "fuzzy", "join",
]  # fmt: skip
"""The names of the modifiers of training pairs."""

DECAYS: dict[str, Callable[[float], float]] = {
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
}
"""The schedules that end at `max_steps`: the share of `peak_lr` that is left when a share of the updates from the
warm-up until then is done."""

Rate = Annotated[float, Field(ge=0.0, le=1.0)]


def _ordered(rates: dict[Modifier, float]) -> dict[Modifier, float]:
    """Return the modifiers with a share above 0, in the fixed order in which they are drawn."""
    return {name: rates[name] for name in get_args(Modifier) if rates.get(name)}


class Stage(Section):
    """A part of a run with its own mixture of the training corpora."""

    weights: dict[str, float] | None = None
    """Name of a training corpus -> its weight. Weights need not add up to 1; corpora without a weight are not used in
    this stage. null: the mixture of `data`."""
    temperature: float | None = Field(None, ge=1.0)
    """Replaces `data.temperature` in this stage; an alternative to `weights`."""
    steps: int | None = Field(None, ge=1)
    """Length of the stage in updates; must be given for every stage except the last."""

    @model_validator(mode="after")
    def _check_stage_settings(self) -> Stage:
        problems = []
        if self.weights is not None:
            if self.temperature is not None:
                problems.append("give weights or temperature, not both")
            for name, weight in self.weights.items():
                if weight < 0:
                    problems.append(f"weights.{name}: must be at least 0, found {weight:g}")
            if not any(weight > 0 for weight in self.weights.values()):
                problems.append("weights: at least one must be above 0")
        raise_together(problems)
        return self


class TrainingConfig(Section):
    """Objective, optimization, duration, validation and checkpoints."""

    run_dir: str = "runs/{direction}"
    """Run directory written by `nmt train`. `{direction}` is replaced by data.direction, or with several
    `directions` by their languages: `de-en-fr`."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Random seed of the initial weights, the order of the data, and dropout."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on. auto: a GPU if one is available."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """How several processes (torchrun) train one model. ddp: every process has the whole model, and gradients are
    summed. fsdp: weights, gradients and optimizer state are sharded, for models that do not fit on one device. Both
    write the same checkpoints."""
    exchange_precision: Literal["float32", "bf16"] = "float32"
    """Number format in which processes exchange and sum gradients. bf16 halves network traffic, at a relative rounding
    error of up to 0.4 %."""
    precision: Literal["auto", "float32", "bf16", "fp16"] = "auto"
    """Number format of matrix products; weights are always float32. auto: on a CPU the fastest in a short probe; on a
    GPU bf16, or fp16 if the GPU does not support bf16."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Whether to compile the model with torch.compile, which delays the first update by a minute or more. auto: on a
    GPU, unless there is no compiler, parallel is fsdp, or recompute is on. Results are the same except for rounding and
    the random numbers of dropout."""
    update_tokens: int = Field(4096, ge=1)
    """Target tokens per optimizer update, end of sentence included. This affects what the model learns."""
    max_tokens: Annotated[int, Field(ge=2)] | Literal["auto"] | None = None
    """Maximum size of a micro-batch in tokens of its larger side. This affects memory, not what the model learns. auto:
    the largest size that fits into memory, measured once at the start of the run. By default auto for one process on a
    GPU, otherwise 8,192."""
    recompute: bool = False
    """Whether the backward pass computes the activations of each layer again instead of keeping them all (activation
    checkpointing; Chen et al., 2016, arXiv:1604.06174). This takes much less memory for one more forward pass of the
    layers, and learns the same. The model is then not compiled."""
    objective: ObjectiveName = "translation"
    """What the model learns. translation: to translate the training pairs. denoising: to restore lines in which spans
    of pieces are masked (Lewis et al., 2019). masked: to predict masked pieces of a line (Devlin et al., 2019). causal:
    to predict each piece from those before it, as a language model does. classification: to predict the label of a
    text, with data.direction: en-label; the loss of an update is the mean over its texts. denoising, masked and causal
    learn from single lines, of the training pairs and of data.mono, and need a joint vocabulary if these are in both
    languages; they serve as pre-training for a run with init_from."""
    denoising: DenoisingConfig = DenoisingConfig()
    """Settings of the objective denoising."""
    masked: MaskedConfig = MaskedConfig()
    """Settings of the objective masked."""
    causal: CausalConfig = CausalConfig()
    """Settings of the objective causal."""
    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0)
    """Probability mass spread uniformly over the vocabulary or the labels (Szegedy et al., 2016)."""
    consistency: Literal["none", "rdrop", "simcut", "crossconst"] = "none"
    """Consistency training: predictions of a second forward pass must agree with the first. rdrop (Wu et al., 2021):
    another dropout mask; the loss is the sum of both cross-entropies plus consistency_weight * (KL(p||q) + KL(q||p)) /
    2. simcut (Gao et al., 2022): some tokens cut on both sides; the loss is the cross-entropy of the first pass plus
    consistency_weight * KL(p||q), with gradients through both passes. crossconst (Gao et al., 2023, arXiv:2305.07310):
    as simcut, but the second pass translates the target into itself, so that a model with several directions also
    learns to translate between languages of which it has no pairs. Losses are averaged over the target tokens of one
    pass. An update takes about twice as long."""
    consistency_weight: float = Field(3.0, ge=0.0, le=1000.0)
    """Weight of the divergence; 0 disables consistency training. The default for crossconst is 0.25. rdrop sums the two
    cross-entropies: a weight of 2.5 in implementations that average them corresponds to 5 here."""
    cut_rate: float = Field(0.05, ge=0.0, lt=1.0)
    """simcut: probability that the embedding of a token is replaced by zeros. Its position embedding stays, and the end
    of the source is never cut."""
    bpe_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """BPE-dropout (Provilkov et al., 2020): probability that a merge is skipped when text is segmented, which is done
    anew in every epoch; typically 0.1. It does not apply to labels, translation and validation."""
    subword_nbest: int = Field(1, ge=1, le=512)
    """Subword regularization of an imported unigram tokenizer (Kudo, 2018): the segmentation of each word is drawn anew
    in every epoch from its subword_nbest most probable ones, the probable ones more often; typically 16. 1: none."""
    tag_dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Probability that a pair of a corpus with `tags` is learned without them, so that the model also translates text
    without tags. Chosen anew in every epoch."""
    modifiers: Annotated[dict[Modifier, Rate], AfterValidator(_ordered)] = Field({})
    """Data augmentation: modifier -> share of the training pairs to which it is applied. Pairs are drawn anew in every
    epoch, and at most one modifier is applied to a pair. upper_case: both sides in upper case, if the script of the
    source has case; typically 0.07. title_case: Each Word Capitalized on both sides, likewise; typically 0.05.
    lower_case: the source in lower case, while the target keeps its capitals; typically 0.05. typos: some letters of
    the source swapped, omitted, doubled or replaced by neighbours on the keyboard (alphabetic scripts only); typically
    0.05. drop_end_punctuation: both sides without sentence-final punctuation, if both have it; typically 0.2. noise:
    both sides replaced by the same line of random symbols of many scripts, so that the model learns to copy unknown
    text; typically 0.0005. placeholders: numbers, addresses and names that are the same on both sides replaced by
    placeholders such as {name} or %s; typically 0.01. tags: tags such as <b> and </b> around both sides, or around a
    number, an address or a name that is the same on both; typically 0.005. terms: the translation by
    training.glossary, between marks, after terms of the source that the target translates so, for
    search.inline_terms; typically 0.1. fuzzy: after the source and a separator the target of the most similar other
    training pair, if any (neural fuzzy repair, Bulté and Tezcan, 2019), so that the model learns to use a translation
    memory; needs data.fuzzy_threshold and a joint vocabulary; typically 0.8. join: a pair with the next one to three of
    its document, with a separator between them on both sides, so that the model translates lines of several sentences
    at once, and sentences in context (search.context); needs data.documents; typically 0.5."""
    glossary: str | None = None
    """The glossary for the modifier terms, in data.direction, with a source term, a tab and its translation per line,
    as for nmt translate --glossary. It should cover as many words of the training text as possible."""
    stages: list[Stage] = Field([])
    """Curriculum: consecutive stages that mix the training corpora differently. They can be changed without preparing
    the data again."""
    init_from: str | Annotated[dict[Literal["encoder", "decoder"], str], Field(min_length=1)] | None = None
    """Run directory or exported folder whose selected weights a new run starts from; optimizer, schedule and step start
    from zero. The tokenizers must be equal, and weights that both models have must have the same shapes; others are
    initialized at random. With {encoder: RUN, decoder: RUN}, each stack is initialized from its own run: from the stack
    of the same name, or from the only one of that run. Set by `--init-from`."""
    watch: list[str] = Field([])
    """Test sets whose first 500 lines, or validate_lines, are translated at each validation, to see what
    fine-tuning on one kind of text costs on others. Nothing depends on their scores."""
    start_share: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of the starting weights (init_from) in the weights that are finally selected, against forgetting (Wortsman
    et al., 2022, arXiv:2109.01903): each weight is start_share * start + (1 - start_share) * fine-tuned. 0: none."""
    freeze: list[Literal["embeddings", "encoder", "decoder", "cross_attention"]] = Field([])
    """Parts whose weights are not trained. embeddings: token and position embeddings, and the output layer if it is not
    tied, but not the rows of new pieces and tags. encoder, decoder: layers and final norm. cross_attention: the
    decoder's attention to the source."""
    optimizer: Literal["adam", "adamw", "muon"] = "adamw"
    """adamw: Adam with decoupled weight decay (Loshchilov and Hutter, 2019). adam: Adam (Kingma and Ba, 2015). muon:
    orthogonalized updates of the matrices of layers (Jordan et al., 2024), and adamw for everything else, with the same
    learning rate. Not available with parallel: fsdp."""
    betas: list[Annotated[float, Field(ge=0.0, lt=1.0)]] = Field([0.9, 0.98], min_length=2, max_length=2)
    """Decay rates of Adam's first and second moment. Muon's momentum is always 0.95."""
    eps: float = Field(1e-9, gt=0.0)
    """Adam's epsilon."""
    weight_decay: float = Field(0.0, ge=0.0, le=1000.0)
    """Weight decay of matrices: decoupled with adamw and muon, L2 regularization with adam."""
    schedule: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant"] = "noam"
    """Learning rate schedule. noam: factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5). All others rise
    linearly to peak_lr over warmup_steps. Then inverse_sqrt decays with step^-0.5, linear and cosine decay to 0 at
    max_steps, and constant stays at peak_lr."""
    factor: float = Field(1.0, gt=0.0, le=1000.0)
    """Factor of the noam schedule."""
    peak_lr: float = Field(7e-4, gt=0.0)
    """Peak learning rate of all schedules except noam."""
    warmup_steps: int = Field(4000, ge=1)
    """Number of warm-up updates, after which the learning rate reaches its peak."""
    cooldown: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of the run, at its end, over which the learning rate of noam, inverse_sqrt or constant falls linearly to 0.
    Its first and last updates are fixed once, from the limit that will be reached first (max_steps, max_epochs or
    max_minutes) at the pace so far. A run that ends early by patience has no cool-down."""
    clip_norm: float = Field(1.0, ge=0.0)
    """Maximum L2 norm of the gradient; 0: no clipping."""
    max_steps: int = Field(50_000, ge=1)
    """Maximum number of updates."""
    max_epochs: int | None = Field(None, ge=1)
    """Maximum number of passes over the training data; null: no limit."""
    max_minutes: float | None = Field(None, gt=0.0)
    """Maximum time of nmt train in minutes, summed over resumes; null: no limit. Updates end earlier, to leave time for
    the last validations and checkpoints: as long as those before took, but at most a twentieth of the time. A cool-down
    that has begun is completed."""
    planned_steps: int | None = Field(None, ge=1)
    """Number of updates for which the other settings were chosen, as nmt config --for-pairs writes it. If the limits
    allow far fewer, a warning says so; the number of passes that is printed rests on it."""
    report_to: list[Literal["tensorboard", "wandb", "mlflow", "trackio"]] = Field(["tensorboard"])
    """Experiment trackers that get the settings, the scores of each record, the machine and the model card, besides
    log.jsonl, which is always written. tensorboard: files in the run directory. wandb (Weights & Biases), mlflow and
    trackio: through their libraries (extras of the same names), whose environment variables choose server and project.
    A resumed run continues its run of the tracker; a tracker that fails does not stop training."""
    log_every_steps: int = Field(100, ge=1)
    """Number of updates between records in log.jsonl and in the trackers."""
    validate_every_steps: int = Field(1000, ge=1)
    """Number of updates between validations. With max_minutes, some are left out if validations and checkpoints would
    take more than a twentieth of the time."""
    validate_lines: int | None = Field(None, ge=1)
    """Maximum number of lines of the development set that each validation translates, by greedy search; the selected
    weights translate all of them at the end. null: all, of several directions 200 each."""
    save_every_steps: int = Field(1000, ge=1)
    """Number of updates between checkpoints. Every validation saves a checkpoint, too."""
    ema: float = Field(0.0, ge=0.0, lt=1.0)
    """Decay of an exponential moving average of the weights (float32), which is validated as well; 0: no average. 0.999
    averages over about 1,000 updates. Early in training, the decay is limited to (1 + step) / (10 + step)."""
    keep_last: int = Field(5, ge=2)
    """Number of most recent checkpoints to keep, in addition to the best."""
    average_last: int = Field(5, ge=1)
    """Number of most recent checkpoints whose weights are averaged at the end of training; 1: no averaging. Checkpoints
    from before half of a cool-down are left out. The average is selected if it scores better on the development set."""
    select_by: Literal["auto", "bleu", "chrf", "loss", "accuracy"] = "auto"
    """Score on the development set by which checkpoints are selected. auto: BLEU for objectives that write text, or
    chrF if the references have few four-grams, as terms do; accuracy for classification, and loss otherwise."""
    patience: int | None = Field(None, ge=1)
    """Early stopping: number of consecutive validations without improvement after which training ends; null: no early
    stopping."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, settings: object) -> object:
        if isinstance(settings, dict) and settings.get("consistency") == "crossconst":
            return {"consistency_weight": 0.25, **settings}
        return settings

    @property
    def ends_at_max_steps(self) -> bool:
        """Whether the learning rate depends on `max_steps`, where the curve of the schedule ends."""
        return self.schedule in DECAYS

    @property
    def has_consistency(self) -> bool:
        """Whether updates make a second forward pass, for consistency training."""
        return self.consistency != "none" and self.consistency_weight > 0

    @property
    def copies_targets(self) -> bool:
        """Whether the second pass translates the targets into themselves."""
        return self.has_consistency and self.consistency == "crossconst"

    @property
    def joins_sentences(self) -> bool:
        """Whether the model translates several sentences at once, with separators between them."""
        return "join" in self.modifiers

    @property
    def reads_similar(self) -> bool:
        """Whether the model reads the translation of a similar line beside each line."""
        return "fuzzy" in self.modifiers

    @property
    def learns_lines(self) -> bool:
        """Whether training examples are single lines instead of pairs."""
        return self.facts.learns_lines and not self.masked.pair_task

    @property
    def facts(self) -> ObjectiveFacts:
        """The facts about the objective."""
        return OBJECTIVES[self.objective]

    def selected_by(self, text_score: Metric) -> str:
        """Return the score by which checkpoints are selected; for `text_score`, see `RunInfo`."""
        if self.select_by != "auto":
            return self.select_by
        return text_score if self.facts.writes_text else next(iter(self.facts.scores), "loss")

    @property
    def languages(self) -> list[str]:
        """The languages to which a single-line objective is restricted."""
        section = getattr(self, self.objective, None)
        return getattr(section, "languages", [])

    @model_validator(mode="after")
    def _check_training_settings(self) -> TrainingConfig:
        problems = []
        if self.average_last > self.keep_last:
            problems.append(f"average_last: {self.average_last} is more than keep_last = {self.keep_last}")
        if self.ends_at_max_steps and self.warmup_steps >= self.max_steps:
            problems.append(
                f"warmup_steps: must be below max_steps = {self.max_steps} for the {self.schedule} schedule to decay, "
                f"found {self.warmup_steps}"
            )
        if (total := sum(self.modifiers.values())) > 1 + 1e-9:
            problems.append(f"modifiers: the shares add up to {total:g}, but must be at most 1")
        if "terms" in self.modifiers and self.glossary is None:
            problems.append("glossary: must be given with the modifier terms")
        if self.select_by not in ("auto", "loss", *self.facts.scores):
            possible = " or ".join((*self.facts.scores, "loss", "auto"))
            problems.append(
                f"select_by: {self.select_by} is not available with objective: {self.objective}; use {possible}"
            )
        if self.max_tokens == "auto" and self.parallel == "fsdp":
            problems.append("max_tokens: auto is not available with parallel: fsdp; give a number")
        if self.optimizer == "muon" and self.parallel == "fsdp":
            problems.append("optimizer: muon is not available with parallel: fsdp; use adamw")
        raise_together(problems)
        return self
