"""What every command does with its command line before it begins: nothing on it is ignored in silence."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from nmt.cli.hints import SEARCHING, no_such_option, setting_without_equals, stray_words, values_behind
from nmt.console import say

INSTEAD = {
    ("evaluate", "--hyp"): "score one file of translations after the other",
    ("translate", "--input"): "translate one file after the other, or all at once: cat {all} | nmt translate",
}
"""What to do where a command takes one value and several are given."""

SETTING_OF = {
    "--beam": "search.beam",
    "--length-penalty": "search.length_penalty",
    "--init-from": "training.init_from",
    "--data": "data.dir",
    "--run": "training.run_dir",
}
"""Options that set what --set can set, too."""

RECIPES = ("distil", "back-translate")
"""Commands whose --set changes the training that follows; no other option of theirs does."""


class Misuse(typer.BadParameter):
    """A command line that cannot be meant; the message says it all."""

    def format_message(self) -> str:
        return self.message


class Command(TyperCommand):
    """A command that refuses an option of one value that is given twice, of which the last would win in silence, and
    that says what to write for what it does not take."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command. Raises Misuse."""
        if ctx.resilient_parsing:  # which is while a shell asks how a word could go on
            return super().parse_args(ctx, args)
        if {*ctx.help_option_names} & {*itertools.takewhile("--".__ne__, args)}:  # whatever else is there
            return super().parse_args(ctx, ctx.help_option_names[:1])
        self._check(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_values(self, args: list[str], extra: list[str]) -> None:
        """Raise Misuse if the words that are too many are further values of an option."""
        several = {option.opts[0] for option in self.params if getattr(option, "multiple", False)}
        single = {option: instead for (command, option), instead in INSTEAD.items() if command == self.name}
        if found := values_behind({*several, *single}, args, extra):
            option, values = found
            if option in several:
                again = " ".join(f"{option} {shlex.quote(value)}" for value in values)
                raise Misuse(f"{option} takes one value at a time: repeat the option, {again}")
            instead = single[option].format(all=shlex.join(values))
            raise Misuse(f"{option} takes one value, found {' and '.join(values)}: {instead}")

    def _check(self, ctx: Any, args: list[str]) -> None:
        parser = self.make_parser(ctx)
        singles: list[Any] = [option for option in self.params if _takes_one_value(option)]
        for option in singles:
            parser.add_option(obj=option, opts=option.opts, dest=option.name, action="append")
        try:
            given, extra, _ = parser.parse_args([*args])
        except Exception as error:  # Typer's own, whose class has moved between its versions
            name = getattr(error, "option_name", None) if hasattr(error, "possibilities") else None
            if name is None:
                raise
            if not name.startswith("--"):  # -src is read as -s
                name = next((arg for arg in args if arg.startswith(name)), name).partition("=")[0]
            options = [name for option in self.params for name in option.opts if option.param_type_name == "option"]
            raise Misuse(no_such_option(self.name or "", options, name)) from None
        if extra:
            if instead := setting_without_equals(args, extra):
                raise Misuse(f"a setting and its value stand together: write {instead}")
            self._refuse_values(args, extra)
            takes = next((each.metavar for each in self.params if each.param_type_name == "argument"), None)
            raise Misuse(stray_words(self.name or "", takes, extra))
        for option in singles:
            values = given.get(option.name or "", ())
            if len(values) > 1:
                raise Misuse(_repeated(self.name, option.opts[0], values))
        changed = _changed(given.get("overrides") or ())
        for option in singles if self.name not in RECIPES else ():
            name = option.opts[0]
            key = SETTING_OF.get(name, "")
            if self.name in SEARCHING and not key.startswith("search."):
                continue  # --run and --data are no settings here
            if key in changed and option.name in given:
                value = given[option.name][0]
                raise Misuse(f"{name} {value} and --set {key}={changed[key]} change the same setting: give one of them")


def _takes_one_value(option: Any) -> bool:
    return option.param_type_name == "option" and not (option.multiple or option.is_flag or option.count)


def _repeated(command: str | None, option: str, values: Sequence[str]) -> str:
    times = "twice" if len(values) == 2 else f"{len(values)} times"
    instead = INSTEAD.get((command or "", option), "it takes one value")
    return f"{option} is given {times}, {' and '.join(values)}: {instead.format(all=shlex.join(values))}"


def _changed(overrides: Sequence[str]) -> dict[str, str]:
    """The settings that --set changes, and to what. Tells of one that is changed twice."""
    changed: dict[str, str] = {}
    for override in overrides:
        key, _, value = override.partition("=")
        # not refused: scripts put their users' settings after their own
        if changed.get(key, value) != value and os.environ.get("RANK", "0") == "0":
            say(f"--set {key} is given twice, {changed[key]} and {value}: the last counts")
        changed[key] = value
    return changed
