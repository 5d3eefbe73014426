"""Combinations of options that the commands refuse, with their messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from nmt.errors import ConfigError

_OF_RUNS = "--data|--output|--samples|--from|--via|--beam|--length-penalty|--set|--checkpoint|--weights|--precision"
"""Options with which runs translate, so that they have no effect on translations in a file."""
HISTORY_ALONE = "--history can be combined only with one --run, --split and --format"
_OF_LINES = "--prefix|--constraints|--alignments|--attention"
_NOT_OF_A_REVIEW = "--set|--lm|--lm-weight|--tag|--glossary|--tm|--beam|--length-penalty|--via"

REFUSALS: dict[str, dict[str, tuple[str, ...]]] = {
    "prepare": {
        "--tokenizer-from: not available with --append, which keeps the vocabulary": (
            "--tokenizer-from with --append",
        ),
        "--report: needs --dry-run or --sample; nmt prepare always writes a report": (
            "--report without --dry-run|--sample",
        ),
        "{options}: not available in a dry run": ("--dry-run|--sample with --data|--append|--force",),
        "{options}: not available with several pairs in data.directions": ("several-pairs with --append|--report",),
    },
    "data": {
        "{options}: not an option of nmt data {action}": (
            "ACTION=list with --version|--output",
            "ACTION=show with --version|--output|--format",
            "ACTION=get with --format",
        ),
    },
    "translate": {
        "a sentence or file as an argument cannot be combined with --input and --interactive": (
            "TEXT with --input|--interactive",
        ),
        "--precision needs --engine native; with ctranslate2, use --int8": ("--precision with --engine=ctranslate2",),
        "--int8 needs --engine ctranslate2": ("--int8 without --engine=ctranslate2",),
        "--address {address} needs --engine ray": ("--address without --engine=ray",),
        "--workers needs --engine native or ray; CTranslate2 uses all cores in one process": (
            "--workers with --engine=ctranslate2",
        ),
        "--workers and --engine ray need files: give --input and --output": (
            "--workers|--engine=ray without --input",
            "--workers|--engine=ray without --output",
            "--workers|--engine=ray with --input=-|--output=-",
        ),
        "{options}: not available with --workers and --engine ray": (
            f"--workers|--engine=ray with {_OF_LINES}|--glossary|--tm|--confidence|--via",
        ),
        "--as-text: needs one --input, and no --output-dir, --bilingual and --reviewed": ("documents with --as-text",),
        "{options}: not available for documents": (
            f"documents with --scores|--n-best|--workers|--engine=ray|{_OF_LINES}",
        ),
        "--confidence: for documents, give --bilingual F, which contains it": (
            "documents with --confidence without --bilingual",
        ),
        "{options}: not available with --interactive": (
            "--interactive with --input|--output|--output-dir|--bilingual|--reviewed|--as-text|--n-best|--scores|"
            f"--confidence|--workers|--engine=ray|--glossary|--tm|{_OF_LINES}",
        ),
        "--reviewed and --bilingual cannot be combined": ("--reviewed with --bilingual",),
        "--reviewed translates nothing, so only --run, --model, --to and --from can be given with it": (
            f"--reviewed with {_NOT_OF_A_REVIEW}",
        ),
    },
    "config": {
        "{options}: not available with --explain": ("--explain with --config|--set|--for-pairs|--minutes|--as-is",),
        "{options}: not available with --as-is": ("--as-is with --set|--for-pairs|--minutes",),
    },
    "generate": {
        "--prefix and --input cannot be combined": ("--prefix with --input",),
        "{options}: only available for sampling, not with --beam": (
            "--beam with --temperature|--top-k|--top-p|--seed",
        ),
    },
    "filter": {
        "give --reverse RUN (with --run, by default the newest run), --classifier RUN, or both": (
            "without --reverse|--classifier",
        ),
        "--run needs --reverse RUN, a run of the opposite direction; --classifier needs no other run": (
            "--run without --reverse",
        ),
        "--keep and --min-score cannot be combined": ("--keep with --min-score",),
        "--kept needs --keep SHARE or --min-score X": ("--kept without --keep|--min-score",),
        "nothing to write: give --output F for the scores, or --keep SHARE --kept F F for the best pairs": (
            "without --output|--kept",
        ),
    },
    "evaluate": {
        HISTORY_ALONE: (
            f"--history with {_OF_RUNS}|--to|--hyp|--ref|--src|--lowercase|--tokenize|--comet|--comet-command|"
            "--segment-scores|--lower-is-better",
        ),
        "--comet needs the source text of --hyp; give it with --src F": ("--comet with --hyp without --src",),
        "--src F needs --ref F (to translate and score it), or --hyp, --ref and --comet": (
            "--src with --hyp without --comet",
            "--src without --hyp|--ref",
        ),
        "--src F and --ref F cannot be combined with --split and --data": ("--src with --split|--data without --hyp",),
        "--hyp F and --ref F must be given together": ("--hyp without --ref", "--ref without --hyp|--src"),
        "{options}: for runs, so not available with --hyp and --ref": (f"--hyp with --run|--split|{_OF_RUNS}",),
        "--samples cannot be combined with --format {format_}; --output F writes all translations": (
            "--samples with --format",
        ),
        "{path}: is a classifier, for which only --split, --data, --checkpoint, --weights, --precision, --format and "
        "--history are available; for labels, use nmt classify": (
            "classifier with --beam|--length-penalty|--set|--tokenize|--lowercase|--samples|--output|--src|--ref|"
            "--comet|--comet-command|--segment-scores|--lower-is-better",
        ),
        "--segment-scores needs a single split, found {names}; choose it with --split, --to and --from": (
            "several-texts with --segment-scores",
        ),
    },
    "compare": {
        "RUN, --hyp and --group cannot be combined": ("RUN with --hyp|--group", "--hyp with --group"),
        "--hyp and --src need the references; give them with --ref F": ("--hyp|--src without --ref",),
        "--comet needs the source text of these files; give it with --src F": ("--comet with --ref without --src",),
        "{options}: for runs, so not available with --ref, which needs --hyp A B or --group NAME=A,B,C": (
            f"--ref with RUN|--split|{_OF_RUNS}",
        ),
        "{options}: needs one direction; choose it with --to and --from": (
            "several-directions with --html|--segment-scores",
        ),
    },
    "calibrate": {
        "--src F and --ref F must be given together": ("--src without --ref", "--ref without --src"),
        "--split and --data cannot be combined with --src and --ref": ("--src with --split|--data",),
    },
    "challenge": {
        "--src F and --ref F must be given together, and --contrastive F requires both": (
            "--src without --ref",
            "--ref without --src",
            "--contrastive without --src",
        ),
        "--split and --data, --src and --ref, and --pairs cannot be combined": (
            "--split|--data with --src|--pairs",
            "--src with --pairs",
        ),
        "--documents DIR: --context with --pairs, and only that, needs the documents of ContraPro": (
            "--documents without --pairs",
            "--documents without --context",
            "--pairs with --context without --documents",
        ),
        "--seed: not available with --pairs or --contrastive, which contain the wrong translations": (
            "--seed with --pairs|--contrastive",
        ),
        "--samples cannot be combined with --format {format_}; --output F writes all pairs": (
            "--samples with --format",
        ),
    },
    "robustness": {
        "--src F and --ref F must be given together": ("--src without --ref", "--ref without --src"),
        "--split and --data cannot be combined with --src and --ref": ("--src with --split|--data",),
    },
    "runs": {"{directory} and --curve {curve} cannot be combined": ("DIR with --curve",)},
    "sweep": {
        "--jobs and --devices cannot be combined": ("--jobs with --devices",),
        "--set {overrides[0]}: a study has all settings in its file; write it there, under set": (
            "--set without --grid",
        ),
    },
    "rerank": {
        "--tune needs --src F, --ref F and --weights-file F, and cannot be combined with --output": (
            "--tune without --ref",
            "--tune without --weights-file",
            "--tune with --output",
        ),
        "--ref and --metric need --tune; to score the output, use nmt evaluate --hyp F --ref F": (
            "--ref|--metric without --tune",
        ),
        "--n-best-file cannot be combined with --n-best and --beam": ("--n-best-file with --n-best|--beam",),
    },
    "distil": {
        "--student and --config both describe the student; give one of them": ("--student with --config",),
        "--test-src and --test-ref must be given together, and only with --mono; without it, the student has the test "
        "sets of its teacher": (
            "--test-src without --test-ref",
            "--test-ref without --test-src",
            "--test-src without --mono",
        ),
    },
    "export": {
        "--quantization, --check and --check-lines need --format ctranslate2 or argos": (
            "--quantization|--check|--check-lines without --format=ctranslate2|--format=argos",
        ),
        "--shortlist needs --format ctranslate2": ("--shortlist without --format=ctranslate2",),
    },
    "push": {
        "{run}: is already exported; give its run instead, or leave out {options}": (
            "exported with --format|--quantization|--checkpoint|--weights|--evaluate|--data|--license",
        ),
        "--quantization needs --format ctranslate2": ("--quantization without --format=ctranslate2",),
    },
    "serve": {"--new-key needs --keys F, the file of keys": ("--new-key without --keys",)},
}
"""For each command, the messages and the conditions under which they are shown.

A condition lists options that are given, joined by `with`, and after `without` options that are not; `A|B` stands for
any of several. `--format=json` is an option with a value, RUN an argument. A word in lower case, such as `documents`,
is a mode that the command finds out and passes to `refuse`. A message can contain the values of parameters, and as
`options` the given ones of the last `A|B`.
"""


def refuse(context: Any, mode: str = "", **facts: object) -> None:
    """Raise ConfigError for the first refused combination of options in the context of a command.

    mode: a word for what the command has found out, which conditions name. facts: values for the messages besides those
    of parameters. An option with its default value counts as not given.
    """
    given = {*_given(context), mode}
    for message, conditions in REFUSALS.get(context.command.name, {}).items():
        for condition in conditions:
            if (options := _met(condition, given)) is not None:
                shown = ", ".join(option.replace("=", " ") for option in options)
                raise ConfigError(message.format(**context.params, **facts, options=shown))


def _met(condition: str, given: Collection[str]) -> list[str] | None:
    """Return the given options of the last `A|B` if a condition is met, else None."""
    options = list[str]()
    is_wanted = True
    for word in condition.split():
        if word in ("with", "without"):
            is_wanted = word == "with"
            continue
        named = [name for name in word.split("|") if name in given]
        if bool(named) != is_wanted:
            return None
        options = named or options
    return options


def _given(context: Any) -> Iterator[str]:
    """Yield the names of the given options and arguments, and `--name=value` for each option."""
    for param in context.command.params:
        value = context.params.get(param.name)
        if value not in (None, (), [], param.default):
            name = param.opts[0]
            if param.param_type_name == "argument":
                name = param.metavar
            yield name
            values = value if isinstance(value, (list, tuple)) else [value]
            for part in values:
                yield f"{name}={part}"
