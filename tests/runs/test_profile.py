"""`nmt train --profile`: it tells where the time goes and changes nothing of what is learned."""

import gzip
import json
import re
from pathlib import Path
from types import SimpleNamespace as Fake
from typing import Any

import pytest
import torch

from command import Command
from kept_run import differences, kept, settings
from nmt.config.load import dump_config
from nmt.layout import RunDir
from nmt.training.report.profile import MAKING, N_STEPS, OTHER, OVERHEAD, WARM_UP, first_quiet, gpu_time, kind_of

LAST = WARM_UP + N_STEPS
ROW = re.compile(r"^  (\D+?) +([\d.]+) +([\d.]+)%$", re.M)


@pytest.fixture
def config(data: Path, tmp_path: Path) -> Path:
    """A configuration for more steps than profiling takes."""
    path = tmp_path / "config.yaml"
    often = {"save_every_steps": LAST, "validate_every_steps": LAST, "max_steps": LAST + 2, "log_every_steps": 4}
    path.write_text(dump_config(settings(data, **often)))
    return path


def shares(err: str) -> dict[str, float]:
    """The percentages of the table."""
    return {kind: float(share) for kind, _, share in ROW.findall(err)}


@pytest.mark.usefixtures("quick")
def test_profile_does_not_change_training(nmt: Command, config: Path, data: Path, tmp_path: Path) -> None:
    plain, profiled = tmp_path / "plain", tmp_path / "profiled"
    train = ("train", "--config", config, "--data", data, "--run")
    assert nmt(*train, plain).status == 0
    told = nmt(*train, profiled, "--profile")
    assert told.status == 0, told.err
    trace = RunDir(profiled).trace
    assert f"profile of steps {WARM_UP + 1} to {LAST}" in told.err
    assert re.search(r"padding \d+\.\d%; [\d,]+ target tokens/s while profiling\n", told.err)

    found = shares(told.err)
    assert found.pop("all") == 100.0
    assert sum(found.values()) == pytest.approx(100.0, abs=0.05 * len(found))
    for kind in ("matrix products", "attention products", "softmax and loss", "dropout", MAKING, OVERHEAD):
        assert found[kind] > 0, kind

    names = {event.get("name") for event in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]}
    assert {"aten::addmm", "step", MAKING} <= names

    trace.unlink()
    trace.parent.rmdir()
    assert differences(kept(profiled), kept(plain)) == []


@pytest.mark.usefixtures("quick")
def test_resumed_run_can_be_profiled(nmt: Command, config: Path, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    told = nmt("train", "--config", config, "--data", data, "--run", run, "--set=training.max_steps=3", "--profile")
    assert f"ends at step 3, tracing begins after step {WARM_UP}\n" in told.err
    assert not RunDir(run).trace.parent.exists()
    # from step 3 on there are not enough steps before the save of step LAST
    told = nmt("train", "--resume", "--run", run, f"--set=training.max_steps={2 * LAST - 1}", "--profile")
    assert f"profile of steps {LAST + 2} to {LAST + 1 + N_STEPS}" in told.err


@pytest.mark.parametrize("intervals", [(30, 40), (25,), (7, 1000)])
def test_between_two_saves(intervals: tuple[int, ...]) -> None:
    n = min(intervals) - 1
    for step in range(200):
        begin = first_quiet(step, n, intervals)
        assert begin >= step
        assert all(at % interval for at in range(begin, begin + n) for interval in intervals)
        assert begin == step or any(at % i == 0 for at in range(begin - 1, begin - 1 + n) for i in intervals)


BACKWARD = "autograd::engine::evaluate_function: "


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("aten::mm", "AddmmBackward0", BACKWARD + "AddmmBackward0", "step"), "matrix products"),
        (("aten::mm", "_ChunkedCrossEntropy", "step"), "matrix products"),
        (("aten::amax", "_ChunkedCrossEntropy", "step"), "softmax and loss"),
        (("aten::bmm", "step"), "attention products"),
        (("aten::copy_", "_BytewiseDropout", "step"), "dropout"),
        (("aten::copy_", "aten::_to_copy", "step"), "casts and copies"),
        (("aten::copy_", "aten::to", MAKING, "step"), MAKING),
        (("aten::native_layer_norm_backward", "NativeLayerNormBackward0", "step"), "normalisation"),
        (("aten::_fused_adam_", "Optimizer.step#Adam.step", "step"), "optimizer and clipping"),
        (("aten::embedding_dense_backward", "EmbeddingBackward0", "step"), "embedding"),
        (("AddmmBackward0", BACKWARD + "AddmmBackward0", "step"), OVERHEAD),
        (("step",), OVERHEAD),
        (("aten::threshold_backward", "ReluBackward0", "step"), OTHER),
        (("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm>",), "matrix products"),
        (("triton_per_fused_native_layer_norm_3",), "normalisation"),
    ],
)
def test_kinds(names: tuple[str, ...], kind: str) -> None:
    assert kind_of(names) == kind


def event(name: str, start: float, end: float, parent: Any = None, kernels: tuple[Any, ...] = ()) -> Any:
    """What the profiler tells of an operation (or of a kernel, if `parent` is "gpu")."""
    device = torch.autograd.DeviceType.CUDA if parent == "gpu" else torch.autograd.DeviceType.CPU  # type: ignore[attr-defined]
    span = Fake(start=start, end=end, elapsed_us=lambda: end - start)
    return Fake(
        name=name, time_range=span, kernels=kernels, cpu_parent=parent, device_type=device, is_user_annotation=False
    )


def test_gpu_times() -> None:
    step, gemm = event("step", 0, 100), Fake(name="gemm", duration=30.0)
    events = [
        step,
        event(MAKING, 0, 20, step),
        event("aten::mm", 20, 22, step, (gemm,)),
        event("aten::mm", 22, 24, step, (Fake(name="elementwise", duration=5.0),)),
        event("gemm", 10, 40, "gpu"),
        event("elementwise", 40, 45, "gpu"),
        event("triton_fused_softmax", 50, 70, "gpu"),  # of a captured graph
    ]
    sums = gpu_time(events, 100.0)
    sums = {kind: value for kind, value in sums.items() if value}
    assert sums == {"matrix products": 35.0, "softmax and loss": 20.0, OVERHEAD: 45.0}
