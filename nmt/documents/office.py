"""Word (`.docx`), PowerPoint (`.pptx`), Excel (`.xlsx`) and OpenDocument (`.odt`) files: zip archives of XML whose
paragraphs are translated.

Paragraphs are found in the body, tables, headers, footers, notes and text boxes, and in Excel in cells. In Word,
PowerPoint and Excel, a run is a stretch of characters of one format; the most frequent format of a paragraph is its
base. Other formats, links and fields of text are spans over the text, other fields are placeholders, and notes,
pictures and similar elements are marks in it. The formats are described in
https://ecma-international.org/publications-and-standards/standards/ecma-376/ (part 1) and
https://docs.oasis-open.org/office/OpenDocument/v1.3/ (part 3).
"""

from __future__ import annotations

import io
import itertools
import math
import posixpath
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from copy import copy, deepcopy
from functools import partial
from string import ascii_uppercase, digits
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import regex
from lxml import etree

from nmt.console import printable
from nmt.documents.inline import Mark, Passage, Text, Token
from nmt.documents.tables import find_columns
from nmt.documents.types import Document, DocumentOptions, Languages, Results, Rules, in_target
from nmt.errors import DataError, error_text
from nmt.files.compressed import DamagedError, damage, open_zip

MAX_BYTES = 1 << 28
"""Maximum size of all members together, decompressed."""
MAX_XML_BYTES = 1 << 24
"""Maximum size of the members that are parsed, together."""
MAX_ELEMENTS = 150_000
"""Maximum number of elements of a member: some seconds of work, and up to 1 KB of memory for each."""
_ALLOWED_ELEMENTS = 30_000
"""Number of elements that any archive may have; a larger archive may have one for each of its bytes."""
_MAX_MEMBERS = 10_000
_OLE = b"\xd0\xcf\x11\xe0"


class Package:
    """A zip archive in memory, whose members are decompressed when they are needed."""

    def __init__(self, name: str, content: bytes) -> None:
        """Open an archive. Raises DataError if it is not a zip archive, damaged, encrypted or too large."""
        self.name = name
        self._most_elements = min(MAX_ELEMENTS, max(_ALLOWED_ELEMENTS, len(content)))
        if content.startswith(_OLE):
            raise DataError(f"{name}: encrypted, or in an old format; save it again, without a password")
        if not content.startswith(b"PK"):
            raise DataError(f"{name}: not an office document, although its name says so; was it renamed?")
        try:
            self._archive = open_zip(io.BytesIO(content), name, len(content))
            infos = self._archive.infolist()
            total = sum(info.file_size for info in infos)
            if len(infos) > _MAX_MEMBERS or total > MAX_BYTES:
                unpacked = f"{len(infos):,} members with {total:,} bytes when decompressed"
                raise DataError(
                    f"{name}: {unpacked}, too large to open safely; divide the document, or remove its pictures"
                )
            self.members = self._archive.namelist()
            with damage(name, "zip"):  # before anything is translated
                if len({*self.members}) < len(infos) or self._archive.testzip() is not None:
                    raise zipfile.BadZipFile
        except DamagedError:
            raise DataError(f"{name}: incomplete or damaged; save it again, or send or download it again") from None

    def check_size(self, members: Collection[str]) -> None:
        """Raise DataError if these members are too large to be parsed."""
        if sum(self._archive.getinfo(member).file_size for member in members) > MAX_XML_BYTES:
            raise DataError(f"{self.name}: more than {MAX_XML_BYTES >> 20} MB of XML; divide the document")

    def content(self, member: str) -> bytes:
        """Return the content of a member. Raises DataError if it is too large."""
        self.check_size([member])
        return self._archive.read(member)

    def xml(self, member: str) -> etree._Element:
        """Parse a member without expanding entities or opening other files.

        Raises DataError if it is not XML, or not safe to read.
        """
        content = self.content(member)
        if (n := content.count(b"<") - content.count(b"</")) > self._most_elements:
            most = f"{self._most_elements:,}, the maximum for a file of this size"
            raise DataError(f"{self.name}: {member} has {n:,} elements, more than {most}; divide the document")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise DataError(f"{self.name}: {member}: not UTF-8; save the document again") from None
        if "<!DOCTYPE" in text:
            raise DataError(f"{self.name}: {member}: a DOCTYPE is not safe to read; save the document again")
        parser = etree.XMLParser(
            encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, collect_ids=False
        )
        try:
            return etree.fromstring(content, parser)
        except etree.XMLSyntaxError as error:
            broken = f"{member}: broken XML: {printable(error_text(error))}"
            raise DataError(f"{self.name}: {broken}; save the document again") from None

    def changed(self, members: Collection[str], new: Callable[[str], bytes | None]) -> bytes:
        """Return the archive with new contents for some members.

        new: called with the name of each of `members`, in the order of the archive; returns the new content, or None to
        keep the member.
        """
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            for info in self._archive.infolist():
                content = new(info.filename) if info.filename in members else None
                if content is not None:
                    archive.writestr(copy(info), content)
                    continue
                with self._archive.open(info) as source, archive.open(copy(info), "w") as target:
                    shutil.copyfileobj(source, target)
        return written.getvalue()


def related(package: Package, part: str) -> Iterator[tuple[str, str, str]]:
    """Yield each part that a part, or with an empty name the package, has a relationship to, its kind, and the name of
    the relationship.

    Targets outside the package, such as addresses and other files, are left out.
    """
    folder, name = posixpath.split(part)
    member = posixpath.join(folder, f"_rels/{name}.rels")
    for relation in package.xml(member).iterfind("{*}Relationship") if member in package.members else ():
        path = posixpath.normpath(posixpath.join("/", folder, unquote(relation.get("Target", ""))))[1:]
        if relation.get("TargetMode") != "External":
            yield path, posixpath.basename(relation.get("Type", "")), relation.get("Id", "")


def main_part(package: Package, usual: str, problem: str) -> str:
    """Return the main part of an office document. Raises DataError with a `problem` if neither it nor the usual one
    exists."""
    parts = [*(part for part, kind, _ in related(package, "") if kind == "officeDocument"), usual]
    main = next((part for part in parts if part in package.members), None)
    if main is None:
        raise DataError(f"{package.name}: {problem}")
    return main


_SHOWN = etree.XPath("string()")
_BINDING = "{*}dataBinding"


class OfficeMarkup(NamedTuple):
    """The markup of a mark in a paragraph: whole elements, or the start or end of an element that contains text."""

    elements: Sequence[etree._Element] = ()
    format: etree._Element | None = None
    """In Word, a run with the format of the elements, or of the text up to the closing mark if there are none."""
    around: etree._Element | None = None
    """The element that contains the text."""
    replaced: str | None = None
    """The placeholder that the elements replace, up to the closing mark, which has an empty one."""


AppendText = Callable[[etree._Element, etree._Element | None, str], None]
"""A function that appends text to an element, in the format of a Word run."""


class Paragraph(NamedTuple):
    """A paragraph: its content, its element, a Word run with its base format, a function that appends text, the number
    of ruby readings that the content lacks, the text element of its drop cap, if Word has it in a paragraph, and in
    Excel the key of the cell, and whether it is written even if the translation equals the text."""

    passage: Passage[OfficeMarkup]
    element: etree._Element
    base: etree._Element | None
    append_text: AppendText
    n_readings: int
    cap: etree._Element | None = None
    key: str = ""
    is_new: bool = False


def _open(
    package: Package,
    members: Collection[str],
    paragraphs: Callable[[str, etree._Element], Iterator[Paragraph]],
    rules: Rules,
) -> Document:
    """Open an office document whose paragraphs are in `members`, and whose language and direction follow `rules`.

    paragraphs: yields the paragraphs of a member, given its name and root. Raises DataError.
    """
    package.check_size(members)

    texts = []
    keys = []
    n_readings = n_embedded = 0
    for member in members:
        n_embedded += len(re.findall(rb"<\w+:altChunk[\s/>]", package.content(member)))
        for paragraph in paragraphs(member, package.xml(member)):  # not kept: a tree takes ten times as much memory
            texts += paragraph.passage.texts
            keys += [paragraph.key] * len(paragraph.passage.texts)
            n_readings += paragraph.n_readings

    def write(results: Results, languages: Languages) -> bytes:
        def new(member: str) -> bytes | None:
            root = package.xml(member)
            properties = (element for element in root.iterdescendants("{*}sdtPr") if element.find(_BINDING) is not None)
            shown = {control: hash(_SHOWN(control)) for control in {element.getparent() for element in properties}}
            is_changed = False
            for paragraph in list(paragraphs(member, root)):
                is_other, tokens = paragraph.passage.translated(results)
                if is_other:
                    _rewrite(paragraph, tokens)
                is_changed |= is_other or paragraph.is_new
            for control, before in shown.items():  # Word would show the text of the part that it is bound to
                if hash(_SHOWN(control)) != before:
                    for element in control.iterchildren("{*}sdtPr"):
                        etree.strip_elements(element, _BINDING, with_tail=False)
            xml = etree.tostring(root.getroottree(), encoding="UTF-8", xml_declaration=True, standalone=True).decode()
            written = in_target(xml, languages, rules)
            return written.encode() if is_changed or written != xml else None

        return package.changed(members, new)

    return Document(texts, write, keys=keys, n_readings=n_readings, n_embedded=n_embedded)


def _rewrite(paragraph: Paragraph, tokens: Iterable[Token[OfficeMarkup]]) -> None:
    """Replace the content of a paragraph by tokens."""
    _clear(paragraph.element)
    around = [paragraph.element]
    formats = [paragraph.base]
    replaced = None
    cap = paragraph.cap
    for token in tokens:
        if isinstance(token, Text):
            text = token.raw or token.text
            if replaced:  # other text is kept beside the elements, even if it is aligned with the placeholder
                text = re.sub(r"\A(?=\w)", " ", text)
                text = re.sub(rf"\A ?\{{?{replaced[1:-1]}(?:\}}|(?![^\w\s]?\w))", "", text)
                replaced = None
            if cap is not None and (initial := regex.match(r"\W*(?=\w)\X", text)):
                cap.text, text = initial[0], text[initial.end() :]
                cap = None
            if text:
                paragraph.append_text(around[-1], formats[-1], text)
            continue
        markup = token.markup
        replaced = markup.replaced or replaced
        if markup.around is not None and token.kind == "open":
            markup.around.tail = None
            around[-1].append(markup.around)
            around.append(_content(markup.around))
            _clear(around[-1])
        elif markup.around is not None:
            around.pop()
        elif markup.elements:
            parent = around[-1] if markup.format is None else _append_run(around[-1], markup.format)
            for element in markup.elements:
                element.tail = None
                parent.append(element)
        elif token.kind == "open":
            formats.append(markup.format)
        elif markup.replaced is None:
            formats.pop()
    paragraph.element.extend(paragraph.element.findall("{*}endParaRPr"))  # in PowerPoint, after all text


_COMPUTED = re.compile(
    r"\s*(?:=|(?:AUTHOR|BARCODE|CITATION|CREATEDATE|DATE|DISPLAYBARCODE|EDITTIME|FILENAME|FILESIZE|LASTSAVEDBY|"
    r"MERGEBARCODE|MERGEREC|MERGESEQ|NOTEREF|NUMCHARS|NUMPAGES|NUMWORDS|PAGE|PAGEREF|PRINTDATE|REVNUM|SAVEDATE|"
    r"SECTION|SECTIONPAGES|SEQ|SYMBOL|TEMPLATE|TIME|USERADDRESS|USERINITIALS|USERNAME)\b)"
    r"|[^\0]*\0[\W\d_]*\Z",
    re.IGNORECASE,
)
"""Matches the code of a Word field that is computed, or any code, a null character, and a result without letters."""


def _object(elements: Sequence[etree._Element], text: str, code: str | None = "=") -> list[Token[OfficeMarkup]]:
    """Return the tokens of a field that stays as it is; none if its text is to be translated, according to its code.

    In the sentence, it is a short placeholder such as `{3}`.
    """
    if not _COMPUTED.match(f"{code}\0{text}"):
        return []
    number = re.sub(r"\D", "", text)[:3] or "0"
    placeholder = f"{{{number}}}" if text.strip() else ""
    opening = Mark("open", OfficeMarkup(elements, replaced=placeholder), elements[0], is_strict=True)
    return [opening, Text(placeholder), Mark("close", OfficeMarkup(replaced=""), elements[0])]


def _clear(element: etree._Element) -> None:
    """Remove the content of an element but keep its properties."""
    element.text = None
    element[:] = [child for child in element if str(child.tag).endswith("Pr")]


def _selected(root: etree._Element, path: str) -> set[Any]:
    """Return the elements or values that an XPath expression selects."""
    return {*root.xpath(path, namespaces=_SPACES | {"w": etree.QName(root).namespace or "-"})}


def _content(element: etree._Element) -> etree._Element:
    """Return the element that contains the runs of `element`: itself, or the content element of a Word control."""
    return next((child for child in element if str(child.tag).endswith("}sdtContent")), element)


# --- Word ------------------------------------------------------------------------------------------

_NAMESPACES = (
    "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}",
    "{http://purl.oclc.org/ooxml/wordprocessingml/main}",
)
_PRESERVE = {"{http://www.w3.org/XML/1998/namespace}space": "preserve"}
_MAIN = "word/document.xml"
"""The usual name of the main part."""
_PARTS = frozenset(["header", "footer", "footnotes", "endnotes", "styles", "settings"])
"""Kinds of relationships from the main part to others that have text or state a language."""
_NO_WORD = "not a Word document, although its name says so; was it renamed?"
_HIDING = "w:style[w:rPr/w:vanish[not(@w:val = '0' or @w:val = 'false' or @w:val = 'off')]]/@w:styleId"
"""Selects the names of styles of hidden text."""
_HIDDEN = "//w:r[w:rPr/w:vanish[not(@w:val = '0' or @w:val = 'false' or @w:val = 'off')]]"
"""Selects runs that are hidden, whatever their style is."""
_PLAIN = "//mc:AlternateContent/*[w:r/w:t][not(.//*[not(contains(namespace-uri(), '/wordprocessingml/'))])][1]"
"""Selects the first of several alternatives that has runs of text and nothing that older programs cannot show."""
_CAPS = (
    "//w:p[w:pPr/w:framePr[@w:dropCap != 'none']][count(.//w:t) = 1]"
    "[following-sibling::*[1][self::w:p[not(w:pPr/w:framePr)][w:r/w:t]]]//w:t[normalize-space()]"
)
"""Selects the texts of drop caps, which are in a paragraph before the one with the other letters."""

_AROUND = frozenset(["hyperlink", "ins", "moveTo", "smartTag", "fldSimple", "customXml", "dir", "bdo", "sdt"])
"""Elements that contain runs to translate."""
_PAIR = re.compile("(bookmark|commentRange|perm|moveFromRange|moveToRange)(Start|End)")
_BREAKS = frozenset(["tab", "br", "cr", "ptab", "fldChar", "instrText"])
"""Elements that divide texts, among them parts of a field in several paragraphs, which thus keep their order."""
_HINTS = frozenset(["proofErr", "lastRenderedPageBreak", "softHyphen"])
"""Elements that are omitted because they do not apply to another text."""
_NOT_FORMAT = ("}lang", "}noProof")
"""Properties that split text into several runs in Word without a visible change of format."""
_NO_FORMATS = frozenset(["lang", "altLang", "noProof", "dirty", "err", "smtClean", "smtId", "bmk"])
"""Attributes of properties in PowerPoint that do so."""
_SWITCHES = r"<w:(?:bidi|rtl|cs|bidiVisual|rtlGutter)(?: [^<>]*)?/>"
"""Matches the marks of paragraphs, sections, runs and tables from right to left, in which Word swaps left and right."""
_WORD_RULES = Rules(
    {
        r'(<w:(?:lang|themeFontLang)\b[^<>]*?\sw:val=")(?:SOURCE)(?:-\w+)*(?=")': r"\1TARGET",
        r'(<w:(?:lang|themeFontLang)\b[^<>]*?\sw:eastAsia=")(?:SOURCE)(?:-\w+)*(?=")': r"\1TARGET",
        r'(<w:(?:lang|themeFontLang)\b[^<>]*?\sw:bidi=")(?:SOURCE)(?:-\w+)*(?=")': r"\1TARGET",
    },
    # text from right to left has properties of its own for its language, bold, italic and size
    {
        _SWITCHES: "",
        r'(<w:(?:lang|themeFontLang)\b(?=[^<>]*\sw:bidi="TARGET")[^<>]*?)\sw:val="[^"]*"': r"\1",
        r'(<w:(?:lang|themeFontLang)\b[^<>]*?)\sw:bidi="TARGET"': r'\1 w:val="TARGET"',
        r"<w:(b|i|sz)Cs\b([^<>]*/>)": r"<w:\1\2\g<0>",
        r"(<w:(b|i|sz)\b[^<>]*/>)\s*<w:\2\b[^<>]*/>": r"\1",
    },
    {
        _SWITCHES: "",
        r"<w:(p|r|tbl|sect)Pr( [^<>]*)?/>": r"<w:\1Pr\2></w:\1Pr>",
        r"(<w:([pr])(?: [^<>]*)?(?<!/)>)(?!\s*<w:\2Pr>)": r"\1<w:\2Pr></w:\2Pr>",
        r'(<w:(?:lang|themeFontLang)\b(?=[^<>]*\sw:val="TARGET")[^<>]*?)\sw:bidi="[^"]*"': r"\1",
        r'<w:(?:lang|themeFontLang)\b[^<>]*?\sw:val="TARGET"': r'\g<0> w:bidi="TARGET"',
        r"<w:(b|i|sz)( [^<>]*)?/>(?!\s*<w:\1Cs\b)": r"\g<0><w:\1Cs\2/>",
        # after the elements that precede it in the schema
        r"<w:p(?: [^<>]*)?>\s*<w:pPr>(?:\s*+(?:<w:(?:pStyle|keepNext|keepLines|pageBreakBefore|framePr|widowControl|"
        r"suppressLineNumbers|shd|suppressAutoHyphens|kinsoku|wordWrap|overflowPunct|topLinePunct|autoSpaceDE|"
        r"autoSpaceDN)\b[^<>]*/>|<w:(?:numPr|pBdr|tabs)>(?:\s*+<[^<>]*/>)*+\s*+</w:(?:numPr|pBdr|tabs)>))*+": (
            r"\g<0><w:bidi/>"
        ),
        # not in text with only Latin letters
        r"(<w:r(?: [^<>]*)?>\s*<w:rPr>(?:\s*+<w:(?!(?:em|lang|eastAsianLayout|specVanish|oMath)\b)[^<>]*/>)*+)"
        r"(?!(?:\s*+<[^<>]*/>)*+\s*+</w:rPr>\s*<w:t(?: [^<>]*)?>(?=[^<A-Za-z]*+[A-Za-z])[ -;=-~]*+</w:t>\s*</w:r>)": (
            r"\1<w:rtl/>"
        ),
        r"<w:tblPr>(?:\s*+<w:(?:tblStyle|tblpPr|tblOverlap)\b[^<>]*/>)*+": r"\g<0><w:bidiVisual/>",
        # before the elements that follow it in the schema
        r"<w:sectPr(?: [^<>]*)?>(?:\s*+(?!</?w:(?:docGrid|printerSettings|sectPr|sectPrChange)\b)<[^<>]*>)*+": (
            r"\g<0><w:bidi/>"
        ),
    },
)
_MAX_FIELDS = 32
"""Maximum depth of nested fields: each level takes time proportional to its content. Word allows 20."""
_MAX_FORMAT = 2000
"""Maximum number of characters of the properties of a run, which are copied to each part of it. An element counts as
20, since copies of empty ones take memory, too."""


def open_docx(name: str, content: bytes, _: DocumentOptions) -> Document:
    """Open a Word document. Raises DataError if it is invalid."""
    package = Package(name, content)
    main = main_part(package, _MAIN, _NO_WORD)
    kinds = {part: kind for part, kind, _ in related(package, main)}
    members = [member for member in package.members if member == main or kinds.get(member) in _PARTS]
    styles = [_selected(package.xml(member), _HIDING) for member in members if kinds.get(member) == "styles"]
    return _open(package, members, partial(_word_paragraphs, name, set[str]().union(*styles)), _WORD_RULES)


def _word_paragraphs(name: str, hidden_styles: Set[str], _: str, root: etree._Element) -> Iterator[Paragraph]:
    namespace = next((space for space in _NAMESPACES if root.tag.startswith(space)), None)
    if namespace is None:
        raise DataError(f"{name}: {_NO_WORD}")
    caps = {next(text.iterancestors(f"{namespace}p")): text for text in _selected(root, _CAPS)}
    reader = _WordReader(namespace, root, hidden_styles)
    for element in root.iter(f"{namespace}p"):
        if element in caps or element in reader.hidden:
            continue
        cap = caps.get(element.getprevious())
        reader.n_readings = 0
        reader.initial = "" if cap is None else cap.text
        tokens, base = _formatted(list(reader.inside(element)))
        append = partial(_append_word_text, namespace, _PRESERVE)
        yield Paragraph(Passage(tokens), element, base, append, reader.n_readings, cap)


class _Run(NamedTuple):
    """A part of the text of a Word run, and a key of its format."""

    text: str
    element: etree._Element
    format: bytes


class _WordReader:
    """A reader of the content of Word paragraphs as tokens, in which each text is a `_Run`."""

    def __init__(
        self, namespace: str, root: etree._Element, hidden_styles: Set[str] = frozenset(), breaks: str = "\t"
    ) -> None:
        self._namespace = namespace
        self._breaks = re.compile(f"({breaks})")
        marks = root.iter(f"{namespace}rStyle", f"{namespace}pStyle")
        by_style = {mark.getparent().getparent() for mark in marks if mark.get(f"{namespace}val") in hidden_styles}
        self.hidden = by_style - _selected(root, "//w:r[w:rPr/w:vanish]") | _selected(root, _HIDDEN)
        """Hidden runs, and paragraphs whose style is hidden."""
        self._plain = {option.getparent(): option for option in _selected(root, _PLAIN)}
        self.n_readings = 0
        self.initial = ""
        """The text to put before the first text."""

    def inside(self, parent: etree._Element) -> Iterator[_Run | Token[OfficeMarkup]]:
        """Yield the tokens of the content of an element."""
        children = []
        for whole in parent:
            for child in self._plain.get(whole, [whole]):
                if not self._name(child).endswith("Pr"):
                    children += self._divided(child)
        fields = self._fields(children)
        i = 0
        while i < len(children):
            if i in fields:
                tokens, i = fields[i]
                yield from tokens
            else:
                yield from self._child(children[i])
                i += 1

    def _divided(self, child: etree._Element) -> list[etree._Element]:
        """Divide a run with a sign of a field, in the tree, into a run for each of its elements."""
        if child.find("{*}fldChar") is None:
            return [child]
        _format(child.find(f"{self._namespace}rPr"))  # raises DataError if it is too large to be copied
        parts = []
        parent = child.getparent()
        for element in child[:]:
            if self._name(element) != "rPr":
                part = _append_run(parent, child)
                part.append(element)
                child.addprevious(part)
                parts.append(part)
        parent.remove(child)
        return parts

    def _child(self, child: etree._Element) -> Iterator[_Run | Token[OfficeMarkup]]:
        name = self._name(child)
        if name == "r":
            yield from self._run(child)
        elif name == "fldSimple" and (
            tokens := _object([child], self._texts([child], "t"), child.get(f"{self._namespace}instr"))
        ):
            yield from tokens
        elif name in _AROUND:
            yield Mark("open", OfficeMarkup(around=child), child, is_strict=True)
            yield from self.inside(_content(child))
            yield Mark("close", OfficeMarkup(around=child), child)
        elif pair := _PAIR.fullmatch(name):
            key = pair[1], child.get(f"{self._namespace}id")
            yield Mark("open" if pair[2] == "Start" else "close", OfficeMarkup([child]), key)
        elif name == "fld":
            yield from _object([child], self._texts([child], "t"))
        elif name not in _HINTS:
            yield Mark("break" if name in _BREAKS else "point", OfficeMarkup([child]))

    def _run(self, run: etree._Element) -> Iterator[_Run | Token[OfficeMarkup]]:
        names = [self._name(child) for child in run]
        # signs of a field in several paragraphs keep their order, even if they are hidden
        shown = ("fldChar", "instrText") if run in self.hidden else ("t", "noBreakHyphen", "ruby", *_BREAKS)
        if not {*shown}.intersection(names):
            yield Mark("point", OfficeMarkup([run]))
            return
        key = _format(run.find(f"{self._namespace}rPr"))
        for name, child in zip(names, run, strict=True):
            if name in ("t", "noBreakHyphen"):
                for i, part in enumerate(self._breaks.split((child.text or "") if name == "t" else "\u2011")):
                    if i % 2:
                        line_break = etree.Element(child.tag, dict(child.attrib))
                        line_break.text = part
                        yield Mark("break", OfficeMarkup([line_break], format=run))
                    else:
                        yield _Run(self.initial + part, run, key)
                        self.initial = ""
            elif name == "ruby":
                self.n_readings += 1
                for base in child.iterchildren("{*}rubyBase"):
                    yield from self.inside(base)
            elif name not in _HINTS and name != "rPr":
                yield Mark("break" if name in _BREAKS else "point", OfficeMarkup([child], format=run))

    def _fields(self, children: Sequence[etree._Element]) -> dict[int, tuple[list[Token[OfficeMarkup]], int]]:
        """Return the tokens of fields by the index of their first element, and the index after their last element.

        The parts of a field that begins or ends elsewhere, as in another paragraph, are not included.
        """
        fields: dict[int, tuple[list[Token[OfficeMarkup]], int]] = {}
        begun: list[list[int]] = []
        for i, child in enumerate(children):
            for sign in child.iterchildren("{*}fldChar"):
                kind = sign.get(f"{self._namespace}fldCharType")
                if kind == "begin":
                    begun.append([])
                if len(begun) > _MAX_FIELDS:
                    raise DataError(f"the document has more than {_MAX_FIELDS} nested fields; simplify it")
                if begun:
                    begun[-1].append(i)
                if kind != "end" or not begun:
                    continue
                begin, separate, *_ = begun.pop()
                code = self._texts(children[begin:separate], "instrText")
                text = self._texts(children[separate:i], "t")
                if tokens := _object(children[begin : i + 1], text, code):
                    fields[begin] = tokens, i + 1
                else:
                    opening = Mark("open", OfficeMarkup(children[begin : separate + 1]), "field", is_strict=True)
                    fields[begin] = [opening], separate + 1
                    fields[i] = [Mark("close", OfficeMarkup([child]), "field")], i + 1
        return fields

    def _texts(self, elements: Iterable[etree._Element], name: str) -> str:
        """Return the texts of the elements of this name inside `elements`."""
        return "".join(text.text or "" for element in elements for text in element.iter(f"{{*}}{name}"))

    def _name(self, element: etree._Element) -> str:
        """Return the name of an element of Word; an empty string for other elements and comments."""
        tag = str(element.tag)
        return tag.removeprefix(self._namespace) if tag.startswith(self._namespace) else ""


def _formatted(tokens: Sequence[_Run | Token[OfficeMarkup]]) -> tuple[list[Token[OfficeMarkup]], etree._Element | None]:
    """Return tokens with spans around text not in the most frequent format, and a run in that format."""
    runs = {token.format: token.element for token in reversed(tokens) if isinstance(token, _Run)}
    lengths = Counter[bytes]()
    for token in tokens:
        if isinstance(token, _Run):
            lengths[token.format] += len(token.text)
    base = max(lengths, key=lambda key: lengths[key], default=b"")
    formatted = []
    for key, group in itertools.groupby(tokens, lambda token: token.format if isinstance(token, _Run) else None):
        inner = [Text(token.text, token.text) if isinstance(token, _Run) else token for token in group]
        if key in (None, base):
            formatted += inner
        else:
            mark = OfficeMarkup(format=runs[key])
            formatted += [Mark("open", mark, key, is_strict=True), *inner, Mark("close", mark, key)]
    return formatted, runs.get(base)


def _format(properties: etree._Element | None) -> bytes:
    """Return a key that is equal for runs of the same format, given the properties of a run."""
    if properties is None:
        return b""
    length = 0
    for element in properties.iter():
        length += 20 + len(str(element.text or "")) + sum(map(len, element.attrib.values()))
    if length > _MAX_FORMAT:
        raise DataError(f"a run has more than {_MAX_FORMAT:,} characters of properties; save the document again")
    kept = (child for child in properties if not str(child.tag).endswith(_NOT_FORMAT))
    attributes = sorted(f"{key}={value} " for key, value in properties.items() if key not in _NO_FORMATS)
    return "".join(attributes).encode() + b"".join(etree.tostring(child, with_tail=False) for child in kept)


def _append_run(parent: etree._Element, like: etree._Element) -> etree._Element:
    run = etree.SubElement(parent, like.tag)
    run.extend(deepcopy(child) for child in like if str(child.tag).endswith("}rPr"))
    return run


def _append_word_text(
    namespace: str, attributes: dict[str, str], parent: etree._Element, like: etree._Element | None, text: str
) -> None:
    run = etree.SubElement(parent, f"{namespace}r") if like is None else _append_run(parent, like)
    etree.SubElement(run, f"{namespace}t", attributes).text = text


# --- PowerPoint ------------------------------------------------------------------------------------

_TEXTS = frozenset(["sld", "notes"])
"""The outermost elements of parts whose paragraphs are translated. Those of others are prompts, which are not shown."""
_DESIGNS = frozenset(["slide", "notesSlide", "slideMaster", "slideLayout", "notesMaster"])
"""Kinds of parts with text, or with the language and direction of text that states none."""
_MIRRORED_SLIDE = {
    r'(<a:(?:p|lvl\dp|defP)Pr\b[^<>]*?\salgn=)"l"': r"\1\0",  # a null character, which XML lacks
    r'(<a:(?:p|lvl\dp|defP)Pr\b[^<>]*?\salgn=)"r"': r'\1"l"',
    r"\0": '"r"',
}
_SLIDE_RULES = Rules(
    {r'(<a:\w+\b[^<>]*?\slang=")(?:SOURCE)(?:-\w+)*(?=")': r"\1TARGET"},
    {r'(<a:\w+\b[^<>]*?\srtl(?:Col)?=)"(?:1|true)"': r'\1"0"', **_MIRRORED_SLIDE},
    {
        r'(<a:\w+\b[^<>]*?\srtl(?:Col)?=)"(?:0|false)"': r'\1"1"',
        r"<a:tblPr\b(?![^<>]*\srtl=)": r'\g<0> rtl="1"',
        **_MIRRORED_SLIDE,
    },
)


def open_pptx(name: str, content: bytes, _: DocumentOptions) -> Document:
    """Open a PowerPoint presentation. Raises DataError if it is invalid."""
    package = Package(name, content)
    main = main_part(package, "ppt/presentation.xml", "not a PowerPoint presentation; was it renamed?")
    wanted = {main}
    for part in package.members:  # parts of slides have relationships of their own
        wanted |= {other for other, kind, _ in related(package, part) if kind in _DESIGNS}
    return _open(package, [part for part in package.members if part in wanted], _slide_paragraphs, _SLIDE_RULES)


def _slide_paragraphs(_: str, root: etree._Element) -> Iterator[Paragraph]:
    namespace = f"{{{root.nsmap.get('a')}}}"
    reader = _WordReader(namespace, root)
    for element in root.iter(f"{namespace}p") if etree.QName(root).localname in _TEXTS else ():
        tokens, base = _formatted(list(reader.inside(element)))
        yield Paragraph(Passage(tokens), element, base, partial(_append_word_text, namespace, {}), 0)


# --- Excel -----------------------------------------------------------------------------------------

_SHEET_RULES = Rules(
    # texts that formulas have computed are those of the source
    {r"<((?:\w+:)?calcPr)\b(?![^<>]*\sfullCalcOnLoad=)": r'<\1 fullCalcOnLoad="1"'},
    {r'(<(?:\w+:)?sheetView\b[^<>]*?)\srightToLeft="(?:1|true)"': r"\1"},
    {r"(<(?:\w+:)?sheetView)\b(?![^<>]*\srightToLeft=)": r'\1 rightToLeft="1"'},
)
_LETTERS = [*ascii_uppercase, *map("".join, itertools.product(ascii_uppercase, repeat=2))]
"""The names of columns that can be chosen, in order."""


def open_xlsx(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open an Excel workbook. Raises DataError if it is invalid, or if no sheet has the columns to translate."""
    package = Package(name, content)
    main = main_part(package, "xl/workbook.xml", "not an Excel workbook; was it renamed?")
    parts = {number: (kind, part) for part, kind, number in related(package, main) if part in package.members}
    strings = [part for kind, part in parts.values() if kind == "sharedStrings"]
    titles = {main: ""}
    for sheet in package.xml(main).iter("{*}sheet"):
        kind, part = parts.get("".join(value for key, value in sheet.items() if key.endswith("}id")), ("", ""))
        if kind == "worksheet" and sheet.get("state") in (None, "visible"):
            titles[part] = sheet.get("name", "")
    workbook = _Workbook(package, options, titles, [*package.xml(strings[0]).iterchildren("{*}si")] if strings else [])
    has_target = options.columns is not None and options.columns.target
    rules = Rules(_SHEET_RULES.always, {}, {}) if has_target else _SHEET_RULES
    document = _open(package, [part for part in package.members if part in titles], workbook.paragraphs, rules)
    if workbook.problems and not (document.texts or workbook.n_kept):
        raise workbook.problems[0]
    document.n_kept = workbook.n_kept
    workbook.size_left = math.inf
    return document


class _Workbook:
    """A reader of the sheets of a workbook, in whose tree it writes cells to translate as inline strings."""

    def __init__(
        self, package: Package, options: DocumentOptions, titles: Mapping[str, str], strings: Sequence[etree._Element]
    ) -> None:
        self._package = package
        self._options = options
        self._titles = titles
        self._strings = {str(i): string for i, string in enumerate(strings)}
        self.problems = list[DataError]()
        """Why sheets do not have the columns to translate."""
        self.n_kept = 0
        self.size_left: float = MAX_XML_BYTES
        """Number of bytes that the texts of cells may still have: many cells may share a long text."""

    def paragraphs(self, member: str, root: etree._Element) -> Iterator[Paragraph]:
        """Yield the texts of cells of a sheet to translate."""
        namespace = root.tag.rpartition("}")[0] + "}"
        append = partial(_append_word_text, namespace, _PRESERVE)
        reader = _WordReader(namespace, root, breaks=r"\t|\n|_x[\dA-F]{4}_")
        for key, runs, cell, is_new in self._chosen(member, root, namespace):
            cell.set("t", "inlineStr")
            cell[:] = []
            inline = etree.SubElement(cell, f"{namespace}is")
            inline.extend(runs)
            tokens, base = _formatted([*reader.inside(inline)])
            yield Paragraph(Passage(tokens), inline, base, append, 0, None, key, is_new)

    def _chosen(
        self, member: str, root: etree._Element, namespace: str
    ) -> Iterator[tuple[str, list[etree._Element], etree._Element, bool]]:
        """Yield the key and the runs of each text to translate, the cell to write, and whether it is another one."""
        fixed = set[tuple[str, str]]()
        for part, kind, _ in related(self._package, member):
            table = self._package.xml(part) if kind == "table" and part in self._package.members else root
            for column in table.iter("{*}tableColumn"):  # of the header and the totals, whose texts the table repeats
                names = [column.get(name, "").replace("_x000a_", "\n") for name in ("name", "totalsRowLabel")]
                fixed |= {*itertools.product(re.findall("[0-9]+", table.get("ref", "")[:30]), names)}
        has_array = root.find(".//{*}f[@t='array']") is not None  # whose other cells look like texts
        columns = None
        for row in root.iter("{*}row"):
            number = row.get("r", "")
            cells = {cell.get("r", f"{i}?").rstrip(digits): cell for i, cell in enumerate(row.iterchildren("{*}c"))}
            runs = {letters: self._runs(cell, namespace, has_array) for letters, cell in cells.items()}
            texts = {letters: "".join(map(_SHOWN, of_cell)) for letters, of_cell in runs.items() if of_cell}
            if columns is None and self._options.columns is not None and texts:
                try:
                    header = dict.fromkeys(_LETTERS, "") | texts
                    columns, has_header = find_columns(self._package.name, self._options, header)
                except DataError as problem:
                    self.problems.append(problem)
                    return
                if has_header:
                    continue
            for source in texts if columns is None else {columns.source} & texts.keys():
                target = columns.target if columns else ""
                if (number, texts[source]) in fixed or not texts[source].strip():
                    continue
                if target and target not in cells:
                    cells[target] = _added(row, cells, source, target)
                elif target and len(cells[target]):
                    self.n_kept += 1
                    continue
                key = texts.get(columns.key, "").strip() if columns else ""
                key = key or f"{self._titles[member]}!{cells[source].get('r', '')}"
                yield key, runs[source], cells[target or source], bool(target)

    def _runs(self, cell: etree._Element, namespace: str, has_array: bool) -> list[etree._Element]:
        """Return copies of the runs of the text of a cell; none if it is no text, or computed by a formula."""
        value = cell.findtext("{*}v", "")
        string = {"s": self._strings.get(value), "inlineStr": cell.find("{*}is"), "str": cell}.get(cell.get("t", ""))
        if string is None or cell.find("{*}f") is not None or (string is cell and has_array):
            return []
        self.size_left -= len(etree.tostring(string))
        if self.size_left < 0:
            raise DataError(f"{self._package.name}: more than {MAX_XML_BYTES >> 20} MB of text in cells; divide it")
        runs = [deepcopy(run) for run in string.iterchildren("{*}r")]
        if not runs:
            runs = [etree.Element(f"{namespace}r")]
            text = value if string is cell else string.findtext("{*}t", "")
            etree.SubElement(runs[0], f"{namespace}t", _PRESERVE).text = text
        return runs


def _added(row: etree._Element, cells: Mapping[str, etree._Element], source: str, target: str) -> etree._Element:
    """Add a cell to a row, in the order of columns, in the style of another cell."""
    cell = etree.SubElement(
        row, cells[source].tag, {**cells[source].attrib, "r": target + cells[source].get("r", "").lstrip(source)}
    )
    for letters, other in cells.items():
        if (len(letters), letters) > (len(target), target):
            other.addprevious(cell)
            break
    return cell


# --- OpenDocument ----------------------------------------------------------------------------------

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_MANIFEST = "META-INF/manifest.xml"
_STYLE_NAME = f"{_TEXT}style-name"
_ODT_HIDING = "*/style:style[style:text-properties/@text:display = 'none']/@style:name"
"""Selects the names of styles of hidden text."""

_ODT_AROUND = frozenset(f"{_TEXT}{name}" for name in ("span", "a", "meta", "text-input", "database-display"))
_ODT_PAIR = re.compile(
    re.escape(_TEXT) + "(bookmark|reference-mark|change|toc-mark|alphabetical-index-mark)-(start|end)"
)
_KEYS = (f"{_TEXT}name", f"{_TEXT}change-id", f"{_TEXT}id")
_ODT_KINDS: dict[str, Literal["break", "space"]] = {
    f"{_TEXT}tab": "break",
    f"{_TEXT}line-break": "break",
    f"{_TEXT}s": "space",
}
_ODT_FIELD = re.compile(re.escape(_TEXT) + "(?!(?:[hp]|note|number|ruby|script)$)")
"""Fields, and other elements, if they contain text."""
_MIRRORED = {
    r'(<style:[\w-]+ [^<>]*?\bfo:text-align=)"left"': r'\1"start"',
    r'(<style:[\w-]+ [^<>]*?\bfo:text-align=)"right"': r'\1"end"',
    r'(<style:[\w-]+ [^<>]*?\bfo:text-align=)"start"': r'\1"right"',
    r'(<style:[\w-]+ [^<>]*?\bfo:text-align=)"end"': r'\1"left"',
}
"""In LibreOffice, `start` is the left, and `end` the right, in both directions."""
_ODT_RULES = Rules(
    {
        # between null characters, which XML lacks, until region and script are in attributes of their own
        r'(<style:text-properties\b[^<>]*?\sfo:language=)"(?:SOURCE)"': r"\1\0TARGET\0",
        r'(<style:text-properties\b[^<>]*?\sstyle:language-asian=)"(?:SOURCE)"': r"\1\0TARGET\0",
        r'(<style:text-properties\b[^<>]*?\sstyle:language-complex=)"(?:SOURCE)"': r"\1\0TARGET\0",
        r'(<style:text-properties\b(?=[^<>]*\sfo:language=\0)[^<>]*?)\sfo:script="[^"]*"': r"\1",
        r'(<style:text-properties\b(?=[^<>]*\sfo:language=\0)[^<>]*?)\sfo:country="[^"]*"': r"\1",
        r'(<style:text-properties\b(?=[^<>]*\sstyle:language-asian=\0)[^<>]*?)\sstyle:script-asian="[^"]*"': r"\1",
        r'(<style:text-properties\b(?=[^<>]*\sstyle:language-asian=\0)[^<>]*?)\sstyle:country-asian="[^"]*"': r"\1",
        r'(<style:text-properties\b(?=[^<>]*\sstyle:language-complex=\0)[^<>]*?)\sstyle:script-complex="[^"]*"': r"\1",
        r'(<style:text-properties\b(?=[^<>]*\sstyle:language-complex=\0)[^<>]*?)\sstyle:country-complex="[^"]*"': r"\1",
        r"(fo|style):language(|-asian|-complex)=\0([\w-]+)-([A-Z]{2}|\d{3})\0": (
            r"\1:language\2=\0\3\0 \1:country\2=\0\4\0"
        ),
        r"(fo|style):language(|-asian|-complex)=\0(\w+)-(\w+)\0": r"\1:language\2=\0\3\0 \1:script\2=\0\4\0",
        r"\0": '"',
    },
    {r'(<style:[\w-]+ [^<>]*?\bstyle:writing-mode=")rl': r"\1lr", **_MIRRORED},
    {
        r'(<style:[\w-]+ [^<>]*?\bstyle:writing-mode=")lr': r"\1rl",
        **_MIRRORED,
        r"<office:styles/>": "<office:styles></office:styles>",
        r'(?s)\A(?!.*<style:default-style [^<>]*style:family="paragraph")(.*?<office:styles>)': (
            r'\1<style:default-style style:family="paragraph"><style:paragraph-properties/></style:default-style>'
        ),
        r'(<style:default-style [^<>]*style:family="paragraph"[^<>]*>\s*<style:paragraph-properties)'
        "(?![^<>]*text-align)": r'\1 fo:text-align="right"',
        r'(<style:default-style [^<>]*style:family="paragraph"[^<>]*>\s*<style:paragraph-properties'
        r"|<style:page-layout-properties)(?![^<>]*writing-mode)": r'\1 style:writing-mode="rl-tb"',
    },
)
_SPACES = {
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "style": "urn:oasis:names:tc:opendocument:xmlns:style:1.0",
    "text": _TEXT[1:-1],
}
_UNTOUCHED = frozenset([f"{_OFFICE}annotation", f"{_TEXT}tracked-changes"])
"""Elements of comments and of deleted text, which are not translated."""


def open_odt(name: str, content: bytes, _: DocumentOptions) -> Document:
    """Open an OpenDocument text. Raises DataError if it is invalid."""
    package = Package(name, content)
    members = [member for member in package.members if member in ("content.xml", "styles.xml")]
    # an encrypted document may have no content.xml: OpenDocument 1.4 encrypts all members as one
    if _MANIFEST in package.members and b"encryption-data" in package.content(_MANIFEST):
        raise DataError(f"{name}: encrypted; save it without a password")
    if "content.xml" not in members:
        raise DataError(f"{name}: not an OpenDocument text, although its name says so; was it renamed?")
    common = _selected(package.xml("styles.xml"), _ODT_HIDING) if "styles.xml" in members else set()
    return _open(package, members, partial(_odt_paragraphs, common), _ODT_RULES)


def _odt_paragraphs(common: Set[str], _: str, root: etree._Element) -> Iterator[Paragraph]:
    hidden = common | _selected(root, _ODT_HIDING)
    walk = etree.iterwalk(root, events=("start",), tag=(f"{_TEXT}p", f"{_TEXT}h", f"{_TEXT}section", *_UNTOUCHED))
    for _, element in walk:
        if element.tag in _UNTOUCHED or element.get(_STYLE_NAME) in hidden or element.get(f"{_TEXT}display") == "none":
            walk.skip_subtree()
        elif element.tag != f"{_TEXT}section":
            rubies = list[etree._Element]()
            passage = Passage(_odt_tokens(element, rubies, hidden))
            yield Paragraph(passage, element, None, _append_odt_text, len(rubies))


def _odt_tokens(
    parent: etree._Element, rubies: list[etree._Element], hidden: Set[str]
) -> Iterator[Token[OfficeMarkup]]:
    """Yield the tokens of the content of an element, and append the elements whose readings are omitted to `rubies`."""
    if parent.text:
        yield Text(parent.text, parent.text)
    for child in parent:
        if child.get(_STYLE_NAME) in hidden:
            yield Mark("point", OfficeMarkup([child]))
        elif child.tag in _ODT_AROUND:
            yield Mark("open", OfficeMarkup(around=child), child, is_strict=True)
            yield from _odt_tokens(child, rubies, hidden)
            yield Mark("close", OfficeMarkup(around=child), child)
        elif pair := _ODT_PAIR.fullmatch(str(child.tag)):
            key = pair[1], *(child.get(name) for name in _KEYS)
            yield Mark("open" if pair[2] == "start" else "close", OfficeMarkup([child]), key)
        elif child.text and _ODT_FIELD.match(str(child.tag)):
            yield from _object([child], child.text)
        elif child.tag == f"{_TEXT}ruby":
            rubies.append(child)
            for base in child.iterchildren("{*}ruby-base"):
                yield from _odt_tokens(base, rubies, hidden)
        else:
            yield Mark(_ODT_KINDS.get(str(child.tag), "point"), OfficeMarkup([child]))
        if child.tail:
            yield Text(child.tail, child.tail)


def _append_odt_text(parent: etree._Element, _: etree._Element | None, text: str) -> None:
    last = next(parent.iterchildren(reversed=True), None)  # len(parent) takes linear time
    if last is not None:
        last.tail = (last.tail or "") + text
    else:
        parent.text = (parent.text or "") + text
