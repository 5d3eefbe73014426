"""The report as one HTML page that needs nothing else: no script, no other file, no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from nmt.config.yaml12 import dump_yaml
from nmt.console import printable, printable_sentence
from nmt.prepare.cleaning.reasons import REASONS
from nmt.prepare.report import length_of_pieces
from nmt.prepare.reporting.charts import histogram
from nmt.prepare.reporting.report import CorpusReport, Histograms, Report, TokenizerReport
from nmt.prepare.reporting.style import STYLE


def report_page(report: Report) -> str:
    """Return the page."""
    languages = " and ".join(report.languages)
    title = f"Training text in {languages}: what was kept and what was dropped"
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            f"<h1>{_text(title)}</h1>",
            *_summary(report),
            *_warnings(report.warnings),
            *_corpora(report.corpora),
            *_reasons("Why pairs were dropped", report.dropped, report.read, "h2"),
            *_repairs(report.corpora),
            *_lengths(report, [c.lengths_read for c in report.corpora], [c.lengths_kept for c in report.corpora], "h2"),
            *_mix(report.corpora),
            *_each(report),
            *_tokenizer(report.tokenizer),
            "<h2>Settings</h2>\n<details><summary>The settings that determine the data directory</summary>",
            f"<pre>{_text(dump_yaml(report.settings), keep_lines=True)}</pre>\n</details>",
            "</body>\n</html>\n",
        ]
    )


def _summary(report: Report) -> Iterator[str]:
    corpora = f"{len(report.corpora):,} corpora" if len(report.corpora) > 1 else "one corpus"
    yield (
        f'<p class="lead">{report.read:,} pairs were read from {corpora}. {report.kept:,} '
        f"({_share(report.kept, report.read)}) are kept, {report.read - report.kept:,} "
        f"({_share(report.read - report.kept, report.read)}) dropped.</p>"
    )
    if report.kind == "dry run":
        yield (
            "<p>This was a dry run: no data directory was written. The last steps were left out: splitting off a "
            "development set, and dropping pairs with too many pieces.</p>"
        )
    if report.sample is not None:
        yield (
            f"<p>Only a sample was read, at most {report.sample:,} pairs of each corpus, spread over it. Shares are "
            "estimates, and most duplicates are not seen: both copies are rarely in a sample.</p>"
        )
    held_out = ", ".join(f"{_text(name)} {n:,}" for name, n in report.held_out.items())
    if held_out:
        yield f"<p>Development and test sets are not cleaned. Their pairs: {held_out}.</p>"


def _warnings(warnings: Sequence[str]) -> Iterator[str]:
    if warnings:
        yield '<section class="warnings">\n<h2>Warnings</h2>\n<ul>'
        yield from (f"<li>{_text(warning)}</li>" for warning in warnings)
        yield "</ul>\n</section>"


def _corpora(corpora: Sequence[CorpusReport]) -> Iterator[str]:
    yield '<h2>Corpora</h2>\n<table>\n<tr><th>corpus</th><th class="n">read</th><th class="n">kept</th>'
    yield '<th class="n">dropped</th><th class="n">kept</th><th></th></tr>'
    for corpus in corpora:
        name = f'{_text(corpus.corpus)} <span class="soft">{_text(corpus.key)}</span>'
        numbers = (f"{n:,}" for n in (corpus.read, corpus.kept, corpus.read - corpus.kept))
        share = _share(corpus.kept, corpus.read)
        yield _row(name, (*numbers, share), _bar(corpus.kept, corpus.read, "kept"))
    yield "</table>"
    for corpus in corpora:
        if corpus.skipped:
            yield f"<p>{_text(corpus.corpus)}: skipped, since they are no pair: {_counted(corpus.skipped)}.</p>"


def _reasons(title: str, dropped: Mapping[str, int], read: int, level: str) -> Iterator[str]:
    """Yield a table of the pairs dropped by reason. `level`: h2 or h3."""
    yield f"<{level}>{title}</{level}>"
    if not dropped:
        yield "<p>No pair was dropped.</p>"
        return
    yield '<table>\n<tr><th>reason</th><th class="n">pairs</th><th class="n">of all read</th><th></th></tr>'
    most = max(dropped.values())
    for reason, n in dropped.items():
        name = f'{_text(_named(reason))} <span class="soft">{_text(reason)}</span>'
        yield _row(name, (f"{n:,}", _share(n, read)), _bar(n, most, "dropped"))
    yield "</table>"


def _repairs(corpora: Sequence[CorpusReport]) -> Iterator[str]:
    repaired = _sum(corpus.repaired for corpus in corpora)
    if repaired:
        yield "<h2>Repairs</h2>\n<p>Pairs that were changed, and not dropped for it:</p>\n<ul>"
        yield from (f"<li>{_text(step)}: {n:,}</li>" for step, n in repaired.items())
        yield "</ul>"


def _lengths(report: Report, read: Sequence[Histograms], kept: Sequence[Histograms], level: str) -> Iterator[str]:
    """Yield the charts of the lengths of all these corpora together."""
    yield f'<{level}>Lengths</{level}>\n<p><span class="key" style="background: var(--read)"></span> read'
    yield '<span class="key" style="background: var(--kept); margin-left: 1rem"></span> kept</p>\n<div class="charts">'
    first, second = report.languages
    ticks = {
        number: f"{edge:,}" for number, edge in enumerate(report.character_edges, start=1) if edge.bit_count() == 1
    }
    for language in report.languages:
        sides = ([each.characters[language] for each in histograms] for histograms in (read, kept))
        yield histogram(f"{language}: characters a line", *map(_added, sides), ticks)
    ratios = ([each.ratio for each in histograms] for histograms in (read, kept))
    ticks = {number: _ratio(edge) for number, edge in enumerate(report.ratio_edges, start=1) if _is_power(edge)}
    yield histogram(f"length of {second} in lengths of {first}", *map(_added, ratios), ticks)
    yield "</div>"


def _mix(corpora: Sequence[CorpusReport]) -> Iterator[str]:
    yield "<h2>Scripts and languages</h2>\n<table>\n<tr><th>corpus</th><th>side</th><th>scripts, in a sample</th>"
    is_identified = any(corpus.identified for corpus in corpora)
    yield "<th>languages identified</th></tr>" if is_identified else "</tr>"
    for corpus in corpora:
        for language, scripts in corpus.scripts.items():
            cells = [_text(corpus.corpus), _text(language), _shares(scripts)]
            if is_identified:
                cells.append(_shares(corpus.identified.get(language, {})))
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</table>"


def _each(report: Report) -> Iterator[str]:
    """Yield the details of each corpus."""
    yield "<h2>Samples</h2>" if len(report.corpora) == 1 else "<h2>Corpus by corpus</h2>"
    for corpus in report.corpora:
        numbers = f"{corpus.kept:,} of {corpus.read:,} pairs kept"
        yield '<details open="open">' if len(report.corpora) == 1 else "<details>"
        yield f'<summary>{_text(corpus.corpus)} <span class="soft">{_text(corpus.key)}: {numbers}</span></summary>'
        if len(report.corpora) > 1:
            yield from _reasons("Dropped", corpus.dropped, corpus.read, "h3")
            yield from _lengths(report, [corpus.lengths_read], [corpus.lengths_kept], "h3")
        yield '<div class="beside">\n<div>\n<h3>Some of the pairs dropped</h3>\n<dl>'
        for reason, samples in corpus.dropped_samples.items():
            for sample in samples:
                yield from _sample(f"{_named(reason)}, line {sample['line']:,}", sample, report.languages, "dropped")
        yield "</dl>\n</div>\n<div>\n<h3>Some of the pairs kept</h3>\n<dl>"
        for sample in corpus.kept_samples:
            yield from _sample(f"line {sample['line']:,}", sample, report.languages, "kept")
        yield "</dl>\n</div>\n</div>\n</details>"


def _sample(title: str, sample: Mapping[str, str | int], languages: Sequence[str], kind: str) -> Iterator[str]:
    yield f"<dt>{_text(title)}</dt>"
    for language in languages:
        code = escape(language.replace("_", "-"))
        text = escape(printable_sentence(str(sample[language]))) or '<span class="soft">(no text)</span>'
        yield f'<dd class="{kind}" lang="{code}" dir="auto">{text}</dd>'


def _tokenizer(tokenizer: TokenizerReport | None) -> Iterator[str]:
    if tokenizer is None:
        return
    yield "<h2>Tokenizer</h2>\n<ul>"
    if tokenizer.joint:
        languages = " and ".join(tokenizer.pieces)
        yield f"<li>{next(iter(tokenizer.pieces.values())):,} pieces for {_text(languages)} together</li>"
    else:
        yield from (f"<li>{n:,} pieces for {_text(language)}</li>" for language, n in tokenizer.pieces.items())
    for language, counts in tokenizer.text.items():
        yield f"<li>{_text(language)}: {_text(length_of_pieces(language, counts))}</li>"
    yield "</ul>"


# --- cells and numbers ------------------------------------------------------------------------------


def _row(name: str, numbers: Iterable[str], bar: str) -> str:
    cells = "".join(f'<td class="n">{number}</td>' for number in numbers)
    return f"<tr><td>{name}</td>{cells}{bar}</tr>"


def _bar(n: int, of: int, kind: str) -> str:
    width = 100 * n / of if of else 0.0
    return f'<td class="bar {kind}"><div><i style="width: {width:.1f}%"></i></div></td>'


def _text(text: str, keep_lines: bool = False) -> str:
    """Escape a text for HTML, and what would not be visible or would change the direction of the page."""
    lines = text.split("\n") if keep_lines else [text]
    return "\n".join(escape(printable(line)) for line in lines)


def _named(reason: str) -> str:
    return REASONS.get(reason, reason)


def _share(n: int, of: int) -> str:
    return f"{n / of:.1%}" if of else "–"


def _shares(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{_text(name)} {_share(n, total)}" for name, n in counts.items()) or "–"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_text(name)} {n:,}" for name, n in sorted(counts.items()))


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, n in each.items():
            total[name] = total.get(name, 0) + n
    return total


def _added(histograms: Iterable[Sequence[int]]) -> list[int]:
    return [sum(counts) for counts in zip(*histograms, strict=True)]


def _is_power(edge: float) -> bool:
    return edge in (0.125, 0.25, 0.5, 1, 2, 4, 8)


def _ratio(edge: float) -> str:
    return f"{edge:g}" if edge >= 1 else f"1/{1 / edge:g}"
