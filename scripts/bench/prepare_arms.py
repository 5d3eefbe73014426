"""The arms of `prepare.py`: a text in several sizes, and the ways to prepare it."""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.data.settings import DataConfig
from scripts.bench.install import bin_of, install, logged
from scripts.bench.once import once
from scripts.bench.peer import Peer

VALID_PAIRS, FEW_PAIRS, VOCABULARY_PAIRS = 100, 1000, 100_000
VOCABULARY, OPUSFILTER_MERGES = 32_000, 8_000  # subword-nmt takes minutes for these; fewer are less work afterwards
_MIXED_WORDS = 1000

OPUSFILTER = Peer(
    "opusfilter", "OpusFilter", environment="opusfilter", requirements=("opusfilter==3.3.1",), torch=False
)


@dataclass(frozen=True)
class Text:
    """A folder with the same text in several sizes, in two files each: few, vocabulary, all; and another one, valid."""

    folder: Path
    languages: tuple[str, str]
    n_pairs: int
    """Of all."""

    def names(self, size: str) -> list[str]:
        """Return the names of the files of a size."""
        return [f"{size}.{language}" for language in self.languages]

    @property
    def n_words(self) -> float:
        """Different words a pair, of both languages."""
        sides = [(self.folder / name).read_text(encoding="utf-8").split() for name in self.names("all")]
        return sum(len(set(words)) for words in sides) / self.n_pairs


@dataclass(frozen=True)
class Arm:
    """A way to prepare the text."""

    title: str
    command: Callable[[str, Path], list[str]]
    """(size, folder to write, which does not exist) -> a command."""
    folder: Path
    """Where it runs."""


def make_text(files: Sequence[Path], n_pairs: int | None, home: Path) -> Text:
    """Write the text on first use; by default `all` has the pairs of the files."""
    sides = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in files]
    pairs = list(dict.fromkeys(zip(*sides, strict=True)))
    valid, rest = pairs[:VALID_PAIRS], pairs[VALID_PAIRS:]
    n = n_pairs or len(rest)
    recipe = f"{n} {hashlib.sha256(repr(pairs).encode()).hexdigest()}"
    name = f"text-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"
    text = Text(home / name, (files[0].suffix[1:], files[1].suffix[1:]), n)

    def write() -> None:
        sizes = {"few": FEW_PAIRS, "vocabulary": min(n, VOCABULARY_PAIRS), "all": n, "valid": VALID_PAIRS}
        for size, end in sizes.items():
            chosen = list(itertools.islice(iter(valid) if size == "valid" else repeated(rest), end))
            for side, file in enumerate(text.names(size)):
                lines = "".join(f"{pair[side]}\n" for pair in chosen)
                (text.folder / file).write_text(lines, encoding="utf-8")

    once(text.folder, recipe, write)
    return text


def repeated(pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the pairs, and then again and again, each time with two other words of theirs before both sides."""
    words = [sorted({word for pair in pairs for word in pair[side].split()}) for side in (0, 1)]
    words = [own[:: max(1, len(own) // _MIXED_WORDS)] for own in words]
    yield from pairs
    for number in itertools.count():
        first, second = (f"{own[number % len(own)]} {own[number // len(own) % len(own)]}" for own in words)
        yield from ((f"{first} {src}", f"{second} {tgt}") for src, tgt in pairs)


def nmt(title: str, checkout: Path, text: Text, vocabulary: Path | None, workers: int | None = None) -> Arm:
    """Prepare with the nmt of a checkout, and the vocabulary of a data directory; without one, learn it."""

    def command(size: str, out: Path) -> list[str]:
        config, files = out.with_suffix(".yaml"), dict(zip(text.languages, text.names(size), strict=True))
        data = {
            "direction": "-".join(text.languages),
            "root": str(text.folder),
            "train": [{"files": files}],
            "valid": {"files": dict(zip(text.languages, text.names("valid"), strict=True))},
        }
        config.write_text(json.dumps({"data": data, "tokenizer": {"vocab_size": VOCABULARY}}), encoding="utf-8")
        command = [sys.executable, "-m", "nmt", "prepare", "--config", str(config), "--data", str(out)]
        command += ["--tokenizer-from", str(vocabulary)] if vocabulary else []
        return [*command, "--workers", str(workers)] if workers else command

    return Arm(title, command, checkout)


def opusfilter(title: str, text: Text, home: Path, workers: int) -> Arm:
    """Prepare with the nearest steps of OpusFilter. Raises FailedError."""
    install(OPUSFILTER, home)
    codes = text.folder / "codes"
    if not codes.is_file():
        joined, part = text.folder / "joined", text.folder / "codes.part"
        joined.write_bytes(b"".join((text.folder / name).read_bytes() for name in text.names("vocabulary")))
        program = [str(bin_of(OPUSFILTER, home) / "subword-nmt"), "learn-bpe", "-s", str(OPUSFILTER_MERGES)]
        logged([*program, "-i", str(joined), "-o", str(part)], home / "logs" / "opusfilter-codes.log")
        part.replace(codes)
    limits = {name: DataConfig.model_fields[name].default for name in ("max_chars", "max_ratio")}
    filters = [
        {"LengthFilter": {"unit": "char", "min_length": 1, "max_length": limits["max_chars"]}},
        {"LengthRatioFilter": {"unit": "char", "threshold": limits["max_ratio"]}},
    ]

    def command(size: str, out: Path) -> list[str]:
        steps: tuple[tuple[str, dict[str, object]], ...] = (
            ("filter", {"filters": filters}),
            ("remove_duplicates", {}),
            ("preprocess", {"preprocessors": [{"BPESegmentation": {"model": str(codes)}}]}),
        )
        inputs, listed = [str(text.folder / name) for name in text.names(size)], []
        for kind, more in steps:
            outputs = text.names(kind)
            listed.append({"type": kind, "parameters": {"inputs": inputs, "outputs": outputs, **more}})
            inputs = outputs
        config = out.with_suffix(".yaml")
        common = {"output_directory": str(out), "default_n_jobs": workers}
        config.write_text(json.dumps({"common": common, "steps": listed}), encoding="utf-8")
        return [str(bin_of(OPUSFILTER, home) / "opusfilter"), str(config)]

    return Arm(title, command, text.folder)
