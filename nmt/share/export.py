"""`nmt export`: write a run as a self-contained directory, and load CTranslate2 models of runs."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from nmt import __version__
from nmt.config import Config
from nmt.config.load import check_config, dump_config
from nmt.console import listed, say
from nmt.data.corpus import Corpus
from nmt.data.sources import without_query
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.files.write import alone_in, open_output, refuse_links, remove, write_file, writing
from nmt.languages.codes import language_name
from nmt.languages.directions import TO
from nmt.layout import ExportDir, RunDir
from nmt.model.transformer import Transformer
from nmt.model.weights import weights_fingerprint
from nmt.runs.checkpoint import save_tensors
from nmt.runs.data import open_corpus
from nmt.runs.folder import ExportInfo, is_folder, load_folder, new_directory, require_empty, seal
from nmt.runs.info import ScoreRecord, read_info, read_scores, read_selected
from nmt.runs.kinds import KINDS, Kind, Quantization
from nmt.runs.model import AnyModel, ModelRef, Saved, open_saved
from nmt.search.forced import check_equal, check_inference
from nmt.search.settings import SearchConfig
from nmt.share import EngineName
from nmt.share.card import USE, Card
from nmt.share.ctranslate2 import library, save_ctranslate2, write_shortlist
from nmt.share.engine import (
    Engine,
    EngineComparison,
    ScoringSearcher,
    compare,
    engine_translator,
    finds_the_same,
    load_ctranslate2,
    made_up_lines,
    search_for_check,
)
from nmt.share.formats import (
    OTHERS_READ,
    check_format,
    check_norm,
    check_supported,
    exported_search,
    language_code,
    lost_settings,
)
from nmt.share.onnx import PACKAGES, OnnxSearcher, check_tokenizers, has_target_tokenizer, package, save_onnx
from nmt.share.transformers import made_up_log_prob, save_transformers
from nmt.share.web import copy_libraries, write_page
from nmt.text.growth import borrowed_tags
from nmt.text.lines import read_lines
from nmt.text.tokenizer import Tokenizer
from nmt.translate.confidence import portable_calibrations
from nmt.translate.loading import Translator, open_language_model
from nmt.translate.search import NativeSearcher
from nmt.translate.segment import MAX_PIECES_FACTOR
from nmt.translate.types import unprotected


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    path: Path
    comparison: EngineComparison | None
    """The comparison with the run; None for kinds that are not compared."""
    scores: Sequence[ScoreRecord]
    """Scores on the test sets, if requested."""
    not_carried: Sequence[str]
    """The names of the run's search settings in use that the format lacks."""
    tag: str | None
    """See `ExportInfo`."""
    letters: bool
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
class ExportOptions:
    """The options of `nmt export`."""

    model: ModelRef | Path
    """A single run."""
    data: Path | None = None
    """The data directory; by default the one used in training."""
    check: Path | None = None
    """The file of lines that both engines translate; by default the development set or, without the data directory,
    random words."""
    check_lines: int | None = None
    """The number of lines to compare; by default that of the kind."""
    evaluate: Callable[[Translator], Sequence[ScoreRecord]] | None = None
    """Evaluates the exported model, for the card."""
    shortlist: bool = False
    """Whether a CTranslate2 model gets a shortlist, see `nmt.share.ctranslate2`."""
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


def export(request: ExportOptions, output: Path, kind: Kind, quantization: Quantization | None = None) -> Exported:
    """Write the selected weights of a run to `output`, with everything needed to translate and a model card.

    Models of CTranslate2 and ONNX Runtime are compared with the run before the directory is renamed to `output`.

    Raises DataError if `output` is not empty or cannot be written, ConfigError if a package is not installed, there is
    no such number format or transformers has no such model, CheckpointError if there is no such run or checkpoint, or
    if search or the exported model computes other log-probabilities than training.
    """
    check_installed(kind)
    require_empty(output)
    with alone_in(output.absolute().parent, "exports"):
        return export_into(request, output.absolute(), kind, quantization)


def export_into(
    request: ExportOptions, output: Path, kind: Kind, quantization: Quantization | None, is_of_run: bool = False
) -> Exported:
    """Export a run to a directory whose parent the caller has locked; see `export`.

    is_of_run: whether the directory belongs to the run, so that it has all of its search settings.
    """
    saved = open_saved(request.model)
    model = saved.transformer()
    tokenizers = saved.tokenizers
    of = KINDS[kind]
    quantization = _number_format(kind, quantization)
    lost = []
    config = saved.config
    if not is_of_run:
        lost = lost_settings(kind, config.search)
        config = config.model_copy(update={"search": exported_search(kind, config.search)})
    saved = replace(saved, config=config)
    check_norm(kind, request.run, model)
    check_format(kind, saved)
    trained = check_inference(model)
    target = tokenizers[config.data.tgt]
    joins = config.joins_sentences
    searcher = NativeSearcher([model], target, torch.device("cpu"), "float32", joins, open_language_model)
    translator = Translator.configured(searcher, tokenizers, config, [saved.origin])
    lines, refs = _check_lines(request, translator.by_direction()[0], of.check_lines)
    info = _info(saved, kind, quantization)
    scores = _recorded(saved)
    comparison = None
    with new_directory(output) as directory:
        if of.engine is not None:
            write_file(directory.config, dump_config(without_places(config)).encode())
            tokenizers.save(directory.tokenizer)
        engine = _write_model(request, saved, model, info, directory)
        if engine is not None:
            search = exported_search(kind, search_for_check(config.search))
            comparison = compare(translator.by_direction()[0], engine, lines, search, refs)
            translator = replace(translator, searcher=engine)
            info = info.model_copy(update={"identical": comparison.identical})
        if kind == "onnx":
            check_tokenizers(directory.path, tokenizers.sides(config.data.direction), lines)
            if quantization == "float32" and (info.identical or 0.0) < MIN_IDENTICAL:
                raise CheckpointError(f"the export translates otherwise than the run: {comparison}")
        elif kind == "transformers" and find_spec("transformers") is None:
            say("not compared with the run: transformers is not installed")
        elif kind == "transformers":
            check_equal(trained, made_up_log_prob(directory.path, tokenizers.imported), "the export")
        seal(directory, info)
        measured = request.evaluate(translator) if request.evaluate is not None else []
        if of.engine is not None:
            # after sealing, since nmt calibrate replaces them
            for path in portable_calibrations(saved.path, info.tensors):
                write_file(directory.path / path.name, path.read_bytes())
        checked = None if comparison is None else str(comparison)
        card = replace(_card(saved, info, [*scores, *measured]), checked=checked, license=request.license)
        write_file(directory.card, card.text().encode())
    return Exported(output, comparison, measured, lost, info.tag, bool(tokenizers[config.data.src].letters))


def _write_model(
    request: ExportOptions, saved: Saved, model: Transformer, info: ExportInfo, directory: ExportDir
) -> ScoringSearcher | None:
    """Write a model in the format of its kind, and return a searcher with it, if there is one."""
    if info.positions is None:
        save_tensors(directory.weights, saved.weights.tensors)
        return None
    config = saved.config
    if info.quantization is None:
        save_transformers(model, config, saved.tokenizers, info.positions, directory.path)
        return None
    if info.kind == "onnx":
        save_onnx(model, config, saved.tokenizers, info.positions, info.quantization, directory.path)
        never_written = saved.tokenizers[config.data.tgt].never_written(config.joins_sentences)
        return OnnxSearcher(directory.path, info.quantization, never_written)
    src, tgt = saved.tokenizers.sides(config.data.direction)
    pieces = src.pieces(range(len(src))), tgt.pieces(range(len(tgt)))
    save_ctranslate2(model, config.model, info.positions, pieces, info.quantization, directory.path)
    if request.shortlist:
        if tgt.opening:
            raise ConfigError("--shortlist: has no effect for models whose translations begin with a tag")
        write_shortlist(directory.path, _directions(request, config, tgt), (src, tgt))
    seal(directory, info)  # the engine loads sealed models only
    return Engine(load_folder(directory.path))


def model_card(run: Path) -> str:
    """Return the model card of a run that has selected its weights, as for `nmt export --format folder`.

    Raises ConfigError if the run is no translation model with encoder and decoder, and what `open_saved` raises.
    """
    saved = open_saved(run)
    saved.check_exports()
    return _card(saved, _info(saved, "folder", None), _recorded(saved)).text()


def _card(saved: Saved, info: ExportInfo, scores: Sequence[ScoreRecord]) -> Card:
    run = RunDir(saved.path)
    return Card(
        run=run,
        config=without_places(saved.config),
        info=info,
        n_parameters=sum(tensor.numel() for tensor in saved.weights.tensors.values()),
        n_pieces=[saved.tokenizers.sizes[language] for language in saved.config.data.sides],
        borrowed_tags=borrowed_tags(saved.tokenizers),
        is_selected=saved.weights.identity == read_selected(run).identity,
        scores=scores,
    )


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


def check_installed(kind: Kind) -> None:
    """Raise ConfigError if a package that an export needs is not installed."""
    if kind in ("ctranslate2", "argos"):
        library()
    elif kind in ("onnx", "web"):
        for name in PACKAGES:
            package(name)


def _number_format(kind: Kind, quantization: Quantization | None) -> Quantization | None:
    """Return the number format of an export, by default the first one of its kind. Raises ConfigError."""
    formats = KINDS[kind].quantizations
    if quantization is not None and quantization not in formats:
        known = listed(formats, last="and") if formats else "no other than that of the run"
        raise ConfigError(f"--quantization {quantization}: --format {kind} has {known}")
    return quantization or next(iter(formats), None)


def _info(saved: Saved, kind: Kind, quantization: Quantization | None) -> ExportInfo:
    config = saved.config
    weights = saved.weights
    source = saved.tokenizers[config.data.src]
    to = config.search.to or source.to or next(iter(source.target_languages), None)
    if (
        config.data.has_language_tags and saved.tokenizers.imported is None
    ):  # else transformers writes these tags by itself
        to = f"{TO}{config.data.tgt}"
    # the longest source that is read, and the longest translation that the current settings allow
    n_positions = max(2 * MAX_PIECES_FACTOR * config.data.max_pieces + 64, OTHERS_READ)
    if config.model.positions == "learned":
        n_positions = config.model.max_positions
    return ExportInfo(
        kind=kind,
        nmt=__version__,
        direction=config.data.direction,
        has_tag=config.data.has_language_tags,
        tag=f">>{to}<<" if KINDS[kind].load and to else None,
        step=weights.step,
        weights=weights.kind,
        reason=weights.reason,
        tokenizer=saved.tokenizers.fingerprint,
        tensors=weights_fingerprint(weights.tensors),
        precision=saved.info.precision,
        device_name=saved.info.device_name,
        public=saved.info.public,
        float32_library=saved.info.float32_library,
        quantization=quantization,
        has_target_tokenizer=has_target_tokenizer(saved.tokenizers, config.data.direction) if kind == "onnx" else None,
        positions=None if kind == "folder" else n_positions,
    )


def _check_lines(request: ExportOptions, translator: Translator, default: int) -> tuple[list[str], list[str] | None]:
    """Return the lines to translate with both engines, at least one of which is not blank, and their references, if
    they are known. default: the number of lines, unless another one is requested; 0: no line."""
    if not default:
        return [], None
    n = request.check_lines or default
    if request.check is not None:
        lines = list(islice(read_lines(request.check), n))
        if not any(line.strip() for line in lines):
            raise DataError(f"{request.check}: the first {n} lines are blank; choose another file with --check")
        return lines, None
    data = translator.config.data
    try:
        split = open_corpus(RunDir(request.run), data.sides, request.data).split("valid")
        return split.text(data.src)[:n], split.text(data.tgt)[:n]
    except DataError:
        if request.data is not None:
            raise
        return made_up_lines(translator.tokenizers[data.src], n), None


def _directions(request: ExportOptions, config: Config, tgt: Tokenizer) -> Iterator[tuple[Corpus, str, str]]:
    """Yield the corpus of each direction, and its source and target language."""
    for direction in config.data.all_directions:
        data = config.data.towards(direction)
        corpus = open_corpus(RunDir(request.run), data.sides, request.data)
        if corpus.tokenizers[data.tgt].n_pieces != tgt.n_pieces:
            raise ConfigError(
                f"{corpus.directory.path}: has more pieces than {request.run}; give other text with --data"
            )
        yield corpus, data.src, data.tgt


def _recorded(saved: Saved) -> list[ScoreRecord]:
    """Return the recorded scores of these weights on test sets, without scores on a text that differs from the run's
    own test set of the same name."""
    run = RunDir(saved.path)
    corpus = read_info(run).corpus
    records = read_scores(run)
    text_of_run = {record.name: record.text for record in records if record.corpus == corpus}
    recorded = []
    for record in records:
        is_of_weights = (record.step, record.weights, record.averaged) == saved.weights.identity
        if record.is_test and is_of_weights and text_of_run.get(record.name, record.text) == record.text:
            recorded.append(record)
    return recorded


CHECK_LINES = 500
"""Number of lines to compare when a model is converted at first use."""
MIN_IDENTICAL = 0.995
"""Minimum share of identical translations with which CTranslate2 is used without being asked for."""


def load_translator(
    model: ModelRef,
    engine: EngineName,
    settings: Callable[[Config], SearchConfig],
    *,
    int8: bool = False,
    precision: str = "auto",
    converts: bool = False,
    falls_back: bool = False,
) -> Translator:
    """Load a translator with PyTorch (`native`) or CTranslate2, which is faster for single lines; `auto` chooses.

    `auto` is CTranslate2 for an export for it, and on a CPU for a run, if CTranslate2 supports the search settings,
    which `settings` returns. With `converts`, the run is converted if it has not been; else it must have been converted
    with these weights, with `MIN_IDENTICAL` of the translations.
    precision: PyTorch's. falls_back: whether PyTorch's model of a run is loaded as well, for what CTranslate2 does not
    support. Raises what `settings`, `engine_for` and `Translator.load` raise.
    """
    path = model.path
    is_export = engine != "native" and is_folder(path) and load_folder(path).info.kind == "ctranslate2"
    made = RunDir(path).ctranslate2("float32").path
    translator = None
    if engine == "ctranslate2" or is_export:
        translator = engine_for(model, int8)
    elif engine == "auto" and not torch.cuda.is_available() and (converts or _is_equal(model, made, settings)):
        try:
            translator = engine_for(model, int8) if converts else replace(load_ctranslate2(made), run=path)
            check_supported(unprotected(settings(translator.config)))
        except (ConfigError, CheckpointError, DataError) as error:
            say(f"{path}: translating with PyTorch: {error.args[0]}")
            translator = None
        if translator is not None and not converts:
            say(f"translating with CTranslate2, {made}")
    if translator is None:
        return Translator.load(model, precision=precision)
    return replace(translator, fallback=Translator.load(model).searcher) if falls_back and not is_export else translator


def _is_equal(model: ModelRef, made: Path, settings: Callable[[Config], SearchConfig]) -> bool:
    """Return whether a CTranslate2 model has been made of these weights, and finds the same translations."""
    if len(model.paths) > 1 or not made.is_dir() or find_spec("ctranslate2") is None:
        return False
    saved = open_saved(model)
    is_equal = _is_of(made, saved) and (load_folder(made).info.identical or 0.0) >= MIN_IDENTICAL
    return is_equal and not saved.config.joins_sentences and finds_the_same(settings(saved.config))


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
        return replace(load_ctranslate2(engine_folder(model, "int8" if int8 else "float32")), run=path)
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
    model = ModelRef.of(model)
    run = model.path
    saved = open_saved(model)
    saved.check_exports()
    path = RunDir(run).ctranslate2(quantization).path
    refuse_links([path])
    with alone_in(run, "exports"):
        if _is_of(path, saved):
            return path
        say(f"{path}: exporting {run} for CTranslate2 (only once)")
        remove(path)
        request = ExportOptions(model, check_lines=CHECK_LINES)
        say(f"{export_into(request, path, 'ctranslate2', quantization, is_of_run=True).comparison}")
    return path


def _is_of(path: Path, saved: Saved) -> bool:
    """Return whether `path` is an export of these weights and settings."""
    try:
        folder = load_folder(path)
    except CheckpointError:
        return False
    expected = weights_fingerprint(saved.weights.tensors), without_places(saved.config)
    return (folder.info.tensors, folder.config) == expected and folder.info.identical is not None


def export_web(
    request: ExportOptions, output: Path, quantization: Quantization | None = None, npm_packages: Path | None = None
) -> Exported:
    """Write a page that translates in the browser with the chosen weights, after comparing them as `export` does.

    npm_packages: see `nmt.share.web.write_page`. Raises what that and `export` raise.
    """
    check_installed("web")
    quantization = _number_format("web", quantization)
    saved = open_saved(request.model)
    saved.check_exports()
    output = output.absolute()
    with alone_in(output.parent, "exports"), new_directory(output) as directory:
        copy_libraries(directory.path, npm_packages)  # first, since it may fail
        exported = export_into(request, directory.path / "model", "onnx", quantization)
        card = exported.path.joinpath("README.md").read_text(encoding="utf-8").partition(USE)[0]  # the page is its use
        public = saved.info.public
        licence = request.license or (None if public is None else public.license)
        write_page(directory.path, saved.config, saved.tokenizers, card, licence)
    lost = [name for name in exported.not_carried if name != "split"]  # the page splits lines
    return replace(exported, path=output, not_carried=lost, tag=None, letters=False)


SUFFIX = ".argosmodel"
SPLITTER = Path(__file__).with_name("splitter.onnx")

# The fields normalizer_spec and, in it, add_dummy_prefix of SentencePiece's model. A field that is repeated at the end
# of a serialised message replaces the first one, and a repeated message is merged.
_WITH_SPACE_BEFORE = bytes([3 << 3 | 2, 2, 3 << 3, 1])
_DATE = (1980, 1, 1, 0, 0, 0)  # of all files, so that equal models result in equal packages


def export_argos(request: ExportOptions, output: Path, quantization: Quantization | None = None) -> Exported:
    """Write the chosen weights of a run as a package, after comparing the model with the run as `export` does.

    Raises ConfigError for a run that Argos Translate does not support and a name without `.argosmodel`, DataError if
    `output` exists or cannot be written, and what `export` raises.
    """
    check_installed("argos")
    quantization = _number_format("argos", quantization)
    if output.suffix != SUFFIX:
        raise ConfigError(f"--output {output}: the name of an Argos Translate package must end in {SUFFIX}")
    saved = open_saved(request.model)
    saved.check_exports()
    check_format("argos", saved)
    output = output.absolute()
    with alone_in(output.parent, "exports"):
        if output.exists():
            raise DataError(f"{output}: already exists; choose another file name, or remove this file")
        with writing(output), TemporaryDirectory(dir=output.parent, prefix=f".{output.stem}.") as scratch:
            exported = export_into(request, Path(scratch) / "export", "ctranslate2", quantization)
            with open_output(output) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, data in _package_files(ExportDir(exported.path), request.license).items():
                    entry = zipfile.ZipInfo(name, _DATE)
                    entry.external_attr = 0o644 << 16
                    archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return replace(exported, path=output, not_carried=())  # Argos Translate ignores all search settings


def _package_files(folder: ExportDir, license: str | None) -> dict[str, bytes]:  # noqa: A002
    """Return the files of the package by their names in the archive, from an export for CTranslate2."""
    loaded = load_folder(folder.path)
    config = loaded.config
    step = loaded.info.step
    source = folder.tokenizer.language(config.data.src)
    if loaded.tokenizers.joint:
        source = folder.tokenizer.joint
    codes = [language_code(name) for name in config.data.sides]
    model = {}
    for name in sorted(loaded.checksums):
        if "/" not in name and name != folder.config.name:
            model[f"model/{name}"] = (folder.path / name).read_bytes()
    card = folder.card.read_text(encoding="utf-8").partition(USE)[0] + _argos_use(config, codes)
    files = {
        "metadata.json": json.dumps(_metadata(config, codes, step, license), indent=2, ensure_ascii=False).encode(),
        "README.md": card.encode(),
        "sentencepiece.model": source.read_bytes() + _WITH_SPACE_BEFORE,
        "minisbd/splitter.onnx": SPLITTER.read_bytes(),
        **model,
    }
    return {f"translate-{'_'.join(codes)}-nmt/{name}": data for name, data in files.items()}


def _metadata(config: Config, codes: list[str], step: int, license: str | None) -> dict[str, str]:  # noqa: A002
    """Return the content of metadata.json, with `license` for readers (Argos Translate ignores it)."""
    metadata = {
        "package_version": f"1.{step}",
        "argos_version": "1.11",
        "from_code": codes[0],
        "from_name": language_name(config.data.src),
        "to_code": codes[1],
        "to_name": language_name(config.data.tgt),
    }
    if license is not None:
        metadata["license"] = license
    return metadata


def _argos_use(config: Config, codes: list[str]) -> str:
    """Return the last section of the model card, on the use of the package."""
    return f"""{USE}
With this package as `FILE{SUFFIX}`, and Argos Translate 1.11 or newer:

```python
from argostranslate import package, translate

package.install_from_path("FILE{SUFFIX}")
print(translate.translate("A sentence in {language_name(config.data.src)}.", "{codes[0]}", "{codes[1]}"))
```

LibreTranslate offers it, too, once it is installed. Texts are divided into sentences by rules, without a download.
"""
