"""Measure the share of URLs, e-mail addresses, numbers, tags and placeholders that are preserved in translation.

Once with the run's own search settings without `search.protect`, once with it.

    python -m scripts.measure.protection RUN [--input FILE] [--lines N]

RUN is a run that translates from German; with --input FILE any run, and its lines are taken. Otherwise they are made:
sentences of the sample corpus's test set with one or two such things put between their words, always the same. The
exit status is 1 if less than 99 % survive where they are protected.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from nmt.text.constraints import alone, spans
from nmt.text.lines import read_lines
from nmt.translate.loading import Translator

SAMPLE = Path(__file__).parents[2] / "data" / "sample" / "test.de"
NEEDED = 0.99
NAMES = (
    "anna", "berlin", "cafe", "daten", "euro", "flug", "garten", "haus", "insel", "jacke", "karte", "lampe", "markt",
    "nord", "ost", "park", "radio", "see", "tisch",
)  # fmt: skip


def a_name(rng: random.Random) -> str:
    return rng.choice(NAMES) + rng.choice(["", "_", "."]) + rng.choice(NAMES)


def a_url(rng: random.Random) -> str:
    host = f"{rng.choice(NAMES)}-{rng.choice(NAMES)}.{rng.choice(['org', 'de', 'com', 'co.uk'])}"
    path = rng.choice(
        ["", "/", f"/{a_name(rng)}.html", f"/{rng.randint(1, 9999)}?q={a_name(rng)}&page={rng.randint(1, 99)}"]
    )
    return f"{rng.choice(['http://', 'https://', 'https://www.', 'www.'])}{host}{path}"


def an_email(rng: random.Random) -> str:
    return f"{a_name(rng)}@{rng.choice(NAMES)}.{rng.choice(['org', 'de', 'com'])}"


def a_tag(rng: random.Random) -> str:
    name = rng.choice(["b", "i", "a", "g", "span", "strong"])
    attribute = rng.choice(["", f' id="{rng.randint(1, 99)}"', f' class="{rng.choice(NAMES)}"'])
    return rng.choice(
        [f"<{name}{attribute}>", f"</{name}>", "<br/>", "<br />", "&amp;", "&nbsp;", f"&#{rng.randint(100, 9999)};"]
    )


def a_placeholder(rng: random.Random) -> str:
    name = rng.choice(NAMES)
    return rng.choice(
        [f"{{{name}}}", f"{{{rng.randint(0, 9)}}}", "%s", "%d", f"%({name})s", f"${name.upper()}", f"${{{name}}}",
         f"{{{{{name}}}}}", f"%{rng.randint(1, 9)}$s", f"__{name.upper()}__"]
    )  # fmt: skip


def a_number(rng: random.Random) -> str:
    day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1900, 2099)
    return rng.choice(
        [f"{rng.randint(0, 99)}", f"{rng.randint(100, 999_999)}", f"{rng.randint(0, 999)},{rng.randint(1, 99)}",
         f"{rng.randint(1, 999)}.{rng.randint(0, 999):03}", f"{rng.randint(0, 100)}%", f"-{rng.randint(1, 99)}",
         f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}", f"{year}-{month:02}-{day:02}", f"{day}.{month}.{year}"]
    )  # fmt: skip


MAKERS: tuple[Callable[[random.Random], str], ...] = (a_url, an_email, a_tag, a_placeholder, a_number)


def make_lines(n: int) -> list[str]:
    """Sentences of the sample corpus with one or two things between their words; kinds take turns."""
    rng = random.Random(1)
    sentences = list(read_lines(SAMPLE))
    lines = []
    for i in range(n):
        words = sentences[i % len(sentences)].split()
        for make in (MAKERS[i % len(MAKERS)], rng.choice(MAKERS))[: rng.randint(1, 2)]:
            words.insert(rng.randint(0, len(words) - 1), make(rng))
        lines.append(" ".join(words))
    return lines


def survival_by_kind(source: str, translation: str) -> dict[str, tuple[int, int]]:
    """Return by kind how many protected texts of the source are unchanged in the translation, and how many there are.

    Each counts as often as it occurs in the source.
    """
    counts: dict[str, tuple[int, int]] = {}
    found = Counter((span.kind, span.wanted) for span in spans(source))
    for (kind, text), n in sorted(found.items(), key=lambda item: -len(item[0][1])):
        # matches are removed, so that a number within an address is not counted again
        translation, n_found = alone(text).subn(" ", translation, count=n)
        n_kept, n_all = counts.get(kind, (0, 0))
        counts[kind] = n_kept + n_found, n_all + n
    return counts


def measure(translator: Translator, lines: list[str], protect: bool) -> tuple[dict[str, tuple[int, int]], float]:
    """Return how many survive of how many, by kind, and the seconds it took."""
    search = translator.config.search.model_copy(update={"protect": protect})
    begin = time.monotonic()
    translations = [best[0].text for best in translator.translate_lines(lines, search)]
    seconds = time.monotonic() - begin
    counts: dict[str, tuple[int, int]] = {}
    for line, translation in zip(lines, translations, strict=True):
        for kind, (n_kept, n_all) in survival_by_kind(line, translation).items():
            kept, in_all = counts.get(kind, (0, 0))
            counts[kind] = kept + n_kept, in_all + n_all
    counts["all"] = sum(kept for kept, _ in counts.values()), sum(in_all for _, in_all in counts.values())
    return counts, seconds


def share(counts: tuple[int, int]) -> float:
    """Return the share that survived; 1 if there are none."""
    n_kept, n_all = counts
    return n_kept / n_all if n_all else 1.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Print the share that survives translation, by kind.")
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--input", type=Path, metavar="FILE", help="lines to translate instead of those made here")
    parser.add_argument("--lines", type=int, default=500, metavar="N", help="how many to make")
    options = parser.parse_args()
    lines = list(read_lines(options.input)) if options.input else make_lines(options.lines)
    translator = Translator.load(options.run)
    (before, seconds_before), (after, seconds_after) = (
        measure(translator, lines, protect) for protect in (False, True)
    )
    print(f"{len(lines)} lines\n{'kind':<12}{'found':>7}{'as it is':>12}{'protected':>12}")
    for kind, counts in before.items():
        if counts[1]:
            print(f"{kind:<12}{counts[1]:>7}{share(counts):>12.1%}{share(after[kind]):>12.1%}")
    print(f"{'seconds':<12}{'':>7}{seconds_before:>12.1f}{seconds_after:>12.1f}")
    return int(share(after["all"]) < NEEDED)


if __name__ == "__main__":
    sys.exit(main())
