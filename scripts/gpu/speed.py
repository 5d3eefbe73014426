"""Parts of `check.py` that measure speed: eager and compiled training, and translation."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch

from nmt.data.batching import Update
from nmt.data.lines import Indices
from nmt.data.on_device import sent
from nmt.model.inference import InferenceModel
from nmt.model.transformer import Model, Transformer
from nmt.search.methods import find_hypotheses
from nmt.search.rules import Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import TransformerStep
from nmt.text.ids import EOS, N_SPECIAL
from nmt.training.loop import train_step
from nmt.training.session import Session
from scripts.gpu.setting import PLAIN, SIMCUT, Check, Found, Mode, flop_per_token, peak, rate

EAGER = (
    Mode("packed", PLAIN, "packed"),
    Mode("packed, SimCut", SIMCUT, "packed"),
    Mode("rows", PLAIN),
    Mode("rows, SimCut", SIMCUT),
)
COMPILED = (
    Mode("packed, compiled", PLAIN, "packed", is_compiled=True),
    Mode("packed, compiled, SimCut", SIMCUT, "packed", is_compiled=True),
    Mode("rows, compiled", PLAIN, is_compiled=True),
)
GRAPHS = (Mode("packed, CUDA graphs", PLAIN, "packed", is_compiled=True, graphs="reduce-overhead"),)
WARM_UP = 8
"""Updates at each size before time is taken."""


def eager(check: Check) -> Found:
    """The speed of the ways to train that are not compiled."""
    yield from _modes(check, EAGER)


def compiled(check: Check) -> Found:
    """The speed of those that are, each compiled once for all update sizes."""
    yield from _modes(check, COMPILED)


def graphs(check: Check) -> Found:
    """The speed with CUDA graphs, which users do not get."""
    if not check.is_gpu:
        yield {"left_out": "CUDA graphs are of a GPU"}
        return
    yield from _modes(check, GRAPHS)


def profile(check: Check) -> Found:
    """The kernels that take most of the time of an update of the fastest way to train."""
    mode, update_tokens, n = COMPILED[0], 16_384, 5
    if not check.is_gpu or (why := check.packing_obstacle()) is not None:
        yield {"left_out": why if check.is_gpu else "kernels are of a GPU"}
        return
    session, updates = check.session(mode, 4 * update_tokens), check.updates(update_tokens)
    for i in range(WARM_UP):
        train_step(session, updates[i])
    check.wait()
    start = time.monotonic()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for i in range(n):
            train_step(session, updates[WARM_UP + i])
        check.wait()
    seconds = time.monotonic() - start
    kernels = sorted(profiler.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    total = sum(kernel.self_device_time_total for kernel in kernels)
    launches = sum(kernel.count for kernel in kernels if kernel.self_device_time_total)
    yield {
        "way": mode.name,
        "update_tokens": update_tokens,
        "kernels_ms": round(total / n / 1000, 2),
        "update_ms": round(1000 * seconds / n, 2),
        "kernels": round(launches / n),
    }
    for kernel in kernels[:25]:
        milliseconds = round(kernel.self_device_time_total / n / 1000, 3)
        yield {"kernel": kernel.key[:110], "ms": milliseconds, "times": round(kernel.count / n)}


def _modes(check: Check, modes: tuple[Mode, ...]) -> Found:
    for mode in modes:
        if mode.layout == "packed" and (why := check.packing_obstacle()) is not None:
            yield {"way": mode.name, "left_out": why}
            continue
        try:
            yield from _speed(check, mode)
        except Exception as error:  # the next may go
            message = " ".join(f"{type(error).__name__}: {error}".split())[:500]
            yield {"way": mode.name, "error": message, "ok": False}


def _speed(check: Check, mode: Mode) -> Found:
    """Target tokens per second of one way to train, at each size of an update."""
    session, start = check.session(mode), time.monotonic()
    train_step(session, check.updates(check.sizes.update_tokens[0])[0])
    check.wait()
    if mode.is_compiled:
        yield {"way": mode.name, "first_update_s": round(time.monotonic() - start, 1)}
    name = torch.cuda.get_device_name() if check.is_gpu else ""
    for update_tokens in check.sizes.update_tokens:
        updates = check.updates(update_tokens)
        here = replace(session, max_tokens=4 * update_tokens)
        for i in range(WARM_UP):
            train_step(here, updates[i])

        def learn(i: int, here: Session = here, updates: list[Update] = updates) -> int:
            return train_step(here, updates[(WARM_UP + i) % len(updates)]).update.n_tokens

        found = rate(check, learn)
        flop = found["tokens_per_s"] * flop_per_token(here.model, here.settings)
        most = peak(name)
        found |= {
            "tflops": round(flop / 1e12, 1),
            "share_of_peak": "unknown" if most is None else round(flop / most, 3),
        }
        yield {"way": mode.name, "update_tokens": update_tokens, **found}
    if mode.is_compiled:
        from torch._dynamo.utils import counters

        yield {"way": mode.name, "graphs_compiled_so_far": counters["stats"]["unique_graphs"]}


def translation(check: Check) -> Found:
    """Sentences per second by size of batch, at most as long as the source: the untrained model hardly ever ends one
    before."""
    model = check.session(Mode("rows")).model.eval()
    lengths = check.pairs.lengths
    rows = lengths.sort(np.arange(check.sizes.n_sentences))
    decode(check, model, rows[:64], SearchConfig())  # to warm up
    for beam in (5, 1):
        for n_sentences, n_tokens in ((512, 16_384), (64, 4096), (1024, 32_768)):
            n_done, start = 0, time.monotonic()
            for part in (part[:n_sentences] for part in lengths.split(rows, n_tokens)):
                if time.monotonic() - start > 2 * check.sizes.seconds:
                    break
                decode(check, model, part, SearchConfig(beam=beam))
                n_done += len(part)
            check.wait()
            rate = n_done / (time.monotonic() - start)
            yield {
                "beam": beam,
                "batch_sentences": n_sentences,
                "batch_tokens": n_tokens,
                "sentences_per_s": round(rate),
            }


def decode(check: Check, model: Model, rows: Indices, settings: SearchConfig) -> None:
    """Search translations of some of the synthetic sentences, in one batch."""
    assert isinstance(model, Transformer), "of a translation run"
    with torch.no_grad():
        prepared = InferenceModel(model, check.precision)
    banned = sent(torch.tensor([i for i in range(N_SPECIAL) if i != EOS]), check.device)
    batch = check.pairs.batch(rows).to(check.device)
    longest = 1000 if settings.max_length_ratio else settings.max_length_offset
    limits = torch.from_numpy(check.pairs.lengths.src[rows].clip(max=longest))
    with torch.inference_mode():
        step = TransformerStep(prepared, batch.src, batch.src_mask, keep_attention=settings.coverage_penalty > 0)
        find_hypotheses(
            step, Rules(banned, limits, settings.min_length, settings.no_repeat_ngram), settings, range(len(rows))
        )
