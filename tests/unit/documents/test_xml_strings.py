"""Tests of software strings in XML: Android, .NET and Qt."""

from __future__ import annotations

import re

import pytest

from nmt.documents import Document, open_document
from nmt.documents.units import FORMS_FILLED, OTHER_PLACEHOLDERS
from nmt.errors import DataError
from samples_xml_strings import ANDROID, QT, RESX


def by_key(document: Document) -> list[tuple[str, str]]:
    return [*zip(document.keys, document.texts, strict=True)]


def written(name: str, content: bytes, *translations: str, languages: tuple[str, str] = ("de", "en")) -> str:
    document = open_document(name, content, *languages)
    return document.translated(translations or [text.upper() for text in document.texts], languages).decode()


def android(text: str) -> bytes:
    return f'<resources><string name="a">{text}</string></resources>'.encode()


def test_android_texts_are_those_that_users_see() -> None:
    assert by_key(open_document("strings.xml", ANDROID, "de")) == [
        ("open", "Datei öffnen"),
        ("apostrophe", 'Geht\'s los? »Ja«, sagt "Anna"'),
        ("quoted", "Mit Raum davor und 'Zeichen'"),
        ("lines", "Erste Zeile"),
        ("lines", "Zweite Zeile"),
        ("lines", "und Spalte"),
        ("count", "Noch %1$d Dateien von %2$s (100 %%)"),
        ("held", "Fassung ist neu"),
        ("link", "Siehe die Seite & mehr"),
        ("escaped", "Ein Wort & noch eins …"),
        ("at", "@zuhause und ?fragend"),
        ("price/tablet", "Preis am Tablet"),
        ("price/default", "Preis am Telefon"),
        ("wrapped", "Ein Text über zwei Zeilen"),
        ("days[0]", "Montag"),
        ("days[1]", "Dienstag"),
        ("songs", "Ein Lied gefunden"),
        ("songs", "%d Lieder gefunden"),
    ]


@pytest.mark.parametrize(
    ("text", "translation", "wanted"),
    [
        ("Los", 'it\'s "on" \\', r"it\'s \"on\" \\"),
        ("Los", "@home", r"\@home"),
        ("Los", "?what", r"\?what"),
        ("Los", "a < b & c", "a &lt; b &amp; c"),
        ("&quot; Los&quot;", "don't", r"&quot; don\'t&quot;"),
        ("<![CDATA[<b>Los</b> jetzt]]>", "Los it's now", r"<![CDATA[<b>Los</b> it\'s now]]>"),
        ('Fassung <x:g id="v">%s</x:g>', "version", 'version <x:g id="v">%s</x:g>'),
        ("<b>Los</b> jetzt", "Los now", "<b>Los</b> now"),
    ],
)
def test_android_translation_is_escaped(text: str, translation: str, wanted: str) -> None:
    content = android(text).replace(b"<resources>", b'<resources xmlns:x="urn:oasis:names:tc:xliff:document:1.2">')
    changed = written("a.xml", content, translation)
    found = re.search(r'<string name="a">(.*)</string>', changed)
    assert found is not None and found[1].replace('"', "&quot;" if "&quot;" in wanted else '"') == wanted
    assert open_document("a.xml", changed.encode()).texts


@pytest.mark.parametrize("attributes", ['translatable="false"', ""])
def test_android_text_that_is_not_translatable_is_left_alone(attributes: str) -> None:
    for content in (f'<resources {attributes}><string name="a">Los</string></resources>',
                    f'<resources><string name="a" {attributes}>Los</string></resources>'):  # fmt: skip
        assert open_document("a.xml", content.encode()).texts == ([] if attributes else ["Los"])


def test_android_plural_forms_of_target_are_added_after_last() -> None:
    document = open_document("strings.xml", ANDROID, "de", "pl")
    text = document.translated(document.texts, ("de", "pl")).decode()
    added = [f'        <item quantity="{form}">%d Lieder gefunden</item>\n' for form in ("other", "few", "many")]
    assert "".join(added) in text and document.problems[FORMS_FILLED] == ["songs"]
    assert len(open_document("strings.xml", text.encode()).texts) == len(document.texts) + 2


@pytest.mark.parametrize("name", ["colors.xml", "layout.xml"])
def test_other_xml_is_refused_or_has_no_texts(name: str) -> None:
    if name == "colors.xml":
        assert open_document(name, b'<resources><color name="a">#f00</color></resources>').texts == []
    else:
        with pytest.raises(DataError):
            open_document(name, b'<?xml version="1.0"?><LinearLayout android:text="Text"/>')


def test_resx_texts_are_those_that_users_see() -> None:
    assert by_key(open_document("a.resx", RESX, "de")) == [
        ("Greeting", "Guten Tag, {0}! Es ist {1:N2} Uhr & kalt."),
        ("Lines", "Erste Zeile"),
        ("Lines", "Zweite Zeile mit Fett"),
        ("button1.Text", "&Speichern"),
    ]


def test_resx_keeps_tags_line_breaks_and_all_but_values() -> None:
    text = written("a.resx", RESX, "Hello {0} & {1:N2}", "One", "Two with Fett <", "&Save")
    assert "<value>Hello {0} &amp; {1:N2}</value>" in text
    assert "<value>One\nTwo with &lt;b&gt;Fett&lt;/b&gt; &lt;</value>" in text
    assert "<value>&amp;Save</value>" in text and "<value>75, 23 Punkte</value>" in text


def test_resx_lost_placeholder_is_told_by_key() -> None:
    document = open_document("a.resx", RESX, "de")
    document.translated(["Hello {0}", *document.texts[1:]])
    assert document.problems == {OTHER_PLACEHOLDERS: ["Greeting"]}


def test_qt_messages_without_translation_are_filled() -> None:
    document = open_document("app.ts", QT, "de", "en")
    assert by_key(document) == [
        ("Hauptfenster: &Datei öffnen … (Menü)", "&Datei öffnen …"),
        ("Hauptfenster: Seite %1 von %L2 ist <b>leer</b>.\nNoch eine Zeile", "Seite %1 von %L2 ist leer."),
        ("Hauptfenster: Seite %1 von %L2 ist <b>leer</b>.\nNoch eine Zeile", "Noch eine Zeile"),
        ("Hauptfenster: %n Datei(en) gelöscht", "%n Datei(en) gelöscht"),
        ("Hauptfenster: %n Bild(er)", "%n Bild(er)"),
        ('Hauptfenster: Ton <byte value="x7"/> an'.replace('<byte value="x7"/>', ""), "Ton an"),
    ]
    text = written("app.ts", QT)
    assert '<TS version="2.1" sourcelanguage="de" language="en">' in text
    assert text.count("<numerusform>%N DATEI(EN) GELÖSCHT</numerusform>") == 2
    assert text.count("<numerusform>%N BILD(ER)</numerusform>") == 2
    assert '<translation type="unfinished">TON <byte value="x7"/> AN</translation>' in text
    assert '<translation type="vanished"></translation>' in text and ">Checked<" in text
    assert open_document("app.ts", text.encode(), "de", "en").texts == []


@pytest.mark.parametrize(("target", "n_forms"), [("pl", 3), ("fr", 2), ("ja", 1), ("ar", 6), ("xx", 1)])
def test_qt_message_without_forms_gets_those_of_target(target: str, n_forms: int) -> None:
    text = written("app.ts", QT, languages=("de", target))
    assert text.count("BILD(ER)</numerusform>") == n_forms and text.count("GELÖSCHT</numerusform>") == 2


@pytest.mark.parametrize("languages", [("en", "fr"), ("de", "fr")])
def test_qt_file_of_other_languages_raises(languages: tuple[str, str]) -> None:
    content = QT.replace(b"<TS ", b'<TS language="es" ')
    with pytest.raises(DataError, match="de into es"):
        open_document("app.ts", content, *languages)
    assert open_document("app.ts", content, "de", "es_MX").texts


def test_lines_of_tsonga_are_no_file_of_qt() -> None:
    with pytest.raises(DataError):
        open_document("news.ts", b"Ndzi lava swona.\n")
