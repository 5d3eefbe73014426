"""Steps of cleaning that are off by default: each at its boundary, its place in the order, and its switch."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.config import DataConfig, Source
from nmt.config.clean import CleanConfig, CorpusClean
from nmt.errors import DataError
from nmt.prepare.cleaning.cleaner import Cleaner, HeldOut
from nmt.prepare.cleaning.reasons import REASONS
from nmt.prepare.pairs import SentencePair

FILES = {"de": "a.de", "en": "a.en"}


def config(clean: CleanConfig, languages: str = "de-en", root: Path | None = None, own: CorpusClean | None = None) -> DataConfig:
    files = dict.fromkeys(languages.split("-"), "a")
    train = [Source(files=files), Source(files=files, clean=own)]
    return DataConfig(direction=languages, train=train, clean=clean, root=str(root or "."))
