"""Character encodings that documents declare."""

from __future__ import annotations

import codecs

_ASCII = b"xn--a-+AGE- \\x41"
"""ASCII text that decodes differently in encodings that do not extend ASCII, or that escape characters."""

_BROWSERS = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    "iso8859-9": "cp1254",
    **dict.fromkeys(("iso8859-11", "tis-620", "windows-874"), "cp874"),
    "iso-8859-8-i": "iso8859-8",
    "koi8-ru": "koi8-u",
    **dict.fromkeys(("gb2312", "gbk", "gb_2312-80"), "gb18030"),
    "big5": "big5hkscs",
    **dict.fromkeys(("shift_jis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc_kr", "ksc_5601", "windows-949"), "cp949"),
}
"""Encoding labels, or names in Python -> the encoding that browsers use: https://encoding.spec.whatwg.org/."""


def browser_encoding(label: str) -> str | None:
    """Return the encoding that browsers use for a page that declares `label`; None if it is not supported."""
    label = label.lower().removeprefix("x-")
    encoding = _BROWSERS.get(label, label)
    return _BROWSERS.get(name := codecs.lookup(encoding).name, name) if extends_ascii(encoding) else None


def extends_ascii(encoding: str) -> bool:
    """Return whether Python supports an encoding and it decodes ASCII as ASCII."""
    try:
        return _ASCII.decode(encoding) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError):
        return False
