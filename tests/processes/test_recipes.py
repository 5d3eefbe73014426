"""Tests of stopping a recipe while one of its commands runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

SLOW = """
import signal, sys, time
received = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: received.append(number))
print("begun", flush=True)
while not received: time.sleep(0.01)
time.sleep(0.5)
print("saved", len(received), flush=True)
sys.exit(75)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_of_recipe_saves_before_recipe_exits(number: signal.Signals) -> None:
    """Ctrl-C reaches all processes of the terminal, `kill` only one of them."""
    program = f"import sys; from nmt.recipes.directory import *; sys.exit(wait_for([sys.executable, '-c', {SLOW!r}]))"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as caller:
        assert caller.stdout is not None and caller.stdout.readline() == "begun\n"
        (os.killpg if number == signal.SIGINT else os.kill)(caller.pid, number)
        assert caller.stdout.read() == "saved 1\n"
    assert caller.returncode == 75
