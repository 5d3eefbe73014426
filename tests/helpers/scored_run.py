"""Records of scores.jsonl."""

from __future__ import annotations

from nmt.runs.info import RecordedScore, ScoreRecord


def record(split: str = "test", bleu: float = 31.25, version: str = "2.6.0", **changes: object) -> ScoreRecord:
    """A record with BLEU, chrF (twice as much) and TER (100 less that), whose signatures name the version."""
    scores = [
        RecordedScore(
            metric=metric,
            value=value,
            signature=f"{name}|nrefs:1|case:mixed|version:{version}",
            higher_is_better=metric != "ter",
        )
        for metric, name, value in (("bleu", "BLEU", bleu), ("chrf", "chrF2", 2 * bleu), ("ter", "TER", 100 - bleu))
    ]
    content = {
        "date": "2026-03-04T05:06:07+00:00", "nmt": "0.2.0", "split": split, "lines": 1000, "step": 400,
        "weights": "raw", "search": "beam 5, length penalty power 1", "precision": "bf16", "scores": scores,
        "data": "/data", "corpus": "c0", "text": "e1",
    }  # fmt: skip
    return ScoreRecord.model_validate(content | changes)
