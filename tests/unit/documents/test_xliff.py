"""Tests of XLIFF documents, in which only texts without a translation change."""

from __future__ import annotations

import re

import pytest
from lxml import etree

from documents import reversed_upper
from nmt.documents import Document, Translated, is_document, open_document
from nmt.documents.units import OTHER_PLACEHOLDERS, TOO_LONG
from nmt.errors import DataError
from nmt.prepare.formats.units import read_xliff
from reading import read_bytes
from samples_xliff import SAMPLES

STATE = 'state="needs-review-translation" state-qualifier="mt-suggestion"'


def version1(units: str, languages: str = 'source-language="de" target-language="en"') -> bytes:
    return f'<xliff version="1.2"><file original="a" {languages}><body>\n{units}\n</body></file></xliff>'.encode()


def version2(segments: str, languages: str = 'srcLang="de" trgLang="en"') -> bytes:
    return f'<xliff version="2.1" {languages}><file id="f"><unit id="u">{segments}</unit></file></xliff>'.encode()


def written(content: bytes, *translations: str, name: str = "a.xlf") -> str:
    document = open_document(name, content, "de", "en")
    return document.translated(translations or [text.upper() for text in document.texts], ("de", "en")).decode()


def opened(*arguments: str) -> Document:
    return open_document("a.xlf", version1(*arguments), "de", "en")


def test_texts_and_keys_are_those_without_translation() -> None:
    found = {}
    for name, content in SAMPLES.items():
        document = open_document(name, content, "de", "en")
        found[name] = list(zip(document.keys, document.texts, strict=True))
    assert found == {
        "a.xlf": [
            ("messages.ts/title", "Willkommen, !"), ("messages.ts/menu.open", "Datei &öffnen …jetzt"),
            ("messages.ts/2", "Es gibt %d Dateien"), ("messages.ts/6", "Doch wieder"),
            ("messages.ts/7", "Erste Zeile"), ("messages.ts/7", "Zweite Zeile"),
            ("messages.ts/8", "Ein kleiner Hund und bellt"), ("messages.ts/9/0", "Zwei Sätze."),
            ("messages.ts/9/1", "Der zweite."),
        ],
        "b.xliff": [
            ("handbuch.docx/u1", "Hallo Welt!"), ("handbuch.docx/u1#2", "Der zweite Satz."),
            ("handbuch.docx/u1#5", "Ein Name und"),
        ],
        "c.sdlxliff": [("Brief.docx/a-2/1", "Erster Satz."), ("Brief.docx/a-2/4", "Vierter.")],
        "d.mqxliff": [("brief.docx/1", "Drücken Sie Start."), ("brief.docx/5", "Das Ende")],
        "e.mxliff": [("seite.html/job:0", "Ein fettes Wort{2} hier"), ("seite.html/job:3", "Vielleicht")],
    }  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_machine_translations_are_no_training_data_and_stay(name: str) -> None:
    document = open_document(name, SAMPLES[name], "de", "en")
    before, _ = read_bytes(read_xliff, SAMPLES[name].replace(b"translate='yes'", b'target-language="en"'))
    content = document.translated([*map(reversed_upper, document.texts)], ("de", "en"))
    pairs, skipped = read_bytes(read_xliff, content)
    assert pairs == [pair for pair in before if not pair[1].startswith("?")]
    assert sum(skipped.values()) >= len(document.texts) - 2
    again = open_document(name, content, "de", "en")
    assert again.texts == [] and again.translated([], ("de", "en")) == content


@pytest.mark.parametrize("name", SAMPLES)
def test_codes_of_source_are_in_target(name: str) -> None:
    document = open_document(name, SAMPLES[name], "de", "en")
    content = document.translated([*map(reversed_upper, document.texts)], ("de", "en"))
    root = etree.fromstring(content)
    for target in root.iter("{*}target"):
        source = next(target.itersiblings("{*}seg-source", "{*}source", preceding=True), None)
        if source is not None and target.get("state-qualifier"):
            sides = ([code.tag for code in side.iter() if code.get("mtype") != "seg"][1:] for side in (source, target))
            codes, expected = map(sorted, sides)
            assert codes == expected


def test_missing_target_is_added_with_indentation_prefix_and_language() -> None:
    content = (
        '<x:xliff version="1.2"><x:file original="a" source-language="de" a="target-language=\'x\'">\r\n'
        '  <x:trans-unit id="1">\r\n    <x:source xml:lang="de">Eins</x:source>\r\n    <x:note>n</x:note>\r\n'
        "  </x:trans-unit></x:file></x:xliff>"
    ).encode("utf-16")
    document = open_document("a.xlf", content, "de", "pt_BR")
    text = document.translated(["Um < 2"], ("de", "pt_BR")).decode("utf-16")
    assert f"Eins</x:source>\r\n    <x:target {STATE}>Um &lt; 2</x:target>\r\n    <x:note>" in text
    assert """ a="target-language='x'" target-language="pt-BR">\r\n""" in text


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("<target/>", f"<target {STATE}>A</target>"), ("<target />", f"<target {STATE}>A</target>"),
        ("<target\n state='new'>b<x id='1'/></target>",
         "<target\n state='needs-review-translation' state-qualifier=\"mt-suggestion\">A</target>"),
        ("<target> </target>", f"<target {STATE}>A</target>"),
        ('<target state="translated"></target>', f"<target {STATE}>A</target>"),
        ('<target state="final"></target>', None), ('<target state="needs-adaptation">b</target>', None),
        ("<target>b</target>", None),
    ],
)  # fmt: skip
def test_target_is_filled_by_state(target: str, expected: str | None) -> None:
    content = version1(f'<trans-unit id="1"><source>a</source>{target}</trans-unit>')
    assert written(content) == content.decode().replace(target, expected or target)


def test_segment_of_version_2_is_filled_by_state() -> None:
    start = '<xliff version="2.1" srcLang="de" trgLang="en"><file id="f"><unit id="u">'
    cases = {
        "<segment><source>a</source></segment>": "<segment {}><source>a</source><target>A</target></segment>",
        "<segment><source>a</source><target>b</target></segment>": None,
        '<segment state="initial"><source>a</source><target>b</target></segment>':
            "<segment {}><source>a</source><target>A</target></segment>",
        '<segment state="reviewed"><source>a</source><target/></segment>': None,
        "<ignorable><source> . </source></ignorable>": None,
    }  # fmt: skip
    state = 'state="translated" subState="nmt:mt"'
    text = written(version2("".join(cases)))
    assert text.removeprefix(start) == "".join(
        (new or old).format(state) for old, new in cases.items()
    ) + "</unit></file></xliff>"  # fmt: skip
    assert 'state="initial" subState="nmt:needs-review"' in (
        text := written(version2("<segment><source>a {x}</source></segment>"), "b")
    )
    assert open_document("a.xlf", text.encode(), "de", "en").texts == []


def test_segments_keep_their_places_and_others_their_texts() -> None:
    source = '<seg-source>«<mrk mtype="seg" mid="1">Eins</mrk> <mrk mtype="seg" mid="2">Zwei</mrk>»</seg-source>'
    unit = f"<trans-unit id='1'><source>«Eins Zwei»</source>{source}TARGET</trans-unit>"
    done = '<target><mrk mtype="seg" mid="1">One</mrk> <mrk mtype="seg" mid="2"></mrk></target>'
    assert '"1">One</mrk> <mrk mtype="seg" mid="2">B</mrk>' in written(version1(unit.replace("TARGET", done)), "B")
    for target in ("", "<target/>"):
        text = written(version1(unit.replace("TARGET", target)), "B", "C")
        assert f'{STATE}>«<mrk mtype="seg" mid="1">B</mrk> <mrk mtype="seg" mid="2">C</mrk>»</target>' in text
    assert opened(unit.replace("TARGET", "<target>done</target>")).texts == []


def test_paired_codes_enclose_their_words() -> None:
    for codes in (
        ('<bpt id="1" rid="7">[b]</bpt>', '<ept id="2" rid="7">[/b]</ept>'), ('<bx id="1"/>', '<ex id="1"/>'),
        ('<g id="1">', "</g>"), ('<mrk mtype="term">', "</mrk>"),
    ):  # fmt: skip
        content = version1(f"<trans-unit id='1'><source>ein {'roter'.join(codes)} Hund</source></trans-unit>")
        document = open_document("a.xlf", content, "de", "en")
        text = document.translated(
            [Translated("a dog red", [((4, 9), (6, 9)), ((10, 14), (2, 5))])], ("de", "en")
        ).decode()
        assert f">a dog {'red'.join(codes)}</target>" in text
    text = written(version2("<segment><source>a <sc id='1'/>b<ec startRef='1'/> c</source></segment>"), "c b a")
    assert "<target>c <sc id='1'/>b<ec startRef='1'/> a</target>" in text


def test_line_breaks_count_if_they_are_preserved() -> None:
    unit = "<trans-unit id='1'{}><source>\n  Eins\n  zwei&#13;\n</source></trans-unit>"
    assert opened(unit.format("")).texts == ["Eins zwei"]
    content = version1(unit.format(" xml:space='preserve'"))
    assert open_document("a.xlf", content).texts == ["Eins", "zwei"]
    assert f"{STATE}>\n  EINS\n  ZWEI&#13;\n</target>" in written(content)


def test_limit_counts_characters_without_codes() -> None:
    unit = "<trans-unit id='1' maxwidth='{}' size-unit='{}'><source>ab<x id='1'/> %s</source></trans-unit>"
    for limit, size, translation, problems in (
        ("6", "char", "abc %s", {}), ("6", "char", "abcd %s", {TOO_LONG: ["a/1"]}), ("6", "pixel", "abcd %s", {}),
        ("9" * 5000, "char", "abcd", {OTHER_PLACEHOLDERS: ["a/1"]}),
    ):  # fmt: skip
        document = opened(unit.format(limit, size))
        document.translated([translation], ("de", "en"))
        assert document.problems == problems


def test_problem_of_phrase_is_a_lost_placeholder_not_its_tags() -> None:
    document = open_document("e.mxliff", SAMPLES["e.mxliff"], "de", "en")
    document.translated(["A bold word{2} here", "Perhaps"])
    assert document.problems == {}
    document.translated(["A bold word here", "Perhaps"])
    assert document.problems == {OTHER_PLACEHOLDERS: ["seite.html/job:0"]}


@pytest.mark.parametrize(
    ("languages", "source", "target", "is_refused"),
    [
        ('source-language="de-CH" target-language="en-GB"', "de", "en", False), ("", "de", "en", False),
        ('source-language="de"', "deu_Latn", "en_US", False),
        ('source-language="xx" target-language=""', "de", "en", False),
        ('source-language="de" target-language="fr"', "de", "en", True), ('source-language="en"', "de", "en", True),
        ('source-language="en" target-language="de"', "", "", False), ('srcLang="fr"', "de", "", True),
    ],
)  # fmt: skip
def test_other_languages_are_refused(languages: str, source: str, target: str, is_refused: bool) -> None:
    content = version1("<trans-unit id='1'><source>a</source></trans-unit>", languages)
    try:
        document = open_document("a.xlf", content, source, target)
    except DataError as error:
        assert is_refused and "a.xlf" in str(error) and re.findall('"(..)"', languages)[-1] in str(error)
    else:
        assert not is_refused
        text = document.translated(["b"], (source, target)).decode()
        assert ("target-language=" in text) == bool("source" in languages and (target or "target" in languages))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'<xliff version="3.0"><unit/></xliff>', "3.0"), (b"<html/>", "<html>"),
        (version1("<trans-unit><source>a</trans-unit>"), "line 2"),
        (b"<?xml version='1.0' encoding='utf-888'?><xliff/>", "utf-888"),
        (version1("<trans-unit><source>" + "<g>" * 50 + "a</source></trans-unit>"), "line 2"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(DataError, match=re.escape(why)):
        open_document("a.xlf", content)


def test_nested_and_equal_segments_are_written() -> None:
    mark = '<mrk mtype="seg" mid="1">a<mrk mtype="seg" mid="2">b</mrk></mrk>'
    for segments in (mark, mark + mark, '<mrk mtype="seg">a</mrk>'):
        unit = f"<trans-unit id='1'><source>a</source><seg-source>{segments}</seg-source>"
        target = re.sub("[ab]<", "<", segments)
        for content in (version1(f"{unit}</trans-unit>"), version1(f"{unit}<target>{target}</target></trans-unit>")):
            text = written(content)
            etree.fromstring(text)
            assert open_document("a.xlf", text.encode()).texts == [] or segments == mark + mark


@pytest.mark.parametrize("name", SAMPLES)
def test_xliff_is_document_by_name(name: str) -> None:
    assert is_document(name) and is_document(name.upper())
