"""The kinds of sentences; each function writes one pair."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from scripts.sample_corpus.grammar import ARTICLE, DER_ENDING, NP, Clause, Part, number, tidy, with_preposition
from scripts.sample_corpus.lexicon import NOUNS, VERB, VERBS, English, Noun, Verb, nouns_of
from scripts.sample_corpus.sentences import SEIN, Pair, Writer, verbs_for

ANY = [(5.0, "past"), (1.6, "future"), (1.0, "werden"), (1.6, "habit"), (0.8, "state"), (0.8, "progressive")]
ANY += [(1.6, "modal"), (1.0, "modal past"), (0.5, "since"), (0.9, "perfect"), (0.5, "gern")]
PAST = [(4.0, "past"), (1.5, "modal past")]
COMING = [(2.0, "future"), (2.0, "modal"), (1.0, "werden")]


def front_of(w: Writer, clause: Clause) -> Part | None:
    """The part that opens the sentence instead of the subject."""
    parts, subject = clause.parts, clause.subject
    times = [part for part in parts if part.kind == "T" and part.de]
    if times and w.chance(0.4):
        return times[0]
    if w.chance(0.2):
        for part in parts:
            if part.kind == "A" and not part.pronoun and not clause.negated and clause.modal != "gern":
                if part.de.startswith(("den ", "diesen ", "einen ")) or part.de.split()[0] in (
                    "meinen", "deinen", "seinen", "ihren", "unseren",
                ):  # fmt: skip
                    return part
                if subject.pronoun in ("ich", "wir", "er") and part.definite:
                    return part
            if part.kind == "D" and not part.pronoun and not clause.negated and " " in part.de:
                return part
            if part.kind == "L":
                return part
    return None


def main(w: Writer, clause: Clause, front: Part | None) -> tuple[str, str]:
    """Both sides of a main clause."""
    w.note_verb(clause, "main clause" if front is None else "inversion")
    return clause.de_main(front), clause.english.en_main(front)


def final(w: Writer, clause: Clause) -> tuple[str, str]:
    """Both sides of a subordinate clause."""
    w.note_verb(clause, "verb-final")
    return clause.de_final(), clause.english.en_main()


def finish(w: Writer, de: str, en: str, kind: str, mark: str = ".") -> Pair:
    """Both sides as written sentences, with what was noted on the way."""
    return Pair(tidy(de, mark), tidy(en, mark), kind, list(w.uses), list(w.lemmas))


def statement(w: Writer) -> Pair:
    clause = w.clause(ANY, adjuncts=1.0)
    sentence_adverb = ""
    front = front_of(w, clause)
    if front is None and not clause.negated and clause.tense in ("past", "future") and w.chance(0.2):
        sentence_adverb = w.rng.choice(["leider", "vielleicht"])
        english = w.adverb(sentence_adverb)
        w.note_verb(clause, "inversion")
        comma = " ," if sentence_adverb == "leider" else ""
        return finish(w, clause.de_main(sentence_adverb), f"{english}{comma} {clause.english.en_main()}", "statement")
    de, en = main(w, clause, front)
    return finish(w, de, en, "statement")


def again(w: Writer, first: Clause) -> NP | None:
    """The subject of a second clause: mostly the first one again, as a pronoun."""
    if "x" in first.verb.flags or not (first.subject.name or first.subject.pronoun or first.subject.noun is None):
        noun = first.subject.noun
        if noun is None or not noun.animate or "x" in first.verb.flags:
            return None
    back = first.subject.coreferent()
    if back and w.chance(0.75):
        return NP(pronoun=back)
    return None


def subordinate(w: Writer) -> Pair:
    """A main clause with an adverbial clause before or after it."""
    conjunction = w.sampler.weighted(
        [
            (3, "weil"),
            (2, "obwohl"),
            (2, "wenn"),
            (1.5, "nachdem"),
            (1.5, "bevor"),
            (1.2, "während"),
            (1.2, "sobald"),
        ]
    )
    english = {
        "weil": "because", "obwohl": "although", "wenn": "if", "nachdem": "after", "bevor": "before",
        "während": "while", "sobald": "as soon as",
    }[conjunction]  # fmt: skip
    coming = conjunction in ("wenn", "sobald") or (conjunction == "bevor" and w.chance(0.4))
    if conjunction in ("weil", "obwohl"):
        coming = w.chance(0.3)
    sub_first = w.chance(0.4)
    if coming:
        first_settings = [(1.0, "werden"), (1.3, "modal")] if conjunction != "weil" else COMING
    else:
        first_settings = [(1.0, "past")] if conjunction != "weil" else [(3.0, "past"), (1.0, "modal past")]
    if conjunction in ("wenn", "sobald"):
        first_settings = [(2.0, "later"), (1.0, "modal")]
    plain = {"weil": 0.35, "obwohl": 0.35}.get(conjunction, 0.2)
    first = w.clause(
        first_settings, adjuncts=plain, negation=0.15 if conjunction in ("weil", "obwohl") else 0.0,
        verbs=lambda verb: "x" not in verb.flags and ("s" not in verb.flags or conjunction in ("weil", "obwohl")),
    )  # fmt: skip
    subject = again(w, first)
    second = second_clause(w, conjunction, coming, subject)
    if sub_first and subject is not None:  # the pronoun belongs into the clause that comes second
        first.subject, second.subject = second.subject, first.subject
    if sub_first:
        sub_de, sub_en = final(w, second)
        w.note_verb(first, "inversion")
        de = f"{conjunction} {sub_de} , {first.de_main('').strip()}"
        return finish(w, de, f"{english} {sub_en} , {first.english.en_main()}", conjunction)
    front = None
    main_de, main_en = main(w, first, front)
    sub_de, sub_en = final(w, second)
    return finish(w, f"{main_de} , {conjunction} {sub_de}", f"{main_en} {english} {sub_en}", conjunction)


def second_clause(w: Writer, conjunction: str, coming: bool, subject: NP | None) -> Clause:
    """The adverbial clause that suits a conjunction."""
    if conjunction in ("weil", "obwohl"):
        if w.chance(0.3):
            whose = subject or w.subject(SEIN, initial=False)
            return w.state_clause(whose, "present" if coming else "past", 0.2)
        settings = [(2.0, "modal"), (1.0, "future"), (0.8, "state"), (1.0, "past"), (0.6, "habit")]
        if not coming:
            settings = [(3.0, "past"), (2.5, "modal past")]
        return w.clause(settings, subject, initial=False, adjuncts=0.35, negation=0.25)
    if conjunction == "nachdem":
        return w.clause(
            [(1.0, "pluperfect")],
            subject,
            initial=False,
            adjuncts=0.15,
            verbs=lambda verb: verb.participle != "-" and "s" not in verb.flags,
        )
    if conjunction == "während":
        clause = w.clause([(1.0, "progressive")], subject if w.chance(0.2) else None, initial=False, adjuncts=0.2)
        clause.tense = "past"
        w.drop(clause, lambda part: part.de == "gerade")
        return clause
    if conjunction == "wenn" and w.chance(0.25):
        return weather(w)
    settings = [(1.0, "bare")] if coming else [(1.0, "past")]
    if conjunction == "wenn":
        settings += [(0.4, "modal")]
    return w.clause(settings, subject, lambda verb: "s" not in verb.flags, False, adjuncts=0.15, negation=0.0)


def weather(w: Writer) -> Clause:
    """Es regnet morgen."""
    lemma = w.rng.choice(["regnen", "schneien"])
    verb = WEATHER[lemma]
    w.note("verb", lemma)
    time = w.part(lambda: w.time("future"))
    while time.de.startswith(("trotz", "wegen")):
        w.forget(time)
        time = w.part(lambda: w.time("future"))
    return Clause(NP(pronoun="es"), verb, "present", [time])


def content(w: Writer) -> Pair:
    """A clause with "dass" or "ob" as an object."""
    draw = w.rng.random()
    matrices = [
        ("ich weiß", "I know", "dass"), ("wir wissen", "we know", "dass"), ("ich glaube", "I believe", "dass"),
        ("wir hoffen", "we hope", "dass"), ("ich hoffe", "I hope", "dass"), ("wir glauben", "we believe", "dass"),
        ("ich weiß nicht", "I do not know", "ob"), ("wir wissen nicht", "we do not know", "ob"),
        ("es ist möglich", "it is possible", "dass"),
    ]  # fmt: skip
    if draw < 0.45:
        de, en, conjunction = w.rng.choice(matrices)
        w.note("verb", {"w": "wissen", "g": "glauben", "h": "hoffen", "i": "sein"}[de.split()[1][0]])
    else:
        who = w.subject(SEIN, initial=True)
        while who.pronoun:
            who = w.subject(SEIN, initial=True)
        past = w.chance(0.5)
        lemma = w.rng.choice(["sagen", "glauben", "hoffen", "wissen", "hören", "fragen"])
        many = who.many
        de_forms, en_forms, conjunction = REPORTS[lemma]
        w.note("verb", lemma)
        if past and lemma in ("sagen", "hören", "fragen"):
            aux = "haben" if many else "hat"
            reflexive = "sich " if lemma == "fragen" else ""
            de, en = f"{who.de('N')} {aux} {reflexive}{de_forms[2]}", f"{who.en(True)} {en_forms[2]}"
        else:
            past = False
            reflexive = " sich" if lemma == "fragen" else ""
            de = f"{who.de('N')} {de_forms[1] if many else de_forms[0]}{reflexive}"
            en = f"{who.en(True)} {en_forms[1] if many else en_forms[0]}"
    english = {"dass": "that", "ob": "whether"}[conjunction]
    settings = [
        (3.0, "past"),
        (1.5, "future"),
        (1.0, "modal"),
        (0.8, "habit"),
        (0.8, "state"),
        (0.6, "since"),
    ]
    settings += [(0.6, "perfect")]
    passive_voice = w.chance(0.15)
    clause = passive_clause(w) if passive_voice else w.clause(settings, initial=False, adjuncts=0.7, negation=0.15)
    sub_de, sub_en = final(w, clause)
    return finish(w, f"{de} , {conjunction} {sub_de}", f"{en} {english} {sub_en}", conjunction)


REPORTS = {
    "sagen": (("sagt", "sagen", "gesagt"), ("says", "say", "said"), "dass"),
    "glauben": (("glaubt", "glauben", ""), ("believes", "believe", ""), "dass"),
    "hoffen": (("hofft", "hoffen", ""), ("hopes", "hope", ""), "dass"),
    "wissen": (("weiß", "wissen", ""), ("knows", "know", ""), "dass"),
    "hören": (("hört", "hören", "gehört"), ("hears", "hear", "heard"), "dass"),
    "fragen": (("fragt", "fragen", "gefragt"), ("wonders", "wonder", "wondered"), "ob"),
}


def relative_pronoun(head: NP, case: str) -> str:
    index = "NAD".index(case)
    if head.key == "p" and case == "D":
        return "denen"
    return ARTICLE[head.key][index]


def ambiguous(head: NP, subject: NP) -> bool:
    """Whether "die Frau, die Anna gesehen hat" could also mean that the woman saw."""
    assert head.noun is not None
    if head.key == "m" or not head.noun.animate or subject.pronoun not in ("", "sie", "sie_pl"):
        return False
    if subject.noun is not None and subject.key == "m":
        return False
    return subject.many == head.plural


@cache
def takers_of(noun: Noun) -> tuple[Verb, ...]:
    """The verbs that take a noun as their object in a relative clause."""
    takers = [verb for verb in VERBS if any(s.kind == "A" and noun in nouns_of(s.classes) for s in verb.slots)]
    return tuple(verb for verb in takers if verb.participle != "-" and not verb.en.tail.startswith("^"))


def relative_clause(w: Writer, head: NP) -> tuple[str, str]:
    """A relative clause for ``head``: the German and the English words after the noun."""
    assert head.noun is not None
    noun = head.noun
    w.note("noun", noun.lemma, "relative head")
    animate = noun.animate
    kinds = [(3.0, "accusative")]
    if animate:
        kinds += [(3.0, "nominative"), (1.5, "dative"), (1.0, "with")]
    else:
        kinds += [(1.5, "passive")]
        if noun.place and any(tag in noun.tags for tag in ("work", "home", "town", "building")):
            kinds += [(2.5, "place")]
    takers = takers_of(noun)
    kind = w.sampler.weighted(kinds)
    if kind in ("accusative", "passive") and not takers:
        kind = "nominative"
    if kind == "passive" and not any("p" in verb.flags for verb in takers):
        kind = "accusative"
    settings = [(4.0, "past"), (1.0, "habit"), (0.5, "modal")]
    if kind == "nominative":
        word = relative_pronoun(head, "N")
        gap = NP(noun=noun, det=head.det, plural=head.plural)
        clause = w.clause(
            [*settings, (1.0, "since"), (0.7, "state")], gap, lambda verb: "x" not in verb.flags, adjuncts=0.6
        )
        w.note_verb(clause, "relative clause")
        return f"{word} {clause.de_final(subject=False)}", clause.en_main(subject="who" if animate else "that")
    if kind == "passive":
        verb = w.pick_verb([verb for verb in takers if "p" in verb.flags])
        gap = NP(noun=noun, det=head.det, plural=head.plural)
        clause = Clause(gap, verb, "passive past", [w.time("past")] if w.chance(0.8) else [])
        w.note_verb(clause, "relative clause")
        return f"{relative_pronoun(head, 'N')} {clause.de_final(subject=False)}", clause.en_main(subject="that")
    if kind == "accusative":
        chosen = w.pick_verb(takers)
        fitting = [item for item in settings if chosen in verbs_for(item[1])] or [(1.0, "state")]
        uses, lemmas = list(w.uses), list(w.lemmas)
        clause = w.clause(fitting, None, lambda verb: verb is chosen, False, adjuncts=0.55, negation=0.0)
        while ambiguous(head, clause.subject):
            w.uses, w.lemmas = list(uses), list(lemmas)
            clause = w.clause(fitting, None, lambda verb: verb is chosen, False, adjuncts=0.55, negation=0.0)
        gaps = [part for part in clause.parts if part.kind == "A"]
        for part in gaps:
            w.forget(part)
        word = relative_pronoun(head, "A")
        w.note_verb(clause, "relative clause")
        english = "whom" if animate else "that"
        return f"{word} {clause.de_final(without=gaps)}", f"{english} {clause.en_main(without=gaps)}"
    if kind == "dative":
        chosen = VERB[w.rng.choice(["helfen", "vertrauen", "danken", "zuhören", "antworten"])]
        clause = w.clause([(1.0, "past")], None, lambda verb: verb is chosen, False, adjuncts=0.5, negation=0.0)
        gaps = [part for part in clause.parts if part.kind == "D"]
        for part in gaps:
            w.forget(part)
        word = relative_pronoun(head, "D")
        w.note_verb(clause, "relative clause")
        lead = "to whom" if gaps[0].late else "whom"
        return f"{word} {clause.de_final(without=gaps)}", f"{lead} {clause.en_main(without=gaps)}"
    if kind == "with":
        chosen = VERB[w.rng.choice(["sprechen", "reisen", "tanzen", "wandern", "frühstücken"])]
        clause = w.clause([(1.0, "past")], None, lambda verb: verb is chosen, False, adjuncts=0.5, negation=0.0)
        gaps = [part for part in clause.parts if part.de.startswith("mit ")]
        for part in gaps:
            w.forget(part)
        w.note_verb(clause, "relative clause")
        lead = "to whom" if chosen.lemma == "sprechen" else "with whom"
        german = clause.de_final(without=gaps)
        return f"mit {relative_pronoun(head, 'D')} {german}", f"{lead} {clause.en_main(without=gaps)}"
    work = "arbeiten" if "work" in noun.tags else "wohnen"
    place = noun.place
    assert place is not None
    clause = w.clause([(2.0, "past"), (1.0, "since")], None, lambda verb: verb.lemma == work, False, adjuncts=0.5,
                      negation=0.0)  # fmt: skip
    w.drop(clause, lambda part: part.kind in "PLG")
    w.note_verb(clause, "relative clause")
    german = clause.de_final()
    return f"{place[0]} {relative_pronoun(head, 'D')} {german}", f"{place[1]} which {clause.en_main()}"


def relative(w: Writer) -> Pair:
    """A noun with a relative clause, as subject or as object."""
    if w.chance(0.5):
        settings = [(4.0, "past"), (1.0, "modal"), (1.0, "state"), (0.7, "habit"), (0.6, "future")]
        heads = [noun for noun in nouns_of(("person",)) if "kin" not in noun.tags or noun.tags[-1] == "adult"]
        if w.chance(0.25):
            return relative_predicate(w)
        head = w.noun_phrase(heads, "subject", None, [(6, "der"), (1, "dieser"), (1, "ein")], plain=True)
        clause = w.clause(settings, head, lambda verb: "x" not in verb.flags, adjuncts=0.4)
        head.relative = relative_clause(w, head)
        de, en = main(w, clause, None)
        return finish(w, de, en, "relative")

    def simple(verb: Verb) -> bool:
        if not verb.slots or verb.slots[-1].kind != "A" or verb.en.tail.startswith("^"):
            return False
        return not all(noun.mass for noun in nouns_of(verb.slots[-1].classes))

    settings = [(5.0, "past"), (1.0, "modal"), (0.8, "werden"), (0.8, "state")]
    verb = w.pick_verb([v for v in VERBS if simple(v)])
    names = [item for item in settings if verb in verbs_for(item[1])]
    clause = w.clause(names, None, lambda other: other is verb, adjuncts=0.0, negation=0.0)
    w.drop(clause, lambda part: part.kind not in "DF")
    nouns = [noun for noun in nouns_of(verb.slots[-1].classes) if not noun.mass]
    if any(noun.animate for noun in nouns):
        nouns = [noun for noun in nouns if noun.animate and "kin" not in noun.tags] or nouns
    head = w.noun_phrase(
        nouns, "accusative object", None, [(6, "der"), (1.5, "ein"), (1, "dieser")], plain=w.chance(0.7)
    )
    german = head.de("A")
    head.relative = relative_clause(w, head)
    clause.parts.append(Part("A", german, head.en(), head.definite))
    front: Part | None = None
    if clause.tense == "past" and not clause.modal and w.chance(0.5):
        front = w.time("past")
        clause.parts.append(front)
    de, en = main(w, clause, front)
    return finish(w, f"{de} , {head.relative[0]}", en, "relative")


def relative_predicate(w: Writer) -> Pair:
    """Das Buch, das ich gelesen habe, ist spannend."""
    nouns = nouns_of(("object", "clothes", "furniture", "text", "story", "room", "town", "machine"))
    head = w.noun_phrase(nouns, "subject", None, [(6, "der"), (1, "dieser")], plain=True)
    assert head.noun is not None
    adjective = w.adjective_for(head.noun, predicative=True)
    assert adjective is not None
    w.note("adjective", adjective.lemma, "predicative")
    w.note("verb", "sein")
    tense = "past" if w.chance(0.4) else "present"
    negated = w.chance(0.15)
    german, english = degree(w, adjective.lemma, adjective.en, negated)
    clause = Clause(head, SEIN, tense, [Part("P", german, english)], negated=negated)
    head.relative = relative_clause(w, head)
    return finish(w, clause.de_main(), clause.en_main(), "relative")


def degree(w: Writer, german: str, english: str, negated: bool) -> tuple[str, str]:
    """Perhaps put an adverb of degree before an adjective."""
    if not w.chance(0.6):
        return german, english
    word = w.pick(["sehr", "zu"] if negated else ["sehr", "zu", "ziemlich", "wirklich"], "adverb")
    return f"{word} {german}", f"{w.adverb(word)} {english}"


WITH_AIM = (  # verbs of main clauses with "um ... zu", and with "ohne ... zu"
    "gehen", "fahren", "laufen", "fliegen", "reisen", "aufstehen", "aussteigen", "zurückkommen", "anrufen", "bleiben",
    "einkaufen", "treffen", "besuchen", "kaufen", "benutzen",
)  # fmt: skip
WITHOUT = ("gehen", "essen", "einschlafen", "kaufen", "verkaufen", "wegwerfen", "zurückkommen", "arbeiten")


def infinitive(w: Writer) -> Pair:
    """um ... zu, ohne ... zu, and verbs with an infinitive."""
    kind = w.sampler.weighted([(3, "um"), (1.2, "ohne"), (3, "verb")])
    if kind == "verb":
        lemma, past, base = w.rng.choice(
            [("versucht", "tried", "try"), ("vergessen", "forgot", "forget"), ("beschlossen", "decided", "decide"),
             ("angefangen", "began", "begin")]
        )  # fmt: skip
        infinitives = {
            "try": "versuchen",
            "forget": "vergessen",
            "decide": "beschließen",
            "begin": "anfangen",
        }
        w.note("verb", infinitives[base])
        who = w.subject(SEIN)
        clause = w.clause([(1.0, "bare")], who, lambda verb: verb.lemma not in LONG, adjuncts=0.35)
        w.note_verb(clause, "zu-infinitive")
        haben = {1: "habe", 2: "hast", 3: "hat"}[who.person] if not who.many else "haben"
        lead_de, lead_en = f"{who.de('N')} {haben}", who.en(True)
        if w.chance(0.5):
            time = w.time("past")
            lead_de, lead_en = f"{time.de} {haben} {who.de('N')}", f"{time.en} , {who.en(True)}"
        return finish(
            w,
            f"{lead_de} {lemma} , {clause.de_zu()}",
            f"{lead_en} {past} to {clause.en_base()}",
            "infinitive",
        )
    allowed = WITH_AIM if kind == "um" else WITHOUT
    settings = [(4.0, "past"), (1.0, "future"), (1.0, "modal"), (0.7, "werden")]
    first = w.clause(settings, None, lambda verb: verb.lemma in allowed, adjuncts=0.6, negation=0.0)
    aim = NP(pronoun=first.subject.coreferent() or "sie_pl")
    second = w.clause([(1.0, "bare")], aim, lambda verb: verb.lemma not in WITH_AIM[:8], adjuncts=0.0)
    front = front_of(w, first)
    main_de, main_en = main(w, first, front)
    w.note_verb(second, "zu-infinitive")
    if kind == "um":
        return finish(w, f"{main_de} , um {second.de_zu()}", f"{main_en} to {second.en_base()}", "infinitive")
    return finish(w, f"{main_de} , ohne {second.de_zu()}", f"{main_en} without {second.en_ing()}", "infinitive")


LONG = ("fernsehen", "umziehen", "bleiben")


def question(w: Writer) -> Pair:
    """A yes-no question, or one with a question word."""
    w.uses, w.lemmas = [], []
    kind = w.sampler.weighted(
        [(4, "yes"), (1, "wann"), (1.3, "warum"), (1, "wo"), (1, "wer"), (1, "was"), (1, "wen"), (1, "wem"),
         (1, "welcher"), (1, "wie viele"), (0.8, "wie oft"), (0.8, "wohin")]
    )  # fmt: skip
    settings = [
        (4.0, "past"),
        (2.0, "modal"),
        (1.0, "modal past"),
        (1.2, "future"),
        (0.8, "perfect"),
        (0.6, "habit"),
    ]
    if kind == "yes":
        clause = w.clause([*settings, (0.8, "state")], question=True, adjuncts=0.9, negation=0.0)
        return ask(w, clause, "", "", [])
    if kind == "warum":
        clause = w.clause([(4, "past"), (1.5, "modal past"), (1, "modal"), (0.7, "state")], question=True, adjuncts=0.7,
                          negation=0.25)  # fmt: skip
        return ask(w, clause, "warum", "why", [])
    if kind == "wann":
        clause = w.clause([(4, "past"), (1.5, "modal"), (1, "werden")], question=True, adjuncts=0.6, negation=0.0)
        w.drop(clause, lambda part: part.kind in "TF")
        return ask(w, clause, "wann", "when", [])
    if kind == "wo":
        clause = w.clause([(4, "past"), (1.0, "modal")], None, lambda verb: bool(verb.places), question=True,
                          negation=0.0)  # fmt: skip
        w.drop(clause, lambda part: part.kind == "L")
        return ask(w, clause, "wo", "where", [])
    if kind == "wie oft":
        clause = w.clause([(1, "bare")], None, lambda verb: "i" in verb.flags, question=True, adjuncts=0.6)
        w.drop(clause, lambda part: part.kind == "T")
        return ask(w, clause, "wie oft", "how often", [])
    if kind == "wohin":
        clause = w.clause([(4, "past"), (1.5, "modal")], None, lambda verb: verb.lemma in GOING,
                          question=True, negation=0.0)  # fmt: skip
        w.drop(clause, lambda part: part.kind not in "TM")
        return ask(w, clause, "wohin", "where", [])
    if kind == "wer":
        clause = w.clause([(4, "past"), (1, "modal past"), (1, "future")], NP(name="wer", gender="m"), adjuncts=0.9,
                          negation=0.0)  # fmt: skip
        w.note_verb(clause, "question")
        middle = clause.de_main(None)
        return finish(w, middle, clause.english.en_main(subject="who"), "question", "?")
    if kind in ("was", "welcher", "wie viele", "wen"):
        settings = [(4.0, "past"), (1.5, "modal"), (1.0, "werden")]

        def fits(verb: Verb) -> bool:
            slots = [slot for slot in verb.slots if slot.kind == "A"]
            return bool(slots) and any(noun.animate for noun in nouns_of(slots[0].classes)) == (kind == "wen")

        clause = w.clause(settings, None, fits, question=True, adjuncts=0.8, negation=0.0)
        slot = next(slot for slot in clause.verb.slots if slot.kind == "A")
        gaps = [part for part in clause.parts if part.kind == "A"]
        if kind == "was":
            return ask(w, clause, "was", "what", gaps)
        if kind == "wen":
            return ask(w, clause, "wen", "who", gaps)
        nouns = [noun for noun in nouns_of(slot.classes) if not noun.mass]
        if not nouns:
            return question(w)
        noun = w.pick_noun(nouns)
        w.note("noun", noun.lemma, "accusative object")
        if kind == "wie viele":
            return ask(w, clause, f"wie viele {noun.plural}", f"how many {noun.en_plural}", gaps)
        ending = DER_ENDING[noun.gender][1]
        return ask(w, clause, f"welch{ending} {noun.form('A', False)}", f"which {noun.en}", gaps)
    clause = w.clause([(4, "past"), (1, "modal"), (1, "werden")], None, lambda verb: verb.lemma in GIVING,
                      question=True, negation=0.0)  # fmt: skip
    gaps = [part for part in clause.parts if part.kind == "D"]
    return ask(w, clause, "wem", "who", gaps, "to")


GOING = ("gehen", "fahren", "fliegen")
GIVING = ("geben", "zeigen", "schicken", "leihen", "erklären", "empfehlen", "beschreiben", "zurückgeben")


def ask(w: Writer, clause: Clause, de: str, en: str, gaps: list[Part], stranded: str = "") -> Pair:
    """Put a clause into question order behind a question word."""
    w.note_verb(clause, "question")
    german = clause.de_main(de)
    if gaps:
        w.drop(clause, lambda part: any(part is gap for gap in gaps))
        german = clause.de_main(de)
    late = [part for part in clause.parts if part.kind in "LMTP"]
    english = clause.english
    if stranded:
        keep = clause.parts
        clause.parts = [part for part in keep if not any(part is other for other in late)]
        tail = [part.en for kind in "PML" for part in late if part.kind == kind]
        tail += [part.en for part in reversed([part for part in late if part.kind == "T"])]
        text = english.en_question(en, [], " ".join([stranded, *tail]))
        clause.parts = keep
        return finish(w, german, text, "question", "?")
    return finish(w, german, english.en_question(en), "question", "?")


def passive_clause(w: Writer, places: bool = True) -> Clause:
    verb = w.pick_verb([verb for verb in VERBS if "p" in verb.flags])
    slot = next(slot for slot in verb.slots if slot.kind == "A")
    nouns = [noun for noun in nouns_of(slot.classes) if not noun.mass]
    subject = w.noun_phrase(nouns, "subject", None, [(5, "der"), (1.5, "dieser"), (1.5, "poss")])
    tense = w.sampler.weighted([(4, "passive past"), (2, "passive future")])
    if verb.lemma in ("stehlen", "zerstören"):
        tense = "passive past"
    clause = Clause(subject, verb, tense, negated=w.chance(0.15))
    clause.parts.append(w.time("past" if tense == "passive past" else "future"))
    if w.chance(0.4):
        agent = w.noun_phrase(nouns_of(("adult",)), "after von", None, [(3, "der"), (1, "ein")])
        clause.parts.append(Part("P", with_preposition("von", agent.de("D")), f"by {agent.en()}"))
    elif verb.places and places and w.chance(0.5):
        clause.parts.append(w.place_part(verb.places, "L"))
    return clause


def passive(w: Writer) -> Pair:
    clause = passive_clause(w)
    times = [part for part in clause.parts if part.kind == "T"]
    de, en = main(w, clause, times[0] if w.chance(0.45) else None)
    return finish(w, de, en, "passive")


def imperative(w: Writer) -> Pair:
    subject = NP(pronoun="Sie")
    clause = w.clause([(1.0, "bare")], subject, lambda verb: "i" in verb.flags and verb.lemma not in LONG, adjuncts=0.9)
    if w.chance(0.5):
        clause.parts.append(w.time("future"))
    w.note("adverb", "bitte")
    w.note_verb(clause, "imperative")
    return finish(w, clause.de_imperative(), f"please {clause.en_base()}", "imperative")


def predicate(w: Writer) -> Pair:
    """Sentences with "sein", and prices, ages, durations and "es gibt"."""
    w.uses, w.lemmas = [], []
    kind = w.sampler.weighted(
        [(2, "adjective"), (3, "comparative"), (1.2, "equal"), (1.6, "age"), (2, "price"), (1.2, "length"),
         (1.5, "there"), (1, "state")]
    )  # fmt: skip
    w.note("verb", "sein")
    if kind == "state":
        clause = w.state_clause(w.subject(SEIN), "past", 0.2)
        time = w.time("past")
        clause.parts.insert(0, time)
        front = time if w.chance(0.5) else None
        return finish(w, clause.de_main(front), clause.en_main(front), "predicate")
    if kind == "age":
        who = w.subject(SEIN)
        while who.many:
            who = w.subject(SEIN)
        tags = who.noun.tags if who.noun is not None else ()
        low, high = (6, 17) if "young" in tags else (19, 66)
        if who.noun is not None and who.noun.lemma.startswith("Groß"):
            low, high = 60, 96
        years = w.rng.randint(low, high)
        w.note_number(years)
        w.note("noun", "Jahr", "measure")
        german, english = number(years)
        w.note("adjective", "alt")
        tense = "present"
        year_de, lead = "", ""
        if w.chance(0.5):
            year = w.rng.randint(1985, 2024)
            tense, year_de, lead = "past", f"im Jahr {year}", f"in {year} , "
        part = f"{german} Jahre alt"
        clause = Clause(who, SEIN, tense, [Part("P", part, f"{english} years old")])
        return finish(w, clause.de_main(year_de or None), lead + clause.en_main(), "predicate")
    if kind in ("price", "length"):
        if kind == "price":
            nouns, verb, unit, english_verb = (
                nouns_of(("object", "clothes", "own", "food")),
                "kost",
                "Euro",
                "cost",
            )
            nouns = tuple(noun for noun in nouns if not noun.mass)
            value = w.quantity(99)
            unit_en = "euros"
            w.note("verb", "kosten")
            w.note("noun", "Euro", "measure")
        else:
            nouns, verb, english_verb = nouns_of(("event",)), "dauer", "last"
            nouns = tuple(noun for noun in nouns if "date" not in noun.tags or noun.lemma == "Sitzung")
            noun = w.noted(w.pick(["Minute", "Stunde", "Tag", "Woche"], "noun"), "measure")
            value, unit, unit_en = (
                w.quantity(60 if noun.lemma == "Minute" else 20),
                noun.plural,
                noun.en_plural,
            )
            w.note("verb", "dauern")
        what = w.noun_phrase(nouns, "subject", None, [(4, "der"), (2, "dieser"), (1, "poss")])
        german, english = number(value)
        end_de = ("eten" if what.plural else "ete") if verb == "kost" else ("ten" if what.plural else "te")
        past = w.chance(0.5)
        if not past:
            end_de = {"kost": ("et", "en"), "dauer": ("t", "n")}[verb][1 if what.plural else 0]
            end_en = "" if what.plural else "s"
        else:
            end_en = "" if verb == "kost" else "ed"
        de, en = (
            f"{what.de('N')} {verb}{end_de} {german} {unit}",
            f"{what.en(True)} {english_verb}{end_en} {english} {unit_en}",
        )
        return finish(w, de, en, "predicate")
    if kind == "there":
        place = w.place_part(("town", "home", "work", "public", "shop"))
        what = w.noun_phrase(nouns_of(("furniture", "object", "person", "picture", "machine")), "accusative object",
                             None, [(1, "ein")])  # fmt: skip
        w.note("verb", "geben")
        many = what.plural
        verb_en = "are" if many else "is"
        if what.det == "" and many:
            return finish(
                w,
                f"{place.de} gibt es viele {what.de('A')}",
                f"there are many {what.en()} {place.en}",
                "there",
            )
        return finish(w, f"{place.de} gibt es {what.de('A')}", f"there {verb_en} {what.en()} {place.en}", "there")
    things = [noun for noun in NOUNS if any(t in noun.tags for t in THINGS) and not noun.mass]
    first = w.noun_phrase(things, "subject", None, [(4, "der"), (2, "poss"), (2, "dieser")], plain=True)
    assert first.noun is not None
    adjective = w.adjective_for(first.noun, predicative=True, comparative=kind != "adjective")
    if adjective is None:
        return predicate(w)
    tense = "past" if w.chance(0.3) else "present"
    if kind == "adjective":
        w.note("adjective", adjective.lemma, "predicative")
        negated = w.chance(0.2)
        german, english = degree(w, adjective.lemma, adjective.en, negated)
        clause = Clause(first, SEIN, tense, [Part("P", german, english)], negated=negated)
        return finish(w, clause.de_main(), clause.en_main(), "predicate")
    same = [noun for noun in things if set(noun.tags) & set(first.noun.tags) & set(THINGS) and noun.en != first.noun.en]
    second = w.noun_phrase(same, "comparison", None, [(4, "der"), (2, "poss"), (1, "dieser")])
    second.plural = first.plural
    if kind == "equal":
        w.note("adjective", adjective.lemma, "predicative")
        not_de, not_en = ("nicht ", "not ") if w.chance(0.4) else ("", "")
        german, english = (
            f"{not_de}so {adjective.lemma} wie {second.de('N')}",
            f"{not_en}as {adjective.en} as {second.en()}",
        )
    else:
        w.note("adjective", adjective.lemma, "comparative")
        german = f"{adjective.comparative} als {second.de('N')}"
        english = f"{adjective.en_comparative} than {second.en()}"
    clause = Clause(first, SEIN, tense, [Part("P", german, english)])
    return finish(w, clause.de_main(), clause.en_main(), "comparison")


THINGS = (
    "person",
    "animal",
    "clothes",
    "furniture",
    "own",
    "transport",
    "room",
    "town",
    "text",
    "public",
    "event",
    "idea",
)


def coordination(w: Writer) -> Pair:
    """Two main clauses: und, aber, deshalb."""
    kind = w.rng.choice(["und", "aber", "deshalb"])
    past = w.chance(0.75)
    if kind == "deshalb" and w.chance(0.5):
        first = w.state_clause(w.subject(SEIN), "past" if past else "present", 0.1)
        w.note_verb(first, "main clause")
    else:
        first = w.clause(PAST if past else [(2.0, "modal"), (1.0, "future")], adjuncts=0.3,
                         verbs=lambda verb: "x" not in verb.flags, negation=0.1)  # fmt: skip
        w.note_verb(first, "main clause")
    subject = again(w, first) or w.subject(SEIN, initial=False)
    second = w.clause(PAST if past else [(2.0, "modal"), (1.0, "werden")], subject, adjuncts=0.1,
                      negation=0.5 if kind == "aber" else 0.0)  # fmt: skip
    left_de, left_en = first.de_main(), first.english.en_main()
    if kind == "deshalb":
        w.note("adverb", "deshalb")
        w.note_verb(second, "inversion")
        return finish(
            w, f"{left_de} , deshalb {second.de_main('')}", f"{left_en} , so {second.english.en_main()}", kind
        )
    w.note_verb(second, "main clause")
    right = second.de_main()
    joint = " ," if kind == "aber" else ""
    english = "but" if kind == "aber" else "and"
    return finish(w, f"{left_de}{joint} {kind} {right}", f"{left_en}{joint} {english} {second.english.en_main()}", kind)


WEATHER = {
    lemma: Verb(lemma, "", third, "", "h", base, ("person",), (), (), "")
    for lemma, third, base in [
        ("regnen", "regnet", English("rain", "rained", "rained")),
        ("schneien", "schneit", English("snow", "snowed", "snowed")),
    ]
}
PATTERNS: list[tuple[float, str, Callable[[Writer], Pair]]] = [
    (26, "statement", statement),
    (24, "subordinate", subordinate),
    (10, "content", content),
    (14, "relative", relative),
    (8, "infinitive", infinitive),
    (10, "question", question),
    (6, "passive", passive),
    (2.5, "imperative", imperative),
    (9, "predicate", predicate),
    (5, "coordination", coordination),
]
BY_NAME = {name: pattern for _, name, pattern in PATTERNS}


def write_pair(w: Writer) -> Pair:
    """One sentence pair of a random kind."""
    w.uses, w.lemmas = [], []
    name = w.sampler.weighted([(weight, name) for weight, name, _ in PATTERNS])
    return BY_NAME[name](w)
