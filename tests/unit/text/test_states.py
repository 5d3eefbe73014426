"""Tests of the table of states of translations."""

from __future__ import annotations

import pytest

from nmt.text.states import FINAL, FLAWED, MACHINE, UNCONFIRMED, UNTRANSLATED, state_of

UNTRANSLATED_STATES = [
    ("state", "new"), ("state", "Needs-Translation"), ("{urn:x}state", "initial"), ("conf", "Unspecified"),
    ("status", "NotStarted"), ("x-segment-status", "untranslated"), ("status", " not translated "),
]  # fmt: skip
UNCONFIRMED_STATES = [
    ("translate", "no"), ("state", "needs-review-translation"), ("state-qualifier", "mt-suggestion"),
    ("state-qualifier", "leveraged-mt"), ("conf", "Draft"), ("conf", "RejectedSignOff"), ("status", "PartiallyEdited"),
    ("confirmed", "0"), ("x-mateCAT-status", "pre-translated"), ("subState", "nmt:mt"),
]  # fmt: skip
FINAL_STATES = [
    ("state", "final"), ("state", "signed-off"), ("approved", "yes"), ("conf", "ApprovedSignOff"), ("confirmed", "1"),
    ("status", "ManuallyConfirmed"), ("locked", "locked"), ("locked", "true"),
]  # fmt: skip
OTHER_STATES = [
    ("state", "translated"), ("state-qualifier", "exact-match"), ("id", "new"), ("approved", "no"), ("locked", "false"),
    ("locked", "no"), ("subState", "x:new"), ("note", "draft"), ("conf", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("states", "kinds"),
    [
        (UNTRANSLATED_STATES, {UNTRANSLATED, UNCONFIRMED}), (UNCONFIRMED_STATES, {UNCONFIRMED}),
        (FINAL_STATES, {FINAL}), (OTHER_STATES, set()),
    ],
)  # fmt: skip
def test_states_are_of_their_kinds(states: list[tuple[str, str]], kinds: set[str]) -> None:
    for state in states:
        assert {kind for kind in (UNTRANSLATED, UNCONFIRMED, FINAL) if state_of([state], kind)} == kinds, state
    assert not kinds or state_of([("id", "1"), *states], min(kinds)) == state_of(states[:1], min(kinds)) != ""


@pytest.mark.parametrize("written", [*MACHINE.values(), FLAWED])
def test_machine_translation_is_unconfirmed_and_not_final(written: dict[str, str]) -> None:
    assert state_of(written.items(), UNCONFIRMED) and (written is FLAWED or not state_of(written.items(), FINAL))
    assert written is FLAWED or not state_of(written.items(), UNTRANSLATED)
