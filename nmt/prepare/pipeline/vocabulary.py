"""The stage `tokenizer`: one joint vocabulary, or one per language, is learned from the training text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from pydantic import BaseModel

from nmt.config import TokenizerConfig
from nmt.console import Progress
from nmt.layout import TokenizerDir
from nmt.prepare.pipeline.files import part_folder, read_side
from nmt.prepare.pipeline.work import Work
from nmt.tasks.task import Json, Task
from nmt.text.tokenizer import Tokenizer, Tokenizers, train_tokenizer

_MOST_LINES = 2_000_000  # SentencePiece holds its training text in memory, and a vocabulary needs no more


class _Arguments(BaseModel):
    config: TokenizerConfig
    languages: tuple[str, str]
    work: str
    counts: list[int]
    """The number of pairs of each part."""


def learn_vocabulary(
    work: Work, config: TokenizerConfig, languages: tuple[str, str], counts: Sequence[int]
) -> Tokenizers:
    """Learn the vocabulary or vocabularies from the text of all parts."""
    arguments = _Arguments(config=config, languages=languages, work=str(work.folder), counts=list(counts))
    task = Task("tokenizer/00000", learn, arguments.model_dump(mode="json"), work.version("settle"))
    with Progress("learning a vocabulary") as progress:
        progress.say(f"learning a vocabulary for {' and '.join(languages)} …")  # SentencePiece reports no progress
        done = work.stage("tokenizer", "", [task], lambda _done: 0)[0]
    return Tokenizers.load(TokenizerDir(done.folder), languages)


def learn(folder: Path, arguments: Json) -> Json:
    """Learn and write the vocabulary or vocabularies."""
    task = _Arguments.model_validate(arguments)

    def train(*sides: int) -> Tokenizer:
        lines = chain.from_iterable(_lines(task, side) for side in sides)
        stride = -(-len(sides) * sum(task.counts) // _MOST_LINES)
        return train_tokenizer(islice(lines, 0, None, stride), task.config.vocab_size, _alphabet(task, sides))

    if task.config.joint:
        tokenizers = Tokenizers(dict.fromkeys(task.languages, train(0, 1)), joint=True)
    else:
        tokenizers = Tokenizers({language: train(side) for side, language in enumerate(task.languages)}, joint=False)
    tokenizers.save(TokenizerDir(folder))
    return {"fingerprint": tokenizers.fingerprint}


def _lines(task: _Arguments, side: int) -> Iterator[str]:
    for part in range(len(task.counts)):
        yield from read_side(part_folder(task.work, "settle", part), side)


def _alphabet(task: _Arguments, sides: Sequence[int]) -> Counter[str]:
    alphabet = Counter[str]()
    for part in range(len(task.counts)):
        for side in sides:
            path = part_folder(task.work, "settle", part) / f"characters.{side}.json"
            alphabet.update(json.loads(path.read_bytes()))
    return alphabet
