"""Settings of training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt.config.modifiers import ModifiersConfig
from nmt.config.section import Section, raise_together
from nmt.config.stages import Stage

PairNegative = Literal["shuffled", "cut", "replaced", "number", "copied"]


class TrainingConfig(Section):
    """Objective, optimization, duration, validation and checkpoints."""

    run_dir: str = "runs/{direction}"
    """Run directory written by `nmt train`. `{direction}` is replaced by data.direction."""
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
    layout: Literal["auto", "padded", "packed"] = "auto"
    """Layout of micro-batches. padded: sentences are padded to the same length. packed: sentences are concatenated
    without padding, which requires a GPU, bf16 or fp16, and no attention_dropout. auto: packed where it is supported.
    Results do not depend on the layout, except for rounding."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Whether to compile the model with torch.compile, which delays the first update by a minute or more. auto: on a
    GPU, unless there is no compiler or parallel is fsdp. Results are the same except for rounding and the random
    numbers of dropout."""
    update_tokens: int = Field(4096, ge=1)
    """Target tokens per optimizer update, end of sentence included. This affects what the model learns."""
    max_tokens: Annotated[int, Field(ge=2)] | Literal["auto"] = 8192
    """Maximum size of a micro-batch in tokens including padding (rows x longest side). This affects memory, not what
    the model learns. auto: the largest size that fits into memory, measured once at the start of the run."""
    pool_pairs: int = Field(30_000, ge=30_000)
    """Number of pairs that are sorted by length together. Larger pools need less padding."""
    objective: Literal["translation", "denoising", "masked", "causal", "classification"] = "translation"
    """What the model learns. translation: to translate the training pairs. denoising: to restore lines in which spans
    of pieces are masked (Lewis et al., 2019); with noise: infilling, BLEU and chrF compare the restored lines of the
    development set with the original ones. masked: to predict masked pieces of a line (Devlin et al., 2019). causal: to
    predict each piece from those before it, as a language model does. classification: to predict the label of a text,
    with data.direction: en-label; the loss of an update is the mean over its texts. denoising, masked and causal learn
    from single lines, of the training pairs and of data.mono, and need a joint vocabulary if these are in both
    languages; they serve as pre-training for a run with init_from."""
    languages: list[str] = Field([])
    """denoising, masked, causal: languages to learn from. []: both languages, or the target language for causal."""
    noise: Literal["infilling", "span"] = "infilling"
    """denoising: how a line is masked. infilling: several spans are each replaced by one mask, and the decoder restores
    the whole line. span: the pieces of one span are replaced, 80 % by masks and 10 % by random pieces, while 10 % stay
    (MASS; Song et al., 2019); the decoder predicts the pieces of the span and reads masks in place of those before
    it."""
    mask_share: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """denoising, masked: mean share of the pieces of a line that are masked. null: 0.35 for denoising, 0.5 with noise:
    span, and 0.15 for masked."""
    lm_weight: float = Field(0.0, ge=0.0)
    """classification with model.kind: decoder: weight of an auxiliary language model loss (the mean over the pieces of
    each text), added to the loss of the labels; Radford et al. (2018) use 0.5."""
    mask_span: float = Field(3.5, ge=1.0)
    """noise: infilling: mean length of a span in pieces (Poisson distribution). Each span is replaced by one mask; for
    a span of length 0, a mask is inserted."""
    mask_words: bool = False
    """masked: whether to mask all pieces of a word together, for languages written with spaces."""
    pair_task: bool = False
    """masked: also learn to recognise translations. Each pair is one sequence, masked on both sides, and half of the
    pairs have a wrong side. The cross-entropy of this decision (the mean over the pairs) is added to the loss."""
    pair_negatives: Annotated[list[PairNegative], Field(min_length=1)] = Field(["shuffled"])
    """pair_task: how a wrong source or target is made; one kind is drawn per pair, with equal probability. shuffled:
    taken from another pair of similar length. cut: its second half is removed. replaced: a word is replaced by one of
    another pair. number: a digit is changed. copied: a copy of the other side. If a kind is impossible for a pair, such
    as number without digits, another kind is used."""
    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0)
    """Probability mass spread uniformly over the vocabulary or the labels (Szegedy et al., 2016)."""
    consistency: Literal["none", "rdrop", "simcut"] = "none"
    """Consistency training: predictions of a second, perturbed forward pass must agree with the first. rdrop (Wu et
    al., 2021): another dropout mask; the loss is the sum of both cross-entropies plus consistency_weight * (KL(p||q) +
    KL(q||p)) / 2. simcut (Gao et al., 2022): some tokens cut on both sides; the loss is the cross-entropy of the first
    pass plus consistency_weight * KL(p||q), with gradients through both passes. Both losses are averaged over the
    target tokens of one pass. An update takes about twice as long."""
    consistency_weight: float = Field(3.0, ge=0.0)
    """Weight of the divergence; 0 disables consistency training. Typically 3 for simcut. rdrop sums the two
    cross-entropies: a weight of 2.5 in implementations that average them corresponds to 5 here."""
    consistency_start: int = Field(0, ge=0)
    """Number of updates before consistency training starts; these updates take half as long."""
    cut_rate: float = Field(0.05, ge=0.0, lt=1.0)
    """simcut: probability that the embedding of a token is replaced by zeros. Its position embedding stays, and the end
    of the source is never cut."""
    src_bpe_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """BPE-dropout (Provilkov et al., 2020): probability that a merge is skipped when the source is segmented, which is
    done anew in every epoch; typically 0.1. It does not apply to translation and validation."""
    tgt_bpe_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """BPE-dropout of the target."""
    modifiers: ModifiersConfig = ModifiersConfig()
    """Data augmentation (case, typos, noise, terms and others); off by default."""
    both_directions: bool = False
    """Learn every pair in both directions with one model and no language tag, as pre-training for fine-tuning in one
    direction (init_from). Requires a joint vocabulary. Validation is in data.direction."""
    stages: list[Stage] = Field([])
    """Curriculum: consecutive stages that mix the training corpora differently. They can be changed without preparing
    the data again."""
    init_from: str | Annotated[dict[Literal["encoder", "decoder"], str], Field(min_length=1)] | None = None
    """Run directory or exported folder whose selected weights a new run starts from; optimizer, schedule and step start
    from zero. The tokenizers must be equal, and weights that both models have must have the same shapes; others are
    initialized at random. With {encoder: RUN, decoder: RUN}, each stack is initialized from its own run: from the stack
    of the same name, or from the only one of that run. Set by `--init-from`."""
    freeze: list[Literal["embeddings", "encoder", "decoder", "cross_attention"]] = Field([])
    """Parts whose weights are not trained. embeddings: token and position embeddings, and the output layer if it is not
    tied. encoder, decoder: layers and final norm. cross_attention: the decoder's attention to the source."""
    optimizer: Literal["adam", "adamw"] = "adamw"
    """adamw: Adam with decoupled weight decay (Loshchilov and Hutter, 2019). adam: Adam (Kingma and Ba, 2015)."""
    beta1: float = Field(0.9, ge=0.0, lt=1.0)
    """Decay rate of Adam's first moment."""
    beta2: float = Field(0.98, ge=0.0, lt=1.0)
    """Decay rate of Adam's second moment."""
    eps: float = Field(1e-9, gt=0.0)
    """Adam's epsilon."""
    weight_decay: float = Field(0.0, ge=0.0)
    """Weight decay of matrices: decoupled with adamw, L2 regularization with adam."""
    schedule: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant"] = "noam"
    """Learning rate schedule. noam: factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5). All others rise
    linearly to peak_lr over warmup_steps. Then inverse_sqrt decays with step^-0.5, linear and cosine decay to 0 at
    max_steps, and constant stays at peak_lr."""
    factor: float = Field(1.0, gt=0.0)
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
    """Maximum training time in minutes, summed over resumes; null: no limit. A cool-down that has begun is
    completed."""
    log_every_steps: int = Field(100, ge=1)
    """Number of updates between records in log.jsonl and TensorBoard."""
    validate_every_steps: int = Field(1000, ge=1)
    """Number of updates between validations."""
    save_every_steps: int = Field(1000, ge=1)
    """Number of updates between checkpoints. Every validation saves a checkpoint, too."""
    ema: float = Field(0.0, ge=0.0, lt=1.0)
    """Decay of an exponential moving average of the weights (float32), which is validated as well; 0: no average. 0.999
    averages over about 1,000 updates. Early in training, the decay is limited to (1 + step) / (10 + step)."""
    keep_last: int = Field(5, ge=2)
    """Number of most recent checkpoints to keep, in addition to the best."""
    average_last: int = Field(5, ge=1)
    """Number of most recent checkpoints whose weights are averaged at the end of training; 1: no averaging. The average
    is selected if it scores better on the development set."""
    select_by: Literal["auto", "bleu", "chrf", "loss", "accuracy"] = "auto"
    """Score on the development set by which checkpoints are selected. auto: BLEU for objectives that write text,
    accuracy for classification, and loss otherwise."""
    patience: int | None = Field(None, ge=1)
    """Early stopping: number of consecutive validations without improvement after which training ends; null: no early
    stopping."""

    @property
    def ends_at_max_steps(self) -> bool:
        """Whether the learning rate of the schedule reaches 0 at `max_steps`."""
        return self.schedule in ("linear", "cosine")

    @property
    def writes_text(self) -> bool:
        """Whether validation translates or restores the development set and scores the text. With `noise: span` only
        single spans are predicted."""
        return self.objective == "translation" or (self.objective == "denoising" and self.noise == "infilling")

    @property
    def selected_by(self) -> str:
        """The score by which checkpoints are selected."""
        if self.select_by != "auto":
            return self.select_by
        if self.objective == "classification":
            return "accuracy"
        return "bleu" if self.writes_text else "loss"

    @property
    def masked_share(self) -> float:
        """`mask_share`, or its default for the objective."""
        if self.objective != "denoising":
            return self.mask_share or 0.15
        return self.mask_share or (0.5 if self.noise == "span" else 0.35)

    @property
    def idle_rate(self) -> str:
        """Which of `factor` and `peak_lr` has no effect with this schedule."""
        return "peak_lr" if self.schedule == "noam" else "factor"

    @model_validator(mode="after")
    def _check(self) -> TrainingConfig:
        problems = []
        if self.average_last > self.keep_last:
            problems.append(f"average_last: {self.average_last} is more than keep_last = {self.keep_last}")
        if self.ends_at_max_steps and self.warmup_steps >= self.max_steps:
            problems.append(
                f"warmup_steps: must be below max_steps = {self.max_steps} for the {self.schedule} schedule to decay, "
                f"found {self.warmup_steps}"
            )
        if self.consistency != "none" and self.consistency_weight and self.consistency_start >= self.max_steps:
            problems.append(
                f"consistency_start: must be below max_steps = {self.max_steps} for {self.consistency} to take effect, "
                f"found {self.consistency_start}"
            )
        if self.objective != "translation":
            problems += self._only_of_pairs()
        elif self.languages:
            problems.append("languages: not available with objective: translation")
        if self.pair_task and self.objective != "masked":
            problems.append(f"pair_task: only available with objective: masked, found {self.objective}")
        if self.pair_task and self.languages:
            problems.append("languages: not available with pair_task, which learns both languages")
        problems += self._against_one_span()
        problems += self._against_classification()
        if not self.writes_text and self.select_by in ("bleu", "chrf"):
            what = "noise: span" if self.noise == "span" else f"objective: {self.objective}"
            problems.append(f"select_by: {self.select_by} needs translations, but {what} writes none; use loss or auto")
        if self.cooldown and self.ends_at_max_steps:
            problems.append(f"cooldown: must be 0 with the {self.schedule} schedule, which already decays to 0")
        if self.max_tokens == "auto" and self.parallel == "fsdp":
            problems.append("max_tokens: auto is not available with parallel: fsdp; give a number")
        raise_together(problems)
        return self

    def _only_of_pairs(self) -> list[str]:
        """Return problems of settings that need translation pairs."""
        given = {
            "modifiers": self.modifiers.rates,
            "both_directions": self.both_directions,
            "src_bpe_dropout": self.src_bpe_dropout,
            "tgt_bpe_dropout": self.tgt_bpe_dropout,
        }
        return [f"{name}: not available with objective: {self.objective}" for name, value in given.items() if value]

    def _against_one_span(self) -> list[str]:
        """Return problems of settings that conflict with `noise: span`."""
        if self.noise != "span":
            return []
        problems = []
        if self.objective != "denoising":
            problems.append(f"noise: span is only available with objective: denoising, found {self.objective}")
        if self.mask_span != type(self).model_fields["mask_span"].default:
            problems.append("mask_span: not available with noise: span, whose length is set by mask_share")
        return problems

    def _against_classification(self) -> list[str]:
        """Return problems of settings that conflict with classification or need it."""
        if self.objective != "classification":
            given = {"lm_weight": self.lm_weight, "select_by: accuracy": self.select_by == "accuracy"}
            return [f"{name}: only available with objective: classification" for name, value in given.items() if value]
        given = {
            "consistency": self.consistency != "none" and self.consistency_weight,
            "languages": bool(self.languages),
        }
        return [f"{name}: not available with objective: classification" for name, value in given.items() if value]
