"""Tests of the parts of the server: cache, downloads, metrics, keys, rates, limits and bodies."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nmt.errors import ConfigError
from nmt.serve.admission import Rate, client_of, digest_of, new_key, read_keys
from nmt.serve.bodies import parse_form, parse_json
from nmt.serve.documents import BYTES, FILES, SECONDS, Downloads
from nmt.serve.limits import Refusal, Room, check_size
from nmt.serve.metrics import Metrics
from nmt.serve.server import NEVER, check_origins, parse_allowed
from nmt.serve.service import Cache
from nmt.serve.settings import Limits
from places import ROOT


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# --- cache and downloads ------------------------------------------------------------------------


def test_cache_size_is_bounded() -> None:
    cache = Cache[str](100)
    cache.put("long", "x", 11)  # more than a tenth of the cache
    assert cache.get("long") is None
    for _ in range(30):
        cache.put("again", "x", 10)
    assert len(cache) == 1
    for i in range(30):
        cache.put(i, "x", 9)
    assert len(cache) == 11  # 99 of 100 bytes
    assert Cache[str](0).get("x") is None


def test_downloads_expire_and_are_bounded() -> None:
    clock = Clock()
    downloads = Downloads(clock)
    first = downloads.add("a.txt", b"a")
    clock.now += SECONDS / 2
    second = downloads.add("b.txt", b"b")
    assert downloads.get(first) == ("a.txt", b"a") and first != second
    clock.now += SECONDS / 2
    assert downloads.get(first) is None and downloads.get(second) == ("b.txt", b"b")
    large = downloads.add("c.bin", bytes(BYTES))
    assert downloads.get(second) is None and downloads.get(large) is not None
    assert downloads.get("") is downloads.get("../etc/passwd") is None
    numbers = [downloads.add("d.txt", b"") for _ in range(FILES + 1)]
    kept = [downloads.get(number) is not None for number in [large, *numbers]]
    assert kept == [False, False, *[True] * FILES]  # the oldest are deleted
    assert downloads.get(downloads.add("x" * 1000 + ".txt", b"a")) == ("x" * 196 + ".txt", b"a")


# --- metrics ------------------------------------------------------------------------------------


def test_metrics_have_documented_names() -> None:
    metrics = Metrics()
    metrics.requests.labels("/translate", 503).inc(2)
    for seconds in (0.005, 0.007, 99.0):
        metrics.seconds.labels("/x").observe(seconds)
    metrics.queue_requests.set_function(lambda: 7)
    lines = metrics.text().splitlines()
    for line in (
        'nmt_requests_total{endpoint="/translate",status="503"} 2.0',
        "nmt_queue_requests 7.0",
        'nmt_request_seconds_bucket{endpoint="/x",le="0.005"} 1.0',
        'nmt_request_seconds_bucket{endpoint="/x",le="0.01"} 2.0',
        'nmt_request_seconds_bucket{endpoint="/x",le="+Inf"} 3.0',
        'nmt_request_seconds_count{endpoint="/x"} 3.0',
    ):
        assert line in lines
    families = {family.name: family.type for family in text_string_to_metric_families(metrics.text())}
    documented = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8").split("| metric |", 1)[1]
    assert {name.removesuffix("_total") for name in re.findall(r"`(nmt_\w+)`", documented)} == {*families}
    assert not any("_created" in line for line in lines)


# --- keys ---------------------------------------------------------------------------------------


def test_key_file_stores_hashes(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    key, other = new_key(path, "Anna"), new_key(path, "Bert")
    text = path.read_text(encoding="utf-8")
    assert key not in text and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [line.partition(" ")[2] for line in text.splitlines()] == ["Anna", "Bert"]
    assert read_keys(path) == {digest_of(key), digest_of(other)} and digest_of("\ud800") not in read_keys(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [("# none\n\n", "contains no key"), ("secret Anna\n", "line 1: not a SHA-256"), (None, "No such file")],
)
def test_key_file_without_keys_raises(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "keys.txt"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        read_keys(path)


def test_new_key_after_a_line_without_an_end_is_on_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text(f"{digest_of('k')} Änne", encoding="utf-8")
    assert read_keys(path) | {digest_of(new_key(path, "Bert"))} == read_keys(path)
    assert [line.partition(" ")[2] for line in path.read_text(encoding="utf-8").splitlines()] == ["Änne", "Bert"]


def test_new_key_without_name_or_directory_raises(tmp_path: Path) -> None:
    for path, name in ((tmp_path / "keys", " "), (tmp_path / "keys", "a\nb"), (tmp_path / "none" / "keys", "Anna")):
        with pytest.raises(ConfigError):
            new_key(path, name)


# --- rates and limits ---------------------------------------------------------------------------


def test_rate_limit_is_per_client() -> None:
    clock = Clock()
    rate = Rate(3, clock)
    for _ in range(3):
        rate.charge("a")
    with pytest.raises(Refusal) as refused:
        rate.charge("a")
    assert refused.value.status == 429 and refused.value.headers == {"Retry-After": "20"}
    rate.charge("b")
    clock.now += 19
    with pytest.raises(Refusal):
        rate.charge("a")
    clock.now += 1
    rate.charge("a")
    clock.now += 3600
    for _ in range(3):  # tokens do not accumulate beyond the burst size
        rate.charge("a")
    with pytest.raises(Refusal):
        rate.charge("a")


def test_client_is_identified_by_address_or_network() -> None:
    assert client_of("192.0.2.1") == client_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:1") != client_of("2001:db8:0:1::1")
    assert client_of(None) == client_of("testclient") == ""


def test_reservations_are_limited_per_client() -> None:
    room = Room(10)
    assert room.take("a", 9) and not room.take("a")
    assert room.take("b") and not room.take("c")
    room.give_back("a", 9)
    assert room.take("c", 9) and Room(1).take("a")


def test_limits_apply_to_all_texts_together() -> None:
    limits = Limits(characters=10, items=2)
    check_size(["12345", "67890"], limits)
    for texts, said in ((["123456", "67890"], "11"), (["", "", ""], "3")):
        with pytest.raises(Refusal, match=said) as refused:
            check_size(texts, limits)
        assert refused.value.status == 400


def test_parse_allowed_checks_settings() -> None:
    assert parse_allowed(["beam=10", "search.length_penalty"]) == {"beam": 10.0, "length_penalty": None}
    for option in ("beams", "beam=many", "beam=nan", "beam=inf", *NEVER):
        with pytest.raises(ConfigError, match="--allow"):
            parse_allowed([option])


def test_invalid_origin_raises() -> None:
    check_origins(["https://example.org", "http://localhost:3000"])
    for origin in ("*", "example.org", "https://*.example.org", "https://example.org/"):
        with pytest.raises(ConfigError, match="--origin"):
            check_origins([origin])


# --- bodies -------------------------------------------------------------------------------------


def test_repeated_form_field_is_list() -> None:
    assert parse_form(b"q=a+b&q=%C3%A4&source=de&x=") == {"q": ["a b", "ä"], "source": "de", "x": ""}


@pytest.mark.parametrize("text", ["Der Hund schläft.", "Der%20Hund+schl%C3%A4ft."])
def test_form_with_utf8_bytes_is_decoded(text: str) -> None:
    assert parse_form(f"q={text}".encode()) == {"q": "Der Hund schläft."}


@pytest.mark.parametrize("body", [b"q=schl\xe4ft", b"q=schl%E4ft"])
def test_non_utf8_form_raises(body: bytes) -> None:
    with pytest.raises(Refusal, match="UTF-8") as refused:
        parse_form(body)
    assert refused.value.status == 400


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
    assert refused.value.status == 400
