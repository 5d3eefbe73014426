"""Checks of the command line that are common to all commands. No part of it is silently ignored."""

from __future__ import annotations

import inspect
import itertools
import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand

from nmt.cli.hints import (
    SEARCHING,
    invalid_value,
    no_such_option,
    refuse_corpus,
    setting_without_equals,
    stray_words,
    values_behind,
)
from nmt.console import say

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
            if self.name == "prepare":
                refuse_corpus(extra)
            raise Misuse(stray_words(self.name or "", argument, extra))
        for option in singles:
            values = given.get(option.name or "", ())
            if len(values) > 1:
                raise Misuse(_repeated(self.name, option.opts[0], values))
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
