"""What all tests share: one thread for torch, property tests that do not depend on the machine's speed, and `nmt`."""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything imports torch

from pathlib import Path

import pytest
from command import Command, run_command
from hypothesis import HealthCheck, settings
from tiny_corpus import tiny_settings, tiny_text

# A shell has its jobs in the background ignore these, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile("nmt", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nmt")


@pytest.fixture(scope="session")
def nmt() -> Command:
    """`nmt("train", "--resume")` runs that command; see `run_command`."""
    return run_command


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of `tiny_corpus`, made once; its text is beside it."""
    from nmt.prepare import prepare

    folder = tmp_path_factory.mktemp("tiny")
    tiny_text(folder / "text")
    prepare(tiny_settings(folder / "text"), folder / "data", echo=lambda _: None)
    return folder / "data"
