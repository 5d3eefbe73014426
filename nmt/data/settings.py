"""Settings of the corpora, their sources, their cleaning and the tokenizer."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import (
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from nmt.data.sources import AnySource, AnyTrainSource, HubSource, MonoSource, Source, train_key
from nmt.languages.directions import DIRECTION, LABEL, TO, LanguagePair, pair_of, sides_of
from nmt.prepare.cleaning.settings import CleanConfig, CorpusClean
from nmt.section import Section, raise_together

Drawn: TypeAlias = dict[str, dict[str, int | float]]
"""The name of a set, such as `valid`, -> the key of a corpus, such as `train.0`, or `train` for all text -> the number
of pairs (int) or share of all pairs (float) that the set takes from it."""


def _kind_of_valid(value: object) -> str | None:
    """Return the tag of the form of a `data.valid` value; None if the value has no valid form."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return LINES if isinstance(value, int) else SHARE
    return SOURCE if isinstance(value, Mapping | Source) else None


DEFAULT_VALID = 1000
"""Number of pairs that are held out for the development set."""
SOURCE = "<source>"
LINES = "<lines>"
SHARE = "<share>"
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

    direction: str = ""
    """Source and target language: `de-en`. Regions are written with an underscore: `pt_BR-en`. One data directory
    serves both directions. The target `label` stands for class labels: `en-label` trains a text classifier. With
    `directions`, the one that is used if only its target language is asked for."""
    languages: list[str] = Field([])
    """The languages of a model with several directions, if `directions` is not a list."""
    directions: list[str] = Field([])
    """The directions of one model, in place of `direction`: a list, such as [de-en, en-de, fr-en]; `all`; `to: en` or
    `from: en`, with all other languages. The model reads the target language as a tag before the source."""
    direction_temperature: float = Field(1.0, ge=1.0)
    """Mix the directions in proportion to pairs ** (1 / direction_temperature): 1 by size, 5 with larger shares for
    small directions. Within a direction, corpora are mixed as usual. It can be changed without preparing the data
    again."""
    dir: str = "data/prepared/{direction}"
    """Data directory written by `nmt prepare`. `{direction}` is replaced by all languages in alphabetical order."""
    root: str = "."
    """Folder that relative file names of sources refer to, itself relative to the working directory. If `data/sample`
    does not exist, that name refers to the sample corpus installed with nmt."""
    train: list[AnyTrainSource]
    """The training corpora. Only an imported run has none."""
    temperature: float | None = Field(None, ge=1.0)
    """Mix the training corpora in proportion to size ** (1 / temperature). With 1, proportions follow size; higher
    values give small corpora a larger share (5 is a common choice). null: by size, or by the `weight` of each corpus.
    It can be changed without preparing the data again."""
    valid: Valid | None = DEFAULT_VALID
    """The development set, used to select checkpoints: a source, or a part of the cleaned training text to hold out,
    given as a number of lines (`300`; at most a tenth of the text) or a share (`0.01`). Held-out pairs are chosen by a
    hash, so that most of them (with a share, all) stay the same when the text grows. Training pairs that have a side in
    common with them are removed and counted. null, the default if a corpus in `train` has `valid`: the pairs that such
    corpora hold out, or 1,000 for a pair of languages without such a corpus."""
    test: dict[str, AnySource] = Field({})
    """Test sets by name. They never influence training."""
    mono: dict[str, Annotated[list[MonoSource], Field(min_length=1)]] = Field({})
    """Monolingual text: language code -> sources with `files` or `hub`, which name only this language. A blank line
    ends a document."""
    max_chars: int = Field(1000, ge=1)
    """Maximum length of a side in characters; longer training pairs are dropped."""
    max_pieces: int = Field(250, ge=1, le=1_000_000)
    """Maximum length of a side in pieces; longer training pairs are dropped. After training, sequences of up to
    four times this length are read; the rest of a longer one is ignored."""
    max_ratio: float = Field(4.0, ge=1.0)
    """Maximum ratio of the lengths of the two sides in characters; training pairs with a higher ratio are dropped. 15
    is added to both lengths first, which tolerates larger differences in short pairs. A character of a script in which
    texts are short, such as Chinese, counts as several."""
    fuzzy_threshold: float | None = Field(None, gt=0.0, le=1.0)
    """Find for each line the most similar other line of the training text, for training.modifiers.fuzzy: similarity is
    1 - edit distance in words / words of the longer line, and must be at least this threshold; typically 0.5. null: do
    not search."""
    documents: bool = False
    """Whether the lines of the corpora are in the order of their documents, for training.modifiers.join: `nmt prepare`
    records which pair follows the one before it, and holds out whole documents (at most 64 consecutive pairs of one). A
    document ends at a blank line, at the end of a file, of an XLIFF `file` or of a chapter of Scripture, or where a TMX
    property `document` or `file`, or the column `document` of a source, has another value; long corpora are also cut
    after every 65,536 pairs. A pair is then removed as a duplicate or near-duplicate only if the pairs before both are,
    too, or if both begin a document or 64 pairs of one."""
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

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, settings: object) -> object:
        """Remove the default of `valid` if corpora have it; list the directions, and choose the first."""
        if not isinstance(settings, dict):
            return settings
        corpora = settings.get("train")
        sources = corpora if isinstance(corpora, list) else ()
        if any(dict(source).get("valid") for source in sources if isinstance(source, dict | Section)):
            settings = {"valid": None, **settings}
        directions = settings.get("directions")
        if directions is None:
            return {name: value for name, value in settings.items() if name != "directions"}
        directions = _listed(directions, settings.get("languages"))
        if isinstance(directions, list) and directions and not settings.get("direction"):
            settings = {**settings, "direction": directions[0]}
        return {**settings, "directions": directions}

    @model_validator(mode="after")
    def _check_data_settings(self) -> DataConfig:
        if not self.direction:
            key, example = ("directions", "all") if self.languages else ("direction", "de-en")
            raise ValueError(f"{key}: must be given, such as {example}")
        # the later checks assume that the earlier ones found nothing
        checks = [self._form_problems, self._direction_problems, self._source_problems]
        if self.has_language_tags:
            checks.append(self._missing_pairs)
        checks.append(self._block_list_problems)
        problems: list[str] = []
        for check in checks:
            problems = problems or list(check())
        raise_together([*problems, *self._held_out_problems()])
        return self

    def _form_problems(self) -> Iterator[str]:
        """Yield problems of the names of the languages of directions."""
        key = "directions" if self.has_language_tags else "direction"
        for direction in self.all_directions:
            match = DIRECTION.match(direction)
            if match is None:
                note = ""
                if re.search(r"[,;+&\s]", direction):
                    note = "; a model has several directions with data.directions"
                elif direction.count("-") > 1:
                    note = "; a region is written with an underscore, as in pt_BR-en"
                yield f"{key}: {direction!r} is not of the form de-en{note}"
            elif match[1] == match[2]:
                yield f"{key}: {direction!r} names the same language twice"

    def _direction_problems(self) -> Iterator[str]:
        """Yield problems of the settings of directions, and of monolingual text, which needs a single direction."""
        if self.has_language_tags:
            yield from self._problems_of_several()
        elif self.languages:  # not in modes.tsv, since the sources would be reported first
            yield "languages: needs data.directions"
        if unknown := self.mono.keys() - {*self.sides}:
            yield f"mono: must name {self.src} or {self.tgt}, found {', '.join(sorted(unknown))}"
        if self.mono and "mono" in {*self.test, *self.drawn}:
            yield "test: 'mono' is reserved for the files of data.mono; choose another name for the test set"
        for key, language, source in self.mono_sources():
            if isinstance(source, HubSource):
                if not all(path.endswith((".parquet", ".jsonl")) for path in source.paths):
                    yield f"{key}.paths: monolingual text from the Hub must be in .parquet or .jsonl files"
                if source.document is not None:
                    yield f"{key}.document: not available for monolingual text, in which a blank line ends a document"
            if source.tags is not None:
                yield f"{key}.tags: monolingual text has no tags"
            yield from _language_problems(key, source, {language})

    def _problems_of_several(self) -> Iterator[str]:
        """Yield problems of several directions."""
        if self.languages and (unknown := {*self.all_languages} - {*self.languages}):
            yield f"directions: {min(unknown)} is not one of data.languages: {', '.join(self.languages)}"
            return
        for key, names in (("languages", self.languages), ("directions", self.directions)):
            if twice := [name for name, n in Counter(names).items() if n > 1]:
                yield f"{key}: names {twice[0]} twice"
        if self.direction not in self.directions:
            yield f"direction: {self.direction} is not one of data.directions: {', '.join(self.directions)}"
        if LABEL in self.all_languages:
            yield "directions: labels have no directions; write data.direction"
        if self.mono:
            yield "mono: not available with data.directions"
        pairs = [pair.split("-") for pair in self.pairs]
        if self.languages:
            return
        for key, source in self.sources():
            if not any(source.has_languages(pair) for pair in pairs):
                of = " and ".join(source.named_languages or ())
                yield f"{key}: no direction in data.directions needs {of}; list all languages in data.languages"

    def _source_problems(self) -> Iterator[str]:
        """Yield problems of the languages that sources name."""
        for key, source in self.sources():
            if self.has_language_tags:
                yield from _several_language_problems(key, source, self.languages, self.all_languages)
            else:
                yield from _language_problems(key, source, {*self.all_languages})

    def _missing_pairs(self) -> Iterator[str]:
        """Yield problems of directions without training or development text."""
        for direction in self.pairs.values():
            pair = sorted(direction.split("-"))
            names = " and ".join(pair)
            if self.train and not any(source.has_languages(pair) for source in self.train):
                yield f"train: no corpus has {names}, which {direction} in data.directions needs"
            if isinstance(self.valid, Source) and not self.valid.has_languages(pair):
                yield (
                    f"valid: has {' and '.join(self.valid.named_languages or ())}, but {direction} needs {names}; give "
                    "a file for every language, or a number of lines to hold out"
                )

    def _block_list_problems(self) -> Iterator[str]:
        """Yield problems of block lists of languages that the text does not have."""
        languages: Sequence[str] = self.sides
        if self.has_language_tags:
            languages = self.all_languages
        known = " or ".join(languages)
        for where, clean in self.cleanings():
            for language in clean.block_lists or ():
                if language not in self.all_languages:
                    yield f"{where}.block_lists: must name {known}, found {language}"

    def _held_out_problems(self) -> Iterator[str]:
        """Yield problems of the development and test sets."""
        if self.valid is not None and any(source.valid for source in self.train):
            yield "valid: is given beside valid of a corpus in data.train; remove one of them"
        tests = [*self.test, *(source.label for source in self.train if source.test)]
        for name in dict.fromkeys(tests):
            is_taken = name in ("train", "valid") or tests.count(name) > 1
            if is_taken or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
                yield (
                    f"test: {name!r} is not a valid name of a test set; use letters, digits, '_', '.' and '-', and not "
                    "train or valid, and each name once; the set that a corpus holds out has the name of the corpus"
                )

    @property
    def train_sources(self) -> dict[str, AnyTrainSource]:
        """The training corpora by their keys."""
        return {train_key(i): source for i, source in enumerate(self.train)}

    def sources(self) -> Iterator[tuple[str, Source]]:
        """Yield the key and source of every corpus. A development set that is held out has no source."""
        yield from self.train_sources.items()
        if isinstance(self.valid, Source):
            yield "valid", self.valid
        yield from ((f"test.{name}", source) for name, source in self.test.items())

    def cleanings(self) -> Iterator[tuple[str, CleanConfig]]:
        """Yield the key of all cleaning settings that are given: of all corpora, and of single ones."""
        yield "clean", self.clean
        for key, source in self.train_sources.items():
            if source.clean is not None:
                yield f"{key}.clean", source.clean

    @property
    def drawn(self) -> Drawn:
        """The pairs that are held out of the training text, by the set that gets them."""
        drawn: Drawn = {}
        for key, source in self.train_sources.items():
            for name, n_pairs in (("valid", source.valid), (source.label, source.test)):
                if n_pairs:
                    drawn.setdefault(name, {})[key] = n_pairs
        if not isinstance(self.valid, Source):
            drawn.setdefault("valid", {"train": self.valid or DEFAULT_VALID})
        return drawn

    def mono_sources(self) -> Iterator[tuple[str, str, Source]]:
        """Yield the key (such as `mono.en.0`), language and source of all monolingual text."""
        for language in sorted(self.mono):
            for i, source in enumerate(self.mono[language]):
                yield f"mono.{language}.{i}", language, source

    def without(self, setting: Literal["license", "tags"]) -> DataConfig:
        """Return a copy without one of the settings of all sources."""

        def bare(source: Source) -> Source:
            return source.model_copy(update={setting: None})

        valid: object = self.valid
        if isinstance(valid, Source):
            valid = bare(valid)
        changes = {
            "train": [*map(bare, self.train)],
            "valid": valid,
            "test": {name: bare(source) for name, source in self.test.items()},
            "mono": {language: [*map(bare, sources)] for language, sources in self.mono.items()},
        }
        return self.model_copy(update=changes)

    @property
    def has_language_tags(self) -> bool:
        """Whether each source begins with a tag of its target language, as `data.directions` asks for."""
        return bool(self.directions)

    @property
    def has_several_directions(self) -> bool:
        """Whether the model translates in several directions."""
        return len(self.directions) > 1

    @property
    def all_directions(self) -> list[str]:
        """The directions of the model, which may be one."""
        return self.directions or [self.direction]

    @property
    def all_sides(self) -> list[LanguagePair]:
        """The source and the target language of each direction."""
        return [sides_of(direction) for direction in self.all_directions]

    @property
    def targets(self) -> set[str]:
        """The target languages of all directions."""
        return {tgt for _, tgt in self.all_sides}

    @property
    def tag_names(self) -> tuple[str, ...]:
        """The tags of all training corpora, in alphabetical order, without the tags of languages."""
        return tuple(sorted(set[str]().union(*(source.tag_names for source in self.train))))

    def tags_of(self, split: str) -> list[str]:
        """Return the tags of the development set (`valid`) or of a test set, if all its text has the same; none for any
        other name."""
        keys = self.drawn.get(split, (split, f"test.{split}"))
        tags = {source.tag_names for key, source in self.sources() if key in keys}
        if len(tags) != 1:
            return []
        return list(tags.pop())

    def clean_of(self, key: str) -> CorpusClean:
        """Return all cleaning settings of the training corpus `key`, such as `train.0`."""
        clean = self.train_sources[key].clean or CorpusClean()
        limits = {"max_chars": clean.max_chars or self.max_chars, "max_ratio": clean.max_ratio or self.max_ratio}
        return clean.over(self.clean).model_copy(update=limits)

    @property
    def src(self) -> str:
        """The source language."""
        return self.sides[0]

    @property
    def tgt(self) -> str:
        """The target language."""
        return self.sides[1]

    @property
    def translation_suffix(self) -> str:
        """End of the name of a file of translations: the target language, or with several directions the direction."""
        return self.direction if self.has_language_tags else self.tgt

    @property
    def sides(self) -> LanguagePair:
        """The source and the target language."""
        return sides_of(self.direction)

    @property
    def pair(self) -> LanguagePair:
        """Both languages in alphabetical order, independent of the direction."""
        first, second = sorted(self.sides)
        return first, second

    @property
    def all_languages(self) -> tuple[str, ...]:
        """The languages of all directions, in alphabetical order."""
        return tuple(sorted(set[str]().union(*self.all_sides)))

    @property
    def pairs(self) -> dict[str, str]:
        """The pairs of languages of all directions, such as de-en, each with the first of its directions."""
        pairs: dict[str, str] = {}
        for direction in self.all_directions:
            pairs.setdefault(pair_of(direction), direction)
        return pairs

    @property
    def language_tags(self) -> list[str]:
        """The tags of the target languages that a model with several directions reads."""
        return [f"{TO}{name}" for name in sorted(self.targets)] if self.has_language_tags else []

    @property
    def language_tag(self) -> list[str]:
        """The tag of the target language, which is before every source; none without `directions`."""
        return [f"{TO}{self.tgt}"] if self.has_language_tags else []

    def towards(self, direction: str) -> DataConfig:
        """Return a copy for one of the directions, with the sources that have both of its languages, and only these.

        Sources keep their names. If there are several pairs of languages, `clean.overlap` is `either` by default, since
        a test set of one pair has lines of others.
        """
        if not self.has_language_tags:
            return self
        languages = {*direction.split("-")}
        clean = self.clean
        if len(self.pairs) > 1 and clean.overlap is None:
            clean = clean.model_copy(update={"overlap": "either"})
        train = []
        for source in _of_languages(self.train, languages):
            of_corpus = source.clean and _restricted(source.clean, languages, "block_lists")
            train.append(source.model_copy(update={"clean": of_corpus}))
        tests = {}
        for name, test in self.test.items():
            for of_languages in _of_languages([test], languages):
                tests[name] = of_languages
        changes = {
            "direction": direction,
            "directions": [direction],
            "languages": [],
            "train": train,
            "test": tests,
            "clean": _restricted(clean, languages, "block_lists"),
        }
        if isinstance(self.valid, Source):
            changes["valid"] = next(iter(_of_languages([self.valid], languages)), None)
        return self.model_copy(update=changes)

    def without_language_tags(self) -> DataConfig:
        """Return a copy for `direction` only, whose sources have no tags of target languages."""
        return self.model_copy(update={"directions": [], "direction_temperature": 1.0})

    @property
    def has_labels(self) -> bool:
        """Whether the target is a label instead of text."""
        return self.tgt == LABEL

    @property
    def label_side(self) -> int | None:
        """Index in `pair` of the side that contains labels; None if both sides are text."""
        return self.pair.index(LABEL) if self.has_labels else None

    @property
    def text_languages(self) -> tuple[str, ...]:
        """The languages that are text, without `label`."""
        return tuple(language for language in self.pair if language != LABEL)

    @property
    def directory(self) -> Path:
        """The path of the data directory: `dir` with `{direction}` replaced."""
        return Path(self.dir.replace("{direction}", "-".join(self.all_languages)))


_Section = TypeVar("_Section", bound=Section)
_Source = TypeVar("_Source", bound=Source)


def _of_languages(sources: Iterable[_Source], languages: set[str]) -> list[_Source]:
    """Return the sources that have both of these languages, with only these, and with their names."""
    restricted = []
    for source in sources:
        if source.has_languages(languages):
            of_pair = _restricted(source, languages, "files", "columns", "sha256")
            changes: dict[str, str | None] = {}
            if hasattr(source, "languages"):
                changes["languages"] = None
            if of_pair.label != source.label:
                changes["name"] = source.label
            restricted.append(of_pair.model_copy(update=changes))
    return restricted


def _restricted(section: _Section, languages: set[str], *fields: str) -> _Section:
    """Return a section whose mappings from languages have only these languages."""
    changes = {}
    for field in fields:
        value = getattr(section, field, None)
        if isinstance(value, dict):
            changes[field] = {name: item for name, item in value.items() if name in languages}
    return section.model_copy(update=changes) if changes else section


def _listed(directions: object, languages: object) -> object:
    """Return `data.directions` as a list, if it is a word or mapping that stands for one."""
    if directions != "all" and not isinstance(directions, dict):
        return directions
    if not isinstance(languages, list) or len(languages) < 2 or not all(isinstance(name, str) for name in languages):
        raise ValueError("languages: must list the languages, at least two, if directions is not a list")
    match directions:
        case "all":
            return [f"{src}-{tgt}" for src, tgt in itertools.product(languages, languages) if src != tgt]
        case {"to": str(tgt)} if len(directions) == 1 and tgt in languages:
            return [f"{src}-{tgt}" for src in languages if src != tgt]
        case {"from": str(src)} if len(directions) == 1 and src in languages:
            return [f"{src}-{tgt}" for tgt in languages if src != tgt]
    raise ValueError(
        f"directions: must be a list such as [de-en, en-de], all, or to or from one of {', '.join(languages)}; found "
        f"{directions}"
    )


_LANGUAGE_FIELDS = ("files", "columns", "sha256", "languages")
"""The settings of a source that name languages."""


def _named(source: Source) -> dict[str, Collection[str]]:
    """Return the languages that the settings of a source name, by setting."""
    named = dict[str, Collection[str]]()
    for field in _LANGUAGE_FIELDS:
        value = getattr(source, field, None)
        if isinstance(value, dict | list):
            named[field] = value
    return named


def _language_problems(key: str, source: Source, languages: set[str]) -> Iterator[str]:
    """Yield problems of the settings of a source that do not name exactly `languages`."""
    for field, names in _named(source).items():
        if {*names} != languages:
            yield f"{key}.{field}: must name {' and '.join(sorted(languages))}, found {', '.join(names) or 'none'}"


def _several_language_problems(
    key: str, source: Source, known: Sequence[str], languages: Sequence[str]
) -> Iterator[str]:
    """Yield problems of the settings of a source for several directions: they must name two or more languages, the same
    ones, which must be `known`, if any are."""
    named = _named(source)
    for field, names in named.items():
        if len(names) < 2 or not {*names} <= {*(known or names)}:
            of = ", ".join(known or languages)
            yield f"{key}.{field}: must name two or more of {of}, found {', '.join(names) or 'none'}"
    for field, other in (("sha256", "files"), ("columns", "languages")):
        if field in named and named.get(other) and {*named[field]} != {*named[other]}:
            names = ", ".join(named[field]) or "none"
            yield f"{key}.{field}: must name {' and '.join(named[other])}, as {other} does, found {names}"
