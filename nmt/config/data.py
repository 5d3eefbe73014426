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
    """Where one corpus comes from: aligned files, files that hold both languages, or a dataset on the Hugging Face
    hub."""

    files: dict[str, str] | None = None
    """Aligned files: language code -> file name under `data.root`, line n of one with line n of the other. Names ending
    in .gz, .bz2, .xz or .zst are decompressed. Give this, `path` or `hub`."""
    path: str | None = None
    """A file that holds both languages, a folder of such files, or a pattern such as `memories/*.tmx`, under
    `data.root`: TMX, XLIFF, PO, TSV, CSV, JSON Lines, Parquet or Arrow; perhaps compressed, or in a .zip or .tar
    archive."""
    format: Literal["tmx", "xliff", "po", "tsv", "csv", "jsonl", "parquet", "arrow"] | None = None
    """The format of `path`; null: each file by its name."""
    members: str = "*"
    """The files to read of a folder or an archive, by their names in it; `*` matches any text."""
    hub: str | None = None
    """A dataset repository on the hub, `owner/name`."""
    revision: str = "main"
    """The branch, tag or commit of the hub repository."""
    paths: list[str] = Field([])
    """Files within the hub repository, all .parquet or all .jsonl, `*` allowed."""
    column: str | None = None
    """The column that contains a mapping from language code to text, such as `translation`."""
    columns: dict[str, str] | None = None
    """Language code -> column with its text, if the columns are not named after the language codes. In TSV and CSV a
    number counts columns from 1, and the file has no header."""
    name: str | None = None
    """The corpus name in reports; by default the file or repository name."""
    repeat: int = Field(1, ge=1, le=1000)
    """For a training corpus: how many times each of its pairs that is kept occurs in the training text."""
    clean: CorpusClean | None = None
    """For a training corpus: cleaning that differs from `data.clean`."""

    @field_validator("columns", mode="before")
    @classmethod
    def _numbers_are_names(cls, columns: object) -> object:
        if not isinstance(columns, dict):
            return columns
        is_number = {key: isinstance(value, int) and not isinstance(value, bool) for key, value in columns.items()}
        return {key: str(value) if is_number[key] else value for key, value in columns.items()}

    @field_validator("repeat", mode="before")
    @classmethod
    def _check_repeat(cls, repeat: object) -> object:
        if isinstance(repeat, float) and not repeat.is_integer():
            raise ValueError(
                f"must be a whole number, found {repeat:g}: how many times each pair occurs in the training text; "
                "to give a corpus less weight, repeat the others, such as repeat: 2"
            )
        return repeat

    @model_validator(mode="after")
    def _check(self) -> Source:
        problems = []
        if sum(given is not None for given in (self.files, self.path, self.hub)) != 1:
            problems.append("give one of files, path and hub")
        if self.hub is not None:
            if not self.paths:
                problems.append("hub needs paths: the .parquet or .jsonl files within the repository")
            endings = {Path(path).suffix for path in self.paths}
            if self.paths and endings not in ({".parquet"}, {".jsonl"}):
                problems.append(f"paths must all end in .parquet or all in .jsonl, found {sorted(endings)}")
        elif self.paths:
            problems.append("paths belongs to hub")
        if self.column is not None and self.columns is not None:
            problems.append("give either column or columns")
        if self.files is not None and (self.column or self.columns):
            problems.append("column and columns belong to path and hub")
        if self.path is None and (self.format is not None or self.members != "*"):
            problems.append("format and members belong to path")
        raise_together(problems)
        return self

    @property
    def label(self) -> str:
        """The corpus name used in reports."""
        return self.name or self.hub or Path(self.path or next(iter((self.files or {"": "?"}).values()))).name


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
        custom_error_message="be a source with files, path or hub, or what to split off the training text: a number of "
        "lines such as 300 or a share such as 0.01",
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
                for field in ("files", "columns"):
                    given = getattr(source, field)
                    if given is not None and set(given) != {match[1], match[2]}:
                        wanted = " and ".join(sorted({match[1], match[2]}))
                        problems.append(f"{where}.{field}: must name {wanted}, found {', '.join(given) or 'none'}")
        problems += [f"{key}.repeat: only training corpora are repeated" for key, source in self.sources()
                     if source.repeat > 1 and not key.startswith("train.")]  # fmt: skip
        problems += [f"{key}.clean: only training corpora are cleaned" for key, source in self.sources()
                     if source.clean is not None and not key.startswith("train.")]  # fmt: skip
        for where, clean in [("", self.clean), *((f"{key}.", source.clean) for key, source in self.sources())]:
            for language in (clean and clean.block_lists) or ():
                if match and language not in match.groups():
                    problems.append(f"{where}clean.block_lists: must name {match[1]} or {match[2]}, found {language}")
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
