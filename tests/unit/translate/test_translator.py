"""Search settings of translators that follow each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nmt.search.settings import SearchConfig
from nmt.translate.translator import LineTranslator, searches_by_leg
from tiny_run import make, tiny_config, tiny_tokenizer


def leg(*tag_names: str, to: str | None = None) -> LineTranslator:
    translator = make(tiny_tokenizer(), tiny_config())
    return replace(
        translator,
        conventions=replace(translator.conventions, tag_names=tag_names),
        search=translator.search.model_copy(update={"to": to}),
    )


@pytest.mark.parametrize(
    ("of_first", "of_last", "expected"),
    [
        (("a=1",), (), [["a=1"], None]),
        ((), ("a=1",), [None, ["a=1"]]),
        (("a=1",), ("a=1",), [["a=1"], ["a=1"]]),
        ((), (), [None, ["a=1"]]),
        (("b=1",), ("c=1",), [None, ["a=1"]]),
    ],
)
def test_tag_belongs_to_legs_whose_corpora_have_it(
    of_first: tuple[str, ...], of_last: tuple[str, ...], expected: list[list[str] | None]
) -> None:
    search = SearchConfig(beam=3, tags=["a=1"])
    searches = searches_by_leg([leg(*of_first), leg(*of_last)], [search, search])
    assert [of_leg.tags for of_leg in searches] == expected
    assert [of_leg.beam for of_leg in searches] == [3, 3]


def test_leg_before_the_last_keeps_its_target() -> None:
    searches = searches_by_leg([leg(to="deu"), leg(to="spa")], [SearchConfig(to="fra")] * 2)
    assert [of_leg.to for of_leg in searches] == ["deu", "fra"]


def test_leg_keeps_tags_with_which_it_is_configured() -> None:
    configured = replace(leg(), search=SearchConfig(tags=["a=1"]))
    searches = searches_by_leg([configured, leg()], [configured.search, SearchConfig()])
    assert [of_leg.tags for of_leg in searches] == [["a=1"], None]
