"""Print what nmt does with texts in many languages, as a Markdown table: names, metrics, sentences and cleaning.

    python -m scripts.measure.languages FOLDER

FOLDER has one text in many languages, a paragraph a line, in files named after the language: CODE.txt or
CODE_VARIANT.txt; eng.txt is needed. It takes about 10 seconds for 54 texts of 60 paragraphs. Needs the extra `clean`.

* Sentences: the boundaries within paragraphs by an independent rule, those that `nmt.text.split` finds, and how many of
  either are not among the other (missed, invented). By the rule, a boundary follows characters with Unicode's property
  Sentence_Terminal, `…`, `׃`, `፡፡`, or in Greek `;`, without the Burmese comma, and closing quotes and brackets, if
  white space is next, or after a mark that is not ASCII, a letter. A full stop after a number or a single letter with
  case is no boundary, nor is a mark before a letter in lower case, except in Georgian.
* Cleaning: paragraphs are paired with those of eng.txt by `nmt.text.sentence_alignment`. Only pairs of one paragraph
  each count, nearly all of which are genuine, so that nearly every drop or repair is wrong. Steps that do not
  apply to a language are not checked.
* TER compares characters if TER is below 100 where one of eight letters is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import regex

from nmt.config import DataConfig
from nmt.config.clean import CleanConfig
from nmt.config.source import TrainFiles
from nmt.evaluate.metrics import corpus_score, default_tokenizer
from nmt.languages.codes import is_right_to_left, language_name, scripts_of
from nmt.prepare.cleaning.cleaner import Cleaner, HeldOut
from nmt.prepare.cleaning.filters import supports
from nmt.prepare.pairs import SentencePair
from nmt.text.sentence_alignment import align
from nmt.text.split import sentences

ENGLISH = "eng"
STEPS: dict[str, dict[str, Any]] = {
    "max_ratio: 4": {"max_ratio": 4.0},
    "max_word_chars: 40": {"max_word_chars": 40},
    "min_script: 0.5": {"min_script": 0.5},
    "copied": {"drop": ["copied"]},
    "broken": {"drop": ["broken"]},
    "shouted": {"drop": ["shouted"]},
    "numbers": {"drop": ["numbers"]},
    "sentences": {"drop": ["sentences"]},
    "truncated": {"drop": ["truncated"]},
    "language": {"drop": ["language"]},
    "repair: encoding": {"repair": ["encoding"]},
}
"""Settings of `data.clean` or of a corpus by the name of a column."""
HEADER = [
    "text", "name", "script", "BLEU", "TER", "direction", "by the rule", "found", "missed", "invented", "pairs", *STEPS,
]  # fmt: skip
NOT_CHECKED = "not checked"

_MARK = r"(?:[[\p{Sentence_Terminal}…׃]--[\u104a]]|፡፡|(?<=።)፡)"
_AFTER = r"[\p{Pe}\p{Pf}\p{Pi}\p{Cf}\"']*"
_LOWER = r"[\p{Ll}--\p{Script=Georgian}]"


def boundaries_by_rule(text: str, is_greek: bool) -> set[int]:
    """Return the boundaries of sentences, as numbers of characters before them without white space."""
    mark = rf"{_MARK}|[;\u037e]" if is_greek else _MARK
    pattern = regex.compile(
        rf"(?<!\p{{N}}(?=\.)|(?<![\p{{L}}\p{{M}}])[\p{{Lu}}\p{{Ll}}](?=\.))(?:{mark})++(?:\s*[»›](?=\s)|{_AFTER})"
        rf"(?:\s+(?=\S)|(?<=[^\p{{ASCII}}]{_AFTER})(?=\p{{L}}))(?!{_AFTER}\p{{Ps}}*{_LOWER})",
        regex.VERSION1,
    )
    return {_visible(text[: match.end()]) for match in pattern.finditer(text)}


def boundaries_found(text: str) -> set[int]:
    """Return the boundaries of sentences that nmt finds, as numbers of characters before them without white space."""
    boundaries, n = set(), 0
    for sentence in sentences(text)[:-1]:
        n += _visible(sentence)
        boundaries.add(n)
    return boundaries


def _visible(text: str) -> int:
    return len("".join(text.split()))


def boundary_counts(lines: Sequence[str], code: str) -> list[int]:
    """Return the numbers of boundaries by the rule, found, missed and invented."""
    counts = [0, 0, 0, 0]
    for line in lines:
        expected, found = boundaries_by_rule(line, "Grek" in scripts_of(code)), boundaries_found(line)
        for i, boundaries in enumerate((expected, found, expected - found, found - expected)):
            counts[i] += len(boundaries)
    return counts


def pairs_with(lines: Sequence[str], english: Sequence[str]) -> list[tuple[str, str]]:
    """Return the paragraphs that are aligned one to one."""
    beads = align(lines, english)
    return [
        (lines[bead.src.start], english[bead.tgt.start]) for bead in beads if len(bead.src) == 1 and len(bead.tgt) == 1
    ]


def n_changed(pairs: Sequence[tuple[str, str]], code: str, settings: dict[str, Any]) -> str:
    """Return how many pairs a step of cleaning drops or repairs; `NOT_CHECKED` if it does not apply to the language."""
    if not pairs:
        return ""
    if not all(supports(code, reason) for reason in settings.get("drop", ())):
        return NOT_CHECKED
    source = TrainFiles(files={code: f"a.{code}", ENGLISH: "a.en"})
    max_ratio = settings.get("max_ratio", 1e9)
    clean = CleanConfig(**{name: value for name, value in settings.items() if name != "max_ratio"})
    direction = f"{code}-{ENGLISH}"
    config = DataConfig(
        direction=direction, train=[source], valid=source, clean=clean, max_chars=100_000, max_ratio=max_ratio
    )
    cleaner = Cleaner(config, "train.0", HeldOut.of([]))
    for pair in pairs:
        src, tgt = pair if config.pair[0] == code else reversed(pair)
        cleaner.clean(SentencePair(src, tgt, "corpus"))
    report = cleaner.finish()
    return str(report.read - report.kept + sum(report.repaired.values()))


def ter_unit(lines: Sequence[str], code: str) -> str:
    """Return what TER compares: characters or words."""
    letters = regex.sub(r"[^\p{L}]", "", "".join(lines))[:8]
    score = corpus_score("ter", [letters[:-1]], [letters], code).value
    return "characters" if score < 100 else "words"


def row(path: Path, english: Sequence[str]) -> list[str]:
    """Return the cells of a text."""
    code = path.stem
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = [] if code == ENGLISH else pairs_with(lines, english)
    return [
        code,
        language_name(code),
        " ".join(scripts_of(code)) or "unknown",
        default_tokenizer(code),
        ter_unit(lines, code),
        "from right to left" if is_right_to_left(code) else "",
        *map(str, boundary_counts(lines, code)),
        str(len(pairs)),
        *(n_changed(pairs, code, settings) for settings in STEPS.values()),
    ]


def main() -> None:
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    english = (folder / f"{ENGLISH}.txt").read_text(encoding="utf-8").splitlines()
    print(f"| {' | '.join(HEADER)} |")
    print(f"|{'---|' * len(HEADER)}")
    for path in sorted(folder.glob("*.txt")):
        print(f"| {' | '.join(row(path, english))} |", flush=True)


if __name__ == "__main__":
    main()
