"""Suggestions for commands, options, arguments and values that do not exist."""

from __future__ import annotations

import itertools
import re
import shlex
import textwrap
from collections.abc import Collection, Sequence
from pathlib import Path
from types import NoneType
from typing import Literal, get_args, get_origin

from nmt.config.fields import field_paths
from nmt.config.foreign import (
    BESIDES,
    advice_on,
    did_you_mean,
    equivalent_settings,
    listed,
    matching_words,
    misspelt,
    nearest_value,
    plain,
)
from nmt.config.messages import shown
from nmt.console import show
from nmt.errors import ConfigError

OTHER_OPTIONS = {
    "--config": "c cfg conf yaml config_file config_path",
    "--data": "d data_dir data_path destdir",
    "--input": "i in infile input_file src source src_file source_file text",
    "--output": "o out outfile output_file output_dir",
    "--src": "source src_file source_file input i",
    "--ref": "r reference references refs ref_file tgt target gold",
    "--tgt": "target tgt_file target_file ref reference",
    "--hyp": "hypothesis hypotheses hyps sys system translations translation candidate i input",
    "--run": "m model models model_path model_dir checkpoint_path ckpt path run_dir save_dir output_dir exp_dir "
    "model_name_or_path",
    "--teacher": "run model teacher_model",
    "--reverse": "run model reverse_model",
    "--mono": "i input src monolingual",
    "--beam": "b k beam_size beam_width num_beams n_beams beams",
    "--n-best": "nbest num_return_sequences num_hypotheses",
    "--length-penalty": "lenpen alpha length_alpha normalize",
    "--precision": "fp16 bf16 half amp dtype float16 float32 mixed_precision",
    "--split": "t test_set testset subset gen_subset dataset",
    "--lowercase": "lc lower ignore_case",
    "--tokenize": "tok tokenizer",
    "--weights": "average ema",
    "--checkpoint": "epoch step",
    "--resume": "r continue resume_from resume_from_checkpoint restore load_from",
    "--init-from": "init pretrained pretrained_model restore_file finetune_from_model train_from load_model",
    "--tokenizer-from": "spm sentencepiece bpe_model vocab_from",
    "--stop-after": "time_limit timeout",
    "--jobs": "j n_jobs parallel workers num_workers",
    "--devices": "gpus gpu device",
    "--dir": "output_dir out_dir output o",
    "--quantization": "quantize quantise compute_type int8 float16",
    "--format": "f type",
}
"""For each option, names of similar options in other toolkits."""

OTHER_COMMANDS = {
    "prepare": "preprocess preprocessing prep build_vocab binarize tokenize",
    "data": "download fetch get corpora corpus dataset datasets opus",
    "train": "fit learn run",
    "translate": "infer inference predict interactive decode",
    "evaluate": "eval test valid validate bleu sacrebleu",
    "compare": "diff significance compare_mt paired_bs paired_ar",
    "rerank": "reranking noisy_channel noisychannel rescore nbest",
    "challenge": "contrastive contrast lingeval contrapro",
    "robustness": "robust noise noisy perturb perturbation typos",
    "filter": "filtering clean_pairs bicleaner",
    "sweep": "grid search tune",
    "distil": "distill distillation distilation kd",
    "back-translate": "backtranslate backtranslation back_translation bt",
    "export": "convert save average",
    "runs": "list ls status experiments",
    "plot": "draw graph curves",
    "config": "settings init show options",
}
"""For each command, names of similar commands in other toolkits."""

INSTEAD_OF_COMMANDS = {
    "train --resume --run RUN": "resume continue restart",
    "train --config FILE --init-from RUN": "finetune fine_tune adapt",
    "train --set training.objective=denoising (or masked, causal), then nmt train --init-from RUN": "pretrain",
    "export --format ctranslate2 --quantization int8 --output DIR": "quantize quantise quantization int8",
    "--help, or nmt COMMAND --help": "help man usage",
    "--version": "version",
}
"""For tasks that are done by an option, names that users may take for commands."""

SEARCHING = ("translate", "evaluate", "compare", "robustness", "score", "rerank")
"""Commands whose --set takes only search settings."""

NOT_HERE = {
    ("translate", "tgt ref target reference"): "nmt score --src F --ref F scores given translations",
    ("translate", "device gpu cpu cuda use_gpu no_cuda"): "a GPU is used if one is available",
    ("train", "max_tokens"): "for the batch size of an update, as in fairseq, write --set "
    "training.update_tokens=VALUE (target tokens); training.max_tokens limits memory",
    ("sweep", "config c cfg conf config_file"): "name the config without an option, nmt sweep CONFIG --grid KEY=A,B",
    ("plot", "run runs model model_path"): "name the runs without an option, nmt plot RUN RUN",
    ("push", "run model model_path"): "name the run without an option, nmt push RUN OWNER/NAME",
    ("runs", "run dir directory output_dir"): "name the directory without an option, nmt runs DIR",
    ("compare", "run runs model model_path"): "name the runs without an option, nmt compare RUN RUN",
    ("compare", "paired_ar paired_bs metrics"): "both tests are always made, with all metrics",
}
"""What to use instead of an option that a command does not have."""

INSTEAD_OF_WORDS = {
    ("translate", ""): "echo {quoted} | nmt translate, or nmt translate --input FILE",
    ("translate", "file"): "nmt translate --input {first}",
    ("evaluate", "file"): "nmt evaluate --hyp {first} --ref FILE",
    ("score", ""): "nmt score --src FILE --ref FILE",
    ("filter", ""): "nmt filter --run RUN --reverse RUN --src FILE --tgt FILE",
    ("rerank", ""): "nmt rerank --reverse RUN --src FILE",
    ("rerank", "file"): "nmt rerank --reverse RUN --src {first}",
    **{(command, ""): "nmt {command} --run {first}" for command in ("evaluate", "export", "challenge", "robustness")},
    ("train", "folder"): "nmt train --data {first}",
    ("distil", ""): "nmt distil --teacher {first}",
    ("back-translate", ""): "nmt back-translate --mono {first}",
    ("back-translate", "folder"): "nmt back-translate --reverse {first}",
}
"""What to write instead of an extra word of a command, depending on whether the word is a file or a folder."""


def no_such_command(given: str, commands: Collection[str]) -> str:
    """Return the error message for the unknown command `given`, with a suggestion."""
    others = (OTHER_COMMANDS | INSTEAD_OF_COMMANDS).items()
    meant = [command for command, names in others if plain(given) in names.split()] or misspelt(given, commands, 0.6)
    return f"No such command '{given}'; " + (f"it is nmt {meant[0]}" if meant else "nmt --help lists the commands")


def invalid_value(name: str, hint: object, value: str) -> str:
    """Return the error message for an invalid value of an option or argument; `hint` is its annotation."""
    kind, option = get_args(hint)
    while (inner := [each for each in get_args(kind) if each is not NoneType]) and get_origin(kind) is not Literal:
        kind = inner[0]  # of `int | None` and `list[int]`
    choices = [*map(str, inner)]
    needed = {int: "a whole number", float: "a number"}.get(kind) or listed(choices or ["valid"])
    limits = ("at least", option.min), ("at most", option.max)
    needed += "".join(f", {word} {limit:g}" for word, limit in limits if limit is not None)
    return f"{name}: must be {needed}, found {value or repr(value)}{did_you_mean(nearest_value(value, choices))}"


def no_such_option(command: str, options: Collection[str], given: str) -> str:
    """Return the error message for the unknown option `given`, with a suggestion."""
    name = plain(given)
    start = f"No such option: {given}"
    named = [option for option in options if plain(option) == name or name in OTHER_OPTIONS.get(option, "").split()]
    if named:
        return f"{start}; write {listed(named)}"
    if notes := [note for (of, names), note in NOT_HERE.items() if of == command and name in names.split()]:
        return f"{start}; {notes[0]}"
    if near := misspelt(name, options):
        return f"{start}; write {near[0]}"
    if "--set" in options and (keys := _settings(command, given)):
        return f"{start}; write {_set(keys)}"
    if note := advice_on(name):
        return f"{start}; {note}"
    alike = matching_words(name, options)
    return f"{start}; write {listed(alike)}" if alike else start


def _set(keys: Sequence[str]) -> str:
    if len(keys) > 1:
        return f"--set KEY=VALUE, where KEY is {listed(keys)}"
    return f"--set {keys[0]}=VALUE" + (f", {BESIDES[keys[0]]}" if keys[0] in BESIDES else "")


def _settings(command: str, given: str) -> list[str]:
    """Return the settings that an unknown option may stand for, by their names here or in other toolkits."""
    paths = [path for path in field_paths() if "*" not in path]
    dotted, name = given.lstrip("-").replace("-", "_"), plain(given)
    section = "search" if command in SEARCHING else "training"
    exact = [path for path in paths if dotted in (path, path.rpartition(".")[2])]
    exact = [path for path in exact if path.startswith(f"{section}.")] or exact
    meant = exact or equivalent_settings(name, section) or misspelt(dotted, paths if "." in dotted else ())
    return [path for path in meant if command not in SEARCHING or path.startswith("search.")]


def stray_words(command: str, argument: str | None, words: Sequence[str]) -> str:
    """Return the error message for extra words, with a suggestion.

    argument: the name of the command's only argument; None if it has none.
    """
    shown = textwrap.shorten(" ".join(words), 60, placeholder=" …") or repr(words[0])
    if argument is not None:
        return f"{command} takes one {argument}, but also found {shown}"
    return f"{command} takes no arguments, found {shown}: write {_instead(command, words, shown)}"


def setting_without_equals(args: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the correction of `--set KEY VALUE`, where VALUE is one of the extra `words`; None if there is none."""
    for option, key, value in zip(args, args[1:], args[2:], strict=False):
        if option in ("--set", "--grid") and "=" not in key and value in words:
            return f"{option} {shlex.quote(f'{key}={value}')}"
    return None


def values_behind(options: Collection[str], args: Sequence[str], words: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the option that is followed by extra `words` which may be values, as in --ref a b, with all its values.

    Return None if there is none.
    """
    for place in range(1, len(args)):
        option, value = args[max(place - 2, 0)], args[place - 1]
        if value.startswith("--"):
            option, _, value = value.partition("=")
        if args[place] in words and option in options and _may_be_value(option, args[place]):
            return option, [value, *itertools.takewhile(words.__contains__, args[place:])]
    return None


def _may_be_value(option: str, word: str) -> bool:
    match option:
        case "--set" | "--grid":
            return "=" in word
        case "--run":
            return Path(word).is_dir()
        case _:
            return True


def corpus_config(paths: Sequence[str]) -> list[str] | None:
    """Return the lines of a config for the corpus in `paths`: one file with both languages, or one per language.

    Return None if the first path is not a file with a suffix of a corpus.
    """
    from nmt.files.compressed import compression_of
    from nmt.prepare.inputs import FORMATS

    suffixes = [(Path(path).with_suffix("") if compression_of(path) else Path(path)).suffix.lower() for path in paths]
    if not Path(paths[0]).is_file() or not (suffixes[0] in FORMATS or re.fullmatch(r"\.(txt|[a-z]{2,3})", suffixes[0])):
        return None
    names = [shown(path) if {*path} & {*":#{}[],&*!|>'\"%@` "} else path for path in paths]
    if suffixes[0] in FORMATS:
        with Path(paths[0]).open("rb") as file:
            found = _LANGUAGES.findall(file.read(1 << 16).decode("utf-8", errors="replace"))
        languages = [*dict.fromkeys(re.split("[-_]", code)[0].lower() for code in found)]
        languages, source = [*languages[:1], *languages[1:2]], f"path: {names[0]}"
    else:
        languages = [suffix[1:] for suffix in suffixes[:2] if suffix != ".txt"]
        languages = languages if len({*languages}) == 2 else ["de", "en"]
        both = [*names[:2], "FILE"]
        source = f"files: {{{languages[0]}: {both[0]}, {languages[1]}: {both[1]}}}"
    direction = "-".join(languages if len(languages) == 2 else ["de", "en"])
    return ["data:", f"  direction: {direction}", "  train:", f"    - {source}"]


_LANGUAGES = re.compile(r"""(?:xml:lang|source-language|target-language|srcLang|trgLang)=["']([A-Za-z]{2,3}\b)""")


def refuse_corpus(paths: Sequence[str]) -> None:
    """If a corpus was given instead of a config, print a config for it and raise ConfigError."""
    config = corpus_config(paths)
    if config is not None:
        for line in config:
            show(line)
        raise ConfigError([f"{paths[0]}: is a corpus, not a config; save the lines above as a file for --config FILE"])


def _instead(command: str, words: Sequence[str], shown: str) -> str:
    kind = "file" if Path(words[0]).is_file() else "folder" if Path(words[0]).is_dir() else ""
    quoted = shlex.quote(shown) if set(shown) & {*'"$`\\!'} else f'"{shown}"'
    meant = INSTEAD_OF_WORDS.get((command, kind)) or INSTEAD_OF_WORDS.get(
        (command, ""), "nmt {command} --config {first}"
    )
    return meant.format(command=command, first=shlex.quote(words[0]), quoted=quoted)
