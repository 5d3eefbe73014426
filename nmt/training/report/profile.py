"""`--profile`: PyTorch's profiler traces a few steps, and their time is summed by kind of operation.

    first WARM_UP steps   skipped
    next N_STEPS          timed without the profiler, to show what tracing costs
    next N_STEPS          traced

There is no save or validation between these steps.
"""

from __future__ import annotations

import gzip
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import torch
from torch.autograd.profiler_util import FunctionEvent, Interval
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

    The rest of `total`, when the GPU was idle, is attributed to the making of batches and to Python and launches.
    """
    sums: dict[str, float] = defaultdict(float)
    without_operation: dict[str, float] = defaultdict(float)  # kernels of a captured graph
    kernels, batches = [], []
    for event in events:
        if event.device_type != _CPU:
            if not event.is_user_annotation:
                kernels.append(event.time_range)
                without_operation[event.name] += event.time_range.elapsed_us()  # type: ignore[no-untyped-call]
            continue
        if event.name == MAKING:
            batches.append(event.time_range)
        for kernel in event.kernels:
            sums[_kind_of_kernel(kernel.name, _with_parents(event))] += kernel.duration
            without_operation[kernel.name] -= kernel.duration
    for name, duration in without_operation.items():
        sums[_kind_of_kernel(name, (name,))] += max(0.0, duration)
    sums[MAKING] += _idle(batches, kernels)
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


def _idle(spans: Sequence[Interval], kernels: Sequence[Interval]) -> float:
    """Return how long no kernel runs during `spans` (microseconds)."""
    edges = [(at, change) for kernel in kernels for at, change in ((kernel.start, 1), (kernel.end, -1))]
    marks = [(at, change) for span in spans for at, change in ((span.start, 1), (span.end, -1))]
    idle, before, n_running, n_spans = 0.0, 0.0, 0, 0
    for at, of_kernel, of_span in sorted([(at, n, 0) for at, n in edges] + [(at, 0, n) for at, n in marks]):
        if n_spans and not n_running:
            idle += at - before
        before, n_running, n_spans = at, n_running + of_kernel, n_spans + of_span
    return idle


def first_quiet(step: int, n: int, intervals: Iterable[int]) -> int:
    """Return the first step from `step` on that starts `n` steps without a multiple of an interval.

    Every interval is longer than `n`.
    """
    while any(-step % interval < n for interval in intervals):
        step += 1
    return step


class Profile:
    """Times and traces steps on rank 0, as described in the module, then logs a table and writes the trace."""

    def __init__(self, settings: TrainingConfig, device: torch.device, step: int, path: Path, log: TrainingLog) -> None:
        """`step`: the last step before this process; `path`: of the trace."""
        self._device, self._step, self._path, self._log = device, step, path, log
        self._intervals = (settings.save_every_steps, settings.validate_every_steps)
        self._n = min(N_STEPS, (min(self._intervals) - 1) // 2)
        self._is_done = self._n < 1
        if self._is_done:
            log.say("--profile: nothing is traced: a save or a validation comes after every step or two")
            return
        self._begin = self._next(step + WARM_UP)
        self._wait()

    def _next(self, step: int) -> int:
        return first_quiet(step, 2 * self._n, self._intervals)

    def _wait(self) -> None:
        self._profiler: profile | None = None
        self._span: record_function | None = None
        self._clock: float | None = None
        self._outcomes: list[Outcome] = []
        self._untraced_speed = 0.0  # target tokens per second of the steps that were only timed

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._is_done:
            return
        if self._profiler is not None:
            self._stop()
        if error is None or isinstance(error, StoppedError):
            self._log.say(
                f"--profile: nothing was traced: the run ends at step {self._step}, "
                f"tracing begins after step {self._begin + self._n}"
            )

    def step(self, outcome: Outcome) -> None:
        """Count an update that was just made."""
        self._step = outcome.step
        if self._is_done or self._step < self._begin:
            return
        if self._clock is None:
            self._clock = self._now()
            return
        self._outcomes.append(outcome)
        if self._span is not None:
            self._span.__exit__(None, None, None)
        if len(self._outcomes) == self._n:
            if self._profiler is not None:
                self._finish()
                return
            self._untraced_speed = self._tokens() / self._seconds()
            self._start()
        if self._profiler is not None:
            self._span = record_function(STEP)
            self._span.__enter__()  # type: ignore[no-untyped-call]

    def pause(self) -> None:
        """Handle an interruption of training; while steps are traced, that is the end of the run or an extra save."""
        if self._is_done:
            return
        if self._profiler is not None and self._outcomes:
            self._finish()
        elif self._clock is not None:
            if self._profiler is not None:
                self._stop()
            self._begin = self._next(self._step + 1)
            self._wait()

    def _start(self) -> None:
        gpu = [ProfilerActivity.CUDA] if self._device.type == "cuda" else []
        self._profiler = profile(activities=[ProfilerActivity.CPU, *gpu])
        self._profiler.start()
        self._outcomes, self._clock = [], self._now()

    def _stop(self) -> None:
        assert self._profiler is not None
        self._profiler.stop()

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def _seconds(self) -> float:
        assert self._clock is not None
        return self._now() - self._clock

    def _tokens(self) -> int:
        return sum(outcome.update.n_tokens for outcome in self._outcomes)

    def _finish(self) -> None:
        """Log the table of times, and write the trace."""
        assert self._profiler is not None
        n_tokens, seconds, n = self._tokens(), self._seconds(), len(self._outcomes)
        self._stop()
        last, path = self._step, self._path
        events = self._profiler.events() or ()  # type: ignore[no-untyped-call]
        sums = gpu_time(events, 1e6 * seconds) if self._device.type == "cuda" else cpu_time(events)
        steps = f"steps {last - n + 1} to {last}" if n > 1 else f"step {last}"
        for line in (f"profile of {steps}: ms per step, and share", *table(sums, n)):
            self._log.say(line)
        self._log.say(
            f"  padding {self._padding():.1%}; {n_tokens / seconds:,.0f} target tokens/s, before profiling "
            f"{self._untraced_speed:,.0f}"
        )
        try:
            _write(self._profiler, path)
        except OSError as error:
            self._log.say(f"warning: {path}: cannot be written: {error.strerror}; training continues")
        except UnsafeFileError as error:
            self._log.say(f"warning: {error}; training continues")
        else:
            self._log.say(f"trace: {path}; open it in https://ui.perfetto.dev or chrome://tracing; training continues")
        self._is_done = True
        self._wait()

    def _padding(self) -> float:
        """Return the share of padding among the tokens of the traced steps."""
        padded_tokens = sum(float(outcome.stats.padded_tokens) for outcome in self._outcomes)
        return 1 - sum(outcome.n_tokens for outcome in self._outcomes) / padded_tokens


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
