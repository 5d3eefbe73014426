"""The model card of an exported model: languages, architecture, scores, training, data and usage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import yaml

from nmt import __version__
from nmt.config import Config
from nmt.console import printable
from nmt.data.manifest import Manifest, read_contents
from nmt.data.settings import DataConfig
from nmt.data.sources import NOT_STATED, HubSource, TrainSource, train_number
from nmt.errors import CheckpointError, DataError
from nmt.evaluate.metrics import MetricName, corpus_score, metric_name
from nmt.evaluate.report import metrics_of, signature, values
from nmt.languages.codes import language_name
from nmt.layout import DataDir, RunDir
from nmt.runs.folder import ExportInfo
from nmt.runs.info import ScoreRecord, read_info
from nmt.runs.kinds import KINDS, Kind
from nmt.runs.log import number, read_log
from nmt.runs.state import load_state, saved_steps

USE = "## Use\n"
"""The heading of the section on usage, which is the last one."""


def use(info: ExportInfo, direction: str, repository: str | None = None) -> str:
    """Return the section of the model card on usage.

    Args:
        direction: source and target language, such as `de-en`.
        repository: the model's repository on the Hub, `owner/name`; None for a directory, which is called DIR.
    """
    where = [] if repository else ["With this directory as `DIR`:", ""]
    lines = _USES[info.kind](info, direction, repository)
    return "\n".join([*USE.split("\n"), *where, *lines, ""])


def _nmt(info: ExportInfo, direction: str, repository: str | None) -> Iterator[str]:
    src, tgt = direction.split("-")
    options = ""
    module = "nmt"
    load = "Translator.load"
    if info.kind == "ctranslate2":
        options = " --engine ctranslate2"
        module = "nmt.share.engine"
        load = "load_ctranslate2"
    address = "DIR"
    download = []
    model = '"DIR"'
    if repository is not None:
        address = f"hf://{repository}"
        download = ["from nmt.api import download"]
        model = f'download("{address}")'
    to = ""
    if info.has_tag:
        options = f"{options} --to {tgt} --from {src}"
        to = f', to="{tgt}", source="{src}"'
    yield from ("```", f"nmt translate --model {address}{options} --input text.{src} --output text.{tgt}", "```", "")
    yield from ("```python", f"from {module} import {load.split('.')[0]}", *download, "")
    yield f"translator = {load}({model})"
    yield f'translations = translator.translate(["A sentence in {language_name(src)}."]{to})'
    yield "```"


def _transformers(info: ExportInfo, direction: str, repository: str | None) -> Iterator[str]:
    name = repository or "DIR"
    text = f"A sentence in {language_name(direction.split('-')[0])}."
    if info.tag is not None:
        text = f"{info.tag} {text}"
    yield from ("```python", "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer", "")
    yield f'model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained("{name}"), AutoTokenizer.from_pretrained("{name}")'
    yield f'lines = tokenizer(["{text}"], padding=True, truncation=True, return_tensors="pt")'
    yield "translations = tokenizer.batch_decode(model.generate(**lines), skip_special_tokens=True)"
    yield "```"


def _javascript(info: ExportInfo, direction: str, repository: str | None) -> Iterator[str]:
    name = repository or "./DIR"  # without ./, transformers.js takes it for a name on the Hub
    text = f"{info.tag or ''} A sentence in {language_name(direction.split('-')[0])}.".strip()
    yield from ("```js", 'import { AutoTokenizer, MarianMTModel } from "@huggingface/transformers";', "")
    yield f'const model = await MarianMTModel.from_pretrained("{name}");'
    yield f'const tokenizer = await AutoTokenizer.from_pretrained("{name}");'
    target = "tokenizer"
    if info.has_target_tokenizer:
        target = "target"
        yield f'const target = await AutoTokenizer.from_pretrained("{name}/{target}"); // in a directory'
    yield f'const [translation] = await model.generate(tokenizer("{text}", {{ truncation: true }}));'
    yield from (f"console.log({target}.decode(translation, {{ skip_special_tokens: true }}));", "```")


_USES: dict[Kind, Callable[[ExportInfo, str, str | None], Iterator[str]]] = {
    "folder": _nmt,
    "ctranslate2": _nmt,
    "transformers": _transformers,
    "onnx": _javascript,
}

# settings that depend on the machine, not on the recipe
_MACHINE = {"run_dir", "device", "init_from"}
_WEIGHTS = {"raw": "step", "ema": "moving average at step", "average": "average up to step"}


@dataclass(frozen=True)
class Card:
    """The content of the model card of an export."""

    run: RunDir
    config: Config
    info: ExportInfo
    n_parameters: int
    n_pieces: Sequence[int]
    """The sizes of the source and the target vocabulary."""
    borrowed_tags: Mapping[str, str]
    """See `nmt.text.growth.borrowed_tags`."""
    is_selected: bool
    """Whether the weights are those that the run selected."""
    scores: Sequence[ScoreRecord] = ()
    """The scores of these weights on test sets, oldest first."""
    checked: str | None = None
    """The result of a comparison with the run."""
    license: str | None = None
    """The licence of the model; by default the licence of the public model on which it is based."""

    @property
    def model_license(self) -> str | None:
        """The licence of the model; None if it is not known."""
        if self.license is None and self.info.public is not None:
            return self.info.public.license
        return self.license

    @property
    def languages(self) -> Sequence[str]:
        """The languages of the model."""
        data = self.config.data
        return data.all_languages if data.has_language_tags else data.sides

    def text(self) -> str:
        """Return the content of README.md."""
        sections = [
            _front_matter(self),
            _facts(self),
            _quality(self),
            _data(self),
            _training(self.run),
            _recipe(self.config),
        ]
        return "\n".join([*chain.from_iterable(sections), use(self.info, self.config.data.direction)])


def _front_matter(card: Card) -> Iterator[str]:
    """Yield the lines of the metadata for the Hub, without unknown values."""
    config = card.config
    public = card.info.public
    hubs = [source.hub for _, source in config.data.sources() if isinstance(source, HubSource)]
    matter: dict[str, object] = {
        "language": list(dict.fromkeys(language.split("_")[0] for language in card.languages)),
        "license": card.model_license,
        "base_model": public.name if public and public.revision else None,
        "library_name": KINDS[card.info.kind].library,
        "pipeline_tag": "translation",
        "tags": ["translation", "transformer"],
        "datasets": list(dict.fromkeys(hubs)) or None,
        "metrics": ["bleu", "chrf"],
    }
    if results := _results(config.data, card.scores):
        matter["model-index"] = [{"name": f"{config.data.src}-{config.data.tgt}", "results": results}]
    known = {name: value for name, value in matter.items() if value is not None}
    yield from ("---", yaml.safe_dump(known, sort_keys=False).rstrip(), "---", "")


def _results(data: DataConfig, scores: Sequence[ScoreRecord]) -> list[dict[str, object]]:
    """Return the newest scores of each test set and signature in the Hub's format (model-index)."""
    by_text: dict[tuple[str, str], dict[tuple[str, str], object]] = {}
    for record in scores:
        newest = by_text.setdefault((record.split, record.direction or data.direction), {})
        for score in record.scores:
            newest[score.metric, score.signature] = {
                "type": score.metric, "value": round(score.value, 2), "name": metric_name(score.metric),
                "args": {"signature": score.signature},
            }  # fmt: skip
    results: list[dict[str, object]] = []
    for (split, direction), newest in by_text.items():
        task = {"type": "translation", "name": f"Translation {direction}"}
        source = data.test.get(split)
        dataset = {"type": source.hub if isinstance(source, HubSource) else split, "name": split}
        results.append({"task": task, "dataset": dataset, "metrics": [*newest.values()]})
    return results


def _facts(card: Card) -> Iterator[str]:
    config = card.config
    info = card.info
    data = config.data
    model = config.model
    if data.has_language_tags:
        yield f"# Translation between {', '.join(data.all_languages)}"
        what = f"that translates {', '.join(f'`{direction}`' for direction in data.directions)}"
    else:
        yield f"# Translation from {data.src} to {data.tgt}"
        what = f"that translates from `{data.src}` to `{data.tgt}`"
    yield from ("", f"A Transformer {what}, exported by nmt {__version__}.", "")
    of = KINDS[info.kind].program
    number_format = "float32" if info.quantization is None else f"{info.quantization}, as a model of {of}"
    yield f"- parameters: {card.n_parameters / 1e6:.2f} million ({number_format})"
    yield f"- layers: {model.encoder_layers} in the encoder, {model.decoder_layers} in the decoder"
    yield f"- width: {model.d_model}, feed-forward {model.d_ff}, {model.n_heads} heads"
    vocabulary = " and ".join(f"{n:,} for {name}" for n, name in zip(card.n_pieces, data.sides, strict=True))
    if config.tokenizer.joint:
        vocabulary = f"{card.n_pieces[0]:,} pieces for {'all' if data.has_language_tags else 'both'} languages"
    yield f"- vocabulary: SentencePiece, {vocabulary}"
    for language, other in card.borrowed_tags.items():
        yield f"- `{language}` uses the tag of `{other}`, since the tokenizer of M2M-100 takes no new ones"
    if data.tag_names:
        before = "chosen with `--tag`"
        if KINDS[info.kind].load:
            before = "written before the text, as `>>NAME=VALUE<<`"
        yield f"- tags: {', '.join(data.tag_names)}; {before}"
    if (public := info.public) is not None:
        revision = f" at {public.revision}" if public.revision else ""
        yield f"- based on: {printable(f'{public.name}{revision}, licence: {public.license or NOT_STATED}')}"
    yield f"- weights: {_WEIGHTS[info.weights]} {info.step:,} ({info.reason})"
    yield f"- licence of the model: {card.model_license or NOT_STATED}"
    if card.checked is not None:
        yield f"- compared with the run it was exported from: {card.checked}"
    yield ""


def _quality(card: Card) -> Iterator[str]:
    lines = [*_development(card)]
    newest: dict[tuple[str, ...], dict[tuple[str, ...], ScoreRecord]] = {}
    for record in card.scores:
        signatures = tuple(map(signature, record.scores))
        newest.setdefault(signatures, {})[record.name, record.search, record.precision] = record
    for signatures, records in newest.items():
        if lines:
            lines.append("")
        lines += [*_test_scores([*records.values()]), "", *(f"- {printable(line)}" for line in signatures)]
    if lines:
        case = "Scores are of detokenised text, with case unless a signature says otherwise."
        yield from ("## Quality", "", case, "", *lines, "")


def _test_scores(records: Sequence[ScoreRecord]) -> Iterator[str]:
    """Yield the lines of a table of scores with equal signatures."""
    metrics = metrics_of(records)
    names = [printable(metric_name(metric)) for metric in metrics]
    yield f"| test set | lines | {' | '.join(names)} | search | precision | date |"
    yield "|---" * (len(metrics) + 5) + "|"
    for record in records:
        facts = printable(record.search), printable(record.precision), record.date[:10]
        cells = printable(record.name), f"{record.lines:,}", *values(record.scores, metrics), *facts
        yield f"| {' | '.join(cells)} |"


def _development(card: Card) -> Iterator[str]:
    """Yield a line with the scores of these weights on the development set, read from the log."""
    config = card.config
    info = card.info
    kind = "valid" if info.weights == "raw" else info.weights
    mean = ""
    facts: dict[str, object] = {"kind": kind, "step": info.step}
    # of several directions, only the last record is of all lines; with start_share, the last average is the mixture
    if config.data.has_several_directions:
        facts = {"kind": "final"}
        mean = ", mean over directions"
    elif kind == "average" and config.training.start_share:
        facts = {"kind": kind}
    if "step" not in facts and not card.is_selected:
        return
    for record in reversed([*read_log(card.run.log, having=b'"bleu"')]):
        if facts.items() <= record.items():
            metrics: tuple[MetricName, ...] = "bleu", "chrf"
            scores = []
            for metric in metrics:
                if (value := number(record, metric)) is not None:
                    scores.append(f"{metric_name(metric)} {value:.2f} ({_signature(metric, config.data.tgt)})")
            yield f"- development set, on which the weights were chosen{mean}: {', '.join(scores)}"
            return


def _signature(metric: MetricName, tgt_lang: str) -> str:
    """Return the signature of validation scores, without the version of sacreBLEU, which the log does not record."""
    return corpus_score(metric, ["a"], ["a"], tgt_lang).signature.split("|version:")[0]


def _data(card: Card) -> Iterator[str]:
    """Yield a line for each corpus, with the numbers of pairs read and kept, and its configured licence."""
    yield from ("## Training data", "")
    data = card.config.data
    manifests = _manifests(card.run, data)
    sources = {}
    for where, source in data.sources():
        purpose = "training" if train_number(where) is not None else where.replace(".", " set ")
        sources[where] = "development set" if where == "valid" else purpose, source, "pairs"
    for where, code, mono in data.mono_sources():
        sources[where] = f"monolingual, {code}", mono, "lines"
    for where, (purpose, source, unit) in sources.items():
        facts = [printable(source.label)]
        for name in ("read", "kept"):
            counts = []
            for manifest in manifests:
                record = (manifest.sources or {}).get(where)
                n = getattr(record, name, None)
                if n is not None:
                    counts.append(n)
            if counts:
                facts.append(f"{sum(counts):,} {unit} {name}")
        yield f"- {purpose}: {', '.join(facts)}, licence: {printable(source.license or NOT_STATED)}"
        if isinstance(source, TrainSource) and (teacher := source.teacher) is not None:
            made = f"{teacher.lines:,} lines translated by {teacher.model} at {teacher.host}, {teacher.date}"
            how = f"temperature {teacher.temperature}, {teacher.tokens:,} tokens, prompt: {teacher.prompt!r}"
            yield f"  - {printable(f'{made}; {how}')}"
            yield f"  - terms of the provider: {printable(teacher.terms)}"
    if "valid" not in sources:
        n = sum(manifest.splits["valid"].pairs for manifest in manifests if "valid" in manifest.splits)
        n_pairs = f", {n:,} pairs" if n else ""
        yield f"- development set: split off the training text{n_pairs}"
    if manifests:
        yield f"- fingerprint of the prepared corpus: {read_info(card.run).corpus}"
    yield ""


def _manifests(run: RunDir, data: DataConfig) -> list[Manifest]:
    """Return the manifest of each pair of languages that the run was trained on, if its data still exists."""
    info = read_info(run)
    try:
        contents = read_contents(DataDir(Path(info.data_dir)))
    except DataError:
        return []
    if contents.fingerprint != info.corpus:
        return []
    return [contents.manifests[pair] for pair in data.pairs if pair in contents.manifests]


def _training(run: RunDir) -> Iterator[str]:
    """Yield the cost of training up to the last checkpoint, and the machine on which the run was last started."""
    info = read_info(run)
    try:
        state = load_state(run.step(saved_steps(run)[-1]))
    except (CheckpointError, LookupError):  # written by an earlier version
        return
    if not state.step:
        return
    skipped = f", {state.n_skipped:,} of them skipped" if state.n_skipped else ""
    yield from ("## Training", "", f"- updates: {state.step:,}{skipped}")
    yield f"- target tokens: {state.n_tokens / 1e6:,.2f} million"
    yield f"- hours: {state.seconds / 3600:.2f}, validation included"
    if device := info.device_name or info.device:
        parts = [device]
        if (info.processes or 1) > 1:
            parts.append(f"{info.processes} processes")
        if info.device == "cpu" and info.threads:
            parts.append(f"{info.threads} threads")
        if info.precision:
            parts.append(info.precision)
        if info.torch:
            parts.append(f"PyTorch {info.torch}")
        yield f"- device: {printable(', '.join(parts))}"
    if (first := info.initial) is not None:
        # without the directories of this machine
        names = [re.sub("/.*/", "", name) for name in re.split(r", (?=(?:encoder |decoder )?/)", first.run)]
        weights = f"{_WEIGHTS[first.weights]} {first.step:,}"
        yield f"- started from: {printable(', '.join(names))}, {weights}; its cost is not included"
    yield ""


def _recipe(config: Config) -> Iterator[str]:
    tree = {}
    for name in ("tokenizer", "model", "training", "search"):
        section = getattr(config, name)
        changed = section.model_dump(mode="json", exclude_defaults=True, exclude=_MACHINE)
        if changed:
            tree[name] = changed
    yield from ("## Recipe", "", f"Settings that differ from the defaults of nmt {__version__}:", "")
    yield from ("```yaml", yaml.safe_dump(tree, sort_keys=False, allow_unicode=True).rstrip(), "```", "")
