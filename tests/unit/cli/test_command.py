"""Tests of invalid command lines, each of which is rejected in one line that suggests a correction."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command

from command import Command
from nmt.cli import app
from nmt.cli.command import OTHER_COMMANDS, OTHER_OPTIONS
from nmt.config.foreign import NO_SETTING, OTHER_NAMES
from nmt.config.load import dump_config, load_config
from nmt.config.messages import field_paths

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
OPTIONS = [
    (name, option)
    for name, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option" and not option.is_flag
]


def message(nmt: Command, *arguments: str) -> str:
    """Return the error message of an invalid command line."""
    result = nmt(*arguments)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    return result.err.removeprefix("nmt: ").removesuffix("; see --help\n")


@pytest.mark.parametrize(
    ("command", "option"),
    [pytest.param(name, each.opts[0], id=f"{name} {each.opts[0]}") for name, each in OPTIONS if not each.multiple],
)
def test_repeated_single_valued_option_is_rejected(command: str, option: str, nmt: Command) -> None:
    assert message(nmt, command, option, "1", f"{option}=2").startswith(f"{option} is given 2 times, 1 and 2; ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("translate", "--beam", "3", "--set", "search.beam=5"),
            "--beam 3 and --set search.beam=5 change the same setting; give only one",
        ),
        (
            ("score", "--src", "a", "--ref", "b", "--set", "search.length_penalty=0", "--length-penalty=1"),
            "--length-penalty 1 and --set search.length_penalty=0 change the same setting; give only one",
        ),
        *(
            (
                (*command, "--data", "x1", "--set", "data.dir=x2"),
                "--data x1 and --set data.dir=x2 change the same setting; give only one",
            )
            for command in (("prepare",), ("train",), ("sweep", "sample.yaml", "--grid", "training.seed=1,2"))
        ),
        (
            ("train", "--run", "x1", "--set", "training.run_dir=x2"),
            "--run x1 and --set training.run_dir=x2 change the same setting; give only one",
        ),
    ],
)
def test_setting_changed_by_option_and_set_is_rejected(arguments: tuple[str, ...], expected: str, nmt: Command) -> None:
    assert message(nmt, *arguments) == expected


# --- names of other toolkits --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("train --lr 1", "write --set training.peak_lr=VALUE, with the schedule noam, training.factor"),
        ("train --epochs 1", "write --set training.max_epochs=VALUE"),
        ("train --batch-size 64", "write --set training.update_tokens=VALUE, in target tokens"),
        ("train --max-update 1", "write --set training.max_steps=VALUE"),
        ("train --max_steps 1", "write --set training.max_steps=VALUE"),
        ("train --seed 1", "write --set training.seed=VALUE"),
        ("train --training.seed=1", "write --set training.seed=VALUE"),
        ("train --layers 1", "write --set KEY=VALUE, where KEY is model.encoder_layers or model.decoder_layers"),
        ("train --save-dir x", "write --run"),
        ("train -c x", "write --config"),
        ("train --num-workers 1", "the environment variable OMP_NUM_THREADS sets the number of threads"),
        ("translate --src x", "write --input"),
        ("translate -src x", "write --input"),
        ("translate --beam-size 1", "write --beam"),
        ("translate -beam 1", "write --beam"),
        ("translate --batch-size 1", "write --set search.batch_tokens=VALUE, in source tokens"),
        ("score --tgt x", "write --ref"),
        ("filter --ref x", "write --tgt"),
        ("evaluate -i x", "write --hyp or --src"),
        ("evaluate --spilt x", "write --split"),
        *(
            (line, "")
            for line in ("train --banana 1", "translate --epochs 3", "runs --lr 1", "evaluate --scorers bleu")
        ),
    ],
)
def test_unknown_option_suggests_equivalent_if_there_is_one(line: str, instead: str, nmt: Command) -> None:
    option = line.split()[1].partition("=")[0]
    assert message(nmt, *line.split()) == "; ".join(filter(None, [f"No such option: {option}", instead]))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("generate", "Ein Hund"), "write nmt generate --prefix 'Ein Hund'"),
        (("prepare", "mine.yaml"), "write nmt prepare --config mine.yaml"),
        (
            ("prepare", "--set", "data.max_chars=9", "data.max_pieces=9"),
            "--config data.max_pieces=9; for several values, repeat the option: --set",
        ),
        (("score", "runs/a", "runs/b"), "--run runs/a; for several values, repeat the option: --run, --set"),
        (("export", "runs/a", "--output", "b"), "write nmt export --run runs/a"),
        (
            ("train", "--resume", "r2"),
            "train --resume takes no arguments, found r2: write nmt train --resume --run r2",
        ),
        (
            ("prepare", "--append", "b.yaml"),
            "prepare --append takes no arguments, found b.yaml: write nmt prepare --append --config b.yaml",
        ),
        (("train", "--run", "a", "r2"), "write nmt train --config r2"),
        (("runs", "a", "b"), "runs takes one DIR, but also found b"),
        (("--lr", "3", "train"), "No such option: --lr; options of a command follow its name: nmt COMMAND --lr"),
        (("preprocess",), "No such command 'preprocess'; it is nmt prepare"),
        (("resume",), "it is nmt train --resume --run RUN"),
        (("help", "train"), "it is nmt --help, or nmt COMMAND --help"),
        (("pretrain",), "then nmt train --init-from RUN"),
        (("quantize",), "it is nmt export --format ctranslate2 --quantization int8 --output DIR"),
        (("trian",), "it is nmt train"),
        (("frobnicate",), "nmt --help lists the commands"),
    ],
)
def test_misused_words_suggest_correct_command_line(arguments: tuple[str, ...], expected: str, nmt: Command) -> None:
    assert message(nmt, *arguments).endswith(expected)


@pytest.mark.parametrize(
    ("arguments", "word"), [(["--input", "film.de"], "subtitles"), (["--model", "x"], "nmt export")]
)
def test_document_or_missing_model_is_rejected(nmt: Command, arguments: list[str], word: str) -> None:
    Path("film.de").write_text("1\n00:00:01,000 --> 00:00:02,000\nHallo.\n")
    found = message(nmt, "translate", *arguments)
    assert arguments[-1] in found and word in found


@pytest.mark.parametrize("line", ["translate --help foo", "evaluate -h --bogus", "train x --lr 1 --help"])
def test_help_takes_precedence_over_errors(line: str, nmt: Command) -> None:
    result = nmt(*line.split())
    assert (result.status, result.err) == (0, "") and result.out.startswith(f"Usage: nmt {line.split()[0]} ")


def test_ensemble_of_same_run_is_rejected(nmt: Command, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text(dump_config(load_config("sample.yaml")))
    (tmp_path / "b").symlink_to("a")
    runs = [f"--run={tmp_path}/a", f"--run={tmp_path}/b"]
    for command in ("evaluate", "translate"):
        assert message(nmt, command, *runs).startswith(f"--run {tmp_path}/a and --run {tmp_path}/b are the same run; ")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("translate --beam x", ["--beam"]),
        ("serve --port 99999", ["--port", "65535"]),
        ("train --stop-after", ["--stop-after"]),
        ("train --profile=3", ["--profile"]),
        ("export --format hf", ["--format", "hf", "ctranslate2"]),
        ("data got de-en", ["got", "show"]),
        ("filter", ["--src"]),
        ("plot", ["RUN"]),
    ],
)
def test_missing_or_invalid_value_is_rejected(line: str, named: list[str], nmt: Command) -> None:
    found = message(nmt, *line.split())
    assert all(word in found for word in named), found


@pytest.mark.parametrize("option", ["translate --run", "distil --output x --teacher"])
def test_hub_model_as_run_is_rejected_with_note(option: str, nmt: Command, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    note = "only Hub models written by nmt push are supported"
    assert note in nmt(*option.split(), "Helsinki-NLP/opus-mt-de-en").err
    assert note not in nmt(*option.split(), tmp_path / "runs" / "x").err


def test_suggestion_tables_match_options_and_settings() -> None:
    paths = {*field_paths(), *(path.partition(".*")[0] for path in field_paths())}
    paths |= {path.rpartition(".")[0] for path in paths if path.startswith("data.valid.")}
    assert OTHER_NAMES.keys() <= paths
    assert OTHER_OPTIONS.keys() <= {name for _, option in OPTIONS for name in option.opts} | {"--resume", "--lowercase"}
    assert OTHER_COMMANDS.keys() <= COMMANDS.keys()
    for key, names in OTHER_NAMES.items():
        section = key.rpartition(".")[0]
        assert not paths & {f"{section}.{name}" for name in names.split()}, f"{key}: a setting is a name of another"
    ends = {path.rpartition(".")[2] for path in paths}
    assert not ends & {name for names in NO_SETTING.values() for name in names.split()}
