"""What all tests share: a directory of their own, one thread for torch, property tests that do not depend on the
machine's speed, and `nmt`."""

from __future__ import annotations

import copy
import gc
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything imports torch
os.environ.pop("PYTHONUNBUFFERED", None)  # the output of commands is buffered, as for users

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from command import Command, run_command
from library import FLOAT32_LIBRARY
from tiny_corpus import tiny_settings, tiny_text
from untraced import untraced

if TYPE_CHECKING:
    from nmt.text.tokenizer import Tokenizer
    from nmt.translate.loading import Translator

# A shell has its jobs in the background ignore these, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile("nmt", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
# for the inner loop: --hypothesis-profile fast
settings.register_profile("fast", settings.get_profile("nmt"), max_examples=10)
settings.register_profile("exhaustive", settings.get_profile("nmt"), max_examples=300)
settings.load_profile("nmt")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test-all`."""
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="run the tests marked exhaustive, too, disturb runs at every moment, and try more examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Try more examples of properties with `--exhaustive`."""
    if config.getoption("--exhaustive"):
        settings.load_profile("exhaustive")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests and cases marked exhaustive without `--exhaustive`."""
    if config.getoption("--exhaustive"):
        return
    left_out = [item for item in items if item.get_closest_marker("exhaustive")]
    items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]
    config.hook.pytest_deselected(items=left_out)


TRACED = set[str]()
"""The tests of which coverage has traced a case."""


@pytest.fixture(scope="session")
def nmt() -> Command:
    """`nmt("train", "--resume")` runs that command; see `run_command`."""
    return run_command


@pytest.fixture(scope="session", autouse=True)
def shared_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fixtures that several tests share are made in an empty working directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("shared"))
        yield


@pytest.fixture(autouse=True)
def working_directory(shared_directory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """Each test runs in `tmp_path`: commands without `--run` or `--data` look for runs and data in the working
    directory, and a checkout has those of its user, such as the demo's."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def one_library() -> Iterator[None]:
    """Float32 matrices are multiplied by one library: a probe would choose by the machine and by what else it does, and
    two runs that are compared might differ. `test_device.py` has the probe itself."""
    from nmt.model.device import use_float32_library
    from nmt.runs import model
    from nmt.training.setup import choices

    use_float32_library(FLOAT32_LIBRARY)
    with pytest.MonkeyPatch.context() as patch:
        for module in (choices, model):
            patch.setattr(module, "pick_float32_library", lambda *_: FLOAT32_LIBRARY)
        yield


@pytest.fixture(scope="session", autouse=True)
def done_once() -> Iterator[None]:
    """The same YAML is parsed and written once, and git is asked once for the commit: thousands of runs have the same
    configs, and these steps take longer than their training."""
    from nmt.config import load
    from nmt.training.setup import choices

    parse, dump = load.parse_yaml, load.dump_yaml
    trees, texts = dict[str, object](), dict[str, str]()

    def parse_yaml(text: str, where: str) -> object:
        if text not in trees:
            trees[text] = parse(text, where)
        return copy.deepcopy(trees[text])

    def dump_yaml(tree: Mapping[str, object]) -> str:
        key = repr(tree)
        if key not in texts:
            texts[key] = dump(tree)
        return texts[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "parse_yaml", parse_yaml)
        patch.setattr(load, "dump_yaml", dump_yaml)
        patch.setattr(choices, "version", cache(choices.version))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_worker_processes() -> Iterator[None]:
    """Commands without `--workers` start none, which would take longer than all that is to be done."""
    from nmt.tasks import processes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "usable_cores", lambda: 1)
        yield


@pytest.fixture(autouse=True)
def other_cases(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of a test's cases, coverage traces the first: the reported coverage is less, if anything."""
    test = request.node.nodeid.partition("[")[0]
    with nullcontext() if test not in TRACED else untraced():
        TRACED.add(test)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Thousands of times, for files of a few bytes; see `disk` for the tests of what is synced when."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_search_of_modules_for_garbage() -> None:
    """What was imported and collected stays: the collector of garbage need not search it every few seconds."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_compiler_trace() -> None:
    """Take pytest's handlers from the fifty loggers of torch, and have it add none, as it does to all that do not
    propagate, three times a test; and with a handler the compiler writes down all that it does, which takes longer than
    compiling."""
    import torch  # noqa: F401  (sets the loggers up)

    for name in [name for name in logging.root.manager.loggerDict if name.startswith("torch")]:
        logger = logging.getLogger(name)
        logger.propagate = True
        if name == "torch.__trace":
            logger.handlers.clear()


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of `tiny_corpus`, made once; its text is beside it."""
    from nmt.prepare.prepare import prepare

    folder = tmp_path_factory.mktemp("tiny")
    tiny_text(folder / "text")
    prepare(tiny_settings(folder / "text"), folder / "data", echo=lambda _: None)
    return folder / "data"


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of `kept_run`, made once; its text is beside it."""
    from kept_run import make_data

    return make_data(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="session")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `kept_run` that nothing happened to."""
    from fitting import fit
    from kept_run import settings

    run = tmp_path_factory.mktemp("whole") / "run"
    fit(settings(data), data, run)
    return run


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `several`: data directory and configuration for runs of several processes."""
    from several import make_folder

    return make_folder(tmp_path_factory.mktemp("several"))


@pytest.fixture(scope="session")
def pair(several: Path) -> Path:
    """A run of two processes that were left alone."""
    from several import NEW, ended, torchrun

    process = torchrun(several, *NEW, "pair")
    err = ended(process)
    assert process.returncode == 0, err
    assert err.count("after 20 steps") == err.count("selected: ") == 1 and "Traceback" not in err
    return several / "pair"


@pytest.fixture(scope="module")
def no_coverage() -> Iterator[None]:
    """For a module that does a hundred times what other tests do once: the reported coverage is less, if anything."""
    with untraced():
        yield


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What reaches the GPU's kernel for packed attention; a twin on the CPU does its work."""
    from packed import kernel_calls  # here, because xdist's own process needs no torch

    return kernel_calls(monkeypatch)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without TensorBoard, which do not wait for the disk."""
    from kept_run import quicken

    quicken(monkeypatch)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """That of `tiny_run`."""
    from tiny_run import tiny_tokenizer

    return tiny_tokenizer()


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> Translator:
    """An untrained model of `tiny_run`, which translates into gibberish, always the same."""
    from tiny_run import make, tiny_config

    return make(tokenizer, tiny_config())
