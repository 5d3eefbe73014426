"""Measure how fast sentences are translated in context, compared with sentences alone.

    python -m scripts.measure.context_speed --run RUN --text FILE [--documents 16] [--context 2] [--rounds 3]

RUN was trained with training.modifiers.join. The lines of FILE are divided into documents of equal length, and are also
one document. In each round they are translated without context and with it, in turn. The table has the median number of
lines per second of wall-clock and of CPU time, and the median ratio to that without context, with its range.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from nmt.text.lines import read_lines
from nmt.translate.translator import Translator
from nmt.translate.types import Line


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", type=Path, required=True, help="run directory")
    parser.add_argument("--text", type=Path, required=True, help="lines of the source language")
    parser.add_argument("--documents", type=int, default=16, metavar="N", help="default: 16")
    parser.add_argument("--context", type=int, default=2, metavar="N", help="sentences; default: 2")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: 3")
    options = parser.parse_args()
    translator, lines = Translator.load(options.run), list(read_lines(options.text))
    length = -(-len(lines) // options.documents)
    arms = {
        "alone": (0, len(lines)),
        f"{options.documents} documents": (options.context, length),
        "one document": (options.context, len(lines)),
    }
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    for number in range(options.rounds + 1):  # the first one warms up
        for name, (context, per_document) in arms.items():
            search = translator.search_settings({"context": context})
            text = [Line(line, is_first=i % per_document == 0) for i, line in enumerate(lines)]
            began, cpu_began = time.perf_counter(), time.process_time()
            for _ in translator.translate_lines(text, search):
                pass
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
            if number:
                rates[name].append((len(lines) / seconds, len(lines) / cpu))
    for name, of_arm in rates.items():
        parts = []
        for which, kind in enumerate(("second", "CPU second")):
            ratios = [own[which] / alone[which] for own, alone in zip(of_arm, rates["alone"], strict=True)]
            rate = statistics.median(own[which] for own in of_arm)
            spread = f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
            parts.append(f"{rate:.1f} lines per {kind}, {spread}")
        print(f"{name}: {'; '.join(parts)}")


if __name__ == "__main__":
    main()
