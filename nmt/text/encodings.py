"""Encodings: declared by a file itself in ASCII, or guessed for a line that is not UTF-8, given its language.

Bytes alone are no evidence: a Russian line in Windows-1251 is a Greek one in Windows-1253, letter for letter. A
candidate must decode to letters of the language, with capitals where capitals are expected.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

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


_CYRILLIC = ("WINDOWS-1251", "KOI8-R", "ISO-8859-5", "CP866", "MACCYRILLIC")
_CENTRAL = ("WINDOWS-1250", "ISO-8859-2", "CP852")
_WESTERN = ("WINDOWS-1252", "CP850", "MACINTOSH")
_BALTIC = ("WINDOWS-1257", "ISO-8859-4")
_LATIN_1 = "à-öø-ÿœšžßºª"

# languages, their lower-case letters beyond ASCII, and encodings by their names in iconv
_WRITTEN: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("en de fr es it pt nl da sv no nb nn fi is ga eu ca gl id sw af", _LATIN_1, _WESTERN),
    ("sq", "çë", _WESTERN),
    ("pl", "ąćęłńóśźż", _CENTRAL),
    ("cs", "áčďéěíňóřšťúůýž", _CENTRAL),
    ("sk", "áäčďéíĺľňóôŕšťúýž", _CENTRAL),
    ("hu", "áéíóöőúüű", _CENTRAL),
    ("hr bs sl sr sh", "ćčđšž", _CENTRAL),
    ("ro", "ăâîşţ", _CENTRAL),
    ("tr az", "çğıiöşüâîû", ("WINDOWS-1254",)),
    ("lt", "ąčęėįšųūž", _BALTIC),
    ("lv", "āčēģīķļņšūž", _BALTIC),
    ("et", "äöõüšž", ("WINDOWS-1257", "WINDOWS-1252")),
    ("ru bg", "а-яё", _CYRILLIC),
    ("uk be mk sr", "а-яёђѓєѕіїјљњћќўџґ", ("WINDOWS-1251", "KOI8-U", "ISO-8859-5", "MACCYRILLIC")),
    ("el", "ά-ώΐΰ", ("WINDOWS-1253", "ISO-8859-7")),
    ("he yi", "\u05b0-\u05ea\u05f0-\u05f4", ("WINDOWS-1255", "ISO-8859-8")),
    ("ar fa ur", "\u060c\u061b\u061f\u0621-\u06d3", ("WINDOWS-1256", "ISO-8859-6")),
    ("th", "\u0e01-\u0e5b", ("TIS-620", "CP874")),
    ("ja", "\u3001-\u30ff\u4e00-\u9fff\uff01-\uff9f", ("SHIFT_JIS", "EUC-JP")),
    ("ko", "\uac00-\ud7a3\u3001-\u3011", ("EUC-KR",)),
    ("zh", "", ("GB18030", "BIG5")),
)
_COMMON_CHINESE = {
    "GB18030": ("gb2312", b"\xd7"),
    "BIG5": ("big5", b"\xc6"),
}  # and the last lead byte of common ones

_SIGNS = "\xa0«»„“”‚‘’‹›–—…€£§°№·¿¡²³½×®©™"
_BETWEEN_LETTERS = "\xa0’–—"
_LIKELY = 0.8  # of the characters beyond ASCII, the share that must fit
_CLEAR = 0.12  # by how much more must fit than in another encoding, or
_MISFITS = 2  # how many fewer must not fit
_MOST = 6  # maximum number of candidates
_N_BYTES = 4000  # of the line that are examined, from the first character beyond ASCII


def candidates(line: bytes, language: str | None) -> tuple[bool, list[str]]:
    """Return whether the first candidate is likely, and the candidates, best first, by their names in iconv.

    language: its code; if it is None or not known here, no candidate is likely.
    """
    rows = [row for row in _WRITTEN if language is not None and language.split("_")[0].lower() in row[0].split()]
    first = next((i for i, byte in enumerate(line) if byte >= 0x80), 0)
    part = line[max(0, first - 1) :][:_N_BYTES]
    fits: dict[str, tuple[float, int]] = {}
    texts: dict[str, str] = {}
    for _, letters, encodings in rows or _WRITTEN:
        for encoding in encodings:
            try:
                text = codecs.getincrementaldecoder(encoding)().decode(part)  # the last character may be truncated
            except UnicodeDecodeError:
                continue
            if text not in texts.values() or texts.get(encoding) == text:  # else the encodings do not differ
                texts[encoding] = text
                fits[encoding] = max(_fit(text, letters, encoding), fits.get(encoding, (0.0, 0)))
    best = sorted(fits, key=lambda encoding: -fits[encoding][0])
    if not best or fits[best[0]][0] < _LIKELY:
        return False, best[:_MOST] if rows else []
    share, missed = fits[best[0]]
    close = [name for name in best if fits[name][0] > share - _CLEAR and fits[name][1] < missed + _MISFITS]
    return bool(rows) and len(close) == 1, close[:_MOST]


def _fit(text: str, letters: str, encoding: str) -> tuple[float, int]:
    """Return how well the characters beyond ASCII fit running text on average, and how many do not fit at all."""
    wanted = re.compile(f"[{letters}]") if letters else None
    places = [i for i, char in enumerate(text) if not char.isascii()]
    fits = [_fits(text[i], text[max(0, i - 1) : i], text[i + 1 : i + 2], wanted, encoding) for i in places]
    return sum(fits) / len(fits) if fits else 0.0, fits.count(0.0)


def _fits(char: str, before: str, after: str, wanted: re.Pattern[str] | None, encoding: str) -> float:
    """Return how well a character beyond ASCII fits between its neighbours (empty at the line's ends): 0 to 1."""
    if wanted is None:
        codec, last = _COMMON_CHINESE[encoding]
        return float(b"\xa1" <= char.encode(codec, "ignore")[:1] <= last)
    if wanted.match(char.lower()):
        if any(map(str.isalpha, filter(str.isascii, (before, after)))) and _is_apart(char):
            return 0.0
        if not char.isupper() or not before.isalpha():
            return 1.0
        return 0.0 if before.islower() else 1.0 if before.isascii() else 0.9  # a line of capitals is rare
    if char in _SIGNS:
        return float(char in _BETWEEN_LETTERS or not (before.isalpha() and after.isalpha()))
    return 1.0 if unicodedata.combining(char) else 0.0


def _is_apart(char: str) -> bool:
    """Whether this letter is of a script that does not mix with Latin letters within a word."""
    return char < "\u1100" and not unicodedata.name(char, "").startswith("LATIN")
