"""Encodings that a file declares in ASCII, and those that are usual for a language, to name in an error message."""

from __future__ import annotations

import codecs

_ASCII = b"xn--a-+AGE- \\x41"
"""Text that reads differently in encodings that do not extend ASCII, or that escape characters."""

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
"""Labels, and encodings by Python's names, that browsers read as another one: https://encoding.spec.whatwg.org/."""


def browser_encoding(label: str) -> str | None:
    """Return the encoding in which browsers read a page that declares `label`; None if it is not supported."""
    label = label.lower().removeprefix("x-")
    encoding = _BROWSERS.get(label, label)
    return _BROWSERS.get(name := codecs.lookup(encoding).name, name) if extends_ascii(encoding) else None


def extends_ascii(encoding: str) -> bool:
    """Whether Python knows an encoding, and text in ASCII is the same in it."""
    try:
        return _ASCII.decode(encoding) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError):
        return False


_WRITTEN = {  # by their names in iconv, commonest first
    "pl cs sk hu hr bs sl sh ro": ("WINDOWS-1250", "ISO-8859-2"),
    "tr az": ("WINDOWS-1254",),
    "lt lv et": ("WINDOWS-1257",),
    "ru bg mk sr be": ("WINDOWS-1251", "KOI8-R"),
    "uk": ("WINDOWS-1251", "KOI8-U"),
    "el": ("WINDOWS-1253",),
    "he yi": ("WINDOWS-1255",),
    "ar fa ur": ("WINDOWS-1256",),
    "th": ("TIS-620",),
    "ja": ("SHIFT_JIS", "EUC-JP"),
    "ko": ("EUC-KR",),
    "zh": ("GB18030", "BIG5"),
}
_USUAL = {code: encodings for codes, encodings in _WRITTEN.items() for code in codes.split()}


def usual_encodings(line: bytes, language: str | None) -> list[str]:
    """Return the encodings other than UTF-8 that are usual for a language, by its code, and in which a line is valid.

    Which one it is shows only by reading it. Languages that are not known here are taken for Western European.
    """
    usual = _USUAL.get((language or "").split("_")[0].lower(), ("WINDOWS-1252",))
    return [name for name in usual if _is_valid(line, name)]


def _is_valid(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
