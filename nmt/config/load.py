"""Reading and writing configurations: YAML, `--set` overrides, and every problem at once.

YAML is read by the 1.2 core rules, so the language code `no` is a string and `3e-4` a number. A config name means
that path, else `configs/NAME`, else the copy inside the package.
"""

from __future__ import annotations

import re
import reprlib
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nmt.config import Config, Section, Source
from nmt.config.data import LINES, SHARE, SOURCE
from nmt.config.foreign import did_you_mean, misspelt, note_on, of_the_same_words, plain, settings_meant
from nmt.console import printable, printable_sentence
from nmt.errors import ConfigError
from nmt.files.read import CONFIG_BYTES, read_regular


class _Loader(yaml.SafeLoader):
    """YAML by the 1.2 core schema, without the tags beyond it; a key given twice is refused."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own shape)
    yaml_constructors = {None: yaml.SafeLoader.construct_undefined}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} is not a word", problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"{key} is given twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_text(self, node: yaml.ScalarNode) -> str:
        text = str(self.construct_scalar(node))
        if re.search("[\0\ud800-\udfff]", text):  # which no file can be named after
            raise yaml.MarkedYAMLError(
                problem=f"the text {text!r} has a character that is none", problem_mark=node.start_mark
            )
        return text

    def construct_bool(self, node: yaml.ScalarNode) -> bool:
        return str(node.value).lower() == "true"

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        text = str(node.value).lower()
        is_whole = re.fullmatch(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-f]+", text) is not None
        if is_whole and len(text) > 18:  # no setting can be that large, and no calculation is ready for it
            raise yaml.MarkedYAMLError(problem=f"the number {_shown(text)} is too large", problem_mark=node.start_mark)
        if is_whole:
            return int(text, 0) if text.startswith(("0x", "0o")) else int(text)
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
for _tag, _construct in (
    ("tag:yaml.org,2002:null", _Loader.construct_yaml_null),
    ("tag:yaml.org,2002:seq", _Loader.construct_yaml_seq),
    ("tag:yaml.org,2002:map", _Loader.construct_yaml_map),
    ("tag:yaml.org,2002:str", _Loader.construct_text),
    ("tag:yaml.org,2002:bool", _Loader.construct_bool),
    ("tag:nmt,number", _Loader.construct_number),
):
    _Loader.add_constructor(_tag, _construct)


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.1 or 1.2 would read as something else than text: `no` as well as `1e5`."""


_Dumper.add_implicit_resolver("tag:nmt,number", re.compile(f"^(?:{_NUMBER})$"), list("-+.0123456789"))
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if printable_sentence(text) == text else '"'
    ),
)


def load_config(name: str | Path = "base.yaml", overrides: Sequence[str] = ()) -> Config:
    """Read the config `name`, apply `overrides` (`section.key=value`) and check everything.

    Raises ConfigError with one line per problem: the file or the override, the dotted key, what was found, the
    nearest valid key.
    """
    where, text = _find(name)
    tree = _parse(text, where)
    if not isinstance(tree, dict):
        found = "nothing" if tree is None else "a list" if isinstance(tree, list) else _shown(tree)
        raise ConfigError([f"{where}: a config is a mapping of sections, found {found}"])
    return _changed(tree, where, overrides)


def changed_config(config: Config, overrides: Sequence[str]) -> Config:
    """`config` with `overrides` (`section.key=value`). Raises ConfigError."""
    return _changed(config.model_dump(), "config", overrides)


def _changed(tree: dict[str, Any], where: str, overrides: Sequence[str]) -> Config:
    problems = []
    for override in overrides:
        try:
            _apply(tree, override)
        except ConfigError as error:
            problems += error.problems
    try:
        config = check_config(tree, where, overrides)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError([printable(problem) for problem in problems])
    return config


def check_config(tree: dict[str, Any], where: str, overrides: Sequence[str] = ()) -> Config:
    """Turn a tree of plain values into a Config; `where` names its file in messages, `overrides` what was changed
    in it. Raises ConfigError."""
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        problems = [line for details in error.errors() for line in _describe(details)]
        raise ConfigError([_located(problem, where, overrides) for problem in problems]) from error


def _located(problem: str, where: str, overrides: Sequence[str]) -> str:
    """`problem`, which begins with its key, with the place it came from: an override or the file."""
    keys = [override.partition("=")[0] for override in overrides]
    overridden = any(problem.startswith((f"{key}:", f"{key}.")) for key in keys)
    return f"--set {problem}" if overridden else f"{where}: {problem}"


def dump_config(config: Config, comments: bool = False) -> str:
    """The whole configuration as YAML that `load_config` reads back; with `comments`, each field's description."""
    tree = config.model_dump(mode="json")
    # of a source only what is given: most of its fields are about the other kind of source
    tree["data"] |= config.data.model_dump(mode="json", include={"train", "valid", "test"}, exclude_defaults=True)
    tree["data"].setdefault("test", {})
    if not comments:
        return _dump(tree)
    lines = []
    for section, values in tree.items():
        model = type(getattr(config, section))
        lines += [f"# {line}" for line in _wrapped(model.__doc__)] + [f"{section}:"]
        for key, value in values.items():
            lines += [f"  # {line}" for line in _wrapped(model.model_fields[key].description)]
            if key == "train":
                for name, field in Source.model_fields.items():
                    lines += [f"  #   {line}" for line in _wrapped(f"{name}: {field.description}")]
            lines += [f"  {line}" for line in _dump({key: value}).rstrip("\n").split("\n")]
        lines.append("")
    return "\n".join(lines)


def _dump(tree: dict[str, Any]) -> str:
    text = str(yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))
    # PyYAML escapes all but some that steer a terminal; those stand within double quotes, see _Dumper
    return "\n".join(map(printable_sentence, text.split("\n")))


def _wrapped(text: str | None) -> list[str]:
    return textwrap.wrap(" ".join((text or "").split()), width=100, break_on_hyphens=False)


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
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return _section_of(get_args(annotation)[0])
    if get_origin(annotation) in (list, dict):
        model, middle = _section_of(get_args(annotation)[-1])
        return model, f"*.{middle}"
    return None, ""


def shipped_configs() -> Path:
    """The directory of the configs that come with nmt."""
    package = Path(__file__).parent.parent
    # an installed package holds them; in a checkout they stand beside it
    return next(path for path in (package / "configs", package.parent / "configs") if path.is_dir())


def _find(name: str | Path) -> tuple[str, str]:
    shipped = shipped_configs()
    if str(name) and Path(name).is_dir():
        raise ConfigError([f"{name}: a directory, where a config file is needed"])
    for path in (Path(name), Path("configs") / name, shipped / name):
        if path.exists() and not path.is_dir():
            try:
                return str(path), read_regular(path, CONFIG_BYTES).decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise ConfigError([f"{path}: not UTF-8 at byte {error.start + 1}; save it as UTF-8 text"]) from error
            except OSError as error:
                raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    names = sorted(path.name for path in shipped.glob("*.yaml"))
    raise ConfigError([f"{name}: no such config, neither here nor in configs/; shipped are {', '.join(names)}"])


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a tag and a value that it does not suit
        raise ConfigError([printable(f"{where}: not readable as YAML: {_one_line(error)}")]) from error
    except RecursionError as error:
        raise ConfigError([f"{where}: not readable as YAML: nested too deeply"]) from error


def _apply(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not all(key.split(".")):
        raise ConfigError([f"--set {override}: write it as section.key=value"])
    value = _parse(text, f"--set {override}")
    *parents, last = key.split(".")
    node: Any = tree
    try:
        for parent in parents:
            node = node[_index(parent)] if isinstance(node, list) else node.setdefault(parent, {})
        if isinstance(node, list):
            node[_index(last)] = value
        else:
            node[last] = value
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        raise ConfigError([f"--set {override}: {key} leads to no setting"]) from error


def _index(text: str) -> int:
    """A place in a list, from 0; ValueError for anything else, such as -1."""
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError(text)
    return int(text)


def _describe(details: ErrorDetails) -> Iterator[str]:
    """The problem lines of one pydantic error."""
    parts = [str(part) for part in details["loc"] if part not in (SOURCE, LINES, SHARE)]
    if parts[-1:] == ["literal['auto']"]:  # the other half of "a number or auto", which says both
        return
    is_or_auto = parts[-1:] == ["constrained-int"]
    key = ".".join(parts[:-1] if is_or_auto else parts)
    match details["type"]:
        case "extra_forbidden" if re.fullmatch(r"data\.train\.\d+\.weight", key):
            yield (
                f"{key}: no such setting; the nearest is repeat: 2, for each pair to stand in the training text twice "
                "(whole numbers; for a corpus to count less, repeat the others)"
            )
        case "extra_forbidden" if "." in str(details["loc"][-1]):
            yield f"{key}: a dotted key is for --set; in a file, nest it by indentation"
        case "extra_forbidden":
            yield f"{key}: no such setting{_nearest(key)}"
        case "missing":
            yield f"{key}: must be given"
        case "value_error":
            for problem in str(details["ctx"]["error"]).split("\n"):
                yield f"{key}{'.' if key and ':' in problem.split(' ')[0] else ': ' if key else ''}{problem}"
        case kind:
            message = _WANTED.get(kind) or details["msg"].removeprefix("Input should ")
            yield f"{key}: must {message}{' or auto' if is_or_auto else ''}, found {_shown(details['input'])}"


# pydantic's kinds of error that speak of Python rather than YAML
_WANTED = {
    "int_type": "be a whole number",
    "int_from_float": "be a whole number",
    "float_type": "be a number",
    "bool_type": "be true or false",
    "string_type": "be text",
    "list_type": "be a list",
    "dict_type": "be a mapping",
    "model_type": "be a mapping",
    "too_short": "have at least one entry",
}


_REPR = reprlib.Repr()  # not repr: a few anchors in a config can stand for more text than there is memory
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 1000


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    text = _REPR.repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _nearest(key: str) -> str:
    """`; did you mean X?` for what `key` is in other toolkits or is mistyped for, first of all in its own section."""
    section, _, name = key.rpartition(".")
    paths = [_like(path, key.split(".")) for path in field_paths()]
    own = {path.rpartition(".")[2]: path for path in paths if path.rpartition(".")[0] == section}
    if not section:
        own = {name: name for name in Config.model_fields}
    meant = settings_meant(name, section)
    if [path for path in meant if path.startswith(f"{section}.")]:
        return did_you_mean(meant)
    if found := misspelt(name, own):
        return did_you_mean([own[found[0]]])
    elsewhere = [path for path in paths if path.rpartition(".")[2] == plain(name)]
    if elsewhere or meant:
        return did_you_mean([*elsewhere, *meant])
    if note := note_on(name):
        return f"; {note}"
    last_of = {path.rpartition(".")[2]: path for path in paths}
    found = [own[each] for each in of_the_same_words(name, own)]
    return did_you_mean(found or [last_of[each] for each in misspelt(name, last_of, cutoff=0.8)])


def _like(path: str, parts: Sequence[str]) -> str:
    """`path` with each `*` replaced by what stands there in `parts`."""
    pattern = path.split(".")
    return ".".join(parts[i] if part == "*" and i < len(parts) else part for i, part in enumerate(pattern))


def _one_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if not isinstance(error, yaml.MarkedYAMLError) or mark is None:
        return " ".join(str(error).replace('in "<unicode string>",', "at").split())
    problem = " ".join(filter(None, (error.context, error.problem)))
    hint = "; indent with spaces" if r"'\t'" in problem else ""
    return f"{problem} at line {mark.line + 1}, column {mark.column + 1}{hint}"
