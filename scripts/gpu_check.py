"""Check on one GPU that nmt computes there what it computes on a CPU, and how fast; under 9 minutes, without network.

    python scripts/gpu_check.py [--data data/multi30k] [--device cpu --small]

Needs this repository, what `pip install -e .` installs (torch with CUDA and triton, numpy, sentencepiece, sacrebleu,
pydantic, pyyaml, safetensors, tensorboard, tqdm, typer) and, to compile, a C compiler. DATA is a folder of Multi30k
(data/README.md); without it the embedded sample corpus is trained on. `--device cpu --small` runs every part on a CPU
with tiny sizes, which checks this script and no speed; the compiler traces there and makes no machine code.

Prints a table a line at a time, so that what is known stays known should a later part fail. The exit status is 1 if a
part failed, 2 if there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from gpu_check_setting import FULL, MODES, SMALL, TINY, Mode, Sizes, Synthetic, flop_per_token, learned, limited
from nmt.checkpoint import TrainState
from nmt.config import SearchConfig
from nmt.config_file import load_config
from nmt.data.batching import BatchPlan, EpochUpdates, Pairs, epoch_updates
from nmt.data.corpus import Split
from nmt.data.packing import STEP, Packing
from nmt.evaluate_run import evaluate_run
from nmt.layout import RunDir
from nmt.metadata import read_info
from nmt.model.masks import Padded
from nmt.model.precision import autocast, for_inference, pick_precision
from nmt.model.transformer import Transformer
from nmt.model.varlen import why_not
from nmt.prepare import prepare
from nmt.process import set_up
from nmt.search.rules import Rules
from nmt.search.search import search
from nmt.search.step import TransformerStep
from nmt.tokenizer import EOS, N_SPECIAL
from nmt.training import compiled as compiling
from nmt.training.compiled import compiled
from nmt.training.dist import World
from nmt.training.loop import fit, train_step
from nmt.training.objective import Forward
from nmt.training.optim import make_optimizer, make_scaler
from nmt.training.session import Session
from nmt.training.stop import Stop
from nmt.training.validate import Validator
from nmt.translator import Translator

ROOT = Path(__file__).parent.parent
SECONDS = 530.0  # of all parts together


class Check:
    """What is measured, on which device, and the table that comes of it."""

    def __init__(self, device: torch.device, sizes: Sizes, data: Path | None) -> None:
        self.device, self.sizes, self.data = device, sizes, data
        self.is_gpu = device.type == "cuda"
        self.precision = pick_precision("auto", device) if self.is_gpu else "bf16"
        self.pairs = Pairs(cast(Split, Synthetic(sizes.n_pairs, sizes.vocabulary)), "src", "tgt")
        self.end, self.n_failed, self.peak = time.monotonic() + SECONDS, 0, 1.0

    def line(self, part: str, what: str, found: str, is_good: bool = True) -> None:
        """Print a line of the table."""
        self.n_failed += not is_good
        print(f"{part:<10} {what:<30} {found}{'' if is_good else '   FAILED'}", flush=True)

    def run(self, part: str, do: Callable[[], None], seconds: float) -> None:
        """One part, in at most so many seconds; if it fails, the table says why and the next one follows."""
        start = time.monotonic()
        left = self.end - start
        if left < 45:
            self.line(part, "", "left out: the time is up")
            return
        try:
            with limited(min(seconds, left)):
                do()
        except Exception as error:
            self.line(part, "", " ".join(f"{type(error).__name__}: {error}".split())[:300], is_good=False)
        finally:
            self.waiting("default")
        self.line(part, "", f"{time.monotonic() - start:.0f} s")

    def waiting(self, is_an: str) -> None:
        """What PyTorch makes of an operation that waits for a GPU: "error", or by "default" nothing."""
        if self.is_gpu:
            torch.cuda.set_sync_debug_mode(is_an)

    def wait(self) -> None:
        """Until the device has done all that was asked of it."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def updates(self, update_tokens: int) -> EpochUpdates:
        """The updates of an epoch."""
        return epoch_updates(self.pairs.lengths, BatchPlan(update_tokens, 30_000, 1), 0)

    def modes(self) -> list[Mode]:
        """The ways to train that are possible here."""
        why = why_not(self.device, self.precision, self.sizes.model["d_model"] // self.sizes.model["n_heads"], 0.0)
        if why is not None:
            self.line("speed", "packed", f"not possible: {why}")
        return [mode for mode in MODES if (why is None or mode.layout == "padded") and (self.is_gpu or not mode.graphs)]

    def session(self, mode: Mode) -> Session:
        """A session that learns from the synthetic pairs with dropout, and neither saves nor validates."""
        config = load_config("iwslt14.yaml", [f"model.{name}={value}" for name, value in self.sizes.model.items()])
        torch.manual_seed(1)
        model = Transformer(config.model, self.sizes.vocabulary, self.sizes.vocabulary).to(self.device)
        return Session(
            config=config,
            run=RunDir(Path("none")),
            pairs=self.pairs,
            validator=cast(Validator, None),
            model=model,
            optimizer=make_optimizer(model, config.training),
            scaler=make_scaler(self.device, self.precision),
            state=TrainState(),
            device=self.device,
            precision=self.precision,
            max_tokens=8192,
            world=World(),
            stop=Stop(),
            # graphs are recorded for every size: there are to be few
            packing=Packing(self.pairs, 8 * STEP if mode.graphs else STEP) if mode.layout == "packed" else None,
            forward=compiled(model, mode.graphs) if mode.is_compiled else None,
        )

    # --- the parts --------------------------------------------------------------------------------

    def agreement(self) -> None:
        """Loss and gradient of a batch against a CPU's in float32."""
        rows = np.arange(64)
        config = load_config("iwslt14.yaml", [f"model.{name}={value}" for name, value in TINY.items()]).model
        config = config.model_copy(update={name: 0.0 for name in type(config).model_fields if "dropout" in name})
        torch.manual_seed(1)
        model = Transformer(config, self.sizes.vocabulary, self.sizes.vocabulary)
        expected = learned(model, self.pairs.batch(rows), "float32", torch.device("cpu"))
        model = model.to(self.device)
        ways: list[tuple[str, str, Any, Forward | None]] = [
            ("padded float32", "float32", self.pairs, None),
            (f"padded {self.precision}", self.precision, self.pairs, None),
        ]
        if why_not(self.device, self.precision, config.d_model // config.n_heads, 0.0) is None:
            packing = Packing(self.pairs)
            ways.append((f"packed {self.precision}", self.precision, packing, None))
            ways.append((f"packed {self.precision} compiled", self.precision, packing, compiled(model)))
        for name, precision, maker, forward in ways:
            found = learned(model, maker.batch(rows).to(self.device), precision, self.device, forward)
            apart = [float((a - b).norm() / b.norm()) for a, b in zip(found, expected, strict=True)]
            limits = (1e-4, 1e-3) if precision == "float32" else (5e-3, 5e-2)
            is_good = all(a <= limit for a, limit in zip(apart, limits, strict=True))
            self.line("agreement", name, f"loss {apart[0]:.1e}, gradient {apart[1]:.1e} apart (relative)", is_good)

    def product(self) -> None:
        """The speed of a large matrix product, the peak that shares are of."""
        n = self.sizes.matrix
        dtype = torch.float16 if self.precision == "fp16" else torch.bfloat16
        a, b = (torch.randn(n, n, device=self.device, dtype=dtype) for _ in range(2))
        for _ in range(2):
            self.wait()
            start = time.monotonic()
            for _ in range(20):
                a @ b
            self.wait()
        self.peak = 20 * 2 * n**3 / (time.monotonic() - start)
        self.line("speed", f"product of {n} x {n}", f"{self.peak / 1e12:.1f} TFLOP/s: the peak")

    def speed(self, mode: Mode) -> None:
        """Target tokens per second of one way to train, compiled once for all update sizes."""
        session, start = self.session(mode), time.monotonic()
        train_step(session, self.updates(self.sizes.update_tokens[0])[0])
        self.wait()
        self.line("speed", mode.name, f"the first update takes {time.monotonic() - start:.1f} s")
        for update_tokens in self.sizes.update_tokens:
            updates = self.updates(update_tokens)
            here = replace(session, max_tokens=4 * update_tokens)
            for i in range(8):
                self.waiting("error" if i >= 5 and not mode.graphs else "default")
                train_step(here, updates[i])
            self.waiting("default")
            rate, memory = self.rate(here, updates)
            share = rate * flop_per_token(here.model) / self.peak
            found = f"{rate:>9,.0f} tokens/s, {share:5.1%} of the peak, {memory:5.1f} GiB"
            self.line("speed", f"{mode.name}, {update_tokens}", found)
        if not mode.graphs:
            self.line(
                "speed", mode.name, "0 host synchronisations in an update" if self.is_gpu else "no GPU to wait for"
            )

    def rate(self, session: Session, updates: EpochUpdates) -> tuple[float, float]:
        """Target tokens per second, and the peak of memory (GiB)."""
        if self.is_gpu:
            torch.cuda.reset_peak_memory_stats()
        self.wait()
        start, n_tokens, i = time.monotonic(), 0, 8
        while i < 12 or time.monotonic() - start < self.sizes.seconds:
            for _ in range(4):
                n_tokens += train_step(session, updates[i % len(updates)]).update.n_tokens
                i += 1
            self.wait()
        seconds = time.monotonic() - start
        return n_tokens / seconds, torch.cuda.max_memory_allocated() / 2**30 if self.is_gpu else 0.0

    def decoding(self) -> None:
        """Sentences per second, at most as long as the source; the untrained model hardly ever ends one before."""
        model = for_inference(self.session(MODES[0]).model.eval(), self.precision)
        banned = torch.tensor([i for i in range(N_SPECIAL) if i != EOS], device=self.device)
        lengths = self.pairs.lengths
        rows = lengths.sort(np.arange(self.sizes.n_sentences))
        for beam in (1, 1, 5):  # the first time is to warm up
            settings, start = SearchConfig(beam=beam), time.monotonic()
            for part in lengths.split(rows, 16384 if self.is_gpu else 2048):
                batch = self.pairs.batch(part).to(self.device)
                limits = torch.from_numpy(lengths.src[part]).to(self.device)
                with torch.inference_mode(), autocast(self.precision, self.device):
                    memory = model.encode(batch.src, Padded(batch.src_mask))
                    step = TransformerStep(model, memory, batch.src_mask)
                    search(step, Rules(banned, limits), settings, range(len(part)))
            self.line("decoding", f"beam {beam}", f"{len(rows) / (time.monotonic() - start):,.0f} sentences/s")

    def training(self) -> None:
        """Multi30k or the sample corpus from text to BLEU, and its translations by a CPU in float32."""
        name, root = ("sample.yaml", ROOT / "data" / "sample") if self.data is None else ("multi30k.yaml", self.data)
        changes = [f"data.root={root}", f"training.device={self.device.type}", *self.sizes.training]
        config = load_config(name, changes)
        with tempfile.TemporaryDirectory() as scratch:
            data, run, start = Path(scratch) / "data", Path(scratch) / "run", time.monotonic()
            prepare(config, data, echo=lambda _: None)
            fit(config, data, run)
            here = Translator.load(run, device=self.device.type)
            report = evaluate_run(here, data, None, config.search).report
            last = [json.loads(line) for line in RunDir(run).log.read_text(encoding="utf-8").splitlines()]
            steps = [each for each in last if each["kind"] == "train"][-1:]
            info = read_info(RunDir(run))
            how = f"{info['precision']}, {info['layout']}{', compiled' if info['compiled'] else ''}"
            rate = steps[0]["tokens_per_second"] if steps else 0.0
            self.line(
                "training", f"{name}, {how}", f"BLEU {report.scores[0].value:.1f}, {rate:,.0f} tokens/s at the end"
            )
            self.line("training", "from text to BLEU", f"{time.monotonic() - start:.0f} s")
            exact = [Translator.load(run, device=name, precision="float32") for name in (self.device.type, "cpu")]
            lines = (root / f"{'dev' if self.data is None else 'val'}.{config.data.src}").read_text(encoding="utf-8")
            sources = lines.splitlines()[:40]
            both = [[best[0].text for best in each.translate_lines(sources)] for each in exact]
            share = sum(a == b for a, b in zip(*both, strict=True)) / len(sources)
            self.line("agreement", "translations, float32", f"{share:.0%} equal to a CPU's", share >= 0.9)


def main(arguments: list[str] | None = None) -> int:
    """Run all parts; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of Multi30k; without it the sample corpus")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to check this script")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("gpu_check: this PyTorch sees no GPU; --device cpu --small checks the script itself", file=sys.stderr)
        return 2
    if options.device == "cpu":
        compiling.BACKEND = "aot_eager"
    check = Check(torch.device(options.device), SMALL if options.small else FULL, options.data)
    name = torch.cuda.get_device_name() if check.is_gpu else "CPU"
    check.line("device", name, f"PyTorch {torch.__version__}, {check.precision}")
    check.run("agreement", check.agreement, 90)
    check.run("speed", check.product, 30)
    modes = check.modes()
    for mode in modes[:3]:
        check.run("speed", partial(check.speed, mode), 150)
    check.run("training", check.training, 240)
    check.run("decoding", check.decoding, 40)
    for mode in modes[3:]:  # what users do not get by default comes last
        check.run("speed", partial(check.speed, mode), 150)
    print("all parts passed" if not check.n_failed else f"{check.n_failed} FAILED")
    return int(check.n_failed > 0)


if __name__ == "__main__":
    set_up()
    sys.exit(main())
