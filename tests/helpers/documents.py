"""Documents made by code, and translators of which the alignment is known."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping

from nmt.documents import Document, Translated

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_ODF = "urn:oasis:names:tc:opendocument:xmlns:"
SRT = """1
00:00:01,000 --> 00:00:02,500 X1:40
<i>Two lines of
one cue</i>

2
00:00:03,000 --> 00:00:04,000
- Who is <b>it</b>?
- {\\an8}Me.

3
00:00:05,000 --> 00:00:06,000

4
00:00:07,000 --> 00:00:08,000
1999
♪

after a gap
"""
VTT = """WEBVTT - a title

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Ann>Salt &amp; pepper

NOTE not shown
to anyone

00:03.000 --> 00:04.000
bye
"""
PO = """# a comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=n%10==1 ? 0 : 1;\\n"

#. extracted
#: file.c:1
#, c-format
msgctxt "menu"
msgid "Open \\"%s\\"\\n"
"and <b>close</b>\\n"
msgstr ""

msgid "done"
msgstr "fertig"

#, fuzzy, c-format
#| msgid "one old file"
msgid "one file"
msgid_plural "many files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

#, fuzzy
msgid "wrong"
msgstr "x"

#~ msgid "gone"
#~ msgstr ""
"""


def reversed_upper(text: str) -> Translated:
    """Translate to capitals with the words in reverse, aligned word by word."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    written, aligned = "", []
    for start, end in reversed(words):
        written += " " if written else ""
        aligned.append(((start, end), (len(written), len(written) + end - start)))
        written += "".join(c.upper() if len(c.upper()) == 1 else c for c in text[start:end])
    return Translated(written, aligned)


def same(document: Document) -> bytes:
    return document.translated([Translated(text) for text in document.texts])


def zipped(members: Mapping[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def bare_docx(body: str, **other: str) -> bytes:
    """Return a Word document with this XML in its body, and with other parts, whose names are those of their kinds."""
    parts = {"document": f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>', **other}
    related = relationships(**{f"{name}.xml": name.rstrip("0123456789") for name in other})
    return zipped(
        {"[Content_Types].xml": "<Types/>", "word/_rels/document.xml.rels": related}
        | {f"word/{name}.xml": xml for name, xml in parts.items()}
    )


def relationships(**kinds: str) -> str:
    """Return the relationships of a part of an office document to others, given the kind of each target."""
    related = (f'<Relationship Type="{_TYPE}/{kind}" Target="{target}"/>' for target, kind in kinds.items())
    return f"<Relationships>{''.join(related)}</Relationships>"


def bare_odt(body: str) -> bytes:
    """Return an OpenDocument text with this XML in its body."""
    names = " ".join(f'xmlns:{name}="{_ODF}{name}:1.0"' for name in ("office", "text", "draw", "table"))
    xml = f"<office:document-content {names}><office:body><office:text>{body}</office:text></office:body>"
    mimetype = "application/vnd.oasis.opendocument.text"
    return zipped({"mimetype": mimetype, "content.xml": f"{xml}</office:document-content>"})
