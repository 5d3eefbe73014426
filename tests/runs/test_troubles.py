"""Updates that are not finite, alarms, and running out of memory."""

from __future__ import annotations

import json
import math
import re

import pytest
import torch

from fitting import fit, start
from nmt.data.batching import Update, epoch_updates
from nmt.errors import DivergedError, NmtError
from nmt.layout import RunDir
from nmt.runs.checkpoint import load_optimizer, load_weights
from nmt.runs.state import TrainState, saved_steps
from nmt.training import loop, optim
from nmt.training import objective as objective_module
from nmt.training.loop import train_step
from nmt.training.loss import LossSums
from nmt.training.parallel import World
from nmt.training.report.meter import collapse_alarm, loss_alarm
from nmt.training.session import Session
from nmt.training.setup import choices
from nmt.training.setup.objective import make_objective
from tiny_corpus import tiny_settings
from trained import first_update, records

pytestmark = pytest.mark.usefixtures("quick")
NO_DROPOUT = {f"{what}_dropout": 0.0 for what in ("embedding", "residual", "attention", "activation")}


def spoil(monkeypatch: pytest.MonkeyPatch, steps: set[int], factor: float) -> None:
    """Have the loss of these updates (counted from 0) multiplied by something that is not finite."""
    real_step, real_objective, now = loop.train_step, objective_module.token_loss, [0]

    def step(session: Session, update: Update) -> object:
        now[0] = session.state.step
        return real_step(session, update)

    def objective(*arguments: object) -> LossSums:
        sums = real_objective(*arguments)  # type: ignore[arg-type]
        scale = factor if now[0] in steps else 1.0
        return LossSums(sums.loss * scale, sums.nll * scale, sums.divergence, sums.n_correct, sums.n_tokens)

    monkeypatch.setattr(loop, "train_step", step)
    monkeypatch.setattr("nmt.training.objective.token_loss", objective)


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [math.nan, math.inf])
@pytest.mark.parametrize("precision", ["float32", "fp16"])
def test_nonfinite_update_changes_no_weights(tiny_data, text, tmp_path, monkeypatch, precision, factor):
    session = start(tiny_settings(text, training={"precision": precision}), tiny_data, tmp_path / "run", resume=False)
    update = first_update(session)
    train_step(session, update)
    weights = [p.detach().clone() for p in session.model.parameters()]
    moments = [{k: v.clone() for k, v in session.optimizer.state[p].items()} for p in session.model.parameters()]
    scale = session.scaler.get_scale()
    with monkeypatch.context() as patch:
        spoil(patch, {1}, factor)
        outcome = loop.train_step(session, update)
    assert not math.isfinite(outcome.stats.loss) and not math.isfinite(outcome.stats.norm)
    for before, kept, p in zip(weights, moments, session.model.parameters(), strict=True):
        assert torch.equal(before, p)
        assert all(torch.equal(kept[key], value) for key, value in session.optimizer.state[p].items())
    assert session.state.step == 2
    if precision == "fp16":
        assert session.scaler.get_scale() == scale / 2
    train_step(session, update)
    assert all(torch.isfinite(p).all() for p in session.model.parameters())
    assert not all(torch.equal(b, p) for b, p in zip(weights, session.model.parameters(), strict=True))


def test_nonfinite_loss_with_finite_gradient_changes_no_weights(tiny_data, text, tmp_path, monkeypatch):
    """Though its gradient is finite."""
    session = start(tiny_settings(text), tiny_data, tmp_path / "run", resume=False)
    weights = [p.detach().clone() for p in session.model.parameters()]
    real = objective_module.token_loss

    def objective(*arguments: object) -> LossSums:
        sums = real(*arguments)  # type: ignore[arg-type]
        return LossSums(sums.loss + math.inf, sums.nll, sums.divergence, sums.n_correct, sums.n_tokens)

    monkeypatch.setattr("nmt.training.objective.token_loss", objective)
    outcome = train_step(session, first_update(session))
    assert math.isfinite(outcome.stats.norm) and not math.isfinite(outcome.stats.loss)
    assert all(torch.equal(b, p) for b, p in zip(weights, session.model.parameters(), strict=True))


def test_skipped_updates_are_counted_and_logged(tiny_data, text, tmp_path, monkeypatch, capsys):
    config = tiny_settings(text, training={"max_steps": 6, "log_every_steps": 2})
    with monkeypatch.context() as patch:
        spoil(patch, {1, 4}, math.nan)
        fit(config, tiny_data, tmp_path / "run")
    session = start(config, tiny_data, tmp_path / "run", resume=True)
    settings = config.training
    updates = epoch_updates(session.pairs.lengths, settings.update_tokens, settings.seed, 0)
    skipped = records(tmp_path / "run", "skipped")
    assert [record["step"] for record in skipped] == [2, 5]
    assert [record["rows"] for record in skipped] == [
        sorted(updates[1].rows.tolist()),
        sorted(updates[4].rows.tolist()),
    ]
    assert session.state.n_skipped == 2 and session.state.skipped_in_a_row == 0
    train = records(tmp_path / "run", "train")
    assert [record["n_skipped"] for record in train] == [1, 1, 2]
    assert all(math.isfinite(value) for record in train for value in record.values() if isinstance(value, float))
    assert f"step 2: loss or gradient is not finite, so the update of {len(updates[1].rows)} pairs is skipped" in (
        capsys.readouterr().err
    )


def test_too_many_skipped_updates_in_a_row_raise(tiny_data, text, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.training.report.meter.MAX_SKIPPED_IN_A_ROW", 4)
    spoil(monkeypatch, {1, 2, 3, 5, 6, 7, 8, 9}, math.nan)
    advice = r"4 updates in a row was not finite at step 9; start another run with a lower .*precision float32"
    with pytest.raises(DivergedError, match=advice):
        fit(tiny_settings(text), tiny_data, tmp_path / "run")
    assert DivergedError.exit_status == 3
    weights = load_weights(RunDir(tmp_path / "run").step(6))
    moments = load_optimizer(RunDir(tmp_path / "run").step(6))
    assert all(torch.isfinite(tensor).all() for tensor in (*weights.values(), *moments.values()))


def test_loss_alarm_warns_once_per_climb():
    state = TrainState()
    losses = [6.0, 4.0, 3.0, 3.2, 3.9, 4.5, 5.0, 3.1, 2.9, 6.0]
    said = [loss_alarm(state, loss, n_updates=500) for loss in losses]
    assert [i for i, message in enumerate(said) if message] == [5, 9]
    assert "from 3.00 to 4.50" in said[5]
    state = TrainState()  # single noisy updates are no climb
    assert [loss_alarm(state, loss, n_updates=1) for loss in [3.0, 5.0] * 30] == [None] * 60


@pytest.mark.parametrize(
    ("translations", "found"),
    [
        (["", " ", "", "a b"], "3 of 4 translations of the development set are empty"),
        (
            ["so it is", "so it is", "so it is", "no"],
            "3 of 4 translations of the development set are the same: 'so it is'",
        ),
        (["a b " * 9, "the " * 8 + "cat", "I I I I I I you I", "no"], "3 of 4 translations .* repeat a word or two"),
        (["a cat", "a dog", "", "no no no"], None),
        (["the dog and the cat and the bird and the fish"] * 2 + ["x", "y"], None),
    ],
)
def test_collapse_alarm_warns_of_empty_equal_or_repetitive_translations(translations, found):
    message = collapse_alarm(["s1", "s2", "s3", "s4"], translations)
    assert re.search(found, message or "") if found else message is None
    assert collapse_alarm(["s", "s", "s", "t"], ["so", "so", "so", "no"]) is None


# --- memory -------------------------------------------------------------------------------------


class Scarce:
    """Has a forward pass fail that is larger than there is memory for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit: int, error: type[BaseException] | None = None) -> None:
        self.sizes: list[int] = []
        real = objective_module.token_loss

        def objective(model: object, batch: object, *others: object) -> LossSums:
            size = batch.src.shape[0] * max(batch.src.shape[1], batch.tgt_in.shape[1])  # type: ignore[attr-defined]
            self.sizes.append(size)
            sums = real(model, batch, *others)  # type: ignore[arg-type]
            if size > limit:
                sums.loss.backward()  # the gradients of a failed attempt must not stay
                raise error("…") if error else RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")
            return sums

        monkeypatch.setattr("nmt.training.objective.token_loss", objective)


@pytest.mark.parametrize("layout", ["padded", "packed"])
@pytest.mark.parametrize("error", [None, torch.OutOfMemoryError, MemoryError])
def test_out_of_memory_halves_micro_batches(tiny_data, text, tmp_path, monkeypatch, layout, error):
    monkeypatch.setattr(choices, "pick_layout", lambda *_: layout)
    config = tiny_settings(text, model=NO_DROPOUT, training={"max_tokens": 5000})
    plenty = start(config, tiny_data, tmp_path / "plenty", resume=False)
    scarce = start(config, tiny_data, tmp_path / "scarce", resume=False)
    update = first_update(plenty)
    expected = train_step(plenty, update).stats
    with monkeypatch.context() as patch:
        memory_of, freed = Scarce(patch, limit=100, error=error), []
        patch.setattr(loop, "free_memory", lambda: freed.append(1))
        outcome = train_step(scarce, update)
    tried = [size for size in memory_of.sizes if size > 100]
    assert len(tried) == len(freed) == int(outcome.stats.n_out_of_memory) >= 2 and tried == sorted(tried, reverse=True)
    for name in ("loss", "nll", "n_correct"):
        torch.testing.assert_close(getattr(outcome.stats, name), getattr(expected, name), rtol=1e-5, atol=1e-5)
    for a, b in zip(plenty.model.parameters(), scarce.model.parameters(), strict=True):
        exp_avg = plenty.optimizer.state[a]["exp_avg"], scarce.optimizer.state[b]["exp_avg"]
        torch.testing.assert_close(*exp_avg, rtol=1e-4, atol=1e-7)
    assert scarce.max_tokens == 5000, "the next update is tried whole again"


def test_single_pair_out_of_memory_raises(tiny_data, text, tmp_path, monkeypatch):
    session = start(tiny_settings(text), tiny_data, tmp_path / "run", resume=False)
    with monkeypatch.context() as patch:
        Scarce(patch, limit=0)
        with pytest.raises(NmtError, match="not enough memory for a single pair"):
            train_step(session, first_update(session))
    with monkeypatch.context() as patch:
        Scarce(patch, limit=0, error=ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            train_step(session, first_update(session))
    monkeypatch.setattr("nmt.training.objective.token_loss", lambda *_: torch.zeros(2) @ torch.zeros(3))
    with pytest.raises(RuntimeError, match="size"):
        train_step(session, first_update(session))


@pytest.mark.parametrize(
    ("place", "error", "said", "steps"),
    [
        ("nmt.training.validate.cross_entropy", torch.OutOfMemoryError(),
         r"run: not enough memory; lower training\.max_tokens or search\.batch_tokens", [3, 6]),
        ("nmt.training.optim.Adam.step", RuntimeError("CUDA error: out of memory"), "run: not enough memory", []),
    ],
)  # fmt: skip
def test_out_of_memory_in_validation_or_optimizer_raises(
    tiny_data, text, tmp_path, monkeypatch, place, error, said, steps
):
    monkeypatch.setattr(place, failing(error))
    with pytest.raises(NmtError, match=said):
        fit(tiny_settings(text), tiny_data, tmp_path / "run")
    assert saved_steps(RunDir(tmp_path / "run")) == steps


def failing(error: Exception):
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("float32", torch.float32)])
def test_muon_multiplies_in_the_precision_of_the_run(tiny_data, text, tmp_path, precision, dtype):
    config = tiny_settings(text, training={"optimizer": "muon", "precision": precision})
    optimizer = start(config, tiny_data, tmp_path / "run", resume=False).optimizer
    assert isinstance(optimizer, optim.Muon) and optimizer.dtype == dtype


@pytest.mark.parametrize(
    ("device", "n_processes", "wanted"), [("cuda", 1, "auto"), ("cuda", 2, 8192), ("cpu", 1, 8192)]
)
def test_default_max_tokens_by_device(device, n_processes, wanted):
    assert choices.default_max_tokens(torch.device(device), n_processes) == wanted


def test_auto_max_tokens_grows_with_free_memory(tiny_data, text, tmp_path, monkeypatch):
    config = tiny_settings(text, training={"max_tokens": "auto", "max_steps": 3, "update_tokens": 3000})
    found = {}
    for name, free in (("little", 40e6), ("middling", 80e6), ("more", 120e6), ("plenty", 2**40)):
        monkeypatch.setattr(choices, "free_bytes", lambda _, free=free: free)
        found[name] = start(config, tiny_data, tmp_path / name, resume=False).max_tokens
    assert 100 < found["little"] < found["middling"] < found["more"] < found["plenty"] == 4 * 3000
    # what weights and gradients take, whatever the micro-batch, differs between libraries of matrix products
    assert found["more"] - found["middling"] == pytest.approx(found["middling"] - found["little"], rel=0.05)

    def probing(*_: object) -> int:
        raise AssertionError("resuming never probes")

    monkeypatch.setattr("nmt.training.setup.choices.pick_max_tokens", probing)
    assert start(config, tiny_data, tmp_path / "middling", resume=True).max_tokens == found["middling"]
    assert json.loads(RunDir(tmp_path / "middling").info.read_text())["auto_max_tokens"] == found["middling"]


def test_pass_bytes_grow_with_tokens_and_passes(tiny_data, text, tmp_path):
    """Twice as many tokens keep about twice as much."""
    session = start(tiny_settings(text), tiny_data, tmp_path / "run", resume=False)
    longest, found = session.pairs.lengths.longest(40), []
    for consistency in ("none", "rdrop"):  # the second with a second pass
        objective = make_objective(
            tiny_settings(text, training={"consistency": consistency}), session.training_objective.tokenizers
        )
        parts = [(session.pairs, longest[:n]) for n in (20, 40)]
        one, two = (choices.pass_bytes(objective, session.model, *part, "float32", session.device) for part in parts)
        assert 1.5 * one < two < 2.5 * one
        found.append(two)
    assert 1.6 * found[0] < found[1]


def test_ranks_draw_different_dropout_and_share_update(tiny_data, text, tmp_path, monkeypatch):
    session = start(tiny_settings(text), tiny_data, tmp_path / "run", resume=False)
    seeds, real = [], objective_module.token_loss
    monkeypatch.setattr("nmt.training.objective.token_loss", lambda *a: seeds.append(torch.initial_seed()) or real(*a))
    update, nll = first_update(session), 0.0
    for step in (0, 1):
        for rank in (0, 1):
            session.world, session.state.step = World(rank=rank, size=2), step
            nll += float(loop.accumulate_gradients(session, update).nll)
    assert len(set(seeds)) == 4
    first = math.log(330) + 0.5  # of logits with a variance of one
    assert nll / (2 * update.n_tokens) == pytest.approx(first, abs=0.2)  # all tokens, once a step


def test_out_of_memory_in_probe_leaves_micro_batches_of_one_pair(tiny_data, text, tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "pass_bytes", failing(RuntimeError("CUDA error: out of memory")))
    config = tiny_settings(text, training={"max_tokens": "auto"})
    session = start(config, tiny_data, tmp_path / "run", resume=False)
    assert session.max_tokens == session.pairs.lengths.max()
