"""A bounded cache: what was used longest ago goes first."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from nmt.serve.models import Candidate

Value = TypeVar("Value")

ENTRY, CANDIDATE, PAIR = 512, 160, 320
"""Bytes that an entry, a translation and a pair of aligned words take beside their texts."""


class Cache(Generic[Value]):
    """A mapping that forgets. Several threads may use it."""

    def __init__(self, most: int) -> None:
        """most: the sum of the sizes of all entries; 0 keeps nothing."""
        self._most, self._size = most, 0
        self._entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Value | None:
        """Return an entry, which is then the last to be forgotten, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        """Add an entry; `size` is that of the key and the value. One larger than a tenth of the cache is not kept."""
        if size * 10 > self._most:
            return
        with self._lock:
            self._size += size - self._entries.pop(key, (value, 0))[1]
            self._entries[key] = value, size
            while self._size > self._most:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._size -= dropped


def memory(key: Sequence[object], candidates: Sequence[Candidate]) -> int:
    """Return the bytes of memory that an entry with a line's translations takes, rather too many than too few."""
    of_translations = sum(
        CANDIDATE + sys.getsizeof(candidate.text) + PAIR * len(candidate.alignment or ()) for candidate in candidates
    )
    return ENTRY + sum(map(sys.getsizeof, key)) + of_translations
