"""The keys, values, defaults and meanings of all settings, for `nmt config --explain` and docs/settings.md.

In these texts, as in docstrings, what is between backticks is code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from nmt.config import Config
from nmt.data.sources import Columns, Files, Hub, Languages, Opus, Paths, Source, TeacherRecord, TrainSource
from nmt.prepare.cleaning.settings import CleanConfig, CorpusClean
from nmt.training.facts import OBJECTIVE_SECTIONS
from nmt.training.settings import Stage


class Setting(NamedTuple):
    """A setting, described."""

    key: str
    """Its dotted key; only its name in a source or a stage, which have no place of their own."""
    values: str
    default: str
    meaning: str


class SettingsTable(NamedTuple):
    """A section whose settings are described together."""

    section: type[BaseModel]
    prefix: str = ""
    """The key of the section, if its settings have full keys."""
    base: type[BaseModel] | None = None
    """A section whose settings are described before, so that they are left out."""

    def settings(self, linked: Callable[[str], str] = str) -> Iterator[Setting]:
        """Yield the settings. `linked` changes the names of other sections in their values."""
        schema = self.section.model_json_schema()
        for name, field in self.section.model_fields.items():
            if self.base is None or name not in self.base.model_fields:
                key = f"{self.prefix}.{name}" if self.prefix else name
                of_field = schema["properties"][name]
                values = _values(of_field, schema.get("$defs", {}), linked)
                yield Setting(key, values, _default(of_field), " ".join((field.description or "").split()))


def tables() -> Iterator[SettingsTable]:
    """Yield the tables of settings, in the order of the page."""
    for name, field in Config.model_fields.items():
        assert isinstance(field.annotation, type)
        yield SettingsTable(field.annotation, name)
        if name == "data":
            for kind in (Files, Paths, Opus, Hub, Columns, Languages, Source):
                yield SettingsTable(kind)
            yield SettingsTable(TrainSource, base=Source)
            yield SettingsTable(CleanConfig, "data.clean")
            yield SettingsTable(CorpusClean, "clean", CleanConfig)
            yield SettingsTable(TeacherRecord, "teacher")
        if name == "training":
            for objective, section in OBJECTIVE_SECTIONS.items():
                yield SettingsTable(section, f"training.{objective}")
            yield SettingsTable(Stage)


def _default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema:
        return "required"
    match schema["default"]:
        case None | bool() as value:
            return f"`{json.dumps(value)}`"
        case dict():
            return "`{}`"
        case "":
            return "none"
        case value:
            return f"`{value}`"


_WORDS = {"integer": "integer", "number": "number", "boolean": "`true`, `false`", "null": "`null`", "string": "text"}
_SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_SECTIONS = {
    "Stage": "a stage",
    "CleanConfig": "cleaning",
    "CorpusClean": "cleaning",
    "TeacherRecord": "teacher",
    **{section.__name__: name for name, section in OBJECTIVE_SECTIONS.items()},
}
"""The names of sections that are values of settings, besides sources."""


def _values(schema: Mapping[str, Any], definitions: Mapping[str, Any], linked: Callable[[str], str]) -> str:
    """Describe the values that a JSON schema allows."""
    if "$ref" in schema:
        section = schema["$ref"].rpartition("/")[2]
        schema = definitions[section]
        if schema.get("type") == "object":
            return linked(_SECTIONS.get(section, "a source"))
    for options in (schema.get("anyOf"), schema.get("oneOf")):
        if options:
            return " or ".join(dict.fromkeys(_values(option, definitions, linked) for option in options))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    match schema["type"]:
        case "array":
            return f"list of {_values(schema.get('items', {}), definitions, linked)}"
        case "object":
            return f"mapping to {_values(schema.get('additionalProperties', {}), definitions, linked)}"
        case kind:
            bounds = []
            for key, sign in _SIGNS.items():
                if key in schema:
                    number = float(schema[key])
                    bounds.append(f"{sign} {number:,.0f}" if number.is_integer() else f"{sign} {number}")
            return f"{_WORDS[kind]} {', '.join(bounds)}".rstrip()
