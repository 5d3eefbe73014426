"""BLEU, chrF and TER by sacrebleu: strings in, a score with its signature out.

Scores are cased and on detokenised text unless asked otherwise; the signature says how each was computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from nmt.errors import DataError

MetricName = Literal["bleu", "chrf", "ter"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)

Reference = str | tuple[str, ...]
"""The reference of a line, or several."""

TOKENIZERS = ("13a", "intl", "zh", "char", "none")
"""What BLEU may count n-grams of; see sacrebleu."""

# 13a splits words at white space, which these languages do not write between words (or, Korean, write between much
# more than words). sacrebleu's own choice for Japanese and Korean needs MeCab, so characters are counted instead.
_TOKENIZER_OF = {"zh": "zh", "ja": "char", "ko": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}


@dataclass(frozen=True)
class Score:
    """The quality of a whole text by one metric."""

    metric: MetricName
    value: float
    """0-100 for BLEU and chrF; TER is edits per 100 words of the reference."""
    signature: str
    """How it was computed, as sacrebleu writes it: scores with different signatures cannot be compared."""
    higher_is_better: bool


def default_tokenizer(tgt_lang: str | None) -> str:
    """The tokenizer by which BLEU is computed for a target language: 13a, if words stand between spaces."""
    return _TOKENIZER_OF.get((tgt_lang or "").lower().split("_")[0], "13a")


def check_tokenizer(tokenize: str | None) -> None:
    """Raise DataError unless this is a tokenizer of BLEU, or None."""
    if tokenize is not None and tokenize not in TOKENIZERS:
        raise DataError(f"tokenize: {tokenize!r} is none of {', '.join(TOKENIZERS)}")


def looks_tokenized(lines: Sequence[str]) -> bool:
    """Whether a tenth of the lines or more end in a full stop that stands alone, as it does in tokenised text."""
    return 10 * sum(line.endswith(" .") for line in lines) >= len(lines) > 0


def corpus_score(
    metric: MetricName,
    hyps: Sequence[str],
    refs: Sequence[Reference],
    tgt_lang: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> Score:
    """Score hypotheses against references, a line each; every line has as many references as the first.

    Several references are scored as sacrebleu does (`nrefs:2` in the signature); a blank one counts as none.
    `tgt_lang` is the target language, which decides how BLEU tokenizes if `tokenize` does not. Raises DataError unless
    there are as many hypotheses as references (sacrebleu would cut the longer), if there are none, or for an
    unknown tokenizer. Post, 2018, arXiv:1804.08771.
    """
    if len(hyps) != len(refs):
        raise DataError(f"{len(hyps)} hypotheses, {len(refs)} references: they must pair line by line")
    if not hyps:
        raise DataError("no hypotheses and no references: there is nothing to score")
    check_tokenizer(tokenize)
    scorer: BLEU | CHRF | TER
    match metric:
        case "bleu":
            # force: sacrebleu would tell of text that looks tokenised at every score; nmt tells once, see its callers
            scorer = BLEU(lowercase=lowercase, force=True, tokenize=tokenize or default_tokenizer(tgt_lang))
        case "chrf":
            scorer = CHRF(lowercase=lowercase)
        case "ter":
            # without spaces between words every sentence would be a single word
            no_spaces = default_tokenizer(tgt_lang) != "13a" and not (tgt_lang or "").lower().startswith("ko")
            scorer = TER(case_sensitive=not lowercase, normalized=no_spaces, asian_support=no_spaces)
    of_lines = [(ref,) if isinstance(ref, str) else ref for ref in refs]
    result = scorer.corpus_score(hyps, list(zip(*of_lines, strict=True)))
    return Score(metric, result.score, f"{result.name}|{scorer.get_signature()}", higher_is_better=metric != "ter")
