"""A prompt at which lines are translated as they are typed, for `nmt translate --interactive` and `nmt demo`."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nmt.console import printable_sentence, say
from nmt.errors import NmtError
from nmt.translate.files import Warnings, watched
from nmt.translate.translator import Translator
from nmt.translate.types import Line, Options, Translation

COMMANDS = ":run DIR opens another run; :quit or Ctrl-D ends"
PROMPT = "> "
_COMMAND = re.compile(r":(\w+)(?:\s+(.*))?")


@dataclass(frozen=True)
class Prompt:
    """What translates the lines that are typed."""

    title: str
    """The run or exported directory, for the user."""
    translator: Translator
    options: Options
    template: Line = field(default_factory=lambda: Line(""))
    """The constraints on the translation of every line; its text is not used."""

    @classmethod
    def of(cls, title: str, translator: Translator, options: Options, template: Line | None = None) -> Prompt:
        """Return a prompt that shows the second-best translation if the search has one, and the confidence if the run
        is calibrated. Raises ConfigError if the settings are incompatible or not supported."""
        search = options.search
        has_second = search.mbr == "none" and (search.beam > 1 or search.sample)
        options = replace(options, n_best=2 if has_second else 1, confidence=translator.has_confidence)
        template = template or Line("")
        has_terms = template.glossary is not None and not search.inline_terms
        translator.check(search, options.n_best, has_terms)
        return cls(title, translator, options, template)

    def rows(self, text: str) -> Iterator[str]:
        """Yield the translation of a line, and below it how probable it is and the next best one.

        Warnings about the line are printed to standard error.
        """
        warnings = Warnings()
        line = replace(self.template, text=text)
        [(_, _, translations)] = watched(self.translator, [line], self.options, 0, warnings)
        best, *others = translations
        yield best.text
        if measures := ", ".join(_measures(best)):
            yield f"  {measures}"
        for other in others:
            yield f"  next best: {other.text}"
        for message in warnings.lines():
            say(message)


def _measures(translation: Translation) -> Iterator[str]:
    """Yield how sure the model is of a translation."""
    n_pieces = sum(len(part.tgt_ids) + 1 for part in translation.searched)  # with the end of each sentence
    if n_pieces:
        yield f"probability per piece {math.exp(translation.log_prob / n_pieces):.2f}"
    if translation.confidence is not None:
        yield f"expected chrF {translation.confidence.chrf:.0f}"
    if translation.match is not None:
        yield f"translation memory: {translation.match}"


def typed_lines() -> Iterator[str]:
    """Yield the lines of standard input, after a prompt if it is a terminal. Lines that are not text are reported."""
    if sys.stdin is None:
        return
    prompt = PROMPT if sys.stdin.isatty() else ""
    with suppress(ImportError):
        import readline  # noqa: F401 (lines can then be edited and recalled)
    while True:
        try:
            line = input(prompt)
            line.encode()  # raises an error for bytes that Python keeps as surrogates
        except EOFError:
            if prompt:
                print()
            return
        except UnicodeError:
            say("this line is not text in the encoding of the terminal; it is not translated")
            continue
        yield line


def interact(prompt: Prompt, lines: Iterable[str], open_run: Callable[[Path], Prompt]) -> None:
    """Translate lines one by one to standard output until they end, or until `:quit`.

    open_run: opens the run of `:run DIR`; if it raises NmtError, the error is shown, and the run before is kept.
    """
    for line in lines:
        command = _COMMAND.fullmatch(line.strip())
        if command is None:
            if line.strip():
                _show(prompt.rows(line))
            continue
        name, argument = command.groups()
        if name in ("quit", "q"):
            return
        if name == "run" and argument:
            try:
                prompt = open_run(Path(argument).expanduser())
            except NmtError as error:
                for problem in error.args:
                    say(problem)
                continue
        elif name != "run":
            say(f":{name}: no such command; {COMMANDS}")
            continue
        say(f"translating {prompt.translator.config.data.direction} with {prompt.title}")


def _show(rows: Iterable[str]) -> None:
    for row in rows:
        print(printable_sentence(row), flush=True)
