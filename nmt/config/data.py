"""Settings of the corpora: their sources and their cleaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from nmt.config.clean import CleanConfig, CorpusClean
from nmt.config.section import Section, raise_together
from nmt.config.source import Source

DIRECTION = re.compile(r"^([A-Za-z][A-Za-z0-9_]*)-([A-Za-z][A-Za-z0-9_]*)$")

LABEL = "label"
"""In place of a target language: what stands there are labels."""


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
    serves both directions. In place of a target language `label` stands for labels, `en-label`: what is trained is a
    classifier of text."""
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
    mono: dict[str, Annotated[list[Source], Field(min_length=1)]] = Field({})
    """Monolingual text: language code -> sources with `files` or `hub`, which name this language alone. A blank line
    ends a document."""
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
            note = (
                ": a model has one source and one target language; train a run for each pair"
                if re.search(r"[,;+&\s]", self.direction)
                else "; a region is written with an underscore, as in pt_BR-en" * (self.direction.count("-") > 1)
            )
            problems.append(f"direction: {self.direction!r} is not of the form de-en{note}")
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
        if match is not None:
            problems += _mono_problems(self)
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

    def mono_sources(self) -> Iterator[tuple[str, str, Source]]:
        """Yield every source of monolingual text with its key within this section, `mono.en.0`, and its language."""
        for language in sorted(self.mono):
            for i, source in enumerate(self.mono[language]):
                yield f"mono.{language}.{i}", language, source

    def without_licenses(self) -> DataConfig:
        """Return the same corpora without their licences, which neither preparation nor training depends on."""

        def bare(source: Source) -> Source:
            return source.model_copy(update={"license": None})

        changes = {
            "train": [bare(source) for source in self.train],
            "valid": bare(self.valid) if isinstance(self.valid, Source) else self.valid,
            "test": {name: bare(source) for name, source in self.test.items()},
            "mono": {language: [bare(source) for source in own] for language, own in self.mono.items()},
        }
        return self.model_copy(update=changes)

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
    def has_labels(self) -> bool:
        """Whether the target is a label, and not text."""
        return self.tgt == LABEL

    @property
    def label_side(self) -> int | None:
        """Which of `languages` stands for labels; None if both are languages."""
        return self.languages.index(LABEL) if self.has_labels else None

    @property
    def text_languages(self) -> tuple[str, ...]:
        """`languages` without labels."""
        return tuple(language for language in self.languages if language != LABEL)

    @property
    def directory(self) -> Path:
        """`dir` with `{direction}` filled in."""
        return Path(self.dir.replace("{direction}", "-".join(self.languages)))


def _mono_problems(data: DataConfig) -> Iterator[str]:
    """Yield what is wrong with the sources of monolingual text."""
    if others := data.mono.keys() - {data.src, data.tgt}:
        yield f"mono: must name {data.src} or {data.tgt}, found {', '.join(sorted(others))}"
    if data.mono and "mono" in data.test:
        yield "test: 'mono' is no name for a test set beside data.mono, whose files are named so; take another"
    for key, language, source in data.mono_sources():
        if source.path is not None or source.opus is not None:
            yield f"{key}: monolingual text is read from files, such as files: {{{language}: NAME}}, or from hub"
        if any(not path.endswith((".parquet", ".jsonl")) for path in source.paths):
            yield f"{key}.paths: monolingual text is read from .parquet and .jsonl files of the hub"
        for field in ("files", "columns", "sha256"):
            given = getattr(source, field)
            if isinstance(given, dict) and set(given) != {language}:
                yield f"{key}.{field}: must name {language} alone, found {', '.join(given) or 'none'}"
        for field in ("score", "repeat", "weight", "clean"):
            if getattr(source, field) != Source.model_fields[field].default:
                yield f"{key}.{field}: only of training corpora"
