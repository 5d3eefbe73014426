"""The setting of `check.py`: sizes, training modes, synthetic pairs, and the peak speeds of GPUs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from nmt.config import Config
from nmt.config.load import load_config
from nmt.data.batching import STEP, Packing, Pairs, Update, epoch_updates
from nmt.data.corpus import Split, lines_of
from nmt.data.mixing import Position
from nmt.data.rows import RowPacking
from nmt.data.windows import Window, Windows
from nmt.errors import NmtError
from nmt.languages.directions import LABEL
from nmt.layout import RunDir
from nmt.model.device import Halves, pick_device, pick_precision
from nmt.model.masks import packing_obstacle
from nmt.model.settings import ModelConfig
from nmt.model.transformer import Model, make_model
from nmt.process import Stop
from nmt.runs.state import TrainState
from nmt.text.ids import EOS, N_SPECIAL
from nmt.text.tokenizer import LosslessTokenizer
from nmt.text.vocabularies import Tokenizers
from nmt.training.objective import Objective
from nmt.training.optim import make_optimizer, make_scaler
from nmt.training.parallel import World
from nmt.training.session import Session
from nmt.training.settings import TrainingConfig
from nmt.training.setup import choices as compiling
from nmt.training.setup.choices import compiled
from nmt.training.setup.inputs import freeze
from nmt.training.setup.objective import make_objective
from nmt.training.validate import Validator

ROOT = Path(__file__).resolve().parents[2]
Found = Iterator[dict[str, Any]]
"""Findings of a part: JSON objects without the part's name, with "ok": False where something is wrong."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurements."""

    model: dict[str, int]
    small_model: dict[str, int]
    """For agreement with a CPU."""
    n_compared: int
    """Pairs of the batch whose loss and gradient are compared with a CPU's."""
    vocabulary: int
    update_tokens: tuple[int, ...]
    n_pairs: int
    seconds: float
    """For each measurement of speed."""
    n_sentences: int
    n_shapes: int
    """Shapes on which attention is timed."""
    matrix: int
    """Rows and columns of the matrix product whose speed is measured."""
    steps: int
    """Length of the training that is stopped and resumed; a GPU runs it three times."""
    training: tuple[str, ...]
    """Overrides of the configuration of both trainings."""
    bleu: tuple[str, ...]
    """Overrides of the configuration of the training to BLEU."""


IWSLT = {"d_model": 512, "n_heads": 4, "d_ff": 1024, "encoder_layers": 6, "decoder_layers": 6}
MIDDLE = {"d_model": 256, "n_heads": 4, "d_ff": 512, "encoder_layers": 2, "decoder_layers": 2}
TINY = {"d_model": 32, "n_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1}
FULL = Sizes(
    IWSLT, MIDDLE, 48, 10_000, (4096, 16384, 32768), 60_000, 2.0, 2048, 24, 8192, 800,
    (), ("training.max_steps=1500", "training.compile=off"),
)  # fmt: skip
SMALL = Sizes(TINY, TINY, 4, 300, (256, 512, 1024), 2000, 0.1, 8, 3, 128, 6, (
    "tokenizer.vocab_size=400", "model.d_model=32", "model.d_ff=64", "model.encoder_layers=1", "search.beam=1",
    "model.decoder_layers=1", "training.update_tokens=200", "training.warmup_steps=2", "search.max_length_ratio=0",
    "training.average_last=1",
), ("training.max_steps=4",))  # fmt: skip

# of dense products in bf16 (V100: fp16), by NVIDIA's data sheets; the first counts whose words are in the GPU's name
PEAKS = {
    "B200": 2250e12, "H200": 989.4e12, "GH200": 989.4e12, "H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989.4e12,
    "A100": 312e12, "A30": 165e12, "A40": 149.7e12, "L40S": 362e12, "A10": 125e12, "L4": 121e12, "V100": 125e12,
    "RTX 4090": 165.2e12,
}  # fmt: skip


def peak(name: str) -> float | None:
    """Return the FLOP/s of half-precision products by the manufacturer's data sheet, or None if unknown."""
    words = name.replace("-", " ").split()
    return next((value for known, value in PEAKS.items() if set(known.split()) <= set(words)), None)


N_LABELS = 4
PLAIN = ("training.consistency=none", "training.ema=0")
SIMCUT = ("training.consistency=simcut",)
RDROP = ("training.consistency=rdrop",)


@dataclass(frozen=True)
class Mode:
    """One way to train: settings, a layout of batches, a number format (None: the one chosen for the device), compiled
    or not and with what `mode` of torch.compile."""

    name: str
    settings: tuple[str, ...] = PLAIN
    layout: str = "rows"
    precision: str | None = None
    is_compiled: bool = False
    graphs: str | None = None
    update_tokens: int = 4096
    freeze: tuple[str, ...] = ()


@contextmanager
def waiting(is_an: str, device: torch.device) -> Iterator[None]:
    """Context in which an operation that synchronizes with a GPU raises ("error") or warns ("warn")."""
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode(is_an)
    try:
        yield
    finally:
        if device.type == "cuda":
            torch.cuda.set_sync_debug_mode("default")


class Check:
    """Sizes, data and device of a check."""

    def __init__(self, device: str, small: bool, data: Path | None = None) -> None:
        try:
            self.device = pick_device(device)
        except NmtError:
            self.device = torch.device("cpu")  # no part is begun without a GPU
            self.lacks_gpu = True
        else:
            self.lacks_gpu = False
        self.sizes, self.data = SMALL if small else FULL, data
        self.is_gpu = self.device.type == "cuda"
        if not self.is_gpu:
            compiling.BACKEND = "aot_eager"  # it traces, and makes no machine code
        self.precision = pick_precision("auto", self.device) if self.is_gpu else "float32"
        self._split = cast(Split, Synthetic(self.sizes.n_pairs, self.sizes.vocabulary))
        self.pairs = Pairs(lines_of(self._split, "src"), lines_of(self._split, "tgt"))

    def wait(self) -> None:
        """Synchronize with the device."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def packing_obstacle(self, precision: str | None = None, model: dict[str, int] | None = None) -> str | None:
        """Return why batches cannot be packed here, or None."""
        sizes = ModelConfig.model_validate(model or self.sizes.model)
        return packing_obstacle(self.device, precision or self.precision, sizes)

    def updates(self, update_tokens: int, pairs: Pairs | None = None) -> list[Update]:
        """The updates of an epoch of some pairs, by default of those for translation."""
        return epoch_updates((pairs or self.pairs).lengths, update_tokens, 1, 0)

    def objective(self, config: Config) -> Objective:
        """The training objective of a configuration."""
        pieces = SyntheticPieces(self.sizes.vocabulary)
        return make_objective(config, cast(Tokenizers, dict.fromkeys(config.data.pair, pieces)))

    def learned(self, objective: Objective) -> Pairs:
        """The pairs that an objective learns from, before they are modified for an update."""
        src, tgt = lines_of(self._split, "src"), lines_of(self._split, LABEL if objective.data.has_labels else "tgt")
        return objective.examples(src, tgt)

    def config(self, *settings: str) -> Config:
        """A configuration with the model that is measured."""
        sizes = [f"model.{name}={value}" for name, value in self.sizes.model.items()]
        # AdamW is what other tools use, too; one of the modes has Muon
        return load_config("iwslt14.yaml", sizes, ["training.optimizer=adamw", *settings])

    def session(self, mode: Mode, max_tokens: int = 8192) -> Session:
        """A session that learns from the synthetic pairs with dropout, and neither saves nor validates."""
        config, precision = self.config(*mode.settings), mode.precision or self.precision
        torch.manual_seed(1)
        sizes = {**dict.fromkeys(config.data.pair, self.sizes.vocabulary), LABEL: N_LABELS}
        model = make_model(config.model, config.sizes(sizes)).to(self.device)
        freeze(model, mode.freeze)
        objective = self.objective(config)
        pairs = self.learned(objective)
        packing: Packing | RowPacking = RowPacking(pairs)
        if mode.layout == "packed":
            packing = Packing(pairs, 8 * STEP if mode.graphs else STEP)  # graphs are recorded for every size
        halves = None if precision == "float32" else Halves(model, precision)
        runs = model if halves is None else halves.twin
        return Session(
            run=RunDir(Path("none")),
            data=config.data,
            settings=config.training,
            d_model=config.model.d_model,
            longest=config.longest,
            training_objective=objective,
            windows=cast(Windows, None),
            window=Window(Position(), pairs, self.updates(mode.update_tokens, pairs)),
            validator=cast(Validator, None),
            selected_by="loss",
            model=model,
            optimizer=make_optimizer(model, config.training, precision),
            scaler=make_scaler(self.device, precision),
            state=TrainState(),
            device=self.device,
            precision=precision,
            max_tokens=max_tokens,
            world=World(),
            stop=Stop(),
            layout=mode.layout,
            packing=packing,
            forward=compiled(runs, mode.graphs, mode.settings == SIMCUT) if mode.is_compiled else None,
            halves=halves,
        )


class SyntheticPieces:
    """A tokenizer of which each piece is a word, as far as masks and wrong pairs need one."""

    first_learned = LosslessTokenizer.first_learned
    first_tag = None

    def __init__(self, vocabulary: int) -> None:
        self._n = self.n_pieces = vocabulary

    def __len__(self) -> int:
        return self._n

    def never_written(self, joins: bool = False) -> list[int]:  # noqa: ARG002 (the signature of `Tokenizer`)
        """See `Tokenizer`."""
        return [i for i in range(N_SPECIAL) if i != EOS]

    def begins_word(self) -> list[bool]:
        """See `Tokenizer`."""
        return [True] * self._n

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """See `Tokenizer`."""
        return ["word" for _ in ids]


class Synthetic:
    """A split of random ids whose lengths are like those of IWSLT: about 25 pieces, some much longer; and a label for
    each line."""

    def __init__(self, n_pairs: int, vocabulary: int) -> None:
        rng = np.random.default_rng(1)
        src = np.clip(rng.gamma(2.0, 12.0, n_pairs), 1, 170)
        sides = {"src": src, "tgt": np.clip(src * rng.normal(0.98, 0.15, n_pairs), 1, 170)}
        self._lengths = {side: lengths.astype(np.int32) for side, lengths in sides.items()}
        self._ids = {side: rng.integers(N_SPECIAL, vocabulary, int(n.sum())) for side, n in self._lengths.items()}
        self._lengths[LABEL] = np.ones(n_pairs, np.int32)
        self._ids[LABEL] = rng.integers(N_LABELS, size=n_pairs)

    def lengths(self, side: str) -> Any:
        """See `Split`."""
        return self._lengths[side]

    def ids(self, side: str) -> Any:
        """See `Split`."""
        return self._ids[side]

    def ends(self, side: str) -> Any:
        """See `Split`."""
        return np.cumsum(self._lengths[side], dtype=np.int64)


def rate(check: Check, update: Callable[[int], int]) -> dict[str, Any]:
    """Target tokens per second of `update`, which makes update number i and returns its tokens; the time of an update,
    all of it and until the host has asked for it; the peak of memory."""
    if check.is_gpu:
        torch.cuda.reset_peak_memory_stats()
    check.wait()
    start, n_tokens, n, asked = time.monotonic(), 0, 0, 0.0
    while n < 4 or time.monotonic() - start < check.sizes.seconds:
        began = time.monotonic()
        for _ in range(4):
            n_tokens += update(n)
            n += 1
        asked += time.monotonic() - began
        check.wait()
    seconds = time.monotonic() - start
    return {
        "tokens_per_s": round(n_tokens / seconds),
        "update_ms": round(1000 * seconds / n, 1),
        "host_ms": round(1000 * asked / n, 1),
        "gib": round(torch.cuda.max_memory_allocated() / 2**30, 2) if check.is_gpu else None,
    }


def flop_per_token(model: Model, settings: TrainingConfig) -> float:
    """Return the FLOP of a target token in training, with as many source tokens: twice the weights, three times
    (forward and two products backward), all of it twice where consistency training makes a second pass. Products
    between tokens, in attention, are left out: they add about a hundredth."""
    output = model.output_weight  # which may be that of the embeddings, too
    n_weights = sum(p.numel() for name, p in model.named_parameters() if "embedding" not in name and p is not output)
    n_passes = 2 if settings.has_consistency else 1
    return 6.0 * n_passes * (n_weights + output.numel())
