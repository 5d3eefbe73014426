"""Tests of the limits that requests share."""

from __future__ import annotations

import pytest

from nmt.serve.limits import Refusal, Room, check_size
from nmt.serve.settings import Limits


def test_reservations_are_limited_per_client() -> None:
    room = Room(10)
    assert room.take("a", 9) and not room.take("a")
    assert room.take("b") and not room.take("c")
    room.give_back("a", 9)
    assert room.take("c", 9) and Room(1).take("a")


def test_limits_apply_to_all_texts_together() -> None:
    limits = Limits(characters=10, items=2)
    check_size(["12345", "67890"], limits)
    for texts, said in ((["123456", "67890"], "11"), (["", "", ""], "3")):
        with pytest.raises(Refusal, match=said) as refused:
            check_size(texts, limits)
        assert refused.value.status_code == 400
