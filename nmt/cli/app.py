"""The Typer application to which the commands are added."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from nmt.cli.command import Command, Misuse, no_such_command
from nmt.cli.exits import user_errors
from nmt.version import version as nmt_version

GROUPS = {
    "Stages": ("prepare", "train", "translate", "evaluate"),
    "Data": ("data", "align", "filter"),
    "Results": ("compare", "score", "calibrate", "challenge", "robustness", "runs", "plot"),
    "Recipes": ("sweep", "rerank", "distil", "back-translate", "bidirectional"),
    "Sharing": ("import", "export", "push", "serve"),
    "Other commands": ("classify", "generate", "config"),
}
"""The commands by the heading under which the help lists them."""


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (Click's)
        return [name for names in GROUPS.values() for name in names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (Click's)
        widest = max(map(len, self.commands))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), self.commands[name].get_short_help_str(99)) for name in names])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or ctx.resilient_parsing:  # shows the help, or completes a word for a shell
            return super().parse_args(ctx, args)
        known = {name for option in self.get_params(ctx) for name in option.opts}
        with user_errors():
            if args[0].startswith("-") and args[0] != "--" and (name := args[0].partition("=")[0]) not in known:
                raise Misuse(f"No such option: {name}; options of a command follow its name: nmt COMMAND {name}")
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise Misuse(no_such_command(args[0], self.commands))
        return super().resolve_command(ctx, args)

    # Not around the whole program, because Typer would handle interrupts and closed pipes first.
    def invoke(self, ctx: Any) -> Any:
        with user_errors():
            result = super().invoke(ctx)
            if sys.stdout is not None:  # `nmt config >&-`
                sys.stdout.flush()
            return result


Function = TypeVar("Function", bound=Callable[..., Any])


class _App(typer.Typer):
    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        return super().command(name, cls=Command, **options)


app = _App(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(is_given: bool) -> None:
    if is_given:
        print(f"nmt {nmt_version()}")
        raise typer.Exit()


@app.callback()
def nmt(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show version and commit, and exit.")
    ] = False,
) -> None:
    """Train machine-translation models from raw parallel text and evaluate them.

    There are four stages, each of which reads a directory and writes another:

    \b
      nmt prepare    text -> data directory    clean, train a tokenizer, encode
      nmt train      data -> run directory     train a Transformer
      nmt translate  run -> translations       one line per input line
      nmt evaluate   run -> BLEU, chrF, TER    score a test set

    All settings are in one YAML file, by default base.yaml (IWSLT 2017, German-English). `nmt config` prints it with a
    description of each setting, and `nmt COMMAND --help` describes a command.

    \b
    Example, with the German-English corpus that is installed with nmt:
      nmt prepare --config sample.yaml
      nmt train --config sample.yaml
      echo "Gestern hat Maria den Hund gefüttert." | nmt translate
      nmt evaluate
    """
