"""Tests of the metrics of the server."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from nmt.serve.metrics import Metrics
from places import ROOT


def test_metrics_have_documented_names() -> None:
    metrics = Metrics()
    metrics.requests.labels("/translate", 503).inc(2)
    for seconds in (0.005, 0.007, 99.0):
        metrics.seconds.labels("/x").observe(seconds)
    metrics.queue_requests.set_function(lambda: 7)
    lines = metrics.text().splitlines()
    for line in (
        'nmt_requests_total{endpoint="/translate",status="503"} 2.0',
        "nmt_queue_requests 7.0",
        'nmt_request_seconds_bucket{endpoint="/x",le="0.005"} 1.0',
        'nmt_request_seconds_bucket{endpoint="/x",le="0.01"} 2.0',
        'nmt_request_seconds_bucket{endpoint="/x",le="+Inf"} 3.0',
        'nmt_request_seconds_count{endpoint="/x"} 3.0',
    ):
        assert line in lines
    families = {family.name: family.type for family in text_string_to_metric_families(metrics.text())}
    documented = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8").split("| metric |", 1)[1]
    assert {name.removesuffix("_total") for name in re.findall(r"`(nmt_\w+)`", documented)} == {*families}
    assert not any("_created" in line for line in lines)
