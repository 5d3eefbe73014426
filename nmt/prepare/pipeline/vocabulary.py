"""The stage `tokenizer`: one joint vocabulary, or one per language, is learned from training and monolingual text.

Labels in place of a translation are no text: they stand in a list of their own beside the vocabulary.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from pydantic import BaseModel

from nmt.config import TokenizerConfig
from nmt.config.data import LABEL
from nmt.console import Progress
from nmt.layout import MONO, TokenizerDir
from nmt.prepare.pipeline.files import part_folder, read_side
from nmt.prepare.pipeline.mono import mono_folder, read_cleaned
from nmt.prepare.pipeline.work import Work
from nmt.tasks.task import Json, Task
from nmt.text.labels import Labels
from nmt.text.tokenizer import Tokenizer, Tokenizers, train_tokenizer

_MOST_LINES = 2_000_000  # SentencePiece holds its training text in memory, and a vocabulary needs no more


class _Arguments(BaseModel):
    config: TokenizerConfig
    languages: tuple[str, str]
    work: str
    counts: list[int]
    """The number of pairs of each part."""
    mono: dict[str, int]
    """The number of lines of monolingual text, by language."""
    labels: list[str] | None = None


def learn_vocabulary(
    work: Work,
    config: TokenizerConfig,
    languages: tuple[str, str],
    counts: Sequence[int],
    mono: Mapping[str, int],
    labels: Labels | None = None,
) -> Tokenizers:
    """Learn the vocabulary or vocabularies from the text of all parts, and from `mono` lines of monolingual text, by
    language. `labels`: those of the text, if one of the `languages` stands for them."""
    arguments = _Arguments(
        config=config, languages=languages, work=str(work.folder), counts=list(counts), mono=dict(mono),
        labels=None if labels is None else labels.names,
    )  # fmt: skip
    version = work.version("settle", *([MONO] if mono else []))
    task = Task("tokenizer/00000", learn, arguments.model_dump(mode="json", exclude_none=True), version)
    with Progress("learning a vocabulary") as progress:
        names = " and ".join(language for language in languages if language != LABEL)
        progress.say(f"learning a vocabulary for {names} …")  # SentencePiece reports no progress
        done = work.stage("tokenizer", "", [task], lambda _done: 0)[0]
    return Tokenizers.load(TokenizerDir(done.folder), languages)


def learn(folder: Path, arguments: Json) -> Json:
    """Learn and write the vocabulary or vocabularies."""
    task = _Arguments.model_validate(arguments)

    def train(*sides: int) -> Tokenizer:
        lines = chain.from_iterable(_lines(task, side) for side in sides)
        n_lines = sum(sum(task.counts) + task.mono.get(task.languages[side], 0) for side in sides)
        stride = -(-n_lines // _MOST_LINES)
        return train_tokenizer(islice(lines, 0, None, stride), task.config.vocab_size, _alphabet(task, sides))

    sides = {language: side for side, language in enumerate(task.languages) if language != LABEL}
    labels = None if task.labels is None else Labels(task.labels)
    if task.config.joint:
        tokenizers = Tokenizers(dict.fromkeys(sides, train(*sides.values())), True, labels)
    else:
        tokenizers = Tokenizers({language: train(side) for language, side in sides.items()}, False, labels)
    tokenizers.save(TokenizerDir(folder))
    return {"fingerprint": tokenizers.fingerprint}


def _lines(task: _Arguments, side: int) -> Iterator[str]:
    for part in range(len(task.counts)):
        yield from read_side(part_folder(task.work, "settle", part), side)
    if (language := task.languages[side]) in task.mono:
        yield from read_cleaned(mono_folder(task.work, language))


def _alphabet(task: _Arguments, sides: Sequence[int]) -> Counter[str]:
    alphabet = Counter[str]()
    folders = [part_folder(task.work, "settle", part) for part in range(len(task.counts))]
    paths = [folder / f"characters.{side}.json" for folder in folders for side in sides]
    languages = [task.languages[side] for side in sides if task.languages[side] in task.mono]
    for path in [*paths, *(mono_folder(task.work, language) / "characters.json" for language in languages)]:
        alphabet.update(json.loads(path.read_bytes()))
    return alphabet
