"""Settings of a source: where one corpus comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from nmt.config.clean import CorpusClean
from nmt.config.section import Section, raise_together


class Source(Section):
    """Where one corpus comes from: aligned files, files that contain both languages, an OPUS corpus, or a dataset on
    the Hugging Face Hub. Each source has exactly one of `files`, `path`, `opus` and `hub`."""

    files: dict[str, str] | None = None
    """Aligned files, whose lines with the same number form a pair: language code -> file name relative to `data.root`,
    or URL. Files ending in .gz, .bz2, .xz or .zst are decompressed."""
    path: str | None = None
    """A file that contains both languages, a folder of such files, or a pattern such as `memories/*.tmx`, relative to
    `data.root`; or a URL. Formats: TMX, XLIFF, PO, TSV, CSV, JSON Lines, Parquet and Arrow, also compressed or in a
    .zip or .tar archive."""
    format: Literal["tmx", "xliff", "po", "tsv", "csv", "jsonl", "parquet", "arrow", "moses"] | None = None
    """The format of `path`; null: determined by each file's name. `moses` is a .zip archive with two aligned files,
    NAME.de and NAME.en, as distributed by OPUS."""
    members: str = "*"
    """Which files of a folder or archive are read, as a pattern of names in which `*` matches any text."""
    opus: str | None = None
    """An OPUS corpus (opus.nlpl.eu), optionally with its version: `Europarl/v8`. Without a version, the latest."""
    hub: str | None = None
    """A dataset repository on the Hub, `owner/name`."""
    revision: str = "main"
    """Branch, tag or commit of the Hub repository."""
    paths: list[str] = Field([])
    """Files within the Hub repository, all in the same format (one of those of `path`); `*` matches any text."""
    stream: bool = False
    """Whether the .parquet or .jsonl files of the Hub are read over the network every time instead of being downloaded
    once."""
    column: str | None = None
    """Name of the column that contains a mapping from language code to text, such as `translation`."""
    columns: dict[str, str] | None = None
    """Language code -> column with its text, if columns are not named after language codes. In TSV and CSV files
    without a header, columns are given by number, starting from 1."""
    score: str | None = None
    """Training corpora only: the column that contains a score for each pair, where higher is better. For `files`, the
    name of a file with one score per line; for `moses` and `opus`, the suffix of such a file in the archive."""
    sha256: str | dict[str, str] | None = None
    """Expected SHA-256 of the file or of the `opus` archive; for `files`, one per language. A mismatch is an error."""
    pairs: int | None = Field(None, ge=1)
    """Expected number of pairs read; any other number is an error."""
    name: str | None = None
    """Name of the corpus in reports; by default the name of the file or repository."""
    license: str | None = None
    """Licence of the text as its publisher states it, such as `CC BY 4.0`. It appears in model cards."""
    repeat: int = Field(1, ge=1, le=1000)
    """Training corpora only: how many times each pair that is kept occurs in the training text."""
    weight: float | None = Field(None, gt=0.0)
    """Training corpora only: share of the training examples, relative to the weights of the other corpora; null:
    proportional to its size. It can be changed without preparing the data again."""
    clean: CorpusClean | None = None
    """Training corpora only: cleaning steps that differ from `data.clean`."""

    @field_validator("columns", mode="before")
    @classmethod
    def _numbers_are_names(cls, columns: object) -> object:
        if not isinstance(columns, dict):
            return columns
        return {key: _number_as_name(value) for key, value in columns.items()}

    @field_validator("score", mode="before")
    @classmethod
    def _number_is_name(cls, score: object) -> object:
        return _number_as_name(score)

    @field_validator("sha256", mode="before")
    @classmethod
    def _check_sha256(cls, sha256: object) -> object:
        for value in sha256.values() if isinstance(sha256, dict) else [sha256]:
            if value is not None and not (isinstance(value, str) and re.fullmatch("[0-9a-fA-F]{64}", value)):
                raise ValueError(f"must be 64 hexadecimal digits, by language for files; found {value!r}")
        return sha256

    @field_validator("license")
    @classmethod
    def _check_license(cls, license: str | None) -> str | None:  # noqa: A002 (the name of the setting)
        if license is not None and not license.strip():
            raise ValueError("is blank: name the licence, such as CC BY 4.0, or leave license out")
        return license

    @field_validator("repeat", mode="before")
    @classmethod
    def _check_repeat(cls, repeat: object) -> object:
        if isinstance(repeat, float) and not repeat.is_integer():
            raise ValueError(
                f"must be a whole number, found {repeat:g}; for fractional proportions set weight on every training "
                "corpus, such as weight: 0.5"
            )
        return repeat

    @model_validator(mode="after")
    def _check(self) -> Source:
        problems = []
        if sum(given is not None for given in (self.files, self.path, self.opus, self.hub)) != 1:
            problems.append("give exactly one of files, path, opus and hub")
        if self.hub is None and (self.paths or self.stream):
            problems.append("paths and stream are only available with hub")
        if self.hub is not None:
            problems += self._problems_of_hub()
        if self.opus is not None and not re.fullmatch(r"[^/\s]+(/[^/\s]+)?", self.opus):
            problems.append(
                f"opus: must be a corpus, optionally with its version, such as Europarl/v8; found {self.opus!r}"
            )
        if self.column is not None and self.columns is not None:
            problems.append("give column or columns, not both")
        if (self.files is not None or self.opus is not None) and (self.column or self.columns):
            problems.append("column and columns are only available with path and hub")
        if self.clean is not None and self.clean.min_score is not None and self.score is None:
            problems.append("clean.min_score needs score, which names the column or file with the scores")
        if self.path is None and (self.format is not None or self.members != "*"):
            problems.append("format and members are only available with path")
        if self.sha256 is not None and (self.hub or isinstance(self.sha256, str) == bool(self.files)):
            problems.append(
                "sha256 must be text for path and opus, and a mapping from language to text for files; "
                "for hub, set revision to a commit instead"
            )
        problems += [problem for name in (self.path, *(self.files or {}).values()) if (problem := _url_problem(name))]
        raise_together(problems)
        return self

    def _problems_of_hub(self) -> Iterator[str]:
        if not self.paths:
            yield "hub needs paths, the files within the repository, such as data/*.parquet"
        endings = {Path(path).suffix for path in self.paths}
        if len(endings) > 1:
            yield f"paths must all have the same suffix, found {sorted(endings)}"
        if self.stream and not endings <= {".parquet", ".jsonl"}:
            yield f"stream needs .parquet or .jsonl files, found {sorted(endings)}"

    @property
    def label(self) -> str:
        """The corpus name used in reports."""
        if self.opus is not None:
            return self.name or self.opus.replace("/", "-")
        file = self.path or next(iter((self.files or {"": "?"}).values()))
        return self.name or self.hub or Path(without_query(file)).name


NOT_STATED = "not stated"
"""Stands for the licence of a source that states none."""


def joint_license(sources: Iterable[Source]) -> str | None:
    """Return the licences of a text that combines several sources, separated by commas; None if no source has one."""
    licenses = dict.fromkeys(source.license or NOT_STATED for source in sources)
    return None if licenses.keys() <= {NOT_STATED} else ", ".join(licenses)


def without_query(name: str) -> str:
    """Return a file name or URL without the URL's query, which may contain a secret signature."""
    return name.partition("?")[0] if is_url(name) else name


def is_url(name: str) -> bool:
    """Whether a file name is a URL."""
    return "://" in name


def _url_problem(name: str | None) -> str | None:
    if name is None or not is_url(name):
        return None
    if not name.startswith(("https://", "http://")):
        return f"{name}: only https:// and http:// URLs are supported"
    host = name.split("/")[2]
    return (
        f"{host.rpartition('@')[2]}: the URL contains a password, which would be recorded; download the file yourself"
        if "@" in host
        else None
    )


def _number_as_name(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
