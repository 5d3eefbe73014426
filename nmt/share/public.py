"""Import of Marian and M2M-100 models, such as OPUS-MT and NLLB, from directories or repositories for Hugging Face
transformers. `nmt.share.marian` converts models in Marian's own format to theirs.

The result is a run without optimizer state, which all commands take. Nothing in the model is executed: weights are
safetensors, or a pickle that PyTorch reads with `weights_only`.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from nmt import __version__
from nmt.config import Config
from nmt.config.load import check_config, dump_config
from nmt.errors import ConfigError, DataError, error_text
from nmt.files.read import DOCUMENT_BYTES
from nmt.files.write import alone_in, staged, write_file, writing
from nmt.layout import RUN_FORMAT, RunDir
from nmt.model.embedding import TABLES
from nmt.model.transformer import Transformer, make_model
from nmt.runs.checkpoint import save_checkpoint
from nmt.runs.folder import require_empty
from nmt.runs.info import PublicModel, RunInfo, Selected, write_info, write_selected
from nmt.search.forced import check_inference
from nmt.share.marian import compare, converted, is_original
from nmt.share.public_vocabulary import (
    ABSENT,
    NOT_MARIAN,
    WEIGHTS,
    ImportOptions,
    check_content,
    check_setting,
    cut_vocabulary,
    located,
    m2m_tokenizers,
    marian_tokenizers,
    read_json,
    read_optional,
    removed_share,
    stated_license,
)
from nmt.share.transformers import (
    MARIAN_ACTIVATIONS,
    OUTPUT_BIAS,
    TABLE_NAMES,
    tables_of,
    units_of,
    weights_of,
)
from nmt.text.ids import BOS, PAD
from nmt.text.imported import ImportedVocabulary
from nmt.text.vocabularies import Tokenizers

_OPTIONS = {
    "marian": {"normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False,
               "static_position_embeddings": True, "scale_embedding": True},
    "m2m_100": {"scale_embedding": True},
}  # fmt: skip
"""For each model_type, settings of config.json for which only one value is supported; all but the last may be
missing."""
_EQUAL = [("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim")]
_STARTS = {"marian": "pad_token_id", "m2m_100": "eos_token_id"}
"""The name of the token with which the decoder starts."""
_KINDS_OF_POSITIONS = {"marian": ["sinusoidal", "marian"], "m2m_100": ["marian"]}
"""The first is that of models that store none. Those of fairseq are Marian's, but begin with the third."""


@dataclass(frozen=True)
class Imported:
    """A run made of a public model."""

    run: Path
    config: Config
    tokenizers: Tokenizers
    model: PublicModel
    full: Tokenizers
    """The tokenizers of the public model, before pieces were removed."""
    n_parameters: int
    """The number of parameters of the public model."""

    @property
    def n_removed(self) -> int:
        """The number of pieces removed from the vocabularies."""
        return _n_pieces(self.full) - _n_pieces(self.tokenizers)

    def lines(self) -> Iterator[str]:
        """Yield lines that say what was imported."""
        public = self.model
        data = self.config.data
        tokenizer = self.tokenizers[data.src]
        revision = f" at {public.revision}" if public.revision else ""
        kind = "an M2M-100" if tokenizer.opening else "a Marian"
        of = f"for {data.direction}"
        options = ""
        if data.has_language_tags:
            of = f"between {', '.join(data.all_languages)}"
            options = f" --to {data.tgt} --from {data.src}"
        yield f"{public.name}{revision}: {kind} model {of}"
        sizes = self.tokenizers.sizes
        vocabulary = f"{sizes[data.src]:,} pieces for {'both' if len(sizes) == 2 else 'all'} languages"
        if not self.tokenizers.joint:
            vocabulary = " and ".join(f"{sizes[language]:,} pieces for {language}" for language in data.sides)
        yield f"{public.parameters / 1e6:.1f} million parameters, {vocabulary}"
        if self.n_removed:
            yield from self._removed()
        if self.tokenizers.tags:
            yield f"tags: {', '.join(self.tokenizers.tags)}; choose with --tag"
        if languages := tokenizer.target_languages:
            chosen = f"--to {tokenizer.to}" if tokenizer.to else "choose one with --to"
            yield f"target languages: {', '.join(sorted(languages))}; {chosen}"
        yield f"licence: {public.license or 'unknown, since no model card states it in a readable form'}"
        yield f"{self.run}: written; translate with nmt translate --run {self.run}{options}"

    def _removed(self) -> Iterator[str]:
        """Yield lines on the pieces that were removed."""
        parameters = (
            f"{self.n_parameters / 1e6:.1f} million parameters become {self.model.parameters / 1e6:.1f} million"
        )
        yield f"{self.n_removed:,} of {_n_pieces(self.full):,} pieces removed: {parameters}"
        data = self.config.data
        for language in data.all_languages if data.has_language_tags else data.sides:
            share = removed_share(self.full[language].model, self.tokenizers[language].model)
            if share is not None:
                learned = f"they were {share:.1%} of text like that from which the tokenizer learned"
                yield f"{language}: {learned}; their text is now spelled in smaller pieces"


def _n_pieces(tokenizers: Tokenizers) -> int:
    assert tokenizers.imported is not None, "these tokenizers are imported"
    return sum(map(len, tokenizers.imported.pieces))


def import_model(request: ImportOptions) -> Imported:
    """Make a run of a Marian or M2M-100 model of transformers, or of a model in Marian's own format.

    Raises DataError if files of the model are missing, damaged or unsupported, or the run exists already; HubError if
    the repository cannot be downloaded, and ConfigError if its name is invalid.
    """
    if not is_original(request.name):
        return _imported(request, *located(request.name), False)
    with converted(request.name) as folder:
        return _imported(request, folder, Path(request.name).resolve().stem, None, True)


def _imported(request: ImportOptions, folder: Path, name: str, revision: str | None, is_converted: bool) -> Imported:
    """Make a run of a model of transformers in a folder. is_converted: whether Marian has trained it."""
    theirs = _settings(folder)
    path = next((folder / name for name in WEIGHTS if (folder / name).exists()), folder / WEIGHTS[0])
    with _opened(path) as (take, left):
        for setting, (names, dim) in _SIZES.items():  # before anything of such a size is made
            size = [*take(names, True).shape, 0, 0][dim]
            if theirs.get(setting) not in (None, size):
                raise DataError(f"{folder}: {setting} is {theirs[setting]!r} in config.json, but {size} in {path.name}")
        read_tokenizers = marian_tokenizers if theirs["model_type"] == "marian" else m2m_tokenizers
        full = tokenizers = read_tokenizers(folder, theirs, request)
        assert full.imported is not None, "these tokenizers are imported"
        kept: list[Sequence[int]] = [range(len(pieces)) for pieces in full.imported.pieces]
        if request.keep_pieces_of:
            tokenizers, kept = cut_vocabulary(full, request.keep_pieces_of)
        vocabulary = tokenizers.imported
        assert vocabulary is not None, "cut from an imported one"
        positions = _stored_positions(path, take, left, theirs["model_type"])
        config = _config(folder, theirs, positions, vocabulary, request.languages)
        output = request.run or Path("runs") / name.replace("/", "-")
        require_empty(output)
        with torch.device("meta"):  # memory is allocated where weights are copied
            model = make_model(config.model, config.sizes(tokenizers.sizes))
            whole = make_model(config.model, config.sizes(full.sizes))
        assert isinstance(model, Transformer), "these models have an encoder and a decoder"
        if model.n_parameters > 2 * path.stat().st_size:  # a table that is stored once may be used three times
            raise DataError(f"{path}: too small for the {model.n_parameters:,} parameters of config.json")
        model = model.to_empty(device="cpu")
        _load_weights(path, take, model, full.imported, vocabulary, kept)
    if not vocabulary.languages:  # M2M-100 takes too much memory and time
        for stack in (model.encoder, model.decoder):  # whose positions are no weights, and were not copied
            stack.embedding.positions.table = stack.embedding.positions.first(0)
        check_inference(model.eval())
    start = model.decoder.embedding.weight[BOS]
    if config.model.start_embedding == "zero" and start.any():  # it has learned, in transformers
        learned = config.model.model_copy(update={"start_embedding": "learned"})
        config = config.model_copy(update={"model": learned})
    info = PublicModel(name=name, revision=revision, license=stated_license(folder), parameters=model.n_parameters)
    with alone_in(output.absolute().parent, "imports"), writing(output), staged(output, is_directory=True) as part:
        _write(RunDir(part), config, tokenizers, model, info)
        if is_converted and not request.keep_pieces_of:
            compare(folder, part)
    return Imported(output, config, tokenizers, info, full, whole.n_parameters)


def _write(run: RunDir, config: Config, tokenizers: Tokenizers, model: Transformer, public: PublicModel) -> None:
    run.checkpoints.mkdir()
    write_file(run.config, dump_config(config).encode())
    tokenizers.save(run.tokenizer)
    save_checkpoint(run.step(0), dict(model.named_parameters()), None, {})
    write_selected(run, Selected(best_step=0, reason=f"imported from {public.name}", finished_step=0))
    info = RunInfo(
        format=RUN_FORMAT, data_dir="", corpus="", tokenizer=tokenizers.fingerprint, precision="float32",
        nmt=__version__, torch=torch.__version__, imported=public,
    )  # fmt: skip
    write_info(run, info)


# --- settings -------------------------------------------------------------------------------------


def _settings(folder: Path) -> dict[str, Any]:
    """Return config.json. Raises DataError if it is not the configuration of a supported model."""
    config = read_json(folder, "config.json")
    where = folder / "config.json"
    kind: Any = config.get("model_type")
    check_setting(where, "model_type", kind, [*_OPTIONS])
    for name, supported in _OPTIONS[kind].items():
        default = None if name == "scale_embedding" else supported
        check_setting(where, name, config.get(name, default), [supported])
    for first, second in [*_EQUAL, ("decoder_start_token_id", _STARTS[kind])]:
        check_setting(where, first, config.get(first), [config.get(second)], f", like {second}")
    check_setting(where, "activation_function", config.get("activation_function"), [*MARIAN_ACTIVATIONS])
    return config


def _config(
    folder: Path,
    theirs: Mapping[str, Any],
    positions: str,
    vocabulary: ImportedVocabulary,
    languages: Sequence[str],
) -> Config:
    """Return the configuration of the run."""
    generation = read_optional(folder, "generation_config.json") or theirs
    is_joint = len(vocabulary.pieces) == 1
    penalty = generation.get("length_penalty")
    if penalty is None:
        penalty = 1.0
    directions: dict[str, object] = {"languages": [*languages], "directions": "all"} if languages else {}
    kind = {"norm": "post", "output_bias": True, "start_embedding": "zero", "positions": positions}
    if theirs["model_type"] == "m2m_100":
        kind = {"norm": "pre", "output_bias": "fixed", "start_embedding": "end", "positions": "fairseq"}
    tied = "all" if is_joint else "target"
    tree = {
        "data": {"train": []} | (directions or {"direction": vocabulary.direction}),
        "tokenizer": {"joint": is_joint, "vocab_size": max(300, *map(len, vocabulary.pieces))},
        "model": {
            "d_model": theirs.get("d_model"),
            "n_heads": theirs.get("encoder_attention_heads"),
            "d_ff": theirs.get("encoder_ffn_dim"),
            "encoder_layers": theirs.get("encoder_layers"),
            "decoder_layers": theirs.get("decoder_layers"),
            **kind,
            "activation": MARIAN_ACTIVATIONS[theirs["activation_function"]],
            "tie_embeddings": tied if theirs.get("tie_word_embeddings", True) else "none",
            "embedding_dropout": theirs.get("dropout", 0.1),
            "residual_dropout": theirs.get("dropout", 0.1),
            "attention_dropout": theirs.get("attention_dropout", 0.0),
            "activation_dropout": theirs.get("activation_dropout", 0.0),
        },
        "search": {
            "split": "always",
            "beam": generation.get("num_beams") or 4,
            "length_penalty": penalty,
        },
    }
    try:
        return check_config(tree, f"{folder / 'config.json'} or generation_config.json")
    except ConfigError as error:
        raise DataError(error.problems[0]) from error


# --- weights --------------------------------------------------------------------------------------

Take = Callable[[Sequence[str], bool], Tensor]
"""A function that returns a tensor of the public model by one of the names that it may have there; the tensor is left
there if the second argument is true."""

_SIZES = {
    "d_model": (["model.encoder.layers.0.fc1.weight"], 1),
    "encoder_ffn_dim": (["model.encoder.layers.0.fc1.weight"], 0),
    "vocab_size": (TABLE_NAMES, 0),
}
"""Settings in config.json, and the possible names and the dimension of a tensor of that size."""
_ROWS = 4096  # of an embedding table, copied at a time
_MAPPED_BYTES = 2**25  # read before a pickle is mapped anew
_POSITIONS = {
    "model.encoder.embed_positions.weight",
    "model.encoder.embed_positions.weights",
    "model.decoder.embed_positions.weight",
    "model.decoder.embed_positions.weights",
}
"""The names of sinusoidal positions, which are computed; old repositories contain them."""


@torch.no_grad()
def _load_weights(
    path: Path,
    take: Take,
    model: Transformer,
    full: ImportedVocabulary,
    vocabulary: ImportedVocabulary,
    kept: Sequence[Sequence[int]],
) -> None:
    """Copy the weights into a model. Raises DataError if some are missing or of another shape.

    full: the vocabulary of the public model; kept: for each vocabulary, the rows of its pieces in the tables of the
    public model.
    """

    def rows_of(side: Literal[0, 1]) -> dict[int, int]:
        """Return the row in the table of the public model by id, of the ids that it has."""
        rows = kept[min(side, len(kept) - 1)]
        return {i: rows[row] for i, row in enumerate(vocabulary.original_rows(side)) if row is not None}

    inverse = units_of(model).argsort()
    # the largest tensors first, while the memory of the others is not in use
    for names, table, side in tables_of(model):
        source = take(names, False)
        rows = rows_of(side)
        _check_tensor(path, names[0], source, torch.Size((len(full.original(side)), table.size(1))))
        table.zero_()
        ids = [*rows]
        for start in range(0, len(ids), _ROWS):
            part = ids[start : start + _ROWS]
            table[part] = source[[rows[i] for i in part]].index_select(1, inverse).to(table.dtype)
    for name, target, dims in weights_of(model):
        source = take([name], False)
        _check_tensor(path, name, source, target.shape)
        for dim in dims:
            source = source.index_select(dim, inverse)
        target.copy_(source)
    if is_marian := not full.languages:  # its decoder starts with padding
        model.decoder.embedding.weight[BOS] = model.decoder.embedding.weight[PAD]
    assert model.output_bias is not None, "set by the configuration"
    shape = torch.Size((1, len(full.original(1))))
    rows = rows_of(1)
    source = take([OUTPUT_BIAS], False) if is_marian else torch.zeros(shape)
    _check_tensor(path, OUTPUT_BIAS, source, shape)
    model.output_bias.fill_(ABSENT)
    model.output_bias[[*rows]] = source[0, [*rows.values()]].to(model.output_bias.dtype)


def _check_tensor(path: Path, name: str, tensor: Tensor, expected: torch.Size) -> None:
    if tensor.shape != expected:
        shapes = f"has shape {tuple(tensor.shape)}, the model of config.json needs {tuple(expected)}"
        raise DataError(f"{path}: {name} {shapes}")
    if not tensor.is_floating_point():
        raise DataError(f"{path}: {name} has {tensor.dtype}; only floats are supported")
    if not torch.stack(torch.aminmax(tensor)).isfinite().all():  # which allocates nothing of the size of the tensor
        raise DataError(f"{path}: {name} has values that are not finite")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Take, set[str]]]:
    """Yield a function that reads the tensors of a file, and the names of those that are left; check in the end that
    there are none.

    Tensors are not kept in memory once read: a file of safetensors is mapped anew for each tensor, a zipped pickle from
    time to time, and tensors of a pickle in the old format are freed.
    """
    try:
        with path.open("rb") as file:
            check_content(path, file.read(DOCUMENT_BYTES if path.stat().st_size < 1024 else 1024))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}{NOT_MARIAN}") from error
    tensors: dict[str, Tensor] = {}
    n_read = 0

    def load() -> dict[str, Tensor]:  # the old format of PyTorch cannot be mapped
        loaded: dict[str, Tensor] = torch.load(path, "cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        return loaded

    try:
        if path.name == WEIGHTS[0]:
            with safe_open(path, "pt") as opened:
                left = set(opened.keys())
        else:
            with warnings.catch_warnings():  # of old protocols of pickle
                warnings.simplefilter("ignore")
                tensors = load()
            if not isinstance(tensors, dict):
                raise DataError(f"{path}: contains a {type(tensors).__name__} instead of weights by name")
            left = set(tensors)
    except pickle.UnpicklingError as error:
        raise DataError(f"{path}: contains more than weights, and was not executed") from error
    except (SafetensorError, RuntimeError, OSError, EOFError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: damaged: {error_text(error)}") from error
    if not all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in tensors.items()):
        raise DataError(f"{path}: contains more than weights")

    def take(names: Sequence[str], is_left: bool) -> Tensor:
        nonlocal tensors, n_read
        present = [name for name in names if name in left]
        if not present:
            raise DataError(f"{path}: lacks the weights {names[0]}, which the model of config.json has")
        if path.name == WEIGHTS[0]:
            with safe_open(path, "pt") as opened:
                tensor: Tensor = opened.get_tensor(present[0])
        else:
            tensor = tensors[present[0]]
        if tensor.layout != torch.strided or tensor.nbytes > path.stat().st_size:  # one number may be used many times
            raise DataError(f"{path}: {present[0]} is not dense, or larger than the file")
        if is_left:
            return tensor
        left.difference_update(names)
        for name in present:
            tensors.pop(name, None)
        n_read += tensor.nbytes
        if tensors and n_read > _MAPPED_BYTES and zipfile.is_zipfile(path):
            tensors = load()
            n_read = 0
        return tensor

    yield take, left
    if left:
        raise DataError(f"{path}: has {len(left)} tensors that such models do not have, such as {min(left)}")


def _stored_positions(path: Path, take: Take, left: set[str], model_type: str) -> str:
    """Return the kind of the positions, and take those that are stored. Raises DataError if they have no such kind."""
    tables = [take([name], False) for name in left & _POSITIONS]
    for kind in _KINDS_OF_POSITIONS[model_type]:
        if all(_are_positions(kind, table) for table in tables):
            return kind
    raise DataError(f"{path}: its positions are not sinusoidal; only such positions are supported")


def _are_positions(kind: str, table: Tensor) -> bool:
    """Return whether a table has positions of a kind, as transformers stores them."""
    if table.dim() != 2 or table.size(1) < 4:
        return False
    expected = TABLES[kind](*table.shape)
    if kind == "sinusoidal":
        expected = torch.cat((expected[:, ::2], expected[:, 1::2]), 1)
    return expected.shape == table.shape and torch.allclose(table[2:].float(), expected[2:], atol=1e-2)
