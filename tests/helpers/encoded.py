"""Text in encodings other than UTF-8, which is refused with the command that converts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.config import Source
from nmt.errors import DataError
from nmt.prepare.sources import open_source

POLISH, CZECH = "Zażółć gęślą jaźń", "Příliš žluťoučký kůň může úpět"
CROATIAN = "Čovjek je rekao da će doći i žaba"
GREEK, HEBREW, ARABIC = "Ο σκύλος βλέπει τα τρένα", "הכלב רואה את הרכבת", "الكلب يرى القطار، أين؟"
RUSSIAN, JAPANESE = "Съешь же ещё этих мягких французских булок", "これは日本語の文章です。漢字もあります。"

LIKELY = [
    ("de", "Die Größe", "latin-1", "WINDOWS-1252"),
    ("de", "Die „Größe“ – 5 €", "cp1252", "WINDOWS-1252"),
    ("de_AT", "Die Größe", "cp850", "CP850"),
    ("fr", "Déjà vu, l’été", "mac_roman", "MACINTOSH"),
    ("pl", POLISH, "cp1250", "WINDOWS-1250"),
    ("pl", POLISH, "iso8859-2", "ISO-8859-2"),
    ("cs", CZECH, "cp1250", "WINDOWS-1250"),
    ("cs", CZECH, "iso8859-2", "ISO-8859-2"),
    ("hr", CROATIAN, "cp1250", "WINDOWS-1250"),
    ("tr", "İstanbul'da güneşli bir gün, ağaç", "cp1254", "WINDOWS-1254"),
    ("lt", "Įlinkdama špaga pragręžė apvalų arbūzą", "cp1257", "WINDOWS-1257"),
    ("el", GREEK, "cp1253", "WINDOWS-1253"),
    ("he", HEBREW, "cp1255", "WINDOWS-1255"),
    ("ar", ARABIC, "cp1256", "WINDOWS-1256"),
    ("ar", ARABIC, "iso8859-6", "ISO-8859-6"),
    ("th", "สุนัขเห็นรถไฟ", "tis_620", "TIS-620"),
    ("ru", RUSSIAN, "cp1251", "WINDOWS-1251"),
    ("ru", RUSSIAN, "koi8-r", "KOI8-R"),
    ("ru", RUSSIAN, "iso8859-5", "ISO-8859-5"),
    ("ru", RUSSIAN, "cp866", "CP866"),
    ("ru", RUSSIAN, "mac_cyrillic", "MACCYRILLIC"),
    ("ja", JAPANESE, "shift_jis", "SHIFT_JIS"),
    ("ja", JAPANESE, "euc-jp", "EUC-JP"),
    ("ko", "한국어 문장입니다.", "euc-kr", "EUC-KR"),
    ("zh", "这是一个中文句子，很短。", "gb18030", "GB18030"),
    ("zh", "這是一個中文句子，我們去看電影吧", "big5", "BIG5"),
]
"""Language, text, encoding and how iconv calls the encoding that is named."""


def refused(folder: Path, language: str, text: str, encoding: str) -> tuple[Path, str]:
    """Write a side of a corpus in another encoding; return its path and the message with which it is refused."""
    path, other = folder / "train.xx", folder / "train.yy"
    path.write_bytes(b"plain\n" + text.encode(encoding) + b"\n")
    other.write_bytes(b"plain\nplain\n")
    source = open_source(Source(files={language: str(path), "yy": str(other)}), (language, "yy"), folder)
    with pytest.raises(DataError) as caught:
        list(source.pairs())
    return path, str(caught.value)
