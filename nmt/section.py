"""The base class of the configuration's sections."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of the configuration. It is immutable and rejects unknown keys, type coercion and infinite numbers."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def raise_together(problems: list[str]) -> None:
    """Raise ValueError with one problem per line if there are any."""
    if problems:
        raise ValueError("\n".join(problems))
