"""What is wrong with a corpus as a whole is found in a sample; nothing is found in good text."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from unicodedata import normalize

import pytest
from sentencepiece import SentencePieceTrainer

from folders import Folder
from nmt.prepare.suspicions import lacking, lengthened, suspicions
from nmt.text.imported import ImportedVocabulary
from nmt.text.pairing import Sample
from nmt.text.vocabularies import Tokenizers
from sentences import CZECH, sentence_pairs

Pairs = list[tuple[str, str]]
GOOD = [
    (f"{de[:-1]} in der Straße {n * 37 % 911}{' und geht' * (n % 4)}.",
     f"{en[:-1]} in street {n * 37 % 911}{' and walks' * (n % 4)}.")
    for n, (de, en) in enumerate(sentence_pairs(600, seed=3))
]  # fmt: skip


@pytest.fixture(params=["py3langid", "profiles"])
def _identified(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Languages are identified by py3langid, and without it by what the development set looks like."""
    if request.param == "profiles":
        monkeypatch.setitem(sys.modules, "py3langid", None)


def found(pairs: Sequence[tuple[str, str]], n_held_out: int = 100) -> list[str]:
    """The warnings about a training corpus, with a good development set."""
    samples = {"train.0": Sample.of(pairs), "valid": Sample.of(sentence_pairs(n_held_out, seed=9))}
    return list(suspicions(samples, ["valid"], ("de", "en"), {"train.0": "x.de", "valid": "v.de"}))


def lines_of(pairs: Pairs, german: Sequence[str]) -> Pairs:
    return [(line, en) for line, (_, en) in zip(german, pairs, strict=True)]


@pytest.mark.usefixtures("_identified")
def test_good_text_is_not_suspected() -> None:
    lower = [(de.lower(), en.lower()) for de, en in GOOD]
    for pairs in (GOOD, lower, [("Öl", "Oil"), ("1", "1")] * 200, sentence_pairs(600, seed=4), GOOD[:5], []):
        assert found(pairs) == []


@pytest.mark.usefixtures("_identified")
@pytest.mark.parametrize("share", [1, 3], ids=["all", "third"])
def test_side_in_another_language_warns(share: int) -> None:
    foreign = [CZECH[n % len(CZECH)] if n % share == 0 else de for n, (de, _) in enumerate(GOOD)]
    warning = next(each for each in found(lines_of(GOOD, foreign)) if "German" in each)
    assert warning.startswith("data.train.0 (x.de), de: ") and "data.clean.drop: [language]" in warning
    assert (f"{CZECH[0]!r}" in warning) and "line 1:" in warning
    if sys.modules.get("py3langid"):
        assert "Czech" in warning


@pytest.mark.parametrize(("word", "is_mixed"), [("»оса«", False), ("ocа", True)])
def test_words_of_letters_of_two_scripts_warn_but_quoted_words_do_not(word: str, is_mixed: bool) -> None:
    sample = Sample.of((f"Реч {word} је на страни {n}.", f"The word is on page {n}.") for n in range(100))
    warnings = suspicions({"train.0": sample}, [], ("sr", "en"), {"train.0": "x.sr"})
    assert any("repair: [letters]" in warning for warning in warnings) == is_mixed


FRENCH = [f"L\u2019été no {n} est déjà passé à Besançon." for n in range(60)]
ALTERED = {
    "not in the normal form NFC": lambda line: normalize("NFD", line),
    "invisible characters": lambda line: line.replace("ss", "s\u00ads"),
    "unusual white space": lambda line: line.replace(" no ", " no\u00a0"),
}


@pytest.mark.parametrize("form", ALTERED)
def test_set_in_other_forms_than_the_training_text_warns(form: str) -> None:
    for is_whole, n_warnings in ((True, 1), (False, 0)):
        lines = [ALTERED[form](line) if is_whole or n == 0 else line for n, line in enumerate(FRENCH)]
        samples = {
            "train.0": Sample.of(zip(FRENCH, FRENCH, strict=True)),
            "test.t": Sample.of((line, "") for line in lines),
        }
        found = [
            each
            for each in suspicions(samples, ["test.t"], ("fr", "xx"), {"train.0": "x", "test.t": "t"})
            if form in each
        ]
        assert len(found) == n_warnings
        assert all(
            "data.test.t (t), fr: 100% of the lines" in each and "and 0% of the training" in each for each in found
        )


def test_training_text_in_both_normal_forms_warns_of_both_corpora() -> None:
    samples = {
        "train.0": Sample.of((line, line) for line in FRENCH),
        "train.1": Sample.of((normalize("NFD", line), line) for line in FRENCH),
        "valid": Sample.of((line, line) for line in FRENCH),
    }
    warnings = "\n".join(suspicions(samples, ["valid"], ("fr", "xx"), dict.fromkeys(samples, "x")))
    assert "data.train.1 (x), fr: 100% of the lines have letters that are not in the normal form NFC" in warnings
    assert "data.train.0 (x), fr: 100% of the lines have composed letters" in warnings
    assert "[NFC]" in warnings


@pytest.mark.parametrize("language", ["fr", "fa", "hi"])
def test_usual_spaces_and_joiners_of_a_language_give_no_warning(language: str) -> None:
    lines = {
        "fr": [f"Que dit-il\u00a0? Il a {n}\u202f000 œufs." for n in range(60)],
        "fa": [f"او می\u200cخرد {n}" for n in range(60)],
        "hi": [f"\u0930\u094d\u200d\u092f \u0921\u093c {n}" for n in range(60)],
    }[language]
    samples = {
        "train.0": Sample.of((line, line) for line in [*lines, *FRENCH]),
        "valid": Sample.of(zip(lines, lines, strict=True)),
    }
    warnings = [*suspicions(samples, ["valid"], (language, "xx"), {"train.0": "x", "valid": "v"})]
    assert not any("of the lines have" in warning for warning in warnings)


# a sentence with the letters in which the encodings of its language differ
LETTERS = {
    "uk": "Кіт їсть ґречану кашу, бо він є голодний", "ru": "Съешь ещё этих мягких булок",
    "cs": "Žlutý kůň skáče přes ťukající šňůru", "pl": "Źle śpiąca łódź ma ząb i żółtą ćmę",
    "tr": "Işığın gölgesi ağaçta değişir, İzmir şaşırır", "de": "Die Größe ändert nichts „über“ Öl – so",
    "fr": "Le père achète ça où il reçoit des œufs",
}  # fmt: skip
CONVERTED = [
    ("uk", "KOI8-U", "KOI8-R"), ("uk", "KOI8-U", "WINDOWS-1251"), ("uk", "WINDOWS-1251", "CP866"),
    ("ru", "KOI8-R", "CP866"), ("ru", "WINDOWS-1251", "ISO-8859-5"), ("cs", "ISO-8859-2", "WINDOWS-1252"),
    ("cs", "WINDOWS-1250", "WINDOWS-1252"), ("pl", "ISO-8859-2", "WINDOWS-1250"), ("pl", "WINDOWS-1250", "ISO-8859-2"),
    ("tr", "WINDOWS-1254", "WINDOWS-1252"), ("fr", "WINDOWS-1252", "WINDOWS-1250"),
]  # fmt: skip


def encodings_named(language: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    """The warnings about text that was converted from a wrong encoding."""
    samples = {"train.0": Sample.of((line, "") for line in lines)}
    warnings = suspicions(samples, [], (language, "en"), {"train.0": "x"})
    return re.findall(r"look like (\S+) that was read as ([^\s,]+)", "\n".join(warnings))


@pytest.mark.parametrize(("language", "meant", "read"), CONVERTED)
@pytest.mark.parametrize("share", [1, 9], ids=["all", "ninth"])
def test_text_converted_from_a_wrong_encoding_warns(language: str, meant: str, read: str, share: int) -> None:
    right = [f"{LETTERS[language]} {number}." for number in range(90)]
    wrong = [line.encode(meant, "ignore").decode(read, "ignore") for line in right]
    lines = [wrong[n] if n % share == 0 else line for n, line in enumerate(right)]
    [(found, instead)] = encodings_named(language, lines)
    assert found == meant
    assert LETTERS[language].encode(found, "ignore").decode(instead, "ignore") == wrong[0].removesuffix(" 0.")


@pytest.mark.parametrize("language", LETTERS)
def test_text_with_all_letters_of_its_language_gives_no_warning_about_encodings(language: str) -> None:
    variants = [str.upper, str.lower, str.title, lambda line: f"{line} ({LETTERS['fr']}, {LETTERS['tr']})"]
    assert encodings_named(language, [vary(LETTERS[language]) for vary in variants] * 20) == []


@pytest.mark.parametrize("offset", [1, -1])
def test_shifted_side_warns_with_direction(offset: int) -> None:
    (warning,) = found([(de, GOOD[(n - offset) % len(GOOD)][1]) for n, (de, _) in enumerate(GOOD)])
    assert "the lines look shifted" in warning and f"line {'after' if offset == 1 else 'before'}" in warning


def test_shift_that_starts_in_middle_is_located() -> None:
    (warning,) = found([(de, en) for (de, _), (_, en) in zip(GOOD, GOOD[:300] + GOOD[301:], strict=False)])
    (first,) = re.findall(r"about lines (\d+) to 599 look shifted: the en line before", warning)
    assert 240 <= int(first) <= 360
    assert "misaligned" not in warning, "which does not learn from 599 pairs"


def test_advice_about_shifted_lines_fits_the_corpus() -> None:
    pairs = [*GOOD, *((de.replace("Straße", "Gasse"), en.replace("street", "alley")) for de, en in GOOD)]
    shifted = [*pairs[:600], *((de, en) for (de, _), (_, en) in pairwise(pairs[600:]))]
    samples = {"train.0": Sample.of(shifted), "train.1": Sample.of(shifted[400:900]), "test.t": Sample.of(shifted)}
    warnings = suspicions(samples, ["test.t"], ("de", "en"), dict.fromkeys(samples, "x"))
    advice = {warning.split(" ")[0]: warning for warning in warnings if "shifted" in warning}
    assert advice.keys() == {f"data.{key}" for key in samples}
    assert ["misaligned" in text for text in advice.values()] == [True, False, False]
    assert all("nmt align" in text for text in advice.values())


def test_unrelated_sides_warn() -> None:
    (warning,) = found([(de, en) for (de, _), (_, en) in zip(GOOD, GOOD[250:] + GOOD[:250], strict=True)])
    assert "at random" in warning


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("share", [1, 5], ids=["all", "fifth"])
def test_wrongly_decoded_text_warns(encoding: str, share: int) -> None:
    umlauts = [f"Straße {n}: schön, größer und „gut“" for n in range(len(GOOD))]
    misread = [line.encode().decode(encoding, "ignore") if n % share == 0 else line for n, line in enumerate(umlauts)]
    capitals = [f"Heft {n}: «AMANHÃ» und »ÜBERALL«" for n in range(len(GOOD))]
    for lines, n_warnings in ((misread, 1), (umlauts, 0), (capitals, 0)):
        warnings = [each for each in found(lines_of(GOOD, lines)) if "encoding" in each]
        assert len(warnings) == n_warnings
        assert all("(x.de), de: " in each and "data.clean.repair: [encoding]" in each for each in warnings)


@pytest.mark.parametrize(("n_lines", "is_notable"), [(0, False), (10, False), (40, True)])
def test_letters_that_a_vocabulary_lacks_warn_from_a_thousandth_of_the_characters(
    n_lines: int, is_notable: bool
) -> None:
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=(line for pair in GOOD for line in pair), model_writer=model, vocab_size=300, minloglevel=2,
        hard_vocab_limit=False, character_coverage=1.0, pad_id=3,
    )  # fmt: skip
    vocabulary = ImportedVocabulary.of_model(model.getvalue()).model_copy(update={"direction": "de-en"})
    tokenizers = Tokenizers.of_import(vocabulary, dict.fromkeys(("de", "en"), model.getvalue()))
    pairs = [(f"{de}\u0252" if n < n_lines else de, en) for n, (de, en) in enumerate(GOOD)]
    pairs[7] = (f"\u0253\u0252 {pairs[7][0]}" if n_lines else GOOD[7][0], f"{GOOD[7][1]}\u0254")
    samples = {"valid": Sample.of(GOOD[:20]), "train.0": Sample.of(pairs)}
    warnings = list(lacking(samples, ("de", "en"), tokenizers))
    assert len(warnings) == is_notable
    [*added] = lacking(samples, ("de", "en"), tokenizers, ["de"])
    assert len(added) == is_notable and "vocab_size" not in "".join(added)
    n_pieces = max(300, len(vocabulary.pieces[0])) + 3  # also for a rare letter of the other side
    for warning in warnings:
        assert warning.startswith("de: ") and f"tokenizer.vocab_size={n_pieces} " in warning
        assert f"data.train.0, line 8: '{pairs[7][0][:60]}'" in warning
        assert warning.index("'\u0252'") < warning.index("'\u0253'"), "the more frequent one first"


@pytest.mark.parametrize(
    ("pieces", "ratio"), [({"de": 10, "en": 17}, None), ({"de": 10, "en": 18}, 4), ({"de": 61, "en": 20}, 7)]
)
def test_language_with_far_more_pieces_needs_a_longer_limit(pieces: dict[str, int], ratio: int | None) -> None:
    warnings = [*lengthened(pieces)]
    assert len(warnings) == (ratio is not None)
    assert all(warning.startswith(max(pieces, key=pieces.__getitem__)) for warning in warnings)
    assert all(f"search.max_length_ratio={ratio}" in warning for warning in warnings)


def test_profiles_are_not_in_fingerprint(prepared: Folder) -> None:
    place = prepared
    before, path = place.manifest()["fingerprint"], place.data / "tokenizer" / "profiles.json"
    assert place.corpus().tokenizers.profiles is not None
    content = {name: data for name, data in place.content().items() if name != "manifest.json"}
    path.unlink()
    assert "no such file" in place.prepare() and place.manifest()["fingerprint"] == before
    assert {name: data for name, data in place.content().items() if name != "manifest.json"} == content
