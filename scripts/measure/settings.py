"""Print the number of settings of the `nmt` that Python finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel

from nmt.config import Config


def sections(kind: type[BaseModel]) -> set[type[BaseModel]]:
    inner = {one for field in kind.model_fields.values() for one in classes(field.annotation)}
    return {kind}.union(*(sections(one) for one in inner if issubclass(one, BaseModel)))


def classes(annotation: object) -> Iterator[type]:
    """The classes in a type."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from classes(inner)


def main() -> None:
    settings = {name for section in sections(Config) for name in section.model_fields}
    print(f"{len(settings):>8}  settings (distinct names)")


if __name__ == "__main__":
    main()
