"""Corpora of OPUS (https://opus.nlpl.eu): listed by language pair, described, downloaded and written as text.

The OPUS API returns the URL of each version of a corpus: a zip archive with two aligned text files, NAME.de-en.de and
NAME.de-en.en, its licence and a description. OPUS keeps a pair under one order of its languages.
"""

from __future__ import annotations

import dataclasses
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

from nmt.config.data import DIRECTION
from nmt.config.foreign import did_you_mean, misspelt
from nmt.config.yaml12 import dump_yaml
from nmt.console import Progress, printable, say
from nmt.errors import DataError, error_text
from nmt.files.archives import Member, read_archive
from nmt.files.read import read_regular
from nmt.files.write import open_output, replace_file, writing
from nmt.prepare.download import JSON_BYTES, cache_folder, cached, fetch_json
from nmt.prepare.inputs import is_hidden
from nmt.tables import Table
from nmt.text.lines import bounded_lines, decode_lines, pair_lines

API = "https://opus.nlpl.eu/opusapi/"
LATEST = "latest"
CITATION = "J. Tiedemann, 2012: Parallel Data, Tools and Interfaces in OPUS, LREC 2012"
_NOTICE_BYTES = 1 << 20  # maximum size of a licence


@dataclass(frozen=True)
class OpusCorpus:
    """One version of a corpus for a language pair."""

    name: str
    version: str
    pairs: int | None
    """Number of sentence pairs; None if OPUS does not say."""
    bytes: int | None
    """Size of the archive, rounded to kilobytes; None if OPUS does not say."""
    is_latest: bool
    url: str


class _Entry(BaseModel):
    """One version of a corpus, as described in a response of the API."""

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
    """Return the corpora of OPUS for a language pair, sorted by name, the newest version first.

    Args:
        languages: the codes of both languages, in any order.
        corpus: the exact name of a corpus; None: all corpora.
        version: a version such as `v8`; None: all versions.

    If OPUS cannot be reached, its last response to the same query is used. Raises DataError.
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
    """Return a corpus of OPUS by its name, ignoring case; without `version`, the newest version.

    Raises DataError, which suggests similar names or lists the versions, if there is no such corpus.
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
    """Yield the pairs of lines of an archive with two aligned files, the text in `languages[0]` first.

    Raises DataError if the files are missing or damaged, or have different numbers of lines.
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
    """Yield the lines of the score file in an archive; its name is the stem of the texts plus the given ending.

    Raises DataError if there is no such file, or it is damaged.
    """
    members, stem = _aligned_members(archive, languages)
    name = f"{stem}.{ending}"
    if name not in members:
        raise DataError(f"{archive}: has no file {name} with scores; its files are {_some(members)}")
    with members[name].open() as file:
        yield from decode_lines(bounded_lines(file, archive / name), archive / name)


def read_notices(archive: Path) -> dict[str, bytes]:
    """Return the content of the files LICENSE and README of an archive, if present. Raises DataError."""
    notices = {}
    for member in read_archive(archive)[0]:
        if member.name in ("LICENSE", "README"):
            with member.open() as file:
                notices[member.name] = file.read(_NOTICE_BYTES + 1)
    return {name: text for name, text in notices.items() if len(text) <= _NOTICE_BYTES}


def _aligned_members(archive: Path, languages: tuple[str, str]) -> tuple[dict[str, Member], str]:
    """Return the files of an archive by name, and the common stem of its two texts."""
    members = {member.name: member for member in read_archive(archive)[0] if not is_hidden(member.name)}
    stems = [{name.removesuffix(f".{code}") for name in members if name.endswith(f".{code}")} for code in languages]
    both = sorted(stems[0] & stems[1])
    if len(both) != 1:
        wanted = " and ".join(f"NAME.{code}" for code in languages)
        raise DataError(f"{archive}: must have exactly one pair of files {wanted}; its files are {_some(members)}")
    return members, both[0]


def _some(names: Iterable[str]) -> str:
    return printable(", ".join(list(names)[:8])) or "nothing"


def _ask(question: Mapping[str, str]) -> list[_Entry]:
    """Query the API and return its entries, or the cached ones if it cannot be reached."""
    url = f"{os.environ.get('NMT_OPUS_URL') or API}?{urlencode(question, errors='replace')}"
    kept = cache_folder() / "opus" / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
    try:
        content = fetch_json(url)
    except DataError as error:
        try:
            entries = _Answer.model_validate_json(read_regular(kept, JSON_BYTES)).corpora
        except (OSError, ValidationError, DataError):
            raise error from None
        say(f"{error}; using the cached response")
        return entries
    try:
        entries = _Answer.model_validate(content).corpora
    except ValidationError as error:
        raise DataError(f"{url}: not a valid response from OPUS: {error_text(error)}") from None
    with suppress(OSError):  # only needed where there is no network
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_file(kept, json.dumps(content))
    return entries


def _is_of(entry: _Entry, languages: tuple[str, str]) -> bool:
    """Return whether an entry is an archive of aligned text in these languages."""
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
    """Return a sort key for versions: v8 comes before v10, and the version that OPUS marks as the latest comes last."""
    return corpus.is_latest, [int(number) for number in re.findall(r"\d{1,18}", corpus.version)]


def _pair(languages: tuple[str, str]) -> str:
    return "-".join(sorted(languages))


def _alike(name: str, names: list[str]) -> str:
    if alike := misspelt(name, names, 0.6):
        return did_you_mean(alike)
    return f"; there are {', '.join(names[:10])}{' …' if len(names) > 10 else ''}" if names else ""


# --- nmt data -------------------------------------------------------------------------------------


def language_pair(text: str) -> tuple[str, str]:
    """Return the two languages of `de-en` in alphabetical order. Raises DataError."""
    match = DIRECTION.match(text)
    if match is None or match[1] == match[2]:
        raise DataError(f"{text}: not a pair of languages; write it as de-en")
    first, second = sorted(match.groups())
    return first, second


def list_corpora(languages: tuple[str, str]) -> Table:
    """Return a table of the corpora for a language pair. Raises DataError if there are none."""
    found = find_corpora(languages)
    if not found:
        raise DataError(f"no corpus for {_pair(languages)}; check that OPUS uses these language codes")
    rows = [(one.name, one.version, _number(one.pairs), _size(one.bytes)) for one in found]
    records = [{"from": "OPUS"} | dataclasses.asdict(one) for one in found]
    return Table(("corpus", "version", "pairs", "size"), rows, (2, 3), records=records)


def describe(name: str, languages: tuple[str, str]) -> list[str]:
    """Return a description of a corpus: versions, licence, citation and settings, in lines. Raises DataError."""
    corpus, pair = find_corpus(name, languages), _pair(languages)
    lines = [f"{corpus.name}, {pair}, from OPUS (https://opus.nlpl.eu)"]
    for one in find_corpora(languages, corpus.name, None):
        latest = ", the latest" if one.is_latest else ""
        lines.append(f"version   {one.version}{latest}: {_number(one.pairs)} pairs, {_size(one.bytes)}, {one.url}")
    return [
        *lines,
        "licence   in the archive: nmt data get writes LICENSE and README beside the text",
        f"citation  {CITATION}; the README names what else to cite",
        "",
        f"nmt data get {corpus.name} {pair} --version {corpus.version} writes the corpus as text. nmt prepare "
        "downloads it with these settings:",
        *_settings({"opus": f"{corpus.name}/{corpus.version}"}),
    ]


def get(name: str, languages: tuple[str, str], version: str | None, folder: Path) -> list[str]:
    """Download a corpus and write both sides as text; return the lines of a config that refer to the files.

    Args:
        languages: in alphabetical order.
        version: the version of the corpus; None: the latest.
        folder: the directory for NAME-VERSION.de-en.de and NAME-VERSION.de-en.en, created if missing.

    Raises DataError.
    """
    corpus = find_corpus(name, languages, version)
    label = f"{corpus.name}-{corpus.version}"
    archive, stem = cached(corpus.url).path, _safe(f"{label}.{_pair(languages)}")
    files = {code: folder / f"{stem}.{code}" for code in languages}
    _write(read_moses(archive, languages), [*files.values()], corpus.pairs)
    for notice, data in read_notices(archive).items():
        replace_file(folder / f"{stem}.{notice}", data)
    named = {code: str(path) for code, path in files.items()}
    return _settings({"files": named, "name": label})


def _write(pairs: Iterator[tuple[str, str]], files: list[Path], total: int | None) -> None:
    """Write both sides of a corpus. Existing files are removed before the first new one gets its name, so that an old
    file is never beside a new one. `total` is the number of pairs, for the progress bar."""
    with writing(files[0].parent):
        files[0].parent.mkdir(parents=True, exist_ok=True)
    with open_output(files[0]) as one, open_output(files[1]) as other, Progress("writing", total, "pairs") as progress:
        for text, translation in progress.track(pairs):
            one.write(text.encode() + b"\n")
            other.write(translation.encode() + b"\n")
        for path in files:
            path.unlink(missing_ok=True)


def _safe(name: str) -> str:
    """Convert a name from the network to a safe file name."""
    return re.sub(r"[^\w.-]", "_", name).lstrip(".") or "corpus"


def _settings(source: dict[str, object]) -> list[str]:
    return dump_yaml({"data": {"train": [source]}}).rstrip("\n").split("\n")


def _number(n: int | None) -> str:
    return "?" if n is None else f"{n:,}"


def _size(n: int | None) -> str:
    return "?" if n is None else f"{n / 1e6:,.1f} MB"
