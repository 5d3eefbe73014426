"""Names, groups and files of systems, and checks that they are comparable."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import pytest

from nmt.errors import ConfigError, DataError
from nmt.evaluate.compare.systems import (
    System,
    TextToTranslate,
    check_alike,
    check_groups,
    distinct_names,
    find_baseline,
    group_members,
    read_systems,
    single_members,
)

TEXT = TextToTranslate("ref.en", ("A dog runs.", "Two men sit.", "It rains."))


@pytest.fixture(autouse=True)
def folder() -> None:
    for name in ("a", "b", "c-1", "c-2", "c-10"):
        Path(f"{name}.en").write_text("A dog.\nTwo men.\nRain.\n", encoding="utf-8")
    Path("ref.en").write_text("A dog runs.\nTwo men sit.\nIt rains.\n", encoding="utf-8")
    Path("short.en").write_text("A dog.\n", encoding="utf-8")
    Path("empty.en").touch()


def paths(*names: str) -> list[Path]:
    return [Path(name) for name in names]


def test_names_are_shortest_unique_path_suffixes() -> None:
    assert distinct_names(paths("runs/a", "runs/b")) == ["a", "b"]
    assert distinct_names(paths("one/a", "two/a", "two/b")) == ["one/a", "two/a", "two/b"]
    assert distinct_names(paths("x/one/a", "y/one/a")) == ["x/one/a", "y/one/a"]
    assert distinct_names(paths(".", "b"))[0] == Path.cwd().name
    Path("best.en").symlink_to("a.en")
    assert distinct_names(paths("best.en", "b.en")) == ["best.en", "b.en"], "links are named by their own path"


def test_group_patterns_expand_in_order_and_paths_may_contain_commas() -> None:
    assert group_members(["p=a.en,b.en", "s=c-*.en"]) == {
        "p": paths("a.en", "b.en"),
        "s": paths("c-1.en", "c-10.en", "c-2.en"),
    }
    assert group_members(["p=x,y", "s=u=1,v"])["s"] == paths("u=1", "v")
    for name in ("s=1,lr=2", "s=2,lr=2", "s=2,lr=3", "s=3,lr=4"):
        Path(name).mkdir()
    assert group_members(["p=s=3,lr=4,s=2,lr=3", "q=a,s=*,lr=2,b,,"]) == {
        "p": paths("s=3,lr=4", "s=2,lr=3"),
        "q": paths("a", "s=1,lr=2", "s=2,lr=2", "b"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["p"], "--group p: write it as NAME=A,B,C"),
        (["=a,b"], "--group =a,b: write it as"),
        (["p=,"], "--group p=,: write it as"),
        (["p=a,b", "p=c,d"], "--group p is given twice: list all its systems in one option, p=A,B,C"),
        (["p=a,b", "s=c"], "group s has only c: a group needs at least two"),
        (["p=a,b", "s=z-*"], "--group s=z-*: no run or file matches"),
        (["p=a,b"], "a comparison needs at least two groups, found only p"),
        (["p=a,b", "s=c,./b"], "b is given twice: a system cannot be compared"),
    ],
)
def test_malformed_groups_raise(values: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        check_groups(group_members(values))


def test_fewer_than_two_distinct_systems_raise() -> None:
    Path("link.en").symlink_to("a.en")
    for names, problem in (
        (["a.en"], r"a comparison needs at least two systems, found a\.en"),
        ([], "a comparison needs at least two systems, found none"),
        (["a.en", "link.en"], r"a\.en and link\.en are the same: .* list it once"),
    ):
        with pytest.raises(ConfigError, match=f"^{problem}$"):
            single_members(paths(*names))


def test_baseline_is_found_by_name_or_path() -> None:
    members = {"a": paths("runs/a"), "p": paths("runs/b", "runs/c")}
    assert [find_baseline(name, members) for name in (None, "a", "./runs/a/", "p")] == [0, 0, 0, 1]
    with pytest.raises(ConfigError, match=r"^--baseline runs/b: no such system; the systems are a, p$"):
        find_baseline("runs/b", members)


def test_systems_are_read_with_sources_and_references() -> None:
    members = single_members(paths("a.en", "b.en"))
    text, groups = read_systems(members, paths("ref.en"), Path("c-1.en"))
    assert (text.name, text.references, text.sources) == (
        "ref.en",
        [*zip(TEXT.references, strict=True)],
        ["A dog.", "Two men.", "Rain."],
    )
    assert [group.name for group in groups] == ["a.en", "b.en"]
    assert groups[1].systems[0].translations == ["A dog.", "Two men.", "Rain."]
    text, _ = read_systems(members, paths("ref.en", "c-1.en"))
    assert (text.references[0], text.sources) == (("A dog runs.", "A dog."), None)


@pytest.mark.parametrize(
    ("hyps", "refs", "src", "message"),
    [
        (
            ("a.en", "short.en"),
            ("ref.en",),
            None,
            "ref.en has 3 lines, a.en has 3 lines, short.en has 1 line: they must",
        ),
        (("a.en", "b.en"), ("ref.en", "short.en"), None, "ref.en has 3 lines, short.en has 1 line, a.en"),
        (("a.en", "b.en"), ("ref.en",), "short.en", "ref.en has 3 lines, a.en has 3 lines, b.en"),
        (("a.en", "empty.en"), ("ref.en",), None, "ref.en has 3 lines, a.en has 3 lines, empty.en has 0 lines"),
        (("a.en", "none.en"), ("ref.en",), None, "none.en: no such file"),
        (("a.en", "."), ("ref.en",), None, ".: a directory, where a text file is needed"),
    ],
)
def test_files_of_different_lengths_raise(
    hyps: tuple[str, ...], refs: tuple[str, ...], src: str | None, message: str
) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}"):
        read_systems(single_members(paths(*hyps)), paths(*refs), Path(src) if src else None)


def form(text: str) -> System:
    return System(text, (text, "", text))


def test_tokenised_and_detokenised_systems_together_raise() -> None:
    plain, tokenised, lower = form("A dog runs."), form("A dog runs ."), form("a dog runs.")
    for systems, problem in (
        ([plain, tokenised], r"^A dog runs \.: only the translations look tokenised: detokenise them"),
        ([plain, lower], r"^a dog runs\.: 0% of the translations .* ignore it with --lowercase$"),
        ([lower, tokenised], "."),  # they differ from the references in different ways
    ):
        with pytest.raises(DataError, match=problem):
            check_alike(TEXT, systems)
    assert styles(TEXT, [plain, lower], lowercase=True) == []
    runs = [replace(system, run=Path("runs/a")) for system in (plain, lower)]
    assert [note.partition(":")[0] for note in styles(TEXT, runs)] == ["a dog runs."]
    both = [replace(lower, name=name) for name in "ab"]
    assert [note.partition(":")[0] for note in styles(TEXT, both)] == ["a", "b"], "all differ from the references"
    assert styles(TEXT, [plain, form("Men sit."), form("")]) == [], "blank lines are ignored"
    assert styles(TEXT, [plain, form("the the the")]) == [], "lines of a single repeated word are ignored"


def styles(text: TextToTranslate, systems: list[System], lowercase: bool = False) -> list[str]:
    """Return the notes but those on blank translations."""
    return [note for note in check_alike(text, systems, lowercase).notes if "blank" not in note]


def test_case_is_compared_with_references() -> None:
    terms = [f"term {i}" for i in range(200)]
    lower = TextToTranslate("terms", tuple(terms))
    some = System("some", tuple(term.upper() if i % 40 == 0 else term for i, term in enumerate(terms)))
    upper = System("upper", tuple(map(str.title, terms)))
    plain = System("plain", tuple(terms))
    assert check_alike(lower, [plain, some]).notes == (), "5 of 200 lines"
    with pytest.raises(DataError, match=r"^upper: 100% of the translations and 0% of the references have capitals"):
        check_alike(lower, [plain, upper])
    cased = TextToTranslate("names", upper.translations)
    with pytest.raises(DataError, match=r"^some: 2% "):
        check_alike(cased, [upper, some])


def test_system_in_another_normal_form_has_a_note() -> None:
    line = "Été à Besançon."
    systems = [System("one", (line,) * 9), System("two", (normalize("NFD", line),) * 9)]
    text = TextToTranslate("ref", systems[0].translations, tgt_lang="fr")
    [note] = check_alike(text, systems).notes
    assert note.startswith("two: ") and "NFC" in note
