"""Tables, workbooks and presentations with all that is read in them."""

from __future__ import annotations

from collections.abc import Mapping

from documents import relationships, zipped

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATED = "http://schemas.openxmlformats.org/package/2006/relationships"
CONTENT_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"

CSV = (
    '\ufeffid;source;target;note\r\n1;"Hallo, Welt";;Gruß\r\n2;"Er sagte ""Ja"";\r\nzwei Zeilen";"";\r\n'
    '3; 42 ;;\r\n4;Fertig mit {name};Done with {name};"x"\r\n\r\n5;5" Rohr & <b>fett</b>;\r\n;;;\r\n'
)
TSV = (
    'source\ttarget\n"Hallo" sagte er\t\nNein, nein\tNo, no\n"Ein ""Wort"""\t\n"Alles"\t""\n'
    '"Er ging\nund kam\tdann"\t\n'
)


def bare_xlsx(sheets: Mapping[str, str], strings: str = "", *, tables: str = "", states: str = "") -> bytes:
    """Return a workbook with the rows of each sheet by its title, given as XML.

    strings: its shared strings; tables: a table of the first sheet; states: attributes of the first sheet.
    """
    names = []
    parts = {}
    related = []
    for number, (title, rows) in enumerate(sheets.items(), start=1):
        names.append(f'<sheet name="{title}" sheetId="{number}" r:id="r{number}" {states if number == 1 else ""}/>')
        related.append(_relation(f"r{number}", "worksheet", f"worksheets/sheet{number}.xml"))
        parts[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{MAIN}"><sheetViews><sheetView workbookViewId="0"/></sheetViews>'
            f"<sheetData>{rows}</sheetData></worksheet>"
        )
    related.append(_relation("r0", "sharedStrings", "sharedStrings.xml"))
    if tables:
        parts["xl/tables/table1.xml"] = tables
        parts["xl/worksheets/_rels/sheet1.xml.rels"] = _relations(_relation("t", "table", "../tables/table1.xml"))
    return zipped({
        "[Content_Types].xml": f'<Types xmlns="{CONTENT_TYPES}"><Default Extension="xml" ContentType="x"/></Types>',
        "_rels/.rels": _relations(_relation("m", "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{_R}"><sheets>{"".join(names)}</sheets>'
        '<calcPr calcId="1"/></workbook>',
        "xl/_rels/workbook.xml.rels": _relations(*related),
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}" count="9" uniqueCount="9">{strings}</sst>',
        **parts,
    })  # fmt: skip


def _relation(number: str, kind: str, target: str) -> str:
    return f'<Relationship Id="{number}" Type="{_R}/{kind}" Target="{target}"/>'


def _relations(*related: str) -> str:
    return f'<Relationships xmlns="{_RELATED}">{"".join(related)}</Relationships>'


STRINGS = (
    "<si><t>Deutsch</t></si><si><t>Der Hund &amp; die Katze</t></si>"
    '<si><r><t xml:space="preserve">Eine </t></r><r><rPr><b/><sz val="11"/></rPr><t>rote</t></r>'
    '<r><t xml:space="preserve"> Katze</t></r></si><si><t>Zeile eins_x000D_\nZeile zwei</t></si><si><t>Ort</t></si>'
    "<si><t>東京です</t><rPh sb='0' eb='2'><t>トウキョウ</t></rPh><phoneticPr fontId='1'/></si>"
)
ROWS = (
    '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>Englisch</t></is></c>'
    '<c r="C1" t="s"><v>4</v></c></row>'
    '<row r="2"><c r="A2" s="3" t="s"><v>1</v></c><c r="C2"><v>45000</v></c></row>'
    '<row r="3"><c r="A3" t="s"><v>2</v></c><c r="B3" s="7"/><c r="C3" t="b"><v>1</v></c></row>'
    '<row r="4"><c r="A4" t="s"><v>3</v></c><c r="B4" t="str"><v>Two lines</v></c></row>'
    '<row r="5"><c r="A5" t="str"><f>A2&amp;" x"</f><v>Der Hund &amp; die Katze x</v></c></row>'
    '<row r="6"><c r="A6" t="s"><v>1</v></c><c r="B6" t="s"><v>5</v></c></row>'
)
TABLE = (
    f'<table xmlns="{MAIN}" id="1" name="T" displayName="T" ref="A1:C6"><tableColumns count="3">'
    '<tableColumn id="1" name="Deutsch"/><tableColumn id="2" name="Englisch"/><tableColumn id="3" name="Ort"/>'
    "</tableColumns></table>"
)
SECOND = '<row r="1"><c r="A1" t="inlineStr"><is><t>Noch ein Blatt</t></is></c></row>'


PROMPT = "<a:p><a:r><a:t>Titel eingeben</a:t></a:r></a:p>"


def bare_pptx(slide: str, notes: str = "") -> bytes:
    """Return a presentation of one slide with these paragraphs and notes as XML."""
    names = f'xmlns:p="{P}" xmlns:a="{A}"'

    styles = '<p:defaultTextStyle><a:lvl1pPr algn="l" rtl="0"/></p:defaultTextStyle>'

    def shapes(paragraphs: str) -> str:
        return f"<p:cSld><p:spTree><p:sp><p:txBody><a:bodyPr/>{paragraphs}</p:txBody></p:sp></p:spTree></p:cSld>"

    return zipped({
        "[Content_Types].xml": f'<Types xmlns="{CONTENT_TYPES}"/>',
        "_rels/.rels": relationships(**{"ppt/presentation.xml": "officeDocument"}),
        "ppt/presentation.xml": f"<p:presentation {names}>{styles}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": relationships(
            **{"slides/slide1.xml": "slide", "slideMasters/m.xml": "slideMaster"}
        ),
        "ppt/slides/slide1.xml": f"<p:sld {names}>{shapes(slide)}</p:sld>",
        "ppt/slides/_rels/slide1.xml.rels": relationships(**{"../notesSlides/n.xml": "notesSlide"}),
        "ppt/notesSlides/n.xml": f"<p:notes {names}>{shapes(notes)}</p:notes>",
        "ppt/slideMasters/m.xml": f"<p:sldMaster {names}>{shapes(PROMPT)}</p:sldMaster>",
    })  # fmt: skip


SLIDE = (
    '<a:p><a:pPr algn="ctr"/><a:r><a:rPr lang="de-DE" dirty="0"/><a:t>Der </a:t></a:r><a:r><a:rPr lang="de-DE" b="1"/>'
    '<a:t>große</a:t></a:r><a:r><a:rPr lang="de-AT"/><a:t> Hund</a:t></a:r><a:br/><a:r><a:t>läuft\tschnell</a:t></a:r>'
    '<a:endParaRPr lang="de-DE"/></a:p>'
    '<a:p><a:fld id="{1}" type="slidenum"><a:rPr lang="de-DE"/><a:t>3</a:t></a:fld></a:p>'
)
NOTES = "<a:p><a:r><a:t>Eine Notiz</a:t></a:r></a:p>"

SAMPLES: dict[str, bytes] = {
    "table.csv": CSV.encode(),
    "table.tsv": TSV.encode("utf-16"),
    "book.xlsx": bare_xlsx({"Tabelle": ROWS, "Blatt": SECOND}, STRINGS, tables=TABLE),
    "talk.pptx": bare_pptx(SLIDE, NOTES),
}
