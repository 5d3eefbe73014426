"""Corpora by name: those of OPUS and of the shipped configs listed, described, and written as aligned text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nmt.config.data import DIRECTION
from nmt.config.load import load_config
from nmt.config.yaml12 import dump_yaml
from nmt.console import Progress
from nmt.errors import DataError
from nmt.files.write import open_output, replace_file, writing
from nmt.prepare.download import cached
from nmt.prepare.opus import OpusCorpus, find_corpora, find_corpus, read_moses, read_notices
from nmt.prepare.sources import open_source


@dataclass(frozen=True)
class Entry:
    """A corpus with its development and test sets."""

    name: str
    languages: tuple[str, str]
    """In alphabetical order."""
    description: str
    config: str
    """The shipped config whose `data` says where its parts are."""
    pairs: Mapping[str, int]
    """Published number of sentence pairs by part: `train`, `valid` and `test`."""
    licence: str | None
    """None if it is not known."""
    citation: str


CATALOGUE = (
    Entry(
        name="IWSLT14",
        languages=("de", "en"),
        description="TED talks as in the published benchmark: lower-cased and tokenised by its authors",
        config="iwslt14.yaml",
        pairs={"train": 160_239, "valid": 7_283, "test": 6_750},
        licence=None,
        citation="M. Cettolo, J. Niehues, S. Stüker, L. Bentivogli, M. Federico, 2014: Report on the 11th IWSLT "
        "Evaluation Campaign",
    ),
    Entry(
        name="IWSLT17",
        languages=("de", "en"),
        description="TED talks, cased and not tokenised",
        config="base.yaml",
        pairs={"train": 206_112, "valid": 888, "test": 8_079},
        licence="CC BY-NC-ND 4.0, by the card of the dataset on the hub",
        citation="M. Cettolo, M. Federico, L. Bentivogli, J. Niehues, S. Stüker, K. Sudoh, K. Yoshino, C. Federmann, "
        "2017: Overview of the IWSLT 2017 Evaluation Campaign, https://aclanthology.org/2017.iwslt-1.1",
    ),
)


def entries_of(languages: tuple[str, str]) -> list[Entry]:
    """Return the entries for a language pair, in any order."""
    return [entry for entry in CATALOGUE if sorted(entry.languages) == sorted(languages)]


def find_entry(name: str, languages: tuple[str, str]) -> Entry | None:
    """Return the entry of this name, in any case, for a language pair in any order; None if there is none."""
    return next((entry for entry in entries_of(languages) if entry.name.casefold() == name.casefold()), None)


OPUS_CITATION = "J. Tiedemann, 2012: Parallel Data, Tools and Interfaces in OPUS, LREC 2012"


def language_pair(text: str) -> tuple[str, str]:
    """Return the two languages of `de-en` in alphabetical order. Raises DataError."""
    match = DIRECTION.match(text)
    if match is None or match[1] == match[2]:
        raise DataError(f"{text}: not a pair of languages; write it as de-en")
    first, second = sorted(match.groups())
    return first, second


def list_json(languages: tuple[str, str]) -> str:
    """Return the corpora for a language pair as JSON, a list of objects. Raises DataError."""
    opus = [{"from": "OPUS"} | dataclasses.asdict(corpus) for corpus in find_corpora(languages)]
    others = [
        {"from": "hub", "name": entry.name, "pairs": entry.pairs["train"], "config": entry.config}
        for entry in entries_of(languages)
    ]
    return json.dumps([*others, *opus], indent=1)


def list_text(languages: tuple[str, str]) -> list[str]:
    """Return the corpora for a language pair as the lines of a table. Raises DataError."""
    rows = [("corpus", "version", "pairs", "size")]
    rows += [(entry.name, "hub", f"{entry.pairs['train']:,}", "") for entry in entries_of(languages)]
    rows += [(one.name, one.version, _number(one.pairs), _size(one.bytes)) for one in find_corpora(languages)]
    if len(rows) == 1:
        raise DataError(f"no corpus for {'-'.join(languages)}; are these the codes that OPUS uses?")
    wide = [max(len(row[column]) for row in rows) for column in range(4)]
    return [f"{a:<{wide[0]}}  {b:<{wide[1]}}  {c:>{wide[2]}}  {d:>{wide[3]}}".rstrip() for a, b, c, d in rows]


def describe(name: str, languages: tuple[str, str]) -> list[str]:
    """Return a description of a corpus, in lines. Raises DataError."""
    entry = find_entry(name, languages)
    if entry is not None:
        return _describe_entry(entry)
    corpus = find_corpus(name, languages)
    versions = find_corpora(languages, corpus.name, None)
    lines = [f"{corpus.name}, {'-'.join(languages)}, from OPUS (https://opus.nlpl.eu)"]
    for one in versions:
        latest = ", the latest" if one.is_latest else ""
        lines.append(f"version   {one.version}{latest}: {_number(one.pairs)} pairs, {_size(one.bytes)}, {one.url}")
    return [
        *lines,
        "licence   in the archive: nmt data get writes LICENSE and README beside the text",
        f"citation  {OPUS_CITATION}; the README names what else to cite",
        "",
        f"nmt data get {corpus.name} {'-'.join(languages)} --version {corpus.version} writes it as text; nmt prepare "
        "downloads it with this in the config:",
        *_settings({"train": [{"opus": f"{corpus.name}/{corpus.version}"}]}),
    ]


def _describe_entry(entry: Entry) -> list[str]:
    sizes = ", ".join(f"{part} {number:,}" for part, number in entry.pairs.items())
    return [
        f"{entry.name}, {'-'.join(entry.languages)}, from the Hugging Face hub: {entry.description}",
        f"pairs     {sizes}",
        f"licence   {entry.licence or 'not known here: see the page of the dataset on the hub'}",
        f"citation  {entry.citation}",
        "",
        f"nmt prepare --config {entry.config} downloads it. In another config:",
        *_settings(_hub_settings(entry)),
    ]


def get(name: str, languages: tuple[str, str], version: str | None, folder: Path) -> list[str]:
    """Download a corpus and write its sides as text; returns the lines of the config that name them.

    Args:
        languages: in alphabetical order.
        version: of a corpus of OPUS; None: the latest.
        folder: where to write NAME.de and NAME.en, created if missing.

    Raises DataError.
    """
    entry = find_entry(name, languages)
    if entry is None:
        return _settings({"train": [_get_opus(name, languages, version, folder)]})
    if version is not None:
        raise DataError(f"--version {version}: {entry.name} is from the hub and has no versions; leave out --version")
    return _settings(_get_entry(entry, folder))


def _get_opus(name: str, languages: tuple[str, str], version: str | None, folder: Path) -> dict[str, object]:
    corpus = find_corpus(name, languages, version)
    archive = cached(corpus.url).path
    files = _file_names(folder, corpus.name, languages)
    _write(read_moses(archive, languages), files, corpus.pairs)
    for notice, data in read_notices(archive).items():
        replace_file(folder / f"{_safe(corpus.name)}.{notice}", data)
    return _files_entry(corpus, languages, folder)


def _get_entry(entry: Entry, folder: Path) -> dict[str, object]:
    """Write train, valid and test of a corpus of the catalogue; returns the settings that name them."""
    settings: dict[str, object] = {}
    data = load_config(entry.config).data
    for key, source in data.sources():
        part = {"train.0": "train", "valid": "valid", "test.test": "test"}[key]
        files = _file_names(folder, f"{entry.name}.{part}", entry.languages)
        pairs = ((pair.src, pair.tgt) for pair in open_source(source, entry.languages, Path()).pairs())
        _write(pairs, files, entry.pairs[part], f"{entry.name}, {part}")
        named = {"files": {code: str(path) for code, path in files.items()}, "name": f"{entry.name}-{part}"}
        settings |= {"train": [named]} if part == "train" else {part: {"test": named} if part == "test" else named}
    return settings


def _write(
    pairs: Iterator[tuple[str, str]], files: dict[str, Path], total: int | None, what: str | None = None
) -> None:
    """Write both sides of a corpus. The two files of an earlier call are removed before the first of the new ones gets
    its name, so that they never mix.

    Args:
        total: number of pairs, for the progress bar.
        what: name of a corpus that must have exactly `total` pairs, for the error.
    """
    first, second = files.values()
    with writing(first.parent):
        first.parent.mkdir(parents=True, exist_ok=True)
    with open_output(first) as one, open_output(second) as other, Progress("writing", total, "pairs") as progress:
        n = 0
        for text, translation in progress.track(pairs):
            one.write(text.encode() + b"\n")
            other.write(translation.encode() + b"\n")
            n += 1
        if what is not None and n != total:
            raise DataError(
                f"{what}: {n:,} pairs, where the published preparation has {total:,}: it was changed since, and "
                "results would not compare"
            )
        for path in (first, second):
            path.unlink(missing_ok=True)


def _file_names(folder: Path, name: str, languages: tuple[str, str]) -> dict[str, Path]:
    return {code: folder / f"{_safe(name)}.{code}" for code in languages}


def _safe(name: str) -> str:
    """Turn a name from the network into a file name."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name).lstrip(".") or "corpus"


def _files_entry(corpus: OpusCorpus, languages: tuple[str, str], folder: Path) -> dict[str, object]:
    files = {code: str(path) for code, path in _file_names(folder, corpus.name, languages).items()}
    return {"files": files, "name": f"{corpus.name}-{corpus.version}"}


def _hub_settings(entry: Entry) -> dict[str, object]:
    data = load_config(entry.config).data
    return data.model_dump(mode="json", include={"train", "valid", "test"}, exclude_defaults=True)


def _settings(data: dict[str, object]) -> list[str]:
    return dump_yaml({"data": data}).rstrip("\n").split("\n")


def _number(n: int | None) -> str:
    return "?" if n is None else f"{n:,}"


def _size(n: int | None) -> str:
    return "?" if n is None else f"{n / 1e6:,.1f} MB"
