"""Checks common to all commands, and suggestions for misspelled commands, options and paths."""

from __future__ import annotations

import itertools
import os
import shlex
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from nmt.cli.refusals import refuse
from nmt.config.foreign import BESIDES, advice_on, equivalent_settings, other_names, with_remarks
from nmt.config.messages import field_paths
from nmt.console import listed, say
from nmt.spelling import matching_words, misspelt, plain

try:
    from typer._click.exceptions import NoSuchOption
except ImportError:  # Typer without a Click of its own
    from click.exceptions import NoSuchOption  # type: ignore[assignment]

OTHER_OPTIONS = other_names("option")
OTHER_COMMANDS = other_names("command")

SEARCHING = ("translate", "evaluate", "compare", "robustness", "score", "rerank")
"""Commands whose --set takes only search settings."""

WORD_OPTIONS = {
    "generate": "--prefix",
    "filter": "--src",
    "rerank": "--src",
    "distil": "--teacher",
    "back-translate": "--mono",
    **dict.fromkeys(("evaluate", "export", "challenge", "robustness", "score", "--resume"), "--run"),
}
"""For each command without arguments, or with an option without a value, the option for which an extra word was
probably meant; else --config."""


def no_such_command(given: str, commands: Collection[str]) -> str:
    """Return the error message for the unknown command `given`, with a suggestion."""
    similar = (OTHER_COMMANDS | other_names("task")).items()
    meant = [command for command, names in similar if plain(given) in names.split()] or misspelt(given, commands, 0.6)
    advice = f"it is nmt {meant[0]}" if meant else "nmt --help lists the commands"
    return f"No such command '{given}'; {advice}"


def no_such_option(command: str, options: Collection[str], given: str) -> str:
    """Return the error message for the unknown option `given`, with a suggestion."""
    name = plain(given)
    start = f"No such option: {given}"
    named = [option for option in options if plain(option) == name or name in OTHER_OPTIONS.get(option, "").split()]
    if named:
        return f"{start}; write {listed(with_remarks(named), last='or')}"
    if near := misspelt(name, options):
        return f"{start}; write {near[0]}"
    if "--set" in options and (keys := _settings(command, given)):
        return f"{start}; write {_set(keys)}"
    if note := advice_on(name):
        return f"{start}; {note}"
    alike = matching_words(name, options)
    if alike:
        return f"{start}; write {listed(with_remarks(alike), last='or')}"
    return start


def _set(keys: Sequence[str]) -> str:
    if len(keys) > 1:
        return f"--set KEY=VALUE, where KEY is {listed(with_remarks(keys), last='or')}"
    key = keys[0]
    setting = f"--set {key}=VALUE"
    if key in BESIDES:
        setting += f", {BESIDES[key]}"
    return setting


def _settings(command: str, given: str) -> list[str]:
    """Return the settings that an unknown option may refer to, by their names in nmt or other toolkits."""
    paths = [path for path in field_paths() if "*" not in path]
    dotted = given.lstrip("-").replace("-", "_")
    name = plain(given)
    section = "search" if command in SEARCHING else "training"
    exact = [path for path in paths if dotted in (path, path.rpartition(".")[2])]
    of_section = [path for path in exact if path.startswith(f"{section}.")]
    meant = of_section or exact or equivalent_settings(name, section)
    if not meant and "." in dotted:
        meant = misspelt(dotted, paths)
    if command in SEARCHING:
        meant = [path for path in meant if path.startswith("search.")]
    return meant


SETTING_OF = {
    "--beam": "search.beam",
    "--length-penalty": "search.length_penalty",
    "--to": "search.to",
    "--tag": "search.tags",
    "--init-from": "training.init_from",
    "--data": "data.dir",
    "--run": "training.run_dir",
}
"""For each option that changes a setting, the key of the setting."""

SEVERAL_VALUES = {
    "adapt": ("--beside", "--general"),
    "compare": ("--hyp", "--ref", "--group"),
    "filter": ("--kept",),
    "plot": ("--group", "--panel"),
}
"""For each command, options that take all words up to the next option, such as the files of a pattern."""

RECIPES = ("distil", "back-translate")
"""Commands whose --set applies to the next run, unlike their other options."""


OPTION_GROUPS = {
    "Languages": "--to --from --via --tag",
    "Search": "--beam --length-penalty --n-best --lm --lm-weight --prefix --constraints --glossary --tm --temperature "
    "--top-k --top-p",
    "Documents": "--output-dir --bilingual --reviewed --as-text",
    "Metrics": "--lowercase --tokenize --comet --comet-command --segment-scores --lower-is-better",
    "Model": "--checkpoint --weights --precision",
    "Language model": "--teacher-url --teacher-model --terms --prompt --lines-per-request --candidates --scorer "
    "--request --parallel --price --max-tokens --max-cost --unchecked",
    "Engine": "--engine --int8 --workers --address --threads",
    "Access": "--keys --new-key --rate --origin --allow",
    "Limits": "--max-characters --max-items --max-bytes --max-file-bytes --queue --timeout --grace --cache",
}
"""The options that the help of a command lists under a heading of their own, after the others."""
_FEW = 10
"""Number of options up to which the help of a command has no such headings."""


class Misuse(typer.BadParameter):
    """An invalid command line, with a complete message."""

    def format_message(self) -> str:
        return self.message


class Command(TyperCommand):
    """A command that rejects repeated single-valued options and suggests corrections.

    Without it, the last of several values would silently take effect.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command. Raises Misuse."""
        if ctx.resilient_parsing:  # shell completion
            return super().parse_args(ctx, args)
        if {*ctx.help_option_names} & {*itertools.takewhile("--".__ne__, args)}:  # --help takes precedence
            return super().parse_args(ctx, ctx.help_option_names[:1])
        return super().parse_args(ctx, _repeat_options(args, SEVERAL_VALUES.get(self.name or "", ())))

    def make_parser(self, ctx: Any) -> Any:
        """Return Typer's parser, which checks what it has parsed before the values are converted. It raises Misuse for
        unknown options, extra words, and options or settings that are given twice."""
        parser: Any = super().make_parser(ctx)
        if ctx.resilient_parsing:  # shell completion
            return parser
        options: list[Any] = [param for param in self.params if param.param_type_name == "option"]
        singles = {option.name: option for option in options if not (option.multiple or option.is_flag or option.count)}
        for name, option in singles.items():
            parser.add_option(obj=option, opts=option.opts, dest=name, action="append")
        parse = parser.parse_args

        def parse_checked(args: Sequence[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
            try:
                given, extra, order = parse([*args])
            except NoSuchOption as error:
                unknown = error.option_name
                if not unknown.startswith("--"):  # -src is read as -s
                    unknown = next((arg for arg in args if arg.startswith(unknown)), unknown).partition("=")[0]
                names = [*itertools.chain.from_iterable(option.opts for option in options)]
                raise Misuse(no_such_option(self.name or "", names, unknown)) from None
            if extra:
                raise Misuse(self._stray_words(options, given, extra))
            values = {option.opts[0]: given[name] for name, option in singles.items() if name in given}
            for option, of_option in values.items():
                if len(of_option) > 1:
                    repeated = " and ".join(of_option)
                    raise Misuse(f"{option} is given {len(of_option)} times, {repeated}; it takes one value")
            self._check_settings(given.get("overrides") or (), values)
            given |= {name: given[name][0] for name in singles if name in given}
            return given, extra, order

        parser.parse_args = parse_checked
        return parser

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options; the options of `OPTION_GROUPS` are under their headings."""
        headings = dict[str, str]()
        for title, names in OPTION_GROUPS.items():
            headings |= dict.fromkeys(names.split(), title)
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", "Options", *OPTION_GROUPS)}
        params = self.get_params(ctx)
        for param in params:
            title = "Options"
            if param.param_type_name == "argument":
                title = "Arguments"
            elif len(params) > _FEW:
                title = headings.get(param.opts[0], title)
            if (record := param.get_help_record(ctx)) is not None:
                groups[title].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises what `check_runs` and `refuse` raise."""
        if self.name not in ("demo", "train", "import", "push"):  # they write the run; push takes any export
            from nmt.cli.defaults import check_runs

            check_runs(ctx.params.get("run"), ctx.params.get("overrides"), ctx.params.get("beam"))
        refuse(ctx)
        return super().invoke(ctx)

    def _stray_words(self, options: Sequence[Any], given: Mapping[str, Any], words: Sequence[str]) -> str:
        """Return the error message for words beyond the arguments of the command, with a suggestion."""
        shown = textwrap.shorten(" ".join(words), 60, placeholder=" …") or repr(words[0])
        names = [self.name or "", *(option.opts[0] for option in options if option.is_flag and given.get(option.name))]
        message = " ".join(names)
        argument = next((param.metavar for param in self.params if param.param_type_name == "argument"), None)
        if argument is None:
            meant_by = [WORD_OPTIONS[name] for name in names if name in WORD_OPTIONS]
            option = meant_by[-1] if meant_by else "--config"
            message += f" takes no arguments, found {shown}: write nmt {message} {option} {shlex.quote(words[0])}"
        else:
            message += f" takes one {argument}, but also found {shown}"
        repeatable = [option for option in options if option.multiple and (len(words) > 1 or given.get(option.name))]
        if repeatable:
            message += f"; for several values, repeat the option: {', '.join(option.opts[0] for option in repeatable)}"
        return message

    def _check_settings(self, overrides: Iterable[str], values: Mapping[str, Sequence[str]]) -> None:
        """Raise Misuse if an option and --set change the same setting, and note what --set changes twice.

        values: the values of the given options that take one value.
        """
        changed: dict[str, str] = {}
        for override in overrides:
            key = override.partition("=")[0]
            # not an error: scripts append their users' settings to their own
            if changed.get(key, override) != override and os.environ.get("RANK", "0") == "0":
                say(f"--set {key} is given more than once; the last value takes effect: {override}")
            changed[key] = override
        for option, (value, *_) in values.items():
            key = SETTING_OF.get(option, "")
            if self.name in RECIPES or (self.name in SEARCHING and not key.startswith("search.")):
                continue  # --run and --data do not change settings here
            if key in changed:
                raise Misuse(f"{option} {value} and --set {changed[key]} change the same setting; give only one")


def _repeat_options(args: Sequence[str], options: Collection[str]) -> list[str]:
    """Return the arguments with each of these options repeated before each of its values.

    `--hyp a b` becomes `--hyp a --hyp b`. Raises Misuse if an option has no value.
    """
    repeated = []
    option = ""
    has_value = False
    for arg in args:
        if arg.startswith("-"):
            if option and not has_value:
                raise Misuse(f"{option} needs a value")
            option, equals, _ = arg.partition("=")
            has_value = bool(equals)
            if option not in options:
                option = ""
        elif option and has_value:
            repeated.append(option)
        else:
            has_value = True
        repeated.append(arg)
    return repeated
