"""Tests of Word and OpenDocument files, whose structure is checked with python-docx and odfpy."""

from __future__ import annotations

import io
import re
import zipfile
from random import Random
from typing import Any

import docx
import pytest
from docx.shared import RGBColor
from odf import teletype
from odf.opendocument import OpenDocumentText, load
from odf.style import ParagraphProperties, Style, TextProperties
from odf.table import Table, TableCell, TableRow
from odf.text import A, H, LineBreak, List, ListItem, Note, NoteBody, NoteCitation, P, S, Span, Tab

from documents import W, bare_docx, bare_odt, members, relationships, reversed_upper, same, zipped
from fuzzed import no_hang
from nmt.documents import Columns, Document, Translated, open_document
from nmt.documents import office as package
from nmt.documents.office import _ODT_RULES, _WORD_RULES
from nmt.documents.types import Rules, in_target
from nmt.errors import DataError
from samples_tables import NOTES, PROMPT, ROWS, SECOND, SLIDE, STRINGS, TABLE, bare_pptx, bare_xlsx
from waiting import cpu_time_limit

# ignore warnings of these libraries
pytestmark = pytest.mark.filterwarnings("ignore")


def saved(document: Any) -> bytes:
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


@pytest.fixture(scope="module")
def word() -> bytes:
    """Return a Word document with most kinds of content."""
    document = docx.Document()
    document.add_heading("The heading", 1)
    paragraph = document.add_paragraph("Some ")
    paragraph.add_run("bold words").bold = True
    paragraph.add_run(" and ")
    paragraph.add_run("red").font.color.rgb = RGBColor(255, 0, 0)
    paragraph.add_run(" text.")
    document.add_paragraph("Name:\tan item\nnew line", style="List Bullet")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "left cell", "42"
    document.sections[0].header.paragraphs[0].text = "top of page"
    document.sections[0].footer.paragraphs[0].text = "bottom of page"
    return saved(document)


def filled(element: Any, *content: Any) -> Any:
    """Add text and elements to an element of an OpenDocument text."""
    for part in content:
        if isinstance(part, str):
            element.addText(part)
        else:
            element.addElement(part)
    return element


@pytest.fixture(scope="module")
def open_text() -> bytes:
    """Return an OpenDocument text with most kinds of content."""
    document = OpenDocumentText()
    bold = filled(Style(name="Bold", family="text"), TextProperties(fontweight="bold"))
    filled(document.automaticstyles, bold)
    note = filled(Note(noteclass="footnote"), NoteCitation(text="1"), filled(NoteBody(), P(text="the note")))
    filled(
        document.text,
        H(outlinelevel=1, text="The heading"),
        filled(P(text="Some "), Span(stylename=bold, text="bold words"), " and ", A(href="http://a.b/", text="a link"),
               note, " end."),
        filled(P(text="left"), Tab(), "right", LineBreak(), "three ", S(c=2), "spaces"),
        filled(List(), filled(ListItem(), P(text="an item"))),
        filled(Table(), filled(TableRow(), filled(TableCell(), P(text="a cell")))),
    )  # fmt: skip
    return saved(document)


def capitals(document: Document) -> bytes:
    return document.translated([reversed_upper(text) for text in document.texts])


def body(content: bytes) -> str:
    """Return the content of the paragraphs of a document made by `bare_docx`, without namespaces."""
    xml = members(content)["word/document.xml"].decode()
    return xml.partition("<w:body>")[2].partition("</w:body>")[0].replace(' xml:space="preserve"', "")


def odt_body(content: bytes) -> str:
    return members(content)["content.xml"].decode().partition("<office:text>")[2].partition("</office:text>")[0]


def test_docx_texts_include_tables_headers_and_footers(word: bytes) -> None:
    assert open_document("a.docx", word).texts == [
        "The heading", "Some bold words and red text.", "Name:", "an item", "new line", "left cell",
        "top of page", "bottom of page",
    ]  # fmt: skip


def test_identity_translation_keeps_archive_members(word: bytes, open_text: bytes) -> None:
    for name, content in (("a.docx", word), ("a.odt", open_text)):
        new = same(open_document(name, content))
        assert list(members(new).items()) == list(members(content).items())
    with zipfile.ZipFile(io.BytesIO(new)) as archive, zipfile.ZipFile(io.BytesIO(open_text)) as before:
        assert archive.infolist()[0].compress_type == before.infolist()[0].compress_type == zipfile.ZIP_STORED


def test_docx_keeps_formats(word: bytes) -> None:
    new = docx.Document(io.BytesIO(capitals(open_document("a.docx", word))))
    heading, paragraph, item = new.paragraphs
    assert heading.text == "HEADING THE" and heading.style.name == "Heading 1"
    formats = [(run.text, run.bold, run.font.color.rgb) for run in paragraph.runs if run.text.strip()]
    assert formats == [("TEXT. ", None, None), ("RED", None, RGBColor(255, 0, 0)), (" AND ", None, None),
                       ("WORDS BOLD", True, None), (" SOME", None, None)]  # fmt: skip
    assert item.text == "NAME:\tITEM AN\nLINE NEW" and item.style.name == "List Bullet"
    assert [cell.text for cell in new.tables[0].rows[0].cells] == ["CELL LEFT", "42"]
    assert new.sections[0].header.paragraphs[0].text == "PAGE OF TOP"


def test_docx_parts_without_text_are_unchanged(word: bytes) -> None:
    before, after = members(word), members(capitals(open_document("a.docx", word)))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"word/document.xml", "word/header1.xml", "word/footer1.xml"} and list(before) == list(after)


def test_macros_are_kept() -> None:
    types = '<Types><Override ContentType="application/vnd.ms-word.document.macroEnabled.main+xml"/></Types>'
    macros = {"word/vbaProject.bin": b"\xd0\xcf\x11\xe0 Sub AutoOpen()", "[Content_Types].xml": types.encode()}
    content = zipped({**members(bare_docx("<w:p><w:r><w:t>Some words</w:t></w:r></w:p>")), **macros})
    after = members(capitals(open_document("a.docx", content)))
    assert b"WORDS SOME" in after["word/document.xml"] and after.items() >= macros.items()


def test_large_xml_members_raise(word: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = members(word)
    n_parsed = sum(len(parts[f"word/{name}.xml"]) for name in ("document", "header1", "footer1", "styles", "settings"))
    monkeypatch.setattr(package, "MAX_XML_BYTES", n_parsed)
    assert open_document("a.docx", word).texts
    large = zipped(members(bare_odt("")) | {"META-INF/manifest.xml": bytes(5000)})
    for name, content, limit in (("a.docx", word, n_parsed - 1), ("a.odt", large, 4999)):
        monkeypatch.setattr(package, "MAX_XML_BYTES", limit)
        with pytest.raises(DataError, match="of XML; divide the document"):
            open_document(name, content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", bare_docx(f"<w:p>{'<w:r/>' * 300}</w:p>")),  # too many elements
        ("a.odt", bare_odt(f"<text:p>x{'<text:s/>' * 300}</text:p>")),
        ("a.odt", bare_odt(f"<text:p>x{'<text:span>' * 40}x{'</text:span>' * 40}</text:p>")),  # nested too deeply
        # too many properties
        ("a.docx", bare_docx(f'<w:p><w:r><w:rPr><w:lang w:val="{"x" * 3000}"/></w:rPr><w:t>x</w:t></w:r></w:p>')),
    ],
)
def test_expensive_xml_raises(name: str, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MAX_ELEMENTS", 300)
    with pytest.raises(DataError):
        open_document(name, content)


def r(text: str, properties: str = "") -> str:
    format_ = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f"<w:r>{format_}<w:t>{text}</w:t></w:r>"


FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>REF x</w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
)
END = '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
MARK = '<w:bookmarkStart w:id="1"/>'
TRANSLATED_FIELDS = ['HYPERLINK "a"', "FORMTEXT", "MERGEFIELD a", "REF x", 'IF 1 = 1 "a b"', "DATES"]
DELETED = '<w:del w:id="2"><w:r><w:delText>old</w:delText></w:r></w:del>'
NOTE = '<w:r><w:rPr><w:b/></w:rPr><w:footnoteReference w:id="2"/></w:r>'


def complex_field(code: str, result: str) -> str:
    return FIELD.replace("REF x", code) + result + END


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (r("all ", "<w:b/>") + r("bold", '<w:b/><w:lang w:val="x"/>'), r("BOLD ALL", "<w:b/>")),
        ('<w:hyperlink w:id="h">' + r("one two", "<w:u/>") + "</w:hyperlink>" + r(" a long word"),
         r("WORD LONG A ") + '<w:hyperlink w:id="h">' + r("TWO ONE", "<w:u/>") + "</w:hyperlink>"),
        (r("see ") + FIELD + r("page 3", "<w:i/>") + END + r(" there now"),
         r("NOW THERE ") + FIELD + r("3 PAGE", "<w:i/>") + END + r(" SEE")),
        (r("word") + NOTE + r(" next"), r("NEXT WORD") + NOTE),
        ('<w:bookmarkStart w:id="1" w:name="n"/>' + r("a") + '<w:bookmarkEnd w:id="1"/>' + r(" b c"),
         r("C B ") + '<w:bookmarkStart w:id="1" w:name="n"/>' + r("A") + '<w:bookmarkEnd w:id="1"/>'),
        (MARK + r("a") + FIELD + r(" b") + '<w:bookmarkEnd w:id="1"/>' + r(" c") + END + r(" d"),
         MARK + r("D ") + FIELD + r("C B") + '<w:bookmarkEnd w:id="1"/>' + END + r(" A")),
        ('<w:ins w:id="1">' + r("new") + "</w:ins>" + DELETED + r(" x y"),
         r("Y X ") + '<w:ins w:id="1">' + r("NEW") + "</w:ins>" + DELETED),
        ("<w:sdt><w:sdtPr><w:tag/></w:sdtPr><w:sdtContent>" + r("in it") + "</w:sdtContent></w:sdt>" + END,
         "<w:sdt><w:sdtPr><w:tag/></w:sdtPr><w:sdtContent>" + r("IT IN") + "</w:sdtContent></w:sdt>" + END),
        ("<w:r><w:rPr><w:b/></w:rPr><w:t>a-b</w:t><w:tab/><w:lastRenderedPageBreak/><w:t>c</w:t><w:noBreakHyphen/><w:t>d</w:t></w:r>",
         r("A-B", "<w:b/>") + "<w:r><w:rPr><w:b/></w:rPr><w:tab/></w:r>" + r("C\u2011D", "<w:b/>")),
        *((complex_field(code, r("a b")), complex_field(code, r("B A"))) for code in TRANSLATED_FIELDS),
    ],
    ids=["format", "link", "field", "note", "bookmark", "crossing", "changes", "control", "break", *TRANSLATED_FIELDS],
)  # fmt: skip
def test_docx_inline_content_follows_words(content: str, wanted: str) -> None:
    new = body(capitals(open_document("a.docx", bare_docx(f"<w:p><w:pPr><w:jc/></w:pPr>{content}</w:p>"))))
    merged = re.sub(r"</w:t></w:r><w:r>(?:<w:rPr><w:b/></w:rPr>)?<w:t>", "", new)
    assert merged == f"<w:p><w:pPr><w:jc/></w:pPr>{wanted}</w:p>"


BOLD = "<w:rPr><w:b/></w:rPr>"
SIGN = '<w:fldChar w:fldCharType="{}"/>'
CODE = SIGN.format("begin") + "<w:instrText>REF x</w:instrText>" + SIGN.format("separate")
CODE_END = SIGN.format("end")


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (f"<w:r>{BOLD}<w:t>on page </w:t>{CODE}<w:t>1</w:t>{CODE_END}<w:t> here.</w:t></w:r>",
         "<w:t>HERE. </w:t>{}<w:t>1</w:t>{}<w:t> PAGE ON</w:t>"),
        (f"<w:r>{BOLD}<w:t>on page </w:t>{SIGN.format('begin')}</w:r><w:r>{BOLD}<w:instrText>REF x</w:instrText>"
         f"{SIGN.format('separate')}</w:r><w:r>{BOLD}<w:t>1</w:t>{CODE_END}<w:t> here.</w:t></w:r>",
         "<w:t>HERE. </w:t>{}<w:t>1</w:t>{}<w:t> PAGE ON</w:t>"),
        (f"<w:r>{BOLD}<w:t>at </w:t>{CODE}<w:t>1 m</w:t>{CODE_END}{CODE}<w:t> of</w:t>{CODE_END}</w:r>",
         "{0}<w:t>OF</w:t>{1}<w:t> </w:t>{0}<w:t>M 1</w:t>{1}<w:t> AT</w:t>"),
    ],
    ids=["one run", "several runs", "two fields"],
)  # fmt: skip
def test_docx_run_with_text_and_field_signs_is_translated(content: str, wanted: str) -> None:
    document = open_document("a.docx", bare_docx(f"<w:p>{content}</w:p><w:p>{r('a b')}</w:p>"))
    new = body(capitals(document))
    texts = re.sub(rf"</w:r>|<w:r>{BOLD}", "", new.partition("</w:p>")[0].removeprefix("<w:p>"))
    assert re.sub("</w:t><w:t>", "", texts) == wanted.format(CODE, CODE_END)
    assert re.findall("<w:r>(?!<w:rPr>).*?</w:r>", new) == [r("B A")]

    kept = body(document.translated([*document.texts[:-1], "B A"]))
    assert re.findall("<w:t>(.*?)</w:t>", kept)[:-1] == re.findall("<w:t>(.*?)</w:t>", content)
    assert re.findall("<w:fldChar.*?>|<w:instr.*?>", kept) == re.findall("<w:fldChar.*?>|<w:instr.*?>", content)


SEQ = complex_field(" SEQ Abbildung ", r("3", "<w:noProof/>"))


def _translated(content: str, translation: str) -> tuple[list[str], str]:
    """Return the texts of a paragraph, and its content if each of them is translated as given."""
    document = open_document("a.docx", bare_docx(f"<w:p>{content}</w:p>"))
    new = body(document.translated([translation for _ in document.texts])).removeprefix("<w:p>").removesuffix("</w:p>")
    return document.texts, re.sub("</w:t></w:r><w:r><w:t>", "", new)


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (SEQ, "{3}"),
        (complex_field("page", r("1") + r("2", "<w:i/>")), "{12}"),
        (complex_field(r' DATE \@ "d. MMMM yyyy" ', r("12. ") + r("März 2024", "<w:b/>")), "{122}"),
        (complex_field(f"=</w:instrText></w:r>{complex_field('PAGE', r('2'))}<w:r><w:instrText>+1", r("3")), "{3}"),
        ('<w:fldSimple w:instr=" NUMPAGES "><w:r><w:t>3</w:t></w:r></w:fldSimple>', "{3}"),
        ('<w:fldSimple w:instr=" AUTHOR "><w:r><w:t>Max Klein</w:t></w:r></w:fldSimple>', "{0}"),
        (complex_field("REF _Ref1 ", r("4.2")), "{42}"),
    ],
)
def test_docx_computed_field_is_kept(field: str, shown: str) -> None:
    text = f"Abbildung {shown}: der Hund"
    caption = r("Abbildung ") + field + r(": der Hund")
    assert _translated(caption, f"Figure {shown}: the dog") == ([text], r("Figure ") + field + r(": the dog"))
    texts, lost = _translated(caption, "Figure will: the dog")
    assert texts == [text] and lost.count(field) == 1
    assert "".join(re.findall("<w:t>([^<]*)</w:t>", lost.replace(field, ""))).split() == [
        "Figure",
        "will:",
        "the",
        "dog",
    ]


@pytest.mark.parametrize(
    ("text", "translation", "wanted"),
    [
        ("Abbildung {}: der Hund", "Figure 3: the dog", "Figure {}: the dog"),
        ("Abbildung {}: der Hund", "Figure 3.5: the dog", "Figure {} 3.5: the dog"),
        ("Summe {} Euro", "Sum euros", "Sum {} euros"),
        ("Nr. {}a", "No. {3}a", "No. {}a"),
        ("Summe {}, bezahlt", "Sum, paid", "Sum{}, paid"),
    ],
)
def test_docx_field_without_its_placeholder_is_neither_repeated_nor_attached(
    text: str, translation: str, wanted: str
) -> None:
    before, after = text.split("{}")
    _, new = _translated(r(before) + SEQ + r(after), translation)
    assert new.count(SEQ) == 1
    assert "".join(re.findall("<w:t>([^<]*)</w:t>", new.replace(SEQ, r("{}")))) == wanted


def test_docx_run_with_end_and_begin_of_fields_keeps_both() -> None:
    run = f"<w:r>{SIGN.format('end')}{SIGN.format('begin')}</w:r>"
    content = SEQ.removesuffix(END) + run + SEQ.partition("</w:r>")[2]
    _, new = _translated(r("Bild ") + content + r(" da"), "there image {3}{3}")
    kinds = re.findall('fldCharType="([a-z]+)"|<w:t>([^<]*)', new)
    assert [kind or text for kind, text in kinds] == [
        "there image ", *["begin", "separate", "3", "end"] * 2,
    ]  # fmt: skip


RUBY = f"<w:r><w:ruby><w:rt>{r('x y')}</w:rt><w:rubyBase>{r('b', '<w:b/>')}</w:rubyBase></w:ruby></w:r>"


@pytest.mark.parametrize(
    ("ruby", "texts", "wanted", "n_readings"),
    [
        (RUBY, ["a b c"], r("C ") + r("B", "<w:b/>") + r(" A"), 1),
        (f'<w:fldSimple w:instr="SEQ x">{RUBY}</w:fldSimple><!-- <w:ruby> -->', ["a {0} c"],
         r("C ") + f'<w:fldSimple w:instr="SEQ x">{RUBY}</w:fldSimple><!-- <w:ruby> -->' + r(" A"), 0),
    ],
    ids=["translated", "kept"],
)  # fmt: skip
def test_docx_reading_of_ruby_is_omitted_and_counted_where_it_is_translated(
    ruby: str, texts: list[str], wanted: str, n_readings: int
) -> None:
    document = open_document("a.docx", bare_docx(f"<w:p>{r('a ')}{ruby}{r(' c')}</w:p>"))
    assert (document.texts, document.n_readings) == (texts, n_readings)
    assert body(capitals(document)) == f"<w:p>{wanted}</w:p>"
    assert ruby in body(same(document))


def test_docx_text_box_in_run_with_field_sign_is_translated() -> None:
    box = f"<w:pict><w:txbxContent><w:p>{r('in a box')}</w:p></w:txbxContent></w:pict>"
    document = open_document("a.docx", bare_docx(
        f"<w:p><w:r><w:t>on page </w:t>{box}{CODE}<w:t>1</w:t>{CODE_END}</w:r></w:p><w:p>{r('a b')}</w:p>"
    ))  # fmt: skip
    assert document.texts == ["on page {1}", "in a box", "a b"]
    assert body(capitals(document)).count(box.replace("in a box", "BOX A IN")) == 1


def test_odt_keeps_structure(open_text: bytes) -> None:
    document = open_document("a.odt", open_text)
    assert document.texts == ["The heading", "Some bold words and a link end.", "the note", "left", "right",
                              "three spaces", "an item", "a cell"]  # fmt: skip
    new = load(io.BytesIO(capitals(document)))
    [paragraph] = [p for p in new.getElementsByType(P) if p.getElementsByType(A)]
    assert teletype.extractText(paragraph.getElementsByType(A)[0]) == "LINK A"
    [span] = paragraph.getElementsByType(Span)
    assert teletype.extractText(span) == "WORDS BOLD" and span.getAttribute("stylename") == "Bold"
    assert teletype.extractText(new.getElementsByType(H)[0]) == "HEADING THE"
    assert [teletype.extractText(p) for p in new.getElementsByType(P)[1:]] == [
        "NOTE THE", "LEFT\tRIGHT\nSPACES   THREE", "ITEM AN", "CELL A",
    ]  # fmt: skip


RUBY_ODT = (
    "<text:ruby><text:ruby-base>b <text:span>c</text:span></text:ruby-base>"
    "<text:ruby-text>x y</text:ruby-text></text:ruby>"
)
ANNOTATION = "<office:annotation><text:p>a comment</text:p></office:annotation>"


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("a <text:span>b</text:span> c", "C <text:span>B</text:span> A"),
        ('<text:bookmark-start text:name="x"/>a b<text:bookmark-end text:name="x"/> c',
         'C <text:bookmark-start text:name="x"/>B A<text:bookmark-end text:name="x"/>'),
        (f"a{ANNOTATION} b<text:title>7</text:title>", f"B<text:title>7</text:title> A{ANNOTATION}"),
        ("a <text:file-name>b.odt</text:file-name> c", "C <text:file-name>b.odt</text:file-name> A"),
        ("<text:number>1.</text:number>b c", "<text:number>1.</text:number>C B"),
        ("a <text:text-input>b c</text:text-input>", "<text:text-input>C B</text:text-input> A"),
        ("<text:database-display>b</text:database-display> a", "A <text:database-display>B</text:database-display>"),
        (f"a {RUBY_ODT} d", "D <text:span>C</text:span> B A"),
        ("<text:span>a<text:tab/>b</text:span> c<!-- x -->", "<text:span>A<text:tab/>B</text:span> C<!-- x -->"),
        ("  x\n   <text:s/>y ", "  Y <text:s/>X "),
    ],
)  # fmt: skip
def test_odt_inline_content_follows_words(content: str, wanted: str) -> None:
    assert (
        odt_body(capitals(open_document("a.odt", bare_odt(f"<text:p>{content}</text:p>"))))
        == f"<text:p>{wanted}</text:p>"
    )


def test_odt_readings_are_counted_only_where_they_are_omitted() -> None:
    annotation = f"<office:annotation><text:p>{RUBY_ODT}</text:p></office:annotation>"
    document = open_document("a.odt", bare_odt(f"<text:p>a {RUBY_ODT} d{annotation}</text:p>"))
    assert annotation in odt_body(capitals(document)) and document.n_readings == 1


def _xml(declaration: str) -> bytes:
    return zipped({"word/document.xml": f"{declaration}<x>&a;</x>"})


def _flagged(content: bytes) -> bytes:
    """Return a zip archive whose members are marked as encrypted."""
    changed = bytearray(content)
    for mark, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        start = changed.find(mark)
        changed[start + offset] |= 1
    return bytes(changed)


def damaged_member() -> bytes:
    content = zipped(members(bare_docx(f"<w:p>{r('one')}</w:p>")) | {"word/media/a.bmp": bytes(range(256)) * 9})
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        start = archive.getinfo("word/media/a.bmp").header_offset + 30 + len("word/media/a.bmp") + 40
    return content[:start] + bytes([content[start] ^ 255]) + content[start + 1 :]


ENTITY = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
MANY_ENTITIES = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "x"}">' for i in range(12))
PROPERTIES = f"<w:r><w:rPr>{'<w:b/>' * 100}</w:rPr><w:t>a</w:t>{SIGN.format('begin')}</w:r>"
UNSAFE = [
    ("a.docx", b"plain", "not an office document"),
    ("a.docx", b"\xd0\xcf\x11\xe0", "encrypted, or in an old format"),
    ("a.docx", zipped({"word/document.xml": bytes(20 << 20)}), "which is unsafe"),
    ("a.docx", _xml(ENTITY), "DOCTYPE"),
    ("a.docx", zipped({"word/document.xml": f"<!DOCTYPE x [{MANY_ENTITIES}]><x>&a11;</x>"}), "DOCTYPE"),
    ("a.docx", zipped({"word/document.xml": (ENTITY + "<x>&a;</x>").encode("utf-16")}), "not UTF-8"),
    ("a.docx", _xml('<?xml version="1.0" encoding="utf-7"?>+ADwAIQ-DOCTYPE x+AD4-'), "broken XML"),
    ("a.docx", zipped({"word/document.xml": "<x/>"}), "not a Word document"),
    ("a.docx", bare_odt(""), "not a Word document"),
    ("a.odt", bare_docx(""), "not an OpenDocument text"),
    ("a.odt", zipped({"content.xml": "<x/>", "META-INF/manifest.xml": "<encryption-data/>"}), "encrypted"),
    ("a.odt", zipped({"META-INF/manifest.xml": "<encryption-data/>", "encrypted-package": b"\1"}), "encrypted"),
    ("a.docx", _flagged(bare_docx("")), "encrypted"),
    ("a.docx", bare_docx("<w:p>" * 300 + "</w:p>" * 300), "broken XML"),
    ("a.docx", bare_docx("")[:-30], "incomplete or damaged"),
    ("a.odt", bare_odt("")[:90], "incomplete or damaged"),
    ("a.docx", damaged_member(), "incomplete or damaged"),
    ("a.odt", zipped({"content.xml": "<x/>"}, zipfile.ZIP_BZIP2), "method 12"),
    ("a.docx", bare_docx(f"<w:p>{FIELD * 40}{r('x')}{END * 40}</w:p>"), "nested fields"),
    ("a.docx", bare_docx(f"<w:p>{PROPERTIES}</w:p>"), "characters of properties"),
]


@pytest.mark.parametrize(("name", "content", "why"), UNSAFE, ids=[why for *_, why in UNSAFE])
def test_unsafe_office_document_raises(name: str, content: bytes, why: str) -> None:
    with no_hang(), pytest.raises(DataError) as caught:
        open_document(name, content)
    assert why in str(caught.value) and "\n" not in str(caught.value)


ODD = [
    b"<w:tab/>", b"<w:r/>", b"<!-- -->", b"<?x?>", b'<w:bookmarkEnd w:id="0"/>', b"<w:t>x</w:t>", b"<text:s/>",
    *(b'<w:fldChar w:fldCharType="%s"/>' % kind for kind in (b"begin", b"separate", b"end")), FIELD.encode(),
    END.encode(), b"<text:tab/>", b'<text:bookmark-start text:name="x"/>', b"<text:span>y</text:span>",
    b"<text:p>z</text:p>",
]  # fmt: skip


def _words(document: Document) -> list[str]:
    return sorted(" ".join(document.texts).lower().split())


@pytest.mark.parametrize("name", ["a.docx", "a.odt"])
def test_damaged_office_document_raises_or_keeps_words(name: str, word: bytes, open_text: bytes) -> None:
    random, content = Random(1), word if name == "a.docx" else open_text
    inner = members(content)
    main = "word/document.xml" if name == "a.docx" else "content.xml"
    odd = [part for part in ODD if (b"w:" if name == "a.odt" else b"text:") not in part]
    n_read = 0
    for i in range(75):
        damaged = bytearray(content if i % 3 == 0 else inner[main])
        starts = [match.start() for match in re.finditer(b"<w:[rpt]|</w:p>|<text:|</text:", damaged)] or [0]
        for _ in range(random.randint(1, 3)):
            start = random.choice(starts) if i % 3 == 1 else random.randrange(len(damaged))
            size, part = (0, random.choice(odd)) if i % 3 == 1 else (random.randint(0, 9), random.randbytes(4))
            damaged[start : start + size] = part
        try:
            document = open_document(name, bytes(damaged) if i % 3 == 0 else zipped(inner | {main: bytes(damaged)}))
        except DataError:
            continue
        n_read += 1
        assert _words(open_document(name, capitals(document))) == _words(document)
    assert n_read > 10


def _in_language(name: str, content: bytes, *languages: str) -> bytes:
    """Return a document with its own texts as translations."""
    document = open_document(name, content)
    return document.translated([Translated(text) for text in document.texts], (languages[0], languages[1]))


def _property_names(element: object) -> list[str]:
    """Return the names of the properties of a paragraph, run, table or section."""
    return [str(child.tag).rpartition("}")[2] for child in element]  # type: ignore[attr-defined]


def test_docx_into_right_to_left_gets_switches_in_order_of_schema(word: bytes) -> None:
    new = docx.Document(io.BytesIO(_in_language("a.docx", word, "de", "ar")))
    heading, paragraph, item = new.paragraphs
    assert _property_names(heading._p.pPr) == ["pStyle", "bidi"]
    bold = next(run for run in paragraph.runs if run.bold)
    assert _property_names(bold._r.rPr)[:2] == ["b", "bCs"] and bold.font.complex_script is None
    assert "bidiVisual" in _property_names(new.tables[0]._tbl.tblPr)
    section = _property_names(new.sections[0]._sectPr)
    assert section.index("cols") < section.index("bidi") < section.index("docGrid")
    assert "bidi" in _property_names(new.sections[0].header.paragraphs[0]._p.pPr)
    assert item.alignment is None


RTL = "<w:pPr><w:bidi/></w:pPr>"
FRENCH = '<w:lang w:val="fr-FR"/>'
STYLED = '\n<w:pPr>\n<w:pStyle w:val="a"/>{}\n</w:pPr>\n'


def p(text: str, properties: str, of_paragraph: str = "") -> str:
    return f"<w:p>{of_paragraph}{r(text, properties)}</w:p>"


@pytest.mark.parametrize(
    ("languages", "content", "wanted"),
    [
        # runs that have only Latin letters are not from right to left
        *((("de", "he"), p(text, "<w:sz/><w:em/>"), p(text, "<w:sz/><w:szCs/><w:rtl/><w:em/>", RTL))
          for text in ("שלום", "42!")),
        (("de", "he"), p("see nmt.org/", "<w:sz/><w:em/>"), p("see nmt.org/", "<w:sz/><w:szCs/><w:em/>", RTL)),
        # text in another language keeps it
        (("de", "he"), p("שלום", FRENCH), p("שלום", f"<w:rtl/>{FRENCH}", RTL)),
        *((("de", "he"), p("שלום", language), p("שלום", '<w:rtl/><w:lang w:val="he" w:bidi="he"/>', RTL))
          for language in ('<w:lang w:val="de-DE" w:bidi="ar-SA"/>', '<w:lang w:val="de"/>')),
        # each switch is there once, between spaces too, and comments may contain markup
        (("de", "ar"), "<!-- > <w:sectPr> <w:p> -->" + p("x", '<w:lang w:bidi="x" w:val="de"/>', STYLED.format(""))
         + "<w:sectPr><!-- > --><w:cols/></w:sectPr>",
         p("x", '<w:lang w:val="ar" w:bidi="ar"/>', STYLED.format("<w:bidi/>")) + "<w:sectPr><w:cols/></w:sectPr>"),
        (("ar", "en"), p("x", '<w:b w:val="0"/><w:bCs/><w:rtl/>'), p("x", '<w:b w:val="0"/><w:bCs/>')),
        (("ar", "en"), p("x", '<w:iCs/><w:szCs w:val="40"/>'),
         p("x", '<w:i/><w:iCs/><w:sz w:val="40"/><w:szCs w:val="40"/>')),
        (("ar", "en"), p("x", '<w:sz w:val="24"/><w:szCs w:val="40"/>'),
         p("x", '<w:sz w:val="24"/><w:szCs w:val="40"/>')),
        (("ar", "en"), p("x", '<w:lang w:bidi="ar-SA" w:val="fr-FR"/>'), p("x", '<w:lang w:val="en"/>')),
        (("arb_Arab", "eng_Latn"), "<w:tbl><w:tblPr><w:bidiVisual/></w:tblPr></w:tbl><w:sectPr><w:bidi/></w:sectPr>",
         "<w:tbl><w:tblPr></w:tblPr></w:tbl><w:sectPr></w:sectPr>"),
        (("ar", "en"), p("x", "<w:bCs/><w:rtl/>", "<w:pPr><w:bidi/><w:jc w:val='left'/></w:pPr>"),
         p("x", "<w:b/><w:bCs/>", '<w:pPr><w:jc w:val="left"/></w:pPr>')),
    ],
)  # fmt: skip
def test_docx_follows_direction_and_language_of_target(languages: tuple[str, str], content: str, wanted: str) -> None:
    new = _in_language("a.docx", bare_docx(content), *languages)
    assert re.sub("<!--.*?-->", "", body(new)) == wanted
    open_document("a.docx", new)  # is well-formed


def test_docx_styles_follow_direction_and_language_of_target() -> None:
    style = f'<w:styles xmlns:w="{W}"><w:style><w:pPr>{{}}</w:pPr><w:rPr>{{}}</w:rPr></w:style></w:styles>'
    lang = '<w:lang w:val="ar-SA" w:eastAsia="fr-FR"/>'
    content = bare_docx("<w:p/>", styles=style.format("<w:bidi/>", f"<w:rtl/>{lang}"))
    new = members(_in_language("a.docx", content, "ar", "en"))["word/styles.xml"].decode()
    assert new.partition("?>\n")[2] == style.format("", lang.replace("ar-SA", "en"))


@pytest.mark.parametrize("languages", [("en", "ar"), ("ar", "en")])
@pytest.mark.parametrize(
    ("rules", "markup"),
    [
        (_WORD_RULES, f"<w:r><w:rPr>{'<w:b/>' * 20_000}</w:rPr><w:t>x</w:t></w:r>"),
        (_WORD_RULES, "<w:docGrid/>" * 20_000),
        (_WORD_RULES, '<w:sectPrChange w:id="1"/>' * 20_000),
        (_WORD_RULES, f"<w:r><w:rPr></w:rPr><w:t>{'a' * 40_000}é</w:t></w:r>"),
        (_WORD_RULES, f"<!-- {'<w:p><w:pPr><w:numPr>' * 20_000} -->"),
        (_WORD_RULES, f"<!-- {'<w:lang ' * 40_000} -->"),
        (_ODT_RULES, "<office:styles></office:styles>" * 20_000),
        (_ODT_RULES, f"<!-- {'<style:default-style ' * 20_000} -->"),
    ],
)  # fmt: skip
def test_language_of_hostile_markup_takes_linear_time(languages: tuple[str, str], rules: Rules, markup: str) -> None:
    with cpu_time_limit(10):  # usual is a fifth of a second; quadratic code takes a hundred times as long
        in_target(markup, languages, rules)


@pytest.mark.parametrize("languages", [("de", "xx"), ("xx", "ar"), ("ar", "aed"), ("de", "de"), ("fr", "it")])
def test_document_is_unchanged_without_known_script_or_other_language(
    languages: tuple[str, str], word: bytes, open_text: bytes
) -> None:
    for name, content in (("a.docx", word), ("a.odt", open_text)):
        assert members(_in_language(name, content, *languages)) == members(content)


def test_odt_follows_direction_and_language_of_target() -> None:
    document = OpenDocumentText()  # without default styles
    paragraph = ParagraphProperties(textalign="end", writingmode="lr-tb")
    german = filled(Style(name="Date", family="paragraph"), paragraph, TextProperties(language="de", country="AT"))
    french = filled(Style(name="French", family="text"), TextProperties(language="fr", country="FR"))
    filled(document.automaticstyles, german, french)
    filled(document.text, filled(P(stylename=german, text="Wien, "), Span(stylename=french, text="fr")))
    turned = _in_language("a.odt", saved(document), "de", "fa")
    load(io.BytesIO(turned))  # is still read
    content, styles = (members(turned)[f"{name}.xml"].decode() for name in ("content", "styles"))
    assert 'fo:text-align="left"' in content and 'writing-mode="rl-tb"' in content and 'writing-mode="rl-tb"' in styles
    assert 'fo:language="fa"' in content and 'fo:country="AT"' not in content
    assert 'fo:language="fr" fo:country="FR"' in content
    back = _in_language("a.odt", turned, "fa", "en")
    written = b"".join(members(back)[f"{name}.xml"] for name in ("content", "styles"))
    assert b"rl-tb" not in written and b'fo:text-align="right"' in written and b'fo:language="en"' in written


ASIAN = 'fo:country="PT" fo:language="pt" style:language-asian="pt" fo:script="Latn" style:country-asian="BR"'


@pytest.mark.parametrize(
    ("stated", "target", "wanted"),
    [
        ('fo:language="pt" fo:country="PT"', "pt_BR", 'fo:language="pt" fo:country="BR"'),
        ('fo:language="pt" fo:country="PT"', "sr_Latn", 'fo:language="sr" fo:script="Latn"'),
        ('fo:language="pt" fo:country="PT"', "zho_Hant_TW", 'fo:language="zh" fo:script="Hant" fo:country="TW"'),
        ('fo:language="pt" fo:country="PT"', "deu_Latn", 'fo:language="de"'),
        (ASIAN, "sr_Latn_ME", 'fo:language="sr" fo:script="Latn" fo:country="ME" style:language-asian="sr" '
                              'style:script-asian="Latn" style:country-asian="ME"'),
    ],
)  # fmt: skip
def test_odt_states_language_script_and_country_apart(stated: str, target: str, wanted: str) -> None:
    new = in_target(f"<style:text-properties {stated}/>", ("pt_PT", target), _ODT_RULES)
    assert sorted(new.removesuffix("/>").split()) == sorted(f"<style:text-properties {wanted}".split())


def test_text_that_looks_like_attribute_is_kept() -> None:
    text = 'write fo:language="de" and style:writing-mode="lr-tb" here'
    assert text in odt_body(_in_language("a.odt", bare_odt(f"<text:p>{text}</text:p>"), "de", "ar"))


WORD_ROOTS = {"header": "hdr", "footer": "ftr", "footnotes": "footnotes"}


def part(kind: str, content: str) -> str:
    """Return a part of a Word document beside the main one."""
    return f'<w:{WORD_ROOTS[kind]} xmlns:w="{W}">{content}</w:{WORD_ROOTS[kind]}>'


@pytest.mark.parametrize(
    "target", ["hdr1.xml", "/word/hdr1.xml", "../word/./hdr1.xml", "hdr%31.xml", "../../word/hdr1.xml"]
)
@pytest.mark.parametrize("kind", WORD_ROOTS)
def test_docx_part_of_any_name_is_translated(kind: str, target: str) -> None:
    inner = members(bare_docx(f"<w:p>{r('one two')}</w:p>"))
    inner["word/hdr1.xml"] = part(kind, f"<w:p>{r('three four')}</w:p>").encode()
    inner["word/header9.xml"] = part("header", f"<w:p>{r('of no section')}</w:p>").encode()
    inner["word/_rels/document.xml.rels"] = relationships(**{target: kind}).encode()
    document = open_document("a.docx", zipped(inner))
    assert document.texts == ["one two", "three four"]
    new = members(capitals(document))
    assert b"FOUR THREE" in new["word/hdr1.xml"] and new["word/header9.xml"] == inner["word/header9.xml"]


@pytest.mark.parametrize(
    ("target", "main"),
    [
        ("text/main.xml", "text/main.xml"),
        ("/text/main.xml", "text/main.xml"),
        *((broken, "word/document.xml") for broken in ("word\\document.xml", "gone.xml", "../x.xml")),
    ],
)
def test_docx_main_part_has_its_usual_name_or_that_of_its_relationship(target: str, main: str) -> None:
    inner = members(bare_docx(f"<w:p>{r('one two')}</w:p>", header7=part("header", f"<w:p>{r('three four')}</w:p>")))
    folder, _, name = main.partition("/")
    moved = {path.replace("word/", f"{folder}/").replace("document.xml", name): inner[path] for path in inner}
    document = open_document("a.docx", zipped(moved | {"_rels/.rels": relationships(**{target: "officeDocument"})}))
    assert document.texts == ["one two", "three four"]


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "http://127.0.0.1:9/hdr.xml", "../../../etc/passwd", "gone.xml", "", "hdr1.xml"]
)
def test_docx_relationship_to_outside_is_not_followed(target: str) -> None:
    inner = members(bare_docx(f"<w:p>{r('one two')}</w:p>"))
    inner["word/hdr1.xml"] = part("header", f"<w:p>{r('three four')}</w:p>").encode()
    related = relationships(**{target: "header"}).replace("/>", ' TargetMode="External"/>')
    inner["word/_rels/document.xml.rels"] = related.encode()
    inner["_rels/.rels"] = related.replace("/header", "/officeDocument").encode()
    document = open_document("a.docx", zipped(inner))
    assert document.texts == ["one two"] and b"TWO ONE" in members(capitals(document))["word/document.xml"]


def control(content: str) -> str:
    return (
        '<w:sdt><w:sdtPr><w:dataBinding w:xpath="/a[1]"/><w:text/></w:sdtPr>'
        f"<w:sdtContent>{content}</w:sdtContent></w:sdt>"
    )


def test_docx_control_is_bound_only_where_its_text_is_unchanged() -> None:
    title, number = control(r("one two")), control(r("4711"))
    block = (
        control(f"<w:p>{title}</w:p><w:p>{number}</w:p>")
        .replace("w:dataBinding", "w15:dataBinding")
        .replace("<w:sdt>", '<w:sdt xmlns:w15="x">', 1)
    )
    content = bare_docx(f"<w:p>{title}{r(' is ')}{number}</w:p>{block}", header1=part("header", f"<w:p>{title}</w:p>"))
    document = open_document("a.docx", content)
    assert b"dataBinding" not in members(capitals(document))["word/header1.xml"]
    kept = body(capitals(document))
    assert kept.count("TWO ONE") == kept.count("dataBinding") == 2 and number in kept
    assert members(same(document)) == members(content)


def test_docx_control_with_many_bindings_takes_linear_time() -> None:
    bindings = "<w:dataBinding/>" * 20_000
    bound = control(r("four five")).replace("<w:dataBinding", f"{bindings}<w:dataBinding", 1)
    content = bare_docx(f"<w:p>{r('one two ' * 20_000)}{bound}</w:p>")
    with cpu_time_limit():  # usual is a second and a half; quadratic code takes minutes
        assert "dataBinding" not in body(capitals(open_document("a.docx", content)))


HIDDEN_STYLES = (
    f'<w:styles xmlns:w="{W}"><w:style w:styleId="Secret"><w:rPr><w:vanish/></w:rPr></w:style>'
    '<w:style w:styleId="Shown"><w:rPr><w:vanish w:val="0"/></w:rPr></w:style></w:styles>'
)


@pytest.mark.parametrize(
    ("properties", "is_hidden"),
    [
        ("<w:vanish/>", True),
        ('<w:b/><w:vanish w:val="true"/>', True),
        ('<w:vanish w:val="0"/>', False),
        ('<w:vanish w:val="false"/>', False),
        ("<w:webHidden/>", False),
        ('<w:rStyle w:val="Secret"/>', True),
        ('<w:rStyle w:val="Secret"/><w:vanish w:val="off"/>', False),
        ('<w:rStyle w:val="Shown"/>', False),
    ],
)
def test_docx_hidden_text_is_no_part_of_sentence(properties: str, is_hidden: bool) -> None:
    secret = r("secret ", properties)
    content = bare_docx(f"<w:p>{r('one ')}{secret}{r('two')}</w:p><w:p>{secret}</w:p>", styles=HIDDEN_STYLES)
    document = open_document("a.docx", content)
    assert document.texts == (["one two"] if is_hidden else ["one secret two", "secret"])
    assert body(capitals(document)).count(secret) == 2 * is_hidden


BETWEEN = "</w:t></w:r><w:r><w:t>"


def cap(text: str, kind: str = "drop") -> str:
    return f'<w:p><w:pPr><w:framePr w:dropCap="{kind}" w:lines="3"/></w:pPr>{r(text, "<w:sz/>")}</w:p>'


def alternatives(*contents: str) -> str:
    options = "".join(f"<mc:Choice>{content}</mc:Choice>" for content in contents[:-1])
    space = "http://schemas.openxmlformats.org/markup-compatibility/2006"
    return (
        f'<mc:AlternateContent xmlns:mc="{space}">{options}<mc:Fallback>{contents[-1]}</mc:Fallback>'
        "</mc:AlternateContent>"
    )


BOX = "<w:r><w:pict><w:txbxContent><w:p>{}</w:p></w:txbxContent></w:pict></w:r>"
SIGNS = END + FIELD.replace("REF x", "INDEX")
HIDDEN_SIGNS = [sign.replace("<w:r>", "<w:r><w:rPr><w:vanish/></w:rPr>") for sign in (FIELD, END)]
HIDDEN = f'<w:p><w:pPr><w:pStyle w:val="Secret"/></w:pPr>{r("one")}</w:p>'
PICTURES = alternatives('<w:r><w:drawing><x:y xmlns:x="z"/></w:drawing></w:r>', "<w:r><w:pict/></w:r>")
PARAGRAPHS = {
    "drop cap": [
        (cap("O") + f"<w:p>{r('ne two')}</w:p>", ["One two"], cap("T") + f"<w:p>{r('WO ONE')}</w:p>"),
        (cap("O", "margin") + f"<w:p>{MARK}{r('ne ')}{r('two', '<w:b/>')}</w:p>", ["One two"],
         cap("T", "margin") + f"<w:p>{MARK}{r('WO', '<w:b/>')}{r(' ONE')}</w:p>"),
        (cap("„O") + f"<w:p>{r('ne “two“')}</w:p>", ["„One “two“"], cap("“T") + f"<w:p>{r('WO“ „ONE')}</w:p>"),
        (cap("One") + f"<w:p>{r(' two')}</w:p>", ["One two"], cap("T") + f"<w:p>{r('WO ONE')}</w:p>"),
        (cap("O") + "<w:tbl/>" + f"<w:p>{r('two')}</w:p>", ["O", "two"],
         cap("O") + "<w:tbl/>" + f"<w:p>{r('TWO')}</w:p>"),
        (cap("O", "none") + f"<w:p>{r('two')}</w:p>", ["O", "two"], cap("O", "none") + f"<w:p>{r('TWO')}</w:p>"),
    ],
    "signs of fields across paragraphs": [
        (f"<w:p>{FIELD}{r('a b')}</w:p><w:p>{r('c d')}{SIGNS}{r('e f')}</w:p><w:p>{r('g h')}{END}</w:p>",
         ["a b", "c d", "e f", "g h"],
         f"<w:p>{FIELD}{r('B A')}</w:p><w:p>{r('D C')}{SIGNS}{r('F E')}</w:p><w:p>{r('H G')}{END}</w:p>"),
        ("<w:p>{}{}{}</w:p><w:p>{}{}{}</w:p>".format(
            r("a b"), HIDDEN_SIGNS[0], r("c d"), r("e f"), HIDDEN_SIGNS[1], r("g h")),
         ["a b", "c d", "e f", "g h"],
         "<w:p>{}{}{}</w:p><w:p>{}{}{}</w:p>".format(
            r("B A"), HIDDEN_SIGNS[0], r("D C"), r("F E"), HIDDEN_SIGNS[1], r("H G"))),
    ],
    "hidden style": [(f"{HIDDEN}<w:p>{r('two')}</w:p>", ["two"], f"{HIDDEN}<w:p>{r('TWO')}</w:p>")],
    "text box": [
        (f"<w:p>{r('before')}{BOX.format(r('in a box'))}{r(' after')}</w:p><w:p>{FIELD}{r('table of')}</w:p>"
         f"<w:p>{r('contents')}{END}</w:p>",
         ["before after", "in a box", "table of", "contents"],
         f"<w:p>{r('AFTER BEFORE')}{BOX.format(r('BOX A IN'))}</w:p><w:p>{FIELD}{r('OF TABLE')}</w:p>"
         f"<w:p>{r('CONTENTS')}{END}</w:p>"),
    ],
    "alternative": [
        (f"<w:p>{r('a ')}{alternatives(r('b', '<w:b/>'), r('c'))}{r(' d')}</w:p>", ["a b d"],
         f"<w:p>{r('D ')}{r('B', '<w:b/>')}{r(' A')}</w:p>"),
        (f"<w:p>{r('a ')}{alternatives(r('b') + '<x:new xmlns:x=' + repr('y') + '/>', r('c'))}{r(' d')}</w:p>",
         ["a c d"], f"<w:p>{r('D C A')}</w:p>"),
        (f"<w:p>{r('a ')}{alternatives(r('b'), r('c'), r('e'))}{r(' d')}</w:p>", ["a b d"], f"<w:p>{r('D B A')}</w:p>"),
        (f"<w:p>{r('a ')}{PICTURES}{r('d')}</w:p>", ["a d"], f"<w:p>{PICTURES}{r('D A')}</w:p>"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "texts", "wanted"),
    [pytest.param(*row, id=f"{kind} {n}") for kind, rows in PARAGRAPHS.items() for n, row in enumerate(rows)],
)
def test_docx_paragraphs_are_translated_and_restored(content: str, texts: list[str], wanted: str) -> None:
    document = open_document("a.docx", bare_docx(content, styles=HIDDEN_STYLES))
    assert document.texts == texts
    assert body(capitals(document)).replace(BETWEEN, "") == wanted.replace(BETWEEN, "")
    assert body(same(document)) == content


def test_docx_embedded_document_is_noted() -> None:
    chunk = '<w:altChunk xmlns:r="r" r:id="x"/>'
    document = open_document("a.docx", bare_docx(f"<w:p>{r('one')}</w:p>{chunk}{chunk}"))
    assert document.n_embedded == 2 and len(document.notes()) == 1
    assert len(open_document("a.docx", bare_docx(chunk)).notes()) == 2


HIDING = '<style:style style:name="{}"><style:text-properties text:display="{}"/></style:style>'


def test_odt_hidden_text_is_no_part_of_sentence() -> None:
    secret, named, shown = (f'<text:span text:style-name="{name}">secret </text:span>' for name in ("T1", "N", "T2"))
    paragraph = '<text:p text:style-name="P1">secret</text:p>'
    section = '<text:section text:display="none"><text:p>secret</text:p></text:section>'
    others = "<text:section><text:p>three</text:p></text:section>"
    content = f"<text:p>one {secret}{named}two {shown}</text:p>{paragraph}{section}{others}"
    inner = members(bare_odt(content))
    styles = "".join(HIDING.format(name, value) for name, value in (("T1", "none"), ("P1", "none"), ("T2", "true")))
    space = 'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"'
    head, start, rest = inner["content.xml"].decode().partition("<office:body>")
    styled = {
        "content.xml": f"{head}<office:automatic-styles {space}>{styles}</office:automatic-styles>{start}{rest}",
        "styles.xml": head.replace("document-content", "document-styles")
        + f"<office:styles {space}>{HIDING.format('N', 'none')}</office:styles></office:document-styles>",
    }
    document = open_document("a.odt", zipped(inner | styled))
    assert document.texts == ["one two secret", "three"]
    new = odt_body(capitals(document))
    assert all(new.count(kept) == 1 for kept in (secret, named, paragraph, section))
    assert re.sub("<[^>]*>", "", new).replace("secret", "").split() == ["SECRET", "TWO", "ONE", "THREE"]


def test_odt_with_an_identifier_twice_is_read() -> None:
    names = '<text:p xml:id="x">one</text:p><text:p xml:id="x">two</text:p>'
    document = open_document("a.odt", bare_odt(names))
    assert document.texts == ["one", "two"] and odt_body(same(document)) == names


# --- Excel and PowerPoint ----------------------------------------------------------------------------


def sheet(content: bytes, number: int = 1) -> str:
    """Return the rows of a sheet without attributes for white space, in which each cell has one run if it is plain."""
    xml = members(content)[f"xl/worksheets/sheet{number}.xml"].decode().replace(' xml:space="preserve"', "")
    return xml.partition("<sheetData>")[2].partition("</sheetData>")[0]


def cell(reference: str, *runs: str, style: str = "") -> str:
    attributes = f' s="{style}"' if style else ""
    return f'<c r="{reference}"{attributes} t="inlineStr"><is>{"".join(f"<r>{run}</r>" for run in runs)}</is></c>'


def test_xlsx_texts_are_those_of_visible_sheets_without_formulas_and_names_of_tables() -> None:
    content = bare_xlsx({"Tabelle": ROWS, "Blatt": SECOND}, STRINGS, tables=TABLE)
    document = open_document("a.xlsx", content)
    assert document.texts == [
        "Der Hund & die Katze", "Eine rote Katze", "Zeile eins", "Zeile zwei", "Two lines", "Der Hund & die Katze",
        "東京です", "Noch ein Blatt",
    ]  # fmt: skip
    assert document.keys[:3] == ["Tabelle!A2", "Tabelle!A3", "Tabelle!A4"] and document.keys[-1] == "Blatt!A1"
    for state in ("hidden", "veryHidden"):
        hidden = bare_xlsx({"Tabelle": ROWS, "Blatt": SECOND}, STRINGS, states=f'state="{state}"')
        assert open_document("a.xlsx", hidden).texts == ["Noch ein Blatt"]


def test_xlsx_translation_changes_only_chosen_cells() -> None:
    content = bare_xlsx({"Tabelle": ROWS, "Blatt": SECOND}, STRINGS, tables=TABLE)
    document = open_document("a.xlsx", content)
    new = document.translated([*map(reversed_upper, document.texts[:-1]), document.texts[-1]])
    before, after = members(content), members(new)
    assert [name for name in before if before[name] != after[name]] == ["xl/worksheets/sheet1.xml"]
    written = sheet(new)
    assert cell("A2", "<t>KATZE DIE &amp; HUND DER</t>", style="3") in written
    assert cell("A3", "<t>KATZE </t>", '<rPr><b/><sz val="11"/></rPr><t>ROTE</t>', "<t> EINE</t>") in written
    assert cell("A4", "<t>EINS ZEILE</t>", "<t>_x000D_</t>", "<t>\n</t>", "<t>ZWEI ZEILE</t>") in written
    assert cell("B6", "<t>東京です</t>") in written
    for kept in re.findall(r'<row r="[15]">.*?</row>|<c r="[BC][23]".*?/c?>', ROWS):
        assert kept in written


@pytest.mark.parametrize(
    ("columns", "n_kept", "wanted"),
    [
        (Columns("A", "B"), 3, ['<c r="A2" s="3" t="s"><v>1</v></c>' + cell("B2", "<t>KATZE DIE &amp; HUND DER</t>",
         style="3")]),
        (Columns("Deutsch", "Englisch", "Ort"), 2, ['<c r="C2"><v>45000</v></c>', cell("B3", "<t>KATZE </t>",
         '<rPr><b/><sz val="11"/></rPr><t>ROTE</t>', "<t> EINE</t>", style="7") + '<c r="C3"']),
        (Columns("B", "E"), 0, ['<c r="C1" t="s"><v>4</v></c>' + cell("E1", "<t>ENGLISCH</t>")]),
        (Columns("Englisch"), 0, ['<c r="A2" s="3" t="s"><v>1</v></c>', cell("B4", "<t>LINES TWO</t>")]),
    ],
)  # fmt: skip
def test_xlsx_columns_are_chosen_by_letter_or_name(columns: Columns, n_kept: int, wanted: list[str]) -> None:
    content = bare_xlsx({"Tabelle": ROWS, "Blatt": SECOND}, STRINGS)
    document = open_document("a.xlsx", content, columns=columns)
    new = capitals(document)
    assert all(part in sheet(new) for part in wanted), sheet(new)
    assert document.n_kept == n_kept and "xl/worksheets/sheet2.xml" in members(new)


def test_xlsx_target_gets_text_that_is_equal_in_both_languages() -> None:
    document = open_document("a.xlsx", bare_xlsx({"A": SECOND}), columns=Columns("A", "B", "A"))
    assert document.keys == ["Noch ein Blatt"] and cell("B1", "<t>Noch ein Blatt</t>") in sheet(same(document))


def test_xlsx_without_columns_in_any_sheet_raises() -> None:
    with pytest.raises(DataError, match=r"Deutsch, Englisch.*--columns"):
        open_document("a.xlsx", bare_xlsx({"A": ROWS}, STRINGS), columns=Columns("Französisch"))


def test_xlsx_cells_of_array_formula_are_kept() -> None:
    rows = '<row r="1"><c r="A1" t="str"><f t="array" ref="A1:A2">B1:B2</f><v>eins</v></c></row>'
    rows += '<row r="2"><c r="A2" t="str"><v>zwei</v></c></row>'
    assert open_document("a.xlsx", bare_xlsx({"A": rows})).texts == []


def test_xlsx_direction_follows_language_and_formulas_are_computed_again() -> None:
    content = bare_xlsx({"A": SECOND})
    right_to_left = _in_language("a.xlsx", content, "de", "ar")
    assert b'<sheetView rightToLeft="1" ' in members(right_to_left)["xl/worksheets/sheet1.xml"]
    assert b'<calcPr fullCalcOnLoad="1" ' in members(right_to_left)["xl/workbook.xml"]
    assert b"rightToLeft" not in members(_in_language("a.xlsx", right_to_left, "ar", "de"))["xl/worksheets/sheet1.xml"]
    document = open_document("a.xlsx", content, "de", "ar", Columns("A", "B"))
    assert b"rightToLeft" not in document.translated(document.texts, ("de", "ar"))


@pytest.mark.parametrize(
    "content",
    [
        bare_xlsx({"A": '<row r="1"><c r="A1" t="s"><v>0</v></c></row>' * 700}, f"<si><t>{'ab ' * 10_000}</t></si>"),
        bare_docx(""),
        zipped({"xl/workbook.xml": "<workbook>"}),
    ],
)
def test_xlsx_that_is_damaged_or_too_large_raises(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MAX_XML_BYTES", 100_000)
    with no_hang(), pytest.raises(DataError, match=r"a\.xlsx"):
        open_document("a.xlsx", content)


def slide(content: bytes, part: str = "slides/slide1.xml") -> str:
    return "".join(re.findall("<a:p>.*</a:p>", members(content)[f"ppt/{part}"].decode()))


def test_pptx_keeps_formats_breaks_and_fields() -> None:
    document = open_document("a.pptx", bare_pptx(SLIDE, NOTES))
    assert document.texts == ["Der große Hund", "läuft", "schnell", "Eine Notiz"]
    new = document.translated([*map(reversed_upper, document.texts)], ("de", "en"))
    assert slide(new) == (
        '<a:p><a:pPr algn="ctr"/><a:r><a:rPr lang="en" dirty="0"/><a:t>HUND </a:t></a:r>'
        '<a:r><a:rPr lang="en" b="1"/><a:t>GROßE</a:t></a:r><a:r><a:rPr lang="en" dirty="0"/><a:t> DER</a:t></a:r>'
        '<a:br/><a:r><a:rPr lang="en" dirty="0"/><a:t>LÄUFT</a:t></a:r><a:r><a:t>\t</a:t></a:r>'
        '<a:r><a:rPr lang="en" dirty="0"/><a:t>SCHNELL</a:t></a:r><a:endParaRPr lang="en"/></a:p>'
        '<a:p><a:fld id="{1}" type="slidenum"><a:rPr lang="en"/><a:t>3</a:t></a:fld></a:p>'
    )
    assert "NOTIZ EINE" in slide(new, "notesSlides/n.xml")
    assert slide(new, "slideMasters/m.xml") == PROMPT  # is not shown


def test_pptx_direction_follows_language() -> None:
    content = bare_pptx(f'{SLIDE}<a:p><a:pPr algn="r"/><a:r><a:t>rechts</a:t></a:r></a:p><a:tbl><a:tblPr/></a:tbl>')
    new = members(_in_language("a.pptx", content, "de", "he"))
    assert b'<a:lvl1pPr algn="r" rtl="1"/>' in new["ppt/presentation.xml"]
    assert all(part in new["ppt/slides/slide1.xml"] for part in (b'algn="ctr"', b'algn="l"', b'<a:tblPr rtl="1"'))
    back = members(_in_language("a.pptx", zipped(new), "he", "de"))
    assert b'<a:lvl1pPr algn="l" rtl="0"/>' in back["ppt/presentation.xml"]


def test_other_archive_is_no_presentation() -> None:
    with pytest.raises(DataError, match="not a PowerPoint presentation"):
        open_document("a.pptx", zipped({"word/document.xml": "<x/>"}))
