"""Fuzzing: with damaged files, a command prints one line about the damage or works as usual."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from command import Command
from fuzzed import check, no_hang, put_somewhere
from nmt.config import Config
from nmt.config.load import dump_config, load_config
from nmt.config.messages import field_paths
from nmt.errors import ConfigError
from places import ROOT
from tiny_corpus import tiny_settings

pytestmark = pytest.mark.usefixtures("no_coverage")

SHIPPED = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "configs").glob("*.yaml"))]


def settings(percent: int) -> hypothesis_settings:
    """A share of the examples of other properties, which are not made smaller: a command takes too long for that."""
    n = max(1, percent * hypothesis_settings().max_examples // 100)
    return hypothesis_settings(max_examples=n, phases=[Phase.explicit, Phase.generate])


# --- config files -------------------------------------------------------------------------------

ODD = [
    "&a [*a]", "*a", "&a", "<<: *a", "!!int x", "!!python/name:os.system", "!!binary =", "!!timestamp 2001-99-99",
    "? [a]\n", "- ", ": ", "\t", "\n", "\r", "\x00", "\x85", "\u2028", "\ufeff", "\U0001f600", "{", "}", "[", "]", "'",
    '"', "|", ">-\n", "#", "%YAML 9.9\n", "---\n", "...\n", "@", "`", ".nan", "-.inf", "1e999", "-0.0", "0x_", "0o9",
    "1_0", "12:30:45", "2001-12-14t21:59:43.10-05:00", "yes", "~", "null", "9" * 30, "1" * 5000, "[" * 300, "\\ud800",
    '"\\ud800"', '"\\0"', "data:", "training:", "max_tokens: auto", "{direction}", "..", "/", "de-de", "",
]  # fmt: skip
KEYS = sorted({word for path in field_paths() for word in path.split(".")} - {"*"})
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | st.binary(max_size=5) | st.sampled_from(ODD)
)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYS, "de", "en"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def load(content: bytes, overrides: tuple[str, ...] = ()) -> Config | ConfigError:
    """What loading gives; it raises nothing but ConfigError, and every problem is a line that can be printed."""
    with tempfile.TemporaryDirectory() as folder, no_hang():
        path = Path(folder) / "c.yaml"
        path.write_bytes(content)
        try:
            config = load_config(path, overrides)
        except ConfigError as error:
            assert error.problems
            assert all(problem.isprintable() for problem in error.problems), error.problems
            return error
        path.write_text(dump_config(config), encoding="utf-8")
        assert load_config(path) == config
        return config


@settings(20)
@given(
    st.dictionaries(st.sampled_from(list(Config.model_fields)), trees | st.dictionaries(st.sampled_from(KEYS), trees))
)
def test_any_tree_is_accepted_as_config_or_reported(tree: dict[str, Any]) -> None:
    load(yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass"))


@st.composite
def edited(draw: st.DrawFn) -> bytes:
    """A shipped config, some of its text replaced, doubled or left out, in some encoding."""
    text = draw(st.sampled_from(SHIPPED))
    for _ in range(draw(st.integers(1, 4))):
        words = [match.span() for match in re.finditer(r"\w+|[^\w\s]|\n\s*", text)]
        start, end = draw(st.sampled_from(words)) if words else (0, 0)
        text = (
            text[:start]
            + draw(st.sampled_from(ODD) | st.sampled_from(KEYS))
            + text[draw(st.sampled_from([start, end])) :]
        )
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"])), "replace")


@settings(50)
@given(edited())
def test_mutated_config_loads_or_raises(content: bytes) -> None:
    load(content)


overrides = st.builds(
    "{}{}{}".format,
    st.sampled_from([*field_paths(), *Config.model_fields, "data.train.0", "data.train.0.files.de", "data.test.test"])
    | st.text(max_size=9),
    st.sampled_from(["=", "=", "=", "", ".=", ".x="]),
    st.sampled_from(ODD)
    | scalars.map(repr)
    | trees.map(lambda tree: json.dumps(tree, default=str))
    | st.text(max_size=9),
)


@settings(35)
@given(st.lists(overrides, min_size=1, max_size=3))
def test_any_override_is_accepted_or_reported(given_overrides: list[str]) -> None:
    load(SHIPPED[-1].encode(), tuple(given_overrides))


# --- run and data directories -------------------------------------------------------------------


Damage = Callable[[Path, Path], None]  # of one file, with another at hand


def at(place: float, size: int) -> int:
    return int(place * size)


def of_bytes(change: Callable[[bytes], bytes]) -> Damage:
    return lambda path, _: path.write_bytes(change(path.read_bytes())) and None


def flip(place: float, bit: int) -> Damage:
    return of_bytes(
        lambda data: splice_bytes(data, place, 1, bytes([data[at(place, len(data))] ^ 1 << bit])) if data else b""
    )


def splice(place: float, n: int, new: bytes) -> Damage:
    return of_bytes(lambda data: splice_bytes(data, place, n, new))


def splice_bytes(data: bytes, place: float, n: int, new: bytes) -> bytes:
    return data[: at(place, len(data))] + new + data[at(place, len(data)) + n :]


def swap(path: Path, other: Path) -> None:
    contents = path.read_bytes(), other.read_bytes()
    for file, content in zip((other, path), contents, strict=True):
        file.write_bytes(content)


def remove(path: Path, _: Path) -> None:
    path.unlink()


def directory(path: Path, _: Path) -> None:
    path.unlink()
    path.mkdir()


def file_for_folder(path: Path, _: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.touch()


def linked(target: str) -> Damage:
    def change(path: Path, _: Path) -> None:
        path.unlink()
        path.symlink_to(target or path.name)

    return change


places = st.floats(0, 1, exclude_max=True)
damages = st.one_of(
    st.builds(flip, places, st.integers(0, 7)),
    st.builds(splice, places, st.integers(0, 9), st.binary(max_size=9)),
    st.builds(splice, places, st.just(2**60), st.just(b"")),
    st.builds(splice, st.just(0.0), st.just(2**60), st.sampled_from([b"", b"[]", b"{}", b"null", b"3", b"[" * 9999])),
    st.sampled_from([swap, remove, directory, file_for_folder, linked(""), linked("/proc/self/mem")]),
)


@st.composite
def replaced_value(draw: st.DrawFn) -> Damage:
    """Another value at some place of a JSON file."""
    where = draw(places)
    value = draw(st.sampled_from([None, True, -1, 0, 7, 10**30, 0.5, 1e308, "", "x", [], {}, [[]]]))

    def change(path: Path, _: Path) -> None:
        try:
            tree = json.loads(path.read_bytes())
        except ValueError:  # log.jsonl, or what is not JSON at all
            path.unlink()
            return
        put_somewhere(tree, value, lambda spots: spots[at(where, len(spots))])
        path.write_text(json.dumps(tree))

    return change


@contextlib.contextmanager
def damaged(whole: Path, damage: Damage, which: float, pattern: str = "*") -> Iterator[tuple[Path, str]]:
    """A copy of a directory with one file damaged, and that file's name in it."""
    with tempfile.TemporaryDirectory() as folder, no_hang():
        copy = Path(folder).resolve() / "copy"
        shutil.copytree(whole, copy)
        paths = sorted(path for path in copy.rglob(pattern) if path.is_file())
        path = paths[at(which, len(paths))]
        damage(path, random.Random(which).choice(paths))
        yield copy, path.relative_to(copy).as_posix()


LINES = "mali ta\nbore\n\nta ta re\n"


@pytest.fixture(scope="module")
def whole_run(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps."""
    from fitting import fit

    run = tmp_path_factory.mktemp("fuzz") / "run"
    training = {"max_steps": 4, "save_every_steps": 2, "validate_every_steps": 2}
    fit(tiny_settings(tiny_data.parent / "text", training=training), tiny_data, run)
    (run.parent / "in").write_text(LINES)
    return run


@pytest.fixture(scope="module")
def answer(whole_run: Path, nmt: Command) -> str:
    """What the run translates when it is whole, with scores, which tell more of the weights than words do."""
    result = nmt("translate", "--run", whole_run, "--input", whole_run.parent / "in", "--n-best", "2")
    assert result.out.count("\n") == 2 * LINES.count("\n") - 1  # a blank line has one
    return result.out


@settings(14)
@given(damage=damages, which=places)
def test_damaged_run_never_translates_wrongly(
    damage: Damage, which: float, whole_run: Path, answer: str, nmt: Command
) -> None:
    with damaged(whole_run, damage, which) as (run, name):
        result = nmt("translate", "--run", run, "--input", whole_run.parent / "in", "--n-best", "2")
        check(result)
        is_sealed = name.startswith(("checkpoints/", "tokenizer/"))  # so that damage cannot stay unseen
        assert result.status != 0 or not is_sealed or damage is file_for_folder or result.out == answer, name


@settings(5)
@given(damage=damages, which=places)
def test_damaged_run_resumes_or_raises(damage: Damage, which: float, whole_run: Path, nmt: Command) -> None:
    with damaged(whole_run, damage, which) as (run, _):
        check(nmt("train", "--resume", "--run", run, "--set", "training.max_steps=5"))


@settings(5)
@given(damage=damages | replaced_value(), which=places)
def test_damaged_data_directory_raises_or_is_prepared_again(
    damage: Damage, which: float, tiny_data: Path, nmt: Command
) -> None:
    """What is learned from, and what choices are made on, is what prepare wrote or there is no run."""
    with damaged(tiny_data, damage, which) as (data, name):
        config = data.parent / "c.yaml"
        config.write_text(dump_config(tiny_settings(tiny_data.parent / "text", training={"max_steps": 1})))
        result = nmt("train", "--config", config, "--data", data, "--run", data.parent / "run")
        check(result)
        assert (data.parent / "run").exists() == (result.status == 0)
        if result.status == 0 and (
            (name.startswith("train") and name.endswith(".npy")) or name.startswith(("valid", "tokenizer"))
        ):
            assert (data / name).read_bytes() == (tiny_data / name).read_bytes()
        prepared = nmt("prepare", "--config", config, "--data", data)
        check(prepared)
        if prepared.status == 0:
            others = {Path("manifest.json"), Path("report.json"), Path("report.html")}
            files = {path.relative_to(tiny_data) for path in tiny_data.rglob("*.*")} - others
            assert all((data / file).stat().st_size == (tiny_data / file).stat().st_size for file in files)
