"""What both sides of a pair must have in common: links, tags and placeholders, numbers, sentences, a final mark."""

from __future__ import annotations

import re
import unicodedata

from nmt.text.split import n_sentences

LINK = re.compile(r"(?:https?|ftp)://\S|\bwww\.\w|[\w.+-]+@\w[\w-]*\.\w")

_MARKUP = re.compile(
    r"</?[a-zA-Z][^<>]*>"  # <b>, </b>, <a href="...">
    r"|\{\{?[\w.:]*\}\}?"  # {0}, {name}, {{name}}, ${name}
    r"|%(?:\d+\$)?(?:\(\w+\))?(?:\.\d+)?(?:l?[dux]|[sfi@])(?!\w)"  # %s, %2$s, %(name)s, %.2f
    r"|%\d+(?![\w.,%])|%[A-Z_]{2,}%?"  # %1, %NAME, %NAME%
    r"|\$[\[(][\w.]+[\])]"  # $[name], $(name)
)
_NAME = re.compile(r"</?[\w.:-]+")  # attributes may be translated
_POSITION = re.compile(r"(?<=%)\d+\$")
_NUMBER = re.compile(r"\d+")
_AS_WORDS = 12  # numbers up to this one are often written as words

_CLOSING = " \"'”“’‘»«›‹)]}」』）】》〉*_"
_FINAL = tuple(".!?…。！？｡؟۔।॥։።။។།")
_OTHER_FINAL = tuple(":;,-–—：；，،؛፤")


def other_links(src: str, tgt: str) -> bool:
    """Whether the sides do not have as many web and e-mail addresses."""
    return _n_links(src) != _n_links(tgt)


def _n_links(text: str) -> int:
    return len(LINK.findall(text)) if "@" in text or "://" in text or "www." in text else 0


def other_tags(src: str, tgt: str) -> bool:
    """Whether the sides do not have the same tags and placeholders, in any order."""
    return _tags(src) != _tags(tgt)


def _tags(text: str) -> list[str]:
    if "<" not in text and "{" not in text and "%" not in text and "$" not in text:
        return []
    return sorted(name[0] if (name := _NAME.match(tag)) else _POSITION.sub("", tag) for tag in _MARKUP.findall(text))


def other_numbers(src: str, tgt: str) -> bool:
    """Whether a number of one side is not among the digits of the other.

    So marks within numbers have no effect. Those of 12 and below are not looked for.
    """
    numbers = _NUMBER.findall(src), _NUMBER.findall(tgt)
    if numbers[0] == numbers[1]:
        return False
    first, second = ([_western(number) for number in side] for side in numbers)
    return _lacks(first, second) or _lacks(second, first)


def _western(number: str) -> str:
    """Return a number in Western digits without leading zeros."""
    digits = number if number.isascii() else "".join(str(unicodedata.decimal(digit)) for digit in number)
    return digits.lstrip("0")


def _lacks(present: list[str], wanted: list[str]) -> bool:
    digits = "".join(present)
    return any(number not in digits for number in wanted if len(number) > 2 or int(number or "0") > _AS_WORDS)


def other_sentences(src: str, tgt: str) -> bool:
    """Whether the sides do not have as many sentences."""
    return n_sentences(src) != n_sentences(tgt)


def is_cut(src: str, tgt: str) -> bool:
    """Whether one side ends with the punctuation of a sentence, and the other with none at all."""
    src, tgt = src.rstrip(_CLOSING), tgt.rstrip(_CLOSING)
    if src.endswith(_FINAL):
        return not tgt.endswith(_FINAL) and not tgt.endswith(_OTHER_FINAL)
    return tgt.endswith(_FINAL) and not src.endswith(_OTHER_FINAL)
