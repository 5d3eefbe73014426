"""The training loop: what it learns, what it keeps, how it goes on and how it ends."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from kept_run import Died, die_before, resumable_steps
from nmt.config import Config
from nmt.config.load import load_config
from nmt.data.updates import BatchPlan, epoch_updates
from nmt.errors import CheckpointError, ConfigError, DataError, DivergedError, NmtError
from nmt.layout import RunDir
from nmt.model.precision import use_float32_library
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import load_weights, saved_steps
from nmt.runs.state import load_state
from nmt.runs.weights import choose_weights
from nmt.training import loop
from nmt.training import objective as objectives
from nmt.training.loop import fit, train_step
from nmt.training.objective import cross_entropy
from nmt.training.report.log import Board, TrainingLog
from nmt.training.report.meter import Meter
from nmt.training.saving import save
from nmt.training.setup import choices as choices_module
from nmt.training.setup.start import Session, start
from screen import rows, terminal
from tiny_corpus import tiny_settings, tiny_text
from tiny_run import licensed
from trained import first_update, records, score, session_of

pytestmark = pytest.mark.usefixtures("quick")
TIMES = ("minutes", "tokens_per_second")


@pytest.fixture
def text(tiny_data: Path) -> Path:
    return tiny_data.parent / "text"


def final_weights(run: Path) -> dict[str, torch.Tensor]:
    return load_weights(RunDir(run).step(saved_steps(RunDir(run))[-1]))


def die_after(steps: int, monkeypatch: pytest.MonkeyPatch, config: Config, data: Path, run: Path) -> None:
    """Train, and die without a word once so many steps are done."""
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_before(steps, patch)
        fit(config, data, run)


@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
def test_stopped_and_resumed_equals_never_stopped(tiny_data, text, tmp_path, monkeypatch, precision):
    """With micro-batches, all dropouts, in the middle of an epoch and two steps after the last checkpoint."""
    config = tiny_settings(text, training={"precision": precision})
    fit(config, tiny_data, tmp_path / "whole")
    die_after(8, monkeypatch, config, tiny_data, tmp_path / "parts")
    assert saved_steps(RunDir(tmp_path / "parts"))[-1] == 6
    fit(config, tiny_data, tmp_path / "parts", resume=True)
    whole, parts = final_weights(tmp_path / "whole"), final_weights(tmp_path / "parts")
    assert whole.keys() == parts.keys() and all(torch.equal(whole[name], parts[name]) for name in whole)
    assert records(tmp_path / "whole") == records(tmp_path / "parts")


@pytest.fixture
def _library_of_before():
    yield
    use_float32_library("mkl")


@pytest.mark.usefixtures("_library_of_before")
@pytest.mark.parametrize(("recorded", "kept"), [("onednn", "onednn"), (None, "mkl")])
def test_a_run_keeps_the_library_of_its_products(tiny_data, text, tmp_path, monkeypatch, recorded, kept):
    """Also one of before there was a choice, which was MKL's."""
    monkeypatch.setattr(choices_module, "pick_float32_library", lambda *_: "onednn")
    fit(tiny_settings(text, training={"max_steps": 3}), tiny_data, tmp_path / "run")
    assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"  # by which PyTorch lets oneDNN multiply
    info = RunDir(tmp_path / "run").info
    content = json.loads(info.read_text())
    assert content.pop("float32_library") == "onednn"
    info.write_text(json.dumps(content | ({"float32_library": recorded} if recorded else {})))
    monkeypatch.setattr(choices_module, "pick_float32_library", lambda *_: pytest.fail("it was chosen before"))
    fit(tiny_settings(text, training={"max_steps": 6}), tiny_data, tmp_path / "run", resume=True)
    assert json.loads(info.read_text())["float32_library"] == kept
    assert torch.backends.mkldnn.matmul.fp32_precision == {"onednn": "bf16", "mkl": "none"}[kept]


def test_a_run_that_died_before_its_first_checkpoint_starts_over(tiny_data, text, tmp_path, monkeypatch):
    config = tiny_settings(text)
    fit(config, tiny_data, tmp_path / "whole")
    die_after(2, monkeypatch, config, tiny_data, tmp_path / "parts")
    fit(config, tiny_data, tmp_path / "parts", resume=True)
    assert records(tmp_path / "whole") == records(tmp_path / "parts")


def test_a_finished_run_says_so_and_can_be_prolonged(tiny_data, text, tmp_path, capsys):
    fit(tiny_settings(text, training={"max_steps": 6}), tiny_data, tmp_path / "run")
    before = RunDir(tmp_path / "run").log.read_bytes()
    capsys.readouterr()
    fit(tiny_settings(text, training={"max_steps": 6}), tiny_data, tmp_path / "run", resume=True)
    assert "finished at step 6, training.max_steps = 6 reached" in capsys.readouterr().err
    assert RunDir(tmp_path / "run").log.read_bytes() == before
    fit(tiny_settings(text), tiny_data, tmp_path / "run", resume=True)
    assert "schedule" not in capsys.readouterr().err
    fit(tiny_settings(text), tiny_data, tmp_path / "whole")
    longer, whole = final_weights(tmp_path / "run"), final_weights(tmp_path / "whole")
    assert all(torch.equal(whole[name], longer[name]) for name in whole)


def test_a_config_that_says_otherwise_than_its_data_is_told(tiny_data, text, tmp_path, capsys):
    prepare(tiny_settings(text), tmp_path / "data", tokenizer_from=tiny_data, echo=lambda _: None)
    short = {"max_steps": 1}
    for number, data in enumerate((tiny_data, tmp_path / "data")):
        fit(tiny_settings(text, training=short), data, tmp_path / f"run{number}")
    assert "is used as it was prepared" not in capsys.readouterr().err
    other = tiny_settings(text, training=short, tokenizer={"vocab_size": 310}, data={"max_chars": 500})
    fit(other, tiny_data, tmp_path / "other")
    said = f"warning: {tiny_data} is used as it was prepared: data.max_chars was 1000, is 500 in the config"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("schedule", "idle", "counts"), [("noam", "peak_lr", "factor"), ("cosine", "factor", "peak_lr")]
)
def test_a_learning_rate_that_counts_for_nothing_is_told(tiny_data, text, tmp_path, capsys, schedule, idle, counts):
    short = {"max_steps": 2, "warmup_steps": 1, "schedule": schedule}
    fit(tiny_settings(text, training={**short, counts: 0.002}), tiny_data, tmp_path / "as it is")
    assert "has no effect" not in capsys.readouterr().err
    fit(tiny_settings(text, training={**short, idle: 0.002}), tiny_data, tmp_path / "run")
    said = f"training.{idle} = 0.002 has no effect: the {schedule} schedule uses training.{counts}\n"
    assert said in capsys.readouterr().err


def test_a_tokenized_development_set_is_told(tiny_data, text, tmp_path, capsys):
    fit(tiny_settings(text, training={"max_steps": 1}), tiny_data, tmp_path / "as it is")
    said = "the development set looks tokenised: "
    assert said not in capsys.readouterr().err
    shutil.copytree(text, tmp_path / "text")
    for path in (tmp_path / "text").glob("dev.*"):
        path.write_text(path.read_text(encoding="utf-8").replace("\n", " .\n"), encoding="utf-8")
    config = tiny_settings(tmp_path / "text", training={"max_steps": 1})
    prepare(config, tmp_path / "data", echo=lambda _: None)
    fit(config, tmp_path / "data", tmp_path / "tokenised")
    assert said in capsys.readouterr().err


def test_a_schedule_that_ends_at_max_steps_is_told_to_have_changed(tiny_data, text, tmp_path, capsys):
    settings = {"schedule": "cosine", "warmup_steps": 2}
    fit(tiny_settings(text, training={**settings, "max_steps": 3}), tiny_data, tmp_path / "run")
    fit(tiny_settings(text, training={**settings, "max_steps": 6}), tiny_data, tmp_path / "run", resume=True)
    assert "the cosine schedule now falls to 0 at training.max_steps = 6: the learning rate" in capsys.readouterr().err


def test_dropout_is_another_in_every_step_and_for_every_seed(tiny_data, text, tmp_path, monkeypatch):
    seeds = []
    real = objectives.objective
    monkeypatch.setattr("nmt.training.objective.objective", lambda *a: seeds.append(torch.initial_seed()) or real(*a))
    for seed in (1, 2):
        session = session_of(tiny_data, text, tmp_path / f"run{seed}", seed=seed, max_tokens=5000)
        for _ in range(3):
            train_step(session, first_update(session))
    assert len(set(seeds)) == len(seeds) == 6


def test_one_micro_batch_or_many_give_the_same_gradient(tiny_data, text, tmp_path):
    """Sums divided once by the tokens of the whole update: no micro-batch weighs more than its tokens do."""
    outcomes = []
    for name, max_tokens in (("one", 5000), ("many", 101)):
        session = session_of(tiny_data, text, tmp_path / name, max_tokens=max_tokens, clip_norm=0.0, update_tokens=900)
        update = first_update(session)
        stats = train_step(session, update).stats
        moments = [session.optimizer.state[p]["exp_avg"] for p in session.model.parameters()]
        n_micro_batches = len(list(session.pairs.lengths.split(update.rows, max_tokens)))
        outcomes.append((n_micro_batches, stats, moments))
    (n_one, stats_one, one), (n_many, stats_many, many) = outcomes
    assert n_one == 1 and n_many >= 8
    for name in ("loss", "nll", "n_correct", "gradient_norm"):
        assert float(getattr(stats_one, name)) == pytest.approx(float(getattr(stats_many, name)), rel=1e-5)
    for x, y in zip(one, many, strict=True):
        torch.testing.assert_close(x, y, atol=1e-7, rtol=1e-4)


def test_clipping_bounds_the_gradient_that_adam_sees(tiny_data, text, tmp_path):
    session = session_of(tiny_data, text, tmp_path / "run", clip_norm=0.01)
    norm = float(train_step(session, first_update(session)).stats.gradient_norm)
    clipped = sum(
        float((session.optimizer.state[p]["exp_avg"] / 0.1).square().sum()) for p in session.model.parameters()
    )
    assert norm > 0.01
    assert math.sqrt(clipped) == pytest.approx(0.01, rel=1e-3)


def test_thirty_two_pairs_are_learned_by_heart(tmp_path):
    tiny_text(tmp_path / "text", n_train=32)
    for language in ("aa", "bb"):
        train = (tmp_path / "text" / f"train.{language}").read_text(encoding="utf-8")
        (tmp_path / "text" / f"dev.{language}").write_text(train, encoding="utf-8")
    config = tiny_settings(
        tmp_path / "text",
        # a training pair that stands in the development set would be removed, so that set is read as another's
        data={"valid": {"files": {"aa": "test.aa", "bb": "test.bb"}}, "test": {}},
        model={"d_model": 64, "d_ff": 128, "n_heads": 4, "embedding_dropout": 0.0, "residual_dropout": 0.0,
               "attention_dropout": 0.0, "activation_dropout": 0.0},
        training={"label_smoothing": 0.0, "schedule": "constant", "peak_lr": 3e-3, "warmup_steps": 20, "max_steps": 150,
                  "max_tokens": 2000, "update_tokens": 1000, "validate_every_steps": 150, "average_last": 1,
                  "log_every_steps": 50, "save_every_steps": 150},
        search={"max_length": 0},
    )  # fmt: skip
    prepare(config, tmp_path / "data", echo=lambda _: None)
    fit(config, tmp_path / "data", tmp_path / "run")
    assert records(tmp_path / "run", "train")[-1]["accuracy"] > 0.99
    from nmt.evaluate.metrics import corpus_score
    from nmt.translate.translator import Translator

    src, tgt = ((tmp_path / "text" / f"dev.{lang}").read_text(encoding="utf-8").splitlines() for lang in ("aa", "bb"))
    hyps = [best[0].text for best in Translator.load(tmp_path / "run").translate_lines(src)]
    assert corpus_score("bleu", hyps, tgt).value > 95


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_steps": 5}, "training.max_steps = 5 reached after 5 steps"),
        ({"max_epochs": 2}, "training.max_epochs = 2 reached after"),
        ({"max_minutes": 1e-4}, "training.max_minutes = 0.0001 reached after 1 steps"),
        ({"patience": 1, "max_steps": 60, "validate_every_steps": 1, "peak_lr": 1e-12, "schedule": "constant"},
         "training.patience = 1 validations without a new best reached after"),
    ],
)  # fmt: skip
def test_every_limit_ends_the_run_with_a_validated_checkpoint(tiny_data, text, tmp_path, capsys, limit, reason):
    fit(tiny_settings(text, training={"max_steps": 500, **limit}), tiny_data, tmp_path / "run")
    assert reason in capsys.readouterr().err
    last = saved_steps(RunDir(tmp_path / "run"))[-1]
    assert records(tmp_path / "run", "valid")[-1]["step"] == last
    if "max_epochs" in limit:
        assert load_state(RunDir(tmp_path / "run").step(last)).epoch == 2


def test_what_a_run_leaves_behind(tiny_data, text, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.training.report.log.Board", Board)  # not so quickly
    run = RunDir(tmp_path / "run")
    fit(tiny_settings(text), tiny_data, run.path)
    assert sorted(path.name for path in run.path.iterdir()) == [
        "checkpoints", "config.yaml", "dev", "lock", "log.jsonl", "run.json", "selected.json", "tensorboard",
        "tokenizer",
    ]  # fmt: skip
    train, valid = records(run.path, "train"), records(run.path, "valid")
    assert [record["step"] for record in train] == list(range(1, 13))
    assert [record["step"] for record in valid] == [6, 12]
    for record in train:
        assert 0 < record["lr"] < 0.2 and record["gradient_norm"] > 0 and 0 <= record["padding_share"] < 0.5
        assert 0 <= record["accuracy"] <= 1 and record["perplexity"] > 1
        assert math.exp(record["nll"]) == pytest.approx(record["perplexity"]) and record["loss"] != record["nll"]
    assert all(record["nll"] == record["loss"] for record in valid)
    speeds = [json.loads(line).get("tokens_per_second", 1.0) for line in run.log.read_text().splitlines()]
    assert all(0 < speed < 1e7 for speed in speeds)
    assert len((run.dev / "step-00000012.bb").read_text(encoding="utf-8").splitlines()) == 12

    board = EventAccumulator(str(run.tensorboard)).Reload()
    tags = board.Tags()
    assert {"train/loss", "train/perplexity", "train/accuracy", "train/lr", "train/gradient_norm",
            "train/tokens_per_second", "train/padding_share", "valid/bleu", "valid/loss",
            "train/nll", "valid/nll"} <= set(tags["scalars"])  # fmt: skip
    assert tags["images"] == ["valid/attention"]
    assert [image.step for image in board.Images("valid/attention")] == [6, 12]
    assert board.Scalars("train/loss")[-1].value == pytest.approx(train[-1]["loss"])
    texts = board.Tensors("valid/translations/text_summary")
    assert b"| source | reference | translation |" in texts[-1].tensor_proto.string_val[0]


def test_the_best_survives_a_worse_check_and_old_checkpoints_go(tiny_data, text, tmp_path, monkeypatch):
    score(monkeypatch, 10.0, 30.0, 20.0, 5.0, 6.0, 7.0, 0.0)
    run = RunDir(tmp_path / "run")
    config = tiny_settings(text, training={"validate_every_steps": 2, "save_every_steps": 2})
    fit(config, tiny_data, run.path)
    assert saved_steps(run) == [4, 8, 10, 12]
    assert resumable_steps(run) == [10, 12]
    chosen = choose_weights(run, config.training)
    assert (chosen.step, chosen.kind) == (4, "raw")
    assert chosen.reason == "best checkpoint, step 4, bleu 30 on the development set"
    state = load_state(run.step(12))
    assert (state.best_step, state.best_score, state.checks_since_best) == (4, 30.0, 4)


@pytest.mark.parametrize(("select_by", "better"), [("bleu", max), ("chrf", max), ("loss", min)])
def test_the_best_is_by_bleu_chrf_or_loss(tiny_data, text, tmp_path, select_by, better):
    fit(tiny_settings(text, training={"select_by": select_by, "validate_every_steps": 3, "average_last": 1}),
        tiny_data, tmp_path / "run")  # fmt: skip
    valid = records(tmp_path / "run", "valid")
    best = better(record[select_by] for record in valid)
    state = load_state(RunDir(tmp_path / "run").step(12))
    assert state.best_step == next(record["step"] for record in valid if record[select_by] == best)


def test_the_average_of_the_last_is_validated_and_may_win(tiny_data, text, tmp_path):
    run = RunDir(tmp_path / "run")
    config = tiny_settings(text, training={"select_by": "loss"})
    fit(config, tiny_data, run.path)
    (average,) = records(run.path, "average")
    best = min(record["loss"] for record in records(run.path, "valid"))
    tensors = [load_weights(run.step(step)) for step in (9, 12)]
    stored = choose_weights(run, config.training, weights="average")
    for name, tensor in stored.tensors.items():
        torch.testing.assert_close(tensor, (tensors[0][name] + tensors[1][name]) / 2)
    assert choose_weights(run, config.training).kind == ("average" if average["loss"] < best else "raw")


def test_a_directory_with_something_in_it_is_not_trained_into(tiny_data, text, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "thesis.txt").write_text("mine")
    with pytest.raises(
        CheckpointError, match=r"run: exists already, but is not a run directory; name another directory with --run"
    ):
        fit(tiny_settings(text), tiny_data, run)
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "thesis.txt"]


def test_resume_without_a_run(tiny_data, text, tmp_path):
    with pytest.raises(CheckpointError, match=r"nothing: no run to resume; leave out --resume to start a new one"):
        fit(tiny_settings(text), tiny_data, tmp_path / "nothing", resume=True)
    assert list(tmp_path.iterdir()) == []


def test_what_may_not_change_when_a_run_goes_on(tiny_data, text, tmp_path):
    fit(tiny_settings(text, training={"max_steps": 3}), tiny_data, tmp_path / "run")
    other = tiny_settings(text, model={"d_ff": 65}, training={"seed": 2, "max_steps": 9})
    with pytest.raises(ConfigError) as caught:
        fit(other, tiny_data, tmp_path / "run", resume=True)
    assert len(caught.value.problems) == 2
    assert "model.d_ff cannot change when a run is resumed" in caught.value.problems[0]
    assert "training.seed cannot change when a run is resumed" in caught.value.problems[1]
    search = {"batch_sentences": 7, "batch_tokens": 100}  # changes no result
    settings = licensed(tiny_settings(text, training={"max_steps": 4}, search=search))
    fit(settings, tiny_data, tmp_path / "run", resume=True)
    assert load_config(tmp_path / "run" / "config.yaml").data.train == settings.data.train, "as it is stated now"


def other_data(text: Path, folder: Path, **changes: dict[str, object]) -> tuple[Config, Path]:
    config = tiny_settings(text, **changes)
    prepare(config, folder, echo=lambda _: None)
    return config, folder


def test_resume_with_another_tokenizer_or_text(tiny_data, text, tmp_path):
    config = tiny_settings(text, training={"max_steps": 3})
    fit(config, tiny_data, tmp_path / "run")
    _, data = other_data(text, tmp_path / "other", tokenizer={"vocab_size": 300})
    with pytest.raises(DataError, match=r"other: its tokenizer is not the one that .*run was trained with"):
        fit(config, data, tmp_path / "run", resume=True)
    tiny_text(tmp_path / "text", n_train=150)
    same_tokenizer = tiny_settings(tmp_path / "text")
    prepare(same_tokenizer, tmp_path / "more", tokenizer_from=tmp_path / "run", echo=lambda _: None)
    with pytest.raises(DataError, match=r"more: its text is not the one that .*run was trained on"):
        fit(config, tmp_path / "more", tmp_path / "run", resume=True)


def test_data_of_another_language_pair(tiny_data, text, tmp_path):
    names = {"aa": "train.aa", "cc": "train.bb"}
    config = tiny_settings(
        text, data={"direction": "aa-cc", "train": [{"files": names}], "valid": {"files": names}, "test": {}}
    )
    with pytest.raises(DataError, match=r"data: holds aa and bb, but data.direction = aa-cc needs aa and cc"):
        fit(config, tiny_data, tmp_path / "run")


def test_a_micro_batch_needs_room_for_the_longest_sentence(tiny_data, text, tmp_path):
    config = tiny_settings(text, data={"max_pieces": 5}, training={"max_tokens": 6})
    with pytest.raises(ConfigError, match=r"training.max_tokens: 6 is too small for a sentence of \d+ pieces"):
        fit(config, tiny_data, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_either_direction_trains_on_one_data_directory(tiny_data, text, tmp_path):
    fit(tiny_settings(text, data={"direction": "bb-aa"}, training={"max_steps": 3}), tiny_data, tmp_path / "back")
    assert len((tmp_path / "back" / "dev" / "step-00000003.aa").read_text(encoding="utf-8").splitlines()) == 12


def test_with_bpe_dropout_every_epoch_has_other_pieces_and_validation_has_none(tiny_data, text, tmp_path):
    changes = {"src_bpe_dropout": 0.3, "tgt_bpe_dropout": 0.3}
    plain = session_of(tiny_data, text, tmp_path / "plain")
    session = session_of(tiny_data, text, tmp_path / "run", **changes)
    rows, seen = np.arange(20), []
    for epoch in (0, 1, 0):
        session.state.epoch = epoch
        session.load_window()
        seen.append(session.batch(rows).tgt_out)
        assert session.n_epoch_tokens > 1.1 * plain.n_epoch_tokens
    assert seen[0].shape != seen[1].shape or not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[0], seen[2])
    assert session.validator.pairs.lengths.tgt.sum() == plain.validator.pairs.lengths.tgt.sum()


def test_the_tokens_of_an_update_are_those_of_its_epoch(tiny_data, text, tmp_path):
    fit(tiny_settings(text, training={"tgt_bpe_dropout": 0.3, "max_steps": 3}), tiny_data, tmp_path / "run")
    session = session_of(tiny_data, text, tmp_path / "other", tgt_bpe_dropout=0.3)
    session.load_window()
    plan = BatchPlan(300, session.config.training.pool_pairs, session.config.training.seed)
    updates = epoch_updates(session.pairs.lengths, plan, 0)[:3]
    for update in updates:
        batch = session.batch(update.rows)
        assert update.n_tokens == batch.n_tokens == int((batch.tgt_out != 0).sum())
    state = load_state(RunDir(tmp_path / "run").step(3))
    assert state.n_tokens == sum(update.n_tokens for update in updates)


def test_both_directions_are_learned_by_one_model(tiny_data, text, tmp_path):
    session = session_of(tiny_data, text, tmp_path / "run", both_directions=True)
    n = len(session.pairs) // 2
    one, other = session.batch(np.array([3])), session.batch(np.array([n + 3]))
    assert one.src.tolist() == other.tgt_out.tolist() and one.tgt_out.tolist() == other.src.tolist()
    assert len(session.pairs) == 2 * len(session_of(tiny_data, text, tmp_path / "one").pairs)


def test_the_development_loss_is_without_smoothing_and_without_dropout(tiny_data, text, tmp_path, monkeypatch):
    config = tiny_settings(text, model={"residual_dropout": 0.5})
    session = start(config, tiny_data, tmp_path / "run", resume=False)
    screen = terminal(monkeypatch)
    found = session.validator.validate(session.model)
    assert any("% validating: " in row for row in rows(screen))
    assert session.model.training
    session.model.eval()
    pairs = session.validator.pairs
    with torch.no_grad():
        sums = cross_entropy(session.model, pairs.batch(np.arange(len(pairs))), label_smoothing=0.0)
    assert found.loss == pytest.approx(sums.loss_per_token, rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(found.loss), rel=1e-5)


def test_a_best_off_the_save_interval_is_saved(tiny_data, text, tmp_path, monkeypatch):
    score(monkeypatch, 10.0, 30.0, 20.0, 20.0, 20.0, 20.0)
    config = tiny_settings(text, training={"validate_every_steps": 2, "save_every_steps": 5, "average_last": 1})
    fit(config, tiny_data, tmp_path / "run")
    run = RunDir(tmp_path / "run")
    assert saved_steps(run) == [4, 8, 10, 12]
    assert choose_weights(run, config.training).step == 4


def test_work_is_saved_before_a_validation_that_fails(tiny_data, text, tmp_path, monkeypatch):
    def failing(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(loop, "check", failing)
    with pytest.raises(NmtError, match="not enough memory"):
        fit(tiny_settings(text), tiny_data, tmp_path / "run")
    assert saved_steps(RunDir(tmp_path / "run")) == [3, 6]


@pytest.mark.parametrize(("average_bleu", "kind"), [(31.0, "average"), (29.0, "raw")])
def test_the_average_is_taken_if_and_only_if_it_is_better(tiny_data, text, tmp_path, monkeypatch, average_bleu, kind):
    score(monkeypatch, 30.0, 20.0, average_bleu)
    config = tiny_settings(text)
    fit(config, tiny_data, tmp_path / "run")
    chosen = choose_weights(RunDir(tmp_path / "run"), config.training)
    assert (chosen.kind, chosen.step) == (kind, 12 if kind == "average" else 6)
    best = "best checkpoint, step 6, bleu 30 on the development set"
    both = f"average of the checkpoints at steps 9, 12, bleu 31 on the development set; not averaged: {best}"
    assert chosen.reason == (both if kind == "average" else best)


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tiny_data, text, tmp_path, monkeypatch, capsys):
    config = tiny_settings(text)
    fit(config, tiny_data, tmp_path / "whole")
    die_after(8, monkeypatch, config, tiny_data, tmp_path / "parts")
    run = RunDir(tmp_path / "parts")
    run.step(6).optimizer.write_bytes(b"")
    with run.log.open("a") as log:
        log.write('{"kind": "train", "st')  # torn by the same accident
    fit(config, tiny_data, run.path, resume=True)
    assert "optimizer.safetensors: damaged" in capsys.readouterr().err
    whole, parts = final_weights(tmp_path / "whole"), final_weights(run.path)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert records(tmp_path / "whole") == records(run.path)

    for step in resumable_steps(run):
        run.step(step).weights.unlink()
    longer = tiny_settings(text, training={"max_steps": 15})
    with pytest.raises(CheckpointError, match=r"parts: no checkpoint here is intact and of this version"):
        fit(longer, tiny_data, run.path, resume=True)


def test_resuming_restores_scale_and_counts_and_never_probes(tiny_data, text, tmp_path, monkeypatch):
    config = tiny_settings(text, training={"precision": "fp16"})
    session = start(config, tiny_data, tmp_path / "run", resume=False)
    train_step(session, first_update(session))
    session.scaler.update(1024.0)
    with TrainingLog(session.run, 0, 0, True, 12) as log:
        save(session, Meter(session, log))

    def probing(*_: object) -> str:
        raise AssertionError("resuming never probes")

    monkeypatch.setattr("nmt.training.setup.choices.pick_precision", probing)
    resumed = start(config, tiny_data, tmp_path / "run", resume=True)
    assert resumed.precision == "fp16"
    assert resumed.scaler.get_scale() == 1024.0
    assert resumed.state.n_tokens == first_update(session).n_tokens > 0
    assert resumed.state == session.state


def test_on_another_device_the_precision_is_chosen_again(tiny_data, text, tmp_path, capsys):
    config = tiny_settings(text, training={"max_steps": 3})
    fit(config, tiny_data, tmp_path / "run")
    info = RunDir(tmp_path / "run").info
    info.write_text(info.read_text().replace('"device": "cpu"', '"device": "cuda"').replace("float32", "bf16"))
    session = start(tiny_settings(text, training={"max_steps": 4}), tiny_data, tmp_path / "run", resume=True)
    assert session.precision == "float32"
    assert (
        "the run continues with precision float32 instead of bf16, device cpu instead of cuda: the same data in the "
        "same order, but not the same bits" in capsys.readouterr().err
    )
    assert json.loads(info.read_text())["device"] == "cpu"


def test_speed_and_padding_are_those_of_real_tokens(tiny_data, text, tmp_path, monkeypatch):
    from nmt.training.report import meter as meter_module

    now = iter(float(i) for i in range(1000))
    monkeypatch.setattr(meter_module.time, "monotonic", lambda: next(now))
    session = session_of(tiny_data, text, tmp_path / "run")
    update = first_update(session)
    with TrainingLog(session.run, 0, 0, True, 12) as log:
        meter = Meter(session, log)
        meter.add(train_step(session, update))
        meter.record()
        meter.pause()
        meter.resume()  # a second of something else
        meter.add(train_step(session, update))
        meter.record()
    first, second = (json.loads(line) for line in session.run.log.read_text().splitlines())
    batches = [session.pairs.batch(rows) for rows in session.pairs.lengths.split(update.rows, session.max_tokens)]
    real = sum(int(batch.src_mask.sum()) + int(batch.tgt_mask.sum()) for batch in batches)
    slots = sum(batch.src.numel() + batch.tgt_out.numel() for batch in batches)
    assert first["padding_share"] == pytest.approx(1 - real / slots)
    assert first["tokens_per_second"] == sum(batch.n_tokens for batch in batches)  # the clock went on by one second
    assert second["tokens_per_second"] == pytest.approx(update.n_tokens / 2)
    assert session.state.seconds == 4.0


def test_learned_positions_need_room_for_every_sentence(tiny_data, text, tmp_path):
    config = tiny_settings(text, data={"max_pieces": 10}, model={"positions": "learned", "max_positions": 12})
    with pytest.raises(ConfigError) as caught:
        fit(config, tiny_data, tmp_path / "run")
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["model.max_positions"] * 2
    assert caught.value.problems[1].endswith("pieces in the development set")
    assert list(tmp_path.iterdir()) == []


def test_the_run_directory_is_not_the_place_where_you_are(tiny_data, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"\.: is the working directory; give the run a directory of its own"):
        fit(tiny_settings(text), tiny_data, Path())


def test_a_run_directory_that_cannot_be_made_leaves_nothing(tiny_data, text, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nmt.training.setup.start.replace_file", full)
    with pytest.raises(OSError, match="No space left"):
        fit(tiny_settings(text), tiny_data, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_run_ends_though_a_checkpoint_for_the_average_is_damaged(tiny_data, text, tmp_path, monkeypatch, capsys):
    real = loop.save

    def damaging(session: Session, meter: Meter) -> None:
        real(session, meter)
        if session.state.step == 12:
            session.run.step(9).weights.write_bytes(b"")

    monkeypatch.setattr(loop, "save", damaging)
    config = tiny_settings(text)
    fit(config, tiny_data, tmp_path / "run")
    assert "checkpoints are not averaged: " in capsys.readouterr().err
    assert choose_weights(RunDir(tmp_path / "run"), config.training).kind == "raw"
    assert not RunDir(tmp_path / "run").average.path.exists()


def test_an_empty_directory_may_become_a_run(tiny_data, text, tmp_path):
    (tmp_path / "run").mkdir()
    fit(tiny_settings(text, training={"max_steps": 3}), tiny_data, tmp_path / "run")
    assert saved_steps(RunDir(tmp_path / "run")) == [3]


def test_a_run_that_never_learned_anything_has_diverged(tiny_data, text, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: torch.tensor(math.nan))
    with pytest.raises(DivergedError, match=r"run: training.max_steps = 12 reached before anything was learned"):
        fit(tiny_settings(text), tiny_data, tmp_path / "run")
