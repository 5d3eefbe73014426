"""Write documents in which German pronouns depend on the sentence before:
``python -m scripts.sample_corpus.documents OUT [--documents 8000] [--held-out]``.

English "it" is er, sie or es in German, by the gender of a noun in the sentence before. Each document has such a
sentence and one or two about it. OUT.de and OUT.en have one sentence per line, and a blank line after each document.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from scripts.sample_corpus.grammar import NP
from scripts.sample_corpus.lexicon import nouns_of
from scripts.sample_corpus.sentences import Writer

THINGS = ("object", "clothes", "furniture", "text", "machine", "vehicle")
HELD_OUT = 0.1
PRONOUN = {"m": "Er", "f": "Sie", "n": "Es"}
FIRST = (
    ("Ich sehe {A}.", "I see {en}."), ("Wir brauchen {A}.", "We need {en}."), ("Du kaufst {A}.", "You buy {en}."),
    ("Mein Bruder sucht {A}.", "My brother looks for {en}."), ("Hier ist {N}.", "Here is {en}."),
    ("Wir sprechen über {A}.", "We talk about {en}."), ("Ich habe {A} verkauft.", "I sold {en}."),
)  # fmt: skip
AFTER = (
    ("{P} ist {a}.", "It is {b}."), ("{P} ist sehr {a}.", "It is very {b}."), ("{P} ist nicht {a}.", "It is not {b}."),
    ("{P} war {a}.", "It was {b}."), ("{P} war zu {a}.", "It was too {b}."),
    ("{P} ist wirklich {a}.", "It is really {b}."),
)  # fmt: skip


def document(rng: random.Random, writer: Writer, held_out: bool) -> list[tuple[str, str]]:
    """Draw the sentences of a document, each with its translation into English.

    held_out: whether its noun and the kind of its first sentence are one of a tenth of all combinations, or another.
    """
    nouns = [noun for noun in nouns_of(THINGS) if not noun.mass and not noun.animate]
    while True:
        head = NP(rng.choice(nouns), det=rng.choice(("der", "dieser", "ein", "mein")))
        assert head.noun is not None
        german, english = rng.choice(FIRST)
        if (random.Random(f"{head.noun.lemma} {german}").random() < HELD_OUT) == held_out:
            break
    forms = {"A": head.de("A"), "N": head.de("N"), "en": head.en(), "P": PRONOUN[head.noun.gender]}
    lines = [(german.format(**forms), english.format(**forms))]
    for german, english in rng.sample(AFTER, rng.randint(1, 2)):
        adjective = writer.adjective_for(head.noun, predicative=True)
        assert adjective is not None
        more = {"a": adjective.lemma, "b": adjective.en}
        lines.append((german.format(**forms, **more), english.format(**forms, **more)))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--documents", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--held-out", action="store_true", help="write documents that others do not have")
    args = parser.parse_args()
    rng, writer = random.Random(args.seed), Writer(args.seed)
    documents = [document(rng, writer, args.held_out) for _ in range(args.documents)]
    for side, language in enumerate(("de", "en")):
        lines = [f"{pair[side]}\n" for pairs in documents for pair in (*pairs, ("", ""))]
        args.out.with_name(f"{args.out.name}.{language}").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
