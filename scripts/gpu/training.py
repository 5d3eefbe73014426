"""Parts of `check.py` that train runs: stopped and resumed, and to BLEU."""

from __future__ import annotations

import json
import math
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from nmt.config import Config
from nmt.config.load import load_config
from nmt.data.batching import Update
from nmt.errors import StoppedError
from nmt.evaluate.run import choose_text, evaluate_text
from nmt.layout import RunDir
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import load_weights
from nmt.runs.info import read_info
from nmt.training.loop import train_step
from nmt.training.parallel import World
from nmt.training.plan import TrainingPlan
from nmt.training.session import Outcome, Session
from nmt.training.start import fit
from nmt.translate.loading import Translator
from scripts.gpu.setting import ROOT, Check, Found

TIMES, FLOOR = 5.0, {"loss_apart_before": 1e-3, "loss_apart": 2e-3, "weights_apart": 2e-2}
"""Limits for a resumed run on a GPU: this many times the difference of two whole runs, or these differences."""


def resume(check: Check) -> Found:
    """A run that is stopped half-way and resumed, against one that is not: on a CPU they must be equal to the bit. A
    GPU adds in an order of its own each time, so that there a second whole run tells how far apart two may be."""
    steps = check.sizes.steps
    intervals = {
        "max_steps": steps, "validate_every_steps": steps, "log_every_steps": max(1, steps // 60), "average_last": 1,
    }  # fmt: skip
    config, _ = _config(check, *(f"training.{name}={value}" for name, value in intervals.items()))
    with tempfile.TemporaryDirectory() as scratch:
        data, whole, stopped, again = (Path(scratch) / name for name in ("data", "whole", "stopped", "again"))
        prepare(config, data, echo=lambda _: None)
        start = time.monotonic()
        fit(TrainingPlan.of(config, data, whole))
        seconds = time.monotonic() - start
        yield {"steps": steps, "seconds": round(seconds, 1), **_how(whole)}
        try:
            with asked_to_stop(after=steps // 2):
                fit(TrainingPlan.of(config, data, stopped))
        except StoppedError as error:
            yield {"stopped": str(error).partition(";")[0]}
        else:
            yield {"error": "the run was asked to stop and did not", "ok": False}
            return
        fit(TrainingPlan.of(config, data, stopped, resume=True))
        found, spread = _apart(whole, stopped, steps), None
        if check.is_gpu:
            fit(TrainingPlan.of(config, data, again))
            spread = _apart(whole, again, steps)
            yield {"two_whole_runs": _rounded(spread)}
        same_steps = _losses(whole).keys() == _losses(stopped).keys()
        yield {**_rounded(found), "equal_bits": not any(found.values()), "ok": same_steps and near(found, spread)}


def ranks(check: Check) -> Found:
    """One rank that exchanges with itself, on a GPU by NCCL, in both ways to train in parallel, against none."""
    steps = max(4, check.sizes.steps // 8)
    settings = {
        "max_steps": steps, "validate_every_steps": steps, "log_every_steps": max(1, steps // 10), "average_last": 1,
        "warmup_steps": steps // 2, "precision": "float32", "compile": "off", "max_tokens": 4096, "optimizer": "adamw",
    }  # fmt: skip
    config, _ = _config(check, *(f"training.{name}={value}" for name, value in settings.items()))
    with tempfile.TemporaryDirectory() as scratch:
        data, alone = Path(scratch) / "data", Path(scratch) / "alone"
        prepare(config, data, echo=lambda _: None)
        fit(TrainingPlan.of(config, data, alone))
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if check.is_gpu else "gloo", store=HashStore(), rank=0, world_size=1
        )
        try:
            for way in ("ddp", "fsdp"):
                run, here = Path(scratch) / way, config.training.model_copy(update={"parallel": way})
                start = time.monotonic()
                with mock.patch.dict("os.environ", LOCAL_RANK="0"):
                    fit(
                        TrainingPlan.of(config.model_copy(update={"training": here}), data, run),
                        world=World(0, Several(1)),
                    )
                found = _apart(alone, run, steps)
                report = {"way": way, "seconds": round(time.monotonic() - start, 1), **_rounded(found), **_how(run)}
                yield {**report, "ok": max(found.values()) < 1e-4}
        finally:
            dist.destroy_process_group()


class Several(int):
    """A number of ranks for which everything is exchanged, even if it is 1."""

    def __eq__(self, other: object) -> bool:
        return other != 1 and super().__eq__(other)

    def __gt__(self, other: int) -> bool:
        return other == 1 or super().__gt__(other)

    __hash__ = int.__hash__


def near(found: dict[str, float], spread: dict[str, float] | None) -> bool:
    """Whether a resumed run is as near to a whole one as it has to be; spread: that of two whole runs, if they need not
    be equal."""
    if spread is None:
        return not any(found.values())
    return all(value <= max(TIMES * spread[name], FLOOR[name]) for name, value in found.items())


def _apart(whole: Path, other: Path, steps: int) -> dict[str, float]:
    """Return the relative differences of two runs: of losses (root mean square) in both halves, and of weights."""
    losses, theirs = _losses(whole), _losses(other)
    ratios = {step: theirs.get(step, math.inf) / loss - 1 for step, loss in losses.items()}
    halves = [[x for step, x in ratios.items() if (step > steps // 2) == is_late] for is_late in (False, True)]
    before, after = (math.sqrt(sum(x**2 for x in half) / len(half)) for half in halves)
    one, another = (load_weights(RunDir(run).step(steps)) for run in (whole, other))
    squares = sum(float(((a - another[name]).double() ** 2).sum()) for name, a in one.items())
    size = sum(float((a.double() ** 2).sum()) for a in one.values())
    return {"loss_apart_before": before, "loss_apart": after, "weights_apart": math.sqrt(squares / size)}


def _rounded(found: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.2g}") for name, value in found.items()}


@contextmanager
def asked_to_stop(after: int) -> Iterator[None]:
    """A context in which a training gets SIGTERM after so many updates."""
    n_updates = 0

    def step(session: Session, update: Update) -> Outcome:
        nonlocal n_updates
        n_updates += 1
        if n_updates == after:
            signal.raise_signal(signal.SIGTERM)
        return train_step(session, update)

    with mock.patch("nmt.training.loop.train_step", step):
        yield


def bleu(check: Check) -> Found:
    """The sample corpus, or Multi30k, from text to BLEU, and its translations against a CPU's, both in float32."""
    config, root = _config(check, *check.sizes.bleu)
    with tempfile.TemporaryDirectory() as scratch:
        data, run, start = Path(scratch) / "data", Path(scratch) / "run", time.monotonic()
        prepare(config, data, echo=lambda _: None)
        fit(TrainingPlan.of(config, data, run))
        yield {"trained_s": round(time.monotonic() - start, 1), **_how(run), "last": _records(run, "train")[-1:]}
        translator = Translator.load(run, device=check.device.type)
        start = time.monotonic()
        report = evaluate_text(translator, choose_text(translator, data, None), config.search).report
        seconds = round(time.monotonic() - start, 1)
        yield {"bleu": round(report.scores[0].value, 1), "lines": report.n_lines, "evaluated_s": seconds}
        text = root / f"{'dev' if check.data is None else 'val'}.{config.data.src}"
        sources = text.read_text(encoding="utf-8").splitlines()[: 5 * check.sizes.n_shapes]
        exact = [Translator.load(run, device=name, precision="float32") for name in (check.device.type, "cpu")]
        both = [[best[0].text for best in translator.translate_lines(sources)] for translator in exact]
        share = sum(a == b for a, b in zip(*both, strict=True)) / len(sources)
        yield {"translations_equal_to_a_cpu": round(share, 3), "ok": share >= 0.9}


def _config(check: Check, *settings: str) -> tuple[Config, Path]:
    name, root = ("sample.yaml", ROOT / "data" / "sample") if check.data is None else ("multi30k.yaml", check.data)
    device = f"training.device={check.device.type}"
    return load_config(name, [f"data.root={root}", device, *check.sizes.training], settings), root


def _how(run: Path) -> dict[str, object]:
    info = read_info(RunDir(run))
    return {name: getattr(info, name) for name in ("precision", "layout", "compiled")}


def _records(run: Path, kind: str) -> list[dict[str, float]]:
    lines = RunDir(run).log.read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def _losses(run: Path) -> dict[float, float]:
    return {record["step"]: record["loss"] for record in _records(run, "train")}
