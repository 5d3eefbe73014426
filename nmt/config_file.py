"""Reading and writing configurations: YAML, `--set` overrides, and every problem at once.

YAML is read by the 1.2 core rules, so the language code `no` is a string and `3e-4` a number. A config name means
that path, else `configs/NAME`, else the copy inside the package.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nmt.config import Config, Section
from nmt.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """YAML by the 1.2 core schema; a key given twice is refused."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own shape)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key!r} is not a word", problem_mark=key_node.start_mark
                )
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"{key} is given twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        text = str(node.value).lower()
        if re.fullmatch(r"[-+]?[0-9]+", text):
            return int(text)
        if text.startswith(("0x", "0o")):
            return int(text, 0)
        return float(text.replace(".inf", "inf").replace(".nan", "nan"))


_NUMBER = (
    r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("tag:nmt,number", _NUMBER, list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:nmt,number", _Loader.construct_number)


def load_config(name: str | Path = "base.yaml", overrides: Sequence[str] = ()) -> Config:
    """Read the config `name`, apply `overrides` (`section.key=value`) and check everything.

    Raises ConfigError with one line per problem: the file, the dotted key, what was found, the nearest valid key.
    """
    where, text = _find(name)
    try:
        tree = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError([f"{where}: not readable as YAML: {_one_line(error)}"]) from error
    if not isinstance(tree, dict):
        raise ConfigError([f"{where}: a config is a mapping of sections, found {type(tree).__name__}"])
    for override in overrides:
        _apply(tree, override)
    return check_config(tree, where)


def check_config(tree: dict[str, Any], where: str) -> Config:
    """Turn a tree of plain values into a Config; `where` names its file in messages. Raises ConfigError."""
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        problems = [line for details in error.errors() for line in _describe(details)]
        raise ConfigError([f"{where}: {problem}" for problem in problems]) from error


def dump_config(config: Config, comments: bool = False) -> str:
    """The whole configuration as YAML that `load_config` reads back; with `comments`, each field's description."""
    tree = config.model_dump(mode="json")
    if not comments:
        return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100))
    lines = []
    for section, values in tree.items():
        model = getattr(config, section)
        lines += [f"# {(type(model).__doc__ or '').strip()}", f"{section}:"]
        for key, value in values.items():
            description = " ".join((type(model).model_fields[key].description or "").split())
            dumped = yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True, width=100).rstrip()
            lines += [f"  # {description}", *(f"  {line}" for line in dumped.split("\n"))]
        lines.append("")
    return "\n".join(lines)


def field_paths(section: type[Section] = Config, prefix: str = "") -> Iterator[str]:
    """Every dotted key of the configuration; `*` stands for a list's index or a mapping's key."""
    for name, field in section.model_fields.items():
        model, middle = _section_of(field.annotation)
        if model is None:
            yield f"{prefix}{name}"
        else:
            yield from field_paths(model, f"{prefix}{name}.{middle}")


def _section_of(annotation: Any) -> tuple[type[Section] | None, str]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation, ""
    if get_origin(annotation) in (list, dict):
        model, middle = _section_of(get_args(annotation)[-1])
        return model, f"*.{middle}"
    return None, ""


def _find(name: str | Path) -> tuple[str, str]:
    package = Path(__file__).parent
    # an installed package holds the shipped configs; in a checkout they stand beside it
    shipped = next(path for path in (package / "configs", package.parent / "configs") if path.is_dir())
    for path in (Path(name), Path("configs") / name, shipped / name):
        if path.is_file():
            try:
                return str(path), path.read_text(encoding="utf-8-sig")
            except UnicodeDecodeError as error:
                raise ConfigError([f"{path}: not UTF-8 at byte {error.start + 1}"]) from error
            except OSError as error:
                raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    names = sorted(path.name for path in shipped.glob("*.yaml"))
    raise ConfigError(
        [f"{name}: no such config, neither here nor in configs/; shipped are {', '.join(names)}"]
    )


def _apply(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError([f"--set {override}: write it as section.key=value"])
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(
            [f"--set {override}: the value is not readable as YAML: {_one_line(error)}"]
        ) from error
    *parents, last = key.split(".")
    node: Any = tree
    try:
        for parent in parents:
            node = node[int(parent)] if isinstance(node, list) else node.setdefault(parent, {})
        if isinstance(node, list):
            node[int(last)] = value
        else:
            node[last] = value
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        raise ConfigError([f"--set {override}: {key} leads to no setting"]) from error


def _describe(details: ErrorDetails) -> Iterator[str]:
    """The problem lines of one pydantic error."""
    key = ".".join(str(part) for part in details["loc"])
    match details["type"]:
        case "extra_forbidden":
            yield f"{key}: no such setting{_nearest(key)}"
        case "missing":
            yield f"{key}: must be given"
        case "value_error":
            for problem in str(details["ctx"]["error"]).split("\n"):
                yield f"{key}{'.' if key and ':' in problem.split(' ')[0] else ': ' if key else ''}{problem}"
        case _:
            message = details["msg"].removeprefix("Input ").replace("valid ", "")
            yield f"{key}: {message}, found {_shown(details['input'])}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _nearest(key: str) -> str:
    """`; did you mean X?` for the valid key nearest to `key`, preferably of its own section."""
    parts = key.split(".")
    pattern = {path: _like(path, parts) for path in field_paths()}
    siblings = [path for path in pattern.values() if path.rpartition(".")[0] == key.rpartition(".")[0]]
    last_of = {path.rpartition(".")[2]: path for path in [*pattern.values(), *siblings]}
    sections = {name: name for name in Config.model_fields} if len(parts) == 1 else {}
    for candidates in (sections, {path.rpartition(".")[2]: path for path in siblings}, last_of):
        close = difflib.get_close_matches(parts[-1], candidates, n=1, cutoff=0.6)
        if close:
            return f"; did you mean {candidates[close[0]]}?"
    return ""


def _like(path: str, parts: Sequence[str]) -> str:
    """`path` with each `*` replaced by what stands there in `parts`."""
    pattern = path.split(".")
    return ".".join(parts[i] if part == "*" and i < len(parts) else part for i, part in enumerate(pattern))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
