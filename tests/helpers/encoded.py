"""Text in encodings other than UTF-8, which is refused with the command that converts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.config.source import TrainFiles
from nmt.errors import DataError
from nmt.prepare.sources import open_source

JAPANESE = "これは日本語の文章です。漢字もあります。"

USUAL = [
    ("de_AT", "Die „Größe“ – 5 €", "cp1252", "WINDOWS-1252"),
    ("pl", "Zażółć gęślą jaźń", "cp1250", "WINDOWS-1250 or ISO-8859-2"),
    ("tr", "İstanbul'da güneşli bir gün, ağaç", "cp1254", "WINDOWS-1254"),
    ("lt", "Įlinkdama špaga pragręžė apvalų arbūzą", "cp1257", "WINDOWS-1257"),
    ("el", "Ο σκύλος βλέπει τα τρένα", "cp1253", "WINDOWS-1253"),
    ("he", "הכלב רואה את הרכבת", "cp1255", "WINDOWS-1255"),
    ("ar", "الكلب يرى القطار، أين؟", "cp1256", "WINDOWS-1256"),
    ("th", "สุนัขเห็นรถไฟ", "tis_620", "TIS-620"),
    ("ru", "Съешь же ещё этих мягких французских булок", "cp1251", "WINDOWS-1251 or KOI8-R"),
    ("uk", "З'їж ще цих м'яких булок", "cp1251", "WINDOWS-1251 or KOI8-U"),
    ("ja", JAPANESE, "shift_jis", "SHIFT_JIS"),
    ("ja", JAPANESE, "euc-jp", "EUC-JP"),
    ("ko", "한국어 문장입니다.", "euc-kr", "EUC-KR"),
    ("zh", "这是一个中文句子，很短。", "gb18030", "GB18030 or BIG5"),
]
"""Language, text, encoding and what is named by the names in iconv."""


def refused(folder: Path, language: str, text: str, encoding: str) -> tuple[Path, str]:
    """Write a side of a corpus in another encoding; return its path and the message with which it is refused."""
    path, other = folder / "train.xx", folder / "train.yy"
    path.write_bytes(b"plain\n" + text.encode(encoding) + b"\n")
    other.write_bytes(b"plain\nplain\n")
    source = open_source(TrainFiles(files={language: str(path), "yy": str(other)}), (language, "yy"), folder)
    with pytest.raises(DataError) as caught:
        list(source.pairs())
    return path, str(caught.value)
