"""Corpora of OPUS (https://opus.nlpl.eu): listed by language pair, described, downloaded and written as text.

The OPUS API returns the URL of each version of a corpus: a zip archive with two aligned text files, NAME.de-en.de and
NAME.de-en.en, its licence and a description. OPUS keeps a pair under one order of its languages.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import permutations
from pathlib import Path
from typing import Annotated, cast
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from nmt.console import Progress, listed, printable, say
from nmt.errors import DataError, error_text
from nmt.files.compressed import Member, read_archive
from nmt.files.read import read_regular
from nmt.files.write import open_output, replace_file, writing
from nmt.files.yaml12 import dump_yaml
from nmt.languages.directions import DIRECTION, LanguagePair
from nmt.prepare.download import JSON_BYTES, cache_folder, cached, fetch_json
from nmt.prepare.inputs import is_hidden
from nmt.prepare.pairs import Row, scored
from nmt.spelling import did_you_mean, misspelt
from nmt.tables import Table
from nmt.text.lines import lines_in, pair_lines

API = "https://opus.nlpl.eu/opusapi/"
LATEST = "latest"
CITATION = "J. Tiedemann, 2012: Parallel Data, Tools and Interfaces in OPUS, LREC 2012"
_NOTICE_BYTES = 1 << 20  # maximum size of a licence


def _count(value: object) -> int | None:
    """Return a plausible count; None for anything else."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60
    return cast(int, value) if is_count else None


class OpusCorpus(BaseModel, frozen=True):
    """One version of a corpus for a language pair, as described in a response of the API."""

    name: str = Field(min_length=1, alias="corpus")
    version: str = Field(min_length=1)
    pairs: Annotated[int | None, BeforeValidator(_count)] = Field(None, alias="alignment_pairs")
    """Number of sentence pairs; None if OPUS does not say."""
    kilobytes: Annotated[int | None, BeforeValidator(_count)] = Field(None, alias="size")
    """Size of the archive; None if OPUS does not say."""
    is_latest: Annotated[bool, BeforeValidator(lambda value: str(value) == "True")] = Field(False, alias="latest")
    url: str = Field(min_length=1)
    source: object = None
    target: object = None
    preprocessing: object = "moses"

    @property
    def bytes(self) -> int | None:
        """Size of the archive, rounded to kilobytes; None if OPUS does not say."""
        return None if self.kilobytes is None else 1024 * self.kilobytes

    @property
    def record(self) -> dict[str, object]:
        """The record for machines."""
        return {
            "from": "OPUS", "name": self.name, "version": self.version, "pairs": self.pairs, "bytes": self.bytes,
            "is_latest": self.is_latest, "url": self.url,
        }  # fmt: skip

    @property
    def age(self) -> tuple[bool, list[int]]:
        """A sort key for versions: v8 comes before v10, and the version that OPUS marks as the latest comes last."""
        return self.is_latest, [int(number) for number in re.findall(r"\d{1,18}", self.version)]

    def is_of(self, languages: LanguagePair) -> bool:
        """Return whether this is an archive of aligned text in these languages."""
        source = languages[0] if self.source is None else self.source
        target = languages[1] if self.target is None else self.target
        return self.preprocessing == "moses" and sorted([str(source), str(target)]) == sorted(languages)


class _Answer(BaseModel):
    corpora: list[OpusCorpus]


def find_corpora(languages: LanguagePair, corpus: str | None = None, version: str | None = LATEST) -> list[OpusCorpus]:
    """Return the corpora of OPUS for a language pair, sorted by name, the newest version first.

    Args:
        languages: the codes of both languages, in any order.
        corpus: the exact name of a corpus; None: all corpora.
        version: a version such as `v8`; None: all versions.

    If OPUS cannot be reached, its last response to the same query is used. Raises DataError.
    """
    corpora = []
    for source, target in permutations(sorted(languages)):
        question = {"source": source, "target": target}
        if corpus is not None:
            question["corpus"] = corpus
        question["preprocessing"] = "moses"
        if version is not None:
            question["version"] = version
        corpora = [answer for answer in _ask(question) if answer.is_of(languages)]
        if corpora:
            break
    corpora.sort(key=lambda corpus: corpus.age, reverse=True)
    return sorted(corpora, key=lambda corpus: corpus.name.casefold())


def find_corpus(name: str, languages: LanguagePair, version: str | None = None) -> OpusCorpus:
    """Return a corpus of OPUS by its name, ignoring case; without `version`, the newest version.

    Raises DataError, which suggests similar names or lists the versions, if there is no such corpus.
    """
    versions = find_corpora(languages, name, version or LATEST)
    if not versions:
        names = sorted({corpus.name for corpus in find_corpora(languages)})
        name = next((known for known in names if known.casefold() == name.casefold()), name)
        if name not in names:
            raise DataError(f"OPUS has no corpus {name} for {_pair(languages)}{_alike(name, names)}")
        versions = find_corpora(languages, name, version or LATEST)
    if not versions:
        known = ", ".join(corpus.version for corpus in find_corpora(languages, name, None))
        raise DataError(f"OPUS has no version {version} of {name} for {_pair(languages)}; there are {known}")
    return versions[0]


def read_moses(archive: Path, languages: LanguagePair, score: str | None = None) -> Iterator[Row]:
    """Yield the pairs of lines of an archive with two aligned files, the text in `languages[0]` first.

    score: the ending of the file with their scores, after the stem of the texts; None: the pairs have no scores.
    Raises DataError if a file is missing or damaged, or the files have different numbers of lines.
    """
    members, stem = _aligned_members(archive, languages)
    endings = [*languages] if score is None else [*languages, score]
    names = [f"{stem}.{ending}" for ending in endings]
    if names[-1] not in members:
        raise DataError(f"{archive}: has no file {names[-1]} with scores; its files are {_some(members)}")
    with ExitStack() as stack:
        texts = [lines_in(stack.enter_context(members[name].open()), archive / name) for name in names]
        pairs = pair_lines(texts[0], texts[1], archive / names[0], archive / names[1])
        scores = None if score is None else texts[2]
        yield from scored(pairs, archive, scores, archive / endings[-1])


def read_notices(archive: Path) -> dict[str, bytes]:
    """Return the content of the files LICENSE and README of an archive, if present. Raises DataError."""
    notices = {}
    for member in read_archive(archive)[0]:
        if member.name in ("LICENSE", "README"):
            with member.open() as file:
                text = file.read(_NOTICE_BYTES + 1)
            if len(text) <= _NOTICE_BYTES:
                notices[member.name] = text
    return notices


def _aligned_members(archive: Path, languages: LanguagePair) -> tuple[dict[str, Member], str]:
    """Return the files of an archive by name, and the common stem of its two texts."""
    members = {member.name: member for member in read_archive(archive)[0] if not is_hidden(member.name)}
    first, second = (f".{code}" for code in languages)
    stems = []
    for name in members:
        stem = name.removesuffix(first)
        if name.endswith(first) and stem + second in members:
            stems.append(stem)
    if len(stems) != 1:
        needed = f"NAME{first} and NAME{second}"
        raise DataError(f"{archive}: must have exactly one pair of files {needed}; its files are {_some(members)}")
    return members, stems.pop()


def _some(names: Iterable[str]) -> str:
    return printable(listed([*names], 8)) or "nothing"


def _ask(question: Mapping[str, str]) -> list[OpusCorpus]:
    """Query the API and return the corpora, or the cached ones if it cannot be reached."""
    url = f"{os.environ.get('NMT_OPUS_URL') or API}?{urlencode(question, errors='replace')}"
    kept = cache_folder() / "opus" / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
    try:
        content = fetch_json(url)
    except DataError as error:
        try:
            corpora = _Answer.model_validate_json(read_regular(kept, JSON_BYTES)).corpora
        except (OSError, ValidationError, DataError):
            raise error from None
        say(f"{error}; using the cached response")
        return corpora
    try:
        corpora = _Answer.model_validate(content).corpora
    except ValidationError as error:
        raise DataError(f"{url}: not a valid response from OPUS: {error_text(error)}") from None
    with suppress(OSError):  # only needed where there is no network
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_file(kept, json.dumps(content))
    return corpora


def _pair(languages: LanguagePair) -> str:
    return "-".join(sorted(languages))


def _alike(name: str, names: list[str]) -> str:
    if alike := misspelt(name, names, 0.6):
        return did_you_mean(alike)
    return f"; there are {listed(names, 10)}" if names else ""


# --- nmt data -------------------------------------------------------------------------------------


def language_pair(text: str) -> LanguagePair:
    """Return the two languages of `de-en` in alphabetical order. Raises DataError."""
    match = DIRECTION.match(text)
    if match is None or match[1] == match[2]:
        raise DataError(f"{text}: not a pair of languages; write it as de-en")
    first, second = sorted(match.groups())
    return first, second


def list_corpora(languages: LanguagePair) -> Table:
    """Return a table of the corpora for a language pair. Raises DataError if there are none."""
    corpora = find_corpora(languages)
    if not corpora:
        raise DataError(f"no corpus for {_pair(languages)}; check that OPUS uses these language codes")
    rows = [(corpus.name, corpus.version, _number(corpus.pairs), _size(corpus.bytes)) for corpus in corpora]
    return Table(("corpus", "version", "pairs", "size"), rows, (2, 3), records=[corpus.record for corpus in corpora])


def describe(name: str, languages: LanguagePair) -> list[str]:
    """Return a description of a corpus: versions, licence, citation and settings, in lines. Raises DataError."""
    corpus = find_corpus(name, languages)
    pair = _pair(languages)
    lines = [f"{corpus.name}, {pair}, from OPUS (https://opus.nlpl.eu)"]
    for known in find_corpora(languages, corpus.name, None):
        latest = ", the latest" if known.is_latest else ""
        size = f"{_number(known.pairs)} pairs, {_size(known.bytes)}"
        lines.append(f"version   {known.version}{latest}: {size}, {known.url}")
    return [
        *lines,
        "licence   in the archive: nmt data get writes LICENSE and README beside the text",
        f"citation  {CITATION}; the README names what else to cite",
        "",
        f"nmt data get {corpus.name} {pair} --version {corpus.version} writes the corpus as text. nmt prepare "
        "downloads it with these settings:",
        *_settings({"opus": f"{corpus.name}/{corpus.version}"}),
    ]


def get(name: str, languages: LanguagePair, version: str | None, folder: Path) -> list[str]:
    """Download a corpus and write both sides as text; return the lines of a config that refer to the files.

    Args:
        languages: in alphabetical order.
        version: the version of the corpus; None: the latest.
        folder: the directory for NAME-VERSION.de-en.de and NAME-VERSION.de-en.en, created if missing.

    Raises DataError.
    """
    corpus = find_corpus(name, languages, version)
    label = f"{corpus.name}-{corpus.version}"
    archive = cached(corpus.url).path
    stem = _safe(f"{label}.{_pair(languages)}")
    files = {code: folder / f"{stem}.{code}" for code in languages}
    _write(read_moses(archive, languages), [*files.values()], corpus.pairs)
    for notice, data in read_notices(archive).items():
        replace_file(folder / f"{stem}.{notice}", data)
    named = {code: str(path) for code, path in files.items()}
    return _settings({"files": named, "name": label})


def _write(pairs: Iterator[Row], files: list[Path], total: int | None) -> None:
    """Write both sides of a corpus. Existing files are removed before the first new one gets its name, so that an old
    file is never beside a new one. `total` is the number of pairs, for the progress bar."""
    with writing(files[0].parent):
        files[0].parent.mkdir(parents=True, exist_ok=True)
    with (
        open_output(files[0]) as first_file,
        open_output(files[1]) as second_file,
        Progress("writing", total, "pairs") as progress,
    ):
        for first, second, _ in progress.track(pairs):
            first_file.write(first.encode() + b"\n")
            second_file.write(second.encode() + b"\n")
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
