"""`nmt data`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.cli.app import app
from nmt.cli.complete import corpora
from nmt.console import show
from nmt.errors import ConfigError


@app.command()
def data(
    action: Annotated[Literal["list", "show", "get"], typer.Argument(metavar="ACTION", help="list, show or get.")],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] PAIR",
            help="Name of the corpus (not for list) and language pair, such as de-en.",
            show_default=False,
            autocompletion=corpora,
        ),
    ],
    version: Annotated[
        str | None, typer.Option("--version", metavar="V", help="With get: version of the corpus.  [default: latest]")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="With get: directory to write.  [default: data]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="With list: print a list of JSON objects.")] = False,
) -> None:
    """List, describe and download public corpora by name.

    The corpora of OPUS (https://opus.nlpl.eu) are available, and IWSLT14 and IWSLT17 from the Hugging Face Hub.

    list PAIR prints the corpora for a language pair with name, latest version, number of pairs and download size.
    show NAME PAIR prints versions, licence and citation of a corpus, and how to use it in a config.
    get NAME PAIR downloads a corpus, writes it as plain text (NAME.de and NAME.en, one sentence per line) with its
    licence, and prints the settings for a config. IWSLT14 and IWSLT17 include development and test sets.

    Interrupted downloads are resumed. Downloads are cached in ~/.cache/nmt, or in the directory NMT_CACHE.
    NMT_OPUS_URL sets the address of a mirror of the OPUS API.

    \b
    Examples:
      nmt data list de-en
      nmt data show Europarl de-en
      nmt data get Europarl de-en --version v8 --output corpora
    """
    from nmt.prepare.named import describe, get, language_pair, list_json, list_text

    _refuse_others(action, {"--version": version, "--output": output, "--json": json or None})
    match action, words:
        case "list", [pair]:
            languages = language_pair(pair)
            show(*(list_json(languages).split("\n") if json else list_text(languages)))
        case "show", [name, pair]:
            show(*describe(name, language_pair(pair)))
        case "get", [name, pair]:
            show(*get(name, language_pair(pair), version, output or Path("data")))
        case _:
            wanted = "a language pair, as in nmt data list de-en"
            if action != "list":
                wanted = f"a name and a language pair, as in nmt data {action} Europarl de-en"
            raise ConfigError([f"data {action} takes {wanted}, found {' '.join(words)}"])


def _refuse_others(action: str, given: dict[str, object]) -> None:
    """Raise ConfigError for an option of another action."""
    options: Sequence[str] = {"list": ["--json"], "get": ["--version", "--output"]}.get(action, [])
    problems = [
        f"{option}: not an option of nmt data {action}"
        for option, value in given.items()
        if value is not None and option not in options
    ]
    if problems:
        raise ConfigError(problems)
