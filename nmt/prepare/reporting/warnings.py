"""Warnings of corpora that look wrong as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from nmt.prepare.cleaning.counts import CleanReport, drop_summary
from nmt.prepare.languages import Sample, language_warnings
from nmt.prepare.suspicions import suspicions


def corpus_warnings(
    reports: Mapping[str, CleanReport],
    samples: Mapping[str, Sample],
    languages: tuple[str, str],
    names: Mapping[str, str],
) -> list[str]:
    """Return a warning for each training corpus of which no pair is kept, and for what looks wrong with one.

    Args:
        reports: those of the training corpora, by key.
        samples: of the text that is kept of them, and of the development and test sets, by key.
        names: of all corpora, by key.
    """
    empty = [
        f"data.{key} ({names[key]}): none of its pairs is kept: "
        f"{drop_summary(report) if report.read else '0 pairs were read'}"
        for key, report in reports.items()
        if report.kept == 0
    ]
    found = language_warnings(samples, languages, names)
    told = {key for key in samples if any(warning.startswith(f"data.{key} ") for warning in found)}
    others = {key: sample for key, sample in samples.items() if key not in told}  # which are not swapped
    return [*empty, *found, *suspicions(others, others.keys() - reports.keys(), languages, names)]
