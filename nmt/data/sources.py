"""Settings of the sources of corpora."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from nmt.prepare.cleaning.settings import CorpusClean
from nmt.section import Section


def _check_sha256(sha256: str) -> str:
    if not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise ValueError(f"must be 64 hexadecimal digits, found {sha256!r}")
    return sha256


def _check_license(name: str) -> str:
    if not name.strip():
        raise ValueError("is blank: state the licence, such as CC BY 4.0, or leave out the key license")
    return name


def _check_opus(name: str) -> str:
    if not re.fullmatch(r"[^/\s]+(/[^/\s]+)?", name):
        raise ValueError(f"must be a corpus, optionally with its version, such as Europarl/v8; found {name!r}")
    return name


def _check_tags(tags: dict[str, str]) -> dict[str, str]:
    for word in chain(tags, tags.values()):
        if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_.-]*", word):
            raise ValueError(
                f"{word!r} cannot be a name or value of a tag; use ASCII letters, digits, '_', '.' and '-', and begin "
                "with a letter or digit"
            )
    if "to" in tags:
        raise ValueError("to is the name of the tags of target languages; choose another name")
    return tags


def _check_url(name: str) -> str:
    if not is_url(name):
        return name
    if not name.startswith(("https://", "http://")):
        raise ValueError(f"{name}: only https:// and http:// URLs are supported")
    host = name.split("/")[2]
    if "@" in host:
        raise ValueError(
            f"{host.rpartition('@')[2]}: the URL contains a password, which would be recorded; download the file "
            "yourself"
        )
    return name


def _number_as_name(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Sha256 = Annotated[str, AfterValidator(_check_sha256)]
FileName = Annotated[str, AfterValidator(_check_url)]
"""A file name or a URL."""
Column = Annotated[str, BeforeValidator(_number_as_name)]
"""The name of a column, or its number."""


class Files(Section):
    """Settings of aligned files, in which lines with the same number, or the same verses, form a pair."""

    files: dict[str, FileName]
    """Language code -> file name relative to `data.root`, or URL. Files ending in .gz, .bz2, .xz or .zst are
    decompressed. A file named .usfm or .sfm, or a folder or archive of such files, is read as USFM (Paratext): verses
    with the same book, chapter and number form a pair."""
    vref: str | None = None
    """A file that names the verse in each line of `files`, such as `MRK 1:1`, as in the eBible corpus. Blank lines are
    missing verses, and a line `<range>` belongs to the verse above. One side may also be USFM."""
    books: list[str] | None = None
    """The books that are read of USFM or of files with `vref`, such as `[MRK, JHN]`; null: all. Books of a development
    or test set are dropped from the training text verse by verse, as an overlap."""
    sha256: dict[str, Sha256] | None = None
    """Expected SHA-256 of the file or archive; for `files`, language code -> SHA-256. A mismatch is an error."""


class Languages(Section):
    """Settings of sources whose files do not show their languages."""

    languages: list[str] | None = None
    """The languages of the corpus, if it is not used for all of `data.directions`: [de, en]. null: those of `columns`,
    or all."""


class Columns(Section):
    """Settings of sources that may be tables."""

    columns: dict[str, Column | Annotated[list[Column], Field(min_length=1)]] | None = None
    """Language code -> column with its text, if columns are not named after language codes. `translation.de` names the
    field `de` of the column `translation`. In TSV and CSV files without a header, columns are given by number, starting
    from 1. A list such as `[en-GB, en]` has names in order of preference: each unit of TMX, or object of JSON Lines,
    is read with the first name that has text, another table with the first in its header."""
    document: Column | None = None
    """The column that names the document of each pair, for data.documents; in TMX, the type of such properties."""


class Paths(Section):
    """Settings of files that contain both languages."""

    path: FileName
    """A file that contains both languages, a folder of such files, or a pattern such as `memories/*.tmx`, relative to
    `data.root`; or a URL. Formats: TMX, XLIFF, PO, LIFT, TSV, CSV, JSON Lines, Parquet and Arrow, also compressed or in
    a .zip or .tar archive."""
    format: Literal["tmx", "xliff", "po", "lift", "tsv", "csv", "jsonl", "parquet", "arrow", "moses"] | None = None
    """The format of `path`; null: determined by each file's name. `moses` is a .zip archive with two aligned files,
    NAME.de and NAME.en, as distributed by OPUS. `tsv` also stands for tables whose quotes are part of the text."""
    members: str = "*"
    """Which files of a folder or archive are read, as a pattern of names in which `*` matches any text."""
    sha256: Sha256 | None = None
    """Expected SHA-256 of the file or archive; for `files`, language code -> SHA-256. A mismatch is an error."""


class Opus(Section):
    """Settings of a corpus of OPUS (opus.nlpl.eu)."""

    opus: Annotated[str, AfterValidator(_check_opus)]
    """Name of the corpus, optionally with its version: `Europarl/v8`. Without a version, the latest."""
    sha256: Sha256 | None = None
    """Expected SHA-256 of the file or archive; for `files`, language code -> SHA-256. A mismatch is an error."""


class Hub(Section):
    """Settings of a dataset on the Hugging Face Hub."""

    hub: str
    """The dataset repository, `owner/name`."""
    revision: str = "main"
    """Branch, tag or commit of the repository; a commit fixes the content."""
    paths: list[str] = Field(min_length=1)
    """Files within the repository, all in the same format (one of those of `path`), such as `data/*.parquet`; `*`
    and `?` match any text and any character except slashes, and brackets stand for themselves."""

    @field_validator("paths")
    @classmethod
    def _check_paths(cls, paths: list[str]) -> list[str]:
        if len(endings := {Path(path).suffix for path in paths}) > 1:
            raise ValueError(f"must all have the same suffix, found {sorted(endings)}")
        return paths


class TeacherRecord(Section):
    """A record of the language model that translated a side of a corpus. Recipes write it, and model cards show it."""

    model: str
    """The language model, as its server names it; several names if they changed."""
    host: str
    """The host of the server."""
    prompt: str
    """The template of the prompts."""
    temperature: float | None = None
    """The temperature of the requests; null: the server's default."""
    date: str
    """The date (UTC) of the requests, or the first and the last one."""
    lines: int
    """Number of translations."""
    tokens: int
    """Number of tokens read and written."""
    terms: str
    """What the provider's terms, or the licence of the model, say about training on the translations."""


class Source(Section):
    """Settings that all sources have."""

    pairs: int | None = Field(None, ge=1)
    """Expected number of pairs read; any other number is an error."""
    name: str | None = None
    """Name of the corpus in reports; by default the name of the file or repository."""
    license: Annotated[str, AfterValidator(_check_license)] | None = None
    """Licence of the text as its publisher states it, such as `CC BY 4.0`. It appears in model cards."""
    tags: Annotated[dict[str, str], AfterValidator(_check_tags)] | None = None
    """Kind of the text: name -> value, such as `domain: help` or `style: formal`. The model reads the tags before the
    source, and `nmt translate --tag domain=help` chooses among them."""

    @property
    def named_languages(self) -> list[str] | None:
        """The languages that the settings name; None if they name none."""
        for field in ("languages", "files", "columns"):
            if (names := getattr(self, field, None)) is not None:
                return [*names]
        return None

    def has_languages(self, pair: Collection[str]) -> bool:
        """Return whether the source may have text in both languages of a pair."""
        return self.named_languages is None or {*pair} <= {*self.named_languages}

    @property
    def label(self) -> str:
        """The corpus name used in reports."""
        match self:
            case _ if self.name:
                return self.name
            case OpusSource():
                return self.opus.replace("/", "-")
            case HubSource():
                return self.hub
            case PathSource():
                return Path(without_query(self.path)).name or self.path
            case FilesSource():
                return Path(without_query(next(iter(self.files.values()), "?"))).name
        raise TypeError(type(self))

    @property
    def tag_names(self) -> tuple[str, ...]:
        """The tags as `--tag` takes them: `domain=help`."""
        return tuple(f"{name}={value}" for name, value in sorted((self.tags or {}).items()))


class FilesSource(Source, Files):
    """A source with aligned files."""


class PathSource(Source, Languages, Columns, Paths):
    """A source with files that contain both languages."""


class OpusSource(Source, Languages, Opus):
    """A source that is a corpus of OPUS."""


class HubSource(Source, Languages, Columns, Hub):
    """A source that is a dataset on the Hugging Face Hub."""


class TrainSource(Source):
    """Settings that only training corpora have."""

    score: Column | None = None
    """The column that contains a score for each pair, where higher is better. For `files`, the name of a file with one
    score per line; for `moses` and `opus`, the suffix of such a file in the archive."""
    repeat: int = Field(1, ge=1, le=1000)
    """How many times each pair that is kept occurs in the training text."""
    weight: float | None = Field(None, gt=0.0)
    """Share of the training examples, relative to the weights of the other corpora; null: proportional to its size. It
    can be changed without preparing the data again."""
    to: str | None = None
    """The only target language for which the corpus is used, of several directions; null: all. `nmt back-translate`
    sets it, so that no machine translation is a target."""
    teacher: TeacherRecord | None = None
    """The language model that has translated a side; `nmt distil` and `nmt back-translate` write it."""
    clean: CorpusClean | None = None
    """Cleaning steps that differ from `data.clean`."""
    valid: int | None = Field(None, ge=1, le=100_000)
    """Number of pairs of this corpus to hold out for the development set, as `data.valid` does from all text; at most a
    tenth of the corpus. The development set has the pairs of all corpora with this setting, which replace the default
    of `data.valid`."""
    test: int | None = Field(None, ge=1, le=100_000)
    """Number of pairs of this corpus to hold out as a test set, which has the name of the corpus; at most a tenth of
    the corpus."""

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
    def _check_score(self) -> TrainSource:
        if self.clean is not None and self.clean.min_score is not None and self.score is None:
            raise ValueError("clean.min_score needs score, the column or file with the scores")
        return self


class TrainFiles(TrainSource, FilesSource):
    """A training corpus in aligned files."""


class TrainPath(TrainSource, PathSource):
    """A training corpus in files that contain both languages."""


class TrainOpus(TrainSource, OpusSource):
    """A training corpus of OPUS."""


class TrainHub(TrainSource, HubSource):
    """A training corpus on the Hugging Face Hub."""


def score_of(source: Source) -> str | None:
    """Return the column or file with the scores of a source; None if it has no scores."""
    return source.score if isinstance(source, TrainSource) else None


KINDS: dict[str, type[TrainSource]] = {"files": TrainFiles, "path": TrainPath, "opus": TrainOpus, "hub": TrainHub}
"""The kinds of training corpora, by the setting that each must have."""


def kind_of(source: object) -> str | None:
    """Return the kind of a source or of a mapping of settings; None if it is not determined."""
    if isinstance(source, Mapping):
        given = [kind for kind in KINDS if source.get(kind) is not None]
        return given[0] if len(given) == 1 else None
    return next((kind for kind in KINDS if hasattr(source, kind)), None)


def tag(source: object) -> str | None:
    """Return the tag of a source's kind, which pydantic inserts into the location of an error."""
    kind = kind_of(source)
    return None if kind is None else f"<{kind}>"


NO_KIND = "kind_of_source"
"""Type of the error for a source whose kind is not determined."""
_BY_KIND = Discriminator(
    tag, custom_error_type=NO_KIND, custom_error_message="be a mapping with exactly one of files, path, opus and hub"
)
_MONO_KIND = Discriminator(tag, custom_error_type=NO_KIND, custom_error_message="be a mapping with either files or hub")
AnySource: TypeAlias = Annotated[
    Annotated[FilesSource, Tag("<files>")]
    | Annotated[PathSource, Tag("<path>")]
    | Annotated[OpusSource, Tag("<opus>")]
    | Annotated[HubSource, Tag("<hub>")],
    _BY_KIND,
]
"""A development or test set."""
AnyTrainSource: TypeAlias = Annotated[
    Annotated[TrainFiles, Tag("<files>")]
    | Annotated[TrainPath, Tag("<path>")]
    | Annotated[TrainOpus, Tag("<opus>")]
    | Annotated[TrainHub, Tag("<hub>")],
    _BY_KIND,
]
"""A training corpus."""
MonoSource: TypeAlias = Annotated[
    Annotated[FilesSource, Tag("<files>")] | Annotated[HubSource, Tag("<hub>")], _MONO_KIND
]
"""A source of monolingual text."""


NOT_STATED = "not stated"
"""Text that replaces the licence of a source without one."""


def joint_license(sources: Iterable[Source]) -> str | None:
    """Return the licences of several sources, separated by commas; None if no source has one."""
    licenses = dict.fromkeys(source.license or NOT_STATED for source in sources)
    return None if licenses.keys() <= {NOT_STATED} else ", ".join(licenses)


def without_query(name: str) -> str:
    """Return a file name or URL without its query, which may contain a secret."""
    return name.partition("?")[0] if is_url(name) else name


def is_url(name: str) -> bool:
    """Return whether a file name is a URL."""
    return "://" in name


def train_key(number: int) -> str:
    """Return the key of a training corpus in `data`, in manifests and reports, such as train.0."""
    return f"train.{number}"


def train_number(key: str) -> int | None:
    """Return the number of the training corpus with this key, or None for the key of another source."""
    split, _, number = key.partition(".")
    return int(number) if split == "train" and number.isdecimal() else None
