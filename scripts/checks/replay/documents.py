"""Documents of all formats, with markup, several encodings, and damage."""

from __future__ import annotations

import zipfile
from pathlib import Path

SENTENCES = (
    "Der Hund läuft im Park.", "Ein Mann liest ein Buch.", "Die Frau kauft Brot.", "Das Kind spielt mit dem Ball.",
    "Gestern hat Maria den Hund gefüttert.", "Der Vater kocht.",
)  # fmt: skip

SRT = (
    "1\n00:00:01,000 --> 00:00:02,500\nDer Hund läuft\nim <i>Park</i>.\n\n"
    "2\n00:00:03,000 --> 00:00:04,000\n- Die Frau\n- Der Mann {\\an8}\n\n"
    "3\n00:00:05,000 --> 00:00:06,000\n\n"
    '4\n00:00:07,000 --> 00:00:08,000 X1:1\n<font color="red">MARIA: Das Kind schläft.</font>\n'
)
VTT = (
    "WEBVTT - x\nKind: captions\n\nNOTE a\nb\n\nSTYLE\n::cue {}\n\nid1\n00:01.000 --> 00:02.000 align:start\n"
    "<v Maria>Der Hund läuft.</v> <c.x>Die Frau</c> &amp; <00:01.500>der Mann.\n\n"
    "00:03.000 --> 00:04.000\n[Musik]\n- Ja.\n- Nein.\n"
)
PO = r"""msgid ""
msgstr ""
"Language: \n"
"Plural-Forms: nplurals=3; plural=n%10==1 ? 0 : n>1 ? 1 : 2;\n"
"Content-Type: text/plain; charset=UTF-8\n"

#: a.c:1
msgid "Der Hund läuft im Park."
msgstr ""

#, c-format
msgid "Die %d. Frau kauft %s Brote für 3 Kinder."
msgstr ""

#, fuzzy
msgid "Das &Kind spielt."
msgstr "old"

msgctxt "menu"
msgid ""
"Der Vater\n"
"kocht.\n"
msgstr ""

#, c-format
msgid "%d Hund"
msgid_plural "%d Hunde"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

#, python-brace-format
msgid "{name} liest {0:>5} Bücher."
msgstr ""

msgid "Fertig"
msgstr "Done"

#~ msgid "alt"
#~ msgstr "x"

#, no-wrap, possible-c-format
msgid "100 % der Frauen"
msgstr ""
"""
HTML = """<!DOCTYPE html>
<html lang="de"><head><meta charset="utf-8"><title>Der Hund</title>
<meta name="description" content="Die Frau kauft Brot.">
<script>var a="Der Hund";</script><style>p{}</style></head><body>
<h1 title="Der Vater">Der <b>Hund</b> läuft</h1>
<p>Ein <i>Mann</i> liest <a href="http://x.de/a?b=c" title="Ein Buch">ein Buch</a>.<br>
Die Frau kauft &nbsp;Brot &amp; Milch.</p>
<!-- Der Hund --><ul><li>Das Kind<li>Der Ball</ul><pre>  Der Hund
  im Park </pre><p translate="no">Der Hund</p><p class="notranslate">Frau</p><img alt="Ein Hund" src="x">
<input placeholder="Der Name" value="x" type="text"><input type="submit" value="Kaufen">
<table><tr><td>Der Mann</td><td></td></tr>
</table><p dir="ltr">Der <span translate="no">Foo</span> Hund <code>x=1</code>
im <em>Park</em>.<ruby>漢<rt>kan</rt></ruby></p>
<textarea>Der Hund</textarea><p>Ein <b><i>sehr</i></b><sup>2</sup> Hund{name} %s</p><p>Ge&shy;stern &ensp;42</p>
<p lang="en">The dog</p><p>😀</p></body></html>
"""
_WORD = "http://schemas.openxmlformats.org"
_WORD_NAMES = f'xmlns:w="{_WORD}/wordprocessingml/2006/main" xmlns:r="{_WORD}/officeDocument/2006/relationships"'
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_OPEN = "urn:oasis:names:tc:opendocument:xmlns"
_OPEN_NAMES = (
    f'xmlns:office="{_OPEN}:office:1.0" xmlns:text="{_OPEN}:text:1.0" xmlns:style="{_OPEN}:style:1.0" '
    f'xmlns:fo="{_OPEN}:xsl-fo-compatible:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"'
)


def write_documents(folder: Path) -> None:
    """Write the documents into a new folder."""
    (folder / "sub").mkdir(parents=True)
    plain = "".join(f"{sentence}\n" for sentence in SENTENCES)
    texts = {
        "a.txt": f"{plain}\n  Eingerückt: der Hund.\n\tTab\tam Hund\t\n42\n",
        "crlf.txt": plain.replace("\n", "\r\n"), "bom.txt": f"\ufeff{SENTENCES[0]}\n", "empty.txt": "",
        "a.srt": SRT, "bad.srt": "1\n00:00:01 --> 00:00:02\nHund\n", "none.srt": "Der Hund.\n",
        "crlf.srt": "\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\nDer Hund.\r\n\r\n",
        "a.vtt": VTT, "empty.vtt": "WEBVTT\n",
        "a.po": PO, "crlf.po": PO.replace("\n", "\r\n"), "bad.po": 'msgid "x\nmsgstr ""\n',
        "to_de.po": PO.replace("Language: ", "Language: de"),
        "a.html": HTML, "part.html": "Der <b>Hund</b>.<p>Die Frau", "empty.html": "", "shy.htm": "<p>Ma\u00adria</p>",
        "bad.html": "<html><meta charset=utf-7><p>x",
        "x.xhtml": '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body><p>Der<br/>Hund</p></body></html>',
        "rtl.html": "<html lang=de dir=ltr><body style='direction:ltr'><p align=left>Der Hund</body></html>",
        "a.md": "# Hund\n", "a.pdf": "%PDF-1.4\nx", "without": "Der Hund\n", "bad.docx": "no zip",
        "sub/b.txt": f"{SENTENCES[1]}\n", "sub/c.md": "# Hund\n", "sub/.hidden.txt": "x\n", "sub/~$x.docx": "x",
    }  # fmt: skip
    contents = {name: text.encode() for name, text in texts.items()}
    contents |= {
        "utf16.txt": f"\ufeff{SENTENCES[0]}\n".encode("utf-16-le"),
        "utf16.html": "\ufeff<p>Der Hund</p>".encode("utf-16-le"),
        "latin1.txt": "Die Bäume.\n".encode("latin-1"),
        "latin1.po": PO.replace("UTF-8", "ISO-8859-1").encode("latin-1", "replace"),
        "latin1.html": '<meta charset="iso-8859-1"><p>Die Bäume für Mädchen &euro;</p>'.encode("latin-1"),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    _write_archive(folder / "a.docx", _docx())
    _write_archive(folder / "spaces.docx", _docx(_paragraph(_run("Der\u00a0Hund läuft\u2003im Park.")) + _hidden()))
    _write_archive(folder / "a.odt", _odt())
    _write_archive(folder / "other.docx", {"x": "y"})


def _write_archive(path: Path, members: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            member = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(member, text)


def _run(text: str, properties: str = "") -> str:
    about = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r>{about}<w:t xml:space="preserve">{text}</w:t></w:r>'


def _paragraph(content: str) -> str:
    return f"<w:p>{content}</w:p>"


def _hidden() -> str:
    return _paragraph(_run("Der ") + _run("geheime ", "<w:vanish/>") + _run("Hund.", '<w:lang w:val="en-US"/>'))


def _field(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def _docx(body: str = "") -> dict[str, str]:
    """The parts of a document of Word: runs, a link, a table, a field, tracked changes, a footnote and a header."""
    body = body or "".join([
        _paragraph(
            '<w:pPr><w:pStyle w:val="Heading1"/><w:jc w:val="left"/></w:pPr>' + _run("Der ") + _run("Hund", "<w:b/>")
            + _run(" läuft im ") + _run("Pa", "<w:i/>") + _run("rk", "<w:i/>") + _run(".")
        ),
        _paragraph(
            _run("Ein Mann") + "<w:r><w:tab/></w:r>" + _run("liest") + "<w:r><w:br/></w:r>" + _run("ein Buch.")
            + f'<w:hyperlink r:id="rId1">{_run("Die Frau", "<w:u/>")}</w:hyperlink>' + _run(" kauft Brot.")
        ),
        "<w:p/>",
        f"<w:tbl><w:tr><w:tc>{_paragraph(_run('Das Kind spielt.'))}</w:tc>"
        f"<w:tc>{_paragraph(_run('12'))}</w:tc></w:tr></w:tbl>",
        _paragraph(
            _field("begin") + "<w:r><w:instrText> PAGE </w:instrText></w:r>" + _field("separate") + _run("1")
            + _field("end") + _run(" Seite, der Hund")
        ),
        _paragraph(
            f'<w:ins w:id="1">{_run("Neu: der Vater")}</w:ins>'
            '<w:del w:id="2"><w:r><w:delText>alt</w:delText></w:r></w:del>'
        ),
        "<w:sectPr/>",
    ])  # fmt: skip
    content_type = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    return {
        "[Content_Types].xml": f'{_XML}<Types xmlns="{_WORD}/package/2006/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{content_type}.document.main+xml"/>'
        f'<Override PartName="/word/footnotes.xml" ContentType="{content_type}.footnotes+xml"/></Types>',
        "_rels/.rels": f'{_XML}<Relationships xmlns="{_WORD}/package/2006/relationships"><Relationship Id="rId1" '
        f'Type="{_WORD}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f"{_XML}<w:document {_WORD_NAMES}><w:body>{body}</w:body></w:document>",
        "word/footnotes.xml": f'{_XML}<w:footnotes {_WORD_NAMES}><w:footnote w:id="1">'
        f"{_paragraph(_run('Eine Fußnote: der Hund.'))}</w:footnote></w:footnotes>",
        "word/header1.xml": f"<w:hdr {_WORD_NAMES}>{_paragraph(_run('Der Kopf der Frau'))}</w:hdr>",
        "word/styles.xml": f"<w:styles {_WORD_NAMES}><w:docDefaults><w:rPrDefault><w:rPr>"
        '<w:lang w:val="de-DE"/></w:rPr></w:rPrDefault></w:docDefaults></w:styles>',
    }


def _odt() -> dict[str, str]:
    """The parts of an OpenDocument text."""
    body = (
        '<text:h text:outline-level="1">Der <text:span text:style-name="T1">Hund</text:span> läuft</text:h>'
        '<text:p>Ein Mann<text:s text:c="2"/>liest<text:tab/>ein Buch.<text:line-break/>Die '
        '<text:a xlink:href="http://x.de">Frau</text:a> kauft<text:note text:id="n">'
        "<text:note-citation>1</text:note-citation><text:note-body><text:p>Eine Fußnote.</text:p></text:note-body>"
        "</text:note> Brot.</text:p><text:list><text:list-item><text:p>Das Kind</text:p></text:list-item></text:list>"
        "<text:p>Seite <text:page-number>1</text:page-number></text:p><text:p>Ma\u00adria\u00a0kocht.</text:p>"
    )
    return {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": f"{_XML}<office:document-content {_OPEN_NAMES}><office:body><office:text>{body}</office:text>"
        "</office:body></office:document-content>",
        "styles.xml": f"<office:document-styles {_OPEN_NAMES}><office:styles><style:default-style>"
        '<style:text-properties fo:language="de" fo:country="DE"/></style:default-style></office:styles>'
        "</office:document-styles>",
        "META-INF/manifest.xml": "<manifest/>",
    }
