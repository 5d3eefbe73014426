"""Measure the robustness of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.config import SearchConfig
from nmt.console import say
from nmt.errors import DataError
from nmt.evaluate.run import read_split, translate_text
from nmt.files.write import open_output
from nmt.robustness.robustness import Measured, Plan, Text, make_variants, measure
from nmt.text.lines import bounded_list, read_aligned
from nmt.translate.translator import Translator


def split_text(translator: Translator, data_dir: Path | None, split_name: str | None) -> Text:
    """Read a split of a corpus, by default of the only test set of the run's data. Raises DataError."""
    return _whole(*read_split(translator, data_dir, split_name), translator)


def file_text(translator: Translator, source: Path, reference: Path) -> Text:
    """Read two aligned files.

    Raises DataError if one is missing, empty or no text, or has more lines than the other.
    """
    for path in (source, reference):
        if not path.exists():
            raise DataError(f"{path}: no such file")
    pairs = bounded_list(read_aligned(source, reference), str(source))
    if not pairs:
        raise DataError(f"{source}: is empty")
    return _whole(str(reference), [src for src, _ in pairs], [ref for _, ref in pairs], translator)


def _whole(name: str, sources: Sequence[str], references: Sequence[str], translator: Translator) -> Text:
    config = translator.config.data
    return Text(name, sources, references, (config.src, config.tgt), range(1, len(sources) + 1))


def measure_run(translator: Translator, search: SearchConfig, text: Text, plan: Plan) -> Measured:
    """Translate a text as it is and changed. Raises DataError if no change has an effect on it."""

    def translate(lines: Sequence[str], numbers: Sequence[int]) -> list[str]:
        n_original = len({*text.sources})
        say(f"{len(lines):,} lines to translate: {n_original:,} as they are, {len(lines) - n_original:,} changed")
        return translate_text(translator, lines, text.name, search, numbers)

    return measure(text, make_variants(text, plan), translate)


def write_texts(directory: Path, measured: Measured, languages: tuple[str, str]) -> None:
    """Write the sources and translations of each variant, such as `typos-5.de` and `typos-5.en`. Raises DataError."""
    for variant, translations in zip(measured.variants, measured.translations, strict=True):
        for language, lines in zip(languages, (variant.sources, translations), strict=True):
            with open_output(directory / f"{variant.name}.{language}") as file:
                file.writelines(f"{line}\n".encode() for line in lines)
