"""Tests of XML that keeps its bytes."""

from __future__ import annotations

import codecs

import pytest

from nmt.documents.inline import Mark, Text
from nmt.documents.units import message_tokens
from nmt.documents.xml import Element, XmlFile, xml_spelled, xml_tokens
from nmt.errors import DataError

CONTENT = """<?xml version="1.0" encoding="ENCODING"?>
<!DOCTYPE texts>
<s:texts a='x>y' s:a="z"><!-- all --><unit b="&quot;ü"><text>Größe &amp; <b>fett <i/></b>
<![CDATA[x <u>y</u>]]> &lt;b&gt;z&lt;/b&gt;<!-- <k> --><?p x?></text></unit><unit/>\r
<group keep="no"><unit><unit/></unit></group></s:texts>
"""
WANTED = frozenset({"unit"})


def read(content: bytes) -> list[Element]:
    return [*XmlFile("a.xml", content).elements("texts", WANTED)]


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [("utf-8", b""), ("UTF-8", codecs.BOM_UTF8), ("utf-16-le", codecs.BOM_UTF16_LE), ("iso-8859-1", b""),
     ("windows-1252", b"")],
)  # fmt: skip
def test_content_without_edits_is_spelled_as_in_file(encoding: str, mark: bytes) -> None:
    content = mark + CONTENT.replace("ENCODING", encoding).encode(encoding)
    file = XmlFile("a.xml", content)
    first, empty, outer = file.elements("texts", WANTED)
    assert file.written([]) == content
    assert [element.name for element in outer.around()] == ["unit", "group", "texts"]
    assert (outer.inherited("keep"), empty.inherited("keep", "?"), outer.inherited("a")) == ("no", "?", "x>y")
    assert first.attributes == {"b": '"ü'} and empty.items == [] and file.raw(empty.start, empty.end) == "<unit/>"
    text = first.child("text")
    assert text is not None and text.text == "Größe & fett \nx <u>y</u> <b>z</b>" and outer.child("text") is None
    tokens = [*xml_tokens(file, text, lambda part: message_tokens(part, [""]))]
    assert xml_spelled(tokens) == file.raw(text.inside, text.inside_end).replace("\r\n", "\n")


def test_changed_texts_are_escaped_outside_cdata() -> None:
    file = XmlFile("a.xml", b"<texts><unit>a <b>b</b><![CDATA[c <u>d</u>]]><x>opaque <y/></x></unit></texts>")
    [unit] = file.elements("texts", WANTED)
    tokens = xml_tokens(file, unit, lambda part: message_tokens(part, [""]), lambda element: element.name == "x")
    changed = [Text("<&]]>") if isinstance(token, Text) else token for token in tokens]
    spelled = xml_spelled(changed)
    assert spelled == ("&lt;&amp;]]&gt;<b>&lt;&amp;]]&gt;</b><![CDATA[<&]] ><u><&]] ></u>]]><x>opaque <y/></x>")
    assert [token.kind for token in changed if isinstance(token, Mark)][-1] == "point"


def test_edits_are_written_in_encoding_of_file() -> None:
    content = CONTENT.replace("ENCODING", "iso-8859-1").encode("iso-8859-1")
    file = XmlFile("a.xml", content)
    first, empty, _ = file.elements("texts", WANTED)
    root = [*first.around()][-1]
    edits = [
        file.with_attribute(empty, "state", 'a"b<'), file.with_attribute(first, "b", "ç"),
        file.with_attribute(root, "a", "Δ'"), (first.inside, first.inside_end, "東ü"),
    ]  # fmt: skip
    written = file.written(edits)
    assert b"<s:texts a='&#916;&apos;' s:a=\"z\">" in written
    assert '<unit b="ç">&#26481;ü</unit><unit state="a&quot;b&lt;"/>\r\n'.encode("iso-8859-1") in written
    assert [unit.attributes for unit in read(written)][:2] == [{"b": "ç"}, {"state": 'a"b<'}]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("<!DOCTYPE x [<!ENTITY e 'y'>]><texts>&e;</texts>", "'e'"),
        ("<!DOCTYPE x SYSTEM 'file:///x.dtd'><texts>&e;</texts>", "'e'"),
        ("<!DOCTYPE x [<!ENTITY % e SYSTEM 'x'> %e;]><texts/>", "'e'"),
        ("<texts>&e;</texts>", "line 1"),
        ("<texts>\n<a></texts>", "line 2"),
        ("", "complete"),
        ("<html/>", "<html>"),
        ("<texts>" + "<a>" * 300, "200"),
        ("<texts><unit>" + "<a/>" * 60_000, "50,000"),
        ('<?xml version="1.0" encoding="cp037"?><texts/>', "cp037"),
        ('<?xml version="1.0" encoding="utf-16"?><texts/>', "utf-16"),
        ("<texts>\udcff</texts>", "line 1"),
    ],
)
def test_xml_that_is_damaged_or_not_safe_raises(content: str, why: str) -> None:
    with pytest.raises(DataError) as caught:
        read(content.encode("utf-8", "surrogateescape"))
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_many_entities_take_linear_time() -> None:
    [unit] = read(b"<texts><unit>" + b"&amp;" * 500_000 + b"</unit></texts>")
    assert unit.text == "&" * 500_000
