"""Settings of the corpus: its sources and its cleaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from nmt.config.clean import CleanConfig, CorpusClean
from nmt.config.section import Section, raise_together

DIRECTION = re.compile(r"^([A-Za-z][A-Za-z0-9_]*)-([A-Za-z][A-Za-z0-9_]*)$")


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
        return self.name or self.hub or Path(self.path or next(iter((self.files or {"": "?"}).values()))).name


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


def _kind_of_valid(value: object) -> str | None:
    """Return the kind of `data.valid` that a value is meant to be."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return LINES if isinstance(value, int) else SHARE
    return SOURCE if isinstance(value, Mapping | Source) else None


SOURCE, LINES, SHARE = "<source>", "<lines>", "<share>"
"""What pydantic adds to the location of an error, after `valid`, for the kind of the value."""

Valid = Annotated[
    Annotated[Source, Tag(SOURCE)]
    | Annotated[int, Field(ge=1, le=100_000), Tag(LINES)]
    | Annotated[float, Field(gt=0.0, lt=1.0), Tag(SHARE)],
    Discriminator(
        _kind_of_valid,
        custom_error_type="kind_of_valid",
        custom_error_message="be a source with files, path, opus or hub, or what to split off the training text: a "
        "number of lines such as 300 or a share such as 0.01",
    ),
]


class DataConfig(Section):
    """The translation direction and the corpora."""

    direction: str
    """Source and target language, `de-en`; a region is written with an underscore, `pt_BR-en`. One data directory
    serves both directions."""
    dir: str = "data/prepared/{direction}"
    """The data directory that `nmt prepare` writes. `{direction}` stands for both languages in alphabetical order."""
    root: str = "."
    """The folder for relative names in `files`, itself relative to the working directory. If `data/sample` does not
    exist, that name stands for the sample corpus installed with nmt."""
    train: list[Source] = Field(min_length=1)
    """The training corpora."""
    temperature: float | None = Field(None, ge=1.0)
    """Mix the training corpora by size ** (1 / temperature): 1 is by size, and the higher it is, the more alike are
    their shares; 5 is usual where small corpora are to count. null: by size, or by the `weight` of each. A change needs
    no new preparation."""
    valid: Valid = 1000
    """The development set, on which checkpoints are selected. A number splits it off the cleaned training text by a
    hash of each pair: a number of lines, but at most a tenth (`300`), or a share (`0.01`). As the text grows, all pairs
    of a share stay in it, and most of a number of lines. Training pairs that share a side with it are left out and
    counted."""
    test: dict[str, Source] = Field({})
    """Test sets by name; they never influence training."""
    max_chars: int = Field(1000, ge=1)
    """Maximum length of a side in characters; longer training pairs are dropped."""
    max_pieces: int = Field(250, ge=1)
    """Maximum length of a side in pieces; longer training pairs are dropped. Lines to translate are read up to four
    times this length."""
    max_ratio: float = Field(4.0, ge=1.0)
    """Maximum length ratio of the sides in characters, after adding 15 to each so that short pairs may differ more;
    other training pairs are dropped."""
    clean: CleanConfig = CleanConfig()
    """Further cleaning of the training text."""

    @field_validator("valid", mode="before")
    @classmethod
    def _check_valid(cls, valid: object) -> object:
        if isinstance(valid, float) and valid >= 1:
            raise ValueError(f"a number of lines is whole, such as 300; a share is below 1; found {valid!r}")
        if isinstance(valid, str) and re.fullmatch(r"[\d.]+(e-?\d+)?", valid, re.IGNORECASE):
            raise ValueError(f"must be a number without quotes: write {valid}, not {valid!r}")
        return valid

    @model_validator(mode="after")
    def _check(self) -> DataConfig:
        problems = []
        match = DIRECTION.match(self.direction)
        if match is None:
            problems.append(f"direction: {self.direction!r} is not of the form de-en")
        elif match[1] == match[2]:
            problems.append(f"direction: {self.direction!r} names one language twice")
        else:
            for where, source in self.sources():
                for field in ("files", "columns", "sha256"):
                    given = getattr(source, field)
                    if isinstance(given, dict) and set(given) != {match[1], match[2]}:
                        wanted = " and ".join(sorted({match[1], match[2]}))
                        problems.append(f"{where}.{field}: must name {wanted}, found {', '.join(given) or 'none'}")
        problems += [f"{key}.repeat: only training corpora are repeated" for key, source in self.sources()
                     if source.repeat > 1 and not key.startswith("train.")]  # fmt: skip
        problems += [f"{key}.weight: only training corpora have a weight" for key, source in self.sources()
                     if source.weight is not None and not key.startswith("train.")]  # fmt: skip
        problems += [f"{key}.clean: only training corpora are cleaned" for key, source in self.sources()
                     if source.clean is not None and not key.startswith("train.")]  # fmt: skip
        for where, clean in [("", self.clean), *((f"{key}.", source.clean) for key, source in self.sources())]:
            for language in (clean and clean.block_lists) or ():
                if match and language not in match.groups():
                    problems.append(f"{where}clean.block_lists: must name {match[1]} or {match[2]}, found {language}")
        problems += [f"{key}.score: only of training corpora" for key, source in self.sources()
                     if source.score is not None and not key.startswith("train.")]  # fmt: skip
        for name in self.test:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or name in ("train", "valid"):
                problems.append(
                    f"test: {name!r} is not a name for a test set; use letters, digits, _ . - and not train or valid"
                )
        raise_together(problems)
        return self

    def sources(self) -> Iterator[tuple[str, Source]]:
        """Yield every source with its key within this section; a development set that is split off has none."""
        for i, source in enumerate(self.train):
            yield f"train.{i}", source
        if isinstance(self.valid, Source):
            yield "valid", self.valid
        for name, source in self.test.items():
            yield f"test.{name}", source

    def clean_of(self, key: str) -> CorpusClean:
        """Return the cleaning of a training corpus, `train.0`, in full."""
        own = self.train[int(key.removeprefix("train."))].clean or CorpusClean()
        limits = {"max_chars": own.max_chars or self.max_chars, "max_ratio": own.max_ratio or self.max_ratio}
        return own.over(self.clean).model_copy(update=limits)

    @property
    def src(self) -> str:
        """The source language."""
        return self.direction.split("-")[0]

    @property
    def tgt(self) -> str:
        """The target language."""
        return self.direction.split("-")[1]

    @property
    def languages(self) -> tuple[str, str]:
        """Both languages in alphabetical order: the same for either direction."""
        first, second = sorted(self.direction.split("-"))
        return first, second

    @property
    def directory(self) -> Path:
        """`dir` with `{direction}` filled in."""
        return Path(self.dir.replace("{direction}", "-".join(self.languages)))
