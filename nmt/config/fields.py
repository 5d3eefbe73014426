"""The settings by their dotted keys."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from nmt.config import Config, Section


def field_paths(section: type[Section] = Config, prefix: str = "") -> Iterator[str]:
    """Yield every dotted key of the configuration; `*` stands for a list index or a mapping key."""
    for name, field in section.model_fields.items():
        model, middle = _section_of(field.annotation)
        if model is None:
            yield f"{prefix}{name}"
        else:
            yield from field_paths(model, f"{prefix}{name}.{middle}")


def _section_of(annotation: object) -> tuple[type[Section] | None, str]:
    """Return the section contained in a type annotation (None if there is none) and the wildcards that lead to it."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation, ""
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return _section_of(get_args(annotation)[0])
    if get_origin(annotation) in (list, dict):
        model, middle = _section_of(get_args(annotation)[-1])
        return model, f"*.{middle}"
    return None, ""
