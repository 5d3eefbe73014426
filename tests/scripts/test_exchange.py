"""The measurement of the exchange: what it needs, and its table."""

from __future__ import annotations

from scripts.measure import exchange


def test_table_compares_updates_of_the_same_round() -> None:
    costs = {
        (300, "float32"): [10.0, 20.0, 40.0],
        (300, "bf16"): [8.0, 15.0, 36.0],
    }
    *_, first, second = exchange.table(costs, {300: 290.4}).splitlines()
    assert first == "| 300 (290) | float32 | 20.00 (15.00–30.00) |  |"
    assert second == "| 300 (290) | bf16 | 15.00 (11.50–25.50) | 20 (15–22) % |"
