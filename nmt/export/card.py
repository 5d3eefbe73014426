"""The model card of an exported translator: languages, model, quality, training data, recipe and usage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt import __version__
from nmt.config import Config
from nmt.console import printable
from nmt.data.corpus import read_manifest
from nmt.data.manifest import Manifest
from nmt.errors import DataError
from nmt.evaluate.metrics import MetricName, corpus_score
from nmt.evaluate.report import metric_name
from nmt.evaluate.table import metrics_of, signature, values
from nmt.layout import DataDir, RunDir
from nmt.runs.folder import ExportInfo
from nmt.runs.info import read_info
from nmt.runs.log import is_validation, number, read_log
from nmt.runs.scores import ScoreRecord

# settings that depend on the machine rather than on the recipe
_MACHINE = {"run_dir", "device"}
USE = "## Use\n"
"""The heading of the last section."""

_WEIGHTS = {"raw": "step", "ema": "moving average at step", "average": "average up to step"}


def card(
    run: RunDir,
    config: Config,
    info: ExportInfo,
    n_parameters: int,
    n_pieces: Sequence[int],
    scores: Sequence[ScoreRecord] = (),
    checked: str | None = None,
    license: str | None = None,  # noqa: A002 (what it is called everywhere)
) -> str:
    """Return the text of README.md, the model card.

    Args:
        n_pieces: sizes of the source and the target vocabulary.
        scores: of these weights on test sets, oldest first.
        checked: the result of the comparison with the run.
        license: of the model; None if it is not known.
    """
    return "\n".join(
        [
            *_front_matter(config, info, scores, license),
            *_facts(config, info, n_parameters, n_pieces, checked),
            *_quality(run, config, info, scores),
            *_data(run, config),
            *_recipe(config),
            *_use(config, info),
            "",
        ]
    )


def _front_matter(
    config: Config,
    info: ExportInfo,
    scores: Sequence[ScoreRecord],
    license: str | None,  # noqa: A002
) -> Iterator[str]:
    """Yield the metadata of the hub; what is not known is left out."""
    languages = list(dict.fromkeys(language.split("_")[0] for language in (config.data.src, config.data.tgt)))
    results = _results(config, scores)
    datasets = list(dict.fromkeys(source.hub for _, source in config.data.sources() if source.hub is not None))
    matter: dict[str, object] = {
        "language": languages,
        **({} if license is None else {"license": license}),
        "library_name": "transformers" if info.kind == "transformers" else "nmt",
        "pipeline_tag": "translation",
        "tags": ["translation", "transformer"],
        **({"datasets": datasets} if datasets else {}),
        "metrics": ["bleu", "chrf"],
        **({"model-index": [{"name": f"{config.data.src}-{config.data.tgt}", "results": results}]} if results else {}),
    }
    yield from ("---", yaml.safe_dump(matter, sort_keys=False).rstrip(), "---", "")


def _results(config: Config, scores: Sequence[ScoreRecord]) -> list[dict[str, object]]:
    """Return the scores on test sets in the hub's form (model-index), the newest of each test set and signature."""
    newest = {(record.split, score.metric, score.signature): score for record in scores for score in record.scores}
    by_split: dict[str, list[dict[str, object]]] = {}
    for (split, metric, about), score in newest.items():
        result = {"type": metric, "value": round(score.value, 2), "name": metric_name(metric)}
        by_split.setdefault(split, []).append(result | {"args": {"signature": about}})
    task = {"type": "translation", "name": f"Translation {config.data.src}-{config.data.tgt}"}
    return [
        {"task": task, "dataset": {"type": _dataset(config, split), "name": split}, "metrics": metrics}
        for split, metrics in by_split.items()
    ]


def _dataset(config: Config, split: str) -> str:
    """Return the repository of a test set on the hub, or else its name."""
    source = config.data.test.get(split)
    return split if source is None or source.hub is None else source.hub


def _facts(
    config: Config, info: ExportInfo, n_parameters: int, n_pieces: Sequence[int], checked: str | None
) -> Iterator[str]:
    data, model = config.data, config.model
    yield f"# Translation from {data.src} to {data.tgt}"
    yield ""
    yield f"A Transformer that translates from `{data.src}` to `{data.tgt}`, exported by nmt {__version__}."
    yield ""
    joint = f"{n_pieces[0]:,} pieces for both languages"
    separate = " and ".join(f"{n:,} for {name}" for n, name in zip(n_pieces, (data.src, data.tgt), strict=True))
    number_format = "float32" if info.quantization is None else f"{info.quantization}, as a model of CTranslate2"
    for name, value in {
        "parameters": f"{n_parameters / 1e6:.2f} million ({number_format})",
        "layers": f"{model.encoder_layers} in the encoder, {model.decoder_layers} in the decoder",
        "width": f"{model.d_model}, feed-forward {model.d_ff}, {model.n_heads} heads",
        "vocabulary": f"SentencePiece BPE, {joint if config.tokenizer.joint else separate}",
        "weights": f"{_WEIGHTS[info.weights]} {info.step:,} ({info.reason})",
    }.items():
        yield f"- {name}: {value}"
    if checked is not None:
        yield f"- compared with the run it was exported from: {checked}"
    yield ""


def _quality(run: RunDir, config: Config, info: ExportInfo, scores: Sequence[ScoreRecord]) -> Iterator[str]:
    lines = [*_development(run, config, info)]
    newest: dict[tuple[str, ...], dict[tuple[str, ...], ScoreRecord]] = {}
    for record in scores:
        signatures = tuple(map(signature, record.scores))
        newest.setdefault(signatures, {})[record.split, record.search, record.precision] = record
    for signatures, records in newest.items():
        shown = [f"- {printable(line)}" for line in signatures]
        lines += [*([""] if lines else []), *_test_scores([*records.values()]), "", *shown]
    if lines:
        case = "Scores are of detokenised text, with case unless a signature says otherwise."
        yield from ("## Quality", "", case, "", *lines, "")


def _test_scores(records: Sequence[ScoreRecord]) -> Iterator[str]:
    """Yield a table of scores that have the same signatures."""
    metrics = metrics_of(record.scores for record in records)
    names = [printable(metric_name(metric)) for metric in metrics]
    yield f"| test set | lines | {' | '.join(names)} | search | precision | date |"
    yield "|---" * (len(metrics) + 5) + "|"
    for record in records:
        facts = printable(record.search), printable(record.precision), record.date[:10]
        cells = printable(record.split), f"{record.lines:,}", *values(record.scores, metrics), *facts
        yield f"| {' | '.join(cells)} |"


def _development(run: RunDir, config: Config, info: ExportInfo) -> Iterator[str]:
    """Yield the scores of these weights on the development set, from the log."""
    kind = "valid" if info.weights == "raw" else info.weights
    for record in read_log(run.log, having=b'"bleu"'):
        if is_validation(record) and (record["kind"], record.get("step")) == (kind, info.step):
            keys: dict[str, MetricName] = {"BLEU": "bleu", "chrF": "chrf"}
            scores = ", ".join(
                f"{name} {value:.2f} ({_signature(key, config.data.tgt)})"
                for name, key in keys.items()
                if (value := number(record, key)) is not None
            )
            yield f"- development set, on which the weights were chosen: {scores}"
            return


def _signature(metric: MetricName, tgt_lang: str) -> str:
    """Return the signature of validation scores, without the version of sacrebleu, which the log does not have."""
    return corpus_score(metric, ["a"], ["a"], tgt_lang).signature.split("|version:")[0]


def _data(run: RunDir, config: Config) -> Iterator[str]:
    yield from ("## Training data", "")
    recorded = _manifest(run)
    labels = {where: source.label for where, source in config.data.sources()}
    for where, label in labels.items():
        source = (recorded.sources or {}).get(where) if recorded else None
        known = {"read": source.read, "kept": source.kept} if source else {}
        counts = [f"{n:,} pairs {key}" for key, n in known.items() if n is not None]
        text = {"train": "training", "valid": "development set"}.get(where.split(".")[0], where.replace(".", " set "))
        yield f"- {text}: {printable(label)}" + (f", {', '.join(counts)}" if counts else "")
    if "valid" not in labels:
        valid = recorded.splits.get("valid") if recorded else None
        yield "- development set: split off the training text" + (f", {valid.pairs:,} pairs" if valid else "")
    if recorded:
        yield f"- fingerprint of the prepared corpus: {recorded.fingerprint}"
    yield ""


def _manifest(run: RunDir) -> Manifest | None:
    """Return the manifest of the corpus that the run was trained on, if it still exists."""
    info = read_info(run)
    try:
        manifest = read_manifest(DataDir(Path(info.data_dir)))
    except DataError:
        return None
    return manifest if manifest.fingerprint == info.corpus else None


def _recipe(config: Config) -> Iterator[str]:
    tree: dict[str, Any] = {}
    for name in ("tokenizer", "model", "training", "search"):
        section = getattr(config, name)
        changed = section.model_dump(mode="json", exclude_defaults=True, exclude=_MACHINE)
        tree |= {name: changed} if changed else {}
    yield from ("## Recipe", "", f"Settings that differ from the defaults of nmt {__version__}:", "")
    yield from ("```yaml", yaml.safe_dump(tree, sort_keys=False, allow_unicode=True).rstrip(), "```", "")


def _use(config: Config, info: ExportInfo) -> Iterator[str]:
    src, tgt = config.data.src, config.data.tgt
    if info.kind == "transformers":
        yield from _use_transformers(src)
        return
    options, module, load = "", "nmt", "Translator.load"
    if info.kind == "ctranslate2":
        options, module, load = " --engine ctranslate2", "nmt.engine.translator", "load_ctranslate2"
    yield from (*USE.split("\n"), "With this directory as `DIR`:", "", "```")
    yield f"nmt translate --model DIR{options} --input text.{src} --output text.{tgt}"
    yield from ("```", "", "```python", f"from {module} import {load.split('.')[0]}", "")
    yield f'translator = {load}("DIR")'
    yield f'translations = translator.translate(["A sentence in {src}."])'
    yield "```"


def _use_transformers(src: str) -> Iterator[str]:
    yield from ("## Use", "", "With this directory as `DIR`:", "", "```python")
    yield from ("from transformers import AutoModelForSeq2SeqLM, AutoTokenizer", "")
    yield 'model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained("DIR"), AutoTokenizer.from_pretrained("DIR")'
    yield f'lines = tokenizer(["A sentence in {src}."], padding=True, truncation=True, return_tensors="pt")'
    yield "translations = tokenizer.batch_decode(model.generate(**lines), skip_special_tokens=True)"
    yield "```"
