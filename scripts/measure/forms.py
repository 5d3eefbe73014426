"""Measure how translations change if text has other spaces, invisible characters or another normal form.

    python -m scripts.measure.forms RUN --src test.de --ref test.en [--lines 150]

Prints BLEU for the text as it is and in each form, and how many of its translations differ from those of the text as it
is. The exit status is 1 if a form costs more than one BLEU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from unicodedata import normalize

from nmt.evaluate.metrics import corpus_score
from nmt.text.lines import read_lines
from nmt.translate.loading import Translator

MOST = 1.0
SPACES = {"U+00A0": "\u00a0", "U+202F": "\u202f", "U+2009": "\u2009", "U+3000": "\u3000", "tab": "\t"}
INSIDE = {"soft hyphen": "\u00ad", "U+200B": "\u200b", "U+200C": "\u200c", "U+2060": "\u2060"}
START = {"byte order mark": "\ufeff", "U+200E": "\u200e", "U+2067": "\u2067"}


def with_space(space: str) -> Callable[[str], str]:
    """Return a function that replaces the second space of a line."""

    def changed(line: str) -> str:
        first, second, *others = line.split(" ", 2)
        return f"{first} {second}{space}{others[0]}" if others else line

    return lambda line: changed(line) if line.count(" ") > 1 else line


def inside(sign: str) -> Callable[[str], str]:
    """Return a function that inserts a character after the third one of a line."""
    return lambda line: line[:3] + sign + line[3:]


FORMS: dict[str, Callable[[str], str]] = {
    **{f"second space as {name}": with_space(space) for name, space in SPACES.items()},
    **{f"{name} after three characters": inside(sign) for name, sign in INSIDE.items()},
    **{f"{name} at the start": sign.__add__ for name, sign in START.items()},
    "NFD": lambda line: normalize("NFD", line),
    "NFC": lambda line: normalize("NFC", line),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=150)
    options = parser.parse_args()
    sources = [*islice(read_lines(options.src), options.lines)]
    references = [*islice(read_lines(options.ref), options.lines)]
    translator = Translator.load(options.run)
    plain = translator.translate(sources)
    score = corpus_score("bleu", plain, references)
    print(f"{'as it is':40} {score.value:5.1f}            {score.signature}")
    is_good = True
    for name, form in FORMS.items():
        translations = translator.translate([*map(form, sources)])
        bleu = corpus_score("bleu", translations, references).value
        n_other = sum(map(str.__ne__, plain, translations))
        print(f"{name:40} {bleu:5.1f} {bleu - score.value:+6.1f} {n_other:4} differ")
        is_good = is_good and bleu >= score.value - MOST
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
