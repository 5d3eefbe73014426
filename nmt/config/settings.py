"""What is known of each setting: its values and default, the shipped configs that change it, and measurements.

`nmt config --explain` prints it, and docs/settings.md has a table of all settings.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from nmt.config import Config
from nmt.config.load import read_tree, shipped_configs
from nmt.config.messages import nearest, sections_of
from nmt.config.objectives import OBJECTIVE_SECTIONS
from nmt.config.section import Section
from nmt.config.yaml12 import parse_yaml
from nmt.errors import ConfigError

MAY_CHANGE = {
    "training.max_steps", "training.max_minutes", "training.max_epochs", "training.patience",
    "training.log_every_steps", "training.validate_every_steps", "training.save_every_steps", "training.keep_last",
    "training.average_last", "training.max_tokens", "training.planned_steps", "training.device", "training.parallel",
    "training.compile", "training.run_dir", "training.watch", "training.report_to", "search.batch_tokens", "data.dir",
    "data.root",
}  # fmt: skip
"""Settings that may change when a run is resumed: for its end, checkpoints, logs and memory."""

USED_BY = {
    "data": "nmt prepare and nmt train",
    "tokenizer": "nmt prepare",
    "model": "nmt train",
    "training": "nmt train",
    "search": "every command that translates, where --set changes it, and the validations of nmt train",
}
"""The commands that use the settings of each section."""

KNOWN = Path(__file__).with_name("known.yaml")
"""What was measured about settings: dotted key -> text."""
_WIDTH = 100


def explain(key: str) -> list[str]:
    """Return the lines that explain a setting, or list those of a section.

    key: dotted, or only its last part if no other setting ends with it. Raises ConfigError if there is none.
    """
    path, section, name = _find(key)
    field = section.model_fields[name]
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
        lines = [*_wrapped(f"{path}: {field.annotation.__doc__}"), ""]
        for inner, of_section in field.annotation.model_fields.items():
            sentence = re.split(r"(?<=\.) ", " ".join((of_section.description or "").split()))[0]
            lines += _wrapped(f"{path}.{inner} ({_plain_text(default(of_section.default))}): {sentence}", "    ")
        return lines
    preset = _plain_text(default(field.default))
    if not field.is_required():
        preset = f"default: {preset}"
    lines = [f"{path}: {_plain_text(values(section, name))}; {preset}", ""]
    lines += _wrapped(field.description or "")
    shown = re.sub(r"\.\*", "", path)
    top = shown.partition(".")[0]
    used = f"Used by {USED_BY[top]}."
    if top in ("training", "model"):
        used += f" It {'may' if shown in MAY_CHANGE else 'cannot'} change when a run is resumed."
    lines += ["", *_wrapped(used)]
    if shipped := [*_shipped(shown)]:
        lines += _wrapped(f"Shipped configs: {'; '.join(shipped)}.")
    if (text := known().get(shown)) is not None:
        lines += ["", *_wrapped(f"Measured: {text}")]
    return lines


@cache
def known() -> Mapping[str, str]:
    """Return what was measured about settings."""
    notes = parse_yaml(KNOWN.read_text(encoding="utf-8"), str(KNOWN))
    assert isinstance(notes, dict)
    return notes


def _find(key: str) -> tuple[str, type[Section], str]:
    """Return the path of a setting, the section that has it, and its name there. Raises ConfigError."""
    wanted = re.sub(r"\.(\*|\d+)(?=\.|$)", "", key)
    settings: dict[str, tuple[str, type[Section], str]] = {}
    for path, section, name in _settings(Config, ""):
        settings.setdefault(path.replace(".*", ""), (path, section, name))
    if wanted in settings:
        return settings[wanted]
    alike = [path for path in settings if path.endswith(f".{wanted}") and not path.startswith("training.stages.")]
    if len(alike) == 1:
        return settings[alike[0]]
    advice = f"; write {' or '.join(alike)}" if alike else nearest(key) or "; nmt config prints all settings"
    raise ConfigError(f"--explain {key}: no such setting{advice}")


def _settings(section: type[Section], prefix: str) -> Iterator[tuple[str, type[Section], str]]:
    """Yield the path of every setting, the section that has it, and its name there."""
    for name, field in section.model_fields.items():
        path = f"{prefix}{name}"
        yield path, section, name
        models, middle = sections_of(field.annotation)
        for model in models:
            yield from _settings(model, f"{path}.{middle}")


def _shipped(key: str) -> Iterator[str]:
    """Yield the values of a setting in the shipped configs, with their names."""
    names: dict[str, list[str]] = {}
    for path in sorted(shipped_configs().glob("*.yaml")):
        node: Any = read_tree(path)[1]
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        if node is not None and not isinstance(node, (dict, list)):
            names.setdefault(_plain_text(default(node)), []).append(path.name)
    for value, configs in names.items():
        yield f"{value} in {', '.join(configs)}"


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Return the lines of a text, all but the first indented."""
    text = " ".join(text.split())
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _plain_text(markdown: str) -> str:
    """Return a text without the marks of code and links."""
    return re.sub(r"\[([^\]]*)\]\(#[^)]*\)", r"\1", markdown).replace("`", "")


# --- values and defaults, in Markdown -----------------------------------------------------------


def default(value: Any) -> str:
    """Return the default of a setting."""
    if value is PydanticUndefined:
        return "required"
    match value:
        case None:
            return "`null`"
        case bool():
            return f"`{str(value).lower()}`"
        case dict() | BaseModel():
            return "`{}`"
        case list() | tuple():
            return "`[]`" if not value else f"`{list(value)}`"
        case _:
            return f"`{value}`" if str(value) else "none"


_KINDS = ("Files", "Path", "Opus", "Hub")
_SECTIONS = {
    **{name.format(kind): "[a source](#a-source)" for name in ("Train{}", "{}Source") for kind in _KINDS},
    "Stage": "[a stage](#a-stage)",
    **{section.__name__: f"[{name}](#{name})" for name, section in OBJECTIVE_SECTIONS.items()},
}


def values(section: type[BaseModel], name: str) -> str:
    """Describe the values that a setting of a section may have."""
    schema = section.model_json_schema()
    return _described(schema["properties"][name], schema.get("$defs", {}))


def _described(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Describe the values that a JSON schema allows."""
    if "$ref" in schema:
        section = schema["$ref"].rpartition("/")[2]
        schema = definitions[section]
        if schema.get("type") == "object":
            return _SECTIONS.get(section, "[cleaning](#cleaning)")
    for options in (schema.get("anyOf"), schema.get("oneOf")):
        if options:
            return " or ".join(dict.fromkeys(_described(option, definitions) for option in options))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of {_described(schema.get('items', {}), definitions)}"
        case "object":
            return f"mapping to {_described(schema.get('additionalProperties', {}), definitions)}"
        case "integer":
            return _bounded("integer", schema)
        case "number":
            return _bounded("number", schema)
        case "boolean":
            return "`true`, `false`"
        case "null":
            return "`null`"
        case "string":
            return "text"
        case other:
            raise ValueError(f"unknown type {other} in {schema}")


def _bounded(word: str, schema: Mapping[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {_number(schema[key])}" for key, sign in signs.items() if key in schema]
    return f"{word} {', '.join(bounds)}" if bounds else word


def _number(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else str(number)
