"""Settings of the vocabulary, the model and its training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt.config.section import Section, raise_together


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
    consistency: Literal["none", "rdrop", "simcut"] = "none"
    """A second forward pass that must predict what the first one does. rdrop (Wu et al., 2021): with other dropout; the
    loss is the sum of both cross-entropies plus consistency_weight * (KL(p||q) + KL(q||p)) / 2. simcut (Gao et al.,
    2022): with some tokens cut on both sides; the loss is the cross-entropy of the first pass plus consistency_weight *
    KL(p||q), which both passes learn from. Both are sums over the target tokens of one pass, divided by their number.
    An update takes about twice the time."""
    consistency_weight: float = Field(3.0, ge=0.0)
    """Weight of the divergence; 0 is training without it. 3 suits simcut. For rdrop mind the sum: where its two
    cross-entropies are averaged instead, half of the weight does the same, 2.5 there is 5 here."""
    consistency_start: int = Field(0, ge=0)
    """Updates without it at first: they take half the time, and what has not been learned yet needs no second look."""
    cut_rate: float = Field(0.05, ge=0.0, lt=1.0)
    """simcut: probability of leaving out a token's embedding; its position stays, and the source's end is never cut."""
    src_bpe_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """BPE-dropout (Provilkov et al., 2020): probability of leaving out a merge as the source is cut into pieces, anew
    in every epoch; 0.1 is usual. Translation and validation never do."""
    tgt_bpe_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """The same for the target."""
    both_directions: bool = False
    """Learn from every pair in both directions with one model, without a tag: a stage to fine-tune one direction from
    (init_from). Needs a joint vocabulary. Validation is of data.direction."""
    init_from: str | None = None
    """A run directory, or what nmt export wrote, whose selected weights a new run begins with; optimizer, schedule and
    step begin anew. Model and tokenizer must be the same. `--init-from` sets it."""
    freeze: list[Literal["embeddings", "encoder", "decoder", "cross_attention"]] = Field([])
    """Parts that keep the weights they begin with. embeddings are the tables of pieces and positions, and an output
    weight of its own; encoder and decoder are their layers with the last norm; cross_attention is part of the
    decoder."""
    optimizer: Literal["adam", "adamw", "schedule_free"] = "adamw"
    """AdamW with decoupled weight decay (Loshchilov and Hutter, 2019), Adam (Kingma and Ba, 2015), or schedule-free
    AdamW (Defazio et al., 2024; needs the extra `schedule-free`). Its weights are averages at any time, so it takes
    schedule constant with a warm-up and neither cooldown nor ema; its authors advise beta1 = 0.9 (0.95 to 0.98 for very
    long runs), and a peak_lr of 1 to 10 times what suits AdamW with a schedule."""
    beta1: float = Field(0.9, ge=0.0, lt=1.0)
    """Decay of Adam's first moment; with schedule_free the share of the average where the gradient is taken."""
    beta2: float = Field(0.98, ge=0.0, lt=1.0)
    """Decay of Adam's second moment."""
    eps: float = Field(1e-9, gt=0.0)
    """Adam's epsilon."""
    weight_decay: float = Field(0.0, ge=0.0)
    """Weight decay, of matrices only: decoupled with adamw and schedule_free, an L2 gradient with adam."""
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
    Where it starts and ends is fixed once, by the limit that is nearest then (max_steps, max_epochs or max_minutes),
    in updates, which are taken to be as fast as those before. patience ends a run without it."""
    clip_norm: float = Field(1.0, ge=0.0)
    """Largest L2 norm of the gradient of an update, which is scaled down to it; 0 does not clip."""
    max_steps: int = Field(50_000, ge=1)
    """Training ends after so many updates."""
    max_epochs: int | None = Field(None, ge=1)
    """Training ends after so many passes over the corpus; null: no limit."""
    max_minutes: float | None = Field(None, gt=0.0)
    """Training ends after so many minutes, summed over resumes, or with a cool-down that was fixed by them; null: no
    limit."""
    log_every_steps: int = Field(100, ge=1)
    """Updates between records in log.jsonl and TensorBoard."""
    validate_every_steps: int = Field(1000, ge=1)
    """Updates between validations."""
    save_every_steps: int = Field(1000, ge=1)
    """Updates between checkpoints; a validation has one besides."""
    ema: float = Field(0.0, ge=0.0, lt=1.0)
    """Decay of an exponential moving average of the weights (float32), which is validated beside them; 0: none. 0.999
    averages about 1,000 updates; at the start of a run the decay is at most (1 + step) / (10 + step)."""
    keep_last: int = Field(5, ge=2)
    """Newest checkpoints that are kept, besides the best."""
    average_last: int = Field(5, ge=1)
    """At the end the weights of so many newest checkpoints are averaged and taken if they score better on the
    development set; 1 does not average."""
    select_by: Literal["bleu", "chrf", "loss"] = "bleu"
    """What decides which checkpoint is best on the development set."""
    patience: int | None = Field(None, ge=1)
    """Training ends after so many validations in a row without a new best; null: never."""

    @property
    def idle_rate(self) -> str:
        """Of `factor` and `peak_lr` the one that the schedule does not go by."""
        return "peak_lr" if self.schedule == "noam" else "factor"

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
        if self.consistency != "none" and self.consistency_weight and self.consistency_start >= self.max_steps:
            problems.append(
                f"consistency_start: {self.consistency_start} is not below max_steps = {self.max_steps}: there would "
                f"be no {self.consistency}"
            )
        if self.cooldown and self.schedule in ("linear", "cosine"):
            problems.append(f"cooldown: the {self.schedule} schedule falls to 0 by itself; leave cooldown at 0")
        if self.optimizer == "schedule_free":
            problems += self._against_schedule_free()
        if self.max_tokens == "auto" and self.parallel == "fsdp":
            problems.append("max_tokens: auto measures a model that is not divided; with parallel: fsdp give a number")
        raise_together(problems)
        return self

    def _against_schedule_free(self) -> list[str]:
        """The settings that make no sense with this optimizer, which averages instead of lowering the learning rate."""
        problems = []
        if self.schedule != "constant":
            problems.append(f"schedule: {self.schedule} does not go with schedule_free; take constant, with a peak_lr")
        if self.cooldown:
            problems.append("cooldown: schedule_free averages instead; leave cooldown at 0")
        if self.ema:
            problems.append("ema: the weights of schedule_free are averages already; leave ema at 0")
        if not self.beta1:
            problems.append("beta1: schedule_free cannot do without it; 0.9 is usual")
        return problems
