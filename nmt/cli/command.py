"""Checks of the command line that are common to all commands, and suggestions for what does not exist."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import shlex
import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

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
from nmt.config.messages import field_paths, shown
from nmt.console import say, show
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
    """Return the error message for extra words, with a suggestion. Raises DataError for a document to translate.

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
    if not Path(paths[0]).is_file() or not (
        suffixes[0] in FORMATS or re.fullmatch(r"\.(txt|(?!yml)[a-z]{2,3})", suffixes[0])
    ):
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
    if (command, kind) == ("translate", "file"):
        from nmt.documents.open import refuse_document

        refuse_document(words[0])
    quoted = shlex.quote(shown) if set(shown) & {*'"$`\\!'} else f'"{shown}"'
    meant = INSTEAD_OF_WORDS.get((command, kind)) or INSTEAD_OF_WORDS.get(
        (command, ""), "nmt {command} --config {first}"
    )
    return meant.format(command=command, first=shlex.quote(words[0]), quoted=quoted)


INSTEAD = {
    ("evaluate", "--hyp"): "score the files one at a time, or use nmt compare --hyp {all} --ref F",
    ("translate", "--input"): "translate the files one at a time, or all at once: cat {all} | nmt translate",
}
"""What to do if an option that takes one value is given several."""

SETTING_OF = {
    "--beam": "search.beam",
    "--length-penalty": "search.length_penalty",
    "--init-from": "training.init_from",
    "--data": "data.dir",
    "--run": "training.run_dir",
}
"""Options that change a setting, which --set can change as well."""

SEVERAL_VALUES = {"compare": ("--hyp", "--ref", "--group"), "filter": ("--kept",)}
"""Options that take all words up to the next option, such as the files to which a shell expands a pattern."""

RECIPES = ("distil", "back-translate")
"""Commands whose --set, unlike their other options, applies to the training that follows."""


class Misuse(typer.BadParameter):
    """An invalid command line, with a complete message."""

    def format_message(self) -> str:
        return self.message


class Command(TyperCommand):
    """A command that rejects repeated single-valued options and suggests corrections of unknown options and extra
    arguments. By default, the last of several values would silently take effect."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command. Raises Misuse."""
        if ctx.resilient_parsing:  # shell completion
            return super().parse_args(ctx, args)
        if {*ctx.help_option_names} & {*itertools.takewhile("--".__ne__, args)}:  # --help takes precedence
            return super().parse_args(ctx, ctx.help_option_names[:1])
        args = _repeat_options(args, SEVERAL_VALUES.get(self.name or "", ()))
        given = self._check(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:  # its wording depends on the version of Typer
            if isinstance(error, Misuse) or error.param is None:
                raise
            raise Misuse(self._invalid(error.param, given)) from None

    def _invalid(self, param: Any, given: Mapping[str, Any]) -> str:
        """Return the error message for a parameter that is missing or has an invalid value."""
        value = given.get(param.name)
        if not (isinstance(value, (str, list, tuple)) and value):
            after = self.params[self.params.index(param) + 1 :]
            missing = (_usage(each) for each in after if each.required and not given.get(each.name or ""))
            return f"{self.name} needs {' and '.join([_usage(param), *missing])}"
        hint = get_type_hints(inspect.unwrap(self.callback), include_extras=True)[param.name]  # type: ignore[arg-type]
        return invalid_value(_usage(param).split()[0], hint, value if isinstance(value, str) else value[-1])

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises what `check_runs` raises."""
        if self.name not in ("train", "push"):  # train writes its run; push also takes exports for other libraries
            from nmt.cli.defaults import check_runs

            check_runs(ctx.params.get("run"), ctx.params.get("overrides"))
        return super().invoke(ctx)

    def _refuse_values(self, args: list[str], extra: list[str]) -> None:
        """Raise Misuse if the extra words are further values of an option."""
        several = {option.opts[0] for option in self.params if getattr(option, "multiple", False)}
        single = {option: instead for (command, option), instead in INSTEAD.items() if command == self.name}
        if match := values_behind({*several, *single}, args, extra):
            option, values = match
            if option in several:
                again = " ".join(f"{option} {shlex.quote(value)}" for value in values)
                raise Misuse(f"{option} takes one value at a time: repeat the option as in {again}")
            instead = single[option].format(all=shlex.join(values))
            raise Misuse(f"{option} takes one value, found {' and '.join(values)}: {instead}")

    def _check(self, ctx: Any, args: list[str]) -> Mapping[str, Any]:
        """Return the arguments given for each parameter, as a list for single-valued options. Raises Misuse."""
        parser = self.make_parser(ctx)
        singles: list[Any] = [option for option in self.params if _takes_one_value(option)]
        for option in singles:
            parser.add_option(obj=option, opts=option.opts, dest=option.name, action="append")
        try:
            given, extra, _ = parser.parse_args([*args])
        except Exception as error:  # Typer's own, whose class differs between its versions
            name = getattr(error, "option_name", None)
            if name is None:
                raise
            if not hasattr(error, "possibilities"):  # a known option: its value is missing, or it takes none
                own: Any = next(each for each in self.params if name in each.opts)
                raise Misuse(
                    f"{name} {'takes no value' if own.is_flag else f'needs a value: write {_usage(own)}'}"
                ) from None
            if not name.startswith("--"):  # -src is read as -s
                name = next((arg for arg in args if arg.startswith(name)), name).partition("=")[0]
            options = [name for option in self.params for name in option.opts if option.param_type_name == "option"]
            raise Misuse(no_such_option(self.name or "", options, name)) from None
        if extra:
            if instead := setting_without_equals(args, extra):
                raise Misuse(f"a setting and its value are one word: write {instead}")
            self._refuse_values(args, extra)
            argument = next((param.metavar for param in self.params if param.param_type_name == "argument"), None)
            if self.name in ("prepare", "train"):
                refuse_corpus(extra)
            raise Misuse(stray_words(self.name or "", argument, extra))
        for option in singles:
            values = given.get(option.name or "", ())
            if len(values) > 1:
                raise Misuse(_repeated(self.name, option.opts[0], values))
        if configs := given.get("config"):
            refuse_corpus(configs)
        changed = _changed(given.get("overrides") or ())
        for option in singles if self.name not in RECIPES else ():
            name = option.opts[0]
            key = SETTING_OF.get(name, "")
            if self.name in SEARCHING and not key.startswith("search."):
                continue  # --run and --data do not change settings here
            if key in changed and option.name in given:
                value = given[option.name][0]
                raise Misuse(f"{name} {value} and --set {key}={changed[key]} change the same setting; give only one")
        return given


def _repeat_options(args: Sequence[str], options: Collection[str]) -> list[str]:
    """Return the arguments with each of these options repeated before each of its values.

    `--hyp a b` becomes `--hyp a --hyp b`. Raises Misuse if an option has no value.
    """
    repeated: list[str] = []
    option, has_value = "", False
    for arg in args:
        if arg.startswith("-"):
            if option and not has_value:
                raise Misuse(f"{option} needs a value")
            option, equals, _ = arg.partition("=")
            option, has_value = option if option in options else "", bool(equals)
        elif option and has_value:
            repeated.append(option)
        else:
            has_value = True
        repeated.append(arg)
    return repeated


def _usage(param: Any) -> str:
    """Return an option with the placeholder for its value, or the placeholder of an argument."""
    return " ".join([*param.opts[: param.param_type_name == "option"], param.metavar or "VALUE"])


def _takes_one_value(option: Any) -> bool:
    return option.param_type_name == "option" and not (option.multiple or option.is_flag or option.count)


def _repeated(command: str | None, option: str, values: Sequence[str]) -> str:
    times = "twice" if len(values) == 2 else f"{len(values)} times"
    instead = INSTEAD.get((command or "", option), "it takes one value")
    return f"{option} is given {times}, {' and '.join(values)}: {instead.format(all=shlex.join(values))}"


def _changed(overrides: Sequence[str]) -> dict[str, str]:
    """Return the settings changed by --set, with their values. A setting that is changed twice causes a warning."""
    changed: dict[str, str] = {}
    for override in overrides:
        key, _, value = override.partition("=")
        # Not an error, because scripts append their users' settings to their own.
        if changed.get(key, value) != value and os.environ.get("RANK", "0") == "0":
            say(f"--set {key} is given twice, {changed[key]} and {value}: the last one takes effect")
        changed[key] = value
    return changed
