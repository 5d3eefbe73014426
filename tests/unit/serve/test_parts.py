"""What the server is made of, piece by piece: cache, metrics, keys, rates, downloads, names, bodies."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import stat
import threading
from email.message import EmailMessage
from email.policy import HTTP
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from nmt.errors import ConfigError
from nmt.serve import documents
from nmt.serve import limits as limits_module
from nmt.serve.bodies import Upload, parse_fields, parse_json
from nmt.serve.documents import BYTES, SECONDS, Downloads
from nmt.serve.limits import Keys, Limits, Rate, Refusal, Room, client_of, new_key
from nmt.serve.metrics import Metrics
from nmt.serve.server import NEVER, parse_allowed, parse_origins
from nmt.serve.service import Cache
from nmt.text.language_names import language_name, normalized
from places import ROOT
from served import FORM, multipart


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# --- cache and downloads ------------------------------------------------------------------------


def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    cache = Cache[int](100)
    for i in range(10):
        cache.put(i, i, 10)
    assert cache.get(0) == 0  # now the last to go
    cache.put(10, 10, 10)
    assert [cache.get(i) for i in (0, 1, 2, 10)] == [0, None, 2, 10]


def test_the_cache_is_never_larger_than_it_may_be() -> None:
    cache = Cache[str](100)
    cache.put("long", "x", 11)  # more than a tenth
    assert cache.get("long") is None
    for _ in range(30):
        cache.put("again", "x", 10)
    assert len(cache) == 1
    for i in range(30):
        cache.put(i, "x", 9)
    assert len(cache) == 11  # 99 of 100
    assert Cache[str](0).get("x") is None


def test_downloads_are_kept_for_half_an_hour_and_within_bounds() -> None:
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
    assert downloads.get(downloads.add("x" * 1000 + ".txt", b"a")) == ("x" * 196 + ".txt", b"a")


# --- metrics ------------------------------------------------------------------------------------


def test_metrics_have_documented_names_and_labels() -> None:
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


def test_only_the_hash_of_a_new_key_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    key, other = new_key(path, "Anna"), new_key(path, "Bert")
    text = path.read_text(encoding="utf-8")
    assert key not in text and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [line.partition(" ")[2] for line in text.splitlines()] == ["Anna", "Bert"]
    keys = Keys.read(path)
    assert keys.find(key) == hashlib.sha256(key.encode()).hexdigest() != keys.find(other)
    assert keys.find(key + "x") is keys.find("") is keys.find("\ud800") is None


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, digest_of = [], hmac.compare_digest

    def compare(one: str, other: str) -> bool:
        compared.append(other)
        return digest_of(one, other)

    monkeypatch.setattr(limits_module.hmac, "compare_digest", compare)
    hashes = [hashlib.sha256(key).hexdigest() for key in (b"a", b"b", b"c")]
    keys = Keys(dict.fromkeys(hashes, "name"))
    assert keys.find("a") == hashes[0] and compared == hashes


@pytest.mark.parametrize(
    ("text", "said"),
    [("# none\n\n", "has no key"), ("secret Anna\n", "line 1: not a SHA-256"), (None, "No such file")],
)
def test_a_file_without_keys_is_an_error(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "keys.txt"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        Keys.read(path)


def test_a_key_needs_a_name_and_a_place(tmp_path: Path) -> None:
    for path, name in ((tmp_path / "keys", " "), (tmp_path / "keys", "a\nb"), (tmp_path / "none" / "keys", "Anna")):
        with pytest.raises(ConfigError):
            new_key(path, name)


# --- rates and limits ---------------------------------------------------------------------------


def test_a_client_may_ask_so_often_and_others_do_not_pay_for_it() -> None:
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
    for _ in range(3):  # never more than the burst
        rate.charge("a")
    with pytest.raises(Refusal):
        rate.charge("a")


def test_the_rates_of_so_many_clients_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "BUCKETS", 2)
    rate = Rate(1, Clock())
    for client in "abc":
        rate.charge(client)
    rate.charge("a")  # forgotten
    with pytest.raises(Refusal):
        rate.charge("c")
    for _ in range(10):
        Rate(0).charge("x")


def test_a_client_is_an_address_or_a_network() -> None:
    assert client_of("192.0.2.1") == client_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:1") != client_of("2001:db8:0:1::1")
    assert client_of(None) == client_of("testclient") == ""


def test_a_client_may_have_as_much_as_is_free_but_for_a_tenth() -> None:
    room = Room(1000)
    assert [sum(room.take(client) for _ in range(1000)) for client in "abc"] == [450, 225, 113]
    assert not room.take("a") and room.take("d")
    for client, n in (("a", 450), ("c", 113), ("d", 1)):
        room.give_back(client, n)
    assert not room.take("b", 226) and room.take("b", 225) and not room.take("b")
    room.give_back("b", 450)
    assert not room.take("a", 501) and room.take("a", 500)
    assert room.take("b", 250) and room.take("a", 0)  # nothing more is nothing too much


def test_room_for_many_may_be_taken_by_one_but_not_all_of_it() -> None:
    room = Room(256, 8)
    taken = sum(room.take("a") for _ in range(300))
    assert 200 < taken < 256  # two hundred connections from one address are a usual load
    assert all(room.take(f"{number}") for number in range(20))  # those that have nothing yet find room
    assert room.take("b") and not room.take("a")
    assert not Room(4, 8).take("a", 5)


def test_limits_hold_for_texts_together() -> None:
    limits = Limits(characters=10, items=2)
    limits.check(["12345", "67890"])
    for texts, said in ((["123456", "67890"], "11"), (["", "", ""], "3")):
        with pytest.raises(Refusal, match=said) as refused:
            limits.check(texts)
        assert refused.value.status == 400


def test_settings_that_requests_may_change() -> None:
    assert parse_allowed(["beam=10", "search.length_penalty"]) == {"beam": 10.0, "length_penalty": None}
    for option in ("beams", "beam=many", "beam=nan", "beam=inf", *NEVER):
        with pytest.raises(ConfigError, match="--allow"):
            parse_allowed([option])


def test_origins_are_named() -> None:
    assert parse_origins(["https://example.org", "http://localhost:3000"])
    for origin in ("*", "example.org", "https://*.example.org", "https://example.org/"):
        with pytest.raises(ConfigError, match="--origin"):
            parse_origins([origin])


def test_languages_have_names() -> None:
    assert (language_name("de"), language_name("pt-BR"), language_name("tlh")) == ("German", "Portuguese (BR)", "tlh")
    assert normalized("pt-br") == normalized("PT_BR ")


# --- bodies -------------------------------------------------------------------------------------


@given(st.binary(max_size=300).filter(lambda content: b"--XX" not in content), st.text("aäß €.", min_size=1))
def test_files_arrive_bit_for_bit(content: bytes, text: str) -> None:
    body = multipart(('name="q"', text.encode()), ('name="file"; filename="a b.txt"', content))
    assert parse_fields(FORM, body) == {"q": text, "file": Upload("a b.txt", content)}


def test_forms_of_another_implementation_are_read() -> None:
    message = EmailMessage(HTTP.clone(utf8=True))
    message["Content-Type"] = "multipart/form-data"
    part = EmailMessage(HTTP)
    part.set_content(b"eins\r\nzwei\n", maintype="image", subtype="png", cte="8bit")
    part.add_header("Content-Disposition", "form-data", name="file", filename="tür.txt")
    message.attach(part)
    head, _, body = message.as_bytes().partition(b"\r\n\r\n")
    content_type = head.decode().replace("\r\n", "").partition("Content-Type:")[2].strip().split(" MIME")[0]
    upload = parse_fields(content_type, body)["file"]
    assert isinstance(upload, Upload) and upload.name == "tür.txt"
    assert upload.content.splitlines() == [b"eins", b"zwei"]


def test_a_field_several_times_is_a_list() -> None:
    kind = "application/x-www-form-urlencoded; charset=utf-8"
    assert parse_fields(kind, b"q=a+b&q=%C3%A4&source=de&x=") == {"q": ["a b", "ä"], "source": "de", "x": ""}
    assert parse_fields("", b"q=a") == {"q": "a"}


@pytest.mark.parametrize("text", ["Der Hund schläft.", "Der%20Hund+schl%C3%A4ft."])
def test_form_with_utf8_bytes_is_decoded(text: str) -> None:
    assert parse_fields("application/x-www-form-urlencoded", f"q={text}".encode()) == {"q": "Der Hund schläft."}


@pytest.mark.parametrize("body", [b"q=schl\xe4ft", b"q=schl%E4ft"])
def test_form_that_is_not_utf8_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        parse_fields("application/x-www-form-urlencoded", body)
    assert refused.value.status == 400


@given(
    st.binary(max_size=200), st.sampled_from([FORM, "application/json", "", "multipart/form-data; boundary=", "a/b"])
)
def test_any_body_is_parsed_or_refused(body: bytes, content_type: str) -> None:
    for raw in (body, multipart(('name="q"', body))[: len(body) + 30], b"--XX\r\n\r\n" + body + b"\r\n--XX--"):
        try:
            parse_fields(content_type, raw)
        except Refusal as refused:
            assert refused.status in (400, 413) and refused.message


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b'"a"', b"[" * 100_000, b'{"a": 1' + b"0" * 5000 + b"}", b"\xff"])
def test_json_must_be_an_object(body: bytes) -> None:
    with pytest.raises(Refusal, match="JSON"):
        parse_json(body)


def test_heads_that_take_long_to_parse_are_refused() -> None:
    name = 'name="' + ";" * 3000
    for content_type, body in (
        (FORM, multipart((name, b"x"))),
        (f"application/json; a={';' * 3000}", b"{}"),
        (FORM, multipart(('name="file"; filename="\xff.txt"', b"x")).replace("\xff".encode(), b"\xff")),
        (FORM, multipart(*[('name="q"', b"x")] * 200)),
    ):
        with pytest.raises(Refusal) as refused:
            parse_fields(content_type, body)
        assert refused.value.status == 400


def test_a_parser_whose_client_has_left_holds_its_place() -> None:
    async def run() -> None:
        places, gate = asyncio.Semaphore(1), threading.Event()
        task = asyncio.create_task(documents._parsed(places, gate.wait))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert places.locked()
        gate.set()
        await asyncio.wait_for(places.acquire(), 10)

    asyncio.run(run())


@pytest.mark.parametrize("body", [b'{"a": ["\\ud800"]}', b'{"\\udfff": 1}'])
def test_half_a_surrogate_pair_is_no_text(body: bytes) -> None:
    with pytest.raises(Refusal, match="surrogate"):
        parse_json(body)


@pytest.mark.parametrize(
    "body",
    [
        multipart(('name="q"', b"x"))[:-8],  # cut off
        multipart(("nothing", b"x")),
        multipart(('name="q"', b"\xff")),
        b"",
        multipart(*[('name="q"', b"x")] * 1200),
    ],
)
def test_damaged_forms_are_refused(body: bytes) -> None:
    with pytest.raises(Refusal, match="Invalid form"):
        parse_fields(FORM, body)


def test_texts_in_forms_have_a_smaller_limit_than_files() -> None:
    with pytest.raises(Refusal, match="too large"):
        parse_fields(FORM, multipart(('name="q"', b"x" * 70_000)))
