"""Checks of what a language model has answered for a line, and repairs of what is certain."""

from __future__ import annotations

import json
import re
from contextlib import suppress

from nmt.chat.answers import REFUSED, Answer
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

MAX_RATIO = 3.0
"""The ratio of lengths (`data.max_ratio`) of answers, unless that is less: a model does not reword freely."""
_NAME_LETTERS = 12  # a copy with fewer letters may be a name
_THOUGHT = re.compile(r"<(think(?:ing)?)>.*?</\1>|\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_UNFINISHED_THOUGHT = re.compile(r"<think", re.IGNORECASE)
_FENCED = re.compile(r"[^`]*```[^\n`]*\n([^`]*?)\n?```[^`]*")
_COLON = re.compile("[:：﹕]")
# a line of its own before the translation
_INTRODUCTION = re.compile(
    r"[*_#]*(?:sure|certainly|of course|okay|ok|absolutely|here|below|translation|translated|answer|output|result"
    r"|the|in)\b.{0,80}[:：][*_]*",
    re.IGNORECASE,
)
_REMARK = re.compile(
    r"[(\[*_]*(?:note|explanation|literally|alternatively|let me know|i hope|feel free|please note|this translation)\b",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\bas an? (?:ai|large language|language model)\b"
    r"|\b(?:can(?:no|['’])t|unable to|won['’]t|not able to|not allowed to) "
    r"(?:assist|comply|translate|fulfill?|provide (?:a|the|that|this) (?:translation|content)"
    r"|help (?:you )?with (?:that|this) request)\b"
    r"|\b(?:content|usage) polic(?:y|ies)\b",
    re.IGNORECASE,
)
_QUOTES = ('""', "''", "“”", "„“", "„”", "‘’", "‚‘", "«»", "»«", "‹›", "「」", "『』", "``", "**", "__")
# a mark once or twice on either side, and none within
_QUOTED = [
    re.compile(rf"[{re.escape(marks[0])}]{{1,2}}([^{re.escape(marks)}]+)[{re.escape(marks[1])}]{{1,2}}")
    for marks in _QUOTES
]


def without_thoughts(text: str) -> str:
    """Return an answer without the parts in which a model reasons."""
    return _THOUGHT.sub("", text).strip()


def repaired(source: str, text: str, target: str) -> str | None:
    """Return the translation in an answer, on one line; None if it is not certain which part that is.

    Only what the source lacks is removed: a code fence, a JSON object, introductions, remarks, and quotation marks and
    formatting around the whole text.

    source: the line; target: the name of the target language.
    """
    if "`" not in source:
        text = _FENCED.sub(r"\1", text)
    if "{" not in source:
        with suppress(ValueError, RecursionError, AttributeError):
            [value] = json.loads(text).values()
            text = str(value)
    lines = [*filter(None, map(str.strip, text.splitlines()))]
    if len(_COLON.findall(source)) < len(_COLON.findall(text)):
        label = re.compile(rf"[*_#]*(?:.{{0,60}}\btranslat\w*\b.{{0,60}}?|{re.escape(target)}):[*_\s]*", re.IGNORECASE)
        for number, line in reversed([*enumerate(lines)]):
            if _INTRODUCTION.fullmatch(line) or label.match(line):
                rest = "" if _INTRODUCTION.fullmatch(line) else label.sub("", line, count=1)
                lines = [*filter(None, [rest]), *lines[number + 1 :]]
                break
    while len(lines) > 1 and _REMARK.match(lines[-1]):
        del lines[-1]
    if len(lines) > 1 and len(lines) != n_sentences(source):
        return None
    line = " ".join(lines)
    for pattern in _QUOTED:
        if (quoted := pattern.fullmatch(line)) and not any(other.fullmatch(source.strip()) for other in _QUOTED):
            return quoted[1].strip()
    return line


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
        clean = CleanConfig.model_validate({"drop": ["copied", "numbers", *dropped], "min_script": 0.5})
        data = self._data.model_copy(update={"clean": clean})
        return Cleaner(data, train_key(0), HeldOut(frozenset(), frozenset()))

    def checked(self, source: str, answer: Answer) -> tuple[str, str | None]:
        """Return the translation of a line in an answer, repaired, and the reason to reject it; None if it is good."""
        if answer.end == REFUSED:
            return "", "an error of the server"
        text = without_thoughts(answer.text)
        if answer.end == "length" or _UNFINISHED_THOUGHT.search(text):
            return text, "truncated"
        if answer.end == "content_filter" or (_REFUSAL.search(text) and not _REFUSAL.search(source)):
            return text, "a refusal"
        line = repaired(source, text, self._target)
        if line is None:
            return text, "several lines"
        src, tgt = self._languages
        reason = self._cleaner.reason(*((source, line) if src < tgt else (line, source)))
        if reason == "copied" and is_spaced(src) and sum(map(str.isalpha, source)) < _NAME_LETTERS:
            reason = None
        if reason is None and (lost(source, line) or lost(line, source)):
            return line, "placeholders differ"
        if reason is None and "\ufffd" in line and "\ufffd" not in source:  # bytes that are no UTF-8
            reason = "broken"
        return line, reason and REASONS[reason]
