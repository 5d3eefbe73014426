"""A bounded cache: what was used longest ago goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Cache(Generic[Value]):
    """A mapping that forgets. For use in one thread."""

    def __init__(self, most: int) -> None:
        """most: the sum of the sizes of all entries; 0 keeps nothing."""
        self._most, self._size = most, 0
        self._entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Value | None:
        """Return an entry, which is then the last to be forgotten, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        """Add an entry. One that is larger than a tenth of the cache is not kept."""
        if size * 10 > self._most:
            return
        self._size += size - self._entries.pop(key, (value, 0))[1]
        self._entries[key] = value, size
        while self._size > self._most:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._size -= dropped
