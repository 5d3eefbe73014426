"""Print statistics of the embedded corpus and their requirements: ``python -m scripts.sample_corpus.check``.

The grammar is run again from its seed, which shows that the files are its output and yields, for every sentence, the
lemmas in it and the constructions in which they stand. The exit status is 1 if a figure misses its requirement.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import sacrebleu

from scripts.sample_corpus.grammar import ARTICLE, AUXILIARIES, DER_ENDING, EIN_ENDING, MODALS, POSSESSIVES
from scripts.sample_corpus.lexicon import (
    ADJECTIVES,
    ADVERBS,
    CITIES,
    FUNCTION,
    NAMES_F,
    NAMES_M,
    NOUNS,
    NUMBERS,
    VERBS,
)
from scripts.sample_corpus.make import SEED, Corpus, make_corpus
from scripts.sample_corpus.sentences import Pair

TOKEN = re.compile(r"\w+(?:['-]\w+)*|[^\w\s]")
SPLITS = ("train", "dev", "test")


@dataclass
class Figure:
    """One printed line: a value, what is required of it, and whether it is met."""

    name: str
    value: str
    requirement: str
    passed: bool


def tokens(sentence: str) -> list[str]:
    """Lower-cased words and punctuation marks."""
    return TOKEN.findall(sentence.lower())


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """sacreBLEU with its defaults (cased, 13a)."""
    return float(sacrebleu.corpus_bleu(list(hypotheses), [list(references)]).score)


def nearest_copies(sources: Sequence[str], train: Sequence[tuple[str, str]]) -> list[str]:
    """For each source, the target of the training source with the highest F1 of distinct tokens."""
    postings: dict[str, list[int]] = {}
    sizes = numpy.zeros(len(train))
    for index, (german, _) in enumerate(train):
        distinct = sorted(set(tokens(german)))
        sizes[index] = len(distinct)
        for token in distinct:
            postings.setdefault(token, []).append(index)
    arrays = {token: numpy.array(indices) for token, indices in postings.items()}
    copies: list[str] = []
    for source in sources:
        distinct = sorted(set(tokens(source)))
        shared = numpy.zeros(len(train))
        for token in distinct:
            if token in arrays:
                shared[arrays[token]] += 1
        copies.append(train[int(numpy.argmax(2 * shared / (sizes + len(distinct))))][1])
    return copies


# -------------------------------------------------------------------------------------------------- word by word


def function_forms() -> dict[str, tuple[str, str]]:
    """The forms of the function words: form -> (lemma, English)."""
    forms = {lemma: (lemma, english) for lemma, english in FUNCTION.items()}
    for case_forms in ARTICLE.values():
        forms |= dict.fromkeys(case_forms, ("der", "the"))
    for endings in EIN_ENDING.values():
        for ending in endings:
            forms[f"ein{ending}"] = ("ein", "a")
            forms[f"kein{ending}"] = ("kein", "no")
            forms |= {lemma + ending: (lemma, english) for lemma, english in POSSESSIVES.items()}
    for endings in DER_ENDING.values():
        for ending in endings:
            forms[f"dies{ending}"] = ("dieser", "this")
            forms[f"welch{ending}"] = ("welcher", "which")
            forms[f"jed{ending}"] = ("jeder", "every")
            forms[f"letzt{ending}"] = ("letzter", "last")
            forms[f"nächst{ending}"] = ("nächster", "next")
    for lemma, (present, past, english_present, english_past) in MODALS.items():
        english = {"have": "must", "be": "may", "want": "want to", "would": "would like to"}
        forms |= {form: (lemma, english.get(english_present, english_present)) for form in present}
        before = {"have": "had to", "be": "was allowed to", "want": "wanted to"}
        forms |= {form: (lemma, before.get(english_past, english_past)) for form in past if form}
    extra = {
        "im": ("in", "in the"), "am": ("an", "on"), "vom": ("von", "from the"), "zum": ("zu", "to the"),
        "zur": ("zu", "to the"), "ins": ("in", "to the"), "mich": ("ich", "me"), "mir": ("ich", "me"),
        "dich": ("du", "you"), "dir": ("du", "you"), "ihn": ("er", "him"), "ihm": ("er", "him"),
        "uns": ("wir", "us"), "ihnen": ("sie", "them"), "sich": ("sich", ""), "wen": ("wer", "who"),
        "wem": ("wer", "who"), "viele": ("viel", "many"), "Uhr": ("Uhr", "o'clock"), "denen": ("der", "whom"),
        "nach": ("nach", "to"), "an": ("an", "at"),
    }  # fmt: skip
    return forms | extra


def word_table() -> dict[str, str]:
    """Every inflected German form with the English form that suits it best."""
    table: dict[str, str] = {}

    def add(form: str, english: str) -> None:
        table.setdefault(form, english)

    for form, (_, english) in function_forms().items():
        add(form, english)
    chains = {
        "haben": ("have", "have", "has", "have"),
        "sein": ("am", "are", "is", "are"),
        "werden": ("will",) * 4,
    }
    chains |= {"hatten": ("had",) * 4, "waren": ("was", "were", "was", "were")}
    chains |= {"wurden": ("was", "were", "was", "were")}
    for lemma, forms in AUXILIARIES.items():
        for form, english in zip(forms, chains[lemma], strict=True):
            add(form, english)
    for german, english in NUMBERS.values():
        add(german, english)
    for tens, (german, english) in NUMBERS.items():
        for unit in range(1, 10):
            if tens >= 20:
                unit_de, unit_en = ("ein", "one") if unit == 1 else NUMBERS[unit]
                add(f"{unit_de}und{german}", f"{english}-{unit_en}")
    for noun in NOUNS:
        for case in "NADG":
            add(noun.form(case, False), noun.en)
        if noun.plural != "-":
            for case in "NADG":
                add(noun.form(case, True), noun.en_plural)
    for city, english in CITIES:
        add(city, english)
    for name in NAMES_M + NAMES_F:
        add(name, name)
        add(name + "s", name + "'s")
    for german, english, _ in ADVERBS:
        add(german, english.lstrip("-"))
    for adjective in ADJECTIVES:
        add(adjective.lemma, adjective.en)
        for ending in ("e", "en", "em", "er", "es"):
            add(adjective.stem + ending, adjective.en)
        if adjective.comparative:
            add(adjective.comparative, adjective.en_comparative)
    specials = {
        "weiß": "know", "wissen": "know", "glaubt": "believes", "glaube": "believe", "glauben": "believe",
        "hofft": "hopes", "hoffe": "hope", "hoffen": "hope", "sagt": "says", "sagen": "say", "gesagt": "said",
        "versucht": "tried", "beschlossen": "decided", "angefangen": "begun", "kostet": "costs", "kosten": "cost",
        "kostete": "cost", "kosteten": "cost", "dauert": "lasts", "dauern": "last", "dauerte": "lasted",
        "dauerten": "lasted", "regnet": "rains", "schneit": "snows", "gibt": "gives", "möglich": "possible",
    }  # fmt: skip
    for form, english in specials.items():
        add(form, english)
    for verb in sorted(VERBS, key=lambda item: bool(item.prefix)):
        tail = verb.en.tail.lstrip("~^")
        for person, many in ((3, False), (1, False), (2, False), (1, True)):
            english = verb.en.third if (person, many) == (3, False) else verb.en.base
            form = verb.present(person, many)
            add(form, f"{english} {tail}".strip())
            add(verb.prefix + form, f"{english} {tail}".strip())
        add(verb.participle, f"{verb.en.past} {tail}".strip())
        if verb.prefix:
            add(f"{verb.prefix}zu{verb.stem}", f"to {verb.en.base} {tail}".strip())
    return table


def word_by_word(sentence: str, table: dict[str, str]) -> str:
    """Replace every word and keep the punctuation and the capital at the start."""

    def replace(match: re.Match[str]) -> str:
        word = match.group(0)
        for form in (word, word.lower(), word[0].upper() + word[1:]):
            if form in table:
                return table[form]
        return word

    text = " ".join(re.sub(r"\w+(?:['-]\w+)*", replace, sentence).split())
    return text[:1].upper() + text[1:]


# -------------------------------------------------------------------------------------------------- the figures


def lemma_counts(pairs: Sequence[Pair]) -> dict[str, Counter[str]]:
    """How many sentences show each lemma, by word class; function words are counted by their forms."""
    counts: dict[str, Counter[str]] = {}
    forms = function_forms()
    classes = dict.fromkeys(FUNCTION, "function word")
    content = {noun.lemma for noun in NOUNS} | {german for german, _, _ in ADVERBS}
    for pair in pairs:
        for entry in sorted(set(pair.lemmas)):
            word_class, lemma = entry.split(maxsplit=1)
            counts.setdefault(word_class, Counter())[lemma] += 1
        seen = {forms[word][0] for word in re.findall(r"\w+", pair.de[0].lower() + pair.de[1:]) if word in forms}
        for lemma in sorted(seen):
            if lemma in classes and lemma not in content:
                counts.setdefault("function word", Counter())[lemma] += 1
    return counts


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def figures(corpus: Corpus, data: Path) -> list[Figure]:
    """All figures; ``corpus`` is the grammar's output and ``data`` the folder of the files."""
    splits = {"train": corpus.train, "dev": corpus.dev, "test": corpus.test}
    files = {f"{s}.{language}": read_lines(data / f"{s}.{language}") for s in SPLITS for language in ("de", "en")}
    same = all(files[f"{name}.de"] == [pair.de for pair in pairs] for name, pairs in splits.items())
    same = same and all(files[f"{name}.en"] == [pair.en for pair in pairs] for name, pairs in splits.items())
    result = [Figure("files are the grammar's output", str(same), "True", same)]

    for name, least in (("train", 20000), ("dev", 500), ("test", 500)):
        size = len(files[f"{name}.de"])
        result.append(Figure(f"{name} pairs", str(size), f">= {least}", size >= least))
    repeated = len(files["train.de"]) - len(set(files["train.de"]))
    result.append(Figure("training sentences that come twice", str(repeated), "0", repeated == 0))
    shared = 0
    for first, second in (("train", "dev"), ("train", "test"), ("dev", "test")):
        for language in ("de", "en"):
            shared += len(set(files[f"{first}.{language}"]) & set(files[f"{second}.{language}"]))
    result.append(Figure("sentences shared between splits", str(shared), "0", shared == 0))
    for name, least_mean in (("train", 0.0), ("test", 9.0)):
        lengths = [len(sentence.split()) for sentence in files[f"{name}.de"]]
        mean = sum(lengths) / len(lengths)
        requirement = f">= {least_mean:.0f}" if least_mean else "-"
        result.append(Figure(f"mean German words, {name}", f"{mean:.2f}", requirement, mean >= least_mean))

    counts = lemma_counts(corpus.train)
    total = sum(len(counter) for counter in counts.values())
    by_class = ", ".join(f"{len(counter)} {name}" for name, counter in sorted(counts.items()))
    result.append(Figure("German lemmas in training", f"{total} ({by_class})", ">= 500", total >= 500))
    classes = ("noun", "verb", "adjective", "name", "city")
    rarest = min((count, lemma) for name in classes for lemma, count in counts[name].items())
    result.append(Figure("rarest content lemma in training", f"{rarest[1]}: {rarest[0]}", ">= 60", rarest[0] >= 60))

    train = list(zip(files["train.de"], files["train.en"], strict=True))
    copies = bleu(nearest_copies(files["test.de"], train), files["test.en"])
    result.append(Figure("BLEU, copy of the nearest training target", f"{copies:.1f}", "<= 35", copies <= 35))
    table = word_table()
    words = bleu([word_by_word(sentence, table) for sentence in files["test.de"]], files["test.en"])
    result.append(Figure("BLEU, word by word", f"{words:.1f}", "<= 25", words <= 25))

    held_out = set(corpus.held_out)
    shown = {use for pair in corpus.train for use in pair.uses}
    leaked = len(held_out & shown)
    result.append(Figure("withheld combinations", str(len(held_out)), "-", True))
    result.append(Figure("withheld combinations seen in training", str(leaked), "0", leaked == 0))
    for name in ("dev", "test"):
        share = sum(1 for pair in splits[name] if held_out.intersection(pair.uses)) / len(splits[name])
        result.append(Figure(f"{name} sentences with one", f"{100 * share:.1f} %", ">= 33.3 %", share >= 1 / 3))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data/sample"))
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    sizes = tuple(len(read_lines(args.data / f"{name}.de")) for name in SPLITS)
    corpus = make_corpus(args.seed, (sizes[0], sizes[1], sizes[2]))
    result = figures(corpus, args.data)
    for figure in result:
        verdict = "" if figure.requirement == "-" else ("PASS" if figure.passed else "FAIL")
        print(f"{figure.name:<42} {figure.value:<16} {figure.requirement:<10} {verdict}".rstrip())
    return 0 if all(figure.passed for figure in result) else 1


if __name__ == "__main__":
    sys.exit(main())
