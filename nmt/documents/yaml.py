"""YAML files of keys and texts, such as those of Rails, Symfony and Hugo.

https://guides.rubyonrails.org/i18n.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from nmt.console import printable
from nmt.documents.keyed import Part, open_texts, values
from nmt.documents.types import Document, DocumentOptions, decoded_text
from nmt.errors import DataError, error_text

_KINDS = {
    yaml.SequenceStartEvent: "[",
    yaml.MappingStartEvent: "{",
    yaml.SequenceEndEvent: "]",
    yaml.MappingEndEvent: "]",
    yaml.AliasEvent: "",  # so that nothing is expanded
}
_ANCHOR = re.compile(r"\A&\S++(?:\s++(?:#[^\n]*+)?)*+")
_DIRECTIVE = re.compile(r"%[-_0^#]?[A-Za-z](?![A-Za-z_])")
"""Matches a directive of a date or of a number, as in `%d.%m.%Y`."""
_PLAIN = re.compile(
    r"(?!(?:yes|no|on|off|true|false|null|y|n)\Z)[^\W\d_](?:[^:#\r\n\t]|:(?=\S)|(?<=\S)#)*(?<![\s:])", re.IGNORECASE
)
"""Matches texts that need no quotes outside braces and brackets."""
_INDENTED = {"|": r"\A\n*[ \t]", ">": r"(?m)^[ \t]"}
"""Matches texts that begin, or have lines that begin, as a literal or folded block cannot."""
_BLOCK = re.compile(r"([^\r\n]*+(\r\n?|\n)(?:[ \t]*+(?:\r\n?|\n))*+)( *)")
"""Matches the header and the blank lines of a block, with a line end, and the indentation."""
_FLOW = ", "
_SYNTAX = frozenset(",[]{}")
_SPECIAL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff]")
"""Matches characters that need an escape."""


def open_yaml(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open a YAML file. Raises DataError if it is malformed, or no table of texts."""
    text, encoding = decoded_text(name, content)
    is_ascii = text.isascii() and r"\u" in text

    def spelled(part: Part, written: str) -> str:
        if _SPECIAL.search(written) or (is_ascii and "~" < max(written, default="") < "\U00010000"):
            return json.dumps(written)
        block = _BLOCK.match(text, part.start, part.end)
        if block and part.kind in _INDENTED and not re.search(_INDENTED[part.kind], written):
            lines = written.strip("\n")
            if part.kind == ">":
                lines = re.sub("\n+", r"\g<0>\n", lines)
            return block[1] + re.sub("(?m)^(?=.)", block[3], lines).replace("\n", block[2])
        if part.kind == "plain" and _PLAIN.fullmatch(written) and not (part.before == _FLOW and _SYNTAX & {*written}):
            return written
        if part.kind == "'" and "\n" not in written:
            return "'" + written.replace("'", "''") + "'"
        return json.dumps(written, ensure_ascii=False)

    return open_texts(text, encoding, values(name, _parts(name, text)), options, spelled)


def _parts(name: str, text: str) -> Iterator[Part]:
    line_end = "\r\n" if "\r\n" in text else "\n"
    try:
        loader: Any = yaml.SafeLoader(text)
        while loader.check_event():
            event = loader.get_event()
            mark = event.start_mark
            start, end = mark.index, event.end_mark.index
            if isinstance(event, yaml.ScalarEvent):
                kind = event.style or "plain"
                start = end - len(_ANCHOR.sub("", text[start:end]))
                if kind in _INDENTED:  # blank lines after it stay
                    lines = text[start:end].rstrip(" \t\r\n")
                    end -= len(text[start + len(lines) : end].lstrip(" \t"))
                words, n_directives = _DIRECTIVE.subn("", event.value)
                tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
                if event.tag or tag != "tag:yaml.org,2002:str" or not any(map(str.isalpha, words)):
                    kind = ""
                before = line_end + " " * mark.column
                yield Part(start, end, event.value, kind, ["ruby-format"] * bool(n_directives), before)
            elif type(event) in _KINDS:
                yield Part(start, end, _FLOW * bool(getattr(event, "flow_style", False)), _KINDS[type(event)])
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        problem = str(error).replace(' in "<unicode string>"', "")
        raise DataError(f"{name}: broken YAML: {printable(error_text(problem))}") from None
