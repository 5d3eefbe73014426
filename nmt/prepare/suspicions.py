"""Check a sample of each corpus for what is wrong with it as a whole: text read with the wrong encoding, a side in
another language, lines that do not belong together.

A corpus is judged, never a line: each finds nothing in good text of any kind, and nothing is dropped for it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from statistics import median

from nmt.config.data import LABEL
from nmt.console import printable_sentence
from nmt.errors import DataError
from nmt.prepare.cleaning.language import in_other_language
from nmt.prepare.languages import Sample
from nmt.text.language_names import language_name
from nmt.text.profile import Profiles, trigrams

_LEAST = 5  # lines that an accusation needs
# UTF-8 read in an 8-bit encoding: the first byte of a character, and those that follow it
_FOLLOWING = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
_MISREAD = re.compile(f"[ÂÃÄÅÎÏÐÑØÙ]{_FOLLOWING}|[à-è]{_FOLLOWING}{{2}}")
_MOST_MISREAD = 0.05  # of the lines beyond ASCII
_IDENTIFIED = 250  # lines of a side
_MOST_OTHER, _MOST_UNLIKE = 0.1, 0.06  # of the lines of a side, by py3langid and by profiles
_LEAST_TRIGRAMS = 25  # of a line that is judged by profiles
_STRETCH, _MOST_STRETCHES = 100, 8  # pairs of a stretch, at least
# share of pairs that are more alike than with another line: 0.78 or more of good text, 0.5 by chance
_ALIKE, _UNALIKE = 0.6, 0.56
_WORDS = re.compile(r"\d+|[^\W\d_]+")


def suspicions(
    samples: Mapping[str, Sample], held_out: Collection[str], languages: tuple[str, str], names: Mapping[str, str]
) -> Iterator[str]:
    """Yield a warning for each thing that looks wrong with a corpus.

    Args:
        samples, names: those of each corpus, by key.
        held_out: the keys of the development and test sets.
    """
    profiles = Profiles.of(languages, [pair for key in held_out for pair in samples[key].pairs])
    for key, sample in samples.items():
        where = f"data.{key} ({names[key]})"
        for side, language in enumerate(languages):
            if language != LABEL:
                lines = {place.line: pair[side] for pair, place in zip(sample.pairs, sample.places, strict=True)}
                yield from _misread(f"{where}, {language}", lines)
                yield from _in_other_language(f"{where}, {language}", lines, language, profiles)
        if LABEL not in languages:
            yield from _not_parallel(where, sample, languages[1])


def _shown(line: int, text: str) -> str:
    return f"such as line {line:,}: {printable_sentence(text[:60])!r}"


def _misread(where: str, lines: Mapping[int, str]) -> Iterator[str]:
    others = {line: text for line, text in lines.items() if not text.isascii()}
    found = [line for line, text in others.items() if _MISREAD.search(text)]
    if len(found) >= max(_LEAST, _MOST_MISREAD * len(others)):
        yield (
            f"{where}: {len(found) / len(others):.0%} of the lines beyond ASCII look decoded with the wrong encoding, "
            f"{_shown(found[0], lines[found[0]])}; data.clean.repair_encoding=true restores such text"
        )


def _in_other_language(where: str, lines: Mapping[int, str], language: str, profiles: Profiles) -> Iterator[str]:
    most, counts = _MOST_OTHER, dict[str, int]()
    try:
        is_other: Callable[[str], object] = in_other_language(language, counts)
    except DataError:  # py3langid is missing, or does not know the language
        most = _MOST_UNLIKE

        def is_other(text: str) -> bool:
            grams = trigrams([text])
            return grams.total() >= _LEAST_TRIGRAMS and profiles.other(grams, language) is not None

    chosen = list(lines.items())[:: -(-len(lines) // _IDENTIFIED) or 1]
    found = [line for line, text in chosen if is_other(text)]
    if len(found) >= max(_LEAST, most * len(chosen)):
        named = [(n, code) for code, n in counts.items() if code not in (language, "unclear")]
        mostly = f", mostly {language_name(max(named)[1])}" if named else ""
        yield (
            f"{where}: {len(found) / len(chosen):.0%} of the lines do not look like {language_name(language)}{mostly}, "
            f"{_shown(found[0], lines[found[0]])}; check its files; data.clean.language=true drops such pairs"
        )


# --- likeness of pairs ------------------------------------------------------------------------------


def _not_parallel(where: str, sample: Sample, language: str) -> Iterator[str]:
    """Yield a warning if pairs are less alike than with the second side of a line beside or far from them."""
    n, own = len(sample.pairs), [pair[1] for pair in sample.pairs]
    texts = {
        "own": own,
        "after": [place.after for place in sample.places],
        "before": [place.before for place in sample.places],
        "random": own[n // 2 :] + own[: n // 2],
    }
    counts = Counter(word for line in itertools.chain(*sample.pairs, *texts.values()) for word in _words(line))
    for kind in ("after", "before", "random"):
        texts[kind] = ["" if line == tgt else line for line, tgt in zip(texts[kind], own, strict=True)]
    values = {kind: _likenesses(sample.pairs, lines, counts) for kind, lines in texts.items()}
    most = 1.0 if _wins(values["own"], values["random"]) < _UNALIKE else 0.5  # stretches vary
    n_stretches, found = min(_MOST_STRETCHES, n // _STRETCH), dict[str, list[int]]()
    for first, last in itertools.pairwise(i * n // max(1, n_stretches) for i in range(n_stretches + 1)):
        part = {kind: of_all[first:last] for kind, of_all in values.items()}
        shifted = [
            kind
            for kind, other in (("after", "before"), ("before", "after"))
            if _wins(part[kind], part[other]) > _ALIKE < _wins(part[kind], part["own"])
        ]
        if shifted or _wins(part["own"], part["random"]) < most:
            found.setdefault("".join(shifted), []).extend(range(first, last))
    for kind, rows in found.items():
        lines = f"about lines {sample.places[rows[0]].line:,} to {sample.places[rows[-1]].line:,}"
        what = (
            f"look shifted: the {language} line {kind} its own fits most lines better"
            if kind
            else "are no more alike than lines paired at random, by lengths, names and numbers"
        )
        yield (
            f"{where}: {'the lines' if len(rows) == n else lines} {what}; check both files for a missing or an extra "
            f"line{'' if len(rows) == n else ', or set data.clean.misaligned=0.03, which drops such pairs'}"
        )


def _likenesses(pairs: Sequence[tuple[str, str]], others: Sequence[str], counts: Mapping[str, int]) -> list[float]:
    """Return how alike the first side of each pair and another text are: in length, and in words, of which rare ones,
    such as numbers and names, count most. NaN if the other text is empty.

    counts: how many texts have a word.
    """
    both = [(src, other) for (src, _), other in zip(pairs, others, strict=True)]
    ratios = [math.log((len(src) + 5) / (len(other) + 5)) if other else math.nan for src, other in both]
    usual = median([ratio for ratio in ratios if not math.isnan(ratio)] or [0.0])
    shared = [min(1.0, sum(3 / counts[word] for word in _words(src) & _words(other))) for src, other in both]
    return [round(3 * words - abs(ratio - usual), 9) for words, ratio in zip(shared, ratios, strict=True)]


def _wins(values: Sequence[float], others: Sequence[float]) -> float:
    """Return the share of values that are greater than others, half of equal ones; NaN if fewer than half are known."""
    known = [(a > b) + (a == b) / 2 for a, b in zip(values, others, strict=True) if not math.isnan(a + b)]
    return sum(known) / len(known) if 2 * len(known) >= len(values) > 0 else math.nan


def _words(text: str) -> set[str]:
    return set(_WORDS.findall(text.lower()))
