"""Settings of the training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt.config.modifiers import ModifiersConfig
from nmt.config.section import Section, raise_together
from nmt.config.stages import Stage

PairNegative = Literal["shuffled", "cut", "replaced", "number", "copied"]


class TrainingConfig(Section):
    """Optimization, length of the training, and what is kept."""

    run_dir: str = "runs/{direction}"
    """The run directory that `nmt train` writes; `{direction}` stands for data.direction."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of the initial weights, the order of the data and dropout."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on; auto takes a GPU if there is one."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """How several processes (torchrun) train together. ddp: each has the whole model, and gradients are summed. fsdp:
    weights, gradients and optimizer state are sharded, for models that do not fit on one device. Checkpoints are the
    same."""
    exchange_precision: Literal["float32", "bf16"] = "float32"
    """Number format in which several processes exchange and sum gradients. bf16 halves what goes over the network and
    rounds to 8 bits, a relative error of up to 0.4 %."""
    precision: Literal["auto", "float32", "bf16", "fp16"] = "auto"
    """Number format of matrix products; weights are always float32. auto: on a CPU the fastest in a short probe, on a
    GPU bf16, or fp16 if it has no bf16."""
    layout: Literal["auto", "padded", "packed"] = "auto"
    """Layout of micro-batches: sentences padded to the same length, or packed one after the other without padding,
    which needs an attention kernel of a GPU with bf16 or fp16 (not with attention_dropout). auto: packed where that
    kernel is available. What is learned is the same."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile the model with torch.compile, which takes a minute or more before the first update. auto: on a GPU,
    unless there is no compiler or parallel is fsdp. What is learned is the same but for rounding and the random numbers
    of dropout."""
    update_tokens: int = Field(4096, ge=1)
    """Target tokens of one optimizer update, end of sentence counted; affects what is learned."""
    max_tokens: Annotated[int, Field(ge=2)] | Literal["auto"] = 8192
    """Largest micro-batch in padded tokens, rows x longest side; affects memory, not what is learned. auto: the largest
    that fits into memory, measured once at the start of the run."""
    pool_pairs: int = Field(30_000, ge=30_000)
    """Pairs that are grouped by length together; larger pools need less padding."""
    objective: Literal["translation", "denoising", "masked", "causal", "classification"] = "translation"
    """What is learned. translation: the pairs. denoising: each line is restored from itself with spans of its pieces
    masked (Lewis et al., 2019); the development set is restored, too, so that its BLEU and chrF are of restored lines
    (with noise: infilling).
    masked: some pieces of each line (Devlin et al., 2019). causal: each piece of a line from those before it, as a
    language model does. classification: the labels of texts, with data.direction: en-label; an update's loss is the
    mean over its texts. denoising, masked and causal learn the lines of the training pairs and of data.mono one by one;
    if they are of both languages, that needs a joint vocabulary. They serve as pre-training for a run with
    init_from."""
    languages: list[str] = Field([])
    """denoising, masked, causal: the languages to learn. [] is both, for causal the target language."""
    noise: Literal["infilling", "span"] = "infilling"
    """denoising: how a line is masked. infilling: several spans, each of which becomes one mask; the decoder restores
    the whole line. span: one span, piece by piece, of which 80 % become masks, 10 % random pieces, and 10 % stay (MASS;
    Song et al., 2019); the decoder predicts the pieces of the span, and reads masks in place of those before it."""
    mask_share: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """denoising and masked: mean share of a line's pieces that are masked. null: what is usual, 0.35 for denoising, 0.5
    with noise: span, and 0.15 for masked."""
    lm_weight: float = Field(0.0, ge=0.0)
    """classification, model.kind = decoder: weight of the loss of a language model of the texts, the mean over the
    pieces of each text, beside that of the labels (Radford et al., 2018, who take 0.5)."""
    mask_span: float = Field(3.5, ge=1.0)
    """noise: infilling: mean number of pieces of a span (Poisson distribution); one mask stands for each span, and a
    span of no piece inserts one."""
    mask_words: bool = False
    """masked: the pieces of a word are masked together; for scripts with spaces between words."""
    pair_task: bool = False
    """masked: learn pairs as one sequence, masked on both sides, and whether they are translations: half of them have a
    wrong side. The cross-entropy of this decision, a mean over the pairs, is added to that of the masked pieces."""
    pair_negatives: Annotated[list[PairNegative], Field(min_length=1)] = Field(["shuffled"])
    """pair_task: kinds of wrong sides, source or target, drawn with equal probability. shuffled: that of another pair,
    of similar length; cut: its second half is missing; replaced: a word is one of another pair; number: a digit is
    another; copied: the other side. Where one is impossible, such as number without digits, another is taken."""
    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0)
    """Probability mass that is spread uniformly over the vocabulary, or the labels (Szegedy et al., 2016)."""
    consistency: Literal["none", "rdrop", "simcut"] = "none"
    """Consistency training: a second forward pass has to predict the same. rdrop (Wu et al., 2021): with other dropout;
    the loss is the sum of both cross-entropies plus consistency_weight * (KL(p||q) + KL(q||p)) / 2. simcut (Gao et al.,
    2022): with some tokens cut on both sides; the loss is the cross-entropy of the first pass plus consistency_weight *
    KL(p||q), with gradients through both passes. Both losses are averaged over the target tokens of one pass. An
    update takes about twice the time."""
    consistency_weight: float = Field(3.0, ge=0.0)
    """Weight of the divergence; 0: no consistency training. 3 is usual for simcut. For rdrop note that the two
    cross-entropies are summed: a weight of 2.5 where they are averaged corresponds to 5 here."""
    consistency_start: int = Field(0, ge=0)
    """Updates before consistency training starts; they take half the time."""
    cut_rate: float = Field(0.05, ge=0.0, lt=1.0)
    """simcut: probability of cutting a token's embedding; its position stays, and the end of the source is never
    cut."""
    src_bpe_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """BPE-dropout (Provilkov et al., 2020): probability of dropping a merge when the source is segmented, again in
    every epoch; 0.1 is usual. Translation and validation are without it."""
    tgt_bpe_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """The same for the target."""
    modifiers: ModifiersConfig = ModifiersConfig()
    """Shares of the training pairs that are modified in every epoch: case, typos, noise, terms …; none by default."""
    both_directions: bool = False
    """Learn from every pair in both directions with one model, without a language tag: pre-training for a fine-tuning
    in one direction (init_from). Needs a joint vocabulary. Validation is in data.direction."""
    stages: list[Stage] = Field([])
    """A curriculum: stages that mix the training corpora differently, one after the other. A change needs no new
    preparation."""
    init_from: str | Annotated[dict[Literal["encoder", "decoder"], str], Field(min_length=1)] | None = None
    """A run directory or an exported folder, whose selected weights a new run starts with; optimizer, schedule and step
    start from zero. The tokenizer must be the same, and of the model what both have; the rest stays random. Or one for
    each stack, {encoder: RUN, decoder: RUN}: of the model's two stacks that of the same name, or its only one. Set by
    `--init-from`."""
    freeze: list[Literal["embeddings", "encoder", "decoder", "cross_attention"]] = Field([])
    """Parts whose weights are frozen. embeddings: the tables of tokens and positions, and the output weight if it is
    not tied; encoder, decoder: their layers and final norm; cross_attention: that part of the decoder."""
    optimizer: Literal["adam", "adamw"] = "adamw"
    """AdamW with decoupled weight decay (Loshchilov and Hutter, 2019), Adam (Kingma and Ba, 2015), or schedule-free
    AdamW (Defazio et al., 2024; needs the extra `schedule-free`). It averages the weights instead of lowering the
    learning rate, so it needs a constant schedule with a warm-up and takes neither cooldown nor ema; its authors advise
    beta1 = 0.9 (0.95 to 0.98 for very long runs), and a peak_lr of 1 to 10 times what suits AdamW with a schedule."""
    beta1: float = Field(0.9, ge=0.0, lt=1.0)
    """Decay of Adam's first moment."""
    beta2: float = Field(0.98, ge=0.0, lt=1.0)
    """Decay of Adam's second moment."""
    eps: float = Field(1e-9, gt=0.0)
    """Adam's epsilon."""
    weight_decay: float = Field(0.0, ge=0.0)
    """Weight decay, on matrices only: decoupled with adamw, L2 regularization with adam."""
    schedule: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant"] = "noam"
    """Learning rate schedule. noam: factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5). The others
    rise linearly to peak_lr in warmup_steps, then fall with step^-0.5, linearly or as a cosine to 0 at max_steps,
    or stay constant."""
    factor: float = Field(1.0, gt=0.0)
    """Factor of the noam schedule."""
    peak_lr: float = Field(7e-4, gt=0.0)
    """Highest learning rate of every schedule but noam."""
    warmup_steps: int = Field(4000, ge=1)
    """Updates of the warm-up, after which the learning rate is highest."""
    cooldown: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of the run, at its end, over which the learning rate of noam, inverse_sqrt or constant falls linearly to 0.
    Its first and last update are fixed once, by the limit that is nearest then (max_steps, max_epochs or max_minutes)
    at the pace so far. A run that patience ends has no cool-down."""
    clip_norm: float = Field(1.0, ge=0.0)
    """Maximum L2 norm of the gradient of an update; 0: no clipping."""
    max_steps: int = Field(50_000, ge=1)
    """Maximum number of updates."""
    max_epochs: int | None = Field(None, ge=1)
    """Maximum number of passes over the corpus; null: no limit."""
    max_minutes: float | None = Field(None, gt=0.0)
    """Maximum minutes of training, summed over resumes, or until the end of a cool-down that they have fixed; null: no
    limit."""
    log_every_steps: int = Field(100, ge=1)
    """Updates between records in log.jsonl and TensorBoard."""
    validate_every_steps: int = Field(1000, ge=1)
    """Updates between validations."""
    save_every_steps: int = Field(1000, ge=1)
    """Updates between checkpoints; every validation saves one, too."""
    ema: float = Field(0.0, ge=0.0, lt=1.0)
    """Decay of an exponential moving average of the weights (float32), which is validated as well; 0: none. 0.999
    averages about 1,000 updates; the decay is at most (1 + step) / (10 + step)."""
    keep_last: int = Field(5, ge=2)
    """Number of newest checkpoints to keep, besides the best."""
    average_last: int = Field(5, ge=1)
    """Number of newest checkpoints whose weights are averaged at the end; the average is selected if it scores better
    on the development set. 1: no averaging."""
    select_by: Literal["auto", "bleu", "chrf", "loss", "accuracy"] = "auto"
    """Score on the development set by which checkpoints are selected. auto: BLEU if it is translated or restored, for
    classification the accuracy, else the loss."""
    patience: int | None = Field(None, ge=1)
    """Early stopping: end after so many validations in a row without a new best; null: no early stopping."""

    @property
    def ends_at_max_steps(self) -> bool:
        """Whether the schedule is a function of `max_steps` and falls to 0 there."""
        return self.schedule in ("linear", "cosine")

    @property
    def writes_text(self) -> bool:
        """Whether the development set is translated or restored, and its text scored; of a masked span alone there is
        none."""
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
        """`mask_share`, or the one that is usual for the objective."""
        if self.objective != "denoising":
            return self.mask_share or 0.15
        return self.mask_share or (0.5 if self.noise == "span" else 0.35)

    @property
    def idle_rate(self) -> str:
        """The one of `factor` and `peak_lr` that has no effect with this schedule."""
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
                f"consistency_start: {self.consistency_start} is not below max_steps = {self.max_steps}: there would "
                f"be no {self.consistency}"
            )
        if self.objective != "translation":
            problems += self._only_of_pairs()
        elif self.languages:
            problems.append("languages: translation learns both; leave it out")
        if self.pair_task and self.objective != "masked":
            problems.append(f"pair_task: only with objective: masked, found {self.objective}")
        if self.pair_task and self.languages:
            problems.append("languages: pair_task learns both; leave it out")
        problems += self._against_one_span()
        problems += self._against_classification()
        if not self.writes_text and self.select_by in ("bleu", "chrf"):
            what = "noise: span" if self.noise == "span" else f"objective: {self.objective}"
            problems.append(f"select_by: no text is written with {what}; take loss or auto")
        if self.cooldown and self.ends_at_max_steps:
            problems.append(f"cooldown: the {self.schedule} schedule falls to 0 by itself; leave cooldown at 0")
        if self.max_tokens == "auto" and self.parallel == "fsdp":
            problems.append("max_tokens: auto measures a model that is not sharded; with parallel: fsdp give a number")
        raise_together(problems)
        return self

    def _only_of_pairs(self) -> list[str]:
        """Return problems of settings that are of pairs of two languages."""
        given = {
            "modifiers": self.modifiers.rates,
            "both_directions": self.both_directions,
            "src_bpe_dropout": self.src_bpe_dropout,
            "tgt_bpe_dropout": self.tgt_bpe_dropout,
        }
        return [f"{name}: not with objective: {self.objective}" for name, value in given.items() if value]

    def _against_one_span(self) -> list[str]:
        """Return problems of settings that masking one span excludes."""
        if self.noise != "span":
            return []
        problems = []
        if self.objective != "denoising":
            problems.append(f"noise: span is for objective: denoising, found {self.objective}")
        if self.mask_span != type(self).model_fields["mask_span"].default:
            problems.append("mask_span: not with noise: span, whose length is mask_share of the line; leave it out")
        return problems

    def _against_classification(self) -> list[str]:
        """Return problems of settings that classification excludes, or that only it has."""
        if self.objective != "classification":
            given = {"lm_weight": self.lm_weight, "select_by: accuracy": self.select_by == "accuracy"}
            return [f"{name}: only with objective: classification" for name, value in given.items() if value]
        given = {
            "consistency": self.consistency != "none" and self.consistency_weight,
            "languages": bool(self.languages),
        }
        return [f"{name}: not with objective: classification" for name, value in given.items() if value]
