"""A prompt at which lines are translated as they are typed, for `nmt translate --interactive` and `nmt demo`."""

from __future__ import annotations

import math
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from nmt.console import is_typed, printable_sentence, say
from nmt.errors import NmtError
from nmt.process import handling
from nmt.text.glossaries import read_glossary
from nmt.translate.files import Warnings, translate_into
from nmt.translate.loading import Translator
from nmt.translate.types import Line, Options

COMMANDS = {
    ":run DIR": "opens another run",
    ":beam N": "changes the beam size",
    ":glossary F": "uses the terms of a file, and without F those of none",
    ":help": "shows the commands",
    ":quit": "ends, as Ctrl-D does; Ctrl-C clears the line",
}
PROMPT = "> "


def interact(translator: Translator, open_run: Callable[[Path], Translator]) -> None:
    """Translate the lines of standard input one by one, with the configured search, until they end or until `:quit`.

    open_run: opens the run of `:run DIR`. An error of a command or a line is shown, and what was set before is kept.
    Raises ConfigError if the configured settings are incompatible or not supported.
    """
    translator.check(translator.search, 1)
    say(f"translating {translator.config.data.direction}; :help lists the commands")
    overrides = list[str]()
    glossary = None
    for line in _typed_lines():
        command = re.fullmatch(r":(\w+)\s*(.*)", line.strip())
        try:
            match command.groups() if command else ():
                case ():
                    for row in _rows(translator, Line(line, glossary=glossary)) if line.strip() else ():
                        print(printable_sentence(row), flush=True)
                case "quit", _:
                    return
                case "run", path if path:
                    translator = open_run(Path(path).expanduser()).with_search(overrides)
                    if glossary is not None:
                        glossary = None
                        say("the glossary is no longer used")
                    say(f"translating {translator.config.data.direction}")
                case "beam", size if size:
                    translator = translator.with_search([f"search.beam={size}"])
                    overrides = [f"search.beam={size}"]
                case "glossary", path:
                    glossary = read_glossary(Path(path).expanduser(), translator.target) if path else None
                case name, _:
                    if name != "help":
                        say(f"{line.strip()}: no such command")
                    for typed, does in COMMANDS.items():
                        say(f"{typed} {does}")
        except NmtError as error:
            for problem in error.args:
                say(problem)


def _typed_lines() -> Iterator[str]:
    """Yield the lines of standard input, after a prompt if it is a terminal. Lines that are not text are reported."""
    is_terminal = is_typed()
    with suppress(ImportError):
        import readline  # noqa: F401 (lines can then be edited and recalled)
    while sys.stdin is not None:
        try:
            with handling([signal.SIGINT] if is_terminal else (), signal.default_int_handler):
                line = input(PROMPT if is_terminal else "")
            line.encode()  # raises an error for bytes that Python keeps as surrogates
        except EOFError:
            if is_terminal:
                print()  # the shell's prompt gets a line of its own
            return
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            print()
        except UnicodeError:
            say("this line is not text in the encoding of the terminal; it is not translated")
        else:
            yield line


def _rows(translator: Translator, line: Line) -> Iterator[str]:
    """Yield the translation of a line, its probability and confidence, and the next best translation if there is one.

    Warnings about the line are printed to standard error.
    """
    search = translator.search
    has_second = search.mbr == "none" and (search.beam > 1 or search.sample)
    options = Options(search, 2 if has_second else 1, confidence=translator.has_confidence)
    warnings = Warnings()
    [[best, *others]] = translate_into([warnings], translator, [line], options, 0)
    yield best.text
    n_pieces = sum(len(part.tgt_ids) + 1 for part in best.searched)  # with the end of each sentence
    if n_pieces:
        yield f"  probability per piece {math.exp(best.log_prob / n_pieces):.2f}"
    if best.confidence is not None:
        yield f"  expected chrF {best.confidence.chrf:.0f}"
    for other in others:
        yield f"  next best: {other.text}"
    for message in warnings.finish():
        say(message)
