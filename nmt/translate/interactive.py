"""A prompt at which lines are translated as they are typed, for `nmt translate --interactive` and `nmt demo`."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nmt.config import SearchConfig
from nmt.console import printable_sentence, say
from nmt.errors import NmtError
from nmt.translate.files import Warnings, watched
from nmt.translate.translator import Translator
from nmt.translate.types import Line, Options

COMMANDS = ":run DIR opens another run; :quit or Ctrl-D ends"
PROMPT = "> "


@dataclass(frozen=True)
class Prompt:
    """A translator of typed lines, with its options."""

    translator: Translator
    options: Options

    @classmethod
    def of(cls, translator: Translator, search: SearchConfig) -> Prompt:
        """Return a prompt that shows the second-best translation if the search has one, and the confidence if the run
        is calibrated. Raises ConfigError if the settings are incompatible or not supported."""
        has_second = search.mbr == "none" and (search.beam > 1 or search.sample)
        options = Options(search, 2 if has_second else 1, confidence=translator.has_confidence)
        translator.check(search, options.n_best)
        return cls(translator, options)

    def rows(self, text: str) -> Iterator[str]:
        """Yield the translation of a line, its probability and confidence, and the next best translation.

        Warnings about the line are printed to standard error.
        """
        warnings = Warnings()
        [(_, _, (best, *others))] = watched(self.translator, [Line(text)], self.options, 0, warnings)
        yield best.text
        n_pieces = sum(len(part.tgt_ids) + 1 for part in best.searched)  # with the end of each sentence
        if n_pieces:
            yield f"  probability per piece {math.exp(best.log_prob / n_pieces):.2f}"
        if best.confidence is not None:
            yield f"  expected chrF {best.confidence.chrf:.0f}"
        for other in others:
            yield f"  next best: {other.text}"
        for message in warnings.lines():
            say(message)


def _typed_lines() -> Iterator[str]:
    """Yield the lines of standard input, after a prompt if it is a terminal. Lines that are not text are reported."""
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    with suppress(ImportError):
        import readline  # noqa: F401 (lines can then be edited and recalled)
    while sys.stdin is not None:
        try:
            line = input(PROMPT if is_terminal else "")
            line.encode()  # raises an error for bytes that Python keeps as surrogates
        except EOFError:
            return
        except UnicodeError:
            say("this line is not text in the encoding of the terminal; it is not translated")
        else:
            yield line


def interact(prompt: Prompt, open_run: Callable[[Path], Prompt]) -> None:
    """Translate the lines of standard input one by one until they end, or until `:quit`.

    open_run: opens the run of `:run DIR`; if it raises NmtError, the error is shown, and the run before is kept.
    """
    for line in _typed_lines():
        command = re.fullmatch(r":(\w+)\s*(.*)", line.strip())
        if command is None:
            for row in prompt.rows(line) if line.strip() else ():
                print(printable_sentence(row), flush=True)
            continue
        name, argument = command.groups()
        if name == "quit":
            return
        if name != "run" or not argument:
            say(f"{line.strip()}: no such command; {COMMANDS}")
            continue
        try:
            prompt = open_run(Path(argument).expanduser())
        except NmtError as error:
            for problem in error.args:
                say(problem)
