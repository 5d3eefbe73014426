"""Automatic choices of a run: the number format, float32 library, layout, compilation and micro-batch size.

Only the model is compiled, since fusing speeds up its many small operations. The loss consists of a few large products
and softmaxes with their own gradient, and its number of rows differs from batch to batch. PyTorch's compiler takes
seconds to import, so it is imported only where a model is compiled.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.config import Config
from nmt.console import say
from nmt.data.batching import Pairs
from nmt.data.lines import Indices
from nmt.data.rows import RowPacking
from nmt.errors import ConfigError, NmtError
from nmt.layout import RUN_FORMAT
from nmt.model.device import (
    autocast,
    device_name,
    free_memory,
    out_of_memory,
    pick_float32_library,
    pick_precision,
    pick_threads,
    use_float32_library,
)
from nmt.model.masks import NO_SENTENCE, Layout, Rows, packing_obstacle
from nmt.model.transformer import Model
from nmt.runs.info import InitialWeights, RunInfo, launch
from nmt.text.ids import PAD
from nmt.training.loss import Forward
from nmt.training.memory import FLOAT, fixed_memory, free_bytes
from nmt.training.objective import Objective
from nmt.training.parallel import World
from nmt.training.settings import DEFAULT_MAX_TOKENS, TrainingConfig
from nmt.training.setup.inputs import Inputs
from nmt.version import version

SMALL_MODEL = 4_000_000
FEW_TOKENS = 1024
"""The largest model, in parameters, that is timed with several numbers of threads, and the tokens of its batch."""

REPORTED = {
    "precision", "device", "device_name", "nmt", "torch", "threads", "processes", "float32_library", "layout",
    "compiled", "auto_max_tokens",
}  # fmt: skip
"""The fields of run.json on which the last bits of the results depend."""


def choose_run_info(inputs: Inputs, before: RunInfo | None, initial: InitialWeights | None, world: World) -> RunInfo:
    """Resolve the settings that are `auto`, by measurements if necessary, and return the content of run.json.

    `before` is the run.json of a resumed run, which keeps its choices unless it has moved to another device. On another
    device, with other software, or with another number of threads or processes, a message says that the results are not
    bit-identical.
    """
    settings = inputs.config.training
    device = inputs.device
    corpora = inputs.corpora
    name = device_name(device)
    kept = before
    if before is not None and (before.device, before.device_name) != (device.type, name):
        kept = None
    precision = pick_precision(settings.precision, device) if kept is None else kept.precision
    library = (kept and kept.float32_library) or pick_float32_library(precision, device)
    use_float32_library(library)
    is_compiled = pick_compile(settings, device, inputs.to_shard)
    max_tokens = settings.max_tokens
    auto_max_tokens = None
    if max_tokens is None:
        max_tokens = default_max_tokens(device, world.size)
    if kept is not None and kept.processes != world.size:
        kept = None
    if max_tokens == "auto":
        auto_max_tokens = kept.auto_max_tokens if kept is not None else None
        if auto_max_tokens is None:
            useful = 4 * settings.update_tokens // world.size
            sample = _sample(inputs)
            auto_max_tokens = pick_max_tokens(
                inputs.training_objective, inputs.model, sample, precision, device, useful
            )
        max_tokens = auto_max_tokens
    info = {
        "format": RUN_FORMAT,
        "data_dir": str(corpora.directory.path.resolve()),
        "corpus": corpora.fingerprint,
        "tokenizer": corpora.tokenizers.fingerprint,
        "precision": precision,
        "device": device.type,
        "device_name": name,
        "nmt": version(),
        "torch": torch.__version__,
        "threads": _pick_threads(inputs, kept, world, precision, max_tokens),
        "processes": world.size,
        "float32_library": library,
        "layout": pick_layout(inputs.config, device, precision),
        "compiled": is_compiled,
        "auto_max_tokens": auto_max_tokens,
        "max_tokens": max_tokens,
        "glossary": inputs.training_objective.glossary,
        "initial": initial,
        "launch": launch(),
        "text_score": before and before.text_score,
    }
    made = RunInfo.model_validate({key: value for key, value in info.items() if value is not None})
    if before is not None:
        _report_changes(before, made)
    return made


def _pick_threads(inputs: Inputs, kept: RunInfo | None, world: World, precision: str, max_tokens: int) -> int:
    """Return the number of CPU threads: the user's setting, the number of the resumed run, or the fastest one."""
    n_threads = torch.get_num_threads()
    model = inputs.model
    is_chosen = {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & {*os.environ}
    if n_threads == 1 or is_chosen or world.size > 1 or inputs.device.type != "cpu":
        return n_threads
    if kept is not None and kept.threads:
        return min(n_threads, kept.threads)
    if model.n_parameters > SMALL_MODEL:
        return n_threads
    pairs = _sample(inputs)
    n_tokens = min(max_tokens, inputs.config.training.update_tokens, FEW_TOKENS)
    rows = next(pairs.lengths.split_by_side(np.arange(len(pairs)), n_tokens))

    def work() -> None:
        pass_bytes(inputs.training_objective, model, pairs, rows, precision, inputs.device)
        model.zero_grad()

    return pick_threads(work, n_threads)


def _sample(inputs: Inputs) -> Pairs:
    """Return a sample of pairs that includes the longest ones, with the lengths that they have in training."""
    pairs = inputs.windows.sample()
    if inputs.config.joins_sides:
        return inputs.training_objective.changed(pairs, pairs.lengths.longest(max(PROBE_TOKENS)), 0)
    return pairs


def _report_changes(before: RunInfo, info: RunInfo) -> None:
    """Print how the choices and the environment of a resumed run differ from the previous ones."""
    was = before.model_dump(exclude_unset=True)
    changes = [
        f"{key} {value} instead of {was[key]}"
        for key, value in info.model_dump(include=REPORTED, exclude_none=True).items()
        if was.get(key, value) != value
    ]
    if changes:
        consequence = "results are not bit-identical"
        if was.get("nmt") == info.nmt:  # another version may order the data in another way
            consequence = f"data and order are the same, but {consequence}"
        say(f"the run continues with {', '.join(changes)}: {consequence}")


def default_max_tokens(device: torch.device, n_processes: int) -> int | Literal["auto"]:
    """Return the default of `training.max_tokens`.

    On a GPU, every micro-batch costs the host the same time. Several processes cannot repeat their last micro-batch if
    memory runs out, so that it must not be the only one.
    """
    return "auto" if device.type == "cuda" and n_processes == 1 else DEFAULT_MAX_TOKENS


SAFE_SHARE = {"cpu": 0.5, "cuda": 0.85}  # of free memory; a CPU's is shared with everything else
PROBE_TOKENS = (1024, 4096)


def pick_max_tokens(
    objective: Objective, model: Model, pairs: Pairs, precision: str, device: torch.device, useful: int
) -> int:
    """Return the size in tokens of the largest micro-batch that fits into memory: at least one pair, at most `useful`.

    Measures two micro-batches of the longest pairs and extrapolates, leaving a margin and space for gradients and
    optimizer. Processes on one machine share CPU memory, but not GPUs.
    """
    lengths = pairs.lengths
    longest_first = lengths.longest(max(PROBE_TOKENS))
    longest = lengths.larger_side(longest_first[:1])
    small, large = (
        next(lengths.split_by_side(longest_first, max(n, k * longest))) for k, n in enumerate(PROBE_TOKENS, 1)
    )
    n_small = lengths.larger_side(small)
    n_large = lengths.larger_side(large)
    if n_small == n_large:  # a corpus of one batch
        return n_small
    try:
        used = [pass_bytes(objective, model, pairs, rows, precision, device) for rows in (small, large)]
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        used = []
    model.zero_grad(set_to_none=True)
    if not used:
        free_memory()
        return longest
    per_token = max(1.0, (used[1] - used[0]) / (n_large - n_small))
    to_come = sum(fixed_memory(model, objective.settings.ema).values()) - FLOAT * model.n_parameters  # which are there
    fixed = max(0.0, used[0] - per_token * n_small) + to_come
    free = SAFE_SHARE[device.type] * free_bytes(device) - fixed
    return int(max(longest, min(useful, free / per_token)))


def pass_bytes(
    objective: Objective, model: Model, pairs: Pairs, rows: Indices, precision: str, device: torch.device
) -> float:
    """Measure the memory that a forward and backward pass of the pairs `rows` needs, in bytes.

    On a GPU this is the peak; on a CPU it is twice the size of the tensors saved for the backward pass, to allow for
    temporary tensors.
    """
    batch = RowPacking(pairs, copies=objective.settings.copies_targets).batch(rows)
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        with autocast(precision, device):
            loss = objective.loss(model, batch.to(device)).loss
        loss.backward()  # type: ignore[no-untyped-call]
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    return 2.0 * sum(saved.values())


BACKEND = "inductor"


def pick_layout(config: Config, device: torch.device, precision: str) -> str:
    """Return the layout of micro-batches: packed (without padding) on a GPU with a kernel for this layout, else rows of
    several sentences.

    The kernel has no mask for decoders that see all of the source, and only rows have the copied targets of crossconst.
    """
    obstacle = packing_obstacle(device, precision, config.model)
    needs_rows = config.joins_sides or config.training.copies_targets
    return "rows" if device.type == "cpu" or needs_rows or obstacle is not None else "packed"


def pick_compile(settings: TrainingConfig, device: torch.device, is_sharded: bool) -> bool:
    """Return whether to compile the model. Raises ConfigError if compilation is requested but not available."""
    setting = settings.compile
    if setting == "off" or (setting == "auto" and device.type == "cpu"):
        return False
    reason = "a sharded model (parallel: fsdp) is not compiled" if is_sharded else _no_compiler(device)
    if settings.recompute:
        reason = "a model with training.recompute is not compiled"
    if setting == "on" and reason is not None:
        raise ConfigError(f"training.compile: on is not possible: {reason}; use auto or off")
    return reason is None


def _no_compiler(device: torch.device) -> str | None:
    """Return the reason why models cannot be compiled on this machine, or None if they can."""
    if device.type == "cpu":
        compilers = (os.environ.get("CXX", "g++"), "clang++")
        needed_for = "a C++ compiler"
    else:
        if importlib.util.find_spec("triton") is None:
            return "it needs the package triton"
        if torch.cuda.get_device_capability(device) < (7, 0):
            return "it needs a GPU of compute capability 7.0 or later"
        compilers = (os.environ.get("CC", "gcc"), "clang")
        needed_for = "a C compiler"
    return None if any(map(shutil.which, compilers)) else f"it needs {needed_for}, and there is no {compilers[0]}"


def compiled(model: Model, mode: str | None = None, cuts: bool = False) -> Forward:
    """Return the forward pass of a model, compiled at its first call for all batch sizes.

    `mode` is passed to torch.compile. With `cuts`, passes with and without cut tokens (see `Embedding`) share a graph.
    The first call raises NmtError if the model cannot be compiled. If a later recompilation fails, or there are too
    many, the model runs uncompiled from then on, with a message.
    """
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor
    import torch.fx.experimental._config as shapes
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException

    dynamo.optimize_ddp = False  # the graph stays whole; split in buckets it has not been tried with dynamic sizes
    shapes.use_duck_shape = False  # sizes that happen to be equal at first may differ later
    # one kernel for both reductions of the backward pass of layer norm is slower than one for each (H200, torch 2.11),
    # and is taken for large batches only, so that the model is compiled twice
    inductor.triton.mix_order_reduction = False
    run: Forward = torch.compile(model, dynamic=True, fullgraph=True, backend=BACKEND, mode=mode)
    has_run = False

    def forward(src: Tensor, src_layout: Layout, tgt_in: Tensor, tgt_layout: Layout) -> Tensor:
        nonlocal run, has_run
        if cuts and src_layout.kept is None:
            src_layout = replace(src_layout, kept=torch.ones_like(src, dtype=torch.bool))
            tgt_layout = replace(tgt_layout, kept=torch.ones_like(tgt_in, dtype=torch.bool))
        batch: tuple[Tensor | Layout, ...] = (src, src_layout, tgt_in, tgt_layout)
        is_single = isinstance(src_layout, Rows) and len(src) == 1
        if is_single:  # sizes of 1 would be compiled separately
            batch = tuple(map(_with_empty_row, batch))
        try:
            hidden = run(*batch)
        except (TorchDynamoException, FailOnRecompileLimitHit) as error:
            reason = " ".join(f"{error}".split("\n\n")[0].split())
            if not has_run:
                raise NmtError(f"compiling the model failed: {reason}; train with training.compile: off") from error
            say(f"recompiling the model failed: {reason}; from now on it runs uncompiled, which is slower")
            run = model
            hidden = run(*batch)
        has_run = True
        return hidden[:1] if is_single else hidden

    return forward


def _with_empty_row(part: Tensor | Layout) -> Tensor | Layout:
    """Return a tensor or layout of one row with another row, which is padding."""
    if isinstance(part, Tensor):
        return F.pad(part, (0, 0, 0, 1), value=PAD)
    assert isinstance(part, Rows), "a batch of one row"
    return replace(
        part,
        numbers=F.pad(part.numbers, (0, 0, 0, 1), value=NO_SENTENCE),
        positions=F.pad(part.positions, (0, 0, 0, 1)),
        kept=None if part.kept is None else F.pad(part.kept, (0, 0, 0, 1)),
    )
