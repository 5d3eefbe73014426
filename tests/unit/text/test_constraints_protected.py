"""Recognition of protected text such as URLs, numbers and placeholders."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.load import load_config
from nmt.errors import ConfigError, DataError
from nmt.search.settings import SearchConfig
from nmt.text.constraints import constraint_spans, lost, protected, spans
from waiting import cpu_time_limit

FOUND = {
    "url": [
        "https://example.org", "http://x.org/a_(b)/c?d=1&e=2#f", "www.example.com/de", "ftp://x.org/1.tar.gz",
        "https://de.wikipedia.org/wiki/Köln", "https://x.org/{id}/$y", "https://x.org/{{ id }}/a", "http://10.0.0.1:8080/",
    ],
    "email": ["anna.b@example.org", "a+b-c_1@mail.example.co.uk"],
    "tag": ["<b>", "</a>", "<br/>", "<br />", '<a href="http://x.org/1">', "<g id='3'>", "&amp;", "&#160;", "&#x1F60;"],
    "placeholder": [
        "{name}", "{0}", "{}", "{0:.2f}", "%s", "%d", "%1$s", "%.2f", "%(name)s", "$VAR", "${x}", "{{x}}", "{{ x y }}",
        '{{ "a}b" }}', "{{ f({a: {b: 1}}) }}", "{{{ raw }}}", "{{ a\n| b }}", "{{ it's }}", '{{ a > "{" }}',
        "{% if a > 3 %}", '{% trans "100% {x}" %}', "{# a # note #}", "<%= a.b > 3 %>",
        "__NAME__", "%ld", "%{count}", "%r", "%o", "%p", "%jd", "%hhd", "%Lf", "%(my name)s",
    ],
    "number": [
        "7", "1000", "3,5", "3.5", "1.234.567,89", "1'000", "1\u00a0000", "50%", "12:30", "12:30:05", "2026-11-20",
        "20.11.2026", "20/11/2026", "-5", "+3", "−4,5", "10-15",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", FOUND)
@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "Siehe {} hier.",
        "Ende {}.",
        "({})",
        "„{}“, sagt er",
        "Was, {}?",
        "{}: ja",
        "看{}吧。",
        "Gibt es {}!",
        "{}…",
    ],
)
def test_protected_text_is_found_anywhere(kind: str, frame: str) -> None:
    for text in FOUND[kind]:
        assert [(span.kind, span.wanted) for span in spans(frame.replace("{}", text))] == [(kind, text)]


@pytest.mark.parametrize("kind", FOUND)
def test_lost_text_is_found_unless_it_is_a_number(kind: str) -> None:
    for text in FOUND[kind]:
        missing = [] if kind == "number" else [text]
        assert lost(f"Siehe {text} hier", "See here") == missing
        assert lost(f"Siehe {text} hier, {text}", f"See {text} here") == missing
        assert lost(f"Siehe {text} hier", f"{text}, see there") == []


@pytest.mark.parametrize(
    "text",
    [
        "", "Ein Satz ohne all das.", "A380, H2O und COVID19", "x < y und y > z", "Geld in US$ oder $",
        "AT&T & Söhne",
        "offen {% und <% und {# und {{",
         "ein@", "{Menge von Dingen}", "a_b und __", "http", "Er sagt: % ist ein Zeichen.", "½ ٣", "§",
    ],
)  # fmt: skip
def test_ordinary_text_is_not_protected(text: str) -> None:
    assert protected(text) == []


def asked(text: str, **search: object) -> list[str]:
    return [span.wanted for span in constraint_spans(text, SearchConfig(**search))]  # type: ignore[arg-type]


PATTERNS = ["[A-Z]{2}-[0-9]+", "€", "(?i)KOSTET"]


@pytest.mark.parametrize(
    ("protect", "expected"),
    [
        (PATTERNS, ["AB-12", "kostet", "€", "AB-13", "AB-14"]),
        (["placeholders", "numbers", *PATTERNS], ["AB-12", "kostet", "5", "€", "https://x.org/AB-13", "AB-14"]),
        (True, ["12", "5", "https://x.org/AB-13", "14.5"]),
        (["s", "si", "(?=k)"], ["s", "si", "s"]),  # the longest is taken
        (False, []),
    ],
)
def test_custom_patterns_work_with_and_without_other_protection(protect: object, expected: list[str]) -> None:
    assert asked("AB-12 kostet 5 €, siehe https://x.org/AB-13 (AB-14.5)", protect=protect) == expected


@pytest.mark.parametrize("pattern", ["(a+)+$", "(?:x+x+)*(a+)+b"])
def test_pattern_that_backtracks_for_too_long_is_named(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.text.constraints.PATTERN_SECONDS", 0.1)
    with pytest.raises(DataError, match=re.escape(f"{pattern!r} takes longer than 0.1 seconds on the line 'aaa")):
        asked("a" * 3000 + "!", protect=["[0-9]+", pattern])
    assert asked("see aaa", protect=[pattern.replace("b", "")]) == ["aaa"]


@pytest.mark.parametrize("pattern", ["%{s}", r"\{i\}", "{e}", r"[{]d}", "x{2}", "x{,2}y", r"\N{EN DASH}+", "{name}"])
def test_braces_mean_the_same_as_in_re(pattern: str) -> None:
    text = "%s %{s} {i} {e} {d} xx xxxy {name} – {s}"
    assert asked(text, protect=[pattern]) == re.findall(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a", "not a regular expression: missing ), unterminated subpattern at position 0"),
        ("a{99999999999}", "repeats too much"),
        ("[[a]", "not a regular expression: Possible nested set at position 1"),
        ("(?L)a", "not a regular expression: "),
        ("(" * 5000 + ")" * 5000, "not a regular expression: "),
        ("(" * 600 + "a" + ")" * 600, "not a regular expression: "),
        ("(?:a{1000}){1000}", "repeats too much"),
        ("(?:(?:a?){9999}){9999}", "repeats too much"),
        ("(a|){99999999}", "repeats too much"),
        ("(?:a{2,200}){2,200}", "repeats too much"),
        ("a{4294967294}(b{0,1})", "repeats too much"),
        ("a*", "matches the empty text, found 'a*'"),
        ("", "matches the empty text, found ''"),
    ],
    ids=lambda text: text[:10],
)
def test_invalid_pattern_raises(pattern: str, problem: str) -> None:
    override = f"search.protect={json.dumps(['b', pattern])}"
    with pytest.raises(ConfigError) as caught:
        load_config("sample.yaml", [override])
    [line] = caught.value.problems
    assert line.startswith(f"--set search.protect.1: {problem}")


@given(st.text(st.sampled_from("ab1.,:/-%${}()<>_@&; #wht\u00e9你"), max_size=60))
def test_protected_text_occurs_in_line(text: str) -> None:
    place = 0
    for kind, each in ((span.kind, span.wanted) for span in spans(text)):
        assert each and kind in FOUND
        place = text.index(each, place) + len(each)


@pytest.mark.parametrize(
    "text", ["a" * 10**6, "a." * 125_000, "1." * 125_000, "{" * 250_000, "http://x" + ")." * 125_000, "<a " * 83_000,
             "a@" * 125_000, "__a" * 83_000, "%" * 250_000, "&a" * 125_000, "1" * 250_000, "%" + "0" * 250_000,
             '{{ "' * 60_000, "{{ {a" * 40_000, "{{ \"'{{ '" * 25_000, "{%" * 125_000, "&lt;%" * 50_000,
             "http://{" * 30_000],
    ids=lambda text: text[:10],
)  # fmt: skip
def test_very_long_line_takes_linear_time(text: str) -> None:
    with cpu_time_limit():  # usual is half a second; quadratic code takes an hour
        parts = protected(text)
    assert all(part in text for part in parts[:10])
