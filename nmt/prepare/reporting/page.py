"""The report as files: JSON, and one HTML page without a script."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from nmt.config.yaml12 import dump_yaml
from nmt.figures.charts import histogram
from nmt.figures.page import asset, document, escaped, escaped_sentence, language_attributes
from nmt.files.write import replace_file
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import REASONS, REPAIRS
from nmt.prepare.reporting.report import CorpusReport, Histograms, MonoReport, Report, TokenizerReport, summed
from nmt.prepare.reporting.screen import length_of_pieces

_REPAIRED_SAMPLES = 5
_MOST_CORPORA = 3  # that are named for each reason


def report_page(report: Report) -> str:
    """Return the page."""
    languages = " and ".join(report.languages)
    title = f"Training text in {languages}: what was kept and what was dropped"
    body = [
        *_summary(report),
        *_warnings(report.warnings),
        *_corpora(report.corpora),
        *_classes(report.classes),
        *_reasons("Why pairs were dropped", report.corpora, "h2"),
        *_repairs(report),
        *_lengths(report, [c.lengths_read for c in report.corpora], [c.lengths_kept for c in report.corpora], "h2"),
        *_mix(report),
        *_each(report),
        *_mono(report.mono),
        *_tokenizer(report.tokenizer),
        "<h2>Settings</h2>\n<details><summary>The settings that determine the data directory</summary>",
        f"<pre>{escaped(dump_yaml(report.settings), keep_lines=True)}</pre>\n</details>",
    ]
    return document(title, asset("nmt.prepare.reporting", "report.css"), body)


def _summary(report: Report) -> Iterator[str]:
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
    held_out = ", ".join(f"{escaped(name)} {n:,}" for name, n in report.held_out.items())
    if held_out:
        yield f"<p>Development and test sets are not cleaned. Their pairs: {held_out}.</p>"


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
            yield f"<p>{escaped(corpus.corpus)}: units that are not one pair: {_counted(corpus.skipped)}.</p>"


def _counts(corpora: Sequence[CorpusReport | MonoReport]) -> Iterator[str]:
    """Yield a table of what was read, kept and dropped."""
    yield '<table>\n<tr><th>corpus</th><th class="n">read</th><th class="n">kept</th>'
    yield '<th class="n">dropped</th><th class="n">kept</th><th></th></tr>'
    for corpus in corpora:
        name = f'{escaped(corpus.corpus)} <span class="soft">{escaped(corpus.key)}</span>'
        numbers = (f"{n:,}" for n in (corpus.read, corpus.kept, corpus.read - corpus.kept))
        share = _share(corpus.kept, corpus.read)
        yield _row(name, (*numbers, share), _bar(corpus.kept, corpus.read, "kept"))
    yield "</table>"


def _classes(classes: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a table of the labels of each split."""
    if not classes:
        return
    heads = "".join(f'<th class="n">{escaped(split)}</th><th></th>' for split in classes)
    yield f"<h2>Labels</h2>\n<table>\n<tr><th>label</th>{heads}</tr>"
    for label in next(iter(classes.values())):
        cells = (f'<td class="n">{own[label]:,}</td><td class="n">{_share(own[label], sum(own.values()))}</td>'
                 for own in classes.values())  # fmt: skip
        yield f"<tr><td>{escaped(label)}</td>{''.join(cells)}</tr>"
    yield "</table>"


def _reasons(title: str, corpora: Sequence[CorpusReport], level: str) -> Iterator[str]:
    """Yield a table of the pairs dropped of these corpora by reason. `level`: h2 or h3."""
    yield f"<{level}>{title}</{level}>"
    read, dropped = sum(corpus.read for corpus in corpora), summed((corpus.dropped for corpus in corpora), REASONS)
    if not dropped:
        yield "<p>No pair was dropped.</p>"
        return
    yield '<table>\n<tr><th>reason</th><th class="n">pairs</th><th class="n">of all read</th><th></th></tr>'
    for reason, n in dropped.items():
        name = f'{escaped(_named(reason))} <span class="soft">{escaped(reason)}</span>'
        if len(corpora) > 1:
            most = sorted(corpora, key=lambda corpus: -corpus.dropped.get(reason, 0))[:_MOST_CORPORA]
            counts = (f"{escaped(each.corpus)} {each.dropped[reason]:,}" for each in most if reason in each.dropped)
            name += f'<br/><span class="soft">{", ".join(counts)}</span>'
        yield _row(name, (f"{n:,}", _share(n, read)), _bar(n, max(dropped.values()), "dropped"))
    yield "</table>"


def _repairs(report: Report) -> Iterator[str]:
    if not report.repaired:
        return
    yield "<h2>Repairs</h2>\n<p>Pairs that were changed, before and after:</p>\n<dl>"
    for kind, n in report.repaired.items():
        yield f"<dt>{escaped(REPAIRS[kind])}, {n:,} pairs</dt>"
        samples = [sample for corpus in report.corpora for sample in corpus.repaired_samples.get(kind, [])]
        for sample in samples[:_REPAIRED_SAMPLES]:
            for name, style in (("before", "dropped"), ("after", "kept")):
                yield f'<dd class="{style}" dir="auto">{escaped_sentence(str(sample[name]))}</dd>'
    yield "</dl>"


def _lengths(report: Report, read: Sequence[Histograms], kept: Sequence[Histograms], level: str) -> Iterator[str]:
    """Yield the charts of the lengths of all these corpora together."""
    yield f'<{level}>Lengths</{level}>\n<p class="legend">'
    yield '<span class="key" style="background: var(--read)"></span> read'
    yield '<span class="key" style="background: var(--kept); margin-left: 1rem"></span> kept</p>\n<div class="charts">'
    ticks = {i: f"{edge:,}" for i, edge in enumerate(report.character_edges, start=1) if edge.bit_count() == 1}
    for language in report.text_languages:
        sides = [_added(each.characters[language] for each in histograms) for histograms in (read, kept)]
        yield histogram(f"{language}: characters a line", {"read": sides[0], "kept": sides[1]}, ticks, "pairs")
    if len(report.text_languages) < 2:
        yield "</div>"
        return
    first, second = report.languages
    ratios = [_added(each.ratio for each in histograms) for histograms in (read, kept)]
    ticks = {i: _ratio(edge) for i, edge in enumerate(report.ratio_edges, start=1) if math.log2(edge).is_integer()}
    yield histogram(f"length of {second} in lengths of {first}", {"read": ratios[0], "kept": ratios[1]}, ticks, "pairs")
    yield "</div>"


def _mix(report: Report) -> Iterator[str]:
    """Yield a table of the scripts of both sides, and of the languages that lines were identified as."""
    heads = "".join(f"<th>{escaped(language)}</th>" for language in report.text_languages)
    yield f"<h2>Scripts and languages</h2>\n<table>\n<tr><th>corpus</th>{heads}</tr>"
    for corpus in report.corpora:
        cells = [escaped(corpus.corpus)]
        for language, scripts in corpus.scripts.items():
            identified = corpus.identified.get(language)
            more = f"<br/>identified as {_shares(identified)}" if identified else ""
            cells.append(f"{_shares(scripts)}{more}")
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield '</table>\n<p class="soft">Scripts are those of most letters of a line, in a sample of what is kept.</p>'


def _each(report: Report) -> Iterator[str]:
    """Yield the details of each corpus."""
    yield "<h2>Samples</h2>" if len(report.corpora) == 1 else "<h2>Corpus by corpus</h2>"
    yield '<p class="soft">Long lines are cut.</p>'
    for corpus in report.corpora:
        numbers = f"{corpus.kept:,} of {corpus.read:,} pairs kept"
        yield '<details open="open">' if len(report.corpora) == 1 else "<details>"
        yield f'<summary>{escaped(corpus.corpus)} <span class="soft">{escaped(corpus.key)}: {numbers}</span></summary>'
        if len(report.corpora) > 1:
            yield from _reasons("Dropped", [corpus], "h3")
            yield from _lengths(report, [corpus.lengths_read], [corpus.lengths_kept], "h3")
        yield '<div class="beside">\n<div>\n<h3>Some of the pairs dropped</h3>\n<dl>'
        yield from _dropped(corpus, report.languages, "pair")
        yield "</dl>\n</div>\n<div>\n<h3>Some of the pairs kept</h3>\n<dl>"
        for sample in corpus.kept_samples:
            yield from _sample(f"pair {sample['line']:,}", sample, report.languages, "kept")
        yield "</dl>\n</div>\n</div>\n</details>"


def _mono(sources: Sequence[MonoReport]) -> Iterator[str]:
    """Yield the numbers of lines of monolingual text, and some of those dropped."""
    if not sources:
        return
    yield "<h2>Monolingual text, in lines</h2>"
    yield from _counts(sources)
    for source in sources:
        yield f"<details>\n<summary>{escaped(source.corpus)}: some of the lines dropped</summary>\n<dl>"
        yield from _dropped(source, [source.language], "line")
        yield "</dl>\n</details>"


def _dropped(corpus: CorpusReport | MonoReport, languages: Sequence[str], unit: str) -> Iterator[str]:
    for reason, samples in corpus.dropped_samples.items():
        for sample in samples:
            title = f"{_named(reason)} ({corpus.dropped[reason]:,}), {unit} {sample['line']:,}"
            yield from _sample(title, sample, languages, "dropped")


def _sample(title: str, sample: Mapping[str, str | int], languages: Sequence[str], kind: str) -> Iterator[str]:
    yield f"<dt>{escaped(title)}</dt>"
    for language in languages:
        yield f'<dd class="{kind}"{language_attributes(language)}>{escaped_sentence(str(sample[language]))}</dd>'


def _tokenizer(tokenizer: TokenizerReport | None) -> Iterator[str]:
    if tokenizer is None:
        return
    yield "<h2>Tokenizer</h2>\n<ul>"
    together = " (one vocabulary)" if tokenizer.joint else ""
    yield from (f"<li>{n:,} pieces for {escaped(language)}{together}</li>" for language, n in tokenizer.pieces.items())
    for language, counts in tokenizer.text.items():
        yield f"<li>{escaped(language)}: {escaped(length_of_pieces(language, counts))}</li>"
    yield "</ul>"


# --- cells and numbers ------------------------------------------------------------------------------


def _row(name: str, numbers: Iterable[str], bar: str) -> str:
    cells = "".join(f'<td class="n">{number}</td>' for number in numbers)
    return f"<tr><td>{name}</td>{cells}{bar}</tr>"


def _bar(n: int, of: int, kind: str) -> str:
    width = 100 * n / of if of else 0.0
    return f'<td class="bar {kind}"><div><i style="width: {width:.1f}%"></i></div></td>'


def _named(reason: str) -> str:
    return REASONS.get(reason, reason)


def _share(n: int, of: int) -> str:
    return f"{n / of:.1%}" if of else "–"


def _shares(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{escaped(name)} {_share(n, total)}" for name, n in counts.items()) or "–"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{escaped(name)} {n:,}" for name, n in sorted(counts.items()))


def _added(histograms: Iterable[Sequence[int]]) -> list[int]:
    return [sum(counts) for counts in zip(*histograms, strict=True)]


def _ratio(edge: float) -> str:
    return f"{edge:g}" if edge >= 1 else f"1/{1 / edge:g}"


def write_report(folder: Path, report: Report) -> None:
    """Write report.json and report.html into a folder. Raises OSError."""
    directory = DataDir(folder)
    replace_file(directory.report, report_json(report))
    replace_file(directory.report_page, report_page(report))


def report_json(report: Report) -> str:
    """Return the report as JSON."""
    tree = report.model_dump(mode="json", exclude={name for name in ("mono", "classes") if not getattr(report, name)})
    return json.dumps(tree, ensure_ascii=False, indent=1) + "\n"
