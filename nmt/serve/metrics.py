"""Metrics for Prometheus, whose labels contain neither texts nor clients."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
PIECES = (16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0)


class Metrics:
    """The metrics of a server, in a separate registry."""

    def __init__(self) -> None:
        disable_created_metrics()  # saves a time series for each counter and histogram
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "nmt_requests", "Requests by endpoint and status.", ["endpoint", "status"], registry=registry
        )
        self.seconds = Histogram(
            "nmt_request_seconds", "Time to answer a request.", ["endpoint"], buckets=SECONDS, registry=registry
        )
        self.queue_requests = Gauge("nmt_queue_requests", "Requests waiting or being translated.", registry=registry)
        self.queue_characters = Gauge(
            "nmt_queue_characters", "Characters that are not translated yet.", registry=registry
        )
        self.queue_seconds = Histogram(
            "nmt_queue_seconds", "Time until the translation of a request starts.", buckets=SECONDS, registry=registry
        )
        self.batch_pieces = Histogram(
            "nmt_batch_pieces", "Source pieces translated together.", buckets=PIECES, registry=registry
        )
        self.characters = Counter(
            "nmt_characters", "Source characters translated, by direction.", ["direction"], registry=registry
        )
        self.cached = Counter("nmt_cache_lines", "Lines, by whether the cache had them.", ["found"], registry=registry)
        self.failures = Counter("nmt_failures", "Server errors, by exception.", ["exception"], registry=registry)

    def text(self) -> str:
        """Return the metrics in Prometheus' text format, version 0.0.4."""
        return generate_latest(self._registry).decode()
