"""Checks of what a language model has answered for a line, and repairs of what is certain."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from nmt.chat.answers import REFUSED, Answer
from nmt.console import say_once
from nmt.data.settings import DataConfig
from nmt.data.sources import train_key
from nmt.errors import DataError
from nmt.languages.codes import is_spaced, language_name, usual_script
from nmt.prepare.cleaning.cleaner import Cleaner, HeldOut
from nmt.prepare.cleaning.counts import REASONS
from nmt.prepare.cleaning.filters import changed_numbers, other_script
from nmt.prepare.cleaning.repairs import to_unicode_form
from nmt.prepare.cleaning.settings import CleanConfig
from nmt.text.constraints import lost
from nmt.text.language import in_other_language
from nmt.text.split import n_sentences

MAX_RATIO = 3.0
"""The ratio of lengths (`data.max_ratio`) of answers, unless that is less: a model does not reword freely."""
MIN_SCRIPT = 0.5
"""The least share of letters in a script of the target language, apart from words that the line has, too."""
_THOUGHT = re.compile(
    r"<(think(?:ing)?)>.*?</\1>|\[THINK\].*?\[/THINK\]|\A.*</think(?:ing)?>"
    r"|(?:</s>|<end_of_turn>|<\|\w+\|>)\s*\Z",  # the end of an answer in some models
    re.DOTALL | re.IGNORECASE,
)
_UNFINISHED_THOUGHT = re.compile(r"<think|\[THINK\]", re.IGNORECASE)
_FENCED = re.compile(r"[^`]*```[^\n`]*\n([^`]*?)\n?```[^`]*")
_COLON = re.compile("[:：﹕]")
_TRANSLATION = (
    "translat|übersetz|traduc|traduz|tradui|tradott|перево|перевед|переклад|翻译|翻譯|译文|譯文|翻訳|번역|ترجم|अनुवाद"
    "|คำแปล|bản dịch|çeviri|terjemah|käännö|översätt|overs[eæ]t|vertal|tłumacz|překlad|prevod|fordít|μετάφρα|תרגו"
)
"""Beginnings of the word for a translation in several languages."""
# a line of its own before the translation
_INTRODUCTION = re.compile(
    r"[*_#]*(?:(?:sure|certainly|of course|okay|ok|absolutely|here|below|answer|output|result|text)\b"
    rf"|.*(?:{_TRANSLATION})).{{0,80}}[:：]\s*[*_]*",
    re.IGNORECASE,
)
_LABEL = rf"[*_#]*(?:.{{0,60}}(?:{_TRANSLATION}).{{0,60}}?|%s)[:：](?!\d)[*_\s]*"
_REMARK = re.compile(
    r"[(\[*_]*(?:note|explanation|literally|alternatively|let me know|i hope|feel free|please note|this translation)\b",
    re.IGNORECASE,
)
# an answer that is about the task, unless the line is, too
_ABOUT_TASK = re.compile(
    r"\btranslat|übersetz|(?:无法|不能)翻译|翻訳できません|번역할 수 없|перевести этот|traducir este|traduire ce"
    r"|language model|sprachmodell|语言模型|言語モデル|языков\w+ модел|modèle de langage|modelo de lengua|\bas an ai\b"
    r"|provided text|text (?:you )?provided|(?:assist|comply|help)(?: you)? with (?:that|this)\b"
    r"|violates? \w+ .{0,20}polic",
    re.IGNORECASE,
)
_TASK = re.compile(rf"{_ABOUT_TASK.pattern}|{_TRANSLATION}|\b(?:ai|ki|ia)\b", re.IGNORECASE)
# what separates a translation from remarks and other translations
_REMARKS = re.compile(r"\*\*|->|→| / |[)\]]\W*\Z|\A(?:[-*•>#]|\d+[.)]) ")
_LONG = 20  # characters of a line that is no name
_QUOTES = '"“”„‟«»‹›「」『』״″`*_'
_QUOTED = re.compile(rf"[{_QUOTES}]{{1,2}}([^{_QUOTES}]+)[{_QUOTES}]{{1,2}}")
# a dash may begin speech, and two small marks may be a large one
_SPEECH = re.compile(rf"[《》{_QUOTES}]|''|,,|\A\s*[—–-]")
_WORD = re.compile(r"[\w.@:/-]{2,}")
_QUESTION = re.compile("[?？؟;՞፧]")


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
    lines = [*filter(None, map(str.strip, text.split("\n")))]
    if len(_COLON.findall(source)) < len(_COLON.findall(text)) and not _TASK.search(source):
        label = re.compile(_LABEL % re.escape(target), re.IGNORECASE)
        for number, line in reversed([*enumerate(lines)]):
            if _INTRODUCTION.fullmatch(line) and number + 1 < len(lines):
                del lines[: number + 1]
                break
            if label.match(line):
                lines = [label.sub("", line, count=1), *lines[number + 1 :]]
                break
    n = n_sentences(source)
    while 1 < len(lines) != n and _REMARK.match(lines[-1]):
        del lines[-1]
    if 1 < len(lines) != n:
        return None
    line = " ".join(lines)
    quoted = None if _SPEECH.search(source) else _QUOTED.fullmatch(line)
    return quoted[1].strip() if quoted else line


class Checks:
    """Checks of the answers in a direction."""

    def __init__(self, data: DataConfig, languages: tuple[str, str]) -> None:
        """data: the settings of the text; languages: the source and the target language."""
        self._languages = src, tgt = languages
        self._target = language_name(tgt)
        sources = [source.model_copy(update={"clean": None}) for source in data.train]
        changes = {
            "direction": f"{src}-{tgt}", "train": sources, "max_ratio": min(data.max_ratio, MAX_RATIO),
            "clean": CleanConfig(drop=["copied", "broken"]),
        }  # fmt: skip
        changed = data.without_language_tags().model_copy(update=changes)
        self._cleaner = Cleaner(changed, train_key(0), HeldOut(frozenset(), frozenset()))
        self._has_other_script = other_script(tgt, MIN_SCRIPT)
        try:
            self._is_in_other_language = in_other_language(tgt, {})
        except DataError as error:  # the package is not installed, or does not know the language
            say_once(f"the language of the answers is not identified: {error}")
            self._is_in_other_language = lambda _: False

    def checked(self, source: str, answer: Answer) -> tuple[str, str | None]:
        """Return the translation of a line in an answer, repaired, and the reason to reject it; None if it is good."""
        if answer.end == REFUSED:
            return "", "an error of the server"
        text = without_thoughts(answer.text)
        if answer.end == "length" or _UNFINISHED_THOUGHT.search(text):
            return text, "truncated"
        line = repaired(source, text, self._target)
        if answer.end == "content_filter" or (_ABOUT_TASK.search(line or text) and not _TASK.search(source)):
            return text, "about the task"
        if line is None:
            return text, "several lines"
        return line, next(self._problems(source, line), None)

    def _problems(self, source: str, line: str) -> Iterator[str]:
        """Yield the reasons to reject the translation of a line."""
        src, tgt = self._languages
        reason = self._cleaner.reason(*((source, line) if src < tgt else (line, source)))
        most = 24 if is_spaced(src) or source.isascii() else 5
        is_name = sum(map(str.isalpha, source)) < most and len(source.split()) <= 3
        if reason is not None and not (reason == "copied" and is_name):
            yield REASONS[reason]
        rest = line
        for word in sorted({*_WORD.findall(source)}, key=len, reverse=True):
            rest = rest.replace(word, " ")
        if self._has_other_script(rest):
            yield REASONS["script"]
        has_own_script = usual_script(src) != usual_script(tgt)  # else copied words tell the language
        if reason is None and self._is_in_other_language(rest if has_own_script else line):
            yield REASONS["language"]
        if changed_numbers(source, line):
            yield REASONS["numbers"]
        if lost(source, line) or lost(line, source):
            yield "placeholders differ"
        plain_source, plain_line = (to_unicode_form("NFKC", text) for text in (source, line))  # full-width brackets
        if (remark := _REMARKS.search(plain_line)) and remark[0].strip()[0] not in plain_source:
            yield "remarks"
        if len(source) >= _LONG and source in line and source != line:
            yield REASONS["copied"]
        if is_spaced(tgt) and source.endswith(("?", "？", "؟")) and not _QUESTION.search(line):
            yield "not a question"
