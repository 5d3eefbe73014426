"""Checks of what a language model has answered for a line, and repairs of what is certain."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from nmt.chat.answers import REFUSED, Content
from nmt.console import say_once
from nmt.data.settings import DataConfig
from nmt.data.sources import train_key
from nmt.errors import DataError
from nmt.languages.codes import is_spaced, language_name
from nmt.prepare.cleaning.cleaner import Cleaner, HeldOut
from nmt.prepare.cleaning.counts import REASONS
from nmt.prepare.cleaning.settings import CleanConfig
from nmt.text.constraints import lost
from nmt.text.split import n_sentences
from nmt.text.tokenizer import is_blank

MAX_RATIO = 3.0
"""`data.max_ratio` for answers, unless it is less: translations of a model have no free rewordings."""
_MIN_SCRIPT = 0.5
_NAME_LETTERS = 12  # a copy with fewer letters may be a name
_THOUGHT = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHT = re.compile(r".*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)  # some servers remove the beginning
_BEGIN_OF_THOUGHT = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"```[^\n`]*\n(.*?)\n?```", re.DOTALL)
_WRAPPINGS = (
    '""', "''", "“”", "„“", "„”", "‘’", "‚‘", "«»", "»«", "‹›", "「」", "『』", "``", "**", "__",
)  # fmt: skip
_COLON = re.compile("[:：﹕]")
# a line of its own before the translation
_INTRODUCES = re.compile(
    r"[*_#]*(?:sure|certainly|of course|okay|ok|absolutely|here|below|translation|translated|answer|output|result"
    r"|the|in)\b.{0,80}[:：][*_]*",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(
    r"[(\[*_]*(?:note|explanation|literally|alternatively|let me know|i hope|feel free|please note|this translation)\b",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\bas an? (?:ai|large language|language model)\b"
    r"|\b(?:can(?:no|')t|can’t|cannot|unable to|won't|not able to|not allowed to) "
    r"(?:assist|comply|translate|fulfill?|provide (?:a|the|that|this) (?:translation|content)"
    r"|help (?:you )?with (?:that|this) request)\b"
    r"|\b(?:content|usage) polic(?:y|ies)\b",
    re.IGNORECASE,
)


def without_thoughts(text: str) -> str | None:
    """Return an answer without the parts in which a model reasons; None if it ends within them."""
    text = _END_OF_THOUGHT.sub("", _THOUGHT.sub("", text))
    return None if _BEGIN_OF_THOUGHT.search(text) else text.strip()


def repaired(source: str, text: str, target: str) -> str | None:
    """Return the translation in an answer, on one line; None if it is not certain which part that is.

    Only what the source lacks is removed: code fences, a JSON object, introductions, remarks, and quotation marks and
    formatting around the whole text.

    source: the line; target: the name of the target language.
    """
    if "```" not in source and (fenced := _FENCE.findall(text)):
        if len(fenced) > 1:
            return None
        text = fenced[0]
    if not source.lstrip().startswith("{"):
        text = _json_value(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(_COLON.findall(source)) < len(_COLON.findall(text)):
        label = re.compile(rf"[*_#]*(?:.{{0,60}}\btranslat\w*\b.{{0,60}}?|{re.escape(target)}):[*_\s]*", re.IGNORECASE)
        for number, line in reversed([*enumerate(lines)]):
            if _INTRODUCES.fullmatch(line):
                del lines[: number + 1]
                break
            if label.match(line):
                lines = [label.sub("", line, count=1), *lines[number + 1 :]]
                break
    lines = [line for line in lines if line]
    while len(lines) > 1 and _FOLLOWS.match(lines[-1]):
        del lines[-1]
    if len(lines) > 1 and len(lines) != n_sentences(source):
        return None
    return _unwrapped(source.strip(), " ".join(lines))


def _json_value(text: str) -> str:
    """Return the only value of an answer that is a JSON object with one text, or the answer itself."""
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return text
    values = [*decoded.values()] if isinstance(decoded, dict) else []
    return values[0] if len(values) == 1 and isinstance(values[0], str) else text


def _unwrapped(source: str, text: str) -> str:
    """Remove quotation marks and formatting around a text, unless the source has any around it."""
    if any(source.startswith(marks[0]) and source.endswith(marks[1]) for marks in _WRAPPINGS):
        return text
    for marks in _WRAPPINGS:
        width = 2 if marks in ("**", "__") else 1
        opening = marks[0] * width
        closing = marks[1] * width
        inner = text[width:-width]
        if len(text) > 2 * width and text.startswith(opening) and text.endswith(closing):
            if opening in inner or closing in inner:  # two quotations
                break
            return _unwrapped(source, inner.strip())
    return text


class Checks:
    """Checks of the answers in a direction."""

    def __init__(self, data: DataConfig, languages: tuple[str, str]) -> None:
        """data: the settings of the text; languages: the source and the target language."""
        self._languages = languages
        self._target = language_name(languages[1])
        sources = [source.model_copy(update={"clean": None}) for source in data.train]
        changes = {"direction": "-".join(languages), "train": sources, "max_ratio": min(data.max_ratio, MAX_RATIO)}
        self._data = data.without_language_tags().model_copy(update=changes)
        try:
            self._cleaner = self._made("language")
        except DataError as error:  # the package is not installed, or does not know the language
            say_once(f"the language of the answers is not identified: {error}")
            self._cleaner = self._made()

    def _made(self, *dropped: str) -> Cleaner:
        clean = CleanConfig.model_validate({"drop": ["copied", "numbers", *dropped], "min_script": _MIN_SCRIPT})
        data = self._data.model_copy(update={"clean": clean})
        return Cleaner(data, train_key(0), HeldOut(frozenset(), frozenset()))

    def checked(self, source: str, content: Content) -> tuple[str, str | None]:
        """Return the translation of a line in an answer, repaired, and the reason to reject it; None if it is good."""
        text = without_thoughts(content.text)
        if content.end == REFUSED:
            return "", "an error of the server"
        if content.end == "content_filter" or (text and _REFUSAL.search(text) and not _REFUSAL.search(source)):
            return text or "", "a refusal"
        if text is None or content.end == "length":
            return " ".join((text or "").split()), "truncated"
        one = repaired(source, text, self._target)
        if one is None:
            return " ".join(text.split()), "several lines"
        return one, next(self._problems(source, one), None)

    def _problems(self, source: str, text: str) -> Iterator[str]:
        if is_blank(text):
            yield "no text"
            return
        src, tgt = self._languages
        sides = (source, text) if src < tgt else (text, source)
        reason = self._cleaner.reason(*sides)
        may_be_name = is_spaced(src) and sum(map(str.isalpha, source)) < _NAME_LETTERS
        if reason is not None and not (reason == "copied" and may_be_name):
            yield REASONS[reason]
        if lost(source, text) or lost(text, source):
            yield "placeholders differ"
