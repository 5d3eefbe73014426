"""The page of `nmt export --format web` splits lines and reads text as nmt does: its JavaScript is run by Node.js."""

from __future__ import annotations

import ast
import json
import random
import shutil
import subprocess
from collections import Counter
from copy import copy
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from nmt.languages.codes import rows_of
from nmt.share.transformers import tokenizer_json
from nmt.text.letters import usual_forms, write
from nmt.text.split import join, n_sentences, split
from nmt.text.tokenizer import CONTROL, LosslessTokenizer, is_blank, train_tokenizer
from places import ROOT
from scripts import web_patterns

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no Node.js on PATH")

# Each has short and long sentences, abbreviations, quotations or marks of its own.
LANGUAGES = [
    "Am 3. Mai kam Dr. Kurz, z. B. mit Frau Ä. Lang bzw. ihrem Hund. „Geht das?“, fragte er; sie: „Nein!“ Ja … gut.",
    "It costs $3.50 at 10:30 a.m. here... Ask St. Peter! He said \"No.\" (It is.) And 'so on', J. Smith wrote.",
    "« Oui. » dit-il. Il y en a. L'été, c'est à 3 h ; non ? « Non ! » Voilà.",
    "Dov'è? Non c'è. Sig. Rossi è qui. Chi è?",
    "¿Qué hora es? ¡Las tres! El Sr. Pérez llegó. Bien.",
    "До н. э. Рим, и. о. директора, т. е. Москва. Это я. «Где?» — спросил он. В 1990 г. Москва.",
    "Zlomil si prst. Teče mu krv. Přišel vlk č. 5. Paní plk. Nová.",
    "Kossuth u. 12. szám. Ő az. Jól van.",
    "Em chào ạ. Chị đi à. Vâng, TP. Hồ Chí Minh.",
    "Ọ bụ nwoke a. Ọ bịara. Ó dára. Mo rí ọ.",
    "Αυτό είναι σπίτι. Ήρθε; «Πότε»; Ναι. π.χ. αυτό.",
    "هل هذا بيت؟ نعم، د. محمد هنا. لا! «كتاب»؛ جيد.",
    "یہ گھر ہے۔ پی۔ٹی۔آئی کیا ہے؟ ہاں۔ می‌خواهم بروم.",
    'זֶה בַּיִת. הוּא אָמַר: ״לֹא״. ד"ר כהן בא.‏ כֵּן.',
    "यह एक घर है। वह आया | क्या? डॉ. शर्मा ने कहा, “हाँ।” फिर क्षत्रिय आया॥",
    "এটা ঘর। সে এল। কী? “হ্যাঁ।” ড. রায়।",
    "இது வீடு. அவன் வந்தான். என்ன? ஸ்ரீ க்ஷ.",
    "මෙය ගෙය ය. ඔහු ආවේ ය. ශ්‍රී ලංකා. ඔව්.",
    "บ้านนี้สวย เขามาแล้ว! เที่ยวไปไหน? พ.ศ. 2569 ครับ",
    "ဒါ အိမ်ပါ။ သူသွားသည်။ မင်္ဂလာပါ၊ ဟုတ်ကဲ့။",
    "នេះជាផ្ទះ។ តើនៅទេ? ស្ត្រីមក។ ប៊ិច។ល។ បាទ",
    "ይህ ቤት ነው። እሱ መጣ፧ «ሰላም!»አለች ነው፡፡ በ2010 ዓ.ም. መጣ።",
    "你好！我是王先生。他说：“你来吗？”——来。「好」。圆周率是３．１４。",
    "家です。「はい。」と言った。「赤い？」『赤いです！』、本当!？次",
    "이것은 좋은 것. 그는 왔다! 뭐? 각각 \u1100\u1161\u11a8.",
    "བོད་ཡིག ཡིན། དེ་རེད། ལགས།",
    "ეს სახლია. ის მოვიდა! სად? კი. ა. შ. და",
    "Սա տուն է։ Նա եկավ։ Ո՞ւր: Այո․",
    "Ja. 😀👍 Nein! 👩\u200d🔬👍🏽 Gut 😀 so. ❤\ufe0f „Ja.“ 🇩🇪🇫🇷🇪🇸 Gut. 1️⃣ x",
    'Say {{ ok ? "YES" : "No." }}! {% if a == "B. C" %} Go. <%= x %> <b>Bold.</b> {# so. #} &lt;% y %&gt; {{n}} came.',
    "| नाम| उम्र| a | b. C",
]
FRAGMENTS = [
    *".!?…。！？।॥።፡፧;:,،؛、–—|()[]「」『』«»‹›“”„‘’\"'¿¡•．۔။៕།᱾·‥",
    *"\u00a0\u202f\u3000\t\u2028\u200b\u200c\u200d\u200e\ufeff\u00ad\u2060\x1c\x85\x00\u0301",
    " ", " ", " ", ". ", "! ", "? ", "。", "z. B. ", "Dr. ", "a. ", "u. ", "e. ", "1. ", "12. ",
    "{{ x. Y }}", "{% a %}", "<b>", "a", "Ab", "der", "X", "ß", "ñ", "n\u0303", "e\u0301\u0323", "ω", "Ж",
    "я", "א", "ب", "ی", "ي", "می", "क", "क\u093f", "क\u094dष", "श\u094d\u200dर", "ক\u09cd", "ஸ\u0bcdர\u0bc0",
    "ශ\u0dca\u200dර\u0dd3", "สว\u0e31สด\u0e35", "เท\u0e35\u0e48", "ำ", "က\u103c", "င\u103a\u1039",
    "ស\u17d2ត\u17d2រ\u17b8", "你好", "一", "はい", "と", "가", "\u1100\u1161\u11a8", "ነው", "ა", "𐐷", "𝒜", "😀", "👍🏽",
    "👩\u200d🔬", "🇩🇪", "🇫", "❤\ufe0f", "1\ufe0f\u20e3", "3", "３", "१", "²", "½",
]  # fmt: skip

DRIVER = """
import { readFileSync } from "node:fs";
import { join, nSentences, split } from "./split.js";
import { hasLetters, isBlank, losslessReading, reader, withoutControls, writer } from "./reading.js";

const { splits, joins, readings } = JSON.parse(readFileSync(0, "utf8"));
const measures = {
  characters: (texts) => texts.map((text) => [...text].length),
  words: (texts) => texts.map((text) => text.split(" ").filter(Boolean).length),
};
process.stdout.write(JSON.stringify({
  splits: splits.map(([text, measure, longest, whole]) => split(text, measures[measure], longest, whole ?? undefined)),
  numbers: splits.map(([text]) => [nSentences(text), isBlank(text), hasLetters(text), withoutControls(text)]),
  joins: joins.map(([parts, translations]) => join(parts, translations)),
  readings: readings.map(({ tokenizer, letters, texts }) =>
    texts.map(reader(losslessReading(tokenizer), writer(letters)))),
}));
"""


def by_node(folder: Path, question: dict[str, Any]) -> Any:
    """Return what the page's functions return, computed by one process."""
    assert NODE is not None
    for name in ("split.js", "reading.js", "patterns.js"):
        (folder / name).write_bytes(files("nmt.share.web").joinpath(name).read_bytes())
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "driver.js").write_text(DRIVER)
    answer = subprocess.run([NODE, folder / "driver.js"], input=json.dumps(question).encode(), stdout=subprocess.PIPE)
    assert answer.returncode == 0
    return json.loads(answer.stdout)


@cache
def literals() -> list[str]:
    """Return the texts of the tests of splitting and reading, also joined."""
    texts = []
    for name in ("test_split.py", "test_reading.py"):
        tree = ast.parse((ROOT / "tests" / "unit" / "text" / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Constant(value=str(text)):
                    texts.append(text)
                case ast.List(elts=elements):
                    parts = [part.value for part in elements if isinstance(part, ast.Constant)]
                    if parts and all(isinstance(part, str) for part in parts):
                        texts += [" ".join(parts), "".join(parts)]
    return [*dict.fromkeys(texts)]


def made_up(n: int, seed: int) -> list[str]:
    """Return random texts."""
    rng = random.Random(seed)
    texts = []
    for _ in range(n):
        pool = rng.sample(FRAGMENTS, rng.randint(2, len(FRAGMENTS)))
        texts.append("".join(rng.choices(pool, k=rng.randint(1, 40))))
    return texts


def n_characters(texts: list[str]) -> list[int]:
    return [*map(len, texts)]


def n_words(texts: list[str]) -> list[int]:
    return [len([*filter(None, text.split(" "))]) for text in texts]


def tokenizers() -> list[LosslessTokenizer]:
    """Return vocabularies that know different characters, spaces and normal forms."""
    text = [*LANGUAGES, "\u00c9t\u00e9\u00a0! 3\u202f000", "\u09df \u09a1\u09bc \u1ebf"] * 3
    by_form = [[normalize(form, line) for line in text] for form in ("NFC", "NFD")]
    return [train_tokenizer(lines, 2400) for lines in (*by_form, text[:24], ["den Hund f\u00fcttern"] * 9)]


def test_patterns_of_the_page_are_those_of_nmt() -> None:
    written = files("nmt.share.web").joinpath("patterns.js").read_text(encoding="utf-8")
    if web_patterns.unicode_of(written) != web_patterns.installed_unicode():
        pytest.skip("the installed regex has another version of Unicode")
    assert written == web_patterns.content(), "run python -m scripts.web_patterns"


@needs_node
def test_page_splits_and_joins_lines_as_nmt(tmp_path: Path) -> None:
    texts = [*LANGUAGES, *literals(), *made_up(1500, seed=1)]
    rng = random.Random(2)
    measures = {"characters": n_characters, "words": n_words}
    splits = []
    for text in texts:
        for longest, whole in ((1000, 0), (rng.randint(1, 40), None), (rng.randint(1, 8), 0)):
            splits.append((text, rng.choice([*measures]), longest, whole))
    expected = [split(text, measures[measure], longest, whole) for text, measure, longest, whole in splits]
    translations = [[rng.choice([*FRAGMENTS, part, ""]).strip() for part, _ in parts] for parts in expected]
    answer = by_node(tmp_path, {"splits": splits, "joins": [*zip(expected, translations, strict=True)], "readings": []})
    for case, ours, theirs in zip(splits, expected, answer["splits"], strict=True):
        assert [*map(tuple, theirs)] == ours, case
    for case, theirs in zip(splits, answer["numbers"], strict=True):
        text = case[0]
        ours = [n_sentences(text), is_blank(text), any(map(str.isalpha, text)), CONTROL.sub(" ", text)]
        assert theirs == ours, text
    joined = [join(parts, of_parts) for parts, of_parts in zip(expected, translations, strict=True)]
    for parts, ours, theirs in zip(expected, joined, answer["joins"], strict=True):
        assert theirs == ours, parts


@needs_node
def test_page_reads_text_as_nmt(tmp_path: Path) -> None:
    texts = [*LANGUAGES, *literals(), *made_up(600, seed=3)]
    texts += [normalize(form, text) for text in LANGUAGES for form in ("NFC", "NFD", "NFKD")]
    names = {name for of, *_ in rows_of("letters.tsv") for name in of.split()} - {"*"}
    languages = [name for name in sorted(names | {"fa", "he", "uk", "uz", "ro", "de"}) if name.islower()]
    rng = random.Random(4)
    letters = [usual_forms(language, Counter(rng.choices("ab", k=3))) for language in languages]
    vocabularies = tokenizers()
    readings = [({}, tokenizer) for tokenizer in vocabularies]
    readings += [(forms, vocabularies[-1]) for forms in letters if forms]
    question = []
    expected = []
    for forms, tokenizer in readings:
        tokenizer = copy(tokenizer)
        tokenizer.letters = forms
        question.append({"tokenizer": tokenizer_json(tokenizer), "letters": forms, "texts": texts})
        expected.append([tokenizer.as_read(text) for text in texts])
    answer = by_node(tmp_path, {"splits": [], "joins": [], "readings": question})
    assert any(ours != texts for ours in expected) and any(write(text, letters[0]) != text for text in texts)
    for ours, theirs in zip(expected, answer["readings"], strict=True):
        for text, one, other in zip(texts, ours, theirs, strict=True):
            assert one == other, text
