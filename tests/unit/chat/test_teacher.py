"""Tests of a language model as teacher, against a scripted server that does all that goes wrong."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from chat_server import Ask, ChatServer, teacher_of, word_by_word
from nmt.chat import protocol
from nmt.chat.answers import Answers
from nmt.console import Progress
from nmt.errors import ConfigError, DataError, StoppedError
from nmt.prepare.download import Failure

LINES = ["Der Hund bellt laut.", "", "Die Katze schläft heute.", "Der Hund bellt laut.", "Das ist ein rote Ball."]


def test_equal_lines_are_asked_once_and_never_again(server: ChatServer, ask: Ask) -> None:
    expected = ["The dog barks loudly.", "not translated: blank line", "The cat sleeps today.", "The dog barks loudly."]
    assert ask(LINES[:4]) == expected
    assert server.asked == {LINES[0]: 1, LINES[2]: 1}
    assert ask([*LINES[:4], "Ein Haus."], parallel=1) == [*expected, "A house."]
    assert server.asked.total() == 3
    assert {body["model"] for body in server.bodies} == {"m"} and {body["temperature"] for body in server.bodies} == {0}
    assert server.paths == ["/v1/chat/completions"] * 3


def test_requests_are_sent_at_once(server: ChatServer, ask: Ask) -> None:
    server.delay = 0.05
    ask([f"Hund {i} Katze." for i in range(24)], parallel=6)
    assert 4 <= server.most_running <= 6


@pytest.mark.parametrize(
    "trouble",
    [
        {"status": 429, "raw": "slow down", "headers": {"Retry-After": "0"}},
        {
            "status": 429,
            "raw": "",
            "headers": {"Retry-After": format_datetime(datetime(2020, 1, 1, tzinfo=UTC), usegmt=True)},
        },
        {"status": 500, "raw": "oops"},
        {"status": 503, "raw": "{}"},
        {"close": True},
        {"raw": '{"choices": [', "cut": True},
        {"raw": '{"choices": ['},
        {"raw": "[]"},
        {"raw": '{"choices": []}'},
        {"raw": '{"choices": [{"message": "text"}]}'},
    ],
)
def test_trouble_of_server_passes(server: ChatServer, ask: Ask, trouble: dict[str, Any]) -> None:
    server.special = {LINES[0]: [trouble, trouble, word_by_word(LINES[0])]}
    assert ask(LINES[:1]) == ["The dog barks loudly."]
    assert server.asked == {LINES[0]: 1}


def test_slow_server_times_out(server: ChatServer, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "TIMEOUT", 0.1)
    server.special = {LINES[0]: [{"wait": 0.5, "text": "late"}, word_by_word(LINES[0])]}
    assert ask(LINES[:1]) == ["The dog barks loudly."]


def test_long_retry_after_stops_cleanly(server: ChatServer, ask: Ask) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    for wait in ("3600", later):
        server.special = {LINES[0]: [{"status": 429, "raw": "quota", "headers": {"Retry-After": wait}}]}
        with pytest.raises(StoppedError, match=r"429.*quota"):
            ask(LINES[:1])


def test_rejected_answer_is_asked_once_more_then_left_out(server: ChatServer, ask: Ask, tmp_path: Path) -> None:
    good, bad = "Ich sehe 37 Hunde.", "Ich sehe 38 Hunde."
    server.special = {
        good: ["I see 40 dogs.", "I see 37 dogs."],
        bad: ["I see 40 dogs.", "I see 41 dogs.", "I see 38 dogs."],
    }
    assert ask([good, bad]) == ["I see 37 dogs.", "left out: numbers differ"]
    assert server.asked == {good: 2, bad: 2}
    assert (tmp_path / "rejected.tsv").read_text(encoding="utf-8") == f"numbers differ\t{bad}\tI see 41 dogs.\n"
    second = [body for body in server.bodies if "seed" in body]
    assert len(second) == 2 and "numbers differ" in second[0]["messages"][0]["content"]
    assert ask([good, bad]) == ["I see 37 dogs.", "left out: numbers differ"] and server.asked.total() == 4


def test_reasoning_is_removed_and_gets_more_tokens(server: ChatServer, ask: Ask) -> None:
    server.special = {LINES[0]: [{"text": "<think>hm", "end": "length"}, "<think>hm</think>\n\nThe dog barks loudly."]}
    assert ask(LINES[:1]) == ["The dog barks loudly."]
    first, second = (body["max_tokens"] for body in server.bodies)
    assert second > first + 4096


def test_refused_fields_are_left_out(server: ChatServer, ask: Ask) -> None:
    server.refused_fields = ("temperature", "max_tokens")
    assert ask(LINES[:1] + LINES[2:3], parallel=1) == ["The dog barks loudly.", "The cat sleeps today."]
    last = server.bodies[-1]
    assert not {"temperature", "max_tokens"} & {*last} and last["max_completion_tokens"] > 1000
    assert len(server.bodies) == 4, "they are left out at once in the second question"


def test_fields_of_file_are_sent(server: ChatServer, ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"top_p": 0.5, "max_tokens": null, "temperature": 0.2}', encoding="utf-8")
    ask(LINES[:1], request=tmp_path / "f.json")
    assert (server.bodies[0]["top_p"], server.bodies[0]["temperature"]) == (0.5, 0.2)
    assert "max_tokens" not in server.bodies[0]


@pytest.mark.parametrize(
    ("option", "value"),
    [("request", "[]"), ("request", "{"), ("request", '{"stream": true}'), ("price", "1"), ("price", "a,b")],
)
def test_invalid_option_is_refused(server: ChatServer, tmp_path: Path, option: str, value: str) -> None:
    (tmp_path / "f.json").write_text(value, encoding="utf-8")
    with pytest.raises(ConfigError):
        teacher_of(server, **{option: tmp_path / "f.json" if option == "request" else value})


# --- several lines in a request, several candidates ---------------------------------------------------

MANY = [f"Hund {i} sieht die Katze." for i in range(13, 25)]
MANY_TRANSLATED = [word_by_word(line) for line in MANY]


@pytest.mark.parametrize("refused", [(), ("response_format",)])
def test_lines_of_one_request_come_back_in_their_places(server: ChatServer, ask: Ask, refused: tuple[str, ...]) -> None:
    server.refused_fields = refused
    assert ask(MANY, lines_per_request=5, parallel=1) == MANY_TRANSLATED
    assert len(server.bodies) == 3 + len(refused) and server.asked.total() == 12


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: "\n".join(f"{i}: {text}" for i, text in enumerate(texts[:-1], 1)),  # shifted after a lost line
        lambda texts: "\n".join(f"{max(i, 2)}: {text}" for i, text in enumerate(texts, 1)),
        lambda texts: "\n".join(f"{i}: {text}" for i, text in enumerate(texts, 1) if i != 2),
        lambda texts: json.dumps(texts),
        lambda texts: " ".join(texts),
        lambda _: "I cannot assist with that request.",
    ],
)
def test_lines_are_asked_alone_if_numbers_are_wrong(server: ChatServer, ask: Ask, answer: Any) -> None:
    server.together = lambda lines: answer([word_by_word(line) for line in lines])
    assert ask(MANY, lines_per_request=4) == MANY_TRANSLATED
    assert set(server.asked.values()) == {2}
    assert not any("seed" in body for body in server.bodies), "the answer is not one that was rejected"
    assert ask(MANY, lines_per_request=4) == MANY_TRANSLATED and server.asked.total() == 24


def test_cut_off_request_of_several_lines_is_asked_alone(server: ChatServer, ask: Ask) -> None:
    whole = "\n".join(f"{i}: {text}" for i, text in enumerate(MANY_TRANSLATED[:2], 1))
    server.answer = (
        lambda body, real=server.answer: (  # type: ignore[method-assign]
            {"text": whole[:-8], "end": "length"} if "numbered" in body["messages"][0]["content"] else real(body)
        )
    )
    assert ask(MANY[:2], lines_per_request=2) == MANY_TRANSLATED[:2]


def test_candidate_most_similar_to_others_is_taken(server: ChatServer, ask: Ask) -> None:
    server.special = {LINES[0]: ["The dog barks loudly.", "The dog barks loud.", "A hound howls noisily."]}
    assert ask(LINES[:1], candidates=3, parallel=1)[0] in ("The dog barks loudly.", "The dog barks loud.")
    assert [body.get("seed") for body in server.bodies] == [None, 1, 2]
    assert {body["temperature"] for body in server.bodies} == {0.7}


# --- limits, records and secrets ----------------------------------------------------------------------


def test_limit_of_tokens_or_money_stops_and_same_command_continues(server: ChatServer, ask: Ask) -> None:
    with pytest.raises(StoppedError, match="--max-tokens 200"):
        ask(MANY, max_tokens=200, parallel=1)
    n = server.asked.total()
    assert 1 <= n < 12
    with pytest.raises(StoppedError):
        ask(MANY, max_tokens=200, parallel=1)
    assert server.asked.total() == n, "it is reached already"
    with pytest.raises(StoppedError, match=r"--max-cost 0\.0005") as caught:
        ask(MANY, max_cost=0.0005, price="1,2", parallel=1)
    assert n < server.asked.total() < 12
    read = sum(len(body["messages"][0]["content"].split()) for body in server.bodies)
    written = 5 * server.asked.total()
    expected = f"{read:,} tokens read and {written:,} written, cost {(read + 2 * written) / 1e6:.4f}"
    assert expected in str(caught.value)
    assert ask(MANY) == MANY_TRANSLATED and server.asked.total() == 12


def test_tokens_are_those_of_server_or_else_estimated(server: ChatServer, ask: Ask, tmp_path: Path) -> None:
    ask(LINES[:1])
    prompt = server.bodies[0]["messages"][0]["content"]
    answers = Answers(tmp_path / "answers.db")
    assert answers.totals()[3:] == (len(prompt.split()), 4)
    answers.close()
    server.usage = False
    ask(LINES[2:3])
    answers = Answers(tmp_path / "answers.db")
    assert answers.totals().read > 2 * len(prompt.split()) and answers.totals().written > 4
    answers.close()


def test_record_has_models_that_server_names(server: ChatServer, ask: Ask, tmp_path: Path) -> None:
    server.special = {LINES[2]: [{"text": word_by_word(LINES[2]), "model": "other"}]}
    ask(LINES)
    teacher = teacher_of(server, terms="none known")
    record = teacher.record(tmp_path, 3)
    assert {*record.model.split(",")} == {"dictionary-1", "other"}
    assert (record.host, record.lines, record.terms, record.temperature) == ("127.0.0.1", 3, "none known", 0.0)
    assert record.tokens > 100 and record.date == datetime.now(UTC).date().isoformat()
    ask(["Ein Haus."])
    assert teacher.record(tmp_path, 4) == record, "it is made once, so that the settings of a run do not change"


def test_key_is_sent_but_never_shown(
    server: ChatServer, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "sk-secret123"
    server.key = key
    with pytest.raises(DataError, match="OPENAI_API_KEY"):
        ask(LINES[:1])
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with pytest.raises(DataError) as caught:
        ask(LINES[:1])
    assert "***" in str(caught.value) and "sk-wrong" not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", f"{key}\n")
    server.special = {LINES[0]: [{"status": 500, "raw": f"Bearer {key}"}, "The dog barks loudly."]}
    assert ask(LINES[:1]) == ["The dog barks loudly."]
    assert server.keys[-1] == f"Bearer {key}"
    teacher_of(server).record(tmp_path, 1)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert key.encode() not in written and key not in capsys.readouterr().err
    monkeypatch.setenv("OPENAI_API_KEY", "sk\nsecret")
    with pytest.raises(ConfigError) as refused:
        teacher_of(server)
    assert "secret" not in str(refused.value)


def test_redirect_is_not_followed(server: ChatServer, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret123")
    server.special = {
        LINES[0]: [{"status": status, "raw": "", "headers": {"Location": server.url}} for status in (302, 307)]
    }
    for _ in range(2):
        with pytest.raises(DataError, match="address"):
            ask(LINES[:1])
    assert len(server.paths) == 2


def test_line_that_server_refuses_is_left_out_but_not_all_lines(server: ChatServer, ask: Ask) -> None:
    refusal = {"status": 400, "raw": '{"error": {"message": "content filter"}}'}
    server.special = {MANY[0]: [refusal]}
    assert ask(MANY[:3], parallel=1) == ["left out: an error of the server", *MANY_TRANSLATED[1:3]]
    server.special = {line: [refusal] for line in MANY}
    with pytest.raises(DataError, match="content filter"):
        ask(MANY, parallel=1)


def test_lines_that_a_misconfigured_server_refuses_are_not_lost(server: ChatServer, ask: Ask) -> None:
    refusal = {"status": 400, "raw": "{\"detail\": \"Server is pinned to 'a'; requested 'm'.\"}"}
    server.special = {line: [refusal] for line in MANY[:2]}
    for _ in range(2):
        with pytest.raises(DataError, match="pinned"):
            ask(MANY[:2])
    server.special = {}
    assert ask(MANY[:2]) == MANY_TRANSLATED[:2]


def test_first_error_of_server_suggests_to_check_the_name(server: ChatServer, ask: Ask) -> None:
    server.special = {LINES[0]: [{"status": 500, "raw": "Internal Server Error"}]}
    with pytest.raises(StoppedError, match="name of the model"):
        ask(LINES[:1])


def test_half_of_surrogate_pair_is_replaced(server: ChatServer, ask: Ask) -> None:
    server.special = {LINES[0]: ["The dog \ud83d barks."]}
    [answer] = ask(LINES[:1], unchecked=True)
    assert set(answer) - set("The dog  barks.") == {"\ufffd"}


def test_server_that_restarts_is_asked_again(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = teacher_of(server, parallel=1)
    with teacher.opened(None, 1), Progress("", shown=False) as progress:
        assert [*teacher.translations(["Ein Haus."], 0, progress)] == [["A house."]]
        real, failures = protocol.answer, [Failure("no response: refused", may_pass=False)] * 2

        def answer(*arguments: Any) -> Any:
            if failures:
                raise failures.pop()
            return real(*arguments)

        monkeypatch.setattr(protocol, "answer", answer)
        assert [*teacher.translations(["Ein Hund."], 0, progress)] == [["A dog."]]


def test_signal_stops_after_requests_under_way(server: ChatServer, ask: Ask) -> None:
    def translate(line: str) -> str:
        if server.asked.total() == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return word_by_word(line)

    server.translate = translate
    with pytest.raises(StoppedError, match="SIGTERM"):
        ask(MANY, parallel=1)
    n = server.asked.total()
    server.translate = word_by_word
    assert ask(MANY) == MANY_TRANSLATED and server.asked.total() == 12 and 3 <= n < 12


def test_damaged_answers_are_reported(server: ChatServer, ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "answers.db").write_bytes(b"no database" * 1000)
    with pytest.raises(DataError, match=r"answers\.db"):
        ask(LINES[:1])
    assert not server.bodies


def test_all_answers_are_taken_unchecked(server: ChatServer, ask: Ask) -> None:
    server.special = {LINES[0]: ['Sure!\n"The dog"'], LINES[2]: [""]}
    assert ask([LINES[0], LINES[2]], unchecked=True) == ['Sure! "The dog"', "left out: empty side"]


def test_text_is_cleaned_before_it_is_paid_for(server: ChatServer, ask: Ask) -> None:
    lines = ["Hund\x07 bellt.", "Hund " * 300, "  Der Hund bellt laut.  "]
    assert ask(lines) == [
        "not translated: control character", "not translated: too long (characters)", "The dog barks loudly.",
    ]  # fmt: skip
    assert [*server.asked] == ["Der Hund bellt laut."]


def test_progress_is_printed_without_terminal(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nmt.chat.teacher.SAID_EVERY", 0.0)
    ask(MANY[:2], price="1,1", parallel=1)
    last = capsys.readouterr().err.splitlines()[-1]
    assert all(part in last for part in ("2 of 2 lines (100%)", "lines/s", "tokens read", "cost 0.00"))


def test_line_that_server_never_answers_is_left_out(server: ChatServer, ask: Ask) -> None:
    server.special = {MANY[1]: [{"raw": '{"choices": []}'}], MANY[2]: [{"status": 500, "raw": "blocked"}]}
    left_out = "left out: an error of the server"
    assert ask(MANY[:4], parallel=1) == [MANY_TRANSLATED[0], left_out, left_out, MANY_TRANSLATED[3]]


def test_field_that_is_refused_once_is_sent_again(server: ChatServer, ask: Ask) -> None:
    """A long limit may be refused, and others not."""
    refusal = {"status": 400, "raw": "max_tokens is too large"}
    server.special = {LINES[2]: [refusal, "The cat sleeps today."]}
    assert ask([LINES[0], LINES[2], "Ein Haus."], parallel=1) == [
        "The dog barks loudly.",
        "The cat sleeps today.",
        "A house.",
    ]
    assert ["max_tokens" in body for body in server.bodies] == [True, True, False, True]


def test_content_may_have_parts(server: ChatServer, ask: Ask) -> None:
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "The dog "},
        {"type": "text", "text": "barks loudly."},
    ]
    server.special = {LINES[0]: [{"text": None, "message": {"content": parts}}]}
    assert ask(LINES[:1]) == ["The dog barks loudly."]


def test_lines_with_numbers_of_their_own_are_asked_alone(server: ChatServer, ask: Ask) -> None:
    lines = ["1. Hund", "2. Katze", "Ein Haus.", "Der Ball."]
    assert ask(lines, lines_per_request=4, unchecked=True) == [word_by_word(line) for line in lines]
    assert sorted("numbered" in body["messages"][0]["content"] for body in server.bodies) == [False, False, True]


def test_no_credit_stops_cleanly(server: ChatServer, ask: Ask) -> None:
    server.special = {LINES[0]: [{"status": 402, "raw": "no credit"}]}
    with pytest.raises(StoppedError, match="no credit"):
        ask(LINES[:1])
