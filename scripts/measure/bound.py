"""Measure where an update's time goes, and how fast it would be if this machine did nothing but its matrix products.

    python -m scripts.measure.bound [--data FOLDER] [--threads N] [--precision NAME] [--updates N]

The model and the batches are those of `make bench-train`. After a warm-up, updates are timed, then profiled. Every
matrix product of the profile is then repeated alone, with random operands of the same shapes, in the same
library and number format, and the least time of several calls is taken: the sum of these times is the bound. Leave the
machine alone meanwhile: the table has the spread of the updates' times.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from nmt.config.load import load_config
from nmt.data.batching import Update
from nmt.model import transformer
from nmt.model.attention import MultiHeadAttention
from nmt.model.device import float32_library, threads
from nmt.model.dropout import Dropout
from nmt.model.embedding import Embedding
from nmt.model.transformer import FeedForward, SubLayer
from nmt.process import Stop, set_up
from nmt.training import loss
from nmt.training.loop import train_step
from nmt.training.parallel import World
from nmt.training.plan import TrainingPlan, locked
from nmt.training.session import Session
from nmt.training.start import start
from scripts.bench.install import convert
from scripts.bench.peers import PEERS
from scripts.bench.task import MEASURED
from scripts.bench.text import prepare_text

PRODUCTS = {
    "aten::addmm": 1,
    "aten::mm": 0,
    "aten::bmm": 0,
    "aten::baddbmm": 1,
    "aten::addmm_": 1,
    "aten::mkldnn_linear": 0,
}
"""Operators that multiply matrices, and the place of the first of the two matrices among their arguments."""
MARKED: Sequence[tuple[Any, str, str]] = (
    (MultiHeadAttention, "forward", "attention: softmax, masks, heads"),
    (MultiHeadAttention, "cross", "attention: softmax, masks, heads"),
    (transformer, "keys_values_of", "attention: softmax, masks, heads"),
    (FeedForward, "forward", "activation and biases of feed-forward layers"),
    (SubLayer, "before", "norms and residual sums"),
    (SubLayer, "after", "norms and residual sums"),
    (Dropout, "forward", "dropout"),
    (Embedding, "forward", "embeddings"),
    (loss, "fused_loss", "loss: softmax, statistics"),
    (torch.nn.utils, "clip_grad_norm_", "gradient norm"),
)
"""The functions whose operators are counted together, those of the backward pass too; an inner one comes first."""
LABELS = {label for *_, label in MARKED} | {"making batches"}
REPEATS = 7
"""Calls of a product alone, of which the fastest counts."""


class Product(NamedTuple):
    """A matrix product: (batch, rows, inner) times (batch, inner, columns)."""

    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def flop(self) -> int:
        """Floating-point operations."""
        return 2 * self.batch * self.rows * self.inner * self.columns


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("data/multi30k"), help="folder of Multi30k")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--dir", type=Path, default=Path("~/.cache/nmt-peers"), help="of the prepared text")
    options = parser.parse_args()
    if options.updates < 2:
        parser.error("--updates: at least 2")
    torch.set_num_threads(options.threads)
    home = options.dir.expanduser().resolve()
    text = prepare_text(options.data.resolve(), home)
    peer = PEERS["nmt-auto"]
    convert(peer, text, home)
    assert peer.training is not None
    with tempfile.TemporaryDirectory() as scratch:
        words = peer.training.arguments(text, Path(scratch), MEASURED)
        config = load_config(words[words.index("--config") + 1], [f"training.precision={options.precision}"])
        plan = TrainingPlan.of(config, text / "nmt" / "data", Path(scratch) / "run")
        with locked(plan.run, False, lambda work: work()):
            session = start(plan, World(), Stop())
            print(report(session, options.updates), flush=True)
            session.saver.close()


def report(session: Session, n: int) -> str:
    """Train, profile, repeat the products, and return the table."""
    steps = updates(session)
    for _ in range(8):
        take(session, steps)
    seconds, tokens = zip(*(take(session, steps) for _ in range(n)), strict=True)
    with marked(), profile(activities=[ProfilerActivity.CPU], record_shapes=True) as tracing:
        profiled = [take(session, steps) for _ in range(n // 2)]
    traced = sum(second for second, _ in profiled)
    per_update = 1 / len(profiled)
    shares, products = classified(tracing.events(), traced)
    in_update = shares.pop("products")
    dtype = {"bf16": torch.bfloat16}.get(session.precision, torch.float32)
    with threads(session.threads):
        alone = {product: repeated(product, dtype) for product in products}
    bound = per_update * sum(count * alone[product] for product, count in products.items())
    gflop = per_update * sum(count * product.flop for product, count in products.items()) / 1e9
    mean_tokens = statistics.mean(tokens)
    median = statistics.median(seconds)
    quartiles = statistics.quantiles(seconds, n=4)
    lines = [
        f"{session.precision}, products by {float32_library() if dtype == torch.float32 else 'oneDNN'}, "
        f"{session.threads} threads, {mean_tokens:,.0f} target tokens and {gflop:,.0f} GFLOP an update "
        f"({1000 * gflop / mean_tokens:.1f} MFLOP a target token)",
        "",
        "| | ms an update | share | target tokens/s | GFLOP/s |",
        "|---|---|---|---|---|",
        row(f"an update, median (quartiles {1000 * quartiles[0]:.0f} to {1000 * quartiles[2]:.0f})", median, median,
            mean_tokens, gflop),
        row("the same, profiled", traced * per_update, traced * per_update, mean_tokens, gflop),
        row("its products alone: the bound", bound, median, mean_tokens, gflop),
        row("products within the update", in_update * per_update, traced * per_update, None, gflop),
        *(
            row(name, share * per_update, traced * per_update)
            for name, share in sorted(shares.items(), key=lambda item: -item[1])
        ),
        "",
        "| product | calls an update | ms alone | GFLOP/s alone |",
        "|---|---|---|---|",
    ]  # fmt: skip
    by_cost = sorted(products, key=lambda product: -products[product] * alone[product])
    for product in by_cost[:12]:
        b, m, k, n_columns = product
        name = f"{f'{b} × ' if b > 1 else ''}({m:,} × {k:,}) ({k:,} × {n_columns:,})"
        lines.append(
            f"| {name} | {products[product] * per_update:.1f} | {1000 * alone[product]:.2f} | "
            f"{product.flop / alone[product] / 1e9:,.0f} |"
        )
    return "\n".join(lines)


def row(name: str, seconds: float, whole: float, tokens: float | None = None, gflop: float | None = None) -> str:
    """Return a row of the table."""
    rate = "" if tokens is None else f"{tokens / seconds:,.0f}"
    speed = "" if gflop is None else f"{gflop / seconds:,.0f}"
    return f"| {name} | {1000 * seconds:.1f} | {seconds / whole:.0%} | {rate} | {speed} |"


def updates(session: Session) -> Iterator[Update]:
    """Yield updates without end."""
    while True:
        session.load_window()
        yield from session.updates()
        session.end_window()


def take(session: Session, steps: Iterator[Update]) -> tuple[float, int]:
    """Make an update and return its seconds and target tokens."""
    update = next(steps)
    began = time.perf_counter()
    with threads(session.threads):
        train_step(session, update)
    return time.perf_counter() - began, update.n_tokens


@contextmanager
def marked() -> Iterator[None]:
    """Label what the functions of `MARKED` do in a profile."""

    def labelled(function: Callable[..., Any], label: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with record_function(label):
                return function(*arguments, **named)

        return call

    with ExitStack() as patches:
        for owner, name, label in MARKED:
            patches.enter_context(patch.object(owner, name, labelled(getattr(owner, name), label)))
        yield


def classified(events: Sequence[Any], whole: float) -> tuple[dict[str, float], Counter[Product]]:
    """Return the seconds of each class of operators, products among them, and the products with their numbers.

    An operator of the backward pass has the class of the operator of the forward pass with the same sequence number.
    """
    shares: dict[str, float] = defaultdict(float)
    products: Counter[Product] = Counter()
    of_sequence: dict[int, str] = {}
    for event in events:
        if event.sequence_nr >= 0 and not any(BACKWARD in outer.name for outer in outwards(event)):
            of_sequence.setdefault(event.sequence_nr, label_of(event) or "other")
    for event in events:
        around = [*outwards(event)]
        if any(outer.name in PRODUCTS for outer in around[1:]) or event.name == "ProfilerStep":
            continue
        seconds = event.self_cpu_time_total / 1e6
        if event.name in PRODUCTS:
            shares["products"] += event.cpu_time_total / 1e6
            products[shape_of(event)] += 1
            continue
        outermost = next((outer for outer in around if outer.name.startswith(BACKWARD)), None)
        label = label_of(event)
        if label is None and outermost is not None:
            accumulates = "AccumulateGrad" in outermost.name
            label = "gradients of weights, added" if accumulates else of_sequence.get(outermost.sequence_nr)
        shares[label or "other"] += seconds
    shares["Python outside of the rows above"] = whole - sum(shares.values())
    return dict(shares), products


BACKWARD = "autograd::engine::evaluate_function"


def outwards(event: Any) -> Iterator[Any]:
    """Yield an event and those around it."""
    while event is not None:
        yield event
        event = event.cpu_parent


def label_of(event: Any) -> str | None:
    """Return the innermost label around an event, or None."""
    for outer in outwards(event):
        if outer.name in LABELS:
            return str(outer.name)
        if outer.name.startswith("Optimizer.step"):
            return "optimizer"
    return None


def shape_of(event: Any) -> Product:
    """Return the sizes of a product from the shapes of its arguments."""
    first = PRODUCTS[event.name]
    a, b = event.input_shapes[first : first + 2]
    if len(a) == 2:
        return Product(1, a[0], a[1], b[1])
    return Product(a[0], a[1], a[2], b[2])


def repeated(product: Product, dtype: torch.dtype) -> float:
    """Return the seconds of a product alone: the fastest of `REPEATS` calls."""
    batch, rows, inner, columns = product
    a = torch.randn(batch, rows, inner, dtype=dtype)
    b = torch.randn(batch, inner, columns, dtype=dtype)
    call: Callable[[], Any] = (lambda: torch.mm(a[0], b[0])) if batch == 1 else (lambda: torch.bmm(a, b))
    times = []
    with torch.inference_mode():
        for _ in range(REPEATS):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    set_up()
    main()
