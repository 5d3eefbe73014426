"""Constraints that a source line puts on its translation: protected text and the terms of a glossary.

For models trained with such lines, terms are marked inline with their translations. The marks are three reserved ids of
the vocabulary. In text they are written as control characters, which no other line has, since the tokenizer replaces
them by spaces: `a \\1 dog\\2 Hund\\3 barks` is encoded as
`▁a <reserved_0> ▁dog <reserved_1> ▁Hund <reserved_2> ▁barks`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from nmt.console import LineNumbers, amount
from nmt.errors import DataError
from nmt.files.read import fingerprint_of
from nmt.search.settings import SearchConfig
from nmt.text.ids import FIRST_RESERVED
from nmt.text.letters import comparable
from nmt.text.message_formats import GRAMMARS, TEMPLATE
from nmt.text.patterns import PATTERN_SECONDS, compiled
from nmt.text.reading import folded, plain
from nmt.text.tokenizer import CONTROL, Tokenizer
from nmt.text.words import units

_L = r"0-9A-Za-z\u00c0-\u052f"  # letters of scripts with spaces between words; digits, too
_NEW = rf"(?<![{_L}_])"  # not within a word
_START = rf"(?<![{_L}])(?<![0-9][.,])"  # nor within a number
_URL = (
    r"(?:(?:https?|ftps?|file|ssh|git|wss?)://|www\.(?=\w))"
    rf"""(?:[^{{\s<>"„“”«»‹›\u3000-\u9fff\uff00-\uffef]++|{TEMPLATE}|\{{)+"""
)
_EMAIL = rf"{_NEW}[{_L}][{_L}_.+-]{{0,63}}+@[{_L}-]++(?:\.[{_L}-]++)+"
_TAG = (
    r"</?[A-Za-z][\w:.-]*+(?:\s[^<>=]*+=[^<>]*+|\s*+/?)>"
    r"|&(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6});"
)
_PLACEHOLDER = (
    rf"{TEMPLATE}"
    r"|[$%\#]?\{[^{}\s]*+\}|%%"
    # nested and linked messages of i18next and Vue
    r"|\$t\([^()]*+\)|(?<![^\s(])@(?:\.[a-z]++)?:[A-Za-z]\w*+(?:\.\w++)*+"
    rf"|{_NEW}(?:\$[A-Za-z_][A-Za-z0-9_]*+|__[A-Za-z0-9_]+?__(?![{_L}_]))"
    rf"|{_NEW}%(?:\([^()%]++\)|[0-9]++\$)?[-+0\#]*+[0-9]*+(?:\.[0-9]++)?(?:ll?|hh?|[jztL])?[sdiouxXeEfFgGaAcpr@]"
    rf"(?![{_L}_])|{_NEW}%[A-Za-z_][\w.]*+%(?![%{_L}_])"
)
# Groups are not possessive: until 3.11.3, Python loses the place where the last repetition ended.
# a sign belongs to a number unless it is between two; a separator of digits may also end a sentence
_NUMBER = (
    rf"(?:{_NEW}(?<![)\]}}%.,/+-])[-+−])?{_START}[0-9]++"
    r"(?:[.,:/'’\u00a0\u202f\u066b\u066c\uff0e-][0-9]++)*(?:%(?![%A-Za-z]))?"
)


@cache
def _pattern(flag: str) -> re.Pattern[str]:
    """Return the pattern of all kinds of spans in a text with one of the `GRAMMARS`."""
    return re.compile(
        f"(?P<url>{_URL})|(?P<email>{_EMAIL})|(?P<tag>{_TAG})|(?P<placeholder>(?sa:{GRAMMARS[flag]})|{_PLACEHOLDER})"
        f"|(?P<number>{_NUMBER})"
    )


_MAX_FAULTS = 10  # of a glossary that are listed
_ENDS_A_SENTENCE = ".,;:!?…'’*_"
_BRACKETS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Span:
    """A span of a line from `start` to `end`, and the text that the translation must contain for it."""

    start: int
    end: int
    kind: str
    """url, email, tag, placeholder, number, pattern (one of the user's) or term (of a glossary)."""
    wanted: str


def protected(text: str) -> list[str]:
    """Return the texts of the `spans` of a line."""
    return [span.wanted for span in spans(text)]


_ANY_COPY = re.compile("[@<&{%$]|//|www|__")
"""Matches in every text with placeholders, addresses or tags, and takes far less time than to find them."""


def lost(text: str, translation: str) -> list[str]:
    """Return the placeholders, addresses and tags of a text that its translation lacks."""
    if not _ANY_COPY.search(text):
        return []
    wanted, kept = (
        Counter(span.wanted for span in spans(line) if span.kind != "number") for line in (text, translation)
    )
    return [*(wanted - kept).elements()]


def spans(text: str, flag: str = "") -> Iterator[Span]:
    """Yield the URLs, e-mail addresses, numbers, tags and placeholders of a line, in order and not nested.

    flag: one of the `GRAMMARS`, all of whose directives are placeholders, too; empty for text in none of them.
    """
    position = 0
    while match := _pattern(flag).search(text, position):
        kind = str(match.lastgroup)
        content = match[0]
        if kind == "url":
            content = _without_punctuation(content)
        position = match.start() + len(content)
        yield Span(match.start(), position, kind, content)


def _without_punctuation(url: str) -> str:
    """Strip final punctuation and unmatched closing brackets from a URL, since they belong to the sentence."""
    unopened = {right: url.count(right) - url.count(left) for right, left in _BRACKETS.items()}
    end = len(url)
    while url[end - 1] in _ENDS_A_SENTENCE or unopened.get(url[end - 1], 0) > 0:
        end -= 1
        if url[end] in unopened:
            unopened[url[end]] -= 1
    return url[:end]


def alone(text: str) -> re.Pattern[str]:
    """Return a pattern for a text that is not part of a longer number or, in scripts with spaces, of a longer word."""
    before = ""
    after = rf"(?![{_L}])"
    if re.match(f"[{_L}]", text):
        before = _START
    if text[-1].isdigit():
        after = r"(?![.,:]?[0-9])"
    elif text[-1] in ")]}>;%":
        after = ""
    return re.compile(before + re.escape(text) + after)


class Glossary:
    """A glossary: terms and their translations. A term may be its own translation."""

    def __init__(self, terms: Mapping[str, str], name: str = "glossary") -> None:
        """Make a glossary of `terms`, from which surrounding white space is stripped. `name` is for messages.

        Raises DataError if `terms` is not a mapping of text to text or is empty, for a blank term or translation, and
        for terms that differ in white space only.
        """
        if not isinstance(terms, Mapping):
            raise DataError(f"{name}: must be a file or map terms to their translations, found {type(terms).__name__}")
        if not terms:
            raise DataError(f"{name}: has no terms; write each term and its translation on a line, separated by a tab")
        self._terms = collected_terms((name, pair) for pair in terms.items())
        self._automaton = _Automaton(self._terms)
        self.translations = sorted(set(self._terms.values()))
        """All translations."""

    def __len__(self) -> int:
        return len(self._terms)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that identify the terms and their translations."""
        return fingerprint_of(json.dumps(sorted(self._terms.items())).encode())

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the occurrences of terms in a line, which may overlap; case and word boundaries must match, not white
        space, invisible characters and the normal form.

        They are in the order of their ends. Takes time linear in the length of the line and the number of occurrences.
        """
        plain_text, starts, ends = folded(text)
        for span in self._automaton.spans(plain_text):
            yield replace(span, start=starts[span.start], end=ends[span.end - 1])


def collected_terms(rows: Iterable[tuple[str, Sequence[object]]]) -> dict[str, str]:
    """Return terms and their translations from rows with two columns, each with its place for messages.

    Raises DataError, with the first faults, for any other row and for a term with two translations.
    """
    terms: dict[str, str] = {}
    faults = []
    for where, columns in rows:
        match columns:
            case str(source), str(target) if (term := plain(source).strip()) and (translation := target.strip()):
                known = terms.setdefault(term, translation)
                if known != translation:
                    faults.append(f"{where}: {term!r} has two translations, {known!r} and {translation!r}; keep one")
            case source, target:
                pair = f"{source!r} with the translation {target!r}"
                faults.append(f"{where}: {pair}: both must be text, and neither may be blank")
            case _:
                n_columns = amount(len(columns), "column")
                faults.append(f"{where}: a term and its translation are needed, in two columns; found {n_columns}")
    if faults:
        n_more = len(faults) - _MAX_FAULTS
        raise DataError(*faults[:_MAX_FAULTS], *[f"and {amount(n_more, 'more fault')}"] * (n_more > 0))
    return terms


class _Automaton:
    """A finder of all terms in one pass over a text (Aho & Corasick, 1975).

    Its alphabet are the units between word boundaries, since terms begin and end at boundaries. A state is the longest
    beginning of a term that the text ends with; state 0 is the empty one.
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        self._next: dict[tuple[int, str], int] = {}
        """The state that follows a state after a unit, if both are a beginning of a term together."""
        self._terms: dict[int, tuple[int, str]] = {}
        """The length and the translation of each state that is a term."""
        states = [(0, 0, "")]  # number of units, the state before the last unit, the last unit
        for term, translation in terms.items():
            state = 0
            for depth, (start, end) in enumerate(units(term), start=1):
                before = state
                unit = term[start:end]
                state = self._next.setdefault((before, unit), len(states))
                if state == len(states):
                    states.append((depth, before, unit))
            self._terms[state] = len(term), translation
        self._shorter = [0] * len(states)
        """The longest state that each state ends with, apart from itself."""
        self._longest = [0] * len(states)
        """The longest state that each state ends with and that is a term; 0 if there is none."""
        for state in sorted(range(1, len(states)), key=states.__getitem__):  # short ones first
            _, before, unit = states[state]
            shorter = self._shorter[state] = self._after(self._shorter[before], unit) if before else 0
            self._longest[state] = state if state in self._terms else self._longest[shorter]

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the occurrences of the terms in a text."""
        state = 0
        for start, end in units(text):
            state = self._after(state, text[start:end])
            term = self._longest[state]
            while term:
                length, translation = self._terms[term]
                yield Span(end - length, end, "term", translation)
                term = self._longest[self._shorter[term]]

    def _after(self, state: int, unit: str) -> int:
        """Return the state that follows a state after a unit."""
        while state and (state, unit) not in self._next:
            state = self._shorter[state]
        return self._next.get((state, unit), 0)


class Applied:
    """Counts of the terms in a text, and of the terms whose translation lacks the prescribed text."""

    def __init__(self, glossary: Glossary, target: str) -> None:
        """target: the language of the translations."""
        self._target = target
        self._n_known = len(glossary)
        self._n_terms = self._n_lines = self._n_missing = 0
        self._lacking = LineNumbers()

    def add(self, number: int, spans: Iterable[Span], translation: str) -> None:
        """Count the terms of line `number`, given its spans and its translation.

        It must be a whole line: a term across a point where it was split counts, though it was not a constraint. Forms
        of letters may differ: translations are written in those that the model has learned.
        """
        terms = Counter(span.wanted for span in spans if span.kind == "term")
        n_missing = 0
        translation = comparable(translation, self._target)
        for target, n in sorted(terms.items(), key=lambda item: -len(item[0])):
            # matches are removed, so that a translation within another is not counted again
            translation, n_found = alone(comparable(target, self._target) or target).subn(" ", translation, count=n)
            n_missing += n - n_found
        self._n_terms += terms.total()
        self._n_lines += bool(terms)
        self._n_missing += n_missing
        if n_missing:
            self._lacking.add(number)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the final report."""
        if not self._n_terms:
            yield f"glossary: no line has any of its {amount(self._n_known, 'term')}"
            return
        yield f"glossary: {amount(self._n_terms, 'term')} in {amount(self._n_lines, 'line')}"
        if self._n_missing:
            missing = f"{amount(self._n_missing, 'term')} not translated as given"
            lines = "line" if self._lacking.n == 1 else "lines"
            yield f"glossary: {missing}, in {lines} {self._lacking.first}"


_RANK = {"term": 0, "pattern": 2}  # of equally long spans; others 1: a tag that a pattern matches stays a tag


def constraint_spans(text: str, search: SearchConfig, glossary: Glossary | None = None, flag: str = "") -> list[Span]:
    """Return the spans of a line whose translation is prescribed, in order; for `flag`, see `spans`.

    If spans overlap, the longest is taken; if they are equally long, first a term of the glossary, last a pattern of
    the user. No term begins or ends within a URL, e-mail address, number, tag or placeholder, protected or not.
    Raises DataError if a pattern takes too long.
    """
    protect = search.protected
    if glossary is None and not protect:
        return []
    known = list(spans(text, flag))
    inside = set[int]().union(*(range(span.start + 1, span.end) for span in known))
    candidates: list[Span] = []
    if glossary is not None:
        candidates += (span for span in glossary.spans(text) if inside.isdisjoint((span.start, span.end)))
    for setting in protect:
        match setting:
            case "numbers":
                candidates += (span for span in known if span.kind == "number")
            case "placeholders":
                candidates += (span for span in known if span.kind != "number")
            case pattern:
                try:
                    for match in compiled(pattern).finditer(text, timeout=PATTERN_SECONDS, concurrent=True):
                        if match[0]:
                            candidates.append(Span(match.start(), match.end(), "pattern", match[0]))
                except TimeoutError:
                    raise DataError(
                        f"search.protect: {pattern!r} takes longer than {PATTERN_SECONDS} seconds on the line "
                        f"{text[:50]!r}; use possessive quantifiers, such as a++, or leave it out"
                    ) from None
    return _longest(candidates)


def _longest(spans: Iterable[Span]) -> list[Span]:
    """Select spans that do not overlap, preferring long ones, and return them in order."""
    taken: set[int] = set()
    chosen = []
    for span in sorted(spans, key=lambda span: (span.start - span.end, _RANK.get(span.kind, 1), span.start)):
        # no taken span is shorter, so that one that overlaps has the first or the last character of this one
        if span.start not in taken and span.end - 1 not in taken:
            taken.update(range(span.start, span.end))
            chosen.append(span)
    return sorted(chosen, key=lambda span: span.start)


# --- marked terms ---------------------------------------------------------------------------------


MARKS = TERM, TRANSLATION, END = "\x01", "\x02", "\x03"
"""Marks before a term, between the term and its translation, and after the translation."""
_MARK_IDS = {mark: FIRST_RESERVED + i for i, mark in enumerate(MARKS)}
_MARK = re.compile(f"([{''.join(MARKS)}])")


def mark_terms(text: str, terms: Iterable[Span]) -> str:
    """Mark terms with their translations. Terms must be in order and not overlap."""
    text = CONTROL.sub(" ", text)
    parts = list[str]()
    end = 0
    for term in terms:
        start = term.start
        if start > end and text[start - 1] == " ":  # the space is part of a word's pieces
            start -= 1
        translation = CONTROL.sub(" ", term.wanted)
        parts += text[end:start], TERM, text[start : term.end], TRANSLATION, " ", translation, END
        end = term.end
    return "".join([*parts, text[end:]])


def encode_marked(tokenizer: Tokenizer, text: str) -> list[int]:
    """Encode a line that `mark_terms` returned."""
    line = f"{TERM} {text[1:]}" if text.startswith(TERM) else f" {text}"  # the first word as within a line
    ids = []
    for part in _MARK.split(line):
        if part in _MARK_IDS:
            ids.append(_MARK_IDS[part])
        else:
            ids += tokenizer.encode_parts([part])[0]
    return ids


def marked(ids: Sequence[int]) -> list[tuple[slice, slice]]:
    """Return the slices of each marked term and its translation in the ids of a line; the line may be truncated."""
    terms = []
    start = middle = 0
    for i, token in enumerate([*ids, _MARK_IDS[END]]):
        if token == _MARK_IDS[TERM]:
            start = i
        elif token == _MARK_IDS[TRANSLATION]:
            middle = i
        elif token == _MARK_IDS[END] and middle:
            terms.append((slice(start, middle), slice(middle, i)))
            middle = 0
    return terms


def without_translations(ids: Sequence[int]) -> list[int]:
    """Return the ids of a line without the translations of its terms."""
    left = list(ids)
    for _, translation in reversed(marked(ids)):
        del left[translation]
    return left


def shown_marks(text: str) -> str:
    """Return a line from `mark_terms` with its marks replaced by the names of the reserved ids."""
    return _MARK.sub(lambda match: f" <reserved_{_MARK_IDS[match[0]] - FIRST_RESERVED}>", text).lstrip()
