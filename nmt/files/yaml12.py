"""Reading and writing of YAML 1.2, in which `no` is a string and `3e-4` a number. Duplicate keys are errors.

`parse_yaml` is safe for the files of strangers: neither size nor depth nor aliases can exhaust time or memory.

PyYAML implements YAML 1.1; its resolvers are replaced here. Schema: https://yaml.org/spec/1.2.2/#103-core-schema.
"""

from __future__ import annotations

import itertools
import re
import reprlib
from collections.abc import Mapping
from typing import Any

import yaml

from nmt.console import printable, printable_sentence
from nmt.errors import ConfigError
from nmt.files.read import CONFIG_BYTES

_MAX_SIZE = 3 * CONFIG_BYTES  # nodes and characters, which only aliases can exceed
_MAX_DIGITS = 18  # far more than any setting needs
_NUMBER = (
    r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_NUMBER_TAG = "tag:nmt,number"
_NUMBER_STARTS = list("-+.0123456789")


def parse_yaml(text: str, where: str) -> object:
    """Parse a YAML document of at most `CONFIG_BYTES` characters into plain values.

    Raises ConfigError, whose message begins with `where`.
    """
    if len(text) > CONFIG_BYTES:
        raise ConfigError(f"{where}: more than {CONFIG_BYTES:,} characters of YAML")
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a tag and a value that do not match
        raise ConfigError(printable(f"{where}: not valid YAML: {_one_line(error)}")) from error
    except RecursionError as error:
        raise ConfigError(f"{where}: not valid YAML: nested too deeply") from error


def dump_yaml(tree: Mapping[str, object]) -> str:
    """Return YAML that `parse_yaml` and YAML 1.1 parsers read as these plain values."""
    text = str(yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))
    # PyYAML does not escape some control characters of terminals; _represent puts them into double quotes.
    return "\n".join(map(printable_sentence, text.split("\n")))


class _Loader(yaml.SafeLoader):
    """A loader of YAML with the core schema only, whose keys must be unique strings."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own shape)
    yaml_constructors = {None: yaml.SafeLoader.construct_undefined}  # noqa: RUF012

    _size = 0

    def compose_node(self, *place: Any) -> Any:
        is_alias = self.check_event(yaml.AliasEvent)
        before = self._size
        node: Any = super().compose_node(*place)
        # an alias counts as what it stands for; within that, it is endless
        self._size += vars(node).get("size", _MAX_SIZE) if is_alias else 1 + len(node.value)
        node.size = self._size - before
        if self._size > _MAX_SIZE:
            raise yaml.MarkedYAMLError(problem="aliases repeat too much", problem_mark=node.start_mark)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} is not text", problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"{key} is given twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_text(self, node: yaml.ScalarNode) -> str:
        text = str(self.construct_scalar(node))
        if re.search("[\0\ud800-\udfff]", text):  # not allowed in file names
            problem = f"the text {text!r} has an invalid character"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return text

    def construct_bool(self, node: yaml.ScalarNode) -> bool:
        return str(node.value).lower() == "true"

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        text = str(node.value).lower()
        is_whole = re.fullmatch(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-f]+", text) is not None
        if is_whole and len(text) > _MAX_DIGITS:
            raise yaml.MarkedYAMLError(problem=f"the number {shown(text)} is too large", problem_mark=node.start_mark)
        if is_whole:
            return int(text, 0) if text.startswith(("0x", "0o")) else int(text)
        if re.fullmatch("[-+]?[0-9]+e[+]?[0-9]{1,2}", text) and abs(float(text)) < 10**_MAX_DIGITS:
            return int(float(text))  # 1e3 is a number of steps, too
        return float(text.replace(".inf", "inf").replace(".nan", "nan"))


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_NUMBER_TAG, _NUMBER, _NUMBER_STARTS),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)
for _tag, _construct in (
    ("tag:yaml.org,2002:null", _Loader.construct_yaml_null),
    ("tag:yaml.org,2002:seq", _Loader.construct_yaml_seq),
    ("tag:yaml.org,2002:map", _Loader.construct_yaml_map),
    ("tag:yaml.org,2002:str", _Loader.construct_text),
    ("tag:yaml.org,2002:bool", _Loader.construct_bool),
    (_NUMBER_TAG, _Loader.construct_number),
):
    _Loader.add_constructor(_tag, _construct)


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes strings which YAML 1.1 or 1.2 would read as another type, such as `no` and `1e5`."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if printable_sentence(text) == text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_implicit_resolver(_NUMBER_TAG, re.compile(f"^(?:{_NUMBER})$"), _NUMBER_STARTS)
_Dumper.add_representer(str, _represent)


def _one_line(error: Exception) -> str:
    """Return the message of a YAML error on one line, with the position."""
    mark = getattr(error, "problem_mark", None)
    if not isinstance(error, yaml.MarkedYAMLError) or mark is None:
        return " ".join(str(error).replace('in "<unicode string>",', "at").split())
    problem = " ".join(filter(None, (error.context, error.problem)))
    hint = "; indent with spaces" if r"'\t'" in problem else ""
    return f"{problem} at line {mark.line + 1}, column {mark.column + 1}{hint}"


_MAX_SHOWN = 60  # characters


def shown(value: object) -> str:
    """Format a value of a configuration for a message, on one short line."""
    text = "nothing" if value is None else _REPR.repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


class _Repr(reprlib.Repr):
    """A formatter of values as YAML, with a limited length because YAML anchors can expand to gigabytes."""

    def repr_dict(self, value: dict[object, object], level: int) -> str:
        if level <= 0:
            return "{...}"
        keys = [*itertools.islice(value, self.maxdict)]  # in their own order; reprlib would sort them
        items = []
        for key in keys:
            name = str(key)
            if not re.fullmatch("[A-Za-z_]{1,30}", name):
                name = self.repr1(key, level - 1)
            items.append(f"{name}: {self.repr1(value[key], level - 1)}")
        if len(value) > len(items):
            items.append("...")
        return f"{{{', '.join(items)}}}"

    def repr_bool(self, value: bool, _: int) -> str:
        return str(value).lower()

    def repr_NoneType(self, *_: object) -> str:  # noqa: N802  (found by the name of the type)
        return "null"


_REPR = _Repr()
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 1000
