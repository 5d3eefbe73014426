"""The list of runs, with all states and kinds of damage."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from command import Command
from logged_run import make_run, train, valid
from nmt.config.load import changed_config, dump_config, load_config
from nmt.errors import CheckpointError
from nmt.files.write import Lock
from nmt.layout import RunDir
from nmt.runs.info import EnsembleMember, Selected, add_scores, read_info, write_info, write_selected
from nmt.runs.listing import as_table, newest_run, summarise, summarise_all
from nmt.runs.log import learning_curve, read_log
from nmt.tables import render
from scored_run import record

HEADER = ["run", "state", "step", "done", "BLEU", "trained", "age"]


@pytest.fixture(autouse=True)
def runs() -> Path:
    Path("runs").mkdir()
    return Path("runs")


def written(run: Path, seconds_ago: float) -> None:
    """Set all modification times in a run to this many seconds ago."""
    for path in [*run.rglob("*"), run]:
        os.utime(path, (time.time() - seconds_ago,) * 2)


def table(text: str) -> dict[str, list[str]]:
    """Return the cells of each row by the name of the run."""
    header, *rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]
    assert header == HEADER
    return {name: cells for name, *cells in rows}


# --- what is shown ------------------------------------------------------------------------------


def test_runs_of_sweep_are_listed_with_its_name(nmt: Command, runs: Path) -> None:
    make_run(runs / "alone", [train(100), valid(100, 12.0)], steps=[100])
    make_run(runs / "sweep-a" / "seed=1", [train(100), valid(100, 13.0)], steps=[100])
    (runs / "sweep-a" / "configs").mkdir()
    (runs / "empty").mkdir()
    rows = table(nmt("runs").out)
    assert {name: cells[3] for name, cells in rows.items()} == {"alone": "12.0", "sweep-a/seed=1": "13.0"}


def test_score_of_initial_weights_is_ignored(runs: Path) -> None:
    run = make_run(runs / "tuned", [valid(0, 40.0), train(100), valid(100, 13.0)], steps=[100])
    assert summarise(run).best_bleu == 13.0


def test_runs_table_has_row_for_each_state(nmt: Command, runs: Path) -> None:
    records = [train(100), valid(100, 12.34), train(200), valid(200, 31.26), train(400), valid(400, 30.0)]
    done = make_run(runs / "done", [*records, valid(400, 33.3, kind="average")], steps=[200, 400], finished=400)
    stopped = make_run(runs / "stopped", records[:4], steps=[100, 200])
    fresh = make_run(runs / "fresh")
    hours = make_run(runs / "hours", [train(15_000)])
    done.config.write_text(dump_config(changed_config(load_config(done.config), ["search.split=always"])))
    for run, age in ((done, 3 * 86_400 + 5), (stopped, 2 * 3_600 + 5), (fresh, 3 * 60 + 5), (hours, 7)):
        written(run.path, age)
    result = nmt("runs")
    assert (result.status, result.err) == (0, "")
    rows = table(result.out)
    assert list(rows) == ["hours", "fresh", "stopped", "done"]  # what was written to last is first
    assert {name: rows[name] for name in ("done", "stopped", "fresh")} == {
        "done": ["finished", "400", "100%", "33.3", "4 min", "3 d", "split: always"],
        "stopped": ["stopped", "200", "50%", "31.3", "2 min", "2 h", "split: auto"],
        "fresh": ["stopped", "0", "0%", "-", "-", "3 min", "split: auto"],
    }
    assert rows["hours"][:5] == ["stopped", "15,000", "100%", "-", "2.5 h"]
    assert rows["hours"][5] in ("7 s", "8 s", "9 s")


def test_json_contains_all_fields(nmt: Command, runs: Path) -> None:
    run = make_run(runs / "a", [train(100), valid(100, 12.5)], steps=[100], finished=100)
    os.utime(run.path, (0, 0))
    for path in run.path.iterdir():
        os.utime(path, (86_400, 86_400))
    (found,) = json.loads(nmt("runs", "runs", "--format=json").out)
    assert found == {
        "name": "a", "path": "runs/a", "state": "finished", "step": 100, "progress": 1.0, "checkpoint": 100,
        "split": "auto", "best_bleu": 12.5, "best_chrf": None, "best_perplexity": None, "best_accuracy": None,
        "minutes": 1.0, "last_written": "1970-01-02T00:00:00+00:00", "holder": None, "problem": None,
        "test": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "progress"),
    [
        ({}, 0.25),
        ({"max_minutes": 2}, 0.5 / 0.95),  # a twentieth is kept for the end
        ({"max_minutes": 8}, 0.25),
        ({"max_minutes": 0.5}, 1.0),
        ({"max_epochs": 10}, 0.75),
        ({"max_epochs": 10, "max_minutes": 1.25}, 0.8 / 0.95),
    ],
)
def test_progress_is_that_of_the_limit_that_ends_the_run(limits: dict[str, float], progress: float, runs: Path) -> None:
    warned = {"kind": "warning", "step": 100, "text": "x"}
    run = make_run(runs / "a", [train(100) | {"n_epochs": 7.0}, valid(100, 5.0) | {"n_epochs": 7.5}, warned])
    changes = [f"training.{name}={value}" for name, value in limits.items()]
    run.config.write_text(dump_config(changed_config(load_config(run.config), changes)))
    assert summarise(run).progress == pytest.approx(progress)


def test_evaluation_does_not_change_age(runs: Path) -> None:
    run = make_run(runs / "a", [train(100)], steps=[100], finished=100)
    written(run.path, 7_200)
    before = summarise(run).last_written
    add_scores(run, record())
    (run.dev / "test.en").parent.mkdir()
    for path in (run.dev, run.selected, run.path):
        os.utime(path)
    assert summarise(run).last_written == before
    os.utime(run.log)
    assert summarise(run).last_written > before + 7_000


def test_newest_test_score_is_shown(nmt: Command, runs: Path) -> None:
    first = make_run(runs / "multi30k-de-en", [train(12_000), valid(12_000, 31.26)], steps=[12_000])
    make_run(runs / "b", [train(100)])
    for each in (
        record(bleu=1.0), record("test_2016_flickr", bleu=40.04, text="e"), record("valid", bleu=2.0),
        record(step=None, weights=None, ensemble=[EnsembleMember(run="x", step=1, weights="raw")] * 2),
    ):  # fmt: skip
        add_scores(first, each)
    lines = nmt("runs").out.splitlines()
    rows = {line.split()[0]: line.split("  ") for line in lines}
    cells = {name: [cell.strip() for cell in row if cell.strip()] for name, row in rows.items()}
    assert (cells["run"], cells["multi30k-de-en"][2:6], cells["b"][4:6]) == (
        ["run", "state", "step", "done", "BLEU", "test BLEU", "trained", "age"],
        ["12,000", "100%", "31.3", "test…flickr 40.0"], ["-", "-"],
    )  # fmt: skip
    running = replace(summarise(first), holder={"host": "machine-1", "pid": 1_000_000})
    assert max(map(len, render("text", [as_table([running])], None).splitlines())) <= 100
    (found,) = [each for each in json.loads(nmt("runs", "--format=json").out) if each["name"] != "b"]
    assert (found["test"]["split"], found["test"]["scores"][0]["value"]) == ("test_2016_flickr", 40.04)


def test_run_with_references_too_short_for_bleu_is_listed_by_chrf(nmt: Command, runs: Path) -> None:
    log = [valid(100, 60.0, chrf=40.0), valid(200, 0.0, chrf=97.24), valid(200, 1.0, kind="ema", chrf=9.0)]
    run = make_run(runs / "terms", log, steps=[100, 200])
    write_info(run, read_info(run).model_copy(update={"text_score": "chrf"}))
    add_scores(run, record(bleu=40.0))
    line = nmt("runs").out.splitlines()[1]
    assert [cell.strip() for cell in line.split("  ") if cell.strip()][4:6] == ["chrF 97.2", "test chrF 80.0"]
    assert (summarise(run).best_bleu, summarise(run).best_chrf) == (None, 97.24)
    assert [point.chrf for point in learning_curve(run)] == [40.0, 97.24]


def test_running_run_is_listed_with_lock_holder(nmt: Command, runs: Path) -> None:
    run = make_run(runs / "a", [train(100)], steps=[100], finished=100)
    lock = Lock(run.lock, "trains")
    try:
        row = table(nmt("runs").out)["a"]
        assert row[:4] == ["running", "100", "25%", "-"]
        assert row[-1] == f"{socket.gethostname()}:{os.getpid()}"
        (found,) = json.loads(nmt("runs", "--format=json").out)
        assert found["holder"].keys() == {"host", "pid", "since"}
        run.lock.write_text("")  # as in the instant before its holder writes into it
        run.selected.write_text("[")
        assert table(nmt("runs").out)["a"][-1].startswith("?:?; selected.json: damaged: ")
    finally:
        lock.release()
    run.selected.unlink()
    assert summarise(run).state == "stopped"


def test_imported_run_is_not_finished(runs: Path) -> None:
    run = make_run(runs / "a", steps=[0], finished=0)
    write_info(run, read_info(run).model_copy(update={"data_dir": ""}))
    assert (summarise(run).state, summarise(run).progress) == ("imported", None)


def gone(path: Callable[[RunDir], Path], *, is_empty: bool = False) -> Callable[[RunDir], None]:
    def change(run: RunDir) -> None:
        shutil.rmtree(path(run))
        if is_empty:
            path(run).mkdir()

    return change


BEST_BEFORE = Selected(best_step=100, finished_step=200)
STATES: list[tuple[list[int], int, Callable[[RunDir], object], str, int | None, str | None]] = [
    ([200, 400], 400, lambda _: None, "finished", 400, None),
    ([200, 400], 400, gone(lambda run: run.step(400).path), "stopped", 200, None),  # to go on from an earlier one
    ([200, 600], 600, gone(lambda run: run.step(600).path, is_empty=True), "stopped", 200, None),  # a broken off copy
    ([200, 400], 200, lambda _: None, "stopped", 400, None),  # went on with more steps, and was stopped
    ([200, 400], 200, gone(lambda run: run.checkpoints), "broken", None, "checkpoints: missing"),
    ([200, 400], 200, gone(lambda run: run.checkpoints, is_empty=True), "stopped", None, None),
    ([], 0, lambda run: (run.checkpoints / "step-00000100.part").mkdir(), "stopped", None, None),  # died in its save
    ([100, 200], 200, lambda run: write_selected(run, BEST_BEFORE), "finished", 200, None),
    ([200], 200, lambda run: write_selected(run, BEST_BEFORE), "broken", 200, "checkpoints/step-00000100: missing"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "finished", "change", "state", "checkpoint", "problem"), STATES)
def test_state_depends_on_checkpoints(
    steps: list[int], finished: int, change: Callable[[RunDir], object], state: str, checkpoint: int | None,
    problem: str | None, runs: Path,
) -> None:  # fmt: skip
    run = make_run(runs / "a", [train(max([50, *steps]))], steps, finished or None)
    change(run)
    found = summarise(run)
    assert (found.state, found.checkpoint, found.problem and found.problem[: len(problem or "")]) == (
        state, checkpoint, problem,
    )  # fmt: skip


# --- what is damaged ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("config.yaml", b"", "config.yaml: a config must be a mapping of sections, found nothing"),
        ("config.yaml", b"training: [", "config.yaml: not valid YAML: "),
        ("config.yaml", b"\xff\xfe", "config.yaml: not UTF-8 at byte 1"),
        ("run.json", None, "runs/broken: not a run directory, run.json is missing"),
        ("run.json", b'{"format": ', "run.json: damaged: "),
        ("run.json", b"[1]", "run.json: damaged: not a JSON object"),
        ("selected.json", b"\x80\x81", "selected.json: damaged: "),
        ("selected.json", b"[" * 100_000, "selected.json: damaged: "),
        ("selected.json", b"7", "selected.json: damaged: not a JSON object"),
    ],
)
def test_damaged_run_is_listed(name: str, content: bytes | None, problem: str, nmt: Command, runs: Path) -> None:
    make_run(runs / "good", [train(100)])
    broken = make_run(runs / "broken", [train(200), valid(200, 20.0)], steps=[200], finished=200)
    if content is None:
        (broken.path / name).unlink()
    else:
        (broken.path / name).write_bytes(content)
    result = nmt("runs")
    assert (result.status, result.err, result.out.count("\n")) == (0, "", 3)
    rows = table(result.out)
    assert (rows["good"][0], *rows["broken"][:2]) == ("stopped", "broken", "200")
    assert "20.0" in rows["broken"][2:4]  # what can be read is told
    assert rows["broken"][-1].startswith(problem)
    assert json.loads(nmt("runs", "--format=json").out)[0]["problem"].startswith(problem)


def test_damaged_log_lines_are_skipped(runs: Path) -> None:
    run = make_run(runs / "a")
    good = [train(100), valid(100, 20.0), train(200)]
    lines = [json.dumps(record).encode() for record in good]
    bad = [b"", b"\xff\xfe\x00", b"[1, 2]", b"17", b"null", b'{"kind": "valid", "bleu": \xff}', b"[" * 50_000]
    odd = [b'{"kind": "valid", "bleu": "high"}', b'{"bleu": 99}', b'{"kind": "valid", "bleu": NaN, "step": true}']
    torn = lines[1][:-9].replace(b"20.0", b"90.0")
    run.log.write_bytes(b"\n".join([*bad, lines[0], *odd, *lines[1:], *bad, torn]))
    assert [record for record in read_log(run.log) if record.get("step") in (100, 200)] == good
    found = summarise(run)
    assert (found.state, found.step, found.minutes, found.best_bleu) == ("stopped", 200, 2.0, 20.0)


# --- which runs there are -----------------------------------------------------------------------


def test_other_directories_are_skipped(runs: Path) -> None:
    make_run(runs / "a")
    make_run(runs / "a.part")
    (runs / "data").mkdir()
    (runs / "gone").symlink_to("nowhere")
    (runs / "linked").symlink_to("a")
    assert {each.name for each in summarise_all(runs)} == {"a", "linked"}


# --- speed --------------------------------------------------------------------------------------


def test_newest_run_is_run_with_newest_checkpoint(runs: Path) -> None:
    """A failed resume writes the lock, but does not make its run the default."""
    for name, age in (("old", 500), ("new", 100)):
        make_run(runs / name, [train(100), valid(100, 3.0)])
        written(runs / name, age)
    for path in ("log.jsonl", "lock", "dev"):
        (runs / "old" / path).touch()
    os.utime(runs / "old")
    assert newest_run((), runs) == runs / "new"
    os.utime(runs / "old" / "checkpoints")
    assert newest_run((), runs) == runs / "old"


def test_newest_run_has_a_checkpoint_and_the_objective(nmt: Command, runs: Path) -> None:
    names = {"translates": 400, "encoder": 300, "no-checkpoint": 200, "damaged": 100}
    for name, age in names.items():
        run = make_run(runs / name, steps=[] if name == "no-checkpoint" else [100])
        if name == "encoder":
            config = changed_config(load_config(run.config), ["training.objective=denoising"])
            run.config.write_text(dump_config(config))
        if name == "damaged":
            run.config.write_text("training: [")
        written(run.path, age)
    assert newest_run((), runs) == runs / "damaged"
    assert newest_run(("translation",), runs) == runs / "translates"
    with pytest.raises(
        CheckpointError, match=r"no run that this command can use; .*damaged/config.yaml: not valid YAML"
    ):
        newest_run(("causal",), runs)
    damaged, chosen, _ = nmt("evaluate", "--history").err.splitlines()
    assert "runs/damaged/config.yaml" in damaged and "using runs/translates" in chosen


# --- The learning curve of a run ---


def test_curve_has_row_per_validation(nmt: Command) -> None:
    records = [
        valid(100, 9.0, perplexity=9.0), valid(100, 8.0, "ema"), train(150),
        valid(200, 9.0), valid(200, 9.5, "average", perplexity=9.5), {"kind": "valid", "step": 300, "bleu": "damaged"},
    ]  # fmt: skip
    make_run(Path("run"), records)
    done = nmt("runs", "--curve", "run", "--format", "markdown")
    assert done.status == 0, done.err
    assert done.out.splitlines() == [
        "| minutes | steps | BLEU raw | moving average | mean of the last | chrF | perplexity |",
        "| --: | --: | --: | --: | --: | --: | --: |",
        "| 1.0 | 100 | 9.0 | 8.0 |  | 18.0 | 9.00 |",
        "| 2.0 | 200 | 9.0 |  | 9.5 | 19.0 | 9.50 |",
    ]
    first, last = json.loads(nmt("runs", "--curve", "run", "--format=json").out)
    of_best = {"chrf": 18.0, "perplexity": 9.0, "accuracy": None}
    assert first == {"step": 100, "minutes": 1.0, "bleu": {"raw": 9.0, "ema": 8.0}, **of_best}
    assert last["bleu"] == {"raw": 9.0, "average": 9.5}
