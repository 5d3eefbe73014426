"""Tests of the HTTP interfaces with fake translators."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import urlencode

import pytest

from nmt.documents.html import HtmlFragment
from nmt.serve import app, handlers, server
from nmt.serve import service as service_module
from nmt.serve.admission import Admission, RateLimiter, new_key, read_keys
from nmt.serve.app import make_app
from nmt.serve.handlers import TranslateRequest
from nmt.serve.limits import Refusal
from nmt.serve.models import Models
from nmt.serve.server import listen, make_server
from nmt.serve.service import Service
from nmt.serve.settings import Limits
from nmt.translate.types import Line, Options, Part, Translation
from served import FORM, Answer, Client, MadeUp, multipart, serving
from waiting import until

LIMITS = Limits(characters=200, items=5, bytes=2000, file_bytes=3000, seconds=20.0, body_seconds=1.0)


@pytest.fixture(scope="module")
def directions() -> list[MadeUp]:
    return [MadeUp("de", "en"), MadeUp("en", "fr", has_native=False), MadeUp("en", "de")]


@pytest.fixture(scope="module")
def service(directions: list[MadeUp]) -> Service:
    return Service(Models(directions), LIMITS, allowed={"beam": 8.0, "length_penalty": None, "protect": None})


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Client]:
    with serving(service, origins=["https://example.org"]) as client:
        yield client


def translate(client: Client, **fields: object) -> Answer:
    return client.ask("/translate", {"source": "de", "target": "en", **fields})


def runs_in_event_loop() -> bool:
    """Whether the calling function was called by a task of an event loop, not in a thread beside it."""
    return asyncio._get_running_loop() is not None


def upload(client: Client, source: bytes, target: bytes, file: str, content: bytes) -> Answer:
    parts = [('name="source"', source), ('name="target"', target), (file, content)]
    return client.ask("/translate_file", raw=multipart(*parts), content_type=FORM)


# --- LibreTranslate's interface -----------------------------------------------------------------


def test_fields_are_read_from_json_or_else_from_query_and_form(client: Client) -> None:
    fields = {"q": "Hällo & so", "source": "de", "target": "en", "alternatives": "1"}
    expected = {"translatedText": "de>en: Hällo & so", "alternatives": ["de>en#2: Hällo & so"]}
    assert client.ask(f"/translate?{urlencode(fields)}", method="POST").json == expected
    languages = {"source": "de", "target": "en"}
    assert client.ask(f"/translate?{urlencode({'q': 'a'})}", form=languages | {"q": "b"}).json == {
        "translatedText": "de>en: a"
    }
    in_form = client.ask("/translate", form=languages | {"q": ["a", "b"]})
    assert in_form.json == {"translatedText": ["de>en: a", "de>en: b"]}
    assert client.ask("/translate?target=fr", raw=multipart(('name="q"', b"a")), content_type=FORM).status == 400
    in_json = client.ask("/translate?q=a&target=fr&alternatives=2", {"q": "b", **languages})
    assert in_json.json == {"translatedText": "de>en: b"}
    assert client.ask("/translate?q=a", languages).status == 400, "of a JSON body, the query is no part"
    assert client.ask(f"/detect?{urlencode({'q': GERMAN})}", method="POST").json[0]["language"] == "de"
    for damaged in ("q=%FF", f"q={'x' * 201}", "&".join(["q=x"] * 1200)):
        assert client.ask(f"/translate?{damaged}&source=de&target=en", method="POST").status == 400


def test_lost_placeholders_are_named(client: Client, directions: list[MadeUp], monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(line: Line, rank: int, _: Options) -> Translation:
        return Translation(line.text.replace("https://x.org/a", ""), score=-rank, parts=(Part(line.text, (), ()),))

    monkeypatch.setattr(directions[0], "_candidate", forgetful)
    url = "https://x.org/a"
    lossy, html = f"Siehe {url} und {{name}}.\nSiehe {url}.", f"<p>Siehe <b>{url}</b> &amp; <i>so</i></p>"
    assert translate(client, q=lossy).json["lost"] == [url, url]
    assert translate(client, q=["Gar nichts", lossy]).json["lost"] == [[], [url, url]]
    assert translate(client, q=html, format="html").json["lost"] == [url]
    assert "lost" not in translate(client, q=f"Nur {{name}}, {lossy}"[:12]).json
    asked = {"text": [lossy, "Nur {name}"], "source": "de", "target": "en", "n_best": 2}
    answers = client.ask("/v1/translate", asked).json["translations"]
    assert [answer["lost"] for answer in answers] == [[url, url], []]
    file = 'name="file"; filename="a.txt"'
    [note] = upload(client, b"de", b"en", file, f"{lossy}\n{lossy}\n".encode()).json["notes"]
    assert note.count(url) == 1
    assert upload(client, b"de", b"en", file, b"Nur {name}\n").json["notes"] == []


@pytest.mark.parametrize(
    ("fields", "translated", "alternatives"),
    [
        pytest.param({"q": ["a", "", "b"]}, ["de>en: a", "", "de>en: b"], [], id="list"),
        pytest.param({"q": "eins\r\n\n zwei\n"}, "de>en: eins\r\n\nde>en:  zwei\n", [], id="line breaks"),
        pytest.param({"q": "Hallo", "target": "fr"}, "en>fr: de>en: Hallo", [], id="pivot"),
        pytest.param(
            {"q": "a\nb", "alternatives": 2}, "de>en: a\nde>en: b",
            ["de>en#2: a\nde>en#2: b", "de>en#3: a\nde>en#3: b"], id="alternatives without the best",
        ),
        pytest.param(
            {"q": "<p>Hallo <b>Welt</b></p>", "format": "html", "alternatives": 1},
            "<p>de&gt;en: Hallo <b>Welt</b></p>", ["<p>de&gt;en#2: Hallo <b>Welt</b></p>"], id="HTML",
        ),
        pytest.param(
            {"q": ["<i>a</i>", "b"], "format": "html", "target": "de"}, ["<i>a</i>", "b"], [], id="same language"
        ),
    ],
)  # fmt: skip
def test_text_is_translated(
    client: Client, fields: dict[str, object], translated: object, alternatives: list[str]
) -> None:
    expected = {"translatedText": translated} | ({"alternatives": alternatives} if alternatives else {})
    assert translate(client, **fields).json == expected


GERMAN = "Der Hund schläft heute im Garten, und die Katze auch."
ENGLISH = "The children are playing football behind the school."
SPANISH = "Los niños juegan al fútbol en el parque detrás de la escuela."
FRENCH = "Les enfants jouent au football derrière l'école du village."
SORANI = "ئەم کتێبە زۆر باشە، من هەموو ڕۆژێک دەیخوێنمەوە."
PERSIAN = "این کتاب خیلی خوب است و من هر روز آن را می‌خوانم."


def test_language_of_each_text_is_detected(client: Client) -> None:
    texts, languages = [GERMAN, ENGLISH, GERMAN], ["de", "en", "de"]
    expected = [f"de>en: {GERMAN}", ENGLISH, f"de>en: {GERMAN}"]
    answer = translate(client, q=texts, source="auto").json
    assert answer["translatedText"] == expected
    assert detected(client, texts) == detected(client, texts, format="html") == languages
    answer = own(client, text=texts, source="auto").json
    assert [found["text"] for found in answer["translations"]] == expected
    assert [found["detected"]["language"] for found in answer["translations"]] == languages
    assert answer["source"] == "de" and answer["detected"] == answer["translations"][0]["detected"]
    confidences = [found["confidence"] for found in client.ask("/detect", {"q": ENGLISH}).json]
    assert confidences[0] == max(confidences) and 90 < answer["detected"]["confidence"] <= 100


def detected(client: Client, texts: list[str], **fields: object) -> list[str]:
    """Return the languages that are recognized in texts."""
    answer = translate(client, q=texts, source="auto", **fields).json
    return [found["language"] for found in answer["detectedLanguage"]]


SHORT = "The children are playing outside today."


@pytest.mark.parametrize(
    ("texts", "languages"),
    [
        pytest.param(["Name", GERMAN, GERMAN], ["de"] * 3, id="before German"),
        pytest.param([GERMAN, GERMAN, "Name"], ["de"] * 3, id="after German"),
        pytest.param(["Name", ENGLISH, ENGLISH], ["en"] * 3, id="before English"),
        pytest.param([ENGLISH, ENGLISH, "Name"], ["en"] * 3, id="after English"),
        pytest.param([GERMAN * 20, SHORT, ENGLISH, ENGLISH], ["de", "en", "en", "en"], id="after a long one"),
    ],
)
def test_language_of_short_text_is_that_of_the_texts_beside_it(texts: list[str], languages: list[str]) -> None:
    with serving(Service(Models([MadeUp("de", "en")]), Limits())) as client:
        assert detected(client, texts) == languages


@pytest.mark.usefixtures("no_child")
@pytest.mark.parametrize(
    ("source", "name", "content", "expected", "n_notes"),
    [
        pytest.param(
            b"auto", "a.txt", f"{GERMAN}\n{GERMAN}\n{ENGLISH}\n",
            f"de>en: {GERMAN}\nde>en: {GERMAN}\nde>en: {ENGLISH}\n", 0, id="one language for all lines",
        ),
        *(
            pytest.param(
                source, "a.html", f'<p>{GERMAN}</p><p lang="es">{SPANISH}</p>',
                f'<p>de&gt;en: {GERMAN}</p><p lang="es">{SPANISH}</p>', 0, id=f"another language, {source.decode()}",
            )
            for source in (b"auto", b"de")
        ),
        pytest.param(
            b"de", "a.html", '<p lang="fr">Le chien.</p>', '<p lang="fr">Le chien.</p>', 1, id="nothing to translate"
        ),
    ],
)  # fmt: skip
def test_text_of_document_in_another_language_stays(
    client: Client, source: bytes, name: str, content: str, expected: str, n_notes: int
) -> None:
    answer = upload(client, source, b"en", f'name="file"; filename="{name}"', content.encode()).json
    found = client.ask(answer["translatedFileUrl"].removeprefix(f"http://127.0.0.1:{client.port}"))
    assert (found.body.decode(), len(answer["notes"])) == (expected, n_notes)
    if name == "a.html":
        answer = translate(client, q=content, source=source.decode(), format="html").json
        assert answer["translatedText"] == expected


@pytest.mark.parametrize("text", [SPANISH, SORANI, "これは新しい本です。"])
def test_text_in_no_language_of_the_server_is_rejected(client: Client, text: str) -> None:
    for answer in (
        translate(client, q=text, source="auto"),
        translate(client, q=[GERMAN, text], source="auto"),
        translate(client, q=f"<p>{text}</p>", source="auto", format="html"),
        own(client, text=text, source="auto"),
    ):
        assert answer.status == 400 and "set source" in answer.json["error"]
    assert translate(client, q=text).json["translatedText"] == f"de>en: {text}"
    assert all(found["confidence"] < 0.5 for found in client.ask("/detect", {"q": text}).json)


@pytest.mark.parametrize("text", ["12345", "😀", "१२३", "...", "", "<br>"])
def test_text_without_letters_is_in_any_language(client: Client, text: str) -> None:
    assert translate(client, q=text or [""], source="auto", format="html").status == 200
    assert translate(client, q=[text, GERMAN], source="auto").json["detectedLanguage"][0]["language"] == "de"


def test_language_is_detected_by_script() -> None:
    directions = [MadeUp("ckb", "en"), MadeUp("dv", "en"), MadeUp("deu_Latn", "en"), MadeUp("zho_Hans", "en")]
    with serving(Service(Models(directions), LIMITS)) as client:  # py3langid knows neither ckb nor dv
        for text, language in (
            (SORANI, "ckb"), ("سوپاس", "ckb"), ("ދިވެހި ބަސް", "dv"), (GERMAN, "deu_Latn"),
            ("我们今天去公园散步。", "zho_Hans"),
        ):  # fmt: skip
            tagged = f'<p class="introduction">{text}</p>'
            answer = translate(client, q=tagged, source="auto", format="html").json
            assert (
                answer["detectedLanguage"]["language"] == language and f"{language}&gt;en" in answer["translatedText"]
            )
            assert client.ask("/detect", {"q": text}).json[0]["language"] == language
        assert client.ask("/detect", {"q": "ދިވެހި ބަސް"}).json[0]["confidence"] == 100
        languages = ["deu_Latn", "zho_Hans", "deu_Latn", "deu_Latn"]
        assert detected(client, [GERMAN, "<b>你好</b>", "Name", GERMAN]) == languages
        assert translate(client, q=PERSIAN, source="auto").status == 400
        assert translate(client, q=SORANI, source="ckb_Arab").json["translatedText"] == f"ckb>en: {SORANI}"


def test_short_text_is_in_a_language_that_can_be_translated() -> None:
    with serving(Service(Models([MadeUp("en", "de"), MadeUp("en", "fr")]), LIMITS)) as client:
        for text in "42", "OK", "Hi", "No", "Menu", "Password", "Order now", "😀":
            answer = translate(client, q=["", text], source="auto", target="fr").json
            assert answer["translatedText"] == ["", f"en>fr: {text}"]
            assert translate(client, q=text, source="auto", target="de").status == 200
        for text in "42", "OK", "Hi":  # German is as probable
            assert translate(client, q=text, source="auto", target="de").json["translatedText"] == f"en>de: {text}"
        assert translate(client, q=FRENCH, source="auto", target="fr").json["translatedText"] == FRENCH


@pytest.mark.usefixtures("no_child")
def test_long_text_in_a_language_without_a_route_is_rejected() -> None:
    with serving(Service(Models([MadeUp("en", "de"), MadeUp("en", "fr"), MadeUp("zh", "fr")]), LIMITS)) as client:
        for text in FRENCH, "你好", "我们今天去公园散步。" * 5:
            for answer in (
                translate(client, q=[ENGLISH, text], source="auto", target="de"),
                own(client, text=text, source="auto", target="de"),
            ):
                assert answer.status == 400 and "into de" in answer.json["error"]
        assert upload(client, b"auto", b"de", 'name="file"; filename="a.txt"', FRENCH.encode()).status == 400


def test_text_of_several_scripts_is_not_rejected() -> None:
    with serving(Service(Models([MadeUp("de", "en"), MadeUp("zh", "en")]), LIMITS)) as client:
        found = translate(client, q=["Hello", "你好"], source="auto").json
        assert found["translatedText"] == ["Hello", "zh>en: 你好"]
        assert translate(client, q="Hello 你好", source="auto").json["translatedText"] == "zh>en: Hello 你好"
        assert client.ask("/detect", {"q": "Hello 你好"}).json[0]["language"] == "zh"
    with serving(Service(Models([MadeUp("de", "en"), MadeUp("dv", "en")]), LIMITS)) as client:
        for text in "Hello 你好", "Hello world, this is 你好世界 我们今天去公园散步 and more":
            assert translate(client, q=text, source="auto").status == 200
        answer = translate(client, q="ދިވެހި ބަސް ދިވެހި ބަސް Facebook", source="auto").json
        assert answer["detectedLanguage"] == {"language": "dv", "confidence": 100}


def test_languages_have_targets_by_way_of_a_pivot(client: Client) -> None:
    german, _, french = client.ask("/languages").json
    assert german == {"code": "de", "name": "German", "targets": ["en", "fr"]} and french["targets"] == []


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({}, 400, "Invalid request: missing q parameter"),
        ({"q": "a", "source": ""}, 400, "Invalid request: missing source parameter"),
        ({"q": "a", "target": None}, 400, "Invalid request: missing target parameter"),
        ({"q": "a", "target": "zz"}, 400, "zz is not supported"),
        ({"q": "a", "source": "fr"}, 400, "English (en) is not available as a target language from French (fr)"),
        ({"q": "a", "source": "auto", "target": "xx-DE"}, 400, "xx-DE is not supported"),
        ({"q": "a", "format": "pdf"}, 400, "pdf format is not supported"),
        ({"q": "a", "alternatives": "many"}, 400, "Invalid request: alternatives parameter is not a number"),
        ({"q": "a", "alternatives": float("inf")}, 400, "Invalid request: alternatives parameter is not a number"),
        ({"q": "a", "alternatives": 2.5}, 400, "Invalid request: alternatives parameter is not a number"),
        ({"q": "a", "alternatives": 8}, 400, "Invalid request: alternatives parameter must be <= 4"),
        ({"q": "a" * 201}, 400, "Invalid request: request (201) exceeds text limit (200)"),
        ({"q": ["a"] * 6}, 400, "Invalid request: request (6) exceeds batch limit (5)"),
        ({"q": ["a", 1]}, 400, "Invalid request: q must be a string or a list of strings"),
        ({"q": "\ud800"}, 400, "Invalid request: the text contains a lone surrogate, which is not valid Unicode"),
        ({"q": "a" * 2001}, 413, "The request is too large: at most 2000 bytes"),
        ({"q": "ZeroDivisionError"}, 500, "Cannot translate text: internal error"),
    ],
)
def test_errors_match_libretranslate(client: Client, fields: dict[str, object], status: int, said: str) -> None:
    answer = translate(client, **fields)
    assert (answer.status, answer.json) == (status, {"error": said})


def test_frontend_settings_are_reported(client: Client) -> None:
    settings = client.ask("/frontend/settings").json
    assert settings["charLimit"] == 200 and settings["suggestions"] is settings["keyRequired"] is False
    assert ".txt" in settings["supportedFilesFormat"] and set(settings["language"]) == {"source", "target"}
    assert client.ask("/suggest", {"q": "a", "s": "b"}).status == 403


def test_translated_file_is_downloaded(client: Client) -> None:
    parts = [
        ('name="source"', b"de"),
        ('name="target"', b"en"),
        ('name="file"; filename="Brief ä.txt"', b"eins\nzwei\n"),
    ]
    answer = client.ask("/translate_file", raw=multipart(*parts), content_type=FORM)
    path = answer.json["translatedFileUrl"].removeprefix(f"http://127.0.0.1:{client.port}")
    found = client.ask(path)
    assert found.body == b"de>en: eins\nde>en: zwei\n" and path.endswith(".txt")
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''Brief%20%C3%A4.en.txt"
    terms = ('name="terms"', b'{"zwei": "two"}')
    answer = client.ask("/translate_file", raw=multipart(*parts, terms), content_type=FORM)
    assert client.ask(answer.json["translatedFileUrl"][-len(path) :]).body == b"de>en: eins\nde>en: two\n"
    assert client.ask(path[:-8]).status == client.ask("/download_file/..%2f..%2fetc").status == 404


@pytest.mark.usefixtures("no_child")
@pytest.mark.parametrize(
    ("file", "content", "status", "said"),
    [
        ('name="file"; filename="a.pdf"', b"x", 400, "not supported; supported are "),
        ('name="file"; filename="a.txt"', b"x" * 3001, 413, "too large"),
        ('name="file"', b"x", 400, "missing file"),
        ('name="file"; filename="a.txt"', b"\n" * 1001, 400, "more than 1000 lines"),
        ('name="file"; filename="a.txt"', b"1\t" * 1001, 400, "more than 1000 lines"),
        ('name="file"; filename="a.txt"', b"x" * 201, 400, "(201) exceeds text limit (200)"),
        ('name="file"; filename="a.txt"', b"\xff\xfe\xff", 400, "a.txt"),
        (
            'name="file"; filename="a.txt"\r\n\r\nx\r\n--XX\r\nContent-Disposition: form-data; name="terms"',
            b'{"x": 1}',
            400,
            "terms must be a JSON object",
        ),
    ],
)
def test_invalid_file_is_rejected(
    client: Client, file: str, content: bytes, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.serve.documents.FILE_LINES", 1000)
    answer = upload(client, b"de", b"en", file, content)
    assert answer.status == status and said in answer.json["error"]


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (FORM, multipart(('name="q"', b"x"))[:-8]),  # truncated
        (FORM, multipart(("nothing", b"x"))),
        (FORM, multipart(*[('name="q"', b"x")] * 40)),
        (FORM, multipart(('name="' + ";" * 30_000, b"x"))),
        (FORM, multipart(('name="q"', b"x" * 70_000))),
        (FORM, multipart(*[('name="file"; filename="a.txt"', b"x")] * 2)),
        ("multipart/form-data", b""),
        ("multipart/form-data; boundary=", b"--\r\n"),
    ],
)
def test_damaged_form_is_rejected(content_type: str, body: bytes) -> None:
    with serving(Service(Models([MadeUp("de", "en")]))) as client:
        answer = client.ask("/translate", raw=body, content_type=content_type)
        assert answer.status == 400 and answer.json["error"]


ENCODED = "application/x-www-form-urlencoded"


CHARSETS = ["punycode", '"UTF-7"', "unicode_escape", "utf-16", "undefined", "x-unknown", "x, utf-8"]


@pytest.mark.parametrize(
    ("kind", "charset"),
    [
        *((kind, charset) for kind in (FORM, ENCODED, "application/json") for charset in CHARSETS),
        *((FORM, charset) for charset in ("", "'utf-8'", "UTF-8, application/json")),  # which starlette does not know
    ],
)
def test_other_charsets_return_415_before_the_codec_is_looked_up(
    client: Client, kind: str, charset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codecs.lookup", None)
    answer = client.ask("/translate", raw=multipart(('name="q"', b"x")), content_type=f"{kind}; charset={charset}")
    assert answer.status == 415 and "UTF-8" in answer.json["error"]


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", '"utf-8"', "US-ASCII"])
def test_names_of_utf8_are_accepted(client: Client, charset: str) -> None:
    fields = {"q": "Hallo", "source": "de", "target": "en"}
    parts = [(f'name="{name}"', value.encode()) for name, value in fields.items()]
    bodies = {FORM: multipart(*parts), ENCODED: urlencode(fields).encode(), "application/json": json.dumps(fields)}
    for kind, body in bodies.items():
        answer = client.ask("/translate", raw=body, content_type=f"{kind}; charset={charset}")
        assert answer.json == {"translatedText": "de>en: Hallo"}


@pytest.mark.parametrize("charset", ["", "'utf-8'", "utf_8", '" UTF-8"', "UTF-8, application/json"])
@pytest.mark.parametrize("path", ["/translate", "/v1/translate"])
def test_inexact_names_of_utf8_are_accepted_in_json(client: Client, path: str, charset: str) -> None:
    fields = {"q" if path == "/translate" else "text": "ä", "source": "de", "target": "en"}
    assert client.ask(path, fields, content_type=f"application/json; charset={charset}").status == 200


@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/detect", "/translate_file"])
def test_long_content_type_is_rejected_before_it_is_parsed(
    client: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.serve.bodies.parse_options_header", None)
    answer = client.ask(path, {"q": "x"}, content_type=f'application/json; a="{";" * 500}"')
    assert answer.status == 415 and "Content-Type" in answer.json["error"]


@pytest.mark.parametrize("q", [[[]] * 6, [{}] * 6, [1] * 6])
@pytest.mark.parametrize("path", ["/translate", "/detect"])
def test_number_of_texts_is_checked_before_their_types(client: Client, path: str, q: list[object]) -> None:
    answer = client.ask(path, {"q": q, "source": "de", "target": "en"})
    assert (answer.status, answer.json["error"]) == (400, "Invalid request: request (6) exceeds batch limit (5)")


# --- nmt's own interface ----------------------------------------------------------------------------------


def own(client: Client, **fields: object) -> Answer:
    return client.ask("/v1/translate", {"source": "de", "target": "en", **fields})


def test_v1_translate_returns_all_fields(client: Client) -> None:
    answer = own(client, text="Hallo Welt", n_best=2, alignment=True, terms={"Welt": "world"}, prefix="* ").json
    assert answer == {
        "source": "de",
        "target": "en",
        "detected": None,
        "translations": [
            {
                "detected": None,
                "text": "* de>en: Hallo world",
                "lost": [],
                "score": -1.0,
                "log_prob": -2.0,
                "confidence": None,
                "tm": None,
                "alternatives": [{"text": "* de>en#2: Hallo world", "score": -2.0}],
                "alignment": [{"source": [0, 5], "target": [9, 14]}, {"source": [6, 10], "target": [15, 20]}],
            }
        ],
    }


def test_confidence_of_text_is_the_mean_of_its_lines_and_low_if_one_is(client: Client) -> None:
    short, long = "de", "de de de de de de de de"
    answer = own(client, text=[short, f"{short}\n{long}"], confidence=True).json["translations"]
    first, second = (each["confidence"] for each in answer)
    assert first == {"chrf": 98.0, "is_low": False}
    assert 100 - len(long) < second["chrf"] < 98 and second["is_low"]
    chained = own(client, text=short, source="de", target="fr", confidence=True).json["translations"]
    assert [each["confidence"] for each in chained] == [None]


def test_alignment_offsets_count_code_points(client: Client) -> None:
    text = "\U0001f600 ä\r\nb"
    [found] = own(client, text=text, alignment=True).json["translations"]
    words = [(text[slice(*pair["source"])], found["text"][slice(*pair["target"])]) for pair in found["alignment"]]
    assert words == [("\U0001f600", "\U0001f600"), ("ä", "ä"), ("b", "b")] and found["log_prob"] == -4.0


@pytest.mark.parametrize("source", ["de", "auto"])
def test_v1_translates_empty_text_and_list(client: Client, source: str) -> None:
    answer = own(client, text="", source=source).json
    assert [found["text"] for found in answer["translations"]] == [""] and answer["source"] == "de"
    answer = own(client, text=[], source=source).json
    assert (answer["translations"], answer["source"], answer["detected"]) == ([], source, None)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "text: must be given"),
        ({"text": 1}, "text: must be text or a list"),
        ({"text": "a", "secret": 1}, "request: must have only documented fields"),
        ({"text": "a", "n_best": 0}, "n_best: "),
        ({"text": "a", "n_best": 9}, "n_best: must be at most the beam, 5"),
        ({"text": "a", "n_best": True}, "n_best: "),
        ({"text": "a", "prefix": "b\nc"}, "prefix: must be one line"),
        ({"text": "a", "terms": {"": "x"}}, "neither may be blank"),
        ({"text": "a", "terms": {"a": "x"}, "target": "fr"}, "terms: not supported for translations through en"),
        ({"text": "a", "terms": {"a": "x"}, "source": "en", "target": "fr"}, "terms: not supported from en to fr"),
        ({"text": "a", "terms": {"a": "x" * 200}}, "exceeds text limit"),
        ({"text": "a " * 11, "terms": {"a": "x"}}, "occur too often; the maximum is 10 times in a line"),
        ({"text": "a", "terms": {str(i): "x" for i in range(6)}}, "exceeds batch limit"),
        (
            {"text": "a", "search": {"lm": "/etc"}},
            "search.lm: cannot be changed on this server; allowed settings: beam",
        ),
        ({"text": "a", "search": {"beam": 9}}, "search.beam: must be at most 8"),
        ({"text": "a", "search": {"beam": "9"}}, "search.beam: must be at most 8"),
        ({"text": "a", "search": {"protect": ["(a+)+b"]}}, "search.protect: must be true, false or placeholders"),
        ({"text": "a", "search": {"beam": 0}}, "search.beam"),
        ({"text": "a", "search": {"beam": 2}, "n_best": 3}, "n_best: must be at most the beam, 2"),
    ],
)
def test_v1_errors_do_not_quote_text(client: Client, fields: dict[str, object], said: str) -> None:
    answer = own(client, **fields)
    assert answer.status == 400 and said in answer.json["error"] and "secret" not in answer.json["error"], answer.body


@pytest.mark.parametrize(
    "fields",
    [
        {"text": [1] * 6},
        {"text": "a", "terms": dict.fromkeys("abcdef", 1)},
        {"text": "a", "tags": [1] * 6},
        {"text": "a", "search": dict.fromkeys("abcdef", 1)},
        {"text": "a", **dict.fromkeys("abcdefghijkl", 1)},
    ],
)
def test_v1_counts_are_checked_before_validation(
    client: Client, fields: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TranslateRequest, "model_validate", None)
    assert own(client, **fields).status == 400


def test_v1_validates_many_items_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    in_loop: list[bool] = []

    def validate(*_: object) -> TranslateRequest:
        in_loop.append(runs_in_event_loop())
        raise Refusal(400, "validated")

    monkeypatch.setattr(TranslateRequest, "model_validate", validate)
    with serving(Service(Models([MadeUp("de", "en")]), Limits(items=3000))) as client:
        assert own(client, text=[1] * 2000).json == own(client, text=[1]).json == {"error": "validated"}
    assert in_loop == [False, True]


def test_html_and_short_texts_with_a_long_prefix_are_worked_on_outside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_loop: dict[str, bool] = {}

    def watched(work: Callable[..., object]) -> Callable[..., object]:
        def watching(*args: object, **named: object) -> object:
            in_loop[work.__name__] = runs_in_event_loop()
            return work(*args, **named)

        return watching

    with serving(Service(Models([MadeUp("de", "en")]))) as client:
        for place, name in [
            (service_module, "lines_of"), (Service, "_look_up"), (MadeUp, "costs"), (Service, "_keep"),
            (service_module, "joined"), (handlers, "_answer_v1"),
            (HtmlFragment, "__init__"), (HtmlFragment, "translated_text"),
        ]:  # fmt: skip
            monkeypatch.setattr(place, name, watched(getattr(place, name)))
        assert own(client, text=[chr(ord("a") + n) for n in range(20)], prefix="x" * 60).status == 200
        assert len(in_loop) == 6 and not any(in_loop.values())
        translate(client, q="a<b></b>" * 200, format="html", alternatives=1)  # more tags than text
    assert not in_loop["__init__"] and not in_loop["translated_text"]


@pytest.mark.parametrize(
    "fields", [{"source": "x" * 1500}, {"target": "x" * 1500}, {"search": {"x" * 1500: 1}}, {"tags": ["x" * 1500]}]
)
def test_errors_do_not_echo_long_values(client: Client, fields: dict[str, object]) -> None:
    answer = own(client, text="a", **fields)
    assert answer.status == 400 and len(answer.body) < 600


def test_non_json_body_returns_415(client: Client) -> None:
    assert (
        client.ask("/v1/translate", form={"text": "a"}).status == 415
    )  # browsers send forms from other sites without CORS checks


def test_info_endpoint_reports_limits_and_features(client: Client) -> None:
    info = client.ask("/v1/info").json
    assert {"source": "de", "target": "fr", "via": ["en"]} in info["directions"]
    assert {"source": "en", "target": "fr", "via": []} in info["directions"]
    assert info["limits"] == {"characters": 200, "items": 5, "bytes": 2000, "file_bytes": 3000, "n_best": 5}
    assert info["features"] == {
        "alignment": False, "confidence": True, "terms": False, "tm": False, "alternatives": 4,
        "search": ["beam", "length_penalty", "protect"],
    }  # fmt: skip
    assert info["key_required"] is False and {"code": "fr", "name": "French"} in info["languages"]


# --- other endpoints ----------------------------------------------------------------------------------


def test_cached_lines_are_not_translated_again(client: Client, directions: list[MadeUp]) -> None:
    n = len(directions[0].batches)
    for _ in range(2):
        assert translate(client, q="once\nonce\ntwice").status == 200
    assert directions[0].batches[n:] == [["once", "twice"]]


def test_openapi_and_docs_describe_all_paths(client: Client) -> None:
    described = client.ask("/spec").json
    assert described["openapi"].startswith("3.1")
    defined = {f"#/components/{kind}/{name}" for kind, all_ in described["components"].items() for name in all_}
    assert {*re.findall(r"'(#/components/[^']+)'", str(described))} <= defined
    routes = re.findall(r'Route\("([^"]+)"', Path(app.__file__).read_text(encoding="utf-8"))
    assert {*routes} - {"/", "/spec", "/docs", "/docs.css"} == described["paths"].keys()
    page = client.ask("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path, item in described["paths"].items():
        [method] = item
        assert path in page.body.decode()
        asked = client.ask(path.replace("{number}", "x"), method=method.upper())
        assert asked.status not in (405, 500), path
    assert "http" not in page.body.decode(), "the page loads nothing from other sites"
    assert client.ask("/docs.css").headers["content-type"].startswith("text/css")


def test_all_responses_have_security_headers(client: Client) -> None:
    for path in ("/", "/docs", "/nothing", "/languages", "/translate"):
        headers = client.ask(path).headers
        assert {"default-src 'self'", "frame-ancestors 'none'"} <= {*headers["content-security-policy"].split("; ")}
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
    assert client.ask("/page/../app.py").status == client.ask("/__init__.py").status == 404


def test_cors_allows_only_configured_origins(client: Client) -> None:
    named = client.ask("/languages", origin="https://example.org").headers
    assert named["access-control-allow-origin"] == "https://example.org"
    assert "access-control-allow-credentials" not in named
    assert "access-control-allow-origin" not in client.ask("/languages", origin="https://evil.example").headers
    asked = client.ask(
        "/translate", method="OPTIONS", origin="https://evil.example", access_control_request_method="POST"
    )
    assert asked.status == 400


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://example.org", 200),  # allowed by --origin
        ("http://127.0.0.1:3000", 200),  # the same host
        ("moz-extension://5e1f", 200),
        ("https://evil.example", 403),
        ("http://[", 403),
        ("null", 403),
    ],
)
def test_post_with_foreign_origin_is_rejected(origin: str, status: int, client: Client) -> None:
    fields = {"q": "a", "source": "de", "target": "en"}
    assert client.ask("/translate", fields, origin=origin).status == status
    assert client.ask("/languages", origin=origin).status == 200


def test_foreign_host_is_rejected() -> None:
    service, hosts = Service(Models([MadeUp("de", "en")])), ["localhost", "127.0.0.1", "::1"]
    with serving(service, origins=["https://mt.example.org"], hosts=hosts) as client:
        for host in ("localhost", "LOCALHOST:80", "127.0.0.1:5000", "[::1]:5000", "mt.example.org"):
            assert client.ask("/health", host=host).status == 200
        for host in ("evil.example", "evil.example:5000", "localhost.evil.example", "[", ""):
            assert client.ask("/health", host=host).status == 421


def test_metrics_contain_no_texts_or_clients(client: Client) -> None:
    translate(client, q="Geheimnis")
    client.ask("/Geheimnis/path")
    text = client.ask("/metrics").body.decode()
    assert 'nmt_requests_total{endpoint="other",status="404"}' in text
    assert re.search(r'nmt_characters_total\{direction="de-en"\} \d+', text)
    assert "Geheimnis" not in text and "127.0.0.1" not in text


# --- faults -------------------------------------------------------------------------------------


@pytest.fixture
def gate(directions: list[MadeUp]) -> Iterator[threading.Event]:
    directions[0].gate.clear()
    yield directions[0].gate
    directions[0].gate.set()


def request(body: str) -> bytes:
    head = (
        f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return (head + body).encode()


def test_disconnected_client_is_skipped(client: Client, directions: list[MadeUp], gate: threading.Event) -> None:
    first, second = client.connect(), client.connect()
    first.sendall(request('{"q": "wait", "source": "de", "target": "en"}'))
    until(lambda: directions[0].batches[-1] == ["wait"])
    second.sendall(request('{"q": "nobody reads this", "source": "de", "target": "en"}'))
    until(lambda: "nmt_queue_requests 2" in client.ask("/metrics").body.decode())
    second.close()
    until(lambda: 'endpoint="/translate",status="499"' in client.ask("/metrics").body.decode())
    gate.set()
    assert b"200 OK" in first.recv(1000)
    first.close()
    assert translate(client, q="next").status == 200
    assert ["nobody reads this"] not in directions[0].batches


def test_slow_body_times_out(client: Client) -> None:
    with client.connect() as slow:
        slow.sendall(request("x" * 100)[:-50])
        assert b" 408 " in slow.recv(1000)
        while answer := slow.recv(1000):  # the rest of the answer, and then the end of the connection
            assert b"error" in answer


def test_chunked_body_is_limited(client: Client) -> None:
    with client.connect() as connection:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(3):
            connection.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert b" 413 " in connection.recv(1000)


def test_slow_headers_time_out(directions: list[MadeUp], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.2)
    with serving(Service(Models(directions))) as client, client.connect() as slow, client.connect() as silent:
        slow.sendall(b"POST /translate HTTP/1.1\r\nHo")
        for connection in (slow, silent):
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1000) == b""
        directions[0].gate.clear()
        threading.Timer(0.7, directions[0].gate.set).start()
        assert translate(client, q="wait").status == 200  # a response may take longer


def test_slow_translation_times_out(directions: list[MadeUp], gate: threading.Event) -> None:
    gate.set()
    with serving(Service(Models(directions), Limits(seconds=0.3))) as client:
        gate.clear()
        answer = translate(client, q="wait")
        assert answer.status == 504 and answer.json == {"error": "The translation took too long"}
        gate.set()
        assert translate(client, q="after").status == 200


def test_internal_error_returns_500(
    client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(handlers, "check_size", Mock(side_effect=KeyError("Geheimnis")))
    answer = translate(client, q="a")
    assert answer.status == 500 and answer.json == {"error": "Internal error"}
    said = capsys.readouterr().err
    assert "KeyError at " in said and "Geheimnis" not in said


def test_api_key_is_required_and_limits_rate(tmp_path: Path, directions: list[MadeUp]) -> None:
    key = new_key(tmp_path / "keys", "Anna")
    admission = Admission(Limits(), read_keys(tmp_path / "keys"), RateLimiter(8))
    with serving(Service(Models(directions)), admission) as client:
        assert translate(client, q="a").json == {"error": "Please contact the server operator to get an API key"}
        ways = [{"api_key": key}, {"x_api_key": key}, {"authorization": f"Bearer {key}"}]
        assert translate(client, q="a", **ways[0]).status == 200
        for headers in ways[1:]:
            asked = {"q": "a", "source": "de", "target": "en"}
            assert client.ask("/translate", asked, **headers).status == 200
        assert client.ask("/metrics").status == 400 and client.ask("/metrics", **ways[1]).status == 200
        assert client.ask("/languages").status == client.ask("/health").status == 200
        assert client.ask("/v1/info").json["key_required"] is True
        assert own(client, text="a", **ways[0]).status == 200
        for _ in range(20):
            answer = translate(client, q="a", **ways[0])
        assert answer.status == 429 and int(answer.headers["retry-after"]) >= 1
        guesses = {translate(client, q="a", api_key="guess").status for _ in range(12)}
        assert guesses == {403, 429} and client.ask("/translate", raw=b"{").status == 429  # the body is not read
        assert "security" in client.ask("/spec").json


def test_server_with_failing_model_is_not_ready(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = MadeUp("de", "en")
    monkeypatch.setattr(broken, "translate_window", lambda *_: 1 / 0)
    with serving(Service(Models([broken])), ready=False) as client:
        until(lambda: "not ready" in capsys.readouterr().err)
        assert client.ask("/ready").status == 503 and client.ask("/health").status == 200


def test_ctrl_c_ends_server_normally(directions: list[MadeUp]) -> None:
    stopping = make_server(make_app(Service(Models(directions))), grace=5)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with listen("127.0.0.1", 0) as [listening]:

        def interrupt() -> None:
            until(lambda: stopping.started)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        server.serve(stopping, [listening])  # no KeyboardInterrupt
    for number, handler in before.items():
        signal.signal(number, handler)


def test_listening_sockets_specify_tcp() -> None:
    with listen("127.0.0.1", 0) as [listening]:
        assert listening.proto == socket.IPPROTO_TCP  # otherwise asyncio does not set TCP_NODELAY


def test_disconnect_during_body_counts_as_499(client: Client) -> None:
    left = 'endpoint="/detect",status="499"'
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        head = "POST /detect HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
        connection.sendall(head.encode() + b'{"q":')
    until(lambda: left in client.ask("/metrics").body.decode())
    assert "ClientDisconnect" not in client.ask("/metrics").body.decode()
