"""The benchmark of translation beside other toolkits: what can be known without them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.config.load import load_config
from nmt.text.tokenizer import Tokenizer, train_tokenizer
from scripts.bench import rate, translate
from scripts.bench.install import FailedError, torch_of
from scripts.bench.model import brief, model_of, train
from scripts.bench.peer import Loaded, Output, Peer, Search, spelled
from scripts.bench.peers import PEERS, ctranslate2, nmt
from scripts.bench.task import MEASURED, THREADS, Plan
from scripts.bench.testset import plain, prepare_own, prepare_test
from scripts.bench.translate_table import FORCED, FREE, Row, best_peer, render

BEAM, GREEDY, BEAM_ALONE, GREEDY_ALONE = FORCED.values()
WORDS = ["ein", "Haus", "steht", "am", "Meer", "und", "der", "Hund", "sieht", "das", "Boot", "fährt"]


def result(rate_: float, **changes: Any) -> dict[str, Any]:
    """A result of a toolkit's process."""
    return {
        "tgt_per_s": rate_, "pairs_per_s": rate_ / 15, "quiet_windows": 2, "windows": 2, "start_s": 2.0,
        "peak_rss_mb": 500.0, "pieces_least": 15, "pieces_most": 15, "pieces_mean": 15.0, "threads": THREADS,
        "note": "", **changes,
    }  # fmt: skip


def row(name: str, *rates: float | None, search: Search = BEAM, **changes: Any) -> Row:
    """A toolkit that was measured at equal work."""
    return Row(PEERS[name], {search: [None if each is None else result(each, **changes) for each in rates]})


def test_the_table_of_equal_work() -> None:
    rows = [
        row("nmt-auto", 500, 520, 540, note="bf16"),
        row("eole", 1200, search=GREEDY),
        row("onmt", 190, 190, 190, quiet_windows=0, threads=1),
        row("hf", None, 100, 110, peak_rss_mb=600.0, start_s=3.0),
        Row(PEERS["sockeye"], {FREE[0]: [result(20)]}),
        Row(PEERS["joeynmt"], {search: [None] * 3 for search in FORCED.values()}, problem="its training failed"),
    ]
    lines = render(rows, "").split("\n")
    assert lines[:8] == [
        "| pieces/s (rounds) | beam 5 | greedy | beam 5, one by one | greedy, one by one | peak MB | start-up s |",
        "|---|---|---|---|---|---|---|",
        "| nmt auto (bf16) | 520 (500 / 520 / 540) | – | – | – | 500 | 2.0 |",
        "| Eole 0.6.4 | – | 1,200 (1,200) | – | – | 500 | 2.0 |",
        "| OpenNMT-py 3.5.1 | 190 (190* / 190* / 190*) | – | – | – | 500 | 2.0 |",
        "| Hugging Face Marian 5.23.0 | 105 (failed / 100 / 110) | – | – | – | 600 | 3.0 |",
        "| JoeyNMT 2.3.0 | failed | failed | failed | failed | – | – |",
        "",
    ]
    assert lines[-5:] == [
        "JoeyNMT 2.3.0: its training failed",
        "* no window was quiet: the median of all",
        "OpenNMT-py 3.5.1: its torch had 1 threads, not 2",
        "Sockeye 3.1.34: it has no minimum length",
        "JoeyNMT 2.3.0: its own command does not hand the minimum length on; here it is",
    ]


def test_ratios_are_those_of_the_same_round_to_the_best_in_each_search() -> None:
    ours = row("nmt-auto", 500, 520, 600, note="bf16")
    ours.rounds[GREEDY] = [result(900), None, result(800)]
    eole, hf, ct2 = row("eole", 200, 260, 200), row("hf", 190, 190, 190), row("ct2-int8", 1000, 1000, 1000)
    hf.rounds[GREEDY] = [result(600), result(600), result(1000)]
    eole.rounds[GREEDY] = [result(590)] * 3
    bf16 = row("eole-bf16", 100, search=GREEDY_ALONE)
    lines = render([ours, ct2, eole, bf16, hf], "").split("\n")
    begin = lines.index("") + 1
    assert lines[begin:] == [
        "| ratio (by round) | beam 5 | greedy | beam 5, one by one | greedy, one by one |",
        "|---|---|---|---|---|",
        "| nmt auto (bf16) / best PyTorch peer in float32 | 2.50 (2.00 to 3.00), Eole 0.6.4 "
        "| 1.15 (0.80 to 1.50), Hugging Face Marian 5.23.0 | – | – |",
        "| nmt auto (bf16) / CTranslate2 4.8.5 int8 | 0.52 (0.50 to 0.60) | – | – | – |",
        "",
    ]


def test_the_best_peer_is_none_of_ours_and_runs_on_pytorch() -> None:
    rows = [row("nmt-float32", 900), row("ct2-float32", 800), row("hf", 100), row("eole", 90), row("hf-bf16", 120)]
    names = [best.peer.name for kind in ("float32", "bf16") if (best := best_peer(rows, BEAM, kind)) is not None]
    assert names == ["hf", "hf-bf16"]
    assert best_peer(rows[:2], BEAM, "float32") is best_peer(rows, GREEDY, "float32") is None


def test_the_table_of_free_lengths() -> None:
    beam, greedy = FREE
    rows = [
        Row(PEERS["hf"], {beam: [result(750, pieces_mean=12.5)], greedy: [None]}, {beam: 13.25}, "took too long: log"),
        Row(PEERS["fairseq"], {greedy: [result(30, quiet_windows=0)]}, {greedy: 12.0}),
    ]
    text = render(rows, "BLEU|tok:13a").split("\n")
    assert text[2:] == [
        "| Hugging Face Marian 5.23.0 | 50.0 | 13.2 | 12.5 | failed | – | – |",
        "| fairseq 0.12.2 | – | – | – | 2.0* | 12.0 | 15.0 |",
        "",
        "BLEU: BLEU|tok:13a",
        "Hugging Face Marian 5.23.0: took too long: log",
        "* no window was quiet: the median of all",
    ]


def test_what_is_measured_is_whole_passes_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    calls: list[int] = []

    def translate(lines: Sequence[str]) -> list[Output]:
        calls.append(len(lines))
        clock[0] += 0.04 * len(lines)
        return [spelled([line] * 15) for line in lines]

    monkeypatch.setattr("scripts.bench.rate.time.time", lambda: clock[0])
    monkeypatch.setattr(rate, "other_processes", lambda: 0.0)
    found = rate.measure(Loaded(translate), ["wort"] * 50, Search(beam=5, batch=8, pieces=15), seconds=9.0)
    assert calls == [16, 50, 50, 50, 50, 50]
    assert found["tgt_per_s"] == pytest.approx(15 / 0.04)
    assert found["pairs_per_s"] == pytest.approx(1 / 0.04)
    assert (found["passes"], found["windows"], found["quiet_windows"]) == (5, 1, 1)
    assert (found["pieces_least"], found["pieces_most"], found["pieces_mean"]) == (15, 15, 15.0)
    assert found["translations"] == ["wort " * 14 + "wort"] * 50


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A folder of the text with the tokenizer of nmt's data, and SentencePiece's of the peers, which is the same."""
    lines = [f"{' '.join(WORDS[i % 7 :])} {i}" for i in range(300)]
    own = train_tokenizer(lines, 400)
    for path in (tmp_path / "text" / "bpe.model", tmp_path / "text" / "nmt" / "data" / "tokenizer" / "joint.model"):
        path.parent.mkdir(parents=True, exist_ok=True)
        own.save(path)
    for language in ("de", "en"):
        path = tmp_path / "data" / f"test_2016_flickr.{language}"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line} {language} \n" for line in lines[:20]), encoding="utf-8")
    return tmp_path / "text"


def test_pieces_are_plain_text_again(text: Path, tmp_path: Path) -> None:
    reference = prepare_test(tmp_path / "data", text)
    prepare_own(text)
    raw = (text / "raw.test.de").read_text(encoding="utf-8").splitlines()
    assert len(raw) == len(reference) == 20
    assert reference[0] == raw[0].removesuffix("de") + "en"
    for name in ("eole", "ct2-int8", "nmt-auto"):
        decoding = PEERS[name].decoding
        assert decoding is not None
        source = (text / f"{decoding.source}.de").read_text(encoding="utf-8").splitlines()
        assert [line.strip() for line in plain(decoding, text, source)] == raw
    own = Tokenizer.load(text / "nmt" / "data" / "tokenizer" / "joint.model")
    assert (text / "nmt" / "pieces.test.de").read_text(encoding="utf-8").split("\n")[0].split(" ") == own.pieces(
        own.encode(raw[0])
    )


def test_every_toolkit_that_translates_has_a_model() -> None:
    for peer in PEERS.values():
        assert peer.decoding is not None
        assert PEERS[peer.decoding.model].training is not None
        assert (peer.training is None) or peer.decoding.model in (peer.name, "nmt-auto")
        assert (peer.decoding.export is None) == (not peer.decoding.exported)
    assert not torch_of(ctranslate2.ARMS[0])
    assert torch_of(PEERS["hf-bf16"])


def test_all_learn_for_equally_many_updates(tmp_path: Path) -> None:
    plan = brief(600)
    assert plan.peak_lr < MEASURED.peak_lr < 2 * plan.peak_lr
    for peer in PEERS.values():
        if peer.training is None:
            continue
        run = tmp_path / peer.name
        run.mkdir()
        words = peer.training.arguments(tmp_path / "text", run, plan)
        written = " ".join([*words, *(file.read_text(encoding="utf-8") for file in run.iterdir())])
        assert "600" in written and str(plan.batch_tokens) in written, peer.name
    arm = nmt.ARMS[0].training
    assert arm is not None
    config = load_config(tmp_path / "nmt-auto" / "bench.yaml")
    assert (config.training.max_steps, config.training.update_tokens) == (600, plan.batch_tokens)
    assert Plan(*plan) == plan


def test_a_model_is_made_once_and_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    status = [1, 0]

    def run_python(peer: Peer, _: Path, words: Sequence[object], **__: object) -> int:
        done.append(f"{peer.name} {words[1]}")
        return status.pop(0)

    monkeypatch.setattr("scripts.bench.model.install", lambda *_: None)
    monkeypatch.setattr("scripts.bench.model.convert", lambda *_: None)
    monkeypatch.setattr("scripts.bench.model.run_python", run_python)
    monkeypatch.setattr("scripts.bench.model.logged", lambda command, _: done.append(" ".join(command[3:8])))
    peer = PEERS["ct2-int8"]
    assert peer.decoding is not None
    with pytest.raises(FailedError, match=r"its training failed: .*learn-nmt-auto\.log"):
        model_of(peer.decoding, tmp_path, tmp_path, brief(600))
    for _ in range(2):
        folder = model_of(peer.decoding, tmp_path, tmp_path, brief(600))
    assert folder == tmp_path / "models" / "nmt-auto-600" / "ctranslate2-int8" / "model"
    assert done == ["nmt-auto scripts.bench.learn"] * 2 + ["export --format ctranslate2 --quantization int8"]
    with pytest.raises(FailedError, match="does not train"):
        train(replace(peer, name="other"), tmp_path, tmp_path, brief(600))


def test_what_is_measured_in_which_order(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_test(tmp_path / "data", text)
    ran: list[str] = []

    def run_python(peer: Peer, _: Path, words: Sequence[object], **__: object) -> int:
        options = dict(zip(words[3::2], words[4::2], strict=True))
        ran.append(f"{peer.name} {options['--beam']} {options['--batch']} {options['--pieces']} {options['--lines']}")
        if peer.name == "hf":
            return 1
        changes = {"pieces_least": 14} if peer.name == "eole" and options["--beam"] == 1 else {}
        translations = [f"{' '.join(WORDS)}"] * 20
        Path(str(options["--out"])).write_text(json.dumps(result(90, **changes) | {"translations": translations}))
        return 0

    monkeypatch.setattr(translate, "prepare_text", lambda *_: text)
    monkeypatch.setattr(translate, "install", lambda *_: None)
    monkeypatch.setattr(translate, "model_of", lambda *_: tmp_path)
    monkeypatch.setattr(translate, "run_python", run_python)
    words = ["--peers", "nmt-auto,hf,sockeye,eole", "--parts", "free,force"]
    places = ["--data", str(tmp_path / "data"), "--dir", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["translate.py", *words, *places])
    bench = translate.Bench(translate.parse())
    bench.prepare()
    bench.measure()
    forced = [(5, 64, 20), (1, 64, 20), (5, 1, 50), (1, 1, 50)]
    assert ran == [
        *(f"{name} {beam} 64 0 20" for beam in (5, 1) for name in ("nmt-auto", "hf", "sockeye", "eole")),
        *[f"{name} {beam} {batch} 15 {n}" for beam, batch, n in forced for name in ("nmt-auto", "hf", "eole")] * 2,
    ]
    ours, hf, sockeye, eole = bench.rows
    assert (ours.problem, sockeye.problem) == ("", "")
    assert hf.problem.startswith("was not measured: ")
    assert eole.problem.startswith("made translations of 14 to 15 pieces, not 15: ")
    assert [len(eole.results(search)) for search in (*FREE, *FORCED.values())] == [1, 1, 2, 0, 2, 0]
    assert [len(row.rounds.get(BEAM, [])) for row in bench.rows] == [2, 2, 0, 2]
    assert set(ours.bleu) == set(FREE) and "tok:13a" in bench.signature
    records = [json.loads(line) for line in (tmp_path / "translate.jsonl").read_text().splitlines()]
    assert len(records) == len(ran)
    assert not any("translations" in record for record in records)


def test_errors_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, problem in (
        (["--data", str(tmp_path)], "no test_2016_flickr.de, test_2016_flickr.en; data/README.md says"),
        (["--peers", "eole,marian"], "--peers: no marian; there are nmt-float32"),
        (["--parts", "fast"], "--parts: no fast; there are force, free"),
        (["--seconds", "2"], "--seconds: a window has 5"),
    ):
        monkeypatch.setattr(sys, "argv", ["translate.py", "--dir", str(tmp_path / "home"), *words])
        with pytest.raises(SystemExit) as end:
            translate.main()
        assert end.value.code == 2
        assert problem in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "home").exists()
