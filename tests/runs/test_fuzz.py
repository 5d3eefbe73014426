"""Fuzzing: any config is accepted, or refused with lines that can be printed."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fuzzed import no_hang
from nmt.config import Config
from nmt.config.load import dump_config, load_config
from nmt.config.messages import field_paths
from nmt.errors import ConfigError
from places import ROOT

pytestmark = pytest.mark.usefixtures("no_coverage")

SHIPPED = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "configs").glob("*.yaml"))]


def settings(percent: int) -> hypothesis_settings:
    """A share of the examples of other properties, which are not made smaller: a command takes too long for that."""
    n = max(1, percent * hypothesis_settings().max_examples // 100)
    return hypothesis_settings(max_examples=n, phases=[Phase.explicit, Phase.generate])


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
