"""Reading of translation memories from their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError

from nmt.config.messages import problems_in
from nmt.console import amount, say
from nmt.data.sources import AnySource, FilesSource, PathSource, is_url
from nmt.errors import ConfigError, DataError
from nmt.files.yaml12 import parse_yaml
from nmt.text.segments import Codes
from nmt.translate.memory import TranslationMemory

AnyMemory: TypeAlias = "TranslationMemory | Path | str | Sequence[Path | str]"
"""A translation memory, or its files; see `read_memory`."""
_SOURCE: TypeAdapter[AnySource] = TypeAdapter(AnySource)


def read_memory(files: Sequence[Path | str], src: str, tgt: str, is_required: bool = True) -> TranslationMemory:
    """Read the segments of files, in order, from language `src` into `tgt`.

    files: names of files or folders in the formats of `path` in `data.train`, or sources as in `data.test`, written as
    YAML: `{files: {de: a.de, en: a.en}}`. The numbers of segments and of skipped units are printed.
    Raises ConfigError for an invalid source, DataError if a file cannot be read or, if `is_required`, has no segment in
    both languages.
    """
    segments = (segment for name in files for segment in _segments_of(str(name), src, tgt, is_required))
    return TranslationMemory(segments, src, tgt)


def _segments_of(name: str, src: str, tgt: str, is_required: bool) -> Iterable[tuple[str, str, Codes]]:
    """Yield the segments of a file or of a source written as YAML; see `read_memory`."""
    from nmt.prepare.sources import open_source  # imports the readers of all formats

    try:
        if name.startswith("{"):
            source: AnySource = _SOURCE.validate_python(parse_yaml(name, "--tm"))
        else:
            source = PathSource(path=name)
    except ValidationError as error:
        raise ConfigError(*[f"--tm {name}: {problem}" for problem in problems_in(error)]) from None
    if source.named_languages is not None and not {src, tgt} <= {*source.named_languages}:
        if is_required:
            named = ", ".join(source.named_languages)
            raise ConfigError(f"--tm {name}: must name {src} and {tgt}, the languages of the model; found {named}")
        return
    match source:
        case PathSource(path=path):
            paths = [path]
        case FilesSource(files=files):
            paths = [*files.values()]
        case _:
            paths = []
    for path in paths:
        if not (is_url(path) or {"*", "?"} & {*path} or Path(path).exists()):
            raise DataError(f"{path}: no such file or folder")
    languages = (min(src, tgt), max(src, tgt))
    opened = open_source(source, languages, Path())
    n = 0
    for pair in opened.pairs():
        if not opened.units.skip_blank(pair[:2], languages):
            n += 1
            sides = (pair.src, pair.tgt) if src < tgt else (pair.tgt, pair.src)
            yield *sides, opened.units.codes
    notes = "".join(f"; {reason}: {count:,}" for reason, count in sorted(opened.units.skipped.items()))
    if is_required and not n:
        raise DataError(f"{source.label}: has no segments from {src} into {tgt}{notes}")
    say(f"{source.label}: {amount(n, 'segment')} from {src} into {tgt}{notes}")
