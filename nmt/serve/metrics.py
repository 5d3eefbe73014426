"""Metrics in the text format of Prometheus. No label tells one client from another, and none holds text of a client."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
PIECES = (16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0)

Labels = tuple[tuple[str, str], ...]


class Counter:
    """A number that only grows, for each combination of labels."""

    kind = "counter"

    def __init__(self) -> None:
        self._values: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def add(self, n: float = 1, **labels: str) -> None:
        """Add `n`."""
        key = tuple(labels.items())
        with self._lock:
            self._values[key] = self._values.get(key, 0) + n

    def lines(self, name: str) -> Iterator[str]:
        """Yield the samples."""
        with self._lock:
            values = sorted(self._values.items())
        for labels, value in values:
            yield _sample(name, labels, value)


class Histogram:
    """How often values fell into ranges, for each combination of labels."""

    kind = "histogram"

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """bounds: the upper ends of the ranges."""
        self._bounds = bounds
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def observe(self, value: float, **labels: str) -> None:
        """Count a value."""
        key = tuple(labels.items())
        with self._lock:
            counts = self._counts.setdefault(key, [0] * (len(self._bounds) + 1))
            counts[bisect_left(self._bounds, value)] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

    def lines(self, name: str) -> Iterator[str]:
        """Yield the samples."""
        with self._lock:
            entries = [(labels, [*counts], self._sums[labels]) for labels, counts in sorted(self._counts.items())]
        for labels, counts, total in entries:
            n = 0
            for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
                n += count
                yield _sample(f"{name}_bucket", (*labels, ("le", bound)), n)
            yield _sample(f"{name}_sum", labels, total)
            yield _sample(f"{name}_count", labels, n)


class Gauge:
    """A number as it is when it is asked for."""

    kind = "gauge"

    def __init__(self) -> None:
        self.read: Callable[[], float] = lambda: 0.0

    def lines(self, name: str) -> Iterator[str]:
        """Yield the sample."""
        yield _sample(name, (), self.read())


class Metrics:
    """All that the server counts."""

    def __init__(self) -> None:
        self.requests = Counter()
        self.seconds = Histogram(SECONDS)
        self.queue_requests, self.queue_characters = Gauge(), Gauge()
        self.queue_seconds = Histogram(SECONDS)
        self.batch_pieces = Histogram(PIECES)
        self.characters = Counter()
        self.cached = Counter()
        self.failures = Counter()
        self._all: dict[str, tuple[str, Counter | Histogram | Gauge]] = {
            "nmt_requests_total": ("Requests by endpoint and status.", self.requests),
            "nmt_request_seconds": ("Time to answer a request.", self.seconds),
            "nmt_queue_requests": ("Requests that wait or are translated.", self.queue_requests),
            "nmt_queue_characters": ("Characters that are not translated yet.", self.queue_characters),
            "nmt_queue_seconds": ("Time until the translation of a request begins.", self.queue_seconds),
            "nmt_batch_pieces": ("Source pieces that are translated together.", self.batch_pieces),
            "nmt_characters_total": ("Source characters translated, by direction.", self.characters),
            "nmt_cache_lines_total": ("Lines found in the cache, or not.", self.cached),
            "nmt_failures_total": ("Errors of the server, by exception.", self.failures),
        }

    def text(self) -> str:
        """Return the page that Prometheus reads."""
        lines = []
        for name, (meaning, metric) in self._all.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {metric.kind}", *metric.lines(name)]
        return "\n".join(lines) + "\n"


def _sample(name: str, labels: Labels, value: float) -> str:
    inner = ",".join(f'{key}="{text}"' for key, text in labels)
    number = str(int(value)) if value == int(value) else repr(value)
    return f"{name}{{{inner}}} {number}" if inner else f"{name} {number}"
