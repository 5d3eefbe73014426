"""Parts of `check.py`: versions and hardware, the attention kernels chosen, and synchronizations with the host."""

from __future__ import annotations

import platform
import shutil
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import nmt
from nmt.model.device import CUDNN_ATTENTION
from nmt.search.settings import SearchConfig
from nmt.training.loop import train_step
from scripts.gpu.setting import PLAIN, RDROP, SIMCUT, Check, Found, Mode, peak, waiting
from scripts.gpu.speed import decode

# --- versions -----------------------------------------------------------------------------------


def versions(check: Check) -> Found:
    """Versions of packages, properties of the GPU, and the speed of a matrix product."""
    names = ("numpy", "pydantic", "safetensors", "sentencepiece", "sacrebleu", "triton", "tensorboard")
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    yield {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "packages": found,
    }
    yield {
        "precision": check.precision,
        "packed": check.packing_obstacle() or "possible",
        "compiler": shutil.which("gcc"),
    }
    if check.is_gpu:
        device = torch.cuda.get_device_properties(check.device)
        most = peak(device.name)
        yield {
            "gpu": device.name,
            "capability": f"{device.major}.{device.minor}",
            "gib": round(device.total_memory / 2**30, 1),
            "peak_tflops": "unknown" if most is None else round(most / 1e12, 1),
            "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
            "cudnn_attention": CUDNN_ATTENTION,
        }
    n = check.sizes.matrix
    dtype = torch.float16 if check.precision == "fp16" else torch.bfloat16
    a, b = (torch.randn(n, n, device=check.device, dtype=dtype) for _ in range(2))
    for _ in range(2):
        check.wait()
        start = time.monotonic()
        for _ in range(20):
            a @ b
        check.wait()
    yield {"product": n, "tflops": round(20 * 2 * n**3 / (time.monotonic() - start) / 1e12, 1)}


# --- attention ----------------------------------------------------------------------------------

BACKENDS = {0: "math", 1: "flash", 2: "memory-efficient", 3: "cuDNN"}


def attention(check: Check) -> Found:
    """Which kernel attention takes and how long, forward and backward, on shapes it has not seen and once more on the
    same, without and with cuDNN's."""
    n_heads, n_tokens = check.sizes.model["n_heads"], check.sizes.update_tokens[0]
    width = check.sizes.model["d_model"] // n_heads
    dtype = torch.float16 if check.precision == "fp16" else torch.bfloat16
    rng = np.random.default_rng(1)
    try:
        for with_cudnn in (False, True):
            torch.backends.cuda.enable_cudnn_sdp(with_cudnn)
            for kind in ("causal", "masked"):
                # sizes like those of batches of text; others for each kind and setting, so that all are new
                shapes = [
                    (max(1, int(n_tokens / length)), int(length))
                    for length in rng.uniform(10, 170, check.sizes.n_shapes)
                ]
                try:
                    tensors = [_tensors(check, shape, n_heads, width, dtype, kind) for shape in shapes]
                    chosen = Counter(_chosen(*inputs) for inputs in tensors)
                    _attend(*tensors[0])
                    first, again = (_milliseconds(check, tensors[1:]) for _ in range(2))
                except Exception as error:  # as of cuDNN, where that cannot be used at all
                    yield {"kind": kind, "cudnn": with_cudnn, "error": " ".join(f"{error}".split())[:200]}
                    continue
                times = {"new_shape_ms": round(first, 3), "known_shape_ms": round(again, 3)}
                yield {"kind": kind, "cudnn": with_cudnn, "chosen": dict(chosen), **times}
    finally:
        torch.backends.cuda.enable_cudnn_sdp(CUDNN_ATTENTION)


def _tensors(
    check: Check, shape: tuple[int, int], n_heads: int, width: int, dtype: torch.dtype, kind: str
) -> tuple[list[Tensor], Tensor | None]:
    n, length = shape
    query_key_value = [
        torch.randn(n, length, n_heads, width, device=check.device, dtype=dtype).transpose(1, 2).requires_grad_()
        for _ in range(3)
    ]
    if kind == "causal":
        return query_key_value, None
    lengths = torch.randint(1, length + 1, (n,), device=check.device)
    return query_key_value, (torch.arange(length, device=check.device) < lengths[:, None])[:, None, None]


def _chosen(tensors: list[Tensor], mask: Tensor | None) -> str:
    query, key, value = tensors
    choice = torch._fused_sdp_choice(query, key, value, mask, 0.0, mask is None)
    return BACKENDS.get(int(choice), str(choice))


def _attend(tensors: list[Tensor], mask: Tensor | None) -> None:
    query, key, value = tensors
    attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None)
    torch.autograd.grad(attended, tensors, attended.detach())


def _milliseconds(check: Check, all_tensors: list[tuple[list[Tensor], Tensor | None]]) -> float:
    check.wait()
    start = time.monotonic()
    for tensors, mask in all_tensors:
        _attend(tensors, mask)
    check.wait()
    return 1000 * (time.monotonic() - start) / len(all_tensors)


# --- waits --------------------------------------------------------------------------------------

OTHER_MODEL = ("model.norm=post", "model.activation=gelu", "model.positions=learned", "model.tie_embeddings=none",
               "model.attention_dropout=0.1")  # fmt: skip
CLASSES = ("training.objective=classification", "data.direction=de-label", "data.valid=0.1", "data.test={}",
           "data.train=[{files: {de: a, label: b}}]")  # fmt: skip
MASKED = ("training.objective=masked", "model.kind=encoder")
OTHER_OBJECTIVES = (
    *(
        Mode(f"{name}, {layout}", (*PLAIN, "training.select_by=auto", *settings), layout)
        for name, settings in {
            "denoising": ("training.objective=denoising",),
            "masked": MASKED,
            "masked with pair task": (*MASKED, "training.masked.pair_task=[shuffled]"),
            "causal": ("training.objective=causal", "model.kind=decoder"),
            "classification": (*CLASSES, "model.kind=encoder"),
            "causal classification": (*CLASSES, "model.kind=decoder"),
        }.items()
        for layout in ("rows", "packed")
    ),
    Mode("decoder-only translation", (*PLAIN, "model.kind=decoder")),
)
"""What is learned beside translations by encoder and decoder, see docs/pretraining.md and docs/classification.md."""
WAYS = (
    Mode("plain"),
    Mode("plain fp16", precision="fp16"),
    Mode("plain float32", precision="float32"),
    Mode("plain packed", layout="packed"),
    Mode("plain packed fp16", layout="packed", precision="fp16"),
    Mode("SimCut, moving average", SIMCUT),
    Mode("SimCut, moving average, packed", SIMCUT, "packed"),
    Mode("SimCut, moving average, packed fp16", SIMCUT, "packed", "fp16"),
    Mode("R-Drop, moving average, packed", RDROP, "packed"),
    Mode("R-Drop, moving average, fp16", RDROP, precision="fp16"),
    Mode("post-norm, GELU, learned positions, nothing tied, attention dropout", (*PLAIN, *OTHER_MODEL)),
    Mode("Adam, no clipping, packed", (*PLAIN, "training.optimizer=adam", "training.clip_norm=0"), "packed"),
    Mode("Muon, packed", (*PLAIN, "training.optimizer=muon"), "packed"),
    Mode("frozen embeddings, packed", PLAIN, "packed", freeze=("embeddings",)),
    Mode("in parts, packed", PLAIN, "packed", update_tokens=32_768),
    *OTHER_OBJECTIVES,
)
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "beam 5": {},
    "coverage penalty": {"coverage_penalty": 0.2},
    "diverse": {"beam": 6, "diversity_groups": 3},
    "no repeats": {"no_repeat_ngram": 3, "min_length": 5},
    "samples": {"sample": True},
    "samples, top_p": {"sample": True, "top_p": 0.9},
}
INHERENT = {("rules.py", "leaving"), ("beam.py", "_results"), ("greedy.py", "_results")}
"""Functions where a search has to synchronize: which sentences are done, and fetching the results."""


def waits(check: Check) -> Found:
    """In every way to train, the lines of an update that wait for the GPU, of which there must be none; in searches,
    only where they have to. On a GPU it first waits on purpose, which must be seen."""
    if check.is_gpu:
        with noted(check.device) as places:
            in_nmt("number.item()", number=torch.ones((), device=check.device))
        yield {"on_purpose": {_name(place): n for place, n in places.items()}, "ok": bool(places)}
    for mode in WAYS:
        if mode.layout == "packed" and (why := check.packing_obstacle(mode.precision)) is not None:
            yield {"update": mode.name, "left_out": why}
            continue
        try:
            session = check.session(mode)
        except Exception as error:
            yield {"update": mode.name, "left_out": " ".join(f"{error}".split())[:200]}
            continue
        update_tokens = min(mode.update_tokens, 8 * check.sizes.update_tokens[0])
        updates = check.updates(update_tokens, check.learned(session.training_objective))
        for update in updates[:2]:
            train_step(session, update)
        with noted(check.device) as places:
            train_step(session, updates[2])
        yield {"update": mode.name, "waits": {_name(place): n for place, n in places.items()}, "ok": not places}
    model = check.session(WAYS[0]).model.eval()
    rows = check.pairs.lengths.sort(np.arange(check.sizes.n_sentences))[: check.sizes.n_sentences // 2][-64:]
    for name, settings in SEARCHES.items():
        wrong = {}
        with noted(check.device) as places:
            try:
                decode(check, model, rows, SearchConfig(max_length_ratio=0, max_length_offset=20, **settings))
            except Exception as error:  # the next may go
                wrong = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:200]}
        is_good = not wrong and all(place[:2] in INHERENT for place in places)
        yield {"search": name, "waits": {_name(place): n for place, n in places.items()}, **wrong, "ok": is_good}


NMT = str(Path(nmt.__file__).parent)
Place = tuple[str, str, int]
"""File, function and line."""


@contextmanager
def noted(device: torch.device) -> Iterator[Counter[Place]]:
    """Count the places in `nmt` where the host waits for the GPU."""
    places: Counter[Place] = Counter()

    def note(message: Warning | str, *_: Any, **__: Any) -> None:
        if "synchronizing CUDA operation" in str(message):
            frames = [frame for frame in traceback.extract_stack() if frame.filename.startswith(NMT)]
            if frames:  # else it is of this script
                # of a generator or the like the function that it stands in
                name = next(
                    (frame.name for frame in reversed(frames) if not frame.name.startswith("<")), frames[-1].name
                )
                places[(Path(frames[-1].filename).name, name, frames[-1].lineno or 0)] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        with waiting("warn", device):
            yield places


def in_nmt(program: str, **names: object) -> None:
    """Run a program as if it stood in `nmt`."""
    exec(compile(program, str(Path(NMT) / "on_purpose.py"), "exec"), names)


def _name(place: Place) -> str:
    return f"{place[0]}:{place[2]} {place[1]}"
