"""The benchmark beside other toolkits: what can be known without them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from nmt.config.load import load_config
from nmt.data.batching import Pairs
from nmt.data.corpus import Corpus
from nmt.layout import DataDir
from nmt.training.loop import fit
from scripts.bench import train
from scripts.bench.install import FailedError, logged
from scripts.bench.once import once
from scripts.bench.peer import Counts
from scripts.bench.peers import PEERS, nmt
from scripts.bench.probe import Meter, find, other_processes
from scripts.bench.table import Row, render
from scripts.bench.task import MEASURED, NEVER, THREADS, VOCABULARY
from scripts.bench.text import prepare_text
from scripts.bench.windows import Step, Window, cut, summary
from tiny_corpus import tiny_settings

ONE = Counts(pairs=10, tgt=100, tgt_positions=125, src=90, src_positions=100)


def steps(*times: float, busy: tuple[float, float] = (0.0, 0.0)) -> list[Step]:
    """Equal steps that end at these times; other processes use a whole core between the two moments `busy`."""
    begin, end = busy
    return [Step(time, ONE, min(max(time, begin), end)) for time in times]


def test_windows_are_at_least_five_seconds_and_begin_at_the_end_of_a_step() -> None:
    found = cut(steps(1, 3, 5, 7, 9, 11, 13, 15))  # 1 to 7, 7 to 13; 13 to 15 is too short
    assert found == [Window(50.0, 5.0, 0.0), Window(50.0, 5.0, 0.0)]


def test_only_what_comes_after_the_warm_up_counts() -> None:
    slow, fast = steps(0, 10, 20), steps(*range(22, 43, 2))
    found = summary(slow + fast, warm=20)
    assert found["tgt_per_s"] == 50.0
    assert (found["windows"], found["steps"], found["seconds"]) == (3, 11, 22)
    assert summary(slow + fast, warm=0)["tgt_per_s_of_windows"][0] == 10.0


def test_the_median_is_over_quiet_windows() -> None:
    fast, slow, again = steps(*range(11)), steps(15, 20, busy=(10, 20)), steps(*range(21, 31), busy=(10, 20))
    found = summary(fast + slow + again, warm=0)
    assert [round(rate) for rate in found["tgt_per_s_of_windows"]] == [100, 100, 20, 20, 100, 100]
    assert (found["tgt_per_s"], found["quiet_windows"], found["windows"]) == (100.0, 4, 6)
    loud = summary(steps(*range(11), busy=(0, 11)), warm=0)
    assert (loud["tgt_per_s"], loud["quiet_windows"], loud["others"]) == (100.0, 0, 1.0)


def test_padding_is_told_and_not_counted() -> None:
    found = summary(steps(*range(12)), warm=0)
    assert found["tgt_padding"] == pytest.approx(0.2)
    assert found["src_padding"] == pytest.approx(0.1)
    assert (found["tgt_per_step"], found["tgt_per_pair"]) == (100, 10)


def test_too_little_to_measure_is_an_error() -> None:
    for few in (steps(0), steps(0, 4), steps(0, 3, 6)):
        with pytest.raises(ValueError, match="do not fill one window"):
            summary(few, warm=3)


def result(rate: float, **changes: Any) -> dict[str, Any]:
    """A result of the probe."""
    made = summary(steps(*(i * 100 / rate for i in range(200))), warm=0)
    return {**made, "tgt_per_s": rate, "first_step_s": 4.0, "peak_rss_mb": 1000.0, "threads": THREADS, **changes}


def test_the_table_and_the_ratios() -> None:
    rows = [
        Row(PEERS["nmt-auto"], [result(300), result(330)]),
        Row(PEERS["eole"], [result(100), result(100)]),
        Row(PEERS["onmt"], [result(90), result(90, quiet_windows=0, threads=1)]),
        Row(PEERS["hf"], [None, result(50)], "was not measured: hf.log"),
        Row(PEERS["sockeye"], [None, None], "install sockeye failed: install-sockeye.log"),
    ]
    head, line, ours, eole, onmt, hf, sockeye, blank, *notes = render(rows).split("\n")
    assert {text.count("|") for text in (head, line, ours, eole, onmt, hf, sockeye)} == {10}
    assert ours.startswith("| nmt auto | 315 (300 / 330) | 3.15 |")
    assert eole.startswith("| Eole 0.6.4 | 100 (100 / 100) | 1.00 |")
    assert onmt.startswith("| OpenNMT-py 3.5.1 | 90 (90 / 90*) | 0.90 |")
    assert "| 50 (failed / 50) | 0.50 |" in hf
    assert sockeye.startswith("| Sockeye 3.1.34 | failed |")
    assert blank == ""
    assert notes == [
        "Hugging Face Marian 5.23.0: was not measured: hf.log",
        "Sockeye 3.1.34: install sockeye failed: install-sockeye.log",
        "* no window was quiet: the median of all",
        f"OpenNMT-py 3.5.1: its torch had 1 threads, not {THREADS}",
        "nmt auto / Eole 0.6.4: 3.15 (by round 3.00 to 3.30)",
    ]


def test_the_table_of_nmt_alone_has_no_ratio() -> None:
    assert "| nmt float32 | 300 (300) | – |" in render([Row(PEERS["nmt-float32"], [result(300)])])


def test_every_target_token_of_nmt_is_counted_once(
    tiny_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pairs, "batch", Pairs.batch)  # so that it is put back
    never = dict.fromkeys(("max_steps", "validate_every_steps", "save_every_steps"), 1000)
    config = tiny_settings(tiny_data.parent / "text", training={"max_epochs": 1, **never})
    meter = Meter(1e9, lambda _: None)
    training = PEERS["nmt-float32"].training
    assert training is not None
    handle = meter.watch(training)
    try:
        fit(config, tiny_data, tmp_path / "run")
    finally:
        handle.remove()
    split = Corpus.open(DataDir(tiny_data)).split("train")
    assert len(meter.steps) > 5
    real = [sum(step.counts[i] for step in meter.steps) for i in range(5)]
    assert real[0] == split.n
    assert real[1] == len(split.ids("bb")) + split.n
    assert real[3] == len(split.ids("aa")) + split.n
    assert real[2] >= real[1] and real[4] >= real[3]


@pytest.mark.parametrize("arm", nmt.ARMS, ids=lambda arm: arm.name)
def test_the_configuration_of_nmt_is_one(arm: Any, tmp_path: Path) -> None:
    arguments = arm.training.arguments(tmp_path / "text", tmp_path, MEASURED)
    sets = [word.removeprefix("--set=") for word in arguments if word.startswith("--set=")]
    config = load_config(arguments[arguments.index("--config") + 1], sets)
    assert config.tokenizer.vocab_size == VOCABULARY
    assert {value for name, value in config.model if name.endswith("_dropout")} == {0.1}
    assert config.training.max_steps == NEVER


def test_a_place_in_a_module_is_found() -> None:
    assert find("nmt.data.batching:Pairs.batch") == (Pairs, "batch")


def test_other_processes_use_some_time() -> None:
    assert other_processes() > 0


def test_what_was_left_half_made_is_made_again(tmp_path: Path) -> None:
    made = []

    def make() -> None:
        made.append(sorted(path.name for path in (tmp_path / "a").iterdir()))
        (tmp_path / "a" / "file").touch()
        if len(made) == 1:
            raise FailedError("half")

    with pytest.raises(FailedError):
        once(tmp_path / "a", "recipe", make)
    for recipe in ("recipe", "recipe", "another", "another"):
        once(tmp_path / "a", recipe, make)
    assert made == [[], [], []]


def test_a_command_that_fails_is_told_with_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "install-eole.log"
    with pytest.raises(FailedError, match=r"install eole failed: .*install-eole\.log"):
        logged([sys.executable, "-c", "import sys; print('why'); sys.exit(1)"], log)
    assert log.read_text().endswith("why\n")


def test_the_text_is_in_pieces(tmp_path: Path) -> None:
    rows = [f"{i} {i * 7919} wort" for i in range(3000)]
    for name in ("train.de", "train.en", "val.de", "val.en"):
        (tmp_path / name).write_text("".join(f"{row} {name[-2:]} \n" for row in rows), encoding="utf-8")
    folder = prepare_text(tmp_path, tmp_path / "home")
    pieces = (folder / "pieces.val.en").read_text(encoding="utf-8").splitlines()
    assert pieces[5].replace(" ", "").replace("▁", " ").strip() == f"{rows[5]} en"
    assert prepare_text(tmp_path, tmp_path / "home") == folder


def test_errors_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, problem in (
        (["--data", str(tmp_path)], "no train.de, train.en, val.de, val.en; data/README.md says"),
        (["--peers", "eole,marian"], "--peers: no marian; there are nmt-float32"),
    ):
        monkeypatch.setattr(sys, "argv", ["train.py", "--dir", str(tmp_path / "home"), *words])
        with pytest.raises(SystemExit) as end:
            train.main()
        assert end.value.code == 2
        assert problem in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "home").exists()
