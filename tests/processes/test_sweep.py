"""Tests of `nmt sweep`: the grid, the table, and the processes that train the runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from command import Command, Result, run_command
from fitting import fit
from kept_run import Died
from logged_run import GOLDEN, make_run, train, valid
from nmt.config.load import dump_config, load_config
from nmt.config.messages import nearest
from nmt.evaluate.metrics import corpus_score
from nmt.files.write import Lock
from nmt.files.yaml12 import dump_yaml
from nmt.layout import RunDir
from nmt.recipes.sweep import Ended, SweepJob, sweep
from nmt.recipes.sweep_plan import Axis, Study, SweepOptions, make_plan, name_of, parse_grid, split_values, stage_of
from nmt.recipes.sweep_report import rows_of, tables_of
from nmt.runs.info import Selected, read_info, write_info, write_selected
from nmt.tables import as_csv, render
from nmt.training import validate
from tiny_corpus import tiny_settings
from tiny_run import licensed

GOLDEN_SEEDS = Path("runs/sweep-golden")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    """Return an empty working directory with a configuration that has no runs yet."""
    (tmp_path / "golden.yaml").write_bytes(GOLDEN.config.read_bytes())
    return tmp_path


@pytest.fixture
def tiny(tiny_data: Path, folder: Path) -> Path:
    """Return a configuration of the tiny corpus with two updates, so that a run takes seconds."""
    short = {
        "update_tokens": 60,
        "max_steps": 2,
        "validate_every_steps": 100,
        "save_every_steps": 100,
        "average_last": 1,
    }
    config = tiny_settings(tiny_data.parent / "text", data={"dir": str(tiny_data)}, training=short, search={"beam": 1})
    (folder / "tiny.yaml").write_text(dump_config(config), encoding="utf-8")
    return folder / "tiny.yaml"


@pytest.fixture
def calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Replace Python by a program that records its device and arguments and exits with status $STATUS."""
    program = folder / "python"
    program.write_text(
        f'#!/bin/sh\nsleep 0.2\necho "$CUDA_VISIBLE_DEVICES: $*" >> {folder}/calls\n'
        'echo "nmt: first"; echo "nmt: it is broken" >&2; exit ${STATUS:-3}\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return lambda: (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []


class Here:
    """A process of a sweep whose command runs in this process, without starting an interpreter."""

    def __init__(self, command: Sequence[str], *, stdout: IO[bytes], **_: object) -> None:
        assert command[:3] == [sys.executable, "-m", "nmt"]
        result = run_command(*command[3:])
        stdout.write(f"{result.out}{result.err}".encode())
        self.returncode = result.status or 0

    def poll(self) -> int | str:
        return self.returncode


def run_here(patch: pytest.MonkeyPatch) -> None:
    """Train and prepare in this process."""
    patch.setattr("nmt.recipes.sweep.subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": Here}))


def tsv(path: Path | str) -> dict[str, dict[str, str]]:
    """Return the rows of a sweep by the names of their runs."""
    header, *rows = [line.split("\t") for line in (Path(path) / "sweep.tsv").read_text().splitlines()]
    found = [dict(zip(header, row, strict=True)) for row in rows]
    return {Path(row["run"]).name: row for row in found}


def golden_run(
    bleu: float, finished: int | None = 400, changes: Sequence[str] = (), scores: object = None, **values: object
) -> RunDir:
    """Write a finished run of the golden configuration with changed settings of `training`, as a sweep does, with
    other validation scores beside BLEU."""
    path = GOLDEN_SEEDS / ",".join(f"{key.rpartition('.')[2]}={value}" for key, value in values.items())
    step = finished or 400
    run = make_run(path, [train(step), valid(step, bleu) | (scores or {})], steps=[step], finished=finished)
    config = load_config(GOLDEN.config, [*changes, *(f"training.{key}={value}" for key, value in values.items())])
    run.config.write_text(dump_config(config), encoding="utf-8")
    return run


# --- the grid -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.1,0.3", ["0.1", "0.3"]),
        (" 1 , 2 ", ["1", "2"]),
        ("one", ["one"]),
        ("[],[encoder, decoder]", ["[]", "[encoder, decoder]"]),
        ("{a: [1, 2], b: 3},null", ["{a: [1, 2], b: 3}", "null"]),
        ("'a,b',\"c,d\"", ["'a,b'", '"c,d"']),
        ("'it''s, so',x", ["'it''s, so'", "x"]),
        (r'"a\",b",x', [r'"a\",b"', "x"]),
        ("it's,that's", ["it's", "that's"]),
        ("['a]', b],c", ["['a]', b]", "c"]),
    ],
)
def test_grid_values_split_at_commas_outside_brackets_and_quotes(text: str, values: list[str]) -> None:
    assert split_values(text) == values


def labelled(*labels: str) -> list[Axis]:
    """Return axes with these labels."""
    return [Axis(f"section.{label}", (), label) for label in labels]


def test_run_names_are_distinct_and_safe_on_any_file_system() -> None:
    for grid, name in (
        ({"training.peak_lr": "3e-4", "training.seed": "1"}, "peak_lr=3e-4,seed=1"),
        ({"data.train.0.name": "a", "data.valid.name": "b"}, "data.train.0.name=a,data.valid.name=b"),
    ):
        assert name_of(parse_grid([f"{key}={value},c" for key, value in grid.items()]), grid) == name
    odd = ["../../etc", "/", "a b", "a_b", "a\tb", "x" * 300, "x" * 301, "ü", "é", "[a, b]", "'a'", '"a"', "~", "$HOME"]
    names = {name_of(labelled("dir"), {"section.dir": value}) for value in odd}
    assert len(names) == len(odd) and all(re.fullmatch(r"dir=[A-Za-z0-9_.+-]+", name) for name in names)
    many = labelled(*(f"key_{i}" for i in range(40)))
    values = {axis.key: "0.123456" for axis in many}
    long = [name_of(many, values | {many[-1].key: last}) for last in "12"]
    assert long[0] != long[1] and max(map(len, long)) < 200
    assert Path(name_of(labelled("name"), {"section.name": "a.part"})).suffix != ".part", "which is no run"


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--grid", "training.dropout=0.1,0.3", "--grid", "model.norm=pre,past"], [
            "--grid training.dropout: no such setting",
            "dropout=0.1,norm=past and 1 more: --grid model.norm: must be pre or post, found 'past'",
        ]),
        (["--grid", "model.n_heads=2,3", "--grid", "training.seed=1,2"], [
            "n_heads=3,seed=1 and 1 more: --grid model.n_heads: 3 does not divide d_model",
        ]),
        ([], ["golden.yaml: has no grid"]),
        (["--grid", "seed", "--grid", "seed=1,2"], ["--grid seed: write it as", "--grid seed=1,2: write it as"]),
        (["--grid", "training.seed="], ["--grid training.seed=: has no value"]),
        (["--grid", "training.seed=1,,2"], ["--grid training.seed=1,,2: not values separated by commas"]),
        (["--grid", "training.seed=1,2,1"], ["--grid training.seed=1,2,1: 1 is given twice"]),
        (["--grid", "training.seed=1", "--grid", "training.seed=2"], ["--grid training.seed is given twice"]),
        (["--grid", "training.ema=0.9,0.90"], ["--grid: ema=0.9 and ema=0.90 are the same settings"]),
        (["--grid", "training.seed=1", "--set", "training.seed=2"], ["--grid training.seed: also changed by --set"]),
        (["--grid", "training.run_dir=a,b"], ["--grid training.run_dir: every run has"]),
        (["--grid", "training.seed=1", "--set", "model.width=2"], ["--set model.width: no such setting"]),
        (["--grid", "training.seed=1", "--data", "nowhere"], ["--data nowhere: no data directory"]),
        (["--grid", "data.dir=a,b", "--data", "c"], ["--data and data.dir in the grid cannot"]),
        (["--grid", "tokenizer.vocab_size=300,400", "--data", "c"], ["--data: the grid changes the text"]),
        (["--grid", "training.seed=1", "--jobs", "2", "--devices", "0"], ["--jobs and --devices cannot be combined"]),
        (["--grid", "training.seed=1", "--devices", "0,"], ["--devices 0,: must be GPU indices, such as 0,1"]),
    ],
)  # fmt: skip
def test_invalid_grid_starts_nothing(
    arguments: list[str], lines: list[str], nmt: Command, calls: Callable[[], list[str]]
) -> None:
    check_refused(nmt("sweep", "golden.yaml", *arguments), lines, calls)


def check_refused(result: Result, starts: Sequence[str], calls: Callable[[], list[str]]) -> None:
    """Check that a sweep printed lines with these starts, and did nothing."""
    lines = result.err.splitlines()
    assert (result.status, len(lines)) == (2, len(starts)), result.err
    assert all(line.startswith(f"nmt: {start}") for line, start in zip(lines, starts, strict=True)), result.err
    assert not Path("runs").exists() and calls() == []


def test_directory_with_other_content_is_rejected(nmt: Command, calls: Callable[[], list[str]]) -> None:
    changed = golden_run(20.0, seed=1)
    settings = load_config(GOLDEN.config, ["training.max_steps=500", "training.seed=1"])
    changed.config.write_text(dump_config(licensed(settings)))  # licences do not affect training
    (GOLDEN_SEEDS / "seed=2").mkdir()
    (GOLDEN_SEEDS / "seed=2" / "letter.txt").touch()
    running = golden_run(20.0, seed=3)
    golden_run(20.0, seed=4).selected.write_text("{")
    (GOLDEN_SEEDS / "seed=5").mkdir()  # of a run that was killed while starting
    RunDir(GOLDEN_SEEDS / "seed=5").lock.touch()
    write_selected(golden_run(20.0, seed=6), Selected(best_step=200, finished_step=400))
    lock = Lock(running.lock, "trains")
    result = nmt("sweep", "golden.yaml", "--grid", "training.seed=1,2,3,4,5,6")
    lock.release()
    assert result.status == 2
    found = [line.removeprefix(f"nmt: {GOLDEN_SEEDS}/") for line in result.err.splitlines()]
    assert re.match(r"seed=4: selected\.json: damaged.*remove", found[3])
    assert re.match(r"seed=6: checkpoints/step-00000200: missing.*remove", found[4])
    assert found == [
        "seed=1: trained with training.max_steps 500, this sweep has 400; choose another directory with --dir",
        "seed=2: exists already, but is not a run directory; choose another directory with --dir",
        f"seed=3: process {os.getpid()} on {os.uname().nodename} is training it; wait for it to end or stop it",
        *found[3:5],
    ]
    for folder, message in ((GOLDEN_SEEDS / "seed=4", "a run directory; "), ("golden.yaml", "not a directory")):
        result = nmt("sweep", "golden.yaml", "--grid", "training.seed=1", "--dir", folder)
        assert (result.status, f"{folder}: {message}" in result.err) == (2, True), result.err
    assert calls() == []


# --- the table ----------------------------------------------------------------------------------


def test_table_shows_best_run_first_and_means_over_seeds(nmt: Command, calls: Callable[[], list[str]]) -> None:
    for i, ema in enumerate((0.9, 0.99)):
        for seed in (1, 2):
            golden_run(20.0 + i + 2 * seed, ema=ema, seed=seed)
    arguments = ["sweep", "golden.yaml", "--grid", "training.ema=0.9,0.99", "--grid", "training.seed=1,2"]
    result = nmt(*arguments)
    assert result.status == 0 and calls() == []
    found = f"nmt: 4 runs in {GOLDEN_SEEDS}, 4 of them already finished\n"
    assert result.err == f"{found}nmt: {GOLDEN_SEEDS}/sweep.tsv: written\n"
    assert result.out.splitlines() == [
        "ema   seed  dev BLEU  weights  step  min  state",
        "0.99  2        25.00  raw       400  4.0  finished",
        "0.9   2        24.00  raw       400  4.0  finished",
        "0.99  1        23.00  raw       400  4.0  finished",
        "0.9   1        22.00  raw       400  4.0  finished",
        "",
        "mean over finished seeds ± standard deviation (training.seed)",
        "ema       dev BLEU  seeds",
        "0.99  24.00 ± 1.41      2",
        "0.9   23.00 ± 1.41      2",
    ]
    latex = nmt(*arguments, "--format", "latex").out
    assert r"0.99 & \textbf{24.00 $\pm$ 1.41} & 2 \\" in latex.splitlines() and latex.count(r"\begin{table}") == 2
    table = nmt(*arguments, "--format", "csv").out.splitlines()
    assert table[1].startswith("0.99,2,25.0,raw,400,4.0,,finished,") and len(table) == 5
    document = json.loads(nmt(*arguments, "--format", "json").out)
    assert [run["dev_bleu"] for run in document["runs"]] == [25.0, 24.0, 23.0, 22.0] and document["comparisons"] == []
    assert tsv(GOLDEN_SEEDS)["ema=0.9,seed=2"] == {
        "training.ema": "0.9", "training.seed": "2", "dev_bleu": "24.0", "weights": "raw", "step": "400",
        "minutes": "4.0", "ended_by": "",
        "state": "finished", "run": f"{GOLDEN_SEEDS}/ema=0.9,seed=2", "note": "",
    }  # fmt: skip


def test_unfinished_runs_are_excluded_from_means() -> None:
    golden_run(20.0, seed=1)
    golden_run(90.0, finished=None, seed=2)
    plan = make_plan(SweepOptions("golden.yaml", ["training.seed=1,2,3"]))
    lines = render("text", tables_of(plan, rows_of(plan, {})), None).splitlines()
    assert [*lines[1:4], *lines[-2:]] == [
        "2        90.00  -         400  4.0  stopped",
        "1        20.00  raw       400  4.0  finished",
        "3            -  -           -    -  not started",
        "dev BLEU  seeds",
        "   20.00      1",
    ]


def test_different_lengths_by_time_limit_are_noted() -> None:
    for seed, (step, limit) in enumerate({1000: "max_steps", 900: "max_minutes", 200: "patience"}.items(), start=1):
        run = golden_run(20.0, step, seed=seed)
        run.selected.write_text(json.dumps({**json.loads(run.selected.read_text()), "finished_by": limit}))
    plan = make_plan(SweepOptions("golden.yaml", ["training.seed=1,2,3"]))
    rows = rows_of(plan, {})
    assert tables_of(plan, rows)[0].notes == [
        "training.max_minutes ended 1 of 3 finished runs: they have different lengths, 200 to 1,000 steps"
    ]
    assert [row.ended_by for row in rows] == ["max_steps", "max_minutes", "patience"]


def test_denoising_runs_are_ranked_by_perplexity() -> None:
    for i, share in enumerate((0.3, 0.4)):
        for seed in (1, 2, 3):
            scores = {"perplexity": 12.0 + 4 * i - seed / 2}
            values = {"denoising.mask_share": share, "seed": seed}
            golden_run(99.0, changes=["training.objective=denoising"], scores=scores, **values)
    grid = ["training.denoising.mask_share=0.3,0.4", "training.seed=1,2,3,4"]
    plan = make_plan(SweepOptions("golden.yaml", grid, ["training.objective=denoising"]))
    rows = rows_of(plan, {})
    assert [row.score for row in rows] == [10.5, 11.0, 11.5, 14.5, 15.0, 15.5, None, None]
    lines = render("text", tables_of(plan, rows), None).splitlines()
    assert [*lines[:2], lines[9], *lines[12:]] == [
        "mask_share  seed  dev perplexity  weights  step  min  state",
        "0.3         3              10.50  raw       400  4.0  finished",
        "warning: perplexities of different pieces cannot be compared: training.denoising.mask_share differ",
        "mask_share  dev perplexity  seeds          to the first",
        "0.3           11.00 ± 0.50      3",
        "0.4           15.00 ± 0.50      3  +4.00 [+2.87, +5.13]",
        "to the first: difference to the first row, the best, with its 95 % interval over seeds, on the",
        "  development set, on which checkpoints were selected",
    ]
    header, first, *_ = as_csv(tables_of(plan, rows)[0].records, "\t").splitlines()
    assert dict(zip(header.split("\t"), first.split("\t"), strict=True))["dev_perplexity"] == "10.5"


def test_all_runs_are_ranked_by_chrf_if_bleu_says_little_about_one() -> None:
    for seed, bleu, chrf in ((1, 60.0, 40.0), (2, 0.0, 99.0), (3, 10.0, 70.0)):
        run = golden_run(bleu, scores={"chrf": chrf}, seed=seed)
    plan = make_plan(SweepOptions("golden.yaml", ["training.seed=1,2,3,4"]))
    assert (plan.metric, [row.score for row in rows_of(plan, {})]) == ("bleu", [60.0, 10.0, 0.0, None])
    write_info(run, read_info(run).model_copy(update={"text_score": "chrf"}))
    assert (plan.metric, [row.score for row in rows_of(plan, {})]) == ("chrf", [99.0, 70.0, 40.0, None])
    assert {"dev_chrf", "dev_bleu"} & tables_of(plan, rows_of(plan, {}))[0].records[0].keys() == {"dev_chrf"}


# --- studies ------------------------------------------------------------------------------------


def write_study(**changes: object) -> str:
    study = {
        "config": "golden.yaml",
        "set": {"training.validate_every_steps": 50},
        "grid": {"training.ema": [0.9, 0.99, 0.999, 0.0], "training.seed": [1, 2]},
        "halving": {"updates": 100},
    }
    Path("study.yaml").write_text(dump_yaml(study | changes), encoding="utf-8")
    return "study.yaml"


def reached(updates: Mapping[int, float], finished: int | None = None, **values: object) -> None:
    """Write a run of the study with BLEU on the development set after some numbers of updates."""
    path = Path("runs/sweep-study") / ",".join(f"{key}={value}" for key, value in values.items())
    shutil.rmtree(path, ignore_errors=True)
    run = make_run(path, [valid(*item) for item in updates.items()], steps=[max(updates)], finished=finished)
    settings = [f"training.{key}={value}" for key, value in {"validate_every_steps": 50, **values}.items()]
    run.config.write_text(dump_config(load_config(GOLDEN.config, settings)), encoding="utf-8")


def test_halving_eliminates_arms_by_their_mean_at_equal_updates() -> None:
    plan = make_plan(SweepOptions.of_study(write_study(halving={"updates": 100, "keep": 1})))
    assert plan.rungs == [(100, 2), (200, 1)]
    assert stage_of(plan, {}) == (["ema=0.9", "ema=0.99", "ema=0.999", "ema=0.0"], 100, {})
    for ema, bleu in ((0.9, 10.0), (0.99, 12.0), (0.999, 11.0), (0.0, 9.0)):
        for seed in (1, 2):
            reached({50: 99.0, 100: bleu + seed * (4 if ema == 0.9 else 1)}, ema=ema, seed=seed)
    eliminated = {
        "ema=0.999": "at 100 updates: mean dev BLEU 12.50, rank 3 of 4, 2 kept",
        "ema=0.0": "at 100 updates: mean dev BLEU 10.50, rank 4 of 4, 2 kept",
    }
    assert stage_of(plan, {}) == (["ema=0.9", "ema=0.99"], 200, eliminated), "means of 16, 13.5, 12.5 and 10.5"
    reached({100: 14.0, 150: 30.0}, finished=150, ema=0.9, seed=1)  # by patience
    reached({100: 18.0, 200: 20.0}, ema=0.9, seed=2)
    assert stage_of(plan, {})[1] == 200
    for seed in (1, 2):
        reached({100: 13.5, 200: 26.0, 400: 40.0}, finished=400, ema=0.99, seed=seed)
    eliminated["ema=0.9"] = "at 200 updates: mean dev BLEU 25.00, rank 2 of 2, 1 kept"
    assert stage_of(plan, {}) == (["ema=0.99"], None, eliminated)
    rows = {row.planned.name: row for row in rows_of(plan, {})}
    assert [rows[f"ema=0.9,seed={seed}"].state for seed in (1, 2)] == ["finished", "eliminated"]
    assert rows["ema=0.0,seed=2"].state == "eliminated" and rows["ema=0.0,seed=2"].note == eliminated["ema=0.0"]
    means = tables_of(plan, list(rows.values()))[1]
    assert str(means.rows[0][1]) == "40.00 ± 0.00" and eliminated["ema=0.0"] in means.rows[-1]


def test_halving_eliminates_by_chrf_if_bleu_says_little() -> None:
    plan = make_plan(SweepOptions.of_study(write_study(grid={"training.ema": [0.9, 0.99, 0.999]})))
    for ema, bleu in ((0.9, 9.0), (0.99, 12.0), (0.999, 11.0)):
        reached({100: bleu}, ema=ema)
        run = next(run.run for run in plan.runs if run.name == f"ema={ema}")
        run.log.write_text(json.dumps(valid(100, bleu, chrf=100 - bleu)) + "\n", encoding="utf-8")
        write_info(run, read_info(run).model_copy(update={"text_score": "chrf"}))
    assert stage_of(plan, {}) == (
        ["ema=0.9", "ema=0.999"], None, {"ema=0.99": "at 100 updates: mean dev chrF 88.00, rank 3 of 3, 2 kept"},
    )  # fmt: skip


def test_arm_eliminated_after_its_end_has_the_reason_and_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[str]()
    monkeypatch.setattr(f"{sweep.__module__}.for_directions", lambda members, _: compared.extend(members) or [])
    grid = {"training.ema": [0.9, 0.99, 0.999], "training.seed": [1]}
    request = SweepOptions.of_study(write_study(grid=grid, compare="test"))
    for ema in (0.99, 0.999):
        reached({100: 10 * ema, 400: 20.0}, finished=400, ema=ema, seed=1)
    reached({50: 5.0}, finished=50, ema=0.9, seed=1)  # by patience
    rows = {row.planned.name: (row.state, row.note) for row in rows_of(make_plan(request), {})}
    assert rows["ema=0.9,seed=1"] == ("finished", "at 100 updates: mean dev BLEU 5.00, rank 3 of 3, 2 kept")
    sweep(request)
    assert compared == ["ema=0.99", "ema=0.999"], "the first of the grid is the baseline"


def test_last_comparison_keeps_as_many_arms_as_asked() -> None:
    grid = {"training.ema": [0.9, 0.99, 0.999, 0.0, 0.5, 0.6, 0.7]}
    plan = make_plan(SweepOptions.of_study(write_study(grid=grid, halving={"updates": 150, "keep": 1})))
    assert plan.rungs == [(150, 4), (300, 1)], "600 updates are more than the runs have"


def test_arm_with_failed_run_is_not_trained_further() -> None:
    plan = make_plan(SweepOptions.of_study(write_study()))
    for ema in (0.9, 0.99, 0.999):
        for seed in (1, 2):
            reached({100: 10 * ema}, ema=ema, seed=seed)
    reached({100: 99.0}, ema=0.0, seed=1)
    arms, updates, eliminated = stage_of(plan, {"ema=0.0,seed=2": "diverged"})
    assert (arms, updates, list(eliminated)) == (["ema=0.999", "ema=0.99"], None, ["ema=0.9"])
    rows = {row.planned.name: (row.state, row.note) for row in rows_of(plan, {"ema=0.0,seed=2": "diverged"})}
    assert [rows[f"ema=0.0,seed={seed}"] for seed in (1, 2)] == [("stopped", ""), ("failed", "diverged")]
    assert stage_of(plan, {})[1] == 100


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"halving": {"updates": 60}}, ["halving.updates: must be below training.max_steps = 400 and a multiple"]),
        ({"halving": {"updates": 400}}, ["halving.updates: must be below training.max_steps = 400 and a multiple"]),
        ({"halving": {"updates": 100, "keep": 4}}, ["halving.keep: must be below the number of arms, 4, found 4"]),
        ({"compare": "newstest"}, ["compare: must be a split that the runs translate, one of valid, test"]),
        ({"compare": "test", "halving": {"updates": 100, "keep": 1}}, ["compare: needs two arms"]),
        ({"compare": "test", "halving": None, "grid": {"training.seed": [1, 2]}}, ["compare: needs two arms"]),
        ({"halving": {"updates": 100, "factor": 1}}, ["study.yaml: halving.factor: must be at least 2, found 1"]),
        ({"grids": {}}, ["study.yaml: grids: no such setting; did you mean grid?"]),
        ({"keep": 1}, ["study.yaml: keep: no such setting; did you mean halving.keep?"]),
        ({"halving": {"updates": 100, "keeps": 1}}, [
            "study.yaml: halving.keeps: no such setting; did you mean halving.keep?",
        ]),
        ({"grid": {"training.dropout": [0.1]}}, ["--grid training.dropout: no such setting"]),
        ({"grid": {}}, ["study.yaml: grid: must have at least one entry, found {}"]),
        ({"grid": {"training.seed": 1}}, ["study.yaml: grid.training.seed: must be a list, found 1"]),
        ({"set": {"model.norm": "post", "model.width": 2}}, ["--set model.width: no such setting"]),
        ({"config": "golden.yml"}, ["golden.yml: no such config here or in configs/"]),
    ],
)  # fmt: skip
def test_invalid_study_starts_nothing(
    changes: dict[str, object], lines: list[str], nmt: Command, calls: Callable[[], list[str]]
) -> None:
    check_refused(nmt("sweep", write_study(**changes)), lines, calls)


def test_keys_of_a_study_get_no_advice_on_those_of_a_config() -> None:
    assert [nearest(key, Study) for key in ("lr", "devices")] == ["", ""]


def test_settings_beside_a_study_are_rejected(nmt: Command, calls: Callable[[], list[str]]) -> None:
    result = nmt("sweep", write_study(), "--set", "training.seed=1")
    check_refused(result, ["--set training.seed=1: a study has all settings in its file"], calls)


def test_values_of_a_study_are_read_as_in_a_config() -> None:
    grid = {
        "data.direction": ["no-en", "en-no"],
        "training.freeze": [[], ["encoder", "decoder"]],
        "a.b": ["1", "a, b", None],
    }
    changes = {"search.tags": {"a": "no"}, "training.peak_lr": 3e-4}
    request = SweepOptions.of_study(write_study(grid=grid, halving=None, set=changes))
    assert request.grid == [
        "data.direction=no-en,en-no",
        'training.freeze=[],["encoder", "decoder"]',
        'a.b="1","a, b",null',
    ]
    assert [*map(str, request.overrides)] == ['search.tags={"a": "no"}', "training.peak_lr=0.0003"]
    assert request.folder == Path("runs/sweep-study")


@pytest.mark.usefixtures("quick")
@pytest.mark.exhaustive
def test_killed_study_ends_with_the_same_tables(nmt: Command, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs are trained in this process, and the sweep is killed after every third of them: within an arm, between
    the two stages, and before the last run."""
    study = {
        "config": str(tiny),
        "set": {"training.max_steps": 4, "training.validate_every_steps": 2, "training.select_by": "loss"},
        "grid": {"model.d_ff": [64, 32, 16], "training.seed": [1, 2]},
        "halving": {"updates": 2},
        "compare": "test",
    }
    write_study(**study)
    trained = list[str]()

    def in_this_process(n_jobs: int | None) -> None:
        last = None if n_jobs is None else len(trained) + n_jobs

        def run_jobs(jobs: Sequence[SweepJob], _slots: object, _stop: object) -> Iterator[Ended]:
            for job in jobs:
                if len(trained) == last:
                    raise Died
                result = nmt(*job.arguments)
                assert result.status in (0, 75), result.err
                trained.append(job.name)
                yield Ended(job, result.status == 75)

        monkeypatch.setattr(f"{sweep.__module__}.run_jobs", run_jobs)

    # BLEU of models that have learned nothing is 0
    monkeypatch.setattr(validate, "corpus_score", lambda _, *given, **how: corpus_score("chrf", *given, **how))
    in_this_process(None)
    whole = nmt("sweep", "study.yaml", "--dir", "whole", "--format", "latex")
    assert (whole.status, len(trained)) == (0, 6 + 4), whole.err
    arms = {(name.rpartition(",")[0], row["state"], row["step"]) for name, row in tsv("whole").items()}
    assert sorted(arm[1:] for arm in arms) == [("eliminated", "2"), ("finished", "4"), ("finished", "4")]
    first, means, comparison = whole.out.split("\n\n")
    assert first.count("eliminated & at 2 updates") == 2 and means.count(" & at 2 updates") == 1
    assert r"\caption{test: aa-bb, 10 lines, compared with d\_ff=" in comparison and comparison.count(" (2) & ") == 2

    for _ in range(3):
        in_this_process(3)
        with pytest.raises(Died):
            nmt("sweep", "study.yaml", "--dir", "killed")
    in_this_process(None)
    result = nmt("sweep", "study.yaml", "--dir", "killed", "--format", "latex")
    assert result.status == 0 and "6 runs in killed, " in result.err
    assert sorted(trained[10:]) == sorted(trained[:10])
    of_minutes = r" & [0-9.]+(?= & (finished|eliminated))"
    assert re.sub(of_minutes, "", result.out) == re.sub(of_minutes, "", whole.out)


# --- what is called -----------------------------------------------------------------------------


def test_each_device_trains_one_run_at_a_time(nmt: Command, tiny: Path, calls: Callable[[], list[str]]) -> None:
    result = nmt("sweep", tiny, "--grid", "training.seed=1,2,3,4", "--devices", "0,GPU-7", "--dir", "s")
    devices = [line.split(":")[0] for line in calls()]
    assert sorted(devices[:2]) == sorted(devices[2:]) == ["0", "GPU-7"]
    (call,) = [line for line in calls() if "seed=3" in line]
    data = load_config(tiny).data.dir
    assert call.endswith(f": -m nmt train --config s/configs/seed=3.yaml --run s/seed=3 --data {data}")
    assert load_config("s/configs/seed=3.yaml") == load_config(tiny, ["training.seed=3"])
    started = [line for line in result.err.splitlines() if line.endswith("started")]
    assert (result.status, started) == (1, [f"nmt: [{i}/4] seed={i}: started" for i in (1, 2, 3, 4)])


def test_runs_with_other_text_settings_have_their_own_data_directories(
    nmt: Command, tiny: Path, calls: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATUS", "0")
    grid = ("training.seed=1,2", "tokenizer.vocab_size=310,320", "data.direction=aa-bb,bb-aa")
    result = nmt("sweep", tiny, *(word for axis in grid for word in ("--grid", axis)))
    made = [re.sub(".*prepare --config .* --data ", "", line) for line in calls() if " prepare " in line]
    ours = "runs/sweep-tiny/data/vocab_size="
    assert made == [f"{ours}310,direction=aa-bb", f"{ours}320,direction=aa-bb"]
    used = {line.partition("--run runs/sweep-tiny/")[2] for line in calls() if " train " in line}
    assert used == {
        f"seed={seed},vocab_size={size},direction={direction} --data {ours}{size},direction=aa-bb"
        for seed in (1, 2) for size in (310, 320) for direction in ("aa-bb", "bb-aa")
    }  # fmt: skip
    # the program has trained nothing, and ended well all the same
    assert result.status == 75 and "8 of 8 runs are not finished; run the same command again to continue" in result.err


@pytest.mark.parametrize("axis", ["data.temperature=1,5", "data.temperature=5", "data.train.0.weight=1,5"])
def test_runs_with_other_shares_of_corpora_have_the_data_directory_of_the_config(axis: str) -> None:
    plan = make_plan(SweepOptions("golden.yaml", [axis]))
    assert {run.data for run in plan.runs} == {load_config("golden.yaml").data.directory}


# --- real runs -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_failed_run_does_not_stop_other_runs(nmt: Command, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_here(monkeypatch)
    result = nmt("sweep", tiny, "--grid", "data.max_pieces=1,100", "--grid", "search.lm=nowhere,null", "--dir", "s")
    assert result.status == 1, result.err
    rows = tsv("s")
    assert next(iter(rows)) == "max_pieces=100,lm=null"
    assert {name: row["state"] for name, row in rows.items()} == {
        "max_pieces=100,lm=null": "finished",
        "max_pieces=100,lm=nowhere": "failed",
        "max_pieces=1,lm=nowhere": "failed",
        "max_pieces=1,lm=null": "failed",
    }
    assert "s/data/max_pieces=1 could not be prepared: data.train: all" in rows["max_pieces=1,lm=nowhere"]["note"]
    reason = rows["max_pieces=100,lm=nowhere"]["note"]
    assert re.search("nmt: prepare s/data/max_pieces=1: failed: .*s/logs/prepare-max_pieces=1.log", result.err)
    assert f"nmt: max_pieces=100,lm=nowhere: failed: {reason} (full output: s/logs/" in result.err
    assert "nowhere" in reason and reason in Path("s/logs/max_pieces=100,lm=nowhere.log").read_text()
    done = RunDir(Path("s/max_pieces=100,lm=null"))
    assert (load_config(done.config).data.max_pieces, rows[done.path.name]["step"]) == (100, "2")
    assert Path(json.loads(done.info.read_text())["data_dir"]) == Path("s/data/max_pieces=100").resolve()


@pytest.mark.usefixtures("quick")
def test_stopped_sweep_resumes(nmt: Command, tiny: Path, tiny_data: Path) -> None:
    """The run that is stopped has a process of its own, the others are trained in this one."""
    command = ["sweep", tiny, "--grid", "training.max_steps=1,40,2", "--dir", "s"]
    first, second, third = (RunDir(Path("s") / f"max_steps={steps}") for steps in (1, 40, 2))
    fit(load_config(tiny, ["training.max_steps=1"]), tiny_data, first.path)
    signals = [signal.SIGTERM]

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        if signals and second.log.exists() and '"step": 2,' in second.log.read_text():
            os.kill(os.getpid(), signals.pop())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nmt.recipes.sweep.time", SimpleNamespace(sleep=sleep))
        stopped = nmt(*command)
    last = "nmt: stopped by SIGTERM; run the same command again to continue"
    assert (stopped.status, stopped.err.splitlines()[-1]) == (75, last)
    assert {name: row["state"] for name, row in tsv("s").items()} == {
        "max_steps=1": "finished", "max_steps=40": "stopped", "max_steps=2": "not started",
    }  # fmt: skip
    assert "max_steps" in stopped.out and not third.path.exists()
    (stopped_at,) = re.findall(r"max_steps=40: stopped at step (\d+)", stopped.err)
    log = Path("s/logs/max_steps=40.log")
    before = {path: path.stat().st_mtime_ns for path in first.path.rglob("*")}

    with pytest.MonkeyPatch.context() as patch:
        run_here(patch)
        done = nmt(*command)
    assert (done.status, "3 runs in s, 1 of them already finished" in done.err) == (0, True), done.err
    assert {row["state"] for row in tsv("s").values()} == {"finished"}
    assert {path: path.stat().st_mtime_ns for path in first.path.rglob("*")} == before
    assert f"resuming from step {stopped_at}\n" in log.read_text()
    steps = [json.loads(line)["step"] for line in second.log.read_text().splitlines() if '"train"' in line]
    assert steps == list(range(1, 41))
