r"""Write nmt/share/web/patterns.js: the patterns of sentences and of reading, translated for JavaScript.

    python -m scripts.web_patterns

The page of `nmt export --format web` splits lines and reads text as nmt does. Its functions are written by hand, its
patterns are not. JavaScript lacks

- possessive quantifiers: `X*+` becomes `(?=(?<a1>X*))\k<a1>`, a lookahead, into which nothing backtracks;
- Python's `\s`, `\w` and `\d`, which become character classes, and its `$`, which precedes a final line feed, too;
- `\X`, which becomes any character with all that no boundary of Unicode's annex 29 separates from it;
- some properties of characters, which become ranges of the characters that have them in the installed `regex`.

The sources are for the flag `v`. Group 1 is named `g1`, since further groups change the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import regex

from nmt.text import message_formats, reading, split, words

PATH = Path(__file__).parent.parent / "nmt/share/web/patterns.js"
_SPACES = {re: r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"}
_SPACES[regex] = _SPACES[re].replace(r"\x1c-", "")
_NATIVE = {"L", "Lo", "M", "Emoji", "Emoji_Presentation", "Extended_Pictographic", "ExtPict", "EMod", "DI", "RI"}
_NATIVE.add("Logical_Order_Exception")
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_IN_CLASS = _SYNTAX | frozenset("-&!#%,:;<=>@`~")
_DIGITS = {"u": 4, "U": 8, "x": 2}
_NAMED = {"t": "\t", "n": "\n", "r": "\r"}
_PLAIN = regex.compile(r"(?![\p{bc=R}\p{bc=AL}])[\p{L}\p{N}\p{P}\p{S}]")
_QUANTIFIER = re.compile(r"[*+?]|\{\d+(?:,\d*)?\}|\{,\d+\}")

# where no boundary separates two characters, by the rules GB3 to GB13
_JOINED = (
    r"(?:(?<=\r)(?=\n)|(?<![\p{GCB=Control}\r\n])(?![\p{GCB=Control}\r\n])(?:"
    r"(?=[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}])|(?<=\p{GCB=Prepend})"
    r"|(?<=\p{GCB=L})(?=[\p{GCB=L}\p{GCB=V}\p{GCB=LV}\p{GCB=LVT}])"
    r"|(?<=[\p{GCB=LV}\p{GCB=V}])(?=[\p{GCB=V}\p{GCB=T}])|(?<=[\p{GCB=LVT}\p{GCB=T}])(?=\p{GCB=T})"
    r"|(?<=\p{InCB=Consonant}[\p{InCB=Extend}\p{InCB=Linker}]*\p{InCB=Linker}[\p{InCB=Extend}\p{InCB=Linker}]*)"
    r"(?=\p{InCB=Consonant})"
    r"|(?<=\p{ExtPict}\p{GCB=Extend}*\u200d)(?=\p{ExtPict})"
    r"|(?<=(?<!\p{RI})(?:\p{RI}\p{RI})*\p{RI})(?=\p{RI})))"
)


def patterns() -> dict[str, str]:
    """Return the sources of the patterns for JavaScript."""
    of_split = {
        name: getattr(split, f"_{name}")
        for name in (
            "SENTENCE", "CLAUSE", "COMMA", "WORD", "OPEN", "CONTINUES", "ABBREVIATION", "ANOTHER", "ETC",
            "BAR_BEFORE_SPACE", "ANY_BAR", "LAST_MARK", "PICTURES", "QUOTE", "WIDE", "UNSPACED", "ENDED", "GLUED",
        )
    }  # fmt: skip
    compiled = {
        "TEMPLATE": re.compile(message_formats.TEMPLATE),
        **of_split,
        "CLUSTER": words.CLUSTER,
        # unicodedata.category and bidirectional: a letter without case, written from left to right
        "LETTER_WITHOUT_CASE": r"(?!\p{bc=AL})(?!\p{bc=R})\p{Lo}",
        "SPECIAL": reading._SPECIAL,
        "SPACE": re.compile(r"\s"),
    }
    result = {}
    for name, pattern in compiled.items():
        if isinstance(pattern, re.Pattern):
            result[name] = _Translation(pattern.pattern, re).source()
        else:
            result[name] = _Translation(getattr(pattern, "pattern", pattern), regex).source()
    return result


def content() -> str:
    """Return the content of patterns.js."""
    constants = {
        "VOWELS": split._VOWELS, "QUOTES": split._QUOTES, "OPENED_BY": dict(split._OPENED_BY),
        "STOPS": [*split._STOPS],
    }  # fmt: skip
    lines = [
        "// Written by scripts/web_patterns.py from the patterns of nmt.text; do not edit.",
        f"// Characters of this version of Unicode: {installed_unicode()}",
    ]
    for name, constant in constants.items():
        lines.append(f"export const {name} = {_literal(constant)};")
    sources = patterns()
    joined = _Translation(_JOINED, regex).source()
    for name in dict.fromkeys(re.findall(r"\$\{(\w+)\}", joined + "".join(sources.values()))):
        source = joined if name == "JOINED" else _class_of(name.replace("_", "=", 1))
        lines.append(f"const {name} = String.raw`{source}`;")
    lines.append("export const SOURCES = {")
    lines += [f"  {name}: String.raw`{source}`," for name, source in sources.items()]
    return "\n".join([*lines, "};", ""])


def installed_unicode() -> int:
    """Return the number of characters that `regex` knows, by which one can tell its version of Unicode."""
    return len(regex.findall(r"\P{Cn}", _every_character()))


def unicode_of(content: str) -> int:
    """Return the number of characters that `regex` knew when a file was written."""
    return int(re.findall(r"version of Unicode: (\d+)", content)[0])


def _literal(value: Any) -> str:
    """Return a text, a list or a dictionary as JavaScript."""
    if isinstance(value, str):
        return "".join(['"', *(_shown(character, frozenset('"\\')) for character in value), '"'])
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return f"{{ {', '.join(f'{_literal(key)}: {_literal(item)}' for key, item in value.items())} }}"


class _Translation:
    """The translation of one pattern, from left to right."""

    def __init__(self, pattern: str, module: ModuleType) -> None:
        self._pattern, self._at, self._module = pattern, 0, module
        self._n_groups = self._n_atomic = 0
        self._is_behind = False  # within a lookbehind
        self._dot = r"[^\n]"

    def source(self) -> str:
        result = self._alternatives()
        assert self._at == len(self._pattern), self._pattern[self._at :]
        return result

    def _next(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1]

    def _skip(self, text: str) -> bool:
        """Skip a text if it is next."""
        is_next = self._pattern.startswith(text, self._at)
        self._at += is_next * len(text)
        return is_next

    def _alternatives(self) -> str:
        """Translate up to a closing bracket or the end."""
        parts = []
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            parts.append("|" if self._skip("|") else self._quantified())
        return "".join(parts)

    def _quantified(self) -> str:
        atom = self._atom()
        quantifier = _QUANTIFIER.match(self._pattern, self._at)
        if quantifier is None:
            return atom
        self._at = quantifier.end()
        repeated = atom + quantifier[0].replace("{,", "{0,")
        if self._skip("?"):
            return f"{repeated}?"
        return self._atomic(repeated) if self._skip("+") else repeated

    def _atomic(self, source: str) -> str:
        assert not self._is_behind, "a lookbehind is matched backwards: the reference would precede its group"
        self._n_atomic += 1
        return rf"(?:(?=(?<a{self._n_atomic}>{source}))\k<a{self._n_atomic}>)"

    def _atom(self) -> str:
        match character := self._next():
            case "\\":
                return self._escape(in_class=False)
            case "[":
                return self._class()
            case "(":
                return self._group()
            case ".":
                return self._dot
            case "$":
                return r"(?=\n?$)"
            case "^":
                return "^"
        return _shown(character, _SYNTAX)

    def _group(self) -> str:
        before = self._is_behind, self._dot
        for begin in ("?:", "?=", "?!", "?<=", "?<!", "?s:"):
            if self._skip(begin):
                break
        else:
            self._n_groups += 1
            begin = f"?<g{self._n_groups}>"
        self._is_behind = self._is_behind or begin in ("?<=", "?<!")
        if begin == "?s:":
            begin, self._dot = "?:", r"\p{Any}"
        inside = self._alternatives()
        assert self._next() == ")"
        self._is_behind, self._dot = before
        return f"({begin}{inside})"

    def _escape(self, in_class: bool) -> str:
        """Translate what follows a backslash."""
        spaces = _SPACES[self._module]
        match character := self._next():
            case "s" | "S":
                return f"[{'^' * (character == 'S')}{spaces}]"
            case "w" | "W":
                return rf"[{'^' * (character == 'W')}\p{{L}}\p{{N}}_]"
            case "d":
                return r"\p{Nd}"
            case "Z":
                return "$"
            case "X":
                return self._grapheme()
            case "p":
                assert self._skip("{")
                end = self._pattern.index("}", self._at)
                name, self._at = self._pattern[self._at : end], end + 1
                return _property(name)
            case "u" | "U" | "x":
                self._at -= 2
                return _shown(chr(self._character()), _IN_CLASS if in_class else _SYNTAX)
            case "t" | "n" | "r":
                return f"\\{character}"
        assert not character.isalnum(), character
        return _shown(character, _IN_CLASS if in_class else _SYNTAX)

    def _grapheme(self) -> str:
        return self._atomic(r"\p{Any}(?:${JOINED}\p{Any})*")

    def _class(self) -> str:
        """Translate a class. Its characters are sorted, since nmt takes some of them from sets."""
        begin = "[^" if self._skip("^") else "["
        others = []
        codes = list[int]()
        while not self._skip("]"):
            if self._pattern[self._at] == "\\" and self._pattern[self._at + 1] in "sSwWdp":
                self._at += 1
                others.append(self._escape(in_class=True))
                continue
            first = last = self._character()
            if self._pattern[self._at] == "-" and self._pattern[self._at + 1] != "]":
                self._at += 1
                last = self._character()
            codes += range(first, last + 1)
        ranges = [_range(*run) for run in _runs(sorted({*codes}))]
        return "".join([begin, *ranges, *others, "]"])

    def _character(self) -> int:
        """Return the code of the next character of a class, which may be escaped."""
        if not self._skip("\\"):
            return ord(self._next())
        character = self._next()
        if (digits := _DIGITS.get(character)) is None:
            return ord(_NAMED.get(character, character))
        self._at += digits
        return int(self._pattern[self._at - digits : self._at], 16)


def _range(first: int, last: int) -> str:
    """Return consecutive characters as the content of a class."""
    shown = [_shown(chr(code), _IN_CLASS) for code in range(first, last + 1)[: 2 if last == first + 1 else 1]]
    return "".join(shown) if last <= first + 1 else f"{shown[0]}-{_shown(chr(last), _IN_CLASS)}"


def _shown(character: str, escaped: frozenset[str]) -> str:
    """Return a character, escaped if it has a meaning, if it is invisible, or if it is written from right to left."""
    if character in escaped:
        return f"\\{character}"
    if character.isascii() and character.isprintable():
        return character
    is_plain = _PLAIN.fullmatch(character)
    return character if is_plain else f"\\u{{{ord(character):x}}}"


def _property(name: str) -> str:
    """Return a property of characters as JavaScript names it, or else a reference to the class of all that have it."""
    if name in _NATIVE:
        return rf"\p{{{name}}}"
    if re.fullmatch("[A-Z][a-z]{3}", name):
        return rf"\p{{Script={name}}}"
    return f"${{{name.replace('=', '_')}}}"


def _class_of(name: str) -> str:
    """Return a class of all characters that have a property. Of a direction, the class has only letters."""
    expression = rf"\p{{{name}}}"
    if name.startswith("bc="):
        expression = rf"(?=\p{{Lo}}){expression}"
    codes = [ord(character) for character in regex.findall(expression, _every_character())]
    ranges = [_range(*run) for run in _runs(codes)]
    return f"[{''.join(ranges)}]"


def _runs(codes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of consecutive numbers."""
    starts = [i for i, code in enumerate(codes) if not i or code > codes[i - 1] + 1]
    for start, stop in pairwise([*starts, len(codes)]):
        yield codes[start], codes[stop - 1]


@cache
def _every_character() -> str:
    return "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def main() -> None:
    PATH.write_text(content(), encoding="utf-8")
    print(f"{PATH}: written")


if __name__ == "__main__":
    main()
