"""The stages `vocabulary`, `encode` and `join`, which convert the training text to ids.

A vocabulary is learned, the text is encoded part by part, and the parts become the files of the data directory.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, compress, islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.console import Progress, say
from nmt.data.manifest import ShardRecord, TextRecord, added
from nmt.data.random_numbers import Hashes, mixed
from nmt.data.settings import DataConfig
from nmt.files.write import link
from nmt.languages.directions import LABEL, LanguagePair
from nmt.layout import MONO, DataDir, TokenizerDir
from nmt.prepare.cleaning.cleaner import SeenLines
from nmt.prepare.cleaning.counts import CleanReport, LengthCounts, refuse_empty, total
from nmt.prepare.pipeline.read import Part, read_side, read_sides
from nmt.prepare.pipeline.settle import TrainingText, by_source
from nmt.prepare.pipeline.work import Rows, Work, block_starts, follows, part_folder, rows_in_range
from nmt.prepare.recipe import NewPieces
from nmt.tasks.perform import Done, Json
from nmt.text.blocks import BlockEncoder, Encoded
from nmt.text.growth import extended, grown
from nmt.text.ids import N_SPECIAL, ranges
from nmt.text.profiles import Profiles
from nmt.text.settings import TokenizerConfig
from nmt.text.tokenizer import LosslessTokenizer, Tokenizer, train_tokenizer
from nmt.text.vocabularies import Labels, Tokenizers

_BLOCK_LINES = 1 << 10  # whose characters are counted at a time
_MOST_LINES = 2_000_000  # SentencePiece holds its training text in memory, and a vocabulary needs no more


class _Learning(BaseModel):
    config: TokenizerConfig
    vocab_size: int
    languages: list[str]
    """Those from which pieces are learned."""
    all_languages: list[str]
    settled: list[tuple[Path, LanguagePair]]
    """The folder of each part, and its languages."""
    mono: dict[str, Path]
    """By language, the folder of its monolingual text."""
    labels: list[str] | None
    start: Path | None
    """The tokenizer directory that is extended by `vocab_size` pieces, if any, and an imported one by letters."""


@dataclass(frozen=True)
class PreparedText:
    """The training text of a pair of languages from which a vocabulary is learned."""

    work: Work
    text: TrainingText
    mono: Mapping[str, Path]
    """By language, the folder of its cleaned monolingual text."""


PairTexts: TypeAlias = Mapping[LanguagePair, PreparedText]
"""By pair of languages."""


def make_tokenizers(
    work: Work, data: DataConfig, settings: TokenizerConfig, texts: PairTexts, reused: Tokenizers | None, new: NewPieces
) -> dict[LanguagePair, Tokenizers]:
    """Learn the vocabulary of all pairs of languages, unless one is given, and write it for the next stage.

    Labels, and the profiles of the languages, always come from the training text.

    work: the work folder of the data directory. reused, new: a tokenizer, which may be extended by pieces of new
    languages.
    """
    tokenizers = reused
    if tokenizers is None or new:
        tokenizers = _learn_vocabulary(work, data, settings, texts, reused, new)
    if len(texts) > 1:
        tokenizers = tokenizers.of_languages(data.all_languages)
    labels = None
    profiles = Profiles(profiles={})
    for pair, prepared in texts.items():
        labels = prepared.text.labels
        languages: Sequence[str] = pair
        if labels is not None:  # labels are no language
            languages = ()
        pairs = list(chain.from_iterable(sample.pairs for sample in prepared.text.samples().values()))
        merged = Profiles.of(languages, pairs).profiles | profiles.profiles
        profiles = Profiles(profiles=merged, letters=prepared.work.letters)
    tokenizers = replace(tokenizers.with_tags(data.tag_names), labels=labels, profiles=None)
    if labels is None or profiles.letters:
        tokenizers = replace(tokenizers, profiles=profiles)
    by_pair = {}
    for pair, prepared in texts.items():
        use_tokenizers(prepared.work, tokenizers)
        by_pair[pair] = tokenizers.of_languages(pair) if len(texts) > 1 else tokenizers
    return by_pair


def _learn_vocabulary(
    work: Work, data: DataConfig, settings: TokenizerConfig, texts: PairTexts, reused: Tokenizers | None, new: NewPieces
) -> Tokenizers:
    """Learn the vocabulary, or extend the vocabulary of other languages, in a task."""
    languages: Sequence[str] = data.all_languages
    vocab_size = settings.vocab_size
    start = None
    if reused is not None:
        languages = new.languages
        vocab_size = new.n
        start = work.folder / "start"
        reused.save(TokenizerDir(start))
    settled = []
    for pair, prepared in texts.items():
        settled += [(done.folder, pair) for done in prepared.text.settled]
    first = next(iter(texts.values()))  # only the text of a single pair has labels or monolingual text
    labels = first.text.labels
    task = _Learning(
        config=settings,
        vocab_size=vocab_size,
        languages=[language for language in languages if language != LABEL],
        all_languages=[*data.all_languages],
        settled=settled,
        mono=dict(first.mono),
        labels=None if labels is None else labels.names,
        start=start,
    )
    stages = ["settle", MONO] if first.mono else ["settle"]
    versions = [prepared.work.version(*stages) for prepared in texts.values()]
    if reused is not None:
        versions.append(reused.fingerprint)
    version = " ".join(versions)
    with Progress("learning a vocabulary") as progress:
        names = " and ".join(task.languages or task.all_languages)
        progress.say(f"learning a vocabulary for {names} …")  # SentencePiece shows no progress
        [done] = work.run_stage("vocabulary", "", learn, [task], version)
        for line in done.summary.get("added", ()):
            say(line)
    return Tokenizers.load(TokenizerDir(done.folder), data.all_languages)


def use_tokenizers(work: Work, tokenizers: Tokenizers) -> None:
    """Write tokenizers that are not learned in this work folder, for the next stage."""
    work.versions["tokenizer"] = tokenizers.fingerprint
    tokenizers.save(_tokenizer_dir(work))


TEMPERATURE = 5
"""Several languages have shares of the text of a vocabulary in proportion to lines ** (1 / TEMPERATURE), as in NLLB
(NLLB Team, 2022, arXiv:2207.04672)."""


def learn(folder: Path, task: _Learning) -> Json:
    """Learn and write the vocabulary or vocabularies, or extend a vocabulary."""
    by_language: dict[str, Tokenizer]
    if task.start is not None:
        start = Tokenizers.load(TokenizerDir(task.start), task.all_languages)
        if start.imported is not None:
            tokenizers, added = grown(
                start, task.languages, partial(_lines_of, task), task.vocab_size, task.config.kind
            )
            tokenizers.save(TokenizerDir(folder))
            return {"pairs": 0, "added": added}
    if len({pair for _, pair in task.settled}) > 1:
        by_language = dict.fromkeys(task.languages, _learn_together(task))
    elif task.config.joint:
        by_language = dict.fromkeys(task.languages, _learn_from(task, task.languages))
    else:
        by_language = {language: _learn_from(task, [language]) for language in task.languages}
    labels = None if task.labels is None else Labels(task.labels)
    Tokenizers(by_language, task.config.joint, labels).save(TokenizerDir(folder))
    return {"pairs": 0}


def count_characters(lines: Iterable[str]) -> Counter[str]:
    """Count the occurrences of each character in lines."""
    lines = iter(lines)
    counts = np.zeros(sys.maxunicode + 1, np.int64)
    while block := [*islice(lines, _BLOCK_LINES)]:
        part = np.bincount(np.frombuffer("".join(block).encode("utf-32-le"), "<u4"))
        counts[: len(part)] += part
    codes = np.flatnonzero(counts)
    return Counter(dict(zip(map(chr, codes.tolist()), counts[codes].tolist(), strict=True)))


def _learn_from(task: _Learning, languages: Sequence[str]) -> Tokenizer:
    """Learn a vocabulary from all lines of languages, or from every n-th."""
    alphabet = count_characters(f"{line}\n" for language in languages for line in _lines_of(task, language))
    n_lines = alphabet.pop("\n")
    lines = chain.from_iterable(_lines_of(task, language) for language in languages)
    some = islice(lines, 0, None, -(-n_lines // _MOST_LINES))
    return train_tokenizer(some, task.vocab_size, alphabet, task.config.kind)


def _learn_together(task: _Learning) -> Tokenizer:
    """Learn the vocabulary of several pairs of languages from each distinct line once, or extend a vocabulary.

    Small languages have larger shares than by their lines; see `TEMPERATURE`.
    """
    n_lines = {}
    for language in task.languages:
        n_lines[language] = sum(1 for _ in _lines_of(task, language, distinct=True))
    total_lines = min(sum(n_lines.values()), _MOST_LINES)
    weights = {language: n ** (1 / TEMPERATURE) for language, n in n_lines.items()}
    parts = []
    for language, weight in weights.items():
        n_chosen = round(total_lines * weight / sum(weights.values()))
        parts.append(evenly(partial(_lines_of, task, language, distinct=True), n_lines[language], n_chosen))
    lines = chain.from_iterable(parts)
    if task.start is None:
        return train_tokenizer(lines, task.vocab_size, kind=task.config.kind)
    start = Tokenizers.load(TokenizerDir(task.start), task.languages)[task.languages[0]]
    assert isinstance(start, LosslessTokenizer)
    return extended(start, lines, task.vocab_size, task.config.kind)


def _lines_of(task: _Learning, language: str, distinct: bool = False) -> Iterator[str]:
    """Yield the lines of a language in the training text and in its monolingual text."""
    seen = SeenLines()
    for settled, pair in task.settled:
        if language in pair:
            lines = read_side(settled, pair.index(language))
            if distinct:
                yield from compress(lines, seen.add(lines).tolist())
            else:
                yield from lines
    if language in task.mono:
        yield from read_cleaned(task.mono[language])


def evenly(lines: Callable[[], Iterable[str]], n: int, n_chosen: int) -> Iterator[str]:
    """Yield `n_chosen` of `n` lines, evenly spread, and each as often as any other, or once more."""
    for start in range(0, n_chosen, n):
        k = min(n, n_chosen - start)
        yield from (line for i, line in enumerate(lines()) if (i + 1) * k // n > i * k // n)


def _tokenizer_dir(work: Work) -> TokenizerDir:
    return TokenizerDir(part_folder(work.folder, "tokenizer", 0))


def read_cleaned(folder: Path) -> Iterator[str]:
    """Yield the lines of monolingual text that a task of the stage `mono` has written."""
    with (folder / "text").open(encoding="utf-8", newline="\n") as file:
        yield from (line[:-1] for line in file)


PART = "part"
"""The name of the split in the files of a part."""
_SHUFFLE_SEED = np.uint64(0x6A09E667F3BCC908)


@dataclass(frozen=True)
class EncodedText:
    """The training text as files of a data directory."""

    files: list[Done]
    pairs: int
    reports: dict[str, CleanReport]
    """For each source, by key, counts from reading to encoding."""
    text: dict[str, TextRecord]
    """By language."""
    shards: list[ShardRecord] | None
    classes: Counter[str]
    """Number of pairs by label; empty if there are no labels."""


def encode_text(work: Work, config: DataConfig, text: TrainingText, is_added: bool = False) -> EncodedText:
    """Encode the training text, and divide it into shards if it is large or is appended to shards.

    Raises DataError if nothing is left.
    """
    repeats = {key: source.repeat for key, source in config.train_sources.items()}
    n_pairs = sum(report.kept * repeats[key] for key, report in text.reports.items())
    is_large = is_added or n_pairs > work.sizes.shard_pairs
    encoded = encode_parts(work, config, text, is_large, repeats, n_pairs)
    summaries = [done.summary for done in encoded]
    reports = deepcopy(text.reports)
    of_parts = [CleanReport.from_json(summary["report"]) for summary in summaries]
    long_pairs = by_source(reports, text.parts, of_parts)
    for key, report in reports.items():
        report.kept_lengths, report.kept_samples = LengthCounts(), []  # encoding describes the pairs that it keeps
        report.add(long_pairs[key])
    refuse_empty(total(reports.values()))
    shards = None
    if is_large:
        files, shards = _join_shards(work, config, text.parts, encoded)
    else:
        files = _join_in_order(work, config, encoded)
    learned = []
    for part, summary in zip(text.parts, summaries, strict=True):
        # shards are repeated when they are read
        learned += [summary] * (repeats[part.key] if is_large else 1)
    counts = {}
    for language in config.text_languages:
        counts[language] = added(TextRecord.model_validate(summary["text"][language]) for summary in learned)
    classes = sum((Counter(summary["classes"]) for summary in learned), Counter[str]())
    n = sum(report.kept * repeats[key] for key, report in reports.items())
    return EncodedText(files, n, reports, counts, shards, classes)


class _Encoding(BaseModel):
    languages: LanguagePair
    settled: Path
    """The folder of the part."""
    tokenizer: Path
    tokenizer_version: str
    max_pieces: int
    repeat: int
    """How often each pair is written."""
    is_shuffled: bool
    """Whether the pairs are written in the order of their hashes, for shards."""
    documents: bool
    """Whether the pairs of a document stay together, and it is written which pair follows the one before it."""


def encode_parts(
    work: Work, config: DataConfig, text: TrainingText, is_shuffled: bool, repeats: Mapping[str, int], n_pairs: int
) -> list[Done]:
    """Encode all parts of the training text, which have `n_pairs` pairs in total."""
    arguments = []
    for part, done in zip(text.parts, text.settled, strict=True):
        repeat = 1 if is_shuffled else repeats[part.key]
        arguments.append(
            _Encoding(
                languages=config.pair, settled=done.folder, tokenizer=_tokenizer_dir(work).path,
                tokenizer_version=work.versions["tokenizer"], max_pieces=config.max_pieces, repeat=repeat,
                is_shuffled=is_shuffled, documents=config.documents,
            )
        )  # fmt: skip
    return work.run_stage("encode", "encoding", encode_part, arguments, work.version("settle", "tokenizer"), n_pairs)


def encode_part(folder: Path, task: _Encoding) -> Json:
    """Encode a part: write text and ids of the pairs that are not too long.

    The report in the summary counts only the pairs with too many pieces, and describes the pairs that are kept.
    """
    sides = [*read_sides(task.settled)]
    encoders = _encoders(task.tokenizer, task.tokenizer_version, task.languages)
    encoded = [encoder.encode(lines) for encoder, lines in zip(encoders, sides, strict=True)]
    is_long = np.maximum(encoded[0].lengths, encoded[1].lengths) > task.max_pieces
    report = CleanReport()
    numbers = np.load(task.settled / "lines.npy")
    for row in np.flatnonzero(is_long).tolist():
        report.kept -= 1
        report.drop("pieces", int(numbers[row]), sides[0][row], sides[1][row])
    kept = np.flatnonzero(~is_long)
    texts = sides
    if is_long.any():
        texts = [[lines[row] for row in kept.tolist()] for lines in sides]
    report.keep(numbers[kept], texts[0], texts[1])
    if task.documents:
        rows = np.tile(kept, task.repeat)
        follow = follows(numbers[rows], np.load(task.settled / "documents.npy")[rows])
    else:
        rows = np.repeat(kept, task.repeat)
        follow = np.zeros(len(rows), np.bool_)
    if task.is_shuffled:
        starts = block_starts(follow)
        # the hashes themselves determine the development set that is split off
        order = mixed(np.load(task.settled / "hashes.npy")[rows[starts]] ^ _SHUFFLE_SEED)
        by_order = np.argsort(order, kind="stable")
        follow &= starts != np.arange(len(rows))
        rows = rows[by_order]
        follow = follow[by_order]
        np.save(folder / "order.npy", order[by_order])
    if task.documents:
        np.save(DataDir(folder).follows(PART), follow.view(np.uint8))
    text = {}
    classes = Counter[str]()
    is_whole = np.array_equal(rows, np.arange(len(sides[0])))
    for side, language in enumerate(task.languages):
        content = (task.settled / f"text.{side}").read_bytes()
        chosen = encoded[side]
        raw = [line + b"\n" for line in content.split(b"\n")[:-1]]
        if not is_whole:
            raw = [raw[row] for row in rows.tolist()]
            chosen = chosen.take(rows)
        text[language] = write_encoded(DataDir(folder), PART, language, raw, chosen).model_dump()
        if task.is_shuffled:
            np.save(_text_ends(DataDir(folder), language), np.cumsum([len(line) for line in raw], dtype=np.int64))
        if language == LABEL:
            del text[LABEL]
            classes.update(line.decode().strip() for line in raw)
    return {"pairs": len(rows), "report": report.to_json(), "text": text, "classes": classes}


def _text_ends(part: DataDir, language: str) -> Path:
    """Return the file with the end of each line in the text of a part, in bytes."""
    return part.path / f"{PART}.{language}.text-ends.npy"


def write_encoded(directory: DataDir, split: str, language: str, raw: Sequence[bytes], encoded: Encoded) -> TextRecord:
    """Write one side of a split, given as lines of bytes and as ids. Return its counts."""
    directory.text(split, language).write_bytes(b"".join(raw))
    np.save(directory.ids(split, language), encoded.ids)
    np.save(directory.ends(split, language), encoded.ends.astype(np.int64))
    return text_record(encoded)


def text_record(encoded: Encoded) -> TextRecord:
    """Return the counts of encoded lines."""
    return TextRecord(
        words=int(encoded.words.sum()),
        characters=int(encoded.characters.sum()),
        pieces=len(encoded.ids),
        bytes=int(((encoded.ids >= N_SPECIAL) & (encoded.ids < encoded.first_learned)).sum()),
        unknown=int((encoded.ids < N_SPECIAL).sum()),
    )


@lru_cache(maxsize=1)
def _encoders(folder: Path, version: str, languages: LanguagePair) -> tuple[BlockEncoder, BlockEncoder]:
    """Load the encoders once, so that their word caches are shared between parts; `version` identifies the content."""
    del version
    first, second = map(Tokenizers.load(TokenizerDir(folder), languages).side, languages)
    encoder = BlockEncoder(first)
    if first is second:
        return encoder, encoder
    return encoder, BlockEncoder(second)


_BLOCK = 1 << 16  # rows

_Ids = npt.NDArray[np.unsignedinteger]


class _Joining(BaseModel):
    languages: tuple[str, ...]
    parts: list[Path]
    """The folders of encoded parts."""
    name: str
    """The name of the split or shard."""
    documents: bool
    """Whether to write which pair follows the one before it."""
    shard: int = 0
    n_shards: int = 1


def _join_in_order(work: Work, config: DataConfig, parts: Sequence[Done]) -> list[Done]:
    """Write the training text as one file for each language."""
    folders = [part.folder for part in parts]
    arguments = [
        _Joining(languages=(language,), parts=folders, name="train", documents=config.documents and not i)
        for i, language in enumerate(config.pair)
    ]
    return work.run_stage("join", "joining", join, arguments, work.version("encode"))


def _join_shards(
    work: Work, config: DataConfig, parts: Sequence[Part], encoded: Sequence[Done]
) -> tuple[list[Done], list[ShardRecord]]:
    """Write the training text of each source as shards, in random order."""
    arguments = []
    keys = []
    for key in dict.fromkeys(part.key for part in parts):
        folders = []
        n = 0
        for part, encoded_part in zip(parts, encoded, strict=True):
            if part.key == key:
                folders.append(encoded_part.folder)
                n += encoded_part.summary["pairs"]
        n_shards = max(1, round(n / work.sizes.shard_pairs)) if n else 0
        for shard in range(n_shards):
            arguments.append(
                _Joining(
                    languages=config.pair, parts=folders, name=f"{key}-{shard:05}",
                    documents=config.documents, shard=shard, n_shards=n_shards,
                )
            )  # fmt: skip
            keys.append(key)
    done = work.run_stage("join", "writing shards", join_shard, arguments, work.version("encode"))
    records = []
    for task, key, written in zip(arguments, keys, done, strict=True):
        n = written.summary["pairs"]
        if n:  # by chance, a shard of a tiny corpus may have no pair
            records.append(ShardRecord(name=task.name, source=key, pairs=n))
    return done, records


def join(folder: Path, task: _Joining) -> Json:
    """Concatenate the text and ids of encoded parts."""
    parts = [DataDir(part) for part in task.parts]
    names = DataDir(folder)
    n = 0
    if task.documents:
        np.save(names.follows(task.name), np.concatenate([np.load(part.follows(PART)) for part in parts]))
    for language in task.languages:
        with names.text(task.name, language).open("wb") as file:
            for part in parts:
                with part.text(PART, language).open("rb") as text:
                    shutil.copyfileobj(text, file, 1 << 20)
        # one file at a time: there may be more than a process may open
        ends = [np.load(part.ends(PART, language)) for part in parts]
        n_ids = [int(part_ends[-1]) if len(part_ends) else 0 for part_ends in ends]
        ids = (np.load(part.ids(PART, language)) for part in parts)
        dtype = np.load(parts[0].ids(PART, language), mmap_mode="r").dtype
        write_array(names.ids(task.name, language), dtype, sum(n_ids), ids)
        n = sum(map(len, ends))
        firsts = np.cumsum([0, *n_ids])[:-1].astype(np.int64)
        write_array(names.ends(task.name, language), np.dtype(np.int64), n, map(np.add, ends, firsts))
    return {"pairs": n}


def join_shard(folder: Path, task: _Joining) -> Json:
    """Collect the pairs of a shard from all parts of its source, and put them in the order of their hashes."""
    slices = list(_slices(task))
    order = np.argsort(np.concatenate([part.order for part in slices]), kind="stable")
    names = DataDir(folder)
    parts = [taken.part for taken in slices]
    for language in task.languages:
        files = [(part.text(PART, language), _text_ends(part, language)) for part in parts]
        text, ends = _read(slices, files)
        with names.text(task.name, language).open("wb") as file:
            file.writelines(block.tobytes() for block in _reordered(text, ends, order))
        files = [(part.ids(PART, language), part.ends(PART, language)) for part in parts]
        ids, ends = _read(slices, files)
        write_array(names.ids(task.name, language), ids.dtype, len(ids), _reordered(ids, ends, order))
        np.save(names.ends(task.name, language), np.cumsum(np.diff(ends, prepend=0)[order]).astype(np.uint32))
    if task.documents:
        follow = [np.load(part.part.follows(PART))[part.rows] for part in slices]
        np.save(names.follows(task.name), np.concatenate(follow)[order])
    return {"pairs": len(order)}


class _Slice(NamedTuple):
    """The rows of a part that belong to a shard."""

    part: DataDir
    rows: slice
    order: Hashes


def _slices(task: _Joining) -> Iterator[_Slice]:
    for part in task.parts:
        order = np.load(part / "order.npy", mmap_mode="r")
        rows = rows_in_range(order, task.shard, task.n_shards)
        yield _Slice(DataDir(part), rows, np.array(order[rows]))


def _read(slices: Sequence[_Slice], files: Sequence[tuple[Path, Path]]) -> tuple[_Ids, Rows]:
    """Concatenate the content of the rows of all slices; return it with the end of each row.

    files: for each slice, the content of its part, and the ends of all rows.
    """
    pieces = []
    lengths = [np.zeros(0, np.int64)]
    for (_, rows, _), (path, ends_path) in zip(slices, files, strict=True):
        if path.suffix == ".npy":
            whole = np.load(path, mmap_mode="r")
        else:
            whole = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
        bounds = np.load(ends_path, mmap_mode="r")[max(0, rows.start - 1) : rows.stop].astype(np.int64)
        if not rows.start:
            bounds = np.insert(bounds, 0, 0)
        pieces.append(np.array(whole[bounds[0] : bounds[-1]]))
        lengths.append(np.diff(bounds))
    return np.concatenate(pieces), np.cumsum(np.concatenate(lengths))


def _reordered(content: _Ids, ends: Rows, order: Rows) -> Iterator[_Ids]:
    """Yield the content of the rows in this order, in blocks because indices need far more memory than the content."""
    lengths = np.diff(ends, prepend=0)
    starts = ends - lengths
    for rows in np.array_split(order, max(1, len(order) // _BLOCK)):
        yield content[ranges(starts[rows], lengths[rows])]


def write_array(path: Path, dtype: np.dtype[np.generic], n: int, blocks: Iterable[npt.NDArray[np.generic]]) -> None:
    """Write an array (n,) from blocks, in the format of `np.save`."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n,)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.writelines(block.tobytes() for block in blocks)


def link_files(done: Sequence[Done], target: Path) -> None:
    """Put the files of finished tasks into a folder, as hard links if the file system supports them."""
    for task in done:
        for path in task.folder.iterdir():
            if path.name != "record.json":
                link(path, target / path.name)
