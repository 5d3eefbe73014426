"""What every section of the configuration is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section: frozen, unknown keys refused, numbers finite, `"4"` is not 4."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def raise_together(problems: list[str]) -> None:
    """Raise ValueError with every problem in a line of its own, if there are any."""
    if problems:
        raise ValueError("\n".join(problems))
