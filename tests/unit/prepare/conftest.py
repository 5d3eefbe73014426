"""What the tests of `prepare` share: a data directory, and less work for the same few sentences."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import py3langid
import pytest

from folders import Folder
from nmt.text import blocks


@pytest.fixture(scope="session", autouse=True)
def small_corpora() -> Iterator[None]:
    """The language of a sentence is identified once, and the cache of words is not made for millions of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(py3langid, "classify", cache(py3langid.classify))
        patch.setattr(py3langid, "rank", cache(py3langid.rank))
        patch.setattr(blocks, "_SLOT_BITS", 10)
        yield


@pytest.fixture(scope="session")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    place = Folder(tmp_path_factory.mktemp("prepared"))
    place.prepare()
    return place


@pytest.fixture
def prepared(tmp_path: Path, prepared_once: Folder) -> Folder:
    """A folder after `prepare`, to be changed."""
    place = Folder(tmp_path)
    shutil.copytree(prepared_once.data, place.data)
    return place
