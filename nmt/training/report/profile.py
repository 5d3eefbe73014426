"""Where the time of a step goes: a few steps are traced by PyTorch's profiler and added up by kind (`--profile`).

    step      0 … WARM_UP        not looked at
    the next  N_STEPS            timed as they are
    the next  N_STEPS            traced

so that it is known what tracing costs. The steps follow each other without a save or a validation between them.
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
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from nmt.errors import StoppedError, UnsafeFileError
from nmt.files.read import refuse_links
from nmt.files.write import replace_file
from nmt.training.outcome import Outcome
from nmt.training.report.log import TrainingLog
from nmt.training.session import Session

WARM_UP, N_STEPS = 5, 10
STEP, MAKING = "step", "making batches"
OVERHEAD, OTHER = "Python and launches", "other elementwise"

making_batches = partial(record_function, MAKING)
"""Around what makes batches, for the profiler to know it."""

# An operation is of the first kind of which its own name matches the first pattern, or the name of it or of anything
# that it is a part of contains the second. Names are those of PyTorch's operations, of autograd functions (this
# project's, too), of what `record_function` marks, and of a GPU's kernels.
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
    """What kind of work an operation is; `names` are its own and those of the operations that it is a part of."""
    for kind, own, anywhere in _PATTERNS:
        if own.fullmatch(names[0]) or (anywhere and any(anywhere.search(name) for name in names)):
            return kind
    raise AssertionError("the last kind takes everything")


def on_processor(events: Iterable[Any]) -> dict[str, float]:
    """Microseconds by kind of a profiler's events within the steps, together as long as these; what else goes on at
    the same time, in other threads, is not counted."""
    sums: dict[str, float] = defaultdict(float)
    for event in events:
        names = _with_parents(event)
        if names[-1] == STEP:
            sums[kind_of(names)] += event.self_cpu_time_total
    return dict(sums)


def on_gpu(events: Iterable[Any], total: float) -> dict[str, float]:
    """Microseconds by kind that a GPU's kernels took, and what is left of `total`: then it had nothing to do, because
    a batch was made or else because of Python and launches."""
    sums: dict[str, float] = defaultdict(float)
    without_operation: dict[str, float] = defaultdict(float)  # those of a captured graph
    kernels, made = [], []
    for event in events:
        if event.device_type != _CPU:
            if not event.is_user_annotation:
                kernels.append(event.time_range)
                without_operation[event.name] += event.time_range.elapsed_us()
            continue
        if event.name == MAKING:
            made.append(event.time_range)
        for kernel in event.kernels:
            sums[_kind_of_kernel(kernel.name, _with_parents(event))] += kernel.duration
            without_operation[kernel.name] -= kernel.duration
    for name, duration in without_operation.items():
        sums[_kind_of_kernel(name, (name,))] += max(0.0, duration)
    sums[MAKING] += _idle(made, kernels)
    sums[OVERHEAD] = max(0.0, total - sum(sums.values()))
    return dict(sums)


def _kind_of_kernel(name: str, operation: tuple[str, ...]) -> str:
    for names in (operation, (name,)):
        if (kind := kind_of(names)) not in (OVERHEAD, OTHER):
            return kind
    return OTHER


def _with_parents(event: Any) -> tuple[str, ...]:
    names = [event.name]
    while (event := event.cpu_parent) is not None:
        names.append(event.name)
    return tuple(names)


def _idle(spans: Sequence[Any], kernels: Sequence[Any]) -> float:
    """How much of the time of `spans` no kernel runs in (microseconds)."""
    edges = [(at, change) for kernel in kernels for at, change in ((kernel.start, 1), (kernel.end, -1))]
    marks = [(at, change) for span in spans for at, change in ((span.start, 1), (span.end, -1))]
    idle, before, n_running, n_spans = 0.0, 0.0, 0, 0
    for at, of_kernel, of_span in sorted([(at, n, 0) for at, n in edges] + [(at, 0, n) for at, n in marks]):
        if n_spans and not n_running:
            idle += at - before
        before, n_running, n_spans = at, n_running + of_kernel, n_spans + of_span
    return idle


def first_quiet(step: int, n: int, intervals: Iterable[int]) -> int:
    """The first step from `step` on after which `n` more come before one that is a multiple of an interval, itself
    included; intervals are longer than `n`."""
    while any(-step % interval < n for interval in intervals):
        step += 1
    return step


class Profile:
    """Times and traces steps as the module says, then tells what was found. Process 0 has it."""

    def __init__(self, session: Session, log: TrainingLog) -> None:
        self._session, self._log = session, log
        settings = session.config.training
        self._intervals = (settings.save_every_steps, settings.validate_every_steps)
        self._n = min(N_STEPS, (min(self._intervals) - 1) // 2)
        self._is_done = self._n < 1
        if self._is_done:
            log.say("--profile: nothing is traced: a save or a validation comes after every step or two")
            return
        self._begin = self._next(session.state.step + WARM_UP)
        self._wait()

    def _next(self, step: int) -> int:
        return first_quiet(step, 2 * self._n, self._intervals)

    def _wait(self) -> None:
        self._profiler: profile | None = None
        self._span: record_function | None = None
        self._clock: float | None = None
        self._outcomes: list[Outcome] = []
        self._before = 0.0  # target tokens per second of the steps that were only timed

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._is_done:
            return
        if self._profiler is not None:
            self._stop()
        if error is None or isinstance(error, StoppedError):
            self._log.say(
                f"--profile: nothing was traced: the run ends at step {self._session.state.step}, "
                f"tracing begins after step {self._begin + self._n}"
            )

    def step(self, outcome: Outcome) -> None:
        """Count an update that was just made."""
        if self._is_done or self._session.state.step < self._begin:
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
            self._before = self._tokens() / self._seconds()
            self._start()
        if self._profiler is not None:
            self._span = record_function(STEP)
            self._span.__enter__()  # type: ignore[no-untyped-call]

    def pause(self) -> None:
        """Something else than training comes; while steps are traced, the end of the run or an unforeseen save."""
        if self._is_done:
            return
        if self._profiler is not None and self._outcomes:
            self._finish()
        elif self._clock is not None:
            if self._profiler is not None:
                self._stop()
            self._begin = self._next(self._session.state.step + 1)
            self._wait()

    def _start(self) -> None:
        gpu = [ProfilerActivity.CUDA] if self._session.device.type == "cuda" else []
        self._profiler = profile(activities=[ProfilerActivity.CPU, *gpu])
        self._profiler.start()
        self._outcomes, self._clock = [], self._now()

    def _stop(self) -> None:
        assert self._profiler is not None
        self._profiler.stop()

    def _now(self) -> float:
        if self._session.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def _seconds(self) -> float:
        assert self._clock is not None
        return self._now() - self._clock

    def _tokens(self) -> int:
        return sum(outcome.update.n_tokens for outcome in self._outcomes)

    def _finish(self) -> None:
        """Write the trace and tell where the time went."""
        assert self._profiler is not None
        n_tokens, seconds, n = self._tokens(), self._seconds(), len(self._outcomes)
        self._stop()
        last, path = self._session.state.step, self._session.run.trace
        events = self._profiler.events() or ()  # type: ignore[no-untyped-call]
        sums = on_gpu(events, 1e6 * seconds) if self._session.device.type == "cuda" else on_processor(events)
        steps = f"steps {last - n + 1} to {last}" if n > 1 else f"step {last}"
        for line in (f"profile of {steps}: ms per step, and share", *table(sums, n)):
            self._log.say(line)
        speed, before = n_tokens / seconds, self._before
        self._log.say(
            f"  padding {self._padding():.1%}; {speed:,.0f} target tokens/s, just before without profiler {before:,.0f}"
        )
        try:
            _write(self._profiler, path)
        except OSError as error:
            self._log.say(f"warning: {path}: cannot be written: {error.strerror}; training goes on")
        except UnsafeFileError as error:
            self._log.say(f"warning: {error}; training goes on")
        else:
            self._log.say(
                f"trace: {path}; look at it with https://ui.perfetto.dev or chrome://tracing; training goes on"
            )
        self._is_done = True
        self._wait()

    def _padding(self) -> float:
        """The share of the traced steps' positions that hold no token."""
        lengths = self._session.pairs.lengths
        n_slots = sum(float(outcome.numbers[3]) for outcome in self._outcomes)
        updates = [outcome.update for outcome in self._outcomes]
        return 1 - sum(int(lengths.src[update.rows].sum()) + update.n_tokens for update in updates) / n_slots


def table(sums: dict[str, float], n_steps: int) -> list[str]:
    """Lines of milliseconds per step and percent, the kinds that took most first."""
    total = sum(sums.values())
    rows = sorted(((value, kind) for kind, value in sums.items() if value), reverse=True)
    return [
        f"  {kind:<24}{value / n_steps / 1000:>10.2f}{value / total:>8.1%}" for value, kind in [*rows, (total, "all")]
    ]


def _write(profiler: profile, path: Path) -> None:
    """The profiler's trace, compressed. Raises OSError."""
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        refuse_links([path.parent])
        path.parent.mkdir(exist_ok=True)
        replace_file(path, gzip.compress(trace.read_bytes()), may_follow=False)
