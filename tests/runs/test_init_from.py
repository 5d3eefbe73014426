"""Fine-tuning: initial weights, mismatches, resuming and freezing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from fitting import fit, start
from kept_run import Died, die_before, differences, kept
from nmt import api
from nmt.config import Config
from nmt.config.load import dump_config, load_config
from nmt.errors import CheckpointError, ConfigError
from nmt.layout import RunDir
from nmt.model.transformer import Transformer
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import average, choose_weights, load_optimizer, load_weights
from nmt.runs.info import Selected, read_selected, write_selected
from nmt.runs.model import ModelRef
from nmt.share.export import ExportOptions, export
from nmt.training.parallel import World
from nmt.training.setup.inputs import PARTS, freeze
from several import CLOSE, NO_DROPOUT, in_processes
from tiny_corpus import tiny_settings
from tiny_run import tiny_config
from trained import records, score

pytestmark = pytest.mark.usefixtures("quick")


def settings(data: Path, init_from: Path | None = None, /, **changes: dict[str, object]) -> Config:
    """Return a configuration with six steps, a checkpoint every three, and another seed than `base`."""
    training = {"max_steps": 6, "seed": 2, "save_every_steps": 3, **changes.pop("training", {})}
    begin = {} if init_from is None else {"init_from": str(init_from)}
    return tiny_settings(data.parent / "text", training={**training, **begin}, search={"beam": 1}, **changes)


@pytest.fixture(scope="module")
def base(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source run, whose best step is 3 and whose last step is 6."""
    run = tmp_path_factory.mktemp("base") / "run"
    fit(settings(tiny_data, training={"seed": 1, "validate_every_steps": 3, "ema": 0.5}), tiny_data, run)
    write_selected(RunDir(run), Selected(best_step=3, weights="raw", reason="step 3 was best"))
    return run


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return load_weights(RunDir(run).step(step))


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def info(run: Path) -> dict[str, Any]:
    return dict(json.loads(RunDir(run).info.read_text(encoding="utf-8")))


# --- which weights ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["raw", "ema", "average"])
def test_init_from_loads_selected_weights(tiny_data, base, tmp_path, capsys, kind):
    source = RunDir(tmp_path / "source")
    shutil.copytree(base, source.path)
    chosen = Selected(best_step=3, weights=kind, average_steps=[3, 6], reason=f"{kind} was best")
    write_selected(source, chosen)
    session = start(settings(tiny_data, source.path), tiny_data, tmp_path / "run", resume=False)
    wanted = choose_weights(source, settings(tiny_data).training.average_last)
    assert wanted.kind == kind and equal(session.full("raw"), wanted.tensors)
    assert (session.state.step, session.saver.saved_step, len(session.optimizer.state)) == (0, 0, 0)
    assert f"the run starts with the weights of {source.path}: {kind} was best" in capsys.readouterr().err
    recorded = info(tmp_path / "run")["initial"]
    assert recorded.pop("tensors")
    assert recorded == {"run": str(source.path), "step": 6 if kind == "average" else 3, "weights": kind}


def test_init_from_accepts_exported_folder(tiny_data, base, tmp_path):
    export(ExportOptions(base, check_lines=0), tmp_path / "exported", "folder")
    session = start(settings(tiny_data, tmp_path / "exported"), tiny_data, tmp_path / "run", resume=False)
    assert equal(session.full("raw"), weights(base, 3))


def test_option_sets_init_from(tiny_data, base, tmp_path, nmt):
    """This includes a run whose name would be a number in YAML."""
    shutil.copytree(base, tmp_path / "1e5")
    Path("config.yaml").write_text(dump_config(settings(tiny_data, training={"max_steps": 3})), encoding="utf-8")
    result = nmt("train", "--config", "config.yaml", "--data", tiny_data, "--run", "run", "--init-from", "1e5")
    assert result.status == 0, result.err
    assert load_config("run/config.yaml").training.init_from == "1e5"
    assert info(Path("run"))["initial"]["run"] == str(tmp_path / "1e5")


def test_api_takes_settings_that_are_not_given_from_start(tiny_data, base, tmp_path):
    config = settings(tiny_data, base).model_dump(mode="json")
    config = {"data": config["data"], "training": {**config["training"], "max_steps": 1}, "search": {"beam": 2}}
    (tmp_path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    data = api.prepare(tmp_path / "config.yaml", data=tmp_path / "data", tokenizer_from=base)
    run = api.train(tmp_path / "config.yaml", data=data, run=tmp_path / "run")
    ours, theirs = (load_config(RunDir(path).config) for path in (run, base))
    assert ours.model == theirs.model and ours.tokenizer == theirs.tokenizer
    assert ours.search == theirs.search.model_copy(update={"beam": 2})


# --- what must agree ----------------------------------------------------------------------------


def test_mismatches_are_listed_and_nothing_is_written(tiny_data, base, tmp_path):
    other = settings(
        tiny_data, base, tokenizer={"vocab_size": 310},
        model={"d_model": 64, "n_heads": 4, "decoder_layers": 2, "norm": "post", "embedding_dropout": 0.5},
    )  # fmt: skip
    prepare(other, tmp_path / "data", echo=lambda _: None)
    with pytest.raises(ConfigError) as caught:
        fit(other, tmp_path / "data", tmp_path / "run")
    assert caught.value.problems == [
        f"{tmp_path / 'data'}: its tokenizer is not the one of {base}; reuse that one with nmt prepare "
        f"--tokenizer-from {base}",
        f"{base}: found model.d_model = 32, wanted 64; --set model.d_model=32 adopts it",
        f"{base}: found model.n_heads = 2, wanted 4; --set model.n_heads=2 adopts it",
        f"{base}: found model.decoder_layers = 1, wanted 2; --set model.decoder_layers=1 adopts it",
        f"{base}: found model.norm = pre, wanted post; --set model.norm=pre adopts it",
    ]
    assert not (tmp_path / "run").exists()


def test_init_from_accepts_other_direction_of_joint_vocabulary(tiny_data, base, tmp_path):
    config = settings(tiny_data, base, data={"direction": "bb-aa"})
    session = start(config, tiny_data, tmp_path / "run", resume=False)
    assert equal(session.full("raw"), weights(base, 3))


def test_init_from_other_direction_of_separate_vocabularies_raises(tiny_data, tmp_path):
    two: dict[str, Any] = {"tokenizer": {"joint": False, "vocab_size": 310}, "model": {"tie_embeddings": "target"}}
    config = settings(tiny_data, **two, training={"max_steps": 1})
    prepare(config, tmp_path / "data", echo=lambda _: None)
    fit(config, tmp_path / "data", tmp_path / "base")
    again = start(settings(tiny_data, tmp_path / "base", **two), tmp_path / "data", tmp_path / "again", resume=False)
    assert equal(again.full("raw"), weights(tmp_path / "base", 1))
    turned = settings(tiny_data, tmp_path / "base", **two, data={"direction": "bb-aa"})
    with pytest.raises(ConfigError) as caught:
        fit(turned, tmp_path / "data", tmp_path / "run")
    assert caught.value.problems == [
        f"{tmp_path / 'base'}: its encoder reads aa, the encoder of this run reads bb, and each language has its own "
        "vocabulary; start from a run of this direction, or with a joint vocabulary"
    ]


@pytest.mark.parametrize(
    ("what", "said"),
    [("gone", "gone: no such directory"),
     ("text", "text: not a run directory: it has no config.yaml"),
     ("new", "new: no checkpoint yet")],
)  # fmt: skip
def test_init_from_directory_without_weights_raises(tiny_data, base, tmp_path, what, said):
    (tmp_path / "text").mkdir()
    shutil.copytree(base, tmp_path / "new", ignore=lambda *_: {"checkpoints", "selected.json"})
    with pytest.raises(CheckpointError, match=said):
        fit(settings(tiny_data, tmp_path / what), tiny_data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --- going on -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned(tiny_data: Path, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run that was initialised from `base`, and learned only the decoder."""
    run = tmp_path_factory.mktemp("tuned") / "run"
    fit(tuning(tiny_data, base), tiny_data, run)
    return run


def tuning(data: Path, base: Path, **training: object) -> Config:
    return settings(data, base, training={"freeze": ["embeddings", "encoder"], **training})


def die(config: Config, data: Path, run: Path, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Died):
        die_before(step, patch)
        fit(config, data, run)


def test_initial_weights_are_validated_first(base, tuned):
    first, *later = records(tuned, "valid")
    assert first["step"] == 0 and 0 not in [record["step"] for record in later]
    [expected] = [record for record in records(base, "valid") if record["step"] == 3]
    assert first["nll"] == pytest.approx(expected["nll"])
    assert read_selected(RunDir(tuned)).best_step != 0 and records(base, "valid")[0]["step"] == 3


@pytest.mark.parametrize("step", [2, 5])
def test_resumed_fine_tuning_equals_uninterrupted_run(tiny_data, base, tuned, tmp_path, step):
    """Without a checkpoint the run starts over; later it no longer needs the source run."""
    source = tmp_path / "source"
    shutil.copytree(base, source)
    die(tuning(tiny_data, source), tiny_data, tmp_path / "run", step)
    if step == 5:
        shutil.rmtree(source)
    fit(tuning(tiny_data, source), tiny_data, tmp_path / "run", resume=True)
    but = {"config.yaml", "run.json"}  # which say where the source is
    assert set(differences(kept(tmp_path / "run"), kept(tuned))) <= but
    assert info(tmp_path / "run")["initial"] == {**info(tuned)["initial"], "run": str(source)}


@pytest.mark.parametrize("change", ["gone", "trained"])
def test_restart_with_other_weights_raises(tiny_data, base, tmp_path, change):
    source = tmp_path / "source"
    shutil.copytree(base, source)
    die(tuning(tiny_data, source), tiny_data, tmp_path / "run", 2)
    if change == "gone":
        shutil.rmtree(source)
        said = f"{source}: no such directory"
    else:
        write_selected(RunDir(source), Selected(best_step=6, weights="raw", reason="step 6 is better"))
        said = f"run: no checkpoint yet, and {source} no longer has the weights of step 3 with which"
    before = kept(tmp_path / "run")
    with pytest.raises(CheckpointError, match=said):
        fit(tuning(tiny_data, source), tiny_data, tmp_path / "run", resume=True)
    assert differences(kept(tmp_path / "run"), before) == []


def test_resume_with_other_init_from_or_freeze_raises(tiny_data, base, tuned, tmp_path):
    shutil.copytree(tuned, tmp_path / "run")
    for training in ({"freeze": []}, {"init_from": None}, {"init_from": "other"}, {"bpe_dropout": 0.1}):
        (key,) = training
        config = tuning(tiny_data, base, max_steps=9)
        config = config.model_copy(update={"training": config.training.model_copy(update=training)})
        with pytest.raises(ConfigError, match=f"training.{key} cannot change when a run is resumed"):
            fit(config, tiny_data, tmp_path / "run", resume=True)


@pytest.mark.parametrize(("average_bleu", "steps"), [(40.0, [3, 6]), (20.0, [6])])
def test_share_of_start_is_mixed_into_recorded_steps(
    tiny_data, base, tmp_path, monkeypatch, capsys, average_bleu, steps
):
    score(monkeypatch, 10.0, 30.0, average_bleu, 25.0)  # of the start, step 6, the average and the mixture
    config = settings(tiny_data, base, training={"start_share": 0.25, "average_last": 2})
    fit(config, tiny_data, tmp_path / "run")
    assert "\nBLEU 25.0 " in capsys.readouterr().err, "that of the mixture, whatever the others have"
    chosen = choose_weights(RunDir(tmp_path / "run"), config.training.average_last)
    assert [*chosen.averaged] == [0, *steps] and chosen.step == 6
    assert choose_weights(RunDir(tmp_path / "run"), config.training.average_last, "last", "average").averaged == (3, 6)
    began, ended = weights(base, 3), average(RunDir(tmp_path / "run"), steps)
    torch.testing.assert_close(dict(chosen.tensors), {name: 0.25 * began[name] + 0.75 * ended[name] for name in began})


def test_card_has_development_scores_of_exported_weights(tiny_data, base, tmp_path, monkeypatch):
    score(monkeypatch, 10.0, 30.0, 20.0, 19.0, 25.0)  # of the start, steps 3 and 6, the average and the mixture
    training = {"start_share": 0.25, "average_last": 2, "validate_every_steps": 3}
    fit(settings(tiny_data, base, training=training), tiny_data, tmp_path / "run")
    chosen = {"best average": "25.00", "3 raw": "30.00", "6 raw": "20.00", "6 average": None}
    for choice, bleu in chosen.items():
        model = ModelRef((tmp_path / "run",), *choice.split())
        export(ExportOptions(model), tmp_path / choice, "folder")
        found = re.findall(r"chosen: BLEU ([0-9.]+)", (tmp_path / choice / "README.md").read_text(encoding="utf-8"))
        assert found == ([] if bleu is None else [bleu]), choice


# --- freezing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [{}, {"norm": "post"}, {"tie_embeddings": "none"}, {"tie_embeddings": "target", "positions": "learned"}]
)
def test_freeze_parts_partition_parameters(model):
    of = {part: Transformer(tiny_config(**model).model, 300, 300) for part in PARTS if part != "head"}
    for part, each in of.items():
        freeze(each, [part])
    frozen = {part: {name for name, p in each.named_parameters() if not p.requires_grad} for part, each in of.items()}
    together = [name for part in ("embeddings", "encoder", "decoder") for name in frozen[part]]
    assert sorted(together) == sorted(name for name, _ in of["encoder"].named_parameters())
    assert {name for name in together if "embedding" in name or name == "output"} == frozen["embeddings"]
    assert frozen["cross_attention"] == {name for name in frozen["decoder"] if "cross" in name}
    assert len(frozen["cross_attention"]) == 6  # of its one layer: what goes in, what comes out and a norm


@pytest.mark.parametrize(
    ("parts", "n_frozen"), [(["embeddings"], 1), (["encoder", "cross_attention"], 20), (["decoder"], 20)]
)
def test_frozen_parameters_do_not_change(tiny_data, base, tmp_path, parts, n_frozen):
    freezing = settings(tiny_data, base, training={"freeze": parts, "weight_decay": 0.1, "average_last": 1})
    fit(freezing, tiny_data, tmp_path / "run")
    model = Transformer(freezing.model, 330, 330)
    freeze(model, parts)
    learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    began, ended = weights(base, 3), weights(tmp_path / "run", 6)
    assert len(began.keys() - learned) == n_frozen
    assert {name for name in began if not torch.equal(began[name], ended[name])} == learned
    moments = load_optimizer(RunDir(tmp_path / "run").step(6))
    assert {name.rpartition("/")[0] for name in moments} == learned


def test_freezing_everything_raises(tiny_data, tmp_path):
    config = settings(tiny_data, training={"freeze": ["embeddings", "encoder", "decoder"]})
    with pytest.raises(ConfigError, match=r"training.freeze: embeddings, encoder, decoder: all weights are frozen"):
        fit(config, tiny_data, tmp_path / "run")


@pytest.mark.parametrize(
    ("kind", "lacking"), [("encoder", ["decoder", "cross_attention"]), ("decoder", ["encoder", "cross_attention"])]
)
def test_freezing_part_that_model_lacks_raises(tiny_data, tmp_path, kind, lacking):
    objective = {"encoder": "masked", "decoder": "causal"}[kind]

    def begin(parts: list[str]) -> None:
        training = {"objective": objective, "freeze": parts}
        start(settings(tiny_data, training=training, model={"kind": kind}), tiny_data, tmp_path / "run", resume=False)

    with pytest.raises(ConfigError) as caught:
        begin(["embeddings", *lacking])
    for part, problem in zip(lacking, caught.value.problems, strict=True):
        assert f"training.freeze: {part}: " in problem
    assert not (tmp_path / "run").exists()
    begin(["embeddings"])


# --- several processes --------------------------------------------------------------------------


def plain(data: Path, base: Path, parallel: str) -> Config:
    """Without dropout, and with an epsilon that keeps Adam from magnifying the noise of sums in another order."""
    return settings(data, base, model=NO_DROPOUT, training={
        "freeze": ["embeddings", "encoder"], "parallel": parallel, "eps": 1e-4, "average_last": 1,
    })  # fmt: skip


def tune(world: World, data: Path, base: Path, folder: Path) -> None:
    for parallel in ("ddp", "fsdp"):
        fit(plain(data, base, parallel), data, folder / f"{parallel}-{world.size}", world=world)


def test_init_from_in_several_processes(tiny_data, base, tmp_path):
    in_processes(2, tune, tiny_data, base, tmp_path)
    fit(plain(tiny_data, base, "ddp"), tiny_data, tmp_path / "alone")
    began, alone = weights(base, 3), weights(tmp_path / "alone", 6)
    for run in (tmp_path / "ddp-2", tmp_path / "fsdp-2"):
        found = weights(run, 6)
        for name, wanted in alone.items():
            torch.testing.assert_close(found[name], wanted, **CLOSE)
            is_frozen = not name.startswith(("decoder.layers", "decoder.norm"))
            assert torch.equal(found[name], began[name]) == is_frozen
        assert gradient_norms(run) == pytest.approx(gradient_norms(tmp_path / "alone"), rel=1e-3)


def gradient_norms(run: Path) -> list[float]:
    return [record["gradient_norm"] for record in kept(run)["log.jsonl"] if "gradient_norm" in record]
