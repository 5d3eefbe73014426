"""Candidates as `nmt translate --n-best` writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.recipes.rerank import Candidate, NBest, read_n_best

SOURCE = Path("a.src")


def test_the_candidates_of_each_line(tmp_path: Path) -> None:
    path = tmp_path / "n-best"
    rows = ["1\t-0.5\t-1\tone\ttab", "1\t-0.6\t-1\tother", "1\t-0.7\t-2\tone\ttab", "2\t-1\t-1\tblank", "3\t-1\t-1\tz"]
    path.write_text("".join(f"{row}\n" for row in rows))
    assert [*read_n_best(path, ["x", " ", "y"], SOURCE)] == [
        NBest("x", (Candidate("one\ttab", -0.5), Candidate("other", -0.6))),
        NBest(" ", (Candidate("", 0.0),)),
        NBest("y", (Candidate("z", -1.0),)),
    ]
    path.write_text("")
    assert [*read_n_best(path, [], SOURCE)] == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["1\t-1\t-1\ta", "3\t-1\t-1\tb"], ": no candidates of line 2 of a.src, found those of line 3 in their place"),
        (["2\t-1\t-1\ta"], ": no candidates of line 1 of a.src, found those of line 2 in their place"),
        (["1\t-1\t-1\ta"], ": no candidates of line 2 of a.src, found the end in their place"),
        ([f"{n}\t-1\t-1\ta" for n in (1, 2, 3, 4)], ": has candidates of line 4, but a.src has 3 lines"),
        ([f"{n}\t-1\t-1\ta" for n in (1, 2, 3, 2)], ": has candidates of line 2, but a.src has 3 lines"),
        (["a"], ": line 1 is 'a', expected line number, score, log-probability and translation"),
        (["1\t-1\t-1\ta", "1\tx\t-1\ta"], ": line 2 is '1\\tx\\t-1\\ta', expected line number, "),
        (["1\tnan\t-1\ta"], ": line 1 has the score nan: not a number to rank by"),
    ],
)
def test_what_does_not_fit_the_lines_is_refused(tmp_path: Path, rows: list[str], message: str) -> None:
    path = tmp_path / "n-best"
    path.write_text("".join(f"{row}\n" for row in rows))
    with pytest.raises(DataError) as caught:
        [*read_n_best(path, ["x", "y", "z"], SOURCE)]
    assert str(caught.value).startswith(f"{path}{message}")
