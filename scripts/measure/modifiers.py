"""Measure the effect of modifiers: train on the sample corpus without and with them, and translate changed test sets.

    python -m scripts.measure.modifiers [--out FOLDER] [--steps N] [--lines N]

The first table has chrF and BLEU of the test set in each form, for both models. The second has the share of terms that
the model with modifiers translates as it is told in the source (search.inline_terms): as in the glossary that it was
trained with, by other words of it, and by words that it has never seen; and BLEU where it was told the right ones.
About ten minutes on two cores with the default of 1,200 updates. A run that is in the folder is not trained again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from random import Random

from nmt import api
from nmt.cli.app import user_errors
from nmt.data.modifiers import ModifierFunction
from nmt.evaluate.metrics import corpus_score
from nmt.text.augmentation import drop_end_punctuation, lower_case, title_case, typos, upper_case
from nmt.text.constraints import Glossary, alone
from nmt.text.lines import read_lines
from nmt.translate.loading import Translator
from nmt.translate.types import Line
from scripts.sample_corpus.lexicon import NOUNS

RATES: dict[str, object] = {
    "upper_case": 0.07, "title_case": 0.05, "lower_case": 0.05, "typos": 0.05, "drop_end_punctuation": 0.1,
    "terms": 0.2,
}  # fmt: skip
FORMS: dict[str, ModifierFunction] = {
    "upper case": upper_case,
    "title case": title_case,
    "lower case": lower_case,
    "typos": typos,
    "no end marks": drop_end_punctuation,
}
TEST = Path("data/sample")


def main() -> int:
    """Train what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/modifiers"))
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--lines", type=int, default=300, help="of the test set")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    terms = {noun.lemma: noun.en for noun in NOUNS}
    file = options.out / "glossary.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in terms.items()), encoding="utf-8")
    arms: dict[str, dict[str, object]] = {"plain": {}, "modified": {"modifiers": RATES, "glossary": str(file)}}
    plain, modified = (trained(options.out / name, options.steps, changes) for name, changes in arms.items())
    src, refs = (list(read_lines(TEST / f"test.{language}"))[: options.lines] for language in ("de", "en"))
    pairs = list(zip(src, refs, strict=True))
    compare_forms(plain, modified, pairs)
    compare_terms(modified, pairs, terms)
    return 0


def trained(run: Path, steps: int, changes: Mapping[str, object]) -> Translator:
    """Load the model of a run, after training it if there is none."""
    settings = {"training.max_steps": steps, "training.warmup_steps": steps // 6, "training.average_last": 1}
    if not (run / "selected.json").exists():
        api.prepare("sample.yaml")
        api.train("sample.yaml", {**settings, **{f"training.{k}": v for k, v in changes.items()}}, run=run)
    return Translator.load(run)


def compare_forms(plain: Translator, modified: Translator, pairs: list[tuple[str, str]]) -> None:
    """Print the scores of both models for each form of the test set."""
    print("\n| test set | chrF without | with | BLEU without | with |\n|---|---|---|---|---|")
    changed = {name: [form(*pair, Random(i)) for i, pair in enumerate(pairs)] for name, form in FORMS.items()}
    for name, form in {"as it is": pairs, **changed}.items():
        src, refs = map(list, zip(*form, strict=True))
        texts = [translator.translate(src) for translator in (plain, modified)]
        scores = [corpus_score(metric, found, refs, "en").value for metric in ("chrf", "bleu") for found in texts]
        print(f"| {name} | {' | '.join(f'{score:.1f}' for score in scores)} |")


def compare_terms(modified: Translator, pairs: list[tuple[str, str]], terms: Mapping[str, str]) -> None:
    """Print how many terms are translated as told, without a glossary and with them in the source."""
    others = list(terms.values())
    glossaries = {
        "the glossary's": dict(terms),
        "other words": dict(zip(terms, [*others[7:], *others[:7]], strict=True)),
        "unseen words": {source: target[::-1] for source, target in terms.items()},
    }
    print(
        "\n| translations of the terms | terms | without telling | told in the source | BLEU |\n|---|---|---|---|---|"
    )
    for name, told in glossaries.items():
        glossary = Glossary(told)
        src, refs, wanted = [], [], []
        for text, ref in pairs:
            if spans := list(glossary.spans(text)):
                src.append(text)
                refs.append(ref)
                wanted.append([span.wanted for span in spans])
        lines = [Line(text, glossary=glossary) for text in src]
        search = modified.search_settings({"inline_terms": True})
        inline = [best.text for best, *_ in modified.translate_lines(lines, search)]
        shares = [100 * share_of(texts, wanted) for texts in (modified.translate(src), inline)]
        bleu = f"{corpus_score('bleu', inline, refs, 'en').value:.1f}" if told == terms else ""
        print(f"| {name} | {sum(map(len, wanted))} | {shares[0]:.1f} % | {shares[1]:.1f} % | {bleu} |")


def share_of(texts: list[str], wanted: list[list[str]]) -> float:
    """Return the share of the terms that their texts have, each as often as it is wanted."""
    n_found = 0
    for text, terms in zip(texts, wanted, strict=True):
        for term in terms:
            text, n = alone(term).subn(" ", text, count=1)
            n_found += n
    return n_found / max(1, sum(map(len, wanted)))


if __name__ == "__main__":
    with user_errors():
        raise SystemExit(main())
