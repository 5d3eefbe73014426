"""Recipes with a language model that are killed at random moments."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

from chat_server import ChatServer, serve_chat
from nmt.config.load import dump_config
from tiny_corpus import tiny_settings, tiny_text

DRIVER = """
import json, os, random, signal, sqlite3, sys, time
from nmt.cli import main
from nmt.recipes import distil  # imports all before the processes are forked
rng = random.Random(7)
for kill in range(22):
    child = os.fork()
    if child == 0:
        sys.stdout = open(os.devnull, "w")
        main([*sys.argv[1:], "--output", "out" if kill < 21 else "whole"])
    if kill < 20:
        time.sleep(rng.uniform(0.02, 0.4))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    known = []
    if os.path.exists("out/answers.db"):
        file = sqlite3.connect("out/answers.db")
        known = [row[0] for row in file.execute("SELECT line FROM answers")]
        file.close()
    print(json.dumps([time.time(), os.waitstatus_to_exitcode(status), known]), flush=True)
"""


def test_recipe_killed_at_random_moments_asks_nothing_twice(tmp_path: Path) -> None:
    tiny_text(tmp_path / "text")
    (tmp_path / "mine.yaml").write_text(dump_config(tiny_settings(tmp_path / "text")), encoding="utf-8")
    lines = (tmp_path / "text" / "train.aa").read_text(encoding="utf-8").split("\n")
    requests = list[tuple[float, str]]()
    rng = random.Random(3)

    def translate(line: str) -> str:
        requests.append((time.time(), line))
        time.sleep(rng.uniform(0.0, 0.05))
        return f"{line}x"

    server = ChatServer(translate)
    server.special = {lines[5]: [""]}
    words = ["distil", "--teacher-model", "m", "--config", "mine.yaml", "--mono", "text/train.aa", "--terms", "any"]
    with serve_chat(server):
        words += ["--teacher-url", server.url]
        command = [sys.executable, "-c", DRIVER, *words]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    statuses = [status for _, status, _ in kills]
    assert statuses[-2:] == [0, 0] and statuses.count(-9) >= 3, done.stderr
    assert {line for _, line in requests} == {*lines[:-1]} - {lines[5]}
    finished = kills[-2][0]  # before the uninterrupted one
    for number, (moment, _, known) in enumerate(kills, start=1):
        assert not {line for asked, line in requests if moment < asked < finished} & {*known}
        # of four threads, each may lose an answer that is not kept yet, and the request that it sends next
        assert len({line for asked, line in requests if asked < moment} - {*known}) <= 8 * number
    for name in ("distilled.bb", "report.json", "rejected.tsv"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
