"""Noun phrases, verb groups and clauses, each built in German and English at the same time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from scripts.sample_corpus.lexicon import NUMBERS, Adjective, English, Noun, Verb

ARTICLE = {  # gender or plural -> forms for N, A, D, G
    "m": ("der", "den", "dem", "des"), "f": ("die", "die", "der", "der"),
    "n": ("das", "das", "dem", "des"), "p": ("die", "die", "den", "der"),
}  # fmt: skip
EIN_ENDING = {
    "m": ("", "en", "em", "es"), "f": ("e", "e", "er", "er"), "n": ("", "", "em", "es"), "p": ("e", "e", "en", "er"),
}  # fmt: skip
STRONG = {
    "m": ("er", "en", "em", "en"), "f": ("e", "e", "er", "er"), "n": ("es", "es", "em", "en"),
    "p": ("e", "e", "en", "er"),
}  # fmt: skip
DER_ENDING = {
    "m": ("er", "en", "em", "es"), "f": ("e", "e", "er", "er"), "n": ("es", "es", "em", "es"),
    "p": ("e", "e", "en", "er"),
}  # fmt: skip
CASES = "NADG"
PRETERITE = {"haben": "hatten", "sein": "waren"}
POSSESSIVES = {"mein": "my", "dein": "your", "sein": "his", "ihr": "her", "unser": "our", "Ihr": "your"}
# key -> nominative, accusative, dative, reflexive, person, plural, English subject, English object, possessive
PRONOUNS = {
    "ich": ("ich", "mich", "mir", "mich", 1, False, "I", "me", "mein"),
    "du": ("du", "dich", "dir", "dich", 2, False, "you", "you", "dein"),
    "er": ("er", "ihn", "ihm", "sich", 3, False, "he", "him", "sein"),
    "sie": ("sie", "sie", "ihr", "sich", 3, False, "she", "her", "ihr"),
    "wir": ("wir", "uns", "uns", "uns", 1, True, "we", "us", "unser"),
    "sie_pl": ("sie", "sie", "ihnen", "sich", 3, True, "they", "them", ""),
    "es": ("es", "es", "ihm", "sich", 3, False, "it", "it", ""),
    "Sie": ("Sie", "Sie", "Ihnen", "sich", 3, True, "you", "you", "Ihr"),
}
CONTRACTIONS = {
    "in dem": "im", "an dem": "am", "von dem": "vom", "zu dem": "zum", "zu der": "zur", "in das": "ins",
    "an das": "ans",
}  # fmt: skip
Forms = tuple[str, str, str, str]
# German present and past (ich, du, er, wir), English present and past
MODALS: dict[str, tuple[Forms, Forms, str, str]] = {
    "können": (("kann", "kannst", "kann", "können"), ("konnte", "konntest", "konnte", "konnten"), "can", "could"),
    "müssen": (("muss", "musst", "muss", "müssen"), ("musste", "musstest", "musste", "mussten"), "have", "have"),
    "wollen": (("will", "willst", "will", "wollen"), ("wollte", "wolltest", "wollte", "wollten"), "want", "want"),
    "dürfen": (("darf", "darfst", "darf", "dürfen"), ("durfte", "durftest", "durfte", "durften"), "be", "be"),
    "sollen": (("soll", "sollst", "soll", "sollen"), ("sollte", "solltest", "sollte", "sollten"), "should", "should"),
    "möchten": (("möchte", "möchtest", "möchte", "möchten"), ("", "", "", ""), "would", "would"),
}  # fmt: skip
MODAL_ENGLISH = {
    "have": English("have", "had", "had", "to"),
    "want": English("want", "wanted", "wanted", "to"),
    "be": English("be", "was", "been", "allowed to"),
    "like": English("like", "liked", "liked", "to"),
}
AUXILIARIES = {  # ich, du, er, wir
    "haben": ("habe", "hast", "hat", "haben"), "hatten": ("hatte", "hattest", "hatte", "hatten"),
    "sein": ("bin", "bist", "ist", "sind"), "waren": ("war", "warst", "war", "waren"),
    "werden": ("werde", "wirst", "wird", "werden"), "wurden": ("wurde", "wurdest", "wurde", "wurden"),
}  # fmt: skip


def which(forms: Forms, person: int, plural: bool) -> str:
    """Pick a form out of (ich, du, er, wir/sie)."""
    return forms[3] if plural else forms[person - 1]


def a_or_an(word: str) -> str:
    """The indefinite article before ``word``."""
    if word.startswith(("uni", "use", "eu")):
        return "a"
    return "an" if word[0].lower() in "aeiou" or word.startswith("hour") else "a"


def possessive(english: str) -> str:
    """my brother -> my brother's; my parents -> my parents'."""
    return english + ("'" if english.endswith("s") else "'s")


def number(value: int) -> tuple[str, str]:
    """A number below 100, spelled out in both languages."""
    if value in NUMBERS:
        return NUMBERS[value]
    units, tens = value % 10, value - value % 10
    german, english = ("ein", "one") if units == 1 else NUMBERS[units]
    return f"{german}und{NUMBERS[tens][0]}", f"{NUMBERS[tens][1]}-{english}"


def clock_time(hour: int, minute: int) -> tuple[str, str]:
    """A time of day as people say it; ``hour`` is 2..12 and ``minute`` one of a few."""
    following = hour % 12 + 1
    german, english = number(hour)
    next_german, next_english = number(following) if following > 1 else ("eins", "one")
    if minute == 0:
        return f"{german} Uhr", f"{english} o'clock"
    if minute == 15:
        return f"Viertel nach {german}", f"a quarter past {english}"
    if minute == 30:
        return f"halb {next_german}", f"half past {english}"
    if minute == 45:
        return f"Viertel vor {next_german}", f"a quarter to {next_english}"
    if minute < 30:
        return f"{number(minute)[0]} nach {german}", f"{number(minute)[1]} past {english}"
    left_german, left_english = number(60 - minute)
    return f"{left_german} vor {next_german}", f"{left_english} to {next_english}"


@dataclass
class NP:
    """A noun phrase: a noun with what belongs to it, a name or a pronoun."""

    noun: Noun | None = None
    name: str = ""
    gender: str = ""
    pronoun: str = ""
    det: str = "der"  # der, ein, kein, dieser, a possessive, "" for none, or "num"
    count: int = 0
    plural: bool = False
    adjective: Adjective | None = None
    owner: NP | None = None
    relative: tuple[str, str] | None = None

    @property
    def key(self) -> str:
        """Gender or "p": the column of the tables of endings."""
        assert self.noun is not None
        return "p" if self.plural else self.noun.gender

    @property
    def person(self) -> int:
        return PRONOUNS[self.pronoun][4] if self.pronoun else 3

    @property
    def many(self) -> bool:
        return PRONOUNS[self.pronoun][5] if self.pronoun else self.plural

    @property
    def en_many(self) -> bool:
        """Whether English takes the plural verb ("you" does)."""
        return self.many or self.pronoun == "du"

    @property
    def definite(self) -> bool:
        return bool(self.name or self.pronoun) or self.det not in ("ein", "kein", "", "num")

    def coreferent(self) -> str:
        """The pronoun that takes the phrase up again, or "" where German would need "es"."""
        if self.pronoun:
            return self.pronoun
        if self.name:
            return "er" if self.gender == "m" else "sie"
        assert self.noun is not None
        if self.plural:
            return "sie_pl"
        return {"m": "er", "f": "sie", "n": ""}[self.noun.gender]

    def possessor(self) -> str:
        """The possessive that refers back to the phrase, or "" where it would be ambiguous."""
        back = self.coreferent()
        return PRONOUNS[back][8] if back else ""

    def de(self, case: str) -> str:
        index = CASES.index(case)
        if self.pronoun:
            return PRONOUNS[self.pronoun][:3]["NAD".index(case)]
        if self.name:
            return self.name + ("s" if case == "G" else "")
        assert self.noun is not None
        key = self.key
        endings: tuple[str, ...]
        if self.owner is not None and self.owner.name:
            det, endings = self.owner.de("G"), STRONG[key]
        elif self.det == "der":
            det, endings = ARTICLE[key][index], ()
        elif self.det == "dieser":
            det, endings = "dies" + DER_ENDING[key][index], ()
        elif self.det == "num":
            det, endings = number(self.count)[0], STRONG[key]
        elif self.det == "":
            det, endings = "", STRONG[key]
        else:
            ending = EIN_ENDING[key][index]
            det, endings = self.det + ending, (STRONG[key] if ending == "" else ())
        words = [det] if det else []
        if self.adjective is not None:
            weak = "e" if key != "p" and (case == "N" or (case == "A" and key != "m")) else "en"
            words.append(self.adjective.stem + (endings[index] if endings else weak))
        words.append(self.noun.form(case, self.plural))
        if self.owner is not None and not self.owner.name:
            words.append(self.owner.de("G"))
        if self.relative:
            words.append(f", {self.relative[0]} ,")
        return " ".join(words)

    def en(self, subject: bool = False) -> str:
        if self.pronoun:
            return PRONOUNS[self.pronoun][6] if subject else PRONOUNS[self.pronoun][7]
        if self.name:
            return self.name
        assert self.noun is not None
        head = self.noun.en_plural if self.plural else self.noun.en
        if self.adjective is not None:
            head = f"{self.adjective.en} {head}"
        of_owner = ""
        if self.owner is not None and (self.owner.name or (self.owner.noun and self.owner.noun.animate)):
            det = possessive(self.owner.en())
        else:
            if self.owner is not None:
                of_owner = f" of {self.owner.en()}"
            if self.det == "der":
                det = "the"
            elif self.det in ("ein", "kein"):
                det = "any" if self.plural or self.noun.mass else a_or_an(head)
            elif self.det == "dieser":
                det = "these" if self.plural else "this"
            elif self.det == "num":
                det = number(self.count)[1]
            else:
                det = POSSESSIVES.get(self.det, "")
        text = f"{det} {head}".strip() + of_owner
        return f"{text} {self.relative[1]}" if self.relative else text


def with_preposition(preposition: str, german: str) -> str:
    """Put a preposition before a phrase and contract it with the article."""
    first, _, rest = german.partition(" ")
    both = f"{preposition} {first}"
    return f"{CONTRACTIONS.get(both, both)} {rest}".strip()


@dataclass
class Part:
    """A complement or adverbial of a clause.

    kind: A accusative, D dative, P prepositional, G goal, T time, F adverb beside the verb, L place, M manner.
    """

    kind: str
    de: str
    en: str
    definite: bool = False
    pronoun: bool = False
    late: bool = False  # a dative that English puts behind "to"
    uses: list[tuple[str, str]] = field(default_factory=list)
    lemmas: list[str] = field(default_factory=list)


GERMAN_ORDER = "pDdTFaLMinPG"  # p pronoun, d definite object under negation, a definite, i indefinite, n "nicht"


@dataclass
class Clause:
    """A clause that can be put into any order in both languages."""

    subject: NP
    verb: Verb
    tense: str
    parts: list[Part] = field(default_factory=list)
    modal: str = ""
    negated: bool = False
    kein: bool = False
    twin: Clause | None = None  # the English clause where its subject is another one ("mir gefällt" - "I like")

    @property
    def english(self) -> Clause:
        return self.twin or self

    # ---------------------------------------------------------------- German

    def german_verbs(self) -> tuple[str, list[str]]:
        """The finite verb of a main clause, and what stands at its end."""
        verb, person, many = self.verb, self.subject.person, self.subject.many
        infinitive = verb.lemma
        if self.modal:
            if self.modal == "gern":
                return verb.present(person, many), [verb.prefix] if verb.prefix else []
            present, past, _, _ = MODALS[self.modal]
            return which(past if self.tense == "past" else present, person, many), [infinitive]
        if self.tense in ("past", "perfect", "pluperfect"):
            auxiliary = {"h": ("haben", "hatten"), "s": ("sein", "waren")}[verb.aux]
            if verb.lemma in PRETERITE:
                return which(AUXILIARIES[PRETERITE[verb.lemma]], person, many), []
            forms = AUXILIARIES[auxiliary[1] if self.tense == "pluperfect" else auxiliary[0]]
            return which(forms, person, many), [verb.participle]
        if self.tense == "werden":
            return which(AUXILIARIES["werden"], person, many), [infinitive]
        if self.tense.startswith("passive"):
            forms = AUXILIARIES["wurden" if self.tense == "passive past" else "werden"]
            return which(forms, person, many), [verb.participle]
        if verb.lemma == "sein":
            return which(AUXILIARIES["sein"], person, many), []
        return verb.present(person, many), [verb.prefix] if verb.prefix else []

    def german_middle(self, without: list[Part]) -> list[str]:
        """The middle field, without the subject."""

        aspect = any(part.de in ("schon", "noch nicht", "noch nie") for part in self.parts)

        def rank(part: Part) -> int:
            if part.pronoun and part.kind in "AD":
                return GERMAN_ORDER.index("p")
            if part.kind == "A":
                if part.definite and (self.negated or aspect):
                    return GERMAN_ORDER.index("d")
                return GERMAN_ORDER.index("a" if part.definite else "i")
            return GERMAN_ORDER.index(part.kind)

        words = [(rank(part), part.de) for part in self.parts if not any(part is other for other in without)]
        if self.verb.reflexive:
            reflexive = PRONOUNS[self.subject.pronoun][3] if self.subject.pronoun else "sich"
            words.append((-1, reflexive))
        if self.negated and not self.kein:
            words.append((GERMAN_ORDER.index("n"), "nicht"))
        if self.modal == "gern":
            words.append((GERMAN_ORDER.index("T"), "gern"))
        return [text for _, text in sorted(words, key=lambda item: item[0])]

    def de_main(self, front: Part | str | None = None) -> str:
        """Verb-second order; ``front`` stands before the verb instead of the subject, "" asks a yes-no question."""
        finite, end = self.german_verbs()
        subject = self.subject.de("N")
        if front is None:
            return " ".join([subject, finite, *self.german_middle([]), *end])
        first = front.de if isinstance(front, Part) else front
        without = [front] if isinstance(front, Part) else []
        return " ".join([first, finite, subject, *self.german_middle(without), *end]).strip()

    def de_final(self, subject: bool = True, without: list[Part] | None = None) -> str:
        """Verb-final order, as after a conjunction or a relative pronoun."""
        finite, end = self.german_verbs()
        if end and end[0] == self.verb.prefix and self.verb.prefix:
            closing = [self.verb.prefix + finite]
        else:
            closing = [*end, finite]
        first = [self.subject.de("N")] if subject else []
        return " ".join([*first, *self.german_middle(without or []), *closing])

    def de_zu(self) -> str:
        """The infinitive with "zu"."""
        return " ".join([*self.german_middle([]), self.verb.zu_infinitive()])

    def de_imperative(self) -> str:
        """The polite imperative."""
        middle = self.german_middle([])
        pronouns = sum(1 for part in self.parts if part.pronoun and part.kind in "AD")
        lead = middle[: pronouns + (1 if self.verb.reflexive else 0)]
        end = [self.verb.prefix] if self.verb.prefix else []
        return " ".join([self.verb.stem, "Sie", *lead, "bitte", *middle[len(lead) :], *end])

    # --------------------------------------------------------------- English

    def english_chain(self) -> tuple[list[str], bool, str]:
        """The verb forms, whether the first is an auxiliary, and the tail of the verb."""
        person, many = self.subject.person, self.subject.en_many
        en = self.verb.en
        if self.modal:
            if self.modal == "gern":
                modal = MODAL_ENGLISH["like"]
            else:
                _, _, present_key, past_key = MODALS[self.modal]
                key = past_key if self.tense == "past" else present_key
                if key in ("can", "could", "should"):
                    return [key, en.base], True, en.tail
                if key == "would":
                    return ["would", "like to", en.base], True, en.tail
                modal = MODAL_ENGLISH[key]
            words, auxiliary = conjugate(modal, "past" if self.tense == "past" else "present", person, many)
            if auxiliary:
                return [*words, modal.tail, en.base], True, en.tail
            return [words[0], modal.tail, en.base], False, en.tail
        words, auxiliary = conjugate(en, self.tense, person, many)
        return words, auxiliary, en.tail

    def english_rest(self, tail: str, without: list[Part]) -> list[str]:
        """What follows the verb: objects, prepositional phrases, manner, place, time."""
        parts = [part for part in self.parts if not any(part is other for other in without)]
        accusative = [part for part in parts if part.kind == "A"]
        particle = tail.startswith(("~", "^"))
        late = particle and bool(accusative) and (tail[0] == "^" or accusative[0].pronoun)
        words = [tail.lstrip("~^")] if tail and not late else []
        for kind in "DAGPMLT":
            group = [part.en for part in parts if part.kind == kind and not part.late]
            if kind == "P":
                group = [part.en for part in parts if part.late] + group
            if kind == "T":
                group.reverse()
            words += group
            if kind == "A" and late:
                words.append(tail.lstrip("~^"))
        return [word for word in words if word]

    def _fully(self, inverted: bool) -> tuple[list[str], list[str], str]:
        words, auxiliary, tail = self.english_chain()
        if not auxiliary and (self.negated or inverted):
            base = self.verb.en.base
            if self.modal:
                base = MODAL_ENGLISH["like" if self.modal == "gern" else MODALS[self.modal][2]].base
            third = self.subject.person == 3 and not self.subject.en_many
            support = "did" if self.tense == "past" else ("does" if third else "do")
            words, auxiliary = [support, base, *words[1:]], True
        first, rest = words[:1], words[1:]
        if not auxiliary:
            return [], words, tail
        if self.negated and not inverted:
            first = ["cannot"] if first == ["can"] else [*first, "not"]
        elif self.negated:
            rest = ["not", *rest]
        return first, rest, tail

    def en_main(self, front: Part | None = None, subject: str | None = None, without: list[Part] | None = None) -> str:
        """Statement order; a fronted time stays in front, any other part returns to its place."""
        first, rest, tail = self._fully(False)
        adverbs = [part.en for part in self.parts if part.kind == "F" and part.en]
        dropped = list(without or [])
        lead: list[str] = []
        if front is not None and front.kind == "T":
            lead, dropped = [front.en, ","], [*dropped, front]
        who = self.subject.en(True) if subject is None else subject
        middle = [*first, *adverbs, *rest]
        if not first and self.verb.en.base == "be" and not self.modal:
            middle = [rest[0], *adverbs, *rest[1:]]
        return " ".join([*lead, who, *middle, *self.english_rest(tail, dropped)]).strip()

    def en_question(self, word: str = "", without: list[Part] | None = None, stranded: str = "") -> str:
        """Inverted order, with do-support."""
        first, rest, tail = self._fully(True)
        adverbs = [part.en for part in self.parts if part.kind == "F" and part.en]
        words = [word] if word else []
        end = self.english_rest(tail, without or [])
        return " ".join([*words, *first, self.subject.en(True), *adverbs, *rest, *end, stranded]).strip()

    def en_base(self) -> str:
        """The bare infinitive with what follows it."""
        en = self.verb.en
        return " ".join([en.base, *self.english_rest(en.tail, [])])

    def en_ing(self) -> str:
        """The -ing form with what follows it."""
        en = self.verb.en
        return " ".join([en.ing, *self.english_rest(en.tail, [])])


def conjugate(en: English, tense: str, person: int, many: bool) -> tuple[list[str], bool]:
    """The English verb chain for a tense, and whether its first word is an auxiliary (or "be")."""
    third = person == 3 and not many
    be = "are" if many else {1: "am", 2: "are", 3: "is"}[person]
    was = "were" if many or person == 2 else "was"
    have = "has" if third else "have"
    if tense == "present":
        if en.base == "be":
            return [be], True
        return [en.third if third else en.base], False
    if tense == "past":
        if en.base == "be":
            return [was], True
        return [en.past], False
    chains = {
        "progressive": [be, en.ing],
        "future": ["will", en.base],
        "werden": ["will", en.base],
        "perfect": [have, en.participle],
        "since": [have, en.participle],
        "pluperfect": ["had", en.participle],
        "passive past": [was, en.participle],
        "passive future": ["will", "be", en.participle],
        "passive present": [be, en.participle],
    }
    return chains[tense], True


def tidy(text: str, end: str) -> str:
    """Join tokens into a written sentence: commas, capital letter, final mark."""
    text = " ".join(text.split())
    while ", ," in text:
        text = text.replace(", ,", ",")
    text = text.strip(" ,").replace(" ,", ",")
    return text[0].upper() + text[1:] + end


class Sampler:
    """Seeded choices that favour what has been used least, so that every lemma is seen often."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: dict[str, int] = {}

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def balanced(self, labels: list[str], tries: int = 3) -> int:
        """The index of a label; of a few drawn at random the least used one wins."""
        drawn = [self.rng.randrange(len(labels)) for _ in range(tries)]
        index = min(drawn, key=lambda i: self.counts.get(labels[i], 0))
        label = labels[index]
        self.counts[label] = self.counts.get(label, 0) + 1
        return index

    def weighted(self, items: list[tuple[float, str]]) -> str:
        total = sum(weight for weight, _ in items)
        point = self.rng.random() * total
        for weight, value in items:
            point -= weight
            if point < 0:
                return value
        return items[-1][1]
