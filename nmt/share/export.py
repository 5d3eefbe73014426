"""`nmt export`: write a run as a self-contained directory, and load CTranslate2 models of runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from nmt import __version__
from nmt.config import Config, SearchConfig
from nmt.config.data import TO
from nmt.config.load import check_config, dump_config
from nmt.config.source import without_query
from nmt.console import say
from nmt.data.corpus import Corpus
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.evaluate.run import evaluate_run, open_corpus, record_scores, texts_of
from nmt.files.write import alone_in, refuse_links, remove, write_file
from nmt.layout import RunDir
from nmt.runs.folder import (
    ExportInfo,
    Kind,
    Quantization,
    fingerprint,
    is_folder,
    load_folder,
    new_directory,
    require_empty,
    save_weights,
    seal,
)
from nmt.runs.info import ScoreRecord, read_info, read_scores, read_selected
from nmt.runs.model import AnyModel, ModelRef, Saved, open_saved
from nmt.search.forced import check_equal, check_inference
from nmt.share.card import card
from nmt.share.engine import (
    Comparison,
    Engine,
    compare,
    engine_translator,
    finds_the_same,
    library,
    load_ctranslate2,
    made_up_lines,
    save_ctranslate2,
    search_for_check,
    unsupported,
)
from nmt.share.shortlist import write_shortlist
from nmt.share.transformers import check_held, made_up_log_prob, not_carried, save_transformers
from nmt.text.lines import read_lines
from nmt.translate.confidence import portable_calibrations
from nmt.translate.searcher import NativeSearcher
from nmt.translate.sentences import MAX_PIECES_FACTOR
from nmt.translate.translator import Translator

OTHERS_READ = 1024
"""Number of pieces of a line that CTranslate2 and programs based on it read by default."""


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    path: Path
    comparison: Comparison | None
    """The comparison of a CTranslate2 model with the run; None for other formats."""
    scores: Sequence[ScoreRecord]
    """Scores on the test sets, if requested."""
    not_carried: Sequence[str] = ()
    """The names of the run's search settings in use that the format lacks."""
    tag: str | None = None
    """See `ExportInfo`."""
    letters: bool = False
    """Whether the run writes letters of the source in their usual forms; see `nmt.text.letters`."""

    @property
    def notes(self) -> Iterator[str]:
        """Notes on what the export lacks, and on the tag of the target language."""
        if self.not_carried:
            names = ", ".join(f"search.{name}" for name in self.not_carried)
            yield f"not exported, because this format has no place for them: {names}"
        if self.tag is not None:
            yield f"with transformers, each line must begin with the tag of its target language, such as {self.tag}"
        if self.letters:
            yield "other programs than nmt do not repair letters as data.clean.repair: [letters] does"


@dataclass(frozen=True)
class Request:
    """The options of `nmt export`."""

    model: ModelRef | Path
    """A single run."""
    data: Path | None = None
    """The data directory; by default the one used in training."""
    check: Path | None = None
    """The file of lines that both engines translate; by default the development set or, without the data directory,
    random words."""
    check_lines: int = 100
    evaluate: bool = False
    """Whether to evaluate the test sets of the data directory."""
    shortlist: bool = False
    """Whether a CTranslate2 model gets a shortlist, see `nmt.share.shortlist`."""
    license: str | None = None
    """The licence of the model for the card, as a Hub identifier. Raises ConfigError if it is malformed."""

    @property
    def run(self) -> Path:
        """The run to export."""
        return ModelRef.of(self.model).path

    def __post_init__(self) -> None:
        if self.license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", self.license):
            raise ConfigError(
                f"--license {self.license}: must be a Hub identifier: lower-case letters, digits, . and -, "
                "such as cc-by-4.0, or other"
            )


def export(request: Request, output: Path, kind: Kind, quantization: Quantization = "float32") -> Exported:
    """Write the selected weights of a run to `output`, with everything needed to translate and a model card.

    A CTranslate2 model is compared with the run before the directory is renamed to `output`.

    Raises DataError if `output` is not empty or cannot be written, ConfigError if CTranslate2 is not installed or
    transformers has no such model, CheckpointError if there is no such run or checkpoint, or if search or the exported
    model computes other log-probabilities than training.
    """
    if kind == "ctranslate2":
        library()
    require_empty(output)
    with alone_in(output.absolute().parent, "exports"):
        return export_into(request, output.absolute(), kind, quantization)


def export_into(
    request: Request, output: Path, kind: Kind, quantization: Quantization, is_of_run: bool = False
) -> Exported:
    """Export a run to a directory whose parent the caller has locked; see `export`.

    is_of_run: whether the directory belongs to the run, so that it has all of its search settings.
    """
    saved = open_saved(request.model)
    model, tokenizers = saved.transformer(), saved.tokenizers
    lost = [] if is_of_run else _lost(kind, saved.config.search)
    search = saved.config.search.model_copy(update={name: getattr(SearchConfig(), name) for name in lost})
    config = saved.config.model_copy(update={"search": search})
    saved = replace(saved, config=config)
    if kind != "folder" and not isinstance(norm := model.encoder.last_norm, nn.LayerNorm):
        raise ConfigError(f"{request.run}: {norm} cannot be exported for {kind}, only LayerNorm; use --format folder")
    if kind == "transformers":
        check_held(request.run, config, tokenizers.imported)
    trained = check_inference(model)
    target, joins = tokenizers[config.data.tgt], config.joins_sentences
    searcher = NativeSearcher([model], target, torch.device("cpu"), "float32", joins)
    translator = Translator(searcher, tokenizers, config, [saved.origin])
    native = translator.by_direction()[0]
    lines = _check_lines(request, native) if kind == "ctranslate2" else []
    info = _info(saved, kind, quantization)
    recorded = _recorded(saved)
    comparison = None
    with new_directory(output) as directory:
        if kind != "transformers":
            write_file(directory.config, dump_config(without_places(config)).encode())
            tokenizers.save(directory.tokenizer)
        if info.positions is None:
            save_weights(directory, saved.weights.tensors)
            seal(directory, info)
        elif kind == "transformers":
            save_transformers(model, config, tokenizers, info.positions, directory.path)
            if find_spec("transformers") is None:
                say("not compared with the run: transformers is not installed")
            else:
                check_equal(trained, made_up_log_prob(directory.path, tokenizers.imported), "the export")
            seal(directory, info)
        else:
            of_src, of_tgt = (native.tokenizers[name] for name in config.data.sides)
            src, tgt = (tokenizer.pieces(range(len(tokenizer))) for tokenizer in (of_src, of_tgt))
            save_ctranslate2(model, config.model, info.positions, (src, tgt), quantization, directory.path)
            if request.shortlist:
                if of_tgt.opening:
                    raise ConfigError("--shortlist: has no effect for models whose translations begin with a tag")
                write_shortlist(directory.path, _directions(request, config), (of_src, of_tgt))
            seal(directory, info)
            engine = Engine(load_folder(directory.path))
            comparison = compare(native, engine, lines, search_for_check(config.search))
            seal(directory, info.model_copy(update={"identical": comparison.n_identical / comparison.n_lines}))
            translator = engine_translator(engine)
        scores = _evaluated(request, translator) if request.evaluate else []
        # after sealing, since nmt calibrate replaces them
        for path in portable_calibrations(saved.path, info.tensors) if kind != "transformers" else ():
            write_file(directory.path / path.name, path.read_bytes())
        checked = None if comparison is None else str(comparison)
        write_file(directory.card, _card(saved, info, [*recorded, *scores], checked, request.license).encode())
    return Exported(output, comparison, scores, lost, info.tag, bool(tokenizers[config.data.src].letters))


def _lost(kind: Kind, search: SearchConfig) -> list[str]:
    """Return the names of the search settings in use that a format lacks; a directory has no language model."""
    match kind:
        case "folder":
            return ["lm"] if search.lm is not None else []
        case "ctranslate2":
            return unsupported(search)
        case "transformers":
            return not_carried(search)


def model_card(run: Path) -> str:
    """Return the model card of a run that has selected its weights, as for `nmt export --format folder`.

    Raises ConfigError if the run is no translation model with encoder and decoder, and what `open_saved` raises.
    """
    saved = open_saved(run)
    saved.check_exports()
    return _card(saved, _info(saved, "folder", "float32"), _recorded(saved))


def _card(
    saved: Saved,
    info: ExportInfo,
    scores: Sequence[ScoreRecord],
    checked: str | None = None,
    license: str | None = None,  # noqa: A002 (the usual name)
) -> str:
    n_parameters = sum(tensor.numel() for tensor in saved.weights.tensors.values())
    sizes = [saved.tokenizers.sizes[language] for language in saved.config.data.sides]
    run, config = RunDir(saved.path), without_places(saved.config)
    is_selected = saved.weights.identity == read_selected(run).identity
    return card(run, config, info, n_parameters, sizes, is_selected, scores, checked, license)


def without_places(config: Config) -> Config:
    """Return a configuration without local directories and URL queries."""

    def cut(tree: object) -> object:
        if isinstance(tree, dict):
            return {key: cut(value) for key, value in tree.items()}
        if isinstance(tree, list):
            return [cut(value) for value in tree]
        if not isinstance(tree, str):
            return tree
        path = Path(name := without_query(tree))
        return path.name if path.is_absolute() or ".." in path.parts else name

    tree = config.model_dump()
    for section, name in (("data", "dir"), ("data", "root"), ("training", "run_dir"), ("training", "init_from")):
        del tree[section][name]
    tree["data"] = cut(tree["data"])
    # other settings, such as patterns, are not paths, even if they start with a slash
    for section, name in ((tree["training"], "glossary"), (tree["search"], "lm"), (tree["tokenizer"], "model")):
        section[name] = cut(section[name])
    return check_config(tree, "export")


def _info(saved: Saved, kind: Kind, quantization: Quantization) -> ExportInfo:
    config, weights, source = saved.config, saved.weights, saved.tokenizers[saved.config.data.src]
    to = config.search.to or source.to or next(iter(source.target_languages), None)
    if (
        config.data.has_language_tags and saved.tokenizers.imported is None
    ):  # else transformers writes these tags by itself
        to = f"{TO}{config.data.tgt}"
    # the longest source that is read, and the longest translation that the current settings allow
    n_positions = max(2 * MAX_PIECES_FACTOR * config.data.max_pieces + 64, OTHERS_READ)
    if config.model.positions == "learned":
        n_positions = config.model.max_positions
    return ExportInfo.model_validate(
        {
            "kind": kind,
            "nmt": __version__,
            "direction": config.data.direction,
            **({"has_tag": True} if config.data.has_language_tags else {}),
            "tag": f">>{to}<<" if kind == "transformers" and to else None,
            "step": weights.step,
            "weights": weights.kind,
            "reason": weights.reason,
            "tokenizer": saved.tokenizers.fingerprint,
            "tensors": fingerprint(weights.tensors),
            "precision": saved.precision,
            "device_name": saved.device_name,
            "float32_library": saved.float32_library,
            "public": saved.public,
            "quantization": quantization if kind == "ctranslate2" else None,
            "positions": None if kind == "folder" else n_positions,
        }
    )


def _check_lines(request: Request, translator: Translator) -> list[str]:
    """Return the lines to translate with both engines, at least one of which is not blank."""
    if request.check is not None:
        lines = list(islice(read_lines(request.check), request.check_lines))
        if not any(line.strip() for line in lines):
            raise DataError(
                f"{request.check}: the first {request.check_lines} lines are blank; choose another file with --check"
            )
        return lines
    data = translator.config.data
    try:
        return _corpus(request, translator).split("valid").text(data.src)[: request.check_lines]
    except DataError:
        if request.data is not None:
            raise
        return made_up_lines(translator.tokenizers[data.src], request.check_lines)


def _corpus(request: Request, translator: Translator) -> Corpus:
    return open_corpus(RunDir(request.run), translator.config.data.sides, request.data)


def _directions(request: Request, config: Config) -> Iterator[tuple[Corpus, str, str]]:
    """Yield the corpus of each direction, and its source and target language."""
    for direction in config.data.directions:
        data = config.towards(direction).data
        yield open_corpus(RunDir(request.run), data.sides, request.data), data.src, data.tgt


def _recorded(saved: Saved) -> list[ScoreRecord]:
    """Return the recorded scores of these weights on test sets, without those on other text than that of the run's own
    test set of the same name."""
    run = RunDir(saved.path)
    corpus, records = read_info(run).corpus, read_scores(run)
    own = {record.name: record.text for record in records if record.corpus == corpus}
    return [
        record
        for record in records
        if record.is_test and (record.step, record.weights, record.averaged) == saved.weights.identity
        if own.get(record.name, record.text) == record.text
    ]


def _evaluated(request: Request, translator: Translator) -> list[ScoreRecord]:
    """Return the scores of every test set of the data directory. Raises DataError if it has none."""
    origin = translator.origin
    assert origin is not None, "the translator was loaded from a run"
    return [
        record_scores(evaluate_run(*text, text.translator.config.search).report, origin, text.corpus)
        for text in texts_of(translator.by_direction(), partial(_corpus, request), ()).values()
    ]


CHECK_LINES = 500
"""Number of lines to compare when a model is converted at first use."""
MIN_IDENTICAL = 0.995
"""Minimum share of identical translations with which CTranslate2 is used without being asked for."""


def converted(model: ModelRef, settings: Callable[[Config], SearchConfig]) -> Translator | None:
    """Return the CTranslate2 translator that stands in for PyTorch, since it is faster for single lines; None if none
    does.

    It is that of an export for CTranslate2 or, on a CPU, of a run that has been converted with these weights, if it has
    found `MIN_IDENTICAL` of the translations then and supports the search settings, which `settings` returns.
    Raises ConfigError and CheckpointError as `open_saved`, `settings` and, for an export, `engine_for` do.
    """
    [path, *others] = model.paths
    if is_folder(path):
        is_engine = load_folder(path).info.kind == "ctranslate2"
        return engine_for(model) if is_engine else None
    made = RunDir(path).ctranslate2("float32").path
    if others or not made.is_dir() or torch.cuda.is_available() or find_spec("ctranslate2") is None:
        return None
    saved = open_saved(model)
    is_equal = _is_of(made, saved) and (load_folder(made).info.identical or 0.0) >= MIN_IDENTICAL
    if not is_equal or saved.config.joins_sentences or not finds_the_same(settings(saved.config)):
        return None
    try:
        found = load_ctranslate2(made)
    except CheckpointError as error:
        say(f"translating with PyTorch: {error}")
        return None
    say(f"translating with CTranslate2, {made}")
    return found


def engine_for(model: AnyModel, int8: bool = False) -> Translator:
    """Load the CTranslate2 translator of a run, or of a directory that `nmt export` wrote.

    Raises ConfigError for several runs and for options that do not apply to an exported directory, and what `export`
    and `load_ctranslate2` raise.
    """
    model = ModelRef.of(model)
    if len(model.paths) > 1:
        raise ConfigError("several runs: CTranslate2 supports only one; for an ensemble, use --engine native")
    path = model.path
    if not is_folder(path):
        return load_ctranslate2(engine_folder(model, "int8" if int8 else "float32"))
    if model.chooses_weights:
        raise ConfigError(f"{path}: already exported; leave out --checkpoint and --weights")
    engine = Engine(load_folder(path))
    if int8 and engine.quantization != "int8":
        raise ConfigError(
            f"{path}: its weights are in {engine.quantization}, not int8; export the run with --quantization int8"
        )
    return engine_translator(engine)


def engine_folder(model: AnyModel, quantization: Quantization) -> Path:
    """Return the path of a CTranslate2 model with these weights in a run directory; create it if it does not exist.

    Raises what `export` raises.
    """
    library()
    run, saved = ModelRef.of(model).path, open_saved(model)
    saved.check_exports()
    path = RunDir(run).ctranslate2(quantization).path
    refuse_links([path])
    with alone_in(run, "exports"):
        if _is_of(path, saved):
            return path
        say(f"{path}: exporting {run} for CTranslate2 (only once)")
        remove(path)
        request = Request(ModelRef.of(model), check_lines=CHECK_LINES)
        say(f"{export_into(request, path, 'ctranslate2', quantization, is_of_run=True).comparison}")
    return path


def _is_of(path: Path, saved: Saved) -> bool:
    """Return whether `path` is an export of these weights and settings."""
    try:
        folder = load_folder(path)
    except CheckpointError:
        return False
    expected = fingerprint(saved.weights.tensors), without_places(saved.config)
    return (folder.info.tensors, folder.config) == expected and folder.info.identical is not None
