"""German-English pairs for tests that need a corpus, made on the spot."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

_WHO = "Der Hund|The dog,Die Katze|The cat,Das Kind|The child,Ein Bäcker|A baker,Mein Großvater|My grandfather"
_DOES = "sieht|sees,kauft|buys,sucht|looks for,fürchtet|fears,zeichnet|draws,findet|finds"
_WHAT = "den Zug|the train,die Straße|the street,das Pferd|the horse,einen Apfel|an apple,Öl|oil,nichts|nothing"
_WHEN = "heute|today,am Abend|in the evening,im Winter|in winter,um 7:30 Uhr|at 7:30"

CZECH = [
    "Malý pes hledá v zahradě svou starou kost.", "Dívka s deštníkem čeká na zastávce autobusu.",
    "Dědeček čte noviny a pije horký čaj.", "Kočka spí na střeše celé odpoledne.",
    "Děti si hrají se sněhem před školou.", "Pekař otevřel obchod ještě před úsvitem.",
    "Muž v modré košili opravuje rozbité kolo.", "Dvě ženy se procházejí podél řeky.",
    "Vlak přijel s půlhodinovým zpožděním.", "Na náměstí dnes hraje veselá hudba.",
    "Učitelka vysvětluje žákům těžký příklad.", "Kůň běží rychle přes širokou louku.",
    "V zimě bývá v horách hodně sněhu.", "Kuchař připravuje polévku z čerstvé zeleniny.",
    "Soused koupil nové auto a prodal staré.", "Lidé stojí ve frontě na lístky do divadla.",
]  # fmt: skip
"""Lines in a language that has the script of both, and is neither."""


def sentence_pairs(n: int, seed: int = 1) -> list[tuple[str, str]]:
    """Return `n` (at most 720) different pairs, German first."""
    slots = [[entry.split("|") for entry in slot.split(",")] for slot in (_WHO, _DOES, _WHAT, _WHEN)]
    combinations = list(itertools.product(*slots))
    chosen = random.Random(seed).sample(combinations, n)
    return [
        (f"{who[0]} {does[0]} {when[0]} {what[0]}.", f"{who[1]} {does[1]} {what[1]} {when[1]}.")
        for who, does, what, when in chosen
    ]


def write_pairs(folder: Path, name: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Write NAME.de and NAME.en."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, language in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{name}.{language}").write_bytes(text.encode())


def translated(n: int, seed: int = 1) -> list[tuple[str, str]]:
    """Return sentences whose words all have a translation, in another order."""
    rng = random.Random(seed)
    sounds = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words = ["".join(rng.sample(sounds, k=2)) for _ in range(400)]
    pairs = []
    for _ in range(n):
        meant = [int(400 * rng.random() ** 2) for _ in range(rng.randint(3, 9))]
        pairs.append((" ".join(words[i] for i in meant), " ".join(words[i][::-1] for i in reversed(meant))))
    return pairs
