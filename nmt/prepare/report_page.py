"""The report as files: report.json, and report.html, a single page without scripts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from nmt.files.write import replace_file
from nmt.files.yaml12 import dump_yaml
from nmt.layout import DataDir
from nmt.pages import asset, document, escaped, escaped_sentence, histogram, language_attributes, table
from nmt.prepare.cleaning.counts import REASONS, REPAIRS, skipped_units, summed
from nmt.prepare.report import (
    CorpusReport,
    MonoReport,
    PreparationReport,
    SourceReport,
    TokenizerReport,
    lengths_of_pieces,
)

_REPAIRED_SAMPLES = 5


def report_page(report: PreparationReport) -> str:
    """Return the report as an HTML page."""
    languages = " and ".join(report.languages)
    title = f"Training text in {languages}: what was kept and what was dropped"
    body = [
        *_summary(report),
        *_warnings(report.warnings),
        *_corpora(report.corpora),
        *_classes(report.classes),
        "<h2>Why pairs were dropped</h2>",
        *_reasons(report.dropped, report.read),
        *_repairs(report),
        *_lengths(report),
        *_mix(report),
        *_each(report),
        *_mono(report.mono),
        *_tokenizer(report.tokenizer),
        "<h2>Settings</h2>\n<details><summary>The settings that determine the data directory</summary>",
        f"<pre>{escaped(dump_yaml(report.settings), keep_lines=True)}</pre>\n</details>",
    ]
    return document(title, asset("nmt.prepare", "report.css"), body)


def _summary(report: PreparationReport) -> Iterator[str]:
    corpora = f"{len(report.corpora):,} corpora" if len(report.corpora) > 1 else "one corpus"
    yield (
        f'<p class="lead">{report.read:,} pairs were read from {corpora}. {report.kept:,} '
        f"({_share(report.kept, report.read)}) are kept, {report.read - report.kept:,} "
        f"({_share(report.read - report.kept, report.read)}) dropped.</p>"
    )
    if report.kind == "dry run":
        yield (
            "<p>This was a dry run: no data directory was written, and pairs with too many pieces are not dropped "
            "yet.</p>"
        )
    if report.sample is not None:
        yield (
            f"<p>Only a sample was read, at most {report.sample:,} pairs of each corpus, spread over it. Shares are "
            "estimates, and most duplicates are not seen: both copies are rarely in a sample. No development set is "
            "split off.</p>"
        )
    if report.held_out:
        held_out = ", ".join(f"{escaped(name)} {n:,}" for name, n in report.held_out.items())
        yield f"<p>Development and test sets are not cleaned. Numbers of their pairs: {held_out}.</p>"


def _warnings(warnings: Sequence[str]) -> Iterator[str]:
    if warnings:
        yield '<section class="warnings">\n<h2>Warnings</h2>\n<ul>'
        yield from (f"<li>{escaped(warning)}</li>" for warning in warnings)
        yield "</ul>\n</section>"


def _corpora(corpora: Sequence[CorpusReport]) -> Iterator[str]:
    yield "<h2>Corpora</h2>"
    yield from _counts(corpora)
    for corpus in corpora:
        if corpus.skipped:
            yield f"<p>{escaped(skipped_units(corpus.corpus, corpus.skipped))}.</p>"


def _counts(corpora: Sequence[SourceReport]) -> Iterator[str]:
    """Yield a table of the numbers of pairs read, kept and dropped."""
    rows = []
    for corpus in corpora:
        n_dropped = corpus.read - corpus.kept
        counts = [f"{corpus.read:,}", f"{corpus.kept:,}", f"{n_dropped:,}", _share(corpus.kept, corpus.read)]
        rows.append([_named(corpus.corpus, corpus.key), *counts, _bar(corpus.kept, corpus.read, "kept")])
    yield table(["corpus", "read", "kept", "dropped", "kept", ""], rows)


def _classes(classes: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a table of the labels of each split."""
    if not classes:
        return
    yield "<h2>Labels</h2>"
    totals = {split: sum(counts.values()) for split, counts in classes.items()}
    rows = []
    for label in next(iter(classes.values())):
        cells = [f"{counts[label]:,} ({_share(counts[label], totals[split])})" for split, counts in classes.items()]
        rows.append([escaped(label), *cells])
    yield table(["label", *map(escaped, classes)], rows)


def _reasons(dropped: Mapping[str, int], read: int) -> Iterator[str]:
    """Yield a table of dropped pairs by reason."""
    if not dropped:
        yield "<p>No pair was dropped.</p>"
        return
    rows = [
        [_named(REASONS[reason], reason), f"{n:,}", _share(n, read), _bar(n, max(dropped.values()), "dropped")]
        for reason, n in dropped.items()
    ]
    yield table(["reason", "pairs", "of all read", ""], rows)


def _repairs(report: PreparationReport) -> Iterator[str]:
    if not report.repaired:
        return
    yield "<h2>Repairs</h2>\n<p>Pairs that were changed, before and after:</p>\n<dl>"
    for kind, n in report.repaired.items():
        yield f"<dt>{escaped(REPAIRS[kind])}, {n:,} pairs</dt>"
        samples = chain.from_iterable(corpus.repaired_samples.get(kind, []) for corpus in report.corpora)
        for sample in islice(samples, _REPAIRED_SAMPLES):
            for name, style in (("before", "dropped"), ("after", "kept")):
                yield f'<dd class="{style}" dir="auto"><bdi>{escaped(str(sample[name]))}</bdi></dd>'
    yield "</dl>"


def _lengths(report: PreparationReport) -> Iterator[str]:
    """Yield charts of the lengths of the pairs of all corpora."""
    yield '<h2>Lengths</h2>\n<p class="legend">'
    yield '<span class="key" style="background: var(--read)"></span> read'
    yield '<span class="key" style="background: var(--kept); margin-left: 1rem"></span> kept</p>\n<div class="charts">'
    read = [corpus.lengths_read for corpus in report.corpora]
    kept = [corpus.lengths_kept for corpus in report.corpora]
    ticks = {i: f"{edge:,}" for i, edge in enumerate(report.character_edges, start=1) if edge.bit_count() == 1}
    for language in report.text_languages:
        sides = {
            "read": _added(lengths.characters[language] for lengths in read),
            "kept": _added(lengths.characters[language] for lengths in kept),
        }
        yield histogram(f"{language}: characters a line", sides, ticks, "pairs")
    if len(report.text_languages) == 2:
        first, second = report.languages
        ratios = {
            "read": _added(lengths.ratio for lengths in read),
            "kept": _added(lengths.ratio for lengths in kept),
        }
        ticks = {}
        for i, ratio in enumerate(report.ratio_edges, start=1):
            if math.log2(ratio).is_integer():
                ticks[i] = f"{ratio:g}" if ratio >= 1 else f"1/{1 / ratio:g}"
        yield histogram(f"length of {second} in lengths of {first}", ratios, ticks, "pairs")
    yield "</div>"


def _mix(report: PreparationReport) -> Iterator[str]:
    """Yield a table of the scripts of both sides, and of the identified languages of lines."""
    yield "<h2>Scripts and languages</h2>"
    rows = []
    for corpus in report.corpora:
        cells = [escaped(corpus.corpus)]
        for language, scripts in corpus.scripts.items():
            identified = corpus.identified.get(language)
            cell = _shares(scripts)
            if identified:
                cell += f"<br/>identified as {_shares(identified)}"
            cells.append(cell)
        rows.append(cells)
    yield table(["corpus", *map(escaped, report.text_languages)], rows, n_text=len(report.text_languages) + 1)
    yield '<p class="soft">The script of a line is that of most of its letters, in a sample of the kept pairs.</p>'


def _each(report: PreparationReport) -> Iterator[str]:
    """Yield the counts and samples of each corpus."""
    is_one = len(report.corpora) == 1
    heading = "Samples" if is_one else "Corpus by corpus"
    yield f"<h2>{heading}</h2>"
    yield '<p class="soft">Long lines are cut.</p>'
    for corpus in report.corpora:
        numbers = f"{corpus.kept:,} of {corpus.read:,} pairs kept"
        attributes = ' open="open"' if is_one else ""
        yield f"<details{attributes}>"
        yield f"<summary>{_named(corpus.corpus, f'{corpus.key}: {numbers}')}</summary>"
        if not is_one:
            yield from _reasons(summed([corpus.dropped], REASONS), corpus.read)
        yield '<div class="beside">\n<div>\n<h3>Some of the pairs dropped</h3>\n<dl>'
        yield from _dropped(corpus, report.languages, "pair")
        yield "</dl>\n</div>\n<div>\n<h3>Some of the pairs kept</h3>\n<dl>"
        for sample in corpus.kept_samples:
            yield from _sample(f"pair {sample['line']:,}", sample, report.languages, "kept")
        yield "</dl>\n</div>\n</div>\n</details>"


def _mono(sources: Sequence[MonoReport]) -> Iterator[str]:
    """Yield the numbers of lines of monolingual text, and some dropped lines."""
    if not sources:
        return
    yield "<h2>Monolingual text, in lines</h2>"
    yield from _counts(sources)
    for source in sources:
        yield f"<details>\n<summary>{escaped(source.corpus)}: some of the lines dropped</summary>\n<dl>"
        yield from _dropped(source, [source.language], "line")
        yield "</dl>\n</details>"


def _dropped(corpus: SourceReport, languages: Sequence[str], unit: str) -> Iterator[str]:
    for reason, samples in corpus.dropped_samples.items():
        for sample in samples:
            title = f"{REASONS[reason]} ({corpus.dropped[reason]:,}), {unit} {sample['line']:,}"
            yield from _sample(title, sample, languages, "dropped")


def _sample(title: str, sample: Mapping[str, str | int], languages: Sequence[str], kind: str) -> Iterator[str]:
    yield f"<dt>{escaped(title)}</dt>"
    for language in languages:
        text = escaped_sentence(str(sample[language]))
        yield f'<dd class="{kind}"{language_attributes(language)}><bdi>{text}</bdi></dd>'


def _tokenizer(tokenizer: TokenizerReport | None) -> Iterator[str]:
    if tokenizer is None:
        return
    yield "<h2>Tokenizer</h2>\n<ul>"
    together = " (one vocabulary)" if tokenizer.joint else ""
    yield from (f"<li>{n:,} pieces for {escaped(language)}{together}</li>" for language, n in tokenizer.pieces.items())
    yield from (f"<li>{escaped(line)}</li>" for line in lengths_of_pieces(tokenizer))
    yield "</ul>"


def _named(name: str, key: str) -> str:
    return f'{escaped(name)} <span class="soft">{escaped(key)}</span>'


def _bar(n: int, of: int, kind: str) -> str:
    width = 100 * n / of if of else 0.0
    return f'<td class="bar {kind}"><div><i style="width: {width:.1f}%"></i></div></td>'


def _share(n: int, of: int) -> str:
    return f"{n / of:.1%}" if of else "–"


def _shares(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{escaped(name)} {_share(n, total)}" for name, n in counts.items()) or "–"


def _added(histograms: Iterable[Sequence[int]]) -> list[int]:
    return [sum(counts) for counts in zip(*histograms, strict=True)]


def write_report(folder: Path, report: PreparationReport) -> None:
    """Write report.json and report.html into a folder. Raises OSError."""
    directory = DataDir(folder)
    replace_file(directory.report, report_json(report))
    replace_file(directory.report_page, report_page(report))


def report_json(report: PreparationReport) -> str:
    """Return the report as JSON."""
    left_out = [name for name in ("mono", "classes") if not getattr(report, name)]
    tree = report.model_dump(mode="json", exclude=set(left_out))
    return json.dumps(tree, ensure_ascii=False, indent=1) + "\n"
