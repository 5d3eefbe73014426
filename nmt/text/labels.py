"""The labels of a corpus for classification."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from nmt.errors import DataError
from nmt.files.document import Document, read_document
from nmt.files.write import write_file
from nmt.text.fingerprint import fingerprint_of

MOST_LABELS = 1000
"""Maximum number of labels; a corpus with more is taken for text."""


class _File(Document):
    labels: list[str]


class Labels:
    """A set of labels, sorted, with ids from 0 to len - 1."""

    as_read = str

    def __init__(self, names: Iterable[str]) -> None:
        """`names`: the labels, in any order. Raises DataError if there are fewer than two, or too many."""
        self.names = sorted(set(names))
        if len(self.names) > MOST_LABELS:
            some = ", ".join(repr(name[:40]) for name in self.names[:3])
            raise DataError(
                f"{len(self.names):,} different labels, such as {some}, but at most {MOST_LABELS:,} are possible: "
                "this looks like text; use the language code label only for the file or column of classes"
            )
        if len(self.names) < 2:
            found = f"only the label {self.names[0]!r}" if self.names else "no label"
            raise DataError(f"{found}, but at least two are needed")
        self._ids = {name: i for i, name in enumerate(self.names)}
        self.fingerprint = fingerprint_of("\n".join(self.names).encode())

    def __len__(self) -> int:
        """Return the number of labels."""
        return len(self.names)

    def __contains__(self, label: str) -> bool:
        return label.strip() in self._ids

    def id_of(self, label: str) -> int:
        """Return the id of a label; white space around the label is ignored. Raises DataError for an unknown label."""
        found = self._ids.get(label.strip())
        if found is None:
            raise DataError(f"label {label.strip()[:40]!r} is not in the training text, which has {self.shown()}")
        return found

    def shown(self) -> str:
        """Return the first labels as text for a message."""
        more = f" and {len(self) - 10:,} more" if len(self) > 10 else ""
        return ", ".join(name[:40] for name in self.names[:10]) + more

    def save(self, path: Path) -> None:
        """Write the labels as JSON. Raises OSError."""
        write_file(path, (json.dumps({"labels": self.names}, ensure_ascii=False, indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Labels:
        """Read labels that `save` wrote. Raises DataError if the file is missing or damaged."""
        names = read_document(path, _File, DataError, missing=f"{path}: the labels are missing").labels
        try:
            labels = cls(names)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        if names != labels.names:
            raise DataError(f"{path}: damaged: the labels must be sorted and distinct")
        return labels
