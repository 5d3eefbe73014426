"""Parallel text from a document and its translation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from nmt import __version__
from nmt.documents import is_translated, read_document, refuse_document
from nmt.documents.types import spaced
from nmt.errors import ConfigError, DataError
from nmt.evaluate.metrics import make_scorer
from nmt.languages.codes import language_name, parts_of, script_of_text, scripts_of
from nmt.languages.directions import DIRECTION
from nmt.text.lines import read_lines
from nmt.text.sentence_alignment import align
from nmt.text.split import join, sentences
from nmt.text.tokenizer import is_blank

OUTPUTS = (".tsv", ".tmx")
"""Suffixes of the files that can be written."""


class ScoredPair(NamedTuple):
    """One or two sentences, and one or two that translate them."""

    src: str
    tgt: str
    score: float
    """Between 0 and 1. With translations of the source: their chrF against the target, divided by 100. Otherwise
    1 - exp(-x), with x the logarithm, per word, of how much more probable the sentences are as translations than as
    unrelated sentences, or 0 if they are not."""


@dataclass(frozen=True)
class ParallelText:
    """The pairs of two documents."""

    pairs: list[ScoredPair]
    shapes: Counter[tuple[int, int]]
    """How often a number of source sentences has a number of target sentences; either is 0 without a counterpart."""

    def summary(self) -> str:
        """Return the numbers of pairs, and of sentences without a counterpart."""
        pairs = {shape: n for shape, n in self.shapes.items() if all(shape)}
        parts = ", ".join(f"{n:,} {src}-{tgt}" for (src, tgt), n in sorted(pairs.items()))
        left = f"{self.shapes[1, 0]:,} source and {self.shapes[0, 1]:,} target sentences without a counterpart"
        return f"{len(self.pairs):,} pairs ({parts}), {left}"


def direction_of(source: Path, target: Path, texts: Iterable[Sequence[str]]) -> str | None:
    """Return the direction by the names of two files, de-en for `A.de` and `A.en`, or `A.de.docx` and `A.en.docx`; None
    if they do not end in two languages. `texts` are the sentences of both."""
    stems = [path.with_suffix("") if is_translated(path) else path for path in (source, target)]
    codes = [stem.suffix[1:].replace("-", "_") for stem in stems]
    return "-".join(codes) if codes[0] != codes[1] and all(map(_is_language, codes, texts)) else None


def _is_language(suffix: str, text: Sequence[str]) -> bool:
    """Return whether a suffix is the code of the language of a text.

    Many words have three letters, such as `src`, `raw` and `old`: the text must be in a script of the language, and if
    that is Latin, the language must also have a code of two letters.
    """
    if len(suffix) != 3:
        return language_name(suffix) != suffix
    if suffix in ("bak", "run", "src"):  # Bashkir, Rundi and Sardinian need a script, as in bak_Cyrl
        return False
    script = script_of_text(text, 0)
    return script in scripts_of(suffix) and (script != "Latn" or len(parts_of(suffix)[0]) == 2)


def check_direction(direction: str) -> str:
    """Return a direction such as de-en. Raises ConfigError if it is none."""
    match = DIRECTION.match(direction)
    if match is None or match[1] == match[2]:
        raise ConfigError(f"--direction {direction}: must be two languages, such as de-en or pt_BR-en")
    return direction


def read_sentences(path: Path) -> list[str]:
    """Return the sentences of a document or a file with lines of text.

    A line or paragraph without an end of sentence is one sentence. Raises DataError, also if there are none.
    """
    if is_translated(path):
        texts = read_document(path).texts
    else:
        refuse_document(path, remedy="; save it as plain text")
        texts = [*read_lines(path)]
    divided = [sentence for text in texts for sentence in sentences(spaced(text)) if not is_blank(sentence)]
    if not divided:
        raise DataError(f"{path}: contains no text")
    return divided


def parallel_text(source: Sequence[str], target: Sequence[str], translations: Sequence[str] | None) -> ParallelText:
    """Align the sentences of a document with the sentences of its translation.

    translations: a translation of each source sentence, by which it is compared with the target; None if there is no
    system that translates.
    """
    beads = align(source, target, translations)
    pairs = []
    for bead in beads:
        if not (bead.src and bead.tgt):
            continue
        src = _joined(source[bead.src.start : bead.src.stop])
        tgt = _joined(target[bead.tgt.start : bead.tgt.stop])
        if translations is None:
            score = 1 - math.exp(-max(0.0, bead.score))
        else:
            translated = _joined(translations[bead.src.start : bead.src.stop])
            score = make_scorer("chrf", [tgt]).sentence_score(translated, [tgt]).score / 100
        pairs.append(ScoredPair(src, tgt, score))
    return ParallelText(pairs, Counter((len(bead.src), len(bead.tgt)) for bead in beads))


def _joined(parts: Sequence[str]) -> str:
    """Join sentences, with a space unless their script has none."""
    return join([(part, " ") for part in parts], parts)


def write_parallel(out: IO[bytes], suffix: str, pairs: Sequence[ScoredPair], direction: str) -> None:
    """Write pairs as TMX or TSV, with their scores, as `nmt prepare` reads them (`score: score`)."""
    source, target = direction.split("-")
    if suffix == ".tmx":
        units = ((f'<prop type="score">{pair.score:.4f}</prop>', pair.src, pair.tgt) for pair in pairs)
        lines = tmx(units, source.replace("_", "-"), target.replace("_", "-"), "sentence")
    else:
        out.write(f"{source}\t{target}\tscore\n".encode())
        lines = (f"{pair.src}\t{pair.tgt}\t{pair.score:.4f}" for pair in pairs)
    out.writelines(f"{line}\n".encode() for line in lines)


def tmx(units: Iterable[tuple[str, str, str]], source: str, target: str, segments: str) -> Iterator[str]:
    """Yield the lines of a TMX file.

    units: the properties of each unit as XML, its source text and its target text; source, target: language tags;
    segments: what a text is, sentence or paragraph.
    """
    source = quoteattr(source)
    target = quoteattr(target)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<tmx version="1.4">'
    yield (
        f'<header creationtool="nmt" creationtoolversion="{__version__}" segtype="{segments}" o-tmf="nmt" '
        f'adminlang="en" srclang={source} datatype="plaintext"/>'
    )
    yield "<body>"
    for number, (properties, src, tgt) in enumerate(units, start=1):
        source_side = f"<tuv xml:lang={source}><seg>{escape(src)}</seg></tuv>"
        target_side = f"<tuv xml:lang={target}><seg>{escape(tgt)}</seg></tuv>"
        yield f'<tu tuid="{number}">{properties}{source_side}{target_side}</tu>'
    yield "</body>"
    yield "</tmx>"
