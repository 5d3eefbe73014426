"""Corpora of OPUS (https://opus.nlpl.eu) by name and language pair.

Its API answers where the versions of a corpus are; each is a zip archive with two aligned text files, NAME.de-en.de and
NAME.de-en.en, beside its licence and a description. OPUS keeps a pair under one order of its languages.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from pydantic import BaseModel, Field, ValidationError

from nmt.config.foreign import did_you_mean, misspelt
from nmt.console import printable, say
from nmt.errors import DataError, error_text
from nmt.files.archives import Member, read_archive
from nmt.files.read import read_regular
from nmt.files.write import replace_file
from nmt.prepare.download import JSON_BYTES, cache_folder, fetch_json
from nmt.text.lines import bounded_lines, decode_lines, pair_lines

API = "https://opus.nlpl.eu/opusapi/"
LATEST = "latest"
_NOTICE_BYTES = 1 << 20  # maximum size of a licence


@dataclass(frozen=True)
class OpusCorpus:
    """One version of a corpus for a language pair."""

    name: str
    version: str
    pairs: int | None
    """Number of sentence pairs; None if OPUS does not say."""
    bytes: int | None
    """Size of the archive, to a kilobyte; None if OPUS does not say."""
    is_latest: bool
    url: str


class _Entry(BaseModel):
    """One version of a corpus in an answer of the API."""

    corpus: str = Field(min_length=1)
    version: str = Field(min_length=1)
    url: str = Field(min_length=1)
    source: object = None
    target: object = None
    preprocessing: object = "moses"
    alignment_pairs: object = None
    size: object = None
    latest: object = None


class _Answer(BaseModel):
    corpora: list[_Entry]


def find_corpora(
    languages: tuple[str, str], corpus: str | None = None, version: str | None = LATEST
) -> list[OpusCorpus]:
    """Return the corpora of OPUS for a language pair, by name, the newest version first.

    Args:
        languages: the codes of both, in any order.
        corpus: its exact name; None: all.
        version: such as `v8`; None: all.

    If OPUS cannot be reached, its last answer to the same question is used. Raises DataError.
    """
    fixed = {"corpus": corpus, "preprocessing": "moses", "version": version}
    found: list[OpusCorpus] = []
    for source, target in (sorted(languages), sorted(languages, reverse=True)):
        question = {"source": source, "target": target, **fixed}
        entries = _ask({key: value for key, value in question.items() if value is not None})
        found = [_corpus(entry) for entry in entries if _is_of(entry, languages)]
        if found:
            break
    return sorted(sorted(found, key=_age, reverse=True), key=lambda one: one.name.casefold())


def find_corpus(name: str, languages: tuple[str, str], version: str | None = None) -> OpusCorpus:
    """Return a corpus by its name, ignoring case; `version`: None means the newest.

    Raises DataError, which names the corpora or versions that are alike if there is none of these.
    """
    found = find_corpora(languages, name, version or LATEST)
    if not found:
        names = sorted({one.name for one in find_corpora(languages)})
        name = next((one for one in names if one.casefold() == name.casefold()), name)
        if name not in names:
            raise DataError(f"OPUS has no corpus {name} for {_pair(languages)}{_alike(name, names)}")
        found = find_corpora(languages, name, version or LATEST)
    if not found:
        versions = [one.version for one in find_corpora(languages, name, None)]
        raise DataError(
            f"OPUS has no version {version} of {name} for {_pair(languages)}; there are {', '.join(versions)}"
        )
    return found[0]


def read_moses(archive: Path, languages: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yield line n in `languages[0]` with line n in `languages[1]` of an archive with two aligned files.

    Raises DataError if they are not in it, are damaged or have different numbers of lines.
    """
    members, stem = _aligned_members(archive, languages)
    names = [f"{stem}.{language}" for language in languages]
    with members[names[0]].open() as one, members[names[1]].open() as other:
        first, second = (
            decode_lines(bounded_lines(file, archive / name), archive / name)
            for file, name in zip((one, other), names, strict=True)
        )
        yield from pair_lines(first, second, archive / names[0], archive / names[1])


def read_moses_scores(archive: Path, languages: tuple[str, str], ending: str) -> Iterator[str]:
    """Yield the lines of the file of an archive that has the name of the two texts, with this ending.

    Raises DataError if it is not in it or is damaged.
    """
    members, stem = _aligned_members(archive, languages)
    name = f"{stem}.{ending}"
    if name not in members:
        raise DataError(f"{archive}: no {name} with scores in it; it has {_some(members)}")
    with members[name].open() as file:
        yield from decode_lines(bounded_lines(file, archive / name), archive / name)


def read_notices(archive: Path) -> dict[str, bytes]:
    """Return the texts LICENSE and README of an archive, as far as it has them. Raises DataError."""
    notices = {}
    for member in read_archive(archive)[0]:
        if member.name in ("LICENSE", "README"):
            with member.open() as file:
                notices[member.name] = file.read(_NOTICE_BYTES + 1)
    return {name: text for name, text in notices.items() if len(text) <= _NOTICE_BYTES}


def _aligned_members(archive: Path, languages: tuple[str, str]) -> tuple[dict[str, Member], str]:
    """Return the files by name, and the stem of the two texts, whose endings are the languages."""
    members = {member.name: member for member in read_archive(archive)[0]}
    stems = [{name.removesuffix(f".{code}") for name in members if name.endswith(f".{code}")} for code in languages]
    both = sorted(stems[0] & stems[1])
    if len(both) != 1:
        wanted = " and ".join(f"NAME.{code}" for code in languages)
        raise DataError(f"{archive}: not an archive with one {wanted}; it has {_some(members)}")
    return members, both[0]


def _some(names: Iterable[str]) -> str:
    return printable(", ".join(list(names)[:8])) or "nothing"


# --- the API ------------------------------------------------------------------------------------


def _ask(question: Mapping[str, str]) -> list[_Entry]:
    """Return the entries that the API answers, from the cache if it cannot be reached."""
    url = f"{os.environ.get('NMT_OPUS_URL') or API}?{urlencode(question, errors='replace')}"
    kept = cache_folder() / "opus" / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
    try:
        content = fetch_json(url)
    except DataError as error:
        try:
            entries = _Answer.model_validate_json(read_regular(kept, JSON_BYTES)).corpora
        except (OSError, ValidationError, DataError):
            raise error from None
        say(f"{error}; using the last answer")
        return entries
    try:
        entries = _Answer.model_validate(content).corpora
    except ValidationError as error:
        raise DataError(f"{url}: not a valid answer from OPUS: {error_text(error)}") from None
    with suppress(OSError):  # only needed where there is no network
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_file(kept, json.dumps(content))
    return entries


def _is_of(entry: _Entry, languages: tuple[str, str]) -> bool:
    """Whether an entry is an archive of aligned text of this pair."""
    pair = [languages[0] if entry.source is None else entry.source,
            languages[1] if entry.target is None else entry.target]  # fmt: skip
    return entry.preprocessing == "moses" and sorted(map(str, pair)) == sorted(languages)


def _corpus(entry: _Entry) -> OpusCorpus:
    kilobytes = _count(entry.size)
    return OpusCorpus(
        name=entry.corpus,
        version=entry.version,
        pairs=_count(entry.alignment_pairs),
        bytes=None if kilobytes is None else kilobytes * 1024,
        is_latest=str(entry.latest) == "True",
        url=entry.url,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60 else None


def _age(corpus: OpusCorpus) -> tuple[bool, list[int]]:
    """Return a key that sorts versions, such as v8 before v10; the one that OPUS calls the latest is last."""
    return corpus.is_latest, [int(number) for number in re.findall(r"\d{1,18}", corpus.version)]


def _pair(languages: tuple[str, str]) -> str:
    return "-".join(sorted(languages))


def _alike(name: str, names: list[str]) -> str:
    if alike := misspelt(name, names, 0.6):
        return did_you_mean(alike)
    return f"; there are {', '.join(names[:10])}{' …' if len(names) > 10 else ''}" if names else ""
