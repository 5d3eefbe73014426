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
    """Where one corpus comes from: aligned files, files that hold both languages, a corpus of OPUS, or a dataset on the
    Hugging Face hub."""

    files: dict[str, str] | None = None
    """Aligned files: language code -> file name under `data.root`, or URL, line n of one with line n of the other.
    Names ending in .gz, .bz2, .xz or .zst are decompressed. Give this, `path`, `opus` or `hub`."""
    path: str | None = None
    """A file that holds both languages, a folder of such files, or a pattern such as `memories/*.tmx`, under
    `data.root`; or a URL. TMX, XLIFF, PO, TSV, CSV, JSON Lines, Parquet or Arrow; perhaps compressed, or in a .zip or
    .tar archive."""
    format: Literal["tmx", "xliff", "po", "tsv", "csv", "jsonl", "parquet", "arrow", "moses"] | None = None
    """The format of `path`; null: each file by its name. `moses` is a .zip with two aligned files, NAME.de and NAME.en,
    as OPUS has them."""
    members: str = "*"
    """The files to read of a folder or an archive, by their names in it; `*` matches any text."""
    opus: str | None = None
    """A corpus of OPUS (opus.nlpl.eu) with its version, such as `Europarl/v8`; without one, the newest."""
    hub: str | None = None
    """A dataset repository on the hub, `owner/name`."""
    revision: str = "main"
    """The branch, tag or commit of the hub repository."""
    paths: list[str] = Field([])
    """Files within the hub repository, all in one format of `path`, `*` allowed."""
    stream: bool = False
    """Read the .parquet or .jsonl files of the hub over the network each time, rather than keep a copy of them."""
    column: str | None = None
    """The column that contains a mapping from language code to text, such as `translation`."""
    columns: dict[str, str] | None = None
    """Language code -> column with its text, if the columns are not named after the language codes. In TSV and CSV a
    number counts columns from 1, and the file has no header."""
    score: str | None = None
    """For a training corpus: the column with a number for each pair, the greater the better; for `files`, the name of a
    file with a number per line; for `moses` and `opus`, the ending of such a file in the archive."""
    sha256: str | dict[str, str] | None = None
    """The expected SHA-256 of the file or the archive of `opus`, of `files` by language; other content is refused."""
    pairs: int | None = Field(None, ge=1)
    """The expected number of pairs that are read; another number is an error."""
    name: str | None = None
    """The corpus name in reports; by default the file or repository name."""
    license: str | None = None
    """The licence of the text, in the words of who gives it out, such as `CC BY 4.0`. Model cards state it."""
    repeat: int = Field(1, ge=1, le=1000)
    """For a training corpus: how many times each of its pairs that is kept occurs in the training text."""
    weight: float | None = Field(None, gt=0.0)
    """For a training corpus: its share of what is learned from, relative to the weights of the others; null: by its
    size. A change needs no new preparation."""
    clean: CorpusClean | None = None
    """For a training corpus: cleaning that differs from `data.clean`."""

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
                f"must be a whole number, found {repeat:g}: how many times each pair occurs in the training text; "
                "to give a corpus more or less weight, give each a weight, such as weight: 0.5"
            )
        return repeat

    @model_validator(mode="after")
    def _check(self) -> Source:
        problems = []
        if sum(given is not None for given in (self.files, self.path, self.opus, self.hub)) != 1:
            problems.append("give one of files, path, opus and hub")
        if self.hub is None and (self.paths or self.stream):
            problems.append("paths and stream belong to hub")
        if self.hub is not None:
            problems += self._problems_of_hub()
        if self.opus is not None and not re.fullmatch(r"[^/\s]+(/[^/\s]+)?", self.opus):
            problems.append(
                f"opus: must be a corpus, perhaps with its version, such as Europarl/v8; found {self.opus!r}"
            )
        if self.column is not None and self.columns is not None:
            problems.append("give either column or columns")
        if (self.files is not None or self.opus is not None) and (self.column or self.columns):
            problems.append("column and columns belong to path and hub")
        if self.clean is not None and self.clean.min_score is not None and self.score is None:
            problems.append("clean.min_score needs score, which says where the scores are")
        if self.path is None and (self.format is not None or self.members != "*"):
            problems.append("format and members belong to path")
        if self.sha256 is not None and (self.hub or isinstance(self.sha256, str) == bool(self.files)):
            problems.append(
                "sha256 is text for path and opus, a mapping from language to text for files; "
                "for hub, set revision to a commit"
            )
        problems += [problem for name in (self.path, *(self.files or {}).values()) if (problem := _url_problem(name))]
        raise_together(problems)
        return self

    def _problems_of_hub(self) -> Iterator[str]:
        if not self.paths:
            yield "hub needs paths: the files within the repository, such as data/*.parquet"
        endings = {Path(path).suffix for path in self.paths}
        if len(endings) > 1:
            yield f"paths must all end alike, found {sorted(endings)}"
        if self.stream and not endings <= {".parquet", ".jsonl"}:
            yield f"only .parquet and .jsonl are streamed, found {sorted(endings)}"

    @property
    def label(self) -> str:
        """The corpus name used in reports."""
        if self.opus is not None:
            return self.name or self.opus.replace("/", "-")
        file = self.path or next(iter((self.files or {"": "?"}).values()))
        return self.name or self.hub or Path(without_query(file)).name


NOT_STATED = "not stated"
"""In place of a licence that nobody has stated."""


def joint_license(sources: Iterable[Source]) -> str | None:
    """Return the licences of a text that was made from several sources; None if none of them is stated."""
    licenses = dict.fromkeys(source.license or NOT_STATED for source in sources)
    return None if licenses.keys() <= {NOT_STATED} else ", ".join(licenses)


def without_query(name: str) -> str:
    """Return the name of a file; of a URL without its query, which may have a signature that is not for others."""
    return name.partition("?")[0] if is_url(name) else name


def is_url(name: str) -> bool:
    """Whether the name of a file is a URL."""
    return "://" in name


def _url_problem(name: str | None) -> str | None:
    if name is None or not is_url(name):
        return None
    if not name.startswith(("https://", "http://")):
        return f"{name}: only files at https:// and http:// are downloaded"
    host = name.split("/")[2]
    return (
        f"{host.rpartition('@')[2]}: a URL with a password, which would be recorded; download the file yourself"
        if "@" in host
        else None
    )


def _number_as_name(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
