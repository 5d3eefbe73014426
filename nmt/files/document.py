"""JSON documents of bounded size that are validated against a pydantic model.

A sealed document contains a checksum of its own content, which reveals any change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt.errors import NmtError
from nmt.files.read import read_text


class Document(BaseModel):
    """The content of a JSON file: immutable and validated without type conversion; unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, use_attribute_docstrings=True)


class Sealed(Document):
    """A document that contains a checksum of its own content, as written by `sealed_text`."""

    format: int
    seal: str


M = TypeVar("M", bound=BaseModel)


def read_document(
    path: Path,
    model: type[M],
    error: type[NmtError],
    advice: str = "",
    formats: Sequence[int] = (),
    missing: str | None = None,
) -> M:
    """Read a JSON file and validate it as a `model`.

    Args:
        error: the type of error to raise.
        advice: the end of each message, which says what to do about a damaged document, such as "; remove it".
        formats: the supported values of the key `format`, the current one last; empty: any value.
        missing: the message of `error` if there is no such file; None: FileNotFoundError is raised.

    Raises FileNotFoundError, `error` if the file cannot be read, is damaged or has another format, and UnsafeFileError
    if it is too large or not a regular file.
    """
    try:
        content = json.loads(read_text(path))
        if not isinstance(content, dict):
            raise ValueError("not a JSON object")
        is_whole = not issubclass(model, Sealed) or content.get("seal") == _digest(content)
    except FileNotFoundError:
        if missing is None:
            raise
        raise error(missing) from None
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror}", advice=advice) from problem
    except (ValueError, RecursionError) as problem:
        raise error(f"{path}: damaged: {problem}", advice=advice) from problem
    if formats and "format" in content and content["format"] not in formats:
        written = content["format"]
        raise error(f"{path}: written in format {written}, but this version of nmt reads {formats[-1]}", advice=advice)
    if not is_whole:
        raise error(f"{path}: damaged: its checksum does not match", advice=advice)
    try:
        return model.model_validate(content)
    except ValidationError as problem:
        raise error(f"{path}: damaged: {_problem(problem)}", advice=advice) from None


def _problem(error: ValidationError) -> str:
    """Describe the missing keys, or the first key with an invalid value."""
    problems = error.errors()
    lacking = []
    for details in problems:
        key = details["loc"]
        if details["type"] == "missing" and not isinstance(key[-1], int):
            lacking.append(".".join(map(str, key)))
    if lacking:
        return f"it lacks {', '.join(sorted(lacking))}"
    invalid = ".".join(map(str, problems[0]["loc"]))
    return f"{invalid} has an invalid value"


def document_text(document: BaseModel) -> str:
    """Return a document as JSON, with only the keys that were set when it was created."""
    return json.dumps(document.model_dump(exclude_unset=True), indent=1) + "\n"


def sealed_text(content: Mapping[str, object]) -> str:
    """Return `content` as JSON, with a checksum under the key `seal`."""
    return json.dumps({**content, "seal": _digest(content)}, indent=1) + "\n"


def _digest(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of the content without its seal, in hexadecimal."""
    unsealed = {key: value for key, value in content.items() if key != "seal"}
    return hashlib.sha256(json.dumps(unsealed, sort_keys=True).encode()).hexdigest()
