"""Subtitles in the formats SubRip and WebVTT.

Numbers, times and settings are kept as they are. The lines of a cue are translated together and wrapped into the same
number of lines; the lines of each speaker, marked by a dash, are translated separately. The formats are described in
https://en.wikipedia.org/wiki/SubRip and https://www.w3.org/TR/webvtt1/.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator, Sequence

import regex

from nmt.console import printable
from nmt.documents.inline import DIRECTION_MARK, TAG, Mark, Passage, Text, Token, tagged
from nmt.documents.types import Document, DocumentOptions, Languages, Results, Rules, decoded_text, in_target
from nmt.errors import DataError
from nmt.languages.codes import is_other_language
from nmt.text.split import CLAUSE_MARKS, COMMAS
from nmt.text.words import LETTERWISE, units

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_TIME = re.compile(r"[\s\ufeff]*(?:\d{1,3}:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,3})?\s*-->\s*(?:\d{1,3}:)?\d{1,2}:\d{1,2}")
_CLOCK = r"(?:\d+:)?\d+:\d+[.,]\d+"
_BROKEN_TIME = re.compile(rf"[\s\ufeff]*(?:{_CLOCK}\D{{1,9}}{_CLOCK}|\d+:\d[\d:., ]*-->)")
_OTHER_BLOCK = re.compile(r"(?:NOTE|STYLE|REGION)\b")
_RULES = Rules(
    {
        r"(?i)\A(\ufeff?WEBVTT[^\r\n]*(?:\r\n?|\n)(?:[^\r\n]+(?:\r\n?|\n))*?Language:[ \t]*)"
        r"(?:SOURCE)\b[\w-]*": r"\1TARGET",
        r"(?i)(<lang(?:\.[^\s<>]*)?[ \t]+)(?:SOURCE)\b[\w-]*": r"\1TARGET",
    },
    {DIRECTION_MARK: ""},
    {},
)
_LANGUAGE = re.compile(r"(?s)(<lang[.\s][^<>]*>.*?(?:</lang>|\Z))")
"""Matches text of WebVTT with a language of its own."""
_DASHES = "‐–—―－-"
_SUBRIP_LINE = re.compile(
    rf"[^\r\n]*?(?:\\N(?=[^\r\n])|(?<=[\w{COMMAS}{CLAUSE_MARKS}{_DASHES}])(?:\r\n\r\n|\n\n|\r\r)|\r\n|\n|\r|\Z)"
)
"""Matches a line, which may end in `\\N`, as in the format ASS, and in a blank line that is inside a sentence."""
_END = re.compile(r"(?:\\N)?[\r\n]*\Z")
_SPEAKER = re.compile(rf"(?:{TAG}|\s)*[{_DASHES}]+(?!\d)[^\S\r\n]*")
_LINE_END = regex.compile(
    rf" |(?<=[{LETTERWISE}])(?<!\p{{Ps}})(?=[{LETTERWISE}])[^\p{{Pe}}\p{{Po}}\p{{Lm}}\p{{Line_Break=CJ}}]"
)
"""Matches a character before which a line may end: a space, or one of a script without spaces, unless it must not begin
a line, such as a closing mark, a sign of repetition or a small kana."""
_VOICE = re.compile(r"\s*<v[.\s][^>]*>")
_SENTENCE_END = re.compile(rf"[^\w\s{COMMAS}{CLAUSE_MARKS}{_DASHES}](?:{TAG}|\s)*\Z")


def open_subtitles(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open a subtitle file: WebVTT if its name ends in `.vtt`, otherwise SubRip.

    Raises DataError, also for a malformed time, whose cue would be read as text of the previous cue.
    """
    text, encoding = decoded_text(name, content)
    is_vtt = name.lower().endswith(".vtt")
    for number, line in enumerate(_LINE.findall(text), start=1):
        if _BROKEN_TIME.match(line) and not _TIME.match(line):
            time = printable(line.strip()[:80])
            raise DataError(f"{name}: line {number}: malformed time {time}; write it as 00:00:01,000 --> 00:00:02,000")
    parts = list(_parts((_LINE if is_vtt else _SUBRIP_LINE).findall(text), is_vtt, options.source))
    cues = [part for part in parts if isinstance(part, _Cue)]
    if not cues and not (is_vtt and text.lstrip("\ufeff").startswith("WEBVTT")):
        raise DataError(f"{name}: has no timing line such as 00:00:01,000 --> 00:00:02,000; is it a subtitle file?")
    texts = [text for cue in cues for text in cue.texts]

    def write(results: Results, languages: Languages) -> bytes:
        written = (part if isinstance(part, str) else part.translated(results) for part in parts)
        return in_target("".join(written), languages, _RULES).encode(encoding)

    return Document(texts, write)


class _Cue:
    """Successive lines of one speaker in a cue, including line ends."""

    def __init__(self, lines: Sequence[str], is_vtt: bool, source: str) -> None:
        self._lines = lines
        self._is_vtt = is_vtt
        self._source = source
        self._start = speaker.end() if (speaker := _SPEAKER.match(lines[0])) else 0
        self._passage = Passage(self._tokens())
        self.texts = self._passage.texts

    def translated(self, results: Results) -> str:
        is_changed, tokens = self._passage.translated(results)
        if not is_changed:
            return "".join(self._lines)
        written = "".join(self._written(token) for token in tokens)
        return self._wrapped(written) if len(self._lines) > 1 else written

    def _tokens(self) -> Iterator[Token[str]]:
        written = "".join(self._lines)
        text = _END.sub("", written)
        yield Mark("break", text[: self._start])
        for i, part in enumerate(_LANGUAGE.split(text[self._start :])):
            if i % 2 and is_other_language(part.partition(">")[0].split()[-1], self._source):
                yield Mark("point", " ".join(part.split()))
                continue
            for token in tagged(part):
                if isinstance(token, Text):
                    shown = html.unescape(token.text) if self._is_vtt else token.text.replace("\\N", "\n")
                    token = Text(shown, token.raw)
                yield token
        yield Mark("break", written[len(text) :])

    def _written(self, token: Token[str]) -> str:
        if isinstance(token, Mark):
            return token.markup
        return token.raw or (html.escape(token.text, quote=False) if self._is_vtt else token.text)

    def _wrapped(self, written: str) -> str:
        """Divide a text with tags into lines of about the same length, at most as many as the cue had."""
        text = _END.sub("", written)
        last_end = written[len(text) :]
        ends = sorted((line[len(_END.sub("", line)) :] for line in self._lines[:-1]), key=len)
        any_end = "|".join(map(re.escape, reversed(ends)))
        text = re.sub(f"(?<=</lang>)(?:{any_end})|(?:{any_end})(?=<lang)", " ", text)
        visible = [match.start() for match in re.finditer(f"(?s:{TAG}|(.))", text) if match[1]]
        starts = {start for start, _ in units(text)}
        nearest: dict[int, tuple[float, int]] = {}  # by line, the distance of its end from the even division
        for n, i in enumerate(visible):
            place = n * len(self._lines) / len(visible)  # in lines
            if not (i in starts and _LINE_END.match(text, i)):
                continue
            if i > self._start and 0 < (line := round(place)) < len(self._lines):
                nearest[line] = min(nearest.get(line, (1.0, i)), (abs(place - line), i))
        cuts = sorted(i for _, i in nearest.values())
        lines = [
            re.sub(any_end, "", text[start:end]).strip(" \n")
            for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)
        ]
        return ends[0].join(line for line in lines if line) + last_end


def _parts(lines: Sequence[str], is_vtt: bool, source: str) -> Iterator[str | _Cue]:
    """Yield the cues of a subtitle file, and all other lines as they are written.

    In WebVTT, any line with an arrow begins a block, which is not shown if the line has no time.
    """
    times = [i for i, line in enumerate(lines) if (is_vtt and "-->" in line) or _TIME.match(line)]
    yield from lines[: times[0] if times else len(lines)]
    for time, end in zip(times, [*times[1:], len(lines)], strict=False):
        yield lines[time]
        has_name = time + 1 < end < len(lines) and _is_name(lines[end - 2 : end], is_vtt)
        stop = (end - has_name) if _TIME.match(lines[time]) else time + 1
        is_first = True
        for is_blank, group in itertools.groupby(lines[time + 1 : stop], lambda line: not line.strip()):
            block = [*group]
            is_note = is_vtt and not is_first and _OTHER_BLOCK.match(block[0])
            yield from block if is_blank or is_note else (_Cue(lines, is_vtt, source) for lines in _by_speaker(block))
            is_first &= is_blank
        yield from lines[stop:end]


def _by_speaker(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Divide the lines of a cue before each other voice, and each dash that is not in a sentence without a dash."""
    start = 0
    for i in range(1, len(lines)):
        voice = _VOICE.match(lines[i])
        if (voice and not lines[start].startswith(voice[0])) or (
            _SPEAKER.match(lines[i]) and (_SPEAKER.match(lines[start]) or _SENTENCE_END.search(lines[i - 1]))
        ):
            yield lines[start:i]
            start = i
    yield lines[start:]


def _is_name(lines: Sequence[str], is_vtt: bool) -> bool:
    """Return whether the second of two lines before a time is the number or name of a cue."""
    return not lines[0].strip() and bool(lines[1].strip()) if is_vtt else lines[1].strip().isdigit()
