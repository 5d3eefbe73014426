"""Tests of `nmt serve` as a process: real clients, startup errors, and shutdown."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from libretranslatepy import LibreTranslateAPI

from command import Command
from export_run import LINES, write_run
from nmt.serve.admission import new_key
from nmt.serve.server import listen
from nmt.translate.loading import Translator
from served import Client
from waiting import until


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("serve") / "de-en")


class Running:
    """A running server process."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "nmt", "serve", "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"LC_ALL": "C"})
        self.said: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                break
        else:
            pytest.fail("".join(self.said))
        self.client = Client(int(found[1]))
        until(lambda: self.client.ask("/ready").status == 200)

    def end(self, number: signal.Signals) -> int:
        """Send a signal to the server, and return its exit status."""
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=60)
        self.said.append(rest)
        return self.process.returncode


@pytest.fixture
def running(run: Path) -> Iterator[Running]:
    running = Running(
        "--run", run, "--engine", "native", "--set", "search.max_length_ratio=0", "--set", "search.max_length_offset=9"
    )
    yield running
    running.process.kill()
    running.process.communicate()


def test_libretranslate_clients_are_served(running: Running, run: Path) -> None:
    expected = Translator.load(run).translate(LINES, max_length_ratio=0.0, max_length_offset=9)
    api = LibreTranslateAPI(f"http://127.0.0.1:{running.client.port}")
    assert [api.translate(line, "de", "en") for line in LINES[:3]] == expected[:3]
    assert [language["targets"] for language in api.languages()] == [["en"], []]
    assert {found["language"] for found in api.detect("Das Haus ist groß.")} <= {"de", "en"}

    # under load: requests sent before the signal get correct answers
    texts = [[f"{LINES[number]} {i} {number}" for i in range(40)] for number in range(6)]

    def ask(lines: list[str]) -> list[str]:
        return running.client.ask("/translate", {"q": lines, "source": "de", "target": "en"}).json["translatedText"]

    with ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(ask, lines) for lines in texts]
        until(lambda: re.search(r"nmt_queue_requests [1-9]", running.client.ask("/metrics").body.decode()))
        assert running.end(signal.SIGTERM) == 0
    answered = [
        (lines, answer.result()) for lines, answer in zip(texts, answers, strict=True) if not answer.exception()
    ]
    for lines, answer in answered:
        assert answer == Translator.load(run).translate(lines, max_length_ratio=0.0, max_length_offset=9)
    assert answered and not any("Traceback" in line or LINES[0] in line for line in running.said)


def test_serve_usage_errors_are_one_line(nmt: Command, run: Path, tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as [taken]:
        port = taken.getsockname()[1]
        for arguments, said in (
            (("--port", port), "Address already in use"),
            (("--host", "192.0.2.1"), "Cannot assign"),
            (("--host", "no such host"), "choose another"),
            (("--allow", "lm"), "--allow lm: requests cannot change"),
            (("--origin", "*"), "--origin"),
            (("--keys", tmp_path / "none"), "--new-key NAME"),
            (("--run", run, "--port", 0), "are the same"),
            (("--new-key", "Anna"), "--keys"),
        ):
            done = nmt("serve", "--run", run, "--engine", "native", *arguments)
            assert done.status == 2 and said in done.err and done.err.count("\n") == 1, done


def test_new_key_is_printed_once(nmt: Command, tmp_path: Path) -> None:
    done = nmt("serve", "--keys", tmp_path / "keys", "--new-key", "Anna")
    assert done.status == 0 and len(done.out.strip()) == 43
    assert done.out.strip() not in (tmp_path / "keys").read_text(encoding="utf-8")


def test_public_server_without_keys_warns(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nmt.serve import server
    from nmt.serve.settings import ServeOptions

    monkeypatch.setattr(server, "serve", lambda *_: None)
    new_key(tmp_path / "keys", "Anna")
    for keys, warns in ((None, True), (tmp_path / "keys", False)):
        said: list[str] = []
        options = ServeOptions([run], host="0.0.0.0", port=0, engine="native", keys=keys, threads=1)
        server.start(options, said.append)
        assert any(line.startswith("warning: ") for line in said) is warns
        assert said[-1].startswith("serving at http://0.0.0.0:")


def test_missing_packages_are_named(nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "uvicorn" else name)
    done = nmt("serve", "--model", "anything")
    assert done.status == 2 and "uvicorn must be installed: pip install uvicorn" in done.err
