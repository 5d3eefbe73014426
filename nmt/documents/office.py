"""Office documents: zip archives of XML, whose paragraphs are translated and nothing else."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from lxml import etree

from nmt.console import printable
from nmt.documents.inline import Passage, Token, place
from nmt.documents.types import Document, Translated
from nmt.errors import DataError, error_text
from nmt.files.archives import damage, open_zip

MAX_BYTES = 1 << 28
"""Size of all members together, decompressed."""
MAX_XML_BYTES = 1 << 24
"""Size of the members that are parsed, together."""
MAX_ELEMENTS = 150_000
"""Elements of a member that is parsed: some seconds of work, and up to 1 KB of memory for each."""
_ALLOWED_ELEMENTS = 30_000
"""However small the archive is; larger ones may have one for each byte, as XML that repeats itself has."""
_BLOCK = 1 << 16
_MAX_MEMBERS = 10_000
_OLE = b"\xd0\xcf\x11\xe0"


class Package:
    """A zip archive, in memory as it came: members are decompressed when they are needed."""

    def __init__(self, name: str, content: bytes) -> None:
        """Open an archive. Raises DataError where it is damaged, encrypted or too large, or none at all."""
        self._name = name
        self._most_elements = min(MAX_ELEMENTS, max(_ALLOWED_ELEMENTS, len(content)))
        if content.startswith(_OLE):
            raise DataError(f"{name}: encrypted, or in an old format; save it again, without a password")
        if not content.startswith(b"PK"):
            raise DataError(f"{name}: not a zip archive, as such a document must be; was it renamed, or is it damaged?")
        self._archive = open_zip(io.BytesIO(content), name, len(content))
        infos = self._archive.infolist()
        total = sum(info.file_size for info in infos)
        if len(infos) > _MAX_MEMBERS or total > MAX_BYTES:
            unpacked = f"{len(infos):,} members with {total:,} bytes when decompressed"
            raise DataError(f"{name}: {unpacked}, too much to be safe; divide the document, or remove its pictures")
        with damage(name, "zip"):
            if len(self._archive.NameToInfo) < len(infos):
                raise ValueError("two of its members have the same name")
            if (bad := self._archive.testzip()) is not None:  # an error before anything is translated
                raise ValueError(f"the checksum of {printable(bad)} is wrong")

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of members."""
        return iter(self._archive.namelist())

    def __contains__(self, member: object) -> bool:
        """Whether it has a member of this name."""
        return member in self._archive.NameToInfo

    def check_size(self, members: Collection[str]) -> None:
        """Raise DataError if these members are too large to be parsed."""
        if sum(self._archive.getinfo(member).file_size for member in members) > MAX_XML_BYTES:
            raise DataError(f"{self._name}: more than {MAX_XML_BYTES >> 20} MB of XML; divide the document")

    def content(self, member: str) -> bytes:
        """Return the content of a member; empty if it is missing. Raises DataError if it is too large."""
        if member not in self:
            return b""
        self.check_size([member])
        return self._archive.read(member)

    def xml(self, member: str) -> etree._Element:
        """Parse a member. Raises DataError for what is not XML, or not safe to read."""
        content = self.content(member)
        if (n := content.count(b"<") - content.count(b"</")) > self._most_elements:
            most = f"{self._most_elements:,}, the most in a file of this size"
            raise DataError(f"{self._name}: {member} has {n:,} elements, more than {most}; divide the document")
        return parsed(f"{self._name}: {member}", content)

    def changed(self, members: Collection[str], new: Callable[[str], bytes | None]) -> bytes:
        """Return the archive with other contents of these members.

        new: called with each of their names, in the order of the archive; None leaves a member as it is.
        """
        written, members = io.BytesIO(), frozenset(members)
        with zipfile.ZipFile(written, "w") as archive:
            for info in self._archive.infolist():
                copy = zipfile.ZipInfo(info.filename, info.date_time)
                copy.compress_type, copy.create_system = info.compress_type, info.create_system
                copy.external_attr, copy.internal_attr, copy.comment = (
                    info.external_attr,
                    info.internal_attr,
                    info.comment,
                )
                content = new(info.filename) if info.filename in members else None
                if content is not None:
                    archive.writestr(copy, content)
                    continue
                with self._archive.open(info) as source, archive.open(copy, "w") as target:
                    shutil.copyfileobj(source, target, _BLOCK)
        return written.getvalue()


def parsed(name: str, content: bytes) -> etree._Element:
    """Parse XML without entities of its document type, and without opening external files. Raises DataError."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{name}: not UTF-8; save the document again") from None
    if "<!DOCTYPE" in text:
        raise DataError(f"{name}: it has a DOCTYPE, which is refused as unsafe; save the document again")
    parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False)
    try:
        return etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise DataError(f"{name}: broken XML: {error_text(error)}; save the document again") from None


def serialised(root: etree._Element) -> bytes:
    """Return the XML of a whole document."""
    written: bytes = etree.tostring(root.getroottree(), encoding="UTF-8", xml_declaration=True, standalone=True)
    return written


class Markup(NamedTuple):
    """The meaning of a mark in a paragraph: whole elements, or the start or end of one that contains text."""

    elements: Sequence[etree._Element] = ()
    format: etree._Element | None = None
    """Of Word: the run whose format the elements have, or without elements, the text up to its end."""
    around: etree._Element | None = None
    """The element that holds the text."""


class Paragraph(NamedTuple):
    """A paragraph, and a function that gives it other content."""

    passage: Passage[Markup]
    rewrite: Callable[[Iterable[Token[Markup]]], None]


def open_office(
    package: Package,
    members: Sequence[str],
    paragraphs: Callable[[etree._Element], Iterator[Paragraph]],
    should_stop: Callable[[], bool],
) -> Document:
    """Take the paragraphs of these members apart, which are in the order of the package.

    should_stop: asked between paragraphs, also when the translations are put in. Raises DataError, and if it says so.
    """
    package.check_size(members)

    def going(some: Iterable[Paragraph]) -> Iterator[Paragraph]:
        for paragraph in some:
            if should_stop():
                raise DataError("nobody waits for the document any more")
            yield paragraph

    # the trees, which take ten times as much memory, are not kept
    found = (paragraph for member in members for paragraph in going(paragraphs(package.xml(member))))
    texts = [text for paragraph in found for text in paragraph.passage.texts]

    def write(results: Sequence[Translated]) -> bytes:
        queue = iter(results)

        def new(member: str) -> bytes | None:
            root = package.xml(member)
            is_changed = False
            for paragraph in going(list(paragraphs(root))):
                is_other, tokens = paragraph.passage.translated(queue, place)
                if is_other:
                    paragraph.rewrite(tokens)
                is_changed |= is_other
            return serialised(root) if is_changed else None

        return package.changed(members, new)

    return Document(texts, write)
