"""`nmt robustness` with an untrained run and two files."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import Command
from nmt.text.tokenizer import Tokenizer
from nmt.translate.loading import Translator
from tiny_run import PLAIN, write_run


@pytest.fixture(autouse=True)
def folder(tokenizer: Tokenizer, translator: Translator, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "tiny", translator.config, tokenizer, translator.searcher.models[0])
    Path("in.de").write_text("".join(f"{line}\n" for line in PLAIN))
    Path("ref.en").write_text("".join(f"{line}\n" for line in reversed(PLAIN)))
    Path("empty").touch()
    Path("short").write_text("a\n")


FILES = ("--run", "runs/tiny", "--src", "in.de", "--ref", "ref.en")
QUICK = ("--beam", "1", "--set", "search.max_length_ratio=0", "--set", "search.max_length_offset=7")


def test_robustness_prints_table_and_writes_files(nmt: Command) -> None:
    result = nmt("robustness", *FILES, *QUICK, "--rates", "20,100", "--changes", "typos,umlauts", "--output", "a/b")
    assert result.status == 0, result.err
    assert result.err.splitlines()[0].startswith("nmt: 22 lines to translate: 8 unchanged, 14 changed")
    rows = [line.split()[:2] for line in result.out.splitlines()]
    assert rows[1][0] == "none" and rows[2:4] == [["typos", "20"], ["typos", "100"]]
    assert "lines 8, run runs/tiny, step 7, weights raw, search beam 1" in result.out
    assert "ref ref.en, seed 1\nnote: skipped, because they would change no line: umlauts" in result.out
    names = [f"{name}.{language}" for name in ("original", "typos-20", "typos-100") for language in ("de", "en")]
    assert {path.name for path in Path("a/b").iterdir()} == {*names}
    assert Path("a/b/original.de").read_text() == Path("in.de").read_text() != Path("a/b/typos-100.de").read_text()
    assert Path("a/b/original.en").read_text().count("\n") == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--src", "in.de"), "--src F and --ref F must be given together"),
        ((*FILES, "--split", "test"), "--split and --data cannot be combined with --src and --ref"),
        (
            (*FILES, "--changes", "typos,x"),
            "--changes typos,x: no such kind of change: 'x'; choose from typos, upper_case, ",
        ),
        ((*FILES, "--changes", "typo"), "--changes typo: no such kind of change: 'typo'; did you mean typos?\n"),
        ((*FILES, "--rates", "5,101"), "--rates 5,101: must be percentages above 0 and at most 100, such as 1,5,10"),
        ((*FILES, "--rates", "nan"), "--rates nan: must be percentages"),
        ((*FILES, "--rates", "a"), "--rates a: must be percentages"),
        (("--run", "runs/tiny", "--src", "nowhere", "--ref", "ref.en"), "nowhere: no such file"),
        (("--run", "runs/tiny", "--src", "empty", "--ref", "empty"), "empty and empty are empty: "),
        (("--run", "runs/tiny", "--src", "in.de", "--ref", "short"), "short has 1 line, in.de has 8 lines"),
        ((*FILES, "--changes", "accents"), "ref.en: accents would change none of the 8 lines"),
        (
            (*FILES, "--output", "short"),
            "short: cannot be written: File exists; a directory is needed",
        ),
        ((*FILES, "--set", "training.seed=2"), "--set training.seed=2: only search.* settings can be changed here\n"),
        (
            (*FILES, "--set", "beam=2"),
            "--set beam=2: only search.* settings can be changed here; did you mean search.beam?",
        ),
    ],
)
def test_invalid_robustness_options_print_one_line(nmt: Command, options: tuple[str, ...], message: str) -> None:
    result = nmt("robustness", *options)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith(f"nmt: {message}")
