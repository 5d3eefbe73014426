"""Settings of the corpora, their sources, their cleaning and the tokenizer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from nmt.config.clean import CleanConfig, CorpusClean
from nmt.config.section import Section, raise_together
from nmt.config.source import AnySource, AnyTrainSource, HubSource, MonoSource, Source

DIRECTION = re.compile(r"^([A-Za-z][A-Za-z0-9_]*)-([A-Za-z][A-Za-z0-9_]*)$")

LABEL = "label"
"""The target "language" of texts with class labels."""


def _kind_of_valid(value: object) -> str | None:
    """Return the tag of the form of a `data.valid` value; None if the value has no valid form."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return LINES if isinstance(value, int) else SHARE
    return SOURCE if isinstance(value, Mapping | Source) else None


SOURCE, LINES, SHARE = "<source>", "<lines>", "<share>"
"""Tags of the forms of `data.valid`, which pydantic inserts into the location of an error."""

Valid = Annotated[
    Annotated[AnySource, Tag(SOURCE)]
    | Annotated[int, Field(ge=1, le=100_000), Tag(LINES)]
    | Annotated[float, Field(gt=0.0, lt=1.0), Tag(SHARE)],
    Discriminator(
        _kind_of_valid,
        custom_error_type="kind_of_valid",
        custom_error_message="be a source (with files, path, opus or hub), or the part of the training text to hold "
        "out: a number of lines such as 300, or a share such as 0.01",
    ),
]


class DataConfig(Section):
    """The translation direction and the corpora."""

    direction: str
    """Source and target language: `de-en`. Regions are written with an underscore: `pt_BR-en`. One data directory
    serves both directions. The target `label` stands for class labels: `en-label` trains a text classifier."""
    dir: str = "data/prepared/{direction}"
    """Data directory written by `nmt prepare`. `{direction}` is replaced by both languages in alphabetical order."""
    root: str = "."
    """Folder that relative file names of sources refer to, itself relative to the working directory. If `data/sample`
    does not exist, that name refers to the sample corpus installed with nmt."""
    train: list[AnyTrainSource]
    """The training corpora. Only an imported run has none."""
    temperature: float | None = Field(None, ge=1.0)
    """Mix the training corpora in proportion to size ** (1 / temperature). With 1, proportions follow size; higher
    values give small corpora a larger share (5 is a common choice). null: by size, or by the `weight` of each corpus.
    It can be changed without preparing the data again."""
    valid: Valid = 1000
    """The development set, used to select checkpoints: a source, or a part of the cleaned training text to hold out,
    given as a number of lines (`300`; at most a tenth of the text) or a share (`0.01`). Held-out pairs are chosen by a
    hash, so that most of them (with a share, all) stay the same when the text grows. Training pairs that have a side in
    common with them are removed and counted."""
    test: dict[str, AnySource] = Field({})
    """Test sets by name. They never influence training."""
    mono: dict[str, Annotated[list[MonoSource], Field(min_length=1)]] = Field({})
    """Monolingual text: language code -> sources with `files` or `hub`, which name only this language. A blank line
    ends a document."""
    max_chars: int = Field(1000, ge=1)
    """Maximum length of a side in characters; longer training pairs are dropped."""
    max_pieces: int = Field(250, ge=1)
    """Maximum length of a side in pieces; longer training pairs are dropped. After training, sequences of up to
    four times this length are read; the rest of a longer one is ignored."""
    max_ratio: float = Field(4.0, ge=1.0)
    """Maximum ratio of the lengths of the two sides in characters; training pairs with a higher ratio are dropped. 15
    is added to both lengths first, which tolerates larger differences in short pairs."""
    clean: CleanConfig = CleanConfig()
    """Additional cleaning of the training text."""

    @field_validator("valid", mode="before")
    @classmethod
    def _check_valid(cls, valid: object) -> object:
        if isinstance(valid, float) and valid >= 1:
            raise ValueError(
                f"must be a whole number of lines, such as 300, or a share below 1, such as 0.01; found {valid!r}"
            )
        if isinstance(valid, str) and re.fullmatch(r"[\d.]+(e-?\d+)?", valid, re.IGNORECASE):
            raise ValueError(f"must be a number without quotes: write {valid}, not {valid!r}")
        return valid

    @model_validator(mode="after")
    def _check(self) -> DataConfig:
        problems = []
        match = DIRECTION.match(self.direction)
        if match is None:
            note = (
                ": a model has one source and one target language; train one run per pair"
                if re.search(r"[,;+&\s]", self.direction)
                else "; a region is written with an underscore, as in pt_BR-en" * (self.direction.count("-") > 1)
            )
            problems.append(f"direction: {self.direction!r} is not of the form de-en{note}")
        elif match[1] == match[2]:
            problems.append(f"direction: {self.direction!r} names the same language twice")
        else:
            for where, each in self.sources():
                problems += _language_problems(where, each, {match[1], match[2]})
        cleaned = [(f"train.{i}.", source.clean) for i, source in enumerate(self.train)]
        for where, clean in [("", self.clean), *cleaned]:
            for language in (clean and clean.block_lists) or ():
                if match and language not in match.groups():
                    problems.append(f"{where}clean.block_lists: must name {match[1]} or {match[2]}, found {language}")
        for name in self.test:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or name in ("train", "valid"):
                problems.append(
                    f"test: {name!r} is not a valid name of a test set; use letters, digits, '_', '.' and '-', and not "
                    "train or valid"
                )
        if match is not None:
            problems += _mono_problems(self)
        raise_together(problems)
        return self

    def sources(self) -> Iterator[tuple[str, Source]]:
        """Yield the key and source of every corpus. A development set that is held out has no source."""
        for i, source in enumerate(self.train):
            yield f"train.{i}", source
        if isinstance(self.valid, Source):
            yield "valid", self.valid
        yield from ((f"test.{name}", source) for name, source in self.test.items())

    def mono_sources(self) -> Iterator[tuple[str, str, Source]]:
        """Yield the key (such as `mono.en.0`), language and source of all monolingual text."""
        for language in sorted(self.mono):
            for i, source in enumerate(self.mono[language]):
                yield f"mono.{language}.{i}", language, source

    def without(self, setting: Literal["license", "tags"]) -> DataConfig:
        """Return a copy without one of the settings of all sources."""

        def bare(source: Source) -> Source:
            return source.model_copy(update={setting: None})

        changes = {
            "train": [bare(source) for source in self.train],
            "valid": bare(self.valid) if isinstance(self.valid, Source) else self.valid,
            "test": {name: bare(source) for name, source in self.test.items()},
            "mono": {language: [bare(source) for source in own] for language, own in self.mono.items()},
        }
        return self.model_copy(update=changes)

    @property
    def tag_names(self) -> tuple[str, ...]:
        """The tags of all training corpora, in alphabetical order."""
        return tuple(sorted({tag for source in self.train for tag in source.tag_names}))

    def tags_of(self, split: str) -> list[str]:
        """Return the tags of the development set (`valid`) or of a test set; none for any other name."""
        source = self.valid if split == "valid" else self.test.get(split)
        return list(source.tag_names) if isinstance(source, Source) else []

    def clean_of(self, key: str) -> CorpusClean:
        """Return all cleaning settings of the training corpus `key`, such as `train.0`."""
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
    def sides(self) -> tuple[str, str]:
        """The source and the target language."""
        return self.src, self.tgt

    @property
    def languages(self) -> tuple[str, str]:
        """Both languages in alphabetical order, independent of the direction."""
        first, second = sorted(self.direction.split("-"))
        return first, second

    @property
    def has_labels(self) -> bool:
        """Whether the target is a label instead of text."""
        return self.tgt == LABEL

    @property
    def label_side(self) -> int | None:
        """Index in `languages` of the side that contains labels; None if both sides are text."""
        return self.languages.index(LABEL) if self.has_labels else None

    @property
    def text_languages(self) -> tuple[str, ...]:
        """The languages that are text, without `label`."""
        return tuple(language for language in self.languages if language != LABEL)

    @property
    def directory(self) -> Path:
        """The path of the data directory: `dir` with `{direction}` replaced."""
        return Path(self.dir.replace("{direction}", "-".join(self.languages)))


def _mono_problems(data: DataConfig) -> Iterator[str]:
    """Yield problems of the sources of monolingual text."""
    if others := data.mono.keys() - {data.src, data.tgt}:
        yield f"mono: must name {data.src} or {data.tgt}, found {', '.join(sorted(others))}"
    if data.mono and "mono" in data.test:
        yield "test: 'mono' is reserved for the files of data.mono; choose another name for the test set"
    for key, language, source in data.mono_sources():
        if isinstance(source, HubSource) and any(not path.endswith((".parquet", ".jsonl")) for path in source.paths):
            yield f"{key}.paths: monolingual text from the Hub must be in .parquet or .jsonl files"
        if source.tags is not None:
            yield f"{key}.tags: monolingual text has no tags"
        yield from _language_problems(key, source, {language})


def _language_problems(key: str, source: Source, languages: set[str]) -> Iterator[str]:
    """Yield problems of the mappings of a source whose keys are not exactly `languages`."""
    for field in ("files", "columns", "sha256"):
        given = getattr(source, field, None)
        if isinstance(given, dict) and set(given) != languages:
            yield f"{key}.{field}: must name {' and '.join(sorted(languages))}, found {', '.join(given) or 'none'}"


class TokenizerConfig(Section):
    """The SentencePiece BPE tokenizer, trained on the cleaned training text."""

    vocab_size: int = Field(10_000, ge=300, le=1_000_000)
    """Number of pieces, including the 256 bytes and the special pieces. A small corpus may yield fewer."""
    joint: bool = True
    """Whether both languages share one vocabulary; if false, each language has its own."""
