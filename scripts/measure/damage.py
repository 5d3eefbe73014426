"""Damage real parallel text in known ways, clean it, and print which steps find how much of each kind of damage.

    python -m scripts.measure.damage FOLDER... [--src de --tgt en] [--pairs 20000] [--rate 0.3] [--without STEP...]
    python -m scripts.measure.damage FOLDER... --whole --foreign FILE... [--profiles]

Of each folder `train.SRC` and `train.TGT` are read. A share of the pairs, the rate, is damaged, an equal part in each
way; the rest are the good pairs, though real corpora have bad ones among them. A kind of damage is found if a pair is
dropped or restored to what it was. Duplicates that are dropped are not counted as good pairs lost. About a millisecond
a pair, most of it for identifying languages.

With --whole a corpus is damaged as a whole instead, and what `nmt prepare` warns of is printed: the source in another
language (the lines of each FILE), shifted, read with the wrong encoding. Every fortieth pair is the development set.
With --profiles py3langid is hidden, so that languages are judged by the development set.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.data.settings import DataConfig
from nmt.data.sources import TrainFiles
from nmt.prepare.cleaning.cleaner import Cleaner, HeldOut
from nmt.prepare.cleaning.grouping import groupings
from nmt.prepare.cleaning.misaligned import SAMPLE_PAIRS, is_misaligned, learn_filter
from nmt.prepare.cleaning.settings import CleanConfig
from nmt.prepare.pairs import SentencePair
from nmt.prepare.suspicions import suspicions
from nmt.text.pairing import Sample

NOISY = CleanConfig(
    repair=["encoding", "entities", "control", "spaces", "NFC"],
    drop=["copied", "broken", "shouted", "links", "tags", "language", "near_duplicates"],
    max_words=150,
    max_word_chars=40,
    min_script=0.5,
    misaligned=0.03,
)
"""The settings that are measured: those for noisy text. `truncated` adds little to `misaligned`, and drops captions."""

GOOD, MENDED = "good", "repaired"
DUPLICATES = {"duplicate", "near_duplicate"}
Pair = tuple[str, str]


@dataclass(frozen=True)
class Made:
    """A pair as it is read, and what it was."""

    kind: str
    pair: Pair
    original: Pair


def damaged(pairs: Sequence[Pair], rate: float, seed: int = 1) -> list[Made]:
    """Return the pairs, a share of them damaged."""
    rng = random.Random(seed)
    names = list(KINDS)
    result = []
    for i, pair in enumerate(pairs):
        kind, new = GOOD, pair
        if rng.random() < rate:
            name = rng.choice(names)
            new = KINDS[name](pairs, i, rng)
            if new != pair:  # it may have had nothing to damage, such as text without accents
                kind = name
        result.append(Made(kind, new, pair))
    return result


def wrong_language(pairs: Sequence[Pair], i: int, rng: random.Random) -> Pair:
    """Return both sides in one language."""
    other = rng.choice(pairs)
    return rng.choice([(pairs[i][0], other[0]), (other[1], pairs[i][1])])


def swapped(pairs: Sequence[Pair], i: int, rng: random.Random) -> Pair:
    """Return the sides in the wrong order."""
    del rng
    src, tgt = pairs[i]
    return tgt, src


def shifted(pairs: Sequence[Pair], i: int, rng: random.Random) -> Pair:
    """Return the source with the target of the next line, unless they share a side and so may be right."""
    del rng
    src, tgt = pairs[(i + 1) % len(pairs)]
    return pairs[i] if src == pairs[i][0] or tgt == pairs[i][1] else (pairs[i][0], tgt)


def mojibake(pairs: Sequence[Pair], i: int, rng: random.Random) -> Pair:
    """Return the text read with the wrong encoding, once or twice."""
    encoding, times = rng.choice(["cp1252", "latin-1"]), rng.choice([1, 1, 2])
    src, tgt = pairs[i]
    for _ in range(times):
        src, tgt = _misread(src, encoding), _misread(tgt, encoding)
    return src, tgt


def _misread(text: str, encoding: str) -> str:
    raw = text.encode()
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:  # five bytes have no character in cp1252
        return raw.decode("latin-1")


def truncated(pairs: Sequence[Pair], i: int, rng: random.Random) -> Pair:
    """Return the pair with one side cut in the middle."""
    share, (src, tgt) = rng.uniform(0.3, 0.7), pairs[i]
    if rng.random() < 0.5:
        return src[: int(share * len(src))].strip() or src, tgt
    return src, tgt[: int(share * len(tgt))].strip() or tgt


def half_translated(pairs: Sequence[Pair], i: int, rng: random.Random) -> Pair:
    """Return the pair with the second half of the target from another pair."""
    src, tgt = pairs[i]
    words, others = tgt.split(), rng.choice(pairs)[1].split()
    return src, " ".join(words[: len(words) // 2] + others[len(others) // 2 :])


def copied(pairs: Sequence[Pair], i: int, rng: random.Random) -> Pair:
    """Return one side as both."""
    side = rng.choice(pairs[i])
    return side, side


def shouted(pairs: Sequence[Pair], i: int, rng: random.Random) -> Pair:
    """Return the pair in capitals."""
    del rng
    return pairs[i][0].upper(), pairs[i][1].upper()


def garbage(pairs: Sequence[Pair], i: int, rng: random.Random) -> Pair:
    """Return one side with symbols in place of text."""
    src, tgt = pairs[i]
    noise = "".join(rng.choice("#$%&*+=/\\|@~^_<>[]{}0123456789 ") for _ in tgt)
    return rng.choice([(src, noise), (noise, tgt)])


KINDS: dict[str, Callable[[Sequence[Pair], int, random.Random], Pair]] = {
    "wrong language": wrong_language,
    "swapped": swapped,
    "shifted": shifted,
    "mojibake": mojibake,
    "truncated": truncated,
    "half-translated": half_translated,
    "copied": copied,
    "shouted": shouted,
    "garbage": garbage,
}


def outcomes(made: Sequence[Made], config: DataConfig) -> list[str]:
    """Clean the pairs. Returns for each the reason for which it was dropped, `MENDED`, or the empty text."""
    result = [""] * len(made)
    left: list[tuple[int, Pair]] = []
    cleaner = Cleaner(config, "train.0", HeldOut(frozenset(), frozenset()))
    for i, item in enumerate(made):
        before = cleaner.report.dropped.copy()
        cleaned = cleaner.clean(SentencePair(*item.pair, ""))
        if cleaned is None:
            result[i] = next(reason for reason, n in cleaner.report.dropped.items() if n > before.get(reason, 0))
        else:
            left.append((i, (cleaned.src, cleaned.tgt)))
    for rule in groupings(config.clean, config.pair):
        seen: Counter[bytes] = Counter()
        for i, pair in left:
            seen[key := rule.key(*pair)] += 1
            if seen[key] > 1:
                result[i] = rule.reason
        left = [(i, pair) for i, pair in left if not result[i]]
    pairs = [pair for _, pair in left]
    if config.clean.misaligned:
        learned = learn_filter(pairs[:SAMPLE_PAIRS], config.clean.misaligned)
        for (i, _), drop in zip(left, is_misaligned(pairs, learned), strict=True):
            if drop:
                result[i] = "misaligned"
    left = [(i, pair) for i, pair in left if not result[i]]
    for i, pair in left:
        if made[i].kind != GOOD and _squeezed(pair) == _squeezed(made[i].original):
            result[i] = MENDED
    return result


def _squeezed(pair: Pair) -> Pair:
    return " ".join(pair[0].split()), " ".join(pair[1].split())


def table(made: Sequence[Made], results: Sequence[str]) -> Iterator[str]:
    """Yield a line for each kind: how many pairs, the share that was found or lost, and by which steps."""
    yield "| kind | pairs | found | by |\n|---|---|---|---|"
    for kind in (*KINDS, GOOD):
        reasons = Counter(result for item, result in zip(made, results, strict=True) if item.kind == kind)
        n = max(1, reasons.total())
        found = sum(count for reason, count in reasons.items() if reason and (kind != GOOD or reason not in DUPLICATES))
        steps = ", ".join(f"{reason} {count / n:.1%}" for reason, count in reasons.most_common() if reason)
        yield f"| {kind if kind != GOOD else 'good pairs lost'} | {reasons.total():,} | {found / n:.1%} | {steps} |"


def samples(made: Sequence[Made], results: Sequence[str], n: int) -> Iterator[str]:
    """Yield some of the good pairs that are lost, and some of the damaged ones that are not found."""
    rng = random.Random(1)
    for kind in (GOOD, *KINDS):
        some = [
            (result or "missed", item.pair)
            for item, result in zip(made, results, strict=True)
            if item.kind == kind and (bool(result) == (kind == GOOD)) and result not in DUPLICATES
        ]
        for reason, (src, tgt) in rng.sample(some, min(n, len(some))):
            yield f"{kind}, {reason}: {src} ||| {tgt}"


def damaged_as_a_whole(pairs: Sequence[Pair], foreign: dict[str, list[str]]) -> dict[str, list[Pair]]:
    """Return a corpus as it is, and damaged in each way, by the name of the damage."""
    src, tgt, rng = [pair[0] for pair in pairs], [pair[1] for pair in pairs], random.Random(1)
    half = len(tgt) // 2

    def some(others: Sequence[str], lines: Sequence[str], share: float) -> list[str]:
        return [others[i % len(others)] if rng.random() < share else line for i, line in enumerate(lines)]

    def joined(src: Sequence[str], tgt: Sequence[str]) -> list[Pair]:
        return list(zip(src, tgt, strict=False))

    misread_src, misread_tgt = ([_misread(line, "cp1252") for line in side] for side in (src, tgt))
    kinds = {GOOD: list(pairs)}
    for name, lines in foreign.items():
        kinds[f"{name}, all"] = joined(some(lines, src, 1), tgt)
        kinds[f"{name}, 30 %"] = joined(some(lines, src, 0.3), tgt)
    return kinds | {
        "shifted": joined(src, tgt[1:]),
        "shifted from the middle": joined(src, tgt[:half] + tgt[half + 1 :]),
        "mojibake, source": joined(misread_src, tgt),
        "mojibake, target": joined(src, misread_tgt),
        "mojibake, 20 %": joined(some(misread_src, src, 0.2), some(misread_tgt, tgt, 0.2)),
    }


def whole_table(pairs: Sequence[Pair], foreign: dict[str, list[str]], languages: tuple[str, str]) -> Iterator[str]:
    """Yield for each kind of damage what is warned of."""
    signs = {"shifted": "shift", "at random": "pairs", "encoding": "encoding", "do not look like": "language"}
    config = DataConfig(direction="-".join(languages), train=[TrainFiles(files=dict.fromkeys(languages, "train"))])
    held_out = Sample.of(pairs[::40])
    for name, made in damaged_as_a_whole(pairs, foreign).items():
        cleaner = Cleaner(config, "train.0", HeldOut(frozenset(), frozenset()))
        cleaned = [cleaner.clean(SentencePair(*pair, "")) for pair in made]
        samples = {"train.0": Sample.of((pair.src, pair.tgt) for pair in cleaned if pair), "valid": held_out}
        found = suspicions(samples, ["valid"], languages, dict.fromkeys(samples, ""))
        told = [sign for warning in found for text, sign in signs.items() if text in warning]
        yield f"| {name} | {', '.join(told) or 'nothing'} |"


def read(folder: Path, languages: tuple[str, str], most: int) -> list[Pair]:
    """Return the first pairs of a folder; 0: all of them."""
    sides = [(folder / f"train.{language}").read_text(encoding="utf-8").split("\n")[:-1] for language in languages]
    return list(zip(*sides, strict=True))[: most or None]


def main() -> None:
    """Print a table for each folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--src", default="de")
    parser.add_argument("--tgt", default="en")
    parser.add_argument("--pairs", type=int, default=20_000, help="read so many of each folder; 0: all")
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--without", nargs="*", default=[], help="settings of data.clean to switch off")
    parser.add_argument("--samples", type=int, default=0, help="print so many pairs of each kind that went wrong")
    parser.add_argument("--whole", action="store_true", help="damage corpora as a whole")
    parser.add_argument("--foreign", type=Path, nargs="*", default=[], help="text in other languages than --src")
    parser.add_argument("--profiles", action="store_true", help="do without py3langid")
    options = parser.parse_args()
    if options.profiles:
        sys.modules["py3langid"] = None  # type: ignore[assignment]  # importing it fails
    first, second = languages = (min(options.src, options.tgt), max(options.src, options.tgt))
    clean = NOISY.model_copy(update=dict.fromkeys(options.without))
    source = TrainFiles(files={first: "train", second: "train"})
    config = DataConfig(direction=f"{first}-{second}", train=[source], clean=clean)
    foreign = {path.suffix[1:]: path.read_text(encoding="utf-8").split("\n")[:-1] for path in options.foreign}
    for folder in options.folder:
        if options.whole:
            pairs = read(folder, languages, options.pairs)
            print(
                f"\n{folder.name}, {len(pairs):,} pairs\n",
                *whole_table(pairs, foreign, languages),
                sep="\n",
                flush=True,
            )
            continue
        made = damaged(read(folder, languages, options.pairs), options.rate)
        results = outcomes(made, config)
        print(f"\n{folder.name}, {len(made):,} pairs\n")
        print(*table(made, results), *samples(made, results, options.samples), sep="\n", flush=True)


if __name__ == "__main__":
    main()
