"""Tests of nmt.runs.kinds."""

from __future__ import annotations

from typing import get_args

import pytest

from nmt.runs.kinds import KINDS, Kind, Quantization


def test_all_kinds_are_listed() -> None:
    assert [*KINDS] == [*get_args(Kind)]
    for kind in KINDS.values():
        assert {*kind.quantizations} <= {*get_args(Quantization)} and bool(kind.quantizations) == bool(kind.check_lines)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("folder", "translate with nmt translate --model hf://me/x"),
        ("ctranslate2", "translate with nmt translate --model hf://me/x --engine ctranslate2"),
        ("transformers", 'load it with AutoModelForSeq2SeqLM.from_pretrained("me/x") of transformers'),
        ("onnx", 'load it with MarianMTModel.from_pretrained("me/x") of transformers.js'),
    ],
)
def test_use_from_hub_names_what_loads_a_kind(kind: Kind, expected: str) -> None:
    assert KINDS[kind].is_on_hub and KINDS[kind].from_hub("me/x") == expected
