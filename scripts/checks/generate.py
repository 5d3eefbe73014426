"""Does an M2M-100 or NLLB model that was exported to transformers write the same pieces as the run?

    python -m scripts.checks.generate RUN EXPORT FILE SOURCE TARGET [LINES]

The first LINES (200) lines of FILE are translated by greedy search: by the run, and by `generate` of transformers from
the files of the export alone, whose default direction must be the one from SOURCE to TARGET. Prints how many lines have
equal ids; lines that are cut off at the length limit count as equal up to there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from nmt.translate.loading import Translator

LONGEST = 64


def main(arguments: Sequence[str]) -> None:
    """Print the result; exit with status 1 if lines differ."""
    import transformers

    run, export, file, source, target, *most = arguments
    lines = Path(file).read_text(encoding="utf-8").splitlines()[: int(most[0]) if most else 200]
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(export)
    model: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(export).eval()
    translator = Translator.load(run, precision="float32", to=target, source=source)
    settings = translator.search_settings({"beam": 1, "max_length_ratio": 0.0, "max_length_offset": LONGEST - 1})
    vocabulary = translator.tokenizers.imported
    assert vocabulary is not None, "an imported model"
    rows = vocabulary.original_rows(1)
    n_equal = 0
    for line, (best, *_) in zip(lines, translator.translate_lines(lines, settings), strict=True):
        with torch.no_grad():
            batch = tokenizer([line], return_tensors="pt")
            ids = model.generate(**batch, num_beams=1, max_length=LONGEST, bad_words_ids=[[1], [3]])[0].tolist()
        ours = [rows[i] for i in best.parts[0].tgt_ids]
        is_equal = ids[1 : len(ours) + 1] == ours
        n_equal += is_equal
        if not is_equal:
            print(line, ids[1:], ours, sep="\n")
    print(f"{n_equal} of {len(lines)} lines have equal ids")
    raise SystemExit(n_equal < len(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
