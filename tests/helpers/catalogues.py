"""PO catalogues of messages with format strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nmt.documents import open_document
from nmt.text.po import po_escaped, po_messages

HEADER = r'"Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"'


def _forms(message: Mapping[str, Any]) -> list[str]:
    return message["msgstr"] if "msgid_plural" in message else [message["msgstr"]]


def catalogue(messages: Sequence[Mapping[str, Any]], is_translated: bool = True) -> str:
    """Return a PO file of messages with their flags and, if `is_translated`, their translations."""
    parts = [f'msgid ""\nmsgstr {HEADER}\n']
    for number, message in enumerate(messages):
        # the context keeps equal messages apart
        lines = [f"#, {message['flag']}", f'msgctxt "{number}"', f'msgid "{po_escaped(message["msgid"])}"']
        forms = [po_escaped(form) if is_translated else "" for form in _forms(message)]
        if "msgid_plural" in message:
            lines.append(f'msgid_plural "{po_escaped(message["msgid_plural"])}"')
            lines += [f'msgstr[{form}] "{text}"' for form, text in enumerate(forms)]
        else:
            lines.append(f'msgstr "{forms[0]}"')
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def is_marked_fuzzy(message: Mapping[str, Any]) -> bool:
    """Return whether nmt marks a message as fuzzy if its translation is that of the message."""
    document = open_document("a.po", catalogue([message], is_translated=False).encode())
    [_, written] = po_messages("a.po", document.translated(_forms(message)).decode().splitlines())
    assert [text for key, text in written.texts.items() if key.startswith("msgstr")] == _forms(message), written
    return "fuzzy" in written.flags
