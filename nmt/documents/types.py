"""The interface of documents: texts to translate, and a method that writes their translations.

The language and the direction that a document states follow the target language.
"""

from __future__ import annotations

import codecs
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, AnyStr, NamedTuple, TypeAlias

from nmt.console import amount, printable
from nmt.errors import ConfigError, DataError
from nmt.languages.codes import is_other_language, is_right_to_left, related_codes, tag_of
from nmt.text.formats import BEGINNING, other_encoding, text_problem
from nmt.text.translated import Translated
from nmt.text.words import beginning

_SHOWN = 60
"""Maximum number of characters of a key in a note."""
_N_SHOWN = 5
"""Maximum number of keys in a note."""
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def encoding_of_mark(content: bytes) -> str | None:
    """Return the encoding that the byte order mark declares; None if there is no such mark."""
    if content.startswith(codecs.BOM_UTF32_LE):
        return None
    return next((encoding for mark, encoding in _MARKS.items() if content.startswith(mark)), None)


def decoded(name: str, content: bytes, encoding: str) -> str:
    """Return the text of a document, including its byte order mark.

    Raises DataError if the content is in another format or encoding.
    """
    if (encoding_of_mark(content) or "utf-8") == "utf-8" and (problem := text_problem(content[:BEGINNING])):
        raise DataError(f"{name}: {problem}")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise DataError(f"{name}: not {encoding}, the declared encoding; save it as UTF-8") from None
        before = content[: error.start]
        number = before.count(b"\n") + 1
        start = before.rfind(b"\n") + 1
        advice = other_encoding(content[start:].split(b"\n", 1)[0], is_mixed=not before.isascii())
        raise DataError(f"{name}: not UTF-8 at line {number}; {advice}") from None


def decoded_text(name: str, content: bytes) -> tuple[str, str]:
    """Return the text and the encoding of a document that declares no encoding. Raises what `decoded` raises."""
    encoding = encoding_of_mark(content) or "utf-8"
    return decoded(name, content, encoding), encoding


# Characters that no line of a text file, or no XML, may contain. A space replaces each, so that offsets stay the same.
_CONTROL = "\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff"
BLANKS = f" \u3000{_CONTROL}"
"""White space around texts, as the content of a character class."""


Languages: TypeAlias = tuple[str, str]
"""The codes of source and target."""


class Columns(NamedTuple):
    """The columns of a table, each by its name in the first row, or else by its number from 1 or its letter."""

    source: str
    """The column to translate."""
    target: str = ""
    """The column for the translations, whose texts are kept; empty: they replace the texts of the source."""
    key: str = ""
    """The column with the keys of the texts, if any."""

    @classmethod
    def parse(cls, text: str) -> Columns:
        """Return columns such as `source=A,target=B`. Raises ConfigError."""
        given = dict(re.findall(r"(source|target|key)=(.+?)(?:,(?=\w+=)|\Z)", text))
        if "source" not in given or ",".join(map("=".join, given.items())) != text:
            raise ConfigError(f"--columns {text}: must be like source=A,target=B,key=C, of which source is needed")
        return cls(**given)


@dataclass(frozen=True)
class DocumentOptions:
    """How a document is opened."""

    source: str = ""
    """The language to translate; text that is marked as another language is left out, unless this one is unknown."""
    target: str = ""
    """The language to translate into, if it is known."""
    columns: Columns | None = None
    """The columns of a table; None: they are chosen by the languages, or all texts of a workbook are translated."""


def check_languages(name: str, stated: Sequence[str], options: DocumentOptions) -> None:
    """Raise DataError if a document states another source or target. stated: both, each empty if it is not stated."""
    if any(map(is_other_language, stated, (options.source, options.target))):
        in_file = printable(" into ".join(filter(None, stated)))
        raise DataError(f"{name}: is from {in_file}, not from {options.source} into {options.target}")


class Document:
    """A document and its texts, which have no line breaks and no white space at their ends."""

    def __init__(
        self,
        texts: list[str],
        write: Callable[[Results, Languages], bytes],
        *,
        flags: list[str] | None = None,
        keys: list[str] | None = None,
        n_readings: int = 0,
        n_embedded: int = 0,
    ) -> None:
        """Create a document. write: a function that returns the document with one translation for each text, and with
        the language and direction of the target."""
        self.texts = texts
        self.flags = flags or [""] * len(texts)
        """Which of the `GRAMMARS` of format strings, if any, each text follows."""
        self.keys = keys or [""] * len(texts)
        """The key of the unit that each text belongs to, in formats with keys."""
        self.units: Mapping[str, Any] = {}
        """The `Unit` for each key, in formats with keys."""
        self.kept: Mapping[str, Any] = {}
        """The units of the previous output whose translations are kept, by their keys."""
        self.remarks: Mapping[str, Sequence[str]] = {}
        """What else became of units of the previous output, and the keys of the units in question."""
        self.problems: Mapping[str, Sequence[str]] = {}
        """What is wrong with the last translation, and the keys of the units in question."""
        self.n_readings = n_readings
        """Number of ruby readings, which neither texts nor translations contain."""
        self.n_embedded = n_embedded
        """Number of documents that are shown inside this one, and are not translated."""
        self.n_kept = 0
        """Number of texts of a table that have a translation, which is kept."""
        self.n_guessed = 0
        """Number of formats, links, notes and other marks whose place in the last translation is a guess: they have no
        word that is aligned, or equal in both languages."""
        self._write = write

    def notes(self) -> list[str]:
        """Return what readers of the last translation should know."""
        counted = (
            (self.n_embedded, "embedded document", "(altChunk) not translated"),
            (self.n_readings, "ruby reading", "left out"),
            (self.n_kept, "text", "with a translation, which is kept"),
            (self.n_guessed, "mark", "of formats, links or notes placed at a guess; check them"),
        )
        notes = (
            []
            if self.texts or self.kept or self.n_kept
            else ["nothing to translate: no text, or only text that stays as it is"]
        )
        notes += [f"{amount(n, name)} {outcome}" for n, name, outcome in counted if n]
        if self.kept:
            notes.append(f"{amount(len(self.kept), 'text')} kept, {len({*self.keys}):,} translated")
        for problem, keys in {**self.remarks, **self.problems}.items():
            shown = ", ".join(printable(beginning(key, _SHOWN)) for key in keys[:_N_SHOWN])
            notes.append(f"{amount(len(keys), 'text')} {problem}: {shown}{', ...' * (len(keys) > _N_SHOWN)}")
        return notes

    def keep(self, units: Mapping[str, Any]) -> None:
        """Keep the translations of a previous output, given its units by their keys, instead of translating texts."""
        self.kept = units
        rows = [*zip(self.texts, self.flags, self.keys, strict=True)]
        self.texts, self.flags, self.keys = ([row[i] for row in rows if row[2] not in units] for i in range(3))

    def translated(self, results: Sequence[Translated | str], languages: Languages = ("", "")) -> bytes:
        """Return the document, in its own encoding, with one translation for each of `texts`.

        languages: source and target, whose codes and directions replace each other where the document states them.

        Without an alignment, which a `str` lacks, markup follows equal words, or keeps its relative position.

        Raises ValueError if the numbers of texts and translations differ.
        """
        queue = Results(self.texts, results)
        content = self._write(queue, languages)
        self.n_guessed = queue.n_guessed
        self.problems = queue.problems
        return content


def spliced(text: AnyStr, edits: Iterable[tuple[int, int, AnyStr]]) -> AnyStr:
    """Return a text with edits (start, end, what replaces it), in any order, which must not overlap."""
    parts: list[AnyStr] = []
    position = 0
    for start, end, new in sorted(edits, key=itemgetter(0, 1)):
        assert start >= position, "edits overlap"
        parts += text[position:start], new
        position = end
    parts.append(text[position:])
    return text[:0].join(parts)


def spaced(text: str) -> str:
    """Replace each control character and line break of a text by a space."""
    return re.sub(f"[{_CONTROL}]", " ", text)


class Results(Iterator[Translated]):
    """An iterator over translations without control characters and line breaks."""

    def __init__(self, texts: Sequence[str], results: Sequence[Translated | str]) -> None:
        """Take one translation for each text. Raises ValueError if the numbers differ."""
        if len(texts) != len(results):
            raise ValueError(f"expected {len(texts)} translations, one for each text, found {len(results)}")
        translated = [Translated(result) if isinstance(result, str) else result for result in results]
        self._results = iter([replace(result, text=spaced(result.text)) for result in translated])
        self.n_guessed = 0
        """Number of marks that have been placed by a guess."""
        self.problems = defaultdict[str, list[str]](list)
        """What is wrong with the translations of units, and their keys."""

    def __next__(self) -> Translated:
        return next(self._results)


# --- languages ---------------------------------------------------------------------------------------

Changes = dict[str, str]
"""Patterns and their replacements, in order. SOURCE stands for the codes of the source, divided by `|`, and TARGET for
the tag of the target, such as sr-Latn. Patterns must take linear time for any text, since nothing can stop them."""


class Rules(NamedTuple):
    """How a format states its language and direction. Changes of the direction are applied after the others."""

    always: Changes
    to_left_to_right: Changes
    to_right_to_left: Changes


def in_target(text: str, languages: Languages, rules: Rules) -> str:
    """Return a document with the target's language and direction in place of the source's, where it states them.

    It stays as it is if the source is unknown, or the script of the target.
    """
    (source, *_), (target, script, region, _) = map(tag_of, languages)
    if not source or not target or not target.scripts or languages[0] == languages[1]:
        return text
    # the usual script is not stated: de, not de-Latn
    tag = "-".join(part for part in (target.code, script, region) if part not in (None, target.scripts[0]))
    was_right_to_left = is_right_to_left(languages[0])
    is_now_right_to_left = is_right_to_left(languages[1])
    changes = dict(rules.always)
    if is_now_right_to_left and not was_right_to_left:
        changes |= rules.to_right_to_left
    if was_right_to_left and not is_now_right_to_left:
        changes |= rules.to_left_to_right
    for pattern, replacement in changes.items():
        pattern = pattern.replace("SOURCE", related_codes(source.code)).replace("TARGET", tag)
        text = re.sub(pattern, replacement.replace("TARGET", tag), text)
    return text
