"""LIFT: the examples of a dictionary and their translations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from nmt.prepare.formats.units import read_tmx
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import Layout, Row, Units
from reading import error_of, read_bytes

START = '<?xml version="1.0"?>\n<lift version="0.13"><header/><entry id="a"><lexical-unit/><sense>'
END = "</sense></entry></lift>"


def read_lift(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    return read_tmx(replace(file, format="lift"), layout, units)


def example(de: str, *translations: tuple[str, str], more: str = "") -> str:
    """Return an example whose translations are given with their languages."""
    forms = "".join(f'<form lang="{tag}"><text>{text}</text></form>' for tag, text in translations)
    return (
        f'<example><form lang="de"><text>{de}</text></form>'
        f'<translation type="Free translation">{forms}</translation>{more}</example>'
    )


def test_examples_are_read_with_their_translations() -> None:
    note = '<note type="reference"><form lang="en"><text>p. 3</text></form></note>'
    examples = [
        example("Die <span lang='de'>Kuh</span> schläft.", ("en", "The cow sleeps."), ("fr", "La vache dort.")),
        example("Die Kuh frisst.", ("en-GB", "The cow eats."), more=note),
        example("Die Kuh.", ("fr", "La vache.")),
        "<example/>",
    ]
    pairs, skipped = read_bytes(read_lift, START + "".join(examples) + END)
    assert pairs == [("Die Kuh schläft.", "The cow sleeps."), ("Die Kuh frisst.", "The cow eats.")]
    assert sum(skipped.values()) == 2


def test_columns_name_the_writing_systems() -> None:
    text = START + example("Die Kuh", ("qaa-x-own", "Kuoh")) + END
    assert read_bytes(read_lift, text, columns={"de": "de", "en": "qaa-x-own"})[0] == [("Die Kuh", "Kuoh")]


@pytest.mark.parametrize("text", ["<tmx/>", START, f'<!DOCTYPE lift [<!ENTITY a "b">]>{START[21:]}&a;{END}'])
def test_file_that_is_damaged_or_uses_entities_raises(text: str) -> None:
    assert error_of(read_lift, text)
