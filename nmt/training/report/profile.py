"""`nmt train --profile`: PyTorch's profiler, for a few updates shortly after the start."""

from __future__ import annotations

from functools import partial

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from nmt.errors import UnsafeFileError
from nmt.files.write import refuse_links
from nmt.layout import RunDir
from nmt.training.report.log import TrainingLog

WARM_UP, N_STEPS = 5, 10
N_ROWS = 20

making_batches = partial(record_function, "making batches")
"""Context that labels the making of batches for the profiler."""


def profiler(device: torch.device, run: RunDir, log: TrainingLog) -> profile:
    """Return a profiler that skips the first `WARM_UP` updates and traces the next `N_STEPS`.

    It then logs a table of the most expensive operations and writes the trace to the run directory.
    """

    def report(traced: profile) -> None:
        by = f"self_{device.type}_time_total"
        table = traced.key_averages().table(sort_by=by, row_limit=N_ROWS, max_name_column_width=40)
        for line in table.splitlines():
            log.say(line)
        try:
            refuse_links([run.trace.parent, run.trace])
            run.trace.parent.mkdir(exist_ok=True)
            traced.export_chrome_trace(str(run.trace))
        except (OSError, UnsafeFileError) as error:
            log.say(f"warning: {run.trace}: cannot be written: {getattr(error, 'strerror', error)}; training continues")
        else:
            log.say(f"trace: {run.trace}; open it in https://ui.perfetto.dev or chrome://tracing; training continues")

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    steps = schedule(wait=WARM_UP - 1, warmup=1, active=N_STEPS, repeat=1)
    return profile(activities=activities, schedule=steps, on_trace_ready=report, acc_events=True)
