"""Tests of the combinations of options that commands refuse."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import pytest
import typer.main

from command import Command
from nmt.cli import app
from nmt.cli.refusals import refusals

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def conditions() -> Iterator[tuple[str, str]]:
    """Yield each command with each condition under which it refuses options."""
    for command in COMMANDS:
        for of_message in refusals(command).values():
            yield from ((command, condition) for condition in of_message)


def test_every_refusal_is_of_a_command() -> None:
    table = files("nmt.cli").joinpath("refusals.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert {row.split("\t")[0] for row in table} <= COMMANDS.keys()
    assert len([*conditions()]) >= len(table)


@pytest.mark.parametrize(("command", "condition"), [*conditions()])
def test_condition_names_parameters_of_command(command: str, condition: str) -> None:
    params = COMMANDS[command].params
    known = {param.metavar if param.param_type_name == "argument" else param.opts[0] for param in params}
    for word in condition.split():
        if word.islower() and not word.startswith("-"):  # with, without, or a mode
            continue
        for name in word.split("|"):
            # evaluate and compare share a list of options, of which compare lacks two
            assert name.partition("=")[0] in known | {"--samples", "--via"}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("robustness --src a", "--ref"),
        ("robustness --ref a", "--src"),
        ("evaluate --hyp a --ref b --beam 1 --from de", "--from, --beam: "),
        ("compare --hyp a b --ref c --data d", "--data: "),
        ("evaluate --hyp a --ref b --length-penalty 0", "--length-penalty: "),
        ("evaluate --samples 2 --format json", "--format json"),
        ("translate --int8 --engine native", "--engine ctranslate2"),
        ("export --output x --quantization int8 --format transformers", "--quantization"),
        ("filter --src a --tgt b", "--classifier"),
        ("generate --beam 2 --top-k 3 --seed 0", "--top-k, --seed: "),
        ("runs here --curve there", "here and --curve there"),
        ("prepare --sample 10 --force --data d", "--data, --force: "),
        ("data show Europarl de-en --output o --format csv", "--output, --format: "),
        ("translate --workers 2 --input a --output -", "--input and --output"),
        ("translate --engine ray --input a --output b --tm m", "--tm: "),
        ("translate --input a.docx --output b.docx --n-best 2 --engine ray", "--n-best, --engine ray: "),
        ("translate --input a.docx --output b.docx --confidence", "--bilingual"),
    ],
)
def test_options_that_exclude_each_other_are_refused(line: str, named: str, nmt: Command) -> None:
    result = nmt(*line.split())
    assert result.status == 2 and named in result.err


def test_option_with_default_value_is_not_refused(nmt: Command) -> None:
    assert "--weights" not in nmt("evaluate", "--hyp", "x.de", "--ref", "x.de", "--weights", "auto").err
