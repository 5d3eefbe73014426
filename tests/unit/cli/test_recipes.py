"""Tests of the command `nmt rerank` with untrained runs of both directions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import Command
from nmt.config.load import changed_config
from nmt.evaluate.metrics import corpus_score
from nmt.text.tokenizer import Tokenizer
from nmt.translate.loading import Translator
from nmt.translate.types import Translation
from tiny_run import PLAIN, tiny_config, tiny_model, write_run

LINES = [*PLAIN[:5], "", *PLAIN[5:]]
N_BEST = 6
"""A number of candidates above the config's beam size."""


@pytest.fixture(autouse=True)
def folder(tokenizer: Tokenizer, tmp_path: Path) -> None:
    forward, backward = (
        changed_config(
            tiny_config(), [f"data.direction={direction}", "search.max_length_ratio=0", "search.max_length_offset=7"]
        )
        for direction in ("de-en", "en-de")
    )
    for name, config, seed in (("there", forward, 3), ("back", backward, 4), ("other", forward, 5)):
        write_run(tmp_path / "runs" / name, config, tokenizer, tiny_model(config, tokenizer, seed))
    write("in.de", LINES)


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(name: str) -> list[str]:
    return Path(name).read_text(encoding="utf-8").splitlines()


RUNS = ("--run", "runs/there", "--reverse", "runs/back", "--src", "in.de")
OTHER = ("--rescore", "runs/other")


def candidates() -> list[list[Translation]]:
    translator = Translator.load("runs/there")
    return [*translator.translate_lines(LINES, translator.search_settings({"beam": N_BEST}), N_BEST)]


def test_rerank_chooses_highest_sum_of_scores(nmt: Command) -> None:
    done = nmt("rerank", *RUNS, *OTHER, "--n-best", N_BEST, "--output", "out.en")
    assert (done.status, done.out) == (0, ""), done.err
    back, other = (Translator.load(f"runs/{name}") for name in ("back", "other"))
    expected, n_changed = [], 0
    for line, translations in zip(LINES, candidates(), strict=True):
        if not line:
            expected.append("")
            continue
        texts = [each.text for each in translations]
        channel = [one.score for one in back.score([(text, line) for text in texts])]
        rescored = [one.score for one in other.score([(line, text) for text in texts])]
        sums = [sum(each) for each in zip([each.score for each in translations], channel, rescored, strict=True)]
        expected.append(texts[sums.index(max(sums))])
        n_changed += sums.index(max(sums)) > 0
    assert read("out.en") == expected and n_changed > 2 and not Path("out.en.part").exists()
    assert done.err.splitlines()[-1] == f"nmt: lines 9, {n_changed} of them with another candidate than the first"


def test_tuned_weights_are_written_and_used(nmt: Command) -> None:
    write("ref.en", [translations[-1].text or "x" for translations in candidates()])
    tune = ("rerank", *RUNS, *OTHER, "--n-best", N_BEST, "--tune", "--ref", "ref.en", "--metric", "chrf")
    Path("again.json").touch()
    for file in ("again.json", "w.json"):  # an existing file of weights is replaced
        done = nmt(*tune, "--weights-file", file)
        assert (done.status, done.err.splitlines()[-1]) == (0, f"nmt: {file}: written"), done.err
    assert Path("again.json").read_bytes() == Path("w.json").read_bytes()
    tuned = json.loads(Path("w.json").read_text())

    assert [*tuned["weights"]] == ["direct", "channel", "other", "length"] and tuned["weights"]["direct"] == 1.0
    assert tuned["direct"] < tuned["reranked"] <= tuned["oracle"]
    assert (tuned["src"], tuned["ref"], tuned["lines"]) == ("in.de", "ref.en", 9)
    assert tuned["search"].startswith(f"beam {N_BEST}, length penalty power 1")
    assert tuned["runs"]["channel"] == [{"run": "runs/back", "step": 7, "weights": "raw"}]
    title, direct, _, _, weights, signature = done.out.splitlines()
    assert title.startswith("chrF of ref.en, 9 lines, ") and weights.startswith("weights: direct 1, channel ")
    assert (direct.split()[:2], signature) == (["direct", f"{tuned['direct']:.2f}"], tuned["signature"])

    use = ("rerank", *RUNS, *OTHER, "--n-best", N_BEST, "--weights-file")
    assert nmt(*use, "w.json", "--output", "out.en").status == 0
    assert corpus_score("chrf", read("out.en"), read("ref.en")).value == pytest.approx(tuned["reranked"])
    tuned["weights"] |= {"channel": 0, "other": 0.0, "length": 0.0}  # integers are valid weights
    Path("zero.json").write_text(json.dumps(tuned))
    done = nmt(*use, "zero.json")
    assert done.out.split("\n")[:-1] == [best.text for best, *_ in candidates()], done.err
    assert corpus_score("chrf", done.out.splitlines(), read("ref.en")).value == pytest.approx(tuned["direct"])


@pytest.mark.parametrize(
    ("refs", "options", "metric"),
    [("x", (), "chrf"), ("x", ("--metric", "bleu"), "bleu"), ("one two three four", (), "bleu")],
)
def test_weights_are_tuned_by_chrf_unless_references_have_four_grams(
    nmt: Command, refs: str, options: tuple[str, ...], metric: str
) -> None:
    write("ref.en", [refs] * len(LINES))
    done = nmt("rerank", *TUNE, "--ref", "ref.en", *options)
    assert json.loads(Path("w.json").read_text())["metric"] == metric
    assert ("0 of 9 references" in done.err) == (refs == "x")


def test_candidates_are_read_from_n_best_file(nmt: Command) -> None:
    beam = ("--beam", N_BEST, "--n-best", N_BEST)
    assert nmt("translate", "--run", "runs/there", "--input", "in.de", "--output", "n-best", *beam).status == 0
    translated, from_file = nmt("rerank", *RUNS, *beam), nmt("rerank", *RUNS, "--n-best-file", "n-best")
    assert (from_file.status, from_file.out) == (0, translated.out)
    write("n-best", read("n-best")[:-N_BEST])
    done = nmt("rerank", *RUNS, "--n-best-file", "n-best", "--output", "out.en")
    assert (done.status, done.err) == (
        2, "nmt: n-best: no candidates for line 9 of in.de, found the end of the file instead\n",
    )  # fmt: skip
    assert not Path("out.en").exists()


TUNE = (*RUNS, "--n-best", "1", "--tune", "--weights-file", "w.json")
TO_TUNE = "--tune needs --src F, --ref F and --weights-file F, and cannot be combined with --output"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*RUNS, "--tune", "--ref", "in.de"), TO_TUNE),
        (TUNE, TO_TUNE),
        ((*TUNE, "--ref", "in.de", "--output", "out"), TO_TUNE),
        ((*RUNS, "--ref", "in.de"), "--ref and --metric need --tune; "),
        ((*RUNS, "--metric", "bleu"), "--ref and --metric need --tune; "),
        ((*RUNS, "--n-best-file", "short", "--beam", "4"), "--n-best-file cannot be combined with --n-best and --beam"),
        ((*RUNS, "--n-best", "8", "--beam", "4"), "n_best: 8 needs a beam of at least 8, found search.beam 4"),
        ((*RUNS, "--output", "in.de"), "in.de: is an input and would be overwritten"),
        ((*TUNE, "--ref", "short"), "in.de has 9 lines, short 1: they must pair line by line"),
        ((*TUNE, "--ref", "nowhere"), "nowhere: no such file"),
        ((*RUNS[:4], "--src", "nowhere"), "nowhere: no such file"),
        ((*TUNE[:4], "--src", "empty", *TUNE[6:], "--ref", "empty"), "empty: is empty; there is nothing to tune on"),
        (
            ("--run", "runs/there", "--reverse", "runs/other", "--src", "in.de"),
            "--reverse runs/other: translates de-en; with this --run it must translate en-de",
        ),
        (
            (*RUNS, "--rescore", "runs/back"),
            "--rescore runs/back: translates en-de; with this --run it must translate de-en",
        ),
        (
            (*RUNS, *OTHER, *OTHER),
            "--rescore runs/other: another --rescore or --lm has the same name, other",
        ),
        ((*RUNS, "--weights-file", "nowhere"), "nowhere: no such file; create it with --tune"),
        ((*RUNS, "--weights-file", "short"), "short: damaged: "),
        (
            (*RUNS, *OTHER, "--weights-file", "w.json"),
            "w.json: has weights for direct, channel, length, but these runs need direct, channel, other, length; tune",
        ),
        ((*RUNS, "--set", "training.seed=2"), "--set training.seed=2: only search.* settings can be changed here"),
    ],
)
def test_invalid_rerank_options_are_rejected(nmt: Command, options: tuple[str, ...], message: str) -> None:
    write("short", ["a"])
    write("empty", [])
    member = {"run": "a", "step": 1, "weights": "raw"}
    Path("w.json").write_text(json.dumps({
        "format": 1, "nmt": "0", "weights": {"direct": 1, "channel": 1, "length": 0}, "metric": "bleu",
        "signature": "s", "direct": 1.0, "reranked": 1.0, "oracle": 1.0, "src": "s", "ref": "r", "lines": 1,
        "candidates": 1, "n_best": 1, "search": "s", "tried": 1, "seed": 1, "run": [member], "reverse": [member],
        "rescore": {},
    }))  # fmt: skip
    before = Path("w.json").read_bytes()
    result = nmt("rerank", *options)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"nmt: {message}") and result.err.count("\n") == 1
    assert Path("w.json").read_bytes() == before
