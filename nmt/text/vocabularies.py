"""The vocabularies of both languages of a model: tokenizers, and the labels of a classifier."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from nmt.console import listed
from nmt.errors import DataError
from nmt.files.document import Document, document_text, read_document
from nmt.files.read import fingerprint_of, read_text
from nmt.files.write import refuse_links, write_file
from nmt.languages.directions import LABEL, TO, sides_of
from nmt.layout import TokenizerDir
from nmt.text.imported import ImportedTokenizer, ImportedVocabulary
from nmt.text.profiles import Letters, Profiles
from nmt.text.tokenizer import LosslessTokenizer, Tokenizer, read_model
from nmt.text.words import beginning

MOST_LABELS = 1000
"""Maximum number of labels; a corpus with more is taken for text."""


class _File(Document):
    labels: list[str]


class Labels:
    """A set of labels, sorted, with ids from 0 to len - 1."""

    letters: ClassVar[Mapping[str, str]] = {}

    def __init__(self, names: Iterable[str]) -> None:
        """`names`: the labels, in any order. Raises DataError if there are fewer than two, or too many."""
        self.names = sorted(set(names))
        if len(self.names) > MOST_LABELS:
            some = ", ".join(repr(beginning(name, 40)) for name in self.names[:3])
            raise DataError(
                f"{len(self.names):,} different labels, such as {some}, but at most {MOST_LABELS:,} are possible: "
                "this looks like text; use the language code label only for the file or column of classes"
            )
        if len(self.names) < 2:
            labels = f"only the label {self.names[0]!r}" if self.names else "no label"
            raise DataError(f"{labels}, but at least two are needed")
        self._ids = {name: i for i, name in enumerate(self.names)}
        self.fingerprint = fingerprint_of("\n".join(self.names).encode())

    def __len__(self) -> int:
        """Return the number of labels."""
        return len(self.names)

    def __contains__(self, label: str) -> bool:
        return label.strip() in self._ids

    def id_of(self, label: str) -> int:
        """Return the id of a label; white space around the label is ignored. Raises DataError for an unknown label."""
        label = label.strip()
        if label not in self._ids:
            raise DataError(f"label {beginning(label, 40)!r} is not in the training text, which has {self.shown()}")
        return self._ids[label]

    def shown(self) -> str:
        """Return the first labels as text for a message."""
        return listed([beginning(name, 40) for name in self.names], 10)

    def save(self, path: Path) -> None:
        """Write the labels as JSON. Raises OSError."""
        write_file(path, (json.dumps({"labels": self.names}, ensure_ascii=False, indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Labels:
        """Read labels that `save` wrote. Raises DataError if the file is missing or damaged."""
        names = read_document(path, _File, DataError, missing=f"{path}: the labels are missing").labels
        try:
            labels = cls(names)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        if names != labels.names:
            raise DataError(f"{path}: damaged: the labels must be sorted and distinct")
        return labels


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of a language pair, by language."""

    by_language: Mapping[str, Tokenizer]
    joint: bool
    """Whether both languages have the same ids. Both tokenizers are then the same object, unless they are imported."""
    labels: Labels | None = None
    """The labels of a classifier; None for translation."""
    profiles: Profiles | None = None
    """The profiles of both languages; only their letters are part of the fingerprint. None in older directories."""
    imported: ImportedVocabulary | None = None
    """The vocabulary of an imported model; None if `nmt prepare` trained the tokenizers."""

    def __getitem__(self, language: str) -> Tokenizer:
        tokenizer = self.by_language[language]
        if language in self.letters:
            tokenizer = copy(tokenizer)
            tokenizer.letters = self.letters[language]
        return tokenizer

    def sides(self, direction: str) -> tuple[Tokenizer, Tokenizer]:
        """Return the tokenizers of the source and the target language of a direction."""
        src, tgt = sides_of(direction)
        return self[src], self[tgt]

    @property
    def letters(self) -> Letters:
        """The forms of letters that are read; empty without `data.clean.repair: [letters]`."""
        return {} if self.profiles is None else self.profiles.letters

    @property
    def languages(self) -> tuple[str, ...]:
        """Both languages in alphabetical order; LABEL is one of them if there are labels."""
        languages = {*self.by_language}
        if self.labels is not None:
            languages.add(LABEL)
        return tuple(sorted(languages))

    def side(self, language: str) -> Tokenizer | Labels:
        """Return the tokenizer of a language, or the labels for LABEL."""
        return self.labels if language == LABEL and self.labels is not None else self[language]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of pieces of the vocabulary of each language, and the number of labels."""
        return {language: len(self.side(language)) for language in self.languages}

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that identify the languages, their vocabularies and the forms of their letters."""
        parts = [f"{language}={self.side(language).fingerprint}" for language in self.languages]
        parts.append(f"joint={self.joint}")
        if self.letters:
            parts.append(json.dumps(self.letters))
        return fingerprint_of(" ".join(parts).encode())

    @classmethod
    def load(cls, directory: TokenizerDir, languages: Sequence[str]) -> Tokenizers:
        """Load the tokenizers of `languages`. Raises DataError if they are missing or of other languages."""
        labels = Labels.load(directory.labels) if LABEL in languages else None
        profiles = Profiles.load(directory.profiles)
        tags = read_tags(directory.tags)
        languages = sorted(language for language in languages if language != LABEL)
        if directory.imported.exists():
            vocabulary = read_document(directory.imported, ImportedVocabulary, DataError)
            names = languages
            if vocabulary.direction is not None and not vocabulary.languages:
                names = vocabulary.direction.split("-")
            models = {name: read_model(directory.language(name)) for name in names}
            return replace(cls.of_import(vocabulary, models), labels=labels, profiles=profiles)
        if directory.joint.exists():
            joint = LosslessTokenizer.load(directory.joint, tags)
            return cls(dict.fromkeys(languages, joint), True, labels, profiles)
        if not directory.path.is_dir() or not any(directory.path.glob("*.model")):
            raise DataError(f"{directory.path}: there is no tokenizer in this directory")
        names = sorted(path.stem for path in directory.path.glob("*.model"))
        if names != languages:
            expected = " and ".join(languages)
            raise DataError(f"{directory.path}: found vocabularies for {' and '.join(names)}, expected {expected}")
        by_language = {name: LosslessTokenizer.load(directory.language(name), tags) for name in names}
        return cls(by_language, False, labels, profiles)

    @classmethod
    def of_import(cls, vocabulary: ImportedVocabulary, models: Mapping[str, bytes]) -> Tokenizers:
        """Return the tokenizers of an imported model. models: the SentencePiece model of each language."""
        if vocabulary.languages or vocabulary.direction is None:
            tags = vocabulary.languages or dict.fromkeys(models, "")
            if unknown := models.keys() - tags.keys():
                raise DataError(f"the vocabulary has no language {min(unknown)!r}")
            base = ImportedTokenizer(next(iter(models.values())), vocabulary, 0)
            return cls({name: base.opening_with(tags[name]) for name in sorted(models)}, True, imported=vocabulary)
        src, tgt = vocabulary.direction.split("-")
        by_language = {
            src: ImportedTokenizer(models[src], vocabulary, 0),
            tgt: ImportedTokenizer(models[tgt], vocabulary, 1),
        }
        return cls(by_language, len(vocabulary.pieces) == 1, imported=vocabulary)

    @property
    def tags(self) -> list[str]:
        """The names of all tags, in the order of their ids."""
        return max(([*tokenizer.tags] for tokenizer in self.by_language.values()), key=len, default=[])

    def with_tags(self, names: Sequence[str]) -> Tokenizers:
        """Return tokenizers that also have the given tags, with the ids after all others."""
        if self.imported is not None and self.imported.languages:  # whose tags are there, before both sides
            names = [name for name in names if not name.startswith(TO)]
        tags = [*dict.fromkeys([*self.tags, *names])]
        if tags == self.tags:
            return self
        if self.imported is not None:
            vocabulary = self.imported.with_tags(tags[len(self.tags) :])
            by_language = {name: tokenizer.model for name, tokenizer in self.by_language.items()}
            return replace(self.of_import(vocabulary, by_language), labels=self.labels, profiles=self.profiles)
        models = {tokenizer.model for tokenizer in self.by_language.values()}
        tagged = {model: LosslessTokenizer(model, tags=tags) for model in models}
        return replace(
            self, by_language={name: tagged[tokenizer.model] for name, tokenizer in self.by_language.items()}
        )

    @property
    def is_public(self) -> bool:
        """Whether the vocabulary comes from a public model, which serves only its languages."""
        return self.imported is not None and self.imported.direction is not None

    @property
    def only_direction(self) -> str | None:
        """The only direction that the tokenizers serve; None: all directions of their languages."""
        if self.imported is None or self.imported.languages:
            return None
        return self.imported.direction

    def check_directions(self, path: Path) -> None:
        """Raise DataError unless these tokenizers, of `path`, can serve several directions."""
        if self.only_direction is not None:
            raise DataError(
                f"{path}: was imported for {self.only_direction} only, but data.directions asks for several"
            )
        if not self.joint:
            raise DataError(f"{path}: has a vocabulary for each language, but data.directions needs a joint one")

    def of_languages(self, languages: Sequence[str]) -> Tokenizers:
        """Return the joint tokenizer for other languages; for an imported model, the tokenizers of these languages."""
        if self.imported is not None and self.is_public:
            by_language = self.by_language
            if not by_language.keys() >= {*languages}:
                model = next(iter(by_language.values())).model
                by_language = self.of_import(self.imported, dict.fromkeys(languages, model)).by_language
            return replace(self, by_language={name: by_language[name] for name in sorted(languages)})
        return replace(self, by_language=dict.fromkeys(sorted(languages), next(iter(self.by_language.values()))))

    def save(self, directory: TokenizerDir) -> None:
        """Write the model files and create their directory. Raises UnsafeFileError if it is a link, or OSError."""
        refuse_links([directory.path])
        directory.path.mkdir(parents=True, exist_ok=True)
        if self.labels is not None:
            self.labels.save(directory.labels)
        if self.profiles is not None:
            self.profiles.save(directory.profiles)
        if self.imported is not None:
            write_file(directory.imported, document_text(self.imported).encode())
        elif self.tags:
            write_file(directory.tags, f"{json.dumps(self.tags)}\n".encode())
        for language, tokenizer in self.by_language.items():
            path = directory.language(language)
            if self.joint and self.imported is None:
                path = directory.joint
            write_file(path, tokenizer.model)


def read_tags(path: Path) -> list[str]:
    """Read the names of tags. Raises DataError if the file is damaged."""
    if not path.exists():
        return []
    try:
        tags = json.loads(read_text(path))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: damaged: {error}") from error
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags) or len({*tags}) < len(tags):
        raise DataError(f"{path}: damaged: must be a list of different names")
    return tags
