"""Packages of Argos Translate, which LibreTranslate reads, too, with a sentence splitter in the format of MiniSBD.

Without one in the package, Argos Translate downloads a model at first use. This one follows the rules of
`nmt.text.split`: a sentence ends after `.`, `!`, `?` and the like, and closing quotes, before white space that no
lowercase letter follows, but not after an abbreviation such as "z. B.", "Dr." or "3."; and after the marks of scripts
without spaces. The rules are the weights of a convolutional network in ONNX, the only form MiniSBD can read. Each of
its hidden units recognises one pattern of characters, and letters are those of alphabets with two cases.

    metadata.json          languages and version
    model/                 the model of CTranslate2
    sentencepiece.model    the tokenizer of the source, with a space before the first word
    minisbd/splitter.onnx  the sentence splitter (`nmt.share.argos`); without one it would be downloaded
    README.md              the model card

Argos Translate decodes by the tokenizer of the source. Where the target has its own, its pieces are unknown to that
one, which gives them back as they are; so separate vocabularies work, too.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from nmt.config import Config
from nmt.errors import ConfigError, DataError
from nmt.files.write import alone_in, open_output, writing
from nmt.layout import ExportDir
from nmt.runs.folder import Quantization, load_folder
from nmt.runs.model import open_saved
from nmt.share.card import USE
from nmt.share.engine import library
from nmt.share.export import OTHERS_READ, Exported, Request, export_into
from nmt.text.language_names import language_name, normalized

_MARKS, _WIDE_MARKS = ".!?…؟۔।॥", "。！？｡።။"
_CLOSING = "\"'”“’‘»«›‹)]}」』）】》〉"
_OPENING = "\"'„”“‚’‘»«›‹([{¿¡–—-"
_CASED = [*range(0x41, 0x590), *range(0x1E00, 0x2000)]  # Latin, Greek, Cyrillic, Armenian
_SPECIAL = ["<PAD>", "<UNK>"]

Condition = tuple[int, str, bool]
"""Distance from the character in question, a property, and whether the character there must have it."""

_PROPERTIES = ["mark", "stop", "case", "wide", "closing", "opening", "space", "lower", "letter", "consonant", "digit"]
_BEFORE, _AFTER = 5, 3  # characters that a pattern may look at
_MOST_CLOSING = 2


def splitter(language: str) -> bytes:
    """Return the ONNX file; equal calls return equal bytes. language: code of the text's language."""
    characters = sorted({*_MARKS, *_WIDE_MARKS, *_CLOSING, *_OPENING, " ", *"0123456789"} | set(map(chr, _CASED)))
    table = np.array([[0.0] * len(_PROPERTIES)] * len(_SPECIAL) + [_properties(one) for one in characters], np.float32)
    ends, exceptions = [*_ends()], [*_exceptions()]
    patterns = [*ends, *exceptions]
    weights = np.zeros((len(patterns), len(_PROPERTIES), _BEFORE + 1 + _AFTER), np.float32)
    for weight, pattern in zip(weights, patterns, strict=True):
        for distance, name, wanted in pattern:
            weight[_PROPERTIES.index(name), _BEFORE + distance] = 1 if wanted else -1
    # a unit is 1 if all of its pattern is there, else 0
    biases = np.array([1 - sum(wanted for *_, wanted in pattern) for pattern in patterns], np.float32)
    output = np.zeros((3, len(patterns), 1), np.float32)  # classes: within a token, its end, the end of a sentence
    output[2] = np.array([[2.0]] * len(ends) + [[-2.0 * len(ends)]] * len(exceptions))
    # where nothing was recognised, it is within a token
    tensors = {"table": table, "weights": weights, "biases": biases, "output": output,
               "priors": np.array([1, -1, 0], np.float32)}  # fmt: skip
    vocabulary = {one: i for i, one in enumerate([*_SPECIAL, *characters])}
    metadata = {
        "lang_code": language,
        "config": json.dumps({"feat_funcs": [], "batch_size": 32}),
        "vocab": json.dumps({"lang": language, "_unit2id": vocabulary}),
    }
    return _onnx(tensors, metadata)


def _properties(character: str) -> list[float]:
    letter = character.isalpha() and ord(character) in _CASED
    return [
        character in _MARKS,
        character == ".",
        character in ".!?…",
        character in _WIDE_MARKS,
        character in _CLOSING,
        character in _OPENING,
        character == " ",
        character.islower(),
        letter,
        character.lower() in set("bcdfghjklmnpqrstvwxz"),
        character in "0123456789",
    ]


def _ends() -> Iterator[list[Condition]]:
    """Yield the patterns of the last character of a sentence: a mark or closing quotes after it."""
    for n in range(_MOST_CLOSING + 1):
        after = [(-i, "closing", True) for i in range(n)]
        yield [(-n, "mark", True), *after, (1, "space", True)]
        yield [(-n, "wide", True), *after, (1, "wide", False), (1, "closing", False)]


def _exceptions() -> Iterator[list[Condition]]:
    """Yield the patterns of a character that looks like the end of a sentence, and is not."""
    for n in range(_MOST_CLOSING + 1):  # the sentence goes on in lower case, perhaps after a quote
        mark = [(-n, "case", True), *((-i, "closing", True) for i in range(n)), (1, "space", True)]
        yield [*mark, (2, "lower", True)]
        yield [*mark, (2, "opening", True), (3, "lower", True)]
    for kind, lengths in {"letter": (1,), "digit": (1, 2), "consonant": (2, 3, 4)}.items():
        for n in lengths:
            word = [(-i, kind, True) for i in range(1, n + 1)]
            small = [(-i, "lower", True) for i in range(1, n)] if kind == "consonant" else []
            before = [(-n - 1, name, False) for name in ("letter", "digit")]
            yield [(0, "stop", True), (1, "space", True), *word, *small, *before]


# --- ONNX, written field by field: a message is its fields, a field has a number (onnx.proto3) and a value ------------

_FLOAT, _INT64 = 1, 7
_INTS = 7


def _onnx(tensors: Mapping[str, npt.NDArray[np.float32]], metadata: Mapping[str, str]) -> bytes:
    """Return the network: units (B, L) -> predictions (B, L, 3). MiniSBD also passes features; there are none."""
    nodes = [
        _node("Gather", ["table", "units"], "properties"),
        _node("Transpose", ["properties"], "by_property", perm=[0, 2, 1]),
        _node("Conv", ["by_property", "weights", "biases"], "matches", pads=[_BEFORE, _AFTER]),
        _node("Relu", ["matches"], "recognised"),
        _node("Conv", ["recognised", "output", "priors"], "by_class"),
        _node("Transpose", ["by_class"], "predictions", perm=[0, 2, 1]),
    ]
    initializers = [
        _message((1, list(array.shape)), (2, _FLOAT), (8, name), (9, array.astype("<f4").tobytes()))
        for name, array in tensors.items()
    ]
    inputs = [_value("units", _INT64, ["B", "L"]), _value("features", _FLOAT, ["B", "L", "F"])]
    outputs = [_value("predictions", _FLOAT, ["B", "L", "C"])]
    graph = _message((1, nodes), (2, "splitter"), (5, initializers), (11, inputs), (12, outputs))
    properties = [_message((1, key), (2, value)) for key, value in metadata.items()]
    ir_version, operators = 8, _message((1, ""), (2, 13))
    return _message((1, ir_version), (2, "nmt"), (7, graph), (8, operators), (14, properties))


def _node(operator: str, inputs: list[str], output: str, **attributes: list[int]) -> bytes:
    given = [_message((1, name), (8, value), (20, _INTS)) for name, value in attributes.items()]
    return _message((1, inputs), (2, output), (4, operator), (5, given))


def _value(name: str, kind: int, dimensions: list[str]) -> bytes:
    shape = _message((1, [_message((2, dimension)) for dimension in dimensions]))
    return _message((1, name), (2, _message((1, _message((1, kind), (2, shape))))))


def _message(*fields: tuple[int, object]) -> bytes:
    """Return a message of Protocol Buffers: integers, text, messages, and lists of these, which are repeated fields."""
    encoded = b""
    for number, value in fields:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int):
                encoded += _varint(number << 3) + _varint(one)
            else:
                data = one.encode() if isinstance(one, str) else one
                assert isinstance(data, bytes)
                encoded += _varint(number << 3 | 2) + _varint(len(data)) + data
    return encoded


def _varint(n: int) -> bytes:
    encoded = bytearray()
    while n > 0x7F:
        encoded.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*encoded, n])


SUFFIX = ".argosmodel"
_CODES = {"pt_br": "pb", "zh_tw": "zt", "zh_hant": "zt"}
"""Codes that Argos Translate and LibreTranslate have for a language of a region."""

# The fields normalizer_spec and, in it, add_dummy_prefix of SentencePiece's model. A field that comes again at the end
# of a serialised message replaces the first one, and a message is merged.
_WITH_SPACE_BEFORE = bytes([3 << 3 | 2, 2, 3 << 3, 1])
_DATE = (1980, 1, 1, 0, 0, 0)  # of all files, so that equal models make equal packages


def export_argos(request: Request, output: Path, quantization: Quantization = "int8") -> Exported:
    """Write the chosen weights of a run as a package; the model is compared with the run as `export` does.

    Raises ConfigError for a run that a package cannot hold and a name without `.argosmodel`, DataError if `output`
    exists or cannot be written, and what `export` raises.
    """
    library()
    if output.suffix != SUFFIX:
        raise ConfigError([f"--output {output}: the name of an Argos Translate package must end in {SUFFIX}"])
    _check(request)
    output = output.absolute()
    with alone_in(output.parent, "exports"):
        if output.exists():
            raise DataError(f"{output}: exists; name another file, or remove this one")
        with writing(output), TemporaryDirectory(dir=output.parent, prefix=f".{output.stem}.") as scratch:
            exported = export_into(request, Path(scratch) / "export", "ctranslate2", quantization)
            with open_output(output) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, data in _files(ExportDir(exported.path), request.license).items():
                    entry = zipfile.ZipInfo(name, _DATE)
                    entry.external_attr = 0o644 << 16
                    archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return replace(exported, path=output)


def _check(request: Request) -> None:
    """Raise ConfigError for a run that a package cannot hold."""
    saved = open_saved(request.run, request.checkpoint, request.weights)
    saved.check_exports()
    data, model = saved.config.data, saved.config.model
    if model.positions == "learned" and model.max_positions < OTHERS_READ:
        raise ConfigError(
            [
                f"{request.run}: has learned positions for {model.max_positions:,} pieces, and Argos Translate reads "
                f"{OTHERS_READ:,}; train with model.max_positions={OTHERS_READ} or sinusoidal positions"
            ]
        )
    if language_code(data.src) == language_code(data.tgt):
        raise ConfigError(
            [f"{request.run}: Argos Translate has one code, {language_code(data.src)}, for {data.src} and {data.tgt}"]
        )


def language_code(name: str) -> str:
    """Return Argos Translate's code for a language of a config: without a region, with few exceptions."""
    return _CODES.get(normalized(name), normalized(name).split("_")[0])


def _files(folder: ExportDir, license: str | None) -> dict[str, bytes]:  # noqa: A002
    """Return the files of the package, in the directory of the archive, from an export for CTranslate2."""
    loaded = load_folder(folder.path)
    config, step = loaded.config, loaded.info.step
    source = folder.tokenizer.joint if loaded.tokenizers.joint else folder.tokenizer.language(config.data.src)
    codes = [language_code(name) for name in config.data.sides]
    model = {f"model/{name}": (folder.path / name).read_bytes() for name in sorted(loaded.checksums)
             if "/" not in name and name != folder.config.name}  # fmt: skip
    card = folder.card.read_text(encoding="utf-8").partition(USE)[0] + _use(config, codes)
    files = {
        "metadata.json": json.dumps(_metadata(config, codes, step, license), indent=2, ensure_ascii=False).encode(),
        "README.md": card.encode(),
        "sentencepiece.model": source.read_bytes() + _WITH_SPACE_BEFORE,
        "minisbd/splitter.onnx": splitter(codes[0]),
        **model,
    }
    return {f"translate-{'_'.join(codes)}-nmt/{name}": data for name, data in files.items()}


def _metadata(config: Config, codes: list[str], step: int, license: str | None) -> dict[str, str]:  # noqa: A002
    """Return the content of metadata.json; Argos Translate leaves its `license` unread."""
    return {
        "package_version": f"1.{step}",
        "argos_version": "1.11",
        "from_code": codes[0],
        "from_name": language_name(config.data.src),
        "to_code": codes[1],
        "to_name": language_name(config.data.tgt),
        **({} if license is None else {"license": license}),
    }


def _use(config: Config, codes: list[str]) -> str:
    """Return the end of the model card."""
    return f"""{USE}
With this package as `FILE{SUFFIX}`, and Argos Translate 1.11 or newer:

```python
from argostranslate import package, translate

package.install_from_path("FILE{SUFFIX}")
print(translate.translate("A sentence in {config.data.src}.", "{codes[0]}", "{codes[1]}"))
```

LibreTranslate offers it, too, once it is installed. Texts are divided into sentences by rules, without a download.
"""
