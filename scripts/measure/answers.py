"""How many human translations the checks of a language model's answers would reject or change.

    python -m scripts.measure.answers SRC TGT SRC_FILE TGT_FILE [N]

SRC and TGT are languages; of the aligned files, N pairs (1,000) are drawn with a fixed seed. Human translations are
good answers, so the checks should neither reject nor repair them. Requires the extra `clean`.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

from nmt.chat.answers import Answer
from nmt.chat.checks import Checks
from nmt.config.load import overridden
from nmt.text.lines import read_aligned


def main(src: str, tgt: str, src_file: str, tgt_file: str, n: str = "1000") -> None:
    """Print the number of pairs, of rejections by reason, and of answers that were changed, with examples of these."""
    data = {"direction": f"{src}-{tgt}", "train": [{"files": {src: src_file, tgt: tgt_file}}]}
    checks = Checks(overridden({"data": data}, "answers", []).data, (src, tgt))
    pairs = [pair for pair in read_aligned(Path(src_file), Path(tgt_file)) if all(map(str.strip, pair))]
    pairs = random.Random(1).sample(pairs, min(int(n), len(pairs)))
    reasons = Counter[str]()
    changed = []
    for source, reference in pairs:
        line, reason = checks.checked(source.strip(), Answer(reference.strip(), "stop"))
        if reason is not None:
            reasons[reason] += 1
        elif line != reference.strip():
            changed.append((reference, line))
    print(
        f"{src}-{tgt}: {len(pairs):,} pairs, rejected {reasons.total() / len(pairs):.2%} {dict(reasons.most_common())}"
    )
    print(f"changed: {len(changed)}", *changed[:5], sep="\n  ")


if __name__ == "__main__":
    main(*sys.argv[1:])
