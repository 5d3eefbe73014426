"""Random sentences, whose content is chosen by a seed and expressed by the grammar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from scripts.sample_corpus.grammar import NP, POSSESSIVES, Clause, Part, Sampler, clock_time, number, with_preposition
from scripts.sample_corpus.lexicon import (
    ADJECTIVES,
    ADVERBS,
    CITIES,
    NAMES_F,
    NAMES_M,
    NOUN,
    VERBS,
    Adjective,
    English,
    Noun,
    Slot,
    Verb,
    nouns_of,
)

Use = tuple[str, str]

SEIN = Verb("sein", "", "ist", "gewesen", "s", English("be", "was", "been"), ("person",), (), (), "s")
ADVERB = {german: (english, kind) for german, english, kind in ADVERBS}
LEISURE = (
    "lesen", "schreiben", "kochen", "backen", "essen", "trinken", "malen", "tanzen", "singen", "schwimmen", "wandern",
    "spielen", "fotografieren", "lernen", "besuchen", "tragen", "einkaufen", "fernsehen", "arbeiten", "helfen",
)  # fmt: skip
ABLE = (
    "finden",
    "verstehen",
    "einschlafen",
    "aufstehen",
    "einsteigen",
    "aussteigen",
    "zurückkommen",
    "suchen",
)
RARE = ("stehlen", "zerstören", "umziehen")  # not said of habits
ONGOING = ("suchen", "weinen", "lachen", "tragen", "träumen", "abfahren", "einsteigen", "aussteigen")
MANNER = {
    "essen": ("schnell", "langsam", "allein"), "laufen": ("schnell", "langsam"), "packen": ("schnell", "allein"),
    "lesen": ("langsam", "leise"), "schreiben": ("schnell", "langsam"), "lernen": ("schnell", "langsam", "allein"),
    "öffnen": ("leise", "langsam"), "schließen": ("leise", "schnell"), "putzen": ("allein", "schnell"),
    "reparieren": ("allein", "schnell"), "malen": ("langsam",), "singen": ("leise", "allein"),
    "sprechen": ("leise", "langsam"), "backen": ("allein",), "bauen": ("allein", "langsam"),
    "trinken": ("schnell", "langsam"), "gehen": ("langsam", "allein", "schnell"), "reisen": ("langsam",),
    "aufräumen": ("schnell", "allein"), "anziehen": ("schnell", "langsam"), "tanzen": ("langsam", "allein"),
    "schwimmen": ("allein", "schnell"), "antworten": ("leise", "schnell"), "frühstücken": ("schnell", "allein"),
}  # fmt: skip
INTO = (
    "Kino",
    "Theater",
    "Museum",
    "Restaurant",
    "Café",
    "Park",
    "Büro",
    "Schule",
    "Bibliothek",
    "Schwimmbad",
)
ADJECTIVE_CLASSES = {  # tag of a noun -> classes of adjectives that fit it
    "person": ("person",), "animal": ("animal",), "food": ("food",), "cooked": ("cooked",), "drink": ("drink",),
    "text": ("text", "thing"), "written": ("text",), "story": ("story",), "show": ("story",), "song": ("story",),
    "picture": ("thing",), "vehicle": ("thing", "colour", "broken"), "transport": ("transport", "thing"),
    "clothes": ("thing", "clothes", "colour"), "furniture": ("thing", "furniture", "colour", "load"),
    "object": ("thing", "load"),
    "machine": ("thing", "broken"), "luggage": ("luggage", "colour", "load"), "dish": ("dish", "broken"),
    "room": ("room", "place"), "home": ("place", "room"), "building": ("place", "room"), "eat": ("place", "room"),
    "town": ("place",), "out": ("nature",), "exam": ("exam",), "course": ("exam",), "idea": ("idea",),
    "event": ("event",), "trip": ("trip",),
    "part": ("broken", "colour"), "seat": ("seat",), "instrument": ("thing",),
}  # fmt: skip


@cache
def verbs_for(setting: str) -> tuple[Verb, ...]:
    """The verbs that can be used in a setting."""

    def fits(verb: Verb) -> bool:
        flags = verb.flags
        if setting == "state":
            return "s" in flags
        if setting == "past":
            return verb.participle != "-" and verb.lemma != "lieben"
        if setting in ("future", "werden", "later"):
            return "s" not in flags and verb.lemma not in RARE[:2]
        if setting == "habit":
            return "s" not in flags and verb.lemma not in RARE
        if setting in ("modal", "modal past", "wish"):
            return "i" in flags or (setting != "wish" and verb.lemma in ABLE)
        if setting == "gern":
            return verb.lemma in LEISURE
        if setting == "progressive":
            return "i" in flags or verb.lemma in ONGOING
        if setting == "since":
            return "k" in flags
        if setting == "perfect":
            return "i" in flags or "p" in flags
        return "i" in flags

    return tuple(verb for verb in VERBS if fits(verb))


@dataclass
class Pair:
    """One sentence pair with what the grammar used in it."""

    de: str
    en: str
    kind: str
    uses: list[Use] = field(default_factory=list)
    lemmas: list[str] = field(default_factory=list)


class Writer:
    """Writes sentence pairs."""

    def __init__(self, seed: int) -> None:
        self.sampler = Sampler(seed)
        self.rng = self.sampler.rng
        self.uses: list[Use] = []
        self.lemmas: list[str] = []

    # ------------------------------------------------------------ bookkeeping

    def chance(self, probability: float) -> bool:
        return self.sampler.chance(probability)

    def note(self, word_class: str, lemma: str, *constructions: str) -> None:
        """Record that a lemma was used, and in which constructions."""
        self.lemmas.append(f"{word_class} {lemma}")
        self.uses += [(f"{word_class} {lemma}", construction) for construction in constructions]

    def note_verb(self, clause: Clause, order: str) -> None:
        constructions = [order]
        if clause.modal:
            constructions.append("modal")
            if clause.modal == "gern":
                self.note("adverb", "gern")
        elif clause.tense in ("werden", "progressive", "pluperfect", "perfect") or clause.tense.startswith("passive"):
            constructions.append(clause.tense.split()[0])
        if clause.negated:
            constructions.append("negated")
        self.note("verb", clause.verb.lemma, *constructions)

    def pick(self, options: list[str], word_class: str, tries: int = 3) -> str:
        return options[self.sampler.balanced([f"{word_class} {option}" for option in options], tries)]

    def pick_noun(self, nouns: Sequence[Noun]) -> Noun:
        fresh = [noun for noun in nouns if f"noun {noun.lemma}" not in self.lemmas]
        return NOUN[self.pick([noun.lemma for noun in fresh or nouns], "noun", 5)]

    def adverb(self, lemma: str) -> str:
        """The English side of an adverb, which is noted."""
        self.note("adverb", lemma)
        return ADVERB[lemma][0]

    def adverb_of(self, kind: str) -> tuple[str, str]:
        lemma = self.pick([german for german, _, its_kind in ADVERBS if its_kind == kind], "adverb")
        return lemma, self.adverb(lemma)

    # ------------------------------------------------------------ noun phrases

    def adjective_for(self, noun: Noun, predicative: bool = False, comparative: bool = False) -> Adjective | None:
        classes = [name for tag in noun.tags for name in ADJECTIVE_CLASSES.get(tag, ())]
        options = [
            adjective
            for adjective in ADJECTIVES
            if any(tag in classes for tag in adjective.tags) and (adjective.comparative or not comparative)
        ]
        if not predicative:
            options = [a for a in options if a.lemma not in ("nervös", "zufrieden", "gesund") or noun.animate]
        if not options:
            return None
        return options[self.sampler.balanced([f"adjective {option.lemma}" for option in options], 6)]

    def noun_phrase(
        self,
        nouns: Sequence[Noun],
        role: str,
        subject: NP | None = None,
        dets: list[tuple[float, str]] | None = None,
        plain: bool = False,
        single: bool = False,
    ) -> NP:
        """A phrase around one of ``nouns``; ``role`` names its construction."""
        noun = self.pick_noun(nouns)
        tags = noun.tags
        phrase = NP(noun=noun)
        back = subject.possessor() if subject is not None else self.rng.choice(["mein", "unser", "sein", "ihr"])
        if dets is None:
            if noun.mass:
                dets = [(3, "der"), (5, "")]
                if "money" in tags:
                    dets = [(2, "der"), (2, "poss"), (1, "")]
                if "need" in tags:
                    dets = [(1, "der"), (1, "poss")] if role.startswith("after") else [(1, "")]
            elif "kin" in tags:
                dets = [(5, "poss"), (3, "der"), (0.6, "dieser"), (0.3, "ein")]
            elif "person" in tags or "transport" in tags:
                dets = [(5, "der"), (1, "dieser"), (2, "ein")]
            elif "place" in tags or "food" in tags:
                dets = [(5, "der"), (1, "dieser"), (1, "ein")]
            elif "clothes" in tags or "own" in tags or "object" in tags:
                dets = [(3, "der"), (2.5, "poss"), (0.8, "dieser"), (3.5, "ein")]
            else:
                dets = [(4, "der"), (1, "poss"), (0.8, "dieser"), (3, "ein")]
        phrase.det = self.sampler.weighted(dets)
        if phrase.det == "ein" and subject is not None and back in ("dein", "Ihr") and "place" not in tags:
            phrase.det = "poss"
        if phrase.det == "poss":
            phrase.det = back if back and not (role == "subject" and back in ("Ihr", "dein")) else "der"
        countable = not single and not noun.mass and noun.plural != "-"
        if countable and "place" not in tags and self.chance(0.25):
            if phrase.det == "ein":
                phrase.plural = True
                phrase.det = "num" if self.chance(0.6) else ""
                if phrase.det == "num":
                    phrase.count = self.quantity(self.rng.choice([6, 12, 20]))
            elif (
                phrase.det
                and "idea" not in tags
                and "one" not in tags
                and not ("event" in tags and phrase.det in POSSESSIVES)
            ):
                phrase.plural = True
        if plain:
            self.note_noun(phrase, role)
            return phrase
        if self.chance(0.5 if "room" in tags else 0.3):
            phrase.adjective = self.adjective_for(noun)
        ownable = ("clothes", "own", "object", "text", "sent", "story", "idea", "animal")
        if phrase.det == "der" and any(tag in ownable for tag in tags) and self.chance(0.3):
            if self.chance(0.4):
                phrase.owner = self.name()
            else:
                kin = nouns_of(("kin",))
                phrase.owner = self.noun_phrase(kin, "genitive", subject, [(3, "poss"), (3, "der")], True, True)
        elif phrase.det == "der" and noun.lemma in ("Tür", "Fenster", "Dach", "Wand") and self.chance(0.5):
            owners = [
                "Haus",
                "Wohnung",
                "Schule",
                "Krankenhaus",
                "Hotel",
                "Theater",
                "Museum",
                "Kirche",
                "Fabrik",
            ]
            owner = self.noun_phrase(nouns_of(tuple(owners)), "genitive", None, [(3, "der"), (1, "dieser")], True, True)
            phrase.owner = owner
        self.note_noun(phrase, role)
        return phrase

    def note_noun(self, phrase: NP, role: str) -> None:
        assert phrase.noun is not None
        constructions = [role]
        if phrase.adjective is not None:
            constructions.append("with adjective")
            self.note("adjective", phrase.adjective.lemma, "attributive")
        if phrase.owner is not None:
            constructions.append("with genitive")
        if phrase.plural:
            constructions.append("counted" if phrase.det == "num" else "plural")
        self.note("noun", phrase.noun.lemma, *constructions)

    def note_number(self, value: int) -> None:
        """Record the number words that make up a number."""
        parts = [value] if value <= 20 or value % 10 == 0 else [value % 10, value - value % 10]
        for part in parts:
            self.note("number", "ein" if part == 1 else number(part)[0])

    def quantity(self, most: int) -> int:
        """A number from 2 to ``most``, whose words are noted."""
        values = list(range(2, most + 1))
        value = values[self.sampler.balanced([f"number {value}" for value in values])]
        self.note_number(value)
        return value

    def name(self) -> NP:
        lemma = self.pick([name for name in NAMES_M + NAMES_F if f"name {name}" not in self.lemmas], "name")
        self.note("name", lemma)
        return NP(name=lemma, gender="m" if lemma in NAMES_M else "f")

    def subject(self, verb: Verb, initial: bool = True, question: bool = False) -> NP:
        if verb.subject[0] not in ("person", "adult") or (len(verb.subject) > 1 and self.chance(0.4)):
            classes = tuple(tag for tag in verb.subject if tag != "person")
            return self.noun_phrase(nouns_of(classes), "subject", None, [(5, "der"), (1, "dieser"), (2, "poss")])
        draw = self.rng.random()
        if draw < 0.33:
            return self.name()
        if draw < (0.62 if question else 0.52):
            choices = ["ich", "er", "sie", "wir"]
            if question:
                choices = ["du", "du", "Sie", "Sie", "er", "sie", "sie_pl", "wir"]
            elif not initial:
                choices.append("sie_pl")
            return NP(pronoun=self.rng.choice(choices))
        nouns = nouns_of(("adult",) if verb.subject[0] == "adult" else ("person",))
        return self.noun_phrase(nouns, "subject")

    def person_object(self, nouns: Sequence[Noun], role: str, subject: NP, case: str) -> NP:
        draw = self.rng.random()
        if draw < 0.25:
            return self.name()
        if draw < 0.42:
            choices = [key for key in ("ich", "er", "wir", "du", "sie") if key != subject.coreferent()]
            if case == "A":
                choices = [key for key in choices if key != "sie"]
            if subject.pronoun in ("wir", "ich"):
                choices = [key for key in choices if key not in ("ich", "wir")]
            if subject.pronoun in ("du", "Sie"):
                choices = [key for key in choices if key not in ("du", "sie")]
            else:
                choices = [key for key in choices if key != "du" or subject.pronoun in ("ich", "wir")]
            return NP(pronoun=self.rng.choice(choices))
        options = list(nouns)
        if subject.noun is not None:
            options = [noun for noun in nouns if noun.en != subject.noun.en] or list(nouns)
        return self.noun_phrase(options, role, subject)

    # ------------------------------------------------------------ parts of clauses

    def place_part(self, classes: tuple[str, ...], kind: str = "L") -> Part:
        nouns = [noun for noun in nouns_of(classes) if noun.place]
        place = nouns[self.sampler.balanced([f"noun {noun.lemma}" for noun in nouns])]
        phrase = self.noun_phrase([place], "location", None, [(1, "der")], not self.chance(0.2), True)
        assert place.place is not None
        german, english = place.place
        return Part(kind, with_preposition(german, phrase.de("D")), f"{english} {phrase.en()}")

    def city_part(self, preposition: str, english: str) -> Part:
        german = self.pick([city for city, _ in CITIES], "city")
        self.note("city", german)
        return Part("G", f"{preposition} {german}", f"{english} {dict(CITIES)[german]}")

    def direction(self) -> Part:
        if self.chance(0.12):
            self.note("noun", "Haus")
            return Part("G", "nach Hause", "home")
        phrase = self.noun_phrase(nouns_of(("goal",)), "destination", None, [(1, "der")], not self.chance(0.2), True)
        assert phrase.noun is not None
        if phrase.noun.lemma in INTO:
            return Part("G", with_preposition("in", phrase.de("A")), f"to {phrase.en()}")
        return Part("G", with_preposition("zu", phrase.de("D")), f"to {phrase.en()}")

    def clock(self) -> Part:
        hour, minute = (
            self.rng.randint(2, 12),
            self.rng.choice([0, 0, 5, 10, 15, 15, 20, 30, 30, 30, 40, 45, 45, 50]),
        )
        german, english = clock_time(hour, minute)
        for word in german.split():
            if word not in ("Viertel", "nach", "vor", "halb", "Uhr"):
                self.note("number", word)
        return Part("T", f"um {german}", f"at {english}")

    def noted(self, lemma: str, construction: str = "time") -> Noun:
        self.note("noun", lemma, construction)
        return NOUN[lemma]

    def of_tag(self, tag: str) -> Noun:
        return self.noted(self.pick([noun.lemma for noun in nouns_of((tag,))], "noun"))

    def time(self, when: str) -> Part:
        """A time that goes with past, future, habit or the present day."""
        if when == "habit":
            noun = self.of_tag(self.rng.choice(["weekday", "weekday", "span", "season", "daytime"]))
            if noun.lemma == "Stunde":
                noun = self.noted("Tag")
            every = {"m": "jeden", "f": "jede", "n": "jedes"}[noun.gender]
            return Part("T", f"{every} {noun.lemma}", f"every {noun.en}")
        choices = [
            (3.0, "adverb"),
            (2, "weekday"),
            (1.5, "relative"),
            (1.7, "month"),
            (1.5, "distance"),
            (1, "day"),
        ]
        choices += [(1.2, "event"), (0.8, "clock"), (0.6, "season")]
        if when == "past":
            choices += [(0.8, "year")]
        match self.sampler.weighted(choices):
            case "adverb":
                german, english = self.adverb_of(when)
                return Part("T", german, english)
            case "weekday":
                noun = self.of_tag(self.rng.choice(["weekday", "weekday", "weekday", "daytime"]))
                phrases = {
                    "Abend": "in the evening",
                    "Nachmittag": "in the afternoon",
                    "Wochenende": "at the weekend",
                }
                return Part("T", f"am {noun.lemma}", phrases.get(noun.lemma, f"on {noun.en}"))
            case "relative":
                noun = self.of_tag(self.rng.choice(["weekday", "span", "span", "season"]))
                if noun.lemma in ("Tag", "Stunde"):
                    noun = self.noted("Woche")
                ending = {"m": "en", "f": "e", "n": "es"}[noun.gender]
                word, english_word = ("letzt", "last") if when == "past" else ("nächst", "next")
                return Part("T", f"{word}{ending} {noun.lemma}", f"{english_word} {noun.en}")
            case "month":
                noun = self.of_tag("month")
                return Part("T", f"im {noun.lemma}", f"in {noun.en}")
            case "season":
                noun = self.of_tag("season")
                return Part("T", f"im {noun.lemma}", f"in {noun.en}")
            case "distance":
                noun = self.of_tag("unit")
                count = self.quantity(60 if noun.lemma in ("Minute", "Tag", "Jahr") else 20)
                german, english = number(count)
                if when == "past":
                    return Part("T", f"vor {german} {noun.form('D', True)}", f"{english} {noun.en_plural} ago")
                return Part("T", f"in {german} {noun.form('D', True)}", f"in {english} {noun.en_plural}")
            case "day":
                part = self.rng.choice(["Abend", "Nachmittag"])
                self.noted(part)
                if when == "past":
                    self.adverb("gestern")
                    return Part("T", f"gestern {part}", f"yesterday {NOUN[part].en}")
                if self.chance(0.5):
                    self.adverb("morgen")
                    return Part("T", f"morgen {part}", f"tomorrow {NOUN[part].en}")
                self.adverb("heute")
                return Part("T", f"heute {part}", f"this {NOUN[part].en}")
            case "event":
                options = [("nach", "D", "after"), ("vor", "D", "before"), ("während", "G", "during")]
                options += [("wegen", "G", "because of"), ("trotz", "G", "despite")]
                preposition, case, english = self.rng.choice(options)
                nouns = ("Unfall", "Problem", "Hochzeit", "Reise") if case == "G" and preposition != "während" else ()
                pool = nouns_of(nouns) if nouns else nouns_of(("event",))
                pool = tuple(noun for noun in pool if noun.lemma != "Termin")
                role = "genitive" if case == "G" else f"after {preposition}"
                event = self.noun_phrase(pool, role, None, [(4, "der"), (1, "dieser"), (1, "poss")], True, True)
                return Part("T", with_preposition(preposition, event.de(case)), f"{english} {event.en()}")
            case "clock":
                return self.clock()
        year = self.rng.randint(1985, 2024)
        self.noted("Jahr")
        return Part("T", f"im Jahr {year}", f"in {year}")

    def part(self, make: Callable[[], Part]) -> Part:
        """Make a part and let it remember its lemmas, so that it can be dropped again."""
        uses, lemmas = len(self.uses), len(self.lemmas)
        made = make()
        made.uses, made.lemmas = self.uses[uses:], self.lemmas[lemmas:]
        return made

    def drop(self, clause: Clause, dropped: Callable[[Part], bool]) -> None:
        """Take parts out of a clause, and out of the record."""
        for part in clause.parts:
            if dropped(part):
                self.forget(part)
        clause.parts = [part for part in clause.parts if not dropped(part)]

    def forget(self, part: Part) -> None:
        for use in part.uses:
            self.uses.remove(use)
        for lemma in part.lemmas:
            self.lemmas.remove(lemma)
        part.uses, part.lemmas = [], []

    def fill(self, slot: Slot, clause: Clause) -> Part:
        """The complement for a slot."""
        subject = clause.subject
        if slot.kind == "dir" or (slot.kind == "city|dir" and self.chance(0.3)):
            return self.direction()
        if slot.kind.startswith("city"):
            return self.city_part("nach", "to")
        if slot.kind == "clock":
            return self.clock()
        if slot.kind == "vehicle":
            noun = self.pick_noun(nouns_of(("vehicle", "Zug", "Bus", "Taxi", "Straßenbahn", "Schiff")))
            self.note("noun", noun.lemma, "after mit")
            article = "der" if noun.gender == "f" else "dem"
            return Part("M", f"mit {article} {noun.lemma}", f"by {noun.en}")
        if slot.kind == "at":
            if "city" in slot.classes and self.chance(0.65):
                return self.city_part("in", "in")
            return self.place_part(tuple(name for name in slot.classes if name != "city"), "G")
        role = {"A": "accusative object", "D": "dative object"}.get(slot.german or slot.kind, f"after {slot.german}")
        role = {"A": "accusative object", "D": "dative object"}.get(slot.kind, role)
        if slot.kind == "P" and not slot.german:
            role = "dative object"
        nouns = nouns_of(slot.classes)
        chosen = self.rng.choice(nouns)
        if clause.modal == "gern" and slot.kind == "A" and not chosen.animate and "place" not in chosen.tags:
            phrase = self.noun_phrase([noun for noun in nouns if not noun.animate], role, None, [(1, "")], plain=True)
            phrase.plural = phrase.noun is not None and not phrase.noun.mass
        elif chosen.animate:
            people = [noun for noun in nouns if noun.animate]
            phrase = self.person_object(people, role, subject, slot.case if slot.kind == "P" else slot.kind)
        else:
            things = [noun for noun in nouns if not noun.animate]
            dets: list[tuple[float, str]] | None = None
            if any(tag in ("exam", "date", "feast", "trip") for tag in chosen.tags) and slot.kind == "P":
                dets = [(4, "der"), (1, "poss"), (1, "dieser")]
            phrase = self.noun_phrase(things, role, subject, dets)
        return self.slot_part(slot, phrase, clause)

    def slot_part(self, slot: Slot, phrase: NP, clause: Clause) -> Part:
        if slot.kind == "P":
            if not slot.german:  # a dative that English puts behind "to"
                english = f"{slot.english} {phrase.en()}"
                return Part("D", phrase.de("D"), english, phrase.definite, bool(phrase.pronoun), late=True)
            german = with_preposition(slot.german, phrase.de(slot.case))
            return Part("P", german, f"{slot.english} {phrase.en()}".strip())
        if slot.kind == "A" and clause.negated and phrase.det in ("ein", "") and not phrase.pronoun and not phrase.name:
            phrase.det = "kein"
            clause.kein = True
        return Part(slot.kind, phrase.de(slot.kind), phrase.en(), phrase.definite, bool(phrase.pronoun))

    # ------------------------------------------------------------ clauses

    def pick_verb(self, verbs: Sequence[Verb]) -> Verb:
        return verbs[self.sampler.balanced([f"verb {verb.lemma}" for verb in verbs], 4)]

    def clause(
        self,
        settings: list[tuple[float, str]],
        subject: NP | None = None,
        verbs: Callable[[Verb], bool] = lambda _: True,
        initial: bool = True,
        question: bool = False,
        adjuncts: float = 0.8,
        negation: float = 0.12,
    ) -> Clause:
        """A clause in one of the settings, its complements filled and adverbials added."""
        setting = self.sampler.weighted(settings)
        options = [verb for verb in verbs_for(setting) if verbs(verb)]
        if subject is not None:
            options = [verb for verb in options if verb.subject[0] in ("person", "adult")] or options
        verb = self.pick_verb(options)
        if subject is None:
            subject = self.subject(verb, initial, question)
        clause = Clause(subject, verb, self.tense_of(setting))
        if setting == "modal" or setting == "wish":
            names = ["können", "müssen", "wollen", "dürfen", "sollen", "möchten"] if setting == "modal" else ["wollen"]
            clause.modal = self.rng.choice(names)
        elif setting == "modal past":
            clause.modal, clause.tense = self.rng.choice(["können", "müssen", "wollen", "dürfen"]), "past"
        elif setting == "gern":
            clause.modal = "gern"
        clause.negated = setting in ("past", "modal", "modal past", "future", "state") and self.chance(negation)
        self.add_complements(clause)
        self.add_adverbials(clause, setting, adjuncts)
        self.make_twin(clause)
        return clause

    @staticmethod
    def tense_of(setting: str) -> str:
        return {
            "past": "past", "future": "future", "later": "future", "werden": "werden",
            "habit": "present", "state": "present",
            "progressive": "progressive", "since": "since", "perfect": "perfect", "pluperfect": "pluperfect",
        }.get(setting, "present")  # fmt: skip

    def add_complements(self, clause: Clause) -> None:
        for slot in clause.verb.slots:
            if slot.optional and not self.chance(0.5):
                continue
            if slot.kind == "vehicle" and not self.chance(0.5):
                continue
            clause.parts.append(self.part(partial(self.fill, slot, clause)))

    def make_twin(self, clause: Clause) -> None:
        """For "gefallen": English turns subject and dative object around."""
        if "x" not in clause.verb.flags:
            return
        self.drop(clause, lambda part: part.kind == "D")
        # no feminine noun: "der Plan der Tochter" would read as a genitive
        people = [noun for noun in nouns_of(("person",)) if noun.gender != "f"]
        person = self.person_object(people, "dative object", NP(pronoun="es"), "D")
        others = list(clause.parts)
        clause.parts.append(Part("D", person.de("D"), "", True, bool(person.pronoun)))
        thing = Part("A", "", clause.subject.en(), True)
        clause.twin = Clause(person, clause.verb, clause.tense, [thing, *others], "", clause.negated)

    def add_adverbials(self, clause: Clause, setting: str, adjuncts: float) -> None:
        verb, parts = clause.verb, clause.parts
        has_time = any(part.kind == "T" for part in parts)
        calm = "s" in verb.flags
        if setting == "habit":
            if has_time or self.chance(0.5):
                parts.append(self.part(lambda: Part("F", *self.adverb_of("frequency"))))
            else:
                parts.append(self.part(lambda: self.time("habit")))
        elif setting == "progressive":
            self.note("adverb", "gerade")
            parts.append(Part("F", "gerade", "", lemmas=["adverb gerade"]))
        elif setting == "perfect":
            kind = self.rng.choice(["schon", "noch nicht", "noch nie"])
            if kind == "schon":
                parts.append(Part("F", kind, self.adverb("schon")))
            else:
                self.note("adverb", "noch")
                if kind == "noch nie":
                    self.note("adverb", "nie")
                    parts.append(Part("F", kind, "never"))
                else:
                    parts.append(Part("F", kind, "not"))
                    parts.append(Part("T", "", "yet"))
        elif setting == "since":
            count = self.quantity(20)
            noun = self.noted(self.pick(["Woche", "Monat", "Jahr"], "noun"))
            german, english = number(count)
            parts.append(Part("T", f"seit {german} {noun.form('D', True)}", f"for {english} {noun.en_plural}"))
        elif setting == "future":
            if not has_time:
                parts.append(self.part(lambda: self.time("future")))
            else:
                parts.insert(0, self.plain_time("future"))
        elif setting == "werden":
            if self.chance(0.5):
                parts.append(Part("F", "wahrscheinlich", self.adverb("wahrscheinlich")))
            if not has_time and self.chance(adjuncts * 0.7):
                parts.append(self.part(lambda: self.time("future")))
        elif setting in ("past", "modal past") and not has_time and self.chance(adjuncts):
            parts.append(self.part(lambda: self.time("past")))
        elif setting in ("modal", "wish") and not has_time and self.chance(adjuncts * 0.7):
            parts.append(self.part(lambda: self.time("future")))
        day = [part for part in parts if part.kind == "T" and part.de]
        dated = len(day) == 1 and not has_time and day[0].de.startswith(("am ", "jeden ", "gestern", "morgen", "heute"))
        if dated and verb.lemma not in ("wohnen", "kennen") and self.chance(0.2):
            parts.append(self.part(self.clock))
        if clause.negated or calm:
            return
        if verb.places and not any(part.kind == "L" for part in parts) and self.chance(adjuncts * 0.5):
            parts.append(self.part(lambda: self.place_part(verb.places)))
        elif verb.lemma in MANNER and self.chance(adjuncts * 0.4):
            lemma = self.rng.choice(MANNER[verb.lemma])
            parts.append(self.part(lambda: Part("M", lemma, self.adverb(lemma))))

    def plain_time(self, when: str) -> Part:
        german, english = self.adverb_of(when)
        return Part("T", german, english)

    # ------------------------------------------------------------ predicates with "sein"

    def state_clause(self, subject: NP, tense: str, negation: float = 0.0) -> Clause:
        options = [adjective for adjective in ADJECTIVES if "state" in adjective.tags]
        adjective = options[self.sampler.balanced([f"adjective {option.lemma}" for option in options])]
        self.note("adjective", adjective.lemma, "predicative")
        german, english = adjective.lemma, adjective.en
        negated = self.chance(negation)
        if self.chance(0.4):
            degree = self.pick(["sehr", "zu"] if negated else ["sehr", "zu", "ziemlich", "wirklich"], "adverb")
            german, english = f"{degree} {german}", f"{self.adverb(degree)} {english}"
        self.note("verb", "sein")
        return Clause(subject, SEIN, tense, [Part("P", german, english)], negated=negated)
