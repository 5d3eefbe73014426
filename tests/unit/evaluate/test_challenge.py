"""`nmt challenge`: scores of contrasts, results by kind, files of pairs, and the command with a tiny run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from command import Command
from nmt.errors import DataError
from nmt.evaluate.challenge import (
    Challenge,
    ChallengeReport,
    ContrastOutcome,
    Probability,
    contrasts_json,
    of_published,
    score_contrasts,
    summarize,
    wilson,
)
from nmt.evaluate.contrasts import Contrast
from nmt.evaluate.report import Subject
from nmt.tables import render
from nmt.text.tokenizer import Tokenizer
from nmt.translate.loading import Translator
from nmt.translate.score import BLANK_SCORE, Context, Scored
from tiny_run import write_run

CONTRASTS = [
    Contrast("order", "s", "good line", ("bad line",), "test.1"),
    Contrast("order", "s", "bad line", ("good line",), "test.2"),
    Contrast("length", "s", "bad line here", ("good word",), "test.3"),
    Contrast("pronoun", "s", "fair", ("bad", "good"), "test.4"),
    Contrast("pronoun", "s", "good", ("bad", "fair"), "test.5"),
]
COST = {"good": -1.0, "fair": -2.0, "bad": -4.0}


def fake(pairs: Sequence[tuple[str, str, Context]]) -> list[Scored]:
    """Score lines by the costs of their words; words that are not in COST cost nothing."""
    assert len({*pairs}) == len(pairs), "each line is scored once"
    return [
        Scored((*line.split(),), tuple(COST.get(word, 0.0) for word in line.split()), 0.0, 0, "cut" in line)
        if line
        else BLANK_SCORE
        for _, line, _ in pairs
    ]


def test_contrast_is_right_only_if_reference_beats_every_wrong_line() -> None:
    outcomes, left_out = score_contrasts(CONTRASTS, fake)
    assert not left_out and [outcome.margin for outcome in outcomes] == [3.0, -3.0, -3.0, -1.0, 1.0]
    assert outcomes[2].margin_per_piece == pytest.approx(-4 / 3 + 1 / 2)
    summaries = [summarize(kind, outcomes) for kind in ("order", "length", "pronoun")]
    assert [(kind.pairs, kind.right, kind.margin) for kind in summaries] == [(2, 1, 0.0), (1, 0, -3.0), (2, 1, 0.0)]
    equal, _ = score_contrasts([Contrast("order", "s", "good line", ("line good",), "test.1")], fake)
    assert summarize("order", equal).right == 0


def test_blank_and_truncated_lines_are_skipped_and_counted() -> None:
    contrasts = [
        Contrast("order", "s", "good", ("",), "test.1"),
        Contrast("order", "s", "good", ("cut",), "test.2"),
        Contrast("order", "s", "good", ("bad",), "test.3"),
    ]
    outcomes, left_out = score_contrasts(contrasts, fake)
    assert [outcome.contrast for outcome in outcomes] == contrasts[2:]
    assert left_out == {"is blank": 1, "has more pieces than the model takes": 1}


@pytest.mark.parametrize(
    ("n", "n_right", "low", "high"), [(10, 9, 0.596, 0.982), (50, 50, 0.929, 1.0), (4, 0, 0.0, 0.49)]
)
def test_wilson_interval_matches_published_values(n: int, n_right: int, low: float, high: float) -> None:
    assert wilson(n_right, n) == pytest.approx((low, high), abs=1e-3)


def test_table_lists_kinds_without_pairs_and_subject() -> None:
    outcomes, _ = score_contrasts(CONTRASTS, fake)
    subject = Subject(run="runs/de-en", split="test", step=400, weights="raw", precision="float32")
    challenge = Challenge(CONTRASTS, 7, ("order", "length", "pronoun", "article"), seed=1)
    report = ChallengeReport(subject, challenge, tuple(outcomes), ("a note",))
    lines = render("text", [report.as_table()], None).split("\n")
    assert [line.split() for line in lines[1:5]] == [
        ["order", "2", "50.0", "9.5-90.5", "50.0", "0.00"],
        ["length", "1", "0.0", "0.0-79.3", "0.0", "-3.00"],
        ["pronoun", "2", "50.0", "9.5-90.5", "50.0", "0.00"],
        ["article", "0", "-", "-", "-", "-"],
    ]
    assert lines[5] == "lines 7, run runs/de-en, split test, step 400, weights raw, precision float32, seed 1"
    assert lines[-1] == "note: a note"


def test_written_pairs_are_read_back_unchanged(tmp_path: Path) -> None:
    outcomes = [
        ContrastOutcome(contrast, Probability(-1.0, 2), (Probability(-2.5, 3),))
        for contrast in (*CONTRASTS[:2], Contrast("length", "s", "bad line", ("bad",), "test.2"))
    ]
    several = Contrast("pronoun", "s", "bad line", ("he", "she"), "test.2")
    outcomes.append(ContrastOutcome(several, Probability(-1.0, 2), (Probability(-2.0, 1), Probability(-0.5, 1))))
    path = tmp_path / "pairs.json"
    path.write_text(contrasts_json(outcomes), encoding="utf-8")
    challenge = of_published(path)
    assert (challenge.contrasts, challenge.n_lines) == ([outcome.contrast for outcome in outcomes], 3)
    first = json.loads(path.read_text("utf-8"))[0]
    assert (first["log_prob"], first["errors"][0]["log_prob"], first["errors"][0]["n_pieces"]) == (-1.0, -2.5, 3)


# --- with a model -------------------------------------------------------------------------------


@pytest.fixture
def run_dir(tokenizer: Tokenizer, translator: Translator, tmp_path: Path) -> Path:
    Path("src").write_text("ta go 12\nmali bore\n\n", encoding="utf-8")
    Path("ref").write_text("ta go 12\nmali is here, and two men were there\n\n", encoding="utf-8")
    return write_run(tmp_path / "runs" / "tiny", translator.config, tokenizer, translator.searcher.models[0])


def test_challenge_command_scores_and_writes_pairs(nmt: Command, run_dir: Path, translator: Translator) -> None:
    result = nmt(
        "challenge", "--run", run_dir, "--src", "src", "--ref", "ref", "--output", "pairs.json", "--format=json"
    )
    assert (result.status, result.err) == (0, ""), result.err
    found = json.loads(result.out)
    assert {entry["kind"]: entry["pairs"] for entry in found["kinds"]} == {
        "name": 0, "number": 2, "clause dropped": 1, "negation removed": 0, "negation inserted": 1, "verb number": 1,
    }  # fmt: skip
    assert (found["lines"], found["ref"], found["split"], found["step"]) == (3, "ref", None, 7)
    entries = json.loads(Path("pairs.json").read_text("utf-8"))
    assert [entry["origin"] for entry in entries] == ["ref.1", "ref.2"]
    for entry in entries:
        lines = [entry["reference"], *(error["contrastive"] for error in entry["errors"])]
        expected = [scored.log_prob for scored in translator.score((entry["source"], line) for line in lines)]
        assert [entry["log_prob"], *(error["log_prob"] for error in entry["errors"])] == pytest.approx(
            expected, abs=1e-3
        )

    again = json.loads(nmt("challenge", "--run", run_dir, "--pairs", "pairs.json", "--format=json").out)
    shares = {entry["kind"]: entry["share"] for entry in found["kinds"] if entry["pairs"]}
    assert {entry["kind"]: entry["share"] for entry in again["kinds"]} == shares
    assert again["seed"] is None


def test_challenge_command_reads_contrastive_file(nmt: Command, run_dir: Path) -> None:
    Path("wrong").write_text("ta go 13\nmali is here, and two men were there\n\n", encoding="utf-8")
    result = nmt(
        "challenge", "--run", run_dir, "--src", "src", "--ref", "ref", "--contrastive", "wrong", "--samples", "1"
    )
    assert result.status == 0, result.err
    assert "note: pairs skipped because the changed translation equals the reference: 2\n" in result.out
    assert "ref ref and wrong\n" in result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--src", "src"), "--src F and --ref F must be given together, and --contrastive F requires both"),
        (("--src", "src", "--ref", "ref", "--pairs", "x"),
         "--split and --data, --src and --ref, and --pairs cannot be combined"),
        (("--pairs", "x", "--seed", "2"),
         "--seed: not available with --pairs or --contrastive, which contain the wrong translations"),
        (("--format=csv", "--samples", "2"),
         "--samples cannot be combined with --format csv; --output F writes all pairs"),
        (("--src", "src", "--ref", "ref", "--output", "ref"),
         "ref: is an input and would be overwritten; choose another output file"),
        (("--src", "src", "--ref", "none"), "none: no such file"),
        (("--src", "src", "--ref", "src", "--contrastive", "src"),
         "src and src: every changed translation equals its reference"),
        (("--src", "plain", "--ref", "plain"),
         "plain: no contrast could be made from its 1 lines (kinds: name, number, clause dropped, negation removed, "
         "negation inserted, verb number)"),
        (("--pairs", "src"),
         "src: the document: invalid json: expected ident at line 1 column 2; it must be the JSON of LingEval97 or "
         "ContraPro"),
    ],
)  # fmt: skip
def test_invalid_challenge_options_print_one_line(
    nmt: Command, run_dir: Path, options: tuple[str, ...], message: str
) -> None:
    Path("short").write_text("ta go 12\n", encoding="utf-8")
    Path("plain").write_text("ta go\n", encoding="utf-8")
    result = nmt("challenge", "--run", run_dir, *options)
    assert (result.status, result.out, result.err) == (2, "", f"nmt: {message}\n")


# --- Sets of contrasts that others have made, and what is wrong with files that are none ---


LINGEVAL = [
    {
        "source": "The dog barks",
        "reference": "Der Hund bellt",
        "origin": "newstest2009.1",
        "errors": [
            {"type": "np_agreement", "contrastive": "Die Hund bellt", "distance": 1, "frequency": 2020},
            {"type": "polarity_particle_nicht_ins", "contrastive": "Der Hund bellt nicht"},
        ],
    },
    {"source": "Hello", "reference": "Hallo", "origin": "newstest2009.2", "errors": []},
]
CONTRAPRO = [
    {
        "document id": "1.xml", "segment id": 3, "ante distance": 1, "intrasegmental": False,
        "src segment": "It barks.", "ref segment": "Er bellt.", "src pronoun": "It", "ref pronoun": "Er",
        "errors": [
            {"contrastive": "Sie bellt.", "type": "pronominal coreference", "replacement": "sie"},
            {"contrastive": "Es bellt.", "type": "pronominal coreference", "replacement": "es"},
        ],
    }
]  # fmt: skip


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "n_lines", "contrasts"),
    [
        (LINGEVAL, 2, [
            Contrast("np_agreement", "The dog barks", "Der Hund bellt", ("Die Hund bellt",), "newstest2009.1"),
            Contrast("polarity_particle_nicht_ins", "The dog barks", "Der Hund bellt", ("Der Hund bellt nicht",),
                     "newstest2009.1"),
        ]),
        (CONTRAPRO, 1, [Contrast("it:er", "It barks.", "Er bellt.", ("Sie bellt.", "Es bellt."), "a.json.1")]),
    ],
    ids=["LingEval97: one per error", "ContraPro: one per line"],
)  # fmt: skip
def test_published_contrasts_are_read(content: object, n_lines: int, contrasts: list[Contrast], tmp_path: Path) -> None:
    challenge = of_published(write(tmp_path / "a.json", content))
    assert (challenge.n_lines, challenge.contrasts) == (n_lines, contrasts)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2", "the document: invalid json: eof while parsing a list at line 1 column 5; it must be"),
        ('[{"source": "\\ud800", "reference": "", "errors": []}]', "the document: invalid json: "),
        ("{}", "the document: input should be a valid array; it must be the JSON of LingEval97 or ContraPro"),
        ([*LINGEVAL, {"source": "a"}], "entry 3, reference: field required; it must be"),
        ([{**LINGEVAL[0], "errors": [{"type": "x"}]}], "entry 1, errors.0.contrastive: field required; it must be"),
        ([{**LINGEVAL[0], "source": 1}], "entry 1, source: input should be a valid string; it must be"),
    ],
)
def test_malformed_contrast_files_raise(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(DataError, match=rf"/pairs\.json: {re.escape(message)}"):
        of_published(write(tmp_path / "pairs.json", content))
