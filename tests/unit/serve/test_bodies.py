"""Tests of the bodies of requests: forms and JSON."""

from __future__ import annotations

import json

import pytest

from nmt.serve.bodies import parse_form, parse_json
from nmt.serve.limits import Refusal
from nmt.serve.settings import Limits


def test_repeated_form_field_is_list() -> None:
    assert parse_form(b"q=a+b&q=%C3%A4&source=de&x=") == {"q": ["a b", "ä"], "source": "de", "x": ""}


@pytest.mark.parametrize("text", ["Der Hund schläft.", "Der%20Hund+schl%C3%A4ft."])
def test_form_with_utf8_bytes_is_decoded(text: str) -> None:
    assert parse_form(f"q={text}".encode()) == {"q": "Der Hund schläft."}


@pytest.mark.parametrize("body", [b"q=schl\xe4ft", b"q=schl%E4ft"])
def test_non_utf8_form_raises(body: bytes) -> None:
    with pytest.raises(Refusal, match="UTF-8") as refused:
        parse_form(body)
    assert refused.value.status_code == 400


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b'"a"', b"[" * 20_000, b'{"a": 1' + b"0" * 5000 + b"}", b"\xff"])
def test_json_that_is_not_an_object_raises(body: bytes) -> None:
    with pytest.raises(Refusal, match="JSON"):
        parse_json(body, Limits())


def test_non_utf8_json_raises() -> None:
    with pytest.raises(Refusal, match="UTF-8"):
        parse_json(b'{"q": "schl\xe4ft"}', Limits())


@pytest.mark.parametrize("body", [b'{"a": ["\\ud800"]}', b'{"\\udfff": 1}'])
def test_json_with_lone_surrogate_raises(body: bytes) -> None:
    with pytest.raises(Refusal, match="surrogate"):
        parse_json(body, Limits())


@pytest.mark.parametrize("value", ["[]", "{}", "0", '","'])
def test_json_with_more_values_than_limits_need_is_not_parsed(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(characters=100, items=10)
    few, many = (f'{{"q": [{",".join([value] * n)}]}}'.encode() for n in (10, 141))
    assert parse_json(few, limits) == {"q": [json.loads(value)] * 10}
    monkeypatch.setattr("json.loads", None)
    with pytest.raises(Refusal) as refused:
        parse_json(many, limits)
    assert refused.value.status_code == 400
