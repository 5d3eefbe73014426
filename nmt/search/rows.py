"""Tensors of a search that share their first dimension."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from torch import Tensor

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

State = TypeVar("State", bound="DataclassInstance")


def keep_rows(state: State, rows: Tensor | slice) -> State:
    """Return a copy of a dataclass of tensors (R, ...) with only `rows` (R',) of each: (R', ...)."""
    return type(state)(*(getattr(state, field.name)[rows] for field in fields(state)))
