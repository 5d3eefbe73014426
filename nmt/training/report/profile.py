"""`--profile`: PyTorch's profiler traces a few steps, and their time is summed by kind of operation.

    first WARM_UP steps   skipped
    next N_STEPS          traced

There is no save or validation between these steps.
"""

from __future__ import annotations

import gzip
import re
import time
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from nmt.config import TrainingConfig
from nmt.errors import StoppedError, UnsafeFileError
from nmt.files.write import refuse_links, replace_file
from nmt.training.report.log import TrainingLog
from nmt.training.session import Outcome

WARM_UP, N_STEPS = 5, 10
STEP, MAKING = "step", "making batches"
OVERHEAD, OTHER = "Python and launches", "other elementwise"

making_batches = partial(record_function, MAKING)
"""Context that marks the making of batches for the profiler."""

# (kind, pattern of the operation's own name, pattern found in its name or in that of an enclosing operation); the first
# row that matches decides. Names are those of PyTorch's operations, of autograd functions (also of this project), of
# `record_function` labels and of GPU kernels.
KINDS: tuple[tuple[str, str, str | None], ...] = (
    (MAKING, "", MAKING),
    ("other processes", "", r"other processes|c10d|FSDP::|nccl|gloo"),
    ("attention products", r"aten::(bmm|baddbmm)", r"flash|fmha|efficient_attention|scaled_dot_product|varlen_attn"),
    ("matrix products", r"aten::(addmm|mm|addmv_|_scaled_mm)|(?!aten::|autograd::).*(gemm|nvjet|cutlass).*", None),
    ("dropout", "", r"(?i)dropout|bernoulli"),
    ("normalisation", "", r"(?i)layer_?norm|rms_?norm"),
    ("softmax and loss", "", r"(?i)softmax|CrossEntropy|nll_loss"),
    ("embedding", "", r"(?i)embedding"),
    ("optimizer and clipping", "aten::mul_", r"^Optimizer\.|_foreach_|vector_norm|_fused_adam|multi_tensor"),
    ("casts and copies", r"aten::(copy_|_to_copy|to|cat|stack|clone|contiguous)|Memcpy.*|.*CatArray.*", None),
    (OVERHEAD, rf"{STEP}|autograd::.*|torch::.*|\w+Backward\d*|detach|cuda\w+|aten::(empty\w*|\w*view\w*|as_strided|"
     r"\w*reshape\w*|t|transpose|permute|expand|slice|select|split\w*|unbind|chunk|detach|flatten|unsqueeze|linear|"
     r"matmul|result_type|resolve_\w*|item|_local_scalar_dense)", None),
    (OTHER, r".*", None),
)  # fmt: skip
_CPU = torch.autograd.DeviceType.CPU  # type: ignore[attr-defined]
_PATTERNS = [(kind, re.compile(own), anywhere and re.compile(anywhere)) for kind, own, anywhere in KINDS]


@cache
def kind_of(names: tuple[str, ...]) -> str:
    """Return the kind of an operation; `names` are its own and those of the operations that enclose it."""
    for kind, own, anywhere in _PATTERNS:
        if own.fullmatch(names[0]) or (anywhere and any(anywhere.search(name) for name in names)):
            return kind
    raise AssertionError("the last kind matches everything")


def cpu_time(events: Iterable[FunctionEvent]) -> dict[str, float]:
    """Return microseconds by kind, which sum to the length of the steps; other threads are not counted."""
    sums: dict[str, float] = defaultdict(float)
    for event in events:
        names = _with_parents(event)
        if names[-1] == STEP:
            sums[kind_of(names)] += event.self_cpu_time_total
    return dict(sums)


def gpu_time(events: Iterable[FunctionEvent], total: float) -> dict[str, float]:
    """Return the microseconds of GPU kernels by kind.

    The rest of `total`, when the GPU was idle, is attributed to Python and launches.
    """
    sums: dict[str, float] = defaultdict(float)
    without_operation: dict[str, float] = defaultdict(float)  # kernels of a captured graph
    for event in events:
        if event.device_type != _CPU:
            if not event.is_user_annotation:
                without_operation[event.name] += event.time_range.elapsed_us()  # type: ignore[no-untyped-call]
            continue
        for kernel in event.kernels:
            sums[_kind_of_kernel(kernel.name, _with_parents(event))] += kernel.duration
            without_operation[kernel.name] -= kernel.duration
    for name, duration in without_operation.items():
        sums[_kind_of_kernel(name, (name,))] += max(0.0, duration)
    sums[OVERHEAD] = max(0.0, total - sum(sums.values()))
    return dict(sums)


def _kind_of_kernel(name: str, operation: tuple[str, ...]) -> str:
    for names in (operation, (name,)):
        if (kind := kind_of(names)) not in (OVERHEAD, OTHER):
            return kind
    return OTHER


def _with_parents(event: FunctionEvent) -> tuple[str, ...]:
    names, parent = [event.name], event.cpu_parent
    while parent is not None:
        names.append(parent.name)
        parent = parent.cpu_parent
    return tuple(names)


def first_quiet(step: int, n: int, intervals: Iterable[int]) -> int:
    """Return the first step from `step` on that starts `n` steps without a multiple of an interval.

    Every interval is longer than `n`.
    """
    while any(-step % interval < n for interval in intervals):
        step += 1
    return step


class Profile:
    """Traces a few steps on rank 0, as described in the module, then logs a table and writes the trace."""

    def __init__(self, settings: TrainingConfig, device: torch.device, step: int, path: Path, log: TrainingLog) -> None:
        """`step`: the last step before this process; `path`: of the trace."""
        self._device, self._step, self._path, self._log = device, step, path, log
        self._intervals = (settings.save_every_steps, settings.validate_every_steps)
        self._n = min(N_STEPS, min(self._intervals) - 1)
        self._is_done = self._n < 1
        if self._is_done:
            log.say("--profile: nothing is traced: a save or a validation comes after every step")
        else:
            self._wait(step + WARM_UP)

    def _wait(self, step: int) -> None:
        """Begin to trace after `step`, or later if a save or a validation would come between."""
        self._begin = first_quiet(step, self._n, self._intervals)
        self._profiler: profile | None = None
        self._span: record_function | None = None
        self._outcomes: list[Outcome] = []

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._profiler is not None:
            self._profiler.stop()
        if not self._is_done and (error is None or isinstance(error, StoppedError)):
            self._log.say(
                f"--profile: nothing was traced: the run ends at step {self._step}, tracing begins after step "
                f"{self._begin}"
            )

    def step(self, outcome: Outcome) -> None:
        """Count an update that was just made."""
        self._step = outcome.step
        if self._is_done or self._step < self._begin:
            return
        if self._profiler is None:
            gpu = [ProfilerActivity.CUDA] if self._device.type == "cuda" else []
            self._profiler = profile(activities=[ProfilerActivity.CPU, *gpu])
            self._profiler.start()
            self._clock = self._now()
        if self._span is not None:
            self._span.__exit__(None, None, None)
            self._outcomes.append(outcome)
            if len(self._outcomes) == self._n:
                self._finish(self._profiler)
                return
        self._span = record_function(STEP)
        self._span.__enter__()  # type: ignore[no-untyped-call]

    def pause(self) -> None:
        """Handle an interruption of training; while steps are traced, that is the end of the run or an extra save."""
        if self._profiler is not None and self._outcomes:
            self._finish(self._profiler)
        elif self._profiler is not None:
            self._profiler.stop()
            self._wait(self._step + 1)

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def _finish(self, profiler: profile) -> None:
        """Log the table of times, and write the trace."""
        seconds, n = self._now() - self._clock, len(self._outcomes)
        profiler.stop()
        self._profiler, self._is_done = None, True
        events = profiler.events() or ()  # type: ignore[no-untyped-call]
        sums = gpu_time(events, 1e6 * seconds) if self._device.type == "cuda" else cpu_time(events)
        steps = f"steps {self._step - n + 1} to {self._step}" if n > 1 else f"step {self._step}"
        for line in (f"profile of {steps}: ms per step, and share", *table(sums, n)):
            self._log.say(line)
        n_tokens = sum(outcome.update.n_tokens for outcome in self._outcomes)
        padded_tokens = sum(float(outcome.stats.padded_tokens) for outcome in self._outcomes)
        padding = 1 - sum(outcome.n_tokens for outcome in self._outcomes) / padded_tokens
        self._log.say(f"  padding {padding:.1%}; {n_tokens / seconds:,.0f} target tokens/s while profiling")
        try:
            _write(profiler, self._path)
        except (OSError, UnsafeFileError) as error:
            reason = getattr(error, "strerror", error)
            self._log.say(f"warning: {self._path}: cannot be written: {reason}; training continues")
        else:
            self._log.say(
                f"trace: {self._path}; open it in https://ui.perfetto.dev or chrome://tracing; training continues"
            )


def table(sums: dict[str, float], n_steps: int) -> list[str]:
    """Return lines of milliseconds per step and percent, most expensive kind first."""
    total = sum(sums.values())
    rows = sorted(((value, kind) for kind, value in sums.items() if value), reverse=True)
    return [
        f"  {kind:<24}{value / n_steps / 1000:>10.2f}{value / total:>8.1%}" for value, kind in [*rows, (total, "all")]
    ]


def _write(profiler: profile, path: Path) -> None:
    """Write the profiler's trace, compressed. Raises OSError."""
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        refuse_links([path.parent])
        path.parent.mkdir(exist_ok=True)
        replace_file(path, gzip.compress(trace.read_bytes()), may_follow=False)
